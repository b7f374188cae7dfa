//! Sweep plans, traces and checkpoints.

use std::{cell::Cell, fs, time::Duration};

use npb_infer::{
    SweepPlan, Trace,
    checkpoint::{self, Checkpointer, Every},
    storage,
};

use crate::storage::Folder;

const PLAN: SweepPlan = SweepPlan {
    burn_in: 5,
    keep: 4,
    thin: 3,
};

#[test]
fn the_plan_says_which_draws_are_kept() {
    let kept: Vec<u64> = (0..100).filter(|&s| PLAN.is_kept(s)).collect();
    assert_eq!((PLAN.total(), kept), (17, vec![8, 11, 14, 17]));
    let every = SweepPlan {
        burn_in: 0,
        keep: 2,
        thin: 0,
    };
    assert_eq!(
        (
            every.total(),
            every.is_kept(0),
            every.is_kept(1),
            every.is_kept(3)
        ),
        (2, false, true, false)
    );
    assert_eq!(
        SweepPlan {
            burn_in: 9,
            keep: u64::MAX,
            thin: 2
        }
        .total(),
        u64::MAX
    );
}

#[test]
fn a_trace_gives_its_scalars_by_sweep_and_by_name() {
    let mut trace = Trace::new(["at", "unused"]);
    (1..=17).for_each(|sweep| trace.push(&[f64::from(sweep), f64::NAN]));
    assert_eq!((trace.n_sweeps(), trace.row(16)[0]), (17, 17.0));
    assert_eq!(trace.kept(&PLAN, 0), [8.0, 11.0, 14.0, 17.0]);
    assert!(trace.column(1).all(f64::is_nan) && trace.column(0).eq((1..=17).map(f64::from)));
}

#[test]
fn a_forged_trace_is_refused() {
    let mut trace = Trace::new(["at"]);
    trace.push(&[1.0]);
    let good = storage::to_bytes("t", "0", &trace).unwrap();
    assert!(storage::from_bytes::<Trace>("t", &good).is_ok());
    let names = vec!["at".to_string()];
    for (n_sweeps, values) in [(3_usize, vec![1.0]), (usize::MAX, vec![]), (0, vec![1.0])] {
        let forged = storage::to_bytes("t", "0", &(&names, n_sweeps, &values)).unwrap();
        assert!(
            storage::from_bytes::<Trace>("t", &forged)
                .unwrap_err()
                .to_string()
                .contains("cannot be")
        );
    }
}

#[test]
fn checkpoints_are_written_when_due_and_only_then() {
    let folder = Folder::new("due");
    let now = Cell::new(Duration::ZERO);
    let every = Every {
        sweeps: Some(10),
        time: Some(Duration::from_secs(60)),
    };
    let mut writer = Checkpointer::with_clock(folder.file("c.npb"), "m", "0", every, || now.get());
    let mut offer = |sweep, second| {
        now.set(Duration::from_secs(second));
        writer.offer(sweep, || sweep).unwrap()
    };
    assert!(!offer(9, 59));
    assert!(offer(10, 59), "by sweep");
    assert!(!offer(11, 118), "the clock starts anew at each checkpoint");
    assert!(offer(12, 119), "by time");
    assert!(!offer(13, 130));
    assert_eq!(
        checkpoint::resume::<u64>(folder.file("c.npb"), "m").unwrap(),
        Some(12)
    );

    let mut never = Checkpointer::new(
        folder.file("never.npb"),
        "m",
        "0",
        Every {
            sweeps: Some(0),
            time: None,
        },
    );
    assert!((1..50).all(|sweep| !never.offer(sweep, || sweep).unwrap()));
    assert_eq!(
        checkpoint::resume::<u64>(folder.file("never.npb"), "m").unwrap(),
        None
    );
    never.write(&7_u64).unwrap();
    assert_eq!(
        checkpoint::resume::<u64>(folder.file("never.npb"), "m").unwrap(),
        Some(7)
    );
}

#[test]
fn a_damaged_checkpoint_is_an_error_and_not_a_fresh_start() {
    let folder = Folder::new("damaged");
    fs::write(folder.file("c.npb"), b"\x89NPB").unwrap();
    assert!(checkpoint::resume::<u64>(folder.file("c.npb"), "m").is_err());
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_reported() {
    let folder = Folder::new("unwritable");
    let mut writer = Checkpointer::new(folder.file("no/folder.npb"), "m", "0", Every::sweeps(1));
    assert!(writer.offer(1, || 1_u64).is_err());
}
