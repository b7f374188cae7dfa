//! The finite Dirichlet-enhanced model: K given parameters, weights `g ~ Dir(tau alpha)` (T 4). Equations: `docs/hbrec.md#finite`.

use npb_infer::parallel;
use npb_infer::ranges::above;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::dist::sample_ln_weights;
use rand::RngExt;

use crate::{HbrecError, LikelihoodTable};

const LABEL: u64 = 11;

/// EM for the weights of given parameters (T 4.4).
///
/// `g_k = (tau alpha_k + sum_j r_jk) / (tau + M)`, `r_jk ~ g_k P(D_j | theta_k)`. It raises `J = sum_j ln sum_k g_k P(D_j | theta_k) + tau sum_k
/// alpha_k ln g_k`, which is concave. For predictions make a [`crate::Mixture`] with `xi = (tau + M) g` and tau = 0: (9) of T.
///
/// ```
/// use npb_hbrec::{FiniteEm, LikelihoodTable};
/// let table = LikelihoodTable::new(2, &[vec![0.0, -3.0], vec![0.0, -3.0]], &[None; 2])?;
/// let mut em = FiniteEm::new(&table, 1.0, &[0.5, 0.5])?;
/// let before = em.objective();
/// assert!(em.step() > before && em.weights()[0] > 0.8);
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FiniteEm<'t> {
    table: &'t LikelihoodTable,
    /// tau alpha_k.
    prior: Vec<f64>,
    weights: Vec<f64>,
}

/// tau alpha_k, checked.
fn prior(table: &LikelihoodTable, tau: f64, alpha: &[f64]) -> Result<Vec<f64>, HbrecError> {
    above("tau", tau, 0.0)?;
    if alpha.len() != table.n_atoms() {
        return Err(HbrecError::Size {
            what: "prior weights alpha",
            found: alpha.len(),
            expected: table.n_atoms(),
        });
    }
    for &a in alpha {
        above("alpha", a, 0.0)?;
    }
    let sum: f64 = alpha.iter().sum();
    Ok(alpha.iter().map(|a| tau * a / sum).collect())
}

impl<'t> FiniteEm<'t> {
    /// Starts from the prior mean. `alpha` is normalised.
    ///
    /// # Errors
    /// tau or an alpha that is not positive and finite; another number of alphas than of parameters.
    pub fn new(table: &'t LikelihoodTable, tau: f64, alpha: &[f64]) -> Result<Self, HbrecError> {
        let prior = prior(table, tau, alpha)?;
        let weights = prior.iter().map(|a| a / tau).collect();
        Ok(Self {
            table,
            prior,
            weights,
        })
    }

    /// g, which sums to 1.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// J.
    pub fn objective(&self) -> f64 {
        let user = |j: usize| self.table.ln_mixture(j, &self.weights).unwrap_or(0.0);
        let users: Vec<f64> = parallel::map(0..self.table.n_users(), user);
        let prior = self
            .prior
            .iter()
            .zip(&self.weights)
            .map(|(a, g)| a * g.ln());
        users.iter().sum::<f64>() + prior.sum::<f64>()
    }

    /// One step of EM; J after it.
    pub fn step(&mut self) -> f64 {
        let mut sums = self.prior.clone();
        for user in 0..self.table.n_users() {
            let _ = self
                .table
                .add_responsibilities(user, &self.weights, &mut sums);
        }
        let total: f64 = sums.iter().sum();
        self.weights = sums.iter().map(|sum| sum / total).collect();
        self.objective()
    }
}

/// Gibbs sampling of the users' indicators, weights integrated out (T 4.3).
///
/// `P(z_j = k | rest) ~ (tau alpha_k + N_k) P(D_j | theta_k)`, (7) of T, users in turn.
#[derive(Clone, Debug)]
pub struct FiniteSampler<'t> {
    table: &'t LikelihoodTable,
    prior: Vec<f64>,
    labels: Vec<u32>,
    counts: Vec<usize>,
}

impl<'t> FiniteSampler<'t> {
    /// Starts with every user at its likeliest parameter.
    ///
    /// # Errors
    /// As [`FiniteEm::new`]; no parameter.
    pub fn new(table: &'t LikelihoodTable, tau: f64, alpha: &[f64]) -> Result<Self, HbrecError> {
        let prior = prior(table, tau, alpha)?;
        let best = |user: usize| {
            let at = |k: &usize| table.ln_likelihood(user, *k);
            (0..table.n_atoms()).max_by(|a, b| at(a).total_cmp(&at(b)))
        };
        let labels: Option<Vec<usize>> = (0..table.n_users()).map(best).collect();
        let labels = labels.ok_or(HbrecError::NoData)?;
        Self::with_labels(table, prior, labels.iter().map(|&k| k as u32).collect())
    }

    fn with_labels(
        table: &'t LikelihoodTable,
        prior: Vec<f64>,
        labels: Vec<u32>,
    ) -> Result<Self, HbrecError> {
        let mut counts = vec![0; prior.len()];
        labels.iter().for_each(|&k| counts[k as usize] += 1);
        Ok(Self {
            table,
            prior,
            labels,
            counts,
        })
    }

    /// Indicator of each user.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Posterior mean of g given the indicators: (6) of T.
    pub fn weights(&self) -> Vec<f64> {
        let total = self.prior.iter().sum::<f64>() + self.labels.len() as f64;
        let pairs = self.prior.iter().zip(&self.counts);
        pairs.map(|(a, &n)| (a + n as f64) / total).collect()
    }

    /// All users in turn, with the randomness of this chain and sweep.
    pub fn sweep(&mut self, seed: u64, chain: u64, sweep: u64) {
        for user in 0..self.labels.len() {
            self.draw_label(user, &mut stream(seed, [chain, sweep, LABEL, user as u64]));
        }
    }

    fn draw_label(&mut self, user: usize, rng: &mut Xoshiro256PlusPlus) {
        self.counts[self.labels[user] as usize] -= 1;
        let ln_weight = |k: usize| {
            (self.prior[k] + self.counts[k] as f64).ln() + self.table.ln_likelihood(user, k)
        };
        let ln_weights: Vec<f64> = (0..self.prior.len()).map(ln_weight).collect();
        let drawn = sample_ln_weights(&ln_weights, rng);
        // Where nothing is possible at all (its own atom the only one), any parameter will do.
        let label = drawn.unwrap_or_else(|_| rng.random_range(0..self.prior.len()));
        self.labels[user] = label as u32;
        self.counts[label] += 1;
    }
}

#[cfg(test)]
mod tests;
