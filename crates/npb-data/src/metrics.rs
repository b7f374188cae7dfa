//! Measures of predictions against the truth.

/// Why a measure is not defined for these inputs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// Nothing to measure.
    #[error("{metric} of no items; at least one is needed")]
    Empty {
        /// The measure.
        metric: &'static str,
    },
    /// Predictions and truth differ in length.
    #[error("{metric}: {predictions} predictions for {truths} items")]
    Length {
        /// The measure.
        metric: &'static str,
        /// Number of predictions.
        predictions: usize,
        /// Number of true values.
        truths: usize,
    },
    /// Both classes are needed.
    #[error(
        "{metric}: {positives} positive and {negatives} negative items; both classes are needed"
    )]
    OneClass {
        /// The measure.
        metric: &'static str,
        /// Number of positive items.
        positives: usize,
        /// Number of negative items.
        negatives: usize,
    },
    /// A number that the measure cannot use.
    #[error("{metric}: item {item} is {value}; it must be {rule}")]
    Value {
        /// The measure.
        metric: &'static str,
        /// Position of the item.
        item: usize,
        /// The value.
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
}

/// Area under the ROC curve: the probability that a positive item scores above a negative one, ties counted half.
///
/// `scores` may be any numbers but NaN. Exact: pairs are counted in integers and divided once. Cost O(n log n).
///
/// # Errors
/// [`MetricError`] for no items, different lengths, one class only, a NaN score.
///
/// ```
/// let auc = npb_data::metrics::auc(&[0.1, 0.5, 0.5, 0.9], &[false, false, true, true])?;
/// assert_eq!(auc, 0.875);
/// # Ok::<(), npb_data::metrics::MetricError>(())
/// ```
pub fn auc(scores: &[f64], positive: &[bool]) -> Result<f64, MetricError> {
    let metric = "AUC";
    let order = ascending_scores(metric, scores, positive)?;
    let (mut twice_won, mut negatives_below) = (0_u128, 0_u128);
    for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let positives = tied.iter().filter(|&&i| positive[i]).count() as u128;
        let negatives = tied.len() as u128 - positives;
        twice_won += positives * (2 * negatives_below + negatives);
        negatives_below += negatives;
    }
    let positives = order.len() as u128 - negatives_below;
    Ok(twice_won as f64 / (2 * positives * negatives_below) as f64)
}

/// Items by ascending score, after the checks that AUC and ROC share.
fn ascending_scores(
    metric: &'static str,
    scores: &[f64],
    positive: &[bool],
) -> Result<Vec<usize>, MetricError> {
    check_lengths(metric, scores.len(), positive.len())?;
    check_values(metric, scores, "a number", |s| !s.is_nan())?;
    let positives = positive.iter().filter(|&&p| p).count();
    let negatives = positive.len() - positives;
    if positives == 0 || negatives == 0 {
        return Err(MetricError::OneClass {
            metric,
            positives,
            negatives,
        });
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_unstable_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    Ok(order)
}

fn check_lengths(
    metric: &'static str,
    predictions: usize,
    truths: usize,
) -> Result<(), MetricError> {
    if predictions != truths {
        return Err(MetricError::Length {
            metric,
            predictions,
            truths,
        });
    }
    if truths == 0 {
        Err(MetricError::Empty { metric })
    } else {
        Ok(())
    }
}

fn check_values(
    metric: &'static str,
    values: &[f64],
    rule: &'static str,
    valid: impl Fn(f64) -> bool,
) -> Result<(), MetricError> {
    match values.iter().position(|&v| !valid(v)) {
        None => Ok(()),
        Some(item) => Err(MetricError::Value {
            metric,
            item,
            value: values[item],
            rule,
        }),
    }
}
