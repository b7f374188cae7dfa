//! The result of a fit, and what can be asked of it.

mod training;

use std::ops::{ControlFlow, Range};

use npb_data::{Labels, Table};
use npb_infer::{Saved, Stop, VbOutcome, VbReport, stream};
use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite};
use npb_priors::dist::pick;
use npb_priors::dp::dominant_count_distribution;
use npb_priors::special::ln_add_exp;
use rand::RngExt;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::answers::{
    ALL_CLASSES, ALL_INTERVALS, ComponentSummary, Evaluation, Imputation, MissingCell,
    ProbabilityInterval, check_draws, check_inside, check_level, class_intervals, most_probable,
    of_second_class, second, with_first_class,
};
use crate::config::{FeatureScale, Start};
use crate::data::{IqgmeData, class_of_rows, distinct, fingerprint, two_classes};
use crate::files::{FoldFiles, Foretold};
use crate::predict::{CellTerm, Experts, Gate, Predictor};
use crate::rows::Rows;
use crate::runs::{check_part, check_total, run_all, weigh};
use crate::scales::{self, ByScale, Planned, Scores, Training, planned};
use crate::spread;
use crate::stacking::{self, FoundFrom, LabelsForetold, Side, Vote, shares_seen};
use crate::state::check_experts;
use crate::units::Units;
use crate::vb::IqgmeVb;
use crate::{Expert, IqgmeConfig, IqgmeError, IqgmeState};

/// Keys of the random streams of questions to a fit.
const INTERVAL: u64 = 2;
const IMPUTE: u64 = 3;
const COUNT: u64 = 4;
const PICK: u64 = 5;

/// Fits the model: prepares the data and makes every run that `config.starts` (or `unlabelled_starts`), `restarts` and `normal_scores` ask for; with labels each of them
/// `config.folds` times more, at most 15 iterations each, to find its vote.
///
/// `table`: n x P, cells may be missing. `labels`: one for each row, two classes or more, rows may be unlabelled (see [`fit_unlabelled`] for none at all).
/// Classes without a labelled row are left out: see [`IqgmeFit::classes`].
/// Errors: see [`IqgmeData::new`]. Runs are made in parallel on the caller's rayon pool; the result does not depend on the number of threads.
pub fn fit(table: &Table, labels: &Labels, config: &IqgmeConfig) -> Result<IqgmeFit, IqgmeError> {
    let training = Training::new(table, labels, config)?;
    let plan = plan(&training, config);
    let runs = run_all(&plan, config.restarts, |_, planned, restart| {
        let data = training.data.on(planned.scale);
        let vb = IqgmeVb::new(data, config.clone(), planned.start, restart)?;
        Run::finish(vb, planned)
    })?;
    let foretold = foretold_labels((table, labels), &training, &plan, config, None)?;
    IqgmeFit::new(training, config.clone(), runs, foretold)
}

/// What runs as planned, each made `config.restarts` times, foretell of all labels; none where bounds decide. `training`: of the table. `files`: where it is kept from fold to fold, if it is.
pub(crate) fn foretold_labels(
    (table, labels): (&Table, &Labels),
    training: &Training<IqgmeData>,
    plan: &[Planned<Start>],
    config: &IqgmeConfig,
    files: Option<&FoldFiles<'_, IqgmeConfig>>,
) -> Result<Option<LabelsForetold>, IqgmeError> {
    let data = &training.data.own;
    let scored = training.scores.is_some();
    let limited = IqgmeConfig {
        max_iterations: config.max_iterations.min(stacking::ITERATIONS),
        ..config.clone()
    };
    let sizes = [config.folds, plan.len() * config.restarts];
    let shares = [shares_seen(table, &data.active)];
    let (classes, seed) = (&data.classes, config.seed);
    stacking::foretell(&[labels], &shares, classes, sizes, seed, files, |sides| {
        let Side { kept, left_out } = &sides[0];
        let (kept, labels) = (table.select_rows(kept), labels.select_rows(kept));
        let own = IqgmeData::new(&kept, &labels, &limited)?;
        let training = Training::with(own, scored, |own| Scores::of(&kept, &labels, own))?;
        foretold(&training, &table.select_rows(left_out), plan, &limited)
    })
}

