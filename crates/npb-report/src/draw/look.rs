//! Where panels and their legend stand.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

/// Where panels and their legend stand, and what surrounds them: all sizes in pixels.
pub(super) struct Look {
    pub(super) panel: (u32, u32),
    /// Panels in a line; all of them when `None`.
    pub(super) per_line: Option<usize>,
    /// A mesh behind what is drawn, headings in the middle.
    pub(super) mesh: bool,
    pub(super) x_labels: u32,
    /// Sizes of letters: at ticks, and of labels.
    pub(super) letters: [u32; 2],
}

pub(super) const SIDE_BY_SIDE: Look = Look {
    panel: (640, 480),
    per_line: None,
    mesh: true,
    x_labels: 44,
    letters: [14, 16],
};
pub(super) const IN_TWOS: Look = Look {
    panel: (620, 408),
    per_line: Some(2),
    mesh: false,
    x_labels: 46,
    letters: [16, 18],
};
pub(super) const Y_LABELS: u32 = 64;
pub(super) const TITLE: u32 = 20;
pub(super) const TOP: u32 = 34;
pub(super) const LEFT: u32 = 4;
/// Lines with more points than this have no marks: they are smooth, and marks would hide them.
pub(super) const MARKED_POINTS: usize = 24;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Chart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
