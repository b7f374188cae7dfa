//! MedLDA: recovery, the objective, bits, files, bad input.

use std::ops::ControlFlow;

use npb_data::splits::k_fold;
use npb_data::{Rating, Ratings};
use npb_infer::checkpoint::Every;
use npb_infer::testing::attack_file;
use npb_infer::{Stop, Watch, stream};
use npb_regbayes::topics::{cross_validate, fit, fit_watched};
use npb_regbayes::{Form, MedLdaConfig, MedLdaFit, MedLdaVb, Response, Saved, Slack, Supervision};
use rand::RngExt;

/// Documents of which some words are of two topics in a share that the response is made of, and most of two others in another share.
struct Corpus {
    documents: Ratings,
    responses: Vec<f64>,
    classes: Vec<u32>,
}

const WORDS: usize = 80;

/// Share of the tokens that know of the response.
const SIGNAL: f64 = 0.4;

fn corpus(n_docs: usize, tokens: usize, seed: u64) -> Corpus {
    let mut rng = stream(seed, [9; 4]);
    let mut entries = Vec::new();
    let mut responses = Vec::new();
    for row in 0..n_docs {
        let mut counts = [0.0; WORDS];
        let share: f64 = rng.random();
        let nuisance: f64 = rng.random();
        for _ in 0..tokens {
            let topic = match rng.random::<f64>() {
                u if u < SIGNAL * share => 0,
                u if u < SIGNAL => 1,
                u if u < SIGNAL + (1.0 - SIGNAL) * nuisance => 2,
                _ => 3,
            };
            counts[topic * 20 + rng.random_range(0..20_usize)] += 1.0;
        }
        for (column, &value) in counts.iter().enumerate().filter(|(_, c)| **c > 0.0) {
            entries.push(Rating {
                row: row as u32,
                column: column as u32,
                value,
            });
        }
        responses.push(5.0 + 2.0 * share);
    }
    Corpus {
        documents: Ratings::new(n_docs, WORDS, &entries).unwrap(),
        classes: responses.iter().map(|&y| u32::from(y > 6.0)).collect(),
        responses,
    }
}

impl Corpus {
    fn real(&self) -> Response<'_> {
        Response::Real(&self.responses)
    }

    fn binary(&self) -> Response<'_> {
        Response::Classes {
            classes: &self.classes,
            n_classes: 2,
        }
    }
}

fn config(topics: usize) -> MedLdaConfig {
    MedLdaConfig {
        topics,
        seed: 3,
        ..MedLdaConfig::default()
    }
}

fn r2(predicted: &[f64], truth: &[f64]) -> f64 {
    let mean = truth.iter().sum::<f64>() / truth.len() as f64;
    let squares = |f: &dyn Fn(usize) -> f64| (0..truth.len()).map(|n| f(n) * f(n)).sum::<f64>();
    1.0 - squares(&|n| truth[n] - predicted[n]) / squares(&|n| truth[n] - mean)
}

/// Two topics do not hold all four: words alone spend them on what is frequent, responses on what predicts.
#[test]
fn topics_that_responses_help_to_find_predict_better_than_topics_of_the_words() {
    let (train, test) = (corpus(300, 60, 1), corpus(300, 60, 2));
    let run = |form, supervision| {
        let config = MedLdaConfig {
            form,
            supervision,
            cost: 2.0,
            ..config(2)
        };
        let fit = fit(&train.documents, train.real(), &config).unwrap();
        r2(&fit.predict(&test.documents).unwrap(), &test.responses)
    };
    let two_stage = run(Form::Partial, Supervision::TwoStage);
    let partial = run(Form::Partial, Supervision::Joint);
    let full = run(Form::Full, Supervision::Joint);
    assert!(two_stage < 0.1, "{two_stage}");
    assert!(partial > 0.85 && full > 0.85, "{partial} {full}");
    let accuracy = |supervision| {
        let config = MedLdaConfig {
            supervision,
            cost: 2.0,
            ..config(2)
        };
        let fit = fit(&train.documents, train.binary(), &config).unwrap();
        let classes = fit.predict_classes(&test.documents).unwrap();
        npb_data::metrics::accuracy(&classes, &test.classes).unwrap()
    };
    let (joint, two_stage) = (
        accuracy(Supervision::Joint),
        accuracy(Supervision::TwoStage),
    );
    assert!(joint > 0.85 && two_stage < 0.65, "{joint} {two_stage}");
}

