//! The result of a fit, and what can be asked of it.

use std::ops::ControlFlow;

use npb_data::{Labels, Table};
use npb_infer::{Saved, Stop, VbOutcome, VbReport, stream};
use npb_linalg::NotPositiveDefinite;
use npb_linalg::faer::Mat;
use npb_priors::dist::{Dirichlet, pick};
use npb_priors::special::ln_add_exp;
use rand::RngExt;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::cells::Cells;
use super::config::FactorStart;
use super::data::{FactorData, Units};
use super::predict::{Drawn, Predictor};
use super::stacking::votes;
use super::state::{FactorExpert, FactorState};
use super::vb::{FactorUpdate, FactorVb};
use crate::answers::{
    ALL_CLASSES, ALL_INTERVALS, Evaluation, check_draws, check_level, class_intervals,
    most_probable, of_second_class, with_first_class,
};
use crate::data::{class_of_rows, two_classes};
use crate::runs::{check_part, check_total, run_all, weigh};
use crate::stacking::{self, FoundFrom, Vote, Votes};
use crate::units::Filling;
use crate::{FactorConfig, Imputation, IqgmeError, ProbabilityInterval};

/// Keys of the random streams of questions to a fit.
const INTERVAL: u64 = 2;
const IMPUTE: u64 = 3;
const PICK: u64 = 5;

/// Fits the factor-analytic variant: prepares the data and makes every run that `config.starts` (or `unlabelled_starts`) and `config.restarts` ask for.
///
/// `table`: n x P, cells may be missing. `labels`: one for each row, two classes or more, rows may be unlabelled (all of them, too: then there is no
/// classifier). Cost: seconds of a core for tens of rows and hundreds of columns (20 with the default for 60 x 200); fewer `starts`, or `folds = 0`, take less. With labels every run is made `config.folds` times more, with at most 15 iterations each, to find its weight. Errors: see [`FactorData::new`]. Runs are made in parallel on the caller's rayon pool; the result does not depend on the number of threads.
///
/// ```
/// use npb_iqgme::npb_data::{Labels, Table};
/// use npb_iqgme::{FactorConfig, fit_factor};
///
/// // Twelve rows of six features that one factor moves, with a hole.
/// let value = |k: usize| match (k / 6, k % 6) {
///     (3, 2) => f64::NAN,
///     (i, j) => (i as f64 - 5.5) * [1.0, -0.8, 0.6, 1.2, -1.0, 0.9][j] + [0.3, -0.2, 0.1][(i + j) % 3],
/// };
/// let table = Table::from_nan_coded(12, 6, &(0..72).map(value).collect::<Vec<f64>>())?;
/// let names: Vec<Option<&str>> = (0..12).map(|i| Some(if i < 6 { "low" } else { "high" })).collect();
/// let fit = fit_factor(&table, &Labels::from_strings(&names), &FactorConfig::default())?;
/// assert_eq!(fit.predict(&table)?[11], "high");
/// assert!(fit.impute(&table)?.completed.get(3, 2).unwrap() < 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit_factor(
    table: &Table,
    labels: &Labels,
    config: &FactorConfig,
) -> Result<FactorFit, IqgmeError> {
    let data = FactorData::new(table, labels, config)?;
    let runs = make_runs(&data, config, |_, start, restart| {
        let mut vb = FactorVb::new(&data, config.clone(), start, restart)?;
        let outcome = vb.run(|_, _| ControlFlow::Continue(()))?;
        FactorRun::new(start, outcome, vb)
    })?;
    let votes = votes(table, labels, &data, config, None)?;
    FactorFit::new(data, config.clone(), runs, votes)
}

/// All runs that the configuration asks for, in parallel: `make` gets the number of the run, its start and its restart.
pub(crate) fn make_runs(
    data: &FactorData,
    config: &FactorConfig,
    make: impl Fn(usize, FactorStart, u64) -> Result<FactorRun, IqgmeError> + Sync,
) -> Result<Vec<FactorRun>, IqgmeError> {
    let starts = if data.n_labelled > 0 {
        &config.starts
    } else {
        &config.unlabelled_starts
    };
    run_all(starts, config.restarts, make)
}

