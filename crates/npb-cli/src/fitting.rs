//! What every fit does around the fit itself: settings, progress and interruption, the model file.

use std::fmt::Display;
use std::path::Path;

use npb_data::schema::Schema;
use npb_infer::{Saved, Watch};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::args::{HowToFit, ModelKind};
use crate::failure::{Failure, Result, in_file};
use crate::job::Job;
use crate::keep::keep;
use crate::model::{ModelFile, Origin};
use crate::settings;

/// Kinds of models whose fits go on with more rows.
const GO_ON: [ModelKind; 3] = [ModelKind::Table, ModelKind::Ratings, ModelKind::Mixture];

/// A model of one kind that is fitted to one file.
pub(crate) struct Fitting<'a, C> {
    pub(crate) config: C,
    pub(crate) file: &'a Path,
    /// The fit that goes on.
    pub(crate) before: Option<ModelFile>,
    kind: ModelKind,
    job: Job<'a>,
}

impl<'a, C: Default + DeserializeOwned + Serialize> Fitting<'a, C> {
    /// Checks the options and reads the settings before any work is done.
    pub(crate) fn new(
        kind: ModelKind,
        file: &'a Path,
        how: &'a HowToFit,
        quiet: bool,
    ) -> Result<Self> {
        let job = Job::new(&how.run, quiet)?;
        let before = how.before.as_deref().map(|path| before(path, kind));
        let before = before.transpose()?;
        let config = match &before {
            None => how.settings.read(kind)?,
            Some(model) => {
                let own = toml::from_str(&model.config).map_err(in_file(&model.path))?;
                how.settings.read_on::<C>(&own, kind)?
            }
        };
        Ok(Self {
            job,
            config,
            file,
            before,
            kind,
        })
    }

    /// Fits; what is wrong with the data is that of `file`. An interrupted fit is a failure.
    pub(crate) fn run<F, E: Display>(
        &self,
        file: &Path,
        fit: impl FnOnce(&Watch<'_>) -> std::result::Result<F, E>,
    ) -> Result<F> {
        self.job.listen()?;
        let fit = fit(&self.job.watch());
        self.job.finished()?;
        fit.map_err(in_file(file))
    }

    /// The model file of a fit to so many rows.
    pub(crate) fn model<F: Saved<Error: Display>>(
        &self,
        fit: &F,
        schema: &Schema,
        (n_rows, origin): (usize, Origin),
    ) -> Result<ModelFile> {
        let bytes = fit.to_bytes().map_err(Failure::failed)?;
        let config = settings::text(&self.config)?;
        Ok(ModelFile {
            n_rows: n_rows as u64,
            origin,
            path: self.job.out().to_owned(),
            ..ModelFile::new(self.kind, schema, config, self.file, bytes)
        })
    }

    /// Writes the model and the record that is asked for, and says so, and what has not settled.
    pub(crate) fn keep(&self, model: &ModelFile, what: &str, unmet: &[String]) -> Result<()> {
        keep(&self.job, model, what, unmet)
    }
}

/// The model file of a fit of this kind that is to go on.
fn before(path: &Path, kind: ModelKind) -> Result<ModelFile> {
    if !GO_ON.contains(&kind) {
        return Err(Failure::usage(format_args!(
            "--continue: a model of kind {} does not go on (tables, ratings and mixtures do; docs/command-line.md says why): fit all rows anew",
            kind.name()
        )));
    }
    let model = ModelFile::load(path)?;
    match model.is(kind) {
        true => Ok(model),
        false => Err(Failure::usage(format_args!(
            "--continue {}: is a model of kind {}, and `npb fit {}` goes on with one of its own kind",
            path.display(),
            model.kind,
            kind.name()
        ))),
    }
}
