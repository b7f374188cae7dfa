//! Prediction: the gate in closed form, the expert by moment matching, and the plug-in of the thesis.

use npb_linalg::mixture::{
    Block, Columns, Deviations, Form, LnTotal, LnTotals, Memory, PackedExpert, Pattern, Quadratics,
    padded,
};
use std::f64::consts::PI;

use npb_infer::parallel;
use npb_linalg::faer::Mat;
use npb_linalg::lanes::{LaneConditional, LaneScratch};
use npb_linalg::{Cholesky, NotPositiveDefinite};
use npb_priors::dist::{Gamma, NormalWishart, Wishart, multinomial_probit, pick};
use npb_priors::special::{ln_gamma, normal_cdf, student_t_two_sided};
use rand::{Rng, RngExt};

use crate::rows::Rows;
use crate::state::{Component, Expert, IqgmeState};
use crate::{IqgmeError, Result};

/// How the components weigh a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// As normal densities at the posterior means of weights and precisions: for class probabilities. So the rows of training are weighed, for whose
    /// weights the experts were found.
    AtMeans,
    /// By their predictive densities, Student-t: for all that is said of features.
    Marginal,
}

/// How the posterior of the experts enters a class probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Experts {
    /// Integrated out.
    Integrated,
    /// Replaced by its mean (W 3.4.3, incomplete data).
    AtMeans,
}

/// What prediction needs of the components, from the posterior.
#[derive(Clone, Debug)]
pub struct Predictor {
    means: Mat<f64>,
    /// `nu_h B_h`, for rows with missing features and for complete ones.
    quadratics: Quadratics,
    gates: Vec<Form>,
    ln_weights: Vec<f64>,
    /// `ln|nu_h B_h|`.
    ln_det: Vec<f64>,
    /// `nu_h - P + 1`, the degrees of freedom of the Student-t.
    dof: Vec<f64>,
    /// `T_h^-1 = student_scale nu_h B_h`.
    student_scale: Vec<f64>,
    /// Logarithm of the Student-t's density at its mean, without the determinant: by number of observed features, then component.
    ln_peaks: Vec<Vec<f64>>,
    /// Component, utility.
    experts: Vec<Expert>,
    n_utilities: usize,
    packed_experts: Vec<PackedExpert>,
    /// Mean and variance of the score of a complete row.
    scores: Vec<Form>,
}

/// Components that weigh no more than this cannot change a probability and are not looked at.
const LEAST_WEIGHT: f64 = 1e-16;

fn ln_peak(dof: f64, scale: f64, observed: usize) -> f64 {
    let o = observed as f64;
    ln_gamma(0.5 * (dof + o)) - ln_gamma(0.5 * dof) + 0.5 * o * (scale / (dof * PI)).ln()
}

fn drawn(source: NotPositiveDefinite) -> IqgmeError {
    IqgmeError::at(0, "posterior draw")(source)
}

/// A missing cell under one component: a Student-t, or a normal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellTerm {
    /// Probability of the component given the row's observed features.
    pub weight: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// Degrees of freedom; infinite for a normal.
    pub dof: f64,
}

impl CellTerm {
    /// Probability of a value below `x`.
    pub(crate) fn below(&self, x: f64) -> f64 {
        if self.dof == f64::INFINITY {
            return normal_cdf((x - self.mean) / self.sd);
        }
        let scale = self.sd * ((self.dof - 2.0) / self.dof).sqrt();
        let t = (x - self.mean) / scale;
        let tail = 0.5 * student_t_two_sided(t, self.dof);
        if t < 0.0 { tail } else { 1.0 - tail }
    }
}

/// Memory of one thread of work.
#[derive(Default)]
struct Scratch {
    complete: Complete,
    deviations: Deviations,
    /// Of one row, by lane.
    distance: Vec<f64>,
    ln_joint: Vec<f64>,
    weights: Vec<f64>,
    /// A completed row and the constant feature 1, padded.
    row: Vec<f64>,
    utilities: Utilities,
}

/// The complete rows of one block given the components. Tables: component, row.
#[derive(Default)]
struct Complete {
    columns: Columns,
    ln_joint: Memory,
    weights: Memory,
    /// Log-densities in two parts, by row.
    top: Memory,
    rest: Memory,
    /// Of one component: utility, row.
    score: Memory,
    spread: Memory,
}

impl Complete {
    /// Posterior probabilities of component `h`, by row.
    fn weights(&self, h: usize) -> &[f64] {
        &self.weights.part(h, self.columns.stride())[..self.columns.n_rows()]
    }

    fn ln_densities(&self) -> Vec<f64> {
        let [top, rest] = [&self.top, &self.rest].map(|x| x.get(self.columns.n_rows()));
        top.iter().zip(rest).map(|(top, rest)| top + rest).collect()
    }
}

