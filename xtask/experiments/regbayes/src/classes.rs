//! Table 1 and figures 4 to 6: several classes, on the stand-ins usps and segment.

use std::collections::BTreeMap;

use npb_baselines::{Kernel, LinearConfig, OneAgainstRest, PairwiseSvm, Pca, SvmConfig};
use npb_data::{Split, Table, metrics, splits};
use npb_regbayes::classes::{IlsvmFit, fit};
use npb_regbayes::{FeatureConfig, IlsvmConfig, LabelUpdate};

use super::data::{Classes, standardised};
use super::recovery::ILSVM;
use npb_kit::tables::{distinct, find_in, overview};
use npb_kit::{
    Context, Layer, Outcome, Panel, Point, Record, Report, Result, ResultRow, Scale, TextTable,
    Trial, lines, summarise, text_table,
};

const SETS: [&str; 2] = ["segment", "usps"];
const TWO_STAGE: &str = "ibp+svm";
const PCA: &str = "pca+svm";
const LINEAR: &str = "linear-svm";
const RBF: &str = "rbf-svm";
const FINITE: &str = "finite-latent-svm";
/// Features to start with, and the most, when their number is to be found.
const TRUNCATION: usize = 50;
const MOST: usize = 100;
const FINITE_SIZES: [usize; 4] = [5, 10, 20, 40];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    Ours(LabelUpdate),
    /// iLSVM with a fixed number of features.
    Finite(usize),
    Pca,
    Linear,
    Rbf,
}

impl Method {
    /// What is chosen on left-out training rows: C, or the number of components.
    fn choices(self, scale: Scale, n_columns: usize) -> Vec<f64> {
        let all: Vec<f64> = match self {
            Self::Ours(_) => vec![0.1, 1.0],
            Self::Finite(_) => vec![1.0],
            Self::Pca => [0.1, 0.25, 0.5, 0.75]
                .map(|share| (share * n_columns as f64).ceil())
                .to_vec(),
            Self::Linear => vec![0.001, 0.01, 0.1, 1.0],
            Self::Rbf => vec![1.0, 10.0, 100.0],
        };
        let n = if scale == Scale::Smoke { 1 } else { all.len() };
        all[..n].to_vec()
    }
}

fn config(scale: Scale, method: Method, cost: f64, seed: u64) -> IlsvmConfig {
    let default = IlsvmConfig::default();
    let factors = FeatureConfig {
        truncation: TRUNCATION,
        max_truncation: MOST,
        ..default.factors
    };
    let (label_update, factors) = match method {
        Method::Finite(k) => {
            let (truncation, growth) = (k, 0);
            (
                LabelUpdate::Profiled,
                FeatureConfig {
                    truncation,
                    growth,
                    ..factors
                },
            )
        }
        Method::Ours(update) => (update, factors),
        _ => (LabelUpdate::Profiled, factors),
    };
    let mut config = IlsvmConfig {
        seed,
        cost,
        label_update,
        factors,
        ..default
    };
    config.limits.max_iterations = scale.pick(2, 10, config.limits.max_iterations);
    if scale == Scale::Smoke {
        config.factors.truncation = config.factors.truncation.min(8);
        config.factors.max_truncation = 8;
        config.factors.warm_up = 2;
    }
    config
}

/// Classes that are predicted for the test rows, and by new-row inference if that is another thing; the fit.
struct Predicted {
    joint: Vec<usize>,
    inductive: Option<Vec<usize>>,
    fit: Option<IlsvmFit>,
}

