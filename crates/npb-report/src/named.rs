//! Bars and graphs whose parts have names.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use crate::error::ReportError;
use crate::figure::Figure;
use crate::heat::shown;
use crate::html::escape;
use crate::text::short;

/// A number with a name.
#[derive(Clone, Debug)]
pub struct NamedBar {
    /// Its name.
    pub name: String,
    /// Its length; below 0 to the left.
    pub value: f64,
    /// Half the length of its error bar.
    pub sd: Option<f64>,
}

const LINE: usize = 22;
const BARS: f64 = 260.0;

/// Bars below each other, each beside its name and before its number; what is no finite number has none. The longest is drawn at full length, unless it is shorter than
/// `least`: numbers that are all next to nothing have bars that are, too.
///
/// # Errors
/// No number is finite.
pub fn named_bars(
    name: &str,
    title: &str,
    caption: &str,
    bars: &[NamedBar],
    least: f64,
) -> Result<Figure, ReportError> {
    if !bars.iter().any(|bar| bar.value.is_finite()) {
        let figure = name.to_owned();
        return Err(ReportError::Empty { figure });
    }
    let text = |value: f64| match value.is_finite() {
        true => value.to_string(),
        false => String::new(),
    };
    let row = |bar: &NamedBar| {
        let sd = bar.sd.map_or(String::new(), text);
        vec![bar.name.clone(), text(bar.value), sd]
    };
    Ok(Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        svg: draw_bars(bars, least),
        header: ["name", "value", "sd"].map(str::to_owned).to_vec(),
        rows: bars.iter().map(row).collect(),
    })
}

fn begin(width: usize, height: usize) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    )
}

fn draw_bars(bars: &[NamedBar], least: f64) -> String {
    let longest = bars
        .iter()
        .map(|bar| shown(&bar.name).chars().count())
        .max();
    let left = 14.0 + 7.0 * longest.unwrap_or(0) as f64;
    let reach = |bar: &NamedBar| {
        let sd = bar.sd.filter(|sd| sd.is_finite()).unwrap_or(0.0);
        [bar.value - sd, bar.value + sd]
    };
    let ends = bars.iter().flat_map(reach).filter(|end| end.is_finite());
    let (low, high) = ends.fold((0.0_f64, 0.0_f64), |(l, h), x| (l.min(x), h.max(x)));
    let width = match f64::max(high - low, least) {
        width if width > 0.0 => width,
        _ => 1.0,
    };
    let at = |value: f64| left + BARS * (value - low) / width;
    let mut svg = begin((left + BARS) as usize + 76, LINE * bars.len() + 8);
    for (k, bar) in bars.iter().enumerate() {
        let (top, middle) = (LINE * k + 6, LINE * k + 6 + LINE / 2);
        let name = escape(&shown(&bar.name));
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"end\">{name}</text>",
            left - 6.0,
            middle + 2
        );
        if !bar.value.is_finite() {
            continue;
        }
        let (from, to) = (at(bar.value.min(0.0)), at(bar.value.max(0.0)));
        let colour = if bar.value < 0.0 {
            "#d55e00"
        } else {
            "#0072b2"
        };
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{}\" fill=\"{colour}\"/>",
            to - from,
            LINE - 8
        );
        if let Some(sd) = bar.sd.filter(|sd| sd.is_finite() && *sd > 0.0) {
            let (from, to, y) = (at(bar.value - sd), at(bar.value + sd), middle - 4);
            let _ = writeln!(
                svg,
                "<path d=\"M{from:.1} {y}H{to:.1}\" stroke=\"#000\" stroke-width=\"2\"/>"
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\">{}</text>",
            left + BARS + 6.0,
            middle + 2,
            short(bar.value)
        );
    }
    svg + "</svg>\n"
}

/// A line between two of the named things, by their places.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Its ends.
    pub ends: [usize; 2],
    /// How strong it is, above 0; the strongest is the widest.
    pub strength: f64,
}

