//! Rows and columns that were not there in training.

use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::dist::Gamma;
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::BsvdError;
use crate::fitted::{BsvdFit, QUESTION};
use crate::likelihood::Likelihood;
use crate::links;
use crate::names::Key;
use crate::predict::{CellPosterior, LEVEL, Prediction};
use crate::probit::draw_latent;
use crate::ranking::{Ranked, Ranking};
use crate::side::{Line, Side};
use crate::view::View;
use npb_data::Features;
use npb_linalg::dot_f32 as dot;

/// Third word of the keys of random streams.
const FOLDED: u64 = 3;

/// Draws of the new row for each stored draw: an antithetic pair, so that its mean is that of the exact conditional.
const PAIR: usize = 2;

/// Steps of the augmentation chain at the first stored draw, and at each later one.
const FIRST_STEPS: usize = 100;
const LATER_STEPS: usize = 5;

/// The same of the chain of a new row's noise weight and spread: next to the row's numbers they change little.
const FIRST_WEIGHT_STEPS: usize = 20;
const LATER_WEIGHT_STEPS: usize = 2;

/// Spreads stay numbers.
const LEAST_FACTOR_PRECISION: f64 = f32::MIN_POSITIVE as f64;

/// A row (or column) that came after the fit, with its posterior given the entries it has.
///
/// Each stored draw of the fit is taken as it is. Given it, how noisy its entries are and how far its factors lie from their means, the new row has with the
/// Gaussian likelihood an exact normal conditional, of which an antithetic pair of draws is kept. A row with a noise weight or a spread of its own takes these and its
/// numbers in turn, in one chain of 20 steps at the first stored draw and 2 at each further one. With probit likelihoods the conditional is normal given latent entries: one chain draws these and the row in turn
/// (the sampler's own two moves), 100 steps at the first stored draw, then, as latent entries hardly change from draw to draw, 5 at each further one; 345
/// steps over 50 draws. A step leaves of the start at most the share of information that a level lacks of its latent entry: 0.36 at even odds, 0.8 where
/// one outcome is twenty times as likely as the other; and the prior of the row lowers that.
///
/// What the few new entries would tell about the other rows and columns is not taken up; for that, go on with [`BsvdFit::continue_with`].
#[derive(Clone, Debug)]
pub struct Folded<'a> {
    fit: &'a BsvdFit,
    side: Side,
    views: Vec<View<'a>>,
    features: Vec<f32>,
    /// Of each draw the pair, one after the other: factors, intercept, coefficients.
    samples: Vec<f32>,
    /// Of each draw the factor of the noise precision.
    weights: Vec<f64>,
}

impl Folded<'_> {
    fn profile(&self) -> Ranking<'_> {
        let mut rest = &self.samples[..];
        let mut lines = Vec::with_capacity(PAIR * self.views.len());
        for (view, &noise_weight) in self.views.iter().zip(&self.weights) {
            let own = self.side.of(view.state);
            let (rank, intercept) = (view.state.rank(), usize::from(!own.intercepts.is_empty()));
            let width = rank + intercept + own.coefficient_mean.len();
            for _ in 0..PAIR {
                let (sample, later) = rest.split_at(width);
                rest = later;
                lines.push(Line {
                    factors: &sample[..rank],
                    intercept: sample[rank..rank + intercept].first().map_or(0.0, |&r| r),
                    coefficients: &sample[rank + intercept..],
                    features: &self.features,
                    noise_weight,
                });
            }
        }
        Ranking {
            fit: self.fit,
            side: self.side,
            views: &self.views,
            lines,
        }
    }

    /// The posterior of the new row's cell in a column of the fit (the new column's cell in a row).
    ///
    /// # Errors
    /// There is no such column (row).
    pub fn cell<'k>(&self, other: impl Into<Key<'k>>) -> Result<CellPosterior<'_>, BsvdError> {
        let j = self.fit.place(self.side.opposite(), other.into())?;
        Ok(self.profile().cell(j))
    }

    /// That cell in short, with 90% intervals.
    ///
    /// # Errors
    /// There is no such column (row).
    pub fn predict<'k>(&self, other: impl Into<Key<'k>>) -> Result<Prediction, BsvdError> {
        self.cell(other)?.summary(LEVEL)
    }

    /// The `n` columns (rows) with the largest posterior means, largest first, without those of `exclude`. Cost as [`BsvdFit::top`].
    ///
    /// # Errors
    /// An excluded column (row) that does not exist.
    pub fn top(&self, n: usize, exclude: &[u32]) -> Result<Vec<Ranked>, BsvdError> {
        self.profile().top(n, exclude)
    }
}

