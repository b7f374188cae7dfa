//! Vectors with independent and with dependent coordinates.

use super::support::*;
use npb_itf::kernels::{
    CellError, DiagonalNormal, DiagonalNormalData, FullNormal, FullNormalData, Number,
};
use npb_itf::{Kernel, RowLabels};
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;

const M: Option<f64> = None;

fn rows() -> Vec<Vec<Option<f64>>> {
    vec![
        vec![Some(0.5), Some(9.0), Some(-30.0)],
        vec![Some(-1.5), M, Some(10.0)],
        vec![M, M, M],
        vec![Some(1.0), Some(13.0), M],
        vec![M, Some(10.5), Some(5.0)],
        vec![Some(2.0), Some(8.0), Some(25.0)],
        vec![Some(0.1), M, M],
    ]
}

fn diagonal() -> (DiagonalNormal, DiagonalNormalData) {
    let kernel = DiagonalNormal::new(&[(0.0, 1.0), (10.0, 2.0), (0.0, 20.0)]).expect("valid");
    (kernel, DiagonalNormalData::new(&rows()).expect("valid"))
}

#[test]
fn independent_coordinates_identities() {
    let (kernel, data) = diagonal();
    evidence_is_a_chain_of_predictives(&kernel, &data);
    predictive_is_a_mean_over_draws(&kernel, &data, &[0, 1, 3, 5], 4);
    expected_is_the_mean_of_draws(&kernel, &data, 1, false, RowLabels::NONE);
}

#[test]
fn the_joint_law_of_independent_coordinates() {
    let (kernel, data) = diagonal();
    let probe = DiagonalNormalData::new(&[
        vec![Some(0.0), Some(10.0), Some(0.0)],
        vec![Some(1.0), M, M],
    ]);
    joint_distribution(kernel, data, probe.expect("valid"));
}

#[test]
fn extreme_vectors() {
    let (kernel, data) = diagonal();
    stays_finite(&kernel, &data);
    let equal = DiagonalNormalData::new(&vec![vec![Some(1e-150), Some(3.0)]; 8]).expect("valid");
    stays_finite(
        &DiagonalNormal::new(&[(0.0, 1e-150), (3.0, 1.0)]).expect("valid"),
        &equal,
    );
}

#[test]
fn bad_vectors_are_named() {
    let error = DiagonalNormalData::new(&[vec![M, M], vec![M]]).expect_err("short");
    assert_eq!(
        error,
        CellError::Parts {
            row: 1,
            found: 1,
            expected: 2
        }
    );
    let error = DiagonalNormalData::new(&[vec![M, Some(f64::NAN)]]).expect_err("NaN");
    assert!(matches!(
        error,
        CellError::Value {
            row: 0,
            part: 1,
            ..
        }
    ));
    assert!(DiagonalNormal::new(&[]).is_err() && DiagonalNormal::new(&[(0.0, 0.0)]).is_err());
}

const COORDINATES: [(f64, f64); 3] = [(0.0, 1.0), (10.0, 2.0), (0.0, 20.0)];

/// With incomplete vectors, or without.
fn full(partial: bool) -> (FullNormal, FullNormalData) {
    let kernel = FullNormal::new(&COORDINATES).expect("valid");
    let mut rows = rows();
    if !partial {
        rows.retain(|r| r.iter().all(|x| x.is_some()) || r.iter().all(|x| x.is_none()));
        rows.extend(
            [[0.1, 9.5, 1.0], [2.0, 12.0, -10.0], [-0.5, 7.0, 3.0]].map(|r| r.map(Some).to_vec()),
        );
    }
    let data = FullNormalData::new(&kernel, &rows).expect("valid");
    (kernel, data)
}

#[test]
fn dependent_coordinates_identities() {
    let (kernel, data) = full(false);
    evidence_is_a_chain_of_predictives(&kernel, &data);
    predictive_is_a_mean_over_draws(&kernel, &data, &[0, 2, 4, 5], 3);
    let (kernel, data) = full(true);
    assert!(!kernel.is_collapsed(&data));
    for row in [1, 4, 6] {
        expected_is_the_mean_of_draws(&kernel, &data, row, false, RowLabels::NONE);
    }
    expected_is_the_mean_of_draws(&kernel, &data, 0, true, RowLabels::NONE);
}

