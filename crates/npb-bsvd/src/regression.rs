//! A pass over one side: given the other side, the factors, the intercept and the coefficients of each row (or column) are the coefficients of a
//! Gaussian linear regression of its entries, and all rows are independent (`docs/bsvd.md#rows-and-columns`).

use std::ops::Range;
use std::sync::Mutex;

use npb_infer::parallel;
use npb_infer::stream;
use npb_priors::dist::Gamma;
use pulp::Arch;
use rand::RngExt;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::grouped::Cells;
use crate::links;
use crate::normals::normals;
use crate::state::SideState;
use npb_data::Features;
use npb_linalg::aligned::Aligned;
use npb_linalg::elementary::vectorised;
use npb_linalg::row_regression::{self, Layout, Real};
use npb_linalg::{dot, dot_f32};

/// Sums over cells of known noise: of weights `w`, `w r` and `w r^2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResidualSums {
    /// Of rows and columns with noise of their own; 0 otherwise.
    pub(crate) weight: f64,
    pub(crate) first: f64,
    pub(crate) second: f64,
}

impl ResidualSums {
    /// Adds those of a row whose cells have a further common weight.
    pub(crate) fn add(&mut self, other: &Self, weight: f64) {
        self.weight += weight * other.weight;
        self.first += weight * other.first;
        self.second += weight * other.second;
    }
}

/// Which numbers of a side are regressed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Regressors {
    /// Factors come first,
    pub(crate) rank: usize,
    /// then a one for the intercept,
    pub(crate) intercept: bool,
    /// then the features of the other side.
    pub(crate) features: usize,
}

impl Regressors {
    pub(crate) fn layout(&self) -> Layout {
        Layout::new(self.rank + usize::from(self.intercept) + self.features)
    }
}

/// Lines of the table of regressors that are filled at once.
const LINES: usize = 256;

/// Fills the table of regressors that the rows see, one line for each column: its scaled factors, a one, its features; then, where the response will be,
/// the root of its weight, by which the line is multiplied.
///
/// `factors`: of the columns, `rank` numbers each; `scales`: of the components; `weights`: of the columns, empty when all are 1.
pub(crate) fn fill_design(
    regressors: &Regressors,
    factors: &[f32],
    scales: &[f64],
    features: Option<&Features>,
    weights: &[f32],
    n: usize,
    design: &mut Aligned<f32>,
) {
    let stride = regressors.layout().stride;
    design.zeros(n * stride);
    let rank = regressors.rank;
    let fill = |j: usize, line: &mut [f32]| {
        let own = SideState::part(factors, j, rank);
        for ((x, &v), &s) in line.iter_mut().zip(own).zip(scales) {
            *x = v * s as f32;
        }
        let mut at = rank;
        if regressors.intercept {
            line[at] = 1.0;
            at += 1;
        }
        if let Some(features) = features {
            features.write(j, &mut line[at..]);
            at += features.n_features();
        }
        line[at] = 1.0;
        if let Some(weight) = weights.get(j) {
            let root = weight.sqrt();
            line[..=at].iter_mut().for_each(|x| *x *= root);
        }
    };
    // A line is too little work to be handed out alone.
    let blocks = design.chunks_mut(LINES * stride).enumerate();
    parallel::for_each(blocks, |(block, lines)| {
        let first = block * LINES;
        let lines = lines.chunks_exact_mut(stride).enumerate();
        lines.for_each(|(k, line)| fill(first + k, line));
    });
}

