//! `npb fit`.

use std::path::Path;

use npb_data::schema::{ColumnSchema, Kind, Role, SchemaData};
use npb_data::{Labels, Table};
use npb_iqgme::{IqgmeConfig, IqgmeError, IqgmeFit, Saved};

use super::classes::check_classes;
use super::{grouped, groups, labels, ratings, table, tasks, topics};
use crate::args::{ClassifierArgs, Duplicates, Fit, MixtureArgs, ModelKind, RatingsArgs, Values};
use crate::failure::{Failure, Result};
use crate::input::{self, numbers};
use crate::job::Job;
use crate::keep::{keep, of_bound};
use crate::model::{ModelFile, Origin};
use crate::settings;

pub(crate) fn fit(fit: &Fit, quiet: bool) -> Result<()> {
    match fit {
        Fit::Auto(args) => auto(args, quiet),
        Fit::Classifier(args) => classifier(args, quiet),
        Fit::Mixture(args) => mixture(args, quiet),
        Fit::Ratings(args) => ratings::fit(args, quiet),
        Fit::Table(args) => table::fit(args, quiet),
        Fit::Labels(args) => labels::fit(args, quiet),
        Fit::Groups(args) => groups::fit(args, quiet),
        Fit::Grouped(args) => grouped::fit(args, quiet),
        Fit::Tasks(args) => tasks::fit(args, quiet),
        Fit::Topics(args) => topics::fit(args, quiet),
    }
}

/// The kind of model that a table suggests, and why.
fn auto(args: &ClassifierArgs, quiet: bool) -> Result<()> {
    let file = &args.training.file;
    if file.as_os_str() == "-" {
        return Err(Failure::usage(
            "fit auto reads the file twice: name one, or say the kind of model",
        ));
    }
    let schema = input::schema(&args.training)?;
    let label = match &args.label {
        Some(name) => {
            let at = schema.position(name);
            let at = at.map_err(|e| Failure::usage(format_args!("{}: {e}", file.display())))?;
            Some(&schema.columns[at])
        }
        None => schema.with_role(Role::Label).next(),
    };
    let training = &args.training;
    let said = training.schema.is_some() || training.id.is_some() || !training.ignore.is_empty();
    let plain = label.is_none() && !said;
    let names = schema.columns.iter().map(|column| column.name.clone());
    let names: Vec<String> = names.collect();
    if plain && ratings::are_ratings(file, &names, &args.training.layout) {
        return auto_ratings(args, names, quiet);
    }
    let (kind, why) = suggested(label, schema.with_role(Role::Feature));
    let kind_name = kind.name();
    input::note(
        quiet,
        format_args!("{}: a {kind_name}, as {why}", file.display()),
    );
    let other = || MixtureArgs {
        training: args.training.clone(),
        settings: args.settings.clone(),
        run: args.run.clone(),
    };
    match kind {
        ModelKind::Classifier => classifier(args, quiet),
        ModelKind::Mixture => mixture(&other(), quiet),
        _ => table::fit(&other(), quiet),
    }
}

/// Ratings by the first three columns.
fn auto_ratings(args: &ClassifierArgs, names: Vec<String>, quiet: bool) -> Result<()> {
    let mut names = names.into_iter();
    let (Some(row), Some(column), Some(value)) = (names.next(), names.next(), names.next()) else {
        return Err(Failure::failed("ratings have three columns"));
    };
    let file = &args.training.file;
    input::note(
        quiet,
        format_args!(
            "{}: ratings, as every line has another pair of {row:?} and {column:?}, each of which occurs again, and {value:?} is a number of few values: npb predict, npb recommend (npb fit table takes them for columns)",
            file.display()
        ),
    );
    let args = RatingsArgs {
        file: file.clone(),
        row,
        column,
        value,
        duplicates: Duplicates::Error,
        likelihood: Values::Gaussian,
        row_features: None,
        column_features: None,
        chains: None,
        layout: args.training.layout.clone(),
        settings: args.settings.clone(),
        run: args.run.clone(),
    };
    ratings::fit(&args, quiet)
}

