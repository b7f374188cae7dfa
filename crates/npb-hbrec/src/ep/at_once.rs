//! Passes of expectation propagation in which all rows look at one posterior, eight rows in a register.

use npb_linalg::elementary::vectorised;
use npb_priors::special::vector::slope_of_ln_normal_cdf;
use pulp::Arch;
use serde::{Deserialize, Serialize};

use crate::laplace::Observations;

/// Passes over all rows, at most; a handful is enough.
pub(super) const MOST_PASSES: usize = 50;
/// Sites have settled when none changes by more than this share of what it says.
pub(super) const SETTLED: f64 = 1e-8;
const LANES: usize = 8;

/// What a row says of its utility t: `exp(linear t - precision t^2 / 2)`, up to a constant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Site {
    pub(super) precision: f64,
    pub(super) linear: f64,
}

pub(super) fn sign(data: &Observations<'_>, i: usize) -> f64 {
    if data.positive[i] { 1.0 } else { -1.0 }
}

/// A number of each of eight rows.
type Lanes = [f64; LANES];

/// Rows beyond those that there are hold zeros, and zeros say nothing.
struct Rows {
    width: usize,
    /// Regressor k of block b at `k blocks + b`; the same solved by the factor of the precision.
    columns: Vec<Lanes>,
    solved: Vec<Lanes>,
    offsets: Vec<Lanes>,
    signs: Vec<Lanes>,
    precisions: Vec<Lanes>,
    linears: Vec<Lanes>,
    /// Scratch: what sites say beside the offset, and a weighted column.
    responses: Vec<Lanes>,
    weighted: Vec<Lanes>,
    /// Of the precision, row by row.
    factor: Vec<f64>,
    mean: Vec<f64>,
}

/// Changes the sites until they have settled; whether they did. If not they are as before.
pub(super) fn settle(data: &Observations<'_>, sites: &mut [Site]) -> bool {
    let mut rows = Rows::new(data, sites);
    let arch = Arch::new();
    for _ in 0..MOST_PASSES {
        let left = vectorised(
            arch,
            #[inline(always)]
            || rows.pass(),
        );
        match left {
            Some(left) if left < 0.0 => {
                for (i, site) in sites.iter_mut().enumerate() {
                    let (block, lane) = (i / LANES, i % LANES);
                    *site = Site {
                        precision: rows.precisions[block][lane],
                        linear: rows.linears[block][lane],
                    };
                }
                return true;
            }
            Some(left) if left.is_finite() => (),
            _ => return false,
        }
    }
    false
}

impl Rows {
    fn new(data: &Observations<'_>, sites: &[Site]) -> Self {
        let (n, q) = (data.len(), data.width);
        let blocks = n.div_ceil(LANES);
        let lanes = |value: &dyn Fn(usize) -> f64| -> Vec<Lanes> {
            let of_row = |i: usize| if i < n { value(i) } else { 0.0 };
            let block = |b: usize| std::array::from_fn(|lane| of_row(b * LANES + lane));
            (0..blocks).map(block).collect()
        };
        Self {
            width: q,
            columns: (0..q).flat_map(|k| lanes(&|i| data.row(i)[k])).collect(),
            solved: vec![[0.0; LANES]; q * blocks],
            offsets: lanes(&|i| data.offsets[i]),
            signs: lanes(&|i| sign(data, i)),
            precisions: lanes(&|i| sites[i].precision),
            linears: lanes(&|i| sites[i].linear),
            responses: vec![[0.0; LANES]; blocks],
            weighted: vec![[0.0; LANES]; blocks],
            factor: vec![0.0; q * q],
            mean: vec![0.0; q],
        }
    }

