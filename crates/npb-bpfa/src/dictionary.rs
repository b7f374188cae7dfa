//! The dictionary given the scores: all atoms at once, one system of K equations for each column (docs/bpfa.md#dictionary).

use std::ops::Range;

use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_linalg::faer::MatRef;
use npb_linalg::{Cholesky, NotPositiveDefinite};
use pulp::{Arch, Simd, WithSimd};
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::dense::Regression;
use crate::rows::BpfaRows;
use crate::scan::place;
use crate::scores::{BLOCK_ROWS, RowScores, Scores};

/// Parts in which sums over rows are made: fixed, so that bits do not depend on the number of threads.
const PARTS: usize = 16;

/// Rows whose pairs of atoms are sorted at a time.
const PAIR_ROWS: usize = 64 * BLOCK_ROWS;

/// Columns whose sums are in registers at a time.
const GROUP: usize = 32;

/// Columns whose systems are taken out of the sums together: those of a cache line.
const TOGETHER: usize = 8;

/// Sums are made for all columns at once when rows see at least one column in so many.
const LEAST_SHARE: usize = 10;

/// Most numbers that these sums may be: 256 MiB.
const MOST_PAIR_SUMS: usize = 1 << 25;

/// Number of pairs of atoms of which the larger one is below `k`.
fn pairs_before(k: usize) -> usize {
    k * (k + 1) / 2
}

/// Sums over complete rows, of one part.
#[derive(Clone, Debug, Default)]
struct Sums {
    /// `sum_i s_i s_i'`, lower triangle, by columns.
    squares: Vec<f64>,
    /// `sum_i s_ik y_ip` at `k * P + p`.
    products: Vec<f64>,
}

/// Kept from sweep to sweep.
#[derive(Default)]
pub(crate) struct DictionaryWork {
    parts: Vec<Sums>,
    pairs: PairWork,
}

/// Sums for rows with holes.
#[derive(Default)]
struct PairWork {
    /// `sum_i w_ip s_ik s_il`, l <= k, one line for each pair.
    squares: Vec<f64>,
    /// `sum_i w_ip s_ik y_ip` at `k * P + p`.
    products: Vec<f64>,
}

/// What the draw needs to know.
pub(crate) struct DictionaryDraw<'a> {
    pub(crate) arch: Arch,
    pub(crate) rows: &'a BpfaRows,
    pub(crate) scores: &'a Scores,
    /// Noise precision of each column.
    pub(crate) weights: &'a [f32],
    /// Relative weight of each entry; empty when all are 1.
    pub(crate) entry_weights: &'a [f32],
    /// See [`BpfaConfig::overrelaxation`](crate::BpfaConfig::overrelaxation).
    pub(crate) overrelaxation: f64,
    pub(crate) seed: u64,
    /// First three words of the keys of random streams.
    pub(crate) key: [u64; 3],
}

/// A system without solution: column and pivot.
pub(crate) type BadColumn = (usize, NotPositiveDefinite);

