//! Settings of a fit.

use npb_infer::ranges::{OutOfRange, at_least, up_to};
use npb_infer::{Chains, SweepPlan};
use npb_priors::GammaPrior;
use serde::{Deserialize, Serialize};

/// Which clusterings the columns have, and how these depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Structure {
    /// One infinite tensor factorisation: every column has a clustering of its own, all depend on one top-level clustering. The model of
    /// the paper (B section 3).
    Tensor,
    /// One clustering for all columns: the joint Dirichlet process mixture, the paper's comparator.
    Joint,
    /// A random partition of the columns into independent blocks, each a factorisation of its own. An extension of ours;
    /// one block is the paper's model.
    TensorBlocks,
}

impl Structure {
    /// Whether every column has labels of its own below the top level.
    pub fn has_lower(self) -> bool {
        self != Self::Joint
    }

    /// Whether the partition of the columns is random.
    pub fn has_blocks(self) -> bool {
        self == Self::TensorBlocks
    }
}

/// Columns of a table that share a joint law.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// None: the model of the paper, and its extension by blocks.
    Off,
    /// These, by name: see [`ItfData::with_groups`](crate::ItfData::with_groups).
    Given(Vec<Vec<String>>),
    /// Those that [`ItfData::find_groups`](crate::ItfData::find_groups) finds. The default.
    #[default]
    Found,
}

/// Lower-level concentrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LowerConcentration {
    /// One β for every column, shared by its top-level clusters.
    Shared,
    /// One β for every column and top-level cluster. Not with blocks.
    PerTopCluster,
}

/// One Gibbs or Metropolis move. Each leaves the posterior as it is, alone and in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItfMove {
    /// All concentrations given labels, sticks integrated out (steps 1a and 3a, with the exact rule for labels).
    Concentrations,
    /// Swaps of label names at both levels, sticks integrated out (steps 1c and 3c).
    Swaps,
    /// Top-level labels one by one, lower sticks integrated out, top sticks sliced (step 2).
    TopLabels,
    /// Both levels' labels of a row together, given sticks and parameters; rows in parallel. Takes the place of step 4.
    Rows,
    /// The lower labels of a row given its top label; rows in parallel (step 4).
    LowerLabels,
    /// Splits and merges of top-level clusters, sticks (and, with one level, parameters) integrated out.
    TopSplitMerge,
    /// Splits and merges of the clusters of a column, sticks and parameters integrated out; only for collapsed kernels.
    LowerSplitMerge,
    /// Moves of single columns between blocks.
    ColumnGibbs,
    /// Moves of single columns between blocks together with new lower labels; only for collapsed kernels.
    ColumnRelabel,
    /// Splits and merges of blocks.
    ColumnSplitMerge,
    /// All parameters given labels (step 5).
    Parameters,
}

impl ItfMove {
    /// The default sweep.
    pub const ALL: [ItfMove; 10] = [
        ItfMove::Concentrations,
        ItfMove::ColumnGibbs,
        ItfMove::ColumnRelabel,
        ItfMove::ColumnSplitMerge,
        ItfMove::Swaps,
        ItfMove::TopSplitMerge,
        ItfMove::TopLabels,
        ItfMove::LowerSplitMerge,
        ItfMove::Parameters,
        ItfMove::Rows,
    ];

    /// Whether it changes the partition of the columns.
    pub(crate) fn moves_columns(self) -> bool {
        matches!(
            self,
            Self::ColumnGibbs | Self::ColumnRelabel | Self::ColumnSplitMerge
        )
    }

    /// The sweep of the paper, with the corrections: steps 1 to 5.
    pub const PAPER: [ItfMove; 5] = [
        ItfMove::Concentrations,
        ItfMove::Swaps,
        ItfMove::TopLabels,
        ItfMove::LowerLabels,
        ItfMove::Parameters,
    ];
}

/// Configuration of a fit. The paper leaves hyperpriors and run lengths open; these are ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ItfConfig {
    /// Which clusterings the columns have.
    pub structure: Structure,
    /// Columns that share a joint law, for [`fit`](crate::fit) and [`fit_data`](crate::fit_data); who drives the sampler prepares
    /// the data.
    pub groups: Grouping,
    /// Gamma prior of the top-level concentrations α, one for each block.
    pub top_concentration: GammaPrior,
    /// Gamma prior of the lower-level concentrations β.
    pub lower_concentration: GammaPrior,
    /// Whether β is shared by the top-level clusters.
    pub lower_sharing: LowerConcentration,
    /// Gamma prior of the concentration γ of the Chinese restaurant process over columns.
    pub column_concentration: GammaPrior,
    /// The moves of one sweep, in order. Those that mean nothing for the structure are skipped.
    pub moves: Vec<ItfMove>,
    /// Independent chains, run in parallel.
    pub chains: usize,
    /// Sweeps of a chain, and which of them are kept.
    pub sweeps: SweepPlan,
    /// Whether kept draws hold the labels of all rows: co-clustering, row similarity and cluster summaries need them. They take 4
    /// bytes for each row, column and draw.
    pub keep_labels: bool,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for ItfConfig {
    fn default() -> Self {
        let unit = GammaPrior {
            shape: 1.0,
            rate: 1.0,
        };
        Self {
            structure: Structure::TensorBlocks,
            groups: Grouping::Found,
            top_concentration: unit,
            lower_concentration: unit,
            lower_sharing: LowerConcentration::Shared,
            column_concentration: unit,
            moves: ItfMove::ALL.to_vec(),
            chains: 4,
            sweeps: SweepPlan {
                burn_in: 500,
                keep: 100,
                thin: 5,
            },
            keep_labels: true,
            seed: 0,
        }
    }
}

/// All chains are kept.
const MOST_CHAINS: usize = 4096;
/// Largest mean of a concentration's prior: with more, a column would have thousands of clusters.
const MAX_CONCENTRATION: f64 = 1000.0;

impl ItfConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// The first that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        gamma("top_concentration", self.top_concentration)?;
        gamma("lower_concentration", self.lower_concentration)?;
        gamma("column_concentration", self.column_concentration)?;
        let per_cluster = self.lower_sharing == LowerConcentration::PerTopCluster;
        if per_cluster && self.structure.has_blocks() {
            let rule =
                "shared when the structure has blocks (a column takes its concentration along)";
            return Err(OutOfRange::new("lower_sharing", "per_top_cluster", rule));
        }
        at_least("moves (number of)", self.moves.len() as u64, 1)?;
        up_to("chains", self.chains, MOST_CHAINS)?;
        at_least("sweeps.keep", self.sweeps.keep, 1)?;
        at_least("sweeps.thin", self.sweeps.thin, 1)
    }

    /// The chains, each of which is called this.
    pub(crate) fn plan(&self, name: &'static str) -> Chains {
        Chains {
            name,
            chains: self.chains,
            sweeps: self.sweeps,
            stored_draws: self.sweeps.keep,
        }
    }

    pub(crate) fn per_top_cluster(&self) -> bool {
        self.structure.has_lower() && self.lower_sharing == LowerConcentration::PerTopCluster
    }
}

fn gamma(field: &'static str, prior: GammaPrior) -> Result<(), OutOfRange> {
    let fits = prior.validate().is_ok() && prior.shape / prior.rate <= MAX_CONCENTRATION;
    if fits {
        return Ok(());
    }
    let value = format!("(shape {}, rate {})", prior.shape, prior.rate);
    let rule = "finite and positive, with a mean of at most 1000";
    Err(OutOfRange::new(field, value, rule))
}
