//! Variational fits of tables and ratings.

use npb_data::{Rating, Ratings, Table};
use npb_infer::storage::fingerprint;
use npb_infer::{Saved, Stop, VbReport, Watch};
use serde::{Deserialize, Serialize};

use crate::BpfaError;
use crate::error::expect;
use crate::fit::{Entry, Prediction, entries_of, in_units};
use crate::units::Units;
use crate::vb::{BpfaPosterior, BpfaVb, BpfaVbConfig};

/// A matrix fitted by variational Bayes: the posterior and the bounds that led to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BpfaVbFit {
    /// Configuration of the run.
    pub config: BpfaVbConfig,
    /// Why the run ended.
    pub stop: Stop,
    /// Every iteration.
    pub trace: Vec<VbReport>,
    /// The posterior, in units of the model.
    pub posterior: BpfaPosterior,
    units: Units,
    n_rows: usize,
    column_counts: Vec<u32>,
    column_names: Vec<String>,
}

/// Fits a table by variational Bayes. Much quicker than [`fit`](crate::fit()), and too sure of itself: intervals are too narrow.
///
/// ```
/// use npb_bpfa::npb_data::Table;
/// use npb_bpfa::npb_infer::Watch;
/// use npb_bpfa::{BpfaVbConfig, fit_vb};
///
/// let value = |at: usize| ((at / 4) as f64 * 0.9).sin() * [1.0, -2.0, 0.5, 1.5][at % 4];
/// let cells: Vec<f64> = (0..240).map(|at| if at % 5 == 3 { f64::NAN } else { value(at) }).collect();
/// let table = Table::from_nan_coded(60, 4, &cells)?;
/// let model = fit_vb(&table, &BpfaVbConfig { atoms: 2, ..BpfaVbConfig::default() }, &Watch::none())?;
/// assert!((model.predict(2, 0)?.mean - value(8)).abs() < 0.2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// No observed cell, or all alike; a configuration out of range; numerical trouble; a checkpoint of another fit, or one that cannot be read or written.
pub fn fit_vb(
    table: &Table,
    config: &BpfaVbConfig,
    watch: &Watch<'_>,
) -> Result<BpfaVbFit, BpfaError> {
    let shape = (table.n_rows(), table.n_cols());
    let names = table.column_names().to_vec();
    fit_entries(shape, &entries_of(table), names, config, watch)
}

/// Fits ratings by variational Bayes.
///
/// # Errors
/// As [`fit_vb`].
pub fn fit_vb_ratings(
    ratings: &Ratings,
    config: &BpfaVbConfig,
    watch: &Watch<'_>,
) -> Result<BpfaVbFit, BpfaError> {
    let entries: Vec<Entry> = ratings
        .iter()
        .map(|r: Rating| (r.row, r.column, r.value))
        .collect();
    let shape = (ratings.n_rows(), ratings.n_cols());
    fit_entries(shape, &entries, Vec::new(), config, watch)
}

