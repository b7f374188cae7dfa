//! Are these independent numbers centred at zero?

use npb_priors::special::student_t_two_sided;

/// Differences of averages of numbers in [0, 1] below this are rounding.
const ROUNDING: f64 = 1e-12;

/// Mean, t statistic and two-sided p-value of independent differences whose true mean should be
/// zero.
pub(super) struct TTest {
    pub(super) mean: f64,
    pub(super) t: f64,
    pub(super) p: f64,
}

impl TTest {
    /// At least two differences between averages of numbers in [0, 1]. One that is not a number
    /// makes p = 0, and so do differences that are all the same without being zero.
    pub(super) fn new(differences: impl Iterator<Item = f64> + Clone) -> Self {
        let n = differences.clone().count();
        let mean = differences.clone().sum::<f64>() / n as f64;
        let squares = differences.map(|d| (d - mean).powi(2)).sum::<f64>();
        let standard_error = (squares / ((n - 1) * n) as f64).sqrt();
        // No difference at all (a summary that is constant) is perfect agreement, not 0/0.
        let t = if mean.abs() < ROUNDING {
            0.0
        } else {
            mean / standard_error
        };
        let p = if t.is_nan() {
            0.0
        } else {
            student_t_two_sided(t, (n - 1) as f64)
        };
        Self { mean, t, p }
    }
}