/// One run: where it started, how it went, and the posterior it ended in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FactorRun {
    /// Its start.
    pub start: FactorStart,
    /// Its weight in densities and missing cells, by its bound; zero for a run that was not kept.
    pub weight: f64,
    /// Its weight in class probabilities, by the labels that it foretells (`config.folds`), or else `weight`.
    pub vote: f64,
    /// The power to which the probabilities of its classes are raised, found from the labels that it foretells; 1 where nothing was foretold. Rows of which less is seen than usual in training are put right by less.
    pub sharpness: f64,
    /// What is added to the logarithms of the classes' probabilities after that, before these are made to sum to one, found from the same labels; 0 for the first
    /// class, and none at all where nothing was foretold.
    pub shifts: Vec<f64>,
    /// Bound and relative change, iteration by iteration.
    pub trace: Vec<VbReport>,
    /// Why it ended.
    pub stop: Stop,
    /// The variational posterior, in standardised units.
    pub state: FactorState,
    /// For each cluster of the state the expected number of training rows.
    pub sizes: Vec<f64>,
    /// For each cluster and column of the state the probability that the cluster uses the column, the other switches as they are.
    pub use_probabilities: Vec<Vec<f64>>,
}

impl FactorRun {
    /// A run that has ended.
    pub(crate) fn new(
        start: FactorStart,
        outcome: VbOutcome,
        mut vb: FactorVb<'_>,
    ) -> Result<Self, IqgmeError> {
        // Whatever the run did last: what is told of the rows depends on its state alone.
        vb.apply(FactorUpdate::Rows)?;
        Ok(Self {
            start,
            weight: 0.0,
            vote: 0.0,
            sharpness: 1.0,
            shifts: Vec::new(),
            trace: outcome.trace,
            stop: outcome.stop,
            sizes: vb.sizes(),
            use_probabilities: vb.use_probabilities()?,
            state: vb.into_state(),
        })
    }

    /// Its last bound.
    pub fn elbo(&self) -> f64 {
        self.trace
            .last()
            .map_or(f64::NEG_INFINITY, |report| report.elbo)
    }
}

/// A cluster; its mean is in the user's units.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorComponent {
    /// Posterior mean of its weight.
    pub weight: f64,
    /// Expected number of training rows.
    pub size: f64,
    /// Posterior mean of its mean, for the columns of [`FactorFit::model_columns`].
    pub mean: Vec<f64>,
    /// Columns of the loadings that it uses.
    pub factors: Vec<usize>,
    /// Probability of each dimension 0, 1, .. L: the number of columns that it uses, switches taken one by one.
    pub dimension: Vec<f64>,
    /// Effects of its factors on the probit score, in the order of `factors`, and their standard deviations; none without labels or with more than two classes.
    pub effects: Option<Vec<(f64, f64)>>,
    /// With more than two classes: the same of the scores of all classes but the first, by utility. Empty with two classes.
    pub utilities: Vec<Vec<(f64, f64)>>,
}

/// What is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wire {
    config: FactorConfig,
    units: Units,
    classes: Vec<String>,
    /// Labels of training, by class.
    labels: Vec<u64>,
    foretold: FoundFrom,
    /// The best run first.
    runs: Vec<FactorRun>,
}

/// A fitted factor-analytic model. Questions and answers are in the user's units, columns in the order of training.
///
/// Imputations and densities average over the runs by their weights, class probabilities by their votes; clusters and loadings are those of the best run.
#[derive(Clone, Debug)]
pub struct FactorFit {
    wire: Wire,
}

impl FactorFit {
    pub(crate) fn new(
        data: FactorData,
        config: FactorConfig,
        mut runs: Vec<FactorRun>,
        votes: Option<Votes>,
    ) -> Result<Self, IqgmeError> {
        let by_labels = votes.is_some();
        let foretold = votes
            .as_ref()
            .map_or(FoundFrom::NOTHING, |v| v.from.clone());
        for (run, vote) in runs.iter_mut().zip(votes.into_iter().flat_map(|v| v.each)) {
            run.vote = vote.weight;
            (run.sharpness, run.shifts) = (vote.surety.sharpness, vote.surety.shifts);
        }
        let n_observed = data.n_observed().max(1);
        let weights = weigh(&mut runs, FactorRun::elbo, config.averaging, n_observed);
        for (run, weight) in runs.iter_mut().zip(weights) {
            run.weight = weight;
            if !by_labels {
                run.vote = weight;
            }
        }
        let of_class = |class: usize| {
            let own = data.labels.class.iter().filter(|c| **c == Some(class));
            own.count() as u64
        };
        Ok(Self {
            wire: Wire {
                config,
                labels: (0..data.classes.len()).map(of_class).collect(),
                units: data.units,
                classes: data.classes,
                foretold,
                runs,
            },
        })
    }

