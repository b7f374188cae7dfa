//! Weights and sharpness of runs by how well they foretell labels that they were not told.
//!
//! Which start ends in the best classifier differs from data set to data set, and the bound, nearly all of which is about the features, does not know. So
//! every run is made again without the rows of each fold in turn, and weights are found at which the average of the runs gives the labels of the folds the highest probability.
//! A run may be too sure of its probabilities, or not sure enough; the same labels say by how much.

use std::collections::HashMap;

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
/// The prior of a shift beside what keeps the odds of the labels as they are: normal with mean 0 and this standard deviation.
const SHIFT_SD: f64 = 1.0;
/// Newton steps to a shift, at most.
const SHIFT_STEPS: usize = 30;
/// The logarithm of a sharpness is found to 1 over this, up to [`LARGEST_LN_SHARPNESS`].
const SHARPNESS_STEPS: i32 = 20;
const LARGEST_LN_SHARPNESS: i32 = 3;
/// No probability is taken for nearer to 0 or 1 when it is put right.
pub(crate) const NEAREST: f64 = 1e-12;

/// A run's part in class probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Vote {
    pub(crate) weight: f64,
    pub(crate) surety: Surety,
}

/// How probabilities of the second class are put right: their log odds become `shift + sharpness * log odds`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Surety {
    pub(crate) sharpness: f64,
    pub(crate) shift: f64,
}

impl Default for Surety {
    /// Nothing is to be put right.
    fn default() -> Self {
        Self {
            sharpness: 1.0,
            shift: 0.0,
        }
    }
}

impl Surety {
    /// What a probability of the second class becomes.
    fn of(self, p: f64) -> f64 {
        logistic(self.of_ln_odds(ln_odds(p)))
    }

    fn of_ln_odds(self, ln_odds: f64) -> f64 {
        self.shift + self.sharpness * ln_odds
    }
}

/// What runs, made without a label's row, say of that label, one probability or more: run, label, probability.
pub(crate) type Foretold = Vec<Vec<f64>>;

/// The rows of one set of labels, a fold in and a fold out.
pub(crate) struct Side {
    pub(crate) kept: Vec<usize>,
    pub(crate) left_out: Vec<usize>,
}

/// What each of so many runs, made without a label's row, says of that label, in so many numbers: run, label, number. None when there are too few labels, or fewer
/// than two folds are wanted.
///
/// `foretold(sides)`, one side for each set of labels: makes all runs from the rows that are kept and says it, run by run, of each row that is left
/// out. `files`: where it is kept from fold to fold, if it is.
pub(crate) fn by_run<C: PartialEq + Serialize + DeserializeOwned + Sync>(
    sets: &[&Labels],
    n_folds: usize,
    [n_runs, n_numbers]: [usize; 2],
    seed: u64,
    files: Option<&FoldFiles<'_, C>>,
    foretold: impl Fn(&[Side]) -> Result<Foretold, IqgmeError> + Sync,
) -> Result<Option<Foretold>, IqgmeError> {
    let Some(folds) = sides(sets, n_folds, seed) else {
        return Ok(None);
    };
    let by_fold: Vec<Foretold> = folds
        .par_iter()
        .enumerate()
        .map(|(fold, sides)| {
            let Some(files) = files else {
                return foretold(sides);
            };
            let n_labels: usize = sides.iter().map(|side| side.left_out.len()).sum();
            files.of_fold(fold, [n_runs, n_labels * n_numbers], || foretold(sides))
        })
        .collect::<Result<_, IqgmeError>>()?;
    let of_run = |run: usize| by_fold.iter().flat_map(move |fold| fold[run].clone());
    Ok(Some((0..n_runs).map(|run| of_run(run).collect()).collect()))
}

/// The sides of each fold, one for each set of labels; none when there are too few labels, or fewer than two folds are wanted.
pub(crate) fn sides(sets: &[&Labels], n_folds: usize, seed: u64) -> Option<Vec<Vec<Side>>> {
    // The only label of a class stays in all runs: those without it would not know the class.
    let dealt = class_counts(sets).into_iter().filter(|(_, n)| *n > 1);
    let (classes, counts): (Vec<&str>, Vec<usize>) = dealt.unzip();
    let n_folds = n_folds.min(counts.into_iter().min().unwrap_or(0));
    if n_folds < 2 || classes.len() < 2 {
        return None;
    }
    let folds = deal(sets, &classes, n_folds, seed);
    let of_fold = |fold: usize| {
        let side = |folds: &Vec<Option<usize>>| {
            let (left_out, kept) = (0..folds.len()).partition(|&i| folds[i] == Some(fold));
            Side { kept, left_out }
        };
        folds.iter().map(side).collect()
    };
    Some((0..n_folds).map(of_fold).collect())
}