/// The probabilities that runs made from one table give to the classes of each row of another: run; row, class.
fn foretold(
    kept: &Training<IqgmeData>,
    left_out: &Table,
    plan: &[Planned<Start>],
    config: &IqgmeConfig,
) -> Result<Foretold, IqgmeError> {
    let runs = run_all(plan, config.restarts, |_, planned, restart| {
        let data = kept.data.on(planned.scale);
        let mut vb = IqgmeVb::new(data, config.clone(), planned.start, restart)?;
        let outcome = vb.run(|_, _| ControlFlow::Continue(()))?;
        Ok(Run::without_spread(planned, outcome, vb))
    })?;
    let units = Units::of(&kept.data.own);
    let rows = scales::rows_left_out(&units, kept.scores.as_ref(), left_out)?;
    let of_run = |run: &Run| {
        let rows = rows.on(run.scale);
        let others = run.predictor()?.probabilities(rows, Experts::Integrated)?;
        Ok(with_first_class(others).concat())
    };
    runs.iter().map(of_run).collect()
}

/// The runs that the configuration asks for, each to be made `config.restarts` times.
pub(crate) fn plan(training: &Training<IqgmeData>, config: &IqgmeConfig) -> Vec<Planned<Start>> {
    match training.data.own.n_labelled {
        0 => planned(&config.unlabelled_starts, false),
        _ => planned(&config.starts, training.scores.is_some()),
    }
}

/// Fits a Dirichlet process mixture of Gaussians to rows without labels: clusters, densities, imputation.
pub fn fit_unlabelled(table: &Table, config: &IqgmeConfig) -> Result<IqgmeFit, IqgmeError> {
    let none: Vec<Option<&str>> = vec![None; table.n_rows()];
    fit(table, &Labels::from_strings(&none), config)
}

/// What is asked of the runs, which they have different weights in.
#[derive(Clone, Copy)]
enum Of {
    /// Densities and missing cells.
    Features,
    /// Class probabilities.
    Classes,
}

/// One run: where it started, how it went, and the posterior it ended in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Its start.
    pub start: Start,
    /// The scale of the features that it is made on.
    pub scale: FeatureScale,
    /// Its weight in densities and missing cells, by its bound; zero for a run that was not kept, and for those on normal scores.
    pub weight: f64,
    /// Its weight in class probabilities, by the labels that it foretells (`config.folds`), or else as in densities.
    pub vote: f64,
    /// The power to which the odds of its classes are raised, found from the labels that it foretells; 1 where nothing was foretold. Rows of which less is seen than usual in training are put right by less.
    pub sharpness: f64,
    /// With more than two classes: what is added to the logarithms of the classes' probabilities after that, before these are made to sum to one, found from the same labels;
    /// 0 for the first class. None with two classes, or where nothing was foretold.
    pub shifts: Vec<f64>,
    /// Bound and relative change, iteration by iteration.
    pub trace: Vec<VbReport>,
    /// Why it ended.
    pub stop: Stop,
    /// The variational posterior, in standardised units of its scale.
    pub state: IqgmeState,
    /// The state's experts with covariances that count the latent utilities as unknown, where the variational ones take them for data: for draws behind intervals,
    /// and for the standard deviations of effects.
    pub spread: Vec<Expert>,
}

impl Run {
    /// Iterates to the end.
    fn finish(mut vb: IqgmeVb<'_>, planned: Planned<Start>) -> Result<Self, IqgmeError> {
        let outcome = vb.run(|_, _| ControlFlow::Continue(()))?;
        Self::new(planned, outcome, vb)
    }

    /// A run that has ended.
    pub(crate) fn new(
        planned: Planned<Start>,
        outcome: VbOutcome,
        mut vb: IqgmeVb<'_>,
    ) -> Result<Self, IqgmeError> {
        let spread = spread::experts(&mut vb)?;
        let run = Self::without_spread(planned, outcome, vb);
        Ok(Self { spread, ..run })
    }