impl BsvdFit {
    /// A new row: its factors, intercept and coefficients given its entries `(column, value)`, without a new fit.
    ///
    /// `features`: the row's own, as many as the rows of the fit have; empty where they have none. Without entries the row is known by its features
    /// alone. Levels are given as numbers, for the binomial likelihood see [`fold_in_row_successes`](Self::fold_in_row_successes).
    ///
    /// Cost for each stored draw, with w = rank + 1 + column features: `w^2 / 2` for each entry and `w^3 / 6` multiplications, and for probit
    /// likelihoods `w^2` and w for each entry for each step. Rows are folded in independently: many of them in parallel by the caller.
    ///
    /// # Errors
    /// No stored draw; a column that does not exist or is given twice, a value that is not finite, another number of features.
    ///
    /// ```
    /// # use npb_bsvd::npb_data::{Rating, Ratings};
    /// # use npb_bsvd::{BsvdConfig, Cells, SideInformation, fit};
    /// # let places = (0..12u32).flat_map(|i| (0..9u32).map(move |j| (i, j)));
    /// # let value = |i: u32, j: u32| (f64::from(i) - 5.0) * (f64::from(j) - 3.0);
    /// # let entries: Vec<Rating> = places.filter(|(i, j)| (i + j) % 3 != 0)
    /// #     .map(|(row, column)| Rating { row, column, value: value(row, column) }).collect();
    /// # let ratings = Ratings::new(12, 9, &entries)?;
    /// let config = BsvdConfig { candidates: 6, ..BsvdConfig::default() };
    /// let model = fit(&ratings, SideInformation::default(), &Cells::default(), &config)?;
    /// // Someone new, whose entries are 4 times the distance from column 3.
    /// let new = model.fold_in_row(&[(0, -12.0), (4, 4.0), (8, 20.0)], &[])?;
    /// let cell = new.predict(6)?;
    /// assert!((cell.mean - 12.0).abs() < 1.5 && cell.interval.holds(12.0));
    /// assert_eq!(new.top(1, &[8])?[0].index, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fold_in_row(
        &self,
        entries: &[(usize, f64)],
        features: &[f64],
    ) -> Result<Folded<'_>, BsvdError> {
        self.fold_in(Side::Rows, self.values(Side::Rows, entries)?, features)
    }

    /// A new column, given its entries `(row, value)` and its own features; otherwise as [`fold_in_row`](Self::fold_in_row).
    ///
    /// # Errors
    /// As [`fold_in_row`](Self::fold_in_row).
    pub fn fold_in_column(
        &self,
        entries: &[(usize, f64)],
        features: &[f64],
    ) -> Result<Folded<'_>, BsvdError> {
        self.fold_in(
            Side::Columns,
            self.values(Side::Columns, entries)?,
            features,
        )
    }

    /// A new row of a binomial fit, given `(column, successes, trials)` of its cells; otherwise as [`fold_in_row`](Self::fold_in_row).
    ///
    /// # Errors
    /// As [`fold_in_row`](Self::fold_in_row); another likelihood; no trial or more successes than trials.
    pub fn fold_in_row_successes(
        &self,
        entries: &[(usize, u32, u32)],
        features: &[f64],
    ) -> Result<Folded<'_>, BsvdError> {
        self.fold_in(Side::Rows, self.successes(Side::Rows, entries)?, features)
    }

    /// A new column of a binomial fit, given `(row, successes, trials)` of its cells; otherwise as [`fold_in_row`](Self::fold_in_row).
    ///
    /// # Errors
    /// As [`fold_in_row_successes`](Self::fold_in_row_successes).
    pub fn fold_in_column_successes(
        &self,
        entries: &[(usize, u32, u32)],
        features: &[f64],
    ) -> Result<Folded<'_>, BsvdError> {
        self.fold_in(
            Side::Columns,
            self.successes(Side::Columns, entries)?,
            features,
        )
    }

    /// Entries that are values or levels.
    fn values(&self, side: Side, entries: &[(usize, f64)]) -> Result<Vec<Entry>, BsvdError> {
        let axis = side.opposite().name();
        let refuse = |index: usize, value: f64, rule: &'static str| BsvdError::NewEntry {
            axis,
            index,
            value,
            rule,
        };
        let level = |index: usize, value: f64, first: f64, count: u32| {
            let outcome = value - first;
            if outcome.fract() == 0.0 && outcome >= 0.0 && outcome < f64::from(count) {
                return Ok(Entry::level(index, outcome as u32, None));
            }
            Err(refuse(index, value, "is not one of the levels of the fit"))
        };
        let entry = |&(index, value): &(usize, f64)| match self.config.likelihood {
            Likelihood::Gaussian if value.is_finite() => Ok(Entry {
                place: index,
                target: (value - self.centre) / self.scale,
                outcome: None,
                trials: 1.0,
                weight: 1.0,
            }),
            Likelihood::Gaussian => Err(refuse(index, value, "is not a finite number")),
            Likelihood::Ordinal { levels } => level(index, value, 1.0, levels),
            Likelihood::Binary => level(index, value, 0.0, 2),
            Likelihood::Binomial => Err(refuse(
                index,
                value,
                "comes without trials: give successes and trials",
            )),
        };
        entries.iter().map(entry).collect()
    }

    /// Entries that are successes among trials.
    fn successes(
        &self,
        side: Side,
        entries: &[(usize, u32, u32)],
    ) -> Result<Vec<Entry>, BsvdError> {
        let refuse = |index, successes, rule| BsvdError::NewEntry {
            axis: side.opposite().name(),
            index,
            value: f64::from(successes),
            rule,
        };
        let entry = |&(index, successes, trials): &(usize, u32, u32)| {
            if self.config.likelihood != Likelihood::Binomial {
                return Err(refuse(
                    index,
                    successes,
                    "has trials, but the fit is not binomial",
                ));
            }
            if trials == 0 || successes > trials {
                return Err(refuse(
                    index,
                    successes,
                    "successes are not among so many trials",
                ));
            }
            Ok(Entry::level(index, successes, Some(trials)))
        };
        entries.iter().map(entry).collect()
    }

    fn fold_in(
        &self,
        side: Side,
        entries: Vec<Entry>,
        features: &[f64],
    ) -> Result<Folded<'_>, BsvdError> {
        let views = self.views(1)?;
        self.check_new(side, &entries, features)?;
        let features: Vec<f32> = features.iter().map(|&f| f as f32).collect();
        let key = [self.config.chain, QUESTION, FOLDED, 0];
        let mut work = Work::new(side, entries, &features, stream(self.config.seed, key));
        for (draw, view) in views.iter().enumerate() {
            work.draw(draw, view)?;
        }
        let (samples, weights) = (work.samples, work.weights);
        Ok(Folded {
            fit: self,
            side,
            views,
            features,
            samples,
            weights,
        })
    }

    fn check_new(&self, side: Side, entries: &[Entry], features: &[f64]) -> Result<(), BsvdError> {
        let expected = side.n_features(&self.side);
        if features.len() != expected {
            return Err(BsvdError::Size {
                what: match side {
                    Side::Rows => "features of the new row",
                    Side::Columns => "features of the new column",
                },
                found: features.len(),
                expected,
            });
        }
        Features::dense(1, expected, features)?;
        let (axis, size) = (side.opposite().name(), self.size(side.opposite()));
        let mut seen: Vec<usize> = entries.iter().map(|e| e.place).collect();
        seen.sort_unstable();
        if let Some(&place) = seen.last().filter(|&&j| j >= size) {
            return Err(BsvdError::NoSuch {
                axis,
                key: place.to_string(),
                size,
            });
        }
        match seen.windows(2).find(|w| w[0] == w[1]) {
            None => Ok(()),
            Some(pair) => Err(BsvdError::Twice {
                axis,
                index: pair[0],
            }),
        }
    }
}

