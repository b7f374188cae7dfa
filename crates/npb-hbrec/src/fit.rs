//! A fit for items: base distribution, users as atoms, their weights.

mod contents;
mod left_out;

use npb_infer::parallel;
use npb_infer::storage::fingerprint;
use npb_infer::{Saved, Stop, Watch, Xoshiro256PlusPlus, stream};
use npb_priors::dist::pick;
use rand::RngExt;
use rand::seq::index::sample;

use crate::atoms::{AtomTable, atoms_of_users};
use crate::base::learn_base_watched;
use crate::em::{learn_weights_watched, posterior_weights, without_own};
use crate::kernel::{check_content, learn_scales};
use crate::users::ln_of_number;
use crate::{
    BaseDistribution, Content, DpConcentration, HbrecConfig, HbrecError, ItemAtom, KernelScales,
    LearnedBase, LikeMatrix, Likes, ProbitItems, ProbitPosterior, UserModel, Weights,
};
pub use contents::Contents as HbrecContents;
use contents::{Contents, FittedBase};
use left_out::CHOICE;

const MODEL: &str = "npb-hbrec/items";
const CHECKPOINT: &str = "npb-hbrec/items/checkpoint";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The two scales of the standard base are learned from at most so many users, and so many ratings of each: each of some forty evidences costs a fit of
/// each.
const SCALE_USERS: usize = 200;
const SCALE_RATINGS: usize = 100;
/// Beyond so many atoms predictions are not cached: coefficients only.
const MOST_CACHED: usize = 100_000;
/// Beyond so many users the weights are fitted on a random choice of them.
const WEIGHT_USERS: usize = 10_000;

/// A database of users as the prior of the next one, over items.
///
/// Memory: 4 J bytes a user for cached predictions (none beyond 100,000 users) and `4 Q^2 + 12 n` for its coefficients.
#[derive(Debug)]
pub struct HbrecFit {
    content: Contents,
    model: ProbitItems,
    table: Option<AtomTable>,
}

/// A user as the fit sees it.
#[derive(Clone, Debug)]
pub struct HbrecUser {
    /// The posterior under the base distribution.
    pub alone: ProbitPosterior,
    /// Posterior weight of the own model.
    pub own_weight: f64,
    /// Posterior weights of the atoms; with the own weight they sum to 1.
    pub weights: Vec<f64>,
}

/// Learns base distribution, atoms and weights in one call.
///
/// # Errors
/// A configuration out of range; no user with data; content of another number of items; numerical trouble.
pub fn fit(
    likes: &LikeMatrix,
    content: Option<&Content>,
    config: &HbrecConfig,
) -> Result<HbrecFit, HbrecError> {
    fit_watched(likes, content, config, &Watch::none())
}

/// As [`fit`], watched, stopped or checkpointed by the caller: the checkpoint is of the base, which takes most of the time. Stopped, the base is what the iterations so far have made and the atoms have equal weights.
///
/// # Errors
/// As [`fit`]; a checkpoint that cannot be read or written, or is of another fit.
pub fn fit_watched(
    likes: &LikeMatrix,
    content: Option<&Content>,
    config: &HbrecConfig,
    watch: &Watch<'_>,
) -> Result<HbrecFit, HbrecError> {
    config.validate()?;
    check_content(likes.n_items(), content)?;
    let training = thinned(likes, config.most_ratings, config.seed)?;
    let share = if infers_tau(config, likes.n_users()) {
        0.5
    } else {
        0.8
    };
    let base = base(&training, content, config, share, watch)?;
    let prior = base.prior().clone();
    let model = ProbitItems::new(prior.with_identity(config.identity)?);
    let users: Vec<&Likes> = training.users().iter().collect();
    let (atoms, ln_evidence) = atoms_of_users(&model, &users, config.weights.atoms)?;
    let table = (atoms.len() <= MOST_CACHED).then(|| AtomTable::new(&model, &atoms));
    let mut weights = weights(&training, table.as_ref(), &ln_evidence, config, watch)?;
    if infers_tau(config, likes.n_users()) {
        left_out::infer_from_others(&training, content, config, &mut weights, watch)?;
    }
    let content = Contents {
        config: *config,
        content: content.cloned().into_iter().collect(),
        base,
        atoms,
        weights,
    };
    Ok(HbrecFit {
        content,
        model,
        table,
    })
}

