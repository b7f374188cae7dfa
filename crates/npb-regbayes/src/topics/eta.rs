//! `q(eta)`: the machine on expected shares, what it costs, and what it asks of the documents.

use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, dot};
use serde::{Deserialize, Serialize};

use super::config::{Form, MedLdaConfig};
use super::corpus::Response;
use super::documents::Documents;
use crate::dense::centre_and_scale;
use crate::error::RegBayesError;
use crate::inputs::Inputs;
use crate::loss::Targets;
use crate::machine::{Machine, Problem, Solution};

/// Responses as the machine takes them: real ones in standard units.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) enum Standard {
    None,
    Real(Vec<f64>),
    Classes { classes: Vec<u32>, n_classes: usize },
}

/// Centre and scale of real responses; 0 and 1 without.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Units {
    pub(crate) centre: f64,
    pub(crate) scale: f64,
}

impl Standard {
    /// The responses of some documents, as they are.
    pub(crate) fn select(response: Response<'_>, rows: &[usize]) -> Self {
        match response {
            Response::None => Self::None,
            Response::Real(values) => Self::Real(rows.iter().map(|&n| values[n]).collect()),
            Response::Classes { classes, n_classes } => Self::Classes {
                classes: rows.iter().map(|&n| classes[n]).collect(),
                n_classes,
            },
        }
    }

    pub(crate) fn response(&self) -> Response<'_> {
        match self {
            Self::None => Response::None,
            Self::Real(values) => Response::Real(values),
            Self::Classes { classes, n_classes } => Response::Classes {
                classes,
                n_classes: *n_classes,
            },
        }
    }

    /// Standardises over documents that have tokens: the others take no part.
    pub(crate) fn new(response: Response<'_>, lengths: &[f64]) -> (Self, Units) {
        let mut units = Units {
            centre: 0.0,
            scale: 1.0,
        };
        let mut standard = Self::select(response, &(0..lengths.len()).collect::<Vec<_>>());
        if let Self::Real(values) = &mut standard {
            let filled = values.iter().zip(lengths).filter(|(_, l)| **l > 0.0);
            let filled: Vec<f64> = filled.map(|(y, _)| *y).collect();
            (units.centre, units.scale) = centre_and_scale(&filled);
            values
                .iter_mut()
                .for_each(|y| *y = (*y - units.centre) / units.scale);
        }
        (standard, units)
    }
}

/// The machine's part of the model at given shares.
#[derive(Clone, Debug)]
pub(crate) struct Eta {
    /// Mean of `eta`, `n_scores x n_topics`.
    pub(crate) mean: Vec<f64>,
    /// Covariance of `eta`, full form only; elsewhere it is the identity.
    pub(crate) covariance: Option<Mat<f64>>,
    /// The machine's solution (in the full form: for the whitened remainder).
    pub(crate) solution: Solution,
    /// `KL(q(eta) || p) - E ln p(y | z, eta) + C sum loss`.
    pub(crate) objective: f64,
    /// `sum_n E (y_n - eta' zbar_n)^2` and the number of terms, full form only.
    pub(crate) squares: (f64, f64),
}

/// What is fixed while `q(eta)` is found.
pub(crate) struct Setting<'a> {
    pub(crate) config: &'a MedLdaConfig,
    pub(crate) responses: &'a Standard,
    /// Cost of each document; 0 where it takes no part.
    pub(crate) costs: &'a [f64],
    /// Noise variance of the full form, in standard units.
    pub(crate) noise: f64,
}

