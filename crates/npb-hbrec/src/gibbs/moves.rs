//! The moves, each of which leaves the posterior of partition, parameters and concentration as it is.

use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::dist::{Beta, Gamma, sample_ln_weights};
use npb_priors::dp::draw_concentration_given_partitions;
use rand::RngExt;

use super::DpSampler;
use crate::{DpMove, GibbsModel, HbrecError};

/// Fourth word of the keys of streams that belong to no user and no cluster.
const ALL: u64 = u64::MAX;

impl<U: GibbsModel> DpSampler<'_, U> {
    /// Makes the moves of a sweep.
    ///
    /// # Errors
    /// Numerical trouble in a redraw, with sweep and cluster.
    pub fn sweep(&mut self) -> Result<(), HbrecError> {
        self.sweep += 1;
        for (place, scheduled) in (0..).zip(self.config.moves.clone()) {
            self.apply(scheduled, place)?;
        }
        Ok(())
    }

    /// Makes one move. `place`: where it stands among the moves, which keys its randomness.
    pub(super) fn apply(&mut self, scheduled: DpMove, place: u64) -> Result<(), HbrecError> {
        match scheduled {
            DpMove::Escobar => self.escobar(place),
            DpMove::Auxiliary { components } => self.auxiliary(components, place),
            DpMove::Blocked => self.blocked(place),
            DpMove::Collapsed => return self.collapsed(place),
            DpMove::Parameters => return self.parameters(place),
            DpMove::Concentration => self.concentration(place),
        }
        Ok(())
    }

    fn rng(&self, place: u64, item: u64) -> Xoshiro256PlusPlus {
        stream(self.config.seed, [self.chain, self.sweep, place, item])
    }

    /// Takes a user out of its cluster. The cluster's parameter comes back when nobody else is there.
    fn take_out(&mut self, user: usize, counts: &mut Vec<usize>) -> Option<U::Parameter> {
        let cluster = self.state.labels[user] as usize;
        counts[cluster] -= 1;
        if counts[cluster] > 0 {
            return None;
        }
        let parameter = self.state.parameters[cluster].clone();
        // The user itself has no cluster now; its label must not be taken for another's.
        self.state.labels[user] = u32::MAX;
        self.state.remove(cluster);
        counts.swap_remove(cluster);
        Some(parameter)
    }

    fn put_in(&mut self, user: usize, cluster: usize, counts: &mut Vec<usize>) {
        self.state.labels[user] = cluster as u32;
        if cluster == counts.len() {
            counts.push(0);
        }
        counts[cluster] += 1;
    }

    /// ln n_k + ln P(D_j | theta_k) of the occupied clusters.
    fn ln_occupied(&self, user: usize, counts: &[usize]) -> Vec<f64> {
        let one = |(parameter, &n): (&U::Parameter, &usize)| {
            (n as f64).ln() + self.model.ln_likelihood(parameter, self.data[user])
        };
        self.state.parameters.iter().zip(counts).map(one).collect()
    }

    /// T 5.2 and appendix.
    fn escobar(&mut self, place: u64) {
        let mut counts = self.state.counts();
        for user in 0..self.data.len() {
            let rng = &mut self.rng(place, user as u64);
            self.take_out(user, &mut counts);
            let mut ln_weights = self.ln_occupied(user, &counts);
            let evidence = self.model.ln_evidence(&self.alone[user]);
            ln_weights.push(self.state.concentration.ln() + evidence);
            let cluster = pick(&ln_weights, rng);
            if cluster == counts.len() {
                let drawn = self.exact(&self.alone[user], rng);
                self.state.parameters.push(drawn);
            }
            self.put_in(user, cluster, &mut counts);
        }
    }

    /// Neal (2000), algorithm 3: a user joins a cluster with probability `n_k P(D_j | D of its members)`, theta_k integrated out; then every theta_k is drawn
    /// given its users.
    fn collapsed(&mut self, place: u64) -> Result<(), HbrecError> {
        let mut counts = self.state.counts();
        let all = 0..counts.len();
        let pooled: Result<Vec<f64>, HbrecError> = all.map(|k| self.ln_pooled(k, None)).collect();
        let mut evidences = pooled?;
        for user in 0..self.data.len() {
            let own = self.state.labels[user] as usize;
            let alone = self.take_out(user, &mut counts).is_some();
            self.state.labels[user] = u32::MAX;
            if alone {
                evidences.swap_remove(own);
            } else {
                evidences[own] = self.ln_pooled(own, None)?;
            }
            let clusters = 0..counts.len();
            let joined: Result<Vec<f64>, HbrecError> =
                clusters.map(|k| self.ln_pooled(k, Some(user))).collect();
            let mut with_user = joined?;
            let pairs = with_user.iter().zip(&evidences).zip(&counts);
            let mut ln_weights: Vec<f64> = pairs
                .map(|((with, without), &n)| (n as f64).ln() + with - without)
                .collect();
            let evidence = self.model.ln_evidence(&self.alone[user]);
            ln_weights.push(self.state.concentration.ln() + evidence);
            with_user.push(evidence);
            let rng = &mut self.rng(place, user as u64);
            let cluster = pick(&ln_weights, rng);
            if cluster == counts.len() {
                self.state
                    .parameters
                    .push(self.exact(&self.alone[user], rng));
                evidences.push(evidence);
            }
            evidences[cluster] = with_user[cluster];
            self.put_in(user, cluster, &mut counts);
        }
        let rng = &mut self.rng(place, ALL);
        for cluster in 0..counts.len() {
            let posterior = self.pooled(cluster, None)?;
            self.state.parameters[cluster] = self.exact(&posterior, rng);
        }
        Ok(())
    }

    /// The posterior of a cluster given its users, and one more.
    fn pooled(&self, cluster: usize, also: Option<usize>) -> Result<U::Posterior, HbrecError> {
        let users = 0..self.data.len();
        let members = users.filter(|&user| self.state.labels[user] as usize == cluster);
        let data: Vec<(&U::Data, f64)> = members
            .chain(also)
            .map(|user| (self.data[user], 1.0))
            .collect();
        let fitted = self.model.fit_weighted(&data);
        fitted.map_err(|error| at_cluster(error, self.sweep, cluster))
    }

    /// ln P(D of a cluster's users, and one more).
    fn ln_pooled(&self, cluster: usize, also: Option<usize>) -> Result<f64, HbrecError> {
        Ok(self.model.ln_evidence(&self.pooled(cluster, also)?))
    }

    fn exact(&self, posterior: &U::Posterior, rng: &mut Xoshiro256PlusPlus) -> U::Parameter {
        let drawn = self.model.draw_exact(posterior, rng);
        drawn.expect("conjugate: checked at construction")
    }

    /// Neal (2000), algorithm 8: a user alone keeps its own parameter as the first candidate.
    fn auxiliary(&mut self, components: usize, place: u64) {
        let mut counts = self.state.counts();
        for user in 0..self.data.len() {
            let rng = &mut self.rng(place, user as u64);
            let mut candidates: Vec<U::Parameter> =
                self.take_out(user, &mut counts).into_iter().collect();
            while candidates.len() < components {
                candidates.push(self.model.draw_prior(rng));
            }
            let mut ln_weights = self.ln_occupied(user, &counts);
            let ln_share = (self.state.concentration / components as f64).ln();
            let of_candidate = |theta| ln_share + self.model.ln_likelihood(theta, self.data[user]);
            ln_weights.extend(candidates.iter().map(of_candidate));
            let mut cluster = pick(&ln_weights, rng);
            if cluster >= counts.len() {
                self.state
                    .parameters
                    .push(candidates.swap_remove(cluster - counts.len()));
                cluster = counts.len();
            }
            self.put_in(user, cluster, &mut counts);
        }
    }

    /// Given the partition the process is `sum g_k delta(theta_k) + g_0 G'`, `(g, g_0) ~ Dir(n, tau)`, `G' ~ DP(tau, G_0)`. A slice `u_j ~ U(0, g_{z_j})`
    /// for each user, sticks of G' until what is left is below all slices, and every user chooses among the atoms above its slice.
    fn blocked(&mut self, place: u64) {
        let rng = &mut self.rng(place, ALL);
        let tau = self.state.concentration;
        let counts = self.state.counts();
        let gammas = counts.iter().map(|&n| n as f64).chain([tau]);
        let draw_ln_gamma = |shape: f64, rng: &mut Xoshiro256PlusPlus| {
            Gamma::new(shape, 1.0)
                .expect("counts and tau are positive")
                .sample_ln(rng)
        };
        let mut weights: Vec<f64> = gammas.map(|shape| draw_ln_gamma(shape, rng)).collect();
        npb_priors::special::ln_normalize(&mut weights);
        // `ln_normalize` leaves probabilities.
        let mut rest = weights.pop().unwrap_or(0.0);
        let slice = |(user, &label): (usize, &u32)| {
            let u: f64 = self.rng(place, user as u64).random();
            (1.0 - u) * weights[label as usize]
        };
        let slices: Vec<f64> = self.state.labels.iter().enumerate().map(slice).collect();
        let lowest = slices.iter().copied().fold(f64::INFINITY, f64::min);
        let stick = Beta::new(1.0, tau).expect("tau is positive");
        while rest > lowest {
            let v = stick.sample(rng);
            weights.push(rest * v);
            self.state.parameters.push(self.model.draw_prior(rng));
            rest *= 1.0 - v;
        }
        let choose = |(user, slice): (usize, &f64)| {
            // The second stream of the user: the first gave the slice.
            let rng = &mut stream(
                self.config.seed,
                [self.chain, self.sweep, place, ALL ^ (user as u64 + 1)],
            );
            let ln_weight = |(parameter, weight): (&U::Parameter, &f64)| {
                if weight > slice {
                    self.model.ln_likelihood(parameter, self.data[user])
                } else {
                    f64::NEG_INFINITY
                }
            };
            let pairs = self.state.parameters.iter().zip(&weights);
            let ln_weights: Vec<f64> = pairs.map(ln_weight).collect();
            pick(&ln_weights, rng) as u32
        };
        self.state.labels = parallel::map(slices.iter().enumerate(), choose);
        self.drop_empty();
    }

    fn drop_empty(&mut self) {
        for (cluster, &count) in self.state.counts().iter().enumerate().rev() {
            if count == 0 {
                self.state.remove(cluster);
            }
        }
    }

    fn parameters(&mut self, place: u64) -> Result<(), HbrecError> {
        let members = self.state.members();
        let mut parameters = std::mem::take(&mut self.state.parameters);
        let pairs = parameters.iter_mut().zip(&members).enumerate();
        let redrawn = parallel::try_map(pairs, |(cluster, (parameter, users))| {
            let data: Vec<&U::Data> = users.iter().map(|&user| self.data[user]).collect();
            let rng = &mut self.rng(place, cluster as u64);
            let outcome = self.model.redraw(parameter, &data, rng);
            outcome.map_err(|error| at_cluster(error, self.sweep, cluster))
        });
        self.state.parameters = parameters;
        redrawn.map(drop)
    }

    fn concentration(&mut self, place: u64) {
        self.state.concentration = draw_concentration_given_partitions(
            self.state.concentration,
            &[self.data.len()],
            self.state.parameters.len(),
            self.config.concentration,
            &mut self.rng(place, ALL),
        );
    }
}

fn at_cluster(error: HbrecError, sweep: u64, cluster: usize) -> HbrecError {
    match error {
        HbrecError::Numerical { what, source, .. } => HbrecError::Numerical {
            what,
            iteration: sweep,
            block: "cluster",
            item: cluster,
            source,
        },
        other => other,
    }
}

/// A draw by weight. Where every weight is zero the last one, a new cluster, is the only place left.
fn pick(ln_weights: &[f64], rng: &mut Xoshiro256PlusPlus) -> usize {
    sample_ln_weights(ln_weights, rng).unwrap_or(ln_weights.len() - 1)
}