    /// One that is asked for predictions alone.
    fn without_spread(
        Planned { scale, start }: Planned<Start>,
        outcome: VbOutcome,
        vb: IqgmeVb<'_>,
    ) -> Self {
        Self {
            start,
            scale,
            weight: 0.0,
            vote: 0.0,
            sharpness: 1.0,
            shifts: Vec::new(),
            trace: outcome.trace,
            stop: outcome.stop,
            spread: Vec::new(),
            state: vb.into_state(),
        }
    }

    fn weight_in(&self, of: Of) -> f64 {
        match of {
            Of::Features => self.weight,
            Of::Classes => self.vote,
        }
    }

    fn predictor(&self) -> Result<Predictor, IqgmeError> {
        Predictor::new(&self.state, &self.state.experts).map_err(|failed| self.failed(failed))
    }

    /// A covariance of one of its components that is not positive definite.
    fn failed(&self, (component, source): (usize, NotPositiveDefinite)) -> IqgmeError {
        IqgmeError::Numerical {
            iteration: self.trace.len() as u64,
            block: "covariance",
            component,
            source,
        }
    }

    /// Its last bound.
    pub fn elbo(&self) -> f64 {
        self.trace
            .last()
            .map_or(f64::NEG_INFINITY, |report| report.elbo)
    }
}

/// What is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wire {
    config: IqgmeConfig,
    units: Units,
    /// Where there are runs on them.
    scores: Option<Scores>,
    classes: Vec<String>,
    /// Fingerprint of the rows and labels of training.
    training: u64,
    /// `S` of the components' prior, of the rows of training.
    #[serde(with = "npb_linalg::saved")]
    covariance: Mat<f64>,
    foretold: FoundFrom,
    /// The best run first; those on normal scores last, the best of them first.
    runs: Vec<Run>,
}

/// A fitted model. Questions and answers are in the user's units, columns in the order of training.
///
/// Class probabilities average over the runs by their votes, densities and imputations by their weights; components, clusters and the concentration are those of the best run.
#[derive(Clone, Debug)]
pub struct IqgmeFit {
    wire: Wire,
    /// One for each run that has weight.
    predictors: Vec<Predictor>,
}

impl IqgmeFit {
    /// `runs`: those on the features' own scale first.
    pub(crate) fn new(
        training: Training<IqgmeData>,
        config: IqgmeConfig,
        runs: Vec<Run>,
        foretold: Option<LabelsForetold>,
    ) -> Result<Self, IqgmeError> {
        let n_observed = training.data.own.n_observed();
        // In the order of their bounds, as the runs will be.
        let mut runs: Vec<(usize, Run)> = runs.into_iter().enumerate().collect();
        let elbo = |(_, run): &(usize, Run)| run.elbo();
        let n_own = n_on_own_scale(runs.iter().map(|(_, run)| run));
        let mut on_scores = runs.split_off(n_own);
        let mut prior = weigh(&mut runs, elbo, config.averaging, n_observed);
        for ((_, run), weight) in runs.iter_mut().zip(&prior) {
            (run.weight, run.vote) = (*weight, *weight);
        }
        if !on_scores.is_empty() {
            prior.extend(weigh(&mut on_scores, elbo, config.averaging, n_observed));
            runs.append(&mut on_scores);
        }
        let (made, mut runs): (Vec<usize>, Vec<Run>) = runs.into_iter().unzip();
        let mut found = FoundFrom::NOTHING;
        if let Some(mut foretold) = foretold {
            foretold.by_run = made.iter().map(|&k| foretold.by_run[k].clone()).collect();
            let votes = stacking::votes(&foretold, stacking::put_right, |by_run| {
                let of_scale = |at: Range<usize>| stacking::stack(&by_run[at.clone()], &prior[at]);
                stacking::by_scale(by_run, n_own, of_scale)
            });
            found = votes.from;
            for (run, vote) in runs.iter_mut().zip(votes.each) {
                run.vote = vote.weight;
                (run.sharpness, run.shifts) = (vote.surety.sharpness, vote.surety.shifts);
            }
        }
        Self::of_runs(training, config, runs, found)
    }

