//! Figure 3.13: AUC against training fraction where there are about as many features as rows, values missing as they are in the data.

mod data;

use npb_baselines::{BoostedConfig, CellValue, boosted_cells};
use npb_data::{Labels, Mask, MixedColumn, MixedTable, metrics};
use npb_iqgme::FactorConfig;

use super::comparators::{COMPARATORS, Comparator};
use super::data::FRACTIONS;
use data::{Data, SOURCES, Sides, Source};
use npb_kit::tables;
use npb_kit::{
    Context, Figure, Outcome, Panel, Record, Report, Result, ResultRow, Scale, TextTable, Trial,
    against, lines, summarise,
};

/// The method that the others are compared with.
const OURS: &str = "npb:iqgme-mfa";

#[derive(Clone, Copy)]
enum Method {
    Factor,
    Boosted,
    Shared(Comparator),
}

/// Comparators of the other figures that can take hundreds of columns.
const SHARED: [&str; 13] = [
    "svm-rbf+mean",
    "svm-rbf+gaussian",
    "svm-rbf+chained",
    "svm-linear+mean",
    "svm-linear+gaussian",
    "rvm-rbf+mean",
    "rvm-rbf+gaussian",
    "rvm-linear+mean",
    "rvm-linear+gaussian",
    "logistic+mean",
    "logistic+gaussian",
    "forest+mean",
    "forest+gaussian",
];

/// Every method with its name in `results.csv`.
fn methods() -> Vec<(&'static str, Method)> {
    let shared = COMPARATORS.into_iter();
    let shared = shared.filter(|(name, _)| SHARED.contains(name));
    std::iter::once((OURS, Method::Factor))
        .chain(shared.map(|(name, method)| (name, Method::Shared(method))))
        .chain([("boosted-trees", Method::Boosted)])
        .collect()
}

/// Chained equations take a regression on all other columns for each column with holes and round: only where few columns have holes.
const MOST_CHAINED_COLUMNS: usize = 20;

/// With holes in more columns than this a split of all methods takes minutes.
const SLOW_COLUMNS: usize = 100;

pub(super) fn reproduce(context: &Context<'_>) -> Result<Report> {
    let sets: Vec<Data> = SOURCES
        .iter()
        .map(|source| Data::load(context, source))
        .collect::<Result<_>>()?;
    let scale = context.scale;
    let mut trials = Vec::new();
    // Seconds, not minutes: the first set alone.
    for (data, source) in sets.iter().zip(&SOURCES).take(scale.smoke_or(1, 3)) {
        let with_holes = data.columns_with_holes();
        let (fractions, n): (&[f64], u64) = match scale {
            Scale::Smoke => (&[0.1], 1),
            Scale::Quick if with_holes > SLOW_COLUMNS => (&[0.5], 1),
            Scale::Quick => (&[0.1, 0.5, 0.9], 2),
            Scale::Paper => (&FRACTIONS, 100),
        };
        for &train in fractions {
            for (name, method) in methods() {
                if name.ends_with("+chained") && with_holes > MOST_CHAINED_COLUMNS {
                    continue;
                }
                let config = format!("{}\n{}", data.checksums, configuration(method));
                let place = [source.folder, &source.setting(train), name];
                trials.extend(Trial::runs(n, place, &config, (data, method, train)));
            }
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let (data, method, train) = trial.work;
        let sides = Sides::new(data, train, trial.trial, context.seed)?;
        run(&sides, method, seed)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![
            tables::by_setting(
                "Mean AUC (standard deviation over trials)",
                &results,
                "auc",
                |_| String::new(),
            ),
            differences(&records),
        ],
        figures: vec![figure(&results)?],
        notes: notes(),
        results,
    })
}

/// Everything that a method's outcome depends on besides data and seed.
fn configuration(method: Method) -> String {
    match method {
        Method::Factor => format!("{:?}", FactorConfig::default()),
        Method::Boosted => format!("{:?}", BoostedConfig::default()),
        Method::Shared(comparator) => comparator.configuration(),
    }
}

fn run(sides: &Sides, method: Method, seed: u64) -> Result<Outcome> {
    let Sides { train, test, .. } = sides;
    let scores = match method {
        Method::Factor => factor(sides, seed)?,
        Method::Boosted => boosted(sides, seed)?,
        Method::Shared(comparator) => {
            let found = comparator.scores(train, &sides.train_positive, test, seed)?;
            found.scores
        }
    };
    let auc = metrics::auc(&scores, &sides.test_positive)?;
    Ok(Outcome::metrics([("auc", auc)]))
}

