//! `q(theta_p, psi_p)`: loadings, means and noise of every feature, and their divergence from the prior.

use npb_data::PatternIndex;
use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite, dot};

use npb_infer::parallel;
use npb_priors::dist::Gamma;

use super::data::{FactorData, RowLabels};
use super::forms::product_by_column;
use super::rows::{Cluster, RowFactors};
use super::state::{Derived, FactorState};
use crate::state::gamma;

/// Features at a time in products whose results are by feature.
const FEATURE_BLOCK: usize = 64;

/// What the rows say about the features, `f = [s; e_h]` and weights `rho kappa`.
pub(crate) struct FeatureStats {
    /// `sum <f f'>` over the rows that observe them, by missing pattern of features.
    pub(crate) second: Vec<Mat<f64>>,
    /// `sum x <f>`, D for each feature.
    pub(crate) linear: Vec<f64>,
    /// `sum x^2`.
    pub(crate) squares: Vec<f64>,
}

impl FeatureStats {
    pub(crate) fn new(data: &FactorData, clusters: &[Cluster], factors: &RowFactors) -> Self {
        let d = clusters.last().map_or(0, |c| c.mean + 1);
        let rows = RowMoments {
            index: &data.cells.patterns,
            labels: &data.labels,
            clusters,
            factors,
            d,
        };
        let all: Vec<usize> = (0..data.cells.n_rows()).collect();
        let total = rows.second(&all);
        let second = |pattern: &npb_data::Pattern| match pattern.missing.len() {
            0 => total.clone(),
            m if m < pattern.observed.len() => &total - rows.second(&pattern.missing),
            _ => rows.second(&pattern.observed),
        };
        let (first, weights) = rows.first();
        let x = &data.cells.x;
        let square = |p: usize| {
            let each = x.col_as_slice(p).iter().zip(&weights);
            each.map(|(x, w)| w * x * x).sum()
        };
        Self {
            second: parallel::map(data.columns.patterns(), second),
            linear: product_by_column(first.as_ref(), x.as_ref(), FEATURE_BLOCK),
            squares: parallel::map(0..x.ncols(), square),
        }
    }
}

struct RowMoments<'a> {
    index: &'a PatternIndex,
    labels: &'a RowLabels,
    clusters: &'a [Cluster],
    factors: &'a RowFactors,
    d: usize,
}

impl RowMoments<'_> {
    /// `sum_h rho kappa <f>` of every row as a column, and `sum_h rho kappa`.
    fn first(&self) -> (Mat<f64>, Vec<f64>) {
        let n = self.factors.n_rows();
        let mut first = Mat::zeros(self.d, n);
        let mut weights = vec![0.0; n];
        for i in 0..n {
            for (h, cluster) in self.clusters.iter().enumerate() {
                let weight = cluster.noise * self.factors.responsibility(i, h);
                if weight == 0.0 {
                    continue;
                }
                weights[i] += weight;
                let column = first.col_as_slice_mut(i);
                let s = self.factors.means[h].col_as_slice(i);
                for (&l, s) in cluster.used.iter().zip(s) {
                    column[l] += weight * s;
                }
                column[cluster.mean] += weight;
            }
        }
        (first, weights)
    }

    /// `sum rho kappa <f f'>` over the rows named.
    fn second(&self, rows: &[usize]) -> Mat<f64> {
        let mut second = Mat::zeros(self.d, self.d);
        for (h, cluster) in self.clusters.iter().enumerate() {
            let own = self.factors.second(self.index, self.labels, rows, h);
            let at: Vec<usize> = cluster.used.iter().copied().chain([cluster.mean]).collect();
            for (j, &b) in at.iter().enumerate() {
                for (i, &a) in at.iter().enumerate().skip(j) {
                    let value = cluster.noise * own[(i, j)];
                    second[(a, b)] += value;
                    if a != b {
                        second[(b, a)] += value;
                    }
                }
            }
        }
        second
    }
}

