//! Normal distributions cut off on one side or on both, right at any distance from the bulk.
//!
//! Cancellation is the enemy: at 40 standard deviations the mean of the cut-off tail differs from the bound by 0.025 while
//! the textbook formula subtracts numbers of size 1600. Inside, the near bound is the origin and only excesses over it are
//! computed; narrow intervals are integrated by a Gauss-Legendre rule, whose sums have positive terms only.

use crate::error::{Check, ParameterError};
use crate::special::{LN_SQRT_2PI, Tail, gaussian_kernel, ln_phi, normal_cdf, normal_pdf};
use rand::{Rng, RngExt};
use rand_distr::{Exp1, StandardNormal};

/// Moments of a probit latent variable t ~ N(mu, 1) given its sign, as needed by variational updates and bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbitMoments {
    /// E t, within 4 ulp.
    pub mean: f64,
    /// E t^2, within 4 ulp.
    pub second: f64,
    /// ln P(t has this sign) = ln Phi(y mu), within 4 ulp.
    pub ln_mass: f64,
}

/// Moments of t ~ N(mu, 1) given t > 0 (`positive`) or t < 0.
///
/// Every field keeps full relative precision for any finite mu: at mu = -1e8, t > 0 they are 1e-8, 2e-16 and -5e15. Where
/// the true value leaves the range of f64 it overflows or underflows: `second` and `ln_mass` beyond |mu| = 1e154.
/// NaN gives NaN. Cost: at most one exponential and two logarithms. Source: wang2010, (3.5); the printed form cancels.
///
/// ```
/// use npb_priors::dist::probit_moments;
/// let far = probit_moments(-1e8, true);
/// assert!((far.mean / 1e-8 - 1.0).abs() < 1e-15 && (far.second / 2e-16 - 1.0).abs() < 1e-15);
/// assert_eq!(probit_moments(1.5, false).mean, -probit_moments(-1.5, true).mean);
/// ```
pub fn probit_moments(mu: f64, positive: bool) -> ProbitMoments {
    let toward = if positive { mu } else { -mu };
    let tail = Tail::new(-toward);
    let mean = if positive { tail.excess } else { -tail.excess };
    ProbitMoments {
        mean,
        second: tail.excess_square,
        ln_mass: ln_phi(toward),
    }
}

/// Draws t ~ N(mu, 1) given t > 0 (`positive`) or t < 0, for any finite mu; NaN gives NaN.
///
/// Rejection with at least one acceptance in two; exact at any distance from the bulk (Robert 1995, Statistics and
/// Computing 5).
pub fn sample_probit<R: Rng + ?Sized>(mu: f64, positive: bool, rng: &mut R) -> f64 {
    let sign = if positive { 1.0 } else { -1.0 };
    sign * sample_excess(-sign * mu, rng)
}

/// Draws z - a for a standard normal z given z > a.
pub(super) fn sample_excess<R: Rng + ?Sized>(a: f64, rng: &mut R) -> f64 {
    if a.is_nan() {
        return a; // Nothing would ever be accepted.
    }
    if a < 0.0 {
        loop {
            let z: f64 = rng.sample(StandardNormal);
            if z > a {
                return z - a;
            }
        }
    }
    // Proposal: exponential with the rate that accepts most often.
    let rate = 0.5 * (a + a.hypot(2.0));
    let shift = rate.recip();
    loop {
        let d = rng.sample::<f64, _>(Exp1) / rate;
        if rng.random::<f64>() <= gaussian_kernel(d - shift) {
            return d;
        }
    }
}

/// Mean, variance and log-mass of a truncated normal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TruncatedMoments {
    /// E x, within 1e-13 standard deviations and 2 ulp.
    pub mean: f64,
    /// Var x, within 1e-13 relatively.
    pub variance: f64,
    /// ln P(lower < x < upper) under the normal that was cut off, within 3e-15 relatively or 3e-16 absolutely.
    pub ln_mass: f64,
}

