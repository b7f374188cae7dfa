//! Expectation propagation for probit likelihoods with a standard normal prior (`docs/hbrec.md#ep`).

mod at_once;

pub(crate) use at_once::Site;
use at_once::{MOST_PASSES, SETTLED, sign};
use npb_linalg::faer::MatRef;
use npb_linalg::{Cholesky, NotPositiveDefinite, dot};
use npb_priors::special::ln_phi;
use npb_priors::special::vector::slope_of_ln_normal_cdf;

use crate::laplace::{Observations, add_outer, curvature};

/// The normal distribution whose moments are those of the posterior of `w`, as far as sites can make them so.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    pub(crate) mean: Vec<f64>,
    /// q x q.
    pub(crate) covariance: Vec<f64>,
    pub(crate) ln_evidence: f64,
}

/// The utility of a row without its own site, and what the row makes of it.
struct Cavity {
    mean: f64,
    variance: f64,
    /// The row's answer in standard units.
    z: f64,
    site: Site,
}

impl Cavity {
    /// Of a utility with this mean and variance, its site included.
    fn new(mean: f64, variance: f64, site: Site, sign: f64) -> Self {
        let left = (1.0 / variance - site.precision).max(f64::MIN_POSITIVE);
        let (v, m) = (1.0 / left, (mean / variance - site.linear) / left);
        let scale = (1.0 + v).sqrt();
        let z = sign * m / scale;
        let hazard = slope_of_ln_normal_cdf(z);
        let bend = curvature(hazard, z) / (1.0 + v);
        let precision = bend / (1.0 - v * bend);
        Self {
            mean: m,
            variance: v,
            z,
            site: Site {
                precision,
                linear: m * precision + sign * hazard / scale * (1.0 + v * precision),
            },
        }
    }

    /// ln of the constant of the site, so that it and the row's likelihood have one integral over the cavity.
    fn ln_constant(&self) -> f64 {
        let (m, v, site) = (self.mean, self.variance, self.site);
        let precision = 1.0 / v + site.precision;
        let joined = (m / v + site.linear).powi(2) / precision;
        ln_phi(self.z) + 0.5 * (1.0 + v * site.precision).ln() - 0.5 * (joined - m * m / v)
    }
}

/// Moments and evidence of rows whose weights are all 1. Cost: for each pass `n q^2`.
///
/// `sites`: those to begin with, of a fit of the same rows under another prior (they speak of utilities, which do not depend on it), and those of this fit
/// afterwards; of another length they begin at nothing.
pub(crate) fn fit(
    data: &Observations<'_>,
    sites: &mut Vec<Site>,
) -> Result<Moments, NotPositiveDefinite> {
    if sites.len() != data.len() {
        sites.clear();
        sites.resize(data.len(), Site::default());
    }
    // Passes of all rows at once are the faster ones; where they do not settle, one row after the other does.
    let mut state = match at_once::settle(data, sites) {
        true => State::new(data, sites)?,
        false => settle_in_turn(data, sites)?,
    };
    let ln_evidence = state.ln_evidence(data, sites);
    Ok(Moments {
        mean: state.mean,
        covariance: state.covariance,
        ln_evidence,
    })
}

/// Changes one site after the other until they have settled.
fn settle_in_turn(
    data: &Observations<'_>,
    sites: &mut [Site],
) -> Result<State, NotPositiveDefinite> {
    let mut state = State::new(data, sites)?;
    for _ in 0..MOST_PASSES {
        let mut largest: f64 = 0.0;
        for (i, site) in sites.iter_mut().enumerate() {
            let (mean, variance) = state.utility(data, i);
            // A row of zeros says nothing of w.
            if variance <= 0.0 {
                continue;
            }
            let new = Cavity::new(mean, variance, *site, sign(data, i)).site;
            let change = Site {
                precision: new.precision - site.precision,
                linear: new.linear - site.linear,
            };
            let size = 1.0 + new.precision.abs() + new.linear.abs();
            largest = largest.max(change.precision.abs().max(change.linear.abs()) / size);
            state.change(data.row(i), (mean, variance), change);
            *site = new;
        }
        // Rank-one changes add up rounding errors.
        state = State::new(data, sites)?;
        if largest < SETTLED {
            break;
        }
    }
    Ok(state)
}

