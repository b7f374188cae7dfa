//! Hot routines of npb-priors, each with the direct formula beside it.
//!
//! Some of the direct formulas are faster and wrong in the tails (their tests say where); they show what being right costs.

use std::f64::consts::{FRAC_1_SQRT_2, PI};
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_linalg::faer::Mat;
use npb_priors::GammaPrior;
use npb_priors::dist::{
    Categorical, Conjugate, Dirichlet, Gamma, NormalWishart, Scatter, Statistics, TruncatedNormal,
    Wishart, probit_moments, sample_ln_weights, sample_probit, sample_probit_sum,
};
use npb_priors::dp::StickFactor;
use npb_priors::ibp::IbpFactor;
use npb_priors::special::{digamma, ln_gamma, ln_phi, normal_cdf, normal_quantile};
use rand::RngExt;
use rand_distr::StandardNormal;

fn generator(key: u64) -> Xoshiro256PlusPlus {
    stream(1, [key, 0, 0, 0])
}

/// A thousand numbers from -30 to 10, in no order.
fn arguments() -> Vec<f64> {
    let mut rng = generator(0);
    (0..1000)
        .map(|_| 40.0 * rng.random::<f64>() - 30.0)
        .collect()
}

/// Measures the sum of `f` over a thousand arguments.
fn over(c: &mut Criterion, group: &str, name: &str, x: &[f64], f: impl Fn(f64) -> f64) {
    c.benchmark_group(group).bench_function(name, |b| {
        b.iter(|| black_box(x).iter().map(|&x| f(x)).sum::<f64>());
    });
}

fn textbook_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// Recurrence up to 6, then the asymptotic series.
fn textbook_digamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 6.0 {
        below -= 1.0 / x;
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    below + x.ln() - 0.5 / x - r * (1.0 / 12.0 - r * (1.0 / 120.0 - r / 252.0))
}

fn special_functions(c: &mut Criterion) {
    let x = arguments();
    over(c, "probit_moments_1000", "ours", &x, |x| {
        let m = probit_moments(x, true);
        m.mean + m.second + m.ln_mass
    });
    // mu + phi / Phi, infinite beyond -38.
    over(c, "probit_moments_1000", "printed", &x, |x| {
        let mass = textbook_cdf(x);
        let mean = x + (-0.5 * x * x).exp() / (2.0 * PI).sqrt() / mass;
        mean + (1.0 + x * mean) + mass.ln()
    });
    over(c, "ln_phi_1000", "ours", &x, ln_phi);
    over(c, "ln_phi_1000", "direct", &x, |x| textbook_cdf(x).ln());
    over(c, "normal_cdf_1000", "ours", &x, normal_cdf);
    over(c, "normal_cdf_1000", "direct", &x, textbook_cdf);
    let positive: Vec<f64> = x.iter().map(|x| (0.2 * x).exp()).collect();
    over(c, "digamma_1000", "ours", &positive, digamma);
    over(c, "digamma_1000", "direct", &positive, textbook_digamma);
}

/// Measures a thousand draws.
fn draws<T>(
    c: &mut Criterion,
    group: &str,
    name: &str,
    mut draw: impl FnMut(&mut Xoshiro256PlusPlus) -> T,
) {
    let mut rng = generator(1);
    c.benchmark_group(group).bench_function(name, |b| {
        b.iter(|| (0..1000).for_each(|_| drop(black_box(draw(&mut rng)))));
    });
}

