//! Drawn masks and splits into training and test rows.
//!
//! Every function takes its generator from the caller and depends on nothing else, so equal seeds give equal splits.
//! Row numbers in a [`Split`] ascend. Sizes are rounded half to even, as the given splits of [`crate::read::given_splits`] are.
//!
//! ```
//! use npb_data::{Labels, Table, splits};
//! use rand::SeedableRng;
//! let rng = &mut rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
//! let table = Table::complete(6, 2, vec![1.0; 12])?;
//! let labels = Labels::from_strings(&["a", "b", "a", "b", "a", "b"].map(Some));
//! // A quarter of the cells go missing; rows with nothing left are dropped, with their labels.
//! let hidden = table.hide(&splits::missing_at_random(&table, 0.25, rng)?)?;
//! let (table, kept) = hidden.drop_empty_rows();
//! let labels = labels.select_rows(&kept);
//! let split = splits::random_with_every_class(&labels, 0.5, rng)?;
//! assert_eq!(split.train.len() + split.test.len(), table.n_rows());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{Labels, Mask, Table};
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rows for training and rows for testing, ascending and disjoint; rows in neither are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Training rows.
    pub train: Vec<usize>,
    /// Test rows.
    pub test: Vec<usize>,
}

/// A split or a mask that cannot be drawn as asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// A fraction outside its range.
    #[error("{what} is {value}; it must be {rule}")]
    Fraction {
        /// The argument.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
    /// One side would have no rows.
    #[error(
        "{n_rows} rows with training fraction {train_fraction} leave one side empty; both sides need at least one row"
    )]
    EmptySide {
        /// Number of rows, or of groups for a grouped split.
        n_rows: usize,
        /// The fraction asked for.
        train_fraction: f64,
    },
    /// A class that cannot be on both sides.
    #[error("class {class:?} has {rows} rows; {needed} are needed to have it on every side")]
    SmallClass {
        /// The class.
        class: String,
        /// Its number of rows.
        rows: usize,
        /// How many rows it needs.
        needed: usize,
    },
    /// No draw had every class on both sides.
    #[error(
        "none of {draws} random splits had every class on both sides; use a stratified split or another training fraction"
    )]
    NoDraw {
        /// How many splits were drawn.
        draws: usize,
    },
    /// Fewer than two classes where both sides need two.
    #[error("labels have {found} classes with rows; at least 2 are needed")]
    TooFewClasses {
        /// Number of classes that have rows.
        found: usize,
    },
    /// An impossible number of folds.
    #[error("{folds} folds of {items} {what}; there must be from 2 to {items} folds")]
    Folds {
        /// Folds asked for.
        folds: usize,
        /// Rows or groups there are.
        items: usize,
        /// "rows" or "groups".
        what: &'static str,
    },
    /// More examples asked for than there are, or none left to hold out.
    #[error(
        "{asked} {class} examples of {found} cannot be given and others held out; ask for fewer, or leave the user out"
    )]
    TooFewExamples {
        /// "positive" or "negative".
        class: &'static str,
        /// How many were asked for.
        asked: usize,
        /// How many there are.
        found: usize,
    },
    /// A row number out of range or on both sides.
    #[error("row {row} is out of range or on both sides; rows are from 0 to {n_rows} (excluded)")]
    Row {
        /// The row.
        row: usize,
        /// Number of rows.
        n_rows: usize,
    },
}

impl Split {
    /// A split from row numbers in any order.
    ///
    /// # Errors
    /// [`SplitError::Row`] when a row does not exist, is repeated or is on both sides.
    pub fn new(
        n_rows: usize,
        mut train: Vec<usize>,
        mut test: Vec<usize>,
    ) -> Result<Self, SplitError> {
        let mut used = vec![false; n_rows];
        for &row in train.iter().chain(&test) {
            if row >= n_rows || std::mem::replace(&mut used[row], true) {
                return Err(SplitError::Row { row, n_rows });
            }
        }
        train.sort_unstable();
        test.sort_unstable();
        Ok(Self { train, test })
    }

    /// The split whose test rows are given (in any order) and whose training rows are all others.
    ///
    /// # Errors
    /// [`SplitError::Row`] when a row does not exist or is repeated.
    pub fn from_test_rows(n_rows: usize, test: &[usize]) -> Result<Self, SplitError> {
        let mut is_test = vec![false; n_rows];
        for &row in test {
            if row >= n_rows || std::mem::replace(&mut is_test[row], true) {
                return Err(SplitError::Row { row, n_rows });
            }
        }
        Ok(Self::from_flags(&is_test))
    }

    /// The split whose test rows are marked true.
    fn from_flags(is_test: &[bool]) -> Self {
        let (test, train) = (0..is_test.len()).partition(|&i| is_test[i]);
        Self { train, test }
    }
}

