//! The evidence lower bound, from sufficient statistics and the posterior of the parameters.

use npb_linalg::NotPositiveDefinite;

use super::state::MultiTaskState;
use crate::Bound;
use crate::bound::{add_experts, feature_term};
use crate::prior::Prior;
use crate::state::{Expected, dot};
use crate::stats::{RowTerms, SufficientStats};

/// The bound of `state`, given the rows of every task in its local components, what they give to it, and the statistics of the atoms.
pub(super) fn bound(
    state: &MultiTaskState,
    expected: &[Expected],
    tasks: impl Iterator<Item = (Vec<f64>, RowTerms)>,
    atoms: &SufficientStats,
    prior: &Prior,
) -> Result<Bound, NotPositiveDefinite> {
    let mut bound = Bound::default();
    let mut ln_eta = vec![0.0; state.global_sticks.truncation()];
    state.global_sticks.expected_ln_weights(&mut ln_eta);
    for (task, (counts, rows)) in state.tasks.iter().zip(tasks) {
        let mut ln_pi = vec![0.0; task.sticks.truncation()];
        task.sticks.expected_ln_weights(&mut ln_pi);
        let stick_fit = dot(&counts, &ln_pi);
        let sticks = task.sticks.elbo(&state.alpha) + indicator_term(&task.indicators, &ln_eta);
        bound.labels += stick_fit + rows.label_entropy;
        bound.features += rows.missing_entropy;
        bound.utility_means += rows.soft_local;
        bound.sticks += sticks;
        bound.magnitude += stick_fit.abs() + rows.magnitude + sticks.abs();
    }
    let top = state.alpha.elbo() + state.global_sticks.elbo();
    bound.sticks += top;
    bound.magnitude += top.abs();
    for (s, component) in state.components.iter().enumerate() {
        let (value, magnitude) = feature_term(component, &expected[s], atoms, s);
        bound.features += value;
        bound.magnitude += magnitude;
    }
    // A Gaussian that all atoms have counts once.
    for expected in &expected[..state.n_gaussians()] {
        let divergence = expected.law.kl(&prior.expected.law);
        bound.components -= divergence;
        bound.magnitude += divergence.abs();
    }
    if !state.experts.is_empty() {
        let prior = (&state.expert_prior, &prior.expert);
        let (of_utilities, magnitude) = (&mut bound.utility_means, &mut bound.magnitude);
        bound.experts = add_experts(&state.experts, prior, atoms, of_utilities, magnitude)?;
        bound.magnitude += bound.experts.abs();
    }
    Ok(bound)
}

/// `E ln p(c | U)` and the entropy of `q(c)`, over local components with rows.
fn indicator_term(indicators: &[Vec<f64>], ln_eta: &[f64]) -> f64 {
    let each = indicators.iter().flat_map(|row| row.iter().zip(ln_eta));
    each.filter(|(sigma, _)| **sigma > 0.0)
        .map(|(sigma, ln_eta)| sigma * (ln_eta - sigma.ln()))
        .sum()
}
