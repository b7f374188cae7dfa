//! Line plots with error bars, as SVG with their numbers.

use plotters::coord::Shift;
use plotters::prelude::*;

use npb_catalogue::Result;

use crate::draw::tick;
use crate::report::{Figure, ResultRow};

/// One coordinate system.
pub struct Panel {
    /// Heading.
    pub title: String,
    /// Label of the horizontal axis.
    pub x_label: String,
    /// Label of the vertical axis.
    pub y_label: String,
    /// Its curves.
    pub series: Vec<Series>,
}

/// One curve.
pub struct Series {
    /// Its entry in the legend.
    pub name: String,
    /// Its points.
    pub points: Vec<Point>,
}

impl Panel {
    /// Curves under a heading, with the labels of both axes.
    pub fn new(
        title: impl Into<String>,
        x_label: &str,
        y_label: &str,
        series: impl IntoIterator<Item = Series>,
    ) -> Self {
        Self {
            title: title.into(),
            x_label: x_label.to_owned(),
            y_label: y_label.to_owned(),
            series: series.into_iter().collect(),
        }
    }
}

impl Series {
    /// A curve of points.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = Point>) -> Self {
        Self {
            name: name.into(),
            points: points.into_iter().collect(),
        }
    }
}

/// One point of a curve.
#[derive(Clone, Copy)]
pub struct Point {
    /// Place.
    pub x: f64,
    /// Height.
    pub y: f64,
    /// Half the length of the error bar.
    pub sd: Option<f64>,
}

impl Point {
    /// A point without an error bar.
    pub fn at(x: f64, y: f64) -> Self {
        Self { x, y, sd: None }
    }

    /// The mean of a result, with the standard deviation over trials as its error bar.
    pub fn of(x: f64, row: &ResultRow) -> Self {
        Self {
            x,
            y: row.mean,
            sd: row.sd,
        }
    }
}

/// A curve of `metric` for each method, over the number behind `key=` in the setting.
pub fn against<'a>(
    results: impl IntoIterator<Item = &'a ResultRow>,
    metric: &str,
    key: &str,
) -> Vec<Series> {
    let mut curves: Vec<Series> = Vec::new();
    for row in results.into_iter().filter(|r| r.metric == metric) {
        let value = |part: &str| part.strip_prefix(key)?.strip_prefix('=')?.parse().ok();
        let Some(x) = row.setting.split(';').find_map(value) else {
            continue;
        };
        let point = Point::of(x, row);
        match curves.iter_mut().find(|curve| curve.name == row.method) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Series::new(&*row.method, [point])),
        }
    }
    curves
}

const PANEL: (u32, u32) = (640, 480);
/// What names of this library's own methods begin with. Their curves are wider, and in front of the others.
const OURS: &str = "npb:";
/// Curves with more points than this have no markers.
const MARKED_POINTS: usize = 24;
/// Okabe and Ito's colours, which stay apart for colour-blind readers.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 0, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
];

/// Panels side by side and one legend to their right; a curve has the same colour in all panels. Curves beyond the eighth
/// repeat colours with another marker. Curves without points, and panels without curves beside others, are left out.
pub fn lines(name: &str, title: &str, caption: &str, panels: &[Panel]) -> Result<Figure> {
    let has_points = |panel: &&Panel| panel.series.iter().any(|s| !s.points.is_empty());
    let mut shown: Vec<&Panel> = panels.iter().filter(has_points).collect();
    if shown.is_empty() {
        shown.extend(panels);
    }
    let panels = shown;
    let mut names: Vec<&str> = Vec::new();
    let all = panels.iter().flat_map(|panel| &panel.series);
    for series in all.filter(|s| !s.points.is_empty()) {
        if !names.contains(&series.name.as_str()) {
            names.push(&series.name);
        }
    }
    let longest = names.iter().map(|name| name.chars().count()).max();
    let legend_width = longest.map_or(0, |characters| 50 + 8 * characters as u32);
    let panels_width = PANEL.0 * panels.len().max(1) as u32;
    let mut svg = String::new();
    {
        let size = (panels_width + legend_width, PANEL.1);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (left, right) = root.split_horizontally(panels_width);
        for (panel, area) in panels
            .iter()
            .zip(&left.split_evenly((1, panels.len().max(1))))
        {
            draw(panel, &names, area)?;
        }
        draw_legend(&names, &right)?;
        root.present()?;
    }
    let mut rows = Vec::new();
    for panel in &panels {
        for series in &panel.series {
            for point in &series.points {
                let sd = point.sd.map_or(String::new(), |sd| sd.to_string());
                let numbers = [point.x.to_string(), point.y.to_string(), sd];
                rows.push(
                    [
                        vec![panel.title.clone(), series.name.clone()],
                        numbers.to_vec(),
                    ]
                    .concat(),
                );
            }
        }
    }
    Ok(Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        svg,
        header: ["panel", "series", "x", "y", "sd"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(panel: &Panel, names: &[&str], area: &Area<'_>) -> Result<()> {
    let points = || panel.series.iter().flat_map(|s| &s.points);
    let (x_low, x_high) = range(points().map(|p| (p.x, p.x)));
    let ends = |p: &Point| (p.y - p.sd.unwrap_or(0.0), p.y + p.sd.unwrap_or(0.0));
    let (y_low, y_high) = range(points().map(ends));
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x_low..x_high, y_low..y_high)?;
    chart
        .configure_mesh()
        .x_label_formatter(&|x| tick(*x))
        .y_label_formatter(&|y| tick(*y))
        .x_desc(&panel.x_label)
        .y_desc(&panel.y_label)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 16))
        .light_line_style(TRANSPARENT)
        .draw()?;
    let has_bars = |series: &Series| series.points.iter().any(|p| p.sd.is_some());
    let bars: Vec<&str> = panel
        .series
        .iter()
        .filter(|series| has_bars(series))
        .map(|series| series.name.as_str())
        .collect();
    // From the last to the first, so that what is named first is in front; ours in front of all.
    let (ours, others): (Vec<&Series>, Vec<&Series>) = panel
        .series
        .iter()
        .rev()
        .partition(|series| is_ours(&series.name));
    for series in others.into_iter().chain(ours) {
        let index = names
            .iter()
            .position(|name| *name == series.name)
            .unwrap_or(0);
        let colour = COLOURS[index % COLOURS.len()];
        // Error bars of different curves stand side by side.
        let shift = bars
            .iter()
            .position(|name| *name == series.name)
            .map_or(0.0, |place| {
                let side = place as f64 - 0.5 * (bars.len() - 1) as f64;
                0.004 * side * (x_high - x_low)
            });
        let places = || series.points.iter().map(|p| (p.x + shift, p.y));
        let style = colour.stroke_width(width(&series.name));
        chart.draw_series(LineSeries::new(places(), style))?;
        chart.draw_series(series.points.iter().filter_map(|p| {
            let sd = p.sd?;
            let style = colour.mix(0.6).stroke_width(1);
            let x = p.x + shift;
            Some(ErrorBar::new_vertical(x, p.y - sd, p.y, p.y + sd, style, 6))
        }))?;
        // Long curves are smooth; a marker on each point would hide them.
        if series.points.len() <= MARKED_POINTS {
            chart.draw_series(places().map(|at| marker(index, at)))?;
        }
    }
    Ok(())
}

