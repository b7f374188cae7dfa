//! Seconds of an outer iteration against rows and features, and on data sets.

use npb_data::{Labels, Rating, Ratings, Table};
use npb_infer::{VbLimits, stream};
use npb_priors::dist::Normal;
use npb_regbayes::classes::{IlsvmVb, PreparedClasses};
use npb_regbayes::tasks::{MtIlsvmVb, PreparedTasks};
use npb_regbayes::{
    FeatureConfig, IlsvmConfig, MedLdaConfig, MedLdaVb, MtIlsvmConfig, Response, classes,
};
use rand::RngExt;

use super::data::{Classes, MultiLabel, News};
use super::labels::OURS;
use super::recovery::ILSVM;
use npb_kit::processor::seconds_of;
use npb_kit::tables::{Target, find, overview, targets};
use npb_kit::{
    Context, Experiment, Outcome, Panel, Point, Report, Result, Scale, Series, Trial, lines,
    summarise,
};

pub(super) const SCALING: Experiment = Experiment {
    id: "regbayes/scaling",
    what: "simulated: seconds of one outer iteration of iLSVM against rows (K = 20) and features (500 rows), of MedLDA against documents; no data",
    paper: "not in the paper",
    data: &[],
    run,
};

const COLUMNS: usize = 64;
const N_CLASSES: usize = 5;
const ROWS: [usize; 4] = [500, 1000, 2000, 4000];
const FEATURES: [usize; 4] = [20, 40, 80, 160];
/// Iterations beyond the first fit, over which seconds are taken.
const MORE: u64 = 4;

fn drawn(n: usize, seed: u64) -> Result<(Table, Labels)> {
    let rng = &mut stream(seed, [0; 4]);
    let normal = Normal::new(0.0, 1.0)?;
    let loadings: Vec<f64> = (0..10 * COLUMNS).map(|_| normal.sample(rng)).collect();
    let (mut values, mut codes) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let mut row: Vec<f64> = (0..COLUMNS).map(|_| normal.sample(rng)).collect();
        let mut count = 0;
        for feature in loadings.chunks_exact(COLUMNS) {
            if rng.random::<f64>() < 0.3 {
                row.iter_mut().zip(feature).for_each(|(x, w)| *x += 2.0 * w);
                count += 1;
            }
        }
        values.extend(row);
        codes.push(Some(count % N_CLASSES));
    }
    let names = (0..N_CLASSES).map(|c| c.to_string()).collect();
    Ok((
        Table::complete(n, COLUMNS, values)?,
        Labels::from_codes(names, codes)?,
    ))
}

/// Seconds of an iteration: of a long fit minus a short one, so that the start does not count.
fn seconds(n: usize, k: usize, seed: u64) -> Result<f64> {
    let (table, labels) = drawn(n, seed)?;
    let default = IlsvmConfig::default();
    let time = |iterations: u64| -> Result<f64> {
        let config = IlsvmConfig {
            seed,
            limits: VbLimits {
                max_iterations: iterations,
                tolerance: 0.0,
            },
            factors: FeatureConfig {
                truncation: k,
                growth: 0,
                warm_up: 1,
                ..default.factors
            },
            ..default.clone()
        };
        let (seconds, fitted) = seconds_of(|| classes::fit(&table, &labels, &config));
        fitted?;
        Ok(seconds)
    };
    let short = time(1)?;
    Ok((time(1 + MORE)? - short).max(0.0) / MORE as f64)
}

const WORDS: u32 = 2000;
const WORDS_OF_A_DOCUMENT: u32 = 60;

