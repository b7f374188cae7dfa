//! Chains that go on with further rows; what of it is exact: `docs/itf.md#further-rows`.

use npb_data::{Field, MixedTable};
use npb_infer::storage::fingerprint;
use npb_infer::{Watch, parallel, stream};

use crate::columns::prototype_stream;
use crate::draw::Draw;
use crate::fields::columns_of_fields;
use crate::fit::{key, run};
use crate::identity::fingerprints;
use crate::kernels::{Cells, Column};
use crate::predict::RowLikelihoods;
use crate::{ChainSummary, ItfConfig, ItfData, ItfError, ItfFit, ItfRows, ItfSampler, ItfState};

/// Key of the streams of labels of new rows, beside those of sweeps.
const FOLD: u64 = u64::MAX - 2;

/// Labels of a row: of each block, and of each column with two levels.
type RowLabels = (Vec<u32>, Vec<u32>);

impl ItfFit {
    /// Goes on with every chain from its last state, on a table whose first rows are those of the fit and whose others are new. Labels of new rows are first
    /// drawn given the last state (sticks drawn, parameters as they are); then come the sweeps of `config`, burn-in included, and draws, traces and questions
    /// are those of all rows. Kernels, their units, levels and groups stay those of the fit. `fields`: as for [`field_rows`](Self::field_rows).
    ///
    /// `config`: that of the fit, of which `sweeps`, `moves`, `keep_labels` and `seed` may change. Random numbers go on after the sweeps that were made.
    ///
    /// ```
    /// use npb_itf::npb_data::{Field, Measure, MixedColumn, MixedTable};
    /// use npb_itf::npb_infer::SweepPlan;
    /// use npb_itf::{ItfConfig, Watch, fit};
    ///
    /// let x = |n: i32| MixedColumn::Real((0..n).map(|i| Some(f64::from(i % 2) * 9.0 + f64::from(i % 5))).collect());
    /// let table = |n| MixedTable::new(vec!["x".into()], vec![x(n)]);
    /// let config = ItfConfig { chains: 1, sweeps: SweepPlan { burn_in: 50, keep: 20, thin: 1 }, ..ItfConfig::default() };
    /// let first = fit(&table(40)?, &config)?;
    /// let more = first.continue_with(&table(60)?, &[Field::new("x", Measure::Real, vec![0])], &config, &Watch::none())?;
    /// assert_eq!((more.n_rows(), more.draws().len()), (60, 20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fewer rows than the fit had, or others in their place (of a fit whose file knows them); other columns, unknown levels; columns whose rows depend on each
    /// other; settings that cannot change; a checkpoint of another fit.
    pub fn continue_with(
        &self,
        table: &MixedTable,
        fields: &[Field],
        config: &ItfConfig,
        watch: &Watch<'_>,
    ) -> Result<Self, ItfError> {
        config.validate()?;
        self.check_settings(config)?;
        let data = self.with_rows_after(table, fields)?;
        let before = self.sweeps_made();
        let new: Vec<usize> = (self.n_rows()..table.n_rows()).collect();
        let states = if new.is_empty() {
            self.chains().iter().map(|at| at.state.clone()).collect()
        } else {
            let new = self.read(&table.select_rows(&new), &columns_of_fields(fields), false)?;
            parallel::map((0..).zip(self.chains()), |(chain, at): (u64, &ChainSummary)| {
                self.with_labels(&at.state, &new, config, [chain, before])
            })
        };
        let key = fingerprint(&(key(&data, config)?, before, &states))?;
        let start = |chain: u64| {
            let state = states[chain as usize].clone();
            ItfSampler::resume(&data, config.clone(), chain, state, before)
        };
        let chains = run(&data, config, (watch, 1.0), (key, before), start)?;
        Ok(Self::new(&data, config, chains)?.after(before))
    }

