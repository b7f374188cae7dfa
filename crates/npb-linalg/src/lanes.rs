//! Many Gaussians of one size side by side, conditioned on one missing pattern in one pass.
//!
//! A mixture model conditions every row on its missing pattern once per component. All components share the row's pattern, so
//! the K small factorisations are done together: the **component index is innermost** in every array of this module, element
//! (i, j) of component h is at `[(i * n + j) * lanes + h]`, and `lanes` is K rounded up to a multiple of 8. The instruction set
//! is chosen at run time; results are bit-equal on one machine.
//!
//! * [`LaneBank`]: K symmetric positive definite matrices; [`LaneBank::factor`] factors one principal block of all of them.
//! * [`LaneGaussian`]: K Gaussians in precision and covariance form; [`LaneGaussian::condition`] factors whichever block of a
//!   pattern is cheaper and gives the same results from either.
//!
//! Lanes beyond the K components hold the identity on input; what they hold on output means nothing.

mod kernels;

use faer::{Mat, MatRef};

use crate::aligned::Aligned;
use crate::cholesky::{Cholesky, NotPositiveDefinite};
use kernels::{LANE_MULTIPLE, packed, strict};

/// The matrix of one component is not positive definite.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("component {component}: {source}")]
#[non_exhaustive]
pub struct ComponentNotPositiveDefinite {
    /// Index of the component; the first one, if there are several.
    pub component: usize,
    /// Pivot (a position in the block that was factored) and its value.
    pub source: NotPositiveDefinite,
}

/// K symmetric positive definite P x P matrices, stored component-innermost.
///
/// ```
/// use npb_linalg::{faer::mat, lanes::{LaneBank, LaneScratch}};
///
/// let mut bank = LaneBank::new(2, 3);
/// for component in 0..3 {
///     let scale = 1.0 + component as f64;
///     bank.set(component, mat![[2.0 * scale, scale], [scale, 2.0 * scale]].as_ref());
/// }
/// let mut scratch = LaneScratch::default();
/// let mut block = bank.factor(&[0, 1], &mut scratch)?;
/// assert!((block.ln_det()[1] - 12f64.ln()).abs() < 1e-12);
/// // Solves with the right-hand side (3, 3) for every component.
/// let mut x = vec![3.0; 2 * bank.lanes()];
/// let mut quad = vec![0.0; bank.lanes()];
/// block.solve(&mut x, &mut quad);
/// assert!((x[1] - 0.5).abs() < 1e-12 && (quad[1] - 3.0).abs() < 1e-12);
/// # Ok::<(), npb_linalg::lanes::ComponentNotPositiveDefinite>(())
/// ```
#[derive(Clone, Debug)]
pub struct LaneBank {
    dim: usize,
    components: usize,
    lanes: usize,
    /// Lower triangles, row by row: element (i, j), j <= i, is at `packed(i, j) * lanes`.
    lower: Aligned<f64>,
}

impl LaneBank {
    /// A bank of `components` identity matrices of size `dim` x `dim`. Memory: dim²/2 x lanes numbers.
    pub fn new(dim: usize, components: usize) -> Self {
        let lanes = components.next_multiple_of(LANE_MULTIPLE);
        let mut lower = Aligned::default();
        lower.resize(dim * (dim + 1) / 2 * lanes);
        for i in 0..dim {
            lower[packed(i, i) * lanes..][..lanes].fill(1.0);
        }
        Self {
            dim,
            components,
            lanes,
            lower,
        }
    }

    /// Replaces the matrix of one component by `matrix` (P x P; only its lower triangle is read). Cost: P²/2.
    ///
    /// # Panics
    /// If there is no such component or `matrix` has another size.
    pub fn set(&mut self, component: usize, matrix: MatRef<'_, f64>) {
        assert!(
            component < self.components,
            "component {component} of {}",
            self.components
        );
        assert_eq!(
            matrix.shape(),
            (self.dim, self.dim),
            "matrix size differs from that of the bank"
        );
        for j in 0..self.dim {
            for i in j..self.dim {
                self.lower[packed(i, j) * self.lanes + component] = matrix[(i, j)];
            }
        }
    }

