//! EM for the weights of point masses, and prediction with them (`docs/hbrec.md#weights`).

mod clusters;
mod mixture;
mod table;

use npb_infer::parallel;
use npb_infer::watch::{Checkpoint, Part};
use npb_infer::{Stop, Variational, VbReport, Watch, maximise};
use serde::{Deserialize, Serialize};

pub use mixture::{ActiveUser, Mixture};
pub(crate) use mixture::{check_weights, without_own};
pub use table::LikelihoodTable;

use crate::{DpConcentration, HbrecError, WeightsConfig};

/// Users are summed in blocks of so many, in order.
const BLOCK: usize = 64;
/// Atoms below this share of the average weight are pruned at the end.
const PRUNED: f64 = 1e-4;
/// Atoms below this share of it do not come back: they are left out as soon as they are half of those there are, after so many steps.
const GONE: f64 = 1e-6;
const SETTLING: u32 = 20;

/// Weights of the atoms and of the own model, as (14) of T has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// xi_k: one for each atom, not negative, 0 for those that were pruned. Fitted they sum to the number of users.
    pub xi: Vec<f64>,
    /// The weight of the own model.
    pub tau: f64,
    /// Atoms whose users the weights were fitted to, ascending: their responsibilities are in xi. None for weights that were not fitted.
    pub fitted_to: Vec<u32>,
    /// J after each iteration; empty for the one-step form.
    pub trace: Vec<VbReport>,
    /// Why the iterations ended.
    pub stop: Stop,
}

impl Weights {
    /// Atoms that have a weight.
    pub fn n_active(&self) -> usize {
        self.xi.iter().filter(|&&xi| xi > 0.0).count()
    }
}

/// EM for the weights w of atoms on a fixed support, to be driven step by step.
///
/// ```
/// use npb_hbrec::{LikelihoodTable, WeightsEm};
/// // Three users, two atoms: the second explains two of the users better, by one nat each.
/// let table = LikelihoodTable::new(2, &[vec![-1.0, -2.0], vec![-2.0, -1.0], vec![-2.0, -1.0]], &[None; 3])?;
/// let mut em = WeightsEm::new(&table);
/// let before = em.objective();
/// assert!(em.step() > before && em.weights()[1] > em.weights()[0]);
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
#[derive(Clone, Debug)]
pub struct WeightsEm<'t> {
    table: &'t LikelihoodTable,
    weights: Vec<f64>,
    /// sum_j r_jk at these weights, and J.
    sums: Vec<f64>,
    objective: f64,
    steps: u32,
    /// The table without atoms that are gone, and which are in it.
    left: Option<(LikelihoodTable, Vec<usize>)>,
}

impl<'t> WeightsEm<'t> {
    /// Starts from equal weights.
    pub fn new(table: &'t LikelihoodTable) -> Self {
        let n = table.n_atoms();
        let mut em = Self {
            table,
            weights: vec![(n as f64).recip(); n],
            sums: Vec::new(),
            objective: 0.0,
            steps: 0,
            left: None,
        };
        em.expect();
        em
    }

    /// w, which sums to 1.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// J, the summed log-likelihood of the users under the mixture of atoms other than their own. Users that no other atom could explain do not count.
    pub fn objective(&self) -> f64 {
        self.objective
    }

    /// One step of EM; J after it. Cost: 4 M K multiply-adds.
    pub fn step(&mut self) -> f64 {
        let total: f64 = self.sums.iter().sum();
        if total > 0.0 {
            let pairs = self.weights.iter_mut().zip(&self.sums);
            pairs.for_each(|(weight, sum)| *weight = sum / total);
        }
        self.steps += 1;
        let (weights, last) = (self.weights.clone(), self.objective);
        let left_out = self.steps.is_multiple_of(SETTLING) && self.leave_out();
        self.expect();
        if left_out && self.objective < last {
            (self.weights, self.left) = (weights, None);
            self.expect();
        }
        self.objective
    }

    /// Atoms that are gone lose their weight and their column; whether there are enough of them.
    fn leave_out(&mut self) -> bool {
        let n = self.weights.len();
        let kept = |k: &usize| self.weights[*k] >= GONE / n as f64;
        let kept: Vec<usize> = (0..n).filter(kept).collect();
        let there = self.left.as_ref().map_or(n, |(_, atoms)| atoms.len());
        if 2 * kept.len() > there {
            return false;
        }
        let total: f64 = kept.iter().map(|&k| self.weights[k]).sum();
        let mut weights = vec![0.0; n];
        kept.iter()
            .for_each(|&k| weights[k] = self.weights[k] / total);
        self.weights = weights;
        self.left = Some((self.table.of_atoms(&kept), kept));
        true
    }

