//! Equal bits on any number of threads, and after a stop.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use npb_data::{Labels, Table};
use npb_infer::storage::{from_bytes, to_bytes};
use npb_infer::testing::{same_bits_on_threads, same_bits_when_resumed};
use npb_infer::watch::Checkpoint;
use npb_infer::{Stop, VbLimits, VbRun, maximise};
use npb_iqgme::{
    Every, Init, IqgmeConfig, IqgmeData, IqgmeError, IqgmeVb, Saved, Watch, fit, fit_watched,
};

use crate::data::{config, three_gaussians};

#[test]
fn same_on_1_2_and_4_threads() {
    let (table, labels) = three_gaussians(1, 400, 3, 0.3, 0.2);
    let config = IqgmeConfig {
        starts: vec![Init::KMeans(3), Init::PerClass(2)],
        normal_scores: true,
        restarts: 2,
        ..config(1)
    };
    same_bits_on_threads(&[1, 2, 4], || {
        let fitted = fit(&table, &labels, &config).unwrap();
        let mut bytes = fitted.to_bytes().unwrap();
        for p in fitted.predict_proba(&table).unwrap() {
            bytes.extend(p.to_bits().to_le_bytes());
        }
        bytes
    })
    .unwrap();
}

#[test]
fn same_after_a_stop() {
    let (table, labels) = three_gaussians(2, 100, 1, 0.3, 0.1);
    let config = IqgmeConfig { ..config(2) };
    let data = IqgmeData::new(&table, &labels, &config).unwrap();
    type Half<'d> = (IqgmeVb<'d>, Vec<npb_infer::VbReport>);
    let start = || {
        (
            IqgmeVb::new(&data, config.clone(), Init::KMeans(4), 0).unwrap(),
            Vec::new(),
        )
    };
    same_bits_when_resumed(
        10,
        &[1, 4, 9],
        start,
        |half: &mut Half<'_>, n| {
            let (vb, trace) = half;
            let limits = VbLimits {
                max_iterations: trace.len() as u64 + n,
                tolerance: 1e-300,
            };
            let run = VbRun {
                state: vb.state().clone(),
                trace: trace.clone(),
            };
            let memory = Checkpoint::in_memory([Some(run)]);
            let begin = |reached: Option<VbRun<_>>| {
                let VbRun { state, trace } = reached.unwrap();
                IqgmeVb::resume(&data, config.clone(), state, &trace)
            };
            let watch = Watch::none();
            let mut part = watch.part("run", 1.0);
            let (run, outcome) = maximise(&limits, "elbo", &mut part, (&memory, 0), begin).unwrap();
            (*vb, *trace) = (run, outcome.trace);
        },
        |(vb, trace)| to_bytes("test", "0", &(vb.state(), trace)).unwrap(),
        |bytes| {
            let (state, trace): (npb_iqgme::IqgmeState, Vec<npb_infer::VbReport>) =
                from_bytes("test", bytes).unwrap();
            (
                IqgmeVb::resume(&data, config.clone(), state, &trace).unwrap(),
                trace,
            )
        },
    )
    .unwrap();
}

