//! Settings.

use npb_infer::SweepPlan;
use npb_infer::ranges::{OutOfRange, at_least, gamma, moderate, up_to};
use npb_priors::beta_bernoulli::WeightPrior;
use npb_priors::{GammaPrior, ParameterError};
use serde::{Deserialize, Serialize};

use crate::dependent::{Dependence, DependentPrior};
use crate::units::Centring;

/// Prior of the scores s_ik of rows on atoms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScorePrior {
    /// Switched on with probability pi_k, and then N(0, 1/g) (Z 49): the beta process.
    SpikeSlab,
    /// N(0, 1/g) always (Z 36): classical factor analysis.
    Dense,
    /// `s_ik ~ N(0, eta_ik / alpha), eta_ik ~ Exp(gamma / 2)` (Z 54): Laplace, alpha the noise precision.
    Lasso {
        /// A gamma for each entry (Z; tails of about 1/|s|), not one for each atom.
        per_entry: bool,
        /// Prior of gamma.
        rate: GammaPrior,
    },
}

/// Prior of the slab precision g.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlabPrior {
    /// One precision for all atoms, which may be vague.
    Shared {
        /// Its prior.
        prior: GammaPrior,
    },
    /// One for each atom, `g_k ~ Gamma(shape, tau)`, tau shared. Proper, so that an atom that is used nowhere does not die.
    PerAtom {
        /// Shape.
        shape: f64,
        /// Prior of tau.
        rate: GammaPrior,
    },
}

impl SlabPrior {
    /// Checks its fields, called `slab` in errors.
    pub(crate) fn validate(self) -> Result<(), OutOfRange> {
        match self {
            Self::Shared { prior } => gamma("slab.prior", prior),
            Self::PerAtom { shape, rate } => {
                moderate("slab.shape", shape)?;
                gamma("slab.rate", rate)
            }
        }
    }
}

/// Prior of the probability pi_k that an atom is used in a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsagePrior {
    /// Beta(a/K, b (K-1)/K) (Z 49): the beta process in the limit of many atoms; about a/b atoms in a row.
    Process {
        /// a.
        a: f64,
        /// b.
        b: f64,
    },
    /// Beta(a, max(N / rows, a K)): 1 and 8 for images. Without the floor, few rows are expected to use many atoms each, which then take up the noise.
    Rows {
        /// a.
        a: f64,
        /// N is divided by this.
        rows: f64,
    },
    /// It depends on where rows lie ([`BpfaRows::with_locations`](crate::BpfaRows::with_locations)).
    Dependent {
        /// Its prior.
        prior: DependentPrior,
    },
}

impl UsagePrior {
    /// Checks its fields, called `usage` in errors.
    pub(crate) fn validate(self) -> Result<(), OutOfRange> {
        match self {
            Self::Process { a, b } => {
                moderate("usage.a", a)?;
                moderate("usage.b", b)
            }
            Self::Rows { a, rows } => {
                moderate("usage.a", a)?;
                moderate("usage.rows", rows)
            }
            Self::Dependent { prior } => {
                moderate("usage.mass", prior.mass)?;
                moderate("usage.concentration", prior.concentration)?;
                up_to("usage.anchors", prior.anchors, MOST_ANCHORS)?;
                up_to("usage.neighbours", prior.neighbours, prior.anchors)?;
                if !(prior.mean > 0.0 && prior.mean < 1.0) {
                    return Err(OutOfRange::new("usage.mean", prior.mean, "between 0 and 1"));
                }
                Ok(())
            }
        }
    }

    /// Prior of the weight of an atom, for `k` atoms and `n` rows.
    pub(crate) fn weight(
        self,
        k: usize,
        n: usize,
        atom: usize,
        dependence: &Dependence,
    ) -> Result<WeightPrior, ParameterError> {
        match self {
            Self::Process { a, b } => WeightPrior::sparse(a, b, k.max(2)),
            Self::Rows { a, rows } => WeightPrior::new(a, (n as f64 / rows).max(a * k as f64)),
            Self::Dependent { prior } => dependence.weight_prior(prior, atom),
        }
    }

