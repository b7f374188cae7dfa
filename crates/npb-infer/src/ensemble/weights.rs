//! Weights of members: by held-out prediction, or by their bounds.

/// Updates of the stacking weights.
const UPDATES: usize = 200;
/// A member that weighs less than this share of the best one has no part in answers that bounds decide.
const LEAST_WEIGHT: f64 = 1e-3;

/// Sorts members by their bounds, the best one first; of equal ones the first stays first. Returns their weights, proportional to
/// `exp((L - L_best) / (elbo_temperature n_observed))`.
pub fn by_bounds<R>(
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

/// Weights at which the average of the members' probabilities of what came true is highest, as posterior means would have them: `by_member`: member, label. To what
/// the labels say as many labels are added as there are members, shared out as in `prior` (which sums to 1): they decide where labels are few.
pub fn stack(by_member: &[Vec<f64>], prior: &[f64]) -> Vec<f64> {
    let n = by_member.len() as f64;
    let added: Vec<f64> = prior.iter().map(|share| n * share).collect();
    stack_with(by_member, &added)
}

/// As [`stack`], with so many labels added to each member.
pub fn stack_with(by_member: &[Vec<f64>], added: &[f64]) -> Vec<f64> {
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

/// Checks weights that come from a file: shares that sum to one.
///
/// # Errors
/// What is wrong with them, by the name `what`.
pub fn check_weights(what: &str, weights: impl Iterator<Item = f64> + Clone) -> Result<(), String> {
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
    fn weights_that_no_fit_has_are_refused() {
        check_weights("stacking weights", [0.25, 0.75].into_iter()).unwrap();
        for wrong in [[0.25, 0.5], [1.5, -0.5], [f64::NAN, 1.0]] {
            let message = check_weights("stacking weights", wrong.into_iter()).unwrap_err();
            assert!(message.contains("stacking weights"), "{message}");
        }
    }
}
