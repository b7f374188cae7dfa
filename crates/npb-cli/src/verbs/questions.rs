//! `npb predict`, `impute`, `score`, `simulate`, `similar`, `clusters` and `recommend`: which kind of model answers; answers of models of rows of numbers.

use npb_data::schema::{Kind, Role, SchemaData};
use npb_data::{Labels, Table};
use npb_iqgme::{Imputation, IqgmeError, IqgmeFit, MissingCell};
use npb_itf::ItfFit;

use super::classes::push_classes;
use super::{alike, cells, grouped, groups, labels, numbers, ratings, table, tasks, topics};
use crate::args::{
    ClustersArgs, ImputeArgs, ModelKind, PredictArgs, RecommendArgs, ScoreArgs, SimilarArgs,
    SimulateArgs,
};
use crate::failure::{Failure, Result};
use crate::model::ModelFile;
use crate::rows::{self, Completed, Named, Needs, NewRows};
use crate::sheet::{Cell, Sheet, Type};

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
        "table" if !args.new_tasks => cells::predict(args, &model, level.unwrap_or(0.9), quiet),
        // A mixture has no classes: it is asked for columns.
        "mixture" if !args.new_tasks => {
            numbers::predict(&model.fit()?, args, &model, (level, quiet))
        }
        "classifier" if !(args.target.is_empty() && args.given.is_empty()) => {
            numbers::predict(&model.fit()?, args, &model, (level, quiet))
        }
        _ if !(args.target.is_empty() && args.given.is_empty()) => Err(Failure::usage(
            "--target, --given: of models of kind table, mixture or classifier",
        )),
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
            "classifier, tasks, grouped, labels, topics, ratings or table",
        )),
    }
}

fn classes(args: &PredictArgs, model: &ModelFile, level: Option<f64>, quiet: bool) -> Result<()> {
    let fit: IqgmeFit = model.fit()?;
    let asked = (args.file(), &args.how);
    rows::answer(model, asked, Needs::default(), quiet, |rows| {
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
        Ok(sheet)
    })
}

pub(crate) fn score(args: &ScoreArgs, quiet: bool) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    if model.is(ModelKind::Table) {
        return cells::score(args, &model, quiet);
    }
    if !model.is(ModelKind::Classifier) && !model.is(ModelKind::Mixture) {
        return Err(model.cannot("score", "mixture, classifier or table"));
    }
    let fit: IqgmeFit = model.fit()?;
    if args.cells {
        return numbers::odd_cells(&fit, &model, args, quiet);
    }
    let asked = (args.file.as_path(), &args.how);
    rows::answer(&model, asked, Needs::default(), quiet, |rows| {
        let table = rows.numbers()?;
        let densities = fit.ln_density(&table).map_err(rows.wrong())?;
        let clusters = fit.clusters(&table).map_err(rows.wrong())?;
        let mut sheet = rows.sheet();
        let densities = densities.into_iter().map(Cell::Number);
        sheet.push_column("ln_density", Type::Number, densities);
        let clusters = clusters.into_iter().map(|k| Cell::Number((k + 1) as f64));
        sheet.push_column("cluster", Type::Number, clusters);
        Ok(sheet)
    })
}

pub(crate) fn simulate(args: &SimulateArgs) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    match model.kind.as_str() {
        "table" => cells::simulate(args, &model),
        "classifier" | "mixture" => {
            let mut fit: IqgmeFit = model.fit()?;
            if let Some(seed) = args.seed {
                fit = fit.with_seed(seed);
            }
            numbers::simulate(&fit, args, &model)
        }
        _ => Err(model.cannot("simulate", "table, mixture or classifier")),
    }
}

pub(crate) fn similar(args: &SimilarArgs, quiet: bool) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    match model.is(ModelKind::Table) {
        true => alike::similar(args, &model, quiet),
        false => Err(model.cannot("similar", "table")),
    }
}

pub(crate) fn clusters(args: &ClustersArgs, quiet: bool) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    match model.is(ModelKind::Table) {
        true => alike::clusters(args, &model, quiet),
        false => Err(model.cannot("clusters", "table")),
    }
}

/// How rows are filled.
type Fill<'a> = dyn Fn(&NewRows<'_>) -> Result<Completed> + 'a;

pub(crate) fn impute(args: &ImputeArgs, quiet: bool) -> Result<()> {
    if args.draws == Some(0) {
        return Err(Failure::usage("--draws 0: must be at least 1"));
    }
    level(args.interval)?;
    let model = ModelFile::load(&args.model)?;
    let completed: Box<Fill<'_>> = match model.kind.as_str() {
        "table" => {
            let mut fit: ItfFit = model.fit()?;
            if let Some(seed) = args.seed {
                fit = fit.with_seed(seed);
            }
            Box::new(move |rows| table::completed(&fit, rows, args))
        }
        "classifier" | "mixture" => {
            let mut fit: IqgmeFit = model.fit()?;
            if let Some(seed) = args.seed {
                fit = fit.with_seed(seed);
            }
            Box::new(move |rows| completed(&fit, rows, args))
        }
        _ => return Err(model.cannot("impute", "classifier, mixture or table")),
    };
    let needs = Needs {
        // Drawn tables stand one below the other.
        all_rows: args.training || args.draws.is_some(),
        written: true,
        ..Needs::default()
    };
    let asked = (args.file.as_path(), &args.how);
    rows::answer(&model, asked, needs, quiet, |rows| {
        let (tables, mut spreads) = completed(rows)?;
        let mut all = Sheet::default();
        for (draw, table) in tables.iter().enumerate() {
            let mut sheet = rows.sheet();
            if args.draws.is_some() {
                let number = Cell::Number((draw + 1) as f64);
                sheet.push_column("draw", Type::Number, vec![number; rows.data.n_rows]);
            }
            rows.push_completed(table, &mut sheet);
            for (name, kind, cells) in spreads.drain(..) {
                sheet.push_column(name, kind, cells);
            }
            all.append(sheet);
        }
        Ok(all)
    })
}

/// By a mixture of rows of numbers.
fn completed(fit: &IqgmeFit, rows: &NewRows<'_>, args: &ImputeArgs) -> Result<Completed> {
    let table = rows.numbers()?;
    let labels = args.training.then(|| training_labels(&rows.data));
    let (numbers, spreads) = match (args.draws, &labels) {
        (Some(n), Some(labels)) => (fit.impute_training_draws(&table, labels, n), Vec::new()),
        (Some(n), None) => (fit.impute_draws(&table, n), Vec::new()),
        (None, labels) => {
            let filled = match labels {
                Some(labels) => fit.impute_training(&table, labels),
                None => fit.impute(&table),
            };
            let filled = filled.map_err(rows.wrong())?;
            let cells = match (args.interval, labels) {
                (None, _) => Ok(Vec::new()),
                (Some(_), Some(labels)) => fit.training_cells(&table, labels),
                (Some(_), None) => fit.cells_by_row(&table),
            };
            let cells = cells.map_err(rows.wrong())?;
            let spreads = spreads(rows, &filled, &cells, args).map_err(rows.wrong())?;
            (Ok(vec![filled.completed]), spreads)
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

/// Columns of standard deviations and of the ends of intervals, of features that are numbers.
fn spreads(
    rows: &NewRows<'_>,
    imputed: &Imputation,
    by_row: &[Vec<MissingCell>],
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
            columns.push((
                format!("sd({})", feature.name),
                Type::Number,
                cells.collect(),
            ));
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
            columns.push((format!("{side}({})", feature.name), Type::Number, cells));
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
