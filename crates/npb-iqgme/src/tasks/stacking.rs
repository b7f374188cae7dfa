//! Votes of runs by how well they foretell labels that they were not told: see [`crate::stacking`].

use std::ops::ControlFlow;

use npb_data::{Labels, Table};

use super::config::{TaskStart, TasksConfig};
use super::data::{MultiTaskData, Task, TrainingTasks};
use super::run::{TaskRun, plan};
use super::vb::MultiTaskVb;
use crate::IqgmeError;
use crate::config::IqgmeConfig;
use crate::files::FoldFiles;
use crate::runs::run_all;
use crate::scales::{self, Planned};
use crate::stacking::{self, Side, Votes, shares_seen};
use crate::units::Units;

/// Iterations of a run without a fold, at most: tasks settle among each other later than the rows of one task.
const ITERATIONS: u64 = 30;

/// Standard errors by which a run must foretell worse than the best one to be left out.
const CLEARLY: f64 = 3.0;

/// Votes of the runs for predictions, in the order in which they are made, `training` being of these tasks; none when there are too few labels, or folds are not wanted. `files`: where what they foretell is kept from
/// fold to fold, if it is.
pub(super) fn votes(
    tasks: &[Task<'_>],
    training: &TrainingTasks,
    config: &TasksConfig,
    files: Option<&FoldFiles<'_, TasksConfig>>,
) -> Result<Option<Votes>, IqgmeError> {
    let single = &config.single;
    let data = &training.data.own.pooled;
    let runs = plan(training, config);
    let n_runs = runs.len() * single.restarts;
    let labels: Vec<&Labels> = tasks.iter().map(|task| task.labels).collect();
    let foretold = |sides: &[Side]| {
        let fold = Fold::new(tasks, config, sides, training.scores.is_some())?;
        run_all(&runs, single.restarts, |_, planned, restart| {
            fold.foretold(config, planned, restart)
        })
    };
    let (n_folds, seed) = (single.folds, single.seed);
    let sizes = [n_folds, n_runs];
    let shares = |task: &Task<'_>| shares_seen(task.table, &data.active);
    let shares: Vec<Vec<f64>> = tasks.iter().map(shares).collect();
    let classes = &data.classes;
    let foretold = stacking::foretell(&labels, &shares, classes, sizes, seed, files, foretold)?;
    let n_own = config.starts.len() * single.restarts;
    Ok(foretold.map(|foretold| {
        stacking::votes(&foretold, stacking::put_right, |by_run| {
            stacking::by_scale(by_run, n_own, |places| among_the_best(&by_run[places]))
        })
    }))
}

/// Weights of the runs that do not foretell clearly worse than the best one; nothing for the others. An average makes use of any run whose errors are others, but runs
/// that share what tasks do not have in common are too sure of themselves, each time of something else, and the labels that are left out do not show it.
fn among_the_best(by_run: &[Vec<f64>]) -> Vec<f64> {
    let ln = |p: &f64| p.max(f64::MIN_POSITIVE).ln();
    let total = |run: &Vec<f64>| run.iter().map(ln).sum::<f64>();
    let mut best = &by_run[0];
    for run in &by_run[1..] {
        if total(run) > total(best) {
            best = run;
        }
    }
    let n = best.len() as f64;
    let worse = |run: &Vec<f64>| {
        let by: Vec<f64> = best.iter().zip(run).map(|(b, r)| ln(b) - ln(r)).collect();
        let mean = by.iter().sum::<f64>() / n;
        let variance = by.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / n;
        mean > CLEARLY * (variance / n).sqrt()
    };
    let kept: Vec<bool> = by_run.iter().map(|run| !worse(run)).collect();
    let chosen: Vec<&Vec<f64>> = by_run
        .iter()
        .zip(&kept)
        .filter(|k| *k.1)
        .map(|k| k.0)
        .collect();
    // The bound says who shares rows, not who shares labels: even where labels are few.
    let even = vec![1.0 / chosen.len() as f64; chosen.len()];
    let mut weights = stacking::stack(&chosen, &even).into_iter();
    let weight = |kept: &bool| {
        let weight = kept.then(|| weights.next());
        weight.flatten().unwrap_or(0.0)
    };
    kept.iter().map(weight).collect()
}

/// Data without the rows of a fold, and these.
struct Fold {
    training: TrainingTasks,
    left_out: Vec<Table>,
}

impl Fold {
    /// `scored`: whether there are runs on normal scores.
    fn new(
        tasks: &[Task<'_>],
        config: &TasksConfig,
        sides: &[Side],
        scored: bool,
    ) -> Result<Self, IqgmeError> {
        let part = |task: &Task<'_>, rows: &[usize]| {
            (task.table.select_rows(rows), task.labels.select_rows(rows))
        };
        let each = || tasks.iter().zip(sides);
        let kept: Vec<(Table, Labels)> = each().map(|(t, s)| part(t, &s.kept)).collect();
        let kept = tasks.iter().zip(&kept).map(|(task, (table, labels))| Task {
            name: task.name,
            table,
            labels,
        });
        let kept: Vec<Task<'_>> = kept.collect();
        let own = MultiTaskData::new(&kept, config)?;
        Ok(Self {
            training: TrainingTasks::with(own, scored, |own| MultiTaskData::on_scores(&kept, own))?,
            left_out: each()
                .map(|(task, side)| task.table.select_rows(&side.left_out))
                .collect(),
        })
    }

    /// Probabilities of the classes, row by row, by a run that was told neither row nor class.
    fn foretold(
        &self,
        config: &TasksConfig,
        planned: Planned<TaskStart>,
        restart: u64,
    ) -> Result<Vec<f64>, IqgmeError> {
        let limited = TasksConfig {
            single: IqgmeConfig {
                max_iterations: config.single.max_iterations.min(ITERATIONS),
                ..config.single.clone()
            },
            ..config.clone()
        };
        let data = self.training.data.on(planned.scale);
        let mut vb = MultiTaskVb::new(data, limited, planned.start, restart)?;
        let outcome = vb.run(|_, _| ControlFlow::Continue(()))?;
        let run = TaskRun::new(planned, outcome, vb)?;
        let predictor = run.predictor()?;
        let units = Units::of(&self.training.data.own.pooled);
        let mut foretold = Vec::new();
        for (j, table) in self.left_out.iter().enumerate() {
            let rows = scales::rows_left_out(&units, self.training.scores.as_ref(), table)?;
            let rows = rows.on(planned.scale);
            let by_row = run.probabilities(&predictor, j, rows)?;
            foretold.extend(by_row.into_iter().flatten());
        }
        Ok(foretold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_clearly_worse_has_no_weight_and_one_that_errs_elsewhere_has_some() {
        let half = |first: f64, second: f64| -> Vec<f64> {
            (0..60)
                .map(|i| if i < 30 { first } else { second })
                .collect()
        };
        let (good, other, poor) = (half(0.9, 0.6), half(0.58, 0.9), half(0.9, 0.05));
        let weights = among_the_best(&[poor.clone(), good.clone(), other]);
        assert_eq!(weights[0], 0.0);
        assert!(weights[1] > 0.2 && weights[2] > 0.2, "{weights:?}");
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // Runs that foretell the same stay, and a few labels show nothing clearly.
        assert!(among_the_best(&[good.clone(), good])[1] > 0.4);
        let few = among_the_best(&[vec![0.9, 0.8, 0.3], vec![0.2, 0.9, 0.4]]);
        assert!(few.iter().all(|w| *w > 0.0), "{few:?}");
    }
}
