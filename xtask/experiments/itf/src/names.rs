//! Names of methods.

/// The default model.
pub(super) const ITF: &str = "npb:itf";
/// The paper's model: one block of columns.
pub(super) const ONE_BLOCK: &str = "npb:itf/one-block";
/// The joint mixture: one clustering.
pub(super) const DPM: &str = "npb:dpm";
/// Who is told the true parameters.
pub(super) const TRUTH: &str = "truth";
