//! Many tasks with more than two classes: how ill patients of four hospitals are.

use npb_data::{Labels, Table};
use npb_infer::stream;
use npb_iqgme::{IqgmeConfig, IqgmeError, Task, TasksConfig, fit, fit_tasks};
use rand::seq::SliceRandom;

use super::OURS;
use super::data::{Data, Source, heart_disease};
use npb_kit::tables::{differences, overview};
use npb_kit::{Context, Experiment, Outcome, Report, Result, Scale, Trial, summarise};

pub(crate) const HOSPITALS: Experiment = Experiment {
    id: "iqgme/hospitals",
    what: "heart-disease, five classes, four hospitals with the holes they have: together, pooled, apart",
    paper: "not in the thesis, whose tasks have two classes",
    data: &["heart-disease"],
    run,
};

/// Names of files, and of tasks.
const NAMES: [&str; 4] = ["cleveland", "hungarian", "switzerland", "va"];
const SOURCES: [Source; 4] = [
    heart_disease(&["processed.cleveland.data"]),
    heart_disease(&["processed.hungarian.data"]),
    heart_disease(&["processed.switzerland.data"]),
    heart_disease(&["processed.va.data"]),
];
const CHOLESTEROL: usize = 4;
const CLASSES: [&str; 5] = ["0", "1", "2", "3", "4"];

/// Training rows of each hospital.
const SIZES: [usize; 3] = [20, 40, 80];
/// Share of equal probabilities that is mixed in for all methods: a class that training has not shown costs no infinity.
const EVEN: f64 = 0.01;

#[derive(Clone, Copy)]
enum Method {
    /// Four tasks.
    Together,
    /// One table.
    Pooled,
    /// Four fits.
    Apart,
    /// Class shares among the training rows of the hospital, with one label more of each class.
    Shares,
}

const METHODS: [(&str, Method); 4] = [
    (OURS, Method::Together),
    ("npb:iqgme-pooled", Method::Pooled),
    ("npb:iqgme-apart", Method::Apart),
    ("shares", Method::Shares),
];

/// Rows of one hospital.
struct Part {
    train: (Table, Labels),
    test: (Table, Labels),
}

