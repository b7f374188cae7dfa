//! Gibbs sampling for the factor-analytic variant, the check of its variational posterior.
//!
//! A blocked sampler: `N` clusters and `L` columns are all there, used or not. Conditionals are in `docs/iqgme-updates.md`, "Factor-analytic variant".

use npb_data::Table;
use npb_infer::{Xoshiro256PlusPlus, parallel, stream};
use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite, dot};
use npb_priors::dist::{Beta, NormalGamma, sample_ln_weights, sample_probit};
use npb_priors::special::{ln_normalize, ln_phi};
use rand::RngExt;
use rand_distr::StandardNormal;

pub(crate) use self::draw::FactorDraw;
use self::draw::{LEAST_CONCENTRATION, first_draw, normal_gamma, precision};
use crate::answers::{ALL_CLASSES, with_first_class};
use crate::config::check_length;
use crate::data::two_classes;
use crate::factor::bound::Priors;
use crate::factor::cells::Cells;
use crate::factor::data::FactorData;
use crate::factor::features::FeatureStats;
use crate::factor::forms::Forms;
use crate::factor::rows::{Cluster, OwnGram, Spread, multiply, shared};
use crate::factor::state::FactorState;
use crate::state::expect;
use crate::state::gamma;
use crate::{FactorConfig, IqgmeError};
use npb_priors::dist::multinomial_probit;
use npb_priors::dist::multinomial_probit::probabilities_sharing;

mod draw;
#[cfg(test)]
mod tests;

/// Keys of random streams, third word.
const FIRST: u64 = 20;
const MOVE: u64 = 21;
/// Where moves that are made by hand before the first sweep, or after a chain has been resumed, begin to count: beyond those of the last sweep.
const RESUMED: u64 = 1 << 31;

/// One move of the sampler. Each leaves the posterior as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FactorMove {
    /// Cluster, score and factors of every row, jointly.
    Rows,
    /// Each indicator with the factors that it governs.
    Indicators,
    /// The clusters' noise.
    ClusterNoise,
    /// Weights of the clusters.
    Sticks,
    /// The concentration given the weights.
    Concentration,
    /// Loadings, means and noise of every feature, jointly.
    Features,
    /// Precisions of the columns of the loadings, and of the means.
    Scales,
    /// Experts.
    Experts,
    /// The prior that the experts share.
    ExpertPrior,
}

impl FactorMove {
    /// The moves of a sweep, in order.
    pub(crate) const ALL: [Self; 9] = [
        Self::Rows,
        Self::Indicators,
        Self::ClusterNoise,
        Self::Sticks,
        Self::Concentration,
        Self::Features,
        Self::Scales,
        Self::Experts,
        Self::ExpertPrior,
    ];
}

/// A Gibbs sampler for the factor-analytic variant. Costs as [`crate::FactorVb`], all `N` clusters and `L` columns counted.
pub(crate) struct FactorSampler<'d> {
    data: &'d FactorData,
    config: FactorConfig,
    priors: Priors,
    moves: Vec<FactorMove>,
    chain: u64,
    sweep: u64,
    /// Moves made since the sweep began: each draws from a stream of its own.
    uses: u64,
    draw: FactorDraw,
    /// Of the current coefficients and noise; none when these have moved.
    forms: Option<Forms>,
}

impl<'d> FactorSampler<'d> {
    /// A chain that starts at a draw from a variational posterior; clusters and columns that it does not have are drawn from the prior. `config.scale` is that
    /// which `data` was prepared with, whatever it is here.
    pub(crate) fn new(
        data: &'d FactorData,
        config: FactorConfig,
        start: &FactorState,
        chain: u64,
    ) -> Result<Self, IqgmeError> {
        config.validate()?;
        start.check(data.cells.n_features(), data.labels.n_utilities, &config)?;
        let mut rng = stream(config.seed, [chain, 0, FIRST, 0]);
        let priors = Priors::new(&config);
        let draw = first_draw(data, (&config, &priors), start, &mut rng)
            .map_err(IqgmeError::at(0, "start"))?;
        let mut sampler = Self::at(data, config, draw, chain, 0);
        sampler.apply(FactorMove::Rows)?;
        Ok(sampler)
    }

