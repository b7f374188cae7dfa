//! Missing cells filled in: expectations, intervals, draws, and completed tables. Equations: `docs/itf.md#completed-tables`.

use std::ops::Range;
use std::sync::OnceLock;

use npb_data::{Field, MixedColumn, MixedTable};
use npb_infer::{Xoshiro256PlusPlus, parallel, stream};
use rand::RngExt;

use crate::data::in_levels_of_training;
use crate::fields::{check_fields, columns_of_fields};
use crate::gibbs::shuffle;
use crate::kernel::CellPart;
use crate::kernels::{Cells, Column};
use crate::numeric::pick;
use crate::predict::{RowInDraw, RowLikelihoods, draw_weights};
use crate::{ItfError, ItfFit, ItfRows};

/// Keys of the random streams of questions to a fit.
const INTERVAL: u64 = 1;
const ROWS: u64 = 2;
const TABLES: u64 = 3;
const SIMULATED: u64 = 4;

/// Simulated values behind an interval.
const SAMPLES: usize = 400;

/// A cell with missing parts, filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ImputedCell {
    /// 0-based row.
    pub row: usize,
    /// Position of the column.
    pub column: usize,
    /// The parts that were missing.
    pub missing: Vec<usize>,
    /// Class probabilities, or the expected value, of every part of the cell; observed parts as they are.
    pub expected: Vec<f64>,
    /// Standard deviations of the parts, from the same simulated values as the intervals; for categories of the level's number.
    pub sd: Vec<f64>,
    /// Lower ends of the central intervals of the parts; for categories of the level's number.
    pub lower: Vec<f64>,
    /// Upper ends.
    pub upper: Vec<f64>,
    /// The share of the uncertainty about the parts that more data would take away, from 0 to 1. With the draws' means m_s and their weights w_s: of numbers
    /// V / (V + W), where V = Σ w_s (m_s − Σ w_s m_s)² and W is the mean square of the simulated values less the mean of the draw that each is from (of positive
    /// numbers that of logarithms); of levels the mutual information of draw and level over the level's entropy. 0 where nothing is uncertain; NaN, not known, where
    /// one draw outweighs the others (Σ w_s² > 1/2), as for rows far from all that the fit has seen.
    pub epistemic: Vec<f64>,
}

/// Draws of a cell with missing parts.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnCell {
    /// 0-based row.
    pub row: usize,
    /// Position of the column.
    pub column: usize,
    /// The parts that were missing.
    pub missing: Vec<usize>,
    /// All parts of the cell in every draw, observed ones as they are; levels as their numbers.
    pub draws: Vec<Vec<f64>>,
}

/// A table filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ImputedTable {
    /// The table as it was given, with the means of missing real numbers, rounded means of counts, most probable levels. Columns without any
    /// value in training ([`ItfFit::unobserved_columns`]) stay as they are.
    pub completed: MixedTable,
    /// All cells with missing parts, row by row.
    pub cells: Vec<ImputedCell>,
}

impl ItfFit {
    /// Fills in the missing cells of new rows, with central intervals that hold `level` of the predictive probability.
    ///
    /// # Errors
    /// As [`rows`](Self::rows), or a level not between 0 and 1.
    pub fn impute(&self, table: &MixedTable, level: f64) -> Result<ImputedTable, ItfError> {
        self.imputation(table, &self.rows(table)?, &self.one_each(), level)
    }

    /// Fills in the missing cells of the training table; as [`impute`](Self::impute).
    ///
    /// # Errors
    /// As [`impute`](Self::impute).
    pub fn impute_training(
        &self,
        table: &MixedTable,
        level: f64,
    ) -> Result<ImputedTable, ItfError> {
        self.check_rows_of_fit(table, &self.one_each())?;
        self.imputation(table, &self.training_rows(table)?, &self.one_each(), level)
    }

