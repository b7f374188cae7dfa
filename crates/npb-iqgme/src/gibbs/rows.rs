//! What belongs to single rows: label, utilities and missing features, drawn in parallel block by block.
//!
//! Given the parameters and the slice variables `u_i ~ U(0, pi_{z_i})`, a label is drawn among the components with `pi_h > u_i`, missing features integrated
//! out: `p(x_o | h)` is Gaussian, and the scores `s = w'E[x^b | x_o]` of the experts share the covariance `V = W_m C W_m'`. With one utility it is
//! integrated out as well, `Phi(y s / sqrt(1 + V))`; several are taken as they are, `N(t; s, I + V)`. Then the missing features are drawn given label and
//! utilities, by a draw that ignores the utilities and is moved by what it gets wrong, `C W_m' (I + V)^-1 (t - t*)`.

use npb_infer::parallel;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_linalg::lanes::{LaneConditional, LaneScratch};
use npb_linalg::mixture::{
    Block, Columns, Deviations, Form, Group, Linear, LnTotals, Memory, Pattern, Quadratics,
};
use npb_priors::dist::{multinomial_probit, pick, sample_probit};
use npb_priors::special::vector::ln_normal_cdf;
use npb_priors::special::{LN_SQRT_2PI, ln_phi};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use super::state::GibbsParameters;
use crate::e_step::first;
use crate::rows::Rows;
use crate::state::dot;
use crate::{IqgmeError, Result};

/// The parameters in the form that rows want.
pub(super) struct Laws<'a> {
    parameters: &'a GibbsParameters,
    weights: Vec<f64>,
    means: Mat<f64>,
    /// `(ln|Lambda_h| - P ln(2 pi)) / 2`.
    constant: Vec<f64>,
    /// `w_b + w_x' mu`: component, utility.
    intercepts: Vec<f64>,
    n_utilities: usize,
    complete: Vec<Form>,
    incomplete: Option<(Quadratics, Linear)>,
}

impl<'a> Laws<'a> {
    pub(super) fn new(parameters: &'a GibbsParameters, rows: &Rows, sweep: u64) -> Result<Self> {
        let (p, n) = (rows.n_features, parameters.components.len());
        let n_utilities = parameters.n_utilities();
        let means = Mat::from_fn(p, n, |j, h| parameters.components[h].mean[j]);
        let mut laws = Self {
            parameters,
            weights: parameters.weights().0,
            constant: Vec::with_capacity(n),
            intercepts: Vec::with_capacity(parameters.experts.len()),
            n_utilities,
            complete: Vec::new(),
            incomplete: None,
            means,
        };
        let failed = IqgmeError::at(sweep, "precision");
        let mut linear = Linear::zeros(p, n, n_utilities);
        let some_complete = rows.blocks.iter().any(|block| block.complete);
        for (h, component) in parameters.components.iter().enumerate() {
            let factor = Cholesky::new(component.precision.as_ref()).map_err(|e| failed((h, e)))?;
            let constant = 0.5 * factor.ln_det() - p as f64 * LN_SQRT_2PI;
            laws.constant.push(constant);
            let mut slopes = Vec::with_capacity(p * n_utilities);
            for k in 0..n_utilities {
                let (slope, last) = laws.expert(h, k).split_at(p);
                let intercept = last[0] + dot(slope, &component.mean);
                slopes.extend_from_slice(slope);
                linear.add(h, k, intercept, slope, &[]);
                laws.intercepts.push(intercept);
            }
            if some_complete {
                let form = Form::with_factor(&component.mean, &factor, &slopes);
                laws.complete.push(form);
            }
        }
        if rows.blocks.iter().any(|block| !block.complete) {
            let precisions = parameters.components.iter().map(|c| c.precision.clone());
            let quadratics = Quadratics::new(precisions.collect()).map_err(failed)?;
            laws.incomplete = Some((quadratics, linear));
        }
        Ok(laws)
    }

