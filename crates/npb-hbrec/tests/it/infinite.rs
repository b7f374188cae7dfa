//! The infinite model as a whole.

use npb_hbrec::npb_infer::{Stop, SweepPlan, stream};
use npb_hbrec::{BernoulliItems, DpGibbsConfig, DpMove, Likes, UserModel, fit_gibbs};
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

/// Log-odds of a user's own kind against the other two and against being alone, with tau = 5, given the kinds of all other users.
fn odds(model: &BernoulliItems, users: &[Likes], user: usize) -> f64 {
    let ln_p = |of: &[usize]| {
        let of: Vec<(&Likes, f64)> = of.iter().map(|&u| (&users[u], 1.0)).collect();
        model.ln_evidence(&model.fit_weighted(&of).unwrap())
    };
    let joined = |kind: usize| {
        let mut of: Vec<usize> = (0..users.len()).filter(|u| u % 3 == kind).collect();
        of.retain(|&u| u != user);
        let (n, rest) = (of.len() as f64, ln_p(&of));
        of.push(user);
        n.ln() + ln_p(&of) - rest
    };
    let others = (0..3).filter(|kind| *kind != user % 3).map(joined);
    let alone = 5.0_f64.ln() + ln_p(&[user]);
    joined(user % 3) - others.fold(alone, f64::max)
}

#[test]
fn clusters_are_found_and_chains_agree() {
    let (model, users) = (
        BernoulliItems::new(vec![[0.5, 0.5]; 30]).unwrap(),
        users(30),
    );
    let data: Vec<&Likes> = users.iter().collect();
    let config = DpGibbsConfig {
        moves: vec![DpMove::Collapsed, DpMove::Concentration],
        sweeps: SweepPlan {
            burn_in: 100,
            keep: 200,
            thin: 1,
        },
        stored_draws: 50,
        seed: 3,
        ..DpGibbsConfig::default()
    };
    let fit = fit_gibbs(&model, &data, &config).unwrap();
    assert_eq!((fit.stop(), fit.draws().len()), (Stop::Completed, 100));
    // Chance makes some users look more like another kind, or like nobody. Which ones follows from their evidence given the kinds of all others; every pair of
    // the rest must be right.
    let clusters = fit.clusters();
    let plain: Vec<usize> = (0..30).filter(|&u| odds(&model, &users, u) > 3.0).collect();
    assert!(plain.len() >= 22, "{plain:?}");
    for &a in &plain {
        for &b in &plain {
            let kinds = a % 3 == b % 3;
            assert_eq!(fit.together(a, b).unwrap() > 0.5, kinds, "{a} {b}");
            let labels = &clusters.labels;
            assert_eq!(labels[a] == labels[b], kinds, "{a} {b}: {labels:?}");
        }
    }
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
    // Averages over items of a kind, beside what the ten users of the second kind said of them: three likes leave little doubt which kind it is.
    let mean_of = |kind: usize| {
        let items = (5..30).filter(|item| item % 3 == kind);
        let said = |item: usize| {
            let users = users.iter().skip(1).step_by(3);
            let liked = users.filter(|user| user.liked()[item]).count();
            (liked as f64 + 0.5) / 11.0
        };
        let n = items.clone().count() as f64;
        let predicted = items.clone().map(&mean).sum::<f64>() / n;
        (predicted, items.map(said).sum::<f64>() / n)
    };
    for kind in 0..3 {
        let (predicted, said) = mean_of(kind);
        assert!(
            (predicted - said).abs() < 0.08,
            "{kind}: {predicted} {said}"
        );
    }
}
