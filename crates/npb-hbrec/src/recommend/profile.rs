//! A user as the recommender sees it, and the items it will like.

use npb_infer::stream;
use npb_linalg::{Cholesky, dot, faer::Mat};
use npb_priors::special::normal_cdf;
use rand::RngExt;

use super::Recommender;
use crate::em::{posterior_weights, without_own};
use crate::users::ProbitPosterior;
use crate::{HbrecError, Likes, UserModel};

/// What is known of a user: its own fit, and how much each other user counts.
#[derive(Clone, Debug)]
pub struct Profile {
    pub(super) alone: ProbitPosterior,
    pub(super) own_weight: f64,
    /// Atoms that count, and their weights.
    pub(super) others: Vec<(usize, f64)>,
    /// Items the user has rated, ascending.
    pub(super) seen: Vec<u32>,
}

/// Weights of others below this change no digit that is shown.
const NOTHING: f64 = 1e-9;

impl Profile {
    /// Weight of the user's own model; the other users have the rest.
    pub fn own_weight(&self) -> f64 {
        self.own_weight
    }

    /// Items that the user has rated, ascending; they are left out of recommendations.
    pub fn seen(&self) -> &[u32] {
        &self.seen
    }
}

/// How likely an item is liked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance {
    /// Probability of a like.
    pub probability: f64,
    /// Standard deviation of that probability over what is not known about the user's taste: what more ratings would settle.
    pub sd: f64,
}

/// One place of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recommendation {
    /// The item.
    pub item: usize,
    /// How likely it is liked.
    pub chance: Chance,
}

/// Nodes and weights of the seven-point Gauss-Hermite rule for the standard normal law.
const NODES: [(f64, f64); 7] = [
    (-3.750_439_717_725_742_5, 0.000_548_268_855_972_217_9),
    (-2.366_759_410_734_541_5, 0.030_757_123_967_586_497),
    (-1.154_405_394_739_968_2, 0.240_123_178_605_012_73),
    (0.0, 0.457_142_857_142_857_13),
    (1.154_405_394_739_968_2, 0.240_123_178_605_012_73),
    (2.366_759_410_734_541_5, 0.030_757_123_967_586_497),
    (3.750_439_717_725_742_5, 0.000_548_268_855_972_217_9),
];

impl Recommender {
    /// A new user by its likes; without any it has the weights of the prior.
    ///
    /// Cost: a fit of n ratings, atoms times n.
    ///
    /// # Errors
    /// Unknown items; numerical trouble.
    pub fn profile(&self, likes: &Likes) -> Result<Profile, HbrecError> {
        self.profile_without(likes, None)
    }

    /// A user of the database. Its own point mass and what it gave to the weights are left out, so that its ratings count once.
    ///
    /// # Errors
    /// [`HbrecError::NoSuchUser`]; numerical trouble.
    pub fn user_profile(&self, user: usize) -> Result<Profile, HbrecError> {
        let n_users = self.stored.likes.len();
        let likes = self
            .stored
            .likes
            .get(user)
            .ok_or(HbrecError::NoSuchUser { user, n_users })?;
        let own = self
            .stored
            .atom_users
            .iter()
            .position(|&u| u as usize == user);
        self.profile_without(likes, own)
    }

    fn profile_without(&self, likes: &Likes, own: Option<usize>) -> Result<Profile, HbrecError> {
        let model = &self.stored.model;
        let weights = &self.stored.weights;
        let alone = model.fit(likes)?;
        let ln_likelihood = self.atoms.ln_likelihoods(likes);
        let xi = match own {
            Some(own) => without_own(weights, &ln_likelihood, own),
            None => weights.xi.clone(),
        };
        let evidence = model.ln_evidence(&alone);
        let (own_weight, others) = posterior_weights(weights.tau, evidence, &xi, &ln_likelihood);
        let others = others.into_iter().enumerate().filter(|(_, w)| *w > NOTHING);
        Ok(Profile {
            own_weight,
            others: others.collect(),
            seen: likes.items().to_vec(),
            alone,
        })
    }

    /// How likely the user likes an item.
    ///
    /// # Errors
    /// [`HbrecError::NoSuchItem`].
    pub fn chance(&self, profile: &Profile, item: usize) -> Result<Chance, HbrecError> {
        let n_items = self.n_items();
        if item >= n_items {
            return Err(HbrecError::NoSuchItem { item, n_items });
        }
        Ok(self.chance_of(profile, item))
    }

