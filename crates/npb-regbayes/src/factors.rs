//! One latent-feature posterior for `X ~ Z W'`: items with binary features, observations with loadings.
//!
//! iLSVM reads a table with rows as items and columns as observations; MT-iLSVM the other way round.

pub(crate) mod bound;
mod directions;
pub(crate) mod gibbs;
pub(crate) mod indicators;
pub(crate) mod init;
pub(crate) mod items;
pub(crate) mod loadings;
mod moments;

use npb_linalg::faer::Mat;
use npb_priors::ibp::IbpFactor;

use crate::config::{FeatureConfig, IbpConcentration, Variance};
use crate::dense::{axpy, product, sigmoid};
use crate::error::RegBayesError;
use crate::state::{FeatureState, Spread};
use indicators::Evidence;
pub(crate) use items::Items;

/// Noise variances below this share of the inputs' variance are rounding.
const LEAST_VARIANCE: f64 = 1e-6;

/// A feature of which the items have less than this together is not in use.
const UNUSED: f64 = 0.5;

/// Sweeps of new features before they are judged: they begin half on, and pay for that until they have made up their minds.
const SETTLING: u32 = 20;

/// Updates of the sticks that are made at once: each costs O(K).
const STICK_UPDATES: usize = 5;

/// The factor model at work: inputs, posterior, and what indicators need to know of the loadings.
#[derive(Clone, Debug)]
pub(crate) struct Factors<'d> {
    pub(crate) items: &'d Items,
    pub(crate) config: FeatureConfig,
    pub(crate) state: FeatureState,
    pub(crate) evidence: Evidence,
}

impl<'d> Factors<'d> {
    /// A run from a given posterior.
    pub(crate) fn new(items: &'d Items, config: FeatureConfig, state: FeatureState) -> Self {
        let evidence = Evidence::new(items, &state);
        Self {
            items,
            config,
            state,
            evidence,
        }
    }

    /// 1 / lambda^2, times the weight of the inputs.
    pub(crate) fn precision(&self) -> f64 {
        self.config.input_weight / self.state.noise_variance
    }

    /// R (26), (32).
    pub(crate) fn update_sticks(&mut self) {
        let counts = self.state.expected_use();
        let n = self.items.n_items() as f64;
        for _ in 0..STICK_UPDATES {
            self.state.sticks.update(&counts, n);
        }
    }

    /// R (25), (31), corrected.
    pub(crate) fn update_loadings(&mut self, iteration: u64) -> Result<(), RegBayesError> {
        loadings::update(self.items, &self.config, &mut self.state)
            .map_err(|e| RegBayesError::numerical(iteration, "loadings", &e))?;
        self.evidence = Evidence::new(self.items, &self.state);
        Ok(())
    }

    /// R (27), (33): each item's indicators in sequence, items in parallel. `pull`, K x I, is what labels add to the log-odds.
    pub(crate) fn sweep_indicators(&mut self, pull: Option<&Mat<f64>>) {
        let precision = self.precision();
        let mut odds = vec![0.0; self.state.n_features()];
        self.state.sticks.prior_ln_odds(&mut odds);
        indicators::sweep(
            self.items,
            &self.evidence,
            &mut self.state.indicators,
            precision,
            &odds,
            pull,
        );
    }

    /// R (30), (36), shared: the expected squared error per observed entry.
    pub(crate) fn update_noise(&mut self) {
        if self.config.noise_variance == Variance::Learned && self.items.n_observed > 0 {
            let squares = moments::expected_squares(self.items, &self.evidence, &self.state);
            let squares: f64 = squares.iter().sum();
            self.state.noise_variance =
                (squares / self.items.n_observed as f64).max(LEAST_VARIANCE);
        }
    }

    /// R (29), (35).
    pub(crate) fn update_loading_scale(&mut self) {
        let size = self.state.loadings.nrows() * self.state.loadings.ncols();
        if self.config.loading_variance == Variance::Learned && size > 0 {
            let squares = moments::expected_loading_squares(&self.state);
            self.state.loading_variance = (squares / size as f64).max(LEAST_VARIANCE);
        }
    }

    /// alpha where bound plus log prior are highest for the present sticks.
    pub(crate) fn update_concentration(&mut self) {
        if let IbpConcentration::Learned { prior } = self.config.concentration
            && let Some(alpha) = moments::best_concentration(&self.state.sticks, prior)
        {
            let set = self.state.sticks.set_alpha(alpha);
            set.unwrap_or_else(|_| unreachable!("only positive numbers are offered"));
        }
    }

    /// One sweep of all there is: loadings, indicators, sticks, scales; `pull` as in [`sweep_indicators`](Self::sweep_indicators).
    pub(crate) fn sweep(
        &mut self,
        iteration: u64,
        pull: Option<&Mat<f64>>,
    ) -> Result<(), RegBayesError> {
        self.update_loadings(iteration)?;
        self.sweep_indicators(pull);
        self.update_sticks();
        self.update_noise();
        self.update_loading_scale();
        self.update_concentration();
        Ok(())
    }

