//! Watchers: all fits are watched in one way. Progress rises to one, and who stops gets what is there.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use npb_data::{Labels, Table};
use npb_infer::{Stop, SweepPlan, VbLimits};
use npb_iqgme::{
    FactorConfig, FactorInit, GibbsConfig, Init, IqgmeConfig, IqgmeError, QgmeConfig, Task,
    TaskInit, TasksConfig, Watch, fit_factor_watched, fit_gibbs_watched, fit_qgme_watched,
    fit_tasks_watched, fit_watched,
};

use crate::data::{config, three_gaussians};

/// How a fit ended: its stops, and whether something was calibrated.
type Ended = (Vec<Stop>, bool);

fn single(table: &Table, labels: &Labels, watch: &Watch<'_>) -> Result<Ended, IqgmeError> {
    let config = IqgmeConfig {
        starts: vec![Init::KMeans(2), Init::PerClass(1)],
        limits: VbLimits {
            max_iterations: 8,
            ..IqgmeConfig::default().limits
        },
        ..config(1)
    };
    let fit = fit_watched(table, labels, &config, watch)?;
    fit.predict_proba(table)?;
    let members = fit.members();
    let calibrated = members
        .iter()
        .any(|m| m.calibration.inverse_temperature != 1.0);
    Ok((members.iter().map(|m| m.stop).collect(), calibrated))
}

fn tasks(table: &Table, labels: &Labels, watch: &Watch<'_>) -> Result<Ended, IqgmeError> {
    let config = TasksConfig {
        single: IqgmeConfig {
            limits: VbLimits {
                max_iterations: 6,
                ..IqgmeConfig::default().limits
            },
            ..config(1)
        },
        starts: vec![TaskInit::Separate(1), TaskInit::SharedGaussian(2)],
        ..TasksConfig::default()
    };
    let task = |name| Task {
        name,
        table,
        labels,
    };
    let fit = fit_tasks_watched(&[task("here"), task("there")], &config, watch)?;
    fit.predict_proba("here", table)?;
    let members = fit.members();
    let calibrated = members
        .iter()
        .any(|m| m.calibration.inverse_temperature != 1.0);
    Ok((members.iter().map(|m| m.stop).collect(), calibrated))
}

fn factor(table: &Table, labels: &Labels, watch: &Watch<'_>) -> Result<Ended, IqgmeError> {
    let config = FactorConfig {
        starts: vec![FactorInit::Pooled(1), FactorInit::PerClass(1)],
        limits: VbLimits {
            max_iterations: 6,
            ..FactorConfig::default().limits
        },
        max_factors: 2,
        ..FactorConfig::default()
    };
    let fit = fit_factor_watched(table, labels, &config, watch)?;
    fit.predict_proba(table)?;
    let members = fit.members();
    let calibrated = members
        .iter()
        .any(|m| m.calibration.inverse_temperature != 1.0);
    Ok((members.iter().map(|m| m.stop).collect(), calibrated))
}

fn gibbs(table: &Table, labels: &Labels, watch: &Watch<'_>) -> Result<Ended, IqgmeError> {
    let config = GibbsConfig {
        model: config(1),
        sweeps: SweepPlan {
            burn_in: 2,
            keep: 6,
            thin: 1,
        },
        chains: 2,
        stored_draws: 6,
        ..GibbsConfig::default()
    };
    let fit = fit_gibbs_watched(table, labels, &config, watch)?;
    fit.predict_proba(table)?;
    Ok((fit.chains().iter().map(|c| c.stop).collect(), false))
}

fn finite(table: &Table, labels: &Labels, watch: &Watch<'_>) -> Result<Ended, IqgmeError> {
    let config = QgmeConfig {
        components: 2,
        restarts: 2,
        ..QgmeConfig::default()
    };
    let fit = fit_qgme_watched(table, labels, &config, watch)?;
    fit.predict_proba(table)?;
    Ok((vec![fit.stop()], false))
}

