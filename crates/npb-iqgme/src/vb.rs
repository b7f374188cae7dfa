//! Variational Bayes: the coordinate updates and the loop over them.

pub(crate) mod left_out;
#[cfg(test)]
pub(crate) mod tests;

use npb_infer::{Variational, VbReport};
use npb_linalg::faer::Mat;
use npb_priors::dp::StickFactor;

use crate::bound::Bound;
use crate::data::IqgmeData;
use crate::e_step::{EStepParameters, RowFamily, Update};
use crate::prior::Prior;
use crate::responsibilities::Responsibilities;
use crate::row_state::RowState;
use crate::shards::run::RunOverShards;
use crate::state::{Component, Expected, Expert, IqgmeState, dot};
use crate::stats::SufficientStats;
use serde::{Deserialize, Serialize};

use crate::{IqgmeConfig, IqgmeError, Result};

/// Iterations with the responsibilities of the start held fixed.
pub(crate) const START_ITERATIONS: usize = 10;

/// One coordinate update. None of them lowers the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VbUpdate {
    /// `q(x^m, z)` of every row.
    Labels,
    /// `q(x^m, z)`, then `q(t)`, of every row, in one E-step.
    Rows,
    /// The order of the components: larger ones first, one vacant one at the end.
    Order,
    /// `q(V)`.
    Sticks,
    /// `q(mu, Lambda)`.
    Components,
    /// `q(w)`.
    Experts,
    /// `q(zeta, lambda)`.
    ExpertPrior,
    /// `q(alpha)`.
    Concentration,
}

impl VbUpdate {
    /// The updates of the parameters, in the order of an iteration; `Rows` comes before them.
    pub const PARAMETERS: [Self; 6] = [
        Self::Order,
        Self::Sticks,
        Self::Components,
        Self::Experts,
        Self::ExpertPrior,
        Self::Concentration,
    ];
}

/// One run of variational Bayes. Drive it with [`step`](Self::step), or have [`maximise`](npb_infer::maximise()) do it.
///
/// Cost of an iteration: `N P^2` for each row, `N min(|o|, |m|)^3` for each missing pattern, `N P^3` once; memory `O(N + P)` for each row.
///
/// A checkpoint is the state and the trace; a run continued from it ends in the same bits ([`crate::fit_watched`] does all this for a whole fit):
///
/// ```
/// use npb_iqgme::npb_data::{Labels, Table};
/// use npb_iqgme::npb_infer::{VbReport, Watch, maximise, watch::Checkpoint};
/// use npb_iqgme::{IqgmeConfig, IqgmeData, IqgmeError, IqgmeVb, Init};
///
/// let table = Table::complete(6, 1, vec![-2.0, -1.5, -1.0, 1.0, 1.4, 2.2])?;
/// let labels = Labels::from_strings(&["a", "a", "b", "a", "b", "b"].map(Some));
/// let config = IqgmeConfig::default();
/// let data = IqgmeData::new(&table, &labels, &config)?;
///
/// let mut run = IqgmeVb::new(&data, config.clone(), Init::PerClass(1), 0)?;
/// let first = VbReport::after(None, run.step()?);
///
/// let mut again = IqgmeVb::resume(&data, config.clone(), run.state().clone(), &[first])?;
/// assert_eq!(again.step()?, run.step()?);
///
/// // To the end, neither watched nor kept.
/// let (watch, memory) = (Watch::none(), Checkpoint::in_memory([None]));
/// let begin = |_| Ok::<_, IqgmeError>(run);
/// let (run, outcome) = maximise(&config.limits, "elbo", &mut watch.part("run", 1.0), (&memory, 0), begin)?;
/// assert!(outcome.trace.windows(2).all(|w| w[1].elbo >= w[0].elbo - 1e-9));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IqgmeVb<'d> {
    data: &'d IqgmeData,
    config: IqgmeConfig,
    prior: Prior,
    state: IqgmeState,
    expected: Vec<Expected>,
    rows: RowState,
    iteration: u64,
    /// The factor of labelled rows with holes; tests try both.
    family: RowFamily,
    /// The rows of this run, where they lie in shards.
    shards: Option<RunOverShards>,
}

impl Variational for IqgmeVb<'_> {
    type State = IqgmeState;
    type Error = IqgmeError;

    fn step(&mut self) -> Result<f64> {
        IqgmeVb::step(self)
    }

    fn state(&self) -> IqgmeState {
        self.state.clone()
    }

    fn settle(&mut self) -> Result<()> {
        if let Some(shards) = &self.shards {
            self.state.utility_means = shards.utility_means()?;
        }
        Ok(())
    }
}

