//! The law of the missing coordinates of a Gaussian given the observed ones.
//!
//! A [`Gaussian`] keeps its precision matrix Λ and its covariance S = Λ⁻¹. [`Gaussian::condition`] takes a missing pattern and
//! factors the smaller of two blocks, once for all rows with this pattern:
//!
//! * missing block smaller: x_m | x_o ~ N(μ_m - Λ_mm⁻¹ Λ_mo (x_o - μ_o), Λ_mm⁻¹);
//! * observed block smaller: x_m | x_o ~ N(μ_m + S_mo S_oo⁻¹ (x_o - μ_o), S_mm - S_mo S_oo⁻¹ S_om).
//!
//! The other form of each result follows from ln det Λ_mm = ln det S_oo - ln det S. A complete row factors nothing.

use faer::{Mat, MatMut, MatRef};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::cholesky::{Cholesky, NotPositiveDefinite, dot};

const LN_2PI: f64 = 1.837_877_066_409_345_3;

/// A multivariate normal distribution over P coordinates, with its precision and its covariance matrix at hand.
///
/// ```
/// use npb_linalg::{condition::{Gaussian, Scratch}, faer::mat};
///
/// // Unit variances, correlation 0.8; the second coordinate is missing.
/// let gaussian = Gaussian::from_covariance(&[1.0, 2.0], mat![[1.0, 0.8], [0.8, 1.0]].as_ref())?;
/// let mut scratch = Scratch::default();
/// let mut given = gaussian.condition(&[0], &[1], &mut scratch)?;
/// let mut row = [2.0, 0.0];
/// given.complete(&mut row);
/// assert!((row[1] - 2.8).abs() < 1e-12);
/// assert!((given.covariance()[(0, 0)] - 0.36).abs() < 1e-12);
/// # Ok::<(), npb_linalg::NotPositiveDefinite>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gaussian {
    mean: Vec<f64>,
    precision: Mat<f64>,
    covariance: Mat<f64>,
    ln_det_precision: f64,
    /// Factor of the matrix that was given.
    factor: Cholesky,
    given: Given,
    /// Memory for the next factor, so that a matrix that cannot be factored changes nothing.
    spare: Cholesky,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    Precision,
    Covariance,
}

impl Gaussian {
    /// The standard normal distribution over `dim` coordinates, to be replaced by [`Gaussian::set_precision`] or
    /// [`Gaussian::set_covariance`].
    pub fn standard(dim: usize) -> Self {
        let identity = Mat::identity(dim, dim);
        Self {
            mean: vec![0.0; dim],
            factor: Cholesky::new(identity.as_ref()).expect("the identity is positive definite"),
            precision: identity.clone(),
            covariance: identity,
            ln_det_precision: 0.0,
            given: Given::Precision,
            spare: Cholesky::default(),
        }
    }

    /// N(Λ⁻¹ l, Λ⁻¹) from its `linear` term l (length P) and its `precision` Λ (P x P, lower triangle read). Cost: P³/2.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`] when `precision` is not.
    ///
    /// # Panics
    /// If the sizes disagree.
    pub fn from_precision(
        linear: &[f64],
        precision: MatRef<'_, f64>,
    ) -> Result<Self, NotPositiveDefinite> {
        let mut gaussian = Self::standard(linear.len());
        gaussian.set_precision(linear, precision)?;
        Ok(gaussian)
    }

    /// N(m, S) from its `mean` m (length P) and its `covariance` S (P x P, lower triangle read). Cost: P³/2.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`] when `covariance` is not.
    ///
    /// # Panics
    /// If the sizes disagree.
    pub fn from_covariance(
        mean: &[f64],
        covariance: MatRef<'_, f64>,
    ) -> Result<Self, NotPositiveDefinite> {
        let mut gaussian = Self::standard(mean.len());
        gaussian.set_covariance(mean, covariance)?;
        Ok(gaussian)
    }

    /// Replaces the distribution, of the same dimension, without allocating from the second time on; see [`Gaussian::from_precision`].
    ///
    /// # Errors
    /// As [`Gaussian::from_precision`]; the distribution is then unchanged.
    pub fn set_precision(
        &mut self,
        linear: &[f64],
        precision: MatRef<'_, f64>,
    ) -> Result<(), NotPositiveDefinite> {
        self.replace_factor(Given::Precision, linear, precision)?;
        self.factor.solve(&mut self.mean);
        self.factor.inverse_reusing(self.covariance.as_mut());
        copy_symmetric(precision, &mut self.precision);
        self.ln_det_precision = self.factor.ln_det();
        Ok(())
    }

