//! Weights and sharpness of runs by how well they foretell labels that they were not told.
//!
//! Which start ends in the best classifier differs from data set to data set, and the bound, nearly all of which is about the features, does not know. So
//! every run is made again without the rows of each fold in turn, and weights are found at which the average of the runs gives the labels of the folds the highest probability.
//! Posteriors that factorise, and priors of hundreds of coefficients, make a run too sure of its probabilities or not sure enough; the same labels say by how much.

use npb_data::Labels;
use npb_infer::stream;
use rand::seq::SliceRandom;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::IqgmeError;

/// Most folds of a configuration.
pub(crate) const MOST_FOLDS: usize = 100;
/// Key of the random stream that deals rows to folds.
const FOLDS: u64 = 6;
/// Iterations of a run without a fold, at most: what it foretells is settled before its bound is.
pub(crate) const ITERATIONS: u64 = 15;
/// Updates of the weights.
const UPDATES: usize = 200;

/// The prior of the logarithm of a sharpness and of shifts: normal with mean 0 and this standard deviation.
const PRIOR_SD: f64 = 0.5;
/// Newton steps to a shift, the function being concave.
const SHIFT_STEPS: usize = 8;
/// Its logarithm is found to 1 over this, up to [`LARGEST_LN_SHARPNESS`].
const SHARPNESS_STEPS: i32 = 20;
const LARGEST_LN_SHARPNESS: i32 = 3;
/// No probability is nearer to 0 or 1 when it is sharpened.
const NEAREST: f64 = 1e-12;

/// What a run says of a label that it was not told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foretold {
    /// The set of labels that the label is of.
    pub(crate) set: usize,
    /// Whether it is of the second class.
    pub(crate) second: bool,
    /// The probability of the second class.
    pub(crate) probability: f64,
}

/// A run's part in class probabilities.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Vote {
    pub(crate) weight: f64,
    pub(crate) sureness: Sureness,
}

/// What makes a run as sure of the two classes as the labels that it foretells allow: its log odds times `sharpness`, plus a shift for each task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sureness {
    /// The power to which odds are raised.
    pub sharpness: f64,
    /// What is added to the log odds, task by task; 0 where there is but one, and for a task that was added later.
    pub shifts: Vec<f64>,
}

/// The rows of one set of labels, a fold in and a fold out.
pub(crate) struct Side {
    pub(crate) kept: Vec<usize>,
    pub(crate) left_out: Vec<usize>,
}