/// What a pass over one side knows. "Rows" are the rows of the matrix in one pass and its columns in the other.
pub(crate) struct Pass<'a> {
    pub(crate) arch: Arch,
    /// Number of the first of the rows: 0, or that of a shard.
    pub(crate) first: usize,
    pub(crate) cells: &'a Cells,
    /// Response of each cell, in the order of `cells`.
    pub(crate) values: &'a [f32],
    /// Square roots of the weights of the cells, in the order of `cells`; weights are 1 when there are none.
    pub(crate) roots: Option<&'a [f32]>,
    pub(crate) regressors: Regressors,
    pub(crate) design: &'a [f32],
    /// Intercepts of the other side and its coefficients on the features of this one.
    pub(crate) other: &'a SideState,
    /// Features of this side.
    pub(crate) features: Option<&'a Features>,
    pub(crate) offset: f64,
    pub(crate) noise_precision: f64,
    /// Prior precision of the regression coefficients, and precision times mean; those of the factors of a row are yet to be multiplied by its weight.
    pub(crate) prior_precision: &'a [f64],
    pub(crate) prior_linear: &'a [f64],
    /// Of the factors of this side to its features; or empty.
    pub(crate) links: &'a [f64],
    /// Of the prior precision of each row's factors; or none.
    pub(crate) factor_weights: &'a [f32],
    pub(crate) task: Task,
    /// Draw the coefficients of a row one at a time, not jointly.
    pub(crate) coordinates: bool,
    /// h of the noise weights of this side, when it has noise of its own.
    pub(crate) noise_shape: f64,
    /// Seed, chain, sweep and number of the move.
    pub(crate) key: (u64, [u64; 3]),
    pub(crate) block_name: &'static str,
    pub(crate) pool: &'a Pool,
}

/// What is done with the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Draw their coefficients.
    Draw,
    /// The same, and sum up the residuals that remain.
    DrawAndSum,
    /// Sum up residuals only.
    Sum,
    /// Write down the fitted latent value of every cell.
    Latents,
}

impl Task {
    /// Whether coefficients are drawn.
    pub(crate) fn draws(self) -> bool {
        matches!(self, Self::Draw | Self::DrawAndSum)
    }

    /// Whether residuals are summed up.
    pub(crate) fn sums(self) -> bool {
        matches!(self, Self::DrawAndSum | Self::Sum)
    }
}

/// Memory of the blocks that are being worked on; as many parts as there ever were threads at once.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Scratch>>);

impl Pool {
    pub(crate) fn take(&self) -> Scratch {
        self.0
            .lock()
            .map_or_else(|_| None, |mut free| free.pop())
            .unwrap_or_default()
    }

    pub(crate) fn put(&self, scratch: Scratch) {
        if let Ok(mut free) = self.0.lock() {
            free.push(scratch);
        }
    }
}

/// Memory for one block.
#[derive(Default)]
pub(crate) struct Scratch {
    single: Typed<f32>,
    double: Typed<f64>,
    solve: Solve,
    prior_precision: Vec<f64>,
    prior_linear: Vec<f64>,
    features: Vec<f32>,
}

/// Sums of a row, its system of equations, and its coefficients as drawn and on average.
#[derive(Default)]
struct Solve {
    sums: Aligned<f64>,
    system: Aligned<f64>,
    panel: Aligned<f64>,
    x: Vec<f64>,
    mean: Vec<f64>,
}

#[derive(Default)]
struct Typed<T> {
    cells: Aligned<T>,
    coefficients: Vec<T>,
    residuals: Vec<T>,
    /// One regressor after the other, and what is left of the response: for draws one at a time.
    columns: Vec<T>,
    left: Vec<T>,
}

/// The numbers that a pass writes, for some consecutive rows and blocks.
pub(crate) struct Target<'a> {
    pub(crate) factors: &'a mut [f32],
    pub(crate) intercepts: &'a mut [f32],
    pub(crate) coefficients: &'a mut [f32],
    /// Noise weights; none when the side has no noise of its own.
    pub(crate) weights: &'a mut [f32],
    /// Means of the draws given the other side, all coefficients of a row together; or empty when nobody asks.
    pub(crate) means: &'a mut [f32],
    /// Latent values of the cells, written by that task only.
    pub(crate) latents: &'a mut [f32],
    /// One for each block.
    pub(crate) sums: &'a mut [ResidualSums],
}

/// What a pass writes of one row.
struct RowTarget<'t> {
    factors: &'t mut [f32],
    /// One or none.
    intercept: &'t mut [f32],
    coefficients: &'t mut [f32],
    /// Or none.
    means: &'t mut [f32],
}

