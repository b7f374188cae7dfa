//! Settings at the ends of their ranges, and beyond: an error that names the field, or an answer; never a panic or an endless loop.

use npb_data::{Labels, Table};
use npb_infer::{SweepPlan, VbLimits};
use npb_iqgme::{
    FactorConfig, FeatureScale, GibbsConfig, IqgmeConfig, IqgmeError, QgmeConfig, TasksConfig, fit,
    fit_factor, fit_gibbs, fit_qgme, fit_tasks,
};

use crate::data::{config, three_gaussians};
use crate::{factor, tasks};

/// Inside the ranges of most fields, and outside all.
const INSIDE: [f64; 2] = [1e-10, 1e10];
const OUTSIDE: [f64; 3] = [1e-300, 1e308, f64::NAN];

/// A field and how it is set.
type Field<C> = (&'static str, fn(&mut C) -> &mut f64);

const SINGLE: [Field<IqgmeConfig>; 8] = [
    ("concentration", |c| &mut c.concentration.shape),
    ("concentration", |c| &mut c.concentration.rate),
    ("mean_strength", |c| &mut c.mean_strength),
    ("dof_excess", |c| &mut c.dof_excess),
    ("dof_per_feature", |c| &mut c.dof_per_feature),
    ("expert", |c| &mut c.expert.shape),
    ("expert", |c| &mut c.expert.rate),
    ("expert_mean_strength", |c| &mut c.expert_mean_strength),
];

const TOP: [Field<TasksConfig>; 2] = [
    ("global_concentration", |c| {
        &mut c.global_concentration.shape
    }),
    ("global_concentration", |c| &mut c.global_concentration.rate),
];

const FACTOR: [Field<FactorConfig>; 14] = [
    ("concentration", |c| &mut c.concentration.shape),
    ("concentration", |c| &mut c.concentration.rate),
    ("loading", |c| &mut c.loading.shape),
    ("loading", |c| &mut c.loading.rate),
    ("mean", |c| &mut c.mean.shape),
    ("mean", |c| &mut c.mean.rate),
    ("noise", |c| &mut c.noise.shape),
    ("noise", |c| &mut c.noise.rate),
    ("expert", |c| &mut c.expert.shape),
    ("expert", |c| &mut c.expert.rate),
    ("expert_mean_strength", |c| &mut c.expert_mean_strength),
    ("indicator_on", |c| &mut c.indicator_on),
    ("indicator_off", |c| &mut c.indicator_off),
    ("cluster_noise", |c| &mut c.cluster_noise),
];

const FINITE: [Field<QgmeConfig>; 2] = [
    ("covariance_rows", |c| &mut c.covariance_rows),
    ("expert_ridge", |c| &mut c.expert_ridge),
];

/// Fits with every field at every value. Zero is a value that some fields have a meaning for, so small numbers outside may be inside.
fn try_all<C: Clone, T>(
    fields: &[Field<C>],
    good: &C,
    fit: impl Fn(C) -> Result<T, IqgmeError>,
    exercise: impl Fn(T),
) {
    for (name, field) in fields {
        for value in INSIDE.into_iter().chain(OUTSIDE) {
            let mut config = good.clone();
            *field(&mut config) = value;
            match fit(config) {
                Ok(fitted) => {
                    assert!(value < 1e100, "{name} = {value:e} was accepted");
                    exercise(fitted);
                }
                // With the configuration that it is in, if there is one: `single.elbo_temperature`.
                Err(IqgmeError::Config(error)) => {
                    assert_eq!(error.field.rsplit('.').next(), Some(*name), "{error}");
                }
                // Chains may find that a setting asks for too much.
                Err(IqgmeError::Chain(failed))
                    if matches!(*failed.error, IqgmeError::TooManyComponents { .. }) =>
                {
                    assert_eq!(*name, "concentration");
                }
                Err(error) => panic!("{name} = {value:e}: {error}"),
            }
        }
    }
}

fn finite(probabilities: Vec<f64>, what: &str) {
    assert!(probabilities.iter().all(|p| p.is_finite()), "{what}");
}

#[test]
fn variational_fits() {
    let (table, labels) = three_gaussians(1, 30, 1, 0.2, 0.1);
    try_all(
        &SINGLE,
        &config(1),
        |config| fit(&table, &labels, &config),
        |fitted| finite(fitted.predict_proba(&table).unwrap(), "probabilities"),
    );
}

#[test]
fn chains() {
    let (table, labels) = three_gaussians(2, 20, 0, 0.2, 0.1);
    {
        let with = |model: IqgmeConfig| GibbsConfig {
            model,
            sweeps: SweepPlan {
                burn_in: 2,
                keep: 3,
                thin: 1,
            },
            chains: 1,
            stored_draws: 2,
            ..GibbsConfig::default()
        };
        try_all(
            &SINGLE,
            &config(2),
            |config| fit_gibbs(&table, &labels, &with(config)),
            |fitted| finite(fitted.predict_proba(&table).unwrap(), "probabilities"),
        );
    }
}

#[test]
fn finite_mixtures() {
    let (table, labels) = three_gaussians(3, 30, 1, 0.2, 0.1);
    try_all(
        &FINITE,
        &QgmeConfig::default(),
        |config| fit_qgme(&table, &labels, &config),
        |fitted| finite(fitted.predict_proba(&table).unwrap(), "probabilities"),
    );
}

#[test]
fn many_tasks() {
    let made = tasks::data::two_kinds(4, 3, 15, 0.2, 0.1);
    let good = tasks::data::config(4);
    let exercise = |_| ();
    try_all(
        &TOP,
        &good,
        |config| fit_tasks(&made.borrowed(), &config),
        exercise,
    );
    let with = |single: IqgmeConfig| TasksConfig {
        single,
        ..good.clone()
    };
    try_all(
        &SINGLE,
        &good.single,
        |single| fit_tasks(&made.borrowed(), &with(single)),
        exercise,
    );
}

#[test]
fn factor_analysers() {
    let (table, labels, _) = factor::data::Simulation::small().draw(5);
    let rows: Vec<usize> = (0..30).collect();
    let (table, labels): (Table, _) = (table.select_rows(&rows), labels.select_rows(&rows));
    let good = FactorConfig {
        limits: VbLimits {
            max_iterations: 20,
            ..FactorConfig::default().limits
        },
        folds: 0,
        ..factor::data::config(5)
    };
    try_all(
        &FACTOR,
        &good,
        |config| fit_factor(&table, &labels, &config),
        |fitted| finite(fitted.predict_proba(&table).unwrap(), "probabilities"),
    );
}

/// All refuse alike, whatever the mean of the rows is that they happen to look at, and name the cell in the user's table.
#[test]
fn differences_beyond_all_numbers() {
    for n in [12, 13, 40] {
        let sign = |i: usize| if i % 2 == 1 { -1.0 } else { 1.0 };
        let cells = |size: f64| (0..n).flat_map(move |i| [(i % 7) as f64, size * sign(i)]);
        let table = |size: f64| Table::complete(n, 2, cells(size).collect()).unwrap();
        let names: Vec<_> = (0..n).map(|i| Some(["a", "b"][i / 2 % 2])).collect();
        let labels = Labels::from_strings(&names);
        let mut chains = GibbsConfig {
            chains: 1,
            ..GibbsConfig::default()
        };
        (chains.sweeps.burn_in, chains.sweeps.keep) = (1, 2);
        let config = IqgmeConfig::default();
        let all = |table: &Table| {
            [
                fit(table, &labels, &config).and_then(|fit| fit.predict_proba(table)),
                fit_gibbs(table, &labels, &chains).and_then(|fit| fit.predict_proba(table)),
                fit_qgme(table, &labels, &QgmeConfig::default())
                    .and_then(|fit| fit.predict_proba(table)),
            ]
        };
        for answer in all(&table(f64::MAX)) {
            let said = answer.unwrap_err().to_string();
            assert!(
                said.contains("row 1, column 1: -1.79") && said.contains("too far"),
                "{n}: {said}"
            );
        }
        for answer in all(&table(f64::MAX / 2.0)) {
            finite(answer.unwrap(), "half as far");
        }
    }
}

/// A value that is in no relation to the rows of a fold is in some to those of the whole table.
#[test]
fn values_too_far_from_those_of_a_fold() {
    let far = [
        1e-300, 1e300, 4e-300, 0.0, 2e-300, 3e-300, 1.5e-300, -1e-300,
    ];
    let table = Table::complete(8, 1, far.to_vec()).unwrap();
    let labels = Labels::from_strings(&["a", "b", "b", "a", "b", "a", "b", "a"].map(Some));
    for seed in 0..10 {
        let config = IqgmeConfig {
            seed,
            ..IqgmeConfig::default()
        };
        let fitted = fit(&table, &labels, &config).unwrap();
        finite(fitted.predict_proba(&table).unwrap(), "probabilities");
        for scale in [FeatureScale::NormalScores, FeatureScale::Standardised] {
            let config = FactorConfig {
                scale,
                seed,
                ..FactorConfig::default()
            };
            let fitted = fit_factor(&table, &labels, &config).unwrap();
            finite(fitted.predict_proba(&table).unwrap(), "probabilities");
        }
    }
}
