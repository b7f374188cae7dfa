//! Harnesses that prove a model right, shared by all model crates.
//!
//! | question | harness |
//! |---|---|
//! | Does a Gibbs sampler leave the joint law of state and data alone? | [`JointTest`] on a [`JointModel`] |
//! | Does a single move, alone, leave it alone? | [`StepTest`] on a [`JointModel`] |
//! | Do posterior intervals cover at their nominal rate? | [`Calibration`] on a [`JointModel`] |
//! | Do independent draws have the means that they should? | [`largest_z`] |
//! | Does a sampler on a small discrete space visit states at their exact probabilities? | [`Exact`] |
//! | Does a variational bound never fall? | [`BoundMonitor`] |
//! | Is a coordinate update at the optimum of the bound? | [`check_stationary`] |
//! | Does the number of threads change nothing? Does a resumed run end in the same bits? | [`same_bits_on_threads`], [`same_bits_when_resumed`] |
//! | Does a damaged or forged file give an error or a valid value? | [`attack_file`] |
//!
//! Everything is seeded and independent of the number of threads. Statistical harnesses state their
//! false-alarm rate: a correct sampler fails for at most that share of all seeds. A test with fixed
//! seed passes or fails forever; still choose the rate small (0.001) there and keep a broken copy
//! of the sampler beside it that must fail. The environment's `NPB_TEST_SEED` is added to the seed of
//! every [`JointTest`], [`StepTest`], [`Calibration`] and [`ExactTest`]: run over consecutive numbers, a suite shows its
//! false alarms and how often its broken copies are seen.

mod bits;
mod bound;
mod calibration;
mod exact;
mod hostile;
mod joint;
mod moments;
mod step;
mod student;

pub use bits::{BitsDiffer, same_bits_on_threads, same_bits_when_resumed};
pub use bound::{BoundFell, BoundMonitor, NotStationary, check_stationary};
pub use calibration::{Calibration, CalibrationCheck, CalibrationReport};
pub use exact::{Exact, ExactCheck, ExactReport, ExactTest, assignments, partitions};
pub use hostile::{HostileFailure, HostileSummary, attack_file};
pub use joint::{Functional, JointCheck, JointModel, JointReport, JointTest};
pub use moments::largest_z;
pub use step::StepTest;

/// A seed, moved on by the environment's `NPB_TEST_SEED`.
///
/// # Panics
/// If that is not a number.
fn moved(seed: u64) -> u64 {
    std::env::var("NPB_TEST_SEED").map_or(seed, |by| {
        let by: u64 = by
            .parse()
            .unwrap_or_else(|_| panic!("NPB_TEST_SEED: not a number: {by:?}"));
        seed.wrapping_add(by)
    })
}
