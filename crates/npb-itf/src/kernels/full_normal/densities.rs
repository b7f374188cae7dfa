//! ln p(cell | cluster) of numbers and levels that depend on each other, clusters side by side.

use npb_priors::special::LN_SQRT_2PI;

use super::{FullNormal, FullNormalData, FullNormalParams, Rows, Ways};

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
    fn call(self) {
        let n = self.n_clusters;
        let whole = n - n % 4;
        let (mut wide, mut narrow) = (Lanes::<4>::default(), Lanes::<1>::default());
        let rows = self.out.len() / n;
        let cell = |offset: usize| {
            let row = self.first + offset;
            let seen = self.data.is_seen(row);
            seen.then(|| Cell::new(self.kernel, self.params, self.data, row, n))
        };
        // Rows innermost: the numbers of four clusters stay in the cache.
        for k in (0..whole).step_by(4) {
            for row in 0..rows {
                let ln = match cell(row) {
                    Some(cell) => wide.of(&cell, k),
                    None => [0.0; 4],
                };
                self.out[row * n + k..][..4].copy_from_slice(&ln);
            }
        }
        for k in whole..n {
            for row in 0..rows {
                self.out[row * n + k] = cell(row).map_or(0.0, |cell| narrow.of(&cell, k)[0]);
            }
        }
    }
}

/// One cell.
struct Cell<'a> {
    rows: Rows,
    params: &'a FullNormalParams,
    n: usize,
    /// 0 where missing: any number there gives the same density.
    z: &'a [f64],
    missing: &'a [usize],
    units: f64,
    /// Effects of observed levels.
    known: &'a [usize],
    /// All ways to choose the missing levels.
    ways: &'a Ways,
}

impl<'a> Cell<'a> {
    fn new(
        kernel: &FullNormal,
        params: &'a FullNormalParams,
        data: &'a FullNormalData,
        row: usize,
        n: usize,
    ) -> Self {
        Self {
            rows: kernel.rows(),
            params,
            n,
            z: data.numbers(row),
            missing: &data.missing[row],
            units: data.units[row],
            known: &data.known[row],
            ways: &data.ways[data.open[row]],
        }
    }
}

/// Memory for N clusters side by side.
#[derive(Default)]
struct Lanes<const N: usize> {
    entries: Vec<[f64; N]>,
    shifted: Vec<[f64; N]>,
    factor: Vec<[f64; N]>,
    pull: Vec<[f64; N]>,
    logs: Vec<[f64; N]>,
}

impl<const N: usize> Lanes<N> {
    /// Clusters k, k + 1, ..., k + N − 1.
    #[inline(always)]
    fn of(&mut self, cell: &Cell<'_>, k: usize) -> [f64; N] {
        let rows = cell.rows;
        let line = |row: usize| -> &[f64; N] {
            (cell.params.table.row(row, cell.n)[k..k + N])
                .try_into()
                .expect("N numbers")
        };
        let mut ln = [cell.units; N];
        for &a in cell.known {
            let ln_p = cell.params.table.row(rows.ln_theta(a), cell.n);
            for lane in 0..N {
                ln[lane] += ln_p[k + lane];
            }
        }
        let all_missing = cell.missing.len() == rows.d;
        if all_missing {
            return ln;
        }
        self.entries.clear();
        self.entries.resize(rows.d, [0.0; N]);
        for (i, &z) in cell.z.iter().enumerate() {
            // Missing ones are 0 as well.
            if z == 0.0 {
                continue;
            }
            for (j, entry) in self.entries[..=i].iter_mut().enumerate() {
                let factor = line(rows.factor(i, j));
                for lane in 0..N {
                    entry[lane] += factor[lane] * z;
                }
            }
        }
        for (j, entry) in self.entries.iter_mut().enumerate() {
            let turned = line(rows.turned(j));
            for lane in 0..N {
                entry[lane] -= turned[lane];
            }
            for &a in cell.known {
                let turned = line(rows.turned_effect(a, j));
                for lane in 0..N {
                    entry[lane] -= turned[lane];
                }
            }
        }
        let constant = line(rows.constant());
        for lane in 0..N {
            ln[lane] += constant[lane];
        }
        if !cell.missing.is_empty() {
            let half_ln_det = self.factor_missing(cell, &line);
            let m = cell.missing.len() as f64 * LN_SQRT_2PI;
            for lane in 0..N {
                ln[lane] += m - half_ln_det[lane];
            }
        }
        if cell.ways.columns.is_empty() {
            let squares = self.squares(cell, &line, false);
            for lane in 0..N {
                ln[lane] -= 0.5 * squares[lane];
            }
            return ln;
        }
        self.logs.clear();
        let mut largest = [f64::NEG_INFINITY; N];
        for way in (0..cell.ways.n()).map(|way| cell.ways.way(way)) {
            self.shifted.clone_from(&self.entries);
            let mut term = [0.0; N];
            for &a in way {
                let ln_p = cell.params.table.row(rows.ln_theta(a), cell.n);
                for lane in 0..N {
                    term[lane] += ln_p[k + lane];
                }
                for (j, entry) in self.shifted.iter_mut().enumerate() {
                    let turned = line(rows.turned_effect(a, j));
                    for lane in 0..N {
                        entry[lane] -= turned[lane];
                    }
                }
            }
            let squares = self.squares(cell, &line, true);
            for lane in 0..N {
                term[lane] -= 0.5 * squares[lane];
                largest[lane] = largest[lane].max(term[lane]);
            }
            self.logs.push(term);
        }
        for lane in 0..N {
            let sum: f64 = (self.logs.iter())
                .map(|term| (term[lane] - largest[lane]).exp())
                .sum();
            ln[lane] += largest[lane] + sum.ln();
        }
        ln
    }