/// Whether tau is inferred from users left out of the base: one that is learned from all of them makes their evidence too good.
fn infers_tau(config: &HbrecConfig, n_users: usize) -> bool {
    let learned = matches!(config.base, BaseDistribution::Learned(_));
    learned && config.weights.tau == DpConcentration::Inferred && n_users <= MOST_CACHED
}

/// At most `most` ratings of each user, chosen at random.
fn thinned(likes: &LikeMatrix, most: usize, seed: u64) -> Result<LikeMatrix, HbrecError> {
    let user = |(user, likes): (usize, &Likes)| {
        let n = likes.len();
        if n <= most {
            return Ok(likes.clone());
        }
        let rng = &mut stream(seed, [0, 0, CHOICE, user as u64]);
        let pairs: Vec<(u32, bool)> = sample(rng, n, most)
            .iter()
            .map(|at| (likes.items()[at], likes.liked()[at]))
            .collect();
        Likes::new(usize::MAX, &pairs)
    };
    let users: Result<Vec<Likes>, HbrecError> =
        likes.users().iter().enumerate().map(user).collect();
    LikeMatrix::from_users(likes.n_items(), users?)
}

fn base(
    likes: &LikeMatrix,
    content: Option<&Content>,
    config: &HbrecConfig,
    share: f64,
    watch: &Watch<'_>,
) -> Result<FittedBase, HbrecError> {
    let mut part = watch.part("base", share);
    let BaseDistribution::Learned(base) = &config.base else {
        let few = thinned(likes, SCALE_RATINGS, config.seed)?;
        let users: Vec<&Likes> = few.users().iter().filter(|user| !user.is_empty()).collect();
        if users.is_empty() {
            return Err(HbrecError::NoData);
        }
        let rng = &mut stream(config.seed, [0, 0, CHOICE, u64::MAX]);
        let chosen = sample(rng, users.len(), users.len().min(SCALE_USERS));
        let chosen: Vec<&Likes> = chosen.iter().map(|at| users[at]).collect();
        let (scales, _) = learn_scales(&chosen, likes.n_items(), content, KernelScales::default())?;
        let _ = part.report(1, 1.0, &[], &[]);
        let prior = scales.prior(likes.n_items(), content, 0.0)?;
        return Ok(FittedBase::Standard { scales, prior });
    };
    let key = fingerprint(&(config, likes.n_items(), likes.users(), content))?;
    let checkpoint = watch.checkpoint(CHECKPOINT, VERSION, key, 1)?;
    let learned = learn_base_watched(
        (likes, content),
        (base, config.seed),
        &mut part,
        &checkpoint,
    )?;
    Ok(FittedBase::Learned(learned))
}

