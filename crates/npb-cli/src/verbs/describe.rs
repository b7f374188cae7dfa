//! `npb schema`, `summary`, `diagnose` and `export`: what there is.

use clap::CommandFactory;
use npb_data::schema::{DateScale, Design, Kind, Role};
use npb_hbrec::Recommender;
use npb_iqgme::IqgmeFit;
use npb_itf::ItfFit;

use super::{grouped, labels, ratings, tasks, topics};
use crate::args::{ExportArgs, ManArgs, ModelArgs, Npb, Part, SchemaArgs};
use crate::diagnostics::diagnostics;
use crate::failure::{Failure, Result};
use crate::input::{self, Given};
use crate::model::ModelFile;
use crate::output;
use crate::sheet::{Cell, Sheet};

/// So many items are named at most.
const MANY_ITEMS: usize = 20;

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
        Part::Schema => model.schema.as_bytes(),
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
        "classifier" | "mixture" => clusters(&model)?,
        "ratings" => ratings::ranks(&model)?,
        "labels" => labels::features(&model)?,
        "groups" => items(&model)?,
        "grouped" => grouped::groups(&model)?,
        "tasks" => tasks::similarity(&model)?,
        "topics" => topics::words(&model)?,
        _ => columns(&model)?,
    };
    let (kind, n_rows, file) = (&model.kind, model.n_rows, &model.file);
    let text = format_args!("{kind} of {n_rows} rows of {file}");
    input::note_of(false, &args.model, text);
    output::sheet(sheet, &args.out)
}

/// The items of a fit of likes that most users have rated.
fn items(model: &ModelFile) -> Result<Sheet> {
    let fit = model.fit::<Recommender>()?;
    let mut by_use: Vec<(usize, &String)> = (0..fit.n_items())
        .map(|k| fit.n_raters(k))
        .zip(&model.names)
        .collect();
    by_use.sort_by_key(|&(n, _)| std::cmp::Reverse(n));
    if by_use.len() > MANY_ITEMS {
        let text = format_args!(
            "the {MANY_ITEMS} items of {} that most have rated:",
            by_use.len()
        );
        input::note(false, text);
    }
    let mut sheet = Sheet::new(&[model.place(1, "item"), "ratings"]);
    for (n, name) in by_use.into_iter().take(MANY_ITEMS) {
        sheet.push_row([Cell::Text(name.clone()), Cell::Whole(n as u64)]);
    }
    Ok(sheet)
}

/// Clusters with their weights and means of numbers.
fn clusters(model: &ModelFile) -> Result<Sheet> {
    let fit = model.fit::<IqgmeFit>()?;
    let schema = model.schema()?;
    let design = Design::new(&schema).names();
    let features = schema.with_role(Role::Feature).zip(design);
    let names: Vec<(String, Option<&DateScale>)> = features
        .flat_map(|(feature, names)| {
            let date = feature.date.as_ref().filter(|_| feature.kind == Kind::Date);
            names.into_iter().map(move |name| (name, date))
        })
        .collect();
    let in_model: Vec<_> = fit
        .model_columns()
        .iter()
        .filter_map(|&j| names.get(j))
        .collect();
    let columns = ["cluster", "weight", "rows"].into_iter();
    let own = in_model.iter().map(|(name, _)| name.as_str());
    let columns: Vec<&str> = columns.chain(own).collect();
    let mut sheet = Sheet::new(&columns);
    for (k, component) in fit.components().into_iter().enumerate() {
        let mut row = vec![
            Cell::Number((k + 1) as f64),
            Cell::Number(component.weight),
            Cell::Number(component.size),
        ];
        let means = component.mean.iter().zip(&in_model);
        row.extend(means.map(|(&mean, (_, date))| match date {
            Some(date) => Cell::from(date.text(mean.round()).as_deref()),
            None => Cell::Number(mean),
        }));
        sheet.push_row(row);
    }
    Ok(sheet)
}

/// Columns with the number of their clusters.
fn columns(model: &ModelFile) -> Result<Sheet> {
    let fit = model.fit::<ItfFit>()?;
    let schema = model.schema()?;
    // A field of the fit is a column of the file or several that are measured together.
    let kind = |name: &str| {
        let columns = schema.columns.iter();
        let mut own = columns.filter(|c| c.name == name).map(|c| c.kind.name());
        let mut blocks = schema.blocks.iter().filter(|b| b.name == name);
        own.next().or_else(|| blocks.next().map(|b| b.kind.name()))
    };
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
            Cell::from(kind(&info.name)),
            Cell::Number(together as f64 / draws.len().max(1) as f64),
        ]);
    }
    Ok(sheet)
}

pub(crate) fn diagnose(args: &ModelArgs) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    let sheet = diagnostics(&model)?;
    output::sheet(sheet, &args.out)
}
