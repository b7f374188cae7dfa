//! Each answer of mixtures, of fits for items, of groups and of the infinite model, and each of their settings, beside its value found in another way.

use npb_hbrec::npb_data::{Labels, Standardiser, Table};
use npb_hbrec::npb_infer::diagnostics::ChainDiagnostics;
use npb_hbrec::npb_infer::{Stop, SweepPlan, VbLimits, VbReport, stream};
use npb_hbrec::npb_priors::GammaPrior;
use npb_hbrec::npb_priors::special::normal_cdf;
use npb_hbrec::{
    AtomRule, BaseConfig, BaseDistribution, BernoulliItems, Content, DpConcentration,
    DpGibbsConfig, DpMove, DpSampler, GaussianPrior, GaussianTask, GroupedConfig, GroupedFit,
    HbrecConfig, HbrecFit, ItemAtom, ItemPrior, KernelScales, LikeMatrix, LikelihoodTable, Likes,
    Mixture, ProbitItems, ProbitTask, Saved, Task, TaskAtom, UserModel, Weights, WeightsConfig,
    fit, fit_gibbs, fit_groups, learn_base, learn_scales, learn_weights,
};
use rand::RngExt;

use crate::simulated::{Population, content};

#[track_caller]
fn near(found: f64, expected: f64, what: &str) {
    within(found, expected, 1e-9, what);
}

#[track_caller]
fn within(found: f64, expected: f64, most: f64, what: &str) {
    let off = (found - expected).abs();
    assert!(
        off <= most * expected.abs().max(1.0),
        "{what}: {found} for {expected}"
    );
}

/// A run ends when the objective has changed by less than the tolerance twice in a row, for the first time.
#[track_caller]
fn ends_at(trace: &[VbReport], tolerance: f64) {
    let change = |w: &[VbReport]| (w[1].elbo - w[0].elbo).abs() / w[1].elbo.abs().max(1.0);
    let small: Vec<bool> = trace.windows(2).map(|w| change(w) < tolerance).collect();
    let last = small.len() - 1;
    let twice = |at: usize| small[at] && small[at - 1];
    assert!(twice(last) && !(1..last).any(twice), "{trace:?}");
}

const ITEMS: usize = 6;
/// Shapes of likes and dislikes of the items, not all on one side of 1.
const SHAPES: [[f64; 2]; ITEMS] = [
    [0.7, 1.4],
    [2.0, 0.5],
    [1.0, 1.0],
    [3.0, 2.0],
    [0.4, 0.9],
    [1.6, 1.1],
];

fn bernoulli() -> BernoulliItems {
    BernoulliItems::new(SHAPES.to_vec()).unwrap()
}

/// Users with holes, the last one of them without any rating.
fn some_users(n: usize, seed: u64) -> Vec<Likes> {
    let mut rng = stream(seed, [0; 4]);
    let mut user = |u: usize| {
        let (mut pairs, kind) = (Vec::new(), u % 2);
        for item in 0..ITEMS {
            let (rated, x): (f64, f64) = (rng.random(), rng.random());
            if rated < 0.7 && u + 1 < n {
                let rate = if item % 2 == kind { 0.8 } else { 0.3 };
                pairs.push((item as u32, x < rate));
            }
        }
        Likes::new(ITEMS, &pairs).unwrap()
    };
    (0..n).map(&mut user).collect()
}

/// Probability of a like given own ratings, and that of the ratings, item by item.
fn alone_of(likes: &Likes) -> (Vec<f64>, f64) {
    let mut p: Vec<f64> = SHAPES.iter().map(|[a, b]| a / (a + b)).collect();
    let mut density = 1.0;
    for (item, liked) in likes.iter() {
        let [a, b] = SHAPES[item];
        density *= if liked { a } else { b } / (a + b);
        p[item] = (a + f64::from(u8::from(liked))) / (a + b + 1.0);
    }
    (p, density)
}

/// The atom of a user: means, or modes where they lie inside.
fn atom_of(likes: &Likes, rule: AtomRule) -> Vec<f64> {
    let of = |item: usize| {
        let [mut a, mut b] = SHAPES[item];
        for (_, liked) in likes.iter().filter(|x| x.0 == item) {
            if liked { a += 1.0 } else { b += 1.0 }
        }
        match rule == AtomRule::Map && a > 1.0 && b > 1.0 {
            true => (a - 1.0) / (a + b - 2.0),
            false => a / (a + b),
        }
    };
    (0..ITEMS).map(of).collect()
}

fn density(p: &[f64], likes: &Likes) -> f64 {
    let term = |(item, liked): (usize, bool)| if liked { p[item] } else { 1.0 - p[item] };
    likes.iter().map(term).product()
}

fn refs(users: &[Likes]) -> Vec<&Likes> {
    users.iter().collect()
}

fn given(tau: f64) -> WeightsConfig {
    WeightsConfig {
        tau: DpConcentration::Given(tau),
        ..WeightsConfig::default()
    }
}

