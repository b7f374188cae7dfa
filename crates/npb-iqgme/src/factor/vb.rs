//! Variational Bayes: the coordinate updates and the loop over them.

#[cfg(test)]
pub(crate) mod tests;

use npb_infer::{Variational, VbReport, parallel};
use npb_linalg::faer::Mat;
use npb_priors::dp::StickFactor;
use serde::{Deserialize, Serialize};

use super::bound::{FactorBound, Labelled, Priors, bound};
use super::config::FactorInit;
use super::data::{FactorData, RowLabels};
use super::experts;
use super::features::{self, FeatureStats};
use super::forms::{Features, Forms};
use super::indicators::IndicatorGains;
use super::rows::{Cluster, RowFactors, Rows, scores};
use super::start::{Beginning, beginning};
use super::state::Derived;
use super::state::{FactorState, FeatureFactor, at_prior};
use crate::data::first_utilities;
use crate::state::gamma;
use crate::vb::{falling, padded, stick_bound};
use crate::{FactorConfig, FeatureScale, IqgmeError, Result};

/// Iterations with the responsibilities and indicators of the start held fixed.
const START_ITERATIONS: usize = 10;

/// One coordinate update of the factor-analytic variant. None of them lowers the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactorVbUpdate {
    /// `q(s, z)` of every row.
    Rows,
    /// `q(t)` of every row.
    Utilities,
    /// `q(kappa)`.
    ClusterNoise,
    /// The indicators, each with the factors, the expert's coordinate and the column that it governs.
    Indicators,
    /// Larger clusters first; clusters without rows are dropped.
    Order,
    /// `q(V)`.
    Sticks,
    /// `q(theta, psi)`.
    Features,
    /// `q(gamma)` and `q(u)`.
    Scales,
    /// `q(w)`.
    Experts,
    /// `q(zeta, lambda)`.
    ExpertPrior,
    /// `q(alpha)`.
    Concentration,
}

impl FactorVbUpdate {
    /// The updates in the order of an iteration.
    pub const ALL: [Self; 11] = [
        Self::Rows,
        Self::Utilities,
        Self::ClusterNoise,
        Self::Indicators,
        Self::Order,
        Self::Sticks,
        Self::Features,
        Self::Scales,
        Self::Experts,
        Self::ExpertPrior,
        Self::Concentration,
    ];
}

/// One run of variational Bayes for the factor-analytic variant. Drive it with [`step`](Self::step), or have [`maximise`](npb_infer::maximise()) do it.
///
/// Cost of an iteration with K clusters, L columns in use and D = L + K: `D` for each observed cell, `min(|o|, |m|) D^2` for each missing pattern of
/// rows and of features, `K L^3` for each missing pattern of rows, `D^3` for each of features. Memory: `K L` for each row, `D^2` for each pattern.
///
/// ```
/// use npb_iqgme::npb_data::{Labels, Table};
/// use npb_iqgme::{FactorConfig, FactorData, FactorInit, FactorVb};
///
/// let table = Table::complete(4, 3, vec![-2.0, -1.5, -1.0, 1.0, 1.4, 2.2, -1.8, -1.6, -0.7, 0.9, 1.5, 2.0])?;
/// let labels = Labels::from_strings(&["a", "b", "a", "b"].map(Some));
/// let config = FactorConfig::default();
/// let data = FactorData::new(&table, &labels, &config)?;
/// let mut run = FactorVb::new(&data, config, FactorInit::Pooled(1), 0)?;
/// let first = run.step()?;
/// assert!(run.step()? >= first - 1e-9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FactorVb<'d> {
    data: &'d FactorData,
    config: FactorConfig,
    priors: Priors,
    state: FactorState,
    factors: RowFactors,
    soft: Utilities,
    /// Of the current `q(theta, psi)`; none when that has moved.
    forms: Option<Forms>,
    iteration: u64,
}

impl Variational for FactorVb<'_> {
    type State = FactorState;
    type Error = IqgmeError;

    fn step(&mut self) -> Result<f64> {
        FactorVb::step(self)
    }

    fn state(&self) -> FactorState {
        self.state.clone()
    }
}

impl<'d> FactorVb<'d> {
    /// Starts a run; `restart` selects the random numbers.
    pub fn new(
        data: &'d FactorData,
        config: FactorConfig,
        start: FactorInit,
        restart: u64,
    ) -> Result<Self> {
        config.validate()?;
        let Beginning {
            indicators,
            factors,
        } = beginning(data, &config, start, restart)?;
        let priors = Priors::new(&config);
        let state = first_state(data, &config, &priors, indicators);
        let soft = Utilities::new(&state.utility_means, &data.labels);
        let mut vb = Self {
            soft,
            data,
            config,
            priors,
            state,
            factors,
            forms: None,
            iteration: 0,
        };
        vb.start()?;
        Ok(vb)
    }