    /// The runs that say something of the features.
    fn describing(&self) -> impl Iterator<Item = &FactorRun> {
        self.wire.runs.iter().filter(|run| run.weight > 0.0)
    }

    /// The runs that say something of the labels.
    fn voting(&self) -> impl Iterator<Item = &FactorRun> {
        self.wire.runs.iter().filter(|run| run.vote > 0.0)
    }

    /// Class names; with two, probabilities are of the second. Empty for a fit without labels.
    pub fn classes(&self) -> &[String] {
        &self.wire.classes
    }

    /// Names of all columns of the training table.
    pub fn column_names(&self) -> &[String] {
        self.wire.units.standardiser.column_names()
    }

    /// Columns in the model, as positions in the training table.
    pub fn model_columns(&self) -> &[usize] {
        &self.wire.units.active
    }

    /// Columns left out of the model: constant in training, or without any observed value.
    pub fn ignored_columns(&self) -> Vec<usize> {
        (0..self.column_names().len())
            .filter(|j| self.wire.units.active.binary_search(j).is_err())
            .collect()
    }

    /// The configuration of the fit. If the variance of the steps was learned, it has this variance, to be learned no more: it makes the same fit.
    pub fn config(&self) -> &FactorConfig {
        &self.wire.config
    }

    /// All runs, the best first: those without factors after those that may have some.
    pub fn runs(&self) -> &[FactorRun] {
        &self.wire.runs
    }

