//! Bad input: the right behaviour, or an error that names what is wrong.

use npb_hbrec::npb_data::{Rating, Ratings};
use npb_hbrec::{
    BaseConfig, BernoulliItems, Content, ContentKernel, DpConcentration, DpGibbsConfig, DpMove,
    DpSampler, GaussianPrior, HbrecConfig, ItemPrior, LikeMatrix, LikelihoodTable, Likes,
    LinearTask, ProbitTask, Recommender, RecommenderConfig, Task, WeightsConfig, fit,
};

use crate::simulated::{Population, content};

fn message<T, E: std::fmt::Display>(outcome: Result<T, E>) -> String {
    outcome
        .err()
        .map_or_else(|| "accepted".to_owned(), |error| error.to_string())
}

fn config() -> HbrecConfig {
    HbrecConfig::default()
}

#[test]
fn a_user_without_ratings_has_the_weights_of_the_prior() {
    let likes = Population::new(12, 2, 0.8, 1).database(40, 6, 1);
    let fitted = fit(&likes, None, &config()).unwrap();
    let nobody = fitted.user(&Likes::default()).unwrap();
    let (tau, xi) = (fitted.weights().tau, &fitted.weights().xi);
    let total: f64 = tau + xi.iter().sum::<f64>();
    assert!((nobody.own_weight - tau / total).abs() < 1e-12);
    assert!(
        nobody
            .weights
            .iter()
            .zip(xi)
            .all(|(w, xi)| (w - xi / total).abs() < 1e-12)
    );
    // The rest is the base distribution: no coefficient is known.
    assert!(nobody.alone.mode().iter().all(|&w| w == 0.0));
    assert!(
        fitted
            .predict_all(&nobody)
            .unwrap()
            .iter()
            .all(|p| (0.0..=1.0).contains(p))
    );
}

#[test]
fn all_likes_and_empty_users_are_ordinary() {
    let mut users = Population::new(12, 2, 0.8, 1)
        .database(30, 6, 1)
        .users()
        .to_vec();
    users.push(Likes::default());
    users.push(Likes::new(12, &(0..12).map(|i| (i, true)).collect::<Vec<_>>()).unwrap());
    let likes = LikeMatrix::from_users(12, users.clone()).unwrap();
    for config in [config(), HbrecConfig::printed()] {
        let fitted = fit(&likes, Some(&content(12, 1)), &config).unwrap();
        let fan = fitted.user(&users[31]).unwrap();
        let p = fitted.predict_all(&fan).unwrap();
        assert!(p.iter().all(|p| *p > 0.1 && *p <= 1.0), "{p:?}");
    }
    // Everybody likes everything.
    let all = LikeMatrix::from_users(12, vec![users[31].clone(); 5]).unwrap();
    let fitted = fit(&all, None, &config()).unwrap();
    let p = fitted
        .predict_all(&fitted.user(&users[31]).unwrap())
        .unwrap();
    assert!(p.iter().all(|p| *p > 0.5 && p.is_finite()));
    let nobody = LikeMatrix::from_users(12, vec![Likes::default(); 3]).unwrap();
    for config in [config(), HbrecConfig::printed()] {
        assert!(message(fit(&nobody, None, &config)).contains("no user has any data"));
    }
}

#[test]
fn a_threshold_that_parts_nothing_is_named() {
    let stars: Vec<Rating> = (0..20)
        .map(|k| Rating {
            row: k / 4,
            column: k % 4,
            value: f64::from(1 + k % 5),
        })
        .collect();
    let stars = Ratings::new(5, 4, &stars).unwrap();
    let said = message(LikeMatrix::new(&stars, f64::NAN));
    assert!(said.contains("like_from = NaN"), "{said}");
    let said = message(Recommender::fit(
        &stars,
        None,
        &RecommenderConfig::default(),
    ));
    assert!(
        said.starts_with("every one of 20 ratings is a like"),
        "{said}"
    );
    let high = RecommenderConfig {
        like_from: 6.0,
        ..RecommenderConfig::default()
    };
    let said = message(Recommender::fit(&stars, None, &high));
    assert!(said.starts_with("none of 20"), "{said}");
}

#[test]
fn unknown_items_and_duplicates_are_named() {
    assert_eq!(
        message(Likes::new(3, &[(5, true)])),
        "there is no item 5: there are 3 (give a new item by its features)"
    );
    assert!(message(Likes::new(3, &[(1, true), (1, false)])).starts_with("item 1 is given twice"));
    let twice = [4.0, 5.0].map(|value| Rating {
        row: 0,
        column: 1,
        value,
    });
    assert!(Ratings::new(1, 2, &twice).is_err());
    let likes = Population::new(5, 1, 0.8, 1).database(10, 4, 1);
    let mut fitted = fit(&likes, Some(&content(5, 1)), &config()).unwrap();
    let far = Likes::new(9, &[(8, true)]).unwrap();
    assert!(message(fitted.user(&far)).contains("there is no item 8"));
    assert!(message(fitted.add_user(&far)).contains("there is no item 8"));
    let user = fitted.user(likes.user(0)).unwrap();
    assert!(message(fitted.predict(&user, 5)).contains("there is no item 5"));
    assert!(message(fitted.database_user(likes.user(0), 10)).contains("there is no user 10"));
    // An item without features can be added, and predicted.
    assert_eq!(fitted.add_item(None).unwrap(), 5);
    let user = fitted.user(likes.user(0)).unwrap();
    let p = fitted.predict(&user, 5).unwrap();
    assert!((0.0..=1.0).contains(&p));
    assert!(message(fitted.add_item(Some(&[f64::NAN, 1.0]))).contains("column 0: NaN"));
    assert!(message(fitted.add_item(Some(&[1.0]))).contains("there are 1, there must be 2"));
}

