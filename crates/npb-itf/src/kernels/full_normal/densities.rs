//! ln p(cell | cluster) of numbers and levels that depend on each other, clusters side by side.

use npb_priors::special::LN_SQRT_2PI;

use super::parts::{FullNormal, FullNormalData, FullNormalParams, Rows, Ways};
use crate::numeric::{exp_below_zero, ln_positive};

/// What clusters make of so many kinds of missing numbers is kept for all rows.
pub(super) const MOST_GAPS: usize = 64;

/// Some rows in all clusters.
pub(super) struct Densities<'a> {
    pub(super) kernel: &'a FullNormal,
    pub(super) params: &'a FullNormalParams,
    pub(super) data: &'a FullNormalData,
    pub(super) first: usize,
    pub(super) n_clusters: usize,
    pub(super) out: &'a mut [f64],
}

impl pulp::NullaryFnOnce for Densities<'_> {
    type Output = ();

    #[inline(always)]
    fn call(mut self) {
        let n = self.n_clusters;
        let mut wide = Lanes::<8>::new(self.kernel, self.params);
        let whole = n - n % 8;
        for k in (0..whole).step_by(8) {
            self.all_rows(&mut wide, k);
        }
        let mut narrow = Lanes::<4>::new(self.kernel, self.params);
        let rest = n - n % 4;
        for k in (whole..rest).step_by(4) {
            self.all_rows(&mut narrow, k);
        }
        let mut single = Lanes::<1>::new(self.kernel, self.params);
        for k in rest..n {
            self.all_rows(&mut single, k);
        }
    }
}

impl Densities<'_> {
    /// Rows innermost: the numbers of N clusters stay in the cache.
    #[inline(always)]
    fn all_rows<const N: usize>(&mut self, lanes: &mut Lanes<'_, N>, k: usize) {
        lanes.load(k);
        for (offset, out) in self.out.chunks_exact_mut(self.n_clusters).enumerate() {
            let row = self.first + offset;
            let ln = match self.data.is_seen(row) {
                true => lanes.of(&Cell::new(self.data, row)),
                false => [0.0; N],
            };
            out[k..k + N].copy_from_slice(&ln);
        }
    }
}

/// One cell.
struct Cell<'a> {
    /// 0 where missing: any number there gives the same density.
    z: &'a [f64],
    missing: &'a [usize],
    /// Which missing numbers these are.
    gap: usize,
    units: f64,
    /// Effects of observed levels.
    known: &'a [usize],
    /// All ways to choose the missing levels.
    ways: &'a Ways,
}

impl<'a> Cell<'a> {
    fn new(data: &'a FullNormalData, row: usize) -> Self {
        Self {
            z: data.numbers(row),
            missing: data.missing(row),
            gap: data.missing[row],
            units: data.units[row],
            known: &data.known[row],
            ways: &data.ways[data.open[row]],
        }
    }
}

/// N clusters side by side: their numbers, one after the other, and memory.
struct Lanes<'a, const N: usize> {
    rows: Rows,
    params: &'a FullNormalParams,
    k: usize,
    factor: Vec<[f64; N]>,
    turned: Vec<[f64; N]>,
    turned_effects: Vec<[f64; N]>,
    ln_theta: Vec<[f64; N]>,
    constant: [f64; N],
    entries: Vec<[f64; N]>,
    shifted: Vec<[f64; N]>,
    /// Factors of the precisions of missing numbers, one after the other.
    of_missing: Vec<[f64; N]>,
    /// Of the first [`MOST_GAPS`] kinds where they begin, and half of ln det.
    kept: Vec<Option<(usize, [f64; N])>>,
    /// Where these end.
    end: usize,
    pull: Vec<[f64; N]>,
    logs: Vec<[f64; N]>,
}

/// y += a x, number by number.
#[inline(always)]
fn add_scaled<const N: usize>(y: &mut [[f64; N]], a: f64, x: &[[f64; N]]) {
    let pairs = y.as_flattened_mut().iter_mut().zip(x.as_flattened());
    for (y, x) in pairs {
        *y += a * x;
    }
}

