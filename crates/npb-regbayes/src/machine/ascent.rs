//! What coordinate ascent needs of duals, and what duals begin from.

use crate::inputs::Inputs;
use crate::loss::Targets;

/// A problem, and duals to begin from.
pub(super) struct Start<'r, 'a> {
    pub(super) inputs: &'r Inputs<'a>,
    pub(super) squared_norms: &'r [f64],
    pub(super) targets: Targets<'r>,
    pub(super) costs: &'r [f64],
    pub(super) warm: Option<&'r [f64]>,
}

/// The duals of one problem and the weights that they make.
pub(super) trait Ascent {
    /// Sets the duals of a row to the best given all others; says whether they moved.
    fn update(&mut self, row: usize) -> bool;

    /// Loss of a row at the present weights, and whether an update would move its duals.
    fn look(&mut self, row: usize) -> (f64, bool);

    /// What the duals of a row earn: their part of the dual objective.
    fn earnings(&self, row: usize) -> f64;

    /// `|w|^2`.
    fn squared_weights(&self) -> f64;

    /// Weights and duals.
    fn finish(self) -> (Vec<f64>, Vec<f64>);
}
