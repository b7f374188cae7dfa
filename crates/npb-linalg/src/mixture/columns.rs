//! Complete rows of one block side by side in vector registers: a factor of each component's matrix times all of them.

use crate::{Cholesky, NotPositiveDefinite};
use pulp::Arch;

use super::forms::{PackedFactor, ROW_MULTIPLE, SideBySide};
use super::memory::Memory;
use super::rows::{Block, SortedRows};
use super::softmax::Stacked;
use faer::MatRef;

/// `|C'(x - centre)|^2` and, for any number of `a`, `a'(x - centre)`, with `C C'` a given matrix.
#[derive(Clone, Debug)]
pub struct Form {
    centre: Vec<f64>,
    factor: PackedFactor,
    slopes: Vec<f64>,
}

impl Form {
    /// `matrix`: P x P, or (P+1) x (P+1) to take the constant feature 1 along; `centre` and each of the `slopes`, one after the other, are as long.
    pub fn new(
        centre: &[f64],
        matrix: MatRef<'_, f64>,
        slopes: &[f64],
    ) -> Result<Self, NotPositiveDefinite> {
        let factor = Cholesky::new(matrix)?;
        Ok(Self::with_factor(centre, &factor, slopes))
    }

    /// As [`Self::new`], from the factor of the matrix.
    pub fn with_factor(centre: &[f64], factor: &Cholesky, slopes: &[f64]) -> Self {
        Self {
            centre: centre.to_vec(),
            factor: PackedFactor::new(factor),
            slopes: slopes.to_vec(),
        }
    }
}

/// The complete rows of one block. Memory is reused from block to block, of rows with the same features.
#[derive(Debug)]
pub struct Columns {
    arch: Arch,
    n_rows: usize,
    /// Feature, row; the last feature is the constant 1. Columns past the last row hold earlier rows or zeros.
    features: Memory,
    n_features: usize,
    window: Memory,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            arch: Arch::new(),
            n_rows: 0,
            features: Memory::default(),
            n_features: 0,
            window: Memory::default(),
        }
    }
}

impl Columns {
    /// Number of rows.
    #[inline]
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    #[inline]
    /// Length of a row of a table about these rows.
    pub fn stride(&self) -> usize {
        self.n_rows.next_multiple_of(ROW_MULTIPLE)
    }

    /// Tables about these rows.
    pub fn stacked(&self) -> Stacked {
        Stacked {
            arch: self.arch,
            len: self.stride(),
        }
    }

    /// Loads a block of complete rows.
    pub fn load(&mut self, rows: &SortedRows, block: &Block) {
        (self.n_rows, self.n_features) = (block.rows.len(), rows.n_features);
        let (p, n) = (self.n_features, self.stride());
        self.features.reserve((p + 1) * n);
        self.window.reserve((p + 1) * ROW_MULTIPLE);
        let features = self.features.get_mut((p + 1) * n);
        for (i, position) in block.rows.clone().enumerate() {
            for (j, x) in rows.row(position).iter().enumerate() {
                features[j * n + i] = *x;
            }
        }
        features[p * n..].fill(1.0);
    }

    /// The parts of the form of every row: the square (`stride`), and as many of the slopes as there is room for (`stride` each).
    pub fn apply(&mut self, form: &Form, out: [&mut [f64]; 2]) {
        let p = self.n_features + 1;
        self.arch.dispatch(SideBySide {
            columns: self
                .features
                .get(p * self.n_rows.next_multiple_of(ROW_MULTIPLE)),
            centre: &form.centre,
            factor: &form.factor,
            slopes: &form.slopes,
            window: self.window.get_mut(p * ROW_MULTIPLE),
            out,
        });
    }
}
