//! Features of mixed kinds as a table of real numbers, and back.

use super::Schema;
use super::column::{ColumnSchema, Kind, Role};
use crate::{DataError, MixedColumn, MixedTable, Table};
use std::f64::consts::TAU;

/// Features as real numbers, for models of tables of real numbers, and completed numbers as features again.
///
/// Real numbers, counts and dates are as they are, positive numbers their logarithms, levels of ordinal and binary columns 0, 1, ..., an angle its sine and
/// cosine, a categorical column one 0/1 column for each level but the first. Missing cells are missing in all columns that they become.
///
/// ```
/// use npb_data::read::{self, ReadingRules};
/// use npb_data::schema::{Design, Schema};
/// let schema = Schema::from_toml(r#"columns = [
///     { name = "town", kind = "categorical", levels = ["A", "B", "C"] },
///     { name = "income", kind = "positive" },
/// ]"#)?;
/// let (data, _) = read::with_schema("f.csv", "town,income\nC,1\n?,?\n".as_bytes(), &schema, &ReadingRules::default())?;
/// let design = Design::new(&data.schema);
/// let table = design.table(&data.features)?;
/// assert_eq!(table.column_names(), ["town=B", "town=C", "ln(income)"]);
/// assert_eq!((table.get(0, 1), table.get(0, 2), table.n_missing()), (Some(1.0), Some(0.0), 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    features: Vec<ColumnSchema>,
}

impl Design {
    /// For the features of a schema; [`SchemaData::schema`](super::SchemaData::schema) lists the levels that it needs.
    pub fn new(schema: &Schema) -> Self {
        Self {
            features: schema.with_role(Role::Feature).cloned().collect(),
        }
    }

    /// Names of the columns that each feature becomes, in order.
    pub fn names(&self) -> Vec<Vec<String>> {
        self.features.iter().map(names_of).collect()
    }

    /// The table of numbers. `features`: [`SchemaData::features`](super::SchemaData::features).
    ///
    /// # Errors
    /// [`DataError::ColumnCount`], [`DataError::ColumnName`] for features of another schema.
    pub fn table(&self, features: &MixedTable) -> Result<Table, DataError> {
        self.check(features)?;
        let n_rows = features.n_rows();
        let widths: Vec<usize> = self.features.iter().map(|f| names_of(f).len()).collect();
        let width: usize = widths.iter().sum();
        let mut values = vec![f64::NAN; n_rows * width];
        let mut first = 0;
        for ((feature, cells), &columns) in
            self.features.iter().zip(features.columns()).zip(&widths)
        {
            for i in 0..n_rows {
                if let Some(value) = number(cells, i) {
                    let at = i * width + first;
                    write(feature, value, &mut values[at..at + columns]);
                }
            }
            first += columns;
        }
        Table::from_nan_coded_vec(n_rows, width, values)?.with_column_names(self.names().concat())
    }

    /// The features with their missing cells taken from a table of numbers: whole numbers rounded, levels the nearest or most probable, angles and logarithms
    /// undone. A cell that the table does not know stays missing.
    ///
    /// # Errors
    /// As [`Design::table`]; a table of another shape.
    pub fn completed(
        &self,
        features: &MixedTable,
        numbers: &Table,
    ) -> Result<MixedTable, DataError> {
        self.check(features)?;
        let width = self.names().concat().len();
        if (numbers.n_rows(), numbers.n_cols()) != (features.n_rows(), width) {
            return Err(DataError::Shape {
                what: "completed table",
                found_rows: numbers.n_rows(),
                found_cols: numbers.n_cols(),
                rows: features.n_rows(),
                cols: width,
            });
        }
        let mut first = 0;
        let mut columns = Vec::with_capacity(self.features.len());
        for (feature, cells) in self.features.iter().zip(features.columns()) {
            let end = first + names_of(feature).len();
            let value = |i: usize| {
                let parts = (first..end)
                    .map(|j| numbers.get(i, j))
                    .collect::<Option<Vec<f64>>>();
                parts.and_then(|parts| read(feature, &parts))
            };
            columns.push(filled(cells, value));
            first = end;
        }
        MixedTable::new(features.column_names().to_vec(), columns)
    }

