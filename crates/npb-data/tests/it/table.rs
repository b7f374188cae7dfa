//! Tables, patterns, labels, standardisation, stored forms.

use crate::rng;
use npb_data::{DataError, Labels, Mask, PatternIndex, Standardiser, Table};
use rand::RngExt;

const NAN: f64 = f64::NAN;

fn random_table(n_rows: usize, n_cols: usize, seed: u64) -> Table {
    let mut rng = rng(seed);
    let cell = |_| {
        if rng.random_bool(0.3) {
            NAN
        } else {
            rng.random_range(-5.0..5.0)
        }
    };
    let values: Vec<f64> = (0..n_rows * n_cols).map(cell).collect();
    Table::from_nan_coded(n_rows, n_cols, &values).expect("valid")
}

#[test]
fn missing_cells_hold_zero_and_are_not_validated() {
    let table =
        Table::new(1, 3, vec![NAN, f64::INFINITY, 4.0], &[false, false, true]).expect("valid");
    assert_eq!(table.row(0), [0.0, 0.0, 4.0]);
    assert_eq!(table.get(0, 0), None);
    assert_eq!(table.n_missing(), 2);
    assert_eq!(table.observed_in_row(0).collect::<Vec<_>>(), [(2, 4.0)]);
}

#[test]
fn bad_values_and_shapes_are_named() {
    let infinite = Table::from_nan_coded(2, 2, &[1.0, 2.0, 3.0, f64::NEG_INFINITY]);
    assert_eq!(
        infinite,
        Err(DataError::NotFinite {
            row: 1,
            column: 1,
            value: f64::NEG_INFINITY
        })
    );
    // NaN is only a missing mark where the name of the constructor says so.
    assert!(matches!(
        Table::complete(1, 2, vec![0.0, NAN]),
        Err(DataError::NotFinite {
            row: 0,
            column: 1,
            ..
        })
    ));
    assert!(matches!(
        Table::complete(2, 2, vec![0.0; 3]),
        Err(DataError::Length {
            found: 3,
            expected: 4,
            ..
        })
    ));
    assert!(matches!(
        Table::complete(usize::MAX, 2, vec![]),
        Err(DataError::TooLarge { .. })
    ));
    assert!(matches!(
        Mask::new(usize::MAX / 2, 1, false),
        Err(DataError::TooLarge { .. })
    ));
    let names = Table::complete(1, 2, vec![0.0; 2])
        .expect("valid")
        .with_column_names(["a", "a"]);
    assert!(matches!(
        names,
        Err(DataError::DuplicateColumn {
            first: 0,
            second: 1,
            ..
        })
    ));
}

#[test]
fn single_and_double_precision_give_the_same_table() {
    let wide = Table::from_slice(1, 2, &[0.5_f64, 2.0], &[true, true]).expect("valid");
    assert_eq!(
        wide,
        Table::from_slice(1, 2, &[0.5_f32, 2.0], &[true, true]).expect("valid")
    );
    assert_eq!(
        wide,
        Table::from_nan_coded(1, 2, &[0.5_f32, 2.0]).expect("valid")
    );
}

#[test]
fn tables_without_rows_or_columns_exist() {
    for (n_rows, n_cols) in [(0, 0), (0, 3), (3, 0)] {
        let table = Table::complete(n_rows, n_cols, vec![]).expect("valid");
        assert_eq!(
            (table.n_rows(), table.n_cols(), table.n_missing()),
            (n_rows, n_cols, 0)
        );
        assert_eq!(table.patterns().len(), usize::from(n_rows > 0));
        assert_eq!(table.column_stats().len(), n_cols);
        assert_eq!(Standardiser::fit(&table).apply(&table).as_ref(), Ok(&table));
        let text = serde_json::to_string(&table).expect("writes");
        assert_eq!(serde_json::from_str::<Table>(&text).expect("reads"), table);
    }
}

