//! Each answer of the recommender and each of its settings, beside its value found in another way.

use npb_data::{Features, Rating, Ratings};
use npb_hbrec::npb_priors::special::normal_cdf;
use npb_hbrec::{
    AtomRule, BaseConfig, BaseDistribution, Content, ContentKernel, DpConcentration, Filter,
    HbrecConfig, HbrecFit, LikeMatrix, Likes, Profile, Recommender, RecommenderConfig, UserModel,
    WeightsConfig, fit,
};
use npb_infer::{VbLimits, stream};
use rand::RngExt;

const ITEMS: usize = 14;
const USERS: usize = 24;

/// Stars from 1 to 5 with halves; user 4 has none, item 13 one rater.
fn survey() -> (Ratings, Content) {
    let rng = &mut stream(6, [0; 4]);
    let mut entries = Vec::new();
    for user in 0..USERS as u32 {
        for item in 0..ITEMS as u32 {
            let (rated, x): (f64, f64) = (rng.random(), rng.random());
            let skip = user == 4 || (item == 13 && user != 2) || rated > 0.55;
            if skip {
                continue;
            }
            let tends = if (user + item).is_multiple_of(2) {
                2.0
            } else {
                0.0
            };
            let value = (2.0 * (1.0 + tends + 2.0 * x)).round() / 2.0;
            entries.push(Rating {
                row: user,
                column: item,
                value,
            });
        }
    }
    let feature: Vec<f64> = (0..ITEMS)
        .map(|i| (i % 2) as f64 + 0.1 * i as f64)
        .collect();
    let features = Features::dense(ITEMS, 1, &feature).unwrap();
    let content = Content::of_features(&features, ContentKernel::Linear).unwrap();
    (Ratings::new(USERS, ITEMS, &entries).unwrap(), content)
}

/// A value that some ratings have.
const LIKED: f64 = 3.5;

fn settings(tau: f64) -> HbrecConfig {
    HbrecConfig {
        base: BaseDistribution::Learned(BaseConfig {
            rank: 2,
            limits: VbLimits {
                max_iterations: 6,
                tolerance: 0.0,
            },
            ..BaseConfig::default()
        }),
        identity: 0.4,
        weights: WeightsConfig {
            tau: DpConcentration::Given(tau),
            ..WeightsConfig::default()
        },
        ..HbrecConfig::default()
    }
}

fn config(filter: Filter, fit: HbrecConfig) -> RecommenderConfig {
    RecommenderConfig {
        like_from: LIKED,
        filter,
        fit,
    }
}

/// Ratings of the threshold or more, one by one.
fn likes_of(ratings: &Ratings) -> LikeMatrix {
    let user = |user: usize| {
        let own = ratings.iter().filter(|e| e.row as usize == user);
        let pairs: Vec<(u32, bool)> = own.map(|e| (e.column, e.value >= LIKED)).collect();
        Likes::new(ITEMS, &pairs).unwrap()
    };
    LikeMatrix::from_users(ITEMS, (0..USERS).map(user).collect()).unwrap()
}

#[track_caller]
fn within(found: f64, expected: f64, most: f64, what: &str) {
    assert!(
        (found - expected).abs() <= most,
        "{what}: {found} for {expected}"
    );
}

fn new_user() -> Likes {
    Likes::new(ITEMS, &[(0, true), (3, false), (6, true), (9, true)]).unwrap()
}

fn same_fit(a: &HbrecFit, b: &HbrecFit) -> bool {
    a.config() == b.config()
        && a.atoms() == b.atoms()
        && a.weights() == b.weights()
        && a.model() == b.model()
}

