//! One draw.

use serde::{Deserialize, Serialize};

use crate::error::expect;
use crate::scores::Scores;
use crate::{BpfaError, BpfaRows};

/// The dictionary: K atoms of P numbers, single precision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dictionary {
    n_columns: usize,
    n_atoms: usize,
    /// `values[p * n_atoms + k]`.
    pub(crate) values: Vec<f32>,
}

impl Dictionary {
    /// From atoms one after the other: `atoms[k * n_columns + p]`.
    ///
    /// # Errors
    /// A number of values that is not `n_columns` times a number of atoms; one that is not finite.
    pub fn from_atoms(n_columns: usize, atoms: &[f32]) -> Result<Self, BpfaError> {
        let n_atoms = atoms.len() / n_columns.max(1);
        if n_columns == 0 || n_atoms == 0 || n_atoms * n_columns != atoms.len() {
            return Err(BpfaError::Size {
                what: "numbers in the atoms",
                found: atoms.len(),
                expected: n_atoms.max(1) * n_columns,
            });
        }
        if let Some(at) = atoms.iter().position(|x| !x.is_finite()) {
            return Err(BpfaError::Argument {
                argument: "atoms",
                value: format!("{} in atom {}", atoms[at], at / n_columns),
                rule: "finite",
            });
        }
        let mut values = vec![0.0; atoms.len()];
        for (k, atom) in atoms.chunks_exact(n_columns).enumerate() {
            for (p, &x) in atom.iter().enumerate() {
                values[p * n_atoms + k] = x;
            }
        }
        Ok(Self {
            n_columns,
            n_atoms,
            values,
        })
    }

    pub(crate) fn from_values(n_columns: usize, n_atoms: usize, values: Vec<f32>) -> Self {
        debug_assert_eq!(values.len(), n_columns * n_atoms);
        Self {
            n_columns,
            n_atoms,
            values,
        }
    }

    /// Number of columns, P.
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// Number of atoms, K.
    pub fn n_atoms(&self) -> usize {
        self.n_atoms
    }

    /// Loadings of column `p` on all atoms.
    ///
    /// # Panics
    /// When there is no such column.
    pub fn column(&self, p: usize) -> &[f32] {
        &self.values[p * self.n_atoms..(p + 1) * self.n_atoms]
    }

    /// Atom `k`.
    ///
    /// # Panics
    /// When there is no such atom.
    pub fn atom(&self, k: usize) -> Vec<f32> {
        assert!(k < self.n_atoms, "atom {k} of {}", self.n_atoms);
        let own = self.values[k..].iter().step_by(self.n_atoms);
        own.copied().collect()
    }

    /// Squared length of each atom.
    pub fn squares(&self) -> Vec<f64> {
        let mut squares = vec![0.0; self.n_atoms];
        for column in self.values.chunks_exact(self.n_atoms) {
            let both = squares.iter_mut().zip(column);
            both.for_each(|(sum, &x)| *sum += f64::from(x).powi(2));
        }
        squares
    }

    pub(crate) fn check(&self, n_columns: usize) -> Result<(), BpfaError> {
        expect(
            self.n_columns == n_columns
                && self.n_atoms > 0
                && self.n_atoms <= crate::config::MOST_ATOMS
                && self.n_columns.checked_mul(self.n_atoms) == Some(self.values.len())
                && self.values.iter().all(|x| x.is_finite()),
            "dictionary",
        )
    }
}

/// One draw: latent quantities only. What rows do not have of their own is in [`Shared`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BpfaState {
    /// What all rows share.
    pub shared: Shared,
    /// Scores of the rows; a switch is on where there is one.
    pub scores: Scores,
}

/// What all rows share: enough to encode rows that the chain has not seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// Dictionary D.
    pub dictionary: Dictionary,
    /// ln odds of pi_k: the probability that an atom is used in a row. Of spike-and-slab scores.
    pub ln_odds: Vec<f64>,
    /// Slab precisions g: one, or one for each atom.
    pub slab_precisions: Vec<f64>,
    /// tau, the rate of the prior of slab precisions of atoms; 1 when there is one precision.
    pub slab_rate: f64,
    /// Noise precision of each channel (one when channels share it).
    pub noise_precisions: Vec<f64>,
}

impl Shared {
    /// Slab precision of atom `k`.
    pub fn slab_precision(&self, k: usize) -> f64 {
        let all = &self.slab_precisions;
        all[if all.len() == 1 { 0 } else { k }]
    }

    /// Noise precision of a channel.
    pub fn noise_precision(&self, channel: usize) -> f64 {
        let all = &self.noise_precisions;
        all[if all.len() == 1 { 0 } else { channel }]
    }

    /// Noise precision of each column of `rows`.
    pub(crate) fn column_weights(&self, rows: &BpfaRows) -> Vec<f32> {
        let weight = |&c: &u32| self.noise_precision(c as usize) as f32;
        rows.channels().iter().map(weight).collect()
    }

    pub(crate) fn check(&self, n_columns: usize, n_channels: usize) -> Result<(), BpfaError> {
        self.dictionary.check(n_columns)?;
        let k = self.dictionary.n_atoms();
        let positive = |x: &f64| x.is_finite() && *x > 0.0;
        expect(
            (self.slab_precisions.len() == 1 || self.slab_precisions.len() == k)
                && self.slab_precisions.iter().all(positive)
                && positive(&self.slab_rate),
            "slab precisions",
        )?;
        expect(
            (self.noise_precisions.len() == 1 || self.noise_precisions.len() == n_channels)
                && self.noise_precisions.iter().all(positive),
            "noise precisions",
        )?;
        expect(
            (self.ln_odds.is_empty() || self.ln_odds.len() == k)
                && self.ln_odds.iter().all(|x| !x.is_nan()),
            "weights",
        )
    }
}

impl BpfaState {
    /// Number of atoms, K.
    pub fn n_atoms(&self) -> usize {
        self.shared.dictionary.n_atoms()
    }

    /// Number of atoms that are used in some row.
    pub fn n_used(&self) -> usize {
        self.scores.counts().iter().filter(|&&n| n > 0).count()
    }

    /// Checks what a file or a caller said against the rows.
    pub(crate) fn check(&self, rows: &BpfaRows) -> Result<(), BpfaError> {
        self.shared.check(rows.n_columns(), rows.n_channels())?;
        self.scores.check(rows.n_rows(), self.n_atoms())
    }
}
