//! Weights of components from their logarithms, and averages under them, for rows of components. In the padding the logarithm is minus infinity.

use pulp::Arch;

use super::memory::REGISTER;
use crate::elementary::vectorised;
use crate::elementary::{LEAST, exp, ln};

/// `ln sum e^x` in two parts, so that a difference from it keeps the digits of the small part.
#[derive(Clone, Copy, Debug, Default)]
pub struct LnTotal {
    /// The largest `x`.
    top: f64,
    /// `ln sum e^(x - top)`.
    rest: f64,
}

impl LnTotal {
    /// The logarithm.
    #[inline]
    pub fn value(self) -> f64 {
        self.top + self.rest
    }
}

/// Rows of components: padded to `len`, worked on with this instruction set.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// Instruction set.
    pub arch: Arch,
    /// Padded number of components.
    pub len: usize,
}

impl Lanes {
    /// Weights of every row, proportional to the exponentials of `ln_weights`, those below `least` set to zero; `ln_total` gets the logarithm of
    /// the sum of the exponentials. A row without any finite logarithm becomes NaN.
    pub fn softmax(
        self,
        ln_weights: &[f64],
        least: f64,
        weights: &mut [f64],
        ln_total: &mut [LnTotal],
    ) {
        self.arch.dispatch(
            #[inline(always)]
            || {
                let rows = ln_weights.chunks_exact(self.len);
                let each = rows.zip(weights.chunks_exact_mut(self.len));
                for ((ln_weights, weights), ln_total) in each.zip(ln_total.iter_mut()) {
                    ln_total.top = subtract_top(ln_weights, weights);
                }
                // One loop over all rows: long enough for wide registers.
                for weight in weights.iter_mut() {
                    *weight = exp(*weight);
                }
                for (weights, ln_total) in weights.chunks_exact_mut(self.len).zip(ln_total) {
                    ln_total.rest = normalise(weights, least).ln();
                }
            },
        );
    }

    /// `-sum w ln w` over rows, with `ln w` = `ln_weights` - `ln_total` of the row.
    pub fn entropy(self, ln_weights: &[f64], weights: &[f64], ln_total: &[LnTotal]) -> f64 {
        let rows = ln_weights.chunks_exact(self.len);
        let each = rows.zip(weights.chunks_exact(self.len)).zip(ln_total);
        self.arch.dispatch(
            #[inline(always)]
            || {
                let mut sum = [0.0; REGISTER];
                for ((ln_weights, weights), ln_total) in each {
                    let (ln_weights, _) = ln_weights.as_chunks::<REGISTER>();
                    let (weights, _) = weights.as_chunks::<REGISTER>();
                    for (x, w) in ln_weights.iter().zip(weights) {
                        for k in 0..REGISTER {
                            // A weight of zero may have the logarithm minus infinity.
                            let ln = (x[k] - ln_total.top) - ln_total.rest;
                            sum[k] -= w[k] * if ln < LEAST { LEAST } else { ln };
                        }
                    }
                }
                sum.iter().sum()
            },
        )
    }

    /// `sum w x` of every row; each row of weights has `of` rows of `x`, of which the one with this `index` is taken.
    pub fn averages(self, weights: &[f64], x: &[f64], [index, of]: [usize; 2], out: &mut [f64]) {
        let rows = weights.chunks_exact(self.len);
        let x = x.chunks_exact(self.len).skip(index).step_by(of);
        let each = rows.zip(x).zip(out);
        self.arch.dispatch(
            #[inline(always)]
            || {
                for ((weights, x), out) in each {
                    let (weights, _) = weights.as_chunks::<REGISTER>();
                    let (x, _) = x.as_chunks::<REGISTER>();
                    let mut sum = [0.0; REGISTER];
                    for (w, x) in weights.iter().zip(x) {
                        for k in 0..REGISTER {
                            sum[k] += w[k] * x[k];
                        }
                    }
                    *out = sum.iter().sum();
                }
            },
        );
    }
}

/// Tables with a row for each component and observations side by side, `len` of them: worked on with this instruction set.
#[derive(Clone, Copy, Debug)]
pub struct Stacked {
    /// Instruction set.
    pub arch: Arch,
    /// Padded number of observations.
    pub len: usize,
}

