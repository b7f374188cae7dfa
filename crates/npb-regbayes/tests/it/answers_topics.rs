//! Each answer of topics and each of their settings, beside its value found in another way.

use npb_data::{Rating, Ratings};
use npb_infer::{Stop, VbLimits, stream};
use npb_priors::special::{digamma, ln_gamma};
use npb_regbayes::topics::fit;
use npb_regbayes::{
    Inputs, Machine, MachineLimits, MedLdaConfig, MedLdaFit, Problem, Response, Saved, Slack,
    Supervision, Targets,
};
use rand::RngExt;

const WORDS: usize = 12;
const DOCS: usize = 18;

#[track_caller]
fn within(found: f64, expected: f64, most: f64, what: &str) {
    let off = (found - expected).abs();
    assert!(
        off <= most * expected.abs().max(1.0),
        "{what}: {found} for {expected}"
    );
}

/// Documents of three kinds of words, the sixth of them empty; nobody has word 7.
fn documents(seed: u64) -> Ratings {
    let rng = &mut stream(seed, [0; 4]);
    let mut entries = Vec::new();
    for row in 0..DOCS as u32 {
        for column in 0..WORDS as u32 {
            let rate = if column % 3 == row % 3 { 0.9 } else { 0.25 };
            let (here, many): (f64, u32) = (rng.random(), rng.random_range(1..5));
            if row != 5 && column != 7 && here < rate {
                let value = f64::from(many);
                entries.push(Rating { row, column, value });
            }
        }
    }
    Ratings::new(DOCS, WORDS, &entries).unwrap()
}

fn lengths(documents: &Ratings) -> Vec<f64> {
    let of = |n: usize| documents.row(n).1.iter().sum();
    (0..documents.n_rows()).map(of).collect()
}

/// At rest, the machine solved well.
fn config(topics: usize) -> MedLdaConfig {
    MedLdaConfig {
        seed: 5,
        topics,
        alpha: 0.4,
        learn_alpha: false,
        word_prior: 0.3,
        inner_iterations: 60,
        inner_tolerance: 1e-12,
        limits: VbLimits {
            max_iterations: 600,
            tolerance: 1e-13,
        },
        machine: MachineLimits {
            tolerance: 1e-9,
            max_passes: 100_000,
        },
        ..MedLdaConfig::default()
    }
}

/// One topic: its words are counts and prior, and minus the objective is the evidence of a Dirichlet and a multinomial law, to its constant.
#[test]
fn one_topic_has_the_counts_and_the_evidence_of_its_words() {
    let documents = documents(1);
    let mut counts = [0.0; WORDS];
    documents
        .iter()
        .for_each(|e| counts[e.column as usize] += e.value);
    let total: f64 = counts.iter().sum();
    for word_prior in [0.3, 2.5] {
        let config = MedLdaConfig {
            word_prior,
            ..config(1)
        };
        let fit = fit(&documents, Response::None, &config).unwrap();
        let words = fit.top_words(0, 99).unwrap();
        assert_eq!(words.len(), WORDS);
        for found in &words {
            let p = (counts[found.word] + word_prior) / (total + 12.0 * word_prior);
            within(found.probability, p, 1e-12, "word");
        }
        assert!(words.is_sorted_by(|a, b| a.probability >= b.probability));
        assert_eq!(fit.top_words(0, 3).unwrap(), words[..3]);
        let each = counts
            .iter()
            .map(|c| ln_gamma(word_prior + c) - ln_gamma(word_prior));
        let evidence =
            ln_gamma(12.0 * word_prior) - ln_gamma(12.0 * word_prior + total) + each.sum::<f64>();
        let found = fit.trace().last().unwrap().elbo;
        within(found, evidence, 1e-10, "evidence");
        assert_eq!(fit.training_shares(), [1.0; DOCS]);
    }
}

