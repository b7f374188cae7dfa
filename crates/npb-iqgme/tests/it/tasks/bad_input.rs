//! Input that cannot be right is named; input that only looks odd is taken.

use npb_data::{Labels, Table};
use npb_iqgme::{ExpertPosterior, IqgmeError, Start, Task, TaskStart, TasksConfig, fit_tasks};

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
    let text = said(&[good(), good(), (table(2, 2), labels(&["x", "z"]))]);
    assert!(text.contains("\"c\"") && text.contains("\"z\""), "{text}");
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
    assert!(model.predict_interval("task 0", &table, 1.0, 10).is_err());
    assert!(model.predict_interval("task 0", &table, 0.5, 1).is_err());
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
        TaskStart::Pooled(Start::KMeans(3)),
        TaskStart::Separate(2),
        TaskStart::Clustered(3, Start::PerClass(1)),
        TaskStart::SeparatePerClass(1),
        TaskStart::ByLabels(1),
        TaskStart::ByLabels(4),
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
    assert!(said(&|c| c.top_concentration.rate = -1.0).contains("top_concentration"));
    assert!(said(&|c| c.starts.clear()).contains("starts"));
    assert!(said(&|c| c.single.folds = 101).contains("folds"));
    assert!(said(&|c| c.single.truncation = 0).contains("truncation"));
    for start in [
        TaskStart::Clustered(5, Start::KMeans(1)),
        TaskStart::ByLabels(5),
    ] {
        let few = said(&|c| {
            c.atoms = 2;
            c.starts = vec![start];
        });
        assert!(few.contains("starts") && few.contains('5'), "{few}");
    }
    assert!(said(&|c| c.starts = vec![TaskStart::ByLabels(0)]).contains("starts"));
    assert!(
        said(&|c| c.single.expert_posterior = ExpertPosterior::ExpectationPropagation)
            .contains("expert_posterior")
    );
}
