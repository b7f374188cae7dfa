//! Features and labels are recovered on data drawn from the models.

use npb_regbayes::classes;
use npb_regbayes::npb_data::{Labels, Table};
use npb_regbayes::npb_infer::Watch;
use npb_regbayes::tasks::{self, Criterion, Task, Validation};
use npb_regbayes::{IlsvmConfig, LabelUpdate, MapConfig};

use crate::simulated::{self, class_config, labels, task_config};

fn accuracy(right: usize, all: usize) -> f64 {
    right as f64 / all as f64
}

#[test]
fn classes_of_rows_without_labels_are_recovered_joint_and_inductive() {
    for (missing, least) in [(0.0, 0.93), (0.3, 0.85)] {
        let (table, truth) = simulated::classes(1, 200, missing);
        let known = 100;
        for update in [LabelUpdate::Profiled, LabelUpdate::TwoStage] {
            let mut config = class_config(2);
            config.label_update = update;
            let model = classes::fit(&table, &labels(&truth, known), &config).unwrap();
            let test: Vec<usize> = (known..200).collect();
            let new = model.predict(&table.select_rows(&test)).unwrap();
            let joint = test
                .iter()
                .filter(|&&n| model.scores().class(n) == truth[n])
                .count();
            let later = test
                .iter()
                .filter(|&&n| new.class(n - known) == truth[n])
                .count();
            let shares = [accuracy(joint, 100), accuracy(later, 100)];
            assert!(
                shares.iter().all(|&a| a > least),
                "{missing} {update:?}: {shares:?}"
            );
            // Four features made the data.
            let used = model.state().features_in_use();
            assert!((4..=10).contains(&used), "{used} features");
            let order = model.state().expected_use();
            assert!(order.windows(2).all(|w| w[0] >= w[1] - 1e-9), "{order:?}");
        }
    }
}

/// One feature to begin with, four that made the data.
#[test]
fn features_grow_to_as_many_as_the_data_ask_for() {
    let (table, truth) = simulated::classes(1, 200, 0.0);
    let fit = |growth| {
        let mut config = class_config(1);
        config.factors.growth = growth;
        classes::fit(&table, &labels(&truth, 100), &config).unwrap()
    };
    let (grown, not) = (fit(2), fit(0));
    assert_eq!(not.state().features_in_use(), 1);
    let used = grown.state().features_in_use();
    assert!((4..=9).contains(&used), "{used} features");
    let objective = |model: &npb_regbayes::IlsvmFit| model.trace.last().unwrap().elbo;
    assert!(objective(&grown) > objective(&not));
    let right = (100..200)
        .filter(|&n| grown.scores().class(n) == truth[n])
        .count();
    assert!(right > 93, "{right} of 100");
}

#[test]
fn labels_and_numbers_of_many_tasks_are_recovered() {
    for (missing, least) in [(0.0, 0.93), (0.2, 0.85)] {
        let simulated = simulated::tasks(2, 260, missing);
        let data = simulated.data(130);
        for raw in [0.0, 1.0] {
            let mut config = task_config(8);
            config.raw_inputs = raw;
            let model = tasks::fit(&data, &config).unwrap();
            let scores = model.predict(&simulated.inputs).unwrap();
            for m in 0..3 {
                let found = scores.labels(m).unwrap();
                let right = (130..260)
                    .filter(|&n| found[n] == simulated.truth[m][n])
                    .count();
                assert!(accuracy(right, 130) > least, "{missing}, task {m}: {right}");
            }
            let squares = |f: &dyn Fn(usize) -> f64| (130..260).map(|n| f(n).powi(2)).sum::<f64>();
            let truth = |n: usize| 10.0 + 5.0 * simulated.real[n];
            let mean = (130..260).map(truth).sum::<f64>() / 130.0;
            let left = squares(&|n| scores.score(n, 3) - truth(n)) / squares(&|n| truth(n) - mean);
            assert!(left < 2.0 * (1.0 - least), "share {left} left");
            assert_eq!(scores.labels(3), None);
        }
    }
}

#[test]
fn a_new_task_is_learned_on_the_projection_as_it_is() {
    let simulated = simulated::tasks(4, 200, 0.0);
    let all = simulated.data(100);
    let data = tasks::TaskData::new(simulated.inputs.clone(), all.tasks()[..2].to_vec()).unwrap();
    let model = tasks::fit(&data, &task_config(8)).unwrap();
    let more = model
        .clone()
        .with_task(&simulated.inputs, &all.tasks()[2])
        .unwrap();
    let scores = more.predict(&simulated.inputs).unwrap();
    let found = scores.labels(2).unwrap();
    let right = (100..200)
        .filter(|&n| found[n] == simulated.truth[2][n])
        .count();
    assert!(right > 88, "{right} of 100");
    assert_eq!(
        scores.of_task(0),
        model.predict(&simulated.inputs).unwrap().of_task(0)
    );
    assert!(
        more.with_task(&simulated.inputs, &all.tasks()[2]).is_err(),
        "twice"
    );
}

