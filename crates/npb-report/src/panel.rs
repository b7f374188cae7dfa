//! What a picture is made of: panels, layers in them, shapes of layers.

use crate::colours::{Colour, band};
use crate::error::ReportError;

/// A place in a plane.
pub type At = [f64; 2];

/// One coordinate system.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Heading.
    pub title: String,
    /// Labels of the horizontal and of the vertical axis.
    pub labels: [String; 2],
    /// Range of the horizontal axis; `None` for that of the layers with a margin.
    pub x: Option<(f64, f64)>,
    /// Range of the vertical axis; `None` for that of the layers with a margin.
    pub y: Option<(f64, f64)>,
    /// What is in it.
    pub layers: Vec<Layer>,
}

impl Panel {
    /// Layers in a window with given ranges, back to front.
    pub fn new(
        title: impl Into<String>,
        labels: [&str; 2],
        x: (f64, f64),
        y: (f64, f64),
        layers: Vec<Layer>,
    ) -> Self {
        Self {
            x: Some(x),
            y: Some(y),
            ..Self::of_lines(title, labels, layers)
        }
    }

    /// Layers in a window that holds all of them.
    pub fn of_lines(
        title: impl Into<String>,
        labels: [&str; 2],
        layers: impl IntoIterator<Item = Layer>,
    ) -> Self {
        Self {
            title: title.into(),
            labels: labels.map(str::to_owned),
            x: None,
            y: None,
            layers: layers.into_iter().collect(),
        }
    }

    /// The ranges of both axes.
    pub(crate) fn window(&self) -> Result<[(f64, f64); 2], ReportError> {
        let axis = |axis: &'static str, given: Option<(f64, f64)>, k: usize| {
            let extents = || self.layers.iter().flat_map(|layer| layer.shape.extents());
            let (low, high) = given.unwrap_or_else(|| range(extents().map(|e| e[k])));
            // Closer ends would be one number to whoever places ticks between them.
            let least = 1e-9 * low.abs().max(high.abs());
            if (high - low).is_finite() && high - low > least {
                return Ok((low, high));
            }
            let panel = self.title.clone();
            Err(ReportError::Range {
                panel,
                axis,
                low,
                high,
            })
        };
        Ok([axis("horizontal", self.x, 0)?, axis("vertical", self.y, 1)?])
    }
}

/// Things of one kind; layers of one name share an entry of the legend.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Its entry in the legend.
    pub name: String,
    /// Its colour; without one, the next of the palette, the same in all panels.
    pub colour: Option<Colour>,
    /// Drawn wider than others.
    pub emphasised: bool,
    /// What is drawn.
    pub shape: Shape,
}

impl Layer {
    /// A shape with its entry in the legend.
    pub fn new(name: impl Into<String>, colour: Colour, shape: Shape) -> Self {
        Self {
            name: name.into(),
            colour: Some(colour),
            emphasised: false,
            shape,
        }
    }

    /// A curve through points, in a colour of the palette.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = Point>) -> Self {
        Self {
            name: name.into(),
            colour: None,
            emphasised: false,
            shape: Shape::Line(points.into_iter().collect()),
        }
    }
}

/// Curves of points that belong to a name each, in order of the names' first appearance.
pub fn by_name(points: impl IntoIterator<Item = (String, Point)>) -> Vec<Layer> {
    let mut curves: Vec<(String, Vec<Point>)> = Vec::new();
    for (name, point) in points {
        match curves.iter_mut().find(|(other, _)| *other == name) {
            Some((_, points)) => points.push(point),
            None => curves.push((name, vec![point])),
        }
    }
    let layer = |(name, points): (String, Vec<Point>)| Layer::line(name, points);
    curves.into_iter().map(layer).collect()
}

/// What a layer draws. Numbers that are not finite are left out.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A curve through points with error bars; the points are marked while they are few.
    Line(Vec<Point>),
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
    /// A heat map.
    Cells(Cells),
}

/// One point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
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

    /// Half the length of the error bar, where there is one to draw.
    pub(crate) fn bar(&self) -> Option<f64> {
        self.sd.filter(|sd| sd.is_finite())
    }
}

/// Bars that stand on zero.
#[derive(Clone, Debug)]
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

/// A heat map: values on a grid that fills the panel, row by row from below.
#[derive(Clone, Debug)]
pub struct Cells {
    /// Cells side by side.
    pub columns: usize,
    /// Values, row by row.
    pub values: Vec<f64>,
    /// Values of the first colour and of the last; what is beyond has these.
    pub range: (f64, f64),
}