/// Σ x y, lane by lane.
#[inline(always)]
fn products<const N: usize>(x: &[[f64; N]], y: &[[f64; N]]) -> [f64; N] {
    let mut sum = [0.0; N];
    for (x, y) in x.iter().zip(y) {
        for lane in 0..N {
            sum[lane] += x[lane] * y[lane];
        }
    }
    sum
}

impl<'a, const N: usize> Lanes<'a, N> {
    fn new(kernel: &FullNormal, params: &'a FullNormalParams) -> Self {
        Self {
            rows: kernel.rows(),
            params,
            k: 0,
            factor: Vec::new(),
            turned: Vec::new(),
            turned_effects: Vec::new(),
            ln_theta: Vec::new(),
            constant: [0.0; N],
            entries: Vec::new(),
            shifted: Vec::new(),
            of_missing: Vec::new(),
            kept: Vec::new(),
            end: 0,
            pull: Vec::new(),
            logs: Vec::new(),
        }
    }

    #[inline(always)]
    fn line(&self, row: usize) -> [f64; N] {
        let mut out = [0.0; N];
        for (out, numbers) in out.iter_mut().zip(&self.params.table[self.k..self.k + N]) {
            *out = numbers[row];
        }
        out
    }

    /// Takes the clusters k, k + 1, ..., k + N − 1.
    #[inline(always)]
    fn load(&mut self, k: usize) {
        self.k = k;
        self.kept.clear();
        self.end = 0;
        let (rows, d) = (self.rows, self.rows.d);
        self.factor.resize(rows.triangle(), [0.0; N]);
        self.turned.resize(d, [0.0; N]);
        self.turned_effects.resize(d * rows.effects, [0.0; N]);
        self.ln_theta.resize(rows.effects, [0.0; N]);
        for lane in 0..N {
            let numbers = &self.params.table[k + lane];
            let parts: [(&mut [[f64; N]], usize); 5] = [
                (&mut self.factor, rows.factor(0, 0)),
                (&mut self.turned, rows.turned(0)),
                (&mut self.turned_effects, rows.turned_effect(0, 0)),
                (&mut self.ln_theta, rows.ln_theta(0)),
                (std::slice::from_mut(&mut self.constant), rows.constant()),
            ];
            for (part, first) in parts {
                for (to, from) in part.iter_mut().zip(&numbers[first..]) {
                    to[lane] = *from;
                }
            }
        }
    }

    #[inline(always)]
    fn of(&mut self, cell: &Cell<'_>) -> [f64; N] {
        let d = self.rows.d;
        let mut ln = [cell.units; N];
        for &a in cell.known {
            let ln_p = self.ln_theta[a];
            for lane in 0..N {
                ln[lane] += ln_p[lane];
            }
        }
        if cell.missing.len() == d {
            return ln;
        }
        self.entries.clear();
        for j in 0..d {
            // By value: sums in memory would wait for each other.
            let mut entry = [0.0; N];
            let mut start = j * (j + 1) / 2 + j;
            for (i, &z) in cell.z.iter().enumerate().skip(j) {
                let factor = self.factor[start];
                for lane in 0..N {
                    entry[lane] += z * factor[lane];
                }
                start += i + 1;
            }
            let turned = self.turned[j];
            for lane in 0..N {
                entry[lane] -= turned[lane];
            }
            for &a in cell.known {
                let turned = self.turned_effects[a * d + j];
                for lane in 0..N {
                    entry[lane] -= turned[lane];
                }
            }
            self.entries.push(entry);
        }
        let constant = self.constant;
        for lane in 0..N {
            ln[lane] += constant[lane];
        }
        let mut first = 0;
        if !cell.missing.is_empty() {
            let half_ln_det;
            (first, half_ln_det) = self.factor_missing(cell);
            let m = cell.missing.len() as f64 * LN_SQRT_2PI;
            for lane in 0..N {
                ln[lane] += m - half_ln_det[lane];
            }
        }
        if cell.ways.columns.is_empty() {
            let squares = self.squares(cell, first, false);
            for lane in 0..N {
                ln[lane] -= 0.5 * squares[lane];
            }
            return ln;
        }
        let sum = self.over_ways(cell, first);
        for lane in 0..N {
            ln[lane] += sum[lane];
        }
        ln
    }

