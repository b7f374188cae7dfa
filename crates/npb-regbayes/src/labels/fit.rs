//! The fit of labels by latent features and inputs.

use std::fmt;

use npb_data::Table;
use npb_infer::{Stop, VbReport, Watch, parallel};
use npb_linalg::dot;
use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

use super::calibration::{Curve, Scored, expected_f1};
use super::config::{Decisions, LabelInputs, LabelsConfig};
use super::held_out::{Found, HeldOutTargets};
use super::members::{Block, Member, blocks, combined, squared_distances};
use crate::columns::Columns;
use crate::config::{IlsvmConfig, LabelUpdate};
use crate::dense::axpy;
use crate::error::RegBayesError;
use crate::fit::{FeatureReport, saved};
use crate::inputs::Inputs;
use crate::machine::{Machine, MachineLimits, Solution};
use crate::select::stopped;
use crate::state::FeatureState;
use crate::tasks::{Goal, Learned, MtIlsvmFit, PreparedTasks, TaskData, TaskScores, TaskTargets};
use crate::tasks::{fit_some, fit_watched as fit_tasks};
use npb_data::splits::k_fold;
use npb_infer::stream;

/// Share of the work that is finding the features.
const FEATURES: f64 = 0.4;
/// Accuracy of held-out decisions that is given for F1.
const ACCURACY_GIVEN: f64 = 0.01;
/// Shares of the way to the best F1 are multiples of this, up to so many.
const STEP: f64 = 0.05;
const MOST_STEPS: u32 = 10;
/// Second word of the keys of random streams.
const FOLDS: u64 = u64::MAX;

/// A kernel with the landmarks, and the weights of all tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kernel {
    gamma: f64,
    /// Task by task, one for each landmark.
    weights: Vec<f64>,
}

/// What held-out targets say of a member.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberReport {
    /// The member.
    pub member: Member,
    /// Whether this is of numbers; else of labels.
    pub numbers: bool,
    /// C of its machines.
    pub cost: f64,
    /// Cross entropy of its calibrated scores per target, or half the mean squared error in standard units.
    pub held_out_loss: f64,
    /// How much it counts.
    pub stacking_weight: f64,
}

/// What should be known of a label before it is relied on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelNote {
    /// All its known values are the same.
    OneValue {
        /// The label.
        label: String,
        /// The value.
        yes: bool,
    },
    /// It has both values, but every row of the fit gets the same answer.
    OneAnswer {
        /// The label.
        label: String,
        /// The answer.
        yes: bool,
    },
}

impl fmt::Display for LabelNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |yes: &bool| if *yes { "yes" } else { "no" };
        match self {
            Self::OneValue { label, yes } => {
                write!(f, "label {label}: all its known values are {}", word(yes))
            }
            Self::OneAnswer { label, yes } => write!(
                f,
                "label {label}: the answer is {} for every row of the fit; nothing that was found in the inputs tells its values apart",
                word(yes)
            ),
        }
    }
}

/// Fitted labels and numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelsFit {
    /// Settings of the fit.
    pub config: LabelsConfig,
    /// Latent features; of each task the weights of these, the bias and the threshold.
    latent: MtIlsvmFit,
    /// Task by task weights of the inputs in standard units; empty if they have none.
    linear: Vec<f64>,
    /// Rows in standard units, one after the other; empty if no kernel has weight.
    landmarks: Vec<f64>,
    kernels: Vec<Kernel>,
    members: Vec<MemberReport>,
    notes: Vec<LabelNote>,
}

