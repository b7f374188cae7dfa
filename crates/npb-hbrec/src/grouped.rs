//! Two classes of rows in many groups with little data each (`docs/hbrec.md#groups`).

mod draws;
mod saved;

use npb_data::{Labels, Standardiser, Table};
use npb_infer::parallel;
use npb_infer::ranges::OutOfRange;
use npb_infer::storage::fingerprint;
use npb_infer::watch::Checkpoint;
use npb_infer::{Interval, Stop, VbOutcome, VbReport, Watch, stream};
use npb_linalg::elementary::vectorised;
use npb_linalg::faer::Mat;
use npb_priors::special::{normal_cdf, normal_quantile, vector};
use pulp::Arch;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use draws::{averaged, draw_bases};

use crate::base::learn_gaussian_watched;
use crate::em::infer_tau;
use crate::{
    ActiveUser, AtomRule, DpConcentration, GaussianPrior, GaussianTask, GibbsModel, GroupedConfig,
    HbrecError, LikelihoodTable, Mixture, ProbitTask, Task, TaskAtom, UserModel,
};

const MODEL: &str = "npb-hbrec/groups";
const CHECKPOINT: &str = "npb-hbrec/groups/checkpoint";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Of random choices of groups.
const CHOICE: u64 = 31;
/// tau is inferred from groups that the base has not seen: each is left out once, in so many folds at most.
const FOLDS: usize = 5;
/// With so many groups for each number of the base it says next to nothing of any one of them, and tau is inferred from all as they are.
const PER_NUMBER: usize = 50;
/// Of more groups than so many the base begins with what a sample of that size says.
const SAMPLE: usize = 500;
/// Groups between two reports to the watcher.
const CHUNK: usize = 16;
/// Precision of the mean of the base distribution: coefficients are of standard units.
const MEAN_PRECISION: f64 = 1.0;
/// Standard deviations from the mean of training beyond which nothing can be computed.
const FARTHEST: f64 = 1e100;

/// A probit classifier for every group, around a learned base distribution, with the other groups as point masses.
///
/// Features are standardised by the rows of training, and an intercept is added. Group names, classes and column names are kept.
///
/// ```
/// use npb_hbrec::npb_data::{Labels, Table};
/// use npb_hbrec::{GroupedConfig, GroupedFit, Saved, fit_groups};
/// // Four hospitals; in the last two the finding speaks for the other class.
/// let finding = |row: usize| (row as f64 * 0.7).sin();
/// let group = |row: usize| ["a", "b", "c", "d"][row % 4];
/// let ill = |row: usize| (finding(row) > 0.0) == (row % 4 < 2);
/// let table = Table::complete(80, 1, (0..80).map(finding).collect())?;
/// let labels: Vec<_> = (0..80).map(|row| Some(if ill(row) { "ill" } else { "well" })).collect();
/// let groups: Vec<_> = (0..80).map(|row| Some(group(row))).collect();
/// let (labels, groups) = (Labels::from_strings(&labels), Labels::from_strings(&groups));
/// let fit = fit_groups(&table, &labels, &groups, &GroupedConfig::default())?;
///
/// // Probability of the second class, "well".
/// let new = Table::complete(1, 1, vec![0.8])?;
/// assert!(fit.predict(fit.group("a")?, &new)?[0] < 0.3);
/// assert!(fit.predict(fit.group("d")?, &new)?[0] > 0.7);
/// // A hospital that was not there, by four rows of its own; on file and back.
/// let few = Table::complete(4, 1, vec![1.0, 0.5, -0.6, -1.0])?;
/// let of_few = Labels::with_classes(fit.classes().to_vec(), &[Some("ill"), Some("ill"), Some("well"), Some("well")])?;
/// let hospital = fit.fold_in(&few, &of_few)?;
/// let again = GroupedFit::from_bytes(&fit.to_bytes()?)?;
/// assert_eq!(again.predict(&hospital, &new)?, fit.predict(&hospital, &new)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupedFit {
    config: GroupedConfig,
    classes: Vec<String>,
    scale: Standardiser,
    base: VbOutcome,
    /// Draws of the base distribution; none where the fit was stopped before them.
    draws: Vec<GaussianPrior>,
    /// Atoms without weight are left out.
    mixture: Mixture<ProbitTask>,
    names: Vec<String>,
    groups: Vec<ActiveUser<TaskAtom>>,
}