/// Weights of the components of a state: the last one stands for itself and all vacant ones after it, whose predictive densities are the same.
fn pooled(mut weights: Vec<f64>, n_components: usize) -> Vec<f64> {
    let rest: f64 = weights.drain(n_components..).sum();
    weights[n_components - 1] += rest;
    weights
}

/// A row with missing features, and what the components make of it.
struct Seen<'a, 'g> {
    /// Position in its block.
    i: usize,
    table_row: usize,
    pattern: &'a Pattern,
    deviations: &'a Deviations,
    given: &'a mut LaneConditional<'g>,
    /// Posterior probabilities of the components given the observed features.
    weights: &'a [f64],
    /// Mahalanobis distances of the observed features under `nu_h B_h`.
    distance: &'a [f64],
    ln_density: f64,
    /// Memory for a completed row.
    row: &'a mut Vec<f64>,
    utilities: &'a mut Utilities,
}

/// Memory for the utilities of a row under one component.
#[derive(Default)]
struct Utilities {
    means: Vec<f64>,
    variances: Vec<f64>,
    shared: Vec<f64>,
    probabilities: Vec<f64>,
}

impl Utilities {
    fn resize(&mut self, n: usize) {
        self.means.resize(n, 0.0);
        self.variances.resize(n, 0.0);
        self.shared.resize(n * n, 0.0);
        self.probabilities.resize(n, 0.0);
    }
}

/// A row as one component completes it.
#[derive(Clone, Debug)]
pub(crate) struct Completed {
    pub(crate) component: usize,
    /// Its features and the constant 1.
    pub(crate) row: Vec<f64>,
    /// What the missing features add to the variances of the scores at the experts' means, on average over utilities.
    pub(crate) variance: f64,
}

/// `tr(S C)` over the missing features, with `C = (nu_h B_h)_mm^-1`.
fn missing_trace(h: usize, seen: &mut Seen<'_, '_>, second: impl Fn(usize, usize) -> f64) -> f64 {
    let missing = &seen.pattern.missing;
    let m = missing.len();
    let covariance = seen.given.covariance();
    let lanes = covariance.len() / (m * m);
    let mut sum = 0.0;
    for (l, &j) in missing.iter().enumerate() {
        for (k, &i) in missing.iter().enumerate() {
            sum += covariance[(k * m + l) * lanes + h] * second(i, j);
        }
    }
    sum
}

impl Predictor {
    /// `experts`: as many for each component of the state as there are utilities, or none.
    pub(crate) fn new(
        state: &IqgmeState,
        experts: &[Expert],
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let weights = pooled(state.sticks.expected_weights(), state.components.len());
        let ln_weights = weights.iter().map(|w| w.ln()).collect();
        Self::from_parts(&state.components, experts, ln_weights)
    }

    /// From components, experts as in [`new`](Self::new), and the logarithms of the components' weights.
    pub(crate) fn from_parts(
        components: &[Component],
        experts: &[Expert],
        ln_weights: Vec<f64>,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let p = components[0].mean.len() as f64;
        let n_components = components.len();
        let expected = Component::all_expected(components)?;
        let scale = |c: &Component| c.strength * (c.dof - p + 1.0) / ((c.strength + 1.0) * c.dof);
        let student_scale: Vec<f64> = components.iter().map(scale).collect();
        let dof: Vec<f64> = components.iter().map(|c| c.dof - p + 1.0).collect();
        let ln_peaks = |observed: usize| {
            let each = dof.iter().zip(&student_scale);
            each.map(|(&dof, &scale)| ln_peak(dof, scale, observed))
                .collect()
        };
        let means = Mat::from_fn(p as usize, n_components, |j, h| components[h].mean[j]);
        let each = expected.iter().zip(components);
        let ln_det = each.map(|(e, c)| e.ln_det_scale + p * c.dof.ln()).collect();
        let precisions = expected.into_iter().map(|e| e.precision).collect();
        Ok(Self {
            ln_peaks: (0..=p as usize).map(ln_peaks).collect(),
            dof,
            student_scale,
            ..Self::normal(means, precisions, ln_det, experts.to_vec(), ln_weights)?
        })
    }

    /// Of parameters that are known, to be used with [`Gate::AtMeans`] and [`Experts::AtMeans`]. `weights`: one for each component; `experts`: as many
    /// for each component as there are utilities, or none.
    pub(crate) fn of_parameters(
        weights: &[f64],
        means: Mat<f64>,
        precisions: Vec<Mat<f64>>,
        experts: Vec<Expert>,
    ) -> Result<Self> {
        let ln_det = |of: &Mat<f64>| Ok(Cholesky::new(of.as_ref()).map_err(drawn)?.ln_det());
        let ln_det = precisions.iter().map(ln_det).collect::<Result<_>>()?;
        let ln_weights = weights.iter().map(|w| w.ln()).collect();
        Self::normal(means, precisions, ln_det, experts, ln_weights)
            .map_err(|(_, source)| drawn(source))
    }