/// Fits labels and numbers at the settings of `config`.
///
/// Cost with N rows, D inputs, K features, M tasks: the sweeps of MT-IBP, `N D K` each; with kernels of P landmarks `P^3 / 3 + N P^2 / 2` for each width; and `folds`
/// machines for each member, cost and task, some passes of N times the width of what the member sees (at most N for inputs and kernels).
///
/// # Errors
/// Settings out of range; fewer than two rows with a target; no input column that varies; numerical trouble.
///
/// ```
/// use npb_regbayes::labels::{LabelsConfig, fit};
/// use npb_regbayes::npb_data::Table;
/// use npb_regbayes::tasks::{Task, TaskData};
/// // One label that a line decides, one that a circle does.
/// let value = |n: usize, d: usize| ((n * (7 * d + 3) + d * d * n * n) % 23) as f64 / 11.0 - 1.0;
/// let inputs = Table::complete(80, 3, (0..240).map(|k| value(k / 3, k % 3)).collect())?;
/// let line = |n: usize| value(n, 0) + value(n, 1) > 0.0;
/// let circle = |n: usize| value(n, 0).powi(2) + value(n, 1).powi(2) < 0.6;
/// let label = |name: &str, of: &dyn Fn(usize) -> bool| Task::label(name, &(0..80).map(|n| Some(of(n))).collect::<Vec<_>>());
/// let data = TaskData::new(inputs.clone(), vec![label("line", &line), label("circle", &circle)])?;
/// let model = fit(&data, &LabelsConfig::default())?;
/// let found = model.predict(&inputs)?;
/// let (line_is, circle_is) = (found.labels(0).ok_or("a label")?, found.probabilities(1).ok_or("a label")?);
/// assert!((0..80).filter(|&n| line_is[n] == line(n)).count() > 70);
/// assert!((0..80).filter(|&n| (circle_is[n] > 0.5) == circle(n)).count() > 65);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit(data: &TaskData, config: &LabelsConfig) -> Result<LabelsFit, RegBayesError> {
    fit_watched(data, config, &Watch::none())
}

/// As [`fit`], watched: progress, cancellation and checkpoints by way of `watch`. A checkpoint is of the features; the machines on them are solved again.
///
/// # Errors
/// As [`fit`]; a checkpoint that cannot be read or written, or is of another fit; being stopped while held-out scores are found.
pub fn fit_watched(
    data: &TaskData,
    config: &LabelsConfig,
    watch: &Watch<'_>,
) -> Result<LabelsFit, RegBayesError> {
    config.validate()?;
    if config.inputs == LabelInputs::None {
        let latent = fit_tasks(data, &config.latent, watch)?;
        return LabelsFit::of_latent(latent, config).noted(data);
    }
    let features = IlsvmConfig {
        label_update: LabelUpdate::TwoStage,
        raw_inputs: 0.0,
        map: None,
        ..config.latent.clone()
    };
    let (latent, prepared) = fit_some(data, &[], &features, (watch, FEATURES))?;
    if watch.is_stopped() {
        return Err(stopped());
    }
    let rows = &prepared.core.rows;
    let all = latent.filled(&data.inputs)?;
    let inputs = Mat::from_fn(all.nrows(), rows.len(), |d, n| all[(d, rows[n])]);
    let asked = asked(data, &prepared, config)?;
    let (blocks, landmarks) = blocks(&inputs, &latent.state().indicators, config)?;
    let mut found = Vec::new();
    for (k, block) in blocks.iter().enumerate() {
        let share = (1.0 - FEATURES) / blocks.len() as f64;
        let mut part = watch.part("held out", share);
        let own = asked.at_costs((k, block), &config.costs, |step, share| {
            part.report(step as u64, share, &[], &[])
        })?;
        found.extend(own.ok_or_else(stopped)?);
    }
    let weights = [0, 1].map(|kind| asked.stack(&found, kind));
    let mut fit = LabelsFit::of_latent(latent, config);
    fit.members = reports(&asked, &blocks, &found, &weights);
    let limits = &config.latent.machine;
    let terms = parallel::try_map(0..data.tasks.len(), |m| {
        let weights = &weights[asked.kind(m)];
        Terms::of(&asked, m, (&blocks, &found, weights), limits)
    })?;
    fit.take(data, &prepared, &terms, (&blocks, &inputs, &landmarks));
    let thresholds = thresholds(&asked, &terms, config.decisions);
    fit.latent = fit.latent.with_thresholds(&thresholds)?;
    fit.noted(data)
}