    /// The variational posterior of the best run, in standardised units.
    pub fn state(&self) -> &FactorState {
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

    /// Number of clusters that have at least one training row, in expectation.
    pub fn n_clusters(&self) -> usize {
        let sizes = &self.wire.runs[0].sizes;
        sizes.iter().filter(|size| **size >= 1.0).count()
    }

    /// The clusters of the best run, larger ones first.
    pub fn components(&self) -> Vec<FactorComponent> {
        let run = &self.wire.runs[0];
        let state = &run.state;
        let weights = state.sticks.expected_weights();
        let cluster = |h: usize| {
            let factors = state.used(h);
            let of_expert = |expert: &FactorExpert| -> Vec<(f64, f64)> {
                let effect = |&l: &usize| (expert.mean[l], expert.covariance[(l, l)].sqrt());
                factors.iter().map(effect).collect()
            };
            let mut utilities: Vec<_> = state.experts_of(h).iter().map(of_expert).collect();
            let two_classes = utilities.len() == 1;
            let mean = |(k, &j): (usize, &usize)| {
                self.to_units(j, state.features.mean[(k, state.n_factors() + h)])
            };
            FactorComponent {
                weight: weights[h],
                size: run.sizes[h],
                mean: self
                    .wire
                    .units
                    .active
                    .iter()
                    .enumerate()
                    .map(mean)
                    .collect(),
                dimension: sum_of_switches(&run.use_probabilities[h]),
                effects: two_classes.then(|| utilities.remove(0)),
                utilities,
                factors,
            }
        };
        (0..state.n_clusters()).map(cluster).collect()
    }

    /// Posterior mean of the loadings, in standard deviations of the features on the scale of the model: a row for each of
    /// [`model_columns`](Self::model_columns), a column for each factor in use.
    pub fn loadings(&self) -> Mat<f64> {
        let state = self.state();
        Mat::from_fn(self.wire.units.active.len(), state.n_factors(), |k, l| {
            state.features.mean[(k, l)]
        })
    }

    /// Probability of the second class for each row, by the same rules as [`predict_classes`](Self::predict_classes).
    ///
    /// Errors: as there; a fit with more than two classes.
    pub fn predict_proba(&self, table: &Table) -> Result<Vec<f64>, IqgmeError> {
        two_classes(&self.wire.classes, "predict_proba", ALL_CLASSES)?;
        let all = self.predict_classes(table)?;
        Ok(all.into_iter().map(|of_row| of_row[1]).collect())
    }

    /// Probabilities of all classes, for each row in the order of [`classes`](Self::classes), factors and missing features integrated out, experts by moment
    /// matching.
    /// Each run is put right by its [`sharpness`](FactorRun::sharpness) and [`shifts`](FactorRun::shifts). A row without any observed feature gets the shares of the
    /// classes among the labels of training.
    ///
    /// Cost: see [`FactorVb`]; with more than two classes seven integrals for each row and cluster. Errors: other columns than in training, a fit without labels.
    pub fn predict_classes(&self, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
        self.classifies()?;
        let cells = self.cells(table)?;
        let by_run = self.by_run(&cells)?;
        Ok(self.probabilities(&cells, &by_run, &self.extents(table)))
    }

    fn probabilities(
        &self,
        cells: &Cells,
        by_run: &[Vec<Vec<f64>>],
        extents: &[f64],
    ) -> Vec<Vec<f64>> {
        let mut probabilities = self.average(by_run, extents);
        let shares = self.shares();
        for i in Self::unseen(cells) {
            probabilities[i] = (0..shares.dim()).map(|class| shares.mean(class)).collect();
        }
        probabilities
    }

    /// Probabilities of the classes by each run that votes, before they are put right: run, row, class.
    fn by_run(&self, cells: &Cells) -> Result<Vec<Vec<Vec<f64>>>, IqgmeError> {
        let of_run = |run: &FactorRun| {
            let others = Predictor::new(&run.state).probabilities(&run.state, cells)?;
            Ok(with_first_class(others))
        };
        self.voting().map(of_run).collect()
    }

    /// How far the rows of a table let runs be put right.
    fn extents(&self, table: &Table) -> Vec<f64> {
        let wire = &self.wire;
        wire.foretold.extents(table, &wire.units.active)
    }

    /// The average of the runs that vote, each put right as far as rows let it.
    fn average(&self, by_run: &[Vec<Vec<f64>>], extents: &[f64]) -> Vec<Vec<f64>> {
        let runs = self.voting().map(|run| Vote {
            weight: run.vote,
            surety: self.wire.foretold.surety(run.sharpness, &run.shifts),
        });
        stacking::average(runs.zip(by_run), extents)
    }

    /// Rows of which nothing is seen get the
    /// shares of the classes among the labels of training, with half a label more of each class.
    fn unseen(cells: &Cells) -> Vec<usize> {
        let n_features = cells.n_features();
        let patterns = cells.patterns.iter();
        let unseen = patterns.filter(|pattern| pattern.missing.len() == n_features);
        unseen.flat_map(|pattern| pattern.rows.clone()).collect()
    }

    fn shares(&self) -> Dirichlet {
        let each = self.wire.labels.iter().map(|n| *n as f64 + 0.5);
        Dirichlet::new(each.collect()).expect("positive")
    }

    /// The most probable class of each row.
    pub fn predict(&self, table: &Table) -> Result<Vec<&str>, IqgmeError> {
        let name = |p: Vec<f64>| self.wire.classes[most_probable(&p)].as_str();
        Ok(self.predict_classes(table)?.into_iter().map(name).collect())
    }

    /// How well the labelled rows of a table are predicted. Errors: as [`predict_classes`](Self::predict_classes); no labelled row; a label that is not a class of
    /// the fit.
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

    /// Probabilities of all classes, for each row in the order of [`classes`](Self::classes), with central intervals that hold `level` of the posterior, by `draws` draws of all parameters; these are put right as the
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
        let cells = self.cells(table)?;
        let by_run = self.by_run(&cells)?;
        let extents = self.extents(table);
        let unseen = Self::unseen(&cells);
        let drawn: Vec<Vec<Vec<f64>>> = (0..draws as u64)
            .into_par_iter()
            .map(|draw| {
                let (k, run) = self.pick(draw);
                let state = &run.state;
                let mut rng = stream(self.wire.config.seed, [0, draw, INTERVAL, 0]);
                let predictor = Predictor::draw(state, &mut rng).map_err(failed)?;
                let others = predictor.probabilities(state, &cells)?;
                let drawn = with_first_class(others);
                let mut moved = self
                    .wire
                    .foretold
                    .surety(run.sharpness, &run.shifts)
                    .moved_all(drawn, &by_run[k], &extents);
                for &i in &unseen {
                    self.shares().sample(&mut moved[i], &mut rng);
                }
                Ok(moved)
            })
            .collect::<Result<_, IqgmeError>>()?;
        let probabilities = self.probabilities(&cells, &by_run, &extents);
        Ok(class_intervals(probabilities, &drawn, level))
    }