/// Parameters of the topics, from what is said of their words and of the shares.
fn topics(fit: &MedLdaFit, documents: &Ratings) -> Vec<Vec<f64>> {
    let (k, lengths) = (fit.n_topics(), lengths(documents));
    let of = |topic: usize| {
        let shares = fit.training_shares();
        let tokens: f64 = (0..DOCS).map(|n| lengths[n] * shares[n * k + topic]).sum();
        let total = tokens + fit.config().word_prior * WORDS as f64;
        let mut own = vec![0.0; WORDS];
        for word in fit.top_words(topic, WORDS).unwrap() {
            own[word.word] = word.probability * total;
        }
        own
    };
    (0..k).map(of).collect()
}

/// Shares of topics in a document, by the equations of the proportions and of the tokens in turn.
fn shares(topics: &[Vec<f64>], alpha: f64, words: &[(usize, f64)]) -> Vec<f64> {
    let k = topics.len();
    let length: f64 = words.iter().map(|w| w.1).sum();
    let mut gamma = vec![alpha + length / k as f64; k];
    for _ in 0..5000 {
        let mut next = vec![alpha; k];
        for &(word, count) in words {
            let of = |t: usize| {
                let own: f64 = topics[t].iter().sum();
                (digamma(gamma[t]) + digamma(topics[t][word]) - digamma(own)).exp()
            };
            let phi: Vec<f64> = (0..k).map(of).collect();
            let sum: f64 = phi.iter().sum();
            (0..k).for_each(|t| next[t] += count * phi[t] / sum);
        }
        gamma = next;
    }
    gamma.iter().map(|g| (g - alpha) / length).collect()
}

/// New documents have the shares that rest under the topics; words that nobody has are left out. Parts of words in topics are those of the documents' tokens.
#[test]
fn new_documents_have_the_shares_that_rest() {
    let train = documents(2);
    let fitted = fit(&train, Response::None, &config(3)).unwrap();
    assert_eq!(fitted.alpha(), 0.4);
    let topics = topics(&fitted, &train);
    let counts: f64 = train
        .iter()
        .filter(|e| e.column == 2)
        .map(|e| e.value)
        .sum();
    let sum: f64 = topics.iter().map(|t| t[2]).sum();
    within(sum, counts + 3.0 * 0.3, 1e-6, "tokens of a word");
    let new = documents(3);
    let unknown = Rating {
        row: 1,
        column: 7,
        value: 9.0,
    };
    let entries: Vec<Rating> = new.iter().chain([unknown]).collect();
    let asked = Ratings::new(DOCS, WORDS, &entries).unwrap();
    let found = fitted.shares(&asked).unwrap();
    for n in 0..DOCS {
        let (words, counts) = new.row(n);
        let words: Vec<(usize, f64)> = words
            .iter()
            .zip(counts)
            .map(|(&w, &c)| (w as usize, c))
            .collect();
        let expected = match words.is_empty() {
            true => vec![1.0 / 3.0; 3],
            false => shares(&topics, 0.4, &words),
        };
        for (found, expected) in found[n * 3..][..3].iter().zip(&expected) {
            within(*found, *expected, 1e-3, &format!("document {n}"));
        }
    }
}

/// A prior of proportions that is learned is where the objective is lowest in it.
#[test]
fn a_learned_prior_of_proportions_is_the_best() {
    let documents = documents(4);
    let config = MedLdaConfig {
        learn_alpha: true,
        ..config(3)
    };
    let fit = fit(&documents, Response::None, &config).unwrap();
    let alpha = fit.alpha();
    assert!((alpha - 0.4).abs() > 0.02, "{alpha}");
    let (mut ln_theta, mut filled) = (0.0, 0.0);
    for (n, length) in lengths(&documents).into_iter().enumerate() {
        if length > 0.0 {
            let gamma = [0, 1, 2].map(|k| alpha + length * fit.training_shares()[n * 3 + k]);
            let total = digamma(gamma.iter().sum());
            ln_theta += gamma.iter().map(|&g| digamma(g) - total).sum::<f64>();
            filled += 1.0;
        }
    }
    let value = |a: f64| filled * (ln_gamma(3.0 * a) - 3.0 * ln_gamma(a)) + a * ln_theta;
    for factor in [0.5, 0.95, 1.05, 2.0] {
        assert!(value(alpha) > value(factor * alpha), "{alpha} {factor}");
    }
}