impl DictionaryDraw<'_> {
    /// Draws D into `values` (P x K).
    pub(crate) fn draw(
        &self,
        work: &mut DictionaryWork,
        values: &mut [f32],
    ) -> Result<(), BadColumn> {
        if self.rows.is_complete() && self.entry_weights.is_empty() {
            self.draw_complete(work, values)
        } else if self.is_crowded() {
            self.draw_by_pairs(work, values)
        } else {
            self.draw_columns(values)
        }
    }

    /// Makes x, the right side of a system, loadings of the used atoms: beyond the mean m of their law N(m, V) from the `old` ones, `m - a (old - m)` and noise of
    /// covariance (1 - a^2) V. That leaves the law as it is, and comes faster to where it is than independent draws do, which follow the scores that follow them.
    fn renew(
        &self,
        factor: &Cholesky,
        used: &[usize],
        x: &mut [f64],
        old: &[f32],
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let a = self.overrelaxation;
        let noise = (1.0 - a * a).sqrt();
        factor.solve_l(x);
        for x in &mut *x {
            let z: f64 = rng.sample(StandardNormal);
            *x = (1.0 + a) * *x + noise * z;
        }
        factor.solve_lt(x);
        for (x, &k) in x.iter_mut().zip(used) {
            *x -= a * f64::from(old[k]);
        }
    }

    fn rng(&self, p: usize) -> Xoshiro256PlusPlus {
        let [chain, sweep, block] = self.key;
        stream(self.seed, [chain, sweep, block, p as u64])
    }

    /// Rows are complete: the columns of a channel share their system.
    fn draw_complete(
        &self,
        work: &mut DictionaryWork,
        values: &mut [f32],
    ) -> Result<(), BadColumn> {
        let (k, p) = (self.scores.n_atoms(), self.rows.n_columns());
        let sums = self.sums(work);
        let counts = self.scores.counts();
        let used: Vec<usize> = (0..k).filter(|&k| counts[k] > 0).collect();
        let m = used.len();
        let mut distinct: Vec<f32> = self.weights.to_vec();
        distinct.sort_unstable_by(f32::total_cmp);
        distinct.dedup();
        let mut factors = Vec::with_capacity(distinct.len());
        for &weight in &distinct {
            let g = f64::from(weight);
            let mut precision = vec![0.0; m * m];
            for (b, &kb) in used.iter().enumerate() {
                for (a, &ka) in used.iter().enumerate().skip(b) {
                    precision[b * m + a] = g * sums.squares[kb * k + ka];
                }
                precision[b * m + b] += p as f64;
            }
            let matrix = MatRef::from_column_major_slice(&precision, m, m);
            factors.push(Cholesky::new(matrix).map_err(|bad| (0, bad))?);
        }
        let columns = values.chunks_mut(k).enumerate();
        parallel::for_each_with(columns, Vec::new, |x, (column, out)| {
            let rng = &mut self.rng(column);
            let weight = self.weights[column];
            let place = distinct.partition_point(|&w| w < weight);
            x.clear();
            x.extend(
                used.iter()
                    .map(|&k| f64::from(weight) * sums.products[k * p + column]),
            );
            self.renew(&factors[place], &used, x, out, rng);
            scatter(&used, x, p, out, rng);
        });
        Ok(())
    }

    /// The sums over all rows.
    fn sums<'w>(&self, work: &'w mut DictionaryWork) -> &'w Sums {
        let (k, p) = (self.scores.n_atoms(), self.rows.n_columns());
        let blocks = self.scores.blocks.len();
        let each = blocks.div_ceil(PARTS);
        work.parts.resize_with(blocks.div_ceil(each), Sums::default);
        parallel::for_each(work.parts.iter_mut().enumerate(), |(n, part)| {
            part.squares.clear();
            part.squares.resize(k * k, 0.0);
            part.products.clear();
            part.products.resize(k * p, 0.0);
            let first = n * each * BLOCK_ROWS;
            let last = (first + each * BLOCK_ROWS).min(self.rows.n_rows());
            for i in first..last {
                let row = self.scores.row(i);
                add_squares(row, 1.0, None, k, &mut part.squares);
                let values = self.rows.values(i);
                for (atom, s) in row.iter() {
                    let s = f64::from(s);
                    let own = &mut part.products[atom * p..(atom + 1) * p];
                    own.iter_mut()
                        .zip(values)
                        .for_each(|(sum, &y)| *sum += s * f64::from(y));
                }
            }
        });
        let (first, rest) = work.parts.split_first_mut().expect("there are rows");
        for part in rest {
            add(&mut first.squares, &part.squares);
            add(&mut first.products, &part.products);
        }
        first
    }

    /// Whether sums over rows are best made for all columns at once, pair after pair of atoms: rows see a good share of the columns, and the sums of all
    /// columns fit into memory.
    fn is_crowded(&self) -> bool {
        let (k, p) = (self.scores.n_atoms(), self.rows.n_columns());
        let cells = self.rows.n_rows().saturating_mul(p);
        !self.scores.is_dense()
            && cells <= self.rows.n_entries().saturating_mul(LEAST_SHARE)
            && pairs_before(k).saturating_mul(p.next_multiple_of(GROUP)) <= MOST_PAIR_SUMS
    }

    /// Each column has a system of its own; their sums are made side by side, pair after pair of atoms: the sums of a pair stay in registers while all rows that
    /// use both add the product of their scores at the columns that they observe.
    fn draw_by_pairs(
        &self,
        work: &mut DictionaryWork,
        values: &mut [f32],
    ) -> Result<(), BadColumn> {
        let (k, p) = (self.scores.n_atoms(), self.rows.n_columns());
        let wide = p.next_multiple_of(GROUP);
        let PairWork { squares, products } = &mut work.pairs;
        squares.clear();
        squares.resize(pairs_before(k) * wide, 0.0);
        products.clear();
        products.resize(k * p, 0.0);
        for first in (0..self.rows.n_rows()).step_by(PAIR_ROWS) {
            let last = (first + PAIR_ROWS).min(self.rows.n_rows());
            let seen = self.seen(first..last);
            let users = Users::of(self.scores, first..last);
            let mut rest = &mut squares[..];
            let mut own = Vec::with_capacity(k);
            for (atom, products) in products.chunks_exact_mut(p).enumerate() {
                let (squares, later) = rest.split_at_mut((atom + 1) * wide);
                rest = later;
                own.push((squares, products));
            }
            parallel::for_each_with(
                own.into_iter().enumerate(),
                || (Vec::new(), Vec::new()),
                |(starts, pairs), (atom, (squares, products))| {
                    self.add_products(users.of_atom(atom), products);
                    Pair::sort(self.scores, first, users.of_atom(atom), atom, starts, pairs);
                    self.arch.dispatch(AtomSums {
                        seen: &seen,
                        starts,
                        pairs,
                        squares,
                    });
                },
            );
        }
        self.solve_by_pairs(squares, products, values)
    }

    /// `sum_i w_ip s_ik y_ip` of an atom and the rows that use it.
    fn add_products(&self, users: &[(u32, u32)], products: &mut [f64]) {
        for &(i, at) in users {
            let i = i as usize;
            let s = f64::from(self.scores.row(i).values[at as usize]);
            let columns = self.rows.columns(i);
            for (e, entry) in self.rows.range(i).enumerate() {
                let w = self.entry_weights.get(entry).map_or(1.0, |&w| f64::from(w));
                products[place(columns, e)] += s * w * f64::from(self.rows.all_values()[entry]);
            }
        }
    }

    /// Draws all columns given their sums.
    fn solve_by_pairs(
        &self,
        squares: &[f64],
        products: &[f64],
        values: &mut [f32],
    ) -> Result<(), BadColumn> {
        let (k, p) = (self.scores.n_atoms(), self.rows.n_columns());
        let wide = p.next_multiple_of(GROUP);
        let counts = self.scores.counts();
        let used: Vec<usize> = (0..k).filter(|&k| counts[k] > 0).collect();
        let m = used.len();
        let columns = values.chunks_mut(TOGETHER * k).enumerate();
        let drawn: Vec<Result<(), BadColumn>> = parallel::map_with(
            columns,
            || (vec![0.0; TOGETHER * m * m], Vec::new(), Cholesky::default()),
            |(all, x, factor), (number, out)| {
                let first = number * TOGETHER;
                let n = out.len() / k;
                for (b, &kb) in used.iter().enumerate() {
                    for (c, &g) in self.weights[first..first + n].iter().enumerate() {
                        let column = &mut all[(c * m + b) * m..][b..m];
                        for (sum, &ka) in column.iter_mut().zip(&used[b..]) {
                            let line = (pairs_before(ka) + kb) * wide;
                            *sum = f64::from(g) * squares[line + first + c];
                        }
                        column[0] += p as f64;
                    }
                }
                for (c, out) in out.chunks_exact_mut(k).enumerate() {
                    let column = first + c;
                    let g = f64::from(self.weights[column]);
                    let precision = &mut all[c * m * m..(c + 1) * m * m];
                    x.clear();
                    x.extend(used.iter().map(|&k| g * products[k * p + column]));
                    let rng = &mut self.rng(column);
                    if m > 0 {
                        let matrix = MatRef::from_column_major_slice(precision, m, m);
                        factor.factor(matrix).map_err(|bad| (column, bad))?;
                        self.renew(factor, &used, x, out, rng);
                    }
                    scatter(&used, x, p, out, rng);
                }
                Ok(())
            },
        );
        drawn.into_iter().collect()
    }

    /// Which columns these rows observe, or what they weigh there.
    fn seen(&self, rows: Range<usize>) -> Seen {
        let groups = self.rows.n_columns().div_ceil(GROUP);
        let mut bits = vec![0_u32; rows.len() * groups];
        let mut weights = match self.entry_weights.is_empty() {
            true => Vec::new(),
            false => vec![0.0; rows.len() * groups * GROUP],
        };
        for (n, i) in rows.enumerate() {
            let columns = self.rows.columns(i);
            for (e, entry) in self.rows.range(i).enumerate() {
                let column = n * groups * GROUP + place(columns, e);
                bits[column / GROUP] |= 1 << (column % GROUP);
                if let Some(w) = weights.get_mut(column) {
                    *w = self.entry_weights[entry];
                }
            }
        }
        Seen {
            groups,
            bits,
            weights,
        }
    }

    /// Rows have holes, or entries have weights: each column has a system of its own, of the atoms that its rows use.
    fn draw_columns(&self, values: &mut [f32]) -> Result<(), BadColumn> {
        let k = self.scores.n_atoms();
        let columns = values.chunks_mut(k).enumerate();
        let drawn: Vec<Result<(), BadColumn>> = parallel::map_with(
            columns,
            || (ColumnWork::new(k), Regression::new(self.arch, k)),
            |(work, regression), (column, out)| match self.way(column) {
                Way::Pairs => self.draw_column(column, work, out),
                way => self.draw_regression(column, way, regression, out),
            },
        );
        drawn.into_iter().collect()
    }

    fn draw_column(
        &self,
        column: usize,
        work: &mut ColumnWork,
        out: &mut [f32],
    ) -> Result<(), BadColumn> {
        let p = self.rows.n_columns() as f64;
        work.find_used(self.rows.column(column).map(|(i, _)| self.scores.row(i)));
        let m = work.used.len();
        work.squares.clear();
        work.squares.resize(m * m, 0.0);
        work.linear.clear();
        work.linear.resize(m, 0.0);
        for (i, entry) in self.rows.column(column) {
            let w = self.entry_weights.get(entry).map_or(1.0, |&w| f64::from(w));
            let row = self.scores.row(i);
            add_squares(row, w, Some(&work.places), m, &mut work.squares);
            let weighted = w * f64::from(self.rows.all_values()[entry]);
            for (k, s) in row.iter() {
                work.linear[work.places[k] as usize] += weighted * f64::from(s);
            }
        }
        let g = f64::from(self.weights[column]);
        work.squares.iter_mut().for_each(|x| *x *= g);
        work.linear.iter_mut().for_each(|x| *x *= g);
        (0..m).for_each(|a| work.squares[a * (m + 1)] += p);
        let rng = &mut self.rng(column);
        if m > 0 {
            let matrix = MatRef::from_column_major_slice(&work.squares, m, m);
            work.factor.factor(matrix).map_err(|bad| (column, bad))?;
            self.renew(&work.factor, &work.used, &mut work.linear, out, rng);
        }
        scatter(&work.used, &work.linear, self.rows.n_columns(), out, rng);
        Ok(())
    }
}

