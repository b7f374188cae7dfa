//! Measures of predictions against the truth.

mod ranking;

pub use ranking::ndcg;

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
    /// A size or count that does not fit.
    #[error("{metric}: {what} is {found}; it must be {rule}")]
    Size {
        /// The measure.
        metric: &'static str,
        /// The argument.
        what: &'static str,
        /// Its value.
        found: usize,
        /// What it must be.
        rule: &'static str,
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

/// One point of a ROC curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RocPoint {
    /// Items with this score or a higher one are called positive; +infinity at the first point.
    pub threshold: f64,
    /// Share of the negative items called positive.
    pub false_positive_rate: f64,
    /// Share of the positive items called positive.
    pub true_positive_rate: f64,
}

/// The ROC curve from (0, 0) to (1, 1), one more point for every distinct score, scores falling.
///
/// Its area by the trapezoidal rule is [`auc`]. Cost O(n log n).
///
/// # Errors
/// As [`auc`].
pub fn roc(scores: &[f64], positive: &[bool]) -> Result<Vec<RocPoint>, MetricError> {
    let order = ascending_scores("ROC", scores, positive)?;
    let n_positive = positive.iter().filter(|&&p| p).count();
    let n_negative = positive.len() - n_positive;
    let (mut hits, mut false_alarms) = (0, 0);
    let mut points = vec![RocPoint {
        threshold: f64::INFINITY,
        false_positive_rate: 0.0,
        true_positive_rate: 0.0,
    }];
    for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]).rev() {
        let positives = tied.iter().filter(|&&i| positive[i]).count();
        hits += positives;
        false_alarms += tied.len() - positives;
        points.push(RocPoint {
            threshold: scores[tied[0]],
            false_positive_rate: false_alarms as f64 / n_negative as f64,
            true_positive_rate: hits as f64 / n_positive as f64,
        });
    }
    Ok(points)
}

/// Share of items predicted right; any type of label. For multi-label decisions, pass all decisions of all rows.
///
/// # Errors
/// [`MetricError`] for no items or different lengths.
pub fn accuracy<T: PartialEq>(predicted: &[T], truth: &[T]) -> Result<f64, MetricError> {
    check_lengths("accuracy", predicted.len(), truth.len())?;
    let right = predicted.iter().zip(truth).filter(|(p, t)| p == t).count();
    Ok(right as f64 / truth.len() as f64)
}

/// Probabilities below this, and above one minus this, count as this in [`log_loss`].
pub const LOG_LOSS_CLIP: f64 = 1e-15;

/// Mean negative log-probability (nats) of the truth; probabilities clipped to `[LOG_LOSS_CLIP, 1 - LOG_LOSS_CLIP]`.
///
/// `probability`: of the positive class, for every item.
///
/// # Errors
/// [`MetricError`] for no items, different lengths, a probability outside 0 to 1.
pub fn log_loss(probability: &[f64], positive: &[bool]) -> Result<f64, MetricError> {
    check_probabilities("log loss", probability, positive.len())?;
    let loss = probability.iter().zip(positive).map(|(&p, &y)| {
        let p = p.clamp(LOG_LOSS_CLIP, 1.0 - LOG_LOSS_CLIP);
        if y { -p.ln() } else { -(-p).ln_1p() }
    });
    Ok(mean(loss))
}

/// Brier score: mean squared difference of probability and outcome (0 or 1).
///
/// # Errors
/// As [`log_loss`].
pub fn brier(probability: &[f64], positive: &[bool]) -> Result<f64, MetricError> {
    check_probabilities("Brier score", probability, positive.len())?;
    Ok(mean(
        probability
            .iter()
            .zip(positive)
            .map(|(&p, &y)| (p - f64::from(u8::from(y))).powi(2)),
    ))
}

/// Items whose probability falls in one bin of a calibration curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrationBin {
    /// Number of items; at least 1.
    pub n: usize,
    /// Mean predicted probability.
    pub mean_probability: f64,
    /// Share of positive items.
    pub share_positive: f64,
}

