//! Names of methods, and the settings of mixtures.

use npb_infer::SweepPlan;
use npb_itf::{Grouping, ItfConfig, Structure};
use npb_kit::Scale;

/// The default model.
pub(super) const ITF: &str = "npb:itf";
/// The paper's model: one block of columns.
pub(super) const ONE_BLOCK: &str = "npb:itf/one-block";
/// The joint mixture: one clustering.
pub(super) const DPM: &str = "npb:dpm";
/// Who is told the true parameters.
pub(super) const TRUTH: &str = "truth";

/// The default with shorter chains below the paper's scale; at smoke scale so many sweeps are burnt and kept.
pub(super) fn mixture(
    scale: Scale,
    (burn_in, keep): (u64, u64),
    structure: Structure,
    groups: Grouping,
    seed: u64,
) -> ItfConfig {
    let default = ItfConfig::default();
    let sweeps = scale.pick(
        npb_kit::sweeps(burn_in, keep),
        SweepPlan {
            burn_in: 300,
            thin: 2,
            ..default.sweeps
        },
        default.sweeps,
    );
    ItfConfig {
        structure,
        groups,
        seed,
        keep_labels: false,
        chains: scale.pick(1, 2, default.chains),
        sweeps,
        ..default
    }
}
