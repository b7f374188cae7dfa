//! Cross-validation of the cost C of MT-iLSVM, and of thresholds for its labels.

use npb_data::splits::{Split, k_fold};
use npb_infer::{Watch, stream};
use serde::{Deserialize, Serialize};

use super::data::{Task, TaskData, TaskTargets};
use super::fit::{MtIlsvmFit, PreparedTasks, fit_part};
use super::margins::{TaskMargins, machine_rows};
use crate::alternate::Reached;
use crate::config::IlsvmConfig;
use crate::error::RegBayesError;
use crate::select::{over_folds, stopped};
use crate::vb;

/// Second word of the keys of random streams.
const FOLDS: u64 = u64::MAX;

/// What is to be as good as possible on held-out targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// Share of right decisions over all labels; thresholds are 0.
    Accuracy,
    /// F1 of all decisions together.
    F1Micro,
    /// Mean F1 of the labels.
    F1Macro,
    /// Minus the mean squared error of real targets.
    SquaredError,
}

/// How C is chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Validation {
    /// Values of C to try. They are fitted from small to large, each from where the one before ended.
    pub costs: Vec<f64>,
    /// Number of folds.
    pub folds: usize,
    /// What is optimised.
    pub criterion: Criterion,
    /// Whether labels get thresholds from held-out scores, those with the best F1 of each; else they are 0. Not for accuracy.
    pub thresholds: bool,
}

impl Default for Validation {
    fn default() -> Self {
        Self {
            costs: vec![1e-4, 1e-3, 1e-2, 1e-1],
            folds: 5,
            criterion: Criterion::Accuracy,
            thresholds: false,
        }
    }
}

impl Validation {
    /// Checks every field.
    ///
    /// # Errors
    /// Fewer than two folds.
    pub fn validate(&self) -> Result<(), RegBayesError> {
        Ok(npb_infer::ranges::at_least(
            "validation.folds",
            self.folds as u64,
            2,
        )?)
    }
}

/// Scores of targets by fits that did not see them.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOut {
    /// Values of C, rising.
    pub costs: Vec<f64>,
    tasks: Vec<Task>,
    /// One list for each cost: for each task the scores of its targets.
    scores: Vec<Vec<Vec<f64>>>,
}

impl HeldOut {
    /// For each task the scores of its targets, in the order of its rows, at the n-th cost.
    ///
    /// # Panics
    /// When the cost does not exist.
    pub fn scores(&self, cost: usize) -> &[Vec<f64>] {
        &self.scores[cost]
    }

    /// Thresholds with the best F1 of each label at the n-th cost. A label without a positive target keeps 0, so does a real task.
    ///
    /// # Panics
    /// When the cost does not exist.
    pub fn thresholds(&self, cost: usize) -> Vec<f64> {
        let own = |(task, scores): (&Task, &Vec<f64>)| match &task.targets {
            TaskTargets::Binary(positive) => best_threshold(scores, positive),
            TaskTargets::Real(_) => 0.0,
        };
        self.tasks.iter().zip(&self.scores[cost]).map(own).collect()
    }

    /// Value of a criterion at the n-th cost with these thresholds, the larger the better. `None` if no task is of its kind.
    ///
    /// # Panics
    /// When the cost does not exist, or there is not one threshold for each task.
    pub fn value(&self, cost: usize, criterion: Criterion, thresholds: &[f64]) -> Option<f64> {
        assert_eq!(thresholds.len(), self.tasks.len(), "one threshold per task");
        let pairs = self.tasks.iter().zip(&self.scores[cost]);
        if criterion == Criterion::SquaredError {
            let squares: Vec<f64> = pairs
                .filter_map(|(task, scores)| match &task.targets {
                    TaskTargets::Real(values) => Some(values.iter().zip(scores)),
                    TaskTargets::Binary(_) => None,
                })
                .flatten()
                .map(|(y, f)| (y - f).powi(2))
                .collect();
            let n = squares.len() as f64;
            return (n > 0.0).then(|| -squares.iter().sum::<f64>() / n);
        }
        let counts: Vec<[f64; 4]> = pairs
            .zip(thresholds)
            .filter_map(|((task, scores), &t)| match &task.targets {
                TaskTargets::Binary(positive) => Some(confusion(scores, positive, t)),
                TaskTargets::Real(_) => None,
            })
            .collect();
        let all = counts.iter().fold([0.0; 4], |sum, own| {
            std::array::from_fn(|n| sum[n] + own[n])
        });
        (!counts.is_empty()).then(|| match criterion {
            Criterion::Accuracy => (all[0] + all[3]) / all.iter().sum::<f64>(),
            Criterion::F1Micro => f1(all),
            _ => counts.iter().map(|&own| f1(own)).sum::<f64>() / counts.len() as f64,
        })
    }

