//! Tables 1 and 2: hidden cells of simulated tables, when one clustering drives all columns and when each has its own.

use std::collections::BTreeSet;

use npb_itf::{
    DependenceConfig, Grouping, ImputedCell, ItfConfig, ItfData, ItfFit, ItfRows, Structure,
    fit_data,
};

use super::names::{DPM, ITF, ONE_BLOCK, TRUTH, mixture};
use super::scenarios::{Answer, C1, C2, HELD_OUT_LEVELS, NAMES, Scenario, Simulated};
use npb_kit::tables::{differences, overview};
use npb_kit::{Context, Outcome, Record, Report, Result, Run, Scale, Trial, summarise};

pub(super) const TABLE_1: Run = |context| reproduce(context, Scenario::One);

pub(super) const TABLE_2: Run = |context| reproduce(context, Scenario::Own);

const METHODS: [(&str, Option<Structure>); 4] = [
    (ITF, Some(Structure::TensorBlocks)),
    (ONE_BLOCK, Some(Structure::Tensor)),
    (DPM, Some(Structure::Joint)),
    (TRUTH, None),
];

const METRICS: &str =
    "error_real error_rate error_rate_further dependent same_block information seconds";

/// Names of the held-out columns and their metrics: the paper's number of cells, then the further ones.
const MEASURED: [(&str, &str); 5] = [
    ("R", "error_real"),
    ("C1", "error_rate"),
    ("C1", "error_rate_further"),
    ("C2", "error_rate"),
    ("C2", "error_rate_further"),
];

fn reproduce(context: &Context<'_>, scenario: Scenario) -> Result<Report> {
    let n_rows = n_rows(context.scale);
    let scale = context.scale;
    let mut trials = Vec::new();
    // Data set by data set, so that a stopped run has whole comparisons.
    for trial in 0..scale.smoke_or(2, 20) {
        for (name, structure) in METHODS {
            let settings = structure.map(|structure| config(scale, structure, 0));
            let config = format!("{n_rows} rows\n{settings:?}");
            trials.push(Trial::new(
                ["simulated", "", name],
                trial,
                config,
                structure,
            ));
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let data = Simulated::draw(scenario, n_rows, seed)?;
        Ok(match trial.work {
            None => outcome(&data, &data.truth()),
            Some(structure) => {
                let (fit, rows) = fit(&data, &config(context.scale, structure, seed))?;
                let mut outcome = outcome(&data, &predict(&data, &fit, &rows)?);
                let verdicts = structure == Structure::TensorBlocks;
                let settings = verdicts.then(|| dependence(context.scale, seed));
                add_dependence(&fit, &rows, settings.as_ref(), &mut outcome)?;
                outcome
            }
        })
    })?;
    let records = by_column(&records);
    let results = summarise(&records, |_, setting, method, metric| {
        printed(scenario, setting, method, metric)
    });
    Ok(Report {
        tables: vec![
            overview(
                "Errors of held-out cells, and dependence",
                &results,
                METRICS,
            ),
            differences(
                &records,
                ITF,
                &[TRUTH, DPM, ONE_BLOCK],
                "error_real error_rate error_rate_further",
            ),
        ],
        notes: notes(),
        results,
        ..Default::default()
    })
}

fn config(scale: Scale, structure: Structure, seed: u64) -> ItfConfig {
    mixture(scale, (50, 20), structure, Grouping::Off, seed)
}

fn n_rows(scale: Scale) -> usize {
    scale.smoke_or(200, 1000)
}

/// Fits a mixture to the table.
fn fit(data: &Simulated, config: &ItfConfig) -> Result<(ItfFit, ItfRows)> {
    let (table, fields) = data.table()?;
    let columns = ItfData::from_fields(&table, &fields)?;
    let fit = fit_data(&columns, config)?;
    let rows = fit.rows_of(&columns, true)?;
    Ok((fit, rows))
}

