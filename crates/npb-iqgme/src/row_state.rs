//! What a run keeps of rows beside the posterior of the parameters.

use crate::e_step::{EStepParameters, RowFactors, Update, e_step, expected_utilities};
use crate::responsibilities::Responsibilities;
use crate::stats::SufficientStats;
use crate::{IqgmeData, Result};

/// `q(t)` and `q(z)` of the rows of a task, and what they sum to.
#[derive(Clone, Debug)]
pub(crate) struct RowState {
    /// By component.
    pub(crate) stats: SufficientStats,
    /// Locations and means of `q(t)`, by sorted position.
    pub(crate) locations: Vec<f64>,
    pub(crate) soft: Vec<f64>,
    pub(crate) responsibilities: Responsibilities,
}

impl RowState {
    pub(crate) fn new(
        task: &IqgmeData,
        locations: Vec<f64>,
        responsibilities: Responsibilities,
        n_components: usize,
    ) -> Self {
        let rows = &task.rows;
        Self {
            stats: SufficientStats::zeros(rows.n_features, n_components, rows.n_utilities),
            soft: expected_utilities(&locations, rows),
            locations,
            responsibilities,
        }
    }

    /// With the labels for utility means, as a run starts.
    pub(crate) fn begin(
        task: &IqgmeData,
        responsibilities: Responsibilities,
        n_components: usize,
    ) -> Self {
        Self::new(task, task.first_locations(), responsibilities, n_components)
    }

    /// Updates the factors of the rows, and the statistics.
    pub(crate) fn e_step(
        &mut self,
        task: &IqgmeData,
        parameters: &EStepParameters,
        update: Update,
        iteration: u64,
    ) -> Result<()> {
        let rows = &task.rows;
        let factors = RowFactors {
            locations: &mut self.locations,
            soft: &mut self.soft,
            responsibilities: match update.responsibilities {
                true => self.responsibilities.overwritten(rows.len()),
                false => self.responsibilities.in_order(rows),
            },
        };
        self.stats = e_step(rows, parameters, factors, update, iteration)?;
        Ok(())
    }
}
