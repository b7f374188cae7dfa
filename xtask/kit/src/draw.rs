//! Pictures of planes, bars and curves: panels in a grid and one legend, as SVG with their numbers.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use npb_catalogue::Result;

use crate::report::Figure;

/// A place in a plane.
pub type At = [f64; 2];

/// Okabe and Ito's colours, which stay apart for colour-blind readers.
pub mod colours {
    use plotters::style::RGBColor;

    /// Black.
    pub const BLACK: RGBColor = RGBColor(0, 0, 0);
    /// Grey.
    pub const GREY: RGBColor = RGBColor(130, 130, 130);
    /// Blue.
    pub const BLUE: RGBColor = RGBColor(0, 114, 178);
    /// Vermillion.
    pub const VERMILLION: RGBColor = RGBColor(213, 94, 0);
    /// Green.
    pub const GREEN: RGBColor = RGBColor(0, 158, 115);
    /// Purple.
    pub const PURPLE: RGBColor = RGBColor(204, 121, 167);
    /// Orange.
    pub const ORANGE: RGBColor = RGBColor(230, 159, 0);
}

/// One coordinate system.
pub struct Panel {
    /// Heading.
    pub title: String,
    /// Label of the horizontal axis.
    pub x_label: String,
    /// Label of the vertical axis.
    pub y_label: String,
    /// Range of the horizontal axis.
    pub x: (f64, f64),
    /// Range of the vertical axis.
    pub y: (f64, f64),
    /// Back to front.
    pub layers: Vec<Layer>,
}

impl Panel {
    /// Layers under a heading, with the labels and ranges of both axes.
    pub fn new(
        title: impl Into<String>,
        [x_label, y_label]: [&str; 2],
        x: (f64, f64),
        y: (f64, f64),
        layers: Vec<Layer>,
    ) -> Self {
        Self {
            title: title.into(),
            x_label: x_label.to_owned(),
            y_label: y_label.to_owned(),
            x,
            y,
            layers,
        }
    }
}

/// Things of one kind; layers of one name share an entry of the legend.
pub struct Layer {
    /// Its entry in the legend.
    pub name: String,
    /// Its colour.
    pub colour: RGBColor,
    /// What is drawn.
    pub shape: Shape,
}

impl Layer {
    /// A shape with its entry in the legend.
    pub fn new(name: impl Into<String>, colour: RGBColor, shape: Shape) -> Self {
        Self {
            name: name.into(),
            colour,
            shape,
        }
    }
}

/// What a layer draws.
pub enum Shape {
    /// Discs.
    Dots(Vec<At>),
    /// Triangles.
    Triangles(Vec<At>),
    /// Crosses.
    Crosses(Vec<At>),
    /// Curves, with the width of their lines.
    Curves(Vec<Vec<At>>, u32),
    /// Dashed curves.
    Dashed(Vec<Vec<At>>),
    /// Bars.
    Bars(Bars),
    /// A field of cells.
    Cells(Cells),
}

/// Bars that stand on zero.
pub struct Bars {
    /// Place and height.
    pub bars: Vec<At>,
    /// Half the lengths of error bars, or none.
    pub sds: Vec<f64>,
    /// Width of a bar.
    pub width: f64,
    /// How far to the right of their places they are drawn.
    pub shift: f64,
}

/// Probabilities on a grid that fills the panel, row by row from below.
pub struct Cells {
    /// Cells side by side.
    pub columns: usize,
    /// Values from 0 to 1, row by row.
    pub probabilities: Vec<f64>,
}

