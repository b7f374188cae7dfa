//! Any question about the cells of rows of numbers, of a mixture or classifier: what columns are given others, which cells are odd, rows that the model makes up.

use std::ops::Range;

use npb_data::schema::{Design, Kind, Role, SchemaData};
use npb_data::{Mask, MixedTable, Table};
use npb_iqgme::{IqgmeFit, MissingCell};

use super::cells::{self, Scored, ScoredCell};
use super::classes::push_classes;
use crate::args::{PredictArgs, ScoreArgs, SimulateArgs};
use crate::failure::{Failure, Result};
use crate::model::ModelFile;
use crate::output;
use crate::rows;
use crate::sheet::{Cell, Sheet, Type};

/// Rows of one draw of the parameters are alike in these: as many draws as rows, if they are no more than this.
const DRAWS: usize = 200;
/// Simulated rows behind what is usual of each column.
const SIMULATED: usize = 400;

/// Row, feature, and how surprising the cell is given the others.
type Surprisal = (usize, usize, f64);

/// Where the numbers of each feature stand.
fn places(design: &Design) -> Vec<Range<usize>> {
    let mut end = 0;
    let widths = design.names().into_iter().map(|names| names.len());
    let place = |width| {
        end += width;
        end - width..end
    };
    widths.map(place).collect()
}

/// A table without the numbers of some features.
fn without(table: &Table, hidden: impl Fn(usize) -> bool) -> Result<Table> {
    let mask = Mask::from_fn(table.n_rows(), table.n_cols(), |_, j| hidden(j));
    mask.and_then(|mask| table.hide(&mask))
        .map_err(Failure::failed)
}

/// So many rows that have the numbers of one, all else drawn.
fn simulated(fit: &IqgmeFit, row: &Table, n: usize) -> Result<Table> {
    let draws = n.min(DRAWS);
    let known = row.select_rows(&vec![0; n.div_ceil(draws)]);
    let tables = fit.impute_draws(&known, draws).map_err(Failure::usage)?;
    let cell = |table: &Table, row: usize, j: usize| table.get(row, j).unwrap_or(f64::NAN);
    let rows = (0..known.n_rows()).flat_map(|row| tables.iter().map(move |table| (table, row)));
    let cells = rows
        .take(n)
        .flat_map(|(table, row)| (0..table.n_cols()).map(move |j| cell(table, row, j)));
    let cells: Vec<f64> = cells.collect();
    let table = Table::from_nan_coded(n, row.n_cols(), &cells);
    let named = table.and_then(|table| table.with_column_names(row.column_names().to_vec()));
    named.map_err(Failure::failed)
}

/// Log densities of rows, and the surprisals of what is known in them, row by row.
fn surprisals(
    fit: &IqgmeFit,
    table: &Table,
    places: &[Range<usize>],
) -> Result<(Vec<f64>, Vec<Surprisal>)> {
    let all = fit.ln_density(table).map_err(Failure::bad_data)?;
    let mut found = Vec::new();
    for (k, place) in places.iter().enumerate() {
        let rest = without(table, |j| place.contains(&j))?;
        let rest = fit.ln_density(&rest).map_err(Failure::bad_data)?;
        let known = (0..table.n_rows()).filter(|&i| place.clone().any(|j| table.is_observed(i, j)));
        found.extend(known.map(|i| (i, k, rest[i] - all[i])));
    }
    // Row by row.
    found.sort_by_key(|&(row, k, _)| (row, k));
    Ok((all, found))
}

pub(super) fn odd_cells(
    fit: &IqgmeFit,
    model: &ModelFile,
    args: &ScoreArgs,
    quiet: bool,
) -> Result<()> {
    if args.training {
        return Err(Failure::usage("--training: of models of kind table"));
    }
    let design = Design::new(&model.schema()?);
    let places = places(&design);
    let mut usual: Option<Vec<f64>> = None;
    cells::odd_cells(model, args, quiet, &mut |rows| {
        let table = rows.numbers()?;
        let usual = match &mut usual {
            Some(usual) => usual,
            none => {
                let nothing = without(&table.select_rows(&[0]), |_| true)?;
                let made = simulated(fit, &nothing, SIMULATED)?;
                let (_, cells) = surprisals(fit, &made, &places)?;
                let mean = |k: usize| {
                    let own = || cells.iter().filter(|cell| cell.1 == k);
                    own().map(|cell| cell.2).sum::<f64>() / own().count() as f64
                };
                none.insert((0..places.len()).map(mean).collect())
            }
        };
        let (densities, found) = surprisals(fit, &table, &places)?;
        let cell = |(row, k, surprisal): Surprisal| ScoredCell {
            row,
            column: rows.data.features.column_names()[k].clone(),
            place: Some(k),
            surprisal,
            usual: usual[k],
        };
        Ok(Scored {
            densities,
            cells: found.into_iter().map(cell).collect(),
        })
    })
}