/// Numbers of the documents, and their classes.
fn responses() -> (Vec<f64>, Vec<u32>) {
    let number = |n: usize| 50.0 + 8.0 * (n % 3) as f64 + (n as f64 * 1.3).sin();
    (
        (0..DOCS).map(number).collect(),
        (0..DOCS).map(|n| (n % 3) as u32).collect(),
    )
}

/// The machine on some shares: weights, one score after the other. Empty documents cost nothing.
fn machine(shares: &[f64], k: usize, costs: &[f64], targets: Targets<'_>) -> Vec<f64> {
    let machine = Machine::new(Inputs::dense(shares, k).unwrap());
    let limits = MachineLimits {
        tolerance: 1e-10,
        max_passes: 100_000,
    };
    let problem = Problem { targets, costs };
    machine.solve(&problem, None, &limits).unwrap().weights
}

/// Coefficients are those of the machine on the shares: by cost, slack, band and margin; numbers in their units, those of documents with words.
#[test]
fn coefficients_are_those_of_a_machine_on_the_shares() {
    let documents = documents(5);
    let (numbers, classes) = responses();
    let filled: Vec<usize> = (0..DOCS).filter(|&n| n != 5).collect();
    let known: Vec<f64> = filled.iter().map(|&n| numbers[n]).collect();
    let centre = known.iter().sum::<f64>() / 17.0;
    let square: f64 = known.iter().map(|y| (y - centre).powi(2)).sum();
    let scale = (square / 17.0).sqrt();
    let standard: Vec<f64> = numbers.iter().map(|y| (y - centre) / scale).collect();
    for (slack, cost) in [(Slack::Linear, 0.6), (Slack::Squared, 3.0)] {
        let config = MedLdaConfig {
            slack,
            cost,
            epsilon: 0.35,
            margin: 1.7,
            ..config(3)
        };
        let costs: Vec<f64> = (0..DOCS).map(|n| if n == 5 { 0.0 } else { cost }).collect();
        let fitted = fit(&documents, Response::Real(&numbers), &config).unwrap();
        let targets = Targets::Real {
            values: &standard,
            epsilon: 0.35,
            slack,
        };
        let weights = machine(fitted.training_shares(), 3, &costs, targets);
        assert_eq!(fitted.n_scores(), 1);
        within(fitted.centre(), centre, 1e-12, "centre");
        for (found, w) in fitted.coefficients().iter().zip(&weights) {
            within(*found, scale * w, 1e-3, "coefficient");
        }
        let new = self::documents(6);
        let shares = fitted.shares(&new).unwrap();
        for (n, found) in fitted.predict(&new).unwrap().into_iter().enumerate() {
            let own = fitted.coefficients();
            let sum: f64 = (0..3).map(|k| shares[n * 3 + k] * own[k]).sum();
            within(found, centre + sum, 1e-9, "number");
        }
        let response = Response::Classes {
            classes: &classes,
            n_classes: 4,
        };
        let fitted = fit(&documents, response, &config).unwrap();
        let targets = Targets::Classes {
            classes: &classes,
            n_classes: 4,
            margin: 1.7,
            slack,
        };
        let weights = machine(fitted.training_shares(), 3, &costs, targets);
        assert_eq!((fitted.n_scores(), fitted.centre()), (4, 0.0));
        for (found, w) in fitted.coefficients().iter().zip(&weights) {
            within(*found, *w, 1e-3, "coefficient of a class");
        }
        let shares = fitted.shares(&new).unwrap();
        let scores = fitted.predict(&new).unwrap();
        let chosen = fitted.predict_classes(&new).unwrap();
        for n in 0..DOCS {
            let own = fitted.coefficients();
            for y in 0..4 {
                let sum: f64 = (0..3).map(|k| shares[n * 3 + k] * own[y * 3 + k]).sum();
                within(scores[n * 4 + y], sum, 1e-9, "score");
            }
            let row = &scores[n * 4..][..4];
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert_eq!(
                row.iter().position(|s| *s == most),
                Some(chosen[n] as usize)
            );
        }
    }
    // Nothing costs anything: all scores are equal, the first class is the answer.
    let nothing = MedLdaConfig {
        cost: 0.0,
        ..config(3)
    };
    let response = Response::Classes {
        classes: &classes,
        n_classes: 4,
    };
    let fitted = fit(&documents, response, &nothing).unwrap();
    assert_eq!(fitted.predict_classes(&documents).unwrap(), [0; DOCS]);
}