    /// The matrix of one component (P x P). Cost: P².
    ///
    /// # Panics
    /// If there is no such component.
    pub fn get(&self, component: usize) -> Mat<f64> {
        assert!(
            component < self.components,
            "component {component} of {}",
            self.components
        );
        let element = |i, j| self.lower[packed(i, j) * self.lanes + component];
        Mat::from_fn(self.dim, self.dim, element)
    }

    /// Number of rows of each matrix, P.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of components, K.
    pub fn components(&self) -> usize {
        self.components
    }

    /// Innermost length of every array: K rounded up to a multiple of 8.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Factors the principal block with rows and columns `block`, in this order, of every component.
    ///
    /// Cost per component: |block|³/6 multiply-add pairs; nothing is allocated once `scratch` has grown.
    /// Source: A = L D Lᵀ with unit lower L, so that no square roots are taken.
    ///
    /// # Errors
    /// [`ComponentNotPositiveDefinite`] when a pivot is not a positive normal number; NaN and infinities in the block end there.
    ///
    /// # Panics
    /// If an index is not below P.
    pub fn factor<'a>(
        &self,
        block: &[usize],
        scratch: &'a mut LaneScratch,
    ) -> Result<LaneFactor<'a>, ComponentNotPositiveDefinite> {
        scratch.factor(self, block)?;
        Ok(LaneFactor { scratch })
    }
}

/// Memory for the factorisations of this module, reused from pattern to pattern; one per thread.
#[derive(Clone, Debug)]
pub struct LaneScratch {
    arch: pulp::Arch,
    components: usize,
    lanes: usize,
    /// Size of the factored block.
    n: usize,
    /// Unit lower factor without its diagonal, row by row: element (i, k), k < i, is at `strict(i, k) * lanes`.
    lower: Aligned<f64>,
    /// Diagonal D, and its reciprocals.
    pivots: Aligned<f64>,
    recips: Aligned<f64>,
    ln_det: Aligned<f64>,
    /// A full square matrix, and what it is.
    square: Aligned<f64>,
    square_holds: Square,
    /// Column of the factor or right-hand side at hand.
    work: Aligned<f64>,
    /// L⁻¹ S_om and D⁻¹ L⁻¹ S_om, one missing coordinate after the other (|m| x |o|).
    half: Aligned<f64>,
    scaled_half: Aligned<f64>,
}

/// What the square matrix of a [`LaneScratch`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Square {
    Nothing,
    /// The inverse of the factored block.
    Inverse,
    /// The Schur complement of the factored block.
    Schur,
}

impl Default for LaneScratch {
    fn default() -> Self {
        Self {
            arch: pulp::Arch::new(),
            components: 0,
            lanes: 0,
            n: 0,
            lower: Aligned::default(),
            pivots: Aligned::default(),
            recips: Aligned::default(),
            ln_det: Aligned::default(),
            square: Aligned::default(),
            square_holds: Square::Nothing,
            work: Aligned::default(),
            half: Aligned::default(),
            scaled_half: Aligned::default(),
        }
    }
}

impl LaneScratch {
    fn factor(
        &mut self,
        bank: &LaneBank,
        block: &[usize],
    ) -> Result<(), ComponentNotPositiveDefinite> {
        assert!(
            block.iter().all(|&i| i < bank.dim),
            "an index of the block is not below {}",
            bank.dim
        );
        let (n, lanes) = (block.len(), bank.lanes);
        (self.n, self.lanes, self.components) = (n, lanes, bank.components);
        self.square_holds = Square::Nothing;
        self.lower.resize(strict(n, 0) * lanes);
        for buffer in [&mut self.pivots, &mut self.recips, &mut self.work] {
            buffer.resize(n * lanes);
        }
        self.ln_det.resize(lanes);
        let positive = self.arch.dispatch(kernels::Factor {
            lanes,
            bank: &bank.lower,
            block,
            lower: &mut self.lower,
            pivots: &mut self.pivots,
            recips: &mut self.recips,
            work: &mut self.work,
            ln_det: &mut self.ln_det,
        });
        if positive {
            Ok(())
        } else {
            Err(self.first_failure())
        }
    }