/// What each of so many runs, made without a label's row, says of that label: run, label. None when there are too few labels, or fewer than two folds
/// are wanted.
///
/// `foretold(sides)`, one side for each set of labels: makes all runs from the rows that are kept and says, run by run, what they say of the class of each row that is left out.
pub(crate) fn by_run<T: Clone + Send>(
    sets: &[&Labels],
    n_folds: usize,
    n_runs: usize,
    seed: u64,
    foretold: impl Fn(&[Side]) -> Result<Vec<Vec<T>>, IqgmeError> + Sync,
) -> Result<Option<Vec<Vec<T>>>, IqgmeError> {
    let n_folds = n_folds.min(rarest(sets));
    if n_folds < 2 {
        return Ok(None);
    }
    let folds = deal(sets, n_folds, seed);
    let by_fold: Vec<Vec<Vec<T>>> = (0..n_folds)
        .into_par_iter()
        .map(|fold| {
            let side = |folds: &Vec<Option<usize>>| {
                let (left_out, kept) = (0..folds.len()).partition(|&i| folds[i] == Some(fold));
                Side { kept, left_out }
            };
            foretold(&folds.iter().map(side).collect::<Vec<_>>())
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

/// Votes of runs that say this of labels, run, label, of so many sets: each is made as sure as it may be, and then weighed by `weights` from its probabilities of what came true.
pub(crate) fn votes(
    by_run: &[Vec<Foretold>],
    n_sets: usize,
    weights: impl Fn(&[Vec<f64>]) -> Vec<f64>,
) -> Vec<Vote> {
    let surenesses: Vec<Sureness> = by_run
        .iter()
        .map(|foretold| Sureness::of(foretold, n_sets))
        .collect();
    let of_truth = |(foretold, sureness): (&Vec<Foretold>, &Sureness)| -> Vec<f64> {
        let of_label = |f: &Foretold| {
            let second = sureness.apply(f.probability, f.set);
            if f.second { second } else { 1.0 - second }
        };
        foretold.iter().map(of_label).collect()
    };
    let sure: Vec<Vec<f64>> = by_run.iter().zip(&surenesses).map(of_truth).collect();
    let each = weights(&sure).into_iter().zip(surenesses);
    each.map(|(weight, sureness)| Vote { weight, sureness })
        .collect()
}

impl Sureness {
    /// Leaves probabilities as they are.
    pub(crate) fn as_it_is() -> Self {
        Self {
            sharpness: 1.0,
            shifts: Vec::new(),
        }
    }

    /// The one at which the labels and its prior together are most probable.
    fn of(foretold: &[Foretold], n_sets: usize) -> Self {
        // By set: log odds of the second class, and its sign: 1 where it came true, -1 elsewhere.
        let mut sets: Vec<Vec<(f64, f64)>> = vec![Vec::new(); n_sets];
        for f in foretold {
            let sign = if f.second { 1.0 } else { -1.0 };
            sets[f.set].push((ln_odds(f.probability), sign));
        }
        let most = LARGEST_LN_SHARPNESS * SHARPNESS_STEPS;
        let mut best = (f64::NEG_INFINITY, Self::as_it_is());
        for step in -most..=most {
            let ln = f64::from(step) / f64::from(SHARPNESS_STEPS);
            let mut value = -0.5 * (ln / PRIOR_SD).powi(2);
            let mut shifts = Vec::new();
            for set in &sets {
                let shift = if n_sets > 1 {
                    best_shift(set, ln.exp())
                } else {
                    0.0
                };
                value += ln_fit(set, ln.exp(), shift);
                shifts.push(shift);
            }
            if value > best.0 {
                let sharpness = ln.exp();
                best = (value, Self { sharpness, shifts });
            }
        }
        best.1
    }

    /// A probability of the second class of two, of a row of this set, as sure as it may be.
    pub(crate) fn apply(&self, probability: f64, set: usize) -> f64 {
        logistic(self.shift(set) + self.sharpness * ln_odds(probability))
    }

    /// Draws of probabilities moved as their means are, on the scale of log odds: the draws spread as before, around what is foretold.
    pub(crate) fn moved(&self, draws: &[f64], means: &[f64], set: usize) -> Vec<f64> {
        let by = |mean: f64| self.shift(set) + (self.sharpness - 1.0) * ln_odds(mean);
        let each = draws.iter().zip(means);
        each.map(|(draw, mean)| logistic(ln_odds(*draw) + by(*mean)))
            .collect()
    }

    /// No shift for a set that was not there.
    fn shift(&self, set: usize) -> f64 {
        self.shifts.get(set).copied().unwrap_or(0.0)
    }

    /// Whether values are possible, for one that comes from a file.
    pub(crate) fn is_valid(&self) -> bool {
        self.sharpness.is_finite()
            && self.sharpness > 0.0
            && self.shifts.iter().all(|shift| shift.is_finite())
    }
}

/// Log probability of the labels of one set, and of their shift but for a constant.
fn ln_fit(set: &[(f64, f64)], sharpness: f64, shift: f64) -> f64 {
    let each = set.iter();
    let labels: f64 = each
        .map(|(odds, sign)| logistic(sign * (shift + sharpness * odds)).ln())
        .sum();
    labels - 0.5 * (shift / PRIOR_SD).powi(2)
}

/// The shift at which this is highest.
fn best_shift(set: &[(f64, f64)], sharpness: f64) -> f64 {
    let mut shift: f64 = 0.0;
    for _ in 0..SHIFT_STEPS {
        let (mut slope, mut curvature) = (-shift / PRIOR_SD.powi(2), PRIOR_SD.powi(-2));
        for (odds, sign) in set {
            let wrong = logistic(-sign * (shift + sharpness * odds));
            slope += sign * wrong;
            curvature += wrong * (1.0 - wrong);
        }
        // No step is longer than the curvature is told by: far from the labels it vanishes.
        shift += (slope / curvature).clamp(-1.0, 1.0);
    }
    shift
}

/// The average of runs' probabilities of the second of two classes of rows of one set, each as sure as it may be: weight, sureness, and a probability for each row.
pub(crate) fn average<'a>(
    runs: impl Iterator<Item = (f64, &'a Sureness, &'a Vec<f64>)>,
    set: usize,
) -> Vec<f64> {
    let mut mean: Vec<f64> = Vec::new();
    for (weight, sureness, probabilities) in runs {
        mean.resize(probabilities.len(), 0.0);
        for (sum, &p) in mean.iter_mut().zip(probabilities) {
            *sum += weight * sureness.apply(p, set);
        }
    }
    mean.into_iter().map(|p| p.min(1.0)).collect()
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

    /// What is said of so many labels of a set, of which this part is of the second class, all with the same probability.
    fn said(set: usize, n: usize, part: f64, probability: f64) -> Vec<Foretold> {
        let label = |i: usize| Foretold {
            set,
            second: (i as f64) < part * n as f64,
            probability,
        };
        (0..n).map(label).collect()
    }

    /// Of 400 labels nine of ten are as they are said to be, with this probability.
    fn nine_of_ten(p: f64) -> Vec<Foretold> {
        [said(0, 200, 0.9, p), said(0, 200, 0.1, 1.0 - p)].concat()
    }

    #[test]
    fn runs_that_are_not_sure_enough_are_sharpened_and_those_too_sure_are_blunted() {
        for (p, wanted) in [(0.6, 5.42), (0.9, 1.0), (0.99, 0.478)] {
            let found = Sureness::of(&nine_of_ten(p), 1);
            let ratio = found.sharpness / wanted;
            assert!((ratio - 1.0).abs() < 0.05, "{p}: {found:?}");
            assert!((found.apply(p, 0) - 0.9).abs() < 0.01, "{p}: {found:?}");
        }
        // Few labels say little, and labels foretold for certain do no harm.
        assert!(Sureness::of(&said(0, 2, 1.0, 0.6), 1).sharpness < 1.2);
        let certain = [said(0, 2, 1.0, 1.0), said(0, 1, 1.0, 0.0)].concat();
        assert!(Sureness::of(&certain, 1).is_valid());
        // What is poor by its probabilities alone weighs as much as what is good in the same order.
        let votes = votes(&[nine_of_ten(0.6), nine_of_ten(0.9)], 1, |sure| {
            stack(sure, &[0.5; 2])
        });
        assert!((votes[0].weight - 0.5).abs() < 0.05, "{votes:?}");
    }

    #[test]
    fn sets_have_the_shares_of_classes_that_their_labels_have() {
        // Ranked as they should be, but as if both sets had as many of each class.
        let foretold: Vec<Foretold> = [(0, 0.9, 0.6), (1, 0.4, 0.1)]
            .iter()
            .flat_map(|&(set, high, low)| {
                [said(set, 200, high, 0.75), said(set, 200, low, 0.25)].concat()
            })
            .collect();
        let found = Sureness::of(&foretold, 2);
        assert!(found.shifts[0] > 1.0 && found.shifts[1] < -1.0, "{found:?}");
        let rates = [
            (0, 0.75, 0.9),
            (0, 0.25, 0.6),
            (1, 0.75, 0.4),
            (1, 0.25, 0.1),
        ];
        for (set, p, rate) in rates {
            assert!((found.apply(p, set) - rate).abs() < 0.03, "{found:?}");
        }
        // The slope of the fit vanishes there.
        let set: Vec<(f64, f64)> = (0..40)
            .map(|i| (f64::from(i % 7) - 4.0, if i % 3 == 0 { -1.0 } else { 1.0 }))
            .collect();
        for sharpness in [0.05, 1.0, 20.0] {
            let at = best_shift(&set, sharpness);
            let best = ln_fit(&set, sharpness, at);
            assert!(
                [-1e-3, 1e-3]
                    .iter()
                    .all(|d| ln_fit(&set, sharpness, at + d) < best)
            );
        }
        // One set alone has no shift, and one that was not there has none.
        assert_eq!(Sureness::of(&said(0, 50, 0.9, 0.5), 1).shifts, [0.0]);
        assert_eq!(found.shift(2), 0.0);
    }

    #[test]
    fn draws_move_with_their_mean() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let sure = |sharpness: f64, shift: f64| Sureness {
            sharpness,
            shifts: vec![shift],
        };
        assert!(near(sure(2.0, 0.0).apply(0.8, 0), 16.0 / 17.0));
        assert!(near(sure(1.0, 0.0).moved(&[0.3], &[0.8], 0)[0], 0.3));
        // Odds 3/7 of the draw, 4 of the mean: 12/7; and half of that.
        assert!(near(
            sure(2.0, 0.0).moved(&[0.3], &[0.8], 0)[0],
            12.0 / 19.0
        ));
        let half = sure(2.0, -(2.0_f64.ln()));
        assert!(near(half.moved(&[0.3], &[0.8], 0)[0], 6.0 / 13.0));
        for p in [0.0, 1.0] {
            assert!((sure(20.0, 0.0).apply(p, 0) - p).abs() < 1e-6);
        }
        let (first, second) = (vec![0.8, 0.5], vec![0.3, 0.5]);
        let (sharp, plain) = (sure(2.0, 0.0), Sureness::as_it_is());
        let mean = average(
            [(0.25, &sharp, &first), (0.75, &plain, &second)].into_iter(),
            0,
        );
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
