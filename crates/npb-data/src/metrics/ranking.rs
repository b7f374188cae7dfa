//! Measures of ranked lists beyond Top-L.

use super::{MetricError, ascending, check_lengths, check_values};

/// Normalised discounted cumulative gain of the L highest-scored items, for every L in `lengths`.
///
/// The item in place i (from 1) counts its gain divided by `log2(1 + i)`; the sum is divided by that of the best order. Gains are
/// relevances, 0 or more: 1 for a liked item and 0 for others, or `2^grade - 1`. Where scores tie, the expectation over random orders within the
/// tie is taken, as in [`top_l`](super::top_l). Source: Järvelin and Kekäläinen, ACM TOIS 20(4), 2002. Cost O(n log n).
///
/// # Errors
/// [`MetricError`] for no items, different lengths, a NaN score, a gain that is negative or not finite, no positive gain
/// ([`MetricError::OneClass`]), an L of 0 or above the number of items.
///
/// ```
/// // The liked item is second of three: 1 / log2(3), where the best order has 1.
/// let ndcg = npb_data::metrics::ndcg(&[0.9, 0.5, 0.1], &[0.0, 1.0, 0.0], &[1, 2])?;
/// assert_eq!(ndcg, [0.0, 1.0 / 3.0_f64.log2()]);
/// # Ok::<(), npb_data::metrics::MetricError>(())
/// ```
pub fn ndcg(scores: &[f64], gains: &[f64], lengths: &[usize]) -> Result<Vec<f64>, MetricError> {
    let metric = "NDCG";
    check_lengths(metric, scores.len(), gains.len())?;
    check_values(metric, scores, "a number", |s| !s.is_nan())?;
    check_values(metric, gains, "finite and >= 0", |g| {
        g.is_finite() && g >= 0.0
    })?;
    let n = scores.len();
    if gains.iter().all(|&g| g == 0.0) {
        return Err(MetricError::OneClass {
            metric,
            positives: 0,
            negatives: n,
        });
    }
    if let Some(&found) = lengths.iter().find(|&&l| l == 0 || l > n) {
        return Err(MetricError::Size {
            metric,
            what: "L",
            found,
            rule: "from 1 to the number of items",
        });
    }
    let (found, best) = (discounted(scores, gains), discounted(gains, gains));
    Ok(lengths.iter().map(|&l| found[l] / best[l]).collect())
}

/// Expected discounted cumulative gain of the first l of the ranking, for l = 0, ..., n.
fn discounted(scores: &[f64], gains: &[f64]) -> Vec<f64> {
    let order = ascending(scores);
    let (mut sums, mut sum) = (vec![0.0], 0.0);
    for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]).rev() {
        let gain = tied.iter().map(|&i| gains[i]).sum::<f64>() / tied.len() as f64;
        for _ in tied {
            // The next place, from 1, is the number of sums so far.
            sum += gain / (1.0 + sums.len() as f64).log2();
            sums.push(sum);
        }
    }
    sums
}
