//! The result of a fit.

use npb_infer::{Stop, Trace};
use serde::{Deserialize, Serialize};

use crate::cells::{CellMoments, Cells};
use crate::chains::BsvdChain;
use crate::data::BsvdData;
use crate::features::SideInformation;
use crate::names::{Key, Names};
use crate::shape::Shape;
use crate::side::Side;
use crate::state::BsvdState;
use crate::view::View;
use crate::{BsvdConfig, BsvdError};
use npb_data::Exposure;

/// Second word of the keys of random streams that belong to no sweep: questions to a fit.
pub(crate) const QUESTION: u64 = u64::MAX;

/// A fitted matrix: what was asked for beforehand, some whole draws, and the trace of the run.
///
/// Cells that were followed have moments over *all* kept draws ([`moments`](Self::moments)); everything else is answered from the stored draws
/// ([`BsvdConfig::stored_draws`]): [`predict`](Self::predict), [`top`](Self::top), [`fold_in_row`](Self::fold_in_row),
/// [`similar_rows`](Self::similar_rows), [`components`](Self::components), [`evaluate`](Self::evaluate), [`next_cells`](Self::next_cells).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BsvdFit {
    /// Configuration of the run.
    pub config: BsvdConfig,
    pub(crate) stop: Stop,
    /// Scalars of every sweep; see [`BsvdSampler::scalars`](crate::BsvdSampler::scalars). Of several chains: those of the first.
    pub trace: Trace,
    /// Those of the other chains.
    pub(crate) more_traces: Vec<Trace>,
    /// Cells that were followed.
    pub cells: Cells,
    /// What is known of them.
    pub moments: CellMoments,
    pub(crate) draws: Vec<BsvdState>,
    pub(crate) last: BsvdState,
    pub(crate) side: SideInformation,
    pub(crate) centre: f64,
    pub(crate) scale: f64,
    /// Training entries of each row and of each column.
    pub(crate) row_counts: Vec<u32>,
    pub(crate) column_counts: Vec<u32>,
    /// Columns of the training entries, row by row, ascending in each.
    pub(crate) entry_columns: Vec<u32>,
    /// Which rows come to have entries where.
    pub(crate) exposure: Exposure,
    /// Mean of the training entries, per trial.
    pub(crate) mean_entry: f64,
    pub(crate) row_names: Names,
    pub(crate) column_names: Names,
}

impl BsvdFit {
    /// Why the run ended.
    pub fn stop(&self) -> Stop {
        self.stop
    }

    /// What chains on these data come to; there is one at least.
    pub(crate) fn of_chains(
        data: &BsvdData,
        cells: Cells,
        config: BsvdConfig,
        chains: Vec<BsvdChain>,
    ) -> Self {
        let stop = Stop::of_all(chains.iter().map(|chain| chain.stop));
        let mut moments = CellMoments::new(&cells);
        let (mut states, mut draws, mut traces) = (Vec::new(), Vec::new(), Vec::new());
        for chain in chains {
            moments.merge(&chain.state.1);
            states.push(chain.state.0);
            draws.extend(chain.draws);
            traces.push(chain.trace);
        }
        Self {
            config,
            stop,
            trace: traces.remove(0),
            more_traces: traces,
            cells,
            moments,
            draws,
            last: states.swap_remove(0),
            side: data.side.clone(),
            centre: data.centre,
            scale: data.scale,
            row_counts: data.rows.counts(),
            column_counts: data.columns.counts(),
            entry_columns: data.rows.others.clone(),
            exposure: data.exposure,
            mean_entry: data.mean_entry(),
            row_names: Names::default(),
            column_names: Names::default(),
        }
    }

    /// One fit of several that differ in chain and seed only, run apart (on several machines, say): moments, stored draws and traces of all. Names and last state are those of the first.
    ///
    /// # Errors
    /// No fit; other sizes, features, units, followed cells or configurations.
    pub fn pooled(fits: Vec<Self>) -> Result<Self, BsvdError> {
        let mut fits = fits.into_iter();
        let Some(mut all) = fits.next() else {
            return Err(BsvdError::Argument {
                argument: "chains",
                value: "0".to_owned(),
                rule: "at least 1",
            });
        };
        for (number, fit) in (2..).zip(fits) {
            let chains = fit.config.chains;
            let alike = BsvdConfig {
                chains: all.config.chains,
                chain: all.config.chain,
                seed: all.config.seed,
                ..fit.config
            };
            let same = alike == all.config
                && fit.cells == all.cells
                && fit.side == all.side
                && (fit.centre, fit.scale) == (all.centre, all.scale)
                && fit.row_counts == all.row_counts
                && fit.column_counts == all.column_counts
                && fit.entry_columns == all.entry_columns;
            if !same {
                return Err(BsvdError::State {
                    what: format!(
                        "fit {number} is of other entries, features, cells or another configuration than the first"
                    ),
                });
            }
            all.config.chains += chains;
            all.moments.merge(&fit.moments);
            all.draws.extend(fit.draws);
            all.more_traces.push(fit.trace);
            all.more_traces.extend(fit.more_traces);
            all.stop = Stop::of_all([all.stop, fit.stop]);
        }
        Ok(all)
    }