/// Weights, evidence and predictions of a user, by sums over own model and atoms with unequal weights: a new user, one of the database whose responsibilities are
/// in the weights, and one who came later.
#[test]
fn mixtures_answer_by_sums_over_atoms() {
    let users = some_users(7, 1);
    for rule in [AtomRule::Mean, AtomRule::Map] {
        let atoms: Vec<Vec<f64>> = users.iter().map(|u| atom_of(u, rule)).collect();
        let config = WeightsConfig {
            atoms: rule,
            fitted: false,
            ..given(0.7)
        };
        let learned = Mixture::learn(bernoulli(), &refs(&users), &config).unwrap();
        assert_eq!(learned.weights().xi, [1.0; 7]);
        assert_eq!(learned.weights().tau, 0.7);
        for (found, expected) in learned.atoms().iter().zip(&atoms) {
            for (found, p) in found.iter().zip(expected) {
                near(found[0].exp(), *p, "like");
                near(found[1].exp(), 1.0 - p, "dislike");
            }
        }
        let xi = vec![0.5, 2.0, 0.0, 1.2, 0.3, 1.0, 2.0];
        let weights = Weights {
            xi: xi.clone(),
            tau: 0.7,
            fitted_to: vec![0, 1, 3],
            trace: Vec::new(),
            stop: Stop::Completed,
        };
        let parts = (learned.atoms().to_vec(), weights);
        let mixture = Mixture::from_parts(bernoulli(), parts.0, parts.1.clone(), config).unwrap();
        assert_eq!(mixture.weights(), &parts.1);
        assert_eq!(mixture.model(), &bernoulli());
        let new = Likes::new(ITEMS, &[(0, true), (3, false), (5, true)]).unwrap();
        let nobody = Likes::default();
        for (own, likes) in [
            (None, &new),
            (None, &nobody),
            (Some(1), &users[1]),
            (Some(4), &users[4]),
            (Some(3), &users[3]),
        ] {
            let (p, evidence) = alone_of(likes);
            let like: Vec<f64> = atoms.iter().map(|atom| density(atom, likes)).collect();
            let mut left = xi.clone();
            if let Some(own) = own {
                left[own] = 0.0;
                let total: f64 = left.iter().zip(&like).map(|(x, l)| x * l).sum();
                if parts.1.fitted_to.contains(&(own as u32)) {
                    let both = left.iter_mut().zip(&like);
                    both.for_each(|(x, l)| *x = (*x - *x * l / total).max(0.0));
                }
            }
            let joint: Vec<f64> = left.iter().zip(&like).map(|(x, l)| x * l).collect();
            let total = 0.7 * evidence + joint.iter().sum::<f64>();
            let found = match own {
                Some(own) => mixture.database_user(likes, own).unwrap(),
                None => mixture.user(likes).unwrap(),
            };
            let what = format!("{rule:?}, {own:?}");
            near(found.own_weight, 0.7 * evidence / total, &what);
            for (found, joint) in found.weights.iter().zip(&joint) {
                near(*found, joint / total, &what);
            }
            let mass = 0.7 + left.iter().sum::<f64>();
            near(found.ln_evidence, (total / mass).ln(), &what);
            for item in 0..ITEMS {
                let of_atoms: f64 = joint.iter().zip(&atoms).map(|(w, a)| w * a[item]).sum();
                let expected = (0.7 * evidence * p[item] + of_atoms) / total;
                near(mixture.predict(&found, &item), expected, &what);
            }
        }
        assert!(mixture.database_user(&new, 7).is_err());
        let mut more = mixture.clone();
        assert_eq!(more.add_user(&new).unwrap(), 7);
        assert_eq!(more.weights().xi, [&xi[..], &[1.0]].concat());
        let of_new = atom_of(&new, rule);
        let found = &more.atoms()[7];
        (0..ITEMS).for_each(|i| near(found[i][0].exp(), of_new[i], "added"));
    }
}

/// Likelihoods of ten users under eight atoms; the first six atoms are users' own.
fn random_likelihoods(seed: u64) -> (Vec<Vec<f64>>, Vec<Option<usize>>) {
    let mut rng = stream(seed, [0; 4]);
    let row = |_| (0..8).map(|_| -4.0 * rng.random::<f64>()).collect();
    let own = (0..10).map(|j| (j < 6).then_some(j)).collect();
    ((0..10).map(row).collect(), own)
}

/// Fitted weights: by hand after three steps, with an end to small ones, and at the conditions of the maximum in the end. Given weights are as they are.
#[test]
fn weights_are_those_of_em() {
    let (rows, own) = random_likelihoods(2);
    let p = |j: usize, k: usize| match own[j] == Some(k) {
        true => 0.0,
        false => rows[j][k].exp(),
    };
    let table = LikelihoodTable::new(8, &rows, &own).unwrap();
    let learned = |max_iterations: u64, tolerance: f64| {
        let limits = VbLimits {
            max_iterations,
            tolerance,
        };
        let config = WeightsConfig {
            limits,
            ..given(2.5)
        };
        learn_weights(&table, &[-1.0; 10], &config).unwrap()
    };
    let (mut w, mut objectives) = (vec![0.125; 8], Vec::new());
    let mixed = |w: &[f64], j: usize| (0..8).map(|k| w[k] * p(j, k)).sum::<f64>();
    for _ in 0..3 {
        let share = |k: usize| (0..10).map(|j| w[k] * p(j, k) / mixed(&w, j)).sum::<f64>();
        w = (0..8).map(|k| share(k) / 10.0).collect();
        objectives.push((0..10).map(|j| mixed(&w, j).ln()).sum::<f64>());
    }
    let three = learned(3, 0.0);
    assert_eq!(three.stop, Stop::MaxIterations);
    assert_eq!(three.trace.len(), 3);
    for (report, objective) in three.trace.iter().zip(&objectives) {
        within(report.elbo, *objective, 1e-6, "J");
    }
    assert!(w.iter().all(|&w| w > 1e-4 / 8.0));
    for (xi, w) in three.xi.iter().zip(&w) {
        within(*xi, 10.0 * w, 1e-6, "weight");
    }
    assert_eq!(
        (three.tau, three.fitted_to.clone()),
        (2.5, vec![0, 1, 2, 3, 4, 5])
    );
    let converged = learned(100_000, 1e-3);
    ends_at(&converged.trace, 1e-3);
    // At the maximum no atom explains users better than those with a weight do.
    let best = learned(20_000, 0.0);
    let w: Vec<f64> = best.xi.iter().map(|xi| xi / 10.0).collect();
    near(w.iter().sum(), 1.0, "sum");
    assert!(w.contains(&0.0));
    for (k, &w_k) in w.iter().enumerate() {
        let slope = (0..10).map(|j| p(j, k) / mixed(&w, j)).sum::<f64>() / 10.0;
        match w_k > 0.0 {
            true => within(slope, 1.0, 1e-3, "slope"),
            false => assert!(slope < 1.0 + 1e-3, "{slope}"),
        }
    }
    let one_step = WeightsConfig {
        fitted: false,
        ..given(2.5)
    };
    let one_step = learn_weights(&table, &[-1.0; 10], &one_step).unwrap();
    assert_eq!(one_step.xi, [1.0; 8]);
    assert!(one_step.fitted_to.is_empty() && one_step.trace.is_empty());
}

/// What a mixture learns for users is what the table of their likelihoods says.
#[test]
fn mixtures_learn_the_weights_of_their_table() {
    let users = some_users(12, 3);
    let data = refs(&users);
    let config = given(1.5);
    let mixture = Mixture::learn(bernoulli(), &data, &config).unwrap();
    let atoms: Vec<Vec<f64>> = users.iter().map(|u| atom_of(u, AtomRule::Mean)).collect();
    let row = |user: &Likes| atoms.iter().map(|a| density(a, user).ln()).collect();
    let rows: Vec<Vec<f64>> = users.iter().map(row).collect();
    let own: Vec<Option<usize>> = (0..12).map(Some).collect();
    let table = LikelihoodTable::new(12, &rows, &own).unwrap();
    let evidence: Vec<f64> = users.iter().map(|u| alone_of(u).1.ln()).collect();
    let expected = learn_weights(&table, &evidence, &config).unwrap();
    for (found, expected) in mixture.weights().xi.iter().zip(&expected.xi) {
        within(*found, *expected, 1e-4, "xi");
    }
    let inferred = WeightsConfig::default();
    let mixture = Mixture::learn(bernoulli(), &data, &inferred).unwrap();
    let tau = learn_weights(&table, &evidence, &inferred).unwrap().tau;
    within(mixture.weights().tau / tau, 1.0, 1e-3, "tau");
}

