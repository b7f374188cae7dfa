//! Real data sets, their masks and splits, and the two sides of a split as a method sees them.

use std::fs::File;
use std::io::Read;

use npb_data::read::{self, Column, DelimitedOptions, Separator};
use npb_data::{Labels, Mask, Split, Standardiser, Table, splits};
use npb_infer::stream;
use npb_iqgme::{IqgmeConfig, IqgmeFit};

use super::given::Given;
use npb_kit::data::sha256_of;
use npb_kit::{Context, Result};

/// The method on trial, in its default configuration.
pub(super) const OURS: &str = "npb:iqgme";

pub(super) const FRACTIONS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// What a cell of a design is called.
pub(super) fn setting(missing: f64, train: f64) -> String {
    format!("missing={missing};train={train}")
}

/// Keys of the random streams of what is drawn.
const MASK: u64 = 1;
const SPLIT: u64 = 2;

/// Where a data set is. The positive class is the second one in alphabetical order.
pub(super) struct Source {
    pub(super) name: &'static str,
    /// Files, one below the other.
    files: &'static [&'static str],
    separator: Separator,
    label: usize,
    skip: &'static [usize],
}

const COMMA: Separator = Separator::Char(',');

pub(super) const IONOSPHERE: Source = Source {
    name: "ionosphere",
    files: &["ionosphere.data"],
    separator: COMMA,
    label: 34,
    skip: &[],
};

pub(super) const WDBC: Source = Source {
    name: "wdbc",
    files: &["wdbc.data"],
    separator: COMMA,
    label: 1,
    skip: &[0],
};

pub(super) const MAMMOGRAPHIC: Source = Source {
    name: "mammographic",
    files: &["mammographic_masses.data"],
    separator: COMMA,
    label: 5,
    skip: &[],
};

pub(super) const HEPATITIS: Source = Source {
    name: "hepatitis",
    files: &["hepatitis.data"],
    separator: COMMA,
    label: 0,
    skip: &[],
};

/// Surgical lesion or not; without hospital number, outcome, codes of the lesion and `cp_data`.
pub(super) const HORSE_COLIC: Source = Source {
    name: "horse-colic",
    files: &["horse-colic.data", "horse-colic.test"],
    separator: Separator::Blanks,
    label: 23,
    skip: &[2, 22, 24, 25, 26, 27],
};

/// A data set, with the masks and splits that come with it.
pub(super) struct Data {
    pub(super) name: &'static str,
    pub(super) table: Table,
    pub(super) labels: Labels,
    given: Option<Given>,
    /// Checksums of all files.
    pub(super) checksums: String,
}

impl Data {
    pub(super) fn load(context: &Context<'_>, source: &Source) -> Result<Self> {
        let options = DelimitedOptions {
            header: false,
            separator: source.separator.clone(),
            skip: source.skip.iter().map(|&c| Column::Index(c)).collect(),
            ..Default::default()
        };
        let (mut text, mut checksums) = (Vec::new(), String::new());
        for file in source.files {
            let path = context.data_file(source.name, file);
            File::open(&path)?.read_to_end(&mut text)?;
            // The last line of a file may lack its end.
            if text.last().is_some_and(|&byte| byte != b'\n') {
                text.push(b'\n');
            }
            checksums += &sha256_of(&path)?;
        }
        let label = Column::Index(source.label);
        let (table, labels) = read::labelled_table(source.name, &text[..], &label, &options)?;
        let given = Given::load(context, source.name, &table)?.map(|(given, sums)| {
            checksums += &sums;
            given
        });
        Ok(Self {
            name: source.name,
            table,
            labels,
            given,
            checksums,
        })
    }

