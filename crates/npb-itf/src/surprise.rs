//! How odd single cells are: their surprisals given the rest of their rows, and what is usual of each column.

use std::collections::HashMap;
use std::ops::Range;

use npb_infer::parallel;
use npb_priors::special::log_sum_exp;

use crate::groups::changed;
use crate::kernels::{Cells, Column};
use crate::numeric::exp_rows;
use crate::predict::{Cell, ln_likelihoods_of};
use crate::{Draw, ItfError, ItfFit, ItfRows};

/// Rows that are asked about together.
const BLOCK: usize = 128;
/// Sums of products that are smaller are found by their logarithms: no factor is above 1, so that what is lost is below 1e-100 of larger ones.
const LEAST: f64 = 1e-200;
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
        Ok(self.surprisals_and_densities(rows)?.0)
    }

    /// [`surprisals`](Self::surprisals), and what [`ln_density`](Self::ln_density) says of each row, found on the way.
    ///
    /// # Errors
    /// Rows of a fit with other columns.
    pub fn surprisals_and_densities(
        &self,
        rows: &ItfRows,
    ) -> Result<(Vec<CellSurprisal>, Vec<f64>), ItfError> {
        self.check_columns_of(rows)?;
        let n_rows = rows.n_rows();
        let blocks = 0..n_rows.div_ceil(BLOCK);
        let block = |b: usize| {
            let block = RowBlock::new(self, rows, b * BLOCK..((b + 1) * BLOCK).min(n_rows));
            block.surprisals()
        };
        let (cells, densities): (Vec<_>, Vec<_>) = parallel::map(blocks, block).into_iter().unzip();
        Ok((cells.concat(), densities.concat()))
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
    /// What is alike among the cells of each column of the model.
    kinds: Vec<Kinds>,
    /// Of each column of a group the group's cells of these rows without it.
    less: Vec<Option<(Cells, Kinds)>>,
    /// Known cells: row, column.
    known: Vec<(usize, usize)>,
    /// Row by row the columns of the model that they are in, and their places in the row, by columns.
    inside: Vec<Vec<(usize, usize)>>,
}

/// Which cells are alike, so that what is asked of them is computed once.
struct Kinds {
    /// Kind of each row's cell.
    codes: Vec<u32>,
    /// A row with a cell of each kind.
    firsts: Vec<usize>,
}

impl Kinds {
    fn new(law: &Column, cells: &Cells, rows: Range<usize>) -> Self {
        let (mut seen, mut codes, mut firsts) = (HashMap::new(), Vec::new(), Vec::new());
        for row in rows.clone() {
            let Some(key) = law.cell_key(cells, row) else {
                return Self {
                    codes: (0..rows.len() as u32).collect(),
                    firsts: rows.collect(),
                };
            };
            let code = *seen.entry(key).or_insert(firsts.len() as u32);
            if code as usize == firsts.len() {
                firsts.push(row);
            }
            codes.push(code);
        }
        Self { codes, firsts }
    }
}

/// What a draw says of the cells of a column: of every kind Σ_k ψ_rk L_k for every top-level cluster r, divided by a factor.
struct Sums<'k> {
    kinds: &'k Kinds,
    n_top: usize,
    sums: Vec<f64>,
    ln_factors: Vec<f64>,
}

impl<'k> Sums<'k> {
    fn new(draw: &Draw, column: usize, cells: &Cells, kinds: &'k Kinds) -> Self {
        let own = &draw.columns[column];
        let (n, n_top) = (own.n_clusters, draw.blocks[own.block].weights.len());
        let mut likelihoods = ln_likelihoods_of(draw, column, cells, &kinds.firsts);
        let mut sums = Vec::with_capacity(kinds.firsts.len() * n_top);
        let lines = likelihoods.chunks_exact_mut(n);
        let ln_factors = lines.map(|line| {
            let ln_factor = exp_rows(line, n);
            sums.extend((0..n_top).map(|r| own.sum(r, line)));
            ln_factor
        });
        Self {
            ln_factors: ln_factors.collect(),
            kinds,
            n_top,
            sums,
        }
    }

    /// Those of a row and the logarithm of its factor.
    fn of(&self, at: usize) -> (&[f64], f64) {
        let code = self.kinds.codes[at] as usize;
        let sums = &self.sums[code * self.n_top..][..self.n_top];
        (sums, self.ln_factors[code])
    }
}