impl RowTarget<'_> {
    fn read(&self, x: &mut [f64]) {
        let parts = [&*self.factors, self.intercept, self.coefficients];
        let known = parts.into_iter().flatten();
        x.iter_mut()
            .zip(known)
            .for_each(|(x, &known)| *x = f64::from(known));
    }

    fn write(&mut self, x: &[f64]) {
        let (factors, rest) = x.split_at(self.factors.len());
        let (intercept, coefficients) = rest.split_at(self.intercept.len());
        narrow(factors, self.factors);
        narrow(intercept, self.intercept);
        narrow(coefficients, self.coefficients);
    }
}

impl Target<'_> {
    fn row(&mut self, n: usize, regressors: &Regressors) -> RowTarget<'_> {
        let of_row = |width: usize| n * width..(n + 1) * width;
        let width = regressors.layout().width;
        RowTarget {
            factors: &mut self.factors[of_row(regressors.rank)],
            intercept: &mut self.intercepts[of_row(usize::from(regressors.intercept))],
            coefficients: &mut self.coefficients[of_row(regressors.features)],
            means: match self.means.is_empty() {
                true => &mut [],
                false => &mut self.means[of_row(width)],
            },
        }
    }

    fn split(self, rows: usize, cells: usize, blocks: usize, pass: &Pass<'_>) -> (Self, Self) {
        let r = &pass.regressors;
        let (factors, factors_rest) = cut(self.factors, rows * r.rank);
        let (intercepts, intercepts_rest) = cut(self.intercepts, rows * usize::from(r.intercept));
        let (coefficients, coefficients_rest) = cut(self.coefficients, rows * r.features);
        let (weights, weights_rest) = cut(self.weights, rows);
        let (means, means_rest) = cut(self.means, rows * r.layout().width);
        let (latents, latents_rest) = cut(self.latents, cells);
        let (sums, sums_rest) = cut(self.sums, blocks);
        (
            Self {
                factors,
                intercepts,
                coefficients,
                weights,
                means,
                latents,
                sums,
            },
            Self {
                factors: factors_rest,
                intercepts: intercepts_rest,
                coefficients: coefficients_rest,
                weights: weights_rest,
                means: means_rest,
                latents: latents_rest,
                sums: sums_rest,
            },
        )
    }
}

/// A table in two, or nothing twice.
fn cut<T>(table: &mut [T], at: usize) -> (&mut [T], &mut [T]) {
    table.split_at_mut(at.min(table.len()))
}

/// Above this noise precision (in units in which the data have variance 1 or so) single precision would be the larger part of the noise.
pub(crate) const DOUBLE_BEYOND: f64 = 1e3;

