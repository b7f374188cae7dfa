//! Fits of several tasks: what they find, what they share, and that threads and files change nothing.

use std::ops::ControlFlow;

use npb_data::{Labels, Table, metrics};
use npb_infer::VbLimits;
use npb_iqgme::{
    Every, Gaussians, Init, IqgmeConfig, MultiTaskFit, Saved, Task, TaskInit, TasksConfig, Watch,
    fit, fit_tasks, fit_tasks_watched,
};
use rayon::ThreadPoolBuilder;

use super::data::{Tasks, config, labelled_kind, one_task, two_kinds};

fn auc(fit: &MultiTaskFit, task: &str, kind: usize) -> f64 {
    let (table, labels) = one_task(999, kind, 400, 0.2, 0.0);
    let positive: Vec<bool> = (0..400).map(|i| labels.name(i) == Some("yes")).collect();
    metrics::auc(&fit.predict_proba(task, &table).unwrap(), &positive).unwrap()
}

#[test]
fn tasks_of_one_kind_are_alike_and_help_each_other() {
    let tasks = two_kinds(1, 6, 12, 0.2, 0.0);
    let config = TasksConfig {
        starts: vec![
            TaskInit::Pooled(Init::Mixture(4)),
            TaskInit::Pooled(Init::KMeans(6)),
        ],
        ..config(1)
    };
    let model = fit_tasks(&tasks.borrowed(), &config).unwrap();
    let similarity = model.similarity();
    let (mut within, mut between) = (0.0, 0.0);
    for j in 0..6 {
        assert!((similarity[(j, j)] - 1.0).abs() < 1e-12);
        for i in 0..j {
            assert_eq!(similarity[(i, j)], similarity[(j, i)]);
            // Six pairs of one kind, nine of two.
            if i % 2 == j % 2 {
                within += similarity[(i, j)] / 6.0;
            } else {
                between += similarity[(i, j)] / 9.0;
            }
        }
    }
    assert!(within > 2.0 * between, "{within} {between}");
    let (mut together, mut alone) = (0.0, 0.0);
    for j in 0..6 {
        together += auc(&model, tasks.name(j), j % 2) / 6.0;
        let single = fit(tasks.table(j), tasks.labels(j), &config.single).unwrap();
        let (table, labels) = one_task(999, j % 2, 400, 0.2, 0.0);
        let positive: Vec<bool> = (0..400).map(|i| labels.name(i) == Some("yes")).collect();
        alone += metrics::auc(&single.predict_proba(&table).unwrap(), &positive).unwrap() / 6.0;
    }
    assert!(
        together > 0.85 && together > alone + 0.02,
        "{together} {alone}"
    );
}

