//! One pass over the rows: missing features, components and soft labels, in that order for each row, and their sufficient statistics.
//!
//! Equations in `docs/iqgme.md`, "Rows". A block of rows at a time: [`complete`] with the rows in vector registers, [`incomplete`] with the components.

mod complete;
mod incomplete;
mod joint;
mod shared;
mod sums;

use std::f64::consts::PI;

use npb_linalg::NotPositiveDefinite;
use npb_linalg::faer::Mat;
use pulp::Arch;
use rayon::prelude::*;

use crate::conditional::Linear;
use crate::conditional::elementary::soft_label;
use crate::rows::{Block, Rows};
use crate::state::{Expected, IqgmeState};
use crate::stats::Stats;
use crate::{IqgmeError, RowFamily, multinomial};
use complete::{CompleteScratch, CompleteSide};
use incomplete::{IncompleteScratch, IncompleteSide};
use joint::JointScratch;
use sums::Sums;

/// Responsibilities below this are set to zero: the component is not active in the row.
const INACTIVE: f64 = 1e-20;

/// Partial sums: a fixed number, so that results do not depend on the number of threads.
const CHUNKS: usize = 16;

/// Which of a row's quantities the pass updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    /// `q(z)`; otherwise the responsibilities given are used.
    pub(crate) responsibilities: bool,
    /// `q(t)`, where it is a factor of its own.
    pub(crate) soft_labels: bool,
    /// What is a factor of its own.
    pub(crate) family: RowFamily,
}

/// The law of a row given each component: the exponent is `k_ih - d'L_h d / 2` plus what [`Linear`] adds.
#[derive(Clone)]
pub(crate) struct Terms {
    /// `L_h`.
    pub(crate) precision: Vec<Mat<f64>>,
    /// The part of `k_ih` that is the same for all rows.
    pub(crate) constant: Vec<f64>,
    /// `<t> (<c> + <w_x>'d) - <w_x c>'d`, summed over utilities; none for unlabelled rows.
    pub(crate) linear: Option<Linear>,
}

impl Terms {
    /// Of rows without labels.
    fn unlabelled(state: &IqgmeState, expected: &[Expected]) -> Self {
        let p = state.components[0].mean.len() as f64;
        let mut constant = vec![0.0; state.sticks.truncation()];
        state.sticks.expected_ln_weights(&mut constant);
        constant.truncate(state.components.len());
        for (h, component) in state.components.iter().enumerate() {
            constant[h] += 0.5
                * (expected[h].ln_det_precision - p * ((2.0 * PI).ln() + 1.0 / component.strength));
        }
        Self {
            precision: expected.iter().map(|e| e.precision.clone()).collect(),
            constant,
            linear: None,
        }
    }

    /// Adds what the experts make of a label.
    fn labelled(mut self, state: &IqgmeState, n_utilities: usize) -> Self {
        let p = state.components[0].mean.len();
        let mut linear = Linear::zeros(p, state.components.len(), n_utilities);
        for (i, expert) in state.experts.iter().enumerate() {
            let (h, k) = (i / n_utilities, i % n_utilities);
            if expert.tied {
                // A component that has lost its labelled rows does not take others: its experts know nothing of them.
                self.constant[h] = f64::NEG_INFINITY;
                continue;
            }
            let moments = expert.about(&state.components[h].mean);
            self.precision[h] += &moments.slope_second;
            self.constant[h] -= 0.5 * moments.intercept_second;
            let slope = &expert.mean[..p];
            linear.add(h, k, moments.intercept, slope, &moments.slope_intercept);
        }
        self.linear = Some(linear);
        self
    }
}

/// What the pass needs of the components for the labelled rows, or for the others: only for such rows as there are.
struct Side {
    complete: Option<CompleteSide>,
    incomplete: Option<IncompleteSide>,
}

impl Side {
    fn new(
        terms: Terms,
        means: &Mat<f64>,
        rows: &Rows,
        labelled: bool,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let complete = rows.any(labelled, true);
        let complete = complete.then(|| CompleteSide::new(&terms, means));
        let incomplete = rows.any(labelled, false);
        Ok(Self {
            complete: complete.transpose()?,
            incomplete: incomplete.then(|| IncompleteSide::new(terms)).transpose()?,
        })
    }
}

/// The posterior of the parameters in the form the pass uses.
pub(crate) struct PassParameters {
    /// `m_h` as columns.
    means: Mat<f64>,
    n_utilities: usize,
    labelled: Side,
    unlabelled: Side,
}

