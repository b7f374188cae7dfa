//! The recommender: it learns tastes, leaves out what was seen, knows new users and items, says why, and refuses what cannot be.

use npb_data::{Exposure, Features, Rating, Ratings};
use npb_hbrec::{
    BaseConfig, BaseDistribution, Content, ContentKernel, DpConcentration, Filter, HbrecConfig,
    HbrecError, ItemPrior, Likes, ProbitItems, Recommendation, Recommender, RecommenderConfig,
    Saved, UserModel, WeightsConfig,
};
use npb_infer::testing::attack_file;
use npb_infer::{Stop, VbLimits, Watch, stream};
use rand::RngExt;
use std::ops::ControlFlow;

const ITEMS: u32 = 24;

/// Users of two kinds: the first likes even items, the second odd ones; each says the contrary one time in ten. Which items an item
/// is like is told by one feature.
fn survey(users: u32, rated: u32) -> (Ratings, Features) {
    let mut entries = Vec::new();
    for user in 0..users {
        let rng = &mut stream(3, [u64::from(user), 0, 0, 0]);
        for k in 0..rated {
            let item = (user + 5 * k) % ITEMS;
            let agrees = (user + item).is_multiple_of(2) == (rng.random::<f64>() < 0.9);
            entries.push(Rating {
                row: user,
                column: item,
                value: f64::from(u8::from(agrees)),
            });
        }
    }
    let feature: Vec<f64> = (0..ITEMS)
        .map(|i| if i % 2 == 0 { 1.0 } else { -1.0 })
        .collect();
    let ratings = Ratings::new(users as usize, ITEMS as usize, &entries).unwrap();
    (
        ratings,
        Features::dense(ITEMS as usize, 1, &feature).unwrap(),
    )
}

fn content(features: &Features) -> Content {
    Content::of_features(features, ContentKernel::Linear).unwrap()
}

fn learned(rank: usize, max_iterations: u64) -> BaseDistribution {
    let limits = VbLimits {
        max_iterations,
        tolerance: 1e-5,
    };
    BaseDistribution::Learned(BaseConfig {
        rank,
        limits,
        ..Default::default()
    })
}

fn with_fit(fit: HbrecConfig) -> RecommenderConfig {
    RecommenderConfig {
        fit,
        ..Default::default()
    }
}

fn quick() -> RecommenderConfig {
    with_fit(HbrecConfig {
        base: learned(3, 20),
        ..Default::default()
    })
}

fn with_filter(filter: Filter, base: BaseDistribution) -> RecommenderConfig {
    RecommenderConfig {
        filter,
        ..with_fit(HbrecConfig {
            base,
            ..quick().fit
        })
    }
}

/// Even items liked, odd ones not.
fn even() -> Likes {
    Likes::new(
        ITEMS as usize,
        &[(0, true), (1, false), (2, true), (3, false)],
    )
    .unwrap()
}

#[test]
fn every_filter_learns_a_new_users_taste() {
    let (ratings, features) = survey(40, 12);
    let content = content(&features);
    for filter in [
        Filter::Hybrid1,
        Filter::Hybrid2,
        Filter::ContentBased,
        Filter::Collaborative,
    ] {
        for base in [quick().fit.base, BaseDistribution::Standard] {
            // Without content the standard base knows of an item only what others said of that very item: there identity is nearly all.
            let identity_alone =
                filter == Filter::Collaborative && base == BaseDistribution::Standard;
            let mut config = with_filter(filter, base);
            if identity_alone {
                config.fit.identity = 0.9;
            }
            let recommender = Recommender::fit(&ratings, Some(&content), &config).unwrap();
            let profile = recommender.profile(&even()).unwrap();
            let probabilities = recommender.probabilities(&profile).unwrap();
            let mean = |odd: usize| {
                let own = (2 + odd..ITEMS as usize).step_by(2);
                own.map(|i| probabilities[i]).sum::<f64>() / 11.0
            };
            let (even, odd) = (mean(0), mean(1));
            let least = if identity_alone { 0.15 } else { 0.25 };
            assert!(even > odd + least, "{filter:?} {base:?}: {even} {odd}");
            let top = recommender.top(&profile, 100).unwrap();
            assert!(top.iter().all(|r| (0.0..=0.5).contains(&r.chance.sd)));
            // The chance of one item and the probabilities of all are two ways to one number.
            assert!(
                top.iter()
                    .all(|r| (r.chance.probability - probabilities[r.item]).abs() < 1e-6)
            );
        }
    }
}

