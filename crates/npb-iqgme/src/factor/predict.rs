//! Questions to one run: class probabilities, densities, missing cells.

use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite, dot};
use npb_priors::special::log_sum_exp;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use super::cells::Cells;
use super::data::RowLabels;
use super::features::noise;
use super::forms::{Features, Forms};
use super::rows::{Cluster, OwnGram, RowFactors, Rows, Spread, multiply, quadratic, shared};
use super::state::{FactorState, submatrix};
use crate::bound::trace_product;
use crate::state::gamma;
use crate::{IqgmeError, Result};
use npb_priors::dist::multinomial_probit::probabilities_sharing;

/// The parameters as predictions see them: those of a posterior, or a draw from it.
pub(crate) struct Predictor<'a> {
    state: &'a FactorState,
    clusters: Vec<Cluster>,
    /// Cluster, utility.
    experts: Vec<Expert>,
    /// None at the means.
    drawn: Option<Drawn>,
}

/// Loadings, means and noise of one draw.
pub(crate) struct Drawn {
    pub(crate) mean: Mat<f64>,
    pub(crate) noise: Vec<f64>,
}

/// An expert over the columns that its cluster uses, and the intercept.
struct Expert {
    mean: Vec<f64>,
    /// None for a draw.
    covariance: Option<Mat<f64>>,
}

impl<'a> Predictor<'a> {
    pub(crate) fn new(state: &'a FactorState) -> Self {
        let weights = state.sticks.expected_weights();
        let noise = |h| state.noise_moments(h);
        let expert = |i: usize, own: &[usize]| {
            let expert = &state.experts[i];
            Expert {
                mean: own.iter().map(|&l| expert.mean[l]).collect(),
                covariance: Some(submatrix(&expert.covariance, own)),
            }
        };
        Self::with(state, &weights, noise, expert, None)
    }

    /// The parameters at their posterior means as if these were known, without experts: for densities.
    pub(crate) fn at_means(state: &'a FactorState) -> Self {
        let weights = state.sticks.expected_weights();
        let noise_of = |h: usize| {
            let noise = state.noise_moments(h).0;
            (noise, noise.ln())
        };
        let no_expert = |_: usize, _: &[usize]| Expert {
            mean: Vec::new(),
            covariance: None,
        };
        let means = Drawn {
            mean: state.features.mean.clone(),
            noise: noise(state),
        };
        Self::with(state, &weights, noise_of, no_expert, Some(means))
    }

    /// A draw of all parameters from their posterior.
    pub(crate) fn draw(
        state: &'a FactorState,
        rng: &mut impl Rng,
    ) -> Result<Self, NotPositiveDefinite> {
        let mut weights = vec![0.0; state.sticks.truncation()];
        state.sticks.sample_weights(&mut weights, rng);
        let drawn = Drawn::new(state, rng)?;
        let kappas: Vec<f64> = state.noise.iter().map(|g| g.sample(rng)).collect();
        let experts = (0..state.experts.len()).map(|i| draw_expert(state, i, rng));
        let experts = experts.collect::<Result<Vec<_>, _>>()?;
        let noise = |h: usize| kappas.get(h).map_or((1.0, 0.0), |k: &f64| (*k, k.ln()));
        let expert = |i: usize, own: &[usize]| Expert {
            mean: own.iter().map(|&l| experts[i][l]).collect(),
            covariance: None,
        };
        Ok(Self::with(state, &weights, noise, expert, Some(drawn)))
    }

    fn with(
        state: &'a FactorState,
        weights: &[f64],
        noise: impl Fn(usize) -> (f64, f64),
        expert: impl Fn(usize, &[usize]) -> Expert,
        drawn: Option<Drawn>,
    ) -> Self {
        let n = state.n_clusters();
        let total: f64 = weights[..n].iter().sum();
        let cluster = |h: usize| Cluster::new(state, h, noise(h), (weights[h] / total).ln());
        let own = |i: usize| state.expert_coordinates(i / state.n_utilities());
        Self {
            state,
            clusters: (0..n).map(cluster).collect(),
            experts: (0..state.experts.len())
                .map(|i| expert(i, &own(i)))
                .collect(),
            drawn,
        }
    }

