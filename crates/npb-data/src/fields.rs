//! What the columns of a mixed table measure, alone or several together.

pub(crate) mod guess;

use crate::names::check_distinct;
use crate::{DataError, Measure, MixedColumn, MixedTable};
use serde::{Deserialize, Serialize};

/// One or several columns of a [`MixedTable`] that are modelled together.
///
/// ```
/// use npb_data::{Field, Measure, MixedColumn, MixedTable};
/// let east = MixedColumn::Real(vec![Some(1.5), None]);
/// let north = MixedColumn::Real(vec![Some(0.5), Some(2.0)]);
/// let table = MixedTable::new(vec!["east".into(), "north".into()], vec![east, north])?;
/// let place = Field::new("place", Measure::Vector, vec![0, 1]);
/// Field::check_all(&[place], &table)?;
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Name, distinct among the fields.
    pub name: String,
    /// What is measured.
    pub measure: Measure,
    /// Positions of its columns in the table, in the order that the measure asks for.
    pub columns: Vec<usize>,
}

impl Measure {
    fn fits(&self, column: &MixedColumn) -> bool {
        use MixedColumn::{Binary, Categorical, Count, Real};
        match self {
            Measure::Count => matches!(column, Count(_)),
            Measure::Binary | Measure::Network => matches!(column, Binary { .. }),
            Measure::Categorical | Measure::Ordinal => {
                matches!(column, Categorical { .. } | Binary { .. })
            }
            Measure::Real
            | Measure::Positive
            | Measure::Angle { .. }
            | Measure::Vector
            | Measure::Series => matches!(column, Real(_) | Count(_)),
        }
    }

    /// The kinds of column that fit, for messages.
    fn needed(&self) -> &'static str {
        match self {
            Measure::Count => "count",
            Measure::Binary | Measure::Network => "binary",
            Measure::Categorical | Measure::Ordinal => "categorical or binary",
            _ => "real or count",
        }
    }
}

impl Field {
    /// A field; [`Field::check_all`] checks it against a table.
    pub fn new(name: impl Into<String>, measure: Measure, columns: Vec<usize>) -> Self {
        Self {
            name: name.into(),
            measure,
            columns,
        }
    }

    /// Checks fields against the table they describe. Columns may be left out; none may be used twice.
    ///
    /// # Errors
    /// [`DataError::DuplicateColumn`] for two fields of one name, [`DataError::FieldColumns`] for a wrong number of columns,
    /// [`DataError::ColumnTwice`], [`DataError::ColumnRange`], [`DataError::WrongKind`], [`DataError::NotPositive`] naming row
    /// and column, [`DataError::Period`].
    pub fn check_all(fields: &[Field], table: &MixedTable) -> Result<(), DataError> {
        let names: Vec<String> = fields.iter().map(|f| f.name.clone()).collect();
        check_distinct(&names)?;
        let mut owner: Vec<Option<&Field>> = vec![None; table.n_cols()];
        for field in fields {
            field.check(table)?;
            for &column in &field.columns {
                if let Some(other) = owner[column].replace(field) {
                    return Err(DataError::ColumnTwice {
                        column,
                        first: other.name.clone(),
                        second: field.name.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    fn check(&self, table: &MixedTable) -> Result<(), DataError> {
        let needed = match self.measure {
            Measure::Network => table.n_rows(),
            Measure::Vector | Measure::Series => self.columns.len().max(1),
            _ => 1,
        };
        if self.columns.len() != needed {
            return Err(DataError::FieldColumns {
                field: self.name.clone(),
                measure: self.measure,
                found: self.columns.len(),
                expected: needed,
            });
        }
        for &column in &self.columns {
            self.check_column(column, table)?;
        }
        match self.measure {
            Measure::Angle { period } if !(period.is_finite() && period > 0.0) => {
                let field = self.name.clone();
                Err(DataError::Period { field, period })
            }
            _ => Ok(()),
        }
    }

    fn check_column(&self, column: usize, table: &MixedTable) -> Result<(), DataError> {
        if column >= table.n_cols() {
            return Err(DataError::ColumnRange {
                field: self.name.clone(),
                column,
                n_cols: table.n_cols(),
            });
        }
        let cells = table.column(column);
        if !self.measure.fits(cells) {
            return Err(DataError::WrongKind {
                column,
                name: table.column_names()[column].clone(),
                kind: cells.kind(),
                needed: self.measure.needed(),
            });
        }
        if self.measure != Measure::Positive {
            return Ok(());
        }
        let offending = (0..cells.len()).find(|&i| cells.number(i).is_some_and(|v| v <= 0.0));
        offending.map_or(Ok(()), |row| {
            Err(DataError::NotPositive {
                row,
                column,
                value: cells.number(row).unwrap_or(f64::NAN),
            })
        })
    }
}