    /// Continues a run from its state and trace: on the same data and configuration, in the same bits as if it had never stopped.
    pub fn resume(
        data: &'d FactorData,
        config: FactorConfig,
        state: FactorState,
        trace: &[VbReport],
    ) -> Result<Self> {
        config.validate()?;
        let n_utilities = data.labels.n_utilities;
        state.check(data.cells.n_features(), n_utilities, &config)?;
        let patterns = state.features.pattern.iter().copied();
        let same =
            patterns.eq((0..data.cells.n_features()).map(|p| data.columns.pattern_of_row(p)));
        if state.utility_means.len() != data.n_rows() * n_utilities || !same {
            return Err(IqgmeError::saved("the state is of other data"));
        }
        let clusters = state.n_clusters();
        let mut vb = Self {
            soft: Utilities::new(&state.utility_means, &data.labels),
            factors: RowFactors {
                n_clusters: clusters,
                responsibilities: vec![0.0; clusters * data.n_rows()],
                means: Vec::new(),
                spreads: Vec::new(),
            },
            data,
            priors: Priors::new(&config),
            config,
            state,
            forms: None,
            iteration: trace.len() as u64,
        };
        vb.rows(false)?;
        Ok(vb)
    }

    /// Parameters are fitted to the responsibilities and indicators of the start before these may move.
    fn start(&mut self) -> Result<()> {
        use FactorVbUpdate::{ClusterNoise, Indicators, Order, Rows, Utilities};
        for k in 0..=START_ITERATIONS {
            if k > 0 {
                self.rows(true)?;
            }
            for update in FactorVbUpdate::ALL {
                let of_rows = matches!(update, Utilities | ClusterNoise);
                if !matches!(update, Rows | Indicators | Order) && (k > 0 || !of_rows) {
                    self.apply(update)?;
                }
            }
        }
        Ok(())
    }

    /// One iteration: [`FactorVbUpdate::ALL`]. Returns the bound after its first two updates.
    pub fn step(&mut self) -> Result<f64> {
        self.iteration += 1;
        self.apply(FactorVbUpdate::Rows)?;
        self.apply(FactorVbUpdate::Utilities)?;
        let bound = IqgmeError::finite_bound(self.iteration, self.bound()?.total())?;
        for &update in &FactorVbUpdate::ALL[2..] {
            self.apply(update)?;
        }
        Ok(bound)
    }

    pub(super) fn scale(&self) -> FeatureScale {
        self.config.scale
    }

    /// The current posterior.
    pub fn state(&self) -> &FactorState {
        &self.state
    }

    /// The posterior, when the run is over.
    pub fn into_state(self) -> FactorState {
        self.state
    }

    /// Responsibilities by row, row-major, one column for each cluster of the state.
    pub fn responsibilities(&self) -> &[f64] {
        &self.factors.responsibilities
    }

    /// Expected number of rows of each cluster of the state.
    pub fn sizes(&self) -> Vec<f64> {
        self.factors.counts()
    }

    /// For each cluster and column the probability that the cluster uses it, the other indicators as they are; everything that goes along is
    /// integrated out or optimised anew.
    pub fn inclusion_probabilities(&mut self) -> Result<Vec<Vec<f64>>> {
        self.prepare_forms();
        let found = self.indicator_gains(self.forms.as_ref().expect("prepared"));
        let state = &self.state;
        let of_cluster = |h: usize| {
            let failed = IqgmeError::at(self.iteration, "indicators");
            let gains = found
                .gains(state, h)
                .map_err(|source| failed((h, source)))?;
            let probability = |(gain, &on): (f64, &bool)| {
                let toward_on = if on { -gain } else { gain };
                1.0 / (1.0 + (-toward_on).exp())
            };
            let each = gains.into_iter().zip(&state.indicators[h]);
            Ok(each.map(probability).collect())
        };
        (0..state.n_clusters()).map(of_cluster).collect()
    }

    fn indicator_gains<'a>(&'a self, forms: &'a Forms) -> IndicatorGains<'a> {
        IndicatorGains {
            rows: self.row_view(forms),
            config: &self.config,
            loading_prior: &self.priors.loading,
            factors: &self.factors,
        }
    }

    /// The evidence lower bound of the current posterior, in parts. Equations: `docs/iqgme-updates.md#factor-analytic-bound`.
    pub fn bound(&mut self) -> Result<FactorBound> {
        self.prepare_forms();
        self.bound_with(&self.state, self.forms.as_ref().expect("prepared"))
    }

    fn bound_with(&self, state: &FactorState, forms: &Forms) -> Result<FactorBound> {
        let rows = self.row_view(forms);
        let value = bound(
            state,
            &rows,
            &Labelled {
                locations: &self.state.utility_means,
                soft: &self.soft.means,
                ln_masses: &self.soft.ln_masses,
            },
            &self.factors,
            &self.config,
            &self.priors,
        );
        value.map_err(IqgmeError::at(self.iteration, "expert covariance"))
    }

