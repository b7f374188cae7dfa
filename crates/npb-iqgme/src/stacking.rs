//! Weights and sharpness of runs by how well they foretell labels that they were not told.
//!
//! Which start ends in the best classifier differs from data set to data set, and the bound, nearly all of which is about the features, does not know. So
//! every run is made again without the rows of each fold in turn, and weights are found at which the average of the runs gives the labels of the folds the highest probability.
//! A run may be too sure of its probabilities, or not sure enough; the same labels say by how much.

use npb_data::Labels;
use npb_infer::stream;
use rand::seq::SliceRandom;
use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::IqgmeError;
use crate::checkpoints::FoldFiles;

/// Most folds of a configuration.
pub(crate) const MOST_FOLDS: usize = 100;
/// Key of the random stream that deals rows to folds.
const FOLDS: u64 = 6;
/// Iterations of a run without a fold, at most: what it foretells is settled before its bound is.
pub(crate) const ITERATIONS: u64 = 15;
/// Updates of the weights.
const UPDATES: usize = 200;

/// The prior of a sharpness: its logarithm is normal with mean 0 and this standard deviation.
const LN_SHARPNESS_SD: f64 = 0.5;
/// Its logarithm is found to 1 over this, up to [`LARGEST_LN_SHARPNESS`].
const SHARPNESS_STEPS: i32 = 20;
const LARGEST_LN_SHARPNESS: i32 = 3;
/// No probability is nearer to 0 or 1 when it is sharpened.
const NEAREST: f64 = 1e-12;

/// A run's part in class probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Vote {
    pub(crate) weight: f64,
    /// The power to which the odds of its classes are raised.
    pub(crate) sharpness: f64,
}

/// The probability that runs, made without a label's row, give to that label: run, label.
pub(crate) type Foretold = Vec<Vec<f64>>;

/// The rows of one set of labels, a fold in and a fold out.
pub(crate) struct Side {
    pub(crate) kept: Vec<usize>,
    pub(crate) left_out: Vec<usize>,
}

/// What probability each of so many runs, made without a label's row, gives to that label: run, label. None when there are too few labels, or fewer than two folds
/// are wanted.
///
/// `foretold(sides)`, one side for each set of labels: makes all runs from the rows that are kept and says, run by run, what probability they give to the
/// class of each row that is left out. `files`: where it is kept from fold to fold, if it is.
pub(crate) fn by_run<C: PartialEq + Serialize + DeserializeOwned + Sync>(
    sets: &[&Labels],
    n_folds: usize,
    n_runs: usize,
    seed: u64,
    files: Option<&FoldFiles<'_, C>>,
    foretold: impl Fn(&[Side]) -> Result<Foretold, IqgmeError> + Sync,
) -> Result<Option<Foretold>, IqgmeError> {
    let n_folds = n_folds.min(rarest(sets));
    if n_folds < 2 {
        return Ok(None);
    }
    let folds = deal(sets, n_folds, seed);
    let by_fold: Vec<Foretold> = (0..n_folds)
        .into_par_iter()
        .map(|fold| {
            let side = |folds: &Vec<Option<usize>>| {
                let (left_out, kept) = (0..folds.len()).partition(|&i| folds[i] == Some(fold));
                Side { kept, left_out }
            };
            let sides: Vec<Side> = folds.iter().map(side).collect();
            let Some(files) = files else {
                return foretold(&sides);
            };
            let n_labels = sides.iter().map(|side| side.left_out.len()).sum();
            files.of_fold(fold, [n_runs, n_labels], || foretold(&sides))
        })
        .collect::<Result<_, IqgmeError>>()?;
    let of_run = |run: usize| by_fold.iter().flat_map(move |fold| fold[run].clone());
    Ok(Some((0..n_runs).map(|run| of_run(run).collect()).collect()))
}

