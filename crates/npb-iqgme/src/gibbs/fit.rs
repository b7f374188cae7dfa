//! What chains leave behind, and what can be asked of it. Equations: `docs/iqgme-updates.md#chains-that-start-at-the-members`.

use std::borrow::Cow;

use npb_data::{Labels, Table};
use npb_infer::diagnostics::{ChainDiagnostics, summarise};
use npb_infer::{
    ChainOf, Interval, Sampler, Stop, Sweep, Trace, Watch, parallel, sample, storage, stream,
};
use serde::{Deserialize, Serialize};

use super::config::GibbsConfig;
use super::state::{GibbsState, n_missing};
use super::{IMPUTE, IqgmeSampler, KEPT, SCALARS, missing_at, positions};
use crate::answers::{check_levels, class_intervals, quantiles, with_first_class};
use crate::data::{IqgmeData, fingerprint};
use crate::ensemble::questions::{
    Completing, Describes, Draws, Fit, OneTable, Stored, Variant, by_draws, taking_turns,
};
use crate::mixture::Mixture;
use crate::predict::{Experts, Gate, Predictor};
use crate::state::{expect, finite};
use crate::units::Units;
use crate::{IqgmeError, Result};

/// A stored draw breaks its stick, beyond the components that have rows, until less than this is left; one further component takes the rest.
const LEAST_REST: f64 = 1e-3;
/// And holds at most so many components beyond those with rows.
const MOST_MORE: usize = 100;

/// Name in checkpoints.
const FILE: &str = "npb-iqgme/gibbs/run/3";

/// Runs the chains of `config` and stores draws.
///
/// `table` and `labels` as for [`crate::fit()`]: classes without a labelled row are left out, too. Chains run in parallel on the caller's rayon pool; the result does not depend on the number of threads.
/// Cost: see [`IqgmeSampler`]. Errors: see [`IqgmeData::new`]; a configuration out of range; numerical trouble.
/// Whether the chains agree is asked of [`GibbsFit::diagnostics`]: too few sweeps are no error.
///
/// ```
/// use npb_iqgme::npb_data::{Labels, Table};
/// use npb_iqgme::{GibbsConfig, fit_gibbs};
///
/// let gap = f64::NAN;
/// let table = Table::from_nan_coded(6, 2, &[-2.0, -1.9, -1.7, gap, -2.2, -2.1, 2.1, 1.8, gap, 2.2, 1.9, 2.0])?;
/// let labels = Labels::from_strings(&["low", "low", "low", "high", "high", "high"].map(Some));
/// let mut config = GibbsConfig { chains: 2, stored_draws: 20, ..GibbsConfig::default() };
/// (config.sweeps.burn_in, config.sweeps.keep) = (50, 100);
/// let model = fit_gibbs(&table, &labels, &config)?;
/// assert_eq!(model.predict(&table)?, ["low", "low", "low", "high", "high", "high"]);
/// let cell = &model.training_cells(&[0.05, 0.95])?[0];
/// assert!(cell.column == 1 && cell.quantiles[0] < cell.mean && cell.mean < cell.quantiles[1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit_gibbs(table: &Table, labels: &Labels, config: &GibbsConfig) -> Result<GibbsFit> {
    fit_gibbs_watched(table, labels, config, &Watch::none())
}

