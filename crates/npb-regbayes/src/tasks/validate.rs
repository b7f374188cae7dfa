//! Cross-validation of the cost C of MT-iLSVM, of its class costs, and of thresholds for its labels.

use npb_data::splits::{Split, k_fold};
use npb_infer::ranges::{OutOfRange, at_least};
use npb_infer::watch::Checkpoint;
use npb_infer::{Variational, Watch, stream};
use serde::{Deserialize, Serialize};

use super::data::{Task, TaskData, TaskTargets};
use super::fit::{MtIlsvmFit, PreparedTasks, fit_part};
use super::margins::{TaskMargins, machine_rows};
use crate::alternate::Reached;
use crate::config::{ClassCosts, IlsvmConfig};
use crate::error::{RegBayesError, same_size};
use crate::select::{over_folds, stopped};
use crate::vb;

/// Second word of the keys of random streams.
const FOLDS: u64 = u64::MAX;

/// Passes over the labels when thresholds are chosen together.
const PASSES: usize = 20;

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

/// What is chosen, and by what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Validation {
    /// Values of C to try. They are fitted from small to large, each from where the one before ended.
    pub costs: Vec<f64>,
    /// Class costs to try with each C. Balanced ones raise F1 where labels are rare.
    pub class_costs: Vec<ClassCosts>,
    /// Number of folds.
    pub folds: usize,
    /// What is optimised.
    pub criterion: Criterion,
    /// Whether labels may get thresholds from held-out scores, those with the best F1, where folds that had no part in them say that these are better than 0.
    /// Not for accuracy.
    pub thresholds: bool,
}

impl Default for Validation {
    fn default() -> Self {
        Self {
            costs: vec![1e-4, 1e-3, 1e-2, 1e-1],
            class_costs: vec![ClassCosts::Equal],
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
    /// Fewer than two folds; no cost or no class costs.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        let least = [
            ("validation.folds", self.folds, 2),
            ("validation.costs", self.costs.len(), 1),
            ("validation.class_costs", self.class_costs.len(), 1),
        ];
        for (field, value, least) in least {
            at_least(field, value as u64, least)?;
        }
        Ok(())
    }

    /// Fits that it takes.
    fn fits(&self) -> usize {
        self.folds * self.costs.len() * self.class_costs.len()
    }
}

/// One of the settings that are tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// C.
    pub cost: f64,
    /// Class costs.
    pub class_costs: ClassCosts,
}

/// What cross-validation comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The best of the candidates, the first of equals.
    pub candidate: Candidate,
    /// Its place among those that were tried.
    pub place: usize,
    /// A threshold for each task.
    pub thresholds: Vec<f64>,
    /// The criterion on targets that had no part in fits and thresholds.
    pub value: f64,
}

/// Scores of targets by fits that did not see them: those of [`cross_validate`], or of any other method.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOut {
    tried: Vec<Candidate>,
    tasks: Vec<Task>,
    /// Fold of each row of the inputs.
    folds: Vec<usize>,
    /// One list for each candidate: for each task the scores of its targets.
    scores: Vec<Vec<Vec<f64>>>,
}

impl HeldOut {
    /// `folds` says which fold each row of the inputs was left out in; `scores` has a list for each candidate: for each task the scores of its targets, in the
    /// order of its rows.
    ///
    /// # Errors
    /// Lists that do not fit one another.
    pub fn new(
        tasks: &[Task],
        folds: Vec<usize>,
        scores: Vec<(Candidate, Vec<Vec<f64>>)>,
    ) -> Result<Self, RegBayesError> {
        for (_, own) in &scores {
            same_size("lists of held-out scores", own.len(), tasks.len())?;
            for (task, own) in tasks.iter().zip(own) {
                task.check_rows(folds.len())?;
                same_size("held-out scores", own.len(), task.rows.len())?;
            }
        }
        let (tried, scores) = scores.into_iter().unzip();
        Ok(Self {
            tried,
            tasks: tasks.to_vec(),
            folds,
            scores,
        })
    }

    /// What was tried: C rising, for one kind of class costs after the other.
    pub fn tried(&self) -> &[Candidate] {
        &self.tried
    }

