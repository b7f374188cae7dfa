//! Where the user's columns are among those of the model.

use serde::{Deserialize, Serialize};

/// Where a column of the user's is: a column of the model by itself, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Position among the columns of the model.
    pub column: usize,
    /// Which part of its cells; `None` for a column by itself.
    pub part: Option<usize>,
}

/// The user's columns in every column of the model, in the order of parts.
pub(crate) fn members(places: &[Place]) -> Vec<Vec<usize>> {
    let n = places.iter().map(|place| place.column + 1).max();
    let mut members = vec![Vec::new(); n.unwrap_or(0)];
    for (j, place) in places.iter().enumerate() {
        members[place.column].push((place.part, j));
    }
    let in_order = |mut of_column: Vec<(Option<usize>, usize)>| {
        of_column.sort_unstable();
        of_column.into_iter().map(|(_, j)| j).collect()
    };
    members.into_iter().map(in_order).collect()
}
