//! Densities, conditional predictions and imputations, averaged over kept draws.
//!
//! For a new row y the posterior given y as well weighs every kept draw by the density of the observed cells of y; for a row of the
//! training table, which the draws have seen, all draws count alike.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::special::{ln_normalize, log_sum_exp};
use rand::RngExt;
use rayon::prelude::*;

use crate::data::{codes, levels};
use crate::draw::{ColumnDraw, Draw};
use crate::kernel::RowLabels;
use crate::kernels::Cells;
use crate::numeric::pick;
use crate::{ColumnInfo, ItfData, ItfError, ItfFit};

/// Keys of the random streams of questions to a fit.
const INTERVAL: u64 = 1;
const ROWS: u64 = 2;

/// Simulated values behind an interval.
const SAMPLES: usize = 400;

/// Rows to ask a fit about.
#[derive(Clone, Debug)]
pub struct ItfRows {
    cells: Vec<Cells>,
    n_rows: usize,
    /// Whether the draws have seen these rows.
    training: bool,
}

impl ItfRows {
    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// The cells of every column.
    pub(crate) fn cells(&self) -> &[Cells] {
        &self.cells
    }
}

/// A missing cell filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ImputedCell {
    /// 0-based row.
    pub row: usize,
    /// Position of the column.
    pub column: usize,
    /// Class probabilities, or the expected value of every part of the cell.
    pub expected: Vec<f64>,
    /// Lower ends of the central intervals of the parts; for categories of the level's number.
    pub lower: Vec<f64>,
    /// Upper ends.
    pub upper: Vec<f64>,
}

/// Draws of a missing cell.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnCell {
    /// 0-based row.
    pub row: usize,
    /// Position of the column.
    pub column: usize,
    /// All parts of the cell in every draw, observed ones as they are; levels as their numbers.
    pub draws: Vec<Vec<f64>>,
}

/// A table filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Imputation {
    /// Means of real cells, rounded means of counts, most probable levels.
    pub completed: MixedTable,
    /// All missing cells, row by row.
    pub cells: Vec<ImputedCell>,
}

/// What one draw says about one row.
struct RowInDraw {
    ln_density: f64,
    /// Probabilities of the top-level clusters given the observed cells, block by block.
    top: Vec<Vec<f64>>,
    /// Their logarithms, also of those that are 0 in numbers.
    ln_top: Vec<Vec<f64>>,
}

impl ItfFit {
    /// New rows: the columns of training, in their order; levels are matched by name.
    ///
    /// # Errors
    /// Other columns than in training, another kind, a level that training did not know.
    pub fn rows(&self, table: &MixedTable) -> Result<ItfRows, ItfError> {
        self.read(table, false)
    }

    /// Rows that were part of training, such as those with cells to fill in. As [`rows`](Self::rows).
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn training_rows(&self, table: &MixedTable) -> Result<ItfRows, ItfError> {
        self.read(table, true)
    }

    /// Rows of columns that were put together by hand. Those of a kernel that looks at other rows (a network) must be the
    /// training rows.
    ///
    /// # Errors
    /// Cells of other kernels than in training, or of other rows where that matters.
    pub fn rows_of(&self, data: &ItfData, training: bool) -> Result<ItfRows, ItfError> {
        let laws = &self.draws()[0].columns;
        if data.n_columns() != laws.len() {
            return Err(ItfError::Argument {
                argument: "data (number of columns)",
                value: data.n_columns().to_string(),
                rule: "that of training",
            });
        }
        for ((column, cells), info) in laws.iter().zip(data.cells()).zip(self.columns()) {
            let name = info.name.clone();
            if !column.law.fits(cells) {
                return Err(ItfError::OtherKernel { name });
            }
            if column.law.is_coupled() && !(training && data.n_rows() == self.n_rows()) {
                let what = "its rows depend on each other: ask about the training rows".to_owned();
                return Err(ItfError::Column { name, what });
            }
        }
        Ok(ItfRows {
            cells: data.cells().to_vec(),
            n_rows: data.n_rows(),
            training,
        })
    }

