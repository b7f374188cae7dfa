//! The multivariate Student-t distribution.

use super::gamma::ln_standard_gamma;
use super::symmetric;
use crate::error::{Check, ParameterError};
use crate::special::ln_rising_factorial;
use npb_linalg::Cholesky;
use npb_linalg::faer::{Mat, MatRef};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use std::f64::consts::PI;

/// t_df(location, T): covariance df/(df - 2) T when df > 2. `T` is the shape matrix, not the covariance.
///
/// ```
/// use npb_linalg::faer::Mat;
/// use npb_priors::dist::StudentT;
/// let t = StudentT::new(vec![0.0, 0.0], Mat::<f64>::identity(2, 2).as_ref(), 1.0)?;
/// assert!((t.marginal(&[1])?.ln_density(&[0.0]).exp() - std::f64::consts::FRAC_1_PI).abs() < 1e-15); // Cauchy
/// assert_eq!(t.conditional(&[0], &[3.0])?.scale()[(0, 0)], 5.0); // (df + 9) / (df + 1)
/// # Ok::<(), npb_priors::ParameterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StudentT {
    location: Vec<f64>,
    scale: Mat<f64>,
    factor: Cholesky,
    df: f64,
    ln_constant: f64,
}

impl StudentT {
    /// `location`: length P, finite; `scale`: T, P x P, symmetric positive definite, lower triangle read; `df`: positive,
    /// finite. Cost: P^3/3.
    ///
    /// # Errors
    /// A size that does not fit, an entry or parameter out of range, a scale that is not positive definite.
    pub fn new(
        location: Vec<f64>,
        scale: MatRef<'_, f64>,
        df: f64,
    ) -> Result<Self, ParameterError> {
        let check = Check("student-t");
        check.positive("df", df)?;
        check.all_finite("location", &location)?;
        check.size("scale (rows)", location.len(), scale.nrows())?;
        check.size("scale (columns)", location.len(), scale.ncols())?;
        let factor = check.factor("scale", scale)?;
        let ln_constant = ln_t_constant(df, location.len(), factor.ln_det());
        let scale = symmetric(scale);
        Ok(Self {
            location,
            scale,
            factor,
            df,
            ln_constant,
        })
    }

    /// P.
    pub fn dim(&self) -> usize {
        self.location.len()
    }

    /// The centre, and the mean when df > 1.
    pub fn location(&self) -> &[f64] {
        &self.location
    }

