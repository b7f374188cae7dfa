//! Vectors with independent and with dependent coordinates.

use super::support::*;
use npb_itf::RowLabels;
use npb_itf::kernels::{CellError, DiagonalNormal, DiagonalNormalData};

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