    /// Fills in the missing cells of a table whose columns are measured alone or together, new rows or (`training`) those of training; as
    /// [`impute`](Self::impute). `fields`: those that the fit's data were made from ([`crate::ItfData::from_fields`]), in their order, at the
    /// same columns of a table like that of training. The completed table has the user's own columns; those of no field stay as they are, and
    /// so does every observed cell. Where a network says a link from the other side, or that a row is not linked to itself, that is written too.
    ///
    /// ```
    /// use npb_itf::npb_data::{Field, Measure, MixedColumn, MixedTable};
    /// use npb_itf::npb_infer::SweepPlan;
    /// use npb_itf::{ItfConfig, ItfData, fit_data};
    ///
    /// // North is twice east; one north is missing.
    /// let east: Vec<Option<f64>> = (0..40).map(|i| Some(f64::from(i % 8))).collect();
    /// let north = east.iter().enumerate().map(|(i, x)| x.filter(|_| i != 7).map(|x| 2.0 * x + 0.01 * (i % 3) as f64));
    /// let columns = vec![MixedColumn::Real(east.clone()), MixedColumn::Real(north.collect())];
    /// let table = MixedTable::new(vec!["east".into(), "north".into()], columns)?;
    /// let fields = [Field::new("place", Measure::Vector, vec![0, 1])];
    /// let config = ItfConfig { chains: 1, sweeps: SweepPlan { burn_in: 50, keep: 20, thin: 5 }, ..ItfConfig::default() };
    /// let fit = fit_data(&ItfData::from_fields(&table, &fields)?, &config)?;
    ///
    /// let filled = fit.impute_fields(&table, &fields, 0.9, true)?;
    /// let found = filled.completed.column(1).number(7).unwrap();
    /// assert!((found - 14.0).abs() < 1.0, "{found}");
    /// assert_eq!(filled.cells[0].missing, [1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`field_rows`](Self::field_rows), or a level not between 0 and 1.
    pub fn impute_fields(
        &self,
        table: &MixedTable,
        fields: &[Field],
        level: f64,
        training: bool,
    ) -> Result<ImputedTable, ItfError> {
        let rows = self.field_rows(table, fields, training)?;
        self.imputation(table, &rows, &columns_of_fields(fields), level)
    }

    /// Rows of a table whose columns are measured alone or together, read by the kernels of the fit; see
    /// [`impute_fields`](Self::impute_fields).
    ///
    /// # Errors
    /// Fields of other names than the columns of training, or that do not fit the table or their kernel; new rows of a network; with `training` a table that
    /// is not that of the fit ([`ItfError::RowsOfFit`], [`ItfError::OtherRow`]).
    pub fn field_rows(
        &self,
        table: &MixedTable,
        fields: &[Field],
        training: bool,
    ) -> Result<ItfRows, ItfError> {
        let mut pairs = fields.iter().zip(self.columns());
        if let Some((found, _)) = pairs.find(|(field, info)| field.name != info.name) {
            return Err(ItfError::Argument {
                argument: "fields",
                value: format!("{:?}", found.name),
                rule: "those of training, in their order",
            });
        }
        check_fields(table, fields, self.columns().len())?;
        let columns = columns_of_fields(fields);
        if training {
            self.check_rows_of_fit(table, &columns)?;
        }
        let rows = self.read(table, &columns, training)?;
        self.check_columns_of(&rows)?;
        Ok(rows)
    }

    /// Every cell with missing parts: expectations, and central intervals that hold `level` of the predictive probability (from 400
    /// simulated values).
    ///
    /// # Errors
    /// A level not between 0 and 1; rows of a fit with other columns.
    pub fn impute_cells(&self, rows: &ItfRows, level: f64) -> Result<Vec<ImputedCell>, ItfError> {
        self.check_columns_of(rows)?;
        self.filled(rows, level, |_| true)
    }

