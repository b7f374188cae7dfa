//! The result of a run.

use std::ops::ControlFlow;

use npb_data::Ratings;
use npb_infer::{Stop, SweepReport, Trace};
use npb_priors::special::ln_add_exp;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::BsvdData;
use crate::features::SideInformation;
use crate::gibbs::BsvdSampler;
use crate::state::BsvdState;
use crate::{BsvdConfig, BsvdError};

/// Cells whose posterior is followed while the chain runs, and what is held out there, if anything.
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

/// Moments of cells over the kept draws, streamed (Welford).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellMoments {
    /// Draws so far.
    pub draws: u64,
    /// Posterior mean of the noise-free value of each cell, units of the data.
    pub mean: Vec<f64>,
    /// Sum of squared deviations from the mean over the draws.
    pub squares: Vec<f64>,
    /// Mean over the draws of the noise variance, units of the data.
    pub noise_variance: f64,
    /// ln of the sum over draws of the density of the held-out value; empty without values.
    pub ln_density_sum: Vec<f64>,
}

impl CellMoments {
    fn new(cells: &Cells) -> Self {
        Self {
            mean: vec![0.0; cells.len()],
            squares: vec![0.0; cells.len()],
            ln_density_sum: vec![f64::NEG_INFINITY; cells.values.len()],
            ..Self::default()
        }
    }

    /// Posterior standard deviation of the noise-free value of cell `n`; 0 with fewer than two draws.
    pub fn sd(&self, n: usize) -> f64 {
        if self.draws < 2 {
            return 0.0;
        }
        (self.squares[n] / (self.draws - 1) as f64).max(0.0).sqrt()
    }

    /// Standard deviation of a new observation of cell `n`.
    pub fn predictive_sd(&self, n: usize) -> f64 {
        self.sd(n).hypot(self.noise_variance.sqrt())
    }

    /// ln predictive density of the held-out value of cell `n`, averaged over draws.
    pub fn ln_density(&self, n: usize) -> f64 {
        self.ln_density_sum[n] - (self.draws as f64).ln()
    }

    fn add(&mut self, cells: &Cells, view: &View<'_>) {
        self.draws += 1;
        let count = self.draws as f64;
        let noise = view.noise_sd();
        self.noise_variance += (noise * noise - self.noise_variance) / count;
        let places = cells.rows.par_iter().zip(&cells.columns);
        places
            .clone()
            .zip(&mut self.mean)
            .zip(&mut self.squares)
            .for_each(|(((&i, &j), mean), squares)| {
                let x = view.value(i as usize, j as usize);
                let step = x - *mean;
                *mean += step / count;
                *squares += step * (x - *mean);
            });
        let ln_constant = -noise.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln();
        places
            .zip(&cells.values)
            .zip(&mut self.ln_density_sum)
            .for_each(|(((&i, &j), &y), sum)| {
                let z = (y - view.value(i as usize, j as usize)) / noise;
                *sum = ln_add_exp(*sum, ln_constant - 0.5 * z * z);
            });
    }
}

/// One draw with the features and units that turn it into values of cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) state: &'a BsvdState,
    pub(crate) side: &'a SideInformation,
    pub(crate) centre: f64,
    pub(crate) scale: f64,
}

impl View<'_> {
    /// Noise-free value of a cell in units of the data. Cost: rank and features.
    pub(crate) fn value(&self, i: usize, j: usize) -> f64 {
        self.centre + self.scale * self.state.latent(i, j, self.side)
    }

    /// Standard deviation of the noise in units of the data.
    pub(crate) fn noise_sd(&self) -> f64 {
        self.scale / self.state.noise_precision.sqrt()
    }
}

/// A fitted matrix: what was asked for beforehand, some whole draws, and the trace of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BsvdFit {
    /// Configuration of the run.
    pub config: BsvdConfig,
    /// Why the run ended.
    pub stop: Stop,
    /// Scalars of every sweep; see [`BsvdSampler::trace`].
    pub trace: Trace,
    /// Cells that were followed.
    pub cells: Cells,
    /// Their moments.
    pub moments: CellMoments,
    /// Stored draws, in order.
    pub draws: Vec<BsvdState>,
    /// The state after the last sweep.
    pub last: BsvdState,
    /// Features of rows and columns.
    pub side: SideInformation,
    /// Centre of the units of the model.
    pub centre: f64,
    /// Scale of the units of the model.
    pub scale: f64,
}

