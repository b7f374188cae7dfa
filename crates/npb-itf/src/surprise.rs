//! How odd single cells are: their surprisals given the rest of their rows, and what is usual of each column.

use std::ops::Range;

use npb_infer::parallel;
use npb_priors::special::log_sum_exp;

use crate::groups::changed;
use crate::kernels::Cells;
use crate::predict::{Cell, costly_ln_likelihoods};
use crate::{Draw, ItfError, ItfFit, ItfRows};

/// Rows that are asked about together.
const BLOCK: usize = 64;
/// Simulated rows behind what is usual of each column.
const SIMULATED: usize = 400;

/// How odd a known cell is given the rest of its row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellSurprisal {
    /// 0-based row.
    pub row: usize,
    /// Position of the column.
    pub column: usize,
    /// −ln of the probability of a level or count, or of the density of a number in the units of the file; in nats.
    pub surprisal: f64,
}

impl ItfFit {
    /// Surprisals of all known cells, each given the other known cells of its row: −[`ln_conditional`](Self::ln_conditional) of every column, for the cost of
    /// little more than one [`ln_density`](Self::ln_density). Row by row.
    ///
    /// Those of numbers depend on their units. What compares columns is the surprisal less what is [usual](Self::usual_surprisals) of the column: 0 for a
    /// cell as they mostly are, and the higher the odder.
    ///
    /// ```
    /// use npb_itf::npb_data::{MixedColumn, MixedTable};
    /// use npb_itf::npb_infer::SweepPlan;
    /// use npb_itf::{ItfConfig, fit};
    ///
    /// // y goes with x, but for the last row.
    /// let n = 80;
    /// let x = MixedColumn::Real((0..n).map(|i| Some(f64::from(i % 2) * 9.0 + f64::from(i % 5))).collect());
    /// let levels = ["low".into(), "high".into()];
    /// let y = MixedColumn::Binary { levels, values: (0..n).map(|i| Some((i % 2 == 1) != (i == n - 1))).collect() };
    /// let table = MixedTable::new(vec!["x".into(), "y".into()], vec![x, y])?;
    /// let config = ItfConfig { chains: 1, sweeps: SweepPlan { burn_in: 50, keep: 20, thin: 1 }, ..ItfConfig::default() };
    /// let model = fit(&table, &config)?;
    ///
    /// let rows = model.rows(&table)?;
    /// let usual = model.usual_surprisals(&rows)?;
    /// let cells = model.surprisals(&rows)?;
    /// let excess = |cell: &&npb_itf::CellSurprisal| cell.surprisal - usual[cell.column];
    /// let oddest = cells.iter().max_by(|a, b| excess(a).total_cmp(&excess(b))).unwrap();
    /// assert_eq!(oddest.row, 79);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Rows of a fit with other columns.
    pub fn surprisals(&self, rows: &ItfRows) -> Result<Vec<CellSurprisal>, ItfError> {
        self.check_columns_of(rows)?;
        let n_rows = rows.n_rows();
        let blocks = 0..n_rows.div_ceil(BLOCK);
        let block = |b: usize| {
            let block = RowBlock::new(self, rows, b * BLOCK..((b + 1) * BLOCK).min(n_rows));
            block.surprisals()
        };
        Ok(parallel::map(blocks, block).concat())
    }

    /// What is usual of each column: the mean surprisal of its cells in 400 rows that the fit simulates, which is its entropy given all other columns. It
    /// depends on the fit alone. NaN for columns without any value in training.
    ///
    /// `like`: rows of the fit's columns, which say how many parts cells have; there must be one.
    ///
    /// # Errors
    /// No rows, or rows of a fit with other columns; columns whose rows depend on each other (networks).
    pub fn usual_surprisals(&self, like: &ItfRows) -> Result<Vec<f64>, ItfError> {
        let rows = self.simulated_rows(like, SIMULATED)?;
        let (mut sums, mut counts) = (
            vec![0.0; self.columns().len()],
            vec![0.0; self.columns().len()],
        );
        for cell in self.surprisals(&rows)? {
            sums[cell.column] += cell.surprisal;
            counts[cell.column] += 1.0;
        }
        Ok(sums.iter().zip(counts).map(|(sum, n)| sum / n).collect())
    }

