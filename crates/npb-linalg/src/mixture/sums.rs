//! Weighted sums over rows. Rows with missing features are completed by each component in its own way; those without are in [`CompleteSums`].

use faer::{Mat, Scale};
use pulp::{Arch, Simd, WithSimd};

use super::complete_sums::{CompleteRows, CompleteSums};
use super::deviations::Quadratics;
use super::memory::Memory;
use super::memory::padded;
use super::moments::Moments;

/// Factors of a row that are multiplied with its features together.
const TILE: usize = 6;

/// Registers of features that go with them: twelve independent sums hide the latency of an addition and fit the registers.
const WINDOW: usize = 2;

/// Completed rows that are added in one go.
#[derive(Clone, Copy, Debug)]
pub struct Weighted<'a> {
    /// Rows of features, padded with zeros.
    pub rows: &'a [f64],
    /// Number of rows.
    pub n_rows: usize,
    /// `<t>`: the utilities of row `i` from `i * soft_stride` on; none of unlabelled rows, at stride 0.
    pub soft: &'a [f64],
    /// See `soft`.
    pub soft_stride: usize,
    /// Responsibilities of the component: of row `i` at `i * lanes`.
    pub weights: &'a [f64],
    /// Distance of a row's weight from that of the row before.
    pub lanes: usize,
}

/// What labels add to the moments of rows that share a missing pattern, beyond those of their completed rows: `Cov(t, x_m) = u Var t` and
/// `Cov(x_m) = ... + u u' Var t`.
#[derive(Clone, Copy, Debug)]
pub struct LabelSpread<'a> {
    /// Missing features.
    pub missing: &'a [usize],
    /// `sum rho Var t`, by lane.
    pub weight: &'a [f64],
    /// `u`: missing feature, lane.
    pub tilt: &'a [f64],
}

/// Covariances of missing features of which only the inverses over the observed ones are summed: with `S = L_h^-1` and zeros where nothing is missing
/// `Omega^ = S - S pad(S_oo^-1) S`, so that the products with `S` need be made once for all patterns.
#[derive(Debug, Default)]
struct Reduction {
    /// `sum rho`, by lane.
    weight: Vec<f64>,
    /// `sum rho pad(S_oo^-1)`: lower triangle row by row, lanes innermost.
    inverses: Memory,
}

impl Reduction {
    fn zeros(n_features: usize, lanes: usize) -> Self {
        Self {
            weight: vec![0.0; lanes],
            inverses: Memory::zeros(packed(n_features, 0) * lanes),
        }
    }

    /// `sum rho Omega^` of component `h`, whose covariance matrix is `S`.
    fn covariance(&self, h: usize, s: &Mat<f64>) -> Mat<f64> {
        let (p, lanes) = (s.nrows(), self.weight.len());
        let inverse = Mat::from_fn(p, p, |i, j| {
            self.inverses.part(packed(i.max(j), i.min(j)), lanes)[h]
        });
        s * Scale(self.weight[h]) - s * inverse * s
    }
}

/// Sums of all components, over labelled or over unlabelled rows.
#[derive(Debug)]
pub struct Sums {
    arch: Arch,
    n_features: usize,
    n_components: usize,
    n_utilities: usize,
    /// Sums of complete rows; none until there is one. What follows is of rows with missing features.
    complete: Option<CompleteSums>,
    /// `sum rho`.
    weight: Vec<f64>,
    /// `sum rho <t>`: component, utility.
    soft: Vec<f64>,
    /// Component, factor, feature: `sum (factor of the row) x^`. Of the products of features only those with a feature not far below are summed.
    products: Memory,
    /// `sum rho Omega^`: lower triangle row by row, lanes innermost.
    covariance: Memory,
    /// `sum rho Cov(t, x)`: feature, lane.
    label_covariance: Memory,
    /// What is still missing of `covariance`, until [`Self::finalise`].
    reduction: Option<Reduction>,
    /// Some row has missing features; until then the three above are empty.
    missing: bool,
    /// Positions and factors of the rows at hand.
    active: Vec<usize>,
    factors: Vec<f64>,
}

fn packed(i: usize, j: usize) -> usize {
    i * (i + 1) / 2 + j
}

impl Sums {
    /// Of no rows.
    pub fn new(n_features: usize, n_components: usize, n_utilities: usize) -> Self {
        Self {
            arch: Arch::new(),
            n_features,
            n_components,
            n_utilities,
            complete: None,
            weight: vec![0.0; n_components],
            soft: vec![0.0; n_components * n_utilities],
            products: Memory::default(),
            covariance: Memory::default(),
            label_covariance: Memory::default(),
            reduction: None,
            missing: false,
            active: Vec::new(),
            factors: Vec::new(),
        }
    }