    /// Predicts some columns, given by their names, from the other known cells of new rows: what the rows have of these columns is not looked at. A
    /// cell for each row and column, as [`impute_fields`](Self::impute_fields) has them for missing cells.
    ///
    /// ```
    /// use npb_itf::npb_data::{Field, Measure, MixedColumn, MixedTable};
    /// use npb_itf::npb_infer::SweepPlan;
    /// use npb_itf::{ItfConfig, fit};
    ///
    /// let x = MixedColumn::Real((0..60).map(|i| Some(f64::from(i % 2) * 9.0 + f64::from(i % 5))).collect());
    /// let y = MixedColumn::Binary { levels: ["low".into(), "high".into()], values: (0..60).map(|i| Some(i % 2 == 1)).collect() };
    /// let table = MixedTable::new(vec!["x".into(), "y".into()], vec![x, y])?;
    /// let config = ItfConfig { chains: 1, sweeps: SweepPlan { burn_in: 50, keep: 20, thin: 1 }, ..ItfConfig::default() };
    /// let model = fit(&table, &config)?;
    ///
    /// let fields = [Field::new("x", Measure::Real, vec![0]), Field::new("y", Measure::Binary, vec![1])];
    /// let cells = model.predict_columns(&table, &fields, &["y"], 0.9)?;
    /// assert!(cells[0].expected[0] > 0.5 && cells[1].expected[1] > 0.5);
    /// assert!((0.0..=1.0).contains(&cells[0].epistemic[0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`impute_fields`](Self::impute_fields); no column, one that does not exist or that is named twice, or of which no value was observed in training.
    pub fn predict_columns(
        &self,
        table: &MixedTable,
        fields: &[Field],
        columns: &[&str],
        level: f64,
    ) -> Result<Vec<ImputedCell>, ItfError> {
        let targets = columns.iter().map(|name| self.target(name));
        let targets: Vec<usize> = targets.collect::<Result<_, _>>()?;
        let again = (1..columns.len()).find(|&k| columns[..k].contains(&columns[k]));
        if columns.is_empty() || again.is_some() {
            return Err(ItfError::Argument {
                argument: "columns",
                value: again.map_or("[]".to_owned(), |k| format!("{:?} twice", columns[k])),
                rule: "the columns to predict, each once",
            });
        }
        let of_target = |at: usize| {
            let mut own = fields.iter().enumerate();
            own.any(|(j, field)| targets.contains(&j) && field.columns.contains(&at))
        };
        let cells = table.columns().iter().enumerate();
        let cells = cells.map(|(at, cells)| match of_target(at) {
            true => emptied(cells),
            false => cells.clone(),
        });
        let hidden = MixedTable::new(table.column_names().to_vec(), cells.collect())?;
        let rows = self.field_rows(&hidden, fields, false)?;
        self.filled(&rows, level, |column| targets.contains(&column))
    }

    /// The cells with missing parts in the columns that are wanted.
    fn filled(
        &self,
        rows: &ItfRows,
        level: f64,
        wanted: impl Fn(usize) -> bool + Sync,
    ) -> Result<Vec<ImputedCell>, ItfError> {
        if !(level > 0.0 && level < 1.0) {
            return Err(ItfError::Argument {
                argument: "level",
                value: level.to_string(),
                rule: "between 0 and 1",
            });
        }
        let row = |row, likelihoods: &_| self.impute_row(rows, row, (level, &wanted), likelihoods);
        let cells = self.by_blocks(rows, row);
        let mut cells: Vec<ImputedCell> = cells.into_iter().flatten().collect();
        let places = cells.iter().map(|c| (c.row, c.column, &c.missing[..]));
        for twin in self.shared_parts(rows, places) {
            let n = self.numbers_for_a_part(cells[twin.cell].column);
            let first = cells[twin.first].clone();
            let cell = &mut cells[twin.cell];
            cell.expected[twin.part * n..][..n]
                .copy_from_slice(&first.expected[twin.part_of_first * n..][..n]);
            cell.sd[twin.part] = first.sd[twin.part_of_first];
            cell.lower[twin.part] = first.lower[twin.part_of_first];
            cell.upper[twin.part] = first.upper[twin.part_of_first];
            cell.epistemic[twin.part] = first.epistemic[twin.part_of_first];
        }
        Ok(cells)
    }