    /// Of runs that have their weights and votes, and what these were found from.
    fn of_runs(
        Training { data, scores }: Training<IqgmeData>,
        config: IqgmeConfig,
        runs: Vec<Run>,
        foretold: FoundFrom,
    ) -> Result<Self, IqgmeError> {
        let data = data.own;
        Self::from_wire(Wire {
            config,
            units: Units::of(&data),
            scores,
            training: fingerprint(&data),
            classes: data.classes,
            covariance: data.covariance,
            foretold,
            runs,
        })
    }

    fn from_wire(wire: Wire) -> Result<Self, IqgmeError> {
        let has_part = |run: &Run| run.weight > 0.0 || run.vote > 0.0;
        let last = wire.runs.iter().rposition(has_part);
        let predictors = wire.runs[..last.map_or(0, |last| last + 1)]
            .iter()
            .map(Run::predictor)
            .collect::<Result<_, _>>()?;
        Ok(Self { wire, predictors })
    }

    /// The runs that have a part in densities and missing cells, with what they weigh in them.
    fn weighed(&self) -> impl Iterator<Item = (f64, &Predictor)> {
        let runs = self.wire.runs.iter().map(|run| run.weight);
        runs.zip(&self.predictors)
            .filter(|(weight, _)| *weight > 0.0)
    }

    /// The number of a run, drawn by weight.
    fn pick(&self, draw: u64, of: Of) -> usize {
        let u = stream(self.wire.config.seed, [0, draw, PICK, 0]).random();
        let weights = self.wire.runs.iter().map(|run| run.weight_in(of));
        pick(weights, u).unwrap_or(0)
    }

    /// Names of the classes that have a labelled row (others that the labels of training may name are not in the fit); with two, probabilities are of the
    /// second. Empty for a fit without labels.
    pub fn classes(&self) -> &[String] {
        &self.wire.classes
    }

    /// Names of all columns of the training table.
    pub fn column_names(&self) -> &[String] {
        self.wire.units.column_names()
    }

    /// Columns in the model, as positions in the training table.
    pub fn model_columns(&self) -> &[usize] {
        &self.wire.units.active
    }

    /// Columns left out of the model: constant in training, or without any observed value.
    pub fn ignored_columns(&self) -> Vec<usize> {
        self.wire.units.ignored_columns()
    }

    /// The configuration of the fit.
    pub fn config(&self) -> &IqgmeConfig {
        &self.wire.config
    }

    /// All runs, the best first; those on normal scores last, the best of them first.
    pub fn runs(&self) -> &[Run] {
        &self.wire.runs
    }

    /// The variational posterior of the best run, in standardised units.
    pub fn state(&self) -> &IqgmeState {
        &self.wire.runs[0].state
    }

    /// Bound and relative change of the best run, iteration by iteration.
    pub fn trace(&self) -> &[VbReport] {
        &self.wire.runs[0].trace
    }

    /// Why the best run ended.
    pub fn stop(&self) -> &Stop {
        &self.wire.runs[0].stop
    }

    /// Probability of the second class for each row, components weighed as normal densities of the observed features at the posterior means, experts
    /// and missing features integrated out by moment matching, runs averaged by their votes, each put right ([`Run::sharpness`], [`Run::shifts`]). A row without any observed feature gets the model's marginal class probability.
    ///
    /// Cost for each row: `N P^2`, and `N min(|o|, |m|)^3` for each missing pattern. Errors: other columns than in training, a fit without labels or with
    /// more than two classes: see [`predict_classes`](Self::predict_classes).
    pub fn predict_proba(&self, table: &Table) -> Result<Vec<f64>, IqgmeError> {
        two_classes(&self.wire.classes, "predict_proba", ALL_CLASSES)?;
        Ok(second(self.predict_classes(table)?))
    }

