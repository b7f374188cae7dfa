//! The core without items: figure 1 on drawn tasks, and the school data.

use std::io::Read;

use npb_data::read::{self, DelimitedOptions};
use npb_hbrec::{
    AtomRule, DpConcentration, GaussianPrior, LinearTask, Mixture, Task, UserModel, Weights,
    WeightsConfig, learn_gaussian,
};
use npb_infer::{Stop, VbLimits};
use npb_priors::dist::Normal;
use rand::RngExt;

use super::protocol::mean;
use npb_kit::data::sha256_of;
use npb_kit::films::open;
use npb_kit::tables::overview;
use npb_kit::{
    Context, Experiment, Outcome, Panel, Record, Report, Result, Trial, against, lines, summarise,
};

pub(super) const FIG_1: Experiment = Experiment {
    id: "hbrec/fig-1",
    what: "tasks with two coefficients in four clusters: log-likelihood of a new task against its number of observations",
    paper: "figure 1D: a Gaussian prior cannot hold clusters, point masses can",
    data: &[],
    run: fig_1,
};

pub(super) const TASKS: Experiment = Experiment {
    id: "hbrec/tasks",
    what: "school: 139 schools as tasks, the ten given splits, explained variance",
    paper: "not in the chapter",
    data: &["school"],
    run: tasks,
};

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

fn fig_1(context: &Context<'_>) -> Result<Report> {
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

/// Schools: rows of each task, responses, and in which splits a row is for testing.
struct School {
    width: usize,
    task: Vec<usize>,
    x: Vec<f64>,
    y: Vec<f64>,
    test: Vec<Vec<bool>>,
    checksums: String,
}

impl School {
    fn load(context: &Context<'_>) -> Result<Self> {
        let mut checksums = String::new();
        let mut numbers = |name: &str| -> Result<Vec<Vec<f64>>> {
            let path = context.data_file("school", name);
            checksums += &sha256_of(&path)?;
            let mut text = String::new();
            open(&path)?.read_to_string(&mut text)?;
            let table =
                read::delimited_strings(name, text.as_bytes(), &DelimitedOptions::default())?;
            let number = |field: &Option<String>| -> Result<f64> {
                Ok(field.as_deref().unwrap_or("").trim().parse()?)
            };
            table
                .rows
                .iter()
                .map(|row| row.iter().map(number).collect())
                .collect()
        };
        let rows = numbers("school.csv")?;
        let splits = numbers("school_splits.csv")?;
        let n = rows.len() as f64;
        let width = rows.first().map_or(0, Vec::len).saturating_sub(1);
        // Columns 0 and 1 are task and response; a constant takes the place of one of them.
        let column = |k: usize| rows.iter().map(move |row| row[k]);
        let moments: Vec<(f64, f64)> = (2..width + 1)
            .map(|k| {
                let mean = column(k).sum::<f64>() / n;
                let variance = column(k).map(|v| (v - mean).powi(2)).sum::<f64>() / n;
                (mean, variance.sqrt().max(1e-12))
            })
            .collect();
        let standard = |row: &Vec<f64>| -> Vec<f64> {
            let scaled = row[2..]
                .iter()
                .zip(&moments)
                .map(|(v, (mean, sd))| (v - mean) / sd);
            std::iter::once(1.0).chain(scaled).collect()
        };
        Ok(Self {
            width,
            task: rows.iter().map(|row| row[0] as usize - 1).collect(),
            x: rows.iter().flat_map(standard).collect(),
            y: rows.iter().map(|row| row[1]).collect(),
            test: splits
                .iter()
                .map(|row| row.iter().map(|&v| v == 1.0).collect())
                .collect(),
            checksums,
        })
    }

    /// Rows of each task, for training or for testing.
    fn rows(&self, split: usize, test: bool) -> Vec<Vec<usize>> {
        let n_tasks = self.task.iter().max().map_or(0, |t| t + 1);
        let mut rows = vec![Vec::new(); n_tasks];
        for (i, &task) in self
            .task
            .iter()
            .enumerate()
            .filter(|(i, _)| self.test[*i][split] == test)
        {
            rows[task].push(i);
        }
        rows
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.x[i * self.width..(i + 1) * self.width]
    }
}

fn tasks(context: &Context<'_>) -> Result<Report> {
    let school = School::load(context)?;
    let (splits, n_tasks) = context.scale.smoke_or((1, 10), (10, usize::MAX));
    let config = format!("{} {n_tasks}", school.checksums);
    let of_prior = |prior: Prior| Trial::runs(splits, ["school", "", prior.name()], &config, prior);
    let trials: Vec<Trial<Prior>> = PRIORS.into_iter().flat_map(of_prior).collect();
    let records = context.run_trials(&trials, |trial, _| {
        explained(&school, trial.work, trial.trial as usize, n_tasks)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![overview("School", &results, "explained_variance rmse seconds")],
        results,
        notes: vec!["Explained variance: 1 less the mean squared error over all test rows, divided by the variance of their responses. Noise variance: that of the residuals of one regression for all tasks, on training rows; alone: coefficients N(0, variance of the responses / number of features).".to_owned()],
        ..Default::default()
    })
}

fn explained(school: &School, prior: Prior, split: usize, n_tasks: usize) -> Result<Outcome> {
    let mut train = school.rows(split, false);
    let mut test = school.rows(split, true);
    train.truncate(n_tasks);
    test.truncate(n_tasks);
    let known: Vec<f64> = train.iter().flatten().map(|&i| school.y[i]).collect();
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
            let x: Vec<f64> = rows.iter().flat_map(|&i| school.row(i)).copied().collect();
            let y: Vec<f64> = rows.iter().map(|&i| school.y[i] - centre).collect();
            Ok(Task::new(school.width, &x, &y)?)
        })
        .collect::<Result<Vec<_>>>()?;
    let data: Vec<&Task<f64>> = data.iter().collect();
    let model = |noise: f64| -> Result<LinearTask> {
        let base = GaussianPrior::isotropic(school.width, variance / school.width as f64)?;
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
            let predicted = centre + mixture.predict(&active, school.row(i));
            errors.push((school.y[i] - predicted).powi(2));
            responses.push(school.y[i]);
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