impl Pass<'_> {
    /// Works on consecutive blocks of rows, in parallel; the result does not depend on the number of threads.
    pub(crate) fn run(&self, blocks: &[Range<usize>], target: Target<'_>) -> Result<(), BsvdError> {
        match blocks {
            [] => Ok(()),
            [rows] => {
                let mut scratch = self.pool.take();
                let done = if self.noise_precision > DOUBLE_BEYOND {
                    self.block::<f64>(rows, target, &mut scratch)
                } else {
                    self.block::<f32>(rows, target, &mut scratch)
                };
                self.pool.put(scratch);
                done
            }
            _ => {
                let (left, right) = blocks.split_at(blocks.len() / 2);
                let rows = right[0].start - left[0].start;
                let starts = &self.cells.starts;
                let cells = starts[right[0].start] - starts[left[0].start];
                let (first, second) = target.split(rows, cells, left.len(), self);
                let (a, b) = rayon::join(|| self.run(left, first), || self.run(right, second));
                a.and(b)
            }
        }
    }

    /// What row `i` is called in keys of random streams.
    fn number(&self, i: usize) -> u64 {
        (self.first + i) as u64
    }

    /// The part of the latent value of a cell that this pass does not change; `features`: of its row.
    #[inline(always)]
    fn known(&self, features: &[f32], j: usize) -> f64 {
        let mut known = self.offset;
        if let Some(&intercept) = self.other.intercepts.get(j) {
            known += f64::from(intercept);
        }
        if features.is_empty() {
            return known;
        }
        known
            + dot_f32(
                SideState::part(&self.other.coefficients, j, features.len()),
                features,
            )
    }

    /// Residuals come multiplied by the roots of their weights.
    fn add_residuals<T: Real>(
        &self,
        cells: Range<usize>,
        residuals: &[T],
        total: &mut ResidualSums,
    ) {
        let (mut first, mut second) = (0.0, 0.0);
        let roots = self.roots.map(|roots| &roots[cells.clone()]);
        match roots {
            Some(roots) => residuals
                .iter()
                .zip(roots)
                .for_each(|(r, &root)| first += r.to_f64() * f64::from(root)),
            None if self.other.noise_weights.is_empty() => {
                total.weight += residuals.len() as f64;
                residuals.iter().for_each(|r| first += r.to_f64());
            }
            None => {
                let weights = &self.other.noise_weights;
                for (r, &j) in residuals.iter().zip(&self.cells.others[cells]) {
                    let weight = f64::from(weights[j as usize]);
                    total.weight += weight;
                    first += r.to_f64() * weight.sqrt();
                }
            }
        }
        residuals
            .iter()
            .for_each(|r| second += r.to_f64() * r.to_f64());
        total.first += first;
        total.second += second;
    }

    /// Scratch memory of the lengths that a block's rows need.
    fn make_room<T: Typing>(&self, typed: &mut Typed<T>, scratch: &mut Scratch) {
        let layout = self.regressors.layout();
        let cells = layout.cells_in_block();
        typed.cells.resize(cells * layout.stride);
        typed.residuals.resize(cells, T::default());
        typed.coefficients.clear();
        typed.coefficients.resize(layout.stride, T::default());
        let solve = &mut scratch.solve;
        solve.sums.resize(layout.sums_len());
        solve.system.resize(layout.sums_len());
        solve.x.resize(layout.width, 0.0);
        let q = self.features.map_or(0, Features::n_features);
        scratch.features.resize(q, 0.0);
    }

    /// Latent values from residuals of a response of zero.
    fn latents_of<T: Typing>(&self, residuals: &[T], others: &[u32], out: &mut [f32]) {
        for ((x, r), &j) in out.iter_mut().zip(residuals).zip(others) {
            // Regressors come multiplied by the root of the other side's weight.
            let weight = self.other.noise_weight(j as usize);
            *x = (-r.to_f64() / weight.sqrt()) as f32;
        }
    }

    /// Features of row i, and the prior of its coefficients given these and its weight.
    fn prior_of_row(&self, i: usize, scratch: &mut Scratch) {
        if let Some(known) = self.features {
            known.write(i, &mut scratch.features);
        }
        scratch.prior_precision.clear();
        scratch
            .prior_precision
            .extend_from_slice(self.prior_precision);
        scratch.prior_linear.clear();
        scratch.prior_linear.extend_from_slice(self.prior_linear);
        let rank = self.regressors.rank;
        let means = &mut scratch.prior_linear[..rank];
        links::add_expected(self.links, &scratch.features, means);
        if let Some(&weight) = self.factor_weights.get(i) {
            let precisions = &mut scratch.prior_precision[..rank];
            for x in precisions.iter_mut().chain(means) {
                *x *= f64::from(weight);
            }
        }
    }

    fn block<T: Typing>(
        &self,
        rows: &Range<usize>,
        mut target: Target<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), BsvdError> {
        let mut typed = T::typed(scratch);
        self.make_room(&mut typed, scratch);
        let first_cell = self.cells.starts[rows.start];
        let draws = self.task.draws();
        let mut total = ResidualSums::default();
        for (n, i) in rows.clone().enumerate() {
            self.prior_of_row(i, scratch);
            let mut row = Row {
                pass: self,
                prior_precision: &scratch.prior_precision,
                prior_linear: &scratch.prior_linear,
                index: i,
                range: self.cells.range(i),
                features: &scratch.features,
                typed: &mut typed,
                layout: self.regressors.layout(),
                weight: target.weights.get(n).map_or(1.0, |&w| f64::from(w)),
            };
            let solve = &mut scratch.solve;
            row.coefficients(draws, solve, target.row(n, &self.regressors))?;
            match self.task {
                Task::Draw => {}
                Task::DrawAndSum | Task::Sum => {
                    let own = match row.closed_sums(solve) {
                        Some(own) => own,
                        None => row.residual_sums(&solve.x),
                    };
                    let weight = target.weights.get_mut(n);
                    let weight = weight.map_or(Ok(1.0), |weight| {
                        if draws {
                            *weight = self.draw_weight(i, &own)?;
                        }
                        Ok::<_, BsvdError>(f64::from(*weight))
                    })?;
                    total.add(&own, weight);
                }
                Task::Latents => row.residuals(&solve.x, |cells, residuals| {
                    let out = &mut target.latents[cells.start - first_cell..];
                    self.latents_of(residuals, &self.cells.others[cells], out);
                }),
            }
        }
        target.sums[0] = total;
        T::give_back(scratch, typed);
        Ok(())
    }

    /// Draws the noise weight of row `i`, given its coefficients: the residuals `r`, weighted by the other side, are `N(0, 1 / (alpha w))`.
    fn draw_weight(&self, i: usize, residuals: &ResidualSums) -> Result<f32, BsvdError> {
        let (seed, [chain, sweep, code]) = self.key;
        let mut rng = stream(seed, [chain, sweep, code + NOISE_OF_SIDE, self.number(i)]);
        let n = self.cells.range(i).len() as f64;
        let shape = self.noise_shape + 0.5 * n;
        let rate = self.noise_shape + 0.5 * self.noise_precision * residuals.second;
        let drawn = Gamma::new(shape, rate)?.sample(&mut rng) as f32;
        Ok(drawn.clamp(LEAST_WEIGHT, MOST_WEIGHT))
    }
}

