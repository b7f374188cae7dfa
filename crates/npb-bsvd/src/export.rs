//! Draws for other programs: CSV and NumPy's .npy.

use std::io::Write;

use npb_data::write_npy;
use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::cells::Cells;
use crate::fitted::BsvdFit;
use crate::side::Side;
use crate::state::BsvdState;

/// A part of a stored draw, a table in units of the model (see [`BsvdState`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrawTable {
    /// `U`: rows x rank.
    RowFactors,
    /// `V`: columns x rank.
    ColumnFactors,
    /// `s`: 1 x rank.
    Scales,
    /// `r`: rows x 1, or x 0 without intercepts.
    RowIntercepts,
    /// `c`: columns x 1, or x 0 without intercepts.
    ColumnIntercepts,
    /// `G_C`: rows x column features.
    RowCoefficients,
    /// `G_R`: columns x row features.
    ColumnCoefficients,
    /// `w`: rows x 1, or x 0 when rows have no noise of their own.
    RowNoiseWeights,
    /// The same of columns.
    ColumnNoiseWeights,
}

/// A table of numbers, row by row.
struct Table<'a> {
    n_rows: usize,
    n_cols: usize,
    values: std::borrow::Cow<'a, [f32]>,
}

impl DrawTable {
    /// The side whose rows the table has.
    fn side(self) -> Option<Side> {
        match self {
            Self::RowFactors
            | Self::RowIntercepts
            | Self::RowCoefficients
            | Self::RowNoiseWeights => Some(Side::Rows),
            Self::ColumnFactors
            | Self::ColumnIntercepts
            | Self::ColumnCoefficients
            | Self::ColumnNoiseWeights => Some(Side::Columns),
            Self::Scales => None,
        }
    }

    fn of(self, state: &BsvdState, n: usize) -> Table<'_> {
        let values = match self {
            Self::RowFactors => &state.rows.factors,
            Self::ColumnFactors => &state.columns.factors,
            Self::RowIntercepts => &state.rows.intercepts,
            Self::ColumnIntercepts => &state.columns.intercepts,
            Self::RowCoefficients => &state.rows.coefficients,
            Self::ColumnCoefficients => &state.columns.coefficients,
            Self::RowNoiseWeights => &state.rows.noise_weights,
            Self::ColumnNoiseWeights => &state.columns.noise_weights,
            Self::Scales => {
                let scales: Vec<f32> = state.scales.iter().map(|&s| s as f32).collect();
                return Table {
                    n_rows: 1,
                    n_cols: scales.len(),
                    values: scales.into(),
                };
            }
        };
        Table {
            n_rows: n,
            n_cols: values.len() / n,
            values: values.into(),
        }
    }
}

