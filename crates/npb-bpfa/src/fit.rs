//! Fits of tables and ratings.

use npb_data::{Rating, Ratings, Table};
use npb_infer::parallel;
use npb_infer::storage::fingerprint;
use npb_infer::{Chain, Chains, Sampler, Saved, Stop, Sweep, SweepPlan, Trace, Watch, sample};
use serde::{Deserialize, Serialize};

use crate::config::{MOST_ATOMS, ScorePrior};
use crate::error::{check_size, expect};
use crate::gibbs::BpfaSampler;
use crate::roles::{NEAR_COLUMNS, Role, Roles};
use crate::rows::single;
use crate::state::BpfaState;
use crate::units::{BpfaUnits, Centring};
use crate::{BpfaConfig, BpfaError, BpfaMove, BpfaRows};

/// Cells of a matrix whose values are followed through the chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cells {
    /// 0-based rows.
    pub rows: Vec<u32>,
    /// 0-based columns, one for each row.
    pub columns: Vec<u32>,
}

/// What is known of the followed cells, over all kept draws of all chains; in units of the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellMoments {
    /// Kept draws.
    pub n: u64,
    /// Sums of the values, in units of the model.
    sums: Vec<f64>,
    /// Sums of their squares.
    squares: Vec<f64>,
    /// Sum of the noise variances: one, or one for each modelled column.
    noise: Vec<f64>,
}

/// A fitted matrix.
///
/// Followed cells have moments over *all* kept draws ([`followed`](Self::followed), [`impute_training`](Self::impute_training)); all else is answered from the stored draws
/// ([`BpfaConfig::stored_draws`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BpfaFit {
    /// Configuration of the run.
    pub config: BpfaConfig,
    pub(crate) stop: Stop,
    /// Scalars of every sweep of each chain; see [`BpfaSampler::scalar_names`].
    pub traces: Vec<Trace>,
    /// Stored draws of each chain in turn.
    pub draws: Vec<BpfaState>,
    /// Cells that were followed.
    pub cells: Cells,
    /// Of the followed cells that vary.
    moments: CellMoments,
    /// Of the modelled columns.
    units: BpfaUnits,
    roles: Roles,
    n_rows: usize,
    column_counts: Vec<u32>,
    column_names: Vec<String>,
}

/// The value of a cell: mean and standard deviation without noise, and with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Posterior mean.
    pub mean: f64,
    /// Posterior standard deviation of the noise-free value.
    pub sd: f64,
    /// Standard deviation of a new measurement.
    pub predictive_sd: f64,
}

/// Fits a table and follows its missing cells.
///
/// Columns that are constant, or copies of others but for units and little else, are not modelled: what part each has is in [`BpfaFit::roles`].
///
/// ```
/// use npb_bpfa::npb_data::Table;
/// use npb_bpfa::npb_infer::SweepPlan;
/// use npb_bpfa::{BpfaConfig, fit};
///
/// // Sixty rows of four columns that go up and down together; every fifth value is missing.
/// let value = |at: usize| ((at / 4) as f64 * 0.9).sin() * [1.0, -2.0, 0.5, 1.5][at % 4];
/// let cells: Vec<f64> = (0..240).map(|at| if at % 5 == 3 { f64::NAN } else { value(at) }).collect();
/// let table = Table::from_nan_coded(60, 4, &cells)?;
/// let sweeps = SweepPlan { burn_in: 100, keep: 100, thin: 1 };
/// let model = fit(&table, &BpfaConfig { atoms: 6, sweeps, ..BpfaConfig::default() })?;
/// let full = model.impute_training(&table)?;
/// assert!((full.row(2)[0] - value(8)).abs() < 0.2);    // was missing
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// No observed cell; no column with two different values; a configuration out of range; numerical trouble.
pub fn fit(table: &Table, config: &BpfaConfig) -> Result<BpfaFit, BpfaError> {
    fit_watched(table, config, &Watch::none())
}

