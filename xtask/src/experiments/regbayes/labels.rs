//! Table 2: yeast and scene, several labels per row.

use npb_baselines::{ClassWeights, HingeLoss, Kernel, LinearConfig, LinearSvm, Svm, SvmConfig};
use npb_data::{Split, Table, Targets, metrics, splits};
use npb_infer::VbLimits;
use npb_infer::Watch;
use npb_regbayes::tasks::{TaskData, Validation, cross_validate, fit};
use npb_regbayes::{FactorConfig, LabelUpdate, MachineLimits, MapConfig, MtIlsvmConfig};

use super::data::{MultiLabel, standardised};
use super::thresholds::{Criterion, decisions};
use crate::Result;
use crate::experiments::bsvd::tables::{Target, find, overview, targets};
use crate::experiments::itf::tables::difference;
use crate::reproduce::{
    Context, Experiment, Outcome, Record, Report, ResultRow, Scale, TextTable, Trial, summarise,
};

pub(super) const TABLE_2: Experiment = Experiment {
    id: "regbayes/table-2",
    what: "yeast, scene: accuracy over all decisions, subset accuracy, F1 (micro, macro, example) of MT-iLSVM, with raw inputs, MT-IBP + SVM, \
           linear and RBF SVMs, majority per label",
    paper: "MT-iLSVM: yeast .5792 / .4258 / .4742, scene .8752 / .5834 / .6148 (accuracy, micro, macro); MT-IBP+SVM: yeast .5475 / .3910 / .4345, \
            scene .8590 / .4880 / .5147",
    data: &["scene", "yeast"],
    run: table_2,
};

/// What scores labels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Method {
    /// MT-iLSVM: how indicators learn from labels, scale of appended inputs, whether these are seen through a map.
    Ours {
        update: LabelUpdate,
        raw: f64,
        map: bool,
    },
    Linear(ClassWeights),
    Rbf(ClassWeights),
    Majority,
}

/// The default configuration, under the name that it has in `results.csv`.
pub(super) const OURS: &str = "npb:mt-ilsvm";
const RAW: &str = "npb:mt-ilsvm/raw";
const MAP: &str = "npb:mt-ilsvm/map";
const TWO_STAGE: &str = "mt-ibp+svm";
const LINEAR: &str = "linear-svm";
const RBF: &str = "rbf-svm";
const MAJORITY: &str = "majority";

pub(super) const fn ours(update: LabelUpdate, raw: f64, map: bool) -> Method {
    Method::Ours { update, raw, map }
}

pub(super) const METHODS: [(Method, &str); 10] = [
    (ours(LabelUpdate::Profiled, 0.0, false), OURS),
    (ours(LabelUpdate::Profiled, 1.0, false), RAW),
    (ours(LabelUpdate::Profiled, 1.0, true), MAP),
    (ours(LabelUpdate::TwoStage, 0.0, false), TWO_STAGE),
    (ours(LabelUpdate::TwoStage, 1.0, false), "mt-ibp+svm/raw"),
    (Method::Linear(ClassWeights::Equal), LINEAR),
    (
        Method::Linear(ClassWeights::Balanced),
        "linear-svm/balanced",
    ),
    (Method::Rbf(ClassWeights::Equal), RBF),
    (Method::Rbf(ClassWeights::Balanced), "rbf-svm/balanced"),
    (Method::Majority, MAJORITY),
];

impl Method {
    /// Values of C that cross-validation chooses from.
    fn costs(self, scale: Scale) -> Vec<f64> {
        let all: &[f64] = match self {
            Self::Ours { raw, .. } if raw > 0.0 => &[1e-3, 3e-3, 1e-2],
            Self::Ours { .. } => &[1e-3, 1e-2, 1e-1],
            Self::Linear(_) => &[1e-3, 3e-3, 1e-2, 3e-2, 0.1],
            Self::Rbf(_) => &[0.3, 1.0, 3.0, 10.0],
            Self::Majority => &[1.0],
        };
        let n = if scale == Scale::Smoke { 1 } else { all.len() };
        all[..n].to_vec()
    }

    /// Whether fits differ by seed.
    fn random(self) -> bool {
        matches!(self, Self::Ours { .. })
    }
}