fn factor(sides: &Sides, seed: u64) -> Result<Vec<f64>> {
    let name = |&positive: &bool| Some(if positive { "positive" } else { "negative" });
    let names: Vec<Option<&str>> = sides.train_positive.iter().map(name).collect();
    let labels =
        Labels::with_classes(["negative", "positive"].map(str::to_owned).to_vec(), &names)?;
    let config = FactorConfig {
        seed,
        ..Default::default()
    };
    let fit = npb_iqgme::fit_factor(&sides.train, &labels, &config)?;
    Ok(fit.predict_proba(&sides.test)?)
}

/// The class as one more column, which the trees predict for the test rows.
fn boosted(sides: &Sides, seed: u64) -> Result<Vec<f64>> {
    let all = sides.train.stack(&sides.test)?;
    let (n, n_train, p) = (all.n_rows(), sides.train.n_rows(), all.n_cols());
    let mut columns: Vec<MixedColumn> = (0..p)
        .map(|j| MixedColumn::Real((0..n).map(|i| all.get(i, j)).collect()))
        .collect();
    let positive = |i: usize| (i < n_train).then(|| sides.train_positive[i]);
    columns.push(MixedColumn::Binary {
        levels: ["negative".to_owned(), "positive".to_owned()],
        values: (0..n).map(positive).collect(),
    });
    let names = (0..=p).map(|j| format!("column {j}")).collect();
    let table = MixedTable::new(names, columns)?;
    let targets = Mask::from_fn(n, p + 1, |i, j| i >= n_train && j == p)?;
    let config = BoostedConfig {
        seed,
        ..Default::default()
    };
    let probability = |value: CellValue| match value {
        CellValue::Levels(levels) => levels[1],
        CellValue::Number(number) => number,
    };
    let cells = boosted_cells(&table, &targets, &config)?;
    Ok(cells.into_iter().map(|c| probability(c.value)).collect())
}

/// Our AUC minus each comparator's on the same trials, mean and standard error.
fn differences(records: &[Record]) -> TextTable {
    let others: Vec<&str> = methods().into_iter().map(|(name, _)| name).collect();
    let others: Vec<&str> = others.into_iter().filter(|name| *name != OURS).collect();
    tables::differences(records, OURS, &others, "auc")
}

/// One panel for each data set.
fn figure(results: &[ResultRow]) -> Result<Figure> {
    let panel = |source: &Source| {
        let of_part = |r: &ResultRow| source.part.is_none_or(|part| r.setting.starts_with(part));
        let here = |r: &&ResultRow| r.dataset == source.folder && of_part(r);
        let curves = against(results.iter().filter(here), "auc", "train");
        Panel::of_lines(
            source.title,
            ["fraction of rows in training", "mean AUC"],
            curves,
        )
    };
    let panels = SOURCES.each_ref().map(panel);
    let caption = "Mean over trials; bars are one standard deviation over trials.";
    lines("auc", "AUC where features are many", caption, &panels)
}

fn notes() -> Vec<String> {
    [
        "The sepsis data of the thesis are not public; secom (a part of it) and arrhythmia stand in. Values are missing as they are in the data.",
        "Splits are stratified by class and shared by all methods. Columns that are constant or empty in the training rows are left out, and features \
         standardised by the training rows, for all methods.",
        "Comparators are named classifier+imputation: mean (unconditional), gaussian (conditional mean under one Gaussian fitted by EM), chained (chained \
         equations, where at most 20 columns have holes). Logistic regression integrated over a mixture and finite mixtures of experts are left out: with more columns than \
         rows their covariances are not determined. boosted-trees are grown by the library perpetual, with native missing values.",
        "secom: the settings rows=392 (590 columns) and rows=1567 (207 columns) are the two parts of it that there are. Positive classes: secom fail; arrhythmia any but normal. The 207 columns of the secom part with all rows were chosen by somebody who saw labels.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_learns_an_easy_problem() {
        let sides = Sides::new(&data::tests::example(), 0.5, 0, 1).unwrap();
        for (name, method) in methods() {
            let auc = run(&sides, method, 1).unwrap().metrics["auc"];
            assert!(auc > 0.8, "{name}: {auc}");
        }
    }
}
