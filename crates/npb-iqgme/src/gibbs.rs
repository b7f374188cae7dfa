//! Gibbs sampling: the exact posterior, by draws.
//!
//! The model and its priors are those of the variational runs. Moves are values ([`GibbsMove`]); equations in the repository's
//! `docs/iqgme-updates.md#moves-of-the-gibbs-sampler`.

mod collapsed;
pub(crate) mod config;
pub(crate) mod fit;
mod parameters;
mod rows;
mod split_merge;
pub(crate) mod state;
mod sticks;
#[cfg(test)]
mod tests;

use npb_infer::{Xoshiro256PlusPlus, parallel, stream};
use npb_priors::dist::multinomial_probit;
use rand::RngExt;
use rand_distr::Exp1;

use crate::data::IqgmeData;
use crate::prior::Prior;
use crate::stats::SufficientStats;
use crate::{IqgmeError, Result, start};
use config::{GibbsConfig, GibbsMove};
use rows::{Drawn, Laws};
use state::{DrawnComponent, GibbsParameters, GibbsState, n_missing};

/// Third words of the keys of random streams: of the components that a kept draw adds, of cells drawn for the user, and the first of those of the moves, which take the next one each time.
const KEPT: u64 = 32;
const IMPUTE: u64 = 33;
const MOVES: u64 = 1 << 32;
/// Where moves that are made by hand after a chain has been resumed begin to count: beyond those that its last sweep made.
const RESUMED: u64 = 1 << 31;

/// Rounds of experts given the labels of the start, before labels move.
const START_ROUNDS: u64 = 10;

const SCALARS: [&str; 4] = [
    "concentration",
    "clusters",
    "largest share",
    "ln likelihood",
];

/// One chain of the Gibbs sampler. Drive it with [`sweep`](Self::sweep) or [`apply`](Self::apply).
///
/// Cost of a sweep: `P^2` for each row and component that its slice admits, `N min(|o|, |m|)^3` for each missing pattern, `N P^3` once; memory `O(P)` for each
/// row. Results are the same bits for any number of threads.
///
/// ```
/// use npb_iqgme::npb_data::{Labels, Table};
/// use npb_iqgme::{GibbsConfig, IqgmeData, IqgmeSampler};
///
/// let table = Table::complete(6, 1, vec![-2.0, -1.5, -1.0, 1.0, 1.4, 2.2])?;
/// let labels = Labels::from_strings(&["a", "a", "b", "a", "b", "b"].map(Some));
/// let config = GibbsConfig::default();
/// let data = IqgmeData::new(&table, &labels, &config.model)?;
/// let mut chain = IqgmeSampler::new(&data, config, 0)?;
/// for _ in 0..5 {
///     chain.sweep()?;
/// }
/// assert!(chain.parameters().concentration > 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IqgmeSampler<'d> {
    data: &'d IqgmeData,
    config: GibbsConfig,
    chain: u64,
    prior: Prior,
    parameters: GibbsParameters,
    /// By sorted position.
    labels: Vec<u32>,
    /// By sorted position, then utility.
    utilities: Vec<f64>,
    /// By sorted position, then feature; missing ones filled in.
    values: Vec<f64>,
    /// Of the rows as they are; none when they have changed.
    stats: Option<SufficientStats>,
    ln_likelihood: f64,
    sweep: u64,
    /// How often this sweep has asked for streams.
    uses: u64,
}

impl<'d> IqgmeSampler<'d> {
    /// Starts chain number `chain`: labels from its start, parameters drawn given them.
    ///
    /// # Errors
    /// A configuration out of range; numerical trouble.
    pub fn new(data: &'d IqgmeData, config: GibbsConfig, chain: u64) -> Result<Self> {
        config.validate()?;
        let starts = &config.model.starts;
        let from = starts[chain as usize % starts.len()];
        let first = start::responsibilities(data, &config.model, from, chain)?;
        Self::from_responsibilities(data, config, chain, first)
    }

