//! Record batches to raw columns.

use std::collections::{HashMap, HashSet};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type,
    Decimal64Type, Decimal128Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, SchemaRef, TimeUnit};
use npb_data::{RawColumn, RawTable};

use crate::ArrowError;

/// What is read of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Names of the columns that are read, if not all. Names that do not occur are passed over.
    pub only: Option<HashSet<String>>,
}

impl Options {
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(name))
    }
}

/// A table from record batches, each of `schema`. `file` is used in errors only. Cost: one pass, memory for the table.
///
/// # Errors
/// [`ArrowError::Type`] for a column that cannot be read, [`ArrowError::Value`] for a value that cannot, [`ArrowError::Batches`], and the errors of the batches.
///
/// ```
/// use npb_arrow::{Options, RawColumn, RawTable, from_batches, to_batch};
/// let table = RawTable::from_matrix(2, 2, &[1.0, f64::NAN, 2.5, 4.0])?;
/// let batch = to_batch(&table)?;
/// let back = from_batches("memory", batch.schema(), [Ok(batch)], &Options::default())?;
/// assert_eq!(back, table);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn from_batches(
    file: &str,
    schema: SchemaRef,
    batches: impl IntoIterator<Item = Result<RecordBatch, ArrowError>>,
    options: &Options,
) -> Result<RawTable, ArrowError> {
    Tables::new(file, schema, batches.into_iter(), options).next(usize::MAX)
}

/// The rows of record batches, some at a time.
pub(crate) struct Tables<I> {
    pub(crate) file: String,
    schema: SchemaRef,
    wanted: Vec<usize>,
    batches: I,
    n_batches: usize,
    /// Rows so far.
    pub(crate) n_rows: usize,
    /// What is left of the last batch.
    rest: Option<RecordBatch>,
}

impl<I: Iterator<Item = Result<RecordBatch, ArrowError>>> Tables<I> {
    pub(crate) fn new(file: &str, schema: SchemaRef, batches: I, options: &Options) -> Self {
        let fields = schema.fields().iter().enumerate();
        let wanted = fields.filter(|(_, field)| options.wants(field.name()));
        Self {
            file: file.to_owned(),
            wanted: wanted.map(|(j, _)| j).collect(),
            schema,
            batches,
            n_batches: 0,
            n_rows: 0,
            rest: None,
        }
    }

    /// The next `n_rows` rows, or those that are left.
    pub(crate) fn next(&mut self, n_rows: usize) -> Result<RawTable, ArrowError> {
        let schema = self.schema.clone();
        let fields = self.wanted.iter().map(|&j| schema.field(j));
        let columns = fields.clone().map(|field| Growing::new(&self.file, field));
        let mut columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
        let names = fields.map(|field| field.name().clone()).collect();
        let end = self.n_rows.saturating_add(n_rows);
        while self.n_rows < end {
            let Some(batch) = self.batch()? else { break };
            let n_taken = batch.num_rows().min(end - self.n_rows);
            if n_taken < batch.num_rows() {
                self.rest = Some(batch.slice(n_taken, batch.num_rows() - n_taken));
            }
            for (&j, column) in self.wanted.iter().zip(&mut columns) {
                let pushed = column.push(&batch.column(j).slice(0, n_taken));
                pushed.map_err(|wrong| ArrowError::Value {
                    file: self.file.clone(),
                    row: self.n_rows + wrong.row + 1,
                    column: schema.field(j).name().clone(),
                    value: wrong.value,
                    rule: wrong.rule,
                })?;
            }
            self.n_rows += n_taken;
        }
        let columns = columns.into_iter().map(Growing::done);
        RawTable::new(names, columns.collect()).map_err(|source| ArrowError::Data {
            file: self.file.clone(),
            source,
        })
    }

