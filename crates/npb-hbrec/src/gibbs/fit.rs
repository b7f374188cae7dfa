//! Several chains, what they stored, and whether they agree.

use npb_infer::diagnostics::{ChainDiagnostics, summarise};
use npb_infer::storage::fingerprint;
use npb_infer::{Chain, Chains, Sampler, Saved, Stop, Sweep, Trace, Watch, sample, stream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::DpSampler;
use crate::{
    AtomRule, DpGibbsConfig, DpState, GibbsModel, HbrecError, Mixture, Weights, WeightsConfig,
};

const SCALARS: [&str; 3] = ["clusters", "concentration", "ln_likelihood"];
const MODEL: &str = "npb-hbrec/gibbs";
const CHECKPOINT: &str = "npb-hbrec/gibbs/chains";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A chain: its last draw, those that it stored, and the trace of number of clusters, concentration and log-likelihood.
pub type DpChain<P> = Chain<DpState<P>, DpState<P>>;

/// The posterior of the infinite model, by several chains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DpGibbsFit<P> {
    config: DpGibbsConfig,
    n_users: usize,
    chains: Vec<DpChain<P>>,
}

/// Clusters of users.
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    /// The stored draw whose partition is closest, in squared error, to the shares of draws in which two users are together (Dahl 2006).
    pub labels: Vec<u32>,
    /// Mean over the draws of the number of clusters.
    pub mean_number: f64,
    /// For each user, the mean share of the draws in which it is with the other users of its cluster; 1 for a user alone.
    pub certainty: Vec<f64>,
}

/// Runs all chains in parallel. Cost of a sweep: each user's likelihood under each cluster.
///
/// # Errors
/// As [`DpSampler::new`]; numerical trouble.
///
/// ```
/// use npb_hbrec::{GaussianPrior, DpGibbsConfig, LinearTask, Task, fit_gibbs};
/// let model = LinearTask::new(GaussianPrior::isotropic(1, 25.0)?, 0.1)?;
/// // Slopes 3 and -3.
/// let task = |u: usize| Task::new(1, &[1.0, 2.0], &if u < 5 { [3.0, 6.1] } else { [-3.0, -5.9] });
/// let tasks = (0..10).map(task).collect::<Result<Vec<_>, _>>()?;
/// let fit = fit_gibbs(&model, &tasks.iter().collect::<Vec<_>>(), &DpGibbsConfig::default())?;
/// let clusters = fit.clusters();
/// assert!(clusters.labels[0] == clusters.labels[4] && clusters.labels[0] != clusters.labels[5]);
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
pub fn fit_gibbs<U: GibbsModel<Data: Serialize>>(
    model: &U,
    data: &[&U::Data],
    config: &DpGibbsConfig,
) -> Result<DpGibbsFit<U::Parameter>, HbrecError> {
    fit_gibbs_watched(model, data, config, &Watch::none())
}

/// As [`fit_gibbs`], watched, stopped or checkpointed by the caller.
///
/// # Errors
/// As [`fit_gibbs`]; a checkpoint that cannot be read or written, or is of another fit.
pub fn fit_gibbs_watched<U: GibbsModel<Data: Serialize>>(
    model: &U,
    data: &[&U::Data],
    config: &DpGibbsConfig,
    watch: &Watch<'_>,
) -> Result<DpGibbsFit<U::Parameter>, HbrecError> {
    config.validate()?;
    let key = fingerprint(&(config, data, told_apart_by(model, data, config)?))?;
    let checkpoint = watch.checkpoint(CHECKPOINT, VERSION, key, config.chains)?;
    let plan = Chains {
        name: "chain",
        chains: config.chains,
        sweeps: config.sweeps,
        stored_draws: config.stored_draws,
    };
    let watch = (watch, 1.0);
    let chains = sample::<DpSampler<'_, U>>(&plan, watch, &checkpoint, |chain, reached| {
        let Some(reached) = reached else {
            return DpSampler::new(model, data, config, chain);
        };
        check_chain(reached, config, data.len())?;
        let (state, made) = (reached.state.clone(), reached.trace.n_sweeps() as u64);
        DpSampler::resume(model, data, config, chain, state, made)
    })?;
    Ok(DpGibbsFit {
        config: config.clone(),
        n_users: data.len(),
        chains,
    })
}