    /// Replaces the distribution, of the same dimension, without allocating from the second time on; see [`Gaussian::from_covariance`].
    ///
    /// # Errors
    /// As [`Gaussian::from_covariance`]; the distribution is then unchanged.
    pub fn set_covariance(
        &mut self,
        mean: &[f64],
        covariance: MatRef<'_, f64>,
    ) -> Result<(), NotPositiveDefinite> {
        self.replace_factor(Given::Covariance, mean, covariance)?;
        self.factor.inverse_reusing(self.precision.as_mut());
        copy_symmetric(covariance, &mut self.covariance);
        self.ln_det_precision = -self.factor.ln_det();
        Ok(())
    }

    fn replace_factor(
        &mut self,
        given: Given,
        vector: &[f64],
        matrix: MatRef<'_, f64>,
    ) -> Result<(), NotPositiveDefinite> {
        assert_eq!(
            (vector.len(), matrix.nrows()),
            (self.dim(), self.dim()),
            "sizes differ from the dimension"
        );
        self.spare.factor(matrix)?;
        std::mem::swap(&mut self.factor, &mut self.spare);
        self.given = given;
        self.mean.copy_from_slice(vector);
        Ok(())
    }

    /// x <- a vector of squared length xᵀ Λ x.
    fn whiten(&self, x: &mut [f64]) {
        match self.given {
            Given::Precision => self.factor.mul_lt(x),
            Given::Covariance => self.factor.solve_l(x),
        }
    }

    /// From independent standard normals to a draw from N(0, S).
    fn colour(&self, z: &mut [f64]) {
        match self.given {
            Given::Precision => self.factor.solve_lt(z),
            Given::Covariance => self.factor.mul_l(z),
        }
    }

    /// Number of coordinates, P.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// Mean, length P.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Precision matrix, both triangles.
    pub fn precision(&self) -> MatRef<'_, f64> {
        self.precision.as_ref()
    }

    /// Covariance matrix, both triangles.
    pub fn covariance(&self) -> MatRef<'_, f64> {
        self.covariance.as_ref()
    }

    /// ln det of the precision matrix.
    pub fn ln_det_precision(&self) -> f64 {
        self.ln_det_precision
    }

    /// Prepares the law of the coordinates `missing` given the coordinates `observed`, for any number of rows.
    ///
    /// Cost: min(|o|, |m|)³/6 to factor, |o| |m| to gather; nothing is allocated once `scratch` has grown.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`] when the smaller block is not, which can only come from rounding.
    ///
    /// # Panics
    /// If an index is not below P, or the two lists together are not of length P.
    pub fn condition<'a>(
        &'a self,
        observed: &'a [usize],
        missing: &'a [usize],
        scratch: &'a mut Scratch,
    ) -> Result<Conditional<'a>, NotPositiveDefinite> {
        assert_eq!(
            observed.len() + missing.len(),
            self.dim(),
            "a pattern lists every coordinate once"
        );
        let side = if missing.len() <= observed.len() {
            Side::Missing
        } else {
            Side::Observed
        };
        let (matrix, factored) = match side {
            Side::Missing => (&self.precision, missing),
            Side::Observed => (&self.covariance, observed),
        };
        let n = factored.len();
        scratch
            .factor
            .factor_with(n, |lower| gather_lower(matrix, factored, lower))?;
        scratch.cross.clear();
        for &m in missing {
            let column = matrix.col_as_slice(m);
            scratch.cross.extend(observed.iter().map(|&o| column[o]));
        }
        scratch.covariance_ready = false;
        Ok(Conditional {
            gaussian: self,
            observed,
            missing,
            side,
            scratch,
        })
    }

    /// ln N(x_o; μ_o, S_oo): the log-density of the observed entries of `row` (length P; missing entries are not read).
    ///
    /// Cost: min(|o|, |m|)³/6 + O(P²). For many rows with one pattern use [`Gaussian::condition`] and
    /// [`Conditional::ln_density_observed`].
    ///
    /// # Errors
    /// As [`Gaussian::condition`].
    pub fn ln_marginal(
        &self,
        observed: &[usize],
        missing: &[usize],
        row: &[f64],
        scratch: &mut Scratch,
    ) -> Result<f64, NotPositiveDefinite> {
        Ok(self
            .condition(observed, missing, scratch)?
            .ln_density_observed(row))
    }
}

/// Memory for [`Gaussian::condition`], reused from pattern to pattern.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// Factor of Λ_mm or of S_oo.
    factor: Cholesky,
    /// Λ_mo or S_mo, row by row (|m| x |o|).
    cross: Vec<f64>,
    /// x_o - μ_o of the row at hand.
    deviation: Vec<f64>,
    /// Working vector of length |m|, |o| or P.
    work: Vec<f64>,
    /// L⁻¹ S_om, column by column (|o| x |m|).
    half: Vec<f64>,
    /// Conditional covariance, column by column.
    covariance: Vec<f64>,
    covariance_ready: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The missing block of the precision is factored.
    Missing,
    /// The observed block of the covariance is factored.
    Observed,
}

