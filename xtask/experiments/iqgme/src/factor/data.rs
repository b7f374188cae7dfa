//! Sets with many features, and the two sides of a split as a method sees them.

use std::fs::File;
use std::io::Read;

use flate2::read::GzDecoder;
use npb_data::read::{self, Column, DelimitedOptions};
use npb_data::{Labels, Standardiser, Table, splits};

use npb_kit::data::sha256_of;
use npb_kit::{Context, Result};

/// Key of the random stream of splits.
const SPLIT: u64 = 13;

/// A data set or a part of one, and where it is.
pub(super) struct Source {
    /// For readers.
    pub(super) title: &'static str,
    /// Its folder, and its name in `results.csv`.
    pub(super) folder: &'static str,
    /// Which part of it, as a setting.
    pub(super) part: Option<&'static str>,
    file: &'static str,
    header: bool,
    label: usize,
    skip: &'static [usize],
    /// Whether a label means the positive class.
    positive: fn(&str) -> bool,
}

impl Source {
    /// The setting in `results.csv`.
    pub(super) fn setting(&self, train: f64) -> String {
        match self.part {
            Some(part) => format!("{part};train={train}"),
            None => format!("train={train}"),
        }
    }
}

pub(super) const SOURCES: [Source; 3] = [
    Source {
        title: "arrhythmia",
        folder: "arrhythmia",
        part: None,
        file: "arrhythmia.data",
        header: false,
        label: 279,
        skip: &[],
        positive: |label| label != "1",
    },
    Source {
        title: "secom, 392 rows x 590",
        folder: "secom",
        part: Some("rows=392"),
        file: "secom_590_rows392.csv.gz",
        header: true,
        label: 1,
        skip: &[0],
        positive: |label| label == "1",
    },
    Source {
        title: "secom, 1567 rows x 207",
        folder: "secom",
        part: Some("rows=1567"),
        file: "secom_207.csv.gz",
        header: true,
        label: 1,
        skip: &[0],
        positive: |label| label == "1",
    },
];

pub(super) struct Data {
    table: Table,
    positive: Vec<bool>,
    pub(super) checksums: String,
}

impl Data {
    pub(super) fn load(context: &Context<'_>, source: &Source) -> Result<Self> {
        let path = context.data_file(source.folder, source.file);
        let file = File::open(&path)?;
        let input: Box<dyn Read> = match source.file.ends_with(".gz") {
            true => Box::new(GzDecoder::new(file)),
            false => Box::new(file),
        };
        let options = DelimitedOptions {
            header: source.header,
            skip: source.skip.iter().map(|&c| Column::Index(c)).collect(),
            ..Default::default()
        };
        let label = Column::Index(source.label);
        let (table, labels) = read::labelled_table(source.file, input, &label, &options)?;
        let positive = (0..labels.n_rows())
            .map(|i| labels.name(i).map(source.positive))
            .collect::<Option<Vec<bool>>>();
        Ok(Self {
            table,
            positive: positive.ok_or("a row without a label")?,
            checksums: sha256_of(&path)?,
        })
    }

    pub(super) fn columns_with_holes(&self) -> usize {
        let n = self.table.n_rows();
        (0..self.table.n_cols())
            .filter(|&j| self.table.observed_in_column(j).count() < n)
            .count()
    }
}

/// Standardised training and test rows with holes, and whether they are positive.
pub(super) struct Sides {
    pub(super) train: Table,
    pub(super) test: Table,
    pub(super) train_positive: Vec<bool>,
    pub(super) test_positive: Vec<bool>,
}

impl Sides {
    pub(super) fn new(data: &Data, train: f64, trial: u64, seed: u64) -> Result<Self> {
        let key = [trial, (1000.0 * train).round() as u64, 0, SPLIT];
        let names: Vec<Option<i64>> = data.positive.iter().map(|&p| Some(p.into())).collect();
        let labels = Labels::from_integers(&names);
        let split = splits::stratified(&labels, train, &mut npb_infer::stream(seed, key))?;
        let rows = data.table.select_rows(&split.train);
        let standardiser = Standardiser::fit(&rows);
        let (constant, empty) = (
            standardiser.constant_columns(),
            standardiser.empty_columns(),
        );
        let kept: Vec<usize> = (0..data.table.n_cols())
            .filter(|j| !constant.contains(j) && !empty.contains(j))
            .collect();
        let prepare = |rows: &Table| -> Result<Table> {
            Ok(standardiser.apply(rows)?.select_columns(&kept)?)
        };
        let positive = |rows: &[usize]| rows.iter().map(|&i| data.positive[i]).collect();
        Ok(Self {
            train: prepare(&rows)?,
            test: prepare(&data.table.select_rows(&split.test))?,
            train_positive: positive(&split.train),
            test_positive: positive(&split.test),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two shifted clouds with holes.
    pub(crate) fn example() -> Data {
        let (n, p) = (80, 6);
        let value = |i: usize, j: usize| {
            ((i * 37 + j * 11 + i * j) % 17) as f64 / 8.0 + 1.5 * (i % 2) as f64
        };
        let cells = (0..n).flat_map(|i| (0..p).map(move |j| (i, j)));
        let values: Vec<f64> = cells.clone().map(|(i, j)| value(i, j)).collect();
        let seen: Vec<bool> = cells.map(|(i, j)| (i + 3 * j) % 11 > 0).collect();
        Data {
            table: Table::new(n, p, values, &seen).unwrap(),
            positive: (0..n).map(|i| i % 2 == 1).collect(),
            checksums: String::new(),
        }
    }

    #[test]
    fn a_part_is_a_setting() {
        let settings = SOURCES.map(|source| source.setting(0.3));
        let expected = ["train=0.3", "rows=392;train=0.3", "rows=1567;train=0.3"];
        assert_eq!(settings, expected);
    }

    #[test]
    fn sides_are_standardised_by_the_training_rows_alone() {
        let sides = Sides::new(&example(), 0.3, 1, 5).unwrap();
        for stats in sides.train.column_stats() {
            assert!(stats.mean.abs() < 1e-12 && (stats.sd - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn sides_share_a_split_and_hold_both_classes() {
        let data = example();
        let a = Sides::new(&data, 0.3, 1, 5).unwrap();
        let b = Sides::new(&data, 0.3, 1, 5).unwrap();
        assert_eq!(a.train.values(), b.train.values());
        assert_eq!(a.train.n_rows() + a.test.n_rows(), 80);
        let other = Sides::new(&data, 0.3, 2, 5).unwrap();
        assert_ne!(a.train.values(), other.train.values());
        for side in [&a.train_positive, &a.test_positive] {
            assert!(side.contains(&true) && side.contains(&false));
        }
    }
}
