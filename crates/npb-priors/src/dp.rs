//! The Dirichlet process: truncated variational sticks, the urn, partitions, and moves on labels.
//!
//! Weights are broken off a stick, π_h = V_h ∏_{l<h} (1 − V_l) with V_h ~ Beta(1, α). Labels count
//! from 0 in the code (the papers count from 1). Concentrations have Gamma (shape, rate) priors.
//!
//! - Variational: [`StickFactor`] (sticks and concentration), made of [`Sticks`] and
//!   [`ConcentrationFactor`], which the hierarchical process shares.
//! - Exchangeable partitions (the labels only say who is with whom): [`sample_urn`],
//!   [`ln_partition_probability`], [`cluster_count_distribution`], [`draw_concentration_given_partitions`].
//! - Labels as indices of sticks (their order means something, as in slice samplers): [`LazySticks`],
//!   [`ln_label_probability`], [`predictive_weights`], [`draw_concentration_given_labels`], [`propose_neighbour_swap`].
//!
//! The two are not interchangeable: the conditional of α given the partition is not its conditional given
//! the labels, and a sampler whose state holds labels must use the latter.

mod labels;
mod partition;
mod sticks;

pub use crate::measure::ConcentrationFactor;
pub use labels::{
    LazySticks, draw_concentration_given_labels, draw_sticks_given_labels, ln_label_probability,
    ln_neighbour_swap_ratio, ln_occupied_ratio, ln_weight_swap_ratio, occupied_labels,
    predictive_weights, propose_neighbour_swap, weights_of_sticks,
};
pub use partition::{
    cluster_count_distribution, cluster_count_moments, draw_concentration_given_partitions,
    ln_partition_probability, sample_urn,
};
pub use sticks::{StickFactor, Sticks, dominant_count_distribution, sample_weights};