/// Seconds of an iteration of MedLDA (K = 20, five classes) on documents of words that become rare as Zipf has it, after a first one.
fn seconds_of_documents(n: usize, seed: u64) -> Result<f64> {
    let rng = &mut stream(seed, [0, 0, 0, 1]);
    let (mut entries, mut classes) = (Vec::new(), Vec::new());
    for row in 0..n as u32 {
        let class = row % N_CLASSES as u32;
        let mut words: Vec<u32> = (0..WORDS_OF_A_DOCUMENT)
            .map(|_| f64::from(WORDS).powf(rng.random::<f64>()) as u32 - 1)
            .map(|word| (word + 7 * class) % WORDS)
            .collect();
        words.sort_unstable();
        words.dedup();
        let entry = |column| Rating {
            row,
            column,
            value: 1.0,
        };
        entries.extend(words.into_iter().map(entry));
        classes.push(class);
    }
    let documents = Ratings::new(n, WORDS as usize, &entries)?;
    let response = Response::Classes {
        classes: &classes,
        n_classes: N_CLASSES,
    };
    let config = MedLdaConfig {
        seed,
        ..MedLdaConfig::default()
    };
    let mut run = MedLdaVb::new(&documents, response, &config)?;
    run.step()?;
    let steps = timed(|| Ok(run.step().map(|_| ())?))?;
    Ok(steps.iter().sum::<f64>() / steps.len() as f64)
}

