//! Samplers of the infinite model (`docs/hbrec.md#gibbs`).

mod fit;
mod moves;

use npb_infer::parallel;
use npb_infer::ranges::OutOfRange;
use npb_infer::stream;

pub use fit::{Clusters, DpChain, DpGibbsFit, fit_gibbs, fit_gibbs_watched};

use crate::{DpGibbsConfig, DpMove, DpState, GibbsModel, HbrecError};

const START: u64 = u64::MAX;

/// A chain of the infinite model, to be driven sweep by sweep.
///
/// ```
/// use npb_hbrec::{BernoulliItems, DpGibbsConfig, DpSampler, Likes};
/// let model = BernoulliItems::new(vec![[0.5, 0.5]; 8])?;
/// let user = |u: usize| Likes::new(8, &(0..8).map(|i| (i, u % 2 == 0)).collect::<Vec<_>>());
/// let users = (0..10).map(user).collect::<Result<Vec<_>, _>>()?;
/// let data: Vec<&Likes> = users.iter().collect();
/// let mut sampler = DpSampler::new(&model, &data, &DpGibbsConfig::default(), 0)?;
/// (0..50).try_for_each(|_| sampler.sweep())?;
/// assert_eq!(sampler.state().parameters.len(), 2);
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
#[derive(Debug)]
pub struct DpSampler<'d, U: GibbsModel> {
    model: &'d U,
    data: &'d [&'d U::Data],
    config: DpGibbsConfig,
    chain: u64,
    sweep: u64,
    state: DpState<U::Parameter>,
    /// Posterior of each user alone; for [`DpMove::Escobar`] and [`DpMove::Collapsed`] only.
    alone: Vec<U::Posterior>,
}

impl<'d, U: GibbsModel> DpSampler<'d, U> {
    /// Starts with every user in a cluster of its own.
    ///
    /// # Errors
    /// A configuration out of range, among others Escobar's move for a model that is not conjugate; no user; data that do not fit the model.
    pub fn new(
        model: &'d U,
        data: &'d [&'d U::Data],
        config: &DpGibbsConfig,
        chain: u64,
    ) -> Result<Self, HbrecError> {
        config.validate()?;
        if data.is_empty() {
            return Err(HbrecError::NoData);
        }
        let start = |(user, data): (usize, &&U::Data)| {
            let rng = &mut stream(config.seed, [chain, 0, START, user as u64]);
            let mut parameter = model.draw_prior(rng);
            model.redraw(&mut parameter, &[data], rng)?;
            Ok(parameter)
        };
        let parameters: Result<Vec<_>, HbrecError> =
            parallel::try_map(data.iter().enumerate(), start);
        let state = DpState {
            labels: (0..data.len() as u32).collect(),
            parameters: parameters?,
            concentration: config.concentration.shape / config.concentration.rate,
        };
        Self::resume(model, data, config, chain, state, 0)
    }

    /// A chain that goes on from a state, after so many sweeps.
    ///
    /// # Errors
    /// As [`new`](Self::new); a state of other data or of another model.
    pub fn resume(
        model: &'d U,
        data: &'d [&'d U::Data],
        config: &DpGibbsConfig,
        chain: u64,
        state: DpState<U::Parameter>,
        sweep: u64,
    ) -> Result<Self, HbrecError> {
        config.validate()?;
        state.check(data.len())?;
        if !state.parameters.iter().all(|p| model.is_valid(p)) {
            return Err(HbrecError::State {
                what: "draw of the infinite model: parameters of another model".to_owned(),
            });
        }
        let mut alone = Vec::new();
        let conjugate = |m: &&DpMove| matches!(m, DpMove::Escobar | DpMove::Collapsed);
        if let Some(needs) = config.moves.iter().find(conjugate) {
            let fits: Result<Vec<_>, HbrecError> = parallel::try_map(data, |d| model.fit(d));
            alone = fits?;
            let rng = &mut stream(config.seed, [chain, 0, START, START]);
            if alone
                .first()
                .is_some_and(|p| model.draw_exact(p, rng).is_none())
            {
                let rule = "without this move, which needs a conjugate model: use Auxiliary";
                return Err(OutOfRange::new("moves", format!("{needs:?}"), rule).into());
            }
        }
        Ok(Self {
            model,
            data,
            config: config.clone(),
            chain,
            sweep,
            state,
            alone,
        })
    }

    /// The present draw.
    pub fn state(&self) -> &DpState<U::Parameter> {
        &self.state
    }

    /// Sweeps made so far.
    pub fn n_sweeps(&self) -> u64 {
        self.sweep
    }

    /// sum_j ln P(D_j | theta of its cluster).
    pub fn ln_likelihood(&self) -> f64 {
        let user = |(data, &label): (&&U::Data, &u32)| {
            let parameter = &self.state.parameters[label as usize];
            self.model.ln_likelihood(parameter, data)
        };
        let users: Vec<f64> = parallel::map(self.data.iter().zip(&self.state.labels), user);
        users.iter().sum()
    }
}

#[cfg(test)]
mod tests;