    /// Prior that depends on locations, if it does.
    pub(crate) fn dependent(self) -> Option<DependentPrior> {
        match self {
            Self::Dependent { prior } => Some(prior),
            _ => None,
        }
    }
}

/// Prior of spiky noise, Z 53: an entry is `x + e + v`, `v ~ N(0, 1/g_v)`, where a switch of its site is on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpikePrior {
    /// First parameter of the Beta prior of the share of sites with a spike, one share for each channel.
    pub a: f64,
    /// Second parameter.
    pub b: f64,
    /// Prior of the precision g_v.
    pub precision: GammaPrior,
}

impl Default for SpikePrior {
    /// About one site in twenty; spikes about as wide as the scale of the data.
    fn default() -> Self {
        Self {
            a: 1.0,
            b: 19.0,
            precision: GammaPrior {
                shape: 1.0,
                rate: 0.1,
            },
        }
    }
}

/// A Gibbs move: one exact update of a part of the state given the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BpfaMove {
    /// Values behind entries that are cut off ([`BpfaRows::with_bounds`](crate::BpfaRows::with_bounds)), nothing without bounds. Not part of the state: they come
    /// first in a sweep; without this move entries at the bounds are taken as they are.
    Latents,
    /// Switches and scores of all rows given the weights pi: of each atom in turn the switch with its score integrated out, then the score (Z 51). Dense scores:
    /// all of a row at once. Laplace scores: one after the other.
    Scores,
    /// Switches and scores of a random subset of atoms, pi integrated out; then pi. Nothing for other scores.
    CollapsedSwitches,
    /// The weights pi_k; where usage depends on locations, the anchors of the rows, the kernel width and the means of the weights first.
    Weights,
    /// The dictionary, all atoms at once (Z 40 draws one after the other). Left out in the first sweeps, see [`BpfaConfig::hold_dictionary`].
    Dictionary,
    /// Length of each atom against its scores, their products fixed.
    Lengths,
    /// Slab precisions; scales and rates of Laplace scores.
    SlabPrecision,
    /// Which sites have a spike, with the spikes integrated out, and the share that does. Nothing without spiky noise.
    Spikes,
    /// Noise precisions, and that of spikes.
    NoisePrecision,
}

/// Configuration of a fit. The default suits a table in units of its own standard deviation; [`BpfaConfig::images`] suits patches of images on the scale
/// 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BpfaConfig {
    /// K: atoms (factors).
    pub atoms: usize,
    /// Prior of the scores.
    pub scores: ScorePrior,
    /// Prior of the probabilities that atoms are used.
    pub usage: UsagePrior,
    /// Prior of the slab precision; of dense scores, of their precision.
    pub slab: SlabPrior,
    /// Prior of the noise precision.
    pub noise: GammaPrior,
    /// Each channel of the rows (colour of an image, column of a table) has a noise precision of its own. With Laplace scores, whose scale is that of the noise,
    /// there is one all the same.
    pub channel_noise: bool,
    /// Spiky noise; none: there is none.
    pub spikes: Option<SpikePrior>,
    /// When all atoms are used in a sweep of the second half of the burn-in, their number grows by half, up to this; none: up to `atoms`. Spike-and-slab scores only.
    pub max_atoms: Option<usize>,
    /// Atoms that no row uses are taken out in the second half of the burn-in, but for an eighth of them.
    pub prune: bool,
    /// What is subtracted from tables and ratings; rows are taken as they are.
    pub centring: Centring,
    /// The dictionary is not drawn in this many first sweeps: the scores must find atoms given at the start first.
    pub hold_dictionary: u64,
    /// How far [`BpfaMove::Dictionary`] goes beyond the mean of the loadings' law from where they are, from 0 (independent draws) to below 1: the law is the same, and
    /// .75 takes about three quarters of the sweeps to get there. Regressions on few rows, or on scores most of which are active, are drawn independently.
    pub overrelaxation: f64,
    /// Atoms in the random subset of [`BpfaMove::CollapsedSwitches`].
    pub collapsed_atoms: usize,
    /// Moves of a sweep, in order.
    pub moves: Vec<BpfaMove>,
    /// Sweeps and draws.
    pub sweeps: SweepPlan,
    /// How many of the kept draws of a chain stay in the fit, evenly spread: see [`SweepPlan::is_stored`].
    pub stored_draws: u64,
    /// Chains, run in parallel and pooled.
    pub chains: usize,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Vague.
