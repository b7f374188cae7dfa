//! Normal probabilities without branches, tables or calls: loops over them run in vector registers (see [`npb_linalg::elementary`]).

use npb_linalg::elementary::{exp, ln};

use super::LN_SQRT_2PI;

/// 1 / sqrt(2 pi).
const FRAC_1_SQRT_2PI: f64 = 0.398_942_280_401_432_7;

/// Beyond, the fraction below adds nothing to a, and the powers of a would overflow.
const FAR: f64 = 1e20;

/// `[A, B]` of the fraction `A/B = 2/(a + 3/(a + 4/(a + ...)))`, a >= 0: beyond a, a standard normal z has E[z - a | z > a] = 1 / (a + A/B).
///
/// The fraction is replaced by a rational function whose coefficients are all positive, so that nothing cancels. They minimise the largest relative error of
/// the excess on [0, infinity), 5e-17 (weighted least squares on 160 points, weights raised where the error was large, in 80 digits).
///
/// `FUSED`: with fused multiply-adds, for loops that run in vector registers on every machine with such instructions; elsewhere each would be a call.
#[inline(always)]
fn fraction<const FUSED: bool>(a: f64) -> [f64; 2] {
    const ABOVE: [f64; 10] = [
        4986745.668487265,
        5535500.073964637,
        3176863.9442002084,
        1196350.3923576563,
        321006.3013838502,
        63172.354564491085,
        9095.57191217698,
        925.6624639467987,
        60.84970658802878,
        2.0,
    ];
    const BELOW: [f64; 11] = [
        3978847.3775365525,
        5779266.161506976,
        4232221.416190385,
        2018632.9735216356,
        687488.7836895194,
        173781.3725492932,
        32962.6719571381,
        4639.060499371012,
        465.83123213429195,
        30.42485329336044,
        1.0,
    ];
    let near = if a > FAR { FAR } else { a };
    let step = |sum: f64, c: &f64| match FUSED {
        true => sum.mul_add(near, *c),
        false => sum * near + c,
    };
    let horner = |c: &[f64]| c.iter().rev().fold(0.0, step);
    [horner(&ABOVE), horner(&BELOW)]
}

/// E[z - a | z > a] of a standard normal z, a >= 0, within 3 ulp.
#[inline(always)]
fn excess_beyond(a: f64) -> f64 {
    let [above, below] = fraction::<false>(a);
    1.0 / (a + above / below)
}

/// e^(-x^2/2) / sqrt(2 pi), within 1e-16 absolutely.
#[inline(always)]
fn normal_pdf(x: f64) -> f64 {
    FRAC_1_SQRT_2PI * exp(-0.5 * x * x)
}

