//! Quantiles and tail probabilities that only diagnostics and tests of samplers need.

use std::f64::consts::{FRAC_2_PI, LN_2};

use npb_priors::special::{ln_normal_pdf, ln_phi};

/// The x with Phi(x) = p, for 0 < p < 1; relative error about 1e-14 in the lower half and its
/// mirror.
///
/// Newton on ln Phi(x) - ln p from x = 0 at p <= 1/2: that function is concave and increasing, so
/// that every step after the first ends left of the root and no step overshoots.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    let ln_p = p.ln();
    let mut x = 0.0;
    for _ in 0..100 {
        let ln_cdf = if x == 0.0 { -LN_2 } else { ln_phi(x) };
        let step = (ln_cdf - ln_p) * (ln_cdf - ln_normal_pdf(x)).exp();
        x -= step;
        if step.abs() <= 1e-15 * x.abs() {
            break;
        }
    }
    x
}

/// P(|T| > |t|) for Student's t with whole degrees of freedom; absolute error about 1e-15.
///
/// The finite trigonometric sums of Abramowitz and Stegun, 26.7.3 and 26.7.4. Cost: O(degrees of
/// freedom).
pub(crate) fn student_two_sided(t: f64, degrees: usize) -> f64 {
    let theta = (t.abs() / (degrees as f64).sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    // Odd degrees: cos, cos^3 2/3, cos^5 2/3 4/5, ...; even degrees: 1, cos^2 1/2, cos^4 1/2 3/4,
    // ...
    let odd = degrees % 2 == 1;
    let (mut term, mut k) = if odd { (cos, 1) } else { (1.0, 0) };
    let mut sum = 0.0;
    while k + 2 <= degrees {
        sum += term;
        term *= cos * cos * (k + 1) as f64 / (k + 2) as f64;
        k += 2;
    }
    let inside = if odd {
        FRAC_2_PI * (theta + sin * sum)
    } else {
        sin * sum
    };
    (1.0 - inside).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_quantiles_invert_the_cdf_far_into_the_tails() {
        for (p, x) in [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.025, -1.959_963_984_540_054),
            (1e-10, -6.361_340_902_404_056),
            (1e-100, -21.273_453_560_965_324),
        ] {
            assert!(
                (normal_quantile(p) - x).abs() <= 2e-14 * x.abs().max(1.0),
                "{p}: {}",
                normal_quantile(p)
            );
        }
        for i in 1..2000 {
            let p = f64::from(i) / 2000.0;
            assert!((npb_priors::special::normal_cdf(normal_quantile(p)) - p).abs() < 1e-15);
        }
    }

    #[test]
    fn student_tails_agree_with_tables() {
        // Two-sided 5% and 1% points, computed with 30 digits.
        for (degrees, t05, t01) in [
            (1, 12.706_204_736_174_705, 63.656_741_162_871_58),
            (2, 4.302_652_729_749_464, 9.924_843_200_918_293),
            (3, 3.182_446_305_283_71, 5.840_909_309_733_357),
            (10, 2.228_138_851_986_275, 3.169_272_672_616_951),
            (63, 1.998_340_542_520_742, 2.656_145_025_099_862),
        ] {
            assert!(
                (student_two_sided(t05, degrees) - 0.05).abs() < 1e-14,
                "{degrees}"
            );
            assert!(
                (student_two_sided(-t01, degrees) - 0.01).abs() < 1e-14,
                "{degrees}"
            );
        }
        assert_eq!(student_two_sided(0.0, 7), 1.0);
        assert!(student_two_sided(f64::INFINITY, 8) < 1e-15);
    }
}