    /// Where masks and splits are from, for readers.
    pub(super) fn origin(&self) -> &'static str {
        match self.given {
            Some(_) => "Masks and splits are the given ones, so that comparisons are paired.",
            None => {
                "No given masks and splits were found: they were drawn from the seed by the same protocol."
            }
        }
    }

    /// The given mask and split, or ones drawn by the same protocol where none are given: cells hidden completely at random, then rows with nothing left
    /// are dropped.
    pub(super) fn masked(
        &self,
        missing: f64,
        train: f64,
        trial: u64,
        seed: u64,
    ) -> Result<[Side; 2]> {
        let (mask, split) = match &self.given {
            Some(given) => given.find(missing, train, trial)?,
            None => self.draw(missing, train, trial, seed)?,
        };
        self.sides(Some(&mask), &split)
    }

    fn sides(&self, mask: Option<&Mask>, split: &Split) -> Result<[Side; 2]> {
        let side = |rows: &[usize]| Side::new(&self.table, mask, &self.labels, rows);
        Ok([side(&split.train)?, side(&split.test)?])
    }

    fn draw(&self, missing: f64, train: f64, trial: u64, seed: u64) -> Result<(Mask, Split)> {
        let key = |what: u64, fraction: f64| [trial, missing.to_bits(), fraction.to_bits(), what];
        // One mask for all training fractions.
        let mut rng = stream(seed, key(MASK, 0.0));
        let mask = splits::missing_at_random(&self.table, missing, &mut rng)?;
        let (_, kept) = self.table.hide(&mask)?.drop_empty_rows();
        let labels = self.labels.select_rows(&kept);
        let mut rng = stream(seed, key(SPLIT, train));
        let split = splits::random_with_every_class(&labels, train, &mut rng)?;
        let original = |side: &[usize]| side.iter().map(|&i| kept[i]).collect();
        let (train, test) = (original(&split.train), original(&split.test));
        Ok((mask, Split::new(self.table.n_rows(), train, test)?))
    }

    /// A stratified split of the rows as they are.
    pub(super) fn stratified(&self, train: f64, trial: u64, seed: u64) -> Result<[Side; 2]> {
        let mut rng = stream(seed, [trial, 0, train.to_bits(), SPLIT]);
        self.sides(None, &splits::stratified(&self.labels, train, &mut rng)?)
    }
}

/// Rows of one side of a split.
pub(super) struct Side {
    /// What a method sees.
    pub(super) rows: Table,
    /// The same rows before cells were hidden.
    pub(super) whole: Table,
    pub(super) labels: Labels,
    /// True = second class.
    pub(super) positive: Vec<bool>,
}

impl Side {
    /// Some rows of a table, with the cells of `mask` (shape of the table) hidden.
    pub(super) fn new(
        table: &Table,
        mask: Option<&Mask>,
        labels: &Labels,
        rows: &[usize],
    ) -> Result<Self> {
        let whole = table.select_rows(rows);
        let labels = labels.select_rows(rows);
        Ok(Self {
            rows: match mask {
                Some(mask) => table.hide(mask)?.select_rows(rows),
                None => whole.clone(),
            },
            whole,
            positive: labels.all_codes()?.into_iter().map(|c| c == 1).collect(),
            labels,
        })
    }

    /// The default fit. Probabilities are those of the second class.
    pub(super) fn fit(&self, seed: u64) -> Result<IqgmeFit> {
        let config = IqgmeConfig {
            seed,
            ..Default::default()
        };
        Ok(npb_iqgme::fit(&self.rows, &self.labels, &config)?)
    }

    fn map(self, f: impl Fn(&Table) -> Result<Table>) -> Result<Self> {
        Ok(Self {
            rows: f(&self.rows)?,
            whole: f(&self.whole)?,
            ..self
        })
    }

    /// Cells that were hidden, row by row, as row and column.
    pub(super) fn hidden(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.whole.n_rows()).flat_map(move |i| {
            let known = self.whole.observed_in_row(i);
            known
                .filter(move |&(j, _)| !self.rows.is_observed(i, j))
                .map(move |(j, _)| (i, j))
        })
    }
}

