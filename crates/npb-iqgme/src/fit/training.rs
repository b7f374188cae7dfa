//! Missing cells of the rows that a fit was made from.

use npb_data::{Labels, Table};

use super::IqgmeFit;
use crate::IqgmeError;
use crate::answers::{Imputation, MissingCell, check_draws};
use crate::data::{IqgmeData, fingerprint};
use crate::ensemble::member::Member;
use crate::ensemble::questions::{Answers, Describes};
use crate::predict::{CellTerm, Gate, Predictor};
use crate::rows::Rows;
use crate::units::Filling;
use crate::vb::IqgmeVb;

/// A question about the rows of training, and the one for new rows.
type Question = [&'static str; 2];

/// What was read of the rows with holes under one run: table row, value.
type ByRow<T> = Vec<(usize, T)>;

impl IqgmeFit {
    /// The missing cells of the training rows given the observed cells of their rows: by row, then column.
    ///
    /// [`cells_by_row`](Self::cells_by_row) is for new rows. Components have been fitted to the rows of training and lie nearer to them than to new ones; to
    /// condition them on what is observed of such a row would use it twice, and intervals would come out too short, most of all with few rows for each
    /// feature. Here each row is taken out of the components first. `table` and `labels` are those of the fit.
    ///
    /// Cost, for each run that has weight: one E-step over the rows, and `N P^3` for each row with a hole. Errors: other columns than in training, another
    /// table or other labels.
    pub fn training_cells(
        &self,
        table: &Table,
        labels: &Labels,
    ) -> Result<Vec<Vec<MissingCell>>, IqgmeError> {
        self.cells_left_out(["training_cells", "cells_by_row"], table, labels)
    }

    fn cells_left_out(
        &self,
        question: Question,
        table: &Table,
        labels: &Labels,
    ) -> Result<Vec<Vec<MissingCell>>, IqgmeError> {
        let by_run = self.rows_left_out(question, table, labels, |_, _, row, predictor| {
            let mut cells = predictor.missing_cells(row, Gate::Marginal)?;
            Ok(cells.swap_remove(0))
        })?;
        let units = self.units();
        let no_terms = |row| vec![Vec::new(); units.missing_columns(table, row).count()];
        let mut terms: Vec<Vec<Vec<CellTerm>>> = (0..table.n_rows()).map(no_terms).collect();
        for (run, rows) in self.stored.members.iter().zip(by_run) {
            for (row, cells) in rows {
                for (to, cell) in terms[row].iter_mut().zip(cells) {
                    to.extend(cell.into_iter().map(|term| CellTerm {
                        weight: run.elbo_weight * term.weight,
                        ..term
                    }));
                }
            }
        }
        Ok(units.cells(table, terms))
    }

    /// Completes the training table: as [`impute`](Self::impute), by the cells of [`training_cells`](Self::training_cells).
    pub fn impute_training(
        &self,
        table: &Table,
        labels: &Labels,
    ) -> Result<Imputation, IqgmeError> {
        let cells = self.cells_left_out(["impute_training", "impute"], table, labels)?;
        self.units().impute(table, cells)
    }

    /// `draws` completed training tables for multiple imputation: as [`impute_draws`](Self::impute_draws), each row taken out of the components
    /// first, as in [`training_cells`](Self::training_cells).
    pub fn impute_training_draws(
        &self,
        table: &Table,
        labels: &Labels,
        draws: usize,
    ) -> Result<Vec<Table>, IqgmeError> {
        check_draws(draws, 1)?;
        let runs: Vec<usize> = (0..draws).map(|draw| self.chosen(draw, draws)).collect();
        let of_run = |run: usize| (0..draws).filter(|&draw| runs[draw] == run).collect();
        let of_runs: Vec<Vec<usize>> = (0..self.predictors.len()).map(of_run).collect();
        let question = ["impute_training_draws", "impute_draws"];
        let by_run =
            self.rows_left_out(question, table, labels, |run, table_row, row, predictor| {
                let one = |&draw: &usize| {
                    let rng = |_| self.row_rng(0, draw, table_row);
                    Ok(predictor
                        .draw_missing(row, Gate::Marginal, rng)?
                        .swap_remove(0))
                };
                let draws: Result<Vec<Vec<f64>>, IqgmeError> =
                    of_runs[run].iter().map(one).collect();
                draws
            })?;
        let units = self.units();
        let mut filled: Vec<Filling> = (0..draws).map(|_| Filling::new(table)).collect();
        for (draw, filled) in filled.iter_mut().enumerate() {
            units.draw_constants(table, filled, &mut self.row_rng(0, draw, usize::MAX));
        }
        for (of_run, rows) in of_runs.iter().zip(by_run) {
            for (row, drawn) in rows {
                for (&draw, values) in of_run.iter().zip(drawn) {
                    for (j, value) in units.missing_columns(table, row).zip(values) {
                        filled[draw].set(row, j, units.to_units(j, value));
                    }
                }
            }
        }
        filled.into_iter().map(|f| f.table(table)).collect()
    }

    /// For each run that has weight what `read` makes of the rows with holes: it gets the number of the run, the table row, the row alone, and
    /// the predictor that the others leave.
    fn rows_left_out<T: Send>(
        &self,
        [question, instead]: Question,
        table: &Table,
        labels: &Labels,
        read: impl Fn(usize, usize, &Rows, &Predictor) -> Result<T, IqgmeError> + Sync,
    ) -> Result<Vec<ByRow<T>>, IqgmeError> {
        let units = self.units();
        let classes = self.stored.classes.clone();
        let data = IqgmeData::with_units(table, labels, units.clone(), classes)?;
        if fingerprint(&data)? != self.stored.training {
            let rows = table.n_rows();
            return Err(IqgmeError::NotOfTraining {
                question,
                rows,
                instead,
            });
        }
        let has_holes = |row: usize| units.missing_columns(table, row).next().is_some();
        let of_run = |(k, run): (usize, &Member)| {
            if run.elbo_weight == 0.0 {
                return Ok(Vec::new());
            }
            let (config, state) = (self.stored.config.clone(), run.state.clone());
            let mut vb = IqgmeVb::resume(&data, config, state, run.trace.clone())?;
            vb.leave_out(has_holes, |left_out| {
                // The experts have no part in the features.
                let predictor = Predictor::new(&left_out.state, &[]);
                let predictor = predictor.map_err(|failed| run.failed(failed))?;
                read(k, left_out.table_row, &left_out.row, &predictor)
            })
        };
        let runs = self.stored.members[..self.predictors.len()]
            .iter()
            .enumerate();
        runs.map(of_run).collect()
    }
}
