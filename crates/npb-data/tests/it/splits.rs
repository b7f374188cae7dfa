//! Drawn masks and splits.

use crate::rng;
use npb_data::splits::{self, Split, SplitError};
use npb_data::{Labels, Table};
use rand::RngExt;

/// 100 rows: 10 of "a", 85 of "b", 5 unlabelled.
fn labels() -> Labels {
    let label = |i| {
        if i % 10 == 0 {
            Some("a")
        } else if i % 20 == 7 {
            None
        } else {
            Some("b")
        }
    };
    Labels::from_strings(&(0..100).map(label).collect::<Vec<_>>())
}

fn assert_partition(split: &Split, n_rows: usize) {
    let mut rows = [&split.train[..], &split.test].concat();
    rows.sort_unstable();
    assert_eq!(rows, (0..n_rows).collect::<Vec<_>>());
    assert!(split.train.is_sorted() && split.test.is_sorted());
}

fn assert_folds(folds: &[Split], n_rows: usize) {
    folds.iter().for_each(|f| assert_partition(f, n_rows));
    let mut tested: Vec<usize> = folds.iter().flat_map(|f| &f.test).copied().collect();
    tested.sort_unstable();
    assert_eq!(tested, (0..n_rows).collect::<Vec<_>>());
}

#[test]
fn hidden_cells_are_observed_cells_in_the_right_number() {
    let mut rng = rng(1);
    let values: Vec<f64> = (0..600)
        .map(|_| if rng.random_bool(0.2) { f64::NAN } else { 1.0 })
        .collect();
    let table = Table::from_nan_coded(60, 10, &values).expect("valid");
    let n_observed = 600 - table.n_missing();
    let mask = splits::missing_at_random(&table, 0.25, &mut rng).expect("valid");
    assert_eq!(
        mask.count_ones(),
        (0.25 * n_observed as f64).round_ties_even() as usize
    );
    let hidden = table.hide(&mask).expect("same shape");
    assert_eq!(hidden.n_missing(), table.n_missing() + mask.count_ones());
    assert_eq!(
        splits::missing_at_random(&table, 0.0, &mut rng)
            .expect("valid")
            .count_ones(),
        0
    );
    assert_eq!(
        splits::missing_at_random(&table, 1.0, &mut rng)
            .expect("valid")
            .count_ones(),
        n_observed
    );
    for bad in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(
            splits::missing_at_random(&table, bad, &mut rng),
            Err(SplitError::Fraction { .. })
        ));
    }
}

/// Every cell is hidden equally often: chi-square on 12 cells over 4,000 masks, level about 1e-4 (11 degrees of freedom: 37.4).
#[test]
fn hidden_cells_are_uniform() {
    let table = Table::complete(3, 4, vec![1.0; 12]).expect("valid");
    let mut rng = rng(2);
    let mut counts = [0.0; 12];
    for _ in 0..4000 {
        let mask = splits::missing_at_random(&table, 0.5, &mut rng).expect("valid");
        (0..12).for_each(|c| counts[c] += f64::from(mask.get(c / 4, c % 4)));
    }
    // Six of twelve cells without replacement: the variance of a count is n/4 and cells are slightly negatively correlated.
    let statistic: f64 = counts
        .iter()
        .map(|c| (c - 2000.0_f64).powi(2) / 1000.0)
        .sum::<f64>()
        * 11.0
        / 12.0;
    assert!(statistic < 37.4, "{statistic}: {counts:?}");
}

#[test]
fn random_splits() {
    let split = splits::random(351, 0.5, &mut rng(3)).expect("valid");
    assert_partition(&split, 351);
    assert_eq!(split.train.len(), 176, "175.5 to even");
    assert_eq!(split, splits::random(351, 0.5, &mut rng(3)).expect("valid"));
    assert_ne!(split, splits::random(351, 0.5, &mut rng(4)).expect("valid"));
    for (n_rows, fraction) in [(0, 0.5), (1, 0.5), (10, 0.01), (10, 0.99)] {
        assert!(matches!(
            splits::random(n_rows, fraction, &mut rng(1)),
            Err(SplitError::EmptySide { .. })
        ));
    }
    for fraction in [0.0, 1.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            splits::random(10, fraction, &mut rng(1)),
            Err(SplitError::Fraction { .. })
        ));
    }
}

