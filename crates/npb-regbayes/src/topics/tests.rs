//! The objective against its definition, and `q(eta)` of the full form against direct perturbation.

mod answers;

use npb_data::{Rating, Ratings};
use npb_infer::stream;
use npb_linalg::{dot, faer::Mat};
use npb_priors::special::{digamma, ln_gamma};
use pulp::Arch;
use rand::RngExt;

use super::config::{Form, MedLdaConfig};
use super::corpus::lengths;
use super::documents::{Documents, Pass, WordWeights, topic_totals};
use super::eta::{Setting, Standard, add_likelihood};

const K: usize = 3;
const WORDS: usize = 11;
const DOCS: usize = 9;

fn documents(seed: u64) -> Ratings {
    let mut rng = stream(seed, [0; 4]);
    let mut entries = Vec::new();
    for row in 0..DOCS as u32 {
        for column in 0..WORDS as u32 {
            // The last document is empty.
            if row + 1 < DOCS as u32 && rng.random::<f64>() < 0.5 {
                let value = f64::from(rng.random_range(1..4_u32));
                entries.push(Rating { row, column, value });
            }
        }
    }
    Ratings::new(DOCS, WORDS, &entries).unwrap()
}

fn numbers(seed: u64, n: usize, from: f64, to: f64) -> Vec<f64> {
    let mut rng = stream(seed, [1; 4]);
    (0..n).map(|_| rng.random_range(from..to)).collect()
}

/// `KL(Dir(a) || Dir(b))`.
fn dirichlet_kl(a: &[f64], b: f64) -> f64 {
    let (total, n) = (a.iter().sum::<f64>(), a.len() as f64);
    let terms = a
        .iter()
        .map(|&a| (a - b) * (digamma(a) - digamma(total)) - ln_gamma(a));
    ln_gamma(total) + terms.sum::<f64>() - ln_gamma(n * b) + n * ln_gamma(b)
}

