//! Series in time.

use super::support::*;
use npb_itf::kernels::{CellError, Series, SeriesData};
use npb_itf::{Kernel, RowLabels};
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;

const M: Option<f64> = None;

fn values(v: &[f64]) -> Vec<Option<f64>> {
    v.iter().map(|&x| Some(x)).collect()
}

/// Irregular lengths without gaps.
fn whole(order: usize) -> (Series, SeriesData) {
    let kernel = Series::new(order, 7, 5.0, 2.0).expect("valid");
    let rows = [
        values(&[5.0, 6.0, 7.0, 6.5, 5.0, 4.0, 4.5]),
        values(&[3.0, 2.5, 4.0]),
        vec![],
        values(&[8.0]),
        values(&[5.5, 4.5, 5.5, 4.5, 5.5]),
        vec![Some(7.0), Some(7.1), M, M],
        values(&[1.0, 2.0, 4.0, 5.0, 6.0, 6.0, 6.5]),
    ];
    let data = SeriesData::new(&kernel, &rows).expect("valid");
    (kernel, data)
}

/// Gaps at the start, one after the other, and far apart.
fn gappy(order: usize) -> (Series, SeriesData) {
    let kernel = Series::new(order, 7, 5.0, 2.0).expect("valid");
    let rows = [
        vec![M, Some(6.0), M, M, Some(5.0), Some(4.0), M],
        values(&[3.0, 2.5, 4.0]),
        vec![M; 7],
        vec![M, M, M, Some(8.0)],
        vec![Some(5.5), M, Some(5.5), Some(4.5), M, Some(6.0), M],
        values(&[1.0, 2.0, 4.0, 5.0, 6.0, 6.0, 6.5]),
    ];
    let data = SeriesData::new(&kernel, &rows).expect("valid");
    (kernel, data)
}

#[test]
fn series_identities() {
    for order in [1, 3] {
        let (kernel, data) = whole(order);
        evidence_is_a_chain_of_predictives(&kernel, &data);
        predictive_is_a_mean_over_draws(&kernel, &data, &[0, 1, 4], 6);
    }
    let (kernel, data) = gappy(2);
    assert!(!kernel.is_collapsed(&data));
}

/// Means of gaps and forecasts are those of draws.
#[test]
fn gaps_and_forecasts() {
    for order in [1, 2] {
        let (kernel, data) = gappy(order);
        for row in [0, 1, 3] {
            expected_is_the_mean_of_draws(&kernel, &data, row, false, RowLabels::NONE);
        }
    }
}

/// Covariance of z_1..z_T by running unit shocks through the recursion; mean by running it without shocks.
fn dense_law(order: usize, coefficients: &[f64], lambda: f64, n: usize) -> (Vec<f64>, Mat<f64>) {
    let run = |shock_at: Option<usize>, constant: f64| {
        let mut z = vec![0.0; n];
        for t in 0..n {
            let shock = f64::from(u8::from(shock_at == Some(t)));
            z[t] = match t < order {
                true => shock,
                false => {
                    let past: f64 = (1..=order).map(|l| coefficients[l] * z[t - l]).sum();
                    constant + past + shock / lambda.sqrt()
                }
            };
        }
        z
    };
    let responses: Vec<Vec<f64>> = (0..n).map(|s| run(Some(s), 0.0)).collect();
    let covariance = Mat::from_fn(n, n, |i, j| responses.iter().map(|r| r[i] * r[j]).sum());
    (run(None, coefficients[0]), covariance)
}

