//! One pass over the rows: missing features, components and soft labels, in that order for each row, and their sufficient statistics.
//!
//! Equations in `docs/iqgme.md`, "Rows". Everything is written around the component's mean, so that one matrix product for each component serves
//! rows of any pattern, and only the missing block is factorised.

use std::f64::consts::PI;

use npb_linalg::NotPositiveDefinite;
use npb_linalg::faer::{Accum, Mat, MatRef, Par, linalg::matmul::matmul};
use npb_linalg::lanes::{LaneConditional, LaneScratch};
use npb_priors::dist::{ProbitMoments, probit_moments};
use npb_priors::special::log_sum_exp;
use rayon::prelude::*;

use crate::IqgmeError;
use crate::conditional::{Deviations, Quadratics};
use crate::rows::{Block, Pattern, Rows};
use crate::state::{Expected, IqgmeState, dot};
use crate::stats::{Moments, Stats};

/// Responsibilities below this are set to zero: the component is not active in the row.
const INACTIVE: f64 = 1e-20;

/// Partial sums: a fixed number, so that results do not depend on the number of threads.
const CHUNKS: usize = 16;

/// Which of a row's quantities the pass updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    /// `q(z)`; otherwise the responsibilities given are used.
    pub(crate) responsibilities: bool,
    /// `q(t)`.
    pub(crate) soft_labels: bool,
}

/// The posterior of the parameters in the form the pass uses.
pub(crate) struct PassParameters {
    n_features: usize,
    /// `m_h` as columns.
    means: Mat<f64>,
    /// `<ln pi_h> + <ln|Lambda_h|>/2 - P ln(2 pi)/2 - P/(2 u_h)`.
    constant: Vec<f64>,
    labelled: Quadratics,
    unlabelled: Quadratics,
    /// `<w_x>` as columns, `<w_x c>` as columns, `<c>`, `<c^2>`.
    slope: Mat<f64>,
    slope_intercept: Mat<f64>,
    intercept: Vec<f64>,
    intercept_second: Vec<f64>,
}

impl PassParameters {
    /// On failure: the component whose quadratic form is not positive definite.
    pub(crate) fn new(
        state: &IqgmeState,
        expected: &[Expected],
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let n_components = state.components.len();
        let p = state.components[0].mean.len();
        let mut constant = vec![0.0; state.sticks.truncation()];
        state.sticks.expected_ln_weights(&mut constant);
        constant.truncate(n_components);
        for (h, component) in state.components.iter().enumerate() {
            constant[h] += 0.5
                * (expected[h].ln_det_precision
                    - p as f64 * ((2.0 * PI).ln() + 1.0 / component.strength));
        }
        let plain: Vec<Mat<f64>> = expected.iter().map(|e| e.precision.clone()).collect();
        let mut with_expert = plain.clone();
        let mut slope = Mat::zeros(p, n_components);
        let mut slope_intercept = Mat::zeros(p, n_components);
        let mut intercept = vec![0.0; n_components];
        let mut intercept_second = vec![0.0; n_components];
        for (h, expert) in state.experts.iter().enumerate() {
            if expert.tied {
                // A component that has lost its labelled rows does not take others: its expert knows nothing of them.
                intercept_second[h] = f64::INFINITY;
                continue;
            }
            let moments = expert.about(&state.components[h].mean);
            with_expert[h] += &moments.slope_second;
            for j in 0..p {
                slope[(j, h)] = expert.mean[j];
                slope_intercept[(j, h)] = moments.slope_intercept[j];
            }
            intercept[h] = moments.intercept;
            intercept_second[h] = moments.intercept_second;
        }
        Ok(Self {
            n_features: p,
            means: Mat::from_fn(p, n_components, |j, h| state.components[h].mean[j]),
            constant,
            labelled: Quadratics::new(with_expert)?,
            unlabelled: Quadratics::new(plain)?,
            slope,
            slope_intercept,
            intercept,
            intercept_second,
        })
    }

    fn n_components(&self) -> usize {
        self.constant.len()
    }
}

/// Runs the pass; `locations` (of `q(t)`, n) and `responsibilities` (n x N) are by sorted position and are updated in place.
pub(crate) fn pass(
    rows: &Rows,
    parameters: &PassParameters,
    locations: &mut [f64],
    responsibilities: &mut [f64],
    update: Update,
    iteration: u64,
) -> Result<Stats, IqgmeError> {
    let n_components = parameters.n_components();
    let per_chunk = rows.blocks.len().div_ceil(CHUNKS).max(1);
    let mut work = Vec::with_capacity(CHUNKS);
    let (mut locations, mut responsibilities) = (locations, responsibilities);
    for blocks in rows.blocks.chunks(per_chunk) {
        let n = blocks[blocks.len() - 1].rows.end - blocks[0].rows.start;
        let (locations_here, locations_rest) = locations.split_at_mut(n);
        let (rho_here, rho_rest) = responsibilities.split_at_mut(n * n_components);
        (locations, responsibilities) = (locations_rest, rho_rest);
        work.push((blocks, locations_here, rho_here));
    }
    let partial: Vec<Result<Stats, IqgmeError>> = work
        .into_par_iter()
        .map(|(blocks, locations, rho)| {
            let mut worker = Worker::new(rows, parameters, update);
            for block in blocks {
                let offset = blocks[0].rows.start;
                let range = block.rows.start - offset..block.rows.end - offset;
                let rho = &mut rho[range.start * n_components..range.end * n_components];
                worker.block(block, &mut locations[range], rho, iteration)?;
            }
            Ok(worker.stats)
        })
        .collect();
    let mut stats = Stats::zeros(rows.n_features, n_components);
    for part in partial {
        stats.add(&part?);
    }
    stats.uncentre(&parameters.means);
    Ok(stats)
}

