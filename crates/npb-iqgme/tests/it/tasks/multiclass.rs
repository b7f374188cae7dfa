//! More than two classes.

use npb_data::{Labels, Table};
use npb_infer::stream;
use npb_infer::testing::{attack_file, same_bits_on_threads};
use npb_iqgme::{
    AtomSummary, Init, IqgmeConfig, MultiTaskData, MultiTaskFit, MultiTaskVb, Saved, Task,
    TaskInit, TaskMember, TasksConfig, fit, fit_tasks,
};
use rand::RngExt;
use rand_distr::StandardNormal;

use super::bound::{never_falls, starts};
use super::data::{Tasks, config};
use crate::data::{evaluate, intervals_agree};
use crate::gaussians::sectors;

/// Tasks that are cut the same way, of these sizes.
fn alike(seed: u64, sizes: &[usize], classes: usize, missing: f64, unlabelled: f64) -> Tasks {
    let task =
        |(j, &n): (usize, &usize)| sectors(100 * seed + j as u64, n, classes, missing, unlabelled);
    Tasks::new(sizes.iter().enumerate().map(task).collect())
}

#[test]
fn bound_never_falls_after_any_single_update() {
    for seed in 0..12 {
        let missing = [0.0, 0.2, 0.5][seed as usize % 3];
        let unlabelled = [0.0, 0.3, 0.8][seed as usize / 3 % 3];
        let classes = 3 + seed as usize % 2;
        let tasks = alike(seed, &[30, 9, 1, 40, 0], classes, missing, unlabelled);
        let config = config(seed);
        let data = MultiTaskData::new(&tasks.borrowed(), &config).unwrap();
        let mut vb = MultiTaskVb::new(&data, config, starts(seed), 0).unwrap();
        never_falls(&mut vb, 20, seed);
    }
}

#[test]
fn tasks_of_three_classes_help_each_other() {
    let tasks = alike(1, &[20; 6], 3, 0.1, 0.0);
    let config = TasksConfig {
        starts: vec![
            TaskInit::Pooled(Init::KMeans(4)),
            TaskInit::SeparatePerClass(1),
            TaskInit::SharedGaussian(3),
        ],
        ..config(1)
    };
    let model = fit_tasks(&tasks.borrowed(), &config).unwrap();
    assert_eq!(model.classes(), ["a", "b", "c"]);
    let (rows, truth) = sectors(7, 500, 3, 0.1, 0.0);
    let (mut together, mut alone) = (0.0, 0.0);
    for j in 0..6 {
        let found = evaluate(
            model.classes(),
            &model.predict_classes(tasks.name(j), &rows).unwrap(),
            &truth,
        );
        let single = fit(tasks.table(j), tasks.labels(j), &config.single).unwrap();
        together += found.log_loss / 6.0;
        alone += evaluate(
            single.classes(),
            &single.predict_classes(&rows).unwrap(),
            &truth,
        )
        .log_loss
            / 6.0;
    }
    assert!(together < alone - 0.1, "{together} {alone}");
    // What labels say of the sharpness of runs is said of three classes, too, and is worth something.
    let calibrated = |run: &TaskMember| {
        run.calibration.inverse_temperature != 1.0 && run.calibration.class_offset.len() == 3
    };
    assert!(model.members().iter().all(calibrated));
    let unsharpened = TasksConfig {
        single: IqgmeConfig {
            folds: 0,
            ..config.single.clone()
        },
        ..config
    };
    let unsharpened = fit_tasks(&tasks.borrowed(), &unsharpened).unwrap();
    let loss = |j: usize| {
        let p = unsharpened.predict_classes(tasks.name(j), &rows).unwrap();
        evaluate(unsharpened.classes(), &p, &truth).log_loss
    };
    let loss: f64 = (0..6).map(|j| loss(j) / 6.0).sum();
    assert!(together < loss, "{together} {loss}");

    let all = model.predict_classes("task 0", &rows).unwrap();
    for (row, class) in all.iter().zip(model.predict("task 0", &rows).unwrap()) {
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{row:?}");
        let of_class = row[model.classes().iter().position(|c| c == class).unwrap()];
        assert!(row.iter().all(|p| *p <= of_class));
    }
}