/// Answers for the hidden cells.
fn predict(data: &Simulated, fit: &ItfFit, rows: &ItfRows) -> Result<Vec<Answer>> {
    let cells = fit.impute_cells(rows, 0.9)?;
    let answer = |row, field| {
        let asked = |cell: &&ImputedCell| (cell.row, cell.column) == (row, field);
        let cell = cells.iter().find(asked);
        cell.map(|cell| cell.expected.clone())
            .ok_or_else(|| format!("row {row}, field {field}: no prediction").into())
    };
    data.held_out
        .iter()
        .map(|h| answer(h.row, h.field))
        .collect()
}

fn dependence(scale: Scale, seed: u64) -> DependenceConfig {
    let mut config = DependenceConfig {
        seed,
        ..Default::default()
    };
    if scale == Scale::Smoke {
        config.sweeps.burn_in = 20;
        config.sweeps.thin = 1;
        config.permutations = 199;
    }
    config
}

/// All pairs of fields.
fn all_pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..NAMES.len()).flat_map(|b| (0..b).map(move |a| (a, b)))
}

fn pair_name((a, b): (usize, usize)) -> String {
    format!("{}-{}", NAMES[a], NAMES[b])
}

/// Adds mutual information of latent indices for all pairs and, with `settings`, verdicts.
fn add_dependence(
    fit: &ItfFit,
    rows: &ItfRows,
    settings: Option<&DependenceConfig>,
    outcome: &mut Outcome,
) -> Result<()> {
    let draws = fit.draws();
    let mut add = |pair: (usize, usize), metric: &str, value: f64| {
        let name = format!("{} {metric}", pair_name(pair));
        outcome.metrics.insert(name, value);
    };
    for (a, b) in all_pairs() {
        let information = draws.iter().map(|draw| draw.mutual_information(a, b));
        add(
            (a, b),
            "information",
            information.sum::<f64>() / draws.len() as f64,
        );
    }
    let Some(settings) = settings else {
        return Ok(());
    };
    for pair in fit.dependence(rows, settings)?.pairs() {
        let place = (pair.a, pair.b);
        add(place, "same_block", pair.same_block);
        add(place, "dependent", f64::from(pair.dependent));
    }
    Ok(())
}

/// Metrics are named `column metric` or `pair metric` until [`by_column`] takes them apart.
fn outcome(data: &Simulated, answers: &[Answer]) -> Outcome {
    let mut outcome = Outcome::default();
    for (column, metric) in MEASURED {
        let value = match column {
            "R" => data.error_real(answers),
            _ => {
                let field = if column == "C1" { C1 } else { C2 };
                data.error_rate(answers, field, metric != "error_rate")
            }
        };
        outcome.metrics.insert(format!("{column} {metric}"), value);
    }
    outcome
}

/// One record for each column and pair of a record, which goes into its setting; seconds stay with the record.
fn by_column(records: &[Record]) -> Vec<Record> {
    let mut all = Vec::new();
    for record in records {
        let places = record.outcome.metrics.keys().map(|name| place(name).0);
        for column in places.collect::<BTreeSet<&str>>() {
            let mut part = record.clone();
            part.outcome.metrics.clear();
            for (name, &value) in &record.outcome.metrics {
                let (of, metric) = place(name);
                if of == column {
                    part.outcome.metrics.insert(metric.to_owned(), value);
                }
            }
            if !column.is_empty() {
                part.key.setting = setting(column);
            }
            all.push(part);
        }
    }
    all
}

/// A column or pair, and the metric.
fn place(name: &str) -> (&str, &str) {
    name.split_once(' ').unwrap_or(("", name))
}

fn setting(place: &str) -> String {
    let key = if place.contains('-') {
        "pair"
    } else {
        "column"
    };
    format!("{key}={place}")
}