/// Pixels of a panel and of what is around its coordinates.
const PANEL: (u32, u32) = (620, 408);
const TOP: u32 = 34;
const RIGHT: u32 = 12;
const LEFT: u32 = 4;
const BOTTOM: u32 = 8;
const X_LABELS: u32 = 46;
const Y_LABELS: u32 = 64;
const LEGEND_LINE: u32 = 26;
/// Colours of probabilities: as many steps as the legend can tell apart.
const BANDS: usize = 10;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Panels in rows of two; the legend takes the place of the fourth panel when there are three, else a strip below.
pub fn picture(name: &str, title: &str, caption: &str, panels: &[Panel]) -> Result<Figure> {
    let columns = panels.len().clamp(1, 2);
    let rows = panels.len().div_ceil(2) as u32;
    let width = PANEL.0 * columns as u32;
    let entries = entries(panels);
    let has_gap = !panels.len().is_multiple_of(columns);
    let (per_line, strip) = if has_gap {
        (1, 0)
    } else {
        let per_line = ((width - Y_LABELS) / entry_width(&entries)).max(1) as usize;
        (
            per_line,
            LEGEND_LINE * entries.len().div_ceil(per_line) as u32 + 12,
        )
    };
    let mut svg = String::new();
    {
        let size = (width, PANEL.1 * rows + strip);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        let place = |index: usize| {
            let (row, column) = (index / columns, index % columns);
            (PANEL.0 * column as u32, PANEL.1 * row as u32)
        };
        for (index, panel) in panels.iter().enumerate() {
            draw(panel, &root.clone().shrink(place(index), PANEL))?;
        }
        let (x, y) = place(panels.len());
        let (at, size) = if has_gap {
            ((x, y + TOP), PANEL)
        } else {
            ((0, y), (width, strip))
        };
        let legend = root.clone().shrink(at, size);
        draw_legend(&entries, per_line, &legend)?;
        root.present()?;
    }
    let header = ["panel", "series", "item", "x", "y", "sd", "value"];
    Ok(Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        svg,
        header: header.map(str::to_owned).to_vec(),
        rows: panels.iter().flat_map(numbers).collect(),
    })
}

fn draw(panel: &Panel, area: &Area<'_>) -> Result<()> {
    let title = ("sans-serif", 20).into_font();
    let at = ((LEFT + Y_LABELS) as i32, 8);
    area.draw(&Text::new(panel.title.clone(), at, title))?;
    let mut chart = ChartBuilder::on(area)
        .margin_top(TOP)
        .margin_right(RIGHT)
        .margin_bottom(BOTTOM)
        .margin_left(LEFT)
        .x_label_area_size(X_LABELS)
        .y_label_area_size(Y_LABELS)
        .build_cartesian_2d(panel.x.0..panel.x.1, panel.y.0..panel.y.1)?;
    for layer in &panel.layers {
        draw_layer(layer, panel, &mut chart)?;
    }
    // After the layers, so that filled cells do not hide the axes.
    chart
        .configure_mesh()
        .disable_mesh()
        .x_label_formatter(&|x| tick(*x))
        .y_label_formatter(&|y| tick(*y))
        .x_desc(&panel.x_label)
        .y_desc(&panel.y_label)
        .label_style(("sans-serif", 16))
        .axis_desc_style(("sans-serif", 18))
        .draw()?;
    Ok(())
}