    fn expert(&self, h: usize, k: usize) -> &'a [f64] {
        &self.parameters.experts[h * self.n_utilities + k]
    }

    fn n_components(&self) -> usize {
        self.weights.len()
    }

    /// Labels are drawn by likelihood alone, from the components that the slice variable `u` of a row leaves.
    fn admit(&self, h: usize, u: f64) -> f64 {
        let admitted = self.weights[h] >= u;
        if admitted { 0.0 } else { f64::NEG_INFINITY }
    }
}

/// What is drawn for some of the rows, by sorted position.
pub(super) struct Drawn<'a> {
    pub(super) labels: &'a mut [u32],
    /// Row, utility.
    pub(super) utilities: &'a mut [f64],
    /// Row, feature; missing ones filled in.
    pub(super) values: &'a mut [f64],
}

impl Drawn<'_> {
    /// Takes the first `n` rows out.
    fn take(&mut self, n: usize, n_utilities: usize, n_features: usize) -> Self {
        Self {
            labels: first(&mut self.labels, n),
            utilities: first(&mut self.utilities, n * n_utilities),
            values: first(&mut self.values, n * n_features),
        }
    }
}

/// Slice variables `u_i`, uniform up to the weight of the row's component, by sorted position.
pub(super) fn slices<R: Rng>(
    rows: &Rows,
    labels: &[u32],
    weights: &[f64],
    rng: impl Fn(u64) -> R + Sync,
) -> Vec<f64> {
    let of_block = |(number, block): (usize, &Block)| {
        let mut rng = rng(number as u64);
        let labels = &labels[block.rows.clone()];
        // In (0, 1]: never zero, at which no stick would be short enough.
        let slice = |label: &u32| weights[*label as usize] * (1.0 - rng.random::<f64>());
        labels.iter().map(slice).collect::<Vec<f64>>()
    };
    let blocks: Vec<Vec<f64>> = parallel::map(rows.blocks.iter().enumerate(), of_block);
    blocks.concat()
}

/// Draws label, utilities and missing features of every row. Returns the log-likelihood of observed features and labels, given the labels of components.
pub(super) fn draw<R: Rng>(
    rows: &Rows,
    laws: &Laws<'_>,
    slices: &[f64],
    mut drawn: Drawn<'_>,
    sweep: u64,
    rng: impl Fn(u64) -> R + Sync,
) -> Result<f64> {
    let mut work = Vec::with_capacity(rows.blocks.len());
    for (number, block) in rows.blocks.iter().enumerate() {
        let here = drawn.take(block.rows.len(), laws.n_utilities, rows.n_features);
        work.push((number, block, here));
    }
    let fits: Vec<Result<f64>> =
        parallel::map_with(work, Scratch::default, |scratch, (number, block, drawn)| {
            let mut worker = Worker {
                rows,
                laws,
                block,
                slices: &slices[block.rows.clone()],
                drawn,
                sweep,
                scratch,
                rng: rng(number as u64),
            };
            match block.complete {
                true => Ok(worker.complete()),
                false => worker.incomplete(),
            }
        });
    fits.into_iter().sum()
}

/// Probabilities of this size are none: a uniform number of 53 bits would not draw them.
const NEVER: f64 = 1e-18;

/// Memory of one thread of work.
#[derive(Default)]
struct Scratch {
    columns: Columns,
    /// Component, row.
    ln: Memory,
    probability: Memory,
    /// Component, utility, row.
    slopes: Memory,
    top: Memory,
    rest: Memory,
    deviations: Deviations,
    lanes: LaneScratch,
    pattern: PatternLaws,
    /// Of one row: by component; by component, then utility; of the component drawn.
    ln_row: Vec<f64>,
    scores: Vec<f64>,
    chosen: Vec<f64>,
    noise: Vec<f64>,
    residual: Vec<f64>,
}

