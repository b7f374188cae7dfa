//! One pass over the rows: missing features, components and soft labels, in that order for each row, and their sufficient statistics.
//!
//! Equations in `docs/iqgme.md`, "Rows". What a component makes of a row comes from [`Deviations`], a block of rows at a time.

mod sums;

use std::f64::consts::PI;
use std::ops::Range;

use npb_linalg::NotPositiveDefinite;
use npb_linalg::faer::Mat;
use npb_linalg::lanes::{LaneConditional, LaneScratch};
use npb_priors::dist::probit_moments;
use npb_priors::special::inverse_mills;
use rayon::prelude::*;

use crate::IqgmeError;
use crate::conditional::softmax::{Lanes, LnTotal};
use crate::conditional::{Deviations, Linear, Quadratics, padded};
use crate::rows::{Block, Group, Rows};
use crate::state::{Expected, IqgmeState};
use crate::stats::Stats;
use sums::{Sums, Weighted};

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

/// What the pass needs of the components for the labelled rows, or for the others.
struct Side {
    quadratics: Quadratics,
    /// The part of `k_ih` that is the same for all rows, by lane; minus infinity in the padding.
    constant: Vec<f64>,
    /// `<t> (<c> + <w_x>'d) - <w_x c>'d`; none for unlabelled rows.
    linear: Option<Linear>,
}

/// The posterior of the parameters in the form the pass uses.
pub(crate) struct PassParameters {
    /// `m_h` as columns.
    means: Mat<f64>,
    labelled: Side,
    unlabelled: Side,
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
        constant.resize(padded(n_components), f64::NEG_INFINITY);
        let plain: Vec<Mat<f64>> = expected.iter().map(|e| e.precision.clone()).collect();
        let mut with_expert = plain.clone();
        let mut with_expert_constant = constant.clone();
        let mut linear = Linear::zeros(p, n_components);
        for (h, expert) in state.experts.iter().enumerate() {
            if expert.tied {
                // A component that has lost its labelled rows does not take others: its expert knows nothing of them.
                with_expert_constant[h] = f64::NEG_INFINITY;
                continue;
            }
            let moments = expert.about(&state.components[h].mean);
            with_expert[h] += &moments.slope_second;
            with_expert_constant[h] -= 0.5 * moments.intercept_second;
            let slope = &expert.mean[..p];
            linear.set(h, moments.intercept, slope, &moments.slope_intercept);
        }
        Ok(Self {
            means: Mat::from_fn(p, n_components, |j, h| state.components[h].mean[j]),
            labelled: Side {
                quadratics: Quadratics::new(with_expert)?,
                constant: with_expert_constant,
                linear: Some(linear),
            },
            unlabelled: Side {
                quadratics: Quadratics::new(plain)?,
                constant,
                linear: None,
            },
        })
    }

    fn n_components(&self) -> usize {
        self.means.ncols()
    }

    fn side(&self, labelled: bool) -> &Side {
        if labelled {
            &self.labelled
        } else {
            &self.unlabelled
        }
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
    let partial: Vec<Result<Totals, IqgmeError>> = work
        .into_par_iter()
        .map_init(
            <(Scratch, LaneScratch)>::default,
            |(scratch, lanes), (blocks, locations, rho)| {
                let mut worker = Worker {
                    rows,
                    parameters,
                    update,
                    totals: Totals::default(),
                    scratch,
                };
                for block in blocks {
                    let offset = blocks[0].rows.start;
                    let range = block.rows.start - offset..block.rows.end - offset;
                    let rho = &mut rho[range.start * n_components..range.end * n_components];
                    worker.block(block, &mut locations[range], rho, lanes, iteration)?;
                }
                Ok(worker.totals)
            },
        )
        .collect();
    let mut totals = Totals::default();
    for part in partial {
        totals.add(part?);
    }
    Ok(totals.stats(rows.n_features, n_components))
}

/// What the bound needs of each row, summed: see [`Stats`].
#[derive(Clone, Copy, Debug, Default)]
struct RowTerms {
    soft_local: f64,
    label_entropy: f64,
    missing_entropy: f64,
    magnitude: f64,
}

impl RowTerms {
    fn add(&mut self, other: &Self) {
        self.soft_local += other.soft_local;
        self.label_entropy += other.label_entropy;
        self.missing_entropy += other.missing_entropy;
        self.magnitude += other.magnitude;
    }
}

/// Sums over some of the rows.
#[derive(Default)]
struct Totals {
    /// None while there are no such rows.
    labelled: Option<Sums>,
    unlabelled: Option<Sums>,
    terms: RowTerms,
}

impl Totals {
    fn add(&mut self, other: Self) {
        merge(&mut self.labelled, other.labelled);
        merge(&mut self.unlabelled, other.unlabelled);
        self.terms.add(&other.terms);
    }

    fn sums(&mut self, labelled: bool, parameters: &PassParameters) -> &mut Sums {
        let sums = if labelled {
            &mut self.labelled
        } else {
            &mut self.unlabelled
        };
        let (p, n) = parameters.means.shape();
        sums.get_or_insert_with(|| Sums::new(p, n))
    }

