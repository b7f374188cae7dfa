//! A fit of any of the five kinds, and the questions that it answers.
//!
//! A kind says by [`Variant`] what it stores and how its class probabilities are found, by [`Draws`] how intervals of these are drawn, and by [`Describes`] which
//! mixtures tell of features. The questions stand here once, for fits of one table; a fit of several tables ([`MultiTaskFit`](crate::MultiTaskFit)) asks for class
//! probabilities by the same functions, with the number of a task.

use std::borrow::Cow;
use std::fmt::Debug;

use npb_data::Table;
use npb_infer::{Interval, parallel, stream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::answers::{
    ALL_CLASSES, ALL_INTERVALS, Imputation, MissingCell, add_density, check_draws, check_inside,
    most_probable, second,
};
use crate::data::{distinct, two_classes};
use crate::predict::{CellTerm, Gate, Predictor};
use crate::rows::Rows;
use crate::state::expect;
use crate::units::{Units, UnitsByScale};
use crate::{IqgmeError, Result};

/// What a file can hold.
pub trait Kept: Clone + Debug + Serialize + DeserializeOwned + Send + Sync {}
impl<T: Clone + Debug + Serialize + DeserializeOwned + Send + Sync> Kept for T {}

/// A kind of fit: what is stored of it, and what classes are to its rows.
pub trait Variant: Clone + Debug + Send + Sync + 'static {
    /// The name in files.
    const MODEL: &'static str;
    /// Whether rows of training may be stored.
    const KEEPS_ROWS: bool = false;
    type Config: Kept;
    type Units: Kept + UnitsByScale;
    /// The posterior: members, draws or parameters, and what goes along.
    type Trained: Kept;
    /// Rows of training that are kept.
    type Rows: Kept + Default;
    /// What questions need again and again, found from what is stored.
    type Derived: Clone + Debug + Send + Sync;

    /// What is wrong with what comes from a file, beside units and classes.
    fn check(stored: &Stored<Self>) -> Result<()>;

    fn check_rows(_stored: &Stored<Self>, _rows: &Self::Rows) -> Result<()> {
        Ok(())
    }

    fn derive(stored: &Stored<Self>) -> Result<Self::Derived>;

    /// Probabilities of all classes, by row, of a fit that has some.
    fn probabilities(fit: &Fit<Self>, task: usize, table: &Table) -> Result<Vec<Vec<f64>>>;
}

/// A kind of fit of one table.
pub trait OneTable: Variant {}

/// A kind of fit whose class probabilities have intervals by draws from its posterior.
pub trait Draws: Variant {
    /// By row and class.
    fn intervals(
        fit: &Fit<Self>,
        task: usize,
        table: &Table,
        level: f64,
    ) -> Result<Vec<Vec<Interval>>>;
}

/// What is stored. The order of the fields is that of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Stored<V: Variant> {
    pub(crate) config: V::Config,
    pub(crate) units: V::Units,
    pub(crate) classes: Vec<String>,
    pub(crate) trained: V::Trained,
}

impl<V: Variant> Stored<V> {
    /// Utilities of each expert; 0 without labels.
    pub(crate) fn n_utilities(&self) -> usize {
        self.classes.len().saturating_sub(1)
    }

    /// Number of features in the model.
    pub(crate) fn n_features(&self) -> usize {
        self.units.own().active.len()
    }

    pub(super) fn check(&self) -> Result<()> {
        self.units.check()?;
        expect(self.classes.len() != 1, "number of classes")?;
        distinct(&self.classes).map_err(|twice| IqgmeError::saved(twice.to_string()))?;
        V::check(self)
    }
}

/// A fitted model of one of five kinds: [`IqgmeFit`](crate::IqgmeFit), [`FactorFit`](crate::FactorFit), [`MultiTaskFit`](crate::MultiTaskFit),
/// [`GibbsFit`](crate::GibbsFit) and [`QgmeFit`](crate::QgmeFit), whose pages say how each finds its answers. Questions and answers are in the user's units, columns in
/// the order of training.
#[derive(Clone, Debug)]
pub struct Fit<V: Variant> {
    pub(crate) stored: Stored<V>,
    pub(crate) rows: V::Rows,
    pub(crate) derived: V::Derived,
}

