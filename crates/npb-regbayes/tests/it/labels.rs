//! Labels and numbers by latent features and inputs.

use std::ops::ControlFlow;

use npb_infer::stream;
use npb_regbayes::labels::{
    Decisions, LabelInputs, LabelNote, LabelsConfig, LabelsFit, Member, fit, fit_watched,
};
use npb_regbayes::npb_data::{Standardiser, Table};
use npb_regbayes::npb_infer::Watch;
use npb_regbayes::npb_infer::checkpoint::Every;
use npb_regbayes::npb_infer::testing::{attack_file, same_bits_on_threads};
use npb_regbayes::npb_infer::watch::Progress;
use npb_regbayes::tasks::{self, Task, TaskData};
use npb_regbayes::{ClassCosts, Saved};
use rand_distr::{Distribution, StandardNormal};

use crate::simulated::{self, task_config};

fn config(inputs: LabelInputs) -> LabelsConfig {
    LabelsConfig {
        inputs,
        costs: vec![0.1, 1.0, 10.0],
        folds: 4,
        landmarks: 30,
        latent: task_config(4),
        ..LabelsConfig::default()
    }
}

const ALL: [LabelInputs; 4] = [
    LabelInputs::None,
    LabelInputs::Linear,
    LabelInputs::Rbf,
    LabelInputs::Select,
];

fn normals(seed: u64, n: usize, d: usize) -> Table {
    let rng = &mut stream(seed, [7, 0, 0, 0]);
    let values = (0..n * d).map(|_| StandardNormal.sample(rng)).collect();
    Table::complete(n, d, values).unwrap()
}

/// One label of the first `known` rows.
fn one_label(inputs: &Table, known: usize, of: impl Fn(&[f64]) -> bool) -> (TaskData, Vec<bool>) {
    let truth: Vec<bool> = (0..inputs.n_rows()).map(|n| of(inputs.row(n))).collect();
    let label: Vec<Option<bool>> = (0..truth.len())
        .map(|n| (n < known).then(|| truth[n]))
        .collect();
    (
        TaskData::new(inputs.clone(), vec![Task::label("y", &label)]).unwrap(),
        truth,
    )
}

fn share_right(fit: &LabelsFit, inputs: &Table, truth: &[bool], from: usize) -> f64 {
    let found = fit.predict(inputs).unwrap().labels(0).unwrap();
    let right = (from..truth.len())
        .filter(|&n| found[n] == truth[n])
        .count();
    right as f64 / (truth.len() - from) as f64
}

/// The dull test: ten independent inputs and a line. Logistic regression has .89 of decisions right at 40 rows, .93 at 80, .95 at 160.
#[test]
fn a_line_in_independent_inputs_is_found() {
    for (rows, least) in [(40, 0.855), (80, 0.91), (160, 0.94)] {
        let share: f64 = (0..12)
            .map(|seed| {
                let inputs = normals(seed, rows + 300, 10);
                let line = |x: &[f64]| {
                    x.iter()
                        .enumerate()
                        .map(|(d, x)| x * (d as f64 * 1.7).sin())
                        .sum::<f64>()
                        > 0.0
                };
                let (data, truth) = one_label(&inputs, rows, line);
                let model = fit(&data, &LabelsConfig::default()).unwrap();
                share_right(&model, &inputs, &truth, rows) / 12.0
            })
            .sum();
        assert!(share > least, "{rows}: {share}");
    }
}

