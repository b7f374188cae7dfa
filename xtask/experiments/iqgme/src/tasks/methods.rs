//! What is compared on many tasks.

use npb_baselines::{
    BoostedTrees, BoostedTreesConfig, ClusteredConfig, ClusteredLogistic, GaussianConfig,
    GaussianImputer, MeanImputer, SharedStructure, Sharing, StructureConfig, TaskLogistic,
    TaskLogisticConfig,
};
use npb_data::{Labels, Table};
use npb_iqgme::{IqgmeConfig, MultiTaskFit, Task, TasksConfig, fit_tasks};

use super::data::{Problem, TaskSides, stacked};
use npb_kit::Result;

/// The method that the others are compared with.
pub(super) const OURS: &str = "npb:iqgme-mtl";

/// Fills of the comparators that need complete rows.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fill {
    /// There is nothing to fill.
    None,
    Mean,
    Gaussian,
}

/// The weight of the data against the penalty, of logistic regressions and of shared structure.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Penalty {
    /// 1, the default of scikit-learn.
    Usual,
    /// Chosen by five folds of the training rows, from [`CANDIDATES`].
    Tuned,
}

const CANDIDATES: [f64; 5] = [0.001, 0.01, 0.1, 1.0, 10.0];

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Method {
    /// One model of all tasks.
    Together,
    /// Each task its own model.
    Apart,
    /// Logistic regressions clustered by a Dirichlet process (LR-MTL).
    Clustered(Fill),
    Single(Penalty, Fill),
    Pooled(Penalty, Fill),
    SharedAndOwn(Penalty, Fill),
    /// Alternating structure optimisation.
    Structure(Penalty, Fill),
    /// Boosted trees with a task column and native holes.
    Trees,
    /// One regression for each ground, which the others are not told.
    Ground,
}

/// Every method with its name in `results.csv`.
pub(super) const METHODS: [(&str, Method); 25] = {
    use Method::{
        Apart, Clustered, Ground, Pooled, SharedAndOwn, Single, Structure, Together, Trees,
    };
    use Penalty::{Tuned, Usual};
    [
        (OURS, Together),
        ("npb:iqgme", Apart),
        ("lr-mtl", Clustered(Fill::None)),
        ("lr-mtl+mean", Clustered(Fill::Mean)),
        ("lr-mtl+gaussian", Clustered(Fill::Gaussian)),
        ("lr-stl", Single(Usual, Fill::None)),
        ("lr-stl+gaussian", Single(Usual, Fill::Gaussian)),
        ("lr-stl-tuned", Single(Tuned, Fill::None)),
        ("lr-stl-tuned+gaussian", Single(Tuned, Fill::Gaussian)),
        ("lr-pooled", Pooled(Usual, Fill::None)),
        ("lr-pooled+gaussian", Pooled(Usual, Fill::Gaussian)),
        ("lr-pooled-tuned", Pooled(Tuned, Fill::None)),
        ("lr-pooled-tuned+gaussian", Pooled(Tuned, Fill::Gaussian)),
        ("lr-shared", SharedAndOwn(Usual, Fill::None)),
        ("lr-shared+gaussian", SharedAndOwn(Usual, Fill::Gaussian)),
        ("lr-shared-tuned", SharedAndOwn(Tuned, Fill::None)),
        (
            "lr-shared-tuned+gaussian",
            SharedAndOwn(Tuned, Fill::Gaussian),
        ),
        ("structure", Structure(Usual, Fill::None)),
        ("structure+mean", Structure(Usual, Fill::Mean)),
        ("structure+gaussian", Structure(Usual, Fill::Gaussian)),
        ("structure-tuned", Structure(Tuned, Fill::None)),
        ("structure-tuned+mean", Structure(Tuned, Fill::Mean)),
        ("structure-tuned+gaussian", Structure(Tuned, Fill::Gaussian)),
        ("trees", Trees),
        ("lr-type (told the ground)", Ground),
    ]
};

/// Fills the holes of any rows as was learnt from the training rows.
type Filler = Box<dyn Fn(&Table) -> Result<Table>>;

