//! One draw of everything, from the prior, from a variational posterior or of the sampler.

use npb_infer::Xoshiro256PlusPlus;
use npb_linalg::faer::Mat;
use npb_linalg::{NotPositiveDefinite, dot};
use npb_priors::dist::{Beta, Gamma, NormalGamma, pick};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use crate::data::first_utilities;
use crate::factor::bound::Priors;
use crate::factor::data::FactorData;
use crate::factor::forms::{Features, Forms};
use crate::factor::predict::{Drawn, draw_expert};
use crate::factor::rows::{Cluster, ExpertMoments, RowFactors, Spread, multiply};
use crate::factor::state::{FactorState, all_finite};
use crate::state::expect;
use crate::state::gamma;
use crate::{FactorConfig, Result};

/// Smallest and largest precision: beyond them squares are not finite.
const PRECISIONS: [f64; 2] = [1e-100, 1e100];

/// The least concentration: below it the first stick takes everything in any case.
pub(super) const LEAST_CONCENTRATION: f64 = 1e-12;

/// One draw from the posterior, in standardised units: `N` clusters, `L` factors.
#[derive(Clone, Debug)]
pub(crate) struct FactorDraw {
    /// `alpha`.
    pub(crate) concentration: f64,
    /// `ln pi_h`, length N.
    pub(crate) ln_weights: Vec<f64>,
    /// `sum ln(1 - V_h)` over the sticks before the last.
    pub(crate) ln_rest: f64,
    /// `b_hl`, N x L.
    pub(crate) indicators: Vec<Vec<bool>>,
    /// `[a_p; mu_1p .. mu_Np]` as rows, P x (L + N).
    pub(crate) coefficients: Mat<f64>,
    /// `psi_p`.
    pub(crate) noise: Vec<f64>,
    /// `kappa_h`, all 1 when the configuration fixes them.
    pub(crate) cluster_noise: Vec<f64>,
    /// `gamma_l`.
    pub(crate) loading_precisions: Vec<f64>,
    /// `u`.
    pub(crate) mean_precision: f64,
    /// `w`, the intercept last: for each of the N clusters one of length L + 1 for each utility (one with two classes or none, C - 1 with C of them).
    pub(crate) experts: Vec<Vec<f64>>,
    /// `(zeta_l, lambda_l)`, the intercept last, for each utility in turn.
    pub(crate) expert_prior: Vec<(f64, f64)>,
    /// `z_i`.
    pub(crate) labels: Vec<usize>,
    /// `s_i` as columns, L x n.
    pub(crate) factors: Mat<f64>,
    /// `t_i`, by row and then utility; 0 for an unlabelled row.
    pub(crate) scores: Vec<f64>,
}

/// Law of a row's score with its factors integrated out.
pub(super) struct Score {
    pub(crate) mean: f64,
    pub(crate) variance: f64,
}

