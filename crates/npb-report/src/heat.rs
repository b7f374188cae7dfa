//! Heat maps whose rows and columns have names.

use std::fmt::Write as _;

use crate::colours::{BLUE, Colour, VERMILLION, towards};
use crate::error::ReportError;
use crate::figure::Figure;
use crate::html::escape;
use crate::text::{isolated, line, short};

/// Numbers by row and column, both with names.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// Names of the rows, from above.
    pub rows: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Row by row; what is no finite number is a gap.
    pub values: Vec<f64>,
    /// Values of the palest colour (or, below 0, of the strongest blue) and of the strongest.
    pub range: (f64, f64),
    /// Squares with a ring, or a dot where squares have no numbers.
    pub marked: Vec<bool>,
}

/// More squares than this in a line have no numbers in them.
const WITH_NUMBERS: usize = 14;
/// More squares than this are not told of when they are pointed at.
const TOLD: usize = 1600;
/// Side of a square, and its width with a number in it.
const SIDE: usize = 22;
const WIDE: usize = 46;
/// Characters of a name.
const LONGEST: usize = 28;

impl HeatMap {
    fn colour(&self, value: f64) -> Colour {
        let (low, high) = self.range;
        match (low < 0.0, value < 0.0) {
            (true, true) => towards(BLUE, value / low),
            (true, false) => towards(VERMILLION, value / high),
            (false, _) => towards(BLUE, (value - low) / (high - low)),
        }
    }

    fn check(&self, title: &str) -> Result<(), ReportError> {
        let (low, high) = self.range;
        let whole = !self.columns.is_empty()
            && self.values.len() == self.rows.len() * self.columns.len()
            && (self.marked.is_empty() || self.marked.len() == self.values.len());
        if whole && low < high && (high - low).is_finite() && high > 0.0 {
            return Ok(());
        }
        Err(ReportError::Cells {
            layer: title.to_owned(),
            values: self.values.len(),
            columns: self.columns.len(),
            low,
            high,
        })
    }
}

/// A heat map: pale where values are low, blue where they are high; with a range from below 0 blue, pale at 0, vermillion.
///
/// # Errors
/// No value is finite, or the values are no rectangle of the names.
pub fn heat_map(
    name: &str,
    title: &str,
    caption: &str,
    map: &HeatMap,
) -> Result<Figure, ReportError> {
    map.check(title)?;
    if !map.values.iter().any(|value| value.is_finite()) {
        let figure = name.to_owned();
        return Err(ReportError::Empty { figure });
    }
    let n_columns = map.columns.len();
    let row = |(k, value): (usize, &f64)| {
        let number = Some(value).filter(|value| value.is_finite());
        let number = number.map_or(String::new(), |value| value.to_string());
        let [row, column] = [&map.rows[k / n_columns], &map.columns[k % n_columns]];
        vec![row.clone(), column.clone(), number]
    };
    Ok(Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        svg: draw(map),
        header: ["row", "column", "value"].map(str::to_owned).to_vec(),
        rows: map.values.iter().enumerate().map(row).collect(),
    })
}

fn draw(map: &HeatMap) -> String {
    let longest = |names: &[String]| names.iter().map(|n| shown(n).chars().count()).max();
    let room = |names: &[String]| 14 + 7 * longest(names).unwrap_or(0);
    let with_numbers = map.columns.len() <= WITH_NUMBERS;
    let width = if with_numbers { WIDE } else { SIDE };
    let (left, top) = (room(&map.rows), room(&map.columns));
    let legend = 190;
    let size = (
        (left + width * map.columns.len() + 8).max(legend + 8),
        top + SIDE * map.rows.len() + 34,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        size.0, size.1
    );
    for (k, name) in map.rows.iter().enumerate() {
        let (x, y) = (left - 6, top + SIDE * k + SIDE / 2 + 4);
        let name = escape(&shown(name));
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{name}</text>"
        );
    }
    for (k, name) in map.columns.iter().enumerate() {
        let (x, y) = (left + width * k + width / 2 + 4, top - 6);
        let name = escape(&shown(name));
        let _ = writeln!(
            svg,
            "<text transform=\"translate({x},{y}) rotate(-90)\">{name}</text>"
        );
    }
    for (k, &value) in map.values.iter().enumerate() {
        let (row, column) = (k / map.columns.len(), k % map.columns.len());
        let at = (left + width * column, top + SIDE * row);
        square(&mut svg, map, k, value, at, width);
    }
    draw_legend(&mut svg, map, size.1 - 24);
    svg + "</svg>\n"
}

