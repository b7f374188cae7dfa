//! The runner: loop, stored draws, shares, checkpoints, resumption, and errors that say where.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use npb_infer::checkpoint::Every;
use npb_infer::watch::{Checkpoint, CheckpointError, Progress};
use npb_infer::{
    Chain, ChainError, ChainOf, Chains, Sampler, Stop, Sweep, SweepPlan, Trace, Variational,
    VbLimits, VbOutcome, VbRun, Watch, maximise, sample, stream,
};
use rand::RngExt;

/// 3 + 5 * 2 sweeps; 5, 7, 9, 11 and 13 are kept.
const PLAN: Chains = Chains {
    name: "chain",
    chains: 3,
    sweeps: SweepPlan {
        burn_in: 3,
        keep: 5,
        thin: 2,
    },
    stored_draws: 2,
};

#[derive(Debug, thiserror::Error)]
enum ToyError {
    #[error("pivot of sweep {0}")]
    Pivot(u64),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Chain(#[from] ChainError<Self>),
}

/// A random walk, and the sum of its kept places.
struct Walk {
    chain: u64,
    at: f64,
    sum: f64,
    /// (chain, sweep)
    fails: (u64, u64),
}

impl Sampler for Walk {
    type State = (f64, f64);
    type Draw = f64;
    type Error = ToyError;

    fn names() -> Vec<String> {
        vec!["at".to_owned(), "unused".to_owned()]
    }

    fn step(&mut self, sweep: Sweep, scalars: &mut [f64]) -> Result<(), ToyError> {
        if (self.chain, sweep.number) == self.fails {
            return Err(ToyError::Pivot(sweep.number));
        }
        self.at = 0.9 * self.at + stream(4, [self.chain, sweep.number, 0, 0]).random::<f64>();
        if sweep.kept {
            self.sum += self.at;
        }
        scalars[0] = self.at;
        Ok(())
    }

    fn state(&self) -> (f64, f64) {
        (self.at, self.sum)
    }