/// As [`fit`], watched.
///
/// # Errors
/// As [`fit`]; a checkpoint of other data or another configuration, or one that cannot be read or written.
pub fn fit_watched(
    table: &Table,
    config: &BpfaConfig,
    watch: &Watch<'_>,
) -> Result<BpfaFit, BpfaError> {
    let mut cells = Cells::default();
    for i in 0..table.n_rows() {
        for j in (0..table.n_cols()).filter(|&j| !table.is_observed(i, j)) {
            cells.rows.push(i as u32);
            cells.columns.push(j as u32);
        }
    }
    let shape = (table.n_rows(), table.n_cols());
    let roles = Roles::of(shape, NEAR_COLUMNS, |i, j| table.get(i, j));
    let seen = |j: usize| (0..shape.0).filter(|&i| table.is_observed(i, j)).count() as u32;
    let column_counts: Vec<u32> = (0..shape.1).map(seen).collect();
    let varies = |j: usize| column_counts[j] > 0;
    if column_counts.iter().any(|&n| n > 0) && !roles.modelled().any(varies) {
        return Err(BpfaError::NothingVaries);
    }
    let merged = merged(&roles, table)?;
    let data = Matrix {
        n_rows: shape.0,
        entries: entries_of(&merged),
        column_counts,
        column_names: table.column_names().to_vec(),
        by_column: config.channel_noise && !config.is_lasso(),
        centring: config.centring,
        roles,
    };
    fit_matrix(data, cells, config, watch)
}

/// Fits ratings and follows the given cells. Ratings are all in one unit, with one noise.
///
/// # Errors
/// No rating, or all alike; a configuration out of range; cells that do not exist; numerical trouble.
pub fn fit_ratings(
    ratings: &Ratings,
    cells: &Cells,
    config: &BpfaConfig,
    watch: &Watch<'_>,
) -> Result<BpfaFit, BpfaError> {
    let entry = |r: Rating| (r.row, r.column, r.value);
    let (n_rows, n_columns) = (ratings.n_rows(), ratings.n_cols());
    let data = Matrix {
        n_rows,
        entries: ratings.iter().map(entry).collect(),
        column_counts: (0..n_columns)
            .map(|j| ratings.column(j).0.len() as u32)
            .collect(),
        column_names: Vec::new(),
        by_column: false,
        centring: match config.centring {
            Centring::Standardised => Centring::Columns,
            other => other,
        },
        roles: Roles::plain(n_columns),
    };
    fit_matrix(data, cells.clone(), config, watch)
}

/// What is fitted.
struct Matrix {
    n_rows: usize,
    /// Of the modelled columns, by their places.
    entries: Vec<Entry>,
    /// Observed values of all columns.
    column_counts: Vec<u32>,
    column_names: Vec<String>,
    /// Each column has noise of its own.
    by_column: bool,
    centring: Centring,
    roles: Roles,
}

fn fit_matrix(
    data: Matrix,
    cells: Cells,
    config: &BpfaConfig,
    watch: &Watch<'_>,
) -> Result<BpfaFit, BpfaError> {
    let Matrix {
        n_rows,
        entries,
        column_counts,
        column_names,
        by_column,
        centring,
        roles,
    } = data;
    config.validate()?;
    cells.check(n_rows, column_counts.len())?;
    let units = BpfaUnits::new(n_rows, roles.n_modelled(), centring, &entries)?;
    let rows = in_units(n_rows, &roles, &units, &entries, by_column)?;
    let key = fingerprint(&(config, &rows, &cells, &units, &roles))?;
    let all = cells;
    let cells = all.that_vary(&roles);
    let version = env!("CARGO_PKG_VERSION");
    let checkpoint = watch.checkpoint(CHAIN_MODEL, version, key, config.chains)?;
    let plan = Chains {
        name: "chain",
        chains: config.chains,
        sweeps: config.sweeps,
        stored_draws: config.stored_draws,
    };
    let chains = sample::<Following<'_>>(&plan, (watch, 1.0), &checkpoint, |chain, reached| {
        Following::new(&rows, &cells, config, chain, reached)
    })?;
    let stop = Stop::of_all(chains.iter().map(|chain| chain.stop));
    let (mut traces, mut draws, mut moments) = (Vec::new(), Vec::new(), CellMoments::default());
    for mut chain in chains {
        moments.merge(&chain.state.1);
        draws.append(&mut chain.draws);
        traces.push(chain.trace);
    }
    Ok(BpfaFit {
        config: config.clone(),
        stop,
        traces,
        draws,
        cells: all,
        moments,
        units,
        roles,
        n_rows,
        column_counts,
        column_names,
    })
}