    /// By how much more than settled sites do one changes; negative when none does. Nothing where the precision cannot be factored.
    #[inline(always)]
    fn pass(&mut self) -> Option<f64> {
        self.sum();
        self.solve()?;
        let blocks = self.offsets.len();
        let mut left = [f64::NEG_INFINITY; LANES];
        for b in 0..blocks {
            let (mean, variance) = self.utilities(b);
            let (signs, precisions, linears) = (self.signs[b], self.precisions[b], self.linears[b]);
            let (mut new_precisions, mut new_linears) = ([0.0; LANES], [0.0; LANES]);
            for i in 0..LANES {
                let (precision, linear, v) = (precisions[i], linears[i], variance[i]);
                // Without the own site.
                let alone = 1.0 / (1.0 - precision * v);
                let (m, v) = ((mean[i] - linear * v) * alone, v * alone);
                let scale = 1.0 / (1.0 + v).sqrt();
                let z = signs[i] * m * scale;
                let hazard = slope_of_ln_normal_cdf(z);
                let bend = hazard * (hazard + z);
                let bend = if bend < 1.0 { bend } else { 1.0 };
                let bend = if z < -1e4 { 1.0 - 1.0 / (z * z) } else { bend };
                let new = bend / (1.0 + v - v * bend);
                let says = m * new + signs[i] * hazard * scale * (1.0 + v * new);
                // A row of zeros says nothing.
                let counts = variance[i] > 0.0;
                let new = if counts { new } else { 0.0 };
                let says = if counts { says } else { 0.0 };
                let change = (new - precision).abs() + (says - linear).abs();
                let excess = change - SETTLED * (1.0 + new.abs() + says.abs());
                // Written so that NaN stays.
                left[i] = if excess <= left[i] { left[i] } else { excess };
                new_precisions[i] = new;
                new_linears[i] = says;
            }
            self.precisions[b] = new_precisions;
            self.linears[b] = new_linears;
        }
        let worst = |a: f64, b: &f64| if *b <= a { a } else { *b };
        Some(left.iter().fold(f64::NEG_INFINITY, worst))
    }

    /// Precision and precision times mean of the posterior of the sites.
    #[inline(always)]
    fn sum(&mut self) {
        let (q, blocks) = (self.width, self.offsets.len());
        for b in 0..blocks {
            for i in 0..LANES {
                self.responses[b][i] =
                    self.linears[b][i] - self.precisions[b][i] * self.offsets[b][i];
            }
        }
        for k in 0..q {
            let column = &self.columns[k * blocks..(k + 1) * blocks];
            for b in 0..blocks {
                for i in 0..LANES {
                    self.weighted[b][i] = self.precisions[b][i] * column[b][i];
                }
            }
            self.mean[k] = dot(column, &self.responses);
            for j in 0..=k {
                let other = &self.columns[j * blocks..(j + 1) * blocks];
                self.factor[k * q + j] = f64::from(u8::from(j == k)) + dot(&self.weighted, other);
            }
        }
    }

    /// Factor of the precision, and mean.
    #[inline(always)]
    fn solve(&mut self) -> Option<()> {
        let (q, l, x) = (self.width, &mut self.factor, &mut self.mean);
        for k in 0..q {
            for j in 0..=k {
                let mut sum = l[k * q + j];
                for i in 0..j {
                    sum -= l[k * q + i] * l[j * q + i];
                }
                l[k * q + j] = match j == k {
                    true if sum > 0.0 => sum.sqrt(),
                    true => return None,
                    false => sum / l[j * q + j],
                };
            }
        }
        for k in 0..q {
            for i in 0..k {
                x[k] -= l[k * q + i] * x[i];
            }
            x[k] /= l[k * q + k];
        }
        for k in (0..q).rev() {
            for i in k + 1..q {
                x[k] -= l[i * q + k] * x[i];
            }
            x[k] /= l[k * q + k];
        }
        Some(())
    }

    /// Mean and variance of the utilities of a block.
    #[inline(always)]
    fn utilities(&mut self, b: usize) -> (Lanes, Lanes) {
        let (q, blocks) = (self.width, self.offsets.len());
        let (mut mean, mut variance) = (self.offsets[b], [0.0; LANES]);
        for k in 0..q {
            let mut x = self.columns[k * blocks + b];
            for i in 0..LANES {
                mean[i] += self.mean[k] * x[i];
            }
            for j in 0..k {
                let (l, other) = (self.factor[k * q + j], &self.solved[j * blocks + b]);
                for i in 0..LANES {
                    x[i] -= l * other[i];
                }
            }
            let scale = 1.0 / self.factor[k * q + k];
            for i in 0..LANES {
                x[i] *= scale;
                variance[i] += x[i] * x[i];
            }
            self.solved[k * blocks + b] = x;
        }
        (mean, variance)
    }
}

#[inline(always)]
fn dot(a: &[Lanes], b: &[Lanes]) -> f64 {
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for i in 0..LANES {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum()
}