/// A normal N(mean, sd^2) restricted to lower < x < upper; either bound may be infinite.
///
/// ```
/// use npb_priors::dist::TruncatedNormal;
/// let t = TruncatedNormal::new(0.0, 1.0, 40.0, f64::INFINITY).unwrap();
/// assert!((t.moments().mean - 40.024_968_847_207_26).abs() < 1e-13);
/// assert!(TruncatedNormal::new(0.0, 1.0, 2.0, 2.0).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TruncatedNormal {
    mean: f64,
    sd: f64,
    lower: f64,
    upper: f64,
    standard: Standard,
}

impl TruncatedNormal {
    /// `mean`, `sd`: of the normal before it is cut off; `lower` < `upper`, infinities allowed.
    ///
    /// # Errors
    /// A mean that is not finite, a standard deviation that is not finite and positive, a NaN bound, bounds that leave no
    /// interval, or an interval that is empty or infinitely far away once divided by `sd`.
    pub fn new(mean: f64, sd: f64, lower: f64, upper: f64) -> Result<Self, ParameterError> {
        let check = Check("truncated normal");
        check.finite("mean", mean)?;
        check.positive("sd", sd)?;
        check.require(lower < f64::INFINITY, "lower", lower, "below +infinity")?;
        check.require(lower < upper, "upper", upper, "above the lower bound")?;
        let standard = Standard::new(mean, sd, lower, upper);
        check.require(
            standard.near < f64::INFINITY,
            "mean",
            mean,
            "within 1e308 standard deviations of the interval",
        )?;
        check.require(
            standard.width > 0.0,
            "upper",
            upper,
            "above the lower bound by more than 1e-308 standard deviations",
        )?;
        Ok(Self {
            mean,
            sd,
            lower,
            upper,
            standard,
        })
    }

    /// The lower bound.
    pub fn lower(&self) -> f64 {
        self.lower
    }

    /// The upper bound.
    pub fn upper(&self) -> f64 {
        self.upper
    }

    /// Mean, variance and log-mass, at any distance from the bulk and for any width.
    ///
    /// Cost: at most four exponentials and a logarithm, or 24 exponentials for a narrow interval.
    pub fn moments(&self) -> TruncatedMoments {
        let s = self.standard.moments();
        TruncatedMoments {
            mean: self.place(s.mean),
            variance: self.sd * self.sd * s.variance,
            ln_mass: s.ln_mass,
        }
    }

    /// Log-density at `x`; minus infinity outside the interval. Cost: as [`Self::moments`].
    pub fn ln_density(&self, x: f64) -> f64 {
        if x < self.lower || x > self.upper {
            return f64::NEG_INFINITY;
        }
        let moments = self.standard.moments();
        -self.standard.drop_at(self.standardize(x)) - self.sd.ln() - moments.ln_integral
    }

    /// P(x' <= x).
    pub fn cdf(&self, x: f64) -> f64 {
        if x.is_nan() {
            return x;
        }
        if x <= self.lower {
            return 0.0;
        }
        if x >= self.upper {
            return 1.0;
        }
        let below = self.standard.share_before(self.standardize(x));
        if self.standard.mirrored {
            1.0 - below
        } else {
            below
        }
    }

    /// Draws x. Exact, with at most 2.1 proposals on average, wherever the interval lies and however wide it is.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.place(self.standard.sample(rng))
            .clamp(self.lower, self.upper)
    }

    /// From a position of [`Standard`] to x.
    fn place(&self, position: f64) -> f64 {
        self.origin() + self.sd * self.standard.sign() * position
    }

    /// From x to a position of [`Standard`].
    fn standardize(&self, x: f64) -> f64 {
        self.standard.sign() * (x - self.origin()) / self.sd
    }

    /// Where the position is 0.
    fn origin(&self) -> f64 {
        match (self.standard.in_tail(), self.standard.mirrored) {
            (false, _) => self.mean,
            (true, false) => self.lower,
            (true, true) => self.upper,
        }
    }
}

/// The interval in standard units, mirrored so that its near end is the one closer to the mean on the left.
///
/// A *position* is the distance from the near end when the interval is in the tail (`near >= 0`), and the standardised value
/// itself when the interval contains the mean (`near < 0`, |near| <= far end).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Standard {
    near: f64,
    width: f64,
    mirrored: bool,
}

/// Moments of the position, and of the density left unnormalised with value 1 at its mode.
struct StandardMoments {
    mean: f64,
    variance: f64,
    ln_mass: f64,
    /// ln of the integral of exp(-drop).
    ln_integral: f64,
}