    /// Goes on from a draw, the last of `sweep` sweeps of chain number `chain`, in the same bits as if the chain had never stopped. Moves are all of
    /// [`FactorMove::ALL`] again, and [`run`](Self::run) makes the sweeps of its plan from the first on.
    ///
    /// # Errors
    /// A configuration out of range; a draw of other data or another configuration.
    pub(crate) fn resume(
        data: &'d FactorData,
        config: FactorConfig,
        draw: FactorDraw,
        chain: u64,
        sweep: u64,
    ) -> Result<Self, IqgmeError> {
        config.validate()?;
        draw.check(data, &config)
            .and_then(|()| expect(sweep < u64::MAX, "sweep"))?;
        Ok(Self::at(data, config, draw, chain, sweep))
    }

    fn at(
        data: &'d FactorData,
        config: FactorConfig,
        draw: FactorDraw,
        chain: u64,
        sweep: u64,
    ) -> Self {
        Self {
            data,
            priors: Priors::new(&config),
            config,
            moves: FactorMove::ALL.to_vec(),
            chain,
            sweep,
            uses: RESUMED,
            draw,
            forms: None,
        }
    }

    /// Sets the moves of a sweep, in order; without this they are [`FactorMove::ALL`].
    ///
    /// # Errors
    /// No moves.
    pub(crate) fn with_moves(mut self, moves: &[FactorMove]) -> Result<Self, IqgmeError> {
        check_length("moves", moves.len(), "moves")?;
        self.moves = moves.to_vec();
        Ok(self)
    }

    /// The current draw.
    pub(crate) fn draw(&self) -> &FactorDraw {
        &self.draw
    }

    /// Makes every move once.
    pub(crate) fn sweep(&mut self) -> Result<(), IqgmeError> {
        self.sweep += 1;
        self.uses = 0;
        for k in 0..self.moves.len() {
            self.apply(self.moves[k])?;
        }
        Ok(())
    }

    /// Concentration, occupied clusters, indicators that are on in them, mean log noise precision, and log probability of the labels given factors and experts.
    pub(crate) fn scalars(&self) -> [f64; 5] {
        let [concentration, clusters, indicators, ln_noise] = self.draw.scalars();
        [
            concentration,
            clusters,
            indicators,
            ln_noise,
            self.ln_labels(),
        ]
    }

    /// Probability of the second of two classes for each row by the current draw, as [`predict_classes`](Self::predict_classes) has those of all. Errors: as there; more than two classes.
    pub(crate) fn predict_proba(&self, table: &Table) -> Result<Vec<f64>, IqgmeError> {
        two_classes(&self.data.classes, "predict_proba", ALL_CLASSES)?;
        let all = self.predict_classes(table)?;
        Ok(all.into_iter().map(|of_row| of_row[1]).collect())
    }