    fn read(&self, table: &MixedTable, training: bool) -> Result<ItfRows, ItfError> {
        let names: Vec<String> = self
            .columns()
            .iter()
            .map(|info| info.name.clone())
            .collect();
        table.check_columns(&names)?;
        let columns = table
            .columns()
            .iter()
            .zip(self.columns())
            .zip(&self.draws()[0].columns);
        let cells = columns.map(|((column, info), draw)| {
            let column = in_levels_of_training(column, info)?;
            draw.law.cells_of(&column).map_err(|what| ItfError::Column {
                name: info.name.clone(),
                what,
            })
        });
        Ok(ItfRows {
            cells: cells.collect::<Result<_, _>>()?,
            n_rows: table.n_rows(),
            training,
        })
    }

    /// Log predictive density of the observed cells of each row, 0 for a row without any; low values are anomalies.
    /// Cost for each row: draws × (columns × clusters + top-level clusters × columns × clusters).
    ///
    /// # Errors
    /// Rows of a fit with other columns.
    pub fn ln_density(&self, rows: &ItfRows) -> Result<Vec<f64>, ItfError> {
        self.check_columns_of(rows)?;
        Ok(self.ln_density_of(rows, |_| true))
    }

    /// Rows may be those of another fit: as many columns, of the same kinds.
    pub(crate) fn check_columns_of(&self, rows: &ItfRows) -> Result<(), ItfError> {
        let laws = &self.draws()[0].columns;
        if rows.cells.len() != laws.len() {
            return Err(ItfError::Argument {
                argument: "rows (number of columns)",
                value: rows.cells.len().to_string(),
                rule: "that of training",
            });
        }
        let mut pairs = laws.iter().zip(&rows.cells);
        match pairs.position(|(column, cells)| !column.law.fits(cells)) {
            None => Ok(()),
            Some(j) => Err(ItfError::OtherKernel {
                name: self.columns()[j].name.clone(),
            }),
        }
    }

    /// Log predictive density of the observed cells of `columns` given the other observed cells, for each row.
    ///
    /// # Errors
    /// A column that does not exist; rows of a fit with other columns.
    pub fn ln_conditional(&self, rows: &ItfRows, columns: &[&str]) -> Result<Vec<f64>, ItfError> {
        self.check_columns_of(rows)?;
        let targets = columns.iter().map(|name| self.column_index(name));
        let targets: Vec<usize> = targets.collect::<Result<_, _>>()?;
        let row = |row| {
            let all: Vec<f64> = self
                .ask(rows, row, |_| true)
                .map(|r| r.ln_density)
                .collect();
            let given: Vec<f64> = (self.ask(rows, row, |j| !targets.contains(&j)))
                .map(|r| r.ln_density)
                .collect();
            if rows.training {
                let ratios: Vec<f64> = all.iter().zip(&given).map(|(a, b)| a - b).collect();
                ln_mean(&ratios)
            } else {
                ln_mean(&all) - ln_mean(&given)
            }
        };
        Ok((0..rows.n_rows).into_par_iter().map(row).collect())
    }

    /// Log predictive density of single cells, each given what is shown of its row: for held-out cells. `shown`: rows without these
    /// cells; `whole`: the same rows with them; `cells`: their rows and columns. Far cheaper than [`ln_conditional`](Self::ln_conditional) cell
    /// by cell: a row is asked about once.
    ///
    /// # Errors
    /// Another number of rows in `whole` than in `shown`, a cell that does not exist or that is shown; rows of a fit with other columns.
    pub fn ln_held_out(
        &self,
        shown: &ItfRows,
        whole: &ItfRows,
        cells: &[(usize, usize)],
    ) -> Result<Vec<f64>, ItfError> {
        self.check_columns_of(shown)?;
        self.check_columns_of(whole)?;
        let bad = |&&(row, column): &&(usize, usize)| {
            row >= shown.n_rows
                || column >= shown.cells.len()
                || (self.draws()[0].columns[column].law).is_observed(&shown.cells[column], row)
        };
        let bad = cells.iter().find(bad).map(|cell| format!("{cell:?}"));
        let bad = bad.or_else(|| {
            (shown.n_rows != whole.n_rows).then(|| format!("{} rows in all", whole.n_rows))
        });
        if let Some(value) = bad {
            return Err(ItfError::Argument {
                argument: "cells",
                value,
                rule: "rows and columns of cells that `shown` does not show and `whole` has",
            });
        }
        let mut order: Vec<usize> = (0..cells.len()).collect();
        order.sort_by_key(|&place| cells[place].0);
        let row = |places: &[usize]| -> Vec<(usize, f64)> {
            let row = cells[places[0]].0;
            let asked: Vec<RowInDraw> = self.ask(shown, row, |_| true).collect();
            let logs: Vec<f64> = match shown.training {
                true => vec![0.0; asked.len()],
                false => asked.iter().map(|r| r.ln_density).collect(),
            };
            let ln_total = log_sum_exp(&logs);
            let density = |&place: &usize| {
                let column = cells[place].1;
                let draws = self.draws().iter().zip(&asked).zip(&logs);
                let ln = draws.map(|((draw, asked), ln_weight)| {
                    ln_weight + ln_cell(draw, column, asked, &whole.cells[column], row)
                });
                (place, log_sum_exp(&ln.collect::<Vec<_>>()) - ln_total)
            };
            places.iter().map(density).collect()
        };
        let rows: Vec<&[usize]> = order.chunk_by(|&a, &b| cells[a].0 == cells[b].0).collect();
        let found: Vec<Vec<(usize, f64)>> = rows.into_par_iter().map(row).collect();
        let mut densities = vec![0.0; cells.len()];
        for (place, density) in found.into_iter().flatten() {
            densities[place] = density;
        }
        Ok(densities)
    }

