//! Pages about models whose files are no tables of columns: ratings, groups, topics.

use std::path::Path;

use npb_bsvd::BsvdFit;
use npb_hbrec::{Likes, Recommender};
use npb_pages::{Context, Page, groups, ratings, topics};
use npb_regbayes::MedLdaFit;

use super::ratings::{How, triplets};
use super::topics::known_documents;
use crate::args::ReportArgs;
use crate::failure::{Result, in_file};
use crate::input::name_of;
use crate::model::ModelFile;

/// The page of such a model, with a file to try it on if there is one.
pub(crate) fn page(
    model: &ModelFile,
    context: &Context<'_>,
    args: &ReportArgs,
    quiet: bool,
) -> Result<Page> {
    let file = args.file.as_deref();
    let page = match model.kind.as_str() {
        "ratings" => {
            let fit: BsvdFit = model.fit()?;
            let known = file.map(|file| known_cells(&fit, model, (file, args), quiet));
            ratings::page(&fit, context, known.transpose()?.as_ref())
        }
        "groups" => {
            let fit: Recommender = model.fit()?;
            let known = file.map(|file| known_users(&fit, model, (file, args), quiet));
            groups::page(&fit, context, &model.names, known.transpose()?.as_ref())
        }
        _ => {
            let fit: MedLdaFit = model.fit()?;
            let names = topics::Names {
                words: &model.names,
                classes: &model.places,
            };
            let how = (fit.n_words(), &args.layout, quiet);
            let documents = file.map(|file| known_documents(file, model, how));
            topics::page(&fit, context, names, documents.transpose()?.as_ref())
        }
    };
    page.map_err(|e| in_file(file.unwrap_or(&args.model))(e))
}

/// The entries of a file whose row and column the fit has.
fn known_cells(
    fit: &BsvdFit,
    model: &ModelFile,
    (file, args): (&Path, &ReportArgs),
    quiet: bool,
) -> Result<ratings::Known> {
    let how = How::like_training(&args.layout, model, quiet);
    let (found, _) = triplets(file, &model.places, &how)?;
    let mut known = ratings::Known {
        file: name_of(file),
        ..ratings::Known::default()
    };
    for entry in &found.entries {
        let row = fit.row(&found.row_ids[entry.row as usize]);
        let column = fit.column(&found.column_ids[entry.column as usize]);
        let (Ok(row), Ok(column)) = (row, column) else {
            known.unknown += 1;
            continue;
        };
        known.cells.rows.push(row as u32);
        known.cells.columns.push(column as u32);
        known.cells.values.push(entry.value);
    }
    Ok(known)
}

/// The users of a file, by their ratings of items that the fit has.
fn known_users(
    fit: &Recommender,
    model: &ModelFile,
    (file, args): (&Path, &ReportArgs),
    quiet: bool,
) -> Result<groups::Known> {
    let how = How::like_training(&args.layout, model, quiet);
    let (found, _) = triplets(file, &model.places, &how)?;
    let place = |id: &String| model.names.iter().position(|name| name == id);
    let items: Vec<Option<usize>> = found.column_ids.iter().map(place).collect();
    let mut pairs = vec![Vec::new(); found.row_ids.len()];
    for entry in &found.entries {
        if let Some(item) = items[entry.column as usize] {
            pairs[entry.row as usize].push((item as u32, entry.value >= model.liked));
        }
    }
    let user = |(name, pairs): (&String, Vec<(u32, bool)>)| {
        let likes = Likes::new(fit.n_items(), &pairs).map_err(in_file(file))?;
        Ok((name.clone(), likes))
    };
    Ok(groups::Known {
        file: name_of(file),
        users: found
            .row_ids
            .iter()
            .zip(pairs)
            .map(user)
            .collect::<Result<_>>()?,
        may_be_of_fit: found.entries.len() as u64 == model.n_rows,
    })
}