/// In two stages topics are those of the words alone, and the machine is on their shares.
#[test]
fn two_stages_are_topics_of_words_and_a_machine() {
    let documents = documents(7);
    let (numbers, _) = responses();
    let words = fit(&documents, Response::None, &config(3)).unwrap();
    let two_stage = MedLdaConfig {
        supervision: Supervision::TwoStage,
        cost: 2.0,
        ..config(3)
    };
    let fitted = fit(&documents, Response::Real(&numbers), &two_stage).unwrap();
    assert_eq!(fitted.training_shares(), words.training_shares());
    assert_eq!(
        fitted.top_words(1, WORDS).unwrap(),
        words.top_words(1, WORDS).unwrap()
    );
    assert_eq!((words.n_scores(), fitted.n_scores()), (0, 1));
    let known: Vec<f64> = (0..DOCS).filter(|&n| n != 5).map(|n| numbers[n]).collect();
    let centre = known.iter().sum::<f64>() / 17.0;
    let square: f64 = known.iter().map(|y| (y - centre).powi(2)).sum();
    let scale = (square / 17.0).sqrt();
    let standard: Vec<f64> = numbers.iter().map(|y| (y - centre) / scale).collect();
    let costs: Vec<f64> = (0..DOCS).map(|n| if n == 5 { 0.0 } else { 2.0 }).collect();
    let targets = Targets::Real {
        values: &standard,
        epsilon: 0.1,
        slack: Slack::Linear,
    };
    let weights = machine(fitted.training_shares(), 3, &costs, targets);
    for (found, w) in fitted.coefficients().iter().zip(&weights) {
        within(*found, scale * w, 1e-3, "coefficient");
    }
    let joint = MedLdaConfig {
        supervision: Supervision::Joint,
        ..two_stage
    };
    let joint = fit(&documents, Response::Real(&numbers), &joint).unwrap();
    assert_ne!(joint.training_shares(), words.training_shares());
}

#[test]
fn runs_end_at_their_limits_and_say_what_they_were_given() {
    let documents = documents(8);
    let limits = |max_iterations: u64, tolerance: f64| VbLimits {
        max_iterations,
        tolerance,
    };
    let few = MedLdaConfig {
        limits: limits(4, 0.0),
        ..config(3)
    };
    let fitted = fit(&documents, Response::None, &few).unwrap();
    let fitted = MedLdaFit::from_bytes(&fitted.to_bytes().unwrap()).unwrap();
    assert_eq!(fitted.config(), &few);
    assert_eq!(
        (fitted.stop(), fitted.trace().len()),
        (Stop::MaxIterations, 4)
    );
    assert_eq!((fitted.n_topics(), fitted.n_words()), (3, WORDS));
    assert_eq!(fitted.training_shares().len(), DOCS * 3);
    let tolerant = MedLdaConfig {
        limits: limits(500, 1e-4),
        ..few
    };
    let ends = fit(&documents, Response::None, &tolerant).unwrap();
    assert!(matches!(ends.stop(), Stop::Converged { .. }));
    let trace = ends.trace();
    assert_eq!(&trace[..4], fitted.trace());
    let change = |at: usize| (trace[at].elbo - trace[at - 1].elbo).abs() / trace[at].elbo.abs();
    let twice = |at: usize| change(at) < 1e-4 && change(at - 1) < 1e-4;
    let last = trace.len() - 1;
    assert!(twice(last) && !(2..last).any(twice));
    let other = MedLdaConfig { seed: 6, ..few };
    let other = fit(&documents, Response::None, &other).unwrap();
    assert_ne!(other.training_shares(), fitted.training_shares());
}