fn predict(
    set: &Classes,
    split: &Split,
    method: Method,
    choice: f64,
    config: &IlsvmConfig,
) -> Result<Predicted> {
    let (train, test) = (
        set.inputs.select_rows(&split.train),
        set.inputs.select_rows(&split.test),
    );
    if let Method::Ours(_) | Method::Finite(_) = method {
        let rows: Vec<usize> = split.train.iter().chain(&split.test).copied().collect();
        let labels = set.labels(&rows, split.train.len())?;
        let model = fit(&set.inputs.select_rows(&rows), &labels, config)?;
        let (joint, inductive) = (model.scores(), model.predict(&test)?);
        let first = split.train.len();
        return Ok(Predicted {
            joint: (0..split.test.len())
                .map(|i| joint.class(first + i))
                .collect(),
            inductive: Some((0..split.test.len()).map(|i| inductive.class(i)).collect()),
            fit: Some(model),
        });
    }
    let codes: Vec<usize> = split.train.iter().map(|&i| set.codes[i]).collect();
    let n_classes = set.names.len();
    let (train, test) = standardised(&train, &test)?;
    let linear = |train: &Table, test: &Table, c: f64| -> Result<Vec<usize>> {
        let config = LinearConfig {
            c,
            ..Default::default()
        };
        Ok(OneAgainstRest::fit(train, &codes, n_classes, &config)?.predict(test)?)
    };
    let joint = match method {
        Method::Rbf => {
            let config = SvmConfig {
                kernel: Kernel::Rbf { gamma: None },
                c: choice,
                ..Default::default()
            };
            PairwiseSvm::fit(&train, &codes, n_classes, &config)?.predict(&test)?
        }
        Method::Pca => {
            let pca = Pca::fit(&train, choice as usize)?;
            linear(&pca.transform(&train)?, &pca.transform(&test)?, 0.1)?
        }
        _ => linear(&train, &test, choice)?,
    };
    Ok(Predicted {
        joint,
        inductive: None,
        fit: None,
    })
}

/// Accuracy and F1, the latter as the mean over classes.
fn class_metrics(
    found: &[usize],
    truth: &[usize],
    n_classes: usize,
) -> Result<[(&'static str, f64); 2]> {
    let flags = |codes: &[usize]| -> Vec<bool> {
        codes
            .iter()
            .flat_map(|&code| (0..n_classes).map(move |c| c == code))
            .collect()
    };
    Ok([
        ("accuracy", metrics::accuracy(found, truth)?),
        (
            "f1_macro",
            metrics::f1(&flags(found), &flags(truth), n_classes)?.macro_,
        ),
    ])
}

struct Work<'a> {
    set: &'a Classes,
    split: &'a Split,
    method: Method,
    choice: f64,
}

fn run_one(scale: Scale, work: &Work<'_>, seed: u64) -> Result<Outcome> {
    let config = config(scale, work.method, work.choice, seed);
    let predicted = predict(work.set, work.split, work.method, work.choice, &config)?;
    let truth: Vec<usize> = work.split.test.iter().map(|&i| work.set.codes[i]).collect();
    let n_classes = work.set.names.len();
    let mut outcome = Outcome::metrics(class_metrics(&predicted.joint, &truth, n_classes)?);
    if let Some(found) = &predicted.inductive {
        for (name, value) in class_metrics(found, &truth, n_classes)? {
            outcome.metrics.insert(format!("inductive/{name}"), value);
        }
    }
    if let Some(fit) = &predicted.fit {
        let state = fit.state();
        outcome
            .metrics
            .insert("features".to_owned(), state.features_in_use() as f64);
        let most = match work.method {
            Method::Finite(k) => k,
            _ => config.factors.max_truncation,
        };
        outcome.metrics.insert("truncation".to_owned(), most as f64);
        outcome
            .metrics
            .insert("iterations".to_owned(), fit.trace.len() as f64);
    }
    Ok(outcome)
}

/// Training rows in folds, by class.
fn folds(set: &Classes, split: &Split, n: usize, seed: u64) -> Result<Vec<Split>> {
    let labels = set.labels(&split.train, split.train.len())?;
    let rng = &mut npb_infer::stream(seed, [0, 0, 0, 5]);
    let parts = splits::stratified_k_fold(&labels, n, rng)?;
    let rows = |places: &[usize]| places.iter().map(|&k| split.train[k]).collect();
    Ok(parts
        .iter()
        .map(|part| Split {
            train: rows(&part.train),
            test: rows(&part.test),
        })
        .collect())
}

