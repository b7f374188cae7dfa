//! What every point mass says of every item, kept.

use npb_priors::special::{ln_phi, normal_cdf};
use rayon::prelude::*;

use crate::em::LikelihoodTable;
use crate::{ItemAtom, Likes, ProbitItems};

/// The `t` of `P(like) = Phi(t)` of atoms and items, in single precision: 4 bytes for each pair.
#[derive(Clone, Debug)]
pub(super) struct AtomTable {
    n_items: usize,
    n_atoms: usize,
    ratios: Vec<f32>,
}

impl AtomTable {
    /// Atoms in parallel.
    pub(super) fn new(model: &ProbitItems, atoms: &[ItemAtom]) -> Self {
        let n_items = model.prior().n_items();
        let mut ratios = vec![0.0; atoms.len() * n_items];
        ratios
            .par_chunks_exact_mut(n_items)
            .zip(atoms)
            .for_each(|(row, atom)| fill(model, atom, row));
        Self {
            n_items,
            n_atoms: atoms.len(),
            ratios,
        }
    }

    pub(super) fn push(&mut self, model: &ProbitItems, atom: &ItemAtom) {
        let start = self.ratios.len();
        self.ratios.resize(start + self.n_items, 0.0);
        fill(model, atom, &mut self.ratios[start..]);
        self.n_atoms += 1;
    }

    fn row(&self, atom: usize) -> &[f32] {
        &self.ratios[atom * self.n_items..(atom + 1) * self.n_items]
    }

    /// P(like) of an item under an atom.
    pub(super) fn probability(&self, atom: usize, item: usize) -> f64 {
        normal_cdf(f64::from(self.row(atom)[item]))
    }

    /// ln P of these likes under every atom.
    pub(super) fn ln_likelihoods(&self, likes: &Likes) -> Vec<f64> {
        let of = |atom: usize| {
            let row = self.row(atom);
            let term = |(item, liked): (usize, bool)| {
                let t = f64::from(row[item]);
                ln_phi(if liked { t } else { -t })
            };
            likes.iter().map(term).sum()
        };
        (0..self.n_atoms).map(of).collect()
    }

    /// The table of users and atoms where atom k is user k. Both logarithms of every pair are made once, so that a rating costs a look-up.
    pub(super) fn likelihoods(&self, users: &[&Likes]) -> LikelihoodTable {
        let n = users.len();
        // Places in a row that holds ln P(dislike) of all items, then ln P(like).
        let place =
            |(item, liked): (usize, bool)| (item + usize::from(liked) * self.n_items) as u32;
        let places: Vec<Vec<u32>> = users
            .iter()
            .map(|likes| likes.iter().map(place).collect())
            .collect();
        let column = |atom: usize| -> Vec<f32> {
            let row = self.row(atom);
            let signed = |sign: f64| row.iter().map(move |&t| ln_phi(sign * f64::from(t)) as f32);
            let logs: Vec<f32> = signed(-1.0).chain(signed(1.0)).collect();
            places
                .iter()
                .map(|user| summed(&logs, user) as f32)
                .collect()
        };
        let columns: Vec<Vec<f32>> = (0..self.n_atoms).into_par_iter().map(column).collect();
        let mut table = LikelihoodTable::empty(self.n_atoms);
        let mut row = vec![0.0; self.n_atoms];
        for user in 0..n {
            for (cell, column) in row.iter_mut().zip(&columns) {
                *cell = f64::from(column[user]);
            }
            table.push(&row, Some(user));
        }
        table
    }
}

/// Sum of the logarithms at these places, in four interleaved parts.
fn summed(logs: &[f32], places: &[u32]) -> f64 {
    let mut parts = [0.0_f64; 4];
    let (fours, rest) = places.as_chunks::<4>();
    for four in fours {
        for k in 0..4 {
            parts[k] += f64::from(logs[four[k] as usize]);
        }
    }
    let left: f64 = rest.iter().map(|&p| f64::from(logs[p as usize])).sum();
    parts.iter().sum::<f64>() + left
}

fn fill(model: &ProbitItems, atom: &ItemAtom, row: &mut [f32]) {
    for (item, cell) in row.iter_mut().enumerate() {
        *cell = model.atom_ratio(atom, item) as f32;
    }
}
