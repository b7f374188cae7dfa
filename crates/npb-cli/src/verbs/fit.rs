//! `npb fit`.

use npb_data::schema::{ColumnSchema, Kind, Role, SchemaData};
use npb_data::{DataError, Labels, Table};
use npb_iqgme::{IqgmeConfig, IqgmeError, IqgmeFit};

use super::classes::Labelled;
use super::{grouped, groups, labels, ratings, table, tasks, topics};
use crate::args::{ClassifierArgs, Duplicates, Fit, MixtureArgs, ModelKind, RatingsArgs, Values};
use crate::failure::{Failure, Result};
use crate::fitting::Fitting;
use crate::input::{self, Roles, note_of, numbers};
use crate::keep::of_bound;
use crate::model::Origin;

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
    // Without a column there is nothing to suggest, and the fit says what is wrong.
    let silent = quiet || schema.with_role(Role::Feature).next().is_none();
    note_of(silent, file, format_args!("a {}, as {why}", kind.name()));
    let other = || MixtureArgs {
        training: args.training.clone(),
        how: args.how.clone(),
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
    let text = format_args!(
        "ratings, as every line has another pair of {row:?} and {column:?}, each of which occurs again, and {value:?} is a number of few values: npb predict, npb recommend (npb fit table takes them for columns)"
    );
    note_of(quiet, file, text);
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
        how: args.how.clone(),
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
    let file = &args.training.file;
    let fitting = Fitting::new(ModelKind::Classifier, file, &args.how, quiet)?;
    check(&fitting)?;
    let roles = Roles {
        label: args.label.as_deref(),
        ..Roles::default()
    };
    let read = Labelled::read(&args.training, roles, quiet)?;
    let fit = run(&fitting, &read.table, &read.labels)?;
    let classes = format!("classes {}", fit.classes().join(", "));
    keep(&fitting, &fit, (&read.data, read.origin), &classes)
}

fn mixture(args: &MixtureArgs, quiet: bool) -> Result<()> {
    let file = &args.training.file;
    let fitting = Fitting::new(ModelKind::Mixture, file, &args.how, quiet)?;
    check(&fitting)?;
    let (data, origin) = match &fitting.before {
        None => input::training(&args.training, Roles::default(), quiet)?,
        Some(before) => input::further(&args.training, before, quiet)?,
    };
    let table = numbers(&data, file, quiet)?;
    let none: Vec<Option<&str>> = vec![None; table.n_rows()];
    let fit = match &fitting.before {
        None => run(&fitting, &table, &Labels::from_strings(&none))?,
        Some(before) => {
            let old: IqgmeFit = before.fit()?;
            fitting.run(file, |watch| {
                old.continue_with(&table, &fitting.config, watch)
            })?
        }
    };
    let clusters = format!("{} clusters", fit.n_clusters());
    keep(&fitting, &fit, (&data, origin), &clusters)
}

fn check(fitting: &Fitting<'_, IqgmeConfig>) -> Result<()> {
    fitting.config.validate().map_err(Failure::usage)
}

fn run(fitting: &Fitting<'_, IqgmeConfig>, table: &Table, labels: &Labels) -> Result<IqgmeFit> {
    fitting.run(fitting.file, |watch| {
        npb_iqgme::fit_watched(table, labels, &fitting.config, watch)
            .map_err(|e| in_words_of_the_file(&e, table))
    })
}

/// Rows are counted from 1 in files, and columns have names.
fn in_words_of_the_file(error: &IqgmeError, table: &Table) -> String {
    match error {
        IqgmeError::Data(DataError::TooFar { row, column, value }) => format!(
            "row {} of the data, column {:?}: {value:e} is too far from the other values of its column to be computed with; mark the cell as missing or correct it",
            row + 1,
            table.column_names().get(*column).map_or("", String::as_str),
        ),
        _ => error.to_string(),
    }
}

fn keep(
    fitting: &Fitting<'_, IqgmeConfig>,
    fit: &IqgmeFit,
    (data, origin): (&SchemaData, Origin),
    found: &str,
) -> Result<()> {
    let (n_rows, n_cols) = (data.n_rows, fit.column_names().len());
    let what = format!("{n_rows} rows, {n_cols} columns of numbers, {found}");
    let model = fitting.model(fit, &data.schema, (n_rows, origin))?;
    fitting.keep(
        &model,
        &what,
        &of_bound(fit.stop(), "limits.max_iterations"),
    )
}
