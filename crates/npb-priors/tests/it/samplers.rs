//! Every sampler against its moments (4.5 standard errors) and its law (KS or chi-square at 1e-4), at fixed seeds.

use crate::support::*;
use npb_linalg::Cholesky;
use npb_linalg::faer::{Mat, mat};
use npb_priors::dist::*;
use npb_priors::special::{beta_regularized, gamma_lower_regularized, normal_cdf};

const N: usize = 20_000;

fn draws(seed: u64, mut f: impl FnMut(&mut rand_xoshiro::Xoshiro256PlusPlus) -> f64) -> Vec<f64> {
    let mut rng = rng(seed);
    (0..N).map(|_| f(&mut rng)).collect()
}

#[track_caller]
fn assert_law(sample: Vec<f64>, cdf: impl Fn(f64) -> f64) {
    let p = ks_p_value(sample, cdf);
    assert!(p > LEVEL, "p = {p}");
}

#[test]
fn normal() {
    let law = Normal::new(-3.0, 0.25).unwrap();
    let sample = draws(1, |rng| law.sample(rng));
    assert_moments(&sample, -3.0, 0.25);
    assert_law(sample, |x| law.cdf(x));
}

#[test]
fn gamma_of_any_shape() {
    for (seed, shape, rate) in [(2, 2.5, 4.0), (3, 0.3, 0.1), (4, 1.0, 1.0), (5, 4e6, 3.0)] {
        let law = Gamma::new(shape, rate).unwrap();
        let sample = draws(seed, |rng| law.sample(rng));
        assert_moments(&sample, law.mean(), law.variance());
        assert_law(sample, |x| law.cdf(x));
        let ln_sample = draws(seed + 100, |rng| law.sample_ln(rng));
        assert_mean(&ln_sample, law.mean_ln());
        assert_law(ln_sample, |l| law.cdf(l.exp()));
    }
}

#[test]
fn gamma_of_tiny_shape_in_log_space() {
    // ln x is -Exp(1) / shape but for terms of the order of 1.
    let law = Gamma::new(1e-8, 2.0).unwrap();
    let sample = draws(6, |rng| 1e-8 * law.sample_ln(rng));
    assert_mean(&sample, 1e-8 * law.mean_ln());
    assert_law(sample, |l| l.min(0.0).exp());
}

#[test]
fn the_law_test_catches_a_scale_taken_for_a_rate_and_a_shape_off_by_one_half() {
    let law = Gamma::new(2.5, 0.8).unwrap();
    let scale_for_rate = Gamma::new(2.5, 1.25).unwrap();
    let wrong_shape = Gamma::new(3.0, 0.8).unwrap();
    for wrong in [scale_for_rate, wrong_shape] {
        assert!(ks_p_value(draws(7, |rng| wrong.sample(rng)), |x| law.cdf(x)) < 1e-12);
    }
}

#[test]
fn beta_of_ordinary_and_small_parameters() {
    for (seed, a, b) in [(8, 2.0, 3.0), (9, 0.4, 0.7), (10, 50.0, 1.0)] {
        let law = Beta::new(a, b).unwrap();
        let sample = draws(seed, |rng| law.sample(rng));
        assert_moments(&sample, law.mean(), law.variance());
        assert_law(sample, |x| law.cdf(x));
    }
    let law = Beta::new(0.02, 1.98).unwrap();
    let sample = draws(11, |rng| law.sample_ln(rng).0);
    assert_mean(&sample, law.mean_ln());
    // Median 3e-16 and a twentieth below 1e-65: only in log space.
    assert_law(sample, |l| law.cdf(l.exp()));
    let rest = draws(12, |rng| law.sample_ln(rng).1);
    assert_mean(&rest, law.mean_ln_rest());
}

fn tally(k: usize, mut f: impl FnMut() -> usize) -> Vec<u64> {
    let mut counts = vec![0; k];
    for _ in 0..N {
        counts[f()] += 1;
    }
    counts
}

fn expected(probabilities: &[f64]) -> Vec<f64> {
    probabilities.iter().map(|p| p * N as f64).collect()
}

#[test]
fn bernoulli() {
    let mut rng = rng(13);
    let law = Bernoulli::from_ln_odds(-1.2).unwrap();
    let counts = tally(2, || usize::from(law.sample(&mut rng)));
    assert!(chi_square_p_value(&counts, &expected(&[1.0 - law.mean(), law.mean()])) > LEVEL);
    assert!(chi_square_p_value(&counts, &expected(&[law.mean(), 1.0 - law.mean()])) < 1e-12);
    assert!(!Bernoulli::new(0.0).unwrap().sample(&mut rng));
    assert!(Bernoulli::new(1.0).unwrap().sample(&mut rng));
}

