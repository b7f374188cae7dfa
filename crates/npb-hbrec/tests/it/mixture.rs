//! Weights of point masses, and prediction with them.

use npb_hbrec::npb_infer::{Stop, stream};
use npb_hbrec::{
    AtomRule, BernoulliItems, DpConcentration, HbrecConfig, ItemPrior, LikeMatrix, LikelihoodTable,
    Likes, Mixture, ProbitItems, UserModel, Weights, WeightsConfig, WeightsEm, fit, infer_tau,
    learn_weights,
};
use rand::RngExt;

use crate::simulated::Population;

fn random_table(n: usize, spread: f64, seed: u64) -> LikelihoodTable {
    let mut rng = stream(seed, [0; 4]);
    let row = |_| (0..n).map(|_| -spread * rng.random::<f64>()).collect();
    let rows: Vec<Vec<f64>> = (0..n).map(row).collect();
    let own: Vec<Option<usize>> = (0..n).map(|j| (j % 2 == 0).then_some(j)).collect();
    LikelihoodTable::new(n, &rows, &own).unwrap()
}

/// Underflow included: likelihoods that differ by thousands of nats.
#[test]
fn j_never_falls() {
    for seed in 0..30 {
        let table = random_table(
            2 + seed as usize,
            [0.1, 5.0, 5000.0][seed as usize % 3],
            seed,
        );
        let mut em = WeightsEm::new(&table);
        let mut last = em.objective();
        for _ in 0..300 {
            let now = em.step();
            assert!(
                now >= last - 1e-12 * last.abs().max(1.0),
                "seed {seed}: {last} to {now}"
            );
            assert!((em.weights().iter().sum::<f64>() - 1.0).abs() < 1e-9);
            last = now;
        }
    }
}

/// Atoms that are gone are left out on the way: the rest ends where plain EM does, whose steps are written out here.
#[test]
fn atoms_that_are_gone_are_not_missed() {
    let n = 60;
    let mut rng = stream(8, [0; 4]);
    let row = |_| {
        (0..n)
            .map(|k| -6.0 * rng.random::<f64>() - f64::from(k / 6))
            .collect()
    };
    let rows: Vec<Vec<f64>> = (0..n).map(row).collect();
    let table = LikelihoodTable::new(n as usize, &rows, &vec![None; n as usize]).unwrap();
    let mut em = WeightsEm::new(&table);
    let mut plain = vec![1.0 / f64::from(n); n as usize];
    for _ in 0..200 {
        em.step();
        let mut sums = vec![0.0; n as usize];
        for row in &rows {
            let joint: Vec<f64> = row.iter().zip(&plain).map(|(l, w)| l.exp() * w).collect();
            let total: f64 = joint.iter().sum();
            sums.iter_mut()
                .zip(&joint)
                .for_each(|(s, j)| *s += j / total / f64::from(n));
        }
        plain = sums;
    }
    let gone = em.weights().iter().filter(|w| **w == 0.0).count();
    assert!(gone >= 30, "{gone} of {n} atoms are gone");
    for (found, wanted) in em.weights().iter().zip(&plain) {
        assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
    }
}

/// Two atoms explain everybody; the other is pruned.
#[test]
fn solution_is_sparse() {
    let rows = vec![
        vec![0.0, -9.0, -1.0],
        vec![-9.0, 0.0, -1.0],
        vec![0.0, -9.0, -1.0],
    ];
    let table = LikelihoodTable::new(3, &rows, &[None; 3]).unwrap();
    let weights = learn_weights(&table, &[-1.0; 3], &WeightsConfig::default()).unwrap();
    assert_eq!(weights.n_active(), 2);
    assert!((weights.xi[0] - 2.0).abs() < 0.01 && weights.xi[2] == 0.0);
    assert!((weights.xi.iter().sum::<f64>() - 3.0).abs() < 1e-9);
}

