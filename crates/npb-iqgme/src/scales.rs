//! The scales on which runs are made: the features' own, and normal scores of them.
//!
//! Features of real tables are skewed and have heavy tails; Gaussians spend components on that, and linear experts lean on outliers. On normal scores they do not. Which
//! scale tells labels better differs from table to table, and the folds know. Bounds of runs on scores are of other numbers than those of the table, so that they have
//! no part in densities and missing cells.

use npb_data::{Labels, Standardiser, Table};
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

use crate::IqgmeError;
use crate::config::{FeatureScale, IqgmeConfig};
use crate::data::IqgmeData;
use crate::margins::Margins;
use crate::rows::Rows;
use crate::stacking;
use crate::units::Units;

/// Something on the features' own scale and, if there are runs on them, on normal scores.
#[derive(Clone, Debug)]
pub(crate) struct ByScale<T> {
    pub(crate) own: T,
    pub(crate) scores: Option<T>,
}

impl<T> ByScale<T> {
    pub(crate) fn on(&self, scale: FeatureScale) -> &T {
        match scale {
            FeatureScale::Standardised => &self.own,
            FeatureScale::NormalScores => self.scores.as_ref().expect("where runs are made"),
        }
    }
}

/// A run to be made: its scale, and its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Planned<S> {
    pub(crate) scale: FeatureScale,
    pub(crate) start: S,
}

/// Runs from all starts on the features' own scale, then, if they are wanted, on normal scores.
pub(crate) fn planned<S: Copy>(starts: &[S], on_scores: bool) -> Vec<Planned<S>> {
    let scales: &[FeatureScale] = match on_scores {
        false => &[FeatureScale::Standardised],
        true => &[FeatureScale::Standardised, FeatureScale::NormalScores],
    };
    let on = |&scale: &FeatureScale| starts.iter().map(move |&start| Planned { scale, start });
    scales.iter().flat_map(on).collect()
}

/// Normal scores of the features, standardised: learned from training.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Scores {
    margins: Margins,
    /// Of the scores.
    units: Units,
    /// `S` of the components' prior, of the rows of training.
    #[serde(with = "npb_linalg::saved")]
    covariance: Mat<f64>,
}

impl Scores {
    /// Scores of a table, and its rows on them. `own`: the rows on their own scale.
    pub(crate) fn of(
        table: &Table,
        labels: &Labels,
        own: &IqgmeData,
    ) -> Result<(Self, IqgmeData), IqgmeError> {
        let margins = Margins::normal_scores(table);
        let scored = margins.apply(table)?;
        let standardiser = Standardiser::fit(&scored);
        let (active, classes) = (own.active.clone(), own.classes.clone());
        let data = IqgmeData::with_units(&scored, labels, standardiser, active, classes)?;
        let scores = Self {
            margins,
            units: Units::of(&data),
            covariance: data.covariance.clone(),
        };
        Ok((scores, data))
    }

    /// The scores of a table with the columns of training.
    pub(crate) fn table(&self, table: &Table) -> Result<Table, IqgmeError> {
        table.check_columns(self.units.column_names())?;
        Ok(self.margins.apply(table)?)
    }

    /// Data in these units with the prior of training, without any rows.
    pub(crate) fn no_rows(&self, classes: &[String]) -> IqgmeData {
        IqgmeData {
            rows: Rows::of_features(self.units.active.len()),
            standardiser: self.units.standardiser.clone(),
            active: self.units.active.clone(),
            classes: classes.to_vec(),
            covariance: self.covariance.clone(),
            n_labelled: usize::from(!classes.is_empty()),
        }
    }

    /// Checks what comes from a file beside the units of the features' own scale.
    pub(crate) fn check(&self, own: &Units) -> Result<(), String> {
        self.units.check()?;
        let (n_columns, p) = (own.column_names().len(), own.active.len());
        let proper = self.units.active == own.active
            && self.units.column_names().len() == n_columns
            && self.margins.is_valid(n_columns)
            && self.covariance.shape() == (p, p)
            && Cholesky::new(self.covariance.as_ref()).is_ok();
        if proper {
            return Ok(());
        }
        Err("normal scores of the columns".to_owned())
    }
}

/// The rows of a table on each scale. `scores`: those of the fit, if it has some.
pub(crate) fn rows(
    units: &Units,
    scores: Option<&Scores>,
    table: &Table,
) -> Result<ByScale<Rows>, IqgmeError> {
    let on_scores = |scores: &Scores| scores.units.rows(&scores.table(table)?);
    Ok(ByScale {
        own: units.rows(table)?,
        scores: scores.map(on_scores).transpose()?,
    })
}

/// As [`rows`], of rows that cross-validation has left out.
pub(crate) fn rows_left_out(
    units: &Units,
    scores: Option<&Scores>,
    table: &Table,
) -> Result<ByScale<Rows>, IqgmeError> {
    let on_scores = |scores: &Scores| scores.units.rows_left_out(&scores.table(table)?);
    Ok(ByScale {
        own: units.rows_left_out(table)?,
        scores: scores.map(on_scores).transpose()?,
    })
}

/// Whether runs on scores are to be made: the configuration wants them, labels say which scale is better, and scores are more than other units, as they are of a column with three values or more.
pub(crate) fn wanted(
    sets: &[&Labels],
    tables: &[&Table],
    columns: &[usize],
    config: &IqgmeConfig,
) -> bool {
    let bends = |&j: &usize| {
        let mut values = tables.iter().flat_map(|table| table.observed_in_column(j));
        let first = values.next();
        let second = values.find(|v| Some(*v) != first);
        values.any(|v| Some(v) != first && Some(v) != second)
    };
    let can_weigh = || stacking::sides(sets, config.folds, config.seed).is_some();
    config.normal_scores && columns.iter().any(bends) && can_weigh()
}

/// Training data on the scales of their runs.
pub(crate) struct Training<D> {
    pub(crate) data: ByScale<D>,
    pub(crate) scores: Option<Scores>,
}

impl<D> Training<D> {
    /// `own`: on the features' own scale. `on_scores`: makes scores, and the same data on them, which is asked for if they are `wanted`.
    pub(crate) fn with(
        own: D,
        wanted: bool,
        on_scores: impl FnOnce(&D) -> Result<(Scores, D), IqgmeError>,
    ) -> Result<Self, IqgmeError> {
        let made = wanted.then(|| on_scores(&own)).transpose()?;
        let (scores, on_scores) = made.unzip();
        Ok(Self {
            data: ByScale {
                own,
                scores: on_scores,
            },
            scores,
        })
    }
}

impl Training<IqgmeData> {
    /// Of one table; on normal scores, too, if runs on them are to be made.
    pub(crate) fn new(
        table: &Table,
        labels: &Labels,
        config: &IqgmeConfig,
    ) -> Result<Self, IqgmeError> {
        let own = IqgmeData::new(table, labels, config)?;
        let scored = wanted(&[labels], &[table], &own.active, config);
        Self::with(own, scored, |own| Scores::of(table, labels, own))
    }
}