impl BsvdFit {
    /// Writes the scalars of every sweep as CSV: a header, then `chain,sweep,kept,rank,...`, one line for each sweep of each chain. Cost: a look at the trace.
    ///
    /// # Errors
    /// The writer refuses.
    ///
    /// ```
    /// # use npb_bsvd::npb_data::{Rating, Ratings};
    /// # use npb_bsvd::{BsvdConfig, Cells, SideInformation, fit};
    /// # let places = (0..12u32).flat_map(|i| (0..9u32).map(move |j| (i, j)));
    /// # let entries: Vec<Rating> = places.filter(|(i, j)| (i + j) % 3 != 0)
    /// #     .map(|(row, column)| Rating { row, column, value: f64::from(row * column) }).collect();
    /// # let ratings = Ratings::new(12, 9, &entries)?;
    /// # let model = fit(&ratings, SideInformation::default(), &Cells::default(), &BsvdConfig { candidates: 6, ..BsvdConfig::default() })?;
    /// let mut file = Vec::new();
    /// model.write_trace_csv(&mut file)?;
    /// assert!(file.starts_with(b"chain,sweep,kept,rank,"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_trace_csv(&self, mut out: impl Write) -> Result<(), BsvdError> {
        writeln!(out, "chain,sweep,kept,{}", self.trace.names().join(","))?;
        for (chain, trace) in self.traces().enumerate() {
            for index in 0..trace.n_sweeps() {
                let sweep = index as u64 + 1;
                let kept = u8::from(self.config.sweeps.is_kept(sweep));
                write!(out, "{chain},{sweep},{kept}")?;
                for value in trace.row(index) {
                    write!(out, ",{value}")?;
                }
                writeln!(out)?;
            }
        }
        Ok(out.flush()?)
    }

    /// Writes the noise-free values of cells in every stored draw as CSV, `draw,row,column,value`; rows and columns by their names where the fit has
    /// names. Cost: as [`cell_draws`](Self::cell_draws).
    ///
    /// # Errors
    /// A cell that does not exist; no stored draw; the writer refuses.
    pub fn write_cells_csv(&self, cells: &Cells, mut out: impl Write) -> Result<(), BsvdError> {
        let draws = self.cell_draws(cells)?;
        writeln!(out, "draw,row,column,value")?;
        for (draw, values) in draws.iter().enumerate() {
            for (n, value) in values.iter().enumerate() {
                let row = self.label(Side::Rows, cells.rows[n] as usize);
                let column = self.label(Side::Columns, cells.columns[n] as usize);
                writeln!(out, "{draw},{row},{column},{value}")?;
            }
        }
        Ok(out.flush()?)
    }

    /// Writes the noise-free values of cells as a NumPy array, draws x cells, single precision. Cost: as [`cell_draws`](Self::cell_draws).
    ///
    /// # Errors
    /// As [`write_cells_csv`](Self::write_cells_csv).
    pub fn write_cells_npy(&self, cells: &Cells, out: impl Write) -> Result<(), BsvdError> {
        let draws = self.cell_draws(cells)?;
        let values = draws.iter().flatten().copied();
        Ok(write_npy(out, &[draws.len(), cells.len()], values)?)
    }

    /// Writes a part of a stored draw as CSV: its row, then the values. Cost: the size of the table.
    ///
    /// # Errors
    /// There is no such draw; the writer refuses.
    pub fn write_draw_csv(
        &self,
        draw: usize,
        part: DrawTable,
        mut out: impl Write,
    ) -> Result<(), BsvdError> {
        let table = self.table(draw, part)?;
        for i in 0..table.n_rows {
            let label = part
                .side()
                .map_or(String::new(), |side| self.label(side, i));
            write!(out, "{label}")?;
            for value in &table.values[i * table.n_cols..(i + 1) * table.n_cols] {
                write!(out, ",{value}")?;
            }
            writeln!(out)?;
        }
        Ok(out.flush()?)
    }

    /// Writes a part of a stored draw as a NumPy array, two-dimensional, single precision. Cost: the size of the table.
    ///
    /// # Errors
    /// There is no such draw; the writer refuses.
    pub fn write_draw_npy(
        &self,
        draw: usize,
        part: DrawTable,
        out: impl Write,
    ) -> Result<(), BsvdError> {
        let table = self.table(draw, part)?;
        let values = table.values.iter().copied();
        Ok(write_npy(out, &[table.n_rows, table.n_cols], values)?)
    }

    fn table(&self, draw: usize, part: DrawTable) -> Result<Table<'_>, BsvdError> {
        let state = self.draws.get(draw).ok_or(BsvdError::TooFewDraws {
            found: self.draws.len(),
            least: draw.saturating_add(1),
        })?;
        Ok(part.of(state, part.side().map_or(1, |side| self.size(side))))
    }

    /// Name of a row or column as a field of CSV, or its place.
    fn label(&self, side: Side, i: usize) -> String {
        match self.names(side).get(i) {
            None => i.to_string(),
            Some(name) if name.contains([',', '"', '\n', '\r']) => {
                format!("\"{}\"", name.replace('"', "\"\""))
            }
            Some(name) => name.clone(),
        }
    }
}
