//! Weights and sharpness of runs by how well they foretell labels that they were not told.
//!
//! Which start ends in the best classifier differs from data set to data set, and the bound, nearly all of which is about the features, does not know. So
//! every run is made again without the rows of each fold in turn, and weights are found at which the average of the runs gives the labels of the folds the highest probability.
//! A run may be too sure of its probabilities, or not sure enough; the same labels say by how much.

use std::collections::HashMap;
use std::ops::Range;

use npb_data::{Labels, Table};
use npb_infer::stream;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::special::ln_normalize;
use rand::seq::SliceRandom;
use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::IqgmeError;
use crate::files::{FoldFiles, Foretold};

/// Key of the random stream that deals rows to folds.
const FOLDS: u64 = 6;
/// Iterations of a run without a fold, at most: what it foretells is settled before its bound is.
pub(crate) const ITERATIONS: u64 = 15;
/// Updates of the weights.
const UPDATES: usize = 200;
/// Labels that are added to each of two scales when labels say what it weighs.
const LABELS_FOR_EACH_SCALE: f64 = 10.0;

/// The prior of a sharpness: its logarithm is normal with mean 0 and this standard deviation.
const LN_SHARPNESS_SD: f64 = 0.5;
/// The prior of a shift beside what keeps the odds of the labels as they are: normal with mean 0 and this standard deviation.
const SHIFT_SD: f64 = 1.0;
/// Newton steps to a shift, at most.
const SHIFT_STEPS: usize = 30;
/// The logarithm of a sharpness is found to 1 over this, up to [`LARGEST_LN_SHARPNESS`].
const SHARPNESS_STEPS: i32 = 20;
const LARGEST_LN_SHARPNESS: i32 = 3;
/// No probability is taken for nearer to 0 when it is asked how sure a run should be.
const NEAREST: f64 = 1e-12;

/// A run's part in class probabilities.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Vote {
    pub(crate) weight: f64,
    pub(crate) surety: Surety,
}

/// How class probabilities are put right: `ln p_c` becomes `shift_c + sharpness ln p_c`, but for what makes them sum to one. That is for a row of which as much is seen as
/// usual; for an [`extent`](extents) `e` of less than 1 the power is `sharpness^e`, about the same odds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Surety {
    pub(crate) sharpness: f64,
    /// By class; that of the first is 0, and there are none where nothing is shifted.
    pub(crate) shifts: Vec<f64>,
    /// Where there are shifts: log odds of the classes beside the first, about which the power is taken.
    pub(crate) about: Vec<f64>,
}

impl Default for Surety {
    /// Nothing is to be put right.
    fn default() -> Self {
        Self::sharpness(1.0)
    }
}

impl Surety {
    /// No shift.
    pub(crate) fn sharpness(sharpness: f64) -> Self {
        Self {
            sharpness,
            shifts: Vec::new(),
            about: Vec::new(),
        }
    }

    /// What probabilities of the classes become.
    pub(crate) fn of(&self, probabilities: &[f64], extent: f64) -> Vec<f64> {
        self.moved(probabilities, probabilities, extent)
    }

    /// The power and the shifts for a row with this extent. `l` becomes `about + power (l - about)` and what shifts add beside that.
    fn partly(&self, extent: f64) -> (f64, Vec<f64>) {
        let power = self.sharpness.powf(extent);
        let each = self.shifts.iter().zip(&self.about);
        let shifts = each.map(|(shift, about)| shift + (self.sharpness - power) * about);
        (power, shifts.collect())
    }

    /// A draw of the classes' probabilities, put right as their means are. Draws of a run that is not sure enough are sharpened, too, and spread more on the scale of log odds;
    /// those of one that is too sure are moved as far as their means are, and spread as before: no more is known by being less sure.
    pub(crate) fn moved(&self, drawn: &[f64], means: &[f64], extent: f64) -> Vec<f64> {
        let (sharpness, shifts) = self.partly(extent);
        if sharpness == 1.0 && shifts.iter().all(|shift| *shift == 0.0) {
            return drawn.to_vec();
        }
        let ln = |p: f64| ln(p, f64::MIN_POSITIVE);
        let each = drawn.iter().zip(means).enumerate();
        let ln = |(class, (drawn, mean)): (usize, (&f64, &f64))| {
            let shift = shifts.get(class).copied().unwrap_or(0.0);
            let by = if sharpness > 1.0 { drawn } else { mean };
            ln(*drawn) + shift + (sharpness - 1.0) * ln(*by)
        };
        let mut moved: Vec<f64> = each.map(ln).collect();
        ln_normalize(&mut moved);
        moved
    }

