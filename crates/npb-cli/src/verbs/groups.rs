//! Likes of many users, each with few: a new user needs no new fit.

use std::path::Path;

use npb_data::schema::Schema;
use npb_data::{Rating, Ratings};
use npb_hbrec::{
    Content, ContentKernel, Filter, HbrecConfig, HbrecError, Likes, Recommender, RecommenderConfig,
};

use super::ratings::{How, features, triplets, unknown_items};
use crate::args::{GroupsArgs, ModelKind, RecommendArgs};
use crate::failure::{Failure, Result, in_file};
use crate::fitting::Fitting;
use crate::keep::of_bound;
use crate::model::{ModelFile, Origin};
use crate::output;
use crate::sheet::{Cell, Sheet};

pub(crate) fn fit(args: &GroupsArgs, quiet: bool) -> Result<()> {
    let fitting: Fitting<'_, HbrecConfig> =
        Fitting::new(ModelKind::Groups, &args.file, &args.how, quiet)?;
    fitting.config.validate().map_err(Failure::usage)?;
    let places = [&args.group, &args.item, &args.value].map(String::clone);
    let read = How::of_training(&args.layout, args.duplicates, quiet);
    let (entries, layout) = triplets(&args.file, &places, &read)?;
    let ratings: Ratings = entries.ratings().map_err(in_file(&args.file))?;
    let how = RecommenderConfig {
        like_from: args.liked,
        filter: Filter::Hybrid1,
        fit: fitting.config,
    };
    let items = features(
        args.items.as_deref(),
        &entries.column_ids,
        &args.layout,
        quiet,
    )?;
    let content = items
        .map(|features| Content::of_features(&features, ContentKernel::Linear))
        .transpose()
        .map_err(Failure::bad_data)?;
    let fit = fitting.run(&args.file, |watch| {
        Recommender::fit_watched(&ratings, content.as_ref(), &how, watch)
    })?;
    let n_ratings = entries.entries.len();
    let what = format!(
        "{n_ratings} ratings, {} users, {} items",
        entries.row_ids.len(),
        fit.n_items()
    );
    let unmet = of_bound(fit.fitted().stop(), "base.learned.limits.max_iterations");
    let model = fitting.model(
        &fit,
        &Schema::default(),
        (n_ratings, Origin::laid_out(layout)),
    )?;
    let model = ModelFile {
        places: places.to_vec(),
        names: entries.column_ids,
        liked: args.liked,
        ..model
    };
    fitting.keep(&model, &what, &unmet)
}

/// What a user would choose and like, by what the file of `--exclude` says of that user, who need not have been there at the fit.
pub(crate) fn recommend(args: &RecommendArgs, model: &ModelFile, quiet: bool) -> Result<()> {
    if args.liked.is_some() {
        return Err(Failure::usage(
            "--liked: what is a like was said at the fit of a model of kind groups",
        ));
    }
    let top = match args.by.trim() {
        "choice" => Recommender::top,
        "P(like)" => Recommender::top_liked,
        other => {
            return Err(Failure::usage(format_args!(
                "--by {other}: models of kind groups know choice and 'P(like)'"
            )));
        }
    };
    let path = args.exclude.as_ref().ok_or_else(|| {
        Failure::usage("--exclude: name the file that says what this user has rated; models of kind groups learn from it who the user is")
    })?;
    let fit: Recommender = model.fit()?;
    let rated = rated(args, path, model, quiet)?;
    let found = || {
        let profile = fit.profile(&Likes::new(fit.n_items(), &rated)?)?;
        top(&fit, &profile, args.top)
    };
    let found = found().map_err(in_file::<HbrecError>(path))?;
    let mut sheet = Sheet::new(&[model.place(1, "item"), "P(like)"]);
    for best in found {
        sheet.push_row([
            Cell::Text(model.names[best.item].clone()),
            Cell::Number(best.chance.probability),
        ]);
    }
    output::sheet(sheet, &args.out)
}

/// The items of the fit that a file says this user has rated, and which of them are likes.
fn rated(
    args: &RecommendArgs,
    path: &Path,
    model: &ModelFile,
    quiet: bool,
) -> Result<Vec<(u32, bool)>> {
    let read = How::like_training(&args.layout, model, quiet);
    let (file, _) = triplets(path, &model.places, &read)?;
    let row = file.row_ids.iter().position(|id| *id == args.row);
    let row = row.ok_or_else(|| {
        let (file, user) = (path.display(), &args.row);
        Failure::usage(format_args!("--row: {file} says nothing of {user:?}"))
    })?;
    let place = |id: &String| model.names.iter().position(|name| name == id);
    let items: Vec<Option<usize>> = file.column_ids.iter().map(place).collect();
    unknown_items(path, (&file.column_ids, &items), &model.names, quiet);
    let like = |entry: &Rating| {
        let item = items[entry.column as usize]?;
        Some((item as u32, entry.value >= model.liked))
    };
    let own = file.entries.iter();
    let own = own.filter(|entry| entry.row as usize == row);
    Ok(own.filter_map(like).collect())
}
