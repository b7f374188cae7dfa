//! How often atoms are used: the weights pi_k, and switches with the weights integrated out (docs/bpfa.md#switches).

use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::ParameterError;
use npb_priors::beta_bernoulli::WeightPrior;
use npb_priors::dist::Beta;
use pulp::{Arch, Simd, WithSimd};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use crate::dependent::Dependence;
use crate::loadings::Loadings;
use crate::rows::BpfaRows;
use crate::scan::{self, ScanRow, ScanWork};
use crate::scores::{BLOCK_ROWS, Scores};

/// Draws `ln(pi_k / (1 - pi_k))`, pi_k ~ Beta(a + n_k, b + N - n_k).
pub(crate) fn draw_ln_odds<R: Rng + ?Sized>(
    prior: WeightPrior,
    on: u64,
    n_rows: u64,
    rng: &mut R,
) -> Result<f64, ParameterError> {
    let off = n_rows - on;
    let law = Beta::new(prior.a() + on as f64, prior.b() + off as f64)?;
    Ok(law.sample_ln_odds(rng))
}

/// Rows whose Bayes factors are held at once.
const PART_ROWS: usize = 256 * BLOCK_ROWS;

/// A scan of the switches of some atoms with their weights integrated out.
pub(crate) struct Collapsed<'a> {
    pub(crate) arch: Arch,
    pub(crate) rows: &'a BpfaRows,
    pub(crate) loadings: &'a Loadings,
    /// Noise precision of each column.
    pub(crate) column_weights: &'a [f32],
    /// Relative weight of each entry; empty when all are 1.
    pub(crate) entry_weights: &'a [f32],
    /// The atoms, ascending.
    pub(crate) atoms: &'a [usize],
    /// Their slab precisions.
    pub(crate) slabs: &'a [f64],
    /// `d_k' W d_l` of the atoms, m x m, which complete rows share; empty when there are none.
    pub(crate) products: &'a [f32],
    /// Prior of the weights of each of the atoms.
    pub(crate) priors: &'a [WeightPrior],
    /// Anchors of the rows.
    pub(crate) dependence: &'a Dependence,
    /// Number of rows at each anchor.
    pub(crate) group_rows: &'a [u64],
    pub(crate) seed: u64,
    pub(crate) key: [u64; 3],
}

/// What the parallel pass finds of one row and one atom.
#[derive(Clone, Copy, Default)]
struct Candidate {
    /// d_k' W r, r the residual with the scores as they are.
    linear: f32,
    old: f32,
    new: f32,
    /// logit of a uniform number.
    bar: f32,
    /// A standard normal.
    z: f32,
}

/// Logarithms that hold for row after row: an atom is on in few of them, and complete rows have one precision.
#[derive(Clone, Copy)]
struct Known {
    /// Other rows that use the atom, and all others: those that `ln_odds` is of.
    at: Option<(u64, usize)>,
    ln_odds: f64,
    precision: f64,
    ln_width: f64,
}