    /// The cells of a row in the columns that are wanted.
    fn impute_row(
        &self,
        rows: &ItfRows,
        row: usize,
        (level, wanted): (f64, impl Fn(usize) -> bool),
        likelihoods: &RowLikelihoods,
    ) -> Vec<ImputedCell> {
        let mut targets = self.targets(rows, row);
        targets.retain(|target| self.members()[target.0].iter().any(|&j| wanted(j)));
        if targets.is_empty() {
            return Vec::new();
        }
        let columns: Vec<usize> = targets.iter().map(|target| target.0).collect();
        let asked: Vec<RowInDraw> = self.ask(rows, row, |_| true, likelihoods).collect();
        let weights = draw_weights(asked.iter(), rows.training);
        // The same random numbers for every row: an interval depends on the row's own cells, not on where it stands in the question.
        let mut rng = self.question_stream(INTERVAL, 0);
        let mut samples = vec![Vec::with_capacity(SAMPLES); targets.len()];
        // Draws come up in proportion to their weights.
        let of_sample = |sample| pick(&weights, (sample as f64 + 0.5) / SAMPLES as f64);
        let picked: Vec<usize> = (0..SAMPLES).map(of_sample).collect();
        for &draw in &picked {
            let drawn = self.draw_cells(rows, row, &columns, draw, &asked[draw], &mut rng);
            let all = samples.iter_mut().zip(drawn);
            all.for_each(|(all, parts)| all.push(parts));
        }
        let cells = |((column, missing), samples): ((usize, Vec<usize>), Vec<Vec<f64>>)| {
            let (lower, upper) = central(&samples, level);
            let sd = deviations(&samples);
            let (mut expected, of_draws) =
                self.expected(rows, row, column, false, &asked, &weights);
            self.keep_observed(rows, row, column, &mut expected);
            let law = &self.draws()[0].columns[column].law;
            let told = Told {
                law,
                weights: &weights,
                of_draws: &of_draws,
                samples: &samples,
                picked: &picked,
            };
            let cell = |(column, missing, parts): (usize, Vec<usize>, Range<usize>)| {
                let of_parts = match parts.len() {
                    0 => 0..0,
                    _ => law.place_of_part(parts.start).start..law.place_of_part(parts.end - 1).end,
                };
                ImputedCell {
                    row,
                    column,
                    missing,
                    expected: expected[of_parts].to_vec(),
                    sd: sd[parts.clone()].to_vec(),
                    lower: lower[parts.clone()].to_vec(),
                    upper: upper[parts.clone()].to_vec(),
                    epistemic: parts.map(|part| told.epistemic(part)).collect(),
                }
            };
            let n_parts = law.n_parts(&rows.cells()[column], row);
            let mut own = self.own_cells(column, missing, n_parts);
            own.retain(|(j, ..)| wanted(*j));
            own.into_iter().map(cell).collect::<Vec<_>>()
        };
        let cells = targets.into_iter().zip(samples).flat_map(cells);
        let mut cells: Vec<ImputedCell> = cells.collect();
        cells.sort_by_key(|cell| cell.column);
        cells
    }