/// Item 0 is rated by all and the last by few: what is rated by many and liked by few is before what few rate and like where the product says so.
#[test]
fn lists_are_by_products_of_chances_where_sums_say_otherwise() {
    let (features, mut entries) = (survey(1, 1).1, Vec::new());
    for user in 0..60 {
        let rng = &mut stream(4, [u64::from(user), 0, 0, 0]);
        let rated = (0..ITEMS).filter(|item| (7 * user + 5 * item) % ITEMS >= *item);
        for item in rated.collect::<Vec<_>>() {
            let liked = rng.random::<f64>() < 0.1 + 0.8 * f64::from(item * 11 % ITEMS) / 24.0;
            entries.push(Rating {
                row: user,
                column: item,
                value: f64::from(u8::from(liked)),
            });
        }
    }
    let ratings = Ratings::new(60, ITEMS as usize, &entries).unwrap();
    let recommender = Recommender::fit(&ratings, Some(&content(&features)), &quick()).unwrap();
    let profile = recommender.profile(&even()).unwrap();
    let lists = || (0..ratings.n_rows()).map(|user| ratings.row(user).0);
    let learned = Exposure::learn(ITEMS as usize, lists()).unwrap();
    let chances = learned.chances(ITEMS as usize, lists(), profile.seen());
    let chances = chances.unwrap();
    let top = recommender.top(&profile, 100).unwrap();
    let of_product = |r: &Recommendation| r.chance.probability * chances[r.item];
    let of_sum = |r: &Recommendation| r.chance.probability + chances[r.item];
    let falls =
        |of: &dyn Fn(&Recommendation) -> f64| top.windows(2).all(|w| of(&w[0]) >= of(&w[1]) - 1e-9);
    assert!(falls(&of_product) && !falls(&of_sum));
}

#[test]
fn what_was_seen_is_left_out_and_lists_are_sorted() {
    let (ratings, features) = survey(40, 12);
    let recommender = Recommender::fit(&ratings, Some(&content(&features)), &quick()).unwrap();
    let profile = recommender.profile(&even()).unwrap();
    let top = recommender.top_liked(&profile, 100).unwrap();
    assert_eq!(top.len(), ITEMS as usize - 4);
    assert!(top.iter().all(|r| r.item > 3));
    assert!(
        top.windows(2)
            .all(|w| w[0].chance.probability >= w[1].chance.probability)
    );
    for r in &top {
        assert_eq!(r.chance, recommender.chance(&profile, r.item).unwrap());
    }
    // By the chance of coming to an item and liking it: the same items in another order, that of the products.
    let lists = || (0..ratings.n_rows()).map(|user| ratings.row(user).0);
    let learned = Exposure::learn(ITEMS as usize, lists()).unwrap();
    let chances = learned.chances(ITEMS as usize, lists(), profile.seen());
    let chances = chances.unwrap();
    let by_both = recommender.top(&profile, 100).unwrap();
    assert_eq!(by_both.len(), top.len());
    let score = |r: &Recommendation| r.chance.probability * chances[r.item];
    assert!(
        by_both
            .windows(2)
            .all(|w| score(&w[0]) >= score(&w[1]) - 1e-9)
    );
    assert!(by_both.iter().any(|r| r.item != top[0].item) && by_both != top);
    // A user of the database has its own items left out, and its own point mass.
    let known = recommender.user_profile(5).unwrap();
    assert_eq!(known.seen(), ratings.row(5).0);
    assert_eq!(
        recommender.top(&known, 100).unwrap().len(),
        ITEMS as usize - 12
    );
    assert!(matches!(
        recommender.user_profile(40),
        Err(HbrecError::NoSuchUser { user: 40, .. })
    ));
}