/// A number at an axis: no decimals that say nothing, nor those that come of rounding.
pub(crate) fn tick(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

fn draw_layer(layer: &Layer, panel: &Panel, chart: &mut Chart<'_, '_>) -> Result<()> {
    let inside = |&&[x, y]: &&At| {
        (panel.x.0..=panel.x.1).contains(&x) && (panel.y.0..=panel.y.1).contains(&y)
    };
    let colour = layer.colour;
    match &layer.shape {
        Shape::Dots(points) | Shape::Triangles(points) | Shape::Crosses(points) => {
            let marks = points.iter().filter(inside);
            chart.draw_series(marks.map(|&[x, y]| mark(layer, (x, y))))?;
        }
        Shape::Curves(curves, width) => {
            for part in curves.iter().flat_map(|c| clip(c, panel.x, panel.y)) {
                let points = part.into_iter().map(|[x, y]| (x, y));
                chart.draw_series(LineSeries::new(points, colour.stroke_width(*width)))?;
            }
        }
        Shape::Dashed(curves) => {
            for part in curves.iter().flat_map(|c| clip(c, panel.x, panel.y)) {
                let points = part.into_iter().map(|[x, y]| (x, y));
                let style = colour.stroke_width(2);
                chart.draw_series(DashedLineSeries::new(points, 7, 5, style))?;
            }
        }
        Shape::Bars(bars) => draw_bars(bars, colour, panel.y.1 - panel.y.0, chart)?,
        Shape::Cells(cells) => {
            let runs = runs(cells, panel.x, panel.y);
            let boxes = runs.map(|(low, high, band)| {
                Rectangle::new(
                    [(low[0], low[1]), (high[0], high[1])],
                    band_colour(band).filled(),
                )
            });
            chart.draw_series(boxes)?;
        }
    }
    Ok(())
}

fn draw_bars(bars: &Bars, colour: RGBColor, height: f64, chart: &mut Chart<'_, '_>) -> Result<()> {
    let Bars {
        bars,
        sds,
        width,
        shift,
    } = bars;
    let boxes = bars.iter().map(|[x, y]| {
        let (left, right) = (x + shift - 0.5 * width, x + shift + 0.5 * width);
        Rectangle::new([(left, 0.0), (right, *y)], colour.filled())
    });
    chart.draw_series(boxes)?;
    // An error bar shorter than a line is wide would only be a blot.
    let visible = bars.iter().zip(sds).filter(|(_, sd)| **sd > 0.005 * height);
    for ([x, y], sd) in visible {
        let (x, low, high) = (x + shift, (y - sd).max(0.0), y + sd);
        let cap = |y: f64| vec![(x - 0.25 * width, y), (x + 0.25 * width, y)];
        for path in [vec![(x, low), (x, high)], cap(low), cap(high)] {
            chart.draw_series([PathElement::new(path, BLACK.stroke_width(2))])?;
        }
    }
    Ok(())
}

/// A point's mark, in a panel or in the legend.
fn mark<'b, C: Clone + 'static>(layer: &Layer, at: C) -> DynElement<'static, SVGBackend<'b>, C> {
    let filled = layer.colour.filled();
    match layer.shape {
        Shape::Triangles(_) => TriangleMarker::new(at, 5, filled).into_dyn(),
        Shape::Crosses(_) => Cross::new(at, 7, layer.colour.stroke_width(3)).into_dyn(),
        _ => Circle::new(at, 3, filled).into_dyn(),
    }
}

/// Layers with an entry in the legend, in order of first appearance.
fn entries(panels: &[Panel]) -> Vec<&Layer> {
    let mut entries: Vec<&Layer> = Vec::new();
    for layer in panels.iter().flat_map(|panel| &panel.layers) {
        if !entries.iter().any(|other| other.name == layer.name) {
            entries.push(layer);
        }
    }
    entries
}

/// Width of a sample in the legend.
fn sample_width(layer: &Layer) -> u32 {
    match layer.shape {
        Shape::Cells(_) => 14 * BANDS as u32,
        _ => 30,
    }
}

/// Width of the widest entry.
fn entry_width(entries: &[&Layer]) -> u32 {
    let width = |layer: &&Layer| sample_width(layer) + 8 * layer.name.chars().count() as u32 + 30;
    entries.iter().map(width).max().unwrap_or(1)
}

fn draw_legend(entries: &[&Layer], per_line: usize, area: &Area<'_>) -> Result<()> {
    for (index, layer) in entries.iter().enumerate() {
        let x = (Y_LABELS + entry_width(entries) * (index % per_line) as u32) as i32;
        let y = (LEGEND_LINE * (index / per_line) as u32 + LEGEND_LINE / 2) as i32;
        draw_sample(layer, (x, y), area)?;
        let style = ("sans-serif", 17).into_font();
        let at = (x + sample_width(layer) as i32 + 8, y - 7);
        area.draw(&Text::new(layer.name.clone(), at, style))?;
    }
    Ok(())
}

/// What a layer looks like, to the right of a place.
fn draw_sample(layer: &Layer, (x, y): (i32, i32), area: &Area<'_>) -> Result<()> {
    let line = vec![(x, y), (x + 30, y)];
    let patch = |left: i32, colour: RGBColor| {
        Rectangle::new([(left, y - 8), (left + 14, y + 8)], colour.filled())
    };
    match &layer.shape {
        Shape::Dots(_) | Shape::Triangles(_) | Shape::Crosses(_) => {
            area.draw(&mark(layer, (x + 15, y)))?;
        }
        Shape::Curves(_, width) => {
            // A single thin line would be hard to see.
            let style = layer.colour.stroke_width((*width).max(2));
            area.draw(&PathElement::new(line, style))?;
        }
        Shape::Dashed(_) => {
            let style = layer.colour.stroke_width(2);
            area.draw(&DashedPathElement::new(line, 7, 5, style))?;
        }
        Shape::Bars(_) => area.draw(&patch(x + 8, layer.colour))?,
        Shape::Cells(_) => {
            for band in 0..BANDS {
                area.draw(&patch(x + 14 * band as i32, band_colour(band)))?;
            }
        }
    }
    Ok(())
}

/// The numbers of a panel: point by point, bar by bar, cell by cell.
fn numbers(panel: &Panel) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for layer in &panel.layers {
        let mut add = |item: usize, [x, y]: At, sd: Option<f64>, value: Option<f64>| {
            let optional = |v: Option<f64>| v.map_or(String::new(), |v| v.to_string());
            let names = [panel.title.clone(), layer.name.clone()];
            let numbers = [x.to_string(), y.to_string(), optional(sd), optional(value)];
            rows.push(
                [
                    names.to_vec(),
                    vec![(item + 1).to_string()],
                    numbers.to_vec(),
                ]
                .concat(),
            );
        };
        match &layer.shape {
            Shape::Dots(points) | Shape::Triangles(points) | Shape::Crosses(points) => {
                points
                    .iter()
                    .enumerate()
                    .for_each(|(i, &at)| add(i, at, None, None));
            }
            Shape::Curves(curves, _) | Shape::Dashed(curves) => {
                for (i, curve) in curves.iter().enumerate() {
                    curve.iter().for_each(|&at| add(i, at, None, None));
                }
            }
            Shape::Bars(bars) => {
                for (i, &at) in bars.bars.iter().enumerate() {
                    add(i, at, bars.sds.get(i).copied(), None);
                }
            }
            Shape::Cells(cells) => {
                let centres = centres(cells.columns, cells.rows(), panel.x, panel.y);
                for (i, (at, &p)) in centres.into_iter().zip(&cells.probabilities).enumerate() {
                    add(i, at, None, Some(p));
                }
            }
        }
    }
    rows
}

