//! The legend, and what a layer looks like in it and in its panel.

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::look::{Area, Drawn, Look, Y_LABELS};
use crate::colours::{BANDS, Colour, PALETTE, band_colour};
use crate::panel::{Layer, Panel, Shape};
use crate::text::line;

/// Height of a line of the legend below panels.
const LINE: u32 = 26;
/// Width of one colour of a heat map.
const PATCH: i32 = 14;

/// Layers with an entry, in order of first appearance.
pub(super) struct Legend<'a> {
    entries: Vec<&'a Layer>,
}

/// What marks and lines of a layer look like.
pub(super) struct Style {
    pub(super) colour: RGBColor,
    /// Of a line through points.
    pub(super) width: u32,
    /// Triangles in the place of discs.
    second_round: bool,
}

impl<'a> Legend<'a> {
    pub(super) fn of(panels: &'a [Panel]) -> Self {
        let mut entries: Vec<&Layer> = Vec::new();
        for layer in panels.iter().flat_map(|panel| &panel.layers) {
            if !entries.iter().any(|other| other.name == layer.name) {
                entries.push(layer);
            }
        }
        Self { entries }
    }

    /// A layer has the same style in all panels.
    pub(super) fn style(&self, layer: &Layer) -> Style {
        let mut of_palette = self.entries.iter().filter(|e| e.colour.is_none());
        let index = of_palette.position(|other| other.name == layer.name);
        let index = index.unwrap_or(0);
        Style {
            colour: rgb(layer.colour.unwrap_or(PALETTE[index % PALETTE.len()])),
            width: if layer.emphasised { 3 } else { 2 },
            second_round: layer.colour.is_none() && index >= PALETTE.len(),
        }
    }

    /// Width of the widest entry, with a sample of so many pixels.
    fn entry_width(&self, length: i32) -> u32 {
        let characters = |layer: &Layer| line(&layer.name).chars().count() as u32;
        let width = |layer: &&Layer| sample_width(layer, length) as u32 + 8 * characters(layer);
        self.entries.iter().map(width).max().unwrap_or(0)
    }

    /// Its width to the right of panels.
    pub(super) fn width(&self) -> u32 {
        self.entry_width(24) + 26
    }

    /// Its height below panels of this width.
    pub(super) fn strip(&self, width: u32) -> u32 {
        let lines = self.entries.len().div_ceil(self.per_line(width));
        LINE * lines as u32 + 12
    }

    /// How many entries of one width stand side by side below panels of this width.
    pub(super) fn per_line(&self, width: u32) -> usize {
        ((width - Y_LABELS) / (self.entry_width(30) + 30)).max(1) as usize
    }

    /// Draws so many entries in a line.
    pub(super) fn draw(&self, look: &Look, per_line: usize, area: &Area<'_>) -> Drawn {
        let to_the_right = look.per_line.is_none();
        let column = self.entry_width(30) + 30;
        for (index, layer) in self.entries.iter().enumerate() {
            let (row, place) = ((index / per_line) as i32, (index % per_line) as u32);
            let (x, y, length) = match to_the_right {
                true => (6, 48 + 22 * row, 24),
                false => {
                    let y = LINE as i32 * row + LINE as i32 / 2;
                    ((Y_LABELS + column * place) as i32, y, 30)
                }
            };
            draw_sample(layer, &self.style(layer), (x, y), length, area)?;
            let (gap, rise, letters) = if to_the_right { (6, 6, 14) } else { (8, 7, 17) };
            let at = (x + sample_width(layer, length) + gap, y - rise);
            let font = ("sans-serif", letters).into_font();
            area.draw(&Text::new(line(&layer.name), at, font))?;
        }
        Ok(())
    }
}

fn sample_width(layer: &Layer, length: i32) -> i32 {
    match layer.shape {
        Shape::Cells(_) => PATCH * BANDS as i32,
        _ => length,
    }
}

/// What a layer looks like, to the right of a place.
fn draw_sample(
    layer: &Layer,
    style: &Style,
    (x, y): (i32, i32),
    length: i32,
    area: &Area<'_>,
) -> Drawn {
    let path = vec![(x, y), (x + length, y)];
    let patch = |left: i32, colour: RGBColor| {
        Rectangle::new([(left, y - 8), (left + PATCH, y + 8)], colour.filled())
    };
    let mark = || marker(&layer.shape, style, (x + length / 2, y));
    match &layer.shape {
        Shape::Line(_) => {
            area.draw(&PathElement::new(
                path,
                style.colour.stroke_width(style.width),
            ))?;
            area.draw(&mark())?;
        }
        Shape::Dots(_) | Shape::Triangles(_) | Shape::Crosses(_) => area.draw(&mark())?,
        Shape::Curves(_, width) => {
            // A single thin line would be hard to see.
            let style = style.colour.stroke_width((*width).max(2));
            area.draw(&PathElement::new(path, style))?;
        }
        Shape::Dashed(_) => {
            let style = style.colour.stroke_width(2);
            area.draw(&DashedPathElement::new(path, 7, 5, style))?;
        }
        Shape::Bars(_) => area.draw(&patch(x + (length - PATCH) / 2, style.colour))?,
        Shape::Cells(_) => {
            for band in 0..BANDS {
                let left = x + PATCH * band as i32;
                area.draw(&patch(left, rgb(band_colour(band))))?;
            }
        }
    }
    Ok(())
}

/// A point's mark, in a panel or in the legend.
pub(super) fn marker<'b, C: Clone + 'static>(
    shape: &Shape,
    style: &Style,
    at: C,
) -> DynElement<'static, SVGBackend<'b>, C> {
    let filled = style.colour.filled();
    match shape {
        Shape::Crosses(_) => Cross::new(at, 7, style.colour.stroke_width(3)).into_dyn(),
        Shape::Triangles(_) => TriangleMarker::new(at, 5, filled).into_dyn(),
        _ if style.second_round => TriangleMarker::new(at, 5, filled).into_dyn(),
        _ => Circle::new(at, 3, filled).into_dyn(),
    }
}

pub(super) fn rgb(Colour(red, green, blue): Colour) -> RGBColor {
    RGBColor(red, green, blue)
}