/// Tasks of two kinds whose features have one law: nothing but the labels tells them apart.
#[test]
fn kinds_of_labels_are_told_apart_where_features_say_nothing() {
    let tasks = Tasks::new(
        (0..8)
            .map(|j| labelled_kind(60 + j, j as usize % 2, 25))
            .collect(),
    );
    let fitted = |starts| {
        let config = TasksConfig {
            starts,
            ..config(6)
        };
        fit_tasks(&tasks.borrowed(), &config).unwrap()
    };
    let model = fitted(vec![TaskInit::SharedGaussian(4)]);
    let state = model.state();
    assert_eq!(state.gaussians, Gaussians::Shared);
    for (j, i) in (0..8).flat_map(|j| (0..j).map(move |i| (j, i))) {
        let similarity = model.similarity()[(j, i)];
        assert!(
            (similarity > 0.5) == (i % 2 == j % 2),
            "{i} {j}: {similarity}"
        );
    }
    let of_kind = |fit: &MultiTaskFit, kind: usize| {
        let (table, labels) = labelled_kind(999, kind, 500);
        let positive: Vec<bool> = (0..500).map(|i| labels.name(i) == Some("yes")).collect();
        metrics::auc(
            &fit.predict_proba(tasks.name(kind), &table).unwrap(),
            &positive,
        )
        .unwrap()
    };
    let apart = fitted(vec![TaskInit::Separate(1)]);
    for kind in [0, 1] {
        let (by_labels, alone) = (of_kind(&model, kind), of_kind(&apart, kind));
        assert!(by_labels > 0.9 && by_labels > alone, "{by_labels} {alone}");
    }
    let (rows, _) = labelled_kind(998, 0, 20);
    let intervals = model.predict_interval(tasks.name(0), &rows, 0.9).unwrap();
    assert!(
        intervals
            .iter()
            .all(|i| 0.0 <= i.lower && i.lower <= i.upper && i.upper <= 1.0)
    );
    // Beside a run whose atoms have Gaussians of their own it is not the one that summaries are of.
    let both = fitted(vec![TaskInit::SharedGaussian(4), TaskInit::Separate(1)]);
    assert_eq!(both.best().start, TaskInit::Separate(1));
    let weight = both
        .members()
        .iter()
        .find(|run| run.start == TaskInit::SharedGaussian(4));
    assert!(weight.unwrap().stacking_weight > 0.6);
    // A new task with a few labels is put where it belongs.
    let (table, labels) = labelled_kind(123, 1, 12);
    let new = Task {
        name: "new",
        table: &table,
        labels: &labels,
    };
    let grown = model.with_task(&new).unwrap();
    let similarity = grown.similarity();
    assert!(
        similarity[(1, 8)] > 2.0 * similarity[(0, 8)],
        "{similarity:?}"
    );
    let rows = |fit: &MultiTaskFit| fit.state().components[0].strength;
    assert!((rows(&grown) - rows(&model)).abs() < 1e-6);
    assert!(MultiTaskFit::from_bytes(&grown.to_bytes().unwrap()).is_ok());
}

/// Rows of one kind of task whose lower cluster is cut the other way about than the upper one: no single expert can say so.
fn cut_locally(seed: u64, n: usize) -> (Table, Labels) {
    let (table, _) = one_task(seed, 0, n, 0.0, 0.0);
    let label = |i: usize| {
        let x = |j: usize| table.get(i, j).unwrap();
        Some(if x(1) * x(2) > 0.0 { "yes" } else { "no" })
    };
    let labels: Vec<_> = (0..n).map(label).collect();
    (table.clone(), Labels::from_strings(&labels))
}

/// One Gaussian for each task against shared local experts: labels that are predicted say which is right.
#[test]
fn labels_that_are_predicted_decide_what_runs_weigh() {
    let tasks = Tasks::new((0..5).map(|j| cut_locally(40 + j, 24)).collect());
    let sharing = TaskInit::Pooled(Init::KMeans(3));
    let fitted = |folds| {
        let mut config = TasksConfig {
            starts: vec![TaskInit::Separate(1), sharing],
            ..config(4)
        };
        config.single.folds = folds;
        fit_tasks(&tasks.borrowed(), &config).unwrap()
    };
    let weight = |fit: &MultiTaskFit| {
        let mut runs = fit.members().iter();
        runs.find(|run| run.start == sharing)
            .unwrap()
            .stacking_weight
    };
    let (table, labels) = cut_locally(99, 400);
    let loss = |fit: &MultiTaskFit| -> f64 {
        let second = fit.predict_proba(tasks.name(0), &table).unwrap();
        let predicted = second.iter().enumerate().map(|(i, p)| {
            let is_second = labels.name(i) == Some(fit.classes()[1].as_str());
            if is_second { p.ln() } else { (1.0 - p).ln() }
        });
        -predicted.sum::<f64>() / 400.0
    };
    let (by_labels, by_bounds) = (fitted(4), fitted(0));
    assert!(weight(&by_labels) > 0.9, "{}", weight(&by_labels));
    assert!(weight(&by_bounds) < 0.8, "{}", weight(&by_bounds));
    // The same labels say how sure the runs may be; where none is predicted nothing is said.
    let sharpness = |fit: &MultiTaskFit| -> Vec<f64> {
        fit.members()
            .iter()
            .map(|run| run.calibration.inverse_temperature)
            .collect()
    };
    assert!(sharpness(&by_labels).iter().all(|s| *s != 1.0));
    assert_eq!(sharpness(&by_bounds), [1.0; 2]);
    let (new, old) = (loss(&by_labels), loss(&by_bounds));
    assert!(new < old - 0.02, "{new} {old}");
}

