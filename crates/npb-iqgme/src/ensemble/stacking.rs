//! Weights of members: by held-out prediction, or by their bounds.
//!
//! Which start ends in the best classifier differs from data set to data set, and the bound, nearly all of which is about the features, does not know. So
//! class probabilities are averaged with the weights at which the average gives the held-out labels the highest probability. Densities and missing cells are
//! averaged by the bounds.

use std::ops::Range;

use rayon::prelude::*;

use super::calibration::Calibration;
use super::crossval::HeldOut;

/// Updates of the stacking weights.
const UPDATES: usize = 200;
/// Labels that are added to each of two scales when labels say what it weighs.
const LABELS_FOR_EACH_SCALE: f64 = 10.0;
/// A member that weighs less than this share of the best one has no part in answers that bounds decide.
const LEAST_WEIGHT: f64 = 1e-3;

/// Sorts members by their bounds, the best one first; of equal ones the first stays first. Returns their weights, proportional to
/// `exp((L - L_best) / (elbo_temperature n_observed))`.
pub(crate) fn by_bounds<R>(
    members: &mut [R],
    elbo: impl Fn(&R) -> f64,
    elbo_temperature: f64,
    n_observed: usize,
) -> Vec<f64> {
    members.sort_by(|a, b| elbo(b).total_cmp(&elbo(a)));
    let elbos: Vec<f64> = members.iter().map(elbo).collect();
    let relative = |(k, elbo): (usize, &f64)| {
        let fall = (elbo - elbos[0]) / (elbo_temperature * n_observed as f64);
        if k == 0 {
            1.0
        } else if fall > LEAST_WEIGHT.ln() {
            fall.exp()
        } else {
            0.0
        }
    };
    let mut weights: Vec<f64> = elbos.iter().enumerate().map(relative).collect();
    let total: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= total);
    weights
}

/// Stacking weight and calibration of every member: each is calibrated first, then weighed. The first `n_own` are on the features' own scale, the others on normal
/// scores; `prior`: what members weigh within their scale where labels say nothing.
///
/// Cost of each member, in parallel: 121 powers of `n K` numbers, with more than two classes some Newton steps of `n K^2` for each.
pub(crate) fn stacked(
    HeldOut { by_member, truth }: &HeldOut,
    n_own: usize,
    prior: &[f64],
) -> Vec<(f64, Calibration)> {
    let calibrations: Vec<Calibration> = by_member
        .par_iter()
        .map(|of| Calibration::fit(of, truth))
        .collect();
    let came_true = |(of, calibration): (&Vec<f64>, &Calibration)| -> Vec<f64> {
        let each = of.chunks_exact(of.len() / truth.len()).zip(truth);
        each.map(|(p, &class)| calibration.of(p)[class]).collect()
    };
    let each = by_member.iter().zip(&calibrations);
    let came_true: Vec<Vec<f64>> = each.map(came_true).collect();
    let weights = by_scale(&came_true, n_own, |at| {
        stack(&came_true[at.clone()], &prior[at])
    });
    weights.into_iter().zip(calibrations).collect()
}

/// Weights at which the average of the members' probabilities of what came true is highest, as posterior means would have them: `by_member`: member, label. To what
/// the labels say as many labels are added as there are members, shared out as in `prior` (which sums to 1): they decide where labels are few.
fn stack(by_member: &[Vec<f64>], prior: &[f64]) -> Vec<f64> {
    let n = by_member.len() as f64;
    let added: Vec<f64> = prior.iter().map(|share| n * share).collect();
    stack_with(by_member, &added)
}

/// As [`stack`], with so many labels added to each member.
fn stack_with(by_member: &[Vec<f64>], added: &[f64]) -> Vec<f64> {
    let (n, n_labels) = (by_member.len(), by_member[0].len());
    let mut weights = vec![1.0 / n as f64; n];
    for _ in 0..UPDATES {
        let mut shares = added.to_vec();
        for i in 0..n_labels {
            let part = |k: usize| weights[k] * by_member[k][i].max(f64::MIN_POSITIVE);
            let total: f64 = (0..n).map(part).sum();
            for (k, share) in shares.iter_mut().enumerate() {
                *share += part(k) / total;
            }
        }
        let total: f64 = shares.iter().sum();
        weights = shares.into_iter().map(|share| share / total).collect();
    }
    weights
}

