//! Figures 3.5 and 3.6: AUC against training fraction when 25% and 50% of the cells are missing completely at random.

use std::fs::File;

use npb_baselines::{
    ChainedConfig, ChainedImputer, GaussianConfig, GaussianImputer, Kernel, LogisticConfig,
    LogisticRegression, MeanImputer, Svm, SvmConfig,
};
use npb_data::read::{self, Column, DelimitedOptions};
use npb_data::{Labels, Mask, Split, Standardiser, Table, metrics, splits};
use npb_iqgme::IqgmeConfig;

use crate::Result;
use crate::data::sha256_of;
use crate::reproduce::{
    Context, Experiment, Outcome, Panel, Point, Record, Report, ResultRow, Scale, Series,
    TextTable, Trial, lines, mean_and_sd, short, summarise,
};

pub(crate) const FIG_3_5: Experiment = Experiment {
    id: "iqgme/fig-3.5",
    what: "ionosphere: AUC against training fraction at 25% and 50% missing, iQGME and nine two-step comparators",
    paper: "a figure without printed numbers: iQGME best overall, kernel methods close on this set",
    data: &["ionosphere"],
    run: |context| reproduce(context, &IONOSPHERE),
};

pub(crate) const FIG_3_6: Experiment = Experiment {
    id: "iqgme/fig-3.6",
    what: "wdbc: AUC against training fraction at 25% and 50% missing, iQGME and nine two-step comparators",
    paper: "a figure without printed numbers: iQGME best overall, most clearly when training rows are scarce",
    data: &["wdbc"],
    run: |context| reproduce(context, &WDBC),
};

/// A data set and what was printed for comparators on its given splits.
struct Source {
    name: &'static str,
    file: &'static str,
    label: usize,
    skip: &'static [usize],
    positive: &'static str,
    /// Method, missing fraction, and mean AUC at training fractions 0.1, 0.3, 0.5, 0.7, 0.9.
    printed: &'static [(&'static str, f64, [f64; 5])],
}

const IONOSPHERE: Source = Source {
    name: "ionosphere",
    file: "ionosphere.data",
    label: 34,
    skip: &[],
    positive: "g",
    printed: &[
        ("svm-rbf+chained", 0.25, [0.948, 0.974, 0.975, 0.979, 0.981]),
        ("svm-rbf+chained", 0.5, [0.901, 0.953, 0.963, 0.968, 0.974]),
    ],
};

const WDBC: Source = Source {
    name: "wdbc",
    file: "wdbc.data",
    label: 1,
    skip: &[0],
    positive: "M",
    printed: &[
        (
            "logistic+gaussian",
            0.25,
            [0.988, 0.992, 0.994, 0.995, 0.988],
        ),
        (
            "logistic+gaussian",
            0.5,
            [0.983, 0.987, 0.991, 0.992, 0.986],
        ),
    ],
};

const FRACTIONS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];
/// The method that the others are compared with.
const OURS: &str = "npb:iqgme";

/// Fills of the two-step methods.
#[derive(Clone, Copy)]
enum Imputation {
    Mean,
    Chained,
    Gaussian,
}

/// Classifiers of the two-step methods.
#[derive(Clone, Copy)]
enum Classifier {
    SvmRbf,
    SvmLinear,
    Logistic,
}

#[derive(Clone, Copy)]
enum Method {
    Iqgme,
    TwoStep(Classifier, Imputation),
}

