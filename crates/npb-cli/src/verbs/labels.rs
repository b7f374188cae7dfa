//! Many labels of a row at once, over one projection of the features.

use std::path::Path;

use npb_data::MixedColumn;
use npb_data::read::ReadingRules;
use npb_data::schema::{ColumnSchema, Design, Kind, Role, SchemaData};
use npb_regbayes::labels::fit_watched;
use npb_regbayes::tasks::{Task, TaskData};
use npb_regbayes::{LabelsConfig, LabelsFit, RegBayesError, Saved};

use crate::args::{LabelsArgs, ModelKind, PredictArgs};
use crate::failure::{Failure, Result};
use crate::input::{self, Given, numbers};
use crate::job::Job;
use crate::join;
use crate::keep::{keep, of_bound};
use crate::model::ModelFile;
use crate::output;
use crate::settings;
use crate::sheet::{Cell, Sheet};

pub(crate) fn fit(args: &LabelsArgs, quiet: bool) -> Result<()> {
    let job = Job::new(&args.run, quiet)?;
    let config: LabelsConfig = args.settings.read(ModelKind::Labels)?;
    config.validate().map_err(Failure::usage)?;
    let file = &args.training.file;
    let (data, origin) = input::training(&args.training, None, None, quiet)?;
    let labels = read_labels(args, &data, quiet)?;
    let inputs = numbers(&data, file, quiet)?;
    let in_file =
        |e: RegBayesError| Failure::bad_data(format_args!("{}: {e}", args.labels.display()));
    let rows = rows_of_labels(args, &data, &labels, quiet)?;
    let columns = labels
        .features
        .columns()
        .iter()
        .zip(labels.features.column_names());
    let tasks = columns
        .map(|(column, name)| task(name, column, &rows))
        .collect::<std::result::Result<Vec<_>, _>>();
    let tasks = TaskData::new(inputs, tasks.map_err(in_file)?).map_err(in_file)?;
    job.listen()?;
    let fit = fit_watched(&tasks, &config, &job.watch());
    job.finished()?;
    let fit = fit.map_err(in_file)?;
    for note in fit.notes() {
        input::note(quiet, note);
    }
    let bytes = fit.to_bytes().map_err(Failure::failed)?;
    let mut schema = data.schema.clone();
    schema.columns.extend(
        labels
            .schema
            .with_role(Role::Feature)
            .map(|c| ColumnSchema {
                role: Role::Label,
                ..c.clone()
            }),
    );
    schema.validate().map_err(|e| {
        Failure::bad_data(format_args!(
            "{}: {e}; where a label stands among the features, take it out of these by --ignore, and features out of the file of the labels",
            args.labels.display()
        ))
    })?;
    let mut model = ModelFile::new(
        ModelKind::Labels.name(),
        &schema,
        settings::text(&config)?,
        file,
        bytes,
    );
    (model.n_rows, model.origin) = (data.n_rows as u64, origin);
    let what = format!("{} rows, {} labels", data.n_rows, labels.features.n_cols());
    keep(
        &job,
        &model,
        &what,
        &of_bound(&fit.stop(), "latent.limits.max_iterations"),
    )
}

/// The file of the labels: two levels or numbers in each column; a column of the name of the row ids names the rows.
fn read_labels(args: &LabelsArgs, data: &SchemaData, quiet: bool) -> Result<SchemaData> {
    let path = &args.labels;
    let name = path.display().to_string();
    let given = Given::read(path, quiet)?;
    let options = given.options_beside(&args.training.layout, quiet)?;
    let mut schema = given.guess(&options)?.schema;
    let id = data
        .schema
        .with_role(Role::RowId)
        .next()
        .map(|c| c.name.clone());
    for column in &mut schema.columns {
        column.role = match column.role {
            _ if id.as_ref() == Some(&column.name) => Role::RowId,
            // Names or numbers of the rows.
            Role::Ignored if column.kind == Kind::Identifier => continue,
            _ => Role::Feature,
        };
        match column.kind {
            Kind::Binary => {}
            Kind::Real | Kind::Count | Kind::Positive if column.role == Role::Feature => {
                column.kind = Kind::Real
            }
            // Of whole numbers: grades.
            Kind::Ordinal if column.role == Role::Feature => {
                (column.kind, column.levels) = (Kind::Real, None);
            }
            _ if column.role == Role::RowId => {}
            _ => {
                let values = match column.levels.as_deref() {
                    Some([only]) => format!(
                        "is {only:?} in every row: there is nothing to predict, leave it out"
                    ),
                    Some(levels) => format!(
                        "has {} values; a label has two, or is a number: make a column of 0 and 1 for each",
                        levels.len()
                    ),
                    None => format!(
                        "is of kind {}; a label has two values, or is a number",
                        column.kind.name()
                    ),
                };
                let column = &column.name;
                return Err(Failure::bad_data(format_args!(
                    "{name}: column {column:?} {values}"
                )));
            }
        }
    }
    let rules = ReadingRules {
        layout: options,
        ..ReadingRules::default()
    };
    Ok(given.by_schema(&schema, &rules)?.0)
}

