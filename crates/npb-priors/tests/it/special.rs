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
    check(&normal(), 1, 4.0, relative, |r| normal_cdf(r[0]));
}

#[test]
fn normal_density_is_right_in_both_tails() {
    let rows = rows(include_bytes!("../reference/normal_density.bin"), "ddd");
    check(&rows, 1, 3.0, relative, |r| normal_pdf(r[0]));
    check(&rows, 2, 2.0, relative, |r| ln_normal_pdf(r[0]));
}

#[test]
fn ln_phi_is_right_everywhere() {
    check(&normal(), 2, 4.0, relative, |r| ln_phi(r[0]));
}

#[test]
fn mills_ratio_is_right_everywhere() {
    check(&normal(), 3, 3.0, relative, |r| mills(r[0]));
    check(&normal(), 3, 4.0, relative, |r| inverse_mills(r[0]).recip());
}

#[test]
fn erfcx_is_right_everywhere() {
    check(&normal(), 4, 4.0, relative, |r| erfcx(r[0]));
}

#[test]
fn probit_moments_are_right_for_any_mean() {
    for positive in [true, false] {
        let sign = if positive { 1.0 } else { -1.0 };
        let at = |r: &[f64]| probit_moments(-sign * r[0], positive);
        check(&normal(), 5, 4.0, relative, |r| sign * at(r).mean);
        check(&normal(), 6, 4.0, relative, |r| at(r).second);
        check(&normal(), 2, 4.0, relative, |r| {
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
    check(&gamma(), 1, 3.0, |_| 0.5, |r| ln_gamma(r[0]));
    check(&gamma(), 2, 4.0, relative, |r| digamma(r[0]));
    check(&gamma(), 3, 4.0, relative, |r| trigamma(r[0]));
}

#[test]
fn log1mexp_near_zero_and_far_out() {
    let rows = rows(include_bytes!("../reference/log1mexp.bin"), "fd");
    check(&rows, 1, 2.0, relative, |r| log1mexp(r[0]));
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

#[test]
fn normal_quantile_on_the_whole_unit_interval() {
    let rows = rows(include_bytes!("../reference/normal_quantile.bin"), "dd");
    check(&rows, 1, 4.0, relative, |r| normal_quantile(r[0]));
    assert_eq!(
        (normal_quantile(0.0), normal_quantile(1.0)),
        (f64::NEG_INFINITY, f64::INFINITY)
    );
    assert!(
        normal_quantile(-0.1).is_nan()
            && normal_quantile(1.1).is_nan()
            && normal_quantile(f64::NAN).is_nan()
    );
}

#[test]
fn ln_beta_does_not_cancel() {
    let rows = rows(include_bytes!("../reference/ln_beta.bin"), "ffd");
    let floor = |_: &[f64]| 1.0;
    check(&rows, 2, 18.0, floor, |r| ln_beta(r[0], r[1]));
    check(&rows, 2, 18.0, floor, |r| ln_beta(r[1], r[0]));
    let by_log_gammas = |r: &[f64]| ln_gamma(r[0]) + ln_gamma(r[1]) - ln_gamma(r[0] + r[1]);
    let worst = rows
        .iter()
        .map(|r| error_in_ulp(by_log_gammas(r), r[2], r[2].abs().max(1.0)));
    assert!(worst.fold(0.0, f64::max) > 1e6);
}

#[test]
fn rising_factorials() {
    for (x, n) in [(0.3, 7), (1e-9, 3), (5e6, 12), (41.5, 1)] {
        let product: f64 = (0..n).map(|i| (x + i as f64).ln()).sum();
        let got = ln_rising_factorial(x, n as f64);
        assert!(
            (got - product).abs() < 1e-13 * product.abs().max(1.0),
            "{x} {n} {got} {product}"
        );
    }
    assert_eq!(ln_rising_factorial(2.5, 0.0), 0.0);
    let rows = rows(include_bytes!("../reference/rising_factorial.bin"), "ffdf");
    check(
        &rows,
        2,
        5e-15 / f64::EPSILON,
        |r| r[3],
        |r| ln_rising_factorial(r[0], r[1]),
    );
}

/// Sum of the absolute terms of ln Gamma_p or of its derivative.
fn absolute_terms(row: &[f64], constant: f64, f: impl Fn(f64) -> f64) -> f64 {
    let p = row[0];
    let terms = (0..p as usize).map(|j| f(row[1] - 0.5 * j as f64).abs());
    constant * p * (p - 1.0) + terms.sum::<f64>()
}

#[test]
fn multivariate_gamma_functions() {
    let rows = rows(include_bytes!("../reference/multivariate.bin"), "ffdd");
    let scale = |r: &[f64]| absolute_terms(r, 0.29, ln_gamma);
    check(&rows, 2, 4.5, scale, |r| {
        ln_multivariate_gamma(r[0] as usize, r[1])
    });
    let scale = |r: &[f64]| absolute_terms(r, 0.0, digamma);
    check(&rows, 3, 4.5, scale, |r| {
        multivariate_digamma(r[0] as usize, r[1])
    });
    assert_eq!(ln_multivariate_gamma(0, 1.0), 0.0);
}

#[test]
fn incomplete_gamma_and_beta() {
    let gamma = rows(include_bytes!("../reference/incomplete_gamma.bin"), "ffdd");
    let absolute = |error: f64| error / f64::EPSILON;
    check(
        &gamma,
        2,
        absolute(1e-11),
        |_| 1.0,
        |r| gamma_lower_regularized(r[0], r[1]),
    );
    check(
        &gamma,
        3,
        absolute(1e-11),
        |_| 1.0,
        |r| gamma_upper_regularized(r[0], r[1]),
    );
    let beta = rows(include_bytes!("../reference/incomplete_beta.bin"), "fffd");
    check(
        &beta,
        3,
        absolute(1e-12),
        |_| 1.0,
        |r| beta_regularized(r[0], r[1], r[2]),
    );
}

#[test]
fn student_tails_are_right_for_any_degrees_of_freedom() {
    let rows = rows(include_bytes!("../reference/student_t.bin"), "ffd");
    let absolute = 1e-12 / f64::EPSILON;
    check(
        &rows,
        2,
        absolute,
        |_| 1.0,
        |r| student_t_two_sided(r[0], r[1]),
    );
    check(
        &rows,
        2,
        absolute,
        |_| 1.0,
        |r| student_t_two_sided(-r[0], r[1]),
    );
}

#[test]
fn student_tails_agree_with_tables() {
    // Two-sided 5% and 1% points, computed with 30 digits.
    for (df, t05, t01) in [
        (1.0, 12.706_204_736_174_705, 63.656_741_162_871_58),
        (2.0, 4.302_652_729_749_464, 9.924_843_200_918_293),
        (3.0, 3.182_446_305_283_71, 5.840_909_309_733_357),
        (10.0, 2.228_138_851_986_275, 3.169_272_672_616_951),
        (63.0, 1.998_340_542_520_742, 2.656_145_025_099_862),
    ] {
        assert!((student_t_two_sided(t05, df) - 0.05).abs() < 1e-14, "{df}");
        assert!((student_t_two_sided(-t01, df) - 0.01).abs() < 1e-14, "{df}");
    }
    // The Cauchy tail, far out and next to the centre, and the normal limit.
    for t in [1e-9_f64, 0.3, 2.0, 1e8, 1e160] {
        let cauchy = std::f64::consts::FRAC_2_PI * (1.0 / t).atan();
        let error = student_t_two_sided(t, 1.0) - cauchy;
        assert!(error.abs() < 1e-12 * cauchy.max(1e-3), "{t}: {error}");
    }
    assert!((student_t_two_sided(2.5, 1e9) - 2.0 * normal_cdf(-2.5)).abs() < 1e-9);
    assert_eq!(student_t_two_sided(0.0, 7.0), 1.0);
    assert_eq!(student_t_two_sided(f64::INFINITY, 8.5), 0.0);
    assert!(student_t_two_sided(f64::NAN, 8.0).is_nan() && student_t_two_sided(1.0, 0.0).is_nan());
}

#[test]
fn incomplete_gamma_of_a_large_shape() {
    // The two methods on both sides of their border, and the median of a huge shape, a - 1/3.
    for z in [-4.0, -1.0, 0.0, 0.3, 2.0] {
        let at = |a: f64| gamma_lower_regularized(a, a + z * a.sqrt());
        let (series, asymptotic) = (at(9_999.999_999), at(10_000.0));
        assert!((series - asymptotic).abs() < 1e-8, "{series} {asymptotic}");
    }
    assert!((gamma_lower_regularized(1e12, 1e12 - 1.0 / 3.0) - 0.5).abs() < 1e-9);
    assert_eq!(gamma_upper_regularized(2.0, 0.0), 1.0);
    assert_eq!(gamma_lower_regularized(2.0, f64::INFINITY), 1.0);
    assert!(gamma_lower_regularized(-1.0, 1.0).is_nan());
}

#[test]
fn sums_of_exponentials() {
    assert_eq!(log_sum_exp(&[]), f64::NEG_INFINITY);
    assert_eq!(log_sum_exp(&[f64::NEG_INFINITY; 3]), f64::NEG_INFINITY);
    assert_eq!(log_sum_exp(&[1.0, f64::INFINITY]), f64::INFINITY);
    assert!(log_sum_exp(&[f64::INFINITY, f64::NAN, 1.0]).is_nan());
    assert!((log_sum_exp(&[-1e5; 8]) - (-1e5 + 8f64.ln())).abs() < 1e-10);
    assert_eq!(ln_add_exp(f64::NEG_INFINITY, -3.0), -3.0);
    assert!((ln_add_exp(1e3, 1e3) - (1e3 + 2f64.ln())).abs() < 1e-12);
    let mut weights = [-1e4, -1e4 + 3f64.ln()];
    let total = ln_normalize(&mut weights);
    assert!((weights[0] - 0.25).abs() < 1e-12 && (total + 1e4 - 4f64.ln()).abs() < 1e-11);
    let mut nothing = [f64::NEG_INFINITY; 2];
    assert_eq!(ln_normalize(&mut nothing), f64::NEG_INFINITY);
    assert_eq!(nothing, [f64::NEG_INFINITY; 2]);
}

/// log-sum-exp against sums of up to 2,000 terms known in closed form: exp(-d i), a geometric series.
#[test]
fn log_sum_exp_of_geometric_series() {
    for n in 1..=2_000 {
        let step = 1e-3 * n as f64;
        let terms: Vec<f64> = (0..n).map(|i| 700.0 - step * i as f64).collect();
        let want = 700.0 + log1mexp(-step * n as f64) - log1mexp(-step);
        let error = (log_sum_exp(&terms) - want).abs();
        assert!(
            error <= (n as f64 + 2.0) * 1.2e-16 + 4.0 * 700.0 * f64::EPSILON,
            "{n}: {error}"
        );
    }
}

#[test]
fn incomplete_beta_of_large_parameters() {
    // By symmetry, and across the border between the two methods.
    for a in [9_999.0, 10_001.0, 1e6, 1e10, 1e15] {
        assert!((beta_regularized(a, a, 0.5) - 0.5).abs() < 1e-12, "{a}");
    }
    for b in [2e4, 1e6, 1e9] {
        for z in [-4.0, -1.0, -1e-3, 1e-6, 0.3, 2.0] {
            let at = |a: f64| beta_regularized(a, b, (a + z * a.sqrt()) / (a + b));
            let (fraction, asymptotic) = (at(9_999.999_999), at(10_000.000_001));
            assert!(
                (fraction - asymptotic).abs() < 1e-8,
                "{b} {z}: {fraction} {asymptotic}"
            );
        }
    }
    // One parameter huge: the gamma limit.
    for x in [0.5, 3.0, 9.0] {
        let limit = gamma_lower_regularized(3.0, x);
        assert!((beta_regularized(3.0, 1e14, x / 1e14) - limit).abs() < 1e-11);
        // 1 - x is known to 1e-16 here: 2^40 instead of 1e14 keeps it exact.
        let small = x / 2f64.powi(40);
        let mirrored = 1.0 - beta_regularized(2f64.powi(40), 3.0, 1.0 - small);
        assert!((mirrored - beta_regularized(3.0, 2f64.powi(40), small)).abs() < 1e-12);
    }
    assert_eq!(
        (
            beta_regularized(2.0, 3.0, -1.0),
            beta_regularized(2.0, 3.0, 1.0)
        ),
        (0.0, 1.0)
    );
    assert!(
        beta_regularized(0.0, 1.0, 0.5).is_nan() && beta_regularized(1.0, f64::NAN, 0.5).is_nan()
    );
}