/// Phi(x), within 4e-16 absolutely; relatively it loses digits far to the left, where it is tiny. NaN gives NaN.
#[inline(always)]
pub fn normal_cdf(x: f64) -> f64 {
    let a = x.abs();
    let tail = normal_pdf(a) / (a + excess_beyond(a));
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// ln Phi(x), within 1e-15 (1 + x^2), for |x| up to 1e150. NaN gives NaN.
///
/// As in [`soft_label`], with two divisions in place of six: the sampler asks it of every row and component.
#[inline(always)]
pub fn ln_normal_cdf(x: f64) -> f64 {
    let a = if x.abs() > FAR { FAR } else { x.abs() };
    let [above, below] = fraction::<false>(a);
    let inner = a * below + above;
    let inverse_hazard = inner / (a * inner + below);
    let tail = normal_pdf(a) * inverse_hazard;
    let mass = if x < 0.0 { inverse_hazard } else { 1.0 - tail };
    // What rounding took from 1 - tail counts where that is nearly 1, and there 1 / mass is 2 - mass.
    let lost = if x < 0.0 { 0.0 } else { (1.0 - mass) - tail };
    let ln = ln(mass) + lost * (2.0 - mass);
    if x < 0.0 {
        ln - LN_SQRT_2PI - 0.5 * x * x
    } else {
        ln
    }
}

/// `[ln, factor]` with `Phi(x) = e^ln factor`, the factor between 2e-20 and 1 for |x| up to 1e19: the logarithm of a product of many probabilities is then the sum of
/// the former and one logarithm of the product of some of the latter. As exact as [`ln_normal_cdf`]. Only for loops under vector instructions.
#[inline(always)]
pub fn normal_cdf_parts(x: f64) -> [f64; 2] {
    let a = if x.abs() > FAR { FAR } else { x.abs() };
    let [above, below] = fraction::<true>(a);
    let inner = a * below + above;
    let inverse_hazard = inner / (a * inner + below);
    let half_square = 0.5 * x * x;
    let density = FRAC_1_SQRT_2PI * inverse_hazard;
    if x < 0.0 {
        [-half_square, density]
    } else {
        [0.0, 1.0 - exp(-half_square) * density]
    }
}

/// `phi(x) / Phi(x)`, as exact as that of [`ln_normal_cdf_and_slope`] down to 1e-300, without the logarithm.
#[inline(always)]
pub fn slope_of_ln_normal_cdf(x: f64) -> f64 {
    let a = x.abs();
    let hazard = a + excess_beyond(a);
    let density = normal_pdf(a);
    let tail = density / hazard;
    let above = if x < 0.0 { hazard } else { density };
    let below = if x < 0.0 { 1.0 } else { 1.0 - tail };
    above / below
}

/// What a row's expected utility needs: t ~ N(mu, 1) cut to t > 0.
#[derive(Clone, Copy, Debug)]
pub struct SoftLabel {
    /// `<t>`.
    pub mean: f64,
    /// `ln Phi(mu) - <t> mu + mu^2/2`.
    pub local: f64,
    /// `ln Phi(mu)`.
    pub ln_mass: f64,
}

/// A standard normal on both sides of x.
struct Sides {
    /// `E[z - |x| | z > |x|]`.
    excess: f64,
    /// `phi(x) / Phi(-|x|)`.
    hazard: f64,
    /// `Phi(-|x|)`.
    tail: f64,
    /// `Phi(x)`, for x < 0 over `phi(x)`.
    mass: f64,
    /// Its logarithm.
    ln: f64,
}

#[inline(always)]
fn sides(x: f64) -> Sides {
    let a = x.abs();
    let excess = excess_beyond(a);
    let hazard = a + excess;
    let tail = normal_pdf(a) / hazard;
    let mass = if x < 0.0 { 1.0 / hazard } else { 1.0 - tail };
    let lost = if x < 0.0 { 0.0 } else { (1.0 - mass) - tail };
    Sides {
        excess,
        hazard,
        tail,
        mass,
        ln: ln(mass) + lost / mass,
    }
}

/// `<t>` within 4 ulp for any mu; the rest within 1e-15 (1 + mu^2).
#[inline(always)]
pub fn soft_label(mu: f64) -> SoftLabel {
    let (sides, square) = (sides(mu), 0.5 * mu * mu);
    if mu < 0.0 {
        let rest = sides.ln - LN_SQRT_2PI;
        SoftLabel {
            mean: sides.excess,
            local: rest + sides.excess * mu.abs(),
            ln_mass: rest - square,
        }
    } else {
        let inverse_mills = sides.tail * sides.hazard / sides.mass;
        SoftLabel {
            mean: mu + inverse_mills,
            local: sides.ln - inverse_mills * mu - square,
            ln_mass: sides.ln,
        }
    }
}

/// `ln Phi(x)` within 1e-15 (1 + x^2), and its slope `phi(x) / Phi(x)` within as much relatively, down to 1e-304. NaN gives NaN.
#[inline(always)]
pub fn ln_normal_cdf_and_slope(x: f64) -> (f64, f64) {
    let sides = sides(x);
    if x < 0.0 {
        (sides.ln - LN_SQRT_2PI - 0.5 * x * x, sides.hazard)
    } else {
        (sides.ln, sides.tail * sides.hazard / sides.mass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::probit_moments;
    use crate::special;

    fn assert_near(name: &str, x: f64, found: f64, wanted: f64, ulps: f64) {
        let error = (found / wanted - 1.0).abs();
        let exact = found == wanted;
        assert!(
            exact || error < ulps * f64::EPSILON,
            "{name} {x}: {found} {wanted}"
        );
    }

    #[test]
    fn probabilities_are_those_with_branches() {
        for i in -4_000..4_000 {
            let x = 0.01 * f64::from(i) + 1e-5;
            let (found, wanted) = (normal_cdf(x), special::normal_cdf(x));
            assert!((found - wanted).abs() < 4e-16, "{x}: {found} {wanted}");
        }
        assert_eq!(normal_cdf(f64::INFINITY), 1.0);
        assert!(normal_cdf(-1e200) < 1e-300 && normal_cdf(f64::NAN).is_nan());
    }

    #[test]
    fn soft_labels_are_those_with_branches() {
        let near = (-4_000..4_000).map(|i| 0.01 * f64::from(i) + 1e-5);
        for mu in near.chain([-1e150, -1e30, -1e8, -300.0, 0.0, 300.0, 1e8, 1e150]) {
            let (found, wanted) = (soft_label(mu), probit_moments(mu, true));
            assert_near("mean", mu, found.mean, wanted.mean, 5.0);
            let scale = 1e-15 * (1.0 + mu * mu);
            let ln = ln_normal_cdf(mu);
            assert!((ln - wanted.ln_mass).abs() < scale, "{mu}: {ln}");
            let [exponent, factor] = normal_cdf_parts(mu.clamp(-1e9, 1e9));
            if mu.abs() < 1e9 {
                let ln = exponent + factor.ln();
                assert!((ln - wanted.ln_mass).abs() < scale, "{mu}: {ln}");
            }
            assert!((1e-20..=1.0).contains(&factor), "{mu}: {factor}");
            let (ln, slope) = ln_normal_cdf_and_slope(mu);
            if slope > 1e-300 {
                assert_near("slope", mu, slope_of_ln_normal_cdf(mu), slope, 8.0);
            }
            assert!((ln - wanted.ln_mass).abs() < scale, "{mu}: {ln}");
            if mu < 37.0 {
                // Above 0 a density next to 0 has lost digits.
                let ulps = if mu < 0.0 { 5.0 } else { 4.5 + mu * mu };
                assert_near("slope", mu, slope, special::inverse_mills(-mu), ulps);
            }
            assert!(
                (found.ln_mass - wanted.ln_mass).abs() < scale,
                "{mu}: {} {}",
                found.ln_mass,
                wanted.ln_mass
            );
            let local = wanted.ln_mass - wanted.mean * mu + 0.5 * mu * mu;
            assert!(
                (found.local - local).abs() < scale,
                "{mu}: {} {local}",
                found.local
            );
        }
        assert!(soft_label(f64::NAN).mean.is_nan() && ln_normal_cdf(f64::NAN).is_nan());
        assert!(ln_normal_cdf_and_slope(f64::NAN).0.is_nan());
        // Digits of what is left out: 1 - Phi(8) = 6.2e-16.
        assert_near(
            "ln Phi",
            8.0,
            ln_normal_cdf(8.0),
            special::ln_phi(8.0),
            50.0,
        );
    }
}
