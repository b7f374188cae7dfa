//! npb-hbrec.

mod cold_items;
mod data;
mod fig_3;
mod fig_4;
mod machine;
mod methods;
mod protocol;
mod runs;
mod samplers;
mod tasks;

use npb_data::{Rating, Ratings};
use rand::seq::SliceRandom;

use crate::Result;
use crate::reproduce::Experiment;

pub(crate) use data::SurveyModel;

/// In the order of the paper, then what it does not have.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    tasks::FIG_1,
    fig_3::FIG_3,
    fig_4::SURVEY,
    fig_4::FIG_4,
    samplers::SAMPLERS,
    cold_items::COLD_ITEMS,
    tasks::TASKS,
];

/// A drawn survey: likes (+1 and -1) of the database, and the ratings of the last `new` users, each in random order.
#[expect(clippy::type_complexity, reason = "a matrix, and lists of users")]
pub(crate) fn simulated_survey(
    model: &SurveyModel,
    seed: u64,
    new: usize,
) -> Result<(Ratings, Vec<Vec<(u32, bool)>>)> {
    let likes = data::Survey::simulated(model, seed)?.likes;
    let first = likes.n_rows().saturating_sub(new);
    let entries: Vec<Rating> = likes.iter().filter(|e| (e.row as usize) < first).collect();
    let user = |user: usize| {
        let (items, values) = likes.row(user);
        let mut ratings: Vec<(u32, bool)> = items
            .iter()
            .zip(values)
            .map(|(&i, &v)| (i, v > 0.0))
            .collect();
        ratings.shuffle(&mut npb_infer::stream(seed, [user as u64, 0, 2, 71]));
        ratings
    };
    let new = (first..likes.n_rows()).map(user).collect();
    Ok((Ratings::new(first, likes.n_cols(), &entries)?, new))
}
