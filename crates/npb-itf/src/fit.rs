//! The result of a fit.

use std::ops::ControlFlow;

use npb_data::MixedTable;
use npb_infer::diagnostics::{ChainDiagnostics, summarise};
use npb_infer::{Saved, Stop, SweepReport, Trace, run_chains};
use serde::{Deserialize, Serialize};

use crate::data::ColumnInfo;
use crate::draw::Draw;
use crate::gibbs::{SCALARS, check_state};
use crate::groups::{Place, are_places, members};
use crate::kernels::Column;
use crate::{Grouping, ItfConfig, ItfData, ItfError, ItfSampler, ItfState};

/// Fits the model to a table, every column with the kernel of its kind: all chains of the configuration, in parallel on the
/// caller's rayon pool.
///
/// Cost: `chains * (burn_in + keep * thin)` sweeps, each linear in rows and columns. The result does not depend on the number
/// of threads.
///
/// # Errors
/// A configuration out of range, no rows, no columns, a column that cannot be modelled as it is.
pub fn fit(table: &MixedTable, config: &ItfConfig) -> Result<ItfFit, ItfError> {
    fit_data(&ItfData::from_table(table)?, config)
}

/// As [`fit`], for columns whose kernels and cells were put together by hand.
///
/// # Errors
/// As [`fit`].
pub fn fit_data(data: &ItfData, config: &ItfConfig) -> Result<ItfFit, ItfError> {
    let grouped = match &config.groups {
        Grouping::Off => None,
        Grouping::Given(groups) => Some(data.with_groups(groups)?),
        Grouping::Found => Some(data.with_groups(&data.find_groups(config)?)?),
    };
    let data = grouped.as_ref().unwrap_or(data);
    let run = |chain| {
        let mut run = ItfRun::new(data, config.clone(), chain)?;
        run.run(|_, _| ControlFlow::Continue(()));
        Ok::<_, ItfError>(run.finish())
    };
    let chains = run_chains(config.chains, run)?;
    ItfFit::new(data, config, chains)
}

/// A chain with its trace and the draws kept so far; serialise [`Checkpoint`] to go on later.
#[derive(Debug)]
pub struct ItfRun<'d> {
    sampler: ItfSampler<'d>,
    chain: u64,
    trace: Trace,
    draws: Vec<Draw>,
    stop: Stop,
}

/// A chain on file: it goes on, by [`ItfRun::resume`], to the same bits as one that was never stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Number of the chain.
    pub chain: u64,
    /// Its present draw.
    pub state: ItfState,
    /// Monitored scalars of all sweeps so far.
    pub trace: Trace,
    /// Draws kept so far.
    pub draws: Vec<Draw>,
    /// How it ended last time.
    pub stop: Stop,
}

impl<'d> ItfRun<'d> {
    /// A chain before its first sweep.
    ///
    /// # Errors
    /// As [`ItfSampler::new`].
    pub fn new(data: &'d ItfData, config: ItfConfig, chain: u64) -> Result<Self, ItfError> {
        Ok(Self {
            sampler: ItfSampler::new(data, config, chain)?,
            chain,
            trace: Trace::new(SCALARS),
            draws: Vec::new(),
            // Until it has been run to its end.
            stop: Stop::Cancelled,
        })
    }

    /// A chain that goes on from a checkpoint.
    ///
    /// # Errors
    /// As [`ItfSampler::resume`], or a checkpoint whose parts contradict one another.
    pub fn resume(
        data: &'d ItfData,
        config: ItfConfig,
        checkpoint: Checkpoint,
    ) -> Result<Self, ItfError> {
        let Checkpoint {
            chain,
            state,
            trace,
            draws,
            stop,
        } = checkpoint;
        let sweep = trace.n_sweeps() as u64;
        let kept = (1..=sweep).filter(|&s| config.plan().is_kept(s)).count();
        if trace.names() != SCALARS || draws.len() != kept {
            return Err(ItfError::saved("trace or number of draws of a checkpoint"));
        }
        for draw in &draws {
            check_draw(draw, &config, data.n_rows(), data.n_columns())?;
        }
        Ok(Self {
            sampler: ItfSampler::resume(data, config, chain, state, sweep)?,
            chain,
            trace,
            draws,
            stop,
        })
    }