/// As [`fit_gibbs`], watched: the watcher hears of every sweep of every chain and may stop them, and a checkpoint lets a fit that was stopped or killed go on to the
/// same bits as if it had never stopped. A fit that was stopped answers by the draws that are there. Errors: as [`fit_gibbs`]; a checkpoint that cannot be
/// written or read, or that is of another fit; no draw stored by any chain.
pub fn fit_gibbs_watched(
    table: &Table,
    labels: &Labels,
    config: &GibbsConfig,
    watch: &Watch<'_>,
) -> Result<GibbsFit> {
    config.validate()?;
    let data = IqgmeData::new(table, labels, &config.model)?;
    let key = storage::fingerprint(&(config, fingerprint(&data)?))?;
    let version = env!("CARGO_PKG_VERSION");
    let checkpoint = watch.checkpoint(FILE, version, key, config.chains)?;
    let plan = npb_infer::Chains {
        name: "chain",
        chains: config.chains,
        sweeps: config.sweeps,
        stored_draws: config.stored_draws,
    };
    let chains = sample(&plan, (watch, 1.0), &checkpoint, |chain, reached| {
        Gathering::begin(&data, config, chain, reached)
    })?;
    let chains: Vec<GibbsChain> = chains.into_iter().map(GibbsChain::of).collect();
    if chains.iter().all(|chain| chain.record.moments.kept == 0) {
        return Err(IqgmeError::NoDraws);
    }
    let mut cells = Vec::new();
    for (row, position) in positions(&data).into_iter().enumerate() {
        let missing = missing_at(&data, position).iter();
        cells.extend(missing.map(|&j| (row as u32, data.units.active[j] as u32)));
    }
    let stored = Stored {
        config: config.clone(),
        units: data.units,
        classes: data.classes,
        trained: Trained { cells, chains },
    };
    Fit::new(stored, ())
}

/// A chain, and what is gathered of its kept draws.
struct Gathering<'d> {
    sampler: IqgmeSampler<'d>,
    moments: Moments,
}

impl<'d> Gathering<'d> {
    /// From its start, or where it was.
    fn begin(
        data: &'d IqgmeData,
        config: &GibbsConfig,
        chain: u64,
        reached: Option<&ChainOf<Self>>,
    ) -> Result<Self> {
        let Some(reached) = reached else {
            return Ok(Self {
                sampler: IqgmeSampler::new(data, config.clone(), chain)?,
                moments: Moments::default(),
            });
        };
        let (state, moments) = reached.state.clone();
        let (p, n_utilities, n_cells) =
            (data.rows.n_features, data.rows.n_utilities, n_missing(data));
        moments.check(n_cells)?;
        let mut draws = reached.draws.iter();
        draws.try_for_each(|draw| draw.check(p, n_utilities, n_cells))?;
        expect(state.sweep == reached.trace.n_sweeps() as u64, "sweeps")?;
        Ok(Self {
            sampler: IqgmeSampler::resume(data, config.clone(), chain, state)?,
            moments,
        })
    }
}

impl Sampler for Gathering<'_> {
    type State = (GibbsState, Moments);
    type Draw = GibbsDraw;
    type Error = IqgmeError;

    fn names() -> Vec<String> {
        IqgmeSampler::scalar_names()
    }

    fn step(&mut self, sweep: Sweep, scalars: &mut [f64]) -> Result<()> {
        self.sampler.sweep()?;
        if sweep.kept {
            self.moments.add(&self.sampler.missing_cells());
        }
        scalars.copy_from_slice(&self.sampler.scalars());
        Ok(())
    }

    fn state(&self) -> (GibbsState, Moments) {
        (self.sampler.state(), self.moments.clone())
    }

    fn draw(&self) -> GibbsDraw {
        GibbsDraw {
            mixture: self.sampler.mixture(),
            missing: self.sampler.missing_cells(),
        }
    }
}

/// A stored draw: the mixture, and the missing cells of the training rows. In the standardised units of the fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GibbsDraw {
    /// Components beyond those with rows are draws from their prior; the last one stands for all that follow.
    pub mixture: Mixture,
    /// Missing cells of the training rows, in the order of [`GibbsFit::training_cells`].
    pub missing: Vec<f64>,
}

impl GibbsDraw {
    fn check(&self, p: usize, n_utilities: usize, n_cells: usize) -> Result<()> {
        let possible = self.missing.len() == n_cells && finite(&self.missing);
        expect(possible, "missing cells of a draw")?;
        self.mixture.check(p, n_utilities)
    }
}