    /// Components that are normal with these means and precisions.
    fn normal(
        means: Mat<f64>,
        precisions: Vec<Mat<f64>>,
        ln_det: Vec<f64>,
        experts: Vec<Expert>,
        ln_weights: Vec<f64>,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let n_components = ln_weights.len();
        let gate = |(h, precision): (usize, &Mat<f64>)| {
            let form = Form::new(means.col_as_slice(h), precision.as_ref(), &[]);
            form.map_err(|source| (h, source))
        };
        // Mean and variance of `w'x^b`.
        let score = |(i, expert): (usize, &Expert)| {
            let factor = Cholesky::new(expert.covariance.as_ref()).map_err(|source| (i, source))?;
            let centre = vec![0.0; expert.mean.len()];
            Ok(Form::with_factor(&centre, &factor, &expert.mean))
        };
        let pack = |e: &Expert| PackedExpert::new(&e.mean, e.covariance.as_ref());
        let (gates, scores) = (precisions.iter().enumerate(), experts.iter().enumerate());
        Ok(Self {
            gates: gates.map(gate).collect::<Result<_, _>>()?,
            scores: scores.map(score).collect::<Result<_, _>>()?,
            means,
            quadratics: Quadratics::new(precisions)?,
            ln_weights,
            ln_det,
            packed_experts: experts.iter().map(pack).collect(),
            n_utilities: experts.len() / n_components,
            experts,
            // Those of normal densities are not asked for.
            dof: vec![f64::INFINITY; n_components],
            student_scale: vec![1.0; n_components],
            ln_peaks: Vec::new(),
        })
    }

    /// The experts.
    pub(crate) fn experts(&self) -> &[Expert] {
        &self.experts
    }

    /// One draw of all parameters from the posterior, experts from these, to be used with [`Gate::AtMeans`] and [`Experts::AtMeans`].
    pub(crate) fn draw(
        &self,
        state: &IqgmeState,
        experts: &[Expert],
        rng: &mut impl Rng,
    ) -> Result<Self> {
        let mut weights = vec![0.0; state.sticks.truncation()];
        state.sticks.sample_weights(&mut weights, rng);
        let weights = pooled(weights, state.components.len());
        self.draw_parts(&state.components, experts, &weights, false, rng)
    }

    /// As [`draw`](Self::draw), with the components that the predictor is of and weights that were drawn already. `shared`: all components have one Gaussian, which
    /// is drawn once.
    pub(crate) fn draw_parts(
        &self,
        components: &[Component],
        experts: &[Expert],
        weights: &[f64],
        shared: bool,
        rng: &mut impl Rng,
    ) -> Result<Self> {
        let mut means = self.means.clone();
        let mut precisions: Vec<Mat<f64>> = Vec::with_capacity(components.len());
        for (h, component) in components.iter().enumerate() {
            if shared && h > 0 {
                let first: Vec<f64> = means.col_as_slice(0).to_vec();
                means.col_as_slice_mut(h).copy_from_slice(&first);
                precisions.push(precisions[0].clone());
                continue;
            }
            let wishart =
                Wishart::from_inverse_scale(component.scale_inverse.as_ref(), component.dof)?;
            let law = NormalWishart::new(component.mean.clone(), component.strength, wishart)?;
            let (mean, precision) = law.sample(rng);
            means.col_as_slice_mut(h).copy_from_slice(&mean);
            precisions.push(precision);
        }
        let mut experts = experts.to_vec();
        for expert in &mut experts {
            let factor = Cholesky::new(expert.covariance.as_ref()).map_err(drawn)?;
            factor.sample_moment(&mut expert.mean, rng);
        }
        Self::of_parameters(weights, means, precisions, experts)
    }

    /// The same components with other weights.
    pub(crate) fn with_weights(&self, ln_weights: Vec<f64>) -> Self {
        Self {
            ln_weights,
            ..self.clone()
        }
    }

    fn n_components(&self) -> usize {
        self.ln_weights.len()
    }