    /// Probabilities of the classes for each row by the current draw, factors and missing features integrated out. Errors: other columns than in training, no
    /// labels in training.
    pub(crate) fn predict_classes(&self, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
        if self.data.n_labelled == 0 {
            return Err(IqgmeError::Unlabelled);
        }
        let cells = Cells::new(&self.data.units.apply(table)?);
        let forms = Forms::new(&self.draw.features(), &cells);
        let n = self.draw.n_utilities();
        let clusters = self.draw.clusters();
        let mut probabilities = vec![vec![0.0; n]; cells.n_rows()];
        let (mut means, mut part) = (vec![0.0; n], vec![0.0; n]);
        for (pattern, gram) in cells.patterns.iter().zip(&forms.grams) {
            let grams: Vec<OwnGram> = clusters.iter().map(|c| c.own_gram(gram)).collect();
            let spreads = self.spreads(&clusters, &grams, false)?;
            for &i in &pattern.rows {
                let posterior = |(h, cluster): (usize, &Cluster)| {
                    cluster.posterior(&forms, i, &grams[h], None, &spreads[h])
                };
                let (located, mut weights): (Vec<_>, Vec<_>) =
                    clusters.iter().enumerate().map(posterior).unzip();
                ln_normalize(&mut weights);
                for (h, (s, weight)) in located.iter().zip(weights).enumerate() {
                    let moments = self.draw.moments(h, &clusters[h].used);
                    for (k, mean) in means.iter_mut().enumerate() {
                        *mean = moments.score(k, s);
                    }
                    let slopes: Vec<&[f64]> = moments.slopes.iter().map(Vec::as_slice).collect();
                    let shared = shared(&slopes, &spreads[h].covariance);
                    probabilities_sharing(&means, &vec![1.0; n], &shared, &mut part);
                    let sums = probabilities[i].iter_mut().zip(&part);
                    sums.for_each(|(sum, p)| *sum += weight * p);
                }
            }
        }
        probabilities
            .iter_mut()
            .flatten()
            .for_each(|p| *p = p.min(1.0));
        Ok(with_first_class(probabilities))
    }

    /// Conditional means of the missing cells of the training rows given the draw, row by row and then by feature, in standardised units.
    pub(crate) fn missing_means(&self) -> Vec<f64> {
        let n_factors = self.draw.loading_precisions.len();
        let mut means = Vec::new();
        for pattern in self.data.cells.patterns.iter() {
            for &i in &pattern.rows {
                let h = self.draw.labels[i];
                for &p in &pattern.missing {
                    let theta = |d: usize| self.draw.coefficients[(p, d)];
                    let used = (0..n_factors).filter(|&l| self.draw.indicators[h][l]);
                    let common: f64 = used.map(|l| theta(l) * self.draw.factors[(l, i)]).sum();
                    means.push(common + theta(n_factors + h));
                }
            }
        }
        means
    }

    /// Makes one move.
    pub(crate) fn apply(&mut self, which: FactorMove) -> Result<(), IqgmeError> {
        self.uses += 1;
        let key = [self.chain, self.sweep, MOVE, self.uses];
        let mut rng = stream(self.config.seed, key);
        match which {
            FactorMove::Rows => return self.move_rows(rng.random()),
            FactorMove::Indicators => self.move_indicators(&mut rng),
            FactorMove::ClusterNoise => self.move_cluster_noise(&mut rng),
            FactorMove::Sticks => self.move_sticks(&mut rng),
            FactorMove::Concentration => self.move_concentration(&mut rng),
            FactorMove::Features => return self.move_features(rng.random()),
            FactorMove::Scales => self.move_scales(&mut rng),
            FactorMove::Experts => return self.move_experts(&mut rng),
            FactorMove::ExpertPrior => self.move_expert_prior(&mut rng),
        }
        Ok(())
    }

    fn prepare_forms(&mut self) {
        if self.forms.is_none() {
            self.forms = Some(Forms::new(&self.draw.features(), &self.data.cells));
        }
    }

    fn spreads(
        &self,
        clusters: &[Cluster],
        grams: &[OwnGram],
        labelled: bool,
    ) -> Result<Vec<Spread>, IqgmeError> {
        let spread = |(h, cluster): (usize, &Cluster)| {
            let spread = cluster.spread(&grams[h], labelled);
            spread.map_err(|source| self.failed("factors", h, source))
        };
        clusters.iter().enumerate().map(spread).collect()
    }