/// Every method with its name in `results.csv`.
const METHODS: [(&str, Method); 10] = {
    use Classifier::{Logistic, SvmLinear, SvmRbf};
    use Imputation::{Chained, Gaussian, Mean};
    [
        (OURS, Method::Iqgme),
        ("svm-rbf+mean", Method::TwoStep(SvmRbf, Mean)),
        ("svm-rbf+chained", Method::TwoStep(SvmRbf, Chained)),
        ("svm-rbf+gaussian", Method::TwoStep(SvmRbf, Gaussian)),
        ("svm-linear+mean", Method::TwoStep(SvmLinear, Mean)),
        ("svm-linear+chained", Method::TwoStep(SvmLinear, Chained)),
        ("svm-linear+gaussian", Method::TwoStep(SvmLinear, Gaussian)),
        ("logistic+mean", Method::TwoStep(Logistic, Mean)),
        ("logistic+chained", Method::TwoStep(Logistic, Chained)),
        ("logistic+gaussian", Method::TwoStep(Logistic, Gaussian)),
    ]
};

/// One cell of the design.
#[derive(Clone, Copy)]
struct Work {
    method: Method,
    missing: f64,
    train: f64,
    trial: u64,
}

fn reproduce(context: &Context<'_>, source: &Source) -> Result<Report> {
    let data = Data::load(context, source)?;
    let trials = design(context.scale, source.name, &data);
    let records = context.run_trials(&trials, |trial, seed| {
        run(&data, &trial.work, context.seed, seed)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![
            overview(&results),
            differences(&records),
            printed(source, &results),
        ],
        figures: vec![figure(source, &results)?],
        notes: notes(&data),
        results,
    })
}

/// All cells of the design at a scale.
fn design(scale: Scale, dataset: &str, data: &Data) -> Vec<Trial<Work>> {
    let (rates, fractions, n): (&[f64], &[f64], u64) = match scale {
        Scale::Smoke => (&[0.25], &[0.5], 2),
        Scale::Quick | Scale::Paper => (&[0.25, 0.5], &FRACTIONS, 10),
    };
    let mut trials = Vec::new();
    for &missing in rates {
        for &train in fractions {
            for (name, method) in METHODS {
                for trial in 0..n {
                    trials.push(Trial {
                        dataset: dataset.to_owned(),
                        setting: setting(missing, train),
                        method: name.to_owned(),
                        trial,
                        config: format!("{}\n{}", data.checksums, configuration(method)),
                        work: Work {
                            method,
                            missing,
                            train,
                            trial,
                        },
                    });
                }
            }
        }
    }
    trials
}

fn setting(missing: f64, train: f64) -> String {
    format!("missing={missing};train={train}")
}

/// Everything that a method's outcome depends on besides data and seed.
fn configuration(method: Method) -> String {
    match method {
        Method::Iqgme => format!("{:?}", IqgmeConfig::default()),
        Method::TwoStep(classifier, imputation) => {
            let imputation = match imputation {
                Imputation::Mean => "mean".to_owned(),
                Imputation::Chained => format!("{:?}", ChainedConfig::default()),
                Imputation::Gaussian => format!("{:?}", GaussianConfig::default()),
            };
            let classifier = match classifier {
                Classifier::SvmRbf => format!("{:?}", SvmConfig::default()),
                Classifier::SvmLinear => format!("{:?}", linear_svm()),
                Classifier::Logistic => format!("{:?}", LogisticConfig::default()),
            };
            format!("{imputation}\n{classifier}")
        }
    }
}

fn linear_svm() -> SvmConfig {
    SvmConfig {
        kernel: Kernel::Linear,
        ..Default::default()
    }
}

/// The data set, with the masks and splits that come with it.
struct Data {
    table: Table,
    labels: Labels,
    positive: &'static str,
    given: Option<Given>,
    /// Checksums of all files.
    checksums: String,
}

struct Given {
    masks: Vec<read::GivenMask>,
    splits: Vec<read::GivenSplit>,
}