#[test]
fn categorical_both_ways() {
    let ln_weights = [-1e3, f64::NEG_INFINITY, -1e3 + 2.0, -1e3 - 3.0, -1e3 + 0.5];
    let law = Categorical::from_ln_weights(&ln_weights).unwrap();
    let mut rng = rng(14);
    let kept = tally(5, || law.sample(&mut rng));
    let once = tally(5, || sample_ln_weights(&ln_weights, &mut rng).unwrap());
    for counts in [kept, once] {
        assert_eq!(counts[1], 0);
        assert!(chi_square_p_value(&counts, &expected(law.probabilities())) > LEVEL);
    }
}

#[test]
fn dirichlet_coordinates_are_beta() {
    let law = Dirichlet::new(vec![0.5, 2.0, 3.5]).unwrap();
    for k in 0..3 {
        let mut x = [0.0; 3];
        let sample = draws(15 + k as u64, |rng| {
            law.sample(&mut x, rng);
            assert!((x.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            x[k]
        });
        assert_moments(&sample, law.mean(k), law.variance(k));
        let a = law.concentrations()[k];
        assert_law(sample, |x| beta_regularized(a, law.total() - a, x));
    }
}

#[test]
fn dirichlet_of_tiny_concentrations_in_log_space() {
    let law = Dirichlet::new(vec![1e-7, 2e-7, 3e-7]).unwrap();
    let mut ln_x = [0.0; 3];
    let sample = draws(18, |rng| {
        law.sample_ln(&mut ln_x, rng);
        ln_x[0] * 1e-7
    });
    assert!(sample.iter().all(|l| l.is_finite()));
    assert_mean(&sample, law.mean_ln(0) * 1e-7);
    // The first is the largest with probability 1/6.
    let mut rng = rng(19);
    let winner = tally(3, || {
        law.sample_ln(&mut ln_x, &mut rng);
        (0..3).max_by(|&i, &j| ln_x[i].total_cmp(&ln_x[j])).unwrap()
    });
    assert!(chi_square_p_value(&winner, &expected(&[1.0 / 6.0, 2.0 / 6.0, 3.0 / 6.0])) > LEVEL);
}

fn wishart() -> Wishart {
    let scale = mat![[2.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 0.7]];
    Wishart::new(scale.as_ref(), 3.7).unwrap()
}

#[test]
fn wishart_moments_and_projections() {
    let law = wishart();
    let b = law.scale().to_owned();
    for (i, j) in [(0, 0), (1, 0), (2, 1), (2, 2)] {
        let sample = draws(20 + (3 * i + j) as u64, |rng| law.sample(rng)[(i, j)]);
        let variance = law.df() * (b[(i, j)].powi(2) + b[(i, i)] * b[(j, j)]);
        assert_moments(&sample, law.mean()[(i, j)], variance);
    }
    // a' Lambda a / a' B a is chi-square with nu degrees of freedom.
    let a = [1.0, -2.0, 0.5];
    let form = |m: &Mat<f64>| {
        (0..9)
            .map(|k| a[k / 3] * m[(k / 3, k % 3)] * a[k % 3])
            .sum::<f64>()
    };
    let sample = draws(30, |rng| form(&law.sample(rng)) / form(&b));
    assert_law(sample, |x| gamma_lower_regularized(0.5 * 3.7, 0.5 * x));
}

#[test]
fn wishart_with_barely_enough_degrees_of_freedom() {
    // (B^-1)_kk / (Lambda^-1)_kk is chi-square with nu - P + 1 = 1.7 degrees of freedom, for each k.
    let law = wishart();
    let inverse = law.inverse_scale();
    for k in 0..3 {
        let sample = draws(31 + k as u64, |rng| {
            inverse[(k, k)] / Cholesky::new(law.sample(rng).as_ref()).unwrap().inverse()[(k, k)]
        });
        assert_law(sample, |x| gamma_lower_regularized(0.5 * 1.7, 0.5 * x));
    }
    let ln_det = draws(34, |rng| {
        Cholesky::new(law.sample(rng).as_ref()).unwrap().ln_det()
    });
    assert_mean(&ln_det, law.mean_ln_det());
}

#[test]
fn wishart_factor_is_the_factor() {
    let law = wishart();
    let l = law.sample_factor(&mut rng(35));
    let lambda = law.sample(&mut rng(35));
    let factor = Cholesky::new(lambda.as_ref()).unwrap();
    for j in 0..3 {
        for i in 0..3 {
            assert!((l[(i, j)] - factor.l()[(i, j)]).abs() < 1e-12);
        }
    }
}

#[test]
fn normal_wishart_mean_given_precision() {
    let law = NormalWishart::new(vec![1.0, -1.0, 0.0], 2.5, wishart()).unwrap();
    for k in 0..3 {
        let sample = draws(36 + k as u64, |rng| {
            let (mu, lambda) = law.sample(rng);
            let mut d: Vec<f64> = mu.iter().zip(law.mean()).map(|(x, m)| x - m).collect();
            Cholesky::new(lambda.as_ref()).unwrap().mul_lt(&mut d);
            d[k] * 2.5f64.sqrt()
        });
        assert_moments(&sample, 0.0, 1.0);
        assert_law(sample, normal_cdf);
    }
}

#[test]
fn normal_gamma_mean_given_precision() {
    let law = NormalGamma::new(2.0, 3.0, 1.5, 0.7).unwrap();
    let sample = draws(39, |rng| {
        let (mu, lambda) = law.sample(rng);
        (mu - 2.0) * (3.0 * lambda).sqrt()
    });
    assert_law(sample, normal_cdf);
    let lambda = draws(40, |rng| law.sample(rng).1);
    assert_law(lambda, |x| law.precision().cdf(x));
    let product = draws(41, |rng| {
        let (mu, lambda) = law.sample(rng);
        lambda * mu
    });
    assert_mean(&product, law.mean_precision_times_mean());
    let deviation = draws(42, |rng| {
        let (mu, lambda) = law.sample(rng);
        lambda * (5.0 - mu).powi(2)
    });
    assert_mean(&deviation, law.mean_square_deviation(5.0));
}

#[test]
fn student_t_distance_is_a_beta_variable() {
    let scale = mat![[1.0, 0.3, 0.1], [0.3, 2.0, -0.4], [0.1, -0.4, 0.5]];
    let law = StudentT::new(vec![1.0, 2.0, 3.0], scale.as_ref(), 4.5).unwrap();
    let mut x = [0.0; 3];
    // d / (d + df) is Beta(P/2, df/2).
    let sample = draws(43, |rng| {
        law.sample(&mut x, rng);
        let d = law.squared_distance(&x);
        d / (d + 4.5)
    });
    assert_law(sample, |r| beta_regularized(1.5, 2.25, r));
    let product = draws(44, |rng| {
        law.sample(&mut x, rng);
        (x[0] - 1.0) * (x[1] - 2.0)
    });
    assert_mean(&product, law.covariance().unwrap()[(1, 0)]);
}

#[test]
fn inverse_gaussian_of_any_mean() {
    for (seed, mean, shape) in [
        (45, 1.0, 1.0),
        (46, 0.2, 30.0),
        (47, 1e3, 2.0),
        (48, 1e300, 0.5),
        (49, f64::INFINITY, 3.0),
    ] {
        let law = InverseGaussian::new(mean, shape).unwrap();
        let sample = draws(seed, |rng| law.sample(rng));
        assert!(sample.iter().all(|x| *x > 0.0 && x.is_finite()));
        let inverses: Vec<f64> = sample.iter().map(|x| x.recip()).collect();
        assert_mean(&inverses, law.mean_inverse());
        if mean <= 1.0 {
            assert_moments(&sample, law.mean(), law.variance());
        }
        assert_law(sample, |x| law.cdf(x));
    }
}

#[test]
fn poisson_gamma_counts() {
    for (seed, shape, rate) in [(50, 1.7, 0.4), (51, 0.05, 0.5)] {
        let law = PoissonGamma::new(Gamma::new(shape, rate).unwrap());
        let mut rng = rng(seed);
        let counts = tally(61, || law.sample(&mut rng).min(60) as usize);
        let mut probabilities: Vec<f64> = (0..60).map(|x| law.ln_density(x).exp()).collect();
        probabilities.push(1.0 - probabilities.iter().sum::<f64>());
        assert!(chi_square_p_value(&counts, &expected(&probabilities)) > LEVEL);
        let sample = draws(seed + 100, |rng| law.sample(rng) as f64);
        assert_moments(&sample, law.mean(), law.variance());
    }
    let huge = PoissonGamma::new(Gamma::new(1e10, 1e-20).unwrap());
    assert_eq!(huge.sample(&mut rng(52)), u64::MAX);
}