/// tau is at the maximum of what it is said to maximise, for weights that were fitted to some of the users and for weights that were not.
#[test]
fn tau_is_at_its_maximum() {
    let table = random_table(12, 4.0, 3);
    // Every other user is better off alone: the maximum is inside.
    let evidence: Vec<f64> = [-0.7, -2.5].repeat(6);
    for fitted_to in [vec![], vec![0, 4, 8]] {
        let weights = Weights {
            xi: (0..12).map(|k| 0.5 + 0.1 * k as f64).collect(),
            tau: 1.0,
            fitted_to,
            trace: Vec::new(),
            stop: Stop::Completed,
        };
        let tau = infer_tau(&table, &weights, &evidence).unwrap();
        let objective = |tau: f64| -> f64 {
            let user = |j: usize| {
                let own = |k: &usize| !(j.is_multiple_of(2) && *k == j);
                let p = |k: usize| table.ln_likelihood(j, k).exp();
                let others: Vec<usize> = (0..12).filter(own).collect();
                let total: f64 = others.iter().map(|&k| weights.xi[k] * p(k)).sum();
                let contributed = f64::from(weights.fitted_to.contains(&(j as u32)));
                let left = |k: usize| weights.xi[k] * (1.0 - contributed * p(k) / total);
                let sum: f64 = others.iter().map(|&k| left(k) * p(k)).sum();
                let mass: f64 = others.iter().map(|&k| left(k)).sum();
                ((tau * evidence[j].exp() + sum) / (tau + mass)).ln()
            };
            (0..12).map(user).sum()
        };
        for factor in [0.5, 0.95, 1.05, 2.0] {
            assert!(objective(tau) >= objective(tau * factor), "{tau}, {factor}");
        }
        assert!(infer_tau(&table, &weights, &evidence[1..]).is_err());
    }
}

fn clustered(user: usize, n: usize, seed: u64) -> Likes {
    let mut rng = stream(seed, [9, user as u64, 0, 0]);
    let rate = |item: usize| {
        if (item + user).is_multiple_of(2) {
            0.85
        } else {
            0.15
        }
    };
    let items = rand::seq::index::sample(&mut rng, 40, n);
    let pairs: Vec<(u32, bool)> = items
        .iter()
        .map(|item| (item as u32, rng.random::<f64>() < rate(item)))
        .collect();
    Likes::new(40, &pairs).unwrap()
}

/// A new user of its own kind, tau > 0: the weight of the own model goes to 1 as its data grow. Of the database's kind, atoms serve.
#[test]
fn the_own_model_wins_in_the_end() {
    let model = BernoulliItems::new(vec![[0.1, 0.1]; 40]).unwrap();
    let users: Vec<Likes> = (0..30).map(|u| clustered(u, 30, 1)).collect();
    let data: Vec<&Likes> = users.iter().collect();
    let config = WeightsConfig {
        tau: DpConcentration::Given(1.0),
        ..WeightsConfig::default()
    };
    let mixture = Mixture::learn(model, &data, &config).unwrap();
    // This one likes the first half.
    let stranger = |n: usize| {
        Likes::new(
            40,
            &(0..n as u32)
                .map(|i| (7 * i % 40, 7 * i % 40 < 20))
                .collect::<Vec<_>>(),
        )
        .unwrap()
    };
    let own: Vec<f64> = [0, 10, 20, 40]
        .iter()
        .map(|&n| mixture.user(&stranger(n)).unwrap().own_weight)
        .collect();
    assert!(own[0] < 0.1 && own[2] > own[1] && own[3] > 0.99, "{own:?}");
    let alone = mixture.model().fit(&stranger(40)).unwrap();
    let user = mixture.user(&stranger(40)).unwrap();
    let far = (mixture.predict(&user, &3) - mixture.model().predict_alone(&alone, &3)).abs();
    assert!(far < 0.01);
    let usual = mixture.user(&clustered(100, 10, 2)).unwrap();
    assert!(usual.own_weight < 0.3, "{}", usual.own_weight);
}