fn is_ours(name: &str) -> bool {
    name.starts_with(OURS)
}

/// Width of a curve.
fn width(name: &str) -> u32 {
    if is_ours(name) { 3 } else { 2 }
}

/// A dot or, beyond the eighth curve, a triangle.
fn marker<'b, C: Clone + 'static>(index: usize, at: C) -> DynElement<'static, SVGBackend<'b>, C> {
    let colour = COLOURS[index % COLOURS.len()].filled();
    if index < COLOURS.len() {
        Circle::new(at, 3, colour).into_dyn()
    } else {
        TriangleMarker::new(at, 5, colour).into_dyn()
    }
}

fn draw_legend(names: &[&str], area: &Area<'_>) -> Result<()> {
    for (index, name) in names.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let y = 48 + 22 * index as i32;
        let style = colour.stroke_width(width(name));
        area.draw(&PathElement::new([(6, y), (30, y)], style))?;
        area.draw(&marker(index, (18, y)))?;
        let style = ("sans-serif", 14).into_font();
        area.draw(&Text::new((*name).to_owned(), (36, y - 6), style))?;
    }
    Ok(())
}

/// The range of intervals with a margin; 0 to 1 when there are none.
fn range(intervals: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let widest = (f64::INFINITY, f64::NEG_INFINITY);
    let (low, high) = intervals.fold(widest, |(l, h), (a, b)| (l.min(a), h.max(b)));
    if low > high {
        return (0.0, 1.0);
    }
    let margin = if high > low { 0.06 * (high - low) } else { 0.5 };
    (low - margin, high + margin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_holds_its_curves_and_its_numbers() {
        let point = |x: f64| Point {
            x,
            y: x * x,
            sd: Some(0.1),
        };
        let panel = |title: &str| Panel {
            title: title.into(),
            x_label: "fraction".into(),
            y_label: "AUC".into(),
            series: vec![
                Series {
                    name: "one".into(),
                    points: [0.1, 0.5].map(point).to_vec(),
                },
                Series {
                    name: "two".into(),
                    points: vec![Point {
                        x: 0.5,
                        y: 1.0,
                        sd: None,
                    }],
                },
            ],
        };
        let figure = lines("f", "F", "", &[panel("left"), panel("right")]).unwrap();
        assert!(figure.svg.starts_with("<svg") && figure.svg.trim_end().ends_with("</svg>"));
        for text in ["left", "right", "fraction", "AUC", "one", "two"] {
            assert!(figure.svg.contains(text), "{text} is not in the picture");
        }
        assert_eq!(figure.rows.len(), 6);
        assert_eq!(figure.rows[1], ["left", "one", "0.5", "0.25", "0.1"]);
        assert_eq!(figure.rows[5], ["right", "two", "0.5", "1", ""]);
    }

    #[test]
    fn ours_is_wide_and_in_front() {
        let series = |name: &str, y: f64| Series {
            name: name.into(),
            points: [1.0, 2.0].map(|x| Point { x, y, sd: None }).to_vec(),
        };
        let panel = Panel {
            title: String::new(),
            x_label: String::new(),
            y_label: String::new(),
            series: vec![series("npb:ours", 0.0), series("theirs", 1.0)],
        };
        let svg = lines("f", "F", "", &[panel]).unwrap().svg;
        let curve = |colour: &str, width: u32| {
            let style = format!("stroke=\"{colour}\" stroke-width=\"{width}\"");
            svg.find(&style)
        };
        let (ours, theirs) = (curve("#000000", 3), curve("#D55E00", 2));
        assert!(theirs.is_some() && ours > theirs, "{ours:?} {theirs:?}");
    }

    #[test]
    fn an_empty_panel_is_still_a_picture() {
        let panel = Panel {
            title: "empty".into(),
            x_label: String::new(),
            y_label: String::new(),
            series: vec![],
        };
        assert!(lines("f", "F", "", &[panel]).unwrap().svg.contains("empty"));
    }
}
