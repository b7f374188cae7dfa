//! Rows of a block given each component: quadratic and linear forms, and the missing features given the observed ones.
//!
//! Shared by the pass over the training rows and by prediction. Around the component's mean, `d = x - m_h`. Complete rows need only `d'L_h d`:
//! see [`columns`]. Rows with missing features are in [`Deviations`]: with `d0` (zeros at the missing features) one matrix product `L_h d0` serves
//! rows of any pattern, and only the missing block of `L_h` is factorised, for all components side by side.

pub(crate) mod columns;
pub(crate) mod elementary;
pub(crate) mod forms;
pub(crate) mod memory;
pub(crate) mod softmax;

use npb_linalg::NotPositiveDefinite;
use npb_linalg::faer::{Accum, Mat, MatMut, MatRef, Par, linalg::matmul::matmul};
use npb_linalg::lanes::{LaneConditional, LaneGaussian, LaneScratch};
use pulp::Arch;

use crate::IqgmeError;
use crate::rows::{Block, Pattern, Rows};
use forms::{Centre, OneByOne};
use memory::Memory;
use softmax::Lanes;

/// Rows of features, and of components (lanes), are padded to a multiple of this number: the widest register.
pub(crate) const REGISTER: usize = 8;

/// The padded length of a row.
pub(crate) fn padded(len: usize) -> usize {
    len.max(1).next_multiple_of(REGISTER)
}

/// `L_h` of all components: as matrices and in lanes.
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

/// Linear terms of the components, a sum over the utilities k: `sum_k t_k (c_hk + a_hk'd) - b_h'd`.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    stride: usize,
    n_utilities: usize,
    /// `c_hk`: component, utility.
    intercepts: Vec<f64>,
    /// `a_hk`, one padded row for each component and utility.
    slopes: Memory,
    /// `b_h`, one padded row for each component.
    offset: Memory,
}

impl Linear {
    /// No terms yet.
    pub(crate) fn zeros(n_features: usize, n_components: usize, n_utilities: usize) -> Self {
        let stride = padded(n_features);
        Self {
            stride,
            n_utilities,
            intercepts: vec![0.0; n_components * n_utilities],
            slopes: Memory::zeros(stride * n_components * n_utilities),
            offset: Memory::zeros(stride * n_components),
        }
    }

    /// Sets `c_hk` and `a_hk`, and adds to `b_h`.
    pub(crate) fn add(
        &mut self,
        h: usize,
        k: usize,
        intercept: f64,
        slope: &[f64],
        offset: &[f64],
    ) {
        let expert = h * self.n_utilities + k;
        self.intercepts[expert] = intercept;
        self.slopes.part_mut(expert, self.stride)[..slope.len()].copy_from_slice(slope);
        let sums = self.offset.part_mut(h, self.stride);
        for (sum, value) in sums.iter_mut().zip(offset) {
            *sum += value;
        }
    }

    /// `c_hk`, by utility.
    pub(crate) fn intercepts(&self, h: usize) -> &[f64] {
        &self.intercepts[h * self.n_utilities..][..self.n_utilities]
    }

    /// `a_hk`, padded with zeros.
    pub(crate) fn slope(&self, h: usize, k: usize) -> &[f64] {
        self.slopes.part(h * self.n_utilities + k, self.stride)
    }

    /// `a_hk` of all utilities, one after the other, padded with zeros.
    fn slopes(&self, h: usize) -> &[f64] {
        self.slopes.part(h, self.n_utilities * self.stride)
    }

    /// `b_h`, padded with zeros.
    pub(crate) fn offset(&self, h: usize) -> &[f64] {
        self.offset.part(h, self.stride)
    }
}

