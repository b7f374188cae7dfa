//! `npb report`: a page about a model.

use std::path::Path;

use npb_data::schema::Schema;
use npb_iqgme::IqgmeFit;
use npb_pages::{Context, Page, Rows};

use super::pages;
use crate::args::{HowToAsk, Out, ReportArgs};
use crate::failure::{Failure, Result, in_file};
use crate::input::{Given, name_of};
use crate::model::ModelFile;
use crate::output;
use crate::rows::{self, Needs};

pub(crate) fn report(args: &ReportArgs, quiet: bool) -> Result<()> {
    output::check_folder(&args.out)?;
    let model = ModelFile::load(&args.model)?;
    let page = page(&model, args, quiet)?;
    output::bytes(page.html().as_bytes(), Some(&args.out))
}

/// The page of the model's kind.
fn page(model: &ModelFile, args: &ReportArgs, quiet: bool) -> Result<Page> {
    let schema = model.schema()?;
    let has_columns = !schema.columns.is_empty();
    let mut context = Context {
        kind: &model.kind,
        name: name_of(&args.model),
        file: Some(name_of(Path::new(&model.file))),
        n_rows: usize::try_from(model.n_rows).ok().filter(|n| *n > 0),
        schema: has_columns.then_some(&schema),
        reasons: Vec::new(),
        seed: args.seed,
    };
    let file = args.file.as_deref();
    let rows = match (file, model.kind.as_str()) {
        (Some(file), "classifier" | "mixture" | "tasks" | "table" | "labels" | "grouped") => {
            context.reasons = reasons(model, &schema, file, args)?;
            Some(read(model, file, args, quiet)?)
        }
        _ => None,
    };
    if let "ratings" | "groups" | "topics" = model.kind.as_str() {
        return pages::page(model, &context, args, quiet);
    }
    let rows = rows.as_ref();
    let page = match model.kind.as_str() {
        "classifier" => npb_pages::classifier::page(&model.fit::<IqgmeFit>()?, &context, rows),
        "mixture" => npb_pages::mixture::page(&model.fit::<IqgmeFit>()?, &context, rows),
        "tasks" => npb_pages::tasks::page(&model.fit()?, &context, rows),
        "table" => npb_pages::table::page(&model.fit()?, &context, rows),
        "grouped" => npb_pages::grouped::page(&model.fit()?, &context, rows),
        "labels" => npb_pages::labels::page(&model.fit()?, &context, rows),
        kind => {
            let path = args.model.display();
            return Err(Failure::bad_data(format_args!(
                "{path}: is a model of kind {kind}, which this version does not know"
            )));
        }
    };
    page.map_err(|e| in_file(file.unwrap_or(&args.model))(e))
}

/// How the file is read: as for other questions.
fn how(args: &ReportArgs) -> HowToAsk {
    HowToAsk {
        layout: args.layout.clone(),
        rules: args.rules,
        out: Out {
            out: None,
            format: None,
        },
        chunk_rows: None,
    }
}

fn read(model: &ModelFile, file: &Path, args: &ReportArgs, quiet: bool) -> Result<Rows> {
    let needs = Needs {
        all_rows: true,
        ..Needs::default()
    };
    let mut found = None;
    rows::each(model, (file, &how(args)), needs, quiet, |rows| {
        found = Some(rows.data.clone());
        Ok(true)
    })?;
    let data = found.filter(|data| data.n_rows > 0);
    let data = data.ok_or_else(|| in_file(file)("there is no row of data"))?;
    Rows::of(&name_of(file), data, model.n_rows as usize).map_err(in_file(file))
}

/// Why the columns are of their kinds, where these were guessed and the file suggests the same.
fn reasons(
    model: &ModelFile,
    schema: &Schema,
    file: &Path,
    args: &ReportArgs,
) -> Result<Vec<String>> {
    if model.origin.declared || file.as_os_str() == "-" {
        return Ok(Vec::new());
    }
    let given = Given::read(file, true)?;
    let options = given.options(&args.layout, Some(&model.origin.layout), true)?;
    let guess = given.guess(&options)?;
    let why = |column: &npb_data::schema::ColumnSchema| {
        let mut guesses = guess.schema.columns.iter().zip(&guess.guesses);
        let same = guesses.find(|(own, _)| own.name == column.name && own.kind == column.kind);
        same.map_or(String::new(), |(_, guess)| guess.why.clone())
    };
    Ok(schema.columns.iter().map(why).collect())
}