type Fit = fn(&Table, &Labels, &Watch<'_>) -> Result<Ended, IqgmeError>;

const FITS: [(&str, Fit, &[&str]); 5] = [
    (
        "single",
        single,
        &[
            "member 0",
            "member 1",
            "fold 0, member 1",
            "fold 4, member 0",
        ],
    ),
    (
        "tasks",
        tasks,
        &[
            "member 0",
            "member 1",
            "fold 0, member 1",
            "fold 4, member 0",
        ],
    ),
    (
        "factor",
        factor,
        &[
            "member 0",
            "member 1",
            "fold 0, member 1",
            "fold 4, member 0",
        ],
    ),
    ("gibbs", gibbs, &["chain 0", "chain 1"]),
    ("finite", finite, &["member 0", "member 1"]),
];

#[test]
fn progress_rises_to_one_over_all_parts() {
    let (table, labels) = three_gaussians(3, 60, 1, 0.2, 0.1);
    for (name, fit, parts) in FITS {
        let mut heard: Vec<(String, f64)> = Vec::new();
        let watch = Watch::new(|progress| {
            assert!(progress.values.len() == progress.names.len() || progress.values.is_empty());
            heard.push((progress.part.to_owned(), progress.share));
            ControlFlow::Continue(())
        });
        let (stops, _) = fit(&table, &labels, &watch).unwrap();
        drop(watch);
        assert!(stops.iter().all(|stop| *stop != Stop::Cancelled), "{name}");
        assert!(heard.windows(2).all(|w| w[0].1 <= w[1].1), "{name}");
        assert_eq!(heard.last().unwrap().1, 1.0, "{name}");
        assert!(heard[0].1 > 0.0 || name == "finite", "{name}");
        assert!(
            heard.iter().filter(|(_, share)| *share < 0.5).count() > 3,
            "{name}"
        );
        for part in parts {
            assert!(heard.iter().any(|(p, _)| p == part), "{name}: {part}");
        }
    }
}

/// In the middle of cross-validation: nothing more is begun, and the members answer by their bounds.
#[test]
fn who_stops_gets_what_is_there() {
    let (table, labels) = three_gaussians(3, 60, 1, 0.2, 0.1);
    for (name, fit, _) in &FITS[..3] {
        let (told, after) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let watch = Watch::new(|progress| {
            if after.load(Ordering::Relaxed) > 0 {
                after.fetch_add(1, Ordering::Relaxed);
            }
            let of_folds = usize::from(progress.part.starts_with("fold"));
            match told.fetch_add(of_folds, Ordering::Relaxed) + of_folds {
                0..4 => ControlFlow::Continue(()),
                _ => {
                    after.fetch_max(1, Ordering::Relaxed);
                    ControlFlow::Break(())
                }
            }
        });
        let (stops, calibrated) = fit(&table, &labels, &watch).unwrap();
        drop(watch);
        assert!(stops.iter().all(|stop| *stop != Stop::Cancelled), "{name}");
        assert!(!calibrated, "{name}");
        // Those that are under way on other threads end their iteration.
        let after = after.into_inner() - 1;
        assert!(after <= 16, "{name}: {after} steps after the stop");
    }
    // Before it: members and chains end where they are.
    for (name, fit, _) in FITS {
        let watch = Watch::new(|progress| match progress.step {
            0..4 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        });
        let (stops, _) = fit(&table, &labels, &watch).unwrap();
        assert!(stops.contains(&Stop::Cancelled), "{name}");
    }
}

/// However many members are planned: those that have not begun are left out, but for the first.
#[test]
fn members_do_not_begin_after_a_stop() {
    let (table, labels) = three_gaussians(3, 60, 1, 0.2, 0.1);
    let restarts = 200;
    let at_once = || Watch::new(|_| ControlFlow::Break(()));
    let config = IqgmeConfig {
        starts: vec![Init::KMeans(3)],
        restarts,
        ..config(1)
    };
    let fit = fit_watched(&table, &labels, &config, &at_once()).unwrap();
    let left = fit.members().len();
    assert!((1..restarts).contains(&left), "{left}");
    fit.predict_proba(&table).unwrap();
    let config = TasksConfig {
        single: config,
        starts: vec![TaskInit::Separate(1)],
        ..TasksConfig::default()
    };
    let task = Task {
        name: "here",
        table: &table,
        labels: &labels,
    };
    let fit = fit_tasks_watched(&[task], &config, &at_once()).unwrap();
    let left = fit.members().len();
    assert!((1..restarts).contains(&left), "{left}");
    fit.predict_proba("here", &table).unwrap();
    let config = FactorConfig {
        starts: vec![FactorInit::Pooled(1)],
        restarts,
        ..FactorConfig::default()
    };
    let fit = fit_factor_watched(&table, &labels, &config, &at_once()).unwrap();
    let left = fit.members().len();
    assert!((1..restarts).contains(&left), "{left}");
    fit.predict_proba(&table).unwrap();
}