    /// The fold that each row of the inputs was left out in.
    pub fn folds(&self) -> &[usize] {
        &self.folds
    }

    /// For each task the scores of its targets, in the order of its rows, by the n-th candidate.
    ///
    /// # Panics
    /// When it does not exist.
    pub fn scores(&self, candidate: usize) -> &[Vec<f64>] {
        &self.scores[candidate]
    }

    /// Thresholds with the best value of an F1 for the n-th candidate: of each label by itself, or of all together. 0 for accuracy, for a label without a
    /// positive target and for a real task.
    ///
    /// # Panics
    /// When the candidate does not exist.
    pub fn thresholds(&self, candidate: usize, criterion: Criterion) -> Vec<f64> {
        self.thresholds_from(candidate, criterion, |_| true)
    }

    /// Those of some folds.
    fn thresholds_from(
        &self,
        candidate: usize,
        criterion: Criterion,
        of: impl Fn(usize) -> bool,
    ) -> Vec<f64> {
        let mut thresholds = vec![0.0; self.tasks.len()];
        if !matches!(criterion, Criterion::F1Micro | Criterion::F1Macro) {
            return thresholds;
        }
        let labels: Vec<(usize, Ranked)> = (self.labels(candidate, of).into_iter().enumerate())
            .filter_map(|(m, pairs)| Some((m, Ranked::new(pairs?)?)))
            .collect();
        let mut cuts: Vec<usize> = labels.iter().map(|(_, own)| own.best([0.0; 2])).collect();
        // Label by label given the others, until nothing changes.
        for _ in 0..if criterion == Criterion::F1Micro {
            PASSES
        } else {
            0
        } {
            let before = cuts.clone();
            for l in 0..cuts.len() {
                let others = (0..cuts.len()).filter(|&o| o != l);
                let counts = others.map(|o| labels[o].1.counts(cuts[o]));
                cuts[l] = labels[l].1.best(counts.fold([0.0; 2], plus));
            }
            if cuts == before {
                break;
            }
        }
        for ((m, own), cut) in labels.iter().zip(cuts) {
            thresholds[*m] = own.threshold(cut);
        }
        thresholds
    }

    /// Scores and targets of each label in some folds; `None` for a real task.
    fn labels(&self, candidate: usize, of: impl Fn(usize) -> bool) -> Vec<Option<Vec<Decided>>> {
        let own = |(task, scores): (&Task, &Vec<f64>)| match &task.targets {
            TaskTargets::Binary(positive) => {
                let pairs = scores.iter().copied().zip(positive.iter().copied());
                let pairs = task.rows.iter().zip(pairs);
                Some(
                    pairs
                        .filter(|(n, _)| of(self.folds[**n]))
                        .map(|(_, pair)| pair)
                        .collect(),
                )
            }
            TaskTargets::Real(_) => None,
        };
        self.tasks
            .iter()
            .zip(&self.scores[candidate])
            .map(own)
            .collect()
    }

    /// Value of a criterion for the n-th candidate with these thresholds, the larger the better. `None` if no task is of its kind.
    ///
    /// # Panics
    /// When the candidate does not exist, or there is not one threshold for each task.
    pub fn value(&self, candidate: usize, criterion: Criterion, thresholds: &[f64]) -> Option<f64> {
        assert_eq!(thresholds.len(), self.tasks.len(), "one threshold per task");
        self.value_by(candidate, criterion, &[(thresholds.to_vec(), None)])
    }

