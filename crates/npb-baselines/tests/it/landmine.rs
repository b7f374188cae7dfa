//! Printed mean AUCs over the 19 tasks of landmine, complete data, given splits, ten trials.

use std::fs::File;
use std::path::Path;

use flate2::read::GzDecoder;
use npb_baselines::{Sharing, TaskLogistic, TaskLogisticConfig};
use npb_data::read::{self, Column, DelimitedOptions, GivenSplit};
use npb_data::{Standardiser, Table, metrics};
use rayon::prelude::*;

use crate::given_splits::data_folder;

/// The 19 tasks: foliated ground, then bare earth.
fn numbers() -> impl Iterator<Item = usize> {
    (1..=10).chain(16..=24)
}

struct Landmine {
    /// By task: rows, and true where there is a mine.
    tasks: Vec<(Table, Vec<bool>)>,
    splits: Vec<GivenSplit>,
}

/// One side of a split: rows of all tasks, task by task.
struct Side {
    rows: Table,
    tasks: Vec<usize>,
    positive: Vec<bool>,
}

fn gunzip(path: &Path) -> GzDecoder<File> {
    GzDecoder::new(File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

fn load(folder: &Path) -> Landmine {
    let folder = folder.join("landmine");
    let file = gunzip(&folder.join("landmine.csv.gz"));
    let (table, labels) = read::labelled_table(
        "landmine.csv",
        file,
        &Column::Name("label".into()),
        &DelimitedOptions::default(),
    )
    .unwrap();
    let positive = labels.binary("1").unwrap();
    let of_task = |task: usize| {
        let mine = |i: &usize| table.row(*i)[0] == task as f64;
        let rows: Vec<usize> = (0..table.n_rows()).filter(mine).collect();
        let columns: Vec<usize> = (1..table.n_cols()).collect();
        let table = table.select_rows(&rows).select_columns(&columns).unwrap();
        (table, rows.iter().map(|&i| positive[i].unwrap()).collect())
    };
    Landmine {
        tasks: numbers().map(of_task).collect(),
        splits: read::given_splits("splits.txt", gunzip(&folder.join("splits/splits.txt.gz")))
            .unwrap(),
    }
}

impl Landmine {
    /// Standardised by the training rows of all tasks together.
    fn sides(&self, n_train: usize, trial: usize) -> [Side; 2] {
        let side = |pick: fn(&npb_data::Split) -> &Vec<usize>| {
            let mut rows: Option<Table> = None;
            let (mut tasks, mut positive) = (Vec::new(), Vec::new());
            for (t, (table, labels)) in self.tasks.iter().enumerate() {
                let key = [n_train as f64, trial as f64, (t + 1) as f64];
                let split = self.splits.iter().find(|s| s.key == key).unwrap();
                let chosen = pick(&split.split);
                let part = table.select_rows(chosen);
                rows = Some(match rows {
                    Some(above) => above.stack(&part).unwrap(),
                    None => part,
                });
                tasks.extend(chosen.iter().map(|_| t));
                positive.extend(chosen.iter().map(|&i| labels[i]));
            }
            Side {
                rows: rows.unwrap(),
                tasks,
                positive,
            }
        };
        let (train, test) = (side(|s| &s.train), side(|s| &s.test));
        let standardiser = Standardiser::fit(&train.rows);
        [train, test].map(|side| Side {
            rows: standardiser.apply(&side.rows).unwrap(),
            ..side
        })
    }

    /// Mean over trials of the mean over tasks.
    fn mean_auc(&self, n_train: usize, scores: impl Fn(&Side, &Side) -> Vec<f64> + Sync) -> f64 {
        let of_trial = |trial: usize| -> f64 {
            let [train, test] = self.sides(n_train, trial);
            let scores = scores(&train, &test);
            let of_task = |t: usize| {
                let rows: Vec<usize> = (0..test.tasks.len())
                    .filter(|&i| test.tasks[i] == t)
                    .collect();
                let score: Vec<f64> = rows.iter().map(|&i| scores[i]).collect();
                let positive: Vec<bool> = rows.iter().map(|&i| test.positive[i]).collect();
                metrics::auc(&score, &positive).unwrap()
            };
            (0..19).map(of_task).sum::<f64>() / 19.0
        };
        let aucs: Vec<f64> = (0..10).into_par_iter().map(of_trial).collect();
        aucs.iter().sum::<f64>() / 10.0
    }
}

fn regression(train: &Side, test: &Side, sharing: Sharing, group: fn(usize) -> usize) -> Vec<f64> {
    let config = TaskLogisticConfig {
        sharing,
        ..Default::default()
    };
    let groups = |side: &Side| side.tasks.iter().map(|&t| group(t)).collect::<Vec<_>>();
    TaskLogistic::fit(&train.rows, &groups(train), &train.positive, &config)
        .unwrap()
        .decision(&test.rows, &groups(test))
        .unwrap()
}

#[test]
fn logistic_regressions_reproduce_the_printed_landmine_figures() {
    let Some(folder) = data_folder() else { return };
    let data = load(&folder);
    let shared = Sharing::SharedAndOwn { shared: 1.0 };
    let own: fn(usize) -> usize = |t| t;
    // Told the true type of the ground.
    let ground: fn(usize) -> usize = |t| t / 10;
    let printed = [
        (Sharing::Single, own, [0.677, 0.741, 0.779]),
        (Sharing::Pooled, own, [0.728, 0.743, 0.750]),
        (shared, own, [0.707, 0.752, 0.782]),
        (Sharing::Single, ground, [0.777, 0.788, 0.795]),
    ];
    for (sharing, group, figures) in printed {
        for (n_train, figure) in [20, 100, 300].into_iter().zip(figures) {
            let found = data.mean_auc(n_train, |train, test| {
                regression(train, test, sharing, group)
            });
            let what = format!("{sharing:?}, {n_train} rows: {found}, printed {figure}");
            assert!((found - figure).abs() <= 0.003, "{what}");
        }
    }
}