    /// What is left of a batch, or the next one.
    fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        let Some(batch) = self.batches.next().transpose()? else {
            return Ok(None);
        };
        self.n_batches += 1;
        let types = |schema: &SchemaRef| -> Vec<(String, DataType)> {
            let fields = schema.fields().iter();
            fields
                .map(|f| (f.name().clone(), f.data_type().clone()))
                .collect()
        };
        match types(batch.schema_ref()) == types(&self.schema) {
            true => Ok(Some(batch)),
            false => Err(ArrowError::Batches {
                file: self.file.clone(),
                batch: self.n_batches,
            }),
        }
    }
}

/// A value that a raw column cannot hold.
struct Wrong {
    row: usize,
    value: String,
    rule: &'static str,
}

/// A column as batches add to it.
struct Growing {
    kind: DataType,
    column: RawColumn,
    /// Positions of texts.
    code_of: HashMap<String, u32>,
}

impl Growing {
    fn new(file: &str, field: &Field) -> Result<Self, ArrowError> {
        let texts = |ordered| RawColumn::Texts {
            distinct: Vec::new(),
            codes: Vec::new(),
            ordered,
        };
        let refused = || ArrowError::Type {
            file: file.to_owned(),
            column: field.name().clone(),
            found: field.data_type().to_string(),
        };
        let column = match field.data_type() {
            DataType::Dictionary(_, values) if is_of_levels(values) =>
            {
                #[allow(deprecated, reason = "the only place where the order is said")]
                texts(field.dict_is_ordered() == Some(true))
            }
            kind => raw_of(kind).ok_or_else(refused)?,
        };
        Ok(Self {
            kind: field.data_type().clone(),
            column,
            code_of: HashMap::new(),
        })
    }

    fn push(&mut self, cells: &dyn Array) -> Result<(), Wrong> {
        match &self.kind {
            DataType::Dictionary(key, values) if is_of_levels(values) => {
                return match key.as_ref() {
                    DataType::Int8 => self.push_dictionary::<Int8Type>(cells),
                    DataType::Int16 => self.push_dictionary::<Int16Type>(cells),
                    DataType::Int32 => self.push_dictionary::<Int32Type>(cells),
                    DataType::Int64 => self.push_dictionary::<Int64Type>(cells),
                    DataType::UInt8 => self.push_dictionary::<UInt8Type>(cells),
                    DataType::UInt16 => self.push_dictionary::<UInt16Type>(cells),
                    DataType::UInt32 => self.push_dictionary::<UInt32Type>(cells),
                    _ => self.push_dictionary::<UInt64Type>(cells),
                };
            }
            DataType::Utf8 => self.push_texts(cells.as_string::<i32>().iter()),
            DataType::LargeUtf8 => self.push_texts(cells.as_string::<i64>().iter()),
            DataType::Utf8View => self.push_texts(cells.as_string_view().iter()),
            kind => return self.push_values(&kind.clone(), cells),
        }
        Ok(())
    }

    fn push_values(&mut self, kind: &DataType, cells: &dyn Array) -> Result<(), Wrong> {
        match &mut self.column {
            RawColumn::Numbers(to) => push_numbers(to, kind, cells),
            RawColumn::Whole(to) => return push_whole(to, kind, cells),
            RawColumn::Booleans(to) => to.extend(cells.as_boolean().iter()),
            RawColumn::Times(to) => push_times(to, kind, cells),
            RawColumn::Texts { .. } => {}
        }
        Ok(())
    }

