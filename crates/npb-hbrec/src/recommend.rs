//! The recommender: what a user with a few ratings will like, and why (`docs/hbrec.md#recommender`).

mod atoms;
mod config;
mod explain;
mod profile;
mod saved;

use std::ops::ControlFlow;

use npb_data::{Features, Ratings};
use npb_infer::{Stop, Watch, stream};
use rand::seq::SliceRandom;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub use config::{BasePrior, Filter, RecommenderConfig};
pub use explain::{Because, Reasons};
pub use profile::{Chance, Profile, Recommendation};

use crate::base::{BaseEm, LearnedBase};
use crate::em::{Weights, learn_weights};
use crate::kernel::{Content, ContentKernel, KernelScales, learn_scales};
use crate::{
    Concentration, HbrecError, ItemAtom, ItemPrior, LikeMatrix, Likes, ProbitItems, UserModel,
    WeightsConfig,
};
use atoms::AtomTable;

/// A hybrid recommender: items by content and by what other users say of them.
///
/// Training fits the base distribution to all users, then a probit model to each user, which becomes a point mass with a weight. A new user is one
/// small fit; its predictions are the average of its own model and of the users who agree with it ((14) of T). Users who are never asked about cost nothing more.
///
/// Memory: 8 J (Q + 2) bytes for the base, 5 bytes a rating, and 4 J + 2 Q (Q + 5) bytes for each atom that has a weight.
///
/// ```
/// use npb_hbrec::npb_data::{Rating, Ratings};
/// use npb_hbrec::{Likes, Recommender, RecommenderConfig};
/// // 60 users of two tastes gave stars to 6 of 8 films.
/// let stars = |u: u32, i: u32| Rating { row: u, column: i, value: if (u + i) % 2 == 0 { 5.0 } else { 2.0 } };
/// let entries: Vec<Rating> = (0..60).flat_map(|u| (0..8).filter(move |i| (i + u / 2) % 4 != 0).map(move |i| stars(u, i))).collect();
/// let ratings = Ratings::new(60, 8, &entries)?;
/// let config = RecommenderConfig { like_from: 4.0, ..Default::default() };
/// let recommender = Recommender::fit(&ratings, None, &config)?;
/// // A new user who likes film 2 and not film 3.
/// let profile = recommender.profile(&Likes::new(8, &[(2, true), (3, false)])?)?;
/// let top = recommender.top(&profile, 3);
/// assert!(top.iter().all(|r| r.item % 2 == 0 && r.item != 2 && r.chance.probability > 0.6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recommender {
    stored: StoredRecommender,
    atoms: AtomTable,
}

/// What is kept of a [`Recommender`] in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredRecommender {
    config: RecommenderConfig,
    content: Option<Content>,
    base: Base,
    model: ProbitItems,
    /// Of every user of the database.
    likes: Vec<Likes>,
    /// How many users rated each item.
    raters: Vec<u32>,
    atoms: Vec<ItemAtom>,
    /// Which user each atom is.
    atom_users: Vec<u32>,
    weights: Weights,
    stop: Stop,
}

/// Where the base distribution of a [`StoredRecommender`] is from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Base {
    Learned(LearnedBase),
    Standard(KernelScales),
}

impl Content {
    /// From features of items; an item whose features are all zero is one like others. Give items without features to [`Content::new`] instead.
    ///
    /// # Errors
    /// As [`Content::new`].
    pub fn of_features(features: &Features, kernel: ContentKernel) -> Result<Self, HbrecError> {
        let mut row = vec![0.0_f32; features.n_features()];
        let mut item = |i: usize| {
            features.write(i, &mut row);
            Some(row.iter().map(|&x| f64::from(x)).collect())
        };
        let rows: Vec<Option<Vec<f64>>> = (0..features.n_rows()).map(&mut item).collect();
        Self::new(&rows, kernel)
    }
}

/// Users whose evidence the scales of a standard base are learned from, at most.
const SCALE_USERS: usize = 300;
/// Third words of the keys of what is drawn.
const SUBSET: u64 = 81;
const SCALES: u64 = 82;
const ATOMS: u64 = 83;
/// Shares of the work.
const BASE_WORK: f64 = 0.6;
const ATOM_WORK: f64 = 0.2;