    /// The cost with the best value, the smallest of equals, and its thresholds.
    ///
    /// # Errors
    /// No task is of the kind that the criterion is for.
    pub fn best(&self, choice: &Validation) -> Result<(f64, Vec<f64>), RegBayesError> {
        let mut best: Option<(f64, f64, Vec<f64>)> = None;
        for (n, &cost) in self.costs.iter().enumerate() {
            let thresholds = if choice.thresholds && choice.criterion != Criterion::Accuracy {
                self.thresholds(n)
            } else {
                vec![0.0; self.tasks.len()]
            };
            let value = self.value(n, choice.criterion, &thresholds);
            let value = value.ok_or_else(|| {
                RegBayesError::state(format!(
                    "no task has targets of the kind that {:?} is for",
                    choice.criterion
                ))
            })?;
            if best.as_ref().is_none_or(|(most, ..)| value > *most) {
                best = Some((value, cost, thresholds));
            }
        }
        best.map(|(_, cost, thresholds)| (cost, thresholds))
            .ok_or_else(|| RegBayesError::state("no cost was tried"))
    }
}

/// Decisions by a threshold: true positives, false positives, false negatives, true negatives.
fn confusion(scores: &[f64], positive: &[bool], threshold: f64) -> [f64; 4] {
    let mut counts = [0.0; 4];
    for (&score, &yes) in scores.iter().zip(positive) {
        let place = match (score > threshold, yes) {
            (true, true) => 0,
            (true, false) => 1,
            (false, true) => 2,
            (false, false) => 3,
        };
        counts[place] += 1.0;
    }
    counts
}

/// `2 tp / (2 tp + fp + fn)`, 0 when nothing is positive.
fn f1([tp, fp, fne, _]: [f64; 4]) -> f64 {
    if tp == 0.0 {
        0.0
    } else {
        2.0 * tp / (2.0 * tp + fp + fne)
    }
}

/// The threshold with the best F1, midway between two scores; 0 without a positive.
fn best_threshold(scores: &[f64], positive: &[bool]) -> f64 {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let total = positive.iter().filter(|&&y| y).count() as f64;
    let (mut best, mut threshold, mut hits) = (0.0, 0.0, 0.0);
    for (n, &i) in order.iter().enumerate() {
        hits += f64::from(u8::from(positive[i]));
        let next = order.get(n + 1).map(|&j| scores[j]);
        // Rows of one score are on one side.
        if next == Some(scores[i]) {
            continue;
        }
        let value = 2.0 * hits / (total + n as f64 + 1.0);
        if value > best {
            best = value;
            threshold = next.map_or(scores[i] - 1.0, |next| 0.5 * (scores[i] + next));
        }
    }
    threshold
}

/// Held-out scores of all training targets at several costs. The features of the inputs alone (which no label is needed for) are found once; a fold
/// hides the labels of its rows, not their inputs, as joint inference does.
///
/// Folds run in parallel; bits do not depend on the number of threads. Cost: that of `folds × costs` fits without their first sweeps.
///
/// # Errors
/// As [`fit`](super::fit); [`Validation::validate`].
pub fn cross_validate(
    data: &TaskData,
    config: &IlsvmConfig,
    choice: &Validation,
    watch: &Watch<'_>,
) -> Result<HeldOut, RegBayesError> {
    cross_validate_part(data, config, choice, (watch, 1.0))
}

