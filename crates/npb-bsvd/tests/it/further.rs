//! Fits that go on with new rows and columns.

use std::ops::ControlFlow;

use npb_bsvd::npb_data::{Rating, Ratings};
use npb_bsvd::{
    BsvdConfig, BsvdError, BsvdFit, BsvdMove, Cells, Saved, Scheduled, SideInformation,
};
use npb_infer::checkpoint::Every;
use npb_infer::testing::same_bits_on_threads;
use npb_infer::{SweepPlan, Watch};

use crate::predicted::{config, fitted};
use crate::simulated::low_rank;

fn go_on(fit: &BsvdFit, entries: &Ratings, config: &BsvdConfig) -> Result<BsvdFit, BsvdError> {
    let (side, none) = (SideInformation::default(), Cells::default());
    fit.continue_with(entries, side, &none, config, &Watch::none())
}

/// The entries in the first rows and columns.
fn corner(all: &Ratings, n: usize, m: usize) -> Ratings {
    let inside = |e: &Rating| (e.row as usize) < n && (e.column as usize) < m;
    Ratings::new(n, m, &all.iter().filter(inside).collect::<Vec<_>>()).unwrap()
}

/// The solution of a linear system with a symmetric matrix, by elimination.
fn solved(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for k in 0..n {
        for i in (0..n).filter(|&i| i != k) {
            let by = a[i][k] / a[k][k];
            let (of_k, b_k) = (a[k].clone(), b[k]);
            a[i].iter_mut().zip(of_k).for_each(|(x, y)| *x -= by * y);
            b[i] -= by * b_k;
        }
    }
    (0..n).map(|k| b[k] / a[k][k]).collect()
}

/// One sweep, which leaves rows and columns alone.
fn still(fit: &BsvdFit) -> BsvdConfig {
    BsvdConfig {
        moves: vec![Scheduled {
            step: BsvdMove::Noise,
            every: 1,
        }],
        sweeps: SweepPlan {
            burn_in: 0,
            keep: 1,
            thin: 1,
        },
        stored_draws: 1,
        ..fit.config.clone()
    }
}

/// Three thousand new rows with the same entries, drawn given the columns of a draw: the mean and variance of an entry that they do not have are those of a
/// regression on the columns.
#[test]
fn new_rows_are_drawn_given_the_columns() {
    const NEW: usize = 3000;
    let data = low_rank(3, (30, 12), 2, 0.7, 0.3);
    let plain = BsvdConfig {
        row_noise: false,
        column_noise: false,
        ..config(100, 5)
    };
    let first = fitted(&data.observed, &plain);
    let known = [0.4, -1.1, 0.8, 0.1, 1.3];
    let new = (30..30 + NEW as u32).flat_map(|row| {
        let entry = move |(column, &value): (u32, &f64)| Rating { row, column, value };
        (0..).zip(&known).map(entry)
    });
    let all: Vec<Rating> = data.observed.iter().chain(new).collect();
    let all = Ratings::new(30 + NEW, 12, &all).unwrap();
    let (from, drawn) = (first.last(), go_on(&first, &all, &still(&first)).unwrap());
    let (state, none) = (drawn.last(), SideInformation::default());
    assert_eq!(state.columns, from.columns);
    let (rank, (centre, scale)) = (from.rank(), first.units());
    assert!(
        rank > 0 && from.rows.noise_weights.is_empty() && from.columns.noise_weights.is_empty()
    );
    // Weights of a row's factors and intercept in its entry of column j.
    let weights = |j: usize| -> Vec<f64> {
        let factor = |k: usize| from.scales[k] * f64::from(from.columns.factors[j * rank + k]);
        (0..rank).map(factor).chain([1.0]).collect()
    };
    let base = |j: usize| {
        from.offset
            + from
                .columns
                .intercepts
                .get(j)
                .map_or(0.0, |&c| f64::from(c))
    };
    // Prior means and precisions.
    let factors = from.rows.factor_mean.iter().map(|&mean| (mean, 1.0));
    let prior: Vec<(f64, f64)> = factors
        .chain([(0.0, from.rows.intercept_precision)])
        .collect();
    let n = rank + 1;
    let diagonal = |k: usize, l: usize| if k == l { prior[k].1 } else { 0.0 };
    let mut precision: Vec<Vec<f64>> = (0..n)
        .map(|k| (0..n).map(|l| diagonal(k, l)).collect())
        .collect();
    let mut linear: Vec<f64> = prior.iter().map(|(mean, own)| mean * own).collect();
    for (j, y) in known.iter().enumerate() {
        let (w, y) = (weights(j), (y - centre) / scale - base(j));
        for ((row, linear), wk) in precision.iter_mut().zip(&mut linear).zip(&w) {
            *linear += from.noise_precision * wk * y;
            let each = row.iter_mut().zip(&w);
            each.for_each(|(x, wl)| *x += from.noise_precision * wk * wl);
        }
    }
    for j in [7, 10] {
        let w = weights(j);
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let mean = base(j) + dot(&w, &solved(precision.clone(), linear.clone()));
        let variance = dot(&w, &solved(precision.clone(), w.clone()));
        let found: Vec<f64> = (30..30 + NEW).map(|i| state.latent(i, j, &none)).collect();
        let average = found.iter().sum::<f64>() / NEW as f64;
        let squares = found.iter().map(|x| (x - average).powi(2)).sum::<f64>() / NEW as f64;
        let error = (variance / NEW as f64).sqrt();
        assert!(
            (average - mean).abs() < 4.5 * error,
            "{j}: {average} {mean} {error}"
        );
        assert!(
            (squares / variance - 1.0).abs() < 4.5 * (2.0 / NEW as f64).sqrt(),
            "{j}: {squares} {variance}"
        );
    }
}