/// Learns the base distribution of the groups, makes each an atom and learns their weights, in one call.
///
/// Rows must be complete and labelled by one of two classes, and every group must have a row. Memory: `8 M^2` bytes for M groups. Cost: for each iteration a
/// fit of every group, `n Q^2` for n rows and Q coefficients, and `M n Q^2` for the weights.
///
/// # Errors
/// A configuration out of range; labels that are not of two classes; a missing cell, which is named; numerical trouble.
pub fn fit_groups(
    table: &Table,
    labels: &Labels,
    groups: &Labels,
    config: &GroupedConfig,
) -> Result<GroupedFit, HbrecError> {
    fit_groups_watched(table, labels, groups, config, &Watch::none())
}

/// As [`fit_groups`], watched, stopped or checkpointed by the caller. Stopped, the base is what the iterations so far have made, and groups that were not reached
/// are alone under it.
///
/// # Errors
/// As [`fit_groups`]; a checkpoint that cannot be read or written, or is of another fit.
pub fn fit_groups_watched(
    table: &Table,
    labels: &Labels,
    groups: &Labels,
    config: &GroupedConfig,
    watch: &Watch<'_>,
) -> Result<GroupedFit, HbrecError> {
    config.validate()?;
    let (scale, tasks) = tasks_of(table, labels, groups)?;
    let data: Vec<&Task<bool>> = tasks.iter().collect();
    let infers_tau = config.weights.tau == DpConcentration::Inferred && data.len() > 1;
    let q = data.first().map_or(1, |task| task.width());
    let leaves_out = infers_tau && data.len() < PER_NUMBER * q * (q + 3) / 2;
    let share = if leaves_out { 0.3 } else { 0.6 };
    let (model, mut outcome) = base(&data, config, share, watch)?;
    let mut part = watch.part("draws of the base", 0.1);
    let drawn_to = start(model.prior().width())?;
    let draws = match watch.is_stopped() {
        true => Vec::new(),
        false => draw_bases(&model, &drawn_to, &data, config.seed, &mut part)?,
    };
    let mut settings = config.weights;
    if settings.tau == DpConcentration::Inferred && (leaves_out || !infers_tau) {
        settings.tau = DpConcentration::Given(data.len() as f64);
    }
    let mut part = watch.part("weights", 0.2);
    let mut mixture = Mixture::learn_watched(model, &data, &settings, &mut part)?;
    if leaves_out && let Some(tau) = left_out_tau(&data, &mixture, config, watch)? {
        mixture.set_tau(tau);
    }
    let mut posteriors = posteriors(&mut mixture, &draws, &data, watch)?;
    let kept = mixture.drop_idle_atoms();
    for group in &mut posteriors {
        group.weights = kept.iter().map(|&atom| group.weights[atom]).collect();
    }
    if watch.is_stopped() {
        outcome.stop = Stop::Cancelled;
    }
    Ok(GroupedFit {
        config: *config,
        classes: labels.classes().to_vec(),
        scale,
        base: outcome,
        draws,
        mixture,
        names: groups.classes().to_vec(),
        groups: posteriors,
    })
}

/// The rows of each group in standard units.
fn tasks_of(
    table: &Table,
    labels: &Labels,
    groups: &Labels,
) -> Result<(Standardiser, Vec<Task<bool>>), HbrecError> {
    if labels.n_classes() != 2 {
        return Err(size("classes of the labels", labels.n_classes(), 2));
    }
    let n_rows = table.n_rows();
    if groups.n_rows() != n_rows {
        return Err(size("groups of rows", groups.n_rows(), n_rows));
    }
    check_complete(table)?;
    let scale = Standardiser::fit(table);
    let rows = Rows::new(&scale, table, labels)?;
    let of_row = groups.all_codes()?;
    let mut of_group = vec![Vec::new(); groups.n_classes()];
    (0..n_rows).for_each(|i| of_group[of_row[i]].push(i));
    let tasks = of_group.into_iter().map(|rows_of| rows.task(rows_of));
    let tasks: Vec<Task<bool>> = tasks.collect::<Result<_, _>>()?;
    if let Some(empty) = tasks.iter().position(Task::is_empty) {
        return Err(HbrecError::State {
            what: format!("group {:?} has no row", groups.classes()[empty]),
        });
    }
    Ok((scale, tasks))
}

