//! Models of columns of mixed kinds.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use npb_data::schema::{Kind, Role, Schema, SchemaData};
use npb_data::{MixedColumn, MixedTable};
use npb_itf::{
    ColumnDependence, DependenceConfig, ImputedCell, ItfConfig, ItfData, ItfError, ItfFit, Saved,
    Verdict, fit_data_watched,
};

use crate::args::{DependenceArgs, MixtureArgs, ModelKind};
use crate::failure::{Failure, Result};
use crate::input;
use crate::job::Job;
use crate::keep::{keep, of_chains};
use crate::model::ModelFile;
use crate::output;
use crate::settings;
use crate::sheet::{Cell, Sheet};

pub(crate) fn fit(args: &MixtureArgs, quiet: bool) -> Result<()> {
    let job = Job::new(&args.run, quiet)?;
    let config: ItfConfig = args.settings.read(ModelKind::Table)?;
    config.validate().map_err(Failure::usage)?;
    let file = &args.training.file;
    let (read, origin) = input::training(&args.training, None, None, quiet)?;
    let in_file = |e: ItfError| Failure::bad_data(format_args!("{}: {e}", file.display()));
    let data = ItfData::from_fields(&read.features, &read.fields).map_err(in_file)?;
    job.listen()?;
    let fit = fit_data_watched(&data, &config, &job.watch());
    job.finished()?;
    let fit = fit.map_err(in_file)?;
    let bytes = fit.to_bytes().map_err(Failure::failed)?;
    let mut model = ModelFile::new(
        ModelKind::Table.name(),
        &read.schema,
        settings::text(&config)?,
        file,
        bytes,
    );
    (model.n_rows, model.origin) = (read.n_rows as u64, origin);
    let what = format!(
        "{} rows, {} columns, {} draws",
        read.n_rows,
        fit.columns().len(),
        fit.draws().len()
    );
    let unmet = of_chains(fit.unmet(), &config.sweeps);
    keep(&job, &model, &what, &unmet)
}

pub(crate) fn load(model: &ModelFile, path: &Path) -> Result<ItfFit> {
    model.fit(path)
}

/// Drawn tables.
pub(crate) fn drawn(
    fit: &ItfFit,
    data: &SchemaData,
    n: usize,
    training: bool,
) -> std::result::Result<Vec<MixedTable>, ItfError> {
    if data.n_rows == 0 {
        return Ok(vec![data.features.clone()]);
    }
    fit.impute_field_draws(&data.features, &data.fields, n, training)
}

/// A column of a sheet.
type Named = (String, Vec<Cell>);

/// The completed table, and columns of standard deviations of numbers and of the ends of intervals of numbers and ordered levels.
pub(crate) fn filled(
    fit: &ItfFit,
    data: &SchemaData,
    (sd, level): (bool, Option<f64>),
    training: bool,
) -> std::result::Result<(MixedTable, Vec<Named>), ItfError> {
    let (table, fields) = (&data.features, &data.fields);
    // A table without rows has nothing to fill.
    let filled = match data.n_rows {
        0 => None,
        _ => Some(fit.impute_fields(table, fields, level.unwrap_or(0.9), training)?),
    };
    let cells = filled.iter().flat_map(|filled| &filled.cells);
    let of_places = cells.map(|cell| ((cell.row, cell.column), cell));
    let of_places: HashMap<(usize, usize), &ImputedCell> = of_places.collect();
    let mut columns = Vec::new();
    for (at, feature) in data.schema.with_role(Role::Feature).enumerate() {
        let is_number = matches!(feature.kind, Kind::Real | Kind::Positive | Kind::Count);
        let place = fields.iter().enumerate().find_map(|(f, field)| {
            let part = field.columns.iter().position(|&column| column == at);
            part.map(|part| (f, part))
        });
        let Some((field, part)) = place.filter(|_| is_number || feature.kind == Kind::Ordinal)
        else {
            continue;
        };
        let levels = feature.levels.as_deref().filter(|_| !is_number);
        let as_cell = |value: f64| match levels {
            Some(levels) => Cell::from(levels.get(value as usize).map(String::as_str)),
            None => Cell::Number(value),
        };
        let cells = |of_known: &dyn Fn(f64) -> f64, of_filled: &dyn Fn(&ImputedCell) -> f64| {
            let cell = |row: usize| match known(table.column(at), row) {
                Some(value) => as_cell(of_known(value)),
                None => match of_places.get(&(row, field)) {
                    Some(cell) => as_cell(of_filled(cell)),
                    None => Cell::Missing,
                },
            };
            (0..data.n_rows).map(cell).collect::<Vec<Cell>>()
        };
        let name = &feature.name;
        if sd && is_number {
            columns.push((
                format!("sd({name})"),
                cells(&|_| 0.0, &|cell| cell.sd[part]),
            ));
        }
        if level.is_some() {
            let lower = cells(&|x| x, &|cell| cell.lower[part]);
            let upper = cells(&|x| x, &|cell| cell.upper[part]);
            columns.push((format!("lower({name})"), lower));
            columns.push((format!("upper({name})"), upper));
        }
    }
    let completed = filled.map_or_else(|| table.clone(), |filled| filled.completed);
    Ok((completed, columns))
}

/// A number, or the place of a level.
fn known(column: &MixedColumn, row: usize) -> Option<f64> {
    match column {
        MixedColumn::Categorical { codes, .. } => codes[row].map(f64::from),
        MixedColumn::Binary { values, .. } => values[row].map(|high| f64::from(u8::from(high))),
        _ => column.number(row),
    }
}