/// Kind 0 lies to the left, kind 1 to the right, and their classes are cut at zero of the third feature, the other way about.
#[test]
fn atoms_are_told_in_the_units_of_the_table() {
    let stretched = |j: u64| {
        let (table, labels) = one_task(60 + j, j as usize % 2, 80, 0.1, 0.0);
        (
            table
                .map(|_, k, x| 100.0 + 10.0 * x * (k + 1) as f64)
                .unwrap(),
            labels,
        )
    };
    let tasks = Tasks::new((0..4).map(stretched).collect());
    let config = TasksConfig {
        starts: vec![TaskInit::Pooled(Init::KMeans(4))],
        ..config(7)
    };
    let model = fit_tasks(&tasks.borrowed(), &config).unwrap();
    let atoms = model.atoms();
    let total: f64 = atoms.iter().map(|atom| atom.size).sum();
    assert!((total - 320.0).abs() < 1e-6, "{total}");
    for task in model.tasks() {
        let weights = model.task_weights(task).unwrap();
        assert_eq!(weights.len(), atoms.len() + 1);
        let kind = if task == "task 0" || task == "task 2" {
            -1.0
        } else {
            1.0
        };
        for (atom, weight) in atoms.iter().zip(&weights) {
            if *weight < 0.1 {
                continue;
            }
            assert!((atom.mean[0] - 100.0 - 15.0 * kind).abs() < 5.0, "{atom:?}");
            let sd = atom.covariance[(0, 0)].sqrt();
            assert!((sd / 8.0 - 1.0).abs() < 0.3, "{sd}");
            // Both tasks of a kind have it; their score is 4 or -4 for each unit of the third feature, which is 30 here, less what the noise of the
            // label and few rows shrink, and its zero is at 100.
            assert!(atom.local_components > 1.9, "{atom:?}");
            let cut = atom.classifier.as_ref().unwrap();
            let slope = cut.coefficients[2] * 30.0 * -kind;
            assert!(slope > 1.0 && slope < 5.0, "{cut:?}");
            let score = |x: f64| {
                let at = [atom.mean[0], atom.mean[1], x];
                let each = cut.coefficients.iter().zip(at).map(|(c, x)| c * x);
                cut.intercept + each.sum::<f64>()
            };
            assert!(score(100.0).abs() < 0.6, "{}", score(100.0));
        }
    }
}

#[test]
fn a_row_is_another_one_in_another_task() {
    // The kinds cut the same third feature the other way about.
    let tasks = two_kinds(2, 4, 60, 0.0, 0.0);
    let model = fit_tasks(&tasks.borrowed(), &config(2)).unwrap();
    let (table, _) = one_task(5, 0, 50, 0.0, 0.0);
    let [a, b, c] = [0, 1, 2].map(|j| model.predict_proba(tasks.name(j), &table).unwrap());
    let apart = |x: &[f64], y: &[f64]| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - y).abs()).sum::<f64>() / 50.0
    };
    assert!(apart(&a, &c) < 0.15 && apart(&a, &b) > 0.3);
}