    fn stats(self, n_features: usize, n_components: usize) -> Stats {
        let none = || Sums::new(n_features, n_components);
        let labelled = self.labelled.unwrap_or_else(none);
        let unlabelled = self.unlabelled.unwrap_or_else(none);
        Stats {
            labelled: labelled.moments(),
            unlabelled: unlabelled.moments(),
            soft: labelled.soft(),
            soft_local: self.terms.soft_local,
            label_entropy: self.terms.label_entropy,
            missing_entropy: self.terms.missing_entropy,
            magnitude: self.terms.magnitude,
        }
    }
}

fn merge(sums: &mut Option<Sums>, other: Option<Sums>) {
    match (sums.as_mut(), other) {
        (Some(sums), Some(other)) => sums.merge(&other),
        (None, other) => *sums = other,
        (Some(_), None) => {}
    }
}

/// Memory of one thread of work. Tables are of one block's rows.
#[derive(Default)]
struct Scratch {
    deviations: Deviations,
    /// `<t>`.
    soft: Vec<f64>,
    /// `ln rho` up to a constant of the row, that constant, and `rho`: row, lane.
    ln_rho: Vec<f64>,
    ln_total: Vec<LnTotal>,
    rho: Vec<f64>,
    /// Responsibilities of a group, by lane.
    group_weight: Vec<f64>,
}

/// Adds rows to the totals, block by block.
struct Worker<'a> {
    rows: &'a Rows,
    parameters: &'a PassParameters,
    update: Update,
    totals: Totals,
    scratch: &'a mut Scratch,
}