    fn draw(&self) -> f64 {
        self.at
    }
}

fn walks(plan: &Chains, watch: &Watch<'_>, key: u64) -> Result<Vec<ChainOf<Walk>>, ToyError> {
    failing(plan, watch, key, (9, 9))
}

fn failing(
    plan: &Chains,
    watch: &Watch<'_>,
    key: u64,
    fails: (u64, u64),
) -> Result<Vec<ChainOf<Walk>>, ToyError> {
    let checkpoint = watch.checkpoint("demo/walks", "0.1.0", key, plan.chains)?;
    sample(plan, (watch, 1.0), &checkpoint, |chain, reached| {
        let (at, sum) = reached.map_or((0.0, 0.0), |reached| reached.state);
        Ok(Walk {
            chain,
            at,
            sum,
            fails,
        })
    })
}

fn file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("npb-runner-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// Stops at the n-th report, with a checkpoint every three sweeps.
fn stop_at(n: usize, path: &Path) -> Watch<'static> {
    let mut calls = 0;
    let listen = move |_: &Progress<'_>| {
        calls += 1;
        match calls < n {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    Watch::new(listen).with_checkpoint(path, Every::sweeps(3))
}

fn places(chain: &ChainOf<Walk>) -> Vec<f64> {
    chain.trace.column(0).collect()
}

/// By hand: of kept draws 1 to 5 two are stored, the last of each 2.5 of them: the third and the fifth, made by sweeps 9 and 13.
#[test]
fn sweeps_are_made_once_kept_and_stored_by_plan() {
    let chains = walks(&PLAN, &Watch::none(), 1).unwrap();
    for chain in &chains {
        let at = places(chain);
        assert_eq!((at.len(), chain.stop), (13, Stop::Completed));
        assert_eq!(chain.draws, [at[8], at[12]]);
        let kept = [4, 6, 8, 10, 12].map(|sweep: usize| at[sweep]);
        assert_eq!(chain.state, (at[12], kept.iter().sum::<f64>()));
        assert!(chain.trace.column(1).all(f64::is_nan), "written by nobody");
    }
    assert_ne!(chains[0].draws, chains[1].draws);
}

/// Counted by going through all sweeps: as many as asked for, never more than are kept, the last among them, gaps that differ by one kept draw at most.
#[test]
fn stored_draws_are_evenly_thinned() {
    for (burn_in, keep, thin) in [(0, 1, 1), (7, 12, 1), (3, 10, 4), (0, 7, 0), (2, 100, 3)] {
        let plan = SweepPlan {
            burn_in,
            keep,
            thin,
        };
        for stored in 0..=keep + 2 {
            let kept: Vec<u64> = (1..=plan.total()).filter(|&s| plan.is_kept(s)).collect();
            let place = |sweep: u64| 1 + kept.iter().position(|&k| k == sweep).unwrap() as u64;
            let all = (1..=plan.total() + 5).filter(|&s| plan.is_stored(s, stored));
            let places: Vec<u64> = all.map(place).collect();
            assert_eq!(places.len() as u64, stored.min(keep), "{plan:?} {stored}");
            assert!(stored == 0 || places.last() == Some(&keep));
            let gaps =
                (0..places.len()).map(|n| places[n] - n.checked_sub(1).map_or(0, |b| places[b]));
            let gaps: Vec<u64> = gaps.collect();
            let [low, high] = [gaps.iter().min(), gaps.iter().max()];
            assert!(
                stored == 0 || high.unwrap() - low.unwrap() <= 1,
                "{places:?}"
            );
            for made in 0..=plan.total() + 5 {
                let before = |sweep: &&u64| **sweep <= made;
                assert_eq!(plan.n_kept(made), kept.iter().filter(before).count() as u64);
                let found = places
                    .iter()
                    .filter(|&&p| kept[p as usize - 1] <= made)
                    .count();
                assert_eq!(plan.n_stored(made, stored), found as u64);
            }
        }
    }
}

#[test]
fn chains_are_the_same_on_any_number_of_threads() {
    npb_infer::testing::same_bits_on_threads(&[1, 2, 4], || {
        let chains = walks(&PLAN, &Watch::none(), 1).unwrap();
        npb_infer::storage::to_bytes("t", "0", &chains).unwrap()
    })
    .unwrap();
}

#[test]
fn a_sampler_stopped_at_any_step_goes_on_to_the_same_bits() {
    let whole = walks(&PLAN, &Watch::none(), 1).unwrap();
    for stop in 1..=39 {
        let path = file(&format!("sampler-{stop}"));
        let part = walks(&PLAN, &stop_at(stop, &path), 1).unwrap();
        // Steps of the two other chains that are under way are made: of 39 at most two more.
        assert!(part.iter().any(|chain| chain.stop == Stop::Cancelled) || stop > 36);
        let watch = Watch::none().with_checkpoint(&path, Every::default());
        assert_eq!(
            format!("{:?}", walks(&PLAN, &watch, 1).unwrap()),
            format!("{whole:?}")
        );
        std::fs::remove_file(path).unwrap();
    }
}

/// The process ends in the middle of a sweep: the checkpoint is the last that was due.
#[test]
fn a_killed_sampler_goes_on_from_the_last_checkpoint() {
    let whole = walks(&PLAN, &Watch::none(), 1).unwrap();
    for sweep in 1..=13 {
        let path = file(&format!("killed-{sweep}"));
        let watch = Watch::none().with_checkpoint(&path, Every::sweeps(3));
        assert!(failing(&PLAN, &watch, 1, (1, sweep)).is_err());
        let resumed = walks(&PLAN, &watch, 1).unwrap();
        assert_eq!(format!("{resumed:?}"), format!("{whole:?}"));
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn the_share_of_the_work_rises_from_0_to_1() {
    for stop in [5, 20, 100] {
        let path = file(&format!("share-{stop}"));
        walks(&PLAN, &stop_at(stop, &path), 1).unwrap();
        let mut shares = Vec::new();
        let watch = Watch::new(|progress: &Progress<'_>| {
            assert_eq!(progress.names, Walk::names());
            shares.push(progress.share);
            ControlFlow::Continue(())
        });
        walks(&PLAN, &watch.with_checkpoint(&path, Every::default()), 1).unwrap();
        assert!(shares.is_sorted() && shares[0] > 0.0, "{shares:?}");
        assert_eq!(shares.last(), Some(&1.0));
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_checkpoint_of_another_fit_is_refused() {
    let path = file("other");
    let watch = || Watch::none().with_checkpoint(&path, Every::sweeps(3));
    walks(&PLAN, &watch(), 1).unwrap();
    let refused = walks(&PLAN, &watch(), 2).unwrap_err().to_string();
    assert!(refused.contains("another configuration"), "{refused}");
    let more = Chains { chains: 4, ..PLAN };
    let refused = walks(&more, &watch(), 1).unwrap_err().to_string();
    assert!(refused.contains("another configuration"), "{refused}");
    // The same key, and what no run of this plan has written.
    let sweeps = SweepPlan {
        burn_in: 2,
        ..PLAN.sweeps
    };
    let refused = walks(&Chains { sweeps, ..PLAN }, &watch(), 1).unwrap_err();
    let (words, place) = (refused.to_string(), path.display().to_string());
    assert!(
        words.contains("contradict") && words.contains(&place),
        "{words}"
    );
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_chain_that_fails_is_named() {
    let error = |at| {
        failing(&PLAN, &Watch::none(), 1, at)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(error((2, 7)), "chain 2: pivot of sweep 7");
    // Of several that fail the first, on any number of threads.
    npb_infer::testing::same_bits_on_threads(&[1, 2, 4], || {
        let memory = Checkpoint::in_memory([None, None, None]);
        let begin = |chain: u64, _: Option<&ChainOf<Walk>>| {
            let fails = (chain.max(1), 14 - chain);
            let (at, sum) = (0.0, 0.0);
            Ok(Walk {
                chain,
                at,
                sum,
                fails,
            })
        };
        let error = sample(&PLAN, (&Watch::none(), 1.0), &memory, begin).unwrap_err();
        assert_eq!(error.to_string(), "chain 1: pivot of sweep 13");
        error.to_string().into_bytes()
    })
    .unwrap();
    // What is wrong from the start is wrong in all chains.
    let memory = Checkpoint::in_memory([None]);
    let one = Chains { chains: 1, ..PLAN };
    let begun = sample::<Walk>(&one, (&Watch::none(), 1.0), &memory, |_, _| {
        Err(ToyError::Pivot(0))
    });
    assert_eq!(begun.unwrap_err().to_string(), "pivot of sweep 0");
}

/// A fit that is stopped before a draw is stored answers by those it is at; one that has stored draws does not.
#[test]
fn a_fit_that_is_stopped_early_answers() {
    let one_thread = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    let stopped = |n: usize, stored_draws| {
        let path = file(&format!("early-{n}-{stored_draws}"));
        let plan = Chains {
            stored_draws,
            ..PLAN
        };
        let chains = one_thread
            .install(|| walks(&plan, &stop_at(n, &path), 1))
            .unwrap();
        std::fs::remove_file(path).unwrap();
        chains
            .into_iter()
            .map(|chain| (chain.trace.n_sweeps(), chain.draws.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(stopped(4, 2), [(4, 1), (0, 1), (0, 1)]);
    assert_eq!(stopped(9, 2), [(9, 1), (0, 0), (0, 0)]);
    assert_eq!(stopped(4, 0), [(4, 0), (0, 0), (0, 0)]);
}

#[test]
fn a_chain_in_memory_goes_on_with_another_plan() {
    let whole = walks(&PLAN, &Watch::none(), 1).unwrap();
    let sweeps = SweepPlan {
        keep: 10,
        ..PLAN.sweeps
    };
    let longer = Chains {
        sweeps,
        stored_draws: 4,
        ..PLAN
    };
    let memory = Checkpoint::in_memory(whole.into_iter().map(Some));
    let go_on = |chain, reached: Option<&ChainOf<Walk>>| {
        let (at, sum) = reached.unwrap().state;
        Ok(Walk {
            chain,
            at,
            sum,
            fails: (9, 9),
        })
    };
    let found = sample(&longer, (&Watch::none(), 1.0), &memory, go_on).unwrap();
    let expected = walks(&longer, &Watch::none(), 1).unwrap();
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));
}

/// Halves its distance to 0, and knows whether it has come to its end.
struct Halving(f64, bool);

impl Halving {
    fn begin(reached: Option<VbRun<(f64, bool)>>) -> Self {
        let Some(VbRun { state, trace }) = reached else {
            return Self(8.0, false);
        };
        assert_eq!(trace.last().unwrap().elbo, -state.0, "the trace goes along");
        Self(state.0, state.1)
    }
}

impl Variational for Halving {
    type State = (f64, bool);
    type Error = ToyError;

    fn step(&mut self) -> Result<f64, ToyError> {
        self.0 /= 2.0;
        match self.0.is_finite() {
            true => Ok(-self.0),
            false => Err(ToyError::Pivot(0)),
        }
    }

    fn state(&self) -> (f64, bool) {
        (self.0, self.1)
    }

    fn finish(&mut self) -> Result<(), ToyError> {
        assert!(!self.1, "once");
        self.1 = true;
        Ok(())
    }
}

const LIMITS: VbLimits = VbLimits {
    max_iterations: 40,
    tolerance: 1e-3,
};

fn halve(watch: &Watch<'_>, limits: &VbLimits) -> Result<(f64, VbOutcome), ToyError> {
    let checkpoint = watch.checkpoint("demo/halving", "0.1.0", 1, 1)?;
    let mut part = watch.part("fit", 1.0);
    // A warm-up.
    let _ = part.report(0, 0.2, &[], &[]);
    let begin = |reached: Option<VbRun<(f64, bool)>>| Ok(Halving::begin(reached));
    let (run, outcome) = maximise(limits, "elbo", &mut part, (&checkpoint, 0), begin)?;
    assert_eq!(run.1, outcome.stop != Stop::Cancelled);
    Ok((run.0, outcome))
}

/// The bound is -8 / 2^n. Its change, 8 / 2^n as it is below one nat, is below 1e-3 from n = 13 on: two in a row at n = 14.
#[test]
fn a_bound_is_raised_until_it_has_converged() {
    let (at, outcome) = halve(&Watch::none(), &LIMITS).unwrap();
    let rel_change = 8.0 / f64::from(1 << 14);
    assert_eq!(outcome.stop, Stop::Converged { rel_change });
    assert_eq!((outcome.trace.len(), at), (14, rel_change));
    let limits = VbLimits {
        max_iterations: 5,
        ..LIMITS
    };
    let (at, outcome) = halve(&Watch::none(), &limits).unwrap();
    assert_eq!((outcome.stop, at), (Stop::MaxIterations, 0.25));
}

#[test]
fn a_variational_run_stopped_at_any_step_goes_on_to_the_same_bits() {
    let whole = halve(&Watch::none(), &LIMITS).unwrap();
    // The first report is of the warm-up.
    for stop in 1..=15 {
        let path = file(&format!("vb-{stop}"));
        let (_, outcome) = halve(&stop_at(stop, &path), &LIMITS).unwrap();
        assert_eq!(outcome.trace.len(), stop - 1);
        assert_eq!(outcome.stop == Stop::Cancelled, stop < 15);
        let mut shares = Vec::new();
        let watch = Watch::new(|progress: &Progress<'_>| {
            shares.push(progress.share);
            ControlFlow::Continue(())
        });
        let again = halve(&watch.with_checkpoint(&path, Every::default()), &LIMITS).unwrap();
        assert_eq!(again, whole);
        assert!(
            shares.is_sorted() && shares.last() == Some(&1.0),
            "{shares:?}"
        );
        assert_eq!(shares[0], 0.2);
        std::fs::remove_file(path).unwrap();
    }
}

/// After the warm-up, a fifth of the work, each of the forty iterations is a fiftieth.
#[test]
fn iterations_share_what_is_left_of_a_part() {
    let mut shares = Vec::new();
    let watch = Watch::new(|progress: &Progress<'_>| {
        shares.push(progress.share);
        ControlFlow::Continue(())
    });
    halve(&watch, &LIMITS).unwrap();
    drop(watch);
    let expected = (0..14).map(|n| 0.2 + 0.02 * f64::from(n)).chain([1.0]);
    let apart = shares.iter().zip(expected).map(|(a, b)| (a - b).abs());
    assert!(
        shares.len() == 15 && apart.fold(0.0, f64::max) < 1e-12,
        "{shares:?}"
    );
}

#[test]
fn forged_checkpoints_of_a_run_are_refused() {
    let watch = Watch::none();
    let mut report = halve(&watch, &LIMITS).unwrap().1.trace[0];
    report.iteration = 2;
    let run = VbRun {
        state: (1.0, false),
        trace: vec![report],
    };
    let memory = Checkpoint::in_memory([Some(run)]);
    let begin = |reached: Option<VbRun<(f64, bool)>>| Ok::<_, ToyError>(Halving::begin(reached));
    let mut part = watch.part("fit", 1.0);
    let refused = maximise(&LIMITS, "elbo", &mut part, (&memory, 0), begin);
    assert!(refused.is_err());
    let chain = Chain {
        state: (0.0, 0.0),
        draws: Vec::new(),
        trace: Trace::new(["other"]),
        stop: Stop::Cancelled,
    };
    let memory = Checkpoint::in_memory([Some(chain)]);
    let one = Chains { chains: 1, ..PLAN };
    let begun = sample::<Walk>(&one, (&watch, 1.0), &memory, |_, _| unreachable!());
    assert!(begun.is_err());
}