/// The rows of some classes alone.
fn of_classes(seed: u64, n: usize, classes: &[&str]) -> (Table, Labels) {
    let (table, labels) = sectors(seed, n, 3, 0.1, 0.0);
    let own = |i: &usize| labels.name(*i).is_some_and(|name| classes.contains(&name));
    let rows: Vec<usize> = (0..n).filter(own).collect();
    (table.select_rows(&rows), labels.select_rows(&rows))
}

/// Two tasks have never seen the third class; they know of it by the third task, with which they share their experts.
#[test]
fn a_class_of_one_task_alone_is_known_to_all() {
    let tasks = Tasks::new(vec![
        of_classes(11, 90, &["a", "b"]),
        of_classes(12, 90, &["a"]),
        of_classes(13, 200, &["a", "b", "c"]),
    ]);
    let model = fit_tasks(&tasks.borrowed(), &config(2)).unwrap();
    assert_eq!(model.classes(), ["a", "b", "c"]);
    let (rows, truth) = sectors(8, 400, 3, 0.0, 0.0);
    for task in model.tasks() {
        let all = model.predict_classes(task, &rows).unwrap();
        let third = |wanted: bool| -> f64 {
            let own = |i: &usize| (truth.name(*i) == Some("c")) == wanted;
            let rows: Vec<usize> = (0..400).filter(own).collect();
            rows.iter().map(|&i| all[i][2]).sum::<f64>() / rows.len() as f64
        };
        assert!(
            third(true) > 3.0 * third(false),
            "{task}: {} {}",
            third(true),
            third(false)
        );
    }
}

#[test]
fn fits_are_saved_grow_and_refuse_what_they_cannot_say() {
    let tasks = alike(5, &[40, 40, 30], 3, 0.2, 0.2);
    let config = TasksConfig {
        starts: vec![TaskInit::Pooled(Init::KMeans(4)), TaskInit::Separate(2)],
        ..config(5)
    };
    let model = fit_tasks(&tasks.borrowed(), &config).unwrap();
    let (rows, truth) = sectors(9, 300, 3, 0.2, 0.0);
    let again = MultiTaskFit::from_bytes(&model.to_bytes().unwrap()).unwrap();
    assert_eq!(
        again.predict_classes("task 1", &rows).unwrap(),
        model.predict_classes("task 1", &rows).unwrap()
    );
    for error in [
        model.predict_proba("task 1", &rows).unwrap_err(),
        model.predict_interval("task 1", &rows, 0.9).unwrap_err(),
    ] {
        let error = error.to_string();
        let said = error.contains("predict_class") && error.contains("this fit has 3");
        assert!(said, "{error}");
    }
    let atoms = model.atoms();
    let told = |atom: &AtomSummary| atom.classifier.is_none() && atom.utilities.len() == 2;
    assert!(!atoms.is_empty() && atoms.iter().all(told));
    let intervals = model.predict_class_intervals("task 1", &rows, 0.9);
    let predicted = model.predict_classes("task 1", &rows).unwrap();
    intervals_agree(&intervals.unwrap(), &predicted).unwrap();
    let (table, labels) = sectors(99, 12, 3, 0.2, 0.3);
    let new = Task {
        name: "new",
        table: &table,
        labels: &labels,
    };
    let grown = model.with_task(&new).unwrap();
    let found = evaluate(
        grown.classes(),
        &grown.predict_classes("new", &rows).unwrap(),
        &truth,
    );
    // With a dozen rows it is predicted as those with forty are; without experts to share log loss is that of three classes, 1.1. The others' rows are held as they are: hardly
    // anything changes for them.
    let before = evaluate(
        model.classes(),
        &model.predict_classes("task 0", &rows).unwrap(),
        &truth,
    )
    .log_loss;
    let after = evaluate(
        grown.classes(),
        &grown.predict_classes("task 0", &rows).unwrap(),
        &truth,
    )
    .log_loss;
    assert!((before - found.log_loss).abs() < 0.1, "{before} {found:?}");
    assert!((before - after).abs() < 0.05, "{before} {after}");
    let strength: f64 = grown.state().components.iter().map(|c| c.strength).sum();
    let old: f64 = model.state().components.iter().map(|c| c.strength).sum();
    assert!((strength - old).abs() < 1e-6);
}