    fn row_view<'a>(&'a self, forms: &'a Forms) -> Rows<'a> {
        Rows {
            patterns: self.data.cells.patterns.patterns(),
            forms,
            labels: &self.data.labels,
            soft: &self.soft.means,
        }
    }

    fn prepare_forms(&mut self) {
        if self.forms.is_none() {
            let features = Features::expected(&self.state);
            self.forms = Some(Forms::new(&features, &self.data.cells));
        }
    }

    /// Equations: `docs/iqgme-updates.md#factors-of-rows`.
    fn rows(&mut self, fixed: bool) -> Result<()> {
        self.prepare_forms();
        let clusters = Cluster::all(&self.state);
        let rows = self.row_view(self.forms.as_ref().expect("prepared"));
        let responsibilities = fixed.then_some(self.factors.responsibilities.as_slice());
        let solved = rows.solve(&clusters, responsibilities);
        self.factors = solved.map_err(IqgmeError::at(self.iteration, "factors"))?;
        Ok(())
    }

    /// Makes one coordinate update. [`step`](Self::step) makes all of [`FactorVbUpdate::ALL`].
    pub fn apply(&mut self, update: FactorVbUpdate) -> Result<()> {
        match update {
            FactorVbUpdate::Rows => return self.rows(false),
            FactorVbUpdate::Utilities => self.update_expected_utilities(),
            FactorVbUpdate::ClusterNoise => self.update_cluster_noise(),
            FactorVbUpdate::Indicators => return self.update_indicators(),
            FactorVbUpdate::Order => return self.rearrange(),
            FactorVbUpdate::Sticks => {
                let counts = padded(&self.factors.counts(), self.config.truncation);
                self.state.sticks.update_sticks(&counts);
            }
            FactorVbUpdate::Features => return self.update_features(),
            FactorVbUpdate::Scales => self.update_scales(),
            FactorVbUpdate::Experts => {
                let made =
                    experts::update(&mut self.state, self.data, &self.soft.means, &self.factors);
                return made.map_err(IqgmeError::at(self.iteration, "expert precision"));
            }
            FactorVbUpdate::ExpertPrior => {
                if !self.state.experts.is_empty() {
                    experts::update_prior(&mut self.state, &self.priors.expert);
                }
            }
            FactorVbUpdate::Concentration => self.state.sticks.update_alpha(),
        }
        Ok(())
    }

    fn scores(&self) -> Vec<f64> {
        let clusters = Cluster::all(&self.state);
        scores(&self.data.labels, &clusters, &self.factors)
    }

    /// Equations: `docs/iqgme-updates.md#several-classes`.
    fn update_expected_utilities(&mut self) {
        self.state.utility_means = self.scores();
        self.soft = Utilities::new(&self.state.utility_means, &self.data.labels);
    }

    /// Equations: `docs/iqgme-updates.md#scales`.
    fn update_cluster_noise(&mut self) {
        let Some(prior) = self.priors.cluster else {
            return;
        };
        self.prepare_forms();
        let clusters = Cluster::all(&self.state);
        let n = clusters.len();
        let rows = self.row_view(self.forms.as_ref().expect("prepared"));
        let terms = rows.terms(&clusters, &self.factors);
        let (mut cells, mut squares) = (vec![0.0; n], vec![0.0; n]);
        for (i, row) in terms.chunks_exact(n).enumerate() {
            for (h, term) in row.iter().enumerate() {
                let rho = self.factors.responsibility(i, h);
                cells[h] += rho * rows.forms.counts[i];
                squares[h] += rho * term.square;
            }
        }
        let noise = |(cells, square): (&f64, &f64)| {
            let rate = prior.rate() + 0.5 * square.max(0.0);
            gamma(prior.shape() + 0.5 * cells, rate)
        };
        self.state.noise = cells.iter().zip(&squares).map(noise).collect();
    }

    /// Equations: `docs/iqgme-updates.md#indicators`.
    fn update_indicators(&mut self) -> Result<()> {
        self.prepare_forms();
        let forms = self.forms.take().expect("prepared");
        let mut state = self.state.clone();
        let gains = self.indicator_gains(&forms);
        for h in 0..state.n_clusters() {
            let flipped = gains.flip(&mut state, h);
            flipped.map_err(|source| IqgmeError::at(self.iteration, "indicators")((h, source)))?;
        }
        let changed = state.indicators != self.state.indicators;
        self.state = state;
        self.forms = Some(forms);
        if changed {
            let clusters: Vec<usize> = (0..self.state.n_clusters()).collect();
            self.select(&clusters)?;
            self.rows(true)?;
        }
        Ok(())
    }

