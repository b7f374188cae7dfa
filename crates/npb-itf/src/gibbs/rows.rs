//! Labels of rows at both levels, given sticks and parameters: rows in parallel, without truncation (`docs/itf.md#rows`).
//!
//! Given slice variables only labels with ξ > u are possible, and weights are divided by ξ there. ξ does not depend on labels, and is 1 below K, the
//! number of sticks after which less than a small mass is left: nearly all rows see exactly K labels, a few see one or two more, and the law of
//! the labels is that of the infinite model, whatever η and K are (K depends on nothing but the sticks, which are held fixed).

use std::collections::HashMap;
use std::ops::Range;

use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::dist::pick;
use npb_priors::special::{ln_normalize, log_sum_exp};
use rand::RngExt;

use crate::collapsed::{self, cross_counts};
use crate::kernel::RowLabels;
use crate::kernels::{Cells, Column};
use crate::numeric::largest;
use crate::state::ColumnState;
use crate::sticks::Sticks;

/// η: smaller by far than what is beyond K of most rows, so that labels there are taken as often as they would be with a larger one.
const EDGE: f64 = 2e-4;
/// Mass that may be left beyond K.
const TAIL: f64 = 1e-3;
/// K grows no further than this; then more rows look beyond it.
const MAX_STICKS: usize = 512;
/// Logarithm of the largest weight of a label beyond K.
const MAX_LN: f64 = 600.0;
/// Labels are added in groups of this many, so that loops over them fill vector registers.
const LANES: usize = 4;
/// A column has kinds of cells when there are so many rows for each.
const ROWS_OF_A_KIND: usize = 8;
/// Sums up to each label are stored when there are so many rows for each kind and top-level cluster.
const ROWS_OF_A_SUM: usize = 2;
/// Rows of one unit of work.
const CHUNK: usize = 64;

/// Which labels are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Levels {
    Both,
    /// Top labels stay.
    Lower,
}

/// A cell that may take labels from K on: `extra` of them.
#[derive(Clone, Copy, Debug)]
struct SliceOverflow {
    row: u32,
    /// 0 for the top label, then the columns of the block.
    level: u32,
    extra: u32,
}

/// The sticks of one column in all top-level clusters.
#[derive(Clone, Debug, Default)]
struct Lower {
    /// K.
    n: usize,
    /// With what flagged rows need; both are multiples of [`LANES`].
    n_all: usize,
    /// `psi[k * n_top_all + r]`.
    psi: Vec<f64>,
    /// `psi_by_top[r * n_all + k]`.
    psi_by_top: Vec<f64>,
    sticks: Vec<Sticks>,
}

/// Which cells of a column are alike, for columns of few different ones: all that rows ask of such a cell is computed once for all of
/// its kind.
#[derive(Clone, Debug)]
pub(super) struct DistinctCells {
    /// Kind of every row's cell.
    codes: Vec<u32>,
    /// A row with a cell of each kind.
    firsts: Vec<u32>,
}

impl DistinctCells {
    /// `None` when there are too many for a table to pay, or when cells have no kinds.
    pub(super) fn new(law: &Column, cells: &Cells) -> Option<Self> {
        let n_rows = law.n_rows(cells);
        let most = n_rows / ROWS_OF_A_KIND;
        let mut seen = HashMap::new();
        let (mut codes, mut firsts) = (Vec::with_capacity(n_rows), Vec::new());
        for row in 0..n_rows {
            let key = law.cell_key(cells, row)?;
            let code = *seen.entry(key).or_insert(firsts.len() as u32);
            if code as usize == firsts.len() {
                firsts.push(row as u32);
                if firsts.len() > most {
                    return None;
                }
            }
            codes.push(code);
        }
        Some(Self { codes, firsts })
    }
}

/// Likelihoods of the cells of a column, in all K labels and summed over them in all top-level clusters.
#[derive(Clone, Debug, Default)]
struct Table {
    /// `likelihoods[code * K + k]`, each kind divided by a factor.
    likelihoods: Vec<f64>,
    /// Logarithms of the factors.
    ln_factors: Vec<f64>,
    /// Whether any of them is not 0.
    is_scaled: bool,
    /// `sums[code * n_top + r]` = Σ_k ψ_rk likelihood; with one level a copy of the likelihoods.
    sums: Vec<f64>,
    /// `up_to[(code * n_top + r) * K + k]` = Σ_{l <= k} ψ_rl likelihood, where there are rows enough for it to pay; else empty.
    up_to: Vec<f64>,
}

impl Table {
    /// `n`: K. `lower`: sticks, `None` with one level.
    fn fill(
        &mut self,
        kinds: &DistinctCells,
        (law, cells): (&Column, &Cells),
        n: usize,
        n_top: usize,
        lower: Option<&Lower>,
    ) {
        let n_kinds = kinds.firsts.len();
        self.likelihoods.resize(n_kinds * n, 0.0);
        self.sums.resize(n_kinds * n_top, 0.0);
        self.ln_factors.clear();
        self.up_to.clear();
        self.is_scaled = false;
        let pays = n_kinds * n_top * ROWS_OF_A_SUM <= kinds.codes.len();
        let lines = self.likelihoods.chunks_exact_mut(n);
        for ((&first, line), sums) in
            (kinds.firsts.iter().zip(lines)).zip(self.sums.chunks_exact_mut(n_top))
        {
            let rows = first as usize..first as usize + 1;
            let ln_factor = law.likelihoods(cells, rows, n, RowLabels::NONE, line);
            self.ln_factors.push(ln_factor);
            self.is_scaled |= ln_factor != 0.0;
            match lower {
                None => sums.copy_from_slice(line),
                Some(lower) => {
                    lower.all_sums(n_top, line, sums);
                    if pays {
                        (0..n_top).for_each(|r| lower.push_up_to(r, line, &mut self.up_to));
                    }
                }
            }
        }
    }
}