    /// Value of decisions by thresholds of their own in each of some folds; `None` stands for all of them.
    fn value_by(
        &self,
        candidate: usize,
        criterion: Criterion,
        parts: &[(Vec<f64>, Option<usize>)],
    ) -> Option<f64> {
        if criterion == Criterion::SquaredError {
            let pairs = self.tasks.iter().zip(&self.scores[candidate]);
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
        let mut counts = vec![[0.0; 4]; self.tasks.len()];
        for (thresholds, fold) in parts {
            let of = |f| fold.is_none_or(|own| f == own);
            for (m, pairs) in self.labels(candidate, of).into_iter().enumerate() {
                let own = confusion(&pairs.unwrap_or_default(), thresholds[m]);
                counts[m] = plus(counts[m], own);
            }
        }
        let binary = |m: &usize| matches!(self.tasks[*m].targets, TaskTargets::Binary(_));
        let counts: Vec<[f64; 4]> = (0..counts.len())
            .filter(binary)
            .map(|m| counts[m])
            .collect();
        let all = counts.iter().copied().fold([0.0; 4], plus);
        (!counts.is_empty()).then(|| match criterion {
            Criterion::Accuracy => (all[0] + all[3]) / all.iter().sum::<f64>(),
            Criterion::F1Micro => f1(all),
            _ => counts.iter().map(|&own| f1(own)).sum::<f64>() / counts.len() as f64,
        })
    }

    /// The candidate with the best value. Thresholds are chosen without the fold that they are judged on; where 0 does better there, it stays.
    ///
    /// # Errors
    /// No task is of the kind that the criterion is for.
    pub fn best(&self, choice: &Validation) -> Result<Chosen, RegBayesError> {
        let criterion = choice.criterion;
        let n_folds = self.folds.iter().max().map_or(0, |last| last + 1);
        let mut best: Option<Chosen> = None;
        for (place, &candidate) in self.tried.iter().enumerate() {
            let zeros = vec![0.0; self.tasks.len()];
            let mut rules = vec![(self.value(place, criterion, &zeros), zeros)];
            if choice.thresholds && criterion != Criterion::Accuracy {
                let without = |fold| self.thresholds_from(place, criterion, |f| f != fold);
                let parts: Vec<_> = (0..n_folds)
                    .map(|fold| (without(fold), Some(fold)))
                    .collect();
                let value = self.value_by(place, criterion, &parts);
                rules.push((value, self.thresholds(place, criterion)));
            }
            for (value, thresholds) in rules {
                let value = value.ok_or_else(|| {
                    RegBayesError::state(format!(
                        "no task has targets of the kind that {criterion:?} is for"
                    ))
                })?;
                if best.as_ref().is_none_or(|best| value > best.value) {
                    best = Some(Chosen {
                        candidate,
                        place,
                        thresholds,
                        value,
                    });
                }
            }
        }
        best.ok_or_else(|| RegBayesError::state("nothing was tried"))
    }
}

fn plus<const N: usize>(a: [f64; N], b: [f64; N]) -> [f64; N] {
    std::array::from_fn(|n| a[n] + b[n])
}

/// A score, and whether the target is positive.
type Decided = (f64, bool);

/// Decisions by a threshold: true positives, false positives, false negatives, true negatives.
fn confusion(pairs: &[Decided], threshold: f64) -> [f64; 4] {
    let mut counts = [0.0; 4];
    for &(score, yes) in pairs {
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

/// Scores of a label in descending order, and how many of the first are positive.
struct Ranked {
    scores: Vec<f64>,
    hits: Vec<f64>,
}

impl Ranked {
    /// `None` without a positive target: then nothing says where a threshold should be.
    fn new(mut pairs: Vec<Decided>) -> Option<Self> {
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut hits = vec![0.0];
        for (n, (_, positive)) in pairs.iter().enumerate() {
            hits.push(hits[n] + f64::from(u8::from(*positive)));
        }
        let scores = pairs.into_iter().map(|(score, _)| score).collect();
        (hits[hits.len() - 1] > 0.0).then_some(Self { scores, hits })
    }

    /// Hits, and yeses of decisions and targets together, when the first `cut` are called positive: F1 is twice the first over the second.
    fn counts(&self, cut: usize) -> [f64; 2] {
        [self.hits[cut], cut as f64 + self.hits[self.hits.len() - 1]]
    }

    /// The number of rows to call positive for the best F1 together with others' counts; the fewest of equals.
    fn best(&self, others: [f64; 2]) -> usize {
        let value = |cut: usize| {
            let [hits, sizes] = plus(self.counts(cut), others);
            hits / sizes
        };
        let n = self.scores.len();
        // Rows of one score are on one side.
        let possible =
            |&cut: &usize| cut == 0 || cut == n || self.scores[cut - 1] > self.scores[cut];
        let better = |best, cut| if value(cut) > value(best) { cut } else { best };
        (0..=n).filter(possible).fold(0, better)
    }

    /// Between the last row that is called positive and the next.
    fn threshold(&self, cut: usize) -> f64 {
        match cut {
            0 => self.scores[0] + 1.0,
            cut if cut == self.scores.len() => self.scores[cut - 1] - 1.0,
            cut => 0.5 * (self.scores[cut - 1] + self.scores[cut]),
        }
    }
}

/// Held-out scores of all training targets at several costs and class costs. The features of the inputs alone (which no label is needed for) are found once; a fold
/// hides the labels of its rows, not their inputs, as joint inference does.
///
/// Folds run in parallel; bits do not depend on the number of threads. Cost: that of `folds × costs × class costs` fits without their first sweeps.
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
    let features = weight / (choice.fits() + 1) as f64;
    let mut part = watch.part("features", features);
    let prepared = PreparedTasks::new_watched(data, config, &mut part)?;
    if part.report(0, 1.0, &[], &[]).is_break() {
        return Err(stopped());
    }
    let rng = &mut stream(config.seed, [0, FOLDS, 0, 0]);
    let splits = k_fold(prepared.core.rows.len(), choice.folds, rng)?;
    let mut folds = vec![0; data.n_rows()];
    for (fold, split) in splits.iter().enumerate() {
        let test = split.test.iter().map(|&n| prepared.core.rows[n]);
        test.for_each(|n| folds[n] = fold);
    }
    let mut costs = choice.costs.clone();
    costs.sort_by(f64::total_cmp);
    costs.dedup();
    let rest = (weight - features) / choice.class_costs.len() as f64;
    let mut scores = Vec::new();
    for &class_costs in &choice.class_costs {
        let config = IlsvmConfig {
            class_costs,
            ..config.clone()
        };
        let parts = over_folds(&costs, &splits, (watch, rest), |fold, cost, before| {
            one_fold(&prepared, data, &config, fold, cost, before)
        })?;
        for (place, &cost) in costs.iter().enumerate() {
            let own = |(m, task): (usize, &Task)| {
                let mut scores = vec![0.0; task.rows.len()];
                let parts = parts.iter().flat_map(|part| &part[place][m]);
                parts.for_each(|&(target, score)| scores[target] = score);
                scores
            };
            let merged = data.tasks.iter().enumerate().map(own).collect();
            scores.push((Candidate { cost, class_costs }, merged));
        }
    }
    HeldOut::new(&data.tasks, folds, scores)
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
    let memory = Checkpoint::in_memory([None]);
    vb::run(&mut run, before, &config, (&mut part, &memory))?;
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
    let reached = Reached {
        iteration: 0,
        ..run.state()
    };
    Ok((scores, reached))
}

/// [`cross_validate`], then a fit at the best cost, with its thresholds. `watch` hears of both; a checkpoint is of the last fit.
///
/// # Errors
/// As both.
///
/// ```
/// use npb_regbayes::{ClassCosts, IlsvmConfig};
/// use npb_regbayes::npb_data::Table;
/// use npb_regbayes::npb_infer::Watch;
/// use npb_regbayes::tasks::{Criterion, Task, TaskData, Validation, fit_selected};
/// let value = |n: usize, d: usize| ((n * (2 * d + 3) + d * d) % 7) as f64 - 3.0;
/// let inputs = Table::complete(60, 4, (0..240).map(|k| value(k / 4, k % 4)).collect())?;
/// let rare = (0..60).map(|n| Some(value(n, 0) + value(n, 1) > 2.0)).collect::<Vec<_>>();
/// let data = TaskData::new(inputs.clone(), vec![Task::label("rare", &rare)])?;
/// let choice = Validation {
///     costs: vec![0.01, 1.0],
///     class_costs: vec![ClassCosts::Equal, ClassCosts::Balanced],
///     folds: 3,
///     criterion: Criterion::F1Macro,
///     thresholds: true,
/// };
/// let (model, held_out) = fit_selected(&data, &IlsvmConfig::default(), &choice, &Watch::none())?;
/// assert!(held_out.tried().iter().any(|tried| tried.cost == model.config.cost));
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
    let last = 1.0 / (choice.fits() + 1) as f64;
    let held_out = cross_validate_part(data, config, choice, (watch, 1.0 - last))?;
    let chosen = held_out.best(choice)?;
    let config = IlsvmConfig {
        cost: chosen.candidate.cost,
        class_costs: chosen.candidate.class_costs,
        ..config.clone()
    };
    let model = fit_part(data, &config, (watch, last))?;
    Ok((model.with_thresholds(&chosen.thresholds)?, held_out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::Task;

    /// Two labels in ten rows, scores of one candidate; the second label is rare, and every score of it is below 0.
    fn held_out() -> HeldOut {
        let scores = [
            [0.9, 0.8, 0.4, 0.3, 0.3, -0.1, 0.7, 0.2, -0.5, 0.1],
            [-0.1, -0.9, -0.8, -0.2, -0.7, -0.95, -0.6, -0.15, -0.3, -0.5],
        ];
        let truth = [
            [
                true, false, true, true, false, false, true, true, false, false,
            ],
            [
                true, false, false, true, false, false, false, true, false, false,
            ],
        ];
        let task = |m: usize| Task::label(format!("{m}"), &truth[m].map(Some));
        let candidate = Candidate {
            cost: 1.0,
            class_costs: ClassCosts::Equal,
        };
        let scores = scores.map(|own| own.to_vec()).to_vec();
        let folds = (0..10).map(|n| n % 2).collect();
        HeldOut::new(&[task(0), task(1)], folds, vec![(candidate, scores)]).unwrap()
    }

    #[test]
    fn thresholds_are_the_best_of_all() {
        let held_out = held_out();
        let grid = || (-20..20).map(|t| f64::from(t) / 20.0 + 0.025);
        for criterion in [Criterion::F1Micro, Criterion::F1Macro] {
            let value = |t: &[f64]| held_out.value(0, criterion, t).unwrap();
            let pairs = grid().flat_map(|a| grid().map(move |b| [a, b]));
            let best = pairs.map(|pair| value(&pair)).fold(0.0, f64::max);
            let found = held_out.thresholds(0, criterion);
            assert!(
                (value(&found) - best).abs() < 1e-12,
                "{criterion:?} {found:?}"
            );
        }
        assert_eq!(held_out.thresholds(0, Criterion::Accuracy), [0.0; 2]);
        assert!(Ranked::new(vec![(0.3, false), (0.2, false)]).is_none());
    }

    /// Thresholds are judged on folds that had no part in them: the value is that of doing so by hand, and below that of thresholds on their own scores.
    #[test]
    fn thresholds_are_judged_where_they_were_not_chosen() {
        let held_out = held_out();
        let choice = Validation {
            criterion: Criterion::F1Macro,
            thresholds: true,
            ..Validation::default()
        };
        let chosen = held_out.best(&choice).unwrap();
        let mut counts = [[0.0; 4]; 2];
        for fold in 0..2 {
            let thresholds = held_out.thresholds_from(0, Criterion::F1Macro, |f| f == 1 - fold);
            for (m, pairs) in held_out.labels(0, |f| f == fold).into_iter().enumerate() {
                counts[m] = plus(counts[m], confusion(&pairs.unwrap(), thresholds[m]));
            }
        }
        let by_hand = 0.5 * (f1(counts[0]) + f1(counts[1]));
        let zeros = held_out.value(0, Criterion::F1Macro, &[0.0; 2]).unwrap();
        assert!(by_hand > zeros && (chosen.value - by_hand).abs() < 1e-12);
        let seen = held_out.value(0, Criterion::F1Macro, &chosen.thresholds);
        assert!(chosen.value < seen.unwrap());
        let zero = Validation {
            thresholds: false,
            ..choice
        };
        assert_eq!(held_out.best(&zero).unwrap().thresholds, [0.0; 2]);
    }
}
