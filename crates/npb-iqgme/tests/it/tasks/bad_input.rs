//! Input that cannot be right is named; input that only looks odd is taken.

use npb_data::{Labels, Table};
use npb_iqgme::{Init, IqgmeError, Task, TaskInit, TasksConfig, fit_tasks};

use super::data::{Tasks, config, one_task, two_kinds};

fn table(n: usize, p: usize) -> Table {
    let value = |k: usize| ((k * 37) % 11) as f64 - 5.0 + (k as f64).sin();
    Table::complete(n, p, (0..n * p).map(value).collect()).unwrap()
}

fn labels(names: &[&str]) -> Labels {
    Labels::from_strings(&names.iter().map(|n| Some(*n)).collect::<Vec<_>>())
}

/// The error of tasks named a, b, ...
fn error(parts: &[(Table, Labels)]) -> IqgmeError {
    let names = ["a", "b", "c"];
    let tasks: Vec<Task<'_>> = parts
        .iter()
        .zip(names)
        .map(|((table, labels), name)| Task {
            name,
            table,
            labels,
        })
        .collect();
    fit_tasks(&tasks, &config(0)).unwrap_err()
}

#[test]
fn errors_name_the_task() {
    assert!(matches!(error(&[]), IqgmeError::NoTasks));
    let good = || (table(4, 2), labels(&["x", "y", "x", "y"]));
    let said = |parts: &[(Table, Labels)]| error(parts).to_string();
    let text = said(&[good(), (table(4, 3), labels(&["x", "y", "x", "y"]))]);
    assert!(text.contains("\"b\"") && text.contains('3'), "{text}");
    let text = said(&[good(), (table(4, 2), labels(&["x", "y", "x"]))]);
    assert!(
        text.contains("\"b\"") && text.contains("3 labels for 4 rows"),
        "{text}"
    );
    let text = said(&[
        (table(2, 2), labels(&["x", "x"])),
        (table(1, 2), labels(&["x"])),
    ]);
    assert!(text.contains("\"x\""), "{text}");
    let (one, two) = (good(), good());
    let task = |(table, labels): &(Table, Labels)| -> IqgmeError {
        let same = |name| Task {
            name,
            table,
            labels,
        };
        fit_tasks(&[same("a"), same("a")], &config(0)).unwrap_err()
    };
    assert!(matches!(task(&one), IqgmeError::SameName { .. }));
    drop(two);
}

#[test]
fn questions_about_what_the_fit_does_not_have() {
    let tasks = two_kinds(1, 2, 20, 0.0, 0.0);
    let model = fit_tasks(&tasks.borrowed(), &config(1)).unwrap();
    let (table, _) = one_task(1, 0, 3, 0.0, 0.0);
    let text = model
        .predict_proba("elsewhere", &table)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("elsewhere") && text.contains("task 1"),
        "{text}"
    );
    let narrow = Table::complete(1, 2, vec![0.0; 2]).unwrap();
    assert!(model.predict_proba("task 0", &narrow).is_err());
    assert!(model.predict_interval("task 0", &table, 1.0).is_err());
    let all = |task, level| model.predict_class_intervals(task, &table, level);
    assert!(all("task 0", 1.0).is_err() && all("elsewhere", 0.5).is_err());
}

#[test]
fn odd_tasks_are_taken() {
    // One task has one class, one a class that the others lack, one a single labelled row, one no rows at all.
    let (mixed, mixed_labels) = one_task(1, 0, 30, 0.0, 0.0);
    let (other, _) = one_task(2, 0, 20, 0.0, 0.0);
    let (single, single_labels) = one_task(3, 0, 1, 0.0, 0.0);
    let none = Table::complete(0, 3, Vec::new()).unwrap();
    let no: Vec<Option<&str>> = vec![Some("no"); 20];
    let tasks = Tasks::new(vec![
        (mixed, mixed_labels),
        (other, Labels::from_strings(&no)),
        (single, single_labels),
        (none, Labels::from_strings::<&str>(&[])),
    ]);
    for start in [
        TaskInit::Pooled(Init::KMeans(3)),
        TaskInit::Separate(2),
        TaskInit::Pooled(Init::PerClass(1)),
        TaskInit::SeparatePerClass(1),
        TaskInit::SharedGaussian(1),
        TaskInit::SharedGaussian(4),
    ] {
        let config = TasksConfig {
            starts: vec![start],
            ..config(2)
        };
        let model = fit_tasks(&tasks.borrowed(), &config).unwrap();
        let (table, _) = one_task(9, 0, 10, 0.3, 0.0);
        for j in 0..4 {
            let probability = model.predict_proba(tasks.name(j), &table).unwrap();
            assert!(
                probability.iter().all(|p| (0.0..=1.0).contains(p)),
                "{start:?}"
            );
        }
    }
}

#[test]
fn configurations_out_of_range_are_named() {
    let tasks = two_kinds(1, 3, 10, 0.0, 0.0);
    let said = |change: &dyn Fn(&mut TasksConfig)| {
        let mut config = config(0);
        change(&mut config);
        fit_tasks(&tasks.borrowed(), &config)
            .unwrap_err()
            .to_string()
    };
    assert!(said(&|c| c.atoms = 0).contains("atoms"));
    assert!(said(&|c| c.global_concentration.rate = -1.0).contains("global_concentration"));
    assert!(said(&|c| c.starts.clear()).contains("starts"));
    assert!(said(&|c| c.single.folds = 101).contains("folds"));
    assert!(said(&|c| c.single.truncation = 0).contains("single.truncation"));
    {
        let start = TaskInit::SharedGaussian(5);
        let few = said(&|c| {
            c.atoms = 2;
            c.starts = vec![start];
        });
        assert!(few.contains("starts") && few.contains('5'), "{few}");
    }
    assert!(said(&|c| c.starts = vec![TaskInit::SharedGaussian(0)]).contains("starts"));
}