fn size(what: &'static str, found: usize, expected: usize) -> HbrecError {
    HbrecError::Size {
        what,
        found,
        expected,
    }
}

fn check_complete(table: &Table) -> Result<(), HbrecError> {
    let p = table.n_cols();
    let hole = (0..table.n_rows() * p).find(|at| !table.is_observed(at / p, at % p));
    hole.map_or(Ok(()), |at| {
        Err(HbrecError::Value {
            what: "features of groups",
            row: at / p,
            column: at % p,
            value: f64::NAN,
            rule: "is missing: impute it first",
        })
    })
}

/// Complete rows in standard units, the intercept first.
fn standard_rows(scale: &Standardiser, table: &Table) -> Result<Vec<f64>, HbrecError> {
    table.check_columns(scale.column_names())?;
    check_complete(table)?;
    let standard = scale.apply(table)?;
    let (values, p) = (standard.values(), table.n_cols());
    if let Some(at) = values.iter().position(|z| z.abs() > FARTHEST) {
        return Err(HbrecError::Value {
            what: "features of groups",
            row: at / p,
            column: at % p,
            value: table.values()[at],
            rule: "is too far from the values of training to be computed with",
        });
    }
    let row = |i: usize| std::iter::once(1.0).chain(values[i * p..(i + 1) * p].iter().copied());
    Ok((0..table.n_rows()).flat_map(row).collect())
}

/// Rows with their classes.
struct Rows {
    width: usize,
    values: Vec<f64>,
    second: Vec<bool>,
}

impl Rows {
    fn new(scale: &Standardiser, table: &Table, labels: &Labels) -> Result<Self, HbrecError> {
        if labels.n_rows() != table.n_rows() {
            return Err(size("labels of rows", labels.n_rows(), table.n_rows()));
        }
        let codes = labels.all_codes()?;
        Ok(Self {
            width: table.n_cols() + 1,
            values: standard_rows(scale, table)?,
            second: codes.iter().map(|&code| code == 1).collect(),
        })
    }

    fn task(&self, rows: impl IntoIterator<Item = usize>) -> Result<Task<bool>, HbrecError> {
        let (mut values, mut second) = (Vec::new(), Vec::new());
        for i in rows {
            values.extend_from_slice(&self.values[i * self.width..(i + 1) * self.width]);
            second.push(self.second[i]);
        }
        Task::new(self.width, &values, &second)
    }
}

/// Where the base distribution starts, and what its covariance is drawn to: features together say as much as the noise does, and so does the intercept.
fn start(width: usize) -> Result<GaussianPrior, HbrecError> {
    let variance = |k: usize| {
        if k == 0 {
            1.0
        } else {
            1.0 / (width - 1) as f64
        }
    };
    let covariance = Mat::from_fn(width, width, |i, j| if i == j { variance(i) } else { 0.0 });
    GaussianPrior::new(vec![0.0; width], covariance.as_ref())
}

fn base(
    data: &[&Task<bool>],
    config: &GroupedConfig,
    share: f64,
    watch: &Watch<'_>,
) -> Result<(ProbitTask, VbOutcome), HbrecError> {
    let model = ProbitTask::new(start(data.first().map_or(1, |task| task.width()))?);
    let key = fingerprint(&(config, data))?;
    let checkpoint = watch.checkpoint(CHECKPOINT, VERSION, key, 1)?;
    let from = of_sample(&model, data, config)?;
    let run = (&mut watch.part("base", share), &checkpoint);
    learn_gaussian_watched(&model, data, (MEAN_PRECISION, &from), &config.limits, run)
}

/// The base of a sample of groups, where EM of all begins; of few groups its own start.
fn of_sample(
    model: &ProbitTask,
    data: &[&Task<bool>],
    config: &GroupedConfig,
) -> Result<GaussianPrior, HbrecError> {
    if data.len() <= SAMPLE {
        return Ok(model.prior().clone());
    }
    let sample = order(data.len(), config.seed);
    let sample: Vec<&Task<bool>> = sample[..SAMPLE].iter().map(|&group| data[group]).collect();
    let (nobody, memory) = (Watch::none(), Checkpoint::in_memory([None]));
    let run = (&mut nobody.part("base", 0.0), &memory);
    let of = (MEAN_PRECISION, model.prior());
    let (found, _) = learn_gaussian_watched(model, &sample, of, &config.limits, run)?;
    Ok(found.prior().clone())
}

