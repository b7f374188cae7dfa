//! What a fit looks like in a file.

use std::path::Path;

use npb_infer::{Saved, storage};
use serde::{Deserialize, Serialize};

use super::questions::{Fit, Stored, Variant};
use crate::{IqgmeError, Result};

/// Layouts of a file: what is stored and, in the second, the rows of training that are kept.
#[derive(Serialize, Deserialize)]
pub(crate) enum Layout<S, R> {
    V1(S),
    V2(S, R),
}

impl<V: Variant> Fit<V> {
    fn layout(&self) -> Layout<&Stored<V>, &V::Rows> {
        match V::KEEPS_ROWS {
            true => Layout::V2(&self.stored, &self.rows),
            false => Layout::V1(&self.stored),
        }
    }

    fn read(layout: Layout<Stored<V>, V::Rows>) -> Result<Self> {
        let (stored, rows) = match layout {
            Layout::V1(stored) => (stored, V::Rows::default()),
            Layout::V2(stored, rows) => (stored, rows),
        };
        let fit = Self::from_content(stored)?;
        V::check_rows(&fit.stored, &rows)?;
        Ok(Self { rows, ..fit })
    }
}

/// A fit in a file of the first layout answers what it answered.
impl<V: Variant> Saved for Fit<V> {
    const MODEL: &'static str = V::MODEL;
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Stored<V>;
    type Error = IqgmeError;

    fn content(&self) -> &Stored<V> {
        &self.stored
    }

    fn from_content(stored: Stored<V>) -> Result<Self> {
        stored.check()?;
        Self::new(stored, V::Rows::default())
    }

    fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let layout = self.layout();
        Ok(storage::save(path, Self::MODEL, Self::VERSION, &layout)?)
    }

    fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::read(storage::load(path, Self::MODEL)?)
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        let layout = self.layout();
        Ok(storage::to_bytes(Self::MODEL, Self::VERSION, &layout)?)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::read(storage::from_bytes(Self::MODEL, bytes)?)
    }
}
