//! The mixture of own model and atoms, for any user model.

use npb_infer::parallel;
use npb_infer::watch::Part;
use npb_infer::{Stop, Watch};
use npb_priors::special::log_sum_exp;
use serde::{Deserialize, Serialize};

use super::{LikelihoodTable, Weights, learn_weights_watched, posterior_weights};
use crate::{GibbsModel, HbrecError, UserModel, WeightsConfig};

/// Many users' fits as point masses around a base distribution: the prior of the next user, (14) of T.
///
/// ```
/// use npb_hbrec::{ItemPrior, Likes, Mixture, ProbitItems, WeightsConfig};
/// let model = ProbitItems::new(ItemPrior::new(&[0.0; 4], &[1.0; 4], &[0.0; 4], 0.5)?);
/// let likes = |liked| Likes::new(4, &[(0, liked), (1, !liked), (2, liked)]);
/// let users = (0..20).map(|u| likes(u % 2 == 0)).collect::<Result<Vec<_>, _>>()?;
/// let mixture = Mixture::learn(model, &users.iter().collect::<Vec<_>>(), &WeightsConfig::default())?;
/// // A new user who likes item 0: probably of the first kind, who dislike item 1.
/// let new = mixture.user(&Likes::new(4, &[(0, true)])?)?;
/// assert!(mixture.predict(&new, &2) > 0.5 && mixture.predict(&new, &1) < 0.5);
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    bound(
        serialize = "U: Serialize, U::Parameter: Serialize",
        deserialize = "U: Deserialize<'de>, U::Parameter: Deserialize<'de>"
    )
)]
pub struct Mixture<U: UserModel> {
    pub(super) model: U,
    pub(super) atoms: Vec<U::Parameter>,
    pub(super) weights: Weights,
    pub(super) config: WeightsConfig,
}

/// A user as the mixture sees it: the own posterior, and the posterior weights of own model and atoms, which sum to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActiveUser<P> {
    /// The posterior under the base distribution.
    pub alone: P,
    /// Weight of the own model.
    pub own_weight: f64,
    /// Weight of each atom.
    pub weights: Vec<f64>,
    /// ln P(D) under the mixture, its prior weights normalised.
    pub ln_evidence: f64,
}

impl<U: UserModel> Mixture<U> {
    /// Fits each user alone, makes it an atom, and learns the weights. Users in parallel.
    ///
    /// # Errors
    /// A configuration out of range; data that do not fit the model; numerical trouble.
    pub fn learn(model: U, users: &[&U::Data], config: &WeightsConfig) -> Result<Self, HbrecError> {
        config.validate()?;
        let watch = Watch::none();
        Self::learn_watched(model, users, config, &mut watch.part("weights", 1.0))
    }

    /// As [`learn`](Self::learn), with settings that are checked; `part` hears of it. Stopped, all atoms have weight 1 and tau is their number.
    pub(crate) fn learn_watched(
        model: U,
        users: &[&U::Data],
        config: &WeightsConfig,
        part: &mut Part<'_, '_>,
    ) -> Result<Self, HbrecError> {
        let alone = |data: &&U::Data| {
            let posterior = model.fit(data)?;
            Ok((
                model.atom(&posterior, config.atoms),
                model.ln_evidence(&posterior),
            ))
        };
        let fits: Result<Vec<(U::Parameter, f64)>, HbrecError> = parallel::try_map(users, alone);
        let (atoms, ln_evidence): (Vec<_>, Vec<f64>) = fits?.into_iter().unzip();
        let own: Vec<Option<usize>> = (0..users.len()).map(Some).collect();
        let n = users.len() as f64;
        let table = LikelihoodTable::of_model_watched(&model, &atoms, users, &own, |done| {
            part.report(done as u64, 0.8 * done as f64 / n, &[], &[])
        })?;
        let Some(table) = table else {
            let weights = Weights {
                xi: vec![1.0; users.len()],
                tau: n,
                fitted_to: Vec::new(),
                trace: Vec::new(),
                stop: Stop::Cancelled,
            };
            return Self::from_parts(model, atoms, weights, *config);
        };
        let weights = learn_weights_watched(&table, &ln_evidence, config, part)?;
        Ok(Self {
            model,
            atoms,
            weights,
            config: *config,
        })
    }

    /// Of given atoms and weights.
    ///
    /// # Errors
    /// Another number of weights than of atoms; weights that are negative or not finite.
    pub fn from_parts(
        model: U,
        atoms: Vec<U::Parameter>,
        weights: Weights,
        config: WeightsConfig,
    ) -> Result<Self, HbrecError> {
        if weights.xi.len() != atoms.len() {
            return Err(HbrecError::Size {
                what: "weights of atoms",
                found: weights.xi.len(),
                expected: atoms.len(),
            });
        }
        check_weights(&weights)?;
        Ok(Self {
            model,
            atoms,
            weights,
            config,
        })
    }

    /// The user model.
    pub fn model(&self) -> &U {
        &self.model
    }

    /// The point masses.
    pub fn atoms(&self) -> &[U::Parameter] {
        &self.atoms
    }

    /// Their weights, and tau.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// A user who is not in the database. Without data it has the weights of the prior.
    ///
    /// # Errors
    /// Data that do not fit the model; numerical trouble.
    pub fn user(&self, data: &U::Data) -> Result<ActiveUser<U::Posterior>, HbrecError> {
        self.active(data, None)
    }