const VAGUE: GammaPrior = GammaPrior {
    shape: 1e-6,
    rate: 1e-6,
};

/// Of the noise of a column in units of its standard deviation: a weak prior without which a column that others determine exactly (a sum of theirs, a copy
/// with little added) takes its noise to zero, where the chain is stuck (docs/bpfa.md#copies).
const COLUMN_NOISE: GammaPrior = GammaPrior {
    shape: 1.0,
    rate: 0.05,
};

/// Atoms are numbered by 16 bits.
pub(crate) const MOST_ATOMS: usize = 16384;

/// So are anchors.
const MOST_ANCHORS: usize = 4096;

impl Default for BpfaConfig {
    fn default() -> Self {
        Self {
            atoms: 64,
            scores: ScorePrior::SpikeSlab,
            usage: UsagePrior::Process { a: 1.0, b: 1.0 },
            slab: SlabPrior::Shared { prior: VAGUE },
            noise: COLUMN_NOISE,
            channel_noise: true,
            spikes: None,
            max_atoms: None,
            prune: false,
            centring: Centring::Standardised,
            hold_dictionary: 0,
            overrelaxation: 0.0,
            collapsed_atoms: 4,
            moves: vec![
                BpfaMove::Latents,
                BpfaMove::Scores,
                BpfaMove::CollapsedSwitches,
                BpfaMove::Weights,
                BpfaMove::Dictionary,
                BpfaMove::Lengths,
                BpfaMove::SlabPrecision,
                BpfaMove::Spikes,
                BpfaMove::NoisePrecision,
            ],
            sweeps: SweepPlan {
                burn_in: 200,
                keep: 300,
                thin: 1,
            },
            stored_draws: 50,
            chains: 1,
            seed: 0,
        }
    }
}

impl BpfaConfig {
    /// For overlapping patches of images on the scale 0 to 1: 256 atoms, usage Beta(1, N/8), atoms of the start held for three sweeps.
    pub fn images() -> Self {
        Self {
            atoms: 256,
            usage: UsagePrior::Rows { a: 1.0, rows: 8.0 },
            noise: VAGUE,
            channel_noise: false,
            hold_dictionary: 3,
            sweeps: SweepPlan {
                burn_in: 80,
                keep: 80,
                thin: 1,
            },
            stored_draws: 1,
            ..Self::default()
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        up_to("atoms", self.atoms, MOST_ATOMS)?;
        self.usage.validate()?;
        self.slab.validate()?;
        gamma("noise", self.noise)?;
        if !(0.0..1.0).contains(&self.overrelaxation) {
            let rule = "from 0 to below 1";
            return Err(OutOfRange::new("overrelaxation", self.overrelaxation, rule));
        }
        if self.moves.is_empty() {
            return Err(OutOfRange::new("moves", "[]", "at least one"));
        }
        at_least("sweeps.keep", self.sweeps.keep, 1)?;
        up_to("chains", self.chains, 4096)?;
        if let Some(most) = self.max_atoms {
            if self.has_switches() && most < self.atoms {
                let rule = format!("at least atoms, {}", self.atoms);
                return Err(OutOfRange::new("max_atoms", most, rule));
            }
            up_to("max_atoms", most, MOST_ATOMS)?;
        }
        if let ScorePrior::Lasso { rate, .. } = self.scores {
            gamma("scores.rate", rate)?;
        }
        if let Some(spikes) = self.spikes {
            moderate("spikes.a", spikes.a)?;
            moderate("spikes.b", spikes.b)?;
            gamma("spikes.precision", spikes.precision)?;
        }
        Ok(())
    }

    pub(crate) fn is_lasso(&self) -> bool {
        matches!(self.scores, ScorePrior::Lasso { .. })
    }

    /// Whether switches are part of the model.
    pub(crate) fn has_switches(&self) -> bool {
        self.scores == ScorePrior::SpikeSlab
    }
}
