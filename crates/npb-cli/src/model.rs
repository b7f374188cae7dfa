//! The file that `npb fit` writes: the kind of model, the schema of the file it was fitted to, and the library's saved fit.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use npb_data::read::{DelimitedOptions, Unexpected};
use npb_data::schema::Schema;
use npb_infer::Saved;
use npb_infer::storage::{self, FormatError, StorageError};
use serde::{Deserialize, Serialize};

use crate::args::ModelKind;
use crate::failure::{Failure, Result, in_file};

/// Name in the header of the file.
const MODEL: &str = "npb-cli/model.3";
/// That of files that do not know the names of rows again, and of those that do not say how the file of the fit was written either.
const OLD_MODELS: [&str; 2] = ["npb-cli/model.2", "npb-cli/model"];

/// How the file of the fit was written, and whether a schema said what its columns are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Origin {
    pub(crate) layout: DelimitedOptions,
    /// The schema was given, not guessed.
    pub(crate) declared: bool,
}

impl Origin {
    /// Of a file that has no schema.
    pub(crate) fn laid_out(layout: DelimitedOptions) -> Self {
        Self {
            layout,
            declared: false,
        }
    }

    /// What becomes of values that their kind cannot be in later files: a guess refuses nothing.
    pub(crate) fn impossible_values(&self) -> Unexpected {
        match self.declared {
            true => Unexpected::Error,
            false => Unexpected::Missing,
        }
    }
}

/// A fit with what is needed to ask it about new files.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelFile {
    /// Kind of model, as in `npb fit KIND`.
    pub(crate) kind: String,
    /// The schema as TOML; levels are those that were seen.
    pub(crate) schema: String,
    /// The settings as TOML.
    pub(crate) config: String,
    /// Name of the file of the fit.
    pub(crate) file: String,
    pub(crate) n_rows: u64,
    /// Names of the columns of row, column and value (ratings, groups), or of the classes (topics).
    pub(crate) places: Vec<String>,
    /// Names of the items (groups) or words (topics).
    pub(crate) names: Vec<String>,
    /// Ratings from here on are likes (groups).
    pub(crate) liked: f64,
    /// The fit: bytes of `npb_infer::Saved::to_bytes`.
    pub(crate) fit: Vec<u8>,
    /// Follows in the file; the first files have none.
    #[serde(skip)]
    pub(crate) origin: Origin,
    /// Follows in the file: a number for each row by which its name is known again; none where rows have no names, of most kinds, and in old files.
    #[serde(skip)]
    pub(crate) row_names: Vec<u32>,
    /// Where it is, for messages.
    #[serde(skip)]
    pub(crate) path: PathBuf,
}