/// The calibration curve: bins of equal width over 0 to 1, `[k/n, (k+1)/n)` with 1 in the last; empty bins are left out.
///
/// # Errors
/// As [`log_loss`]; [`MetricError::Size`] for no bins.
pub fn calibration_curve(
    probability: &[f64],
    positive: &[bool],
    n_bins: usize,
) -> Result<Vec<CalibrationBin>, MetricError> {
    let metric = "calibration";
    check_probabilities(metric, probability, positive.len())?;
    if n_bins == 0 {
        return Err(MetricError::Size {
            metric,
            what: "number of bins",
            found: 0,
            rule: "at least 1",
        });
    }
    let bin_of = |p: f64| ((p * n_bins as f64) as usize).min(n_bins - 1);
    let mut bins: std::collections::BTreeMap<usize, (usize, f64, usize)> =
        std::collections::BTreeMap::new();
    for (&p, &y) in probability.iter().zip(positive) {
        let (n, sum, positives) = bins.entry(bin_of(p)).or_default();
        (*n, *sum, *positives) = (*n + 1, *sum + p, *positives + usize::from(y));
    }
    let bin = |(n, sum, positives): (usize, f64, usize)| CalibrationBin {
        n,
        mean_probability: sum / n as f64,
        share_positive: positives as f64 / n as f64,
    };
    Ok(bins.into_values().map(bin).collect())
}

/// Expected calibration error: mean over items of |mean probability - share of positives| of their bin of the
/// [`calibration_curve`].
///
/// # Errors
/// As [`calibration_curve`].
pub fn expected_calibration_error(
    probability: &[f64],
    positive: &[bool],
    n_bins: usize,
) -> Result<f64, MetricError> {
    let bins = calibration_curve(probability, positive, n_bins)?;
    let gap =
        |bin: &CalibrationBin| bin.n as f64 * (bin.mean_probability - bin.share_positive).abs();
    Ok(bins.iter().map(gap).sum::<f64>() / probability.len() as f64)
}

/// Root mean squared error. Scaled inside, so that squares do not overflow.
///
/// # Errors
/// [`MetricError`] for no items, different lengths, values that are not finite.
pub fn rmse(predicted: &[f64], truth: &[f64]) -> Result<f64, MetricError> {
    let errors = absolute_errors("RMSE", predicted, truth)?;
    let largest = errors.iter().fold(0.0_f64, |a, &e| a.max(e));
    if largest == 0.0 || largest.is_infinite() {
        return Ok(largest);
    }
    Ok(mean(errors.iter().map(|e| (e / largest).powi(2))).sqrt() * largest)
}

/// Peak signal-to-noise ratio of an image in decibels: `20 log10(peak / RMSE)`; infinite when nothing is wrong.
///
/// `estimate`, `truth`: all entries, as [`Image::values`](crate::Image::values) has them; `peak`: 255 for 8 bit.
///
/// # Errors
/// As [`rmse`]; a peak that is not finite and above 0.
///
/// ```
/// let psnr = npb_data::metrics::psnr(&[0.0, 255.0], &[25.5, 229.5], 255.0)?;
/// assert!((psnr - 20.0).abs() < 1e-12);
/// # Ok::<(), npb_data::metrics::MetricError>(())
/// ```
pub fn psnr(estimate: &[f32], truth: &[f32], peak: f64) -> Result<f64, MetricError> {
    let metric = "PSNR";
    check_lengths(metric, estimate.len(), truth.len())?;
    check_values(metric, &[peak], "finite and > 0", |v| {
        v > 0.0 && v.is_finite()
    })?;
    let error = |(e, t): (&f32, &f32)| f64::from(*e) - f64::from(*t);
    let errors = || estimate.iter().zip(truth).map(error);
    if let Some((item, value)) = errors().enumerate().find(|(_, e)| !e.is_finite()) {
        let rule = "a difference of finite numbers";
        return Err(MetricError::Value {
            metric,
            item,
            value,
            rule,
        });
    }
    let rmse = mean(errors().map(|e| e * e)).sqrt();
    Ok(20.0 * (peak / rmse).log10())
}