#[test]
fn the_documents_part_of_the_objective_is_its_definition() {
    let documents = documents(1);
    let lengths = lengths(&documents);
    let topics = numbers(2, WORDS * K, 0.1, 5.0);
    let weights = WordWeights::new(&topics, K, 0.01);
    for inner_iterations in [1, 2, 7] {
        let pass = Pass {
            documents: &documents,
            lengths: &lengths,
            weights: &weights,
            alpha: 0.3,
            inner_iterations,
            inner_tolerance: 0.0,
        };
        let mut state = Documents {
            gamma: numbers(3, DOCS * K, 0.5, 6.0),
            tilt: numbers(4, DOCS * K, -9.0, 9.0),
            shares: vec![0.0; DOCS * K],
            ..Documents::default()
        };
        state.update(Arch::new(), &pass);
        let totals = topic_totals(&topics, K);
        let mut kl = 0.0;
        let mut counts = vec![0.0; WORDS * K];
        for n in 0..DOCS {
            let gamma = &state.gamma[n * K..][..K];
            let total: f64 = gamma.iter().sum();
            kl += dirichlet_kl(gamma, 0.3);
            let mut sums = [0.0; K];
            let (words, values) = documents.row(n);
            for ((&word, &c), position) in words.iter().zip(values).zip(documents.row_positions(n))
            {
                let phi: Vec<f64> = (0..K)
                    .map(|k| state.factors[n * weights.width + k] * weights.word(word as usize)[k])
                    .map(|weight| weight * state.ratios[position] / c)
                    .collect();
                assert!((phi.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                for k in 0..K {
                    let ln_theta = digamma(gamma[k]) - digamma(total);
                    let topic = topics[word as usize * K + k];
                    let ln_beta = digamma(topic) - digamma(totals[k]);
                    kl += c * phi[k] * (phi[k].ln() - ln_theta - ln_beta);
                    counts[word as usize * K + k] += c * phi[k];
                    sums[k] += c * phi[k];
                }
            }
            for (k, sum) in sums.iter().enumerate() {
                let share = if lengths[n] > 0.0 {
                    sum / lengths[n]
                } else {
                    1.0 / K as f64
                };
                assert!((state.shares[n * K + k] - share).abs() < 1e-12);
            }
        }
        assert!((state.kl - kl).abs() < 1e-9 * kl.abs(), "{} {kl}", state.kl);
        for (a, b) in state.word_counts(Arch::new(), &pass).iter().zip(counts) {
            assert!((a - b).abs() < 1e-10, "{a} {b}");
        }
    }
}

/// `sum E[zbar zbar']` from its definition, token by token.
fn second_moments(documents: &Ratings, weights: &WordWeights, state: &Documents) -> Mat<f64> {
    let mut total = Mat::zeros(K, K);
    for n in 0..DOCS {
        let mut tokens: Vec<Vec<f64>> = Vec::new();
        let (words, values) = documents.row(n);
        for ((&word, &c), position) in words.iter().zip(values).zip(documents.row_positions(n)) {
            let phi = (0..K)
                .map(|k| state.factors[n * weights.width + k] * weights.word(word as usize)[k])
                .map(|weight| weight * state.ratios[position] / c);
            let phi: Vec<f64> = phi.collect();
            tokens.extend(std::iter::repeat_n(phi, c as usize));
        }
        let square = (tokens.len() * tokens.len()) as f64;
        for (a, first) in tokens.iter().enumerate() {
            for (b, second) in tokens.iter().enumerate() {
                for i in 0..K {
                    for j in 0..K {
                        let term = match (a == b, i == j) {
                            (true, true) => first[i],
                            (true, false) => 0.0,
                            _ => first[i] * second[j],
                        };
                        total[(i, j)] += term / square;
                    }
                }
            }
        }
    }
    total
}

#[test]
fn coefficients_of_the_full_form_are_the_minimum_and_its_moments_those_of_tokens() {
    let documents = documents(5);
    let lengths = lengths(&documents);
    let weights = WordWeights::new(&numbers(6, WORDS * K, 0.1, 5.0), K, 0.01);
    let pass = Pass {
        documents: &documents,
        lengths: &lengths,
        weights: &weights,
        alpha: 0.3,
        inner_iterations: 3,
        inner_tolerance: 0.0,
    };
    let mut state = Documents {
        gamma: vec![1.0; DOCS * K],
        tilt: vec![0.0; DOCS * K],
        shares: vec![0.0; DOCS * K],
        ..Documents::default()
    };
    state.update(Arch::new(), &pass);
    let mut config = MedLdaConfig {
        topics: K,
        form: Form::Full,
        ..MedLdaConfig::default()
    };
    config.machine.tolerance = 1e-12;
    config.machine.max_passes = 100_000;
    let values = numbers(7, DOCS, -2.0, 2.0);
    let mut costs = vec![1.5; DOCS];
    costs[DOCS - 1] = 0.0;
    let second = state.second_moments(&pass, &costs);
    let direct = second_moments(&documents, &weights, &state);
    assert!((&second - &direct).norm_max() < 1e-12);
    let noise = 0.4;
    let responses = Standard::Real(values.clone());
    let setting = Setting {
        config: &config,
        responses: &responses,
        costs: &costs,
        noise,
    };
    let eta = setting.solve(&state, &second, None).unwrap().unwrap();
    let covariance = eta.covariance.as_ref().unwrap();
    // KL(N(m, S) || N(0, I)) + E (y - eta'z)^2 / (2 delta^2) + ln(2 pi delta^2) / 2 + C loss, term by term.
    let objective = |mean: &[f64], covariance: &Mat<f64>| {
        let factor = npb_linalg::Cholesky::new(covariance.as_ref()).unwrap();
        let trace: f64 = (0..K).map(|k| covariance[(k, k)]).sum();
        let kl = 0.5 * (trace + dot(mean, mean) - K as f64 - factor.ln_det());
        let mut expected_square = 0.0;
        for i in 0..K {
            for j in 0..K {
                expected_square += (covariance[(i, j)] + mean[i] * mean[j]) * direct[(i, j)];
            }
        }
        let mut losses = 0.0;
        for n in 0..DOCS - 1 {
            let fitted = dot(mean, &state.shares[n * K..][..K]);
            expected_square += values[n] * (values[n] - 2.0 * fitted);
            losses += 1.5 * ((values[n] - fitted).abs() - config.epsilon).max(0.0);
            losses += 0.5 * (2.0 * std::f64::consts::PI * noise).ln();
        }
        kl + losses + 0.5 * expected_square / noise
    };
    let least = objective(&eta.mean, covariance);
    assert!((least - eta.objective).abs() < 1e-9 * least.abs());
    for k in 0..K {
        for step in [-1e-4, 1e-4] {
            let mut mean = eta.mean.clone();
            mean[k] += step;
            assert!(objective(&mean, covariance) > least);
            let mut wider = covariance.clone();
            wider[(k, k)] *= 1.0 + step;
            assert!(objective(&eta.mean, &wider) > least);
        }
    }
    // The expected square by the points that have the mean and covariance of the coefficients: exact, as it is quadratic in these.
    let root = npb_linalg::Cholesky::new(covariance.as_ref()).unwrap();
    let squares = |eta: &[f64]| -> f64 {
        let product = |i: usize| (0..K).map(|j| direct[(i, j)] * eta[j]).sum::<f64>();
        let fitted = |n: usize| values[n] * dot(eta, &state.shares[n * K..][..K]);
        let quadratic: f64 = (0..K).map(|i| eta[i] * product(i)).sum();
        let linear: f64 = (0..DOCS - 1).map(fitted).sum();
        dot(&values[..DOCS - 1], &values[..DOCS - 1]) - 2.0 * linear + quadratic
    };
    let point = |at: usize, sign: f64| {
        let step = |i: usize| sign * (K as f64).sqrt() * root.l()[(i, at)];
        let eta: Vec<f64> = (0..K).map(|i| eta.mean[i] + step(i)).collect();
        squares(&eta) / (2.0 * K as f64)
    };
    let expected: f64 = (0..K).map(|at| point(at, 1.0) + point(at, -1.0)).sum();
    assert!((eta.squares.0 - expected).abs() < 1e-9 * expected);
    assert_eq!(eta.squares.1, (DOCS - 1) as f64);
    let (best, gain) = eta.best_noise(noise);
    let cost = |noise: f64| {
        let (squares, n) = eta.squares;
        0.5 * (n * noise.ln() + squares / noise)
    };
    assert!((cost(noise) - gain - cost(best)).abs() < 1e-12 && gain >= 0.0);
    assert!(cost(best) < cost(best * 1.01) && cost(best) < cost(best * 0.99));
}

/// What the likelihood of a response asks of a document: minus the slope of its expected square in each token's own topic shares, times the tokens, the mean over
/// tokens; by differences of the definition.
#[test]
fn the_tilt_of_the_full_form_is_the_slope_of_the_expected_square() {
    let tokens = [
        [0.6, 0.3, 0.1],
        [0.2, 0.5, 0.3],
        [0.1, 0.1, 0.8],
        [0.4, 0.4, 0.2],
    ];
    let n = tokens.len() as f64;
    let (y, noise, mean) = (0.7, 0.4, vec![0.5, -1.2, 0.9]);
    let covariance = Mat::from_fn(K, K, |i, j| if i == j { 0.6 } else { 0.1 });
    let second = |i: usize, j: usize| covariance[(i, j)] + mean[i] * mean[j];
    let expected_square = |tokens: &[[f64; K]]| {
        let mut total = y * y;
        for (a, first) in tokens.iter().enumerate() {
            total -= 2.0 * y * dot(&mean, first) / n;
            for i in 0..K {
                total += second(i, i) * first[i] / (n * n);
                for (_, other) in tokens.iter().enumerate().filter(|(b, _)| *b != a) {
                    let term = |j: usize| second(i, j) * first[i] * other[j] / (n * n);
                    total += (0..K).map(term).sum::<f64>();
                }
            }
        }
        total
    };
    let slope = |token: usize, topic: usize| {
        let at = |step: f64| {
            let mut moved = tokens;
            moved[token][topic] += step;
            expected_square(&moved)
        };
        (at(1e-4) - at(-1e-4)) / 2e-4
    };
    let shares: Vec<f64> = (0..K)
        .map(|k| tokens.iter().map(|phi| phi[k]).sum::<f64>() / n)
        .collect();
    let mut tilt = vec![0.0; K];
    add_likelihood(&mean, &covariance, y, noise, n, &shares, &mut tilt);
    for (k, tilt) in tilt.iter().enumerate() {
        let slopes: f64 = (0..tokens.len()).map(|token| slope(token, k)).sum();
        let asked = -0.5 * slopes / noise;
        assert!((tilt - asked).abs() < 1e-8, "topic {k}: {tilt} {asked}");
    }
}