    /// Reads every row of `rows` (in parallel over blocks) and returns the results by table row: `complete` reads the rows of a block without
    /// missing features, `read` one row with some.
    fn map_rows<T: Send>(
        &self,
        rows: &Rows,
        gate: Gate,
        complete: impl Fn(&mut Complete) -> Vec<T> + Sync,
        read: impl Fn(&mut Seen<'_, '_>) -> T + Sync,
    ) -> Result<Vec<T>> {
        let parts: Vec<Result<Vec<T>>> = parallel::map_with(
            &rows.blocks,
            <(Scratch, LaneScratch)>::default,
            |(scratch, lane_scratch), block| {
                if block.complete {
                    self.gate_block(&mut scratch.complete, rows, block, gate);
                    Ok(complete(&mut scratch.complete))
                } else {
                    self.map_incomplete(rows, block, gate, scratch, lane_scratch, &read)
                }
            },
        );
        let parts: Vec<Vec<T>> = parts.into_iter().collect::<Result<_>>()?;
        let mut by_row: Vec<Option<T>> = std::iter::repeat_with(|| None).take(rows.len()).collect();
        for (value, &row) in parts.into_iter().flatten().zip(&rows.order) {
            by_row[row] = Some(value);
        }
        Ok(by_row.into_iter().flatten().collect())
    }

    /// Weighs the components by their predictive densities at the rows of a block without missing features.
    fn gate_block(&self, complete: &mut Complete, rows: &Rows, block: &Block, gate: Gate) {
        let (p, n_components) = self.means.shape();
        complete.columns.load(rows, block);
        let stacked = complete.columns.stacked();
        let (n, size) = (stacked.len, n_components * stacked.len);
        let tables = [&mut complete.ln_joint, &mut complete.weights];
        tables.into_iter().for_each(|table| table.reserve(size));
        for row in [&mut complete.top, &mut complete.rest] {
            row.reserve(n);
        }
        for table in [&mut complete.score, &mut complete.spread] {
            table.reserve(self.n_utilities * n);
        }
        for (h, form) in self.gates.iter().enumerate() {
            let ln_joint = complete.ln_joint.part_mut(h, n);
            complete.columns.apply(form, [&mut *ln_joint, &mut []]);
            let constant = self.ln_weights[h] + 0.5 * self.ln_det[h];
            match gate {
                Gate::AtMeans => {
                    let constant = constant - 0.5 * p as f64 * (2.0 * PI).ln();
                    stacked.map(ln_joint, |distance| constant - 0.5 * distance);
                }
                Gate::Marginal => {
                    let constant = constant + self.ln_peaks[p][h];
                    let half = 0.5 * (self.dof[h] + p as f64);
                    let scale = self.student_scale[h] / self.dof[h];
                    stacked.map(ln_joint, |distance| {
                        constant - half * npb_linalg::elementary::ln_1p(scale * distance)
                    });
                }
            }
        }
        stacked.softmax(
            complete.ln_joint.get(size),
            0.0,
            complete.weights.get_mut(size),
            &mut LnTotals {
                top: complete.top.get_mut(n),
                rest: complete.rest.get_mut(n),
            },
        );
    }

    fn map_incomplete<T>(
        &self,
        rows: &Rows,
        block: &Block,
        gate: Gate,
        scratch: &mut Scratch,
        lane_scratch: &mut LaneScratch,
        read: impl Fn(&mut Seen<'_, '_>) -> T,
    ) -> Result<Vec<T>> {
        let (deviations, quadratics) = (&mut scratch.deviations, &self.quadratics);
        deviations.load(rows, block, &self.means, quadratics, None);
        let mut out = Vec::with_capacity(block.rows.len());
        for group in &rows.groups[block.groups.clone()] {
            let pattern = &rows.patterns[group.pattern];
            let given = quadratics.condition(pattern, lane_scratch);
            let mut given = given.map_err(IqgmeError::at(0, "missing features"))?;
            for position in group.rows.clone() {
                let i = position - block.rows.start;
                let ln_density = self.gate(scratch, &mut given, i, pattern, gate);
                out.push(read(&mut Seen {
                    i,
                    table_row: rows.order[position],
                    pattern,
                    deviations: &scratch.deviations,
                    given: &mut given,
                    weights: &scratch.weights[..self.n_components()],
                    distance: &scratch.distance[..self.n_components()],
                    ln_density,
                    row: &mut scratch.row,
                    utilities: &mut scratch.utilities,
                }));
            }
        }
        Ok(out)
    }

    /// Weighs the components by their predictive densities at the observed features of row `i` of the block. Returns the row's log-density.
    fn gate(
        &self,
        scratch: &mut Scratch,
        given: &mut LaneConditional<'_>,
        i: usize,
        pattern: &Pattern,
        gate: Gate,
    ) -> f64 {
        let lanes = scratch.deviations.lanes();
        scratch.distance.resize(lanes.len, 0.0);
        scratch.weights.resize(lanes.len, 0.0);
        scratch.ln_joint.clear();
        scratch.ln_joint.resize(lanes.len, f64::NEG_INFINITY);
        let distance = &mut scratch.distance[..self.n_components()];
        let deviations = &mut scratch.deviations;
        deviations.condition(i, pattern, given, None);
        let quadratics = &deviations.quadratics()[i * lanes.len..];
        let each = distance.iter_mut().zip(quadratics);
        for ((distance, quadratic), explained) in each.zip(deviations.explained()) {
            *distance = (quadratic - explained).max(0.0);
        }
        let each = scratch.ln_joint.iter_mut().zip(distance.iter());
        for (h, (ln_joint, distance)) in each.enumerate() {
            // The determinant of the marginal precision of the observed features.
            let ln_det = self.ln_det[h] - given.ln_det()[h];
            let kernel = self.ln_kernel(h, pattern.observed.len(), *distance, gate);
            *ln_joint = self.ln_weights[h] + 0.5 * ln_det + kernel;
        }
        let mut ln_total = [LnTotal::default()];
        lanes.softmax(&scratch.ln_joint, 0.0, &mut scratch.weights, &mut ln_total);
        ln_total[0].value()
    }