/// What a fit says of itself.
impl<V: Variant> Fit<V> {
    pub(crate) fn new(stored: Stored<V>, rows: V::Rows) -> Result<Self> {
        let derived = V::derive(&stored)?;
        Ok(Self {
            stored,
            rows,
            derived,
        })
    }

    /// Names of the classes that have a labelled row; with two, probabilities are of the second. Empty for a fit without labels.
    pub fn classes(&self) -> &[String] {
        &self.stored.classes
    }

    /// Names of all columns of training.
    pub fn column_names(&self) -> &[String] {
        self.units().column_names()
    }

    /// Columns in the model, as positions in the training table.
    pub fn model_columns(&self) -> &[usize] {
        &self.units().active
    }

    /// Columns left out of the model: constant in training, which are completed by their constant, or without any observed value, which stay missing.
    pub fn ignored_columns(&self) -> Vec<usize> {
        self.units().ignored_columns()
    }

    /// The configuration of the fit.
    pub fn config(&self) -> &V::Config {
        &self.stored.config
    }

    /// The units of the features' own scale.
    pub(crate) fn units(&self) -> &Units {
        self.stored.units.own()
    }

    /// An error for a fit without labels.
    pub(crate) fn classifies(&self) -> Result<()> {
        match self.classes() {
            [] => Err(IqgmeError::Unlabelled),
            _ => Ok(()),
        }
    }

    pub(crate) fn classes_of(&self, task: usize, table: &Table) -> Result<Vec<Vec<f64>>> {
        self.classifies()?;
        V::probabilities(self, task, table)
    }

    pub(crate) fn second_class_of(&self, task: usize, table: &Table) -> Result<Vec<f64>> {
        two_classes(self.classes(), "predict_proba", ALL_CLASSES)?;
        Ok(second(V::probabilities(self, task, table)?))
    }

    pub(crate) fn names_of(&self, task: usize, table: &Table) -> Result<Vec<&str>> {
        let name = |p: Vec<f64>| self.classes()[most_probable(&p)].as_str();
        let by_row = self.classes_of(task, table)?.into_iter();
        Ok(by_row.map(name).collect())
    }
}

/// Class probabilities.
impl<V: OneTable> Fit<V> {
    /// Probability of the second class for each row, by the same rules as [`predict_classes`](Self::predict_classes). Errors: as there; a fit with more than
    /// two classes.
    pub fn predict_proba(&self, table: &Table) -> Result<Vec<f64>> {
        self.second_class_of(0, table)
    }

    /// Probabilities of all classes, for each row in the order of [`classes`](Self::classes): how is told of the type. A row without any observed feature
    /// gets the model's marginal class probabilities.
    ///
    /// Cost for each row, member or draw: `N P^2`, and `N min(|o|, |m|)^3` for each missing pattern, for `N` components; with more than two classes an
    /// integral for each component, seven where cells are missing. Errors: other columns than in training, a fit without labels.
    pub fn predict_classes(&self, table: &Table) -> Result<Vec<Vec<f64>>> {
        self.classes_of(0, table)
    }

    /// The most probable class of each row.
    pub fn predict(&self, table: &Table) -> Result<Vec<&str>> {
        self.names_of(0, table)
    }
}

impl<V: Draws> Fit<V> {
    pub(crate) fn intervals_of(
        &self,
        task: usize,
        table: &Table,
        level: f64,
    ) -> Result<Vec<Vec<Interval>>> {
        self.classifies()?;
        check_inside("level", level)?;
        V::intervals(self, task, table, level)
    }

