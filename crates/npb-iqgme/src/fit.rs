//! The result of a fit, and what can be asked of it.

mod training;

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::Path;

use npb_data::{Labels, Table};
use npb_infer::checkpoint::Every;
use npb_infer::{Saved, Stop, VbLimits, VbOutcome, VbReport, Xoshiro256PlusPlus, stream};
use npb_linalg::NotPositiveDefinite;
use npb_priors::dist::pick;
use npb_priors::dp::dominant_count_distribution;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::answers::{
    ALL_CLASSES, ALL_INTERVALS, ComponentSummary, Evaluation, Imputation, MissingCell,
    ProbabilityInterval, check_draws, check_inside, most_probable, of_second_class, second,
    with_first_class,
};
use crate::config::{FeatureScale, Init};
use crate::data::{IqgmeData, class_of_rows, distinct, fingerprint, two_classes};
use crate::ensemble::calibration::Calibration;
use crate::ensemble::crossval::{HeldOut, Side, held_out};
use crate::ensemble::member::{self, MixtureView, Part, Predictive};
use crate::ensemble::scales;
use crate::ensemble::stacking::{by_bounds, check_weights, stacked};
use crate::ensemble::train::{Checkpoints, Model, Planned, cancelled, planned, train};
use crate::laplace;
use crate::predict::{CellTerm, Experts, Gate, Predictor};
use crate::rows::Rows;
use crate::state::check_experts;
use crate::units::Units;
use crate::vb::IqgmeVb;
use crate::{Expert, IqgmeConfig, IqgmeError, IqgmeState};

/// Keys of the random streams of questions to a fit.
const INTERVAL: u64 = 2;
const IMPUTE: u64 = 3;
const COUNT: u64 = 4;
const PICK: u64 = 5;

/// Iterations of a member without a fold, at most: its held-out prediction is settled before its bound is.
const FOLD_ITERATIONS: u64 = 15;
/// The name in the files of folds.
const FOLD: &str = "npb-iqgme/fold/2";

/// Fits the model: prepares the data and trains every member that `config.starts` (or `unlabelled_starts`), `restarts` and `normal_scores` ask for; with labels each of them
/// `config.folds` times more, at most 15 iterations each, to find its stacking weight and its calibration.
///
/// `table`: n x P, cells may be missing. `labels`: one for each row, two classes or more, rows may be unlabelled (see [`fit_unlabelled`] for none at all).
/// Classes without a labelled row are left out: see [`IqgmeFit::classes`].
/// Errors: see [`IqgmeData::new`]. Members are trained in parallel on the caller's rayon pool; the result does not depend on the number of threads.
pub fn fit(table: &Table, labels: &Labels, config: &IqgmeConfig) -> Result<IqgmeFit, IqgmeError> {
    let data = by_scale(table, labels, config)?;
    fit_on(data, (table, labels), config, None)
}

/// As [`fit`](crate::fit()), with checkpoints: called again with the same arguments after it was stopped or killed, it goes on from them and returns
/// the same bits as if it had never stopped.
///
/// Member `k` of those that the configuration asks for writes to the file `path` with `.k` appended, when `every` says so and at its end, each time
/// replacing what it wrote before; delete the files when the fit is saved. The start of a run is not in them: one that was stopped
/// before its first checkpoint starts again. Held-out predictions of fold `k` (`config.folds`) go to `path` with `.foldk` appended. `watch` sees the
/// report of every iteration, with the member's number (members are trained in parallel); when it breaks, that run ends there. A fit of which a run ended so is a valid one, and
/// the member's `stop` says it; its members are weighed by their bounds, without folds, so that it is there at once.
///
/// Errors: as [`fit`](crate::fit()); a checkpoint that cannot be written or read, or that is of other data, another configuration or another run.
pub fn fit_with_checkpoints(
    table: &Table,
    labels: &Labels,
    config: &IqgmeConfig,
    path: impl AsRef<Path>,
    every: Every,
    watch: impl Fn(usize, &VbReport) -> ControlFlow<()> + Sync,
) -> Result<IqgmeFit, IqgmeError> {
    let data = by_scale(table, labels, config)?;
    let checkpoints = Checkpoints {
        path: path.as_ref(),
        every,
        data: fingerprint(&data[0]),
        watch: &watch,
    };
    fit_on(data, (table, labels), config, Some(&checkpoints))
}

