//! Models of columns of mixed kinds.

use std::collections::HashMap;
use std::fmt::Write as _;

use npb_data::schema::{ColumnSchema, Kind, Role};
use npb_data::{Field, MixedColumn};
use npb_itf::{
    ColumnDependence, DependenceConfig, ImputedCell, ItfConfig, ItfData, ItfError, ItfFit,
    PairDependence, Verdict, Watch, fit_data_watched,
};

use super::cells::{check_columns, in_words_of_the_file};
use crate::args::{DependenceArgs, ImputeArgs, MixtureArgs, ModelKind};
use crate::failure::{Failure, Result, in_file};
use crate::fitting::Fitting;
use crate::input::{self, Roles};
use crate::keep::of_chains;
use crate::model::{ModelFile, row_names};
use crate::output;
use crate::rows::{self, Completed, Named, Needs, NewRows};
use crate::sheet::{Cell, Sheet, Type};

pub(crate) fn fit(args: &MixtureArgs, quiet: bool) -> Result<()> {
    let file = &args.training.file;
    let fitting: Fitting<'_, ItfConfig> = Fitting::new(ModelKind::Table, file, &args.how, quiet)?;
    fitting.config.validate().map_err(Failure::usage)?;
    let (read, fit, origin) = match &fitting.before {
        None => {
            let (read, origin) = input::training(&args.training, Roles::default(), quiet)?;
            let data = ItfData::from_fields(&read.features, &read.fields).map_err(in_file(file))?;
            let fit = |watch: &Watch<'_>| fit_data_watched(&data, &fitting.config, watch);
            (read, fitting.run(file, fit)?, origin)
        }
        Some(before) => {
            let (read, origin) = input::further(&args.training, before, quiet)?;
            before.check_names(read.row_ids.as_deref(), file)?;
            let old: ItfFit = before.fit()?;
            let (table, fields) = (&read.features, &read.fields);
            let fit = |watch: &Watch<'_>| {
                let fit = old.continue_with(table, fields, &fitting.config, watch);
                fit.map_err(in_words_of_the_file)
            };
            let fit = fitting.run(file, fit)?;
            (read, fit, origin)
        }
    };
    let what = format!(
        "{} rows, {} columns, {} draws",
        read.n_rows,
        fit.columns().len(),
        fit.draws().len()
    );
    let unmet = of_chains(fit.unmet(), &fitting.config.sweeps);
    let mut model = fitting.model(&fit, &read.schema, (read.n_rows, origin))?;
    model.row_names = row_names(read.row_ids.as_deref())?;
    fitting.keep(&model, &what, &unmet)
}

/// Drawn tables, or the most likely one with what is known of its filled cells.
pub(super) fn completed(fit: &ItfFit, rows: &NewRows<'_>, args: &ImputeArgs) -> Result<Completed> {
    let data = &rows.data;
    let (table, fields) = (&data.features, &data.fields);
    if let (Some(n), 1..) = (args.draws, data.n_rows) {
        let drawn = fit.impute_field_draws(table, fields, n, args.training);
        let drawn = drawn.map_err(in_words_of_the_file).map_err(rows.wrong())?;
        return Ok((drawn, Vec::new()));
    }
    // A table without rows has nothing to fill.
    let (completed, cells) = match data.n_rows {
        0 => (table.clone(), Vec::new()),
        _ => {
            let level = args.interval.unwrap_or(0.9);
            let filled = fit.impute_fields(table, fields, level, args.training);
            let filled = filled.map_err(in_words_of_the_file).map_err(rows.wrong())?;
            (filled.completed, filled.cells)
        }
    };
    let spreads = match args.draws {
        Some(_) => Vec::new(),
        None => spreads(rows, &cells, args),
    };
    Ok((vec![completed], spreads))
}

/// Columns of standard deviations of numbers, and of the ends of intervals of numbers and ordered levels.
fn spreads(rows: &NewRows<'_>, filled: &[ImputedCell], args: &ImputeArgs) -> Vec<Named> {
    let data = &rows.data;
    let place = |cell: &ImputedCell| (cell.row, cell.column);
    let filled: HashMap<(usize, usize), &ImputedCell> =
        filled.iter().map(|cell| (place(cell), cell)).collect();
    let mut columns = Vec::new();
    for (at, feature) in data.schema.with_role(Role::Feature).enumerate() {
        let is_number = matches!(feature.kind, Kind::Real | Kind::Positive | Kind::Count);
        if !is_number && feature.kind != Kind::Ordinal {
            continue;
        }
        let Some(place) = place_of(&data.fields, at) else {
            continue;
        };
        let spread = Spread {
            feature,
            place,
            cells: data.features.column(at),
            filled: &filled,
        };
        let name = &feature.name;
        if args.sd && is_number {
            let sd = spread.column(|_| 0.0, |cell, part| cell.sd[part]);
            columns.push((format!("sd({name})"), Type::Number, sd));
        }
        if args.interval.is_some() {
            let lower = spread.column(|x| x, |cell, part| cell.lower[part]);
            let upper = spread.column(|x| x, |cell, part| cell.upper[part]);
            let kind = if is_number { Type::Number } else { Type::Text };
            columns.push((format!("lower({name})"), kind, lower));
            columns.push((format!("upper({name})"), kind, upper));
        }
    }
    columns
}

/// The field that a column belongs to, and which of its parts it is.
fn place_of(fields: &[Field], column: usize) -> Option<(usize, usize)> {
    fields.iter().enumerate().find_map(|(f, field)| {
        let part = field.columns.iter().position(|&own| own == column);
        part.map(|part| (f, part))
    })
}