    /// Makes the sweeps that are left, until `watch` stops it. The watcher sees the run as it is after the sweep, trace and kept draws
    /// included, and may take a [`checkpoint`](Self::checkpoint).
    pub fn run(
        &mut self,
        mut watch: impl FnMut(&SweepReport<'_>, &Self) -> ControlFlow<()>,
    ) -> Stop {
        let plan = self.sampler.config().plan();
        // What a checkpoint taken by the watcher says; else two runs to the same sweep would differ.
        self.stop = Stop::Cancelled;
        for number in self.trace.n_sweeps() as u64 + 1..=plan.total() {
            let kept = plan.is_kept(number);
            self.traced_sweep(kept);
            let report = SweepReport {
                sweep: number,
                kept,
                trace: &self.trace,
            };
            if watch(&report, self).is_break() {
                return self.stop;
            }
        }
        self.stop = Stop::Completed;
        self.stop
    }

    fn traced_sweep(&mut self, kept: bool) {
        self.sampler.sweep();
        let mut scalars = [f64::NAN; SCALARS.len()];
        let [.., information] = &mut scalars;
        if kept {
            let draw = self.sampler.draw();
            *information = mean_information(&draw);
            self.draws.push(draw);
        }
        self.sampler.summarise(&mut scalars);
        self.trace.push(&scalars);
    }

    /// The sampler.
    pub fn sampler(&self) -> &ItfSampler<'d> {
        &self.sampler
    }

    /// Draws kept so far.
    pub fn draws(&self) -> &[Draw] {
        &self.draws
    }

    /// Monitored scalars of all sweeps so far.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// What [`resume`](Self::resume) needs.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            chain: self.chain,
            state: self.sampler.state().clone(),
            trace: self.trace.clone(),
            draws: self.draws.clone(),
            stop: self.stop,
        }
    }

    /// The chain as it is now.
    pub fn finish(self) -> Checkpoint {
        Checkpoint {
            chain: self.chain,
            state: self.sampler.into_state(),
            trace: self.trace,
            draws: self.draws,
            stop: self.stop,
        }
    }
}

/// Mean mutual information over pairs of columns.
fn mean_information(draw: &Draw) -> f64 {
    let p = draw.columns.len();
    let pairs = (0..p).flat_map(|a| (0..a).map(move |b| (a, b)));
    let total: f64 = pairs.map(|(a, b)| draw.mutual_information(a, b)).sum();
    total / ((p * p.saturating_sub(1)) as f64 / 2.0).max(1.0)
}

fn check_draw(
    draw: &Draw,
    config: &ItfConfig,
    n_rows: usize,
    n_columns: usize,
) -> Result<(), ItfError> {
    if draw.columns.len() != n_columns {
        return Err(ItfError::saved("number of columns of a draw"));
    }
    draw.check(n_rows, config.structure.has_lower())
        .map_err(ItfError::saved)
}

/// How one chain went.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChainSummary {
    /// Monitored scalars of every sweep.
    pub trace: Trace,
    /// Why it ended.
    pub stop: Stop,
    /// Its last draw.
    pub state: ItfState,
}

/// What is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wire {
    config: ItfConfig,
    n_rows: usize,
    columns: Vec<ColumnInfo>,
    places: Vec<Place>,
    chains: Vec<ChainSummary>,
    draws: Vec<Draw>,
}

/// A fitted model: kept draws of all chains, and what can be asked of them.
///
/// ```
/// use npb_itf::npb_data::{MixedColumn, MixedTable};
/// use npb_itf::{ItfConfig, fit};
///
/// let x = MixedColumn::Real((0..60).map(|i| Some(f64::from(i % 2) * 9.0 + f64::from(i % 5))).collect());
/// let y = MixedColumn::Binary { levels: ["low".into(), "high".into()], values: (0..60).map(|i| Some(i % 2 == 1)).collect() };
/// let table = MixedTable::new(vec!["x".into(), "y".into()], vec![x, y])?;
/// let config = ItfConfig { chains: 1, burn_in: 50, keep: 20, thin: 1, ..ItfConfig::default() };
/// let model = fit(&table, &config)?;
///
/// // A new row with x observed: what is y?
/// let x = MixedColumn::Real(vec![Some(11.0)]);
/// let y = MixedColumn::Binary { levels: ["low".into(), "high".into()], values: vec![None] };
/// let new = MixedTable::new(vec!["x".into(), "y".into()], vec![x, y])?;
/// let probabilities = model.predict(&model.rows(&new)?, "y")?;
/// assert!(probabilities[0][1] > 0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ItfFit {
    wire: Wire,
    members: Vec<Vec<usize>>,
}

impl ItfFit {
    /// A fit from chains that were driven by hand.
    ///
    /// # Errors
    /// No kept draws, or chains that do not fit data and configuration.
    pub fn new(
        data: &ItfData,
        config: &ItfConfig,
        chains: Vec<Checkpoint>,
    ) -> Result<Self, ItfError> {
        let mut draws = Vec::new();
        let mut summaries = Vec::new();
        for chain in chains {
            check_state(data, config, &chain.state).map_err(ItfError::saved)?;
            draws.extend(chain.draws);
            summaries.push(ChainSummary {
                trace: chain.trace,
                stop: chain.stop,
                state: chain.state,
            });
        }
        let wire = Wire {
            config: config.clone(),
            n_rows: data.n_rows(),
            columns: data.infos().to_vec(),
            places: data.places().to_vec(),
            chains: summaries,
            draws,
        };
        Self::from_content(wire)
    }