impl Worker<'_> {
    fn lanes(&self) -> Lanes {
        self.scratch.deviations.lanes()
    }

    /// Updates the rows of a block: `q(x^m, z)`, then `q(t)`, and adds them to the sums.
    fn block(
        &mut self,
        block: &Block,
        locations: &mut [f64],
        rho: &mut [f64],
        lanes: &mut LaneScratch,
        iteration: u64,
    ) -> Result<(), IqgmeError> {
        let parameters = self.parameters;
        let side = parameters.side(block.labelled);
        self.scratch.deviations.load(
            self.rows,
            block,
            &parameters.means,
            &side.quadratics,
            side.linear.as_ref(),
        );
        self.start(block, locations, rho);
        self.ln_weights(side);
        if block.complete {
            self.weigh(0..block.rows.len());
        } else {
            for group in &self.rows.groups[block.groups.clone()] {
                let pattern = &self.rows.patterns[group.pattern];
                let mut given = side.quadratics.condition(pattern, lanes, iteration)?;
                self.incomplete_group(block, group, side, &mut given);
            }
        }
        self.store_responsibilities(rho);
        if block.labelled {
            self.update_soft_labels(block, locations);
        }
        self.accumulate(block);
        Ok(())
    }

    /// Sizes the tables of a block and fills in what is known before the update.
    fn start(&mut self, block: &Block, locations: &[f64], rho: &[f64]) {
        let (n, lanes) = (block.rows.len(), self.lanes().len);
        self.scratch.soft.clear();
        self.scratch.soft.resize(n, 0.0);
        if block.labelled {
            for (i, &location) in locations.iter().enumerate() {
                self.scratch.soft[i] = probit_mean(location, self.is_positive(block, i));
            }
        }
        self.scratch.ln_rho.resize(n * lanes, 0.0);
        self.scratch.ln_total.resize(n, LnTotal::default());
        self.scratch.rho.resize(n * lanes, 0.0);
        if !self.update.responsibilities {
            let n_components = self.parameters.n_components();
            let to = self.scratch.rho.chunks_exact_mut(lanes);
            for (to, from) in to.zip(rho.chunks_exact(n_components)) {
                to[..n_components].copy_from_slice(from);
                to[n_components..].fill(0.0);
            }
        }
    }

    /// `ln rho` up to a constant of the row, without what missing features add to it.
    fn ln_weights(&mut self, side: &Side) {
        let Lanes { arch, len: lanes } = self.lanes();
        let rows = self
            .scratch
            .ln_rho
            .chunks_exact_mut(lanes)
            .zip(self.scratch.deviations.quadratics().chunks_exact(lanes))
            .zip(self.scratch.deviations.slopes().chunks_exact(lanes))
            .zip(&self.scratch.soft);
        let constant = &side.constant[..lanes];
        arch.dispatch(
            #[inline(always)]
            || {
                for (((ln_rho, quadratic), slope), soft) in rows {
                    for h in 0..lanes {
                        ln_rho[h] = constant[h] - 0.5 * quadratic[h] + soft * slope[h];
                    }
                }
            },
        );
    }

    /// Responsibilities of some rows of the block, and their entropy.
    fn weigh(&mut self, rows: Range<usize>) {
        let lanes = self.lanes();
        let table = rows.start * lanes.len..rows.end * lanes.len;
        let rho = &mut self.scratch.rho[table.clone()];
        let entropy = if self.update.responsibilities {
            let ln_rho = &self.scratch.ln_rho[table];
            let ln_total = &mut self.scratch.ln_total[rows];
            lanes.softmax(ln_rho, INACTIVE, rho, ln_total);
            lanes.entropy(ln_rho, rho, ln_total)
        } else {
            let active = rho.iter().filter(|&&weight| weight > 0.0);
            active.map(|weight| -weight * weight.ln()).sum()
        };
        self.totals.terms.label_entropy += entropy;
        self.totals.terms.magnitude += entropy.abs();
    }

    /// Rows that share a missing pattern.
    fn incomplete_group(
        &mut self,
        block: &Block,
        group: &Group,
        side: &Side,
        given: &mut LaneConditional<'_>,
    ) {
        let missing = &self.rows.patterns[group.pattern].missing;
        let lanes = self.lanes().len;
        self.scratch.group_weight.clear();
        self.scratch.group_weight.resize(lanes, 0.0);
        for position in group.rows.clone() {
            self.incomplete_row(position - block.rows.start, missing, given, side);
        }
        self.add_missing(block, missing, given);
    }

    fn incomplete_row(
        &mut self,
        i: usize,
        missing: &[usize],
        given: &mut LaneConditional<'_>,
        side: &Side,
    ) {
        let lanes = self.lanes().len;
        let linear = side.linear.as_ref();
        let terms = linear.map(|linear| (linear, self.scratch.soft[i]));
        self.scratch.deviations.condition(i, missing, given, terms);
        let ln_rho = &mut self.scratch.ln_rho[i * lanes..(i + 1) * lanes];
        let missing_terms = self
            .scratch
            .deviations
            .explained()
            .iter()
            .zip(given.ln_det());
        for (ln_rho, (explained, ln_det)) in ln_rho.iter_mut().zip(missing_terms) {
            *ln_rho += 0.5 * (explained - ln_det);
        }
        self.weigh(i..i + 1);
        for h in 0..self.parameters.n_components() {
            let weight = self.scratch.rho[i * lanes + h];
            if weight > 0.0 {
                self.scratch.group_weight[h] += weight;
                let mean = self.parameters.means.col_as_slice(h);
                self.scratch
                    .deviations
                    .complete(i, h, missing, mean, linear);
            }
        }
    }

    /// `sum rho Omega^` and the entropy of `q(x^m | z)` of a group: one inverse for each component serves all its rows.
    fn add_missing(&mut self, block: &Block, missing: &[usize], given: &mut LaneConditional<'_>) {
        let size = missing.len() as f64 * (1.0 + (2.0 * PI).ln());
        let each = self.scratch.group_weight.iter().zip(given.ln_det());
        for (&weight, &ln_det) in each.filter(|(weight, _)| **weight > 0.0) {
            let entropy = 0.5 * weight * (size - ln_det);
            self.totals.terms.missing_entropy += entropy;
            self.totals.terms.magnitude += entropy.abs();
        }
        let weight = &self.scratch.group_weight;
        let sums = self.totals.sums(block.labelled, self.parameters);
        sums.add_covariance(missing, weight, given.covariance());
    }

    fn store_responsibilities(&self, rho: &mut [f64]) {
        if self.update.responsibilities {
            let (lanes, n_components) = (self.lanes().len, self.parameters.n_components());
            let to = rho.chunks_exact_mut(n_components);
            for (to, from) in to.zip(self.scratch.rho.chunks_exact(lanes)) {
                to.copy_from_slice(&from[..n_components]);
            }
        }
    }

    fn is_positive(&self, block: &Block, i: usize) -> bool {
        self.rows.signs[block.rows.start + i] > 0.0
    }

    fn update_soft_labels(&mut self, block: &Block, locations: &mut [f64]) {
        if self.update.soft_labels {
            let slopes = self.scratch.deviations.slopes();
            self.lanes().averages(&self.scratch.rho, slopes, locations);
        }
        for (i, &location) in locations.iter().enumerate() {
            let moments = probit_moments(location, self.is_positive(block, i));
            self.scratch.soft[i] = moments.mean;
            let square = 0.5 * location * location;
            let cross = moments.mean * location;
            self.totals.terms.soft_local += moments.ln_mass - cross + square;
            self.totals.terms.magnitude += moments.ln_mass.abs() + cross.abs() + square;
        }
    }

    /// Adds the completed rows of a block to the sums.
    fn accumulate(&mut self, block: &Block) {
        let deviations = &self.scratch.deviations;
        let sums = self.totals.sums(block.labelled, self.parameters);
        for h in 0..self.parameters.n_components() {
            let rows = if block.complete {
                deviations.rows()
            } else {
                deviations.completed(h)
            };
            let weighted = Weighted {
                rows,
                soft: &self.scratch.soft,
                weights: &self.scratch.rho[h..],
                lanes: deviations.lanes().len,
            };
            sums.add(h, &weighted);
        }
    }
}

/// `<t>` alone: cheaper than all moments where the sum does not cancel.
fn probit_mean(location: f64, positive: bool) -> f64 {
    let sign = if positive { 1.0 } else { -1.0 };
    let toward = sign * location;
    if toward > -1.0 {
        sign * (toward + inverse_mills(-toward))
    } else {
        probit_moments(location, positive).mean
    }
}