    /// As [`predict_proba`](Self::predict_proba), by the posterior means in place of the parameters (W 3.4.3, incomplete data), runs by their votes but as sure as they are.
    pub fn predict_plug_in(&self, table: &Table) -> Result<Vec<f64>, IqgmeError> {
        two_classes(&self.wire.classes, "predict_plug_in", ALL_CLASSES)?;
        let rows = self.rows(table)?;
        let by_run = self.by_run(&rows, Experts::AtMeans)?;
        Ok(second(self.average(&by_run, &vec![0.0; table.n_rows()])))
    }

    /// Probabilities of all classes, for each row in the order of [`classes`](Self::classes), by the same rules as
    /// [`predict_proba`](Self::predict_proba).
    ///
    /// With more than two classes they are one-dimensional integrals; utilities that share missing features are decorrelated but for their leading
    /// direction. Errors: other columns than in training, a fit without labels.
    pub fn predict_classes(&self, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
        self.classifies()?;
        let rows = self.rows(table)?;
        let by_run = self.by_run(&rows, Experts::Integrated)?;
        Ok(self.average(&by_run, &self.extents(table)))
    }

    /// The most probable class of each row.
    pub fn predict(&self, table: &Table) -> Result<Vec<&str>, IqgmeError> {
        let classes = &self.wire.classes;
        let name = |probabilities: Vec<f64>| classes[most_probable(&probabilities)].as_str();
        Ok(self.predict_classes(table)?.into_iter().map(name).collect())
    }

    /// How well the labelled rows of a table are predicted. Errors: as [`predict_classes`](Self::predict_classes); no labelled row; a label that is not
    /// a class of the fit.
    pub fn evaluate(&self, table: &Table, labels: &Labels) -> Result<Evaluation, IqgmeError> {
        let classes = class_of_rows(table, labels, &self.wire.classes)?;
        Evaluation::new(&self.predict_classes(table)?, &classes)
    }

    /// Probabilities of the second of two classes with central intervals, as [`predict_class_intervals`](Self::predict_class_intervals) has them of all classes.
    /// Errors: as there; a fit with more than two classes.
    pub fn predict_interval(
        &self,
        table: &Table,
        level: f64,
        draws: usize,
    ) -> Result<Vec<ProbabilityInterval>, IqgmeError> {
        check_level(level)?;
        check_draws(draws, 2)?;
        two_classes(&self.wire.classes, "predict_interval", ALL_INTERVALS)?;
        let all = self.predict_class_intervals(table, level, draws)?;
        Ok(of_second_class(all))
    }

    /// Probabilities of all classes, for each row in the order of [`classes`](Self::classes), with central intervals that hold `level` of the posterior: what the uncertainty of weights, components and experts makes
    /// of the probability, by `draws` draws of all parameters (missing features are integrated out in each); these are put right as the
    /// probabilities of their run are, so that they spread around what is foretold, on the scale of log odds as wide as they were or, where the run was not sure enough, wider.
    ///
    /// Cost: `draws` times that of [`predict_classes`](Self::predict_classes), and as many numbers are kept. Errors: as there; a `level` that is not between 0 and 1 (both
    /// excluded), fewer than two draws.
    pub fn predict_class_intervals(
        &self,
        table: &Table,
        level: f64,
        draws: usize,
    ) -> Result<Vec<Vec<ProbabilityInterval>>, IqgmeError> {
        check_level(level)?;
        check_draws(draws, 2)?;
        self.classifies()?;
        let rows = self.rows(table)?;
        let by_run = self.by_run(&rows, Experts::Integrated)?;
        let extents = self.extents(table);
        let drawn: Vec<Vec<Vec<f64>>> = (0..draws as u64)
            .into_par_iter()
            .map(|draw| {
                let k = self.pick(draw, Of::Classes);
                let run = &self.wire.runs[k];
                let mut rng = stream(self.wire.config.seed, [0, draw, INTERVAL, 0]);
                let drawn = self.predictors[k].draw(&run.state, &run.spread, &mut rng)?;
                let rows = rows.on(run.scale);
                let others = drawn.probabilities(rows, Experts::AtMeans)?;
                let drawn = with_first_class(others);
                Ok(self
                    .wire
                    .foretold
                    .surety(run.sharpness, &run.shifts)
                    .moved_all(drawn, &by_run[k], &extents))
            })
            .collect::<Result<_, IqgmeError>>()?;
        let means = self.average(&by_run, &extents);
        Ok(class_intervals(means, &drawn, level))
    }