fn fit_entries(
    (n_rows, n_columns): (usize, usize),
    entries: &[Entry],
    column_names: Vec<String>,
    config: &BpfaVbConfig,
    watch: &Watch<'_>,
) -> Result<BpfaVbFit, BpfaError> {
    config.validate()?;
    let units = Units::new(n_rows, n_columns, config.centring, entries)?;
    let rows = in_units(n_rows, n_columns, &units, entries)?;
    let key = fingerprint(&(config, &rows, &units))?;
    let version = env!("CARGO_PKG_VERSION");
    let checkpoint =
        watch.checkpoint::<(BpfaPosterior, Vec<VbReport>)>("npb-bpfa/vb", version, key, 1)?;
    let mut run = match checkpoint.reached(0) {
        Some((posterior, trace)) => BpfaVb::resume(&rows, config.clone(), posterior, trace)?,
        None => BpfaVb::new(&rows, config.clone())?,
    };
    let mut part = watch.part("variational Bayes", 1.0);
    let names = ["elbo".to_owned()];
    let mut failed = None;
    let mut trace = run.trace().to_vec();
    let outcome = run.run(|report, posterior| {
        trace.push(*report);
        let reached = || (posterior.clone(), trace.clone());
        if let Err(error) = checkpoint.offer(0, report.iteration, reached) {
            failed = Some(error);
            return std::ops::ControlFlow::Break(());
        }
        let share = report.iteration as f64 / config.limits.max_iterations.max(1) as f64;
        part.report(report.iteration, share.min(0.999), &names, &[report.elbo])
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let (posterior, trace) = run.into_parts();
    checkpoint.write(0, || (posterior.clone(), trace.clone()))?;
    if let Some(last) = trace.last() {
        let _stopping_changes_nothing = part.report(last.iteration, 1.0, &names, &[last.elbo]);
    }
    let mut column_counts = vec![0; n_columns];
    entries
        .iter()
        .for_each(|e| column_counts[e.1 as usize] += 1);
    Ok(BpfaVbFit {
        config: config.clone(),
        stop: outcome.stop,
        trace,
        posterior,
        units,
        n_rows,
        column_counts,
        column_names,
    })
}

impl BpfaVbFit {
    /// The bound at the end, in nats, of the entries in units of the model; `None` before the first iteration. Bounds of one data set compare.
    pub fn elbo(&self) -> Option<f64> {
        self.trace.last().map(|report| report.elbo)
    }

    /// Columns without any observed value.
    pub fn unobserved_columns(&self) -> Vec<usize> {
        let all = self.column_counts.iter().enumerate();
        all.filter(|(_, n)| **n == 0).map(|(j, _)| j).collect()
    }

    /// Any cell of the fit.
    ///
    /// # Errors
    /// A cell that does not exist, or of a column without observed values.
    pub fn predict(&self, row: usize, column: usize) -> Result<Prediction, BpfaError> {
        let known = self.column_counts.get(column).is_some_and(|&n| n > 0);
        if row >= self.n_rows || !known {
            return Err(BpfaError::Argument {
                argument: "cell",
                value: format!("row {row}, column {column}"),
                rule: "one of the matrix, in a column with observed values",
            });
        }
        let (mean, variance) = self.posterior.moments(row, column);
        let (shape, rate) = self.posterior.noise[0];
        let scale = self.units.scale;
        Ok(Prediction {
            mean: self.units.centre(row, column) + scale * mean,
            sd: scale * variance.max(0.0).sqrt(),
            predictive_sd: scale * (variance.max(0.0) + rate / shape).sqrt(),
        })
    }

    /// The table of the fit with its missing cells filled by posterior means. Columns without observed values stay missing.
    ///
    /// # Errors
    /// A table of another shape or other columns.
    pub fn impute(&self, table: &Table) -> Result<Table, BpfaError> {
        let p = self.column_counts.len();
        let found = table.n_rows() == self.n_rows && table.n_cols() == p;
        expect(found, "shape of the table")?;
        if !self.column_names.is_empty() {
            table.check_columns(&self.column_names)?;
        }
        let mut values = table.values().to_vec();
        let mut known = table.observed().clone();
        for at in 0..values.len() {
            let (i, j) = (at / p, at % p);
            if !table.is_observed(i, j) && self.column_counts[j] > 0 {
                values[at] = self.predict(i, j)?.mean;
                known.set(i, j, true);
            }
        }
        Ok(Table::from_parts(values, known)?)
    }
}

impl Saved for BpfaVbFit {
    const MODEL: &'static str = "npb-bpfa/vb-fit";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Self;
    type Error = BpfaError;

    fn content(&self) -> &Self {
        self
    }

    fn from_content(fit: Self) -> Result<Self, BpfaError> {
        fit.config.validate()?;
        let (n, p) = (fit.n_rows, fit.column_counts.len());
        fit.units.check(n, p)?;
        let names = fit.column_names.len();
        expect(names == 0 || names == p, "column names")?;
        fit.posterior.check(&fit.config, (n, p, 1))?;
        Ok(fit)
    }
}
