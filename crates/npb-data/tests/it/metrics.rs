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

#[test]
fn roc_runs_from_corner_to_corner_with_the_area_of_auc() {
    let mut rng = rng(2);
    let scores: Vec<f64> = (0..80)
        .map(|_| f64::from(rng.random_range(0..12)))
        .collect();
    let positive: Vec<bool> = (0..80).map(|_| rng.random_bool(0.3)).collect();
    let points = metrics::roc(&scores, &positive).expect("both classes");
    let (first, last) = (points[0], points[points.len() - 1]);
    assert_eq!(
        (first.false_positive_rate, first.true_positive_rate),
        (0.0, 0.0)
    );
    assert_eq!(
        (last.false_positive_rate, last.true_positive_rate),
        (1.0, 1.0)
    );
    let area: f64 = points
        .windows(2)
        .map(|w| {
            (w[1].false_positive_rate - w[0].false_positive_rate)
                * (w[1].true_positive_rate + w[0].true_positive_rate)
                / 2.0
        })
        .sum();
    assert!((area - metrics::auc(&scores, &positive).expect("both classes")).abs() < 1e-14);
    for point in &points {
        let called = |y: bool| {
            (0..80)
                .filter(|&i| positive[i] == y && scores[i] >= point.threshold)
                .count() as f64
        };
        let total = |y: bool| positive.iter().filter(|&&p| p == y).count() as f64;
        assert_eq!(point.true_positive_rate, called(true) / total(true));
        assert_eq!(point.false_positive_rate, called(false) / total(false));
    }
}

#[test]
fn accuracy_of_any_labels() {
    assert_eq!(
        metrics::accuracy(&["a", "b", "b"], &["a", "b", "c"]),
        Ok(2.0 / 3.0)
    );
    assert_eq!(
        metrics::accuracy::<u8>(&[], &[]),
        Err(MetricError::Empty { metric: "accuracy" })
    );
}

#[test]
fn log_loss_and_brier_by_hand() {
    let (p, y) = ([0.25, 0.5, 1.0], [false, true, true]);
    let expected = -(0.75_f64.ln() + 0.5_f64.ln()) / 3.0;
    assert!((metrics::log_loss(&p, &y).expect("valid") - expected).abs() < 1e-15);
    assert!((metrics::brier(&p, &y).expect("valid") - (0.0625 + 0.25) / 3.0).abs() < 1e-16);
    let surprised = metrics::log_loss(&[0.0], &[true]).expect("clipped");
    assert!((surprised - -metrics::LOG_LOSS_CLIP.ln()).abs() < 1e-12);
    for bad in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(
            metrics::log_loss(&[0.5, bad], &[true, true]),
            Err(MetricError::Value { item: 1, .. })
        ));
        assert!(
            metrics::brier(&[bad], &[true]).is_err()
                && metrics::calibration_curve(&[bad], &[true], 3).is_err()
        );
    }
}

#[test]
fn calibration_by_hand() {
    let probability = [0.1, 0.2, 0.3, 0.5, 0.9, 1.0];
    let positive = [false, false, true, true, true, true];
    let bins = metrics::calibration_curve(&probability, &positive, 2).expect("valid");
    assert_eq!(
        (bins.len(), bins[0].n, bins[1].n),
        (2, 3, 3),
        "0.5 is in the upper bin, 1 in the last"
    );
    assert!(
        (bins[0].mean_probability - 0.2).abs() < 1e-15
            && (bins[0].share_positive - 1.0 / 3.0).abs() < 1e-15
    );
    let error = metrics::expected_calibration_error(&probability, &positive, 2).expect("valid");
    assert!(
        (error - 0.5 * (1.0 / 3.0 - 0.2) - 0.5 * (1.0 - 0.8)).abs() < 1e-15,
        "{error}"
    );
    assert_eq!(
        metrics::calibration_curve(&probability, &positive, 1000)
            .expect("valid")
            .len(),
        6,
        "empty bins left out"
    );
    assert!(matches!(
        metrics::calibration_curve(&probability, &positive, 0),
        Err(MetricError::Size { .. })
    ));
}

