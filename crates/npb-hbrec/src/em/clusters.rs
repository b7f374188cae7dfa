//! From users as atoms to clusters as atoms: EM for a mixture, and clusters that the evidence would rather have as one.

use npb_priors::special::ln_gamma;
use rayon::prelude::*;

use super::{LikelihoodTable, Mixture};
use crate::{Concentration, HbrecError, UserModel};

/// Responsibilities below this count for nothing.
const LEAST_USERS: f64 = 1e-4;
/// A cluster may join one of so many: those under which its users' data are most likely.
const NEAREST: usize = 3;
/// Merging and EM in turn: EM moves users that merging could not.
const TURNS: usize = 2;

/// Users of a cluster, and how much of each belongs to it.
type Members = Vec<(usize, f64)>;

impl<U: UserModel> Mixture<U> {
    /// Estimates the atoms anew, each from all users' data weighted by its responsibilities: `rounds` steps of EM for a mixture whose components are the
    /// atoms; then clusters join as long as the evidence of a Dirichlet process mixture rises, and EM again. An atom is then a cluster of users, not a user,
    /// so that users of the database are predicted by [`user`](Self::user). tau is kept unless it was inferred: then it is the value at which a Dirichlet
    /// process is expected to make as many clusters of as many users.
    ///
    /// `users` are those of [`learn`](Self::learn), in their order. Where users are in clusters this is close to the Gibbs samplers, which single users'
    /// fits are not (`docs/hbrec.md#weights`). Five rounds are enough to start from. Cost: a fit of each atom a round, and three of each atom for each halving
    /// of their number.
    ///
    /// # Errors
    /// Data that do not fit the model; numerical trouble.
    pub fn re_estimate(&mut self, users: &[&U::Data], rounds: usize) -> Result<(), HbrecError> {
        // At first a user's own fit would explain it best, and nobody would join anybody.
        let own: Vec<Option<usize>> = match self.atoms.len() == users.len() {
            true => (0..users.len()).map(Some).collect(),
            false => vec![None; users.len()],
        };
        let mut members = self.responsibilities(users, &own)?;
        for turn in 0..=TURNS {
            for _ in 0..rounds {
                self.refit(users, &mut members)?;
                members = self.responsibilities(users, &vec![None; users.len()])?;
            }
            while turn < TURNS && self.merge(users, &mut members)? {}
        }
        self.refit(users, &mut members)?;
        // The atoms are nobody's own any more.
        self.weights.trace.clear();
        self.weights.fitted_to.clear();
        if self.config.tau == Concentration::Inferred {
            self.weights.tau = concentration_of(self.effective_number(), users.len());
        }
        Ok(())
    }

    /// Users of each atom.
    fn responsibilities(
        &self,
        users: &[&U::Data],
        own: &[Option<usize>],
    ) -> Result<Vec<Members>, HbrecError> {
        let table = LikelihoodTable::of_model(&self.model, &self.atoms, users, own)?;
        let mut members = vec![Members::new(); self.atoms.len()];
        for user in 0..users.len() {
            let mut row = vec![0.0; self.atoms.len()];
            if table
                .add_responsibilities(user, &self.weights.xi, &mut row)
                .is_none()
                && let Some(own) = own[user]
            {
                // Nobody else could explain this user.
                row[own] = 1.0;
            }
            let counted = row.iter().enumerate().filter(|(_, r)| **r > LEAST_USERS);
            counted.for_each(|(k, &r)| members[k].push((user, r)));
        }
        Ok(members)
    }

    /// Atoms and weights given who belongs to them; atoms of nobody are dropped.
    fn refit(&mut self, users: &[&U::Data], members: &mut Vec<Members>) -> Result<(), HbrecError> {
        members.retain(|of| !of.is_empty());
        let atom = |of: &Members| {
            let posterior = self.model.fit_weighted(&data_of(users, of))?;
            Ok(self.model.atom(&posterior, self.config.atoms))
        };
        let atoms: Result<Vec<U::Parameter>, HbrecError> = members.par_iter().map(atom).collect();
        self.atoms = atoms?;
        self.weights.xi = members.iter().map(size).collect();
        Ok(())
    }