#[test]
fn selecting_hiding_and_stacking() {
    let table = random_table(20, 70, 1);
    let picked = table.select_rows(&[7, 3, 7]);
    for (k, i) in [7, 3, 7].into_iter().enumerate() {
        (0..70).for_each(|j| assert_eq!(picked.get(k, j), table.get(i, j)));
    }
    let columns = table.select_columns(&[69, 2]).expect("distinct");
    assert_eq!(columns.column_names(), ["x69", "x2"]);
    assert_eq!(columns.get(4, 0), table.get(4, 69));
    let mut rng = rng(2);
    let extra = Mask::from_fn(20, 70, |_, _| rng.random_bool(0.5)).expect("small");
    let hidden = table.hide(&extra).expect("same shape");
    for (i, j) in (0..20).flat_map(|i| (0..70).map(move |j| (i, j))) {
        assert_eq!(
            hidden.get(i, j),
            table.get(i, j).filter(|_| !extra.get(i, j))
        );
        assert!(hidden.is_observed(i, j) || hidden.row(i)[j].to_bits() == 0);
    }
    assert!(matches!(
        table.hide(&Mask::new(20, 69, true).expect("small")),
        Err(DataError::Shape { .. })
    ));
    let all: Vec<usize> = (0..20).collect();
    let halves = table
        .select_rows(&all[..9])
        .stack(&table.select_rows(&all[9..]))
        .expect("same columns");
    assert_eq!(halves, table);
}

#[test]
fn empty_rows_are_found_and_dropped() {
    let table = Table::from_nan_coded(3, 2, &[NAN, NAN, 1.0, NAN, NAN, NAN]).expect("valid");
    assert_eq!(table.empty_rows(), [0, 2]);
    let (kept, rows) = table.drop_empty_rows();
    assert_eq!((kept.n_rows(), rows), (1, vec![1]));
}

#[test]
fn columns_are_checked_by_name() {
    let table = Table::complete(1, 2, vec![1.0, 2.0]).expect("valid");
    assert_eq!(
        table.check_columns(&["x0".to_owned(), "x1".to_owned()]),
        Ok(())
    );
    let swapped = table.check_columns(&["x1".to_owned(), "x0".to_owned()]);
    assert!(matches!(
        swapped,
        Err(DataError::ColumnName { column: 0, .. })
    ));
    assert!(matches!(
        table.check_columns(&[]),
        Err(DataError::ColumnCount {
            found: 2,
            expected: 0
        })
    ));
    assert_eq!(table.column_index("x1"), Ok(1));
    assert!(matches!(
        table.column_index("y"),
        Err(DataError::NoSuchColumn { .. })
    ));
}

#[test]
fn pattern_index_agrees_with_the_mask() {
    // 130 columns: three words per row; few distinct rows, so that patterns repeat.
    let base = random_table(5, 130, 3);
    let mut rng = rng(4);
    let rows: Vec<usize> = (0..60).map(|_| rng.random_range(0..5)).collect();
    let table = base.select_rows(&rows);
    let index = table.patterns();
    assert!(index.len() <= 5);
    assert_eq!(index, PatternIndex::new(table.observed()));
    let firsts: Vec<usize> = index.iter().map(|p| p.rows[0]).collect();
    assert!(firsts.is_sorted(), "patterns in order of their first row");
    for (number, pattern) in index.iter().enumerate() {
        assert!(pattern.rows.is_sorted());
        for &i in &pattern.rows {
            assert_eq!(index.pattern_of_row(i), number);
            assert_eq!(
                pattern.observed,
                (0..130)
                    .filter(|&j| table.is_observed(i, j))
                    .collect::<Vec<_>>()
            );
            assert_eq!(
                pattern.missing,
                (0..130)
                    .filter(|&j| !table.is_observed(i, j))
                    .collect::<Vec<_>>()
            );
        }
    }
    assert_eq!(index.iter().map(|p| p.rows.len()).sum::<usize>(), 60);
}