#[test]
fn features_are_checked() {
    let nan = [Some(vec![1.0, f64::NAN]), None];
    let error = message(Content::new(&nan, ContentKernel::Linear));
    assert!(
        error.starts_with("features of items, row 0, column 1: NaN must be finite"),
        "{error}"
    );
    let ragged = [Some(vec![1.0]), Some(vec![1.0, 2.0])];
    assert!(message(Content::new(&ragged, ContentKernel::Linear)).contains("there must be 1"));
    assert!(
        message(Content::new(&[None, None], ContentKernel::Linear)).contains("no item has any")
    );
    let rbf = ContentKernel::Rbf { length: f64::NAN };
    assert!(message(Content::new(&[Some(vec![1.0])], rbf)).contains("length"));
    // Features without spread are no reason to fail.
    let constant = Content::new(&vec![Some(vec![2.0, 2.0]); 5], ContentKernel::Linear).unwrap();
    let likes = Population::new(5, 1, 0.8, 1).database(10, 4, 1);
    fit(&likes, Some(&constant), &config()).unwrap();
    let constant = Content::new(
        &vec![Some(vec![2.0]); 5],
        ContentKernel::Rbf { length: 1.0 },
    )
    .unwrap();
    assert_eq!(constant.width(), 1);
    assert!(message(fit(&likes, Some(&content(6, 1)), &config())).contains("items with content"));
}

#[test]
fn configurations_name_the_field() {
    let likes = Population::new(5, 1, 0.8, 1).database(10, 4, 1);
    let refused = |config: HbrecConfig| message(fit(&likes, None, &config));
    let identity = HbrecConfig {
        identity: f64::NAN,
        ..config()
    };
    assert!(refused(identity).contains("identity"));
    let tau = WeightsConfig {
        tau: DpConcentration::Given(-1.0),
        ..WeightsConfig::default()
    };
    assert!(
        refused(HbrecConfig {
            weights: tau,
            ..config()
        })
        .contains("weights.tau")
    );
    let rank = npb_hbrec::BaseDistribution::Learned(BaseConfig {
        rank: 1000,
        ..BaseConfig::default()
    });
    assert!(
        refused(HbrecConfig {
            base: rank,
            ..config()
        })
        .contains("base.rank")
    );
    assert!(
        refused(HbrecConfig {
            most_ratings: 0,
            ..config()
        })
        .contains("most_ratings")
    );

    let probit = ProbitTask::new(GaussianPrior::isotropic(1, 1.0).unwrap());
    let task = Task::new(1, &[1.0], &[true]).unwrap();
    let escobar = DpGibbsConfig {
        moves: vec![DpMove::Escobar],
        ..DpGibbsConfig::default()
    };
    assert!(message(DpSampler::new(&probit, &[&task], &escobar, 0)).contains("conjugate"));
    assert!(
        message(DpSampler::new(&probit, &[], &DpGibbsConfig::default(), 0)).contains("no user")
    );
    let nothing = DpGibbsConfig {
        moves: Vec::new(),
        ..DpGibbsConfig::default()
    };
    assert!(message(DpSampler::new(&probit, &[&task], &nothing, 0)).contains("moves"));
    let wide = Task::new(2, &[1.0, 2.0], &[true]).unwrap();
    let error = message(DpSampler::new(&probit, &[&wide], &escobar, 0));
    assert!(error.contains("features of a task"), "{error}");
}

#[test]
fn numbers_are_checked_where_they_enter() {
    assert!(message(Task::new(2, &[1.0], &[0.5])).contains("features of a task"));
    assert!(message(Task::new(1, &[f64::INFINITY], &[0.5])).contains("row 0, column 0: inf"));
    assert!(message(Task::new(1, &[1.0, 2.0], &[0.5, f64::NAN])).contains("row 1"));
    assert!(message(BernoulliItems::new(vec![[1.0, 0.0]])).contains("row 0, column 1: 0 must be"));
    let prior = GaussianPrior::isotropic(1, 1.0).unwrap();
    assert!(message(LinearTask::new(prior, f64::NAN)).contains("noise_variance"));
    assert!(GaussianPrior::isotropic(2, -1.0).is_err());
    assert!(message(ItemPrior::new(&[0.0], &[f64::NAN], &[0.0], 0.0)).contains("column 2: NaN"));
    assert!(message(ItemPrior::new(&[0.0], &[], &[-1.0], 0.0)).contains("column 1: -1"));
    assert!(message(ItemPrior::new(&[0.0], &[], &[0.0], 2.0)).contains("identity"));
    let nan = LikelihoodTable::new(1, &[vec![f64::NAN]], &[None]);
    assert!(message(nan).contains("row 0, column 0: NaN"));
}