/// What is fitted: likes from the threshold on, by the settings that the filter makes of those that were given, with content where it counts.
#[test]
fn filters_are_settings_of_the_fit() {
    let (ratings, content) = survey();
    assert!(ratings.iter().any(|e| e.value == LIKED));
    let likes = likes_of(&ratings);
    let given = settings(2.0);
    let with_tau = |tau: f64| WeightsConfig {
        tau: DpConcentration::Given(tau),
        ..given.weights
    };
    for (filter, expected, has_content) in [
        (Filter::Hybrid1, given, true),
        (Filter::Collaborative, given, false),
        (
            Filter::Hybrid2,
            HbrecConfig {
                weights: with_tau(0.0),
                ..given
            },
            true,
        ),
        (
            Filter::ContentBased,
            HbrecConfig {
                base: BaseDistribution::Standard,
                weights: WeightsConfig {
                    atoms: AtomRule::Map,
                    fitted: false,
                    ..with_tau(f64::INFINITY)
                },
                ..given
            },
            true,
        ),
    ] {
        let config = config(filter, given);
        let recommender = Recommender::fit(&ratings, Some(&content), &config).unwrap();
        assert_eq!(recommender.config(), &config);
        let by_hand = fit(&likes, Some(&content).filter(|_| has_content), &expected).unwrap();
        assert!(same_fit(recommender.fitted(), &by_hand), "{filter:?}");
        let profile = recommender.profile(&new_user()).unwrap();
        let user = by_hand.user(&new_user()).unwrap();
        assert_eq!(profile.own_weight(), user.own_weight);
        assert_eq!(
            recommender.probabilities(&profile).unwrap(),
            by_hand.predict_all(&user).unwrap()
        );
        match filter {
            Filter::Hybrid2 => assert_eq!(profile.own_weight(), 0.0),
            Filter::ContentBased => assert_eq!(profile.own_weight(), 1.0),
            _ => assert!(profile.own_weight() > 0.0 && profile.own_weight() < 1.0),
        }
    }
}

fn recommender(tau: f64) -> Recommender {
    let (ratings, content) = survey();
    Recommender::fit(
        &ratings,
        Some(&content),
        &config(Filter::Hybrid1, settings(tau)),
    )
    .unwrap()
}

/// The profiles that can be asked for: of a new user, of chosen examples, of users of the database with ratings and without.
#[test]
fn profiles_are_users_of_the_fit() {
    let recommender = recommender(2.0);
    let fitted = recommender.fitted();
    let likes = likes_of(&survey().0);
    let of = |profile: &Profile| recommender.probabilities(profile).unwrap();
    let new = recommender.profile(&new_user()).unwrap();
    assert_eq!(new.seen(), [0, 3, 6, 9]);
    let user = fitted.user(&new_user()).unwrap();
    assert_eq!(of(&new), fitted.predict_all(&user).unwrap());
    let chosen = recommender.profile_of_chosen(&new_user()).unwrap();
    let user = fitted.user_of_chosen(&new_user()).unwrap();
    assert_eq!(of(&chosen), fitted.predict_all(&user).unwrap());
    assert_eq!(
        (chosen.own_weight(), chosen.seen()),
        (user.own_weight, new.seen())
    );
    assert_ne!(of(&chosen), of(&new));
    for known in [2, 4] {
        let profile = recommender.user_profile(known).unwrap();
        let user = fitted.database_user(likes.user(known), known).unwrap();
        assert_eq!(profile.seen(), likes.user(known).items());
        assert_eq!(profile.own_weight(), user.own_weight);
        assert_eq!(of(&profile), fitted.predict_all(&user).unwrap());
    }
    assert!(recommender.user_profile(USERS).is_err());
}

/// Probability and standard deviation of a chance, by a sum over the own taste and over the other users; for a rated item the own probability is that of the
/// item, its spread that of the taste.
#[test]
fn chances_are_sums_over_own_taste_and_other_users() {
    for tau in [f64::INFINITY, 3.0, 0.0] {
        let recommender = recommender(tau);
        let fitted = recommender.fitted();
        let model = fitted.model();
        let profile = recommender.profile(&new_user()).unwrap();
        let user = fitted.user(&new_user()).unwrap();
        let all = recommender.probabilities(&profile).unwrap();
        for item in 0..ITEMS {
            let (mean, variance) = model.utility(&user.alone, item);
            let (mut first, mut second, mut mass) = (0.0, 0.0, 0.0);
            for z in (-800..=800).map(|x| 0.01 * f64::from(x)) {
                let weight = (-0.5 * z * z).exp();
                let p = normal_cdf(mean + z * variance.sqrt());
                mass += weight;
                first += weight * p;
                second += weight * p * p;
            }
            let spread = second / mass - (first / mass).powi(2);
            let own = model.predict_alone(&user.alone, &item);
            if !profile.seen().contains(&(item as u32)) {
                within(own, first / mass, 1e-6, "own probability");
            }
            let (mut p, mut square) = (
                user.own_weight * own,
                user.own_weight * (own * own + spread),
            );
            for (atom, weight) in fitted.atoms().iter().zip(&user.weights) {
                let q = model.predict(atom, &item);
                p += weight * q;
                square += weight * q * q;
            }
            let chance = recommender.chance(&profile, item).unwrap();
            let what = format!("tau {tau}, item {item}");
            within(chance.probability, p, 1e-5, &what);
            within(all[item], p, 1e-5, &what);
            within(chance.sd, (square - p * p).max(0.0).sqrt(), 1e-3, &what);
        }
        assert!(recommender.chance(&profile, ITEMS).is_err());
    }
}