impl ModelFile {
    /// Of the bytes of a fit to a file, with its settings as TOML.
    pub(crate) fn new(
        kind: ModelKind,
        schema: &Schema,
        config: String,
        file: &Path,
        fit: Vec<u8>,
    ) -> Self {
        Self {
            kind: kind.name().to_owned(),
            schema: schema.to_toml(),
            config,
            file: file.display().to_string(),
            n_rows: 0,
            places: Vec::new(),
            names: Vec::new(),
            liked: 0.0,
            fit,
            origin: Origin::default(),
            row_names: Vec::new(),
            path: PathBuf::new(),
        }
    }

    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let content = (self, &self.origin, &self.row_names);
        let saved = storage::save(path, MODEL, env!("CARGO_PKG_VERSION"), &content);
        saved.map_err(Failure::failed)
    }

    pub(crate) fn load(path: &Path) -> Result<Self> {
        let with = |model: Self, origin, row_names| Self {
            origin,
            row_names,
            path: path.to_owned(),
            ..model
        };
        let old = |error: &StorageError| match error {
            StorageError::Format {
                source: FormatError::OtherModel { found, .. },
                ..
            } => OLD_MODELS.into_iter().find(|old| found == old),
            _ => None,
        };
        let loaded = match storage::load(path, MODEL) {
            Ok((model, origin, row_names)) => Ok(with(model, origin, row_names)),
            Err(error) => match old(&error) {
                None => Err(error),
                Some(name) if name == OLD_MODELS[0] => {
                    storage::load(path, name).map(|(model, origin)| with(model, origin, Vec::new()))
                }
                Some(name) => {
                    let origin = Origin {
                        declared: true,
                        ..Origin::default()
                    };
                    storage::load(path, name).map(|model| with(model, origin, Vec::new()))
                }
            },
        };
        loaded.map_err(|error| match error {
            StorageError::Format { source: FormatError::OtherModel { found, .. }, .. } if found != MODEL => {
                let path = path.display();
                Failure::bad_data(format_args!(
                    "{path}: holds a {found:?} of the library, without a schema; `npb import {path} --schema FILE -o m.npb` makes a file that can be asked here"
                ))
            }
            error => Failure::bad_data(error),
        })
    }

    /// What model the library has saved in these bytes.
    pub(crate) fn library_model(path: &Path, bytes: &[u8]) -> Result<String> {
        match storage::from_bytes::<(Self, Origin, Vec<u32>)>(MODEL, bytes) {
            Err(FormatError::OtherModel { found, .. }) if !OLD_MODELS.contains(&&*found) => {
                Ok(found)
            }
            Ok(_) | Err(FormatError::OtherModel { .. }) => Err(Failure::usage(format_args!(
                "{}: is a model file already",
                path.display()
            ))),
            Err(error) => Err(in_file(path)(error)),
        }
    }

    /// The schema of the file of the fit.
    pub(crate) fn schema(&self) -> Result<Schema> {
        Schema::from_toml(&self.schema).map_err(in_file(&self.path))
    }

    pub(crate) fn is(&self, kind: ModelKind) -> bool {
        self.kind == kind.name()
    }

    /// The name of the column of rows (0), columns (1) or values (2); `usual` where the file does not say.
    pub(crate) fn place<'a>(&'a self, place: usize, usual: &'a str) -> &'a str {
        self.places.get(place).map_or(usual, String::as_str)
    }

    /// Whether both were fitted to the same columns of as many rows.
    pub(crate) fn is_of_the_data_of(&self, other: &Self) -> bool {
        (&self.kind, &self.schema, self.n_rows) == (&other.kind, &other.schema, other.n_rows)
            && (&self.places, &self.names) == (&other.places, &other.names)
    }

    /// Refuses rows of a file that have other names than those of the fit in their place, if these are known.
    pub(crate) fn check_names(&self, ids: Option<&[Option<String>]>, file: &Path) -> Result<()> {
        let found = row_names(ids)?;
        let mut pairs = self.row_names.iter().zip(&found);
        let Some(row) = pairs.position(|(known, found)| known != found) else {
            return Ok(());
        };
        let name = ids.and_then(|ids| ids[row].as_deref()).unwrap_or("");
        Err(in_file(file)(format_args!(
            "row {} is named {name:?}, and the row of the fit was not: give the rows of the fit under their names, in their order",
            row + 1
        )))
    }

    /// The library's fit in it.
    pub(crate) fn fit<F: Saved<Error: Display>>(&self) -> Result<F> {
        let (path, version) = (&self.path, env!("CARGO_PKG_VERSION"));
        match Self::library_model(path, &self.fit) {
            Ok(found) if ![F::MODEL, F::BEFORE].contains(&&*found) => {
                Err(in_file(path)(format_args!(
                    "holds a {found:?}, and npb {version} keeps a {:?} of this kind: fit again, or ask with the version that wrote it",
                    F::MODEL
                )))
            }
            _ => F::from_bytes(&self.fit).map_err(in_file(path)),
        }
    }

    /// A question that this kind of model does not answer.
    pub(crate) fn cannot(&self, verb: &str, kinds: &str) -> Failure {
        Failure::usage(format_args!(
            "{}: is a model of kind {}; `npb {verb}` asks models of kind {kinds}",
            self.path.display(),
            self.kind
        ))
    }
}

/// A number for each row by which its name is known again.
pub(crate) fn row_names(ids: Option<&[Option<String>]>) -> Result<Vec<u32>> {
    let number = |id: &Option<String>| storage::fingerprint(id).map(|print| (print >> 32) as u32);
    let numbers = ids.unwrap_or_default().iter().map(number);
    numbers
        .collect::<std::result::Result<_, _>>()
        .map_err(Failure::failed)
}
