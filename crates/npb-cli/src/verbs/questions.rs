//! `npb predict`, `impute` and `score`: questions about new rows.

use std::path::Path;

use npb_data::schema::{Design, Kind, Role, Schema, SchemaData};
use npb_data::{Labels, Table};
use npb_iqgme::{Imputation, IqgmeError, IqgmeFit, MissingCell};
use npb_itf::ItfError;

use super::classes::{DRAWS, push_classes};
use super::{grouped, groups, labels, ratings, table, tasks, topics};
use crate::args::{ImputeArgs, Layout, ModelKind, PredictArgs, RecommendArgs, Rules, ScoreArgs};
use crate::failure::{Failure, Result};
use crate::input::{self, Originals};
use crate::model::ModelFile;
use crate::output;
use crate::sheet::{Cell, Sheet};

/// A fit of rows of numbers, with new rows.
struct Rows {
    fit: IqgmeFit,
    data: SchemaData,
    originals: Originals,
    design: Design,
    table: Table,
}

fn is(model: &ModelFile, kind: ModelKind) -> bool {
    model.kind == kind.name()
}

fn rows(
    model: &ModelFile,
    path: &Path,
    file: &Path,
    layout: &Layout,
    rules: Rules,
    quiet: bool,
) -> Result<Rows> {
    let fit: IqgmeFit = model.fit(path)?;
    let schema: Schema = model.schema(path)?;
    let (data, originals) =
        input::with_originals(file, (&schema, &model.origin), layout, rules, quiet)?;
    let design = Design::new(&data.schema);
    let table = design
        .table(&data.features)
        .map_err(|e| Failure::bad_data(format_args!("{}: {e}", file.display())))?;
    Ok(Rows {
        fit,
        data,
        originals,
        design,
        table,
    })
}

fn in_file(file: &Path) -> impl Fn(IqgmeError) -> Failure + '_ {
    move |e| Failure::bad_data(format_args!("{}: {e}", file.display()))
}

fn level(interval: Option<f64>) -> Result<Option<f64>> {
    match interval {
        Some(p) if !(p > 0.0 && p < 1.0) => Err(Failure::usage(format_args!(
            "--interval {p}: must be between 0 and 1"
        ))),
        other => Ok(other),
    }
}

pub(crate) fn predict(args: &PredictArgs, quiet: bool) -> Result<()> {
    let level = level(args.interval)?;
    let model = ModelFile::load(&args.model)?;
    if is(&model, ModelKind::Ratings) {
        return ratings::predict(args, &model, level.unwrap_or(0.9), quiet);
    }
    if is(&model, ModelKind::Labels) {
        return labels::predict(args, &model, quiet);
    }
    if is(&model, ModelKind::Topics) {
        return topics::predict(args, &model, quiet);
    }
    if is(&model, ModelKind::Grouped) {
        return grouped::predict(args, &model, level, quiet);
    }
    if args.new_tasks && !is(&model, ModelKind::Tasks) {
        return Err(Failure::usage(
            "--new-tasks: of models of kind tasks or grouped",
        ));
    }
    if is(&model, ModelKind::Tasks) {
        return tasks::predict(args, &model, level, quiet);
    }
    if !is(&model, ModelKind::Classifier) {
        return Err(model.cannot(
            &args.model,
            "predict",
            "classifier, tasks, grouped, labels, topics or ratings (`npb impute` fills a table)",
        ));
    }
    let Rows {
        fit, data, table, ..
    } = rows(
        &model,
        &args.model,
        &args.file,
        &args.layout,
        args.rules,
        quiet,
    )?;
    let mut sheet = Sheet::of_rows(&data.schema, data.row_ids.as_ref(), data.n_rows);
    let probabilities = fit.predict_classes(&table).map_err(in_file(&args.file))?;
    let intervals = match level {
        Some(level) => fit
            .predict_class_intervals(&table, level, DRAWS)
            .map_err(in_file(&args.file))?,
        None => Vec::new(),
    };
    push_classes(&mut sheet, fit.classes(), &probabilities, &intervals);
    output::sheet(&sheet, &args.out)
}

pub(crate) fn score(args: &ScoreArgs, quiet: bool) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    if !is(&model, ModelKind::Classifier) && !is(&model, ModelKind::Mixture) {
        return Err(model.cannot(&args.model, "score", "mixture or classifier"));
    }
    let Rows {
        fit, data, table, ..
    } = rows(
        &model,
        &args.model,
        &args.file,
        &args.layout,
        args.rules,
        quiet,
    )?;
    let densities = fit.ln_density(&table).map_err(in_file(&args.file))?;
    let clusters = fit.clusters(&table).map_err(in_file(&args.file))?;
    let mut sheet = Sheet::of_rows(&data.schema, data.row_ids.as_ref(), data.n_rows);
    sheet.push_column("ln_density", densities.into_iter().map(Cell::Number));
    sheet.push_column(
        "cluster",
        clusters.into_iter().map(|k| Cell::Number((k + 1) as f64)),
    );
    output::sheet(&sheet, &args.out)
}