impl Collapsed<'_> {
    /// Scans all rows; `counts`: numbers of rows of each anchor that use each of the atoms, at `anchor * m + j`.
    ///
    /// Bayes factors and random numbers are found in parallel; one pass over the rows then decides, because the prior odds `(a + n_-i) / (b + N - 1 - n_-i)`
    /// depend on the other rows.
    pub(crate) fn scan(&self, scores: &mut Scores, counts: &mut [u64]) {
        let m = self.atoms.len();
        let pairs = m * m;
        let mut candidates = Vec::new();
        let mut products = Vec::new();
        let nothing = Known {
            at: None,
            ln_odds: 0.0,
            precision: 0.0,
            ln_width: 0.0,
        };
        let mut known = vec![nothing; m];
        for first in (0..self.rows.n_rows()).step_by(PART_ROWS) {
            let n = (self.rows.n_rows() - first).min(PART_ROWS);
            candidates.clear();
            candidates.resize(n * m, Candidate::default());
            products.clear();
            products.resize(n * pairs, 0.0_f32);
            let read: &Scores = scores;
            let blocks = candidates
                .chunks_mut(BLOCK_ROWS * m)
                .zip(products.chunks_mut(BLOCK_ROWS * pairs));
            parallel::for_each_with(
                blocks.enumerate(),
                ScanWork::default,
                |work, (block, (candidates, products))| {
                    self.arch.dispatch(Look {
                        all: self,
                        scores: read,
                        first: first + block * BLOCK_ROWS,
                        candidates,
                        products,
                        work,
                    });
                },
            );
            let rows = candidates.chunks_exact_mut(m);
            for (i, (own, products)) in rows.zip(products.chunks_exact(pairs)).enumerate() {
                let group = self.dependence.group(first + i);
                let counts = &mut counts[group * m..(group + 1) * m];
                self.decide(own, products, self.group_rows[group], counts, &mut known);
            }
            self.write(scores, first / BLOCK_ROWS, &candidates);
        }
    }

    fn decide(
        &self,
        own: &mut [Candidate],
        products: &[f32],
        rows: u64,
        counts: &mut [u64],
        known: &mut [Known],
    ) {
        let m = own.len();
        let others = rows as usize - 1;
        for j in 0..m {
            let Candidate { old, bar, z, .. } = own[j];
            counts[j] -= u64::from(old != 0.0);
            let q = products[j * (m + 1)];
            let linear = f64::from(own[j].linear + q * old);
            let precision = self.slabs[j] + f64::from(q);
            let known = &mut known[j];
            if known.at != Some((counts[j], others)) {
                known.at = Some((counts[j], others));
                known.ln_odds = self.priors[j].ln_odds(counts[j] as usize, others);
            }
            if known.precision != precision {
                known.precision = precision;
                known.ln_width = 0.5 * (self.slabs[j] / precision).ln();
            }
            let ln_odds = known.ln_odds + known.ln_width + 0.5 * linear * linear / precision;
            let mut new = 0.0;
            if ln_odds > f64::from(bar) {
                new = (linear / precision + f64::from(z) / precision.sqrt()) as f32;
                if new == 0.0 {
                    new = f32::MIN_POSITIVE;
                }
                counts[j] += 1;
            }
            own[j].new = new;
            let change = new - old;
            if change != 0.0 {
                for (l, other) in own.iter_mut().enumerate().skip(j + 1) {
                    other.linear -= change * products[j * m + l];
                }
            }
        }
    }

    /// Puts the new scores among those of the other atoms.
    fn write(&self, scores: &mut Scores, first_block: usize, candidates: &[Candidate]) {
        let m = self.atoms.len();
        let k = scores.n_atoms();
        let blocks = scores.blocks[first_block..]
            .iter_mut()
            .zip(candidates.chunks(BLOCK_ROWS * m));
        parallel::for_each_with(
            blocks,
            || (Vec::new(), Vec::new(), Vec::new()),
            |(starts, atoms, values), (block, candidates)| {
                let same = candidates.iter().all(|c| c.old == 0.0 && c.new == 0.0);
                if same {
                    return;
                }
                starts.clear();
                starts.push(0);
                atoms.clear();
                values.clear();
                for (i, own) in candidates.chunks_exact(m).enumerate() {
                    let drawn = self.atoms.iter().zip(own).filter(|(_, c)| c.new != 0.0);
                    let mut drawn = drawn.map(|(&k, c)| (k, c.new)).peekable();
                    for (atom, s) in block.row(i, k).iter() {
                        while let Some((k, s)) = drawn.next_if(|&(k, _)| k <= atom) {
                            atoms.push(k as u16);
                            values.push(s);
                        }
                        if self.atoms.binary_search(&atom).is_err() {
                            atoms.push(atom as u16);
                            values.push(s);
                        }
                    }
                    for (k, s) in drawn {
                        atoms.push(k as u16);
                        values.push(s);
                    }
                    starts.push(atoms.len() as u32);
                }
                std::mem::swap(&mut block.starts, starts);
                std::mem::swap(&mut block.atoms, atoms);
                std::mem::swap(&mut block.values, values);
            },
        );
    }

    fn rng(&self, row: usize) -> Xoshiro256PlusPlus {
        let [chain, sweep, block] = self.key;
        stream(self.seed, [chain, sweep, block, row as u64])
    }
}

/// The parallel pass over one block of rows.
struct Look<'a, 'b> {
    all: &'a Collapsed<'b>,
    scores: &'a Scores,
    first: usize,
    candidates: &'a mut [Candidate],
    products: &'a mut [f32],
    work: &'a mut ScanWork,
}

