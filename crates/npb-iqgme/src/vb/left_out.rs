//! The posterior without one row.

use rayon::prelude::*;

use super::{IqgmeVb, VbUpdate};
use crate::IqgmeError;
use crate::pass::{PassParameters, RowFactors, Update, pass};
use crate::rows::Rows;
use crate::state::{Expert, IqgmeState};
use crate::stats::Stats;

/// A training row, and what is left of the posterior without it.
pub(crate) struct LeftOut {
    /// Position in the training table.
    pub(crate) table_row: usize,
    /// The row alone, without its label.
    pub(crate) row: Rows,
    /// Components, experts and sticks given the factors of all other rows. Soft labels and hyperparameters are those of all rows.
    pub(crate) state: IqgmeState,
}

impl IqgmeVb<'_> {
    /// Reads the rows for which `wanted` (table row) holds, each with the posterior that the others leave, by table row.
    ///
    /// A row's part in the statistics is taken out of them; that costs `N P^3` for each row and no further pass. First brings the factors of the rows in
    /// line with the parameters.
    pub(crate) fn leave_out<T: Send>(
        &mut self,
        wanted: impl Fn(usize) -> bool,
        read: impl Fn(&LeftOut) -> Result<T, IqgmeError> + Sync,
    ) -> Result<Vec<(usize, T)>, IqgmeError> {
        self.apply(VbUpdate::Labels)?;
        let rows = &self.data.rows;
        let parameters = self.pass_parameters()?;
        let positions = (0..rows.len()).filter(|&k| wanted(rows.order[k]));
        let positions: Vec<usize> = positions.collect();
        let mut read: Vec<(usize, T)> = positions
            .into_par_iter()
            .map(|position| {
                let left_out = self.without(position, &parameters)?;
                Ok((left_out.table_row, read(&left_out)?))
            })
            .collect::<Result<_, IqgmeError>>()?;
        read.sort_by_key(|(row, _)| *row);
        Ok(read)
    }

    fn without(&self, position: usize, parameters: &PassParameters) -> Result<LeftOut, IqgmeError> {
        let rows = &self.data.rows;
        let row = rows.only(position);
        let (k, n) = (rows.n_utilities, self.state.components.len());
        let of_row = |values: &[f64]| values[position * k..][..k].to_vec();
        let factors = RowFactors {
            locations: &mut of_row(&self.locations),
            soft: &mut of_row(&self.soft),
            responsibilities: &mut vec![0.0; n],
        };
        let update = Update {
            responsibilities: true,
            soft_labels: false,
        };
        let part = pass(&row, parameters, factors, update, self.iteration)?;
        let mut stats = self.stats.clone();
        for h in 0..n {
            stats.add(h, -1.0, &part, h);
        }
        Ok(LeftOut {
            table_row: rows.order[position],
            row: row.without_labels(),
            state: self.state_given(&stats)?,
        })
    }

    /// Components, experts and sticks given these statistics, the hyperparameters as they are.
    fn state_given(&self, stats: &Stats) -> Result<IqgmeState, IqgmeError> {
        let mut state = self.state.clone();
        for (h, component) in state.components.iter_mut().enumerate() {
            *component = self.prior.component.given(stats, h);
        }
        let k = self.data.rows.n_utilities;
        for (i, expert) in state.experts.iter_mut().enumerate() {
            *expert = if stats.labelled.weight[i / k] > 0.0 {
                self.free_expert(stats, i / k, i % k)?
            } else {
                Expert::tied(&state.expert_prior, i % k, k)
            };
        }
        // Rounding may leave less than nothing of a component that only this row is in.
        let counts: Vec<f64> = stats.counts().iter().map(|n| n.max(0.0)).collect();
        state.sticks.update_sticks(&self.padded(&counts));
        Ok(state)
    }
}