/// `ln sum e^x` of observations side by side, in the two parts of [`LnTotal`].
#[derive(Debug)]
pub struct LnTotals<'a> {
    /// The largest `x`, by observation.
    pub top: &'a mut [f64],
    /// `ln sum e^(x - top)`, by observation.
    pub rest: &'a mut [f64],
}

impl Stacked {
    /// Replaces every number by its value under `function`, which is best made of functions of [`elementary`](crate::elementary).
    #[inline(always)]
    pub fn map(self, values: &mut [f64], function: impl Fn(f64) -> f64) {
        vectorised(
            self.arch,
            #[inline(always)]
            || values.iter_mut().for_each(|x| *x = function(*x)),
        );
    }

    /// As [`Lanes::softmax`], by observation.
    pub fn softmax(
        self,
        ln_weights: &[f64],
        least: f64,
        weights: &mut [f64],
        ln_totals: &mut LnTotals<'_>,
    ) {
        let LnTotals { top, rest } = ln_totals;
        vectorised(
            self.arch,
            #[inline(always)]
            || {
                top.fill(f64::NEG_INFINITY);
                for x in ln_weights.chunks_exact(self.len) {
                    for (top, &x) in top.iter_mut().zip(x) {
                        *top = if x > *top { x } else { *top };
                    }
                }
                rest.fill(0.0);
                let rows = ln_weights.chunks_exact(self.len);
                for (w, x) in weights.chunks_exact_mut(self.len).zip(rows) {
                    let each = w.iter_mut().zip(x).zip(top.iter()).zip(rest.iter_mut());
                    for (((w, x), top), sum) in each {
                        *w = exp(x - top);
                        *sum += *w;
                    }
                }
                for w in weights.chunks_exact_mut(self.len) {
                    for (w, sum) in w.iter_mut().zip(rest.iter()) {
                        let value = *w / sum;
                        *w = if value < least { 0.0 } else { value };
                    }
                }
                for sum in rest.iter_mut() {
                    *sum = ln(*sum);
                }
            },
        );
    }

    /// `-sum w ln w` of every observation, with `ln w` = `ln_weights` - `ln_totals`.
    pub fn entropies(
        self,
        ln_weights: &[f64],
        weights: &[f64],
        ln_totals: &LnTotals<'_>,
        out: &mut [f64],
    ) {
        let LnTotals { top, rest } = ln_totals;
        let rows = ln_weights.chunks_exact(self.len);
        let rows = rows.zip(weights.chunks_exact(self.len));
        self.arch.dispatch(
            #[inline(always)]
            || {
                out.fill(0.0);
                for (x, w) in rows {
                    let totals = top.iter().zip(rest.iter());
                    for (((x, w), (top, rest)), out) in
                        x.iter().zip(w).zip(totals).zip(out.iter_mut())
                    {
                        // A weight of zero may have the logarithm minus infinity.
                        let ln = (x - top) - rest;
                        *out -= w * if ln < LEAST { LEAST } else { ln };
                    }
                }
            },
        );
    }

    /// `sum w x` of every observation; each component has `of` rows of `x`, of which the one with this `index` is taken.
    pub fn averages(self, weights: &[f64], x: &[f64], [index, of]: [usize; 2], out: &mut [f64]) {
        let rows = weights.chunks_exact(self.len);
        let rows = rows.zip(x.chunks_exact(self.len).skip(index).step_by(of));
        self.arch.dispatch(
            #[inline(always)]
            || {
                out.fill(0.0);
                for (w, x) in rows {
                    for ((w, x), out) in w.iter().zip(x).zip(out.iter_mut()) {
                        *out += w * x;
                    }
                }
            },
        );
    }
}

/// `shifted` = `x` minus its largest element, which is returned.
#[inline(always)]
fn subtract_top(x: &[f64], shifted: &mut [f64]) -> f64 {
    let (x, _) = x.as_chunks::<REGISTER>();
    let (shifted, _) = shifted.as_chunks_mut::<REGISTER>();
    let mut top = [f64::NEG_INFINITY; REGISTER];
    for x in x {
        for k in 0..REGISTER {
            top[k] = if x[k] > top[k] { x[k] } else { top[k] };
        }
    }
    let top = top.into_iter().fold(f64::NEG_INFINITY, f64::max);
    for (shifted, x) in shifted.iter_mut().zip(x) {
        for k in 0..REGISTER {
            shifted[k] = x[k] - top;
        }
    }
    top
}