impl Setting<'_> {
    pub(crate) fn is_full(&self) -> bool {
        self.config.form == Form::Full && matches!(self.responses, Standard::Real(_))
    }

    /// The best `q(eta)` at these documents; nothing without responses. `second`: `sum_n E[zbar zbar']` over the documents that take part, full form only.
    pub(crate) fn solve(
        &self,
        documents: &Documents,
        second: &Mat<f64>,
        warm: Option<&Solution>,
    ) -> Result<Option<Eta>, RegBayesError> {
        let targets = match self.responses {
            Standard::None => return Ok(None),
            Standard::Real(values) if self.is_full() => {
                return self.solve_full(documents, values, second, warm).map(Some);
            }
            Standard::Real(values) => self.real(values),
            Standard::Classes { classes, n_classes } => Targets::Classes {
                classes,
                n_classes: *n_classes,
                margin: self.config.margin,
                slack: self.config.slack,
            },
        };
        let solution = self.machine(&documents.shares, targets, warm)?;
        Ok(Some(Eta {
            mean: solution.weights.clone(),
            covariance: None,
            objective: solution.primal,
            squares: (0.0, 0.0),
            solution,
        }))
    }

    fn real<'t>(&self, values: &'t [f64]) -> Targets<'t> {
        Targets::Real {
            values,
            epsilon: self.config.epsilon,
            slack: self.config.slack,
        }
    }

    fn machine(
        &self,
        inputs: &[f64],
        targets: Targets<'_>,
        warm: Option<&Solution>,
    ) -> Result<Solution, RegBayesError> {
        let costs = self.costs;
        let machine = Machine::new(Inputs::dense(inputs, self.config.topics)?);
        machine.solve(&Problem { targets, costs }, warm, &self.config.machine)
    }

    /// The full form: `q(eta) = N(S a, S)`, `S = (I + sum E[zz'] / delta^2)^-1`, `a = sum_n (y_n / delta^2 + omega_n) E z_n` (R appendix B, corrected, `docs/regbayes.md#medlda`).
    ///
    /// With `S^-1 = R R'` and `eta = R'^-1 (v_0 + u)`, `v_0 = R^-1 sum y_n E z_n / delta^2`, this is the machine for `u` on inputs `R^-1 E z_n` and targets
    /// `y_n - v_0' R^-1 E z_n`.
    fn solve_full(
        &self,
        documents: &Documents,
        values: &[f64],
        second: &Mat<f64>,
        warm: Option<&Solution>,
    ) -> Result<Eta, RegBayesError> {
        let (k, noise) = (self.config.topics, self.noise);
        let identity = Mat::<f64>::identity(k, k);
        let precision = Mat::from_fn(k, k, |i, j| identity[(i, j)] + second[(i, j)] / noise);
        let factor = Cholesky::new(precision.as_ref())
            .map_err(|e| RegBayesError::numerical(0, "coefficients of topics", &e))?;
        let rows = || documents.shares.chunks_exact(k).zip(values).zip(self.costs);
        let taking_part = || rows().filter(|(_, cost)| **cost > 0.0).map(|(row, _)| row);
        let mut base = vec![0.0; k];
        let (mut square, mut n) = (0.0, 0.0);
        for (share, y) in taking_part() {
            base.iter_mut()
                .zip(share)
                .for_each(|(b, z)| *b += y * z / noise);
            square += y * y;
            n += 1.0;
        }
        let sum_yz: Vec<f64> = base.iter().map(|b| b * noise).collect();
        factor.solve_l(&mut base);
        let mut inputs = documents.shares.clone();
        inputs.chunks_exact_mut(k).for_each(|x| factor.solve_l(x));
        let remainders: Vec<f64> = inputs
            .chunks_exact(k)
            .zip(values)
            .map(|(x, y)| y - dot(x, &base))
            .collect();
        let solution = self.machine(&inputs, self.real(&remainders), warm)?;
        let mut mean: Vec<f64> = base
            .iter()
            .zip(&solution.weights)
            .map(|(b, u)| b + u)
            .collect();
        factor.solve_lt(&mut mean);
        let covariance = factor.inverse();
        let half_ln_noise = 0.5 * n * (2.0 * std::f64::consts::PI * noise).ln();
        let likelihood = half_ln_noise + 0.5 * square / noise;
        let objective =
            solution.primal - 0.5 * dot(&base, &base) + 0.5 * factor.ln_det() + likelihood;
        let moments = (0..k).flat_map(|i| (0..k).map(move |j| (i, j)));
        let spread: f64 = moments
            .map(|(i, j)| (covariance[(i, j)] + mean[i] * mean[j]) * second[(i, j)])
            .sum();
        Ok(Eta {
            squares: (square - 2.0 * dot(&mean, &sum_yz) + spread, n),
            covariance: Some(covariance),
            mean,
            solution,
            objective,
        })
    }
}

