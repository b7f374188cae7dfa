//! Settings.

use npb_infer::SweepPlan;
use npb_infer::ranges::{OutOfRange, above, at_least, gamma, up_to};
use npb_priors::GammaPrior;
use serde::{Deserialize, Serialize};

use crate::likelihood::Likelihood;

/// More levels than anyone rates with.
const MOST_LEVELS: u32 = 1000;
/// All chains are kept.
const MOST_CHAINS: usize = 4096;

/// Units in which the model works: `(y - centre) / scale`. Everything that a user sees is in units of the data. Without effect for probit likelihoods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BsvdUnits {
    /// Mean and standard deviation of the training entries.
    Observed,
    /// These.
    Given {
        /// Subtracted first.
        centre: f64,
        /// Divided by then; positive.
        scale: f64,
    },
}

/// A Gibbs move: one exact update of a part of the state given the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BsvdMove {
    /// Thresholds of the ordinal likelihood, latent entries integrated out (after Cowles 1996, Statistics and Computing 6); nothing otherwise. [`Latents`]
    /// must come next.
    ///
    /// [`Latents`]: Self::Latents
    Thresholds,
    /// Latent entries of probit likelihoods, nothing otherwise. Not part of the state: they come first in every sweep, after thresholds.
    Latents,
    /// Factors, intercepts and coefficients of all rows (W 5.8, 5.9).
    Rows,
    /// The same of all columns (W 5.10, 5.11).
    Columns,
    /// Switches with their scales integrated out, then the scales (W 5.4 to 5.6, corrected), for all candidates in random order.
    Switches,
    /// Lengths of the factors against the scales, their product fixed.
    Scale,
    /// Offset.
    Offset,
    /// The offset and the means of factors and coefficients against the intercepts, every latent value fixed.
    Location,
    /// Components against one another, every latent value fixed.
    Mixing,
    /// Noise precision of the Gaussian likelihood (W 5.12).
    Noise,
    /// Precision of the scales (W 5.13, for active components only).
    ScalePrecision,
    /// Means of factors and coefficients, precisions of intercepts and coefficients.
    Hyper,
}

/// How factors, intercepts and coefficients of a row (or column) are drawn. Both ways are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactorUpdate {
    /// All of a row at once: cost quadratic in their number for each entry.
    Joint,
    /// One after the other against a residual kept for the row (W 5.8 to 5.11): cost linear in their number, slower mixing.
    Coordinate,
    /// Both are tried in the burn-in (its second quarter and its third); the one with more effective draws of cells for its work goes on. Work is
    /// counted, not timed, so that runs can be repeated.
    Auto,
}

/// A move and how often it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduled {
    /// The move.
    pub step: BsvdMove,
    /// Made in sweeps whose number is a multiple of this.
    pub every: u64,
}

/// Configuration of a fit. Numbers of the model are in its units (see [`BsvdUnits`]); the default holds the values of the thesis (W, section 5.5.1) unless a field says
/// otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BsvdConfig {
    /// How entries come from latent values.
    pub likelihood: Likelihood,
    /// Units of the model.
    pub units: BsvdUnits,
    /// Components at the start, all of them active. Their number is found from the entries by [`fit`](crate::fit), whatever is said here (the configuration of a
    /// fit says what was found), unless `max_candidates` is the same: then there are so many, as in W.
    pub candidates: usize,
    /// The most components that can be active. `K` is the number at the start and grows by half up to this when all are active in a sweep of
    /// the second half of the burn-in.
    pub max_candidates: usize,
    /// `a` of the prior of the switches, `Beta(a/K, b (K-1)/K)`: about Poisson(a/b) components are active.
    pub rank_a: f64,
    /// `b` of the prior of the switches.
    pub rank_b: f64,
    /// Prior of the noise precision `alpha`.
    pub noise: GammaPrior,
    /// Each row has noise of its own, of precision `alpha w_i`, `w_i ~ Gamma(h, h)` with h inferred (W: one precision for all). Gaussian and
    /// ordinal likelihoods only; `alpha = 1` in the latter.
    pub row_noise: bool,
    /// Each column has noise of its own; with `row_noise` an entry has precision `alpha w_i w_j`.
    pub column_noise: bool,
    /// Least and largest h; see [`noise_shapes`](Self::noise_shapes).
    pub noise_shape_range: (f64, f64),
    /// Each row has a spread of its own: its factors lie about their means with precision `g_i ~ Gamma(h, h)`, h inferred (W: precision 1 for all rows).
    pub row_factor_precision: bool,
    /// The same of columns.
    pub column_factor_precision: bool,
    /// Least and largest h of the spreads; the values in between as those of the noise, [`noise_shapes`](Self::noise_shapes).
    pub factor_precision_shape_range: (f64, f64),
    /// Prior of the precision `alpha_s` of the half-normal scales `s_k`.
    pub scale: GammaPrior,
    /// The factors of a component have a mean on each side, itself standard normal (W: mean zero): then the intercepts of rows go along with their
    /// factors, and those of columns with theirs.
    pub factor_means: bool,
    /// The mean of the factors of a row also depends on its features (as in Macau), and so for columns; next to the coefficients of W 5.14.
    pub feature_links: bool,
    /// Prior of the precision of the links, one for each side: features of like scales are expected.
    pub link: GammaPrior,
    /// How rows and columns are drawn.
    pub factor_update: FactorUpdate,
    /// Precision of the normal prior (mean zero) of the offset.
    pub offset_precision: f64,
    /// Rows have intercepts (W: no).
    pub row_intercepts: bool,
    /// Columns have intercepts (W: no).
    pub column_intercepts: bool,
    /// Prior of the precision of the intercepts, one precision for rows and one for columns.
    pub intercept: GammaPrior,
    /// Prior of the precision of the coefficients, one precision for each feature (W: one for each side): features that explain nothing cost nothing.
    pub coefficient: GammaPrior,
    /// Coefficients of a feature have a common mean, itself normal about zero (W: no such mean): the effect of a feature on rows or columns never seen.
    pub common_coefficients: bool,
    /// Prior of the precision of the common means, one for each side: features of like scales are expected.
    pub common: GammaPrior,
    /// Precision of the normal prior (mean zero) of the free thresholds.
    pub threshold_precision: f64,
    /// Moves of a sweep, in order.
    pub moves: Vec<Scheduled>,
    /// Sweeps and draws.
    pub sweeps: SweepPlan,
    /// How many of the kept draws stay in the fit, evenly spread, with all their factors: for cells that were not asked for beforehand, and folding in.
    pub stored_draws: u64,
    /// Chains: what they found is pooled, and how far they agree is in [`BsvdFit::diagnostics`](crate::BsvdFit::diagnostics).
    pub chains: usize,
    /// Number of the first chain: chains of one seed differ.
    pub chain: u64,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Vague (W 5.5.1).