pub(crate) fn impute(args: &ImputeArgs, quiet: bool) -> Result<()> {
    if args.draws == Some(0) {
        return Err(Failure::usage("--draws 0: must be at least 1"));
    }
    let level = level(args.interval)?;
    let model = ModelFile::load(&args.model)?;
    let mut spreads = Vec::new();
    let (data, originals, tables) = if is(&model, ModelKind::Table) {
        let mut fit = table::load(&model, &args.model)?;
        if let Some(seed) = args.seed {
            fit = fit.with_seed(seed);
        }
        let schema = model.schema(&args.model)?;
        let (data, originals) = input::with_originals(
            &args.file,
            (&schema, &model.origin),
            &args.layout,
            args.rules,
            quiet,
        )?;
        let in_file = |e: ItfError| Failure::bad_data(format_args!("{}: {e}", args.file.display()));
        let tables = match args.draws {
            Some(n) => table::drawn(&fit, &data, n, args.training).map_err(in_file)?,
            None => {
                let asked = (args.sd, level);
                let filled = table::filled(&fit, &data, asked, args.training);
                let (completed, columns) = filled.map_err(in_file)?;
                spreads = columns;
                vec![completed]
            }
        };
        (data, originals, tables)
    } else if is(&model, ModelKind::Classifier) || is(&model, ModelKind::Mixture) {
        let mut rows = rows(
            &model,
            &args.model,
            &args.file,
            &args.layout,
            args.rules,
            quiet,
        )?;
        if let Some(seed) = args.seed {
            rows.fit = rows.fit.with_seed(seed);
        }
        let numbers = match args.draws {
            Some(n) => drawn(&rows, n, args.training).map_err(in_file(&args.file))?,
            None => {
                let filled = filled(&rows, args.training).map_err(in_file(&args.file))?;
                spreads = columns_of_spreads(&rows, &filled, args.sd, level)
                    .map_err(in_file(&args.file))?;
                vec![filled.0.completed]
            }
        };
        let back = |numbers: &Table| rows.design.completed(&rows.data.features, numbers);
        let tables = numbers
            .iter()
            .map(back)
            .collect::<std::result::Result<Vec<_>, _>>();
        let tables = tables.map_err(Failure::failed)?;
        (rows.data, rows.originals, tables)
    } else {
        return Err(model.cannot(&args.model, "impute", "classifier, mixture or table"));
    };
    let mut all = Sheet::default();
    for (draw, table) in tables.iter().enumerate() {
        let mut sheet = Sheet::of_rows(&data.schema, data.row_ids.as_ref(), data.n_rows);
        if args.draws.is_some() {
            let number = Cell::Number((draw + 1) as f64);
            sheet.push_column("draw", vec![number; data.n_rows]);
        }
        let first = sheet.width();
        sheet.push_features(&data.schema, table);
        originals.put_back(&data.features, &mut sheet, first)?;
        for (name, cells) in spreads.drain(..) {
            sheet.push_column(name, cells);
        }
        all.append(sheet);
    }
    output::sheet(&all, &args.out)
}

/// The labels of a file whose rows are those of the fit.
fn training_labels(data: &SchemaData) -> Labels {
    let none: Vec<Option<&str>> = vec![None; data.n_rows];
    match data.labels.n_cols() {
        0 => Labels::from_strings(&none),
        _ => data
            .labels
            .labels(0)
            .unwrap_or_else(|_| Labels::from_strings(&none)),
    }
}

fn drawn(rows: &Rows, n: usize, training: bool) -> std::result::Result<Vec<Table>, IqgmeError> {
    let Rows {
        fit, data, table, ..
    } = rows;
    match training {
        true => fit.impute_training_draws(table, &training_labels(data), n),
        false => fit.impute_draws(table, n),
    }
}

/// The completed numbers, and what is known of each missing cell.
type Filled = (Imputation, Vec<Vec<MissingCell>>);

fn filled(rows: &Rows, training: bool) -> std::result::Result<Filled, IqgmeError> {
    let Rows {
        fit, data, table, ..
    } = rows;
    Ok(if training {
        let labels = training_labels(data);
        let cells = fit.training_cells(table, &labels)?;
        (fit.impute_training(table, &labels)?, cells)
    } else {
        (fit.impute(table)?, fit.cells_by_row(table)?)
    })
}

/// Columns of standard deviations and of the ends of intervals, of features that are numbers.
fn columns_of_spreads(
    rows: &Rows,
    (imputed, by_row): &Filled,
    sd: bool,
    level: Option<f64>,
) -> std::result::Result<Vec<(String, Vec<Cell>)>, IqgmeError> {
    let features = rows.data.schema.with_role(Role::Feature);
    let (mut columns, mut first) = (Vec::new(), 0);
    for (feature, names) in features.zip(rows.design.names()) {
        let at = first;
        first += names.len();
        // Of logarithms, back to the numbers.
        let number: fn(f64) -> f64 = match feature.kind {
            Kind::Positive => f64::exp,
            Kind::Real | Kind::Count => |x| x,
            _ => continue,
        };
        let known = |i: usize| imputed.completed.get(i, at);
        if sd {
            let spread = |i: usize| {
                let (mean, sd) = (known(i)?, imputed.sd.get(i, at)?);
                Some(0.5 * (number(mean + sd) - number(mean - sd)))
            };
            let cells = (0..rows.data.n_rows).map(|i| Cell::from(spread(i)));
            columns.push((format!("sd({})", feature.name), cells.collect()));
        }
        for (side, sign) in [("lower", -0.5), ("upper", 0.5)] {
            let Some(level) = level else { continue };
            let end = |(i, cells): (usize, &Vec<MissingCell>)| {
                let end = match cells.iter().find(|cell| cell.column == at) {
                    Some(cell) => Some(cell.quantile(0.5 + sign * level)?),
                    None => known(i),
                };
                Ok(Cell::from(end.map(number)))
            };
            let cells = by_row.iter().enumerate().map(end);
            let cells = cells.collect::<std::result::Result<Vec<Cell>, IqgmeError>>()?;
            columns.push((format!("{side}({})", feature.name), cells));
        }
    }
    Ok(columns)
}

pub(crate) fn recommend(args: &RecommendArgs, quiet: bool) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    match is(&model, ModelKind::Groups) {
        true => groups::recommend(args, &model, quiet),
        false => ratings::recommend(args, &model, quiet),
    }
}
