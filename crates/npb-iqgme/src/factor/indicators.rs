//! The indicators `b_hl`: which columns of the loadings a cluster uses.
//!
//! A indicator is compared with its alternative when everything that it governs has been optimised anew: the factors of all rows of the cluster, the
//! expert's coordinate, and the column itself when no other cluster uses it. Both ways cost no more than the spread of the factors.

use npb_infer::parallel;
use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite, dot};

use super::experts::coordinate;
use super::features::worth_dropping;
use super::rows::{Cluster, RowFactors, Rows, multiply};
use super::state::{FactorState, at_prior, submatrix};
use crate::FactorConfig;
use npb_priors::dist::Gamma;

/// Flips of one cluster's indicators in one update: the gains of all are found again after each.
const FLIPS: usize = 12;

/// A flip must gain this much, so that rounding does not flip indicators for ever.
const LEAST_GAIN: f64 = 1e-6;

/// What a cluster's indicators are judged by.
pub(crate) struct IndicatorGains<'a> {
    pub(crate) rows: Rows<'a>,
    pub(crate) config: &'a FactorConfig,
    pub(crate) loading_prior: &'a Gamma,
    pub(crate) factors: &'a RowFactors,
}

impl IndicatorGains<'_> {
    /// Flips indicators of cluster `h` while that raises the bound.
    pub(crate) fn flip(
        &self,
        state: &mut FactorState,
        h: usize,
    ) -> Result<(), NotPositiveDefinite> {
        for _ in 0..FLIPS {
            let gains = self.gains(state, h)?;
            let best = (0..gains.len()).fold(None, |best: Option<usize>, l| match best {
                Some(b) if gains[b] >= gains[l] => best,
                _ => Some(l),
            });
            let Some(l) = best.filter(|&l| gains[l] > LEAST_GAIN) else {
                return Ok(());
            };
            let on = !state.indicators[h][l];
            state.indicators[h][l] = on;
            let (own, n_utilities) = (state.expert_coordinates(h), state.n_utilities());
            for k in 0..n_utilities {
                let new_variance = self.new_variance(state, h, l, k);
                let vacant = at_prior(state.expert_prior_of(k), &own);
                let expert = &mut state.experts[h * n_utilities + k];
                if expert.at_prior {
                    *expert = vacant;
                    continue;
                }
                for j in 0..expert.mean.len() {
                    expert.covariance[(j, l)] = 0.0;
                    expert.covariance[(l, j)] = 0.0;
                }
                expert.mean[l] = 0.0;
                if on {
                    expert.covariance[(l, l)] = new_variance;
                }
            }
        }
        Ok(())
    }

    /// Variance that a new coordinate of a free expert of utility `k` starts with.
    fn new_variance(&self, state: &FactorState, h: usize, l: usize, k: usize) -> f64 {
        let rows = self.rows.labels.labelled().into_iter();
        let labelled: f64 = rows.map(|i| self.factors.responsibility(i, h)).sum();
        1.0 / (state.expert_prior_of(k)[l].precision().mean() + labelled)
    }

    /// Gain of the bound when a indicator of cluster `h` is flipped, for each of its indicators.
    pub(crate) fn gains(
        &self,
        state: &FactorState,
        h: usize,
    ) -> Result<Vec<f64>, NotPositiveDefinite> {
        let n_factors = state.n_factors();
        let [ln_on, ln_off] = self.config.ln_indicator();
        let used_elsewhere = |l: usize| {
            let mut others = state.indicators.iter().enumerate();
            others.any(|(k, b)| k != h && b[l])
        };
        let mut gains: Vec<f64> = (0..n_factors)
            .map(|l| {
                // A column that no cluster uses will be dropped.
                let column = match used_elsewhere(l) {
                    true => 0.0,
                    false => worth_dropping(state, self.loading_prior, l),
                };
                let off = ln_off - ln_on + column;
                if state.indicators[h][l] { off } else { -off }
            })
            .collect();
        let cluster = &Cluster::all(state)[h];
        let mut new_variances = vec![0.0; n_factors];
        let free = state.experts_of(h).iter().filter(|e| !e.at_prior);
        for (utility, expert) in free.enumerate() {
            let own = state.expert_coordinates(h);
            let prior = state.expert_prior_of(utility);
            let precision = Cholesky::new(submatrix(&expert.covariance, &own).as_ref())?.inverse();
            for (k, &l) in own[..own.len() - 1].iter().enumerate() {
                let term = coordinate(&prior[l], expert.mean[l], expert.covariance[(l, l)]);
                gains[l] -= term - 0.5 * precision[(k, k)].ln();
            }
            for l in (0..n_factors).filter(|&l| !state.indicators[h][l]) {
                let variance = self.new_variance(state, h, l, utility);
                new_variances[l] += variance;
                gains[l] += coordinate(&prior[l], 0.0, variance) + 0.5 * variance.ln();
            }
        }
        let unused = (0..n_factors).filter(|&l| !state.indicators[h][l]);
        let candidates = Candidates {
            cluster,
            unused: unused.collect(),
            new_variances,
        };
        let by_pattern: Vec<Vec<f64>> = parallel::try_map(0..self.rows.patterns.len(), |k| {
            self.pattern_gains(&candidates, h, k, n_factors)
        })?;
        for values in by_pattern {
            let each = gains.iter_mut().zip(values);
            each.for_each(|(sum, gain)| *sum += gain);
        }
        Ok(gains)
    }

    fn pattern_gains(
        &self,
        candidates: &Candidates<'_>,
        h: usize,
        pattern: usize,
        n_factors: usize,
    ) -> Result<Vec<f64>, NotPositiveDefinite> {
        let Candidates {
            cluster, unused, ..
        } = candidates;
        let forms = self.rows.forms;
        let gram = &forms.grams[pattern];
        let own = cluster.own_gram(gram);
        let mut gains = vec![0.0; n_factors];
        for labelled in [false, true] {
            let members = self.rows.patterns[pattern].rows.iter().copied();
            let members = members
                .filter(|&i| self.rows.labels.is_labelled(i) == labelled)
                .filter(|&i| self.factors.responsibility(i, h) > 0.0);
            let members: Vec<usize> = members.collect();
            if members.is_empty() {
                continue;
            }
            let spread = cluster.spread(&own, labelled)?;
            let added = candidates.added(gram, &spread.covariance, labelled);
            for i in members {
                let rho = self.factors.responsibility(i, h);
                let linear = forms.linear.col_as_slice(i);
                let label = labelled.then(|| self.rows.labels.of_row(self.rows.soft, i));
                let s = cluster.locate(&spread, &own, linear, label);
                for (k, &l) in cluster.used.iter().enumerate() {
                    let variance = spread.covariance[(k, k)];
                    gains[l] -= 0.5 * rho * (s[k] * s[k] / variance + variance.ln());
                }
                for (&l, new) in unused.iter().zip(&added) {
                    let pull =
                        cluster.noise * (linear[l] - gram[(l, cluster.mean)] - dot(&new.cross, &s));
                    gains[l] += 0.5 * rho * (pull * pull / new.precision - new.precision.ln());
                }
            }
        }
        Ok(gains)
    }
}

struct Candidates<'a> {
    cluster: &'a Cluster,
    unused: Vec<usize>,
    /// By column: variances of the coordinates that the experts would get, summed over utilities.
    new_variances: Vec<f64>,
}

/// A column that would be used.
struct Added {
    /// Entries of the gram with the columns that are used.
    cross: Vec<f64>,
    /// Precision of its factor given the others, integrated out.
    precision: f64,
}

impl Candidates<'_> {
    fn added(&self, gram: &Mat<f64>, covariance: &Mat<f64>, labelled: bool) -> Vec<Added> {
        let Cluster { used, noise, .. } = self.cluster;
        let told = labelled && self.cluster.expert.is_some();
        let one = |&l: &usize| {
            let cross: Vec<f64> = used.iter().map(|&m| gram[(m, l)]).collect();
            let explained = dot(&multiply(covariance, &cross), &cross);
            let of_label = if told { self.new_variances[l] } else { 0.0 };
            Added {
                precision: 1.0 + noise * (gram[(l, l)] - noise * explained) + of_label,
                cross,
            }
        };
        self.unused.iter().map(one).collect()
    }
}
