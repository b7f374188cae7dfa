use thiserror::Error;

/// Watches that a variational bound never falls.
///
/// A coordinate update can only raise the bound, so after each single update the bound must be at
/// least what it was, up to rounding. Rounding is judged by the size of what is added: the
/// tolerance is 1e-12 times the sum of the absolute terms.
///
/// ```
/// use npb_infer::testing::BoundMonitor;
/// let mut monitor = BoundMonitor::new();
/// monitor.check("start", &[-10.0, 3.0]).unwrap();
/// monitor.check("q(z)", &[-9.0, 3.0]).unwrap();
/// let fell = monitor.check("q(tau)", &[-9.0, 2.999]).unwrap_err();
/// assert_eq!(fell.update, "q(tau)");
/// ```
#[derive(Clone, Debug, Default)]
pub struct BoundMonitor {
    last: Option<(f64, f64)>,
}

/// A bound fell, or is not a number.
#[derive(Clone, Debug, PartialEq, Error)]
#[error(
    "update {update:?} took the bound from {before} to {after}, a fall of more than {tolerance:e} (rounding)"
)]
#[non_exhaustive]
pub struct BoundFell {
    /// The update after which it was seen.
    pub update: String,
    /// Bound before.
    pub before: f64,
    /// Bound after.
    pub after: f64,
    /// Fall that rounding could explain.
    pub tolerance: f64,
}

impl BoundMonitor {
    /// Tolerance per unit of the sum of absolute terms.
    pub const RELATIVE_TOLERANCE: f64 = 1e-12;

    /// A monitor that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes the bound, given as the terms that add up to it, after the update called `update`;
    /// returns it.
    ///
    /// # Errors
    /// When it is lower than at the call before, or not finite.
    pub fn check(&mut self, update: &str, terms: &[f64]) -> Result<f64, BoundFell> {
        let after: f64 = terms.iter().sum();
        let size: f64 = terms.iter().map(|t| t.abs()).sum();
        let (before, size_before) = self.last.unwrap_or((f64::NEG_INFINITY, 0.0));
        let tolerance = Self::RELATIVE_TOLERANCE * size.max(size_before);
        if !after.is_finite() || after < before - tolerance {
            return Err(BoundFell {
                update: update.to_owned(),
                before,
                after,
                tolerance,
            });
        }
        self.last = Some((after, size));
        Ok(after)
    }
}

/// A parameter is not where the bound is highest.
#[derive(Clone, Debug, PartialEq, Error)]
#[error(
    "parameter {index} at {value} is not optimal: along it the bound changes by {slope:+e} per natural length {length:e} \
     and rises by {rise:e} within a tenth of it (tolerance {tolerance:e})"
)]
#[non_exhaustive]
pub struct NotStationary {
    /// Index of the parameter.
    pub index: usize,
    /// Its value.
    pub value: f64,
    /// Length over which the bound curves by about one nat.
    pub length: f64,
    /// Derivative times that length, in nats.
    pub slope: f64,
    /// Highest rise of the bound a tenth of that length to either side, in nats.
    pub rise: f64,
    /// What was allowed.
    pub tolerance: f64,
}

/// Steps of the differences, in natural lengths.
const STEP: f64 = 1e-3;

/// Checks that each parameter of a block that was just updated maximises the bound, all others
/// fixed.
///
/// `bound` must be a smooth function of each parameter near its value: give positive parameters as
/// logarithms, probabilities as logits. Derivatives are five-point central differences with steps
/// of 1/1000 of the parameter's natural length, 1 / sqrt(|second derivative|), found first. Slopes
/// are judged per natural length, so `tolerance` is in nats whatever the parameter's unit: 1e-6 is
/// strict for bounds of moderate size (rounding shows as about 1e-12 of the bound's largest term),
/// and an update off by a share e of a posterior standard deviation shows as e. A minimum or saddle
/// fails, too; a direction in which the bound is flat passes.
///
/// # Errors
/// The first parameter at which the bound is not highest.
///
/// ```
/// use npb_infer::testing::check_stationary;
/// let bound = |p: &[f64]| -(p[0] - 3.0).powi(2) - (p[0] * p[1]).powi(2);
/// assert!(check_stationary(&[3.0, 0.0], 1e-6, bound).is_ok());
/// assert_eq!(check_stationary(&[3.0001, 0.0], 1e-6, bound).unwrap_err().index, 0);
/// ```
pub fn check_stationary(
    parameters: &[f64],
    tolerance: f64,
    mut bound: impl FnMut(&[f64]) -> f64,
) -> Result<(), NotStationary> {
    let mut moved = parameters.to_vec();
    for (index, &value) in parameters.iter().enumerate() {
        let mut along = |distance: f64| {
            moved[index] = value + distance;
            bound(&moved)
        };
        let length = natural_length(value, &mut along);
        let h = STEP * length;
        let slope =
            (8.0 * (along(h) - along(-h)) - (along(2.0 * h) - along(-2.0 * h))) / (12.0 * STEP);
        let rise = along(0.1 * length).max(along(-0.1 * length)) - along(0.0);
        moved[index] = value;
        // Written so that NaN fails.
        let optimal = slope.abs() <= tolerance && rise <= tolerance;
        if !optimal {
            return Err(NotStationary {
                index,
                value,
                length,
                slope,
                rise,
                tolerance,
            });
        }
    }
    Ok(())
}

/// 1 / sqrt(|second derivative|), found by repeated second differences with steps that approach a
/// hundredth of it.
fn natural_length(value: f64, along: &mut impl FnMut(f64) -> f64) -> f64 {
    const PART: f64 = 0.01;
    let largest = 1e3 * value.abs().max(1.0);
    let centre = along(0.0);
    let mut h = 1e-4 * value.abs().max(1e-2);
    for _ in 0..20 {
        let curvature = (along(h) - 2.0 * centre + along(-h)) / (h * h);
        // Outside the domain of the bound: come closer.
        let wanted = if curvature.is_finite() {
            PART / curvature.abs().sqrt()
        } else {
            0.0
        };
        let next = wanted.clamp(h / 30.0, h * 30.0).min(largest * PART);
        let settled = (next / h - 1.0).abs() < 0.2;
        h = next;
        if settled {
            break;
        }
    }
    h / PART
}