    /// Probabilities of the components given the observed features, one vector for each row, in the order of [`components`](Self::components); one
    /// entry more holds what is left for components without training rows, where the truncation has room for these.
    pub fn responsibilities(&self, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
        self.predictors[0].responsibilities(&self.wire.units.rows(table)?, Gate::Marginal)
    }

    /// The most probable component of each row.
    pub fn clusters(&self, table: &Table) -> Result<Vec<usize>, IqgmeError> {
        let responsibilities = self.responsibilities(table)?;
        Ok(responsibilities.iter().map(|r| most_probable(r)).collect())
    }

    /// Log predictive density of the observed features of each row, in the user's units; low values are anomalies. Zero for a row without any.
    pub fn ln_density(&self, table: &Table) -> Result<Vec<f64>, IqgmeError> {
        let rows = self.wire.units.rows(table)?;
        let mut standardised = vec![f64::NEG_INFINITY; table.n_rows()];
        for (weight, predictor) in self.weighed() {
            for (sum, density) in standardised
                .iter_mut()
                .zip(predictor.ln_density(&rows, Gate::Marginal)?)
            {
                *sum = ln_add_exp(*sum, weight.ln() + density);
            }
        }
        Ok(self.wire.units.ln_density(table, standardised))
    }

    /// Completes new rows: posterior mean and standard deviation of every missing cell given the observed cells of its row. For the rows of training:
    /// [`impute_training`](Self::impute_training).
    ///
    /// Hide columns first ([`Table::hide`]) to get the conditional distribution of any columns given any others. A constant column is completed by
    /// its constant.
    pub fn impute(&self, table: &Table) -> Result<Imputation, IqgmeError> {
        self.wire.units.impute(table, self.cells_by_row(table)?)
    }

    /// `draws` completed tables, each a joint draw from the predictive distribution of the missing cells, for multiple imputation.
    pub fn impute_draws(&self, table: &Table, draws: usize) -> Result<Vec<Table>, IqgmeError> {
        let rows = self.wire.units.rows(table)?;
        self.wire.units.impute_draws(table, draws, |draw| {
            let key = |row: usize| [0, draw as u64, IMPUTE, row as u64];
            let rng = |row: usize| stream(self.wire.config.seed, key(row));
            let predictor = &self.predictors[self.pick(draw as u64, Of::Features)];
            predictor.draw_missing(&rows, Gate::Marginal, rng)
        })
    }

    /// The distribution of one missing cell given the observed cells of its row. None if the cell is observed or its column is not in the model.
    ///
    /// Costs as much as all missing cells of the row: ask [`cells`](Self::cells) for several of them.
    pub fn cell(
        &self,
        table: &Table,
        row: usize,
        column: usize,
    ) -> Result<Option<Vec<CellTerm>>, IqgmeError> {
        if column >= table.n_cols() {
            return Err(IqgmeError::Argument {
                argument: "column",
                value: column.to_string(),
                rule: "a column of the table",
            });
        }
        let cells = self.cells(table, row)?.into_iter();
        Ok(cells
            .filter(|cell| cell.column == column)
            .map(|cell| cell.terms)
            .next())
    }

    /// All missing cells of a row given its observed cells, by column; columns that are not in the model are left out.
    ///
    /// Cost: `N P^2 + N min(|o|, |m|)^3` for each run. Errors: other columns than in training, no such row.
    pub fn cells(&self, table: &Table, row: usize) -> Result<Vec<MissingCell>, IqgmeError> {
        if row >= table.n_rows() {
            return Err(IqgmeError::Argument {
                argument: "row",
                value: row.to_string(),
                rule: "a row of the table",
            });
        }
        let table = table.select_rows(&[row]);
        Ok(self.cells_by_row(&table)?.swap_remove(0))
    }