    fn features(&self) -> Features<'_> {
        match &self.drawn {
            None => Features::expected(self.state),
            Some(drawn) => Features {
                mean: drawn.mean.as_ref(),
                ln_noise: drawn.noise.iter().map(|psi| psi.ln()).collect(),
                noise: drawn.noise.clone(),
                spread: None,
            },
        }
    }

    fn solve(&self, cells: &Cells) -> Result<RowFactors> {
        let forms = Forms::new(&self.features(), cells);
        let rows = Rows {
            patterns: cells.patterns.patterns(),
            forms: &forms,
            labels: &RowLabels::new(vec![None; cells.n_rows()], 0),
            soft: &[],
        };
        rows.solve(&self.clusters, None).map_err(failed)
    }

    /// Probabilities of the clusters of each row.
    pub(crate) fn responsibilities(&self, cells: &Cells) -> Result<Vec<Vec<f64>>> {
        let factors = self.solve(cells)?;
        let rows = factors.responsibilities.chunks_exact(factors.n_clusters);
        Ok(rows.map(<[f64]>::to_vec).collect())
    }

    /// Probabilities of all classes but the first of each row.
    pub(crate) fn probabilities(&self, cells: &Cells) -> Result<Vec<Vec<f64>>> {
        let n_utilities = self.state.n_utilities();
        let factors = self.solve(cells)?;
        let mut probabilities = vec![vec![0.0; n_utilities]; cells.n_rows()];
        let (mut means, mut variances) = (vec![0.0; n_utilities], vec![0.0; n_utilities]);
        let mut part = vec![0.0; n_utilities];
        for (pattern, spreads) in cells.patterns.iter().zip(&factors.spreads) {
            for (h, experts) in self.experts.chunks_exact(n_utilities).enumerate() {
                let Some(spread) = &spreads[0][h] else {
                    continue;
                };
                let n_used = self.clusters[h].used.len();
                let slopes: Vec<&[f64]> = experts.iter().map(|e| &e.mean[..n_used]).collect();
                let shared = shared(&slopes, &spread.covariance);
                let trace = |e: &Expert| e.trace(&spread.covariance);
                let traces: Vec<f64> = experts.iter().map(trace).collect();
                for &i in &pattern.rows {
                    let rho = factors.responsibility(i, h);
                    if rho == 0.0 {
                        continue;
                    }
                    let s = factors.means[h].col_as_slice(i);
                    for (k, expert) in experts.iter().enumerate() {
                        let (score, variance) = expert.score(s);
                        means[k] = score;
                        variances[k] = 1.0 + variance + traces[k];
                    }
                    probabilities_sharing(&means, &variances, &shared, &mut part);
                    let sums = probabilities[i].iter_mut().zip(&part);
                    sums.for_each(|(sum, p)| *sum += rho * p);
                }
            }
        }
        Ok(probabilities)
    }

    /// Log density of the observed features of each row, in standardised units.
    pub(crate) fn ln_density(&self, cells: &Cells) -> Result<Vec<f64>> {
        let (forms, clusters) = (Forms::new(&self.features(), cells), &self.clusters);
        let mut density = vec![0.0; cells.n_rows()];
        for (pattern, gram) in cells.patterns.iter().zip(&forms.grams) {
            let spread = |(h, cluster): (usize, &Cluster)| {
                let gram = cluster.own_gram(gram);
                let spread = cluster.spread(&gram, false);
                Ok((gram, spread.map_err(|source| failed((h, source)))?))
            };
            let spreads = clusters.iter().enumerate().map(spread);
            let spreads = spreads.collect::<Result<Vec<_>>>()?;
            for &i in &pattern.rows {
                let ln = |(cluster, (gram, spread)): (&Cluster, &(OwnGram, Spread))| {
                    cluster.posterior(&forms, i, gram, None, spread).1
                };
                let logs: Vec<f64> = clusters.iter().zip(&spreads).map(ln).collect();
                density[i] = log_sum_exp(&logs);
            }
        }
        Ok(density)
    }

    /// Mean and variance of every missing cell: by row, then feature.
    pub(crate) fn missing_cells(&self, cells: &Cells) -> Result<Vec<Vec<[f64; 2]>>> {
        let noise = inverse_noise(self.state);
        let factors = self.solve(cells)?;
        let mut found = vec![Vec::new(); cells.n_rows()];
        for (k, pattern) in cells.patterns.iter().enumerate() {
            for &i in &pattern.rows {
                let cell = |&p| one_cell(self.state, &noise, &self.clusters, &factors, [k, i, p]);
                found[i] = pattern.missing.iter().map(cell).collect();
            }
        }
        Ok(found)
    }
}