    /// T.
    pub fn scale(&self) -> MatRef<'_, f64> {
        self.scale.as_ref()
    }

    /// Degrees of freedom.
    pub fn df(&self) -> f64 {
        self.df
    }

    /// df/(df - 2) T, or nothing when df <= 2.
    pub fn covariance(&self) -> Option<Mat<f64>> {
        let inflation = self.df / (self.df - 2.0);
        (self.df > 2.0).then(|| {
            Mat::from_fn(self.dim(), self.dim(), |i, j| {
                inflation * self.scale[(i, j)]
            })
        })
    }

    /// (x - location)' T^-1 (x - location); panics when `x` is not of length P. Cost: P^2/2.
    pub fn squared_distance(&self, x: &[f64]) -> f64 {
        assert_eq!(x.len(), self.dim(), "a vector of length P is needed");
        let mut d: Vec<f64> = x.iter().zip(&self.location).map(|(x, m)| x - m).collect();
        self.factor.solve_l(&mut d);
        d.iter().map(|v| v * v).sum()
    }

    /// Log-density at `x`; panics when it is not of length P. Cost: P^2/2.
    pub fn ln_density(&self, x: &[f64]) -> f64 {
        self.ln_constant + ln_t_kernel(self.df, self.dim(), self.squared_distance(x))
    }

    /// The law of the coordinates `keep`, in that order; panics on an index out of range or given twice.
    ///
    /// # Errors
    /// A block of T that is positive definite in exact arithmetic only.
    pub fn marginal(&self, keep: &[usize]) -> Result<Self, ParameterError> {
        check_indices(keep, self.dim());
        let location = keep.iter().map(|&i| self.location[i]).collect();
        Self::new(location, block(self.scale(), keep).as_ref(), self.df)
    }

    /// The law of the other coordinates (ascending) given that those of `observed` have the values `x`.
    ///
    /// df + |o| degrees of freedom, location m_m + T_mo T_oo^-1 (x - m_o), scale
    /// (df + delta)/(df + |o|) (T_mm - T_mo T_oo^-1 T_om) with delta the squared distance of `x`.
    /// Panics on an index out of range or given twice, and when `x` has another length than `observed`.
    /// Cost: |o|^3/3 + |o|^2 |m| + |m|^3/3.
    ///
    /// # Errors
    /// A value of `x` so large that the result overflows; a block of T that is positive definite in exact arithmetic only.
    pub fn conditional(&self, observed: &[usize], x: &[f64]) -> Result<Self, ParameterError> {
        check_indices(observed, self.dim());
        assert_eq!(
            x.len(),
            observed.len(),
            "one value for each observed coordinate is needed"
        );
        let missing: Vec<usize> = (0..self.dim()).filter(|i| !observed.contains(i)).collect();
        let factor_o = Check("student-t").factor(
            "scale (observed block)",
            block(self.scale(), observed).as_ref(),
        )?;
        let mut residual: Vec<f64> = observed
            .iter()
            .zip(x)
            .map(|(&i, x)| x - self.location[i])
            .collect();
        factor_o.solve_l(&mut residual);
        // Columns of L^-1 T_om.
        let half: Vec<Vec<f64>> = missing
            .iter()
            .map(|&j| {
                let mut column: Vec<f64> = observed.iter().map(|&i| self.scale[(i, j)]).collect();
                factor_o.solve_l(&mut column);
                column
            })
            .collect();
        let n_observed = observed.len() as f64;
        let inflation = (self.df + dot(&residual, &residual)) / (self.df + n_observed);
        let location = missing
            .iter()
            .zip(&half)
            .map(|(&j, h)| self.location[j] + dot(h, &residual))
            .collect();
        let scale = Mat::from_fn(missing.len(), missing.len(), |i, j| {
            inflation * (self.scale[(missing[i], missing[j])] - dot(&half[i], &half[j]))
        });
        Self::new(location, scale.as_ref(), self.df + n_observed)
    }

    /// Draws x into `out`; panics when it is not of length P. Cost: P^2/2.
    pub fn sample<R: Rng + ?Sized>(&self, out: &mut [f64], rng: &mut R) {
        assert_eq!(out.len(), self.dim(), "room for P numbers is needed");
        out.fill_with(|| rng.sample(StandardNormal));
        self.factor.mul_l(out);
        // A chi-square over its degrees of freedom.
        let half_df = 0.5 * self.df;
        let ln_weight = ln_standard_gamma(half_df, rng) - half_df.ln();
        let stretch = (-0.5 * ln_weight).exp();
        for (x, m) in out.iter_mut().zip(&self.location) {
            *x = m + stretch * *x;
        }
    }
}

/// Log of the constant factor of a P-dimensional t density with ln |T| = `ln_det_scale`.
pub(super) fn ln_t_constant(df: f64, p: usize, ln_det_scale: f64) -> f64 {
    let p = p as f64;
    ln_rising_factorial(0.5 * df, 0.5 * p) - 0.5 * (p * (df * PI).ln() + ln_det_scale)
}

/// Log of the factor that depends on the squared distance.
pub(super) fn ln_t_kernel(df: f64, p: usize, squared_distance: f64) -> f64 {
    -0.5 * (df + p as f64) * ln_1p_ratio(squared_distance, df)
}

/// ln(1 + d/df), also where the quotient overflows.
fn ln_1p_ratio(d: f64, df: f64) -> f64 {
    let ratio = d / df;
    if ratio == f64::INFINITY {
        d.ln() - df.ln()
    } else {
        ratio.ln_1p()
    }
}

fn block(m: MatRef<'_, f64>, keep: &[usize]) -> Mat<f64> {
    Mat::from_fn(keep.len(), keep.len(), |i, j| m[(keep[i], keep[j])])
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn check_indices(indices: &[usize], p: usize) {
    for (position, &i) in indices.iter().enumerate() {
        assert!(i < p, "coordinate {i} of {p}");
        assert!(
            !indices[..position].contains(&i),
            "coordinate {i} is given twice"
        );
    }
}