    /// As [`cells`](Self::cells), of every row; in parallel, and rows with the same missing columns together.
    pub fn cells_by_row(&self, table: &Table) -> Result<Vec<Vec<MissingCell>>, IqgmeError> {
        Ok(self.wire.units.cells(table, self.missing_cells(table)?))
    }

    /// Number of components that have at least one training row, in expectation.
    pub fn n_clusters(&self) -> usize {
        // Sizes are differences: rounding must not lose a component of one row.
        self.sizes().filter(|size| *size > 1.0 - 1e-6).count()
    }

    /// Expected numbers of training rows of the components of the best run.
    fn sizes(&self) -> impl Iterator<Item = f64> {
        let base = self.wire.config.mean_strength;
        let components = self.state().components.iter();
        components.map(move |component| component.strength - base)
    }

    /// All components that the best run keeps, larger ones first, in the order of [`responsibilities`](Self::responsibilities) and numbered as
    /// [`clusters`](Self::clusters) are. Those with a size below one hold no row in effect; [`n_clusters`](Self::n_clusters) counts the others.
    pub fn components(&self) -> Vec<ComponentSummary> {
        let state = self.state();
        let (weights, weight_sds) = (state.sticks.expected_weights(), state.sticks.weight_sd());
        let base = self.wire.config.mean_strength;
        let units = &self.wire.units;
        let n_utilities = state.n_utilities();
        let summary = |h: usize| {
            let component = &state.components[h];
            let (mean, covariance) = units.gaussian(component);
            let experts = &self.wire.runs[0].spread[h * n_utilities..][..n_utilities];
            let (classifier, utilities) = units.classifiers(experts);
            ComponentSummary {
                weight: weights[h],
                weight_sd: weight_sds[h],
                size: component.strength - base,
                mean,
                covariance,
                classifier,
                utilities,
            }
        };
        (0..state.components.len())
            .filter(|&h| state.components[h].strength > base)
            .map(summary)
            .collect()
    }

    /// Posterior of the number of components whose weight exceeds `threshold`, by `draws` draws of the weights: entry `k` is the probability of `k`.
    pub fn dominant_components(
        &self,
        threshold: f64,
        draws: usize,
    ) -> Result<Vec<f64>, IqgmeError> {
        check_inside("threshold", threshold)?;
        check_draws(draws, 1)?;
        let sticks = &self.state().sticks;
        let mut rng = stream(self.wire.config.seed, [0, 0, COUNT, 0]);
        let weights = |out: &mut [f64]| sticks.sample_weights(out, &mut rng);
        Ok(dominant_count_distribution(
            sticks.truncation(),
            threshold,
            draws,
            weights,
        ))
    }

    /// Shape and rate of the Gamma posterior of the concentration `alpha`.
    pub fn concentration(&self) -> (f64, f64) {
        let alpha = self.state().sticks.alpha();
        (alpha.shape(), alpha.rate())
    }

    /// How far the rows of a table let runs be put right.
    fn extents(&self, table: &Table) -> Vec<f64> {
        let wire = &self.wire;
        wire.foretold.extents(table, &wire.units.active)
    }

    /// An error for a fit without labels.
    fn classifies(&self) -> Result<(), IqgmeError> {
        if self.wire.classes.is_empty() {
            return Err(IqgmeError::Unlabelled);
        }
        Ok(())
    }

    /// Probabilities of the classes by each run that has a part in answers, before they are put right: run, row, class.
    fn by_run(
        &self,
        rows: &ByScale<Rows>,
        experts: Experts,
    ) -> Result<Vec<Vec<Vec<f64>>>, IqgmeError> {
        let of_run = |(run, predictor): (&Run, &Predictor)| {
            let others = predictor.probabilities(rows.on(run.scale), experts)?;
            Ok(with_first_class(others))
        };
        let runs = self.wire.runs.iter().zip(&self.predictors);
        runs.map(of_run).collect()
    }

    /// The rows of a table on each scale.
    fn rows(&self, table: &Table) -> Result<ByScale<Rows>, IqgmeError> {
        scales::rows(&self.wire.units, self.wire.scores.as_ref(), table)
    }

