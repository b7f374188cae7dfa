//! Weights of runs by how well they foretell labels that they were not told.
//!
//! Which start ends in the best classifier differs from data set to data set, and the bound, nearly all of which is about the features, does not know. So
//! every run is made again without the rows of each fold in turn, and weights are found at which the average of the runs gives the labels of the folds the highest probability.

use std::ops::ControlFlow;

use npb_data::{Labels, Table};
use npb_infer::stream;
use rand::seq::SliceRandom;

use super::data::FactorData;
use super::predict::Predictor;
use super::vb::FactorVb;
use crate::runs::run_all;
use crate::{FactorConfig, IqgmeError};

/// Key of the random stream that deals rows to folds.
const FOLDS: u64 = 6;
/// Iterations of a run without a fold, at most: what it foretells is settled before its bound is.
const ITERATIONS: u64 = 15;
/// Labels that are added to what each run foretells: weights are even when there are few.
const PRIOR_LABELS: f64 = 1.0;
/// Updates of the weights.
const UPDATES: usize = 200;

/// Weights of the runs, in the order in which they are made; none when there is one run, or too few labels, or folds are not wanted.
pub(crate) fn weights(
    table: &Table,
    labels: &Labels,
    config: &FactorConfig,
) -> Result<Option<Vec<f64>>, IqgmeError> {
    let counts = labels.counts();
    let least = counts.iter().copied().filter(|n| *n > 0).min().unwrap_or(0);
    let n_folds = config.folds.min(least);
    let n_runs = config.starts.len() * config.restarts;
    if n_runs < 2 || n_folds < 2 {
        return Ok(None);
    }
    let folds = folds(labels, n_folds, config.seed);
    let sides: Vec<Fold> = (0..n_folds)
        .map(|fold| Fold::new(table, labels, config, &folds, fold))
        .collect::<Result<_, _>>()?;
    let jobs: Vec<(usize, usize)> = (0..n_folds)
        .flat_map(|fold| (0..n_runs).map(move |run| (fold, run)))
        .collect();
    let told = run_all(&jobs, 1, |_, (fold, run), _| {
        sides[fold].foretold(config, run)
    })?;
    let by_run: Vec<Vec<f64>> = (0..n_runs)
        .map(|run| {
            let own = told.iter().skip(run).step_by(n_runs);
            own.flatten().copied().collect()
        })
        .collect();
    Ok(Some(stack(&by_run)))
}

/// The fold of each labelled row, classes spread evenly.
fn folds(labels: &Labels, n_folds: usize, seed: u64) -> Vec<Option<usize>> {
    let mut rng = stream(seed, [0, 0, FOLDS, 0]);
    let mut folds = vec![None; labels.n_rows()];
    let mut dealt = 0;
    for class in labels.classes() {
        let own = |&i: &usize| labels.name(i) == Some(class.as_str());
        let mut rows: Vec<usize> = (0..labels.n_rows()).filter(own).collect();
        rows.shuffle(&mut rng);
        for i in rows {
            folds[i] = Some(dealt % n_folds);
            dealt += 1;
        }
    }
    folds
}

/// Data without the rows of a fold, and these.
struct Fold {
    data: FactorData,
    left_out: Table,
    /// Whether a row that was left out is of the second class.
    second: Vec<bool>,
}

impl Fold {
    fn new(
        table: &Table,
        labels: &Labels,
        config: &FactorConfig,
        folds: &[Option<usize>],
        fold: usize,
    ) -> Result<Self, IqgmeError> {
        let (out, kept): (Vec<usize>, Vec<usize>) =
            (0..folds.len()).partition(|&i| folds[i] == Some(fold));
        let data = FactorData::new(
            &table.select_rows(&kept),
            &labels.select_rows(&kept),
            config,
        )?;
        let second = |&i: &usize| labels.name(i) == Some(data.classes[1].as_str());
        Ok(Self {
            second: out.iter().map(second).collect(),
            left_out: table.select_rows(&out),
            data,
        })
    }

    /// Probability of the class that each row has, by a run that was told neither row nor class.
    fn foretold(&self, config: &FactorConfig, run: usize) -> Result<Vec<f64>, IqgmeError> {
        let start = config.starts[run / config.restarts];
        let limited = FactorConfig {
            max_iterations: config.max_iterations.min(ITERATIONS),
            ..config.clone()
        };
        let mut vb = FactorVb::new(&self.data, limited, start, (run % config.restarts) as u64)?;
        vb.run(|_, _| ControlFlow::Continue(()))?;
        let state = vb.into_state();
        let FactorData {
            margins,
            standardiser,
            active,
            spread_units,
            ..
        } = &self.data;
        let cells = FactorData::prepare(margins, standardiser, active, &self.left_out)?;
        let spread = spread_units.apply(&cells);
        let probability = Predictor::new(&state).probability(&state, &cells, &spread)?;
        let each = probability.into_iter().zip(&self.second);
        Ok(each
            .map(|(p, second)| if *second { p } else { 1.0 - p })
            .collect())
    }
}

/// Weights at which the average of the runs' probabilities of what came true is highest, as posterior means would have them: `by_run`: run, label.
fn stack(by_run: &[Vec<f64>]) -> Vec<f64> {
    let (n_runs, n_labels) = (by_run.len(), by_run[0].len());
    let mut weights = vec![1.0 / n_runs as f64; n_runs];
    for _ in 0..UPDATES {
        let mut shares = vec![PRIOR_LABELS; n_runs];
        for i in 0..n_labels {
            let part = |run: usize| weights[run] * by_run[run][i].max(f64::MIN_POSITIVE);
            let total: f64 = (0..n_runs).map(part).sum();
            for (run, share) in shares.iter_mut().enumerate() {
                *share += part(run) / total;
            }
        }
        let total: f64 = shares.iter().sum();
        weights = shares.into_iter().map(|share| share / total).collect();
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_that_foretells_best_weighs_most_and_none_weighs_nothing() {
        let good = vec![0.9; 50];
        let poor = vec![0.4; 50];
        let weights = stack(&[poor.clone(), good.clone(), poor]);
        assert!(weights[1] > 0.9 && weights[0] > 0.01, "{weights:?}");
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // Runs that are right where the other is wrong share the weight.
        let (even, odd): (Vec<f64>, Vec<f64>) = (0..50)
            .map(|i| if i % 2 == 0 { (0.9, 0.2) } else { (0.2, 0.9) })
            .unzip();
        let weights = stack(&[even, odd]);
        assert!((weights[0] - 0.5).abs() < 1e-9, "{weights:?}");
    }

    #[test]
    fn folds_hold_every_class_and_no_unlabelled_row() {
        let names: Vec<Option<&str>> = (0..30)
            .map(|i| match i % 10 {
                0 => Some("rare"),
                1 => None,
                _ => Some("often"),
            })
            .collect();
        let labels = Labels::from_strings(&names);
        let folds = folds(&labels, 3, 1);
        for fold in 0..3 {
            let members = |name: &str| {
                let own = |i: &usize| folds[*i] == Some(fold) && names[*i] == Some(name);
                (0..30).filter(own).count()
            };
            assert_eq!(members("rare"), 1);
            assert_eq!(members("often"), 8);
        }
        assert!((0..30).all(|i| folds[i].is_some() == names[i].is_some()));
    }
}