    fn push_texts<'a>(&mut self, cells: impl Iterator<Item = Option<&'a str>>) {
        for cell in cells {
            let code = cell.map(|text| self.code(text));
            self.push_code(code);
        }
    }

    /// Every batch may have a dictionary of its own.
    fn push_dictionary<K: ArrowDictionaryKeyType>(
        &mut self,
        cells: &dyn Array,
    ) -> Result<(), Wrong> {
        let dictionary = cells.as_dictionary::<K>();
        let values = dictionary.values();
        let texts: Vec<Option<String>> = match values.data_type() {
            DataType::LargeUtf8 => owned(values.as_string::<i64>().iter()),
            DataType::Utf8View => owned(values.as_string_view().iter()),
            DataType::Utf8 => owned(values.as_string::<i32>().iter()),
            kind => {
                // Numbers and truth values by the texts that they would have in a file.
                let mut column = Self {
                    kind: kind.clone(),
                    column: raw_of(kind).unwrap_or(RawColumn::Numbers(Vec::new())),
                    code_of: HashMap::new(),
                };
                column.push_values(kind, values)?;
                (0..values.len()).map(|k| column.column.text(k)).collect()
            }
        };
        let codes: Vec<Option<u32>> = texts
            .iter()
            .map(|text| text.as_deref().map(|text| self.code(text)))
            .collect();
        for key in 0..dictionary.len() {
            let code = dictionary.key(key).and_then(|k| codes[k]);
            self.push_code(code);
        }
        Ok(())
    }

    fn code(&mut self, text: &str) -> u32 {
        if let Some(&code) = self.code_of.get(text) {
            return code;
        }
        let RawColumn::Texts { distinct, .. } = &mut self.column else {
            return 0;
        };
        let code = distinct.len() as u32;
        distinct.push(text.to_owned());
        self.code_of.insert(text.to_owned(), code);
        code
    }

    fn push_code(&mut self, code: Option<u32>) {
        if let RawColumn::Texts { codes, .. } = &mut self.column {
            codes.push(code);
        }
    }

    fn done(self) -> RawColumn {
        self.column
    }
}

fn is_text(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

fn owned<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> Vec<Option<String>> {
    texts.map(|text| text.map(str::to_owned)).collect()
}

/// Values of a dictionary that are levels.
fn is_of_levels(kind: &DataType) -> bool {
    is_text(kind) || kind.is_integer() || kind.is_floating() || *kind == DataType::Boolean
}

/// Whether there is a raw column for this type.
pub(crate) fn can_be_read(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_of_levels(values),
        kind => raw_of(kind).is_some(),
    }
}

/// An empty column for cells of this type.
fn raw_of(kind: &DataType) -> Option<RawColumn> {
    Some(match kind {
        DataType::Null | DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            RawColumn::Numbers(Vec::new())
        }
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) => {
            RawColumn::Numbers(Vec::new())
        }
        DataType::Duration(_) | DataType::Time32(_) | DataType::Time64(_) => {
            RawColumn::Numbers(Vec::new())
        }
        kind if kind.is_integer() => RawColumn::Whole(Vec::new()),
        DataType::Boolean => RawColumn::Booleans(Vec::new()),
        kind if is_text(kind) => RawColumn::texts::<&str>([]),
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => {
            RawColumn::Times(Vec::new())
        }
        _ => return None,
    })
}

/// Numbers, and durations and times of the day in seconds. `raw_of` says of which types there are columns of numbers.
fn push_numbers(to: &mut Vec<Option<f64>>, kind: &DataType, cells: &dyn Array) {
    match kind {
        DataType::Null => to.extend((0..cells.len()).map(|_| None)),
        DataType::Float64 => extend::<Float64Type, _>(to, cells, |v| v),
        DataType::Float32 => extend::<Float32Type, _>(to, cells, shortest),
        DataType::Float16 => extend::<Float16Type, _>(to, cells, |v| f64::from(v.to_f32())),
        DataType::Decimal32(_, scale) => {
            extend::<Decimal32Type, _>(to, cells, |v| decimal(i128::from(v), *scale))
        }
        DataType::Decimal64(_, scale) => {
            extend::<Decimal64Type, _>(to, cells, |v| decimal(i128::from(v), *scale))
        }
        DataType::Decimal128(_, scale) => {
            extend::<Decimal128Type, _>(to, cells, |v| decimal(v, *scale))
        }
        DataType::Duration(TimeUnit::Second) => {
            extend::<DurationSecondType, _>(to, cells, |v| seconds(v, 1))
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            extend::<DurationMillisecondType, _>(to, cells, |v| seconds(v, 1_000))
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            extend::<DurationMicrosecondType, _>(to, cells, |v| seconds(v, 1_000_000))
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            extend::<DurationNanosecondType, _>(to, cells, |v| seconds(v, 1_000_000_000))
        }
        DataType::Time32(TimeUnit::Second) => extend::<Time32SecondType, _>(to, cells, f64::from),
        DataType::Time32(_) => {
            extend::<Time32MillisecondType, _>(to, cells, |v| seconds(i64::from(v), 1_000))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            extend::<Time64MicrosecondType, _>(to, cells, |v| seconds(v, 1_000_000))
        }
        DataType::Time64(_) => {
            extend::<Time64NanosecondType, _>(to, cells, |v| seconds(v, 1_000_000_000))
        }
        _ => {}
    }
}

