//! Panels and one legend, as SVG with their numbers.

mod clip;
mod legend;
mod look;
mod numbers;

use plotters::prelude::*;

use crate::colours::band_colour;
use crate::error::ReportError;
use crate::figure::Figure;
use crate::panel::{At, Bars, Layer, Panel, Point, Shape};
use crate::text::{line, tick};

use clip::{Window, clip, is_inside, runs};
use legend::{Legend, Style, marker, rgb};
use look::{
    Area, Chart, Drawn, IN_TWOS, LEFT, Look, MARKED_POINTS, SIDE_BY_SIDE, TITLE, TOP, Y_LABELS,
};

/// Panels side by side and one legend to their right, which is for curves: the first is in front, those that are emphasised before it. Without a colour of
/// their own, curves beyond the eighth repeat colours with another mark. Layers without points, and panels without layers, are left out.
///
/// # Errors
/// Nothing is left to be seen, a range is none, or a heat map is no rectangle.
pub fn lines(
    name: &str,
    title: &str,
    caption: &str,
    panels: &[Panel],
) -> Result<Figure, ReportError> {
    let mut panels = panels.to_vec();
    for panel in &mut panels {
        panel.layers.retain(|layer| !layer.shape.is_empty());
    }
    panels.retain(|panel| !panel.layers.is_empty());
    let is_line = |layer: &Layer| matches!(layer.shape, Shape::Line(_));
    let columns = match panels.iter().flat_map(|p| &p.layers).all(is_line) {
        true => &[0, 1, 3, 4, 5][..],
        false => &numbers::ALL,
    };
    figure([name, title, caption], &SIDE_BY_SIDE, &panels, columns)
}

/// Panels in lines of two, each layer in front of those before it; the legend takes the place of the fourth panel when there are three, else a strip below.
///
/// # Errors
/// Nothing is to be seen, a range is none, or a heat map is no rectangle.
pub fn picture(
    name: &str,
    title: &str,
    caption: &str,
    panels: &[Panel],
) -> Result<Figure, ReportError> {
    figure([name, title, caption], &IN_TWOS, panels, &numbers::ALL)
}

fn figure(
    words: [&str; 3],
    look: &Look,
    panels: &[Panel],
    columns: &[usize],
) -> Result<Figure, ReportError> {
    let [name, title, caption] = words.map(str::to_owned);
    for layer in panels.iter().flat_map(|panel| &panel.layers) {
        if let Shape::Cells(cells) = &layer.shape {
            cells.check(&layer.name)?;
        }
    }
    let mut shapes = panels.iter().flat_map(|p| &p.layers).map(|l| &l.shape);
    if shapes.all(|shape| shape.extents().is_empty()) {
        return Err(ReportError::Empty { figure: name });
    }
    let windows: Vec<Window> = panels
        .iter()
        .map(Panel::window)
        .collect::<Result<_, ReportError>>()?;
    let mut svg = String::new();
    if let Err(reason) = draw(look, panels, &windows, &mut svg) {
        let (figure, reason) = (name, reason.to_string());
        return Err(ReportError::Drawing { figure, reason });
    }
    let pick = |row: [String; 7]| columns.iter().map(|&k| row[k].clone()).collect();
    let with_window = panels.iter().zip(windows);
    let rows = with_window.flat_map(|(panel, window)| numbers::rows(panel, window));
    Ok(Figure {
        name,
        title,
        caption,
        svg,
        header: pick(numbers::HEADER.map(str::to_owned)),
        rows: rows.map(pick).collect(),
    })
}

fn draw(look: &Look, panels: &[Panel], windows: &[Window], svg: &mut String) -> Drawn {
    let legend = Legend::of(panels);
    let per_line = look.per_line.unwrap_or(panels.len()).min(panels.len());
    let (width, height) = look.panel;
    let place = |index: usize| {
        let (row, column) = (index / per_line, index % per_line);
        (width * column as u32, height * row as u32)
    };
    let all = width * per_line as u32;
    let lines = panels.len().div_ceil(per_line) as u32;
    // Where the legend stands, its entries in a line, and how much larger it makes the picture.
    let (corner, room, columns, right, below) = if look.per_line.is_none() {
        let right = legend.width();
        ((all, 0), (right, height), 1, right, 0)
    } else if !panels.len().is_multiple_of(per_line) {
        let (x, y) = place(panels.len());
        ((x, y + TOP), look.panel, 1, 0, 0)
    } else {
        let (columns, below) = (legend.per_line(all), legend.strip(all));
        ((0, height * lines), (all, below), columns, 0, below)
    };
    let size = (all + right, height * lines + below);
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    root.fill(&WHITE)?;
    for (index, (panel, window)) in panels.iter().zip(windows).enumerate() {
        let area = root.clone().shrink(place(index), look.panel);
        draw_panel(panel, *window, look, &legend, &area)?;
    }
    legend.draw(look, columns, &root.clone().shrink(corner, room))?;
    root.present()
}