    /// Predictive density of component `h`, without its determinant, at this distance.
    fn ln_kernel(&self, h: usize, observed: usize, distance: f64, gate: Gate) -> f64 {
        let o = observed as f64;
        match gate {
            Gate::AtMeans => -0.5 * (distance + o * (2.0 * PI).ln()),
            Gate::Marginal => {
                let (dof, scale) = (self.dof[h], self.student_scale[h]);
                self.ln_peaks[observed][h] - 0.5 * (dof + o) * (scale * distance / dof).ln_1p()
            }
        }
    }

    /// Probabilities of all classes but the first for the rows of a block without missing features: row, utility.
    fn block_probabilities(&self, complete: &mut Complete, experts: Experts) -> Vec<f64> {
        let stacked = complete.columns.stacked();
        let (n, n_rows, n_utilities) = (stacked.len, complete.columns.n_rows(), self.n_utilities);
        let mut sums = vec![0.0; n * n_utilities];
        let uncertain = f64::from(u8::from(experts == Experts::Integrated));
        for (h, forms) in self.scores.chunks_exact(n_utilities).enumerate() {
            let weights = complete.weights.part(h, n);
            if weights.iter().all(|weight| *weight <= LEAST_WEIGHT) {
                continue;
            }
            for (k, form) in forms.iter().enumerate() {
                let score = complete.score.part_mut(k, n);
                let spread = complete.spread.part_mut(k, n);
                complete.columns.apply(form, [&mut *spread, &mut *score]);
                stacked.map(spread, |spread| 1.0 + uncertain * spread);
            }
            let score = complete.score.get(n_utilities * n);
            let spread = complete.spread.get(n_utilities * n);
            if n_utilities > 1 {
                add_probabilities(&weights[..n_rows], [score, spread], n, &mut sums);
                continue;
            }
            let each = score.iter().zip(spread).zip(weights).zip(&mut sums);
            stacked.arch.dispatch(
                #[inline(always)]
                || {
                    for (((score, variance), weight), sum) in each {
                        let z = score / variance.sqrt();
                        let part = weight * npb_priors::special::vector::normal_cdf(z);
                        *sum += if *weight > LEAST_WEIGHT { part } else { 0.0 };
                    }
                },
            );
        }
        sums.truncate(n_rows * n_utilities);
        sums
    }

    /// Probabilities of all classes but the first under the experts of component `h`, in `seen.utilities.probabilities`.
    fn expert_probabilities(&self, h: usize, seen: &mut Seen<'_, '_>, experts: Experts) {
        let (p, n) = (self.means.nrows(), self.n_utilities);
        let missing = &seen.pattern.missing;
        let arch = seen.deviations.lanes().arch;
        seen.row.clear();
        seen.row.resize(padded(p + 1), 0.0);
        seen.row[..p].copy_from_slice(&seen.deviations.row(seen.i)[..p]);
        seen.row[p] = 1.0;
        for (k, &j) in missing.iter().enumerate() {
            seen.row[j] = self.means[(j, h)] + seen.deviations.shift(k, h);
        }
        seen.utilities.resize(n);
        for k in 0..n {
            let expert = &self.experts[h * n + k];
            let (location, spread) = self.packed_experts[h * n + k].score(arch, seen.row);
            seen.utilities.means[k] = location;
            seen.utilities.variances[k] = 1.0;
            if experts == Experts::Integrated {
                let trace = missing_trace(h, seen, |i, j| expert.covariance[(i, j)]);
                seen.utilities.variances[k] += spread + trace;
            }
            for l in 0..n {
                let other = &self.experts[h * n + l].mean;
                seen.utilities.shared[k * n + l] =
                    missing_trace(h, seen, |i, j| expert.mean[i] * other[j]);
            }
        }
        let Utilities {
            means,
            variances,
            shared,
            probabilities,
        } = &mut *seen.utilities;
        multinomial_probit::probabilities_sharing(means, variances, shared, probabilities);
    }