    /// Responsibilities and J at the present weights: one pass over the table, in blocks of users.
    fn expect(&mut self) {
        let Some((table, atoms)) = &self.left else {
            (self.sums, self.objective) = expect(self.table, &self.weights);
            return;
        };
        let weights: Vec<f64> = atoms.iter().map(|&k| self.weights[k]).collect();
        let (sums, objective) = expect(table, &weights);
        self.objective = objective;
        self.sums.fill(0.0);
        atoms
            .iter()
            .zip(sums)
            .for_each(|(&k, sum)| self.sums[k] = sum);
    }
}

/// Sums of responsibilities, and J.
fn expect(table: &LikelihoodTable, weights: &[f64]) -> (Vec<f64>, f64) {
    let n_users = table.n_users();
    let starts: Vec<usize> = (0..n_users).step_by(BLOCK).collect();
    let block = |&start: &usize| {
        let mut sums = vec![0.0; weights.len()];
        let add = |user| table.add_responsibilities(user, weights, &mut sums);
        let objective: f64 = (start..(start + BLOCK).min(n_users)).filter_map(add).sum();
        (sums, objective)
    };
    let blocks: Vec<(Vec<f64>, f64)> = parallel::map(&starts, block);
    let mut total = vec![0.0; weights.len()];
    let objective = blocks.iter().map(|(_, objective)| objective).sum();
    for (sums, _) in blocks {
        total
            .iter_mut()
            .zip(sums)
            .for_each(|(total, sum)| *total += sum);
    }
    (total, objective)
}

impl Variational for WeightsEm<'_> {
    type State = Vec<f64>;
    type Error = HbrecError;

    fn step(&mut self) -> Result<f64, HbrecError> {
        Ok(WeightsEm::step(self))
    }

    fn state(&self) -> Vec<f64> {
        self.weights.clone()
    }
}

/// Weights by EM or all 1, and tau given or inferred.
///
/// `ln_evidence`: ln P(D_j) under the base distribution, for each user of the table.
///
/// # Errors
/// A configuration out of range; another number of evidences than of users.
pub fn learn_weights(
    table: &LikelihoodTable,
    ln_evidence: &[f64],
    config: &WeightsConfig,
) -> Result<Weights, HbrecError> {
    config.validate()?;
    let watch = Watch::none();
    learn_weights_watched(table, ln_evidence, config, &mut watch.part("weights", 1.0))
}

/// As [`learn_weights`], with settings that are checked; `part` hears of each iteration.
pub(crate) fn learn_weights_watched(
    table: &LikelihoodTable,
    ln_evidence: &[f64],
    config: &WeightsConfig,
    part: &mut Part<'_, '_>,
) -> Result<Weights, HbrecError> {
    if ln_evidence.len() != table.n_users() {
        return Err(HbrecError::Size {
            what: "evidences of users",
            found: ln_evidence.len(),
            expected: table.n_users(),
        });
    }
    let mut weights = Weights {
        xi: vec![1.0; table.n_atoms()],
        tau: 1.0,
        fitted_to: Vec::new(),
        trace: Vec::new(),
        stop: Stop::Completed,
    };
    if config.fitted && table.n_atoms() > 0 {
        let memory = Checkpoint::in_memory([None]);
        let begin = |_| Ok(WeightsEm::new(table));
        let (em, outcome) = maximise(&config.limits, "objective", part, (&memory, 0), begin)?;
        weights.xi = pruned(&em.weights, table.n_users());
        weights.fitted_to = table.own_atoms();
        (weights.trace, weights.stop) = (outcome.trace, outcome.stop);
    } else if !part.is_stopped() {
        let _ = part.report(0, 1.0, &[], &[]);
    }
    weights.tau = match config.tau {
        DpConcentration::Given(tau) => tau,
        DpConcentration::Inferred => infer_tau(table, &weights, ln_evidence)?,
    };
    Ok(weights)
}