/// Lists of what is liked: all unseen items by their probability, cut at so many.
#[test]
fn lists_of_what_is_liked_are_in_order_of_chances() {
    let recommender = recommender(3.0);
    let profile = recommender.profile(&new_user()).unwrap();
    let p = recommender.probabilities(&profile).unwrap();
    let mut unseen: Vec<usize> = (0..ITEMS).filter(|i| ![0, 3, 6, 9].contains(i)).collect();
    unseen.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    for l in [1, 4, 10, 99] {
        let top = recommender.top_liked(&profile, l).unwrap();
        let items: Vec<usize> = top.iter().map(|r| r.item).collect();
        assert_eq!(items, unseen[..l.min(10)]);
        for r in &top {
            assert_eq!(r.chance, recommender.chance(&profile, r.item).unwrap());
        }
    }
}

/// An item comes first in explored lists as often as in draws of the user.
#[test]
fn explored_lists_are_in_order_of_draws() {
    let recommender = recommender(30.0);
    let one = Likes::new(ITEMS, &[(4, true)]).unwrap();
    let profile = recommender.profile(&one).unwrap();
    let user = recommender.fitted().user(&one).unwrap();
    let rng = &mut stream(7, [0; 4]);
    const TIMES: u64 = 1500;
    let (mut explored, mut drawn) = ([0.0; ITEMS], [0.0; ITEMS]);
    for seed in 0..TIMES {
        let list = recommender.explore(&profile, 1, seed).unwrap();
        assert_eq!(list.len(), 1);
        explored[list[0].item] += 1.0 / TIMES as f64;
        let draw = recommender.fitted().draw(&user, rng).unwrap();
        let unseen = (0..ITEMS).filter(|&i| !profile.seen().contains(&(i as u32)));
        let first = unseen.max_by(|&a, &b| draw[a].total_cmp(&draw[b])).unwrap();
        drawn[first] += 1.0 / TIMES as f64;
    }
    assert!(
        drawn.iter().filter(|&&p| p > 0.05).count() >= 2,
        "{drawn:?}"
    );
    for item in 0..ITEMS {
        let p = 0.5 * (drawn[item] + explored[item]);
        let error = (2.0 * p * (1.0 - p) / TIMES as f64).sqrt();
        let off = (drawn[item] - explored[item]).abs();
        assert!(off <= 4.5 * error, "{item}: {explored:?} {drawn:?}");
    }
    let list = recommender.explore(&profile, 99, 3).unwrap();
    assert_eq!(list.len(), ITEMS - 1);
    assert_eq!(list, recommender.explore(&profile, 99, 3).unwrap());
}