    /// Completes a table `n` times by draws: the missing cells of a row are drawn together, and of a table of training all cells of a completed
    /// table with the parameters of one kept draw, so that what differs between tables holds what is not known of the parameters, as Rubin's rules ask.
    /// For multiple imputation, and, with rows without any observed cell, for new rows altogether.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn impute_draws(
        &self,
        table: &MixedTable,
        n: usize,
        training: bool,
    ) -> Result<Vec<MixedTable>, ItfError> {
        self.drawn_tables(
            table,
            &self.read_table(table, training)?,
            &self.one_each(),
            n,
        )
    }

    /// [`impute_draws`](Self::impute_draws) for a table whose columns are measured alone or together; see
    /// [`impute_fields`](Self::impute_fields).
    ///
    /// # Errors
    /// As [`field_rows`](Self::field_rows).
    pub fn impute_field_draws(
        &self,
        table: &MixedTable,
        fields: &[Field],
        n: usize,
        training: bool,
    ) -> Result<Vec<MixedTable>, ItfError> {
        let rows = self.field_rows(table, fields, training)?;
        self.drawn_tables(table, &rows, &columns_of_fields(fields), n)
    }

    /// `n` draws of every cell with missing parts, those of a row drawn together: [`impute_draws`](Self::impute_draws) for columns of any
    /// kernel. Of rows of training, draw number t of all cells is made with the parameters of one kept draw, another for every t as far as there are so many;
    /// of new rows, each row's with those of a kept draw chosen by how well it explains the row.
    ///
    /// # Errors
    /// Rows of a fit with other columns.
    pub fn impute_cell_draws(&self, rows: &ItfRows, n: usize) -> Result<Vec<DrawnCell>, ItfError> {
        self.check_columns_of(rows)?;
        // The kept draw of every table of training: in random order, as draws next to each other in a chain are alike.
        let mut order: Vec<u32> = (0..self.draws().len() as u32).collect();
        shuffle(&mut order, &mut self.question_stream(TABLES, 0));
        let of_table = |table: usize| order[table % order.len()] as usize;
        let mut used = vec![!rows.training; order.len()];
        (0..n.min(order.len())).for_each(|table| used[of_table(table)] = true);
        let of_nothing = OnceLock::new();
        let row = |row, likelihoods: &RowLikelihoods| {
            let targets = self.targets(rows, row);
            if targets.is_empty() {
                return Vec::new();
            }
            let columns: Vec<usize> = targets.iter().map(|target| target.0).collect();
            let mut cells = self.cells_to_draw(rows, row, targets, n);
            let mut rng = self.question_stream(ROWS, row);
            let ask = |draw: usize| {
                used[draw].then(|| self.ask_one(draw, rows, row, |_| true, likelihoods))
            };
            let ask_all = || (0..order.len()).map(ask).collect();
            let own: Vec<Option<RowInDraw>>;
            let asked = match rows.training || self.is_known(rows, row) {
                true => {
                    own = ask_all();
                    &own
                }
                // New rows of which nothing is known are alike.
                false => of_nothing.get_or_init(ask_all),
            };
            let weights = match rows.training {
                true => Vec::new(),
                false => draw_weights(asked.iter().flatten(), false),
            };
            for table in 0..n {
                let draw = match rows.training {
                    true => of_table(table),
                    false => pick(&weights, rng.random()),
                };
                let Some(asked) = &asked[draw] else { continue };
                let drawn = self.draw_cells(rows, row, &columns, draw, asked, &mut rng);
                for (place, parts, cell) in &mut cells {
                    cell.draws.push(drawn[*place][parts.clone()].to_vec());
                }
            }
            cells.sort_by_key(|(_, _, cell)| cell.column);
            cells.into_iter().map(|(_, _, cell)| cell).collect()
        };
        let cells = self.by_blocks_in(|draw| used[draw], rows, row);
        let mut cells: Vec<DrawnCell> = cells.into_iter().flatten().collect();
        let places = cells.iter().map(|c| (c.row, c.column, &c.missing[..]));
        for twin in self.shared_parts(rows, places) {
            for draw in 0..n {
                let value = cells[twin.first].draws[draw][twin.part_of_first];
                cells[twin.cell].draws[draw][twin.part] = value;
            }
        }
        Ok(cells)
    }

    /// New rows from the posterior predictive, given what is known of one row: a row whose known cells all these rows have, and whose other cells are drawn
    /// together, each row by a kept draw chosen by how well it explains what is known. `numbers`: which of endlessly many such rows; that with a number
    /// is always the same. Columns without any value in training stay missing.
    ///
    /// ```
    /// use npb_itf::npb_data::{Field, Measure, MixedColumn, MixedTable};
    /// use npb_itf::npb_infer::SweepPlan;
    /// use npb_itf::{ItfConfig, fit};
    ///
    /// let x = |cells: Vec<Option<f64>>| MixedTable::new(vec!["x".into()], vec![MixedColumn::Real(cells)]);
    /// let table = x((0..60).map(|i| Some(f64::from(i % 5))).collect())?;
    /// let config = ItfConfig { chains: 1, sweeps: SweepPlan { burn_in: 50, keep: 20, thin: 1 }, ..ItfConfig::default() };
    /// let model = fit(&table, &config)?;
    ///
    /// let fields = [Field::new("x", Measure::Real, vec![0])];
    /// let rows = model.simulate(&x(vec![None])?, &fields, 0..10)?;
    /// assert_eq!((rows.n_rows(), rows.n_missing()), (10, 0));
    /// let last = model.simulate(&x(vec![None])?, &fields, 9..10)?;
    /// assert_eq!(last.column(0).number(0), rows.column(0).number(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`field_rows`](Self::field_rows); another number of rows than one in `table`, or no cell that is to be drawn.
    pub fn simulate(
        &self,
        table: &MixedTable,
        fields: &[Field],
        numbers: Range<usize>,
    ) -> Result<MixedTable, ItfError> {
        let wrong = |argument, value: usize, rule| {
            Err(ItfError::Argument {
                argument,
                value: value.to_string(),
                rule,
            })
        };
        if table.n_rows() != 1 {
            return wrong("table (number of rows)", table.n_rows(), "1");
        }
        let rows = self.field_rows(table, fields, false)?;
        let targets = self.targets(&rows, 0);
        if targets.is_empty() {
            return wrong(
                "cells to draw",
                0,
                "at least 1: leave a column out of what is given",
            );
        }
        let columns: Vec<usize> = targets.iter().map(|target| target.0).collect();
        let likelihoods = RowLikelihoods::new(self.draws(), rows.cells(), |_| 0..1, |_| true);
        let asked: Vec<RowInDraw> = self.ask(&rows, 0, |_| true, &likelihoods).collect();
        let weights = draw_weights(asked.iter(), false);
        let drawn = parallel::map(numbers, |number| {
            let mut rng = self.question_stream(SIMULATED, number);
            let draw = pick(&weights, rng.random());
            self.draw_cells(&rows, 0, &columns, draw, &asked[draw], &mut rng)
        });
        let places = columns_of_fields(fields);
        let mut own =
            self.own_columns(&table.select_rows(&vec![0; drawn.len()]), &rows, &places)?;
        let cells = self.cells_to_draw(&rows, 0, targets, 0);
        for (row, drawn) in drawn.iter().enumerate() {
            for (place, parts, cell) in &cells {
                let value = |part: usize| drawn[*place][parts.start + part];
                self.write(&mut own, &places, row, cell.column, &cell.missing, value);
            }
        }
        Ok(MixedTable::new(table.column_names().to_vec(), own)?)
    }

    /// The user's cells in some columns of the model, for `n` draws; with the place among these columns, and where their parts stand.
    fn cells_to_draw(
        &self,
        rows: &ItfRows,
        row: usize,
        targets: Vec<(usize, Vec<usize>)>,
        n: usize,
    ) -> Vec<(usize, Range<usize>, DrawnCell)> {
        let cells = |(place, (column, missing)): (usize, (usize, Vec<usize>))| {
            let law = &self.draws()[0].columns[column].law;
            let n_parts = law.n_parts(&rows.cells()[column], row);
            let own = self.own_cells(column, missing, n_parts).into_iter();
            own.map(move |(column, missing, parts)| {
                let cell = DrawnCell {
                    row,
                    column,
                    missing,
                    draws: Vec::with_capacity(n),
                };
                (place, parts, cell)
            })
        };
        targets.into_iter().enumerate().flat_map(cells).collect()
    }

    fn imputation(
        &self,
        table: &MixedTable,
        rows: &ItfRows,
        places: &[Vec<usize>],
        level: f64,
    ) -> Result<ImputedTable, ItfError> {
        let cells = self.impute_cells(rows, level)?;
        let mut columns = self.own_columns(table, rows, places)?;
        for cell in &cells {
            let n = self.numbers_for_a_part(cell.column);
            let of = |part: usize| &cell.expected[part * n..][..n];
            let levels = self.n_levels(cell.column).is_some();
            let best = |part: usize| match levels {
                true => largest(of(part)) as f64,
                false => of(part)[0],
            };
            self.write(
                &mut columns,
                places,
                cell.row,
                cell.column,
                &cell.missing,
                best,
            );
        }
        Ok(ImputedTable {
            completed: MixedTable::new(table.column_names().to_vec(), columns)?,
            cells,
        })
    }

    fn drawn_tables(
        &self,
        table: &MixedTable,
        rows: &ItfRows,
        places: &[Vec<usize>],
        n: usize,
    ) -> Result<Vec<MixedTable>, ItfError> {
        let drawn = self.impute_cell_draws(rows, n)?;
        let own = self.own_columns(table, rows, places)?;
        let complete = |draw: usize| {
            let mut columns = own.clone();
            for cell in &drawn {
                let value = |part: usize| cell.draws[draw][part];
                self.write(
                    &mut columns,
                    places,
                    cell.row,
                    cell.column,
                    &cell.missing,
                    value,
                );
            }
            Ok(MixedTable::new(table.column_names().to_vec(), columns)?)
        };
        (0..n).map(complete).collect()
    }

    /// Number of levels of each part of a column.
    fn n_levels(&self, column: usize) -> Option<usize> {
        let part = self.places()[column].part;
        self.law(column).n_levels(part.unwrap_or(0))
    }

    /// How many numbers say what is expected of a part of a column.
    fn numbers_for_a_part(&self, column: usize) -> usize {
        self.n_levels(column).unwrap_or(1)
    }

    /// The columns of the user's with missing parts in a cell of a column of the model, but those without any value in training: which they
    /// are, these parts, and where all their parts stand in that cell.
    fn own_cells(
        &self,
        column: usize,
        missing: Vec<usize>,
        n_parts: usize,
    ) -> Vec<(usize, Vec<usize>, Range<usize>)> {
        let of_column = &self.members()[column];
        let mut own = match self.places()[of_column[0]].part {
            None => vec![(of_column[0], missing, 0..n_parts)],
            Some(_) => (missing.into_iter())
                .map(|part| (of_column[part], vec![0], part..part + 1))
                .collect(),
        };
        own.retain(|(j, ..)| self.columns()[*j].observed);
        own
    }

    /// The columns of the model with missing parts in a row, and these parts.
    fn targets(&self, rows: &ItfRows, row: usize) -> Vec<(usize, Vec<usize>)> {
        let law = |j: usize| &self.draws()[0].columns[j].law;
        let gaps = |(j, cells)| (j, law(j).gaps(cells, row));
        let all = rows.cells().iter().enumerate().map(gaps);
        all.filter(|(_, missing)| !missing.is_empty()).collect()
    }

    /// Whether any part of a row is known.
    fn is_known(&self, rows: &ItfRows, row: usize) -> bool {
        let columns = self.draws()[0].columns.iter().zip(rows.cells());
        let mut columns = columns.map(|(column, cells)| column.law.is_observed(cells, row));
        columns.any(|observed| observed)
    }

    /// Takes the rounding of a mean over draws back where there was nothing to average.
    fn keep_observed(&self, rows: &ItfRows, row: usize, column: usize, expected: &mut [f64]) {
        let law = &self.draws()[0].columns[column].law;
        let cells = &rows.cells()[column];
        let mut start = 0;
        for part in 0..law.n_parts(cells, row) {
            let levels = law.n_levels(part);
            let numbers = &mut expected[start..][..levels.unwrap_or(1)];
            start += numbers.len();
            match law.part(cells, row, part) {
                CellPart::Observed(level) if levels.is_some() => {
                    numbers.fill(0.0);
                    numbers[level as usize] = 1.0;
                }
                CellPart::Observed(value) => numbers[0] = value,
                CellPart::Missing | CellPart::SameAs { .. } => {}
            }
        }
    }

    /// The parts of cells, given by row, column and missing parts in order, that are the same as parts of cells before them.
    fn shared_parts<'a>(
        &self,
        rows: &ItfRows,
        cells: impl Iterator<Item = (usize, usize, &'a [usize])>,
    ) -> Vec<SharedPart> {
        let cells: Vec<(usize, usize, &[usize])> = cells.collect();
        let mut shared_parts = Vec::new();
        for (cell, &(row, column, missing)) in cells.iter().enumerate() {
            for &part in missing {
                let known = match self.places()[column].part {
                    None => self
                        .law(column)
                        .part(self.cells_of(rows, column), row, part),
                    Some(_) => CellPart::Missing,
                };
                let CellPart::SameAs { row, part: first } = known else {
                    continue;
                };
                let place = cells.binary_search_by_key(&(row, column), |c| (c.0, c.1));
                shared_parts.extend(place.map(|at| SharedPart {
                    cell,
                    part,
                    first: at,
                    part_of_first: first,
                }));
            }
        }
        shared_parts
    }

    /// The columns of a table, with the levels of training, and with what kernels know of cells that are missing there.
    fn own_columns(
        &self,
        table: &MixedTable,
        rows: &ItfRows,
        places: &[Vec<usize>],
    ) -> Result<Vec<MixedColumn>, ItfError> {
        let mut columns = table.columns().to_vec();
        for (j, (info, place)) in self.columns().iter().zip(places).enumerate() {
            if info.kind.is_some() {
                columns[place[0]] = in_levels_of_training(table.column(place[0]), info)?;
            }
            if !self.law(j).is_coupled() {
                continue;
            }
            for row in 0..rows.n_rows() {
                for (part, &at) in place.iter().enumerate() {
                    let known = self.law(j).part(self.cells_of(rows, j), row, part);
                    if let (None, CellPart::Observed(value)) = (table.column(at).number(row), known)
                    {
                        set(&mut columns[at], row, value, 0);
                    }
                }
            }
        }
        Ok(columns)
    }

    /// Writes the missing parts of a cell into their columns.
    fn write(
        &self,
        columns: &mut [MixedColumn],
        places: &[Vec<usize>],
        row: usize,
        column: usize,
        missing: &[usize],
        value: impl Fn(usize) -> f64,
    ) {
        let of_law = |part| self.places()[column].part.unwrap_or(part);
        for &part in missing {
            let least = u64::from(self.law(column).is_geometric(of_law(part)));
            set(&mut columns[places[column][part]], row, value(part), least);
        }
    }

    /// The cells that hold those of a column.
    fn cells_of<'a>(&self, rows: &'a ItfRows, column: usize) -> &'a Cells {
        &rows.cells()[self.places()[column].column]
    }

    fn question_stream(&self, question: u64, row: usize) -> Xoshiro256PlusPlus {
        stream(self.config().seed, [u64::MAX, question, row as u64, 0])
    }
}

