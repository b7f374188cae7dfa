//! How inference runs: keyed random streams, sweep and VB loops, diagnostics, saved models, checkpoints and test harnesses.
//!
//! Nothing here knows a model. A model crate brings a state and a `step` (variational) or a `sweep`
//! (Gibbs) and takes from here
//!
//! - [`stream`]: one generator per unit of work, so that the number of threads never changes a
//!   result;
//! - [`run_vb`] and [`best_restart`]: the variational loop with a watcher, and restarts of which
//!   the best is kept;
//! - [`run_sweeps`] and [`run_chains`]: the Gibbs loop with traces of named scalars, and several
//!   chains in parallel;
//! - [`diagnostics`]: rank-normalised split R-hat, effective sample sizes, Monte Carlo errors;
//! - [`Watch`]: how a fit of any number of chains, starts or folds is watched, stopped and
//!   checkpointed;
//! - [`Saved`], [`storage`] and [`checkpoint`]: fits in files, the one format of these, and runs
//!   that survive being killed;
//! - [`ensemble`]: stacking weights and calibration of members that answer together;
//! - [`parallel`]: independent pieces of work on the threads of the caller's pool, compiled once for all crates;
//! - [`ranges`]: checks of configurations, in the same words everywhere;
//! - [`testing`]: the proofs that every model crate runs, from the joint-distribution test to
//!   hostile files.
//!
//! Loops take two closures: one that makes a step and may fail with the model's own error, and one
//! that watches and may stop the run. How a run ended is a [`Stop`], never an error.
//!
//! ```
//! use npb_infer::{Stop, VbLimits, run_vb};
//! use std::{convert::Infallible, ops::ControlFlow};
//!
//! // A "model" whose bound rises towards zero, each step halving the distance.
//! let mut gap = 8.0;
//! let outcome = run_vb(
//!     &mut gap,
//!     &VbLimits { max_iterations: 100, tolerance: 1e-6 },
//!     |gap: &mut f64| { *gap /= 2.0; Ok::<_, Infallible>(-*gap) },
//!     |_report, _model| ControlFlow::Continue(()),
//! ).unwrap();
//! assert!(matches!(outcome.stop, Stop::Converged { .. }));
//! ```

pub mod checkpoint;
pub mod diagnostics;
pub mod ensemble;
pub mod parallel;
pub mod ranges;
mod restart;
mod saved;
mod stop;
pub mod storage;
mod stream;
mod sweeps;
pub mod testing;
mod vb;
pub mod watch;

pub use checkpoint::Every;
pub use rand_xoshiro::Xoshiro256PlusPlus;
pub use restart::{BestRestart, RestartError, best_restart};
pub use saved::Saved;
pub use stop::Stop;
pub use stream::stream;
pub use sweeps::{
    Sweep, SweepOutcome, SweepPlan, SweepReport, Trace, resume_sweeps, run_chains, run_sweeps,
};
pub use vb::{VbLimits, VbOutcome, VbReport, resume_vb, run_vb};
pub use watch::Watch;
