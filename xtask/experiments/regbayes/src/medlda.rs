//! MedLDA: film reviews with ratings, news groups with classes.

use npb_baselines::{LinearConfig, OneAgainstRest, Ridge, TfIdf};
use npb_data::{Ratings, Split, metrics, splits};
use npb_regbayes::topics::{Form, MedLdaConfig, MedLdaFit, Response, Supervision, fit};

use super::data::{News, RELIGION, Reviews, selected, vocabulary};
use npb_kit::tables::{differences, find, overview};
use npb_kit::{
    Context, Figure, Layer, Outcome, Panel, Record, Report, Result, ResultRow, Scale, Trial, lines,
    summarise,
};

const OURS: &str = "npb:medlda";
const FULL: &str = "npb:medlda/full";
const TWO_STAGE: &str = "lda+svm";
const TF_IDF: &str = "tf-idf+linear";
const TOPICS: [usize; 5] = [5, 10, 20, 40, 80];
const COSTS: [f64; 3] = [1.0, 4.0, 16.0];
/// Topics with which C is chosen.
const TUNED_AT: usize = 10;
const FOLDS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    Topics(Form, Supervision),
    TfIdf,
}

const METHODS: [(Method, &str); 4] = [
    (Method::Topics(Form::Partial, Supervision::Joint), OURS),
    (Method::Topics(Form::Full, Supervision::Joint), FULL),
    (
        Method::Topics(Form::Partial, Supervision::TwoStage),
        TWO_STAGE,
    ),
    (Method::TfIdf, TF_IDF),
];

/// Documents with what is known of them, in training and test.
struct Problem {
    train: Ratings,
    test: Ratings,
    known: Known,
    wanted: Known,
}

enum Known {
    Real(Vec<f64>),
    Classes(Vec<u32>, usize),
}

impl Known {
    fn select(&self, rows: &[usize]) -> Self {
        match self {
            Self::Real(values) => Self::Real(rows.iter().map(|&i| values[i]).collect()),
            Self::Classes(codes, n) => Self::Classes(rows.iter().map(|&i| codes[i]).collect(), *n),
        }
    }

    fn response(&self) -> Response<'_> {
        match self {
            Self::Real(values) => Response::Real(values),
            Self::Classes(classes, n_classes) => Response::Classes {
                classes,
                n_classes: *n_classes,
            },
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Real(values) => values.len(),
            Self::Classes(codes, _) => codes.len(),
        }
    }

    fn metric(&self) -> &'static str {
        match self {
            Self::Real(_) => "r2",
            Self::Classes(..) => "accuracy",
        }
    }
}

impl Problem {
    /// Four fifths of the training documents, and the others in place of the test.
    fn within_training(&self, seed: u64) -> Result<Self> {
        let n = self.known.len();
        let parts = splits::k_fold(n, FOLDS, &mut npb_infer::stream(seed, [0, 0, 0, 5]))?;
        let Split { train, test } = &parts[0];
        let columns: Vec<usize> = (0..self.train.n_cols()).collect();
        Ok(Self {
            train: selected(&self.train, train, &columns)?,
            test: selected(&self.train, test, &columns)?,
            known: self.known.select(train),
            wanted: self.known.select(test),
        })
    }

    fn score(&self, predicted: &Known) -> Result<f64> {
        Ok(match (predicted, &self.wanted) {
            (Known::Real(found), Known::Real(truth)) => {
                metrics::explained_variance(found, truth, &vec![0; truth.len()])?.pooled
            }
            (Known::Classes(found, _), Known::Classes(truth, _)) => {
                metrics::accuracy(found, truth)?
            }
            _ => return Err("predictions of another kind than the truth".into()),
        })
    }

    fn topics(&self, config: &MedLdaConfig) -> Result<(f64, MedLdaFit)> {
        let model = fit(&self.train, self.known.response(), config)?;
        let predicted = match &self.wanted {
            Known::Real(_) => Known::Real(model.predict(&self.test)?),
            Known::Classes(_, n) => Known::Classes(model.predict_classes(&self.test)?, *n),
        };
        Ok((self.score(&predicted)?, model))
    }

    /// Ridge regression or a linear SVM on weights of words.
    fn tf_idf(&self) -> Result<f64> {
        let rarity = TfIdf::fit(&self.train, true);
        let (train, test) = (
            rarity.transform(&self.train)?,
            rarity.transform(&self.test)?,
        );
        let predicted = match &self.known {
            Known::Real(values) => Known::Real(Ridge::fit(&train, values, 1.0)?.predict(&test)?),
            Known::Classes(codes, n) => {
                let codes: Vec<usize> = codes.iter().map(|&c| c as usize).collect();
                let machine = OneAgainstRest::fit(&train, &codes, *n, &LinearConfig::default())?;
                let found = machine.predict(&test)?;
                Known::Classes(found.into_iter().map(|c| c as u32).collect(), *n)
            }
        };
        self.score(&predicted)
    }
}

