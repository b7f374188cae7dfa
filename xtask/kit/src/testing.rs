//! What tests of experiments share.

use std::fs;
use std::path::Path;

use npb_catalogue::data::DataFolder;
use npb_catalogue::{Entry, Listed, Scale};

use crate::cache::TrialCache;
use crate::command::Model;
use crate::context::Context;
use crate::validate::{Check, Plan};

pub use npb_catalogue::Scratch;

/// Calls `test` with a context at smoke scale.
///
/// # Panics
/// `scratch` cannot be written.
pub fn with_context<T>(
    scratch: &Scratch,
    data: &DataFolder,
    test: impl FnOnce(&Context<'_>) -> T,
) -> T {
    let cache = TrialCache::open(&scratch.path("trials.jsonl"), false).unwrap();
    test(&Context::new("test", Scale::Smoke, 1, data, &cache))
}

/// Every check runs at the smallest scale, gives no alarm and writes numbers.
///
/// # Panics
/// One does not.
pub fn smoke(checks: &[(&str, Check)]) {
    let plan = Plan {
        scale: Scale::Smoke,
        seed: 1,
    };
    for (id, check) in checks {
        let found = check(&plan).unwrap();
        assert!(found.passed, "{id}");
        assert!(found.report.results.iter().all(|r| r.mean.is_finite()));
    }
}

/// `listed.toml` of a package says what it has.
///
/// # Panics
/// It does not.
#[track_caller]
pub fn assert_listed(model: &Model) {
    let listed = Listed::parse(model.listed).unwrap();
    let ids = |entries: &[Entry]| -> Vec<String> { entries.iter().map(|e| e.id.clone()).collect() };
    let known: Vec<&str> = model.experiments.iter().map(|e| e.0).collect();
    assert_eq!(ids(&listed.experiments), known);
    let known: Vec<&str> = model.checks.iter().map(|c| c.0).collect();
    assert_eq!(ids(&listed.checks), known);
}

/// Writes a data set of MovieLens 1M's layout: `users` users who rated each fifth film of 11.
pub fn write_1m(folder: &Path, users: u32) {
    let place = folder.join("movielens-1m");
    fs::create_dir_all(&place).unwrap();
    let (mut ratings, mut traits) = (String::new(), String::new());
    for user in 1..=users {
        let gender = if user % 2 == 0 { "F" } else { "M" };
        traits += &format!(
            "{user}::{gender}::{}::{}::48067\n",
            [1, 25, 56][user as usize % 3],
            user % 21
        );
        for film in 1..=11u32 {
            if (film + user) % 5 != 0 {
                ratings += &format!("{user}::{film}::{}\n", 1 + (film * user) % 5);
            }
        }
    }
    let film = |film: usize| {
        format!(
            "{film}::A film (19{film:02})::{}\n",
            ["Action|War", "Drama", "Nonsense"][film % 3]
        )
    };
    fs::write(place.join("ratings.dat"), ratings).unwrap();
    fs::write(place.join("users.dat"), traits).unwrap();
    fs::write(
        place.join("movies.dat"),
        (1..=11).map(film).collect::<String>(),
    )
    .unwrap();
}

/// The folder of data sets that [`write_1m`] writes.
pub fn folder(scratch: &Scratch) -> DataFolder {
    DataFolder::resolve(Some(scratch.root().to_owned()), scratch.root())
}