    #[cold]
    fn first_failure(&self) -> ComponentNotPositiveDefinite {
        (0..self.components)
            .flat_map(|component| (0..self.n).map(move |pivot| (component, pivot)))
            .map(|(component, pivot)| (component, pivot, self.pivots[pivot * self.lanes + component]))
            .find(|&(_, _, value)| !(value >= f64::MIN_POSITIVE && value.is_finite()))
            .map(|(component, pivot, value)| ComponentNotPositiveDefinite {
                component,
                source: NotPositiveDefinite { pivot, value },
            })
            .expect("the kernel saw a bad pivot in one of the components: the other lanes hold the identity")
    }

    /// r <- A⁻¹ r; quad <- rᵀ A⁻¹ r of the old r.
    fn solve(&mut self, r: &mut [f64], quad: &mut [f64]) {
        assert_eq!(
            r.len(),
            self.n * self.lanes,
            "right-hand side: length differs from |block| x lanes"
        );
        assert_eq!(
            quad.len(),
            self.lanes,
            "quadratic form: length differs from lanes"
        );
        let Self {
            arch,
            lanes,
            lower,
            recips,
            ..
        } = self;
        arch.dispatch(kernels::Solve {
            lanes: *lanes,
            lower,
            recips,
            r,
            quad,
        });
    }

    /// square <- the inverse of the factored block, unless it is there.
    fn invert(&mut self) {
        if self.square_holds == Square::Inverse {
            return;
        }
        self.square.resize(self.n * self.n * self.lanes);
        let Self {
            arch,
            lanes,
            n,
            lower,
            recips,
            square,
            work,
            ..
        } = self;
        arch.dispatch(kernels::Invert {
            lanes: *lanes,
            n: *n,
            lower,
            recips,
            square,
            work,
        });
        self.square_holds = Square::Inverse;
    }

    /// square <- S_mm - S_mo S_oo⁻¹ S_om, the factored block being S_oo, unless it is there.
    fn schur_complement(&mut self, bank: &LaneBank, observed: &[usize], missing: &[usize]) {
        if self.square_holds == Square::Schur {
            return;
        }
        let (n, m, lanes) = (self.n, missing.len(), self.lanes);
        self.square.resize(m * m * lanes);
        self.half.resize(m * n * lanes);
        self.scaled_half.resize(m * n * lanes);
        self.arch.dispatch(kernels::Schur {
            lanes,
            bank: &bank.lower,
            observed,
            missing,
            lower: &self.lower,
            recips: &self.recips,
            half: &mut self.half,
            scaled_half: &mut self.scaled_half,
            square: &mut self.square,
        });
        self.square_holds = Square::Schur;
    }

    /// y <- y + sign * (block of the bank) x, the block having the given rows and columns.
    fn add_product(
        &self,
        bank: &LaneBank,
        rows: &[usize],
        cols: &[usize],
        sign: f64,
        x: &[f64],
        y: &mut [f64],
    ) {
        let lanes = self.lanes;
        self.arch.dispatch(kernels::AddProduct {
            lanes,
            bank: &bank.lower,
            rows,
            cols,
            sign,
            x,
            y,
        });
    }
}

/// One factored principal block of every matrix of a [`LaneBank`].
#[derive(Debug)]
pub struct LaneFactor<'a> {
    scratch: &'a mut LaneScratch,
}

