//! The core without items: figure 1 on drawn tasks, and the school data.

use npb_data::{Split, Table};
use npb_hbrec::{
    AtomRule, DpConcentration, GaussianPrior, LinearTask, Mixture, Task, UserModel, Weights,
    WeightsConfig, learn_gaussian,
};
use npb_infer::{Stop, VbLimits};
use npb_priors::dist::Normal;
use rand::RngExt;

use super::protocol::mean;
use npb_kit::school::{Pupils, School};
use npb_kit::tables::overview;
use npb_kit::{Context, Outcome, Panel, Record, Report, Result, Trial, against, lines, summarise};

type Tasks = Mixture<LinearTask>;

/// What is thought of a new task before its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prior {
    /// One parameter for all.
    Global,
    /// Each alone.
    Alone,
    /// A Gaussian by EM: parametric hierarchical Bayes.
    Gaussian,
    /// Point masses of equal weight, (2) of T.
    Empirical,
    /// The Dirichlet process around a standard Gaussian, (14) of T.
    Enhanced,
    /// The same around the learned Gaussian.
    EnhancedLearned,
}

const PRIORS: [Prior; 6] = [
    Prior::Global,
    Prior::Alone,
    Prior::Gaussian,
    Prior::Empirical,
    Prior::Enhanced,
    Prior::EnhancedLearned,
];

impl Prior {
    fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Alone => "alone",
            Self::Gaussian => "npb:hbrec/gaussian",
            Self::Empirical => "npb:hbrec/empirical",
            Self::Enhanced => "npb:hbrec/standard",
            Self::EnhancedLearned => "npb:hbrec",
        }
    }

    fn learn(self, model: &LinearTask, data: &[&Task<f64>]) -> Result<Tasks> {
        let no_atoms = |model| mixture(model, Vec::new(), f64::INFINITY);
        let gaussian = || Ok::<_, npb_hbrec::HbrecError>(learn_gaussian(model, data, &LIMITS)?.0);
        let empirical = WeightsConfig {
            atoms: AtomRule::Map,
            tau: DpConcentration::Given(0.0),
            fitted: false,
            ..Default::default()
        };
        match self {
            Self::Global => {
                let all: Vec<(&Task<f64>, f64)> = data.iter().map(|&task| (task, 1.0)).collect();
                let atom = model.atom(&model.fit_weighted(&all)?, AtomRule::Map);
                mixture(model.clone(), vec![atom], 0.0)
            }
            Self::Alone => no_atoms(model.clone()),
            Self::Gaussian => no_atoms(gaussian()?),
            Self::Empirical => Ok(Mixture::learn(model.clone(), data, &empirical)?),
            Self::Enhanced => Ok(Mixture::learn(
                model.clone(),
                data,
                &WeightsConfig::default(),
            )?),
            Self::EnhancedLearned => Ok(Mixture::learn(
                gaussian()?,
                data,
                &WeightsConfig::default(),
            )?),
        }
    }
}

const LIMITS: VbLimits = VbLimits {
    max_iterations: 100,
    tolerance: 1e-6,
};

fn mixture(model: LinearTask, atoms: Vec<Vec<f64>>, tau: f64) -> Result<Tasks> {
    let weights = Weights {
        xi: vec![1.0; atoms.len()],
        tau,
        fitted_to: Vec::new(),
        trace: Vec::new(),
        stop: Stop::Completed,
    };
    Ok(Mixture::from_parts(
        model,
        atoms,
        weights,
        WeightsConfig::default(),
    )?)
}

/// Tasks `y = x'w + e` with w near one of four points.
#[derive(Clone, Copy, Debug)]
struct World {
    users: usize,
    rows: usize,
    new: usize,
}

const GIVEN: [usize; 6] = [0, 1, 2, 4, 8, 16];
const TEST_ROWS: usize = 20;
const NOISE: f64 = 1.0;
/// Last word of the keys of tasks.
const TASK: u64 = 76;

impl World {
    fn task(self, number: u64, rows: usize, seed: u64) -> Result<(Vec<f64>, Vec<f64>)> {
        let standard = Normal::new(0.0, 1.0)?;
        let rng = &mut npb_infer::stream(seed, [number, 0, 0, TASK]);
        let angle = std::f64::consts::FRAC_PI_2 * f64::from(rng.random_range(0..4_u8));
        let w = [
            3.0 * angle.cos() + 0.2 * standard.sample(rng),
            3.0 * angle.sin() + 0.2 * standard.sample(rng),
        ];
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            let row = [standard.sample(rng), standard.sample(rng)];
            y.push(row[0] * w[0] + row[1] * w[1] + NOISE.sqrt() * standard.sample(rng));
            x.extend(row);
        }
        Ok((x, y))
    }
}

