//! What columns of a table hold, for kernels and groups.

use npb_data::MixedColumn;
use npb_infer::stream;

/// Numbers with a joint law, at most: the cost of a sweep grows with their cube.
pub(crate) const MAX_NUMBERS: usize = 32;
/// Key of the stream for hyperparameters of prototypes, which every chain draws again.
const PROTOTYPE: u64 = u64::MAX;

/// Names of the levels of a column, empty for numbers.
pub(crate) fn levels(column: &MixedColumn) -> Vec<String> {
    match column {
        MixedColumn::Categorical { levels, .. } => levels.clone(),
        MixedColumn::Binary { levels, .. } => levels.to_vec(),
        MixedColumn::Real(_) | MixedColumn::Count(_) => Vec::new(),
    }
}

/// The codes of a categorical or binary column.
pub(crate) fn codes(column: &MixedColumn) -> Option<Vec<Option<u32>>> {
    match column {
        MixedColumn::Categorical { codes, .. } => Some(codes.clone()),
        MixedColumn::Binary { values, .. } => {
            Some(values.iter().map(|v| v.map(u32::from)).collect())
        }
        MixedColumn::Real(_) | MixedColumn::Count(_) => None,
    }
}

/// Cells of columns as parts, row by row; levels as whole numbers.
pub(crate) fn parts_of(columns: &[&MixedColumn]) -> Vec<Vec<Option<f64>>> {
    let codes: Vec<_> = columns.iter().map(|column| codes(column)).collect();
    let part = |i: usize, j: usize| match &codes[j] {
        Some(codes) => codes[i].map(f64::from),
        None => columns[j].number(i),
    };
    let row = |i| (0..columns.len()).map(|j| part(i, j)).collect();
    let n_rows = columns.first().map_or(0, |column| column.len());
    (0..n_rows).map(row).collect()
}

/// The generator for the hyperparameters of a prototype: they are drawn again by every chain.
pub(crate) fn prototype_stream() -> npb_infer::Xoshiro256PlusPlus {
    stream(0, [PROTOTYPE; 4])
}
