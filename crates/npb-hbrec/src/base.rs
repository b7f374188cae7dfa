//! The base distribution: parametric hierarchical Bayes by EM.

mod factors;
mod gaussian;
mod learned;
mod rotation;

use std::ops::ControlFlow;

use npb_infer::VbReport;

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
    let em = BaseEm::new(likes, content, config)?;
    learn_base_watched(em, Vec::new(), config, |_, _| ControlFlow::Continue(()))
}

/// From a state that may have made iterations already, with their trace.
pub(crate) fn learn_base_watched(
    mut em: BaseEm<'_>,
    trace: Vec<VbReport>,
    config: &BaseConfig,
    mut watch: impl FnMut(&VbReport, &BaseEm<'_>) -> ControlFlow<()>,
) -> Result<LearnedBase, HbrecError> {
    let outcome = npb_infer::resume_vb(
        &mut em,
        &config.limits,
        trace,
        BaseEm::step,
        |report, em| watch(report, em),
    )?;
    em.finish(outcome.trace, outcome.stop)
}
