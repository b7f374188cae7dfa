//! The base distribution: parametric hierarchical Bayes by EM.

mod factors;
mod gaussian;
mod learned;
mod rotation;

use npb_infer::watch::{Checkpoint, Part};
use npb_infer::{VbRun, Watch, maximise};

pub(crate) use factors::BaseState;
pub use factors::{BaseEm, BaseUpdate};
pub use gaussian::learn_gaussian;
pub(crate) use gaussian::learn_gaussian_watched;
pub use learned::LearnedBase;

use crate::kernel::Content;
use crate::{BaseConfig, HbrecError, LikeMatrix};

/// Learns the base distribution in one call; [`BaseEm`] does it step by step. `seed` is that of the start.
///
/// Cost of an iteration: `n (Q^2 + R Q)` multiply-adds for n ratings, Q = rank + content + 1. Memory: 8 Q^2 bytes a user.
///
/// # Errors
/// A configuration out of range; no user with data; content of another number of items; numerical trouble.
pub fn learn_base(
    likes: &LikeMatrix,
    content: Option<&Content>,
    config: &BaseConfig,
    seed: u64,
) -> Result<LearnedBase, HbrecError> {
    config.validate()?;
    let watch = Watch::none();
    let mut part = watch.part("base", 1.0);
    let memory = Checkpoint::in_memory([None]);
    learn_base_watched((likes, content), (config, seed), &mut part, &memory)
}

/// From where the checkpoint left it, with settings that are checked.
pub(crate) fn learn_base_watched(
    (likes, content): (&LikeMatrix, Option<&Content>),
    (config, seed): (&BaseConfig, u64),
    part: &mut Part<'_, '_>,
    checkpoint: &Checkpoint<VbRun<BaseState>>,
) -> Result<LearnedBase, HbrecError> {
    let begin = |reached: Option<VbRun<BaseState>>| {
        BaseEm::begin(
            (likes, content),
            (config, seed),
            reached.map(|run| run.state),
        )
    };
    let (em, outcome) = maximise(&config.limits, "elbo", part, (checkpoint, 0), begin)?;
    em.finish(outcome.trace, outcome.stop)
}