    /// How likely the user likes each item, rated ones included. Cost: items times (Q² + atoms that count).
    pub fn chances(&self, profile: &Profile) -> Vec<Chance> {
        (0..self.n_items())
            .map(|item| self.chance_of(profile, item))
            .collect()
    }

    fn chance_of(&self, profile: &Profile, item: usize) -> Chance {
        let (mut mean, mut square) = (0.0, 0.0);
        if profile.own_weight > 0.0 {
            let (utility, variance) = self.stored.model.utility(&profile.alone, item);
            let sd = variance.max(0.0).sqrt();
            mean += profile.own_weight * self.stored.model.predict_alone(&profile.alone, &item);
            let term =
                |(node, weight): &(f64, f64)| weight * normal_cdf(utility + sd * node).powi(2);
            square += profile.own_weight * NODES.iter().map(term).sum::<f64>();
        }
        for &(atom, weight) in &profile.others {
            let p = self.atoms.probability(atom, item);
            mean += weight * p;
            square += weight * p * p;
        }
        Chance {
            probability: mean.clamp(0.0, 1.0),
            sd: (square - mean * mean).max(0.0).sqrt(),
        }
    }

    /// The `l` items that the user most probably likes, among those it has not rated; fewer when there are no more.
    pub fn top(&self, profile: &Profile, l: usize) -> Vec<Recommendation> {
        let chances = self.chances(profile);
        let scores: Vec<f64> = chances.iter().map(|c| c.probability).collect();
        self.best(profile, l, &scores, &chances)
    }

    /// The `l` best items under *one draw* from what is possible for this user (Thompson sampling): lists that show what might be liked, so that ratings of them teach most.
    /// Equal seeds give equal lists.
    ///
    /// # Errors
    /// Numerical trouble.
    pub fn explore(
        &self,
        profile: &Profile,
        l: usize,
        seed: u64,
    ) -> Result<Vec<Recommendation>, HbrecError> {
        let rng = &mut stream(seed, [0, 0, EXPLORE, 0]);
        let mut left: f64 = rng.random::<f64>() - profile.own_weight;
        let mut chosen = None;
        for &(atom, weight) in &profile.others {
            if left < 0.0 {
                break;
            }
            left -= weight;
            chosen = Some(atom);
        }
        let n_items = self.n_items();
        let scores: Vec<f64> = match chosen {
            Some(atom) => (0..n_items)
                .map(|item| self.atoms.probability(atom, item))
                .collect(),
            None => {
                let prior = self.stored.model.prior();
                let coefficients = self.drawn_coefficients(profile, rng)?;
                let utility =
                    |item: usize| prior.offset(item) + dot(prior.row(item), &coefficients);
                (0..n_items).map(utility).collect()
            }
        };
        Ok(self.best(profile, l, &scores, &self.chances(profile)))
    }

    fn drawn_coefficients(
        &self,
        profile: &Profile,
        rng: &mut npb_infer::Xoshiro256PlusPlus,
    ) -> Result<Vec<f64>, HbrecError> {
        let mut drawn = profile.alone.mode().to_vec();
        let q = drawn.len();
        let packed = profile.alone.covariance();
        let covariance = Mat::from_fn(q, q, |i, j| packed[i * q + j]);
        let factor =
            Cholesky::new(covariance.as_ref()).map_err(|source| HbrecError::Numerical {
                what: "draw of a user's coefficients",
                iteration: 0,
                block: "user with ratings:",
                item: profile.seen.len(),
                source,
            })?;
        factor.sample_moment(&mut drawn, rng);
        Ok(drawn)
    }

    /// Unseen items by score, ties by number.
    fn best(
        &self,
        profile: &Profile,
        l: usize,
        scores: &[f64],
        chances: &[Chance],
    ) -> Vec<Recommendation> {
        let unseen = |item: &usize| profile.seen.binary_search(&(*item as u32)).is_err();
        let mut items: Vec<usize> = (0..scores.len()).filter(unseen).collect();
        items.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
        items.truncate(l);
        items
            .into_iter()
            .map(|item| Recommendation {
                item,
                chance: chances[item],
            })
            .collect()
    }
}

/// Third word of the key of explored lists.
const EXPLORE: u64 = 84;