/// Groups in random order.
fn order(groups: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..groups).collect();
    order.shuffle(&mut stream(seed, [0, 0, CHOICE, 0]));
    order
}

/// tau at which groups are most likely that the base has not seen (`docs/hbrec.md#tau`): each is left out of the base in one of several folds. Nothing when
/// stopped.
fn left_out_tau(
    data: &[&Task<bool>],
    mixture: &Mixture<ProbitTask>,
    config: &GroupedConfig,
    watch: &Watch<'_>,
) -> Result<Option<f64>, HbrecError> {
    let order = order(data.len(), config.seed);
    let folds = data.len().min(FOLDS);
    let weight = 0.3 / folds as f64;
    let xi = &mixture.weights().xi;
    let active: Vec<usize> = (0..xi.len()).filter(|&k| xi[k] > 0.0).collect();
    let (mut rows, mut own, mut ln_evidence) = (Vec::new(), Vec::new(), Vec::new());
    for fold in 0..folds {
        let asked: Vec<usize> = order.iter().copied().skip(fold).step_by(folds).collect();
        let mut in_fold = vec![false; data.len()];
        asked.iter().for_each(|&group| in_fold[group] = true);
        let others = (0..data.len()).filter(|&group| !in_fold[group]);
        let others: Vec<&Task<bool>> = others.map(|group| data[group]).collect();
        let model = ProbitTask::new(start(data[0].width())?);
        let mut part = watch.part("tau", 0.8 * weight);
        let run = (&mut part, &Checkpoint::in_memory([None]));
        let limits = &config.limits;
        // Of many groups the base of all is near, and says little of any of them.
        let from = match data.len() > SAMPLE {
            true => mixture.model().prior(),
            false => model.prior(),
        };
        let of = (MEAN_PRECISION, from);
        let (model, _) = learn_gaussian_watched(&model, &others, of, limits, run)?;
        if watch.is_stopped() {
            return Ok(None);
        }
        let atom = |&k: &usize| {
            let posterior = model.fit(data[k])?;
            Ok(model.atom(&posterior, config.weights.atoms))
        };
        let atoms: Result<Vec<TaskAtom>, HbrecError> = parallel::try_map(&active, atom);
        let atoms = atoms?;
        let atoms: Vec<&TaskAtom> = atoms.iter().collect();
        let ask = |&group: &usize| {
            let mut row = vec![f64::NEG_INFINITY; xi.len()];
            let found = model.ln_likelihoods(&atoms, &[data[group]]);
            active
                .iter()
                .zip(found.into_iter().flatten())
                .for_each(|(&k, l)| row[k] = l);
            let (.., evidence) = model.moments_from(data[group], &mut Vec::new())?;
            Ok((row, Some(group), evidence))
        };
        let mut part = watch.part("tau", 0.2 * weight);
        for (at, chunk) in asked.chunks(CHUNK).enumerate() {
            let found: Result<Vec<_>, HbrecError> = parallel::try_map(chunk, ask);
            for (row, group, evidence) in found? {
                rows.push(row);
                own.push(group);
                ln_evidence.push(evidence);
            }
            let done = at * CHUNK + chunk.len();
            let share = done as f64 / asked.len() as f64;
            if part.report(done as u64, share, &[], &[]).is_break() {
                return Ok(None);
            }
        }
    }
    let table = LikelihoodTable::new(xi.len(), &rows, &own)?;
    infer_tau(&table, mixture.weights(), &ln_evidence).map(Some)
}

/// What is believed of each group. Stopped, those that are still to come are alone, and so are new ones: atoms cost most of the time.
fn posteriors(
    mixture: &mut Mixture<ProbitTask>,
    draws: &[GaussianPrior],
    data: &[&Task<bool>],
    watch: &Watch<'_>,
) -> Result<Vec<ActiveUser<TaskAtom>>, HbrecError> {
    let mut part = watch.part("groups", 0.1);
    let draws = of_draws(draws);
    let mut all = Vec::with_capacity(data.len());
    while all.len() < data.len() {
        if watch.is_stopped() {
            mixture.set_tau(f64::INFINITY);
        }
        let next = all.len()..(all.len() + CHUNK).min(data.len());
        let found = parallel::try_map(next, |group| {
            posterior(mixture, &draws, data[group], Some(group))
        });
        all.extend(found?);
        let done = all.len() as f64 / data.len() as f64;
        let _ = part.report(all.len() as u64, done, &[], &[]);
    }
    Ok(all)
}