/// Fits a Dirichlet process mixture of Gaussians to rows without labels: clusters, densities, imputation.
pub fn fit_unlabelled(table: &Table, config: &IqgmeConfig) -> Result<IqgmeFit, IqgmeError> {
    let none: Vec<Option<&str>> = vec![None; table.n_rows()];
    fit(table, &Labels::from_strings(&none), config)
}

/// Training data on the features' own scale and, if members on them are to be trained, on normal scores.
fn by_scale(
    table: &Table,
    labels: &Labels,
    config: &IqgmeConfig,
) -> Result<Vec<IqgmeData>, IqgmeError> {
    let own = IqgmeData::new(table, labels, config)?;
    let wanted = scales::scores_wanted(&[labels], &[table], &own.units.active, config);
    let scored = wanted.then(|| own.on_scores(table, labels)).transpose()?;
    Ok([own].into_iter().chain(scored).collect())
}

fn fit_on(
    data: Vec<IqgmeData>,
    (table, labels): (&Table, &Labels),
    config: &IqgmeConfig,
    checkpoints: Option<&Checkpoints<'_>>,
) -> Result<IqgmeFit, IqgmeError> {
    let starts = match data[0].n_labelled {
        0 => &config.unlabelled_starts,
        _ => &config.starts,
    };
    let plan = (&planned(starts, data.len())[..], config.restarts);
    let members = train::<Single, _>(&data, plan, config, checkpoints, Member::new)?;
    if cancelled(members.iter().map(|member| &member.stop)) {
        return IqgmeFit::new(data, config.clone(), members, None);
    }
    let limited = IqgmeConfig {
        max_iterations: config.max_iterations.min(FOLD_ITERATIONS),
        ..config.clone()
    };
    let sizes = [config.folds, members.len()];
    let files = checkpoints.map(|checkpoints| (checkpoints, FOLD, config));
    let classes = &data[0].classes;
    let held_out = held_out(&[labels], classes, sizes, config.seed, files, |sides| {
        let Side { kept, left_out } = &sides[0];
        let (rows, names) = (table.select_rows(kept), labels.select_rows(kept));
        let mut kept = vec![IqgmeData::new(&rows, &names, &limited)?];
        if data.len() > 1 {
            kept.push(kept[0].on_scores(&rows, &names)?);
        }
        let left_out = table.select_rows(left_out);
        let rows = scales::rows_left_out(kept.iter().map(|data| &data.units), &left_out)?;
        train::<Single, _>(&kept, plan, &limited, None, |planned, outcome, vb| {
            let run = Member::without_laplace(planned, outcome, vb);
            let rows = &rows[run.scale.index()];
            let others = run.predictor()?.probabilities(rows, Experts::Integrated)?;
            Ok(with_first_class(others).concat())
        })
    })?;
    IqgmeFit::new(data, config.clone(), members, held_out)
}

/// The model of one task.
struct Single;

impl Model for Single {
    type Config = IqgmeConfig;
    type Data = IqgmeData;
    type Init = Init;
    type State = IqgmeState;
    type Vb<'d> = IqgmeVb<'d>;
    const FILE: &'static str = "npb-iqgme/run/2";

    fn limits(config: &IqgmeConfig) -> VbLimits {
        config.limits()
    }

