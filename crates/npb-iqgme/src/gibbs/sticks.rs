//! Sticks, concentration and the labels of components.

use npb_priors::dp::{
    draw_concentration_given_labels, draw_sticks_given_labels, ln_weight_swap_ratio,
    occupied_labels, propose_neighbour_swap,
};
use rand::RngExt;
use rand_distr::Exp1;

use super::IqgmeSampler;
use crate::config::MOST_COMPONENTS;
use crate::{IqgmeError, Result};

impl IqgmeSampler<'_> {
    /// Sticks given labels and concentration. Equations: `docs/iqgme-updates.md#conjugate-moves`.
    pub(super) fn sticks(&mut self) {
        let counts = self.counts();
        let rng = &mut self.rng();
        let alpha = self.parameters.concentration;
        self.parameters.ln_rests.resize(counts.len(), 0.0);
        draw_sticks_given_labels(&counts, alpha, &mut self.parameters.ln_rests, rng);
    }

    /// The concentration, sticks integrated out, and then the sticks. Equations: `docs/iqgme-updates.md#conjugate-moves`.
    pub(super) fn concentration(&mut self) {
        let (counts, prior) = (self.counts(), self.config.model.concentration);
        let rng = &mut self.rng();
        let alpha = self.parameters.concentration;
        let drawn = draw_concentration_given_labels(alpha, [&counts[..]], prior, rng);
        self.parameters.concentration = drawn.clamp(LEAST_CONCENTRATION, f64::MAX);
        self.sticks();
    }

    /// Breaks sticks, with components from the prior, until what is left is below `least`.
    pub(super) fn extend_below(&mut self, least: f64) -> Result<()> {
        let rng = &mut self.rng();
        let mut rest = self.parameters.weights().1;
        // A weight that has underflowed asks for no more than the least number there is.
        while rest > least.max(f64::MIN_POSITIVE) {
            self.room_beside(self.parameters.components.len())?;
            let ln_rest = -rng.sample::<f64, _>(Exp1) / self.parameters.concentration;
            rest *= ln_rest.exp();
            self.parameters.ln_rests.push(ln_rest);
            self.push_prior_components(1, rng);
        }
        Ok(())
    }

    /// An error when there is no room for another component beside so many.
    pub(super) fn room_beside(&self, n_components: usize) -> Result<()> {
        if n_components < MOST_COMPONENTS {
            return Ok(());
        }
        Err(IqgmeError::TooManyComponents {
            sweep: self.sweep,
            most: MOST_COMPONENTS,
            concentration: self.parameters.concentration,
        })
    }

    /// Forgets the components after the last one with rows: they are at their prior.
    pub(super) fn trim(&mut self) {
        let kept = occupied_labels(&self.counts());
        self.parameters.ln_rests.truncate(kept);
        self.parameters.components.truncate(kept);
        let n_utilities = self.data.rows.n_utilities;
        self.parameters.experts.truncate(kept * n_utilities);
    }

    /// Metropolis moves of the labels of components: as many neighbours with their sticks, and pairs without them, as there are components with rows. That
    /// number is the same before and after; the largest label is not, and to take it would favour some labels. Equations: `docs/iqgme-updates.md#swaps`.
    pub(super) fn swaps(&mut self) -> Result<()> {
        let rng = &mut self.rng();
        let mut counts = self.counts();
        // The former label of what is now component h.
        let mut former: Vec<usize> = (0..counts.len()).collect();
        let occupied = counts.iter().filter(|count| **count > 0).count();
        let mut room = Ok(());
        for _ in 0..occupied {
            // A neighbour may be a new component.
            room = self.room_beside(self.parameters.components.len());
            if room.is_err() {
                break;
            }
            let alpha = self.parameters.concentration;
            let mut sticks = std::mem::take(&mut self.parameters.ln_rests);
            let swapped = propose_neighbour_swap(&mut counts, &mut sticks, alpha, rng);
            let more = sticks.len() - self.parameters.components.len();
            self.parameters.ln_rests = sticks;
            self.push_prior_components(more, rng);
            counts.resize(self.parameters.components.len(), 0);
            former.extend(former.len()..counts.len());
            if let Some(h) = swapped {
                self.swap_atoms(h, h + 1);
                former.swap(h, h + 1);
            }
            if let Some((g, h)) = self.propose_weight_swap(&counts, rng) {
                counts.swap(g, h);
                self.swap_atoms(g, h);
                former.swap(g, h);
            }
        }
        let mut label_now = vec![0; former.len()];
        for (now, &former) in former.iter().enumerate() {
            label_now[former] = now as u32;
        }
        for label in &mut self.labels {
            *label = label_now[*label as usize];
        }
        self.stats = None;
        self.trim();
        room
    }

    /// Two components with rows whose labels, but not weights, are to be swapped.
    fn propose_weight_swap(
        &self,
        counts: &[usize],
        rng: &mut npb_infer::Xoshiro256PlusPlus,
    ) -> Option<(usize, usize)> {
        let occupied: Vec<usize> = (0..counts.len()).filter(|&h| counts[h] > 0).collect();
        if occupied.len() < 2 {
            return None;
        }
        let first = rng.random_range(0..occupied.len());
        let second = (first + rng.random_range(1..occupied.len())) % occupied.len();
        let (g, h) = (occupied[first], occupied[second]);
        let weights = self.parameters.weights().0;
        let ln_ratio =
            ln_weight_swap_ratio([counts[g], counts[h]], [weights[g].ln(), weights[h].ln()]);
        (-rng.sample::<f64, _>(Exp1) < ln_ratio).then_some((g, h))
    }

    pub(super) fn swap_atoms(&mut self, g: usize, h: usize) {
        self.parameters.components.swap(g, h);
        let n = self.data.rows.n_utilities;
        for k in 0..n {
            self.parameters.experts.swap(g * n + k, h * n + k);
        }
    }
}

/// A concentration this small is one component, and its reciprocal is still finite.
const LEAST_CONCENTRATION: f64 = 1e-100;