fn of_draws(draws: &[GaussianPrior]) -> Vec<ProbitTask> {
    draws.iter().cloned().map(ProbitTask::new).collect()
}

/// A group of the fit by its number, without its own atom, or a new one.
fn posterior(
    mixture: &Mixture<ProbitTask>,
    draws: &[ProbitTask],
    task: &Task<bool>,
    own: Option<usize>,
) -> Result<ActiveUser<TaskAtom>, HbrecError> {
    let found = match own {
        Some(own) => mixture.database_user(task, own)?,
        None => mixture.user(task)?,
    };
    let alone = match draws.is_empty() {
        true => mixture.model().atom(&found.alone, AtomRule::Mean),
        false => averaged(draws, task, own.is_some())?,
    };
    Ok(ActiveUser {
        alone,
        own_weight: found.own_weight,
        weights: found.weights,
        ln_evidence: found.ln_evidence,
    })
}

/// Parts of a mixture that are worked on side by side.
const LANES: usize = 8;

/// What is believed of a utility: weights, means and standard deviations of normals.
#[derive(Default)]
struct Parts(Vec<[[f64; LANES]; 3]>);

impl Parts {
    fn push(&mut self, n: usize, part: [f64; 3]) {
        if n.is_multiple_of(LANES) {
            // Nothing, of weight 0, where the last parts do not fill it.
            self.0.push(part.map(|x| [x; LANES]));
            let [weights, ..] = &mut self.0[n / LANES];
            weights[1..].fill(0.0);
        }
        let all = &mut self.0[n / LANES];
        (0..3).for_each(|k| all[k][n % LANES] = part[k]);
    }

    /// The average of `Phi(z)`, `z` a function of mean and standard deviation.
    fn average(&self, z: impl Fn(f64, f64) -> f64) -> f64 {
        let mut sums = [0.0; LANES];
        vectorised(
            Arch::new(),
            #[inline(always)]
            || {
                for [weights, means, sds] in &self.0 {
                    for k in 0..LANES {
                        sums[k] += weights[k] * vector::normal_cdf(z(means[k], sds[k]));
                    }
                }
            },
        );
        sums.iter().sum()
    }

    /// Where this share of the mixture lies below: between the least and the largest such place of its parts.
    fn quantile(&self, p: f64) -> f64 {
        let z = normal_quantile(p);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for [_, means, sds] in &self.0 {
            for (mean, sd) in means.iter().zip(sds) {
                let place = mean + z * sd;
                (low, high) = (low.min(place), high.max(place));
            }
        }
        // A part without spread is all on one side.
        let excess = |x: f64| {
            self.average(
                #[inline(always)]
                |mean, sd| (x - mean) / if sd > 1e-300 { sd } else { 1e-300 },
            ) - p
        };
        let (mut below, mut above) = (excess(low), excess(high));
        let mut was_below = false;
        // False position; where it goes slowly (a mixture with steps), every third step halves.
        for step in 0..180 {
            let middle = 0.5 * (low + high);
            if high - low <= 1e-14 * (1.0 + middle.abs()) {
                break;
            }
            let crossing = (low * above - high * below) / (above - below);
            let inside = step % 3 != 2 && low < crossing && crossing < high;
            let x = if inside { crossing } else { middle };
            let found = excess(x);
            if found.abs() < 1e-15 {
                return x;
            }
            // An end that stays twice counts half, or it would stay for ever (Illinois).
            let again = (found < 0.0) == was_below;
            let share = if again { 0.5 } else { 1.0 };
            was_below = found < 0.0;
            if was_below {
                (low, below, above) = (x, found, share * above);
            } else {
                (high, above, below) = (x, found, share * below);
            }
        }
        0.5 * (low + high)
    }
}

impl GroupedFit {
    /// The settings.
    pub fn config(&self) -> &GroupedConfig {
        &self.config
    }