impl LaneFactor<'_> {
    /// ln det of the block, by component (length `lanes`).
    pub fn ln_det(&self) -> &[f64] {
        &self.scratch.ln_det
    }

    /// r <- A⁻¹ r (`r`: |block| x lanes), and quad <- rᵀ A⁻¹ r of the old r (`quad`: lanes). Cost per component: |block|².
    ///
    /// # Panics
    /// If a length is wrong.
    pub fn solve(&mut self, r: &mut [f64], quad: &mut [f64]) {
        self.scratch.solve(r, quad);
    }

    /// A⁻¹, both triangles (|block| x |block| x lanes); computed when first asked for. Cost per component: |block|³/3.
    pub fn inverse(&mut self) -> &[f64] {
        self.scratch.invert();
        &self.scratch.square
    }
}

/// K Gaussians over the same P coordinates, in precision form Λ_h and covariance form S_h = Λ_h⁻¹, stored component-innermost.
///
/// ```
/// use npb_linalg::{faer::mat, lanes::{LaneGaussian, LaneScratch}};
///
/// let mut bank = LaneGaussian::new(2, 1);
/// bank.set_precision(0, mat![[2.0, 1.0], [1.0, 2.0]].as_ref())?;
/// let lanes = bank.lanes();
/// let mut scratch = LaneScratch::default();
/// // Coordinate 1 is missing: precision 2, so that the linear term 3 gives the mean 3/2.
/// let mut given = bank.condition(&[0], &[1], &mut scratch).expect("positive definite");
/// let (mut r, mut quad) = (vec![3.0; lanes], vec![0.0; lanes]);
/// given.solve(&mut r, &mut quad);
/// assert!((r[0] - 1.5).abs() < 1e-12 && (quad[0] - 4.5).abs() < 1e-12);
/// assert!((given.covariance()[0] - 0.5).abs() < 1e-12);
/// # Ok::<(), npb_linalg::NotPositiveDefinite>(())
/// ```
#[derive(Clone, Debug)]
pub struct LaneGaussian {
    precision: LaneBank,
    covariance: LaneBank,
    /// ln det Λ_h, by lane.
    ln_det: Vec<f64>,
    /// Memory for [`LaneGaussian::set_precision`].
    factor: Cholesky,
    inverse: Mat<f64>,
}

impl LaneGaussian {
    /// `components` standard normal distributions over `dim` coordinates.
    pub fn new(dim: usize, components: usize) -> Self {
        let bank = LaneBank::new(dim, components);
        Self {
            ln_det: vec![0.0; bank.lanes],
            precision: bank.clone(),
            covariance: bank,
            factor: Cholesky::default(),
            inverse: Mat::zeros(dim, dim),
        }
    }

    /// Replaces one component by the one with this `precision` matrix (P x P; only its lower triangle is read).
    /// Cost: P³/2, for the covariance matrix.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`]; the component is then unchanged.
    ///
    /// # Panics
    /// If there is no such component or `precision` has another size.
    pub fn set_precision(
        &mut self,
        component: usize,
        precision: MatRef<'_, f64>,
    ) -> Result<(), NotPositiveDefinite> {
        assert_eq!(
            precision.nrows(),
            self.dim(),
            "matrix size differs from that of the bank"
        );
        self.factor.factor(precision)?;
        self.factor.inverse_reusing(self.inverse.as_mut());
        self.precision.set(component, precision);
        self.covariance.set(component, self.inverse.as_ref());
        self.ln_det[component] = self.factor.ln_det();
        Ok(())
    }

    /// S_h = Λ_h⁻¹ (P x P). Cost: P².
    ///
    /// # Panics
    /// If there is no such component.
    pub fn covariance(&self, component: usize) -> Mat<f64> {
        self.covariance.get(component)
    }

    /// Number of coordinates, P.
    pub fn dim(&self) -> usize {
        self.precision.dim
    }

    /// Number of components, K.
    pub fn components(&self) -> usize {
        self.precision.components
    }

