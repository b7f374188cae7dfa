//! One shard: some rows of the table of training, and what it answers.

use npb_data::{ColumnStats, Labels, Table};
use npb_infer::stream;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::run::{Curvature, Tell};
use super::{Asked, decode, encode};
use crate::data::{IqgmeData, fingerprint, row_of};
use crate::e_step::{EStepParameters, RowFamily, Update};
use crate::laplace;
use crate::responsibilities::Responsibilities;
use crate::row_state::RowState;
use crate::state::{Component, IqgmeState};
use crate::units::Units;
use crate::{IqgmeError, Result};

/// Key of the random stream that picks rows for the sample.
const SAMPLE: u64 = 7;

/// Consecutive rows of a table and their labels, as they are.
///
/// ```
/// use npb_iqgme::npb_data::{Labels, Table};
/// use npb_iqgme::{Asked, RowShard};
///
/// let table = Table::complete(3, 1, vec![1.0, 2.0, 4.0])?;
/// let shard = RowShard::new(0, table, Labels::from_strings(&[None::<&str>; 3]))?;
/// let answer = shard.answer(Asked::Describe, &[], &[])?;
/// assert!(!answer.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowShard {
    first_row: usize,
    table: Table,
    labels: Labels,
}

/// What a shard holds.
#[derive(Serialize, Deserialize)]
pub(super) struct Description {
    pub(super) n_rows: usize,
    pub(super) columns: Vec<String>,
    pub(super) stats: Vec<ColumnStats>,
    /// Rows of the table that have the smallest and the largest value of a column first.
    pub(super) extremes: Vec<[usize; 2]>,
    pub(super) classes: Vec<String>,
    /// Rows of each class.
    pub(super) counts: Vec<usize>,
}

/// Some rows of a shard, ascending, and their labels.
#[derive(Serialize, Deserialize)]
pub(super) struct Sample {
    pub(super) table: Table,
    pub(super) labels: Labels,
}

/// The units of all rows, their classes, and whether there are utilities.
#[derive(Serialize, Deserialize)]
pub(super) struct Preparation {
    pub(super) units: Units,
    pub(super) classes: Vec<String>,
    pub(super) n_utilities: usize,
}

/// What is known of a shard that has been made ready.
#[derive(Serialize, Deserialize)]
pub(super) struct Prepared {
    pub(super) n_observed: usize,
    pub(super) print: u64,
}

impl RowShard {
    /// Rows from number `first_row` of the table on. Errors: another number of labels than rows, no row at all.
    pub fn new(first_row: usize, table: Table, labels: Labels) -> Result<Self> {
        if labels.n_rows() != table.n_rows() {
            return Err(IqgmeError::LabelCount {
                labels: labels.n_rows(),
                rows: table.n_rows(),
            });
        }
        if table.n_rows() == 0 {
            return Err(IqgmeError::NoRows);
        }
        Ok(Self {
            first_row,
            table,
            labels,
        })
    }

    /// Bytes of its numbers.
    pub fn size(&self) -> usize {
        8 * (self.table.n_rows() + 2) * (self.table.n_cols() + 2)
    }

    /// In bytes, for another process.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        encode(self)
    }

    /// From the bytes of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        decode(bytes)
    }

    /// Its answer to [`Asked::Describe`] or [`Asked::Sample`].
    pub fn answer(&self, asked: Asked, question: &[u8], own: &[u8]) -> Result<Vec<u8>> {
        match asked {
            Asked::Describe => encode(&self.describe()),
            Asked::Sample => encode(&self.sample(decode(question)?, &decode::<Vec<usize>>(own)?)?),
            _ => Err(not_asked(asked)),
        }
    }

    fn describe(&self) -> Description {
        let stats = self.table.column_stats();
        let extremes = stats.iter().enumerate().map(|(column, of)| {
            let row = |value| self.first_row + row_of(&self.table, column, value).unwrap_or(0);
            [row(of.min), row(of.max)]
        });
        Description {
            n_rows: self.table.n_rows(),
            columns: self.table.column_names().to_vec(),
            extremes: extremes.collect(),
            stats,
            classes: self.labels.classes().to_vec(),
            counts: self.labels.counts(),
        }
    }

    /// So many rows of each class, and after these of those without a label: the first in an order that is random and the same wherever the shard lies.
    fn sample(&self, seed: u64, wanted: &[usize]) -> Result<Sample> {
        let mut by_class: Vec<Vec<(u64, usize)>> = vec![Vec::new(); wanted.len()];
        for (row, class) in self.labels.codes().iter().enumerate() {
            let key = stream(seed, [(self.first_row + row) as u64, 0, SAMPLE, 0]).random();
            if let Some(rows) = by_class.get_mut(class.unwrap_or(self.labels.n_classes())) {
                rows.push((key, row));
            }
        }
        let mut rows = Vec::new();
        for (mut of_class, &wanted) in by_class.into_iter().zip(wanted) {
            of_class.sort_unstable();
            rows.extend(of_class.into_iter().take(wanted).map(|(_, row)| row));
        }
        rows.sort_unstable();
        Ok(Sample {
            table: self.table.select_rows(&rows),
            labels: self.labels.select_rows(&rows),
        })
    }

    /// Its answer to [`Asked::Prepare`], and the rows on the scale of the question.
    pub fn prepare(&self, question: &[u8]) -> Result<(PreparedShard, Vec<u8>)> {
        let Preparation {
            units,
            classes,
            n_utilities,
        } = decode(question)?;
        let data = self.on_scale(units, classes, n_utilities)?;
        let about = Prepared {
            n_observed: data.n_observed(),
            print: fingerprint(&data)?,
        };
        Ok((PreparedShard(data), encode(&about)?))
    }
}