/// What the inputs by themselves add to a score is their weights times their standard units.
#[test]
fn weights_of_inputs_are_what_scores_add() {
    let inputs = normals(8, 60, 3);
    let (data, _) = one_label(&inputs, 60, |x| x[0] - 0.5 * x[2] > 0.2);
    let model = fit(&data, &config(LabelInputs::Linear)).unwrap();
    let (all, latent) = (model.predict(&inputs), model.latent().predict(&inputs));
    let (all, latent) = (all.unwrap().of_task(0), latent.unwrap().of_task(0));
    let units = Standardiser::fit(&inputs);
    let standard = units.apply(&inputs).unwrap();
    let added = |n: usize| all[n] - latent[n];
    let expected = |n: usize| npb_linalg::dot(model.input_weights(), standard.row(n));
    assert!(model.input_weights().iter().any(|w| w.abs() > 0.1));
    for n in 1..60 {
        let (added, expected) = (added(n) - added(0), expected(n) - expected(0));
        assert!((added - expected).abs() < 1e-9, "{added} {expected}");
    }
}

/// A ring is for kernels, a line is not; members say so, and decisions follow.
#[test]
fn members_are_weighed_by_what_they_carry() {
    let inputs = normals(3, 500, 2);
    let (data, truth) = one_label(&inputs, 200, |x| x[0] * x[0] + x[1] * x[1] < 1.2);
    let model = fit(&data, &LabelsConfig::default()).unwrap();
    let weight = |kernel: bool| -> f64 {
        let own = model
            .members()
            .iter()
            .filter(|m| matches!(m.member, Member::Rbf { .. }) == kernel);
        own.map(|m| m.stacking_weight).sum()
    };
    assert!(weight(true) > 0.9 && (weight(true) + weight(false) - 1.0).abs() < 1e-9);
    assert!(share_right(&model, &inputs, &truth, 200) > 0.93);
    let linear = LabelsConfig {
        inputs: LabelInputs::Linear,
        ..LabelsConfig::default()
    };
    let line = fit(&data, &linear).unwrap();
    assert!(share_right(&line, &inputs, &truth, 200) < 0.7);
    // Nothing drives what nothing carries: every row gets one answer, and the fit says so.
    let noise = one_label(&inputs, 200, |x| (x[0] * 1e4).fract().abs() < 0.1).0;
    let nothing = fit(&noise, &linear).unwrap();
    let note = LabelNote::OneAnswer {
        label: "y".to_owned(),
        yes: false,
    };
    assert_eq!(nothing.notes(), [note]);
    assert!(
        nothing.notes()[0]
            .to_string()
            .contains("label y: the answer is no for every row")
    );
}

#[test]
fn probabilities_are_calibrated() {
    let inputs = normals(4, 4000, 3);
    let chance = |x: &[f64]| 1.0 / (1.0 + (-2.0 * x[0] + x[1] + 1.0).exp());
    let rng = &mut stream(9, [0; 4]);
    let truth: Vec<bool> = (0..4000)
        .map(|n| rand::RngExt::random::<f64>(rng) < chance(inputs.row(n)))
        .collect();
    let label: Vec<Option<bool>> = (0..4000).map(|n| (n < 400).then(|| truth[n])).collect();
    let data = TaskData::new(inputs.clone(), vec![Task::label("y", &label)]).unwrap();
    let found = fit(&data, &LabelsConfig::default())
        .unwrap()
        .predict(&inputs)
        .unwrap();
    let p = found.probabilities(0).unwrap();
    let error: f64 = (400..4000)
        .map(|n| (p[n] - chance(inputs.row(n))).abs() / 3600.0)
        .sum();
    assert!(error < 0.05, "{error}");
    for n in [0, 399, 3999] {
        assert!((p[n] - 1.0 / (1.0 + (-found.score(n, 0)).exp())).abs() < 1e-15);
    }
    // In tenths of what is said: as often as that.
    for tenth in 0..10 {
        let own: Vec<usize> = (400..4000)
            .filter(|&n| (p[n] * 10.0) as usize == tenth)
            .collect();
        let mean =
            |of: &dyn Fn(usize) -> f64| own.iter().map(|&n| of(n)).sum::<f64>() / own.len() as f64;
        let gap = mean(&|n| p[n]) - mean(&|n| f64::from(u8::from(truth[n])));
        assert!(own.len() < 100 || gap.abs() < 0.09, "{tenth}: {gap}");
    }
}

