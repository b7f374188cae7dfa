//! Sweep loop, chains and checkpoints.

use std::{cell::Cell, convert::Infallible, fs, ops::ControlFlow, time::Duration};

use npb_infer::{
    Stop, Sweep, SweepOutcome, SweepPlan, SweepReport, Trace,
    checkpoint::{self, Checkpointer, Every},
    resume_sweeps, run_chains, run_sweeps, storage, stream,
};
use rand::RngExt;

use crate::storage::Folder;

const PLAN: SweepPlan = SweepPlan {
    burn_in: 5,
    keep: 4,
    thin: 3,
};

#[derive(Clone, Debug, PartialEq)]
struct Walk {
    at: f64,
    kept: Vec<f64>,
}

impl Walk {
    fn new() -> Self {
        Self {
            at: 0.0,
            kept: vec![],
        }
    }

    fn sweep(&mut self, sweep: Sweep, scalars: &mut [f64]) -> Result<(), Infallible> {
        self.at = 0.9 * self.at + stream(4, [1, sweep.number, 0, 0]).random::<f64>();
        if sweep.kept {
            self.kept.push(self.at);
        }
        scalars[0] = self.at;
        Ok(())
    }
}

fn go_on<M>(_: &SweepReport<'_>, _: &M) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn whole() -> (Walk, SweepOutcome) {
    let mut walk = Walk::new();
    let outcome = run_sweeps(&mut walk, &PLAN, ["at", "unused"], Walk::sweep, go_on).unwrap();
    (walk, outcome)
}

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
fn every_sweep_is_made_once_recorded_and_kept_by_plan() {
    let (walk, outcome) = whole();
    assert_eq!(outcome.stop, Stop::Completed);
    assert_eq!(outcome.trace.n_sweeps(), 17);
    assert_eq!(outcome.trace.names(), ["at", "unused"]);
    assert_eq!(outcome.trace.kept(&PLAN, 0), walk.kept);
    assert!(
        outcome.trace.column(1).all(f64::is_nan),
        "a scalar that is not written is NaN, not the one before"
    );
}

#[test]
fn the_watcher_sees_the_sweep_and_may_stop_it() {
    let mut seen = vec![];
    let outcome = run_sweeps(
        &mut Walk::new(),
        &PLAN,
        ["at"],
        Walk::sweep,
        |report, walk| {
            assert_eq!(report.scalars(), [walk.at]);
            seen.push((report.sweep, report.kept));
            if report.sweep == 8 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
    )
    .unwrap();
    assert_eq!(
        (outcome.stop, outcome.trace.n_sweeps()),
        (Stop::Cancelled, 8)
    );
    assert_eq!(seen.len(), 8);
    assert_eq!(seen[6..], [(7, false), (8, true)]);
}

#[test]
fn the_error_of_a_sweep_comes_back_unchanged() {
    let fail = |(): &mut (), s: Sweep, _: &mut [f64]| {
        if s.number == 3 {
            Err("pivot 2")
        } else {
            Ok(())
        }
    };
    assert_eq!(
        run_sweeps(&mut (), &PLAN, ["x"], fail, go_on),
        Err("pivot 2")
    );
}

#[test]
fn a_forged_trace_is_refused() {
    let good = storage::to_bytes("t", "0", &whole().1.trace).unwrap();
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
fn chains_come_back_in_order_and_the_first_error_wins() {
    let chains = run_chains(5, |c| {
        Ok::<_, String>(stream(1, [c, 0, 0, 0]).random::<u64>())
    })
    .unwrap();
    assert_eq!(
        chains,
        (0..5)
            .map(|c| stream(1, [c, 0, 0, 0]).random::<u64>())
            .collect::<Vec<_>>()
    );
    let failing = |c| if c % 2 == 1 { Err(c) } else { Ok(()) };
    for threads in [1, 2, 4] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        assert_eq!(pool.install(|| run_chains(6, failing)), Err(1));
    }
}

/// A run that writes checkpoints and is killed after sweep `killed`, and what goes on from the file
/// it left.
fn killed_and_resumed(name: &str, every: Every, killed: u64) -> (Walk, SweepOutcome) {
    let folder = Folder::new(name);
    let path = folder.file("run.npb");
    run_from_checkpoint(&path, every, Some(killed));
    run_from_checkpoint(&path, every, None)
}

fn run_from_checkpoint(
    path: &std::path::Path,
    every: Every,
    kill: Option<u64>,
) -> (Walk, SweepOutcome) {
    let saved: Option<(f64, Vec<f64>, Trace)> = checkpoint::resume(path, "walk").unwrap();
    let (mut walk, trace) = match saved {
        Some((at, kept, trace)) => (Walk { at, kept }, trace),
        None => (Walk::new(), Trace::new(["at", "unused"])),
    };
    // Two seconds pass between any two looks at this clock.
    let seconds = Cell::new(0);
    let clock = || Duration::from_secs(seconds.replace(seconds.get() + 2));
    let mut writer = Checkpointer::with_clock(path, "walk", "0.1.0", every, clock);
    let outcome = resume_sweeps(&mut walk, &PLAN, trace, Walk::sweep, |report, walk| {
        writer
            .offer(report.sweep, || (walk.at, &walk.kept, report.trace))
            .unwrap();
        if Some(report.sweep) == kill {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    (walk, outcome.unwrap())
}

fn bits(run: &(Walk, SweepOutcome)) -> Vec<u64> {
    let (walk, outcome) = run;
    let numbers = walk
        .kept
        .iter()
        .copied()
        .chain(outcome.trace.column(0))
        .chain([walk.at]);
    numbers.map(f64::to_bits).collect()
}

#[test]
fn a_killed_run_ends_in_the_same_bits() {
    let expected = bits(&whole());
    for killed in 1..=17 {
        for (name, every) in [
            ("by-sweep", Every::sweeps(4)),
            ("by-time", Every::time(Duration::from_secs(5))),
        ] {
            let resumed = killed_and_resumed(&format!("{name}-{killed}"), every, killed);
            assert_eq!(bits(&resumed), expected, "{name}, killed after {killed}");
        }
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