/// Mean and variance of cell `at`: missing pattern, row, feature.
fn one_cell(
    state: &FactorState,
    noise: &[f64],
    clusters: &[Cluster],
    factors: &RowFactors,
    at: [usize; 3],
) -> [f64; 2] {
    let [pattern, row, feature] = at;
    let theta = |d: usize| state.features.mean[(feature, d)];
    let v = &state.features.covariance[state.features.pattern[feature]];
    let (mut mean, mut second) = (0.0, 0.0);
    for (h, cluster) in clusters.iter().enumerate() {
        let rho = factors.responsibility(row, h);
        let (true, Some(spread)) = (rho > 0.0, &factors.spreads[pattern][0][h]) else {
            continue;
        };
        let s = factors.means[h].col_as_slice(row);
        let loadings: Vec<f64> = cluster.used.iter().map(|&l| theta(l)).collect();
        let own = dot(&loadings, s) + theta(cluster.mean);
        let at = [&cluster.used[..], &[cluster.mean]].concat();
        let uncertainty = submatrix(v, &at);
        let with_one: Vec<f64> = s.iter().copied().chain([1.0]).collect();
        let mut of_parameters = quadratic(&uncertainty, &with_one);
        for j in 0..s.len() {
            for i in 0..s.len() {
                of_parameters += uncertainty[(i, j)] * spread.covariance[(i, j)];
            }
        }
        let variance = noise[feature] * (1.0 / cluster.noise + of_parameters)
            + quadratic(&spread.covariance, &loadings);
        mean += rho * own;
        second += rho * (variance + own * own);
    }
    [mean, (second - mean * mean).max(0.0)]
}

/// `<1/psi_p>`, or `1/<psi_p>` where that is infinite.
fn inverse_noise(state: &FactorState) -> Vec<f64> {
    let features = &state.features;
    let each = features.shape.iter().zip(&features.rate);
    let mean = |(shape, rate): (&f64, &f64)| {
        let fewer = if *shape > 1.0 { 1.0 } else { 0.0 };
        rate / (shape - fewer)
    };
    each.map(mean).collect()
}

impl Expert {
    /// Score at factors `s`, and its variance by the expert's own.
    fn score(&self, s: &[f64]) -> (f64, f64) {
        let with_one: Vec<f64> = s.iter().copied().chain([1.0]).collect();
        let own = self.covariance.as_ref();
        let variance = own.map_or(0.0, |c| dot(&multiply(c, &with_one), &with_one));
        (dot(&self.mean, &with_one), variance)
    }

    /// `tr(Sigma_s S)`.
    fn trace(&self, spread: &Mat<f64>) -> f64 {
        let own = self.covariance.as_ref();
        own.map_or(0.0, |covariance| trace_product(covariance, spread))
    }
}

impl Drawn {
    pub(crate) fn new(
        state: &FactorState,
        rng: &mut impl Rng,
    ) -> Result<Self, NotPositiveDefinite> {
        let features = &state.features;
        let each = features.covariance.iter();
        let factors = each.map(|v| Cholesky::new(v.as_ref()));
        let factors = factors.collect::<Result<Vec<_>, _>>()?;
        let d = features.mean.ncols();
        let mut mean = features.mean.clone();
        let mut noise = noise(state);
        for p in 0..mean.nrows() {
            noise[p] = gamma(features.shape[p], features.rate[p]).sample(rng);
            let mut step: Vec<f64> = (0..d).map(|_| rng.sample(StandardNormal)).collect();
            factors[features.pattern[p]].mul_l(&mut step);
            for (k, step) in step.iter().enumerate() {
                mean[(p, k)] += step / noise[p].sqrt();
            }
        }
        Ok(Self { mean, noise })
    }
}

/// All coordinates of expert `i` (cluster, utility); those that its cluster does not use are zero.
pub(crate) fn draw_expert(
    state: &FactorState,
    i: usize,
    rng: &mut impl Rng,
) -> Result<Vec<f64>, NotPositiveDefinite> {
    let expert = &state.experts[i];
    let n_utilities = state.n_utilities();
    let own = state.expert_coordinates(i / n_utilities);
    let prior = state.expert_prior_of(i % n_utilities);
    let mut drawn = vec![0.0; expert.mean.len()];
    if expert.at_prior {
        for &l in &own {
            let (mean, precision) = prior[l].sample(rng);
            drawn[l] = mean + rng.sample::<f64, _>(StandardNormal) / precision.sqrt();
        }
        return Ok(drawn);
    }
    let factor = Cholesky::new(submatrix(&expert.covariance, &own).as_ref())?;
    let mut values: Vec<f64> = own.iter().map(|&l| expert.mean[l]).collect();
    factor.sample_moment(&mut values, rng);
    let each = own.iter().zip(values);
    each.for_each(|(&l, value)| drawn[l] = value);
    Ok(drawn)
}

fn failed(at: (usize, NotPositiveDefinite)) -> IqgmeError {
    IqgmeError::at(0, "factors of a row")(at)
}
