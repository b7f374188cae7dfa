//! The tasks of figures 4.3 to 4.8.

use std::fs::File;

use flate2::read::GzDecoder;
use npb_data::read::{self, Column, DelimitedOptions, GivenSplit, Separator};
use npb_data::{Labels, Mask, Standardiser, Table, splits};

use npb_kit::data::sha256_of;
use npb_kit::{Context, Result};

/// What a cell of the design is called.
pub(super) fn setting(missing: f64, train: usize) -> String {
    format!("missing={missing};train={train}")
}

/// Where in the design a trial is.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    pub(super) missing: f64,
    /// Training rows for each task.
    pub(super) train: usize,
    pub(super) trial: u64,
}

/// One task, standardised by all tasks' training rows.
pub(super) struct TaskSides {
    pub(super) name: String,
    /// Tasks on one ground have one number.
    pub(super) ground: usize,
    pub(super) train: Table,
    pub(super) train_positive: Vec<bool>,
    pub(super) test: Table,
    pub(super) test_positive: Vec<bool>,
}

/// All tasks of one trial.
pub(super) struct Problem {
    pub(super) tasks: Vec<TaskSides>,
}

/// A task before it is split.
struct Source {
    name: String,
    ground: usize,
    table: Table,
    positive: Vec<bool>,
}

/// A task with its table, holes and all, its training rows and its test rows.
type Part<'a> = (&'a Source, Table, Vec<usize>, Vec<usize>);

/// Tasks with holes, split and standardised.
fn problem(parts: Vec<Part<'_>>) -> Result<Problem> {
    let trains: Vec<Table> = parts
        .iter()
        .map(|(_, table, train, _)| table.select_rows(train))
        .collect();
    let standardiser = Standardiser::fit(&stacked(&trains)?);
    let task = |((source, table, train, test), train_table): (Part<'_>, Table)| {
        let positive = |rows: &[usize]| rows.iter().map(|&i| source.positive[i]).collect();
        Ok(TaskSides {
            name: source.name.clone(),
            ground: source.ground,
            train: standardiser.apply(&train_table)?,
            train_positive: positive(&train),
            test: standardiser.apply(&table.select_rows(&test))?,
            test_positive: positive(&test),
        })
    };
    let tasks = parts.into_iter().zip(trains).map(task);
    Ok(Problem {
        tasks: tasks.collect::<Result<_>>()?,
    })
}

/// The rows of all tables, one after another.
pub(super) fn stacked(tables: &[Table]) -> Result<Table> {
    let columns = tables[0].column_names();
    let values: Vec<f64> = tables.iter().flat_map(|t| t.values().to_vec()).collect();
    let observed: Vec<bool> = tables
        .iter()
        .flat_map(|t| (0..t.n_rows()).map(move |i| (t, i)))
        .flat_map(|(t, i)| (0..t.n_cols()).map(move |j| t.is_observed(i, j)))
        .collect();
    let n_rows = values.len() / columns.len();
    let table = Table::new(n_rows, columns.len(), values, &observed)?;
    Ok(table.with_column_names(columns.to_vec())?)
}

/// The same cells are hidden whatever the training size.
fn hidden(table: &Table, cell: &Cell, seed: u64, task: usize) -> Result<Table> {
    if cell.missing == 0.0 {
        return Ok(table.clone());
    }
    let thousandth = (1000.0 * cell.missing).round() as u64;
    let key = [cell.trial, thousandth, task as u64, 1];
    let mask: Mask =
        splits::missing_at_random(table, cell.missing, &mut npb_infer::stream(seed, key))?;
    Ok(table.hide(&mask)?)
}

/// Landmine fields 1-10 (foliated) and 16-24 (bare) with their given splits.
pub(super) struct Landmine {
    sources: Vec<Source>,
    splits: Vec<GivenSplit>,
    pub(super) checksums: String,
}

impl Landmine {
    /// The first tasks are on foliated ground.
    pub(super) const FOLIATED: usize = 10;

    pub(super) fn load(context: &Context<'_>) -> Result<Self> {
        let path = context.data_file("landmine", "landmine.csv.gz");
        let given = context.data_file("landmine", "splits/splits.txt.gz");
        let checksums = sha256_of(&path)? + &sha256_of(&given)?;
        let input = GzDecoder::new(File::open(&path)?);
        let options = DelimitedOptions::default();
        let (fields, task_of) = read::labelled_table(
            "landmine.csv.gz",
            input,
            &Column::Name("task".into()),
            &options,
        )?;
        let label = fields.column_index("label")?;
        let features: Vec<usize> = (0..fields.n_cols()).filter(|&j| j != label).collect();
        let sources = (1..=10)
            .chain(16..=24)
            .enumerate()
            .map(|(k, number): (usize, usize)| {
                let name = number.to_string();
                let rows: Vec<usize> = (0..fields.n_rows())
                    .filter(|&i| task_of.name(i) == Some(&name))
                    .collect();
                Ok(Source {
                    positive: rows.iter().map(|&i| fields.row(i)[label] > 0.5).collect(),
                    table: fields.select_rows(&rows).select_columns(&features)?,
                    ground: usize::from(k >= Self::FOLIATED),
                    name,
                })
            })
            .collect::<Result<_>>()?;
        let splits = read::given_splits("splits.txt.gz", GzDecoder::new(File::open(&given)?))?;
        Ok(Self {
            sources,
            splits,
            checksums,
        })
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.sources
            .iter()
            .map(|source| source.name.clone())
            .collect()
    }