/// ln p(observed coordinates) is that of the marginal law, whose covariance is a block of the inverse of the precision.
#[test]
fn missing_coordinates_are_integrated_out_exactly() {
    let (kernel, data) = full(true);
    let params = prior(&kernel, &mut rng(6));
    for (row, cells) in rows().into_iter().enumerate() {
        let found = ln_likelihoods(&kernel, &data, &params, row, RowLabels::NONE);
        let seen: Vec<usize> = (0..3).filter(|&j| cells[j].is_some()).collect();
        for (k, found) in found.into_iter().enumerate() {
            let precision = Mat::from_fn(3, 3, |i, j| params.precision(k, i, j));
            let covariance = Cholesky::new(precision.as_ref())
                .expect("positive definite")
                .inverse();
            let n = seen.len();
            let block = Mat::from_fn(n, n, |a, b| covariance[(seen[a], seen[b])]);
            let factor = Cholesky::new(block.as_ref()).expect("positive definite");
            let z = |j: usize| (cells[j].unwrap_or(f64::NAN) - COORDINATES[j].0) / COORDINATES[j].1;
            let mut d: Vec<f64> = seen.iter().map(|&j| z(j) - params.mean(k)[j]).collect();
            factor.solve_l(&mut d);
            let squares: f64 = d.iter().map(|x| x * x).sum();
            let units: f64 = seen.iter().map(|&j| COORDINATES[j].1.ln()).sum();
            let constant = 0.5 * n as f64 * std::f64::consts::TAU.ln() + units;
            let exact = -0.5 * (squares + factor.ln_det()) - constant;
            assert!(
                (found - exact).abs() < 1e-8 * (1.0 + exact.abs()),
                "row {row}: {found} {exact}"
            );
        }
    }
}

#[test]
fn the_joint_law_of_dependent_coordinates() {
    for partial in [false, true] {
        let (kernel, data) = full(partial);
        let probe = [
            vec![Some(0.0), Some(10.0), Some(0.0)],
            vec![Some(1.0), M, Some(5.0)],
        ];
        let probe = FullNormalData::new(&kernel, &probe).expect("valid");
        joint_distribution(kernel, data, probe);
    }
}

#[test]
fn extreme_dependent_vectors() {
    for partial in [false, true] {
        let (kernel, data) = full(partial);
        stays_finite(&kernel, &data);
    }
    let kernel = FullNormal::new(&[(0.0, 1.0); 3]).expect("valid");
    let equal = vec![vec![Some(1.0), Some(1.0), Some(1.0)]; 12];
    stays_finite(
        &kernel,
        &FullNormalData::new(&kernel, &equal).expect("valid"),
    );
    let far = [[1e60, -1e60, 0.0], [1e-300, 0.0, 1e60]].map(|r| r.map(Some).to_vec());
    stays_finite(&kernel, &FullNormalData::new(&kernel, &far).expect("valid"));
    let one = FullNormal::new(&[(0.0, 1.0)]).expect("valid");
    stays_finite(
        &one,
        &FullNormalData::new(&one, &[vec![Some(1.0)], vec![M]]).expect("valid"),
    );
}

#[test]
fn bad_dependent_vectors_are_named() {
    let (kernel, _) = full(false);
    let error = FullNormalData::new(&kernel, &[vec![M; 2]]).expect_err("short");
    assert_eq!(
        error,
        CellError::Parts {
            row: 0,
            found: 2,
            expected: 3
        }
    );
    let error =
        FullNormalData::new(&kernel, &[vec![M; 3], vec![M, Some(1e200), M]]).expect_err("far");
    assert!(
        matches!(
            error,
            CellError::Value {
                row: 1,
                part: 1,
                ..
            }
        ),
        "{error}"
    );
    assert!(FullNormal::new(&[]).is_err() && FullNormal::new(&[(f64::NAN, 1.0)]).is_err());
}