impl FactorDraw {
    pub(super) fn features(&self) -> Features<'_> {
        Features {
            mean: self.coefficients.as_ref(),
            ln_noise: self.noise.iter().map(|psi| psi.ln()).collect(),
            noise: self.noise.clone(),
            spread: None,
        }
    }

    /// Without their experts: scores are integrated out apart.
    pub(super) fn clusters(&self) -> Vec<Cluster> {
        let n_factors = self.loading_precisions.len();
        let cluster = |h: usize| Cluster {
            used: (0..n_factors).filter(|&l| self.indicators[h][l]).collect(),
            mean: n_factors + h,
            noise: self.cluster_noise[h],
            ln_noise: self.cluster_noise[h].ln(),
            ln_weight: self.ln_weights[h],
            expert: None,
        };
        (0..self.indicators.len()).map(cluster).collect()
    }

    /// Experts of each cluster.
    pub(super) fn n_utilities(&self) -> usize {
        self.experts.len() / self.indicators.len()
    }

    /// The experts of cluster `h`.
    pub(super) fn experts_of(&self, h: usize) -> &[Vec<f64>] {
        let n = self.n_utilities();
        &self.experts[h * n..][..n]
    }

    /// Scores of row `i`.
    pub(super) fn scores_of(&self, i: usize) -> &[f64] {
        let n = self.n_utilities();
        &self.scores[i * n..][..n]
    }

    /// What the experts of row `i`'s cluster say of it.
    pub(super) fn of_experts(&self, i: usize) -> Vec<f64> {
        let h = self.labels[i];
        let seen = self.seen_by_expert(h, i);
        let each = self.experts_of(h).iter();
        each.map(|expert| dot(expert, &seen)).collect()
    }

    /// The experts of a cluster that uses these columns, for rows whose scores are given.
    pub(super) fn moments(&self, h: usize, used: &[usize]) -> ExpertMoments {
        let experts: Vec<&[f64]> = self.experts_of(h).iter().map(|w| &w[..]).collect();
        ExpertMoments::new(&experts, used, |k, i, j| experts[k][i] * experts[k][j])
    }

    pub(super) fn score(
        &self,
        expert: &[f64],
        used: &[usize],
        s: &[f64],
        spread: &Spread,
    ) -> Score {
        let slope: Vec<f64> = used.iter().map(|&l| expert[l]).collect();
        Score {
            mean: dot(&slope, s) + expert[expert.len() - 1],
            variance: 1.0 + dot(&multiply(&spread.covariance, &slope), &slope),
        }
    }

    pub(super) fn used_factors(&self, used: &[usize], i: usize) -> Vec<f64> {
        used.iter().map(|&l| self.factors[(l, i)]).collect()
    }

    /// `[b o s; 1]`.
    pub(super) fn seen_by_expert(&self, h: usize, i: usize) -> Vec<f64> {
        let indicator = |(l, &on): (usize, &bool)| if on { self.factors[(l, i)] } else { 0.0 };
        let factors = self.indicators[h].iter().enumerate().map(indicator);
        factors.chain([1.0]).collect()
    }

    /// Precision and pull of one factor of row `i` of cluster `h`, the others given, if its indicator is on. `left`: a label's scores.
    pub(super) fn one_factor(
        &self,
        forms: &Forms,
        gram: &Mat<f64>,
        left: Option<&[f64]>,
        i: usize,
        h: usize,
        l: usize,
    ) -> (f64, f64) {
        let n_factors = self.loading_precisions.len();
        let kappa = self.cluster_noise[h];
        let others: Vec<usize> = (0..n_factors)
            .filter(|&m| m != l && self.indicators[h][m])
            .collect();
        let s = |m: usize| self.factors[(m, i)];
        let explained: f64 = others.iter().map(|&m| gram[(m, l)] * s(m)).sum();
        let mut precision = 1.0 + kappa * gram[(l, l)];
        let mut pull = kappa * (forms.linear[(l, i)] - gram[(n_factors + h, l)] - explained);
        for (expert, left) in self.experts_of(h).iter().zip(left.into_iter().flatten()) {
            let rest: f64 = others.iter().map(|&m| expert[m] * s(m)).sum();
            precision += expert[l] * expert[l];
            pull += expert[l] * (left - expert[n_factors] - rest);
        }
        (precision, pull)
    }

    /// The draw in the form of `q(s, z)`: certain.
    pub(super) fn row_factors(&self, clusters: &[Cluster]) -> RowFactors {
        let n = clusters.len();
        let mut responsibilities = vec![0.0; self.labels.len() * n];
        for (i, &h) in self.labels.iter().enumerate() {
            responsibilities[i * n + h] = 1.0;
        }
        let means = |cluster: &Cluster| {
            Mat::from_fn(cluster.used.len(), self.labels.len(), |k, i| {
                self.factors[(cluster.used[k], i)]
            })
        };
        RowFactors {
            n_clusters: n,
            responsibilities,
            means: clusters.iter().map(means).collect(),
            spreads: Vec::new(),
        }
    }

    /// What is wrong with a draw that a user hands in.
    pub(super) fn check(&self, data: &FactorData, config: &FactorConfig) -> Result<()> {
        let (n, p) = (data.n_rows(), data.cells.n_features());
        let (clusters, columns) = (config.truncation, config.max_factors);
        let finite = |values: &[f64], size: usize| {
            values.len() == size && values.iter().all(|v| v.is_finite())
        };
        let positive =
            |values: &[f64], size: usize| finite(values, size) && values.iter().all(|v| *v > 0.0);
        let shape = |matrix: &Mat<f64>, shape| matrix.shape() == shape && all_finite(matrix);
        let scalars = [self.concentration, self.mean_precision];
        expect(positive(&scalars, 2), "concentration, precision of means")?;
        let sticks = finite(&self.ln_weights, clusters) && self.ln_rest.is_finite();
        expect(sticks, "weights")?;
        let indicators = self.indicators.len() == clusters;
        let each = self.indicators.iter().all(|b| b.len() == columns);
        expect(indicators && each, "indicators")?;
        let loadings = shape(&self.coefficients, (p, columns + clusters));
        expect(loadings, "loadings and means")?;
        expect(positive(&self.noise, p), "noise precisions")?;
        let noise = positive(&self.cluster_noise, clusters);
        expect(noise, "noise of the clusters")?;
        let precisions = positive(&self.loading_precisions, columns);
        expect(precisions, "precisions of the loadings")?;
        let n_utilities = data.labels.n_utilities.max(1);
        let expert = |w: &Vec<f64>| finite(w, columns + 1);
        let number = self.experts.len() == clusters * n_utilities;
        let experts = number && self.experts.iter().all(expert);
        expect(experts, "experts")?;
        let proper = |(zeta, lambda): &(f64, f64)| zeta.is_finite() && positive(&[*lambda], 1);
        let prior = self.expert_prior.len() == n_utilities * (columns + 1);
        let prior = prior && self.expert_prior.iter().all(proper);
        expect(prior, "prior of the experts")?;
        let labels = self.labels.len() == n && self.labels.iter().all(|h| *h < clusters);
        expect(labels, "labels")?;
        expect(shape(&self.factors, (columns, n)), "factors")?;
        let in_region = |(i, t): (usize, &[f64])| match data.labels.class[i] {
            None => true,
            Some(0) => t.iter().all(|t| *t <= 0.0),
            Some(class) => t[class - 1] >= 0.0 && t.iter().all(|other| *other <= t[class - 1]),
        };
        let mut each = self.scores.chunks_exact(n_utilities).enumerate();
        let scores = finite(&self.scores, n * n_utilities) && each.all(in_region);
        expect(scores, "scores")
    }

    pub(super) fn prior_precisions(&self) -> Vec<f64> {
        let means = vec![self.mean_precision; self.indicators.len()];
        self.loading_precisions
            .iter()
            .copied()
            .chain(means)
            .collect()
    }

    /// Concentration, occupied clusters, indicators that are on in them, mean log noise precision.
    pub(super) fn scalars(&self) -> [f64; 4] {
        let mut occupied = vec![false; self.indicators.len()];
        self.labels.iter().for_each(|&h| occupied[h] = true);
        let used = self.indicators.iter().zip(&occupied).filter(|(_, o)| **o);
        let on = used.flat_map(|(b, _)| b).filter(|b| **b).count();
        let ln_noise: f64 = self.noise.iter().map(|psi| psi.ln()).sum();
        [
            self.concentration,
            occupied.iter().filter(|o| **o).count() as f64,
            on as f64,
            ln_noise / self.noise.len().max(1) as f64,
        ]
    }
}