    /// Probabilities of the clusters given the observed features, one vector for each row, in the order of [`components`](Self::components).
    pub fn responsibilities(&self, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
        let state = self.state();
        Predictor::new(state).responsibilities(state, &self.cells(table)?)
    }

    /// The most probable cluster of each row.
    pub fn clusters(&self, table: &Table) -> Result<Vec<usize>, IqgmeError> {
        let responsibilities = self.responsibilities(table)?;
        Ok(responsibilities.iter().map(|r| most_probable(r)).collect())
    }

    /// Log density of the observed features of each row at the posterior means of the parameters, in the user's units. Zero for a row without any.
    pub fn ln_density(&self, table: &Table) -> Result<Vec<f64>, IqgmeError> {
        let cells = self.cells(table)?;
        let sd = self.wire.units.standardiser.sd();
        let mut density = vec![f64::NEG_INFINITY; table.n_rows()];
        for run in self.describing() {
            let own = Predictor::new(&run.state).ln_density(&run.state, &cells)?;
            for (sum, own) in density.iter_mut().zip(own) {
                *sum = ln_add_exp(*sum, run.weight.ln() + own);
            }
        }
        for (row, density) in density.iter_mut().enumerate() {
            for &j in &self.wire.units.active {
                if let Some(value) = table.get(row, j) {
                    *density += self.wire.units.margins.ln_slope(j, value) - sd[j].ln();
                }
            }
        }
        Ok(density)
    }

    /// Completes a table: posterior mean and standard deviation of every missing cell given the observed cells of its row. On the scale of normal
    /// scores the two are taken there: what is reported is the value at the mean, and half the range from one standard deviation below to one above. A
    /// constant column is completed by its constant; a column that had no observed value in training stays missing.
    pub fn impute(&self, table: &Table) -> Result<Imputation, IqgmeError> {
        let cells = self.cells(table)?;
        // Mean and mean square over the runs, in the same order for each.
        let mut sums: Vec<[f64; 2]> = Vec::new();
        let mut places = Vec::new();
        for run in self.describing() {
            let filled = Predictor::new(&run.state).missing_cells(&run.state, &cells)?;
            sums.resize(filled.len(), [0.0; 2]);
            for (sum, cell) in sums.iter_mut().zip(&filled) {
                sum[0] += run.weight * cell.mean;
                sum[1] += run.weight * (cell.variance + cell.mean * cell.mean);
            }
            places = filled;
        }
        let mut mean = Filling::new(table);
        let mut sd = Filling::new(&table.map(|_, _, _| 0.0)?);
        for (row, j) in self.missing_constants(table) {
            mean.set(row, j, self.to_units(j, 0.0));
            sd.set(row, j, 0.0);
        }
        for (place, [first, second]) in places.iter().zip(sums) {
            let column = self.wire.units.active[place.feature];
            mean.set(place.row, column, self.to_units(column, first));
            let own = (second - first * first).max(0.0).sqrt();
            let half = |score: f64| 0.5 * self.to_units(column, score);
            sd.set(place.row, column, half(first + own) - half(first - own));
        }
        Ok(Imputation {
            completed: mean.table(table)?,
            sd: sd.table(table)?,
        })
    }

    /// `draws` completed tables, each a joint draw from the predictive distribution of the missing cells, for multiple imputation: cells of a row share its cluster and its
    /// factors, rows share loadings and noise. On the scale of normal scores a draw is the value at a drawn score.
    ///
    /// Cost of each: as of [`FactorVb`] for each missing pattern, and `D^2` for each feature. Errors: other columns than in training, no draw.
    pub fn impute_draws(&self, table: &Table, draws: usize) -> Result<Vec<Table>, IqgmeError> {
        check_draws(draws, 1)?;
        let cells = self.cells(table)?;
        let seed = self.wire.config.seed;
        let runs: Vec<&FactorRun> = self.describing().collect();
        let completed = |draw: u64| {
            let mut rng = stream(seed, [0, draw, IMPUTE, 0]);
            let chosen = pick(runs.iter().map(|run| run.weight), rng.random()).unwrap_or(0);
            let state = &runs[chosen].state;
            let parameters = Drawn::new(state, &mut rng).map_err(failed)?;
            let of_row = |row: usize| stream(seed, [1, draw, IMPUTE, row as u64]);
            let predictor = Predictor::new(state);
            let mut filled = Filling::new(table);
            for (row, j) in self.missing_constants(table) {
                filled.set(row, j, self.to_units(j, 0.0));
            }
            for (row, p, value) in predictor.draw_missing(state, &cells, &parameters, of_row)? {
                let column = self.wire.units.active[p];
                let value = self.to_units(column, value);
                filled.set(row, column, value.clamp(f64::MIN, f64::MAX));
            }
            filled.table(table)
        };
        (0..draws as u64).into_par_iter().map(completed).collect()
    }