    /// The average of these runs by their votes, each put right as far as rows let it.
    fn average(&self, by_run: &[Vec<Vec<f64>>], extents: &[f64]) -> Vec<Vec<f64>> {
        let votes = self.wire.runs.iter().map(|run| Vote {
            weight: run.vote,
            surety: self.wire.foretold.surety(run.sharpness, &run.shifts),
        });
        stacking::average(votes.zip(by_run), extents)
    }

    /// For each row and each missing feature the components of all runs.
    fn missing_cells(&self, table: &Table) -> Result<Vec<Vec<Vec<CellTerm>>>, IqgmeError> {
        let rows = self.wire.units.rows(table)?;
        let mut all: Vec<Vec<Vec<CellTerm>>> = Vec::new();
        for (weight, predictor) in self.weighed() {
            let mut cells = predictor.missing_cells(&rows, Gate::Marginal)?;
            cells
                .iter_mut()
                .flatten()
                .flatten()
                .for_each(|term| term.weight *= weight);
            if all.is_empty() {
                all = cells;
            } else {
                for (have, more) in all.iter_mut().flatten().zip(cells.into_iter().flatten()) {
                    have.extend(more);
                }
            }
        }
        Ok(all)
    }
}

impl Saved for IqgmeFit {
    const MODEL: &'static str = "npb-iqgme/fit";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Wire;
    type Error = IqgmeError;

    fn content(&self) -> &Wire {
        &self.wire
    }

    fn from_content(wire: Wire) -> Result<Self, IqgmeError> {
        let saved = |what: String| IqgmeError::Saved { what };
        wire.config.validate()?;
        wire.units.check().map_err(saved)?;
        if wire.classes.len() == 1 || wire.runs.is_empty() {
            return Err(saved("classes or runs: impossible number".to_owned()));
        }
        let p = wire.units.active.len();
        if let Some(scores) = &wire.scores {
            scores.check(&wire.units).map_err(saved)?;
        }
        let n_own = n_on_own_scale(&wire.runs);
        let on_scores = &wire.runs[n_own..];
        let in_place = |run: &Run| run.scale == FeatureScale::NormalScores && run.weight == 0.0;
        let possible = n_own > 0 && (on_scores.is_empty() || wire.scores.is_some());
        if !(possible && on_scores.iter().all(in_place)) {
            return Err(saved("scales of the runs".to_owned()));
        }
        let proper = wire.covariance.shape() == (p, p);
        if !proper || Cholesky::new(wire.covariance.as_ref()).is_err() {
            return Err(saved("covariance: impossible value or size".to_owned()));
        }
        distinct(&wire.classes).map_err(|twice| saved(twice.to_string()))?;
        wire.foretold.check(wire.classes.len()).map_err(saved)?;
        check_total("weights", wire.runs.iter().map(|run| run.weight)).map_err(saved)?;
        check_total("votes", wire.runs.iter().map(|run| run.vote)).map_err(saved)?;
        for (k, run) in wire.runs.iter().enumerate() {
            check_part(
                k,
                run.weight,
                &wire.foretold.surety(run.sharpness, &run.shifts),
                wire.classes.len(),
            )
            .map_err(saved)?;
            if !(0.0..=1.0).contains(&run.vote) {
                return Err(saved(format!("vote of run {k}: {}", run.vote)));
            }
            if run.state.sticks.truncation() != wire.config.truncation {
                return Err(saved(format!("truncation of run {k}")));
            }
            run.state
                .check(
                    wire.units.active.len(),
                    wire.classes.len().saturating_sub(1),
                )
                .map_err(saved)?;
            if run.spread.len() != run.state.experts.len() {
                return Err(saved(format!("number of experts of run {k}")));
            }
            check_experts(&run.spread, wire.units.active.len()).map_err(saved)?;
        }
        Self::from_wire(wire)
    }
}

/// How many runs are on the features' own scale; they come first.
fn n_on_own_scale<'a>(runs: impl IntoIterator<Item = &'a Run>) -> usize {
    let own = |run: &&Run| run.scale == FeatureScale::Standardised;
    runs.into_iter().take_while(own).count()
}