    /// So many new rows from the posterior predictive; cells that their kernels cannot hold (numbers that overflow) are missing.
    fn simulated_rows(&self, like: &ItfRows, n: usize) -> Result<ItfRows, ItfError> {
        self.check_columns_of(like)?;
        if like.n_rows() == 0 {
            return Err(ItfError::NoRows);
        }
        let laws = || self.draws()[0].columns.iter().map(|column| &column.law);
        let n_parts: Vec<usize> = laws()
            .zip(like.cells())
            .map(|(law, cells)| law.n_parts(cells, 0))
            .collect();
        let mut parts: Vec<Vec<Vec<Option<f64>>>> = n_parts
            .iter()
            .map(|&parts| vec![vec![None; parts]; n])
            .collect();
        for drawn in self.impute_cell_draws(&self.rows_of_parts(&parts)?, 1)? {
            let place = self.places()[drawn.column];
            let row = &mut parts[place.column][drawn.row];
            let first = place.part.unwrap_or(0);
            let values = drawn.draws[0].iter().map(|&x| Some(x));
            row[first..]
                .iter_mut()
                .zip(values)
                .for_each(|(part, x)| *part = x);
        }
        for (law, rows) in laws().zip(&mut parts) {
            let unreadable = |row: &&mut Vec<_>| law.read(std::slice::from_ref(&**row)).is_err();
            rows.iter_mut()
                .filter(unreadable)
                .for_each(|row| row.fill(None));
        }
        self.rows_of_parts(&parts)
    }
}

/// Some rows, and what they have in every group of columns without one of them.
struct RowBlock<'a> {
    fit: &'a ItfFit,
    rows: &'a ItfRows,
    range: Range<usize>,
    /// Of each column of a group the group's cells of these rows without it.
    less: Vec<Option<Cells>>,
    /// Known cells: row, column.
    known: Vec<(usize, usize)>,
}

/// Log densities of the rest of a row, and of all of it, in every draw.
#[derive(Clone, Copy)]
struct Both {
    rest: LogSum,
    all: LogSum,
}

/// The logarithm of a sum of numbers known by their logarithms.
#[derive(Clone, Copy)]
struct LogSum {
    largest: f64,
    /// The sum in units of the largest.
    sum: f64,
}

impl LogSum {
    const NOTHING: Self = Self {
        largest: f64::NEG_INFINITY,
        sum: 0.0,
    };

    fn add(&mut self, ln: f64) {
        if ln > self.largest {
            self.sum = self.sum * (self.largest - ln).exp() + 1.0;
            self.largest = ln;
        } else if ln > f64::NEG_INFINITY {
            self.sum += (ln - self.largest).exp();
        }
    }

    fn ln(self) -> f64 {
        self.largest + self.sum.ln()
    }
}

/// Log likelihoods of the cells of some rows in one draw, where they are computed for all these rows at once; else empty.
struct OfColumns {
    whole: Vec<Vec<f64>>,
    less: Vec<Vec<f64>>,
}

impl<'a> RowBlock<'a> {
    fn new(fit: &'a ItfFit, rows: &'a ItfRows, range: Range<usize>) -> Self {
        let these: Vec<usize> = range.clone().collect();
        let less = |place: &crate::Place| {
            let (column, part) = (place.column, place.part?);
            let law = &fit.draws()[0].columns[column].law;
            let shown = |_, other: usize, x: Option<f64>| x.filter(|_| other != part);
            Some(changed(law, &rows.cells()[column], &these, shown))
        };
        let is_known = |&(row, j): &(usize, usize)| {
            let (place, law) = (fit.places()[j], fit.law(j));
            let cells = &rows.cells()[place.column];
            match place.part {
                None => law.is_observed(cells, row),
                Some(part) => law.part(cells, row, part).value().is_some(),
            }
        };
        let n_columns = fit.places().len();
        let all = range
            .clone()
            .flat_map(|row| (0..n_columns).map(move |j| (row, j)));
        Self {
            less: fit.places().iter().map(less).collect(),
            known: all.filter(is_known).collect(),
            fit,
            rows,
            range,
        }
    }

    fn surprisals(&self) -> Vec<CellSurprisal> {
        let nothing = Both {
            rest: LogSum::NOTHING,
            all: LogSum::NOTHING,
        };
        let mut sums = vec![nothing; self.known.len()];
        for draw in self.fit.draws() {
            let of_columns = self.costly(draw);
            let mut left = &mut sums[..];
            for cells in self.known.chunk_by(|a, b| a.0 == b.0) {
                let (own, others) = std::mem::take(&mut left).split_at_mut(cells.len());
                self.add_row(draw, cells, &of_columns, own);
                left = others;
            }
        }
        let cell = |(&(row, column), both): (&(usize, usize), Both)| {
            let (rest, all) = (both.rest.ln(), both.all.ln());
            // What is impossible even without the cell says nothing of it, but that it is odd.
            let surprisal = if all == f64::NEG_INFINITY {
                f64::INFINITY
            } else {
                rest - all
            };
            CellSurprisal {
                row,
                column,
                surprisal,
            }
        };
        self.known.iter().zip(sums).map(cell).collect()
    }