/// What a table says of the modelled columns.
fn merged(roles: &Roles, table: &Table) -> Result<Table, BpfaError> {
    let (n, p) = (table.n_rows(), table.n_cols());
    let row = |i: usize| roles.merged(&(0..p).map(|j| table.get(i, j)).collect::<Vec<_>>());
    let cells: Vec<f64> = (0..n)
        .flat_map(row)
        .map(|y| y.unwrap_or(f64::NAN))
        .collect();
    Ok(Table::from_nan_coded(n, roles.n_modelled(), &cells)?)
}

/// Name in checkpoint files.
const CHAIN_MODEL: &str = "npb-bpfa/chains";

/// A chain that follows cells.
struct Following<'d> {
    sampler: BpfaSampler<'d>,
    cells: &'d Cells,
    moments: CellMoments,
}

impl<'d> Following<'d> {
    fn new(
        rows: &'d BpfaRows,
        cells: &'d Cells,
        config: &BpfaConfig,
        chain: u64,
        reached: Option<&Chain<(BpfaState, CellMoments), BpfaState>>,
    ) -> Result<Self, BpfaError> {
        let config = config.clone();
        let (sampler, moments) = match reached {
            None => (
                BpfaSampler::begin(rows, config, chain, None)?,
                CellMoments::of(cells),
            ),
            Some(reached) => {
                let (state, moments) = reached.state.clone();
                moments.check(cells)?;
                reached.draws.iter().try_for_each(|draw| draw.check(rows))?;
                let made = reached.trace.n_sweeps() as u64;
                let sampler = BpfaSampler::go_on(rows, config, chain, state, made)?;
                (sampler, moments)
            }
        };
        Ok(Self {
            sampler,
            cells,
            moments,
        })
    }
}

impl Sampler for Following<'_> {
    type State = (BpfaState, CellMoments);
    type Draw = BpfaState;
    type Error = BpfaError;

    fn names() -> Vec<String> {
        BpfaSampler::scalar_names().map(str::to_owned).to_vec()
    }

    fn step(&mut self, sweep: Sweep, scalars: &mut [f64]) -> Result<(), BpfaError> {
        self.sampler.sweep()?;
        scalars.copy_from_slice(&self.sampler.scalars());
        if sweep.kept {
            self.moments.add(self.cells, self.sampler.state());
        }
        Ok(())
    }

    fn state(&self) -> (BpfaState, CellMoments) {
        (self.sampler.state().clone(), self.moments.clone())
    }

    fn draw(&self) -> BpfaState {
        self.sampler.state().clone()
    }
}

/// Row, column and value.
type Entry = (u32, u32, f64);

/// Observed cells of a table, row by row.
fn entries_of(table: &Table) -> Vec<Entry> {
    let row = |i: usize| {
        let own = table.observed_in_row(i);
        own.map(move |(j, y)| (i as u32, j as u32, y))
    };
    (0..table.n_rows()).flat_map(row).collect()
}

/// Entries of the modelled columns in units of the model; `by_column`: each has noise of its own.
fn in_units(
    n_rows: usize,
    roles: &Roles,
    units: &BpfaUnits,
    entries: &[Entry],
    by_column: bool,
) -> Result<BpfaRows, BpfaError> {
    let n_columns = roles.n_modelled();
    let (mut starts, mut columns, mut values) = (vec![0; n_rows + 1], Vec::new(), Vec::new());
    for &(row, j, y) in entries {
        let (i, column) = (row as usize, j as usize);
        starts[i + 1] += 1;
        columns.push(j);
        let named = roles.column(column);
        values.push(single(i, named, y, units.to_model(i, column, y))?);
    }
    (0..n_rows).for_each(|i| starts[i + 1] += starts[i]);
    let rows = BpfaRows::new(n_columns, &starts, columns, values)?;
    match by_column {
        true => rows.with_channels((0..n_columns as u32).collect()),
        false => Ok(rows),
    }
}

impl Cells {
    /// Those that are not of constant columns, by the places of what is modelled.
    fn that_vary(&self, roles: &Roles) -> Self {
        let place = |(&i, &j): (&u32, &u32)| {
            let (place, ..) = roles.follows(j as usize).ok()?;
            Some((i, place as u32))
        };
        let places = self.rows.iter().zip(&self.columns).filter_map(place);
        let (rows, columns) = places.unzip();
        Self { rows, columns }
    }