pub(super) fn table_1(context: &Context<'_>) -> Result<Report> {
    let (ours, two_stage) = (LabelUpdate::Profiled, LabelUpdate::TwoStage);
    let named = [
        (Method::Ours(ours), ILSVM),
        (Method::Ours(two_stage), TWO_STAGE),
        (Method::Pca, PCA),
        (Method::Linear, LINEAR),
        (Method::Rbf, RBF),
    ];
    let finite = FINITE_SIZES.map(|k| (Method::Finite(k), FINITE, format!("k={k}")));
    let mut methods: Vec<(Method, &str, String)> = named
        .map(|(method, label)| (method, label, String::new()))
        .into_iter()
        .chain(finite)
        .collect();
    if context.scale == Scale::Smoke {
        methods.truncate(6);
    }
    // One of three folds is left out at the quick scale, each of five at the paper's.
    let (n_folds, used) = context.scale.pick((2, 1), (3, 1), (5, 5));
    let mut records = Vec::new();
    for name in SETS {
        let set = Classes::load(context, name)?;
        let parts = folds(&set, &set.splits[0], n_folds, context.seed)?;
        let runs: u64 = context.scale.pick(1, if name == "usps" { 2 } else { 5 }, 5);
        let trial = |method: Method, label: &str, choice: f64, setting: &str, trial: u64| {
            let config = config(context.scale, method, choice, 0);
            let config = format!("{}\n{n_folds}\n{choice}\n{config:?}", set.checksums);
            let work = Work {
                set: &set,
                split: &set.splits[trial as usize % set.splits.len()],
                method,
                choice,
            };
            Trial::new([name, setting, label], trial, config, work)
        };
        let mut left_out = Vec::new();
        for (method, label, k) in &methods {
            let choices = method.choices(context.scale, set.inputs.n_cols());
            if choices.len() < 2 {
                continue;
            }
            for choice in choices {
                for (fold, part) in parts.iter().take(used).enumerate() {
                    let setting = format!("cv={fold};choice={choice};{k}");
                    let mut trial = trial(*method, label, choice, &setting, 0);
                    trial.work.split = part;
                    left_out.push(trial);
                }
            }
        }
        let run = |trial: &Trial<Work<'_>>, seed| run_one(context.scale, &trial.work, seed);
        let left_out = context.run_trials(&left_out, run)?;
        let mut finals = Vec::new();
        for (method, label, k) in &methods {
            let value = |choice: f64| -> f64 {
                let middle = format!(";choice={choice};");
                let own = left_out
                    .iter()
                    .filter(|r| r.key.method == *label && r.key.setting.contains(&middle));
                own.map(|r| r.outcome.metrics["accuracy"]).sum()
            };
            let choices = method.choices(context.scale, set.inputs.n_cols());
            let best = choices
                .into_iter()
                .rev()
                .max_by(|a, b| value(*a).total_cmp(&value(*b)));
            let best = best.ok_or("nothing to choose from")?;
            let random = matches!(method, Method::Ours(_) | Method::Finite(_));
            let runs = if random || set.splits.len() > 1 {
                runs
            } else {
                1
            };
            finals.extend((0..runs).map(|run| trial(*method, label, best, k, run)));
        }
        records.extend(context.run_trials(&finals, run)?);
    }
    let results = summarise(&records, |_, _, _, _| None);
    report(context.scale, results)
}

fn report(scale: Scale, results: Vec<ResultRow>) -> Result<Report> {
    let columns = "accuracy f1_macro features truncation iterations seconds";
    let panel = |name: &str| {
        let find =
            |setting: &str, method: &str| find_in(&results, name, setting, method, "accuracy");
        let finite = |&k: &usize| Some(find(&format!("k={k}"), FINITE)?.at(k as f64));
        let level = |method: &'static str| {
            let point = |&k: &usize| Some(Point::at(k as f64, find("", method)?.mean));
            Layer::line(method, FINITE_SIZES.iter().filter_map(point))
        };
        let finite = Layer::line(FINITE, FINITE_SIZES.iter().filter_map(finite));
        let levels = [ILSVM, TWO_STAGE, PCA, LINEAR, RBF].map(level);
        Panel::of_lines(
            name,
            ["features of the finite model", "accuracy"],
            [finite].into_iter().chain(levels),
        )
    };
    let figure = lines(
        "accuracy-against-k",
        "Finite latent SVMs against K, and models that need no K",
        "Means over runs; models without K are level lines.",
        &SETS.map(panel),
    )?;
    let mut notes = vec![
        "`npb:ilsvm` infers features of test rows together with those of training rows; `npb:ilsvm/inductive` is the same fit with features of test rows \
         inferred afterwards. C and the number of components are chosen on left-out training rows of the first split."
            .to_owned(),
    ];
    if scale != Scale::Paper {
        notes.push("usps: 1,500 training rows, evenly spread; at most 10 iterations.".to_owned());
    }
    Ok(Report {
        tables: vec![overview("Test rows", &results, columns)],
        results,
        figures: vec![figure],
        notes,
    })
}

/// Rows that use a feature most.
const TOP: usize = 10;
/// Features of which they are listed.
const LISTED: usize = 8;

