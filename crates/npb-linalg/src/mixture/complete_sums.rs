//! Weighted sums over complete rows. What a row adds is the same for every component but for its weight, so it is formed once for all of them.

use pulp::{Arch, Simd, WithSimd};

use super::memory::Memory;
use super::memory::padded;
use crate::elementary::vectorised;

/// Components that are summed together: what is loaded of a row serves all of them.
const GROUP: usize = 4;

/// Numbers that are formed together.
const CHUNK: usize = 8;

fn packed(i: usize, j: usize) -> usize {
    i * (i + 1) / 2 + j
}

/// Complete rows of one block.
#[derive(Clone, Copy, Debug)]
pub struct CompleteRows<'a> {
    /// Number of rows.
    pub n_rows: usize,
    /// Row-major.
    pub features: &'a [f64],
    /// `<t>`: row, utility.
    pub soft: &'a [f64],
    /// Responsibilities: component, row.
    pub weights: &'a [f64],
    /// Length of a row of them.
    pub stride: usize,
}

/// `sum rho z` for all components, with `z = [x x' (lower triangle, row by row), x, <t_1> x, <t_2> x, ..., 1, <t_1>, <t_2>, ...]`.
#[derive(Debug)]
pub(super) struct CompleteSums {
    arch: Arch,
    n_features: usize,
    n_components: usize,
    n_utilities: usize,
    /// Component (whole groups), product.
    sums: Memory,
    /// Row, product.
    products: Memory,
    /// One row of features, padded.
    row: Memory,
    /// By group of components: the rows in which one of them is active, and their weights there.
    active: Vec<Vec<usize>>,
    factors: Vec<Vec<[f64; GROUP]>>,
}

impl CompleteSums {
    pub(super) fn new(n_features: usize, n_components: usize, n_utilities: usize) -> Self {
        let groups = n_components.div_ceil(GROUP);
        let mut shared = Self {
            arch: Arch::new(),
            n_features,
            n_components,
            n_utilities,
            sums: Memory::default(),
            products: Memory::default(),
            row: Memory::zeros(padded(n_features)),
            active: vec![Vec::new(); groups],
            factors: vec![Vec::new(); groups],
        };
        shared.sums = Memory::zeros(groups * GROUP * shared.len());
        shared
    }

    /// Position of `x` among the products.
    fn first(&self) -> usize {
        packed(self.n_features, 0)
    }

    /// Number of products, padded.
    fn len(&self) -> usize {
        padded(self.one() + 1 + self.n_utilities)
    }

    /// Position of 1 among the products.
    fn one(&self) -> usize {
        self.first() + (1 + self.n_utilities) * self.n_features
    }

    fn sum(&self, h: usize, product: usize) -> f64 {
        self.sums.part(h, self.len())[product]
    }

    pub(super) fn weight(&self, h: usize) -> f64 {
        self.sum(h, self.one())
    }

    /// `sum rho <t_k>`.
    pub(super) fn soft_weight(&self, h: usize, k: usize) -> f64 {
        self.sum(h, self.one() + 1 + k)
    }

    /// `sum rho x_i`.
    pub(super) fn x(&self, h: usize, i: usize) -> f64 {
        self.sum(h, self.first() + i)
    }

    /// `sum rho <t_k> x_i`.
    pub(super) fn soft_x(&self, h: usize, k: usize, i: usize) -> f64 {
        self.sum(h, self.first() + (1 + k) * self.n_features + i)
    }

    /// `sum rho x_i x_j` for j from 0 to i.
    pub(super) fn squares(&self, h: usize, i: usize) -> &[f64] {
        &self.sums.part(h, self.len())[packed(i, 0)..][..=i]
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let size = self.n_components * self.len();
        let to = self.sums.get_mut(size);
        for (to, from) in to.iter_mut().zip(other.sums.get(size)) {
            *to += from;
        }
    }

    pub(super) fn add(&mut self, rows: &CompleteRows<'_>) {
        self.form_products(rows);
        self.find_active(rows);
        let len = self.len();
        self.arch.dispatch(AddProducts {
            len,
            products: self.products.get(rows.n_rows * len),
            active: &self.active,
            factors: &self.factors,
            sums: self.sums.get_mut(self.active.len() * GROUP * len),
        });
    }

