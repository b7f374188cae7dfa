//! Whether probabilities are what they say: class probabilities of test rows, and intervals of hidden cells.

mod report;

use std::collections::BTreeMap;

use npb_baselines::{ChainedConfig, ChainedImputer};
use npb_data::metrics;
use npb_iqgme::IqgmeFit;

use super::cells::{HiddenCell, coverage, hidden_cells};
use super::data::{Data, IONOSPHERE, Side, Sides, WDBC};
use super::methods::{METHODS, Method, Predicted, fit};
use npb_kit::{Context, Experiment, Outcome, Report, Result, Scale, Trial};
use report::{CHAINED, RATES, TRAIN, levels, setting};

pub(crate) const CALIBRATION: Experiment = Experiment {
    id: "iqgme/calibration",
    what: "ionosphere and wdbc: calibration of class probabilities, coverage of the intervals of hidden cells",
    paper: "figure 3.9 shows coverage near nominal at large training sizes, without printed numbers",
    data: &["ionosphere", "wdbc"],
    run,
};

/// Probabilities of the central intervals that have a target.
const INTERVALS: [(f64, &str); 2] = [(0.68, "68"), (0.95, "95")];

/// What a trial does.
#[derive(Clone, Copy)]
enum Task {
    /// Class probabilities; for our method hidden cells as well.
    Classify(Method),
    /// Conditional means of hidden cells by chained equations.
    Chained,
}

#[derive(Clone, Copy)]
struct Work {
    set: usize,
    missing: f64,
    task: Task,
}

fn run(context: &Context<'_>) -> Result<Report> {
    let sets = [
        Data::load(context, &IONOSPHERE)?,
        Data::load(context, &WDBC)?,
    ];
    let records = context.run_trials(&design(context.scale, &sets), |trial, seed| {
        let Work { set, missing, task } = trial.work;
        let sides = sets[set].masked_sides(missing, TRAIN, trial.trial, context.seed)?;
        let n_columns = sets[set].table.n_cols();
        match task {
            Task::Classify(Method::Iqgme) => {
                let fit = fit(&sides.train, seed)?;
                let predicted = Predicted::by(&fit, &sides.test.rows)?;
                let mut outcome = probabilities(&predicted, &sides.test)?;
                let plug_in = Predicted::plug_in(&fit, &sides.test.rows)?;
                for (name, value) in plug_in.metrics(&sides.test.positive)? {
                    outcome.metrics.insert(format!("plug-in/{name}"), value);
                }
                cells(&fit, &sides, n_columns, &mut outcome)?;
                Ok(outcome)
            }
            Task::Classify(method) => probabilities(&method.predict(&sides, seed)?, &sides.test),
            Task::Chained => chained(&sides),
        }
    })?;
    report::report(&sets, &records)
}

fn design(scale: Scale, sets: &[Data]) -> Vec<Trial<Work>> {
    let (rates, n): (&[f64], u64) = match scale {
        Scale::Smoke => (&RATES[..1], 1),
        Scale::Quick | Scale::Paper => (&RATES, 10),
    };
    let classify = METHODS.map(|(name, method)| (name, Task::Classify(method)));
    let tasks = classify.into_iter().chain([(CHAINED, Task::Chained)]);
    let tasks: Vec<(&str, Task)> = tasks.collect();
    let mut trials = Vec::new();
    for (set, data) in sets.iter().enumerate() {
        for &missing in rates {
            for &(name, task) in &tasks {
                for trial in 0..n {
                    let configuration = match task {
                        Task::Classify(method) => method.configuration(),
                        Task::Chained => format!("{:?}", ChainedConfig::default()),
                    };
                    trials.push(Trial {
                        dataset: data.name.to_owned(),
                        setting: setting(missing),
                        method: name.to_owned(),
                        trial,
                        config: format!("{}\n{configuration}", data.checksums),
                        work: Work { set, missing, task },
                    });
                }
            }
        }
    }
    trials
}

/// Metrics of the class probabilities, and the probabilities themselves for the pooled curve.
fn probabilities(predicted: &Predicted, test: &Side) -> Result<Outcome> {
    let positive = test.positive.iter().map(|&p| f64::from(u8::from(p)));
    let series = [
        ("probability", predicted.probabilities.clone()),
        ("positive", positive.collect()),
    ];
    Ok(Outcome {
        metrics: predicted.metrics(&test.positive)?,
        series: series
            .map(|(name, values)| (name.to_owned(), values))
            .into(),
    })
}

