//! Columns that say nothing: never observed, seen once, constant.

use npb_data::{Labels, Table};
use npb_infer::{SweepPlan, VbLimits};
use npb_iqgme::{
    FactorConfig, FactorInit, GibbsConfig, Imputation, QgmeConfig, Task, TasksConfig, fit,
    fit_factor, fit_gibbs, fit_qgme, fit_tasks,
};

use crate::data::config;

/// Ten rows: two columns of numbers, one constant with a hole, one seen once, one never.
fn table() -> Table {
    let gap = f64::NAN;
    let row = |i: usize| {
        let x = i as f64 - 4.5;
        let once = if i == 3 { 7.0 } else { gap };
        let constant = if i == 5 { gap } else { 2.5 };
        [x, 0.5 * x * x, constant, once, gap]
    };
    Table::from_nan_coded(10, 5, &(0..10).flat_map(row).collect::<Vec<f64>>()).unwrap()
}

fn check(name: &str, ignored: Vec<usize>, imputed: &Imputation, draws: &[Table]) {
    assert_eq!(ignored, [2, 3, 4], "{name}");
    let cell = |table: &Table, i, j| table.get(i, j);
    let (completed, sd) = (&imputed.completed, &imputed.sd);
    for i in 0..10 {
        assert_eq!(
            (cell(completed, i, 4), cell(sd, i, 4)),
            (None, None),
            "{name}"
        );
        assert_eq!(cell(completed, i, 2), Some(2.5), "{name}");
        assert_eq!(cell(sd, i, 2), Some(0.0), "{name}");
        assert_eq!(cell(completed, i, 3), Some(7.0), "{name}");
        assert_eq!(
            cell(sd, i, 3),
            Some(if i == 3 { 0.0 } else { 1.0 }),
            "{name}"
        );
    }
    if draws.is_empty() {
        return;
    }
    let drawn: Vec<f64> = draws.iter().map(|t| cell(t, 0, 3).unwrap()).collect();
    let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
    let square = drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
    assert!((mean - 7.0).abs() < 0.5, "{name}: {mean}");
    assert!((square / drawn.len() as f64 - 1.0).abs() < 0.5, "{name}");
    for draw in draws {
        assert_eq!(
            (cell(draw, 5, 2), cell(draw, 0, 4)),
            (Some(2.5), None),
            "{name}"
        );
        assert_eq!(cell(draw, 3, 3), Some(7.0), "{name}");
    }
}

#[test]
fn they_are_listed_and_never_made_up() {
    let table = table();
    let names: Vec<Option<&str>> = (0..10).map(|i| Some(["a", "b"][i / 5])).collect();
    let labels = Labels::from_strings(&names);
    let n = 80;
    let model = fit(&table, &labels, &config(1)).unwrap();
    let (imputed, draws) = (model.impute(&table), model.impute_draws(&table, n));
    check(
        "single",
        model.ignored_columns(),
        &imputed.unwrap(),
        &draws.unwrap(),
    );
    let (imputed, draws) = (
        model.impute_training(&table, &labels),
        model.impute_training_draws(&table, &labels, n),
    );
    check(
        "training",
        model.ignored_columns(),
        &imputed.unwrap(),
        &draws.unwrap(),
    );

    let tasks = TasksConfig {
        single: config(1),
        ..TasksConfig::default()
    };
    let task = Task {
        name: "one",
        table: &table,
        labels: &labels,
    };
    let model = fit_tasks(&[task], &tasks).unwrap();
    assert_eq!(model.ignored_columns(), [2, 3, 4]);

    let factor = FactorConfig {
        starts: vec![FactorInit::Pooled(1)],
        limits: VbLimits {
            max_iterations: 5,
            ..FactorConfig::default().limits
        },
        folds: 0,
        ..FactorConfig::default()
    };
    let model = fit_factor(&table, &labels, &factor).unwrap();
    let imputed = model.impute(&table).unwrap();
    check("factor", model.ignored_columns(), &imputed, &[]);

    let gibbs = GibbsConfig {
        model: config(1),
        chains: 1,
        sweeps: SweepPlan {
            burn_in: 5,
            keep: 10,
            thin: 1,
        },
        ..GibbsConfig::default()
    };
    let model = fit_gibbs(&table, &labels, &gibbs).unwrap();
    let (imputed, draws) = (model.impute(&table), model.impute_draws(&table, n));
    check(
        "gibbs",
        model.ignored_columns(),
        &imputed.unwrap(),
        &draws.unwrap(),
    );

    let model = fit_qgme(&table, &labels, &QgmeConfig::default()).unwrap();
    let (imputed, draws) = (model.impute(&table), model.impute_draws(&table, n));
    check(
        "finite",
        model.ignored_columns(),
        &imputed.unwrap(),
        &draws.unwrap(),
    );
}
