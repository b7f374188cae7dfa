//! Log-densities, entropies and divergences against integrals, known cases, each other, and Monte Carlo (4.5 errors).

use crate::support::*;
use npb_linalg::faer::{Mat, mat};
use npb_priors::dist::*;

#[track_caller]
fn assert_close(got: f64, want: f64, relative: f64) {
    assert!(
        (got - want).abs() <= relative * want.abs().max(1.0),
        "got {got}, want {want}"
    );
}

/// Integral over the real line by the trapezoidal rule, which is exponentially accurate for smooth densities.
fn integrate(f: impl Fn(f64) -> f64, from: f64, to: f64) -> f64 {
    let steps = 40_000;
    let h = (to - from) / steps as f64;
    (0..=steps).map(|i| f(from + h * i as f64)).sum::<f64>() * h
}

#[test]
fn gamma_divergences_match_integrals() {
    // Both shapes small, one or the other large, both large.
    for (a, b, a0, b0) in [
        (0.5, 2.0, 3.0, 1.0),
        (12.0, 3.0, 0.7, 0.2),
        (4.0, 1.0, 25.0, 6.0),
        (1e3, 10.0, 990.0, 9.0),
        (10.0, 1.0, 10.0, 1.1),
    ] {
        let (q, p) = (Gamma::new(a, b).unwrap(), Gamma::new(a0, b0).unwrap());
        // In ln x, where both tails decay.
        let (from, to) = (
            q.mean_ln() - 60.0 / f64::min(a, 1.0) / a.sqrt().min(10.0),
            q.mean_ln() + 8.0,
        );
        let at =
            |f: &dyn Fn(f64) -> f64| integrate(|l| q.ln_density_at_ln(l).exp() * f(l), from, to);
        assert_close(at(&|_| 1.0), 1.0, 1e-10);
        assert_close(
            at(&|l| q.ln_density_at_ln(l) - p.ln_density_at_ln(l)),
            q.kl(&p),
            1e-9,
        );
        assert_close(-at(&|l| q.ln_density(l.exp())), q.entropy(), 1e-9);
        assert_close(at(&|l| l), q.mean_ln(), 1e-9);
    }
}

#[test]
fn gamma_divergences_of_large_shapes_keep_their_digits() {
    let shape = 1e12;
    let (q, p) = (
        Gamma::new(shape, 5.0).unwrap(),
        Gamma::new(shape, 5.0 * (1.0 + 1e-6)).unwrap(),
    );
    // a (d - ln(1 + d)) at d = 1e-6, of which the naive formula keeps nothing.
    assert_close(q.kl(&p), 0.5 - 1e-6 / 3.0, 1e-8);
    assert_close(
        q.entropy(),
        0.5 * (std::f64::consts::TAU * std::f64::consts::E * shape).ln() - 5f64.ln(),
        1e-11,
    );
    for a in [10.0, 10.0 - 1e-9] {
        for a0 in [10.0, 10.0 - 1e-9] {
            let q = Gamma::new(a, 2.0).unwrap();
            assert!(q.kl(&Gamma::new(a0, 2.0).unwrap()).abs() < 1e-13);
            assert_close(
                q.kl(&Gamma::new(a0 + 3.0, 2.0).unwrap()),
                Gamma::new(10.0, 2.0)
                    .unwrap()
                    .kl(&Gamma::new(13.0, 2.0).unwrap()),
                1e-8,
            );
        }
    }
}

