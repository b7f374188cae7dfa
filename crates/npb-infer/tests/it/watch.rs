//! A fit of several parts is watched, stopped, and goes on where it was.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use npb_infer::checkpoint::Every;
use npb_infer::watch::{CheckpointError, Progress};
use npb_infer::{Watch, parallel, storage, stream};
use rand::RngExt;

const STEPS: u64 = 20;
const CHAINS: usize = 3;

fn file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("npb-watch-{}-{name}", std::process::id()));
    if path.exists() {
        std::fs::remove_file(&path).unwrap();
    }
    path
}

/// Three random walks, in parallel: what each has reached and how many steps it made.
fn fit(watch: &Watch<'_>, key: u64) -> Result<Vec<(u64, f64)>, CheckpointError> {
    let checkpoint = watch.checkpoint::<(u64, f64)>("demo/walks", "0.1.0", key, CHAINS)?;
    parallel::try_map(0..CHAINS, |number| {
        let chain = number as u64;
        let mut part = watch.part(format!("chain {chain}"), 1.0 / CHAINS as f64);
        let (mut step, mut x) = checkpoint.reached(number).unwrap_or((0, 0.0));
        while step < STEPS {
            step += 1;
            x += stream(7, [chain, step, 0, 0]).random::<f64>();
            checkpoint.offer(number, step, || (step, x))?;
            let share = step as f64 / STEPS as f64;
            if part.report(step, share, &["x".to_owned()], &[x]).is_break() {
                break;
            }
        }
        checkpoint.write(number, || (step, x))?;
        Ok((step, x))
    })
}

/// A watcher that stops the fit at its n-th call, with a checkpoint.
fn stop_after(n: usize, path: &Path) -> Watch<'static> {
    let mut calls = 0;
    let listen = move |_: &Progress<'_>| {
        calls += 1;
        match calls < n {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    Watch::new(listen).with_checkpoint(path, Every::sweeps(4))
}

#[test]
fn shares_rise_to_one_and_scalars_are_heard() {
    let mut heard: Vec<(f64, f64)> = Vec::new();
    let watch = Watch::new(|progress: &Progress<'_>| {
        assert_eq!(progress.names, ["x"]);
        heard.push((progress.share, progress.values[0]));
        ControlFlow::Continue(())
    });
    fit(&watch, 1).unwrap();
    drop(watch);
    assert_eq!(heard.len(), CHAINS * STEPS as usize);
    assert!(heard.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(heard.last().unwrap().0, 1.0);
    assert!(heard.iter().all(|h| h.1 > 0.0));
}

#[test]
fn a_part_that_ends_early_counts_whole_and_shares_never_fall() {
    let mut shares = Vec::new();
    let watch = Watch::new(|progress: &Progress<'_>| {
        shares.push(progress.share);
        ControlFlow::Continue(())
    });
    let (mut first, mut second) = (watch.part("start 0", 0.75), watch.part("start 1", 0.25));
    assert!(first.report(1, 0.5, &[], &[]).is_continue());
    assert!(first.report(2, 0.25, &[], &[]).is_continue());
    assert!(second.report(1, 1.0, &[], &[]).is_continue());
    assert!(first.report(3, 1.0, &[], &[]).is_continue());
    drop(watch);
    assert_eq!(shares, [0.375, 0.375, 0.625, 1.0]);
}

#[test]
fn a_stopped_fit_goes_on_to_the_same_bits() {
    let whole = fit(&Watch::none(), 1).unwrap();
    let path = file("goes-on");
    for n in [1, 5, 13, 30] {
        let part = fit(&stop_after(n, &path), 1).unwrap();
        assert!(part.iter().any(|(step, _)| *step < STEPS), "stop at {n}");
    }
    let watch = Watch::none().with_checkpoint(&path, Every::default());
    assert_eq!(fit(&watch, 1).unwrap(), whole);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_killed_fit_goes_on_from_the_last_checkpoint_that_was_due() {
    let path = file("killed");
    let watch = Watch::none().with_checkpoint(&path, Every::sweeps(4));
    let checkpoint = watch.checkpoint::<u64>("demo/n", "0.1.0", 3, 2).unwrap();
    assert_eq!(checkpoint.reached(0), None);
    for step in 1..=6 {
        checkpoint.offer(0, step, || step).unwrap();
    }
    drop(checkpoint);
    let checkpoint = watch.checkpoint::<u64>("demo/n", "0.1.0", 3, 2).unwrap();
    assert_eq!(checkpoint.reached(0), Some(4));
    assert_eq!(checkpoint.reached(1), None);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn checkpoints_of_other_fits_and_damaged_ones_are_refused() {
    let path = file("other");
    let watch = || Watch::none().with_checkpoint(&path, Every::sweeps(1));
    let whole = fit(&watch(), 1).unwrap();
    let error = fit(&watch(), 2).unwrap_err();
    assert!(matches!(&error, CheckpointError::OtherFit { path: named } if *named == path));
    assert!(error.to_string().contains("delete it to start again"));
    let other_parts = watch().checkpoint::<(u64, f64)>("demo/walks", "0.1.0", 1, 2);
    assert!(matches!(
        other_parts.unwrap_err(),
        CheckpointError::OtherFit { .. }
    ));
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = fit(&watch(), 1).unwrap_err();
    assert!(matches!(error, CheckpointError::Storage(_)) && error.path() == path);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(fit(&watch(), 1).unwrap(), whole);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn fingerprints_tell_values_apart() {
    let of = |value: &[f64]| storage::fingerprint(value).unwrap();
    assert_eq!(of(&[1.0, 2.0]), of(&[1.0, 2.0]));
    for other in [&[2.0, 1.0][..], &[1.0], &[1.0, 2.0, 0.0], &[1.0, -2.0]] {
        assert_ne!(of(&[1.0, 2.0]), of(other));
    }
    assert_ne!(
        storage::fingerprint(&("ab", "c")).unwrap(),
        storage::fingerprint(&("a", "bc")).unwrap()
    );
}
