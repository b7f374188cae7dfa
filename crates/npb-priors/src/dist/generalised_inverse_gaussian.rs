//! The generalised inverse Gaussian distribution.

use rand::{Rng, RngExt};

/// Draws x = ln t, t ~ GIG: density of t proportional to `t^(lambda - 1) exp(-(a t + b / t) / 2)`; `a`, `b` > 0.
///
/// The generalised inverse Gaussian in the log, where no draw underflows. The density of x is log-concave: rejection from its two tangents one
/// standard deviation off the mode, and a flat top. Parameters are not checked here: with `a` or `b` not positive and finite the loop may not end.
///
/// ```
/// use npb_priors::dist::sample_ln_gig;
/// use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng};
/// // Nearly Gamma(3, rate 2): t = 1.5 on average.
/// let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
/// let sum: f64 = (0..10_000).map(|_| sample_ln_gig(3.0, 4.0, 1e-9, &mut rng).exp()).sum();
/// assert!((sum / 1e4 - 1.5).abs() < 0.05);
/// ```
pub fn sample_ln_gig<R: Rng + ?Sized>(lambda: f64, a: f64, b: f64, rng: &mut R) -> f64 {
    let mode = mode(lambda, a, b);
    // Parts at the mode: a e^x / 2 and b e^-x / 2.
    let up = 0.5 * (a.ln() + mode).exp();
    let down = 0.5 * (b.ln() - mode).exp();
    // ln density relative to the mode at distance d, and its slope.
    let height = |d: f64| lambda * d - up * d.exp_m1() - down * (-d).exp_m1();
    let slope = |d: f64| lambda - up * d.exp() + down * (-d).exp();
    let step = (up + down).sqrt().recip();
    let (left, right) = (-step, step);
    let (rise, fall) = (slope(left), -slope(right));
    // Where the tangents reach the height of the mode.
    let (from, to) = (left - height(left) / rise, right + height(right) / fall);
    let masses = [rise.recip(), to - from, fall.recip()];
    let total: f64 = masses.iter().sum();
    loop {
        let u = total * rng.random::<f64>();
        let e = -(1.0 - rng.random::<f64>()).ln();
        let (d, hat) = if u < masses[0] {
            (from - e / rise, -e)
        } else if u < masses[0] + masses[1] {
            (from + (u - masses[0]), 0.0)
        } else {
            (to + e / fall, -e)
        };
        let v: f64 = 1.0 - rng.random::<f64>();
        if v.ln() + hat <= height(d) {
            return mode + d;
        }
    }
}

/// The mode of x: `a e^x - b e^-x = 2 lambda`.
fn mode(lambda: f64, a: f64, b: f64) -> f64 {
    let root = lambda.hypot((a.ln() * 0.5 + b.ln() * 0.5).exp());
    if lambda >= 0.0 {
        ((lambda + root) / a).ln()
    } else {
        (b / (root - lambda)).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng};

    /// Means of x and of its square by the trapezium rule.
    fn moments(lambda: f64, a: f64, b: f64) -> (f64, f64) {
        let centre = mode(lambda, a, b);
        let ln_density = |x: f64| lambda * x - 0.5 * (a * x.exp() + b * (-x).exp());
        let top = ln_density(centre);
        let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
        for n in -40_000..=40_000 {
            let d = f64::from(n) * 5e-4;
            let weight = (ln_density(centre + d) - top).exp();
            mass += weight;
            first += weight * d;
            second += weight * d * d;
        }
        let mean = first / mass;
        (centre + mean, second / mass - mean * mean)
    }

    #[test]
    fn draws_have_the_moments_of_the_law() {
        for (n, (lambda, a, b)) in [
            (0.5, 1.0, 1.0),
            (3000.0, 6000.0, 2.0),
            (0.0, 0.3, 0.2),
            (2.5, 5.0, 1e-6),
            (24.5, 1e-3, 40.0),
        ]
        .into_iter()
        .enumerate()
        {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(n as u64);
            let draws: Vec<f64> = (0..100_000)
                .map(|_| sample_ln_gig(lambda, a, b, &mut rng))
                .collect();
            let count = draws.len() as f64;
            let mean = draws.iter().sum::<f64>() / count;
            let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            let (expected, spread) = moments(lambda, a, b);
            let error = (mean - expected) / (spread / count).sqrt();
            assert!(
                error.abs() < 4.5,
                "{lambda}, {a}, {b}: mean {mean} for {expected}"
            );
            assert!(
                (variance / spread - 1.0).abs() < 0.04,
                "{lambda}, {a}, {b}: {variance} for {spread}"
            );
        }
    }
}