    pub(crate) fn second_interval_of(
        &self,
        task: usize,
        table: &Table,
        level: f64,
    ) -> Result<Vec<Interval>> {
        two_classes(self.classes(), "predict_interval", ALL_INTERVALS)?;
        let by_row = self.intervals_of(task, table, level)?.into_iter();
        Ok(by_row.map(|of_row| of_row[1]).collect())
    }
}

/// Intervals of class probabilities.
impl<V: OneTable + Draws> Fit<V> {
    /// Probabilities of the second of two classes with central intervals, as [`predict_class_intervals`](Self::predict_class_intervals) has them of all
    /// classes. Errors: as there; a fit with more than two classes.
    pub fn predict_interval(&self, table: &Table, level: f64) -> Result<Vec<Interval>> {
        self.second_interval_of(0, table, level)
    }

    /// Probabilities of all classes, for each row in the order of [`classes`](Self::classes), with central intervals that hold `level` of the posterior: what
    /// the uncertainty of weights, components and experts makes of the probability, by 200 draws of all parameters, or those that chains have stored (missing features are
    /// integrated out in each). Of a fit with members they are calibrated as the probabilities of their member are, so that they spread around these, on the scale of log
    /// odds as wide as they were or, where the member was not sure enough, wider.
    ///
    /// Cost: for each draw that of [`predict_classes`](Self::predict_classes), and as many numbers are kept. Errors: as there; a `level` that is not between 0
    /// and 1 (both excluded).
    pub fn predict_class_intervals(&self, table: &Table, level: f64) -> Result<Vec<Vec<Interval>>> {
        self.intervals_of(0, table, level)
    }
}

/// Gate, least part of a component, and mixtures by weight.
pub(crate) type Completing<'a> = (Gate, f64, Vec<(f64, Cow<'a, Predictor>)>);

/// Components with less of a row than this do not count for its cells where many draws tell of them.
const LEAST_PART: f64 = 1e-6;

/// Draws of the parameters, each of the same weight, as they tell of missing cells.
pub(crate) fn by_draws(draws: &[Predictor]) -> Completing<'_> {
    let share = 1.0 / draws.len() as f64;
    let each = draws.iter().map(|draw| (share, Cow::Borrowed(draw)));
    (Gate::AtMeans, LEAST_PART, each.collect())
}

/// A kind of fit whose densities and missing cells are those of mixtures, by weight.
pub trait Describes: OneTable {
    /// Whether parameters are integrated out.
    const GATE: Gate;

    /// The mixtures and what they weigh; the weights sum to 1.
    fn mixtures(fit: &Fit<Self>) -> Vec<(f64, Cow<'_, Predictor>)>;

    /// The mixtures that tell of missing cells, their gate, and how much a component must have of a row to count for its cells.
    fn completing(fit: &Fit<Self>) -> Completing<'_> {
        (Self::GATE, 0.0, Self::mixtures(fit))
    }

    /// The mixture that makes a draw, one of so many, and its gate; the only one, where no other is told of.
    fn drawn(fit: &Fit<Self>, _draw: usize, _draws: usize) -> Result<(Gate, Cow<'_, Predictor>)> {
        Ok((Self::GATE, Self::mixtures(fit).swap_remove(0).1))
    }

    /// The random stream of a row of a draw: seed and third word.
    fn draw_key(config: &Self::Config) -> (u64, u64);

    /// The factor by which laws of missing cells are widened about their means.
    fn stretch(_fit: &Fit<Self>) -> f64 {
        1.0
    }
}

/// Densities and missing cells of new rows.
impl<V: Describes> Fit<V> {
    /// Log predictive density of the observed features of each row, in the user's units; low values are anomalies. Zero for a row without any.
    pub fn ln_density(&self, table: &Table) -> Result<Vec<f64>> {
        let rows = self.units().rows(table)?;
        let mut sums = vec![f64::NEG_INFINITY; table.n_rows()];
        let mixtures = V::mixtures(self);
        let own: Vec<Vec<f64>> = parallel::try_map(&mixtures, |(_, predictor)| {
            predictor.ln_density(&rows, V::GATE)
        })?;
        let each = mixtures.iter().zip(own);
        each.for_each(|((weight, _), own)| add_density(&mut sums, *weight, own));
        Ok(self.units().ln_density(table, sums))
    }