/// Number of labels of the rarest class, all sets together.
fn rarest(sets: &[&Labels]) -> usize {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for labels in sets {
        for (class, n) in labels.classes().iter().zip(labels.counts()) {
            match counts.iter_mut().find(|(name, _)| name == class) {
                Some((_, sum)) => *sum += n,
                None => counts.push((class, n)),
            }
        }
    }
    let seen = counts.iter().map(|(_, n)| *n).filter(|n| *n > 0);
    seen.min().unwrap_or(0)
}

/// The fold of each labelled row of each set, the classes of every set spread evenly.
fn deal(sets: &[&Labels], n_folds: usize, seed: u64) -> Vec<Vec<Option<usize>>> {
    let mut rng = stream(seed, [0, 0, FOLDS, 0]);
    let mut dealt = 0;
    let mut folds_of = |labels: &&Labels| {
        let mut folds = vec![None; labels.n_rows()];
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
    };
    sets.iter().map(&mut folds_of).collect()
}

/// Votes of runs that give these probabilities to what came true, run, label: each is sharpened, and then weighed by `weights`.
pub(crate) fn votes(by_run: &[Vec<f64>], weights: impl Fn(&[Vec<f64>]) -> Vec<f64>) -> Vec<Vote> {
    let sharpness: Vec<f64> = by_run.iter().map(|foretold| sharpest(foretold).1).collect();
    let sharp = |(foretold, &sharpness): (&Vec<f64>, &f64)| {
        let each = foretold.iter().map(|&p| sharpened(p, sharpness));
        each.collect()
    };
    let sharp: Vec<Vec<f64>> = by_run.iter().zip(&sharpness).map(sharp).collect();
    let each = weights(&sharp).into_iter().zip(sharpness);
    each.map(|(weight, sharpness)| Vote { weight, sharpness })
        .collect()
}

/// The power of the odds at which what came true is most probable, `foretold` being its probabilities, times the prior of the power; and, first, the logarithm of that
/// product.
pub(crate) fn sharpest(foretold: &[f64]) -> (f64, f64) {
    let value = |ln: f64| {
        let each = foretold.iter().map(|&p| sharpened(p, ln.exp()).ln());
        each.sum::<f64>() - 0.5 * (ln / LN_SHARPNESS_SD).powi(2)
    };
    let most = LARGEST_LN_SHARPNESS * SHARPNESS_STEPS;
    let mut best = (f64::NEG_INFINITY, 0.0);
    for step in -most..=most {
        let ln = f64::from(step) / f64::from(SHARPNESS_STEPS);
        let value = value(ln);
        if value > best.0 {
            best = (value, ln);
        }
    }
    (best.0, best.1.exp())
}

/// The average of runs' probabilities of the second of two classes, each sharpened: (weight, sharpness), and a probability for each row.
pub(crate) fn average<'a>(runs: impl Iterator<Item = ((f64, f64), &'a Vec<f64>)>) -> Vec<f64> {
    let mut mean: Vec<f64> = Vec::new();
    for ((weight, sharpness), probabilities) in runs {
        mean.resize(probabilities.len(), 0.0);
        for (sum, &p) in mean.iter_mut().zip(probabilities) {
            *sum += weight * sharpened(p, sharpness);
        }
    }
    mean.into_iter().map(|p| p.min(1.0)).collect()
}

/// Draws of probabilities moved as their means are by sharpening, on the scale of log odds: the draws spread as before, around what is foretold.
pub(crate) fn moved(draws: &[f64], means: &[f64], sharpness: f64) -> Vec<f64> {
    let each = draws.iter().zip(means);
    each.map(|(draw, mean)| logistic(ln_odds(*draw) + (sharpness - 1.0) * ln_odds(*mean)))
        .collect()
}

/// The probability whose odds are those of `p` raised to `sharpness`.
fn sharpened(p: f64, sharpness: f64) -> f64 {
    logistic(sharpness * ln_odds(p))
}

fn ln_odds(p: f64) -> f64 {
    let p = p.clamp(NEAREST, 1.0 - NEAREST);
    (p / (1.0 - p)).ln()
}