impl IqgmeSampler<'_> {
    /// Probabilities of all classes for each row of a table, in the units and columns of training, at the current draw; missing features and utilities are
    /// integrated out. The posterior probability is its mean over kept draws.
    ///
    /// Errors: other columns than in training; data without labels.
    pub fn predict_classes(&self, table: &Table) -> Result<Vec<Vec<f64>>> {
        if self.data.n_labelled == 0 {
            return Err(IqgmeError::Unlabelled);
        }
        let rows = self.data.units.rows(table)?;
        let predictor = self.mixture().predictor()?;
        let others = predictor.probabilities(&rows, Experts::AtMeans)?;
        Ok(with_first_class(others))
    }

    /// The parameters with as many components from their prior as weight asks for, and the weights, which sum to 1.
    pub(crate) fn mixture(&self) -> Mixture {
        let mut parameters = self.parameters().clone();
        let (mut weights, mut rest) = parameters.weights();
        let key = [self.chain, self.sweep, KEPT, 0];
        let rng = &mut stream(self.config.model.seed, key);
        for more in 0..=MOST_MORE {
            self.push_prior_component(&mut parameters, rng);
            if rest < LEAST_REST || more == MOST_MORE {
                weights.push(rest);
                break;
            }
            let stick = self.prior_stick(rng);
            weights.push(rest * stick);
            rest *= 1.0 - stick;
        }
        Mixture {
            weights,
            components: parameters.components,
            experts: parameters.experts,
        }
    }
}

/// Of the missing cells of the training rows, over the draws that are kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Moments {
    kept: u64,
    mean: Vec<f64>,
    /// Sum of squared deviations from the mean.
    squares: Vec<f64>,
}

impl Moments {
    fn add(&mut self, cells: &[f64]) {
        self.kept += 1;
        self.mean.resize(cells.len(), 0.0);
        self.squares.resize(cells.len(), 0.0);
        let moments = self.mean.iter_mut().zip(&mut self.squares);
        for ((mean, squares), x) in moments.zip(cells) {
            let from = x - *mean;
            *mean += from / self.kept as f64;
            *squares += from * (x - *mean);
        }
    }

    fn check(&self, n_cells: usize) -> Result<()> {
        let sizes = [self.mean.len(), self.squares.len()];
        let fits = sizes == [n_cells; 2] || (self.kept == 0 && sizes == [0; 2]);
        let finite = finite(&self.mean) && finite(&self.squares);
        expect(fits && finite, "moments of missing cells")
    }
}

/// What is gathered of one chain.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    draws: Vec<GibbsDraw>,
    moments: Moments,
}

/// One chain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GibbsChain {
    /// Why it ended.
    pub stop: Stop,
    /// Scalars of every sweep: see [`IqgmeSampler::scalar_names`].
    pub trace: Trace,
    record: Record,
}

impl GibbsChain {
    fn of(chain: ChainOf<Gathering<'_>>) -> Self {
        Self {
            stop: chain.stop,
            trace: chain.trace,
            record: Record {
                draws: chain.draws,
                moments: chain.state.1,
            },
        }
    }

    fn check(&self, p: usize, n_utilities: usize, n_cells: usize) -> Result<()> {
        expect(self.trace.names() == SCALARS, "scalars of the trace")?;
        let mut clusters = self.trace.column(1);
        let possible = clusters.all(|k| (1.0..1e6).contains(&k));
        expect(possible, "number of components in the trace")?;
        let Record { draws, moments } = &self.record;
        moments.check(n_cells)?;
        expect(draws.len() as u64 <= moments.kept.max(1), "stored draws")?;
        let mut each = draws.iter();
        each.try_for_each(|draw| draw.check(p, n_utilities, n_cells))
    }

    /// Its stored draws.
    pub fn draws(&self) -> &[GibbsDraw] {
        &self.record.draws
    }
}