/// A folder of this process, and the path of the checkpoint in it.
fn checkpoint(name: &str) -> (PathBuf, PathBuf) {
    let folder = std::env::temp_dir().join(format!("npb-iqgme-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("run");
    (folder, path)
}

#[test]
fn a_fit_that_was_stopped_or_killed_goes_on_to_the_same_bits() {
    let (table, labels) = three_gaussians(5, 150, 1, 0.2, 0.1);
    let config = IqgmeConfig {
        starts: vec![Init::Mixture(4), Init::PerClass(2)],
        normal_scores: true,
        limits: VbLimits {
            max_iterations: 40,
            ..IqgmeConfig::default().limits
        },
        ..config(5)
    };
    let wanted = fit(&table, &labels, &config).unwrap().to_bytes().unwrap();
    let (folder, path) = checkpoint("stopped");
    let go_on = |listener: &(dyn Fn(&str, u64) -> ControlFlow<()> + Sync)| {
        let watch = Watch::new(|progress| listener(progress.part, progress.step))
            .with_checkpoint(&path, Every::sweeps(4));
        fit_watched(&table, &labels, &config, &watch).unwrap()
    };
    let go = ControlFlow::Continue(());
    // Stopped by the watcher, when some member is after iteration 6.
    let stopped = go_on(&|_, iteration| match iteration {
        ..6 => go,
        _ => ControlFlow::Break(()),
    });
    assert!(stopped.members().iter().all(|run| run.trace.len() <= 6));
    assert_eq!(stopped.stop(), Stop::Cancelled);
    assert_ne!(stopped.to_bytes().unwrap(), wanted);
    // Killed in iteration 10 of a member: the checkpoint of iteration 8 is the last.
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        go_on(&|part, iteration| {
            assert!(part.starts_with("fold") || iteration < 10, "killed");
            go
        })
    }));
    assert!(killed.is_err());
    // Stopped again when three folds have been begun: members have ended, folds may have.
    let members = AtomicBool::new(false);
    let fewest = AtomicU64::new(u64::MAX);
    let halfway = go_on(&|part, iteration| {
        if part == "member 0" {
            fewest.fetch_min(iteration, Ordering::Relaxed);
        }
        members.fetch_or(part.starts_with("member"), Ordering::Relaxed);
        match part.starts_with("fold 3") {
            true => ControlFlow::Break(()),
            false => go,
        }
    });
    assert!(members.into_inner() && fewest.into_inner() > 6);
    // What is there: members that have ended, and that nothing has calibrated.
    for member in halfway.members() {
        assert_ne!(member.stop, Stop::Cancelled);
        assert_eq!(member.calibration.inverse_temperature, 1.0);
    }
    let finished = go_on(&|part, iteration| {
        let ended = halfway.members().iter();
        let ended = ended.map(|member| member.trace.len() as u64).min();
        assert!(
            part.starts_with("fold") || Some(iteration) >= ended,
            "made again"
        );
        go
    });
    assert_eq!(finished.to_bytes().unwrap(), wanted);
    // What has ended is not made again: each member and each fold is told of once.
    let told = AtomicU64::new(0);
    let again = go_on(&|_, _| {
        told.fetch_add(1, Ordering::Relaxed);
        go
    });
    assert_eq!(again.to_bytes().unwrap(), wanted);
    assert_eq!(told.into_inner(), 4 + 5);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_checkpoint_of_something_else_is_refused() {
    let (table, labels) = three_gaussians(6, 60, 0, 0.2, 0.0);
    let config = IqgmeConfig {
        starts: vec![Init::PerClass(1)],
        limits: VbLimits {
            max_iterations: 3,
            ..IqgmeConfig::default().limits
        },
        ..config(6)
    };
    let (folder, path) = checkpoint("refused");
    let go_on = |table: &Table, labels: &Labels, config: &IqgmeConfig| {
        let watch = Watch::none().with_checkpoint(&path, Every::default());
        fit_watched(table, labels, config, &watch)
    };
    go_on(&table, &labels, &config).unwrap();
    let another_seed = IqgmeConfig {
        seed: 7,
        ..config.clone()
    };
    let another_start = IqgmeConfig {
        starts: vec![Init::KMeans(2)],
        ..config.clone()
    };
    let (other, other_labels) = three_gaussians(8, 60, 0, 0.2, 0.0);
    let mut swapped: Vec<usize> = (0..60).collect();
    swapped.swap(0, 1);
    let refused = [
        go_on(&table, &labels, &another_seed),
        go_on(&table, &labels, &another_start),
        go_on(&other, &other_labels, &config),
        go_on(
            &table.select_rows(&swapped),
            &labels.select_rows(&swapped),
            &config,
        ),
    ];
    for refused in refused {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("run") && text.contains("delete it"), "{text}");
    }
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 1);
    std::fs::write(&path, bytes).unwrap();
    let damaged = go_on(&table, &labels, &config);
    assert!(matches!(damaged, Err(IqgmeError::Checkpoint(_))));
    std::fs::remove_dir_all(&folder).unwrap();
}