/// Clusters re-estimated where it is plain who belongs together: atoms are the pooled users' means.
#[test]
fn re_estimated_atoms_are_pooled_users() {
    let model = BernoulliItems::new(vec![[0.7, 0.4]; 40]).unwrap();
    let user = |u: usize| {
        let like =
            |item: usize| (item < 20) == u.is_multiple_of(2) && !(item + u).is_multiple_of(9);
        let rated = (0..40_usize).filter(|item| !(item + u).is_multiple_of(5));
        let pairs: Vec<(u32, bool)> = rated.map(|item| (item as u32, like(item))).collect();
        Likes::new(40, &pairs).unwrap()
    };
    let users: Vec<Likes> = (0..14).map(user).collect();
    let mut mixture = Mixture::learn(model, &refs(&users), &given(0.5)).unwrap();
    mixture.re_estimate(&refs(&users), 5).unwrap();
    assert_eq!(mixture.atoms().len(), 2);
    assert!(mixture.weights().fitted_to.is_empty());
    let kind = |atom: &Vec<[f64; 2]>| usize::from(atom[1][0] < atom[1][1]);
    for (atom, xi) in mixture.atoms().iter().zip(&mixture.weights().xi) {
        within(*xi, 7.0, 1e-6, "users of a cluster");
        let own: Vec<&Likes> = users.iter().skip(kind(atom)).step_by(2).collect();
        for (item, found) in atom.iter().enumerate() {
            let said = own.iter().flat_map(|u| u.iter()).filter(|x| x.0 == item);
            let said: Vec<bool> = said.map(|x| x.1).collect();
            let liked = said.iter().filter(|x| **x).count() as f64;
            let p = (0.7 + liked) / (1.1 + said.len() as f64);
            within(found[0].exp(), p, 1e-6, "rate");
        }
    }
    assert_eq!(mixture.weights().tau, 0.5);
}

/// A database over 20 items with content, where users have from none to 12 ratings.
fn database(n: u64, seed: u64) -> (LikeMatrix, Content, Population) {
    let population = Population::new(20, 2, 0.8, seed);
    let user = |u: u64| {
        let rated = if u == 3 { 0 } else { 4 + (u % 9) as usize };
        population.likes(&population.user(seed, u), rated, seed, u)
    };
    let likes = LikeMatrix::from_users(20, (0..n).map(user).collect()).unwrap();
    (likes, content(20, seed), population)
}

fn base(rank: usize, content_tastes: bool, max_iterations: u64) -> BaseConfig {
    BaseConfig {
        rank,
        content_tastes,
        limits: VbLimits {
            max_iterations,
            tolerance: 0.0,
        },
    }
}

fn with_base(base: BaseConfig, weights: WeightsConfig) -> HbrecConfig {
    HbrecConfig {
        base: BaseDistribution::Learned(base),
        identity: 0.45,
        weights,
        ..HbrecConfig::default()
    }
}

/// Everything that a fit for items says of a user, by sums over its atoms, one by one: unequal weights, an own weight, item identity, a user of the database, one
/// who came later, another tau.
#[test]
fn fits_for_items_answer_by_sums_over_atoms() {
    let (likes, content, population) = database(30, 1);
    let config = with_base(base(2, true, 6), given(3.0));
    let mut fitted = fit(&likes, Some(&content), &config).unwrap();
    let new = population.likes(&population.user(1, 77), 7, 1, 77);
    assert_eq!(fitted.add_user(&new).unwrap(), 30);
    assert_eq!((fitted.n_users(), fitted.n_items()), (31, 20));
    assert_eq!(fitted.weights().xi[30], 1.0);
    assert!(fitted.weights().xi.iter().any(|&xi| xi > 1.5));
    let other = population.likes(&population.user(1, 78), 9, 1, 78);
    for fitted in [
        fitted,
        fit(&likes, None, &config).unwrap().with_tau(0.4).unwrap(),
    ] {
        let tau = fitted.weights().tau;
        let (model, atoms) = (fitted.model(), fitted.atoms());
        let mut cases = vec![(None, &other), (Some(5), likes.user(5))];
        if tau == 3.0 {
            cases.push((Some(30), &new));
        }
        for (own, likes) in cases {
            let user = match own {
                Some(own) => fitted.database_user(likes, own).unwrap(),
                None => fitted.user(likes).unwrap(),
            };
            let alone = model.fit(likes).unwrap();
            let like = atoms
                .iter()
                .map(|atom| model.ln_likelihood(atom, likes).exp());
            let like: Vec<f64> = like.collect();
            let mut xi = fitted.weights().xi.clone();
            if let Some(own) = own {
                xi[own] = 0.0;
                if own < 30 {
                    let total: f64 = xi.iter().zip(&like).map(|(x, l)| x * l).sum();
                    xi.iter_mut()
                        .zip(&like)
                        .for_each(|(x, l)| *x = (*x - *x * l / total).max(0.0));
                }
            }
            let joint: Vec<f64> = xi.iter().zip(&like).map(|(x, l)| x * l).collect();
            let evidence = tau * model.ln_evidence(&alone).exp();
            let total = evidence + joint.iter().sum::<f64>();
            let what = format!("tau {tau}, {own:?}");
            within(user.own_weight, evidence / total, 1e-5, &what);
            for (found, joint) in user.weights.iter().zip(&joint) {
                within(*found, joint / total, 1e-5, &what);
            }
            let all = fitted.predict_all(&user).unwrap();
            let of_atoms = fitted.predict_atoms(&user).unwrap();
            for item in 0..20 {
                let each = atoms.iter().zip(&joint);
                let part: f64 = each.map(|(a, w)| w / total * model.predict(a, &item)).sum();
                let expected = part + evidence / total * model.predict_alone(&alone, &item);
                within(of_atoms[item], part, 1e-5, &what);
                within(all[item], expected, 1e-5, &what);
                let single = fitted.predict(&user, item).unwrap();
                within(single, expected, 1e-5, &what);
            }
        }
        assert!(fitted.predict(&fitted.user(&other).unwrap(), 20).is_err());
        assert!(fitted.database_user(&other, 31).is_err());
    }
}