/// A fall of the log-density across the interval above which the far end is a small correction: e^-6.
const SMALL_FALL: f64 = 6.0;

impl Standard {
    fn new(mean: f64, sd: f64, lower: f64, upper: f64) -> Self {
        let (a, b) = ((lower - mean) / sd, (upper - mean) / sd);
        let mirrored = -a > b;
        let near = if mirrored { -b } else { a };
        Self {
            near,
            width: (upper - lower) / sd,
            mirrored,
        }
    }

    fn in_tail(&self) -> bool {
        self.near >= 0.0
    }

    fn sign(&self) -> f64 {
        if self.mirrored { -1.0 } else { 1.0 }
    }

    /// The end of the interval away from the mean, in standard units.
    fn far(&self) -> f64 {
        // Without the branch the whole line would give minus infinity plus infinity.
        if self.width == f64::INFINITY {
            f64::INFINITY
        } else {
            self.near + self.width
        }
    }

    /// The positions of both ends.
    fn ends(&self) -> (f64, f64) {
        if self.in_tail() {
            (0.0, self.width)
        } else {
            (self.near, self.far())
        }
    }

    /// How far the log-density has fallen from its highest point, at a position.
    fn drop_at(&self, position: f64) -> f64 {
        if self.in_tail() {
            position * (self.near + 0.5 * position)
        } else {
            0.5 * position * position
        }
    }

    fn is_narrow(&self) -> bool {
        self.drop_at(self.ends().1) <= SMALL_FALL
    }

    /// ln of the density's highest value.
    fn ln_peak(&self) -> f64 {
        let mode = self.near.max(0.0);
        -(0.5 * mode * mode + LN_SQRT_2PI)
    }

    fn moments(&self) -> StandardMoments {
        if self.is_narrow() {
            self.moments_by_rule()
        } else if self.in_tail() {
            self.moments_in_tail()
        } else {
            self.moments_around_mean()
        }
    }

    /// The integral of exp(-drop) over a stretch of positions divided by its width, and the first two moments of the
    /// fraction of the stretch. Gauss-Legendre: all terms are positive.
    fn rule_sums(&self, start: f64, width: f64) -> [f64; 3] {
        let mut sums = [0.0; 3];
        for (node, weight) in GAUSS_LEGENDRE {
            for u in [0.5 - 0.5 * node, 0.5 + 0.5 * node] {
                let mass = 0.5 * weight * (-self.drop_at(start + width * u)).exp();
                sums[0] += mass;
                sums[1] += mass * u;
                sums[2] += mass * u * u;
            }
        }
        sums
    }

    /// The log-density falls by at most 6 across the interval.
    fn moments_by_rule(&self) -> StandardMoments {
        let start = self.ends().0;
        let width = self.width;
        let sums = self.rule_sums(start, width);
        let mean = sums[1] / sums[0];
        let ln_integral = width.ln() + sums[0].ln();
        StandardMoments {
            mean: start + width * mean,
            variance: width * width * (sums[2] / sums[0] - mean * mean),
            ln_mass: self.ln_peak() + ln_integral,
            ln_integral,
        }
    }

    /// From the near end's tail, take away the far end's, which is at most e^-6 of it.
    fn moments_in_tail(&self) -> StandardMoments {
        let near = Tail::new(self.near);
        let mills_near = near.hazard.recip();
        let far = Tail::new(self.far());
        let rest = (-self.drop_at(self.width)).exp() / far.hazard;
        if rest == 0.0 {
            let ln_integral = mills_near.ln();
            let ln_mass = self.ln_peak() + ln_integral;
            return StandardMoments {
                mean: near.excess,
                variance: near.variance,
                ln_mass,
                ln_integral,
            };
        }
        let mass = mills_near - rest;
        let first = mills_near * near.excess - rest * (far.excess + self.width);
        let far_square = far.excess_square + self.width * (2.0 * far.excess + self.width);
        let second = mills_near * near.excess_square - rest * far_square;
        let mean = first / mass;
        let variance = second / mass - mean * mean;
        StandardMoments {
            mean,
            variance,
            ln_mass: self.ln_peak() + mass.ln(),
            ln_integral: mass.ln(),
        }
    }