    /// The same row by row.
    pub(crate) fn moved_all(
        &self,
        drawn: Vec<Vec<f64>>,
        means: &[Vec<f64>],
        extents: &[f64],
    ) -> Vec<Vec<f64>> {
        let each = drawn.iter().zip(means).zip(extents);
        each.map(|((drawn, mean), extent)| self.moved(drawn, mean, *extent))
            .collect()
    }
}

/// Of a probability that is not nearer to 0 than this; what is not a number stays so.
fn ln(p: f64, nearest: f64) -> f64 {
    if p < nearest { nearest.ln() } else { p.ln() }
}

/// For each row of a table the share of these columns that is observed.
pub(crate) fn shares_seen(table: &Table, columns: &[usize]) -> Vec<f64> {
    let share = |row: usize| {
        let seen = columns.iter().filter(|&&j| table.is_observed(row, j));
        match columns.len() {
            0 => 1.0,
            n => seen.count() as f64 / n as f64,
        }
    };
    (0..table.n_rows()).map(share).collect()
}

/// How far rows, by the shares of their features that are seen, let runs be put right, which was found out by rows with the usual share. What is not seen blunts a probability, and rightly so:
/// as less of a row is seen the power is nearer to 1, and it is 1 where nothing is seen.
pub(crate) fn extents(shares: &[f64], usual: f64) -> Vec<f64> {
    let extent = |share: &f64| {
        if *share < usual { share / usual } else { 1.0 }
    };
    shares.iter().map(extent).collect()
}

/// What runs say of labels that they were not told, and what these are.
pub(crate) struct LabelsForetold {
    /// Probabilities of the classes.
    pub(crate) by_run: Foretold,
    pub(crate) labels: LeftOut,
    /// The share of the features that is seen of the rows of these labels on average.
    pub(crate) usual: f64,
}

/// Labels that runs were not told.
pub(crate) struct LeftOut {
    /// Classes, by their places.
    pub(crate) truth: Vec<usize>,
    /// How far their rows let runs be put right.
    pub(crate) extents: Vec<f64>,
}

/// Votes of runs, and what they were found from.
pub(crate) struct Votes {
    pub(crate) each: Vec<Vote>,
    pub(crate) from: FoundFrom,
}

/// The labels that votes, sharpness and shifts of runs were found from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FoundFrom {
    /// Their number; 0 where bounds decide.
    pub(crate) n_labels: usize,
    /// The share of the model's features that was seen of their rows on average.
    usual: f64,
    /// Log odds of the classes among them, beside the first.
    ln_odds: Vec<f64>,
}

impl FoundFrom {
    /// Where bounds decide.
    pub(crate) const NOTHING: Self = Self {
        n_labels: 0,
        usual: 1.0,
        ln_odds: Vec::new(),
    };

    /// How a run with this sharpness and these shifts is put right.
    pub(crate) fn surety(&self, sharpness: f64, shifts: &[f64]) -> Surety {
        Surety {
            sharpness,
            shifts: shifts.to_vec(),
            about: self.ln_odds.clone(),
        }
    }

    /// How far the rows of a table let runs be put right; `columns`: those of the model.
    pub(crate) fn extents(&self, table: &Table, columns: &[usize]) -> Vec<f64> {
        extents(&shares_seen(table, columns), self.usual)
    }

    /// Checks what comes from a file.
    pub(crate) fn check(&self, n_classes: usize) -> Result<(), String> {
        let odds = [0, n_classes].contains(&self.ln_odds.len())
            && self.ln_odds.iter().all(|odds| odds.is_finite());
        if (0.0..=1.0).contains(&self.usual) && odds {
            return Ok(());
        }
        Err(format!("what votes were found from: {self:?}"))
    }
}

/// The rows of one set of labels, a fold in and a fold out.
pub(crate) struct Side {
    pub(crate) kept: Vec<usize>,
    pub(crate) left_out: Vec<usize>,
}