impl<'d> IqgmeVb<'d> {
    /// Starts a run from so many components and the responsibilities of these, by sorted position.
    pub(crate) fn from_responsibilities(
        data: &'d IqgmeData,
        config: IqgmeConfig,
        (n_components, responsibilities): (usize, Vec<f64>),
    ) -> Result<Self> {
        config.validate()?;
        let n_utilities = data.rows.n_utilities;
        let prior = Prior::new(&config, &data.covariance, n_utilities)?;
        let state = prior_state(data, &config, &prior, n_components);
        let responsibilities =
            Responsibilities::from_positions(&data.rows, n_components, &responsibilities);
        let mut vb = Self {
            data,
            config,
            prior,
            state,
            expected: Vec::new(),
            rows: RowState::begin(data, responsibilities, n_components),
            iteration: 0,
            family: RowFamily::MeanField,
            shards: None,
        };
        vb.start()?;
        Ok(vb)
    }

    /// Starts a run over shards from where a run of some rows has started.
    pub(crate) fn over_shards(
        data: &'d IqgmeData,
        config: IqgmeConfig,
        start: IqgmeState,
    ) -> Result<Self> {
        let shards = data.sharded.as_ref();
        let shards = shards.map(RunOverShards::begin).transpose()?;
        Self::going_on(data, config, start, (0, Vec::new()), shards)
    }

    /// Continues a run from its state and trace: on the same data and configuration, in the same bits as if it had never stopped.
    pub fn resume(
        data: &'d IqgmeData,
        config: IqgmeConfig,
        state: IqgmeState,
        trace: &[VbReport],
    ) -> Result<Self> {
        config.validate()?;
        let n_utilities = data.rows.n_utilities;
        state.check(data.rows.n_features, n_utilities)?;
        if state.utility_means.len() != data.n_rows() * n_utilities
            || state.sticks.truncation() != config.truncation
        {
            let what = "the state is of other data or another truncation";
            return Err(IqgmeError::saved(what));
        }
        let locations = data.utilities_by_position(&state.utility_means);
        let go_on = |sharded| RunOverShards::go_on(sharded, &state.utility_means);
        let shards = data.sharded.as_ref().map(go_on).transpose()?;
        Self::going_on(data, config, state, (trace.len() as u64, locations), shards)
    }

    /// From a state after so many iterations, and the locations of the utilities of rows that are here.
    fn going_on(
        data: &'d IqgmeData,
        config: IqgmeConfig,
        state: IqgmeState,
        (iteration, locations): (u64, Vec<f64>),
        shards: Option<RunOverShards>,
    ) -> Result<Self> {
        let prior = Prior::new(&config, &data.covariance, data.rows.n_utilities)?;
        let n_components = state.components.len();
        let responsibilities = Responsibilities::zeros(data.rows.len(), n_components);
        let expected = Component::all_expected(&state.components);
        Ok(Self {
            data,
            config,
            prior,
            expected: expected.map_err(IqgmeError::at(iteration, "covariance"))?,
            rows: RowState::new(data, locations, responsibilities, n_components),
            state,
            iteration,
            family: RowFamily::MeanField,
            shards,
        })
    }

    /// First statistics: every component has the shared covariance, the mean of all rows, and no expert. Then the parameters are fitted to the
    /// responsibilities of the start before these may move: experts that know nothing yet would let the gate explain the labels instead.
    fn start(&mut self) -> Result<()> {
        let pooled = self.prior.pooled(&self.data.covariance).expected();
        let expected = pooled.map_err(IqgmeError::at(0, "shared covariance"))?;
        self.expected = vec![expected; self.state.components.len()];
        let experts = std::mem::take(&mut self.state.experts);
        self.e_step(false, false)?;
        self.state.experts = experts;
        self.update_parameters()?;
        for _ in 0..START_ITERATIONS {
            self.e_step(false, true)?;
            self.update_parameters()?;
        }
        Ok(())
    }

    /// One iteration: the rows, then sticks, components, experts, their prior and the concentration. Returns the bound.
    pub fn step(&mut self) -> Result<f64> {
        self.iteration += 1;
        self.apply(VbUpdate::Rows)?;
        let bound = IqgmeError::finite_bound(self.iteration, self.bound()?.total())?;
        self.update_parameters()?;
        Ok(bound)
    }

    /// `B_0^-1` of the Wishart prior, in standardised units.
    pub fn prior_scale_inverse(&self) -> Mat<f64> {
        self.prior.component.scale_inverse.clone()
    }

