//! The Wishart distribution of a precision matrix.

use super::gamma::{ln_standard_gamma, rate_ratio_kl, unit_entropy};
use super::{ln_excess, symmetric};
use crate::error::{Check, ParameterError};
use crate::special::{digamma, ln_multivariate_gamma, multivariate_digamma};
use npb_linalg::Cholesky;
use npb_linalg::faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use npb_linalg::faer::{Mat, MatRef, Par};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};
use std::f64::consts::{LN_2, PI};

/// Wishart W(B, nu) on P x P precision matrices: mean nu B, nu > P - 1 real.
///
/// Density: B(B, nu) |Lambda|^((nu-P-1)/2) exp(-tr(B^-1 Lambda)/2).
///
/// ```
/// use npb_linalg::faer::Mat;
/// use npb_priors::dist::Wishart;
/// let w = Wishart::new(Mat::<f64>::identity(2, 2).as_ref(), 3.5).unwrap();
/// assert_eq!(w.mean()[(0, 0)], 3.5);
/// assert!(Wishart::new(w.scale(), 1.0).is_err()); // needs more than P - 1 = 1 degrees of freedom
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "StoredWishart", into = "StoredWishart")]
pub struct Wishart {
    scale: Mat<f64>,
    factor: Cholesky,
    ln_det_scale: f64,
    df: f64,
}

impl Wishart {
    /// `scale`: B, P x P, symmetric positive definite, lower triangle read; `df`: nu > P - 1, finite. Cost: P^3/3.
    ///
    /// # Errors
    /// `scale` not square or not positive definite, `df` out of range.
    pub fn new(scale: MatRef<'_, f64>, df: f64) -> Result<Self, ParameterError> {
        let check = Check("wishart");
        let p = scale.nrows();
        check.size("scale (columns)", p, scale.ncols())?;
        check_df(check, p, df)?;
        let factor = check.factor("scale", scale)?;
        let scale = symmetric(scale);
        Ok(Self {
            ln_det_scale: factor.ln_det(),
            scale,
            factor,
            df,
        })
    }

    /// The same from B^-1, the form in which posterior updates arrive. Cost: P^3 and one more matrix.
    ///
    /// # Errors
    /// As [`Self::new`], named after the inverse scale.
    pub fn from_inverse_scale(inverse: MatRef<'_, f64>, df: f64) -> Result<Self, ParameterError> {
        let check = Check("wishart");
        check.size("inverse scale (columns)", inverse.nrows(), inverse.ncols())?;
        check_df(check, inverse.nrows(), df)?;
        let scale = check.factor("inverse scale", inverse)?.inverse();
        Self::new(scale.as_ref(), df)
    }

    /// P.
    pub fn dim(&self) -> usize {
        self.scale.nrows()
    }

    /// Degrees of freedom nu.
    pub fn df(&self) -> f64 {
        self.df
    }

