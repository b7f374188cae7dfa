//! The experts given the gate, by expectation propagation.
//!
//! With responsibilities held fixed, each expert is a probit regression of its own. The variational factor `q(w) q(t)` shrinks its weights and
//! understates their covariance, because it takes the latent scores for data; expectation propagation matches moments instead and is close to exact.
//! The prior that the experts share is learned along with it, from these moments.

use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite};
use npb_priors::special::inverse_mills;
use rayon::prelude::*;

use crate::IqgmeError;
use crate::predict::{Completed, Predictor};
use crate::state::{Expert, ExpertPrior, dot};
use crate::vb::{IqgmeVb, VbUpdate};

/// Rows with less responsibility than this have no say in an expert.
const LEAST_RESPONSIBILITY: f64 = 1e-3;
const MAX_ROUNDS: usize = 200;
/// Rounds end when no site moves by more than this, in units of the score's standard deviation under the expert.
const TOLERANCE: f64 = 1e-6;

/// A row as one expert sees it: its completed features and the constant 1, with the label's sign over the standard deviation of its noise.
struct Labelled {
    row: Vec<f64>,
    sign: f64,
    responsibility: f64,
}

/// The Gaussian that stands for one label's likelihood, as a function of the row's score: `exp(linear s - precision s^2 / 2)`.
#[derive(Clone, Copy, Default)]
struct Site {
    precision: f64,
    linear: f64,
}

/// The experts of a run that has ended, each given the labelled rows by their responsibilities, and the tied ones.
pub(crate) fn refine(vb: &mut IqgmeVb<'_>) -> Result<Vec<Expert>, IqgmeError> {
    // The responsibilities at the state where the run ended, whatever it did last.
    vb.apply(VbUpdate::Labels)?;
    let vb = &*vb;
    let state = vb.state();
    let mut experts = state.experts.clone();
    if experts.is_empty() {
        return Ok(experts);
    }
    let failed = |component, source| IqgmeError::Numerical {
        iteration: vb.trace().len() as u64,
        block: "expert given the gate",
        component,
        source,
    };
    let gate = Predictor::new(state, &experts).map_err(|(h, source)| failed(h, source))?;
    let responsibilities = vb.responsibilities();
    let mut prior = state.expert_prior.clone();
    let mut sites: Vec<Vec<Site>> = vec![Vec::new(); experts.len()];
    for _ in 0..MAX_ROUNDS {
        let rows = labelled_rows(vb, &gate, &experts, &responsibilities)?;
        let moved: Vec<(Expert, f64)> = (experts.par_iter(), sites.par_iter_mut(), &rows)
            .into_par_iter()
            .enumerate()
            .map(|(h, (expert, sites, rows))| {
                if expert.tied {
                    return Ok((expert.clone(), 0.0));
                }
                sites.resize(rows.len(), Site::default());
                sweep(&prior, rows, sites).map_err(|source| failed(h, source))
            })
            .collect::<Result<_, IqgmeError>>()?;
        let change = moved.iter().map(|(_, change)| *change).fold(0.0, f64::max);
        experts = moved.into_iter().map(|(expert, _)| expert).collect();
        prior = vb.shared_prior(&experts);
        for expert in experts.iter_mut().filter(|expert| expert.tied) {
            *expert = Expert::tied(&prior, 0, 1);
        }
        if change < TOLERANCE {
            break;
        }
    }
    Ok(experts)
}

/// For each component its labelled rows.
fn labelled_rows(
    vb: &IqgmeVb<'_>,
    gate: &Predictor,
    experts: &[Expert],
    responsibilities: &[f64],
) -> Result<Vec<Vec<Labelled>>, IqgmeError> {
    let n_components = experts.len();
    let signs = vb.data().signs_by_row();
    let takes_part = |row: usize, h: usize| {
        signs[row] != 0.0 && responsibilities[row * n_components + h] > LEAST_RESPONSIBILITY
    };
    let mut by_component: Vec<Vec<Labelled>> = std::iter::repeat_with(Vec::new)
        .take(n_components)
        .collect();
    let completed = gate.completed(&vb.data().rows, experts, takes_part)?;
    for (i, parts) in completed.into_iter().enumerate() {
        for Completed {
            component,
            row,
            variance,
        } in parts
        {
            by_component[component].push(Labelled {
                row,
                sign: signs[i] / (1.0 + variance).sqrt(),
                responsibility: responsibilities[i * n_components + component],
            });
        }
    }
    Ok(by_component)
}