    /// Traces of all chains: monitored scalars of every sweep.
    pub fn traces(&self) -> impl Iterator<Item = &Trace> {
        std::iter::once(&self.trace).chain(&self.more_traces)
    }

    /// Number of rows, I.
    pub fn n_rows(&self) -> usize {
        self.row_counts.len()
    }

    /// Number of columns, J.
    pub fn n_cols(&self) -> usize {
        self.column_counts.len()
    }

    /// Number of training entries of each row.
    pub fn row_counts(&self) -> &[u32] {
        &self.row_counts
    }

    /// Number of training entries of each column.
    pub fn column_counts(&self) -> &[u32] {
        &self.column_counts
    }

    /// The columns in which each row has training entries, ascending.
    pub fn observed(&self) -> impl Iterator<Item = &[u32]> {
        let mut rest = &self.entry_columns[..];
        self.row_counts.iter().map(move |&n| {
            let (own, later) = rest.split_at(n as usize);
            rest = later;
            own
        })
    }

    /// The stored draws, in order, evenly spread over the kept ones ([`BsvdConfig::stored_draws`] of them); factors in single precision.
    pub fn draws(&self) -> &[BsvdState] {
        &self.draws
    }

    /// The state after the last sweep.
    pub fn last(&self) -> &BsvdState {
        &self.last
    }

    /// Features of rows and columns.
    pub fn side(&self) -> &SideInformation {
        &self.side
    }

    /// Centre and scale of the units of the model: `(y - centre) / scale`.
    pub fn units(&self) -> (f64, f64) {
        (self.centre, self.scale)
    }

    /// Gives names to rows and columns, by which they can be asked for from now on; strings, or numbers for [`Key::Id`]. An empty list takes names away.
    ///
    /// # Errors
    /// Another number of names than rows or columns; a name that occurs twice.
    pub fn with_names<R: ToString, C: ToString>(
        mut self,
        rows: &[R],
        columns: &[C],
    ) -> Result<Self, BsvdError> {
        self.row_names = named(rows, Side::Rows, self.n_rows())?;
        self.column_names = named(columns, Side::Columns, self.n_cols())?;
        Ok(self)
    }

    /// Names of the rows; empty without names.
    pub fn row_names(&self) -> &[String] {
        self.row_names.list()
    }

    /// Names of the columns; empty without names.
    pub fn column_names(&self) -> &[String] {
        self.column_names.list()
    }

    /// The place of a row.
    ///
    /// # Errors
    /// There is no such row.
    pub fn row<'k>(&self, key: impl Into<Key<'k>>) -> Result<usize, BsvdError> {
        self.place(Side::Rows, key.into())
    }

    /// The place of a column.
    ///
    /// # Errors
    /// There is no such column.
    pub fn column<'k>(&self, key: impl Into<Key<'k>>) -> Result<usize, BsvdError> {
        self.place(Side::Columns, key.into())
    }

    pub(crate) fn place(&self, side: Side, key: Key<'_>) -> Result<usize, BsvdError> {
        let names = match side {
            Side::Rows => &self.row_names,
            Side::Columns => &self.column_names,
        };
        names.place(key, side, self.size(side))
    }

    /// Names of one side; empty without names.
    pub(crate) fn names(&self, side: Side) -> &[String] {
        match side {
            Side::Rows => self.row_names.list(),
            Side::Columns => self.column_names.list(),
        }
    }

    /// Number of rows, or of columns.
    pub(crate) fn size(&self, side: Side) -> usize {
        match side {
            Side::Rows => self.n_rows(),
            Side::Columns => self.n_cols(),
        }
    }

    /// A draw with what turns it into values.
    pub(crate) fn view<'a>(&'a self, state: &'a BsvdState) -> View<'a> {
        View {
            state,
            side: &self.side,
            likelihood: self.config.likelihood,
            centre: self.centre,
            scale: self.scale,
        }
    }

    /// The stored draws, of which there must be at least `least`.
    pub(crate) fn views(&self, least: usize) -> Result<Vec<View<'_>>, BsvdError> {
        if self.draws.len() < least {
            return Err(BsvdError::TooFewDraws {
                found: self.draws.len(),
                least,
            });
        }
        Ok(self.draws.iter().map(|state| self.view(state)).collect())
    }

    /// With the names of another fit of the same rows and columns.
    pub(crate) fn named_as(self, other: &Self) -> Self {
        Self {
            row_names: other.row_names.clone(),
            column_names: other.column_names.clone(),
            ..self
        }
    }

    /// Sizes that every draw has.
    pub(crate) fn shape(&self) -> Shape {
        let size = (self.n_rows(), self.n_cols());
        Shape::of(size, &self.side, &self.config)
    }
}

fn named(list: &[impl ToString], side: Side, size: usize) -> Result<Names, BsvdError> {
    if !list.is_empty() && list.len() != size {
        return Err(BsvdError::Size {
            what: match side {
                Side::Rows => "row names",
                Side::Columns => "column names",
            },
            found: list.len(),
            expected: size,
        });
    }
    Names::new(list.iter().map(ToString::to_string).collect(), side)
}