/// How the system of one column is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// From pairs of active scores.
    Pairs,
    /// From all scores, in vector registers.
    Whole,
    /// The same, in the space of the rows.
    Few,
}

/// Pairs in vector registers that take as long as one pair of active scores.
const PAIRS_AT_ONCE: usize = 8;

impl DictionaryDraw<'_> {
    /// The cheapest way: rows that observe the column are fewer than atoms, or most of their scores are active, or not.
    fn way(&self, column: usize) -> Way {
        let k = self.scores.n_atoms();
        let (mut n, mut pairs) = (0, 0);
        for (i, _) in self.rows.column(column) {
            n += 1;
            pairs += pairs_before(self.scores.row(i).n_active());
        }
        match self.scores.is_dense() {
            true => Way::Whole,
            false if n < k => Way::Few,
            false if PAIRS_AT_ONCE * pairs > n * pairs_before(k) => Way::Whole,
            false => Way::Pairs,
        }
    }

    /// A regression of all atoms in vector registers.
    fn draw_regression(
        &self,
        column: usize,
        way: Way,
        regression: &mut Regression,
        out: &mut [f32],
    ) -> Result<(), BadColumn> {
        let entries: Vec<(usize, usize)> = self.rows.column(column).collect();
        let cell = |e: usize, regressors: &mut [f32]| {
            let (i, entry) = entries[e];
            let w = self.entry_weights.get(entry).map_or(1.0, |&w| w) * self.weights[column];
            let root = w.sqrt();
            regressors.fill(0.0);
            let own = self.scores.row(i);
            own.iter().for_each(|(k, s)| regressors[k] = root * s);
            root * self.rows.all_values()[entry]
        };
        let p = self.rows.n_columns() as f64;
        let rng = &mut self.rng(column);
        let drawn = match way {
            Way::Few => regression.draw_few(entries.len(), cell, |_| p, rng),
            _ => regression.draw(entries.len(), cell, |_| p, rng),
        };
        let drawn = drawn.map_err(|bad| (column, bad))?;
        out.iter_mut().zip(drawn).for_each(|(d, &x)| *d = x as f32);
        Ok(())
    }
}

