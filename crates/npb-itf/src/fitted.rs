//! The result of a fit, and what is stored of it.

use std::mem::discriminant;

use npb_infer::diagnostics::{ChainDiagnostics, summarise, unmet};
use npb_infer::storage::FormatError;
use npb_infer::{Saved, Stop, Trace};
use serde::{Deserialize, Serialize};

use crate::data::ColumnInfo;
use crate::draw::Draw;
use crate::gibbs::{ItfChain, SCALARS, check_state};
use crate::groups::are_places;
use crate::kernels::Column;
use crate::place::{Place, members};
use crate::{ItfConfig, ItfData, ItfError, ItfState};

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

/// What is stored of a fit, in the format of `npb_infer::storage`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wire {
    config: ItfConfig,
    n_rows: usize,
    columns: Vec<ColumnInfo>,
    places: Vec<Place>,
    chains: Vec<ChainSummary>,
    draws: Vec<Draw>,
    /// A number for each row by which it is known again; none of data that were put together by hand, and of files of the layout before.
    fingerprints: Vec<u32>,
    /// Sweeps that the chains had made before those of their traces, in fits that were continued: random numbers go on from there.
    sweeps_before: u64,
}

/// What was stored before rows were known again.
#[derive(Deserialize)]
struct WireBefore {
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
/// use npb_itf::npb_infer::SweepPlan;
/// use npb_itf::{ItfConfig, fit};
///
/// let x = MixedColumn::Real((0..60).map(|i| Some(f64::from(i % 2) * 9.0 + f64::from(i % 5))).collect());
/// let y = MixedColumn::Binary { levels: ["low".into(), "high".into()], values: (0..60).map(|i| Some(i % 2 == 1)).collect() };
/// let table = MixedTable::new(vec!["x".into(), "y".into()], vec![x, y])?;
/// let config = ItfConfig { chains: 1, sweeps: SweepPlan { burn_in: 50, keep: 20, thin: 1 }, ..ItfConfig::default() };
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
        chains: Vec<ItfChain>,
    ) -> Result<Self, ItfError> {
        let mut draws = Vec::new();
        let mut summaries = Vec::new();
        for chain in chains {
            check_state(data, config, &chain.state).map_err(ItfError::state)?;
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
            fingerprints: data.fingerprints().to_vec(),
            sweeps_before: 0,
        };
        Self::from_content(wire)
    }

    /// The same of chains that had made so many sweeps before.
    pub(crate) fn after(mut self, sweeps: u64) -> Self {
        self.wire.sweeps_before = sweeps;
        self
    }

    /// The same with so many of its draws at most, evenly taken, to be asked sooner: it cannot be continued, and has no traces.
    #[must_use]
    pub fn thinned(&self, most: usize) -> Self {
        let step = self.draws().len().div_ceil(most.max(1)).max(1);
        self.with_draws(self.draws().iter().step_by(step).cloned().collect())
    }

    /// The same with these draws alone, to be asked.
    pub(crate) fn with_draws(&self, draws: Vec<Draw>) -> Self {
        let wire = Wire {
            config: self.wire.config.clone(),
            n_rows: self.wire.n_rows,
            columns: self.wire.columns.clone(),
            places: self.wire.places.clone(),
            chains: Vec::new(),
            draws,
            fingerprints: Vec::new(),
            sweeps_before: 0,
        };
        Self {
            wire,
            members: self.members.clone(),
        }
    }

    /// By what rows are known again; empty where that is not known.
    pub(crate) fn fingerprints(&self) -> &[u32] {
        &self.wire.fingerprints
    }

    /// How many sweeps the longest chain has made, those before it was continued included.
    pub(crate) fn sweeps_made(&self) -> u64 {
        let made = self.wire.chains.iter().map(|chain| chain.trace.n_sweeps());
        self.wire.sweeps_before + made.max().unwrap_or(0) as u64
    }

    /// One fit of several that differ in their seed only, run apart (on several machines, say): draws and chains of all.
    ///
    /// # Errors
    /// No fit; other rows, columns, groups or another configuration.
    pub fn pooled(fits: Vec<Self>) -> Result<Self, ItfError> {
        let mut fits = fits.into_iter().map(|fit| fit.wire);
        let Some(mut all) = fits.next() else {
            return Err(ItfError::state("no fits"));
        };
        for (number, fit) in (2..).zip(fits) {
            let alike = ItfConfig {
                chains: all.config.chains,
                seed: all.config.seed,
                ..fit.config.clone()
            };
            let same = alike == all.config
                && fit.n_rows == all.n_rows
                && fit.columns == all.columns
                && fit.places == all.places
                && fit.fingerprints == all.fingerprints;
            if !same {
                return Err(ItfError::state(format!(
                    "fit {number}: it is of other rows, columns or groups, or of another configuration than the first"
                )));
            }
            all.config.chains += fit.config.chains;
            all.chains.extend(fit.chains);
            all.draws.extend(fit.draws);
            all.sweeps_before = all.sweeps_before.max(fit.sweeps_before);
        }
        Self::from_content(all)
    }

    /// The configuration of the fit.
    pub fn config(&self) -> &ItfConfig {
        &self.wire.config
    }

    /// The same fit, whose draws (of missing cells, and behind intervals) are made with other random numbers.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.wire.config.seed = seed;
        self
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

    /// Columns without any value in training: nothing is known of them, so that their cells are not filled in.
    pub fn unobserved_columns(&self) -> Vec<&str> {
        let unobserved = self.columns().iter().filter(|info| !info.observed);
        unobserved.map(|info| &info.name[..]).collect()
    }

    /// Vectors whose coordinates are independent within a cluster: those of more than 32 coordinates, when the data were made from fields.
    pub fn independent_vectors(&self) -> Vec<&str> {
        let of_names = self.columns().iter().enumerate();
        let independent =
            of_names.filter(|&(j, _)| matches!(self.law(j), Column::DiagonalNormal(_)));
        independent.map(|(_, info)| &info.name[..]).collect()
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

    /// Whether all chains came to their end, or the fit was cancelled before.
    pub fn stop(&self) -> Stop {
        Stop::of_all(self.wire.chains.iter().map(|chain| chain.stop))
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
        summarise(&traces, &self.wire.config.sweeps)
    }

    /// What has not settled, in words; empty where all has.
    pub fn unmet(&self) -> Vec<String> {
        unmet(&self.diagnostics())
    }
}