    /// Starts a chain from so many components and the responsibilities of these, by sorted position: each row in the component that has most of it.
    pub(crate) fn from_responsibilities(
        data: &'d IqgmeData,
        config: GibbsConfig,
        chain: u64,
        (n_components, responsibilities): (usize, Vec<f64>),
    ) -> Result<Self> {
        let largest = |row: &[f64]| crate::answers::most_probable(row) as u32;
        let by_row = responsibilities.chunks_exact(n_components);
        let labels: Vec<u32> = by_row.map(largest).collect();
        let n_coefficients = data.rows.n_utilities * (data.rows.n_features + 1);
        let parameters = GibbsParameters {
            expert_means: vec![0.0; n_coefficients],
            expert_precisions: vec![1.0; n_coefficients],
            ..GibbsParameters::none()
        };
        let values = start::completed(data)?.concat();
        let mut sampler = Self::with(data, config, chain, parameters)?;
        sampler.labels = labels;
        sampler.values = values;
        sampler.utilities = data.first_locations();
        sampler.start(n_components)?;
        Ok(sampler)
    }

    /// Goes on from a state, in the same bits as if it had never stopped.
    ///
    /// # Errors
    /// A configuration out of range; a state of other data or another configuration.
    pub fn resume(
        data: &'d IqgmeData,
        config: GibbsConfig,
        chain: u64,
        state: GibbsState,
    ) -> Result<Self> {
        config.validate()?;
        state.check(data)?;
        let mut sampler = Self::with(data, config, chain, state.parameters)?;
        let order = &data.rows.order;
        sampler.labels = order.iter().map(|&row| state.labels[row]).collect();
        sampler.utilities = data.utilities_by_position(&state.utilities);
        sampler.values = data.rows.values.clone();
        let mut missing = state.missing.iter();
        let (places, p) = (positions(data), data.rows.n_features);
        for position in places {
            for &j in missing_at(data, position) {
                let value = missing.next().expect("as many as there are, checked");
                sampler.values[position * p + j] = *value;
            }
        }
        (sampler.sweep, sampler.uses) = (state.sweep, RESUMED);
        Ok(sampler)
    }

    fn with(
        data: &'d IqgmeData,
        config: GibbsConfig,
        chain: u64,
        parameters: GibbsParameters,
    ) -> Result<Self> {
        Ok(Self {
            prior: Prior::new(&config.model, &data.covariance, data.rows.n_utilities)?,
            data,
            config,
            chain,
            parameters,
            labels: Vec::new(),
            utilities: Vec::new(),
            values: Vec::new(),
            stats: None,
            ln_likelihood: f64::NAN,
            sweep: 0,
            uses: 0,
        })
    }

    /// Parameters given the labels of the start, in so many components; experts that know nothing yet would let the gate explain the class labels.
    fn start(&mut self, n_components: usize) -> Result<()> {
        let rng = &mut self.rng();
        self.push_prior_components(n_components, rng);
        self.concentration();
        self.components()?;
        if self.data.rows.n_utilities == 0 {
            return Ok(());
        }
        for _ in 0..START_ROUNDS {
            self.start_utilities();
            self.stats = None;
            self.experts()?;
        }
        self.expert_prior()
    }

    /// Utilities given everything else, the missing features as they are.
    fn start_utilities(&mut self) {
        let rng = &mut self.rng();
        let (p, n) = (self.data.rows.n_features, self.data.rows.n_utilities);
        let mut scores = vec![0.0; n];
        for (i, class) in self.data.rows.classes.iter().enumerate() {
            let Some(class) = *class else { continue };
            let x = &self.values[i * p..][..p];
            for (k, score) in scores.iter_mut().enumerate() {
                let w = &self.parameters.experts[self.labels[i] as usize * n + k];
                *score = crate::state::dot(&w[..p], x) + w[p];
            }
            multinomial_probit::draw(class, &scores, &mut self.utilities[i * n..][..n], rng);
        }
    }

    /// Names of the scalars that are traced: concentration, number of components with rows, share of rows of the largest one, and log-likelihood of observed features and
    /// class labels given the components of the rows (with more than two classes: of the utilities).
    pub fn scalar_names() -> Vec<String> {
        SCALARS.map(str::to_owned).to_vec()
    }

    /// The parameters now.
    pub fn parameters(&self) -> &GibbsParameters {
        &self.parameters
    }