/// What rows observe, in groups of columns.
struct Seen {
    groups: usize,
    /// One bit for each column of a group.
    bits: Vec<u32>,
    /// Relative weights of all columns, 0 where nothing is observed; empty when they are 1.
    weights: Vec<f32>,
}

/// Which rows use each atom.
struct Users {
    starts: Vec<usize>,
    /// Row and place of the atom among its scores.
    users: Vec<(u32, u32)>,
}

impl Users {
    fn of(scores: &Scores, rows: Range<usize>) -> Self {
        let mut starts = vec![0; scores.n_atoms() + 1];
        for i in rows.clone() {
            for (k, _) in scores.row(i).iter() {
                starts[k + 1] += 1;
            }
        }
        for k in 0..scores.n_atoms() {
            starts[k + 1] += starts[k];
        }
        let mut next = starts.clone();
        let mut users = vec![(0, 0); starts[scores.n_atoms()]];
        for i in rows {
            for (at, (k, _)) in scores.row(i).iter().enumerate() {
                users[next[k]] = (i as u32, at as u32);
                next[k] += 1;
            }
        }
        Self { starts, users }
    }

    fn of_atom(&self, k: usize) -> &[(u32, u32)] {
        &self.users[self.starts[k]..self.starts[k + 1]]
    }
}

