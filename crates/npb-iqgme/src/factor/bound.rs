//! The evidence lower bound.

use npb_linalg::NotPositiveDefinite;
use npb_priors::GammaPrior;
use npb_priors::dist::{Gamma, NormalGamma};

use super::experts;
use super::features;
use super::rows::{Cluster, RowFactors, Rows, scores};
use super::state::FactorState;
use crate::FactorConfig;
use crate::state::gamma;

/// The evidence lower bound in parts; `total()` is the bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FactorBound {
    /// `E ln p(z | V)` and the entropy of `q(z)`.
    pub labels: f64,
    /// `E ln p(x | s, z, theta, psi, kappa)`.
    pub features: f64,
    /// Minus the divergence of `q(s | z)` from its prior.
    pub factors: f64,
    /// `E ln p(t | s, z, w)` and the entropy of `q(t)`.
    pub utility_means: f64,
    /// Minus the divergences of `q(V)` and `q(alpha)` from their priors.
    pub sticks: f64,
    /// `ln p(b)`.
    pub indicators: f64,
    /// Minus the divergences of `q(theta, psi)`, `q(gamma)`, `q(u)` and `q(kappa)` from their priors.
    pub loadings: f64,
    /// Minus the divergences of `q(w)`, `q(zeta, lambda)`, `q(v)` and `q(tau)` from their priors.
    pub experts: f64,
    /// Sum of the absolute values of all terms, the scale of rounding errors.
    pub magnitude: f64,
}

impl FactorBound {
    /// Its parts, whose sum is the bound.
    pub fn terms(&self) -> [f64; 8] {
        [
            self.labels,
            self.features,
            self.factors,
            self.utility_means,
            self.sticks,
            self.indicators,
            self.loadings,
            self.experts,
        ]
    }

    /// The bound.
    pub fn total(&self) -> f64 {
        self.terms().iter().sum()
    }
}

/// The priors as laws.
#[derive(Clone, Debug)]
pub(crate) struct Priors {
    pub(crate) noise: Gamma,
    pub(crate) loading: Gamma,
    pub(crate) mean: Gamma,
    pub(crate) cluster: Option<Gamma>,
    pub(crate) expert: NormalGamma,
}

impl Priors {
    /// `config` has been checked.
    pub(crate) fn new(config: &FactorConfig) -> Self {
        let prior = |prior: GammaPrior| gamma(prior.shape, prior.rate);
        Self {
            noise: prior(config.noise),
            loading: prior(config.loading),
            mean: prior(config.mean),
            cluster: (config.cluster_noise > 0.0)
                .then(|| gamma(config.cluster_noise, config.cluster_noise)),
            expert: NormalGamma::new(
                0.0,
                config.expert_mean_strength,
                config.expert.shape,
                config.expert.rate,
            )
            .expect("checked"),
        }
    }
}

/// What the labels' terms of the bound want by row.
pub(crate) struct Labelled<'a> {
    /// Locations of `q(t_i)` and `<t_i>`: row, utility.
    pub(crate) locations: &'a [f64],
    pub(crate) soft: &'a [f64],
    /// By row the logarithm of the probability of the region of its class.
    pub(crate) ln_masses: &'a [f64],
}

/// The bound of a posterior.
pub(crate) fn bound(
    state: &FactorState,
    rows: &Rows<'_>,
    labelled: &Labelled<'_>,
    factors: &RowFactors,
    config: &FactorConfig,
    priors: &Priors,
) -> Result<FactorBound, NotPositiveDefinite> {
    let [labels, features, of_factors, utility_means, magnitude] =
        row_sums(state, rows, labelled, factors);
    let (divergence, spread) = features::divergence(state, &priors.noise);
    let precisions = state.loading_precisions.iter();
    let precisions: f64 = precisions.map(|g| g.kl(&priors.loading)).sum();
    let mut others = precisions + state.mean_precision.kl(&priors.mean);
    if let Some(prior) = &priors.cluster {
        others += state.noise.iter().map(|g| g.kl(prior)).sum::<f64>();
    }
    let [ln_on, ln_off] = config.ln_indicator();
    let on = state.indicators.iter().flatten().filter(|b| **b).count() as f64;
    let off = (state.n_clusters() * config.max_factors) as f64 - on;
    let sticks = state.sticks.elbo();
    let experts = experts::bound(state, &priors.expert)?;
    let indicators = on * ln_on + off * ln_off;
    Ok(FactorBound {
        labels,
        features,
        factors: of_factors,
        utility_means,
        sticks,
        indicators,
        loadings: -divergence - others,
        experts,
        magnitude: magnitude + spread + others + sticks.abs() + indicators.abs() + experts.abs(),
    })
}

/// The parts of the bound that are sums over rows (of labels, features, factors and utilities), and the sum of their sizes.
fn row_sums(
    state: &FactorState,
    rows: &Rows<'_>,
    labelled: &Labelled<'_>,
    factors: &RowFactors,
) -> [f64; 5] {
    let clusters = Cluster::all(state);
    let terms = rows.terms(&clusters, factors);
    let scores = scores(rows.labels, &clusters, factors);
    let [mut of_labels, mut of_features, mut of_factors] = [0.0; 3];
    let [mut of_utilities, mut magnitude] = [0.0; 2];
    let (n, size) = (clusters.len(), &mut magnitude);
    for (i, row) in terms.chunks_exact(n).enumerate() {
        let mut score_second = 0.0;
        for (h, term) in row.iter().enumerate() {
            let rho = factors.responsibility(i, h);
            if rho == 0.0 {
                continue;
            }
            let cluster = &clusters[h];
            add(&mut of_labels, size, rho * (cluster.ln_weight - rho.ln()));
            let fit = rows.forms.ln_noise[i] + rows.forms.counts[i] * cluster.ln_noise;
            add(&mut of_features, size, 0.5 * rho * fit);
            let spread = -0.5 * rho * cluster.noise * term.square;
            add(&mut of_features, size, spread);
            add(&mut of_factors, size, rho * term.factors);
            score_second += rho * term.score_second;
        }
        if rows.labels.is_labelled(i) {
            let of_row = |by_row| rows.labels.of_row(by_row, i);
            let [mu, t, scores] = [labelled.locations, labelled.soft, &scores].map(of_row);
            add(&mut of_utilities, size, labelled.ln_masses[i]);
            let mut square = 0.0;
            for ((t, score), mu) in t.iter().zip(scores).zip(mu) {
                add(&mut of_utilities, size, t * (score - mu));
                square += mu * mu;
            }
            add(&mut of_utilities, size, -0.5 * (score_second - square));
        }
    }
    [of_labels, of_features, of_factors, of_utilities, magnitude]
}

/// Adds a term to a part of the bound, and to the sizes of all.
fn add(part: &mut f64, magnitude: &mut f64, term: f64) {
    *part += term;
    *magnitude += term.abs();
}