/// Mean absolute error.
///
/// # Errors
/// As [`rmse`].
pub fn mae(predicted: &[f64], truth: &[f64]) -> Result<f64, MetricError> {
    Ok(mean(absolute_errors("MAE", predicted, truth)?.into_iter()))
}

/// Mean absolute error divided by `scale`: the range of the values, or [`random_rating_mae`], as recommender papers use (1.6 for
/// five stars).
///
/// # Errors
/// As [`rmse`]; [`MetricError::Value`] when the scale is not finite and positive.
pub fn nmae(predicted: &[f64], truth: &[f64], scale: f64) -> Result<f64, MetricError> {
    check_values("NMAE scale", &[scale], "finite and > 0", |s| {
        s.is_finite() && s > 0.0
    })?;
    Ok(mean(absolute_errors("NMAE", predicted, truth)?.into_iter()) / scale)
}

/// Mean absolute error of guessing at random: E|u - v| for u, v independent and uniform on 1, ..., `levels`, which is
/// (levels^2 - 1) / (3 levels); 1.6 for five levels.
pub fn random_rating_mae(levels: u32) -> f64 {
    let n = f64::from(levels);
    if levels == 0 {
        0.0
    } else {
        (n * n - 1.0) / (3.0 * n)
    }
}

/// Explained variance of predictions for groups of items (pupils of schools), by the three definitions that papers mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExplainedVariance {
    /// 1 - squared error / squared distances to the mean of all items.
    pub pooled: f64,
    /// 1 - squared error / squared distances to the mean of the item's own group.
    pub within: f64,
    /// Mean over groups of (1 - squared error / squared distances to the mean of the group).
    pub group_mean: f64,
    /// Groups left out of `group_mean`, because their true values are all equal.
    pub constant_groups: usize,
}

/// The share of the variance of `truth` that `predicted` explains; 1 is perfect, 0 as good as the mean, and it has no lower end.
///
/// `groups`: the group of every item, any numbers; one number for all items makes the three definitions equal. Source of the
/// pooled definition: Bakker and Heskes, JMLR 4 (2003): "the total variance minus the sum-squared error as a percentage of the
/// total variance".
///
/// # Errors
/// [`MetricError`] for no items, different lengths, values that are not finite, or true values that are all equal
/// (for `within`: equal within each group).
///
/// ```
/// let truth = [1.0, 3.0, 11.0, 13.0];
/// let ev = npb_data::metrics::explained_variance(&[2.0, 2.0, 11.0, 13.0], &truth, &[1, 1, 2, 2])?;
/// assert_eq!((ev.pooled, ev.within, ev.group_mean), (1.0 - 2.0 / 104.0, 0.5, 0.5));
/// # Ok::<(), npb_data::metrics::MetricError>(())
/// ```
pub fn explained_variance(
    predicted: &[f64],
    truth: &[f64],
    groups: &[usize],
) -> Result<ExplainedVariance, MetricError> {
    let metric = "explained variance";
    check_lengths(metric, predicted.len(), truth.len())?;
    check_lengths(metric, groups.len(), truth.len())?;
    check_values(metric, predicted, "finite", f64::is_finite)?;
    check_values(metric, truth, "finite", f64::is_finite)?;
    let mut members: std::collections::BTreeMap<usize, Vec<usize>> =
        std::collections::BTreeMap::new();
    for (item, &group) in groups.iter().enumerate() {
        members.entry(group).or_default().push(item);
    }
    let all: Vec<usize> = (0..truth.len()).collect();
    let (error, total) = squares(predicted, truth, &all);
    let each: Vec<(f64, f64)> = members
        .values()
        .map(|items| squares(predicted, truth, items))
        .collect();
    let within: f64 = each.iter().map(|(_, total)| total).sum();
    let share = |error: f64, total: f64| match total > 0.0 {
        true => Ok(1.0 - error / total),
        false => Err(MetricError::Value {
            metric,
            item: 0,
            value: truth[0],
            rule: "different from others of its group",
        }),
    };
    let varied: Vec<f64> = each
        .iter()
        .filter_map(|&(error, total)| share(error, total).ok())
        .collect();
    Ok(ExplainedVariance {
        pooled: share(error, total)?,
        within: share(error, within)?,
        constant_groups: each.len() - varied.len(),
        group_mean: mean(varied.into_iter()),
    })
}

