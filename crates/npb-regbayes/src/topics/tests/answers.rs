//! Updates of documents by their definition, as many as are asked for.

use npb_priors::special::digamma;
use pulp::Arch;

use super::super::corpus::lengths;
use super::super::documents::{Documents, Pass, WordWeights, topic_totals};
use super::{DOCS, K, WORDS, documents, numbers};

/// Tokens and proportions in turn, until so many updates are made or shares change by less than the tolerance.
#[test]
fn proportions_are_updated_as_often_as_asked() {
    let documents = documents(21);
    let lengths = lengths(&documents);
    let topics = numbers(22, WORDS * K, 0.1, 5.0);
    let totals = topic_totals(&topics, K);
    let weights = WordWeights::new(&topics, K, 0.01);
    let start = numbers(23, DOCS * K, 0.5, 6.0);
    let mut ends = Vec::new();
    for (inner_iterations, inner_tolerance) in [(1, 0.0), (3, 0.0), (500, 0.05), (500, 0.0)] {
        let pass = Pass {
            documents: &documents,
            lengths: &lengths,
            weights: &weights,
            alpha: 0.3,
            inner_iterations,
            inner_tolerance,
        };
        let mut state = Documents {
            gamma: start.clone(),
            tilt: vec![0.0; DOCS * K],
            shares: vec![1.0 / K as f64; DOCS * K],
            ..Documents::default()
        };
        state.update(Arch::new(), &pass);
        for n in 0..DOCS {
            let mut gamma = start[n * K..][..K].to_vec();
            let mut shares = vec![1.0 / K as f64; K];
            if lengths[n] == 0.0 {
                gamma.fill(0.3);
            }
            let updates = if lengths[n] > 0.0 {
                inner_iterations
            } else {
                0
            };
            for _ in 0..updates {
                let mut sums = [0.0; K];
                let (words, counts) = documents.row(n);
                for (&word, count) in words.iter().zip(counts) {
                    let of = |k: usize| {
                        let topic = topics[word as usize * K + k];
                        (digamma(gamma[k]) + digamma(topic) - digamma(totals[k])).exp()
                    };
                    let phi: Vec<f64> = (0..K).map(of).collect();
                    let all: f64 = phi.iter().sum();
                    (0..K).for_each(|k| sums[k] += count * phi[k] / all);
                }
                let now: Vec<f64> = sums.iter().map(|s| s / lengths[n]).collect();
                let change: f64 = now.iter().zip(&shares).map(|(a, b)| (a - b).abs()).sum();
                shares = now;
                gamma = sums.iter().map(|s| 0.3 + s).collect();
                if change < inner_tolerance {
                    break;
                }
            }
            for k in 0..K {
                assert!((state.gamma[n * K + k] - gamma[k]).abs() < 1e-9);
                assert!((state.shares[n * K + k] - shares[k]).abs() < 1e-10);
            }
        }
        ends.push(state.shares);
    }
    // Each stops somewhere else.
    assert!(ends.windows(2).all(|w| w[0] != w[1]));
}