/// Memory of the move, kept from sweep to sweep.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    top: Sticks,
    lower: Vec<Lower>,
    tables: Vec<Table>,
    overflows: Vec<SliceOverflow>,
    /// Chunk by chunk the labels of its rows, those of the top level first, then column by column.
    labels: Vec<u32>,
    /// Log likelihood of every chunk.
    ln_likelihoods: Vec<f64>,
}

/// Buffers of one thread.
#[derive(Default)]
struct Buffers {
    /// Likelihoods of a chunk, column by column.
    likelihoods: Vec<f64>,
    one: Vec<f64>,
    /// `weights[row * R + r]`.
    weights: Vec<f64>,
    /// Log likelihoods of the rows of a chunk.
    ln_rows: Vec<f64>,
}

/// Keys of the random numbers of one application of the move.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) seed: u64,
    pub(super) chain: u64,
    pub(super) sweep: u64,
    /// Position of the move in the sweep, and the block.
    pub(super) block: u64,
}

impl Key {
    fn stream(self, kind: u64, item: u64) -> Xoshiro256PlusPlus {
        stream(
            self.seed,
            [self.chain, self.sweep, 4 * self.block + kind, item],
        )
    }
}

/// What all rows of a block share.
struct Block<'a> {
    levels: Levels,
    top: &'a [f64],
    /// R: of these, rows that are not flagged see so many.
    n_top: usize,
    lower: &'a [Lower],
    columns: &'a [&'a mut ColumnState],
    cells: &'a [&'a Cells],
    kinds: &'a [Option<&'a DistinctCells>],
    /// One for every column; empty for one without kinds.
    tables: &'a [Table],
    top_labels: &'a [u32],
}

/// Makes concentrations of a column's top-level clusters up to so many.
pub(super) type Grow<'a> = dyn FnMut(&mut ColumnState, usize, &mut Xoshiro256PlusPlus) + 'a;

/// The labels of one block that are to be drawn.
pub(super) struct BlockLabels<'a, 'c> {
    pub(super) levels: Levels,
    pub(super) two_levels: bool,
    pub(super) alpha: f64,
    pub(super) top_labels: &'a mut [u32],
    /// Those of the block.
    pub(super) columns: &'a mut [&'c mut ColumnState],
    pub(super) cells: &'a [&'a Cells],
    /// What is alike among the cells of each column.
    pub(super) kinds: &'a [Option<&'a DistinctCells>],
    pub(super) key: Key,
}

impl BlockLabels<'_, '_> {
    /// Draws new labels and returns the log likelihood of the rows given sticks and parameters, labels summed out.
    pub(super) fn update(mut self, grow: &mut Grow<'_>, scratch: &mut Scratch) -> f64 {
        let n_top = self.draw_sticks(grow, scratch);
        self.fill_tables(n_top, scratch);
        let ln_likelihood = self.draw_rows(n_top, scratch);
        let (width, size) = (self.width(), self.rows_of_chunk());
        for (chunk, new) in scratch.labels.chunks(size * width).enumerate() {
            let mut levels = new.chunks_exact(new.len() / width);
            let rows = chunk * size..chunk * size + new.len() / width;
            let lower = self.columns.iter_mut().map(|column| &mut column.labels[..]);
            for labels in std::iter::once(&mut *self.top_labels).chain(lower) {
                let Some(new) = levels.next() else { break };
                labels[rows.clone()].copy_from_slice(new);
            }
        }
        ln_likelihood
    }

    /// Rows whose labels are drawn together: one where they depend on each other.
    fn rows_of_chunk(&self) -> usize {
        match self.columns.iter().any(|column| column.law.is_coupled()) {
            true => 1,
            false => CHUNK,
        }
    }

    /// Labels of a row.
    fn width(&self) -> usize {
        1 + if self.two_levels {
            self.columns.len()
        } else {
            0
        }
    }

    /// Draws all sticks that rows may look at, their slice variables, and parameters for new labels; returns K of the top level.
    fn draw_sticks(&mut self, grow: &mut Grow<'_>, scratch: &mut Scratch) -> usize {
        let Scratch {
            top,
            lower,
            overflows,
            ..
        } = scratch;
        let (rng, alpha) = (&mut self.key.stream(0, 0), self.alpha);
        overflows.clear();
        top.draw(&collapsed::counts(self.top_labels), alpha, rng);
        // From the sticks alone, not from the labels: see above.
        let mut n_top = 0;
        while n_top == 0 || (top.rest(n_top) > TAIL && n_top < MAX_STICKS) {
            n_top += LANES;
            top.extend_to(n_top, alpha, rng);
        }
        let extra = match self.levels {
            Levels::Both => overflow(self.top_labels, n_top, 0, overflows, rng),
            Levels::Lower => 0,
        };
        let n_top_all = rounded(n_top + extra).max(rounded(collapsed::n_labels(self.top_labels)));
        top.extend_to(n_top_all, alpha, rng);
        // Memory of other blocks is kept.
        let n_lower = self.width() - 1;
        lower.resize_with(n_lower.max(lower.len()), Lower::default);
        for (j, lower) in lower[..n_lower].iter_mut().enumerate() {
            let column = &mut *self.columns[j];
            grow(column, n_top_all, rng);
            lower.draw(column, self.top_labels, top, n_top, n_top_all, rng);
            let extra = overflow(&column.labels, lower.n, 1 + j as u32, overflows, rng);
            lower.n_all = rounded(lower.n + extra);
            lower.lay_out(column, rng);
        }
        for (j, column) in self.columns.iter_mut().enumerate() {
            let needed = lower.get(j).map_or(n_top_all, |lower| lower.n_all);
            column.law.grow(needed, &mut self.key.stream(1, j as u64));
        }
        overflows.sort_unstable_by_key(|overflow| (overflow.row, overflow.level));
        n_top
    }