    /// The configuration of the fit.
    pub fn config(&self) -> &ItfConfig {
        &self.wire.config
    }

    /// Number of training rows.
    pub fn n_rows(&self) -> usize {
        self.wire.n_rows
    }

    /// What the columns are, in the order of training, those of groups one by one.
    pub fn columns(&self) -> &[ColumnInfo] {
        &self.wire.columns
    }

    /// Where each of these columns is among the columns of the [`draws`](Self::draws).
    pub fn places(&self) -> &[Place] {
        &self.wire.places
    }

    /// The columns in every column of the draws, in the order of parts.
    pub(crate) fn members(&self) -> &[Vec<usize>] {
        &self.members
    }

    /// Whether a column of the draws is a group.
    pub(crate) fn groups_at(&self, column: usize) -> bool {
        self.wire.places[self.members[column][0]].part.is_some()
    }

    /// Names of the columns in each group that shares a joint law.
    pub fn groups(&self) -> Vec<Vec<String>> {
        let name = |&j: &usize| self.wire.columns[j].name.clone();
        let groups = (0..self.members.len()).filter(|&column| self.groups_at(column));
        groups
            .map(|g| self.members[g].iter().map(name).collect())
            .collect()
    }

    /// The law, in the first draw, that a column is part of.
    pub(crate) fn law(&self, column: usize) -> &Column {
        &self.wire.draws[0].columns[self.wire.places[column].column].law
    }

    /// Position of the column with this name.
    ///
    /// # Errors
    /// [`ItfError::Argument`].
    pub fn column_index(&self, name: &str) -> Result<usize, ItfError> {
        let position = self.wire.columns.iter().position(|info| info.name == name);
        position.ok_or_else(|| ItfError::Argument {
            argument: "column",
            value: name.to_owned(),
            rule: "the name of a column of training",
        })
    }

    /// Kept draws of all chains, chain by chain.
    pub fn draws(&self) -> &[Draw] {
        &self.wire.draws
    }

    /// The chains: traces, why they ended, last states.
    pub fn chains(&self) -> &[ChainSummary] {
        &self.wire.chains
    }

    /// Split R-hat and effective sample sizes of the monitored scalars over the kept sweeps of all chains. The scalars do
    /// not depend on the names of labels: log likelihood with labels summed out, numbers of blocks and of occupied clusters at
    /// both levels (summed over blocks, and over columns), mean mutual information over pairs of columns.
    pub fn diagnostics(&self) -> Vec<(String, ChainDiagnostics)> {
        let traces: Vec<&Trace> = self.wire.chains.iter().map(|chain| &chain.trace).collect();
        summarise(&traces, &self.wire.config.plan())
    }
}

impl Saved for ItfFit {
    const MODEL: &'static str = "npb-itf";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Wire;
    type Error = ItfError;

    fn content(&self) -> &Wire {
        &self.wire
    }

    fn from_content(wire: Wire) -> Result<Self, ItfError> {
        wire.config.validate()?;
        let n_columns = wire.draws.first().map_or(0, |draw| draw.columns.len());
        if wire.draws.is_empty() || wire.chains.is_empty() || n_columns == 0 || wire.n_rows == 0 {
            return Err(ItfError::saved(
                "no draws, chains, columns or rows: run longer",
            ));
        }
        for chain in &wire.chains {
            let two_levels = wire.config.structure.has_lower();
            let state = &chain.state;
            if chain.trace.names() != SCALARS || state.columns.len() != n_columns {
                return Err(ItfError::saved("a chain's trace or state"));
            }
            state
                .check(wire.n_rows, two_levels, wire.config.per_top_cluster())
                .map_err(ItfError::saved)?;
        }
        for draw in &wire.draws {
            check_draw(draw, &wire.config, wire.n_rows, n_columns)?;
            let laws: Vec<&Column> = draw.columns.iter().map(|column| &column.law).collect();
            if wire.places.len() != wire.columns.len() || !are_places(&wire.places, &laws) {
                return Err(ItfError::saved("places of columns"));
            }
            for (info, place) in wire.columns.iter().zip(&wire.places) {
                let law = laws[place.column];
                let n_levels = law.n_levels(place.part.unwrap_or(0)).unwrap_or(0);
                let first = &wire.draws[0].columns[place.column].law;
                if n_levels != info.levels.len() || !law.is_like(first) {
                    return Err(ItfError::saved(format!("column {:?}: its law", info.name)));
                }
            }
        }
        Ok(Self {
            members: members(&wire.places),
            wire,
        })
    }
}
