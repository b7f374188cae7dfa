use std::path::Path;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::storage::{self, FormatError, StorageError};

/// A fit that can be kept in a file and come back: `save`, `load`, `to_bytes`, `from_bytes`.
///
/// A model crate says what is stored and checks it when it comes back; the rest is provided, and
/// the same for all models. The file is that of [`storage`] and says which model it is of. A content
/// with another layout gets another name (`npb-X/fit/2`): files of the one before are refused by it, or read by
/// [`content_before`](Self::content_before).
///
/// ```
/// use npb_infer::{Saved, storage::{FormatError, StorageError}};
///
/// #[derive(Debug, PartialEq)]
/// struct Weights(Vec<f64>);
///
/// impl Saved for Weights {
///     const MODEL: &'static str = "demo/weights";
///     const VERSION: &'static str = "0.1.0";
///     type Content = Vec<f64>;
///     type Error = Box<dyn std::error::Error>;
///
///     fn content(&self) -> &Vec<f64> { &self.0 }
///
///     fn from_content(content: Vec<f64>) -> Result<Self, Self::Error> {
///         match content.iter().position(|w| !w.is_finite()) {
///             Some(k) => Err(format!("weight {k} is {}: must be finite", content[k]).into()),
///             None => Ok(Self(content)),
///         }
///     }
/// }
///
/// let weights = Weights(vec![0.25, 0.75]);
/// assert_eq!(Weights::from_bytes(&weights.to_bytes()?)?, weights);
/// assert!(Weights::from_bytes(&Weights(vec![f64::NAN]).to_bytes()?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Saved: Sized {
    /// Name of the model in files; a file of another model is an error.
    const MODEL: &'static str;
    /// Version of the crate that writes.
    const VERSION: &'static str;
    /// Name of the model in files of the layout before, where they can be read still.
    const BEFORE: &'static str = "";
    /// What is stored. A plain struct, without tagged, untagged, flattened or skipped fields.
    type Content: Serialize + DeserializeOwned;
    /// The model's error.
    type Error: From<StorageError> + From<FormatError>;

    /// What is stored of this fit.
    fn content(&self) -> &Self::Content;

    /// The fit with this content.
    ///
    /// # Errors
    /// Whatever its methods rely on and does not hold: a checksum is no defence against a forged
    /// file.
    fn from_content(content: Self::Content) -> Result<Self, Self::Error>;

    /// The content in a file of the layout before, which is called [`BEFORE`](Self::BEFORE).
    ///
    /// # Errors
    /// As [`decoded`](Self::decoded).
    fn content_before(bytes: &[u8]) -> Result<Self::Content, FormatError> {
        Self::decoded(Self::BEFORE, bytes)
    }

    /// What a file of the model with this name holds.
    ///
    /// # Errors
    /// Bytes of another model, or that are no such content.
    fn decoded<T: DeserializeOwned>(model: &str, bytes: &[u8]) -> Result<T, FormatError> {
        let Layout::V1(content) = storage::from_bytes(model, bytes)?;
        Ok(content)
    }

    /// Writes the fit to a file that [`load`](Self::load) reads. A file that is there already is
    /// replaced only when the new one is complete.
    ///
    /// # Errors
    /// The file cannot be written.
    fn save(&self, path: impl AsRef<Path>) -> Result<(), Self::Error> {
        let layout = LayoutRef::V1(self.content());
        Ok(storage::save(path, Self::MODEL, Self::VERSION, &layout)?)
    }

    /// Reads a fit written by [`save`](Self::save).
    ///
    /// # Errors
    /// A truncated, altered or foreign file, or contents that contradict one another; the error
    /// says which.
    fn load(path: impl AsRef<Path>) -> Result<Self, Self::Error> {
        let path = path.as_ref();
        let content = match storage::load(path, Self::MODEL) {
            Ok(Layout::V1(content)) => content,
            Err(StorageError::Format {
                source: FormatError::OtherModel { found, .. },
                ..
            }) if found == Self::BEFORE => {
                let bytes = storage::read(path)?;
                Self::content_before(&bytes).map_err(|e| storage::in_file(path, e))?
            }
            Err(error) => return Err(error.into()),
        };
        Self::from_content(content)
    }

    /// The bytes that [`save`](Self::save) writes.
    ///
    /// # Errors
    /// The content cannot be encoded: none for the fits of this workspace.
    fn to_bytes(&self) -> Result<Vec<u8>, Self::Error> {
        let layout = LayoutRef::V1(self.content());
        Ok(storage::to_bytes(Self::MODEL, Self::VERSION, &layout)?)
    }

    /// The fit in bytes made by [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// As [`load`](Self::load).
    fn from_bytes(bytes: &[u8]) -> Result<Self, Self::Error> {
        let content = match Self::decoded(Self::MODEL, bytes) {
            Err(FormatError::OtherModel { found, .. }) if found == Self::BEFORE => {
                Self::content_before(bytes)
            }
            decoded => decoded,
        };
        Self::from_content(content?)
    }
}

/// Layouts of a content.
#[derive(Deserialize)]
enum Layout<T> {
    V1(T),
}

/// The same, borrowed.
#[derive(Serialize)]
enum LayoutRef<'a, T> {
    V1(&'a T),
}