    fn fill_tables(&self, n_top: usize, scratch: &mut Scratch) {
        let tables = &mut scratch.tables;
        tables.resize_with(self.columns.len().max(tables.len()), Table::default);
        for (j, column) in self.columns.iter().enumerate() {
            if let Some(kinds) = self.kinds[j] {
                let lower = scratch.lower.get(j);
                let n = lower.map_or(n_top, |lower| lower.n);
                tables[j].fill(kinds, (&column.law, self.cells[j]), n, n_top, lower);
            }
        }
    }

    /// Writes new labels of all rows; returns their log likelihood.
    fn draw_rows(&self, n_top: usize, scratch: &mut Scratch) -> f64 {
        let Scratch {
            top,
            lower,
            tables,
            overflows,
            labels: new,
            ln_likelihoods,
            ..
        } = scratch;
        let (n_rows, width) = (self.top_labels.len(), self.width());
        new.resize(n_rows * width, 0);
        let block = Block {
            levels: self.levels,
            top: &top.weights,
            n_top,
            lower: &lower[..width - 1],
            columns: self.columns,
            cells: self.cells,
            kinds: self.kinds,
            tables,
            top_labels: self.top_labels,
        };
        if self.rows_of_chunk() == 1 {
            return block.one_by_one(overflows, width, new, &mut self.key.stream(2, 0));
        }
        ln_likelihoods.resize(n_rows.div_ceil(CHUNK), 0.0);
        block.in_chunks(overflows, width, new, ln_likelihoods, self.key)
    }
}

/// The smallest multiple of [`LANES`] that is at least `n` and 1.
fn rounded(n: usize) -> usize {
    n.max(1).next_multiple_of(LANES)
}

/// Draws the slice variables of one level as far as they matter: records the cells that see labels from `n` on, and returns
/// the largest number of such labels.
fn overflow(
    labels: &[u32],
    n: usize,
    level: u32,
    overflows: &mut Vec<SliceOverflow>,
    rng: &mut Xoshiro256PlusPlus,
) -> usize {
    // u < η for a label below n: such cells are found by jumps of geometric length.
    let ln_miss = (-EDGE).ln_1p();
    let jump = |rng: &mut Xoshiro256PlusPlus| {
        let uniform: f64 = 1.0 - rng.random::<f64>();
        (uniform.ln() / ln_miss) as usize
    };
    let is_beyond = |&label: &u32| label as usize >= n;
    let any_beyond = collapsed::n_labels(labels) > n;
    let (mut largest, mut next, mut chosen) = (0, 0, jump(rng));
    while next < labels.len() {
        let beyond = any_beyond.then(|| labels[next..].iter().position(is_beyond));
        let row = (beyond.flatten()).map_or(chosen, |after| chosen.min(next + after));
        let Some(&label) = labels.get(row) else {
            break;
        };
        next = row + 1;
        if row == chosen {
            chosen = next.saturating_add(jump(rng));
        }
        let at_least = 1 + label.saturating_sub(n as u32);
        // ξ is halved from label to label: each further one is seen with probability 1/2.
        let extra = at_least + rng.random::<u64>().trailing_zeros();
        overflows.push(SliceOverflow {
            row: row as u32,
            level,
            extra,
        });
        largest = largest.max(extra as usize);
    }
    largest
}

impl Lower {
    /// Draws the sticks of all top-level clusters given labels, up to K.
    #[allow(clippy::too_many_arguments)] // the parts of one state
    fn draw(
        &mut self,
        column: &ColumnState,
        top_labels: &[u32],
        top: &Sticks,
        n_top: usize,
        n_top_all: usize,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let n_labels = collapsed::n_labels(&column.labels);
        let counts = cross_counts(top_labels, &column.labels, n_top_all, n_labels);
        self.sticks.resize_with(n_top_all, Sticks::default);
        for (r, sticks) in self.sticks.iter_mut().enumerate() {
            let counts = &counts[r * n_labels..][..n_labels];
            sticks.draw(counts, column.concentration(r), rng);
        }
        let left = |sticks: &[Sticks], n: usize| -> f64 {
            let pairs = sticks[..n_top].iter().zip(&top.weights);
            pairs.map(|(sticks, weight)| weight * sticks.rest(n)).sum()
        };
        self.n = 0;
        while self.n == 0 || (left(&self.sticks, self.n) > TAIL && self.n < MAX_STICKS) {
            self.n += LANES;
            for (r, sticks) in self.sticks.iter_mut().enumerate() {
                sticks.extend_to(self.n, column.concentration(r), rng);
            }
        }
    }

    /// Extends the sticks to all that are needed and writes them side by side.
    fn lay_out(&mut self, column: &ColumnState, rng: &mut Xoshiro256PlusPlus) {
        let n_top = self.sticks.len();
        self.psi.clear();
        self.psi.resize(self.n_all * n_top, 0.0);
        self.psi_by_top.clear();
        for (r, sticks) in self.sticks.iter_mut().enumerate() {
            sticks.extend_to(self.n_all, column.concentration(r), rng);
            self.psi_by_top
                .extend_from_slice(&sticks.weights[..self.n_all]);
            for (k, &weight) in sticks.weights[..self.n_all].iter().enumerate() {
                self.psi[k * n_top + r] = weight;
            }
        }
    }
}

/// Labels of coupled columns while rows are drawn one after the other.
struct Running {
    labels: Vec<u32>,
    counts: Vec<usize>,
}

