//! Counts.

use super::support::*;
use npb_itf::kernels::{CellError, NegativeBinomial, NegativeBinomialData};
use npb_itf::{Kernel, RowLabels};

const COUNTS: [Option<u64>; 9] = [
    Some(3),
    Some(0),
    None,
    Some(7),
    Some(1),
    Some(2),
    Some(25),
    None,
    Some(4),
];
const EXTREME: [Option<u64>; 6] = [
    Some(0),
    Some(1 << 53),
    None,
    Some(1 << 53),
    Some(1),
    Some(0),
];

fn negative_binomial() -> (NegativeBinomial, NegativeBinomialData) {
    (
        NegativeBinomial,
        NegativeBinomialData::new(&COUNTS).expect("valid"),
    )
}

#[test]
fn negative_binomial_identities() {
    let (kernel, data) = negative_binomial();
    evidence_is_a_chain_of_predictives(&kernel, &data);
    predictive_is_a_mean_over_draws(&kernel, &data, &[0, 1, 3], 8);
    expected_is_the_mean_of_draws(&kernel, &data, 0, true, RowLabels::NONE);
}

/// Given other counts, the predictive probabilities of 0, 1, 2, ... sum to 1.
fn predictive_sums_to_one<K: Kernel>(kernel: &K, make: impl Fn(&[Option<u64>]) -> K::Data) {
    let data = make(&[Some(2), Some(5), Some(3)]);
    let params = prior(kernel, &mut rng(7));
    let mut stats = kernel.no_stats();
    (0..3).for_each(|row| kernel.add(&mut stats, &data, row));
    let all: Vec<Option<u64>> = (0..4000).map(Some).collect();
    let all = make(&all);
    let sum: f64 = (0..4000)
        .map(|row| kernel.ln_predictive(&params, &stats, &all, row).exp())
        .sum();
    assert!((0.999..1.0 + 1e-9).contains(&sum), "{sum}");
}

#[test]
fn probabilities_of_counts_sum_to_one() {
    predictive_sums_to_one(&NegativeBinomial, |x| {
        NegativeBinomialData::new(x).expect("valid")
    });
}

#[test]
fn the_joint_law_of_counts() {
    let (kernel, data) = negative_binomial();
    let probe = NegativeBinomialData::new(&[Some(0), Some(6)]).expect("valid");
    joint_distribution(kernel, data, probe);
}

#[test]
fn extreme_counts() {
    for counts in [&EXTREME[..], &[None; 3]] {
        let data = NegativeBinomialData::new(counts).expect("valid");
        stays_finite(&NegativeBinomial, &data);
    }
}

#[test]
fn bad_counts_are_named() {
    let too_large = [Some(1), Some((1 << 53) + 2)];
    let error = NegativeBinomialData::new(&too_large).expect_err("too large");
    assert!(
        matches!(
            error,
            CellError::Value {
                row: 1,
                part: 0,
                ..
            }
        ),
        "{error}"
    );
}