/// What each of so many runs, made without a label's row, says of that label. None when there are too few labels, or fewer than two folds are wanted.
///
/// `foretold(sides)`, one side for each set of labels: makes all runs from the rows that are kept and says it, run by run, of each row that is left
/// out. `shares`: what share of the features is seen, by set and row. `files`: where what is foretold is kept from fold to fold, if it is.
pub(crate) fn foretell<C: PartialEq + Serialize + DeserializeOwned + Sync>(
    sets: &[&Labels],
    shares: &[Vec<f64>],
    classes: &[String],
    [n_folds, n_runs]: [usize; 2],
    seed: u64,
    files: Option<&FoldFiles<'_, C>>,
    foretold: impl Fn(&[Side]) -> Result<Foretold, IqgmeError> + Sync,
) -> Result<Option<LabelsForetold>, IqgmeError> {
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
            files.of_fold(fold, [n_runs, n_labels * classes.len()], || foretold(sides))
        })
        .collect::<Result<_, IqgmeError>>()?;
    let of_run = |run: usize| by_fold.iter().flat_map(move |fold| fold[run].clone());
    let left_out = |sides: &Vec<Side>| -> Vec<f64> {
        let each = sides.iter().zip(shares);
        each.flat_map(|(side, shares)| side.left_out.iter().map(|&row| shares[row]))
            .collect()
    };
    let shares: Vec<f64> = folds.iter().flat_map(left_out).collect();
    let usual = shares.iter().sum::<f64>() / shares.len() as f64;
    Ok(Some(LabelsForetold {
        by_run: (0..n_runs).map(|run| of_run(run).collect()).collect(),
        labels: LeftOut {
            truth: truth(sets, classes, &folds),
            extents: extents(&shares, usual),
        },
        usual,
    }))
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

/// The class of each row that a fold leaves out, by its place in `classes`, in the order in which rows are left out.
fn truth(sets: &[&Labels], classes: &[String], folds: &[Vec<Side>]) -> Vec<usize> {
    let class = |labels: &Labels, row: usize| {
        let name = labels.name(row);
        classes.iter().position(|c| Some(c.as_str()) == name)
    };
    let mut truth = Vec::new();
    for sides in folds {
        for (labels, side) in sets.iter().zip(sides) {
            truth.extend(side.left_out.iter().filter_map(|&row| class(labels, row)));
        }
    }
    truth
}

/// Votes of the runs: each is put right by what `surety` finds, and then weighed by `weights`, which is told what probability each run gives to what came true: run, label.
///
/// Cost of each run, runs in parallel: 121 powers of `n K` numbers, with shifts some Newton steps of `n K^2` for each.
pub(crate) fn votes(
    foretold: &LabelsForetold,
    surety: impl Fn(&[f64], &LeftOut) -> Surety + Sync,
    weights: impl Fn(&[Vec<f64>]) -> Vec<f64>,
) -> Votes {
    let LabelsForetold {
        by_run,
        labels,
        usual,
    } = foretold;
    let n_classes = by_run[0].len() / labels.truth.len();
    let sureties: Vec<Surety> = by_run.par_iter().map(|of| surety(of, labels)).collect();
    let came_true = |(of_run, surety): (&Vec<f64>, &Surety)| {
        let each = of_run.chunks_exact(of_run.len() / labels.truth.len());
        let each = each.zip(&labels.extents).zip(&labels.truth);
        each.map(|((p, extent), &class)| surety.of(p, *extent)[class])
            .collect()
    };
    let by_run: Vec<Vec<f64>> = by_run.iter().zip(&sureties).map(came_true).collect();
    let each = weights(&by_run).into_iter().zip(sureties);
    Votes {
        each: each
            .map(|(weight, surety)| Vote { weight, surety })
            .collect(),
        from: FoundFrom {
            n_labels: labels.truth.len(),
            usual: *usual,
            ln_odds: ln_odds_of_classes(&labels.truth, n_classes),
        },
    }
}

/// Log odds of the classes beside the first, of each label: label, class.
fn ln_odds(foretold: &[f64], n_labels: usize) -> Vec<Vec<f64>> {
    let ln = |p: f64| ln(p, NEAREST);
    let of_label = |p: &[f64]| p.iter().map(|&q| ln(q) - ln(p[0])).collect();
    let each = foretold.chunks_exact(foretold.len() / n_labels);
    each.map(of_label).collect()
}

/// With two classes a run is as sure as the labels allow. With more of them it is shifted, too: the first class, whose utility has no noise, is unlike the others.
pub(crate) fn put_right(foretold: &[f64], labels: &LeftOut) -> Surety {
    match foretold.len() / labels.truth.len() {
        2 => sharpest(foretold, labels),
        _ => calibrated(foretold, labels).1,
    }
}

/// The sharpness, without shifts, at which what came true is most probable, times its prior.
pub(crate) fn sharpest(foretold: &[f64], LeftOut { truth, extents }: &LeftOut) -> Surety {
    let ln_odds = ln_odds(foretold, truth.len());
    let value = |sharpness: f64| {
        let each = ln_odds.iter().zip(extents).zip(truth);
        let ln_true = |((odds, extent), &class): ((&Vec<f64>, &f64), &usize)| {
            let power = sharpness.powf(*extent);
            let against = odds.iter().map(|l| (power * (l - odds[class])).exp());
            -against.sum::<f64>().ln()
        };
        (each.map(ln_true).sum(), Vec::new())
    };
    surest(value).1
}

