//! Densities and conditional predictions, averaged over kept draws.
//!
//! For a new row y the posterior given y as well weighs every kept draw by the density of the observed cells of y; for a row of the
//! training table, which the draws have seen, all draws count alike.

use std::borrow::Cow;
use std::ops::Range;

use npb_data::MixedTable;
use npb_infer::Xoshiro256PlusPlus;
use npb_infer::parallel;
use npb_priors::special::{ln_normalize, log_sum_exp};
use rand::RngExt;

use crate::draw::{ColumnDraw, Draw};
use crate::fields::read_by;
use crate::groups::{changed, is_number};
use crate::kernel::{CellPart, RowLabels};
use crate::kernels::{Cells, Column};
use crate::numeric::pick;
use crate::place::Place;
use crate::{ItfData, ItfError, ItfFit};

/// Rows to ask a fit about.
#[derive(Clone, Debug)]
pub struct ItfRows {
    cells: Vec<Cells>,
    n_rows: usize,
    /// Whether the draws have seen these rows.
    pub(crate) training: bool,
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

    pub(crate) fn into_cells(self) -> Vec<Cells> {
        self.cells
    }
}

/// Rows that are asked about together.
const BLOCK: usize = 16;
/// Clusters of less probability add nothing to what costly kernels expect.
const NEGLIGIBLE: f64 = 1e-12;

/// Log likelihoods of the cells of some rows in columns whose kernels have many numbers for every cluster: draw by draw, so that these numbers
/// are read once for all these rows.
pub(crate) struct RowLikelihoods {
    /// The first of these rows in every column.
    firsts: Vec<usize>,
    /// Draw by draw, column by column, row by row; empty for other columns.
    ln_likelihoods: Vec<Vec<Vec<f64>>>,
}

impl RowLikelihoods {
    /// `rows(j)`: the rows in column j; `asked`: whether a draw will be.
    pub(crate) fn new(
        draws: &[Draw],
        cells: &[Cells],
        rows: impl Fn(usize) -> Range<usize>,
        asked: impl Fn(usize) -> bool,
    ) -> Self {
        let laws = &draws[0].columns;
        let of_column =
            |(j, column): (usize, &ColumnDraw)| costly_ln_likelihoods(column, &cells[j], rows(j));
        let of_draw = |(number, draw): (usize, &Draw)| match asked(number) {
            true => draw.columns.iter().enumerate().map(of_column).collect(),
            false => vec![Vec::new(); laws.len()],
        };
        let ln_likelihoods = match laws.iter().any(|column| column.law.is_costly()) {
            true => draws.iter().enumerate().map(of_draw).collect(),
            false => Vec::new(),
        };
        Self {
            firsts: (0..laws.len()).map(|j| rows(j).start).collect(),
            ln_likelihoods,
        }
    }

    fn of(&self, draw: usize, column: &ColumnDraw, j: usize, row: usize) -> Option<&[f64]> {
        let numbers = &self.ln_likelihoods.get(draw)?[j];
        let n = column.n_clusters;
        numbers.get((row - self.firsts[j]) * n..)?.get(..n)
    }
}

/// Log likelihoods of the cells of some rows in a column whose kernel has many numbers for every cluster, row by row; empty for other columns.
fn costly_ln_likelihoods(column: &ColumnDraw, cells: &Cells, rows: Range<usize>) -> Vec<f64> {
    if !column.law.is_costly() || rows.is_empty() {
        return Vec::new();
    }
    let n = column.n_clusters;
    let mut out = vec![0.0; rows.len() * n];
    (column.law).ln_likelihoods(cells, rows, n, RowLabels::NONE, &mut out);
    out
}

/// Log likelihoods of the cells of some rows in a column of a draw, row by row.
pub(crate) fn ln_likelihoods_of(
    draw: &Draw,
    column: usize,
    cells: &Cells,
    rows: &[usize],
) -> Vec<f64> {
    let (own, mut counts) = (&draw.columns[column], Vec::new());
    let (n, others) = (own.n_clusters, own.others(draw, column, &mut counts));
    let mut out = vec![0.0; rows.len() * n];
    let mut rest = &mut out[..];
    // Rows that follow each other are asked about at once.
    for rows in rows.chunk_by(|a, b| a + 1 == *b) {
        let (these, after) = rest.split_at_mut(rows.len() * n);
        let rows = rows[0]..rows[0] + rows.len();
        own.law.ln_likelihoods(cells, rows, n, others, these);
        rest = after;
    }
    out
}