/// Sums over some items: squared errors, and squared distances of the truth to its mean.
fn squares(predicted: &[f64], truth: &[f64], items: &[usize]) -> (f64, f64) {
    let centre = mean(items.iter().map(|&i| truth[i]));
    let error = items.iter().map(|&i| (predicted[i] - truth[i]).powi(2));
    let distance = items.iter().map(|&i| (truth[i] - centre).powi(2));
    (error.sum(), distance.sum())
}

/// Share of true values within their intervals, ends included.
///
/// # Errors
/// [`MetricError`] for no items, different lengths, NaN (infinite ends are allowed), an interval whose ends are exchanged.
pub fn interval_coverage(lower: &[f64], upper: &[f64], truth: &[f64]) -> Result<f64, MetricError> {
    let metric = "interval coverage";
    for ends in [lower, upper] {
        check_lengths(metric, ends.len(), truth.len())?;
        check_values(metric, ends, "a number", |v| !v.is_nan())?;
    }
    check_values(metric, truth, "finite", f64::is_finite)?;
    if let Some(item) = (0..truth.len()).find(|&i| lower[i] > upper[i]) {
        return Err(MetricError::Value {
            metric,
            item,
            value: lower[item],
            rule: "at most the upper end",
        });
    }
    let covered = (0..truth.len())
        .filter(|&i| lower[i] <= truth[i] && truth[i] <= upper[i])
        .count();
    Ok(covered as f64 / truth.len() as f64)
}

/// F1 over several labels per item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct F1 {
    /// Of all decisions pooled.
    pub micro: f64,
    /// Mean over labels.
    pub macro_: f64,
    /// Mean over items.
    pub example: f64,
}

/// F1 = 2 true positives / (predicted positives + true positives and misses), over several labels per item.
///
/// `predicted` and `truth`: row-major, one row of `n_labels` decisions per item. Where nothing is positive on either side, F1 is 0/0
/// and counts as 0 (a label in `macro_`, an item in `example`).
///
/// # Errors
/// [`MetricError`] for no items or labels, sizes that do not fit.
pub fn f1(predicted: &[bool], truth: &[bool], n_labels: usize) -> Result<F1, MetricError> {
    let n_items = check_decisions("F1", predicted, truth, n_labels)?;
    let score = |cells: &mut dyn Iterator<Item = usize>| {
        let (mut both, mut either) = (0_usize, 0_usize);
        for k in cells {
            both += usize::from(predicted[k] && truth[k]);
            either += usize::from(predicted[k]) + usize::from(truth[k]);
        }
        if either == 0 {
            0.0
        } else {
            2.0 * both as f64 / either as f64
        }
    };
    Ok(F1 {
        micro: score(&mut (0..truth.len())),
        macro_: mean((0..n_labels).map(|l| score(&mut (l..truth.len()).step_by(n_labels)))),
        example: mean((0..n_items).map(|i| score(&mut (i * n_labels..(i + 1) * n_labels)))),
    })
}

/// Share of items whose labels are all predicted right (row-major decisions, as in [`f1`]).
///
/// # Errors
/// As [`f1`].
pub fn subset_accuracy(
    predicted: &[bool],
    truth: &[bool],
    n_labels: usize,
) -> Result<f64, MetricError> {
    let n_items = check_decisions("subset accuracy", predicted, truth, n_labels)?;
    let rows = predicted
        .chunks_exact(n_labels)
        .zip(truth.chunks_exact(n_labels));
    Ok(rows.filter(|(p, t)| p == t).count() as f64 / n_items as f64)
}

/// How good the first L items of a ranking are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopL {
    /// Length of the list.
    pub l: usize,
    /// Liked items in the list.
    pub hits: f64,
    /// Share of the list that is liked: hits / L. This is the "Top-L accuracy" of recommender papers.
    pub precision: f64,
    /// Share of the liked items that are in the list.
    pub recall: f64,
    /// Share of all items on the right side, when the list is called liked and the rest not.
    pub accuracy: f64,
}

