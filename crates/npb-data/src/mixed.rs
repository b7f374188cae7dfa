//! Tables whose columns have different types.

use crate::labels::check_classes;
use crate::mask::check_mask_shape;
use crate::names::{check_distinct, check_same, position};
use crate::{ColumnKind, DataError, Labels, Mask, Table};

/// The values of one column; `None` = missing.
#[derive(Clone, Debug, PartialEq)]
pub enum MixedColumn {
    /// Finite real numbers.
    Real(Vec<Option<f64>>),
    /// Whole numbers from 0 to 2^53.
    Count(Vec<Option<u64>>),
    /// Positions in a list of distinct level names.
    Categorical {
        /// Names of the levels.
        levels: Vec<String>,
        /// Position in `levels` for every row.
        codes: Vec<Option<u32>>,
    },
    /// One of two distinct levels.
    Binary {
        /// Names of the levels that false and true stand for.
        levels: [String; 2],
        /// True for the second level.
        values: Vec<Option<bool>>,
    },
}

/// A table of typed columns with missing cells: rows are observations.
///
/// Columns have equal lengths and distinct names.
/// Read one with [`crate::read::with_schema`] (kinds by a schema, which [`crate::schema::Schema::guess`] infers from the text) or [`crate::read::arff`] (kinds declared in the file).
///
/// ```
/// use npb_data::{MixedColumn, MixedTable};
/// let rooms = MixedColumn::Count(vec![Some(3), None]);
/// let area = MixedColumn::Real(vec![Some(71.5), Some(40.0)]);
/// let table = MixedTable::new(vec!["rooms".into(), "area".into()], vec![rooms, area])?;
/// assert_eq!((table.n_rows(), table.n_missing()), (2, 1));
/// assert_eq!(table.numeric_table(&[0, 1])?.get(0, 0), Some(3.0));
/// # Ok::<(), npb_data::DataError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MixedTable {
    column_names: Vec<String>,
    columns: Vec<MixedColumn>,
}

/// Whole numbers up to here are exact as f64.
pub(crate) const MAX_COUNT: u64 = 1 << 53;

impl MixedColumn {
    /// What the column measures.
    pub fn kind(&self) -> ColumnKind {
        match self {
            MixedColumn::Real(_) => ColumnKind::Real,
            MixedColumn::Count(_) => ColumnKind::Count,
            MixedColumn::Categorical { .. } => ColumnKind::Categorical,
            MixedColumn::Binary { .. } => ColumnKind::Binary,
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            MixedColumn::Real(values) => values.len(),
            MixedColumn::Count(values) => values.len(),
            MixedColumn::Categorical { codes, .. } => codes.len(),
            MixedColumn::Binary { values, .. } => values.len(),
        }
    }

    /// True when there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True when the cell in row `i` is observed.
    pub fn is_observed(&self, i: usize) -> bool {
        match self {
            MixedColumn::Real(values) => values[i].is_some(),
            MixedColumn::Count(values) => values[i].is_some(),
            MixedColumn::Categorical { codes, .. } => codes[i].is_some(),
            MixedColumn::Binary { values, .. } => values[i].is_some(),
        }
    }

    /// The texts of the levels, `None` for numbers.
    pub fn levels(&self) -> Option<&[String]> {
        match self {
            MixedColumn::Categorical { levels, .. } => Some(levels),
            MixedColumn::Binary { levels, .. } => Some(levels),
            MixedColumn::Real(_) | MixedColumn::Count(_) => None,
        }
    }

    /// Number of missing cells.
    pub fn n_missing(&self) -> usize {
        (0..self.len()).filter(|&i| !self.is_observed(i)).count()
    }

    /// The cell in row `i` as a number (true = 1), `None` when missing or categorical.
    pub fn number(&self, i: usize) -> Option<f64> {
        match self {
            MixedColumn::Real(values) => values[i],
            MixedColumn::Count(values) => values[i].map(|v| v as f64),
            MixedColumn::Categorical { .. } => None,
            MixedColumn::Binary { values, .. } => values[i].map(|v| f64::from(u8::from(v))),
        }
    }

