//! Cross-validation by hand: for each start and fold a fit of the other rows, made and asked as a user would.

use npb_data::{Labels, Table};
use npb_infer::VbLimits;
use npb_infer::ensemble::{Calibration, stack};

use super::crossval::{Side, sides};

use crate::vb::tests::simulated::{config as simulated_config, three_gaussians};
use crate::{
    FactorConfig, FactorInit, FeatureScale, Init, IqgmeConfig, Task, TaskInit, TasksConfig, fit,
    fit_factor, fit_tasks,
};

const FOLDS: usize = 3;

/// Twice as many iterations as members make without a fold, and few of them: the limit counts.
fn limits(max_iterations: u64) -> VbLimits {
    VbLimits {
        max_iterations,
        tolerance: 1e-12,
    }
}

/// Calibrates and weighs what members said of labels: member; label, class.
fn checked(
    by_member: &[Vec<f64>],
    truth: &[usize],
    prior: &[f64],
    found: impl Fn(usize) -> (f64, Calibration),
) {
    let calibrations: Vec<Calibration> = by_member
        .iter()
        .map(|of| Calibration::fit(of, truth))
        .collect();
    let of_truth = |(of, calibration): (&Vec<f64>, &Calibration)| -> Vec<f64> {
        let each = of.chunks_exact(2).zip(truth);
        each.map(|(p, &class)| calibration.of(p)[class]).collect()
    };
    let each = by_member.iter().zip(&calibrations);
    let weights = stack(&each.map(of_truth).collect::<Vec<_>>(), prior);
    for (k, (weight, calibration)) in weights.iter().zip(&calibrations).enumerate() {
        let (own, of) = found(k);
        assert!((own - weight).abs() < 1e-9, "{k}: {own} {weight}");
        assert_eq!(&of, calibration, "{k}");
    }
    assert!((weights[0] - prior[0]).abs() > 1e-3, "{weights:?}");
}

/// The classes of the rows that a side leaves out, in order.
fn truth(labels: &Labels, side: &Side, classes: &[String]) -> Vec<usize> {
    let class = |&i: &usize| {
        let name = labels.name(i).expect("only labelled rows are left out");
        classes.iter().position(|c| c == name).unwrap()
    };
    side.left_out.iter().map(class).collect()
}

/// Each row with a label is left out once, and no other.
fn each_once(sides: &[&Side], labels: &Labels) {
    let mut left: Vec<usize> = sides.iter().flat_map(|s| s.left_out.clone()).collect();
    left.sort_unstable();
    let labelled = (0..labels.n_rows()).filter(|&i| labels.name(i).is_some());
    assert!(left.into_iter().eq(labelled));
    let n = labels.n_rows();
    assert!(sides.iter().all(|s| s.kept.len() + s.left_out.len() == n));
}

#[test]
fn members_of_one_table_are_weighed_by_folds() {
    let (table, labels) = three_gaussians(161, 70, 1, 0.2, 0.2);
    let starts = [Init::KMeans(1), Init::KMeans(3), Init::PerClass(1)];
    let config = IqgmeConfig {
        truncation: 5,
        mean_strength: 0.5,
        starts: starts.to_vec(),
        normal_scores: false,
        folds: FOLDS,
        limits: limits(30),
        ..simulated_config(161)
    };
    let fitted = fit(&table, &labels, &config).unwrap();
    let members = fitted.members();
    let folds = sides(&[&labels], FOLDS, config.seed);
    each_once(&folds.iter().map(|f| &f[0]).collect::<Vec<_>>(), &labels);
    let said = |start: Init| -> Vec<f64> {
        let without = |fold: &Vec<Side>| {
            let config = IqgmeConfig {
                starts: vec![start],
                folds: 0,
                limits: limits(15),
                ..config.clone()
            };
            let (rows, names) = (
                table.select_rows(&fold[0].kept),
                labels.select_rows(&fold[0].kept),
            );
            let fitted = fit(&rows, &names, &config).unwrap();
            let left_out = table.select_rows(&fold[0].left_out);
            fitted.predict_classes(&left_out).unwrap().concat()
        };
        folds.iter().flat_map(without).collect()
    };
    let by_member: Vec<Vec<f64>> = members.iter().map(|m| said(m.start)).collect();
    let truth: Vec<usize> = folds
        .iter()
        .flat_map(|fold| truth(&labels, &fold[0], fitted.classes()))
        .collect();
    let prior: Vec<f64> = members.iter().map(|m| m.elbo_weight).collect();
    checked(&by_member, &truth, &prior, |k| {
        (members[k].stacking_weight, members[k].calibration.clone())
    });
}

