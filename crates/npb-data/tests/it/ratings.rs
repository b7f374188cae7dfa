//! Sparse ratings: both views, errors, threads.

use crate::rng;
use npb_data::{DataError, Rating, Ratings};
use rand::RngExt;
use rand::seq::SliceRandom;

/// A random subset of the cells in random order.
fn random_entries(n_rows: u32, n_cols: u32, seed: u64) -> Vec<Rating> {
    let mut rng = rng(seed);
    let cells = (0..n_rows).flat_map(|i| (0..n_cols).map(move |j| (i, j)));
    let kept: Vec<(u32, u32)> = cells.filter(|_| rng.random_bool(0.2)).collect();
    let entry = |(row, column)| Rating {
        row,
        column,
        value: rng.random_range(1.0..5.0),
    };
    let mut entries: Vec<Rating> = kept.into_iter().map(entry).collect();
    entries.shuffle(&mut rng);
    entries
}

#[test]
fn both_views_hold_every_entry() {
    let entries = random_entries(30, 50, 1);
    let ratings = Ratings::new(33, 51, &entries).expect("valid");
    assert_eq!(
        (ratings.n_rows(), ratings.n_cols(), ratings.n_observed()),
        (33, 51, entries.len())
    );
    for e in &entries {
        assert_eq!(
            ratings.get(e.row as usize, e.column as usize),
            Some(e.value)
        );
    }
    for i in 0..33 {
        let (columns, values) = ratings.row(i);
        assert!(columns.is_sorted());
        assert_eq!(values, &ratings.values()[ratings.row_positions(i)]);
    }
    let mut met = vec![0; entries.len()];
    for j in 0..51 {
        let (rows, values) = ratings.column(j);
        assert!(rows.is_sorted());
        for ((&i, &value), &position) in rows.iter().zip(values).zip(ratings.column_positions(j)) {
            assert_eq!(ratings.get(i as usize, j), Some(value));
            assert_eq!(ratings.values()[position], value);
            assert!(ratings.row_positions(i as usize).contains(&position));
            met[position] += 1;
        }
    }
    assert!(met.iter().all(|&n| n == 1), "positions are a permutation");
    let mut sorted = entries.clone();
    sorted.sort_by_key(|e| (e.row, e.column));
    assert_eq!(ratings.iter().collect::<Vec<_>>(), sorted);
    let mean = entries.iter().map(|e| e.value).sum::<f64>() / entries.len() as f64;
    assert!((ratings.mean().expect("entries") - mean).abs() < 1e-12);
}

#[test]
fn the_order_of_input_and_the_number_of_threads_do_not_matter() {
    let mut entries = random_entries(200, 100, 2);
    let expected = Ratings::new(200, 100, &entries).expect("valid");
    for n_threads in [1, 2, 4] {
        entries.shuffle(&mut rng(n_threads));
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(n_threads as usize)
            .build()
            .expect("threads");
        assert_eq!(
            pool.install(|| Ratings::new(200, 100, &entries)),
            Ok(expected.clone())
        );
    }
}

#[test]
fn single_precision_values() {
    let entries = [Rating {
        row: 0,
        column: 1,
        value: 0.5_f32,
    }];
    let ratings = Ratings::new(1, 2, &entries).expect("valid");
    assert_eq!(
        (ratings.get(0, 1), ratings.mean()),
        (Some(0.5_f32), Some(0.5))
    );
}

#[test]
fn bad_entries_are_named() {
    let e = |row, column, value| Rating { row, column, value };
    let repeated = Ratings::new(
        3,
        3,
        &[e(2, 2, 1.0), e(1, 0, 1.0), e(2, 2, 3.0), e(1, 0, 2.0)],
    );
    assert_eq!(
        repeated,
        Err(DataError::DuplicateEntry {
            row: 1,
            column: 0,
            first: 1,
            second: 3
        })
    );
    let outside = Ratings::new(3, 3, &[e(0, 0, 1.0), e(0, 3, 1.0), e(9, 0, 1.0)]);
    assert_eq!(
        outside,
        Err(DataError::IndexRange {
            entry: 1,
            axis: "column",
            index: 3,
            size: 3
        })
    );
    let infinite = Ratings::new(3, 3, &[e(0, 0, 1.0), e(2, 1, f64::INFINITY)]);
    assert_eq!(
        infinite,
        Err(DataError::NotFinite {
            row: 2,
            column: 1,
            value: f64::INFINITY
        })
    );
    assert!(matches!(
        Ratings::<f64>::new(1 << 33, 1, &[]),
        Err(DataError::TooLarge { .. })
    ));
}

#[test]
fn empty_matrices_exist() {
    for (n_rows, n_cols) in [(0, 0), (0, 5), (5, 0), (2, 2)] {
        let ratings = Ratings::<f64>::new(n_rows, n_cols, &[]).expect("valid");
        assert_eq!(
            (ratings.n_rows(), ratings.n_cols(), ratings.mean()),
            (n_rows, n_cols, None)
        );
    }
}