    fn check(&self, n_rows: usize, n_columns: usize) -> Result<(), BpfaError> {
        if self.rows.len() != self.columns.len() {
            return Err(BpfaError::Size {
                what: "columns of cells",
                found: self.columns.len(),
                expected: self.rows.len(),
            });
        }
        for (argument, list, size) in [
            ("row of a cell", &self.rows, n_rows),
            ("column of a cell", &self.columns, n_columns),
        ] {
            if let Some(&bad) = list.iter().find(|&&x| x as usize >= size) {
                return Err(BpfaError::Argument {
                    argument,
                    value: bad.to_string(),
                    rule: "one of the matrix, counted from 0",
                });
            }
        }
        Ok(())
    }
}

/// Cells whose moments are taken at once.
const CELLS: usize = 1024;

impl CellMoments {
    fn of(cells: &Cells) -> Self {
        Self {
            n: 0,
            sums: vec![0.0; cells.rows.len()],
            squares: vec![0.0; cells.rows.len()],
            noise: Vec::new(),
        }
    }

    fn add(&mut self, cells: &Cells, state: &BpfaState) {
        self.n += 1;
        let rows = cells.rows.chunks(CELLS);
        let places = rows.zip(cells.columns.chunks(CELLS));
        let sums = self.sums.chunks_mut(CELLS);
        let sums = sums.zip(self.squares.chunks_mut(CELLS));
        parallel::for_each(sums.zip(places), |((sums, squares), (rows, columns))| {
            let places = rows.iter().zip(columns);
            for ((sum, square), (&i, &j)) in sums.iter_mut().zip(squares).zip(places) {
                let x = fitted(state, i as usize, j as usize);
                *sum += x;
                *square += x * x;
            }
        });
        self.noise.resize(state.shared.noise_precisions.len(), 0.0);
        let sums = self.noise.iter_mut().enumerate();
        sums.for_each(|(channel, sum)| *sum += state.noise_variance(channel));
    }

    fn merge(&mut self, other: &Self) {
        if self.n == 0 {
            *self = other.clone();
            return;
        }
        self.n += other.n;
        let add = |to: &mut [f64], from: &[f64]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        };
        add(&mut self.sums, &other.sums);
        add(&mut self.squares, &other.squares);
        add(&mut self.noise, &other.noise);
    }

    fn check(&self, cells: &Cells) -> Result<(), BpfaError> {
        let n = cells.rows.len();
        let all = self.sums.iter().chain(&self.squares).chain(&self.noise);
        expect(
            self.sums.len() == n
                && self.squares.len() == n
                && all.clone().all(|x| x.is_finite())
                && self.noise.iter().all(|&v| v >= 0.0),
            "moments of cells",
        )
    }
}

/// `(D s_i)_p`.
fn fitted(state: &BpfaState, i: usize, p: usize) -> f64 {
    let own = state.shared.dictionary.column(p);
    let scores = state.scores.row(i);
    scores
        .iter()
        .map(|(k, s)| f64::from(own[k]) * f64::from(s))
        .sum()
}

impl Prediction {
    /// Of a constant column.
    fn certain(mean: f64) -> Self {
        Self {
            mean,
            sd: 0.0,
            predictive_sd: 0.0,
        }
    }
}