/// What is asked of training rows, and their folds.
fn asked(
    data: &TaskData,
    prepared: &PreparedTasks,
    config: &LabelsConfig,
) -> Result<HeldOutTargets, RegBayesError> {
    let rows = &prepared.core.rows;
    let mut places = vec![0; data.n_rows()];
    rows.iter()
        .enumerate()
        .for_each(|(n, &row)| places[row] = n);
    let n_folds = config.folds.min(rows.len());
    let rng = &mut stream(config.latent.seed, [0, FOLDS, 0, 0]);
    let mut folds = vec![0; rows.len()];
    for (fold, split) in k_fold(rows.len(), n_folds, rng)?.iter().enumerate() {
        split.test.iter().for_each(|&n| folds[n] = fold);
    }
    let latent = IlsvmConfig {
        cost: 1.0,
        ..config.latent.clone()
    };
    let goal = |task| Goal::new(task, &places, prepared.units, &latent);
    Ok(HeldOutTargets {
        goals: data.tasks.iter().map(goal).collect(),
        folds,
        n_folds,
        slack: latent.slack,
        epsilon: latent.epsilon,
        ones: latent.ones,
    })
}

fn reports(
    asked: &HeldOutTargets,
    blocks: &[Block],
    found: &[Found],
    weights: &[Vec<f64>; 2],
) -> Vec<MemberReport> {
    let size = |kind: usize| -> f64 {
        let own = asked
            .goals
            .iter()
            .enumerate()
            .filter(|(m, _)| asked.kind(*m) == kind);
        own.map(|(_, goal)| goal.costs.iter().sum::<f64>()).sum()
    };
    let of = |kind: usize| {
        let each = found.iter().zip(&weights[kind]);
        each.map(move |(found, &stacking_weight)| MemberReport {
            member: blocks[found.block].member,
            numbers: kind == 1,
            cost: found.cost,
            held_out_loss: found.losses[kind] / size(kind),
            stacking_weight,
        })
    };
    (0..2)
        .filter(|&kind| size(kind) > 0.0)
        .flat_map(of)
        .collect()
}