/// Fits the model: runs one chain and follows `cells`.
///
/// # Errors
/// See [`BsvdData::new`]; cells that do not exist; numerical trouble.
///
/// ```
/// use npb_bsvd::npb_data::{Rating, Ratings};
/// use npb_bsvd::{BsvdConfig, Cells, SideInformation, fit};
///
/// // A table of products, a third of it missing.
/// let cells = (0..12u32).flat_map(|i| (0..9u32).map(move |j| (i, j)));
/// let value = |i: u32, j: u32| (f64::from(i) - 5.0) * (f64::from(j) - 3.0);
/// let entries: Vec<Rating> = cells.filter(|(i, j)| (i + j) % 3 != 0)
///     .map(|(row, column)| Rating { row, column, value: value(row, column) }).collect();
/// let ratings = Ratings::new(12, 9, &entries)?;
/// let wanted = Cells { rows: vec![0], columns: vec![0], values: vec![15.0] };
/// let config = BsvdConfig { candidates: 6, ..BsvdConfig::default() };
/// let model = fit(&ratings, SideInformation::default(), &wanted, &config)?;
/// assert!((model.moments.mean[0] - 15.0).abs() < 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit<V: Copy + Into<f64> + Send + Sync>(
    ratings: &Ratings<V>,
    side: SideInformation,
    cells: &Cells,
    config: &BsvdConfig,
) -> Result<BsvdFit, BsvdError> {
    let data = BsvdData::new(ratings, side, config)?;
    let mut sampler = BsvdSampler::new(&data, config.clone())?;
    let mut record = Record::new(&data, config, cells.clone())?;
    let outcome = sampler.run(|report, sampler| {
        record.watch(report, sampler);
        ControlFlow::Continue(())
    })?;
    Ok(record.finish(sampler, outcome.stop))
}

/// What a run leaves behind, gathered sweep by sweep: give [`watch`](Self::watch) each report of [`BsvdSampler::run`].
#[derive(Clone, Debug)]
pub struct Record<'d> {
    data: &'d BsvdData,
    cells: Cells,
    moments: CellMoments,
    draws: Vec<BsvdState>,
    /// Kept draws from one stored draw to the next.
    spacing: u64,
    kept: u64,
}

impl<'d> Record<'d> {
    /// Nothing yet.
    ///
    /// # Errors
    /// Cells that do not exist.
    pub fn new(data: &'d BsvdData, config: &BsvdConfig, cells: Cells) -> Result<Self, BsvdError> {
        cells.check(data.n_rows(), data.n_cols())?;
        Ok(Self {
            data,
            moments: CellMoments::new(&cells),
            cells,
            draws: Vec::new(),
            spacing: config
                .sweeps
                .keep
                .checked_div(config.stored_draws)
                .unwrap_or(u64::MAX)
                .max(1),
            kept: 0,
        })
    }

    /// Takes in the draw of a sweep, if it is kept.
    pub fn watch(&mut self, report: &SweepReport<'_>, sampler: &BsvdSampler<'_>) {
        if !report.kept {
            return;
        }
        let view = View {
            state: sampler.state(),
            side: &self.data.side,
            centre: self.data.centre,
            scale: self.data.scale,
        };
        self.moments.add(&self.cells, &view);
        self.kept += 1;
        let room = (self.draws.len() as u64) < sampler.config().stored_draws;
        if room && self.kept.is_multiple_of(self.spacing) {
            self.draws.push(sampler.state().clone());
        }
    }

    /// Moments so far.
    pub fn moments(&self) -> &CellMoments {
        &self.moments
    }

    /// The fit, from what was gathered and the sampler at its end.
    pub fn finish(self, sampler: BsvdSampler<'_>, stop: Stop) -> BsvdFit {
        let (last, trace, config) = sampler.into_parts();
        BsvdFit {
            config,
            stop,
            trace,
            cells: self.cells,
            moments: self.moments,
            draws: self.draws,
            last,
            side: self.data.side.clone(),
            centre: self.data.centre,
            scale: self.data.scale,
        }
    }
}

impl BsvdFit {
    /// A stored draw with what turns it into values.
    pub(crate) fn view<'a>(&'a self, state: &'a BsvdState) -> View<'a> {
        View {
            state,
            side: &self.side,
            centre: self.centre,
            scale: self.scale,
        }
    }

    /// Posterior mean of the noise-free value of cell (i, j) over the stored draws.
    ///
    /// # Errors
    /// A cell that does not exist; no stored draw.
    pub fn mean(&self, i: usize, j: usize) -> Result<f64, BsvdError> {
        if self.draws.is_empty() {
            return Err(BsvdError::State {
                what: "no stored draws: ask for some in the configuration".to_owned(),
            });
        }
        let sum: f64 = self
            .draws
            .iter()
            .map(|state| self.view(state).value(i, j))
            .sum();
        Ok(sum / self.draws.len() as f64)
    }
}