    /// The cluster with score and factors integrated out, the score with the factors integrated out, the factors.
    fn move_rows(&mut self, seed: u64) -> Result<(), IqgmeError> {
        self.prepare_forms();
        let forms = self.forms.as_ref().expect("prepared");
        let clusters = self.draw.clusters();
        // With one utility it is integrated out with the factors; several are given, and drawn anew after them.
        let n_utilities = self.draw.n_utilities();
        let several = n_utilities > 1;
        let with_expert = |(h, cluster): (usize, &Cluster)| Cluster {
            expert: Some(self.draw.moments(h, &cluster.used)),
            ..cluster.clone()
        };
        let with_experts: Vec<Cluster> = match several {
            true => clusters.iter().enumerate().map(with_expert).collect(),
            false => Vec::new(),
        };
        let patterns = self.data.cells.patterns.patterns();
        let pairs = patterns.iter().zip(&forms.grams);
        let drawn: Vec<Vec<DrawnRow>> = parallel::try_map(pairs, |(pattern, gram)| {
            let grams: Vec<OwnGram> = clusters.iter().map(|c| c.own_gram(gram)).collect();
            let spreads = self.spreads(&clusters, &grams, false)?;
            let given = match several {
                true => Some(self.spreads(&with_experts, &grams, true)?),
                false => None,
            };
            let row = |&i: &usize| {
                let mut rng = stream(seed, [0, 0, 0, i as u64]);
                let given = given.as_ref().filter(|_| self.data.labels.is_labelled(i));
                let (clusters, spreads) = match given {
                    Some(given) => (&with_experts, given),
                    None => (&clusters, &spreads),
                };
                let laws = (&clusters[..], &grams[..], &spreads[..], given.is_some());
                let row = self.draw_row(forms, laws, i, &mut rng);
                row.map_err(|(h, source)| self.failed("factors", h, source))
            };
            parallel::try_map(&pattern.rows, row)
        })?;
        for (pattern, rows) in patterns.iter().zip(drawn) {
            for (&i, row) in pattern.rows.iter().zip(rows) {
                self.draw.labels[i] = row.label;
                self.draw.scores[i * n_utilities..][..n_utilities].copy_from_slice(&row.scores);
                let column = self.draw.factors.col_as_slice_mut(i);
                column.copy_from_slice(&row.factors);
            }
        }
        Ok(())
    }

