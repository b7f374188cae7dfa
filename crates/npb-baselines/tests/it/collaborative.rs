//! Collaborative filtering by hand, and what is refused.

use npb_baselines::{
    ImplicitAls, ImplicitAlsConfig, ItemKnn, ItemKnnConfig, ItemRates, Pearson, PearsonForm,
};
use npb_data::{Rating, Ratings};

/// Three users, four items.
fn database() -> Ratings {
    let rows: [&[(u32, f64)]; 3] = [
        &[(0, 5.0), (1, 1.0), (2, 4.0)],
        &[(0, 2.0), (1, 4.0), (3, 3.0)],
        &[(2, 1.0), (3, 5.0)],
    ];
    let entries = (0..).zip(rows).flat_map(|(row, own)| {
        own.iter()
            .map(move |&(column, value)| Rating { row, column, value })
    });
    Ratings::new(3, 4, &entries.collect::<Vec<_>>()).unwrap()
}

#[test]
fn pearson_is_as_printed() {
    let database = database();
    let given = [(0, 4.0), (1, 2.0)];
    // Means: 3 of the new user; 10/3, 3 and 3. Common items 0 and 1. Products with user 0: 1 * 5/3 + -1 * -7/3 = 4;
    // squares 2 and 74/9. With user 1: 1 * -1 + -1 * 1 = -2; squares 2 and 2. User 2 has no common item.
    let first = 4.0 / (2.0_f64 * 74.0 / 9.0).sqrt();
    let (second, mean) = (-1.0, 10.0 / 3.0);
    let scores = Pearson::new(&database, PearsonForm::Breese)
        .unwrap()
        .scores(&given)
        .unwrap();
    let expected = 3.0 + first * (4.0 - mean) / (first + 1.0);
    assert!((scores[2] - expected).abs() < 1e-12);
    assert!((scores[3] - (3.0 + second * 0.0)).abs() < 1e-12);
    // Normalised: only user 0 rated item 2, so that its weight cancels.
    let form = PearsonForm::Normalised { significance: 10.0 };
    let scores = Pearson::new(&database, form)
        .unwrap()
        .scores(&given)
        .unwrap();
    assert!((scores[2] - (3.0 + 4.0 - mean)).abs() < 1e-12);
    // Item 0 was rated by both: weights are shrunk alike.
    let both = (first * (5.0 - mean) + second * (2.0 - 3.0)) / (first + 1.0);
    assert!((scores[0] - (3.0 + both)).abs() < 1e-12);
}

#[test]
fn similarities_are_cosines() {
    let like = |e: Rating| Rating {
        value: if e.value >= 4.0 { 1.0 } else { -1.0 },
        ..e
    };
    let likes: Vec<Rating> = database().iter().map(like).collect();
    let likes = Ratings::new(3, 4, &likes).unwrap();
    // Columns: 0 = (1, -1, 0), 1 = (-1, 1, 0), 2 = (1, 0, -1), 3 = (0, -1, 1).
    let scores = |shrinkage, neighbours, given: &[(u32, f64)]| {
        let config = ItemKnnConfig {
            shrinkage,
            neighbours,
        };
        ItemKnn::fit(&likes, &config)
            .unwrap()
            .scores(given)
            .unwrap()
    };
    let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
    let plain = scores(0.0, None, &[(0, 1.0), (3, -1.0)]);
    assert!(near(plain[1], -1.0 + 0.5) && near(plain[2], 0.5 + 0.5));
    // sqrt 2 sqrt 2 + 2 = 4.
    let shrunk = scores(2.0, None, &[(0, 1.0)]);
    assert!(near(shrunk[1], -0.5) && near(shrunk[2], 0.25));
    let one = scores(0.0, Some(1), &[(0, 1.0), (3, -1.0)]);
    assert!(near(one[1], -1.0));
    let rates = ItemRates::fit(&likes, 1.0).unwrap();
    // Four of eight are likes.
    assert_eq!(rates.popularity(), [2.0; 4]);
    assert_eq!(rates.like_rates(), [0.5; 4]);
}

#[test]
fn new_users_with_impossible_examples_are_refused() {
    let database = database();
    let als = ImplicitAlsConfig {
        rank: 1,
        rounds: 2,
        ..Default::default()
    };
    let (pearson, knn, als) = (
        Pearson::new(&database, PearsonForm::Breese).unwrap(),
        ItemKnn::fit(&database, &ItemKnnConfig::default()).unwrap(),
        ImplicitAls::fit(&database, &als).unwrap(),
    );
    for given in [&[(4, 1.0)][..], &[(0, f64::NAN)], &[(1, 1.0), (1, 1.0)]] {
        assert!(pearson.scores(given).is_err());
        assert!(knn.scores(given).is_err());
        assert!(als.scores(given).is_err());
    }
    // Nothing given: the mean of all, no similarity, no factors.
    assert!(
        pearson
            .scores(&[])
            .unwrap()
            .iter()
            .all(|&s| s == 25.0 / 8.0)
    );
    assert!(
        knn.scores(&[])
            .unwrap()
            .iter()
            .chain(&als.scores(&[]).unwrap())
            .all(|&s| s == 0.0)
    );
    let none = Ratings::new(1, 1, &[]).unwrap();
    assert!(Pearson::new(&none, PearsonForm::Breese).is_err());
    let form = PearsonForm::Normalised { significance: 0.0 };
    assert!(Pearson::new(&database, form).is_err());
}