impl Saved for ItfFit {
    const MODEL: &'static str = "npb-itf/2";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const BEFORE: &'static str = "npb-itf";
    type Content = Wire;
    type Error = ItfError;

    fn content(&self) -> &Wire {
        &self.wire
    }

    fn content_before(bytes: &[u8]) -> Result<Wire, FormatError> {
        let before: WireBefore = Self::decoded(Self::BEFORE, bytes)?;
        Ok(Wire {
            config: before.config,
            n_rows: before.n_rows,
            columns: before.columns,
            places: before.places,
            chains: before.chains,
            draws: before.draws,
            fingerprints: Vec::new(),
            sweeps_before: 0,
        })
    }

    fn from_content(wire: Wire) -> Result<Self, ItfError> {
        wire.config.validate()?;
        let n_known = wire.fingerprints.len();
        if n_known > 0 && n_known != wire.n_rows {
            return Err(ItfError::state("fingerprints of rows"));
        }
        let n_columns = wire.draws.first().map_or(0, |draw| draw.columns.len());
        if wire.draws.is_empty() || wire.chains.is_empty() || n_columns == 0 || wire.n_rows == 0 {
            return Err(ItfError::state(
                "no draws, chains, columns or rows: run longer",
            ));
        }
        for chain in &wire.chains {
            let two_levels = wire.config.structure.has_lower();
            let state = &chain.state;
            if chain.trace.names() != SCALARS || state.columns.len() != n_columns {
                return Err(ItfError::state("a chain's trace or state"));
            }
            state
                .check(wire.n_rows, two_levels, wire.config.per_top_cluster())
                .map_err(ItfError::state)?;
        }
        for draw in &wire.draws {
            (draw.check(&wire.config, wire.n_rows, n_columns)).map_err(ItfError::state)?;
            let laws: Vec<&Column> = draw.columns.iter().map(|column| &column.law).collect();
            if wire.places.len() != wire.columns.len() || !are_places(&wire.places, &laws) {
                return Err(ItfError::state("places of columns"));
            }
            for (info, place) in wire.columns.iter().zip(&wire.places) {
                let law = laws[place.column];
                let n_levels = law.n_levels(place.part.unwrap_or(0)).unwrap_or(0);
                let first = &wire.draws[0].columns[place.column].law;
                let same_kernel = discriminant(law) == discriminant(first);
                if n_levels != info.levels.len() || !same_kernel {
                    return Err(ItfError::state(format!("column {:?}: its law", info.name)));
                }
            }
        }
        Ok(Self {
            members: members(&wire.places),
            wire,
        })
    }
}