impl Block<'_> {
    /// How many labels rows that are not flagged see in a column.
    fn n_labels(&self, j: usize) -> usize {
        self.lower.get(j).map_or(self.n_top, |lower| lower.n)
    }

    /// All labels with parameters in a column.
    fn n_labels_all(&self, j: usize) -> usize {
        self.lower
            .get(j)
            .map_or(self.top.len(), |lower| lower.n_all)
    }

    /// Draws the labels of all rows, chunks of them in parallel, each by a stream of its own.
    fn in_chunks(
        &self,
        overflows: &[SliceOverflow],
        width: usize,
        new: &mut [u32],
        ln_likelihoods: &mut [f64],
        key: Key,
    ) -> f64 {
        let chunk_key = |chunk: usize| key.stream(2, chunk as u64);
        let chunks = new.chunks_mut(CHUNK * width).zip(ln_likelihoods.iter_mut());
        parallel::for_each_with(
            chunks.enumerate(),
            Buffers::default,
            |buffers, (chunk, (out, ln_likelihood))| {
                let start = chunk * CHUNK;
                let rows = start..start + out.len() / width;
                *ln_likelihood =
                    self.draw_rows(rows, overflows, None, &mut chunk_key(chunk), buffers, out);
            },
        );
        ln_likelihoods.iter().sum()
    }

    /// Rows one after the other, each seeing the new labels of those before it.
    fn one_by_one(
        &self,
        overflows: &[SliceOverflow],
        width: usize,
        out: &mut [u32],
        rng: &mut Xoshiro256PlusPlus,
    ) -> f64 {
        let running = |(j, column): (usize, &&mut ColumnState)| {
            column.law.is_coupled().then(|| {
                let labels = if self.lower.is_empty() {
                    self.top_labels.to_vec()
                } else {
                    column.labels.clone()
                };
                let mut counts = vec![0; self.n_labels_all(j)];
                labels.iter().for_each(|&k| counts[k as usize] += 1);
                Running { labels, counts }
            })
        };
        let mut running: Vec<Option<Running>> =
            self.columns.iter().enumerate().map(running).collect();
        let mut buffers = Buffers::default();
        let mut ln_likelihood = 0.0;
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            let rows = row..row + 1;
            ln_likelihood +=
                self.draw_rows(rows, overflows, Some(&running), rng, &mut buffers, out);
            for (j, running) in running.iter_mut().enumerate() {
                let label = if self.lower.is_empty() {
                    out[0]
                } else {
                    out[1 + j]
                };
                if let Some(Running { labels, counts }) = running {
                    counts[labels[row] as usize] -= 1;
                    counts[label as usize] += 1;
                    labels[row] = label;
                }
            }
        }
        ln_likelihood
    }

    /// Draws the labels of `rows` into `out` and returns their log likelihood.
    fn draw_rows(
        &self,
        rows: Range<usize>,
        overflows: &[SliceOverflow],
        running: Option<&[Option<Running>]>,
        rng: &mut Xoshiro256PlusPlus,
        buffers: &mut Buffers,
        out: &mut [u32],
    ) -> f64 {
        let ln_factor = self.fill(rows.clone(), running, &mut buffers.likelihoods);
        let Buffers {
            likelihoods,
            one,
            weights,
            ln_rows,
        } = buffers;
        let n = rows.len();
        weights.resize(n * self.n_top, 0.0);
        ln_rows.clear();
        ln_rows.resize(n, 0.0);
        let lost = pulp::Arch::new().dispatch(DrawChunk {
            block: self,
            rows: rows.clone(),
            likelihoods,
            weights,
            ln_rows,
            rng,
            out,
        });

        let mut plain = lost;
        let flagged = of_rows(overflows, &rows)
            .iter()
            .map(|overflow| overflow.row as usize);
        flagged.for_each(|row| plain |= 1 << (row - rows.start));
        while plain > 0 {
            let at = plain.trailing_zeros() as usize;
            plain &= plain - 1;
            let (row, out) = (rows.start + at, &mut out[at..]);
            let own = of_rows(overflows, &(row..row + 1));
            let ln_row = self.draw_flagged(row, own, running, rng, one, (out, n));
            if ln_row.is_finite() {
                ln_rows[at] = ln_row;
            }
        }
        ln_factor + ln_rows.iter().sum::<f64>()
    }

    /// Likelihoods of rows in columns without kinds, column by column; returns the sum of the logarithms of their factors.
    fn fill(
        &self,
        rows: Range<usize>,
        running: Option<&[Option<Running>]>,
        likelihoods: &mut Vec<f64>,
    ) -> f64 {
        let n = rows.len();
        let without_kinds = || (0..self.columns.len()).filter(|&j| self.kinds[j].is_none());
        let total: usize = without_kinds().map(|j| self.n_labels(j) * n).sum();
        likelihoods.resize(total, 0.0);
        let mut ln_factor = 0.0;
        let mut rest = &mut likelihoods[..];
        for j in without_kinds() {
            let (law, k) = (&self.columns[j].law, self.n_labels(j));
            let (these, after) = rest.split_at_mut(n * k);
            let others = others(running, j);
            ln_factor += law.likelihoods(self.cells[j], rows.clone(), k, others, these);
            rest = after;
        }
        ln_factor
    }

    /// A row that sees labels beyond K somewhere, or of which products have lost digits; the plain way. Its labels go into every `step`th place of `out`. Returns its log likelihood, less the logarithms of what its likelihoods below K were
    /// divided by in columns without kinds.
    fn draw_flagged(
        &self,
        row: usize,
        overflows: &[SliceOverflow],
        running: Option<&[Option<Running>]>,
        rng: &mut Xoshiro256PlusPlus,
        likelihoods: &mut Vec<f64>,
        (out, step): (&mut [u32], usize),
    ) -> f64 {
        let mut ln_top: Vec<f64> = (0..self.n_top + extra(overflows, 0))
            .map(|r| self.top[r].ln() - ln_edge(r, self.n_top))
            .collect();
        likelihoods.clear();
        // Of all labels with sticks, whatever the row sees: its own may lie beyond K, with likelihoods below K next to nothing.
        let mut ln_row: Vec<f64> = self.top.iter().map(|weight| weight.ln()).collect();
        let (mut ln_factor, mut columns) = (0.0, Vec::with_capacity(self.columns.len()));
        for j in 0..self.columns.len() {
            let start = likelihoods.len();
            self.add_all(
                row,
                j,
                others(running, j),
                likelihoods,
                (&mut ln_row, &mut ln_factor),
            );
            let these = &mut likelihoods[start..];
            let Some(lower) = self.lower.get(j) else {
                let pairs = ln_top.iter_mut().zip(these.iter());
                pairs.for_each(|(ln_top, likelihood)| *ln_top += likelihood.ln());
                continue;
            };
            let seen = lower.n + extra(overflows, 1 + j as u32);
            for (k, likelihood) in these[..seen].iter_mut().enumerate() {
                *likelihood *= inverse_edge(k, seen, lower.n);
            }
            let tops = ln_top.iter_mut().enumerate();
            tops.for_each(|(r, ln_top)| *ln_top += lower.sum(r, &these[..seen]).ln());
            columns.push((lower, start..start + seen));
        }
        let ln_row = ln_factor + log_sum_exp(&ln_row);
        let top = match self.levels {
            Levels::Lower => Some(self.top_labels[row] as usize),
            Levels::Both => {
                ln_normalize(&mut ln_top);
                pick(ln_top.iter().copied(), rng.random())
            }
        };
        let Some(top) = top else {
            self.keep(row, (out, step));
            return ln_row;
        };
        out[0] = top as u32;
        for (j, (lower, range)) in columns.into_iter().enumerate() {
            let these = &likelihoods[range];
            let u = rng.random::<f64>() * lower.sum(top, these);
            let label = pick(lower.weights(top, these), u).map(|k| k as u32);
            out[(1 + j) * step] = label.unwrap_or(self.columns[j].labels[row]);
        }
        ln_row
    }

    /// Adds the likelihoods of a cell in all labels, those of the row's clusters to `ln_row`, and to `ln_factor` the logarithm of what they were divided
    /// by, less that of likelihoods below K alone in a column without kinds.
    fn add_all(
        &self,
        row: usize,
        j: usize,
        others: RowLabels<'_>,
        likelihoods: &mut Vec<f64>,
        (ln_row, ln_factor): (&mut [f64], &mut f64),
    ) {
        let (law, cells, rows) = (&self.columns[j].law, self.cells[j], row..row + 1);
        let (start, n_all) = (likelihoods.len(), self.n_labels_all(j));
        likelihoods.resize(start + n_all, 0.0);
        let these = &mut likelihoods[start..];
        if self.kinds[j].is_none() {
            let below = &mut these[..self.n_labels(j)];
            *ln_factor -= law.likelihoods(cells, rows.clone(), below.len(), others, below);
        }
        *ln_factor += law.likelihoods(cells, rows, n_all, others, these);
        let lower = self.lower.get(j);
        for (r, ln_row) in ln_row.iter_mut().enumerate() {
            let sum = lower.map_or_else(|| these[r], |lower| lower.sum(r, these));
            *ln_row += sum.ln();
        }
    }

    /// A row that keeps its labels, because no label has positive weight in numbers.
    fn keep(&self, row: usize, (out, step): (&mut [u32], usize)) {
        out[0] = self.top_labels[row];
        for (j, column) in self.columns.iter().take(self.lower.len()).enumerate() {
            out[(1 + j) * step] = column.labels[row];
        }
    }
}