#[test]
fn ratings_make_a_user_surer() {
    let (ratings, _) = survey(40, 12);
    let recommender = Recommender::fit(&ratings, None, &quick()).unwrap();
    let recommender = recommender.with_tau(f64::INFINITY).unwrap();
    let said = recommender.config().fit.weights.tau;
    assert_eq!(said, DpConcentration::Given(f64::INFINITY));
    let mean_sd = |n: u32| {
        let pairs: Vec<(u32, bool)> = (0..n).map(|i| (i, i % 2 == 0)).collect();
        let profile = recommender
            .profile(&Likes::new(ITEMS as usize, &pairs).unwrap())
            .unwrap();
        assert_eq!(profile.own_weight(), 1.0);
        let sd = |item| recommender.chance(&profile, item).unwrap().sd;
        (20..24).map(sd).sum::<f64>() / 4.0
    };
    let sds = [mean_sd(0), mean_sd(4), mean_sd(20)];
    assert!(
        sds[0] > sds[1] && sds[1] > sds[2] && sds[2] > 0.0,
        "{sds:?}"
    );
}

/// The standard deviation of a chance is that of the probability over draws of the user's taste, not that of the like itself.
#[test]
fn the_spread_of_a_chance_is_that_of_draws() {
    let (ratings, _) = survey(40, 12);
    let recommender = Recommender::fit(&ratings, None, &quick()).unwrap();
    for tau in [f64::INFINITY, 1.0] {
        let bytes = recommender.to_bytes().unwrap();
        let recommender = Recommender::from_bytes(&bytes).unwrap().with_tau(tau);
        let recommender = recommender.unwrap();
        let likes = Likes::new(ITEMS as usize, &[(0, true), (1, false), (2, true)]).unwrap();
        let profile = recommender.profile(&likes).unwrap();
        let user = recommender.fitted().user(&likes).unwrap();
        let rng = &mut stream(5, [0; 4]);
        let draws: Vec<Vec<f64>> = (0..4000)
            .map(|_| recommender.fitted().draw(&user, rng).unwrap())
            .collect();
        for item in [5, 12, 20] {
            let chance = recommender.chance(&profile, item).unwrap();
            let mean = draws.iter().map(|d| d[item]).sum::<f64>() / 4000.0;
            let square = draws.iter().map(|d| d[item] * d[item]).sum::<f64>() / 4000.0;
            let sd = (square - mean * mean).sqrt();
            assert!((chance.probability - mean).abs() < 5.0 * sd / 4000f64.sqrt() + 0.01);
            assert!(
                (chance.sd / sd - 1.0).abs() < 0.1,
                "tau {tau}: {} {sd}",
                chance.sd
            );
        }
    }
}

#[test]
fn reasons_add_up() {
    let (ratings, features) = survey(40, 12);
    for base in [quick().fit.base, BaseDistribution::Standard] {
        let config = with_filter(Filter::Hybrid1, base);
        let recommender = Recommender::fit(&ratings, Some(&content(&features)), &config).unwrap();
        let profile = recommender.profile(&even()).unwrap();
        let reasons = recommender.reasons(&profile, 10, 100).unwrap();
        let content: f64 = reasons.content.iter().map(|c| c.1).sum();
        let parts = reasons.item + reasons.shared_tastes + content + reasons.constant;
        // Scores of the own model: no posterior of the recommender says another utility.
        let alone = recommender.fitted().model();
        let posterior = alone.fit(&even()).unwrap();
        assert!((parts - alone.utility(&posterior, 10).0).abs() < 1e-9);
        // Own model and users share the weight, and their probabilities make the chance.
        let weights = reasons.own.0 + reasons.users.iter().map(|u| u.weight).sum::<f64>();
        assert!((weights - 1.0).abs() < 1e-6, "{weights}");
        let mixed = reasons.own.0 * reasons.own.1
            + reasons
                .users
                .iter()
                .map(|u| u.weight * u.probability)
                .sum::<f64>();
        let chance = recommender.chance(&profile, 10).unwrap();
        assert!((mixed - chance.probability).abs() < 1e-6);
        assert!(reasons.users.windows(2).all(|w| w[0].weight >= w[1].weight));
        for because in &reasons.users {
            assert_eq!(
                because.liked,
                ratings.get(because.user, 10).map(|v| v > 0.0)
            );
        }
    }
}