/// Whole numbers, below 2^63.
fn push_whole(to: &mut Vec<Option<i64>>, kind: &DataType, cells: &dyn Array) -> Result<(), Wrong> {
    match kind {
        DataType::Int8 => extend::<Int8Type, _>(to, cells, i64::from),
        DataType::Int16 => extend::<Int16Type, _>(to, cells, i64::from),
        DataType::Int32 => extend::<Int32Type, _>(to, cells, i64::from),
        DataType::Int64 => extend::<Int64Type, _>(to, cells, |v| v),
        DataType::UInt8 => extend::<UInt8Type, _>(to, cells, i64::from),
        DataType::UInt16 => extend::<UInt16Type, _>(to, cells, i64::from),
        DataType::UInt32 => extend::<UInt32Type, _>(to, cells, i64::from),
        DataType::UInt64 => {
            for (row, cell) in cells.as_primitive::<UInt64Type>().iter().enumerate() {
                to.push(cell.map(i64::try_from).transpose().map_err(|_| Wrong {
                    row,
                    value: cell.unwrap_or_default().to_string(),
                    rule: "is 2^63 or more: store the column as numbers or texts",
                })?);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Dates and times.
fn push_times(to: &mut Vec<Option<f64>>, kind: &DataType, cells: &dyn Array) {
    match kind {
        DataType::Date32 => {
            extend::<Date32Type, _>(to, cells, |v| RawColumn::time(i64::from(v) * 86_400, 0))
        }
        DataType::Date64 => extend::<Date64Type, _>(to, cells, |v| time(v, 1_000)),
        DataType::Timestamp(TimeUnit::Second, _) => {
            extend::<TimestampSecondType, _>(to, cells, |v| time(v, 1))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            extend::<TimestampMillisecondType, _>(to, cells, |v| time(v, 1_000))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            extend::<TimestampMicrosecondType, _>(to, cells, |v| time(v, 1_000_000))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            extend::<TimestampNanosecondType, _>(to, cells, |v| time(v, 1_000_000_000))
        }
        _ => {}
    }
}

fn extend<T: ArrowPrimitiveType, V>(
    to: &mut Vec<Option<V>>,
    cells: &dyn Array,
    value: impl Fn(T::Native) -> V,
) {
    let cells = cells.as_primitive::<T>();
    match cells.null_count() {
        0 => to.extend(cells.values().iter().map(|&v| Some(value(v)))),
        _ => to.extend(cells.iter().map(|cell| cell.map(&value))),
    }
}

/// The number that the shortest text of a single-precision number reads as: 0.1 is 0.1, as it would be in a file of text.
fn shortest(value: f32) -> f64 {
    if !value.is_finite() || value.fract() == 0.0 {
        return f64::from(value);
    }
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// The double nearest to `digits` / 10^`scale`.
fn decimal(digits: i128, scale: i8) -> f64 {
    // Both are exact up to here, so that the quotient is rounded once.
    if (0..=22).contains(&scale) && digits.unsigned_abs() <= 1 << 53 {
        return digits as f64 / 10_f64.powi(i32::from(scale));
    }
    let text = format!("{digits}e{}", -i32::from(scale));
    text.parse().unwrap_or(f64::NAN)
}

fn seconds(value: i64, per_second: i64) -> f64 {
    value as f64 / per_second as f64
}

fn time(value: i64, per_second: i64) -> f64 {
    let rest = value.rem_euclid(per_second) * (1_000_000_000 / per_second);
    RawColumn::time(value.div_euclid(per_second), rest as u32)
}
