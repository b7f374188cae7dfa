//! The hierarchical Dirichlet process: groups that share atoms.
//!
//! G_0 ~ DP(β, H), G_j | G_0 ~ DP(α, G_0) for groups j = 0..J. α is the lower (group) concentration and β the
//! upper (top) one, as in W, chapter 4; both have Gamma (shape, rate) priors.
//!
//! - Variational: [`HdpFactor`], truncated at both levels, with indicators c_jh of the atom each lower stick points at.
//! - Sampling: [`sample_franchise`] (everything integrated out), [`draw_table_count`] and [`LnStirling`] (how many
//!   tables serve a dish), [`draw_top_weights`], [`draw_group_weights`]; the concentrations given table counts are
//!   [`draw_concentration_given_partitions`](crate::dp::draw_concentration_given_partitions): the lower one with the
//!   group sizes and the total number of tables, the upper one with the number of tables as its one group and the
//!   number of dishes as its clusters.

mod factor;
mod franchise;

pub use factor::HdpFactor;
pub use franchise::{
    Franchise, LnStirling, draw_group_weights, draw_table_count, draw_top_weights,
    sample_franchise, sample_group_weights,
};