/// A row that uses two atoms: its number in the part of the rows, and the product of the scores.
#[derive(Clone, Copy, Default)]
struct Pair {
    row: u32,
    product: f64,
}

impl Pair {
    /// Those of an atom with those before it and itself: with atom l at `starts[l]..starts[l + 1]`.
    fn sort(
        scores: &Scores,
        first: usize,
        users: &[(u32, u32)],
        atom: usize,
        starts: &mut Vec<u32>,
        pairs: &mut Vec<Self>,
    ) {
        starts.clear();
        starts.resize(atom + 2, 0);
        let others = |(i, at): (u32, u32)| {
            let row = scores.row(i as usize);
            let own = f64::from(row.values[at as usize]);
            let product = move |(l, s): (usize, f32)| (l, own * f64::from(s));
            (0..=at as usize).map(move |n| {
                let l = row.atoms.map_or(n, |atoms| atoms[n] as usize);
                product((l, row.values[n]))
            })
        };
        for &user in users {
            others(user).for_each(|(l, _)| starts[l + 1] += 1);
        }
        (0..=atom).for_each(|l| starts[l + 1] += starts[l]);
        pairs.clear();
        pairs.resize(starts[atom + 1] as usize, Self::default());
        // Starts become ends, and are moved by one place then.
        for &user in users {
            let row = user.0 - first as u32;
            for (l, product) in others(user) {
                pairs[starts[l] as usize] = Self { row, product };
                starts[l] += 1;
            }
        }
        starts.copy_within(0..=atom, 1);
        starts[0] = 0;
    }
}

/// Adds to the sums of one atom with those before it and itself, for all columns.
struct AtomSums<'a> {
    seen: &'a Seen,
    starts: &'a [u32],
    pairs: &'a [Pair],
    /// `sum_i w_ip s_ik s_il`, those of l in one line.
    squares: &'a mut [f64],
}