    /// Adds complete rows.
    pub fn add_complete(&mut self, rows: &CompleteRows<'_>) {
        let (p, n, k) = (self.n_features, self.n_components, self.n_utilities);
        self.complete
            .get_or_insert_with(|| CompleteSums::new(p, n, k))
            .add(rows);
    }

    /// Makes room for rows with missing features.
    fn open(&mut self) {
        if !self.missing {
            self.missing = true;
            self.products = Memory::zeros(self.n_components * self.size());
            let lanes = padded(self.n_components);
            self.covariance = Memory::zeros(packed(self.n_features, 0) * lanes);
            self.label_covariance = Memory::zeros(self.n_features * lanes);
        }
    }

    /// The first factors of a row are its weight and its weight times each `<t>`; the weighted features follow.
    fn extra(&self) -> usize {
        1 + self.n_utilities
    }

    /// Factors of a row, padded.
    fn n_factors(&self) -> usize {
        (self.extra() + self.n_features).next_multiple_of(TILE)
    }

    /// Numbers for one component.
    fn size(&self) -> usize {
        self.n_factors() * padded(self.n_features)
    }

    /// Adds the completed rows in which component `h` is active.
    pub fn add(&mut self, h: usize, block: &Weighted<'_>) {
        self.open();
        let (size, n_factors) = (self.size(), self.n_factors());
        self.active.resize(block.n_rows, 0);
        let (mut count, mut weights) = (0, 0.0);
        let rows = block.weights.chunks(block.lanes).take(block.n_rows);
        for (i, row) in rows.enumerate() {
            weights += row[0];
            // Without a branch, which could not be foreseen.
            self.active[count] = i;
            count += usize::from(row[0] > 0.0);
        }
        self.weight[h] += weights;
        for k in 0..self.n_utilities {
            let soft = block.soft.iter().skip(k).step_by(block.soft_stride);
            let each = block.weights.chunks(block.lanes).zip(soft);
            let sum: f64 = each.map(|(row, soft)| row[0] * soft).sum();
            self.soft[h * self.n_utilities + k] += sum;
        }
        if count == 0 {
            return;
        }
        let extra = self.extra();
        self.factors.resize(block.n_rows * n_factors, 0.0);
        self.arch.dispatch(AddProducts {
            block,
            active: &self.active[..count],
            n_features: self.n_features,
            extra,
            n_factors,
            factors: &mut self.factors,
            sums: self.products.part_mut(h, size),
        });
    }

    /// Adds `weight[h] Omega^_h` of a pattern (`covariance`: |m| x |m| x lanes).
    pub fn add_covariance(&mut self, missing: &[usize], weight: &[f64], covariance: &[f64]) {
        let (p, lanes) = (self.n_features, weight.len());
        self.open();
        self.arch.dispatch(AddCovariance {
            missing,
            weight,
            covariance,
            sums: self.covariance.get_mut(packed(p, 0) * lanes),
        });
    }

    /// As [`Self::add_covariance`], from `S_oo^-1` (`inverse`: |o| x |o| x lanes): see `Reduction`.
    pub fn add_reduced(&mut self, observed: &[usize], weight: &[f64], inverse: &[f64]) {
        let (p, lanes) = (self.n_features, weight.len());
        self.open();
        let reduction = self
            .reduction
            .get_or_insert_with(|| Reduction::zeros(p, lanes));
        let sums = reduction.weight.iter_mut().zip(weight);
        sums.for_each(|(sum, weight)| *sum += weight);
        self.arch.dispatch(AddCovariance {
            missing: observed,
            weight,
            covariance: inverse,
            sums: reduction.inverses.get_mut(packed(p, 0) * lanes),
        });
    }

    /// Completes the covariances, when all rows are in.
    pub fn finalise(&mut self, quadratics: &Quadratics) {
        let Some(reduction) = self.reduction.take() else {
            return;
        };
        let lanes = reduction.weight.len();
        let sums = self.covariance.get_mut(packed(self.n_features, 0) * lanes);
        let seen = (0..self.n_components).filter(|&h| reduction.weight[h] > 0.0);
        for h in seen {
            let covariance = reduction.covariance(h, &quadratics.covariance(h));
            for i in 0..self.n_features {
                for j in 0..=i {
                    sums[packed(i, j) * lanes + h] += covariance[(i, j)];
                }
            }
        }
    }