/// Settings of MT-iLSVM at a cost.
pub(super) fn config(scale: Scale, method: Method, cost: f64, seed: u64) -> MtIlsvmConfig {
    let (label_update, raw_inputs, map) = match method {
        Method::Ours { update, raw, map } => (update, raw, map),
        _ => (LabelUpdate::Profiled, 0.0, false),
    };
    let config = MtIlsvmConfig {
        seed,
        cost,
        label_update,
        raw_inputs,
        // A gap of a thousandth does not change decisions.
        machine: MachineLimits {
            tolerance: 1e-3,
            max_passes: 300,
            ..MachineLimits::default()
        },
        map: map.then(|| MapConfig {
            features: 600,
            ..MapConfig::default()
        }),
        ..Default::default()
    };
    match scale {
        Scale::Smoke => MtIlsvmConfig {
            limits: VbLimits {
                max_iterations: 2,
                ..config.limits
            },
            factors: FactorConfig {
                truncation: 8,
                growth: 0,
                warm_up: 2,
                ..config.factors
            },
            inner_sweeps: 2,
            ..config
        },
        Scale::Quick => MtIlsvmConfig {
            limits: VbLimits {
                max_iterations: 10,
                ..config.limits
            },
            ..config
        },
        Scale::Paper => config,
    }
}

/// Scores of test rows, row-major; what else is worth knowing of the fit.
pub(super) struct Scored {
    pub(super) scores: Vec<f64>,
    pub(super) facts: Vec<(&'static str, f64)>,
}

/// Fits a method to training rows and scores others.
pub(super) fn score(
    method: Method,
    config: &MtIlsvmConfig,
    train: &Table,
    labels: &[bool],
    test: &Table,
) -> Result<Scored> {
    let n_labels = labels.len() / train.n_rows();
    let of_label =
        |l: usize| -> Vec<bool> { labels.iter().skip(l).step_by(n_labels).copied().collect() };
    let (standard, rows) = standardised(train, test)?;
    // One machine for each label; a label without positive or without negative rows has a constant score.
    let machines = |one: &dyn Fn(&[bool]) -> Result<Vec<f64>>| -> Result<Vec<f64>> {
        let mut scores = vec![0.0; test.n_rows() * n_labels];
        for l in 0..n_labels {
            let own = of_label(l);
            let column = if own.iter().all(|&y| y == own[0]) {
                vec![if own[0] { 1.0 } else { -1.0 }; test.n_rows()]
            } else {
                one(&own)?
            };
            for (row, score) in column.into_iter().enumerate() {
                scores[row * n_labels + l] = score;
            }
        }
        Ok(scores)
    };
    let scores = match method {
        Method::Ours { .. } => {
            let names = (0..n_labels).map(|l| format!("label{l}"));
            let known: Vec<Option<bool>> = labels.iter().map(|&y| Some(y)).collect();
            let data = TaskData::from_targets(train.clone(), &Targets::from_bools(names, &known)?)?;
            let model = fit(&data, config)?;
            let predicted = model.predict(test)?;
            let cells = (0..test.n_rows()).flat_map(|i| (0..n_labels).map(move |l| (i, l)));
            let facts = vec![
                ("features", model.state().features_in_use() as f64),
                ("iterations", model.trace.len() as f64),
            ];
            let scores = cells.map(|(i, l)| predicted.score(i, l)).collect();
            return Ok(Scored { scores, facts });
        }
        Method::Linear(weights) => machines(&|own| {
            let config = LinearConfig {
                c: config.cost,
                loss: HingeLoss::Squared,
                weights,
                ..Default::default()
            };
            Ok(LinearSvm::fit(&standard, own, &config)?.decision(&rows)?)
        })?,
        Method::Rbf(weights) => machines(&|own| {
            let config = SvmConfig {
                kernel: Kernel::Rbf { gamma: None },
                c: config.cost,
                weights,
                ..Default::default()
            };
            Ok(Svm::fit(&standard, own, &config)?.decision(&rows)?)
        })?,
        Method::Majority => machines(&|own| {
            let positives = own.iter().filter(|&&y| y).count();
            let score = if 2 * positives > own.len() { 1.0 } else { -1.0 };
            Ok(vec![score; test.n_rows()])
        })?,
    };
    let facts = Vec::new();
    Ok(Scored { scores, facts })
}

const SCORES: &str = "scores";
const FOLDS: usize = 5;
const RUNS: u64 = 5;

/// What a trial works on.
struct Work<'a> {
    set: &'a MultiLabel,
    method: Method,
    cost: f64,
    part: Part<'a>,
}