pub(super) fn fig_1(context: &Context<'_>) -> Result<Report> {
    let world = |users, rows, new| World { users, rows, new };
    let (world, repeats) = context.scale.pick(
        (world(20, 10, 5), 1),
        (world(100, 20, 100), 5),
        (world(100, 20, 200), 20),
    );
    let config = format!("{world:?}");
    let of_prior =
        |prior: Prior| Trial::runs(repeats, ["simulated", "", prior.name()], &config, prior);
    let trials: Vec<Trial<Prior>> = PRIORS.into_iter().flat_map(of_prior).collect();
    let records = context.run_trials(&trials, |trial, seed| new_tasks(world, trial.work, seed))?;
    let records = by_number(&records);
    let results = summarise(&records, |_, _, _, _| None);
    let panel = Panel::of_lines(
        "",
        [
            "observations of the new task",
            "mean ln density of another one",
        ],
        against(&results, "ln_likelihood", "n"),
    );
    let caption = "Coefficients lie near four points on a circle of radius 3, which no Gaussian can say. Bars: standard deviations over worlds.";
    Ok(Report {
        tables: vec![overview("New tasks", &results, "ln_likelihood")],
        figures: vec![lines(
            "new-task",
            "Log-likelihood of a new task",
            caption,
            &[panel],
        )?],
        results,
        notes: vec![format!(
            "{} tasks of {} observations; noise of variance {NOISE}. alone: N(0, 5 I).",
            world.users, world.rows
        )],
    })
}

fn new_tasks(world: World, prior: Prior, seed: u64) -> Result<Outcome> {
    let model = LinearTask::new(GaussianPrior::isotropic(2, 5.0)?, NOISE)?;
    let task = |number: usize| {
        let (x, y) = world.task(number as u64, world.rows, seed)?;
        Ok(Task::new(2, &x, &y)?)
    };
    let database = (0..world.users).map(task).collect::<Result<Vec<_>>>()?;
    let mixture = prior.learn(&model, &database.iter().collect::<Vec<_>>())?;
    let most = GIVEN[GIVEN.len() - 1];
    let mut sums = vec![Vec::new(); GIVEN.len()];
    for new in 0..world.new {
        let (x, y) = world.task((1 << 32) + new as u64, most + TEST_ROWS, seed)?;
        for (&n, sums) in GIVEN.iter().zip(&mut sums) {
            let before = mixture
                .user(&Task::new(2, &x[..2 * n], &y[..n])?)?
                .ln_evidence;
            for test in most..most + TEST_ROWS {
                let rows = [&x[..2 * n], &x[2 * test..2 * test + 2]].concat();
                let with = Task::new(2, &rows, &[&y[..n], &y[test..=test]].concat())?;
                sums.push(mixture.user(&with)?.ln_evidence - before);
            }
        }
    }
    let mut outcome = Outcome::default();
    for (n, terms) in GIVEN.iter().zip(&sums) {
        outcome.metrics.insert(format!("n={n}"), mean(terms));
    }
    Ok(outcome)
}

/// One record for each number of observations.
fn by_number(records: &[Record]) -> Vec<Record> {
    let split = |record: &Record| {
        let numbers = record
            .outcome
            .metrics
            .iter()
            .filter(|m| m.0.starts_with("n="));
        let one = |(n, value): (&String, &f64)| {
            let mut key = record.key.clone();
            key.setting = n.clone();
            Record {
                key,
                outcome: Outcome::metrics([("ln_likelihood", *value)]),
            }
        };
        numbers.map(one).collect::<Vec<_>>()
    };
    records.iter().flat_map(split).collect()
}

/// Inputs of each pupil, standardised over all pupils, behind a constant.
fn with_constant(inputs: &Table) -> Vec<Vec<f64>> {
    let n = inputs.n_rows();
    let column = |k: usize| (0..n).map(move |i| inputs.row(i)[k]);
    let moments = |k: usize| {
        let mean = column(k).sum::<f64>() / n as f64;
        let variance = column(k).map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
        (mean, variance.sqrt().max(1e-12))
    };
    let moments: Vec<(f64, f64)> = (0..inputs.n_cols()).map(moments).collect();
    let standard = |i: usize| {
        let values = inputs.row(i).iter().zip(&moments);
        let scaled = values.map(|(v, (mean, sd))| (v - mean) / sd);
        std::iter::once(1.0).chain(scaled).collect()
    };
    (0..n).map(standard).collect()
}