/// Balanced classes count as if rows of the rare one were there as often; decisions at 1/2 then have more yeses. Thresholds fall from accuracy to F1.
#[test]
fn rare_labels_are_decided_as_asked() {
    let inputs = normals(5, 600, 4);
    let rare = |x: &[f64]| x[0] + 0.5 * x[1] + 0.7 * x[3] * x[2] > 1.9;
    let (data, _) = one_label(&inputs, 300, rare);
    let with = |decisions, class_costs| {
        let mut config = LabelsConfig {
            decisions,
            ..config(LabelInputs::Linear)
        };
        config.latent.class_costs = class_costs;
        fit(&data, &config).unwrap()
    };
    let yeses = |model: &LabelsFit| {
        model
            .predict(&inputs)
            .unwrap()
            .labels(0)
            .unwrap()
            .iter()
            .filter(|y| **y)
            .count()
    };
    let [accuracy, both, f1] = [Decisions::Accuracy, Decisions::Both, Decisions::F1Macro]
        .map(|d| with(d, ClassCosts::Equal));
    assert!(yeses(&accuracy) < yeses(&both) && yeses(&both) < yeses(&f1));
    assert!(yeses(&with(Decisions::Accuracy, ClassCosts::Balanced)) > 2 * yeses(&accuracy));
    // One label: F1 together is its own. Scores are the same, whatever is decided.
    let micro = with(Decisions::F1Micro, ClassCosts::Equal);
    assert_eq!(yeses(&micro), yeses(&f1));
    assert_eq!(
        micro.predict(&inputs).unwrap().of_task(0),
        both.predict(&inputs).unwrap().of_task(0)
    );
}

/// F1 of rows that were not in training: decisions for F1 have more of it than those for accuracy.
#[test]
fn decisions_for_f1_have_more_of_it() {
    const TABLES: u64 = 6;
    let mut mean = [0.0; 2];
    for seed in 0..TABLES {
        let inputs = normals(30 + seed, 900, 3);
        let (data, truth) = one_label(&inputs, 300, |x| x[0] + 0.6 * x[2] > 1.6);
        for (mean, decisions) in mean
            .iter_mut()
            .zip([Decisions::Accuracy, Decisions::F1Macro])
        {
            let config = LabelsConfig {
                decisions,
                ..config(LabelInputs::Linear)
            };
            let found = fit(&data, &config).unwrap().predict(&inputs).unwrap();
            let found = found.labels(0).unwrap();
            let both = (300..900).filter(|&n| found[n] && truth[n]).count() as f64;
            let yes = |n: usize| f64::from(u8::from(found[n])) + f64::from(u8::from(truth[n]));
            *mean += 2.0 * both / (300..900).map(yes).sum::<f64>() / TABLES as f64;
        }
    }
    assert!(mean[1] > mean[0] + 0.03, "{mean:?}");
}

/// Numbers come back in their units: least squares on the same rows says nearly the same.
#[test]
fn numbers_are_predicted_in_their_units() {
    let inputs = normals(6, 300, 3);
    let rng = &mut stream(8, [0; 4]);
    let line = |x: &[f64]| 100.0 + 30.0 * x[0] - 10.0 * x[2];
    let value: Vec<Option<f64>> = (0..300)
        .map(|n| {
            let noise: f64 = StandardNormal.sample(rng);
            (n < 150).then(|| line(inputs.row(n)) + 5.0 * noise)
        })
        .collect();
    let yes: Vec<Option<bool>> = (0..300)
        .map(|n| (n < 150).then(|| inputs.row(n)[1] > 0.0))
        .collect();
    let tasks = vec![
        Task::real("number", &value).unwrap(),
        Task::label("yes", &yes),
    ];
    let data = TaskData::new(inputs.clone(), tasks).unwrap();
    for of in [LabelInputs::Linear, LabelInputs::Select] {
        let model = fit(
            &data,
            &LabelsConfig {
                inputs: of,
                ..LabelsConfig::default()
            },
        )
        .unwrap();
        let found = model.predict(&inputs).unwrap();
        let squares = (150..300).map(|n| (found.score(n, 0) - line(inputs.row(n))).powi(2));
        let error = (squares.sum::<f64>() / 150.0).sqrt();
        assert!(error < 3.0, "{of:?}: {error}");
        assert!(found.labels(0).is_none() && found.probabilities(0).is_none());
        let right = (150..300).filter(|&n| found.labels(1).unwrap()[n] == (inputs.row(n)[1] > 0.0));
        assert!(right.count() > 138);
        let kinds: f64 = model
            .members()
            .iter()
            .filter(|m| m.numbers)
            .map(|m| m.stacking_weight)
            .sum();
        assert!((kinds - 1.0).abs() < 1e-9);
    }
}