/// From the number of a pass to that of the noise weights drawn in it, in keys of random streams.
const NOISE_OF_SIDE: u64 = 100;

/// Far beyond what data could ask for; products of two stay within single precision.
const LEAST_WEIGHT: f32 = 1e-12;
const MOST_WEIGHT: f32 = 1e12;

fn narrow(from: &[f64], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, &x)| *to = x as f32);
}

/// The part of the memory that holds numbers of a type.
trait Typing: Real {
    fn typed(scratch: &mut Scratch) -> Typed<Self>;
    fn give_back(scratch: &mut Scratch, typed: Typed<Self>);
}

impl Typing for f32 {
    fn typed(scratch: &mut Scratch) -> Typed<f32> {
        std::mem::take(&mut scratch.single)
    }

    fn give_back(scratch: &mut Scratch, typed: Typed<f32>) {
        scratch.single = typed;
    }
}

impl Typing for f64 {
    fn typed(scratch: &mut Scratch) -> Typed<f64> {
        std::mem::take(&mut scratch.double)
    }

    fn give_back(scratch: &mut Scratch, typed: Typed<f64>) {
        scratch.double = typed;
    }
}

/// One row at work.
struct Row<'a, 'p, T> {
    pass: &'a Pass<'p>,
    /// Prior precision times prior mean of its coefficients.
    prior_precision: &'a [f64],
    prior_linear: &'a [f64],
    index: usize,
    range: Range<usize>,
    features: &'a [f32],
    typed: &'a mut Typed<T>,
    layout: Layout,
    /// Common factor of the weights of its cells.
    weight: f64,
}