impl Method {
    /// Whether the method is made for rows with, or without, holes.
    pub(super) fn takes(self, holes: bool) -> bool {
        match self {
            Self::Together | Self::Apart | Self::Trees => true,
            Self::Ground => !holes,
            Self::Clustered(fill)
            | Self::Single(_, fill)
            | Self::Pooled(_, fill)
            | Self::SharedAndOwn(_, fill)
            | Self::Structure(_, fill) => (fill != Fill::None) == holes,
        }
    }

    fn fill(self) -> Fill {
        match self {
            Self::Clustered(fill)
            | Self::Single(_, fill)
            | Self::Pooled(_, fill)
            | Self::SharedAndOwn(_, fill)
            | Self::Structure(_, fill) => fill,
            Self::Together | Self::Apart | Self::Trees | Self::Ground => Fill::None,
        }
    }

    /// Everything that a method's outcome depends on besides data and seed.
    pub(super) fn configuration(self) -> String {
        let settings = match self {
            Self::Together => format!("{:?}", TasksConfig::default()),
            Self::Apart => format!("{:?}", IqgmeConfig::default()),
            Self::Clustered(_) => format!("{:?}", ClusteredConfig::default()),
            Self::Structure(Penalty::Usual, _) => format!("{:?}", structure(usize::MAX)),
            Self::Structure(Penalty::Tuned, _) => {
                format!(
                    "{:?}\n{:?} by AUC",
                    structure(usize::MAX),
                    structures(usize::MAX)
                )
            }
            Self::Trees => format!("{:?}", BoostedTreesConfig::default()),
            Self::Single(Penalty::Usual, _)
            | Self::Pooled(Penalty::Usual, _)
            | Self::SharedAndOwn(Penalty::Usual, _)
            | Self::Ground => {
                format!("{:?}", TaskLogisticConfig::default())
            }
            Self::Single(Penalty::Tuned, _)
            | Self::Pooled(Penalty::Tuned, _)
            | Self::SharedAndOwn(Penalty::Tuned, _) => {
                format!("{:?}\n{CANDIDATES:?}", TaskLogisticConfig::default())
            }
        };
        let fill = match self.fill() {
            Fill::None => String::new(),
            Fill::Mean => "mean".to_owned(),
            Fill::Gaussian => format!("{:?}", GaussianConfig::default()),
        };
        format!("{settings}\n{fill}")
    }

    /// Scores of the positive class for the test rows of every task.
    pub(super) fn scores(self, problem: &Problem, seed: u64) -> Result<Vec<Vec<f64>>> {
        match self {
            Self::Together => {
                let fit = together(problem, seed)?;
                let scores = |task: &TaskSides| Ok(fit.predict_proba(&task.name, &task.test)?);
                problem.tasks.iter().map(scores).collect()
            }
            Self::Apart => problem.tasks.iter().map(|task| apart(task, seed)).collect(),
            _ => self.comparator(problem),
        }
    }

    fn comparator(self, problem: &Problem) -> Result<Vec<Vec<f64>>> {
        let trains: Vec<Table> = problem.tasks.iter().map(|t| t.train.clone()).collect();
        let train = stacked(&trains)?;
        let fill: Filler = match self.fill() {
            Fill::None => Box::new(|table: &Table| Ok(table.clone())),
            Fill::Mean => {
                let imputer = MeanImputer::fit(&train)?;
                Box::new(move |table: &Table| Ok(imputer.transform(table)?))
            }
            Fill::Gaussian => {
                let imputer = GaussianImputer::fit(&train, &GaussianConfig::default())?;
                Box::new(move |table: &Table| Ok(imputer.transform(table)?))
            }
        };
        let train = fill(&train)?;
        let labels: Vec<bool> = problem
            .tasks
            .iter()
            .flat_map(|task| task.train_positive.iter().copied())
            .collect();
        let number = |j: usize| match self {
            Self::Ground => problem.tasks[j].ground,
            _ => j,
        };
        let numbers: Vec<usize> = (0..problem.tasks.len())
            .flat_map(|j| vec![number(j); problem.tasks[j].train.n_rows()])
            .collect();
        let score = self.fitted(&train, &numbers, &labels)?;
        let scores = |(j, task): (usize, &TaskSides)| {
            let test = fill(&task.test)?;
            score(&test, &vec![number(j); test.n_rows()])
        };
        problem.tasks.iter().enumerate().map(scores).collect()
    }