    /// Everything that is drawn, as it is now: all that a run needs to go on.
    pub fn state(&self) -> GibbsState {
        let mut labels = vec![0; self.labels.len()];
        for (&row, &label) in self.data.rows.order.iter().zip(&self.labels) {
            labels[row] = label;
        }
        GibbsState {
            sweep: self.sweep,
            parameters: self.parameters.clone(),
            labels,
            utilities: self.data.utilities_by_row(&self.utilities),
            missing: self.missing_cells(),
        }
    }

    /// Missing cells of the model's columns as they are now, by row of the table, then column; standardised.
    pub fn missing_cells(&self) -> Vec<f64> {
        let p = self.data.rows.n_features;
        let mut cells = Vec::with_capacity(n_missing(self.data));
        for position in positions(self.data) {
            let row = &self.values[position * p..][..p];
            cells.extend(missing_at(self.data, position).iter().map(|&j| row[j]));
        }
        cells
    }

    /// Makes one sweep: every move of the configuration.
    ///
    /// # Errors
    /// Numerical trouble, with sweep and component.
    pub fn sweep(&mut self) -> Result<()> {
        self.sweep += 1;
        self.uses = 0;
        for n in 0..self.config.moves.len() {
            self.apply(self.config.moves[n])?;
        }
        Ok(())
    }

    /// What is traced of the last sweep, by [`scalar_names`](Self::scalar_names).
    pub fn scalars(&self) -> [f64; 4] {
        let counts = self.counts();
        let largest = counts.iter().max().copied().unwrap_or(0);
        [
            self.parameters.concentration,
            counts.iter().filter(|count| **count > 0).count() as f64,
            largest as f64 / self.labels.len() as f64,
            self.ln_likelihood,
        ]
    }

    /// Makes one move.
    ///
    /// # Errors
    /// Numerical trouble, with sweep and component.
    pub fn apply(&mut self, step: GibbsMove) -> Result<()> {
        match step {
            GibbsMove::Rows => self.rows()?,
            GibbsMove::SplitMerge => self.split_merge()?,
            GibbsMove::Swaps => self.swaps()?,
            GibbsMove::Concentration => self.concentration(),
            GibbsMove::Sticks => self.sticks(),
            GibbsMove::Components => self.components()?,
            GibbsMove::Experts => self.experts()?,
            GibbsMove::ExpertPrior => self.expert_prior()?,
        }
        Ok(())
    }

    /// Streams by item, others at each call: no two draws of a sweep share numbers, whatever its moves are and in whatever order.
    fn streams(&mut self) -> impl Fn(u64) -> Xoshiro256PlusPlus + Copy + Sync + use<> {
        self.uses += 1;
        let seed = self.config.model.seed;
        let [chain, sweep, part] = [self.chain, self.sweep, MOVES + self.uses];
        move |item| stream(seed, [chain, sweep, part, item])
    }

    /// One stream, another at each call.
    fn rng(&mut self) -> Xoshiro256PlusPlus {
        self.streams()(0)
    }