#[test]
fn errors_of_numbers() {
    let (predicted, truth) = ([1.0, 2.0, 5.0], [1.0, 4.0, 4.0]);
    assert!(
        (metrics::rmse(&predicted, &truth).expect("valid") - (5.0_f64 / 3.0).sqrt()).abs() < 1e-15
    );
    assert_eq!(metrics::mae(&predicted, &truth), Ok(1.0));
    assert_eq!(
        metrics::nmae(&predicted, &truth, metrics::random_rating_mae(5)),
        Ok(1.0 / 1.6)
    );
    let guess: f64 = (1..=5)
        .flat_map(|u| (1..=5).map(move |v| f64::from(i32::abs(u - v))))
        .sum::<f64>()
        / 25.0;
    assert!((metrics::random_rating_mae(5) - guess).abs() < 1e-15);
    assert_eq!(
        metrics::rmse(&[1e300, 0.0], &[0.0, 0.0]).map(|e| e < 1e301),
        Ok(true),
        "no overflow"
    );
    assert_eq!(metrics::rmse(&[3.0], &[3.0]), Ok(0.0));
    assert!(matches!(
        metrics::rmse(&[1.0, f64::NAN], &[1.0, 2.0]),
        Err(MetricError::Value { item: 1, .. })
    ));
    assert!(matches!(
        metrics::mae(&[1.0], &[f64::INFINITY]),
        Err(MetricError::Value { item: 0, .. })
    ));
    assert!(matches!(
        metrics::mae(&[], &[]),
        Err(MetricError::Empty { .. })
    ));
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(metrics::nmae(&predicted, &truth, scale).is_err());
    }
}

#[test]
fn coverage_counts_both_ends() {
    let coverage = metrics::interval_coverage(
        &[0.0, 0.0, f64::NEG_INFINITY, 1.0],
        &[1.0, 1.0, 3.0, 1.0],
        &[0.0, 1.1, -9.0, 1.0],
    );
    assert_eq!(coverage, Ok(0.75));
    assert!(matches!(
        metrics::interval_coverage(&[2.0], &[1.0], &[1.5]),
        Err(MetricError::Value { item: 0, .. })
    ));
    assert!(metrics::interval_coverage(&[2.0], &[f64::NAN], &[1.5]).is_err());
    assert!(metrics::interval_coverage(&[2.0, 2.0], &[3.0], &[1.5]).is_err());
}

#[test]
fn f1_and_subset_accuracy_by_hand() {
    // Three items, three labels; label 2 is never true and never predicted.
    let truth = [true, false, false, true, true, false, false, true, false];
    let predicted = [true, false, false, true, false, false, true, true, false];
    let f1 = metrics::f1(&predicted, &truth, 3).expect("valid");
    assert!((f1.micro - 2.0 * 3.0 / (4.0 + 4.0)).abs() < 1e-15);
    assert!((f1.macro_ - (4.0 / 5.0 + 2.0 / 3.0 + 0.0) / 3.0).abs() < 1e-15);
    assert!((f1.example - (1.0 + 2.0 / 3.0 + 2.0 / 3.0) / 3.0).abs() < 1e-15);
    assert_eq!(
        metrics::subset_accuracy(&predicted, &truth, 3),
        Ok(1.0 / 3.0)
    );
    assert!(matches!(
        metrics::f1(&predicted, &truth, 4),
        Err(MetricError::Size { .. })
    ));
    assert!(matches!(
        metrics::f1(&predicted, &truth, 0),
        Err(MetricError::Empty { .. })
    ));
    assert!(matches!(
        metrics::subset_accuracy(&[], &[], 2),
        Err(MetricError::Empty { .. })
    ));
}

/// Averages over all orders within ties, by permuting the items and breaking ties by position.
#[test]
fn top_l_is_the_mean_over_orders_within_ties() {
    let scores = [3.0, 2.0, 2.0, 2.0, 1.0];
    let liked = [true, true, false, false, true];
    let measures = metrics::top_l(&scores, &liked, &[1, 2, 3, 4, 5]).expect("valid");
    let hits: Vec<f64> = measures.iter().map(|m| m.hits).collect();
    for (found, expected) in hits.iter().zip([1.0, 4.0 / 3.0, 5.0 / 3.0, 2.0, 3.0]) {
        assert!((found - expected).abs() < 1e-15, "{hits:?}");
    }
    let two = measures[1];
    assert!(
        (two.precision - two.hits / 2.0).abs() < 1e-15
            && (two.recall - two.hits / 3.0).abs() < 1e-15
    );
    // In the list of two, 4/3 right and 2/3 wrong; outside, 4/3 not liked (right) and 5/3 liked.
    assert!(
        (two.accuracy - (4.0 / 3.0 + 4.0 / 3.0) / 5.0).abs() < 1e-15,
        "{two:?}"
    );
    for l in [0, 6] {
        assert!(matches!(
            metrics::top_l(&scores, &liked, &[l]),
            Err(MetricError::Size { .. })
        ));
    }
    assert!(matches!(
        metrics::top_l(&scores, &[false; 5], &[1]),
        Err(MetricError::OneClass { .. })
    ));
    assert!(matches!(
        metrics::top_l(&[f64::NAN], &[true], &[1]),
        Err(MetricError::Value { .. })
    ));
}