impl Cells {
    /// Probabilities, from 0 to 1.
    pub fn probabilities(columns: usize, values: Vec<f64>) -> Self {
        Self {
            columns,
            values,
            range: (0.0, 1.0),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.values.len() / self.columns
    }

    /// The step of a value's colour; none for what is no number.
    pub(crate) fn band(&self, value: f64) -> Option<usize> {
        let (low, high) = self.range;
        value
            .is_finite()
            .then(|| band((value - low) / (high - low)))
    }

    pub(crate) fn check(&self, layer: &str) -> Result<(), ReportError> {
        let (low, high) = self.range;
        let whole = self.columns > 0 && self.values.len().is_multiple_of(self.columns);
        if whole && low < high && (high - low).is_finite() {
            return Ok(());
        }
        Err(ReportError::Cells {
            layer: layer.to_owned(),
            values: self.values.len(),
            columns: self.columns,
            low,
            high,
        })
    }
}

impl Shape {
    /// How far each thing reaches: lower and upper end, across and up. Those of a heat map are one unit by one.
    pub(crate) fn extents(&self) -> Vec<[(f64, f64); 2]> {
        let place = |&[x, y]: &At| [(x, x), (y, y)];
        match self {
            Self::Line(points) => {
                let ends = |p: &Point| {
                    let sd = p.bar().unwrap_or(0.0);
                    [(p.x, p.x), (p.y - sd, p.y + sd)]
                };
                points.iter().map(ends).filter(is_finite).collect()
            }
            Self::Dots(points) | Self::Triangles(points) | Self::Crosses(points) => {
                points.iter().map(place).filter(is_finite).collect()
            }
            Self::Curves(curves, _) | Self::Dashed(curves) => {
                let points = curves.iter().flatten();
                points.map(place).filter(is_finite).collect()
            }
            Self::Bars(Bars {
                bars,
                sds,
                width,
                shift,
            }) => {
                let ends = |(i, &[x, y]): (usize, &At)| {
                    let x = x + shift;
                    let sd = sds.get(i).copied().filter(|sd| sd.is_finite());
                    let (low, high) = (x - 0.5 * width, x + 0.5 * width);
                    [(low, high), (y.min(0.0), y.max(0.0) + sd.unwrap_or(0.0))]
                };
                let all = bars.iter().enumerate().map(ends);
                all.filter(is_finite).collect()
            }
            Self::Cells(cells) => {
                let size = [(0.0, cells.columns as f64), (0.0, cells.rows() as f64)];
                let any = cells.values.iter().any(|value| value.is_finite());
                any.then_some(size).into_iter().collect()
            }
        }
    }

    /// How many places are given, finite or not.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Line(points) => points.is_empty(),
            Self::Dots(points) | Self::Triangles(points) | Self::Crosses(points) => {
                points.is_empty()
            }
            Self::Curves(curves, _) | Self::Dashed(curves) => curves.iter().all(Vec::is_empty),
            Self::Bars(bars) => bars.bars.is_empty(),
            Self::Cells(cells) => cells.values.is_empty(),
        }
    }
}

fn is_finite(extent: &[(f64, f64); 2]) -> bool {
    extent.iter().all(|(a, b)| a.is_finite() && b.is_finite())
}

/// The range of intervals with a margin; 0 to 1 when there are none.
fn range(intervals: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let widest = (f64::INFINITY, f64::NEG_INFINITY);
    let (low, high) = intervals.fold(widest, |(l, h), (a, b)| (l.min(a), h.max(b)));
    if low > high {
        return (0.0, 1.0);
    }
    let size = low.abs().max(high.abs());
    let margin = match high - low > 1e-8 * size {
        true => 0.06 * (high - low),
        // One number, or as good as one.
        false => f64::max(0.5, 1e-6 * size),
    };
    (low - margin, high + margin)
}

/// Centres of the cells of a grid, row by row from below.
pub fn centres(columns: usize, rows: usize, x: (f64, f64), y: (f64, f64)) -> Vec<At> {
    let at = |(low, high): (f64, f64), index: usize, n: usize| {
        low + (high - low) * (index as f64 + 0.5) / n as f64
    };
    let row = |j: usize| (0..columns).map(move |i| [at(x, i, columns), at(y, j, rows)]);
    (0..rows).flat_map(row).collect()
}