    pub(super) fn problem(&self, cell: &Cell, seed: u64) -> Result<Problem> {
        let part = |(k, source): (usize, &'_ Source)| {
            let key = [cell.train as f64, cell.trial as f64, (k + 1) as f64];
            let found = self.splits.iter().find(|split| split.key == key);
            let found = found.ok_or_else(|| format!("no given split {key:?}"))?;
            let table = hidden(&source.table, cell, seed, k)?;
            Ok((
                k,
                table,
                found.split.train.clone(),
                found.split.test.clone(),
            ))
        };
        let parts = self.sources.iter().enumerate().map(part);
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let of_source = |(k, table, train, test)| (&self.sources[k], table, train, test);
        problem(parts.into_iter().map(of_source).collect())
    }
}

/// Rows of a task that are used for test, at most.
const TEST_ROWS: usize = 300;

/// The eight pairs of letters; the second letter of a pair is the positive class.
const PAIRS: [(&str, &str); 8] = [
    ("c", "e"),
    ("g", "y"),
    ("m", "n"),
    ("a", "g"),
    ("i", "j"),
    ("a", "o"),
    ("f", "t"),
    ("h", "n"),
];

/// Handwritten letters as 16 x 8 images.
pub(super) struct Letters {
    sources: Vec<Source>,
    pub(super) checksums: String,
}

/// Columns of the file: 0 to 5 are not pixels, 1 is the letter.
const FIRST_PIXEL: usize = 6;
const PIXELS: usize = 128;

impl Letters {
    pub(super) fn load(context: &Context<'_>) -> Result<Self> {
        let path = context.data_file("letters", "letters.data.gz");
        // The first columns are no pixels; a fourth of the pixels is enough to see that everything runs.
        let every = context.scale.smoke_or(4, 1);
        let is_left_out = |&column: &usize| match column.checked_sub(FIRST_PIXEL) {
            Some(pixel) => pixel % every != 0,
            None => column != 1,
        };
        let skipped = (0..FIRST_PIXEL + PIXELS).filter(is_left_out);
        let checksums = sha256_of(&path)?;
        let options = DelimitedOptions {
            header: false,
            separator: Separator::Char('\t'),
            skip: skipped.map(Column::Index).collect(),
            ..Default::default()
        };
        let input = GzDecoder::new(File::open(&path)?);
        let (pixels, letter) =
            read::labelled_table("letters.data.gz", input, &Column::Index(1), &options)?;
        let source = |(first, second): (&str, &str)| source_of(&pixels, &letter, first, second);
        Ok(Self {
            sources: PAIRS.into_iter().map(source).collect(),
            checksums,
        })
    }

    pub(super) fn problem(&self, cell: &Cell, seed: u64) -> Result<Problem> {
        let part = |(k, source): (usize, &'_ Source)| {
            let key = [cell.trial, 0, k as u64, 2];
            let classes: Vec<Option<&str>> = source
                .positive
                .iter()
                .map(|&p| Some(if p { "second" } else { "first" }))
                .collect();
            let labels = Labels::from_strings(&classes);
            let fraction = (cell.train + TEST_ROWS) as f64 / classes.len() as f64;
            let used = splits::random_with_every_class(
                &labels,
                fraction.min(0.999),
                &mut npb_infer::stream(seed, key),
            )?
            .train;
            let inner = splits::random_with_every_class(
                &labels.select_rows(&used),
                cell.train as f64 / used.len() as f64,
                &mut npb_infer::stream(seed, [cell.trial, cell.train as u64, k as u64, 3]),
            )?;
            let rows = |side: Vec<usize>| side.into_iter().map(|i| used[i]).collect::<Vec<_>>();
            let table = hidden(&source.table, cell, seed, k)?;
            Ok((k, table, rows(inner.train), rows(inner.test)))
        };
        let parts = self.sources.iter().enumerate().map(part);
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let of_source = |(k, table, train, test)| (&self.sources[k], table, train, test);
        problem(parts.into_iter().map(of_source).collect())
    }
}

fn source_of(pixels: &Table, letter: &Labels, first: &str, second: &str) -> Source {
    let rows: Vec<usize> = (0..pixels.n_rows())
        .filter(|&i| letter.name(i) == Some(first) || letter.name(i) == Some(second))
        .collect();
    Source {
        name: format!("{first}/{second}"),
        ground: 0,
        positive: rows
            .iter()
            .map(|&i| letter.name(i) == Some(second))
            .collect(),
        table: pixels.select_rows(&rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last row of each task is far from all others: a standardiser that saw test rows would be moved.
    #[test]
    fn tasks_are_standardised_by_the_training_rows_of_all_tasks() {
        let source = |name: &str, from: f64| Source {
            name: name.to_owned(),
            ground: 0,
            table: Table::complete(4, 1, vec![from, from + 1.0, from + 2.0, 1e3]).unwrap(),
            positive: vec![false, true, false, true],
        };
        let sources = [source("a", 0.0), source("b", 10.0)];
        let parts = sources
            .iter()
            .map(|source| (source, source.table.clone(), vec![0, 1, 2], vec![3]));
        let found = problem(parts.collect()).unwrap();
        let trains: Vec<Table> = found.tasks.iter().map(|task| task.train.clone()).collect();
        let stats = &stacked(&trains).unwrap().column_stats()[0];
        assert!(stats.mean.abs() < 1e-12 && (stats.sd - 1.0).abs() < 1e-12);
        assert!(found.tasks[0].train.row(2)[0] < found.tasks[1].train.row(0)[0]);
        assert_eq!(found.tasks[1].test_positive, [true]);
    }
}
