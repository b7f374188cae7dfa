//! From users as atoms to clusters as atoms: EM for a mixture, and clusters that the evidence would rather have as one.
//!
//! Equations: `docs/hbrec.md#re-estimated-atoms`.

use npb_infer::parallel;
use npb_priors::special::{ln_gamma, ln_normalize, log_sum_exp};

use super::{LikelihoodTable, Mixture, best_tau};
use crate::{DpConcentration, HbrecError, UserModel};

/// Responsibilities below this count for nothing.
const LEAST_USERS: f64 = 1e-4;
/// A cluster may join one of so many: those under which its users' data are most likely.
const NEAREST: usize = 3;
/// Merging and EM in turn: EM moves users that merging could not.
const TURNS: usize = 2;

/// Rounds in which no user's own data count, after the clusters are joined.
const LAST_ROUNDS: u32 = 2;
/// A user is taken out of an atom that has at least this part of it, and becomes a cluster of its own with at least this part: fits cost time.
const LEAST_PART: f64 = 0.01;

/// Users of a cluster, and how much of each belongs to it.
type Members = Vec<(usize, f64)>;

/// A user against all others.
struct Weighed {
    /// For each atom `ln n_k P(D_j | theta_k)`, without what this user has given to n and theta.
    ln_shares: Vec<f64>,
    /// The sum of these n.
    mass: f64,
    /// ln P(D_j).
    ln_evidence: f64,
    /// The atom that has no other user.
    home: Option<usize>,
}

impl<U: UserModel> Mixture<U> {
    /// Estimates the atoms anew, each from all users' data weighted by its responsibilities: `rounds` steps of EM for a mixture whose components are the
    /// atoms; then clusters join as long as the evidence of a Dirichlet process mixture rises, and EM again; at last two rounds in which a user's own data do
    /// not count. An atom is then a cluster of users, not a user, so that users of the database are predicted by [`user`](Self::user). tau is kept unless it was inferred: then it is inferred again, each user against the
    /// others.
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
        for _ in 0..LAST_ROUNDS {
            self.refit(users, &mut members)?;
            members = self.responsibilities_of_others(users, &members)?;
        }
        self.refit(users, &mut members)?;
        // The atoms are nobody's own any more.
        self.weights.trace.clear();
        self.weights.fitted_to.clear();
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

    /// Users of each atom by what *others* say: a user is weighed against an atom by the atom's other users, under its parameter without the user's own data, and
    /// may stay or become a cluster of its own, with weight tau. With own data counted, small clusters hold their users however little these are alike.
    fn responsibilities_of_others(
        &mut self,
        users: &[&U::Data],
        members: &[Members],
    ) -> Result<Vec<Members>, HbrecError> {
        let mut parts = vec![Vec::new(); users.len()];
        for (k, of) in members.iter().enumerate() {
            of.iter().for_each(|&(user, r)| parts[user].push((k, r)));
        }
        let weigh = |user: usize| self.weigh(users, members, user, &parts[user]);
        let weighed: Vec<Weighed> = parallel::try_map(0..users.len(), weigh)?;
        if self.config.tau == DpConcentration::Inferred {
            let ratio = |w: &Weighed| (w.ln_evidence - log_sum_exp(&w.ln_shares), w.mass);
            let ratios = weighed.iter().map(ratio).filter(|r| r.0 < f64::INFINITY);
            self.weights.tau = best_tau(&ratios.collect::<Vec<_>>(), users.len() as f64);
        }
        let mut again = vec![Members::new(); self.atoms.len()];
        for (user, mut weighed) in weighed.into_iter().enumerate() {
            let shares = &mut weighed.ln_shares;
            shares.push(self.weights.tau.ln() + weighed.ln_evidence);
            ln_normalize(shares);
            let alone = shares.pop().unwrap_or(0.0);
            match weighed.home {
                Some(home) => shares[home] = alone,
                None if alone > LEAST_PART => again.push(vec![(user, alone)]),
                None => {}
            }
            let counted = shares.iter().enumerate().filter(|(_, r)| **r > LEAST_USERS);
            counted.for_each(|(k, &r)| again[k].push((user, r)));
        }
        Ok(again)
    }

    /// A user against the other users of each atom. `parts`: how much of it belongs to which atom so far.
    fn weigh(
        &self,
        users: &[&U::Data],
        members: &[Members],
        user: usize,
        parts: &[(usize, f64)],
    ) -> Result<Weighed, HbrecError> {
        let data = users[user];
        let mut weighed = Weighed {
            ln_shares: Vec::with_capacity(self.atoms.len() + 1),
            mass: 0.0,
            ln_evidence: self.model.ln_evidence(&self.model.fit(data)?),
            home: None,
        };
        let mut parts = parts.iter().peekable();
        for (k, atom) in self.atoms.iter().enumerate() {
            let part = parts.next_if(|part| part.0 == k).map_or(0.0, |part| part.1);
            let others = self.weights.xi[k] - part;
            if others < LEAST_USERS {
                weighed.home = weighed.home.or((part > 0.0).then_some(k));
                weighed.ln_shares.push(f64::NEG_INFINITY);
                continue;
            }
            let ln_likelihood = if part < LEAST_PART {
                self.model.ln_likelihood(atom, data)
            } else {
                let rest = members[k].iter().filter(|member| member.0 != user);
                let rest: Members = rest.copied().collect();
                let posterior = self.model.fit_weighted(&data_of(users, &rest))?;
                let atom = self.model.atom(&posterior, self.config.atoms);
                self.model.ln_likelihood(&atom, data)
            };
            weighed.mass += others;
            weighed.ln_shares.push(others.ln() + ln_likelihood);
        }
        Ok(weighed)
    }