/// Weights of members of which the first `n_own` are on the features' own scale and the others, if there are any, on normal scores. `weights` shares out what a scale has
/// among its members, whose places it gets; what each scale has the labels say of its average, and that is next to one half where labels are few.
fn by_scale(
    by_member: &[Vec<f64>],
    n_own: usize,
    weights: impl Fn(Range<usize>) -> Vec<f64>,
) -> Vec<f64> {
    let n = by_member.len();
    if n_own == n {
        return weights(0..n);
    }
    let scales = [0..n_own, n_own..n];
    let within = scales.clone().map(weights);
    let average = |(places, weights): (Range<usize>, &Vec<f64>)| -> Vec<f64> {
        let at = |label: usize| {
            let members = by_member[places.clone()].iter().zip(weights);
            members.map(|(of, weight)| weight * of[label]).sum()
        };
        (0..by_member[0].len()).map(at).collect()
    };
    let averages: Vec<Vec<f64>> = scales.into_iter().zip(&within).map(average).collect();
    let shares = stack_with(&averages, &[LABELS_FOR_EACH_SCALE; 2]);
    let each = within.into_iter().zip(shares);
    each.flat_map(|(members, share)| members.into_iter().map(move |weight| share * weight))
        .collect()
}

/// Checks weights that come from a file: shares that sum to one.
pub(crate) fn check_weights(
    what: &str,
    weights: impl Iterator<Item = f64> + Clone,
) -> Result<(), String> {
    if let Some((k, weight)) = weights
        .clone()
        .enumerate()
        .find(|(_, w)| !(0.0..=1.0).contains(w))
    {
        return Err(format!("{what} of member {k}: {weight}"));
    }
    let total: f64 = weights.sum();
    if (total - 1.0).abs() <= 1e-6 {
        return Ok(());
    }
    Err(format!("{what} of the members sum to {total}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_member_that_predicts_best_weighs_most_and_none_weighs_nothing() {
        let good = vec![0.9; 50];
        let poor = vec![0.4; 50];
        let weights = stack(&[poor.clone(), good.clone(), poor], &[1.0 / 3.0; 3]);
        assert!(weights[1] > 0.9 && weights[0] > 0.01, "{weights:?}");
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // Members that are right where the other is wrong share the weight.
        let (even, odd): (Vec<f64>, Vec<f64>) = (0..50)
            .map(|i| if i % 2 == 0 { (0.9, 0.2) } else { (0.2, 0.9) })
            .unzip();
        let weights = stack(&[even, odd], &[0.5; 2]);
        assert!((weights[0] - 0.5).abs() < 1e-9, "{weights:?}");
        // Where labels say nothing, the prior does.
        let weights = stack(&[vec![0.5; 3], vec![0.5; 3]], &[0.9, 0.1]);
        assert!((weights[0] - 0.9).abs() < 1e-9, "{weights:?}");
    }

    #[test]
    fn scales_share_weights_evenly_until_many_labels_say_otherwise() {
        let members = |n: usize| [vec![0.9; n], vec![0.5; n], vec![0.2; n]];
        let of_scale = |by_member: &[Vec<f64>]| {
            by_scale(by_member, 2, |places| {
                let even = vec![1.0 / places.len() as f64; places.len()];
                stack(&by_member[places], &even)
            })
        };
        let few = of_scale(&members(3));
        assert!((few.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(few[2] > 0.35 && few[2] < 0.5, "{few:?}");
        let many = of_scale(&members(1000));
        assert!(many[2] < 0.02 && many[0] > 0.9, "{many:?}");
        // Where there is one scale, its members have all.
        let by_member = &members(50)[..2];
        let one = by_scale(by_member, 2, |places| stack(&by_member[places], &[0.5; 2]));
        assert_eq!(one, stack(by_member, &[0.5; 2]));
    }

    /// What is poor by its probabilities alone weighs as much as what is good in the same order.
    #[test]
    fn members_are_calibrated_before_they_are_weighed() {
        let truth: Vec<usize> = (0..400).map(|i| usize::from(i % 10 == 0)).collect();
        let says = |p: f64| [p, 1.0 - p].repeat(400);
        let held_out = HeldOut {
            by_member: vec![says(0.6), says(0.9)],
            truth,
        };
        let found = stacked(&held_out, 2, &[0.5; 2]);
        assert!((found[0].0 - 0.5).abs() < 0.05, "{found:?}");
        assert!(found[0].1.inverse_temperature > found[1].1.inverse_temperature);
    }

    #[test]
    fn weights_that_no_fit_has_are_refused() {
        check_weights("stacking weights", [0.25, 0.75].into_iter()).unwrap();
        for wrong in [[0.25, 0.5], [1.5, -0.5], [f64::NAN, 1.0]] {
            let message = check_weights("stacking weights", wrong.into_iter()).unwrap_err();
            assert!(message.contains("stacking weights"), "{message}");
        }
    }
}
