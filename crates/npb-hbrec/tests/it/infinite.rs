//! The infinite model as a whole.

use npb_hbrec::npb_infer::{Stop, SweepPlan, stream};
use npb_hbrec::{BernoulliItems, GibbsConfig, GibbsMove, Likes, fit_gibbs};
use rand::RngExt;

/// Three kinds of users over 30 items.
fn users(n: usize) -> Vec<Likes> {
    let mut rng = stream(1, [0; 4]);
    let user = |u: usize| {
        let like = |item: usize| rng.random::<f64>() < if item % 3 == u % 3 { 0.9 } else { 0.2 };
        let pairs: Vec<(u32, bool)> = (0..30)
            .map(like)
            .enumerate()
            .map(|(i, l)| (i as u32, l))
            .collect();
        Likes::new(30, &pairs).unwrap()
    };
    (0..n).map(user).collect()
}

#[test]
fn clusters_are_found_and_chains_agree() {
    let (model, users) = (
        BernoulliItems::new(vec![[0.5, 0.5]; 30]).unwrap(),
        users(30),
    );
    let data: Vec<&Likes> = users.iter().collect();
    let config = GibbsConfig {
        schedule: vec![GibbsMove::Collapsed, GibbsMove::Concentration],
        sweeps: SweepPlan {
            burn_in: 100,
            keep: 200,
            thin: 1,
        },
        stored_draws: 50,
        seed: 3,
        ..GibbsConfig::default()
    };
    let fit = fit_gibbs(&model, &data, &config).unwrap();
    assert_eq!((fit.stop(), fit.draws().len()), (Stop::Completed, 100));
    let clusters = fit.clusters();
    // A user with odd ratings may stand alone: nearly all pairs are right.
    let pairs = (0..30).flat_map(|a| (0..30).map(move |b| (a, b)));
    let right =
        pairs.filter(|&(a, b)| (clusters.labels[a] == clusters.labels[b]) == (a % 3 == b % 3));
    assert!(right.count() > 810, "{:?}", clusters.labels);
    assert!(fit.together(0, 30).is_err());
    for (name, diagnostics) in fit.diagnostics() {
        assert!(
            diagnostics.rhat.is_none_or(|r| r < 1.1),
            "{name}: {diagnostics:?}"
        );
    }
    // A new user of the second kind, by three of its likes.
    let new = Likes::new(30, &[(1, true), (4, true), (0, false)]).unwrap();
    let mixtures = fit.mixtures(&model).unwrap();
    let mean = |item: usize| {
        let each = mixtures
            .iter()
            .map(|m| m.predict(&m.user(&new).unwrap(), &item));
        each.sum::<f64>() / mixtures.len() as f64
    };
    // Ten users of a kind say little of one item: items are averaged. With rates .9 and .2, ten users each and the uniform prior .82 and .27 are expected.
    let mean_of = |kind: usize| {
        let items = (5..30).filter(|item| item % 3 == kind);
        items.clone().map(&mean).sum::<f64>() / items.count() as f64
    };
    let (own, others) = (mean_of(1), [mean_of(0), mean_of(2)]);
    assert!(
        own > 0.75 && others.iter().all(|p| *p < 0.35),
        "{own} {others:?}"
    );
}