/// An entry of the new row.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its column.
    place: usize,
    /// Value in units of the model; of probit likelihoods the latent entry as last drawn.
    target: f64,
    /// Level (from 0) or successes, and trials.
    outcome: Option<(u32, Option<u32>)>,
    /// Number of trials.
    trials: f64,
    /// These, times the noise weight of the column in the draw at hand.
    weight: f64,
}

impl Entry {
    fn level(place: usize, outcome: u32, trials: Option<u32>) -> Self {
        Self {
            place,
            target: 0.0,
            outcome: Some((outcome, trials)),
            trials: trials.map_or(1.0, f64::from),
            weight: 1.0,
        }
    }
}

/// Memory for the draws of one row, whose numbers are the coefficients of a Bayesian linear regression of its entries.
struct Work<'a> {
    side: Side,
    features: &'a [f32],
    rng: Xoshiro256PlusPlus,
    entries: Vec<Entry>,
    precision: Mat<f64>,
    factor: Cholesky,
    /// Prior precision times prior mean.
    prior_linear: Vec<f64>,
    /// Regressors of each entry, one after the other.
    lines: Vec<f64>,
    /// What of each entry the row has no part in.
    known: Vec<f64>,
    pair: [Vec<f64>; PAIR],
    /// Noise weight of the row.
    weight: f64,
    /// Precision of its factors about their means.
    spread: f64,
    samples: Vec<f32>,
    weights: Vec<f64>,
}