#[test]
fn explained_variance_has_three_definitions() {
    // Group 7: errors 1, 1, distances to its mean 4, 4. Group 3: error 9, distances 1, 1. Mean of all: 6.
    let truth = [1.0, 5.0, 8.0, 10.0];
    let predicted = [2.0, 4.0, 8.0, 13.0];
    let ev = metrics::explained_variance(&predicted, &truth, &[7, 7, 3, 3]).expect("valid");
    let pooled = 1.0 - 11.0 / (25.0 + 1.0 + 4.0 + 16.0);
    assert_eq!(ev.pooled, pooled);
    assert!((ev.within - (1.0 - 11.0 / 10.0)).abs() < 1e-15);
    assert!((ev.group_mean - 0.5 * ((1.0 - 2.0 / 8.0) + (1.0 - 9.0 / 2.0))).abs() < 1e-15);
    let one = metrics::explained_variance(&predicted, &truth, &[4; 4]).expect("valid");
    assert_eq!(
        (one.pooled, one.within, one.group_mean),
        (pooled, pooled, pooled)
    );
    // A group with one item has no variance of its own: its error counts within groups, and it is left out of their mean.
    let lone = metrics::explained_variance(&predicted, &truth, &[7, 7, 3, 4]).expect("valid");
    assert_eq!((lone.constant_groups, lone.group_mean), (2, 0.75));
    assert_eq!(lone.within, 1.0 - 11.0 / 8.0);
}

#[test]
fn explained_variance_without_variance_is_an_error() {
    let ev = metrics::explained_variance;
    assert!(matches!(
        ev(&[1.0, 2.0], &[3.0, 3.0], &[0, 0]),
        Err(MetricError::Value { .. })
    ));
    assert!(matches!(
        ev(&[1.0, 2.0], &[3.0, 4.0], &[0, 1]),
        Err(MetricError::Value { .. })
    ));
    assert!(matches!(
        ev(&[1.0], &[3.0, 4.0], &[0, 0]),
        Err(MetricError::Length { .. })
    ));
    assert!(matches!(
        ev(&[1.0, 2.0], &[3.0, 4.0], &[0]),
        Err(MetricError::Length { .. })
    ));
    assert!(matches!(
        ev(&[1.0, f64::NAN], &[3.0, 4.0], &[0, 0]),
        Err(MetricError::Value { .. })
    ));
    assert!(matches!(ev(&[], &[], &[]), Err(MetricError::Empty { .. })));
}

/// All orders of the numbers from 0 to n - 1.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let longer = |order: Vec<usize>| {
        (0..n).map(move |place| {
            let mut order = order.clone();
            order.insert(place, n - 1);
            order
        })
    };
    orders(n - 1).into_iter().flat_map(longer).collect()
}

#[test]
fn ndcg_is_the_mean_over_orders_within_ties() {
    let scores = [2.0, 1.0, 1.0, 1.0, 0.0];
    let gains = [0.0, 3.0, 0.0, 1.0, 7.0];
    let dcg = |order: &[usize], l: usize| -> f64 {
        let gain = |(place, &i): (usize, &usize)| gains[i] / (place as f64 + 2.0).log2();
        order.iter().take(l).enumerate().map(gain).sum()
    };
    let sorted: Vec<Vec<usize>> = orders(5)
        .into_iter()
        .filter(|order| order.windows(2).all(|w| scores[w[0]] >= scores[w[1]]))
        .collect();
    assert_eq!(sorted.len(), 6);
    let found = metrics::ndcg(&scores, &gains, &[1, 2, 3, 4, 5]).unwrap();
    for (l, found) in (1..=5).zip(found) {
        let mean = sorted.iter().map(|order| dcg(order, l)).sum::<f64>() / 6.0;
        assert!((found - mean / dcg(&[4, 1, 3, 0, 2], l)).abs() < 1e-12);
    }
    for (scores, gains, l) in [
        (&[f64::NAN, 1.0][..], &[1.0, 0.0][..], 1),
        (&[0.0, 1.0], &[0.0, 0.0], 1),
        (&[0.0, 1.0], &[1.0, -1.0], 1),
        (&[0.0, 1.0], &[1.0], 1),
        (&[0.0, 1.0], &[1.0, 0.0], 3),
        (&[0.0, 1.0], &[1.0, 0.0], 0),
    ] {
        assert!(metrics::ndcg(scores, gains, &[l]).is_err());
    }
}