#[test]
fn top_words_are_those_of_the_true_topics() {
    let train = corpus(300, 200, 4);
    let config = MedLdaConfig {
        form: Form::Full,
        ..config(2)
    };
    let fit = fit(&train.documents, train.real(), &config).unwrap();
    // The topic with the larger coefficient has the words of true topic 0.
    let best = usize::from(fit.coefficients()[1] > fit.coefficients()[0]);
    let words = fit.top_words(best, 10).unwrap();
    assert!(words.iter().all(|w| w.word < 20), "{words:?}");
    assert!(words.is_sorted_by(|a, b| a.probability >= b.probability));
    let all = fit.top_words(best, WORDS).unwrap();
    assert!((all.iter().map(|w| w.probability).sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(fit.top_words(2, 10).is_err());
}

#[test]
fn the_objective_never_rises() {
    for (seed, topics) in [(1, 1), (2, 2), (3, 5), (4, 12)] {
        let corpus = corpus(40, 20, 10 + seed);
        for response in [Response::None, corpus.real(), corpus.binary()] {
            for (form, slack, cost) in [
                (Form::Partial, Slack::Linear, 1.0),
                (Form::Partial, Slack::Linear, 300.0),
                (Form::Partial, Slack::Squared, 5.0),
                (Form::Full, Slack::Linear, 3.0),
                (Form::Full, Slack::Squared, 30.0),
            ] {
                let config = MedLdaConfig {
                    form,
                    slack,
                    cost,
                    ..config(topics)
                };
                let mut run = MedLdaVb::new(&corpus.documents, response, &config).unwrap();
                let mut last = f64::INFINITY;
                for iteration in 0..25 {
                    let now = run.step().unwrap();
                    let rounding = 1e-11 * last.abs();
                    assert!(
                        now <= last + rounding || iteration == 0,
                        "{config:?} {last} {now}"
                    );
                    last = now;
                }
            }
        }
    }
}

#[test]
fn bits_are_the_same_for_any_number_of_threads() {
    let corpus = corpus(150, 30, 5);
    for form in [Form::Partial, Form::Full] {
        let config = MedLdaConfig { form, ..config(4) };
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let pool = pool.build().unwrap();
            pool.install(|| fit(&corpus.documents, corpus.real(), &config).unwrap())
        };
        let one = with(1).to_bytes().unwrap();
        assert_eq!(one, with(2).to_bytes().unwrap());
        assert_eq!(one, with(4).to_bytes().unwrap());
    }
}

#[test]
fn stopped_fits_go_on_in_the_same_bits() {
    let corpus = corpus(60, 30, 6);
    for (response, form, supervision) in [
        (corpus.real(), Form::Full, Supervision::Joint),
        (corpus.binary(), Form::Partial, Supervision::Joint),
        (corpus.binary(), Form::Partial, Supervision::TwoStage),
    ] {
        let mut config = MedLdaConfig {
            form,
            supervision,
            ..config(3)
        };
        config.limits.max_iterations = 9;
        config.limits.tolerance = 0.0;
        let whole = fit(&corpus.documents, response, &config).unwrap();
        let name = format!("npb-medlda-{}-{form:?}-{supervision:?}", std::process::id());
        let path = std::env::temp_dir().join(name);
        for last in [4, 7] {
            let mut seen = 0;
            let watch = Watch::new(|progress| {
                seen += 1;
                assert!(progress.share > 0.0 && progress.share < 1.0);
                match progress.step == last {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            let watch = watch.with_checkpoint(&path, Every::sweeps(3));
            let part = fit_watched(&corpus.documents, response, &config, &watch).unwrap();
            assert_eq!(part.stop(), Stop::Cancelled);
        }
        let watch = Watch::none().with_checkpoint(&path, Every::sweeps(3));
        let resumed = fit_watched(&corpus.documents, response, &config, &watch).unwrap();
        assert_eq!(resumed.to_bytes().unwrap(), whole.to_bytes().unwrap());
        // Another configuration is another fit.
        let other = MedLdaConfig {
            cost: 2.0,
            ..config
        };
        assert!(fit_watched(&corpus.documents, response, &other, &watch).is_err());
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn saved_fits_come_back_and_hostile_files_do_not() {
    let corpus = corpus(12, 8, 7);
    let config = MedLdaConfig {
        form: Form::Full,
        ..config(2)
    };
    let saved = fit(&corpus.documents, corpus.real(), &config).unwrap();
    let bytes = saved.to_bytes().unwrap();
    assert_eq!(MedLdaFit::from_bytes(&bytes).unwrap(), saved);
    let exercise = |fit: &MedLdaFit| {
        let new = Ratings::new(1, fit.n_words(), &[]).unwrap();
        let _ = fit.predict(&new);
        let _ = fit.top_words(0, 3);
        let _ = (fit.coefficients(), fit.predict_classes(&new).is_ok());
    };
    attack_file(&bytes, 1500, 1, MedLdaFit::from_bytes, exercise).unwrap();
}

#[test]
fn an_empty_document_has_the_prior_shares_and_takes_no_part() {
    let whole = corpus(40, 30, 8);
    let last = 39;
    let entries: Vec<Rating> = whole.documents.iter().filter(|e| e.row != last).collect();
    let documents = Ratings::new(40, WORDS, &entries).unwrap();
    let with = |y: f64| {
        let mut responses = whole.responses.clone();
        responses[last as usize] = y;
        fit(&documents, Response::Real(&responses), &config(3)).unwrap()
    };
    // Whatever is said of it, the rest is the same.
    let (a, b) = (with(0.0), with(1e6));
    assert_eq!(
        (a.coefficients(), a.centre()),
        (b.coefficients(), b.centre())
    );
    let new = Ratings::new(1, WORDS, &[]).unwrap();
    assert_eq!(a.shares(&new).unwrap(), [1.0 / 3.0; 3]);
    let mean = a.coefficients().iter().sum::<f64>() / 3.0;
    assert!((a.predict(&new).unwrap()[0] - a.centre() - mean).abs() < 1e-12);
    // Nor do words that no document of the fit has.
    let entries: Vec<Rating> = whole.documents.iter().filter(|e| e.column != 5).collect();
    let documents = Ratings::new(40, WORDS, &entries).unwrap();
    let fit = fit(&documents, whole.real(), &config(3)).unwrap();
    let unknown = Rating {
        row: 0,
        column: 5,
        value: 7.0,
    };
    let new = Ratings::new(1, WORDS, &[unknown]).unwrap();
    assert_eq!(fit.shares(&new).unwrap(), [1.0 / 3.0; 3]);
}

/// alpha is about documents that say something: as many empty ones beside them leave it where it was.
#[test]
fn empty_documents_have_no_say_in_alpha() {
    let filled = corpus(60, 40, 8);
    let entries: Vec<Rating> = filled.documents.iter().collect();
    let alpha = |rows: usize| {
        let documents = Ratings::new(rows, WORDS, &entries).unwrap();
        let mut responses = filled.responses.clone();
        responses.resize(rows, 0.0);
        let fitted = fit(&documents, Response::Real(&responses), &config(3));
        fitted.unwrap().alpha()
    };
    let (without, with) = (alpha(60), alpha(120));
    assert!((with / without - 1.0).abs() < 0.1, "{without} {with}");
}

#[test]
fn bad_input_is_named_and_odd_input_is_fitted() {
    let corpus = corpus(20, 10, 9);
    let error = |documents: &Ratings, response, config: &MedLdaConfig| {
        let error = fit(documents, response, config).unwrap_err();
        error.to_string()
    };
    let mut entries: Vec<Rating> = corpus.documents.iter().collect();
    let place = (entries[3].row, entries[3].column);
    entries[3].value = -1.0;
    let negative = Ratings::new(20, WORDS, &entries).unwrap();
    let message = error(&negative, Response::None, &config(2));
    let expected = format!("documents, row {}, column {}: -1", place.0, place.1);
    assert!(message.starts_with(&expected), "{message}");
    let mut responses = corpus.responses.clone();
    responses[2] = f64::NAN;
    let message = error(&corpus.documents, Response::Real(&responses), &config(2));
    assert!(message.starts_with("targets, row 2"), "{message}");
    let message = error(
        &corpus.documents,
        Response::Real(&responses[1..]),
        &config(2),
    );
    assert!(message.starts_with("responses: 19"), "{message}");
    let response = Response::Classes {
        classes: &[1; 20],
        n_classes: 1,
    };
    let message = error(&corpus.documents, response, &config(2));
    assert!(message.contains("class 1 does not exist"), "{message}");
    for (field, bad) in [
        (
            "topics",
            MedLdaConfig {
                topics: 0,
                ..config(2)
            },
        ),
        (
            "alpha",
            MedLdaConfig {
                alpha: 0.0,
                ..config(2)
            },
        ),
        (
            "word_prior",
            MedLdaConfig {
                word_prior: f64::NAN,
                ..config(2)
            },
        ),
        (
            "cost",
            MedLdaConfig {
                cost: -1.0,
                ..config(2)
            },
        ),
        (
            "epsilon",
            MedLdaConfig {
                epsilon: f64::INFINITY,
                ..config(2)
            },
        ),
        (
            "margin",
            MedLdaConfig {
                margin: 0.0,
                ..config(2)
            },
        ),
        (
            "inner_iterations",
            MedLdaConfig {
                inner_iterations: 0,
                ..config(2)
            },
        ),
    ] {
        let message = error(&corpus.documents, Response::None, &bad);
        assert!(
            message.starts_with(&format!("config: {field}")),
            "{message}"
        );
    }
    // C = 0 is LDA; responses that are all the same; a class that nobody has; a single topic; no token at all.
    let fitted = |documents: &Ratings, response, config: &MedLdaConfig| {
        let fit = fit(documents, response, config).unwrap();
        let predicted = fit.predict(&corpus.documents).unwrap();
        assert!(predicted.iter().all(|p| p.is_finite()));
        (fit, predicted)
    };
    let nothing = MedLdaConfig {
        cost: 0.0,
        ..config(2)
    };
    let (fit, _) = fitted(&corpus.documents, corpus.real(), &nothing);
    assert!(fit.coefficients().iter().all(|&c| c == 0.0));
    let (_, predicted) = fitted(&corpus.documents, Response::Real(&[4.0; 20]), &config(2));
    assert!(predicted.iter().all(|&p| (p - 4.0).abs() < 1e-9));
    let classes = vec![1; 20];
    let response = Response::Classes {
        classes: &classes,
        n_classes: 3,
    };
    let (fit, _) = fitted(&corpus.documents, response, &config(4));
    assert_eq!(fit.predict_classes(&corpus.documents).unwrap(), classes);
    fitted(&corpus.documents, corpus.binary(), &config(1));
    let empty = Ratings::new(20, WORDS, &[]).unwrap();
    fitted(&empty, corpus.binary(), &config(2));
    let (fit, _) = fitted(&corpus.documents, Response::None, &config(2));
    assert!(fit.predict_classes(&corpus.documents).is_err());
    let narrow = Ratings::new(1, WORDS - 1, &[]).unwrap();
    assert!(fit.predict(&narrow).is_err() && fit.shares(&negative).is_err());
}

#[test]
fn the_cost_is_chosen_by_cross_validation() {
    let corpus = corpus(120, 60, 11);
    let folds = k_fold(120, 3, &mut stream(1, [0; 4])).unwrap();
    let costs = [0.001, 2.0];
    let choose = |response| {
        let watch = Watch::none();
        cross_validate(
            &corpus.documents,
            response,
            &config(2),
            &costs,
            &folds,
            &watch,
        )
    };
    let real = choose(corpus.real()).unwrap();
    assert!(real.cost() == 2.0 && real.means[1] > -0.5, "{real:?}");
    let binary = choose(corpus.binary()).unwrap();
    assert!(binary.cost() == 2.0 && binary.means[1] > 0.7, "{binary:?}");
    assert!(choose(Response::None).is_err());
}