    fn check(&self, features: &MixedTable) -> Result<(), DataError> {
        let names: Vec<String> = self.features.iter().map(|f| f.name.clone()).collect();
        features.check_columns(&names)
    }
}

fn levels(feature: &ColumnSchema) -> &[String] {
    feature.levels.as_deref().unwrap_or_default()
}

fn names_of(feature: &ColumnSchema) -> Vec<String> {
    let name = &feature.name;
    match feature.kind {
        Kind::Positive => vec![format!("ln({name})")],
        Kind::Angle => vec![format!("sin({name})"), format!("cos({name})")],
        Kind::Categorical => levels(feature)
            .iter()
            .skip(1)
            .map(|level| format!("{name}={level}"))
            .collect(),
        _ => vec![name.clone()],
    }
}

/// A cell as a number, levels by their position.
fn number(cells: &MixedColumn, row: usize) -> Option<f64> {
    match cells {
        MixedColumn::Categorical { codes, .. } => codes[row].map(f64::from),
        _ => cells.number(row),
    }
}

fn write(feature: &ColumnSchema, value: f64, to: &mut [f64]) {
    match feature.kind {
        Kind::Positive => to[0] = value.ln(),
        Kind::Angle => {
            let turn = TAU * value / feature.period.unwrap_or(360.0);
            (to[0], to[1]) = turn.sin_cos();
        }
        Kind::Categorical => {
            for (k, cell) in to.iter_mut().enumerate() {
                *cell = f64::from(u8::from(value == (k + 1) as f64));
            }
        }
        _ => to[0] = value,
    }
}

/// The feature that completed numbers say.
fn read(feature: &ColumnSchema, parts: &[f64]) -> Option<f64> {
    let last_level = levels(feature).len().saturating_sub(1) as f64;
    Some(match (feature.kind, parts) {
        (Kind::Positive, &[ln]) => ln.exp().clamp(f64::MIN_POSITIVE, f64::MAX),
        (Kind::Angle, &[sine, cosine]) => {
            let period = feature.period.unwrap_or(360.0);
            (sine.atan2(cosine) / TAU).rem_euclid(1.0) * period
        }
        (Kind::Categorical, shares) => {
            let first = 1.0 - shares.iter().sum::<f64>();
            let all = std::iter::once(&first).chain(shares).enumerate();
            all.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))?.0 as f64
        }
        (Kind::Ordinal | Kind::Binary, &[code]) => code.round().clamp(0.0, last_level),
        (Kind::Count, &[count]) => count.round().clamp(0.0, crate::mixed::MAX_COUNT as f64),
        (_, &[value]) => value,
        _ => return None,
    })
}

/// The cells, missing ones by `value`.
fn filled(cells: &MixedColumn, value: impl Fn(usize) -> Option<f64>) -> MixedColumn {
    fn with<T: Copy>(cells: &[Option<T>], of: impl Fn(usize) -> Option<T>) -> Vec<Option<T>> {
        cells
            .iter()
            .enumerate()
            .map(|(i, cell)| cell.or_else(|| of(i)))
            .collect()
    }
    match cells {
        MixedColumn::Real(cells) => MixedColumn::Real(with(cells, value)),
        MixedColumn::Count(cells) => {
            MixedColumn::Count(with(cells, |i| value(i).map(|v| v as u64)))
        }
        MixedColumn::Categorical { levels, codes } => MixedColumn::Categorical {
            levels: levels.clone(),
            codes: match levels.is_empty() {
                true => codes.clone(),
                false => with(codes, |i| value(i).map(|v| v as u32)),
            },
        },
        MixedColumn::Binary { levels, values } => MixedColumn::Binary {
            levels: levels.clone(),
            values: with(values, |i| value(i).map(|v| v == 1.0)),
        },
    }
}
