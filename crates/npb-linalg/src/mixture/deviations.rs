//! Rows with holes of one block, given each component: quadratic and linear forms, and the missing features given the observed ones.

use faer::{Accum, ColRef, Mat, MatMut, MatRef, Par, linalg::matmul::matmul};
use pulp::Arch;

use super::forms::{Centre, OneByOne};
use super::memory::{Memory, padded};
use super::rows::{Block, Pattern, SortedRows};
use super::softmax::Lanes;
use crate::NotPositiveDefinite;
use crate::lanes::{ComponentNotPositiveDefinite, LaneConditional, LaneGaussian, LaneScratch};

/// `L_h` of all components: as matrices and in lanes.
#[derive(Clone, Debug)]
pub struct Quadratics {
    precision: Vec<Mat<f64>>,
    bank: LaneGaussian,
}

impl Quadratics {
    /// On failure: the component whose matrix is not positive definite.
    pub fn new(precision: Vec<Mat<f64>>) -> Result<Self, (usize, NotPositiveDefinite)> {
        let mut bank = LaneGaussian::new(precision[0].nrows(), precision.len());
        for (h, matrix) in precision.iter().enumerate() {
            bank.set_precision(h, matrix.as_ref())
                .map_err(|source| (h, source))?;
        }
        Ok(Self { precision, bank })
    }

    /// `L_h^-1`.
    pub fn covariance(&self, h: usize) -> Mat<f64> {
        self.bank.covariance(h)
    }

    /// The missing features of a pattern given the observed ones, for all components.
    pub fn condition<'a>(
        &'a self,
        pattern: &'a Pattern,
        scratch: &'a mut LaneScratch,
    ) -> Result<LaneConditional<'a>, ComponentNotPositiveDefinite> {
        self.bank
            .condition(&pattern.observed, &pattern.missing, scratch)
    }
}

/// Linear terms of the components, a sum over the utilities k: `sum_k t_k (c_hk + a_hk'd) - b_h'd`.
#[derive(Clone, Debug)]
pub struct Linear {
    stride: usize,
    n_utilities: usize,
    /// `c_hk`: component, utility.
    intercepts: Vec<f64>,
    /// `a_hk`, one padded row for each component and utility.
    slopes: Memory,
    /// `b_h`, one padded row for each component.
    offset: Memory,
    /// How far linear terms move the means: `L_h^-1 a_hk` utility by utility, then `L_h^-1 b_h`; feature, lane. See [`Self::settle`].
    shifts: Memory,
}

impl Linear {
    /// No terms yet.
    pub fn zeros(n_features: usize, n_components: usize, n_utilities: usize) -> Self {
        let stride = padded(n_features);
        Self {
            stride,
            n_utilities,
            intercepts: vec![0.0; n_components * n_utilities],
            slopes: Memory::zeros(stride * n_components * n_utilities),
            offset: Memory::zeros(stride * n_components),
            shifts: Memory::default(),
        }
    }

    /// Completes terms to which nothing is added any more.
    pub fn finalise(&mut self, quadratics: &Quadratics) {
        let (p, lanes) = (quadratics.bank.dim(), quadratics.bank.lanes());
        self.shifts = Memory::zeros((self.n_utilities + 1) * p * lanes);
        for h in 0..quadratics.bank.components() {
            let covariance = quadratics.covariance(h);
            for k in 0..=self.n_utilities {
                let term = if k < self.n_utilities {
                    self.slopes.part(h * self.n_utilities + k, self.stride)
                } else {
                    self.offset.part(h, self.stride)
                };
                let shift = &covariance * ColRef::from_slice(&term[..p]);
                let to = self.shifts.part_mut(k, p * lanes);
                for (lanes, shift) in to.chunks_exact_mut(lanes).zip(shift.iter()) {
                    lanes[h] = *shift;
                }
            }
        }
    }