impl Cells {
    fn rows(&self) -> usize {
        self.probabilities.len() / self.columns
    }
}

/// Centres of the cells of a grid, row by row from below.
pub fn centres(columns: usize, rows: usize, x: (f64, f64), y: (f64, f64)) -> Vec<At> {
    let at = |(low, high): (f64, f64), index: usize, n: usize| {
        low + (high - low) * (index as f64 + 0.5) / n as f64
    };
    let row = |j: usize| (0..columns).map(move |i| [at(x, i, columns), at(y, j, rows)]);
    (0..rows).flat_map(row).collect()
}

/// Neighbours in a row that share a band, as boxes: far fewer than cells.
fn runs(cells: &Cells, x: (f64, f64), y: (f64, f64)) -> impl Iterator<Item = (At, At, usize)> {
    let (columns, rows) = (cells.columns, cells.rows());
    let edge = |(low, high): (f64, f64), index: usize, n: usize| {
        low + (high - low) * index as f64 / n as f64
    };
    cells
        .probabilities
        .chunks(columns)
        .enumerate()
        .flat_map(move |(j, row)| {
            let mut start = 0;
            let same = |a: &f64, b: &f64| band(*a) == band(*b);
            let run = move |run: &[f64]| {
                let (from, to) = (start, start + run.len());
                start = to;
                let low = [edge(x, from, columns), edge(y, j, rows)];
                (
                    low,
                    [edge(x, to, columns), edge(y, j + 1, rows)],
                    band(run[0]),
                )
            };
            row.chunk_by(same).map(run)
        })
}

/// The step of a probability's colour.
fn band(probability: f64) -> usize {
    ((probability * BANDS as f64) as usize).min(BANDS - 1)
}

/// From blue through nearly white to vermillion.
fn band_colour(band: usize) -> RGBColor {
    let middle = RGBColor(247, 247, 247);
    let t = 2.0 * (band as f64 + 0.5) / BANDS as f64 - 1.0;
    let end = if t < 0.0 {
        colours::BLUE
    } else {
        colours::VERMILLION
    };
    let mix = |a: u8, b: u8| (f64::from(a) + t.abs() * (f64::from(b) - f64::from(a))).round() as u8;
    RGBColor(
        mix(middle.0, end.0),
        mix(middle.1, end.1),
        mix(middle.2, end.2),
    )
}

/// The parts of a curve inside a window: what is outside would be drawn over the labels.
fn clip(curve: &[At], x: (f64, f64), y: (f64, f64)) -> Vec<Vec<At>> {
    let mut parts: Vec<Vec<At>> = Vec::new();
    for ends in curve.windows(2) {
        let Some([from, to]) = clip_segment(ends[0], ends[1], x, y) else {
            continue;
        };
        match parts.last_mut() {
            Some(part) if part.last() == Some(&from) => part.push(to),
            _ => parts.push(vec![from, to]),
        }
    }
    parts
}