fn config(
    scale: Scale,
    (form, supervision): (Form, Supervision),
    topics: usize,
    cost: f64,
    seed: u64,
) -> MedLdaConfig {
    let mut config = MedLdaConfig {
        seed,
        topics,
        cost,
        form,
        supervision,
        ..MedLdaConfig::default()
    };
    if scale == Scale::Smoke {
        config.topics = topics.min(4);
        config.limits.max_iterations = 3;
    }
    config
}

/// One part of the experiment: problems (folds, or one with several seeds), and what is asked of them.
struct Part {
    dataset: &'static str,
    /// First key of the setting.
    name: &'static str,
    problems: Vec<Problem>,
    runs: u64,
    topics: Vec<usize>,
    checksums: String,
}

impl Part {
    fn setting(&self, topics: Option<usize>) -> String {
        match topics {
            Some(k) => format!("task={};k={k}", self.name),
            None => format!("task={}", self.name),
        }
    }

    fn metric(&self) -> &'static str {
        self.problems[0].known.metric()
    }

    /// The full form is for real responses.
    fn methods(&self) -> Vec<(Method, &'static str)> {
        let real = self.metric() == "r2";
        let has = |method: &Method| real || !matches!(method, Method::Topics(Form::Full, _));
        METHODS
            .into_iter()
            .filter(|(method, _)| has(method))
            .collect()
    }
}

fn reviews(context: &Context<'_>) -> Result<Part> {
    let data = Reviews::load(context)?;
    let folds = splits::k_fold(
        data.documents.len(),
        FOLDS,
        &mut npb_infer::stream(context.seed, [0, 0, 0, 4]),
    )?;
    let (used, topics) = context.scale.pick(
        (1, &TOPICS[..1]),
        (FOLDS, &TOPICS[..3]),
        (FOLDS, &TOPICS[..]),
    );
    let mut problems = Vec::new();
    for fold in &folds[..used] {
        let (train, known) = data.part(&fold.train);
        let (test, wanted) = data.part(&fold.test);
        let counted = vocabulary(&train)?;
        problems.push(Problem {
            train: counted.count(&train)?,
            test: counted.count(&test)?,
            known: Known::Real(known),
            wanted: Known::Real(wanted),
        });
    }
    Ok(Part {
        dataset: "movie-review",
        name: "rating",
        problems,
        runs: used as u64,
        topics: topics.to_vec(),
        checksums: data.checksums,
    })
}

fn news(context: &Context<'_>, name: &'static str) -> Result<Part> {
    let two = name == "binary";
    let data = News::load(
        context,
        two.then_some(&RELIGION[..]),
        if two { 3 } else { 10 },
    )?;
    let n_classes = data.groups.len();
    let codes =
        |codes: &[usize]| Known::Classes(codes.iter().map(|&c| c as u32).collect(), n_classes);
    let (runs, topics): (u64, &[usize]) = match (context.scale, two) {
        (Scale::Smoke, _) => (1, &TOPICS[..1]),
        (Scale::Quick, true) => (5, &TOPICS[..3]),
        (Scale::Quick, false) => (1, &[20]),
        (Scale::Paper, true) => (5, &TOPICS),
        (Scale::Paper, false) => (3, &[20, 50, 80]),
    };
    Ok(Part {
        dataset: "20newsgroups",
        name,
        problems: vec![Problem {
            train: data.train,
            test: data.test,
            known: codes(&data.train_codes),
            wanted: codes(&data.test_codes),
        }],
        runs,
        topics: topics.to_vec(),
        checksums: data.checksums,
    })
}

struct Work<'a> {
    problem: &'a Problem,
    method: Method,
    topics: usize,
    cost: f64,
}

fn run_one(scale: Scale, work: &Work<'_>, seed: u64) -> Result<Outcome> {
    let metric = work.problem.wanted.metric();
    let Method::Topics(form, supervision) = work.method else {
        return Ok(Outcome::metrics([(metric, work.problem.tf_idf()?)]));
    };
    let config = config(scale, (form, supervision), work.topics, work.cost, seed);
    let (score, model) = work.problem.topics(&config)?;
    let iterations = model.trace().len() as f64;
    Ok(Outcome::metrics([
        (metric, score),
        ("iterations", iterations),
    ]))
}