/// `y mu / delta^2 - ((V - 1) A zbar + diag(A) / 2) / (V delta^2)` with `A = E[eta eta']` (R appendix B, corrected; the tokens of a document share one tilt, so that
/// "all other tokens" are `(V - 1) zbar`).
pub(super) fn add_likelihood(
    mean: &[f64],
    covariance: &Mat<f64>,
    y: f64,
    noise: f64,
    length: f64,
    shares: &[f64],
    out: &mut [f64],
) {
    let fitted = dot(mean, shares);
    let others = (length - 1.0).max(0.0) / length;
    for (i, t) in out.iter_mut().enumerate() {
        let spread: f64 = (0..shares.len())
            .map(|j| covariance[(i, j)] * shares[j])
            .sum();
        let product = spread + mean[i] * fitted;
        let own = covariance[(i, i)] + mean[i] * mean[i];
        *t += (y * mean[i] - others * product - 0.5 * own / length) / noise;
    }
}

impl Eta {
    /// Noise variance that lowers the objective most, and by how much it does: `mean E (y - eta'zbar)^2`, at least a share of the variance of `y`.
    pub(crate) fn best_noise(&self, noise: f64) -> (f64, f64) {
        let (squares, n) = self.squares;
        let best = (squares / n.max(1.0)).max(LEAST_NOISE);
        let cost = |noise: f64| 0.5 * (n * noise.ln() + squares / noise);
        (best, cost(noise) - cost(best))
    }

    /// What the responses ask of a document: the tilt at which `q(z)` is stationary, given everything else.
    pub(crate) fn tilt(
        &self,
        setting: &Setting<'_>,
        row: usize,
        length: f64,
        shares: &[f64],
        out: &mut [f64],
    ) {
        let k = shares.len();
        let n_scores = self.mean.len() / k;
        out.fill(0.0);
        let duals = &self.solution.duals[row * n_scores..][..n_scores];
        for (&dual, mean) in duals.iter().zip(self.mean.chunks_exact(k)) {
            if dual != 0.0 {
                out.iter_mut().zip(mean).for_each(|(t, m)| *t += dual * m);
            }
        }
        if let (Some(covariance), Standard::Real(values)) = (&self.covariance, setting.responses)
            && setting.costs[row] > 0.0
        {
            add_likelihood(
                &self.mean,
                covariance,
                values[row],
                setting.noise,
                length,
                shares,
                out,
            );
        }
    }

    /// Share of the way to its stationary tilt that a document goes at once: `1 / (1 + v / delta^2)`, with `v` how much `E[eta]' zbar` answers to the tilt (at most).
    pub(crate) fn damping(&self, noise: f64, length: f64, shares: &[f64]) -> f64 {
        let Some(covariance) = &self.covariance else {
            return 1.0;
        };
        let k = shares.len();
        let product = |i: usize, j: usize| covariance[(i, j)] + self.mean[i] * self.mean[j];
        let mut spread = 0.0;
        for i in 0..k {
            let row: f64 = (0..k).map(|j| product(i, j) * shares[j]).sum();
            spread += shares[i] * (product(i, i) - row);
        }
        1.0 / (1.0 + spread.max(0.0) / (length.max(1.0) * noise))
    }
}

/// Noise variance below which a fit is taken for perfect, as a share of the variance of the responses.
const LEAST_NOISE: f64 = 1e-3;