#[test]
fn factor_analytic_members_are_weighed_by_folds() {
    let (table, labels) = three_gaussians(162, 60, 2, 0.1, 0.2);
    let config = FactorConfig {
        scale: FeatureScale::Standardised,
        truncation: 4,
        max_factors: 3,
        starts: vec![FactorInit::Pooled(1), FactorInit::PerClass(2)],
        folds: FOLDS,
        limits: limits(30),
        seed: 162,
        ..FactorConfig::default()
    };
    let fitted = fit_factor(&table, &labels, &config).unwrap();
    let members = fitted.members();
    let folds = sides(&[&labels], FOLDS, config.seed);
    let said = |start: FactorInit| -> Vec<f64> {
        let without = |fold: &Vec<Side>| {
            let config = FactorConfig {
                starts: vec![start],
                folds: 0,
                limits: limits(15),
                ..config.clone()
            };
            let (rows, names) = (
                table.select_rows(&fold[0].kept),
                labels.select_rows(&fold[0].kept),
            );
            let fitted = fit_factor(&rows, &names, &config).unwrap();
            let left_out = table.select_rows(&fold[0].left_out);
            fitted.predict_classes(&left_out).unwrap().concat()
        };
        folds.iter().flat_map(without).collect()
    };
    let by_member: Vec<Vec<f64>> = members.iter().map(|m| said(m.start)).collect();
    let truth: Vec<usize> = folds
        .iter()
        .flat_map(|fold| truth(&labels, &fold[0], fitted.classes()))
        .collect();
    // Beside so many features bounds say little of labels.
    checked(&by_member, &truth, &[0.5; 2], |k| {
        (members[k].stacking_weight, members[k].calibration.clone())
    });
}

/// The same with the rows of several tasks dealt together: labels of all tasks weigh the members.
#[test]
fn members_of_many_tasks_are_weighed_by_the_folds_of_all() {
    let sets: Vec<(Table, Labels)> = [40, 31]
        .iter()
        .zip(163..)
        .map(|(&n, seed)| three_gaussians(seed, n, 1, 0.2, 0.2))
        .collect();
    let names = ["a", "b"];
    let starts = [TaskInit::Separate(1), TaskInit::Pooled(Init::KMeans(3))];
    let config = TasksConfig {
        single: IqgmeConfig {
            truncation: 5,
            normal_scores: false,
            folds: FOLDS,
            limits: limits(60),
            seed: 163,
            ..IqgmeConfig::default()
        },
        atoms: 8,
        starts: starts.to_vec(),
        ..TasksConfig::default()
    };
    let tasks = |sets: &[(Table, Labels)], config: &TasksConfig| {
        let each = names.iter().zip(sets);
        let tasks: Vec<Task<'_>> = each
            .map(|(name, (table, labels))| Task {
                name,
                table,
                labels,
            })
            .collect();
        fit_tasks(&tasks, config).unwrap()
    };
    let fitted = tasks(&sets, &config);
    let members = fitted.members();
    let labels: Vec<&Labels> = sets.iter().map(|(_, labels)| labels).collect();
    let folds = sides(&labels, FOLDS, config.single.seed);
    for (task, labels) in labels.iter().enumerate() {
        each_once(&folds.iter().map(|f| &f[task]).collect::<Vec<_>>(), labels);
    }
    let said = |start: TaskInit| -> Vec<f64> {
        let without = |fold: &Vec<Side>| {
            let mut config = TasksConfig {
                starts: vec![start],
                ..config.clone()
            };
            (config.single.folds, config.single.limits) = (0, limits(30));
            let kept = sets.iter().zip(fold).map(|((table, labels), side)| {
                (
                    table.select_rows(&side.kept),
                    labels.select_rows(&side.kept),
                )
            });
            let fitted = tasks(&kept.collect::<Vec<_>>(), &config);
            let each = names.iter().zip(&sets).zip(fold);
            let of_task = |((name, (table, _)), side): ((&&str, &(Table, Labels)), &Side)| {
                let left_out = table.select_rows(&side.left_out);
                fitted.predict_classes(name, &left_out).unwrap().concat()
            };
            each.flat_map(of_task).collect::<Vec<f64>>()
        };
        folds.iter().flat_map(without).collect()
    };
    let by_member: Vec<Vec<f64>> = members.iter().map(|m| said(m.start)).collect();
    let of_fold = |fold: &Vec<Side>| -> Vec<usize> {
        let each = labels.iter().zip(fold);
        each.flat_map(|(labels, side)| truth(labels, side, fitted.classes()))
            .collect()
    };
    let truth: Vec<usize> = folds.iter().flat_map(of_fold).collect();
    checked(&by_member, &truth, &[0.5; 2], |k| {
        (members[k].stacking_weight, members[k].calibration.clone())
    });
}