impl PassParameters {
    /// On failure: the component whose quadratic form is not positive definite.
    pub(crate) fn new(
        state: &IqgmeState,
        expected: &[Expected],
        rows: &Rows,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        let (p, n) = (rows.n_features, state.components.len());
        let means = Mat::from_fn(p, n, |j, h| state.components[h].mean[j]);
        let unlabelled = Terms::unlabelled(state, expected);
        let labelled = unlabelled.clone().labelled(state, rows.n_utilities);
        Self::from_terms(means, labelled, unlabelled, rows)
    }

    /// From the law of labelled and of unlabelled rows given each component, around the columns of `means`.
    pub(crate) fn from_terms(
        means: Mat<f64>,
        labelled: Terms,
        unlabelled: Terms,
        rows: &Rows,
    ) -> Result<Self, (usize, NotPositiveDefinite)> {
        Ok(Self {
            labelled: Side::new(labelled, &means, rows, true)?,
            unlabelled: Side::new(unlabelled, &means, rows, false)?,
            n_utilities: rows.n_utilities,
            means,
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

/// What the pass updates of the rows, by sorted position.
pub(crate) struct RowFactors<'a> {
    /// Locations of `q(t)`: row, utility.
    pub(crate) locations: &'a mut [f64],
    /// `<t>`: row, utility.
    pub(crate) soft: &'a mut [f64],
    /// In the layout of [`crate::responsibilities::Responsibilities`].
    pub(crate) responsibilities: &'a mut [f64],
}

impl<'a> RowFactors<'a> {
    /// The factors of the first `n` rows, and those of the others.
    fn split(self, n: usize, n_components: usize, n_utilities: usize) -> (Self, Self) {
        let (locations, more_locations) = self.locations.split_at_mut(n * n_utilities);
        let (soft, more_soft) = self.soft.split_at_mut(n * n_utilities);
        let (responsibilities, more_responsibilities) =
            self.responsibilities.split_at_mut(n * n_components);
        (
            Self {
                locations,
                soft,
                responsibilities,
            },
            Self {
                locations: more_locations,
                soft: more_soft,
                responsibilities: more_responsibilities,
            },
        )
    }
}

/// `<t>` of every row (row, utility), from its locations and class; zero for an unlabelled row.
pub(crate) fn soft_means(locations: &[f64], rows: &Rows) -> Vec<f64> {
    let mut soft = vec![0.0; locations.len()];
    let n_utilities = rows.n_utilities.max(1);
    let each = soft
        .chunks_exact_mut(n_utilities)
        .zip(locations.chunks_exact(n_utilities));
    for ((soft, locations), class) in each.zip(&rows.classes) {
        if let Some(class) = *class {
            multinomial::moments(class, locations, soft);
        }
    }
    soft
}

/// Runs the pass and updates the factors of the rows in place.
pub(crate) fn pass(
    rows: &Rows,
    parameters: &PassParameters,
    mut factors: RowFactors<'_>,
    update: Update,
    iteration: u64,
) -> Result<Stats, IqgmeError> {
    let n_components = parameters.n_components();
    let per_chunk = rows.blocks.len().div_ceil(CHUNKS).max(1);
    let mut work = Vec::with_capacity(CHUNKS);
    for blocks in rows.blocks.chunks(per_chunk) {
        let n = blocks.iter().map(|block| block.rows.len()).sum();
        let (here, rest) = factors.split(n, n_components, rows.n_utilities);
        factors = rest;
        work.push((blocks, here));
    }
    let partial: Vec<Result<Totals, IqgmeError>> = work
        .into_par_iter()
        .map_init(Scratch::default, |scratch, (blocks, mut factors)| {
            let mut worker = Worker {
                rows,
                parameters,
                update,
                iteration,
                totals: Totals::default(),
                scratch,
            };
            for block in blocks {
                let n = block.rows.len();
                let (mut here, rest) = factors.split(n, n_components, rows.n_utilities);
                factors = rest;
                worker.block(block, &mut here)?;
            }
            Ok(worker.totals)
        })
        .collect();
    let mut totals = Totals::default();
    for part in partial {
        totals.add(part?);
    }
    totals.settle(parameters);
    Ok(totals.stats(rows, n_components))
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
        let (sums, n_utilities) = if labelled {
            (&mut self.labelled, parameters.n_utilities)
        } else {
            (&mut self.unlabelled, 0)
        };
        let (p, n) = parameters.means.shape();
        sums.get_or_insert_with(|| Sums::new(p, n, n_utilities))
    }

    /// Completes the sums, when all rows are in.
    fn settle(&mut self, parameters: &PassParameters) {
        for (sums, side) in [
            (&mut self.labelled, &parameters.labelled),
            (&mut self.unlabelled, &parameters.unlabelled),
        ] {
            if let (Some(sums), Some(side)) = (sums, &side.incomplete) {
                sums.settle(side.quadratics());
            }
        }
    }

    fn stats(self, rows: &Rows, n_components: usize) -> Stats {
        let none = |n_utilities| Sums::new(rows.n_features, n_components, n_utilities);
        let labelled = self.labelled.unwrap_or_else(|| none(rows.n_utilities));
        let unlabelled = self.unlabelled.unwrap_or_else(|| none(0));
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
        (Some(sums), Some(other)) => sums.merge(other),
        (None, other) => *sums = other,
        (Some(_), None) => {}
    }
}

/// Memory of one thread of work.
#[derive(Default)]
struct Scratch {
    complete: CompleteScratch,
    incomplete: IncompleteScratch,
    joint: JointScratch,
    /// Terms of the bound, by row.
    local: Vec<f64>,
    magnitude: Vec<f64>,
}

/// Adds rows to the totals, block by block: [`complete`] and [`incomplete`] have one kind each.
struct Worker<'a> {
    rows: &'a Rows,
    parameters: &'a PassParameters,
    update: Update,
    iteration: u64,
    totals: Totals,
    scratch: &'a mut Scratch,
}

impl Worker<'_> {
    /// Updates the rows of a block: `q(x^m, z)`, then `q(t)`, and adds them to the sums.
    fn block(&mut self, block: &Block, factors: &mut RowFactors<'_>) -> Result<(), IqgmeError> {
        let side = self.parameters.side(block.labelled);
        match (&side.complete, &side.incomplete) {
            (Some(side), _) if block.complete => self.complete_block(block, side, factors),
            (_, Some(side)) => self.incomplete_block(block, side, factors)?,
            (_, None) => unreachable!("a side has what its blocks need"),
        }
        Ok(())
    }