/// The normal distribution of prior and sites.
struct State {
    mean: Vec<f64>,
    covariance: Vec<f64>,
    /// ln determinant of the precision, and mean times precision times mean.
    ln_det: f64,
    inside: f64,
    /// Scratch: covariance times a row.
    spread: Vec<f64>,
}

impl State {
    fn new(data: &Observations<'_>, sites: &[Site]) -> Result<Self, NotPositiveDefinite> {
        let q = data.width;
        let (mut precision, mut linear) = (vec![0.0; q * q], vec![0.0; q]);
        for (i, site) in sites.iter().enumerate() {
            add_outer(data.row(i), site.precision, &mut precision);
            let response = site.linear - site.precision * data.offsets[i];
            let sums = linear.iter_mut().zip(data.row(i));
            sums.for_each(|(sum, a)| *sum += response * a);
        }
        (0..q).for_each(|k| precision[k * (q + 1)] += 1.0);
        let mut factor = Cholesky::default();
        factor.factor(MatRef::from_column_major_slice(&precision, q, q))?;
        let inverse = factor.inverse();
        let mut mean = linear.clone();
        factor.solve(&mut mean);
        Ok(Self {
            inside: dot(&mean, &linear),
            ln_det: factor.ln_det(),
            covariance: (0..q * q).map(|at| inverse[(at / q, at % q)]).collect(),
            mean,
            spread: vec![0.0; q],
        })
    }

    /// Mean and variance of the utility of a row; keeps covariance times the row.
    fn utility(&mut self, data: &Observations<'_>, i: usize) -> (f64, f64) {
        let row = data.row(i);
        let rows = self.covariance.chunks_exact(row.len());
        let products = self.spread.iter_mut().zip(rows);
        products.for_each(|(product, of)| *product = dot(of, row));
        (
            dot(row, &self.mean) + data.offsets[i],
            dot(row, &self.spread),
        )
    }

    /// Follows the change of a site; [`utility`](Self::utility) has just been asked of its row.
    fn change(&mut self, row: &[f64], (mean, variance): (f64, f64), change: Site) {
        let shrink = 1.0 / (1.0 + change.precision * variance);
        let step = (change.linear - change.precision * mean) * shrink;
        let sums = self.mean.iter_mut().zip(&self.spread);
        sums.for_each(|(sum, s)| *sum += step * s);
        let scale = change.precision * shrink;
        for (line, si) in self
            .covariance
            .chunks_exact_mut(row.len())
            .zip(&self.spread)
        {
            let sums = line.iter_mut().zip(&self.spread);
            sums.for_each(|(sum, s)| *sum -= scale * si * s);
        }
    }