fn others(running: Option<&[Option<Running>]>, j: usize) -> RowLabels<'_> {
    match running.and_then(|running| running[j].as_ref()) {
        Some(Running { labels, counts }) => RowLabels { labels, counts },
        None => RowLabels::NONE,
    }
}

/// Those of some rows.
fn of_rows<'a>(overflows: &'a [SliceOverflow], rows: &Range<usize>) -> &'a [SliceOverflow] {
    let end = |row| overflows.partition_point(|overflow| (overflow.row as usize) < row);
    &overflows[end(rows.start)..end(rows.end)]
}

/// How many labels from K on a row sees at a level.
fn extra(overflows: &[SliceOverflow], level: u32) -> usize {
    let overflow = overflows.iter().find(|overflow| overflow.level == level);
    overflow.map_or(0, |overflow| overflow.extra as usize)
}

/// ln ξ.
fn ln_edge(label: usize, n: usize) -> f64 {
    match label.checked_sub(n) {
        Some(beyond) => EDGE.ln() - beyond as f64 * std::f64::consts::LN_2,
        None => 0.0,
    }
}

/// 1/ξ, up to a number that depends on `seen` alone: that of the last label seen stays within the numbers.
fn inverse_edge(label: usize, seen: usize, n: usize) -> f64 {
    let largest = -ln_edge(seen.saturating_sub(1), n);
    (-ln_edge(label, n) - (largest - MAX_LN).max(0.0)).exp()
}

impl Lower {
    fn n_top(&self) -> usize {
        self.sticks.len()
    }

