//! Every special function against mpmath, on at least 2,000 points each, at the accuracy its documentation states.

use npb_priors::dist::probit_moments;
use npb_priors::special::*;

/// Rows of little-endian numbers; `layout` has one letter per column, 'f' for f32 and 'd' for f64.
fn rows(bytes: &[u8], layout: &str) -> Vec<Vec<f64>> {
    let width: usize = layout.chars().map(|c| if c == 'f' { 4 } else { 8 }).sum();
    assert_eq!(bytes.len() % width, 0);
    assert!(bytes.len() / width >= 2_000);
    bytes
        .chunks_exact(width)
        .map(|row| read_row(row, layout))
        .collect()
}

fn read_row(mut row: &[u8], layout: &str) -> Vec<f64> {
    let mut out = Vec::new();
    for column in layout.chars() {
        let size = if column == 'f' { 4 } else { 8 };
        let (head, tail) = row.split_at(size);
        out.push(match column {
            'f' => f64::from(f32::from_le_bytes(head.try_into().unwrap())),
            _ => f64::from_le_bytes(head.try_into().unwrap()),
        });
        row = tail;
    }
    out
}

/// |got - want| in units of 2.2e-16 times `scale`; subnormal results are granted their last digits.
fn error_in_ulp(got: f64, want: f64, scale: f64) -> f64 {
    if got == want {
        return 0.0;
    }
    let allowance = 4.0 * f64::MIN_POSITIVE * f64::EPSILON;
    ((got - want).abs() - allowance).max(0.0) / (scale * f64::EPSILON)
}

/// Fails when any row is further from its reference than `limit` ulp of max(|reference|, `floor(row)`).
#[track_caller]
fn check(
    rows: &[Vec<f64>],
    column: usize,
    limit: f64,
    floor: impl Fn(&[f64]) -> f64,
    f: impl Fn(&[f64]) -> f64,
) {
    let mut worst = (0.0, Vec::new(), 0.0);
    for row in rows {
        let (got, want) = (f(row), row[column]);
        let error = error_in_ulp(got, want, want.abs().max(floor(row)));
        // Written so that a NaN is the worst of all.
        if error > worst.0 || error.is_nan() {
            worst = (error, row.clone(), got);
        }
    }
    assert!(
        worst.0 <= limit,
        "{:.2} ulp at {:?}: got {:?}",
        worst.0,
        worst.1,
        worst.2
    );
}

fn relative(_: &[f64]) -> f64 {
    0.0
}

fn normal() -> Vec<Vec<f64>> {
    rows(include_bytes!("../reference/normal.bin"), "ddddddd")
}

fn gamma() -> Vec<Vec<f64>> {
    rows(include_bytes!("../reference/gamma.bin"), "dddd")
}

#[test]
fn normal_cdf_is_right_in_both_tails() {
    check(&normal(), 1, 5.0, relative, |r| normal_cdf(r[0]));
}

#[test]
fn ln_phi_is_right_everywhere() {
    check(&normal(), 2, 6.0, relative, |r| ln_phi(r[0]));
}

#[test]
fn mills_ratio_is_right_everywhere() {
    check(&normal(), 3, 4.0, relative, |r| mills(r[0]));
    check(&normal(), 3, 5.0, relative, |r| inverse_mills(r[0]).recip());
}

#[test]
fn erfcx_is_right_everywhere() {
    check(&normal(), 4, 5.0, relative, |r| erfcx(r[0]));
}

#[test]
fn probit_moments_are_right_for_any_mean() {
    for positive in [true, false] {
        let sign = if positive { 1.0 } else { -1.0 };
        let at = |r: &[f64]| probit_moments(-sign * r[0], positive);
        check(&normal(), 5, 6.0, relative, |r| sign * at(r).mean);
        check(&normal(), 6, 6.0, relative, |r| at(r).second);
        check(&normal(), 2, 6.0, relative, |r| {
            probit_moments(sign * r[0], positive).ln_mass
        });
    }
}

#[test]
fn the_printed_probit_moment_would_fail() {
    // mu + phi / Phi: accurate factors, but the sum cancels.
    let printed = |r: &[f64]| inverse_mills(r[0]) - r[0];
    let worst = normal()
        .iter()
        .map(|r| error_in_ulp(printed(r), r[5], r[5]))
        .fold(0.0, f64::max);
    assert!(worst > 1e6, "{worst}");
}

#[test]
fn probit_moments_at_the_ends_of_the_range() {
    let far = probit_moments(-1e300, true);
    assert_eq!(
        (far.mean, far.second, far.ln_mass),
        (1e-300, 0.0, f64::NEG_INFINITY)
    );
    let near = probit_moments(1e300, true);
    assert_eq!(
        (near.mean, near.second, near.ln_mass),
        (1e300, f64::INFINITY, 0.0)
    );
    assert!(probit_moments(f64::NAN, true).mean.is_nan());
}

#[test]
fn log_gamma_and_its_derivatives() {
    check(&gamma(), 1, 4.0, |_| 0.5, |r| ln_gamma(r[0]));
    check(&gamma(), 2, 6.0, relative, |r| digamma(r[0]));
    check(&gamma(), 3, 6.0, relative, |r| trigamma(r[0]));
}

#[test]
fn log1mexp_near_zero_and_far_out() {
    let rows = rows(include_bytes!("../reference/log1mexp.bin"), "fd");
    check(&rows, 1, 3.0, relative, |r| log1mexp(r[0]));
}

#[test]
fn values_outside_the_domains() {
    for f in [
        ln_phi,
        normal_cdf,
        normal_pdf,
        mills,
        inverse_mills,
        erfcx,
        digamma,
        trigamma,
        ln_gamma,
        log1mexp,
    ] {
        assert!(f(f64::NAN).is_nan());
    }
    for f in [digamma, trigamma, ln_gamma] {
        assert!(f(-0.5).is_nan());
    }
    assert_eq!(digamma(0.0), f64::NEG_INFINITY);
    assert_eq!(trigamma(0.0), f64::INFINITY);
    assert_eq!(ln_gamma(0.0), f64::INFINITY);
    assert_eq!(
        (ln_phi(f64::INFINITY), ln_phi(f64::NEG_INFINITY)),
        (0.0, f64::NEG_INFINITY)
    );
    assert_eq!(
        (mills(f64::INFINITY), mills(f64::NEG_INFINITY)),
        (0.0, f64::INFINITY)
    );
    assert_eq!(
        (erfcx(f64::INFINITY), erfcx(f64::NEG_INFINITY)),
        (0.0, f64::INFINITY)
    );
    assert_eq!(
        (log1mexp(0.0), log1mexp(f64::NEG_INFINITY)),
        (f64::NEG_INFINITY, 0.0)
    );
    assert!(log1mexp(0.1).is_nan());
}