#[test]
fn extremes_of_tau() {
    let model = BernoulliItems::new(vec![[1.0, 1.0]; 40]).unwrap();
    let users: Vec<Likes> = (0..10).map(|u| clustered(u, 20, 1)).collect();
    let data: Vec<&Likes> = users.iter().collect();
    let with = |tau| {
        let config = WeightsConfig {
            tau: DpConcentration::Given(tau),
            ..WeightsConfig::default()
        };
        Mixture::learn(model.clone(), &data, &config)
            .unwrap()
            .user(&users[0])
            .unwrap()
    };
    assert_eq!(with(0.0).own_weight, 0.0);
    assert_eq!(with(f64::INFINITY).own_weight, 1.0);
    for user in [with(0.0), with(2.0)] {
        let total = user.own_weight + user.weights.iter().sum::<f64>();
        assert!((total - 1.0).abs() < 1e-12);
    }
}

/// A user of the database is not its own witness: without its own atom and responsibilities it is predicted as a newcomer of the same data.
#[test]
fn own_atom_and_responsibilities_are_left_out() {
    let model = BernoulliItems::new(vec![[1.0, 1.0]; 40]).unwrap();
    let users: Vec<Likes> = (0..12).map(|u| clustered(u, 20, 1)).collect();
    let data: Vec<&Likes> = users.iter().collect();
    for fitted in [true, false] {
        let config = WeightsConfig {
            fitted,
            tau: DpConcentration::Given(1.0),
            ..WeightsConfig::default()
        };
        let mixture = Mixture::learn(model.clone(), &data, &config).unwrap();
        let known = mixture.database_user(&users[4], 4).unwrap();
        assert_eq!(known.weights[4], 0.0);
        let twice = mixture.user(&users[4]).unwrap();
        if !fitted {
            assert!(twice.weights[4] > 0.0 && known.own_weight > twice.own_weight);
        }
        // The weights of all others, without what this user gave to them when they were fitted; by the definition.
        let xi = &mixture.weights().xi;
        let density = |k: usize| model.ln_likelihood(&mixture.atoms()[k], &users[4]).exp();
        let mass = |xi: &[f64]| -> Vec<f64> {
            let of = |k: usize| if k == 4 { 0.0 } else { xi[k] * density(k) };
            (0..12).map(of).collect()
        };
        let given = mass(xi);
        let all: f64 = given.iter().sum();
        let share = |k: usize| if fitted { given[k] / all } else { 0.0 };
        let left: Vec<f64> = (0..12).map(|k| (xi[k] - share(k)).max(0.0)).collect();
        let others: f64 = mass(&left).iter().sum();
        let alone = model.ln_evidence(&model.fit(&users[4]).unwrap()).exp();
        let own = alone / (alone + others);
        assert!(
            (known.own_weight - own).abs() < 1e-9,
            "{fitted}: {} {own}",
            known.own_weight
        );
    }
}