/// Rows with missing features, of one block, as seen from each component. Memory is reused from block to block, of rows with the same features.
#[derive(Debug)]
pub(crate) struct Deviations {
    arch: Arch,
    n_features: usize,
    n_rows: usize,
    n_components: usize,
    n_utilities: usize,
    /// The rows, padded with zeros; zero where missing.
    rows: Memory,
    /// Both forms of one component, by row.
    forms: [Memory; 2],
    /// 1 where observed, 0 where missing, in the order of `rows`.
    observed: Memory,
    /// The mean of one component, padded.
    mean: Memory,
    /// Rows minus the component's mean, zero where missing: component, row, feature. In their place [`Self::complete`] puts completed rows.
    centred: Memory,
    /// `L_h d0`, in the same order.
    product: Memory,
    /// By row and lane.
    quadratic: Memory,
    /// By row, utility and lane.
    slopes: Memory,
    /// Missing features x lanes: the residual, then the conditional mean, of the row conditioned last.
    residual: Memory,
    /// `r' L_mm^-1 r`, by lane.
    explained: Memory,
}

impl Default for Deviations {
    fn default() -> Self {
        Self {
            arch: Arch::new(),
            n_features: 0,
            n_rows: 0,
            n_components: 0,
            n_utilities: 0,
            rows: Memory::default(),
            forms: [Memory::default(), Memory::default()],
            observed: Memory::default(),
            mean: Memory::default(),
            centred: Memory::default(),
            product: Memory::default(),
            quadratic: Memory::default(),
            slopes: Memory::default(),
            residual: Memory::default(),
            explained: Memory::default(),
        }
    }
}

impl Deviations {
    /// Length of a padded row of features.
    fn stride(&self) -> usize {
        padded(self.n_features)
    }

    /// Length of a padded row of components.
    fn lane_stride(&self) -> usize {
        padded(self.n_components)
    }

    /// Rows of components.
    pub(crate) fn lanes(&self) -> Lanes {
        Lanes {
            arch: self.arch,
            len: self.lane_stride(),
        }
    }

    /// `d0'L_h d0 + 2 b_h'd0` of all rows: row, lane.
    pub(crate) fn quadratics(&self) -> &[f64] {
        self.quadratic.get(self.n_rows * self.lane_stride())
    }

    /// `c_hk + a_hk'd0` of all rows: row, utility, lane. With `d` for `d0` where [`Self::complete`] was called.
    pub(crate) fn slopes(&self) -> &[f64] {
        let size = self.n_rows * self.n_utilities * self.lane_stride();
        self.slopes.get(size)
    }

    /// A row of the block, padded with zeros; zero where missing.
    pub(crate) fn row(&self, i: usize) -> &[f64] {
        self.rows.part(i, self.stride())
    }

    /// The rows of the block completed by component `h`, where [`Self::complete`] was called; padded with zeros.
    pub(crate) fn completed(&self, h: usize) -> &[f64] {
        self.centred.part(h, self.n_rows * self.stride())
    }

    /// Loads a block: the forms of the observed features of all its rows.
    pub(crate) fn load(
        &mut self,
        rows: &Rows,
        block: &Block,
        means: &Mat<f64>,
        quadratics: &Quadratics,
        linear: Option<&Linear>,
    ) {
        (self.n_features, self.n_components) = (rows.n_features, means.ncols());
        self.n_rows = block.rows.len();
        self.n_utilities = linear.map_or(0, |linear| linear.n_utilities);
        self.load_rows(rows, block);
        let table = self.n_rows * self.lane_stride();
        self.quadratic.reserve(table);
        self.slopes.reserve(table * self.n_utilities);
        self.load_observed(rows, block);
        for h in 0..self.n_components {
            let mean = means.col_as_slice(h);
            let coefficients = linear.map(|linear| [linear.slopes(h), linear.offset(h)]);
            self.centre(h, mean);
            self.multiply(h, &quadratics.precision[h]);
            self.one_by_one(h, coefficients);
            self.store_forms(h, linear.map_or(&[], |linear| linear.intercepts(h)));
        }
    }

    fn load_rows(&mut self, rows: &Rows, block: &Block) {
        let stride = self.stride();
        self.rows.reserve(self.n_rows * stride);
        let to = self.rows.get_mut(self.n_rows * stride);
        for (row, position) in to.chunks_exact_mut(stride).zip(block.rows.clone()) {
            row[..rows.n_features].copy_from_slice(rows.row(position));
        }
    }

