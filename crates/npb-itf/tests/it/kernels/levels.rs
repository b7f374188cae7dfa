//! Binary vectors and ordered levels.

use super::support::*;
use npb_itf::kernels::{Bernoulli, BernoulliData, CellError, Ordinal, OrdinalData};
use npb_itf::{Kernel, RowLabels};

fn binary() -> (Bernoulli, BernoulliData) {
    let (t, f, m) = (Some(true), Some(false), None);
    let rows = [
        vec![t, f, t],
        vec![f, m, t],
        vec![m, m, m],
        vec![t, t, f],
        vec![f, f, m],
        vec![t, f, t],
        vec![m, t, m],
    ];
    (
        Bernoulli::new(3).expect("valid"),
        BernoulliData::new(3, &rows).expect("valid"),
    )
}

fn ordinal() -> (Ordinal, OrdinalData) {
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
    let data = OrdinalData::new(5, &codes).expect("valid");
    (Ordinal::for_data(&data).expect("valid"), data)
}

#[test]
fn binary_vector_identities() {
    let (kernel, data) = binary();
    evidence_is_a_chain_of_predictives(&kernel, &data);
    predictive_is_a_mean_over_draws(&kernel, &data, &[0, 1, 3], 6);
    expected_is_the_mean_of_draws(&kernel, &data, 1, false, RowLabels::NONE);
    expected_is_the_mean_of_draws(&kernel, &data, 1, true, RowLabels::NONE);
}

/// p(observed parts) is the sum over all values of the missing ones.
#[test]
fn missing_parts_of_a_binary_vector_are_summed_out() {
    let (kernel, _) = binary();
    let params = prior(&kernel, &mut rng(6));
    let cell = |a, b| vec![Some(true), a, b];
    let full = |a: bool, b: bool| cell(Some(a), Some(b));
    let rows = [
        cell(None, None),
        full(false, false),
        full(false, true),
        full(true, false),
        full(true, true),
    ];
    let data = BernoulliData::new(3, &rows).expect("valid");
    let p = |row| ln_likelihoods(&kernel, &data, &params, row, RowLabels::NONE).map(f64::exp);
    for k in 0..CLUSTERS {
        let sum: f64 = (1..5).map(|row| p(row)[k]).sum();
        assert!((sum - p(0)[k]).abs() < 1e-14);
    }
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
    let data = OrdinalData::new(5, &[Some(1), Some(2), Some(4)]).expect("valid");
    let kernel = Ordinal::new(vec![-1.0, -0.3, 0.3, 1.0]).expect("valid");
    let params = prior(&kernel, &mut rng(6));
    let mut stats = kernel.no_stats();
    (0..10).for_each(|_| kernel.add(&mut stats, &data, 0));
    let ln = |row| kernel.ln_predictive(&params, &stats, &data, row);
    assert!(ln(1) > ln(2) + 1.0);
}

#[test]
fn the_joint_law_of_levels() {
    let (kernel, data) = binary();
    let probe = [
        vec![Some(true), Some(true), Some(false)],
        vec![None, Some(false), None],
    ];
    joint_distribution(kernel, data, BernoulliData::new(3, &probe).expect("valid"));
    let (kernel, data) = ordinal();
    joint_distribution(
        kernel,
        data,
        OrdinalData::new(5, &[Some(0), Some(2), Some(4)]).expect("valid"),
    );
}

#[test]
fn extreme_levels() {
    let (kernel, data) = binary();
    stays_finite(&kernel, &data);
    let (kernel, data) = ordinal();
    stays_finite(&kernel, &data);
    let one = OrdinalData::new(1, &[Some(0), None, Some(0)]).expect("valid");
    stays_finite(&Ordinal::for_data(&one).expect("valid"), &one);
    let far = Ordinal::new(vec![-1e300, 0.0, 1e-300, 1e300]).expect("valid");
    stays_finite(
        &far,
        &OrdinalData::new(5, &[Some(0), Some(2), Some(4)]).expect("valid"),
    );
}

#[test]
fn bad_levels_are_named() {
    let error = OrdinalData::new(3, &[Some(0), Some(3)]).expect_err("unknown");
    assert!(matches!(error, CellError::Value { row: 1, .. }), "{error}");
    assert!(OrdinalData::new(0, &[]).is_err());
    assert!(Ordinal::new(vec![0.0, 0.0]).is_err() && Ordinal::new(vec![f64::NAN]).is_err());
    assert!(Bernoulli::new(0).is_err());
    let error = BernoulliData::new(2, &[vec![None, None], vec![None]]).expect_err("short");
    assert_eq!(
        error,
        CellError::Parts {
            row: 1,
            found: 1,
            expected: 2
        }
    );
}