    fn fitted(self, train: &Table, tasks: &[usize], labels: &[bool]) -> Result<Score> {
        let logistic = |sharing, penalty| -> Result<Score> {
            let config = TaskLogisticConfig {
                sharing,
                ..Default::default()
            };
            let candidates: &[f64] = match penalty {
                Penalty::Usual => &[],
                Penalty::Tuned => &CANDIDATES,
            };
            let model = TaskLogistic::fit_tuned(train, tasks, labels, &config, candidates)?;
            Ok(Box::new(move |table: &Table, tasks: &[usize]| {
                Ok(model.decision(table, tasks)?)
            }))
        };
        match self {
            Self::Single(penalty, _) => logistic(Sharing::Single, penalty),
            Self::Ground => logistic(Sharing::Single, Penalty::Usual),
            Self::Pooled(penalty, _) => logistic(Sharing::Pooled, penalty),
            Self::SharedAndOwn(penalty, _) => {
                logistic(Sharing::SharedAndOwn { shared: 1.0 }, penalty)
            }
            Self::Clustered(_) => {
                let config = ClusteredConfig::default();
                let model = ClusteredLogistic::fit(train, tasks, labels, &config)?;
                Ok(Box::new(move |table: &Table, tasks: &[usize]| {
                    Ok(model.probability(table, tasks)?)
                }))
            }
            Self::Structure(penalty, _) => {
                let config = structure(train.n_cols());
                let candidates = match penalty {
                    Penalty::Usual => Vec::new(),
                    Penalty::Tuned => structures(train.n_cols()),
                };
                let model = SharedStructure::fit_tuned(train, tasks, labels, &config, &candidates)?;
                Ok(Box::new(move |table: &Table, tasks: &[usize]| {
                    Ok(model.decision(table, tasks)?)
                }))
            }
            Self::Trees => {
                let config = BoostedTreesConfig::default();
                let model = BoostedTrees::fit(train, Some(tasks), labels, &config)?;
                Ok(Box::new(move |table: &Table, tasks: &[usize]| {
                    Ok(model.probability(table, Some(tasks))?)
                }))
            }
            Self::Together | Self::Apart => Err("not a comparator".into()),
        }
    }
}

/// Scores of rows (complete or not) of given tasks.
type Score = Box<dyn Fn(&Table, &[usize]) -> Result<Vec<f64>>>;

/// Dimensions as in W: 5 of 9 on landmine, 50 of 128 on letters.
fn structure(n_features: usize) -> StructureConfig {
    StructureConfig {
        dimension: if n_features < 50 { 5 } else { 50 },
        ..Default::default()
    }
}

/// Dimensions and weights of the data to choose from, by five folds of the training rows.
fn structures(n_features: usize) -> Vec<(usize, f64)> {
    let dimensions = [1, 2, structure(n_features).dimension];
    let pair = |h: usize| CANDIDATES.map(|c| (h, c));
    dimensions.into_iter().flat_map(pair).collect()
}

fn labels(positive: &[bool]) -> Labels {
    let name = |&p: &bool| Some(if p { "positive" } else { "negative" });
    Labels::from_strings(&positive.iter().map(name).collect::<Vec<_>>())
}

/// Our fit of all tasks; the second class is the positive one.
pub(super) fn together(problem: &Problem, seed: u64) -> Result<MultiTaskFit> {
    let labels: Vec<Labels> = problem
        .tasks
        .iter()
        .map(|task| labels(&task.train_positive))
        .collect();
    let tasks: Vec<Task<'_>> = problem
        .tasks
        .iter()
        .zip(&labels)
        .map(|(task, labels)| Task {
            name: &task.name,
            table: &task.train,
            labels,
        })
        .collect();
    let mut config = TasksConfig::default();
    config.single.seed = seed;
    Ok(fit_tasks(&tasks, &config)?)
}

/// A task of one class cannot be fitted alone: its scores are all alike.
fn apart(task: &TaskSides, seed: u64) -> Result<Vec<f64>> {
    if task.train_positive.iter().all(|&p| p) || task.train_positive.iter().all(|&p| !p) {
        return Ok(vec![0.5; task.test.n_rows()]);
    }
    let config = IqgmeConfig {
        seed,
        ..Default::default()
    };
    let fit = npb_iqgme::fit(&task.train, &labels(&task.train_positive), &config)?;
    Ok(fit.predict_proba(&task.test)?)
}