    fn ln_density_of(&self, rows: &ItfRows, use_column: impl Fn(usize) -> bool + Sync) -> Vec<f64> {
        let row = |row| {
            let densities: Vec<f64> = self
                .ask(rows, row, &use_column)
                .map(|r| r.ln_density)
                .collect();
            ln_mean(&densities)
        };
        (0..rows.n_rows).into_par_iter().map(row).collect()
    }

    /// Predicts one column from the other observed cells of each row (its own cell is not looked at): class probabilities, or the expected
    /// value of every part (the geometric mean for positive numbers of a [`LogNormal`](crate::kernels::LogNormal)).
    ///
    /// # Errors
    /// A column that does not exist; rows of a fit with other columns.
    pub fn predict(&self, rows: &ItfRows, column: &str) -> Result<Vec<Vec<f64>>, ItfError> {
        self.check_columns_of(rows)?;
        let target = self.column_index(column)?;
        let row = |row| {
            let asked: Vec<RowInDraw> = self.ask(rows, row, |j| j != target).collect();
            let weights = draw_weights(&asked, rows.training);
            self.expected(rows, row, target, true, &asked, &weights)
        };
        Ok((0..rows.n_rows).into_par_iter().map(row).collect())
    }

    /// Fills in the missing cells of new rows, with central intervals that hold `level` of the predictive probability.
    ///
    /// # Errors
    /// As [`rows`](Self::rows), or a level not between 0 and 1.
    pub fn impute(&self, table: &MixedTable, level: f64) -> Result<Imputation, ItfError> {
        let cells = self.impute_cells(&self.rows(table)?, level)?;
        self.imputation(table, cells)
    }

    /// Fills in the missing cells of the training table; as [`impute`](Self::impute).
    ///
    /// # Errors
    /// As [`impute`](Self::impute).
    pub fn impute_training(&self, table: &MixedTable, level: f64) -> Result<Imputation, ItfError> {
        let cells = self.impute_cells(&self.training_rows(table)?, level)?;
        self.imputation(table, cells)
    }

    fn imputation(
        &self,
        table: &MixedTable,
        cells: Vec<ImputedCell>,
    ) -> Result<Imputation, ItfError> {
        let mut columns = self.own_columns(table)?;
        for cell in &cells {
            let best = match self.columns()[cell.column].levels.len() {
                0 => cell.expected[0],
                _ => largest(&cell.expected) as f64,
            };
            set(&mut columns[cell.column], cell.row, best);
        }
        Ok(Imputation {
            completed: MixedTable::new(table.column_names().to_vec(), columns)?,
            cells,
        })
    }

