//! Equal bits on any number of threads, and after a stop.

use std::ops::ControlFlow;
use std::path::PathBuf;

use npb_data::{Labels, Table};
use npb_infer::storage::{from_bytes, to_bytes};
use npb_infer::testing::{same_bits_on_threads, same_bits_when_resumed};
use npb_infer::{Stop, VbReport};
use npb_iqgme::{
    Every, Init, IqgmeConfig, IqgmeData, IqgmeError, IqgmeVb, Saved, fit, fit_with_checkpoints,
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
            let limits = IqgmeConfig {
                max_iterations: trace.len() as u64 + n,
                tolerance: 1e-300,
                ..config.clone()
            };
            let mut run =
                IqgmeVb::resume(&data, limits, vb.state().clone(), trace.clone()).unwrap();
            *trace = run
                .run(|_, _| std::ops::ControlFlow::Continue(()))
                .unwrap()
                .trace;
            *vb = run;
        },
        |(vb, trace)| to_bytes("test", "0", &(vb.state(), trace)).unwrap(),
        |bytes| {
            let (state, trace): (npb_iqgme::IqgmeState, Vec<npb_infer::VbReport>) =
                from_bytes("test", bytes).unwrap();
            (
                IqgmeVb::resume(&data, config.clone(), state, trace.clone()).unwrap(),
                trace,
            )
        },
    )
    .unwrap();
}

/// A folder of this process, and the path of the checkpoints in it.
fn checkpoints(name: &str) -> (PathBuf, PathBuf) {
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
        max_iterations: 40,
        ..config(5)
    };
    let wanted = fit(&table, &labels, &config).unwrap().to_bytes().unwrap();
    let (folder, path) = checkpoints("stopped");
    let every = Every::sweeps(4);
    let go_on = |watch: &(dyn Fn(usize, u64) -> ControlFlow<()> + Sync)| {
        fit_with_checkpoints(&table, &labels, &config, &path, every, |run, report| {
            watch(run, report.iteration)
        })
        .unwrap()
    };
    // Stopped by the watcher, after iteration 6.
    let stopped = go_on(&|_, iteration| {
        if iteration < 6 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    assert!(stopped.members().iter().all(|run| run.trace.len() == 6));
    assert_eq!(stopped.stop(), &Stop::Cancelled);
    assert_ne!(stopped.to_bytes().unwrap(), wanted);
    // Who stops does not wait for what the folds say.
    let fold = |k: usize| folder.join(format!("run.fold{k}"));
    assert!(!fold(0).exists());
    // Killed in iteration 10: what is left of the first run is the checkpoint of iteration 8. The second may not have begun.
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        go_on(&|_, iteration| {
            assert!(iteration < 10, "killed");
            ControlFlow::Continue(())
        })
    }));
    assert!(killed.is_err());
    let finished = go_on(&|run, iteration| {
        let done = if run == 0 { 8 } else { 6 };
        assert!(
            iteration > done,
            "run {run}: iteration {iteration} is made again"
        );
        ControlFlow::Continue(())
    });
    assert_eq!(finished.to_bytes().unwrap(), wanted);
    // Runs that have ended are not made again, nor are folds: their files are read.
    let again = go_on(&|_, _| panic!("there is nothing left to do"));
    assert_eq!(again.to_bytes().unwrap(), wanted);
    std::fs::copy(fold(0), fold(1)).unwrap();
    let go_on = |_, _: &VbReport| ControlFlow::Continue(());
    let refused = fit_with_checkpoints(&table, &labels, &config, &path, every, go_on);
    let text = refused.unwrap_err().to_string();
    assert!(
        text.contains("run.fold1") && text.contains("delete it"),
        "{text}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_checkpoint_of_something_else_is_refused() {
    let (table, labels) = three_gaussians(6, 60, 0, 0.2, 0.0);
    let config = IqgmeConfig {
        starts: vec![Init::PerClass(1)],
        max_iterations: 3,
        ..config(6)
    };
    let (folder, path) = checkpoints("refused");
    let go_on = |table: &Table, labels: &Labels, config: &IqgmeConfig| {
        fit_with_checkpoints(table, labels, config, &path, Every::default(), |_, _| {
            ControlFlow::Continue(())
        })
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
        assert!(matches!(refused, Err(IqgmeError::Saved { .. })));
    }
    let file = folder.join("run.0");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.truncate(bytes.len() - 1);
    std::fs::write(&file, bytes).unwrap();
    let damaged = go_on(&table, &labels, &config);
    assert!(matches!(damaged, Err(IqgmeError::Storage(_))));
    std::fs::remove_dir_all(&folder).unwrap();
}
