//! Data drawn from the model itself.

use npb_hbrec::npb_infer::{VbLimits, stream};
use npb_hbrec::{
    BaseConfig, ContentKernel, GaussianPrior, KernelScales, Likes, LinearTask, ProbitItems, Task,
    UserModel, learn_base, learn_gaussian, learn_scales,
};
use rand_distr::{Distribution, StandardNormal};

use crate::simulated::{Population, content};

/// Held-out log-likelihood of new users, in nats a rating.
fn held_out(model: &ProbitItems, population: &Population, given: usize) -> f64 {
    let (mut total, mut n) = (0.0, 0.0);
    for user in 1000..1200 {
        let p = population.user(1, user);
        let likes = population.likes(&p, given, 1, user);
        let alone = model.fit(&likes).unwrap();
        for item in (0..population.n_items).filter(|&i| !likes.items().contains(&(i as u32))) {
            let predicted = model.predict_alone(&alone, &item);
            total += p[item] * predicted.ln() + (1.0 - p[item]) * (1.0 - predicted).ln();
            n += 1.0;
        }
    }
    total / n
}

/// The learned base predicts new users nearly as well as the true one, and better than means alone; loadings nobody asked for are dropped.
#[test]
fn base_is_learned() {
    let population = Population::new(40, 2, 0.8, 1);
    let likes = population.database(500, 20, 1);
    let flat: Vec<f64> = population.loadings.concat();
    let truth = npb_hbrec::ItemPrior::new(&population.mean, &flat, &[0.0; 40], 0.0).unwrap();
    let truth = held_out(&ProbitItems::new(truth), &population, 10);
    let learned = |rank: usize| {
        // Loadings that nobody asked for take many iterations to go.
        let limits = VbLimits {
            max_iterations: 60,
            tolerance: 1e-5,
        };
        let config = BaseConfig {
            rank,
            limits,
            ..BaseConfig::default()
        };
        learn_base(&likes, None, &config, 0).unwrap()
    };
    let base = learned(6);
    assert_eq!(base.rank(), 2, "{:?}", base.item_variance());
    let ours = held_out(&ProbitItems::new(base.prior), &population, 10);
    let means = held_out(&ProbitItems::new(learned(0).prior), &population, 10);
    assert!(truth - ours < 0.012, "{truth} {ours}");
    assert!(ours - means > 0.03, "{ours} {means}");
}

/// Scales that made the data have nearly the largest evidence.
#[test]
fn scales_are_learned() {
    let content = content(60, 3);
    let truth = KernelScales {
        content: 2.0,
        constant: 0.3,
    };
    let prior = truth.prior(60, Some(&content), 0.0).unwrap();
    let loadings: Vec<Vec<f64>> = (0..60).map(|i| prior.row(i).to_vec()).collect();
    let population = Population {
        n_items: 60,
        mean: vec![0.0; 60],
        loadings,
    };
    let likes = population.database(150, 40, 2);
    let users: Vec<&Likes> = likes.users().iter().collect();
    let (found, most) = learn_scales(&users, 60, Some(&content), KernelScales::default()).unwrap();
    let model = ProbitItems::new(prior);
    let at_truth = npb_hbrec::summed_ln_evidence(&model, &users).unwrap();
    assert!(most >= at_truth - 0.5, "{most} {at_truth}");
    assert!(
        (found.content / truth.content).ln().abs() < 0.5,
        "{found:?}"
    );
    assert!(
        (found.constant / truth.constant).ln().abs() < 0.5,
        "{found:?}"
    );
}

/// Parametric hierarchical Bayes for tasks: the objective never falls, and mean and covariance are found.
#[test]
fn gaussian_base_of_tasks_is_learned() {
    let mut rng = stream(4, [0; 4]);
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let task = |_| {
        let (a, b) = (normal(), normal());
        let w = [2.0 + a, -1.0 + 0.5 * a + 0.5 * b];
        let rows: Vec<f64> = (0..20).map(|_| normal()).collect();
        let y: Vec<f64> = rows
            .chunks(2)
            .map(|x| x[0] * w[0] + x[1] * w[1] + 0.5 * normal())
            .collect();
        Task::new(2, &rows, &y).unwrap()
    };
    let tasks: Vec<Task<f64>> = (0..400).map(task).collect();
    let tasks: Vec<&Task<f64>> = tasks.iter().collect();
    let model = LinearTask::new(GaussianPrior::isotropic(2, 1.0).unwrap(), 0.25).unwrap();
    let limits = VbLimits {
        max_iterations: 60,
        tolerance: 1e-9,
    };
    let (learned, outcome) = learn_gaussian(&model, &tasks, &limits).unwrap();
    let bound: Vec<f64> = outcome.trace.iter().map(|r| r.elbo).collect();
    assert!(
        bound.windows(2).all(|w| w[1] >= w[0] - 1e-9 * w[0].abs()),
        "{bound:?}"
    );
    let prior = npb_hbrec::GaussianTask::prior(&learned);
    assert!((prior.mean()[0] - 2.0).abs() < 0.2 && (prior.mean()[1] + 1.0).abs() < 0.2);
    let c = prior.covariance();
    assert!((c[(0, 0)] - 1.0).abs() < 0.25 && (c[(0, 1)] - 0.5).abs() < 0.2);
    assert!((c[(1, 1)] - 0.5).abs() < 0.15);
}

/// The radial kernel's columns reproduce it, for items of the database and for new ones.
#[test]
fn radial_columns_are_the_kernel() {
    let rows: Vec<Option<Vec<f64>>> = (0..30)
        .map(|i| Some(vec![f64::from(i).sin(), f64::from(i).cos()]))
        .collect();
    let content = npb_hbrec::Content::new(&rows, ContentKernel::Rbf { length: 1.0 }).unwrap();
    let kernel = |x: &[f64], y: &[f64]| {
        // The mean squared distance of two points about their mean is twice their variance.
        let mean = |k: usize| rows.iter().flatten().map(|r| r[k]).sum::<f64>() / 30.0;
        let variance: f64 = (0..2)
            .map(|k| {
                rows.iter()
                    .flatten()
                    .map(|r| (r[k] - mean(k)).powi(2))
                    .sum::<f64>()
                    / 30.0
            })
            .sum();
        let distance: f64 = x.iter().zip(y).map(|(a, b)| (a - b).powi(2)).sum();
        (-distance / (2.0 * variance)).exp()
    };
    let new = [0.3, 0.4];
    let project = content.project(&new).unwrap();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(a, b)| a * b).sum::<f64>();
    for (i, x) in rows.iter().flatten().enumerate() {
        for (j, y) in rows.iter().flatten().enumerate() {
            assert!((dot(content.row(i), content.row(j)) - kernel(x, y)).abs() < 0.1);
        }
        assert!((dot(content.row(i), &project) - kernel(x, &new)).abs() < 0.1);
        let again = content.project(x).unwrap();
        assert!(
            again
                .iter()
                .zip(content.row(i))
                .all(|(a, b)| (a - b).abs() < 1e-6)
        );
    }
}