/// What the rows of one missing pattern share.
#[derive(Default)]
struct PatternLaws {
    /// `C w_m`: utility, missing feature, lane.
    gain: Vec<f64>,
    quad: Vec<f64>,
    /// `(I + W_m C W_m')^-1`: component, utility, utility.
    inverse: Vec<f64>,
    /// `ln|I + W_m C W_m'|`: component.
    ln_det: Vec<f64>,
    /// Factor of the missing block of the precision, of this component.
    factor: Cholesky,
    factored: Option<usize>,
}

/// Draws the rows of one block.
struct Worker<'a, 'd, R> {
    rows: &'a Rows,
    laws: &'a Laws<'a>,
    block: &'a Block,
    slices: &'a [f64],
    drawn: Drawn<'d>,
    sweep: u64,
    scratch: &'a mut Scratch,
    rng: R,
}

impl<R: Rng> Worker<'_, '_, R> {
    fn n_utilities(&self) -> usize {
        self.laws.n_utilities * usize::from(self.block.labelled)
    }

    fn class(&self, i: usize) -> usize {
        let class = self.rows.classes[self.block.rows.start + i];
        class.expect("the rows of a labelled block have labels")
    }

    /// Draws the utilities of row `i` at the scores `scratch.chosen`. Equations: `docs/iqgme-updates.md#slices-and-labels`.
    fn draw_utilities(&mut self, i: usize) {
        let (class, n) = (self.class(i), self.laws.n_utilities);
        let t = &mut self.drawn.utilities[i * n..][..n];
        multinomial_probit::draw(class, &self.scratch.chosen, t, &mut self.rng);
    }

    /// Rows without missing features, side by side.
    fn complete(&mut self) -> f64 {
        self.scratch.columns.load(self.rows, self.block);
        let stacked = self.scratch.columns.stacked();
        let (n, n_utilities) = (stacked.len, self.n_utilities());
        let n_components = self.laws.n_components();
        let size = n_components * n;
        self.scratch.ln.reserve(size);
        self.scratch.probability.reserve(size);
        self.scratch.slopes.reserve(size * n_utilities);
        self.scratch.top.reserve(n);
        self.scratch.rest.reserve(n);
        let least = self.slices.iter().copied().fold(f64::INFINITY, f64::min);
        for h in 0..n_components {
            match self.laws.weights[h] >= least {
                true => self.complete_ln(h),
                false => self.scratch.ln.part_mut(h, n).fill(f64::NEG_INFINITY),
            }
        }
        if n_utilities == 1 {
            self.weigh_labels();
        }
        let scratch = &mut *self.scratch;
        stacked.softmax(
            scratch.ln.get(size),
            NEVER,
            scratch.probability.get_mut(size),
            &mut LnTotals {
                top: scratch.top.get_mut(n),
                rest: scratch.rest.get_mut(n),
            },
        );
        let mut fit = 0.0;
        for i in 0..self.block.rows.len() {
            let u: f64 = self.rng.random();
            let weights = self.scratch.probability.get(size)[i..].iter().step_by(n);
            let current = self.drawn.labels[i] as usize;
            let h = pick(weights.copied(), u).unwrap_or(current);
            self.drawn.labels[i] = h as u32;
            fit += self.scratch.ln.part(h, n)[i] - self.laws.admit(h, self.slices[i]);
            if n_utilities > 0 {
                let scratch = &mut *self.scratch;
                let scores = scratch.slopes.part(h, n_utilities * n)[i..].iter();
                scratch.chosen.clear();
                scratch.chosen.extend(scores.step_by(n).copied());
                self.draw_utilities(i);
            }
        }
        fit
    }

