//! Column names: defaults and checks.

use crate::DataError;
use std::collections::HashMap;

/// Texts that mean "missing" unless the caller says otherwise.
pub(crate) fn missing_marks() -> Vec<String> {
    ["", "?", "NA", "N/A", "NaN", "nan", "NULL", "null"]
        .map(str::to_owned)
        .to_vec()
}

/// Texts that stand for nothing among numbers or dates; among other texts they may be levels.
const STRAY_MARKS: [&str; 26] = [
    ".", "..", "...", "-", "--", "---", "*", "/", "_", "#", "<NA>", "#N/A", "#NA", "#NULL!",
    "#DIV/0!", "#VALUE!", "n/a", "na", "n.a.", "N.A.", "None", "none", "NONE", "NAN", "missing",
    "NaT",
];

/// Whether a text is one of them.
pub(crate) fn is_stray_mark(text: &str) -> bool {
    // Most cells are numbers, and there are many.
    match text.as_bytes() {
        [] | [b'0'..=b'9', ..] | [b'-' | b'.', b'0'..=b'9', ..] => false,
        bytes => bytes.len() <= 8 && STRAY_MARKS.contains(&text),
    }
}

/// `x0`, `x1`, ...
pub(crate) fn default_names(n: usize) -> Vec<String> {
    (0..n).map(|j| format!("x{j}")).collect()
}

/// The place of a name.
pub(crate) fn position(names: &[String], name: &str) -> Result<usize, DataError> {
    let found = names.iter().position(|n| n == name);
    found.ok_or_else(|| DataError::NoSuchColumn {
        name: name.to_owned(),
    })
}

/// All names differ.
pub(crate) fn check_distinct(names: &[String]) -> Result<(), DataError> {
    let mut seen = HashMap::with_capacity(names.len());
    for (second, name) in names.iter().enumerate() {
        if let Some(first) = seen.insert(name, second) {
            return Err(DataError::DuplicateColumn {
                name: name.clone(),
                first,
                second,
            });
        }
    }
    Ok(())
}

/// The same names in the same order.
pub(crate) fn check_same(found: &[String], expected: &[String]) -> Result<(), DataError> {
    if found.len() != expected.len() {
        return Err(DataError::ColumnCount {
            found: found.len(),
            expected: expected.len(),
        });
    }
    match found.iter().zip(expected).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(column) => Err(DataError::ColumnName {
            column,
            found: found[column].clone(),
            expected: expected[column].clone(),
        }),
    }
}