impl<U: GibbsModel> Sampler for DpSampler<'_, U> {
    type State = DpState<U::Parameter>;
    type Draw = DpState<U::Parameter>;
    type Error = HbrecError;

    fn names() -> Vec<String> {
        SCALARS.map(str::to_owned).to_vec()
    }

    fn step(&mut self, _: Sweep, scalars: &mut [f64]) -> Result<(), HbrecError> {
        self.sweep()?;
        let clusters = self.state().parameters.len() as f64;
        let concentration = self.state().concentration;
        scalars.copy_from_slice(&[clusters, concentration, self.ln_likelihood()]);
        Ok(())
    }

    fn state(&self) -> DpState<U::Parameter> {
        self.state.clone()
    }

    fn draw(&self) -> DpState<U::Parameter> {
        self.state.clone()
    }
}

/// What tells one model from another: a draw of the base distribution, and the evidence of each user.
fn told_apart_by<U: GibbsModel>(
    model: &U,
    data: &[&U::Data],
    config: &DpGibbsConfig,
) -> Result<(U::Parameter, Vec<f64>), HbrecError> {
    let drawn = model.draw_prior(&mut stream(config.seed, [u64::MAX; 4]));
    let evidence = |user: &&U::Data| Ok(model.ln_evidence(&model.fit(user)?));
    Ok((
        drawn,
        data.iter()
            .map(evidence)
            .collect::<Result<_, HbrecError>>()?,
    ))
}

fn check_chain<P>(
    chain: &DpChain<P>,
    config: &DpGibbsConfig,
    n_users: usize,
) -> Result<(), HbrecError> {
    let unfit = || HbrecError::State {
        what: "chain of the infinite model: trace and draws do not fit together".to_owned(),
    };
    // Names first: a trace of no scalars could claim any number of sweeps. A chain that was stopped before its first stored draw has the one it was at.
    let made = chain.trace.n_sweeps() as u64;
    let most = config.sweeps.n_kept(made).max(1);
    if chain.trace.names() != SCALARS
        || made > config.sweeps.total()
        || chain.draws.len() as u64 > most
    {
        return Err(unfit());
    }
    let mut draws = chain.draws.iter().chain([&chain.state]);
    draws.try_for_each(|draw| draw.check(n_users))
}

impl<P: Clone + Send + Sync> DpGibbsFit<P> {
    /// The chains.
    pub fn chains(&self) -> &[DpChain<P>] {
        &self.chains
    }

    /// The settings.
    pub fn config(&self) -> &DpGibbsConfig {
        &self.config
    }

    /// Completed, unless a chain was stopped early.
    pub fn stop(&self) -> Stop {
        Stop::of_all(self.chains.iter().map(|chain| chain.stop))
    }

    /// Split R-hat and effective sample sizes of number of clusters, concentration and log-likelihood.
    pub fn diagnostics(&self) -> Vec<(String, ChainDiagnostics)> {
        let traces: Vec<&Trace> = self.chains.iter().map(|chain| &chain.trace).collect();
        summarise(&traces, &self.config.sweeps)
    }

    /// Stored draws of all chains; the last ones where a run was stopped before any was stored.
    pub fn draws(&self) -> Vec<&DpState<P>> {
        self.chains.iter().flat_map(|chain| &chain.draws).collect()
    }

    /// Share of the draws in which two users are in one cluster.
    ///
    /// # Errors
    /// A user who does not exist.
    pub fn together(&self, a: usize, b: usize) -> Result<f64, HbrecError> {
        let n_users = self.n_users;
        if let Some(&user) = [a, b].iter().find(|&&user| user >= n_users) {
            return Err(HbrecError::NoSuchUser { user, n_users });
        }
        let draws = self.draws();
        let times = draws.iter().filter(|d| d.labels[a] == d.labels[b]).count();
        Ok(times as f64 / draws.len() as f64)
    }

