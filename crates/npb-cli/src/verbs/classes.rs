//! Classes of rows with their probabilities, as columns of a table.

use npb_iqgme::ProbabilityInterval;

use crate::sheet::{Cell, Sheet};

/// Draws of the parameters behind an interval of a probability.
pub(crate) const DRAWS: usize = 200;

/// The most probable class of each row, the probabilities of all, and intervals of them if there are any.
pub(crate) fn push_classes(
    sheet: &mut Sheet,
    classes: &[String],
    probabilities: &[Vec<f64>],
    intervals: &[Vec<ProbabilityInterval>],
) {
    let best = |row: &Vec<f64>| {
        let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a)));
        Cell::from(best.map(|k| classes[k].as_str()))
    };
    sheet.push_column("class", probabilities.iter().map(best));
    for (k, class) in classes.iter().enumerate() {
        let column = probabilities.iter().map(|row| Cell::Number(row[k]));
        sheet.push_column(format!("P({class})"), column);
        if !intervals.is_empty() {
            let lower = intervals.iter().map(|row| Cell::Number(row[k].lower));
            sheet.push_column(format!("lower({class})"), lower);
            let upper = intervals.iter().map(|row| Cell::Number(row[k].upper));
            sheet.push_column(format!("upper({class})"), upper);
        }
    }
}
