//! Missing cells of the rows that a fit was made from.

use npb_data::{Labels, Table};

use super::IqgmeFit;
use crate::answers::{Imputation, MissingCell};
use crate::data::IqgmeData;
use crate::predict::{CellTerm, Gate, Predictor};
use crate::shards::outline::print_of_training;
use crate::vb::IqgmeVb;
use crate::{IqgmeError, Result};

/// A question about the rows of training, and the one for new rows.
type Question = [&'static str; 2];

impl IqgmeFit {
    /// The missing cells of the training rows given the observed cells of their rows: by row, then column.
    ///
    /// [`cells_by_row`](Self::cells_by_row) is for new rows. Components have been fitted to the rows of training and lie nearer to them than to new ones; to
    /// condition them on what is observed of such a row would use it twice, and intervals would come out too short, most of all with few rows for each
    /// feature. Here each row is taken out of the components first. `table` and `labels` are those of the fit.
    ///
    /// Cost, for each run that has weight: one E-step over the rows, and `N P^3` for each row with a hole. Errors: other columns than in training, another
    /// table or other labels.
    pub fn training_cells(&self, table: &Table, labels: &Labels) -> Result<Vec<Vec<MissingCell>>> {
        self.cells_left_out(["training_cells", "cells_by_row"], table, labels)
    }

    fn cells_left_out(
        &self,
        question: Question,
        table: &Table,
        labels: &Labels,
    ) -> Result<Vec<Vec<MissingCell>>> {
        let data = self.training_data(question, table, labels)?;
        if self.posterior_of_few().is_some() {
            return self.cells_by_row(table);
        }
        let units = self.units();
        let n_holes = |row: usize| units.missing_columns(table, row).count();
        let no_terms = |row| vec![Vec::new(); n_holes(row)];
        let mut terms: Vec<Vec<Vec<CellTerm>>> = (0..table.n_rows()).map(no_terms).collect();
        for run in self.members().iter().filter(|run| run.elbo_weight > 0.0) {
            let (config, state) = (self.stored.config.clone(), run.state.clone());
            let mut vb = IqgmeVb::resume(&data, config, state, &run.trace)?;
            let has_holes = |row: usize| n_holes(row) > 0;
            let by_row = vb.leave_out(has_holes, |left_out| {
                // The experts have no part in the features.
                let predictor = Predictor::new(&left_out.state, &[]).map_err(run.failed())?;
                let mut cells = predictor.missing_cells(&left_out.row, Gate::Marginal)?;
                Ok(cells.swap_remove(0))
            })?;
            for (row, cells) in by_row {
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
    pub fn impute_training(&self, table: &Table, labels: &Labels) -> Result<Imputation> {
        let cells = self.cells_left_out(["impute_training", "impute"], table, labels)?;
        self.units().impute(table, cells)
    }

    /// `draws` completed training tables for multiple imputation: as [`impute_draws`](Self::impute_draws), whose parameters are drawn given these rows and so use none
    /// of them twice. Errors: as there; another table or other labels than those of training.
    pub fn impute_training_draws(
        &self,
        table: &Table,
        labels: &Labels,
        draws: usize,
    ) -> Result<Vec<Table>> {
        self.training_data(["impute_training_draws", "impute_draws"], table, labels)?;
        self.impute_draws(table, draws)
    }

    /// A table and labels that are those of training.
    fn training_data(
        &self,
        [question, instead]: Question,
        table: &Table,
        labels: &Labels,
    ) -> Result<IqgmeData> {
        let (units, classes) = (self.units().clone(), self.stored.classes.clone());
        let data = IqgmeData::with_units(table, labels, units, classes)?;
        if print_of_training(&data, table, labels)? == self.stored.trained.training {
            return Ok(data);
        }
        let rows = table.n_rows();
        Err(IqgmeError::NotOfTraining {
            question,
            rows,
            instead,
        })
    }
}

#[cfg(test)]
mod tests {
    use npb_infer::stream;
    use rand::RngExt;
    use rand_distr::StandardNormal;

    use super::*;
    use crate::{Init, IqgmeConfig, fit_unlabelled};

    /// Rows of two Gaussians with strong correlations, few for as many features, a quarter of the cells hidden: the holes, and the truth.
    fn correlated(seed: u64, n: usize, p: usize) -> (Table, Table) {
        let mut rng = stream(seed, [0, 0, 10, 0]);
        let mut values = Vec::new();
        for i in 0..n {
            let centre = if i % 2 == 0 { 3.0 } else { -3.0 };
            let factors: [f64; 3] = std::array::from_fn(|_| rng.sample(StandardNormal));
            for j in 0..p {
                let noise: f64 = rng.sample(StandardNormal);
                let common = factors[j % 3] - factors[(j + 1) % 3] * (j % 2) as f64;
                values.push(centre + common + 0.5 * noise);
            }
        }
        let seen: Vec<bool> = (0..n * p).map(|_| rng.random::<f64>() > 0.25).collect();
        (
            Table::new(n, p, values.clone(), &seen).unwrap(),
            Table::complete(n, p, values).unwrap(),
        )
    }

    #[test]
    fn a_training_row_is_not_used_twice_for_its_own_holes() {
        let (mut new, mut own, mut chains, mut cells) = (0.0, 0.0, 0.0, 0.0);
        for seed in 0..6 {
            let (table, truth) = correlated(seed, 30, 12);
            let labels = Labels::from_strings(&[None::<&str>; 30]);
            let one = IqgmeConfig {
                unlabelled_starts: vec![Init::KMeans(2)],
                seed,
                ..IqgmeConfig::default()
            };
            let by_chains = fit_unlabelled(&table, &one).unwrap();
            let drawn = by_chains.cells_by_row(&table).unwrap();
            assert_eq!(drawn, by_chains.training_cells(&table, &labels).unwrap());
            let mut fitted = IqgmeFit {
                rows: None,
                ..by_chains
            };
            fitted.derived.posterior = Default::default();
            fitted.derived.stretch = Default::default();
            let as_new = fitted.cells_by_row(&table).unwrap();
            let as_own = fitted.training_cells(&table, &labels).unwrap();
            for (row, as_new) in as_new.iter().enumerate() {
                for (k, a) in as_new.iter().enumerate() {
                    let (b, c) = (&as_own[row][k], &drawn[row][k]);
                    assert_eq!([a.column; 2], [b.column, c.column]);
                    let x = truth.get(row, a.column).unwrap();
                    let within = |cell: &MissingCell| f64::from((cell.cdf(x) - 0.5).abs() < 0.475);
                    (new, own) = (new + within(a), own + within(b));
                    (chains, cells) = (chains + within(c), cells + 1.0);
                }
            }
        }
        // Intervals of 95%.
        let [new, own, chains] = [new, own, chains].map(|held| held / cells);
        assert!(own > new + 0.015, "{own} {new}");
        assert!((0.93..0.98).contains(&chains), "{chains}");
    }
}