/// The sharpness and the shifts at which what came true is most probable, times their prior, under which a run that is less sure is as sure of each class on average as labels
/// are of it: blunted without a shift, a run that foretells a rare class would have it more frequent. First, the logarithm of that product.
pub(crate) fn calibrated(foretold: &[f64], LeftOut { truth, extents }: &LeftOut) -> (f64, Surety) {
    let ln_odds = ln_odds(foretold, truth.len());
    let n_classes = ln_odds[0].len();
    let usual = ln_odds_of_classes(truth, n_classes);
    let value = |sharpness: f64| {
        let about = |(odds, extent): (&Vec<f64>, &f64)| -> Vec<f64> {
            let power = sharpness.powf(*extent);
            let each = odds.iter().zip(&usual);
            each.map(|(l, usual)| usual + power * (l - usual)).collect()
        };
        let ln_odds: Vec<Vec<f64>> = ln_odds.iter().zip(extents).map(about).collect();
        best_shifts(&ln_odds, truth)
    };
    let (
        value,
        Surety {
            sharpness, shifts, ..
        },
    ) = surest(value);
    let each = shifts.iter().zip(&usual);
    let shifts = each
        .map(|(shift, usual)| shift + (1.0 - sharpness) * usual)
        .collect();
    let surety = Surety {
        sharpness,
        shifts,
        about: usual,
    };
    (value, surety)
}

/// Log odds of the classes among labels, beside the first. A class without a label counts for half of one.
fn ln_odds_of_classes(truth: &[usize], n_classes: usize) -> Vec<f64> {
    let count = |class: usize| (truth.iter().filter(|t| **t == class).count() as f64).max(0.5);
    (0..n_classes).map(|c| (count(c) / count(0)).ln()).collect()
}

/// The shifts of log odds, that of the first class 0, at which what came true is most probable, times their prior; by Newton's method, whose steps are cut, on a concave function. First, the
/// logarithm of that product. `ln_odds`: label, class.
fn best_shifts(ln_odds: &[Vec<f64>], truth: &[usize]) -> (f64, Vec<f64>) {
    let n_classes = ln_odds[0].len();
    let precision = SHIFT_SD.powi(-2);
    let mut shifts = vec![0.0; n_classes];
    let mut p = vec![0.0; n_classes];
    for _ in 0..SHIFT_STEPS {
        let mut slope: Vec<f64> = shifts[1..].iter().map(|shift| -precision * shift).collect();
        let mut curvature = Mat::from_fn(n_classes - 1, n_classes - 1, |a, b| {
            if a == b { precision } else { 0.0 }
        });
        for (odds, &class) in ln_odds.iter().zip(truth) {
            shifted(odds, &shifts, &mut p);
            for a in 1..n_classes {
                slope[a - 1] += f64::from(u8::from(class == a)) - p[a];
                curvature[(a - 1, a - 1)] += p[a];
                for b in 1..n_classes {
                    curvature[(a - 1, b - 1)] -= p[a] * p[b];
                }
            }
        }
        let Ok(factor) = Cholesky::new(curvature.as_ref()) else {
            break;
        };
        factor.solve(&mut slope);
        let largest = slope
            .iter()
            .fold(0.0, |most: f64, step| most.max(step.abs()));
        for (shift, step) in shifts[1..].iter_mut().zip(&slope) {
            *shift += step / largest.max(1.0);
        }
        if largest < 1e-9 {
            break;
        }
    }
    let each = ln_odds.iter().zip(truth);
    let ln_true =
        each.map(|(odds, &class)| odds[class] + shifts[class] - shifted(odds, &shifts, &mut p));
    let value = ln_true.sum::<f64>();
    let prior = shifts.iter().map(|shift| -0.5 * (shift / SHIFT_SD).powi(2));
    (value + prior.sum::<f64>(), shifts)
}

/// Probabilities of classes with shifted log odds; returns the logarithm of what makes them sum to one.
fn shifted(ln_odds: &[f64], shifts: &[f64], p: &mut [f64]) -> f64 {
    for (to, (odds, shift)) in p.iter_mut().zip(ln_odds.iter().zip(shifts)) {
        *to = odds + shift;
    }
    ln_normalize(p)
}

