//! Products of a row with weights, in vector registers, and the order of visits.
//!
//! Loops here are `for` loops: a closure that the compiler does not inline loses the registers, and each product becomes a call.

use npb_infer::stream;
use pulp::Simd;
use rand::seq::SliceRandom;

use crate::inputs::{Inputs, Rows};

/// Second word of the keys of the streams of this module.
const ORDER: u64 = 0x6d61_6368;

/// Why classes do not come with inner products of rows.
const ONE_SCORE: &str = "products of rows are for targets of one score";

/// Puts the rows of one round in a new order.
pub(super) fn shuffle(rows: &mut [u32], round: u64) {
    rows.shuffle(&mut stream(0, [0, ORDER, round, 0]));
}

/// x'w.
#[inline(always)]
pub(super) fn score<S: Simd>(simd: S, inputs: &Inputs<'_>, row: usize, w: &[f64]) -> f64 {
    let n_cols = inputs.n_cols();
    let bias = w.get(n_cols).map_or(0.0, |w| w * inputs.ones);
    bias + match inputs.rows {
        Rows::Dense(values) => dot(simd, &values[row * n_cols..][..n_cols], &w[..n_cols]),
        Rows::Sparse(ratings) => {
            let (columns, values) = ratings.row(row);
            let terms = columns.iter().zip(values);
            terms.fold(0.0, |sum, (&j, x)| sum + x * w[j as usize])
        }
        Rows::Products(_) => w[row],
    }
}

/// w <- w + a x.
#[inline(always)]
pub(super) fn add<S: Simd>(simd: S, inputs: &Inputs<'_>, row: usize, a: f64, w: &mut [f64]) {
    let n_cols = inputs.n_cols();
    if let Some(w) = w.get_mut(n_cols) {
        *w += a * inputs.ones;
    }
    match inputs.rows {
        Rows::Dense(values) | Rows::Products(values) => {
            add_scaled(simd, a, &values[row * n_cols..][..n_cols], &mut w[..n_cols]);
        }
        Rows::Sparse(ratings) => {
            let (columns, values) = ratings.row(row);
            for (&j, x) in columns.iter().zip(values) {
                w[j as usize] += a * x;
            }
        }
    }
}

#[inline(always)]
fn dot<S: Simd>(simd: S, x: &[f64], y: &[f64]) -> f64 {
    let (x, x_rest) = S::as_simd_f64s(x);
    let (y, y_rest) = S::as_simd_f64s(y);
    let zero = simd.splat_f64s(0.0);
    let (mut a, mut b, mut c, mut d) = (zero, zero, zero, zero);
    let (x4, x_last) = x.as_chunks::<4>();
    let (y4, y_last) = y.as_chunks::<4>();
    for (x, y) in x4.iter().zip(y4) {
        a = simd.mul_add_e_f64s(x[0], y[0], a);
        b = simd.mul_add_e_f64s(x[1], y[1], b);
        c = simd.mul_add_e_f64s(x[2], y[2], c);
        d = simd.mul_add_e_f64s(x[3], y[3], d);
    }
    for (&x, &y) in x_last.iter().zip(y_last) {
        a = simd.mul_add_e_f64s(x, y, a);
    }
    if !x_rest.is_empty() {
        let (x, y) = (
            simd.partial_load_f64s(x_rest),
            simd.partial_load_f64s(y_rest),
        );
        b = simd.mul_add_e_f64s(x, y, b);
    }
    simd.reduce_sum_f64s(simd.add_f64s(simd.add_f64s(a, b), simd.add_f64s(c, d)))
}

#[inline(always)]
fn add_scaled<S: Simd>(simd: S, a: f64, x: &[f64], y: &mut [f64]) {
    let scale = simd.splat_f64s(a);
    let (x, x_rest) = S::as_simd_f64s(x);
    let (y, y_rest) = S::as_mut_simd_f64s(y);
    for (&x, y) in x.iter().zip(y) {
        *y = simd.mul_add_e_f64s(scale, x, *y);
    }
    for (x, y) in x_rest.iter().zip(y_rest) {
        *y += a * x;
    }
}

/// Weights of several scores side by side: those of one column are `registers` registers.
pub(super) struct Block<S: Simd> {
    simd: S,
    /// `n_weights x registers`.
    weights: Vec<S::f64s>,
    registers: usize,
}

impl<S: Simd> Block<S> {
    #[inline(always)]
    pub(super) fn new(simd: S, n_weights: usize, n_scores: usize) -> Self {
        let registers = n_scores.div_ceil(S::F64_LANES).max(1);
        Self {
            simd,
            weights: vec![simd.splat_f64s(0.0); n_weights * registers],
            registers,
        }
    }

    /// Numbers to hold the scores of one row: a whole number of registers.
    pub(super) fn width(&self) -> usize {
        self.registers * S::F64_LANES
    }