/// Adding a user changes nothing but the atoms; fits for items agree with mixtures made by hand.
#[test]
fn adding_a_user_is_one_fit() {
    let population = Population::new(20, 2, 0.8, 1);
    let likes = population.database(40, 10, 1);
    let mut fitted = fit(&likes, None, &HbrecConfig::default()).unwrap();
    let before = fitted.weights().clone();
    let new = population.likes(&population.user(1, 99), 12, 1, 99);
    let newcomer = fitted.user(&new).unwrap();
    assert_eq!(fitted.add_user(&new).unwrap(), 40);
    // The weights were fitted without it: only its own atom is left out.
    let known = fitted.database_user(&new, 40).unwrap();
    assert!((known.own_weight - newcomer.own_weight).abs() < 1e-9);
    assert!(
        (fitted.predict_all(&known).unwrap()[3] - fitted.predict_all(&newcomer).unwrap()[3]).abs()
            < 1e-6
    );
    assert_eq!(fitted.weights().xi[..40], before.xi[..]);
    assert_eq!(
        (fitted.weights().xi[40], fitted.weights().tau),
        (1.0, before.tau)
    );
    let mixture = Mixture::from_parts(
        fitted.model().clone(),
        fitted.atoms().to_vec(),
        fitted.weights().clone(),
        WeightsConfig::default(),
    )
    .unwrap();
    let (a, b) = (fitted.user(&new).unwrap(), mixture.user(&new).unwrap());
    assert!((a.own_weight - b.own_weight).abs() < 1e-4);
    let all = fitted.predict_all(&a).unwrap();
    for (item, p) in all.iter().enumerate() {
        assert!((p - mixture.predict(&b, &item)).abs() < 1e-4);
        assert!((p - fitted.predict(&a, item).unwrap()).abs() < 1e-5);
    }
    // Draws average to the prediction.
    let mut rng = stream(5, [0; 4]);
    let draws: Vec<Vec<f64>> = (0..4000)
        .map(|_| fitted.draw(&a, &mut rng).unwrap())
        .collect();
    let unrated = (0..20)
        .find(|&i| !new.items().contains(&(i as u32)))
        .unwrap();
    let mean = draws.iter().map(|d| d[unrated]).sum::<f64>() / 4000.0;
    assert!(
        (mean - all[unrated]).abs() < 0.02,
        "{mean} {}",
        all[unrated]
    );
}

/// Atoms at means know how little they know; atoms at modes do not.
#[test]
fn atoms_at_means_are_nearer_to_one_half() {
    let population = Population::new(20, 2, 0.8, 1);
    let likes = population.database(40, 4, 1);
    let fitted = fit(&likes, None, &HbrecConfig::default()).unwrap();
    let (model, data) = (fitted.model(), likes.user(3));
    let posterior = model.fit(data).unwrap();
    let (map, mean) = (
        model.atom(&posterior, AtomRule::Map),
        model.atom(&posterior, AtomRule::Mean),
    );
    let unrated = (0..20).filter(|&i| !data.items().contains(&(i as u32)));
    for item in unrated {
        let (a, b) = (model.predict(&map, &item), model.predict(&mean, &item));
        assert!((a - 0.5).abs() >= (b - 0.5).abs());
        assert!((b - model.predict_alone(&posterior, &item)).abs() < 1e-5);
    }
}

/// Two loadings that the ratings tie to each other: an atom that stands for the mean has the variance of the whole quadratic form.
#[test]
fn atoms_know_how_coefficients_go_together() {
    let loadings = [1.0, 1.0, 1.2, 0.9, 0.8, 1.1, 1.0, -1.0, 0.7, 0.2];
    let prior = ItemPrior::new(&[0.1; 5], &loadings, &[0.0; 5], 0.0).unwrap();
    let model = ProbitItems::new(prior);
    let data = Likes::new(5, &[(0, true), (1, true), (2, false)]).unwrap();
    let posterior = model.fit(&data).unwrap();
    let covariance = posterior.covariance();
    assert!(covariance[1] < -0.1, "{covariance:?}");
    let atom = model.atom(&posterior, AtomRule::Mean);
    for item in [3, 4] {
        let row = model.prior().row(item);
        let mean = model.prior().offset(item)
            + row[0] * posterior.mode()[0]
            + row[1] * posterior.mode()[1];
        let variance = row[0] * row[0] * covariance[0]
            + 2.0 * row[0] * row[1] * covariance[1]
            + row[1] * row[1] * covariance[3];
        let expected = mean / (1.0 + variance).sqrt();
        assert!((model.atom_ratio(&atom, item) - expected).abs() < 1e-5);
    }
}