    /// ψ_rk times the likelihoods.
    #[inline(always)]
    fn weights<'a>(&'a self, r: usize, likelihoods: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        let psi = &self.psi_by_top[r * self.n_all..];
        likelihoods.iter().zip(psi).map(|(l, p)| l * p)
    }

    /// A label drawn by [`weights`](Self::weights), without branches; the number of labels when all weights are 0.
    #[inline(always)]
    fn draw_label(&self, r: usize, likelihoods: &[f64], rng: &mut Xoshiro256PlusPlus) -> u32 {
        // Sums are added up in the same order both times, so that u is below the last.
        let u = rng.random::<f64>() * self.sum(r, likelihoods);
        let (mut sum, mut passed) = (0.0, 0);
        for weight in self.weights(r, likelihoods) {
            sum += weight;
            passed += u32::from(sum <= u);
        }
        passed
    }

    /// Σ_k ψ_rk L_k for r below `n_top`, terms added in the order of labels.
    #[inline(always)]
    fn all_sums(&self, n_top: usize, likelihoods: &[f64], out: &mut [f64]) {
        let sums = out[..n_top].as_chunks_mut::<LANES>().0;
        for (at, out) in sums.iter_mut().enumerate() {
            *out = self.sums_from(at * LANES, likelihoods);
        }
    }

    #[inline(always)]
    fn sum(&self, r: usize, likelihoods: &[f64]) -> f64 {
        self.weights(r, likelihoods).sum()
    }

    /// The sums of the weights up to each label.
    fn push_up_to(&self, r: usize, likelihoods: &[f64], out: &mut Vec<f64>) {
        let mut sum = 0.0;
        out.extend(self.weights(r, likelihoods).map(|weight| {
            sum += weight;
            sum
        }));
    }

    /// Σ_k ψ_rk L_k for r from here on.
    #[inline(always)]
    fn sums_from(&self, from: usize, likelihoods: &[f64]) -> [f64; LANES] {
        let mut sums = [0.0; LANES];
        let rows = self.psi.chunks_exact(self.n_top());
        for (&likelihood, psi) in likelihoods.iter().zip(rows) {
            let Some(psi) = psi[from..].first_chunk::<LANES>() else {
                break;
            };
            for r in 0..LANES {
                sums[r] += likelihood * psi[r];
            }
        }
        sums
    }
}

/// The rows of a chunk, none of them looking beyond K, column by column; runs under the widest vector instructions there are.
struct DrawChunk<'a, 'b> {
    block: &'a Block<'b>,
    rows: Range<usize>,
    likelihoods: &'a [f64],
    weights: &'a mut [f64],
    ln_rows: &'a mut [f64],
    rng: &'a mut Xoshiro256PlusPlus,
    out: &'a mut [u32],
}

/// Weights are brought back to 1 when their largest leaves this range, up or down.
const SAFE: f64 = 1e50;
/// Beyond this range the weights of a row have lost digits.
const LOST: f64 = 1e250;
/// So many columns are multiplied before a row's largest weight is looked at.
const TOGETHER: usize = 4;

/// The same expression, compiled apart for the usual numbers of labels: loops of known length are turned into vector instructions.
macro_rules! by_length {
    ($n:expr, |$k:ident| $body:expr) => {
        match $n {
            4 => {
                let $k: usize = 4;
                $body
            }
            8 => {
                let $k: usize = 8;
                $body
            }
            $k => $body,
        }
    };
}

/// Weights of a row times those of a column, four by four.
#[inline(always)]
fn multiply(weights: &mut [f64], factors: &[f64]) {
    let weights = weights.as_chunks_mut::<LANES>().0;
    for (weights, factors) in weights.iter_mut().zip(factors.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            weights[lane] *= factors[lane];
        }
    }
}

/// How many of these sums are passed by `u`; counted in steps that cannot overflow: vector instructions do not look.
#[inline(always)]
fn passed(sums: &[f64], u: f64) -> u32 {
    let mut lanes = [0_u64; LANES];
    for sums in sums.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            lanes[lane] = lanes[lane].wrapping_add(u64::from(sums[lane] <= u));
        }
    }
    lanes.into_iter().fold(0, u64::wrapping_add) as u32
}

impl pulp::NullaryFnOnce for DrawChunk<'_, '_> {
    /// A bit for each row that is to be drawn the plain way.
    type Output = u64;

    #[inline(always)]
    fn call(mut self) -> u64 {
        let lost = by_length!(self.block.n_top, |n_top| self.weigh(n_top));
        by_length!(self.block.n_top, |n_top| self.draw_top(n_top));
        let mut start = 0;
        for (j, lower) in self.block.lower.iter().enumerate() {
            by_length!(lower.n, |n| self.draw_lower(j, n, &mut start));
        }
        lost
    }
}

impl DrawChunk<'_, '_> {
    /// Writes the weights of the top labels of all rows, up to factors whose logarithms are added to `ln_rows`; a bit for each row of which they have
    /// lost digits.
    #[inline(always)]
    fn weigh(&mut self, n_top: usize) -> u64 {
        let (block, n) = (self.block, self.rows.len());
        for weights in self.weights.chunks_exact_mut(n_top) {
            weights.copy_from_slice(&block.top[..n_top]);
        }
        let (mut start, mut lost) = (0, 0_u64);
        for j in 0..block.columns.len() {
            let rows = self.weights.chunks_exact_mut(n_top);
            if let Some(kinds) = block.kinds[j] {
                let (codes, table) = (&kinds.codes[self.rows.clone()], &block.tables[j]);
                for (weights, &code) in rows.zip(codes) {
                    multiply(weights, &table.sums[code as usize * n_top..][..n_top]);
                }
                if table.is_scaled {
                    let factors = codes.iter().map(|&code| table.ln_factors[code as usize]);
                    (self.ln_rows.iter_mut().zip(factors)).for_each(|(ln, factor)| *ln += factor);
                }
            } else {
                let k = block.n_labels(j);
                let these = self.likelihoods[start..][..n * k].chunks_exact(k);
                start += n * k;
                match block.lower.get(j) {
                    None => rows.zip(these).for_each(|(w, these)| multiply(w, these)),
                    Some(lower) => by_length!(k, |k| for (weights, these) in rows.zip(these) {
                        let weights = weights.as_chunks_mut::<LANES>().0.iter_mut();
                        for (at, weights) in weights.enumerate() {
                            let sums = lower.sums_from(at * LANES, &these[..k]);
                            multiply(weights, &sums);
                        }
                    }),
                }
            }
            if (j + 1) % TOGETHER == 0 || j + 1 == block.columns.len() {
                lost |= self.bring_back(n_top);
            }
        }
        lost
    }