fn draw_panel(
    panel: &Panel,
    [x, y]: Window,
    look: &Look,
    legend: &Legend<'_>,
    area: &Area<'_>,
) -> Drawn {
    let title = line(&panel.title);
    let mut builder = ChartBuilder::on(area);
    if look.mesh {
        builder.caption(title, ("sans-serif", TITLE)).margin(12);
    } else {
        let at = ((LEFT + Y_LABELS) as i32, 8);
        area.draw(&Text::new(title, at, ("sans-serif", TITLE).into_font()))?;
        builder.margin_top(TOP).margin_right(12);
        builder.margin_bottom(8).margin_left(LEFT);
    }
    let mut chart = builder
        .x_label_area_size(look.x_labels)
        .y_label_area_size(y_room(y, look))
        .build_cartesian_2d(x.0..x.1, y.0..y.1)?;
    // A mesh lies behind the layers; axes alone before them, so that filled cells do not hide them.
    if look.mesh {
        draw_axes(panel, look, &mut chart)?;
    }
    let shifts = Shifts::of(panel, x);
    for layer in back_to_front(panel, look) {
        let style = legend.style(layer);
        draw_layer(layer, &style, [x, y], shifts.of_layer(layer), &mut chart)?;
    }
    if !look.mesh {
        draw_axes(panel, look, &mut chart)?;
    }
    Ok(())
}

/// Room for the numbers at the vertical axis and its label beside them.
fn y_room((low, high): (f64, f64), look: &Look) -> u32 {
    let decimals = (1.0 - (high - low).log10()).ceil().clamp(0.0, 6.0) as usize;
    let length = |end: f64| {
        tick((end * 10_f64.powi(decimals as i32)).round() / 10_f64.powi(decimals as i32)).len()
    };
    let [at_ticks, of_label] = look.letters;
    let numbers = 0.56 * f64::from(at_ticks) * length(low).max(length(high)) as f64;
    Y_LABELS.max(of_label + 6 + numbers as u32)
}

/// Curves from the last to the first, so that what is named first is in front; what is emphasised in front of all.
fn back_to_front<'a>(panel: &'a Panel, look: &Look) -> Vec<&'a Layer> {
    let mut layers: Vec<&Layer> = panel.layers.iter().collect();
    if look.per_line.is_none() {
        layers.reverse();
        layers.sort_by_key(|layer| layer.emphasised);
    }
    layers
}

fn draw_axes(panel: &Panel, look: &Look, chart: &mut Chart<'_, '_>) -> Drawn {
    let [x_label, y_label] = panel.labels.each_ref().map(|label| line(label));
    let [at_ticks, of_labels] = look.letters;
    let mut mesh = chart.configure_mesh();
    if look.mesh {
        mesh.light_line_style(TRANSPARENT);
    } else {
        mesh.disable_mesh();
    }
    mesh.x_label_formatter(&|x| tick(*x))
        .y_label_formatter(&|y| tick(*y))
        .x_desc(x_label)
        .y_desc(y_label)
        .label_style(("sans-serif", at_ticks))
        .axis_desc_style(("sans-serif", of_labels))
        .draw()
}

/// Error bars of different curves stand side by side.
struct Shifts<'a> {
    names: Vec<&'a str>,
    step: f64,
}

impl<'a> Shifts<'a> {
    fn of(panel: &'a Panel, x: (f64, f64)) -> Self {
        let has_bars = |layer: &&Layer| match &layer.shape {
            Shape::Line(points) => points.iter().any(|p| p.sd.is_some()),
            _ => false,
        };
        let with_bars = panel.layers.iter().filter(has_bars);
        Self {
            names: with_bars.map(|layer| &*layer.name).collect(),
            step: 0.004 * (x.1 - x.0),
        }
    }

    fn of_layer(&self, layer: &Layer) -> f64 {
        let place = self.names.iter().position(|name| *name == layer.name);
        place.map_or(0.0, |place| {
            let side = place as f64 - 0.5 * (self.names.len() - 1) as f64;
            self.step * side
        })
    }
}