/// What the paper prints, for tables with other parameters.
fn printed(scenario: Scenario, place: &str, method: &str, metric: &str) -> Option<f64> {
    if !["error_real", "error_rate"].contains(&metric) {
        return None;
    }
    let printed = match (scenario, method) {
        (Scenario::One, ITF) => [1.79, 0.31, 0.37],
        (Scenario::One, DPM) => [1.43, 0.23, 0.36],
        (Scenario::Own, ITF) => [4.61, 0.27, 0.34],
        (Scenario::Own, DPM) => [10.82, 0.55, 0.57],
        _ => return None,
    };
    let columns = ["R", "C1", "C2"];
    let column = columns.iter().position(|c| setting(c) == place)?;
    Some(printed[column])
}

fn notes() -> Vec<String> {
    let [few, more] = HELD_OUT_LEVELS;
    vec![
        "T: a series of 50 times, AR(1) with unit innovations, started from its stationary law; R: a vector of 4; C1, C2, C3: 3 levels. The \
         parameters are ours; the paper's are not printed, so its numbers are for reference only."
            .to_owned(),
        format!(
            "Held out: R of 50 rows (`error_real`: root mean squared error of the coordinates over the standard deviation of R), C1 and C2 of {few} \
             rows each (`error_rate`: share of wrong levels) and of {more} further rows (`error_rate_further`). Rows are drawn for each column by itself."
        ),
        format!(
            "Dependence: mutual information of latent indices is that of a fit, averaged over its draws; verdicts come from tests of pairs by permutation \
             (`{ITF}`'s, which ask the columns, not the fit). `{DPM}` has one index for all columns: the information of every pair is its entropy."
        ),
        format!(
            "`{TRUTH}`: the best prediction from the other cells of the row by one who knows all parameters, but no labels. `{ITF}`: the default, with \
             blocks of columns; `{ONE_BLOCK}`: the paper's model; `{DPM}`: one clustering."
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::scenarios::R;
    use super::*;
    use npb_kit::TrialKey;
    use npb_kit::tables::find;

    #[test]
    fn every_mixture_answers_every_hidden_cell() {
        let data = Simulated::draw(Scenario::One, 200, 5).unwrap();
        for (name, structure) in METHODS {
            let Some(structure) = structure else { continue };
            let (fit, rows) = fit(&data, &config(Scale::Smoke, structure, 5)).unwrap();
            let answers = predict(&data, &fit, &rows).unwrap();
            for (hidden, answer) in data.held_out.iter().zip(&answers) {
                let total: f64 = answer.iter().sum();
                let fits = match hidden.field {
                    R => answer.len() == 4 && answer.iter().all(|m| m.abs() < 3.0),
                    _ => answer.len() == 3 && (total - 1.0).abs() < 1e-9,
                };
                assert!(fits, "{name}: {answer:?}");
            }
        }
    }

    #[test]
    fn metrics_are_sorted_by_column() {
        let data = Simulated::draw(Scenario::Own, 200, 5).unwrap();
        let mut outcome = outcome(&data, &data.truth());
        outcome.metrics.insert("T-R dependent".to_owned(), 1.0);
        let (real, rate) = (
            outcome.metrics["R error_real"],
            outcome.metrics["C2 error_rate"],
        );
        let key = TrialKey {
            experiment: String::new(),
            dataset: "simulated".into(),
            setting: String::new(),
            method: TRUTH.into(),
            trial: 0,
            seed: 0,
            config: String::new(),
        };
        let records = by_column(&[Record { key, outcome }]);
        let results = summarise(&records, |_, _, _, _| None);
        assert_eq!(results.len(), MEASURED.len() + 1);
        let mean = |column, metric| find(&results, column, TRUTH, metric).unwrap().mean;
        assert_eq!(mean("column=R", "error_real"), real);
        assert_eq!(mean("column=C2", "error_rate"), rate);
        assert_eq!(mean("pair=T-R", "dependent"), 1.0);
    }

    #[test]
    fn the_paper_is_beside_its_own_numbers_only() {
        let of = |method, metric| printed(Scenario::Own, "column=C1", method, metric);
        assert_eq!(of(DPM, "error_rate"), Some(0.55));
        assert_eq!(of(DPM, "error_rate_further"), None);
        assert_eq!(of(ONE_BLOCK, "error_rate"), None);
    }
}
