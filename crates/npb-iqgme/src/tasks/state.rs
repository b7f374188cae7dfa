//! The variational posterior of everything but the rows' own missing values.

use npb_priors::dp::{ConcentrationFactor, StickFactor, Sticks};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::predict::Gate;
use crate::state::{Component, Expert, ExpertPrior, check_atoms, expect, finite};

/// What Gaussians the atoms of a run have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gaussians {
    /// Each its own; the rows of a task are shared out among its local components.
    Own,
    /// All one and the same, so that atoms differ in their experts alone; a task has one local component, and the atom that it points at is told by the labels.
    Shared,
}

/// One task's part of the posterior.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskState {
    /// `q(V_j)`.
    pub sticks: Sticks,
    /// `q(c_jh)`: for each local component that has rows, larger ones first, the probabilities of the atoms. The other local components, up to the truncation, have
    /// `q(c_jh | U) = p(c_jh | U)`.
    pub indicators: Vec<Vec<f64>>,
    /// Locations of `q(t)` by row of the task's table, then utility; 0 for an unlabelled row, and nothing of use for one with holes, whose factor is of its utility, too, and follows from the rest. With [`Gaussians::Shared`] for each atom in turn, if it is the task's.
    pub utility_means: Vec<f64>,
}

/// One variational posterior, in the standardised units of the fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MultiTaskState {
    /// What Gaussians the atoms have.
    pub gaussians: Gaussians,
    /// `q(U), q(beta)`.
    pub global_sticks: StickFactor,
    /// `q(alpha)`.
    pub alpha: ConcentrationFactor,
    /// Task by task.
    pub tasks: Vec<TaskState>,
    /// `q(mu_s, Lambda_s)`: the atoms that some local component points at, those of more local components first. All further atoms are at the prior.
    pub components: Vec<Component>,
    /// `q(w_s)`: for each entry of `components` one for each utility (one with two classes, L - 1 with L of them); empty when no row has a label.
    pub experts: Vec<Expert>,
    /// `q(zeta, lambda)`.
    pub expert_prior: ExpertPrior,
    /// All further atoms: `q(mu, Lambda)` at the prior.
    pub vacant: Component,
}

impl MultiTaskState {
    /// Number of different Gaussians that the atoms have.
    pub(crate) fn n_gaussians(&self) -> usize {
        match self.gaussians {
            Gaussians::Own => self.components.len(),
            Gaussians::Shared => self.components.len().min(1),
        }
    }

    /// The Gaussians of the atoms, and that of all further ones: with one for all the same.
    pub(crate) fn all_components(&self) -> Vec<Component> {
        let mut components = self.components.clone();
        components.push(match self.gaussians {
            Gaussians::Own => self.vacant.clone(),
            Gaussians::Shared => self.components.first().unwrap_or(&self.vacant).clone(),
        });
        components
    }

    /// Number of local components that point at each atom.
    pub(crate) fn atom_masses(&self) -> Vec<f64> {
        let mut masses = vec![0.0; self.components.len()];
        for indicator in self.tasks.iter().flat_map(|task| &task.indicators) {
            masses.iter_mut().zip(indicator).for_each(|(m, s)| *m += s);
        }
        masses
    }

    /// Posterior mean of the weights of the atoms in task `j`, `sum_h <pi_jh> sigma_jhs`; the last entry is of all atoms at the prior together.
    pub fn weights(&self, j: usize) -> Vec<f64> {
        self.gate_weights(j, Gate::Marginal)
    }

    /// The weights by which a task's new rows are gated.
    pub(crate) fn gate_weights(&self, j: usize, gate: Gate) -> Vec<f64> {
        let task = &self.tasks[j];
        let pi = task.sticks.expected_weights();
        let mut weights = self.vacant_weights(j, &pi, &self.global_sticks.expected_weights(), gate);
        for (indicator, pi) in task.indicators.iter().zip(pi) {
            let each = weights.iter_mut().zip(indicator);
            each.for_each(|(weight, sigma)| *weight += pi * sigma);
        }
        weights
    }

    /// What the local components of task `j` without rows give to the atoms: their weight in `pi`, shared out by `eta`. Nothing by [`Gate::AtMeans`], by which
    /// rows of training are weighed: these are offered the local components with rows alone. A task without any such local component has no other weights than these.
    pub(crate) fn vacant_weights(&self, j: usize, pi: &[f64], eta: &[f64], gate: Gate) -> Vec<f64> {
        let n_atoms = self.components.len();
        let occupied = self.tasks[j].indicators.len();
        let vacant: f64 = match gate {
            Gate::AtMeans if occupied > 0 => 0.0,
            _ => pi[occupied..].iter().sum(),
        };
        let rest = eta[n_atoms..].iter().sum();
        let shares = eta[..n_atoms].iter().copied().chain([rest]);
        shares.map(|share| vacant * share).collect()
    }

    /// Experts of each atom.
    pub(crate) fn n_utilities(&self) -> usize {
        self.experts.len() / self.components.len().max(1)
    }

    /// Whether the experts of atom `s` are at their prior.
    pub(crate) fn is_at_prior(&self, s: usize) -> bool {
        let first = self.experts.get(s * self.n_utilities());
        first.is_some_and(|expert| expert.at_prior)
    }

    /// Checks sizes and ranges, for a state that comes from a file: `p` features, `n_tasks` tasks, so many utilities (0: no classifier), truncations `[N, S]`.
    pub(crate) fn check(
        &self,
        p: usize,
        n_tasks: usize,
        n_utilities: usize,
        [local, atoms]: [usize; 2],
    ) -> Result<()> {
        let truncation = self.global_sticks.truncation();
        expect(truncation == atoms, "truncation of atoms")?;
        let possible = 1..=atoms;
        expect(possible.contains(&self.components.len()), "number of atoms")?;
        expect(self.tasks.len() == n_tasks, "number of tasks")?;
        for task in &self.tasks {
            let truncation = task.sticks.truncation();
            expect(truncation == local, "truncation of local components")?;
            expect(task.indicators.len() <= local, "number of local components")?;
            for indicator in &task.indicators {
                let sum: f64 = indicator.iter().sum();
                let valid = indicator.len() == self.components.len()
                    && indicator.iter().all(|s| (0.0..=1.0).contains(s))
                    && (sum - 1.0).abs() < 1e-6;
                expect(valid, "indicators")?;
            }
            expect(finite(&task.utility_means), "utility means")?;
        }
        let n_experts = self.components.len() * n_utilities;
        expect(self.experts.len() == n_experts, "number of experts")?;
        let prior = &self.expert_prior;
        check_atoms(&self.components, &self.experts, prior, p, n_utilities)?;
        let vacant = std::slice::from_ref(&self.vacant);
        check_atoms(vacant, &[], prior, p, n_utilities)
    }
}