fn run(context: &Context<'_>) -> Result<Report> {
    let (rows, features): (&[usize], &[usize]) = match context.scale {
        Scale::Smoke => (&ROWS[..1], &FEATURES[..1]),
        Scale::Quick => (&ROWS, &FEATURES),
        Scale::Paper => (&ROWS, &FEATURES),
    };
    let by_rows = rows.iter().map(|&n| (n, FEATURES[0], format!("rows={n}")));
    let by_features = features.iter().map(|&k| (ROWS[0], k, format!("k={k}")));
    let by_documents = rows.iter().map(|&n| (n, 0, format!("documents={n}")));
    let trials: Vec<Trial<(usize, usize)>> = by_rows
        .chain(by_features)
        .chain(by_documents)
        .map(|(n, k, setting)| Trial {
            dataset: "simulated".to_owned(),
            setting,
            method: if k == 0 { MEDLDA } else { ILSVM }.to_owned(),
            trial: 0,
            config: format!("{MORE}\n{:?}", IlsvmConfig::default()),
            work: (n, k),
        })
        .collect();
    let records = context.run_trials(&trials, |trial, seed| {
        let (n, k) = trial.work;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
        let one = || match k {
            0 => seconds_of_documents(n, seed),
            k => seconds(n, k, seed),
        };
        let one = pool.install(|| one().map_err(|e| e.to_string()))?;
        Ok(Outcome::metrics([("seconds_per_iteration", one)]))
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    let curve = |key: &str, values: &[usize], method: &str| -> Vec<Point> {
        let point = |&value: &usize| {
            let setting = format!("{key}={value}");
            let row = find(&results, &setting, method, "seconds_per_iteration")?;
            Some(Point {
                x: value as f64,
                y: row.mean,
                sd: None,
            })
        };
        values.iter().filter_map(point).collect()
    };
    let panel = |key: &str, x_label: &str, values: &[usize], method: &str| Panel {
        title: format!("against {x_label}"),
        x_label: x_label.to_owned(),
        y_label: "seconds of one outer iteration".to_owned(),
        series: vec![Series {
            name: method.to_owned(),
            points: curve(key, values, method),
        }],
    };
    let figure = lines(
        "seconds",
        "Seconds of an outer iteration on one thread",
        "Rows: 64 columns, five classes, 20 features. Features: 500 rows. Documents: about 50 words each, 20 topics, five classes.",
        &[
            panel("rows", "rows", rows, ILSVM),
            panel("k", "features", features, ILSVM),
            panel("documents", "documents", rows, MEDLDA),
        ],
    )?;
    Ok(Report {
        tables: vec![overview("Scaling", &results, &["seconds_per_iteration"])],
        results,
        figures: vec![figure],
        notes: vec!["Seconds of the processor, one thread.".to_owned()],
    })
}

const MEDLDA: &str = "npb:medlda";

pub(super) const SPEED: Experiment = Experiment {
    id: "regbayes/speed",
    what: "seconds of the processor on one thread: an outer iteration on scene (MT-iLSVM, K = 100) and usps (iLSVM, K = 100, all rows), one update of all documents of \
           20newsgroups and of the topics (MedLDA, K = 50)",
    paper: "not in the paper",
    data: &["scene", "usps", "20newsgroups"],
    run: speed,
};

/// Data set, method, and the most seconds that are wanted.
const WANTED: [(&str, &str, f64); 3] = [
    ("scene", OURS, 3.0),
    ("usps", ILSVM, 12.0),
    ("20newsgroups", MEDLDA, 6.0),
];

/// Steps of which the mean and the longest are told.
const STEPS: usize = 3;

/// Seconds of each of the first steps.
fn timed(mut step: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let one = |_| {
        let (seconds, done) = seconds_of(&mut step);
        done.map(|()| seconds)
    };
    (0..STEPS).map(one).collect()
}

fn seconds_of_steps(context: &Context<'_>, dataset: &str, seed: u64) -> Result<Vec<f64>> {
    let k = if context.scale == Scale::Smoke {
        8
    } else {
        100
    };
    let factors = |factors| FeatureConfig {
        truncation: k,
        growth: 0,
        ..factors
    };
    match dataset {
        "scene" => {
            let set = MultiLabel::load(context, "scene")?;
            let config = MtIlsvmConfig {
                seed,
                cost: 0.01,
                factors: factors(MtIlsvmConfig::default().factors),
                ..MtIlsvmConfig::default()
            };
            let data = set.tasks()?;
            let prepared = PreparedTasks::new(&data, &config)?;
            let mut run = MtIlsvmVb::new(&prepared, &data, &config)?;
            timed(|| Ok(run.step().map(|_| ())?))
        }
        "usps" => {
            let set = Classes::load(context, "usps")?;
            let config = IlsvmConfig {
                seed,
                factors: factors(IlsvmConfig::default().factors),
                ..IlsvmConfig::default()
            };
            let rows: Vec<usize> = (0..set.codes.len()).collect();
            let labels = set.labels(&rows, set.splits[0].train.len())?;
            let prepared = PreparedClasses::new(&set.inputs, &labels, &config)?;
            let mut run = IlsvmVb::new(&prepared, &labels, &config)?;
            timed(|| Ok(run.step().map(|_| ())?))
        }
        _ => {
            let news = News::load(context, None, 10)?;
            let classes: Vec<u32> = news.train_codes.iter().map(|&c| c as u32).collect();
            let n_classes = news.groups.len();
            let response = Response::Classes {
                classes: &classes,
                n_classes,
            };
            let config = MedLdaConfig {
                seed,
                topics: k / 2,
                inner_iterations: 1,
                ..MedLdaConfig::default()
            };
            let mut run = MedLdaVb::new(&news.train, response, &config)?;
            timed(|| Ok(run.step().map(|_| ())?))
        }
    }
}

fn speed(context: &Context<'_>) -> Result<Report> {
    let trials: Vec<Trial<()>> = WANTED
        .iter()
        .map(|(dataset, method, _)| Trial {
            dataset: (*dataset).to_owned(),
            setting: String::new(),
            method: (*method).to_owned(),
            trial: 0,
            config: String::new(),
            work: (),
        })
        .collect();
    let records = context.run_trials(&trials, |trial, seed| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
        let steps = || seconds_of_steps(context, &trial.dataset, seed).map_err(|e| e.to_string());
        let steps = pool.install(steps)?;
        let mean = steps.iter().sum::<f64>() / steps.len() as f64;
        let longest = steps.iter().copied().fold(0.0, f64::max);
        Ok(Outcome::metrics([
            ("seconds_per_iteration", mean),
            ("longest", longest),
        ]))
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    let wanted = WANTED.iter().map(|(dataset, method, most)| {
        let own = results.iter().find(|r| {
            r.dataset == *dataset && r.method == *method && r.metric == "seconds_per_iteration"
        });
        let what = format!("{dataset}: seconds of an iteration");
        Target::at_most(&what, own, *most)
    });
    Ok(Report {
        tables: vec![
            overview("Speed", &results, &["seconds_per_iteration", "longest"]),
            targets(&wanted.collect::<Vec<_>>()),
        ],
        results,
        figures: Vec::new(),
        notes: vec![format!(
            "Means of the first {STEPS} iterations after the start; seconds of the processor, one thread."
        )],
    })
}