    /// Atoms and weights given who belongs to them; atoms of nobody are dropped.
    fn refit(&mut self, users: &[&U::Data], members: &mut Vec<Members>) -> Result<(), HbrecError> {
        members.retain(|of| !of.is_empty());
        let atom = |of: &Members| {
            let posterior = self.model.fit_weighted(&data_of(users, of))?;
            Ok(self.model.atom(&posterior, self.config.atoms))
        };
        let atoms: Result<Vec<U::Parameter>, HbrecError> = parallel::try_map(&*members, atom);
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
        let alone: Result<Vec<f64>, HbrecError> = parallel::try_map(&*members, worth);
        let alone = alone?;
        let gains = |a: usize| {
            let mut found = Vec::new();
            for b in self.nearest(users, &members[a], a) {
                let gain = worth(&joined(&members[a], &members[b]))? - alone[a] - alone[b] - ln_tau;
                if gain > 0.0 {
                    found.push((gain, a, b));
                }
            }
            Ok::<_, HbrecError>(found)
        };
        let mut pairs = parallel::try_map(0..members.len(), gains)?.concat();
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

#[cfg(test)]
mod tests {
    use npb_infer::stream;
    use rand::RngExt;

    use super::*;
    use crate::{BernoulliItems, Likes, WeightsConfig};

    /// Users of two clusters and one alone. Their shares are those of the collapsed sampler: `n_k P(D_j, D_k) / P(D_k)`, and `tau P(D_j)`, user j taken out of its
    /// own cluster. With own data counted they are not.
    #[test]
    fn shares_are_those_given_all_other_users() {
        let mut rng = stream(7, [0; 4]);
        let mut user = || {
            let like = |item: u32| (item, rng.random::<f64>() < 0.6);
            Likes::new(4, &(0..4).map(like).collect::<Vec<_>>()).unwrap()
        };
        let users: Vec<Likes> = (0..6).map(|_| user()).collect();
        let data: Vec<&Likes> = users.iter().collect();
        let model = BernoulliItems::new(vec![[0.8, 1.2]; 4]).unwrap();
        let config = WeightsConfig {
            tau: DpConcentration::Given(1.5),
            ..WeightsConfig::default()
        };
        let mut mixture = Mixture::learn(model.clone(), &data, &config).unwrap();
        let clusters = [vec![0, 1, 2], vec![3, 4], vec![5]];
        let whole = |of: &Vec<usize>| -> Members { of.iter().map(|&user| (user, 1.0)).collect() };
        let mut members: Vec<Members> = clusters.iter().map(whole).collect();
        mixture.refit(&data, &mut members).unwrap();
        let ln_p = |of: &[usize]| {
            let of: Vec<(&Likes, f64)> = of.iter().map(|&user| (data[user], 1.0)).collect();
            model.ln_evidence(&model.fit_weighted(&of).unwrap())
        };
        let exact = |user: usize| {
            let mut shares = vec![0.0; 3];
            let mut alone = 1.5_f64.ln() + ln_p(&[user]);
            for (share, of) in shares.iter_mut().zip(&clusters) {
                let mut rest = of.clone();
                rest.retain(|member| *member != user);
                if rest.is_empty() {
                    (*share, alone) = (alone, f64::NEG_INFINITY);
                    continue;
                }
                let ln_rest = ln_p(&rest);
                let n = rest.len() as f64;
                rest.push(user);
                *share = n.ln() + ln_p(&rest) - ln_rest;
            }
            shares.push(alone);
            ln_normalize(&mut shares);
            shares
        };
        let share = |found: &[Members], user: usize, k: usize| {
            let of = found.get(k).and_then(|of| of.iter().find(|m| m.0 == user));
            of.map_or(0.0, |m| m.1)
        };
        let right = mixture.responsibilities_of_others(&data, &members).unwrap();
        let twin = mixture.responsibilities(&data, &[None; 6]).unwrap();
        let mut far = 0.0_f64;
        for user in 0..6 {
            let exact = exact(user);
            let of_own = (3..right.len())
                .map(|k| share(&right, user, k))
                .sum::<f64>();
            assert!((of_own - exact[3]).abs() < LEAST_PART, "{user}");
            for k in 0..3 {
                assert!(
                    (share(&right, user, k) - exact[k]).abs() < 2e-4,
                    "{user} {k}"
                );
                far = far.max((share(&twin, user, k) - exact[k]).abs());
            }
        }
        assert!(far > 0.05, "{far}");
    }
}