    /// The given rows of the column, with the cells missing for which `keep(row)` is false.
    fn rebuilt(&self, rows: &[usize], keep: impl Fn(usize) -> bool) -> Self {
        fn pick<T: Copy>(
            cells: &[Option<T>],
            rows: &[usize],
            keep: impl Fn(usize) -> bool,
        ) -> Vec<Option<T>> {
            rows.iter().map(|&i| cells[i].filter(|_| keep(i))).collect()
        }
        match self {
            MixedColumn::Real(values) => MixedColumn::Real(pick(values, rows, keep)),
            MixedColumn::Count(values) => MixedColumn::Count(pick(values, rows, keep)),
            MixedColumn::Categorical { levels, codes } => MixedColumn::Categorical {
                levels: levels.clone(),
                codes: pick(codes, rows, keep),
            },
            MixedColumn::Binary { levels, values } => MixedColumn::Binary {
                levels: levels.clone(),
                values: pick(values, rows, keep),
            },
        }
    }

    fn check(&self, column: usize) -> Result<(), DataError> {
        match self {
            MixedColumn::Real(values) => match values
                .iter()
                .position(|v| v.is_some_and(|v| !v.is_finite()))
            {
                None => Ok(()),
                Some(row) => Err(DataError::NotFinite {
                    row,
                    column,
                    value: values[row].unwrap_or(f64::NAN),
                }),
            },
            MixedColumn::Count(values) => {
                match values.iter().position(|v| v.is_some_and(|v| v > MAX_COUNT)) {
                    None => Ok(()),
                    Some(row) => Err(DataError::NotCount {
                        row,
                        column,
                        value: values[row].unwrap_or(0) as f64,
                    }),
                }
            }
            MixedColumn::Categorical { levels, codes } => {
                check_classes(levels)?;
                let n_classes = levels.len();
                match codes
                    .iter()
                    .position(|c| c.is_some_and(|c| c as usize >= n_classes))
                {
                    None => Ok(()),
                    Some(row) => Err(DataError::Code {
                        row,
                        code: codes[row].unwrap_or(0) as usize,
                        n_classes,
                    }),
                }
            }
            MixedColumn::Binary { levels, .. } => check_classes(levels),
        }
    }
}

impl MixedTable {
    /// A table from column names and columns.
    ///
    /// # Errors
    /// [`DataError::Length`] when lengths differ; [`DataError::DuplicateColumn`], [`DataError::DuplicateClass`],
    /// [`DataError::Code`], [`DataError::NotFinite`] or [`DataError::NotCount`] for bad content.
    pub fn new(column_names: Vec<String>, columns: Vec<MixedColumn>) -> Result<Self, DataError> {
        if column_names.len() != columns.len() {
            return Err(DataError::Length {
                what: "column names",
                found: column_names.len(),
                expected: columns.len(),
            });
        }
        check_distinct(&column_names)?;
        let expected = columns.first().map_or(0, MixedColumn::len);
        for (j, column) in columns.iter().enumerate() {
            if column.len() != expected {
                return Err(DataError::Length {
                    what: "column",
                    found: column.len(),
                    expected,
                });
            }
            column.check(j)?;
        }
        Ok(Self {
            column_names,
            columns,
        })
    }

    /// Number of rows; 0 without columns.
    pub fn n_rows(&self) -> usize {
        self.columns.first().map_or(0, MixedColumn::len)
    }

    /// Number of columns.
    pub fn n_cols(&self) -> usize {
        self.columns.len()
    }

    /// Names of the columns.
    pub fn column_names(&self) -> &[String] {
        &self.column_names
    }

    /// Position of the column with this name.
    ///
    /// # Errors
    /// [`DataError::NoSuchColumn`].
    pub fn column_index(&self, name: &str) -> Result<usize, DataError> {
        position(&self.column_names, name)
    }

    /// Checks that this table has exactly these columns in this order.
    ///
    /// # Errors
    /// [`DataError::ColumnCount`] or [`DataError::ColumnName`], naming the first difference.
    pub fn check_columns(&self, expected: &[String]) -> Result<(), DataError> {
        check_same(&self.column_names, expected)
    }

    /// Names and columns.
    pub fn into_parts(self) -> (Vec<String>, Vec<MixedColumn>) {
        (self.column_names, self.columns)
    }

    /// The columns.
    pub fn columns(&self) -> &[MixedColumn] {
        &self.columns
    }

    /// Column `j`.
    pub fn column(&self, j: usize) -> &MixedColumn {
        &self.columns[j]
    }

