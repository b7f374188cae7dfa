//! What a fit was given comes back as it was, of every kind of fit.

use npb_data::{Labels, Table};
use npb_infer::{Stop, SweepPlan, VbLimits};
use npb_iqgme::{
    FactorConfig, FactorInit, GibbsConfig, Init, IqgmeConfig, QgmeConfig, Task, TaskInit,
    TasksConfig, fit, fit_factor, fit_gibbs, fit_qgme, fit_tasks,
};

use super::single::odd;
use crate::data::three_gaussians;

/// Columns of odd names: one constant, one never seen, then two of numbers and one more constant.
fn example() -> (Table, Labels) {
    let (table, _) = three_gaussians(151, 40, 0, 0.1, 0.0);
    let cell = |i: usize, j: usize| match j {
        0 => -7.25,
        1 => f64::NAN,
        4 => 3.0,
        _ => table.get(i, j - 2).unwrap_or(f64::NAN),
    };
    let cells = (0..40).flat_map(|i| (0..5).map(move |j| (i, j)));
    let cells: Vec<f64> = cells.map(|(i, j)| cell(i, j)).collect();
    let names = ["5", "never", "a b", "é", "0"].map(str::to_owned);
    let table = Table::from_nan_coded(40, 5, &cells).unwrap();
    // The classes of the labels are in an order of their own, and one has no row.
    let classes = ["zebra", "none of it", "ape"].map(str::to_owned).to_vec();
    let names_of = |i: usize| match i % 5 {
        0 => None,
        k => Some(if k < 3 { "ape" } else { "zebra" }),
    };
    let labels: Vec<Option<&str>> = (0..40).map(names_of).collect();
    (
        table.with_column_names(names.to_vec()).unwrap(),
        Labels::with_classes(classes, &labels).unwrap(),
    )
}

/// Of all fits: classes, columns, configuration.
macro_rules! is_described {
    ($fit:expr, $config:expr) => {
        is_described!($fit, $config, ["zebra", "ape"]);
    };
    ($fit:expr, $config:expr, $classes:expr) => {
        let (fit, config) = (&$fit, &$config);
        assert_eq!(fit.classes(), $classes);
        assert_eq!(fit.column_names(), ["5", "never", "a b", "é", "0"]);
        assert_eq!(fit.model_columns(), [2, 3]);
        assert_eq!(fit.ignored_columns(), [0, 1, 4]);
        assert_eq!(fit.config(), config);
    };
}

/// Of those with members: the best one's state, trace and stop are told.
macro_rules! has_members {
    ($fit:expr, $best:expr, $n:expr) => {
        let (fit, best): (_, usize) = (&$fit, $best);
        assert_eq!(fit.members().len(), $n);
        let member = &fit.members()[best];
        assert!(std::ptr::eq(fit.best(), member));
        assert!(std::ptr::eq(fit.state(), &member.state));
        assert_eq!((fit.trace(), fit.stop()), (&member.trace[..], member.stop));
        assert_eq!(fit.stop(), Stop::MaxIterations);
        assert_eq!(fit.trace().len(), 5);
        assert_eq!(member.elbo(), member.trace[4].elbo);
    };
}

#[test]
fn what_was_given_comes_back() {
    let (table, labels) = example();
    let limits = VbLimits {
        max_iterations: 5,
        tolerance: 1e-12,
    };
    let single = IqgmeConfig {
        limits,
        normal_scores: false,
        folds: 0,
        ..odd(17)
    };
    let model = fit(&table, &labels, &single).unwrap();
    is_described!(model, single);
    has_members!(model, 0, 2);

    let gibbs = GibbsConfig {
        model: single.clone(),
        chains: 2,
        sweeps: SweepPlan {
            burn_in: 1,
            keep: 3,
            thin: 2,
        },
        stored_draws: 2,
        ..GibbsConfig::default()
    };
    let chains = fit_gibbs(&table, &labels, &gibbs).unwrap();
    is_described!(chains, gibbs);
    assert_eq!(chains.chains().len(), 2);
    assert!(
        chains
            .chains()
            .iter()
            .all(|chain| chain.stop == Stop::Completed)
    );

    let finite = QgmeConfig {
        components: 2,
        restarts: 3,
        covariance_rows: 0.7,
        expert_ridge: 0.3,
        limits,
        seed: 19,
    };
    is_described!(fit_qgme(&table, &labels, &finite).unwrap(), finite);

    let factor = FactorConfig {
        limits,
        folds: 0,
        starts: vec![FactorInit::Pooled(1), FactorInit::Own(2)],
        seed: 23,
        ..FactorConfig::default()
    };
    let model = fit_factor(&table, &labels, &factor).unwrap();
    is_described!(model, factor);
    has_members!(model, 0, 2);

    let tasks = TasksConfig {
        single: IqgmeConfig {
            elbo_temperature: 1e9,
            ..single
        },
        atoms: 7,
        starts: vec![
            TaskInit::SharedGaussian(1),
            TaskInit::Pooled(Init::KMeans(2)),
            TaskInit::Separate(1),
        ],
        ..TasksConfig::default()
    };
    let task = |name| Task {
        name,
        table: &table,
        labels: &labels,
    };
    let model = fit_tasks(&[task("one"), task("1"), task("")], &tasks).unwrap();
    // Tasks may have orders of their own: the classes of all are in alphabetical order.
    is_described!(model, tasks, ["ape", "zebra"]);
    assert_eq!(model.tasks(), ["one", "1", ""]);
    // The highest of those whose atoms have Gaussians of their own.
    let own = |k: &usize| model.members()[*k].start != TaskInit::SharedGaussian(1);
    let higher = |a: &usize, b: &usize| {
        let elbo = |k: usize| model.members()[k].elbo();
        elbo(*a).total_cmp(&elbo(*b))
    };
    let best = (0..3).filter(own).max_by(higher).unwrap();
    has_members!(model, best, 3);
}