/// Divides by the sum, which is returned; what is then below `least` becomes zero.
#[inline(always)]
fn normalise(weights: &mut [f64], least: f64) -> f64 {
    let (weights, _) = weights.as_chunks_mut::<REGISTER>();
    let mut sum = [0.0; REGISTER];
    for w in weights.iter() {
        for k in 0..REGISTER {
            sum[k] += w[k];
        }
    }
    let sum: f64 = sum.iter().sum();
    let scale = 1.0 / sum;
    for w in weights {
        for k in 0..REGISTER {
            let value = w[k] * scale;
            w[k] = if value < least { 0.0 } else { value };
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_one_and_small_ones_vanish() {
        let mut ln_weights = vec![f64::NEG_INFINITY; 2 * 16];
        ln_weights[..3].copy_from_slice(&[700.0, 700.0 + 2f64.ln(), 640.0]);
        ln_weights[16 + 9] = -1e5;
        let (mut weights, mut ln_total) = (vec![f64::NAN; 32], vec![LnTotal::default(); 2]);
        let lanes = Lanes {
            arch: Arch::new(),
            len: 16,
        };
        lanes.softmax(&ln_weights, 1e-20, &mut weights, &mut ln_total);
        assert!((weights[0] - 1.0 / 3.0).abs() < 1e-12 && (weights[1] - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!((weights[2], weights[16 + 9]), (0.0, 1.0));
        assert!(
            (ln_total[0].value() - 700.0 - 3f64.ln()).abs() < 1e-12 && ln_total[1].value() == -1e5
        );
        let found = lanes.entropy(&ln_weights, &weights, &ln_total);
        assert!(
            (found - (3f64.ln() - 2.0 / 3.0 * 2f64.ln())).abs() < 1e-13,
            "{found}"
        );
        let values: Vec<f64> = (0..32).map(f64::from).collect();
        let mut means = [0.0; 2];
        lanes.averages(&weights, &values, [0, 1], &mut means);
        assert!((means[0] - 2.0 / 3.0).abs() < 1e-12 && means[1] == 25.0);
        lanes.softmax(
            &[f64::NEG_INFINITY; 16],
            0.0,
            &mut weights[..16],
            &mut ln_total[..1],
        );
        assert!(weights[0].is_nan());
    }

    /// Components in lanes and observations in lanes: the same numbers.
    #[test]
    fn both_layouts_agree() {
        let (n, len, components) = (40, 16, 11);
        let value = |i: usize, h: usize| 30.0 * ((i * 31 + h * 17) as f64).sin();
        let lanes = Lanes {
            arch: Arch::new(),
            len,
        };
        let mut by_row = vec![f64::NEG_INFINITY; n * len];
        let mut stacked = vec![0.0; components * n];
        for i in 0..n {
            for h in 0..components {
                by_row[i * len + h] = value(i, h);
                stacked[h * n + i] = value(i, h);
            }
        }
        let mut weights = vec![0.0; n * len];
        let mut totals = vec![LnTotal::default(); n];
        lanes.softmax(&by_row, 1e-20, &mut weights, &mut totals);
        let entropy = lanes.entropy(&by_row, &weights, &totals);
        let mut means = vec![0.0; n];
        lanes.averages(&weights, &vec![0.5; n * len], [0, 1], &mut means);
        for arch in crate::mixture::archs() {
            let side = Stacked { arch, len: n };
            let [mut top, mut rest, mut out] = [0; 3].map(|_| vec![f64::NAN; n]);
            let mut found = vec![f64::NAN; components * n];
            let mut ln_totals = LnTotals {
                top: &mut top,
                rest: &mut rest,
            };
            side.softmax(&stacked, 1e-20, &mut found, &mut ln_totals);
            side.entropies(&stacked, &found, &ln_totals, &mut out);
            assert!((out.iter().sum::<f64>() - entropy).abs() < 1e-12);
            for i in 0..n {
                assert!((top[i] + rest[i] - totals[i].value()).abs() < 1e-13);
                for h in 0..components {
                    let (found, wanted) = (found[h * n + i], weights[i * len + h]);
                    assert!((found - wanted).abs() <= 1e-14 * wanted, "{found} {wanted}");
                }
            }
            side.averages(&found, &vec![0.5; components * n], [0, 1], &mut out);
            for (found, wanted) in out.iter().zip(&means) {
                assert!((found - wanted).abs() < 1e-14);
            }
        }
    }
}
