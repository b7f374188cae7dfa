//! Weights of runs by how well they foretell labels that they were not told: see [`crate::stacking`].

use std::ops::ControlFlow;

use npb_data::{Labels, Table};
use npb_infer::stream;

use super::config::TasksConfig;
use super::data::{MultiTaskData, Task};
use super::fit::{TaskRun, rows_of};
use super::vb::MultiTaskVb;
use crate::IqgmeError;
use crate::config::IqgmeConfig;
use crate::stacking::{deal, foretold_by_runs, stack};

/// Key of the random stream that deals rows to folds.
const FOLDS: u64 = 17;
/// Iterations of a run without a fold, at most: what it foretells is settled before its bound is.
const ITERATIONS: u64 = 30;

/// Weights of the runs for predictions, in the order in which they are made; none when there is one run, or too few labels, or folds are not wanted.
pub(super) fn weights(
    tasks: &[Task<'_>],
    config: &TasksConfig,
) -> Result<Option<Vec<f64>>, IqgmeError> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for task in tasks {
        for (class, n) in task.labels.classes().iter().zip(task.labels.counts()) {
            match counts.iter_mut().find(|(name, _)| name == class) {
                Some((_, sum)) => *sum += n,
                None => counts.push((class, n)),
            }
        }
    }
    let least = counts.iter().map(|(_, n)| *n).min().unwrap_or(0);
    let n_folds = config.folds.min(least);
    let n_runs = config.starts.len() * config.single.restarts;
    if n_runs < 2 || n_folds < 2 {
        return Ok(None);
    }
    let mut rng = stream(config.single.seed, [0, 0, FOLDS, 0]);
    let folds = deal(tasks.iter().map(|task| task.labels), n_folds, &mut rng);
    let sides: Vec<Fold> = (0..n_folds)
        .map(|fold| Fold::new(tasks, config, &folds, fold))
        .collect::<Result<_, _>>()?;
    let by_run = foretold_by_runs(n_folds, n_runs, |fold, run| {
        sides[fold].foretold(config, run)
    })?;
    Ok(Some(stack(&by_run)))
}

/// Data without the rows of a fold, and these.
struct Fold {
    data: MultiTaskData,
    left_out: Vec<(Table, Labels)>,
}

impl Fold {
    fn new(
        tasks: &[Task<'_>],
        config: &TasksConfig,
        folds: &[Vec<Option<usize>>],
        fold: usize,
    ) -> Result<Self, IqgmeError> {
        let part = |left_out: bool| -> Vec<(Table, Labels)> {
            let of_task = |(task, folds): (&Task<'_>, &Vec<Option<usize>>)| {
                let rows: Vec<usize> = (0..folds.len())
                    .filter(|&i| (folds[i] == Some(fold)) == left_out)
                    .collect();
                (
                    task.table.select_rows(&rows),
                    task.labels.select_rows(&rows),
                )
            };
            tasks.iter().zip(folds).map(of_task).collect()
        };
        let kept = part(false);
        let kept: Vec<Task<'_>> = tasks
            .iter()
            .zip(&kept)
            .map(|(task, (table, labels))| Task {
                name: task.name,
                table,
                labels,
            })
            .collect();
        Ok(Self {
            data: MultiTaskData::new(&kept, config)?,
            left_out: part(true),
        })
    }

    /// Probability of the class that each row has, by a run that was told neither row nor class.
    fn foretold(&self, config: &TasksConfig, run: usize) -> Result<Vec<f64>, IqgmeError> {
        let restarts = config.single.restarts;
        let start = config.starts[run / restarts];
        let limited = TasksConfig {
            single: IqgmeConfig {
                max_iterations: config.single.max_iterations.min(ITERATIONS),
                ..config.single.clone()
            },
            ..config.clone()
        };
        let mut vb = MultiTaskVb::new(&self.data, limited, start, (run % restarts) as u64)?;
        let outcome = vb.run(|_, _| ControlFlow::Continue(()))?;
        let run = TaskRun::new(start, outcome, vb)?;
        let predictor = run.predictor()?;
        let pooled = &self.data.pooled;
        let mut foretold = Vec::new();
        for (j, (table, labels)) in self.left_out.iter().enumerate() {
            let rows = rows_of(&pooled.standardiser, &pooled.active, table)?;
            let second = run.second_class(&predictor, j, &rows, config.single.gate)?;
            for (i, p) in second.into_iter().enumerate() {
                let is_second = labels.name(i) == Some(pooled.classes[1].as_str());
                foretold.push(if is_second { p } else { 1.0 - p });
            }
        }
        Ok(foretold)
    }
}