/// Named things on a circle, in their order, and lines between them.
///
/// # Errors
/// No line.
pub fn graph(
    name: &str,
    title: &str,
    caption: &str,
    names: &[String],
    links: &[Link],
) -> Result<Figure, ReportError> {
    let most = links.iter().map(|link| link.strength).fold(0.0, f64::max);
    if names.is_empty() || most <= 0.0 || !most.is_finite() {
        let figure = name.to_owned();
        return Err(ReportError::Empty { figure });
    }
    let row = |link: &Link| {
        let [a, b] = link.ends.map(|end| names[end].clone());
        vec![a, b, link.strength.to_string()]
    };
    Ok(Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        svg: draw_graph(names, links, most),
        header: ["a", "b", "strength"].map(str::to_owned).to_vec(),
        rows: links.iter().map(row).collect(),
    })
}

fn draw_graph(names: &[String], links: &[Link], most: f64) -> String {
    let longest = names.iter().map(|name| shown(name).chars().count()).max();
    let room = 18.0 + 7.0 * longest.unwrap_or(0) as f64;
    let radius = f64::max(110.0, 2.8 * names.len() as f64);
    let centre = room + radius;
    let angle = |k: usize| TAU * k as f64 / names.len() as f64;
    let at = |k: usize, r: f64| {
        let (sin, cos) = angle(k).sin_cos();
        (centre + r * cos, centre + r * sin)
    };
    let side = (2.0 * centre).ceil() as usize;
    let mut svg = begin(side, side);
    for link in links {
        let [a, b] = link.ends.map(|end| at(end, radius));
        let share = link.strength / most;
        let (width, ink) = (1.0 + 6.0 * share, 0.35 + 0.6 * share);
        let _ = writeln!(
            svg,
            "<path d=\"M{:.1} {:.1}Q{centre:.1} {centre:.1} {:.1} {:.1}\" fill=\"none\" stroke=\"#0072b2\" stroke-opacity=\"{ink:.2}\" stroke-width=\"{width:.1}\"/>",
            a.0, a.1, b.0, b.1
        );
    }
    for (k, name) in names.iter().enumerate() {
        let (x, y) = at(k, radius + 5.0);
        let degrees = 360.0 * k as f64 / names.len() as f64;
        // Names on the left half are turned, so that none is upside down.
        let (turn, anchor) = match (90.0..270.0).contains(&degrees) {
            true => (degrees + 180.0, "end"),
            false => (degrees, "start"),
        };
        let name = escape(&shown(name));
        let _ = writeln!(
            svg,
            "<text transform=\"translate({x:.1},{y:.1}) rotate({turn:.1})\" dy=\"4\" text-anchor=\"{anchor}\">{name}</text>"
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, value: f64, sd: Option<f64>) -> NamedBar {
        let name = name.to_owned();
        NamedBar { name, value, sd }
    }

    #[test]
    fn bars_are_as_long_as_their_numbers() {
        let bars = [
            bar("<a>", 3.0, Some(1.0)),
            bar("b", -1.0, None),
            bar("c", f64::NAN, Some(f64::INFINITY)),
        ];
        let figure = named_bars("n", "N", "", &bars, 5.0).unwrap();
        // From -1 to 4: 52 pixels a unit.
        assert!(figure.svg.contains("width=\"156.0\"") && figure.svg.contains("width=\"52.0\""));
        assert!(figure.svg.contains("&lt;a&gt;") && !figure.svg.contains("NaN"));
        assert_eq!(figure.rows[0], ["<a>", "3", "1"]);
        assert_eq!(figure.rows[2], ["c", "", ""]);
        let none = [bar("a", f64::NAN, None)];
        assert!(matches!(
            named_bars("n", "N", "", &none, 0.0),
            Err(ReportError::Empty { .. })
        ));
        // A tenth of the least scale is a tenth of the width.
        let small = named_bars("n", "N", "", &[bar("a", 0.1, None)], 1.0).unwrap();
        assert!(small.svg.contains("width=\"26.0\""));
    }

    #[test]
    fn the_strongest_link_is_the_widest() {
        let names = ["a", "<b>", "c"].map(str::to_owned);
        let link = |ends, strength| Link { ends, strength };
        let links = [link([0, 1], 1.0), link([1, 2], 0.5)];
        let figure = graph("g", "G", "", &names, &links).unwrap();
        assert!(figure.svg.contains("stroke-width=\"7.0\""));
        assert!(figure.svg.contains("stroke-width=\"4.0\"") && figure.svg.contains("&lt;b&gt;"));
        assert_eq!(figure.rows[1], ["<b>", "c", "0.5"]);
        assert!(graph("g", "G", "", &names, &[]).is_err());
    }
}
