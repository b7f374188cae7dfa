//! Runs on normal scores of the features: when they are made, what they are for, and what they leave alone.

use npb_data::{Labels, Table};
use npb_infer::stream;
use npb_iqgme::{
    FeatureScale, Init, IqgmeConfig, IqgmeFit, MultiTaskFit, Saved, Task, TaskInit, TasksConfig,
    fit, fit_tasks,
};
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::data::{evaluate, three_gaussians};

/// As of other tests, with two starts on each scale.
fn config(seed: u64) -> IqgmeConfig {
    IqgmeConfig {
        starts: vec![Init::KMeans(1), Init::PerClass(1)],
        normal_scores: true,
        ..crate::data::config(seed)
    }
}

/// Rows of one Gaussian whose class is cut by a plane, but what is measured is its cube's exponential: a few values are far out.
fn skewed(seed: u64, n: usize, missing: f64) -> (Table, Labels) {
    let mut rng = stream(seed, [0, 0, 11, 0]);
    let (mut values, mut seen, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..n {
        let row: [f64; 3] = std::array::from_fn(|_| rng.sample(StandardNormal));
        let noise: f64 = rng.sample(StandardNormal);
        let score = 2.0 * row[0] - 2.0 * row[1] + 0.5 * noise;
        values.extend(row.map(|x| (2.0 * x).exp()));
        seen.extend((0..3).map(|_| rng.random::<f64>() >= missing));
        labels.push(Some(if score > 0.0 { "up" } else { "down" }));
    }
    (
        Table::new(n, 3, values, &seen).unwrap(),
        Labels::from_strings(&labels),
    )
}

/// A fit with runs on normal scores, and one without.
fn with_and_without(table: &Table, labels: &Labels, seed: u64) -> (IqgmeFit, IqgmeFit) {
    let fitted = |normal_scores: bool| {
        let config = IqgmeConfig {
            normal_scores,
            ..config(seed)
        };
        fit(table, labels, &config).unwrap()
    };
    (fitted(true), fitted(false))
}

fn on(scale: FeatureScale) -> impl Fn(&IqgmeFit) -> f64 {
    move |fitted| {
        let runs = fitted.members().iter().filter(|run| run.scale == scale);
        runs.map(|run| run.stacking_weight).sum()
    }
}

#[test]
fn labels_choose_the_scale_that_tells_more() {
    let (table, labels) = skewed(1, 120, 0.1);
    let (new, truth) = skewed(2, 1000, 0.1);
    let (both, own) = with_and_without(&table, &labels, 1);
    let (of_both, of_own) = (
        evaluate(both.classes(), &both.predict_classes(&new).unwrap(), &truth),
        evaluate(own.classes(), &own.predict_classes(&new).unwrap(), &truth),
    );
    assert!(
        of_both.log_loss < of_own.log_loss - 0.03,
        "{of_both:?} {of_own:?}"
    );
    assert!(on(FeatureScale::NormalScores)(&both) > 0.4);
    assert_eq!(on(FeatureScale::NormalScores)(&own), 0.0);
    // Intervals are of runs on both scales, and files keep them.
    let means = both.predict_proba(&new).unwrap();
    let intervals = both.predict_interval(&new, 0.9).unwrap();
    let inside = intervals.iter().zip(&means);
    let inside = inside.filter(|(i, mean)| (i.lower..=i.upper).contains(*mean));
    assert!(inside.count() > 900);
    let read = IqgmeFit::from_bytes(&both.to_bytes().unwrap()).unwrap();
    assert_eq!(read.predict_proba(&new).unwrap(), means);
    // A value far beyond those of training is one on the edge of them, or little more.
    let wild = Table::complete(2, 3, vec![1e200, 1.0, 1.0, 1.0, 1e200, 1.0]).unwrap();
    let wild = both.predict_proba(&wild).unwrap();
    assert!(wild[0] > 0.6 && wild[1] < 0.4, "{wild:?}");
}

#[test]
fn what_is_said_of_features_is_of_their_own_scale() {
    let (table, labels) = skewed(3, 80, 0.3);
    let (both, own) = with_and_without(&table, &labels, 3);
    assert_eq!(both.members().len(), 4);
    assert_eq!(both.members()[0].elbo(), own.members()[0].elbo());
    assert!(both.members()[2..].iter().all(|run| run.elbo_weight == 0.0));
    let (a, b) = (
        both.impute(&table).unwrap().completed,
        own.impute(&table).unwrap().completed,
    );
    assert_eq!(a.values(), b.values());
    assert_eq!(
        both.ln_density(&table).unwrap(),
        own.ln_density(&table).unwrap()
    );
    assert_eq!(both.components().len(), own.components().len());
    let cells = |fitted: &IqgmeFit| fitted.training_cells(&table, &labels).unwrap();
    assert_eq!(cells(&both), cells(&own));
}

/// Scores of two values are their values but for the unit; where no fold says which scale is better there is nothing to choose by.
#[test]
fn runs_on_scores_are_made_where_they_can_say_more() {
    let (table, labels) = three_gaussians(5, 60, 1, 0.2, 0.0);
    let n_runs = |table: &Table, config: &IqgmeConfig| {
        let fitted = fit(table, &labels, config).unwrap();
        fitted.members().len()
    };
    assert_eq!(n_runs(&table, &config(5)), 4);
    let halves = table.map(|_, _, x| f64::from(u8::from(x > 0.0))).unwrap();
    assert_eq!(n_runs(&halves, &config(5)), 2);
    let by_bounds = IqgmeConfig {
        folds: 0,
        ..config(5)
    };
    assert_eq!(n_runs(&table, &by_bounds), 2);
    let twice = IqgmeConfig {
        restarts: 2,
        ..config(5)
    };
    assert_eq!(n_runs(&table, &twice), 8);
}

#[test]
fn many_tasks_have_both_scales() {
    let sets: Vec<(Table, Labels)> = (0..4).map(|j| skewed(20 + j, 40, 0.1)).collect();
    let names = ["a", "b", "c", "d"];
    let tasks: Vec<Task<'_>> = names
        .iter()
        .zip(&sets)
        .map(|(name, (table, labels))| Task {
            name,
            table,
            labels,
        })
        .collect();
    let fitted = |normal_scores: bool| {
        let mut config = TasksConfig {
            starts: vec![TaskInit::Separate(1), TaskInit::SharedGaussian(2)],
            ..super::tasks::data::config(2)
        };
        config.single.normal_scores = normal_scores;
        fit_tasks(&tasks, &config).unwrap()
    };
    let (both, own) = (fitted(true), fitted(false));
    let (new, truth) = skewed(30, 1000, 0.1);
    let loss = |fitted: &MultiTaskFit| {
        let p = fitted.predict_classes("a", &new).unwrap();
        evaluate(fitted.classes(), &p, &truth).log_loss
    };
    assert!(
        loss(&both) < loss(&own) - 0.03,
        "{} {}",
        loss(&both),
        loss(&own)
    );
    // What is said of the tasks is of their own scale.
    assert_eq!(both.best().scale, FeatureScale::Standardised);
    assert_eq!(both.best().elbo(), own.best().elbo());
    // A new task is put into all runs, and files keep them.
    let (table, labels) = skewed(40, 20, 0.1);
    let new_task = Task {
        name: "new",
        table: &table,
        labels: &labels,
    };
    let grown = both.with_task(&new_task).unwrap();
    let found = evaluate(
        grown.classes(),
        &grown.predict_classes("new", &new).unwrap(),
        &truth,
    )
    .log_loss;
    assert!(found < loss(&own), "{found}");
    let read = MultiTaskFit::from_bytes(&grown.to_bytes().unwrap()).unwrap();
    assert_eq!(
        read.predict_proba("new", &new).unwrap(),
        grown.predict_proba("new", &new).unwrap()
    );
    let intervals = both.predict_interval("c", &new, 0.9).unwrap();
    assert!(intervals.iter().all(|i| i.lower <= i.upper));
}