/// ln p(observed values) agrees with the dense Gaussian law of the observed times.
#[test]
fn gaps_are_integrated_out_exactly() {
    for order in [1, 2, 4] {
        let (kernel, data) = gappy(order);
        let params = prior(&kernel, &mut rng(6));
        let rows: [&[(usize, f64)]; 4] = [
            &[(1, 6.0), (4, 5.0), (5, 4.0)],
            &[(0, 3.0), (1, 2.5), (2, 4.0)],
            &[],
            &[(3, 8.0)],
        ];
        for (row, seen) in rows.into_iter().enumerate() {
            let found = ln_likelihoods(&kernel, &data, &params, row, RowLabels::NONE);
            for k in 0..CLUSTERS {
                let (mean, covariance) =
                    dense_law(order, &params.coefficients(k), params.precision(k), 7);
                let n = seen.len();
                let of_seen = Mat::from_fn(n, n, |i, j| covariance[(seen[i].0, seen[j].0)]);
                let factor = Cholesky::new(of_seen.as_ref()).expect("positive definite");
                let mut d: Vec<f64> = seen
                    .iter()
                    .map(|&(t, y)| (y - 5.0) / 2.0 - mean[t])
                    .collect();
                factor.solve_l(&mut d);
                let squares: f64 = d.iter().map(|x| x * x).sum();
                let constant = n as f64 * (std::f64::consts::TAU.ln() / 2.0 + 2f64.ln());
                let exact = -0.5 * (squares + factor.ln_det()) - constant;
                assert!(
                    (found[k] - exact).abs() < 1e-7 * (1.0 + exact.abs()),
                    "order {order} row {row}: {} {exact}",
                    found[k]
                );
            }
        }
    }
}

#[test]
fn the_joint_law_of_series() {
    let probe = |kernel: &Series| {
        let rows = [
            values(&[5.0, 6.0, 5.0]),
            vec![Some(4.0), M, Some(6.0), Some(7.0)],
        ];
        SeriesData::new(kernel, &rows).expect("valid")
    };
    let (kernel, data) = whole(1);
    let cells = probe(&kernel);
    joint_distribution(kernel, data, cells);
    let (kernel, data) = gappy(1);
    let cells = probe(&kernel);
    joint_distribution(kernel, data, cells);
    let (kernel, data) = gappy(2);
    let cells = probe(&kernel);
    joint_distribution(kernel, data, cells);
}

#[test]
fn extreme_series() {
    for order in [1, 2, 8] {
        let (kernel, data) = gappy(order);
        stays_finite(&kernel, &data);
        let (kernel, data) = whole(order);
        stays_finite(&kernel, &data);
        let kernel = Series::new(order, 30, 0.0, 1.0).expect("valid");
        let rows = [
            vec![Some(3.0); 30],
            vec![Some(1e60), M, Some(-1e60), Some(0.0)],
            vec![Some(1e-300); 20],
        ];
        stays_finite(&kernel, &SeriesData::new(&kernel, &rows).expect("valid"));
    }
    let kernel = Series::new(1, 1, 0.0, 1.0).expect("valid");
    stays_finite(
        &kernel,
        &SeriesData::new(&kernel, &[vec![Some(1.0)], vec![]]).expect("valid"),
    );
}

#[test]
fn bad_series_are_named() {
    assert!(matches!(
        Series::new(1, 0, 0.0, 1.0),
        Err(CellError::Setting {
            setting: "n_times",
            ..
        })
    ));
    assert!(matches!(
        Series::new(0, 5, 0.0, 1.0),
        Err(CellError::Setting {
            setting: "order",
            ..
        })
    ));
    assert!(Series::new(1, 5, f64::NAN, 1.0).is_err() && Series::new(1, 5, 0.0, 0.0).is_err());
    let kernel = Series::new(1, 2, 0.0, 1.0).expect("valid");
    let error = SeriesData::new(&kernel, &[vec![M], vec![M; 3]]).expect_err("too long");
    assert_eq!(
        error,
        CellError::Parts {
            row: 1,
            found: 3,
            expected: 2
        }
    );
    let error = SeriesData::new(&kernel, &[vec![M, Some(f64::NAN)]]).expect_err("NaN");
    assert!(matches!(
        error,
        CellError::Value {
            row: 0,
            part: 1,
            ..
        }
    ));
}

#[test]
fn parts_of_series() {
    let kernel = Series::new(2, 7, 5.0, 2.1).expect("valid");
    let rows = [
        vec![M, Some(6.3), M, M, Some(5.0), Some(4.1), M],
        values(&[3.0, 2.5, 4.7]),
        vec![],
        values(&[1.0, 2.0, 4.0, 5.0, 6.0, 6.0, 6.5]),
    ];
    let make = |rows: &[Vec<Option<f64>>]| SeriesData::new(&kernel, rows).expect("valid");
    parts_are_what_was_given(&kernel, &rows, make);
}