/// Without a table of predictions there are too many users for a table of likelihoods too: the one-step form. tau that is neither given nor inferred here is as
/// many as there are users.
fn weights(
    likes: &LikeMatrix,
    table: Option<&AtomTable>,
    ln_evidence: &[f64],
    config: &HbrecConfig,
    watch: &Watch<'_>,
) -> Result<Weights, HbrecError> {
    let n = likes.n_users();
    let mut part = watch.part("weights", 0.2);
    let mut settings = config.weights;
    if settings.tau == DpConcentration::Inferred && (infers_tau(config, n) || table.is_none()) {
        settings.tau = DpConcentration::Given(n as f64);
    }
    let Some(table) = table else {
        let tau = match settings.tau {
            DpConcentration::Given(tau) => tau,
            DpConcentration::Inferred => n as f64,
        };
        let _ = part.report(1, 1.0, &[], &[]);
        return Ok(Weights {
            xi: vec![1.0; n],
            tau,
            fitted_to: Vec::new(),
            trace: Vec::new(),
            stop: Stop::Completed,
        });
    };
    let rng = &mut stream(config.seed, [0, 0, CHOICE, u64::MAX - 1]);
    let mut chosen: Vec<usize> = (0..n).collect();
    if n > WEIGHT_USERS {
        chosen = sample(rng, n, WEIGHT_USERS).into_vec();
        chosen.sort_unstable();
    }
    let users: Vec<&Likes> = chosen.iter().map(|&user| likes.user(user)).collect();
    let own: Vec<Option<usize>> = chosen.iter().copied().map(Some).collect();
    let evidence: Vec<f64> = chosen.iter().map(|&user| ln_evidence[user]).collect();
    let likelihoods = table.likelihood_table(&users, &own);
    settings.fitted &= !watch.is_stopped();
    learn_weights_watched(&likelihoods, &evidence, &settings, &mut part)
}

impl HbrecFit {
    /// The settings.
    pub fn config(&self) -> &HbrecConfig {
        &self.content.config
    }

    /// The user model with its base distribution.
    pub fn model(&self) -> &ProbitItems {
        &self.model
    }

    /// The learned base, unless the base is the standard one.
    pub fn base(&self) -> Option<&LearnedBase> {
        match &self.content.base {
            FittedBase::Learned(base) => Some(base),
            FittedBase::Standard { .. } => None,
        }
    }

    /// The users of the database as points, with those added later.
    pub fn atoms(&self) -> &[ItemAtom] {
        &self.content.atoms
    }

    /// Their weights, and tau.
    pub fn weights(&self) -> &Weights {
        &self.content.weights
    }

    /// Cancelled if the caller stopped the fit; otherwise how the iterations of the base ended.
    pub fn stop(&self) -> Stop {
        let base = self.base().map_or(Stop::Completed, |base| base.stop);
        if self.weights().stop == Stop::Cancelled {
            Stop::Cancelled
        } else {
            base
        }
    }

    /// Number of items.
    pub fn n_items(&self) -> usize {
        self.model.prior().n_items()
    }

    /// Number of atoms.
    pub fn n_users(&self) -> usize {
        self.atoms().len()
    }

    /// A user who is not in the database. Without ratings it has the weights of the prior.
    ///
    /// # Errors
    /// Unknown items; numerical trouble.
    pub fn user(&self, likes: &Likes) -> Result<HbrecUser, HbrecError> {
        let alone = self.model.fit(likes)?;
        Ok(self.active(alone, &self.ln_likelihoods(likes), None))
    }

    /// A user whose examples were chosen by whether they are liked, ten of each kind, say: how many are liked is then given and says nothing, neither of
    /// the user nor of who is alike. Predictions are those of [`user`](Self::user) otherwise.
    ///
    /// # Errors
    /// As [`user`](Self::user).
    pub fn user_of_chosen(&self, likes: &Likes) -> Result<HbrecUser, HbrecError> {
        let alone = self.model.fit_chosen(likes)?;
        let given_number = |(atom, ln_likelihood): (usize, f64)| {
            let p = |(item, _): (usize, bool)| self.atom_probability(atom, item);
            let p: Vec<f64> = likes.iter().map(p).collect();
            ln_likelihood - ln_of_number(&p, likes.n_liked())
        };
        let all = self.ln_likelihoods(likes).into_iter().enumerate();
        let conditional: Vec<f64> = all.map(given_number).collect();
        Ok(self.active(alone, &conditional, None))
    }

    /// User number `own` of the database: its own atom and responsibilities are left out, so that its data count once.
    ///
    /// # Errors
    /// As [`user`](Self::user); a user who does not exist.
    pub fn database_user(&self, likes: &Likes, own: usize) -> Result<HbrecUser, HbrecError> {
        if own >= self.n_users() {
            return Err(HbrecError::NoSuchUser {
                user: own,
                n_users: self.n_users(),
            });
        }
        let alone = self.model.fit(likes)?;
        Ok(self.active(alone, &self.ln_likelihoods(likes), Some(own)))
    }