/// Users in clusters with half of the items rated: as many atoms are left as there are clusters, each at the rates of its users.
#[test]
fn clusters_are_re_estimated() {
    for clusters in [1, 4] {
        let mut rng = stream(clusters as u64, [5, 0, 0, 0]);
        let rate = |item: usize, cluster: usize| [0.9, 0.2][(item / (1 << cluster)) % 2];
        let mut user = |u: usize| {
            let mut pairs = Vec::new();
            for item in 0..60 {
                if rng.random::<f64>() < 0.5 {
                    let liked = rng.random::<f64>() < rate(item, u % clusters);
                    pairs.push((item as u32, liked));
                }
            }
            Likes::new(60, &pairs).unwrap()
        };
        let users: Vec<Likes> = (0..80).map(&mut user).collect();
        let data: Vec<&Likes> = users.iter().collect();
        let model = BernoulliItems::new(vec![[0.5; 2]; 60]).unwrap();
        let mut mixture = Mixture::learn(model, &data, &WeightsConfig::default()).unwrap();
        mixture.re_estimate(&data, 5).unwrap();
        assert_eq!(mixture.atoms().len(), clusters);
        let xi = &mixture.weights().xi;
        assert!((xi.iter().sum::<f64>() - 80.0).abs() < 0.1, "{xi:?}");
        let new = mixture.user(&user(0)).unwrap();
        let errors = (0..60).map(|item| (mixture.predict(&new, &item) - rate(item, 0)).abs());
        // Twenty users of a cluster rate half of the items each: the rate of an item is known to .12 or so.
        let mean = errors.sum::<f64>() / 60.0;
        assert!(mean < 0.12, "{mean}");
    }
}

/// One of eight kinds of users; items are liked by a kind at a rate of its own.
fn of_some_kind(user: u64, n: usize, seed: u64) -> Likes {
    let mut rng = stream(seed, [11, user, 0, 0]);
    let kind = rng.random_range(0..8_u64);
    let rate = |item: usize| stream(seed, [12, kind, item as u64, 0]).random::<f64>();
    let items = rand::seq::index::sample(&mut rng, 50, n).into_vec();
    let like = |item: usize| (item as u32, rng.random::<f64>() < rate(item));
    let pairs: Vec<(u32, bool)> = items.into_iter().map(like).collect();
    Likes::new(50, &pairs).unwrap()
}

/// tau makes users most likely whom the base has not seen. Inferred, as it must not be, from the users that the base has learned from, the own model gets far
/// too much weight, and new users are less likely.
#[test]
fn tau_is_that_of_users_whom_the_base_has_not_seen() {
    for seed in 0..2 {
        let users: Vec<Likes> = (0..100).map(|u| of_some_kind(u, 25, seed)).collect();
        let likes = LikeMatrix::from_users(50, users).unwrap();
        let fitted = fit(&likes, None, &HbrecConfig::default()).unwrap();
        let (model, weights) = (fitted.model(), fitted.weights());
        let data: Vec<&Likes> = likes.users().iter().collect();
        let own: Vec<Option<usize>> = (0..100).map(Some).collect();
        let table = LikelihoodTable::of_model(model, fitted.atoms(), &data, &own).unwrap();
        let evidence = |likes: &&Likes| model.ln_evidence(&model.fit(likes).unwrap());
        let seen: Vec<f64> = data.iter().map(evidence).collect();
        let twin = infer_tau(&table, weights, &seen).unwrap();
        let of_new = |tau: f64| -> f64 {
            let weights = Weights {
                tau,
                ..weights.clone()
            };
            let atoms = fitted.atoms().to_vec();
            let config = WeightsConfig::default();
            let mixture = Mixture::from_parts(model.clone(), atoms, weights, config).unwrap();
            let new = (1000..1200).map(|u| of_some_kind(u, 25, seed));
            new.map(|likes| mixture.user(&likes).unwrap().ln_evidence)
                .sum()
        };
        let (right, wrong) = (of_new(weights.tau), of_new(twin));
        assert!(twin > 3.0 * weights.tau, "{twin} {}", weights.tau);
        assert!(right > wrong + 2.0, "{right} {wrong}");
    }
}