/// The optimal `q(theta, psi)`. Equations: `docs/iqgme-updates.md#loadings-and-noise`.
pub(crate) fn update(
    state: &mut FactorState,
    data: &FactorData,
    stats: &FeatureStats,
    prior: &Gamma,
) -> Result<(), NotPositiveDefinite> {
    let (precisions, _) = state.prior_precisions();
    let d = precisions.len();
    let factors: Vec<Cholesky> = parallel::try_map(&stats.second, |second| {
        let precision = Mat::from_fn(d, d, |i, j| {
            second[(i, j)] + if i == j { precisions[i] } else { 0.0 }
        });
        Cholesky::new(precision.as_ref())
    })?;
    let features = &mut state.features;
    let patterns = data.columns.patterns();
    let rows_of: Vec<f64> = patterns.iter().map(|g| g.observed.len() as f64).collect();
    let linear = stats.linear.chunks_exact(d).enumerate();
    let solved: Vec<(Vec<f64>, f64)> = parallel::map(linear, |(p, linear)| {
        let mut mean = linear.to_vec();
        factors[data.columns.pattern_of_row(p)].solve(&mut mean);
        let rest = (stats.squares[p] - dot(linear, &mean)).max(0.0);
        (mean, prior.rate() + 0.5 * rest)
    });
    features.mean = Mat::from_fn(solved.len(), d, |p, k| solved[p].0[k]);
    features.rate = solved.iter().map(|(_, rate)| *rate).collect();
    let all = 0..solved.len();
    features.pattern = all.map(|p| data.columns.pattern_of_row(p)).collect();
    let shape = |&g: &usize| prior.shape() + 0.5 * rows_of[g];
    features.shape = features.pattern.iter().map(shape).collect();
    features.covariance = parallel::map(&factors, Cholesky::inverse);
    let precision = |s: &Mat<f64>| (0..d).map(|k| s[(k, k)] + precisions[k]).collect();
    features.derived = Derived {
        ln_det: factors.iter().map(|f| -f.ln_det()).collect(),
        precision: stats.second.iter().map(precision).collect(),
    };
    Ok(())
}

/// `<psi_p>`.
pub(crate) fn noise(state: &FactorState) -> Vec<f64> {
    let features = &state.features;
    let each = features.shape.iter().zip(&features.rate);
    each.map(|(shape, rate)| shape / rate).collect()
}

/// `sum_p <psi_p theta_pk^2>` of each coordinate.
pub(crate) fn squares(state: &FactorState) -> Vec<f64> {
    let features = &state.features;
    let noise = noise(state);
    let mut sizes = vec![0.0; features.covariance.len()];
    features.pattern.iter().for_each(|&g| sizes[g] += 1.0);
    let square = |k: usize| {
        let column = features.mean.col_as_slice(k).iter().zip(&noise);
        let means: f64 = column.map(|(m, psi)| psi * m * m).sum();
        let spreads = features.covariance.iter().zip(&sizes);
        means + spreads.map(|(v, size)| size * v[(k, k)]).sum::<f64>()
    };
    (0..features.mean.ncols()).map(square).collect()
}

/// Divergence of `q(theta, psi)` from its prior, averaged over the prior precisions, and the sum of its absolute terms.
pub(crate) fn divergence(state: &FactorState, prior: &Gamma) -> (f64, f64) {
    let (precisions, ln_precisions) = state.prior_precisions();
    let features = &state.features;
    let p = features.shape.len() as f64;
    let quadratic = dot(&precisions, &squares(state));
    let constant: f64 = ln_precisions.iter().map(|ln| 1.0 + ln).sum();
    let ln_dets = features.pattern.iter().map(|&g| features.derived.ln_det[g]);
    let ln_det: f64 = ln_dets.sum();
    let each = features.shape.iter().zip(&features.rate);
    let noise: f64 = each.map(|(&a, &b)| gamma(a, b).kl(prior)).sum();
    let value = 0.5 * (quadratic - p * constant - ln_det) + noise;
    let size = 0.5 * (quadratic + p * constant.abs() + ln_det.abs()) + noise;
    (value, size)
}

/// How much the bound gains when column `l`, which no cluster uses any more, returns to its prior.
pub(crate) fn worth_dropping(state: &FactorState, prior: &Gamma, l: usize) -> f64 {
    let own = &state.loading_precisions[l];
    let features = &state.features;
    let noise = noise(state);
    let mut value = 0.0;
    for (p, &g) in features.pattern.iter().enumerate() {
        let m = features.mean[(p, l)];
        let second = noise[p] * m * m + features.covariance[g][(l, l)];
        value += 0.5
            * (own.mean() * second - 1.0 - own.mean_ln() + features.derived.precision[g][l].ln());
    }
    value + own.kl(prior)
}
