//! From the user's tables to the model's rows and back.

use std::borrow::Cow;

use npb_data::{ColumnStats, Mask, Standardiser, Table};
use npb_infer::parallel;
use npb_linalg::faer::Mat;
use npb_priors::NormalScore;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::answers::{ClassifierSummary, Imputation, MissingCell, check_draws, mixture_moments};
use crate::config::FeatureScale;
use crate::predict::CellTerm;
use crate::rows::Rows;
use crate::state::{Component, Expert, expect};

/// What turns rows of a table into the model's: learned from training.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Units {
    /// Of the features, where the scale is that of normal scores.
    pub(crate) scores: Option<Vec<NormalScore>>,
    /// Of what the scores make of the table.
    pub(crate) standardiser: Standardiser,
    /// Columns in the model, as positions in the training table.
    pub(crate) active: Vec<usize>,
    /// Those with a single observed cell in training.
    pub(crate) seen_once: Vec<usize>,
}

/// Units of the features' own scale, or by scale.
pub trait UnitsByScale {
    /// Of the features' own scale.
    fn own(&self) -> &Units;

    /// Checks what comes from a file.
    fn check(&self) -> Result<()>;
}

impl UnitsByScale for Units {
    fn own(&self) -> &Units {
        self
    }

    fn check(&self) -> Result<()> {
        let n_columns = self.column_names().len();
        let ascending = self.active.windows(2).all(|w| w[0] < w[1]);
        let inside = self.active.last().is_none_or(|&j| j < n_columns);
        expect(ascending && inside, "columns of the model")?;
        let valid = |scores: &Vec<NormalScore>| {
            scores.len() == n_columns && scores.iter().all(NormalScore::is_valid)
        };
        let valid = self.scores.as_ref().is_none_or(valid);
        expect(valid, "normal scores of the columns")
    }
}

/// Of the same columns, the second of normal scores.
impl UnitsByScale for Vec<Units> {
    fn own(&self) -> &Units {
        &self[0]
    }

    fn check(&self) -> Result<()> {
        let (Some(own), 1..=2) = (self.first(), self.len()) else {
            return expect(false, "scales of the columns");
        };
        let n = own.column_names().len();
        self.iter().enumerate().try_for_each(|(k, units)| {
            let same = units.active == own.active && units.scores.is_some() == (k == 1);
            expect(same, "scales of the columns")?;
            units.check()?;
            let all = units.column_names().len() == n;
            expect(all, "normal scores of the columns")
        })
    }
}

impl Units {
    /// Of training rows; columns that are constant or have no observed value are left out.
    pub(crate) fn fit(table: &Table, scale: FeatureScale) -> Result<Self> {
        let score = |j: usize| NormalScore::fit(table.observed_in_column(j).collect());
        let scores = (scale == FeatureScale::NormalScores)
            .then(|| (0..table.n_cols()).map(score).collect::<Vec<_>>());
        let stats = on_scores(scores.as_deref(), table)?.column_stats();
        Ok(Self::of(table.column_names(), &stats, scores))
    }

    /// By what is known of the columns of training, on their scores if there are some.
    pub(crate) fn of(
        names: &[String],
        stats: &[ColumnStats],
        scores: Option<Vec<NormalScore>>,
    ) -> Self {
        let which = |holds: &dyn Fn(&ColumnStats) -> bool| {
            let all = 0..stats.len();
            all.filter(|&j| holds(&stats[j])).collect()
        };
        Self {
            active: which(&|of| of.n_observed > 0 && of.sd != 0.0),
            seen_once: which(&|of| of.n_observed == 1),
            standardiser: Standardiser::of(names, stats),
            scores,
        }
    }

    /// Those of a table whose columns are in the model's units as they are.
    pub(crate) fn given(table: &Table) -> Result<Self> {
        let p = table.n_cols();
        // Two rows with means zero and standard deviations one.
        let unit = Table::complete(2, p, [vec![-1.0; p], vec![1.0; p]].concat())?;
        let unit = unit.with_column_names(table.column_names().to_vec())?;
        Ok(Self {
            scores: None,
            standardiser: Standardiser::fit(&unit),
            active: (0..p).collect(),
            seen_once: Vec::new(),
        })
    }

    /// The columns of the model of a table with the columns of training, standardised.
    pub(crate) fn apply(&self, table: &Table) -> Result<Table> {
        table.check_columns(self.column_names())?;
        let scored = on_scores(self.scores.as_deref(), table)?;
        let standardised = self.standardiser.apply(&scored)?;
        Ok(standardised.select_columns(&self.active)?)
    }