/// Rows whose classes two lines tell apart, the other way about in tasks of the other kind: nothing but labels tells the kinds.
fn turned(seed: u64, kind: usize, n: usize, missing: f64) -> (Table, Labels) {
    let mut rng = stream(seed, [0, kind as u64, 11, 0]);
    let (mut values, mut seen, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..n {
        let x: [f64; 3] = [0; 3].map(|_| rng.sample(StandardNormal));
        let sign = if kind == 0 { 2.0 } else { -2.0 };
        let [b, c] = [x[0], x[1]].map(|x| sign * x + 0.5 * rng.sample::<f64, _>(StandardNormal));
        seen.extend(x.map(|_| rng.random::<f64>() >= missing));
        values.extend(x);
        names.push(Some(match b.max(c) <= 0.0 {
            true => "a",
            false if b > c => "b",
            false => "c",
        }));
    }
    let table = Table::new(n, 3, values, &seen).unwrap();
    (table, Labels::from_strings(&names))
}

/// Of one Gaussian and several atoms, and of Gaussians of their own: a new task finds its kind.
#[test]
fn a_new_task_of_three_classes_finds_its_kind() {
    let parts = (0..6).map(|j| turned(j, j as usize % 2, 50, 0.15));
    let tasks = Tasks::new(parts.collect());
    for start in [TaskInit::SharedGaussian(4), TaskInit::Separate(1)] {
        let mut config = TasksConfig {
            starts: vec![start],
            ..config(1)
        };
        (config.single.folds, config.single.limits.max_iterations) = (0, 400);
        config.single.limits.tolerance = 1e-12;
        let model = fit_tasks(&tasks.borrowed(), &config).unwrap();
        assert!(model.atoms().len() >= 2, "{start:?}");
        for kind in 0..2 {
            let (rows, truth) = turned(100, kind, 500, 0.0);
            let loss = |fit: &MultiTaskFit, task: &str| {
                evaluate(
                    fit.classes(),
                    &fit.predict_classes(task, &rows).unwrap(),
                    &truth,
                )
                .log_loss
            };
            let (table, labels) = turned(200, kind, 15, 0.15);
            let new = Task {
                name: "new",
                table: &table,
                labels: &labels,
            };
            let grown = model.with_task(&new).unwrap();
            let (own, other) = (tasks.name(kind), tasks.name(1 - kind));
            let found = loss(&grown, "new");
            assert!(found < loss(&model, own) + 0.15, "{start:?}: {found}");
            assert!(found < loss(&model, other) - 0.3, "{start:?}: {found}");
        }
    }
}

#[test]
fn threads_change_nothing() {
    let tasks = alike(6, &[20, 30, 0, 7], 3, 0.2, 0.1);
    let mut config = TasksConfig {
        starts: vec![
            TaskInit::Pooled(Init::KMeans(3)),
            TaskInit::SeparatePerClass(1),
            TaskInit::SharedGaussian(2),
        ],
        ..config(6)
    };
    config.single.normal_scores = true;
    same_bits_on_threads(&[1, 2, 4], || {
        let model = fit_tasks(&tasks.borrowed(), &config).unwrap();
        model.to_bytes().unwrap()
    })
    .unwrap();
}

#[test]
fn damaged_files_are_errors_or_valid_fits() {
    let tasks = alike(7, &[9, 8], 3, 0.2, 0.1);
    let mut config = TasksConfig {
        starts: vec![
            TaskInit::Pooled(Init::KMeans(2)),
            TaskInit::SharedGaussian(1),
        ],
        ..config(7)
    };
    config.single.truncation = 3;
    config.single.normal_scores = true;
    let model = fit_tasks(&tasks.borrowed(), &config).unwrap();
    let few = tasks.table(0).select_rows(&[0, 1]);
    let exercise = |f: &MultiTaskFit| {
        let _ = f.predict_classes("task 0", &few);
        let _ = f.predict_class_intervals("task 0", &few, 0.9);
        let _ = (f.atoms(), f.similarity(), f.task_weights("task 1"));
    };
    let bytes = model.to_bytes().unwrap();
    attack_file(&bytes, 500, 1, MultiTaskFit::from_bytes, exercise).unwrap();
}
