//! A user as the recommender sees it, and the items it will like.

use npb_infer::stream;
use npb_priors::special::normal_cdf;

use super::Recommender;
use crate::fit::HbrecUser;
use crate::{HbrecError, Likes};

/// What is known of a user: its own fit and how much each other user counts, and what it has rated.
#[derive(Clone, Debug)]
pub struct Profile {
    pub(super) user: HbrecUser,
    /// Items the user has rated, ascending.
    pub(super) seen: Vec<u32>,
}

/// Weights of others below this change no digit that is shown.
pub(super) const NOTHING: f64 = 1e-9;

impl Profile {
    /// Weight of the user's own model; the other users have the rest.
    pub fn own_weight(&self) -> f64 {
        self.user.own_weight
    }

    /// Items that the user has rated, ascending; they are left out of recommendations.
    pub fn seen(&self) -> &[u32] {
        &self.seen
    }

    /// Users that count, and their weights.
    pub(super) fn others(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let weights = self.user.weights.iter().copied().enumerate();
        weights.filter(|(_, weight)| *weight > NOTHING)
    }
}

/// How likely an item is liked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance {
    /// Probability of a like.
    pub probability: f64,
    /// Standard deviation of that probability over what is not known about the user's taste: what more ratings would settle. What a point mass does not know of
    /// its own user is not in it.
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
    /// # Errors
    /// Unknown items; numerical trouble.
    pub fn profile(&self, likes: &Likes) -> Result<Profile, HbrecError> {
        let user = self.fit.user(likes)?;
        Ok(Profile {
            user,
            seen: likes.items().to_vec(),
        })
    }

    /// A new user by examples that were chosen by whether they are liked: see [`HbrecFit::user_of_chosen`](crate::HbrecFit::user_of_chosen).
    ///
    /// # Errors
    /// As [`profile`](Self::profile).
    pub fn profile_of_chosen(&self, likes: &Likes) -> Result<Profile, HbrecError> {
        let user = self.fit.user_of_chosen(likes)?;
        Ok(Profile {
            user,
            seen: likes.items().to_vec(),
        })
    }

    /// A user of the database. Its own point mass and what it gave to the weights are left out, so that its ratings count once.
    ///
    /// # Errors
    /// [`HbrecError::NoSuchUser`]; numerical trouble.
    pub fn user_profile(&self, user: usize) -> Result<Profile, HbrecError> {
        let n_users = self.n_users();
        let likes = self
            .likes
            .get(user)
            .ok_or(HbrecError::NoSuchUser { user, n_users })?;
        let active = self.fit.database_user(likes, user)?;
        Ok(Profile {
            user: active,
            seen: likes.items().to_vec(),
        })
    }

    /// How likely the user likes an item.
    ///
    /// # Errors
    /// [`HbrecError::NoSuchItem`]; a profile of another recommender.
    pub fn chance(&self, profile: &Profile, item: usize) -> Result<Chance, HbrecError> {
        self.check_item(item)?;
        self.fit.check_user(&profile.user)?;
        Ok(self.chance_of(profile, item))
    }

    /// Probability of a like for every item, rated ones included.
    ///
    /// # Errors
    /// A profile of another recommender.
    pub fn probabilities(&self, profile: &Profile) -> Result<Vec<f64>, HbrecError> {
        self.fit.predict_all(&profile.user)
    }

    pub(super) fn check_item(&self, item: usize) -> Result<(), HbrecError> {
        let n_items = self.n_items();
        if item < n_items {
            return Ok(());
        }
        Err(HbrecError::NoSuchItem { item, n_items })
    }

    fn chance_of(&self, profile: &Profile, item: usize) -> Chance {
        let model = self.fit.model();
        let (mut mean, mut square) = (0.0, 0.0);
        let own = profile.own_weight();
        if own > 0.0 {
            let (utility, variance) = model.utility(&profile.user.alone, item);
            let sd = variance.max(0.0).sqrt();
            let moment = |power: i32| -> f64 {
                let term = |(node, weight): &(f64, f64)| {
                    weight * normal_cdf(utility + sd * node).powi(power)
                };
                NODES.iter().map(term).sum()
            };
            // For an item that was rated the own model knows more: its probability with the spread of taste about it.
            let p = crate::UserModel::predict_alone(model, &profile.user.alone, &item);
            mean += own * p;
            square += own * (p * p + (moment(2) - moment(1).powi(2)).max(0.0));
        }
        for (atom, weight) in profile.others() {
            let p = self.fit.atom_probability(atom, item);
            mean += weight * p;
            square += weight * p * p;
        }
        Chance {
            probability: mean.clamp(0.0, 1.0),
            sd: (square - mean * mean).max(0.0).sqrt(),
        }
    }

    /// The `l` items that the user will most probably come to *and* like, among those it has not rated; fewer when there are no more.
    ///
    /// They are in order of the chance of a like times that of coming to rate the item at all, which is learned from who rated what
    /// ([`Exposure`](npb_data::Exposure)). Chances of the list are those of a like. Cost: that of [`probabilities`](Self::probabilities) and the ratings of all users.
    ///
    /// # Errors
    /// A profile of another recommender.
    pub fn top(&self, profile: &Profile, l: usize) -> Result<Vec<Recommendation>, HbrecError> {
        let mut scores = self.probabilities(profile)?;
        let lists = self.likes.iter().map(Likes::items);
        let chances = self
            .exposure
            .chances(self.n_items(), lists, &profile.seen)?;
        scores.iter_mut().zip(chances).for_each(|(p, e)| *p *= e);
        Ok(self.best(profile, l, &scores))
    }

    /// The `l` items that the user most probably likes, whether it would come to them by itself or not, among those it has not rated.
    ///
    /// # Errors
    /// A profile of another recommender.
    pub fn top_liked(
        &self,
        profile: &Profile,
        l: usize,
    ) -> Result<Vec<Recommendation>, HbrecError> {
        Ok(self.best(profile, l, &self.probabilities(profile)?))
    }

    /// The `l` best items under *one draw* from what is possible for this user (Thompson sampling): lists that show what might be liked, so that their ratings teach
    /// much. Equal seeds give equal lists; chances are those of [`chance`](Self::chance).
    ///
    /// # Errors
    /// A profile of another recommender.
    pub fn explore(
        &self,
        profile: &Profile,
        l: usize,
        seed: u64,
    ) -> Result<Vec<Recommendation>, HbrecError> {
        let rng = &mut stream(seed, [0, 0, EXPLORE, 0]);
        Ok(self.best(profile, l, &self.fit.draw(&profile.user, rng)?))
    }

    /// Unseen items by score, ties by number.
    fn best(&self, profile: &Profile, l: usize, scores: &[f64]) -> Vec<Recommendation> {
        let unseen = |item: &usize| profile.seen.binary_search(&(*item as u32)).is_err();
        let mut items: Vec<usize> = (0..scores.len()).filter(unseen).collect();
        items.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
        items.truncate(l);
        let recommended = |item| Recommendation {
            item,
            chance: self.chance_of(profile, item),
        };
        items.into_iter().map(recommended).collect()
    }
}

/// Third word of the key of explored lists.
const EXPLORE: u64 = 84;