#[test]
fn parts_of_vectors() {
    let (kernel, _) = diagonal();
    let make = |rows: &[Vec<Option<f64>>]| DiagonalNormalData::new(rows).expect("valid");
    parts_are_what_was_given(&kernel, &rows(), make);
    let (kernel, _) = full(true);
    let make = |rows: &[Vec<Option<f64>>]| FullNormalData::new(&kernel, rows).expect("valid");
    parts_are_what_was_given(&kernel, &rows(), make);
}

/// Two numbers, and columns of two and of three levels.
fn with_levels(partial: bool) -> (FullNormal, FullNormalData) {
    let kernel = FullNormal::with_levels(&[(0.0, 1.0), (10.0, 2.0)], &[2, 3]).expect("valid");
    let row =
        |x: f64, y: f64, a: u32, b: u32| [x, y, f64::from(a), f64::from(b)].map(Some).to_vec();
    let mut rows = vec![
        row(0.5, 9.0, 0, 2),
        row(-1.0, 12.0, 1, 0),
        row(1.5, 8.0, 1, 1),
        vec![M; 4],
        row(0.1, 11.0, 0, 0),
        row(-0.4, 10.0, 1, 2),
        row(0.9, 13.0, 0, 1),
    ];
    if partial {
        rows[0][2] = M;
        rows[1][0] = M;
        rows[2][1..].fill(M);
        rows[4][..2].fill(M);
        rows[6][3] = M;
    }
    let data = FullNormalData::new(&kernel, &rows).expect("valid");
    (kernel, data)
}

#[test]
fn levels_beside_numbers_identities() {
    let (kernel, data) = with_levels(false);
    evidence_is_a_chain_of_predictives(&kernel, &data);
    predictive_is_a_mean_over_draws(&kernel, &data, &[0, 2, 4, 5], 1);
    let (kernel, data) = with_levels(true);
    assert!(!kernel.is_collapsed(&data));
    for row in [0, 1, 2, 4, 6] {
        expected_is_the_mean_of_draws(&kernel, &data, row, false, RowLabels::NONE);
    }
    expected_is_the_mean_of_draws(&kernel, &data, 5, true, RowLabels::NONE);
}

/// ln p(observed parts) is the sum over missing levels of what the cell with them has, and numbers are integrated out.
#[test]
fn missing_levels_are_summed_out_exactly() {
    let (kernel, _) = with_levels(true);
    let params = prior(&kernel, &mut rng(6));
    let rows = |x: Option<f64>| {
        let one = |a: Option<f64>, b: Option<f64>| vec![x, Some(9.0), a, b];
        let mut rows = vec![one(M, M)];
        for a in 0..2 {
            rows.push(one(Some(f64::from(a)), M));
            rows.extend((0..3).map(|b| one(Some(f64::from(a)), Some(f64::from(b)))));
        }
        rows
    };
    for x in [Some(0.7), M] {
        let data = FullNormalData::new(&kernel, &rows(x)).expect("valid");
        let p = |row| ln_likelihoods(&kernel, &data, &params, row, RowLabels::NONE).map(f64::exp);
        for k in 0..CLUSTERS {
            let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-10 * b, "{a} {b}");
            close(p(1)[k] + p(5)[k], p(0)[k]);
            close(p(2)[k] + p(3)[k] + p(4)[k], p(1)[k]);
        }
    }
    // A grid for the missing number.
    let grid = (-3000..3000).map(|i| vec![Some(0.01 * f64::from(i)), Some(9.0), Some(1.0), M]);
    let data = FullNormalData::new(&kernel, &grid.collect::<Vec<_>>()).expect("valid");
    let one = FullNormalData::new(&kernel, &[vec![M, Some(9.0), Some(1.0), M]]).expect("valid");
    let exact = ln_likelihoods(&kernel, &one, &params, 0, RowLabels::NONE);
    for k in 0..CLUSTERS {
        let density = |row| ln_likelihoods(&kernel, &data, &params, row, RowLabels::NONE)[k].exp();
        let sum: f64 = (0..6000).map(density).sum::<f64>() * 0.01;
        assert!((sum / exact[k].exp() - 1.0).abs() < 1e-3, "{sum} {exact:?}");
    }
}

