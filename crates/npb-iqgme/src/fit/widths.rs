//! How wide the laws of missing cells must be in a table of few rows.
//!
//! The prior expects the covariance of the rows, and the likelihood has the same rows: with few of them conditional laws come out too narrow. Observed cells that are hidden
//! from the chains, and from the covariance that the prior expects, say by how much.

use npb_data::Table;
use npb_infer::{parallel, stream};
use npb_priors::special::normal_quantile;
use rand::RngExt;

use super::IqgmeFit;
use super::kept::TrainingRows;
use crate::data::IqgmeData;
use crate::ensemble::questions::{by_draws, cells_of};
use crate::{FeatureScale, Result};

/// Each observed cell is hidden once.
const FOLDS: usize = 5;
/// So many cells of the width that is expected stand beside those that are seen.
const EXPECTED: f64 = 10.0;
/// Chains of folds have numbers of their own.
const FIRST_CHAIN: u64 = 1000;
/// A single cell does not say more than this share.
const LEAST_SHARE: f64 = 1e-4;
/// Third word of the key of the random stream.
const WIDTHS: u64 = 6;

impl IqgmeFit {
    /// The root of the mean square of normal scores of hidden cells, where it is above 1; 1 of a fit to many rows. Equations: `docs/iqgme-updates.md#few-rows`.
    pub(super) fn stretch_of_few(&self) -> f64 {
        let (Some(rows), true) = (&self.rows, self.posterior_of_few().is_some()) else {
            return 1.0;
        };
        *self.derived.stretch.get_or_init(|| {
            let folds = parallel::map(0..FOLDS, |fold| self.squares(rows, fold));
            // A fold may leave nothing to learn from.
            let (mut sum, mut n) = (EXPECTED, EXPECTED);
            for (own, cells) in folds.into_iter().flatten() {
                (sum, n) = (sum + own, n + cells);
            }
            (sum / n).sqrt().max(1.0)
        })
    }

    /// Of the observed cells of a fold: the sum of the squares of their normal scores under chains that do not see them, and their number.
    fn squares(&self, rows: &TrainingRows, fold: usize) -> Result<(f64, f64)> {
        let scale = FeatureScale::Standardised;
        let units = &self.stored.units[scale.index()];
        let shown = self.without(&rows.table, fold)?;
        let (labels, classes) = (&rows.labels, self.stored.classes.clone());
        let data = IqgmeData::with_units(&shown, labels, units.clone(), classes)?;
        let draws = self.chain(&data, scale, fold, FIRST_CHAIN + fold as u64)?;
        let said = cells_of(units, &units.rows(&shown)?, &shown, &by_draws(&draws))?;
        let (mut sum, mut n) = (0.0, 0.0);
        for (row, cells) in said.iter().enumerate() {
            for cell in cells {
                if let Some(x) = rows.table.get(row, cell.column) {
                    let share = cell.cdf(x).clamp(LEAST_SHARE, 1.0 - LEAST_SHARE);
                    sum += normal_quantile(share).powi(2);
                    n += 1.0;
                }
            }
        }
        Ok((sum, n))
    }

    /// The table without the cells of a fold.
    fn without(&self, table: &Table, fold: usize) -> Result<Table> {
        let (n, p) = (table.n_rows(), table.n_cols());
        let mut rng = stream(self.stored.config.seed, [0, 0, WIDTHS, 0]);
        let (mut values, mut seen) = (Vec::new(), Vec::new());
        for (row, column) in (0..n).flat_map(|row| (0..p).map(move |column| (row, column))) {
            let own = rng.random_range(0..FOLDS);
            let value = table.get(row, column).filter(|_| own != fold);
            values.push(value.unwrap_or(0.0));
            seen.push(value.is_some());
        }
        Ok(Table::new(n, p, values, &seen)?)
    }
}

#[cfg(test)]
mod tests {
    use npb_data::Labels;
    use rand_distr::StandardNormal;

    use super::*;
    use crate::{IqgmeConfig, fit_unlabelled};

    fn factor(seed: u64, n: usize) -> (Table, Vec<f64>) {
        let mut rng = stream(seed, [0, 0, 17, 0]);
        let (mut values, mut seen) = (Vec::new(), Vec::new());
        for _ in 0..n {
            let common: f64 = rng.sample(StandardNormal);
            for _ in 0..3 {
                let noise: f64 = rng.sample(StandardNormal);
                values.push(0.7 * common + 0.51_f64.sqrt() * noise);
                seen.push(rng.random::<f64>() > 0.2);
            }
        }
        (Table::new(n, 3, values.clone(), &seen).unwrap(), values)
    }

    #[test]
    fn each_observed_cell_is_in_one_fold() {
        let (table, _) = factor(1, 15);
        let fitted = fit_unlabelled(&table, &IqgmeConfig::default()).unwrap();
        let mut hidden = [0; 45];
        for fold in 0..FOLDS {
            let shown = fitted.without(&table, fold).unwrap();
            for (k, count) in hidden.iter_mut().enumerate() {
                let (row, column) = (k / 3, k % 3);
                match (table.get(row, column), shown.get(row, column)) {
                    (Some(_), None) => *count += 1,
                    (a, b) => assert_eq!(a, b),
                }
            }
        }
        for (k, count) in hidden.iter().enumerate() {
            assert_eq!(*count, i32::from(table.is_observed(k / 3, k % 3)));
        }
    }

    /// All laws of a row's cells are wider by the same factor about their means, and those of a fit to many rows are as they were.
    #[test]
    fn laws_of_few_rows_are_stretched_about_their_means() {
        let (table, _) = factor(2, 15);
        let fitted = fit_unlabelled(&table, &IqgmeConfig::default()).unwrap();
        let factor_found = fitted.stretch_of_few();
        let plain = {
            let units = fitted.units();
            let draws = fitted.posterior_of_few().unwrap();
            let rows = units.rows(&table).unwrap();
            cells_of(units, &rows, &table, &by_draws(draws)).unwrap()
        };
        let wide = fitted.cells_by_row(&table).unwrap();
        let none = Labels::from_strings(&[None::<&str>; 15]);
        assert_eq!(wide, fitted.training_cells(&table, &none).unwrap());
        assert!(factor_found > 1.0);
        for (a, b) in plain.iter().flatten().zip(wide.iter().flatten()) {
            assert!((b.mean - a.mean).abs() < 1e-12);
            assert!((b.sd / a.sd - factor_found).abs() < 1e-12);
            let at = a.mean + 0.8 * a.sd;
            assert!((b.cdf(b.mean + 0.8 * b.sd) - a.cdf(at)).abs() < 1e-12);
        }
        let (table, _) = factor(3, 61);
        let fitted = fit_unlabelled(&table, &IqgmeConfig::default()).unwrap();
        assert_eq!(fitted.stretch_of_few(), 1.0);
    }
}