impl Data {
    fn load(context: &Context<'_>, source: &Source) -> Result<Self> {
        let path = context.data_file(source.name, source.file);
        let options = DelimitedOptions {
            header: false,
            skip: source
                .skip
                .iter()
                .map(|&column| Column::Index(column))
                .collect(),
            ..Default::default()
        };
        let label = Column::Index(source.label);
        let (table, labels) =
            read::labelled_table(source.file, File::open(&path)?, &label, &options)?;
        let mut checksums = sha256_of(&path)?;
        let masks = context.data_file(source.name, "splits/masks.txt");
        let splits = context.data_file(source.name, "splits/splits.txt");
        let given = if masks.is_file() && splits.is_file() {
            checksums += &sha256_of(&masks)?;
            checksums += &sha256_of(&splits)?;
            Some(Given {
                masks: read::given_masks(
                    "masks.txt",
                    File::open(&masks)?,
                    table.n_rows(),
                    table.n_cols(),
                )?,
                splits: read::given_splits("splits.txt", File::open(&splits)?)?,
            })
        } else {
            None
        };
        Ok(Self {
            table,
            labels,
            positive: source.positive,
            given,
            checksums,
        })
    }

    /// The cells to hide and the rows to train and test on.
    fn mask_and_split(&self, work: &Work, seed: u64) -> Result<(Mask, Split)> {
        match &self.given {
            Some(given) => given.find(work),
            None => self.draw(work, seed),
        }
    }

    /// As the given ones were made: one mask per missing fraction and trial, shared by the training fractions.
    fn draw(&self, work: &Work, seed: u64) -> Result<(Mask, Split)> {
        let thousandth = |fraction: f64| (1000.0 * fraction).round() as u64;
        let key = [work.trial, thousandth(work.missing), 0, 1];
        let mask = splits::missing_at_random(
            &self.table,
            work.missing,
            &mut npb_infer::stream(seed, key),
        )?;
        let holed = self.table.hide(&mask)?;
        let rows: Vec<usize> = (0..holed.n_rows())
            .filter(|&i| holed.observed_in_row(i).next().is_some())
            .collect();
        let key = [
            work.trial,
            thousandth(work.missing),
            thousandth(work.train),
            2,
        ];
        let labels = self.labels.select_rows(&rows);
        let split = splits::random_with_every_class(
            &labels,
            work.train,
            &mut npb_infer::stream(seed, key),
        )?;
        let original = |side: Vec<usize>| side.into_iter().map(|i| rows[i]).collect();
        Ok((
            mask,
            Split {
                train: original(split.train),
                test: original(split.test),
            },
        ))
    }
}

impl Given {
    fn find(&self, work: &Work) -> Result<(Mask, Split)> {
        let trial = work.trial as f64;
        let mask = self.masks.iter().find(|m| m.key == [work.missing, trial]);
        let split = self
            .splits
            .iter()
            .find(|s| s.key == [work.missing, work.train, trial]);
        match (mask, split) {
            (Some(mask), Some(split)) => Ok((mask.missing.clone(), split.split.clone())),
            _ => Err("no such mask or split in the given files".into()),
        }
    }
}

/// Standardised training and test rows with holes, and their labels.
struct Sides {
    train: Table,
    train_labels: Labels,
    test: Table,
    /// True = positive class.
    train_positive: Vec<bool>,
    test_positive: Vec<bool>,
}

impl Sides {
    fn new(data: &Data, work: &Work, seed: u64) -> Result<Self> {
        let (mask, split) = data.mask_and_split(work, seed)?;
        let holed = data.table.hide(&mask)?;
        let train = holed.select_rows(&split.train);
        let standardiser = Standardiser::fit(&train);
        let positive = |rows: &[usize]| -> Result<Vec<bool>> {
            let labels = data
                .labels
                .select_rows(rows)
                .one_against_rest(data.positive)?;
            labels
                .into_iter()
                .map(|l| l.ok_or_else(|| "a row without a label".into()))
                .collect()
        };
        Ok(Self {
            train: standardiser.apply(&train)?,
            test: standardiser.apply(&holed.select_rows(&split.test))?,
            train_labels: data.labels.select_rows(&split.train),
            train_positive: positive(&split.train)?,
            test_positive: positive(&split.test)?,
        })
    }
}

