//! The numbers of a panel: point by point, bar by bar, cell by cell.

use super::clip::Window;
use crate::panel::{At, Panel, Shape, centres};

/// Names of the columns.
pub(super) const HEADER: [&str; 7] = ["panel", "series", "item", "x", "y", "sd", "value"];
/// All of them.
pub(super) const ALL: [usize; 7] = [0, 1, 2, 3, 4, 5, 6];

pub(super) fn rows(panel: &Panel, [x, y]: Window) -> Vec<[String; 7]> {
    let mut rows = Vec::new();
    for layer in &panel.layers {
        let mut add = |item: usize, at: At, sd: Option<f64>, value: Option<f64>| {
            let number = |v: Option<f64>| {
                let finite = v.filter(|v| v.is_finite());
                finite.map_or(String::new(), |v| v.to_string())
            };
            rows.push([
                panel.title.clone(),
                layer.name.clone(),
                (item + 1).to_string(),
                number(Some(at[0])),
                number(Some(at[1])),
                number(sd),
                number(value),
            ]);
        };
        match &layer.shape {
            Shape::Line(points) => {
                for (i, point) in points.iter().enumerate() {
                    add(i, [point.x, point.y], point.sd, None);
                }
            }
            Shape::Dots(points) | Shape::Triangles(points) | Shape::Crosses(points) => {
                for (i, &at) in points.iter().enumerate() {
                    add(i, at, None, None);
                }
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
                let centres = centres(cells.columns, cells.rows(), x, y);
                for (i, (at, &value)) in centres.into_iter().zip(&cells.values).enumerate() {
                    add(i, at, None, Some(value));
                }
            }
        }
    }
    rows
}