    fn load_observed(&mut self, rows: &Rows, block: &Block) {
        let (stride, size) = (self.stride(), self.n_rows * self.stride());
        self.mean.reserve(stride);
        self.centred.reserve(self.n_components * size);
        self.product.reserve(self.n_components * size);
        self.observed.reserve(size);
        let observed = self.observed.get_mut(size);
        observed.fill(1.0);
        for group in &rows.groups[block.groups.clone()] {
            for position in group.rows.clone() {
                let row = &mut observed[(position - block.rows.start) * stride..];
                for &j in &rows.patterns[group.pattern].missing {
                    row[j] = 0.0;
                }
            }
        }
    }

    /// `d0` of component `h`.
    fn centre(&mut self, h: usize, mean: &[f64]) {
        let (size, stride) = (self.n_rows * self.stride(), self.stride());
        self.mean.get_mut(stride)[..mean.len()].copy_from_slice(mean);
        self.arch.dispatch(Centre {
            rows: self.rows.get(size),
            observed: self.observed.get(size),
            mean: self.mean.get(stride),
            d: self.centred.part_mut(h, size),
        });
    }

    /// `L_h d0`, rows as columns.
    fn multiply(&mut self, h: usize, precision: &Mat<f64>) {
        let (n, p, stride) = (self.n_rows, self.n_features, self.stride());
        let product = self.product.part_mut(h, n * stride);
        let centred = self.centred.part(h, n * stride);
        matmul(
            MatMut::from_column_major_slice_with_stride_mut(product, p, n, stride),
            Accum::Replace,
            precision.as_ref(),
            MatRef::from_column_major_slice_with_stride(centred, p, n, stride),
            1.0,
            Par::Seq,
        );
    }

    fn one_by_one(&mut self, h: usize, coefficients: Option<[&[f64]; 2]>) {
        let (n, size) = (self.n_rows, self.n_rows * self.stride());
        let sizes = [n, n * self.n_utilities];
        for (form, size) in self.forms.iter_mut().zip(sizes) {
            form.reserve(size);
        }
        let [quadratic, slopes] = &mut self.forms;
        self.arch.dispatch(OneByOne {
            d: self.centred.part(h, size),
            g: self.product.part(h, size),
            linear: coefficients,
            out: [quadratic.get_mut(sizes[0]), slopes.get_mut(sizes[1])],
        });
    }

    /// From one component by row to one row by component.
    fn store_forms(&mut self, h: usize, intercepts: &[f64]) {
        let (n, lanes, n_utilities) = (self.n_rows, self.lane_stride(), self.n_utilities);
        let [quadratic, slopes] = &self.forms;
        let to = self.quadratic.get_mut(n * lanes);
        for (row, value) in to.chunks_exact_mut(lanes).zip(quadratic.get(n)) {
            row[h] = *value;
        }
        let to = self.slopes.get_mut(n * n_utilities * lanes);
        let intercepts = intercepts.iter().cycle();
        let values = slopes.get(n * n_utilities).iter().zip(intercepts);
        for (row, (value, intercept)) in to.chunks_exact_mut(lanes).zip(values) {
            row[h] = intercept + value;
        }
    }