    /// Sets `c_hk` and `a_hk`, and adds to `b_h`.
    pub fn add(&mut self, h: usize, k: usize, intercept: f64, slope: &[f64], offset: &[f64]) {
        let expert = h * self.n_utilities + k;
        self.intercepts[expert] = intercept;
        self.slopes.part_mut(expert, self.stride)[..slope.len()].copy_from_slice(slope);
        let sums = self.offset.part_mut(h, self.stride);
        for (sum, value) in sums.iter_mut().zip(offset) {
            *sum += value;
        }
    }

    /// `c_hk`, by utility.
    #[inline]
    pub fn intercepts(&self, h: usize) -> &[f64] {
        &self.intercepts[h * self.n_utilities..][..self.n_utilities]
    }

    /// `a_hk`, padded with zeros.
    #[inline]
    pub fn slope(&self, h: usize, k: usize) -> &[f64] {
        self.slopes.part(h * self.n_utilities + k, self.stride)
    }

    /// `a_hk` of all utilities, one after the other, padded with zeros.
    #[inline]
    fn slopes(&self, h: usize) -> &[f64] {
        self.slopes.part(h, self.n_utilities * self.stride)
    }

    /// `b_h`, padded with zeros.
    #[inline]
    pub fn offset(&self, h: usize) -> &[f64] {
        self.offset.part(h, self.stride)
    }
}

/// Rows with missing features, of one block, as seen from each component. Memory is reused from block to block, of rows with the same features.
#[derive(Debug)]
pub struct Deviations {
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
    /// Where the observed block of a pattern is factored: how far linear terms move the means (feature, lane), the observed features less their
    /// means, and the missing ones, by feature and lane.
    moved: Memory,
    seen: Memory,
    unseen: Memory,
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
            moved: Memory::default(),
            seen: Memory::default(),
            unseen: Memory::default(),
        }
    }
}

impl Deviations {
    /// Length of a padded row of features.
    #[inline]
    fn stride(&self) -> usize {
        padded(self.n_features)
    }

    /// Length of a padded row of components.
    #[inline]
    fn lane_stride(&self) -> usize {
        padded(self.n_components)
    }

    /// Rows of components.
    #[inline]
    pub fn lanes(&self) -> Lanes {
        Lanes {
            arch: self.arch,
            len: self.lane_stride(),
        }
    }

    /// `d0'L_h d0 + 2 b_h'd0` of all rows: row, lane.
    #[inline]
    pub fn quadratics(&self) -> &[f64] {
        self.quadratic.get(self.n_rows * self.lane_stride())
    }

    /// `c_hk + a_hk'd0` of all rows: row, utility, lane. With `d` for `d0` where [`Self::complete`] was called.
    #[inline]
    pub fn slopes(&self) -> &[f64] {
        let size = self.n_rows * self.n_utilities * self.lane_stride();
        self.slopes.get(size)
    }

    /// A row of the block, padded with zeros; zero where missing.
    #[inline]
    pub fn row(&self, i: usize) -> &[f64] {
        self.rows.part(i, self.stride())
    }

    /// The rows of the block completed by component `h`, where [`Self::complete`] was called; padded with zeros.
    #[inline]
    pub fn completed(&self, h: usize) -> &[f64] {
        self.centred.part(h, self.n_rows * self.stride())
    }

