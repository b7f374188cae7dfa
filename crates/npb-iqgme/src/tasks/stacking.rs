//! Weights of runs by how well they foretell labels that they were not told: see [`crate::stacking`].

use std::ops::ControlFlow;

use npb_data::{Labels, Table};

use super::config::TasksConfig;
use super::data::{MultiTaskData, Task};
use super::fit::{TaskRun, rows_of};
use super::vb::MultiTaskVb;
use crate::IqgmeError;
use crate::config::IqgmeConfig;
use crate::runs::run_all;
use crate::stacking::{self, Side};

/// Iterations of a run without a fold, at most: tasks settle among each other later than the rows of one task.
const ITERATIONS: u64 = 30;

/// Weights of the runs for predictions, in the order in which they are made; none when there is one run, or too few labels, or folds are not wanted.
pub(super) fn weights(
    tasks: &[Task<'_>],
    config: &TasksConfig,
) -> Result<Option<Vec<f64>>, IqgmeError> {
    let single = &config.single;
    let n_runs = config.starts.len() * single.restarts;
    let labels: Vec<&Labels> = tasks.iter().map(|task| task.labels).collect();
    let foretold = |sides: &[Side]| {
        let fold = Fold::new(tasks, config, sides)?;
        let runs: Vec<usize> = (0..n_runs).collect();
        run_all(&runs, 1, |_, run, _| fold.foretold(config, run))
    };
    let by_run = stacking::by_run(&labels, single.folds, n_runs, single.seed, foretold)?;
    // The bound says who shares rows, not who shares labels: even where labels are few.
    let even = vec![1.0 / n_runs as f64; n_runs];
    Ok(by_run.map(|by_run| stacking::stack(&by_run, &even)))
}

/// Data without the rows of a fold, and these.
struct Fold {
    data: MultiTaskData,
    left_out: Vec<(Table, Labels)>,
}

impl Fold {
    fn new(tasks: &[Task<'_>], config: &TasksConfig, sides: &[Side]) -> Result<Self, IqgmeError> {
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
        Ok(Self {
            data: MultiTaskData::new(&kept.collect::<Vec<_>>(), config)?,
            left_out: each().map(|(t, s)| part(t, &s.left_out)).collect(),
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
