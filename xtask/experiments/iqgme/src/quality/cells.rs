//! Hidden cells whose values are known: where they fall in the distributions that a fit gives them.

use npb_iqgme::{CellTerm, MissingCell};
use npb_priors::special::student_t_two_sided;

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
            level: central_level(&found.terms, truth),
        })
    };
    side.hidden().map(cell).collect()
}

/// |2 F(x) - 1| under a mixture of Student-t.
fn central_level(terms: &[CellTerm], x: f64) -> f64 {
    // Twice the probability above x, minus 1, component by component.
    let beyond = |term: &CellTerm| {
        let scale = term.sd * ((term.dof - 2.0) / term.dof).sqrt();
        let t = (x - term.mean) / scale;
        term.weight * (1.0 - student_t_two_sided(t, term.dof)).copysign(t)
    };
    terms.iter().map(beyond).sum::<f64>().abs()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_the_mixture() {
        let term = |weight, mean| CellTerm {
            weight,
            mean,
            sd: (1e6_f64 / (1e6 - 2.0)).sqrt(),
            dof: 1e6,
        };
        // Nearly a normal distribution: 1.96 is where 95% end.
        let normal = [term(1.0, 3.0)];
        assert!((central_level(&normal, 3.0 + 1.959_964) - 0.95).abs() < 1e-5);
        assert!((central_level(&normal, 3.0 - 1.959_964) - 0.95).abs() < 1e-5);
        assert!(central_level(&normal, 3.0) < 1e-12);
        // The middle of two equal components is the median of both together; far out only one of them is left.
        let two = [term(0.5, -10.0), term(0.5, 10.0)];
        assert!(central_level(&two, 0.0) < 1e-9);
        assert!((central_level(&two, 10.0) - 0.5).abs() < 1e-9);
        // sd is that of the Student-t, not its scale: with 4 degrees of freedom t = 2.776 holds 95%.
        let heavy = [CellTerm {
            weight: 1.0,
            mean: 0.0,
            sd: 2.0_f64.sqrt(),
            dof: 4.0,
        }];
        assert!((central_level(&heavy, 2.776_445) - 0.95).abs() < 1e-6);
    }
}