    /// The two classes; probabilities are of the second.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Names of the columns.
    pub fn column_names(&self) -> &[String] {
        self.scale.column_names()
    }

    /// Names of the groups.
    pub fn groups(&self) -> &[String] {
        &self.names
    }

    /// Base distribution and point masses, of coefficients in standard units after the intercept. Groups whose atoms have no weight are not among them.
    pub fn mixture(&self) -> &Mixture<ProbitTask> {
        &self.mixture
    }

    /// Draws of the base distribution given the groups; none where the fit was stopped before them.
    pub fn base_draws(&self) -> &[GaussianPrior] {
        &self.draws
    }

    /// Iterations of the base: the summed log-evidence of the groups with the logarithm of the priors, before each.
    pub fn trace(&self) -> &[VbReport] {
        &self.base.trace
    }

    /// Cancelled if the caller stopped the fit; otherwise how the iterations of the base ended.
    pub fn stop(&self) -> Stop {
        self.base.stop
    }

    /// What is believed of a group of the fit: its own posterior, and the weights of that and of the atoms.
    ///
    /// # Errors
    /// A group that was not in training.
    pub fn group(&self, name: &str) -> Result<&ActiveUser<TaskAtom>, HbrecError> {
        let found = self.names.iter().position(|group| group == name);
        let found = found.ok_or_else(|| HbrecError::NoSuchGroup {
            group: name.to_owned(),
        })?;
        Ok(&self.groups[found])
    }

    /// What is believed of a group that was not in training, given its labelled rows, of which there may be none. Nothing else changes. Cost: one fit.
    ///
    /// # Errors
    /// Other columns or classes than those of the fit; a row without a label or with a missing cell; numerical trouble.
    pub fn fold_in(
        &self,
        table: &Table,
        labels: &Labels,
    ) -> Result<ActiveUser<TaskAtom>, HbrecError> {
        if labels.classes() != self.classes {
            return Err(HbrecError::State {
                what: format!(
                    "the classes are {:?}, in training they were {:?}",
                    labels.classes(),
                    self.classes
                ),
            });
        }
        let rows = Rows::new(&self.scale, table, labels)?;
        posterior(
            &self.mixture,
            &of_draws(&self.draws),
            &rows.task(0..table.n_rows())?,
            None,
        )
    }

    /// Probability of the second class for rows of a group.
    ///
    /// # Errors
    /// Other columns than those of training; a missing cell; a group of another fit.
    pub fn predict(
        &self,
        group: &ActiveUser<TaskAtom>,
        table: &Table,
    ) -> Result<Vec<f64>, HbrecError> {
        self.ask(group, table, |parts| {
            parts.average(
                #[inline(always)]
                |mean, sd| mean / (1.0 + sd * sd).sqrt(),
            )
        })
    }

    /// Central intervals that hold `level` of what is believed of the probability of the second class.
    ///
    /// # Errors
    /// As [`predict`](Self::predict); a level that is not between 0 and 1.
    pub fn predict_interval(
        &self,
        group: &ActiveUser<TaskAtom>,
        table: &Table,
        level: f64,
    ) -> Result<Vec<Interval>, HbrecError> {
        if !(level > 0.0 && level < 1.0) {
            return Err(OutOfRange::new("level", level, "between 0 and 1 (both excluded)").into());
        }
        self.ask(group, table, |parts| {
            Interval::central(level, |p| normal_cdf(parts.quantile(p)))
        })
    }

