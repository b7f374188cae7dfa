//! Stacking weights of members on one scale or two.
//!
//! Which start ends in the best classifier differs from data set to data set, and the bound, nearly all of which is about the features, does not know. So
//! class probabilities are averaged with the weights at which the average gives the held-out labels the highest probability.

use std::ops::Range;

use npb_infer::ensemble::{Calibration, by_bounds, stack, stack_with};
use npb_infer::parallel;

use super::crossval::HeldOut;
use super::member::Member;
use crate::FeatureScale;

/// Labels that are added to each of two scales when labels say what it weighs.
const LABELS_FOR_EACH_SCALE: f64 = 10.0;

/// What members weigh within their scale where labels say nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Without {
    /// By their bounds.
    Bounds,
    /// Evenly: the bound says little of the labels of many tasks, or beside so many features.
    Even,
}

/// Members in the order of their bounds, those on the features' own scale before those on normal scores, if there are two scales; weighed and calibrated.
pub(crate) fn weighed<I, S, D>(
    members: Vec<Member<I, S, D>>,
    n_scales: usize,
    held_out: Option<HeldOut>,
    without: Without,
    (elbo_temperature, n_observed): (f64, usize),
) -> Vec<Member<I, S, D>> {
    let mut members: Vec<(usize, Member<I, S, D>)> = members.into_iter().enumerate().collect();
    let n = members.len();
    let own = |(_, m): &&(usize, Member<I, S, D>)| m.scale == FeatureScale::Standardised;
    let n_own = match n_scales {
        1 => n,
        _ => members.iter().take_while(own).count(),
    };
    let (own, on_scores) = members.split_at_mut(n_own);
    let [mut prior, more] = [own, on_scores]
        .map(|members| by_bounds(members, |(_, m)| m.elbo(), elbo_temperature, n_observed));
    for ((_, member), &weight) in members.iter_mut().zip(&prior) {
        (member.elbo_weight, member.stacking_weight) = (weight, weight);
    }
    if let Some(HeldOut {
        mut by_member,
        truth,
    }) = held_out
    {
        prior.extend(more);
        if without == Without::Even {
            let even = |k: usize| 1.0 / if k < n_own { n_own } else { n - n_own } as f64;
            prior = (0..n).map(even).collect();
        }
        let of = |(made, _): &(usize, _)| std::mem::take(&mut by_member[*made]);
        let by_member = members.iter().map(of).collect();
        let found = stacked(&HeldOut { by_member, truth }, n_own, &prior);
        for ((_, member), found) in members.iter_mut().zip(found) {
            (member.stacking_weight, member.calibration) = found;
        }
    }
    members.into_iter().map(|(_, member)| member).collect()
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
    let calibrations: Vec<Calibration> = parallel::map(by_member, |of| Calibration::fit(of, truth));
    let of_truth = |(of, calibration): (&Vec<f64>, &Calibration)| -> Vec<f64> {
        let each = of.chunks_exact(of.len() / truth.len()).zip(truth);
        each.map(|(p, &class)| calibration.of(p)[class]).collect()
    };
    let each = by_member.iter().zip(&calibrations);
    let of_truth: Vec<Vec<f64>> = each.map(of_truth).collect();
    let weights = by_scale(&of_truth, n_own, |at| {
        stack(&of_truth[at.clone()], &prior[at])
    });
    weights.into_iter().zip(calibrations).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
