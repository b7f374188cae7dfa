//! Numbers above 0.

use super::support::*;
use npb_itf::kernels::{CellError, LogNormal, LogNormalData};
use npb_itf::{Kernel, RowLabels};

const VALUES: [Option<f64>; 6] = [
    Some(20.0),
    Some(5.0),
    None,
    Some(33.0),
    Some(18.0),
    Some(140.0),
];

fn positive() -> (LogNormal, LogNormalData) {
    (
        LogNormal::new(3.0, 0.8).expect("valid"),
        LogNormalData::new(&VALUES).expect("valid"),
    )
}

#[test]
fn positive_identities() {
    let (kernel, data) = positive();
    evidence_is_a_chain_of_predictives(&kernel, &data);
    predictive_is_a_mean_over_draws(&kernel, &data, &[0, 1, 3], 4);
}

/// Densities are of the values themselves: they integrate to 1, here in steps of 0.001 of the logarithm.
#[test]
fn positive_densities_integrate_to_one() {
    let (kernel, seen) = positive();
    let params = prior(&kernel, &mut rng(6));
    let mut stats = kernel.no_stats();
    [0, 1, 3]
        .iter()
        .for_each(|&row| kernel.add(&mut stats, &seen, row));
    let grid: Vec<f64> = (0..26_000)
        .map(|i| (-10.0 + 0.001 * f64::from(i)).exp())
        .collect();
    let values: Vec<Option<f64>> = grid.iter().copied().map(Some).collect();
    let data = LogNormalData::new(&values).expect("valid");
    let p = |row: usize| kernel.ln_predictive(&params, &stats, &data, row).exp() * grid[row];
    let total: f64 = (0..grid.len()).map(p).sum::<f64>() * 0.001;
    assert!((total - 1.0).abs() < 2e-3, "{total}");
}

#[test]
fn the_joint_law_of_positive_numbers() {
    let (kernel, data) = positive();
    let probe = LogNormalData::new(&[Some(10.0), Some(40.0)]).expect("valid");
    joint_distribution(kernel, data, probe);
}

#[test]
fn extreme_positive_numbers() {
    let (kernel, data) = positive();
    stays_finite(&kernel, &data);
    let wide = LogNormalData::new(&[Some(1e-300), Some(1e300), None, Some(5e-324)]).expect("valid");
    stays_finite(&LogNormal::new(0.0, 600.0).expect("valid"), &wide);
    assert_eq!(data.value(2), None);
    let mut out = Vec::new();
    let params = prior(&kernel, &mut rng(6));
    kernel.expected(&params, 0, &data, 0, false, RowLabels::NONE, &mut out);
    assert!((out[0] - 20.0).abs() < 1e-12);
}

#[test]
fn numbers_that_are_not_positive_are_named() {
    for bad in [0.0, -1.0, f64::INFINITY, f64::NAN] {
        let error = LogNormalData::new(&[Some(1.0), Some(bad)]).expect_err("bad");
        assert!(matches!(error, CellError::Value { row: 1, .. }), "{error}");
    }
    assert!(LogNormal::new(0.0, 0.0).is_err() && LogNormal::new(f64::NAN, 1.0).is_err());
}
