//! How inference runs: keyed random streams, the runner, diagnostics, saved models, checkpoints and test harnesses.
//!
//! Nothing here knows a model. A model crate brings a step and a state ([`Sampler`], [`Variational`])
//! and takes from here
//!
//! - [`stream`]: one generator per unit of work, so that the number of threads never changes a
//!   result;
//! - [`sample`] and [`maximise`]: the one loop of samplers, and the one of variational fits: watched,
//!   stopped, checkpointed, resumed;
//! - [`best_restart`]: restarts of which the best is kept;
//! - [`diagnostics`]: rank-normalised split R-hat, effective sample sizes, Monte Carlo errors;
//! - [`Watch`]: how a fit of any number of chains, starts or folds is watched, stopped and
//!   checkpointed;
//! - [`Saved`], [`storage`] and [`checkpoint`]: fits in files, the one format of these, and runs
//!   that survive being killed;
//! - [`ensemble`]: stacking weights and calibration of members that answer together;
//! - [`parallel`]: independent pieces of work on the threads of the caller's pool, compiled once for all crates;
//! - [`Interval`]: what a central interval is;
//! - [`ranges`]: checks of configurations, in the same words everywhere;
//! - [`testing`]: the proofs that every model crate runs, from the joint-distribution test to
//!   hostile files.
//!
//! How a run ended is a [`Stop`], never an error. The page `docs/architecture.md#the-runner` says what
//! the model gives and what the runner does.

pub mod checkpoint;
pub mod diagnostics;
pub mod ensemble;
mod interval;
mod maximise;
pub mod parallel;
pub mod ranges;
mod restart;
mod sample;
mod saved;
mod stop;
pub mod storage;
mod stream;
mod sweeps;
pub mod testing;
mod vb;
pub mod watch;

pub use checkpoint::Every;
pub use interval::Interval;
pub use maximise::{Variational, VbRun, maximise};
pub use rand_xoshiro::Xoshiro256PlusPlus;
pub use restart::{BestRestart, RestartError, best_restart};
pub use sample::{Chain, ChainError, ChainOf, Chains, Sampler, sample};
pub use saved::Saved;
pub use stop::Stop;
pub use stream::stream;
pub use sweeps::{Sweep, SweepPlan, Trace};
pub use vb::{VbLimits, VbOutcome, VbReport};
pub use watch::Watch;