/// A missing cell of a training row, in the user's units.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingCell {
    /// Its row.
    pub row: usize,
    /// Its column.
    pub column: usize,
    /// Posterior mean, over all kept draws.
    pub mean: f64,
    /// Posterior standard deviation, over all kept draws.
    pub sd: f64,
    /// Posterior quantiles, over the stored draws.
    pub quantiles: Vec<f64>,
}

/// Chains on a table.
#[derive(Clone, Debug)]
pub struct Chains;

/// Chains that have ended. Questions and answers are in the user's units, columns in the order of training.
///
/// Predictions average over the stored draws of all chains; given a draw, missing features and utilities are integrated out in closed form (with more than
/// two classes see [`crate::IqgmeFit::predict_classes`]).
pub type GibbsFit = Fit<Chains>;

/// What is stored of a fit, beside settings, units and classes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trained {
    /// Row and column of the missing cells of the training rows.
    cells: Vec<(u32, u32)>,
    chains: Vec<GibbsChain>,
}

impl OneTable for Chains {}

impl Variant for Chains {
    const MODEL: &'static str = "npb-iqgme/gibbs/2";
    type Config = GibbsConfig;
    type Units = Units;
    type Trained = Trained;
    type Rows = ();
    /// By draw.
    type Derived = Vec<Predictor>;

    fn check(stored: &Stored<Self>) -> Result<()> {
        stored.config.validate()?;
        let Trained { cells, chains } = &stored.trained;
        let active = &stored.units.active;
        let in_model = |(_, j): &(u32, u32)| active.binary_search(&(*j as usize)).is_ok();
        expect(cells.iter().all(in_model), "columns of missing cells")?;
        let (p, n_utilities) = (active.len(), stored.n_utilities());
        let mut each = chains.iter();
        each.try_for_each(|chain| chain.check(p, n_utilities, cells.len()))
    }

    fn derive(stored: &Stored<Self>) -> Result<Vec<Predictor>> {
        let chains = stored.trained.chains.iter();
        let draws: Vec<&GibbsDraw> = chains.flat_map(GibbsChain::draws).collect();
        if draws.is_empty() {
            return Err(IqgmeError::NoDraws);
        }
        parallel::try_map(draws, |draw| draw.mixture.predictor())
    }

    fn probabilities(fit: &GibbsFit, _: usize, table: &Table) -> Result<Vec<Vec<f64>>> {
        Ok(means(&fit.drawn_classes(table)?))
    }
}

impl GibbsFit {
    /// The chains.
    pub fn chains(&self) -> &[GibbsChain] {
        &self.stored.trained.chains
    }

    /// Split R-hat and effective sample sizes of the scalars of the traces, by name.
    pub fn diagnostics(&self) -> Vec<(String, ChainDiagnostics)> {
        let traces: Vec<&Trace> = self.chains().iter().map(|chain| &chain.trace).collect();
        summarise(&traces, &self.config().sweeps)
    }

    /// A scalar of the traces ([`IqgmeSampler::scalar_names`]) at the kept sweeps of all chains. Empty for another name.
    pub fn scalar(&self, name: &str) -> Vec<f64> {
        let Some(scalar) = SCALARS.iter().position(|s| *s == name) else {
            return Vec::new();
        };
        let plan = &self.config().sweeps;
        let of_chain = |chain: &GibbsChain| chain.trace.kept(plan, scalar);
        self.chains().iter().flat_map(of_chain).collect()
    }

    /// Posterior of the number of components that have training rows: entry `k` is the probability of `k`.
    pub fn cluster_distribution(&self) -> Vec<f64> {
        let counts = self.scalar(SCALARS[1]);
        let most = counts.iter().copied().fold(0.0, f64::max) as usize;
        let mut shares = vec![0.0; most + 1];
        for count in &counts {
            shares[*count as usize] += 1.0 / counts.len() as f64;
        }
        shares
    }

