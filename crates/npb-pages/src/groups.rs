//! Likes of many users with few ratings each.

use npb_hbrec::{Likes, Recommender, RecommenderConfig};
use npb_infer::stream;
use npb_report::{NamedBar, TextTable, colours, named_bars};
use rand::seq::SliceRandom;

use crate::bins::{Kind, histogram, largest};
use crate::classes::Judged;
use crate::ends::Loadings;
use crate::page::Section;
use crate::sampling::some;
use crate::shared::{number, percent};
use crate::{Context, Page, Result, shared};

/// Users that are looked at, and items.
const MOST_USERS: usize = 200;
const MOST_ITEMS: usize = 2_000;
/// Items that are named.
const NAMED: usize = 10;
/// First word of the keys of random streams.
const HALVES: u64 = 11;

/// Users whose ratings are known, beside or among those of the fit.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Name of their file.
    pub file: String,
    /// Their names and what they like.
    pub users: Vec<(String, Likes)>,
    /// They may be those of the fit.
    pub may_be_of_fit: bool,
}

/// The page of a fit, with users to try it on if there are some. `items`: names of the items; their numbers where it is empty.
///
/// # Errors
/// Users who have rated items that the fit does not know.
pub fn page(
    fit: &Recommender,
    context: &Context<'_>,
    items: &[String],
    known: Option<&Known>,
) -> Result<Page> {
    let mut page = shared::begin(context);
    let fitted = fit.fitted();
    let base = fitted.base().map(|base| base.trace.as_slice());
    let trace = base.unwrap_or(&fitted.weights().trace);
    let setting = "base.learned.limits.max_iterations";
    page.push(shared::bound(trace, fitted.stop(), setting)?);
    let name = |item: usize| items.get(item).cloned().unwrap_or_else(|| item.to_string());
    page.push(users(fit, context.seed)?);
    page.push(tastes(fit, &name, context.seed)?);
    page.push(someone_new(fit, &name, context.seed)?);
    page.push(match known {
        Some(known) => held_out(fit, known, &name, context.seed)?,
        None => shared::ask_for_rows("of users, items and ratings"),
    });
    page.push(shared::settings(
        fit.config(),
        &RecommenderConfig::default(),
    )?);
    Ok(page)
}

/// How much users go by each other.
fn users(fit: &Recommender, seed: u64) -> Result<Section> {
    let mut section = Section::new("What users share");
    let (n, weights) = (fit.n_users(), fit.fitted().weights());
    section.say(format!(
        "{n} users and {} items; {} users count as patterns for others.",
        fit.n_items(),
        weights.n_active()
    ));
    let shown = some(n, MOST_USERS, seed);
    // Less than a picture can show is nothing.
    let weight = |&user: &usize| Ok((1e4 * fit.user_profile(user)?.own_weight()).round() / 1e4);
    let own: Vec<f64> = shown.iter().map(weight).collect::<Result<_>>()?;
    let kind = Kind {
        name: "users",
        colour: colours::BLUE,
        values: &own,
    };
    let part = match shown.len() < n {
        true => format!(" ({} of {n} users)", shown.len()),
        false => String::new(),
    };
    let look = format!(
        "Near 1 a user goes by the own ratings and what is usual, near 0 by other users who rate alike{part}."
    );
    let words = ["own", "How much users go by themselves", &look];
    section.draw_any(histogram(words, "weight of the own model", &[kind])?);
    Ok(section)
}

/// What users differ in: items at the ends, and users in the plane of the first two.
fn tastes(fit: &Recommender, name: &dyn Fn(usize) -> String, seed: u64) -> Result<Section> {
    let mut section = Section::new("What users differ in");
    let fitted = fit.fitted();
    let rank = fitted.base().map_or(0, |base| base.rank());
    let prior = fitted.model().prior();
    let items = 0..fit.n_items();
    let mean: Vec<f64> = items
        .flat_map(|item| &prior.row(item)[..rank])
        .copied()
        .collect();
    let loadings = Loadings {
        names: name,
        n_directions: rank,
        mean: &mean,
        sd: &[],
    };
    match loadings.map("Items")? {
        Some(figure) => section.draw(figure),
        None => {
            section.say("The fit holds no tastes that users share: no picture of items by them.")
        }
    }
    // Atoms have a coefficient for each column of the loadings.
    let active = fitted
        .atoms()
        .iter()
        .filter(|atom| atom.coefficients().len() >= rank);
    let places: Vec<f64> = active
        .flat_map(|atom| &atom.coefficients()[..rank])
        .copied()
        .collect();
    let users = Loadings {
        names: &|user| user.to_string(),
        mean: &places,
        ..loadings
    };
    section.draw_any(users.plane("users", &|_| false, seed)?);
    Ok(section)
}