impl WithSimd for Look<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            all,
            scores,
            first,
            candidates,
            products,
            work,
        } = self;
        let m = all.atoms.len();
        let mut weights = Vec::new();
        for (i, (own, products)) in candidates
            .chunks_exact_mut(m)
            .zip(products.chunks_exact_mut(m * m))
            .enumerate()
        {
            let i = first + i;
            let row = row_for_scan(
                all.rows,
                scores,
                all.column_weights,
                all.entry_weights,
                i,
                &mut weights,
            );
            scan::residual(
                simd,
                all.loadings,
                row.columns,
                row.values,
                row.scores,
                &mut work.residual,
            );
            let rng = &mut all.rng(i);
            for (j, (candidate, &k)) in own.iter_mut().zip(all.atoms).enumerate() {
                let atom = all.loadings.atom(k);
                let linear = correlation(row, &work.residual.values, atom);
                let u: f64 = rng.random();
                let v = (1.0 - u).max(1e-300);
                *candidate = Candidate {
                    linear,
                    bar: (u.max(1e-300) / v).ln() as f32,
                    z: rng.sample(StandardNormal),
                    ..Candidate::default()
                };
                for (l, &other) in all.atoms[..=j].iter().enumerate() {
                    let product = match row.shared && !all.products.is_empty() {
                        true => all.products[j * m + l],
                        false => product(row, atom, all.loadings.atom(other)),
                    };
                    products[j * m + l] = product;
                    products[l * m + j] = product;
                }
            }
            for (k, s) in row.scores.iter() {
                if let Ok(j) = all.atoms.binary_search(&k) {
                    own[j].old = s;
                }
            }
        }
    }
}

/// Row `i` as the scan wants it; `weights` is scratch memory.
#[inline(always)]
pub(crate) fn row_for_scan<'a>(
    rows: &'a BpfaRows,
    scores: &'a Scores,
    column_weights: &'a [f32],
    entry_weights: &[f32],
    i: usize,
    weights: &'a mut Vec<f32>,
) -> ScanRow<'a> {
    let columns = rows.columns(i);
    let shared = columns.is_none() && entry_weights.is_empty();
    let weights = if shared {
        column_weights
    } else {
        weights.clear();
        let range = rows.range(i);
        let of = |e: usize| column_weights[scan::place(columns, e)];
        weights.extend((0..range.len()).map(of));
        if !entry_weights.is_empty() {
            let own = weights.iter_mut().zip(&entry_weights[range]);
            own.for_each(|(w, e)| *w *= e);
        }
        weights
    };
    ScanRow {
        columns,
        values: rows.values(i),
        weights,
        scores: scores.row(i),
        shared,
    }
}

/// Sums over entries are made in this many parts, which vector registers hold.
const PARTS: usize = 16;

/// `d' W r`.
#[inline(always)]
fn correlation(row: ScanRow<'_>, residual: &[f32], atom: &[f32]) -> f32 {
    let Some(columns) = row.columns else {
        return summed(residual, row.weights, atom);
    };
    let weighted = residual.iter().zip(row.weights).zip(columns);
    weighted.map(|((r, w), &p)| r * w * atom[p as usize]).sum()
}

/// `d' W d_other`.
#[inline(always)]
pub(crate) fn product(row: ScanRow<'_>, atom: &[f32], other: &[f32]) -> f32 {
    let Some(columns) = row.columns else {
        return summed(atom, row.weights, other);
    };
    let weighted = row.weights.iter().zip(columns);
    weighted
        .map(|(w, &p)| w * atom[p as usize] * other[p as usize])
        .sum()
}

/// `sum a b c` over the length of b; the order depends on that length only.
#[inline(always)]
pub(crate) fn summed(a: &[f32], b: &[f32], c: &[f32]) -> f32 {
    let mut parts = [0.0; PARTS];
    let whole = b.len() / PARTS * PARTS;
    for at in (0..whole).step_by(PARTS) {
        let (a, b, c) = (&a[at..at + PARTS], &b[at..at + PARTS], &c[at..at + PARTS]);
        for n in 0..PARTS {
            parts[n] += a[n] * b[n] * c[n];
        }
    }
    let rest: f32 = (whole..b.len()).map(|at| a[at] * b[at] * c[at]).sum();
    parts.iter().sum::<f32>() + rest
}