#[test]
fn the_joint_law_of_levels_beside_numbers() {
    for partial in [false, true] {
        let (kernel, data) = with_levels(partial);
        let probe = [
            vec![Some(0.0), Some(10.0), Some(0.0), Some(2.0)],
            vec![Some(1.0), M, M, Some(1.0)],
        ];
        let probe = FullNormalData::new(&kernel, &probe).expect("valid");
        joint_distribution_of(kernel, data, probe, 400);
    }
}

#[test]
fn extreme_levels_beside_numbers() {
    for partial in [false, true] {
        let (kernel, data) = with_levels(partial);
        stays_finite(&kernel, &data);
    }
    let kernel = FullNormal::with_levels(&[(0.0, 1.0)], &[2]).expect("valid");
    let rows = [[1.0, 0.0], [1.0, 0.0], [1e60, 1.0], [-1e60, 0.0]].map(|r| r.map(Some).to_vec());
    stays_finite(
        &kernel,
        &FullNormalData::new(&kernel, &rows).expect("valid"),
    );
}

#[test]
fn bad_levels_beside_numbers_are_named() {
    let (kernel, _) = with_levels(false);
    for (part, value) in [(2, 2.0), (3, -1.0), (3, 0.5), (2, f64::NAN), (0, f64::NAN)] {
        let mut row = vec![M; 4];
        row[part] = Some(value);
        let error = FullNormalData::new(&kernel, &[vec![M; 4], row]).expect_err("bad");
        assert!(
            matches!(error, CellError::Value { row: 1, part: at, .. } if at == part),
            "{error}"
        );
    }
    assert!(FullNormal::with_levels(&[(0.0, 1.0)], &[0]).is_err());
    assert!(FullNormal::with_levels(&[(0.0, 1.0)], &[100; 3]).is_err());
    assert!(FullNormal::with_levels(&[], &[2]).is_err());
}

#[test]
fn parts_of_levels_beside_numbers() {
    let (kernel, _) = with_levels(true);
    let rows = [
        vec![Some(0.3), M, Some(1.0), M],
        vec![M; 4],
        vec![Some(0.1), Some(9.7), Some(0.0), Some(2.0)],
        vec![M, M, M, Some(1.0)],
    ];
    let make = |rows: &[Vec<Option<f64>>]| FullNormalData::new(&kernel, rows).expect("valid");
    parts_are_what_was_given(&kernel, &rows, make);
}

/// A number, a positive one of which the law is of the logarithm, and two levels.
fn with_logarithm(partial: bool) -> (FullNormal, FullNormalData) {
    let kernel = FullNormal::with_levels(&[(0.0, 1.0), (2.0, 0.5)], &[2]).expect("valid");
    let numbers = [Number::Real, Number::Logarithm];
    let kernel = kernel.measured(&numbers).expect("two ways");
    let data = FullNormalData::new(&kernel, &rows_with_logarithm(partial)).expect("valid");
    (kernel, data)
}

fn rows_with_logarithm(partial: bool) -> Vec<Vec<Option<f64>>> {
    let mut rows = [
        [0.5, 9.0, 0.0],
        [-1.0, 3.0, 1.0],
        [1.5, 12.0, 1.0],
        [0.1, 7.5, 0.0],
        [-0.4, 5.0, 1.0],
    ]
    .map(|r| r.map(Some).to_vec())
    .to_vec();
    rows.push(vec![M; 3]);
    if partial {
        rows[0][0] = M;
        rows[1][1] = M;
        rows[3][2] = M;
        rows[4][..2].fill(M);
    }
    rows
}