/// What rows and columns are called stays while a fit has those that it had.
#[test]
fn names_stay_where_no_row_and_column_is_new() {
    let data = low_rank(3, (30, 12), 2, 0.7, 0.3);
    let names =
        |n: usize, what: &str| -> Vec<String> { (0..n).map(|k| format!("{what}{k}")).collect() };
    let (rows, columns) = (names(30, "r"), names(12, "c"));
    let first = fitted(&data.observed, &config(40, 5))
        .with_names(&rows, &columns)
        .unwrap();
    let same = go_on(&first, &data.observed, &still(&first)).unwrap();
    assert_eq!(
        (same.row_names(), same.column_names()),
        (&rows[..], &columns[..])
    );
}

/// A new column with one entry, the last of the rows of the fit: thirty standard deviations out, which no draw without it would come near.
#[test]
fn a_new_column_is_drawn_given_the_last_entry_of_the_old_rows() {
    let data = low_rank(3, (30, 12), 2, 0.7, 0.3);
    let plain = BsvdConfig {
        row_noise: false,
        column_noise: false,
        ..config(100, 5)
    };
    let first = fitted(&data.observed, &plain);
    let (centre, scale) = first.units();
    let entry = |row, column, value| Rating { row, column, value };
    let mut all: Vec<Rating> = data.observed.iter().collect();
    all.extend([entry(29, 12, centre + 30.0 * scale), entry(30, 0, centre)]);
    let all = Ratings::new(31, 13, &all).unwrap();
    let drawn = go_on(&first, &all, &still(&first)).unwrap();
    let latent = drawn.last().latent(29, 12, &SideInformation::default());
    assert!(latent > 15.0, "{latent}");
}

/// A matrix that grows on both sides is known as well as one that was there at once.
#[test]
fn a_matrix_that_grows_is_known_as_well_as_a_whole_one() {
    let mut ratios = Vec::new();
    for seed in 0..5 {
        let data = low_rank(50 + seed, (60, 40), 2, 0.5, 0.3);
        let settings = BsvdConfig {
            chains: 2,
            seed,
            ..config(100, 60)
        };
        let first = fitted(&corner(&data.observed, 40, 30), &settings);
        let later = BsvdConfig {
            sweeps: SweepPlan {
                burn_in: 60,
                keep: 60,
                thin: 1,
            },
            ..first.config.clone()
        };
        let grown = go_on(&first, &data.observed, &later).unwrap();
        assert_eq!(
            (grown.n_rows(), grown.n_cols(), grown.traces().count()),
            (60, 40, 2)
        );
        let whole = fitted(&data.observed, &settings);
        let error = |fit: &BsvdFit| fit.evaluate(&data.hidden).unwrap().rmse;
        ratios.push((error(&grown) / error(&whole)).ln());
    }
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    assert!(mean.abs() < 0.05, "{ratios:?}");
}

#[test]
fn a_fit_that_goes_on_is_stopped_and_resumed_on_any_number_of_threads() {
    let data = low_rank(9, (40, 30), 2, 0.5, 0.3);
    let settings = BsvdConfig {
        chains: 2,
        ..config(20, 10)
    };
    let first = fitted(&corner(&data.observed, 30, 30), &settings);
    let run = || {
        go_on(&first, &data.observed, &first.config)
            .unwrap()
            .to_bytes()
            .unwrap()
    };
    same_bits_on_threads(&[1, 2, 4], run).unwrap();
    let folder = std::env::temp_dir().join(format!("npb-bsvd-further-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("checkpoint");
    let until = |most: f64| {
        let watch = Watch::new(move |progress| match progress.share < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        let watch = watch.with_checkpoint(&file, Every::sweeps(3));
        let (side, none) = (SideInformation::default(), Cells::default());
        first.continue_with(&data.observed, side, &none, &first.config, &watch)
    };
    until(0.4).unwrap();
    assert_eq!(until(2.0).unwrap().to_bytes().unwrap(), run());
    std::fs::remove_dir_all(folder).unwrap();
    // Another time other random numbers, though settings are the same.
    let second = go_on(&first, &data.observed, &first.config).unwrap();
    let again = BsvdConfig {
        seed: first.config.seed,
        ..second.config.clone()
    };
    let third = go_on(&second, &data.observed, &again).unwrap();
    assert_ne!(second.config.seed, third.config.seed);
}

#[test]
fn what_cannot_go_on_is_refused() {
    let data = low_rank(9, (20, 15), 2, 0.6, 0.3);
    let settings = BsvdConfig {
        chains: 2,
        ..config(10, 5)
    };
    let first = fitted(&data.observed, &settings);
    let other = BsvdConfig {
        column_intercepts: !first.config.column_intercepts,
        ..first.config.clone()
    };
    let said = go_on(&first, &data.observed, &other)
        .unwrap_err()
        .to_string();
    assert!(said.contains("that of the fit"), "{said}");
    let features = npb_bsvd::Features::dense(20, 1, &[0.5; 20]).unwrap();
    let side = SideInformation {
        rows: Some(features),
        columns: None,
    };
    let said = first.continue_with(
        &data.observed,
        side,
        &Cells::default(),
        &first.config,
        &Watch::none(),
    );
    assert!(said.unwrap_err().to_string().contains("features"));
    // The last draw of the second chain is not there.
    let none = fitted(
        &data.observed,
        &BsvdConfig {
            stored_draws: 0,
            ..settings
        },
    );
    let said = go_on(&none, &data.observed, &none.config)
        .unwrap_err()
        .to_string();
    assert!(said.contains("stored_draws"), "{said}");
}