    /// Every cell with missing parts: expectations, and central intervals that hold `level` of the predictive probability (from 400
    /// simulated values).
    ///
    /// # Errors
    /// A level not between 0 and 1; rows of a fit with other columns.
    pub fn impute_cells(&self, rows: &ItfRows, level: f64) -> Result<Vec<ImputedCell>, ItfError> {
        self.check_columns_of(rows)?;
        if !(level > 0.0 && level < 1.0) {
            return Err(ItfError::Argument {
                argument: "level",
                value: level.to_string(),
                rule: "between 0 and 1",
            });
        }
        let row = |row| {
            let targets: Vec<usize> = (0..rows.cells.len())
                .filter(|&j| self.has_gap(rows, row, j))
                .collect();
            if targets.is_empty() {
                return Vec::new();
            }
            let asked: Vec<RowInDraw> = self.ask(rows, row, |_| true).collect();
            let weights = draw_weights(&asked, rows.training);
            let mut rng = self.question_stream(INTERVAL, row);
            let mut samples = vec![Vec::with_capacity(SAMPLES); targets.len()];
            for sample in 0..SAMPLES {
                let draw = systematic(&weights, sample, SAMPLES);
                let drawn = self.draw_cells(rows, row, &targets, draw, &asked[draw], &mut rng);
                samples
                    .iter_mut()
                    .zip(drawn)
                    .for_each(|(all, parts)| all.push(parts));
            }
            let cell = |(&column, samples): (&usize, Vec<Vec<f64>>)| {
                let (lower, upper) = central(&samples, level);
                ImputedCell {
                    row,
                    column,
                    expected: self.expected(rows, row, column, false, &asked, &weights),
                    lower,
                    upper,
                }
            };
            targets.iter().zip(samples).map(cell).collect()
        };
        let rows: Vec<Vec<ImputedCell>> = (0..rows.n_rows).into_par_iter().map(row).collect();
        Ok(rows.into_iter().flatten().collect())
    }