    fn form_products(&mut self, rows: &CompleteRows<'_>) {
        let (p, n, len) = (self.n_features, rows.n_rows, self.len());
        let k = self.n_utilities;
        // The last row's last chunk may end past its products.
        self.products.reserve(n * len + CHUNK);
        let products = self.products.get_mut(n * len + CHUNK);
        let x = self.row.get_mut(padded(p));
        vectorised(
            self.arch,
            #[inline(always)]
            || {
                for i in 0..n {
                    load_row(&rows.features[i * p..][..p], x);
                    form_row(p, x, &rows.soft[i * k..][..k], &mut products[i * len..]);
                }
            },
        );
    }

    /// Lists the rows that are active in each group of components.
    fn find_active(&mut self, rows: &CompleteRows<'_>) {
        let n = rows.n_rows;
        let groups = self.active.iter_mut().zip(&mut self.factors);
        for (group, (active, factors)) in groups.enumerate() {
            active.resize(n, 0);
            factors.resize(n, [0.0; GROUP]);
            // A last group that is not full takes its last component along with weight zero.
            let component = |k: usize| (group * GROUP + k).min(self.n_components - 1);
            let present: [f64; GROUP] = std::array::from_fn(|k| {
                if group * GROUP + k < self.n_components {
                    1.0
                } else {
                    0.0
                }
            });
            let weights: [&[f64]; GROUP] =
                std::array::from_fn(|k| &rows.weights[component(k) * rows.stride..][..n]);
            let mut count = 0;
            for i in 0..n {
                let factor: [f64; GROUP] = std::array::from_fn(|k| present[k] * weights[k][i]);
                let total: f64 = factor.iter().sum();
                // Without a branch, which could not be foreseen.
                active[count] = i;
                factors[count] = factor;
                count += usize::from(total > 0.0);
            }
            active.truncate(count);
            factors.truncate(count);
        }
    }
}

/// The products of one row, in whole chunks. A chunk that ends past its row of the triangle, or past its part, spoils what is written after it.
#[inline(always)]
fn form_row(p: usize, x: &[f64], soft: &[f64], to: &mut [f64]) {
    let (chunks, _) = x.as_chunks::<CHUNK>();
    let mut write = |first: usize, factor: f64, x: &[f64; CHUNK]| {
        let to: &mut [f64; CHUNK] = to[first..].first_chunk_mut().expect("room for a chunk");
        for k in 0..CHUNK {
            to[k] = factor * x[k];
        }
    };
    // The first features last: where a row of the triangle ends, those of the next one begin.
    for (c, chunk) in chunks.iter().enumerate().rev() {
        let first = c * CHUNK;
        let mut row = packed(first, 0);
        for i in first..p {
            write(row + first, x[i], chunk);
            row += i + 1;
        }
    }
    let mut end = packed(p, 0);
    for factor in std::iter::once(&1.0).chain(soft) {
        for (c, chunk) in chunks.iter().enumerate() {
            write(end + c * CHUNK, *factor, chunk);
        }
        end += p;
    }
    let mut last = [0.0; CHUNK];
    last[0] = 1.0;
    let (first, rest) = soft.split_at(soft.len().min(CHUNK - 1));
    last[1..=first.len()].copy_from_slice(first);
    write(end, 1.0, &last);
    for (c, soft) in rest.chunks(CHUNK).enumerate() {
        last = [0.0; CHUNK];
        last[..soft.len()].copy_from_slice(soft);
        write(end + (c + 1) * CHUNK, 1.0, &last);
    }
}

/// `x`, padded, from one row of features; for short rows, for which a general copy takes long.
#[inline(always)]
fn load_row(features: &[f64], x: &mut [f64]) {
    let (chunks, rest) = features.as_chunks::<CHUNK>();
    let (to, _) = x.as_chunks_mut::<CHUNK>();
    for (to, from) in to.iter_mut().zip(chunks) {
        *to = *from;
    }
    for (to, from) in x[features.len() - rest.len()..].iter_mut().zip(rest) {
        *to = *from;
    }
}

/// `sums += weights x products` over the active rows, in tiles that stay in registers.
struct AddProducts<'a> {
    len: usize,
    products: &'a [f64],
    active: &'a [Vec<usize>],
    factors: &'a [Vec<[f64; GROUP]>],
    sums: &'a mut [f64],
}