/// One trial. `run_seed` draws masks and splits where none are given; `seed` is the trial's own.
fn run(data: &Data, work: &Work, run_seed: u64, seed: u64) -> Result<Outcome> {
    let sides = Sides::new(data, work, run_seed)?;
    let auc = |scores: &[f64]| metrics::auc(scores, &sides.test_positive);
    match work.method {
        Method::TwoStep(classifier, imputation) => {
            let scores = classify(classifier, &sides, impute(imputation, &sides)?)?;
            Ok(Outcome::metrics([("auc", auc(&scores)?)]))
        }
        Method::Iqgme => {
            let config = IqgmeConfig {
                seed,
                ..Default::default()
            };
            let fit = npb_iqgme::fit(&sides.train, &sides.train_labels, &config)?;
            // Probabilities are those of the second class in alphabetical order.
            let of_second = fit
                .classes()
                .get(1)
                .is_some_and(|class| class == data.positive);
            let scores = |p: Vec<f64>| {
                p.into_iter()
                    .map(|p| if of_second { p } else { -p })
                    .collect::<Vec<f64>>()
            };
            Ok(Outcome::metrics([
                ("auc", auc(&scores(fit.predict_proba(&sides.test)?))?),
                (
                    "plug-in/auc",
                    auc(&scores(fit.predict_plug_in(&sides.test)?))?,
                ),
            ]))
        }
    }
}

/// Training and test rows without holes; fitted to the training rows.
fn impute(imputation: Imputation, sides: &Sides) -> Result<(Table, Table)> {
    let Sides { train, test, .. } = sides;
    Ok(match imputation {
        Imputation::Mean => {
            let imputer = MeanImputer::fit(train)?;
            (imputer.transform(train)?, imputer.transform(test)?)
        }
        Imputation::Chained => {
            let imputer = ChainedImputer::fit(train, &ChainedConfig::default())?;
            (imputer.transform(train)?, imputer.transform(test)?)
        }
        Imputation::Gaussian => {
            let imputer = GaussianImputer::fit(train, &GaussianConfig::default())?;
            (imputer.transform(train)?, imputer.transform(test)?)
        }
    })
}

fn classify(
    classifier: Classifier,
    sides: &Sides,
    (train, test): (Table, Table),
) -> Result<Vec<f64>> {
    let labels = &sides.train_positive;
    Ok(match classifier {
        Classifier::SvmRbf => Svm::fit(&train, labels, &SvmConfig::default())?.decision(&test)?,
        Classifier::SvmLinear => Svm::fit(&train, labels, &linear_svm())?.decision(&test)?,
        Classifier::Logistic => {
            LogisticRegression::fit(&train, labels, &LogisticConfig::default())?.decision(&test)?
        }
    })
}

/// Settings in the order of the results.
fn settings(results: &[ResultRow]) -> Vec<&str> {
    let mut settings: Vec<&str> = Vec::new();
    for row in results {
        if !settings.contains(&row.setting.as_str()) {
            settings.push(&row.setting);
        }
    }
    settings
}

/// Methods in the order of the results.
fn methods(results: &[ResultRow]) -> Vec<&str> {
    let mut methods: Vec<&str> = Vec::new();
    for row in results {
        if !methods.contains(&row.method.as_str()) {
            methods.push(&row.method);
        }
    }
    methods
}

fn find<'a>(results: &'a [ResultRow], setting: &str, method: &str) -> Option<&'a ResultRow> {
    let wanted = |r: &&ResultRow| r.setting == setting && r.method == method && r.metric == "auc";
    results.iter().find(wanted)
}

/// Mean AUC of every method in every setting.
fn overview(results: &[ResultRow]) -> TextTable {
    let settings = settings(results);
    let row = |method: &str| {
        let cell = |setting: &&str| match find(results, setting, method) {
            Some(row) => match row.sd {
                Some(sd) => format!("{:.3} ({sd:.3})", row.mean),
                None => format!("{:.3}", row.mean),
            },
            None => String::new(),
        };
        let cells = settings.iter().map(cell);
        std::iter::once(method.to_owned()).chain(cells).collect()
    };
    TextTable {
        title: "Mean AUC (standard deviation over trials)".to_owned(),
        header: std::iter::once("method")
            .chain(settings.iter().copied())
            .map(str::to_owned)
            .collect(),
        rows: methods(results).into_iter().map(row).collect(),
    }
}