    /// ln of the integral of prior, sites and their constants.
    fn ln_evidence(&mut self, data: &Observations<'_>, sites: &[Site]) -> f64 {
        let mut total = 0.5 * (self.inside - self.ln_det);
        for (i, &site) in sites.iter().enumerate() {
            let (mean, variance) = self.utility(data, i);
            if variance <= 0.0 {
                total += ln_phi(sign(data, i) * mean);
                continue;
            }
            let cavity = Cavity {
                site,
                ..Cavity::new(mean, variance, site, sign(data, i))
            };
            let offset = data.offsets[i];
            total += cavity.ln_constant() + offset * (site.linear - 0.5 * site.precision * offset);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use npb_infer::stream;
    use npb_priors::special::normal_cdf;
    use rand::RngExt;

    use super::*;

    /// Moments and evidence of a posterior of two coefficients against sums on a fine grid.
    #[test]
    fn moments_and_evidence_are_those_of_the_posterior() {
        for (n, seed) in [(0, 1), (1, 2), (3, 3), (12, 4), (60, 5)] {
            let mut rng = stream(seed, [0; 4]);
            let rows: Vec<f64> = (0..2 * n)
                .map(|_| 4.0 * rng.random::<f64>() - 2.0)
                .collect();
            let offsets: Vec<f64> = (0..n).map(|_| rng.random::<f64>() - 0.3).collect();
            let positive: Vec<bool> = (0..n)
                .map(|i| rng.random::<f64>() < normal_cdf(1.5 * rows[2 * i]))
                .collect();
            let data = Observations {
                rows: &rows,
                width: 2,
                offsets: &offsets,
                positive: &positive,
                weights: &vec![1.0; n],
            };
            let found = fit(&data, &mut Vec::new()).unwrap();
            let (mut mass, mut sums, mut squares) = (0.0, [0.0; 2], [0.0; 3]);
            const STEP: f64 = 0.04;
            for at in 0..301 * 301 {
                let w = [at % 301, at / 301].map(|k| STEP * (k as f64 - 150.0));
                let likelihood: f64 = (0..n)
                    .map(|i| ln_phi(sign(&data, i) * (dot(data.row(i), &w) + offsets[i])))
                    .sum();
                let ln_prior = -0.5 * dot(&w, &w) - (2.0 * std::f64::consts::PI).ln();
                let density = (likelihood + ln_prior).exp() * STEP * STEP;
                mass += density;
                (0..2).for_each(|k| sums[k] += density * w[k]);
                let products = [w[0] * w[0], w[0] * w[1], w[1] * w[1]];
                (0..3).for_each(|k| squares[k] += density * products[k]);
            }
            let mean = sums.map(|sum| sum / mass);
            // One row: sites are exact.
            let close = if n < 2 { 1e-4 } else { 0.03 };
            let covariance = [
                squares[0] / mass - mean[0] * mean[0],
                squares[1] / mass - mean[0] * mean[1],
                squares[2] / mass - mean[1] * mean[1],
            ];
            assert!(
                (found.ln_evidence - mass.ln()).abs() < close,
                "{n}: {} {}",
                found.ln_evidence,
                mass.ln()
            );
            for k in 0..2 {
                assert!(
                    (found.mean[k] - mean[k]).abs() < close,
                    "{n}: {:?} {mean:?}",
                    found.mean
                );
            }
            for (at, expected) in [0, 1, 3].into_iter().zip(covariance) {
                assert!(
                    (found.covariance[at] - expected).abs() < close,
                    "{n}: {:?} {covariance:?}",
                    found.covariance
                );
            }
        }
    }

    /// Rows that are told apart without error, far from the origin, and rows of zeros.
    #[test]
    fn extreme_rows_have_finite_moments() {
        let rows = [1e3, 1.0, -1e3, 1.0, 0.0, 0.0, 1e-200, 1e-200];
        let data = Observations {
            rows: &rows,
            width: 2,
            offsets: &[0.0, 0.0, 3.0, -40.0],
            positive: &[true, false, false, true],
            weights: &[1.0; 4],
        };
        let found = fit(&data, &mut Vec::new()).unwrap();
        assert!(found.ln_evidence.is_finite() && found.ln_evidence < 0.0);
        assert!(
            found
                .mean
                .iter()
                .chain(&found.covariance)
                .all(|x| x.is_finite())
        );
    }

    /// Sites that settle all at once are those that settle in turn, from wherever they begin; thirteen rows fill no register.
    #[test]
    fn both_ways_settle_at_the_same_sites() {
        let mut rng = stream(5, [0; 4]);
        let mut uniform =
            |n: usize| -> Vec<f64> { (0..n).map(|_| rng.random::<f64>() * 4.0 - 2.0).collect() };
        for n in [1, 8, 13, 60] {
            let (mut rows, offsets) = (uniform(3 * n), uniform(n));
            rows[..3].fill(0.0);
            let positive: Vec<bool> = uniform(n).iter().map(|x| *x > 0.0).collect();
            let data = Observations {
                rows: &rows,
                width: 3,
                offsets: &offsets,
                positive: &positive,
                weights: &vec![1.0; n],
            };
            let mut in_turn = vec![Site::default(); n];
            settle_in_turn(&data, &mut in_turn).unwrap();
            let begun = Site {
                precision: 0.3,
                linear: -0.5,
            };
            for begin in [Site::default(), begun] {
                let mut sites = vec![begin; n];
                assert!(at_once::settle(&data, &mut sites));
                for (a, b) in sites.iter().zip(&in_turn) {
                    let far = (a.precision - b.precision).abs() + (a.linear - b.linear).abs();
                    assert!(far < 1e-6, "{a:?} {b:?}");
                }
            }
        }
    }
}