    /// Brings the weights of rows back to 1 where they leave the safe range; a bit for each row of which they have lost digits.
    #[inline(always)]
    fn bring_back(&mut self, n_top: usize) -> u64 {
        let mut lost = 0;
        let rows = self.weights.chunks_exact_mut(n_top).zip(&mut *self.ln_rows);
        for (i, (weights, ln_row)) in rows.enumerate() {
            let largest = largest(weights);
            if (SAFE.recip()..=SAFE).contains(&largest) {
                continue;
            }
            if (LOST.recip()..=LOST).contains(&largest) {
                weights.iter_mut().for_each(|w| *w /= largest);
                *ln_row += largest.ln();
            } else {
                weights.fill(1.0);
                lost |= 1 << i;
            }
        }
        lost
    }

    /// Draws the top labels, or leaves them.
    #[inline(always)]
    fn draw_top(&mut self, n_top: usize) {
        let rows = self.weights.chunks_exact_mut(n_top).zip(&mut *self.ln_rows);
        for (i, (weights, ln_row)) in rows.enumerate() {
            let mut total = 0.0;
            for weight in weights.iter_mut() {
                total += *weight;
                *weight = total;
            }
            *ln_row += total.ln();
            self.out[i] = match self.block.levels {
                Levels::Lower => self.block.top_labels[self.rows.start + i],
                Levels::Both => passed(weights, self.rng.random::<f64>() * total),
            };
        }
    }

    /// Draws the lower labels of a column, K of them, given top labels. `start`: where its likelihoods begin.
    #[inline(always)]
    fn draw_lower(&mut self, j: usize, n: usize, start: &mut usize) {
        let (block, n_rows, n_top) = (self.block, self.rows.len(), self.block.n_top);
        let lower = &block.lower[j];
        let (tops, labels) = self.out.split_at_mut(n_rows);
        let old = &block.columns[j].labels[self.rows.clone()];
        let rows = labels[j * n_rows..]
            .iter_mut()
            .zip(old)
            .zip(tops.iter())
            .enumerate();
        if let Some(kinds) = block.kinds[j] {
            let (codes, table) = (&kinds.codes[self.rows.clone()], &block.tables[j]);
            let is_stored =
                !table.up_to.is_empty() && tops.iter().all(|&top| (top as usize) < n_top);
            for (i, ((label, &old), &top)) in rows {
                let (code, top) = (codes[i] as usize, top as usize);
                let new = if is_stored {
                    let up_to = &table.up_to[(code * n_top + top) * n..][..n];
                    passed(up_to, self.rng.random::<f64>() * up_to[n - 1])
                } else {
                    lower.draw_label(top, &table.likelihoods[code * n..][..n], self.rng)
                };
                *label = if (new as usize) < n { new } else { old };
            }
            return;
        }
        let lines = self.likelihoods[*start..][..n_rows * n].chunks_exact(n);
        *start += n_rows * n;
        for ((_, ((label, &old), &top)), line) in rows.zip(lines) {
            let new = lower.draw_label(top as usize, line, self.rng);
            *label = if (new as usize) < n { new } else { old };
        }
    }
}

#[cfg(test)]
mod tests {
    use npb_data::{MixedColumn, MixedTable};

    use super::*;
    use crate::{ItfConfig, ItfData, ItfMove, ItfSampler, Structure};

    /// Labels far beyond the table: weights stay numbers, in the right proportions.
    #[test]
    fn weights_beyond_the_edge_stay_finite() {
        for seen in [5, 40, 1500] {
            let weight = |k| inverse_edge(k, seen, 4);
            assert!((0..seen).all(|k| weight(k).is_finite() && weight(k) > 0.0));
            assert!((weight(4) / weight(3) / EDGE.recip() - 1.0).abs() < 1e-9);
            let last = weight(seen - 1) / weight(seen - 2);
            assert!(seen == 5 || (last - 2.0).abs() < 1e-9);
        }
        assert_eq!(inverse_edge(7, 9, 4), (-ln_edge(7, 4)).exp());
    }

    #[test]
    fn flags_say_which_slices_lie_below_the_edge() {
        let mut rng = stream(1, [0; 4]);
        let labels = vec![0; 400_000];
        let mut overflows = Vec::new();
        overflow(&labels, 4, 0, &mut overflows, &mut rng);
        // u < η with probability η; each further label with one half.
        let expected: f64 = 80.0;
        assert!((overflows.len() as f64 - expected).abs() < 4.0 * expected.sqrt());
        let more = overflows
            .iter()
            .filter(|overflow| overflow.extra > 1)
            .count() as f64;
        assert!((more - 0.5 * overflows.len() as f64).abs() < 4.0 * (0.25 * expected).sqrt());
        let far = vec![6; 10];
        overflows.clear();
        overflow(&far, 4, 3, &mut overflows, &mut rng);
        assert_eq!(overflows.len(), 10);
        assert!(
            overflows
                .iter()
                .all(|overflow| overflow.extra >= 3 && overflow.level == 3)
        );
    }