impl WithSimd for AtomSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Seen {
            groups,
            bits,
            weights,
        } = self.seen;
        let lines = self.squares.as_chunks_mut::<GROUP>().0;
        for (line, own) in lines.chunks_exact_mut(*groups).zip(self.starts.windows(2)) {
            let own = &self.pairs[own[0] as usize..own[1] as usize];
            if own.is_empty() {
                continue;
            }
            for (group, line) in line.iter_mut().enumerate() {
                let mut sums = *line;
                for &Pair { row, product } in own {
                    let at = row as usize * groups + group;
                    if weights.is_empty() {
                        let bits = bits[at];
                        for (n, sum) in sums.iter_mut().enumerate() {
                            *sum += if bits & 1 << n == 0 { 0.0 } else { product };
                        }
                    } else {
                        let weights = weights[at * GROUP..][..GROUP].iter();
                        let weighted = sums.iter_mut().zip(weights);
                        weighted.for_each(|(sum, &w)| *sum += product * f64::from(w));
                    }
                }
                *line = sums;
            }
        }
    }
}

/// Scratch memory of one thread for columns with systems of their own.
struct ColumnWork {
    used: Vec<usize>,
    /// Place of each atom among the used ones.
    places: Vec<u32>,
    squares: Vec<f64>,
    linear: Vec<f64>,
    factor: Cholesky,
}

impl ColumnWork {
    fn new(k: usize) -> Self {
        Self {
            used: Vec::new(),
            places: vec![u32::MAX; k],
            squares: Vec::new(),
            linear: Vec::new(),
            factor: Cholesky::default(),
        }
    }

    /// The atoms that some of these rows use, ascending.
    fn find_used<'s>(&mut self, rows: impl Iterator<Item = RowScores<'s>>) {
        self.places.fill(u32::MAX);
        for row in rows {
            match row.atoms {
                Some(atoms) => atoms.iter().for_each(|&k| self.places[k as usize] = 0),
                None => {
                    self.places.fill(0);
                    break;
                }
            }
        }
        self.used.clear();
        for (k, place) in self.places.iter_mut().enumerate() {
            if *place == 0 {
                *place = self.used.len() as u32;
                self.used.push(k);
            }
        }
    }
}

/// Adds `w s s'`, lower triangle, by columns of length `m`.
#[inline]
fn add_squares(row: RowScores<'_>, w: f64, places: Option<&[u32]>, m: usize, squares: &mut [f64]) {
    let Some(atoms) = row.atoms else {
        for (b, &sb) in row.values.iter().enumerate() {
            let factor = w * f64::from(sb);
            let column = &mut squares[b * m + b..(b + 1) * m];
            let rest = column.iter_mut().zip(&row.values[b..]);
            rest.for_each(|(sum, &sa)| *sum += factor * f64::from(sa));
        }
        return;
    };
    let place = |k: u16| places.map_or(k as usize, |places| places[k as usize] as usize);
    for (b, (&kb, &sb)) in atoms.iter().zip(row.values).enumerate() {
        let factor = w * f64::from(sb);
        let column = &mut squares[place(kb) * m..][..m];
        for (&ka, &sa) in atoms[b..].iter().zip(&row.values[b..]) {
            column[place(ka)] += factor * f64::from(sa);
        }
    }
}

/// Writes the loadings of used atoms, and draws of the prior N(0, 1/P) for the others.
fn scatter(used: &[usize], x: &[f64], p: usize, out: &mut [f32], rng: &mut Xoshiro256PlusPlus) {
    let sd = (1.0 / p as f64).sqrt();
    let mut next = 0;
    for (k, out) in out.iter_mut().enumerate() {
        if used.get(next) == Some(&k) {
            *out = x[next] as f32;
            next += 1;
        } else {
            let z: f64 = rng.sample(StandardNormal);
            *out = (sd * z) as f32;
        }
    }
}