    /// Covariance of the missing features given the observed ones, in units of `(nu_h B_h)_mm^-1`.
    fn spread(&self, h: usize, row: &Seen<'_, '_>, gate: Gate) -> f64 {
        if gate == Gate::AtMeans {
            return 1.0;
        }
        let (dof, scale) = (self.dof[h], self.student_scale[h]);
        let given = dof + row.pattern.observed.len() as f64;
        (dof + scale * row.distance[h]) / (given - 2.0) / scale
    }

    /// The parts that components have in the rows, for every row: those that `takes_part` (table row, component) says.
    pub(crate) fn completed(
        &self,
        rows: &Rows,
        takes_part: impl Fn(usize, usize) -> bool + Sync,
    ) -> Result<Vec<Vec<Completed>>> {
        let components = |row: usize| {
            let takes_part = &takes_part;
            (0..self.n_components()).filter(move |&h| takes_part(row, h))
        };
        let incomplete = |seen: &mut Seen<'_, '_>| {
            let table_row = seen.table_row;
            let of_component = |h: usize| {
                let experts = &self.experts[h * self.n_utilities..][..self.n_utilities];
                let variance = |e: &Expert| missing_trace(h, seen, |i, j| e.mean[i] * e.mean[j]);
                let variance = experts.iter().map(variance).sum::<f64>() / experts.len() as f64;
                Completed {
                    component: h,
                    row: self.complete(h, seen),
                    variance,
                }
            };
            components(table_row).map(of_component).collect()
        };
        let not_yet = |block: &mut Complete| vec![Vec::new(); block.columns.n_rows()];
        let mut parts = self.map_rows(rows, Gate::AtMeans, not_yet, incomplete)?;
        for block in rows.blocks.iter().filter(|block| block.complete) {
            for position in block.rows.clone() {
                let row = rows.order[position];
                let part = |component| Completed {
                    component,
                    row: rows.row(position).iter().copied().chain([1.0]).collect(),
                    variance: 0.0,
                };
                parts[row] = components(row).map(part).collect();
            }
        }
        Ok(parts)
    }

    /// The row completed by the mean of component `h` given the observed features, and the constant 1.
    fn complete(&self, h: usize, seen: &Seen<'_, '_>) -> Vec<f64> {
        let p = self.means.nrows();
        let mut row = seen.deviations.row(seen.i)[..p].to_vec();
        row.push(1.0);
        for (k, &j) in seen.pattern.missing.iter().enumerate() {
            row[j] = self.means[(j, h)] + seen.deviations.shift(k, h);
        }
        row
    }

    /// Probabilities of all classes but the first, for every row, components weighed by [`Gate::AtMeans`].
    pub(crate) fn probabilities(&self, rows: &Rows, experts: Experts) -> Result<Vec<Vec<f64>>> {
        let n_utilities = self.n_utilities;
        let clamped = |of_row: &[f64]| of_row.iter().map(|p| p.clamp(0.0, 1.0)).collect();
        let complete = |block: &mut Complete| {
            let all = self.block_probabilities(block, experts);
            all.chunks_exact(n_utilities).map(clamped).collect()
        };
        self.map_rows(rows, Gate::AtMeans, complete, |row| {
            let mut sums = vec![0.0; n_utilities];
            for h in 0..self.n_components() {
                let weight = row.weights[h];
                if weight > LEAST_WEIGHT {
                    self.expert_probabilities(h, row, experts);
                    for (sum, part) in sums.iter_mut().zip(&row.utilities.probabilities) {
                        *sum += weight * part;
                    }
                }
            }
            clamped(&sums)
        })
    }

    /// Probabilities of the components given the observed features, for every row.
    pub(crate) fn responsibilities(&self, rows: &Rows, gate: Gate) -> Result<Vec<Vec<f64>>> {
        let complete = |block: &mut Complete| {
            let all = 0..self.n_components();
            let of_row = |i: usize| all.clone().map(|h| block.weights(h)[i]).collect();
            (0..block.columns.n_rows()).map(of_row).collect()
        };
        self.map_rows(rows, gate, complete, |row| row.weights.to_vec())
    }

    /// Log predictive density of the observed features, for every row, in standardised units.
    pub(crate) fn ln_density(&self, rows: &Rows, gate: Gate) -> Result<Vec<f64>> {
        let complete = |block: &mut Complete| block.ln_densities();
        self.map_rows(rows, gate, complete, |row| row.ln_density)
    }

