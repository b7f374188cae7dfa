//! Scores of rows on atoms, and what is left of the rows when they are taken out.

use serde::{Deserialize, Serialize};

use crate::BpfaError;
use crate::error::expect;

/// Rows that are worked on, and stored, together.
pub(crate) const BLOCK_ROWS: usize = 256;

/// Scores of N rows on K atoms: of each row those that are not zero (6 bytes each), or all (dense and Laplace scores, 4 bytes each).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scores {
    n_rows: usize,
    n_atoms: usize,
    dense: bool,
    pub(crate) blocks: Vec<ScoreBlock>,
}

/// Scores of [`BLOCK_ROWS`] rows; of dense scores only `values` is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScoreBlock {
    pub(crate) starts: Vec<u32>,
    pub(crate) atoms: Vec<u16>,
    pub(crate) values: Vec<f32>,
}

/// The scores of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowScores<'a> {
    /// Atoms that are active, ascending; `None` when all are.
    pub atoms: Option<&'a [u16]>,
    /// Their scores.
    pub values: &'a [f32],
}

impl RowScores<'_> {
    /// Atoms and scores.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (usize, f32)> + '_ {
        self.values.iter().enumerate().map(|(at, &s)| {
            let k = self.atoms.map_or(at, |atoms| atoms[at] as usize);
            (k, s)
        })
    }

    /// Number of active atoms.
    pub fn n_active(&self) -> usize {
        self.values.len()
    }
}

impl Scores {
    /// Nothing active, or, of dense scores, all zero.
    pub(crate) fn zeros(n_rows: usize, n_atoms: usize, dense: bool) -> Self {
        let block = |b: usize| {
            let rows = (n_rows - b * BLOCK_ROWS).min(BLOCK_ROWS);
            ScoreBlock {
                starts: if dense { Vec::new() } else { vec![0; rows + 1] },
                atoms: Vec::new(),
                values: vec![0.0; if dense { rows * n_atoms } else { 0 }],
            }
        };
        Self {
            n_rows,
            n_atoms,
            dense,
            blocks: (0..n_rows.div_ceil(BLOCK_ROWS)).map(block).collect(),
        }
    }

    /// Scores of spike-and-slab rows: `values[i * n_atoms + k]`, 0 where a switch is off.
    ///
    /// # Errors
    /// No atom, more than 65,536 of them, a number of values that is not one of whole rows, a value that is not finite.
    ///
    /// ```
    /// let scores = npb_bpfa::Scores::sparse(2, &[0.5, 0.0, 0.0, -1.0])?;
    /// assert_eq!((scores.n_rows(), scores.counts()), (2, vec![1, 1]));
    /// # Ok::<(), npb_bpfa::BpfaError>(())
    /// ```
    pub fn sparse(n_atoms: usize, values: &[f32]) -> Result<Self, BpfaError> {
        let sized = n_atoms > 0 && n_atoms <= 1 << 16 && values.len().is_multiple_of(n_atoms);
        expect(sized && values.iter().all(|s| s.is_finite()), "scores")?;
        let mut scores = Self::zeros(values.len() / n_atoms, n_atoms, false);
        for (block, rows) in scores
            .blocks
            .iter_mut()
            .zip(values.chunks(BLOCK_ROWS * n_atoms))
        {
            for (i, row) in rows.chunks_exact(n_atoms).enumerate() {
                for (k, &s) in row.iter().enumerate().filter(|on| *on.1 != 0.0) {
                    block.atoms.push(k as u16);
                    block.values.push(s);
                }
                block.starts[i + 1] = block.atoms.len() as u32;
            }
        }
        Ok(scores)
    }

    /// Number of rows, N.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Number of atoms, K.
    pub fn n_atoms(&self) -> usize {
        self.n_atoms
    }

    /// Whether every atom has a score in every row.
    pub fn is_dense(&self) -> bool {
        self.dense
    }

