//! Ordered levels.

use super::support::*;
use npb_itf::kernels::{CategoricalData, CellError, Ordinal};
use npb_itf::{Kernel, RowLabels};

fn ordinal() -> (Ordinal, CategoricalData) {
    let codes = [
        Some(0),
        Some(3),
        None,
        Some(1),
        Some(1),
        Some(2),
        Some(0),
        Some(4),
        None,
        Some(1),
    ];
    let data = CategoricalData::new(5, &codes).expect("valid");
    (Ordinal::for_data(&data).expect("valid"), data)
}

#[test]
fn ordinal_identities() {
    let (kernel, data) = ordinal();
    evidence_is_a_chain_of_predictives(&kernel, &data);
    predictive_is_a_mean_over_draws(&kernel, &data, &[0, 1, 3], 7);
    expected_is_the_mean_of_draws(&kernel, &data, 2, false, RowLabels::NONE);
    let params = prior(&kernel, &mut rng(6));
    for k in 0..CLUSTERS {
        let total: f64 = (0..5).map(|level| params.probability(level, k)).sum();
        assert!((total - 1.0).abs() < 1e-12);
    }
}

/// Neighbouring levels inform each other: after many of level 1, level 2 is likelier than level 4.
#[test]
fn the_order_of_levels_counts() {
    let data = CategoricalData::new(5, &[Some(1), Some(2), Some(4)]).expect("valid");
    let kernel = Ordinal::new(vec![-1.0, -0.3, 0.3, 1.0]).expect("valid");
    let params = prior(&kernel, &mut rng(6));
    let mut stats = kernel.no_stats();
    (0..10).for_each(|_| kernel.add(&mut stats, &data, 0));
    let ln = |row| kernel.ln_predictive(&params, &stats, &data, row);
    assert!(ln(1) > ln(2) + 1.0);
}

#[test]
fn the_joint_law_of_levels() {
    let (kernel, data) = ordinal();
    joint_distribution(
        kernel,
        data,
        CategoricalData::new(5, &[Some(0), Some(2), Some(4)]).expect("valid"),
    );
}

#[test]
fn extreme_levels() {
    let (kernel, data) = ordinal();
    stays_finite(&kernel, &data);
    let one = CategoricalData::new(1, &[Some(0), None, Some(0)]).expect("valid");
    stays_finite(&Ordinal::for_data(&one).expect("valid"), &one);
    let far = Ordinal::new(vec![-1e300, 0.0, 1e-300, 1e300]).expect("valid");
    stays_finite(
        &far,
        &CategoricalData::new(5, &[Some(0), Some(2), Some(4)]).expect("valid"),
    );
}

#[test]
fn bad_levels_are_named() {
    let error = CategoricalData::new(3, &[Some(0), Some(3)]).expect_err("unknown");
    assert!(matches!(error, CellError::Value { row: 1, .. }), "{error}");
    assert!(CategoricalData::new(0, &[]).is_err());
    assert!(Ordinal::new(vec![0.0, 0.0]).is_err() && Ordinal::new(vec![f64::NAN]).is_err());
}