fn univariate_draws(c: &mut Criterion) {
    for shape in [1e-3, 0.5, 5.0] {
        let ours = Gamma::new(shape, 1.0).expect("positive");
        // Draws 0 at small shapes.
        let direct = rand_distr::Gamma::new(shape, 1.0).expect("positive");
        draws(c, "gamma_1000", &format!("ln_at_shape_{shape}"), |rng| {
            ours.sample_ln(rng)
        });
        draws(
            c,
            "gamma_1000",
            &format!("direct_at_shape_{shape}"),
            |rng| rng.sample(direct).ln(),
        );
    }
    for bound in [-1.0, 1.0, 6.0] {
        draws(c, "truncated_1000", &format!("ours_above_{bound}"), |rng| {
            sample_probit(-bound, true, rng)
        });
        // By inversion: 1 - u has no digits left beyond 8.
        let below = normal_cdf(bound);
        draws(
            c,
            "truncated_1000",
            &format!("inversion_above_{bound}"),
            |rng| normal_quantile(below + (1.0 - below) * rng.random::<f64>()) - bound,
        );
    }
    let between = TruncatedNormal::new(0.0, 1.0, 0.5, 1.5).expect("an interval");
    draws(c, "truncated_1000", "ours_between", |rng| {
        between.sample(rng)
    });
    let (low, high) = (normal_cdf(0.5), normal_cdf(1.5));
    draws(c, "truncated_1000", "inversion_between", |rng| {
        normal_quantile(low + (high - low) * rng.random::<f64>())
    });
    for n in [20, 1000] {
        draws(c, "probit_sum_1000", &format!("ours_of_{n}"), |rng| {
            sample_probit_sum(0.3, n, 0, rng)
        });
    }
    draws(c, "probit_sum_1000", "one_by_one_of_1000", |rng| {
        (0..1000)
            .map(|_| sample_probit(0.3, true, rng))
            .sum::<f64>()
    });
}

fn categories(c: &mut Criterion) {
    let mut rng = generator(2);
    let ln_weights: Vec<f64> = (0..20).map(|_| -10.0 * rng.random::<f64>()).collect();
    draws(c, "categorical_20_1000", "ours", |rng| {
        sample_ln_weights(&ln_weights, rng).expect("finite weights")
    });
    draws(c, "categorical_20_1000", "normalise_then_draw", |rng| {
        let law = Categorical::from_ln_weights(&ln_weights).expect("finite weights");
        law.sample(rng)
    });
    let sparse = Dirichlet::symmetric(20, 0.05).expect("positive");
    let mut out = [0.0; 20];
    draws(c, "dirichlet_20_1000", "ours", |rng| {
        sparse.sample(&mut out, rng);
        out[0]
    });
    let direct = rand_distr::Gamma::new(0.05, 1.0).expect("positive");
    draws(c, "dirichlet_20_1000", "direct", |rng| {
        out.fill_with(|| rng.sample(direct));
        let total: f64 = out.iter().sum();
        out[0] / total
    });
}

fn scale_matrix(p: usize) -> Mat<f64> {
    let mut rng = generator(3);
    let g = Mat::from_fn(p, p + 3, |_, _| 2.0 * rng.random::<f64>() - 1.0);
    &g * g.transpose()
}

fn matrices(c: &mut Criterion) {
    let mut group = c.benchmark_group("wishart_draw");
    for p in [4, 16, 34] {
        let df = p as f64 + 6.0;
        let law = Wishart::new(scale_matrix(p).as_ref(), df).expect("positive definite");
        let mut rng = generator(4);
        group.bench_function(BenchmarkId::new("bartlett", p), |b| {
            b.iter(|| law.sample(&mut rng));
        });
        group.bench_function(BenchmarkId::new("sum_of_outer_products", p), |b| {
            b.iter(|| {
                let z = Mat::<f64>::from_fn(p, p + 6, |_, _| rng.sample(StandardNormal));
                let x = law.factor().l() * z;
                &x * x.transpose()
            });
        });
    }
    group.finish();

    let p = 10;
    let law = Wishart::new(scale_matrix(p).as_ref(), p as f64 + 2.0).expect("positive definite");
    let prior = NormalWishart::new(vec![0.0; p], 1.0, law).expect("right sizes");
    let x = vec![0.3; p];
    let mut group = c.benchmark_group("normal_wishart_10");
    group.bench_function("predictive_density", |b| {
        b.iter(|| prior.ln_predictive(black_box(&x)));
    });
    group.bench_function("predictive_by_student_t", |b| {
        b.iter(|| {
            let law = prior.predictive().expect("finite");
            law.ln_density(black_box(&x))
        });
    });
    let mut seen = Scatter::new(p);
    (0..100).for_each(|_| seen.add(&x));
    group.bench_function("add_and_remove", |b| {
        b.iter(|| {
            seen.add(black_box(&x));
            seen.remove(black_box(&x));
        });
    });
    group.bench_function("posterior", |b| b.iter(|| prior.posterior(&seen)));
    group.finish();
}