    fn begin<'d>(
        data: &'d IqgmeData,
        config: &IqgmeConfig,
        init: Init,
        restart: u64,
    ) -> Result<IqgmeVb<'d>, IqgmeError> {
        IqgmeVb::new(data, config.clone(), init, restart)
    }

    fn resume<'d>(
        data: &'d IqgmeData,
        config: &IqgmeConfig,
        state: IqgmeState,
        trace: Vec<VbReport>,
    ) -> Result<IqgmeVb<'d>, IqgmeError> {
        IqgmeVb::resume(data, config.clone(), state, trace)
    }

    fn run(
        vb: &mut IqgmeVb<'_>,
        watch: &mut dyn FnMut(&VbReport, &IqgmeState) -> ControlFlow<()>,
    ) -> Result<VbOutcome, IqgmeError> {
        vb.run(watch)
    }

    fn state<'a>(vb: &'a IqgmeVb<'_>) -> &'a IqgmeState {
        vb.state()
    }
}

/// One run: where it started, how it went, and the posterior it ended in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Member {
    /// Its start.
    pub start: Init,
    /// The scale of the features that it is trained on.
    pub scale: FeatureScale,
    /// Its weight in densities and missing cells, by its bound; zero for one that was not kept, and for those on normal scores.
    pub elbo_weight: f64,
    /// Its weight in class probabilities, by held-out prediction (`config.folds`), or else as in densities.
    pub stacking_weight: f64,
    /// How its class probabilities are calibrated, found from held-out prediction.
    pub calibration: Calibration,
    /// Bound and relative change, iteration by iteration.
    pub trace: Vec<VbReport>,
    /// Why it ended.
    pub stop: Stop,
    /// The variational posterior, in standardised units of its scale.
    pub state: IqgmeState,
    /// The state's experts with covariances that count the latent utilities as unknown, where the variational ones take them for data: for draws behind intervals,
    /// and for the standard deviations of effects.
    pub laplace_experts: Vec<Expert>,
}

impl Member {
    /// One that has ended.
    fn new(
        planned: Planned<Init>,
        outcome: VbOutcome,
        mut vb: IqgmeVb<'_>,
    ) -> Result<Self, IqgmeError> {
        let laplace_experts = laplace::experts(&mut vb)?;
        let run = Self::without_laplace(planned, outcome, vb);
        Ok(Self {
            laplace_experts,
            ..run
        })
    }

    /// One that is asked for predictions alone.
    fn without_laplace((scale, start): Planned<Init>, outcome: VbOutcome, vb: IqgmeVb<'_>) -> Self {
        Self {
            start,
            scale,
            elbo_weight: 0.0,
            stacking_weight: 0.0,
            calibration: Calibration::default(),
            trace: outcome.trace,
            stop: outcome.stop,
            laplace_experts: Vec::new(),
            state: vb.into_state(),
        }
    }

    fn predictor(&self) -> Result<Predictor, IqgmeError> {
        Predictor::new(&self.state, &self.state.experts).map_err(|failed| self.failed(failed))
    }