/// Number of labels of each class that has some, all sets together.
pub(crate) fn class_counts<'a>(sets: &[&'a Labels]) -> Vec<(&'a str, usize)> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for labels in sets {
        for (class, n) in labels.classes().iter().zip(labels.counts()) {
            match counts.iter_mut().find(|(name, _)| name == class) {
                Some((_, sum)) => *sum += n,
                None => counts.push((class, n)),
            }
        }
    }
    counts.retain(|(_, n)| *n > 0);
    counts
}

/// The fold of each row of these classes of each set. Every class is spread evenly, in each set and over all of them.
fn deal(sets: &[&Labels], classes: &[&str], n_folds: usize, seed: u64) -> Vec<Vec<Option<usize>>> {
    let mut rng = stream(seed, [0, 0, FOLDS, 0]);
    let mut dealt = 0;
    // The fold after that of the last row of a class, going round, whatever set that was in.
    let mut next: HashMap<&str, usize> = HashMap::new();
    let mut folds = Vec::with_capacity(sets.len());
    for labels in sets {
        let mut of_set = vec![None; labels.n_rows()];
        let here = labels.classes().iter();
        for class in here.filter(|class| classes.contains(&class.as_str())) {
            let own = |&i: &usize| labels.name(i) == Some(class.as_str());
            let mut rows: Vec<usize> = (0..labels.n_rows()).filter(own).collect();
            rows.shuffle(&mut rng);
            let fold = next.entry(class).or_insert(dealt);
            for i in rows {
                of_set[i] = Some(*fold % n_folds);
                *fold += 1;
                dealt += 1;
            }
        }
        folds.push(of_set);
    }
    folds
}

/// Votes of runs that give these probabilities to what came true, run, label: each is put right, and then weighed by `weights`. `second`: whether what came true is the second
/// class.
pub(crate) fn votes(
    by_run: &[Vec<f64>],
    second: &[bool],
    weights: impl Fn(&[Vec<f64>]) -> Vec<f64>,
) -> Vec<Vote> {
    let surety = |foretold: &Vec<f64>| calibrated(foretold, second).1;
    let sureties: Vec<Surety> = by_run.iter().map(surety).collect();
    let put_right = |(foretold, surety): (&Vec<f64>, &Surety)| {
        let of = |(i, &p): (usize, &f64)| {
            let sign = sign(second[i]);
            logistic(sign * surety.of_ln_odds(sign * ln_odds(p)))
        };
        foretold.iter().enumerate().map(of).collect()
    };
    let by_run: Vec<Vec<f64>> = by_run.iter().zip(&sureties).map(put_right).collect();
    let each = weights(&by_run).into_iter().zip(sureties);
    each.map(|(weight, surety)| Vote { weight, surety })
        .collect()
}

/// The sharpness and the shift at which what came true is most probable, times their prior, under which a run that is less sure is as sure of the second class on average as labels
/// are of it: blunted without a shift, a run that foretells a rare class would have it more frequent. First, the logarithm of that product.
pub(crate) fn calibrated(foretold: &[f64], second: &[bool]) -> (f64, Surety) {
    let n_second = second.iter().filter(|second| **second).count() as f64;
    let usual = (n_second / (second.len() as f64 - n_second)).ln();
    let beyond = |(&p, &second): (&f64, &bool)| (sign(second) * ln_odds(p) - usual, sign(second));
    let beyond: Vec<(f64, f64)> = foretold.iter().zip(second).map(beyond).collect();
    let value = |sharpness: f64| {
        let unmoved: Vec<(f64, f64)> = beyond
            .iter()
            .map(|(l, sign)| (usual + sharpness * l, *sign))
            .collect();
        let shift = best_shift(&unmoved);
        let each = unmoved.iter();
        let each = each.map(|(l, sign)| logistic(sign * (shift + l)).ln());
        let prior = -0.5 * (shift / SHIFT_SD).powi(2);
        (each.sum::<f64>() + prior, shift)
    };
    let (value, Surety { sharpness, shift }) = surest(value);
    let surety = Surety {
        sharpness,
        shift: shift + (1.0 - sharpness) * usual,
    };
    (value, surety)
}

