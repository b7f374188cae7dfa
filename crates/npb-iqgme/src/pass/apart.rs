//! Rows whose missing features do not know their component: `q(x^m) q(z)`, the family of W chapter 4. One Gaussian for each row, and a factorisation.

use std::f64::consts::PI;

use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;

use super::incomplete::IncompleteSide;
use super::sums::Weighted;
use super::{INACTIVE, RowFactors, Worker};
use crate::IqgmeError;
use crate::conditional::padded;
use crate::rows::{Block, Pattern};
use crate::state::dot;

/// `q(x^m)` of one row, whose mean is in the completed row.
struct Missing {
    covariance: Mat<f64>,
    entropy: f64,
}

/// One row of a block.
struct Row<'a> {
    pattern: &'a Pattern,
    /// `<t>`, by utility; none of an unlabelled row.
    soft: &'a [f64],
}

impl Worker<'_> {
    /// Updates `q(x^m)` given `q(z)` as it is, then `q(z)`, then `q(t)`, and adds the rows to the sums.
    pub(super) fn apart_block(
        &mut self,
        block: &Block,
        side: &IncompleteSide,
        factors: &mut RowFactors<'_>,
    ) -> Result<(), IqgmeError> {
        let (n, p) = (block.rows.len(), self.rows.n_features);
        let n_components = self.parameters.n_components();
        let n_utilities = match block.labelled {
            true => self.parameters.n_utilities,
            false => 0,
        };
        let (stride, lanes) = (padded(p), padded(n_components));
        let mut completed = vec![0.0; n * stride];
        let mut weights = vec![0.0; n * lanes];
        for group in &self.rows.groups[block.groups.clone()] {
            let pattern = &self.rows.patterns[group.pattern];
            for position in group.rows.clone() {
                let i = position - block.rows.start;
                let stored = factors.responsibilities.iter().skip(i).step_by(n);
                let mut rho = side.allowed(stored.copied());
                let x = &mut completed[i * stride..][..p];
                x.copy_from_slice(self.rows.row(position));
                let row = Row {
                    pattern,
                    soft: &factors.soft[i * n_utilities..][..n_utilities],
                };
                let missing = self.complete_apart(side, &row, &rho, x)?;
                if self.update.responsibilities {
                    rho = self.weigh_apart(side, &row, x, &missing.covariance);
                }
                let active = rho.iter().filter(|weight| **weight > 0.0);
                self.add_entropy(active.map(|weight| -weight * weight.ln()).sum());
                self.totals.terms.missing_entropy += missing.entropy;
                self.totals.terms.magnitude += missing.entropy.abs();
                if self.update.soft_labels {
                    for k in 0..n_utilities {
                        let score = |h: usize| self.score(side, h, k, x);
                        let each = rho.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
                        factors.locations[i * n_utilities + k] =
                            each.map(|(h, weight)| weight * score(h)).sum();
                    }
                }
                for (h, weight) in rho.iter().enumerate() {
                    factors.responsibilities[h * n + i] = *weight;
                    weights[i * lanes + h] = *weight;
                }
                self.add_apart(block, pattern, &weights[i * lanes..][..lanes], &missing);
            }
        }
        if block.labelled {
            self.update_soft_labels(block, factors);
        }
        let sums = self.totals.sums(block.labelled, self.parameters);
        for h in 0..n_components {
            sums.add(
                h,
                &Weighted {
                    n_rows: n,
                    rows: &completed,
                    soft: &factors.soft[..n * n_utilities],
                    soft_stride: n_utilities,
                    weights: &weights[h..],
                    lanes,
                },
            );
        }
        Ok(())
    }

    /// `q(x^m)` given responsibilities; its mean is put into `x`.
    fn complete_apart(
        &self,
        side: &IncompleteSide,
        row: &Row<'_>,
        rho: &[f64],
        x: &mut [f64],
    ) -> Result<Missing, IqgmeError> {
        let missing = &row.pattern.missing;
        let m = missing.len();
        let mut precision: Mat<f64> = Mat::zeros(m, m);
        let mut pull = vec![0.0; m];
        let active = rho.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        for (h, weight) in active {
            let (l, mean) = (side.quadratics().matrix(h), self.mean(h));
            for (b, &k) in missing.iter().enumerate() {
                let column = l.col_as_slice(k);
                let observed = row.pattern.observed.iter();
                let from_seen: f64 = observed.map(|&j| column[j] * (x[j] - mean[j])).sum();
                let at_mean: f64 = missing.iter().map(|&j| column[j] * mean[j]).sum();
                let label = side.linear().map_or(0.0, |linear| {
                    let slopes = row.soft.iter().enumerate();
                    let slopes: f64 = slopes.map(|(u, t)| t * linear.slope(h, u)[k]).sum();
                    slopes - linear.offset(h)[k]
                });
                pull[b] += weight * (at_mean - from_seen + label);
                for (a, &j) in missing.iter().enumerate() {
                    precision[(a, b)] += weight * column[j];
                }
            }
        }
        let factor = Cholesky::new(precision.as_ref()).map_err(|source| IqgmeError::Numerical {
            iteration: self.iteration,
            block: "missing features of a row",
            component: 0,
            source,
        })?;
        factor.solve(&mut pull);
        for (&j, value) in missing.iter().zip(&pull) {
            x[j] = *value;
        }
        Ok(Missing {
            covariance: factor.inverse(),
            entropy: 0.5 * (m as f64 * (1.0 + (2.0 * PI).ln()) - factor.ln_det()),
        })
    }

    /// Responsibilities given `q(x^m)`.
    fn weigh_apart(
        &self,
        side: &IncompleteSide,
        row: &Row<'_>,
        x: &[f64],
        covariance: &Mat<f64>,
    ) -> Vec<f64> {
        let missing = &row.pattern.missing;
        let exponent = |h: usize| {
            let constant = side.constant(h);
            if constant == f64::NEG_INFINITY {
                return constant;
            }
            let l = side.quadratics().matrix(h);
            let d = self.deviation(h, x);
            let mut value = constant;
            for (b, &k) in missing.iter().enumerate() {
                for (a, &j) in missing.iter().enumerate() {
                    value -= 0.5 * l[(j, k)] * covariance[(a, b)];
                }
            }
            for (k, d_k) in d.iter().enumerate() {
                value -= 0.5 * d_k * dot(l.col_as_slice(k), &d);
            }
            if let Some(linear) = side.linear() {
                value -= dot(linear.offset(h), &d);
                let utilities = row.soft.iter().enumerate();
                value += utilities
                    .map(|(k, t)| t * self.score(side, h, k, x))
                    .sum::<f64>();
            }
            value
        };
        let mut rho: Vec<f64> = (0..self.parameters.n_components()).map(exponent).collect();
        let top = rho.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        rho.iter_mut().for_each(|ln| *ln = (*ln - top).exp());
        let total: f64 = rho.iter().sum();
        for weight in &mut rho {
            *weight /= total;
            if *weight < INACTIVE {
                *weight = 0.0;
            }
        }
        rho
    }

    fn mean(&self, h: usize) -> &[f64] {
        self.parameters.means.col_as_slice(h)
    }

    fn deviation(&self, h: usize, x: &[f64]) -> Vec<f64> {
        x.iter().zip(self.mean(h)).map(|(x, m)| x - m).collect()
    }

    /// `<w_k>'x^b` of component `h` at a completed row.
    fn score(&self, side: &IncompleteSide, h: usize, k: usize, x: &[f64]) -> f64 {
        side.linear().map_or(0.0, |linear| {
            linear.intercepts(h)[k] + dot(linear.slope(h, k), &self.deviation(h, x))
        })
    }

    /// Adds the covariance of the missing features of a row, the same for all components.
    fn add_apart(&mut self, block: &Block, pattern: &Pattern, weight: &[f64], row: &Missing) {
        let (m, lanes) = (pattern.missing.len(), weight.len());
        let mut covariance = Vec::with_capacity(m * m * lanes);
        for a in 0..m {
            for b in 0..m {
                covariance.extend(std::iter::repeat_n(row.covariance[(a, b)], lanes));
            }
        }
        let sums = self.totals.sums(block.labelled, self.parameters);
        sums.add_covariance(&pattern.missing, weight, &covariance);
    }
}