/// Scratch memory of one thread of work and the sums it has so far.
struct Worker<'a> {
    rows: &'a Rows,
    parameters: &'a PassParameters,
    update: Update,
    stats: Stats,
    deviations: Deviations,
    scratch: LaneScratch,
    /// `<t>` of the block's rows.
    soft: Vec<f64>,
    ln_rho: Vec<f64>,
    group_weight: Vec<f64>,
    /// Active rows of one component, plain and weighted.
    active: Vec<f64>,
    weighted: Vec<f64>,
}

impl<'a> Worker<'a> {
    fn new(rows: &'a Rows, parameters: &'a PassParameters, update: Update) -> Self {
        let n_components = parameters.n_components();
        Self {
            rows,
            parameters,
            update,
            stats: Stats::zeros(rows.n_features, n_components),
            deviations: Deviations::default(),
            scratch: LaneScratch::default(),
            soft: Vec::new(),
            ln_rho: vec![0.0; n_components],
            group_weight: vec![0.0; n_components],
            active: Vec::new(),
            weighted: Vec::new(),
        }
    }

    fn block(
        &mut self,
        block: &Block,
        locations: &mut [f64],
        rho: &mut [f64],
        iteration: u64,
    ) -> Result<(), IqgmeError> {
        let parameters = self.parameters;
        let quadratics = if block.labelled {
            &parameters.labelled
        } else {
            &parameters.unlabelled
        };
        self.deviations
            .load(self.rows, block, &parameters.means, quadratics);
        self.soft.clear();
        self.soft.resize(block.rows.len(), 0.0);
        let n_components = parameters.n_components();
        let mut scratch = std::mem::take(&mut self.scratch);
        for group in &self.rows.groups[block.groups.clone()] {
            let pattern = &self.rows.patterns[group.pattern];
            let mut given = quadratics.condition(pattern, &mut scratch, iteration)?;
            self.group_weight.fill(0.0);
            for i in group.rows.start - block.rows.start..group.rows.end - block.rows.start {
                let rho = &mut rho[i * n_components..(i + 1) * n_components];
                self.row(block, i, pattern, &mut given, &mut locations[i], rho);
            }
            self.add_missing_covariance(pattern, &mut given, block.labelled);
        }
        self.scratch = scratch;
        self.accumulate(block, rho);
        Ok(())
    }

    /// Updates one row: `q(x^m, z)`, then `q(t)`, and adds its local terms.
    fn row(
        &mut self,
        block: &Block,
        i: usize,
        pattern: &Pattern,
        given: &mut LaneConditional<'_>,
        location: &mut f64,
        rho: &mut [f64],
    ) {
        let soft = if block.labelled {
            self.probit(block, i, *location).mean
        } else {
            0.0
        };
        self.log_weights(block, i, pattern, given, soft);
        if self.update.responsibilities {
            let total = log_sum_exp(&self.ln_rho);
            for (rho, ln_rho) in rho.iter_mut().zip(&self.ln_rho) {
                let value = (ln_rho - total).exp();
                *rho = if value < INACTIVE { 0.0 } else { value };
            }
        }
        let m = pattern.missing.len() as f64;
        for (h, &weight) in rho.iter().enumerate() {
            if weight > 0.0 {
                let label = -weight * weight.ln();
                self.stats.label_entropy += label;
                let mut missing = 0.0;
                if m > 0.0 {
                    missing = 0.5 * weight * (m * (1.0 + (2.0 * PI).ln()) - given.ln_det()[h]);
                    self.stats.missing_entropy += missing;
                }
                self.stats.magnitude += label + missing.abs();
                self.group_weight[h] += weight;
            }
        }
        if block.labelled {
            self.soft_label(block, i, location, rho);
        }
    }

