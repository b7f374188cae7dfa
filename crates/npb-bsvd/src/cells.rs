//! Lists of cells, and what is streamed of those that are followed while the chain runs. Equations: `docs/bsvd.md#followed-cells`.

use npb_data::Ratings;
use npb_infer::parallel;
use npb_priors::special::ln_add_exp;
use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::gibbs::GivenColumns;
use crate::likelihood::Likelihood;
use crate::view::View;

/// Cells that are handed to a thread at once.
const BLOCK: usize = 1024;

/// Cells of a matrix: to be followed while the chain runs, to be predicted, or to choose from; and what is held out there, if anything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cells {
    /// Row of each cell.
    pub rows: Vec<u32>,
    /// Column of each cell.
    pub columns: Vec<u32>,
    /// Held-out value of each cell, in units of the data, for the predictive density; or empty.
    pub values: Vec<f64>,
}

impl Cells {
    /// The cells of held-out entries, with their values.
    pub fn of<V: Copy + Into<f64> + Send + Sync>(ratings: &Ratings<V>) -> Self {
        let mut cells = Self::default();
        for entry in ratings.iter() {
            cells.rows.push(entry.row);
            cells.columns.push(entry.column);
            cells.values.push(entry.value.into());
        }
        cells
    }

    /// Row and column of a cell.
    fn place(&self, n: usize) -> (usize, usize) {
        (self.rows[n] as usize, self.columns[n] as usize)
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Checks lengths, places and values.
    pub(crate) fn check(&self, n_rows: usize, n_cols: usize) -> Result<(), BsvdError> {
        let size = |what, found, expected| BsvdError::Size {
            what,
            found,
            expected,
        };
        if self.columns.len() != self.len() {
            return Err(size("columns of cells", self.columns.len(), self.len()));
        }
        if !self.values.is_empty() && self.values.len() != self.len() {
            return Err(size("values of cells", self.values.len(), self.len()));
        }
        for (axis, list, size) in [
            ("row", &self.rows, n_rows),
            ("column", &self.columns, n_cols),
        ] {
            if let Some(index) = list.iter().position(|&i| i as usize >= size) {
                return Err(BsvdError::Index {
                    what: "cell",
                    index,
                    axis,
                    found: list[index] as usize,
                    size,
                });
            }
        }
        match self.values.iter().position(|v| !v.is_finite()) {
            None => Ok(()),
            Some(n) => Err(BsvdError::Entry {
                row: self.rows[n] as usize,
                column: self.columns[n] as usize,
                value: self.values[n],
                rule: "is not a finite number",
            }),
        }
    }
}

/// What is known of cells after the draws so far, streamed (Welford): memory does not grow with the chain.
///
/// The *noise-free value* of a cell is what its entry would be on average in one draw of all unknowns; the *entry* has noise on top.
///
/// With the Gaussian likelihood, when [`BsvdMove::Rows`](crate::BsvdMove::Rows) is the last move of a sweep and rows are drawn jointly (the default), a sweep
/// gives not the draw of the noise-free value but its mean over the factors, intercept and coefficients of the row given all else (Rao and
/// Blackwell): the same posterior mean with less Monte Carlo error. The sum of squares is of both parts, those means about their mean and draws about them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellMoments {
    /// Draws so far.
    pub draws: u64,
    /// Posterior mean of the noise-free value of each cell, units of the data.
    pub mean: Vec<f64>,
    /// Sum of squared deviations over the draws.
    pub squares: Vec<f64>,
    /// Mean over the draws of the variance of an entry about its noise-free value, for each cell, units of the data.
    pub noise_variance: Vec<f64>,
    /// ln of the sum over draws of the density of the held-out value; empty without values.
    pub ln_density_sum: Vec<f64>,
    /// Predictive probability of an entry below the held-out value; empty without values.
    pub below: Vec<f64>,
    /// Predictive probability of an entry of at most the held-out value; empty without values.
    pub up_to: Vec<f64>,
}

impl CellMoments {
    pub(crate) fn new(cells: &Cells) -> Self {
        let (n, held_out) = (cells.len(), cells.values.len());
        Self {
            draws: 0,
            mean: vec![0.0; n],
            squares: vec![0.0; n],
            noise_variance: vec![0.0; n],
            ln_density_sum: vec![f64::NEG_INFINITY; held_out],
            below: vec![0.0; held_out],
            up_to: vec![0.0; held_out],
        }
    }

    /// Posterior standard deviation of the noise-free value of cell `n`; 0 with fewer than two draws.
    pub fn sd(&self, n: usize) -> f64 {
        if self.draws < 2 {
            return 0.0;
        }
        (self.squares[n] / (self.draws - 1) as f64).max(0.0).sqrt()
    }

    /// Standard deviation of a new entry of cell `n`.
    pub fn predictive_sd(&self, n: usize) -> f64 {
        self.sd(n).hypot(self.noise_variance[n].sqrt())
    }

    /// ln predictive density of the held-out value of cell `n`, averaged over draws.
    pub fn ln_density(&self, n: usize) -> f64 {
        self.ln_density_sum[n] - (self.draws as f64).ln()
    }