/// Liang and Barsky: the segment is `from + t (to - from)`; each side of the window narrows the range of `t`.
fn clip_segment(from: At, to: At, x: (f64, f64), y: (f64, f64)) -> Option<[At; 2]> {
    let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
    let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
    for (towards, room) in [
        (-dx, from[0] - x.0),
        (dx, x.1 - from[0]),
        (-dy, from[1] - y.0),
        (dy, y.1 - from[1]),
    ] {
        if towards == 0.0 {
            if room < 0.0 {
                return None;
            }
        } else if towards < 0.0 {
            enter = enter.max(room / towards);
        } else {
            leave = leave.min(room / towards);
        }
    }
    let at = |t: f64| match t {
        0.0 => from,
        1.0 => to,
        _ => [from[0] + t * dx, from[1] + t * dy],
    };
    (enter < leave).then(|| [at(enter), at(leave)])
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: (f64, f64) = (0.0, 4.0);
    const Y: (f64, f64) = (0.0, 2.0);

    fn panel(shapes: Vec<Shape>) -> Panel {
        let layer = |(i, shape)| Layer {
            name: format!("layer {i}"),
            colour: colours::GREEN,
            shape,
        };
        Panel {
            title: "plane".into(),
            x_label: "across".into(),
            y_label: "up".into(),
            x: X,
            y: Y,
            layers: shapes.into_iter().enumerate().map(layer).collect(),
        }
    }

    #[test]
    fn a_picture_holds_every_shape_and_its_numbers() {
        let bars = Bars {
            bars: vec![[1.0, 0.5]],
            sds: vec![0.25],
            width: 0.4,
            shift: 0.1,
        };
        let cells = Cells {
            columns: 2,
            probabilities: vec![0.0, 0.5, 1.0, 1.0],
        };
        let shapes = vec![
            Shape::Cells(cells),
            Shape::Bars(bars),
            Shape::Dots(vec![[1.0, 1.0]]),
            Shape::Triangles(vec![[2.0, 1.0]]),
            Shape::Crosses(vec![[3.0, 1.0]]),
            Shape::Curves(vec![vec![[0.0, 0.0], [1.0, 1.0]]], 2),
            Shape::Dashed(vec![vec![[0.0, 1.0], [1.0, 0.0]]]),
        ];
        let figure = picture("f", "F", "", &[panel(shapes), panel(vec![]), panel(vec![])]).unwrap();
        for text in [
            "plane", "across", "up", "layer 0", "layer 6", "<circle", "<polygon", "</svg>",
        ] {
            assert!(figure.svg.contains(text), "{text} is not in the picture");
        }
        assert_eq!(figure.rows.len(), 4 + 1 + 3 + 2 + 2);
        assert_eq!(
            figure.rows[1],
            ["plane", "layer 0", "2", "3", "0.5", "", "0.5"]
        );
        assert_eq!(
            figure.rows[4],
            ["plane", "layer 1", "1", "1", "0.5", "0.25", ""]
        );
    }

    #[test]
    fn runs_cover_every_cell_once() {
        let cells = Cells {
            columns: 4,
            probabilities: vec![0.01, 0.02, 0.5, 0.51, 0.99, 1.0, 1.0, 0.95],
        };
        let runs: Vec<(At, At, usize)> = runs(&cells, X, Y).collect();
        let expected = [
            ([0.0, 0.0], [2.0, 1.0], 0),
            ([2.0, 0.0], [4.0, 1.0], 5),
            ([0.0, 1.0], [4.0, 2.0], 9),
        ];
        assert_eq!(runs, expected);
    }

    #[test]
    fn curves_end_at_the_window() {
        let zigzag = [
            [-1.0, 1.0],
            [1.0, 1.0],
            [1.0, 3.0],
            [2.0, 3.0],
            [2.0, 1.0],
            [2.0, 0.5],
        ];
        let parts = clip(&zigzag, X, Y);
        let expected = [
            vec![[0.0, 1.0], [1.0, 1.0], [1.0, 2.0]],
            vec![[2.0, 2.0], [2.0, 1.0], [2.0, 0.5]],
        ];
        assert_eq!(parts, expected);
        assert!(clip(&[[5.0, 0.0], [5.0, 2.0]], X, Y).is_empty());
        assert!(clip(&[[-1.0, 1.9], [1.0, 3.9]], X, Y).is_empty());
    }

    #[test]
    fn ticks_are_short() {
        let ticks = [0.25, -4.0, 200.0, 0.30000000000000004, -1e-17, 0.0005].map(tick);
        assert_eq!(ticks, ["0.25", "-4", "200", "0.3", "0", "0.0005"]);
    }

    #[test]
    fn sure_probabilities_have_the_strongest_colours() {
        assert_eq!((band(0.0), band(0.5), band(1.0)), (0, BANDS / 2, BANDS - 1));
        let light = |band: usize| u32::from(band_colour(band).1);
        assert!(light(0) < light(4) && light(9) < light(5));
    }
}
