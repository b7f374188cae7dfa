//! What the rows of a cluster have in common, column by column.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::diagnostics::quantile;
use serde::{Deserialize, Serialize};

use crate::ItfError;
use crate::numeric::moments;

/// A cluster, described by every column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterSummary {
    /// Its label.
    pub label: u32,
    /// Number of rows.
    pub size: usize,
    /// One description per column of the table.
    pub columns: Vec<ColumnSummary>,
}

/// The cells of one column in one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnSummary {
    /// Name of the column.
    pub column: String,
    /// Number of observed cells.
    pub n_observed: usize,
    /// What they are.
    pub cells: CellSummary,
    /// How far they are from the whole column: Kullback-Leibler divergence in nats, of normal laws for numbers. The cluster
    /// counts one row of the whole column more than it has, so that a cluster of equal values stays finite.
    pub divergence: f64,
}

/// Observed cells in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellSummary {
    /// Nothing observed.
    Nothing,
    /// Real numbers or counts.
    Numbers {
        /// Mean.
        mean: f64,
        /// Standard deviation (divided by the number of cells).
        sd: f64,
        /// Lower quartile, median and upper quartile.
        quartiles: [f64; 3],
    },
    /// Levels of a category, in the order of the column.
    Levels {
        /// Share of every level.
        shares: Vec<f64>,
    },
}

/// Describes the clusters of `labels` (one per row, such as [`crate::PointClustering::labels`]) by the columns of a table, the lowest label
/// first. Cost: one sort of every column.
///
/// ```
/// use npb_itf::npb_data::{MixedColumn, MixedTable};
/// use npb_itf::{CellSummary, summarise_clusters};
/// let area = MixedColumn::Real(vec![Some(40.0), Some(44.0), Some(90.0), None]);
/// let table = MixedTable::new(vec!["area".into()], vec![area])?;
/// let clusters = summarise_clusters(&table, &[0, 0, 1, 1])?;
/// assert!(matches!(clusters[0].columns[0].cells, CellSummary::Numbers { mean, .. } if mean == 42.0));
/// assert_eq!((clusters[1].size, clusters[1].columns[0].n_observed), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Another number of labels than rows.
pub fn summarise_clusters(
    table: &MixedTable,
    labels: &[u32],
) -> Result<Vec<ClusterSummary>, ItfError> {
    if labels.len() != table.n_rows() {
        return Err(ItfError::Argument {
            argument: "labels (number of)",
            value: labels.len().to_string(),
            rule: "one per row of the table",
        });
    }
    let mut names: Vec<u32> = labels.to_vec();
    names.sort_unstable();
    names.dedup();
    let whole: Vec<Cells> = table
        .columns()
        .iter()
        .map(|c| Cells::of(c, |_| true))
        .collect();
    let clusters = names.into_iter().map(|label| {
        let columns = table.columns().iter().zip(table.column_names()).zip(&whole);
        let columns = columns.map(|((column, name), whole)| {
            let cells = Cells::of(column, |row| labels[row] == label);
            ColumnSummary {
                column: name.clone(),
                n_observed: cells.len(),
                divergence: cells.divergence(whole),
                cells: cells.summary(),
            }
        });
        ClusterSummary {
            label,
            size: labels.iter().filter(|&&l| l == label).count(),
            columns: columns.collect(),
        }
    });
    Ok(clusters.collect())
}

/// Observed cells of some rows.
enum Cells {
    /// Sorted.
    Numbers(Vec<f64>),
    /// Counts of the levels.
    Levels(Vec<usize>),
}

impl Cells {
    fn of(column: &MixedColumn, is_in: impl Fn(usize) -> bool) -> Self {
        fn picked<T: Copy>(cells: &[Option<T>], is_in: impl Fn(usize) -> bool) -> Vec<T> {
            let rows = cells.iter().enumerate().filter(|(row, _)| is_in(*row));
            rows.filter_map(|(_, cell)| *cell).collect()
        }
        let counted = |codes: Vec<usize>, n_levels: usize| {
            let mut counts = vec![0; n_levels];
            codes.into_iter().for_each(|code| counts[code] += 1);
            Self::Levels(counts)
        };
        let sorted = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            Self::Numbers(values)
        };
        match column {
            MixedColumn::Real(values) => sorted(picked(values, is_in)),
            MixedColumn::Count(values) => sorted(
                picked(values, is_in)
                    .into_iter()
                    .map(|v| v as f64)
                    .collect(),
            ),
            MixedColumn::Categorical { levels, codes } => {
                let codes = picked(codes, is_in).into_iter().map(|c| c as usize);
                counted(codes.collect(), levels.len())
            }
            MixedColumn::Binary { values, .. } => {
                let codes = picked(values, is_in).into_iter().map(usize::from);
                counted(codes.collect(), 2)
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len(),
            Self::Levels(counts) => counts.iter().sum(),
        }
    }

    fn summary(&self) -> CellSummary {
        match self {
            _ if self.len() == 0 => CellSummary::Nothing,
            Self::Numbers(values) => {
                let (mean, sd) = moments(values.iter().copied());
                CellSummary::Numbers {
                    mean,
                    sd,
                    quartiles: [0.25, 0.5, 0.75].map(|p| quantile(values, p)),
                }
            }
            Self::Levels(counts) => {
                let n = self.len() as f64;
                CellSummary::Levels {
                    shares: counts.iter().map(|&c| c as f64 / n).collect(),
                }
            }
        }
    }

    /// KL(these with one row of the whole column more || whole column); 0 when nothing is observed.
    fn divergence(&self, whole: &Self) -> f64 {
        if self.len() == 0 {
            return 0.0;
        }
        let n = self.len() as f64;
        let share = n / (n + 1.0);
        let divergence = match (self, whole) {
            (Self::Numbers(values), Self::Numbers(all)) => {
                let ((mean, sd), (centre, scale)) = (
                    moments(values.iter().copied()),
                    moments(all.iter().copied()),
                );
                if scale == 0.0 {
                    return 0.0;
                }
                let (d, ratio) = ((mean - centre) / scale, sd / scale);
                // Mean and variance of the mixture of both.
                let shift = share * d;
                let variance =
                    share * ratio * ratio + (1.0 - share) + share * (1.0 - share) * d * d;
                0.5 * (variance + shift * shift - 1.0 - variance.ln())
            }
            (Self::Levels(counts), Self::Levels(all)) => {
                let total = whole.len() as f64;
                let pairs = counts.iter().zip(all).filter(|(_, all)| **all > 0);
                let term = |(&count, &all): (&usize, &usize)| {
                    let q = all as f64 / total;
                    let p = (count as f64 + q) / (n + 1.0);
                    p * (p / q).ln()
                };
                pairs.map(term).sum()
            }
            _ => 0.0,
        };
        divergence.max(0.0)
    }
}