/// What draws say of one cell.
struct Told<'a> {
    law: &'a Column,
    weights: &'a [f64],
    /// What each draw expects; empty for those without weight.
    of_draws: &'a [Vec<f64>],
    samples: &'a [Vec<f64>],
    /// The draw that each sample is from.
    picked: &'a [usize],
}

impl Told<'_> {
    /// See [`ImputedCell::epistemic`].
    fn epistemic(&self, part: usize) -> f64 {
        // What draws differ in cannot be seen in less than two of them.
        if self.weights.iter().map(|w| w * w).sum::<f64>() > 0.5 {
            return f64::NAN;
        }
        let place = self.law.place_of_part(part);
        let draws = || self.of_draws.iter().zip(self.weights);
        let mean = |k: usize| -> f64 { draws().map(|(of, w)| w * of.get(k).unwrap_or(&0.0)).sum() };
        let (known, unknown) = match self.law.n_levels(part) {
            Some(_) => {
                let entropy = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
                let whole: f64 = place.clone().map(|k| entropy(mean(k))).sum();
                let within = |of: &Vec<f64>| {
                    of.get(place.clone())
                        .unwrap_or(&[])
                        .iter()
                        .map(|&p| entropy(p))
                        .sum::<f64>()
                };
                let within: f64 = draws().map(|(of, w)| w * within(of)).sum();
                (whole - within, within)
            }
            None => {
                let at = place.start;
                let (mean, of) = (mean(at), |draw: usize| {
                    self.of_draws[draw].get(at).copied().unwrap_or(0.0)
                });
                let apart = (0..self.of_draws.len())
                    .map(|draw| self.weights[draw] * (of(draw) - mean).powi(2));
                let scale = |x: f64| {
                    if self.law.is_geometric(part) {
                        x.ln()
                    } else {
                        x
                    }
                };
                let samples = self.samples.iter().zip(self.picked);
                let within: f64 = samples
                    .map(|(parts, &draw)| (scale(parts[part]) - of(draw)).powi(2))
                    .sum();
                (apart.sum::<f64>(), within / self.picked.len() as f64)
            }
        };
        match known + unknown > 0.0 {
            true => (known / (known + unknown)).clamp(0.0, 1.0),
            false => 0.0,
        }
    }
}