#[test]
fn explored_lists_vary_and_repeat_with_the_seed() {
    let (ratings, features) = survey(40, 12);
    let recommender = Recommender::fit(&ratings, Some(&content(&features)), &quick()).unwrap();
    let profile = recommender.profile(&Likes::default()).unwrap();
    let list = |seed| -> Vec<usize> {
        recommender
            .explore(&profile, 5, seed)
            .unwrap()
            .iter()
            .map(|r| r.item)
            .collect()
    };
    assert_eq!(list(1), list(1));
    let firsts: std::collections::BTreeSet<bool> =
        (0..30).map(|seed| list(seed)[0] % 2 == 0).collect();
    // Nothing is known of this user: both tastes are tried.
    assert_eq!(firsts.len(), 2);
}

#[test]
fn new_users_and_items_need_no_training() {
    let (ratings, features) = survey(40, 12);
    for base in [quick().fit.base, BaseDistribution::Standard] {
        let config = with_filter(Filter::Hybrid1, base);
        let mut recommender =
            Recommender::fit(&ratings, Some(&content(&features)), &config).unwrap();
        let even_item = recommender.add_item(Some(&[1.0])).unwrap();
        let odd_item = recommender.add_item(Some(&[-1.0])).unwrap();
        let unknown = recommender.add_item(None).unwrap();
        assert_eq!((even_item, recommender.n_items()), (24, 27));
        assert_eq!(recommender.n_raters(unknown), 0);
        let likes = Likes::new(27, &[(0, true), (1, false), (2, true), (3, false)]).unwrap();
        let profile = recommender.profile(&likes).unwrap();
        let p = |item| recommender.chance(&profile, item).unwrap().probability;
        assert!(
            p(even_item) > p(unknown) && p(unknown) > p(odd_item),
            "{base:?}"
        );
        assert!(p(even_item) > p(odd_item) + 0.2, "{base:?}");
        let user = recommender.add_user(likes).unwrap();
        assert_eq!((user, recommender.n_users()), (40, 41));
        assert_eq!(recommender.user_profile(user).unwrap().seen(), [0, 1, 2, 3]);
        assert!(recommender.add_item(Some(&[1.0, 2.0])).is_err());
        assert!(recommender.add_item(Some(&[f64::NAN])).is_err());
    }
}

