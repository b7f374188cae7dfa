//! Weights of runs by how well they foretell labels that they were not told.
//!
//! Which start ends in the best classifier differs from data set to data set, and the bound, nearly all of which is about the features, does not know. So
//! every run is made again without the labels of each fold in turn, and weights are found at which the average of the runs gives the labels of the folds the highest probability.

use npb_data::Labels;
use rand::Rng;
use rand::seq::SliceRandom;

use crate::IqgmeError;
use crate::runs::run_all;

/// Labels that are added to what each run foretells: weights are even when there are few.
const PRIOR_LABELS: f64 = 1.0;
/// Updates of the weights.
const UPDATES: usize = 200;

/// The fold of each labelled row of each set of labels, the classes of every set spread evenly.
pub(crate) fn deal<'a>(
    sets: impl IntoIterator<Item = &'a Labels>,
    n_folds: usize,
    rng: &mut impl Rng,
) -> Vec<Vec<Option<usize>>> {
    let mut dealt = 0;
    let mut folds_of = |labels: &Labels| {
        let mut folds = vec![None; labels.n_rows()];
        for class in labels.classes() {
            let own = |&i: &usize| labels.name(i) == Some(class.as_str());
            let mut rows: Vec<usize> = (0..labels.n_rows()).filter(own).collect();
            rows.shuffle(rng);
            for i in rows {
                folds[i] = Some(dealt % n_folds);
                dealt += 1;
            }
        }
        folds
    };
    sets.into_iter().map(&mut folds_of).collect()
}

/// Probabilities of the labels that each run was not told, fold after fold: `foretold(fold, run)` makes a run without a fold, all in parallel.
pub(crate) fn foretold_by_runs(
    n_folds: usize,
    n_runs: usize,
    foretold: impl Fn(usize, usize) -> Result<Vec<f64>, IqgmeError> + Sync,
) -> Result<Vec<Vec<f64>>, IqgmeError> {
    let jobs: Vec<(usize, usize)> = (0..n_folds)
        .flat_map(|fold| (0..n_runs).map(move |run| (fold, run)))
        .collect();
    let told = run_all(&jobs, 1, |_, (fold, run), _| foretold(fold, run))?;
    let of_run = |run: usize| {
        let own = told.iter().skip(run).step_by(n_runs);
        own.flatten().copied().collect()
    };
    Ok((0..n_runs).map(of_run).collect())
}

/// Weights at which the average of the runs' probabilities of what came true is highest, as posterior means would have them: `by_run`: run, label.
pub(crate) fn stack(by_run: &[Vec<f64>]) -> Vec<f64> {
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
    use npb_infer::stream;

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
        let folds = deal([&labels], 3, &mut stream(1, [0; 4])).concat();
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
