//! Laws with their parameters integrated out, that learn from one observation after the other: what those that were seen say of the next one.
//!
//! With `mu, Lambda` normal-Wishart an observation is Student-t, and so are some of its coordinates given the others. With normal coefficients and noise of
//! variance one a response is normal. Both laws change by rank one with an observation.

use npb_linalg::elementary::vectorised;
use npb_linalg::faer::{Mat, MatRef};
use npb_linalg::{Cholesky, NotPositiveDefinite, dot};
use pulp::Arch;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use super::{NormalWishart, Wishart};
use crate::special::ln_gamma;

/// A Gaussian whose mean and precision are integrated out under a normal-Wishart law.
///
/// ```
/// use npb_linalg::faer::mat;
/// use npb_priors::dist::collapsed::{CollapsedGaussian, Scratch};
///
/// let mut law = CollapsedGaussian::new(&[0.0], 1.0, 3.0, mat![[1.0]].as_ref())?;
/// let scratch = &mut Scratch::default();
/// let before = law.ln_density(&mut [2.0], &[], None::<&mut rand_xoshiro::Xoshiro256PlusPlus>, scratch)?;
/// law.add(&[2.0], scratch);
/// let after = law.ln_density(&mut [2.0], &[], None::<&mut rand_xoshiro::Xoshiro256PlusPlus>, scratch)?;
/// assert!(after > before);
/// # Ok::<(), npb_linalg::NotPositiveDefinite>(())
/// ```
#[derive(Clone, Debug)]
pub struct CollapsedGaussian {
    strength: f64,
    dof: f64,
    /// `-ln|B|`.
    ln_det: f64,
    mean: Vec<f64>,
    /// `B`, by column.
    scale: Vec<f64>,
}

/// Memory for questions about one observation.
#[derive(Debug, Default)]
pub struct Scratch {
    arch: Arch,
    deviation: Vec<f64>,
    product: Vec<f64>,
    noise: Vec<f64>,
    block: Vec<f64>,
    factor: Cholesky,
    /// Observation in the coordinates of a regression's root.
    across: Vec<f64>,
}

impl CollapsedGaussian {
    /// Without observations: `mu | Lambda ~ N(mean, (strength Lambda)^-1)`, `Lambda ~ W(scale_inverse^-1, dof)`.
    ///
    /// # Errors
    /// A scale that is not positive definite.
    pub fn new(
        mean: &[f64],
        strength: f64,
        dof: f64,
        scale_inverse: MatRef<'_, f64>,
    ) -> Result<Self, NotPositiveDefinite> {
        let factor = Cholesky::new(scale_inverse)?;
        let scale = factor.inverse();
        let columns = (0..mean.len()).flat_map(|j| scale.col_as_slice(j).iter().copied());
        Ok(Self {
            strength,
            dof,
            ln_det: factor.ln_det(),
            mean: mean.to_vec(),
            scale: columns.collect(),
        })
    }

    /// `ln p(x_o)`, without the coordinates that are `missing`. With a generator these are drawn given the others, too.
    ///
    /// # Errors
    /// A block of the scale that rounding has left not positive definite.
    pub fn ln_density(
        &self,
        x: &mut [f64],
        missing: &[usize],
        draw: Option<&mut impl Rng>,
        scratch: &mut Scratch,
    ) -> Result<f64, NotPositiveDefinite> {
        let (p, m) = (self.mean.len(), missing.len());
        let seen = (p - m) as f64;
        scratch.deviation.clear();
        let deviations = x.iter().zip(&self.mean).map(|(x, mean)| x - mean);
        scratch.deviation.extend(deviations);
        missing.iter().for_each(|&j| scratch.deviation[j] = 0.0);
        multiply(
            scratch.arch,
            &self.scale,
            &scratch.deviation,
            &mut scratch.product,
        );
        let mut distance = dot(&scratch.deviation, &scratch.product);
        let mut ln_det = self.ln_det;
        scratch.noise.clear();
        if m > 0 {
            self.factor_missing(missing, &mut scratch.block, &mut scratch.factor)?;
            let product = &scratch.product;
            scratch.noise.extend(missing.iter().map(|&j| product[j]));
            scratch.factor.solve_l(&mut scratch.noise);
            distance -= dot(&scratch.noise, &scratch.noise);
            ln_det += scratch.factor.ln_det();
        }
        let (distance, df) = (distance.max(0.0), self.dof - p as f64 + 1.0);
        let spread = 1.0 + 1.0 / self.strength;
        if let (Some(rng), true) = (draw, m > 0) {
            let chi_square = 2.0 * draw_gamma(0.5 * (df + seen), rng);
            let width = ((spread + distance) / chi_square).sqrt();
            for z in &mut scratch.noise {
                *z = width * rng.sample::<f64, _>(StandardNormal) - *z;
            }
            scratch.factor.solve_lt(&mut scratch.noise);
            for (&j, noise) in missing.iter().zip(&scratch.noise) {
                x[j] = self.mean[j] + noise;
            }
        }
        Ok(ln_gamma(0.5 * (df + seen))
            - ln_gamma(0.5 * df)
            - 0.5 * seen * (std::f64::consts::PI * spread).ln()
            - 0.5 * ln_det
            - 0.5 * (df + seen) * (distance / spread).ln_1p())
    }

