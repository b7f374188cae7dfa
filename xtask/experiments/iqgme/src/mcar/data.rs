//! Data sets of figures 3.5 and 3.6, with given or drawn masks and splits.

use std::fs::File;

use npb_data::read::{self, Column, DelimitedOptions};
use npb_data::{Labels, Mask, Split, Standardiser, Table, splits};

use crate::given::Given;
use npb_kit::data::sha256_of;
use npb_kit::{Context, Result};

pub(super) const FRACTIONS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];
/// The method that the others are compared with.
pub(super) const OURS: &str = "npb:iqgme";

/// What a cell of the design is called.
pub(super) fn setting(missing: f64, train: f64) -> String {
    format!("missing={missing};train={train}")
}

/// A data set and what is recorded for comparators on its given splits.
pub(crate) struct Source {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) label: usize,
    pub(crate) skip: &'static [usize],
    pub(crate) positive: &'static str,
    /// Method, missing fraction, and mean AUC at training fractions 0.1, 0.3, 0.5, 0.7, 0.9.
    pub(crate) recorded: &'static [(&'static str, f64, &'static [f64; 5])],
    /// The same for trees of other libraries, at training fraction 0.5 alone: method that is nearest, missing fraction, mean AUC.
    pub(crate) trees: &'static [(&'static str, f64, f64)],
}

/// Where in the design a trial is.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) missing: f64,
    pub(crate) train: f64,
    pub(crate) trial: u64,
}

/// The data set, with the masks and splits that come with it.
pub(crate) struct Data {
    pub(crate) table: Table,
    pub(crate) labels: Labels,
    pub(crate) positive: &'static str,
    pub(crate) given: Option<Given>,
    /// Checksums of all files.
    pub(crate) checksums: String,
}

impl Data {
    pub(crate) fn load(context: &Context<'_>, source: &Source) -> Result<Self> {
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
        let given = Given::load(context, source.name, &table)?.map(|(given, sums)| {
            checksums += &sums;
            given
        });
        Ok(Self {
            table,
            labels,
            positive: source.positive,
            given,
            checksums,
        })
    }

    /// The cells to hide and the rows to train and test on.
    pub(crate) fn mask_and_split(&self, cell: &Cell, seed: u64) -> Result<(Mask, Split)> {
        match &self.given {
            Some(given) => given.find(cell.missing, cell.train, cell.trial),
            None => self.draw(cell, seed),
        }
    }

    /// As the given ones were made: one mask per missing fraction and trial, shared by the training fractions.
    fn draw(&self, cell: &Cell, seed: u64) -> Result<(Mask, Split)> {
        let thousandth = |fraction: f64| (1000.0 * fraction).round() as u64;
        let key = [cell.trial, thousandth(cell.missing), 0, 1];
        let mask = splits::missing_at_random(
            &self.table,
            cell.missing,
            &mut npb_infer::stream(seed, key),
        )?;
        let holed = self.table.hide(&mask)?;
        let rows: Vec<usize> = (0..holed.n_rows())
            .filter(|&i| holed.observed_in_row(i).next().is_some())
            .collect();
        let key = [
            cell.trial,
            thousandth(cell.missing),
            thousandth(cell.train),
            2,
        ];
        let labels = self.labels.select_rows(&rows);
        let split = splits::random_with_every_class(
            &labels,
            cell.train,
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

/// Standardised training and test rows with holes, and their labels.
pub(crate) struct Sides {
    pub(crate) train: Table,
    pub(crate) train_labels: Labels,
    pub(crate) test: Table,
    /// True = positive class.
    pub(crate) train_positive: Vec<bool>,
    pub(crate) test_positive: Vec<bool>,
}

impl Sides {
    pub(crate) fn new(data: &Data, cell: &Cell, seed: u64) -> Result<Self> {
        let (mask, split) = data.mask_and_split(cell, seed)?;
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A data set of two shifted clouds without given splits.
    pub(crate) fn example() -> Data {
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
    fn sides_are_standardised_by_the_training_rows_alone() {
        let cell = Cell {
            missing: 0.25,
            train: 0.5,
            trial: 0,
        };
        let sides = Sides::new(&example(), &cell, 1).unwrap();
        for stats in sides.train.column_stats() {
            assert!(stats.mean.abs() < 1e-12 && (stats.sd - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn drawn_splits_follow_the_protocol() {
        let data = example();
        for trial in 0..5 {
            let cell = Cell {
                missing: 0.5,
                train: 0.3,
                trial,
            };
            let (mask, split) = data.mask_and_split(&cell, 1).unwrap();
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
            let other = Cell { train: 0.7, ..cell };
            assert_eq!(data.mask_and_split(&other, 1).unwrap().0, mask);
        }
    }
}
