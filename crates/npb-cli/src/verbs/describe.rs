//! `npb schema`, `summary`, `diagnose` and `export`: what there is.

use clap::CommandFactory;
use npb_data::schema::{Design, Role};
use npb_iqgme::IqgmeFit;

use super::{labels, ratings, table, tasks, topics};
use crate::args::{ExportArgs, ManArgs, ModelArgs, Npb, Part, SchemaArgs};
use crate::diagnostics::diagnostics;
use crate::failure::{Failure, Result};
use crate::input::{self, Given};
use crate::model::ModelFile;
use crate::output;
use crate::sheet::{Cell, Sheet};

pub(crate) fn schema(args: &SchemaArgs) -> Result<()> {
    let file = args.file.display().to_string();
    let given = Given::read(&args.file, false)?;
    let mut guess = given.guess(&given.options(&args.layout, None, false)?)?;
    let in_file = |e| Failure::usage(format_args!("{file}: {e}"));
    for (column, role) in [(&args.label, Role::Label), (&args.id, Role::RowId)] {
        if let Some(column) = column {
            guess.schema.set_role(column, role).map_err(in_file)?;
        }
    }
    output::bytes(guess.to_toml().as_bytes(), args.out.as_deref())
}

pub(crate) fn export(args: &ExportArgs) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    let bytes = match args.part {
        Part::Model => &model.fit,
        Part::Schema => model.schema_text().as_bytes(),
        Part::Config => model.config.as_bytes(),
    };
    output::bytes(bytes, args.out.as_deref())
}

/// One page for each verb.
pub(crate) fn man(args: &ManArgs) -> Result<()> {
    let written = std::fs::create_dir_all(&args.out)
        .and_then(|()| clap_mangen::generate_to(Npb::command(), &args.out));
    written.map_err(|e| Failure::failed(format_args!("{}: cannot write: {e}", args.out.display())))
}

pub(crate) fn summary(args: &ModelArgs) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    let sheet = match model.kind.as_str() {
        "classifier" | "mixture" => clusters(&model, args)?,
        "ratings" => ratings::ranks(&model, &args.model)?,
        "labels" => labels::features(&model, &args.model)?,
        "groups" => names(&model),
        "tasks" => tasks::similarity(&model, &args.model)?,
        "topics" => topics::words(&model, &args.model)?,
        _ => columns(&model, args)?,
    };
    let n_rows = model.n_rows;
    input::note(
        false,
        format_args!(
            "{}: {} of {n_rows} rows of {}",
            args.model.display(),
            model.kind,
            model.file
        ),
    );
    output::sheet(&sheet, &args.out)
}

/// The items of a fit of likes.
fn names(model: &ModelFile) -> Sheet {
    let mut sheet = Sheet::new(&[model.places.get(1).map_or("item", String::as_str)]);
    for name in &model.names {
        sheet.push_row([Cell::Text(name.clone())]);
    }
    sheet
}

/// Clusters with their weights and means of numbers.
fn clusters(model: &ModelFile, args: &ModelArgs) -> Result<Sheet> {
    let fit = model.fit::<IqgmeFit>(&args.model)?;
    let names = Design::new(&model.schema(&args.model)?).names().concat();
    let in_model = fit.model_columns();
    let in_model = in_model.iter().filter_map(|&j| names.get(j));
    let columns = ["cluster", "weight", "rows"].into_iter();
    let columns: Vec<&str> = columns.chain(in_model.map(String::as_str)).collect();
    let mut sheet = Sheet::new(&columns);
    for (k, component) in fit.components().into_iter().enumerate() {
        let mut row = vec![
            Cell::Number((k + 1) as f64),
            Cell::Number(component.weight),
            Cell::Number(component.size),
        ];
        row.extend(component.mean.iter().map(|&mean| Cell::Number(mean)));
        sheet.push_row(row);
    }
    Ok(sheet)
}

/// Columns with the number of their clusters.
fn columns(model: &ModelFile, args: &ModelArgs) -> Result<Sheet> {
    let fit = table::load(model, &args.model)?;
    let draws = fit.draws();
    let mut sheet = Sheet::new(&["column", "kind", "same_block_as_first"]);
    // Columns of a group are one in the draws.
    let places = fit.places();
    for (info, place) in fit.columns().iter().zip(places) {
        let block = |d: &npb_itf::Draw, column: usize| d.columns[column].block;
        let first = places[0].column;
        let together = draws
            .iter()
            .filter(|d| block(d, place.column) == block(d, first))
            .count();
        sheet.push_row(vec![
            Cell::Text(info.name.clone()),
            Cell::from(info.kind.map(|kind| kind.to_string()).as_deref()),
            Cell::Number(together as f64 / draws.len().max(1) as f64),
        ]);
    }
    Ok(sheet)
}

pub(crate) fn diagnose(args: &ModelArgs) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    let kinds = "ratings, table, tasks, topics, classifier, mixture or labels";
    let sheet = diagnostics(&model, &args.model)?;
    let sheet = sheet.ok_or_else(|| model.cannot(&args.model, "diagnose", kinds))?;
    output::sheet(&sheet, &args.out)
}