    /// A row whose cluster lies beyond K has the likelihood of its cluster, not that of the others.
    #[test]
    fn rows_beyond_the_edge_count_their_own_cluster() {
        let value = |i: usize| if i == 7 { 1e3 } else { (i % 13) as f64 * 1e-3 };
        let column = MixedColumn::Real((0..3000).map(|i| Some(value(i))).collect());
        let table = MixedTable::new(vec!["x".into()], vec![column]).unwrap();
        let data = ItfData::from_table(&table).unwrap();
        for structure in [Structure::TensorBlocks, Structure::Joint] {
            let config = ItfConfig {
                structure,
                ..ItfConfig::default()
            };
            let mut sampler = ItfSampler::new(&data, config, 0).unwrap();
            let state = &mut sampler.state;
            let labels = match structure {
                Structure::Joint => &mut state.blocks[0].labels,
                _ => &mut state.columns[0].labels,
            };
            labels.fill(0);
            labels[7] = 9;
            for sweep in 0..5 {
                (0..3).for_each(|_| sampler.apply(ItfMove::Parameters, sweep));
                let column = &sampler.state.columns[0];
                let n = column.law.n_clusters();
                let mut own = vec![0.0; 3000 * n];
                let cells = &data.cells()[0];
                (column.law).ln_likelihoods(cells, 0..3000, n, RowLabels::NONE, &mut own);
                let labels = sampler.state.labels(0).to_vec();
                let own = |i: usize| own[i * n + labels[i] as usize];
                let given: f64 = (0..3000).map(own).sum();
                sampler.apply(ItfMove::Rows, 10 + sweep);
                // Sticks cost some nats for every row, far less than a row that is far from all clusters.
                let found = sampler.ln_likelihood();
                assert!((found - given).abs() < 500.0, "{found} {given}");
            }
        }
    }

    /// Columns that contradict each other by hundreds of nats: a row whose weights lose digits is known, others keep their proportions.
    #[test]
    fn products_that_lose_digits_are_known() {
        let columns = vec![MixedColumn::Real(vec![Some(0.0), Some(1.0)]); 5];
        let names = (0..5).map(|j| j.to_string()).collect();
        let data = ItfData::from_table(&MixedTable::new(names, columns).unwrap()).unwrap();
        let mut sampler = ItfSampler::new(&data, ItfConfig::default(), 0).unwrap();
        let columns: Vec<&mut ColumnState> = sampler.state.columns.iter_mut().collect();
        // Logarithms to base 10 of both rows in two clusters: 10^-190 and 10^-350; 10^-150 and 10^-150.
        let powers = [
            [[0, -200], [-75, -150]],
            [[-190, 0], [0, 0]],
            [[0, -150], [0, 0]],
            [[-150, 0], [0, 0]],
            [[-6, 0], [-75, 0]],
        ];
        let of_row = |[a, b]: [i32; 2]| [10_f64.powi(a), 10_f64.powi(b), 0.0, 0.0];
        let likelihoods: Vec<f64> = powers.iter().flatten().flat_map(|&p| of_row(p)).collect();
        let cells: Vec<&Cells> = data.cells().iter().collect();
        let block = Block {
            levels: Levels::Both,
            top: &[0.5, 0.25, 0.25, 0.0],
            n_top: 4,
            lower: &[],
            columns: &columns,
            cells: &cells,
            kinds: &[None; 5],
            tables: &[],
            top_labels: &[0, 0],
        };
        let (mut weights, mut ln_rows) = ([0.0; 8], [0.0; 2]);
        let mut chunk = DrawChunk {
            block: &block,
            rows: 0..2,
            likelihoods: &likelihoods,
            weights: &mut weights,
            ln_rows: &mut ln_rows,
            rng: &mut stream(1, [0; 4]),
            out: &mut [0; 2],
        };
        assert_eq!(chunk.weigh(4), 1);
        let ratio = (weights[4] / weights[5]).log10() - 2_f64.log10();
        assert!(ratio.abs() < 1e-9, "{ratio}");
        let ln = ln_rows[1] + weights[4].ln() - 0.5_f64.ln();
        assert!((ln + 150.0 * 10_f64.ln()).abs() < 1e-9, "{ln}");
    }

    /// What is looked up in tables is what would be computed cell by cell: the same labels, bit by bit.
    #[test]
    fn kinds_of_cells_change_no_label() {
        let rng = &mut stream(2, [0; 4]);
        let column = |j: usize| {
            let mut cell = |z: usize| {
                let noise: u64 = rng.random_range(0..4);
                (rng.random::<f64>() > 0.1).then_some(5 * (z as u64 % 3) + noise)
            };
            let cells: Vec<_> = (0..120).map(|row| cell(row + j)).collect();
            match j % 3 {
                0 => MixedColumn::Count(cells),
                1 => MixedColumn::Real(cells.iter().map(|x| x.map(|x| x as f64)).collect()),
                _ => MixedColumn::Categorical {
                    levels: (0..14).map(|l| l.to_string()).collect(),
                    codes: cells.iter().map(|x| x.map(|x| x as u32)).collect(),
                },
            }
        };
        let columns: Vec<MixedColumn> = (0..6).map(column).collect();
        let names = (0..6).map(|j| j.to_string()).collect();
        let data = ItfData::from_table(&MixedTable::new(names, columns).unwrap()).unwrap();
        for structure in [Structure::TensorBlocks, Structure::Joint] {
            for moves in [ItfMove::ALL.to_vec(), ItfMove::PAPER.to_vec()] {
                let config = ItfConfig {
                    structure,
                    moves,
                    ..ItfConfig::default()
                };
                let mut one = ItfSampler::new(&data, config.clone(), 0).unwrap();
                let mut other = ItfSampler::new(&data, config, 0).unwrap();
                assert!(one.kinds.iter().all(Option::is_some));
                other.kinds.fill(None);
                for _ in 0..20 {
                    one.sweep();
                    other.sweep();
                    for j in 0..6 {
                        assert_eq!(one.state().labels(j), other.state().labels(j));
                    }
                    let difference = one.ln_likelihood() - other.ln_likelihood();
                    assert!(difference.abs() < 1e-6 || one.ln_likelihood().is_nan());
                }
            }
        }
    }
}