    /// Keeps the clusters named, in that order, and the columns that they use.
    fn select(&mut self, clusters: &[usize]) -> Result<()> {
        let n_factors = self.state.n_factors();
        let columns: Vec<usize> = (0..n_factors)
            .filter(|&l| clusters.iter().any(|&h| self.state.indicators[h][l]))
            .collect();
        let all = clusters.iter().copied().eq(0..self.state.n_clusters());
        if all && columns.len() == n_factors {
            return Ok(());
        }
        self.state.select(clusters, &columns);
        let derived = Derived::new(&self.state.features.covariance);
        let failed = IqgmeError::at(self.iteration, "loadings");
        self.state.features.derived = derived.map_err(failed)?;
        if !all {
            self.factors.select(clusters);
        }
        if let Some(forms) = &mut self.forms {
            let means = clusters.iter().map(|h| n_factors + h);
            let kept: Vec<usize> = columns.iter().copied().chain(means).collect();
            forms.select(&kept);
        }
        Ok(())
    }

    /// Puts larger clusters first, if that does not lower the bound, and drops those without rows.
    fn rearrange(&mut self) -> Result<()> {
        let counts = self.factors.counts();
        // Clusters that go leave a gap in the sticks: closing it is part of the same move.
        let order = falling(&counts, |counts| stick_bound(&self.state.sticks, counts));
        let moved = !order.iter().copied().eq(0..counts.len());
        self.select(&order)?;
        if moved {
            self.apply(FactorVbUpdate::Sticks)?;
        }
        Ok(())
    }

    /// Equations: `docs/iqgme-updates.md#loadings-and-noise`.
    fn update_features(&mut self) -> Result<()> {
        let clusters = Cluster::all(&self.state);
        let stats = FeatureStats::new(self.data, &clusters, &self.factors);
        let made = features::update(&mut self.state, self.data, &stats, &self.priors.noise);
        made.map_err(IqgmeError::at(self.iteration, "loadings"))?;
        self.forms = None;
        Ok(())
    }

    /// Equations: `docs/iqgme-updates.md#scales`.
    fn update_scales(&mut self) {
        let squares = features::squares(&self.state);
        let n_factors = self.state.n_factors();
        let p = self.data.cells.n_features() as f64;
        let [loading, mean] = [&self.priors.loading, &self.priors.mean];
        let precision =
            |square: &f64| gamma(loading.shape() + 0.5 * p, loading.rate() + 0.5 * square);
        self.state.loading_precisions = squares[..n_factors].iter().map(precision).collect();
        let means = &squares[n_factors..];
        self.state.mean_precision = gamma(
            mean.shape() + 0.5 * p * means.len() as f64,
            mean.rate() + 0.5 * means.iter().sum::<f64>(),
        );
    }
}

/// What follows from the locations of `q(t)`.
struct Utilities {
    /// `<t_i>`: row, utility; zero for an unlabelled row.
    means: Vec<f64>,
    /// By row: see [`RowLabels::moments`].
    ln_masses: Vec<f64>,
}

impl Utilities {
    fn new(locations: &[f64], labels: &RowLabels) -> Self {
        let mut means = vec![0.0; locations.len()];
        let n = labels.n_utilities.max(1);
        let each = locations.chunks_exact(n).zip(means.chunks_exact_mut(n));
        // With more than two classes each row has an integral.
        let ln_masses = parallel::map(each.enumerate(), |(i, (locations, means))| {
            labels.moments(i, locations, means)
        });
        Self { means, ln_masses }
    }
}

/// The posterior before any update: everything at its prior but indicators and expected utilities.
fn first_state(
    data: &FactorData,
    config: &FactorConfig,
    priors: &Priors,
    indicators: Vec<Vec<bool>>,
) -> FactorState {
    let (n_clusters, n_factors) = (indicators.len(), indicators[0].len());
    let n_utilities = data.labels.n_utilities;
    let expert_prior = vec![priors.expert; n_factors + 1];
    let all: Vec<usize> = (0..=n_factors).collect();
    let expert = at_prior(&expert_prior, &all);
    FactorState {
        sticks: StickFactor::new(config.truncation, config.concentration).expect("validated"),
        features: FeatureFactor {
            mean: Mat::zeros(data.cells.n_features(), n_factors + n_clusters),
            shape: Vec::new(),
            rate: Vec::new(),
            covariance: Vec::new(),
            pattern: Vec::new(),
            derived: Derived::default(),
        },
        loading_precisions: vec![priors.loading; n_factors],
        mean_precision: priors.mean,
        noise: priors.cluster.map_or(Vec::new(), |g| vec![g; n_clusters]),
        experts: vec![expert; n_clusters * n_utilities],
        expert_prior: expert_prior.repeat(n_utilities.max(1)),
        utility_means: first_utilities(&data.labels.class, n_utilities),
        indicators,
    }
}