/// Rows of each of the first tasks, among these rows.
fn by_task(pupils: &Pupils, among: &[usize], n_tasks: usize) -> Vec<Vec<usize>> {
    let mut rows = vec![Vec::new(); pupils.n_schools()];
    among.iter().for_each(|&i| rows[pupils.schools[i]].push(i));
    rows.truncate(n_tasks);
    rows
}

pub(super) fn tasks(context: &Context<'_>) -> Result<Report> {
    let school = School::load(context, usize::MAX)?;
    let x = with_constant(&school.pupils.inputs);
    let (splits, n_tasks) = context.scale.smoke_or((1, 10), (10, usize::MAX));
    let config = format!("{} {n_tasks}", school.checksums);
    let of_prior = |prior: Prior| Trial::runs(splits, ["school", "", prior.name()], &config, prior);
    let trials: Vec<Trial<Prior>> = PRIORS.into_iter().flat_map(of_prior).collect();
    let records = context.run_trials(&trials, |trial, _| {
        let Split { train, test } = &school.splits[trial.trial as usize];
        let sides = [train, test].map(|side| by_task(&school.pupils, side, n_tasks));
        explained(&x, &school.pupils.scores, trial.work, &sides)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![overview("School", &results, "explained_variance rmse seconds")],
        results,
        notes: vec!["Explained variance: 1 less the mean squared error over all test rows, divided by the variance of their responses. Noise variance: that of the residuals of one regression for all tasks, on training rows; alone: coefficients N(0, variance of the responses / number of features).".to_owned()],
        ..Default::default()
    })
}

/// What is explained of the responses `y` in the second rows of each task, the first ones given.
fn explained(
    x: &[Vec<f64>],
    y: &[f64],
    prior: Prior,
    [train, test]: &[Vec<Vec<usize>>; 2],
) -> Result<Outcome> {
    let width = x[0].len();
    let known: Vec<f64> = train.iter().flatten().map(|&i| y[i]).collect();
    let centre = mean(&known);
    let variance = mean(
        &known
            .iter()
            .map(|y| (y - centre).powi(2))
            .collect::<Vec<_>>(),
    );
    let data = train
        .iter()
        .map(|rows| {
            let x: Vec<f64> = rows.iter().flat_map(|&i| &x[i]).copied().collect();
            let y: Vec<f64> = rows.iter().map(|&i| y[i] - centre).collect();
            Ok(Task::new(width, &x, &y)?)
        })
        .collect::<Result<Vec<_>>>()?;
    let data: Vec<&Task<f64>> = data.iter().collect();
    let model = |noise: f64| -> Result<LinearTask> {
        let base = GaussianPrior::isotropic(width, variance / width as f64)?;
        Ok(LinearTask::new(base, noise)?)
    };
    let pooled = model(variance)?;
    let all: Vec<(&Task<f64>, f64)> = data.iter().map(|&task| (task, 1.0)).collect();
    let one = pooled.fit_weighted(&all)?;
    let residuals = data
        .iter()
        .flat_map(|task| task.iter())
        .map(|(x, y)| (y - pooled.predict_alone(&one, x)).powi(2));
    let residuals: Vec<f64> = residuals.collect();
    let mixture = prior.learn(&model(mean(&residuals))?, &data)?;
    let own_atoms = mixture.atoms().len() == data.len();
    let (mut errors, mut responses) = (Vec::new(), Vec::new());
    for (task, rows) in test.iter().enumerate() {
        let active = if own_atoms {
            mixture.database_user(data[task], task)?
        } else {
            mixture.user(data[task])?
        };
        for &i in rows {
            let predicted = centre + mixture.predict(&active, &x[i]);
            errors.push((y[i] - predicted).powi(2));
            responses.push(y[i]);
        }
    }
    let level = mean(&responses);
    let spread = mean(
        &responses
            .iter()
            .map(|y| (y - level).powi(2))
            .collect::<Vec<_>>(),
    );
    Ok(Outcome::metrics([
        ("explained_variance", 1.0 - mean(&errors) / spread),
        ("rmse", mean(&errors).sqrt()),
    ]))
}
