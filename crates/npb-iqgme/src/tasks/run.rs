//! One run over many tasks.

use npb_infer::{Stop, VbOutcome, VbReport};
use serde::{Deserialize, Serialize};

use super::config::{TaskStart, TasksConfig};
use super::data::TrainingTasks;
use super::state::MultiTaskState;
use super::vb::MultiTaskVb;
use crate::IqgmeError;
use crate::answers::with_first_class;
use crate::config::FeatureScale;
use crate::predict::{Experts, Gate, Predictor};
use crate::rows::Rows;
use crate::scales::{Planned, planned};
use crate::state::Expert;

/// The runs for predictions that the configuration asks for, each to be made `config.single.restarts` times.
pub(super) fn plan(training: &TrainingTasks, config: &TasksConfig) -> Vec<Planned<TaskStart>> {
    planned(&config.starts, training.scores.is_some())
}

/// One run: where it started, how it went, and the posterior it ended in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskRun {
    /// Its start.
    pub start: TaskStart,
    /// The scale of the features that it is made on.
    pub scale: FeatureScale,
    /// Its weight in predictions; zero for a run that was not kept.
    pub weight: f64,
    /// The power to which the odds of its classes are raised, found from the labels that it foretells; 1 where nothing was foretold. Rows of which less is seen than usual in training are put right by less.
    pub sharpness: f64,
    /// With more than two classes: what is added to the logarithms of the classes' probabilities after that, before these are made to sum to one, found from the same labels;
    /// 0 for the first class. None with two classes, or where nothing was foretold.
    pub shifts: Vec<f64>,
    /// Bound and relative change, iteration by iteration.
    pub trace: Vec<VbReport>,
    /// Why it ended.
    pub stop: Stop,
    /// The variational posterior, in standardised units of its scale.
    pub state: MultiTaskState,
}

impl TaskRun {
    /// A run that has ended. Its experts are those of its last `q(lambda)`, so that tasks can be added later.
    pub(super) fn new(
        Planned { scale, start }: Planned<TaskStart>,
        outcome: VbOutcome,
        mut vb: MultiTaskVb<'_>,
    ) -> Result<Self, IqgmeError> {
        vb.settle()?;
        Ok(Self {
            start,
            scale,
            weight: 0.0,
            sharpness: 1.0,
            shifts: Vec::new(),
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
            experts.extend(Expert::all_tied(&state.expert_prior, state.n_utilities()));
        }
        let weights = vec![0.0; components.len()];
        Predictor::from_parts(&components, &experts, weights).map_err(|(component, source)| {
            IqgmeError::Numerical {
                iteration: self.trace.len() as u64,
                block: "covariance",
                component,
                source,
            }
        })
    }

    /// Probabilities of the classes for each row of task `j`, before they are sharpened.
    pub(super) fn probabilities(
        &self,
        predictor: &Predictor,
        j: usize,
        rows: &Rows,
    ) -> Result<Vec<Vec<f64>>, IqgmeError> {
        let weights = logs(self.state.gate_weights(j, Gate::AtMeans));
        let own = predictor.with_weights(weights);
        let others = own.probabilities(rows, Experts::Integrated)?;
        Ok(with_first_class(others))
    }
}

pub(super) fn logs(weights: Vec<f64>) -> Vec<f64> {
    weights.into_iter().map(f64::ln).collect()
}
