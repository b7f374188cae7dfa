//! The rows of one task.

use npb_priors::dp::Sticks;

use crate::e_step::{Atom, EStepParameters, RowFactors, Update, e_step, expected_utilities};
use crate::responsibilities::Responsibilities;
use crate::rows::Rows;
use crate::stats::SufficientStats;
use crate::{IqgmeData, IqgmeError};

/// What a run keeps of one task beside its part of the posterior.
#[derive(Clone, Debug)]
pub(super) struct Local {
    /// Of its local components.
    pub(super) stats: SufficientStats,
    /// Locations and means of `q(t)`, by sorted position.
    pub(super) locations: Vec<f64>,
    soft: Vec<f64>,
    pub(super) responsibilities: Responsibilities,
}

impl Local {
    pub(super) fn new(
        task: &IqgmeData,
        locations: Vec<f64>,
        responsibilities: Responsibilities,
        n_local: usize,
    ) -> Self {
        Self {
            stats: SufficientStats::zeros(task.rows.n_features, n_local, task.rows.n_utilities),
            soft: expected_utilities(&locations, &task.rows),
            locations,
            responsibilities,
        }
    }

    /// With the labels for utility means, as a run starts.
    pub(super) fn begin(
        task: &IqgmeData,
        responsibilities: Responsibilities,
        n_local: usize,
    ) -> Self {
        Self::new(task, task.first_locations(), responsibilities, n_local)
    }

    /// Updates the factors of the rows, and the statistics.
    pub(super) fn e_step(
        &mut self,
        task: &IqgmeData,
        sticks: &Sticks,
        indicators: &[Vec<f64>],
        atoms: &[Atom<'_>],
        update: Update,
        iteration: u64,
    ) -> Result<(), IqgmeError> {
        let mut ln_weights = vec![0.0; sticks.truncation()];
        sticks.expected_ln_weights(&mut ln_weights);
        let parameters = parameters(atoms, indicators, &ln_weights, &task.rows, iteration)?;
        self.e_step_with(task, &parameters, update, iteration)
    }

    /// As [`e_step`](Self::e_step), with what it needs of the local components.
    pub(super) fn e_step_with(
        &mut self,
        task: &IqgmeData,
        parameters: &EStepParameters,
        update: Update,
        iteration: u64,
    ) -> Result<(), IqgmeError> {
        let rows = &task.rows;
        let factors = RowFactors {
            locations: &mut self.locations,
            soft: &mut self.soft,
            responsibilities: if update.responsibilities {
                self.responsibilities.overwritten(rows.len())
            } else {
                self.responsibilities.in_order(rows)
            },
        };
        self.stats = e_step(rows, parameters, factors, update, iteration)?;
        Ok(())
    }
}

/// What an E-step over `rows`, or some of them, needs of local components with these indicators.
pub(super) fn parameters(
    atoms: &[Atom<'_>],
    indicators: &[Vec<f64>],
    ln_weights: &[f64],
    rows: &Rows,
    iteration: u64,
) -> Result<EStepParameters, IqgmeError> {
    let failed = |(component, source)| {
        IqgmeError::numerical(
            iteration,
            "precision of a local component",
            component,
            source,
        )
    };
    EStepParameters::averaged(atoms, indicators, ln_weights, rows).map_err(failed)
}

/// One task's part of a start.
pub(super) struct TaskBegin {
    pub(super) local: Local,
    /// The atom of each local component.
    pub(super) atoms: Vec<usize>,
}
