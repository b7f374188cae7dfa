//! Fits of several tasks: what they find, what they share, and that threads and files change nothing.

use npb_data::metrics;
use npb_iqgme::{MultiTaskFit, Start, TaskStart, TasksConfig, fit, fit_tasks};
use rayon::ThreadPoolBuilder;

use super::data::{Tasks, config, one_task, two_kinds};

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
            TaskStart::Pooled(Start::Mixture(4)),
            TaskStart::Clustered(2, Start::KMeans(3)),
        ],
        ..config(1)
    };
    let model = fit_tasks(&tasks.borrowed(), &config).unwrap();
    let similarity = model.similarity();
    for j in 0..6 {
        assert!((similarity[(j, j)] - 1.0).abs() < 1e-12);
        for i in 0..j {
            let value = similarity[(i, j)];
            assert_eq!(value, similarity[(j, i)]);
            assert_eq!(value > 0.4, i % 2 == j % 2, "{i} {j}: {value}");
        }
    }
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
            TaskStart::Pooled(Start::KMeans(4)),
            TaskStart::Clustered(2, Start::KMeans(2)),
            TaskStart::Separate(2),
        ],
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
    let again = model.clone();
    let (table, _) = one_task(7, 1, 30, 0.4, 0.0);
    let probability = model.predict_proba("task 1", &table).unwrap();
    assert_eq!(probability, again.predict_proba("task 1", &table).unwrap());
    for (interval, mean) in again
        .predict_interval("task 1", &table, 0.9, 60)
        .unwrap()
        .iter()
        .zip(probability)
    {
        assert_eq!(interval.mean, mean);
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
            if j % 5 == 0 { 1.0 } else { 0.2 },
        )
    };
    let tasks = Tasks::new((0..139).map(task).collect());
    let config = TasksConfig {
        starts: vec![TaskStart::Pooled(Start::Mixture(4))],
        ..config(4)
    };
    let model = fit_tasks(&tasks.borrowed(), &config).unwrap();
    assert!(auc(&model, "task 0", 0) > 0.7 && auc(&model, "task 1", 1) > 0.7);
    assert_eq!(model.tasks().len(), 139);
    let weights = model.task_weights("task 138").unwrap();
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
}
