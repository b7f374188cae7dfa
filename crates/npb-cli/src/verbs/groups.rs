//! Likes of many users, each with few: a new user needs no new fit.

use npb_data::read::Repeats;
use npb_data::{Rating, Ratings};
use npb_hbrec::{
    Content, ContentKernel, Filter, HbrecConfig, HbrecError, Likes, Recommender, RecommenderConfig,
    Saved,
};

use super::ratings::{How, features, triplets, unknown_items};
use crate::args::{GroupsArgs, ModelKind, RecommendArgs};
use crate::failure::{Failure, Result};
use crate::job::Job;
use crate::keep::{keep, of_bound};
use crate::model::ModelFile;
use crate::output;
use crate::settings;
use crate::sheet::{Cell, Sheet};

pub(crate) fn fit(args: &GroupsArgs, quiet: bool) -> Result<()> {
    let job = Job::new(&args.run, quiet)?;
    let config: HbrecConfig = args.settings.read(ModelKind::Groups)?;
    config.validate().map_err(Failure::usage)?;
    let places = [&args.group, &args.item, &args.value].map(String::clone);
    let read = How {
        layout: &args.layout,
        of_fit: None,
        repeats: args.duplicates.into(),
        quiet,
    };
    let (entries, layout) = triplets(&args.file, &places, &read)?;
    let in_file =
        |e: &dyn std::fmt::Display| Failure::bad_data(format_args!("{}: {e}", args.file.display()));
    let ratings: Ratings = entries.ratings().map_err(|e| in_file(&e))?;
    let how = RecommenderConfig {
        like_from: args.liked,
        filter: Filter::Hybrid1,
        fit: config,
    };
    let content = match features(
        args.items.as_deref(),
        &entries.column_ids,
        &args.layout,
        quiet,
    )? {
        Some(features) => Some(
            Content::of_features(&features, ContentKernel::Linear).map_err(Failure::bad_data)?,
        ),
        None => None,
    };
    job.listen()?;
    let fit = Recommender::fit_watched(&ratings, content.as_ref(), &how, &job.watch());
    job.finished()?;
    let fit = fit.map_err(|e| in_file(&e))?;
    let bytes = fit.to_bytes().map_err(Failure::failed)?;
    let schema = npb_data::schema::Schema::default();
    let mut model = ModelFile::new(
        ModelKind::Groups.name(),
        &schema,
        settings::text(&config)?,
        &args.file,
        bytes,
    );
    (model.n_rows, model.places, model.names) = (
        entries.entries.len() as u64,
        places.to_vec(),
        entries.column_ids.clone(),
    );
    (model.liked, model.origin.layout) = (args.liked, layout);
    let what = format!(
        "{} ratings, {} users, {} items",
        entries.entries.len(),
        entries.row_ids.len(),
        fit.n_items()
    );
    keep(
        &job,
        &model,
        &what,
        &of_bound(&fit.fitted().stop(), "base.learned.limits.max_iterations"),
    )
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
    let fit: Recommender = model.fit(&args.model)?;
    let read = How {
        layout: &args.layout,
        of_fit: Some(&model.origin.layout),
        repeats: Repeats::Last,
        quiet,
    };
    let (file, _) = triplets(path, &model.places, &read)?;
    let row = file
        .row_ids
        .iter()
        .position(|id| *id == args.row)
        .ok_or_else(|| {
            Failure::usage(format_args!(
                "--row: {} says nothing of {:?}",
                path.display(),
                args.row
            ))
        })?;
    let place = |id: &String| model.names.iter().position(|name| name == id);
    let items: Vec<Option<usize>> = file.column_ids.iter().map(place).collect();
    unknown_items(path, (&file.column_ids, &items), &model.names, quiet);
    let like = |entry: &Rating| {
        let item = items[entry.column as usize]?;
        Some((item as u32, entry.value >= model.liked))
    };
    let own = file
        .entries
        .iter()
        .filter(|entry| entry.row as usize == row);
    let rated: Vec<(u32, bool)> = own.filter_map(like).collect();
    let found = || {
        let profile = fit.profile(&Likes::new(fit.n_items(), &rated)?)?;
        top(&fit, &profile, args.top)
    };
    let found = found()
        .map_err(|e: HbrecError| Failure::bad_data(format_args!("{}: {e}", path.display())))?;
    let mut sheet = Sheet::new(&[
        model.places.get(1).map_or("item", String::as_str),
        "P(like)",
    ]);
    for best in found {
        sheet.push_row(vec![
            Cell::Text(model.names[best.item].clone()),
            Cell::Number(best.chance.probability),
        ]);
    }
    output::sheet(&sheet, &args.out)
}