    /// Settings that say what the law is, and how many chains there are, cannot change.
    fn check_settings(&self, config: &ItfConfig) -> Result<(), ItfError> {
        let own = self.config();
        let same = [
            ("structure", config.structure == own.structure),
            ("groups", config.groups == own.groups),
            ("top_concentration", config.top_concentration == own.top_concentration),
            ("lower_concentration", config.lower_concentration == own.lower_concentration),
            ("lower_sharing", config.lower_sharing == own.lower_sharing),
            ("column_concentration", config.column_concentration == own.column_concentration),
            ("chains", config.chains == own.chains),
        ];
        let changed = same.iter().find(|(_, same)| !same);
        changed.map_or(Ok(()), |(argument, _)| {
            Err(ItfError::Argument {
                argument,
                value: "another value than in the fit".to_owned(),
                rule: "that of the fit which goes on (only sweeps, moves, keep_labels and seed may change): leave it out, or fit anew",
            })
        })
    }

    /// The rows of the fit and those after them, as cells of its kernels.
    fn with_rows_after(&self, table: &MixedTable, fields: &[Field]) -> Result<ItfData, ItfError> {
        if let Some(j) = (0..self.columns().len()).find(|&j| self.law(j).is_coupled()) {
            return Err(ItfError::Column {
                name: self.columns()[j].name.clone(),
                what: "its rows depend on each other, so that none can come later: fit anew".to_owned(),
            });
        }
        let (found, least) = (table.n_rows(), self.n_rows());
        if found < least {
            return Err(ItfError::FewerRows { found, least });
        }
        let columns = columns_of_fields(fields);
        let cells = self.field_rows(table, fields, false)?.into_cells();
        if let Some(row) = self.other_row(table, &columns)? {
            return Err(ItfError::OtherRow { row });
        }
        let mut data = ItfData::new();
        for (column, mut cells) in self.draws()[0].columns.iter().zip(cells) {
            let mut law = column.law.clone();
            law.truncate(0);
            if let (Column::FullNormal(law), Cells::FullNormal(cells)) = (&law, &mut cells) {
                cells.spread(&law.kernel, &mut prototype_stream());
            }
            data.push_column(law, cells);
        }
        let mut infos = self.columns().to_vec();
        for (info, own) in infos.iter_mut().zip(&columns) {
            let seen = |at: &usize| (least..found).any(|row| table.is_observed(row, *at));
            info.observed |= own.iter().any(seen);
        }
        data.describe(infos, self.places().to_vec());
        data.know_rows(fingerprints(table, &columns)?);
        Ok(data)
    }

    /// A state with labels for new rows, drawn given it. `place`: the chain, and how many sweeps it has made.
    fn with_labels(
        &self,
        state: &ItfState,
        new: &ItfRows,
        config: &ItfConfig,
        place: [u64; 2],
    ) -> ItfState {
        let mut state = state.clone();
        let config = ItfConfig {
            keep_labels: false,
            ..config.clone()
        };
        let [chain, sweep] = place;
        let rng = &mut stream(config.seed, [chain, sweep, FOLD, 0]);
        let one = self.with_draw(Draw::new(&state, &config, chain, rng));
        let labels = one.fold_in(new, |row| [chain, sweep, FOLD, 1 + row as u64], config.seed);
        let draw = &one.draws()[0];
        for (b, block) in state.blocks.iter_mut().enumerate() {
            block.labels.extend(labels.iter().map(|(top, _)| top[b]));
        }
        for (j, (column, drawn)) in state.columns.iter_mut().zip(&draw.columns).enumerate() {
            column.concentrations.clone_from(&drawn.concentrations);
            column.law = drawn.law.clone();
            if !column.labels.is_empty() {
                column.labels.extend(labels.iter().map(|(_, lower)| lower[j]));
            }
        }
        state
    }

    /// Labels of rows, each drawn given its observed cells and the one draw that there is.
    fn fold_in(
        &self,
        rows: &ItfRows,
        key: impl Fn(usize) -> [u64; 4] + Sync,
        seed: u64,
    ) -> Vec<RowLabels> {
        let draw = &self.draws()[0];
        self.by_blocks(rows, |row, likelihoods: &RowLikelihoods| {
            let rng = &mut stream(seed, key(row));
            let asked = self.ask_one(0, rows, row, |_| true, likelihoods);
            let tops = asked.draw_tops(rng);
            let lower = (0..draw.columns.len())
                .map(|j| draw.draw_cluster(j, rows, row, (&asked, &tops), rng) as u32);
            let lower = lower.collect();
            (tops.iter().map(|&top| top as u32).collect(), lower)
        })
    }
}
