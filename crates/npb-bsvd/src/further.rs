//! Chains that go on with further entries, rows and columns; what of it is exact: `docs/bsvd.md#further-entries`.

use npb_infer::storage::fingerprint;
use npb_infer::{Watch, stream};
use rand::RngExt;

use crate::chains::run;
use crate::config::{BsvdMove, BsvdUnits};
use crate::data::BsvdData;
use crate::fit::MODEL;
use crate::fitted::{BsvdFit, QUESTION};
use crate::gibbs::BsvdSampler;
use crate::side::Side;
use crate::start::switch_on;
use crate::state::{BsvdState, SideState};
use crate::{BsvdConfig, BsvdError, Cells, Entries, Features, SideInformation};

impl BsvdFit {
    /// Goes on with every chain from its last draw, with the entries of the fit and further ones, of its rows and columns and of new ones after them; an old
    /// entry may have another value by now. New columns are first drawn given the rows of the fit, then new rows given all columns; then come the sweeps of
    /// `config`, burn-in included: a short one serves. Moments, draws and traces are those of these sweeps. When there is a burn-in, further components are on
    /// at its start, with small scales: the new entries may call for them.
    ///
    /// `side`: features of all rows and columns. `cells`: to be followed from now on. `config`: that of the fit, of which `sweeps`, `stored_draws`, `moves` and `seed`
    /// may change; units stay, and the seed of the result is another one, so that random numbers are not used twice. Names stay where there is no new row and column.
    ///
    /// # Errors
    /// Fewer rows or columns than the fit had, or an entry of it that is not there; features of another kind; settings that cannot change; several chains whose
    /// last draws were not stored; cells that do not exist; numerical trouble; a checkpoint of another fit.
    pub fn continue_with(
        &self,
        entries: &impl Entries,
        side: SideInformation,
        cells: &Cells,
        config: &BsvdConfig,
        watch: &Watch<'_>,
    ) -> Result<Self, BsvdError> {
        let config = self.config_of_further(config)?;
        let data = entries.prepare(side, &config)?;
        self.check_further(&data)?;
        let last = self.last_draws()?;
        let start = |(number, state): (u64, &BsvdState)| {
            let config = BsvdConfig {
                chain: config.chain.wrapping_add(number),
                ..config.clone()
            };
            self.folded(entries, &data, &config, state.clone())
        };
        let starts: Vec<BsvdState> = (0..).zip(last).map(start).collect::<Result<_, _>>()?;
        let key = fingerprint(&(data.content(), &data.side, cells, &config, &starts))?;
        let key = key.wrapping_add(data.content_of_shards());
        let checkpoint = watch.checkpoint(MODEL, env!("CARGO_PKG_VERSION"), key, config.chains)?;
        let start = |number: u64, config| {
            BsvdSampler::resume(&data, config, starts[number as usize].clone(), 0)
        };
        let how = (watch, "chain", 1.0);
        let chains = run(&data, cells, &config, how, &checkpoint, start)?;
        let fit = Self::of_chains(&data, cells.clone(), config, chains);
        let same_size = (fit.n_rows(), fit.n_cols()) == (self.n_rows(), self.n_cols());
        Ok(match same_size {
            true => fit.named_as(self),
            false => fit,
        })
    }

    /// The configuration of the sweeps to come.
    fn config_of_further(&self, config: &BsvdConfig) -> Result<BsvdConfig, BsvdError> {
        config.validate()?;
        let own = BsvdConfig {
            sweeps: config.sweeps,
            stored_draws: config.stored_draws,
            moves: config.moves.clone(),
            seed: config.seed,
            units: config.units,
            ..self.config.clone()
        };
        if own != *config {
            return Err(BsvdError::Argument {
                argument: "config",
                value: "other settings than in the fit".to_owned(),
                rule: "that of the fit which goes on (only sweeps, stored_draws, moves and seed may change): leave other settings out, or fit anew",
            });
        }
        let made = self.trace.n_sweeps() as u64;
        // Another one whenever the fit goes on, though the seed that is asked for be the same.
        let key = [config.chain, QUESTION, self.config.seed, made];
        let (centre, scale) = self.units();
        Ok(BsvdConfig {
            units: BsvdUnits::Given { centre, scale },
            // Settings as text hold numbers below 2^63.
            seed: stream(config.seed, key).random::<u64>() >> 1,
            ..config.clone()
        })
    }

