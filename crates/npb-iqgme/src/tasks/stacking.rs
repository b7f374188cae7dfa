//! Votes of runs by how well they foretell labels that they were not told: see [`crate::stacking`].

use std::ops::ControlFlow;

use npb_data::{Labels, Table};
use npb_priors::special::ln_normalize;

use super::config::TasksConfig;
use super::data::{MultiTaskData, Task};
use super::fit::TaskRun;
use super::vb::MultiTaskVb;
use crate::IqgmeError;
use crate::checkpoints::FoldFiles;
use crate::config::IqgmeConfig;
use crate::data::class_of_rows;
use crate::runs::run_all;
use crate::stacking::{self, NEAREST, Side, Surety, Vote, surest};
use crate::units::Units;

/// Iterations of a run without a fold, at most: tasks settle among each other later than the rows of one task.
const ITERATIONS: u64 = 30;

/// Standard errors by which a run must foretell worse than the best one to be left out.
const CLEARLY: f64 = 3.0;

/// Votes of the runs for predictions, in the order in which they are made; none when there are too few labels, or folds are not wanted. `files`: where what they foretell is kept from
/// fold to fold, if it is.
pub(super) fn votes(
    tasks: &[Task<'_>],
    config: &TasksConfig,
    files: Option<&FoldFiles<'_, TasksConfig>>,
) -> Result<Option<Vec<Vote>>, IqgmeError> {
    let single = &config.single;
    let n_runs = config.starts.len() * single.restarts;
    let labels: Vec<&Labels> = tasks.iter().map(|task| task.labels).collect();
    let foretold = |sides: &[Side]| {
        let fold = Fold::new(tasks, config, sides)?;
        let runs: Vec<usize> = (0..n_runs).collect();
        run_all(&runs, 1, |_, run, _| fold.foretold(config, run))
    };
    let n_classes = stacking::class_counts(&labels).len();
    let (sizes, n_folds, seed) = ([n_runs, n_classes], single.folds, single.seed);
    let by_run = stacking::by_run(&labels, n_folds, sizes, seed, files, foretold)?;
    Ok(by_run.map(|by_run| sharpened_votes(&by_run, n_classes)))
}

/// Votes of runs that give these probabilities to the classes of labels, run, label, class, what came true first: each is sharpened, and then weighed.
fn sharpened_votes(by_run: &[Vec<f64>], n_classes: usize) -> Vec<Vote> {
    let each = by_run.iter().map(|foretold| sharpest(foretold, n_classes));
    let (sureties, by_run): (Vec<Surety>, Vec<Vec<f64>>) = each.unzip();
    let each = among_the_best(&by_run).into_iter().zip(sureties);
    each.map(|(weight, surety)| Vote { weight, surety })
        .collect()
}

/// The sharpness at which what came true is most probable, times its prior; and how probable that is then, label by label.
fn sharpest(foretold: &[f64], n_classes: usize) -> (Surety, Vec<f64>) {
    let ln: Vec<f64> = foretold.iter().map(|&p| at_least(p).ln()).collect();
    let came_true = |of_label: &[f64], sharpness: f64| {
        let others = of_label[1..].iter();
        let odds_against = others.map(|l| (sharpness * (l - of_label[0])).exp());
        1.0 / (1.0 + odds_against.sum::<f64>())
    };
    let value = |sharpness: f64| {
        let each = ln.chunks_exact(n_classes);
        (each.map(|l| came_true(l, sharpness).ln()).sum(), 0.0)
    };
    let surety = surest(value).1;
    let labels = ln.chunks_exact(n_classes);
    let then = labels.map(|l| came_true(l, surety.sharpness)).collect();
    (surety, then)
}

/// Probabilities of classes raised to a power, and summing to one.
fn sharpened(probabilities: &[f64], sharpness: f64) -> impl Iterator<Item = f64> {
    let mut raised: Vec<f64> = probabilities
        .iter()
        .map(|&p| sharpness * at_least(p).ln())
        .collect();
    ln_normalize(&mut raised);
    raised.into_iter()
}

/// A draw of the classes' probabilities moved as their means are when these are sharpened, on the scale of log odds: draws spread as before, around what is foretold.
pub(super) fn moved(drawn: &[f64], means: &[f64], sharpness: f64) -> Vec<f64> {
    let by = |mean: f64| (sharpness - 1.0) * at_least(mean).ln();
    let each = drawn.iter().zip(means);
    let mut moved: Vec<f64> = each
        .map(|(p, mean)| at_least(*p).ln() + by(*mean))
        .collect();
    ln_normalize(&mut moved);
    moved
}

fn at_least(p: f64) -> f64 {
    p.max(NEAREST)
}

/// The average of runs' probabilities of the classes, each run sharpened: its weight and sharpness, and its probabilities row by row.
pub(super) fn average<'a>(
    runs: impl Iterator<Item = (&'a TaskRun, &'a Vec<Vec<f64>>)>,
) -> Vec<Vec<f64>> {
    let mut mean: Vec<Vec<f64>> = Vec::new();
    for (run, by_row) in runs {
        mean.resize_with(by_row.len(), || vec![0.0; by_row[0].len()]);
        for (mean, of_row) in mean.iter_mut().zip(by_row) {
            let each = mean.iter_mut().zip(sharpened(of_row, run.sharpness));
            each.for_each(|(sum, p)| *sum += run.weight * p);
        }
    }
    mean.iter_mut().flatten().for_each(|p| *p = p.min(1.0));
    mean
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

    /// Probabilities of the classes, row by row, of that which the row has first, by a run that was told neither row nor class.
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
        let units = Units::of(pooled);
        let mut foretold = Vec::new();
        for (j, (table, labels)) in self.left_out.iter().enumerate() {
            let rows = units.rows_left_out(table)?;
            let truth = class_of_rows(table, labels, &pooled.classes)?;
            let by_row = run.probabilities(&predictor, j, &rows, config.single.gate)?;
            for (mut of_row, truth) in by_row.into_iter().zip(truth) {
                let came_true = of_row.remove(truth.expect("labelled rows are left out"));
                foretold.push(came_true);
                foretold.extend(of_row);
            }
        }
        Ok(foretold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_are_not_sure_enough_are_sharpened_and_those_too_sure_are_blunted() {
        // Nine of ten come true; with three classes each of the two others as often.
        let foretold = |p: f64, n_classes: usize| -> Vec<f64> {
            let other = (1.0 - p) / (n_classes - 1) as f64;
            let of_label = |i: usize| {
                let mut all = vec![other; n_classes];
                all[if i % 10 == 0 { 1 } else { 0 }] = p;
                all
            };
            (0..400).flat_map(of_label).collect()
        };
        for (n_classes, said, wanted) in [
            (2, 0.6, 5.42),
            (2, 0.9, 1.0),
            (2, 0.99, 0.478),
            (3, 0.99, 0.5464),
        ] {
            let (Surety { sharpness, shift }, then) =
                sharpest(&foretold(said, n_classes), n_classes);
            assert!(
                (sharpness / wanted - 1.0).abs() < 0.05,
                "{said}: {sharpness}"
            );
            assert_eq!(shift, 0.0);
            let one = foretold(said, n_classes)[n_classes..][..n_classes].to_vec();
            let p: Vec<f64> = sharpened(&one, sharpness).collect();
            assert!((p[0] - 0.9).abs() < 0.01, "{said}: {p:?}");
            assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert!((then[1] - p[0]).abs() < 1e-9, "{then:?}");
        }
        // Few labels say little, and labels foretold for certain do no harm.
        let few = |p: &[f64]| sharpest(p, 2).0.sharpness;
        assert!(few(&[0.6, 0.4, 0.6, 0.4]) < 1.2);
        assert!(few(&[1.0, 0.0, 0.0, 1.0, 1.0, 0.0]).is_finite());
        // What is poor by its probabilities alone weighs as much as what is good in the same order.
        let votes = sharpened_votes(&[foretold(0.6, 2), foretold(0.9, 2)], 2);
        assert!((votes[0].weight - 0.5).abs() < 0.05, "{votes:?}");
    }

    #[test]
    fn draws_move_with_their_mean() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let as_it_is = moved(&[0.7, 0.3], &[0.2, 0.8], 1.0);
        assert!(near(as_it_is[1], 0.3));
        // Odds 3/7 of the draw, 4 of the mean: 12/7.
        assert!(near(moved(&[0.7, 0.3], &[0.2, 0.8], 2.0)[1], 12.0 / 19.0));
        // What is drawn as it is foretold becomes what that becomes; a class that a draw rules out stays ruled out.
        let means = [0.5, 0.3, 0.2];
        let sharp: Vec<f64> = sharpened(&means, 0.4).collect();
        let same = moved(&means, &means, 0.4);
        assert!(sharp.iter().zip(same).all(|(a, b)| near(*a, b)));
        assert!(moved(&[0.0, 0.6, 0.4], &means, 20.0)[0] < 1e-6);
    }

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