impl<'a> Work<'a> {
    fn new(side: Side, entries: Vec<Entry>, features: &'a [f32], rng: Xoshiro256PlusPlus) -> Self {
        Self {
            side,
            features,
            rng,
            entries,
            precision: Mat::zeros(0, 0),
            factor: Cholesky::default(),
            prior_linear: Vec::new(),
            lines: Vec::new(),
            known: Vec::new(),
            pair: Default::default(),
            weight: 1.0,
            spread: 1.0,
            samples: Vec::new(),
            weights: Vec::new(),
        }
    }

    /// Draws the pair for one stored draw.
    fn draw(&mut self, number: usize, view: &View<'_>) -> Result<(), BsvdError> {
        self.regressors(view);
        if number == 0 || self.entries.is_empty() {
            self.weights_before(view)?;
        }
        if view.likelihood.is_probit() && !self.entries.is_empty() {
            self.latent_chain(number, view)?;
        } else if !self.entries.is_empty() && self.has_own_weights(view) {
            self.weight_chain(number, view)?;
        } else {
            self.factor(number, view)?;
            self.conditional(view.state.noise_precision, true);
        }
        let samples = self.pair.iter().flatten();
        self.samples.extend(samples.map(|&x| x as f32));
        self.weights.push(self.weight);
        Ok(())
    }

    /// The factor of the precision of the row's numbers.
    fn factor(&mut self, number: usize, view: &View<'_>) -> Result<(), BsvdError> {
        self.prior(view);
        self.weigh(self.weight * view.state.noise_precision);
        self.factor
            .factor(self.precision.as_ref())
            .map_err(|e| BsvdError::Numerical {
                sweep: number as u64 + 1,
                block: "stored draw, folding in a new",
                item: 0,
                pivot: e.pivot,
                value: e.value,
            })
    }