/// The sharpness, with its shifts, of the highest value, times its prior; and, first, the logarithm of that product. `value`: by sharpness the logarithm of a probability, and shifts.
fn surest(value: impl Fn(f64) -> (f64, Vec<f64>)) -> (f64, Surety) {
    let most = LARGEST_LN_SHARPNESS * SHARPNESS_STEPS;
    let mut best = f64::NEG_INFINITY;
    let mut found = Surety::default();
    for step in -most..=most {
        let ln = f64::from(step) / f64::from(SHARPNESS_STEPS);
        let (value, shifts) = value(ln.exp());
        let value = value - 0.5 * (ln / LN_SHARPNESS_SD).powi(2);
        if value > best {
            best = value;
            found = Surety {
                sharpness: ln.exp(),
                shifts,
                about: Vec::new(),
            };
        }
    }
    (best, found)
}

/// The average of runs' probabilities of the classes, each put right as far as rows let it: its vote, and its probabilities row by row.
pub(crate) fn average<'a>(
    runs: impl Iterator<Item = (Vote, &'a Vec<Vec<f64>>)>,
    extents: &[f64],
) -> Vec<Vec<f64>> {
    let mut mean: Vec<Vec<f64>> = Vec::new();
    for (Vote { weight, surety }, by_row) in runs {
        mean.resize_with(by_row.len(), || vec![0.0; by_row[0].len()]);
        for ((mean, of_row), extent) in mean.iter_mut().zip(by_row).zip(extents) {
            let each = mean.iter_mut().zip(surety.of(of_row, *extent));
            each.for_each(|(sum, p)| *sum += weight * p);
        }
    }
    mean.iter_mut().flatten().for_each(|p| *p = p.min(1.0));
    mean
}

/// Weights at which the average of the runs' probabilities of what came true is highest, as posterior means would have them: `by_run`: run, label. To what the labels
/// say as many labels are added as there are runs, shared out as in `prior` (which sums to 1): they decide where labels are few.
pub(crate) fn stack(by_run: &[impl AsRef<[f64]>], prior: &[f64]) -> Vec<f64> {
    let n_runs = by_run.len() as f64;
    let added: Vec<f64> = prior.iter().map(|share| n_runs * share).collect();
    stack_with(by_run, &added)
}