/// Coverage and error of the hidden cells of both sides, their coverage curve, and their coverage column by column.
fn cells(fit: &IqgmeFit, sides: &Sides, n_columns: usize, outcome: &mut Outcome) -> Result<()> {
    let Sides { train, test, .. } = sides;
    let train = hidden_cells(train, &fit.training_cells(&train.rows, &train.labels)?)?;
    let test = hidden_cells(test, &fit.cells_by_row(&test.rows)?)?;
    let both = || train.iter().chain(&test);
    let truth: Vec<f64> = both().map(|cell| cell.truth).collect();
    let mean: Vec<f64> = both().map(|cell| cell.mean).collect();
    let metrics = &mut outcome.metrics;
    metrics.insert("imputed_rmse".to_owned(), metrics::rmse(&mean, &truth)?);
    for (level, name) in INTERVALS {
        let of = format!("coverage_{name}");
        metrics.insert(format!("{of}_train"), coverage(train.iter(), level));
        metrics.insert(format!("{of}_test"), coverage(test.iter(), level));
        metrics.insert(of, coverage(both(), level));
    }
    let curve = levels().map(|level| coverage(both(), level)).collect();
    outcome.series.insert("coverage".to_owned(), curve);
    outcome
        .series
        .extend(by_column(both(), &sides.columns, n_columns));
    Ok(())
}

/// For each column of the data set its number of hidden cells, and how many of them lie within each interval.
fn by_column<'a>(
    cells: impl Iterator<Item = &'a HiddenCell>,
    columns: &[usize],
    n_columns: usize,
) -> BTreeMap<String, Vec<f64>> {
    let mut counts = vec![vec![0.0; n_columns]; 1 + INTERVALS.len()];
    for cell in cells {
        let column = columns[cell.column];
        counts[0][column] += 1.0;
        for (k, (level, _)) in INTERVALS.iter().enumerate() {
            counts[1 + k][column] += f64::from(u8::from(cell.level <= *level));
        }
    }
    let names = INTERVALS.map(|(_, name)| format!("column_{name}"));
    let names = std::iter::once("column_cells".to_owned()).chain(names);
    names.zip(counts).collect()
}

/// Error of the conditional means by chained equations in the same cells.
fn chained(sides: &Sides) -> Result<Outcome> {
    let imputer = ChainedImputer::fit(&sides.train.rows, &ChainedConfig::default())?;
    let (mut mean, mut truth) = (Vec::new(), Vec::new());
    for side in [&sides.train, &sides.test] {
        let filled = imputer.transform(&side.rows)?;
        for (row, column) in side.hidden() {
            mean.push(filled.row(row)[column]);
            truth.push(side.whole.row(row)[column]);
        }
    }
    Ok(Outcome::metrics([(
        "imputed_rmse",
        metrics::rmse(&mean, &truth)?,
    )]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::data::tests::example;

    #[test]
    fn cells_are_counted_in_the_columns_of_the_data_set() {
        let cell = |column: usize, level: f64| HiddenCell {
            column,
            mean: 0.0,
            truth: 0.0,
            level,
        };
        let cells = [cell(0, 0.1), cell(1, 0.7), cell(1, 0.99)];
        let found = by_column(cells.iter(), &[1, 3], 4);
        assert_eq!(found["column_cells"], [0.0, 1.0, 0.0, 2.0]);
        assert_eq!(found["column_68"], [0.0, 1.0, 0.0, 0.0]);
        assert_eq!(found["column_95"], [0.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn both_imputations_are_measured_in_the_same_cells() {
        let data = example();
        let sides = data.masked_sides(0.25, 0.5, 0, 1).unwrap();
        let fit = fit(&sides.train, 1).unwrap();
        let mut outcome = Outcome::default();
        cells(&fit, &sides, data.table.n_cols(), &mut outcome).unwrap();
        let hidden = sides.train.hidden().count() + sides.test.hidden().count();
        let counted: f64 = outcome.series["column_cells"].iter().sum();
        assert_eq!(counted as usize, hidden);
        // The constant column is in no model.
        assert_eq!(outcome.series["column_cells"][3], 0.0);
        let [wide, narrow] = ["coverage_95", "coverage_68"].map(|name| outcome.metrics[name]);
        assert!(wide > narrow && narrow > 0.4, "{narrow} {wide}");
        let theirs = chained(&sides).unwrap().metrics["imputed_rmse"];
        let ours = outcome.metrics["imputed_rmse"];
        assert!(ours < 1.3 && theirs < 1.3, "{ours} {theirs}");
    }
}
