//! Figures 3.5 and 3.6: AUC against training fraction when 25% and 50% of the cells are missing completely at random.

pub(super) mod data;
mod tables;

use npb_baselines::{
    ChainedConfig, ChainedImputer, GaussianConfig, GaussianImputer, Kernel, LogisticConfig,
    LogisticRegression, MeanImputer, Svm, SvmConfig,
};
use npb_data::{Table, metrics};
use npb_iqgme::IqgmeConfig;

use crate::Result;
use crate::reproduce::{Context, Experiment, Outcome, Report, Scale, Trial, summarise};
use data::{Cell, Data, Sides, Source};

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

pub(super) const IONOSPHERE: Source = Source {
    name: "ionosphere",
    file: "ionosphere.data",
    label: 34,
    skip: &[],
    positive: "g",
    recorded: &[
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
    recorded: &[
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

fn reproduce(context: &Context<'_>, source: &Source) -> Result<Report> {
    let data = Data::load(context, source)?;
    let trials = design(context.scale, source.name, &data);
    let records = context.run_trials(&trials, |trial, seed| {
        let (method, cell) = trial.work;
        run(&data, method, &cell, context.seed, seed)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![
            tables::overview(&results),
            tables::differences(&records),
            tables::recorded(source, &results),
        ],
        figures: vec![tables::figure(source, &results)?],
        notes: notes(&data),
        results,
    })
}

/// All cells of the design at a scale.
fn design(scale: Scale, dataset: &str, data: &Data) -> Vec<Trial<(Method, Cell)>> {
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
                        work: (
                            method,
                            Cell {
                                missing,
                                train,
                                trial,
                            },
                        ),
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

/// One trial. `run_seed` draws masks and splits where none are given; `seed` is the trial's own.
fn run(data: &Data, method: Method, cell: &Cell, run_seed: u64, seed: u64) -> Result<Outcome> {
    let sides = Sides::new(data, cell, run_seed)?;
    let auc = |scores: &[f64]| metrics::auc(scores, &sides.test_positive);
    match method {
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

    #[test]
    fn every_comparator_learns_an_easy_problem() {
        let data = data::tests::example();
        for (name, method) in METHODS.iter().filter(|(name, _)| *name != OURS) {
            let cell = Cell {
                missing: 0.1,
                train: 0.5,
                trial: 0,
            };
            let auc = run(&data, *method, &cell, 1, 1).unwrap().metrics["auc"];
            assert!(auc > 0.8, "{name}: {auc}");
        }
    }
}
