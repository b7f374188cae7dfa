//! How uncertain the experts of a run are, once it has ended.
//!
//! The variational factor `q(w)` takes the latent utilities for data: its precision `diag<lambda> + sum rho x^b x^b'` is that of utilities that were seen. What is seen are labels, and these say
//! less: with the means that the run has found, the curvature of their likelihood stands in the place of 1 (linear response; Laplace's approximation at the variational mean).

use npb_infer::parallel;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::special::inverse_mills;

use crate::predict::{Completed, Predictor};
use crate::rows::Rows;
use crate::state::{Expert, IqgmeState, dot};
use crate::vb::{IqgmeVb, VbUpdate};
use crate::{IqgmeError, Result};
use npb_priors::dist::multinomial_probit;

/// Rows with less responsibility than this have no say in an expert.
const LEAST_RESPONSIBILITY: f64 = 1e-3;
/// Half the step of a derivative.
const STEP: f64 = 1e-3;

/// What a labelled row says of the experts of one component.
struct Part {
    component: usize,
    /// Its completed features and the constant 1.
    row: Vec<f64>,
    /// By utility: responsibility times curvature.
    weights: Vec<f64>,
}

/// The experts of a run that has ended, with the means that it has found and covariances that count its utilities as unknown.
pub(crate) fn experts(vb: &mut IqgmeVb<'_>) -> Result<Vec<Expert>> {
    if vb.state().experts.is_empty() {
        return Ok(Vec::new());
    }
    let precisions = precisions(vb)?;
    let failed = IqgmeError::at(vb.iteration(), "covariance of the expert");
    let state = vb.state();
    let spread = |((i, expert), precision): ((usize, &Expert), Mat<f64>)| {
        if expert.at_prior {
            return Ok(expert.clone());
        }
        let h = i / state.n_utilities();
        let factor = Cholesky::new(precision.as_ref()).map_err(|source| failed((h, source)))?;
        Ok(Expert {
            covariance: factor.inverse(),
            ..expert.clone()
        })
    };
    let experts = state.experts.iter().enumerate();
    parallel::try_map(experts.zip(precisions), spread)
}

/// For each expert the precision of its prior and what the labelled rows add to it, the lower triangle.
fn precisions(vb: &mut IqgmeVb<'_>) -> Result<Vec<Mat<f64>>> {
    if let Some(shards) = vb.shards() {
        let mut precisions = of_prior(vb.state());
        for of_shard in shards.curvatures(vb.state(), vb.iteration())? {
            let each = precisions.iter_mut().zip(&of_shard);
            each.for_each(|(precision, curvature)| *precision += &curvature.0);
        }
        return Ok(precisions);
    }
    // The responsibilities at the state where the run ended, whatever it did last.
    vb.apply(VbUpdate::Labels)?;
    let rows = &vb.data().rows;
    with_labels(
        of_prior(vb.state()),
        vb.state(),
        rows,
        &vb.responsibilities(),
        vb.iteration(),
    )
}

/// What labelled rows, whose responsibilities are given by table row, say of the precision of each expert.
pub(crate) fn label_precisions(
    state: &IqgmeState,
    rows: &Rows,
    responsibilities: &[f64],
    iteration: u64,
) -> Result<Vec<Mat<f64>>> {
    let nothing = |expert: &Expert| Mat::zeros(expert.mean.len(), expert.mean.len());
    let nothing = state.experts.iter().map(nothing).collect();
    with_labels(nothing, state, rows, responsibilities, iteration)
}

fn of_prior(state: &IqgmeState) -> Vec<Mat<f64>> {
    let (prior, n_utilities) = (&state.expert_prior, state.n_utilities());
    let of_expert = |(i, expert): (usize, &Expert)| {
        let n = expert.mean.len();
        let own = |j: usize| prior.precision(i % n_utilities * n + j);
        Mat::from_fn(n, n, |i, j| if i == j { own(i) } else { 0.0 })
    };
    state.experts.iter().enumerate().map(of_expert).collect()
}

