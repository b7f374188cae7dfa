//! Which rows and cells a page looks at, drawn by its seed.

use npb_data::{Mask, MixedTable};
use npb_infer::stream;
use rand::RngExt;
use rand::seq::SliceRandom;

use crate::Result;
use crate::context::Rows;

/// First words of the keys of random streams.
const ROWS: u64 = 1;
const CELLS: u64 = 2;
/// Each row hides one of so many parts of its features.
const PARTS: usize = 10;

/// At most so many of `n`, in their order.
pub(crate) fn some(n: usize, most: usize, seed: u64) -> Vec<usize> {
    let mut all: Vec<usize> = (0..n).collect();
    if n > most {
        all.shuffle(&mut stream(seed, [ROWS, 0, 0, 0]));
        all.truncate(most);
        all.sort_unstable();
    }
    all
}

/// At most so many rows.
pub(crate) fn some_rows(rows: &Rows, most: usize, seed: u64) -> Rows {
    match rows.n_rows() > most {
        true => rows.select(&some(rows.n_rows(), most, seed)),
        false => rows.clone(),
    }
}

/// Features that are hidden together: those of a field, else each by itself.
fn together(rows: &Rows) -> Vec<Vec<usize>> {
    match rows.fields.is_empty() {
        true => (0..rows.features.n_cols()).map(|j| vec![j]).collect(),
        false => rows.fields.iter().map(|f| f.columns.clone()).collect(),
    }
}

/// The features with about a tenth of their known cells hidden, and which these are, by row and feature. Every feature is in one of ten parts, and each row hides one part:
/// few missing patterns are added. Nothing where that would leave a row without features.
///
/// # Errors
/// None for features that are a table.
pub(crate) fn hidden(rows: &Rows, seed: u64) -> Result<(MixedTable, Vec<(usize, usize)>)> {
    let fields = together(rows);
    let parts = PARTS.min(fields.len());
    if parts < 2 {
        return Ok((rows.features.clone(), Vec::new()));
    }
    let mut order: Vec<usize> = (0..fields.len()).collect();
    order.shuffle(&mut stream(seed, [CELLS, 0, 0, 0]));
    let mut part_of = vec![0; rows.features.n_cols()];
    for (place, &field) in order.iter().enumerate() {
        for &column in &fields[field] {
            part_of[column] = place % parts;
        }
    }
    let mut rng = stream(seed, [CELLS, 1, 0, 0]);
    let of_row: Vec<usize> = (0..rows.n_rows())
        .map(|_| rng.random_range(0..parts))
        .collect();
    let is_hidden = |i: usize, j: usize| part_of[j] == of_row[i];
    let (n, p) = (rows.n_rows(), rows.features.n_cols());
    let mask = Mask::from_fn(n, p, is_hidden)?;
    let all = (0..n).flat_map(|i| (0..p).map(move |j| (i, j)));
    let known = all.filter(|&(i, j)| is_hidden(i, j) && rows.features.is_observed(i, j));
    Ok((rows.features.hide(&mask)?, known.collect()))
}

/// An order of things in which those that are alike stand side by side: that of the leaves of a tree that joins, again and again, the two groups of the largest mean
/// similarity. `alike`: by row and column, symmetric.
pub(crate) fn side_by_side(n: usize, alike: &[f64]) -> Vec<usize> {
    let mut groups: Vec<Vec<usize>> = (0..n).map(|k| vec![k]).collect();
    let mean = |a: &[usize], b: &[usize]| {
        let all = a
            .iter()
            .flat_map(|&i| b.iter().map(move |&j| alike[i * n + j]));
        all.sum::<f64>() / (a.len() * b.len()) as f64
    };
    while groups.len() > 1 {
        let mut best = (f64::NEG_INFINITY, 0, 1);
        for a in 0..groups.len() {
            for b in a + 1..groups.len() {
                let likeness = mean(&groups[a], &groups[b]);
                if likeness > best.0 {
                    best = (likeness, a, b);
                }
            }
        }
        let mut other = groups.remove(best.2);
        let one = &mut groups[best.1];
        // The ends that are alike come together.
        let at = |i: usize, j: usize| alike[i * n + j];
        let ends = [one[0], one[one.len() - 1], other[0], other[other.len() - 1]];
        let [first, last, head, tail] = ends;
        let ways = [
            at(last, head),
            at(last, tail),
            at(first, head),
            at(first, tail),
        ];
        let way = (1..4).fold(0, |best, k| if ways[k] > ways[best] { k } else { best });
        if way >= 2 {
            one.reverse();
        }
        if way % 2 == 1 {
            other.reverse();
        }
        one.append(&mut other);
    }
    groups.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_data::MixedColumn;

    #[test]
    fn what_is_alike_stands_side_by_side() {
        // Five on a line, out of order.
        let places = [3.0_f64, 0.0, 4.0, 1.0, 2.0];
        let alike = |i: usize, j: usize| -(places[i] - places[j]).abs();
        let all: Vec<f64> = (0..25).map(|k| alike(k / 5, k % 5)).collect();
        let mut order = side_by_side(5, &all);
        if order[0] != 1 {
            order.reverse();
        }
        assert_eq!(order, [1, 3, 4, 0, 2]);
        assert_eq!(side_by_side(1, &[1.0]), [0]);
        assert!(side_by_side(0, &[]).is_empty());
    }

    #[test]
    fn each_row_hides_a_tenth_of_its_features() {
        let column = |j: usize| MixedColumn::Real((0..50).map(|i| Some((i * j) as f64)).collect());
        let names = (0..20).map(|j| format!("x{j}")).collect();
        let rows = Rows {
            features: MixedTable::new(names, (0..20).map(column).collect()).unwrap(),
            ..Rows::default()
        };
        let (left, cells) = hidden(&rows, 3).unwrap();
        assert_eq!(cells.len(), 100);
        for row in 0..50 {
            let own: Vec<usize> = cells.iter().filter(|c| c.0 == row).map(|c| c.1).collect();
            let gone = (0..20).filter(|&j| !left.is_observed(row, j));
            assert_eq!(own, gone.collect::<Vec<_>>());
            assert_eq!(own.len(), 2);
        }
        assert_eq!(hidden(&rows, 3).unwrap().1, cells);
        assert_ne!(hidden(&rows, 4).unwrap().1, cells);
        assert_eq!(some(50, 10, 1).len(), 10);
        assert_eq!(some(5, 10, 1), [0, 1, 2, 3, 4]);
    }
}