    /// Innermost length of every array: K rounded up to a multiple of 8.
    pub fn lanes(&self) -> usize {
        self.precision.lanes
    }

    /// ln det Λ_h, by component (length `lanes`).
    pub fn ln_det_precision(&self) -> &[f64] {
        &self.ln_det
    }

    /// Prepares the law of the coordinates `missing` given the coordinates `observed`, for every component.
    ///
    /// Cost per component: |m|³/6 to factor Λ_mm, or |o|³/6 to factor S_oo when |o| < 0.6 |m|. Nothing is allocated once
    /// `scratch` has grown.
    ///
    /// # Errors
    /// [`ComponentNotPositiveDefinite`] when a block is not positive definite, which can only come from rounding.
    ///
    /// # Panics
    /// If an index is not below P, or the two lists together are not of length P.
    pub fn condition<'a>(
        &'a self,
        observed: &'a [usize],
        missing: &'a [usize],
        scratch: &'a mut LaneScratch,
    ) -> Result<LaneConditional<'a>, ComponentNotPositiveDefinite> {
        assert_eq!(
            observed.len() + missing.len(),
            self.dim(),
            "a pattern lists every coordinate once"
        );
        let side = Side::cheaper(observed.len(), missing.len());
        match side {
            Side::Missing => scratch.factor(&self.precision, missing)?,
            Side::Observed => {
                scratch.factor(&self.covariance, observed)?;
                // ln det Λ_mm = ln det S_oo + ln det Λ.
                scratch
                    .ln_det
                    .iter_mut()
                    .zip(&self.ln_det)
                    .for_each(|(x, ln_det)| *x += ln_det);
            }
        }
        Ok(LaneConditional {
            bank: self,
            observed,
            missing,
            side,
            scratch,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The missing block of the precision is factored.
    Missing,
    /// The observed block of the covariance is factored.
    Observed,
}

impl Side {
    /// With |o| = t |m|, factor and covariance cost |m|³/2 on the missing side and |m|³ (t³/6 + t²/2 + t/2) on the observed side:
    /// equal at t = 0.6. Measured at P = 34, the break-even is at t = 0.55 with the covariance and at t = 0.7 without.
    fn cheaper(observed: usize, missing: usize) -> Self {
        if 5 * observed < 3 * missing {
            Self::Observed
        } else {
            Self::Missing
        }
    }
}

/// The missing coordinates of every component of a [`LaneGaussian`] given the observed ones, for one pattern.
#[derive(Debug)]
pub struct LaneConditional<'a> {
    bank: &'a LaneGaussian,
    observed: &'a [usize],
    missing: &'a [usize],
    side: Side,
    scratch: &'a mut LaneScratch,
}

