//! Whether probabilities are what they say: class probabilities of test rows, and intervals of hidden cells.

use npb_data::metrics;
use npb_iqgme::{IqgmeConfig, MissingCell};

use crate::data::{Data, IONOSPHERE, Side, Sides, WDBC};
use crate::data::{OURS, setting};
use npb_kit::tables::overview;
use npb_kit::{
    Context, Layer, Outcome, Panel, Point, Record, Report, Result, ResultRow, Run, Trial, lines,
    summarise,
};

pub(crate) const CALIBRATION: Run = run;

/// Fraction of the rows in training.
const TRAIN: f64 = 0.5;
const RATES: [f64; 2] = [0.25, 0.5];
/// Bins of expected calibration errors.
const BINS: usize = 10;
/// Probabilities of central intervals.
const INTERVALS: [(f64, &str); 2] = [(0.68, "coverage_68"), (0.95, "coverage_95")];

fn run(context: &Context<'_>) -> Result<Report> {
    let sets = [
        Data::load(context, &IONOSPHERE)?,
        Data::load(context, &WDBC)?,
    ];
    let (rates, n): (&[f64], u64) = context.scale.smoke_or((&RATES[..1], 1), (&RATES, 10));
    let mut trials = Vec::new();
    for data in &sets {
        for &missing in rates {
            let config = format!("{}\n{:?}", data.checksums, IqgmeConfig::default());
            let place = [data.name, &setting(missing, TRAIN), OURS];
            trials.extend(Trial::runs(n, place, &config, (data, missing)));
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let (data, missing) = trial.work;
        let sides = data.masked(missing, TRAIN, trial.trial, context.seed)?;
        examine(&Sides::informative(sides)?, seed)
    })?;
    let mut results = summarise(&records, |_, _, _, _| None);
    let pooled: Vec<Pooled> = sets
        .iter()
        .flat_map(|data| of_set(data, &records))
        .collect();
    for of_place in &pooled {
        results.push(of_place.error()?);
    }
    let metrics = "ece ece_pooled log_loss auc coverage_68 coverage_95";
    let mut notes = vec![
        "Features are in units of the training standard deviation; columns that are constant in training are left out. `ece`: expected calibration error \
         with 10 bins of equal width, on the test rows of each trial; `ece_pooled`: of the test rows of all trials together. `coverage_68` and `coverage_95`: share of the hidden \
         cells of training and test rows whose true values lie in the central interval of that probability of the cell's distribution."
            .to_owned(),
    ];
    notes.extend(
        sets.iter()
            .map(|data| format!("{}: {}", data.name, data.origin())),
    );
    Ok(Report {
        tables: vec![overview("Test rows and hidden cells", &results, metrics)],
        figures: vec![lines(
            "reliability",
            "Class probabilities of the test rows",
            "Test rows of all trials together, 10 bins of equal width; bars are binomial standard errors (too short: trials share rows).",
            &pooled
                .iter()
                .map(Pooled::panel)
                .collect::<Result<Vec<_>>>()?,
        )?],
        notes,
        results,
    })
}

/// Metrics of the class probabilities, and the probabilities themselves for the pooled curve; coverage of hidden cells of both sides.
fn examine(Sides { train, test }: &Sides, seed: u64) -> Result<Outcome> {
    let fit = train.fit(seed)?;
    let p = fit.predict_proba(&test.rows)?;
    let mut outcome = Outcome::metrics([
        ("auc", metrics::auc(&p, &test.positive)?),
        ("log_loss", metrics::log_loss(&p, &test.positive)?),
        (
            "ece",
            metrics::expected_calibration_error(&p, &test.positive, BINS)?,
        ),
    ]);
    let mut levels = levels(train, &fit.training_cells(&train.rows, &train.labels)?)?;
    levels.extend(self::levels(test, &fit.cells_by_row(&test.rows)?)?);
    for (probability, name) in INTERVALS {
        let inside = levels.iter().filter(|level| **level <= probability).count();
        let share = inside as f64 / levels.len() as f64;
        outcome.metrics.insert(name.to_owned(), share);
    }
    let positive = test.positive.iter().map(|&p| f64::from(u8::from(p)));
    outcome
        .series
        .insert("positive".to_owned(), positive.collect());
    outcome.series.insert("probability".to_owned(), p);
    Ok(outcome)
}