/// Weights that sum to the number of users, without those that are next to nothing.
fn pruned(weights: &[f64], n_users: usize) -> Vec<f64> {
    let least = PRUNED / weights.len() as f64;
    let kept = |&w: &f64| if w < least { 0.0 } else { w };
    let total: f64 = weights.iter().map(kept).sum();
    weights
        .iter()
        .map(|w| kept(w) * n_users as f64 / total)
        .collect()
}

/// tau with the largest likelihood of the users of the table, each without its own atom and, where the weights were fitted to it, its own responsibilities.
///
/// One dimension, in `ln tau`; searched on a grid from 1e-6 to 1e6 times the number of atoms, then by golden section. Users without data say nothing.
/// `ln_evidence`: ln P(D_j) under the base distribution. One that has learned from these users themselves makes it too good, and tau too large: leave them out of
/// it, as [`crate::fit`] does.
///
/// # Errors
/// Another number of weights than of atoms, or of evidences than of users of the table.
pub fn infer_tau(
    table: &LikelihoodTable,
    weights: &Weights,
    ln_evidence: &[f64],
) -> Result<f64, HbrecError> {
    let xi = &weights.xi;
    let sizes = [
        ("weights of atoms", xi.len(), table.n_atoms()),
        ("evidences of users", ln_evidence.len(), table.n_users()),
    ];
    for (what, found, expected) in sizes {
        if found != expected {
            return Err(HbrecError::Size {
                what,
                found,
                expected,
            });
        }
    }
    let total: f64 = xi.iter().sum();
    if total <= 0.0 {
        return Ok(1.0);
    }
    let user = |j: usize| {
        let (ln_sum, mass) = table.without_own(j, xi, &weights.fitted_to)?;
        (mass > 0.0).then_some((ln_evidence[j] - ln_sum, mass))
    };
    let users = parallel::map(0..table.n_users(), user);
    let users: Vec<(f64, f64)> = users.into_iter().flatten().collect();
    Ok(best_tau(&users, total))
}

/// The maximum of `sum_j ln[(tau P(D_j) + S_j) / (tau + mass_j)]`, from `ln P(D_j) / S_j` and `mass_j` of each user.
fn best_tau(users: &[(f64, f64)], total: f64) -> f64 {
    let objective = |ln_tau: f64| -> f64 {
        let tau = ln_tau.exp();
        // ln[(tau P / S + 1) / (tau + mass)], P and S in logs.
        let term = |&(ln_ratio, mass): &(f64, f64)| {
            npb_priors::special::ln_add_exp(ln_tau + ln_ratio, 0.0) - (tau + mass).ln()
        };
        users.iter().map(term).sum()
    };
    let (low, high, points) = (total.ln() - 14.0, total.ln() + 14.0, 56);
    let step = (high - low) / f64::from(points);
    let grid = (0..=points).map(|i| low + step * f64::from(i));
    let best = grid
        .max_by(|a, b| objective(*a).total_cmp(&objective(*b)))
        .unwrap_or(low);
    golden_section(best - step, best + step, objective).exp()
}

/// The place of the maximum of a function with one peak between `low` and `high`.
fn golden_section(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    let ratio = 0.5 * (5.0_f64.sqrt() - 1.0);
    for _ in 0..40 {
        let (a, b) = (high - ratio * (high - low), low + ratio * (high - low));
        if f(a) < f(b) {
            low = a;
        } else {
            high = b;
        }
    }
    0.5 * (low + high)
}

/// Posterior weights of the own model and of the atoms, from logarithms of their likelihoods. An infinite tau leaves the own model alone.
pub(crate) fn posterior_weights(
    tau: f64,
    ln_evidence: f64,
    xi: &[f64],
    ln_likelihood: &[f64],
) -> (f64, Vec<f64>) {
    if tau == f64::INFINITY || xi.iter().all(|&xi| xi <= 0.0) {
        return (1.0, vec![0.0; xi.len()]);
    }
    let mut weights: Vec<f64> = ln_terms(xi, ln_likelihood).collect();
    weights.push(tau.ln() + ln_evidence);
    npb_priors::special::ln_normalize(&mut weights);
    let own = weights.pop().unwrap_or(1.0);
    (own, weights)
}

/// `ln xi_k P(D | theta_k)`.
fn ln_terms<'a>(xi: &'a [f64], ln_likelihood: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    xi.iter().zip(ln_likelihood).map(|(&xi, l)| match xi > 0.0 {
        true => xi.ln() + l,
        false => f64::NEG_INFINITY,
    })
}
