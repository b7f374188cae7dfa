//! Cells that were hidden and filled again: errors, intervals, levels.

use npb_data::{MixedColumn, MixedTable};
use npb_report::{Figure, Layer, Panel, Shape, TextTable, colours, picture};

use crate::Result;
use crate::page::Section;
use crate::shared::{number, percent};

/// Intervals are to hold this probability.
pub(crate) const LEVEL: f64 = 0.9;
/// Cells with a dot, and those with their interval, too.
const MOST_DOTS: usize = 500;
const WITH_INTERVAL: usize = 60;
/// Coverage that is further below [`LEVEL`] than this, and than three standard errors, is said.
const SHORT_OF: f64 = 0.03;
/// Columns in the table.
const MOST_COLUMNS: usize = 60;

/// A known cell that was hidden and filled again.
#[derive(Clone, Debug)]
pub(crate) struct Refilled {
    /// Position of its feature.
    pub(crate) column: usize,
    /// A number, or the place of a level.
    pub(crate) truth: f64,
    /// The same, of the filled cell.
    pub(crate) guess: f64,
    /// Whether the interval holds the truth; of numbers.
    pub(crate) inside: Option<bool>,
    /// The ends of the interval, of some cells.
    pub(crate) interval: Option<[f64; 2]>,
}

/// A cell as a number, or the place of its level.
pub(crate) fn value(column: &MixedColumn, row: usize) -> Option<f64> {
    match column {
        MixedColumn::Categorical { codes, .. } => codes[row].map(f64::from),
        other => other.number(row),
    }
}

/// Whether the cells of a column are numbers.
pub(crate) fn is_number(column: &MixedColumn) -> bool {
    column.levels().is_none()
}

/// How a column was filled.
struct OfColumn {
    name: String,
    n: usize,
    /// Numbers: root mean squared error and standard deviation of the truth; levels: shares right, by the model and by the most frequent one.
    own: f64,
    usual: f64,
    is_number: bool,
    /// Share of the intervals that hold.
    held: Option<f64>,
}

/// Says how well hidden cells were filled.
pub(crate) fn write(
    section: &mut Section,
    features: &MixedTable,
    cells: &[Refilled],
) -> Result<()> {
    if cells.is_empty() {
        return Ok(());
    }
    let columns: Vec<OfColumn> = (0..features.n_cols())
        .filter_map(|j| of_column(features, j, cells))
        .collect();
    warn(section, cells);
    if let Some(figure) = scatter(features, cells)? {
        section.draw(figure);
    }
    let row = |c: &OfColumn| {
        let (own, usual) = match c.is_number {
            true => (number(c.own), number(c.usual)),
            false => (percent(c.own), percent(c.usual)),
        };
        let what = if c.is_number { "error" } else { "right" };
        let held = c.held.map_or("–".to_owned(), percent);
        vec![
            c.name.clone(),
            c.n.to_string(),
            what.to_owned(),
            own,
            usual,
            held,
        ]
    };
    let header = [
        "column",
        "hidden",
        "",
        "model",
        "by the column alone",
        "90% intervals that hold",
    ];
    let rows = columns.iter().take(MOST_COLUMNS).map(row);
    let title = "Hidden cells by column (numbers: root mean squared error and standard deviation; levels: share right)";
    section.tabulate(TextTable::new(title, &header, rows));
    Ok(())
}

fn warn(section: &mut Section, cells: &[Refilled]) {
    let held: Vec<bool> = cells.iter().filter_map(|cell| cell.inside).collect();
    if held.is_empty() {
        return;
    }
    let n = held.len() as f64;
    let share = held.iter().filter(|held| **held).count() as f64 / n;
    let error = (LEVEL * (1.0 - LEVEL) / n).sqrt();
    let words = format!(
        "{} of {n} intervals that should hold 90% of hidden numbers do",
        percent(share)
    );
    match share < LEVEL - f64::max(SHORT_OF, 3.0 * error) {
        true => section.warn(format!("Intervals do not hold: {words}.")),
        false => section.say(format!("{words}.")),
    }
}

fn of_column(features: &MixedTable, j: usize, cells: &[Refilled]) -> Option<OfColumn> {
    let own: Vec<&Refilled> = cells.iter().filter(|cell| cell.column == j).collect();
    if own.is_empty() {
        return None;
    }
    let n = own.len() as f64;
    let is_number = is_number(features.column(j));
    let (model, usual) = match is_number {
        true => {
            let square = own.iter().map(|c| (c.truth - c.guess).powi(2)).sum::<f64>();
            ((square / n).sqrt(), spread(&own).1)
        }
        false => {
            let right = own.iter().filter(|c| c.truth == c.guess).count() as f64;
            let all = (0..features.n_rows()).filter_map(|i| value(features.column(j), i));
            (right / n, share_of_mode(all))
        }
    };
    let held: Vec<bool> = own.iter().filter_map(|cell| cell.inside).collect();
    let share = held.iter().filter(|held| **held).count() as f64 / held.len() as f64;
    Some(OfColumn {
        name: features.column_names()[j].clone(),
        n: own.len(),
        own: model,
        usual,
        is_number,
        held: (!held.is_empty()).then_some(share),
    })
}

/// Mean and standard deviation of the truth.
fn spread(cells: &[&Refilled]) -> (f64, f64) {
    let n = cells.len() as f64;
    let mean = cells.iter().map(|c| c.truth).sum::<f64>() / n;
    let square = cells.iter().map(|c| (c.truth - mean).powi(2)).sum::<f64>();
    (mean, (square / n).sqrt())
}