/// As [`cross_validate`], which is so much of all that `watch` hears of.
fn cross_validate_part(
    data: &TaskData,
    config: &IlsvmConfig,
    choice: &Validation,
    (watch, weight): (&Watch<'_>, f64),
) -> Result<HeldOut, RegBayesError> {
    choice.validate()?;
    // A first guess at shares: the sweeps without labels are about one of the fits.
    let fits = choice.folds * choice.costs.len();
    let features = weight / (fits + 1) as f64;
    let mut part = watch.part("features", features);
    let prepared = PreparedTasks::new_watched(data, config, &mut part)?;
    if part.report(0, 1.0, &[], &[]).is_break() {
        return Err(stopped());
    }
    let rng = &mut stream(config.seed, [0, FOLDS, 0, 0]);
    let folds = k_fold(prepared.core.rows.len(), choice.folds, rng)?;
    let mut costs = choice.costs.clone();
    costs.sort_by(f64::total_cmp);
    costs.dedup();
    let rest = (watch, weight - features);
    let parts = over_folds(&costs, &folds, rest, |fold, cost, before| {
        one_fold(&prepared, data, config, fold, cost, before)
    })?;
    let merged = |cost: usize| {
        let own = |(m, task): (usize, &Task)| {
            let mut scores = vec![0.0; task.rows.len()];
            for part in &parts {
                part[cost][m]
                    .iter()
                    .for_each(|&(place, score)| scores[place] = score);
            }
            scores
        };
        data.tasks.iter().enumerate().map(own).collect()
    };
    Ok(HeldOut {
        scores: (0..costs.len()).map(merged).collect(),
        costs,
        tasks: data.tasks.clone(),
    })
}

/// Scores (place among the targets of a task, score), task by task.
type Scored = Vec<Vec<(usize, f64)>>;

/// One fold at one cost, from where that at the cost before ended.
fn one_fold(
    prepared: &PreparedTasks,
    data: &TaskData,
    config: &IlsvmConfig,
    fold: &Split,
    cost: f64,
    before: Option<Reached>,
) -> Result<(Scored, Reached), RegBayesError> {
    let mut hidden = vec![false; data.n_rows()];
    let test = fold.test.iter().map(|&n| prepared.core.rows[n]);
    test.for_each(|n| hidden[n] = true);
    let known = |t: &Task| t.restricted(|n| !hidden[n]);
    let known: Vec<Task> = data.tasks.iter().map(known).collect();
    let config = IlsvmConfig {
        cost,
        ..config.clone()
    };
    let labels = TaskMargins::new(prepared.problem(&known, &config));
    let mut run = prepared.core.alternation(labels, &config);
    let nobody = Watch::none();
    let mut part = nobody.part("fit", 1.0);
    vb::run(&mut run, before, &config, &mut part, None)?;
    let indicators = &run.factors.state.indicators;
    let rows = machine_rows(&prepared.core.inputs, indicators, &prepared.core.appended);
    let width = rows.len() / data.n_rows();
    let tasks = data.tasks.iter().zip(&run.labels.solutions);
    let scores = tasks.map(|(task, solution)| {
        let places = (0..task.rows.len()).filter(|&p| hidden[task.rows[p]]);
        let score = |p: usize| {
            let row = &rows[task.rows[p] * width..][..width];
            (p, prepared.score(task, &solution.weights, row, config.ones))
        };
        places.map(score).collect()
    });
    let scores = scores.collect();
    Ok((scores, run.reached(&[])))
}

/// [`cross_validate`], then a fit at the best cost, with its thresholds. `watch` hears of both; a checkpoint is of the last fit.
///
/// # Errors
/// As both.
///
/// ```
/// use npb_regbayes::IlsvmConfig;
/// use npb_regbayes::npb_data::Table;
/// use npb_regbayes::npb_infer::Watch;
/// use npb_regbayes::tasks::{Criterion, Task, TaskData, Validation, fit_selected};
/// let value = |n: usize, d: usize| ((n * (2 * d + 3) + d * d) % 7) as f64 - 3.0;
/// let inputs = Table::complete(60, 4, (0..240).map(|k| value(k / 4, k % 4)).collect())?;
/// let rare = (0..60).map(|n| Some(value(n, 0) + value(n, 1) > 2.0)).collect::<Vec<_>>();
/// let data = TaskData::new(inputs.clone(), vec![Task::label("rare", &rare)])?;
/// let choice = Validation { costs: vec![0.01, 1.0], folds: 3, criterion: Criterion::F1Macro, thresholds: true };
/// let (model, held_out) = fit_selected(&data, &IlsvmConfig::default(), &choice, &Watch::none())?;
/// assert!(held_out.costs.contains(&model.config.cost));
/// let found = model.predict(&inputs)?.labels(0).unwrap();
/// assert!((0..60).filter(|&n| Some(found[n]) == rare[n]).count() > 50);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit_selected(
    data: &TaskData,
    config: &IlsvmConfig,
    choice: &Validation,
    watch: &Watch<'_>,
) -> Result<(MtIlsvmFit, HeldOut), RegBayesError> {
    let last = 1.0 / (choice.folds * choice.costs.len() + 1) as f64;
    let held_out = cross_validate_part(data, config, choice, (watch, 1.0 - last))?;
    let (cost, thresholds) = held_out.best(choice)?;
    let config = IlsvmConfig {
        cost,
        ..config.clone()
    };
    let model = fit_part(data, &config, (watch, last))?.with_thresholds(&thresholds)?;
    Ok((model, held_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_the_best_of_all() {
        let scores = [0.9, 0.8, 0.4, 0.3, 0.3, -0.1];
        let positive = [true, false, true, true, false, false];
        let value = |t: f64| f1(confusion(&scores, &positive, t));
        let best = (-20..20)
            .map(|t| value(f64::from(t) / 10.0 + 0.05))
            .fold(0.0, f64::max);
        assert_eq!(value(best_threshold(&scores, &positive)), best);
        assert_eq!(best_threshold(&scores, &[false; 6]), 0.0);
        assert_eq!(value(best_threshold(&scores, &[true; 6])), value(-2.0));
    }
}