    /// Clusters of users. Cost: users squared times draws; memory users squared.
    pub fn clusters(&self) -> Clusters {
        let (draws, n) = (self.draws(), self.n_users);
        let mut shares = vec![0.0_f32; n * n];
        let one = 1.0 / draws.len() as f32;
        for draw in &draws {
            for (a, label) in draw.labels.iter().enumerate() {
                let row = shares[a * n..(a + 1) * n].iter_mut().zip(&draw.labels);
                row.for_each(|(share, other)| *share += one * f32::from(u8::from(label == other)));
            }
        }
        // Squared error to the shares, but for what is the same for all draws.
        let error = |labels: &[u32]| -> f64 {
            let row = |a: usize| -> f64 {
                let pairs = shares[a * n..(a + 1) * n].iter().zip(labels);
                let with = pairs.filter(|(_, label)| **label == labels[a]);
                with.map(|(share, _)| 1.0 - 2.0 * f64::from(*share)).sum()
            };
            (0..n).map(row).sum()
        };
        let best = draws
            .iter()
            .min_by(|a, b| error(&a.labels).total_cmp(&error(&b.labels)));
        let labels = best.map_or(Vec::new(), |draw| draw.labels.clone());
        let certainty = |a: usize| {
            let with = (0..n).filter(|&b| b != a && labels[b] == labels[a]);
            let shares: Vec<f64> = with.map(|b| f64::from(shares[a * n + b])).collect();
            if shares.is_empty() {
                1.0
            } else {
                shares.iter().sum::<f64>() / shares.len() as f64
            }
        };
        let number: usize = draws.iter().map(|draw| draw.parameters.len()).sum();
        Clusters {
            certainty: (0..n).map(certainty).collect(),
            labels,
            mean_number: number as f64 / draws.len() as f64,
        }
    }

    /// For each stored draw the prior of a new user given it: clusters as atoms with their numbers of users, tau for a model of its own.
    ///
    /// # Errors
    /// Parameters of another model.
    pub fn mixtures<U>(&self, model: &U) -> Result<Vec<Mixture<U>>, HbrecError>
    where
        U: GibbsModel<Parameter = P> + Clone,
    {
        let mixture = |draw: &&DpState<P>| {
            if !draw
                .parameters
                .iter()
                .all(|parameter| model.is_valid(parameter))
            {
                return Err(HbrecError::State {
                    what: "fit of the infinite model: parameters of another model".to_owned(),
                });
            }
            let weights = Weights {
                xi: draw.counts().iter().map(|&n| n as f64).collect(),
                tau: draw.concentration,
                fitted_to: Vec::new(),
                trace: Vec::new(),
                stop: Stop::Completed,
            };
            let config = WeightsConfig {
                atoms: AtomRule::Mean,
                ..WeightsConfig::default()
            };
            Mixture::from_parts(model.clone(), draw.parameters.clone(), weights, config)
        };
        self.draws().iter().map(mixture).collect()
    }
}

impl<P: Clone + Send + Sync + Serialize + DeserializeOwned> Saved for DpGibbsFit<P> {
    const MODEL: &'static str = MODEL;
    const VERSION: &'static str = VERSION;
    type Content = Self;
    type Error = HbrecError;

    fn content(&self) -> &Self {
        self
    }

    fn from_content(content: Self) -> Result<Self, HbrecError> {
        content.config.validate()?;
        if content.chains.len() != content.config.chains || content.n_users == 0 {
            return Err(HbrecError::Size {
                what: "chains of the infinite model",
                found: content.chains.len(),
                expected: content.config.chains,
            });
        }
        let mut chains = content.chains.iter();
        chains.try_for_each(|chain| check_chain(chain, &content.config, content.n_users))?;
        Ok(content)
    }
}