    /// The row's weights and its numbers in turn, the weights as the stored draw before left them.
    fn weight_chain(&mut self, number: usize, view: &View<'_>) -> Result<(), BsvdError> {
        let steps = match number {
            0 => FIRST_WEIGHT_STEPS,
            _ => LATER_WEIGHT_STEPS,
        };
        for step in 1..=steps {
            self.factor(number, view)?;
            self.conditional(self.weight * view.state.noise_precision, step == steps);
            if step < steps {
                self.weights(view)?;
            }
        }
        Ok(())
    }

    fn has_own_weights(&self, view: &View<'_>) -> bool {
        let own = self.side.of(view.state);
        !(own.noise_weights.is_empty() && own.factor_weights.is_empty())
    }

    /// Draws the row's weights given its numbers, the first of the pair.
    fn weights(&mut self, view: &View<'_>) -> Result<(), BsvdError> {
        let own = self.side.of(view.state);
        if !own.noise_weights.is_empty() {
            self.noise_weight(view)?;
        }
        if !own.factor_weights.is_empty() {
            self.factor_precision_given_factors(view)?;
        }
        Ok(())
    }

    /// Draws the row's weights from their priors.
    fn weights_before(&mut self, view: &View<'_>) -> Result<(), BsvdError> {
        let own = self.side.of(view.state);
        if !own.noise_weights.is_empty() {
            let law = Gamma::new(own.noise_shape, own.noise_shape)?;
            self.weight = law.sample(&mut self.rng).max(f64::MIN_POSITIVE);
        }
        if !own.factor_weights.is_empty() {
            let law = Gamma::new(own.factor_shape, own.factor_shape)?;
            self.spread = law.sample(&mut self.rng).max(LEAST_FACTOR_PRECISION);
        }
        Ok(())
    }

    fn factor_precision_given_factors(&mut self, view: &View<'_>) -> Result<(), BsvdError> {
        let own = self.side.of(view.state);
        let mut means = own.factor_mean.clone();
        links::add_expected(&own.links, self.features, &mut means);
        let squares: f64 = self.pair[0]
            .iter()
            .zip(&means)
            .map(|(x, mean)| (x - mean).powi(2))
            .sum();
        let law = Gamma::new(
            own.factor_shape + 0.5 * means.len() as f64,
            own.factor_shape + 0.5 * squares,
        )?;
        self.spread = law.sample(&mut self.rng).max(LEAST_FACTOR_PRECISION);
        Ok(())
    }

    fn noise_weight(&mut self, view: &View<'_>) -> Result<(), BsvdError> {
        let squares = self.weighted_squares();
        let shape = self.side.of(view.state).noise_shape;
        let precision = view.state.noise_precision;
        let law = Gamma::new(
            shape + 0.5 * self.entries.len() as f64,
            shape + 0.5 * precision * squares,
        )?;
        self.weight = law.sample(&mut self.rng).max(f64::MIN_POSITIVE);
        Ok(())
    }

    /// Sum of squared residuals given the first of the pair, weighted by the columns.
    fn weighted_squares(&self) -> f64 {
        let width = self.pair[0].len();
        let square = |(n, entry): (usize, &Entry)| {
            let line = &self.lines[n * width..(n + 1) * width];
            let residual = entry.target - self.known[n] - inner(line, &self.pair[0]);
            entry.weight * residual * residual
        };
        self.entries.iter().enumerate().map(square).sum()
    }

    /// Latent entries and the row in turn, and its weights, if it has any.
    fn latent_chain(&mut self, number: usize, view: &View<'_>) -> Result<(), BsvdError> {
        let weighted = self.has_own_weights(view);
        self.factor(number, view)?;
        let steps = if number == 0 {
            // From the prior mean of the row.
            self.pair[0].clone_from(&self.prior_linear);
            let own = self.side.of(view.state);
            let rank = view.state.rank();
            for x in &mut self.pair[0][..rank] {
                *x /= self.spread;
            }
            let intercept = usize::from(!own.intercepts.is_empty());
            for (x, mean) in self.pair[0][rank + intercept..]
                .iter_mut()
                .zip(&own.coefficient_mean)
            {
                *x = *mean;
            }
            self.latents(view);
            FIRST_STEPS
        } else {
            // Latent entries, unlike the row's numbers, mean the same in every draw.
            LATER_STEPS
        };
        for step in 1..=steps {
            if weighted && step > 1 {
                self.factor(number, view)?;
            }
            self.conditional(self.weight, step == steps);
            self.latents(view);
            if weighted {
                self.weights(view)?;
            }
        }
        Ok(())
    }