impl RowShard {
    pub(super) fn on_scale(
        &self,
        units: Units,
        classes: Vec<String>,
        n_utilities: usize,
    ) -> Result<IqgmeData> {
        let (table, labels) = (&self.table, &self.labels);
        let data = IqgmeData::of_shard(table, labels, units, classes, n_utilities);
        data.map_err(|error| error.in_rows_from(self.first_row))
    }
}

fn not_asked(asked: Asked) -> IqgmeError {
    IqgmeError::Shard(format!("{asked:?} is not for this part of a shard"))
}

/// The rows of a shard, standardised and sorted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PreparedShard(IqgmeData);

/// An answer, and what is kept for the run, where that has changed.
type Answer = (Vec<u8>, Option<Vec<u8>>);

impl PreparedShard {
    /// Bytes of its numbers.
    pub fn size(&self) -> usize {
        8 * (self.0.rows.len() + 2) * (self.0.rows.n_features + 3)
    }

    /// In bytes, for another process.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        encode(self)
    }

    /// From the bytes of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        decode(bytes)
    }

    /// Its answer to [`Asked::Begin`], [`Asked::Step`] and [`Asked::Tell`]. `kept`: what the last answer left for the run; what this one leaves comes with it.
    pub fn answer(&self, asked: Asked, kept: &[u8], question: &[u8], own: &[u8]) -> Result<Answer> {
        match asked {
            Asked::Begin(..) => {
                let locations = match own.is_empty() {
                    true => self.0.first_locations(),
                    false => self.0.utilities_by_position(&decode::<Vec<f64>>(own)?),
                };
                Ok((encode(&())?, Some(encode(&locations)?)))
            }
            Asked::Step(..) => {
                let (state, iteration) = decode(question)?;
                let rows = self.e_step(kept, &state, iteration, true)?;
                Ok((encode(&rows.stats)?, Some(encode(&rows.locations)?)))
            }
            Asked::Tell(..) => Ok((self.tell(kept, decode(question)?)?, None)),
            _ => Err(not_asked(asked)),
        }
    }

    /// The factors of the rows after one E-step from the locations that were kept, of `q(t)` too or not.
    fn e_step(
        &self,
        kept: &[u8],
        state: &IqgmeState,
        iteration: u64,
        utility_means: bool,
    ) -> Result<RowState> {
        let data = &self.0;
        let expected = Component::all_expected(&state.components);
        let expected = expected.map_err(IqgmeError::at(iteration, "covariance"))?;
        let parameters = EStepParameters::new(state, &expected, &data.rows);
        let parameters = parameters.map_err(IqgmeError::at(iteration, "precision"))?;
        let n_components = state.components.len();
        let responsibilities = Responsibilities::zeros(data.rows.len(), n_components);
        let mut rows = RowState::new(data, decode(kept)?, responsibilities, n_components);
        let update = Update {
            responsibilities: true,
            utility_means,
            family: RowFamily::MeanField,
        };
        rows.e_step(data, &parameters, update, iteration)?;
        Ok(rows)
    }

    fn tell(&self, kept: &[u8], what: Tell) -> Result<Vec<u8>> {
        match what {
            Tell::Utilities => {
                let locations: Vec<f64> = decode(kept)?;
                encode(&self.0.utilities_by_row(&locations))
            }
            Tell::Curvatures(state, iteration) => {
                let rows = self.e_step(kept, &state, iteration, false)?;
                let by_position = rows.responsibilities.by_position(&self.0.rows);
                let by_row = self.0.rows.by_row(&by_position, state.components.len());
                let sums = laplace::label_precisions(&state, &self.0.rows, &by_row, iteration)?;
                let sums: Vec<Curvature> = sums.into_iter().map(Curvature).collect();
                encode(&sums)
            }
        }
    }
}
