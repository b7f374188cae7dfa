//! Rows of a block given each component: deviations from the mean, and the missing features given the observed ones.
//!
//! Shared by the pass over the training rows and by prediction. With `d = x - m_h` and a quadratic form `-d'L_h d/2 + l'd`, one matrix product
//! `L_h d0` (`d0`: zeros at the missing features) serves rows of any pattern, and only the missing block of `L_h` is factorised,
//! for all components side by side.

use npb_linalg::NotPositiveDefinite;
use npb_linalg::faer::{Accum, Mat, MatMut, MatRef, Par, linalg::matmul::matmul};
use npb_linalg::lanes::{LaneConditional, LaneGaussian, LaneScratch};

use crate::IqgmeError;
use crate::rows::{Block, Pattern, Rows};

/// `L_h` of all components, as matrices and in lanes.
#[derive(Clone, Debug)]
pub(crate) struct Quadratics {
    precision: Vec<Mat<f64>>,
    bank: LaneGaussian,
}

impl Quadratics {
    /// On failure: the component whose matrix is not positive definite.
    pub(crate) fn new(precision: Vec<Mat<f64>>) -> Result<Self, (usize, NotPositiveDefinite)> {
        let mut bank = LaneGaussian::new(precision[0].nrows(), precision.len());
        for (h, matrix) in precision.iter().enumerate() {
            bank.set_precision(h, matrix.as_ref())
                .map_err(|source| (h, source))?;
        }
        Ok(Self { precision, bank })
    }

    /// The missing features of a pattern given the observed ones, for all components.
    pub(crate) fn condition<'a>(
        &'a self,
        pattern: &'a Pattern,
        scratch: &'a mut LaneScratch,
        iteration: u64,
    ) -> Result<LaneConditional<'a>, IqgmeError> {
        self.bank
            .condition(&pattern.observed, &pattern.missing, scratch)
            .map_err(|failure| IqgmeError::Numerical {
                iteration,
                block: "missing features",
                component: failure.component,
                source: failure.source,
            })
    }
}

/// The rows of one block as seen from each component. Memory is reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct Deviations {
    n_features: usize,
    n_rows: usize,
    n_components: usize,
    /// Rows minus the component's mean, zero where missing until completed: component, row, feature.
    centred: Vec<f64>,
    /// `L_h d0`, same layout.
    product: Vec<f64>,
    /// Missing features x lanes: the residual, then the conditional mean.
    residual: Vec<f64>,
    /// `r' L_mm^-1 r`, by lane.
    quadratic: Vec<f64>,
}

impl Deviations {
    /// Loads a block: `d0` and `L_h d0` for all components.
    pub(crate) fn load(
        &mut self,
        rows: &Rows,
        block: &Block,
        means: &Mat<f64>,
        quadratics: &Quadratics,
    ) {
        let (n, p) = (block.rows.len(), rows.n_features);
        self.n_rows = n;
        self.n_features = p;
        self.n_components = means.ncols();
        self.quadratic.resize(quadratics.bank.lanes(), 0.0);
        self.centred.resize(means.ncols() * n * p, 0.0);
        self.product.resize(means.ncols() * n * p, 0.0);
        for h in 0..means.ncols() {
            let range = h * n * p..(h + 1) * n * p;
            centre(
                rows,
                block,
                means.col_as_slice(h),
                &mut self.centred[range.clone()],
            );
            matmul(
                MatMut::from_row_major_slice_mut(&mut self.product[range.clone()], n, p),
                Accum::Replace,
                MatRef::from_row_major_slice(&self.centred[range], n, p),
                quadratics.precision[h].as_ref(),
                1.0,
                Par::Seq,
            );
        }
    }

    /// Row `i` of the block minus the mean of component `h`; zeros at missing features until [`complete`](Self::complete).
    pub(crate) fn deviation(&self, h: usize, i: usize) -> &[f64] {
        let at = (h * self.n_rows + i) * self.n_features;
        &self.centred[at..at + self.n_features]
    }

    /// `L_h d0`.
    pub(crate) fn product(&self, h: usize, i: usize) -> &[f64] {
        let at = (h * self.n_rows + i) * self.n_features;
        &self.product[at..at + self.n_features]
    }

    /// Sets the missing deviations of row `i` to their conditional means for all components, by the linear term `linear(h, j)` of feature `j`.
    /// Afterwards [`quadratic`](Self::quadratic) holds `r' L_mm^-1 r` with `r = l_m - (L_h d0)_m`.
    pub(crate) fn complete(
        &mut self,
        i: usize,
        missing: &[usize],
        given: &mut LaneConditional<'_>,
        linear: impl Fn(usize, usize) -> f64,
    ) {
        let lanes = self.quadratic.len();
        self.residual.clear();
        self.residual.resize(missing.len() * lanes, 0.0);
        for h in 0..self.n_components {
            let at = (h * self.n_rows + i) * self.n_features;
            for (k, &j) in missing.iter().enumerate() {
                self.residual[k * lanes + h] = linear(h, j) - self.product[at + j];
            }
        }
        given.solve(&mut self.residual, &mut self.quadratic);
        for h in 0..self.n_components {
            let at = (h * self.n_rows + i) * self.n_features;
            for (k, &j) in missing.iter().enumerate() {
                self.centred[at + j] = self.residual[k * lanes + h];
            }
        }
    }

    /// `r' L_mm^-1 r` of the row completed last, by component.
    pub(crate) fn quadratic(&self) -> &[f64] {
        &self.quadratic
    }
}

fn centre(rows: &Rows, block: &Block, mean: &[f64], out: &mut [f64]) {
    let p = rows.n_features;
    for group in &rows.groups[block.groups.clone()] {
        let missing = &rows.patterns[group.pattern].missing;
        for position in group.rows.clone() {
            let local = position - block.rows.start;
            let d = &mut out[local * p..(local + 1) * p];
            for ((d, x), m) in d.iter_mut().zip(rows.row(position)).zip(mean) {
                *d = x - m;
            }
            for &j in missing {
                d[j] = 0.0;
            }
        }
    }
}