/// Probability that just so many of some independent events happen, by all ways in which they can.
fn of_number(p: &[f64], number: usize) -> f64 {
    let way = |bits: usize| -> f64 {
        let term = |(i, p): (usize, &f64)| if bits >> i & 1 == 1 { *p } else { 1.0 - p };
        p.iter().enumerate().map(term).product()
    };
    let ways = (0..1_usize << p.len()).filter(|bits| bits.count_ones() as usize == number);
    ways.map(way).sum()
}

/// Of chosen examples atoms are weighed given how many are liked.
#[test]
fn users_of_chosen_examples_are_weighed_given_their_number() {
    let (likes, _, population) = database(25, 2);
    let config = with_base(base(2, false, 6), given(2.0));
    let fitted = fit(&likes, None, &config).unwrap();
    let (model, atoms) = (fitted.model(), fitted.atoms());
    let chosen = population.likes(&population.user(2, 50), 7, 2, 50);
    let user = fitted.user_of_chosen(&chosen).unwrap();
    let alone = model.fit_chosen(&chosen).unwrap();
    assert_eq!(user.alone.mode(), alone.mode());
    let joint = |(atom, xi): (&ItemAtom, &f64)| {
        let p: Vec<f64> = chosen
            .iter()
            .map(|(item, _)| model.predict(atom, &item))
            .collect();
        xi * model.ln_likelihood(atom, &chosen).exp() / of_number(&p, chosen.n_liked())
    };
    let joint: Vec<f64> = atoms.iter().zip(&fitted.weights().xi).map(joint).collect();
    let own = 2.0 * model.ln_evidence(&alone).exp();
    let total = own + joint.iter().sum::<f64>();
    within(user.own_weight, own / total, 1e-5, "own");
    for (found, joint) in user.weights.iter().zip(&joint) {
        within(*found, joint / total, 1e-5, "atom");
    }
}

/// Draws are of the own model or of an atom, by weight: their means are the predictions, of rated items too.
#[test]
fn draws_average_to_predictions() {
    let (likes, _, population) = database(25, 3);
    let config = with_base(base(2, false, 6), given(40.0));
    let fitted = fit(&likes, None, &config).unwrap();
    let new = population.likes(&population.user(3, 60), 6, 3, 60);
    let user = fitted.user(&new).unwrap();
    assert!(
        user.own_weight > 0.3 && user.own_weight < 0.95,
        "{}",
        user.own_weight
    );
    const DRAWS: usize = 4000;
    let mut rng = stream(4, [0; 4]);
    let draws: Vec<Vec<f64>> = (0..DRAWS)
        .map(|_| fitted.draw(&user, &mut rng).unwrap())
        .collect();
    for (item, p) in fitted.predict_all(&user).unwrap().into_iter().enumerate() {
        let mean = draws.iter().map(|d| d[item]).sum::<f64>() / DRAWS as f64;
        let square = draws.iter().map(|d| (d[item] - mean).powi(2)).sum::<f64>();
        let error = square.sqrt() / DRAWS as f64;
        assert!(
            (mean - p).abs() < 4.0 * error + 1e-4,
            "{item}: {mean} +- {error} for {p}"
        );
    }
}

/// Atoms, base and weights of a fit are those of its parts, at settings other than the default.
#[test]
fn fits_for_items_are_made_of_their_parts() {
    let (likes, content, _) = database(30, 4);
    for (rule, learns) in [(AtomRule::Map, true), (AtomRule::Mean, false)] {
        let weights = WeightsConfig {
            atoms: rule,
            fitted: learns,
            ..given(1.7)
        };
        let settings = base(3, true, 4);
        let config = with_base(settings, weights);
        let fitted = fit(&likes, Some(&content), &config).unwrap();
        assert_eq!(fitted.config(), &config);
        let learned = learn_base(&likes, Some(&content), &settings, config.seed).unwrap();
        assert_eq!(fitted.base(), Some(&learned));
        assert_eq!(
            (fitted.stop(), learned.trace.len()),
            (Stop::MaxIterations, 4)
        );
        let prior = learned.prior.with_identity(0.45).unwrap();
        assert_eq!(fitted.model().prior(), &prior);
        let model = ProbitItems::new(prior);
        let data: Vec<&Likes> = likes.users().iter().collect();
        let (mut atoms, mut evidence) = (Vec::new(), Vec::new());
        for user in &data {
            let alone = model.fit(user).unwrap();
            atoms.push(model.atom(&alone, rule));
            evidence.push(model.ln_evidence(&alone));
        }
        assert_eq!(fitted.atoms(), atoms);
        let own: Vec<Option<usize>> = (0..30).map(Some).collect();
        let table = LikelihoodTable::of_model(&model, &atoms, &data, &own).unwrap();
        let expected = learn_weights(&table, &evidence, &weights).unwrap();
        assert_eq!(fitted.weights().tau, 1.7);
        for (found, expected) in fitted.weights().xi.iter().zip(&expected.xi) {
            within(*found, *expected, 1e-3, "xi");
        }
        if !learns {
            assert_eq!(fitted.weights().xi, [1.0; 30]);
        }
    }
}