    /// Adds what labels add to second moments.
    pub fn add_label_spread(&mut self, spread: &LabelSpread<'_>) {
        let (p, lanes) = (self.n_features, spread.weight.len());
        self.open();
        self.arch.dispatch(AddLabelSpread {
            spread,
            covariance: self.covariance.get_mut(packed(p, 0) * lanes),
            with_label: self.label_covariance.get_mut(p * lanes),
        });
    }

    /// Adds the sums of other rows.
    pub fn merge(&mut self, other: Self) {
        let add = |to: &mut [f64], from: &[f64]| {
            for (to, from) in to.iter_mut().zip(from) {
                *to += from;
            }
        };
        match (self.complete.as_mut(), other.complete) {
            (Some(complete), Some(other)) => complete.merge(&other),
            (None, other) => self.complete = other,
            (Some(_), None) => {}
        }
        if other.missing {
            self.open();
            add(&mut self.weight, &other.weight);
            add(&mut self.soft, &other.soft);
            let size = self.n_components * self.size();
            add(self.products.get_mut(size), other.products.get(size));
            let size = packed(self.n_features, 0) * padded(self.n_components);
            add(self.covariance.get_mut(size), other.covariance.get(size));
            let size = self.n_features * padded(self.n_components);
            let from = other.label_covariance.get(size);
            add(self.label_covariance.get_mut(size), from);
            match (self.reduction.as_mut(), other.reduction) {
                (Some(reduction), Some(other)) => {
                    add(&mut reduction.weight, &other.weight);
                    let size = packed(self.n_features, 0) * other.weight.len();
                    add(reduction.inverses.get_mut(size), other.inverses.get(size));
                }
                (None, other) => self.reduction = other,
                (Some(_), None) => {}
            }
        }
    }

    /// A sum over complete rows.
    fn of_complete(&self, sum: impl Fn(&CompleteSums) -> f64) -> f64 {
        self.complete.as_ref().map_or(0.0, sum)
    }

    /// `sum (factor) x_i` of component `h` over rows with missing features.
    fn product(&self, h: usize, factor: usize, i: usize) -> f64 {
        if self.missing {
            self.products.part(h, self.size())[factor * padded(self.n_features) + i]
        } else {
            0.0
        }
    }

    /// `sum rho (x^ x^' + Omega^)` of component `h`.
    fn second(&self, h: usize) -> Mat<f64> {
        let (p, lanes) = (self.n_features, padded(self.n_components));
        let mut second = Mat::zeros(p, p);
        if self.missing {
            let stride = padded(p);
            let products = self.products.part(h, self.size());
            for j in 0..p {
                let products = &products[(self.extra() + j) * stride..][..p];
                let column = second.col_as_slice_mut(j);
                for i in j..p {
                    column[i] = products[i] + self.covariance.part(packed(i, j), lanes)[h];
                }
            }
        }
        for i in 0..p {
            let complete = self.complete.as_ref().map(|sums| sums.squares(h, i));
            for j in 0..=i {
                let value = second[(i, j)] + complete.map_or(0.0, |squares| squares[j]);
                second[(i, j)] = value;
                second[(j, i)] = value;
            }
        }
        second
    }

    /// Weighted moments of all rows.
    pub fn moments(&self) -> Moments {
        let (p, n) = (self.n_features, self.n_components);
        let mut moments = Moments::zeros(p, n);
        if self.complete.is_none() && !self.missing {
            return moments;
        }
        for h in 0..n {
            moments.weight[h] = self.weight[h] + self.of_complete(|complete| complete.weight(h));
            for i in 0..p {
                moments.first[(i, h)] =
                    self.product(h, 0, i) + self.of_complete(|complete| complete.x(h, i));
            }
            moments.second[h] = self.second(h);
        }
        moments
    }

    /// `sum rho Cov(t, x_i)` of component `h`.
    fn label_covariance(&self, h: usize, i: usize) -> f64 {
        if self.missing {
            self.label_covariance.part(i, padded(self.n_components))[h]
        } else {
            0.0
        }
    }

    /// `sum rho <t x^b>`, the intercept last: P+1 rows, a column for each component and utility.
    pub fn soft(&self) -> Mat<f64> {
        let (p, n) = (self.n_features, self.n_utilities);
        Mat::from_fn(p + 1, self.n_components * n, |i, column| {
            let (h, k) = (column / n, column % n);
            if i < p {
                self.product(h, 1 + k, i)
                    + self.label_covariance(h, i)
                    + self.of_complete(|complete| complete.soft_x(h, k, i))
            } else {
                self.soft[column] + self.of_complete(|complete| complete.soft_weight(h, k))
            }
        })
    }
}