#[test]
fn bad_input_is_named() {
    let (ratings, features) = survey(20, 12);
    let content = content(&features);
    let fails = |config: RecommenderConfig| {
        Recommender::fit(&ratings, Some(&content), &config)
            .unwrap_err()
            .to_string()
    };
    let weights = WeightsConfig {
        tau: DpConcentration::Given(-1.0),
        ..Default::default()
    };
    for (field, config) in [
        (
            "like_from",
            RecommenderConfig {
                like_from: f64::NAN,
                ..quick()
            },
        ),
        (
            "identity",
            with_fit(HbrecConfig {
                identity: 1.5,
                ..quick().fit
            }),
        ),
        (
            "most_ratings",
            with_fit(HbrecConfig {
                most_ratings: 0,
                ..quick().fit
            }),
        ),
        (
            "tau",
            with_fit(HbrecConfig {
                weights,
                ..quick().fit
            }),
        ),
    ] {
        let message = fails(config);
        assert!(message.contains(field), "{message}");
    }
    let none = Ratings::new(3, 4, &[]).unwrap();
    assert!(matches!(
        Recommender::fit(&none, None, &quick()),
        Err(HbrecError::NoData)
    ));
    let wrong = Content::new(&[Some(vec![1.0]), Some(vec![2.0])], ContentKernel::Linear).unwrap();
    assert!(matches!(
        Recommender::fit(&ratings, Some(&wrong), &quick()),
        Err(HbrecError::Size { .. })
    ));
    let without = with_filter(Filter::ContentBased, quick().fit.base);
    assert!(Recommender::fit(&ratings, None, &without).is_err());
    let recommender = Recommender::fit(&ratings, None, &quick()).unwrap();
    let beyond = Likes::new(30, &[(29, true)]).unwrap();
    assert!(matches!(
        recommender.profile(&beyond),
        Err(HbrecError::NoSuchItem { item: 29, .. })
    ));
    let profile = recommender.profile(&Likes::default()).unwrap();
    assert!(recommender.chance(&profile, 24).is_err());
    assert!(recommender.reasons(&profile, 24, 3).is_err());
    // All likes, and nothing but likes in the database, are ordinary data.
    let all: Vec<Rating> = ratings.iter().map(|e| Rating { value: 1.0, ..e }).collect();
    let all = Ratings::new(20, ITEMS as usize, &all).unwrap();
    let recommender = Recommender::fit(&all, Some(&content), &quick()).unwrap();
    let profile = recommender.profile(&Likes::default()).unwrap();
    let probabilities = recommender.probabilities(&profile).unwrap();
    assert!(
        probabilities.iter().all(|p| (0.8..=1.0).contains(p)),
        "{probabilities:?}"
    );
}

#[test]
fn bits_are_equal_on_any_number_of_threads_and_after_loading() {
    let (ratings, features) = survey(60, 12);
    let content = content(&features);
    let config = with_fit(HbrecConfig {
        most_ratings: 10,
        seed: 7,
        ..quick().fit
    });
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| Recommender::fit(&ratings, Some(&content), &config).unwrap())
    };
    let one = on(1);
    let bytes = one.to_bytes().unwrap();
    for threads in [2, 4] {
        assert_eq!(on(threads).to_bytes().unwrap(), bytes);
    }
    let loaded = Recommender::from_bytes(&bytes).unwrap();
    let both = [&one, &loaded].map(|r| r.probabilities(&r.profile(&even()).unwrap()).unwrap());
    assert_eq!(both[0], both[1]);
}

#[test]
fn hostile_files_are_refused() {
    let (ratings, features) = survey(6, 4);
    let config = with_fit(HbrecConfig {
        base: learned(1, 2),
        ..Default::default()
    });
    let recommender = Recommender::fit(&ratings, Some(&content(&features)), &config).unwrap();
    let exercise = |loaded: &Recommender| {
        if let Ok(profile) = loaded.profile(&Likes::default()) {
            let _ = loaded.top(&profile, 3);
            let _ = loaded.reasons(&profile, 0, 3);
        }
    };
    let bytes = recommender.to_bytes().unwrap();
    attack_file(&bytes, 1000, 1, Recommender::from_bytes, exercise).unwrap();
}

#[test]
fn a_watched_fit_reports_and_stops() {
    let (ratings, features) = survey(40, 12);
    let mut shares = Vec::new();
    let watch = Watch::new(|progress: &npb_infer::watch::Progress<'_>| {
        shares.push(progress.share);
        ControlFlow::Continue(())
    });
    Recommender::fit_watched(&ratings, Some(&content(&features)), &quick(), &watch).unwrap();
    drop(watch);
    assert!(shares.windows(2).all(|w| w[0] <= w[1]));
    assert!((shares.last().unwrap() - 1.0).abs() < 1e-9, "{shares:?}");
    let watch = Watch::new(|_: &npb_infer::watch::Progress<'_>| ControlFlow::Break(()));
    let stopped = Recommender::fit_watched(&ratings, None, &quick(), &watch).unwrap();
    assert_eq!(stopped.fitted().stop(), Stop::Cancelled);
}