    /// The features that are in use, in order of use.
    pub(crate) fn keep_used(&mut self) -> Result<(), RegBayesError> {
        self.state = self.select(&self.in_order_of_use());
        self.update_loadings(0)
    }

    /// Features in descending order of expected use, those in use only, at least one.
    pub(crate) fn in_order_of_use(&self) -> Vec<usize> {
        let counts = self.state.expected_use();
        let mut order: Vec<usize> = (0..counts.len()).collect();
        order.sort_by(|&a, &b| counts[b].total_cmp(&counts[a]));
        let used = order.iter().filter(|&&k| counts[k] >= UNUSED).count();
        order.truncate(used.max(1));
        order
    }

    /// The posterior with these features, in this order; sticks found anew, loadings to be updated next.
    pub(crate) fn select(&self, features: &[usize]) -> FeatureState {
        let psi = &self.state.indicators;
        self.with_indicators(Mat::from_fn(features.len(), psi.ncols(), |k, i| {
            psi[(features[k], i)]
        }))
    }

    /// Takes more features when the bound is higher with them and some stay in use; says whether it did.
    pub(crate) fn grow(&mut self) -> Result<bool, RegBayesError> {
        let Some(mut grown) = self.grown(0, None)? else {
            return Ok(false);
        };
        grown.keep_used()?;
        let better =
            grown.elbo() > self.elbo() && grown.state.n_features() > self.state.n_features();
        if better {
            *self = grown;
        }
        Ok(better)
    }

    /// More features, where there is room and all are in use; at rest with the others, under what labels say of these.
    pub(crate) fn grown(
        &self,
        iteration: u64,
        pull: Option<&Mat<f64>>,
    ) -> Result<Option<Self>, RegBayesError> {
        let (state, config) = (&self.state, &self.config);
        let room = config.max_truncation.saturating_sub(state.n_features());
        let count = match config.growth {
            0 => 0,
            least => least.max(state.n_features() / 4).min(room),
        };
        let wanted = state.expected_use().iter().all(|&n| n >= UNUSED);
        if count == 0 || !wanted {
            return Ok(None);
        }
        let mut grown = Self::new(self.items, *config, self.with_more(count));
        let pull = pull.map(|pull| {
            Mat::from_fn(pull.nrows() + count, pull.ncols(), |k, i| {
                if k < pull.nrows() { pull[(k, i)] } else { 0.0 }
            })
        });
        for _ in 0..SETTLING {
            grown.sweep(iteration, pull.as_ref())?;
        }
        Ok(Some(grown))
    }

    /// The posterior with `count` more features, started from the signed singular directions of what the present ones leave over.
    fn with_more(&self, count: usize) -> FeatureState {
        let (psi, means) = (&self.state.indicators, &self.state.loadings);
        let mut left = product(means.transpose(), psi.as_ref(), -1.0);
        for i in 0..left.ncols() {
            let column = left.col_as_slice_mut(i);
            axpy(column, 1.0, self.items.values.col_as_slice(i));
            if let Some(seen) = &self.items.seen {
                let seen = seen.col_as_slice(i);
                column.iter_mut().zip(seen).for_each(|(r, o)| *r *= o);
            }
        }
        let fresh = directions::signed_directions(left.as_ref(), count);
        let k = psi.nrows();
        self.with_indicators(Mat::from_fn(k + count, psi.ncols(), |l, i| {
            if l < k {
                psi[(l, i)]
            } else {
                sigmoid(fresh[(l - k, i)])
            }
        }))
    }

    /// The posterior at other indicators; loadings are at their prior until they are updated.
    fn with_indicators(&self, indicators: Mat<f64>) -> FeatureState {
        let state = &self.state;
        let shape = (indicators.nrows(), state.n_observations());
        let mut other = FeatureState {
            sticks: state.sticks.clone(),
            indicators,
            loadings: Mat::zeros(shape.0, shape.1),
            spread: Spread::Own(Mat::full(shape.0, shape.1, state.loading_variance)),
            noise_variance: state.noise_variance,
            loading_variance: state.loading_variance,
        };
        let (counts, n) = (other.expected_use(), self.items.n_items() as f64);
        if let Some(sticks) = settled_sticks(shape.0, state.sticks.alpha(), &counts, n) {
            other.sticks = sticks;
        }
        other
    }
}

/// Sticks at the optimum for these counts; `None` for a concentration out of range.
fn settled_sticks(truncation: usize, alpha: f64, counts: &[f64], n: f64) -> Option<IbpFactor> {
    const UPDATES: usize = 50;
    let mut sticks = IbpFactor::new(truncation, alpha).ok()?;
    for _ in 0..UPDATES {
        sticks.update(counts, n);
    }
    Some(sticks)
}