    /// Adds `ln Phi` of the labels' scores to the weights.
    fn weigh_labels(&mut self) {
        let stacked = self.scratch.columns.stacked();
        let n = stacked.len;
        let signs = &self.rows.signs[self.block.rows.clone()];
        let scratch = &mut *self.scratch;
        let size = self.laws.n_components() * n;
        let (ln, scores) = (scratch.ln.get_mut(size), scratch.slopes.get(size));
        let margins = &mut scratch.rest.get_mut(n)[..signs.len()];
        for (ln, scores) in ln.chunks_exact_mut(n).zip(scores.chunks_exact(n)) {
            let each = margins.iter_mut().zip(scores).zip(signs);
            each.for_each(|((margin, score), sign)| *margin = sign * score);
            stacked.map(margins, ln_normal_cdf);
            ln.iter_mut().zip(&*margins).for_each(|(ln, x)| *ln += x);
        }
    }

    /// Logarithms of the weights of component `h`, without a label's, and the scores of its experts.
    fn complete_ln(&mut self, h: usize) {
        let stacked = self.scratch.columns.stacked();
        let (n, n_utilities) = (stacked.len, self.n_utilities());
        let scratch = &mut *self.scratch;
        let ln = scratch.ln.part_mut(h, n);
        let slopes = scratch.slopes.part_mut(h, n_utilities * n);
        let form = &self.laws.complete[h];
        scratch.columns.apply(form, [&mut *ln, &mut *slopes]);
        let constant = self.laws.constant[h];
        stacked.map(ln, |quadratic| constant - 0.5 * quadratic);
        let intercepts = &self.laws.intercepts[h * n_utilities..];
        for (slope, intercept) in slopes.chunks_exact_mut(n).zip(intercepts) {
            stacked.map(slope, |slope| slope + intercept);
        }
        if n_utilities > 1 {
            for (k, scores) in slopes.chunks_exact(n).enumerate() {
                let t = self.drawn.utilities.iter().skip(k).step_by(n_utilities);
                for ((ln, score), t) in ln.iter_mut().zip(scores).zip(t) {
                    *ln -= 0.5 * (t - score) * (t - score);
                }
            }
        }
        for (ln, u) in ln.iter_mut().zip(self.slices) {
            *ln += self.laws.admit(h, *u);
        }
    }

    /// Rows with missing features, one after the other, the components side by side.
    fn incomplete(&mut self) -> Result<f64> {
        let (rows, block) = (self.rows, self.block);
        let parts = self.laws.incomplete.as_ref();
        let (quadratics, linear) = parts.expect("made when a block has missing features");
        let linear = block.labelled.then_some(linear);
        let (deviations, means) = (&mut self.scratch.deviations, &self.laws.means);
        deviations.load(rows, block, means, quadratics, linear);
        let mut lanes = std::mem::take(&mut self.scratch.lanes);
        let mut fit = 0.0;
        for group in &rows.groups[block.groups.clone()] {
            let pattern = &rows.patterns[group.pattern];
            let mut given = quadratics
                .condition(pattern, &mut lanes)
                .map_err(IqgmeError::at(self.sweep, "missing features"))?;
            fit += self.group(group, pattern, &mut given)?;
        }
        self.scratch.lanes = lanes;
        Ok(fit)
    }

    fn group(
        &mut self,
        group: &Group,
        pattern: &Pattern,
        given: &mut LaneConditional<'_>,
    ) -> Result<f64> {
        let missing = &pattern.missing;
        self.pattern_laws(missing, given)?;
        let mut fit = 0.0;
        for position in group.rows.clone() {
            let i = position - self.block.rows.start;
            self.scratch.deviations.condition(i, pattern, given, None);
            fit += self.draw_component(i, missing, given.ln_det());
            self.draw_missing(i, missing)?;
        }
        Ok(fit)
    }