#[test]
fn stored_tables_are_validated() {
    let table = Table::from_nan_coded(2, 2, &[1.0, NAN, 0.1, 4.0]).expect("valid");
    let good = serde_json::to_string(&table).expect("writes");
    assert_eq!(serde_json::from_str::<Table>(&good).expect("reads"), table);
    let altered = [
        ("[1.0,0.0,", "[1.0,7.0,", "must hold 0"),
        (
            "\"words\":[1,3]",
            "\"words\":[1,7]",
            "beyond its last column",
        ),
        ("\"words\":[1,3]", "\"words\":[1]", "mask words"),
        (
            "\"n_rows\":2",
            "\"n_rows\":9223372036854775807",
            "mask words",
        ),
        ("4.0]", "4.0,5.0]", "values"),
        ("[\"x0\",\"x1\"]", "[\"x0\"]", "column names"),
        ("[\"x0\",\"x1\"]", "[\"x0\",\"x0\"]", "name of two columns"),
        ("\"values\"", "\"other\":1,\"values\"", "unknown field"),
    ];
    for (from, to, message) in altered {
        let bad = good.replace(from, to);
        assert_ne!(bad, good, "{from} occurs");
        let error = serde_json::from_str::<Table>(&bad)
            .expect_err(to)
            .to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn column_statistics_by_hand() {
    let table = Table::from_nan_coded(
        4,
        3,
        &[1.0, 5.0, NAN, 2.0, 5.0, NAN, 4.0, NAN, NAN, 9.0, 5.0, NAN],
    )
    .expect("valid");
    let [a, b, c] = table.column_stats()[..] else {
        panic!("three columns")
    };
    assert_eq!((a.n_observed, a.mean, a.min, a.max), (4, 4.0, 1.0, 9.0));
    assert!(
        (a.sd - 9.5_f64.sqrt()).abs() < 1e-15,
        "divisor n, not n - 1: {}",
        a.sd
    );
    assert_eq!((b.n_observed, b.mean, b.sd), (3, 5.0, 0.0));
    assert_eq!((c.n_observed, c.mean, c.sd), (0, 0.0, 0.0));
}

#[test]
fn column_statistics_at_the_ends_of_the_range() {
    for scale in [1e-300, 1e-150, 1e300, 1e307] {
        let stats = Table::complete(3, 1, vec![-scale, scale, 3.0 * scale])
            .expect("valid")
            .column_stats()[0];
        assert!(
            (stats.mean / scale - 1.0).abs() < 1e-14,
            "{scale}: mean {}",
            stats.mean
        );
        assert!(
            (stats.sd / scale - (8.0_f64 / 3.0).sqrt()).abs() < 1e-14,
            "{scale}: sd {}",
            stats.sd
        );
    }
    let stats = Table::complete(2, 1, vec![f64::MAX, -f64::MAX])
        .expect("valid")
        .column_stats()[0];
    assert_eq!((stats.mean, stats.sd), (0.0, f64::MAX));
    let nearly_equal = Table::complete(2, 1, vec![1.0, 1.0 + f64::EPSILON])
        .expect("valid")
        .column_stats()[0];
    assert!(nearly_equal.sd > 0.0);
}

#[test]
fn standard_columns_have_mean_0_and_sd_1() {
    let table = random_table(40, 6, 5);
    let standardiser = Standardiser::fit(&table);
    let standard = standardiser.apply(&table).expect("same columns");
    for stats in standard.column_stats() {
        assert!(stats.mean.abs() < 1e-14 && (stats.sd - 1.0).abs() < 1e-14);
    }
}

#[test]
fn only_training_cells_count() {
    let table = Table::complete(3, 1, vec![0.0, 2.0, 1000.0]).expect("valid");
    let standardiser = Standardiser::fit(&table.select_rows(&[0, 1]));
    assert_eq!(
        standardiser.apply(&table).expect("same columns").values(),
        [-1.0, 1.0, 999.0]
    );
}

#[test]
fn constant_and_empty_columns_are_reported() {
    let table = Table::from_nan_coded(2, 3, &[3.0, NAN, 1.0, 3.0, NAN, 2.0]).expect("valid");
    let standardiser = Standardiser::fit(&table);
    assert_eq!(
        (
            standardiser.constant_columns(),
            standardiser.empty_columns()
        ),
        (&[0][..], &[1][..])
    );
    assert_eq!(standardiser.sd()[..2], [1.0, 1.0]);
    assert_eq!(
        standardiser.apply(&table).expect("same columns").get(0, 0),
        Some(0.0)
    );
    let far = Table::complete(1, 3, vec![0.0, 0.0, 1e308]).expect("valid");
    let narrow = Standardiser::fit(
        &Table::complete(2, 3, vec![0.0, 0.0, 0.0, 1.0, 1.0, 0.1]).expect("valid"),
    );
    assert!(matches!(
        narrow.apply(&far),
        Err(DataError::TooFar {
            row: 0,
            column: 2,
            value: 1e308,
        })
    ));
    let renamed = table.with_column_names(["a", "b", "c"]).expect("distinct");
    assert!(matches!(
        standardiser.apply(&renamed),
        Err(DataError::ColumnName { .. })
    ));
}

#[test]
fn stored_standardisers_are_validated() {
    let standardiser = Standardiser::fit(&Table::complete(2, 1, vec![1.0, 2.0]).expect("valid"));
    let good = serde_json::to_string(&standardiser).expect("writes");
    assert_eq!(
        serde_json::from_str::<Standardiser>(&good).expect("reads"),
        standardiser
    );
    for (from, to) in [
        ("\"sd\":[0.5]", "\"sd\":[0.0]"),
        ("[0.5]", "[0.5,1.0]"),
        ("\"empty_columns\":[]", "\"empty_columns\":[1]"),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good, "{from} occurs");
        assert!(serde_json::from_str::<Standardiser>(&bad).is_err(), "{to}");
    }
}

#[test]
fn labels_from_strings_and_integers() {
    let labels = Labels::from_integers(&[Some(10), Some(9), None, Some(10)]);
    assert_eq!(labels.classes(), ["9", "10"], "sorted as numbers");
    assert_eq!(labels.codes(), [Some(1), Some(0), None, Some(1)]);
    assert_eq!(labels.counts(), [1, 2]);
    assert_eq!(labels.all_codes(), Err(DataError::Unlabelled { row: 2 }));
    assert_eq!(labels.select_rows(&[3, 1]).all_codes(), Ok(vec![1, 0]));
    let given = Labels::with_classes(vec!["b".into(), "a".into(), "c".into()], &[Some("a"), None])
        .expect("known");
    assert_eq!(
        (given.codes(), given.name(0)),
        (&[Some(1), None][..], Some("a"))
    );
    let unknown = Labels::with_classes(vec!["b".into()], &[Some("b"), Some("z")]);
    assert!(matches!(
        unknown,
        Err(DataError::UnknownLabel { row: 1, .. })
    ));
    assert!(matches!(
        Labels::with_classes(vec!["b".into(), "b".into()], &[Some("b")]),
        Err(DataError::DuplicateClass { .. })
    ));
}

#[test]
fn a_third_class_is_named() {
    let labels = Labels::from_strings(&[Some("no"), Some("yes"), Some("maybe")]);
    let error = labels.binary("yes").expect_err("three classes");
    assert_eq!(
        error.to_string(),
        "label \"maybe\" (first in row 2) is a third class beside \"yes\" and \"no\"; two classes are needed"
    );
    assert_eq!(
        labels.one_against_rest("yes"),
        Ok(vec![Some(false), Some(true), Some(false)])
    );
    assert!(matches!(
        labels.binary("on"),
        Err(DataError::NoSuchClass { .. })
    ));
}

#[test]
fn stored_labels_are_validated() {
    let labels = Labels::from_strings(&[Some("a"), None, Some("b")]);
    let good = serde_json::to_string(&labels).expect("writes");
    assert_eq!(
        serde_json::from_str::<Labels>(&good).expect("reads"),
        labels
    );
    assert!(serde_json::from_str::<Labels>(&good.replace("[0,null,1]", "[0,null,2]")).is_err());
    assert!(
        serde_json::from_str::<Labels>(&good.replace("[\"a\",\"b\"]", "[\"a\",\"a\"]")).is_err()
    );
}
