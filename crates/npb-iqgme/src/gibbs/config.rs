//! Settings of Gibbs chains.

use npb_infer::SweepPlan;
use npb_infer::ranges::{OutOfRange, at_least, up_to};
use serde::{Deserialize, Serialize};

use crate::IqgmeConfig;
use crate::config::{MOST_RUNS, check_length};

/// One move of the sampler. Each leaves the posterior as it is, so any list of them does; together they must move everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GibbsMove {
    /// Label, utilities and missing features of every row: labels with the missing features integrated out and, with two classes, the utility too.
    Rows,
    /// Splits and merges: rows of the components of two rows are allocated anew, parameters and sticks integrated out.
    SplitMerge,
    /// Labels of components: neighbours with their sticks, and pairs without them.
    Swaps,
    /// The concentration, sticks integrated out, and then the sticks.
    Concentration,
    /// The sticks.
    Sticks,
    /// Means and precisions of the components.
    Components,
    /// The experts.
    Experts,
    /// The prior that experts share, and the experts without labelled rows.
    ExpertPrior,
}

impl GibbsMove {
    /// The moves of a sweep, in order.
    pub const SWEEP: [Self; 7] = [
        Self::Rows,
        Self::SplitMerge,
        Self::Swaps,
        Self::Concentration,
        Self::Components,
        Self::Experts,
        Self::ExpertPrior,
    ];
}

/// Configuration of Gibbs chains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GibbsConfig {
    /// Priors, starts (chain c starts as the start numbered c, going round) and seed. What else there is in it concerns variational runs.
    pub model: IqgmeConfig,
    /// The moves of a sweep.
    pub moves: Vec<GibbsMove>,
    /// Sweeps of a chain.
    pub sweeps: SweepPlan,
    /// Number of chains.
    pub chains: usize,
    /// Draws of each chain that are stored to answer questions (intervals, too), spread evenly over the kept ones; all of these, if they are fewer.
    pub stored_draws: u64,
}

impl Default for GibbsConfig {
    fn default() -> Self {
        Self {
            model: IqgmeConfig::default(),
            moves: GibbsMove::SWEEP.to_vec(),
            sweeps: SweepPlan {
                burn_in: 500,
                keep: 1000,
                thin: 1,
            },
            chains: 4,
            stored_draws: 50,
        }
    }
}

impl GibbsConfig {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        self.model.validate().map_err(|e| e.inside("model"))?;
        check_length("moves", self.moves.len(), "moves")?;
        up_to("chains", self.chains, MOST_RUNS)?;
        at_least("sweeps.keep", self.sweeps.keep, 1)?;
        at_least("stored_draws", self.stored_draws, 1)
    }
}