    /// Completes a table `n` times by draws: the missing cells of a row are drawn together. For multiple imputation, and, with
    /// rows without any observed cell, for new rows altogether.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn impute_draws(
        &self,
        table: &MixedTable,
        n: usize,
        training: bool,
    ) -> Result<Vec<MixedTable>, ItfError> {
        let drawn = self.impute_cell_draws(&self.read(table, training)?, n)?;
        let complete = |draw: usize| {
            let mut columns = self.own_columns(table)?;
            for cell in &drawn {
                set(&mut columns[cell.column], cell.row, cell.draws[draw][0]);
            }
            Ok(MixedTable::new(table.column_names().to_vec(), columns)?)
        };
        (0..n).map(complete).collect()
    }

    /// `n` draws of every cell with missing parts, those of a row drawn together: [`impute_draws`](Self::impute_draws) for columns of any
    /// kernel.
    ///
    /// # Errors
    /// Rows of a fit with other columns.
    pub fn impute_cell_draws(&self, rows: &ItfRows, n: usize) -> Result<Vec<DrawnCell>, ItfError> {
        self.check_columns_of(rows)?;
        let row = |row| {
            let targets: Vec<usize> = (0..rows.cells.len())
                .filter(|&j| self.has_gap(rows, row, j))
                .collect();
            let mut cells: Vec<DrawnCell> = targets
                .iter()
                .map(|&column| DrawnCell {
                    row,
                    column,
                    draws: Vec::with_capacity(n),
                })
                .collect();
            if targets.is_empty() {
                return cells;
            }
            let asked: Vec<RowInDraw> = self.ask(rows, row, |_| true).collect();
            let weights = draw_weights(&asked, rows.training);
            let mut rng = self.question_stream(ROWS, row);
            for _ in 0..n {
                let draw = pick(&weights, rng.random());
                let drawn = self.draw_cells(rows, row, &targets, draw, &asked[draw], &mut rng);
                let places = cells.iter_mut().zip(drawn);
                places.for_each(|(cell, parts)| cell.draws.push(parts));
            }
            cells
        };
        let cells: Vec<Vec<DrawnCell>> = (0..rows.n_rows).into_par_iter().map(row).collect();
        Ok(cells.into_iter().flatten().collect())
    }

    fn own_columns(&self, table: &MixedTable) -> Result<Vec<MixedColumn>, ItfError> {
        let columns = table.columns().iter().zip(self.columns());
        columns
            .map(|(column, info)| in_levels_of_training(column, info))
            .collect()
    }

    fn question_stream(&self, question: u64, row: usize) -> Xoshiro256PlusPlus {
        stream(self.config().seed, [u64::MAX, question, row as u64, 0])
    }

    fn has_gap(&self, rows: &ItfRows, row: usize, column: usize) -> bool {
        let law = &self.draws()[0].columns[column].law;
        law.has_gap(&rows.cells[column], row)
    }

    /// Every draw's view of a row, by the observed cells of the columns that are used.
    fn ask<'a>(
        &'a self,
        rows: &'a ItfRows,
        row: usize,
        use_column: impl Fn(usize) -> bool + 'a,
    ) -> impl Iterator<Item = RowInDraw> + 'a {
        let mut likelihoods = Vec::new();
        self.draws().iter().map(move |draw| {
            let mut ln_density = 0.0;
            let mut ln_top = Vec::with_capacity(draw.blocks.len());
            let block = |(b, block): (usize, &crate::BlockDraw)| {
                let mut top: Vec<f64> = block.weights.iter().map(|w| w.ln()).collect();
                for (j, column) in draw.columns.iter().enumerate() {
                    if column.block == b && use_column(j) {
                        let cells = &rows.cells[j];
                        let ln_factor = column.likelihoods(cells, row, draw, j, &mut likelihoods);
                        ln_density += ln_factor;
                        let mut ln_likelihoods = None;
                        for (r, top) in top.iter_mut().enumerate() {
                            let sum = column.sum(r, &likelihoods);
                            *top += if sum > 0.0 {
                                sum.ln()
                            } else {
                                // Too far behind the best cluster of this column for a number, but maybe not in all columns together.
                                let ln = ln_likelihoods.get_or_insert_with(|| {
                                    column.ln_likelihoods(cells, row, draw, j)
                                });
                                log_sum_exp(&column.ln_weights(r, ln)) - ln_factor
                            };
                        }
                    }
                }
                let mut logs = top.clone();
                let total = ln_normalize(&mut top);
                logs.iter_mut().for_each(|ln| *ln -= total);
                ln_top.push(logs);
                ln_density += total;
                top
            };
            let top = draw.blocks.iter().enumerate().map(block).collect();
            RowInDraw {
                ln_density,
                top,
                ln_top,
            }
        })
    }

    /// The mean over draws and clusters of what kernels expect, geometric for kernels that ask for it.
    fn expected(
        &self,
        rows: &ItfRows,
        row: usize,
        column: usize,
        ignore_observed: bool,
        asked: &[RowInDraw],
        weights: &[f64],
    ) -> Vec<f64> {
        let geometric = self.draws()[0].columns[column].law.is_geometric();
        let mut mean: Vec<f64> = Vec::new();
        let (mut likelihoods, mut parts) = (Vec::new(), Vec::new());
        for ((draw, asked), weight) in self.draws().iter().zip(asked).zip(weights) {
            let own = &draw.columns[column];
            let cells = &rows.cells[column];
            let clusters = cluster_weights(
                draw,
                column,
                asked,
                cells,
                row,
                ignore_observed,
                &mut likelihoods,
            );
            for (cluster, p) in clusters.into_iter().enumerate() {
                if p == 0.0 {
                    continue;
                }
                let mut counts = Vec::new();
                let others = own.others(draw, column, &mut counts);
                own.law
                    .expected(cluster, cells, row, ignore_observed, others, &mut parts);
                if geometric {
                    parts.iter_mut().for_each(|x| *x = x.ln());
                }
                mean.resize(parts.len(), 0.0);
                mean.iter_mut()
                    .zip(&parts)
                    .for_each(|(m, x)| *m += weight * p * x);
            }
        }
        if geometric {
            mean.iter_mut().for_each(|x| *x = x.exp());
        }
        mean
    }

    /// Draws the parts of several cells of a row together.
    fn draw_cells(
        &self,
        rows: &ItfRows,
        row: usize,
        columns: &[usize],
        draw: usize,
        asked: &RowInDraw,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Vec<Vec<f64>> {
        let draw = &self.draws()[draw];
        let tops: Vec<usize> = asked
            .top
            .iter()
            .map(|top| pick(top, rng.random()))
            .collect();
        let mut likelihoods = Vec::new();
        let mut cell = |&j: &usize| {
            let own = &draw.columns[j];
            let cells = &rows.cells[j];
            let top = tops[own.block];
            let cluster = if own.weights.is_empty() {
                top
            } else {
                own.likelihoods(cells, row, draw, j, &mut likelihoods);
                let ln = || own.ln_likelihoods(cells, row, draw, j);
                pick(&own.within(top, &likelihoods, ln), rng.random())
            };
            let mut counts = Vec::new();
            let others = own.others(draw, j, &mut counts);
            let mut parts = Vec::new();
            own.law
                .complete(cluster, cells, row, false, others, rng, &mut parts);
            parts
        };
        columns.iter().map(&mut cell).collect()
    }
}

