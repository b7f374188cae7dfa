//! Statistics of real vectors, and their prior.

use super::{Conjugate, Statistics};
use crate::dist::student_t::{ln_t_constant, ln_t_kernel};
use crate::dist::{NormalWishart, StudentT, Wishart};
use crate::error::ParameterError;
use crate::special::LN_SQRT_2PI;
use npb_linalg::faer::{Mat, MatRef};

/// Number, mean and centred scatter matrix of vectors of length P, updated without cancellation. Cost per vector: P^2.
///
/// ```
/// use npb_priors::dist::{Scatter, Statistics};
/// let mut seen = Scatter::new(2);
/// seen.add(&[1.0, 2.0]);
/// seen.add(&[3.0, 8.0]);
/// assert_eq!((seen.n(), seen.mean()), (2, &[2.0, 5.0][..]));
/// assert_eq!((seen.centred()[(0, 0)], seen.centred()[(1, 0)], seen.centred()[(1, 1)]), (2.0, 6.0, 18.0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    n: u64,
    mean: Vec<f64>,
    /// Lower triangle only.
    centred: Mat<f64>,
}

impl Scatter {
    /// Nothing seen yet of vectors of length `p`.
    pub fn new(p: usize) -> Self {
        Self {
            n: 0,
            mean: vec![0.0; p],
            centred: Mat::zeros(p, p),
        }
    }

    /// How many vectors.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Their mean, 0 when there are none.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// sum (x - mean)(x - mean)', lower triangle.
    pub fn centred(&self) -> MatRef<'_, f64> {
        self.centred.as_ref()
    }

    /// Adds `weight` d d' with d the distance of `x` from the present mean.
    fn add_outer(&mut self, x: &[f64], weight: f64) {
        for j in 0..x.len() {
            let scaled = weight * (x[j] - self.mean[j]);
            for i in j..x.len() {
                self.centred[(i, j)] += scaled * (x[i] - self.mean[i]);
            }
        }
    }

    fn move_mean(&mut self, x: &[f64], step: f64) {
        for (m, x) in self.mean.iter_mut().zip(x) {
            *m += step * (x - *m);
        }
    }
}

impl Statistics for Scatter {
    type Datum = [f64];

    /// Panics when `x` is not of length P.
    fn add(&mut self, x: &[f64]) {
        assert_eq!(x.len(), self.mean.len(), "a vector of length P is needed");
        let before = self.n as f64;
        self.n += 1;
        let n = self.n as f64;
        self.add_outer(x, before / n);
        self.move_mean(x, n.recip());
    }

    /// Panics when `x` is not of length P.
    fn remove(&mut self, x: &[f64]) {
        assert_eq!(x.len(), self.mean.len(), "a vector of length P is needed");
        if self.n == 1 {
            *self = Self::new(x.len());
            return;
        }
        self.n -= 1;
        let n = self.n as f64;
        self.add_outer(x, -(n + 1.0) / n);
        self.move_mean(x, -n.recip());
    }
}

/// The unknown mean vector and precision matrix of normal observations.
impl Conjugate for NormalWishart {
    type Stats = Scatter;

    /// B_n^-1 = B^-1 + S + u n/(u + n) (mean - m)(mean - m)', nu_n = nu + n, u_n = u + n, m_n = (u m + n mean)/u_n.
    ///
    /// Panics when the data have another length, as do the next two. Cost: P^3.
    fn posterior(&self, data: &Scatter) -> Result<Self, ParameterError> {
        assert_eq!(
            data.mean.len(),
            self.dim(),
            "vectors of length P are needed"
        );
        let n = data.n as f64;
        let strength = self.strength() + n;
        let d: Vec<f64> = data
            .mean
            .iter()
            .zip(self.mean())
            .map(|(x, m)| x - m)
            .collect();
        let mean = self
            .mean()
            .iter()
            .zip(&d)
            .map(|(m, d)| m + n / strength * d)
            .collect();
        let mut inverse = self.precision().inverse_scale();
        let weight = self.strength() * n / strength;
        for j in 0..d.len() {
            for i in j..d.len() {
                inverse[(i, j)] += data.centred[(i, j)] + weight * d[i] * d[j];
            }
        }
        NormalWishart::new(
            mean,
            strength,
            Wishart::from_inverse_scale(inverse.as_ref(), self.precision().df() + n)?,
        )
    }

    fn ln_evidence(&self, data: &Scatter) -> Result<f64, ParameterError> {
        let posterior = self.posterior(data)?;
        let (n, p) = (data.n as f64, self.dim() as f64);
        let of_mean = -0.5 * p * (n / self.strength()).ln_1p();
        let of_precision = self.precision().ln_normalizer() - posterior.precision().ln_normalizer();
        Ok(of_mean + of_precision - n * p * LN_SQRT_2PI)
    }

    /// The log-density of [`NormalWishart::predictive`], without building it. Cost: P^2.
    fn ln_predictive(&self, x: &[f64]) -> f64 {
        let p = self.dim();
        let (df, stretch) = self.predictive_df_and_stretch();
        let ln_det = p as f64 * stretch.ln() - self.precision().ln_det_scale();
        ln_t_constant(df, p, ln_det) + ln_t_kernel(df, p, self.scaled_distance(x) / stretch)
    }
}

impl NormalWishart {
    /// The law of the next observation: Student-t with nu - P + 1 degrees of freedom, centre m and scale
    /// (u + 1)/(u (nu - P + 1)) B^-1. Cost: P^3.
    ///
    /// # Errors
    /// A scale that overflows.
    pub fn predictive(&self) -> Result<StudentT, ParameterError> {
        let (df, stretch) = self.predictive_df_and_stretch();
        let inverse = self.precision().inverse_scale();
        let scale = Mat::from_fn(self.dim(), self.dim(), |i, j| stretch * inverse[(i, j)]);
        StudentT::new(self.mean().to_vec(), scale.as_ref(), df)
    }

    /// Degrees of freedom of the predictive, and its scale over B^-1.
    fn predictive_df_and_stretch(&self) -> (f64, f64) {
        let df = self.precision().df() - self.dim() as f64 + 1.0;
        (df, (1.0 + self.strength().recip()) / df)
    }
}