impl Recommender {
    /// Learns from the ratings of all users, users x items; rows without ratings are users of whom nothing is known.
    ///
    /// `content` must have the items of the ratings; without it collaboration alone decides, and new items cannot be told apart. Cost: the base, see
    /// [`learn_base`](crate::learn_base); atoms times items times Q² / 2; atoms times ratings.
    ///
    /// # Errors
    /// A configuration out of range; content of another number of items; no rating at all; content-based filtering without content.
    pub fn fit(
        ratings: &Ratings,
        content: Option<&Content>,
        config: &RecommenderConfig,
    ) -> Result<Self, HbrecError> {
        Self::fit_watched(ratings, content, config, &Watch::none())
    }

    /// As [`fit`](Self::fit), watched; a fit that is stopped has the base it had reached, and no atoms.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_watched(
        ratings: &Ratings,
        content: Option<&Content>,
        config: &RecommenderConfig,
        watch: &Watch<'_>,
    ) -> Result<Self, HbrecError> {
        config.validate()?;
        if config.filter == Filter::ContentBased && content.is_none() {
            return Err(HbrecError::State {
                what: "filter: content-based filtering needs content of items".to_owned(),
            });
        }
        let content = content.filter(|_| config.filter != Filter::Collaborative);
        let all = LikeMatrix::new(ratings, config.like_from);
        if all.n_rated() == 0 {
            return Err(HbrecError::NoData);
        }
        let likes = capped(&all, config);
        let (base, mut stop) = learned_base(&likes, content, config, watch)?;
        let model = ProbitItems::new(base.prior(likes.n_items(), content, config.identity)?);
        let mut stored = StoredRecommender {
            config: config.clone(),
            content: content.cloned(),
            base,
            model,
            raters: (0..all.n_items())
                .map(|item| all.raters(item).len() as u32)
                .collect(),
            likes: all.users().to_vec(),
            atoms: Vec::new(),
            atom_users: Vec::new(),
            weights: no_atoms(),
            stop: Stop::Completed,
        };
        if config.filter.has_atoms() && stop != Stop::Cancelled {
            stop = stored.learn_atoms(&likes, stop, watch)?;
        }
        stored.stop = stop;
        Ok(Self::of(stored))
    }

    fn of(stored: StoredRecommender) -> Self {
        let atoms = AtomTable::new(&stored.model, &stored.atoms);
        Self { stored, atoms }
    }

    /// Items, those without ratings included.
    pub fn n_items(&self) -> usize {
        self.stored.model.prior().n_items()
    }

    /// Users of the database.
    pub fn n_users(&self) -> usize {
        self.stored.likes.len()
    }

    /// The settings.
    pub fn config(&self) -> &RecommenderConfig {
        &self.stored.config
    }

    /// The user model with its base distribution.
    pub fn model(&self) -> &ProbitItems {
        &self.stored.model
    }

    /// What was learned of items, unless the base is the standard one.
    pub fn learned_base(&self) -> Option<&LearnedBase> {
        match &self.stored.base {
            Base::Learned(base) => Some(base),
            Base::Standard(_) => None,
        }
    }

    /// Weights of the users who stand for others, those without weight left out, and tau.
    pub fn weights(&self) -> &Weights {
        &self.stored.weights
    }

    /// How many users rated an item.
    ///
    /// # Panics
    /// When there is no such item.
    pub fn n_raters(&self, item: usize) -> usize {
        self.stored.raters[item] as usize
    }

    /// Why the iterations of the base ended.
    pub fn stop(&self) -> &Stop {
        &self.stored.stop
    }

    /// The same with another weight of the own model, without training: 0 is hybrid 2, infinity the base distribution alone.
    ///
    /// # Errors
    /// A tau that is negative or NaN.
    pub fn with_tau(mut self, tau: f64) -> Result<Self, HbrecError> {
        self.stored.config.weights.tau = Concentration::Given(tau);
        self.stored.config.weights.validate()?;
        self.stored.weights.tau = tau;
        Ok(self)
    }

    /// Adds a user: one fit, a point mass of weight 1, no retraining; its number. Weights of the others stay.
    ///
    /// # Errors
    /// Unknown items; numerical trouble.
    pub fn add_user(&mut self, likes: Likes) -> Result<usize, HbrecError> {
        let stored = &mut self.stored;
        let user = stored.likes.len();
        if stored.config.filter.has_atoms() && !likes.is_empty() {
            let posterior = stored.model.fit(&likes)?;
            let atom = stored.model.atom(&posterior, stored.config.weights.atoms);
            self.atoms.push(&stored.model, &atom);
            stored.atoms.push(atom);
            stored.atom_users.push(user as u32);
            stored.weights.xi.push(1.0);
        }
        likes.check(stored.model.prior().n_items())?;
        likes
            .items()
            .iter()
            .for_each(|&item| stored.raters[item as usize] += 1);
        stored.likes.push(likes);
        Ok(user)
    }

    /// Adds an item that nobody rated, by its features or by nothing; its number. Cost: atoms times Q² / 2.
    ///
    /// # Errors
    /// Another number of features, features where there is no content; numbers that are not finite.
    pub fn add_item(&mut self, features: Option<&[f64]>) -> Result<usize, HbrecError> {
        let stored = &mut self.stored;
        let columns = match (&stored.content, features) {
            (Some(content), Some(features)) => Some(content.project(features)?),
            (None, Some(_)) => {
                return Err(HbrecError::State {
                    what: "features of a new item: the recommender was made without content"
                        .to_owned(),
                });
            }
            (_, None) => None,
        };
        let item = match &mut stored.base {
            Base::Learned(base) => {
                let item = base.add_item(columns.as_deref())?;
                stored.model = ProbitItems::new(base.prior.clone());
                item
            }
            Base::Standard(scales) => {
                let width = stored.model.prior().width();
                let mut row = vec![0.0; width];
                for (cell, x) in row.iter_mut().zip(columns.iter().flatten()) {
                    *cell = x * scales.content.sqrt();
                }
                row[width - 1] = scales.constant.sqrt();
                let mut prior = stored.model.prior().clone();
                let item = prior.push(0.0, &row, 0.0)?;
                stored.model = ProbitItems::new(prior);
                item
            }
        };
        stored.raters.push(0);
        self.atoms = AtomTable::new(&stored.model, &stored.atoms);
        Ok(item)
    }
}

