//! One draw.

use npb_infer::Xoshiro256PlusPlus;
use rand::RngExt;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use crate::dependent::Dependence;
use crate::error::expect;
use crate::lasso::LassoScales;
use crate::scores::Scores;
use crate::spikes::Spikes;
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
    /// Scales of Laplace scores.
    pub lasso: LassoScales,
    /// Anchors of the rows, where usage depends on locations.
    pub dependence: Dependence,
    /// Sites with spikes.
    pub spikes: Spikes,
}

/// What all rows share: enough to encode rows that the chain has not seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// Dictionary D.
    pub dictionary: Dictionary,
    /// ln odds of pi_k, the probability that an atom is used in a row; `pi_jk` at `j * K + k` where usage depends on locations. Of spike-and-slab scores.
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
            self.ln_odds.len().is_multiple_of(k) && self.ln_odds.iter().all(|x| !x.is_nan()),
            "weights",
        )
    }
}

/// Columns of a table of `keep.len()` columns that are kept.
fn kept<T: Copy>(values: &[T], keep: &[bool]) -> Vec<T> {
    let rows = values.chunks_exact(keep.len());
    rows.flat_map(|row| row.iter().zip(keep).filter(|(_, k)| **k).map(|(&x, _)| x))
        .collect()
}

impl BpfaState {
    /// Variance of what lies between an entry of a channel and its fitted value: white noise, and spikes at their rate.
    pub(crate) fn noise_variance(&self, channel: usize) -> f64 {
        let spikes = match self.spikes.rates.get(channel).or(self.spikes.rates.first()) {
            Some(rate) => rate / self.spikes.precision,
            None => 0.0,
        };
        1.0 / self.shared.noise_precision(channel) + spikes
    }

    /// ln density of that difference in a matrix: `(1 - rho) N(0, 1/g) + rho N(0, 1/g + 1/g_v)` (docs/bpfa.md#spikes).
    pub(crate) fn ln_noise_density(&self, channel: usize, r: f64) -> f64 {
        let g = self.shared.noise_precision(channel);
        let normal = |g: f64| 0.5 * (g / std::f64::consts::TAU).ln() - 0.5 * g * r * r;
        let Some(rate) = self.spikes.rates.get(channel).or(self.spikes.rates.first()) else {
            return normal(g);
        };
        let wide = 1.0 / (1.0 / g + 1.0 / self.spikes.precision);
        npb_priors::special::ln_add_exp(normal(g) + (-rate).ln_1p(), normal(wide) + rate.ln())
    }

    /// Number of atoms, K.
    pub fn n_atoms(&self) -> usize {
        self.shared.dictionary.n_atoms()
    }

    /// Number of atoms that are used in some row.
    pub fn n_used(&self) -> usize {
        self.scores.counts().iter().filter(|&&n| n > 0).count()
    }

    /// Keeps these atoms, the others being used by no row. Spike-and-slab scores only.
    pub(crate) fn keep_atoms(&mut self, keep: &[bool]) {
        let mut new = Vec::with_capacity(keep.len());
        let mut n = 0;
        for &kept in keep {
            new.push(kept.then_some(n));
            n += u16::from(kept);
        }
        let n = n as usize;
        let p = self.shared.dictionary.n_columns;
        let values = kept(&self.shared.dictionary.values, keep);
        self.shared.dictionary = Dictionary::from_values(p, n, values);
        self.shared.ln_odds = kept(&self.shared.ln_odds, keep);
        if self.shared.slab_precisions.len() > 1 {
            self.shared.slab_precisions = kept(&self.shared.slab_precisions, keep);
        }
        self.dependence.means = kept(&self.dependence.means, keep);
        self.scores.renumber(n, &new);
    }

    /// Adds atoms drawn from the prior, used by no row; their weights are to be drawn.
    pub(crate) fn add_atoms(&mut self, more: usize, rng: &mut Xoshiro256PlusPlus) {
        let Dictionary {
            n_columns: p,
            n_atoms: k,
            ..
        } = self.shared.dictionary;
        let sd = (1.0 / p as f32).sqrt();
        let mut values = Vec::with_capacity(p * (k + more));
        for row in self.shared.dictionary.values.chunks_exact(k) {
            values.extend_from_slice(row);
            values.extend((0..more).map(|_| sd * rng.sample::<f32, _>(StandardNormal)));
        }
        self.shared.dictionary = Dictionary::from_values(p, k + more, values);
        let groups = self.shared.ln_odds.len() / k;
        let mut ln_odds = Vec::with_capacity(groups * (k + more));
        for own in self.shared.ln_odds.chunks_exact(k) {
            ln_odds.extend_from_slice(own);
            ln_odds.extend(vec![0.0; more]);
        }
        self.shared.ln_odds = ln_odds;
        if self.shared.slab_precisions.len() == k && k > 1 {
            let mean = self.shared.slab_precisions.iter().sum::<f64>() / k as f64;
            self.shared.slab_precisions.resize(k + more, mean);
        }
        if !self.dependence.means.is_empty() {
            let least = self.dependence.means.iter().copied().fold(1.0, f64::min);
            self.dependence.means.resize(k + more, least);
        }
        let new: Vec<Option<u16>> = (0..k).map(|k| Some(k as u16)).collect();
        self.scores.renumber(k + more, &new);
    }

    /// Checks what a file or a caller said against the rows.
    pub(crate) fn check(&self, rows: &BpfaRows) -> Result<(), BpfaError> {
        self.shared.check(rows.n_columns(), rows.n_channels())?;
        let (n, k) = (rows.n_rows(), self.n_atoms());
        self.scores.check(n, k)?;
        self.lasso.check(n, k)?;
        self.spikes.check(rows.n_sites(), rows.n_channels())?;
        let own = &self.dependence;
        expect(
            (own.anchors.is_empty() && own.means.is_empty())
                || (own.anchors.len() == n
                    && own.means.len() == k
                    && own.means.iter().all(|&x| x > 0.0 && x < 1.0)),
            "dependence on locations",
        )
    }
}