/// Posteriors after 1e12 observations that hardly differ: the textbook formulas subtract numbers of size 1e12 or more.
#[test]
fn divergences_of_large_counts_keep_their_digits() {
    // Second order in the parameters' differences: 1/2 d' (trigamma information) d, which is 1/2 n (dm)^2 / (m (1 - m)).
    let (n, step) = (1e12, 1e6);
    let q = Beta::new(0.25 * n + step, 0.75 * n - step).unwrap();
    let p = Beta::new(0.25 * n, 0.75 * n).unwrap();
    let expected = 0.5 * (step / n).powi(2) * n / (0.25 * 0.75);
    assert_close(q.kl(&p), expected, 1e-5);
    let dirichlet = |step: f64| Dirichlet::new(vec![0.25 * n + step, 0.75 * n - step]).unwrap();
    assert_close(dirichlet(step).kl(&dirichlet(0.0)), expected, 1e-5);
    // A beta is a normal then.
    let normal = 0.5 * (std::f64::consts::TAU * std::f64::consts::E * p.variance()).ln();
    assert_close(p.entropy(), normal, 1e-11);
    assert_close(dirichlet(0.0).entropy(), normal, 1e-11);

    // P = 1 is a gamma law: W(b, nu) = Gamma(nu/2, 1/(2b)).
    let wishart = |b: f64, df: f64| Wishart::new(mat![[b]].as_ref(), df).unwrap();
    let gamma = |b: f64, df: f64| Gamma::new(0.5 * df, 0.5 / b).unwrap();
    for (b, df, b0, df0) in [
        (2.0, 3.5, 0.7, 9.0),
        (1e-12, n, 0.3, 4.0),
        (1e-12, n, 1e-12 * (1.0 + 1e-6), n + step),
    ] {
        assert_close(
            wishart(b, df).kl(&wishart(b0, df0)),
            gamma(b, df).kl(&gamma(b0, df0)),
            1e-9,
        );
        assert_close(wishart(b, df).entropy(), gamma(b, df).entropy(), 1e-11);
    }
    // Of two Wishart laws whose scales differ by 1 + d in every direction: nu P (d - ln(1 + d)) / 2.
    let b = mat![[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 1.5]];
    let scaled = |c: f64| Wishart::new((&b * npb_linalg::faer::Scale(c)).as_ref(), n).unwrap();
    let d = 1e-6;
    let expected = 1.5 * n * d * d * (0.5 - d / 3.0);
    assert_close(scaled(1.0 + d).kl(&scaled(1.0)), expected, 1e-8);
}

#[test]
fn beta_divergences_match_integrals() {
    for (a, b, a0, b0) in [
        (0.5, 2.0, 3.0, 1.0),
        (12.0, 30.0, 10.0, 10.0),
        (2.0, 2.0, 2.0, 2.0),
    ] {
        let (q, p) = (Beta::new(a, b).unwrap(), Beta::new(a0, b0).unwrap());
        let weight = |l: f64| {
            let x = 1.0 / (1.0 + (-l).exp());
            (x, (q.ln_density(x) + x.ln() + (-x).ln_1p()).exp())
        };
        let at = |f: &dyn Fn(f64) -> f64| {
            integrate(
                |l| {
                    let (x, w) = weight(l);
                    w * f(x)
                },
                -60.0,
                30.0,
            )
        };
        assert_close(at(&|_| 1.0), 1.0, 1e-9);
        assert_close(at(&|x| q.ln_density(x) - p.ln_density(x)), q.kl(&p), 1e-8);
        assert_close(-at(&|x| q.ln_density(x)), q.entropy(), 1e-8);
        assert_close(at(&|x| (-x).ln_1p()), q.mean_ln_rest(), 1e-8);
    }
    let flat = Beta::new(1.0, 1.0).unwrap();
    assert_eq!(
        (
            flat.ln_density(0.0),
            flat.ln_density(1.0),
            flat.ln_density(1.5)
        ),
        (0.0, 0.0, f64::NEG_INFINITY)
    );
}

#[test]
fn normal_divergences_match_integrals() {
    let (q, p) = (
        Normal::new(0.3, 0.5).unwrap(),
        Normal::new(-1.0, 2.0).unwrap(),
    );
    let at = |f: &dyn Fn(f64) -> f64| integrate(|x| q.ln_density(x).exp() * f(x), -9.0, 9.0);
    assert_close(at(&|x| q.ln_density(x) - p.ln_density(x)), q.kl(&p), 1e-12);
    assert_close(-at(&|x| q.ln_density(x)), q.entropy(), 1e-12);
    assert_close(at(&|x| x * x), q.mean_square(), 1e-12);
    // Nearly equal: d^2/2 of the mean and d^2/4 of the variance, without cancellation.
    let near = Normal::new(0.3, 0.5 * (1.0 + 1e-7)).unwrap();
    assert!((q.kl(&near) / 0.25e-14 - 1.0).abs() < 1e-6);
}

#[test]
fn discrete_divergences() {
    let (q, p) = (Bernoulli::new(0.25).unwrap(), Bernoulli::new(0.5).unwrap());
    assert_close(p.entropy(), 2f64.ln(), 1e-15);
    assert_close(q.kl(&p), 2f64.ln() - q.entropy(), 1e-15);
    assert_eq!(Bernoulli::new(1.0).unwrap().entropy(), 0.0);
    assert_eq!(Bernoulli::new(0.0).unwrap().kl(&q), -(0.75f64.ln()));
    assert_eq!(q.kl(&Bernoulli::new(0.0).unwrap()), f64::INFINITY);
    assert_close(q.variance(), 0.1875, 1e-15);
    let certain = Bernoulli::from_ln_odds(f64::INFINITY).unwrap();
    assert_eq!(
        (certain.mean(), certain.ln_density(false)),
        (1.0, f64::NEG_INFINITY)
    );

    let q = Categorical::from_ln_weights(&[0.25f64.ln(), 0.75f64.ln(), f64::NEG_INFINITY]).unwrap();
    let p = Categorical::from_ln_weights(&[5.0; 3]).unwrap();
    assert_close(q.kl(&p), 3f64.ln() - q.entropy(), 1e-14);
    assert_eq!(p.kl(&q), f64::INFINITY);
    assert_eq!(q.kl(&q), 0.0);
}

