//! Comparators and our methods behind one interface: made from a fold, asked about its active users.

use npb_baselines::{
    Given, ImplicitAls, ImplicitAlsConfig, ItemKnn, ItemKnnConfig, ItemRates, Kernel, Pearson,
    PearsonForm, PlattSvm, SvmConfig,
};
use npb_bsvd::{BsvdConfig, Cells, Likelihood, SideInformation};
use npb_data::{Rating, Ratings};
use npb_hbrec::{
    BaseConfig, BaseDistribution, Content, ContentKernel, Filter, HbrecConfig, Likes, Recommender,
    RecommenderConfig,
};
use npb_infer::VbLimits;

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
    /// npb-bsvd with a probit likelihood, fitted again with the examples of the active users.
    Bsvd,
    /// Our recommender.
    Ours(Variant),
}

/// Forms of our recommender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Learned base, hybrid 1; `/tau0` and `/base` are of the same fit.
    Learned,
    /// Standard base, as printed; `-tau0` is of the same fit.
    Printed,
    /// Standard base, the user alone: a Bayesian kernel model of content.
    ContentKernel,
    /// Hybrid 1 without content.
    Collaborative,
    /// Hybrid 1 of few iterations and loadings: whether everything runs.
    Smoke,
}

impl Variant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Learned | Self::Smoke => "npb:hbrec",
            Self::Printed => "npb:hbrec/printed",
            Self::ContentKernel => "npb:hbrec/content",
            Self::Collaborative => "npb:hbrec/collaborative",
        }
    }

    pub(super) fn config(self, seed: u64) -> RecommenderConfig {
        let with = |fit: HbrecConfig| RecommenderConfig {
            like_from: 0.0,
            filter: Filter::Hybrid1,
            fit: HbrecConfig { seed, ..fit },
        };
        let default = HbrecConfig::default();
        match self {
            Self::Learned => with(default),
            Self::Smoke => {
                let limits = VbLimits {
                    max_iterations: 3,
                    tolerance: 1e-3,
                };
                let base = BaseConfig {
                    rank: 2,
                    limits,
                    ..Default::default()
                };
                with(HbrecConfig {
                    base: BaseDistribution::Learned(base),
                    most_ratings: 20,
                    ..default
                })
            }
            Self::Printed => with(HbrecConfig {
                base: BaseDistribution::Standard,
                identity: 0.0,
                ..default
            }),
            Self::ContentKernel => RecommenderConfig {
                filter: Filter::ContentBased,
                ..with(default)
            },
            Self::Collaborative => RecommenderConfig {
                filter: Filter::Collaborative,
                ..with(default)
            },
        }
    }

    /// What differs in tau alone: ending of the name, and tau.
    fn taus(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Learned | Self::Smoke => &[("/tau0", 0.0), ("/base", f64::INFINITY)],
            Self::Printed => &[("-tau0", 0.0)],
            Self::ContentKernel | Self::Collaborative => &[],
        }
    }

    /// From the likes of a database.
    pub(super) fn learn(
        self,
        survey: &Survey,
        database: &Ratings,
        seed: u64,
    ) -> Result<Recommender> {
        // As printed: the radial kernel of the chapter's machines. The learned base takes features as they are.
        let kernel = match self {
            Self::Printed | Self::ContentKernel => ContentKernel::Rbf { length: 1.0 },
            _ => ContentKernel::Linear,
        };
        let content = Content::of_features(&survey.content, kernel)?;
        Ok(Recommender::fit(
            database,
            Some(&content),
            &self.config(seed),
        )?)
    }
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
            Self::Bsvd => "npb:bsvd",
            Self::Ours(variant) => variant.name(),
        }
    }

    /// Names of what differs in tau alone, and tau.
    pub(super) fn taus(self) -> Vec<(String, Option<f64>)> {
        let Self::Ours(variant) = self else {
            return Vec::new();
        };
        let named =
            |(ending, tau): &(&str, f64)| (format!("{}{ending}", variant.name()), Some(*tau));
        variant.taus().iter().map(named).collect()
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
            Self::Bsvd => Learned::Bsvd(fold, seed),
            Self::Ours(variant) => Learned::Ours(Box::new(variant.learn(survey, likes, seed)?)),
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
    Bsvd(&'a Fold, u64),
    Ours(Box<Recommender>),
}

impl Learned<'_> {
    /// The same fit with another tau; a comparator stays what it is.
    pub(super) fn with_tau(self, tau: f64) -> Result<Self> {
        Ok(match self {
            Self::Ours(recommender) => Self::Ours(Box::new(recommender.with_tau(tau)?)),
            other => other,
        })
    }

    /// For each active user of a draw what is predicted from the examples `given`.
    pub(super) fn predict(&self, active: &[Active], given: usize) -> Result<Vec<Predicted>> {
        if let Self::Bsvd(fold, seed) = *self {
            return refitted(fold, active, given, seed);
        }
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
            Self::Bsvd(..) => return Err("it predicts for all active users in one go".into()),
            Self::Ours(recommender) => {
                let pairs: Vec<(u32, bool)> = given.iter().map(|g| (g.0, g.1 > 0.0)).collect();
                let profile = recommender.profile(&Likes::new(recommender.n_items(), &pairs)?)?;
                Predicted::probabilities(recommender.probabilities(&profile))
            }
        })
    }
}

/// A linear machine with a strong penalty: what does best on MovieLens's genres and years, of the kernels and penalties tried.
pub(super) fn svm() -> SvmConfig {
    SvmConfig {
        kernel: Kernel::Linear,
        c: 0.1,
        ..Default::default()
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
        &svm(),
        FOLDS,
    )?;
    Ok(Predicted::ranking(svm.decision(&survey.content_table)?))
}

/// Matrix factorisation knows users by their rows: it is fitted to the database and the given examples, and followed at all other cells of active users.
fn refitted(fold: &Fold, active: &[Active], given: usize, seed: u64) -> Result<Vec<Predicted>> {
    let n_items = fold.database.n_cols();
    let cell = |row: usize, column: u32, liked: bool| Rating {
        row: row as u32,
        column,
        value: f64::from(u8::from(liked)),
    };
    let mut entries: Vec<Rating> = fold
        .database
        .iter()
        .map(|e| cell(e.row as usize, e.column, e.value > 0.0))
        .collect();
    let mut cells = Cells::default();
    for user in active {
        let own = &user.given[given];
        entries.extend(own.iter().map(|g| cell(user.user, g.0, g.1 > 0.0)));
        for item in (0..n_items as u32).filter(|item| own.iter().all(|g| g.0 != *item)) {
            cells.rows.push(user.user as u32);
            cells.columns.push(item);
            cells.values.push(0.0);
        }
    }
    let train = Ratings::new(fold.database.n_rows(), n_items, &entries)?;
    let config = BsvdConfig {
        likelihood: Likelihood::Binary,
        seed,
        ..Default::default()
    };
    let fit = npb_bsvd::fit(&train, SideInformation::default(), &cells, &config)?;
    let mut rest = cells.columns.iter().zip(&fit.moments.mean);
    let scores = |user: &Active| {
        let mut scores = vec![0.0; n_items];
        let n = n_items - user.given[given].len();
        rest.by_ref()
            .take(n)
            .for_each(|(&item, mean)| scores[item as usize] = *mean);
        Predicted::ranking(scores)
    };
    Ok(active.iter().map(scores).collect())
}
