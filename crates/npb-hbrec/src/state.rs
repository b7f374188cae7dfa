//! One draw of the infinite model.

use serde::{Deserialize, Serialize};

use crate::HbrecError;

/// Who is with whom, the parameter of each cluster, and the concentration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DpState<P> {
    /// Cluster of each user, from 0; every cluster has a user.
    pub labels: Vec<u32>,
    /// Parameter of each cluster.
    pub parameters: Vec<P>,
    /// tau.
    pub concentration: f64,
}

impl<P> DpState<P> {
    /// Number of users in each cluster.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.parameters.len()];
        self.labels
            .iter()
            .for_each(|&label| counts[label as usize] += 1);
        counts
    }

    /// Users of each cluster, ascending.
    pub fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.parameters.len()];
        for (user, &label) in self.labels.iter().enumerate() {
            members[label as usize].push(user);
        }
        members
    }

    /// Takes away a cluster without users; the last one takes its number.
    pub(crate) fn remove(&mut self, cluster: usize) {
        self.parameters.swap_remove(cluster);
        let last = self.parameters.len() as u32;
        for label in self.labels.iter_mut().filter(|label| **label == last) {
            *label = cluster as u32;
        }
    }

    /// Checks what is relied on, after decoding.
    pub(crate) fn check(&self, n_users: usize) -> Result<(), HbrecError> {
        let n = self.parameters.len();
        let within = self.labels.iter().all(|&label| (label as usize) < n);
        let sized = self.labels.len() == n_users && n <= n_users;
        let positive = self.concentration.is_finite() && self.concentration > 0.0;
        if within && sized && positive && self.counts().iter().all(|&count| count > 0) {
            return Ok(());
        }
        Err(HbrecError::State {
            what: "draw of the infinite model: impossible labels or concentration".to_owned(),
        })
    }
}