impl LaneConditional<'_> {
    /// ln det Λ_mm = -ln det Cov[x_m | x_o], by component (length `lanes`).
    pub fn ln_det(&self) -> &[f64] {
        &self.scratch.ln_det
    }

    /// Whether the observed block was factored: [`LaneConditional::regress`] then costs less than [`LaneConditional::solve`].
    pub fn factors_observed(&self) -> bool {
        self.side == Side::Observed
    }

    /// From the linear term r = l_m - Λ_mo x_o to the conditional mean: r <- Λ_mm⁻¹ r (`r`: |m| x lanes), and
    /// quad <- rᵀ Λ_mm⁻¹ r of the old r (`quad`: lanes).
    ///
    /// Cost per component: |m|²; when the observed block was factored and [`LaneConditional::covariance`] has not been asked for,
    /// |m|² + 2 |m| |o| + |o|².
    ///
    /// # Panics
    /// If a length is wrong.
    pub fn solve(&mut self, r: &mut [f64], quad: &mut [f64]) {
        match self.side {
            Side::Missing => self.scratch.solve(r, quad),
            Side::Observed => self.solve_by_covariance(r, quad),
        }
    }

    /// Cov[x_m | x_o] = Λ_mm⁻¹, both triangles (|m| x |m| x lanes); computed when first asked for.
    ///
    /// Cost per component: |m|³/3, or |m|² |o|/2 + |m| |o|²/2 when the observed block was factored.
    pub fn covariance(&mut self) -> &[f64] {
        match self.side {
            Side::Missing => self.scratch.invert(),
            Side::Observed => {
                self.scratch
                    .schur_complement(&self.bank.covariance, self.observed, self.missing)
            }
        }
        &self.scratch.square
    }

    /// S_oo⁻¹, both triangles (|o| x |o| x lanes), if the observed block was factored; none if the missing one was, whose inverse
    /// [`LaneConditional::covariance`] is. Computed when first asked for, in the memory of the covariance.
    ///
    /// For sums of covariances over many patterns this is all that is needed of each: with zeros at the observed coordinates,
    /// Cov[x | x_o] = S - S pad(S_oo⁻¹) S, which is linear in the padded inverse.
    ///
    /// Cost per component: |o|³/3.
    pub fn observed_inverse(&mut self) -> Option<&[f64]> {
        if !self.factors_observed() {
            return None;
        }
        self.scratch.invert();
        Some(&self.scratch.square)
    }

    /// From the deviation d = x_o - μ_o (`deviation`: |o| x lanes, used as working memory) to the shift of the mean,
    /// `shift` = E[x_m | x_o] - μ_m (|m| x lanes), and `quad` = dᵀ S_oo⁻¹ d (lanes), the quadratic form of the marginal density of
    /// x_o, whose log-determinant is ln det S_oo = `ln_det` - [`LaneGaussian::ln_det_precision`].
    ///
    /// Cost per component: |m| |o| + |o|² when the observed block was factored, else 2 |m| |o| + |m|² + |o|².
    ///
    /// # Panics
    /// If a length is wrong.
    pub fn regress(&mut self, deviation: &mut [f64], shift: &mut [f64], quad: &mut [f64]) {
        let lanes = self.scratch.lanes;
        assert_eq!(
            deviation.len(),
            self.observed.len() * lanes,
            "deviation: length differs from |o| x lanes"
        );
        assert_eq!(
            shift.len(),
            self.missing.len() * lanes,
            "shift: length differs from |m| x lanes"
        );
        shift.fill(0.0);
        match self.side {
            Side::Observed => {
                self.scratch.solve(deviation, quad);
                let bank = &self.bank.covariance;
                self.scratch
                    .add_product(bank, self.missing, self.observed, 1.0, deviation, shift);
            }
            Side::Missing => {
                let bank = &self.bank.precision;
                self.scratch
                    .add_product(bank, self.missing, self.observed, -1.0, deviation, shift);
                self.scratch.solve(shift, quad);
                // S_oo⁻¹ d = Λ_oo d + Λ_om s.
                let mut weighted = std::mem::take(&mut self.scratch.half);
                weighted.resize(deviation.len());
                weighted.fill(0.0);
                self.scratch.add_product(
                    bank,
                    self.observed,
                    self.observed,
                    1.0,
                    deviation,
                    &mut weighted,
                );
                self.scratch.add_product(
                    bank,
                    self.observed,
                    self.missing,
                    1.0,
                    shift,
                    &mut weighted,
                );
                inner_products(deviation, &weighted, quad);
                self.scratch.half = weighted;
            }
        }
    }

    fn solve_by_covariance(&mut self, r: &mut [f64], quad: &mut [f64]) {
        let lanes = self.scratch.lanes;
        assert_eq!(
            r.len(),
            self.missing.len() * lanes,
            "right-hand side: length differs from |m| x lanes"
        );
        assert_eq!(
            quad.len(),
            lanes,
            "quadratic form: length differs from lanes"
        );
        let mut mean = std::mem::take(&mut self.scratch.work);
        mean.resize(r.len());
        if self.scratch.square_holds == Square::Schur {
            let square = &self.scratch.square;
            self.scratch.arch.dispatch(kernels::Product {
                lanes,
                square,
                x: r,
                y: &mut mean,
            });
        } else {
            self.product_with_covariance(r, &mut mean, quad);
        }
        inner_products(r, &mean, quad);
        r.copy_from_slice(&mean);
        self.scratch.work = mean;
    }

    /// mean <- S_mm r - S_mo S_oo⁻¹ S_om r, without forming the matrix; `quad` is used as working memory.
    fn product_with_covariance(&mut self, r: &[f64], mean: &mut [f64], quad: &mut [f64]) {
        let (bank, observed, missing) = (&self.bank.covariance, self.observed, self.missing);
        let mut weights = std::mem::take(&mut self.scratch.half);
        weights.resize(observed.len() * self.scratch.lanes);
        weights.fill(0.0);
        self.scratch
            .add_product(bank, observed, missing, 1.0, r, &mut weights);
        self.scratch.solve(&mut weights, quad);
        mean.fill(0.0);
        self.scratch
            .add_product(bank, missing, missing, 1.0, r, mean);
        self.scratch
            .add_product(bank, missing, observed, -1.0, &weights, mean);
        self.scratch.half = weights;
    }
}