impl WithSimd for AddProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let registers = self.len / S::F64_LANES;
        let (products, _) = S::as_simd_f64s(self.products);
        let (sums, _) = S::as_mut_simd_f64s(self.sums);
        // As many sums as there are registers for; the window of products stays in the first-level cache for all groups.
        let wide = if S::F64_LANES < CHUNK { 2 } else { 4 };
        let mut first = 0;
        while first < registers {
            let left = registers - first;
            let window = if left >= wide { wide } else { 1 };
            let groups = self.active.iter().zip(self.factors);
            for ((active, factors), sums) in groups.zip(sums.chunks_exact_mut(GROUP * registers)) {
                let at = At { first, registers };
                match window {
                    4 => add_tile::<S, 4>(simd, at, products, active, factors, sums),
                    2 => add_tile::<S, 2>(simd, at, products, active, factors, sums),
                    _ => add_tile::<S, 1>(simd, at, products, active, factors, sums),
                }
            }
            first += window;
        }
    }
}

/// A window of products.
#[derive(Clone, Copy)]
struct At {
    first: usize,
    /// Registers of a row of products.
    registers: usize,
}

#[inline(always)]
fn add_tile<S: Simd, const N: usize>(
    simd: S,
    at: At,
    products: &[S::f64s],
    active: &[usize],
    factors: &[[f64; GROUP]],
    sums: &mut [S::f64s],
) {
    // From zero, and added to the sums at the end: long sums of short sums round less.
    let mut tile = [[simd.splat_f64s(0.0); N]; GROUP];
    for (factors, &row) in factors.iter().zip(active) {
        let z: &[S::f64s; N] = products[row * at.registers + at.first..]
            .first_chunk()
            .expect("padded to whole registers");
        for c in 0..GROUP {
            let factor = simd.splat_f64s(factors[c]);
            for k in 0..N {
                tile[c][k] = simd.mul_add_e_f64s(factor, z[k], tile[c][k]);
            }
        }
    }
    for c in 0..GROUP {
        let to = &mut sums[c * at.registers + at.first..][..N];
        for (sum, value) in to.iter_mut().zip(tile[c]) {
            *sum = simd.add_f64s(*sum, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixture::archs;

    /// On every instruction set, for feature counts on both sides of every register width; one group of components is not full.
    #[test]
    fn sums_are_those_of_plain_loops() {
        for (p, arch) in [0, 1, 2, 3, 5, 7, 8, 9, 16, 17, 34]
            .into_iter()
            .flat_map(|p| archs().into_iter().map(move |arch| (p, arch)))
        {
            let (n, stride, components) = (11, 16, 6);
            let value = |k: usize| (k as f64 * 0.7).sin();
            let features: Vec<f64> = (0..n * p).map(value).collect();
            // So many that the last numbers of a row do not fit into one register.
            let utilities = 9;
            let soft: Vec<f64> = (0..n * utilities).map(|i| value(i + 1000)).collect();
            // Component 5 is active in every other row, component 2 nowhere.
            let weight = |h: usize, i: usize| match h {
                2 => 0.0,
                5 if i % 2 == 1 => 0.0,
                _ => 0.1 + (h * n + i) as f64,
            };
            let mut weights = vec![f64::NAN; components * stride];
            for h in 0..components {
                (0..n).for_each(|i| weights[h * stride + i] = weight(h, i));
            }
            let run = |times: usize| {
                let mut sums = CompleteSums::new(p, components, utilities);
                sums.arch = arch;
                for _ in 0..times {
                    sums.add(&CompleteRows {
                        n_rows: n,
                        features: &features,
                        soft: &soft,
                        weights: &weights,
                        stride,
                    });
                }
                sums
            };
            let mut sums = run(1);
            sums.merge(&run(2));
            for h in 0..components {
                let wanted = |f: &dyn Fn(usize) -> f64| {
                    3.0 * (0..n).map(|i| weight(h, i) * f(i)).sum::<f64>()
                };
                let near = |found: f64, wanted: f64| {
                    let error = (found - wanted).abs() / (1.0 + wanted.abs());
                    assert!(error < 1e-11, "P = {p}, {h}: {found} {wanted}");
                };
                let x = |i: usize, j: usize| features[i * p + j];
                near(sums.weight(h), wanted(&|_| 1.0));
                for k in 0..utilities {
                    let soft = |i: usize| soft[i * utilities + k];
                    near(sums.soft_weight(h, k), wanted(&soft));
                    for j in 0..p {
                        near(sums.soft_x(h, k, j), wanted(&|i| soft(i) * x(i, j)));
                    }
                }
                for j in 0..p {
                    near(sums.x(h, j), wanted(&|i| x(i, j)));
                    for k in 0..=j {
                        near(sums.squares(h, j)[k], wanted(&|i| x(i, j) * x(i, k)));
                    }
                }
            }
        }
    }
}