    /// The mean is inside and the far end is beyond 3.4.
    fn moments_around_mean(&self) -> StandardMoments {
        let (a, b) = (self.near, self.far());
        let outside = normal_cdf(a) + normal_cdf(-b);
        let mass = 1.0 - outside;
        let mean = (normal_pdf(a) - normal_pdf(b)) / mass;
        let variance = 1.0 + (weighted_pdf(a) - weighted_pdf(b)) / mass - mean * mean;
        let ln_mass = (-outside).ln_1p();
        StandardMoments {
            mean,
            variance,
            ln_mass,
            ln_integral: ln_mass - self.ln_peak(),
        }
    }

    /// The probability of positions below `position`, which lies inside.
    fn share_before(&self, position: f64) -> f64 {
        let start = self.ends().0;
        let share = if self.is_narrow() {
            let part = position - start;
            part * self.rule_sums(start, part)[0]
                / (self.width * self.rule_sums(start, self.width)[0])
        } else if self.in_tail() {
            let part = Self {
                width: position,
                ..*self
            };
            (part.moments().ln_integral - self.moments().ln_integral).exp()
        } else {
            (normal_cdf(position) - normal_cdf(start)) / self.moments().ln_mass.exp()
        };
        share.clamp(0.0, 1.0)
    }

    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        if !self.in_tail() {
            self.sample_around_mean(rng)
        } else if self.width == f64::INFINITY {
            sample_excess(self.near, rng)
        } else {
            self.sample_in_tail(rng)
        }
    }

    /// Uniform proposals in an interval narrower than the normal's own width, normal ones otherwise.
    fn sample_around_mean<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        const SQRT_2PI: f64 = 2.506_628_274_631_000_7;
        let (a, b) = self.ends();
        loop {
            if self.width < SQRT_2PI {
                let z = a + self.width * rng.random::<f64>();
                if rng.random::<f64>() <= gaussian_kernel(z) {
                    return z;
                }
            } else {
                let z: f64 = rng.sample(StandardNormal);
                if z > a && z < b {
                    return z;
                }
            }
        }
    }

    /// Exponential proposals, cut off at the far end, as steep as the log-density is in the middle or near the bound.
    fn sample_in_tail<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let best_shift = 2.0 / (self.near + self.near.hypot(2.0));
        let shift = best_shift.min(0.5 * self.width);
        let rate = self.near + shift;
        let fall = rate * self.width;
        loop {
            let u: f64 = rng.random();
            // Below 1e-16 the exponential is flat to the last digit.
            let d = if fall < 1e-16 {
                u * self.width
            } else {
                -(u * (-fall).exp_m1()).ln_1p() / rate
            };
            if d <= self.width && rng.random::<f64>() <= gaussian_kernel(d - shift) {
                return d;
            }
        }
    }
}

/// x phi(x), 0 at both infinities.
fn weighted_pdf(x: f64) -> f64 {
    if x.is_finite() {
        x * normal_pdf(x)
    } else {
        0.0
    }
}

/// Positive nodes and weights of the 24-point Gauss-Legendre rule on [-1, 1].
const GAUSS_LEGENDRE: [(f64, f64); 12] = [
    (0.995_187_219_997_021_3, 0.012_341_229_799_987_2),
    (0.974_728_555_971_309_5, 0.028_531_388_628_933_663),
    (0.938_274_552_002_732_8, 0.044_277_438_817_419_81),
    (0.886_415_527_004_401_1, 0.059_298_584_915_436_78),
    (0.820_001_985_973_903, 0.073_346_481_411_080_3),
    (0.740_124_191_578_554_4, 0.086_190_161_531_953_27),
    (0.648_093_651_936_975_5, 0.097_618_652_104_113_88),
    (0.545_421_471_388_839_6, 0.107_444_270_115_965_63),
    (0.433_793_507_626_045_1, 0.115_505_668_053_725_6),
    (0.315_042_679_696_163_4, 0.121_670_472_927_803_39),
    (0.191_118_867_473_616_3, 0.125_837_456_346_828_3),
    (0.064_056_892_862_605_63, 0.127_938_195_346_752_16),
];
