//! `npb schema`, `summary`, `diagnose` and `export`: what there is.

use npb_data::schema::{Design, Role};
use npb_infer::diagnostics::ChainDiagnostics;
use npb_iqgme::{IqgmeFit, Saved};

use super::{labels, ratings, table, tasks, topics};
use crate::args::{ExportArgs, ModelArgs, ModelKind, Part, SchemaArgs};
use crate::failure::{Failure, Result};
use crate::input::{self, Given};
use crate::model::ModelFile;
use crate::output;
use crate::sheet::{Cell, Sheet};

pub(crate) fn schema(args: &SchemaArgs) -> Result<()> {
    let file = args.file.display().to_string();
    let mut guess = Given::read(&args.file)?.guess(&args.layout)?;
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
    let fit = numbers_fit(model, args)?;
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
    for (j, info) in fit.columns().iter().enumerate() {
        let together = draws
            .iter()
            .filter(|d| d.columns[j].block == d.columns[0].block)
            .count();
        sheet.push_row(vec![
            Cell::Text(info.name.clone()),
            Cell::from(info.kind.map(|kind| kind.to_string()).as_deref()),
            Cell::Number(together as f64 / draws.len().max(1) as f64),
        ]);
    }
    Ok(sheet)
}

fn numbers_fit(model: &ModelFile, args: &ModelArgs) -> Result<IqgmeFit> {
    IqgmeFit::from_bytes(&model.fit)
        .map_err(|e| Failure::bad_data(format_args!("{}: {e}", args.model.display())))
}

pub(crate) fn diagnose(args: &ModelArgs) -> Result<()> {
    let model = ModelFile::load(&args.model)?;
    let sheet = match model.kind.as_str() {
        kind if kind == ModelKind::Ratings.name() => {
            scalars(ratings::scalars(&model, &args.model)?)
        }
        kind if kind == ModelKind::Table.name() => {
            scalars(table::load(&model, &args.model)?.diagnostics())
        }
        kind if kind == ModelKind::Groups.name() => {
            return Err(model.cannot(
                &args.model,
                "diagnose",
                "ratings, table, classifier, mixture or labels",
            ));
        }
        kind => {
            let trace = match kind {
                "labels" => labels::load(&model, &args.model)?.trace,
                "tasks" => tasks::load(&model, &args.model)?.trace().to_vec(),
                "topics" => topics::load(&model, &args.model)?.trace().to_vec(),
                _ => numbers_fit(&model, args)?.trace().to_vec(),
            };
            let mut sheet = Sheet::new(&["iteration", "elbo", "relative_change"]);
            let row = |report: &npb_infer::VbReport| {
                [report.iteration as f64, report.elbo, report.rel_change]
                    .map(Cell::Number)
                    .to_vec()
            };
            trace.iter().map(row).for_each(|row| sheet.push_row(row));
            sheet
        }
    };
    output::sheet(&sheet, &args.out)
}

fn scalars(found: Vec<(String, ChainDiagnostics)>) -> Sheet {
    let mut sheet = Sheet::new(&["scalar", "mean", "sd", "rhat", "ess_bulk", "ess_tail"]);
    for (name, d) in found {
        let numbers = [d.mean, d.sd, d.rhat, d.ess_bulk, d.ess_tail].map(Cell::from);
        sheet.push_row(std::iter::once(Cell::Text(name)).chain(numbers));
    }
    sheet
}