    fn add_entropy(&mut self, entropy: f64) {
        self.totals.terms.label_entropy += entropy;
        self.totals.terms.magnitude += entropy.abs();
    }

    /// `<t>` of labelled rows and their terms of the bound, from the locations.
    fn update_soft_labels(&mut self, block: &Block, factors: &mut RowFactors<'_>) {
        if self.rows.n_utilities == 1 {
            self.update_one_utility(block, factors);
        } else {
            self.update_utilities(block, factors);
        }
    }

    fn update_utilities(&mut self, block: &Block, factors: &mut RowFactors<'_>) {
        let n_utilities = self.rows.n_utilities;
        let locations = factors.locations.chunks_exact(n_utilities);
        let each = locations.zip(factors.soft.chunks_exact_mut(n_utilities));
        let classes = &self.rows.classes[block.rows.clone()];
        for ((locations, soft), class) in each.zip(classes) {
            let class = class.expect("the rows of a labelled block have labels");
            let ln_mass = multinomial::moments(class, locations, soft);
            let terms = locations.iter().zip(soft.iter());
            let local = terms.clone().map(|(mu, t)| mu * (0.5 * mu - t));
            let size = terms.map(|(mu, t)| (t * mu).abs() + 0.5 * mu * mu);
            self.totals.terms.soft_local += ln_mass + local.sum::<f64>();
            self.totals.terms.magnitude += ln_mass.abs() + size.sum::<f64>();
        }
    }

    /// As [`Self::update_utilities`], rows side by side.
    fn update_one_utility(&mut self, block: &Block, factors: &mut RowFactors<'_>) {
        let n = block.rows.len();
        let (local, magnitude) = (&mut self.scratch.local, &mut self.scratch.magnitude);
        local.resize(n, 0.0);
        magnitude.resize(n, 0.0);
        let locations = factors
            .locations
            .iter()
            .zip(&self.rows.signs[block.rows.clone()]);
        let terms = local.iter_mut().zip(magnitude.iter_mut());
        let each = locations.zip(factors.soft.iter_mut()).zip(terms);
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (((location, sign), soft), (local, magnitude)) in each {
                    let label = soft_label(sign * location);
                    *soft = sign * label.mean;
                    *local = label.local;
                    *magnitude =
                        label.ln_mass.abs() + (*soft * location).abs() + 0.5 * location * location;
                }
            },
        );
        self.totals.terms.soft_local += local.iter().sum::<f64>();
        self.totals.terms.magnitude += magnitude.iter().sum::<f64>();
    }
}