/// The shift of log odds at which what came true is most probable, times its prior; by Newton's method, whose steps are cut, on a concave function. `ln_odds`: of the second class, and 1
/// if it came true, else -1.
fn best_shift(ln_odds: &[(f64, f64)]) -> f64 {
    let precision = SHIFT_SD.powi(-2);
    let mut shift = 0.0;
    for _ in 0..SHIFT_STEPS {
        let (mut slope, mut curvature) = (-precision * shift, precision);
        for (l, sign) in ln_odds {
            let missed = logistic(-sign * (shift + l));
            slope += sign * missed;
            curvature += missed * (1.0 - missed);
        }
        let step: f64 = (slope / curvature).clamp(-1.0, 1.0);
        shift += step;
        if step.abs() < 1e-9 {
            break;
        }
    }
    shift
}

/// The sharpness, with its shift, of the highest value, times its prior; and, first, the logarithm of that product. `value`: by sharpness the logarithm of a probability, and a shift.
pub(crate) fn surest(value: impl Fn(f64) -> (f64, f64)) -> (f64, Surety) {
    let most = LARGEST_LN_SHARPNESS * SHARPNESS_STEPS;
    let mut best = f64::NEG_INFINITY;
    let mut found = Surety::default();
    for step in -most..=most {
        let ln = f64::from(step) / f64::from(SHARPNESS_STEPS);
        let (value, shift) = value(ln.exp());
        let value = value - 0.5 * (ln / LN_SHARPNESS_SD).powi(2);
        if value > best {
            best = value;
            found = Surety {
                sharpness: ln.exp(),
                shift,
            };
        }
    }
    (best, found)
}

/// The average of runs' probabilities of the second of two classes, each put right: weight, surety, and a probability for each row.
pub(crate) fn average<'a>(runs: impl Iterator<Item = (Vote, &'a Vec<f64>)>) -> Vec<f64> {
    let mut mean: Vec<f64> = Vec::new();
    for (Vote { weight, surety }, probabilities) in runs {
        mean.resize(probabilities.len(), 0.0);
        for (sum, &p) in mean.iter_mut().zip(probabilities) {
            *sum += weight * surety.of(p);
        }
    }
    mean.into_iter().map(|p| p.min(1.0)).collect()
}

/// Draws of probabilities moved as their means are when these are put right, on the scale of log odds: the draws spread as before, around what is foretold.
pub(crate) fn moved(draws: &[f64], means: &[f64], surety: Surety) -> Vec<f64> {
    let by = |mean: f64| surety.of_ln_odds(mean) - mean;
    let each = draws.iter().zip(means);
    each.map(|(draw, mean)| logistic(ln_odds(*draw) + by(ln_odds(*mean))))
        .collect()
}

