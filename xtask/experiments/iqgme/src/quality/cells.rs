//! Hidden cells whose values are known: where they fall in the distributions that a fit gives them.

use npb_iqgme::MissingCell;

use super::data::Side;
use npb_kit::Result;

/// A hidden cell and what the fit says of it.
pub(super) struct HiddenCell {
    pub(super) column: usize,
    /// Mean of its distribution.
    pub(super) mean: f64,
    pub(super) truth: f64,
    /// Probability of the smallest central interval of its distribution that holds the truth.
    pub(super) level: f64,
}

/// Every hidden cell of one side, row by row, by what a fit says of the missing cells of each row.
pub(super) fn hidden_cells(side: &Side, said: &[Vec<MissingCell>]) -> Result<Vec<HiddenCell>> {
    let cell = |(row, column): (usize, usize)| {
        let found = said[row].iter().find(|cell| cell.column == column);
        let found = found.ok_or_else(|| format!("column {column} is not in the model"))?;
        let truth = side.whole.get(row, column).ok_or("a cell without truth")?;
        Ok(HiddenCell {
            column,
            mean: found.mean,
            truth,
            level: (2.0 * found.cdf(truth) - 1.0).abs(),
        })
    };
    side.hidden().map(cell).collect()
}

/// Share of the cells within the central intervals of a probability.
pub(super) fn coverage<'a>(cells: impl Iterator<Item = &'a HiddenCell>, level: f64) -> f64 {
    let (mut within, mut all) = (0, 0);
    for cell in cells {
        all += 1;
        within += usize::from(cell.level <= level);
    }
    f64::from(within as u32) / f64::from(all as u32)
}