/// As [`stack`], with so many labels added to each run.
fn stack_with(by_run: &[impl AsRef<[f64]>], added: &[f64]) -> Vec<f64> {
    let (n_runs, n_labels) = (by_run.len(), by_run[0].as_ref().len());
    let mut weights = vec![1.0 / n_runs as f64; n_runs];
    for _ in 0..UPDATES {
        let mut shares = added.to_vec();
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

/// Weights of runs of which the first `n_own` are on the features' own scale and the others, if there are any, on normal scores. `weights` shares out what a scale has
/// among its runs, whose places it gets; what each scale has the labels say of its average, and that is next to one half where labels are few.
pub(crate) fn by_scale(
    by_run: &[Vec<f64>],
    n_own: usize,
    weights: impl Fn(Range<usize>) -> Vec<f64>,
) -> Vec<f64> {
    let n_runs = by_run.len();
    if n_own == n_runs {
        return weights(0..n_runs);
    }
    let scales = [0..n_own, n_own..n_runs];
    let within = scales.clone().map(weights);
    let average = |(places, weights): (Range<usize>, &Vec<f64>)| -> Vec<f64> {
        let at = |label: usize| {
            let runs = by_run[places.clone()].iter().zip(weights);
            runs.map(|(run, weight)| weight * run[label]).sum()
        };
        (0..by_run[0].len()).map(at).collect()
    };
    let averages: Vec<Vec<f64>> = scales.into_iter().zip(&within).map(average).collect();
    let shares = stack_with(&averages, &[LABELS_FOR_EACH_SCALE; 2]);
    let each = within.into_iter().zip(shares);
    each.flat_map(|(runs, share)| runs.into_iter().map(move |weight| share * weight))
        .collect()
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
    fn scales_share_votes_evenly_until_many_labels_say_otherwise() {
        let runs = |n: usize| [vec![0.9; n], vec![0.5; n], vec![0.2; n]];
        let of_scale = |by_run: &[Vec<f64>]| {
            by_scale(by_run, 2, |places| {
                let even = vec![1.0 / places.len() as f64; places.len()];
                stack(&by_run[places], &even)
            })
        };
        let few = of_scale(&runs(3));
        assert!((few.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(few[2] > 0.35 && few[2] < 0.5, "{few:?}");
        let many = of_scale(&runs(1000));
        assert!(many[2] < 0.02 && many[0] > 0.9, "{many:?}");
        // Where there is one scale, its runs have all.
        let by_run = &runs(50)[..2];
        let one = by_scale(by_run, 2, |places| stack(&by_run[places], &[0.5; 2]));
        assert_eq!(one, stack(by_run, &[0.5; 2]));
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn draws_move_with_their_mean() {
        let [as_it_is, twice, shifted] =
            [(1.0, 0.0), (2.0, 0.0), (1.0, 1.5)].map(|(sharpness, shift)| Surety {
                sharpness,
                shifts: vec![0.0, shift],
                about: vec![0.0; 2],
            });
        let second = |p: Vec<f64>| p[1];
        assert!(near(second(twice.of(&[0.2, 0.8], 1.0)), 16.0 / 17.0));
        let odds = second(shifted.of(&[0.2, 0.8], 1.0)) / shifted.of(&[0.2, 0.8], 1.0)[0];
        assert!(near(odds.ln(), 4.0_f64.ln() + 1.5));
        let drawn = |surety: &Surety| surety.moved(&[0.7, 0.3], &[0.2, 0.8], 1.0)[1];
        assert!(near(drawn(&as_it_is), 0.3));
        // Odds 3/7 of the draw, 4 of the mean: 9/49 and 3/14.
        assert!(near(drawn(&twice), 9.0 / 58.0));
        assert!(near(drawn(&Surety::sharpness(0.5)), 3.0 / 17.0));
        assert!(near(drawn(&shifted), shifted.of(&[0.7, 0.3], 1.0)[1]));
        let surely = Surety::sharpness(20.0);
        for p in [0.0, 1.0] {
            assert!((surely.of(&[1.0 - p, p], 1.0)[1] - p).abs() < 1e-6);
        }
        // What is drawn as it is foretold becomes what that becomes; a class that a draw rules out stays ruled out.
        let means = [0.5, 0.3, 0.2];
        let blunt = Surety::sharpness(0.4);
        let same = blunt.moved(&means, &means, 1.0);
        assert!(
            blunt
                .of(&means, 1.0)
                .iter()
                .zip(same)
                .all(|(a, b)| near(*a, b))
        );
        assert!(surely.moved(&[0.0, 0.6, 0.4], &means, 1.0)[0] < 1e-6);

        let (first, second) = (
            vec![vec![0.2, 0.8], vec![0.5, 0.5]],
            vec![vec![0.7, 0.3], vec![0.5, 0.5]],
        );
        let vote = |weight, surety| Vote { weight, surety };
        let votes = [(vote(0.25, twice), &first), (vote(0.75, as_it_is), &second)];
        let mean = average(votes.into_iter(), &[1.0, 1.0]);
        assert!(near(mean[0][1], 0.25 * 16.0 / 17.0 + 0.75 * 0.3) && near(mean[1][1], 0.5));
    }

    /// Labels of rows of which as much is seen as usual.
    fn whole(truth: &[usize]) -> LeftOut {
        LeftOut {
            truth: truth.to_vec(),
            extents: vec![1.0; truth.len()],
        }
    }

    /// What so many classes are foretold, the first at `p` and the others alike, and what comes true: the first in nine of ten cases.
    fn nine_of_ten(p: f64, n_classes: usize) -> (Vec<f64>, Vec<usize>) {
        let other = (1.0 - p) / (n_classes - 1) as f64;
        let of_label = |_| (0..n_classes).map(move |class| if class == 0 { p } else { other });
        let truth = |i: usize| match i % 10 {
            0 => 1 + i / 10 % (n_classes - 1),
            _ => 0,
        };
        (
            (0..400).flat_map(of_label).collect(),
            (0..400).map(truth).collect(),
        )
    }

    #[test]
    fn runs_that_are_not_sure_enough_are_sharpened_and_those_too_sure_are_blunted() {
        for (n_classes, said, wanted) in [
            (2, 0.6, 5.42),
            (2, 0.9, 1.0),
            (2, 0.99, 0.478),
            (3, 0.99, 0.5464),
        ] {
            let (foretold, truth) = nine_of_ten(said, n_classes);
            let found = sharpest(&foretold, &whole(&truth));
            let ratio = found.sharpness / wanted;
            assert!((ratio - 1.0).abs() < 0.05, "{said}: {found:?}");
            let p = found.of(&foretold[..n_classes], 1.0);
            assert!((p[0] - 0.9).abs() < 0.01, "{said}: {p:?}");
            assert!(near(p.iter().sum(), 1.0) && found.shifts.is_empty());
        }
        // Few labels say little, and labels foretold for certain do no harm.
        assert!(sharpest(&[0.6, 0.4, 0.6, 0.4], &whole(&[0, 0])).sharpness < 1.2);
        let surely = sharpest(&[1.0, 0.0, 0.0, 1.0, 1.0, 0.0], &whole(&[0, 0, 0]));
        assert!(surely.sharpness.is_finite());
        // What is poor by its probabilities alone weighs as much as what is good in the same order.
        let ((poor, truth), (good, _)) = (nine_of_ten(0.6, 2), nine_of_ten(0.9, 2));
        let foretold = LabelsForetold {
            by_run: vec![poor, good],
            labels: whole(&truth),
            usual: 1.0,
        };
        let votes = votes(&foretold, sharpest, |sharp| stack(sharp, &[0.5; 2])).each;
        assert!((votes[0].weight - 0.5).abs() < 0.05, "{votes:?}");
    }

    fn logistic(ln_odds: f64) -> f64 {
        1.0 / (1.0 + (-ln_odds).exp())
    }

    /// Rows whose log odds are `score - 2.5`, half of them with a score of -1.5 and half of 1.5: one in seven is of the second class. What is said of them, and what they are.
    fn rare(said: impl Fn(f64) -> f64) -> (Vec<f64>, Vec<usize>) {
        let (mut foretold, mut truth) = (Vec::new(), Vec::new());
        for score in [-1.5, 1.5] {
            let n_second = (1000.0 * logistic(score - 2.5)).round() as usize;
            for i in 0..1000 {
                truth.push(usize::from(i < n_second));
                let p = logistic(said(score));
                foretold.extend([1.0 - p, p]);
            }
        }
        (foretold, truth)
    }

    /// Log odds of the second of two classes when they are put right.
    fn put_right(surety: &Surety, ln_odds: f64) -> f64 {
        let p = surety.of(&[logistic(-ln_odds), logistic(ln_odds)], 1.0);
        (p[1] / p[0]).ln()
    }

    #[test]
    fn a_rare_class_keeps_its_share_when_runs_are_blunted() {
        // Twice as sure as it should be, and about the wrong odds.
        let (foretold, truth) = rare(|score| 2.0 * score - 1.0);
        let surety = calibrated(&foretold, &whole(&truth)).1;
        assert!((surety.sharpness - 0.5).abs() < 0.05, "{surety:?}");
        for score in [-1.5, 1.5] {
            let odds = put_right(&surety, 2.0 * score - 1.0);
            assert!((odds - (score - 2.5)).abs() < 0.15, "{score}: {odds}");
        }
        // A run that says nothing says about the share of the class. Sharpness alone would make one in two of it, and so keeps what the run says.
        let noise = |i: usize| [-3.0, -1.0, 1.0, 3.0][i % 4];
        let truth: Vec<usize> = (0..400).map(|i| usize::from(i / 4 % 10 == 0)).collect();
        let usual = (1.0_f64 / 9.0).ln();
        let p = |i: usize| logistic(usual + noise(i));
        let foretold: Vec<f64> = (0..400).flat_map(|i| [1.0 - p(i), p(i)]).collect();
        let surety = calibrated(&foretold, &whole(&truth)).1;
        for score in [-3.0, 3.0] {
            let away = put_right(&surety, usual + score) - usual;
            assert!(away.abs() < 1.0, "{score}: {away}");
        }
        let alone = sharpest(&foretold, &whole(&truth)).sharpness;
        assert!(alone > 1.5 * surety.sharpness, "{alone}, {surety:?}");
        // Few labels say little.
        let surety = calibrated(&[0.1, 0.9, 0.8, 0.2], &whole(&[1, 0])).1;
        let shift = surety.shifts[1].abs();
        assert!(surety.sharpness < 1.5 && shift < 0.5, "{surety:?}");
        let surely = calibrated(&[0.0, 1.0, 1.0, 0.0, 0.0, 1.0], &whole(&[1, 0, 0])).1;
        assert!(surely.shifts[1].is_finite());
    }

    /// Three classes of which one in ten and one in five are rare: whatever a run says beside their shares is blunted, and they keep these; a class too many or too few does no harm.
    #[test]
    fn rare_classes_keep_their_shares() {
        let shares = [0.7, 0.2, 0.1];
        let truth: Vec<usize> = (0..600)
            .map(|i| [0, 0, 0, 0, 0, 0, 0, 1, 1, 2][i / 9 % 10])
            .collect();
        let noise = |i: usize, class: usize| [-2.0, 0.0, 2.0][(i + i / 3 * class) % 3];
        let of_label = |i: usize| {
            let odds = (0..3).map(|c| shares[c] * f64::exp(noise(i, c)));
            let sum: f64 = odds.clone().sum();
            odds.map(move |o| o / sum).collect::<Vec<_>>()
        };
        let foretold: Vec<f64> = (0..600).flat_map(of_label).collect();
        let (value, surety) = calibrated(&foretold, &whole(&truth));
        assert!(surety.sharpness < 0.35, "{surety:?}");
        let mut mean = [0.0; 3];
        for p in foretold.chunks_exact(3) {
            let p = surety.of(p, 1.0);
            (0..3).for_each(|c| mean[c] += p[c] / 600.0);
        }
        for (mean, share) in mean.iter().zip(shares) {
            assert!((mean - share).abs() < 0.03, "{mean:?} {share}");
        }
        // What came true is no more probable by other shifts.
        for class in [1, 2] {
            for by in [-0.2, 0.2] {
                let mut other = surety.clone();
                other.shifts[class] += by;
                let ln_true = |surety: &Surety| -> f64 {
                    let each = foretold.chunks_exact(3).zip(&truth);
                    each.map(|(p, &class)| surety.of(p, 1.0)[class].ln()).sum()
                };
                assert!(ln_true(&other) < ln_true(&surety), "{class} {by}");
            }
        }
        assert!(value.is_finite());
    }

    /// Less is done where less is seen, about the odds of the labels; a run that has nothing to be put right keeps even what is next to 0.
    #[test]
    fn rows_of_which_less_is_seen_are_put_right_by_less() {
        let p = [0.2, 0.7, 0.1];
        let about = vec![0.0, 0.6, -0.3];
        for (sharpness, beside) in [(2.5, [0.0, 0.4, -1.0]), (0.3, [0.0, -0.2, 0.7])] {
            let each = beside.iter().zip(&about);
            let surety = Surety {
                sharpness,
                shifts: each.map(|(d, c)| d + (1.0 - sharpness) * c).collect(),
                about: about.clone(),
            };
            for extent in [0.0, 0.3, 1.0] {
                let found = surety.of(&p, extent);
                for k in 1..3 {
                    let l = (p[k] / p[0]).ln() - about[k];
                    let wanted = about[k] + sharpness.powf(extent) * l + beside[k];
                    assert!(near((found[k] / found[0]).ln(), wanted), "{extent} {k}");
                }
            }
        }
        let alone = Surety::sharpness(1.8);
        assert_eq!(alone.of(&p, 0.0), p);
        let half = alone.of(&alone.of(&p, 0.5), 0.5);
        assert!(half.iter().zip(alone.of(&p, 1.0)).all(|(a, b)| near(*a, b)));
        let tiny = [1e-200, 1.0];
        assert_eq!(Surety::default().of(&tiny, 1.0), tiny);
        assert!(Surety::default().of(&[f64::NAN, 0.5], 1.0)[0].is_nan());
        assert!(Surety::sharpness(2.0).of(&[f64::NAN, 0.5], 1.0)[0].is_nan());
        assert_eq!(extents(&[0.0, 0.3, 0.6, 0.9], 0.6), [0.0, 0.5, 1.0, 1.0]);
        assert_eq!(extents(&[0.0, 1.0], 0.0), [1.0, 1.0]);
    }

    /// Half of the rows are seen by half, and there what is said is off by less: what is found is of the others.
    #[test]
    fn rows_with_more_holes_do_not_spoil_what_is_found() {
        let (mut foretold, mut truth, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for extent in [0.5, 1.0] {
            for said in [-2.0, -0.5, 0.5, 2.0] {
                let right = logistic(f64::powf(2.0, extent) * said);
                for i in 0..2000 {
                    foretold.extend([logistic(-said), logistic(said)]);
                    truth.push(usize::from(f64::from(i) < 2000.0 * right));
                    all.push(extent);
                }
            }
        }
        let labels = LeftOut {
            truth,
            extents: all,
        };
        for found in [
            sharpest(&foretold, &labels),
            calibrated(&foretold, &labels).1,
        ] {
            assert!((found.sharpness - 2.0).abs() < 0.11, "{found:?}");
            assert!(
                found.shifts.iter().all(|shift| shift.abs() < 0.1),
                "{found:?}"
            );
        }
        let alike = sharpest(&foretold, &whole(&labels.truth));
        assert!(alike.sharpness < 1.8, "{alike:?}");
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