/// Forms the expert from prior and sites, then visits every site once; returns the expert and how far a site moved.
fn sweep(
    prior: &ExpertPrior,
    rows: &[Labelled],
    sites: &mut [Site],
) -> Result<(Expert, f64), NotPositiveDefinite> {
    let mut expert = Gaussian::new(prior, rows, sites)?;
    let mut change: f64 = 0.0;
    for (labelled, site) in rows.iter().zip(sites) {
        change = change.max(expert.visit(labelled, site));
    }
    Ok((expert.into_expert(), change))
}

/// The current approximation of one expert's posterior.
struct Gaussian {
    mean: Vec<f64>,
    /// Square, row after row.
    covariance: Vec<f64>,
    /// The covariance times a row.
    product: Vec<f64>,
}

impl Gaussian {
    /// Prior times sites.
    fn new(
        prior: &ExpertPrior,
        rows: &[Labelled],
        sites: &[Site],
    ) -> Result<Self, NotPositiveDefinite> {
        let n = prior.mean.len();
        let mut precision =
            Mat::from_fn(n, n, |i, j| if i == j { prior.precision(i) } else { 0.0 });
        let mut mean: Vec<f64> = (0..n).map(|j| prior.precision(j) * prior.mean[j]).collect();
        for (labelled, site) in rows.iter().zip(sites) {
            let weight = labelled.responsibility * site.precision;
            for (j, &x) in labelled.row.iter().enumerate() {
                mean[j] += labelled.responsibility * site.linear * x;
                let column = &mut precision.col_as_slice_mut(j)[j..];
                for (to, &other) in column.iter_mut().zip(&labelled.row[j..]) {
                    *to += weight * x * other;
                }
            }
        }
        let factor = Cholesky::new(precision.as_ref())?;
        factor.solve(&mut mean);
        let inverse = factor.inverse();
        let column = |j| inverse.col_as_slice(j).iter().copied();
        Ok(Self {
            mean,
            covariance: (0..n).flat_map(column).collect(),
            product: vec![0.0; n],
        })
    }

    /// Takes the row's site out, matches the moments of the label's likelihood, and puts the new site in. The likelihood enters to the power of the
    /// responsibility, as that power of its site.
    fn visit(&mut self, labelled: &Labelled, site: &mut Site) -> f64 {
        let n = self.mean.len();
        for (to, row) in self.product.iter_mut().zip(self.covariance.chunks_exact(n)) {
            *to = dot(row, &labelled.row);
        }
        let variance = dot(&self.product, &labelled.row);
        let location = dot(&self.mean, &labelled.row);
        let rho = labelled.responsibility;
        let cavity_precision = 1.0 / variance - rho * site.precision;
        if cavity_precision.is_nan() || cavity_precision <= 1e-10 / variance {
            return 0.0;
        }
        let cavity = 1.0 / cavity_precision;
        let cavity_mean = cavity * (location / variance - rho * site.linear);
        let new = matched(labelled.sign, cavity_mean, cavity);
        let by = Site {
            precision: rho * (new.precision - site.precision),
            linear: rho * (new.linear - site.linear),
        };
        *site = new;
        self.change(by, location, variance);
        (by.precision * variance)
            .abs()
            .max((by.linear - by.precision * location).abs() * variance.sqrt())
    }

    /// Multiplies by a Gaussian in the score whose `product` is at hand.
    fn change(&mut self, by: Site, location: f64, variance: f64) {
        let n = self.mean.len();
        let gain = by.precision / (1.0 + by.precision * variance);
        let shift = by.linear - gain * (location + by.linear * variance);
        for (j, row) in self.covariance.chunks_exact_mut(n).enumerate() {
            let factor = gain * self.product[j];
            self.mean[j] += shift * self.product[j];
            for (to, &product) in row.iter_mut().zip(&self.product) {
                *to -= factor * product;
            }
        }
    }

    fn into_expert(self) -> Expert {
        let n = self.mean.len();
        // The two triangles differ by rounding.
        let covariance = Mat::from_fn(n, n, |i, j| {
            0.5 * (self.covariance[i * n + j] + self.covariance[j * n + i])
        });
        Expert {
            tied: false,
            mean: self.mean,
            covariance,
        }
    }
}

/// The site with which a cavity `N(mean, variance)` has the mean and variance that `Phi(sign s)` gives it.
fn matched(sign: f64, mean: f64, variance: f64) -> Site {
    let spread = (1.0 + sign * sign * variance).sqrt();
    let toward = sign * mean / spread;
    let hazard = inverse_mills(-toward);
    // Derivatives of ln Phi(toward) in the cavity's mean: the first, and minus the second.
    let first = sign * hazard / spread;
    let second = sign * sign / (spread * spread) * hazard * (hazard + toward);
    let rest = 1.0 - variance * second;
    Site {
        precision: (second / rest).max(0.0),
        linear: (first + mean * second) / rest,
    }
}

