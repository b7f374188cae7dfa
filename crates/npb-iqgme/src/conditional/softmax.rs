//! Weights of components from their logarithms, and averages under them, for rows of components. In the padding the logarithm is minus infinity.

use pulp::Arch;

use super::REGISTER;

/// Below this, e^x counts as e^LEAST: far under anything that is kept.
const LEAST: f64 = -700.0;

/// e^x for x <= 0, within 2 ulp down to -700 and 1e-304 from there; NaN gives NaN.
///
/// 2^n times a Taylor polynomial on [-ln 2 / 2, ln 2 / 2], without branches, so that it runs in vector registers.
#[inline(always)]
fn exp(x: f64) -> f64 {
    /// Adding this number rounds to an integer, which is then in the lowest bits.
    const ROUND: f64 = 1.5 * (1u64 << 52) as f64;
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const ONE: u64 = 1023 << 52;
    let x = if x < LEAST { LEAST } else { x };
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let two_to_n = f64::from_bits((shifted.to_bits() << 52).wrapping_add(ONE));
    two_to_n * exp_near_zero(r)
}

/// The first 14 terms of the series: the next is below 5e-18 for |r| <= ln 2 / 2.
#[inline(always)]
fn exp_near_zero(r: f64) -> f64 {
    const C: [f64; 14] = reciprocal_factorials();
    let pair = |k: usize| C[2 * k] + C[2 * k + 1] * r;
    let (r2, r4) = (r * r, (r * r) * (r * r));
    let four = |k: usize| pair(2 * k) + r2 * pair(2 * k + 1);
    let low = four(0) + r4 * four(1);
    let high = four(2) + r4 * pair(6);
    low + (r4 * r4) * high
}

const fn reciprocal_factorials() -> [f64; 14] {
    let mut c = [1.0; 14];
    let mut factorial = 1.0;
    let mut k = 1;
    while k < c.len() {
        factorial *= k as f64;
        c[k] = 1.0 / factorial;
        k += 1;
    }
    c
}

/// `ln sum e^x` in two parts, so that a difference from it keeps the digits of the small part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LnTotal {
    /// The largest `x`.
    top: f64,
    /// `ln sum e^(x - top)`.
    rest: f64,
}

impl LnTotal {
    pub(crate) fn value(self) -> f64 {
        self.top + self.rest
    }
}

/// Rows of components: padded to `len`, worked on with this instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes {
    pub(crate) arch: Arch,
    pub(crate) len: usize,
}

impl Lanes {
    /// Weights of every row, proportional to the exponentials of `ln_weights`, those below `least` set to zero; `ln_total` gets the logarithm of
    /// the sum of the exponentials. A row without any finite logarithm becomes NaN.
    pub(crate) fn softmax(
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
    pub(crate) fn entropy(self, ln_weights: &[f64], weights: &[f64], ln_total: &[LnTotal]) -> f64 {
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

    /// `sum w x` of every row.
    pub(crate) fn averages(self, weights: &[f64], x: &[f64], out: &mut [f64]) {
        let rows = weights.chunks_exact(self.len);
        let each = rows.zip(x.chunks_exact(self.len)).zip(out);
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
    fn exponential_is_that_of_the_standard_library() {
        for i in 0..70_000 {
            let x = -0.01 * f64::from(i) - 1e-3 / f64::from(i + 1);
            let (found, wanted) = (exp(x), x.exp());
            assert!(
                (found / wanted - 1.0).abs() < 4.5e-16,
                "{x}: {found} {wanted}"
            );
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f64::NEG_INFINITY) < 1e-303 && exp(f64::NAN).is_nan());
    }

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
        lanes.averages(&weights, &values, &mut means);
        assert!((means[0] - 2.0 / 3.0).abs() < 1e-12 && means[1] == 25.0);
        lanes.softmax(
            &[f64::NEG_INFINITY; 16],
            0.0,
            &mut weights[..16],
            &mut ln_total[..1],
        );
        assert!(weights[0].is_nan());
    }
}