    /// Answers a question to the utility of each row, a mixture of normals.
    fn ask<T: Send>(
        &self,
        group: &ActiveUser<TaskAtom>,
        table: &Table,
        question: impl Fn(&Parts) -> T + Sync,
    ) -> Result<Vec<T>, HbrecError> {
        let rows = standard_rows(&self.scale, table)?;
        let (width, atoms) = (table.n_cols() + 1, self.mixture.atoms());
        if group.weights.len() != atoms.len() || !self.mixture.model().is_valid(&group.alone) {
            let what = "weights of a group (of another fit?)";
            return Err(size(what, group.weights.len(), atoms.len()));
        }
        let all = atoms.iter().zip(group.weights.iter().copied());
        let all = all.chain([(&group.alone, group.own_weight)]);
        let weighted: Vec<(&TaskAtom, f64)> = all.filter(|(_, weight)| *weight > 0.0).collect();
        let answer = |row: &[f64]| {
            let mut parts = Parts::default();
            for (n, &(atom, weight)) in weighted.iter().enumerate() {
                let (mean, variance) = atom.utility(row);
                parts.push(n, [weight, mean, variance.sqrt()]);
            }
            question(&parts)
        };
        Ok(parallel::map(rows.chunks_exact(width), answer))
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    /// Places of one normal are known; of several, so much lies below as was asked; of points alone the place is one of them.
    #[test]
    fn quantiles_have_the_share_below_them() {
        let of = |all: &[[f64; 3]]| {
            let mut parts = Parts::default();
            let pushed = all.iter().enumerate();
            pushed.for_each(|(n, &part)| parts.push(n, part));
            parts
        };
        let one = of(&[[1.0, -2.0, 3.0]]);
        for p in [0.001, 0.05, 0.5, 0.95] {
            let known = -2.0 + 3.0 * normal_quantile(p);
            assert!((one.quantile(p) - known).abs() < 1e-12, "{p}");
        }
        let mut rng = stream(5, [0; 4]);
        for n in [2, 7, 8, 9, 300] {
            let mut draw = |_| [1.0 / n as f64, 6.0 * rng.random::<f64>(), rng.random()];
            let all: Vec<[f64; 3]> = (0..n).map(&mut draw).collect();
            let parts = of(&all);
            for p in [0.01, 0.3, 0.975] {
                let x = parts.quantile(p);
                let terms = all.iter().map(|[w, m, s]| w * normal_cdf((x - m) / s));
                assert!((terms.sum::<f64>() - p).abs() < 1e-12, "{n}, {p}");
            }
            let expected: f64 = all
                .iter()
                .map(|[w, m, s]| w * normal_cdf(m / 1f64.hypot(*s)))
                .sum();
            let found = parts.average(|mean, sd| mean / (1.0 + sd * sd).sqrt());
            assert!((found - expected).abs() < 1e-14);
        }
        let points = of(&[[0.2, 1.0, 0.0], [0.5, 2.0, 0.0], [0.3, 4.0, 0.0]]);
        for (p, place) in [(0.1, 1.0), (0.5, 2.0), (0.9, 4.0)] {
            assert!((points.quantile(p) - place).abs() < 1e-12);
        }
    }

    /// tau is that of groups which the base has not seen, each without its own atom.
    #[test]
    fn tau_is_of_groups_left_out() {
        let mut rng = stream(3, [0; 4]);
        let task = |kind: usize| {
            // Most groups are of two kinds; some are like none.
            let spread = if kind.is_multiple_of(5) { 6.0 } else { 0.1 };
            let slope = [2.0, -2.0][kind % 2] + spread * (rng.random::<f64>() - 0.5);
            let (mut rows, mut second) = (Vec::new(), Vec::new());
            for _ in 0..60 {
                let x = 4.0 * rng.random::<f64>() - 2.0;
                rows.extend([1.0, x]);
                second.push(rng.random::<f64>() < normal_cdf(slope * x));
            }
            Task::new(2, &rows, &second).unwrap()
        };
        const GROUPS: usize = 20;
        let tasks: Vec<Task<bool>> = (0..GROUPS).map(task).collect();
        let data: Vec<&Task<bool>> = tasks.iter().collect();
        let config = GroupedConfig::default();
        let watch = Watch::none();
        let learned = |data: &[&Task<bool>]| {
            let model = ProbitTask::new(start(2).unwrap());
            let run = (&mut watch.part("base", 0.0), &Checkpoint::in_memory([None]));
            let limits = &config.limits;
            let of = (MEAN_PRECISION, model.prior());
            let learned = learn_gaussian_watched(&model, data, of, limits, run);
            learned.unwrap().0
        };
        let settings = crate::WeightsConfig {
            tau: DpConcentration::Given(GROUPS as f64),
            ..config.weights
        };
        let mixture = Mixture::learn(learned(&data), &data, &settings).unwrap();
        let found = left_out_tau(&data, &mixture, &config, &watch).unwrap();

        let mut order: Vec<usize> = (0..GROUPS).collect();
        order.shuffle(&mut stream(config.seed, [0, 0, CHOICE, 0]));
        let fold = |group: usize| order.iter().position(|&g| g == group).unwrap() % FOLDS;
        let (mut rows, mut evidence) = (Vec::new(), Vec::new());
        for group in 0..GROUPS {
            let others = (0..GROUPS).filter(|&other| fold(other) != fold(group));
            let model = learned(&others.map(|other| data[other]).collect::<Vec<_>>());
            let ln_likelihood = |k: usize| {
                let atom = model.atom(&model.fit(data[k]).unwrap(), config.weights.atoms);
                model.ln_likelihood(&atom, data[group])
            };
            rows.push((0..GROUPS).map(ln_likelihood).collect::<Vec<_>>());
            evidence.push(model.ln_evidence(&model.fit(data[group]).unwrap()));
        }
        let own: Vec<Option<usize>> = (0..GROUPS).map(Some).collect();
        let table = LikelihoodTable::new(GROUPS, &rows, &own).unwrap();
        let expected = infer_tau(&table, mixture.weights(), &evidence).unwrap();
        let found = found.unwrap();
        assert!((found / expected - 1.0).abs() < 1e-4, "{found} {expected}");
        assert!(expected > 1e-3 && expected < 1e3, "{expected}");
    }

    /// Six hundred groups of five rows: EM that begins at a sample ends where it does from its own start, and tau is that of all groups as they are.
    #[test]
    fn many_groups_are_asked_as_they_are() {
        let (m, n) = (600, 5);
        let mut rng = stream(4, [0; 4]);
        let cells: Vec<f64> = (0..m * n)
            .map(|_| 3.0 * rng.random::<f64>() - 1.5)
            .collect();
        let slope = |row: usize| {
            if (row / n).is_multiple_of(2) {
                2.0
            } else {
                -2.0
            }
        };
        let second = |row: usize| rng.random::<f64>() < normal_cdf(slope(row) * cells[row]);
        let second: Vec<bool> = (0..m * n).map(second).collect();
        let names: Vec<String> = (0..m * n).map(|row| (row / n).to_string()).collect();
        let names: Vec<_> = names.iter().map(|name| Some(name.as_str())).collect();
        let labels: Vec<_> = second
            .iter()
            .map(|&s| Some(if s { "b" } else { "a" }))
            .collect();
        let (labels, groups) = (Labels::from_strings(&labels), Labels::from_strings(&names));
        let table = Table::complete(m * n, 1, cells).unwrap();
        let config = GroupedConfig::default();
        let fit = fit_groups(&table, &labels, &groups, &config).unwrap();

        let (_, tasks) = tasks_of(&table, &labels, &groups).unwrap();
        let data: Vec<&Task<bool>> = tasks.iter().collect();
        let model = ProbitTask::new(start(2).unwrap());
        let watch = Watch::none();
        let run = (&mut watch.part("base", 0.0), &Checkpoint::in_memory([None]));
        let of = (MEAN_PRECISION, model.prior());
        let own = learn_gaussian_watched(&model, &data, of, &config.limits, run).unwrap();
        let (own, model) = (own.0.prior().clone(), fit.mixture().model());
        for k in 0..2 {
            let far = (own.mean()[k] - model.prior().mean()[k]).abs();
            let ratio = own.covariance()[(k, k)] / model.prior().covariance()[(k, k)];
            assert!(far < 0.01 && (ratio - 1.0).abs() < 0.05, "{far} {ratio}");
        }

        let settings = crate::WeightsConfig {
            tau: DpConcentration::Given(1.0),
            ..config.weights
        };
        let mixture = Mixture::learn(model.clone(), &data, &settings).unwrap();
        let row = |task: &&Task<bool>| -> Vec<f64> {
            let atoms = mixture.atoms().iter();
            atoms.map(|atom| model.ln_likelihood(atom, task)).collect()
        };
        let rows: Vec<Vec<f64>> = data.iter().map(row).collect();
        let own: Vec<Option<usize>> = (0..m).map(Some).collect();
        let table = LikelihoodTable::new(m, &rows, &own).unwrap();
        let evidence = |task: &&Task<bool>| model.ln_evidence(&model.fit(task).unwrap());
        let evidence: Vec<f64> = data.iter().map(evidence).collect();
        let expected = infer_tau(&table, mixture.weights(), &evidence).unwrap();
        let found = fit.mixture().weights().tau;
        assert!((found / expected - 1.0).abs() < 1e-4, "{found} {expected}");
    }
}