    /// The missing cells of every row: for each missing feature (ascending) its distribution, component by component.
    pub(crate) fn missing_cells(&self, rows: &Rows, gate: Gate) -> Result<Vec<Vec<Vec<CellTerm>>>> {
        self.map_rows(rows, gate, nothing, |row| {
            let missing = &row.pattern.missing;
            let m = missing.len();
            let all = 0..self.n_components();
            let spread = all.clone().map(|h| self.spread(h, row, gate));
            let spread: Vec<f64> = spread.collect();
            let covariance = row.given.covariance();
            let lanes = covariance.len() / (m * m);
            let term = |k: usize, h: usize| CellTerm {
                weight: row.weights[h],
                mean: self.means[(missing[k], h)] + row.deviations.shift(k, h),
                sd: (spread[h] * covariance[(k * m + k) * lanes + h]).sqrt(),
                dof: self.dof[h] + row.pattern.observed.len() as f64,
            };
            let of_cell = |k: usize| all.clone().map(|h| term(k, h)).collect();
            (0..m).map(of_cell).collect()
        })
    }

    /// One joint draw of the missing features of every row; `rng(row)` gives the generator of a table row. They are Student-t given their component, and normal
    /// where parameters are given.
    pub(crate) fn draw_missing<R: Rng>(
        &self,
        rows: &Rows,
        gate: Gate,
        rng: impl Fn(usize) -> R + Sync,
    ) -> Result<Vec<Vec<f64>>> {
        let nothing = |block: &mut Complete| nothing(block).into_iter().map(Ok).collect();
        let draws = self.map_rows(rows, gate, nothing, |row| {
            let missing = &row.pattern.missing;
            let m = missing.len();
            let mut rng = rng(row.table_row);
            let h = pick(row.weights.iter().copied(), rng.random()).unwrap_or(0);
            let spread = self.spread(h, row, gate);
            let (scale, stretch) = match gate {
                Gate::AtMeans => (spread, 1.0),
                Gate::Marginal => {
                    let dof = self.dof[h] + row.pattern.observed.len() as f64;
                    let gamma = Gamma::new(0.5 * dof, 1.0)?.sample(&mut rng);
                    // The covariance of the Student-t is spread (nu_h B_h)_mm^-1; its scale is (dof - 2) / dof of that.
                    (spread * (dof - 2.0) / dof, (dof / (2.0 * gamma)).sqrt())
                }
            };
            let covariance = row.given.covariance();
            let lanes = covariance.len() / (m * m);
            let block = Mat::from_fn(m, m, |k, l| scale * covariance[(k * m + l) * lanes + h]);
            let mut draw = vec![0.0; m];
            let factor = Cholesky::new(block.as_ref()).map_err(drawn)?;
            factor.sample_moment(&mut draw, &mut rng);
            let mean = |k: usize| self.means[(missing[k], h)] + row.deviations.shift(k, h);
            Ok((0..m).map(|k| mean(k) + stretch * draw[k]).collect())
        })?;
        draws.into_iter().collect()
    }
}

/// Adds the class probabilities under one component to those of the rows of a block. Scores and variances: utility, row (`n` each).
fn add_probabilities(
    weights: &[f64],
    [scores, variances]: [&[f64]; 2],
    n: usize,
    sums: &mut [f64],
) {
    let n_utilities = scores.len() / n;
    let mut memory = Utilities::default();
    memory.resize(n_utilities);
    for (i, &weight) in weights.iter().enumerate() {
        if weight <= LEAST_WEIGHT {
            continue;
        }
        for k in 0..n_utilities {
            memory.means[k] = scores[k * n + i];
            memory.variances[k] = variances[k * n + i];
        }
        let Utilities {
            means,
            variances,
            probabilities,
            ..
        } = &mut memory;
        multinomial_probit::probabilities(means, variances, probabilities);
        let sums = &mut sums[i * n_utilities..][..n_utilities];
        for (sum, part) in sums.iter_mut().zip(probabilities.iter()) {
            *sum += weight * part;
        }
    }
}

/// What complete rows have of missing cells.
fn nothing<T>(block: &mut Complete) -> Vec<Vec<T>> {
    let rows = 0..block.columns.n_rows();
    rows.map(|_| Vec::new()).collect()
}

#[cfg(test)]
mod tests {
    use npb_data::{Labels, Table};
    use npb_linalg::faer::mat;
    use rand::RngExt;

    use super::*;
    use crate::IqgmeData;