    /// Draws the latent entries given the row, the first of the pair.
    fn latents(&mut self, view: &View<'_>) {
        let ordinal = matches!(view.likelihood, Likelihood::Ordinal { .. });
        let width = self.prior_linear.len();
        for (n, entry) in self.entries.iter_mut().enumerate() {
            let line = &self.lines[n * width..(n + 1) * width];
            let x = self.known[n] + inner(line, &self.pair[0]);
            if let Some((outcome, trials)) = entry.outcome {
                let sd = match ordinal {
                    true => (self.weight * entry.weight).sqrt().recip(),
                    false => 1.0,
                };
                let thresholds = &view.state.thresholds;
                entry.target = draw_latent(outcome, trials, thresholds, (x, sd), &mut self.rng);
            }
        }
    }

    /// Draws the row given values or latent entries, `N(P^-1 b, P^-1)`: `L^-T (L^-1 b + z)`, and as `second` of the pair `L^-T (L^-1 b - z)`.
    fn conditional(&mut self, noise_precision: f64, both: bool) {
        let width = self.prior_linear.len();
        let [first, second] = &mut self.pair;
        first.clone_from(&self.prior_linear);
        for (n, entry) in self.entries.iter().enumerate() {
            let response = noise_precision * entry.weight * (entry.target - self.known[n]);
            let line = &self.lines[n * width..(n + 1) * width];
            let sums = first.iter_mut().zip(line);
            sums.for_each(|(sum, x)| *sum += response * x);
        }
        self.factor.solve_l(first);
        second.clear();
        for mean in first.iter_mut() {
            let z: f64 = self.rng.sample(StandardNormal);
            second.push(*mean - z);
            *mean += z;
        }
        self.factor.solve_lt(first);
        if both {
            self.factor.solve_lt(second);
        }
    }

    /// Precision, and precision times mean, of factors, intercept and coefficients before any entry.
    fn prior(&mut self, view: &View<'_>) {
        let own = self.side.of(view.state);
        let mut diagonal = vec![self.spread; own.factor_mean.len()];
        self.prior_linear.clone_from(&own.factor_mean);
        links::add_expected(&own.links, self.features, &mut self.prior_linear);
        for x in &mut self.prior_linear {
            *x *= self.spread;
        }
        if !own.intercepts.is_empty() {
            diagonal.push(own.intercept_precision);
            self.prior_linear.push(0.0);
        }
        for (mean, precision) in own.coefficient_mean.iter().zip(&own.coefficient_precision) {
            diagonal.push(*precision);
            self.prior_linear.push(precision * mean);
        }
        let width = diagonal.len();
        self.precision.resize_with(width, width, |_, _| 0.0);
        for (k, &p) in diagonal.iter().enumerate() {
            let column = self.precision.col_as_slice_mut(k);
            column.fill(0.0);
            column[k] = p;
        }
    }

    /// What each entry is regressed on, and what of it is known.
    fn regressors(&mut self, view: &View<'_>) {
        let state = view.state;
        let other = self.side.opposite().of(state);
        let features = self.side.opposite().features(view.side);
        let intercept = !self.side.of(state).intercepts.is_empty();
        let mut own = vec![0.0; features.map_or(0, Features::n_features)];
        self.lines.clear();
        self.known.clear();
        for entry in &mut self.entries {
            entry.weight = entry.trials * other.noise_weight(entry.place);
            let theirs = Line::of(other, entry.place, state.rank(), &[]);
            let scaled = theirs.factors.iter().zip(&state.scales);
            self.lines.extend(scaled.map(|(&v, s)| f64::from(v) * s));
            if intercept {
                self.lines.push(1.0);
            }
            if let Some(features) = features {
                features.write(entry.place, &mut own);
                self.lines.extend(own.iter().map(|&f| f64::from(f)));
            }
            let effect = dot(theirs.coefficients, self.features);
            self.known
                .push(state.offset + f64::from(theirs.intercept) + effect);
        }
    }