    /// All scores of a row.
    #[inline(always)]
    pub(super) fn scores(&self, inputs: &Inputs<'_>, row: usize, out: &mut [f64]) {
        let (out, _) = S::as_mut_simd_f64s(out);
        out.fill(self.simd.splat_f64s(0.0));
        match (inputs.rows, self.registers) {
            (Rows::Dense(values), registers) => {
                let x = &values[row * inputs.n_cols()..][..inputs.n_cols()];
                match registers {
                    1 => self.dense_scores::<1>(x, out),
                    2 => self.dense_scores::<2>(x, out),
                    3 => self.dense_scores::<3>(x, out),
                    _ => {
                        for (j, &x) in x.iter().enumerate() {
                            self.one(j, x, out);
                        }
                    }
                }
            }
            (Rows::Sparse(ratings), _) => {
                let (columns, values) = ratings.row(row);
                for (&j, &x) in columns.iter().zip(values) {
                    self.one(j as usize, x, out);
                }
            }
            (Rows::Products(_), _) => unreachable!("{ONE_SCORE}"),
        }
        if inputs.ones > 0.0 {
            self.one(inputs.n_cols(), inputs.ones, out);
        }
    }

    /// out <- out + x w of one column.
    #[inline(always)]
    fn one(&self, j: usize, x: f64, out: &mut [S::f64s]) {
        let x = self.simd.splat_f64s(x);
        let w = &self.weights[j * self.registers..][..self.registers];
        for (out, &w) in out.iter_mut().zip(w) {
            *out = self.simd.mul_add_e_f64s(x, w, *out);
        }
    }

    /// Columns four by four with sums of their own, so that products need not wait for one another.
    #[inline(always)]
    fn dense_scores<const R: usize>(&self, x: &[f64], out: &mut [S::f64s]) {
        let simd = self.simd;
        let (weights, _) = self.weights.as_chunks::<R>();
        let (x4, rest) = x.as_chunks::<4>();
        let (w4, _) = weights.as_chunks::<4>();
        let mut sums = [[simd.splat_f64s(0.0); R]; 4];
        for (x, w) in x4.iter().zip(w4) {
            for ((sums, &x), w) in sums.iter_mut().zip(x).zip(w) {
                let x = simd.splat_f64s(x);
                for (sum, &w) in sums.iter_mut().zip(w) {
                    *sum = simd.mul_add_e_f64s(x, w, *sum);
                }
            }
        }
        for (&x, w) in rest.iter().zip(&weights[x.len() - rest.len()..]) {
            let x = simd.splat_f64s(x);
            for (sum, &w) in sums[0].iter_mut().zip(w) {
                *sum = simd.mul_add_e_f64s(x, w, *sum);
            }
        }
        let [a, b, c, d] = sums;
        for (r, out) in out.iter_mut().enumerate() {
            *out = simd.add_f64s(simd.add_f64s(a[r], b[r]), simd.add_f64s(c[r], d[r]));
        }
    }

    /// W <- W + x a', with a number of `a` per score.
    #[inline(always)]
    pub(super) fn add(&mut self, inputs: &Inputs<'_>, row: usize, a: &[f64]) {
        let (a, _) = S::as_simd_f64s(a);
        match inputs.rows {
            Rows::Dense(values) => {
                let x = &values[row * inputs.n_cols()..][..inputs.n_cols()];
                match self.registers {
                    1 => self.add_dense::<1>(x, a),
                    2 => self.add_dense::<2>(x, a),
                    3 => self.add_dense::<3>(x, a),
                    _ => {
                        for (j, &x) in x.iter().enumerate() {
                            self.add_one(j, x, a);
                        }
                    }
                }
            }
            Rows::Sparse(ratings) => {
                let (columns, values) = ratings.row(row);
                for (&j, &x) in columns.iter().zip(values) {
                    self.add_one(j as usize, x, a);
                }
            }
            Rows::Products(_) => unreachable!("{ONE_SCORE}"),
        }
        if inputs.ones > 0.0 {
            self.add_one(inputs.n_cols(), inputs.ones, a);
        }
    }

    #[inline(always)]
    fn add_one(&mut self, j: usize, x: f64, a: &[S::f64s]) {
        let x = self.simd.splat_f64s(x);
        let w = &mut self.weights[j * self.registers..][..self.registers];
        for (w, &a) in w.iter_mut().zip(a) {
            *w = self.simd.mul_add_e_f64s(x, a, *w);
        }
    }

    #[inline(always)]
    fn add_dense<const R: usize>(&mut self, x: &[f64], a: &[S::f64s]) {
        let simd = self.simd;
        let (weights, _) = self.weights.as_chunks_mut::<R>();
        for (w, &x) in weights.iter_mut().zip(x) {
            let x = simd.splat_f64s(x);
            for (w, &a) in w.iter_mut().zip(a) {
                *w = simd.mul_add_e_f64s(x, a, *w);
            }
        }
    }

    /// Sum of all squares.
    #[inline(always)]
    pub(super) fn squared(&self) -> f64 {
        let zero = self.simd.splat_f64s(0.0);
        let mut sum = zero;
        for &w in &self.weights {
            sum = self.simd.mul_add_e_f64s(w, w, sum);
        }
        self.simd.reduce_sum_f64s(sum)
    }

    /// Weights score by score.
    pub(super) fn by_score(&self, n_scores: usize) -> Vec<f64> {
        let width = self.width();
        let mut columns = vec![0.0; self.weights.len() * S::F64_LANES];
        let (registers, _) = S::as_mut_simd_f64s(&mut columns);
        registers.copy_from_slice(&self.weights);
        let n_weights = columns.len() / width;
        (0..n_scores)
            .flat_map(|s| (0..n_weights).map(move |j| (s, j)))
            .map(|(s, j)| columns[j * width + s])
            .collect()
    }
}