#[test]
fn questions_name_what_is_wrong() {
    let tasks = two_kinds(1, 2, 20, 0.1, 0.0);
    let model = fit_tasks(&tasks.borrowed(), &config(1)).unwrap();
    let (rows, _) = one_task(1, 0, 3, 0.3, 0.0);
    let said = |task: &str, table: &Table| {
        [
            model.predict_classes(task, table).unwrap_err().to_string(),
            model.predict_proba(task, table).unwrap_err().to_string(),
            model.predict(task, table).unwrap_err().to_string(),
        ]
    };
    for text in said("elsewhere", &rows) {
        assert!(
            text.contains("elsewhere") && text.contains("task 1"),
            "{text}"
        );
    }
    for text in said("task 1", &table(3, 2)) {
        assert!(
            text.contains("task 1") && text.contains("columns"),
            "{text}"
        );
    }
}

#[test]
fn a_fit_without_labels_has_no_class_probability() {
    let tasks = two_kinds(4, 2, 20, 0.1, 1.0);
    let model = fit_tasks(&tasks.borrowed(), &config(4)).unwrap();
    let (rows, _) = one_task(7, 0, 5, 0.2, 0.0);
    let errors = [
        model.predict_proba("task 0", &rows).unwrap_err(),
        model.predict_classes("task 0", &rows).unwrap_err(),
        model.predict("task 0", &rows).unwrap_err(),
    ];
    assert!(
        errors
            .iter()
            .all(|error| matches!(error, IqgmeError::Unlabelled)),
        "{errors:?}"
    );
}

/// A value that the rows of all tasks together have no standard deviation with is named with its task and its row there; one that folds have none with is taken.
#[test]
fn values_far_out_in_training_are_named_or_taken() {
    let with = |cells: &[(usize, usize, f64)]| {
        let task = |j: usize| {
            let (table, labels) = one_task(30 + j as u64, j % 2, 30, 0.0, 0.0);
            let far = |row, column, x| {
                let mut here = cells
                    .iter()
                    .filter(|cell| (cell.0, column) == (j, 1) && row == cell.1);
                here.next().map_or(x, |cell| cell.2)
            };
            (table.map(far).unwrap(), labels)
        };
        let config = TasksConfig {
            starts: vec![TaskInit::Separate(1), TaskInit::SharedGaussian(2)],
            ..config(6)
        };
        fit_tasks(&Tasks::new((0..3).map(task).collect()).borrowed(), &config)
    };
    let text = with(&[(0, 3, -1e308), (1, 4, 1.5e308)])
        .unwrap_err()
        .to_string();
    let said = "task \"task 1\": row 4, column 1: 1.5e308 is too far";
    assert!(text.starts_with(said), "{text}");
    with(&[(1, 4, 1e308)]).unwrap();
}

/// Values of a new task that no atom is of are named; rows that are only asked about get finite answers.
#[test]
fn values_far_out_are_named() {
    let tasks = two_kinds(5, 3, 30, 0.2, 0.1);
    let model = fit_tasks(&tasks.borrowed(), &config(5)).unwrap();
    let with = |size: f64| {
        let (table, labels) = one_task(9, 0, 12, 0.0, 0.2);
        let far = |row, j, x| if (row, j) == (7, 1) { size } else { x };
        (table.map(far).unwrap(), labels)
    };
    for size in [1e300, -1e9] {
        let (table, labels) = with(size);
        let new = Task {
            name: "new",
            table: &table,
            labels: &labels,
        };
        let text = model.with_task(&new).unwrap_err().to_string();
        let said = format!("task \"new\": row 7, column 1: {size:e} is too far");
        assert!(text.starts_with(&said), "{text}");
    }
    for size in [1e3, -1e6] {
        let (table, labels) = with(size);
        let new = Task {
            name: "new",
            table: &table,
            labels: &labels,
        };
        let grown = model.with_task(&new).unwrap();
        let probability = grown.predict_proba("new", &table).unwrap();
        assert!(probability.iter().all(|p| (0.0..=1.0).contains(p)));
    }
    for size in [1e9, 1e60, 1e300] {
        let (table, _) = with(size);
        let columns: Vec<f64> = table.values().to_vec();
        let seen: Vec<bool> = (0..36).map(|k| k % 3 != 2).collect();
        let holes = Table::new(12, 3, columns, &seen).unwrap();
        for task in model.tasks() {
            let probability = model.predict_proba(task, &holes).unwrap();
            assert!(probability.iter().all(|p| (0.0..=1.0).contains(p)));
        }
    }
}

#[test]
fn starts_out_of_range_are_named_with_their_place() {
    let said = |change: &dyn Fn(&mut TasksConfig)| {
        let mut config = config(0);
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    let text = said(&|c| c.starts.clear());
    assert!(
        text.contains("starts = a list of 0: must be a list of 1 to"),
        "{text}"
    );
    for (start, shown) in [
        (TaskInit::SharedGaussian(0), "SharedGaussian(0)"),
        (TaskInit::SharedGaussian(99), "SharedGaussian(99)"),
        (TaskInit::Pooled(Init::KMeans(0)), "Pooled(KMeans(0))"),
        (
            TaskInit::Pooled(Init::Mixture(5000)),
            "Pooled(Mixture(5000))",
        ),
        (TaskInit::Separate(0), "Separate(0)"),
        (TaskInit::SeparatePerClass(0), "SeparatePerClass(0)"),
    ] {
        let text = said(&|c| c.starts.push(start));
        assert!(
            text.contains(&format!(" starts = {shown} at position 2")),
            "{text}"
        );
    }
}