    /// The current posterior.
    pub fn state(&self) -> &IqgmeState {
        &self.state
    }

    /// The evidence lower bound of the current posterior, in parts. Costs no E-step over the rows. Equations: `docs/iqgme.md#bound`.
    pub fn bound(&self) -> Result<Bound> {
        let bound = Bound::new(&self.state, &self.expected, &self.rows.stats, &self.prior);
        bound.map_err(IqgmeError::at(self.iteration, "expert covariance"))
    }

    /// Responsibilities by row of the training table, row-major, one column for each component of the state.
    pub fn responsibilities(&self) -> Vec<f64> {
        let rows = &self.data.rows;
        let by_position = self.rows.responsibilities.by_position(rows);
        rows.by_row(&by_position, self.state.components.len())
    }

    /// Number of components, and responsibilities by sorted position.
    pub(crate) fn into_responsibilities(self) -> (usize, Vec<f64>) {
        let by_position = self.rows.responsibilities.by_position(&self.data.rows);
        (self.state.components.len(), by_position)
    }

    pub(crate) fn data(&self) -> &IqgmeData {
        self.data
    }

    pub(crate) fn shards(&self) -> Option<&RunOverShards> {
        self.shards.as_ref()
    }

    pub(crate) fn iteration(&self) -> u64 {
        self.iteration
    }

    /// The posterior, when the run is over.
    pub fn into_state(self) -> IqgmeState {
        self.state
    }

    /// Updates the factors of the rows that are named. Equations: `docs/iqgme.md#rows`.
    fn e_step(&mut self, responsibilities: bool, utility_means: bool) -> Result<()> {
        if let Some(shards) = &self.shards {
            self.state.utility_means.clear();
            self.rows.stats = shards.e_step(&self.state, self.iteration)?;
            return Ok(());
        }
        let parameters = self.e_step_parameters()?;
        let update = Update {
            responsibilities,
            utility_means,
            family: self.family,
        };
        let iteration = self.iteration;
        self.rows
            .e_step(self.data, &parameters, update, iteration)?;
        self.state.utility_means = self.data.utilities_by_row(&self.rows.locations);
        Ok(())
    }

    /// The posterior of the parameters as an E-step over the rows wants it.
    fn e_step_parameters(&self) -> Result<EStepParameters> {
        let made = EStepParameters::new(&self.state, &self.expected, &self.data.rows);
        made.map_err(IqgmeError::at(self.iteration, "precision"))
    }

    fn update_parameters(&mut self) -> Result<()> {
        let mut each = VbUpdate::PARAMETERS.into_iter();
        each.try_for_each(|update| self.apply(update))
    }

    /// Makes one coordinate update. [`step`](Self::step) is `Rows` and then [`VbUpdate::PARAMETERS`].
    pub fn apply(&mut self, update: VbUpdate) -> Result<()> {
        match update {
            VbUpdate::Labels => self.e_step(true, false)?,
            VbUpdate::Rows => self.e_step(true, true)?,
            VbUpdate::Order => self.rearrange(),
            VbUpdate::Sticks => self.update_sticks(),
            VbUpdate::Components => self.update_components()?,
            VbUpdate::Experts => self.update_experts()?,
            VbUpdate::ExpertPrior => self.update_expert_prior(),
            VbUpdate::Concentration => self.state.sticks.update_alpha(),
        }
        Ok(())
    }

    /// Puts larger components first, drops those without rows and keeps one vacant component at the end, if that does not lower the bound; the sticks,
    /// which belong to places and not to components, follow.
    fn rearrange(&mut self) {
        let counts = self.rows.stats.counts();
        let mut order = falling(&counts, |counts| stick_bound(&self.state.sticks, counts));
        // One component with less than a row is enough to be born from: no further vacant one beside it.
        let filled = order.iter().all(|&h| counts[h] >= 1.0);
        if filled && order.len() < self.config.truncation {
            match (0..counts.len()).find(|h| !order.contains(h)) {
                Some(vacant) => order.push(vacant),
                None => {
                    self.push_vacant();
                    order.push(counts.len());
                }
            }
        }
        self.select(&order);
    }

    /// Appends a component at the prior, without rows.
    fn push_vacant(&mut self) {
        self.expected.push(self.prior.expected.clone());
        self.state.components.push(self.prior.component.clone());
        let at_prior = Expert::all_at_prior(&self.state.expert_prior, self.data.rows.n_utilities);
        self.state.experts.extend(at_prior);
        self.rows.stats.push_vacant();
        self.rows.responsibilities.push_vacant();
    }

