//! What a fit looks like in a file.

use std::path::Path;

use npb_infer::Saved;
use npb_infer::storage;
use serde::{Deserialize, Serialize};

use super::kept::TrainingRows;
use super::{IqgmeFit, Stored};
use crate::IqgmeError;

/// Layouts of a file, the stored part and the rows of training: the first one knows no rows.
#[derive(Serialize, Deserialize)]
pub(super) enum Layout<S, R> {
    V1(S),
    V2(S, R),
}

impl IqgmeFit {
    fn layout(&self) -> Layout<&Stored, &Option<TrainingRows>> {
        Layout::V2(&self.stored, &self.rows)
    }

    fn read(layout: Layout<Stored, Option<TrainingRows>>) -> Result<Self, IqgmeError> {
        let (stored, rows) = match layout {
            Layout::V1(stored) => (stored, None),
            Layout::V2(stored, rows) => (stored, rows),
        };
        let fit = Self::from_content(stored)?;
        if let Some(rows) = &rows {
            let Stored {
                units,
                classes,
                training,
                ..
            } = &fit.stored;
            rows.check(&units[0], classes, *training)?;
        }
        Ok(Self { rows, ..fit })
    }
}

/// A fit in a file of the first layout answers what it answered, and draws come from `q`.
impl Saved for IqgmeFit {
    const MODEL: &'static str = "npb-iqgme/fit/2";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Stored;
    type Error = IqgmeError;

    fn content(&self) -> &Stored {
        &self.stored
    }

    fn from_content(stored: Stored) -> Result<Self, IqgmeError> {
        stored.config.validate()?;
        stored.check().map_err(IqgmeError::saved)?;
        Self::from_stored(stored)
    }

    fn save(&self, path: impl AsRef<Path>) -> Result<(), IqgmeError> {
        let layout = self.layout();
        Ok(storage::save(path, Self::MODEL, Self::VERSION, &layout)?)
    }

    fn load(path: impl AsRef<Path>) -> Result<Self, IqgmeError> {
        Self::read(storage::load(path, Self::MODEL)?)
    }

    fn to_bytes(&self) -> Result<Vec<u8>, IqgmeError> {
        let layout = self.layout();
        Ok(storage::to_bytes(Self::MODEL, Self::VERSION, &layout)?)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, IqgmeError> {
        Self::read(storage::from_bytes(Self::MODEL, bytes)?)
    }
}