    /// As [`apply`](Self::apply), of rows that cross-validation has left out: a value too far from the others for a number is as far as can be. The user's table is
    /// not to blame, and the error would name a row of a part of it.
    pub(crate) fn apply_left_out(&self, table: &Table) -> Result<Table> {
        table.check_columns(self.column_names())?;
        let (mean, sd) = (self.standardiser.mean(), self.standardiser.sd());
        let bounded = |_, j: usize, x: f64| ((x - mean[j]) / sd[j]).clamp(f64::MIN, f64::MAX);
        let scored = on_scores(self.scores.as_deref(), table)?;
        Ok(scored.map(bounded)?.select_columns(&self.active)?)
    }

    /// Names of all columns of the training table.
    pub(crate) fn column_names(&self) -> &[String] {
        self.standardiser.column_names()
    }

    /// Columns left out of the model, ascending.
    pub(crate) fn ignored_columns(&self) -> Vec<usize> {
        let all = 0..self.column_names().len();
        all.filter(|j| self.active.binary_search(j).is_err())
            .collect()
    }

    /// The rows of a table with the columns of training, standardised.
    pub(crate) fn rows(&self, table: &Table) -> Result<Rows> {
        Ok(unlabelled(&self.apply(table)?))
    }

    /// As [`rows`](Self::rows), of rows that cross-validation has left out.
    pub(crate) fn rows_left_out(&self, table: &Table) -> Result<Rows> {
        Ok(unlabelled(&self.apply_left_out(table)?))
    }

    /// The value of a column in the user's units.
    pub(crate) fn to_units(&self, column: usize, value: f64) -> f64 {
        let value = self.standardiser.mean()[column] + self.standardiser.sd()[column] * value;
        match &self.scores {
            None => value,
            Some(scores) => scores[column].value(value),
        }
    }

    /// Posterior means of the mean and of the covariance of a component, for the columns of the model, in the user's units.
    pub(crate) fn gaussian(&self, component: &Component) -> (Vec<f64>, Mat<f64>) {
        let sd = self.active_sds();
        let p = sd.len();
        let spread = component.dof - p as f64 - 1.0;
        let each = self.active.iter().zip(&component.mean);
        let mean = each.map(|(&j, &m)| self.to_units(j, m)).collect();
        let covariance = Mat::from_fn(p, p, |i, j| {
            component.scale_inverse[(i, j)] / spread * sd[i] * sd[j]
        });
        (mean, covariance)
    }

    /// The classifier of a component with one utility, and those of one with more.
    pub(crate) fn classifiers(
        &self,
        experts: &[Expert],
    ) -> (Option<ClassifierSummary>, Vec<ClassifierSummary>) {
        match experts {
            [expert] => (Some(self.classifier(expert)), Vec::new()),
            _ => (None, experts.iter().map(|e| self.classifier(e)).collect()),
        }
    }

    fn classifier(&self, expert: &Expert) -> ClassifierSummary {
        let sd = self.active_sds();
        let p = sd.len();
        let effects = expert.mean[..p].to_vec();
        let coefficients: Vec<f64> = effects.iter().zip(&sd).map(|(e, s)| e / s).collect();
        let centre = self.standardiser.mean();
        let each = self.active.iter().zip(&coefficients);
        let shift: f64 = each.map(|(&j, c)| c * centre[j]).sum();
        ClassifierSummary {
            effect_sds: (0..p).map(|j| expert.covariance[(j, j)].sqrt()).collect(),
            effects,
            coefficients,
            intercept: expert.mean[p] - shift,
        }
    }

    fn active_sds(&self) -> Vec<f64> {
        let sd = self.standardiser.sd();
        self.active.iter().map(|&j| sd[j]).collect()
    }

    /// Log densities of the observed features of the rows of a table, in the user's units, given those in standardised ones.
    pub(crate) fn ln_density(&self, table: &Table, mut standardised: Vec<f64>) -> Vec<f64> {
        let sd = self.standardiser.sd();
        for (row, density) in standardised.iter_mut().enumerate() {
            for &j in &self.active {
                let Some(value) = table.get(row, j) else {
                    continue;
                };
                let slope = |scores: &Vec<NormalScore>| scores[j].ln_slope(value);
                *density += self.scores.as_ref().map_or(0.0, slope) - sd[j].ln();
            }
        }
        standardised
    }