    fn ln_likelihoods(&self, likes: &Likes) -> Vec<f64> {
        match &self.table {
            Some(table) => table.ln_likelihoods(likes),
            None => {
                let one = |atom: &ItemAtom| self.model.ln_likelihood(atom, likes);
                parallel::map(self.atoms(), one)
            }
        }
    }

    /// From the own posterior and the log-likelihood under every atom.
    fn active(
        &self,
        alone: ProbitPosterior,
        ln_likelihood: &[f64],
        own: Option<usize>,
    ) -> HbrecUser {
        let weights = self.weights();
        let evidence = self.model.ln_evidence(&alone);
        let without = own.map(|own| without_own(weights, ln_likelihood, own));
        let xi = without.as_ref().unwrap_or(&weights.xi);
        let (own_weight, weights) = posterior_weights(weights.tau, evidence, xi, ln_likelihood);
        HbrecUser {
            alone,
            own_weight,
            weights,
        }
    }

    /// Refuses a user of another fit, or of this one before an item brought new coefficients with it.
    pub(crate) fn check_user(&self, user: &HbrecUser) -> Result<(), HbrecError> {
        let size = |what, found, expected| HbrecError::Size {
            what,
            found,
            expected,
        };
        let (found, expected) = (user.alone.mode().len(), self.model.prior().width());
        if found != expected {
            let what = "coefficients of a user (of another fit? make it anew by `user`)";
            return Err(size(what, found, expected));
        }
        // Users who came later weigh nothing.
        let (found, most) = (user.weights.len(), self.n_users());
        if found > most {
            let what = "weights of a user (of another fit? make it anew by `user`)";
            return Err(size(what, found, most));
        }
        Ok(())
    }

    /// P(like) of one item.
    ///
    /// # Errors
    /// An item that does not exist; a user of another fit.
    pub fn predict(&self, user: &HbrecUser, item: usize) -> Result<f64, HbrecError> {
        self.check_user(user)?;
        let n_items = self.n_items();
        if item >= n_items {
            return Err(HbrecError::NoSuchItem { item, n_items });
        }
        let own = user.own_weight * self.model.predict_alone(&user.alone, &item);
        let weighted = self
            .atoms()
            .iter()
            .zip(&user.weights)
            .filter(|(_, w)| **w > 0.0);
        Ok(own
            + weighted
                .map(|(atom, w)| w * self.model.predict(atom, &item))
                .sum::<f64>())
    }

    /// P(like) of an item under an atom, from the cache where there is one.
    pub(crate) fn atom_probability(&self, atom: usize, item: usize) -> f64 {
        match &self.table {
            Some(table) => table.probability(atom, item),
            None => self.model.predict(&self.atoms()[atom], &item),
        }
    }

    /// The same fit with another weight of the own model: 0 is hybrid 2 of T, infinity the base distribution alone.
    ///
    /// # Errors
    /// tau negative or not a number.
    pub fn with_tau(mut self, tau: f64) -> Result<Self, HbrecError> {
        self.content.config.weights.tau = DpConcentration::Given(tau);
        self.content.config.validate()?;
        self.content.weights.tau = tau;
        Ok(self)
    }

    /// P(like) of every item. Cost: `J (Q^2 / 2 + K)` multiply-adds, K the atoms whose weight counts.
    ///
    /// # Errors
    /// A user of another fit.
    pub fn predict_all(&self, user: &HbrecUser) -> Result<Vec<f64>, HbrecError> {
        let mut predicted = self.predict_atoms(user)?;
        for (item, p) in predicted.iter_mut().enumerate() {
            *p += user.own_weight * self.model.predict_alone(&user.alone, &item);
        }
        Ok(predicted)
    }

