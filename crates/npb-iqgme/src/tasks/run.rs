//! One run over many tasks.

use super::config::TaskInit;
use super::state::MultiTaskState;
use crate::Result;
use crate::ensemble::member::Member;
use crate::predict::{Gate, Predictor};
use crate::state::Expert;

/// A run over many tasks.
pub type TaskMember = Member<TaskInit, MultiTaskState, ()>;

impl TaskMember {
    /// Its atoms and one that stands for all at the prior. The weights are to be replaced by a task's.
    pub(super) fn predictor(&self) -> Result<Predictor> {
        let state = &self.state;
        let components = state.all_components();
        let mut experts = state.experts.clone();
        if !experts.is_empty() {
            experts.extend(Expert::all_at_prior(
                &state.expert_prior,
                state.n_utilities(),
            ));
        }
        let weights = vec![0.0; components.len()];
        Predictor::from_parts(&components, &experts, weights).map_err(self.failed())
    }

    /// The atoms with the weights of task `j`, for class probabilities.
    pub(super) fn predictor_of(&self, predictor: &Predictor, j: usize) -> Predictor {
        let weights = self.state.gate_weights(j, Gate::AtMeans).into_iter();
        predictor.with_weights(weights.map(f64::ln).collect())
    }
}