    /// Columns in the model that are missing in a row, ascending.
    pub(crate) fn missing_columns<'a>(
        &'a self,
        table: &'a Table,
        row: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        let columns = self.active.iter().copied();
        columns.filter(move |&j| !table.is_observed(row, j))
    }

    /// The cells of a table from the terms, in standardised units, of the missing features of its rows.
    pub(crate) fn cells(
        &self,
        table: &Table,
        terms: Vec<Vec<Vec<CellTerm>>>,
    ) -> Vec<Vec<MissingCell>> {
        let of_row = |(row, cells): (usize, Vec<Vec<CellTerm>>)| {
            let each = self.missing_columns(table, row).zip(cells);
            each.map(|(column, terms)| self.missing_cell(column, terms))
                .collect()
        };
        terms.into_iter().enumerate().map(of_row).collect()
    }

    /// From standardised units to the user's.
    fn missing_cell(&self, column: usize, mut terms: Vec<CellTerm>) -> MissingCell {
        let unit = self.standardiser.sd()[column];
        let (mean, sd) = mixture_moments(&terms);
        for term in &mut terms {
            term.mean = self.to_units(column, term.mean);
            term.sd *= unit;
        }
        MissingCell {
            column,
            mean: self.to_units(column, mean),
            sd: sd * unit,
            terms,
        }
    }

    /// Means and standard deviations in the place of missing cells; constant columns are completed by their constants.
    pub(crate) fn impute(&self, table: &Table, cells: Vec<Vec<MissingCell>>) -> Result<Imputation> {
        let mut mean = Filling::new(table);
        let mut sd = Filling::new(&table.map(|_, _, _| 0.0)?);
        self.fill_constants(table, &mut mean, &mut sd);
        for (row, cells) in cells.into_iter().enumerate() {
            for cell in cells {
                mean.set(row, cell.column, cell.mean);
                sd.set(row, cell.column, cell.sd);
            }
        }
        Ok(Imputation {
            completed: mean.table(table)?,
            sd: sd.table(table)?,
        })
    }

    /// Cells that no model completes: missing ones of constant columns.
    fn missing_constants<'a>(
        &'a self,
        table: &'a Table,
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        let columns = self.standardiser.constant_columns().iter().copied();
        let cells = columns.flat_map(move |j| (0..table.n_rows()).map(move |row| (row, j)));
        cells.filter(|&(row, j)| !table.is_observed(row, j))
    }

    /// Completed tables. `draw(n)`: the missing cells of the n-th, by row, one value for each missing feature of the model, standardised; `rng(n)`: for
    /// columns that were seen once.
    pub(crate) fn impute_draws<R: Rng>(
        &self,
        table: &Table,
        draws: usize,
        rng: impl Fn(usize) -> R + Sync,
        draw: impl Fn(usize) -> Result<Vec<Vec<f64>>> + Sync,
    ) -> Result<Vec<Table>> {
        check_draws(draws)?;
        let completed = |n: usize| {
            let mut filled = Filling::new(table);
            self.draw_constants(table, &mut filled, &mut rng(n));
            for (row, values) in draw(n)?.into_iter().enumerate() {
                for (j, value) in self.missing_columns(table, row).zip(values) {
                    let value = self.to_units(j, value);
                    filled.set(row, j, value.clamp(f64::MIN, f64::MAX));
                }
            }
            filled.table(table)
        };
        parallel::try_map(0..draws, completed)
    }

    /// Constant columns are completed by their value. One value says nothing of the spread around it: of a column that was seen once it is that of the prior, one
    /// standard unit, as for every column, and where the data say nothing of units, the column's own.
    fn fill_constants(&self, table: &Table, mean: &mut Filling, sd: &mut Filling) {
        for (row, j) in self.missing_constants(table) {
            mean.set(row, j, self.to_units(j, 0.0));
            sd.set(row, j, f64::from(u8::from(self.seen_once.contains(&j))));
        }
    }

    /// The same, drawn.
    pub(crate) fn draw_constants(&self, table: &Table, filling: &mut Filling, rng: &mut impl Rng) {
        for (row, j) in self.missing_constants(table) {
            let mut value = self.to_units(j, 0.0);
            if self.seen_once.contains(&j) {
                value += rng.sample::<f64, _>(StandardNormal);
            }
            filling.set(row, j, value);
        }
    }
}

fn on_scores<'t>(scores: Option<&[NormalScore]>, table: &'t Table) -> Result<Cow<'t, Table>> {
    Ok(match scores {
        None => Cow::Borrowed(table),
        Some(scores) => Cow::Owned(table.map(|_, j, value| scores[j].score(value))?),
    })
}

fn unlabelled(standardised: &Table) -> Rows {
    Rows::with_classes(standardised, &vec![None; standardised.n_rows()], 0)
}

/// A table being completed.
pub(crate) struct Filling {
    values: Vec<f64>,
    observed: Mask,
}

impl Filling {
    pub(crate) fn new(table: &Table) -> Self {
        Self {
            values: table.values().to_vec(),
            observed: table.observed().clone(),
        }
    }

    pub(crate) fn set(&mut self, row: usize, column: usize, value: f64) {
        self.values[row * self.observed.n_cols() + column] = value;
        self.observed.set(row, column, true);
    }

    pub(crate) fn table(self, like: &Table) -> Result<Table> {
        let table = Table::from_parts(self.values, self.observed)?;
        Ok(table.with_column_names(like.column_names().to_vec())?)
    }
}