/// For each row of the features the row of the labels.
fn rows_of_labels(
    args: &LabelsArgs,
    data: &SchemaData,
    labels: &SchemaData,
    quiet: bool,
) -> Result<Vec<Option<usize>>> {
    if let (Some(ids), Some(labelled)) = (&data.row_ids, &labels.row_ids) {
        let file = args.labels.display().to_string();
        let at = join::places(&file, labelled)?;
        return join::joined(&file, ids, &at, quiet);
    }
    match data.n_rows == labels.n_rows {
        true => Ok((0..data.n_rows).map(Some).collect()),
        false => Err(Failure::bad_data(format_args!(
            "{}: has {} rows, {} has {}; give both a column that names the rows, and name it by --id",
            args.labels.display(),
            labels.n_rows,
            args.training.file.display(),
            data.n_rows
        ))),
    }
}

fn task(
    name: &str,
    column: &MixedColumn,
    rows: &[Option<usize>],
) -> std::result::Result<Task, RegBayesError> {
    let number = |row: &Option<usize>| row.and_then(|i| column.number(i));
    match column {
        MixedColumn::Binary { values, .. } => {
            let labels: Vec<Option<bool>> =
                rows.iter().map(|row| row.and_then(|i| values[i])).collect();
            Ok(Task::label(name, &labels))
        }
        _ => Task::real(name, &rows.iter().map(number).collect::<Vec<_>>()),
    }
}

/// Each label of each row with its probability (with `inputs=none` its margin), or each number.
pub(crate) fn predict(args: &PredictArgs, model: &ModelFile, quiet: bool) -> Result<()> {
    if args.interval.is_some() {
        return Err(Failure::usage(
            "--interval: models of kind labels predict probabilities without intervals",
        ));
    }
    let fit = load(model, &args.model)?;
    let schema = model.schema(&args.model)?;
    let data = input::like_training(
        &args.file,
        (&schema, &model.origin),
        &args.layout,
        args.rules,
        quiet,
    )?;
    let inputs = Design::new(&data.schema)
        .table(&data.features)
        .map_err(Failure::bad_data)?;
    let scores = fit
        .predict(&inputs)
        .map_err(|e| Failure::bad_data(format_args!("{}: {e}", args.file.display())))?;
    let mut sheet = Sheet::of_rows(&data.schema, data.row_ids.as_ref(), data.n_rows);
    for (m, label) in schema.with_role(Role::Label).enumerate() {
        let margins = scores.of_task(m);
        match (scores.labels(m), label.levels.as_deref()) {
            (Some(found), Some([no, yes])) => {
                let cells = found
                    .iter()
                    .map(|&is| Cell::Text(if is { yes } else { no }.clone()));
                sheet.push_column(&label.name, cells);
                let (what, numbers) = match scores.probabilities(m) {
                    Some(probabilities) => ("P", probabilities),
                    None => ("margin", margins),
                };
                let cells = numbers.into_iter().map(Cell::Number);
                sheet.push_column(format!("{what}({})", label.name), cells);
            }
            _ => sheet.push_column(&label.name, margins.into_iter().map(Cell::Number)),
        }
    }
    output::sheet(&sheet, &args.out)
}

/// The latent features: how much each is used, what it reads, which labels it drives.
pub(crate) fn features(model: &ModelFile, path: &Path) -> Result<Sheet> {
    let fit = load(model, path)?;
    let mut sheet = Sheet::new(&["feature", "expected_use"]);
    for (feature, number) in fit.features().iter().zip(1..) {
        sheet.push_row([Cell::Whole(number), Cell::Number(feature.expected_use)]);
    }
    Ok(sheet)
}

pub(crate) fn load(model: &ModelFile, path: &Path) -> Result<LabelsFit> {
    model.fit(path)
}
