//! The questions that all fits answer, in one place: what a fit says of itself, of classes and of features.
//!
//! A fit tells by [`Answers`] and [`Describes`] what it is made of; the macros below give it the public methods. Those of a fit of several tables name the task.

use std::borrow::Cow;

use npb_data::Table;
use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::special::ln_add_exp;

use crate::IqgmeError;
use crate::answers::{MissingCell, check_draws};
use crate::predict::{CellTerm, Gate, Predictor};
use crate::rows::Rows;
use crate::units::Units;

/// What a fit is made of, as far as classes are concerned.
pub(crate) trait Answers {
    /// How a question names its task; nothing where there is one table.
    type Task<'a>;

    /// The number of a task.
    fn task(&self, name: Self::Task<'_>) -> Result<usize, IqgmeError>;

    /// An error, told of a task.
    fn inside(&self, _task: usize, error: IqgmeError) -> IqgmeError {
        error
    }

    /// The units of the features' own scale.
    fn units(&self) -> &Units;

    fn class_names(&self) -> &[String];

    /// Probabilities of all classes, by row, of a fit that has some.
    fn probabilities(&self, task: usize, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError>;

    /// An error for a fit without labels.
    fn classifies(&self) -> Result<(), IqgmeError> {
        match self.class_names() {
            [] => Err(IqgmeError::Unlabelled),
            _ => Ok(()),
        }
    }

    /// Rows of a task, whose name goes along with errors.
    fn rows(&self, task: usize, table: &Table) -> Result<Rows, IqgmeError> {
        let rows = self.units().rows(table);
        rows.map_err(|source| self.inside(task, source))
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

/// A fit whose densities and missing cells are those of mixtures, by weight.
pub(crate) trait Describes: Answers {
    /// Whether parameters are integrated out.
    const GATE: Gate;

    /// The mixtures and what they weigh; the weights sum to 1.
    fn mixtures(&self, task: usize) -> Result<Vec<(f64, Cow<'_, Predictor>)>, IqgmeError>;

    /// The mixtures that tell of missing cells, their gate, and how much a component must have of a row to count for its cells.
    fn completing(&self, task: usize) -> Result<Completing<'_>, IqgmeError> {
        Ok((Self::GATE, 0.0, self.mixtures(task)?))
    }

    /// The mixture that makes a draw, one of so many, and its gate; the only one, where no other is told of.
    fn drawn(
        &self,
        task: usize,
        _draw: usize,
        _draws: usize,
    ) -> Result<(Gate, Cow<'_, Predictor>), IqgmeError> {
        Ok((Self::GATE, self.mixtures(task)?.swap_remove(0).1))
    }

    /// The random stream of a row of a draw: seed and third word.
    fn draw_key(&self) -> (u64, u64);

    fn row_rng(&self, task: usize, draw: usize, row: usize) -> Xoshiro256PlusPlus {
        let (seed, third) = self.draw_key();
        stream(seed, [task as u64, draw as u64, third, row as u64])
    }

    fn density(&self, task: usize, table: &Table) -> Result<Vec<f64>, IqgmeError> {
        let rows = Answers::rows(self, task, table)?;
        let mut sums = vec![f64::NEG_INFINITY; table.n_rows()];
        let mixtures = self.mixtures(task)?;
        let own: Vec<Vec<f64>> = parallel::try_map(&mixtures, |(_, predictor)| {
            predictor.ln_density(&rows, Self::GATE)
        })?;
        for ((weight, _), own) in mixtures.iter().zip(own) {
            for (sum, own) in sums.iter_mut().zip(own) {
                *sum = ln_add_exp(*sum, weight.ln() + own);
            }
        }
        Ok(self.units().ln_density(table, sums))
    }

    /// The factor by which laws of missing cells are widened about their means.
    fn stretch(&self) -> f64 {
        1.0
    }

    fn cells(&self, task: usize, table: &Table) -> Result<Vec<Vec<MissingCell>>, IqgmeError> {
        let rows = Answers::rows(self, task, table)?;
        let mut cells = cells_of(self.units(), &rows, table, &self.completing(task)?)?;
        let stretch = self.stretch();
        if stretch != 1.0 {
            let all = cells.iter_mut().flatten();
            all.for_each(|cell| cell.stretch(stretch));
        }
        Ok(cells)
    }

    fn completed_draws(
        &self,
        task: usize,
        table: &Table,
        draws: usize,
    ) -> Result<Vec<Table>, IqgmeError>
    where
        Self: Sync,
    {
        check_draws(draws, 1)?;
        let rows = Answers::rows(self, task, table)?;
        // What all of them need is made once, before they are made side by side.
        self.drawn(task, 0, draws)?;
        // Beyond all rows.
        let constants = |draw: usize| self.row_rng(task, draw, usize::MAX);
        self.units().impute_draws(table, draws, constants, |draw| {
            let (gate, predictor) = self.drawn(task, draw, draws)?;
            predictor.draw_missing(&rows, gate, |row| self.row_rng(task, draw, row))
        })
    }
}

/// The missing cells of rows under mixtures.
pub(crate) fn cells_of(
    units: &Units,
    rows: &Rows,
    table: &Table,
    (gate, least, mixtures): &Completing<'_>,
) -> Result<Vec<Vec<MissingCell>>, IqgmeError> {
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

/// What a fit says of itself: `described!(Fit, Config)`; of one table, whose units are `stored.units`, and which has `class_probabilities`, `described!(Fit, Config, units)`.
macro_rules! described {
    ($fit:ty, $config:ty, $($units:tt)+) => {
        described!($fit, $config);

        impl Answers for $fit {
            type Task<'a> = ();

            fn task(&self, (): ()) -> Result<usize, IqgmeError> {
                Ok(0)
            }

            fn units(&self) -> &Units {
                &self.stored.$($units)+
            }

            fn class_names(&self) -> &[String] {
                &self.stored.classes
            }

            fn probabilities(&self, _: usize, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
                self.class_probabilities(table)
            }
        }
    };
    ($fit:ty, $config:ty) => {
        impl $fit {
            /// Names of the classes that have a labelled row; with two, probabilities are of the second. Empty for a fit without labels.
            pub fn classes(&self) -> &[String] {
                &self.stored.classes
            }

            /// Names of all columns of training.
            pub fn column_names(&self) -> &[String] {
                Answers::units(self).column_names()
            }

            /// Columns in the model, as positions in the training table.
            pub fn model_columns(&self) -> &[usize] {
                &Answers::units(self).active
            }

            /// Columns left out of the model: constant in training, which are completed by their constant, or without any observed value, which stay missing.
            pub fn ignored_columns(&self) -> Vec<usize> {
                Answers::units(self).ignored_columns()
            }

            /// The configuration of the fit.
            pub fn config(&self) -> &$config {
                &self.stored.config
            }
        }
    };
}

/// The members of a fit: `members!(Fit, Member, State, best of a list)`.
macro_rules! members {
    ($fit:ty, $member:ty, $state:ty, $best:expr) => {
        impl $fit {
            /// All members, in the order of the type.
            pub fn members(&self) -> &[$member] {
                &self.stored.members
            }

            /// The member that says what is told of one alone: see the type.
            pub fn best(&self) -> &$member {
                let best: fn(&[$member]) -> &$member = $best;
                best(&self.stored.members)
            }

            /// The variational posterior of the [best](Self::best) member, in standardised units.
            pub fn state(&self) -> &$state {
                &self.best().state
            }

            /// Bound and relative change of the [best](Self::best) member, iteration by iteration.
            pub fn trace(&self) -> &[VbReport] {
                &self.best().trace
            }

            /// Why the [best](Self::best) member ended.
            pub fn stop(&self) -> &Stop {
                &self.best().stop
            }
        }
    };
}

/// What a fit is saved as: `saved!(Fit, name)`; `Stored::check` says what is wrong with what comes from a file, `Fit::from_stored` makes a fit of it.
macro_rules! saved {
    ($fit:ty, $name:literal) => {
        impl npb_infer::Saved for $fit {
            const MODEL: &'static str = $name;
            const VERSION: &'static str = env!("CARGO_PKG_VERSION");
            type Content = Stored;
            type Error = IqgmeError;

            fn content(&self) -> &Stored {
                &self.stored
            }

            fn from_content(stored: Stored) -> Result<Self, IqgmeError> {
                stored.config.validate()?;
                stored.check().map_err(IqgmeError::saved)?;
                Self::from_stored(stored)
            }
        }
    };
}

/// Class probabilities: `classifier!(Fit)`, or `classifier!(Fit, task: &str)` where questions name a task.
macro_rules! classifier {
    ($fit:ty $(, $task:ident: $name:ty)?) => {
        impl $fit {
            /// Probability of the second class for each row, by the same rules as [`predict_classes`](Self::predict_classes). Errors: as there; a fit with more than
            /// two classes.
            pub fn predict_proba(&self, $($task: $name,)? table: &Table) -> Result<Vec<f64>, IqgmeError> {
                let task = Answers::task(self, ($($task)?))?;
                two_classes(&self.stored.classes, "predict_proba", ALL_CLASSES)?;
                let all = Answers::probabilities(self, task, table)?;
                Ok(all.into_iter().map(|p| p[1]).collect())
            }

            /// Probabilities of all classes, for each row in the order of [`classes`](Self::classes): how is told of the type. A row without any observed feature
            /// gets the model's marginal class probabilities.
            ///
            /// Cost for each row, member or draw: `N P^2`, and `N min(|o|, |m|)^3` for each missing pattern, for `N` components; with more than two classes an
            /// integral for each component, seven where cells are missing. Errors: other columns than in training, a fit without labels, no such task.
            pub fn predict_classes(&self, $($task: $name,)? table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
                let task = Answers::task(self, ($($task)?))?;
                Answers::classifies(self)?;
                Answers::probabilities(self, task, table)
            }

            /// The most probable class of each row.
            pub fn predict(&self, $($task: $name,)? table: &Table) -> Result<Vec<&str>, IqgmeError> {
                let classes = &self.stored.classes;
                let name = |p: Vec<f64>| classes[most_probable(&p)].as_str();
                let probabilities = self.predict_classes($($task,)? table)?;
                Ok(probabilities.into_iter().map(name).collect())
            }

            /// How well the labelled rows of a table are predicted. Errors: as [`predict_classes`](Self::predict_classes); another number of labels than rows, no
            /// labelled row, a label that is not a class of the fit.
            pub fn evaluate(&self, $($task: $name,)? table: &Table, labels: &Labels) -> Result<Evaluation, IqgmeError> {
                let task = Answers::task(self, ($($task)?))?;
                Answers::classifies(self)?;
                let classes = class_of_rows(table, labels, &self.stored.classes)
                    .map_err(|source| Answers::inside(self, task, source))?;
                Evaluation::new(&Answers::probabilities(self, task, table)?, &classes)
                    .map_err(|source| Answers::inside(self, task, source))
            }
        }
    };
}

/// Intervals of class probabilities by the fit's `draw_intervals`, as [`classifier`]: `intervals!(Fit, [draws: usize])`, or `intervals!(Fit, [])` where draws are stored.
macro_rules! intervals {
    ($fit:ty, [$($draws:ident: usize)?] $(, $task:ident: $name:ty)?) => {
        impl $fit {
            /// Probabilities of the second of two classes with central intervals, as [`predict_class_intervals`](Self::predict_class_intervals) has them of all
            /// classes. Errors: as there; a fit with more than two classes.
            pub fn predict_interval(
                &self,
                $($task: $name,)?
                table: &Table,
                level: f64,
                $($draws: usize,)?
            ) -> Result<Vec<ProbabilityInterval>, IqgmeError> {
                let task = Answers::task(self, ($($task)?))?;
                two_classes(&self.stored.classes, "predict_interval", ALL_INTERVALS)?;
                let all = self.draw_intervals(task, table, level $(, $draws)?)?;
                Ok(all.into_iter().map(|of_row| of_row[1]).collect())
            }

            /// Probabilities of all classes, for each row in the order of [`classes`](Self::classes), with central intervals that hold `level` of the posterior: what
            /// the uncertainty of weights, components and experts makes of the probability, by draws of all parameters, so many or those that are stored (missing features are integrated
            /// out in each). Those of variational fits are calibrated as the probabilities of their member are, so that they spread around these, on the scale of log odds as wide as they were
            /// or, where the member was not sure enough, wider.
            ///
            /// Cost: for each draw that of [`predict_classes`](Self::predict_classes), and as many numbers are kept. Errors: as there; a `level` that is not between 0
            /// and 1 (both excluded), fewer than two draws.
            pub fn predict_class_intervals(
                &self,
                $($task: $name,)?
                table: &Table,
                level: f64,
                $($draws: usize,)?
            ) -> Result<Vec<Vec<ProbabilityInterval>>, IqgmeError> {
                let task = Answers::task(self, ($($task)?))?;
                Answers::classifies(self)?;
                self.draw_intervals(task, table, level $(, $draws)?)
            }
        }
    };
}

/// Densities and missing cells of new rows: as [`classifier`].
macro_rules! features {
    ($fit:ty $(, $task:ident: $name:ty)?) => {
        impl $fit {
            /// Log predictive density of the observed features of each row, in the user's units; low values are anomalies. Zero for a row without any.
            pub fn ln_density(&self, $($task: $name,)? table: &Table) -> Result<Vec<f64>, IqgmeError> {
                Describes::density(self, Answers::task(self, ($($task)?))?, table)
            }

            /// For each row its missing cells given its observed cells, by column, in the user's units; columns that are not in the model are left out. Rows are taken for
            /// new ones.
            ///
            /// Cost for each mixture: `N P^2` for each row, and `N min(|o|, |m|)^3` for each missing pattern; rows in parallel, those with the same missing columns
            /// together. Errors: other columns than in training, no such task.
            pub fn cells_by_row(
                &self,
                $($task: $name,)?
                table: &Table,
            ) -> Result<Vec<Vec<MissingCell>>, IqgmeError> {
                Describes::cells(self, Answers::task(self, ($($task)?))?, table)
            }

            /// Completes new rows: mean and standard deviation of every missing cell given the observed cells of its row, by the same rules as
            /// [`cells_by_row`](Self::cells_by_row).
            ///
            /// Hide columns first ([`Table::hide`]) to get the conditional distribution of any columns given any others. A constant column is completed by its
            /// constant; a column that had no observed value in training stays missing.
            pub fn impute(&self, $($task: $name,)? table: &Table) -> Result<Imputation, IqgmeError> {
                let cells = self.cells_by_row($($task,)? table)?;
                Answers::units(self).impute(table, cells)
            }

            /// `draws` completed tables for multiple imputation, each a joint draw of the missing cells: what draws parameters first is told of the type. Where parameters
            /// are points, a draw is from the distributions of [`cells_by_row`](Self::cells_by_row).
            pub fn impute_draws(
                &self,
                $($task: $name,)?
                table: &Table,
                draws: usize,
            ) -> Result<Vec<Table>, IqgmeError> {
                Describes::completed_draws(self, Answers::task(self, ($($task)?))?, table, draws)
            }
        }
    };
}

/// What the macros name.
pub(crate) mod prelude {
    pub(crate) use npb_data::{Labels, Table};

    pub(crate) use super::{
        Answers, Describes, classifier, described, features, intervals, members, saved,
    };
    pub(crate) use crate::answers::{
        ALL_CLASSES, ALL_INTERVALS, Evaluation, Imputation, MissingCell, ProbabilityInterval,
        most_probable, most_probable_of,
    };
    pub(crate) use crate::data::{class_of_rows, two_classes};
    pub(crate) use crate::{IqgmeError, units::Units};
}

pub(crate) use {classifier, described, features, intervals, members, saved};
