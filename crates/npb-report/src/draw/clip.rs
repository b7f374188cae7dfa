//! What lies inside a window: all else would be drawn over the labels.

use crate::panel::{At, Cells};

/// Ranges across and up.
pub(super) type Window = [(f64, f64); 2];

pub(super) fn is_inside(&[x, y]: &At, [across, up]: Window) -> bool {
    (across.0..=across.1).contains(&x) && (up.0..=up.1).contains(&y)
}

/// The parts of a curve inside a window. A point that is not finite ends one.
pub(super) fn clip(curve: &[At], window: Window) -> Vec<Vec<At>> {
    let mut parts: Vec<Vec<At>> = Vec::new();
    for ends in curve.windows(2) {
        let Some([from, to]) = clip_segment(ends[0], ends[1], window) else {
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
fn clip_segment(from: At, to: At, [x, y]: Window) -> Option<[At; 2]> {
    if !from.iter().chain(&to).all(|v| v.is_finite()) {
        return None;
    }
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

/// Neighbours in a row of a heat map that share a colour, as boxes (far fewer than cells) with the step of the colour. What is no number is left out.
pub(super) fn runs(cells: &Cells, [x, y]: Window) -> impl Iterator<Item = (At, At, usize)> {
    let (columns, rows) = (cells.columns, cells.rows());
    let edge = |(low, high): (f64, f64), index: usize, n: usize| {
        low + (high - low) * index as f64 / n as f64
    };
    let all = cells.values.chunks(columns).enumerate();
    all.flat_map(move |(j, row)| {
        let mut start = 0;
        let same = |a: &f64, b: &f64| cells.band(*a) == cells.band(*b);
        let run = move |run: &[f64]| {
            let (from, to) = (start, start + run.len());
            start = to;
            let low = [edge(x, from, columns), edge(y, j, rows)];
            let high = [edge(x, to, columns), edge(y, j + 1, rows)];
            Some((low, high, cells.band(run[0])?))
        };
        row.chunk_by(same).filter_map(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = [(0.0, 4.0), (0.0, 2.0)];

    #[test]
    fn runs_cover_every_cell_that_is_a_number_once() {
        let values = vec![0.01, 0.02, 0.5, 0.51, 0.99, 1.0, f64::NAN, 0.95];
        let cells = Cells::probabilities(4, values);
        let runs: Vec<(At, At, usize)> = runs(&cells, WINDOW).collect();
        let expected = [
            ([0.0, 0.0], [2.0, 1.0], 0),
            ([2.0, 0.0], [4.0, 1.0], 5),
            ([0.0, 1.0], [2.0, 2.0], 9),
            ([3.0, 1.0], [4.0, 2.0], 9),
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
        let parts = clip(&zigzag, WINDOW);
        let expected = [
            vec![[0.0, 1.0], [1.0, 1.0], [1.0, 2.0]],
            vec![[2.0, 2.0], [2.0, 1.0], [2.0, 0.5]],
        ];
        assert_eq!(parts, expected);
        assert!(clip(&[[5.0, 0.0], [5.0, 2.0]], WINDOW).is_empty());
        assert!(clip(&[[-1.0, 1.9], [1.0, 3.9]], WINDOW).is_empty());
    }

    #[test]
    fn curves_have_gaps_where_there_is_no_number() {
        for hole in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let curve = [[0.0, 1.0], [1.0, 1.0], [2.0, hole], [3.0, 1.0], [4.0, 1.0]];
            let expected = [vec![[0.0, 1.0], [1.0, 1.0]], vec![[3.0, 1.0], [4.0, 1.0]]];
            assert_eq!(clip(&curve, WINDOW), expected);
        }
    }
}