/// Adds what labelled rows say to the precisions of the experts.
fn with_labels(
    precisions: Vec<Mat<f64>>,
    state: &IqgmeState,
    rows: &Rows,
    responsibilities: &[f64],
    iteration: u64,
) -> Result<Vec<Mat<f64>>> {
    let n_utilities = state.n_utilities();
    let by_component = parts(state, rows, responsibilities, iteration)?;
    let add = |(i, mut precision): (usize, Mat<f64>)| {
        let (h, k) = (i / n_utilities, i % n_utilities);
        for part in &by_component[h] {
            for (j, &x) in part.row.iter().enumerate() {
                let by = part.weights[k] * x;
                let column = &mut precision.col_as_slice_mut(j)[j..];
                for (to, other) in column.iter_mut().zip(&part.row[j..]) {
                    *to += by * other;
                }
            }
        }
        precision
    };
    Ok(parallel::map(precisions.into_iter().enumerate(), add))
}

/// For each component what its labelled rows say, in the order of the table.
fn parts(
    state: &IqgmeState,
    rows: &Rows,
    responsibilities: &[f64],
    iteration: u64,
) -> Result<Vec<Vec<Part>>> {
    let (n_components, n_utilities) = (state.components.len(), state.n_utilities());
    let failed = IqgmeError::at(iteration, "covariance of the expert");
    let gate = Predictor::new(state, &state.experts).map_err(failed)?;
    let mut classes = vec![None; rows.len()];
    for (&row, class) in rows.order.iter().zip(&rows.classes) {
        classes[row] = *class;
    }
    let takes_part = |row: usize, h: usize| {
        classes[row].is_some() && responsibilities[row * n_components + h] > LEAST_RESPONSIBILITY
    };
    let completed = gate.completed(rows, takes_part)?;
    let of_row = |(i, parts): (usize, Vec<Completed>)| -> Vec<Part> {
        let class = classes[i];
        let part = |part: Completed| {
            let h = part.component;
            let experts = &state.experts[h * n_utilities..][..n_utilities];
            let scores: Vec<f64> = experts.iter().map(|e| dot(&e.mean, &part.row)).collect();
            let class = class.expect("rows with a part are labelled");
            let mut weights = curvatures(class, &scores, 1.0 + part.variance);
            let rho = responsibilities[i * n_components + h];
            weights.iter_mut().for_each(|weight| *weight *= rho);
            Part {
                component: h,
                row: part.row,
                weights,
            }
        };
        parts.into_iter().map(part).collect()
    };
    let by_row: Vec<Vec<Part>> = parallel::map(completed.into_iter().enumerate(), of_row);
    let mut by_component: Vec<Vec<Part>> = (0..n_components).map(|_| Vec::new()).collect();
    for part in by_row.into_iter().flatten() {
        by_component[part.component].push(part);
    }
    Ok(by_component)
}