/// What one draw says about one row.
pub(crate) struct RowInDraw {
    /// Log likelihoods that were computed before, column by column; empty for other columns.
    likelihoods: Vec<Vec<f64>>,
    ln_density: f64,
    /// Probabilities of the top-level clusters given the observed cells, block by block.
    top: Vec<Vec<f64>>,
    /// Their logarithms, also of those that are 0 in numbers.
    ln_top: Vec<Vec<f64>>,
}

/// A cell, and its log likelihoods in a draw when they were computed before.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'a> {
    pub(crate) cells: &'a Cells,
    pub(crate) row: usize,
    pub(crate) likelihoods: Option<&'a [f64]>,
}

impl RowInDraw {
    /// Log likelihoods of the cell in a column, if they were computed before.
    fn likelihoods(&self, column: usize) -> Option<&[f64]> {
        self.likelihoods.get(column).map(Vec::as_slice)
    }

    /// Draws the row's top-level cluster in every block.
    pub(crate) fn draw_tops(&self, rng: &mut Xoshiro256PlusPlus) -> Vec<usize> {
        let tops = self.top.iter();
        tops.map(|top| pick(top, rng.random())).collect()
    }
}

impl Draw {
    /// Draws a row's cluster in a column, given its top-level clusters and what the draw says about it.
    pub(crate) fn draw_cluster(
        &self,
        column: usize,
        rows: &ItfRows,
        row: usize,
        (asked, tops): (&RowInDraw, &[usize]),
        rng: &mut Xoshiro256PlusPlus,
    ) -> usize {
        let own = &self.columns[column];
        let top = tops[own.block];
        if own.weights.is_empty() {
            return top;
        }
        let cell = Cell {
            cells: &rows.cells[column],
            row,
            likelihoods: asked.likelihoods(column),
        };
        let mut likelihoods = Vec::new();
        own.likelihoods(cell, self, column, &mut likelihoods);
        let ln = || own.ln_likelihoods(cell, self, column);
        pick(&own.within(top, &likelihoods, ln), rng.random())
    }
}

impl ItfFit {
    /// New rows: the columns of training, in their order; levels are matched by name.
    ///
    /// # Errors
    /// Other columns than in training, another kind, a level that training did not know.
    pub fn rows(&self, table: &MixedTable) -> Result<ItfRows, ItfError> {
        self.read_table(table, false)
    }

    /// Rows that were part of training, such as those with cells to fill in. As [`rows`](Self::rows).
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn training_rows(&self, table: &MixedTable) -> Result<ItfRows, ItfError> {
        self.read_table(table, true)
    }

    /// Rows of columns that were put together by hand, grouped as in the fit or not at all. Those of a kernel that looks at other rows (a network) must be the
    /// training rows.
    ///
    /// # Errors
    /// Cells of other kernels than in training, or of other rows where that matters; a kernel that looks at other rows in a fit without
    /// their labels ([`crate::ItfConfig::keep_labels`]).
    pub fn rows_of(&self, data: &ItfData, training: bool) -> Result<ItfRows, ItfError> {
        // Data from before columns were grouped, or grouped in the same way. The cells of groups are read again: those of training are spread.
        let plain = data.places().iter().all(|place| place.part.is_none());
        let alike =
            data.infos().len() == self.columns().len() && (plain || data.places() == self.places());
        let cells = match alike {
            true => self.cells_like(data)?,
            false => data.cells().to_vec(),
        };
        let rows = ItfRows {
            cells,
            n_rows: data.n_rows(),
            training,
        };
        self.check_columns_of(&rows)?;
        Ok(rows)
    }

    /// The cells of data with the user's columns, those of groups read by the laws of the fit.
    fn cells_like(&self, data: &ItfData) -> Result<Vec<Cells>, ItfError> {
        let of_column = |(column, of_column): (usize, &Vec<usize>)| {
            if !self.groups_at(column) {
                return Ok(data.cells_of(of_column[0]).clone());
            }
            let part = |row: usize, j: usize| {
                let part = data.places()[j].part.unwrap_or(0);
                data.law_of(j).part(data.cells_of(j), row, part).value()
            };
            let other = |j: usize| ItfError::OtherKernel {
                name: self.columns()[j].name.clone(),
            };
            let joins = |j: usize| match data.law_of(j) {
                Column::Categorical(_) | Column::FullNormal(_) => true,
                law => is_number(law),
            };
            if let Some(&j) = of_column.iter().find(|&&j| !joins(j)) {
                return Err(other(j));
            }
            let row = |row| of_column.iter().map(|&j| part(row, j)).collect();
            let rows: Vec<Vec<Option<f64>>> = (0..data.n_rows()).map(row).collect();
            let law = &self.draws()[0].columns[column].law;
            law.read(&rows).map_err(|_| other(of_column[0]))
        };
        self.members().iter().enumerate().map(of_column).collect()
    }