fn run(context: &Context<'_>) -> Result<Report> {
    let mut hospitals = Vec::new();
    for source in &SOURCES {
        hospitals.push(Data::load(context, source)?);
    }
    let trials = design(context.scale, &hospitals);
    let records = context.run_trials(&trials, |trial, seed| {
        let (method, train) = trial.work;
        let parts = parts(&hospitals, train, trial.trial, context.seed)?;
        Ok(Outcome::metrics(metrics(
            &method.probabilities(&parts, seed)?,
            &parts,
        )))
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    let others = METHODS.map(|(name, _)| name);
    let metrics = ["log_loss", "accuracy"];
    let notes = [
        "Classes 0 to 4, of which one hospital has two. Rows for training are drawn from the seed, the same for all methods, all others are for test; the holes are those of the files, and a \
         cholesterol of 0 is one. Means over hospitals.",
        "npb:iqgme has the hospitals as four tasks; pooled: as one table without their names; apart: each by itself; shares: class shares of the hospital's training rows. A \
         hundredth of all probabilities is shared out evenly, for all methods.",
    ];
    Ok(Report {
        tables: vec![
            overview("Five classes at four hospitals", &results, &metrics),
            differences(&records, OURS, &others[1..], &metrics),
        ],
        notes: notes.map(str::to_owned).to_vec(),
        results,
        ..Default::default()
    })
}

fn design(scale: Scale, hospitals: &[Data]) -> Vec<Trial<(Method, usize)>> {
    let (sizes, trials): (&[usize], u64) = match scale {
        Scale::Smoke => (&SIZES[..1], 1),
        Scale::Quick => (&SIZES, 5),
        Scale::Paper => (&SIZES, 20),
    };
    let checksums: String = hospitals.iter().map(|h| h.checksums.as_str()).collect();
    let mut all = Vec::new();
    for &train in sizes {
        for (name, method) in METHODS {
            for trial in 0..trials {
                all.push(Trial {
                    dataset: "heart-disease".to_owned(),
                    setting: format!("train={train}"),
                    method: name.to_owned(),
                    trial,
                    config: format!("{checksums}\n{}", method.configuration()),
                    work: (method, train),
                });
            }
        }
    }
    all
}

/// The rows of a trial; those of a smaller size are among those of a larger one.
fn parts(hospitals: &[Data], train: usize, trial: u64, seed: u64) -> Result<Vec<Part>> {
    let part = |(k, hospital): (usize, &Data)| {
        let mut rows: Vec<usize> = (0..hospital.table.n_rows()).collect();
        rows.shuffle(&mut stream(seed, [trial, k as u64, 0, 0]));
        let side = |rows: &[usize]| -> Result<(Table, Labels)> {
            let table = hospital.table.select_rows(rows);
            Ok((without_zeros(&table)?, hospital.labels.select_rows(rows)))
        };
        Ok(Part {
            train: side(&rows[..train])?,
            test: side(&rows[train..])?,
        })
    };
    hospitals.iter().enumerate().map(part).collect()
}

/// Nobody has a cholesterol of 0: there it was not measured.
fn without_zeros(table: &Table) -> Result<Table> {
    let cells = (0..table.n_rows()).flat_map(|i| (0..table.n_cols()).map(move |j| (i, j)));
    let seen: Vec<bool> = cells
        .map(|(i, j)| {
            table
                .get(i, j)
                .is_some_and(|x| j != CHOLESTEROL || x != 0.0)
        })
        .collect();
    let columns = table.column_names().to_vec();
    let values = table.values().to_vec();
    Ok(Table::new(table.n_rows(), table.n_cols(), values, &seen)?.with_column_names(columns)?)
}

impl Method {
    fn configuration(self) -> String {
        let own = match self {
            Self::Together => format!("{:?}", TasksConfig::default()),
            Self::Pooled | Self::Apart => format!("{:?}", IqgmeConfig::default()),
            Self::Shares => String::new(),
        };
        format!("{own}\nno cholesterol of 0; {EVEN} even")
    }

    /// Probabilities of all five classes for the test rows of each hospital.
    fn probabilities(self, parts: &[Part], seed: u64) -> Result<Vec<Vec<Vec<f64>>>> {
        let single = IqgmeConfig {
            seed,
            ..Default::default()
        };
        match self {
            Self::Together => {
                let mut config = TasksConfig::default();
                config.single.seed = seed;
                let tasks = NAMES.iter().zip(parts).map(|(name, part)| Task {
                    name,
                    table: &part.train.0,
                    labels: &part.train.1,
                });
                let model = fit_tasks(&tasks.collect::<Vec<_>>(), &config)?;
                let of_part = |(name, part): (&&str, &Part)| {
                    let found = model.predict_classes(name, &part.test.0)?;
                    Ok(in_order(model.classes(), found))
                };
                NAMES.iter().zip(parts).map(of_part).collect()
            }
            Self::Pooled => {
                let (table, labels) = pooled(parts)?;
                let model = fit(&table, &labels, &single)?;
                let of_part = |part: &Part| {
                    let found = model.predict_classes(&part.test.0)?;
                    Ok(in_order(model.classes(), found))
                };
                parts.iter().map(of_part).collect()
            }
            Self::Apart => {
                let of_part = |part: &Part| match fit(&part.train.0, &part.train.1, &single) {
                    // A hospital that has shown one class has shown its share.
                    Err(IqgmeError::OneClass { .. }) => Ok(shares(part)),
                    fitted => {
                        let model = fitted?;
                        let found = model.predict_classes(&part.test.0)?;
                        Ok(in_order(model.classes(), found))
                    }
                };
                parts.iter().map(of_part).collect()
            }
            Self::Shares => Ok(parts.iter().map(shares).collect()),
        }
    }
}

/// The training rows of all hospitals in one table.
fn pooled(parts: &[Part]) -> Result<(Table, Labels)> {
    let tables: Vec<&Table> = parts.iter().map(|part| &part.train.0).collect();
    let (mut values, mut seen, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (table, labels) in parts.iter().map(|part| &part.train) {
        for i in 0..table.n_rows() {
            seen.extend((0..table.n_cols()).map(|j| table.is_observed(i, j)));
            names.push(labels.name(i));
        }
        values.extend_from_slice(table.values());
    }
    let columns = tables[0].column_names().to_vec();
    let table = Table::new(names.len(), columns.len(), values, &seen)?;
    Ok((
        table.with_column_names(columns)?,
        Labels::from_strings(&names),
    ))
}

/// From the classes of a fit to all classes, those that it does not know at nothing.
fn in_order(classes: &[String], by_row: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let place = |class: &&str| classes.iter().position(|known| known == *class);
    let places = CLASSES.map(|class| place(&class));
    let of_row = |row: Vec<f64>| {
        let each = places.iter().map(|place| place.map_or(0.0, |k| row[k]));
        each.collect()
    };
    by_row.into_iter().map(of_row).collect()
}

fn shares(part: &Part) -> Vec<Vec<f64>> {
    let (_, labels) = &part.train;
    let count = |class: &str| {
        let own = (0..labels.n_rows()).filter(|&i| labels.name(i) == Some(class));
        1.0 + own.count() as f64
    };
    let counts = CLASSES.map(count);
    let total: f64 = counts.iter().sum();
    let shares: Vec<f64> = counts.iter().map(|n| n / total).collect();
    vec![shares; part.test.0.n_rows()]
}

/// Means over hospitals.
fn metrics(by_part: &[Vec<Vec<f64>>], parts: &[Part]) -> [(&'static str, f64); 2] {
    let (mut loss, mut right) = (0.0, 0.0);
    for (by_row, part) in by_part.iter().zip(parts) {
        let weight = 1.0 / (by_row.len() * parts.len()) as f64;
        for (i, row) in by_row.iter().enumerate() {
            let name = part.test.1.name(i);
            let truth = CLASSES.iter().position(|class| Some(*class) == name);
            let truth = truth.expect("the files have five classes");
            let p = (1.0 - EVEN) * row[truth] + EVEN / CLASSES.len() as f64;
            loss -= weight * p.ln();
            let best = (0..row.len()).fold(0, |best, k| if row[k] > row[best] { k } else { best });
            right += weight * f64::from(u8::from(best == truth));
        }
    }
    [("log_loss", loss), ("accuracy", right)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> Part {
        let side = |names: &[&str]| {
            let n = names.len();
            let table = Table::complete(n, 1, (0..n).map(|i| i as f64).collect()).unwrap();
            let names: Vec<Option<&str>> = names.iter().map(|name| Some(*name)).collect();
            (table, Labels::from_strings(&names))
        };
        Part {
            train: side(&["0", "0", "1", "0", "0"]),
            test: side(&["0", "1", "4", "0"]),
        }
    }

    #[test]
    fn shares_and_what_they_are_worth() {
        let part = part();
        let shares = shares(&part);
        assert_eq!(shares[0], [0.5, 0.2, 0.1, 0.1, 0.1]);
        let [(_, loss), (_, accuracy)] = metrics(&[shares], &[part]);
        assert_eq!(accuracy, 0.5);
        let p = |share: f64| 0.99 * share + 0.002;
        let wanted = -(2.0 * p(0.5).ln() + p(0.2).ln() + p(0.1).ln()) / 4.0;
        assert!((loss - wanted).abs() < 1e-12, "{loss} {wanted}");
    }

    #[test]
    fn classes_that_a_fit_does_not_know_have_no_probability() {
        let known = ["0".to_owned(), "3".to_owned()];
        let found = in_order(&known, vec![vec![0.7, 0.3]]);
        assert_eq!(found, [[0.7, 0.0, 0.0, 0.3, 0.0]]);
    }
}
