//! Rows that are known again, and chains that go on with further ones; what of it is exact: `docs/itf.md#further-rows`.

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
type LabelsOfRow = (Vec<u32>, Vec<u32>);

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
        let states: Vec<ItfState> = if new.is_empty() {
            self.chains().iter().map(|at| at.state.clone()).collect()
        } else {
            let new = self.read(&table.select_rows(&new), &columns_of_fields(fields), false)?;
            parallel::map(
                (0..).zip(self.chains()),
                |(chain, at): (u64, &ChainSummary)| {
                    self.with_labels(&at.state, &new, config, [chain, before])
                },
            )
        };
        let key = fingerprint(&(key(&data, config)?, before, &states))?;
        let start = |chain: u64| {
            let state = states[chain as usize].clone();
            ItfSampler::resume(&data, config.clone(), chain, state, before)
        };
        let chains = run(&data, config, (watch, 1.0), (key, before), start)?;
        Ok(Self::new(&data, config, chains)?.after(before))
    }

    /// The first row of a table that is not the same row of the fit, if the fit knows its rows: those of files of earlier versions do not.
    pub(crate) fn other_row(
        &self,
        table: &MixedTable,
        columns: &[Vec<usize>],
    ) -> Result<Option<usize>, ItfError> {
        let found = fingerprints(table, columns)?;
        Ok(self
            .fingerprints()
            .iter()
            .zip(&found)
            .position(|(known, found)| known != found))
    }

    /// Whether a table holds the rows of the fit, in their order.
    pub(crate) fn check_rows_of_fit(
        &self,
        table: &MixedTable,
        columns: &[Vec<usize>],
    ) -> Result<(), ItfError> {
        let (found, expected) = (table.n_rows(), self.n_rows());
        if found != expected {
            return Err(ItfError::RowsOfFit { found, expected });
        }
        let other = self.other_row(table, columns)?;
        other.map_or(Ok(()), |row| Err(ItfError::OtherRow { row }))
    }

    /// Settings that say what the law is, and how many chains there are, cannot change.
    fn check_settings(&self, config: &ItfConfig) -> Result<(), ItfError> {
        let own = self.config();
        let same = [
            ("structure", config.structure == own.structure),
            ("groups", config.groups == own.groups),
            (
                "top_concentration",
                config.top_concentration == own.top_concentration,
            ),
            (
                "lower_concentration",
                config.lower_concentration == own.lower_concentration,
            ),
            ("lower_sharing", config.lower_sharing == own.lower_sharing),
            (
                "column_concentration",
                config.column_concentration == own.column_concentration,
            ),
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
                what: "its rows depend on each other, so that none can come later: fit anew"
                    .to_owned(),
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
        let one = self.with_draws(vec![Draw::new(&state, &config, chain, rng)]);
        let labels = one.fold_in(new, |row| [chain, sweep, FOLD, 1 + row as u64], config.seed);
        let draw = &one.draws()[0];
        for (b, block) in state.blocks.iter_mut().enumerate() {
            block.labels.extend(labels.iter().map(|(top, _)| top[b]));
        }
        for (j, (column, drawn)) in state.columns.iter_mut().zip(&draw.columns).enumerate() {
            column.concentrations.clone_from(&drawn.concentrations);
            column.law = drawn.law.clone();
            if !column.labels.is_empty() {
                column
                    .labels
                    .extend(labels.iter().map(|(_, lower)| lower[j]));
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
    ) -> Vec<LabelsOfRow> {
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

#[cfg(test)]
mod tests {
    use npb_data::MixedColumn;
    use npb_infer::SweepPlan;

    use super::*;
    use crate::{RowLabels, Structure, fit};

    /// Likelihoods of the cell of a row in a column, by cluster.
    fn likelihoods(draw: &Draw, rows: &ItfRows, j: usize) -> Vec<f64> {
        let column = &draw.columns[j];
        let mut ln = vec![0.0; column.n_clusters];
        let law = &column.law;
        law.ln_likelihoods(
            &rows.cells()[j],
            0..1,
            column.n_clusters,
            RowLabels::NONE,
            &mut ln,
        );
        ln.into_iter().map(f64::exp).collect()
    }

    /// Two columns of levels and one of numbers, by which rows are of two kinds; two cells missing.
    fn table(n: usize) -> MixedTable {
        let levels = |j: usize| MixedColumn::Categorical {
            levels: ["a", "b", "c"].map(String::from).to_vec(),
            codes: (0..n)
                .map(|i| (i + j != 4).then_some(((i * (j + 1)) % 3) as u32))
                .collect(),
        };
        let x = MixedColumn::Real(
            (0..n)
                .map(|i| Some((i % 3) as f64 * 2.0 + 0.1 * (i % 5) as f64))
                .collect(),
        );
        let names = ["u", "v", "x"].map(String::from).to_vec();
        MixedTable::new(names, vec![levels(0), levels(1), x]).unwrap()
    }

    /// Rows that are alike and new have labels of their own: each comes by its own random numbers.
    #[test]
    fn new_rows_are_drawn_apart_from_each_other() {
        let config = ItfConfig {
            structure: Structure::Tensor,
            chains: 1,
            sweeps: SweepPlan {
                burn_in: 30,
                keep: 1,
                thin: 1,
            },
            ..ItfConfig::default()
        };
        let table = table(24);
        let fitted = fit(&table, &config).unwrap();
        let mut state = fitted.chains()[0].state.clone();
        // Two clusters that a row of holes cannot tell apart.
        let labels = state.blocks[0].labels.iter_mut().enumerate();
        labels.for_each(|(row, label)| *label = (row % 2) as u32);
        let holes = npb_data::Mask::from_fn(300, 3, |_, _| true).unwrap();
        let empty = table.select_rows(&[0; 300]).hide(&holes).unwrap();
        let new = fitted.rows(&empty).unwrap();
        let with = fitted.with_labels(&state, &new, &config, [0, 31]);
        let own = &with.blocks[0].labels[24..];
        let first = own.iter().filter(|label| **label == own[0]).count();
        assert!(
            (1..300).contains(&first),
            "{first} of 300 rows are in one cluster"
        );
    }

    /// Labels of a row that comes again and again, against all that they can be: with a draw's sticks and parameters their law is a finite one.
    #[test]
    fn labels_of_a_new_row_come_up_as_often_as_they_should() {
        const N: usize = 40_000;
        for structure in [Structure::Tensor, Structure::Joint, Structure::TensorBlocks] {
            let config = ItfConfig {
                structure,
                groups: crate::Grouping::Off,
                chains: 1,
                sweeps: SweepPlan {
                    burn_in: 30,
                    keep: 1,
                    thin: 1,
                },
                ..ItfConfig::default()
            };
            let table = table(24);
            let fitted = fit(&table, &config).unwrap();
            let one = fitted.thinned(1);
            // A row of which a cell is missing.
            let rows = one.rows(&table.select_rows(&[4; N])).unwrap();
            let labels = one.fold_in(&rows, |row| [0, 0, FOLD, row as u64], 3);
            let draw = &one.draws()[0];
            let two_levels = structure.has_lower();
            let share = |j: usize, r: usize, k: usize| match two_levels {
                true => draw.columns[j].weights[r * draw.columns[j].n_clusters + k],
                false => f64::from(u8::from(r == k)),
            };
            let likely: Vec<Vec<f64>> = (0..3).map(|j| likelihoods(draw, &rows, j)).collect();
            let cell = |j: usize, r: usize| -> f64 {
                likely[j]
                    .iter()
                    .enumerate()
                    .map(|(k, l)| share(j, r, k) * l)
                    .sum()
            };
            for j in 0..3 {
                let b = draw.columns[j].block;
                let others = |r: usize| -> f64 {
                    let inside = (0..3).filter(|&i| i != j && draw.columns[i].block == b);
                    inside.map(|i| cell(i, r)).product()
                };
                let tops = &draw.blocks[b].weights;
                let weight =
                    |r: usize, k: usize| tops[r] * others(r) * share(j, r, k) * likely[j][k];
                let ways =
                    || (0..tops.len()).flat_map(|r| (0..likely[j].len()).map(move |k| (r, k)));
                let total: f64 = ways().map(|(r, k)| weight(r, k)).sum();
                for (r, k) in ways() {
                    let p = weight(r, k) / total;
                    let own =
                        |(top, lower): &&LabelsOfRow| (top[b], lower[j]) == (r as u32, k as u32);
                    let found = labels.iter().filter(own).count() as f64 / N as f64;
                    // One of what is hardly ever found is no wonder.
                    let most = 5.0 * (p * (1.0 - p) / N as f64).sqrt() + 1.0 / N as f64;
                    assert!(
                        (found - p).abs() <= most,
                        "{structure:?} {j} {r} {k}: {found} {p}"
                    );
                }
            }
        }
    }
}