/// The share of the most frequent of some levels.
fn share_of_mode(levels: impl Iterator<Item = f64>) -> f64 {
    let mut counts: Vec<f64> = Vec::new();
    for level in levels {
        let at = level as usize;
        counts.resize(counts.len().max(at + 1), 0.0);
        counts[at] += 1.0;
    }
    counts.iter().copied().fold(0.0, f64::max) / counts.iter().sum::<f64>()
}

/// Numbers as they are against as they were filled, each column less its mean and by its standard deviation.
fn scatter(features: &MixedTable, cells: &[Refilled]) -> Result<Option<Figure>> {
    let (mut dots, mut intervals) = (Vec::new(), Vec::new());
    for j in (0..features.n_cols()).filter(|&j| is_number(features.column(j))) {
        let own: Vec<&Refilled> = cells.iter().filter(|cell| cell.column == j).collect();
        let (mean, sd) = match own.is_empty() {
            true => continue,
            false => spread(&own),
        };
        if sd <= 0.0 || !sd.is_finite() {
            continue;
        }
        let scaled = |x: f64| (x - mean) / sd;
        for cell in own {
            let x = scaled(cell.truth);
            dots.push([x, scaled(cell.guess)]);
            intervals.extend(
                cell.interval
                    .map(|ends| ends.map(|end| [x, scaled(end)]).to_vec()),
            );
        }
    }
    if dots.is_empty() {
        return Ok(None);
    }
    let thin = |n: usize, most: usize| n.div_ceil(most).max(1);
    let dots: Vec<[f64; 2]> = dots
        .iter()
        .step_by(thin(dots.len(), MOST_DOTS))
        .copied()
        .collect();
    let step = thin(intervals.len(), WITH_INTERVAL);
    let intervals: Vec<Vec<[f64; 2]>> = intervals.into_iter().step_by(step).collect();
    let (low, high) = dots.iter().fold((-2.0_f64, 2.0_f64), |(l, h), at| {
        (l.min(at[0]), h.max(at[0]))
    });
    let (low, high) = (low.max(-6.0) - 0.2, high.min(6.0) + 0.2);
    let ideal = Shape::Dashed(vec![vec![[low, low], [high, high]]]);
    let layers = vec![
        Layer::new("as it should be", colours::GREY, ideal),
        Layer::new(
            "90% intervals of some",
            colours::SKY,
            Shape::Curves(intervals, 1),
        ),
        Layer::new("hidden cells", colours::BLUE, Shape::Dots(dots)),
    ];
    let layers = layers.into_iter().filter(|layer| match &layer.shape {
        Shape::Curves(curves, _) => !curves.is_empty(),
        _ => true,
    });
    let labels = [
        "as it is (standard deviations from the mean)",
        "as it was filled",
    ];
    let panel = Panel::new("", labels, (low, high), (low, high), layers.collect());
    let look = "Dots near the dashed line were filled well; a flat band means that the other columns say nothing, and nine of ten intervals should cross the line.";
    Ok(Some(picture(
        "hidden",
        "Hidden numbers and what they were filled with",
        look,
        &[panel],
    )?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features() -> MixedTable {
        let x = MixedColumn::Real(vec![Some(1.0); 4]);
        let town = MixedColumn::Categorical {
            levels: ["A", "B"].map(str::to_owned).to_vec(),
            codes: vec![Some(0), Some(1), Some(1), Some(1)],
        };
        MixedTable::new(vec!["x".into(), "town".into()], vec![x, town]).unwrap()
    }

    fn cell(column: usize, truth: f64, guess: f64, inside: Option<bool>) -> Refilled {
        Refilled {
            column,
            truth,
            guess,
            inside,
            interval: inside.map(|_| [guess - 1.0, guess + 1.0]),
        }
    }

    #[test]
    fn errors_and_shares_are_those_of_the_cells() {
        let cells = [
            cell(0, 1.0, 2.0, Some(true)),
            cell(0, 3.0, 3.0, Some(false)),
            cell(1, 0.0, 1.0, None),
            cell(1, 1.0, 1.0, None),
        ];
        let x = of_column(&features(), 0, &cells).unwrap();
        assert_eq!((x.n, x.usual, x.held), (2, 1.0, Some(0.5)));
        assert!((x.own - 0.5_f64.sqrt()).abs() < 1e-12);
        let town = of_column(&features(), 1, &cells).unwrap();
        assert_eq!((town.own, town.usual, town.held), (0.5, 0.75, None));
    }

    #[test]
    fn intervals_that_do_not_hold_are_warned_of() {
        let of = |n_inside: usize| {
            let cells: Vec<Refilled> = (0..1000)
                .map(|i| cell(0, f64::from(i % 7), 3.0, Some((i as usize) < n_inside)))
                .collect();
            let mut section = Section::new("s");
            write(&mut section, &features(), &cells).unwrap();
            let mut page = crate::Page::new("p");
            page.push(section);
            assert!(page.figure("hidden").unwrap().rows.len() <= MOST_DOTS + 2 * WITH_INTERVAL + 2);
            page.warnings()
                .iter()
                .map(|words| (*words).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(880), [""; 0]);
        assert_eq!(
            of(800),
            [
                "Intervals do not hold: 80.0% of 1000 intervals that should hold 90% of hidden numbers do."
            ]
        );
    }
}
