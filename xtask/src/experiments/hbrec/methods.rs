//! Comparators and our methods behind one interface: made from a fold, asked about its active users.

use npb_baselines::{
    Given, ImplicitAls, ImplicitAlsConfig, ItemKnn, ItemKnnConfig, ItemRates, Pearson, PearsonForm,
    PlattSvm, SvmConfig,
};
use npb_data::Ratings;

use super::data::Survey;
use super::protocol::{Active, Fold, Predicted};
use crate::Result;

/// What predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Support vector machine on content, of the user's examples alone.
    Content,
    /// Pearson correlation as Breese et al. print it.
    Pearson,
    /// Divided by the weights of raters, with significance weights.
    PearsonNormalised,
    /// The same, about the like-rate of the item.
    PearsonRate,
    ItemRate,
    Popularity,
    ItemKnn,
    Ials,
}

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Pearson => "pearson",
            Self::PearsonNormalised => "pearson/normalised",
            Self::PearsonRate => "pearson+rate",
            Self::ItemRate => "item-rate",
            Self::Popularity => "popularity",
            Self::ItemKnn => "item-knn",
            Self::Ials => "ials",
        }
    }

    /// Everything that the outcome depends on, as text.
    pub(super) fn settings(self) -> String {
        format!(
            "{self:?} {VOTES} {SIGNIFICANCE} {:?} {:?}",
            ImplicitAlsConfig::default(),
            SvmConfig::default()
        )
    }

    /// What is learnt from the database of a fold.
    pub(super) fn learn<'a>(
        self,
        survey: &'a Survey,
        fold: &'a Fold,
        seed: u64,
    ) -> Result<Learned<'a>> {
        let als = ImplicitAlsConfig {
            seed,
            ..Default::default()
        };
        let likes = &fold.database;
        let significance = PearsonForm::Normalised {
            significance: SIGNIFICANCE,
        };
        Ok(match self {
            Self::Content => Learned::Content(survey),
            Self::Pearson => Learned::Pearson(Pearson::new(likes, PearsonForm::Breese)?),
            Self::PearsonNormalised => Learned::Pearson(Pearson::new(likes, significance)?),
            Self::PearsonRate => Learned::Both(
                Pearson::new(likes, significance)?,
                ItemRates::fit(likes, VOTES)?,
            ),
            Self::ItemRate => Learned::Items(ItemRates::fit(likes, VOTES)?.like_rates().to_vec()),
            Self::Popularity => Learned::Items(ItemRates::fit(likes, VOTES)?.popularity().to_vec()),
            Self::ItemKnn => Learned::ItemKnn(ItemKnn::fit(likes, &ItemKnnConfig::default())?),
            Self::Ials => Learned::Ials(ImplicitAls::fit(likes, &als)?),
        })
    }
}

/// Votes at the overall rate added to the like-rate of an item.
const VOTES: f64 = 5.0;
/// Common items that make a correlation count in full. Twenty examples cannot have more than twenty.
const SIGNIFICANCE: f64 = 20.0;

/// A method that knows the database.
pub(super) enum Learned<'a> {
    Content(&'a Survey),
    Pearson(Pearson<'a>),
    Both(Pearson<'a>, ItemRates),
    Items(Vec<f64>),
    ItemKnn(ItemKnn),
    Ials(ImplicitAls),
}

impl Learned<'_> {
    /// For each active user of a draw what is predicted from the examples `given`.
    pub(super) fn predict(&self, active: &[Active], given: usize) -> Result<Vec<Predicted>> {
        active
            .iter()
            .map(|user| self.one(&user.given[given]))
            .collect()
    }

    fn one(&self, given: &[Given]) -> Result<Predicted> {
        Ok(match self {
            Self::Content(survey) => content(survey, given)?,
            Self::Pearson(pearson) => Predicted::ranking(pearson.scores(given)?),
            Self::Both(pearson, rates) => {
                let deviations = pearson.scores(given)?;
                let mean = given.iter().map(|g| g.1).sum::<f64>() / given.len().max(1) as f64;
                // Likes are +1 and -1: twice the rate less one is the mean of an item.
                let score = |(d, r): (&f64, &f64)| d - mean + 2.0 * r - 1.0;
                Predicted::ranking(
                    deviations
                        .iter()
                        .zip(rates.like_rates())
                        .map(score)
                        .collect(),
                )
            }
            Self::Items(scores) => Predicted::ranking(scores.clone()),
            Self::ItemKnn(knn) => Predicted::ranking(knn.scores(given)?),
            Self::Ials(als) => Predicted::ranking(als.scores(given)?),
        })
    }
}

/// A support vector machine on the content of the given items, scaled to probabilities.
fn content(survey: &Survey, given: &[Given]) -> Result<Predicted> {
    const FOLDS: usize = 5;
    let rows: Vec<usize> = given.iter().map(|g| g.0 as usize).collect();
    let labels: Vec<bool> = given.iter().map(|g| g.1 > 0.0).collect();
    let n = survey.content_table.n_rows();
    if labels.is_empty() || labels.iter().all(|&l| l == labels[0]) {
        let p = if labels.first().copied().unwrap_or(false) {
            1.0
        } else {
            0.0
        };
        let smoothed = (labels.len() as f64 * p + 1.0) / (labels.len() as f64 + 2.0);
        return Ok(Predicted::probabilities(vec![smoothed; n]));
    }
    let svm = PlattSvm::fit(
        &survey.content_table.select_rows(&rows),
        &labels,
        &SvmConfig::default(),
        FOLDS,
    )?;
    Ok(Predicted::ranking(svm.decision(&survey.content_table)?))
}

/// The database with the given examples of active users in it: what methods that know users only by their rows are fitted to.
pub(super) fn with_given(fold: &Fold, active: &[Active], given: usize) -> Result<Ratings> {
    let mut entries: Vec<npb_data::Rating> = fold.database.iter().collect();
    for user in active {
        entries.extend(
            user.given[given]
                .iter()
                .map(|&(column, value)| npb_data::Rating {
                    row: user.user as u32,
                    column,
                    value,
                }),
        );
    }
    Ok(Ratings::new(
        fold.database.n_rows(),
        fold.database.n_cols(),
        &entries,
    )?)
}
