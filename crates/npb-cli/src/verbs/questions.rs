//! `npb predict`, `impute`, `score` and `recommend`: which kind of model answers; answers of models of rows of numbers.

use npb_data::schema::{Kind, Role, SchemaData};
use npb_data::{Labels, Table};
use npb_iqgme::{Imputation, IqgmeError, IqgmeFit, MissingCell};

use super::classes::push_classes;
use super::{grouped, groups, labels, ratings, table, tasks, topics};
use crate::args::{ImputeArgs, ModelKind, PredictArgs, RecommendArgs, ScoreArgs};
use crate::failure::{Failure, Result};
use crate::model::ModelFile;
use crate::output;
use crate::rows::{Completed, Named, NewRows};
use crate::sheet::{Cell, Sheet};

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
    match model.kind.as_str() {
        "ratings" => ratings::predict(args, &model, level.unwrap_or(0.9), quiet),
        "labels" => labels::predict(args, &model, quiet),
        "topics" => topics::predict(args, &model, quiet),
        "grouped" => grouped::predict(args, &model, level, quiet),
        "tasks" => tasks::predict(args, &model, level, quiet),
        _ if args.new_tasks => Err(Failure::usage(
            "--new-tasks: of models of kind tasks or grouped",
        )),
        "classifier" => classes(args, &model, level, quiet),
        _ => Err(model.cannot(
            "predict",
            "classifier, tasks, grouped, labels, topics or ratings (`npb impute` fills a table)",
        )),
    }
}

fn classes(args: &PredictArgs, model: &ModelFile, level: Option<f64>, quiet: bool) -> Result<()> {
    let fit: IqgmeFit = model.fit()?;
    let rows = NewRows::read(model, &args.file, &args.how, quiet)?;
    let table = rows.numbers()?;
    let probabilities = fit.predict_classes(&table).map_err(rows.wrong())?;
    let intervals = match level {
        Some(level) => fit
            .predict_class_intervals(&table, level)
            .map_err(rows.wrong())?,
        None => Vec::new(),
    };
    let mut sheet = rows.sheet();
    push_classes(&mut sheet, fit.classes(), &probabilities, &intervals);
    output::sheet(&sheet, &args.how.out)
}

pub(crate) fn score(args: &ScoreArgs, quiet: bool) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    if !model.is(ModelKind::Classifier) && !model.is(ModelKind::Mixture) {
        return Err(model.cannot("score", "mixture or classifier"));
    }
    let fit: IqgmeFit = model.fit()?;
    let rows = NewRows::read(&model, &args.file, &args.how, quiet)?;
    let table = rows.numbers()?;
    let densities = fit.ln_density(&table).map_err(rows.wrong())?;
    let clusters = fit.clusters(&table).map_err(rows.wrong())?;
    let mut sheet = rows.sheet();
    sheet.push_column("ln_density", densities.into_iter().map(Cell::Number));
    sheet.push_column(
        "cluster",
        clusters.into_iter().map(|k| Cell::Number((k + 1) as f64)),
    );
    output::sheet(&sheet, &args.how.out)
}

pub(crate) fn impute(args: &ImputeArgs, quiet: bool) -> Result<()> {
    if args.draws == Some(0) {
        return Err(Failure::usage("--draws 0: must be at least 1"));
    }
    level(args.interval)?;
    let model = ModelFile::load(&args.model)?;
    let completed = match model.kind.as_str() {
        "table" => table::completed,
        "classifier" | "mixture" => completed,
        _ => return Err(model.cannot("impute", "classifier, mixture or table")),
    };
    let rows = NewRows::read(&model, &args.file, &args.how, quiet)?;
    let (tables, mut spreads) = completed(&model, &rows, args)?;
    let mut all = Sheet::default();
    for (draw, table) in tables.iter().enumerate() {
        let mut sheet = rows.sheet();
        if args.draws.is_some() {
            let number = Cell::Number((draw + 1) as f64);
            sheet.push_column("draw", vec![number; rows.data.n_rows]);
        }
        rows.push_completed(table, &mut sheet)?;
        for (name, cells) in spreads.drain(..) {
            sheet.push_column(name, cells);
        }
        all.append(sheet);
    }
    output::sheet(&all, &args.how.out)
}

/// By a mixture of rows of numbers.
fn completed(model: &ModelFile, rows: &NewRows<'_>, args: &ImputeArgs) -> Result<Completed> {
    let mut fit: IqgmeFit = model.fit()?;
    if let Some(seed) = args.seed {
        fit = fit.with_seed(seed);
    }
    let table = rows.numbers()?;
    let labels = args.training.then(|| training_labels(&rows.data));
    let (numbers, spreads) = match (args.draws, &labels) {
        (Some(n), Some(labels)) => (fit.impute_training_draws(&table, labels, n), Vec::new()),
        (Some(n), None) => (fit.impute_draws(&table, n), Vec::new()),
        (None, labels) => {
            let filled = filled(&fit, &table, labels.as_ref()).map_err(rows.wrong())?;
            let spreads = spreads(rows, &filled, args).map_err(rows.wrong())?;
            (Ok(vec![filled.0.completed]), spreads)
        }
    };
    let design = rows.design();
    let back = |numbers: &Table| design.completed(&rows.data.features, numbers);
    let numbers = numbers.map_err(rows.wrong())?;
    let tables: std::result::Result<_, _> = numbers.iter().map(back).collect();
    Ok((tables.map_err(Failure::failed)?, spreads))
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

/// The completed numbers, and what is known of each missing cell.
type Filled = (Imputation, Vec<Vec<MissingCell>>);

/// Of new rows, or with labels of those of the fit.
fn filled(
    fit: &IqgmeFit,
    table: &Table,
    labels: Option<&Labels>,
) -> std::result::Result<Filled, IqgmeError> {
    Ok(match labels {
        Some(labels) => {
            let cells = fit.training_cells(table, labels)?;
            (fit.impute_training(table, labels)?, cells)
        }
        None => (fit.impute(table)?, fit.cells_by_row(table)?),
    })
}

/// Columns of standard deviations and of the ends of intervals, of features that are numbers.
fn spreads(
    rows: &NewRows<'_>,
    (imputed, by_row): &Filled,
    args: &ImputeArgs,
) -> std::result::Result<Vec<Named>, IqgmeError> {
    let features = rows.data.schema.with_role(Role::Feature);
    let (mut columns, mut first) = (Vec::new(), 0);
    for (feature, names) in features.zip(rows.design().names()) {
        let at = first;
        first += names.len();
        // Of logarithms, back to the numbers.
        let number: fn(f64) -> f64 = match feature.kind {
            Kind::Positive => f64::exp,
            Kind::Real | Kind::Count => |x| x,
            _ => continue,
        };
        let known = |i: usize| imputed.completed.get(i, at);
        if args.sd {
            let spread = |i: usize| {
                let (mean, sd) = (known(i)?, imputed.sd.get(i, at)?);
                Some(0.5 * (number(mean + sd) - number(mean - sd)))
            };
            let cells = (0..rows.data.n_rows).map(|i| Cell::from(spread(i)));
            columns.push((format!("sd({})", feature.name), cells.collect()));
        }
        for (side, sign) in [("lower", -0.5), ("upper", 0.5)] {
            let Some(level) = args.interval else { continue };
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
    match model.is(ModelKind::Groups) {
        true => groups::recommend(args, &model, quiet),
        false => ratings::recommend(args, &model, quiet),
    }
}