impl Base {
    fn prior(
        &self,
        n_items: usize,
        content: Option<&Content>,
        identity: f64,
    ) -> Result<ItemPrior, HbrecError> {
        match self {
            Self::Learned(base) => Ok(base.prior.clone()),
            Self::Standard(scales) => scales.prior(n_items, content, identity),
        }
    }
}

impl StoredRecommender {
    /// Point masses of users and their weights; those without weight are dropped.
    fn learn_atoms(
        &mut self,
        likes: &LikeMatrix,
        stop: Stop,
        watch: &Watch<'_>,
    ) -> Result<Stop, HbrecError> {
        let config = &self.config;
        let mut users: Vec<usize> = (0..likes.n_users())
            .filter(|&u| !likes.user(u).is_empty())
            .collect();
        if users.len() > config.max_atoms {
            users.shuffle(&mut stream(config.seed, [0, 0, ATOMS, 0]));
            users.truncate(config.max_atoms);
            users.sort_unstable();
        }
        let mut part = watch.part("users", ATOM_WORK);
        let fits: Result<Vec<(ItemAtom, f64)>, HbrecError> = users
            .par_iter()
            .map(|&user| {
                let posterior = self.model.fit(likes.user(user))?;
                let atom = self.model.atom(&posterior, config.weights.atoms);
                Ok((atom, self.model.ln_evidence(&posterior)))
            })
            .collect();
        let (atoms, ln_evidence): (Vec<ItemAtom>, Vec<f64>) = fits?.into_iter().unzip();
        if part.report(1, 1.0, &[], &[]).is_break() {
            return Ok(Stop::Cancelled);
        }
        let own: Vec<&Likes> = users.iter().map(|&user| likes.user(user)).collect();
        let table = AtomTable::new(&self.model, &atoms).likelihoods(&own);
        let mut part = watch.part("weights", 1.0 - BASE_WORK - ATOM_WORK);
        let mut weights = learn_weights(&table, &ln_evidence, &config.effective_weights())?;
        let _ = part.report(1, 1.0, &[], &[]);
        let kept: Vec<usize> = (0..atoms.len()).filter(|&k| weights.xi[k] > 0.0).collect();
        weights.xi = kept.iter().map(|&k| weights.xi[k]).collect();
        self.atom_users = kept.iter().map(|&k| users[k] as u32).collect();
        self.atoms = kept.iter().map(|&k| atoms[k].clone()).collect();
        self.weights = weights;
        Ok(stop)
    }
}