fn suggested<'a>(
    label: Option<&ColumnSchema>,
    mut features: impl Iterator<Item = &'a ColumnSchema>,
) -> (ModelKind, &'static str) {
    match label.map(|column| column.kind) {
        Some(Kind::Real | Kind::Positive | Kind::Date | Kind::Angle) => (
            ModelKind::Table,
            "the label is a number: npb impute fills it where it is missing",
        ),
        Some(_) => (
            ModelKind::Classifier,
            "the label has classes: npb predict gives their probabilities",
        ),
        None if features.any(|column| column.kind.has_levels()) => (
            ModelKind::Table,
            "no label is named, and columns are of several kinds: npb impute, npb dependence",
        ),
        None => (
            ModelKind::Mixture,
            "no label is named, and all columns are numbers: npb score, npb impute",
        ),
    }
}

fn classifier(args: &ClassifierArgs, quiet: bool) -> Result<()> {
    let job = Job::new(&args.run, quiet)?;
    let config: IqgmeConfig = args.settings.read(ModelKind::Classifier)?;
    config.validate().map_err(Failure::usage)?;
    let file = &args.training.file;
    let (data, origin) = input::training(&args.training, args.label.as_deref(), None, quiet)?;
    if data.labels.n_cols() != 1 {
        return Err(Failure::usage(format_args!(
            "{}: name the column to be predicted by --label, or give one column the role \"label\" in the schema",
            file.display()
        )));
    }
    let in_file = |message: &dyn std::fmt::Display| {
        Failure::bad_data(format_args!("{}: {message}", file.display()))
    };
    let labels = data.labels.labels(0).map_err(|e| in_file(&e))?;
    check_classes(&labels, file)?;
    let table = numbers(&data, file, quiet)?;
    let fit = run(&table, &labels, &config, &job).map_err(|e| in_file(&e))?;
    job.finished()?;
    let what = format!(
        "{} rows, {} columns of numbers, classes {}",
        data.n_rows,
        table.n_cols(),
        fit.classes().join(", ")
    );
    write(
        ModelKind::Classifier,
        &fit,
        (&data, origin),
        file,
        &config,
        &job,
        &what,
    )
}

fn mixture(args: &MixtureArgs, quiet: bool) -> Result<()> {
    let job = Job::new(&args.run, quiet)?;
    let config: IqgmeConfig = args.settings.read(ModelKind::Mixture)?;
    config.validate().map_err(Failure::usage)?;
    let file = &args.training.file;
    let (data, origin) = input::training(&args.training, None, None, quiet)?;
    let table = numbers(&data, file, quiet)?;
    let none: Vec<Option<&str>> = vec![None; table.n_rows()];
    let fit = run(&table, &Labels::from_strings(&none), &config, &job)
        .map_err(|e| Failure::bad_data(format_args!("{}: {e}", file.display())))?;
    job.finished()?;
    let what = format!(
        "{} rows, {} columns of numbers, {} clusters",
        data.n_rows,
        table.n_cols(),
        fit.n_clusters()
    );
    write(
        ModelKind::Mixture,
        &fit,
        (&data, origin),
        file,
        &config,
        &job,
        &what,
    )
}

fn run(
    table: &Table,
    labels: &Labels,
    config: &IqgmeConfig,
    job: &Job<'_>,
) -> std::result::Result<IqgmeFit, IqgmeError> {
    // Without a handler the fit cannot be stopped; with one it stops after an iteration.
    let _ = job.listen();
    npb_iqgme::fit_watched(table, labels, config, &job.watch())
}

fn write(
    kind: ModelKind,
    fit: &IqgmeFit,
    (data, origin): (&SchemaData, Origin),
    file: &Path,
    config: &IqgmeConfig,
    job: &Job<'_>,
    what: &str,
) -> Result<()> {
    let bytes = fit.to_bytes().map_err(Failure::failed)?;
    let mut model = ModelFile::new(
        kind.name(),
        &data.schema,
        settings::text(config)?,
        file,
        bytes,
    );
    (model.n_rows, model.origin) = (data.n_rows as u64, origin);
    keep(
        job,
        &model,
        what,
        &of_bound(fit.stop(), "limits.max_iterations"),
    )
}