/// Measures of the L highest-scored items, for every L in `lengths`.
///
/// Where a tie crosses the end of the list, the expectation over random orders within the tie is taken, so that the result does not
/// depend on the order of the items. Source of Top-L accuracy: Tresp and Yu, nonparametric hierarchical Bayesian
/// modelling, the painting survey (figure 4): known liked items in the list over L.
///
/// # Errors
/// [`MetricError`] for no items, different lengths, a NaN score, no liked item ([`MetricError::OneClass`]), a length of 0 or above
/// the number of items. All items may be liked.
pub fn top_l(scores: &[f64], liked: &[bool], lengths: &[usize]) -> Result<Vec<TopL>, MetricError> {
    let metric = "Top-L";
    check_lengths(metric, scores.len(), liked.len())?;
    check_values(metric, scores, "a number", |s| !s.is_nan())?;
    let n = scores.len();
    let n_liked = liked.iter().filter(|&&y| y).count();
    if n_liked == 0 {
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
    let expected_hits = expected_hits(scores, liked);
    let measures = |&l: &usize| {
        let hits = expected_hits[l];
        let right = hits + (n as f64 - l as f64) - (n_liked as f64 - hits);
        let (precision, recall) = (hits / l as f64, hits / n_liked as f64);
        TopL {
            l,
            hits,
            precision,
            recall,
            accuracy: right / n as f64,
        }
    };
    Ok(lengths.iter().map(measures).collect())
}

/// Expected number of liked items among the first l of the ranking, for l = 0, ..., n.
fn expected_hits(scores: &[f64], liked: &[bool]) -> Vec<f64> {
    let order = ascending(scores);
    let (mut hits, mut before) = (vec![0.0], 0);
    for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]).rev() {
        let liked_here = tied.iter().filter(|&&i| liked[i]).count();
        let place = |k: usize| before as f64 + liked_here as f64 * k as f64 / tied.len() as f64;
        hits.extend((1..=tied.len()).map(place));
        before += liked_here;
    }
    hits
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
    Ok(ascending(scores))
}

/// Items by ascending score. No score is NaN.
fn ascending(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_unstable_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    order
}

/// Mean in order of the items; the number of items is checked before.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len() as f64;
    values.sum::<f64>() / n
}

fn absolute_errors(
    metric: &'static str,
    predicted: &[f64],
    truth: &[f64],
) -> Result<Vec<f64>, MetricError> {
    check_lengths(metric, predicted.len(), truth.len())?;
    check_values(metric, predicted, "finite", f64::is_finite)?;
    check_values(metric, truth, "finite", f64::is_finite)?;
    Ok(predicted
        .iter()
        .zip(truth)
        .map(|(p, t)| (p - t).abs())
        .collect())
}

fn check_probabilities(
    metric: &'static str,
    probability: &[f64],
    n: usize,
) -> Result<(), MetricError> {
    check_lengths(metric, probability.len(), n)?;
    check_values(metric, probability, "a probability from 0 to 1", |p| {
        (0.0..=1.0).contains(&p)
    })
}

/// `cells` is `n_items` rows of `n_cols`, neither of them 0.
fn check_matrix(
    metric: &'static str,
    cells: usize,
    n_cols: usize,
    n_items: usize,
) -> Result<(), MetricError> {
    if n_items == 0 || n_cols == 0 {
        return Err(MetricError::Empty { metric });
    }
    if n_items.checked_mul(n_cols) != Some(cells) {
        let what = "number of cells";
        return Err(MetricError::Size {
            metric,
            what,
            found: cells,
            rule: "items times labels",
        });
    }
    Ok(())
}

/// Number of items of two row-major matrices of decisions.
fn check_decisions(
    metric: &'static str,
    predicted: &[bool],
    truth: &[bool],
    n_labels: usize,
) -> Result<usize, MetricError> {
    check_lengths(metric, predicted.len(), truth.len())?;
    let n_items = truth.len() / n_labels.max(1);
    check_matrix(metric, truth.len(), n_labels, n_items)?;
    Ok(n_items)
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