    /// Rows of each component, labelled or not.
    fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.parameters.components.len()];
        for label in &self.labels {
            counts[*label as usize] += 1;
        }
        counts
    }

    /// Equations: `docs/iqgme-updates.md#slices-and-labels`.
    fn rows(&mut self) -> Result<()> {
        let rows = &self.data.rows;
        let (weights, streams) = (self.parameters.weights().0, self.streams());
        let slices = rows::slices(rows, &self.labels, &weights, streams);
        let least = slices.iter().copied().fold(1.0, f64::min);
        self.extend_below(least)?;
        self.stats = None;
        let (sweep, streams) = (self.sweep, self.streams());
        let laws = Laws::new(&self.parameters, rows, sweep)?;
        let drawn = Drawn {
            labels: &mut self.labels,
            utilities: &mut self.utilities,
            values: &mut self.values,
        };
        self.ln_likelihood = rows::draw(rows, &laws, &slices, drawn, sweep, streams)?;
        self.trim();
        Ok(())
    }

    /// Statistics of the rows as they are.
    fn refresh(&mut self) -> SufficientStats {
        let n = self.parameters.components.len();
        let kept = self.stats.take();
        kept.unwrap_or_else(|| {
            let drawn = [&self.values[..], &self.utilities];
            parameters::stats(&self.data.rows, &self.labels, drawn, n)
        })
    }

    /// Equations: `docs/iqgme-updates.md#conjugate-moves`.
    fn components(&mut self) -> Result<()> {
        let (stats, streams) = (self.refresh(), self.streams());
        let failed = IqgmeError::at(self.sweep, "covariance");
        let draw = |h: usize| {
            let expected = self.prior.component.given(&stats, h).expected();
            let expected = expected.map_err(|source| failed((h, source)))?;
            let (mean, precision) = expected.law.sample(&mut streams(h as u64));
            Ok::<_, IqgmeError>(DrawnComponent { mean, precision })
        };
        let n = self.parameters.components.len();
        self.parameters.components = parallel::try_map(0..n, draw)?;
        self.stats = Some(stats);
        Ok(())
    }

    /// Equations: `docs/iqgme-updates.md#conjugate-moves`.
    fn experts(&mut self) -> Result<()> {
        let n_utilities = self.data.rows.n_utilities;
        if n_utilities == 0 {
            return Ok(());
        }
        let (stats, streams) = (self.refresh(), self.streams());
        let failed = IqgmeError::at(self.sweep, "expert precision");
        let draw = |i: usize| {
            let (h, k) = (i / n_utilities, i % n_utilities);
            let rng = &mut streams(i as u64);
            let drawn = parameters::draw_expert(&stats, [h, k], &self.parameters, rng);
            drawn.map_err(|source| failed((h, source)))
        };
        let n = self.parameters.components.len();
        self.parameters.experts = parallel::try_map(0..n * n_utilities, draw)?;
        self.stats = Some(stats);
        Ok(())
    }

    fn expert_prior(&mut self) -> Result<()> {
        let n_utilities = self.data.rows.n_utilities;
        if n_utilities == 0 {
            return Ok(());
        }
        let mut free = vec![false; self.parameters.components.len()];
        for (label, class) in self.labels.iter().zip(&self.data.rows.classes) {
            free[*label as usize] |= class.is_some();
        }
        let rng = &mut self.rng();
        parameters::draw_expert_prior(&mut self.parameters, &free, &self.prior, rng)?;
        let width = self.data.rows.n_features + 1;
        for i in (0..self.parameters.experts.len()).filter(|i| !free[i / n_utilities]) {
            let law = self.parameters.expert_law(i % n_utilities, width);
            self.parameters.experts[i] = parameters::draw_prior_expert(law, rng);
        }
        Ok(())
    }

    /// Appends components that nothing is known of; sticks are the caller's.
    fn push_prior_components(&mut self, more: usize, rng: &mut Xoshiro256PlusPlus) {
        let mut parameters = std::mem::replace(&mut self.parameters, GibbsParameters::none());
        for _ in 0..more {
            self.push_prior_component(&mut parameters, rng);
        }
        self.parameters = parameters;
    }

    /// A stick `V_h` from its prior.
    fn prior_stick(&self, rng: &mut Xoshiro256PlusPlus) -> f64 {
        -(-rng.sample::<f64, _>(Exp1) / self.parameters.concentration).exp_m1()
    }

    fn push_prior_component(&self, parameters: &mut GibbsParameters, rng: &mut Xoshiro256PlusPlus) {
        let width = self.data.rows.n_features + 1;
        let (mean, precision) = self.prior.expected.law.sample(rng);
        parameters
            .components
            .push(DrawnComponent { mean, precision });
        for k in 0..self.data.rows.n_utilities {
            let w = parameters::draw_prior_expert(parameters.expert_law(k, width), rng);
            parameters.experts.push(w);
        }
    }
}

/// Sorted positions by row of the table.
fn positions(data: &IqgmeData) -> Vec<usize> {
    let mut positions = vec![0; data.rows.len()];
    for (position, &row) in data.rows.order.iter().enumerate() {
        positions[row] = position;
    }
    positions
}

/// Features that are missing in the row at a sorted position.
fn missing_at(data: &IqgmeData, position: usize) -> &[usize] {
    let rows = &data.rows;
    let group = rows.groups.partition_point(|g| g.rows.end <= position);
    &rows.patterns[rows.groups[group].pattern].missing
}