    /// The conditional means of the missing features of row `i`, minus the component's means, for all components: see [`Self::shift`].
    /// Afterwards [`Self::explained`] holds `r' L_mm^-1 r` with `r = sum_k t_k a_k,m - b_m - (L_h d0)_m`.
    pub(crate) fn condition(
        &mut self,
        i: usize,
        missing: &[usize],
        given: &mut LaneConditional<'_>,
        linear: Option<(&Linear, &[f64])>,
    ) {
        let (lanes, stride) = (self.lane_stride(), self.stride());
        self.residual.reserve(missing.len() * lanes);
        self.explained.reserve(lanes);
        let residual = self.residual.get_mut(missing.len() * lanes);
        for h in 0..self.n_components {
            let product = self.product.part(h * self.n_rows + i, stride);
            for (k, &j) in missing.iter().enumerate() {
                residual[k * lanes + h] = -product[j];
            }
            if let Some((linear, t)) = linear {
                let offset = linear.offset(h);
                for (k, &j) in missing.iter().enumerate() {
                    residual[k * lanes + h] -= offset[j];
                }
                for (u, t) in t.iter().enumerate() {
                    let slope = linear.slope(h, u);
                    for (k, &j) in missing.iter().enumerate() {
                        residual[k * lanes + h] += t * slope[j];
                    }
                }
            }
        }
        given.solve(residual, self.explained.get_mut(lanes));
    }

    /// `r' L_mm^-1 r` of the row conditioned last, by lane.
    pub(crate) fn explained(&self) -> &[f64] {
        self.explained.get(self.lane_stride())
    }

    /// Adds `slope`'s inner product with the conditional means of the row conditioned last to [`Self::slopes`] of row `i`, one utility.
    /// `slope`: missing feature, lane.
    pub(crate) fn complete_slopes(&mut self, i: usize, slope: &[f64]) {
        let lanes = self.lane_stride();
        let to = self.slopes.part_mut(i, lanes);
        let shifts = self.residual.get(slope.len()).chunks_exact(lanes);
        let each = shifts.zip(slope.chunks_exact(lanes));
        self.arch.dispatch(
            #[inline(always)]
            || each.for_each(|(shift, slope)| add_product(to, slope, shift)),
        );
    }

    /// Adds `by` (by lane) times `tilt` (missing feature, lane) to the conditional means of the row conditioned last.
    pub(crate) fn shift_by(&mut self, by: &[f64], tilt: &[f64]) {
        let lanes = self.lane_stride();
        let shifts = self.residual.get_mut(tilt.len()).chunks_exact_mut(lanes);
        let each = shifts.zip(tilt.chunks_exact(lanes));
        self.arch.dispatch(
            #[inline(always)]
            || each.for_each(|(shift, tilt)| add_product(shift, by, tilt)),
        );
    }

    /// Conditional mean of the `k`th missing feature of the row conditioned last, minus the component's mean.
    pub(crate) fn shift(&self, k: usize, h: usize) -> f64 {
        self.residual.part(k, self.lane_stride())[h]
    }

    /// Completes row `i`, conditioned last, for component `h`: in [`Self::completed`] and [`Self::slopes`].
    pub(crate) fn complete(
        &mut self,
        i: usize,
        h: usize,
        missing: &[usize],
        mean: &[f64],
        linear: Option<&Linear>,
    ) {
        let (lanes, stride) = (self.lane_stride(), self.stride());
        let row = self.centred.part_mut(h * self.n_rows + i, stride);
        row.copy_from_slice(self.rows.part(i, stride));
        for (k, &j) in missing.iter().enumerate() {
            row[j] = mean[j] + self.residual.part(k, lanes)[h];
        }
        let Some(linear) = linear else { return };
        for u in 0..self.n_utilities {
            let slope = linear.slope(h, u);
            let shifts = missing
                .iter()
                .enumerate()
                .map(|(k, &j)| slope[j] * self.residual.part(k, lanes)[h]);
            self.slopes.part_mut(i * self.n_utilities + u, lanes)[h] += shifts.sum::<f64>();
        }
    }
}

/// `to += a b`, number by number.
#[inline(always)]
fn add_product(to: &mut [f64], a: &[f64], b: &[f64]) {
    for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
        *to += a * b;
    }
}

/// The instruction sets this machine has.
#[cfg(test)]
pub(crate) fn archs() -> Vec<Arch> {
    let mut archs = vec![Arch::Scalar];
    #[cfg(target_arch = "x86_64")]
    archs.extend(pulp::x86::V3::try_new().map(Arch::V3));
    archs.push(Arch::new());
    archs
}