/// Cells to hide, missing completely at random: `round(fraction * observed cells)` of the observed cells of `table`, uniformly.
///
/// Pass the result to [`Table::hide`]; rows may be left empty, see [`Table::drop_empty_rows`]. Cost: one shuffle of the observed
/// cells.
///
/// # Errors
/// [`SplitError::Fraction`] when `fraction` is not from 0 to 1.
pub fn missing_at_random(
    table: &Table,
    fraction: f64,
    rng: &mut (impl Rng + ?Sized),
) -> Result<Mask, SplitError> {
    if !(0.0..=1.0).contains(&fraction) {
        return Err(SplitError::Fraction {
            what: "missing fraction",
            value: fraction,
            rule: "from 0 to 1",
        });
    }
    let observed = table.observed();
    let cells = (0..table.n_rows()).flat_map(|i| observed.ones_in_row(i).map(move |j| (i, j)));
    let mut cells: Vec<(usize, usize)> = cells.collect();
    let n_hidden = rounded(fraction, cells.len());
    let mut mask = observed.clone();
    mask.clear_where(observed);
    for &(i, j) in cells.partial_shuffle(rng, n_hidden).0.iter() {
        mask.set(i, j, true);
    }
    Ok(mask)
}

/// A random split with `round(train_fraction * n_rows)` training rows.
///
/// # Errors
/// [`SplitError::Fraction`] when the fraction is not between 0 and 1, [`SplitError::EmptySide`] when a side would be empty.
pub fn random(
    n_rows: usize,
    train_fraction: f64,
    rng: &mut (impl Rng + ?Sized),
) -> Result<Split, SplitError> {
    let n_train = train_size(n_rows, train_fraction)?;
    let mut order: Vec<usize> = (0..n_rows).collect();
    order.shuffle(rng);
    Ok(split_at(order, n_train))
}

/// A random split, drawn again until both sides have every class (at least two classes must have rows).
///
/// The draw is uniform over the splits of that size with that property; unlabelled rows are split along. Gives up after 10,000 draws.
///
/// # Errors
/// As [`random`]; [`SplitError::TooFewClasses`]; [`SplitError::SmallClass`] for a class with one row; [`SplitError::NoDraw`].
pub fn random_with_every_class(
    labels: &Labels,
    train_fraction: f64,
    rng: &mut (impl Rng + ?Sized),
) -> Result<Split, SplitError> {
    const DRAWS: usize = 10_000;
    let n_train = train_size(labels.n_rows(), train_fraction)?;
    let present = classes_with_rows(labels, 2)?;
    if present < 2 {
        return Err(SplitError::TooFewClasses { found: present });
    }
    let mut order: Vec<usize> = (0..labels.n_rows()).collect();
    for _ in 0..DRAWS {
        order.shuffle(rng);
        let (train, test) = order.split_at(n_train);
        if n_classes_among(labels, train) == present && n_classes_among(labels, test) == present {
            return Ok(split_at(order, n_train));
        }
    }
    Err(SplitError::NoDraw { draws: DRAWS })
}

/// A split that takes the training fraction from every class separately, at least one row of each class on each side.
///
/// Unlabelled rows are split as one more class, except that they need not be on both sides.
///
/// # Errors
/// [`SplitError::Fraction`], [`SplitError::EmptySide`] without rows, [`SplitError::SmallClass`] for a class with one row.
pub fn stratified(
    labels: &Labels,
    train_fraction: f64,
    rng: &mut (impl Rng + ?Sized),
) -> Result<Split, SplitError> {
    train_size(labels.n_rows(), train_fraction)?;
    classes_with_rows(labels, 2)?;
    let mut is_test = vec![true; labels.n_rows()];
    for (class, mut rows) in rows_of_classes(labels) {
        rows.shuffle(rng);
        let wanted = rounded(train_fraction, rows.len());
        let n_train = if class.is_some() {
            wanted.clamp(1, rows.len() - 1)
        } else {
            wanted
        };
        rows[..n_train].iter().for_each(|&i| is_test[i] = false);
    }
    Ok(Split::from_flags(&is_test))
}

/// A split with whole groups on one side: `round(train_fraction * groups)` of the groups, at least one on each side, are for
/// training.
///
/// `groups` has the group of every row.
///
/// # Errors
/// [`SplitError::Fraction`]; [`SplitError::EmptySide`] with fewer than two groups.
pub fn grouped<G: Ord>(
    groups: &[G],
    train_fraction: f64,
    rng: &mut (impl Rng + ?Sized),
) -> Result<Split, SplitError> {
    let mut members = rows_of_groups(groups);
    let n_groups = members.len();
    check_fraction(train_fraction)?;
    if n_groups < 2 {
        return Err(SplitError::EmptySide {
            n_rows: n_groups,
            train_fraction,
        });
    }
    members.shuffle(rng);
    let n_train = rounded(train_fraction, n_groups).clamp(1, n_groups - 1);
    let mut is_test = vec![true; groups.len()];
    members[..n_train]
        .iter()
        .flatten()
        .for_each(|&i| is_test[i] = false);
    Ok(Split::from_flags(&is_test))
}

