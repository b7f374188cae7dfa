//! Held-out prediction: rows with labels are dealt to folds, and members that were trained without a fold predict its labels.

use std::collections::HashMap;

use npb_data::Labels;
use npb_infer::stream;
use rand::seq::SliceRandom;

/// Key of the random stream that deals rows to folds.
const FOLDS: u64 = 6;

/// Held-out labels by which members of a fit of many rows are weighed, about.
const ENOUGH_LABELS: usize = 6000;

/// Probabilities of the classes that members gave to labels without having seen them.
pub(crate) struct HeldOut {
    /// Member; label, class.
    pub(crate) by_member: Vec<Vec<f64>>,
    /// The classes, by label.
    pub(crate) truth: Vec<usize>,
}

impl HeldOut {
    /// What members gave that have iterations.
    pub(crate) fn trained(mut self, iterations: &[u64]) -> Self {
        let mut each = iterations.iter();
        self.by_member.retain(|_| each.next() != Some(&0));
        self
    }
}

/// The rows of one set of labels, a fold in and a fold out.
pub(crate) struct Side {
    pub(crate) kept: Vec<usize>,
    pub(crate) left_out: Vec<usize>,
}

/// The sides of each fold, one for each set of labels; no fold when there are too few labels, or fewer than two folds are wanted.
pub(crate) fn sides(sets: &[&Labels], n_folds: usize, seed: u64) -> Vec<Vec<Side>> {
    // The only label of a class stays in all members: those without it would not know the class.
    let dealt = class_counts(sets).into_iter().filter(|(_, n)| *n > 1);
    let (classes, counts): (Vec<&str>, Vec<usize>) = dealt.unzip();
    let n_folds = n_folds.min(counts.into_iter().min().unwrap_or(0));
    if n_folds < 2 || classes.len() < 2 {
        return Vec::new();
    }
    let folds = deal(sets, &classes, n_folds, seed);
    let of_fold = |fold: usize| {
        let side = |folds: &Vec<Option<usize>>| {
            let (left_out, kept) = (0..folds.len()).partition(|&i| folds[i] == Some(fold));
            Side { kept, left_out }
        };
        folds.iter().map(side).collect()
    };
    (0..n_folds).map(of_fold).collect()
}

/// The number of folds, no more than are asked for, of which one keeps about `n_kept` rows, if there are more of them.
pub(crate) fn folds_that_keep(n_kept: usize, n_rows: usize, n_folds: usize) -> usize {
    match n_rows.saturating_sub(n_kept) {
        0 => n_folds,
        others => (n_rows / others).max(2).min(n_folds),
    }
}

/// Keeps the first folds, of which so many labels are left out that more would hardly change what they say of members.
pub(crate) fn keep_enough(folds: &mut Vec<Vec<Side>>) {
    let mut n_labels = 0;
    folds.retain(|sides| {
        let wanted = n_labels < ENOUGH_LABELS;
        n_labels += sides.iter().map(|of| of.left_out.len()).sum::<usize>();
        wanted
    });
}

/// Number of labels of each class that has some, all sets together.
fn class_counts<'a>(sets: &[&'a Labels]) -> Vec<(&'a str, usize)> {
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
pub(crate) fn truth(sets: &[&Labels], classes: &[String], folds: &[Vec<Side>]) -> Vec<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_labels_need_fewer_folds() {
        let kept = |n: usize| {
            let labels = Labels::from_strings(&[Some("a"), Some("b")].repeat(n / 2));
            let mut folds = sides(&[&labels], 5, 1);
            keep_enough(&mut folds);
            folds.len()
        };
        // A fifth of them in each fold.
        let labels = [4_000, 12_500, 15_000, 30_000];
        assert_eq!(labels.map(kept), [5, 3, 2, 1]);
    }

    #[test]
    fn folds_of_many_rows_keep_those_by_which_runs_start() {
        let folds = |n: usize| folds_that_keep(100, n, 5);
        // None is left over; a sixth, a quarter, nearly a half and a half of them are.
        assert_eq!([100, 120, 134, 190, 200].map(folds), [5, 5, 3, 2, 2]);
        assert_eq!(folds_that_keep(100, 200, 0), 0);
    }

    /// Five tasks with one rare label each: every fold has one of them.
    #[test]
    fn a_rare_class_is_spread_over_the_folds_of_all_tasks() {
        let task = Labels::from_strings(&["a", "a", "a", "a", "b"].map(Some));
        let sets = [&task; 5];
        let folds = sides(&sets, 5, 1);
        for fold in &folds {
            let left_out = fold.iter().flat_map(|side| &side.left_out);
            assert_eq!(left_out.clone().count(), 5);
            assert_eq!(left_out.filter(|&&i| i == 4).count(), 1);
        }
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
        let folds = sides(&[&labels(4, &["c"])], 5, 1);
        assert_eq!(folds.len(), 4);
        for fold in &folds {
            assert!(fold[0].kept.contains(&8) && fold[0].left_out.len() == 2);
        }
        // With two of it there are two folds; with two classes, one of them with one label, nothing can be held out.
        assert_eq!(sides(&[&labels(4, &["c", "c"])], 5, 1).len(), 2);
        let two = Labels::from_strings(&[Some("a"), Some("a"), Some("a"), Some("b")]);
        assert!(sides(&[&two], 5, 1).is_empty());
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