pub(crate) fn dependence(args: &DependenceArgs, quiet: bool) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    if model.kind != ModelKind::Table.name() {
        return Err(model.cannot(&args.model, "dependence", "table"));
    }
    if let Some(plot) = &args.plot {
        output::check_folder(plot)?;
    }
    let fit = load(&model, &args.model)?;
    let schema: Schema = model.schema(&args.model)?;
    let data = input::like_training(
        &args.file,
        (&schema, &model.origin),
        &args.layout,
        args.rules,
        quiet,
    )?;
    let in_file = |e: ItfError| Failure::bad_data(format_args!("{}: {e}", args.file.display()));
    let training = data.n_rows as u64 == model.n_rows;
    let rows = fit
        .field_rows(&data.features, &data.fields, training)
        .map_err(in_file)?;
    let config = DependenceConfig {
        level: args.level,
        permutations: args.permutations,
        ..DependenceConfig::default()
    };
    config.validate().map_err(Failure::usage)?;
    let found = fit.dependence(&rows, &config).map_err(in_file)?;
    if let Some(plot) = &args.plot {
        output::bytes(heat_map(&found).as_bytes(), Some(plot))?;
    }
    output::sheet(&sheet(&found), &args.out)
}

/// Pairs, the most dependent first.
fn sheet(found: &ColumnDependence) -> Sheet {
    let mut sheet = Sheet::new(&[
        "a",
        "b",
        "rows",
        "information",
        "lower",
        "upper",
        "same_block",
        "p_value",
        "adjusted_p_value",
        "least_p_value",
        "dependent",
    ]);
    let mut pairs: Vec<_> = found.pairs().iter().collect();
    pairs.sort_by(|x, y| {
        y.information
            .mean
            .total_cmp(&x.information.mean)
            .then((x.a, x.b).cmp(&(y.a, y.b)))
    });
    for pair in pairs {
        // Draws without information do not say how strong a dependence is that they do not have.
        let known = |x: Option<f64>| Cell::from(x.filter(|_| pair.verdict != Verdict::Unexplained));
        let quantile = |k: usize| known(pair.information.quantiles.get(k).copied());
        sheet.push_row(vec![
            Cell::Text(found.names()[pair.a].clone()),
            Cell::Text(found.names()[pair.b].clone()),
            Cell::Number(pair.n_rows as f64),
            known(Some(pair.information.mean)),
            quantile(0),
            quantile(2),
            Cell::Number(pair.same_block),
            Cell::Number(pair.p_value),
            Cell::Number(pair.adjusted_p_value),
            Cell::Number(pair.least_p_value),
            Cell::Text(pair.verdict.word().to_owned()),
        ]);
    }
    sheet
}

const SQUARE: usize = 24;

/// Mutual information of all pairs; a ring marks pairs that the test calls dependent, a dashed one those whose draws share no information.
fn heat_map(found: &ColumnDependence) -> String {
    let names = found.names();
    let p = names.len();
    let longest = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    let margin = 16 + 7 * longest.min(40);
    let size = margin + p * SQUARE + 16;
    let most = found
        .pairs()
        .iter()
        .map(|pair| pair.information.mean)
        .fold(1e-12, f64::max);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        size + 24
    );
    for (k, name) in names.iter().enumerate() {
        let name = escaped(&name.chars().take(40).collect::<String>());
        let middle = margin + k * SQUARE + SQUARE / 2;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>",
            margin - 6,
            middle + 4
        );
        let _ = writeln!(
            svg,
            "<text transform=\"translate({},{}) rotate(-90)\">{name}</text>",
            middle + 4,
            margin - 6
        );
        let at = margin + k * SQUARE;
        let _ = writeln!(
            svg,
            "<rect x=\"{at}\" y=\"{at}\" width=\"{SQUARE}\" height=\"{SQUARE}\" fill=\"#dddddd\"/>"
        );
    }
    for pair in found.pairs() {
        let share = (pair.information.mean / most).clamp(0.0, 1.0).sqrt();
        let blend = |from: f64, to: f64| (from + share * (to - from)).round() as u8;
        let colour = format!(
            "#{:02x}{:02x}{:02x}",
            blend(255.0, 8.0),
            blend(255.0, 64.0),
            blend(255.0, 129.0)
        );
        let information = match pair.verdict {
            Verdict::Unexplained => "dependent, not seen by the fit".to_owned(),
            _ => format!("{:.3} nats", pair.information.mean),
        };
        let title = format!(
            "{} and {}: {information}, {}",
            escaped(&names[pair.a]),
            escaped(&names[pair.b]),
            escaped(&pair.p_in_words())
        );
        for (row, column) in [(pair.a, pair.b), (pair.b, pair.a)] {
            let (x, y) = (margin + column * SQUARE, margin + row * SQUARE);
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{SQUARE}\" height=\"{SQUARE}\" fill=\"{colour}\"><title>{title}</title></rect>"
            );
            if pair.dependent {
                let half = SQUARE / 2;
                let dashes = match pair.verdict {
                    Verdict::Unexplained => " stroke-dasharray=\"3 2\"",
                    _ => "",
                };
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"none\" stroke=\"#e6550d\" stroke-width=\"2\"{dashes}/>",
                    x + half,
                    y + half
                );
            }
        }
    }
    let _ = writeln!(
        svg,
        "<text x=\"8\" y=\"{}\">mutual information, 0 to {most:.2} nats; ring: dependent at the level of the test, dashed where the fit has not seen how</text>\n</svg>",
        size + 14
    );
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