/// `folds` splits; each row is a test row in exactly one. Fold sizes differ by at most one.
///
/// # Errors
/// [`SplitError::Folds`] unless `2 <= folds <= n_rows`.
pub fn k_fold(
    n_rows: usize,
    folds: usize,
    rng: &mut (impl Rng + ?Sized),
) -> Result<Vec<Split>, SplitError> {
    check_folds(folds, n_rows, "rows")?;
    let mut order: Vec<usize> = (0..n_rows).collect();
    order.shuffle(rng);
    let mut fold_of = vec![0; n_rows];
    order
        .iter()
        .enumerate()
        .for_each(|(k, &row)| fold_of[row] = k % folds);
    Ok(splits_of_folds(&fold_of, folds))
}

/// `folds` splits with the rows of every class spread evenly: fold sizes, and the rows of a class in a fold, differ by at most one.
///
/// Unlabelled rows are spread as one more class.
///
/// # Errors
/// [`SplitError::Folds`] unless `2 <= folds <= n_rows`; [`SplitError::SmallClass`] for a class with fewer rows than folds.
pub fn stratified_k_fold(
    labels: &Labels,
    folds: usize,
    rng: &mut (impl Rng + ?Sized),
) -> Result<Vec<Split>, SplitError> {
    check_folds(folds, labels.n_rows(), "rows")?;
    classes_with_rows(labels, folds)?;
    let mut fold_of = vec![0; labels.n_rows()];
    let mut dealt = 0;
    for (_, mut rows) in rows_of_classes(labels) {
        rows.shuffle(rng);
        for row in rows {
            fold_of[row] = dealt % folds;
            dealt += 1;
        }
    }
    Ok(splits_of_folds(&fold_of, folds))
}

/// `folds` splits with whole groups in one fold; large groups are placed first, each into the fold that has fewest rows so far.
///
/// # Errors
/// [`SplitError::Folds`] unless there are from 2 to as many folds as groups.
pub fn grouped_k_fold<G: Ord>(
    groups: &[G],
    folds: usize,
    rng: &mut (impl Rng + ?Sized),
) -> Result<Vec<Split>, SplitError> {
    let mut members = rows_of_groups(groups);
    check_folds(folds, members.len(), "groups")?;
    members.shuffle(rng);
    members.sort_by_key(|rows| std::cmp::Reverse(rows.len()));
    let (mut sizes, mut fold_of) = (vec![0_usize; folds], vec![0; groups.len()]);
    for rows in members {
        let fold = (0..folds).min_by_key(|&f| sizes[f]).unwrap_or(0);
        sizes[fold] += rows.len();
        rows.into_iter().for_each(|row| fold_of[row] = fold);
    }
    Ok(splits_of_folds(&fold_of, folds))
}

/// Examples of one user given to a model (the training rows), the others held out: for every (positive, negative) of `sizes` that many of each class, drawn
/// uniformly. Larger sets hold the smaller ones, and what the *largest* holds out is held out by all, so that curves over the number of examples compare on
/// the same items.
///
/// `positive` has the class of every example. For the chapter's protocol give `&[(10, 10)]`: ten liked and ten disliked.
///
/// # Errors
/// [`SplitError::TooFewExamples`] unless at least one example of each class is left after the largest numbers asked for.
///
/// ```
/// use npb_data::splits::given_examples;
/// use rand::SeedableRng;
/// let rng = &mut rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
/// let liked = [true, true, true, false, false, false];
/// let splits = given_examples(&liked, &[(1, 1), (2, 2)], rng)?;
/// assert_eq!((splits[0].train.len(), splits[1].train.len()), (2, 4));
/// assert_eq!(splits[0].test, splits[1].test);
/// # Ok::<(), npb_data::splits::SplitError>(())
/// ```
pub fn given_examples(
    positive: &[bool],
    sizes: &[(usize, usize)],
    rng: &mut (impl Rng + ?Sized),
) -> Result<Vec<Split>, SplitError> {
    let (mut likes, mut others): (Vec<usize>, Vec<usize>) =
        (0..positive.len()).partition(|&i| positive[i]);
    let most = |of: fn(&(usize, usize)) -> usize| sizes.iter().map(of).max().unwrap_or(0);
    let (most_likes, most_others) = (most(|s| s.0), most(|s| s.1));
    for (class, asked, found) in [
        ("positive", most_likes, likes.len()),
        ("negative", most_others, others.len()),
    ] {
        if asked >= found {
            return Err(SplitError::TooFewExamples {
                class,
                asked,
                found,
            });
        }
    }
    likes.shuffle(rng);
    others.shuffle(rng);
    let mut test = [&likes[most_likes..], &others[most_others..]].concat();
    test.sort_unstable();
    let split = |&(n_likes, n_others): &(usize, usize)| {
        let mut train = [&likes[..n_likes], &others[..n_others]].concat();
        train.sort_unstable();
        Split {
            train,
            test: test.clone(),
        }
    };
    Ok(sizes.iter().map(split).collect())
}

