//! What columns of a table hold, for kernels and groups.

use npb_data::MixedColumn;
use npb_infer::stream;

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

/// The generator for the hyperparameters of a prototype: they are drawn again by every chain.
pub(crate) fn prototype_stream() -> npb_infer::Xoshiro256PlusPlus {
    stream(0, [PROTOTYPE; 4])
}
