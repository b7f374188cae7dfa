//! The variational sticks against long formulas, their own optimum, and Monte Carlo.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use statrs::distribution::{Beta, Continuous, Gamma};
use statrs::function::gamma::digamma;

use super::*;

const VAGUE: GammaPrior = GammaPrior {
    shape: 0.05,
    rate: 0.05,
};

fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// The part of a model's bound that the sticks see: Σ N_h ⟨ln π_h⟩ + elbo, and the sum of the sizes of its terms.
fn bound(factor: &StickFactor, counts: &[f64]) -> (f64, f64) {
    let mut ln_weights = vec![0.0; factor.truncation()];
    factor.expected_ln_weights(&mut ln_weights);
    let terms: Vec<f64> = counts.iter().zip(&ln_weights).map(|(n, l)| n * l).collect();
    let size: f64 = terms.iter().map(|t| t.abs()).sum::<f64>()
        + factor.alpha.elbo().abs()
        + factor.elbo().abs();
    (terms.iter().sum::<f64>() + factor.elbo(), size)
}

fn random_counts(n: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    (0..n)
        .map(|_| {
            if rng.random_bool(0.3) {
                0.0
            } else {
                10f64.powf(rng.random_range(-6.0..12.0))
            }
        })
        .collect()
}

#[test]
fn one_weight_has_no_sticks() {
    let mut factor = StickFactor::new(1, VAGUE).unwrap();
    factor.update_sticks(&[7.0]);
    factor.update_alpha();
    let mut out = [9.0];
    factor.expected_ln_weights(&mut out);
    assert_eq!(
        (out, factor.expected_weights(), factor.weight_sd()),
        ([0.0], vec![1.0], vec![0.0])
    );
    factor.sample_weights(&mut out, &mut rng(1));
    assert_eq!(out, [1.0]);
    factor.sample_prior_weights(&mut out, &mut rng(1));
    assert_eq!(out, [1.0]);
    assert!(factor.elbo().abs() < 1e-13);
}

#[test]
fn updates_are_the_printed_ones() {
    let mut factor = StickFactor::new(
        3,
        GammaPrior {
            shape: 2.0,
            rate: 4.0,
        },
    )
    .unwrap();
    factor.update_sticks(&[5.0, 3.0, 2.0]);
    assert_eq!(factor.sticks().parameters(), [[6.0, 5.5], [4.0, 2.5]]);
    factor.update_alpha();
    assert_eq!(factor.alpha().shape(), 4.0);
    let sum = digamma(5.5) - digamma(11.5) + digamma(2.5) - digamma(6.5);
    assert!((factor.alpha().rate() - (4.0 - sum)).abs() < 1e-13);
    let weights = factor.expected_weights();
    let expected = [6.0 / 11.5, 5.5 / 11.5 * 4.0 / 6.5, 5.5 / 11.5 * 2.5 / 6.5];
    for (w, e) in weights.iter().zip(expected) {
        assert!((w - e).abs() < 1e-15);
    }
}

#[test]
fn the_bound_never_falls_and_rests_at_a_maximum() {
    let mut rng = rng(2);
    for trial in 0..200 {
        let n = rng.random_range(1..30);
        let prior = GammaPrior {
            shape: 10f64.powf(rng.random_range(-6.0..2.0)),
            rate: 10f64.powf(rng.random_range(-6.0..2.0)),
        };
        let mut factor = StickFactor::new(n, prior).unwrap();
        let counts = random_counts(n, &mut rng);
        let mut last = f64::NEG_INFINITY;
        for step in 0..10 {
            if step % 2 == 0 {
                factor.update_sticks(&counts)
            } else {
                factor.update_alpha()
            }
            let (now, size) = bound(&factor, &counts);
            assert!(
                now.is_finite() && now >= last - 1e-12 * size,
                "trial {trial} step {step}: {last} to {now}"
            );
            last = now;
        }
    }
}

#[test]
fn each_update_is_a_stationary_point() {
    let counts = [40.0, 0.0, 7.5, 1e-3];
    let mut factor = StickFactor::new(
        4,
        GammaPrior {
            shape: 0.7,
            rate: 1.3,
        },
    )
    .unwrap();
    factor.update_alpha();
    factor.update_sticks(&counts);
    let best = bound(&factor, &counts).0;
    for h in 0..3 {
        for side in 0..2 {
            for scale in [0.99, 1.01] {
                let mut moved = factor.clone();
                moved.sticks.parameters[h][side] *= scale;
                assert!(bound(&moved, &counts).0 < best);
            }
        }
    }
    factor.update_alpha();
    let best = bound(&factor, &counts).0;
    for scale in [0.99, 1.01] {
        let GammaPrior { shape, rate } = factor.alpha.prior();
        let sum_ln = factor.sticks.sum_ln_rest();
        let mut moved = factor.clone();
        moved.alpha.update(3, rate - (rate - sum_ln) * scale);
        assert!(bound(&moved, &counts).0 < best);
        assert_eq!(moved.alpha.shape(), shape + 3.0);
    }
}

#[test]
fn a_stick_update_that_forgets_the_tail_would_lower_the_bound() {
    let counts = [40.0, 30.0, 20.0];
    let mut factor = StickFactor::new(3, VAGUE).unwrap();
    factor.update_sticks(&counts);
    let before = bound(&factor, &counts).0;
    for (stick, n) in factor.sticks.parameters.iter_mut().zip(counts) {
        *stick = [1.0 + n, 1.0];
    }
    assert!(bound(&factor, &counts).0 < before - 1.0);
}