    /// A covariance of one of its components that is not positive definite.
    fn failed(&self, (component, source): (usize, NotPositiveDefinite)) -> IqgmeError {
        IqgmeError::numerical(self.trace.len() as u64, "covariance", component, source)
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
pub struct Stored {
    config: IqgmeConfig,
    /// By scale.
    units: Vec<Units>,
    classes: Vec<String>,
    /// Fingerprint of the rows and labels of training.
    training: u64,
    /// The best member first; those on normal scores last, the best of them first.
    runs: Vec<Member>,
}

/// A fitted model. Questions and answers are in the user's units, columns in the order of training.
///
/// Class probabilities average over the runs by their stacking weights, densities and imputations by their bounds; components, clusters and the concentration are those of the
/// best run.
#[derive(Clone, Debug)]
pub struct IqgmeFit {
    stored: Stored,
    /// One for each run that has weight.
    predictors: Vec<Predictor>,
}

impl IqgmeFit {
    /// `runs`: those on the features' own scale first.
    fn new(
        data: Vec<IqgmeData>,
        config: IqgmeConfig,
        runs: Vec<Member>,
        held_out: Option<HeldOut>,
    ) -> Result<Self, IqgmeError> {
        let n_observed = data[0].n_observed();
        // In the order of their bounds, as the runs will be.
        let mut runs: Vec<(usize, Member)> = runs.into_iter().enumerate().collect();
        let n_own = n_on_own_scale(runs.iter().map(|(_, run)| run));
        let mut on_scores = runs.split_off(n_own);
        let weights = |runs: &mut [(usize, Member)]| {
            by_bounds(
                runs,
                |(_, run)| run.elbo(),
                config.elbo_temperature,
                n_observed,
            )
        };
        let mut prior = weights(&mut runs);
        for ((_, run), weight) in runs.iter_mut().zip(&prior) {
            (run.elbo_weight, run.stacking_weight) = (*weight, *weight);
        }
        if !on_scores.is_empty() {
            prior.extend(weights(&mut on_scores));
            runs.append(&mut on_scores);
        }
        let (made, mut runs): (Vec<usize>, Vec<Member>) = runs.into_iter().unzip();
        if let Some(mut held_out) = held_out {
            let by_member = made.iter().map(|&k| held_out.by_member[k].clone());
            held_out.by_member = by_member.collect();
            for (run, found) in runs.iter_mut().zip(stacked(&held_out, n_own, &prior)) {
                (run.stacking_weight, run.calibration) = found;
            }
        }
        let training = fingerprint(&data[0]);
        let classes = data[0].classes.clone();
        Self::from_stored(Stored {
            config,
            units: data.into_iter().map(|data| data.units).collect(),
            training,
            classes,
            runs,
        })
    }

    fn from_stored(stored: Stored) -> Result<Self, IqgmeError> {
        let has_part = |run: &Member| run.elbo_weight > 0.0 || run.stacking_weight > 0.0;
        let last = stored.runs.iter().rposition(has_part);
        let predictors = stored.runs[..last.map_or(0, |last| last + 1)]
            .iter()
            .map(Member::predictor)
            .collect::<Result<_, _>>()?;
        Ok(Self { stored, predictors })
    }

    /// The units of the features' own scale.
    fn own_units(&self) -> &Units {
        &self.stored.units[0]
    }

    /// The runs that have a part in densities and missing cells, with what they weigh in them.
    fn weighed(&self) -> impl Iterator<Item = (f64, &Predictor)> {
        let runs = self.stored.runs.iter().map(|run| run.elbo_weight);
        runs.zip(&self.predictors)
            .filter(|(weight, _)| *weight > 0.0)
    }

    /// The runs as members, by these weights and experts; `rows`: by scale.
    fn parts<'a>(
        &'a self,
        rows: &'a [Rows],
        weight: impl Fn(&Member) -> f64,
        (experts, calibration): (Experts, Option<&'a Calibration>),
    ) -> Vec<Part<'a, impl Predictive<Rows = Rows> + 'a>> {
        let part = |(weight, run, predictor): (f64, &'a Member, &'a Predictor)| Part {
            weight,
            calibration: calibration.unwrap_or(&run.calibration),
            rows: &rows[run.scale.index()],
            member: MixtureView {
                predictor: Cow::Borrowed(predictor),
                experts,
                draw: move |rng: &mut Xoshiro256PlusPlus| {
                    predictor.draw(&run.state, &run.laplace_experts, rng)
                },
            },
        };
        let runs = self.stored.runs.iter().zip(&self.predictors);
        let weighed = runs.map(|(run, predictor)| (weight(run), run, predictor));
        // Those without weight may be on a scale on which there are no rows.
        weighed.filter(|(w, ..)| *w > 0.0).map(part).collect()
    }

    /// The number of a run, drawn by its weight in what is said of features.
    fn pick(&self, draw: u64) -> usize {
        let u = stream(self.stored.config.seed, [0, draw, PICK, 0]).random();
        pick(self.stored.runs.iter().map(|run| run.elbo_weight), u).unwrap_or(0)
    }

    /// Names of the classes that have a labelled row (others that the labels of training may name are not in the fit); with two, probabilities are of the
    /// second. Empty for a fit without labels.
    pub fn classes(&self) -> &[String] {
        &self.stored.classes
    }

    /// Names of all columns of the training table.
    pub fn column_names(&self) -> &[String] {
        self.own_units().column_names()
    }

    /// Columns in the model, as positions in the training table.
    pub fn model_columns(&self) -> &[usize] {
        &self.own_units().active
    }

    /// Columns left out of the model: constant in training, or without any observed value.
    pub fn ignored_columns(&self) -> Vec<usize> {
        self.own_units().ignored_columns()
    }

    /// The configuration of the fit.
    pub fn config(&self) -> &IqgmeConfig {
        &self.stored.config
    }

    /// All runs, the best first; those on normal scores last, the best of them first.
    pub fn members(&self) -> &[Member] {
        &self.stored.runs
    }

    /// The variational posterior of the best run, in standardised units.
    pub fn state(&self) -> &IqgmeState {
        &self.stored.runs[0].state
    }

    /// Bound and relative change of the best run, iteration by iteration.
    pub fn trace(&self) -> &[VbReport] {
        &self.stored.runs[0].trace
    }

    /// Why the best run ended.
    pub fn stop(&self) -> &Stop {
        &self.stored.runs[0].stop
    }

    /// Probability of the second class for each row, components weighed as normal densities of the observed features at the posterior means, experts
    /// and missing features integrated out by moment matching, runs averaged by their stacking weights, each calibrated ([`Member::calibration`]). A row without any observed feature gets the model's marginal class probability.
    ///
    /// Cost for each row: `N P^2`, and `N min(|o|, |m|)^3` for each missing pattern. Errors: other columns than in training, a fit without labels or with
    /// more than two classes: see [`predict_classes`](Self::predict_classes).
    pub fn predict_proba(&self, table: &Table) -> Result<Vec<f64>, IqgmeError> {
        two_classes(&self.stored.classes, "predict_proba", ALL_CLASSES)?;
        Ok(second(self.predict_classes(table)?))
    }

    /// As [`predict_proba`](Self::predict_proba), by the posterior means in place of the parameters (W 3.4.3, incomplete data), runs by their stacking weights but not calibrated.
    pub fn predict_plug_in(&self, table: &Table) -> Result<Vec<f64>, IqgmeError> {
        two_classes(&self.stored.classes, "predict_plug_in", ALL_CLASSES)?;
        let rows = scales::rows(&self.stored.units, table)?;
        let as_it_is = Calibration::default();
        let how = (Experts::AtMeans, Some(&as_it_is));
        let parts = self.parts(&rows, |run| run.stacking_weight, how);
        Ok(second(member::class_probabilities(&parts)?))
    }

    /// Probabilities of all classes, for each row in the order of [`classes`](Self::classes), by the same rules as
    /// [`predict_proba`](Self::predict_proba).
    ///
    /// With more than two classes they are one-dimensional integrals; utilities that share missing features are decorrelated but for their leading
    /// direction. Errors: other columns than in training, a fit without labels.
    pub fn predict_classes(&self, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
        self.classifies()?;
        let rows = scales::rows(&self.stored.units, table)?;
        let how = (Experts::Integrated, None);
        member::class_probabilities(&self.parts(&rows, |run| run.stacking_weight, how))
    }

    /// The most probable class of each row.
    pub fn predict(&self, table: &Table) -> Result<Vec<&str>, IqgmeError> {
        let classes = &self.stored.classes;
        let name = |probabilities: Vec<f64>| classes[most_probable(&probabilities)].as_str();
        Ok(self.predict_classes(table)?.into_iter().map(name).collect())
    }

    /// How well the labelled rows of a table are predicted. Errors: as [`predict_classes`](Self::predict_classes); no labelled row; a label that is not
    /// a class of the fit.
    pub fn evaluate(&self, table: &Table, labels: &Labels) -> Result<Evaluation, IqgmeError> {
        let classes = class_of_rows(table, labels, &self.stored.classes)?;
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
        two_classes(&self.stored.classes, "predict_interval", ALL_INTERVALS)?;
        let all = self.predict_class_intervals(table, level, draws)?;
        Ok(of_second_class(all))
    }

    /// Probabilities of all classes, for each row in the order of [`classes`](Self::classes), with central intervals that hold `level` of the posterior: what the uncertainty of weights, components and experts makes
    /// of the probability, by `draws` draws of all parameters (missing features are integrated out in each); these are calibrated as the
    /// probabilities of their run are, so that they spread around these, on the scale of log odds as wide as they were or, where the run was not sure enough, wider.
    ///
    /// Cost: `draws` times that of [`predict_classes`](Self::predict_classes), and as many numbers are kept. Errors: as there; a `level` that is not between 0 and 1 (both
    /// excluded), fewer than two draws.
    pub fn predict_class_intervals(
        &self,
        table: &Table,
        level: f64,
        draws: usize,
    ) -> Result<Vec<Vec<ProbabilityInterval>>, IqgmeError> {
        self.classifies()?;
        let rows = scales::rows(&self.stored.units, table)?;
        let how = (Experts::Integrated, None);
        let parts = self.parts(&rows, |run| run.stacking_weight, how);
        member::intervals(&parts, level, draws, (self.stored.config.seed, 0, INTERVAL))
    }

    /// Probabilities of the components given the observed features, one vector for each row, in the order of [`components`](Self::components); one
    /// entry more holds what is left for components without training rows, where the truncation has room for these.
    pub fn responsibilities(&self, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
        self.predictors[0].responsibilities(&self.own_units().rows(table)?, Gate::Marginal)
    }

    /// The most probable component of each row.
    pub fn clusters(&self, table: &Table) -> Result<Vec<usize>, IqgmeError> {
        let responsibilities = self.responsibilities(table)?;
        Ok(responsibilities.iter().map(|r| most_probable(r)).collect())
    }

    /// Log predictive density of the observed features of each row, in the user's units; low values are anomalies. Zero for a row without any.
    pub fn ln_density(&self, table: &Table) -> Result<Vec<f64>, IqgmeError> {
        let rows = [self.own_units().rows(table)?];
        let how = (Experts::Integrated, None);
        let parts = self.parts(&rows, |run| run.elbo_weight, how);
        let standardised = member::ln_density(&parts, table.n_rows())?;
        Ok(self.own_units().ln_density(table, standardised))
    }

    /// Completes new rows: posterior mean and standard deviation of every missing cell given the observed cells of its row. For the rows of training:
    /// [`impute_training`](Self::impute_training).
    ///
    /// Hide columns first ([`Table::hide`]) to get the conditional distribution of any columns given any others. A constant column is completed by
    /// its constant.
    pub fn impute(&self, table: &Table) -> Result<Imputation, IqgmeError> {
        self.own_units().impute(table, self.cells_by_row(table)?)
    }

    /// `draws` completed tables, each a joint draw from the predictive distribution of the missing cells, for multiple imputation.
    pub fn impute_draws(&self, table: &Table, draws: usize) -> Result<Vec<Table>, IqgmeError> {
        let rows = self.own_units().rows(table)?;
        self.own_units().impute_draws(table, draws, |draw| {
            let key = |row: usize| [0, draw as u64, IMPUTE, row as u64];
            let rng = |row: usize| stream(self.stored.config.seed, key(row));
            let predictor = &self.predictors[self.pick(draw as u64)];
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
        Ok(self.own_units().cells(table, self.missing_cells(table)?))
    }

    /// Number of components that have at least one training row, in expectation.
    pub fn n_clusters(&self) -> usize {
        // Sizes are differences: rounding must not lose a component of one row.
        self.sizes().filter(|size| *size > 1.0 - 1e-6).count()
    }

    /// Expected numbers of training rows of the components of the best run.
    fn sizes(&self) -> impl Iterator<Item = f64> {
        let base = self.stored.config.mean_strength;
        let components = self.state().components.iter();
        components.map(move |component| component.strength - base)
    }

    /// All components that the best run keeps, larger ones first, in the order of [`responsibilities`](Self::responsibilities) and numbered as
    /// [`clusters`](Self::clusters) are. Those with a size below one hold no row in effect; [`n_clusters`](Self::n_clusters) counts the others.
    pub fn components(&self) -> Vec<ComponentSummary> {
        let state = self.state();
        let (weights, weight_sds) = (state.sticks.expected_weights(), state.sticks.weight_sd());
        let base = self.stored.config.mean_strength;
        let units = self.own_units();
        let n_utilities = state.n_utilities();
        let summary = |h: usize| {
            let component = &state.components[h];
            let (mean, covariance) = units.gaussian(component);
            let experts = &self.stored.runs[0].laplace_experts[h * n_utilities..][..n_utilities];
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
        let mut rng = stream(self.stored.config.seed, [0, 0, COUNT, 0]);
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

    /// An error for a fit without labels.
    fn classifies(&self) -> Result<(), IqgmeError> {
        if self.stored.classes.is_empty() {
            return Err(IqgmeError::Unlabelled);
        }
        Ok(())
    }

    /// For each row and each missing feature the components of all runs.
    fn missing_cells(&self, table: &Table) -> Result<Vec<Vec<Vec<CellTerm>>>, IqgmeError> {
        let rows = self.own_units().rows(table)?;
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
    const MODEL: &'static str = "npb-iqgme/fit/2";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Stored;
    type Error = IqgmeError;

    fn content(&self) -> &Stored {
        &self.stored
    }

    fn from_content(stored: Stored) -> Result<Self, IqgmeError> {
        let saved = |what: String| IqgmeError::Saved { what };
        stored.config.validate()?;
        scales::check(&stored.units).map_err(saved)?;
        let (n_classes, runs) = (stored.classes.len(), &stored.runs);
        if n_classes == 1 || runs.is_empty() || runs[0].elbo_weight == 0.0 {
            return Err(saved("classes or runs: impossible number".to_owned()));
        }
        let n_own = n_on_own_scale(runs);
        let in_place = |run: &Member| {
            run.scale == FeatureScale::NormalScores
                && run.elbo_weight == 0.0
                && stored.units.len() == 2
        };
        if n_own == 0 || !runs[n_own..].iter().all(in_place) {
            return Err(saved("scales of the runs".to_owned()));
        }
        distinct(&stored.classes).map_err(|twice| saved(twice.to_string()))?;
        check_weights("ELBO weights", runs.iter().map(|run| run.elbo_weight)).map_err(saved)?;
        let weights = runs.iter().map(|run| run.stacking_weight);
        check_weights("stacking weights", weights).map_err(saved)?;
        let p = stored.units[0].active.len();
        for (k, run) in runs.iter().enumerate() {
            run.calibration.check(n_classes).map_err(saved)?;
            if run.state.sticks.truncation() != stored.config.truncation {
                return Err(saved(format!("truncation of run {k}")));
            }
            run.state
                .check(p, n_classes.saturating_sub(1))
                .map_err(saved)?;
            if run.laplace_experts.len() != run.state.experts.len() {
                return Err(saved(format!("number of experts of run {k}")));
            }
            check_experts(&run.laplace_experts, p).map_err(saved)?;
        }
        Self::from_stored(stored)
    }
}

/// How many runs are on the features' own scale; they come first.
fn n_on_own_scale<'a>(runs: impl IntoIterator<Item = &'a Member>) -> usize {
    let own = |run: &&Member| run.scale == FeatureScale::Standardised;
    runs.into_iter().take_while(own).count()
}
