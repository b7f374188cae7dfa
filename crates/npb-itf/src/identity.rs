//! Which rows a fit was made of: a number for each, so that a question about the rows of a fit is not asked about others.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::storage::fingerprint;

use crate::ItfError;
use crate::columns::{codes, levels};

/// A number for each row of a table, which is, but for chance, another one for another row: of its cells in these columns, levels by their names.
pub(crate) fn fingerprints(
    table: &MixedTable,
    columns: &[Vec<usize>],
) -> Result<Vec<u32>, ItfError> {
    let of_column = |&at: &usize| cell_words(table.column(at));
    let words: Vec<Vec<u64>> =
        (columns.iter().flatten().map(of_column)).collect::<Result<_, _>>()?;
    let of_row = |row: usize| -> Result<u32, ItfError> {
        let row: Vec<u64> = words.iter().map(|cells| cells[row]).collect();
        // What is mixed last shows in the upper half.
        Ok((fingerprint(&row)? >> 32) as u32)
    };
    (0..table.n_rows()).map(of_row).collect()
}

/// A word for each cell; all ones where it is missing, which are the bits of no number.
fn cell_words(column: &MixedColumn) -> Result<Vec<u64>, ItfError> {
    let words = match codes(column) {
        None => (0..column.len())
            .map(|row| Some((column.number(row)? + 0.0).to_bits()))
            .collect(),
        Some(codes) => {
            let names = levels(column);
            let names: Vec<u64> = names.iter().map(fingerprint).collect::<Result<_, _>>()?;
            codes
                .into_iter()
                .map(|code| Some(names[code? as usize]))
                .collect::<Vec<_>>()
        }
    };
    Ok(words
        .into_iter()
        .map(|word| word.unwrap_or(u64::MAX))
        .collect())
}