/// Both sides in units of the training rows: means and standard deviations are those of the observed training cells.
pub(super) struct Sides {
    pub(super) train: Side,
    pub(super) test: Side,
}

impl Sides {
    /// With all columns.
    pub(super) fn whole([train, test]: [Side; 2]) -> Result<Self> {
        let standardiser = Standardiser::fit(&train.rows);
        let bring = |t: &Table| Ok(standardiser.apply(t)?);
        Ok(Self {
            train: train.map(bring)?,
            test: test.map(bring)?,
        })
    }

    /// Without columns that are constant or never observed in training, which say nothing.
    pub(super) fn informative(sides: [Side; 2]) -> Result<Self> {
        let standardiser = Standardiser::fit(&sides[0].rows);
        let (constant, empty) = (
            standardiser.constant_columns(),
            standardiser.empty_columns(),
        );
        let columns: Vec<usize> = (0..sides[0].rows.n_cols())
            .filter(|j| !constant.contains(j) && !empty.contains(j))
            .collect();
        let Self { train, test } = Self::whole(sides)?;
        let bring = |t: &Table| Ok(t.select_columns(&columns)?);
        Ok(Self {
            train: train.map(bring)?,
            test: test.map(bring)?,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two shifted clouds and a constant column, without given splits.
    pub(crate) fn example() -> Data {
        let (n, p) = (80, 4);
        let value = |i: usize, j: usize| match j {
            3 => 7.0,
            _ => ((i * 37 + j * 11 + i * j) % 17) as f64 / 8.0 + (i % 2) as f64,
        };
        let values = (0..n).flat_map(|i| (0..p).map(move |j| value(i, j)));
        let labels: Vec<_> = (0..n).map(|i| Some(["a", "b"][i % 2])).collect();
        Data {
            name: "example",
            table: Table::complete(n, p, values.collect()).unwrap(),
            labels: Labels::from_strings(&labels),
            given: None,
            checksums: String::new(),
        }
    }

    #[test]
    fn sides_are_standardised_by_training_and_keep_the_hidden_truth() {
        let data = example();
        let sides = Sides::informative(data.masked(0.25, 0.5, 0, 1).unwrap()).unwrap();
        assert_eq!(sides.train.rows.n_cols(), 3);
        for stats in sides.train.rows.column_stats() {
            assert!(stats.mean.abs() < 1e-12 && (stats.sd - 1.0).abs() < 1e-12);
        }
        let test = &sides.test;
        let hidden: Vec<_> = test.hidden().collect();
        assert_eq!(hidden.len(), test.rows.n_missing());
        assert!(hidden.iter().all(|&(i, j)| test.whole.get(i, j).is_some()));
        for i in 0..test.rows.n_rows() {
            for (j, value) in test.rows.observed_in_row(i) {
                assert_eq!(test.whole.get(i, j), Some(value));
            }
        }
    }

    #[test]
    fn drawn_splits_follow_the_protocol() {
        let data = example();
        let (mask, split) = data.draw(0.5, 0.3, 2, 1).unwrap();
        assert_eq!(mask.count_ones(), 160);
        let holed = data.table.hide(&mask).unwrap();
        let used = [split.train.clone(), split.test.clone()].concat();
        assert_eq!(used.len() + holed.empty_rows().len(), 80);
        assert!(used.iter().all(|i| !holed.empty_rows().contains(i)));
        assert_eq!(data.draw(0.5, 0.7, 2, 1).unwrap().0, mask);
        assert_ne!(data.draw(0.5, 0.3, 3, 1).unwrap().0, mask);
    }

    #[test]
    fn stratified_sides_keep_the_shares_of_the_classes() {
        let [train, test] = example().stratified(0.25, 0, 1).unwrap();
        assert_eq!(train.labels.counts(), [10, 10]);
        assert_eq!(test.labels.counts(), [30, 30]);
        assert_eq!(train.hidden().count(), 0);
    }
}