    /// B.
    pub fn scale(&self) -> MatRef<'_, f64> {
        self.scale.as_ref()
    }

    /// The Cholesky factor of B.
    pub fn factor(&self) -> &Cholesky {
        &self.factor
    }

    /// ln |B|.
    pub fn ln_det_scale(&self) -> f64 {
        self.ln_det_scale
    }

    /// B^-1. Cost: P^3.
    pub fn inverse_scale(&self) -> Mat<f64> {
        self.factor.inverse()
    }

    /// E Lambda = nu B.
    pub fn mean(&self) -> Mat<f64> {
        Mat::from_fn(self.dim(), self.dim(), |i, j| self.df * self.scale[(i, j)])
    }

    /// E ln |Lambda| = sum_{j < P} digamma((nu - j)/2) + P ln 2 + ln |B|.
    pub fn mean_ln_det(&self) -> f64 {
        multivariate_digamma(self.dim(), 0.5 * self.df)
            + self.dim() as f64 * LN_2
            + self.ln_det_scale
    }

    /// ln B(B, nu) = -(nu/2) ln |B| - (nu P/2) ln 2 - ln Gamma_P(nu/2), the logarithm of the density's constant factor.
    pub fn ln_normalizer(&self) -> f64 {
        let half = 0.5 * self.df;
        -half * (self.ln_det_scale + self.dim() as f64 * LN_2)
            - ln_multivariate_gamma(self.dim(), half)
    }

    /// Log-density at a symmetric matrix (lower triangle read); minus infinity when it is not positive definite.
    ///
    /// Panics when `lambda` is not P x P. Cost: P^3.
    pub fn ln_density(&self, lambda: MatRef<'_, f64>) -> f64 {
        assert_eq!(
            (lambda.nrows(), lambda.ncols()),
            (self.dim(), self.dim()),
            "a P x P matrix is needed"
        );
        let Ok(factor) = Cholesky::new(lambda) else {
            return f64::NEG_INFINITY;
        };
        let power = 0.5 * (self.df - self.dim() as f64 - 1.0);
        self.ln_normalizer() + power * factor.ln_det() - 0.5 * self.trace_against(&factor)
    }

    /// Entropy in nats: that of Bartlett's gamma variables, so that large degrees of freedom cost no digits.
    pub fn entropy(&self) -> f64 {
        let p = self.dim() as f64;
        let constant =
            0.5 * (p + 1.0) * (self.ln_det_scale + p * LN_2) + 0.25 * p * (p - 1.0) * PI.ln();
        let each = |j: usize| {
            let (half_df, j) = (0.5 * (self.df - j as f64), j as f64);
            unit_entropy(half_df) + 0.5 * (j + (p - 1.0 - j) * digamma(half_df))
        };
        constant + (0..self.dim()).map(each).sum::<f64>()
    }

    /// KL(self || other) in nats; both must have the same P (panics otherwise). Cost: P^3/2.
    ///
    /// A sum of positive terms, so that large degrees of freedom cost no digits: with A = L_other^-1 L_self, the gamma
    /// variables of Bartlett's decomposition on the diagonal of A, and its other entries squared.
    pub fn kl(&self, other: &Self) -> f64 {
        let mut total = 0.0;
        other.for_each_whitened_column(&self.factor, |j, diagonal, below| {
            let square = diagonal * diagonal;
            let half = |df: f64| 0.5 * (df - j as f64);
            total += rate_ratio_kl(half(self.df), half(other.df), square)
                + 0.5 * (j as f64 * ln_excess(square) + self.df * squared_length(below));
        });
        total
    }

    /// tr(B^-1 M) for M given by its factor.
    fn trace_against(&self, m: &Cholesky) -> f64 {
        let mut total = 0.0;
        self.for_each_whitened_column(m, |_, diagonal, below| {
            total += diagonal * diagonal + squared_length(below);
        });
        total
    }

    /// Calls `f` for every column of the lower triangular L_B^-1 L_M: its number, diagonal entry and entries below.
    fn for_each_whitened_column(&self, m: &Cholesky, mut f: impl FnMut(usize, f64, &[f64])) {
        let p = self.dim();
        assert_eq!(m.dim(), p, "both matrices must have the same size");
        let mut whitened = m.l().to_owned();
        solve_lower_triangular_in_place(self.factor.l(), whitened.as_mut(), Par::Seq);
        for j in 0..p {
            let column = whitened.col_as_slice(j);
            f(j, column[j], &column[j + 1..]);
        }
    }

    /// Draws the lower Cholesky factor of Lambda by Bartlett's decomposition. Cost: P^3.
    ///
    /// For nu within 0.01 of P - 1 the last diagonal entry may underflow to 0.
    pub fn sample_factor<R: Rng + ?Sized>(&self, rng: &mut R) -> Mat<f64> {
        let p = self.dim();
        let mut standard = Mat::<f64>::zeros(p, p);
        for j in 0..p {
            let half_df = 0.5 * (self.df - j as f64);
            let column = &mut standard.col_as_slice_mut(j)[j..];
            column[0] = (0.5 * (LN_2 + ln_standard_gamma(half_df, rng))).exp();
            column[1..].fill_with(|| rng.sample(StandardNormal));
        }
        self.factor.l() * standard
    }

    /// Draws Lambda. Cost: P^3.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Mat<f64> {
        let l = self.sample_factor(rng);
        l.as_ref() * l.as_ref().transpose()
    }
}

fn squared_length(x: &[f64]) -> f64 {
    x.iter().map(|v| v * v).sum()
}

fn check_df(check: Check, p: usize, df: f64) -> Result<(), ParameterError> {
    check.require(
        df > p as f64 - 1.0 && df.is_finite(),
        "df",
        df,
        "finite and > P - 1",
    )
}

/// What a file holds, before the constructor has checked it; the rest is computed again, to the same bits.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredWishart {
    #[serde(with = "npb_linalg::saved")]
    scale: Mat<f64>,
    df: f64,
}

impl From<Wishart> for StoredWishart {
    fn from(wishart: Wishart) -> Self {
        Self {
            scale: wishart.scale().to_owned(),
            df: wishart.df(),
        }
    }
}

impl TryFrom<StoredWishart> for Wishart {
    type Error = ParameterError;

    fn try_from(stored: StoredWishart) -> Result<Self, ParameterError> {
        Self::new(stored.scale.as_ref(), stored.df)
    }
}