    /// The atoms' part of the predictions: `sum_k w_k P(like | theta_k)` for every item.
    ///
    /// # Errors
    /// A user of another fit.
    pub fn predict_atoms(&self, user: &HbrecUser) -> Result<Vec<f64>, HbrecError> {
        self.check_user(user)?;
        if let Some(table) = &self.table {
            return Ok(table.mixture(&user.weights));
        }
        let counts = |(_, w): &(&ItemAtom, &f64)| **w > 1e-9;
        let active: Vec<(&ItemAtom, &f64)> = self
            .atoms()
            .iter()
            .zip(&user.weights)
            .filter(counts)
            .collect();
        let item = |item: usize| {
            let terms = active
                .iter()
                .map(|(atom, w)| *w * self.model.predict(atom, &item));
            terms.sum()
        };
        Ok(parallel::map(0..self.n_items(), item))
    }

    /// A draw from the posterior: P(like) of every item for one parameter, of the own model or of an atom, by weight. For exploring.
    ///
    /// # Errors
    /// A user of another fit.
    pub fn draw(
        &self,
        user: &HbrecUser,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<Vec<f64>, HbrecError> {
        self.check_user(user)?;
        let weights = user.weights.iter().copied().chain([user.own_weight]);
        let chosen = pick(weights, rng.random()).unwrap_or(user.weights.len());
        if let Some(atom) = self.atoms().get(chosen) {
            return Ok((0..self.n_items())
                .map(|item| self.model.predict(atom, &item))
                .collect());
        }
        let w = user.alone.draw(rng);
        let item = |item: usize| self.model.predict_at(&user.alone, &w, item);
        Ok((0..self.n_items()).map(item).collect())
    }

    /// Adds a user to the database: one fit and one column of predictions, no retraining. Its number.
    ///
    /// # Errors
    /// Unknown items; numerical trouble.
    pub fn add_user(&mut self, likes: &Likes) -> Result<usize, HbrecError> {
        let posterior = self.model.fit(likes)?;
        let atom = self.model.atom(&posterior, self.config().weights.atoms);
        if let Some(table) = &mut self.table {
            table.push(&self.model, &atom);
        }
        self.content.atoms.push(atom);
        self.content.weights.xi.push(1.0);
        Ok(self.n_users() - 1)
    }

    /// Adds an item that nobody rated, by its features or by nothing; its number. Cost: that of the cached predictions.
    ///
    /// # Errors
    /// Features that do not fit those of the fit.
    pub fn add_item(&mut self, features: Option<&[f64]>) -> Result<usize, HbrecError> {
        let item = self.content.add_item(features)?;
        self.model = self.content.model()?;
        if self.table.is_some() {
            self.table = Some(AtomTable::new(&self.model, &self.content.atoms));
        }
        Ok(item)
    }
}

/// ```
/// use npb_hbrec::{HbrecConfig, HbrecFit, LikeMatrix, Likes, Saved, fit};
/// let user = |u: usize| Likes::new(6, &(0..6).map(|i| (i, (u + i as usize) % 2 == 0)).collect::<Vec<_>>());
/// let users = (0..20).map(user).collect::<Result<Vec<_>, _>>()?;
/// let fitted = fit(&LikeMatrix::from_users(6, users)?, None, &HbrecConfig::default())?;
/// let again = HbrecFit::from_bytes(&fitted.to_bytes()?)?;
/// let new = Likes::new(6, &[(0, true)])?;
/// assert_eq!(again.predict_all(&again.user(&new)?)?, fitted.predict_all(&fitted.user(&new)?)?);
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
impl Saved for HbrecFit {
    const MODEL: &'static str = MODEL;
    const VERSION: &'static str = VERSION;
    type Content = Contents;
    type Error = HbrecError;

    fn content(&self) -> &Contents {
        &self.content
    }

    fn from_content(content: Contents) -> Result<Self, HbrecError> {
        content.check()?;
        let model = content.model()?;
        let cached = content.atoms.len() <= MOST_CACHED;
        let table = cached.then(|| AtomTable::new(&model, &content.atoms));
        Ok(Self {
            content,
            model,
            table,
        })
    }
}