#[test]
fn threads_and_files_change_nothing() {
    let tasks = two_kinds(3, 5, 40, 0.3, 0.2);
    let config = TasksConfig {
        starts: vec![
            TaskInit::Pooled(Init::KMeans(4)),
            TaskInit::Separate(2),
            TaskInit::SharedGaussian(2),
        ],
        single: IqgmeConfig {
            elbo_temperature: 1e9,
            normal_scores: true,
            ..config(3).single
        },
        ..config(3)
    };
    let bytes = |threads: usize| {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            fit_tasks(&tasks.borrowed(), &config)
                .unwrap()
                .to_bytes()
                .unwrap()
        })
    };
    let one = bytes(1);
    assert!(one == bytes(2) && one == bytes(4));

    let model = MultiTaskFit::from_bytes(&one).unwrap();
    // Runs without weight come last; what is said of atoms may be of them.
    let weights: Vec<bool> = model
        .members()
        .iter()
        .map(|run| run.stacking_weight > 0.0)
        .collect();
    assert!(weights[0] && weights.is_sorted_by(|a, b| a >= b));
    assert_eq!(
        model.best().elbo(),
        model
            .members()
            .iter()
            .filter(|r| r.state.gaussians == Gaussians::Own)
            .map(|r| r.elbo())
            .fold(f64::MIN, f64::max)
    );
    let again = model.clone();
    let (table, _) = one_task(7, 1, 30, 0.4, 0.0);
    let probability = model.predict_proba("task 1", &table).unwrap();
    assert_eq!(probability, again.predict_proba("task 1", &table).unwrap());
    for (interval, mean) in again
        .predict_interval("task 1", &table, 0.9)
        .unwrap()
        .iter()
        .zip(probability)
    {
        assert!(interval.holds(mean));
        assert!(0.0 <= interval.lower && interval.lower <= interval.upper && interval.upper <= 1.0);
    }
    for cut in [0, 10, one.len() / 2, one.len() - 1] {
        assert!(MultiTaskFit::from_bytes(&one[..cut]).is_err());
    }
    let mut altered = one;
    let middle = altered.len() / 2;
    altered[middle] ^= 1;
    assert!(MultiTaskFit::from_bytes(&altered).is_err());
}

#[test]
fn many_small_tasks_run() {
    // 139 tasks of one to seven rows, some without any label.
    let task = |j: usize| {
        one_task(
            j as u64,
            j % 2,
            1 + j % 7,
            0.3,
            if j.is_multiple_of(5) { 1.0 } else { 0.2 },
        )
    };
    let tasks = Tasks::new((0..139).map(task).collect());
    let config = TasksConfig {
        starts: vec![TaskInit::Pooled(Init::Mixture(4))],
        ..config(4)
    };
    let model = fit_tasks(&tasks.borrowed(), &config).unwrap();
    assert!(auc(&model, "task 0", 0) > 0.7 && auc(&model, "task 1", 1) > 0.7);
    assert_eq!(model.tasks().len(), 139);
    let weights = model.task_weights("task 138").unwrap();
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    // And from all starts, with more tasks than atoms, in a few iterations.
    let config = TasksConfig {
        single: IqgmeConfig {
            limits: VbLimits {
                max_iterations: 5,
                ..IqgmeConfig::default().limits
            },
            normal_scores: true,
            ..config.single
        },
        starts: TasksConfig::default().starts,
        ..config
    };
    let model = fit_tasks(&tasks.borrowed(), &config).unwrap();
    assert_eq!(model.members().len(), 8);
    assert!(auc(&model, "task 0", 0) > 0.7 && auc(&model, "task 1", 1) > 0.7);
}

#[test]
fn a_new_task_finds_its_place() {
    let tasks = two_kinds(6, 4, 60, 0.2, 0.1);
    let model = fit_tasks(&tasks.borrowed(), &config(6)).unwrap();
    for kind in [0, 1] {
        let (table, labels) = one_task(77 + kind as u64, kind, 15, 0.2, 0.3);
        let new = Task {
            name: "new",
            table: &table,
            labels: &labels,
        };
        let grown = model.with_task(&new).unwrap();
        assert_eq!(grown.tasks().len(), 5);
        let similarity = grown.similarity();
        assert!(
            similarity[(kind, 4)] > 2.0 * similarity[(1 - kind, 4)],
            "{kind}: {similarity:?}"
        );
        assert!(auc(&grown, "new", kind) > 0.85);
        // The atoms stay as they are.
        let rows =
            |fit: &MultiTaskFit| -> f64 { fit.state().components.iter().map(|c| c.strength).sum() };
        assert!((rows(&grown) - rows(&model)).abs() < 1e-6);
        let bytes = grown.to_bytes().unwrap();
        assert!(MultiTaskFit::from_bytes(&bytes).is_ok());
        assert!(grown.with_task(&new).is_err(), "the name is taken");
    }
    // No rows at all, and a label that the fit does not know.
    let none = Table::complete(0, 3, Vec::new()).unwrap();
    let no_labels = Labels::from_strings::<&str>(&[]);
    let empty = Task {
        name: "empty",
        table: &none,
        labels: &no_labels,
    };
    assert!(auc(&model.with_task(&empty).unwrap(), "empty", 0) > 0.3);
    let (table, _) = one_task(1, 0, 1, 0.0, 0.0);
    let unknown = Labels::from_strings(&[Some("perhaps")]);
    let odd = Task {
        name: "odd",
        table: &table,
        labels: &unknown,
    };
    let text = model.with_task(&odd).unwrap_err().to_string();
    assert!(text.contains("odd") && text.contains("perhaps"), "{text}");
}