    /// Scores of row `i`.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline]
    pub fn row(&self, i: usize) -> RowScores<'_> {
        assert!(i < self.n_rows, "row {i} of {}", self.n_rows);
        self.blocks[i / BLOCK_ROWS].row(i % BLOCK_ROWS, self.n_atoms)
    }

    /// Number of scores that are not zero.
    pub fn n_active(&self) -> usize {
        self.blocks.iter().map(|b| b.values.len()).sum()
    }

    /// Number of rows in which each atom is active.
    pub fn counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.n_atoms];
        if self.dense {
            counts.fill(self.n_rows as u64);
            return counts;
        }
        for block in &self.blocks {
            block.atoms.iter().for_each(|&k| counts[k as usize] += 1);
        }
        counts
    }

    /// Sum of the squared scores of each atom.
    pub(crate) fn squares(&self) -> Vec<f64> {
        let mut squares = vec![0.0; self.n_atoms];
        for block in &self.blocks {
            let mut part = vec![0.0; self.n_atoms];
            block.for_each(self.n_atoms, |k, s| part[k] += f64::from(s).powi(2));
            squares.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
        }
        squares
    }

    /// Multiplies the scores of each atom by `factors[k]`.
    pub(crate) fn scale(&mut self, factors: &[f32]) {
        for block in &mut self.blocks {
            if self.dense {
                for row in block.values.chunks_exact_mut(self.n_atoms) {
                    row.iter_mut().zip(factors).for_each(|(s, f)| *s *= f);
                }
            } else {
                let scored = block.values.iter_mut().zip(&block.atoms);
                scored.for_each(|(s, &k)| *s *= factors[k as usize]);
            }
        }
    }

    /// Renumbers atoms, ascending: atom k becomes `new[k]`; one without new number must not be active. Sparse scores only.
    pub(crate) fn renumber(&mut self, n_atoms: usize, new: &[Option<u16>]) {
        debug_assert!(!self.dense);
        for block in &mut self.blocks {
            for k in &mut block.atoms {
                *k = new[*k as usize].expect("active atoms keep a number");
            }
        }
        self.n_atoms = n_atoms;
    }

    /// Checks what a file said.
    pub(crate) fn check(&self, n_rows: usize, n_atoms: usize) -> Result<(), BpfaError> {
        expect(
            self.n_rows == n_rows
                && self.n_atoms == n_atoms
                && self.blocks.len() == n_rows.div_ceil(BLOCK_ROWS),
            "scores",
        )?;
        for (b, block) in self.blocks.iter().enumerate() {
            let rows = (n_rows - b * BLOCK_ROWS).min(BLOCK_ROWS);
            let finite = block.values.iter().all(|s| s.is_finite());
            let sound = if self.dense {
                block.starts.is_empty()
                    && block.atoms.is_empty()
                    && rows.checked_mul(n_atoms) == Some(block.values.len())
            } else {
                block.starts.len() == rows + 1
                    && block.starts[0] == 0
                    && block.starts.windows(2).all(|w| w[0] <= w[1])
                    && block.starts[rows] as usize == block.atoms.len()
                    && block.atoms.len() == block.values.len()
                    && (0..rows).all(|i| {
                        let atoms = block.row(i, n_atoms).atoms.unwrap_or(&[]);
                        atoms.windows(2).all(|w| w[0] < w[1])
                            && atoms.last().is_none_or(|&k| (k as usize) < n_atoms)
                    })
            };
            expect(finite && sound, "scores of a block of rows")?;
        }
        Ok(())
    }
}

impl ScoreBlock {
    #[inline]
    pub(crate) fn row(&self, i: usize, n_atoms: usize) -> RowScores<'_> {
        if self.starts.is_empty() {
            return RowScores {
                atoms: None,
                values: &self.values[i * n_atoms..(i + 1) * n_atoms],
            };
        }
        let own = self.starts[i] as usize..self.starts[i + 1] as usize;
        RowScores {
            atoms: Some(&self.atoms[own.clone()]),
            values: &self.values[own],
        }
    }

    fn for_each(&self, n_atoms: usize, mut f: impl FnMut(usize, f32)) {
        if self.starts.is_empty() {
            let all = self.values.iter().enumerate();
            all.for_each(|(at, &s)| f(at % n_atoms, s));
        } else {
            let all = self.atoms.iter().zip(&self.values);
            all.for_each(|(&k, &s)| f(k as usize, s));
        }
    }
}