fn draw_layer(
    layer: &Layer,
    style: &Style,
    window: Window,
    shift: f64,
    chart: &mut Chart<'_, '_>,
) -> Drawn {
    let colour = style.colour;
    let inside = |at: &&At| is_inside(at, window);
    match &layer.shape {
        Shape::Line(points) => draw_line(points, style, window, shift, chart)?,
        Shape::Dots(points) | Shape::Triangles(points) | Shape::Crosses(points) => {
            let marks = points.iter().filter(inside);
            chart.draw_series(marks.map(|&[x, y]| marker(&layer.shape, style, (x, y))))?;
        }
        Shape::Curves(curves, width) => {
            for part in curves.iter().flat_map(|c| clip(c, window)) {
                let points = part.into_iter().map(|[x, y]| (x, y));
                chart.draw_series(LineSeries::new(points, colour.stroke_width(*width)))?;
            }
        }
        Shape::Dashed(curves) => {
            for part in curves.iter().flat_map(|c| clip(c, window)) {
                let points = part.into_iter().map(|[x, y]| (x, y));
                let style = colour.stroke_width(2);
                chart.draw_series(DashedLineSeries::new(points, 7, 5, style))?;
            }
        }
        Shape::Bars(bars) => draw_bars(bars, colour, window, chart)?,
        Shape::Cells(cells) => {
            let boxes = runs(cells, window).map(|(low, high, band)| {
                let colour = rgb(band_colour(band));
                Rectangle::new([(low[0], low[1]), (high[0], high[1])], colour.filled())
            });
            chart.draw_series(boxes)?;
        }
    }
    Ok(())
}

/// A curve with its error bars and, while they are few, a mark at each of its points.
fn draw_line(
    points: &[Point],
    style: &Style,
    window: Window,
    shift: f64,
    chart: &mut Chart<'_, '_>,
) -> Drawn {
    let places: Vec<At> = points.iter().map(|p| [p.x + shift, p.y]).collect();
    for part in clip(&places, window) {
        let part = part.into_iter().map(|[x, y]| (x, y));
        let line = style.colour.stroke_width(style.width);
        chart.draw_series(LineSeries::new(part, line))?;
    }
    let [_, (low, high)] = window;
    let with_bars = points.iter().zip(&places).filter_map(|(p, at)| {
        let sd = p.bar().filter(|_| is_inside(at, window))?;
        let line = style.colour.mix(0.6).stroke_width(1);
        let [x, y] = *at;
        let (below, above) = ((y - sd).max(low), (y + sd).min(high));
        Some(ErrorBar::new_vertical(x, below, y, above, line, 6))
    });
    chart.draw_series(with_bars)?;
    if points.len() <= MARKED_POINTS {
        let shape = Shape::Line(Vec::new());
        let inside = places.iter().filter(|at| is_inside(at, window));
        chart.draw_series(inside.map(|&[x, y]| marker(&shape, style, (x, y))))?;
    }
    Ok(())
}

fn draw_bars(bars: &Bars, colour: RGBColor, window: Window, chart: &mut Chart<'_, '_>) -> Drawn {
    let [(left, right), (low, high)] = window;
    let Bars { width, shift, .. } = bars;
    let inside = |[x, y]: &At| (left..=right).contains(&(x + shift)) && y.is_finite();
    let boxes = bars.bars.iter().filter(|at| inside(at)).map(|[x, y]| {
        let ends = [x + shift - 0.5 * width, x + shift + 0.5 * width];
        let [from, to] = ends.map(|x| x.clamp(left, right));
        let [foot, top] = [0.0, *y].map(|y: f64| y.clamp(low, high));
        Rectangle::new([(from, foot), (to, top)], colour.filled())
    });
    chart.draw_series(boxes)?;
    // An error bar shorter than a line is wide would only be a blot.
    let shortest = 0.005 * (high - low);
    let visible = |sd: f64| sd > shortest && sd.is_finite();
    let with_sds = bars.bars.iter().zip(&bars.sds);
    for ([x, y], sd) in with_sds.filter(|(at, sd)| inside(at) && visible(**sd)) {
        let (x, below, above) = (x + shift, (y - sd).max(0.0), (y + sd).min(high));
        let cap = |y: f64| vec![(x - 0.25 * width, y), (x + 0.25 * width, y)];
        for path in [vec![(x, below), (x, above)], cap(below), cap(above)] {
            chart.draw_series([PathElement::new(path, BLACK.stroke_width(2))])?;
        }
    }
    Ok(())
}