impl<T: Real> Row<'_, '_, T> {
    /// The coefficients into `solve.x`: as they are, or drawn, which then are written to the target.
    fn coefficients(
        &mut self,
        draws: bool,
        solve: &mut Solve,
        mut target: RowTarget<'_>,
    ) -> Result<(), BsvdError> {
        if !draws || self.pass.coordinates {
            target.read(&mut solve.x);
        }
        if !draws {
            return Ok(());
        }
        if self.pass.coordinates {
            self.draw_coordinates(&mut solve.x);
        } else {
            solve.mean.resize(target.means.len(), 0.0);
            self.draw(solve)?;
            narrow(&solve.mean, target.means);
        }
        target.write(&solve.x);
        // What follows sees them as they are stored.
        let stored = solve.x.iter_mut();
        stored.for_each(|x| *x = f64::from(*x as f32));
        Ok(())
    }

    /// Draws the coefficients, and writes down what they are on average.
    fn draw(&mut self, solve: &mut Solve) -> Result<(), BsvdError> {
        let Solve {
            sums,
            system,
            panel,
            x,
            mean,
        } = solve;
        self.sum(sums);
        let pass = self.pass;
        let Layout { width, stride } = self.layout;
        let noise_precision = pass.noise_precision * self.weight;
        // Whole lines: their lengths are those of registers.
        vectorised(
            pass.arch,
            #[inline(always)]
            || {
                let scaled = system.iter_mut().zip(&**sums);
                scaled.for_each(|(to, sum)| *to = noise_precision * sum);
            },
        );
        for (r, &prior) in self.prior_precision.iter().enumerate() {
            system[r * stride + r] += prior;
        }
        let linear = system[width * stride..].iter_mut();
        linear
            .zip(self.prior_linear)
            .for_each(|(b, prior)| *b += prior);
        let (seed, [chain, sweep, code]) = pass.key;
        normals(
            x,
            &mut stream(seed, [chain, sweep, code, pass.number(self.index)]),
        );
        row_regression::draw_coefficients(pass.arch, self.layout, system, panel, x, mean).map_err(
            |bad| BsvdError::Numerical {
                sweep,
                block: pass.block_name,
                item: pass.first + self.index,
                pivot: bad.pivot,
                value: bad.value,
            },
        )
    }

    /// Draws the coefficients one after the other, each given the others, from `x` on; what is left of the response is kept up to date.
    fn draw_coordinates(&mut self, x: &mut [f64]) {
        let pass = self.pass;
        let Layout { width, stride } = self.layout;
        let n = self.range.len();
        self.typed.columns.resize(width * n, T::default());
        self.typed.left.resize(n, T::default());
        for (to, &x) in self.typed.coefficients.iter_mut().zip(&*x) {
            *to = T::from_f64(x);
        }
        let block = self.layout.cells_in_block();
        for from in (0..n).step_by(block) {
            let count = block.min(n - from);
            self.fill(from, count);
            let Typed {
                cells,
                coefficients,
                columns,
                left,
                ..
            } = &mut *self.typed;
            let cells = &cells[..count * stride];
            let left = &mut left[from..from + count];
            T::residuals(pass.arch, cells, self.layout, coefficients, left);
            for (c, cell) in cells.chunks_exact(stride).enumerate() {
                for (k, &value) in cell[..width].iter().enumerate() {
                    columns[k * n + from + c] = value;
                }
            }
        }
        let (seed, [chain, sweep, code]) = pass.key;
        let mut rng = stream(seed, [chain, sweep, code, pass.number(self.index)]);
        let noise_precision = pass.noise_precision * self.weight;
        let Typed { columns, left, .. } = &mut *self.typed;
        for (k, x) in x.iter_mut().enumerate() {
            let column = &columns[k * n..(k + 1) * n];
            let (square, product) = T::square_and_product(pass.arch, column, left);
            let precision = self.prior_precision[k] + noise_precision * square;
            let linear = self.prior_linear[k] + noise_precision * (product + square * *x);
            let z: f64 = rng.sample(StandardNormal);
            let new = linear / precision + z / precision.sqrt();
            T::add_scaled(pass.arch, T::from_f64(*x - new), column, left);
            *x = new;
        }
    }