    fn draw_row(
        &self,
        forms: &Forms,
        (clusters, grams, spreads, given): (&[Cluster], &[OwnGram], &[Spread], bool),
        i: usize,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<DrawnRow, (usize, NotPositiveDefinite)> {
        let class = self.data.labels.class[i];
        let sign = |class: usize| if class > 0 { 1.0 } else { -1.0 };
        let given = given.then(|| self.draw.scores_of(i));
        let mut logs = Vec::with_capacity(clusters.len());
        let mut means = Vec::with_capacity(clusters.len());
        for (h, (cluster, spread)) in clusters.iter().zip(spreads).enumerate() {
            let (s, mut ln) = cluster.posterior(forms, i, &grams[h], given, spread);
            if let (Some(class), None) = (class, &given) {
                let score = self
                    .draw
                    .score(&self.draw.experts[h], &cluster.used, &s, spread);
                ln += ln_phi(sign(class) * score.mean / score.variance.sqrt());
            }
            logs.push(ln);
            means.push(s);
        }
        let label = sample_ln_weights(&logs, rng).unwrap_or(0);
        let (used, spread) = (&clusters[label].used, &spreads[label]);
        let mut own = means.swap_remove(label);
        let at_mean = own.clone();
        if !own.is_empty() {
            let factor = Cholesky::new(spread.covariance.as_ref());
            factor
                .map_err(|source| (label, source))?
                .sample_moment(&mut own, rng);
        }
        let mut scores = vec![0.0; self.draw.n_utilities()];
        if let (Some(class), Some(_)) = (class, &given) {
            scores.copy_from_slice(self.draw.scores_of(i));
            let moments = self.draw.moments(label, used);
            let locations: Vec<f64> = (0..scores.len()).map(|k| moments.score(k, &own)).collect();
            multinomial_probit::draw(class, &locations, &mut scores, rng);
        } else if let Some(class) = class {
            let expert = &self.draw.experts[label];
            let score = self.draw.score(expert, used, &at_mean, spread);
            let sd = score.variance.sqrt();
            let t = sd * sample_probit(score.mean / sd, class > 0, rng);
            // A joint draw of factors and score, moved to the score that was drawn.
            let slope: Vec<f64> = used.iter().map(|&l| expert[l]).collect();
            let intercept = expert[self.draw.loading_precisions.len()];
            let noise: f64 = rng.sample(StandardNormal);
            let joint = dot(&slope, &own) + intercept + noise;
            let gain = multiply(&spread.covariance, &slope);
            for (s, gain) in own.iter_mut().zip(gain) {
                *s += gain * (t - joint) / score.variance;
            }
            scores[0] = t;
        }
        let mut factors: Vec<f64> = (0..self.draw.loading_precisions.len())
            .map(|_| rng.sample(StandardNormal))
            .collect();
        for (&l, s) in used.iter().zip(own) {
            factors[l] = s;
        }
        Ok(DrawnRow {
            label,
            scores,
            factors,
        })
    }

    fn move_indicators(&mut self, rng: &mut Xoshiro256PlusPlus) {
        self.prepare_forms();
        let forms = self.forms.as_ref().expect("prepared");
        let [ln_on, ln_off] = self.config.ln_indicator();
        let n_factors = self.draw.loading_precisions.len();
        let index = &self.data.cells.patterns;
        let left = &self.draw.scores;
        let n_utilities = self.draw.n_utilities();
        for h in 0..self.config.truncation {
            let members: Vec<usize> = (0..self.data.n_rows())
                .filter(|&i| self.draw.labels[i] == h)
                .collect();
            for l in 0..n_factors {
                // Precision and pull of the factor of each row if the indicator is on.
                let ons: Vec<(f64, f64)> = members
                    .iter()
                    .map(|&i| {
                        let gram = &forms.grams[index.pattern_of_row(i)];
                        let labelled = self.data.labels.is_labelled(i);
                        let left = labelled.then(|| &left[i * n_utilities..][..n_utilities]);
                        self.draw.one_factor(forms, gram, left, i, h, l)
                    })
                    .collect();
                let evidence: f64 = ons.iter().map(|(c, r)| 0.5 * (r * r / c - c.ln())).sum();
                let on = rng.random::<f64>() < 1.0 / (1.0 + (ln_off - ln_on - evidence).exp());
                self.draw.indicators[h][l] = on;
                for (&i, (c, r)) in members.iter().zip(ons) {
                    let z: f64 = rng.sample(StandardNormal);
                    self.draw.factors[(l, i)] = if on { r / c + z / c.sqrt() } else { z };
                }
            }
        }
    }

    fn move_cluster_noise(&mut self, rng: &mut Xoshiro256PlusPlus) {
        let Some(prior) = self.priors.cluster else {
            return;
        };
        self.prepare_forms();
        let forms = self.forms.as_ref().expect("prepared");
        let clusters = self.draw.clusters();
        let (mut shape, mut rate) = (
            vec![prior.shape(); clusters.len()],
            vec![prior.rate(); clusters.len()],
        );
        for (pattern, gram) in self.data.cells.patterns.iter().zip(&forms.grams) {
            for &i in &pattern.rows {
                let h = self.draw.labels[i];
                let cluster = &clusters[h];
                let s = self.draw.used_factors(&cluster.used, i);
                let square = cluster.expected_square(forms, i, &cluster.own_gram(gram), &s, 0.0);
                shape[h] += 0.5 * forms.counts[i];
                rate[h] += 0.5 * square.max(0.0);
            }
        }
        for h in 0..clusters.len() {
            self.draw.cluster_noise[h] = precision(&gamma(shape[h], rate[h]), rng);
        }
    }

    fn move_sticks(&mut self, rng: &mut Xoshiro256PlusPlus) {
        let n = self.config.truncation;
        let mut counts = vec![0usize; n];
        self.draw.labels.iter().for_each(|&h| counts[h] += 1);
        let mut later = self.draw.labels.len();
        let (mut ln_left, mut ln_rest) = (0.0, 0.0);
        for h in 0..n {
            if h + 1 == n {
                self.draw.ln_weights[h] = ln_left;
                break;
            }
            later -= counts[h];
            let stick = Beta::new(
                1.0 + counts[h] as f64,
                self.draw.concentration + later as f64,
            );
            let (ln_v, ln_not) = stick.expect("positive").sample_ln(rng);
            self.draw.ln_weights[h] = ln_left + ln_v;
            ln_left += ln_not;
            ln_rest += ln_not;
        }
        self.draw.ln_rest = ln_rest;
    }

    fn move_concentration(&mut self, rng: &mut Xoshiro256PlusPlus) {
        let sticks = (self.config.truncation - 1) as f64;
        let law = gamma(
            self.config.concentration.shape + sticks,
            self.config.concentration.rate - self.draw.ln_rest,
        );
        self.draw.concentration = law.sample(rng).max(LEAST_CONCENTRATION);
    }

    fn move_features(&mut self, seed: u64) -> Result<(), IqgmeError> {
        let clusters = self.draw.clusters();
        let stats = FeatureStats::new(self.data, &clusters, &self.draw.row_factors(&clusters));
        let precisions = self.draw.prior_precisions();
        let d = precisions.len();
        let factors: Vec<Cholesky> = parallel::try_map(&stats.second, |second| {
            let prior = |i: usize, j: usize| if i == j { precisions[i] } else { 0.0 };
            let precision = Mat::from_fn(d, d, |i, j| second[(i, j)] + prior(i, j));
            Cholesky::new(precision.as_ref())
        })
        .map_err(|source| self.failed("loadings", 0, source))?;
        let prior = &self.priors.noise;
        let columns = &self.data.columns;
        let linear = stats.linear.chunks_exact(d).enumerate();
        let drawn: Vec<(Vec<f64>, f64)> = parallel::map(linear, |(p, linear)| {
            let mut rng = stream(seed, [0, 0, 0, p as u64]);
            let pattern = columns.pattern_of_row(p);
            let mut mean = linear.to_vec();
            factors[pattern].solve(&mut mean);
            let rest = (stats.squares[p] - dot(linear, &mean)).max(0.0);
            let seen = columns.patterns()[pattern].observed.len() as f64;
            let law = gamma(prior.shape() + 0.5 * seen, prior.rate() + 0.5 * rest);
            let noise = precision(&law, &mut rng);
            let mut step: Vec<f64> = (0..d).map(|_| rng.sample(StandardNormal)).collect();
            factors[pattern].solve_lt(&mut step);
            for (mean, step) in mean.iter_mut().zip(step) {
                *mean += step / noise.sqrt();
            }
            (mean, noise)
        });
        self.draw.coefficients = Mat::from_fn(drawn.len(), d, |p, k| drawn[p].0[k]);
        self.draw.noise = drawn.iter().map(|(_, noise)| *noise).collect();
        self.forms = None;
        Ok(())
    }

    fn move_scales(&mut self, rng: &mut Xoshiro256PlusPlus) {
        let draw = &mut self.draw;
        let n_factors = draw.loading_precisions.len();
        let p = draw.noise.len() as f64;
        let square = |k: usize| -> f64 {
            let column = draw.coefficients.col_as_slice(k).iter().zip(&draw.noise);
            column.map(|(a, psi)| psi * a * a).sum()
        };
        let squares: Vec<f64> = (0..draw.coefficients.ncols()).map(square).collect();
        let [loading, mean] = [&self.priors.loading, &self.priors.mean];
        for (l, square) in squares[..n_factors].iter().enumerate() {
            let law = gamma(loading.shape() + 0.5 * p, loading.rate() + 0.5 * square);
            draw.loading_precisions[l] = precision(&law, rng);
        }
        let of_means = &squares[n_factors..];
        let shape = mean.shape() + 0.5 * p * of_means.len() as f64;
        let rate = mean.rate() + 0.5 * of_means.iter().sum::<f64>();
        draw.mean_precision = precision(&gamma(shape, rate), rng);
    }

    fn move_experts(&mut self, rng: &mut Xoshiro256PlusPlus) -> Result<(), IqgmeError> {
        if self.data.n_labelled == 0 {
            return Ok(());
        }
        let n_factors = self.draw.loading_precisions.len();
        let left = &self.draw.scores;
        let n_utilities = self.draw.n_utilities();
        for place in 0..self.draw.experts.len() {
            let (h, k) = (place / n_utilities, place % n_utilities);
            let prior = &self.draw.expert_prior[k * (n_factors + 1)..][..n_factors + 1];
            let mut precision = Mat::from_fn(n_factors + 1, n_factors + 1, |i, j| match i == j {
                true => prior[i].1,
                false => 0.0,
            });
            let mut linear: Vec<f64> = prior.iter().map(|(zeta, lambda)| zeta * lambda).collect();
            for i in 0..self.data.n_rows() {
                if !self.data.labels.is_labelled(i) || self.draw.labels[i] != h {
                    continue;
                }
                let f = self.draw.seen_by_expert(h, i);
                for (j, b) in f.iter().enumerate() {
                    linear[j] += left[i * n_utilities + k] * b;
                    for (l, a) in f.iter().enumerate() {
                        precision[(l, j)] += a * b;
                    }
                }
            }
            let factor = Cholesky::new(precision.as_ref());
            let factor = factor.map_err(|source| self.failed("expert", h, source))?;
            factor.sample_canonical(&mut linear, rng);
            self.draw.experts[place] = linear;
        }
        Ok(())
    }

    /// Log probability of the labels given factors and experts.
    fn ln_labels(&self) -> f64 {
        let mut means = vec![0.0; self.draw.n_utilities()];
        let mut ln_label = |i: usize| {
            self.data
                .labels
                .moments(i, &self.draw.of_experts(i), &mut means)
        };
        let labelled = self.data.labels.labelled().into_iter();
        labelled.map(&mut ln_label).sum()
    }

    fn move_expert_prior(&mut self, rng: &mut Xoshiro256PlusPlus) {
        if self.data.n_labelled == 0 {
            return;
        }
        let prior = &self.priors.expert;
        let (n_utilities, n) = (self.draw.n_utilities(), self.draw.indicators.len() as f64);
        let width = self.draw.loading_precisions.len() + 1;
        for place in 0..self.draw.expert_prior.len() {
            let (k, l) = (place / width, place % width);
            let of_utility = || self.draw.experts.iter().skip(k).step_by(n_utilities);
            let sum: f64 = of_utility().map(|w| w[l]).sum();
            let squares: f64 = of_utility().map(|w| w[l] * w[l]).sum();
            let strength = prior.strength() + n;
            let mean = sum / strength;
            let rest = (squares - strength * mean * mean).max(0.0);
            let (shape, rate) = (prior.precision().shape(), prior.precision().rate());
            let law = NormalGamma::new(mean, strength, shape + 0.5 * n, rate + 0.5 * rest);
            self.draw.expert_prior[place] = normal_gamma(&law.expect("positive"), rng);
        }
    }

    fn failed(
        &self,
        block: &'static str,
        component: usize,
        source: NotPositiveDefinite,
    ) -> IqgmeError {
        IqgmeError::at(self.sweep, block)((component, source))
    }
}

struct DrawnRow {
    label: usize,
    scores: Vec<f64>,
    factors: Vec<f64>,
}