/// The missing coordinates of a [`Gaussian`] given the observed ones, for one pattern.
#[derive(Debug)]
pub struct Conditional<'a> {
    gaussian: &'a Gaussian,
    observed: &'a [usize],
    missing: &'a [usize],
    side: Side,
    scratch: &'a mut Scratch,
}

impl Conditional<'_> {
    /// Writes E[x_m | x_o] for the observed entries of `row` (length P; missing entries are not read) to `out` (length |m|).
    /// Cost: |o| |m| + min(|o|, |m|)².
    ///
    /// # Panics
    /// If `row` or `out` has the wrong length.
    pub fn mean(&mut self, row: &[f64], out: &mut [f64]) {
        assert_eq!(
            row.len(),
            self.gaussian.dim(),
            "row length differs from the dimension"
        );
        assert_eq!(
            out.len(),
            self.missing.len(),
            "output length differs from the number of missing coordinates"
        );
        self.set_deviation(row);
        self.shift_of_mean(out);
        for (x, &m) in out.iter_mut().zip(self.missing) {
            *x += self.gaussian.mean[m];
        }
    }

    /// Writes E[x_m | x_o] to the missing entries of `row` (length P), from its observed entries. Cost: as [`Conditional::mean`].
    pub fn complete(&mut self, row: &mut [f64]) {
        let mut mean = std::mem::take(&mut self.scratch.work);
        mean.resize(self.missing.len(), 0.0);
        self.mean(row, &mut mean);
        scatter(&mean, self.missing, row);
        self.scratch.work = mean;
    }

    /// Draws x_m given x_o into the missing entries of `row` (length P). Cost: as [`Conditional::mean`], and P² when the observed
    /// block is the smaller one.
    ///
    /// Source: on the observed side, a draw u of all coordinates is corrected by the regression on its own observed part,
    /// x_m = E[x_m | x_o] + u_m - S_mo S_oo⁻¹ u_o (Matheron's rule), so that the |m| x |m| covariance is never factored.
    pub fn sample<R: Rng + ?Sized>(&mut self, row: &mut [f64], rng: &mut R) {
        let mut draw = std::mem::take(&mut self.scratch.work);
        match self.side {
            Side::Missing => {
                draw.resize(self.missing.len(), 0.0);
                self.mean(row, &mut draw);
                let mut noise = std::mem::take(&mut self.scratch.half);
                fill_normal(&mut noise, self.missing.len(), rng);
                self.scratch.factor.solve_lt(&mut noise);
                for (x, e) in draw.iter_mut().zip(&noise) {
                    *x += e;
                }
                self.scratch.half = noise;
            }
            Side::Observed => {
                let mut joint = std::mem::take(&mut self.scratch.half);
                fill_normal(&mut joint, self.gaussian.dim(), rng);
                self.gaussian.colour(&mut joint);
                self.set_deviation(row);
                for (d, &o) in self.scratch.deviation.iter_mut().zip(self.observed) {
                    *d -= joint[o];
                }
                draw.resize(self.missing.len(), 0.0);
                self.shift_of_mean(&mut draw);
                for (x, &m) in draw.iter_mut().zip(self.missing) {
                    *x += self.gaussian.mean[m] + joint[m];
                }
                self.scratch.half = joint;
            }
        }
        scatter(&draw, self.missing, row);
        self.scratch.work = draw;
    }

    /// Cov[x_m | x_o], |m| x |m|, both triangles; the same for every row of the pattern and computed when first asked for.
    /// Cost: |m|³/3, or |m|² |o|/2 + |m| |o|²/2 when the observed block is the smaller one.
    pub fn covariance(&mut self) -> MatRef<'_, f64> {
        let n = self.missing.len();
        if !self.scratch.covariance_ready {
            self.scratch.covariance.resize(n * n, 0.0);
            match self.side {
                Side::Missing => {
                    let out = &mut self.scratch.covariance;
                    let out = MatMut::from_column_major_slice_mut(out, n, n);
                    self.scratch.factor.inverse_reusing(out);
                }
                Side::Observed => self.schur_complement(),
            }
            self.scratch.covariance_ready = true;
        }
        MatRef::from_column_major_slice(&self.scratch.covariance, n, n)
    }

    /// ln det Λ_mm = -ln det Cov[x_m | x_o].
    pub fn ln_det_precision(&self) -> f64 {
        let factored = self.scratch.factor.ln_det();
        match self.side {
            Side::Missing => factored,
            Side::Observed => factored + self.gaussian.ln_det_precision,
        }
    }

    /// ln N(x_o; μ_o, S_oo) of the observed entries of `row` (length P; missing entries are not read); 0 if none is observed.
    /// Cost: |o| |m| + P²/2, or |o|²/2 when the observed block is the smaller one.
    pub fn ln_density_observed(&mut self, row: &[f64]) -> f64 {
        assert_eq!(
            row.len(),
            self.gaussian.dim(),
            "row length differs from the dimension"
        );
        self.set_deviation(row);
        let (ln_det, square) = match self.side {
            Side::Missing => (
                self.gaussian.ln_det_precision - self.scratch.factor.ln_det(),
                self.completed_square(),
            ),
            Side::Observed => {
                self.scratch.factor.solve_l(&mut self.scratch.deviation);
                (
                    -self.scratch.factor.ln_det(),
                    squared_length(&self.scratch.deviation),
                )
            }
        };
        0.5 * (ln_det - self.observed.len() as f64 * LN_2PI - square)
    }

    fn set_deviation(&mut self, row: &[f64]) {
        let mean = &self.gaussian.mean;
        self.scratch.deviation.clear();
        self.scratch
            .deviation
            .extend(self.observed.iter().map(|&o| row[o] - mean[o]));
    }

    /// out <- E[x_m | x_o] - μ_m for the deviation at hand, which is overwritten.
    fn shift_of_mean(&mut self, out: &mut [f64]) {
        let Scratch {
            factor,
            cross,
            deviation,
            ..
        } = &mut *self.scratch;
        let sign = match self.side {
            Side::Missing => -1.0,
            Side::Observed => {
                factor.solve(deviation);
                1.0
            }
        };
        if deviation.is_empty() {
            out.fill(0.0);
            return;
        }
        for (x, cross_row) in out.iter_mut().zip(cross.chunks_exact(deviation.len())) {
            *x = sign * dot(cross_row, deviation);
        }
        if self.side == Side::Missing {
            factor.solve(out);
        }
    }

    /// (x_o - μ_o)ᵀ S_oo⁻¹ (x_o - μ_o) as dᵀ Λ d with the missing part of d at its conditional mean: a sum of squares, which
    /// cannot cancel as the difference Λ_oo - Λ_om Λ_mm⁻¹ Λ_mo would.
    fn completed_square(&mut self) -> f64 {
        let mut shift = std::mem::take(&mut self.scratch.half);
        shift.resize(self.missing.len(), 0.0);
        self.shift_of_mean(&mut shift);
        let mut completed = std::mem::take(&mut self.scratch.work);
        completed.resize(self.gaussian.dim(), 0.0);
        scatter(&self.scratch.deviation, self.observed, &mut completed);
        scatter(&shift, self.missing, &mut completed);
        self.gaussian.whiten(&mut completed);
        let square = squared_length(&completed);
        self.scratch.half = shift;
        self.scratch.work = completed;
        square
    }

    /// S_mm - S_mo S_oo⁻¹ S_om.
    fn schur_complement(&mut self) {
        let Scratch {
            factor,
            cross,
            half,
            covariance,
            ..
        } = &mut *self.scratch;
        let (n, k) = (self.missing.len(), self.observed.len());
        half.clear();
        half.extend_from_slice(cross);
        if k > 0 {
            half.chunks_exact_mut(k)
                .for_each(|column| factor.solve_l(column));
        }
        for (j, &mj) in self.missing.iter().enumerate() {
            let source = self.gaussian.covariance.col_as_slice(mj);
            let half_j = &half[j * k..(j + 1) * k];
            for (i, &mi) in self.missing.iter().enumerate().skip(j) {
                let value = source[mi] - dot(half_j, &half[i * k..(i + 1) * k]);
                covariance[j * n + i] = value;
                covariance[i * n + j] = value;
            }
        }
    }
}

fn gather_lower(matrix: &Mat<f64>, indices: &[usize], lower: &mut [f64]) {
    let n = indices.len();
    for (j, &source) in indices.iter().enumerate() {
        let column = matrix.col_as_slice(source);
        for (target, &i) in lower[j * n + j..(j + 1) * n].iter_mut().zip(&indices[j..]) {
            *target = column[i];
        }
    }
}

/// target <- both triangles of `a`, from its lower one.
fn copy_symmetric(a: MatRef<'_, f64>, target: &mut Mat<f64>) {
    for j in 0..a.ncols() {
        for i in j..a.nrows() {
            target[(i, j)] = a[(i, j)];
            target[(j, i)] = a[(i, j)];
        }
    }
}

fn scatter(values: &[f64], indices: &[usize], row: &mut [f64]) {
    for (value, &i) in values.iter().zip(indices) {
        row[i] = *value;
    }
}

fn fill_normal<R: Rng + ?Sized>(target: &mut Vec<f64>, n: usize, rng: &mut R) {
    target.clear();
    target.extend((0..n).map(|_| -> f64 { StandardNormal.sample(rng) }));
}

fn squared_length(x: &[f64]) -> f64 {
    dot(x, x)
}