/// `n` distinct rows of `n_rows`, ascending, uniformly.
///
/// # Errors
/// [`SplitError::Row`] when `n > n_rows`.
pub fn sample_rows(
    n_rows: usize,
    n: usize,
    rng: &mut (impl Rng + ?Sized),
) -> Result<Vec<usize>, SplitError> {
    if n > n_rows {
        return Err(SplitError::Row { row: n - 1, n_rows });
    }
    // Floyd's algorithm: n draws, whatever n_rows is.
    let mut chosen = std::collections::BTreeSet::new();
    for last in n_rows - n..n_rows {
        let row = rng.random_range(0..=last);
        if !chosen.insert(row) {
            chosen.insert(last);
        }
    }
    Ok(chosen.into_iter().collect())
}

/// `fraction * n`, rounded half to even.
fn rounded(fraction: f64, n: usize) -> usize {
    ((fraction * n as f64).round_ties_even() as usize).min(n)
}

fn check_fraction(train_fraction: f64) -> Result<(), SplitError> {
    if train_fraction > 0.0 && train_fraction < 1.0 {
        return Ok(());
    }
    Err(SplitError::Fraction {
        what: "training fraction",
        value: train_fraction,
        rule: "between 0 and 1 (excluded)",
    })
}

fn train_size(n_rows: usize, train_fraction: f64) -> Result<usize, SplitError> {
    check_fraction(train_fraction)?;
    let n_train = rounded(train_fraction, n_rows);
    if n_train == 0 || n_train == n_rows {
        return Err(SplitError::EmptySide {
            n_rows,
            train_fraction,
        });
    }
    Ok(n_train)
}

fn check_folds(folds: usize, items: usize, what: &'static str) -> Result<(), SplitError> {
    if folds >= 2 && folds <= items {
        Ok(())
    } else {
        Err(SplitError::Folds { folds, items, what })
    }
}

/// The first `n_train` rows of `order` for training, the others for testing.
fn split_at(mut order: Vec<usize>, n_train: usize) -> Split {
    let mut test = order.split_off(n_train);
    order.sort_unstable();
    test.sort_unstable();
    Split { train: order, test }
}

fn splits_of_folds(fold_of: &[usize], folds: usize) -> Vec<Split> {
    let of_fold =
        |fold| Split::from_flags(&fold_of.iter().map(|&f| f == fold).collect::<Vec<bool>>());
    (0..folds).map(of_fold).collect()
}

/// Number of classes that have rows; each of them must have at least `needed`.
fn classes_with_rows(labels: &Labels, needed: usize) -> Result<usize, SplitError> {
    let counts = labels.counts();
    match counts.iter().position(|&n| n > 0 && n < needed) {
        Some(c) => Err(SplitError::SmallClass {
            class: labels.classes()[c].clone(),
            rows: counts[c],
            needed,
        }),
        None => Ok(counts.iter().filter(|&&n| n > 0).count()),
    }
}

fn n_classes_among(labels: &Labels, rows: &[usize]) -> usize {
    let mut seen = vec![false; labels.n_classes()];
    rows.iter()
        .filter_map(|&i| labels.codes()[i])
        .for_each(|c| seen[c] = true);
    seen.into_iter().filter(|&s| s).count()
}

/// Rows of every class that has rows, `None` for the unlabelled.
fn rows_of_classes(labels: &Labels) -> BTreeMap<Option<usize>, Vec<usize>> {
    let mut rows: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    labels
        .codes()
        .iter()
        .enumerate()
        .for_each(|(i, &code)| rows.entry(code).or_default().push(i));
    rows
}

/// Rows of every group, groups in ascending order.
fn rows_of_groups<G: Ord>(groups: &[G]) -> Vec<Vec<usize>> {
    let mut rows: BTreeMap<&G, Vec<usize>> = BTreeMap::new();
    groups
        .iter()
        .enumerate()
        .for_each(|(i, group)| rows.entry(group).or_default().push(i));
    rows.into_values().collect()
}