#[cfg(test)]
mod tests {
    use npb_priors::special::ln_phi;

    use super::*;

    const N_ROWS: usize = 14;

    fn rows() -> Vec<Labelled> {
        let row = |i: usize| {
            let x = -1.5 + 3.0 * i as f64 / (N_ROWS - 1) as f64;
            let label = if (x > 0.3) != (i == 4) { 1.0 } else { -1.0 };
            let noise = if i == 9 { 1.5 } else { 1.0 };
            Labelled {
                row: vec![x, 1.0],
                // One label against the trend, one row with noise of its own.
                sign: label / noise,
                responsibility: 1.0,
            }
        };
        (0..N_ROWS).map(row).collect()
    }

    fn prior() -> ExpertPrior {
        ExpertPrior {
            mean: vec![0.5, -0.2],
            strength: 1.0,
            shape: 2.0,
            rate: vec![8.0, 4.0],
        }
    }

    fn converged(rows: &[Labelled]) -> Expert {
        let mut sites = vec![Site::default(); rows.len()];
        for _ in 0..100 {
            let (expert, change) = sweep(&prior(), rows, &mut sites).unwrap();
            if change < 1e-10 {
                return expert;
            }
        }
        panic!("no fixed point");
    }

    /// Mean and covariance by summing over a grid.
    fn exact(rows: &[Labelled]) -> ([f64; 2], [f64; 3]) {
        let prior = prior();
        let (mut total, mut first, mut second) = (0.0, [0.0; 2], [0.0; 3]);
        for i in 0..400 {
            for j in 0..400 {
                let w = [-3.0 + 0.03 * i as f64, -5.0 + 0.025 * j as f64];
                let from_prior: f64 = (0..2)
                    .map(|k| -0.5 * prior.precision(k) * (w[k] - prior.mean[k]).powi(2))
                    .sum();
                let labels = rows.iter().map(|r| ln_phi(r.sign * dot(&r.row, &w)));
                let weight = (from_prior + labels.sum::<f64>()).exp();
                total += weight;
                for (k, moment) in [w[0] * w[0], w[0] * w[1], w[1] * w[1]].iter().enumerate() {
                    second[k] += weight * moment;
                }
                (0..2).for_each(|k| first[k] += weight * w[k]);
            }
        }
        let mean = first.map(|m| m / total);
        let [a, b, c] = second.map(|m| m / total);
        let covariance = [
            a - mean[0] * mean[0],
            b - mean[0] * mean[1],
            c - mean[1] * mean[1],
        ];
        (mean, covariance)
    }

    #[test]
    fn moments_are_those_of_the_exact_posterior() {
        let rows = rows();
        let (mean, covariance) = exact(&rows);
        let expert = converged(&rows);
        for k in 0..2 {
            let sd = covariance[2 * k].sqrt();
            assert!(
                (expert.mean[k] - mean[k]).abs() < 0.02 * sd,
                "{k}: {} {}",
                expert.mean[k],
                mean[k]
            );
            let ratio = expert.covariance[(k, k)].sqrt() / sd;
            // Expectation propagation's own error on a posterior as skewed as this: another implementation gives the same figures to 1e-3.
            assert!((0.92..1.02).contains(&ratio), "{k}: {ratio}");
        }
        assert!((expert.covariance[(0, 1)] - covariance[1]).abs() < 0.02);
        // The variational factor takes scores for data: precision X'X + prior.
        let scores: f64 = rows.iter().map(|r| r.row[0] * r.row[0]).sum();
        assert!((scores + prior().precision(0)).recip().sqrt() < 0.7 * covariance[0].sqrt());
    }

    #[test]
    fn order_and_half_responsibilities() {
        let mut reversed = rows();
        reversed.reverse();
        let (a, b) = (converged(&rows()), converged(&reversed));
        assert!((a.mean[0] - b.mean[0]).abs() < 1e-8);
        // Every row twice, at half its responsibility, weighs as much as once, up to the power of a site standing for that of a likelihood.
        let halves: Vec<Labelled> = rows()
            .into_iter()
            .chain(rows())
            .map(|row| Labelled {
                responsibility: 0.5,
                ..row
            })
            .collect();
        let c = converged(&halves);
        assert!((a.mean[0] - c.mean[0]).abs() < 0.05 * a.covariance[(0, 0)].sqrt());
    }

    #[test]
    fn sites_of_labels_far_on_the_wrong_side_are_finite() {
        for mean in [-1e8, -40.0, 0.0, 40.0, 1e8] {
            let site = matched(1.0, mean, 2.0);
            assert!(
                site.precision.is_finite() && site.precision >= 0.0,
                "{mean}"
            );
            assert!(site.linear.is_finite(), "{mean}");
        }
    }
}