    /// Missing cells of columns that were constant in training.
    fn missing_constants<'a>(
        &'a self,
        table: &'a Table,
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        let columns = self.wire.units.standardiser.constant_columns().iter();
        let cells = columns.flat_map(|&j| (0..table.n_rows()).map(move |row| (row, j)));
        cells.filter(|&(row, j)| !table.is_observed(row, j))
    }

    fn classifies(&self) -> Result<(), IqgmeError> {
        if self.wire.classes.is_empty() {
            Err(IqgmeError::Unlabelled)
        } else {
            Ok(())
        }
    }

    /// One of the runs that vote and its place among them, drawn by weight.
    fn pick(&self, draw: u64) -> (usize, &FactorRun) {
        let u = stream(self.wire.config.seed, [0, draw, PICK, 0]).random();
        let runs: Vec<&FactorRun> = self.voting().collect();
        let chosen = pick(runs.iter().map(|run| run.vote), u).unwrap_or(0);
        (chosen, runs[chosen])
    }

    fn cells(&self, table: &Table) -> Result<Cells, IqgmeError> {
        self.wire.units.cells(table)
    }

    fn to_units(&self, column: usize, value: f64) -> f64 {
        self.wire.units.to_table(column, value)
    }
}

impl Saved for FactorFit {
    const MODEL: &'static str = "npb-iqgme/factor";
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
        let n_features = wire.units.active.len();
        let n_classes = wire.classes.len();
        if n_classes == 1 || wire.labels.len() != n_classes || wire.runs.is_empty() {
            return Err(saved("classes or runs: impossible number".to_owned()));
        }
        let n_utilities = n_classes.saturating_sub(1);
        wire.foretold.check(wire.classes.len()).map_err(saved)?;
        check_total("weights", wire.runs.iter().map(|run| run.weight)).map_err(saved)?;
        check_total("votes", wire.runs.iter().map(|run| run.vote)).map_err(saved)?;
        for (k, run) in wire.runs.iter().enumerate() {
            check_part(
                k,
                run.weight,
                &wire.foretold.surety(run.sharpness, &run.shifts),
                n_classes,
            )
            .map_err(saved)?;
            if !(0.0..=1.0).contains(&run.vote) {
                return Err(saved(format!("vote of run {k}: {}", run.vote)));
            }
            run.state
                .check(n_features, n_utilities, &wire.config)
                .map_err(saved)?;
            let (n, l) = (run.state.n_clusters(), run.state.n_factors());
            let probable = |p: &f64| (0.0..=1.0).contains(p);
            let switches = run.use_probabilities.len() == n
                && (run.use_probabilities.iter()).all(|p| p.len() == l && p.iter().all(probable));
            let sizes = run.sizes.len() == n && run.sizes.iter().all(|s| s.is_finite());
            if !switches || !sizes {
                return Err(saved(format!("clusters of run {k}")));
            }
        }
        Ok(Self { wire })
    }
}

/// Distribution of a sum of independent switches.
fn sum_of_switches(probabilities: &[f64]) -> Vec<f64> {
    let mut distribution = vec![1.0];
    for &p in probabilities {
        let mut next = vec![0.0; distribution.len() + 1];
        for (k, mass) in distribution.iter().enumerate() {
            next[k] += (1.0 - p) * mass;
            next[k + 1] += p * mass;
        }
        distribution = next;
    }
    distribution
}

fn failed(source: NotPositiveDefinite) -> IqgmeError {
    IqgmeError::Numerical {
        iteration: 0,
        block: "posterior draw",
        component: 0,
        source,
    }
}