    /// Takes in one draw. Cost: rank and features for each cell.
    pub(crate) fn add(
        &mut self,
        cells: &Cells,
        view: &View<'_>,
        given_columns: Option<GivenColumns<'_>>,
    ) {
        self.draws += 1;
        let mut latents = vec![0.0; cells.len()];
        let blocks = latents.chunks_mut(BLOCK).enumerate();
        parallel::for_each(blocks, |(block, latents)| {
            for (n, x) in (block * BLOCK..).zip(latents) {
                let (i, j) = cells.place(n);
                *x = view.latent(i, j);
            }
        });
        let averaged = given_columns.filter(|_| view.likelihood == Likelihood::Gaussian);
        self.add_moments(cells, view, &latents, averaged);
        self.add_held_out(cells, view, &latents);
    }

    /// Means, squares and noise, given the latent values of the draw.
    fn add_moments(
        &mut self,
        cells: &Cells,
        view: &View<'_>,
        latents: &[f64],
        averaged: Option<GivenColumns<'_>>,
    ) {
        let share = (self.draws as f64).recip();
        let means = self.mean.chunks_mut(BLOCK);
        let moments = means
            .zip(self.squares.chunks_mut(BLOCK))
            .zip(self.noise_variance.chunks_mut(BLOCK))
            .zip(latents.chunks(BLOCK))
            .enumerate();
        parallel::for_each(moments, |(block, (((mean, squares), noise), latents))| {
            let moments = mean.iter_mut().zip(squares).zip(noise).zip(latents);
            for (n, (((mean, squares), noise), &x)) in (block * BLOCK..).zip(moments) {
                let (i, j) = cells.place(n);
                let response = view.response_at(i, j);
                let value = response.mean(x);
                let expected = averaged.map_or(value, |given| response.mean(given.latent(i, j)));
                let step = expected - *mean;
                *mean += step * share;
                *squares += step * (expected - *mean) + (value - expected).powi(2);
                *noise += (response.variance(x) - *noise) * share;
            }
        });
    }

    /// Densities and distribution functions of held-out values.
    fn add_held_out(&mut self, cells: &Cells, view: &View<'_>, latents: &[f64]) {
        let share = (self.draws as f64).recip();
        let sums = self.ln_density_sum.chunks_mut(BLOCK);
        let held_out = sums
            .zip(self.below.chunks_mut(BLOCK))
            .zip(self.up_to.chunks_mut(BLOCK))
            .enumerate();
        parallel::for_each(held_out, |(block, ((sum, below), up_to))| {
            let sums = sum.iter_mut().zip(below).zip(up_to);
            for (n, ((sum, below), up_to)) in (block * BLOCK..).zip(sums) {
                let (i, j) = cells.place(n);
                let response = view.response_at(i, j);
                let (x, y) = (latents[n], cells.values[n]);
                *sum = ln_add_exp(*sum, response.ln_density(y, x));
                let (b, u) = response.cdf(y, x);
                *below += (b - *below) * share;
                *up_to += (u - *up_to) * share;
            }
        });
    }

    /// Takes in the draws of another chain.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.draws += other.draws;
        if other.draws == 0 {
            return;
        }
        let share = other.draws as f64 / self.draws as f64;
        let before = (self.draws - other.draws) as f64;
        for n in 0..self.mean.len() {
            let step = other.mean[n] - self.mean[n];
            self.mean[n] += share * step;
            self.squares[n] += other.squares[n] + before * share * step * step;
        }
        for (all, new) in [
            (&mut self.noise_variance, &other.noise_variance),
            (&mut self.below, &other.below),
            (&mut self.up_to, &other.up_to),
        ] {
            for (all, new) in all.iter_mut().zip(new) {
                *all += share * (new - *all);
            }
        }
        let sums = self.ln_density_sum.iter_mut().zip(&other.ln_density_sum);
        sums.for_each(|(all, new)| *all = ln_add_exp(*all, *new));
    }

    /// Checks sizes and ranges against the cells.
    pub(crate) fn check(&self, cells: &Cells) -> Result<(), BsvdError> {
        let (n, held_out) = (cells.len(), cells.values.len());
        let of_cells = [&self.mean, &self.squares, &self.noise_variance];
        let of_values = [&self.ln_density_sum, &self.below, &self.up_to];
        let sized =
            of_cells.iter().all(|v| v.len() == n) && of_values.iter().all(|v| v.len() == held_out);
        // No draw, or a density of 0, is minus infinity.
        let numbers = of_cells.iter().chain(&of_values[1..]).copied().flatten();
        let finite = numbers.into_iter().all(|x| x.is_finite())
            && self.ln_density_sum.iter().all(|x| *x < f64::INFINITY);
        let positive = self.noise_variance.iter().all(|v| *v >= 0.0);
        if sized && finite && positive {
            return Ok(());
        }
        Err(BsvdError::State {
            what: "moments of cells: impossible value or size".to_owned(),
        })
    }
}
