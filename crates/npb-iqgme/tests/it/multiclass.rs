//! More than two classes.

use npb_data::Table;
use npb_infer::testing::BoundMonitor;
use npb_iqgme::{Init, IqgmeConfig, IqgmeData, IqgmeFit, IqgmeVb, Saved, VbUpdate, fit};

use crate::data::{by_quantiles, config, evaluate, intervals_agree, three_gaussians};
use crate::gaussians::sectors;

#[test]
fn bound_never_falls_after_any_single_update() {
    for seed in 0..9 {
        let missing = [0.0, 0.2, 0.5][seed as usize % 3];
        let unlabelled = [0.0, 0.3, 0.8][seed as usize / 3 % 3];
        let (table, labels) = sectors(seed, 60, 3 + seed as usize % 2, missing, unlabelled);
        let config = config(seed);
        let data = IqgmeData::new(&table, &labels, &config).unwrap();
        let start = [Init::KMeans(4), Init::PerClass(2)][seed as usize % 2];
        let mut vb = IqgmeVb::new(&data, config, start, 0).unwrap();
        let mut monitor = BoundMonitor::new();
        for iteration in 0..20 {
            for update in [VbUpdate::Labels, VbUpdate::Rows]
                .into_iter()
                .chain(VbUpdate::PARAMETERS)
            {
                vb.apply(update).unwrap();
                let bound = vb.bound().unwrap();
                let mut terms = bound.terms().to_vec();
                terms.extend([0.5 * bound.magnitude, -0.5 * bound.magnitude]);
                monitor
                    .check(
                        &format!("seed {seed}, iteration {iteration}, {update:?}"),
                        &terms,
                    )
                    .unwrap_or_else(|fell| panic!("{fell}"));
            }
        }
    }
}

#[test]
fn classes_are_found_where_they_are() {
    for classes in [3, 4] {
        let (table, labels) = sectors(1, 600, classes, 0.1, 0.0);
        let model = fit(&table, &labels, &config(1)).unwrap();
        let (new, truth) = sectors(2, 600, classes, 0.0, 0.0);
        let found = evaluate(
            model.classes(),
            &model.predict_classes(&new).unwrap(),
            &truth,
        );
        assert!(found.accuracy > 0.85, "{found:?}");
        for (row, class) in model
            .predict_classes(&new)
            .unwrap()
            .iter()
            .zip(model.predict(&new).unwrap())
        {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{row:?}");
            let of_class = row[model.classes().iter().position(|c| c == class).unwrap()];
            assert!(row.iter().all(|p| *p <= of_class));
        }
        assert!(
            model
                .components()
                .iter()
                .all(|c| c.classifier.is_none() && c.utilities.len() == classes - 1)
        );
    }
}

/// Probabilities of classes with holes are averages over the holes.
#[test]
fn holes_are_averaged_over() {
    let (table, labels) = sectors(3, 300, 3, 0.2, 0.1);
    // As the model has it: what is calibrated is no average of what is calibrated.
    let as_it_is = IqgmeConfig {
        folds: 0,
        ..config(3)
    };
    let model = fit(&table, &labels, &as_it_is).unwrap();
    let hole = Table::new(1, 3, vec![-4.5, 0.0, 0.2], &[true, false, true]).unwrap();
    let found = &model.predict_classes(&hole).unwrap()[0];
    let cell = &model.cells_by_row(&hole).unwrap()[0][0];
    let filled = by_quantiles(&hole, cell, 1000);
    let mut mean = [0.0; 3];
    for row in model.predict_classes(&filled).unwrap() {
        (0..3).for_each(|k| mean[k] += row[k] / 1000.0);
    }
    for k in 0..3 {
        assert!((found[k] - mean[k]).abs() < 0.03, "{found:?} {mean:?}");
    }
}

#[test]
fn two_classes_are_the_same_model() {
    let (table, labels) = three_gaussians(4, 150, 1, 0.2, 0.2);
    let model = fit(&table, &labels, &config(4)).unwrap();
    let all = model.predict_classes(&table).unwrap();
    for (one, all) in model.predict_proba(&table).unwrap().iter().zip(all) {
        assert_eq!(*one, all[1]);
        assert!((all[0] + all[1] - 1.0).abs() < 1e-15);
    }
}

#[test]
fn fits_are_saved_continued_and_refuse_what_they_cannot_say() {
    let (table, labels) = sectors(5, 120, 3, 0.2, 0.3);
    let two_runs = IqgmeConfig {
        starts: vec![Init::KMeans(3), Init::PerClass(1)],
        ..config(5)
    };
    let model = fit(&table, &labels, &two_runs).unwrap();
    let again = IqgmeFit::from_bytes(&model.to_bytes().unwrap()).unwrap();
    assert_eq!(
        again.predict_classes(&table).unwrap(),
        model.predict_classes(&table).unwrap()
    );

    // The first class is unlike the others: beside it they are shifted, and stay so.
    let shifts = |model: &IqgmeFit| -> Vec<Vec<f64>> {
        let runs = model.members().iter();
        runs.map(|run| run.calibration.class_offset.clone())
            .collect()
    };
    let shifted = |of: &Vec<f64>| of.len() == 3 && of[0] == 0.0 && of[1] != 0.0 && of[2] != 0.0;
    assert!(shifts(&model).iter().all(shifted), "{:?}", shifts(&model));
    let error = model.predict_proba(&table).unwrap_err().to_string();
    assert!(
        error.contains("predict_classes") && error.contains('3'),
        "{error}"
    );
    let error = model.predict_interval(&table, 0.9).unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("predict_interval") && error.contains("predict_class_intervals"),
        "{error}"
    );
    let predicted = model.predict_classes(&table).unwrap();
    let intervals = model.predict_class_intervals(&table, 0.9).unwrap();
    intervals_agree(&intervals, &predicted).unwrap();
    // The broken twin: those of another row, and of another class.
    let mut moved = predicted.clone();
    moved.rotate_left(1);
    assert!(intervals_agree(&intervals, &moved).is_err());
    let turned = |row: &Vec<f64>| vec![row[1], row[2], row[0]];
    let turned: Vec<Vec<f64>> = predicted.iter().map(turned).collect();
    assert!(intervals_agree(&intervals, &turned).is_err());
}