#[test]
fn both_classes_on_both_sides() {
    let two_of_fifty =
        Labels::from_integers(&(0..50).map(|i| Some(i64::from(i < 2))).collect::<Vec<_>>());
    let positive = two_of_fifty.binary("1").expect("two classes");
    for seed in 0..50 {
        let split =
            splits::random_with_every_class(&two_of_fifty, 0.2, &mut rng(seed)).expect("possible");
        assert_partition(&split, 50);
        assert_eq!(split.train.len(), 10);
        for side in [&split.train, &split.test] {
            assert!(side.iter().any(|&i| positive[i] == Some(true)));
        }
    }
    // Without the redraw, a side without the rare class turns up: the property above is not automatic.
    let plain = (0..50).map(|seed| splits::random(50, 0.2, &mut rng(seed)).expect("valid"));
    assert!(
        plain
            .into_iter()
            .any(|s| !s.train.contains(&0) && !s.train.contains(&1))
    );
    let one_class = Labels::from_integers(&[Some(1); 10]);
    let error = splits::random_with_every_class(&one_class, 0.5, &mut rng(1));
    assert_eq!(error, Err(SplitError::TooFewClasses { found: 1 }));
    let lonely = Labels::from_integers(&[Some(1), Some(2), Some(2), Some(2)]);
    assert!(matches!(
        splits::random_with_every_class(&lonely, 0.5, &mut rng(1)),
        Err(SplitError::SmallClass { rows: 1, .. })
    ));
    let crowded = Labels::from_integers(&[1, 1, 2, 2, 3, 3].map(Some));
    let error = splits::random_with_every_class(&crowded, 0.3, &mut rng(1));
    assert!(
        matches!(error, Err(SplitError::NoDraw { .. })),
        "three classes do not fit two rows"
    );
}

#[test]
fn stratified_splits_keep_class_shares() {
    let labels = labels();
    let split = splits::stratified(&labels, 0.3, &mut rng(5)).expect("valid");
    assert_partition(&split, 100);
    assert_eq!(labels.select_rows(&split.train).counts(), [3, 26]);
    assert_eq!(
        split
            .train
            .iter()
            .filter(|&&i| labels.codes()[i].is_none())
            .count(),
        2,
        "1.5 to even"
    );
    let tiny = splits::stratified(&labels, 0.02, &mut rng(5)).expect("valid");
    assert_eq!(
        labels.select_rows(&tiny.train).counts(),
        [1, 2],
        "at least one of each class"
    );
    // 0.9 of two rows rounds to both.
    let small = Labels::from_strings(&["a", "a", "b", "b", "b", "b", "b", "b", "b", "b"].map(Some));
    let split = splits::stratified(&small, 0.9, &mut rng(5)).expect("valid");
    assert_eq!(
        small.select_rows(&split.test).counts(),
        [1, 1],
        "one of each class is tested"
    );
}