    fn pattern_laws(&mut self, missing: &[usize], given: &mut LaneConditional<'_>) -> Result<()> {
        let (m, n) = (missing.len(), self.n_utilities());
        let lanes = self.scratch.deviations.lanes().len;
        let laws = &mut self.scratch.pattern;
        laws.factored = None;
        laws.gain.resize(n * m * lanes, 0.0);
        laws.quad.resize(lanes, 0.0);
        laws.inverse.clear();
        laws.ln_det.clear();
        for (k, gain) in laws.gain.chunks_exact_mut((m * lanes).max(1)).enumerate() {
            gain.fill(0.0);
            for h in 0..self.laws.n_components() {
                let expert = self.laws.expert(h, k);
                for (gain, &j) in gain[h..].iter_mut().step_by(lanes).zip(missing) {
                    *gain = expert[j];
                }
            }
            given.solve(gain, &mut laws.quad);
        }
        if n <= 1 {
            // With one utility the last quadratic form is all there is.
            for quad in laws.quad.iter().take(n * self.laws.n_components()) {
                laws.inverse.push(1.0 / (1.0 + quad));
                laws.ln_det.push(quad.ln_1p());
            }
            return Ok(());
        }
        for h in 0..self.laws.n_components() {
            let shared = |k: usize, l: usize| {
                let expert = self.laws.expert(h, k);
                let gain = laws.gain[l * m * lanes + h..].iter().step_by(lanes);
                let products = gain.zip(missing).map(|(gain, &j)| gain * expert[j]);
                products.sum::<f64>() + if k == l { 1.0 } else { 0.0 }
            };
            let matrix = Mat::from_fn(n, n, shared);
            let failed = IqgmeError::at(self.sweep, "covariance of the utilities");
            let factor = Cholesky::new(matrix.as_ref()).map_err(|source| failed((h, source)))?;
            laws.ln_det.push(factor.ln_det());
            let inverse = factor.inverse();
            let columns = (0..n).flat_map(|l| inverse.col_as_slice(l).iter().copied());
            laws.inverse.extend(columns);
        }
        Ok(())
    }

    /// Logarithms of the weights of the components at row `i`, conditioned last, and the scores of their experts, its missing features integrated out.
    fn weigh_components(&mut self, i: usize, missing: &[usize], ln_det: &[f64]) {
        let (n, n_components) = (self.n_utilities(), self.laws.n_components());
        let scratch = &mut *self.scratch;
        let (deviations, lanes) = (&scratch.deviations, scratch.deviations.lanes().len);
        let unseen = missing.len() as f64 * LN_SQRT_2PI;
        scratch.ln_row.clear();
        scratch.scores.clear();
        scratch.scores.resize(n_components * n, 0.0);
        let sign = self.rows.signs[self.block.rows.start + i];
        let t = &self.drawn.utilities[i * self.laws.n_utilities..];
        for h in 0..n_components {
            let admitted = self.laws.admit(h, self.slices[i]);
            if admitted == f64::NEG_INFINITY {
                scratch.ln_row.push(admitted);
                continue;
            }
            let distance = deviations.quadratics()[i * lanes + h] - deviations.explained()[h];
            let mut ln =
                self.laws.constant[h] + unseen - 0.5 * (distance.max(0.0) + ln_det[h]) + admitted;
            let scores = &mut scratch.scores[h * n..][..n];
            for (k, score) in scores.iter_mut().enumerate() {
                let expert = self.laws.expert(h, k);
                let shifts = missing.iter().enumerate();
                let shifts = shifts.map(|(m, &j)| expert[j] * deviations.shift(m, h));
                *score = deviations.slopes()[(i * n + k) * lanes + h] + shifts.sum::<f64>();
            }
            if n == 1 {
                let spread = (0.5 * scratch.pattern.ln_det[h]).exp();
                ln += ln_phi(sign * scores[0] / spread);
            } else if n > 1 {
                let inverse = &scratch.pattern.inverse[h * n * n..][..n * n];
                let apart = |k: usize| t[k] - scores[k];
                let row = |k: usize| (0..n).map(|l| inverse[k * n + l] * apart(l)).sum::<f64>();
                let distance: f64 = (0..n).map(|k| apart(k) * row(k)).sum();
                ln -= 0.5 * (distance + scratch.pattern.ln_det[h]);
            }
            scratch.ln_row.push(ln);
        }
    }