    /// Adds the products of the regressors to the prior precision.
    fn weigh(&mut self, noise_precision: f64) {
        let width = self.prior_linear.len().max(1);
        for (line, entry) in self.lines.chunks_exact(width).zip(&self.entries) {
            let weight = noise_precision * entry.weight;
            for (k, &x) in line.iter().enumerate() {
                let column = &mut self.precision.col_as_slice_mut(k)[k..];
                let factor = weight * x;
                let sums = column.iter_mut().zip(&line[k..]);
                sums.for_each(|(sum, y)| *sum += factor * y);
            }
        }
    }
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use npb_data::{Rating, Ratings};
    use npb_infer::testing::largest_z;

    use super::*;
    use crate::{BsvdConfig, Cells, SideInformation};

    /// Given its numbers, the weights of a new row have gamma laws whose means are known.
    #[test]
    fn weights_of_a_new_row_are_drawn_from_their_laws() {
        let places = (0..12u32).flat_map(|i| (0..9u32).map(move |j| (i, j)));
        let value = |i: u32, j: u32| (f64::from(i) - 5.0) * (f64::from(j) - 3.0);
        let entries = places.map(|(row, column)| Rating {
            row,
            column,
            value: value(row, column),
        });
        let ratings = Ratings::new(12, 9, &entries.collect::<Vec<_>>()).unwrap();
        let config = BsvdConfig {
            candidates: 3,
            noise_shape_range: (2.0, 4.0),
            factor_precision_shape_range: (2.0, 4.0),
            sweeps: npb_infer::SweepPlan {
                burn_in: 20,
                keep: 1,
                thin: 1,
            },
            stored_draws: 1,
            ..BsvdConfig::default()
        };
        // What is known of the rows, the new one's above all, moves the means of its factors far.
        let known: Vec<f64> = (0..12).map(|i| f64::from(i) - 5.0).collect();
        let side = SideInformation {
            rows: Some(Features::dense(12, 1, &known).unwrap()),
            columns: None,
        };
        let fit = crate::fit(&ratings, side, &Cells::default(), &config).unwrap();
        let view = &fit.views(1).unwrap()[0];
        let entries = fit.values(Side::Rows, &[(0, -11.0), (4, 3.0)]).unwrap();
        let mut work = Work::new(Side::Rows, entries, &[9.0], stream(1, [0; 4]));
        work.regressors(view);
        work.factor(0, view).unwrap();
        work.conditional(view.state.noise_precision, true);
        let (own, numbers) = (&view.state.rows, work.pair[0].clone());
        assert!(own.links.iter().any(|b| b.abs() > 0.1), "{:?}", own.links);
        let means = own.factor_mean.iter().zip(&own.links);
        let apart = numbers
            .iter()
            .zip(means)
            .map(|(x, (mean, link))| x - (mean + 9.0 * link));
        let apart: f64 = apart.map(|x| x * x).sum();
        let squares = view.state.noise_precision * work.weighted_squares();
        let mean =
            |shape: f64, n: usize, squares: f64| (shape + 0.5 * n as f64) / (shape + 0.5 * squares);
        let expected = [
            mean(own.noise_shape, 2, squares),
            mean(own.factor_shape, own.factor_mean.len(), apart),
        ];
        let draw = |_| {
            work.weights(view).unwrap();
            vec![work.weight, work.spread]
        };
        let draws: Vec<Vec<f64>> = (0..20_000).map(draw).collect();
        let z = largest_z(&draws, &expected);
        assert!(z < 4.5, "{z}");
    }
}
