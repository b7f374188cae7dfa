//! Comparators and our methods behind one interface: made from a fold, asked about its active users.

use npb_baselines::{
    Given, ImplicitAls, ImplicitAlsConfig, ItemKnn, ItemKnnConfig, ItemRates, Kernel, Pearson,
    PearsonForm, Svm, SvmConfig,
};
use npb_bsvd::{BsvdConfig, Cells, Likelihood, SideInformation};
use npb_data::{Rating, Ratings};
use npb_hbrec::{
    BaseConfig, BaseDistribution, Content, ContentKernel, Filter, HbrecConfig, Likes, Recommender,
    RecommenderConfig,
};
use npb_infer::VbLimits;

use super::data::Survey;
use super::protocol::{Active, Ask, Fold, LENGTHS, Predicted};
use npb_kit::Result;

/// What predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Support vector machine on content, of the user's examples alone.
    Content,
    /// Pearson correlation as Breese et al. print it.
    Pearson,
    /// Divided by the weights of raters, with significance weights.
    PearsonNormalised,
    ItemRate,
    Popularity,
    ItemKnn,
    /// Nearest neighbours on deviations from the like-rates of items, about the like-rate of the item.
    ItemKnnRate,
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
    /// Standard base, as printed; `-tau0` and the user alone, a Bayesian kernel model of content, are of the same fit.
    Printed,
    /// Hybrid 1 of few iterations and loadings: whether everything runs.
    Smoke,
}

impl Variant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Learned | Self::Smoke => "npb:hbrec",
            Self::Printed => "npb:hbrec/printed",
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
            Self::Printed => with(HbrecConfig::printed()),
        }
    }

    /// Other weights of the own model with the same fit.
    fn forms(self) -> [(&'static str, f64); 2] {
        let names = match self {
            Self::Learned | Self::Smoke => ["npb:hbrec/tau0", "npb:hbrec/base"],
            Self::Printed => ["npb:hbrec/printed-tau0", "npb:hbrec/content"],
        };
        [(names[0], 0.0), (names[1], f64::INFINITY)]
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
            Self::Printed => ContentKernel::Rbf { length: 1.0 },
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
            Self::ItemRate => "item-rate",
            Self::Popularity => "popularity",
            Self::ItemKnn => "item-knn",
            Self::ItemKnnRate => "item-knn+rate",
            Self::Ials => "ials",
            Self::Bsvd => "npb:bsvd",
            Self::Ours(variant) => variant.name(),
        }
    }

    /// Other forms of the same fit: names, and weights of the own model.
    pub(super) fn forms(self) -> Vec<(&'static str, f64)> {
        match self {
            Self::Ours(variant) => variant.forms().to_vec(),
            _ => Vec::new(),
        }
    }

    /// Matrix factorisation is fitted again for each way of asking: it is asked in one.
    pub(super) fn takes_part(self, ask: &Ask) -> bool {
        self != Self::Bsvd || ask.label.is_empty()
    }

    /// Everything that the outcome depends on, as text.
    pub(super) fn settings(self) -> String {
        if let Self::Ours(variant) = self {
            return format!("{self:?} {:?}", variant.config(0));
        }
        format!(
            "{self:?} {VOTES} {SIGNIFICANCE} {SHRINKAGE} {:?} {:?}",
            ImplicitAlsConfig::default(),
            svm()
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
            Self::ItemRate => Learned::Items(ItemRates::fit(likes, VOTES)?.like_rates().to_vec()),
            Self::Popularity => Learned::Items(ItemRates::fit(likes, VOTES)?.popularity().to_vec()),
            Self::ItemKnn => Learned::ItemKnn(ItemKnn::fit(likes, &ItemKnnConfig::default())?),
            Self::ItemKnnRate => about_rates(likes)?,
            Self::Ials => Learned::Ials(ImplicitAls::fit(likes, &als)?),
            Self::Bsvd => Learned::Bsvd(fold, seed),
            Self::Ours(variant) => Learned::Ours(Box::new(variant.learn(survey, likes, seed)?)),
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

/// Votes at the overall rate added to the like-rate of an item.
const VOTES: f64 = 5.0;
/// Common items that make a correlation count in full. Twenty examples cannot have more than twenty.
const SIGNIFICANCE: f64 = 20.0;

/// Raters added to the divisor of a similarity of deviations.
const SHRINKAGE: f64 = 50.0;

fn about_rates<'a>(likes: &Ratings) -> Result<Learned<'a>> {
    // Likes are +1 and -1: twice the rate less one is the mean of an item.
    let rates = ItemRates::fit(likes, VOTES)?;
    let means: Vec<f64> = rates.like_rates().iter().map(|r| 2.0 * r - 1.0).collect();
    let deviation = |e: Rating| Rating {
        value: e.value - means[e.column as usize],
        ..e
    };
    let entries: Vec<Rating> = likes.iter().map(deviation).collect();
    let deviations = Ratings::new(likes.n_rows(), likes.n_cols(), &entries)?;
    let config = ItemKnnConfig {
        shrinkage: SHRINKAGE,
        neighbours: None,
    };
    Ok(Learned::ItemKnnRate(
        ItemKnn::fit(&deviations, &config)?,
        means,
    ))
}

/// A method that knows the database.
pub(super) enum Learned<'a> {
    Content(&'a Survey),
    Pearson(Pearson<'a>),
    Items(Vec<f64>),
    ItemKnn(ItemKnn),
    /// And the mean of each item.
    ItemKnnRate(ItemKnn, Vec<f64>),
    Ials(ImplicitAls),
    Bsvd(&'a Fold, u64),
    Ours(Box<Recommender>),
}

impl Learned<'_> {
    /// With another weight of the own model; a comparator stays what it is.
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
            Self::Items(scores) => Predicted::ranking(scores.clone()),
            Self::ItemKnn(knn) => Predicted::ranking(knn.scores(given)?),
            Self::ItemKnnRate(knn, means) => {
                let deviation = |g: &Given| (g.0, g.1 - means[g.0 as usize]);
                let deviations: Vec<Given> = given.iter().map(deviation).collect();
                let scores = knn.scores(&deviations)?;
                Predicted::ranking(scores.iter().zip(means).map(|(s, m)| s + m).collect())
            }
            Self::Ials(als) => Predicted::ranking(als.scores(given)?),
            Self::Bsvd(..) => return Err("it predicts for all active users in one go".into()),
            Self::Ours(recommender) => {
                let pairs: Vec<(u32, bool)> = given.iter().map(|g| (g.0, g.1 > 0.0)).collect();
                let likes = Likes::new(recommender.n_items(), &pairs)?;
                let profile = recommender.profile(&likes)?;
                let list = match recommender.config().fit.base {
                    // As printed: by the chance of a like alone.
                    BaseDistribution::Standard => None,
                    BaseDistribution::Learned(_) => {
                        let list = recommender.top(&profile, LENGTHS[LENGTHS.len() - 1])?;
                        Some(list.iter().map(|r| r.item as u32).collect())
                    }
                };
                Predicted {
                    list,
                    ..Predicted::probabilities(recommender.probabilities(&profile)?)
                }
            }
        })
    }
}

/// A support vector machine on the content of the given items.
fn content(survey: &Survey, given: &[Given]) -> Result<Predicted> {
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
    let svm = Svm::fit(&survey.content_table.select_rows(&rows), &labels, &svm())?;
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