    /// Keeps the components `order`, in that order.
    fn select(&mut self, order: &[usize]) {
        let n = self.state.components.len();
        if order.iter().copied().eq(0..n) {
            return;
        }
        let components = order.iter().map(|&h| self.state.components[h].clone());
        self.state.components = components.collect();
        self.expected = order.iter().map(|&h| self.expected[h].clone()).collect();
        let (n_utilities, experts) = (self.data.rows.n_utilities, &self.state.experts);
        let of_component = |&h: &usize| experts[h * n_utilities..][..n_utilities].to_vec();
        self.state.experts = order.iter().flat_map(of_component).collect();
        self.rows.stats = self.rows.stats.select(order);
        self.rows.responsibilities.select(order);
        self.update_sticks();
    }

    /// Equations: `docs/iqgme.md#parameters`.
    fn update_sticks(&mut self) {
        let counts = padded(&self.rows.stats.counts(), self.config.truncation);
        self.state.sticks.update_sticks(&counts);
    }

    /// Equations: `docs/iqgme.md#parameters`.
    fn update_components(&mut self) -> Result<()> {
        let made = self.prior.component.all_given(&self.rows.stats);
        let made = made.map_err(IqgmeError::at(self.iteration, "covariance"))?;
        (self.state.components, self.expected) = made;
        Ok(())
    }

    fn update_experts(&mut self) -> Result<()> {
        self.state.experts = self.experts_given(&self.rows.stats)?;
        Ok(())
    }

    /// Equations: `docs/iqgme.md#parameters`.
    fn experts_given(&self, stats: &SufficientStats) -> Result<Vec<Expert>> {
        let experts = Expert::all_given(&self.state.expert_prior, stats);
        experts.map_err(IqgmeError::at(self.iteration, "expert precision"))
    }

    /// The prior that the free experts share. Experts at the prior follow it and do not enter. Equations: `docs/iqgme.md#parameters`.
    fn update_expert_prior(&mut self) {
        let (prior, n_utilities) = (&self.prior.expert, self.data.rows.n_utilities);
        self.state.expert_prior = prior.fitted(&mut self.state.experts, n_utilities);
    }
}

/// The posterior before any data, with `n_components` components.
fn prior_state(
    data: &IqgmeData,
    config: &IqgmeConfig,
    prior: &Prior,
    n_components: usize,
) -> IqgmeState {
    let n_utilities = data.rows.n_utilities;
    let experts = || Expert::all_at_prior(&prior.expert, n_utilities);
    IqgmeState {
        sticks: StickFactor::new(config.truncation, config.concentration).expect("validated"),
        components: vec![prior.component.clone(); n_components],
        experts: (0..n_components).flat_map(|_| experts()).collect(),
        expert_prior: prior.expert.clone(),
        utility_means: vec![0.0; data.rows.len() * n_utilities],
    }
}

/// Zeros for what is beyond the counts.
pub(crate) fn padded(counts: &[f64], len: usize) -> Vec<f64> {
    let mut padded = counts.to_vec();
    padded.resize(len, 0.0);
    padded
}

/// The part of the bound that holds the sticks, after their update by these counts.
pub(crate) fn stick_bound(sticks: &StickFactor, counts: &[f64]) -> f64 {
    let mut sticks = sticks.clone();
    let counts = padded(counts, sticks.truncation());
    sticks.update_sticks(&counts);
    let mut ln_weights = vec![0.0; counts.len()];
    sticks.expected_ln_weights(&mut ln_weights);
    sticks.elbo() + dot(&counts, &ln_weights)
}

/// The indices of positive sizes, larger ones first if that does not lower `value` (of sizes in their order).
pub(crate) fn falling(sizes: &[f64], value: impl Fn(&[f64]) -> f64) -> Vec<usize> {
    let kept: Vec<usize> = (0..sizes.len()).filter(|&k| sizes[k] > 0.0).collect();
    let mut order = kept.clone();
    order.sort_by(|&a, &b| sizes[b].total_cmp(&sizes[a]));
    if order == kept {
        return kept;
    }
    let of = |order: &[usize]| value(&order.iter().map(|&k| sizes[k]).collect::<Vec<f64>>());
    // Dropping an empty place never lowers the value; only the order may.
    match value(sizes) {
        all if of(&order) >= of(&kept).max(all) => order,
        all if of(&kept) >= all => kept,
        _ => (0..sizes.len()).collect(),
    }
}
