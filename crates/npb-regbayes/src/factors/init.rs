//! Where the indicators start: signed singular directions (at `psi = 1/2` without loadings one sits near a symmetric saddle).

use npb_infer::stream;
use npb_linalg::faer::Mat;
use npb_priors::ibp::IbpFactor;
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::directions::signed_directions;
use super::{Factors, Items};
use crate::config::{FeatureConfig, IbpConcentration, Start, Variance};
use crate::dense::sigmoid;
use crate::error::RegBayesError;
use crate::state::{FeatureState, Spread};

/// Third word of the keys of random streams.
const START: u64 = 1;

impl<'d> Factors<'d> {
    /// The start of a run: indicators by `config.start`, loadings and sticks at their best.
    pub(crate) fn start(
        items: &'d Items,
        config: FeatureConfig,
        seed: u64,
    ) -> Result<Self, RegBayesError> {
        let k = config.truncation;
        let alpha = match config.concentration {
            IbpConcentration::Fixed(alpha) => alpha,
            IbpConcentration::Learned { prior } => prior.shape / prior.rate,
        };
        let sticks = IbpFactor::new(k, alpha).map_err(|e| {
            npb_infer::ranges::OutOfRange::new("concentration", alpha, e.to_string())
        })?;
        let noise_variance = match config.noise_variance {
            Variance::Fixed(value) => value,
            Variance::Learned if items.n_observed == 0 => 1.0,
            Variance::Learned => {
                (0.5 * items.sum_squares / items.n_observed as f64).max(super::LEAST_VARIANCE)
            }
        };
        let loading_variance = match config.loading_variance {
            Variance::Fixed(value) => value,
            Variance::Learned => 1.0,
        };
        let observations = items.n_observations();
        let state = FeatureState {
            sticks,
            indicators: start(items, k, config.start, seed),
            loadings: Mat::zeros(k, observations),
            spread: Spread::Own(Mat::full(k, observations, loading_variance)),
            noise_variance,
            loading_variance,
        };
        let mut factors = Self::new(items, config, state);
        factors.update_sticks();
        factors.update_loadings(0)?;
        Ok(factors)
    }
}

fn start(items: &Items, k: usize, start: Start, seed: u64) -> Mat<f64> {
    let (mut ln_odds, noise) = match start {
        Start::Even { noise } => (Mat::zeros(k, items.n_items()), noise),
        Start::SignedSvd { noise } => (signed_directions(items.values.as_ref(), k), noise),
    };
    for i in 0..ln_odds.ncols() {
        let rng = &mut stream(seed, [0, 0, START, i as u64]);
        disturb(ln_odds.col_as_slice_mut(i), noise, rng);
    }
    ln_odds
}

/// Log-odds to probabilities, with noise.
fn disturb(ln_odds: &mut [f64], noise: f64, rng: &mut impl Rng) {
    for x in ln_odds {
        let z: f64 = StandardNormal.sample(rng);
        *x = sigmoid(*x + noise * z);
    }
}