impl LabelsFit {
    fn of_latent(latent: MtIlsvmFit, config: &LabelsConfig) -> Self {
        Self {
            config: config.clone(),
            latent,
            linear: Vec::new(),
            landmarks: Vec::new(),
            kernels: Vec::new(),
            members: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Takes the weights of all tasks.
    fn take(
        &mut self,
        data: &TaskData,
        prepared: &PreparedTasks,
        terms: &[Terms],
        (blocks, inputs, landmarks): (&[Block], &Mat<f64>, &[usize]),
    ) {
        let n_features = self.latent.state().n_features();
        let width = n_features + usize::from(self.config.latent.ones > 0.0);
        for (task, terms) in data.tasks.iter().zip(terms) {
            let mut learned = Learned::new(task, vec![0.0; width], prepared.units);
            learned.centre += learned.scale * terms.bias;
            self.latent.tasks.push(learned);
        }
        for (k, block) in blocks.iter().enumerate() {
            if terms.iter().all(|terms| terms.weights[k].is_empty()) {
                continue;
            }
            let of_task = |(terms, task): (&Terms, &Learned)| {
                let mut own = terms.weights[k].clone();
                own.resize(block.width, 0.0);
                if block.member == Member::Linear && block.is_of_rows() {
                    own = combined(inputs, &own);
                }
                own.iter_mut().for_each(|w| *w *= task.scale);
                own
            };
            let own = terms.iter().zip(&self.latent.tasks).map(of_task);
            let own = own.collect::<Vec<_>>().concat();
            match block.member {
                Member::Linear => self.linear = own,
                Member::Rbf { gamma } => self.kernels.push(Kernel {
                    gamma,
                    weights: own,
                }),
                // Scores of features are in the units of the machine, and brought to those of the task with the bias.
                Member::Latent => {
                    for (task, terms) in self.latent.tasks.iter_mut().zip(terms) {
                        let own = &terms.weights[k];
                        task.weights[..own.len()].copy_from_slice(own);
                    }
                }
            }
        }
        if !self.kernels.is_empty() {
            let rows = landmarks.iter().flat_map(|&n| inputs.col_as_slice(n));
            self.landmarks = rows.copied().collect();
        }
    }

    /// With what is to be known of labels.
    fn noted(mut self, data: &TaskData) -> Result<Self, RegBayesError> {
        let found = self.predict(&data.inputs)?;
        for (m, task) in data.tasks.iter().enumerate() {
            let (TaskTargets::Binary(values), Some(answers)) = (&task.targets, found.labels(m))
            else {
                continue;
            };
            let label = task.name.clone();
            let answer = answers[task.rows[0]];
            if values.iter().all(|&y| y == values[0]) {
                let yes = values[0];
                self.notes.push(LabelNote::OneValue { label, yes });
            } else if task.rows.iter().all(|&n| answers[n] == answer) {
                self.notes.push(LabelNote::OneAnswer { label, yes: answer });
            }
        }
        Ok(self)
    }

    /// Scores of rows, new or not: of labels log-odds (with `inputs: none` margins), of numbers predictions. Holes are filled with what the features expect there.
    ///
    /// # Errors
    /// Other columns than those of the fit.
    pub fn predict(&self, inputs: &Table) -> Result<TaskScores, RegBayesError> {
        let filled = self.latent.filled(inputs)?;
        let scores = self.latent.scores(&filled)?;
        if self.members.is_empty() {
            return Ok(scores);
        }
        let d = filled.nrows();
        let landmarks = Mat::from_fn(d, self.landmarks.len() / d, |j, k| {
            self.landmarks[k * d + j]
        });
        let distances = squared_distances(&landmarks, &filled);
        Ok(scores.with_more(|n, scores| {
            add(scores, &self.linear, filled.col_as_slice(n));
            for kernel in &self.kernels {
                let distances = distances.col_as_slice(n).iter();
                let values: Vec<f64> = distances.map(|d| (-kernel.gamma * d).exp()).collect();
                add(scores, &kernel.weights, &values);
            }
        }))
    }

    /// Why the fit of the features (with `inputs: none` of all) ended.
    pub fn stop(&self) -> Stop {
        self.latent.stop
    }

    /// Its iterations; `elbo` is minus the objective.
    pub fn trace(&self) -> &[VbReport] {
        &self.latent.trace
    }

    /// The latent features and what of them the scores use: scores of this fit are its, and more.
    pub fn latent(&self) -> &MtIlsvmFit {
        &self.latent
    }

    /// The posterior of the features.
    pub fn state(&self) -> &FeatureState {
        self.latent.state()
    }

    /// Which input columns are in use.
    pub fn columns(&self) -> &Columns {
        self.latent.columns()
    }

    /// Names of the tasks.
    pub fn task_names(&self) -> Vec<String> {
        self.latent.task_names()
    }

    /// What held-out targets say of members, labels before numbers; nothing with `inputs: none`.
    pub fn members(&self) -> &[MemberReport] {
        &self.members
    }

    /// Task by task what scores add for each input column in use, in standard units; empty where the inputs by themselves have no weight.
    pub fn input_weights(&self) -> &[f64] {
        &self.linear
    }

    /// What should be known of labels before they are relied on.
    pub fn notes(&self) -> &[LabelNote] {
        &self.notes
    }

    /// What the features are: which input columns each one sums, which tasks it drives. Where they carry nothing beside the inputs, they drive nothing.
    pub fn features(&self) -> Vec<FeatureReport> {
        self.latent.features()
    }

    fn check(&self) -> Result<(), RegBayesError> {
        self.config.validate()?;
        self.latent.check()?;
        let (m, d) = (self.latent.tasks.len(), self.columns().kept().len());
        let n = self.landmarks.len() / d;
        let right = [0, m * d].contains(&self.linear.len())
            && n * d == self.landmarks.len()
            && (self.kernels.iter()).all(|k| k.weights.len() == m * n && k.gamma > 0.0);
        let kernels = self
            .kernels
            .iter()
            .flat_map(|k| k.weights.iter().chain([&k.gamma]));
        let mut numbers = self.linear.iter().chain(&self.landmarks).chain(kernels);
        match right && numbers.all(|x| x.is_finite()) {
            true => Ok(()),
            false => Err(RegBayesError::state(
                "weights of inputs: impossible value or size",
            )),
        }
    }
}

saved!(LabelsFit, "npb-regbayes/labels");

/// The score of one task, in the units of the machine.
struct Terms {
    bias: f64,
    /// For each block; empty without weight.
    weights: Vec<Vec<f64>>,
    /// Held-out scores of its targets.
    held_out: Vec<f64>,
}

impl Terms {
    /// Solves the machines that have weight on all rows of a task, and takes their weights as stacking and calibration have them.
    fn of(
        asked: &HeldOutTargets,
        m: usize,
        (blocks, found, weights): (&[Block], &[Found], &[f64]),
        limits: &MachineLimits,
    ) -> Result<Self, RegBayesError> {
        let (last, held_out) = asked.calibrate(m, asked.mean(found, weights, m));
        let mut terms = Self {
            bias: last.offset,
            weights: vec![Vec::new(); blocks.len()],
            held_out,
        };
        for (k, block) in blocks.iter().enumerate() {
            let own = found.iter().zip(weights);
            let used = own.filter(|(found, weight)| found.block == k && **weight > 0.0);
            let rows = asked.rows(m, block);
            let machine = Machine::new(Inputs::dense(&rows, block.width)?.with_ones(asked.ones)?);
            let mut sum = vec![0.0; block.width];
            let mut warm: Option<Solution> = None;
            for (found, &weight) in used {
                let Curve { slope, offset } = found.curves[m];
                let weight = last.slope * weight;
                let solution =
                    asked.solve(&machine, (m, found.cost, None), warm.as_ref(), limits)?;
                let (own, bias) = solution.weights.split_at(block.width);
                let bias = bias.first().map_or(0.0, |b| b * asked.ones);
                terms.bias += weight * (slope * bias + offset);
                axpy(&mut sum, weight * slope, own);
                warm = Some(solution);
            }
            if warm.is_some() {
                terms.weights[k] = block.unfold(&sum);
            }
        }
        Ok(terms)
    }
}

/// Adds to the score of each task its weights times `values`.
fn add(scores: &mut [f64], weights: &[f64], values: &[f64]) {
    let own = weights.chunks_exact(values.len().max(1));
    scores
        .iter_mut()
        .zip(own)
        .for_each(|(score, own)| *score += dot(own, values));
}

/// Where labels become yeses, by calibrated held-out scores; 0 for numbers.
fn thresholds(asked: &HeldOutTargets, terms: &[Terms], decisions: Decisions) -> Vec<f64> {
    let labels: Vec<usize> = (0..terms.len()).filter(|&m| asked.kind(m) == 0).collect();
    let scored: Vec<Vec<Scored>> = (labels.iter())
        .map(|&m| asked.scored(m, &terms[m].held_out))
        .collect();
    // Half of the F1 that some labels lead to expect, as log-odds.
    let best = |some: &[Vec<Scored>]| {
        let p = 0.5 * expected_f1(some.iter().flatten().map(|&(x, _, weight)| (x, weight)));
        p.ln() - (-p).ln_1p()
    };
    let own: Vec<f64> = (scored.iter())
        .map(|own| best(std::slice::from_ref(own)))
        .collect();
    let right = |share: f64| -> f64 {
        let of_label = |(own, at): (&Vec<Scored>, &f64)| -> f64 {
            let right = own.iter().filter(|(x, yes, _)| (*x > share * at) == *yes);
            right.map(|(_, _, weight)| weight).sum()
        };
        scored.iter().zip(&own).map(of_label).sum()
    };
    let share = match decisions {
        Decisions::Accuracy => 0.0,
        Decisions::F1Micro | Decisions::F1Macro => 1.0,
        Decisions::Both => {
            let all: f64 = scored.iter().flatten().map(|s| s.2).sum();
            let least = right(0.0) - ACCURACY_GIVEN * all;
            let shares = (0..=MOST_STEPS).rev().map(|step| STEP * f64::from(step));
            shares
                .into_iter()
                .find(|&s| right(s) >= least)
                .unwrap_or(0.0)
        }
    };
    let together = (decisions == Decisions::F1Micro).then(|| best(&scored));
    let mut thresholds = vec![0.0; terms.len()];
    for (&m, own) in labels.iter().zip(&own) {
        thresholds[m] = together.unwrap_or(share * own);
    }
    thresholds
}