const VAGUE: GammaPrior = GammaPrior {
    shape: 1e-6,
    rate: 1e-6,
};

impl Default for BsvdConfig {
    fn default() -> Self {
        Self {
            likelihood: Likelihood::Gaussian,
            units: BsvdUnits::Observed,
            candidates: 50,
            max_candidates: 200,
            rank_a: 1.0,
            rank_b: 1.0,
            noise: VAGUE,
            row_noise: true,
            column_noise: true,
            noise_shape_range: (1.0, 1024.0),
            row_factor_precision: true,
            column_factor_precision: true,
            factor_precision_shape_range: (1.0, 1024.0),
            scale: VAGUE,
            factor_means: true,
            feature_links: true,
            link: GammaPrior {
                shape: 1.0,
                rate: 0.1,
            },
            factor_update: FactorUpdate::Joint,
            offset_precision: 0.1,
            row_intercepts: true,
            column_intercepts: true,
            intercept: VAGUE,
            coefficient: VAGUE,
            common_coefficients: true,
            common: GammaPrior {
                shape: 1.0,
                rate: 0.1,
            },
            threshold_precision: 0.01,
            moves: default_moves(),
            sweeps: SweepPlan {
                burn_in: 300,
                keep: 200,
                thin: 2,
            },
            stored_draws: 50,
            chains: 1,
            chain: 0,
            seed: 0,
        }
    }
}

/// Everything each sweep, but switches every fifth: they cost most, and change least. Rows come last: cells that are followed are then
/// averaged over them exactly, see [`CellMoments`](crate::CellMoments).
fn default_moves() -> Vec<Scheduled> {
    let each = |step| Scheduled { step, every: 1 };
    vec![
        each(BsvdMove::Thresholds),
        each(BsvdMove::Latents),
        each(BsvdMove::Columns),
        each(BsvdMove::Noise),
        each(BsvdMove::Offset),
        each(BsvdMove::Location),
        each(BsvdMove::Scale),
        each(BsvdMove::Mixing),
        Scheduled {
            step: BsvdMove::Switches,
            every: 5,
        },
        each(BsvdMove::ScalePrecision),
        each(BsvdMove::Hyper),
        each(BsvdMove::Rows),
    ]
}