fn square(
    svg: &mut String,
    map: &HeatMap,
    k: usize,
    value: f64,
    (x, y): (usize, usize),
    width: usize,
) {
    let Colour(r, g, b) = match value.is_finite() {
        true => map.colour(value),
        false => Colour(225, 225, 225),
    };
    let _ = write!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{SIDE}\" fill=\"#{r:02x}{g:02x}{b:02x}\""
    );
    if map.values.len() <= TOLD && value.is_finite() {
        let [row, column] = [
            &map.rows[k / map.columns.len()],
            &map.columns[k % map.columns.len()],
        ]
        .map(|name| escape(&isolated(&line(name))));
        let _ = writeln!(
            svg,
            "><title>{row}, {column}: {}</title></rect>",
            short(value)
        );
    } else {
        svg.push_str("/>\n");
    }
    let (middle, base) = (x + width / 2, y + SIDE / 2);
    if width == WIDE && value.is_finite() {
        let is_dark = 299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b) < 140_000;
        let ink = if is_dark { "#fff" } else { "#000" };
        let _ = writeln!(
            svg,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" font-size=\"11\" fill=\"{ink}\">{}</text>",
            base + 4,
            brief(value)
        );
    }
    if map.marked.get(k) != Some(&true) {
        return;
    }
    if width == WIDE {
        let (inside, high) = (width - 3, SIDE - 3);
        let _ = writeln!(
            svg,
            "<rect x=\"{}.5\" y=\"{}.5\" width=\"{inside}\" height=\"{high}\" fill=\"none\" stroke=\"#e69f00\" stroke-width=\"2\"/>",
            x + 1,
            y + 1
        );
    } else {
        // Rings side by side would hide the colours.
        let _ = writeln!(
            svg,
            "<circle cx=\"{middle}\" cy=\"{base}\" r=\"2.5\" fill=\"#e69f00\"/>"
        );
    }
}

/// What the ends of the colours stand for.
fn draw_legend(svg: &mut String, map: &HeatMap, y: usize) {
    const STEPS: usize = 10;
    let (low, high) = map.range;
    let _ = write!(svg, "<text x=\"6\" y=\"{}\">{}</text>", y + 12, brief(low));
    for step in 0..STEPS {
        let value = low + (high - low) * step as f64 / (STEPS - 1) as f64;
        let Colour(r, g, b) = map.colour(value);
        let x = 50 + 9 * step;
        let _ = write!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"9\" height=\"14\" fill=\"#{r:02x}{g:02x}{b:02x}\"/>"
        );
    }
    let (x, y) = (56 + 9 * STEPS, y + 12);
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\">{}</text>", brief(high));
}

/// A name beside a square.
pub(crate) fn shown(name: &str) -> String {
    let name = line(name);
    if name.chars().count() <= LONGEST {
        return name;
    }
    name.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// A number that fits a square.
fn brief(value: f64) -> String {
    let size = value.abs();
    if size >= 1e5 || (size > 0.0 && size < 0.005) {
        return format!("{value:.0e}");
    }
    match size {
        s if s >= 100.0 => format!("{value:.0}"),
        s if s >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(values: &[f64], range: (f64, f64)) -> HeatMap {
        HeatMap {
            rows: vec!["<a>".to_owned(), "b".repeat(10_000)],
            columns: vec!["c".to_owned(), "d".to_owned()],
            values: values.to_vec(),
            range,
            marked: Vec::new(),
        }
    }

    #[test]
    fn squares_have_the_colours_of_their_values_and_gaps_none() {
        let map = map(&[0.0, 1.0, 0.5, f64::NAN], (0.0, 1.0));
        let figure = heat_map("h", "H", "", &map).unwrap();
        assert_eq!(figure.svg.matches("fill=\"#f7f7f7\"><title>").count(), 1);
        assert_eq!(figure.svg.matches("fill=\"#0072b2\"><title>").count(), 1);
        assert_eq!(figure.svg.matches("fill=\"#e1e1e1\"/>").count(), 1);
        assert!(figure.svg.contains("&lt;a&gt;") && !figure.svg.contains("NaN"));
        assert!(figure.svg.len() < 6_000, "names are cut");
        assert_eq!(figure.rows[1], ["<a>", "d", "1"]);
        assert_eq!(figure.rows[3][2], "");
    }

    #[test]
    fn colours_turn_at_nought() {
        let map = map(&[-2.0, 0.0, 4.0, 9.0], (-2.0, 4.0));
        assert_eq!(map.colour(-2.0), BLUE);
        assert_eq!(map.colour(0.0), Colour(247, 247, 247));
        assert_eq!((map.colour(4.0), map.colour(9.0)), (VERMILLION, VERMILLION));
    }

    #[test]
    fn what_is_no_rectangle_or_has_no_number_is_refused() {
        let short = map(&[1.0], (0.0, 1.0));
        assert!(matches!(
            heat_map("h", "H", "", &short),
            Err(ReportError::Cells { .. })
        ));
        let none = map(&[f64::NAN; 4], (0.0, 1.0));
        assert!(matches!(
            heat_map("h", "H", "", &none),
            Err(ReportError::Empty { .. })
        ));
    }
}