/// The bound's value, not only its shape: Monte Carlo of ln p(V, α) − ln q(V, α) with densities from statrs.
#[test]
fn elbo_is_the_expected_log_ratio() {
    let prior = GammaPrior {
        shape: 1.5,
        rate: 0.8,
    };
    let mut factor = StickFactor::new(4, prior).unwrap();
    factor.update_sticks(&[12.0, 3.0, 0.0, 5.0]);
    factor.update_alpha();
    let q_alpha = Gamma::new(factor.alpha().shape(), factor.alpha().rate()).unwrap();
    let p_alpha = Gamma::new(prior.shape, prior.rate).unwrap();
    let mut rng = rng(3);
    let draws: Vec<f64> = (0..200_000)
        .map(|_| {
            let alpha =
                sample_concentration(factor.alpha().shape(), factor.alpha().rate(), &mut rng);
            let mut ln_ratio = p_alpha.ln_pdf(alpha) - q_alpha.ln_pdf(alpha);
            for &[a, b] in factor.sticks().parameters() {
                let v = crate::dist::Beta::new(a, b).unwrap().sample(&mut rng);
                ln_ratio +=
                    Beta::new(1.0, alpha).unwrap().ln_pdf(v) - Beta::new(a, b).unwrap().ln_pdf(v);
            }
            ln_ratio
        })
        .collect();
    let n = draws.len() as f64;
    let mean = draws.iter().sum::<f64>() / n;
    let se = (draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / n / n).sqrt();
    assert!(
        (factor.elbo() - mean).abs() < 4.5 * se,
        "{} against {mean} ± {se}",
        factor.elbo()
    );
}

#[test]
fn weights_drawn_from_q_have_the_stated_moments() {
    let mut factor = StickFactor::new(4, VAGUE).unwrap();
    factor.update_sticks(&[6.0, 2.0, 0.5, 0.0]);
    let (mean, sd) = (factor.expected_weights(), factor.weight_sd());
    let mut rng = rng(4);
    let n = 100_000;
    let mut sums = [[0.0; 4]; 3];
    let mut w = [0.0; 4];
    for _ in 0..n {
        factor.sample_weights(&mut w, &mut rng);
        assert!((w.iter().sum::<f64>() - 1.0).abs() < 1e-14);
        for h in 0..4 {
            let d = w[h] - mean[h];
            sums[0][h] += d;
            sums[1][h] += d * d;
            sums[2][h] += d.powi(4);
        }
    }
    let n = n as f64;
    for h in 0..4 {
        let var = sums[1][h] / n;
        assert!(
            (sums[0][h] / n).abs() < 4.5 * (var / n).sqrt(),
            "mean of weight {h}"
        );
        let se_var = ((sums[2][h] / n - var * var) / n).sqrt();
        assert!(
            (var - sd[h] * sd[h]).abs() < 4.5 * se_var,
            "variance of weight {h}"
        );
    }
}

#[test]
fn the_spread_of_a_heavy_weight_does_not_cancel() {
    let mut factor = StickFactor::new(2, VAGUE).unwrap();
    factor.update_sticks(&[1e15, 1e15]);
    let sd = factor.weight_sd();
    assert!((sd[0] * (8e15_f64).sqrt() - 1.0).abs() < 1e-12, "{sd:?}");
}

#[test]
fn numbers_of_dominant_weights_add_up() {
    let mut factor = StickFactor::new(6, VAGUE).unwrap();
    factor.update_sticks(&[500.0, 300.0, 200.0, 0.0, 0.0, 0.0]);
    let mut rng = rng(5);
    let from_q = dominant_count_distribution(6, 0.05, 500, |w| factor.sample_weights(w, &mut rng));
    assert_eq!((from_q.len(), from_q[3]), (7, 1.0));
    let from_prior =
        dominant_count_distribution(6, 0.05, 500, |w| factor.sample_prior_weights(w, &mut rng));
    assert!(
        (from_prior.iter().sum::<f64>() - 1.0).abs() < 1e-12
            && from_prior[1] > 0.3
            && from_prior[3] < 0.5
    );
}

#[test]
fn bad_parameters_are_named() {
    assert_eq!(
        StickFactor::new(0, VAGUE).unwrap_err().to_string(),
        "Dirichlet process: truncation = 0: must be at least 1"
    );
    let err = StickFactor::new(
        3,
        GammaPrior {
            shape: 1.0,
            rate: f64::NAN,
        },
    )
    .unwrap_err();
    assert_eq!(err.to_string(), "gamma: rate = NaN: must be finite and > 0");
}

#[test]
fn a_decoded_factor_is_checked() {
    let mut factor = StickFactor::new(3, VAGUE).unwrap();
    factor.update_sticks(&[1.0, 2.0, 0.1]);
    let text = serde_json::to_string(&factor).unwrap();
    assert_eq!(serde_json::from_str::<StickFactor>(&text).unwrap(), factor);
    let forged = text.replace("[2.0,", "[-2.0,");
    assert_ne!(forged, text);
    assert!(
        serde_json::from_str::<StickFactor>(&forged)
            .unwrap_err()
            .to_string()
            .contains("v_h1 = -2")
    );
}