pub(super) fn figures_4_to_6(context: &Context<'_>) -> Result<Report> {
    let sets: Vec<Classes> = SETS
        .iter()
        .map(|name| Classes::load(context, name))
        .collect::<Result<_>>()?;
    let method = Method::Ours(LabelUpdate::Profiled);
    let trials: Vec<Trial<&Classes>> = SETS
        .iter()
        .zip(&sets)
        .map(|(name, set)| {
            let config = config(context.scale, method, 1.0, 0);
            let config = format!("{}\n{config:?}", set.checksums);
            Trial::new([name, "", ILSVM], 0, config, set)
        })
        .collect();
    let records = context.run_trials(&trials, |trial, seed| {
        let set = trial.work;
        let config = config(context.scale, method, 1.0, seed);
        let predicted = predict(set, &set.splits[0], method, 1.0, &config)?;
        let fit = predicted.fit.ok_or("iLSVM leaves a fit")?;
        Ok(uses(set, &set.splits[0], &fit))
    })?;
    let (mut tables, mut panels) = (Vec::new(), Vec::new());
    for (record, set) in records.iter().zip(&sets) {
        let name = &record.key.dataset;
        let uses = record.outcome.series.iter();
        let uses = uses.filter(|(name, _)| name.starts_with("use"));
        panels.push(Panel::of_lines(
            &**name,
            ["feature, in order of use", "mean use"],
            uses.map(|(name, values)| curve(name, values, set)),
        ));
        tables.push(top_rows(name, record, set));
    }
    let figure = lines(
        "mean-use",
        "Mean use of latent features, overall and by class",
        "Rows of the training part; three classes.",
        &panels,
    )?;
    let results = summarise(&records, |_, _, _, _| None);
    tables.insert(
        0,
        overview("Features", &results, "features truncation seconds"),
    );
    Ok(Report {
        results,
        tables,
        figures: vec![figure],
        notes: vec![
            "A feature is in use when its expected count over all rows is at least one. Features are in the order in which the fit keeps them.".to_owned(),
        ],
    })
}

/// Mean use of every feature over training rows, overall and for the first classes; classes of the rows that use it most.
fn uses(set: &Classes, split: &Split, fit: &IlsvmFit) -> Outcome {
    let state = fit.state();
    let k = state.n_features();
    let n = split.train.len();
    let mean = |rows: &[usize]| -> Vec<f64> {
        let at = |f: usize| rows.iter().map(|&i| state.indicators[(f, i)]).sum::<f64>();
        (0..k).map(|f| at(f) / rows.len().max(1) as f64).collect()
    };
    let mut series = BTreeMap::new();
    series.insert("use".to_owned(), mean(&(0..n).collect::<Vec<_>>()));
    for class in 0..set.names.len().min(3) {
        let rows: Vec<usize> = (0..n)
            .filter(|&i| set.codes[split.train[i]] == class)
            .collect();
        series.insert(format!("use:{class}"), mean(&rows));
    }
    for f in 0..k.min(LISTED) {
        let mut rows: Vec<usize> = (0..n).collect();
        rows.sort_by(|&a, &b| state.indicators[(f, b)].total_cmp(&state.indicators[(f, a)]));
        let classes = rows
            .iter()
            .take(TOP)
            .map(|&i| set.codes[split.train[i]] as f64);
        series.insert(format!("top:{f}"), classes.collect());
    }
    let metrics = [
        ("features", state.features_in_use() as f64),
        ("truncation", k as f64),
    ];
    Outcome {
        series,
        ..Outcome::metrics(metrics)
    }
}

fn curve(name: &str, values: &[f64], set: &Classes) -> Layer {
    let class = name
        .strip_prefix("use:")
        .and_then(|c| c.parse::<usize>().ok());
    let place = |(x, &y): (usize, &f64)| Point::at(x as f64, y);
    Layer::line(
        class.map_or("all rows".to_owned(), |c| format!("class {}", set.names[c])),
        values.iter().enumerate().map(place),
    )
}

fn top_rows(name: &str, record: &Record, set: &Classes) -> TextTable {
    let line = |f: usize| {
        let classes = record.outcome.series.get(&format!("top:{f}"))?;
        let codes: Vec<usize> = classes.iter().map(|&c| c as usize).collect();
        let tally = distinct(codes.iter().copied()).into_iter().map(|code| {
            let n = codes.iter().filter(|&&c| c == code).count();
            format!("{n} x {}", set.names[code])
        });
        Some(vec![f.to_string(), tally.collect::<Vec<_>>().join(", ")])
    };
    text_table(
        format!("{name}: classes of the {TOP} training rows that use a feature most"),
        "feature | classes",
        (0..LISTED).filter_map(line),
    )
}
