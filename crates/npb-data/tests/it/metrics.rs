//! Measures against counts by hand and slow definitions.

use crate::rng;
use npb_data::metrics::{self, MetricError};
use rand::RngExt;

/// The definition: all pairs.
fn auc_by_pairs(scores: &[f64], positive: &[bool]) -> f64 {
    let (mut won, mut pairs) = (0.0, 0.0);
    for i in (0..scores.len()).filter(|&i| positive[i]) {
        for j in (0..scores.len()).filter(|&j| !positive[j]) {
            won += if scores[i] > scores[j] {
                1.0
            } else if scores[i] == scores[j] {
                0.5
            } else {
                0.0
            };
            pairs += 1.0;
        }
    }
    won / pairs
}

#[test]
fn auc_is_the_share_of_pairs_won() {
    let mut rng = rng(1);
    for n in [2, 3, 10, 101] {
        for levels in [2, 5, 1000] {
            let scores: Vec<f64> = (0..n)
                .map(|_| f64::from(rng.random_range(-levels..levels)))
                .collect();
            let mut positive: Vec<bool> = (0..n).map(|_| rng.random_bool(0.4)).collect();
            (positive[0], positive[1]) = (true, false);
            assert_eq!(
                metrics::auc(&scores, &positive),
                Ok(auc_by_pairs(&scores, &positive))
            );
        }
    }
    // Both zeros are one score; infinite scores are scores.
    assert_eq!(metrics::auc(&[0.0, -0.0], &[true, false]), Ok(0.5));
    assert_eq!(
        metrics::auc(&[f64::INFINITY, f64::NEG_INFINITY], &[true, false]),
        Ok(1.0)
    );
}

#[test]
fn auc_names_what_is_wrong() {
    assert_eq!(
        metrics::auc(&[], &[]),
        Err(MetricError::Empty { metric: "AUC" })
    );
    assert!(matches!(
        metrics::auc(&[1.0], &[true]),
        Err(MetricError::OneClass {
            positives: 1,
            negatives: 0,
            ..
        })
    ));
    assert!(matches!(
        metrics::auc(&[1.0], &[true, false]),
        Err(MetricError::Length {
            predictions: 1,
            truths: 2,
            ..
        })
    ));
    assert!(matches!(
        metrics::auc(&[1.0, f64::NAN], &[true, false]),
        Err(MetricError::Value { item: 1, .. })
    ));
}