pub(super) fn run(context: &Context<'_>) -> Result<Report> {
    let parts = [
        reviews(context)?,
        news(context, "binary")?,
        news(context, "all")?,
    ];
    let mut records = Vec::new();
    for part in &parts {
        records.extend(run_part(context, part)?);
    }
    let results = summarise(&records, |_, _, _, _| None);
    let notes = "R2: 1 - squared error / squared distances to the mean of the test ratings. Words of letters in at least 5 documents and at most a quarter of them \
                 (reviews), in at least 3 or 10 training posts and at most a quarter of them (two groups, all). C is chosen on a fifth of the training documents at \
                 10 topics; for all 20 groups it is the default.";
    let metrics = "r2 accuracy iterations seconds";
    Ok(Report {
        tables: vec![
            overview("Test documents", &results, metrics),
            differences(&records, OURS, &[TWO_STAGE], "r2 accuracy"),
        ],
        figures: figures(&parts, &results)?,
        notes: vec![notes.to_owned()],
        results,
    })
}

fn run_part(context: &Context<'_>, part: &Part) -> Result<Vec<Record>> {
    let trial = |(method, label): (Method, &str), k: usize, cost: f64, setting: &str, run: u64| {
        let config = config(
            context.scale,
            (Form::Partial, Supervision::Joint),
            k,
            cost,
            0,
        );
        let config = format!("{}\n{cost}\n{config:?}", part.checksums);
        let work = Work {
            problem: &part.problems[run as usize % part.problems.len()],
            method,
            topics: k,
            cost,
        };
        Trial::new([part.dataset, setting, label], run, config, work)
    };
    let run = |trial: &Trial<Work<'_>>, seed| run_one(context.scale, &trial.work, seed);
    // All 20 groups take long; their C is the default.
    let tuned = part.name != "all" && context.scale != Scale::Smoke;
    let inner = part.problems[0].within_training(context.seed)?;
    let mut tuning = Vec::new();
    if tuned {
        for named in part.methods() {
            if named.0 == Method::TfIdf {
                continue;
            }
            for cost in COSTS {
                let setting = format!("{};tune={cost}", part.setting(Some(TUNED_AT)));
                let mut trial = trial(named, TUNED_AT, cost, &setting, 0);
                trial.work.problem = &inner;
                tuning.push(trial);
            }
        }
    }
    let tuning = context.run_trials(&tuning, run)?;
    let mut finals = Vec::new();
    for named in part.methods() {
        if named.0 == Method::TfIdf {
            let runs = part.problems.len() as u64;
            finals.extend((0..runs).map(|run| trial(named, 0, 1.0, &part.setting(None), run)));
            continue;
        }
        let value = |cost: f64| {
            let ending = format!(";tune={cost}");
            let own = tuning
                .iter()
                .find(|r| r.key.method == named.1 && r.key.setting.ends_with(&ending));
            own.map_or(f64::NEG_INFINITY, |r| r.outcome.metrics[part.metric()])
        };
        let best = COSTS
            .into_iter()
            .max_by(|a, b| value(*a).total_cmp(&value(*b)));
        let cost = if tuned {
            best.unwrap_or(1.0)
        } else {
            MedLdaConfig::default().cost
        };
        for &k in &part.topics {
            finals.extend(
                (0..part.runs).map(|run| trial(named, k, cost, &part.setting(Some(k)), run)),
            );
        }
    }
    context.run_trials(&finals, run)
}

/// One panel for each part with several numbers of topics; no figure without any.
fn figures(parts: &[Part], results: &[ResultRow]) -> Result<Vec<Figure>> {
    let panel = |part: &Part| {
        let series = |(method, label): (Method, &'static str)| {
            let point = |&k: &usize| {
                let topics = Some(k).filter(|_| method != Method::TfIdf);
                let row = find(results, &part.setting(topics), label, part.metric())?;
                Some(row.at(k as f64))
            };
            Layer::line(label, part.topics.iter().filter_map(point))
        };
        let title = format!("{}, {}", part.dataset, part.name);
        let curves = part.methods().into_iter().map(series);
        Panel::of_lines(title, ["topics", part.metric()], curves)
    };
    let panels: Vec<Panel> = parts
        .iter()
        .filter(|part| part.topics.len() > 1)
        .map(panel)
        .collect();
    if panels.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![lines(
        "against-topics",
        "MedLDA and LDA with a machine against the number of topics",
        "Means over folds or seeds; bars are standard deviations; machines on tf-idf are level lines.",
        &panels,
    )?])
}