    /// Logarithms of the sums over all ways to choose the missing levels.
    #[inline(always)]
    fn over_ways(&mut self, cell: &Cell<'_>, first: usize) -> [f64; N] {
        let d = self.rows.d;
        self.logs.clear();
        let mut largest = [f64::NEG_INFINITY; N];
        for way in 0..cell.ways.n() {
            self.shifted.clone_from(&self.entries);
            let mut term = [0.0; N];
            for &a in cell.ways.way(way) {
                let ln_p = self.ln_theta[a];
                for lane in 0..N {
                    term[lane] += ln_p[lane];
                }
                add_scaled(&mut self.shifted, -1.0, &self.turned_effects[a * d..][..d]);
            }
            let squares = self.squares(cell, first, true);
            for lane in 0..N {
                term[lane] -= 0.5 * squares[lane];
                largest[lane] = largest[lane].max(term[lane]);
            }
            self.logs.push(term);
        }
        let mut sums = [0.0; N];
        for term in &self.logs {
            for lane in 0..N {
                sums[lane] += exp_below_zero(term[lane] - largest[lane]);
            }
        }
        for lane in 0..N {
            largest[lane] += ln_positive(sums[lane]);
        }
        largest
    }

    /// Factors the block of the precision that belongs to the missing coordinates, unless it is there; where the factor begins, and half of ln det.
    #[inline(always)]
    fn factor_missing(&mut self, cell: &Cell<'_>) -> (usize, [f64; N]) {
        if let Some(Some(kept)) = self.kept.get(cell.gap) {
            return *kept;
        }
        let first = self.end;
        self.of_missing.truncate(first);
        let mut half_ln_det = [0.0; N];
        for (a, &i) in cell.missing.iter().enumerate() {
            let start = first + a * (a + 1) / 2;
            for (b, &j) in cell.missing[..=a].iter().enumerate() {
                let mut sum = self.line(self.rows.precision(i, j));
                let before = first + b * (b + 1) / 2;
                let taken = products(
                    &self.of_missing[start..start + b],
                    &self.of_missing[before..before + b],
                );
                for lane in 0..N {
                    sum[lane] -= taken[lane];
                }
                if a == b {
                    for lane in 0..N {
                        sum[lane] = sum[lane].max(1e-200).sqrt();
                        half_ln_det[lane] += sum[lane].ln();
                    }
                } else {
                    let pivot = self.of_missing[before + b];
                    for lane in 0..N {
                        sum[lane] /= pivot[lane];
                    }
                }
                self.of_missing.push(sum);
            }
        }
        if cell.gap < MOST_GAPS {
            let length = self.kept.len().max(cell.gap + 1);
            self.kept.resize(length, None);
            self.kept[cell.gap] = Some((first, half_ln_det));
            self.end = self.of_missing.len();
        }
        (first, half_ln_det)
    }

    /// Squared length of the entries less what the missing coordinates, at their best, take away.
    #[inline(always)]
    fn squares(&mut self, cell: &Cell<'_>, first: usize, shifted: bool) -> [f64; N] {
        let entries = if shifted {
            &self.shifted
        } else {
            &self.entries
        };
        let mut squares = products(entries, entries);
        self.pull.clear();
        for (a, &i) in cell.missing.iter().enumerate() {
            let line = i * (i + 1) / 2;
            let mut pull = products(&self.factor[line..=line + i], &entries[..=i]);
            let start = first + a * (a + 1) / 2;
            let taken = products(&self.of_missing[start..start + a], &self.pull);
            let pivot = self.of_missing[start + a];
            for lane in 0..N {
                pull[lane] = (pull[lane] - taken[lane]) / pivot[lane];
                squares[lane] -= pull[lane] * pull[lane];
            }
            self.pull.push(pull);
        }
        squares
    }
}