/// What is known of the cells of one feature.
struct Spread<'a> {
    feature: &'a ColumnSchema,
    /// Its field, and which part of that it is.
    place: (usize, usize),
    cells: &'a MixedColumn,
    /// Filled cells by row and field.
    filled: &'a HashMap<(usize, usize), &'a ImputedCell>,
}

impl Spread<'_> {
    /// A column of a sheet: of the value of a known cell, or of the part of a filled one.
    fn column(
        &self,
        of_known: impl Fn(f64) -> f64,
        of_filled: impl Fn(&ImputedCell, usize) -> f64,
    ) -> Vec<Cell> {
        let (field, part) = self.place;
        let levels = self.feature.levels.as_deref();
        let levels = levels.filter(|_| self.feature.kind == Kind::Ordinal);
        let as_cell = |value: f64| match levels {
            Some(levels) => Cell::from(levels.get(value as usize).map(String::as_str)),
            None => Cell::Number(value),
        };
        let cell = |row: usize| match known(self.cells, row) {
            Some(value) => as_cell(of_known(value)),
            None => match self.filled.get(&(row, field)) {
                Some(cell) => as_cell(of_filled(cell, part)),
                None => Cell::Missing,
            },
        };
        (0..self.cells.len()).map(cell).collect()
    }
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
    if !model.is(ModelKind::Table) {
        return Err(model.cannot("dependence", "table"));
    }
    if let Some(plot) = &args.plot {
        output::check_folder(plot)?;
    }
    let fit: ItfFit = model.fit()?;
    check_columns(&fit, "--given", &args.given)?;
    let config = DependenceConfig {
        level: args.level,
        permutations: args.permutations,
        given: args.given.clone(),
        ..DependenceConfig::default()
    };
    let needs = Needs {
        all_rows: true,
        ..Needs::default()
    };
    let asked = (args.file.as_path(), &args.how);
    rows::answer(&model, asked, needs, quiet, |rows| {
        let (table, fields) = (&rows.data.features, &rows.data.fields);
        // Rows of the fit are taken for those, others for new ones.
        let tested = match fit.field_rows(table, fields, true) {
            Err(ItfError::RowsOfFit { .. } | ItfError::OtherRow { .. }) => {
                fit.field_rows(table, fields, false)
            }
            tested => tested,
        };
        let tested = tested.map_err(rows.wrong())?;
        config.validate().map_err(Failure::usage)?;
        let found = fit.dependence(&tested, &config).map_err(rows.wrong())?;
        if let Some(plot) = &args.plot {
            output::bytes(heat_map(&found).as_bytes(), Some(plot))?;
        }
        Ok(sheet(&found))
    })
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

/// Side of the square of a pair.
const SQUARE: usize = 24;

/// Mutual information of all pairs; a ring marks pairs that the test calls dependent, a dashed one those whose draws share no information.
fn heat_map(found: &ColumnDependence) -> String {
    let names = found.names();
    let longest = names.iter().map(|name| name.chars().count()).max();
    let margin = 16 + 7 * longest.unwrap_or(0).min(40);
    let size = margin + names.len() * SQUARE + 16;
    let means = found.pairs().iter().map(|pair| pair.information.mean);
    let most = means.fold(1e-12, f64::max);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        size + 24
    );
    for (k, name) in names.iter().enumerate() {
        draw_name(&mut svg, name, k, margin);
    }
    for pair in found.pairs() {
        draw_pair(&mut svg, pair, names, (margin, most));
    }
    let _ = writeln!(
        svg,
        "<text x=\"8\" y=\"{}\">mutual information, 0 to {most:.2} nats; ring: dependent at the level of the test, dashed where the fit has not seen how</text>\n</svg>",
        size + 14
    );
    svg
}

/// The name of a column beside its row and above its column, and the square where these meet.
fn draw_name(svg: &mut String, name: &str, k: usize, margin: usize) {
    let name = escaped(&name.chars().take(40).collect::<String>());
    let at = margin + k * SQUARE;
    let (middle, edge) = (at + SQUARE / 2 + 4, margin - 6);
    let _ = writeln!(
        svg,
        "<text x=\"{edge}\" y=\"{middle}\" text-anchor=\"end\">{name}</text>"
    );
    let _ = writeln!(
        svg,
        "<text transform=\"translate({middle},{edge}) rotate(-90)\">{name}</text>"
    );
    let _ = writeln!(
        svg,
        "<rect x=\"{at}\" y=\"{at}\" width=\"{SQUARE}\" height=\"{SQUARE}\" fill=\"#dddddd\"/>"
    );
}

/// Both squares of a pair, the darker the more information it shares.
fn draw_pair(
    svg: &mut String,
    pair: &PairDependence,
    names: &[String],
    (margin, most): (usize, f64),
) {
    let share = (pair.information.mean / most).clamp(0.0, 1.0).sqrt();
    let blend = |from: f64, to: f64| (from + share * (to - from)).round() as u8;
    let [red, green, blue] = [8.0, 64.0, 129.0].map(|dark| blend(255.0, dark));
    let colour = format!("#{red:02x}{green:02x}{blue:02x}");
    let (information, dashes) = match pair.verdict {
        Verdict::Unexplained => (
            "dependent, not seen by the fit".to_owned(),
            " stroke-dasharray=\"3 2\"",
        ),
        _ => (format!("{:.3} nats", pair.information.mean), ""),
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
            let (x, y) = (x + SQUARE / 2, y + SQUARE / 2);
            let _ = writeln!(
                svg,
                "<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"none\" stroke=\"#e6550d\" stroke-width=\"2\"{dashes}/>"
            );
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