/// Items of a like-rate of .8 and users who differ in how much they like at all: three liked and three disliked examples, chosen to be so many, say nothing of
/// that. Counted as if they had come at random they say that this user dislikes more than others.
#[test]
fn chosen_examples_say_nothing_by_their_number() {
    let (mean, loadings) = ([1.2; 8], [1.0; 8]);
    let model = ProbitItems::new(ItemPrior::new(&mean, &loadings, &[0.0; 8], 0.0).unwrap());
    let pairs: Vec<(u32, bool)> = (0..6).map(|item| (item, item % 2 == 0)).collect();
    let likes = Likes::new(8, &pairs).unwrap();
    let (counted, chosen) = (
        model.fit(&likes).unwrap(),
        model.fit_chosen(&likes).unwrap(),
    );
    assert!(counted.mode()[0] < -0.7, "{:?}", counted.mode());
    assert!(chosen.mode()[0].abs() < 1e-6, "{:?}", chosen.mode());
    let base = model.predict_alone(&model.fit(&Likes::default()).unwrap(), &7);
    assert!(model.predict_alone(&counted, &7) < base - 0.15);
    assert!(model.predict_alone(&chosen, &7) > base);
}

/// Given how many of five are liked, the evidences of the ten ways in which two can be sum to one (likes are nearly independent here). Not so when the
/// evidence is not divided by the probability of the number.
#[test]
fn evidence_of_chosen_examples_is_given_their_number() {
    let mean = [1.0, -0.5, 0.3, 0.0, 0.8];
    let loadings = [0.2, -0.1, 0.15, 0.2, -0.2];
    let model = ProbitItems::new(ItemPrior::new(&mean, &loadings, &[0.0; 5], 0.0).unwrap());
    let (mut given_number, mut plain) = (0.0, 0.0);
    for (a, b) in (0..5).flat_map(|b| (0..b).map(move |a| (a, b))) {
        let pairs: Vec<(u32, bool)> = (0..5).map(|i| (i, i == a || i == b)).collect();
        let likes = Likes::new(5, &pairs).unwrap();
        given_number += model.ln_evidence(&model.fit_chosen(&likes).unwrap()).exp();
        plain += model.ln_evidence(&model.fit(&likes).unwrap()).exp();
    }
    assert!((given_number - 1.0).abs() < 0.02, "{given_number}");
    assert!(plain < 0.5, "{plain}");
}

/// Users who like nine items of ten, and users who like three. Four liked and four disliked examples look like one of the second kind; chosen to be so many they
/// may be anybody's.
#[test]
fn a_profile_of_chosen_examples_may_be_anybodys() {
    let rng = &mut stream(8, [0; 4]);
    let like = |entry: Rating| Rating {
        value: f64::from(u8::from(
            rng.random::<f64>() < [0.9, 0.3][entry.row as usize % 2],
        )),
        ..entry
    };
    let rated: Vec<Rating> = survey(40, 12).0.iter().map(like).collect();
    let ratings = Ratings::new(40, ITEMS as usize, &rated).unwrap();
    let recommender = Recommender::fit(&ratings, None, &quick()).unwrap();
    let pairs: Vec<(u32, bool)> = (0..8).map(|item| (item, item % 2 == 0)).collect();
    let likes = Likes::new(ITEMS as usize, &pairs).unwrap();
    let expected = |profile| {
        let p = recommender.probabilities(&profile).unwrap();
        p[8..].iter().sum::<f64>() / (p.len() - 8) as f64
    };
    let counted = expected(recommender.profile(&likes).unwrap());
    let chosen = expected(recommender.profile_of_chosen(&likes).unwrap());
    assert!(counted < 0.5 && chosen > 0.52, "{counted} {chosen}");
}