#[derive(Clone, Copy)]
enum Part<'a> {
    /// Test rows.
    Test,
    /// Left out for cross-validation.
    Fold(&'a Split),
    /// Training rows, each scored by the fold that left it out, at all costs: the crate's own cross-validation.
    LeftOut(usize),
}

fn run_one(context: &Context<'_>, work: &Work<'_>, seed: u64) -> Result<Outcome> {
    let config = config(context.scale, work.method, work.cost, seed);
    let set = work.set;
    let scored = match work.part {
        Part::Test => score(
            work.method,
            &config,
            &set.train,
            &set.train_labels,
            &set.test,
        )?,
        Part::Fold(fold) => {
            let train = set.train.select_rows(&fold.train);
            let labels = set.labels_of(&fold.train);
            let test = set.train.select_rows(&fold.test);
            score(work.method, &config, &train, &labels, &test)?
        }
        Part::LeftOut(folds) => {
            let choice = Validation {
                costs: work.method.costs(context.scale),
                folds,
                ..Validation::default()
            };
            let found = cross_validate(&set.tasks()?, &config, &choice, &Watch::none())?;
            let mut outcome = Outcome::default();
            for (n, cost) in found.costs.iter().enumerate() {
                let by_label = found.scores(n);
                let scores =
                    (0..set.train.n_rows()).flat_map(|i| by_label.iter().map(move |own| own[i]));
                outcome
                    .series
                    .insert(format!("{SCORES}:c={cost}"), scores.collect());
            }
            return Ok(outcome);
        }
    };
    let mut outcome = Outcome::default();
    for (name, value) in scored.facts {
        outcome.metrics.insert(name.to_owned(), value);
    }
    outcome.series.insert(SCORES.to_owned(), scored.scores);
    Ok(outcome)
}

/// What cross-validation chose for one method and criterion.
struct Choice {
    criterion: Criterion,
    cost: f64,
    thresholds: Vec<f64>,
}

fn table_2(context: &Context<'_>) -> Result<Report> {
    let (n_folds, runs) = match context.scale {
        Scale::Smoke => (2, 1),
        Scale::Quick | Scale::Paper => (FOLDS, RUNS),
    };
    let mut records = Vec::new();
    for name in ["scene", "yeast"] {
        let set = MultiLabel::load(context, name)?;
        let rng = &mut npb_infer::stream(context.seed, [0, 0, 0, 5]);
        let folds = splits::k_fold(set.train.n_rows(), n_folds, rng)?;
        let trial =
            |(method, label): (Method, &str), cost: f64, part, setting: String, trial| Trial {
                dataset: name.to_owned(),
                setting,
                method: label.to_owned(),
                trial,
                config: format!(
                    "{}\n{n_folds}\n{:?}",
                    set.checksums,
                    config(context.scale, method, cost, 0)
                ),
                work: Work {
                    set: &set,
                    method,
                    cost,
                    part,
                },
            };
        let mut left_out = Vec::new();
        for named in METHODS {
            if named.0.random() {
                let setting = "cv".to_owned();
                left_out.push(trial(named, 0.0, Part::LeftOut(n_folds), setting, 0));
                continue;
            }
            for cost in named.0.costs(context.scale) {
                left_out.extend(folds.iter().enumerate().map(|(k, fold)| {
                    trial(named, cost, Part::Fold(fold), format!("cv={k};c={cost}"), 0)
                }));
            }
        }
        let run = |trial: &Trial<Work<'_>>, seed| run_one(context, &trial.work, seed);
        let left_out = context.run_trials(&left_out, run)?;
        let chosen: Vec<Vec<Choice>> = METHODS
            .iter()
            .map(|named| {
                choose(
                    &set,
                    &folds,
                    &left_out,
                    *named,
                    &named.0.costs(context.scale),
                )
            })
            .collect::<Result<_>>()?;
        let mut finals = Vec::new();
        for (named, choices) in METHODS.into_iter().zip(&chosen) {
            let mut costs: Vec<f64> = choices.iter().map(|c| c.cost).collect();
            costs.sort_by(f64::total_cmp);
            costs.dedup();
            let runs = match named.0 {
                Method::Ours { map: true, .. } if context.scale == Scale::Quick => 1,
                Method::Ours { .. } => runs,
                _ => 1,
            };
            let each = costs
                .into_iter()
                .flat_map(|c| (0..runs).map(move |r| (c, r)));
            finals.extend(
                each.map(|(cost, run)| trial(named, cost, Part::Test, format!("c={cost}"), run)),
            );
        }
        let finals = context.run_trials(&finals, run)?;
        records.extend(measured(&set, &finals, &chosen)?);
    }
    let results = summarise(&records, printed);
    Ok(report(&records, results))
}