    fn factor_missing(
        &self,
        missing: &[usize],
        block: &mut Vec<f64>,
        factor: &mut Cholesky,
    ) -> Result<(), NotPositiveDefinite> {
        let (p, m, scale) = (self.mean.len(), missing.len(), &self.scale);
        block.clear();
        for &j in missing {
            block.extend(missing.iter().map(|&i| scale[j * p + i]));
        }
        factor.factor(MatRef::from_column_major_slice(block, m, m))
    }

    /// Takes an observation in.
    pub fn add(&mut self, x: &[f64], scratch: &mut Scratch) {
        let spread = 1.0 + 1.0 / self.strength;
        self.strength += 1.0;
        self.dof += 1.0;
        scratch.deviation.clear();
        let deviations = x.iter().zip(&self.mean).map(|(x, mean)| x - mean);
        scratch.deviation.extend(deviations);
        multiply(
            scratch.arch,
            &self.scale,
            &scratch.deviation,
            &mut scratch.product,
        );
        let distance = dot(&scratch.deviation, &scratch.product);
        self.ln_det += (distance / spread).ln_1p();
        subtract_outer(
            scratch.arch,
            &mut self.scale,
            &scratch.product,
            &scratch.product,
            1.0 / (spread + distance),
        );
        for (mean, deviation) in self.mean.iter_mut().zip(&scratch.deviation) {
            *mean += deviation / self.strength;
        }
    }

    /// Draws `mu` and `Lambda`. Nothing when rounding has left a matrix that is none of a law.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Option<(Vec<f64>, Mat<f64>)> {
        let p = self.mean.len();
        let scale = MatRef::from_column_major_slice(&self.scale, p, p);
        let wishart = Wishart::new(scale, self.dof).ok()?;
        let law = NormalWishart::new(self.mean.clone(), self.strength, wishart).ok()?;
        Some(law.sample(rng))
    }
}

/// A linear regression with noise of variance one whose coefficients are integrated out under a normal law.
#[derive(Clone, Debug)]
pub struct CollapsedRegression {
    mean: Vec<f64>,
    /// `S`, by row, whose square `S S'` is the covariance of the coefficients: a prior precision may be so small that nothing would be left of a covariance from
    /// which observations are subtracted.
    root: Vec<f64>,
}

impl CollapsedRegression {
    /// Without observations: independent coefficients.
    pub fn new(mean: &[f64], precision: &[f64]) -> Self {
        let n = mean.len();
        let mut root = vec![0.0; n * n];
        for (j, precision) in precision.iter().enumerate() {
            root[j * n + j] = 1.0 / precision.sqrt();
        }
        Self {
            mean: mean.to_vec(),
            root,
        }
    }

    /// Mean and standard deviation of the response at `x`.
    pub fn response(&self, x: &[f64], scratch: &mut Scratch) -> [f64; 2] {
        multiply(scratch.arch, &self.root, x, &mut scratch.across);
        let variance = 1.0 + dot(&scratch.across, &scratch.across);
        [dot(&self.mean, x), variance.sqrt()]
    }

    /// Takes the response `t` at `x` in.
    pub fn add(&mut self, x: &[f64], t: f64, scratch: &mut Scratch) {
        multiply(scratch.arch, &self.root, x, &mut scratch.across);
        products(&self.root, &scratch.across, &mut scratch.product);
        let variance = 1.0 + dot(&scratch.across, &scratch.across);
        let gain = (t - dot(&self.mean, x)) / variance;
        // S (I - f f' / v)^(1/2), f = S'x.
        let factor = 1.0 / (variance + variance.sqrt());
        subtract_outer(
            scratch.arch,
            &mut self.root,
            &scratch.across,
            &scratch.product,
            factor,
        );
        for (mean, product) in self.mean.iter_mut().zip(&scratch.product) {
            *mean += gain * product;
        }
    }