/// `sums += weight covariance`, by lane, over the features `missing`.
struct AddCovariance<'a> {
    missing: &'a [usize],
    weight: &'a [f64],
    covariance: &'a [f64],
    sums: &'a mut [f64],
}

impl WithSimd for AddCovariance<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (weight, _) = S::as_simd_f64s(self.weight);
        let (covariance, _) = S::as_simd_f64s(self.covariance);
        let (sums, _) = S::as_mut_simd_f64s(self.sums);
        let (m, n) = (self.missing.len(), weight.len());
        for (k, &i) in self.missing.iter().enumerate() {
            for (l, &j) in self.missing[..=k].iter().enumerate() {
                let to = &mut sums[packed(i, j) * n..][..n];
                let from = &covariance[(k * m + l) * n..][..n];
                for h in 0..n {
                    to[h] = simd.mul_add_e_f64s(weight[h], from[h], to[h]);
                }
            }
        }
    }
}

/// `covariance += weight u u'` and `with_label += weight u`, by lane.
struct AddLabelSpread<'a> {
    spread: &'a LabelSpread<'a>,
    covariance: &'a mut [f64],
    with_label: &'a mut [f64],
}

impl WithSimd for AddLabelSpread<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (weight, _) = S::as_simd_f64s(self.spread.weight);
        let (tilt, _) = S::as_simd_f64s(self.spread.tilt);
        let (covariance, _) = S::as_mut_simd_f64s(self.covariance);
        let (with_label, _) = S::as_mut_simd_f64s(self.with_label);
        let (missing, n) = (self.spread.missing, weight.len());
        for (k, &i) in missing.iter().enumerate() {
            for h in 0..n {
                let weighted = simd.mul_f64s(weight[h], tilt[k * n + h]);
                let to = &mut with_label[i * n + h];
                *to = simd.add_f64s(*to, weighted);
                for (l, &j) in missing[..=k].iter().enumerate() {
                    let to = &mut covariance[packed(i, j) * n + h];
                    *to = simd.mul_add_e_f64s(weighted, tilt[l * n + h], *to);
                }
            }
        }
    }
}

/// `sums += (factors of a row) x (its features)'` over the active rows, in tiles that stay in registers.
struct AddProducts<'a> {
    block: &'a Weighted<'a>,
    active: &'a [usize],
    n_features: usize,
    extra: usize,
    n_factors: usize,
    factors: &'a mut [f64],
    sums: &'a mut [f64],
}

impl WithSimd for AddProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let stride = padded(self.n_features);
        for (factors, &row) in self
            .factors
            .chunks_exact_mut(self.n_factors)
            .zip(self.active)
        {
            let weight = self.block.weights[row * self.block.lanes];
            let x = &self.block.rows[row * stride..][..self.n_features];
            factors[0] = weight;
            let soft = &self.block.soft[row * self.block.soft_stride..];
            for (factor, soft) in factors[1..self.extra].iter_mut().zip(soft) {
                *factor = weight * soft;
            }
            for (factor, x) in factors[self.extra..].iter_mut().zip(x) {
                *factor = weight * x;
            }
        }
        let (rows, _) = S::as_simd_f64s(self.block.rows);
        let (sums, _) = S::as_mut_simd_f64s(self.sums);
        let registers = stride / S::F64_LANES;
        for tile in 0..self.n_factors / TILE {
            // Lower triangle: features below the tile's first one are not wanted.
            let mut first = (tile * TILE).saturating_sub(self.extra) / S::F64_LANES;
            while first < registers {
                let at = At {
                    tile,
                    n_factors: self.n_factors,
                    first,
                    registers,
                };
                if first + WINDOW <= registers {
                    add_tile::<S, WINDOW>(simd, at, self.factors, rows, self.active, sums);
                    first += WINDOW;
                } else {
                    add_tile::<S, 1>(simd, at, self.factors, rows, self.active, sums);
                    first += 1;
                }
            }
        }
    }
}

/// Factors of one tile times some registers of features.
#[derive(Clone, Copy)]
struct At {
    tile: usize,
    n_factors: usize,
    /// First register of features.
    first: usize,
    /// Registers of a row.
    registers: usize,
}