    fn costly(&self, draw: &Draw) -> OfColumns {
        let whole = draw.columns.iter().zip(self.rows.cells());
        let whole =
            whole.map(|(column, cells)| costly_ln_likelihoods(column, cells, self.range.clone()));
        let less = self
            .fit
            .places()
            .iter()
            .zip(&self.less)
            .map(|(place, less)| match less {
                Some(cells) => {
                    costly_ln_likelihoods(&draw.columns[place.column], cells, 0..self.range.len())
                }
                None => Vec::new(),
            });
        OfColumns {
            whole: whole.collect(),
            less: less.collect(),
        }
    }

    /// Adds what a draw says about the known cells of a row.
    fn add_row(
        &self,
        draw: &Draw,
        known: &[(usize, usize)],
        costly: &OfColumns,
        sums: &mut [Both],
    ) {
        let row = known[0].0;
        let (mut totals, mut rests) = (vec![0.0; draw.blocks.len()], vec![0.0; known.len()]);
        for (b, block) in draw.blocks.iter().enumerate() {
            let places = |j: usize| self.fit.places()[j].column;
            let mut inside: Vec<usize> = known.iter().map(|cell| places(cell.1)).collect();
            inside.sort_unstable();
            inside.dedup();
            inside.retain(|&column| draw.columns[column].block == b);
            let of_column = |&column: &usize| {
                let cells = &self.rows.cells()[column];
                let ln = self.of_row(&costly.whole[column], draw, column, row);
                self.ln_sums(draw, column, (cells, row, ln))
            };
            let of_columns: Vec<Vec<f64>> = inside.iter().map(of_column).collect();
            let weights = block.weights.iter().map(|w| w.ln()).collect();
            let (without, with) = without_each(weights, &of_columns);
            totals[b] = log_sum_exp(&with);
            for (&(_, j), rest) in known.iter().zip(&mut rests) {
                let Some(at) = inside.iter().position(|&column| column == places(j)) else {
                    continue;
                };
                *rest = match &self.less[j] {
                    None => log_sum_exp(&without[at]),
                    Some(cells) => {
                        let ln = self.of_row(&costly.less[j], draw, places(j), row);
                        let here = (cells, row - self.range.start, ln);
                        let less = self.ln_sums(draw, places(j), here);
                        log_sum_exp(&plus(&without[at], &less))
                    }
                };
            }
        }
        for ((&(_, j), rest), sums) in known.iter().zip(rests).zip(sums) {
            let own = draw.columns[self.fit.places()[j].column].block;
            if self.rows.training {
                // Draws that have seen the row count alike.
                sums.rest.add(0.0);
                sums.all.add(totals[own] - rest);
                continue;
            }
            let others = (0..totals.len()).filter(|&b| b != own);
            let others: f64 = others.map(|b| totals[b]).sum();
            sums.rest.add(others + rest);
            sums.all.add(others + totals[own]);
        }
    }

    /// Of log likelihoods of all these rows those of one.
    fn of_row<'l>(&self, ln: &'l [f64], draw: &Draw, column: usize, row: usize) -> &'l [f64] {
        let n = draw.columns[column].n_clusters;
        let first = (row - self.range.start) * n;
        ln.get(first..first + n).unwrap_or(&[])
    }

    /// ln Σ_k ψ_rk L_k of a cell for every top-level cluster r.
    fn ln_sums(
        &self,
        draw: &Draw,
        column: usize,
        (cells, row, ln): (&Cells, usize, &[f64]),
    ) -> Vec<f64> {
        let own = &draw.columns[column];
        let cell = Cell {
            cells,
            row,
            likelihoods: Some(ln),
        };
        let zeros = vec![0.0; draw.blocks[own.block].weights.len()];
        own.add_ln_sums(zeros, cell, draw, column)
    }
}

fn plus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// The sums of some logarithms of weights and of all terms but one, for each of these, and of all; without differences, as terms may be −∞.
fn without_each(weights: Vec<f64>, terms: &[Vec<f64>]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut all = weights;
    let mut without = Vec::with_capacity(terms.len());
    for term in terms {
        let with = plus(&all, term);
        without.push(std::mem::replace(&mut all, with));
    }
    let mut after = vec![0.0; all.len()];
    for (without, term) in without.iter_mut().zip(terms).rev() {
        *without = plus(without, &after);
        after = plus(&after, term);
    }
    (without, all)
}