    /// Draws the component of row `i`, conditioned last; with one utility that, too, its missing features integrated out.
    /// Equations: `docs/iqgme-updates.md#slices-and-labels`.
    fn draw_component(&mut self, i: usize, missing: &[usize], ln_det: &[f64]) -> f64 {
        self.weigh_components(i, missing, ln_det);
        let (n, scratch) = (self.n_utilities(), &mut *self.scratch);
        let u: f64 = self.rng.random();
        let ln = scratch.ln_row.iter().copied();
        let top = ln.clone().fold(f64::NEG_INFINITY, f64::max);
        scratch.residual.clear();
        scratch.residual.extend(ln.map(|ln| (ln - top).exp()));
        let total: f64 = scratch.residual.iter().sum();
        let current = self.drawn.labels[i] as usize;
        let h = pick(scratch.residual.iter().copied(), u * total).unwrap_or(current);
        self.drawn.labels[i] = h as u32;
        let scores = &scratch.scores[h * n..][..n];
        scratch.chosen.clear();
        scratch.chosen.extend_from_slice(scores);
        let fit = scratch.ln_row[h] - self.laws.admit(h, self.slices[i]);
        if n == 1 {
            let spread = (0.5 * scratch.pattern.ln_det[h]).exp();
            let score = scratch.chosen[0] / spread;
            let positive = self.class(i) > 0;
            self.drawn.utilities[i] = spread * sample_probit(score, positive, &mut self.rng);
        }
        fit
    }

    /// Draws the missing features of row `i` given its component and utilities; then, with several utilities, these.
    /// Equations: `docs/iqgme-updates.md#slices-and-labels`.
    fn draw_missing(&mut self, i: usize, missing: &[usize]) -> Result<()> {
        let (n, p, m) = (self.n_utilities(), self.rows.n_features, missing.len());
        let h = self.drawn.labels[i] as usize;
        let scratch = &mut *self.scratch;
        let lanes = scratch.deviations.lanes().len;
        if scratch.pattern.factored != Some(h) {
            let precision = &self.laws.parameters.components[h].precision;
            let block = Mat::from_fn(m, m, |k, l| precision[(missing[k], missing[l])]);
            let made = scratch.pattern.factor.factor(block.as_ref());
            made.map_err(|source| IqgmeError::at(self.sweep, "missing features")((h, source)))?;
            scratch.pattern.factored = Some(h);
        }
        scratch.noise.clear();
        for _ in 0..m {
            scratch.noise.push(self.rng.sample(StandardNormal));
        }
        scratch.pattern.factor.solve_lt(&mut scratch.noise);
        let along = |k: usize, noise: &[f64]| -> f64 {
            let expert = self.laws.expert(h, k);
            missing.iter().zip(noise).map(|(&j, x)| expert[j] * x).sum()
        };
        let t = &self.drawn.utilities[i * self.laws.n_utilities..];
        scratch.residual.clear();
        for k in 0..n {
            let of_draw = along(k, &scratch.noise) + self.rng.sample::<f64, _>(StandardNormal);
            scratch.residual.push(t[k] - scratch.chosen[k] - of_draw);
        }
        let inverse = scratch.pattern.inverse.get(h * n * n..).unwrap_or(&[]);
        for k in 0..n {
            let amount = dot(&inverse[k * n..][..n], &scratch.residual);
            let gain = scratch.pattern.gain[k * m * lanes + h..].iter();
            for (x, gain) in scratch.noise.iter_mut().zip(gain.step_by(lanes)) {
                *x += gain * amount;
            }
        }
        let values = &mut self.drawn.values[i * p..][..p];
        for (k, &j) in missing.iter().enumerate() {
            let mean = self.laws.means[(j, h)] + scratch.deviations.shift(k, h);
            values[j] = mean + scratch.noise[k];
        }
        if n > 1 {
            for k in 0..n {
                scratch.chosen[k] += along(k, &scratch.noise);
            }
            self.draw_utilities(i);
        }
        Ok(())
    }
}