    /// Draws the coefficients.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<f64> {
        let n = self.mean.len();
        let z: Vec<f64> = (0..n).map(|_| rng.sample(StandardNormal)).collect();
        let rows = self.root.chunks_exact(n);
        let each = self.mean.iter().zip(rows);
        each.map(|(m, s)| m + dot(s, &z)).collect()
    }
}

fn draw_gamma(shape: f64, rng: &mut impl Rng) -> f64 {
    rand_distr::Gamma::new(shape, 1.0).map_or(f64::NAN, |law| law.sample(rng))
}

/// `product = A x` for a square matrix by column.
fn multiply(arch: Arch, a: &[f64], x: &[f64], product: &mut Vec<f64>) {
    product.clear();
    product.resize(x.len(), 0.0);
    vectorised(
        arch,
        #[inline(always)]
        || {
            for (column, x) in a.chunks_exact(x.len().max(1)).zip(x) {
                for (product, a) in product.iter_mut().zip(column) {
                    *product += a * x;
                }
            }
        },
    );
}

/// `product = A'x` for a matrix by column.
fn products(a: &[f64], x: &[f64], product: &mut Vec<f64>) {
    product.clear();
    let mut blocks = a.chunks_exact(4 * x.len());
    // Four sums at a time: one alone waits for each of its additions.
    for block in &mut blocks {
        let (first, second) = block.split_at(2 * x.len());
        let ((a, b), (c, d)) = (first.split_at(x.len()), second.split_at(x.len()));
        let mut sums = [0.0; 4];
        for ((((x, a), b), c), d) in x.iter().zip(a).zip(b).zip(c).zip(d) {
            for (sum, a) in sums.iter_mut().zip([a, b, c, d]) {
                *sum += a * x;
            }
        }
        product.extend(sums);
    }
    let rest = blocks.remainder().chunks_exact(x.len());
    product.extend(rest.map(|column| dot(column, x)));
}

/// `A -= factor u v'`.
fn subtract_outer(arch: Arch, a: &mut [f64], u: &[f64], v: &[f64], factor: f64) {
    vectorised(
        arch,
        #[inline(always)]
        || {
            for (column, v) in a.chunks_exact_mut(u.len().max(1)).zip(v) {
                let v = factor * v;
                for (a, u) in column.iter_mut().zip(u) {
                    *a -= v * u;
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prior that says next to nothing leaves the least squares fit; a covariance that is stored as it is loses all digits here.
    #[test]
    fn regressions_with_vague_priors_are_least_squares_fits() {
        let mut law = CollapsedRegression::new(&[0.0; 2], &[1e-24; 2]);
        let scratch = &mut Scratch::default();
        for (x, t) in [(-1.0, -2.5), (0.0, 1.0), (1.0, 1.5), (2.0, 4.0)] {
            law.add(&[x, 1.0], t, scratch);
        }
        let [mean, sd] = law.response(&[3.0, 1.0], scratch);
        // Line 0 + 2 x; the inverse of [[6, 2], [2, 4]] is [[4, -2], [-2, 6]] / 20.
        assert!((mean - 6.0).abs() < 1e-3, "{mean}");
        assert!((sd * sd - (1.0 + 1.5)).abs() < 1e-3, "{sd}");
    }

    /// The predictive law is Student's with nu - P + 1 degrees of freedom, of a coordinate alone as well.
    #[test]
    fn predictive_densities_are_students() {
        let scale_inverse = [1.5, 0.4, 0.4, 0.8];
        let scale_inverse = MatRef::from_column_major_slice(&scale_inverse, 2, 2);
        let law = CollapsedGaussian::new(&[0.3, -0.2], 2.0, 5.0, scale_inverse).unwrap();
        let (df, spread) = (4.0_f64, 1.5_f64);
        let student = |n: f64, det: f64, distance: f64| {
            ln_gamma(0.5 * (df + n))
                - ln_gamma(0.5 * df)
                - 0.5 * (n * (std::f64::consts::PI * spread).ln() + det.ln())
                - 0.5 * (df + n) * (distance / spread).ln_1p()
        };
        let (x, y): (f64, f64) = (1.1 - 0.3, -0.9 + 0.2);
        let det = 1.5 * 0.8 - 0.4 * 0.4;
        let both = (0.8 * x * x - 0.8 * x * y + 1.5 * y * y) / det;
        let scratch = &mut Scratch::default();
        let mut found = |missing: &[usize]| {
            let none = None::<&mut rand_xoshiro::Xoshiro256PlusPlus>;
            law.ln_density(&mut [1.1, -0.9], missing, none, scratch)
                .unwrap()
        };
        assert!((found(&[]) - student(2.0, det, both)).abs() < 1e-12);
        assert!((found(&[1]) - student(1.0, 1.5, x * x / 1.5)).abs() < 1e-12);
    }
}
