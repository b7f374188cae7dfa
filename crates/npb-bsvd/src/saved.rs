//! Fits in files.

use std::path::Path;

use npb_infer::storage;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::fit::BsvdFit;
use crate::gibbs::BsvdSampler;
use crate::side::Side;
use crate::{BsvdError, Features};

/// Name in saved files.
const MODEL: &str = "npb-bsvd/fit";

/// Layouts of saved fits.
#[derive(Deserialize)]
enum Wire {
    V1(BsvdFit),
}

/// The same, borrowed.
#[derive(Serialize)]
enum WireRef<'a> {
    V1(&'a BsvdFit),
}

impl BsvdFit {
    /// Writes the fit, stored draws and all, to a file that [`load`](Self::load) reads.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), BsvdError> {
        let version = env!("CARGO_PKG_VERSION");
        Ok(storage::save(path, MODEL, version, &WireRef::V1(self))?)
    }

    /// Reads a fit written by [`save`](Self::save).
    ///
    /// # Errors
    /// A truncated, altered or foreign file, or one whose numbers contradict each other: the error says which.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, BsvdError> {
        let Wire::V1(fit) = storage::load(path, MODEL)?;
        Ok(fit)
    }

    /// The bytes that [`save`](Self::save) writes.
    ///
    /// # Errors
    /// None for a fit that exists; the signature follows the file format.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BsvdError> {
        let version = env!("CARGO_PKG_VERSION");
        Ok(storage::to_bytes(MODEL, version, &WireRef::V1(self))?)
    }

    /// The fit in bytes made by [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BsvdError> {
        let Wire::V1(fit) = storage::from_bytes(MODEL, bytes)?;
        Ok(fit)
    }

    /// Checks everything that methods rely on.
    fn check(&self) -> Result<(), BsvdError> {
        let expect = |holds: bool, what: &str| match holds {
            true => Ok(()),
            false => Err(BsvdError::State {
                what: format!("{what}: impossible value or size"),
            }),
        };
        self.config.validate()?;
        expect(self.centre.is_finite(), "centre")?;
        expect(self.scale.is_finite() && self.scale > 0.0, "scale")?;
        for side in [Side::Rows, Side::Columns] {
            let n = self.size(side);
            expect(u32::try_from(n).is_ok(), "size of the matrix")?;
            let names = self.names(side);
            expect(names.is_empty() || names.len() == n, "names")?;
            if let Some(features) = side.features(&self.side) {
                check_features(features, n)?;
            }
        }
        let total = |counts: &[u32]| counts.iter().map(|&n| u64::from(n)).sum::<u64>();
        let entries = total(&self.row_counts);
        expect(entries > 0, "numbers of entries")?;
        expect(total(&self.column_counts) == entries, "numbers of entries")?;
        self.cells.check(self.n_rows(), self.n_cols())?;
        self.moments.check(&self.cells)?;
        let names = BsvdSampler::scalar_names();
        let scalars = self.traces().all(|trace| trace.names() == names);
        expect(scalars, "scalars of the trace")?;
        let shape = self.shape();
        self.last.check(&shape)?;
        self.draws.iter().try_for_each(|draw| draw.check(&shape))
    }
}

fn check_features(features: &Features, n: usize) -> Result<(), BsvdError> {
    features.check()?;
    if features.n_rows() == n {
        return Ok(());
    }
    Err(BsvdError::Size {
        what: "rows of features",
        found: features.n_rows(),
        expected: n,
    })
}

impl Serialize for BsvdFit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Made by `remote = "Self"`: the fields as they are.
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for BsvdFit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fit = Self::deserialize(deserializer)?;
        fit.check().map_err(D::Error::custom)?;
        Ok(fit)
    }
}