#[inline(always)]
fn add_tile<S: Simd, const N: usize>(
    simd: S,
    at: At,
    factors: &[f64],
    rows: &[S::f64s],
    active: &[usize],
    sums: &mut [S::f64s],
) {
    let place = |t: usize| (at.tile * TILE + t) * at.registers + at.first;
    // From zero, and added to the sums at the end: long sums of short sums round less.
    let mut tile = [[simd.splat_f64s(0.0); N]; TILE];
    for (factors, &row) in factors.chunks_exact(at.n_factors).zip(active) {
        let x: &[S::f64s; N] = rows[row * at.registers + at.first..]
            .first_chunk()
            .expect("padded to whole registers");
        // A reference: what is read from memory into all lanes at once need not go through a register.
        let factors: &[f64; TILE] = factors[at.tile * TILE..]
            .first_chunk()
            .expect("padded to whole tiles");
        for t in 0..TILE {
            let factor = simd.splat_f64s(factors[t]);
            for k in 0..N {
                tile[t][k] = simd.mul_add_e_f64s(factor, x[k], tile[t][k]);
            }
        }
    }
    for t in 0..TILE {
        for (sum, value) in sums[place(t)..][..N].iter_mut().zip(tile[t]) {
            *sum = simd.add_f64s(*sum, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixture::archs;

    /// On every instruction set, for feature counts on both sides of every register width.
    #[test]
    fn sums_are_those_of_plain_loops() {
        for (p, arch) in [0, 1, 2, 3, 5, 6, 8, 9, 15, 16, 17, 26, 34]
            .into_iter()
            .flat_map(|p| archs().into_iter().map(move |arch| (p, arch)))
        {
            let (n, lanes, stride) = (11, 8, padded(p));
            let mut rows = vec![0.0; n * stride];
            let value = |k: usize| (k as f64 * 0.7).sin();
            for i in 0..n {
                (0..p).for_each(|j| rows[i * stride + j] = value(i * p + j));
            }
            // Two utilities, the second the negative of the first.
            let soft: Vec<f64> = (0..n)
                .flat_map(|i| [value(i + 1000), -value(i + 1000)])
                .collect();
            // Component 1 of 3 is active in every other row.
            let weight = |i: usize| {
                if i.is_multiple_of(2) {
                    0.1 + i as f64
                } else {
                    0.0
                }
            };
            let mut weights = vec![0.0; n * lanes];
            (0..n).for_each(|i| weights[i * lanes + 1] = weight(i));
            let covariance: Vec<f64> = (0..4 * lanes).map(|k| (k % (3 * lanes)) as f64).collect();
            let run = |times: usize| {
                let mut sums = Sums::new(p, 3, 2);
                sums.arch = arch;
                for _ in 0..times {
                    let weights = &weights[1..];
                    let (rows, soft) = (&rows, &soft);
                    sums.add(
                        1,
                        &Weighted {
                            n_rows: n,
                            rows,
                            soft,
                            soft_stride: 2,
                            weights,
                            lanes,
                        },
                    );
                    if p > 2 {
                        let weight: Vec<f64> = (0..lanes).map(|h| h as f64).collect();
                        sums.add_covariance(&[0, 2], &weight, &covariance);
                    }
                }
                sums
            };
            let mut sums = run(1);
            sums.merge(run(2));
            let wanted = |f: &dyn Fn(usize) -> f64| 3.0 * (0..n).map(f).sum::<f64>();
            let near = |found: f64, wanted: f64| {
                assert!(
                    (found - wanted).abs() < 1e-11 * (1.0 + wanted.abs()),
                    "P = {p}: {found} {wanted}"
                );
            };
            let (moments, soft_sums) = (sums.moments(), sums.soft());
            let x = |i: usize, j: usize| rows[i * stride + j];
            near(moments.weight[1], wanted(&weight));
            near(soft_sums[(p, 2)], wanted(&|i| weight(i) * soft[2 * i]));
            assert_eq!(soft_sums[(p, 3)], -soft_sums[(p, 2)]);
            for j in 0..p {
                near(moments.first[(j, 1)], wanted(&|i| weight(i) * x(i, j)));
                near(
                    soft_sums[(j, 2)],
                    wanted(&|i| weight(i) * soft[2 * i] * x(i, j)),
                );
                assert_eq!(soft_sums[(j, 3)], -soft_sums[(j, 2)]);
                for k in 0..p {
                    let extra = match (p > 2, j.max(k), j.min(k)) {
                        (true, 0, 0) => 3.0 * covariance[1],
                        (true, 2, 0) => 3.0 * covariance[2 * lanes + 1],
                        (true, 2, 2) => 3.0 * covariance[3 * lanes + 1],
                        _ => 0.0,
                    };
                    near(
                        moments.second[1][(j, k)],
                        wanted(&|i| weight(i) * x(i, j) * x(i, k)) + extra,
                    );
                    assert_eq!(moments.second[0][(j, k)], 0.0);
                }
            }
        }
    }
}
