//! How many components a chain goes on with: growth and pruning in the burn-in.

use super::BsvdSampler;
use crate::axes::rotate_to_svd;
use crate::data::Cells;
use crate::start::switch_on;
use crate::state::SideState;

/// Sweeps from one look to the next: components that are asked for have grown, others have shrunk.
const SPACING: u64 = 5;

/// Components are dispensable below this multiple of the scale at which a direction without meaning costs one unit of ln likelihood.
const DISPENSABLE: f64 = 2.0;

impl BsvdSampler<'_> {
    /// In the first three quarters of the burn-in, every few sweeps: components that have become dispensable go; when there are none, more components
    /// are tried, by a third at first, later one by one. Births and deaths alone would come to the same number within thousands of sweeps, whatever the
    /// start: what one component explains, others take over slowly. Not a move of the chain.
    pub(super) fn adapt_rank(&mut self) {
        let burn_in = self.config.sweeps.burn_in;
        let end = burn_in / 4 * 3;
        if self.is_growing() || self.sweep > end || !self.sweep.is_multiple_of(SPACING) {
            return;
        }
        self.memory.residuals = None;
        self.memory.row_means_known = false;
        let rank = self.state.rank();
        rotate_to_svd(&mut self.state);
        let least = DISPENSABLE * self.tolerated_scale();
        let on: Vec<bool> = self.state.scales.iter().map(|&s| s >= least).collect();
        let gone = on.iter().filter(|on| !**on).count();
        if gone > 0 {
            keep(&mut self.state.scales, &on);
            for side in [&mut self.state.rows, &mut self.state.columns] {
                keep_side(side, &on);
            }
        } else if self.sweep + SPACING <= end {
            let more = if self.sweep <= burn_in / 2 {
                rank.div_ceil(3).max(1)
            } else {
                1
            };
            let (data, config) = (self.data, &self.config);
            switch_on(data, config, &mut self.state, (self.sweep, rank + more));
        }
    }

    /// The scale of a component at which a direction without meaning costs one unit of ln likelihood, the other side integrated out: a quarter of the sum
    /// over rows of `(s^2 alpha w_i n_i / g_i)^2`; of rows and of columns, the geometric mean.
    fn tolerated_scale(&self) -> f64 {
        let state = &self.state;
        let of_side = |cells: &Cells, own: &SideState| {
            let of_row = |i: usize| {
                let told = own.noise_weight(i) * cells.range(i).len() as f64;
                (state.noise_precision * told / own.factor_weight(i)).powi(2)
            };
            (0..cells.len()).map(of_row).sum::<f64>()
        };
        let sums =
            of_side(&self.data.rows, &state.rows) * of_side(&self.data.columns, &state.columns);
        (16.0 / sums).powf(0.125)
    }
}

fn keep(values: &mut Vec<f64>, on: &[bool]) {
    let width = values.len() / on.len().max(1);
    let kept = values.iter().enumerate().filter(|(at, _)| on[at / width]);
    *values = kept.map(|(_, &x)| x).collect();
}

fn keep_side(side: &mut SideState, on: &[bool]) {
    keep(&mut side.factor_mean, on);
    keep(&mut side.links, on);
    let kept = side.factors.iter().enumerate();
    let kept = kept.filter(|(at, _)| on[at % on.len()]);
    side.factors = kept.map(|(_, &x)| x).collect();
}