/// For every hidden cell of one side the probability of the smallest central interval of its distribution that holds the truth.
fn levels(side: &Side, said: &[Vec<MissingCell>]) -> Result<Vec<f64>> {
    let level = |(row, column): (usize, usize)| {
        let found = said[row].iter().find(|cell| cell.column == column);
        let found = found.ok_or_else(|| format!("column {column} is not in the model"))?;
        let truth = side.whole.get(row, column).ok_or("a cell without truth")?;
        Ok((2.0 * found.cdf(truth) - 1.0).abs())
    };
    side.hidden().map(level).collect()
}

/// Probabilities and classes of the test rows of all trials in one place.
struct Pooled {
    dataset: &'static str,
    missing: f64,
    trials: usize,
    probabilities: Vec<f64>,
    positive: Vec<bool>,
}

fn of_set(data: &Data, records: &[Record]) -> Vec<Pooled> {
    let of_rate = |missing: f64| {
        let place = (data.name, setting(missing, TRAIN));
        let own = |r: &&Record| (&*r.key.dataset, &r.key.setting) == (place.0, &place.1);
        let own: Vec<&Record> = records.iter().filter(own).collect();
        let all = |name| own.iter().flat_map(move |r| r.outcome.series[name].clone());
        Pooled {
            dataset: data.name,
            missing,
            trials: own.len(),
            probabilities: all("probability").collect(),
            positive: all("positive").map(|y| y > 0.5).collect(),
        }
    };
    let all = RATES.map(of_rate).into_iter();
    all.filter(|of_place| of_place.trials > 0).collect()
}

impl Pooled {
    fn error(&self) -> Result<ResultRow> {
        let (p, positive) = (&self.probabilities, &self.positive);
        Ok(ResultRow {
            trials: self.trials,
            ..ResultRow::single(
                [
                    self.dataset,
                    &setting(self.missing, TRAIN),
                    OURS,
                    "ece_pooled",
                ],
                metrics::expected_calibration_error(p, positive, BINS)?,
            )
        })
    }

    fn panel(&self) -> Result<Panel> {
        let bins = metrics::calibration_curve(&self.probabilities, &self.positive, BINS)?;
        let point = |bin: metrics::CalibrationBin| {
            let y = bin.share_positive;
            Point {
                x: bin.mean_probability,
                y,
                sd: Some((y * (1.0 - y) / bin.n as f64).sqrt()),
            }
        };
        let diagonal = [Point::at(0.0, 0.0), Point::at(1.0, 1.0)];
        Ok(Panel::of_lines(
            format!("{}, {:.0}% missing", self.dataset, 100.0 * self.missing),
            ["mean predicted probability", "share of the second class"],
            [
                Layer::line("calibrated", diagonal),
                Layer::line(OURS, bins.into_iter().map(point)),
            ],
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::tests::example;

    #[test]
    fn every_hidden_cell_of_the_model_has_its_level() {
        let sides = Sides::informative(example().masked(0.25, 0.5, 0, 1).unwrap()).unwrap();
        let fit = sides.train.fit(1).unwrap();
        let said = fit.cells_by_row(&sides.test.rows).unwrap();
        let found = levels(&sides.test, &said).unwrap();
        assert_eq!(found.len(), sides.test.hidden().count());
        let found = examine(&sides, 1).unwrap().metrics;
        let [wide, narrow] = ["coverage_95", "coverage_68"].map(|name| found[name]);
        assert!(wide > narrow && narrow > 0.4, "{narrow} {wide}");
        assert!(found["auc"] > 0.8 && found["log_loss"] < 0.6, "{found:?}");
    }
}