#[test]
fn a_task_of_one_class_works_and_balanced_costs_find_the_rare_class() {
    let simulated = simulated::tasks(5, 200, 0.0);
    let n = simulated.inputs.n_rows();
    let always = Task::label("always", &vec![Some(true); n]);
    let rare = |i: usize| i < 150 && simulated.real[i] > 2.5;
    let rare = Task::label("rare", &(0..n).map(|i| Some(rare(i))).collect::<Vec<_>>());
    let data = tasks::TaskData::new(simulated.inputs.clone(), vec![always, rare]).unwrap();
    let count = |costs| {
        let mut config = task_config(6);
        config.cost = 0.01;
        config.class_costs = costs;
        let model = tasks::fit(&data, &config).unwrap();
        let scores = model.predict(&simulated.inputs).unwrap();
        assert!(scores.labels(0).unwrap().iter().all(|&y| y));
        scores.labels(1).unwrap().iter().filter(|&&y| y).count()
    };
    use npb_regbayes::ClassCosts::{Balanced, Equal};
    assert!(count(Balanced) > count(Equal));
    // Folds say which of the two is better for a criterion.
    let choice = Validation {
        costs: vec![0.01],
        class_costs: vec![Equal, Balanced],
        folds: 3,
        criterion: Criterion::F1Macro,
        thresholds: false,
    };
    let found = tasks::cross_validate(&data, &task_config(6), &choice, &Watch::none()).unwrap();
    let values = [0, 1].map(|n| found.value(n, choice.criterion, &[0.0; 2]).unwrap());
    let best = found.best(&choice).unwrap();
    assert!(values[0] != values[1], "{values:?}");
    assert_eq!(best.value, values[0].max(values[1]));
    assert_eq!(best.candidate, found.tried()[best.place]);
}

#[test]
fn cross_validation_takes_a_cost_that_works_and_thresholds_raise_f1() {
    let simulated = simulated::tasks(6, 150, 0.1);
    let data = simulated.data(150);
    let choice = Validation {
        costs: vec![1e-6, 0.1],
        folds: 3,
        criterion: Criterion::F1Macro,
        thresholds: true,
        ..Validation::default()
    };
    let held_out = tasks::cross_validate(&data, &task_config(6), &choice, &Watch::none()).unwrap();
    let tasks::Chosen {
        candidate,
        thresholds,
        ..
    } = held_out.best(&choice).unwrap();
    assert_eq!(candidate, held_out.tried()[1]);
    assert_eq!(candidate.cost, 0.1);
    let value = |t: &[f64]| held_out.value(1, Criterion::F1Macro, t).unwrap();
    assert!(value(&thresholds) >= value(&[0.0; 4]));
    assert!(
        held_out
            .value(1, Criterion::SquaredError, &thresholds)
            .unwrap()
            < 0.0
    );
}

/// What two inputs say by their product no sum of inputs says: a map of the appended inputs does, for tasks and for classes.
#[test]
fn a_map_of_the_inputs_finds_what_is_not_linear() {
    let value = |n: usize, d: usize| {
        ((1.3 * n as f64 + 0.7 * (d * d) as f64 + 0.1 * (n * d) as f64).sin() * 1e4).fract()
    };
    let n = 300;
    let inputs = Table::complete(n, 3, (0..3 * n).map(|k| value(k / 3, k % 3)).collect()).unwrap();
    let truth: Vec<bool> = (0..n).map(|i| value(i, 0) * value(i, 1) > 0.0).collect();
    let known = |i: usize| (i < 200).then(|| truth[i]);
    let data = tasks::TaskData::new(
        inputs.clone(),
        vec![Task::label(
            "product",
            &(0..n).map(known).collect::<Vec<_>>(),
        )],
    )
    .unwrap();
    let codes = (0..n).map(|i| known(i).map(usize::from)).collect();
    let labels = Labels::from_codes(["no", "yes"].map(str::to_owned).to_vec(), codes).unwrap();
    let shares = [None, Some(MapConfig::default())].map(|map| {
        let config = IlsvmConfig {
            map,
            raw_inputs: 1.0,
            cost: 3.0,
            ..task_config(3)
        };
        let scores = tasks::fit(&data, &config)
            .unwrap()
            .predict(&inputs)
            .unwrap();
        let found = scores.labels(0).unwrap();
        let of_task = (200..n).filter(|&i| found[i] == truth[i]).count();
        let scores = classes::fit(&inputs, &labels, &config)
            .unwrap()
            .predict(&inputs)
            .unwrap();
        let of_class = (200..n)
            .filter(|&i| (scores.class(i) == 1) == truth[i])
            .count();
        [of_task, of_class]
    });
    assert!(
        shares[0].iter().all(|&right| right < 70) && shares[1].iter().all(|&right| right > 85),
        "{shares:?}"
    );
}
