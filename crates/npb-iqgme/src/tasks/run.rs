//! One run over many tasks.

use npb_infer::{Stop, VbOutcome, VbReport};
use serde::{Deserialize, Serialize};

use super::config::TaskInit;
use super::state::MultiTaskState;
use super::vb::MultiTaskVb;
use crate::IqgmeError;
use crate::config::FeatureScale;
use crate::ensemble::train::Planned;
use crate::predict::{Gate, Predictor};
use crate::state::Expert;
use npb_infer::ensemble::Calibration;

/// One run: where it started, how it went, and the posterior it ended in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskMember {
    /// Its start.
    pub start: TaskInit,
    /// The scale of the features that it is made on.
    pub scale: FeatureScale,
    /// Its weight in class probabilities, by held-out prediction or, where there is none, by its bound.
    pub stacking_weight: f64,
    /// How its class probabilities are calibrated, found from held-out prediction.
    pub calibration: Calibration,
    /// Bound and relative change, iteration by iteration.
    pub trace: Vec<VbReport>,
    /// Why it ended.
    pub stop: Stop,
    /// The variational posterior, in standardised units of its scale.
    pub state: MultiTaskState,
}

impl TaskMember {
    /// A run that has ended. Its experts are those of its last `q(lambda)`, so that tasks can be added later.
    pub(super) fn new(
        (scale, start): Planned<TaskInit>,
        outcome: VbOutcome,
        mut vb: MultiTaskVb<'_>,
    ) -> Result<Self, IqgmeError> {
        vb.finalise()?;
        Ok(Self {
            start,
            scale,
            stacking_weight: 0.0,
            calibration: Calibration::default(),
            trace: outcome.trace,
            stop: outcome.stop,
            state: vb.into_state(),
        })
    }

    /// Its last bound.
    pub fn elbo(&self) -> f64 {
        self.trace
            .last()
            .map_or(f64::NEG_INFINITY, |report| report.elbo)
    }

    /// Its atoms and one that stands for all at the prior. The weights are to be replaced by a task's.
    pub(super) fn predictor(&self) -> Result<Predictor, IqgmeError> {
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
        Predictor::from_parts(&components, &experts, weights).map_err(|(component, source)| {
            IqgmeError::numerical(self.trace.len() as u64, "covariance", component, source)
        })
    }

    /// The atoms with the weights of task `j`, for class probabilities.
    pub(super) fn predictor_of(&self, predictor: &Predictor, j: usize) -> Predictor {
        predictor.with_weights(logs(self.state.gate_weights(j, Gate::AtMeans)))
    }
}

pub(super) fn logs(weights: Vec<f64>) -> Vec<f64> {
    weights.into_iter().map(f64::ln).collect()
}