fn logistic(ln_odds: f64) -> f64 {
    1.0 / (1.0 + (-ln_odds).exp())
}

/// Weights at which the average of the runs' probabilities of what came true is highest, as posterior means would have them: `by_run`: run, label. To what the labels
/// say as many labels are added as there are runs, shared out as in `prior` (which sums to 1): they decide where labels are few.
pub(crate) fn stack(by_run: &[impl AsRef<[f64]>], prior: &[f64]) -> Vec<f64> {
    let (n_runs, n_labels) = (by_run.len(), by_run[0].as_ref().len());
    let mut weights = vec![1.0 / n_runs as f64; n_runs];
    for _ in 0..UPDATES {
        let mut shares: Vec<f64> = prior.iter().map(|p| n_runs as f64 * p).collect();
        for i in 0..n_labels {
            let part = |run: usize| weights[run] * by_run[run].as_ref()[i].max(f64::MIN_POSITIVE);
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
        let weights = stack(&[poor.clone(), good.clone(), poor], &[1.0 / 3.0; 3]);
        assert!(weights[1] > 0.9 && weights[0] > 0.01, "{weights:?}");
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // Runs that are right where the other is wrong share the weight.
        let (even, odd): (Vec<f64>, Vec<f64>) = (0..50)
            .map(|i| if i % 2 == 0 { (0.9, 0.2) } else { (0.2, 0.9) })
            .unzip();
        let weights = stack(&[even, odd], &[0.5; 2]);
        assert!((weights[0] - 0.5).abs() < 1e-9, "{weights:?}");
        // Where labels say nothing, the prior does.
        let weights = stack(&[[0.5; 3], [0.5; 3]], &[0.9, 0.1]);
        assert!((weights[0] - 0.9).abs() < 1e-9, "{weights:?}");
    }

    #[test]
    fn runs_that_are_not_sure_enough_are_sharpened_and_those_too_sure_are_blunted() {
        // Nine of ten come true.
        let foretold = |p: f64| -> Vec<f64> {
            (0..400)
                .map(|i| if i % 10 == 0 { 1.0 - p } else { p })
                .collect()
        };
        for (said, wanted) in [(0.6, 5.42), (0.9, 1.0), (0.99, 0.478)] {
            let found = sharpest(&foretold(said)).1;
            assert!((found / wanted - 1.0).abs() < 0.05, "{said}: {found}");
            let p = sharpened(said, found);
            assert!((p - 0.9).abs() < 0.01, "{said}: {p}");
        }
        // Few labels say little, and labels foretold for certain do no harm.
        assert!(sharpest(&[0.6; 2]).1 < 1.2);
        assert!(sharpest(&[1.0, 0.0, 1.0]).1.is_finite());
        // What is poor by its probabilities alone weighs as much as what is good in the same order.
        let votes = votes(&[foretold(0.6), foretold(0.9)], |sharp| {
            stack(sharp, &[0.5; 2])
        });
        assert!((votes[0].weight - 0.5).abs() < 0.05, "{votes:?}");
    }

    #[test]
    fn draws_move_with_their_mean() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(sharpened(0.8, 2.0), 16.0 / 17.0));
        assert!(near(moved(&[0.3], &[0.8], 1.0)[0], 0.3));
        // Odds 3/7 of the draw, 4 of the mean: 12/7.
        assert!(near(moved(&[0.3], &[0.8], 2.0)[0], 12.0 / 19.0));
        for p in [0.0, 1.0] {
            assert!((sharpened(p, 20.0) - p).abs() < 1e-6);
        }
        let (first, second) = (vec![0.8, 0.5], vec![0.3, 0.5]);
        let mean = average([((0.25, 2.0), &first), ((0.75, 1.0), &second)].into_iter());
        assert!(near(mean[0], 0.25 * 16.0 / 17.0 + 0.75 * 0.3) && near(mean[1], 0.5));
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
        let folds = deal(&[&labels], 3, 1).concat();
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