/// Averages of ln q - ln p and of -ln q over draws from q, against KL and entropy.
#[track_caller]
fn assert_by_monte_carlo<T>(
    draws: Vec<T>,
    ln_q: impl Fn(&T) -> f64,
    ln_p: impl Fn(&T) -> f64,
    kl: f64,
    entropy: f64,
) {
    assert!(kl > 0.0);
    assert_mean(
        &draws.iter().map(|x| ln_q(x) - ln_p(x)).collect::<Vec<_>>(),
        kl,
    );
    assert_mean(&draws.iter().map(|x| -ln_q(x)).collect::<Vec<_>>(), entropy);
}

#[test]
fn dirichlet_divergences() {
    let (q, p) = (
        Dirichlet::new(vec![0.5, 3.0]).unwrap(),
        Dirichlet::new(vec![2.0, 1.0]).unwrap(),
    );
    let (beta_q, beta_p) = (Beta::new(0.5, 3.0).unwrap(), Beta::new(2.0, 1.0).unwrap());
    assert_close(q.kl(&p), beta_q.kl(&beta_p), 1e-13);
    assert_close(q.entropy(), beta_q.entropy(), 1e-13);
    assert_close(
        q.ln_density(&[0.2f64.ln(), 0.8f64.ln()]),
        beta_q.ln_density(0.2),
        1e-13,
    );
    let (q, p) = (
        Dirichlet::new(vec![1.5, 3.0, 0.8]).unwrap(),
        Dirichlet::symmetric(3, 1.2).unwrap(),
    );
    let mut rng = rng(1);
    let draws: Vec<[f64; 3]> = (0..20_000)
        .map(|_| {
            let mut ln_x = [0.0; 3];
            q.sample_ln(&mut ln_x, &mut rng);
            ln_x
        })
        .collect();
    assert_by_monte_carlo(
        draws,
        |x| q.ln_density(x),
        |x| p.ln_density(x),
        q.kl(&p),
        q.entropy(),
    );
}

fn one_by_one(b: f64, df: f64) -> Wishart {
    Wishart::new(Mat::from_fn(1, 1, |_, _| b).as_ref(), df).unwrap()
}

#[test]
fn wishart_of_one_dimension_is_a_gamma() {
    let (q, p) = (one_by_one(0.7, 3.3), one_by_one(2.0, 0.4));
    let as_gamma = |w: &Wishart| Gamma::new(0.5 * w.df(), 0.5 / w.scale()[(0, 0)]).unwrap();
    assert_close(q.kl(&p), as_gamma(&q).kl(&as_gamma(&p)), 1e-13);
    assert_close(q.entropy(), as_gamma(&q).entropy(), 1e-13);
    assert_close(q.mean_ln_det(), as_gamma(&q).mean_ln(), 1e-13);
    let at = Mat::from_fn(1, 1, |_, _| 1.7);
    assert_close(
        q.ln_density(at.as_ref()),
        as_gamma(&q).ln_density(1.7),
        1e-13,
    );
}

#[test]
fn normal_wishart_of_one_dimension_is_a_normal_gamma() {
    let pair = |m: f64, u: f64, b: f64, df: f64| {
        let wishart = NormalWishart::new(vec![m], u, one_by_one(b, df)).unwrap();
        (wishart, NormalGamma::new(m, u, 0.5 * df, 0.5 / b).unwrap())
    };
    let ((q, gamma_q), (p, gamma_p)) = (pair(0.4, 2.0, 0.7, 3.3), pair(-1.0, 0.5, 2.0, 1.4));
    assert_close(q.kl(&p), gamma_q.kl(&gamma_p), 1e-13);
    assert_close(q.entropy(), gamma_q.entropy(), 1e-13);
    assert_close(
        q.mean_ln_likelihood(&[2.0]),
        gamma_q.mean_ln_likelihood(2.0),
        1e-13,
    );
    let at = Mat::from_fn(1, 1, |_, _| 1.7);
    assert_close(
        q.ln_density(&[0.1], at.as_ref()),
        gamma_q.ln_density(0.1, 1.7),
        1e-13,
    );
}