/// Our AUC minus each comparator's on the same trials: mean and standard error.
fn differences(records: &[Record]) -> TextTable {
    let auc = |method: &str, setting: &str| -> Vec<(u64, f64)> {
        let wanted = records
            .iter()
            .filter(|r| r.key.method == method && r.key.setting == setting);
        wanted
            .filter_map(|r| Some((r.key.trial, *r.outcome.metrics.get("auc")?)))
            .collect()
    };
    let mut settings: Vec<&str> = records.iter().map(|r| r.key.setting.as_str()).collect();
    settings.dedup();
    let mut rows = Vec::new();
    for setting in settings {
        let ours = auc(OURS, setting);
        for (method, _) in METHODS.iter().filter(|(method, _)| *method != OURS) {
            let theirs = auc(method, setting);
            let pairs = ours.iter().filter_map(|(trial, a)| {
                let (_, b) = theirs.iter().find(|(other, _)| other == trial)?;
                Some(a - b)
            });
            let pairs: Vec<f64> = pairs.collect();
            if pairs.is_empty() {
                continue;
            }
            let (mean, sd) = mean_and_sd(&pairs);
            let error = sd.map_or(String::new(), |sd| short(sd / (pairs.len() as f64).sqrt()));
            rows.push(vec![
                setting.to_owned(),
                (*method).to_owned(),
                short(mean),
                error,
                pairs.len().to_string(),
            ]);
        }
    }
    let header = [
        "setting",
        "comparator",
        "mean difference",
        "standard error",
        "trials",
    ];
    TextTable {
        title: format!("AUC of {OURS} minus AUC of each comparator on the same trials"),
        header: header.map(str::to_owned).to_vec(),
        rows,
    }
}

/// Comparators beside the figures printed for them.
fn printed(source: &Source, results: &[ResultRow]) -> TextTable {
    let mut rows = Vec::new();
    for (method, missing, figures) in source.printed {
        for (train, figure) in FRACTIONS.iter().zip(figures) {
            let setting = setting(*missing, *train);
            if let Some(row) = find(results, &setting, method) {
                let numbers = [
                    format!("{:.4}", row.mean),
                    figure.to_string(),
                    short(row.mean - figure),
                ];
                rows.push([vec![(*method).to_owned(), setting], numbers.to_vec()].concat());
            }
        }
    }
    TextTable {
        title: "Comparators beside the mean AUC recorded for a reference implementation on the same splits".to_owned(),
        header: ["method", "setting", "ours", "recorded", "difference"].map(str::to_owned).to_vec(),
        rows,
    }
}

/// One panel per missing fraction: our method, its plug-in variant and every comparator.
fn figure(source: &Source, results: &[ResultRow]) -> Result<crate::reproduce::Figure> {
    let mut panels = Vec::new();
    for missing in [0.25, 0.5] {
        let curve = |method: &str| -> Series {
            let point = |&train: &f64| {
                let row = find(results, &setting(missing, train), method)?;
                Some(Point {
                    x: train,
                    y: row.mean,
                    sd: row.sd,
                })
            };
            Series {
                name: method.to_owned(),
                points: FRACTIONS.iter().filter_map(point).collect(),
            }
        };
        let series: Vec<Series> = methods(results)
            .into_iter()
            .map(curve)
            .filter(|s| !s.points.is_empty())
            .collect();
        if !series.is_empty() {
            panels.push(Panel {
                title: format!("{}, {:.0}% missing", source.name, 100.0 * missing),
                x_label: "fraction of rows in training".to_owned(),
                y_label: "mean AUC".to_owned(),
                series,
            });
        }
    }
    let caption = "Mean over trials; bars are one standard deviation over trials.";
    lines("auc", &format!("AUC on {}", source.name), caption, &panels)
}