/// A draw of a precision.
pub(super) fn precision(law: &Gamma, rng: &mut impl Rng) -> f64 {
    law.sample(rng).clamp(PRECISIONS[0], PRECISIONS[1])
}

/// A draw of a mean and a precision.
pub(super) fn normal_gamma(law: &NormalGamma, rng: &mut impl Rng) -> (f64, f64) {
    let precision = precision(law.precision(), rng);
    let z: f64 = rng.sample(StandardNormal);
    let sd = 1.0 / (law.strength() * precision).sqrt();
    (law.mean() + sd * z, precision)
}

pub(super) fn first_draw(
    data: &FactorData,
    (config, priors): (&FactorConfig, &Priors),
    start: &FactorState,
    rng: &mut Xoshiro256PlusPlus,
) -> Result<FactorDraw, NotPositiveDefinite> {
    let p = data.cells.n_features();
    let (clusters, columns) = (config.truncation, config.max_factors);
    let (k, l) = (start.n_clusters(), start.n_factors());
    let drawn = Drawn::new(start, rng)?;
    let n_utilities = data.labels.n_utilities.max(1);
    let mut draw = FactorDraw::prior(config, priors, [data.n_rows(), p, n_utilities], rng);
    draw.concentration = start.sticks.alpha_mean().max(LEAST_CONCENTRATION);
    let mut weights = vec![0.0; clusters];
    start.sticks.sample_weights(&mut weights, rng);
    draw.ln_weights = weights
        .iter()
        .map(|w| w.max(f64::MIN_POSITIVE).ln())
        .collect();
    for h in 0..k {
        for c in 0..columns {
            draw.indicators[h][c] = c < l && start.indicators[h][c];
        }
        if let Some(noise) = start.noise.get(h) {
            draw.cluster_noise[h] = precision(noise, rng);
        }
    }
    draw.noise = drawn.noise;
    let old = draw.coefficients;
    draw.coefficients = Mat::from_fn(p, columns + clusters, |j, d| {
        if d < l {
            drawn.mean[(j, d)]
        } else if (columns..columns + k).contains(&d) {
            drawn.mean[(j, l + d - columns)]
        } else {
            old[(j, d)]
        }
    });
    for c in 0..l {
        draw.loading_precisions[c] = precision(&start.loading_precisions[c], rng);
    }
    for (k, prior) in draw.expert_prior.chunks_exact_mut(columns + 1).enumerate() {
        let of_start = start.expert_prior_of(k);
        for c in 0..l {
            prior[c] = normal_gamma(&of_start[c], rng);
        }
        prior[columns] = normal_gamma(&of_start[l], rng);
    }
    draw.mean_precision = precision(&start.mean_precision, rng);
    for i in 0..start.experts.len() {
        let expert = draw_expert(start, i, rng)?;
        draw.experts[i][..l].copy_from_slice(&expert[..l]);
        draw.experts[i][columns] = expert[l];
    }
    if data.n_labelled > 0 {
        // Scores come from the prior, on either side: those of labelled rows go to the region of their class.
        draw.scores = first_utilities(&data.labels.class, data.labels.n_utilities);
    }
    Ok(draw)
}