#[test]
fn a_stopped_fit_goes_on_in_the_same_bits() {
    let mut config = TasksConfig {
        starts: vec![
            TaskInit::Pooled(Init::KMeans(4)),
            TaskInit::Separate(2),
            TaskInit::SharedGaussian(3),
        ],
        ..config(8)
    };
    config.single.normal_scores = true;
    let config = &config;
    let tasks = two_kinds(8, 3, 30, 0.3, 0.2);
    let whole = fit_tasks(&tasks.borrowed(), config).unwrap();
    let name = format!("npb-iqgme-tasks-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("run");
    let go = |tasks: &[Task<'_>], until: u64| {
        let watch = Watch::new(|progress| match progress.step == until {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        let watch = watch.with_checkpoint(&path, Every::sweeps(1));
        fit_tasks_watched(tasks, config, &watch)
    };
    let these = tasks.borrowed();
    go(&these, 3).unwrap();
    let stopped = go(&these, 7).unwrap();
    // Weighed by bounds, without folds, and not sharpened.
    assert!(
        stopped
            .members()
            .iter()
            .all(|run| run.calibration.inverse_temperature == 1.0)
    );
    // Stopped at the iteration that is one run's last one anyway.
    go(&these, whole.members()[0].trace.len() as u64).unwrap();
    let resumed = go(&these, u64::MAX).unwrap();
    let again = go(&these, u64::MAX).unwrap();
    // Other data under the same path.
    let other = two_kinds(9, 3, 30, 0.3, 0.2);
    let refused = go(&other.borrowed(), u64::MAX);
    std::fs::remove_dir_all(&folder).unwrap();
    for fit in [resumed, again] {
        assert!(fit.to_bytes().unwrap() == whole.to_bytes().unwrap());
    }
    assert!(refused.unwrap_err().to_string().contains("other data"));
}

/// At the truncation every group has rows, and nothing is left for the atoms of other tasks.
#[test]
fn tasks_without_a_common_atom_are_not_alike_whatever_the_truncation() {
    let table = |centre: f64| {
        let far = |k: usize| centre + 30.0 * ((k / 2) % 2) as f64 + ((k * 37) % 101) as f64 / 101.0;
        Table::complete(100, 2, (0..200).map(far).collect()).unwrap()
    };
    let labels = Labels::from_strings(&[Some("a"), Some("b"), Some("b"), Some("a")].repeat(25));
    let tables = [table(0.0), table(100.0)];
    let tasks = ["near", "far"]
        .iter()
        .zip(&tables)
        .map(|(name, table)| Task {
            name,
            table,
            labels: &labels,
        });
    let tasks: Vec<Task> = tasks.collect();
    for truncation in [20, 2] {
        let mut config = TasksConfig {
            starts: vec![TaskInit::Separate(2)],
            ..TasksConfig::default()
        };
        (config.single.truncation, config.single.folds) = (truncation, 0);
        let similarity = fit_tasks(&tasks, &config).unwrap().similarity();
        assert!(
            similarity[(0, 1)] < 0.01,
            "{truncation}: {}",
            similarity[(0, 1)]
        );
        assert_eq!(similarity[(0, 0)], 1.0);
    }
}