    /// True when the cell in row `i`, column `j` is observed.
    pub fn is_observed(&self, i: usize, j: usize) -> bool {
        self.columns[j].is_observed(i)
    }

    /// Number of missing cells.
    pub fn n_missing(&self) -> usize {
        self.columns.iter().map(MixedColumn::n_missing).sum()
    }

    /// The given rows, in the given order; levels stay whole.
    pub fn select_rows(&self, rows: &[usize]) -> MixedTable {
        let columns = self
            .columns
            .iter()
            .map(|column| column.rebuilt(rows, |_| true))
            .collect();
        MixedTable {
            column_names: self.column_names.clone(),
            columns,
        }
    }

    /// The given columns, in the given order.
    ///
    /// # Errors
    /// [`DataError::DuplicateColumn`] when a column is repeated.
    pub fn select_columns(&self, columns: &[usize]) -> Result<MixedTable, DataError> {
        let column_names: Vec<String> = columns
            .iter()
            .map(|&j| self.column_names[j].clone())
            .collect();
        check_distinct(&column_names)?;
        Ok(MixedTable {
            column_names,
            columns: columns.iter().map(|&j| self.columns[j].clone()).collect(),
        })
    }

    /// The same table with more cells missing: those that are true in `missing`.
    ///
    /// # Errors
    /// [`DataError::Shape`] when the mask has another shape.
    pub fn hide(&self, missing: &Mask) -> Result<MixedTable, DataError> {
        let (rows, cols) = (self.n_rows(), self.n_cols());
        check_mask_shape((missing.n_rows(), missing.n_cols()), (rows, cols))?;
        let all: Vec<usize> = (0..rows).collect();
        let hidden =
            |(j, column): (usize, &MixedColumn)| column.rebuilt(&all, |i| !missing.get(i, j));
        let columns = self.columns.iter().enumerate().map(hidden).collect();
        Ok(MixedTable {
            column_names: self.column_names.clone(),
            columns,
        })
    }

    /// Real, count and binary (first level 0, second 1) columns as a table of numbers.
    ///
    /// # Errors
    /// [`DataError::WrongKind`] for a categorical column, [`DataError::DuplicateColumn`] when a column is repeated.
    pub fn numeric_table(&self, columns: &[usize]) -> Result<Table, DataError> {
        let n_rows = self.n_rows();
        if let Some(&column) = columns
            .iter()
            .find(|&&j| self.columns[j].kind() == ColumnKind::Categorical)
        {
            return Err(self.wrong_kind(column, "real, count or binary"));
        }
        let observed = Mask::from_fn(n_rows, columns.len(), |i, k| {
            self.is_observed(i, columns[k])
        })?;
        let cells = (0..n_rows).flat_map(|i| columns.iter().map(move |&j| (i, j)));
        let values = cells
            .map(|(i, j)| self.columns[j].number(i).unwrap_or(0.0))
            .collect();
        Table::from_parts(values, observed)?
            .with_column_names(columns.iter().map(|&j| self.column_names[j].clone()))
    }

    /// A categorical, binary or count column as labels; missing cells are unlabelled rows.
    ///
    /// # Errors
    /// [`DataError::WrongKind`] for a real column.
    pub fn labels(&self, column: usize) -> Result<Labels, DataError> {
        match &self.columns[column] {
            MixedColumn::Categorical { levels, codes } => Labels::from_codes(
                levels.clone(),
                codes.iter().map(|c| c.map(|c| c as usize)).collect(),
            ),
            MixedColumn::Binary { levels, values } => Labels::from_codes(
                levels.to_vec(),
                values.iter().map(|v| v.map(usize::from)).collect(),
            ),
            MixedColumn::Count(values) => Ok(Labels::from_integers(
                &values
                    .iter()
                    .map(|v| v.map(|v| v as i64))
                    .collect::<Vec<_>>(),
            )),
            MixedColumn::Real(_) => Err(self.wrong_kind(column, "categorical, binary or count")),
        }
    }

    fn wrong_kind(&self, column: usize, needed: &'static str) -> DataError {
        let kind = self.columns[column].kind();
        DataError::WrongKind {
            column,
            name: self.column_names[column].clone(),
            kind,
            needed,
        }
    }
}