    /// `ln rho` up to a constant of the row; completes the centred rows.
    fn log_weights(
        &mut self,
        block: &Block,
        i: usize,
        pattern: &Pattern,
        given: &mut LaneConditional<'_>,
        soft: f64,
    ) {
        let parameters = self.parameters;
        let n_components = parameters.n_components();
        for h in 0..n_components {
            let d = self.deviations.deviation(h, i);
            let product = self.deviations.product(h, i);
            self.ln_rho[h] = parameters.constant[h] - 0.5 * dot(d, product);
            if block.labelled {
                let slope = parameters.slope.col_as_slice(h);
                let offset = parameters.slope_intercept.col_as_slice(h);
                self.ln_rho[h] += soft * (parameters.intercept[h] + dot(d, slope))
                    - dot(d, offset)
                    - 0.5 * parameters.intercept_second[h];
            }
        }
        let m = pattern.missing.len();
        if m == 0 {
            return;
        }
        if block.labelled {
            let linear =
                |h, j| soft * parameters.slope[(j, h)] - parameters.slope_intercept[(j, h)];
            self.deviations.complete(i, &pattern.missing, given, linear);
        } else {
            self.deviations
                .complete(i, &pattern.missing, given, |_, _| 0.0);
        }
        let constant = 0.5 * m as f64 * (2.0 * PI).ln();
        let (quadratic, ln_det) = (self.deviations.quadratic(), given.ln_det());
        for h in 0..n_components {
            self.ln_rho[h] += 0.5 * (quadratic[h] - ln_det[h]) + constant;
        }
    }

    fn probit(&self, block: &Block, i: usize, location: f64) -> ProbitMoments {
        probit_moments(location, self.rows.signs[block.rows.start + i] > 0.0)
    }

    fn soft_label(&mut self, block: &Block, i: usize, location: &mut f64, rho: &[f64]) {
        if self.update.soft_labels {
            *location = 0.0;
            for (h, &weight) in rho.iter().enumerate() {
                if weight > 0.0 {
                    let slope = dot(
                        self.deviations.deviation(h, i),
                        self.parameters.slope.col_as_slice(h),
                    );
                    *location += weight * (self.parameters.intercept[h] + slope);
                }
            }
        }
        let moments = self.probit(block, i, *location);
        self.soft[i] = moments.mean;
        self.stats.soft_local +=
            moments.ln_mass - moments.mean * *location + 0.5 * *location * *location;
        self.stats.magnitude +=
            moments.ln_mass.abs() + (moments.mean * *location).abs() + 0.5 * *location * *location;
    }

    /// `sum rho Omega^` of a group: one inverse for each component serves all its rows.
    fn add_missing_covariance(
        &mut self,
        pattern: &Pattern,
        given: &mut LaneConditional<'_>,
        labelled: bool,
    ) {
        let m = pattern.missing.len();
        if m == 0 {
            return;
        }
        let covariance = given.covariance();
        let lanes = covariance.len() / (m * m);
        let second = &mut moments(&mut self.stats, labelled).second;
        for (h, &weight) in self.group_weight.iter().enumerate() {
            if weight > 0.0 {
                for (l, &j) in pattern.missing.iter().enumerate() {
                    for (k, &i) in pattern.missing.iter().enumerate().skip(l) {
                        second[h][(i, j)] += weight * covariance[(k * m + l) * lanes + h];
                    }
                }
            }
        }
    }

    /// Adds the completed rows of a block to the moments, active rows only.
    fn accumulate(&mut self, block: &Block, rho: &[f64]) {
        let p = self.parameters.n_features;
        let n = block.rows.len();
        let n_components = self.parameters.n_components();
        for h in 0..n_components {
            self.active.clear();
            self.weighted.clear();
            let sums = moments(&mut self.stats, block.labelled);
            let mut weighted_soft = 0.0;
            let mut count = 0;
            for i in 0..n {
                let weight = rho[i * n_components + h];
                if weight > 0.0 {
                    let d = self.deviations.deviation(h, i);
                    self.active.extend_from_slice(d);
                    self.weighted.extend(d.iter().map(|d| weight * d));
                    sums.weight[h] += weight;
                    count += 1;
                    weighted_soft += weight * self.soft[i];
                }
            }
            if count == 0 {
                continue;
            }
            matmul(
                sums.second[h].as_mut(),
                Accum::Add,
                MatRef::from_row_major_slice(&self.active, count, p).transpose(),
                MatRef::from_row_major_slice(&self.weighted, count, p),
                1.0,
                Par::Seq,
            );
            let first = sums.first.col_as_slice_mut(h);
            for row in self.weighted.chunks_exact(p.max(1)) {
                for (first, d) in first.iter_mut().zip(row) {
                    *first += d;
                }
            }
            if block.labelled {
                let sums = self.stats.soft.col_as_slice_mut(h);
                sums[p] += weighted_soft;
                let mut active = self.active.chunks_exact(p.max(1));
                for i in 0..n {
                    let weight = rho[i * n_components + h];
                    if weight > 0.0 {
                        let scale = weight * self.soft[i];
                        for (sum, d) in sums.iter_mut().zip(active.next().into_iter().flatten()) {
                            *sum += scale * d;
                        }
                    }
                }
            }
        }
    }
}

fn moments(stats: &mut Stats, labelled: bool) -> &mut Moments {
    if labelled {
        &mut stats.labelled
    } else {
        &mut stats.unlabelled
    }
}