    /// Joins pairs of clusters, the best first and each cluster once, where `ln P(data) + ln Gamma(users)` of both together is above that of the two and
    /// ln tau; whether there were any.
    fn merge(
        &mut self,
        users: &[&U::Data],
        members: &mut Vec<Members>,
    ) -> Result<bool, HbrecError> {
        self.refit(users, members)?;
        let ln_tau = concentration_of(self.effective_number(), users.len()).ln();
        let worth = |of: &Members| {
            let posterior = self.model.fit_weighted(&data_of(users, of))?;
            Ok(self.model.ln_evidence(&posterior) + ln_gamma(size(of).max(1.0)))
        };
        let alone: Result<Vec<f64>, HbrecError> = members.par_iter().map(worth).collect();
        let alone = alone?;
        let gains = |a: usize| {
            let mut found = Vec::new();
            for b in self.nearest(users, &members[a], a) {
                let gain = worth(&joined(&members[a], &members[b]))? - alone[a] - alone[b] - ln_tau;
                if gain > 0.0 {
                    found.push((gain, a, b));
                }
            }
            Ok(found)
        };
        let all = (0..members.len()).into_par_iter().map(gains);
        let mut pairs = all.collect::<Result<Vec<_>, HbrecError>>()?.concat();
        pairs.sort_by(|x, y| y.0.total_cmp(&x.0));
        let mut free = vec![true; members.len()];
        for &(_, a, b) in &pairs {
            if free[a] && free[b] {
                (free[a], free[b]) = (false, false);
                let taken = std::mem::take(&mut members[b]);
                members[a] = joined(&members[a], &taken);
            }
        }
        Ok(!pairs.is_empty())
    }

    /// Other atoms, by how likely they make the data of these users.
    fn nearest(&self, users: &[&U::Data], of: &Members, own: usize) -> Vec<usize> {
        let fit = |atom: &U::Parameter| -> f64 {
            let each = of
                .iter()
                .map(|&(user, r)| r * self.model.ln_likelihood(atom, users[user]));
            each.sum()
        };
        let others = self.atoms.iter().enumerate().filter(|(k, _)| *k != own);
        let mut others: Vec<(f64, usize)> = others.map(|(k, atom)| (fit(atom), k)).collect();
        others.sort_by(|x, y| y.0.total_cmp(&x.0));
        others.iter().take(NEAREST).map(|other| other.1).collect()
    }

    /// Number of atoms by the entropy of their weights: atoms at one place share it, but weigh less than a cluster each.
    fn effective_number(&self) -> f64 {
        let total: f64 = self.weights.xi.iter().sum();
        let shares = self
            .weights
            .xi
            .iter()
            .map(|xi| xi / total)
            .filter(|p| *p > 0.0);
        (-shares.map(|p| p * p.ln()).sum::<f64>()).exp()
    }
}

fn size(of: &Members) -> f64 {
    of.iter().map(|member| member.1).sum()
}

fn data_of<'d, D>(users: &[&'d D], of: &Members) -> Vec<(&'d D, f64)> {
    of.iter().map(|&(user, r)| (users[user], r)).collect()
}

fn joined(a: &Members, b: &Members) -> Members {
    let mut both = [&a[..], &b[..]].concat();
    both.sort_by_key(|member| member.0);
    both.dedup_by(|again, first| {
        let same = again.0 == first.0;
        if same {
            first.1 += again.1;
        }
        same
    });
    both
}

/// The tau at which `sum_i tau / (tau + i)`, the expected number of clusters of n users, is this; by bisection.
fn concentration_of(clusters: f64, n: usize) -> f64 {
    let expected = |tau: f64| (0..n).map(|i| tau / (tau + i as f64)).sum::<f64>();
    let (mut low, mut high) = (-12.0_f64, 12.0_f64);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if expected(middle.exp()) < clusters {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.exp()
}