    /// New rows of these parts, column by column of the model.
    pub(crate) fn rows_of_parts(
        &self,
        parts: &[Vec<Vec<Option<f64>>>],
    ) -> Result<ItfRows, ItfError> {
        let read = |(column, rows): (usize, &Vec<Vec<Option<f64>>>)| {
            let law = &self.draws()[0].columns[column].law;
            let name = |e| ItfError::cells(&self.columns()[self.members()[column][0]].name, &e);
            law.read(rows).map_err(name)
        };
        let cells = parts.iter().enumerate().map(read);
        let rows = ItfRows {
            cells: cells.collect::<Result<_, _>>()?,
            n_rows: parts.first().map_or(0, Vec::len),
            training: false,
        };
        self.check_columns_of(&rows)?;
        Ok(rows)
    }

    /// Rows of a table; `columns`: those of the table that hold the parts of each column.
    pub(crate) fn read(
        &self,
        table: &MixedTable,
        columns: &[Vec<usize>],
        training: bool,
    ) -> Result<ItfRows, ItfError> {
        let laws = self.draws()[0].columns.iter().map(|column| &column.law);
        Ok(ItfRows {
            cells: read_by(laws, self.columns(), self.places(), table, columns)?,
            n_rows: table.n_rows(),
            training,
        })
    }

    /// Rows of a table with the columns of training, in their order.
    pub(crate) fn read_table(
        &self,
        table: &MixedTable,
        training: bool,
    ) -> Result<ItfRows, ItfError> {
        let names = self.columns().iter().map(|info| info.name.clone());
        table.check_columns(&names.collect::<Vec<_>>())?;
        self.read(table, &self.one_each(), training)
    }

    /// Every column of training is one column of a table, in the same order.
    pub(crate) fn one_each(&self) -> Vec<Vec<usize>> {
        (0..self.columns().len()).map(|j| vec![j]).collect()
    }

    /// Log predictive density of the observed cells of each row, 0 for a row without any; low values are anomalies.
    /// Cost for each row: draws × (columns × clusters + top-level clusters × columns × clusters).
    ///
    /// # Errors
    /// Rows of a fit with other columns.
    pub fn ln_density(&self, rows: &ItfRows) -> Result<Vec<f64>, ItfError> {
        self.check_columns_of(rows)?;
        let densities = self.ln_densities(rows, |_| true);
        Ok(densities.iter().map(|ln| ln_mean(ln)).collect())
    }

    /// Rows may be those of another fit: as many columns, of the same kinds, and the rows of training where kernels look at other rows.
    pub(crate) fn check_columns_of(&self, rows: &ItfRows) -> Result<(), ItfError> {
        let laws = &self.draws()[0].columns;
        if rows.cells.len() != laws.len() {
            return Err(ItfError::Argument {
                argument: "rows (number of columns)",
                value: rows.cells.len().to_string(),
                rule: "that of training",
            });
        }
        for (j, (column, cells)) in laws.iter().zip(&rows.cells).enumerate() {
            let name = self.columns()[self.members()[j][0]].name.clone();
            if !column.law.fits(cells) {
                return Err(ItfError::OtherKernel { name });
            }
            if column.law.is_coupled() {
                let refuse = |what: &str| {
                    let what = what.to_owned();
                    Err(ItfError::Column { name, what })
                };
                if !(rows.training && rows.n_rows == self.n_rows()) {
                    return refuse("its rows depend on each other: ask about the training rows");
                }
                if self.draws().iter().any(|draw| draw.labels(j).is_none()) {
                    return refuse(
                        "its rows depend on each other's labels: fit again with keep_labels",
                    );
                }
            }
        }
        Ok(())
    }

