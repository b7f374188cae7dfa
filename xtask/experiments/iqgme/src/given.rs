//! Masks and splits that come with a data set.

use std::fs::File;

use npb_data::{Mask, Split, Table, read};

use npb_kit::data::sha256_of;
use npb_kit::{Context, Result};

/// For missing fractions and trials the cells to hide, and for training fractions, too, the rows to train and test on.
pub(crate) struct Given {
    masks: Vec<read::GivenMask>,
    splits: Vec<read::GivenSplit>,
}

impl Given {
    /// Those of a data set and the checksums of their files; none when they did not come with it.
    pub(super) fn load(
        context: &Context<'_>,
        dataset: &str,
        table: &Table,
    ) -> Result<Option<(Self, String)>> {
        let masks = context.data_file(dataset, "splits/masks.txt");
        let splits = context.data_file(dataset, "splits/splits.txt");
        if !(masks.is_file() && splits.is_file()) {
            return Ok(None);
        }
        let checksums = sha256_of(&masks)? + &sha256_of(&splits)?;
        let (rows, columns) = (table.n_rows(), table.n_cols());
        let given = Self {
            masks: read::given_masks("masks.txt", File::open(&masks)?, rows, columns)?,
            splits: read::given_splits("splits.txt", File::open(&splits)?)?,
        };
        Ok(Some((given, checksums)))
    }

    pub(super) fn find(&self, missing: f64, train: f64, trial: u64) -> Result<(Mask, Split)> {
        let at = trial as f64;
        let mask = self.masks.iter().find(|m| m.key == [missing, at]);
        let split = (self.splits.iter()).find(|s| s.key == [missing, train, at]);
        match (mask, split) {
            (Some(mask), Some(split)) => Ok((mask.missing.clone(), split.split.clone())),
            _ => {
                let place = format!("missing {missing}, train {train}, trial {trial}");
                Err(format!("no given mask and split for {place}").into())
            }
        }
    }
}