#[test]
fn grouped_splits_keep_groups_whole() {
    let groups: Vec<String> = (0..60).map(|i| format!("mouse {}", i % 7)).collect();
    let split = splits::grouped(&groups, 0.5, &mut rng(6)).expect("valid");
    assert_partition(&split, 60);
    let of = |rows: &[usize]| {
        rows.iter()
            .map(|&i| &groups[i])
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert!(of(&split.train).is_disjoint(&of(&split.test)));
    assert_eq!(of(&split.train).len(), 4, "3.5 to even");
    assert!(matches!(
        splits::grouped(&[1, 1, 1], 0.5, &mut rng(1)),
        Err(SplitError::EmptySide { n_rows: 1, .. })
    ));
    let folds = splits::grouped_k_fold(&groups, 3, &mut rng(7)).expect("valid");
    assert_folds(&folds, 60);
    folds
        .iter()
        .for_each(|f| assert!(of(&f.train).is_disjoint(&of(&f.test))));
    // Groups of 12, 4, 4, 4 rows: the large one alone, whatever the order of the draws.
    let unequal: Vec<usize> = (0..24_usize).map(|i| i.saturating_sub(8) / 4).collect();
    for seed in 0..10 {
        let folds = splits::grouped_k_fold(&unequal, 2, &mut rng(seed)).expect("valid");
        assert!(folds.iter().all(|f| f.test.len() == 12));
    }
    assert!(matches!(
        splits::grouped_k_fold(&groups, 8, &mut rng(1)),
        Err(SplitError::Folds { items: 7, .. })
    ));
}

#[test]
fn folds_cover_every_row_once() {
    let folds = splits::k_fold(23, 5, &mut rng(8)).expect("valid");
    assert_folds(&folds, 23);
    assert!(folds.iter().all(|f| [4, 5].contains(&f.test.len())));
    let labels = labels();
    let folds = splits::stratified_k_fold(&labels, 4, &mut rng(9)).expect("valid");
    assert_folds(&folds, 100);
    for fold in &folds {
        assert_eq!(fold.test.len(), 25);
        let counts = labels.select_rows(&fold.test).counts();
        assert!(
            [2, 3].contains(&counts[0]) && [21, 22].contains(&counts[1]),
            "{counts:?}"
        );
    }
    for folds in [0, 1, 24] {
        assert!(matches!(
            splits::k_fold(23, folds, &mut rng(1)),
            Err(SplitError::Folds { .. })
        ));
    }
    assert!(matches!(
        splits::stratified_k_fold(&labels, 11, &mut rng(1)),
        Err(SplitError::SmallClass { rows: 10, .. })
    ));
}

#[test]
fn splits_from_rows_are_checked() {
    let split = Split::from_test_rows(5, &[3, 0]).expect("valid");
    assert_eq!((split.train, split.test), (vec![1, 2, 4], vec![0, 3]));
    assert_eq!(
        Split::from_test_rows(5, &[5]),
        Err(SplitError::Row { row: 5, n_rows: 5 })
    );
    assert_eq!(
        Split::from_test_rows(5, &[1, 1]),
        Err(SplitError::Row { row: 1, n_rows: 5 })
    );
    assert_eq!(
        Split::new(5, vec![1, 2], vec![0, 2]),
        Err(SplitError::Row { row: 2, n_rows: 5 })
    );
    assert_eq!(
        Split::new(5, vec![2, 1], vec![0]).expect("valid").train,
        [1, 2]
    );
}

#[test]
fn sampled_rows_are_distinct_and_uniform() {
    let mut rng = rng(10);
    let mut counts = [0.0; 6];
    for _ in 0..6000 {
        let rows = splits::sample_rows(6, 2, &mut rng).expect("valid");
        assert!(rows.len() == 2 && rows[0] < rows[1]);
        rows.iter().for_each(|&i| counts[i] += 1.0);
    }
    // Counts of 2000 with variance 6000 * (1/3)(2/3); 5 degrees of freedom, level 1e-4: 25.7.
    let statistic: f64 = counts
        .iter()
        .map(|c| (c - 2000.0_f64).powi(2) / (6000.0 * 2.0 / 9.0))
        .sum::<f64>()
        * 5.0
        / 6.0;
    assert!(statistic < 25.7, "{statistic}");
    assert_eq!(splits::sample_rows(4, 4, &mut rng), Ok(vec![0, 1, 2, 3]));
    assert!(splits::sample_rows(4, 5, &mut rng).is_err());
}

#[test]
fn given_examples_are_nested_and_what_is_held_out_is_shared() {
    let liked: Vec<bool> = (0..40).map(|i| i % 3 == 0).collect();
    let sizes = [(2, 2), (10, 10), (5, 5)];
    let mut often = [0; 40];
    for seed in 0..600 {
        let splits = splits::given_examples(&liked, &sizes, &mut rng(seed)).unwrap();
        for (split, (likes, others)) in splits.iter().zip(sizes) {
            let n_liked = split.train.iter().filter(|&&i| liked[i]).count();
            assert_eq!((n_liked, split.train.len()), (likes, likes + others));
            assert_eq!(split.test, splits[1].test);
            assert!(split.train.iter().all(|i| splits[1].train.contains(i)));
        }
        assert_partition(&splits[1], 40);
        splits[0].train.iter().for_each(|&i| often[i] += 1);
    }
    // Each of 14 likes is given 600 x 2 / 14 = 86 times, each of 26 others 46 times.
    for (i, &n) in often.iter().enumerate() {
        let expected = if liked[i] { 600.0 / 7.0 } else { 600.0 / 13.0 };
        assert!(
            (f64::from(n) - expected).abs() < 5.0 * expected.sqrt(),
            "{i}: {n}"
        );
    }
    // All 14 likes cannot be given: none would be left.
    for sizes in [(14, 2), (15, 2), (2, 26)] {
        let error = splits::given_examples(&liked, &[sizes], &mut rng(1)).unwrap_err();
        assert!(
            matches!(error, SplitError::TooFewExamples { .. }),
            "{error}"
        );
    }
}