/// A column of as many cells without a value.
fn emptied(column: &MixedColumn) -> MixedColumn {
    let n = column.len();
    match column {
        MixedColumn::Real(_) => MixedColumn::Real(vec![None; n]),
        MixedColumn::Count(_) => MixedColumn::Count(vec![None; n]),
        MixedColumn::Categorical { levels, .. } => MixedColumn::Categorical {
            levels: levels.clone(),
            codes: vec![None; n],
        },
        MixedColumn::Binary { levels, .. } => MixedColumn::Binary {
            levels: levels.clone(),
            values: vec![None; n],
        },
    }
}

/// A part of a cell that is one number with a part of a cell before it.
struct SharedPart {
    cell: usize,
    part: usize,
    first: usize,
    part_of_first: usize,
}

/// Ends of the central intervals of every part.
fn central(samples: &[Vec<f64>], level: f64) -> (Vec<f64>, Vec<f64>) {
    let n_parts = samples.iter().map(Vec::len).min().unwrap_or(0);
    let part = |part: usize| {
        let mut values: Vec<f64> = samples.iter().map(|parts| parts[part]).collect();
        values.sort_unstable_by(f64::total_cmp);
        let at = |q: f64| values[((q * values.len() as f64) as usize).min(values.len() - 1)];
        (at(0.5 - 0.5 * level), at(0.5 + 0.5 * level))
    };
    (0..n_parts).map(part).unzip()
}

/// Standard deviations of the parts.
fn deviations(samples: &[Vec<f64>]) -> Vec<f64> {
    let n_parts = samples.iter().map(Vec::len).min().unwrap_or(0);
    let n = samples.len() as f64;
    let part = |part: usize| {
        let values = || samples.iter().map(move |parts| parts[part]);
        let mean = values().sum::<f64>() / n;
        (values().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt()
    };
    (0..n_parts).map(part).collect()
}

fn largest(weights: &[f64]) -> usize {
    (0..weights.len()).fold(
        0,
        |best, k| if weights[k] > weights[best] { k } else { best },
    )
}

/// Writes a value into a cell; a count is at least `least`.
fn set(column: &mut MixedColumn, row: usize, value: f64, least: u64) {
    match column {
        MixedColumn::Real(values) => values[row] = Some(value),
        MixedColumn::Count(values) => {
            values[row] = Some((value.round().max(0.0) as u64).max(least))
        }
        MixedColumn::Categorical { codes, .. } => codes[row] = Some(value as u32),
        MixedColumn::Binary { values, .. } => values[row] = Some(value > 0.5),
    }
}