/// For every criterion the cost and thresholds with the best value on left-out rows.
fn choose(
    set: &MultiLabel,
    folds: &[Split],
    left_out: &[Record],
    (method, label): (Method, &str),
    costs: &[f64],
) -> Result<Vec<Choice>> {
    let l = set.n_labels;
    let mut scores_at = Vec::new();
    for &cost in costs {
        if method.random() {
            let own = left_out.iter().find(|r| r.key.method == label);
            let series = own.and_then(|r| r.outcome.series.get(&format!("{SCORES}:c={cost}")));
            let scores = series.ok_or_else(|| format!("{label}: no cross-validation"))?;
            scores_at.push((cost, scores.clone()));
            continue;
        }
        let mut scores = vec![0.0; set.train_labels.len()];
        for (k, fold) in folds.iter().enumerate() {
            let setting = format!("cv={k};c={cost}");
            let record = left_out
                .iter()
                .find(|r| r.key.method == label && r.key.setting == setting)
                .ok_or_else(|| format!("{label}: no fold {setting}"))?;
            let found = &record.outcome.series[SCORES];
            for (place, &row) in fold.test.iter().enumerate() {
                scores[row * l..(row + 1) * l].copy_from_slice(&found[place * l..(place + 1) * l]);
            }
        }
        scores_at.push((cost, scores));
    }
    let best = |criterion: Criterion| -> Result<Choice> {
        let mut best: Option<(f64, Choice)> = None;
        for (cost, scores) in &scores_at {
            let thresholds = criterion.thresholds(scores, &set.train_labels, l);
            let value = criterion.value(scores, &set.train_labels, &thresholds)?;
            if best.as_ref().is_none_or(|(other, _)| value > *other) {
                let choice = Choice {
                    criterion,
                    cost: *cost,
                    thresholds,
                };
                best = Some((value, choice));
            }
        }
        Ok(best.ok_or("no cost to choose from")?.1)
    };
    Criterion::ALL.into_iter().map(best).collect()
}

/// One record for each method, criterion and run.
fn measured(set: &MultiLabel, finals: &[Record], chosen: &[Vec<Choice>]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for ((_, label), choices) in METHODS.iter().zip(chosen) {
        for choice in choices {
            let setting = format!("c={}", choice.cost);
            let own = finals
                .iter()
                .filter(|r| r.key.method == *label && r.key.setting == setting);
            for record in own {
                let scores = &record.outcome.series[SCORES];
                let found = decisions(scores, &choice.thresholds);
                let mut outcome = label_metrics(&found, &set.test_labels, set.n_labels)?;
                outcome.metrics.insert("c".to_owned(), choice.cost);
                let facts = record.outcome.metrics.iter();
                outcome.metrics.extend(facts.map(|(k, v)| (k.clone(), *v)));
                let mut key = record.key.clone();
                key.setting = choice.criterion.setting();
                records.push(Record { key, outcome });
            }
        }
    }
    Ok(records)
}

/// All measures of decisions.
pub(super) fn label_metrics(found: &[bool], truth: &[bool], n_labels: usize) -> Result<Outcome> {
    let f1 = metrics::f1(found, truth, n_labels)?;
    Ok(Outcome::metrics([
        ("accuracy", metrics::accuracy(found, truth)?),
        (
            "subset_accuracy",
            metrics::subset_accuracy(found, truth, n_labels)?,
        ),
        ("f1_micro", f1.micro),
        ("f1_macro", f1.macro_),
        ("f1_example", f1.example),
    ]))
}

