//! Many labels of a row at once, over one projection of the features.

use npb_data::MixedColumn;
use npb_data::read::ReadingRules;
use npb_data::schema::{ColumnSchema, Kind, Role, Schema, SchemaData};
use npb_regbayes::labels::fit_watched;
use npb_regbayes::tasks::{Task, TaskData};
use npb_regbayes::{LabelsConfig, LabelsFit, RegBayesError};

use crate::args::{LabelsArgs, ModelKind, PredictArgs};
use crate::failure::{Failure, Result, in_file};
use crate::fitting::Fitting;
use crate::input::{self, Given, Roles, numbers};
use crate::join;
use crate::keep::of_bound;
use crate::model::ModelFile;
use crate::rows::{self, Needs};
use crate::sheet::{Cell, Sheet, Type};

pub(crate) fn fit(args: &LabelsArgs, quiet: bool) -> Result<()> {
    let file = &args.training.file;
    let fitting: Fitting<'_, LabelsConfig> =
        Fitting::new(ModelKind::Labels, file, &args.how, quiet)?;
    fitting.config.validate().map_err(Failure::usage)?;
    let (data, origin) = input::training(&args.training, Roles::default(), quiet)?;
    let labels = read_labels(args, &data, quiet)?;
    let inputs = numbers(&data, file, quiet)?;
    let rows = rows_of_labels(args, &data, &labels, quiet)?;
    let columns = labels.features.columns().iter();
    let tasks: std::result::Result<Vec<Task>, _> = columns
        .zip(labels.features.column_names())
        .map(|(column, name)| task(name, column, &rows))
        .collect();
    let tasks = tasks.and_then(|tasks| TaskData::new(inputs, tasks));
    let tasks = tasks.map_err(in_file(&args.labels))?;
    let fit = fitting.run(&args.labels, |watch| {
        fit_watched(&tasks, &fitting.config, watch)
    })?;
    for note in fit.notes() {
        input::note(quiet, note);
    }
    let schema = with_labels(args, &data.schema, &labels.schema)?;
    let what = format!("{} rows, {} labels", data.n_rows, labels.features.n_cols());
    let unmet = of_bound(fit.stop(), "latent.limits.max_iterations");
    let model = fitting.model(&fit, &schema, (data.n_rows, origin))?;
    fitting.keep(&model, &what, &unmet)
}

/// The schema of the features, with the columns of the file of the labels as labels.
fn with_labels(args: &LabelsArgs, features: &Schema, labels: &Schema) -> Result<Schema> {
    let mut schema = features.clone();
    let labels = labels.with_role(Role::Feature).map(|c| ColumnSchema {
        role: Role::Label,
        ..c.clone()
    });
    schema.columns.extend(labels);
    schema.validate().map_err(|e| {
        in_file(&args.labels)(format_args!(
            "{e}; where a label stands among the features, take it out of these by --ignore, and features out of the file of the labels"
        ))
    })?;
    Ok(schema)
}

/// The file of the labels: two levels or numbers in each column; a column of the name of the row ids names the rows.
fn read_labels(args: &LabelsArgs, data: &SchemaData, quiet: bool) -> Result<SchemaData> {
    let path = &args.labels;
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
                return Err(in_file(path)(format_args!("column {column:?} {values}")));
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
        let at = join::places(&args.labels, labelled)?;
        return join::joined(&args.labels, ids, &at, quiet);
    }
    match data.n_rows == labels.n_rows {
        true => Ok((0..data.n_rows).map(Some).collect()),
        false => Err(in_file(&args.labels)(format_args!(
            "has {} rows, {} has {}; give both a column that names the rows, and name it by --id",
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
    let fit: LabelsFit = model.fit()?;
    let asked = (args.file(), &args.how);
    rows::answer(model, asked, Needs::default(), quiet, |rows| {
        let scores = fit.predict(&rows.numbers()?).map_err(rows.wrong())?;
        let mut sheet = rows.sheet();
        for (m, label) in rows.data.schema.with_role(Role::Label).enumerate() {
            let margins = scores.of_task(m);
            let (Some(found), Some([no, yes])) = (scores.labels(m), label.levels.as_deref()) else {
                let margins = margins.into_iter().map(Cell::Number);
                sheet.push_column(&label.name, Type::Number, margins);
                continue;
            };
            let name = |&is: &bool| Cell::Text(if is { yes } else { no }.clone());
            sheet.push_column(&label.name, Type::Text, found.iter().map(name));
            let (what, numbers) = match scores.probabilities(m) {
                Some(probabilities) => ("P", probabilities),
                None => ("margin", margins),
            };
            let cells = numbers.into_iter().map(Cell::Number);
            sheet.push_column(format!("{what}({})", label.name), Type::Number, cells);
        }
        Ok(sheet)
    })
}

/// The latent features: how much each is used, what it reads, which labels it drives.
pub(crate) fn features(model: &ModelFile) -> Result<Sheet> {
    let fit: LabelsFit = model.fit()?;
    let mut sheet = Sheet::new(&["feature", "expected_use"]);
    for (feature, number) in fit.features().iter().zip(1..) {
        sheet.push_row([Cell::Whole(number), Cell::Number(feature.expected_use)]);
    }
    Ok(sheet)
}