impl ColumnDraw {
    /// Labels of the other rows, for a kernel that looks at them; `counts` is memory.
    fn others<'a>(
        &self,
        draw: &'a Draw,
        column: usize,
        counts: &'a mut Vec<usize>,
    ) -> RowLabels<'a> {
        match draw.labels(column).filter(|_| self.law.is_coupled()) {
            Some(labels) => {
                *counts = crate::urn::counts(labels);
                RowLabels { labels, counts }
            }
            None => RowLabels::NONE,
        }
    }

    /// Writes the likelihoods of a cell up to a factor and returns the factor's logarithm.
    fn likelihoods(
        &self,
        cells: &Cells,
        row: usize,
        draw: &Draw,
        column: usize,
        out: &mut Vec<f64>,
    ) -> f64 {
        out.clear();
        out.resize(self.n_clusters, 0.0);
        let mut counts = Vec::new();
        let others = self.others(draw, column, &mut counts);
        self.law
            .likelihoods(cells, row..row + 1, self.n_clusters, others, out)
    }

    /// Logarithms of the likelihoods of a cell.
    fn ln_likelihoods(&self, cells: &Cells, row: usize, draw: &Draw, column: usize) -> Vec<f64> {
        let mut out = vec![0.0; self.n_clusters];
        let mut counts = Vec::new();
        let others = self.others(draw, column, &mut counts);
        self.law
            .ln_likelihoods(cells, row..row + 1, self.n_clusters, others, &mut out);
        out
    }

    /// ln(ψ_rk L_k) for every k; for one level ln L_r alone.
    fn ln_weights(&self, r: usize, ln_likelihoods: &[f64]) -> Vec<f64> {
        if self.weights.is_empty() {
            return vec![ln_likelihoods[r]];
        }
        let psi = &self.weights[r * self.n_clusters..][..self.n_clusters];
        psi.iter()
            .zip(ln_likelihoods)
            .map(|(p, l)| p.ln() + l)
            .collect()
    }

    /// Probabilities of the clusters within top-level cluster `r`, of a column with two levels; `ln_likelihoods` is called when all of
    /// `likelihoods` are too small there. Zeros when the cell is impossible.
    fn within(
        &self,
        r: usize,
        likelihoods: &[f64],
        ln_likelihoods: impl FnOnce() -> Vec<f64>,
    ) -> Vec<f64> {
        let sum = self.sum(r, likelihoods);
        if sum > 0.0 {
            let psi = &self.weights[r * self.n_clusters..][..self.n_clusters];
            let each = psi.iter().zip(likelihoods);
            return each.map(|(p, l)| p * l / sum).collect();
        }
        let mut weights = self.ln_weights(r, &ln_likelihoods());
        if !ln_normalize(&mut weights).is_finite() {
            weights.fill(0.0);
        }
        weights
    }

    /// Σ_k ψ_rk L_k.
    fn sum(&self, r: usize, likelihoods: &[f64]) -> f64 {
        if self.weights.is_empty() {
            return likelihoods[r];
        }
        let psi = &self.weights[r * self.n_clusters..][..self.n_clusters];
        psi.iter().zip(likelihoods).map(|(p, l)| p * l).sum()
    }
}

/// Probabilities of a column's clusters for a row.
fn cluster_weights(
    draw: &Draw,
    column: usize,
    asked: &RowInDraw,
    cells: &Cells,
    row: usize,
    ignore_observed: bool,
    likelihoods: &mut Vec<f64>,
) -> Vec<f64> {
    let own = &draw.columns[column];
    let top = &asked.top[own.block];
    if own.weights.is_empty() {
        return top.clone();
    }
    if ignore_observed {
        likelihoods.clear();
        likelihoods.resize(own.n_clusters, 1.0);
    } else {
        own.likelihoods(cells, row, draw, column, likelihoods);
    }
    let mut weights = vec![0.0; own.n_clusters];
    for (r, &p) in top.iter().enumerate() {
        if p == 0.0 {
            continue;
        }
        let ln = || own.ln_likelihoods(cells, row, draw, column);
        for (weight, within) in weights.iter_mut().zip(own.within(r, likelihoods, ln)) {
            *weight += p * within;
        }
    }
    weights
}