    /// For each row its missing cells given its observed cells, by column, in the user's units; columns that are not in the model are left out. Rows are taken for
    /// new ones.
    ///
    /// Cost for each mixture: `N P^2` for each row, and `N min(|o|, |m|)^3` for each missing pattern; rows in parallel, those with the same missing columns
    /// together. Errors: other columns than in training.
    pub fn cells_by_row(&self, table: &Table) -> Result<Vec<Vec<MissingCell>>> {
        let rows = self.units().rows(table)?;
        let mut cells = cells_of(self.units(), &rows, table, &V::completing(self))?;
        let stretch = V::stretch(self);
        if stretch != 1.0 {
            let all = cells.iter_mut().flatten();
            all.for_each(|cell| cell.stretch(stretch));
        }
        Ok(cells)
    }

    /// Completes new rows: mean and standard deviation of every missing cell given the observed cells of its row, by the same rules as
    /// [`cells_by_row`](Self::cells_by_row).
    ///
    /// Hide columns first ([`Table::hide`]) to get the conditional distribution of any columns given any others. A constant column is completed by its
    /// constant; a column that had no observed value in training stays missing.
    pub fn impute(&self, table: &Table) -> Result<Imputation> {
        self.units().impute(table, self.cells_by_row(table)?)
    }

    /// `draws` completed tables for multiple imputation, each a joint draw of the missing cells: what draws parameters first is told of the type. Where parameters
    /// are points, a draw is from the distributions of [`cells_by_row`](Self::cells_by_row).
    pub fn impute_draws(&self, table: &Table, draws: usize) -> Result<Vec<Table>> {
        check_draws(draws)?;
        let rows = self.units().rows(table)?;
        // What all of them need is made once, before they are made side by side.
        V::drawn(self, 0, draws)?;
        let (seed, third) = V::draw_key(&self.stored.config);
        let rng = |draw: usize, row: usize| stream(seed, [0, draw as u64, third, row as u64]);
        // Beyond all rows.
        let constants = |draw: usize| rng(draw, usize::MAX);
        self.units().impute_draws(table, draws, constants, |draw| {
            let (gate, predictor) = V::drawn(self, draw, draws)?;
            predictor.draw_missing(&rows, gate, |row| rng(draw, row))
        })
    }
}

/// The missing cells of rows under mixtures.
pub(crate) fn cells_of(
    units: &Units,
    rows: &Rows,
    table: &Table,
    (gate, least, mixtures): &Completing<'_>,
) -> Result<Vec<Vec<MissingCell>>> {
    let of = |(weight, predictor): &(f64, Cow<'_, Predictor>)| {
        let mut cells = predictor.missing_cells(rows, *gate)?;
        for terms in cells.iter_mut().flatten() {
            weigh(terms, *weight, *least);
        }
        Ok::<_, IqgmeError>(cells)
    };
    let mut by_mixture = parallel::try_map(mixtures, of)?.into_iter();
    let mut all = by_mixture.next().unwrap_or_default();
    for cells in by_mixture {
        for (have, more) in all.iter_mut().flatten().zip(cells.into_iter().flatten()) {
            have.extend(more);
        }
    }
    Ok(units.cells(table, all))
}

/// Which of so many stored draws of the parameters makes a draw, one of so many: they take turns, far apart in their chains.
pub(crate) fn taking_turns(draw: usize, draws: usize, stored: usize) -> usize {
    (draw * stored / draws.min(stored)) % stored
}

/// Weighs the terms of a cell, without those that do not count.
fn weigh(terms: &mut Vec<CellTerm>, mut weight: f64, least: f64) {
    if least > 0.0 {
        terms.retain(|term| term.weight > least);
        weight /= terms.iter().map(|term| term.weight).sum::<f64>();
    }
    terms.iter_mut().for_each(|term| term.weight *= weight);
}