    /// The missing cells of the training rows in the model's columns, by row, then column, with the quantiles of these levels. Errors: a level that is not
    /// between 0 and 1.
    pub fn training_cells(&self, levels: &[f64]) -> Result<Vec<TrainingCell>> {
        check_levels(levels)?;
        let chains = self.chains();
        let moments = chains.iter().map(|chain| &chain.record.moments);
        let moments: Vec<&Moments> = moments.filter(|moments| moments.kept > 0).collect();
        let kept: f64 = moments.iter().map(|moments| moments.kept as f64).sum();
        let of_cell = |(cell, &(row, column)): (usize, &(u32, u32))| {
            let each = moments.iter();
            let parts = each.map(|m| (m.kept as f64, m.mean[cell], m.squares[cell]));
            let mean = parts.clone().map(|(n, mean, _)| n * mean).sum::<f64>() / kept;
            let squares = |(n, m, squares): (f64, f64, f64)| squares + n * (m - mean) * (m - mean);
            let variance = parts.map(squares).sum::<f64>() / (kept - 1.0).max(1.0);
            let column = column as usize;
            let draws = chains.iter().flat_map(GibbsChain::draws);
            let values = draws.map(|d| self.units().to_units(column, d.missing[cell]));
            TrainingCell {
                row: row as usize,
                column,
                mean: self.units().to_units(column, mean),
                sd: variance.sqrt() * self.units().standardiser.sd()[column],
                quantiles: quantiles(values.collect(), levels),
            }
        };
        let cells = self.stored.trained.cells.iter().enumerate();
        Ok(cells.map(of_cell).collect())
    }

    /// For each stored draw and row the probabilities of all classes.
    fn drawn_classes(&self, table: &Table) -> Result<Vec<Vec<Vec<f64>>>> {
        let rows = self.units().rows(table)?;
        parallel::try_map(&self.derived, |draw| {
            let others = draw.probabilities(&rows, Experts::AtMeans)?;
            Ok(with_first_class(others))
        })
    }
}

/// The mean over draws: draw, row, class.
fn means(drawn: &[Vec<Vec<f64>>]) -> Vec<Vec<f64>> {
    let share = 1.0 / drawn.len() as f64;
    let zeros = |row: &Vec<f64>| vec![0.0; row.len()];
    let mut sums: Vec<Vec<f64>> = drawn[0].iter().map(zeros).collect();
    for draw in drawn {
        let each = sums.iter_mut().flatten().zip(draw.iter().flatten());
        each.for_each(|(sum, p)| *sum += share * p);
    }
    sums.iter_mut().flatten().for_each(|p| *p = p.min(1.0));
    sums
}

/// By the stored draws.
impl Draws for Chains {
    fn intervals(
        fit: &GibbsFit,
        _: usize,
        table: &Table,
        level: f64,
    ) -> Result<Vec<Vec<Interval>>> {
        let drawn = fit.drawn_classes(table)?;
        Ok(class_intervals(means(&drawn), &drawn, level))
    }
}

/// Terms of cells are the components of all stored draws: normals.
impl Describes for Chains {
    const GATE: Gate = Gate::AtMeans;

    fn mixtures(fit: &GibbsFit) -> Vec<(f64, Cow<'_, Predictor>)> {
        by_draws(&fit.derived).2
    }

    fn completing(fit: &GibbsFit) -> Completing<'_> {
        by_draws(&fit.derived)
    }

    fn drawn(fit: &GibbsFit, draw: usize, draws: usize) -> Result<(Gate, Cow<'_, Predictor>)> {
        let stored = taking_turns(draw, draws, fit.derived.len());
        Ok((Self::GATE, Cow::Borrowed(&fit.derived[stored])))
    }

    fn draw_key(config: &GibbsConfig) -> (u64, u64) {
        (config.model.seed, IMPUTE)
    }
}