/// Without inputs it is the paper's model, bit by bit, and has no probabilities.
#[test]
fn without_inputs_it_is_mt_ilsvm() {
    let simulated = simulated::tasks(21, 60, 0.1);
    let data = simulated.data(40);
    let own = fit(&data, &config(LabelInputs::None)).unwrap();
    assert_eq!(own.latent(), &tasks::fit(&data, &task_config(4)).unwrap());
    let (found, theirs) = (
        own.predict(&simulated.inputs).unwrap(),
        own.latent().predict(&simulated.inputs).unwrap(),
    );
    assert_eq!(found, theirs);
    assert!(found.probabilities(0).is_none() && own.members().is_empty());
}

/// Scores are those of the latent part, and what is known of the inputs: a fit with features alone to weigh says the same through both.
#[test]
fn features_drive_what_they_have_weight_in() {
    let data = simulated::tasks(22, 80, 0.0).data(60);
    let model = fit(&data, &config(LabelInputs::Select)).unwrap();
    let weight: f64 = (model.members().iter())
        .filter(|m| m.member == Member::Latent && !m.numbers)
        .map(|m| m.stacking_weight)
        .sum();
    let drives = model
        .features()
        .iter()
        .any(|f| f.drives.iter().any(|(name, w)| name != "real" && *w != 0.0));
    assert_eq!(drives, weight > 0.0);
}

#[test]
fn bits_depend_on_nothing_but_data_and_settings() {
    let data = simulated::tasks(12, 40, 0.2).data(25);
    for of in ALL {
        same_bits_on_threads(&[1, 2, 4], || {
            fit(&data, &config(of)).unwrap().to_bytes().unwrap()
        })
        .unwrap();
    }
}