    /// The density of a row under one component is Student's, with a hole in it that of what is seen.
    #[test]
    fn rows_have_student_densities() {
        let component = Component {
            mean: vec![0.3, -0.2],
            strength: 2.0,
            dof: 5.0,
            scale_inverse: mat![[1.5, 0.4], [0.4, 0.8]],
        };
        let predictor = Predictor::from_parts(&[component], &[], vec![0.0]).unwrap();
        let values = [[0.1, 0.5], [-2.0, 1.0], [4.0, 0.0]];
        let seen = [true, true, true, true, true, false];
        let table = Table::new(3, 2, values.concat(), &seen).unwrap();
        let none = Labels::from_strings(&[None::<&str>; 3]);
        let data = IqgmeData::in_given_units(&table, &none, &[], &Mat::identity(2, 2)).unwrap();
        let found = predictor.ln_density(&data.rows, Gate::Marginal).unwrap();
        // nu - P + 1, and (u + 1) / (u (nu - P + 1)) of the inverse scale.
        let (dof, factor) = (4.0_f64, 3.0_f64 / 8.0);
        let ln_student = |n: f64, ln_det: f64, distance: f64| -> f64 {
            ln_gamma(0.5 * (dof + n))
                - ln_gamma(0.5 * dof)
                - 0.5 * (n * (dof * std::f64::consts::PI).ln() + ln_det)
                - 0.5 * (dof + n) * (distance / dof).ln_1p()
        };
        let [a, b, c]: [f64; 3] = [1.5, 0.4, 0.8].map(|s| s * factor);
        for (row, [x, y]) in values.into_iter().enumerate() {
            let (dx, dy) = (x - 0.3, y + 0.2);
            let exact = match row {
                2 => ln_student(1.0, a.ln(), dx * dx / a),
                _ => {
                    let det = a * c - b * b;
                    let distance = (c * dx * dx - 2.0 * b * dx * dy + a * dy * dy) / det;
                    ln_student(2.0, det.ln(), distance)
                }
            };
            let apart = found[row] - exact;
            assert!(apart.abs() < 1e-10, "{row}: {} {exact}", found[row]);
        }
    }

    /// Its distribution has the standard deviation that it states: the integral of the tails is the variance.
    #[test]
    fn a_missing_cell_has_its_standard_deviation() {
        let cell = CellTerm {
            weight: 1.0,
            mean: 0.4,
            sd: 1.3,
            dof: 7.0,
        };
        // Variance = 4 integral of t P(x > mean + t) over t > 0, by symmetry.
        let step = 0.01;
        let times = (0..20_000).map(|k| step * (f64::from(k) + 0.5));
        let tails = times.map(|t| t * (1.0 - cell.below(cell.mean + t)));
        let sd = (4.0 * step * tails.sum::<f64>()).sqrt();
        assert!((sd / cell.sd - 1.0).abs() < 1e-3, "{sd}");
        assert!((cell.below(cell.mean) - 0.5).abs() < 1e-12);
    }

    /// Probability of a row with a hole: the variance of its score is that of an uncertain expert on an uncertain feature, by Monte Carlo.
    #[test]
    fn scores_of_rows_with_holes_have_the_variance_of_expert_and_feature() {
        let component = Component {
            mean: vec![0.3, -0.2],
            strength: 2.0,
            dof: 5.0,
            scale_inverse: mat![[7.5, 2.0], [2.0, 4.0]],
        };
        let expert = Expert {
            at_prior: false,
            mean: vec![0.8, -0.5, 0.2],
            covariance: mat![[0.5, 0.1, 0.0], [0.1, 0.9, -0.2], [0.0, -0.2, 0.3]],
        };
        let predictor =
            Predictor::from_parts(&[component], std::slice::from_ref(&expert), vec![0.0]).unwrap();
        let table = Table::new(1, 2, vec![1.1, 0.0], &[true, false]).unwrap();
        let none = Labels::from_strings(&[None::<&str>]);
        let data = IqgmeData::in_given_units(&table, &none, &[], &Mat::identity(2, 2)).unwrap();
        let found = predictor
            .probabilities(&data.rows, Experts::Integrated)
            .unwrap();
        // The missing feature given the observed one, with covariance (nu B)^-1 = [[1.5, .4], [.4, .8]].
        let (given, variance_given): (f64, f64) =
            (-0.2 + 0.4 / 1.5 * (1.1 - 0.3), 0.8 - 0.4 * 0.4 / 1.5);
        let factor = npb_linalg::Cholesky::new(expert.covariance.as_ref()).unwrap();
        let rng = &mut npb_infer::stream(4, [0; 4]);
        let mut normal = || rng.sample::<f64, _>(rand_distr::StandardNormal);
        let draws = 400_000;
        let (mut first, mut second) = (0.0, 0.0);
        for _ in 0..draws {
            let mut w = [normal(), normal(), normal()];
            factor.mul_l(&mut w);
            let x = given + variance_given.sqrt() * normal();
            let w = w.iter().zip(&expert.mean).map(|(z, m)| z + m);
            let score: f64 = w.zip([1.1, x, 1.0]).map(|(w, x)| w * x).sum();
            first += score;
            second += score * score;
        }
        let n = f64::from(draws);
        let (mean, variance) = (first / n, second / n - (first / n).powi(2));
        let expected = normal_cdf(mean / (1.0 + variance).sqrt());
        assert!(
            (found[0][0] - expected).abs() < 2e-3,
            "{} {expected}",
            found[0][0]
        );
    }
}