/// What a recommendation is made of: the parts of the own utility, column by column, and the users with the largest weights.
#[test]
fn reasons_are_the_parts_of_a_chance() {
    let (ratings, content) = survey();
    for base in [settings(3.0).base, BaseDistribution::Standard] {
        let fit = HbrecConfig {
            base,
            ..settings(3.0)
        };
        let recommender =
            Recommender::fit(&ratings, Some(&content), &config(Filter::Hybrid1, fit)).unwrap();
        let fitted = recommender.fitted();
        let model = fitted.model();
        let user = fitted.user(&new_user()).unwrap();
        let profile = recommender.profile(&new_user()).unwrap();
        let rank = fitted.base().map_or(0, |base| base.rank());
        assert_eq!(rank > 0, fitted.base().is_some());
        for item in [5, 13] {
            let reasons = recommender.reasons(&profile, item, 100).unwrap();
            let (row, mode) = (model.prior().row(item), user.alone.mode());
            let part = |k: usize| row[k] * mode[k];
            let shared: f64 = (0..rank).map(part).sum();
            // Learned: the constant, then content; standard: the other way round.
            let (constant, of_content) = match rank {
                0 => (part(1), part(0)),
                _ => (part(rank), part(rank + 1)),
            };
            assert_eq!(reasons.item, model.prior().offset(item));
            within(reasons.shared_tastes, shared, 1e-12, "shared");
            within(reasons.constant, constant, 1e-12, "constant");
            assert_eq!(reasons.content, [(0, of_content)]);
            assert_eq!(
                reasons.own,
                (user.own_weight, model.predict_alone(&user.alone, &item))
            );
            let mut others: Vec<usize> = (0..USERS).filter(|&k| user.weights[k] > 1e-9).collect();
            others.sort_by(|&a, &b| user.weights[b].total_cmp(&user.weights[a]));
            let named: Vec<usize> = reasons.users.iter().map(|b| b.user).collect();
            assert_eq!(named, others);
            for because in &reasons.users {
                assert_eq!(because.weight, user.weights[because.user]);
                let p = model.predict(&fitted.atoms()[because.user], &item);
                within(because.probability, p, 1e-6, "user");
                let said = ratings.get(because.user, item).map(|stars| stars >= LIKED);
                assert_eq!(because.liked, said);
            }
            let few = recommender.reasons(&profile, item, 2).unwrap();
            assert_eq!(few.users, reasons.users[..2.min(reasons.users.len())]);
        }
    }
}

/// Users and items that come later, counts, and another tau.
#[test]
fn later_users_and_items_are_counted() {
    let (ratings, content) = survey();
    let mut recommender = recommender(2.0);
    assert_eq!(
        (recommender.n_users(), recommender.n_items()),
        (USERS, ITEMS)
    );
    let raters = |item: usize| ratings.iter().filter(|e| e.column as usize == item).count();
    (0..ITEMS).for_each(|item| assert_eq!(recommender.n_raters(item), raters(item)));
    let mut by_hand = fit(&likes_of(&ratings), Some(&content), &settings(2.0)).unwrap();
    assert_eq!(by_hand.add_item(Some(&[0.7])).unwrap(), ITEMS);
    assert_eq!(recommender.add_item(Some(&[0.7])).unwrap(), ITEMS);
    let later = Likes::new(ITEMS + 1, &[(2, true), (13, false), (14, true)]).unwrap();
    by_hand.add_user(&later).unwrap();
    assert_eq!(recommender.add_user(later.clone()).unwrap(), USERS);
    assert!(same_fit(recommender.fitted(), &by_hand));
    assert_eq!(
        (recommender.n_users(), recommender.n_items()),
        (USERS + 1, ITEMS + 1)
    );
    for (item, more) in [(2, 1), (13, 1), (14, 1), (5, 0)] {
        let before = if item == 14 { 0 } else { raters(item) };
        assert_eq!(recommender.n_raters(item), before + more);
    }
    let known = recommender.user_profile(USERS).unwrap();
    assert_eq!(known.seen(), [2, 13, 14]);
    let user = by_hand.database_user(&later, USERS).unwrap();
    assert_eq!(
        recommender.probabilities(&known).unwrap(),
        by_hand.predict_all(&user).unwrap()
    );
    // Prior odds of the own model are those of tau to the weights of the atoms.
    let nobody = |recommender: &Recommender| {
        let profile = recommender.profile(&Likes::default()).unwrap();
        profile.own_weight()
    };
    let mass: f64 = by_hand.weights().xi.iter().sum();
    within(nobody(&recommender), 2.0 / (2.0 + mass), 1e-9, "before");
    let recommender = recommender.with_tau(9.0).unwrap();
    within(nobody(&recommender), 9.0 / (9.0 + mass), 1e-9, "after");
    let said = recommender.config();
    assert_eq!(said.fit.weights.tau, DpConcentration::Given(9.0));
    assert_eq!((said.filter, said.like_from), (Filter::Hybrid1, LIKED));
    assert!(recommender.with_tau(-1.0).is_err());
}