/// The standard base: mean zero, the columns of content and a constant, with the scales that no step of the search betters.
#[test]
fn the_standard_base_has_the_scales_of_the_largest_evidence() {
    let (likes, content, _) = database(25, 5);
    let config = HbrecConfig {
        base: BaseDistribution::Standard,
        weights: given(1.0),
        ..HbrecConfig::default()
    };
    let mut fitted = fit(&likes, Some(&content), &config).unwrap();
    assert!(fitted.base().is_none());
    assert_eq!(fitted.stop(), Stop::Completed);
    let users: Vec<&Likes> = likes.users().iter().filter(|u| !u.is_empty()).collect();
    let (scales, most) = learn_scales(&users, 20, Some(&content), KernelScales::default()).unwrap();
    for item in 0..20 {
        let prior = fitted.model().prior();
        assert_eq!(prior.offset(item), 0.0);
        let row = prior.row(item);
        for (found, x) in row.iter().zip(content.row(item)) {
            near(*found, x * scales.content.sqrt(), "content");
        }
        near(row[2], scales.constant.sqrt(), "constant");
    }
    for step in [0.84, 1.19] {
        for of_content in [true, false] {
            let mut other = scales;
            *(if of_content {
                &mut other.content
            } else {
                &mut other.constant
            }) *= step;
            let model = ProbitItems::new(other.prior(20, Some(&content), 0.0).unwrap());
            let sum: f64 = users
                .iter()
                .map(|u| model.ln_evidence(&model.fit(u).unwrap()))
                .sum();
            assert!(sum <= most + 1e-3, "{step} {of_content}: {sum} {most}");
        }
    }
    // A new item, by its features and by nothing.
    let features = [0.2, 0.9];
    let item = fitted.add_item(Some(&features)).unwrap();
    let unknown = fitted.add_item(None).unwrap();
    let columns = content.project(&features).unwrap();
    let row = fitted.model().prior().row(item);
    for (found, x) in row.iter().zip(&columns) {
        near(*found, x * scales.content.sqrt(), "content of a new item");
    }
    near(row[2], scales.constant.sqrt(), "constant of a new item");
    let row = fitted.model().prior().row(unknown);
    assert_eq!(row[..2], [0.0, 0.0]);
    let user = fitted.user(likes.user(2)).unwrap();
    let all = fitted.predict_all(&user).unwrap();
    assert_eq!((item, unknown, all.len()), (20, 21, 22));
    for (item, found) in all.iter().enumerate().skip(20) {
        let of_atoms = fitted.atoms().iter().zip(&user.weights);
        let expected: f64 = of_atoms
            .map(|(a, w)| w * fitted.model().predict(a, &item))
            .sum();
        let own = user.own_weight * fitted.model().predict_alone(&user.alone, &item);
        within(*found, expected + own, 1e-5, "new item");
    }
    assert!(fitted.add_item(Some(&[1.0])).is_err());
}

/// Rank, own tastes in content, iterations and seed of the base.
#[test]
fn bases_have_the_columns_that_were_asked_for() {
    let (likes, content, _) = database(40, 6);
    let learned = |settings: BaseConfig| learn_base(&likes, Some(&content), &settings, 0).unwrap();
    for rank in [0, 1, 3] {
        for tastes in [false, true] {
            let base = learned(base(rank, tastes, 3));
            assert_eq!((base.rank(), base.trace.len()), (rank, 3));
            let width = rank + if tastes { 3 } else { 1 };
            assert_eq!(base.prior.width(), width);
            // Own tastes: the constant and each column of content, by the root of a variance that all items share.
            let at = |item: usize, k: usize| base.prior.row(item)[rank + k];
            for item in 0..20 {
                for k in 1..width - rank {
                    let share = at(0, k) / at(0, 0) / content.row(0)[k - 1];
                    let expected = share * content.row(item)[k - 1];
                    within(at(item, k) / at(item, 0), expected, 1e-9, "taste");
                }
            }
        }
    }
    assert_eq!(learned(base(3, true, 3)), learned(base(3, true, 3)));
    // The start of the search for directions, which sides of more than 512 need: nearly the same ones.
    let population = Population::new(520, 3, 0.8, 6);
    let many = population.database(520, 8, 6);
    let of = |seed: u64| learn_base(&many, None, &base(3, true, 1), seed).unwrap();
    let (a, b) = (of(1), of(2));
    assert_eq!(a, of(1));
    assert_ne!(a.prior, b.prior);
    within(b.trace[0].elbo, a.trace[0].elbo, 0.02, "bound");
    let tolerant = BaseConfig {
        limits: VbLimits {
            max_iterations: 500,
            tolerance: 1e-3,
        },
        ..base(3, true, 1)
    };
    let ends = learned(tolerant);
    assert!(matches!(ends.stop, Stop::Converged { .. }));
    ends_at(&ends.trace, 1e-3);
}

/// Ratings beyond so many are left out, chosen by the seed.
#[test]
fn users_keep_so_many_ratings_in_training() {
    let (likes, _, _) = database(25, 7);
    let config = |most_ratings: usize, seed: u64| HbrecConfig {
        most_ratings,
        seed,
        ..with_base(base(1, false, 3), given(1.0))
    };
    let of = |most: usize, seed: u64| fit(&likes, None, &config(most, seed)).unwrap();
    // The atom of a user is that of some of its ratings under the base of the fit.
    let subset_of = |fitted: &HbrecFit, user: usize, most: usize| -> usize {
        let all: Vec<(usize, bool)> = likes.user(user).iter().collect();
        let sized = |bits: &usize| bits.count_ones() as usize == most.min(all.len());
        let is = |bits: &usize| {
            let kept = (0..all.len()).filter(|i| bits >> i & 1 == 1);
            let kept: Vec<(u32, bool)> = kept.map(|i| (all[i].0 as u32, all[i].1)).collect();
            let model = fitted.model();
            let alone = model.fit(&Likes::new(20, &kept).unwrap()).unwrap();
            model.atom(&alone, AtomRule::Mean) == fitted.atoms()[user]
        };
        (0..1 << all.len())
            .filter(sized)
            .find(is)
            .expect("a subset")
    };
    let (a, b) = (of(3, 1), of(3, 2));
    let users = [0, 3, 5, 8];
    let chosen = |fitted: &HbrecFit| users.map(|user| subset_of(fitted, user, 3));
    assert_eq!(chosen(&a), chosen(&of(3, 1)));
    assert_ne!(chosen(&a), chosen(&b));
    // Nobody has more than twelve.
    assert_eq!(of(12, 1).atoms(), of(500, 1).atoms());
    assert_ne!(of(11, 1).atoms(), of(500, 1).atoms());
}

/// Item identity: a second look at a rated item, by a sum over what all looks at it share. One loading, which hardly bends the posterior.
#[test]
fn identity_is_what_two_looks_at_an_item_share() {
    let (m, phi) = (0.2, 0.3);
    for rho in [0.0, 0.3, 0.8] {
        let prior = ItemPrior::new(&[m, 0.1], &[phi, 0.4], &[0.0, 0.0], rho).unwrap();
        let model = ProbitItems::new(prior);
        let likes = Likes::new(2, &[(0, true)]).unwrap();
        let (mut first, mut both, mut other) = (0.0, 0.0, 0.0);
        for w in (-120..=120).map(|x| 0.05 * f64::from(x)) {
            for d in (-120..=120).map(|x| 0.05 * f64::from(x)) {
                let mean = m + phi * w + f64::sqrt(rho) * d;
                let p = normal_cdf(mean / f64::sqrt(1.0 - rho));
                let weight = (-0.5 * (w * w + d * d)).exp();
                first += weight * p;
                both += weight * p * p;
                other += weight * p * normal_cdf(0.1 + 0.4 * w);
            }
        }
        let alone = model.fit(&likes).unwrap();
        let found = model.predict_alone(&alone, &0);
        // A normal law for what is shared is near the truth, not at it.
        within(found, both / first, 0.02, "rated");
        within(
            model.predict_alone(&alone, &1),
            other / first,
            5e-3,
            "other",
        );
        // Its mean and variance are those given the coefficient, by a sum over what is shared.
        let (mut mass, mut shift, mut square) = (0.0, 0.0, 0.0);
        let mean = m + phi * alone.mode()[0];
        for d in (-8000..=8000).map(|x| 0.001 * f64::from(x)) {
            let u = f64::sqrt(rho) * d;
            let weight = (-0.5 * d * d).exp() * normal_cdf((mean + u) / f64::sqrt(1.0 - rho));
            mass += weight;
            shift += weight * u;
            square += weight * u * u;
        }
        let (shift, square) = (shift / mass, square / mass);
        let spread = square - shift * shift + phi * phi * alone.covariance()[0];
        let p = normal_cdf((mean + shift) / (1.0 - rho + spread).sqrt());
        within(found, p, 1e-6, "rated, by moments");
        let atom = model.atom(&alone, AtomRule::Mean);
        within(model.predict(&atom, &0), found, 1e-6, "atom");
    }
}