/// The law of ln x, and 1/x for the change of units; predictions are medians.
#[test]
fn logarithms_are_a_change_of_units() {
    let (kernel, data) = with_logarithm(false);
    evidence_is_a_chain_of_predictives(&kernel, &data);
    predictive_is_a_mean_over_draws(&kernel, &data, &[0, 2, 4], 1);
    let plain = FullNormal::with_levels(&[(0.0, 1.0), (2.0, 0.5)], &[2]).expect("valid");
    let params = prior(&kernel, &mut rng(6));
    for partial in [false, true] {
        let rows = rows_with_logarithm(partial);
        let data = FullNormalData::new(&kernel, &rows).expect("valid");
        let logs = |r: &Vec<Option<f64>>| vec![r[0], r[1].map(f64::ln), r[2]];
        let of_logs: Vec<_> = rows.iter().map(logs).collect();
        let of_logs = FullNormalData::new(&plain, &of_logs).expect("valid");
        for (row, cells) in rows.iter().enumerate() {
            let found = ln_likelihoods(&kernel, &data, &params, row, RowLabels::NONE);
            let exact = ln_likelihoods(&plain, &of_logs, &params, row, RowLabels::NONE);
            let units = cells[1].map_or(0.0, f64::ln);
            let (mut found_parts, mut exact_parts) = (Vec::new(), Vec::new());
            for k in 0..CLUSTERS {
                assert!((found[k] - exact[k] + units).abs() < 1e-9);
                let none = RowLabels::NONE;
                kernel.expected(&params, k, &data, row, false, none, &mut found_parts);
                plain.expected(&params, k, &of_logs, row, false, none, &mut exact_parts);
                exact_parts[1] = cells[1].unwrap_or(exact_parts[1].exp());
                let pairs = found_parts.iter().zip(&exact_parts);
                pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-9 * b.abs().max(1.0)));
            }
        }
    }
    let geometric = [0, 1, 2].map(|part| kernel.is_geometric(part));
    assert_eq!(geometric, [false, true, false]);
}

#[test]
fn the_joint_law_of_logarithms() {
    let (kernel, data) = with_logarithm(true);
    let probe = [vec![Some(0.0), Some(8.0), Some(1.0)], vec![M, Some(4.0), M]];
    let probe = FullNormalData::new(&kernel, &probe).expect("valid");
    joint_distribution(kernel, data, probe);
}

#[test]
fn logarithms_stay_in_range() {
    let (kernel, data) = with_logarithm(true);
    stays_finite(&kernel, &data);
    let make = |rows: &[Vec<Option<f64>>]| FullNormalData::new(&kernel, rows).expect("valid");
    parts_are_what_was_given(&kernel, &rows_with_logarithm(true), make);
    let far = [[0.0, 1e-300, 0.0], [0.0, 1e300, 1.0]].map(|r| r.map(Some).to_vec());
    stays_finite(&kernel, &FullNormalData::new(&kernel, &far).expect("valid"));
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let row = vec![M, Some(value), M];
        let error = FullNormalData::new(&kernel, &[row]).expect_err("no logarithm");
        assert!(error.to_string().contains("above 0"), "{error}");
    }
    assert!(kernel.measured(&[Number::Logarithm]).is_err());
}

/// A number, one with a spike at 0, a count, an ordered column of four levels, and two levels.
fn measured() -> FullNormal {
    let coordinates = [(0.0, 1.0), (5.0, 2.0), (12.0, 3.0), (1.5, 1.0)];
    let kernel = FullNormal::with_levels(&coordinates, &[2]).expect("valid");
    let numbers = [
        Number::Real,
        Number::Spiked(0.0),
        Number::Count,
        Number::Ordinal(4),
    ];
    kernel.measured(&numbers).expect("four ways")
}