fn no_atoms() -> Weights {
    Weights {
        xi: Vec::new(),
        tau: f64::INFINITY,
        trace: Vec::new(),
        stop: Stop::Completed,
    }
}

/// Users with more than so many ratings are learned from a random part of them.
fn capped(all: &LikeMatrix, config: &RecommenderConfig) -> LikeMatrix {
    let part = |(user, likes): (usize, &Likes)| {
        let mut pairs: Vec<(u32, bool)> = likes
            .iter()
            .map(|(item, liked)| (item as u32, liked))
            .collect();
        if pairs.len() > config.max_ratings {
            pairs.shuffle(&mut stream(config.seed, [0, 0, SUBSET, user as u64]));
            pairs.truncate(config.max_ratings);
        }
        Likes::new(all.n_items(), &pairs)
    };
    let users: Result<Vec<Likes>, HbrecError> = all.users().iter().enumerate().map(part).collect();
    // What is part of a checked matrix is sound.
    users
        .and_then(|users| LikeMatrix::from_users(all.n_items(), users))
        .unwrap_or_else(|_| all.clone())
}

fn learned_base(
    likes: &LikeMatrix,
    content: Option<&Content>,
    config: &RecommenderConfig,
    watch: &Watch<'_>,
) -> Result<(Base, Stop), HbrecError> {
    let mut part = watch.part("base", BASE_WORK);
    match config.effective_base() {
        BasePrior::Learned(base) => {
            let most = base.limits.max_iterations;
            let names = ["elbo".to_owned()];
            let mut em = BaseEm::new(likes, content, &base)?;
            let outcome = npb_infer::run_vb(&mut em, &base.limits, BaseEm::step, |report, _| {
                let step = report.iteration as u64;
                part.report(step, step as f64 / most as f64, &names, &[report.elbo])
            })?;
            let stop = outcome.stop;
            let _ = part.report(outcome.trace.len() as u64, 1.0, &names, &[em.elbo()]);
            let mut learned = em.finish(outcome.trace, stop)?;
            learned.prior = learned.prior.with_identity(config.identity)?;
            Ok((Base::Learned(learned), stop))
        }
        BasePrior::Standard => {
            let mut users: Vec<usize> = (0..likes.n_users())
                .filter(|&u| !likes.user(u).is_empty())
                .collect();
            users.shuffle(&mut stream(config.seed, [0, 0, SCALES, 0]));
            users.truncate(SCALE_USERS);
            let chosen: Vec<&Likes> = users.iter().map(|&user| likes.user(user)).collect();
            let (scales, evidence) =
                learn_scales(&chosen, likes.n_items(), content, KernelScales::default())?;
            let stop = match part.report(1, 1.0, &["ln_evidence".to_owned()], &[evidence]) {
                ControlFlow::Break(()) => Stop::Cancelled,
                ControlFlow::Continue(()) => Stop::Completed,
            };
            Ok((Base::Standard(scales), stop))
        }
    }
}

impl RecommenderConfig {
    /// tau as the kind of filter has it.
    fn effective_weights(&self) -> WeightsConfig {
        match self.filter {
            Filter::Hybrid2 => WeightsConfig {
                tau: Concentration::Given(0.0),
                ..self.weights
            },
            _ => self.weights,
        }
    }

    /// Content alone knows no other users: the standard base.
    fn effective_base(&self) -> BasePrior {
        match self.filter {
            Filter::ContentBased => BasePrior::Standard,
            _ => self.base,
        }
    }
}