impl FactorDraw {
    /// A draw from the prior, for `n` rows and `p` features; scores of all rows.
    pub(super) fn prior(
        config: &FactorConfig,
        priors: &Priors,
        [n, p, n_utilities]: [usize; 3],
        rng: &mut Xoshiro256PlusPlus,
    ) -> Self {
        let (clusters, columns) = (config.truncation, config.max_factors);
        let concentration = gamma(config.concentration.shape, config.concentration.rate)
            .sample(rng)
            .max(LEAST_CONCENTRATION);
        let (mut ln_weights, mut ln_left) = (vec![0.0; clusters], 0.0);
        let stick = Beta::new(1.0, concentration).expect("positive");
        for weight in &mut ln_weights[..clusters - 1] {
            let (ln_v, ln_not) = stick.sample_ln(rng);
            *weight = ln_left + ln_v;
            ln_left += ln_not;
        }
        ln_weights[clusters - 1] = ln_left;
        let on = config.ln_indicator()[0].exp();
        let indicators = (0..clusters)
            .map(|_| (0..columns).map(|_| rng.random::<f64>() < on).collect())
            .collect();
        let noise: Vec<f64> = (0..p).map(|_| precision(&priors.noise, rng)).collect();
        let loading_precisions: Vec<f64> = (0..columns)
            .map(|_| precision(&priors.loading, rng))
            .collect();
        let mean_precision = precision(&priors.mean, rng);
        let of_column = |d: usize| loading_precisions.get(d).copied().unwrap_or(mean_precision);
        let coefficients = Mat::from_fn(p, columns + clusters, |j, d| {
            let z: f64 = rng.sample(StandardNormal);
            z / (noise[j] * of_column(d)).sqrt()
        });
        let cluster_noise = (0..clusters)
            .map(|_| priors.cluster.map_or(1.0, |prior| precision(&prior, rng)))
            .collect();
        let expert_prior: Vec<(f64, f64)> = (0..n_utilities * (columns + 1))
            .map(|_| normal_gamma(&priors.expert, rng))
            .collect();
        let mut weight = |&(zeta, lambda): &(f64, f64)| -> f64 {
            let z: f64 = rng.sample(StandardNormal);
            zeta + z / lambda.sqrt()
        };
        let experts: Vec<Vec<f64>> = (0..clusters)
            .flat_map(|_| expert_prior.chunks_exact(columns + 1))
            .map(|prior| prior.iter().map(&mut weight).collect())
            .collect();
        let weights: Vec<f64> = ln_weights.iter().map(|ln: &f64| ln.exp()).collect();
        let labels: Vec<usize> = (0..n)
            .map(|_| pick(weights.iter().copied(), rng.random()).unwrap_or(0))
            .collect();
        let factors = Mat::from_fn(columns, n, |_, _| rng.sample(StandardNormal));
        let mut draw = Self {
            concentration,
            ln_weights,
            ln_rest: ln_left,
            indicators,
            coefficients,
            noise,
            cluster_noise,
            loading_precisions,
            mean_precision,
            experts,
            expert_prior,
            labels,
            factors,
            scores: vec![0.0; n * n_utilities],
        };
        for i in 0..n {
            for (k, of_expert) in draw.of_experts(i).into_iter().enumerate() {
                let z: f64 = rng.sample(StandardNormal);
                draw.scores[i * n_utilities + k] = of_expert + z;
            }
        }
        draw
    }
}