    /// Log predictive density of the observed cells of `columns` given the other observed cells, for each row.
    ///
    /// # Errors
    /// A column that does not exist; rows of a fit with other columns.
    pub fn ln_conditional(&self, rows: &ItfRows, columns: &[&str]) -> Result<Vec<f64>, ItfError> {
        self.check_columns_of(rows)?;
        let targets = columns.iter().map(|name| self.column_index(name));
        let targets: Vec<usize> = targets.collect::<Result<_, _>>()?;
        let (hidden, alone) = self.without(rows, &targets);
        let all = self.ln_densities(rows, |_| true);
        let given = self.ln_densities(&hidden, |j| !alone.contains(&j));
        let ratio = |(all, given): (Vec<f64>, Vec<f64>)| {
            if rows.training {
                let ratios: Vec<f64> = all.iter().zip(&given).map(|(a, b)| a - b).collect();
                ln_mean(&ratios)
            } else {
                ln_mean(&all) - ln_mean(&given)
            }
        };
        Ok(all.into_iter().zip(given).map(ratio).collect())
    }

    /// The cells must be hidden in `shown`, and the rows be as many in both.
    fn check_hidden(
        &self,
        shown: &ItfRows,
        whole: &ItfRows,
        cells: &[(usize, usize)],
    ) -> Result<(), ItfError> {
        self.check_columns_of(shown)?;
        self.check_columns_of(whole)?;
        let has_gap = |row: usize, column: usize| {
            let place = self.places()[column];
            let (law, cells) = (self.law(column), &shown.cells[place.column]);
            match place.part {
                None => law.has_gap(cells, row),
                Some(part) => law.part(cells, row, part) == CellPart::Missing,
            }
        };
        let bad = |&&(row, column): &&(usize, usize)| {
            row >= shown.n_rows || column >= self.places().len() || !has_gap(row, column)
        };
        let bad = cells.iter().find(bad).map(|cell| format!("{cell:?}"));
        let bad = bad.or_else(|| {
            (shown.n_rows != whole.n_rows).then(|| format!("{} rows in all", whole.n_rows))
        });
        bad.map_or(Ok(()), |value| {
            Err(ItfError::Argument {
                argument: "cells",
                value,
                rule: "rows and columns of cells that `shown` does not show and `whole` has",
            })
        })
    }

    /// Of a group of columns, for each of some cells (row, column of the table) what is shown of the row, and of `whole` that cell.
    fn with_one_part(
        &self,
        shown: &ItfRows,
        whole: &ItfRows,
        column: usize,
        cells: &[(usize, usize)],
    ) -> Cells {
        let law = &self.draws()[0].columns[column].law;
        let rows: Vec<usize> = cells.iter().map(|cell| cell.0).collect();
        let with = |at: usize, part: usize, seen: Option<f64>| match self.places()[cells[at].1].part
            == Some(part)
        {
            true => law.part(&whole.cells[column], rows[at], part).value(),
            false => seen,
        };
        changed(law, &shown.cells[column], &rows, with)
    }

    /// Log predictive density of single cells, each given what is shown of its row: for held-out cells. `shown`: rows without these
    /// cells, or without some of their parts; `whole`: the same rows with them; `cells`: their rows and columns. Of a cell with several parts it is the
    /// density of those that `whole` has beyond `shown`. Far cheaper than [`ln_conditional`](Self::ln_conditional) cell by cell: a row is asked
    /// about once.
    ///
    /// # Errors
    /// Another number of rows in `whole` than in `shown`, a cell that does not exist or that is shown wholly; rows of a fit with other columns.
    pub fn ln_held_out(
        &self,
        shown: &ItfRows,
        whole: &ItfRows,
        cells: &[(usize, usize)],
    ) -> Result<Vec<f64>, ItfError> {
        self.check_hidden(shown, whole, cells)?;
        let mut order: Vec<usize> = (0..cells.len()).collect();
        order.sort_by_key(|&place| cells[place].0);
        let asked = self.held_out(shown, whole, cells, &order);
        let rows: Vec<&[usize]> = order.chunk_by(|&a, &b| cells[a].0 == cells[b].0).collect();
        let found: Vec<Vec<(usize, f64)>> =
            parallel::map(rows.chunks(BLOCK), |rows| asked.in_rows(self, rows));
        let mut densities = vec![0.0; cells.len()];
        for (place, density) in found.into_iter().flatten() {
            densities[place] = density;
        }
        Ok(densities)
    }