/// Minus the second derivatives of the log probability of a class (0, or k + 1 for utility k) in each score, utilities being normal with these scores for means and this
/// variance: from 0 to 1 over the variance.
fn curvatures(class: usize, scores: &[f64], variance: f64) -> Vec<f64> {
    let sd = variance.sqrt();
    let mut locations: Vec<f64> = scores.iter().map(|score| score / sd).collect();
    if class == 0 || locations.len() == 1 {
        let sign = if class == 0 { -1.0 } else { 1.0 };
        let of_utility = |location: &f64| {
            let toward = sign * location;
            let hazard = inverse_mills(-toward);
            hazard * (hazard + toward) / variance
        };
        return locations.iter().map(of_utility).collect();
    }
    let mut means = vec![0.0; locations.len()];
    let mut mean = |k: usize, locations: &[f64]| {
        multinomial_probit::moments(class, locations, &mut means);
        means[k]
    };
    (0..locations.len())
        .map(|k| {
            let at = locations[k];
            locations[k] = at + STEP;
            let above = mean(k, &locations);
            locations[k] = at - STEP;
            let below = mean(k, &locations);
            locations[k] = at;
            // The variance of the utility, cut to the region of the class.
            let left = (above - below) / (2.0 * STEP);
            (1.0 - left).clamp(0.0, 1.0) / variance
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use npb_data::{Labels, Table};
    use npb_infer::stream;
    use npb_priors::special::ln_phi;
    use rand::RngExt;

    use super::*;
    use crate::vb::tests::converge;
    use crate::{Init, IqgmeConfig, IqgmeData};

    /// One component, one feature: the posterior of slope and intercept by summing over a grid, its prior at the means that the run has found. The variational factor is too sure
    /// of both; what is left here is the curvature at a mean that is not the mode.
    #[test]
    fn standard_deviations_are_near_those_of_the_exact_posterior() {
        let mut rng = stream(1, [0, 0, 14, 0]);
        let x: Vec<f64> = (0..60).map(|_| 4.0 * rng.random::<f64>() - 2.0).collect();
        let above: Vec<bool> = x
            .iter()
            .map(|x| rng.random::<f64>() < 0.5 + 0.2 * x)
            .collect();
        let names = above
            .iter()
            .map(|a| Some(if *a { "above" } else { "below" }));
        let labels = Labels::from_strings(&names.collect::<Vec<_>>());
        let table = Table::complete(60, 1, x).unwrap();
        let config = IqgmeConfig {
            truncation: 1,
            ..IqgmeConfig::default()
        };
        let data = IqgmeData::new(&table, &labels, &config).unwrap();
        let mut vb = IqgmeVb::new(&data, config, Init::KMeans(1), 0).unwrap();
        converge(&mut vb, &IqgmeConfig::default().limits);
        let spread = experts(&mut vb).unwrap();
        let (state, signs) = (vb.state(), &data.rows.signs);
        let (plain, prior) = (&state.experts[0], &state.expert_prior);
        let rows: Vec<f64> = (0..60).map(|position| data.rows.row(position)[0]).collect();
        let (mut total, mut first, mut second) = (0.0, [0.0; 2], [0.0; 2]);
        for i in 0..300 {
            for j in 0..300 {
                let w = [-1.0 + 0.015 * f64::from(i), -2.0 + 0.0133 * f64::from(j)];
                let from_prior =
                    |k: usize| -0.5 * prior.precision(k) * (w[k] - prior.mean[k]).powi(2);
                let label =
                    |(position, x): (usize, &f64)| ln_phi(signs[position] * (w[0] * x + w[1]));
                let ln =
                    from_prior(0) + from_prior(1) + rows.iter().enumerate().map(label).sum::<f64>();
                let weight = (ln + 30.0).exp();
                total += weight;
                for k in 0..2 {
                    first[k] += weight * w[k];
                    second[k] += weight * w[k] * w[k];
                }
            }
        }
        for k in 0..2 {
            let sd = (second[k] / total - (first[k] / total).powi(2)).sqrt();
            let ratio = |expert: &Expert| expert.covariance[(k, k)].sqrt() / sd;
            let [wide, narrow] = [ratio(&spread[0]), ratio(plain)];
            assert!(
                (0.85..1.15).contains(&wide) && narrow < 0.85,
                "{k}: {wide} {narrow}"
            );
            assert_eq!(spread[0].mean, plain.mean);
        }
    }

    #[test]
    fn curvatures_are_second_derivatives() {
        let step = 1e-3;
        for variance in [1.0, 2.5] {
            let sd = f64::sqrt(variance);
            for score in [-6.0, -1.0, 0.0, 0.7, 5.0] {
                for (class, sign) in [(0, -1.0), (1, 1.0)] {
                    let ln = |s: f64| ln_phi(sign * s / sd);
                    let wanted =
                        (2.0 * ln(score) - ln(score + step) - ln(score - step)) / (step * step);
                    let found = curvatures(class, &[score], variance)[0];
                    assert!(
                        (found - wanted).abs() < 1e-5,
                        "{class} {score}: {found} {wanted}"
                    );
                }
            }
            let scores = [0.4, -0.8, 1.1];
            for class in 0..4 {
                let found = curvatures(class, &scores, variance);
                for k in 0..3 {
                    // The logarithm of the probability of the region, which `moments` returns.
                    let ln = |by: f64| {
                        let moved =
                            (0..3).map(|j| (scores[j] + if j == k { by } else { 0.0 }) / sd);
                        multinomial_probit::moments(
                            class,
                            &moved.collect::<Vec<_>>(),
                            &mut [0.0; 3],
                        )
                    };
                    let wanted = (2.0 * ln(0.0) - ln(step) - ln(-step)) / (step * step);
                    assert!(
                        (found[k] - wanted).abs() < 1e-5,
                        "{class} {k}: {} {wanted}",
                        found[k]
                    );
                    assert!(found[k] > 0.0 && found[k] < 1.0 / variance);
                }
            }
        }
    }
}