/// out_h <- sum over i of x_ih y_ih.
fn inner_products(x: &[f64], y: &[f64], out: &mut [f64]) {
    let lanes = out.len();
    out.fill(0.0);
    if lanes == 0 {
        return;
    }
    for (x, y) in x.chunks_exact(lanes).zip(y.chunks_exact(lanes)) {
        for h in 0..lanes {
            out[h] += x[h] * y[h];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instruction sets this machine has, narrowest first.
    fn archs() -> Vec<pulp::Arch> {
        let mut archs = vec![pulp::Arch::Scalar];
        #[cfg(target_arch = "x86_64")]
        archs.extend(pulp::x86::V3::try_new().map(pulp::Arch::V3));
        archs.push(pulp::Arch::new());
        archs
    }

    /// Lane counts that make the kernels take windows of 1, 2, 3 and 4 registers.
    #[test]
    fn every_instruction_set_and_window_agrees() {
        let p = 7;
        for components in [8, 16, 20, 32, 40] {
            let mut bank = LaneGaussian::new(p, components);
            for h in 0..components {
                let matrix = Mat::from_fn(p, p, |i, j| {
                    let spread = (i * p + j + 3 * h) as f64;
                    if i == j {
                        4.0 + spread.sin()
                    } else {
                        0.5 * (spread * (i + j) as f64).cos()
                    }
                });
                bank.set_precision(h, matrix.as_ref())
                    .expect("diagonally dominant");
            }
            for (observed, missing) in [
                (vec![0, 2, 4, 6], vec![1, 3, 5]),
                (vec![3], vec![0, 1, 2, 4, 5, 6]),
            ] {
                let mut reference: Option<Vec<f64>> = None;
                for arch in archs() {
                    let mut scratch = LaneScratch {
                        arch,
                        ..LaneScratch::default()
                    };
                    let mut given = bank
                        .condition(&observed, &missing, &mut scratch)
                        .expect("positive definite");
                    let lanes = bank.lanes();
                    let mut r: Vec<f64> = (0..missing.len() * lanes)
                        .map(|k| (k as f64).sin())
                        .collect();
                    let mut quad = vec![0.0; lanes];
                    given.solve(&mut r, &mut quad);
                    let mut found = given.covariance().to_vec();
                    found.extend(given.ln_det());
                    found.extend(&r);
                    found.extend(&quad);
                    match &reference {
                        None => reference = Some(found),
                        Some(reference) => {
                            assert!(
                                reference
                                    .iter()
                                    .zip(&found)
                                    .all(|(x, y)| (x - y).abs() < 1e-13 * (1.0 + x.abs()))
                            );
                        }
                    }
                }
            }
        }
    }
}