impl BpfaFit {
    /// Why the run ended.
    pub fn stop(&self) -> Stop {
        self.stop
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Number of columns.
    pub fn n_columns(&self) -> usize {
        self.column_counts.len()
    }

    /// Names of the columns; empty without names.
    pub fn column_names(&self) -> &[String] {
        &self.column_names
    }

    /// Columns without any observed value: they stay missing in everything that is returned.
    pub fn unobserved_columns(&self) -> Vec<usize> {
        let all = self.column_counts.iter().enumerate();
        all.filter(|(_, n)| **n == 0).map(|(j, _)| j).collect()
    }

    /// What part each column has in the fit.
    pub fn roles(&self) -> &[Role] {
        self.roles.all()
    }

    /// Number of atoms that some row uses, in each stored draw.
    pub fn used_atoms(&self) -> Vec<usize> {
        self.draws.iter().map(BpfaState::n_used).collect()
    }

    /// The followed cells in their order; `None` of columns without observed values, and when no draw was kept.
    pub fn followed(&self) -> Vec<Option<Prediction>> {
        let mut varying = 0..;
        let moments = &self.moments;
        let n = moments.n as f64;
        let cell = |(&i, &j): (&u32, &u32)| {
            let follows = match self.roles.follows(j as usize) {
                Ok(follows) => follows,
                Err(value) => return Some(Prediction::certain(value)),
            };
            let at = varying.next()?;
            if self.column_counts[j as usize] == 0 || moments.n == 0 {
                return None;
            }
            let mean = moments.sums[at] / n;
            let variance = (moments.squares[at] / n - mean * mean).max(0.0);
            let noise = moments.noise.get(follows.0).or(moments.noise.first());
            let noise = noise.map_or(0.0, |sum| sum / n);
            Some(self.prediction(i as usize, follows, (mean, variance, noise)))
        };
        let places = self.cells.rows.iter().zip(&self.cells.columns);
        places.map(cell).collect()
    }

    /// Of mean, variance and noise of what is modelled, and how a column follows from it.
    fn prediction(
        &self,
        row: usize,
        (place, factor, offset): (usize, f64, f64),
        (mean, variance, noise): (f64, f64, f64),
    ) -> Prediction {
        let scale = self.units.scales[place];
        Prediction {
            mean: offset + factor * (self.units.centre(row, place) + scale * mean),
            sd: factor.abs() * scale * variance.sqrt(),
            predictive_sd: factor.abs() * scale * (variance + noise).sqrt(),
        }
    }

    /// Any cell of the fit, from the stored draws.
    ///
    /// # Errors
    /// A cell that does not exist, or of a column without observed values; no stored draw.
    pub fn predict(&self, row: usize, column: usize) -> Result<Prediction, BpfaError> {
        self.check_cell(row, column)?;
        let follows = match self.roles.follows(column) {
            Ok(follows) => follows,
            Err(value) => return Ok(Prediction::certain(value)),
        };
        let n = self.draws.len() as f64;
        let (mut sum, mut square, mut noise) = (0.0, 0.0, 0.0);
        for draw in &self.draws {
            let x = fitted(draw, row, follows.0);
            sum += x / n;
            square += x * x / n;
            noise += draw.noise_variance(follows.0) / n;
        }
        let variance = (square - sum * sum).max(0.0);
        Ok(self.prediction(row, follows, (sum, variance, noise)))
    }

    /// The table of the fit with its missing cells filled by posterior means, or by a copy of the column that has a value there. Columns without observed
    /// values stay missing.
    ///
    /// # Errors
    /// A table of another shape or other columns; cells missing that were not followed.
    pub fn impute_training(&self, table: &Table) -> Result<Table, BpfaError> {
        self.check_columns(table)?;
        check_size("rows", table.n_rows(), self.n_rows)?;
        let (n, p) = (table.n_rows(), table.n_cols());
        let merged = merged(&self.roles, table)?;
        let mut values = table.values().to_vec();
        let mut known = table.observed().clone();
        for (i, j) in (0..n * p).map(|at| (at / p, at % p)) {
            if let (false, Some(value)) = (known.get(i, j), self.settled(&merged, i, j)) {
                values[i * p + j] = value;
                known.set(i, j, true);
            }
        }
        let places = self.cells.rows.iter().zip(&self.cells.columns);
        for ((&i, &j), found) in places.zip(self.followed()) {
            let (i, j) = (i as usize, j as usize);
            if let (false, Some(found)) = (known.get(i, j), found) {
                values[i * p + j] = found.mean;
                known.set(i, j, true);
            }
        }
        let open = |i: usize| (0..p).any(|j| !known.get(i, j) && self.column_counts[j] > 0);
        if (0..n).any(open) {
            return Err(BpfaError::State {
                what: "a missing cell of the table was not followed by the fit".to_owned(),
            });
        }
        Ok(Table::from_parts(values, known)?)
    }

    /// A cell of a constant column, or of one whose copy has a value there.
    fn settled(&self, merged: &Table, row: usize, column: usize) -> Option<f64> {
        match self.roles.follows(column) {
            Err(value) => Some(value),
            Ok((place, factor, offset)) => Some(offset + factor * merged.get(row, place)?),
        }
    }

    /// Posterior mean scores of new rows on the atoms of the last stored draw, one row of K numbers each; atoms of different draws need not be the same ones.
    /// Each row's answer depends on its own cells alone; 0 for a row without any.
    ///
    /// # Errors
    /// Other columns; no stored draw.
    pub fn transform(&self, table: &Table) -> Result<Table, BpfaError> {
        let last = self.draws.len().checked_sub(1).ok_or_else(no_draws)?;
        let k = self.draws[last].n_atoms();
        let mut mean = vec![0.0; table.n_rows() * k];
        self.check_columns(table)?;
        let merged = merged(&self.roles, table)?;
        self.encode(&merged, last, &mut mean, |state, share, own| {
            let scores = state.scores.row(0);
            scores
                .iter()
                .for_each(|(k, s)| own[k] += share * f64::from(s));
        })?;
        Ok(Table::complete(table.n_rows(), k, mean)?)
    }

    /// New rows with their missing cells filled by posterior means over the stored draws, their own scores drawn.
    ///
    /// # Errors
    /// As [`transform`](Self::transform).
    pub fn impute(&self, table: &Table) -> Result<Table, BpfaError> {
        if self.draws.is_empty() {
            return Err(no_draws());
        }
        self.check_columns(table)?;
        let merged = merged(&self.roles, table)?;
        let (n, p, q) = (table.n_rows(), table.n_cols(), merged.n_cols());
        let units = self.units.of_new_rows(&merged);
        let mut mean = vec![0.0; n * q];
        let weight = 1.0 / self.draws.len() as f64;
        for draw in 0..self.draws.len() {
            self.encode(&merged, draw, &mut mean, |state, share, own| {
                for (j, sum) in own.iter_mut().enumerate() {
                    *sum += weight * share * fitted(state, 0, j);
                }
            })?;
        }
        let value = |at: usize| {
            let (i, j) = (at / p, at % p);
            let known = table.get(i, j).or_else(|| self.settled(&merged, i, j));
            known.unwrap_or_else(|| match self.roles.follows(j) {
                Ok(_) if self.column_counts[j] == 0 => f64::NAN,
                Ok((place, factor, offset)) => {
                    let fitted = units.scales[place] * mean[i * q + place];
                    offset + factor * (units.centre(i, place) + fitted)
                }
                Err(value) => value,
            })
        };
        let cells: Vec<f64> = (0..n * p).map(value).collect();
        Ok(Table::from_nan_coded(n, p, &cells)?)
    }

    /// Draws scores of new rows, by their modelled columns, given what rows share in a stored draw; `add(state, share, own)` sees the kept ones of a row, as row 0, and its part of `out`.
    ///
    /// Rows are drawn one by one, with random numbers that their cells decide: answers do not depend on which rows are asked together.
    fn encode(
        &self,
        table: &Table,
        draw: usize,
        out: &mut [f64],
        add: impl Fn(&BpfaState, f64, &mut [f64]) + Sync,
    ) -> Result<(), BpfaError> {
        let (n, p) = (table.n_rows(), table.n_cols());
        let (units, entries) = (self.units.of_new_rows(table), entries_of(table));
        if entries.is_empty() {
            return Ok(());
        }
        let rows = in_units(n, &self.roles, &units, &entries, false)?;
        let shared = &self.draws[draw].shared;
        let by_column = shared.noise_precisions.len() > 1;
        let width = (out.len() / n).max(1);
        let encode_row = |(i, own): (usize, &mut [f64])| {
            let values = rows.values(i).to_vec();
            if values.is_empty() {
                return Ok(());
            }
            let columns = match rows.columns(i) {
                Some(columns) => columns.to_vec(),
                None => (0..p as u32).collect(),
            };
            let config = BpfaConfig {
                seed: fingerprint(&(self.config.seed, &columns, &values))?,
                ..self.config.clone()
            };
            let mut row = BpfaRows::new(p, &[0, values.len()], columns, values)?;
            if by_column {
                row = row.with_channels((0..p as u32).collect())?;
            }
            let mut sampler = BpfaSampler::encoder(&row, &config, shared)?;
            for sweep in 0..ENCODE_BURN_IN + ENCODE_KEEP {
                sampler.sweep()?;
                if sweep >= ENCODE_BURN_IN {
                    add(sampler.state(), 1.0 / ENCODE_KEEP as f64, own);
                }
            }
            Ok(())
        };
        let parts = out.chunks_exact_mut(width).enumerate();
        parallel::try_map(parts, encode_row).map(drop)
    }

    /// ln of the predictive density of each of these entries of the matrix, `(row, column, value)`, over the stored draws.
    ///
    /// # Errors
    /// Cells that do not exist, or of columns without two different values; values that are not finite; no stored draw.
    pub fn ln_density(&self, entries: &[Rating]) -> Result<Vec<f64>, BpfaError> {
        entries
            .iter()
            .map(|entry| {
                let (i, j) = (entry.row as usize, entry.column as usize);
                self.check_cell(i, j)?;
                if !entry.value.is_finite() {
                    return Err(BpfaError::Entry {
                        row: i,
                        column: j,
                        value: entry.value,
                    });
                }
                let Ok((place, factor, offset)) = self.roles.follows(j) else {
                    return Err(BpfaError::Argument {
                        argument: "cell",
                        value: format!("row {i}, column {j}"),
                        rule: "in a column that varies",
                    });
                };
                let y = self
                    .units
                    .to_model(i, place, (entry.value - offset) / factor);
                let term =
                    |draw: &BpfaState| draw.ln_noise_density(place, y - fitted(draw, i, place));
                let terms: Vec<f64> = self.draws.iter().map(term).collect();
                let n = terms.len() as f64;
                let ln_sum = npb_priors::special::log_sum_exp(&terms);
                Ok(ln_sum - n.ln() - (self.units.scales[place] * factor.abs()).ln())
            })
            .collect()
    }

    fn check_cell(&self, row: usize, column: usize) -> Result<(), BpfaError> {
        if self.draws.is_empty() {
            return Err(no_draws());
        }
        let known = self.column_counts.get(column).is_some_and(|&n| n > 0);
        if row < self.n_rows && known {
            return Ok(());
        }
        Err(BpfaError::Argument {
            argument: "cell",
            value: format!("row {row}, column {column}"),
            rule: "one of the matrix, in a column with observed values",
        })
    }

    fn check_columns(&self, table: &Table) -> Result<(), BpfaError> {
        check_size("columns", table.n_cols(), self.n_columns())?;
        if !self.column_names.is_empty() {
            table.check_columns(&self.column_names)?;
        }
        Ok(())
    }

    /// Checks everything that methods rely on.
    fn check(&self) -> Result<(), BpfaError> {
        self.config.validate()?;
        let (n, p) = (self.n_rows, self.n_columns());
        let size = u32::try_from(n).is_ok() && u32::try_from(p).is_ok();
        expect(size && n > 0 && p > 0, "size of the matrix")?;
        self.roles.check(p)?;
        self.cells.check(n, p)?;
        self.moments.check(&self.cells.that_vary(&self.roles))?;
        let names = self.column_names.len();
        expect(names == 0 || names == p, "column names")?;
        let p = self.roles.n_modelled();
        self.units.check(n, p)?;
        let named = |t: &Trace| t.names() == BpfaSampler::scalar_names();
        expect(self.traces.iter().all(named), "scalars of the traces")?;
        let dense = self.config.scores != ScorePrior::SpikeSlab;
        for draw in &self.draws {
            draw.shared.check(p, p)?;
            expect(draw.n_atoms() <= MOST_ATOMS, "atoms")?;
            expect(draw.scores.is_dense() == dense, "scores")?;
            draw.scores.check(n, draw.n_atoms())?;
            let groups = draw.shared.ln_odds.len() / draw.n_atoms();
            expect(groups == usize::from(!dense), "weights")?;
            draw.lasso.check(n, draw.n_atoms())?;
            let n_channels = draw.shared.noise_precisions.len();
            draw.spikes.check(usize::MAX, n_channels)?;
            expect(!draw.dependence.is_modelled(), "dependence on locations")?;
        }
        Ok(())
    }
}

/// Sweeps that new rows are given to find their scores, and over which they are averaged.
const ENCODE_BURN_IN: usize = 15;
const ENCODE_KEEP: usize = 15;

fn no_draws() -> BpfaError {
    BpfaError::State {
        what: "the fit stores no draw: raise stored_draws in the configuration".to_owned(),
    }
}

impl Saved for BpfaFit {
    const MODEL: &'static str = "npb-bpfa/fit";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Self;
    type Error = BpfaError;

