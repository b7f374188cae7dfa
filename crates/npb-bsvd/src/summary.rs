//! Numbers that stand for many draws.

use npb_infer::Interval;
use npb_infer::diagnostics::quantile;
use serde::{Deserialize, Serialize};

use crate::BsvdError;

/// An unknown in short: mean, standard deviation and a central interval of its posterior.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Posterior mean.
    pub mean: f64,
    /// Posterior standard deviation.
    pub sd: f64,
    /// Central interval.
    pub interval: Interval,
}

impl Summary {
    /// Of draws, at least one; `level` as checked.
    pub(crate) fn of(values: &[f64], level: f64) -> Self {
        let (mean, sd) = mean_and_sd(values);
        let sorted = sorted(values);
        Self {
            mean,
            sd,
            interval: Interval::central(level, |p| quantile(&sorted, p)),
        }
    }
}

/// Mean and standard deviation of draws; 0 for a single one.
pub(crate) fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let sd = if values.len() < 2 {
        0.0
    } else {
        (squares / (n - 1.0)).sqrt()
    };
    (mean, sd)
}

pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The share that an interval is to hold.
pub(crate) fn check_level(level: f64) -> Result<(), BsvdError> {
    between("level", level)
}

/// A number strictly between 0 and 1.
pub(crate) fn between(argument: &'static str, value: f64) -> Result<(), BsvdError> {
    if value > 0.0 && value < 1.0 {
        return Ok(());
    }
    Err(BsvdError::Argument {
        argument,
        value: value.to_string(),
        rule: "between 0 and 1",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_draws_is_that_of_a_sample() {
        assert_eq!(
            mean_and_sd(&[4.0, 1.0, 3.0, 2.0, 5.0]),
            (3.0, 2.5f64.sqrt())
        );
        assert_eq!(mean_and_sd(&[7.0]), (7.0, 0.0));
    }
}