    /// Loads a block: the forms of the observed features of all its rows.
    pub fn load(
        &mut self,
        rows: &SortedRows,
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

    fn load_rows(&mut self, rows: &SortedRows, block: &Block) {
        let stride = self.stride();
        self.rows.reserve(self.n_rows * stride);
        let to = self.rows.get_mut(self.n_rows * stride);
        for (row, position) in to.chunks_exact_mut(stride).zip(block.rows.clone()) {
            row[..rows.n_features].copy_from_slice(rows.row(position));
        }
    }

    fn load_observed(&mut self, rows: &SortedRows, block: &Block) {
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
    pub fn condition(
        &mut self,
        i: usize,
        pattern: &Pattern,
        given: &mut LaneConditional<'_>,
        linear: Option<(&Linear, &[f64])>,
    ) {
        self.load_residual(i, &pattern.missing, linear);
        let (lanes, size) = (
            self.lane_stride(),
            pattern.missing.len() * self.lane_stride(),
        );
        if !given.factors_observed() {
            self.explained.reserve(lanes);
            given.solve(self.residual.get_mut(size), self.explained.get_mut(lanes));
            return;
        }
        self.move_means(linear);
        self.load_seen(Some(i), &pattern.observed);
        self.regress(pattern, given);
        let explained = self.explained.get_mut(lanes);
        inner_products(
            self.arch,
            self.residual.get(size),
            self.unseen.get(size),
            explained,
        );
        std::mem::swap(&mut self.residual, &mut self.unseen);
    }

    /// `u = L_mm^-1 a_m` and `a_m' u` of the only utility. `slope`, `a_m`, and `tilt`, `u`: missing feature, lane.
    pub fn tilt(
        &mut self,
        pattern: &Pattern,
        given: &mut LaneConditional<'_>,
        linear: &Linear,
        slope: &[f64],
        tilt: &mut [f64],
        share: &mut [f64],
    ) {
        if !given.factors_observed() {
            tilt.copy_from_slice(slope);
            given.solve(tilt, share);
            return;
        }
        let size = self.n_features * self.lane_stride();
        self.moved.reserve(size);
        self.moved
            .get_mut(size)
            .copy_from_slice(linear.shifts.part(0, size));
        self.load_seen(None, &pattern.observed);
        self.regress(pattern, given);
        tilt.copy_from_slice(self.unseen.get(tilt.len()));
        inner_products(self.arch, slope, tilt, share);
    }

    /// `r` of [`Self::condition`].
    fn load_residual(&mut self, i: usize, missing: &[usize], linear: Option<(&Linear, &[f64])>) {
        let (lanes, stride) = (self.lane_stride(), self.stride());
        self.residual.reserve(missing.len() * lanes);
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
    }

    /// `L_h^-1 (sum_k t_k a_hk - b_h)`.
    fn move_means(&mut self, linear: Option<(&Linear, &[f64])>) {
        let size = self.n_features * self.lane_stride();
        self.moved.reserve(size);
        let moved = self.moved.get_mut(size);
        moved.fill(0.0);
        let Some((linear, t)) = linear else { return };
        for (k, t) in t.iter().chain(&[-1.0]).enumerate() {
            let shift = linear.shifts.part(k, size).iter();
            moved
                .iter_mut()
                .zip(shift)
                .for_each(|(to, shift)| *to += t * shift);
        }
    }

    /// Observed features less the moved means: of row `i`, or of one that is at the component's means.
    fn load_seen(&mut self, i: Option<usize>, observed: &[usize]) {
        let (lanes, stride) = (self.lane_stride(), self.stride());
        self.seen.reserve(observed.len() * lanes);
        let seen = self.seen.get_mut(observed.len() * lanes);
        for (seen, &j) in seen.chunks_exact_mut(lanes).zip(observed) {
            for (seen, moved) in seen.iter_mut().zip(self.moved.part(j, lanes)) {
                *seen = -moved;
            }
            if let Some(i) = i {
                for (h, seen) in seen[..self.n_components].iter_mut().enumerate() {
                    *seen += self.centred.part(h * self.n_rows + i, stride)[j];
                }
            }
        }
    }

    /// Conditional means of the missing features, minus the component's means, in `unseen`.
    fn regress(&mut self, pattern: &Pattern, given: &mut LaneConditional<'_>) {
        let lanes = self.lane_stride();
        let (o, m) = (
            pattern.observed.len() * lanes,
            pattern.missing.len() * lanes,
        );
        self.unseen.reserve(m);
        self.explained.reserve(lanes);
        let (seen, unseen) = (self.seen.get_mut(o), self.unseen.get_mut(m));
        // What it makes of the observed features is not asked for.
        given.regress(seen, unseen, self.explained.get_mut(lanes));
        for (unseen, &j) in unseen.chunks_exact_mut(lanes).zip(&pattern.missing) {
            let moved = self.moved.part(j, lanes);
            unseen
                .iter_mut()
                .zip(moved)
                .for_each(|(to, moved)| *to += moved);
        }
    }

    /// `r' L_mm^-1 r` of the row conditioned last, by lane.
    #[inline]
    pub fn explained(&self) -> &[f64] {
        self.explained.get(self.lane_stride())
    }

    /// Adds `slope`'s inner product with the conditional means of the row conditioned last to [`Self::slopes`] of row `i`, one utility.
    /// `slope`: missing feature, lane.
    pub fn complete_slopes(&mut self, i: usize, slope: &[f64]) {
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
    pub fn shift_by(&mut self, by: &[f64], tilt: &[f64]) {
        let lanes = self.lane_stride();
        let shifts = self.residual.get_mut(tilt.len()).chunks_exact_mut(lanes);
        let each = shifts.zip(tilt.chunks_exact(lanes));
        self.arch.dispatch(
            #[inline(always)]
            || each.for_each(|(shift, tilt)| add_product(shift, by, tilt)),
        );
    }

    /// Conditional mean of the `k`th missing feature of the row conditioned last, minus the component's mean.
    #[inline]
    pub fn shift(&self, k: usize, h: usize) -> f64 {
        self.residual.part(k, self.lane_stride())[h]
    }

    /// Completes row `i`, conditioned last, for component `h`: in [`Self::completed`] and [`Self::slopes`].
    pub fn complete(
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

/// `sum_k a_k b_k`, by lane.
fn inner_products(arch: Arch, a: &[f64], b: &[f64], to: &mut [f64]) {
    to.fill(0.0);
    let lanes = to.len();
    let each = a.chunks_exact(lanes).zip(b.chunks_exact(lanes));
    arch.dispatch(
        #[inline(always)]
        || each.for_each(|(a, b)| add_product(to, a, b)),
    );
}

/// `to += a b`, number by number.
#[inline(always)]
fn add_product(to: &mut [f64], a: &[f64], b: &[f64]) {
    for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
        *to += a * b;
    }
}

#[cfg(test)]
mod tests {
    use crate::Cholesky;

    use super::*;

    const N_ROWS: usize = 24;
    const P: usize = 8;
    const N: usize = 3;
    const T: f64 = 0.7;

    fn value(k: usize) -> f64 {
        (k as f64 * 0.7 + (k * k) as f64 * 0.01).sin()
    }

    /// None to all of the cells of a row are missing.
    fn rows() -> SortedRows {
        let observed: Vec<bool> = (0..N_ROWS * P)
            .map(|k| 0.5 + 0.6 * value(3 * k + 1) < (k / P) as f64 / N_ROWS as f64)
            .collect();
        let value = |k: usize| if observed[k] { value(k) } else { 0.0 };
        let values: Vec<f64> = (0..N_ROWS * P).map(value).collect();
        let mut patterns: Vec<(Pattern, Vec<usize>)> = Vec::new();
        for row in 0..N_ROWS {
            let (seen, missing) = (0..P).partition(|&j| observed[row * P + j]);
            let pattern = Pattern {
                observed: seen,
                missing,
            };
            match patterns
                .iter_mut()
                .find(|(p, _)| p.missing == pattern.missing)
            {
                Some((_, rows)) => rows.push(row),
                None => patterns.push((pattern, vec![row])),
            }
        }
        SortedRows::new(P, patterns, |row| &values[row * P..][..P], |_| true)
    }

    fn precision(h: usize) -> Mat<f64> {
        Mat::from_fn(P, P, |i, j| {
            let spread = value(100 * h + i * j + i + j);
            if i == j { 4.0 + spread } else { 0.4 * spread }
        })
    }

    #[inline]
    fn slope(h: usize) -> Vec<f64> {
        (0..P).map(|j| value(h * P + j)).collect()
    }

    #[inline]
    fn offset(h: usize) -> Vec<f64> {
        (0..P).map(|j| value(h + 9 * j)).collect()
    }

    fn mean(j: usize, h: usize) -> f64 {
        0.5 * value(7 * j + h)
    }

    /// `L_mm^-1 r` and `r' L_mm^-1 r`.
    fn solved(h: usize, missing: &[usize], r: &[f64]) -> (Vec<f64>, f64) {
        let l = precision(h);
        let block = Mat::from_fn(r.len(), r.len(), |i, j| l[(missing[i], missing[j])]);
        let mut x = r.to_vec();
        Cholesky::new(block.as_ref()).unwrap().solve(&mut x);
        let square = x.iter().zip(r).map(|(x, r)| x * r).sum();
        (x, square)
    }

    fn near(found: f64, wanted: f64) {
        assert!(
            (found - wanted).abs() < 1e-12 * (1.0 + wanted.abs()),
            "{found} {wanted}"
        );
    }

    /// Whichever block of a pattern is factored.
    #[test]
    fn missing_features_are_as_the_precisions_have_them() {
        let rows = rows();
        let quadratics = Quadratics::new((0..N).map(precision).collect()).unwrap();
        let mut linear = Linear::zeros(P, N, 1);
        (0..N).for_each(|h| linear.add(h, 0, 0.0, &slope(h), &offset(h)));
        linear.finalise(&quadratics);
        let means = Mat::from_fn(P, N, mean);
        let (mut deviations, mut lanes) = (Deviations::default(), LaneScratch::default());
        let mut sides = [0, 0];
        for block in rows.blocks.iter().filter(|block| !block.complete) {
            deviations.load(&rows, block, &means, &quadratics, Some(&linear));
            for group in &rows.groups[block.groups.clone()] {
                let pattern = &rows.patterns[group.pattern];
                let missing = &pattern.missing;
                let m = missing.len();
                let mut given = quadratics.condition(pattern, &mut lanes).unwrap();
                sides[usize::from(given.factors_observed())] += 1;
                let n_lanes = deviations.lanes().len;
                let mut slopes = vec![0.0; m * n_lanes];
                for h in 0..N {
                    (0..m).for_each(|k| slopes[k * n_lanes + h] = slope(h)[missing[k]]);
                }
                let (mut tilt, mut share) = (slopes.clone(), vec![0.0; n_lanes]);
                deviations.tilt(pattern, &mut given, &linear, &slopes, &mut tilt, &mut share);
                for h in 0..N {
                    let a: Vec<f64> = missing.iter().map(|&j| slope(h)[j]).collect();
                    let (wanted, square) = solved(h, missing, &a);
                    (0..m).for_each(|k| near(tilt[k * n_lanes + h], wanted[k]));
                    near(share[h], square);
                }
                for position in group.rows.clone() {
                    let i = position - block.rows.start;
                    deviations.condition(i, pattern, &mut given, Some((&linear, &[T])));
                    for h in 0..N {
                        let l = precision(h);
                        let residual = |&j: &usize| {
                            let seen = pattern.observed.iter();
                            let product =
                                |&o: &usize| l[(j, o)] * (rows.row(position)[o] - mean(o, h));
                            T * slope(h)[j] - offset(h)[j] - seen.map(product).sum::<f64>()
                        };
                        let r: Vec<f64> = missing.iter().map(residual).collect();
                        let (wanted, square) = solved(h, missing, &r);
                        (0..m).for_each(|k| near(deviations.shift(k, h), wanted[k]));
                        near(deviations.explained()[h], square);
                    }
                }
            }
        }
        assert!(sides.iter().all(|side| *side > 2), "{sides:?}");
    }
}