    fn content(&self) -> &Self {
        self
    }

    fn from_content(fit: Self) -> Result<Self, BpfaError> {
        fit.check()?;
        Ok(fit)
    }
}

/// Held-out error of a number of atoms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOut {
    /// K.
    pub atoms: usize,
    /// Root mean squared error of the held-out entries.
    pub rmse: f64,
    /// Their mean ln predictive density.
    pub ln_density: f64,
}

/// Fits ratings with each number of atoms without the entries `held_out` (their places in row-major order) and scores these: a way to choose K of the
/// dense form. The sparse form needs none.
///
/// # Errors
/// As [`fit_ratings`]; a place that does not exist; no stored draw.
pub fn compare_atoms(
    ratings: &Ratings,
    held_out: &[usize],
    candidates: &[usize],
    config: &BpfaConfig,
) -> Result<Vec<HeldOut>, BpfaError> {
    let all: Vec<Rating> = ratings.iter().collect();
    let mut out = vec![false; all.len()];
    for &place in held_out {
        match out.get_mut(place) {
            Some(out) => *out = true,
            None => {
                return Err(BpfaError::Argument {
                    argument: "held_out",
                    value: place.to_string(),
                    rule: "the place of an entry",
                });
            }
        }
    }
    let pick = |wanted: bool| -> Vec<Rating> {
        let both = all.iter().zip(&out);
        both.filter(|(_, o)| **o == wanted)
            .map(|(r, _)| *r)
            .collect()
    };
    let train = Ratings::new(ratings.n_rows(), ratings.n_cols(), &pick(false))?;
    let known = |r: &Rating| !train.column(r.column as usize).0.is_empty();
    let test: Vec<Rating> = pick(true).into_iter().filter(known).collect();
    let cells = Cells {
        rows: test.iter().map(|r| r.row).collect(),
        columns: test.iter().map(|r| r.column).collect(),
    };
    let score = |&atoms: &usize| {
        let config = BpfaConfig {
            atoms,
            max_atoms: config.max_atoms.map(|most| most.max(atoms)),
            ..config.clone()
        };
        let model = fit_ratings(&train, &cells, &config, &Watch::none())?;
        let found = model.followed();
        let square = |(r, x): (&Rating, &Option<Prediction>)| {
            x.as_ref().map_or(0.0, |x| (x.mean - r.value).powi(2))
        };
        let n = test.len().max(1) as f64;
        let total: f64 = test.iter().zip(&found).map(square).sum();
        let density: f64 = model.ln_density(&test)?.iter().sum();
        Ok(HeldOut {
            atoms,
            rmse: (total / n).sqrt(),
            ln_density: density / n,
        })
    };
    candidates.iter().map(score).collect()
}

/// The same plan without a burn-in, in which atoms would come and go: they are those of the fit.
fn fixed_atoms(plan: SweepPlan) -> SweepPlan {
    SweepPlan { burn_in: 0, ..plan }
}

impl<'d> BpfaSampler<'d> {
    /// A sampler of the scores alone, given what rows share: for rows that a chain has not seen.
    ///
    /// Usage that depends on locations becomes that of the first anchor. Laplace scores start at scales of 1.
    ///
    /// # Errors
    /// What is shared is not of these rows.
    pub fn encoder(
        rows: &'d BpfaRows,
        config: &BpfaConfig,
        shared: &crate::Shared,
    ) -> Result<Self, BpfaError> {
        let mut config = BpfaConfig {
            moves: vec![BpfaMove::Scores],
            spikes: None,
            sweeps: fixed_atoms(config.sweeps),
            ..config.clone()
        };
        if config.usage.dependent().is_some() {
            config.usage = crate::UsagePrior::Process { a: 1.0, b: 1.0 };
        }
        Self::with_shared(rows, config, 0, shared.clone())
    }
}