/// What Table 2 prints: accuracy, F1 micro, F1 macro.
fn printed(dataset: &str, setting: &str, method: &str, metric: &str) -> Option<f64> {
    let figures = match (dataset, method) {
        ("yeast", OURS) => [0.5792, 0.4258, 0.4742],
        ("yeast", TWO_STAGE) => [0.5475, 0.3910, 0.4345],
        ("scene", OURS) => [0.8752, 0.5834, 0.6148],
        ("scene", TWO_STAGE) => [0.8590, 0.4880, 0.5147],
        _ => return None,
    };
    let place = Criterion::ALL
        .iter()
        .position(|c| c.metric() == metric && c.setting() == setting)?;
    Some(figures[place])
}

fn report(records: &[Record], results: Vec<ResultRow>) -> Report {
    let metrics = [
        "accuracy",
        "f1_micro",
        "f1_macro",
        "f1_example",
        "subset_accuracy",
        "features",
        "c",
        "seconds",
    ];
    let mut tables = Vec::new();
    let mut wanted = Vec::new();
    for name in ["scene", "yeast"] {
        let own: Vec<ResultRow> = results
            .iter()
            .filter(|r| r.dataset == name)
            .cloned()
            .collect();
        let of_set: Vec<Record> = records
            .iter()
            .filter(|r| r.key.dataset == name)
            .cloned()
            .collect();
        tables.push(overview(name, &own, &metrics));
        tables.push(against(name, &of_set));
        for criterion in Criterion::ALL {
            let (setting, metric) = (criterion.setting(), criterion.metric());
            let mean = |method: &str| find(&own, &setting, method, metric);
            let at_least = |method: &str, low: f64, why: &str| {
                let what = format!("{name}, {metric}: {method} {why}");
                Target::between(&what, mean(method), low, f64::INFINITY)
            };
            let value = |method: &str| mean(method).map_or(f64::NEG_INFINITY, |r| r.mean);
            let figures = match name {
                "scene" => [0.875, 0.583, 0.615],
                _ => [0.79, 0.62, 0.46],
            };
            let place = Criterion::ALL
                .iter()
                .position(|c| *c == criterion)
                .unwrap_or(0);
            let named = if name == "scene" { OURS } else { RAW };
            wanted.push(at_least(named, figures[place], "at the stated figure"));
            if name == "scene" {
                let kernel = value(RBF).max(value("rbf-svm/balanced"));
                wanted.push(at_least(MAP, kernel - 0.02, "at the best RBF SVM - .02"));
                let linear = value(LINEAR).max(value("linear-svm/balanced"));
                wanted.push(at_least(RAW, linear - 0.01, "at the best linear SVM - .01"));
            }
            wanted.push(at_least(
                OURS,
                value(TWO_STAGE) - 0.005,
                "at MT-IBP + SVM - .005",
            ));
        }
    }
    tables.push(targets(&wanted));
    let notes = [
        "Five-fold cross-validation on the training rows, once, chose C for each criterion by its value on left-out rows; thresholds are 0 for accuracy \
         and chosen by the same cross-validation for F1. The concentration is learned. Random methods: five runs that differ by seed.",
        "The printed accuracy on yeast is below that of the majority per label, so that its protocol was another one: it is beside ours, not \
         reproduced.",
    ];
    Report {
        results,
        tables,
        figures: Vec::new(),
        notes: notes.map(str::to_owned).to_vec(),
    }
}

/// Each criterion's own metric, ours minus others, run by run.
fn against(name: &str, records: &[Record]) -> TextTable {
    let mut rows = Vec::new();
    for criterion in Criterion::ALL {
        for (ours, other) in [(OURS, TWO_STAGE), (RAW, "mt-ibp+svm/raw")] {
            let (setting, metric) = (criterion.setting(), criterion.metric());
            if let Some((mean, error)) = difference(records, &setting, ours, other, metric) {
                let error = error.map_or(String::new(), |e| format!("{e:.4}"));
                let cells = [metric, ours, other, &format!("{mean:+.4}"), &error];
                rows.push(cells.map(str::to_owned).to_vec());
            }
        }
    }
    TextTable {
        title: format!("{name}: differences run by run"),
        header: ["metric", "method", "other", "difference", "standard error"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    }
}