/// Stopped in the features and while scores are held out: the same bits when it is called again.
#[test]
fn stopped_fits_go_on_in_the_same_bits() {
    let path = std::env::temp_dir().join(format!("npb-regbayes-labels-{}.npb", std::process::id()));
    let data = simulated::tasks(12, 40, 0.1).data(25);
    let config = config(LabelInputs::Select);
    let mut shares = Vec::new();
    let watch = Watch::new(|progress: &Progress<'_>| {
        shares.push(progress.share);
        ControlFlow::Continue(())
    });
    let whole = fit_watched(&data, &config, &watch)
        .unwrap()
        .to_bytes()
        .unwrap();
    drop(watch);
    assert!(
        shares.windows(2).all(|w| w[0] <= w[1]) && shares.last() == Some(&1.0),
        "{shares:?}"
    );
    for (part, step) in [("fit", 0), ("fit", 1), ("held out", 2)] {
        let watch = Watch::new(|progress: &Progress<'_>| {
            match progress.part == part && progress.step >= step {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let watch = watch.with_checkpoint(&path, Every::sweeps(1));
        let error = fit_watched(&data, &config, &watch).unwrap_err().to_string();
        assert!(error.contains("stopped"), "{error}");
        let watch = Watch::none().with_checkpoint(&path, Every::sweeps(1));
        let again = fit_watched(&data, &config, &watch).unwrap();
        assert!(again.to_bytes().unwrap() == whole, "{part} {step}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn files_come_back_or_are_refused() {
    let simulated = simulated::tasks(14, 12, 0.1);
    let data = simulated.data(10);
    for of in ALL {
        let mut small = config(of);
        small.folds = 2;
        small.latent = task_config(2);
        small.latent.limits.max_iterations = 2;
        small.latent.factors.growth = 0;
        let model = fit(&data, &small).unwrap();
        let bytes = model.to_bytes().unwrap();
        assert_eq!(LabelsFit::from_bytes(&bytes).unwrap(), model);
        let exercise = |fit: &LabelsFit| {
            let _ = fit
                .predict(&simulated.inputs)
                .map(|scores| (scores.labels(0), scores.probabilities(0)));
            let _ = (
                fit.features().len(),
                fit.members().len(),
                format!("{fit:?}"),
            );
        };
        attack_file(&bytes, 150, 1, LabelsFit::from_bytes, exercise).unwrap();
    }
    // One of the paper's model is of another kind.
    let other = tasks::fit(&data, &task_config(2)).unwrap();
    assert!(LabelsFit::from_bytes(&other.to_bytes().unwrap()).is_err());
}

#[test]
fn odd_tables_have_answers_or_errors() {
    // A label of one value, in a wide table with a constant and a doubled column, and a row of holes.
    let cells: Vec<f64> = (0..8 * 20)
        .map(|k| match (k / 20, k % 20) {
            (7, _) => f64::NAN,
            (_, 3) => 1.0,
            (n, 4) => ((n * 5) % 7) as f64,
            (n, d) => ((n * (d + 1)) % 7) as f64,
        })
        .collect();
    let inputs = Table::from_nan_coded(8, 20, &cells).unwrap();
    let all = Task::label("all", &[Some(true); 8]);
    let some = Task::label(
        "some",
        &[
            Some(true),
            Some(false),
            Some(true),
            Some(false),
            None,
            None,
            None,
            Some(true),
        ],
    );
    let data = TaskData::new(inputs.clone(), vec![all, some]).unwrap();
    for of in ALL {
        let model = fit(&data, &config(of)).unwrap();
        let note = LabelNote::OneValue {
            label: "all".to_owned(),
            yes: true,
        };
        assert_eq!(model.notes()[0], note);
        let found = model.predict(&inputs).unwrap();
        assert!((0..8).all(|n| found.score(n, 0).is_finite() && found.score(n, 1).is_finite()));
        assert!(found.labels(0).unwrap().iter().all(|y| *y));
        assert!(model.predict(&normals(1, 3, 5)).is_err());
    }
    // All rows equal but for one column of noise at 1e-300; two rows.
    let tiny = Table::complete(2, 1, vec![0.0, 1e-300]).unwrap();
    let data = TaskData::new(
        tiny.clone(),
        vec![Task::label("y", &[Some(true), Some(false)])],
    )
    .unwrap();
    if let Ok(model) = fit(&data, &LabelsConfig::default()) {
        assert!(model.predict(&tiny).unwrap().score(0, 0).is_finite());
    }
    let one = TaskData::new(
        inputs,
        vec![Task::label(
            "y",
            &[Some(true), None, None, None, None, None, None, None],
        )],
    )
    .unwrap();
    assert!(fit(&one, &LabelsConfig::default()).is_err());
    let wrong = |change: fn(&mut LabelsConfig)| {
        let mut config = LabelsConfig::default();
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    assert!(wrong(|c| c.folds = 1).contains("folds = 1"));
    assert!(wrong(|c| c.landmarks = 0).contains("landmarks"));
    assert!(wrong(|c| c.costs = vec![]).contains("costs"));
    assert!(wrong(|c| c.costs = vec![1.0, 0.1]).contains("costs = 0.1"));
    assert!(wrong(|c| c.costs = vec![f64::NAN]).contains("costs"));
    assert!(wrong(|c| c.latent.ones = -1.0).contains("ones"));
}