/// The known cells of a row, and the columns of the model in a block that they are in, with their places among the cells.
type Asked<'a> = (&'a [(usize, usize)], &'a [(usize, usize)]);

/// What a draw says of all cells, by columns of the model, and of groups without each of their columns.
struct OfDraw<'d> {
    draw: &'d Draw,
    whole: Vec<Sums<'d>>,
    less: Vec<Option<Sums<'d>>>,
}

/// Log densities of the rest of a row in every draw, and, where draws have seen the row, of all of it.
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

impl<'a> RowBlock<'a> {
    fn new(fit: &'a ItfFit, rows: &'a ItfRows, range: Range<usize>) -> Self {
        let these: Vec<usize> = range.clone().collect();
        let less = |place: &crate::Place| {
            let (column, part) = (place.column, place.part?);
            let law = &fit.draws()[0].columns[column].law;
            let shown = |_, other: usize, x: Option<f64>| x.filter(|_| other != part);
            let cells = changed(law, &rows.cells()[column], &these, shown);
            let kinds = Kinds::new(law, &cells, 0..these.len());
            Some((cells, kinds))
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
        let known: Vec<(usize, usize)> = all.filter(is_known).collect();
        let by_column = |cells: &[(usize, usize)]| {
            let cells = cells.iter().enumerate();
            let inside = cells.map(|(at, cell)| (fit.places()[cell.1].column, at));
            let mut inside: Vec<(usize, usize)> = inside.collect();
            inside.sort_unstable();
            inside
        };
        let laws = fit.draws()[0].columns.iter().zip(rows.cells());
        Self {
            kinds: laws
                .map(|(column, cells)| Kinds::new(&column.law, cells, range.clone()))
                .collect(),
            less: fit.places().iter().map(less).collect(),
            inside: known.chunk_by(|a, b| a.0 == b.0).map(by_column).collect(),
            known,
            fit,
            rows,
            range,
        }
    }

    /// Of all cells, and log densities of all rows.
    fn surprisals(&self) -> (Vec<CellSurprisal>, Vec<f64>) {
        let nothing = Both {
            rest: LogSum::NOTHING,
            all: LogSum::NOTHING,
        };
        let mut sums = vec![nothing; self.known.len()];
        let mut densities = vec![None; self.range.len()];
        let mut memory = Vec::new();
        for draw in self.fit.draws() {
            let draw = self.of_draw(draw);
            let mut left = &mut sums[..];
            let rows = self.known.chunk_by(|a, b| a.0 == b.0);
            for (cells, inside) in rows.zip(&self.inside) {
                let (own, others) = std::mem::take(&mut left).split_at_mut(cells.len());
                let ln_density = self.add_row(&draw, cells, inside, own, &mut memory);
                let sum = &mut densities[cells[0].0 - self.range.start];
                sum.get_or_insert(LogSum::NOTHING).add(ln_density);
                left = others;
            }
        }
        let cell = |(&(row, column), both): (&(usize, usize), Both)| {
            let all = match self.rows.training {
                true => both.all,
                false => densities[row - self.range.start].unwrap_or(LogSum::NOTHING),
            };
            let (rest, all) = (both.rest.ln(), all.ln());
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
        let ln_n = (self.fit.draws().len() as f64).ln();
        // Of a row without any known cell it is 0.
        let density = |sum: Option<LogSum>| sum.map_or(0.0, |sum| sum.ln() - ln_n);
        (
            self.known.iter().zip(sums).map(cell).collect(),
            densities.into_iter().map(density).collect(),
        )
    }

    fn of_draw<'d>(&'d self, draw: &'d Draw) -> OfDraw<'d> {
        let columns = self.rows.cells().iter().zip(&self.kinds).enumerate();
        let whole = columns.map(|(column, (cells, kinds))| Sums::new(draw, column, cells, kinds));
        let less = self.fit.places().iter().zip(&self.less);
        let less = less.map(|(place, less)| {
            let (cells, kinds) = less.as_ref()?;
            Some(Sums::new(draw, place.column, cells, kinds))
        });
        OfDraw {
            draw,
            whole: whole.collect(),
            less: less.collect(),
        }
    }

    /// Adds what a draw says about the known cells of a row, which are inside these columns of the model; returns the log density of all of them.
    fn add_row(
        &self,
        of_draw: &OfDraw<'_>,
        known: &[(usize, usize)],
        inside: &[(usize, usize)],
        sums: &mut [Both],
        memory: &mut Vec<f64>,
    ) -> f64 {
        let draw = of_draw.draw;
        let (mut totals, mut rests) = (vec![0.0; draw.blocks.len()], vec![0.0; known.len()]);
        let mut own = Vec::with_capacity(inside.len());
        for (b, total) in totals.iter_mut().enumerate() {
            own.clear();
            let in_block = |&&(column, _): &&(usize, usize)| draw.columns[column].block == b;
            own.extend(inside.iter().filter(in_block).copied());
            match self.in_numbers(of_draw, b, (known, &own), &mut rests, memory) {
                Some(ln) => *total = ln,
                None => *total = self.in_logarithms(draw, b, (known, &own), &mut rests),
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
        }
        totals.iter().sum()
    }

    /// Log density of a row's cells in a block, and of all but each of them into `rests`; `None` where numbers are too small.
    fn in_numbers(
        &self,
        of_draw: &OfDraw<'_>,
        b: usize,
        (known, inside): Asked<'_>,
        rests: &mut [f64],
        memory: &mut Vec<f64>,
    ) -> Option<f64> {
        let weights = &of_draw.draw.blocks[b].weights;
        let (n, at) = (weights.len(), known[0].0 - self.range.start);
        let columns = || inside.chunk_by(|a, b| a.0 == b.0);
        // Products of the weights and of the sums of all columns before each; then those of the columns after it.
        memory.clear();
        memory.extend_from_slice(weights);
        let mut ln_all = 0.0;
        for column in columns() {
            let (sums, ln_factor) = of_draw.whole[column[0].0].of(at);
            ln_all += ln_factor;
            let first = memory.len() - n;
            for (r, sum) in sums.iter().enumerate() {
                memory.push(memory[first + r] * sum);
            }
        }
        let whole: f64 = memory[memory.len() - n..].iter().sum();
        let of_least = memory.len();
        memory.resize(of_least + n, 1.0);
        let (before, after) = memory.split_at_mut(of_least);
        for (before, column) in before.chunks_exact(n).rev().skip(1).zip(columns().rev()) {
            let (sums, ln_factor) = of_draw.whole[column[0].0].of(at);
            for &(_, place) in column {
                let products = before.iter().zip(after.iter()).map(|(x, y)| x * y);
                let (rest, ln): (f64, f64) = match &of_draw.less[known[place].1] {
                    None => (products.sum(), 0.0),
                    Some(less) => {
                        let (sums, ln) = less.of(at);
                        (products.zip(sums).map(|(x, y)| x * y).sum(), ln)
                    }
                };
                if rest < LEAST {
                    return None;
                }
                rests[place] = rest.ln() + (ln_all - ln_factor) + ln;
            }
            after.iter_mut().zip(sums).for_each(|(x, sum)| *x *= sum);
        }
        (whole >= LEAST).then(|| whole.ln() + ln_all)
    }

    /// The same whatever the numbers.
    fn in_logarithms(
        &self,
        draw: &Draw,
        b: usize,
        (known, inside): Asked<'_>,
        rests: &mut [f64],
    ) -> f64 {
        let row = known[0].0;
        let columns = || inside.chunk_by(|a, b| a.0 == b.0);
        let of_column = |column: &[(usize, usize)]| {
            let column = column[0].0;
            self.ln_sums(draw, column, (&self.rows.cells()[column], row))
        };
        let of_columns: Vec<Vec<f64>> = columns().map(of_column).collect();
        let weights = draw.blocks[b].weights.iter().map(|w| w.ln()).collect();
        let (without, with) = without_each(weights, &of_columns);
        for (column, without) in columns().zip(&without) {
            for &(column, place) in column {
                rests[place] = match &self.less[known[place].1] {
                    None => log_sum_exp(without),
                    Some((cells, _)) => {
                        let less = self.ln_sums(draw, column, (cells, row - self.range.start));
                        log_sum_exp(&plus(without, &less))
                    }
                };
            }
        }
        log_sum_exp(&with)
    }

    /// ln Σ_k ψ_rk L_k of a cell for every top-level cluster r.
    fn ln_sums(&self, draw: &Draw, column: usize, (cells, row): (&Cells, usize)) -> Vec<f64> {
        let own = &draw.columns[column];
        let cell = Cell {
            cells,
            row,
            likelihoods: None,
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