    /// Of every group what is shown of a row and the one column that is asked about, in this order; of other columns the whole rows.
    fn held_out<'a>(
        &self,
        shown: &'a ItfRows,
        whole: &ItfRows,
        cells: &'a [(usize, usize)],
        order: &[usize],
    ) -> HeldOut<'a> {
        let mut target = vec![0; cells.len()];
        let joined = |(column, of_column): (usize, &Vec<usize>)| {
            if !self.groups_at(column) {
                return whole.cells[column].clone();
            }
            let asked = order.iter().filter(|&&at| of_column.contains(&cells[at].1));
            let asked: Vec<usize> = asked.copied().collect();
            (asked.iter().enumerate()).for_each(|(row, &at)| target[at] = row);
            let asked: Vec<(usize, usize)> = asked.iter().map(|&at| cells[at]).collect();
            self.with_one_part(shown, whole, column, &asked)
        };
        let joined = self.members().iter().enumerate().map(joined).collect();
        HeldOut {
            shown,
            cells,
            joined,
            target,
        }
    }

    /// Log densities of each row in every draw, by the columns that are used.
    fn ln_densities(
        &self,
        rows: &ItfRows,
        use_column: impl Fn(usize) -> bool + Sync,
    ) -> Vec<Vec<f64>> {
        let row = |row, likelihoods: &RowLikelihoods| {
            let asked = self.ask(rows, row, &use_column, likelihoods);
            asked.map(|r| r.ln_density).collect()
        };
        self.by_blocks(rows, row)
    }

    /// Answers row by row, blocks of rows in parallel.
    pub(crate) fn by_blocks<T: Send>(
        &self,
        rows: &ItfRows,
        row: impl Fn(usize, &RowLikelihoods) -> T + Sync,
    ) -> Vec<T> {
        self.by_blocks_in(|_| true, rows, row)
    }

    /// The same when only some draws are asked.
    pub(crate) fn by_blocks_in<T: Send>(
        &self,
        asked: impl Fn(usize) -> bool + Sync,
        rows: &ItfRows,
        row: impl Fn(usize, &RowLikelihoods) -> T + Sync,
    ) -> Vec<T> {
        let block = |b: usize| {
            let range = b * BLOCK..((b + 1) * BLOCK).min(rows.n_rows);
            let likelihoods =
                RowLikelihoods::new(self.draws(), &rows.cells, |_| range.clone(), &asked);
            range.map(|i| row(i, &likelihoods)).collect::<Vec<T>>()
        };
        let blocks: Vec<Vec<T>> = parallel::map(0..rows.n_rows.div_ceil(BLOCK), block);
        blocks.into_iter().flatten().collect()
    }

    /// Predicts one column from the other observed cells of each row (its own cell is not looked at): class probabilities, or the expected
    /// value of every part (the geometric mean for positive numbers of a [`LogNormal`](crate::kernels::LogNormal)).
    ///
    /// # Errors
    /// A column that does not exist, or of which no value was observed in training; rows of a fit with other columns.
    pub fn predict(&self, rows: &ItfRows, column: &str) -> Result<Vec<Vec<f64>>, ItfError> {
        self.check_columns_of(rows)?;
        let target = self.target(column)?;
        let Place { column, part } = self.places()[target];
        let (hidden, alone) = self.without(rows, &[target]);
        let row = |row, likelihoods: &RowLikelihoods| {
            let asked = self.ask(&hidden, row, |j| !alone.contains(&j), likelihoods);
            let asked: Vec<RowInDraw> = asked.collect();
            let weights = draw_weights(asked.iter(), rows.training);
            let (expected, _) =
                self.expected(&hidden, row, column, part.is_none(), &asked, &weights);
            match part {
                None => expected,
                Some(part) => expected[self.law(target).place_of_part(part)].to_vec(),
            }
        };
        Ok(self.by_blocks(&hidden, row))
    }

    /// Position of a column that is to be predicted.
    pub(crate) fn target(&self, column: &str) -> Result<usize, ItfError> {
        let target = self.column_index(column)?;
        match self.columns()[target].observed {
            true => Ok(target),
            false => Err(ItfError::Column {
                name: column.to_owned(),
                what: "no value of it was observed in training".to_owned(),
            }),
        }
    }

    /// Rows without some columns' cells in groups, and the columns of the model that are other ones of these columns.
    fn without<'a>(&self, rows: &'a ItfRows, targets: &[usize]) -> (Cow<'a, ItfRows>, Vec<usize>) {
        let mut hidden = Cow::Borrowed(rows);
        let mut alone = Vec::new();
        for (column, of_column) in self.members().iter().enumerate() {
            if !of_column.iter().any(|j| targets.contains(j)) {
                continue;
            }
            if self.places()[of_column[0]].part.is_none() {
                alone.push(column);
                continue;
            }
            let shown =
                |_, part: usize, x: Option<f64>| x.filter(|_| !targets.contains(&of_column[part]));
            let law = &self.draws()[0].columns[column].law;
            let all: Vec<usize> = (0..rows.n_rows).collect();
            let cells = changed(law, &rows.cells[column], &all, shown);
            hidden.to_mut().cells[column] = cells;
        }
        (hidden, alone)
    }

    /// Every draw's view of a row, by the observed cells of the columns that are used.
    pub(crate) fn ask<'a>(
        &'a self,
        rows: &'a ItfRows,
        row: usize,
        use_column: impl Fn(usize) -> bool + 'a,
        likelihoods: &'a RowLikelihoods,
    ) -> impl Iterator<Item = RowInDraw> + 'a {
        let draws = 0..self.draws().len();
        draws.map(move |number| self.ask_one(number, rows, row, &use_column, likelihoods))
    }

    /// The view of one draw.
    pub(crate) fn ask_one(
        &self,
        number: usize,
        rows: &ItfRows,
        row: usize,
        use_column: impl Fn(usize) -> bool,
        known: &RowLikelihoods,
    ) -> RowInDraw {
        let draw = &self.draws()[number];
        let mut likelihoods = Vec::new();
        let of_column = |(j, column): (usize, &ColumnDraw)| {
            let ln = known.of(number, column, j, row);
            ln.map_or(Vec::new(), <[f64]>::to_vec)
        };
        let of_columns: Vec<Vec<f64>> = match known.ln_likelihoods.is_empty() {
            true => Vec::new(),
            false => draw.columns.iter().enumerate().map(of_column).collect(),
        };
        let mut ln_density = 0.0;
        let mut ln_top = Vec::with_capacity(draw.blocks.len());
        let block = |(b, block): (usize, &crate::BlockDraw)| {
            let mut top: Vec<f64> = block.weights.iter().map(|w| w.ln()).collect();
            for (j, column) in draw.columns.iter().enumerate() {
                if column.block == b && use_column(j) {
                    let cell = Cell {
                        cells: &rows.cells[j],
                        row,
                        likelihoods: of_columns.get(j).map(Vec::as_slice),
                    };
                    let ln_factor = column.likelihoods(cell, draw, j, &mut likelihoods);
                    ln_density += ln_factor;
                    let mut ln_likelihoods = None;
                    for (r, top) in top.iter_mut().enumerate() {
                        let sum = column.sum(r, &likelihoods);
                        *top += if sum > 0.0 {
                            sum.ln()
                        } else {
                            // Too far behind the best cluster of this column for a number, but maybe not in all columns together.
                            let ln = ln_likelihoods
                                .get_or_insert_with(|| column.ln_likelihoods(cell, draw, j));
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
            likelihoods: of_columns,
            ln_density,
            top,
            ln_top,
        }
    }

    /// The mean over draws and clusters of what kernels expect, geometric for parts that ask for it; and that of every draw, of geometric parts its logarithm.
    pub(crate) fn expected(
        &self,
        rows: &ItfRows,
        row: usize,
        column: usize,
        ignore_observed: bool,
        asked: &[RowInDraw],
        weights: &[f64],
    ) -> (Vec<f64>, Vec<Vec<f64>>) {
        let law = &self.draws()[0].columns[column].law;
        let all_parts = 0..law.n_parts(&rows.cells[column], row);
        let geometric: Vec<Range<usize>> = all_parts
            .filter(|&part| law.is_geometric(part))
            .map(|part| law.place_of_part(part))
            .collect();
        let in_all = |x: &mut [f64], to: fn(f64) -> f64| {
            for i in geometric.iter().cloned().flatten() {
                x[i] = to(x[i]);
            }
        };
        let mut mean: Vec<f64> = Vec::new();
        let mut of_draws = Vec::with_capacity(asked.len());
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
            // What is costly is not asked where it makes no difference.
            let least = if own.law.is_costly() { NEGLIGIBLE } else { 0.0 };
            let mut of_draw: Vec<f64> = Vec::new();
            for (cluster, p) in clusters.into_iter().enumerate() {
                if p <= least {
                    continue;
                }
                let mut counts = Vec::new();
                let others = own.others(draw, column, &mut counts);
                own.law
                    .expected(cluster, cells, row, ignore_observed, others, &mut parts);
                in_all(&mut parts, f64::ln);
                mean.resize(parts.len(), 0.0);
                mean.iter_mut()
                    .zip(&parts)
                    .for_each(|(m, x)| *m += weight * p * x);
                of_draw.resize(parts.len(), 0.0);
                let both = of_draw.iter_mut().zip(&parts);
                both.for_each(|(m, x)| *m += p * x);
            }
            of_draws.push(of_draw);
        }
        in_all(&mut mean, f64::exp);
        (mean, of_draws)
    }

    /// Draws the parts of several cells of a row together.
    pub(crate) fn draw_cells(
        &self,
        rows: &ItfRows,
        row: usize,
        columns: &[usize],
        draw: usize,
        asked: &RowInDraw,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Vec<Vec<f64>> {
        let draw = &self.draws()[draw];
        let tops = asked.draw_tops(rng);
        let mut cell = |&j: &usize| {
            let own = &draw.columns[j];
            let cluster = draw.draw_cluster(j, rows, row, (asked, &tops), rng);
            let mut counts = Vec::new();
            let others = own.others(draw, j, &mut counts);
            let mut parts = Vec::new();
            let cells = &rows.cells[j];
            own.law
                .complete(cluster, cells, row, false, others, rng, &mut parts);
            parts
        };
        columns.iter().map(&mut cell).collect()
    }
}

/// Cells whose densities are asked for, given what is shown of their rows.
struct HeldOut<'a> {
    shown: &'a ItfRows,
    /// Their rows and columns.
    cells: &'a [(usize, usize)],
    /// What holds them, column by column of the model.
    joined: Vec<Cells>,
    /// The rows of groups there that hold each.
    target: Vec<usize>,
}

impl HeldOut<'_> {
    /// Log densities of the cells in some rows, given by their places row by row.
    fn in_rows(&self, fit: &ItfFit, rows: &[&[usize]]) -> Vec<(usize, f64)> {
        let (draws, places) = (fit.draws(), rows.concat());
        let ends = |column: usize| {
            let in_column = |&&at: &&usize| fit.places()[self.cells[at].1].column == column;
            let mut inside = places.iter().filter(in_column);
            let first = inside.next()?;
            Some((*first, *inside.next_back().unwrap_or(first)))
        };
        let row = |place: usize| self.cells[place].0;
        let (first, last) = (row(places[0]), row(places[places.len() - 1]));
        // Rows far apart are asked about one by one.
        let span = match last - first < 4 * BLOCK {
            true => first..last + 1,
            false => 0..0,
        };
        let shown = RowLikelihoods::new(draws, &self.shown.cells, |_| span.clone(), |_| true);
        let of_joined = |column: usize| match (fit.groups_at(column), ends(column)) {
            (true, Some((first, last))) => self.target[first]..self.target[last] + 1,
            (false, _) if draws[0].columns[column].law.is_costly() => span.clone(),
            _ => 0..0,
        };
        let joined = RowLikelihoods::new(draws, &self.joined, of_joined, |_| true);
        let rows = rows.iter();
        rows.flat_map(|places| self.in_row(fit, places, &shown, &joined))
            .collect()
    }

    /// The same of the cells in one row.
    fn in_row(
        &self,
        fit: &ItfFit,
        places: &[usize],
        of_shown: &RowLikelihoods,
        of_joined: &RowLikelihoods,
    ) -> Vec<(usize, f64)> {
        let row = self.cells[places[0]].0;
        let asked: Vec<RowInDraw> = fit.ask(self.shown, row, |_| true, of_shown).collect();
        let logs: Vec<f64> = match self.shown.training {
            true => vec![0.0; asked.len()],
            false => asked.iter().map(|r| r.ln_density).collect(),
        };
        let ln_total = log_sum_exp(&logs);
        let density = |&place: &usize| {
            let asked_about = self.cells[place].1;
            let (law, column) = (fit.law(asked_about), fit.places()[asked_about].column);
            let seen = &self.shown.cells[column];
            let seen = law.is_observed(seen, row).then_some(seen);
            let at = match fit.groups_at(column) {
                true => self.target[place],
                false => row,
            };
            let draws = fit.draws().iter().zip(&asked).zip(&logs).enumerate();
            let ln = draws.map(|(number, ((draw, asked), ln_weight))| {
                let own = &draw.columns[column];
                let whole = Cell {
                    cells: &self.joined[column],
                    row: at,
                    likelihoods: of_joined.of(number, own, column, at),
                };
                let seen = seen.map(|cells| Cell {
                    cells,
                    row,
                    likelihoods: asked.likelihoods(column),
                });
                ln_weight + ln_cell(draw, column, asked, whole, seen)
            });
            (place, log_sum_exp(&ln.collect::<Vec<_>>()) - ln_total)
        };
        places.iter().map(density).collect()
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
                *counts = crate::collapsed::counts(labels);
                RowLabels { labels, counts }
            }
            None => RowLabels::NONE,
        }
    }

    /// Writes the likelihoods of a cell up to a factor and returns the factor's logarithm.
    fn likelihoods(&self, cell: Cell<'_>, draw: &Draw, column: usize, out: &mut Vec<f64>) -> f64 {
        out.clear();
        if let Some(ln) = cell.likelihoods.filter(|ln| !ln.is_empty()) {
            out.extend_from_slice(ln);
            return crate::numeric::exp_rows(out, self.n_clusters);
        }
        out.resize(self.n_clusters, 0.0);
        let Cell { cells, row, .. } = cell;
        let mut counts = Vec::new();
        let others = self.others(draw, column, &mut counts);
        self.law
            .likelihoods(cells, row..row + 1, self.n_clusters, others, out)
    }

    /// Logarithms of the likelihoods of a cell.
    fn ln_likelihoods(&self, cell: Cell<'_>, draw: &Draw, column: usize) -> Vec<f64> {
        if let Some(ln) = cell.likelihoods.filter(|ln| !ln.is_empty()) {
            return ln.to_vec();
        }
        let Cell { cells, row, .. } = cell;
        let mut out = vec![0.0; self.n_clusters];
        let mut counts = Vec::new();
        let others = self.others(draw, column, &mut counts);
        self.law
            .ln_likelihoods(cells, row..row + 1, self.n_clusters, others, &mut out);
        out
    }

    /// Adds ln Σ_k ψ_rk L_k of a cell to the number of every top-level cluster r.
    pub(crate) fn add_ln_sums(
        &self,
        mut numbers: Vec<f64>,
        cell: Cell<'_>,
        draw: &Draw,
        column: usize,
    ) -> Vec<f64> {
        let mut likelihoods = Vec::new();
        let ln_factor = self.likelihoods(cell, draw, column, &mut likelihoods);
        let mut ln_likelihoods = None;
        for (r, number) in numbers.iter_mut().enumerate() {
            let sum = self.sum(r, &likelihoods);
            if sum > 0.0 {
                *number = *number + ln_factor + sum.ln();
            } else {
                // Too far behind the best cluster of the column for a number.
                let ln =
                    ln_likelihoods.get_or_insert_with(|| self.ln_likelihoods(cell, draw, column));
                *number += log_sum_exp(&self.ln_weights(r, ln));
            }
        }
        numbers
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
    pub(crate) fn sum(&self, r: usize, likelihoods: &[f64]) -> f64 {
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
    let cell = Cell {
        cells,
        row,
        likelihoods: asked.likelihoods(column),
    };
    if own.weights.is_empty() {
        return top.clone();
    }
    if ignore_observed {
        likelihoods.clear();
        likelihoods.resize(own.n_clusters, 1.0);
    } else {
        own.likelihoods(cell, draw, column, likelihoods);
    }
    let mut weights = vec![0.0; own.n_clusters];
    for (r, &p) in top.iter().enumerate() {
        if p == 0.0 {
            continue;
        }
        let ln = || own.ln_likelihoods(cell, draw, column);
        for (weight, within) in weights.iter_mut().zip(own.within(r, likelihoods, ln)) {
            *weight += p * within;
        }
    }
    weights
}

/// ln density of a cell in one draw, given the probabilities of top-level clusters; of what it has beyond `seen`, which these probabilities know.
fn ln_cell(
    draw: &Draw,
    column: usize,
    asked: &RowInDraw,
    cell: Cell<'_>,
    seen: Option<Cell<'_>>,
) -> f64 {
    let own = &draw.columns[column];
    let ln_top = &asked.ln_top[own.block];
    let mut terms = own.add_ln_sums(ln_top.clone(), cell, draw, column);
    if let Some(seen) = seen {
        let given = own.add_ln_sums(vec![0.0; ln_top.len()], seen, draw, column);
        // What is impossible stays so.
        let possible = terms.iter_mut().zip(given).filter(|(t, _)| t.is_finite());
        possible.for_each(|(term, given)| *term -= given);
    }
    log_sum_exp(&terms)
}

/// Probabilities of the draws for a row.
pub(crate) fn draw_weights<'a>(
    asked: impl Iterator<Item = &'a RowInDraw>,
    training: bool,
) -> Vec<f64> {
    let mut weights: Vec<f64> = asked.map(|r| r.ln_density).collect();
    if training || !ln_normalize(&mut weights).is_finite() {
        let each = 1.0 / weights.len() as f64;
        weights.fill(each);
    }
    weights
}

fn ln_mean(ln: &[f64]) -> f64 {
    log_sum_exp(ln) - (ln.len() as f64).ln()
}
