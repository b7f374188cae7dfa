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

/// Learns the base distribution in one call; [`BaseEm`] does it step by step.
///
/// Cost of an iteration: `n (Q^2 + R Q)` multiply-adds for n ratings, Q = rank + content + 1. Memory: 8 Q^2 bytes a user.
///
/// # Errors
/// A configuration out of range; no user with data; content of another number of items; numerical trouble.
pub fn learn_base(
    likes: &LikeMatrix,
    content: Option<&Content>,
    config: &BaseConfig,
) -> Result<LearnedBase, HbrecError> {
    let watch = Watch::none();
    let mut part = watch.part("base", 1.0);
    let memory = Checkpoint::in_memory([None]);
    learn_base_watched((likes, content), config, &mut part, &memory)
}

/// From where the checkpoint left it.
pub(crate) fn learn_base_watched(
    (likes, content): (&LikeMatrix, Option<&Content>),
    config: &BaseConfig,
    part: &mut Part<'_, '_>,
    checkpoint: &Checkpoint<VbRun<BaseState>>,
) -> Result<LearnedBase, HbrecError> {
    let begin = |reached: Option<VbRun<BaseState>>| {
        BaseEm::begin(likes, content, config, reached.map(|run| run.state))
    };
    let (em, outcome) = maximise(&config.limits, "elbo", part, (checkpoint, 0), begin)?;
    em.finish(outcome.trace, outcome.stop)
}
