//! Raw columns to a record batch.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, DictionaryArray, Float64Array, Int32Array, Int64Array,
    RecordBatch, RecordBatchOptions, StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema};
use npb_data::{RawColumn, RawTable};

use crate::ArrowError;

const SECONDS_A_DAY: f64 = 86_400.0;

/// The table as a record batch: texts as dictionaries, times as dates where all are midnight, else as timestamps in microseconds.
///
/// # Errors
/// [`ArrowError::Write`] for a column too large for a batch.
pub fn to_batch(table: &RawTable) -> Result<RecordBatch, ArrowError> {
    batch(table, array)
}

/// The table with types that do not depend on its cells: texts as they are, times as timestamps in microseconds.
pub(crate) fn to_plain_batch(table: &RawTable) -> Result<RecordBatch, ArrowError> {
    batch(table, |column| match column {
        RawColumn::Texts {
            distinct, codes, ..
        } => {
            let text = |code: u32| distinct[code as usize].as_str();
            let texts = codes.iter().map(|code| code.map(text));
            Ok(Arc::new(texts.collect::<StringArray>()))
        }
        RawColumn::Times(cells) => Ok(timestamps(cells)),
        _ => array(column),
    })
}

fn batch(
    table: &RawTable,
    array: impl Fn(&RawColumn) -> Result<ArrayRef, ArrowError>,
) -> Result<RecordBatch, ArrowError> {
    let mut fields = Vec::with_capacity(table.names().len());
    let mut arrays = Vec::with_capacity(table.names().len());
    for (name, column) in table.names().iter().zip(table.columns()) {
        let array = array(column)?;
        let kind = array.data_type().clone();
        let ordered = matches!(column, RawColumn::Texts { ordered: true, .. });
        let ordered = ordered && matches!(kind, DataType::Dictionary(..));
        #[allow(deprecated, reason = "the only place where the order is said")]
        let field = match ordered {
            true => Field::new_dict(name, kind, true, 0, true),
            false => Field::new(name, kind, true),
        };
        fields.push(field);
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(table.n_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(ArrowError::write)
}

fn array(column: &RawColumn) -> Result<ArrayRef, ArrowError> {
    Ok(match column {
        RawColumn::Numbers(cells) => {
            let cells = cells.iter().map(|cell| cell.filter(|v| !v.is_nan()));
            Arc::new(cells.collect::<Float64Array>())
        }
        RawColumn::Whole(cells) => Arc::new(cells.iter().copied().collect::<Int64Array>()),
        RawColumn::Booleans(cells) => Arc::new(cells.iter().copied().collect::<BooleanArray>()),
        RawColumn::Texts {
            distinct, codes, ..
        } => {
            let keys = codes.iter().map(|code| code.map(|code| code as i32));
            let keys = keys.collect::<Int32Array>();
            let texts = StringArray::from_iter_values(distinct);
            let dictionary = DictionaryArray::<Int32Type>::try_new(keys, Arc::new(texts));
            Arc::new(dictionary.map_err(ArrowError::write)?)
        }
        RawColumn::Times(cells) => times(cells),
    })
}

fn times(cells: &[Option<f64>]) -> ArrayRef {
    let midnight =
        |v: &f64| v % SECONDS_A_DAY == 0.0 && v.abs() < SECONDS_A_DAY * f64::from(i32::MAX);
    if cells.iter().flatten().all(midnight) {
        let days = cells.iter().map(|c| c.map(|v| (v / SECONDS_A_DAY) as i32));
        return Arc::new(days.collect::<Date32Array>());
    }
    timestamps(cells)
}

fn timestamps(cells: &[Option<f64>]) -> ArrayRef {
    let micros = cells.iter().map(|c| c.map(|v| (v * 1e6).round() as i64));
    Arc::new(micros.collect::<TimestampMicrosecondArray>())
}