/// Nine groups of two kinds, one column in units far from standard ones.
struct World {
    table: Table,
    labels: Labels,
    groups: Labels,
}

const GROUPS: usize = 9;

fn world(seed: u64) -> World {
    let mut rng = stream(seed, [0; 4]);
    let (mut cells, mut labels, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    for group in 0..GROUPS {
        let slope = if group.is_multiple_of(3) { -1.5 } else { 1.5 };
        for _ in 0..4 + group {
            let x = 3.0 * rng.random::<f64>() - 1.5;
            cells.push(40.0 + 7.0 * x);
            let second = rng.random::<f64>() < normal_cdf(0.3 + slope * x);
            labels.push(Some(["no", "yes"][usize::from(second)]));
            groups.push(Some(format!("g{group}")));
        }
    }
    let table = Table::complete(cells.len(), 1, cells).unwrap();
    World {
        table: table.with_column_names(["dose"]).unwrap(),
        labels: Labels::from_strings(&labels),
        groups: Labels::from_strings(&groups),
    }
}

impl World {
    fn fit(&self, config: &GroupedConfig) -> GroupedFit {
        fit_groups(&self.table, &self.labels, &self.groups, config).unwrap()
    }

    fn rows(&self, group: usize) -> Vec<usize> {
        let codes = self.groups.codes();
        (0..codes.len())
            .filter(|&i| codes[i] == Some(group))
            .collect()
    }

    /// Rows in standard units, the intercept first, with their classes.
    fn task(&self, rows: &[usize]) -> Task<bool> {
        let standard = Standardiser::fit(&self.table).apply(&self.table).unwrap();
        let values: Vec<f64> = rows
            .iter()
            .flat_map(|&i| [1.0, standard.row(i)[0]])
            .collect();
        let second: Vec<bool> = rows
            .iter()
            .map(|&i| self.labels.codes()[i] == Some(1))
            .collect();
        Task::new(2, &values, &second).unwrap()
    }
}

fn grouped(tau: f64, fitted: bool, seed: u64) -> GroupedConfig {
    GroupedConfig {
        limits: VbLimits {
            max_iterations: 7,
            tolerance: 0.0,
        },
        weights: WeightsConfig {
            fitted,
            ..given(tau)
        },
        seed,
    }
}

/// Mean and spread of a row's utility under an atom.
fn utility(atom: &TaskAtom, x: f64) -> (f64, f64) {
    let (w, c) = (&atom.coefficients, &atom.covariance);
    let variance = match c.is_empty() {
        true => 0.0,
        false => c[0] + x * (c[1] + c[2]) + x * x * c[3],
    };
    (w[0] + w[1] * x, variance)
}

/// What is believed of groups, of training and new ones, and of their rows: weights, averages over draws of the base, probabilities and quantiles, each by its
/// definition.
#[test]
fn groups_answer_by_sums_over_atoms_and_draws() {
    let world = world(1);
    let fit = world.fit(&grouped(2.5, false, 3));
    let (mixture, draws) = (fit.mixture(), fit.base_draws());
    assert_eq!((mixture.atoms().len(), draws.len()), (GROUPS, 40));
    assert_eq!(mixture.weights().xi, [1.0; GROUPS]);
    let model = mixture.model();
    let new_rows = [0, 6, 13, 20];
    let none = world.table.select_rows(&[]);
    for case in 0..GROUPS + 2 {
        let (rows, group) = match case {
            GROUPS => {
                let (table, labels) = (
                    world.table.select_rows(&new_rows),
                    world.labels.select_rows(&new_rows),
                );
                (new_rows.to_vec(), fit.fold_in(&table, &labels).unwrap())
            }
            10 => (
                Vec::new(),
                fit.fold_in(&none, &world.labels.select_rows(&[])).unwrap(),
            ),
            _ => {
                let known = fit.group(&format!("g{case}")).unwrap();
                (world.rows(case), known.clone())
            }
        };
        let what = format!("group {case}");
        let task = world.task(&rows);
        let seen = case < GROUPS;
        let evidence = 2.5 * model.ln_evidence(&model.fit(&task).unwrap()).exp();
        let joint = |k: usize| match seen && k == case {
            true => 0.0,
            false => model.ln_likelihood(&mixture.atoms()[k], &task).exp(),
        };
        let joint: Vec<f64> = (0..GROUPS).map(joint).collect();
        let total = evidence + joint.iter().sum::<f64>();
        near(group.own_weight, evidence / total, &what);
        for (found, joint) in group.weights.iter().zip(&joint) {
            near(*found, joint / total, &what);
        }
        let mass = 2.5 + GROUPS as f64 - f64::from(u8::from(seen));
        near(group.ln_evidence, (total / mass).ln(), &what);
        // The own posterior over draws of the base.
        let fits: Vec<(f64, Vec<f64>, [f64; 3])> = draws
            .iter()
            .map(|base| {
                let model = ProbitTask::new(base.clone());
                let posterior = model.fit(&task).unwrap();
                let (mean, c) = model.moments(&posterior);
                let weight = match seen {
                    true => 1.0,
                    false => model.ln_evidence(&posterior).exp(),
                };
                let second = [(0, 0), (0, 1), (1, 1)].map(|(i, j)| c[(i, j)] + mean[i] * mean[j]);
                (weight, mean, second)
            })
            .collect();
        let all: f64 = fits.iter().map(|f| f.0).sum();
        let mean = |k: usize| fits.iter().map(|f| f.0 * f.1[k]).sum::<f64>() / all;
        let second = |k: usize| fits.iter().map(|f| f.0 * f.2[k]).sum::<f64>() / all;
        let c = &group.alone.covariance;
        for k in 0..2 {
            within(group.alone.coefficients[k], mean(k), 1e-8, &what);
        }
        within(c[0], second(0) - mean(0) * mean(0), 1e-8, &what);
        within(c[1], second(1) - mean(0) * mean(1), 1e-8, &what);
        within(c[2], c[1], 1e-12, &what);
        within(c[3], second(2) - mean(1) * mean(1), 1e-8, &what);
        // Rows.
        let asked = world.table.select_rows(&[2, 9, 31]);
        let standard = Standardiser::fit(&world.table).apply(&asked).unwrap();
        let p = fit.predict(&group, &asked).unwrap();
        let levels = [0.35, 0.96];
        let ends = levels.map(|level| fit.predict_interval(&group, &asked, level).unwrap());
        for row in 0..3 {
            let x = standard.row(row)[0];
            let atoms = mixture.atoms().iter().zip(group.weights.iter().copied());
            let parts = atoms.chain([(&group.alone, group.own_weight)]);
            let parts: Vec<(f64, f64, f64)> = parts
                .map(|(atom, w)| (w, utility(atom, x).0, utility(atom, x).1))
                .collect();
            let term = |(w, m, v): &(f64, f64, f64)| w * normal_cdf(m / (1.0 + v).sqrt());
            within(p[row], parts.iter().map(term).sum(), 1e-9, &what);
            for (level, ends) in levels.iter().zip(&ends) {
                let found = ends[row];
                let shares = [0.5 - 0.5 * level, 0.5 + 0.5 * level];
                for (end, share) in [found.lower, found.upper].iter().zip(shares) {
                    let at = npb_hbrec::npb_priors::special::normal_quantile(*end);
                    let below = |(w, m, v): &(f64, f64, f64)| w * normal_cdf((at - m) / v.sqrt());
                    within(parts.iter().map(below).sum(), share, 1e-6, &what);
                }
            }
        }
    }
}

/// Names, settings and how the fit ended; the objective of the first iteration by sums on a grid; units that do not matter; seeds.
#[test]
fn groups_say_how_they_were_fitted() {
    let world = world(2);
    let config = grouped(2.5, true, 3);
    let fit = world.fit(&config);
    let fit = GroupedFit::from_bytes(&fit.to_bytes().unwrap()).unwrap();
    assert_eq!(fit.config(), &config);
    assert_eq!(fit.classes(), world.labels.classes());
    assert_eq!(fit.column_names(), ["dose"]);
    assert_eq!(fit.groups().len(), GROUPS);
    assert_eq!(fit.groups()[8], "g8");
    assert_eq!((fit.stop(), fit.trace().len()), (Stop::MaxIterations, 7));
    let xi = &fit.mixture().weights().xi;
    within(xi.iter().sum(), GROUPS as f64, 1e-9, "xi");
    assert_eq!(fit.mixture().weights().tau, 2.5);
    let start = ProbitTask::new(GaussianPrior::isotropic(2, 1.0).unwrap());
    let (mut objective, mut by_model) = (0.0, 0.0);
    for group in 0..GROUPS {
        let task = world.task(&world.rows(group));
        let mut sum = 0.0;
        for a in (-100..=100).map(|x| 0.05 * f64::from(x)) {
            for b in (-100..=100).map(|x| 0.05 * f64::from(x)) {
                let term = |(x, &y): (&[f64], &bool)| {
                    let t = a + b * x[1];
                    normal_cdf(if y { t } else { -t })
                };
                let likelihood: f64 = task.iter().map(term).product();
                sum += likelihood * (-0.5 * (a * a + b * b)).exp() * 0.05 * 0.05;
            }
        }
        let exact = (sum / std::f64::consts::TAU).ln();
        let found = start.ln_evidence(&start.fit(&task).unwrap());
        assert!((found - exact).abs() < 0.03, "{found} {exact}");
        objective += exact;
        by_model += found;
    }
    // The base starts at mean 0 and variances 1, which is its prior's scale: four tasks' worth, two coefficients.
    let ln_prior = -0.5 * 4.0 * 2.0;
    near(fit.trace()[0].elbo, by_model + ln_prior, "objective");
    within(fit.trace()[0].elbo, objective + ln_prior, 5e-3, "objective");
    let other = world.fit(&grouped(2.5, true, 4));
    assert_ne!(other.base_draws()[0].mean(), fit.base_draws()[0].mean());
    assert_eq!(
        other.mixture().model().prior().mean(),
        fit.mixture().model().prior().mean()
    );
    let inches = world.table.map(|_, _, x| x / 2.0 - 64.0).unwrap();
    let scaled = fit_groups(&inches, &world.labels, &world.groups, &config).unwrap();
    let of = |fit: &GroupedFit, table: &Table| fit.predict(fit.group("g4").unwrap(), table);
    let (a, b) = (
        of(&fit, &world.table).unwrap(),
        of(&scaled, &inches).unwrap(),
    );
    a.iter()
        .zip(&b)
        .for_each(|(a, b)| within(*a, *b, 1e-6, "units"));
    let tolerant = GroupedConfig {
        limits: VbLimits {
            max_iterations: 1000,
            tolerance: 1e-3,
        },
        ..config
    };
    let ends = world.fit(&tolerant);
    ends_at(ends.trace(), 1e-3);
    assert!(matches!(ends.stop(), Stop::Converged { .. }));
}

fn gibbs(keep: u64, stored_draws: u64) -> DpGibbsConfig {
    DpGibbsConfig {
        moves: vec![
            DpMove::Auxiliary { components: 2 },
            DpMove::Parameters,
            DpMove::Concentration,
        ],
        concentration: GammaPrior {
            shape: 3.0,
            rate: 1.5,
        },
        chains: 3,
        sweeps: SweepPlan {
            burn_in: 2,
            keep,
            thin: 2,
        },
        stored_draws,
        seed: 4,
    }
}

/// Which users are together, clusters, and predictions of new users, by counts over the stored draws of chains that have not met yet.
#[test]
fn answers_of_the_infinite_model_are_averages_over_draws() {
    let users = some_users(9, 5);
    let model = bernoulli();
    let fit = fit_gibbs(&model, &refs(&users), &gibbs(6, 6)).unwrap();
    let draws: Vec<_> = fit.chains().iter().flat_map(|chain| &chain.draws).collect();
    assert_eq!(draws.len(), 18);
    assert!(fit.draws() == draws);
    let share = |a: usize, b: usize| {
        let with = draws.iter().filter(|d| d.labels[a] == d.labels[b]).count();
        with as f64 / 18.0
    };
    let mut seen = 0;
    for a in 0..9 {
        for b in 0..9 {
            near(fit.together(a, b).unwrap(), share(a, b), "together");
            seen += usize::from(share(a, b) > 0.1 && share(a, b) < 0.9);
        }
    }
    assert!(seen > 20, "chance decides: {seen}");
    assert!(fit.together(0, 9).is_err());
    // The stored partition that is closest to the shares.
    let clusters = fit.clusters();
    let error = |labels: &[u32]| -> f64 {
        let pair = |(a, b): (usize, usize)| {
            let with = f64::from(u8::from(labels[a] == labels[b]));
            (with - share(a, b)).powi(2)
        };
        (0..9)
            .flat_map(|a| (0..9).map(move |b| (a, b)))
            .map(pair)
            .sum()
    };
    let least = draws
        .iter()
        .map(|d| error(&d.labels))
        .fold(f64::INFINITY, f64::min);
    assert!(draws.iter().any(|d| d.labels == clusters.labels));
    within(error(&clusters.labels), least, 1e-5, "error");
    let number: usize = draws.iter().map(|d| d.parameters.len()).sum();
    near(clusters.mean_number, number as f64 / 18.0, "number");
    for a in 0..9 {
        let with: Vec<f64> = (0..9)
            .filter(|&b| b != a && clusters.labels[a] == clusters.labels[b])
            .map(|b| share(a, b))
            .collect();
        let expected = match with.len() {
            0 => 1.0,
            n => with.iter().sum::<f64>() / n as f64,
        };
        within(clusters.certainty[a], expected, 1e-6, "certainty");
    }
    // A new user under each draw.
    let new = Likes::new(ITEMS, &[(1, true), (4, false)]).unwrap();
    let (alone, evidence) = alone_of(&new);
    let mixtures = fit.mixtures(&model).unwrap();
    assert_eq!(mixtures.len(), 18);
    for (mixture, draw) in mixtures.iter().zip(&draws) {
        let user = mixture.user(&new).unwrap();
        let tau = draw.concentration;
        let (mut mass, mut like) = (tau * evidence, tau * evidence * alone[2]);
        for (k, parameter) in draw.parameters.iter().enumerate() {
            let n = draw.labels.iter().filter(|&&l| l as usize == k).count() as f64;
            let p: Vec<f64> = parameter.iter().map(|ln_p| ln_p[0].exp()).collect();
            mass += n * density(&p, &new);
            like += n * density(&p, &new) * p[2];
        }
        near(mixture.predict(&user, &2), like / mass, "new user");
    }
}

/// Which sweeps are stored, of how many chains, and what the diagnostics are of.
#[test]
fn draws_of_the_infinite_model_are_stored_as_planned() {
    let users = some_users(9, 6);
    let model = bernoulli();
    let whole = fit_gibbs(&model, &refs(&users), &gibbs(10, 10)).unwrap();
    let few = fit_gibbs(&model, &refs(&users), &gibbs(10, 4)).unwrap();
    assert_eq!(few.config(), &gibbs(10, 4));
    assert_eq!((few.stop(), few.chains().len()), (Stop::Completed, 3));
    for (few, whole) in few.chains().iter().zip(whole.chains()) {
        assert_eq!((whole.draws.len(), whole.trace.n_sweeps()), (10, 22));
        assert_eq!(few.trace, whole.trace);
        // The last of each of four equal parts of ten.
        let chosen = [2, 4, 7, 9].map(|at: usize| whole.draws[at].clone());
        assert_eq!(few.draws, chosen);
        assert_eq!(few.state, whole.draws[9]);
        for (at, draw) in whole.draws.iter().enumerate() {
            // After two sweeps each second one is kept.
            let row = whole.trace.row(3 + 2 * at);
            assert_eq!(row[0], draw.parameters.len() as f64);
            assert_eq!(row[1], draw.concentration);
            let ln_p = |(user, &label): (&Likes, &u32)| {
                let p = draw.parameters[label as usize].iter().map(|x| x[0].exp());
                density(&p.collect::<Vec<_>>(), user).ln()
            };
            let sum: f64 = users.iter().zip(&draw.labels).map(ln_p).sum();
            near(row[2], sum, "likelihood");
        }
    }
    assert_ne!(whole.chains()[0].state, whole.chains()[1].state);
    let other = DpGibbsConfig {
        seed: 5,
        ..gibbs(10, 10)
    };
    let other = fit_gibbs(&model, &refs(&users), &other).unwrap();
    assert_ne!(other.chains()[0].state, whole.chains()[0].state);
    for (scalar, (name, found)) in few.diagnostics().into_iter().enumerate() {
        assert_eq!(name, ["clusters", "concentration", "ln_likelihood"][scalar]);
        let kept = |chain: usize| -> Vec<f64> {
            let trace = &whole.chains()[chain].trace;
            (0..10).map(|at| trace.row(3 + 2 * at)[scalar]).collect()
        };
        let chains = [0, 1, 2].map(kept);
        assert_eq!(found, ChainDiagnostics::new(&chains), "{name}");
        let all: Vec<f64> = chains.concat();
        let mean = all.iter().sum::<f64>() / 30.0;
        near(found.mean.unwrap(), mean, &name);
        let square: f64 = all.iter().map(|x| (x - mean).powi(2)).sum();
        near(found.sd.unwrap(), (square / 29.0).sqrt(), &name);
    }
}

/// A chain starts at the mean of the prior of the concentration, and a move changes what it is of.
#[test]
fn chains_start_at_the_prior_and_make_their_schedule() {
    let users = some_users(9, 7);
    let (model, data) = (bernoulli(), refs(&users));
    for (moves, moved) in [
        (DpMove::Concentration, [true, false, false]),
        (DpMove::Parameters, [false, true, false]),
        (DpMove::Auxiliary { components: 2 }, [false, true, true]),
    ] {
        let config = DpGibbsConfig {
            moves: vec![moves],
            ..gibbs(10, 10)
        };
        let mut sampler = DpSampler::new(&model, &data, &config, 1).unwrap();
        let before = sampler.state().clone();
        assert_eq!(before.concentration, 2.0);
        assert_eq!(before.labels, (0..9).collect::<Vec<u32>>());
        sampler.sweep().unwrap();
        let after = sampler.state();
        let changed = [
            before.concentration != after.concentration,
            before.parameters != after.parameters,
            before.labels != after.labels,
        ];
        assert_eq!(changed, moved, "{moves:?}");
    }
}
