//! More than two classes.

use npb_data::{Labels, Table};
use npb_infer::VbLimits;
use npb_infer::testing::{attack_file, same_bits_on_threads};
use npb_iqgme::{FactorConfig, FactorFit, FactorInit, Saved, fit_factor};

use super::data::{Simulation, config};
use crate::data::{evaluate, intervals_agree};

/// One cluster, or two, whose first two factors tell three classes.
fn simulation(clusters: usize) -> Simulation {
    Simulation {
        n: 500,
        p: 30,
        used: vec![vec![0, 1, 2], vec![3, 4]][..clusters].to_vec(),
        apart: 1.5,
        noise: 1.0,
        missing: 0.2,
        unlabelled: 0.1,
        classes: 3,
    }
}

fn part(table: &Table, labels: &Labels, rows: std::ops::Range<usize>) -> (Table, Labels) {
    let rows: Vec<usize> = rows.collect();
    (table.select_rows(&rows), labels.select_rows(&rows))
}

#[test]
fn classes_of_new_rows_are_found() {
    let (table, labels, _) = simulation(2).draw(3);
    let (train, names) = part(&table, &labels, 0..300);
    let (test, truth) = part(&table, &labels, 300..500);
    let config = FactorConfig {
        max_factors: 8,
        starts: vec![
            FactorInit::Pooled(2),
            FactorInit::PerClass(1),
            FactorInit::Own(2),
        ],
        limits: VbLimits {
            max_iterations: 40,
            ..FactorConfig::default().limits
        },
        ..config(3)
    };
    let fit = fit_factor(&train, &names, &config).unwrap();
    assert_eq!(fit.classes(), ["none", "one", "two"]);
    let found = evaluate(fit.classes(), &fit.predict_classes(&test).unwrap(), &truth);
    assert!(found.accuracy > 0.7 && found.log_loss < 0.7, "{found:?}");
    let predicted = fit.predict_classes(&test).unwrap();
    assert!(
        predicted
            .iter()
            .all(|p| (p.iter().sum::<f64>() - 1.0).abs() < 1e-9)
    );
    let intervals = fit.predict_class_intervals(&test, 0.9).unwrap();
    intervals_agree(&intervals, &predicted).unwrap();
    for run in fit.members() {
        assert!(
            run.calibration.class_offset.len() == 3 && run.calibration.class_offset[0] == 0.0,
            "{:?}",
            run.calibration.class_offset
        );
    }
    for component in fit.components() {
        assert!(component.effects.is_none() && component.utilities.len() == 2);
        assert_eq!(component.utilities[1].len(), component.factors.len());
    }
    // A row of which nothing is seen has the classes' shares.
    let unseen = Table::new(1, 30, vec![0.0; 30], &[false; 30]).unwrap();
    let shares = &fit.predict_classes(&unseen).unwrap()[0];
    let n: usize = names.counts().iter().sum();
    for (share, count) in shares.iter().zip(names.counts()) {
        assert!((share - count as f64 / n as f64).abs() < 0.1, "{shares:?}");
    }
    let error = fit.predict_proba(&test).unwrap_err().to_string();
    assert!(
        error.contains("predict_classes") && error.contains('3'),
        "{error}"
    );
    let error = fit.predict_interval(&test, 0.9).unwrap_err().to_string();
    assert!(error.contains("predict_class_intervals"), "{error}");
    let loaded = FactorFit::from_bytes(&fit.to_bytes().unwrap()).unwrap();
    assert_eq!(loaded.predict_classes(&test).unwrap(), predicted);
}

#[test]
fn threads_and_damaged_files() {
    let (table, labels, _) = Simulation {
        n: 14,
        p: 5,
        ..simulation(2)
    }
    .draw(9);
    let config = FactorConfig {
        starts: vec![FactorInit::Pooled(2), FactorInit::PerClass(1)],
        limits: VbLimits {
            max_iterations: 15,
            ..FactorConfig::default().limits
        },
        ..config(9)
    };
    let bytes = || {
        fit_factor(&table, &labels, &config)
            .unwrap()
            .to_bytes()
            .unwrap()
    };
    same_bits_on_threads(&[1, 2, 4], bytes).unwrap();
    let few = table.select_rows(&[0, 1]);
    let exercise = |f: &FactorFit| {
        let _ = f.predict_classes(&few);
        let _ = f.predict_class_intervals(&few, 0.9);
        let _ = f.components();
    };
    attack_file(&bytes(), 300, 1, FactorFit::from_bytes, exercise).unwrap();
}
