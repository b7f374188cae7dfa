//! Simulated data with holes.

use npb_data::{Labels, Table};
use npb_infer::stream;
use npb_iqgme::npb_infer::Interval;
use npb_iqgme::{Imputation, MissingCell};

use rand::RngExt;
use rand_distr::StandardNormal;

pub(crate) use crate::gaussians::{config, three_gaussians};

/// Gaussians at the corners of a square, the class by the diagonal; a fifth of the cells removed.
pub(crate) fn corners(seed: u64, n: usize) -> (Table, Labels) {
    let mut rng = stream(seed, [0, 0, 8, 0]);
    let (mut values, mut seen, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..n {
        let (right, up) = (rng.random::<bool>(), rng.random::<bool>());
        for side in [right, up] {
            let noise: f64 = rng.sample(StandardNormal);
            values.push(if side { 2.0 } else { -2.0 } + 0.8 * noise);
            seen.push(rng.random::<f64>() >= 0.2);
        }
        labels.push(Some(if right == up { "same" } else { "other" }));
    }
    (
        Table::new(n, 2, values, &seen).unwrap(),
        Labels::from_strings(&labels),
    )
}

/// How well the labelled rows of a table are predicted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evaluation {
    pub(crate) accuracy: f64,
    pub(crate) log_loss: f64,
}

/// Of probabilities by row and class.
pub(crate) fn evaluate(
    classes: &[String],
    probabilities: &[Vec<f64>],
    truth: &Labels,
) -> Evaluation {
    let (mut right, mut loss, mut n) = (0.0, 0.0, 0.0);
    for (row, p) in probabilities.iter().enumerate() {
        let class = |name: &str| classes.iter().position(|c| c == name).unwrap();
        let Some(class) = truth.name(row).map(class) else {
            continue;
        };
        n += 1.0;
        right += f64::from(u8::from(p.iter().all(|other| *other <= p[class])));
        loss -= p[class].max(f64::MIN_POSITIVE).ln();
    }
    Evaluation {
        accuracy: right / n,
        log_loss: loss / n,
    }
}

/// Checks intervals of the probabilities of all classes: they are about what is predicted, and neither points nor all
/// that is possible.
pub(crate) fn intervals_agree(
    intervals: &[Vec<Interval>],
    predicted: &[Vec<f64>],
) -> Result<(), String> {
    let (mut width, mut n) = (0.0, 0.0);
    for (row, (intervals, predicted)) in intervals.iter().zip(predicted).enumerate() {
        for (class, (found, p)) in intervals.iter().zip(predicted).enumerate() {
            let inside = 0.0 <= found.lower && found.lower <= found.upper && found.upper <= 1.0;
            // The mean of a skewed law may lie beyond its quantiles, but not far.
            let about = found.lower - 0.1 <= *p && *p <= found.upper + 0.1;
            if !inside || !about {
                return Err(format!("row {row}, class {class}: {found:?}, {p}"));
            }
            width += found.upper - found.lower;
            n += 1.0;
        }
    }
    width /= n;
    if width > 0.001 && width < 0.9 {
        Ok(())
    } else {
        Err(format!("a mean width of {width}"))
    }
}

/// So many copies of a row with one missing cell, which holds a quantile of its distribution in each, evenly spaced.
pub(crate) fn by_quantiles(row: &Table, cell: &MissingCell, n: usize) -> Table {
    let mut values = Vec::new();
    for k in 0..n {
        let level = (k as f64 + 0.5) / n as f64;
        let at = |j: usize| {
            row.get(0, j)
                .unwrap_or_else(|| cell.quantile(level).unwrap())
        };
        values.extend((0..row.n_cols()).map(at));
    }
    Table::complete(n, row.n_cols(), values).unwrap()
}

/// Checks that completed tables have the means and the spreads that they should have, in what is missing and there alone.
pub(crate) fn draws_agree(
    table: &Table,
    imputed: &Imputation,
    draws: &[Table],
) -> Result<(), String> {
    let n = draws.len() as f64;
    for (i, j) in (0..table.n_rows()).flat_map(|i| (0..table.n_cols()).map(move |j| (i, j))) {
        let value = |table: &Table| table.get(i, j).ok_or("a cell is still missing");
        let (mean, sd) = (value(&imputed.completed)?, value(&imputed.sd)?);
        let values = draws.iter().map(value).collect::<Result<Vec<f64>, _>>()?;
        if let Some(observed) = table.get(i, j) {
            let kept = (mean, sd) == (observed, 0.0) && values.iter().all(|v| *v == observed);
            if !kept {
                return Err(format!("cell {i}, {j} was observed"));
            }
            continue;
        }
        let average = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - average).powi(2)).sum::<f64>() / (n - 1.0);
        // 4.5 standard errors of a mean, and 20% of the spread.
        if (average - mean).abs() > 4.5 * sd / n.sqrt() {
            return Err(format!("cell {i}, {j}: mean {average}, not {mean}"));
        }
        if (variance.sqrt() / sd - 1.0).abs() > 0.2 {
            return Err(format!(
                "cell {i}, {j}: spread {}, not {sd}",
                variance.sqrt()
            ));
        }
    }
    Ok(())
}