    /// Whether the entries of the fit are among these, in features of the same kind.
    fn check_further(&self, data: &BsvdData) -> Result<(), BsvdError> {
        for (what, found, expected) in [
            ("rows", data.n_rows(), self.n_rows()),
            ("columns", data.n_cols(), self.n_cols()),
        ] {
            if found < expected {
                return Err(BsvdError::Argument {
                    argument: "entries",
                    value: format!("{found} {what}, where the fit had {expected}"),
                    rule: "those of the fit and more",
                });
            }
        }
        for (what, side) in [("rows", Side::Rows), ("columns", Side::Columns)] {
            let q = |side: Option<&Features>| side.map_or(0, Features::n_features);
            let (found, expected) = (q(side.features(&data.side)), q(side.features(&self.side)));
            if found != expected {
                return Err(BsvdError::Argument {
                    argument: "features",
                    value: format!("{found} of each of the {what}"),
                    rule: "as many as in the fit, of all rows and columns",
                });
            }
        }
        let mut others = &data.rows.others[..];
        for (i, (own, &n)) in self.observed().zip(&data.rows.counts()).enumerate() {
            let (found, later) = others.split_at(n as usize);
            others = later;
            if let Some(&j) = own.iter().find(|j| found.binary_search(j).is_err()) {
                let name = |names: &[String], k: usize| {
                    names
                        .get(k)
                        .map_or(k.to_string(), |name| format!("{name:?}"))
                };
                let row = name(self.row_names(), i);
                let column = name(self.column_names(), j as usize);
                return Err(BsvdError::Argument {
                    argument: "entries",
                    value: format!("none of row {row} and column {column}, where the fit had one"),
                    rule: "those of the fit and more",
                });
            }
        }
        Ok(())
    }

    /// The last draw of every chain. Of chains but the first it is the last of their stored ones.
    fn last_draws(&self) -> Result<Vec<&BsvdState>, BsvdError> {
        let n_chains = self.traces().count();
        let stored = |trace: &npb_infer::Trace| {
            let made = trace.n_sweeps() as u64;
            self.config.sweeps.n_stored(made, self.config.stored_draws) as usize
        };
        let mut stored: Vec<usize> = self.traces().map(stored).collect();
        if stored.iter().sum::<usize>() != self.draws.len() && self.draws.len() == n_chains {
            // Stopped before one was due: each stored the draw that it was at.
            stored.fill(1);
        }
        let mut end = 0;
        let mut ends = Vec::with_capacity(n_chains);
        for (chain, n) in stored.into_iter().enumerate() {
            end += n;
            ends.push(match (chain, n) {
                (0, _) => Some(&self.last),
                (_, 0) => None,
                _ => self.draws.get(end - 1),
            });
        }
        ends.into_iter().collect::<Option<_>>().ok_or_else(|| BsvdError::State {
            what: "the last draws of its chains are not stored, so that they cannot go on: fit anew, with stored_draws above 0".to_owned(),
        })
    }

    /// A state with new columns drawn given the rows of the fit, and new rows given all columns.
    fn folded(
        &self,
        entries: &impl Entries,
        data: &BsvdData,
        config: &BsvdConfig,
        mut state: BsvdState,
    ) -> Result<BsvdState, BsvdError> {
        let shape = data.shape(config);
        let more_rows = shape.n_rows - self.n_rows();
        let more_columns = shape.n_cols - self.n_cols();
        lengthen(&mut state.rows, more_rows);
        lengthen(&mut state.columns, more_columns);
        if more_columns > 0 && more_rows > 0 {
            // Of rows that are not drawn yet, entries say nothing about columns.
            let of_fit: usize = data.rows.counts()[..self.n_rows()]
                .iter()
                .map(|&n| n as usize)
                .sum();
            let mut seen = 0_usize;
            let is_new = || {
                seen += 1;
                seen > of_fit
            };
            let (known, _) = entries.split(is_new, data.side.clone(), config)?;
            state = drawn(&known, config, state, BsvdMove::Columns)?;
        } else if more_columns > 0 {
            state = drawn(data, config, state, BsvdMove::Columns)?;
        }
        if more_rows > 0 {
            state = drawn(data, config, state, BsvdMove::Rows)?;
        }
        if config.sweeps.burn_in > 0 {
            let all = state.candidates;
            switch_on(data, config, &mut state, (0, all));
        }
        Ok(state)
    }
}

/// So many more rows (or columns) at the mean of what the state says of them; they are drawn before they are used.
fn lengthen(side: &mut SideState, more: usize) {
    let repeated = |to: &mut Vec<f32>, mean: &[f64]| {
        to.extend((0..more).flat_map(|_| mean.iter().map(|&x| x as f32)));
    };
    repeated(&mut side.factors, &side.factor_mean);
    repeated(&mut side.coefficients, &side.coefficient_mean);
    let one_each = [
        (&mut side.intercepts, 0.0),
        (&mut side.factor_weights, 1.0),
        (&mut side.noise_weights, 1.0),
    ];
    for (table, value) in one_each {
        if !table.is_empty() {
            table.resize(table.len() + more, value);
        }
    }
}

/// A state after one move on these data.
fn drawn(
    data: &BsvdData,
    config: &BsvdConfig,
    state: BsvdState,
    step: BsvdMove,
) -> Result<BsvdState, BsvdError> {
    let mut sampler = BsvdSampler::resume(data, config.clone(), state, 0)?;
    if config.likelihood.is_probit() {
        sampler.apply(BsvdMove::Latents)?;
    }
    sampler.apply(step)?;
    Ok(sampler.into_state())
}