fn sign(second: bool) -> f64 {
    if second { 1.0 } else { -1.0 }
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

    /// Five tasks with one rare label each: every fold has one of them.
    #[test]
    fn a_rare_class_is_spread_over_the_folds_of_all_tasks() {
        let task = Labels::from_strings(&["a", "a", "a", "a", "b"].map(Some));
        let sets = [&task; 5];
        let folds = sides(&sets, 5, 1).unwrap();
        for fold in &folds {
            let left_out = fold.iter().flat_map(|side| &side.left_out);
            assert_eq!(left_out.clone().count(), 5);
            assert_eq!(left_out.filter(|&&i| i == 4).count(), 1);
        }
    }

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
    fn draws_move_with_their_mean() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let [as_it_is, twice, shifted] = [(1.0, 0.0), (2.0, 0.0), (1.0, 1.5)]
            .map(|(sharpness, shift)| Surety { sharpness, shift });
        assert!(near(twice.of(0.8), 16.0 / 17.0));
        assert!(near(ln_odds(shifted.of(0.8)), 4.0_f64.ln() + 1.5));
        assert!(near(moved(&[0.3], &[0.8], as_it_is)[0], 0.3));
        // Odds 3/7 of the draw, 4 of the mean: 12/7.
        assert!(near(moved(&[0.3], &[0.8], twice)[0], 12.0 / 19.0));
        assert!(near(moved(&[0.3], &[0.8], shifted)[0], shifted.of(0.3)));
        let surely = Surety {
            sharpness: 20.0,
            shift: 0.0,
        };
        for p in [0.0, 1.0] {
            assert!((surely.of(p) - p).abs() < 1e-6);
        }
        let (first, second) = (vec![0.8, 0.5], vec![0.3, 0.5]);
        let vote = |weight, surety| Vote { weight, surety };
        let mean =
            average([(vote(0.25, twice), &first), (vote(0.75, as_it_is), &second)].into_iter());
        assert!(near(mean[0], 0.25 * 16.0 / 17.0 + 0.75 * 0.3) && near(mean[1], 0.5));
    }

    /// Rows whose log odds are `score - 2.5`, half of them with a score of -1.5 and half of 1.5: one in seven is of the second class.
    fn rare(said: impl Fn(f64) -> f64) -> (Vec<f64>, Vec<bool>) {
        let mut foretold = Vec::new();
        let mut second = Vec::new();
        for score in [-1.5, 1.5] {
            let n_second = (1000.0 * logistic(score - 2.5)).round() as usize;
            for i in 0..1000 {
                second.push(i < n_second);
                let p = logistic(said(score));
                foretold.push(if i < n_second { p } else { 1.0 - p });
            }
        }
        (foretold, second)
    }

    #[test]
    fn a_rare_class_keeps_its_share_when_runs_are_blunted() {
        // Twice as sure as it should be, and about the wrong odds.
        let (foretold, second) = rare(|score| 2.0 * score - 1.0);
        let surety = calibrated(&foretold, &second).1;
        assert!((surety.sharpness - 0.5).abs() < 0.05, "{surety:?}");
        for score in [-1.5, 1.5] {
            let put_right = surety.of_ln_odds(2.0 * score - 1.0);
            assert!(
                (put_right - (score - 2.5)).abs() < 0.15,
                "{score}: {put_right}"
            );
        }
        // A run that says nothing says about the share of the class. Sharpness alone would make one in two of it, and so keeps what the run says.
        let noise = |i: usize| [-3.0, -1.0, 1.0, 3.0][i % 4];
        let second: Vec<bool> = (0..400).map(|i| i / 4 % 10 == 0).collect();
        let usual = (1.0_f64 / 9.0).ln();
        let foretold: Vec<f64> = (0..400)
            .map(|i| logistic(sign(second[i]) * (usual + noise(i))))
            .collect();
        let surety = calibrated(&foretold, &second).1;
        for score in [-3.0, 3.0] {
            let away = surety.of_ln_odds(usual + score) - usual;
            assert!(away.abs() < 1.0, "{score}: {away}");
        }
        let own = |p: &f64| ln_odds(*p);
        let sum = |sharpness: f64| {
            let each = foretold.iter().map(own).map(|l| logistic(sharpness * l));
            each.map(f64::ln).sum()
        };
        let alone = surest(|sharpness| (sum(sharpness), 0.0)).1.sharpness;
        assert!(alone > 1.5 * surety.sharpness, "{alone}, {surety:?}");
        // Few labels say little.
        let surety = calibrated(&[0.9, 0.8], &[true, false]).1;
        assert!(
            surety.sharpness < 1.5 && surety.shift.abs() < 0.5,
            "{surety:?}"
        );
        assert!(
            calibrated(&[1.0, 0.0, 1.0], &[true, false, false])
                .1
                .shift
                .is_finite()
        );
    }

    #[test]
    fn the_only_label_of_a_class_stays() {
        let labels = |n: usize, more: &[&str]| {
            let names = ["a", "b"].repeat(n);
            Labels::from_strings(
                &[&names, more]
                    .concat()
                    .into_iter()
                    .map(Some)
                    .collect::<Vec<_>>(),
            )
        };
        let folds = sides(&[&labels(4, &["c"])], 5, 1).unwrap();
        assert_eq!(folds.len(), 4);
        for fold in &folds {
            assert!(fold[0].kept.contains(&8) && fold[0].left_out.len() == 2);
        }
        // With two of it there are two folds; with two classes, one of them with one label, nothing can be foretold.
        assert_eq!(sides(&[&labels(4, &["c", "c"])], 5, 1).unwrap().len(), 2);
        let two = Labels::from_strings(&[Some("a"), Some("a"), Some("a"), Some("b")]);
        assert!(sides(&[&two], 5, 1).is_none());
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
        let folds = deal(&[&labels], &["rare", "often"], 3, 1).concat();
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