fn add(to: &mut [f64], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums pair by pair of atoms against sums column by column, with holes and weights, over more rows than are spread at a time.
    #[test]
    fn all_ways_to_sum_draw_the_same() {
        // A third of the atoms in each row, and a sixth of twice as many.
        ways_draw_the_same(6, 3, Way::Whole);
        ways_draw_the_same(12, 6, Way::Pairs);
    }

    /// Each row has every `apart`-th of `k` atoms, by which columns are drawn one by one in a known way.
    fn ways_draw_the_same(k: usize, apart: usize, way: Way) {
        // More columns than one group.
        let (n, p) = (PAIR_ROWS + 300, GROUP + 3);
        let rng = &mut stream(1, [0; 4]);
        let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        let mut scores = Scores::zeros(n, k, false);
        for i in 0..n {
            let seen = (0..p as u32).filter(|_| rng.random::<f64>() < 0.6);
            columns.extend(seen.collect::<Vec<_>>());
            values.resize_with(columns.len(), || rng.sample(StandardNormal));
            starts.push(columns.len());
            let block = &mut scores.blocks[i / BLOCK_ROWS];
            for atom in (0..k as u16).filter(|a| (i + usize::from(*a)).is_multiple_of(apart)) {
                block.atoms.push(atom);
                block.values.push(rng.sample(StandardNormal));
            }
            block.starts[i % BLOCK_ROWS + 1] = block.atoms.len() as u32;
        }
        let own: Vec<f32> = values.iter().map(|_| rng.random::<f32>() + 0.1).collect();
        let rows = BpfaRows::new(p, &starts, columns, values).unwrap();
        let weights: Vec<f32> = (0..p).map(|p| 0.5 + 0.1 * p as f32).collect();
        for entry_weights in [&own[..], &[]] {
            let draw = DictionaryDraw {
                arch: Arch::new(),
                rows: &rows,
                scores: &scores,
                weights: &weights,
                entry_weights,
                // Regressions do not look at where loadings were.
                overrelaxation: if way == Way::Pairs { 0.5 } else { 0.0 },
                seed: 2,
                key: [0; 3],
            };
            assert!(draw.is_crowded());
            assert!((0..p).all(|column| draw.way(column) == way));
            let (mut pairs, mut single) = (vec![0.3; p * k], vec![0.3; p * k]);
            draw.draw_by_pairs(&mut DictionaryWork::default(), &mut pairs)
                .unwrap();
            draw.draw_columns(&mut single).unwrap();
            for (a, b) in pairs.iter().zip(&single) {
                assert!(
                    (a - b).abs() < 1e-5 * (1.0 + b.abs()),
                    "{pairs:?} {single:?}"
                );
            }
        }
    }

    /// One atom, one column: `d' ~ N(m - a (d - m), (1 - a^2) V)` with m and V in closed form.
    #[test]
    fn draws_go_beyond_the_mean_from_where_loadings_were() {
        let (scores, values) = ([1.0, -0.5, 2.0], vec![0.8, 0.1, 1.5]);
        let rows = BpfaRows::complete(3, 1, values.clone()).unwrap();
        let (g, old, n) = (1.5, 0.9, 40_000);
        let precision = 1.0 + g * scores.iter().map(|s| s * s).sum::<f64>();
        let linear: f64 = scores
            .iter()
            .zip(&values)
            .map(|(s, &y)| s * f64::from(y))
            .sum();
        let (mean, variance) = (g * linear / precision, precision.recip());
        let scores = Scores::sparse(1, &scores.map(|s| s as f32)).unwrap();
        for a in [0.0, 0.75] {
            let (mut sum, mut square) = (0.0, 0.0);
            for seed in 0..n {
                let draw = DictionaryDraw {
                    arch: Arch::new(),
                    rows: &rows,
                    scores: &scores,
                    weights: &[g as f32],
                    entry_weights: &[],
                    overrelaxation: a,
                    seed,
                    key: [0; 3],
                };
                let mut drawn = [old as f32];
                draw.draw(&mut DictionaryWork::default(), &mut drawn)
                    .unwrap();
                let off = f64::from(drawn[0]) - (mean - a * (old - mean));
                sum += off;
                square += off * off;
            }
            let (n, expected) = (n as f64, (1.0 - a * a) * variance);
            assert!((sum / n).abs() < 4.0 * (expected / n).sqrt(), "{a}");
            assert!(
                (square / n / expected - 1.0).abs() < 4.0 * (2.0 / n).sqrt(),
                "{a}"
            );
        }
    }
}