/// What is said of items for somebody of whom nothing is known.
fn someone_new(fit: &Recommender, name: &dyn Fn(usize) -> String, seed: u64) -> Result<Section> {
    let mut section = Section::new("Items, for someone new");
    let profile = fit.profile(&Likes::new(fit.n_items(), &[])?)?;
    let shown = some(fit.n_items(), MOST_ITEMS, seed);
    let chances = shown.iter().map(|&item| fit.chance(&profile, item));
    let chances: Vec<_> = chances.collect::<std::result::Result<_, _>>()?;
    let p: Vec<f64> = chances.iter().map(|chance| chance.probability).collect();
    let sds: Vec<f64> = chances.iter().map(|chance| chance.sd).collect();
    let bar = |k: usize| NamedBar {
        name: name(shown[k]),
        value: p[k],
        sd: Some(sds[k]),
    };
    let bars: Vec<NamedBar> = largest(&p, NAMED).into_iter().map(bar).collect();
    let part = match shown.len() < fit.n_items() {
        true => format!(" of {MOST_ITEMS} items, drawn at random"),
        false => String::new(),
    };
    let look = format!(
        "Probability of a like with the standard deviation over users{part}: a long bar is liked by nearly everybody, a wide spread is a matter of taste."
    );
    section.draw(named_bars("new", "Most liked", &look, &bars, 1.0)?);
    let negated: Vec<f64> = sds.iter().map(|sd| -sd).collect();
    for (title, order) in [
        ("Tastes agree on", &negated),
        ("Tastes differ most on", &sds),
    ] {
        let row = |k: usize| {
            let raters = fit.n_raters(shown[k]).to_string();
            vec![name(shown[k]), number(p[k]), number(sds[k]), raters]
        };
        let header = ["item", "P(like)", "sd over users", "ratings"];
        section.tabulate(TextTable::new(
            title,
            &header,
            largest(order, NAMED).into_iter().map(row),
        ));
    }
    Ok(section)
}

/// One half of the ratings of each user, by which the other is predicted: item, whether it is liked, probability.
fn halves(
    fit: &Recommender,
    user: usize,
    likes: &Likes,
    seed: u64,
) -> Result<Vec<(usize, bool, f64)>> {
    let mut pairs: Vec<(u32, bool)> = likes
        .iter()
        .map(|(item, liked)| (item as u32, liked))
        .collect();
    pairs.shuffle(&mut stream(seed, [HALVES, user as u64, 0, 0]));
    let (given, asked) = pairs.split_at(pairs.len() / 2);
    let profile = fit.profile(&Likes::new(fit.n_items(), given)?)?;
    let all = fit.probabilities(&profile)?;
    let found = asked.iter().map(|&(item, liked)| {
        let item = item as usize;
        (item, liked, all[item].clamp(0.0, 1.0))
    });
    Ok(found.collect())
}

fn held_out(
    fit: &Recommender,
    known: &Known,
    name: &dyn Fn(usize) -> String,
    seed: u64,
) -> Result<Section> {
    let mut section = Section::new("Do its probabilities hold?");
    let file = &known.file;
    let with_two: Vec<&(String, Likes)> = known
        .users
        .iter()
        .filter(|(_, likes)| likes.len() > 1)
        .collect();
    if with_two.is_empty() {
        section.warn(format!(
            "No user of {file} has two ratings of items of the fit: nothing can be judged."
        ));
        return Ok(section);
    }
    let shown = some(with_two.len(), MOST_USERS, seed);
    section.say(format!(
        "{} users of {file}: half of the ratings of each are given, the others predicted by them.",
        shown.len()
    ));
    if known.may_be_of_fit {
        section.warn(format!(
            "{file} has as many ratings as the file of the fit: if it is that file, the model has seen all of them, and what stands here is better than it will be for new users."
        ));
    }
    let mut found = Vec::new();
    for user in shown {
        let (user_name, likes) = with_two[user];
        let own = halves(fit, user, likes, seed)?;
        found.extend(
            own.into_iter()
                .map(|(item, liked, p)| (user_name, item, liked, p)),
        );
    }
    let judged = Judged {
        classes: &["not liked", "liked"].map(str::to_owned),
        truth: found
            .iter()
            .map(|&(_, _, liked, _)| usize::from(liked))
            .collect(),
        probabilities: found.iter().map(|&(_, _, _, p)| vec![1.0 - p, p]).collect(),
    };
    judged.write(&mut section)?;
    let sure: Vec<f64> = found.iter().map(|&(_, _, _, p)| (p - 0.5).abs()).collect();
    let negated: Vec<f64> = sure.iter().map(|sure| -sure).collect();
    for (title, order) in [
        ("Most sure ratings", &sure),
        ("Least sure ratings", &negated),
    ] {
        let row = |k: usize| {
            let (user, item, liked, p) = found[k];
            let liked = if liked { "yes" } else { "no" };
            vec![user.clone(), name(item), percent(p), liked.to_owned()]
        };
        let header = ["user", "item", "P(like)", "liked"];
        section.fold(TextTable::new(
            title,
            &header,
            largest(order, NAMED).into_iter().map(row),
        ));
    }
    Ok(section)
}