    /// A user whose own atom is `own`: that atom and the user's own responsibilities are left out, so that its data count once.
    ///
    /// # Errors
    /// As [`user`](Self::user); an atom that does not exist.
    pub fn database_user(
        &self,
        data: &U::Data,
        own: usize,
    ) -> Result<ActiveUser<U::Posterior>, HbrecError> {
        if own >= self.atoms.len() {
            return Err(HbrecError::NoSuchUser {
                user: own,
                n_users: self.atoms.len(),
            });
        }
        self.active(data, Some(own))
    }

    fn active(
        &self,
        data: &U::Data,
        own: Option<usize>,
    ) -> Result<ActiveUser<U::Posterior>, HbrecError> {
        let alone = self.model.fit(data)?;
        // Atoms without weight have no part in it, whatever they would say.
        let counts = |xi: f64| xi > 0.0 && self.weights.tau < f64::INFINITY;
        let counted: Vec<usize> = (0..self.atoms.len())
            .filter(|&k| counts(self.weights.xi[k]))
            .collect();
        let atoms: Vec<&U::Parameter> = counted.iter().map(|&k| &self.atoms[k]).collect();
        let mut ln_likelihood = vec![f64::NEG_INFINITY; self.atoms.len()];
        let found = self.model.ln_likelihoods(&atoms, &[data]);
        counted
            .iter()
            .zip(found.into_iter().flatten())
            .for_each(|(&k, l)| ln_likelihood[k] = l);
        let evidence = self.model.ln_evidence(&alone);
        let xi = match own {
            None => self.weights.xi.clone(),
            Some(own) => without_own(&self.weights, &ln_likelihood, own),
        };
        let tau = self.weights.tau;
        let (own_weight, weights) = posterior_weights(tau, evidence, &xi, &ln_likelihood);
        let ln_evidence = ln_mixture(tau, evidence, &xi, &ln_likelihood);
        Ok(ActiveUser {
            alone,
            own_weight,
            weights,
            ln_evidence,
        })
    }

    /// Expected response: the average over own model and atoms.
    pub fn predict(&self, user: &ActiveUser<U::Posterior>, query: &U::Query) -> f64 {
        let own = user.own_weight * self.model.predict_alone(&user.alone, query);
        let weighted = self
            .atoms
            .iter()
            .zip(&user.weights)
            .filter(|(_, w)| **w > 0.0);
        own + weighted
            .map(|(atom, w)| w * self.model.predict(atom, query))
            .sum::<f64>()
    }

    pub(crate) fn set_tau(&mut self, tau: f64) {
        self.weights.tau = tau;
    }

    /// Leaves out atoms that have no weight: predictions stay as they are, but no atom is a user's own any more. The places of those that stay.
    pub(crate) fn drop_idle_atoms(&mut self) -> Vec<usize> {
        let kept = (0..self.atoms.len()).filter(|&k| self.weights.xi[k] > 0.0);
        let kept: Vec<usize> = kept.collect();
        self.atoms = kept.iter().map(|&k| self.atoms[k].clone()).collect();
        self.weights.xi = kept.iter().map(|&k| self.weights.xi[k]).collect();
        self.weights.fitted_to.clear();
        kept
    }

    /// Adds a user: one fit, an atom of weight 1, no retraining. Its place among the atoms.
    ///
    /// # Errors
    /// Data that do not fit the model; numerical trouble.
    pub fn add_user(&mut self, data: &U::Data) -> Result<usize, HbrecError> {
        let posterior = self.model.fit(data)?;
        self.atoms
            .push(self.model.atom(&posterior, self.config.atoms));
        self.weights.xi.push(1.0);
        Ok(self.atoms.len() - 1)
    }
}

impl<U: GibbsModel> Mixture<U> {
    /// Checks what comes from a file; the model has checked itself.
    pub(crate) fn check(&self) -> Result<(), HbrecError> {
        self.config.validate()?;
        check_weights(&self.weights)?;
        let valid = self.atoms.iter().all(|atom| self.model.is_valid(atom));
        if valid && self.weights.xi.len() == self.atoms.len() {
            return Ok(());
        }
        Err(HbrecError::State {
            what: "mixture of atoms: impossible sizes or values".to_owned(),
        })
    }
}

/// xi without the own atom and what the user itself contributed: nothing, when the weights were fitted without it (a user who came later).
pub(crate) fn without_own(weights: &Weights, ln_likelihood: &[f64], own: usize) -> Vec<f64> {
    let mut xi = weights.xi.clone();
    xi[own] = 0.0;
    if weights.fitted_to.binary_search(&(own as u32)).is_err() {
        return xi;
    }
    let (_, shares) = posterior_weights(0.0, 0.0, &xi, ln_likelihood);
    xi.iter()
        .zip(shares)
        .map(|(xi, r)| (xi - r).max(0.0))
        .collect()
}

fn ln_mixture(tau: f64, ln_evidence: f64, xi: &[f64], ln_likelihood: &[f64]) -> f64 {
    let total: f64 = xi.iter().sum();
    if tau == f64::INFINITY || total <= 0.0 {
        return ln_evidence;
    }
    let mut terms: Vec<f64> = super::ln_terms(xi, ln_likelihood).collect();
    terms.push(tau.ln() + ln_evidence);
    log_sum_exp(&terms) - (tau + total).ln()
}

pub(crate) fn check_weights(weights: &Weights) -> Result<(), HbrecError> {
    let positive = weights.xi.iter().all(|xi| xi.is_finite() && *xi >= 0.0);
    let atoms = &weights.fitted_to;
    let ascending = atoms.windows(2).all(|w| w[0] < w[1]);
    let there = atoms
        .last()
        .is_none_or(|&atom| (atom as usize) < weights.xi.len());
    if positive && weights.tau >= 0.0 && ascending && there {
        return Ok(());
    }
    Err(HbrecError::State {
        what: "weights of atoms: must be finite and not negative".to_owned(),
    })
}