fn measured_rows(partial: bool) -> Vec<Vec<Option<f64>>> {
    let mut rows = [
        [0.5, 0.0, 9.0, 0.0, 1.0],
        [-1.0, 4.0, 15.0, 3.0, 0.0],
        [1.5, 7.5, 12.0, 1.0, 0.0],
        [0.1, 0.0, 11.0, 2.0, 1.0],
        [-0.4, 5.0, 8.0, 2.0, 1.0],
        [0.9, 3.0, 14.0, 1.0, 0.0],
    ]
    .map(|r| r.map(Some).to_vec())
    .to_vec();
    rows.push(vec![M; 5]);
    if partial {
        rows[0][2..4].fill(M);
        rows[1][1] = M;
        rows[2][4] = M;
        rows[3][0] = M;
        rows[4][1..].fill(M);
    }
    rows
}

#[test]
fn numbers_measured_in_different_ways() {
    let kernel = measured();
    let make = |rows: &[Vec<Option<f64>>]| FullNormalData::new(&kernel, rows).expect("valid");
    let data = make(&measured_rows(true));
    // Counts are far from 0 here, so that rounding takes nothing from their means.
    for row in [0, 1, 3, 4, 6] {
        expected_is_the_mean_of_draws(&kernel, &data, row, false, RowLabels::NONE);
    }
    expected_is_the_mean_of_draws(&kernel, &data, 2, true, RowLabels::NONE);
    stays_finite(&kernel, &data);
    assert_eq!(
        [0, 1, 2, 3, 4].map(|part| kernel.n_levels(part)),
        [None, None, None, Some(4), Some(2)]
    );
    for (part, value) in [
        (1, f64::NAN),
        (2, -1.0),
        (2, 0.5),
        (3, 4.0),
        (3, 0.5),
        (4, 2.0),
    ] {
        let mut row = vec![M; 5];
        row[part] = Some(value);
        let error = FullNormalData::new(&kernel, &[row]).expect_err("bad");
        assert!(
            matches!(error, CellError::Value { part: at, .. } if at == part),
            "{error}"
        );
    }
    let many = FullNormal::new(&[(0.0, 1.0); 13]).expect("valid");
    assert!(many.clone().measured(&[Number::Spiked(0.0); 13]).is_err());
    assert!(
        many.clone()
            .measured(&[Number::Spiked(f64::NAN); 13])
            .is_err()
    );
    assert!(many.measured(&[Number::Ordinal(0); 13]).is_err());
}

/// On the spike a cell has a probability, elsewhere a density: together with the other numbers they add up to the density of these.
#[test]
fn a_spike_and_the_density_beside_it_add_up() {
    let kernel = FullNormal::new(&[(0.0, 1.0), (5.0, 2.0)]).expect("valid");
    let numbers = [Number::Real, Number::Spiked(0.0)];
    let kernel = kernel.measured(&numbers).expect("two ways");
    let params = prior(&kernel, &mut rng(6));
    let grid = (-4000..4000).map(|i| vec![Some(0.7), Some(5.0 + 0.0201 * f64::from(i))]);
    let mut rows: Vec<_> = grid.collect();
    rows.push(vec![Some(0.7), Some(0.0)]);
    rows.push(vec![Some(0.7), M]);
    let data = FullNormalData::new(&kernel, &rows).expect("valid");
    let p = |row| ln_likelihoods(&kernel, &data, &params, row, RowLabels::NONE).map(f64::exp);
    let (on, all) = (p(8000), p(8001));
    for k in 0..CLUSTERS {
        let off: f64 = (0..8000).map(|row| p(row)[k]).sum::<f64>() * 0.0201;
        assert!(
            ((on[k] + off) / all[k] - 1.0).abs() < 1e-3,
            "{on:?} {off} {all:?}"
        );
    }
}

#[test]
fn the_joint_law_of_numbers_measured_in_different_ways() {
    let kernel = measured();
    let data = FullNormalData::new(&kernel, &measured_rows(true)).expect("valid");
    let probe = [
        vec![Some(0.0), Some(0.0), Some(10.0), Some(3.0), Some(1.0)],
        vec![M, Some(6.0), M, Some(1.0), M],
    ];
    let probe = FullNormalData::new(&kernel, &probe).expect("valid");
    joint_distribution_of(kernel, data, probe, 400);
}