    /// Factors the block of the precision that belongs to the missing coordinates; half of ln det.
    #[inline(always)]
    fn factor_missing<'a>(
        &mut self,
        cell: &Cell<'_>,
        line: &impl Fn(usize) -> &'a [f64; N],
    ) -> [f64; N] {
        self.factor.clear();
        let mut half_ln_det = [0.0; N];
        for (a, &i) in cell.missing.iter().enumerate() {
            let start = a * (a + 1) / 2;
            for (b, &j) in cell.missing[..=a].iter().enumerate() {
                let mut sum = *line(cell.rows.precision(i, j));
                for c in 0..b {
                    let (x, y) = (self.factor[start + c], self.factor[b * (b + 1) / 2 + c]);
                    for lane in 0..N {
                        sum[lane] -= x[lane] * y[lane];
                    }
                }
                if a == b {
                    for lane in 0..N {
                        sum[lane] = sum[lane].max(1e-200).sqrt();
                        half_ln_det[lane] += sum[lane].ln();
                    }
                } else {
                    let pivot = self.factor[b * (b + 1) / 2 + b];
                    for lane in 0..N {
                        sum[lane] /= pivot[lane];
                    }
                }
                self.factor.push(sum);
            }
        }
        half_ln_det
    }

    /// Squared length of the entries less what the missing coordinates, at their best, take away.
    #[inline(always)]
    fn squares<'a>(
        &mut self,
        cell: &Cell<'_>,
        line: &impl Fn(usize) -> &'a [f64; N],
        shifted: bool,
    ) -> [f64; N] {
        let entries = if shifted {
            &self.shifted
        } else {
            &self.entries
        };
        let mut squares = [0.0; N];
        for entry in entries {
            for lane in 0..N {
                squares[lane] += entry[lane] * entry[lane];
            }
        }
        self.pull.clear();
        for (a, &i) in cell.missing.iter().enumerate() {
            let mut pull = [0.0; N];
            for (j, entry) in entries[..=i].iter().enumerate() {
                let factor = line(cell.rows.factor(i, j));
                for lane in 0..N {
                    pull[lane] += factor[lane] * entry[lane];
                }
            }
            let start = a * (a + 1) / 2;
            for (b, before) in self.pull.iter().enumerate() {
                let factor = self.factor[start + b];
                for lane in 0..N {
                    pull[lane] -= factor[lane] * before[lane];
                }
            }
            let pivot = self.factor[start + a];
            for lane in 0..N {
                pull[lane] /= pivot[lane];
                squares[lane] -= pull[lane] * pull[lane];
            }
            self.pull.push(pull);
        }
        squares
    }
}
