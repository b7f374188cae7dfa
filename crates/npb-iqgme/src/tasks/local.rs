//! The rows of one task that choose among its local components.

use npb_priors::dp::Sticks;

use crate::e_step::{Atom, EStepParameters, Update};
use crate::row_state::RowState;
use crate::rows::Rows;
use crate::{IqgmeData, IqgmeError, Result};

/// Updates the factors of the rows, and the statistics.
pub(super) fn e_step_of(
    state: &mut RowState,
    task: &IqgmeData,
    sticks: &Sticks,
    indicators: &[Vec<f64>],
    atoms: &[Atom<'_>],
    update: Update,
    iteration: u64,
) -> Result<()> {
    let mut ln_weights = vec![0.0; sticks.truncation()];
    sticks.expected_ln_weights(&mut ln_weights);
    let parameters = parameters(atoms, indicators, &ln_weights, &task.rows, iteration)?;
    state.e_step(task, &parameters, update, iteration)
}

/// What an E-step over `rows`, or some of them, needs of local components with these indicators.
pub(super) fn parameters(
    atoms: &[Atom<'_>],
    indicators: &[Vec<f64>],
    ln_weights: &[f64],
    rows: &Rows,
    iteration: u64,
) -> Result<EStepParameters> {
    let made = EStepParameters::averaged(atoms, indicators, ln_weights, rows);
    made.map_err(IqgmeError::at(iteration, "precision of a local component"))
}

/// One task's part of a start.
pub(super) struct TaskBegin {
    pub(super) local: RowState,
    /// The atom of each local component.
    pub(super) atoms: Vec<usize>,
}