impl BsvdConfig {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        at_least("candidates", self.candidates as u64, 2)?;
        up_to("chains", self.chains, MOST_CHAINS)?;
        at_least(
            "max_candidates",
            self.max_candidates as u64,
            self.candidates as u64,
        )?;
        if self.max_candidates > MOST_CANDIDATES {
            return Err(OutOfRange::new(
                "max_candidates",
                self.max_candidates,
                "at most 4096",
            ));
        }
        above("rank_a", self.rank_a, 0.0)?;
        above("rank_b", self.rank_b, 0.0)?;
        for (field, prior) in [
            ("noise", self.noise),
            ("scale", self.scale),
            ("intercept", self.intercept),
            ("coefficient", self.coefficient),
            ("link", self.link),
            ("common", self.common),
        ] {
            gamma(field, prior)?;
        }
        above("offset_precision", self.offset_precision, 0.0)?;
        let [low, high] = ["noise_shape_range.0", "noise_shape_range.1"];
        shapes(low, high, self.noise_shape_range)?;
        let [low, high] = [
            "factor_precision_shape_range.0",
            "factor_precision_shape_range.1",
        ];
        shapes(low, high, self.factor_precision_shape_range)?;
        if let BsvdUnits::Given { centre, scale } = self.units {
            above("units.scale", scale, 0.0)?;
            if !centre.is_finite() {
                return Err(OutOfRange::new("units.centre", centre, "finite"));
            }
        }
        at_least("moves (number of)", self.moves.len() as u64, 1)?;
        for scheduled in &self.moves {
            at_least("moves.every", scheduled.every, 1)?;
        }
        above("threshold_precision", self.threshold_precision, 0.0)?;
        if let Likelihood::Ordinal { levels } = self.likelihood {
            at_least("likelihood.levels", u64::from(levels), 2)?;
            if levels > MOST_LEVELS {
                return Err(OutOfRange::new("likelihood.levels", levels, "at most 1000"));
            }
        }
        self.check_latents()?;
        at_least("sweeps.keep", self.sweeps.keep, 1)?;
        at_least("sweeps.thin", self.sweeps.thin, 1)
    }

    /// Latent entries are not part of the state: each sweep must begin with drawing them, and draw them again when thresholds have changed.
    fn check_latents(&self) -> Result<(), OutOfRange> {
        if !self.likelihood.is_probit() {
            return Ok(());
        }
        let steps = &self.moves;
        let latents = |n: usize| {
            let found = steps.get(n);
            found.is_some_and(|s| s.step == BsvdMove::Latents && s.every == 1)
        };
        let begins = latents(0) || (steps[0].step == BsvdMove::Thresholds && latents(1));
        let followed = (0..steps.len())
            .filter(|&n| steps[n].step == BsvdMove::Thresholds)
            .all(|n| latents(n + 1));
        if begins && followed {
            return Ok(());
        }
        Err(OutOfRange::new(
            "moves",
            "without latents first",
            "begin with latents, every sweep (thresholds may come just before) for a probit likelihood",
        ))
    }

    /// Values that h, the shape of the noise weights, can take; a priori all are alike: four for each doubling, from the least of
    /// [`noise_shape_range`](Self::noise_shape_range) on.
    pub fn noise_shapes(&self) -> Vec<f64> {
        shape_grid(self.noise_shape_range)
    }

    /// The same of the spreads of factors, from the least of [`factor_precision_shape_range`](Self::factor_precision_shape_range) on.
    pub fn factor_precision_shapes(&self) -> Vec<f64> {
        shape_grid(self.factor_precision_shape_range)
    }

    /// Whether rows, and whether columns, have noise of their own.
    pub(crate) fn own_noise(&self) -> (bool, bool) {
        // Two levels do not tell much noise from small values.
        let can = match self.likelihood {
            Likelihood::Gaussian => true,
            Likelihood::Ordinal { levels } => levels > 2,
            Likelihood::Binary | Likelihood::Binomial => false,
        };
        (can && self.row_noise, can && self.column_noise)
    }

    /// Whether the number of components at the start is found from the entries.
    pub(crate) fn finds_start(&self) -> bool {
        self.max_candidates > self.candidates
            && self.moves.iter().any(|s| s.step == BsvdMove::Switches)
    }

    /// Prior odds of a switch with `K` candidates, its weight integrated out.
    pub(crate) fn ln_prior_odds(&self, candidates: usize) -> f64 {
        (self.rank_a / (self.rank_b * (candidates as f64 - 1.0))).ln()
    }
}

/// Shapes of noise weights beyond these have no meaning: weights of no size at all, or all the same.
const LEAST_SHAPE: f64 = 0.01;
const MOST_SHAPE: f64 = 1e9;

/// More components than any machine would bear.
pub(crate) const MOST_CANDIDATES: usize = 4096;

/// Four values for each doubling, from the least on.
fn shape_grid((least, most): (f64, f64)) -> Vec<f64> {
    // An end that is a step away counts, whatever rounding says.
    let steps = (4.0 * (most / least).log2() + 1e-9).floor();
    let step = |n: u32| least * (0.25 * f64::from(n)).exp2();
    (0..=steps as u32).map(step).collect()
}

/// The fields `low` and `high` hold a range of shapes.
fn shapes(
    low: &'static str,
    high: &'static str,
    (least, most): (f64, f64),
) -> Result<(), OutOfRange> {
    // Written so that NaN fails.
    if !(least >= LEAST_SHAPE && least.is_finite()) {
        return Err(OutOfRange::new(low, least, "at least 0.01"));
    }
    if !(most >= least && most <= MOST_SHAPE) {
        return Err(OutOfRange::new(high, most, format!("from {least} to 1e9")));
    }
    Ok(())
}