/// ln density of a cell in one draw, given the probabilities of top-level clusters.
fn ln_cell(draw: &Draw, column: usize, asked: &RowInDraw, cells: &Cells, row: usize) -> f64 {
    let own = &draw.columns[column];
    let mut likelihoods = Vec::new();
    let ln_factor = own.likelihoods(cells, row, draw, column, &mut likelihoods);
    let mut ln_likelihoods = None;
    let in_cluster = |(r, ln_p): (usize, &f64)| {
        let sum = own.sum(r, &likelihoods);
        if sum > 0.0 {
            return ln_p + ln_factor + sum.ln();
        }
        // Too far behind the best cluster of the column for a number.
        let ln = ln_likelihoods.get_or_insert_with(|| own.ln_likelihoods(cells, row, draw, column));
        ln_p + log_sum_exp(&own.ln_weights(r, ln))
    };
    let terms = asked.ln_top[own.block].iter().enumerate();
    log_sum_exp(&terms.map(in_cluster).collect::<Vec<_>>())
}

/// Probabilities of the draws for a row.
fn draw_weights(asked: &[RowInDraw], training: bool) -> Vec<f64> {
    let mut weights: Vec<f64> = asked.iter().map(|r| r.ln_density).collect();
    if training || !ln_normalize(&mut weights).is_finite() {
        weights.fill(1.0 / asked.len() as f64);
    }
    weights
}

fn ln_mean(ln: &[f64]) -> f64 {
    log_sum_exp(ln) - (ln.len() as f64).ln()
}

/// The draw of sample number `sample` of `n`, so that draws come up in proportion to their weights.
fn systematic(weights: &[f64], sample: usize, n: usize) -> usize {
    pick(weights, (sample as f64 + 0.5) / n as f64)
}

/// Ends of the central intervals of every part.
fn central(samples: &[Vec<f64>], level: f64) -> (Vec<f64>, Vec<f64>) {
    let n_parts = samples.iter().map(Vec::len).min().unwrap_or(0);
    let part = |part: usize| {
        let mut values: Vec<f64> = samples.iter().map(|parts| parts[part]).collect();
        values.sort_unstable_by(f64::total_cmp);
        let at = |q: f64| values[((q * values.len() as f64) as usize).min(values.len() - 1)];
        (at(0.5 - 0.5 * level), at(0.5 + 0.5 * level))
    };
    (0..n_parts).map(part).unzip()
}

fn largest(weights: &[f64]) -> usize {
    (0..weights.len()).fold(
        0,
        |best, k| if weights[k] > weights[best] { k } else { best },
    )
}

/// Writes a value into a cell.
fn set(column: &mut MixedColumn, row: usize, value: f64) {
    match column {
        MixedColumn::Real(values) => values[row] = Some(value),
        MixedColumn::Count(values) => values[row] = Some(value.round().max(0.0) as u64),
        MixedColumn::Categorical { codes, .. } => codes[row] = Some(value as u32),
        MixedColumn::Binary { values, .. } => values[row] = Some(value > 0.5),
    }
}

/// A column with the levels of training, in their order.
pub(crate) fn in_levels_of_training(
    column: &MixedColumn,
    info: &ColumnInfo,
) -> Result<MixedColumn, ItfError> {
    if info.kind != Some(column.kind()) {
        return Err(ItfError::Kind {
            name: info.name.clone(),
            found: column.kind(),
            expected: info
                .kind
                .map_or("not a table's".to_owned(), |kind| kind.to_string()),
        });
    }
    let found = levels(column);
    let Some(found_codes) = codes(column).filter(|_| found != info.levels) else {
        return Ok(column.clone());
    };
    let place = |level: &String| info.levels.iter().position(|known| known == level);
    let places: Vec<Option<usize>> = found.iter().map(place).collect();
    let recoded = found_codes.iter().enumerate().map(|(row, code)| {
        code.map(|code| {
            places[code as usize]
                .map(|k| k as u32)
                .ok_or_else(|| ItfError::UnknownLevel {
                    row,
                    name: info.name.clone(),
                    level: found[code as usize].clone(),
                })
        })
        .transpose()
    });
    let recoded: Vec<Option<u32>> = recoded.collect::<Result<_, _>>()?;
    Ok(match (column, &info.levels[..]) {
        (MixedColumn::Binary { .. }, [no, yes]) => MixedColumn::Binary {
            levels: [no.clone(), yes.clone()],
            values: recoded
                .into_iter()
                .map(|code| code.map(|k| k == 1))
                .collect(),
        },
        _ => MixedColumn::Categorical {
            levels: info.levels.clone(),
            codes: recoded,
        },
    })
}