pub(super) fn predict(
    fit: &IqgmeFit,
    args: &PredictArgs,
    model: &ModelFile,
    (level, quiet): (Option<f64>, bool),
) -> Result<()> {
    let schema = model.schema()?;
    let of_role = |role| schema.with_role(role).map(|c| c.name.as_str());
    let label = of_role(Role::Label).next();
    let names: Vec<&str> = of_role(Role::Feature).chain(label).collect();
    cells::check_targets(args, &names)?;
    let is_label = |name: &String| label == Some(name.as_str());
    let answer = |sheet: &mut Sheet, data: &SchemaData| {
        if args.target.iter().any(is_label) {
            push_label(sheet, fit, data, level)?;
        }
        push_predicted(sheet, fit, data, (&args.target, level.unwrap_or(0.9)))
    };
    if args.given.is_empty() {
        let asked = (args.file(), &args.how);
        let needs = cells::asked_for(&args.target);
        return rows::answer(model, asked, needs, quiet, |rows| {
            let mut sheet = rows.sheet();
            answer(&mut sheet, &rows.data)?;
            Ok(sheet)
        });
    }
    let data = cells::given(&args.given, &schema)?;
    cells::check_given(&data, &args.target)?;
    let mut sheet = Sheet::of_numbers(1..=1);
    answer(&mut sheet, &data)?;
    output::sheet(sheet, &args.how.out)
}

/// The classes, as `predict` without targets has them.
fn push_label(
    sheet: &mut Sheet,
    fit: &IqgmeFit,
    data: &SchemaData,
    level: Option<f64>,
) -> Result<()> {
    let table = Design::new(&data.schema).table(&data.features);
    let table = table.map_err(Failure::bad_data)?;
    let probabilities = fit.predict_classes(&table).map_err(Failure::bad_data)?;
    let intervals = level.map_or(Ok(Vec::new()), |level| {
        fit.predict_class_intervals(&table, level)
    });
    let intervals = intervals.map_err(Failure::bad_data)?;
    push_classes(sheet, fit.classes(), &probabilities, &intervals);
    Ok(())
}

/// Columns of expected values, or of the levels nearest to these, and of intervals of numbers.
fn push_predicted(
    sheet: &mut Sheet,
    fit: &IqgmeFit,
    data: &SchemaData,
    (targets, level): (&[String], f64),
) -> Result<()> {
    let design = Design::new(&data.schema);
    let places = places(&design);
    let features: Vec<_> = data.schema.with_role(Role::Feature).collect();
    let is_target = |k: usize| targets.contains(&features[k].name);
    let mask = Mask::from_fn(data.n_rows, features.len(), |_, k| is_target(k));
    let hidden = mask
        .and_then(|mask| data.features.hide(&mask))
        .map_err(Failure::failed)?;
    let table = design.table(&hidden).map_err(Failure::bad_data)?;
    let filled = fit.impute(&table).map_err(Failure::bad_data)?.completed;
    let completed: MixedTable = design
        .completed(&hidden, &filled)
        .map_err(Failure::failed)?;
    let by_row = fit.cells_by_row(&table).map_err(Failure::bad_data)?;
    for k in (0..features.len()).filter(|&k| is_target(k)) {
        let mut one = data.schema.clone();
        one.columns.retain(|column| column.name == features[k].name);
        let column = completed.select_columns(&[k]).map_err(Failure::failed)?;
        sheet.push_features(&one, &column);
        // Of logarithms, back to the numbers.
        let number: fn(f64) -> f64 = match features[k].kind {
            Kind::Positive => f64::exp,
            Kind::Real | Kind::Count => |x| x,
            _ => continue,
        };
        for (side, q) in [("lower", 0.5 - 0.5 * level), ("upper", 0.5 + 0.5 * level)] {
            let end = |cells: &Vec<MissingCell>| {
                let cell = cells.iter().find(|cell| cell.column == places[k].start);
                let end = cell.map(|cell| cell.quantile(q)).transpose();
                Ok(Cell::from(end.map_err(Failure::failed)?.map(number)))
            };
            let ends = by_row.iter().map(end).collect::<Result<Vec<Cell>>>()?;
            sheet.push_column(format!("{side}({})", features[k].name), Type::Number, ends);
        }
    }
    Ok(())
}

pub(super) fn simulate(fit: &IqgmeFit, args: &SimulateArgs, model: &ModelFile) -> Result<()> {
    let data = cells::given(&args.given, &model.schema()?)?;
    let design = Design::new(&data.schema);
    let row = design.table(&data.features).map_err(Failure::bad_data)?;
    if row.n_missing() == 0 {
        return Err(Failure::usage(
            "--given: leaves nothing to draw; leave a column out",
        ));
    }
    let n = args.n.get();
    let made = simulated(fit, &row, n)?;
    let known = data.features.select_rows(&vec![0; n]);
    let rows = design.completed(&known, &made).map_err(Failure::failed)?;
    let mut sheet = Sheet::of_numbers(1..=n);
    sheet.push_features(&data.schema, &rows);
    output::sheet(sheet, &args.out)
}