fn two_wisharts() -> (Wishart, Wishart) {
    let (b, b0) = (
        mat![[0.8, 0.2, 0.0], [0.2, 0.5, -0.1], [0.0, -0.1, 0.3]],
        mat![[0.6, 0.0, 0.1], [0.0, 0.7, 0.0], [0.1, 0.0, 0.4]],
    );
    (
        Wishart::new(b.as_ref(), 5.5).unwrap(),
        Wishart::new(b0.as_ref(), 4.2).unwrap(),
    )
}

#[test]
fn wishart_divergences_by_monte_carlo() {
    let (q, p) = two_wisharts();
    let mut rng = rng(2);
    let draws: Vec<Mat<f64>> = (0..20_000).map(|_| q.sample(&mut rng)).collect();
    assert_by_monte_carlo(
        draws,
        |x| q.ln_density(x.as_ref()),
        |x| p.ln_density(x.as_ref()),
        q.kl(&p),
        q.entropy(),
    );
    assert!(q.kl(&q).abs() < 1e-12);
    let inverse = Wishart::from_inverse_scale(q.inverse_scale().as_ref(), q.df()).unwrap();
    assert!(q.kl(&inverse).abs() < 1e-12);
    assert_eq!(
        q.ln_density(mat![[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]].as_ref()),
        f64::NEG_INFINITY
    );
}

#[test]
fn normal_wishart_divergences_by_monte_carlo() {
    let (wishart_q, wishart_p) = two_wisharts();
    let q = NormalWishart::new(vec![0.1, -0.2, 0.3], 2.0, wishart_q).unwrap();
    let p = NormalWishart::new(vec![0.5, 0.2, 0.0], 0.7, wishart_p).unwrap();
    let mut rng = rng(3);
    let draws: Vec<(Vec<f64>, Mat<f64>)> = (0..20_000).map(|_| q.sample(&mut rng)).collect();
    let ln = |law: &NormalWishart, (mu, lambda): &(Vec<f64>, Mat<f64>)| {
        law.ln_density(mu, lambda.as_ref())
    };
    assert_by_monte_carlo(draws, |x| ln(&q, x), |x| ln(&p, x), q.kl(&p), q.entropy());
}

#[test]
fn student_t_factorises() {
    let scale = mat![[1.0, 0.3, 0.1], [0.3, 2.0, -0.4], [0.1, -0.4, 0.5]];
    let law = StudentT::new(vec![1.0, 2.0, 3.0], scale.as_ref(), 4.5).unwrap();
    let x = [0.2, 5.0, 2.5];
    for observed in [vec![], vec![1], vec![2, 0], vec![1, 2, 0]] {
        let missing: Vec<usize> = (0..3).filter(|i| !observed.contains(i)).collect();
        let pick = |which: &[usize]| -> Vec<f64> { which.iter().map(|&i| x[i]).collect() };
        let of_observed = law
            .marginal(&observed)
            .unwrap()
            .ln_density(&pick(&observed));
        let rest = law.conditional(&observed, &pick(&observed)).unwrap();
        assert_eq!(rest.df(), 4.5 + observed.len() as f64);
        assert_close(
            of_observed + rest.ln_density(&pick(&missing)),
            law.ln_density(&x),
            1e-13,
        );
    }
    // Many degrees of freedom: the normal.
    let nearly_normal =
        StudentT::new(vec![0.3], Mat::from_fn(1, 1, |_, _| 0.5).as_ref(), 1e12).unwrap();
    assert_close(
        nearly_normal.ln_density(&[1.0]),
        Normal::new(0.3, 0.5).unwrap().ln_density(1.0),
        1e-11,
    );
    assert!(
        StudentT::new(vec![0.0], Mat::identity(1, 1).as_ref(), 2.0)
            .unwrap()
            .covariance()
            .is_none()
    );
}

#[test]
fn inverse_gaussian_density_is_the_slope_of_its_distribution_function() {
    for (mean, shape) in [(1.0, 1.0), (1e3, 2.0), (f64::INFINITY, 3.0), (0.2, 30.0)] {
        let law = InverseGaussian::new(mean, shape).unwrap();
        for x in [0.15, 0.3, 1.0, 5.0] {
            let slope = (law.cdf(x * 1.0001) - law.cdf(x * 0.9999)) / (2e-4 * x);
            assert!(
                (slope - law.ln_density(x).exp()).abs() < 1e-6 * (1.0 + slope),
                "{mean} {shape} {x}"
            );
        }
    }
}

#[test]
fn poisson_gamma_probabilities_sum_to_one() {
    for (shape, rate) in [(1e-6, 1.0), (0.7, 0.5), (30.0, 2.0)] {
        let law = PoissonGamma::new(Gamma::new(shape, rate).unwrap());
        let total: f64 = (0..500).map(|x| law.ln_density(x).exp()).sum();
        assert_close(total, 1.0, 1e-12);
    }
}