    /// Sums of products over all cells.
    fn sum(&mut self, sums: &mut [f64]) {
        let Layout { stride, .. } = self.layout;
        let block = self.layout.cells_in_block();
        if self.range.is_empty() {
            sums.fill(0.0);
            return;
        }
        let mut done = 0;
        while done < self.range.len() {
            let count = block.min(self.range.len() - done);
            self.fill(done, count);
            let cells = &self.typed.cells[..count * stride];
            T::add_products(self.pass.arch, cells, self.layout, done == 0, sums);
            done += count;
        }
    }

    /// Writes cells `from..from + count` of the row into memory.
    fn fill(&mut self, from: usize, count: usize) {
        let Layout { width, stride } = self.layout;
        let pass = self.pass;
        let start = self.range.start + from;
        let others = &pass.cells.others[start..start + count];
        let values = &pass.values[start..start + count];
        let cells = &mut self.typed.cells[..count * stride];
        T::gather(pass.arch, pass.design, self.layout, others, cells);
        for ((cell, &j), &y) in cells.chunks_exact_mut(stride).zip(others).zip(values) {
            let y = match pass.task {
                Task::Latents => 0.0,
                _ => f64::from(y),
            };
            let root = cell[width].to_f64();
            cell[width] = T::from_f64((y - pass.known(self.features, j as usize)) * root);
        }
        let weighted = pass.roots.filter(|_| pass.task != Task::Latents);
        if let Some(roots) = weighted {
            let cells = self.typed.cells.chunks_exact_mut(stride);
            for (cell, &root) in cells.zip(&roots[start..start + count]) {
                cell.iter_mut()
                    .for_each(|x| *x = T::from_f64(x.to_f64() * f64::from(root)));
            }
        }
    }

    /// Those of its residuals, cell by cell.
    fn residual_sums(&mut self, x: &[f64]) -> ResidualSums {
        let pass = self.pass;
        let mut own = ResidualSums::default();
        self.residuals(x, |cells, residuals| {
            pass.add_residuals(cells, residuals, &mut own);
        });
        own
    }

    /// The same from the sums of products of the row, of which one regressor is the root of the weight: `y'y - 2 x'b + x'S x`.
    ///
    /// None where the coefficients were not drawn from such sums.
    fn closed_sums(&self, solve: &Solve) -> Option<ResidualSums> {
        let pass = self.pass;
        let drawn = pass.task == Task::DrawAndSum && !pass.coordinates;
        if !(drawn && pass.regressors.intercept) {
            return None;
        }
        let Layout { width, stride } = self.layout;
        let line = |r: usize| &solve.sums[r * stride..][..=r];
        let (x, ones) = (&solve.x, pass.regressors.rank);
        let (products, square) = (&line(width)[..width], line(width)[width]);
        let mut own = ResidualSums {
            weight: line(ones)[ones],
            first: products[ones],
            second: square - 2.0 * dot(x, products),
        };
        for r in 0..width {
            let (own_square, below) = line(r).split_last()?;
            own.second += x[r] * (2.0 * dot(&x[..r], below) + own_square * x[r]);
            own.first -= x[r] * line(r.max(ones))[r.min(ones)];
        }
        own.second = own.second.max(0.0);
        Some(own)
    }

    /// What is left of the response given the coefficients, as they are stored: range of cells by range of cells.
    fn residuals(&mut self, x: &[f64], mut take: impl FnMut(Range<usize>, &[T])) {
        let Layout { stride, .. } = self.layout;
        for (to, &x) in self.typed.coefficients.iter_mut().zip(x) {
            *to = T::from_f64(x);
        }
        let block = self.layout.cells_in_block();
        let mut done = 0;
        while done < self.range.len() {
            let count = block.min(self.range.len() - done);
            self.fill(done, count);
            let typed = &mut *self.typed;
            let out = &mut typed.residuals[..count];
            T::residuals(
                self.pass.arch,
                &typed.cells[..count * stride],
                self.layout,
                &typed.coefficients,
                out,
            );
            let start = self.range.start + done;
            take(start..start + count, out);
            done += count;
        }
    }
}