fn notes(data: &Data) -> Vec<String> {
    let origin = match data.given {
        Some(_) => "Masks and splits are the given ones, so that comparisons are paired.",
        None => {
            "No given masks and splits were found: they were drawn from the seed by the same protocol."
        }
    };
    let names = "Comparators are named classifier+imputation: mean (unconditional), chained (conditional mean by chained \
                 equations), gaussian (conditional mean under one Gaussian fitted by EM).";
    vec![origin.to_owned(), names.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data set of two shifted clouds without given splits.
    fn data() -> Data {
        let (n, p) = (60, 3);
        let value =
            |i: usize, j: usize| ((i * 37 + j * 11 + i * j) % 17) as f64 / 8.0 + (i % 2) as f64;
        let values = (0..n)
            .flat_map(|i| (0..p).map(move |j| value(i, j)))
            .collect();
        let labels: Vec<Option<&str>> = (0..n)
            .map(|i| Some(if i % 2 == 1 { "b" } else { "a" }))
            .collect();
        Data {
            table: Table::complete(n, p, values).unwrap(),
            labels: Labels::from_strings(&labels),
            positive: "b",
            given: None,
            checksums: String::new(),
        }
    }

    #[test]
    fn drawn_splits_follow_the_protocol() {
        let data = data();
        for trial in 0..5 {
            let work = Work {
                method: Method::Iqgme,
                missing: 0.5,
                train: 0.3,
                trial,
            };
            let (mask, split) = data.mask_and_split(&work, 1).unwrap();
            assert_eq!(mask.count_ones(), 90);
            let holed = data.table.hide(&mask).unwrap();
            let used: Vec<usize> = [split.train.clone(), split.test.clone()].concat();
            assert!(
                used.iter()
                    .all(|&i| holed.observed_in_row(i).next().is_some())
            );
            assert_eq!(used.len() + holed.empty_rows().len(), 60);
            for side in [&split.train, &split.test] {
                assert!(
                    data.labels
                        .select_rows(side)
                        .counts()
                        .iter()
                        .all(|&count| count > 0)
                );
            }
            // The same mask whatever the training fraction.
            let other = Work { train: 0.7, ..work };
            assert_eq!(data.mask_and_split(&other, 1).unwrap().0, mask);
        }
    }

    #[test]
    fn every_comparator_learns_an_easy_problem() {
        let data = data();
        for (name, method) in METHODS.iter().filter(|(name, _)| *name != OURS) {
            let work = Work {
                method: *method,
                missing: 0.1,
                train: 0.5,
                trial: 0,
            };
            let auc = run(&data, &work, 1, 1).unwrap().metrics["auc"];
            assert!(auc > 0.8, "{name}: {auc}");
        }
    }

    #[test]
    fn differences_are_paired_by_trial() {
        let record = |method: &str, trial: u64, auc: f64| Record {
            key: crate::reproduce::TrialKey {
                experiment: String::new(),
                dataset: String::new(),
                setting: "missing=0.25;train=0.5".into(),
                method: method.into(),
                trial,
                seed: 0,
                config: String::new(),
            },
            outcome: Outcome::metrics([("auc", auc)]),
        };
        let records = [
            record(OURS, 0, 0.75),
            record(OURS, 1, 0.5),
            record("svm-rbf+mean", 1, 0.25),
            record("svm-rbf+mean", 0, 0.625),
        ];
        let table = differences(&records);
        // 0.125 and 0.25: mean 0.1875, standard error 0.0625.
        assert_eq!(
            table.rows,
            [[
                "missing=0.25;train=0.5",
                "svm-rbf+mean",
                "0.1875",
                "0.06250",
                "2"
            ]]
        );
    }
}