fn random_measures(c: &mut Criterion) {
    let n = 50;
    let counts: Vec<f64> = (0..n).map(|h| 1000.0 * 0.8f64.powi(h)).collect();
    let prior = GammaPrior {
        shape: 0.05,
        rate: 0.05,
    };
    let mut factor = StickFactor::new(n as usize, prior).expect("positive");
    let mut ln_weights = vec![0.0; n as usize];
    let mut group = c.benchmark_group("sticks_50");
    group.bench_function("update_weights_bound", |b| {
        b.iter(|| {
            factor.update_sticks(black_box(&counts));
            factor.update_alpha();
            factor.expected_ln_weights(&mut ln_weights);
            factor.elbo()
        });
    });
    group.bench_function("update_weights_bound_by_digammas", |b| {
        b.iter(|| plain_sticks(black_box(&counts), factor.alpha_mean(), &mut ln_weights));
    });
    group.finish();

    let mut factor = IbpFactor::new(n as usize, 2.0).expect("positive");
    let mut ln_odds = vec![0.0; n as usize];
    let mut group = c.benchmark_group("ibp_50");
    group.bench_function("update_and_odds", |b| {
        b.iter(|| {
            factor.update(black_box(&counts), 1000.0);
            factor.prior_ln_odds(&mut ln_odds);
        });
    });
    group.bench_function("double_sums", |b| {
        b.iter(|| double_sums(&factor, black_box(&counts), 1000.0));
    });
    group.finish();
}

/// The printed formulas: differences of digammas and log-gammas, which cancel at large counts.
fn plain_sticks(counts: &[f64], alpha: f64, ln_weights: &mut [f64]) -> f64 {
    let (mut later, mut bound, mut ln_rest) = (counts.iter().sum::<f64>(), 0.0, 0.0);
    for (ln_weight, count) in ln_weights.iter_mut().zip(counts) {
        later -= count;
        let (a, b) = (1.0 + count, alpha + later);
        let both = digamma(a + b);
        let (ln_v, ln_one_minus_v) = (digamma(a) - both, digamma(b) - both);
        *ln_weight = ln_rest + ln_v;
        ln_rest += ln_one_minus_v;
        let ln_beta = ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
        bound += ln_beta - (a - 1.0) * ln_v - (b - alpha) * ln_one_minus_v;
    }
    bound
}

/// Stick parameters with every multinomial of the bound written out.
fn double_sums(factor: &IbpFactor, counts: &[f64], n_rows: f64) -> Vec<[f64; 2]> {
    let n = counts.len();
    let weights: Vec<Vec<f64>> = (0..n).map(|k| factor.bound_weights(k)).collect();
    let zeros = |m: usize| n_rows - counts[m];
    (0..n)
        .map(|k| {
            let ones: f64 = counts[k..].iter().sum();
            let later = |m: usize| zeros(m) * weights[m][k + 1..].iter().sum::<f64>();
            let here = |m: usize| zeros(m) * weights[m][k];
            [
                factor.alpha() + ones + (k + 1..n).map(later).sum::<f64>(),
                1.0 + (k..n).map(here).sum::<f64>(),
            ]
        })
        .collect()
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .sample_size(20);
    targets = special_functions, univariate_draws, categories, matrices, random_measures
}
criterion_main!(benches);
