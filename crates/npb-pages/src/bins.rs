//! Numbers in bins: histograms, and means by tenths.

use npb_report::{Bars, Colour, Figure, Layer, Panel, Point, Shape, picture};

use crate::Result;

/// Bins of a histogram.
const BINS: usize = 24;
/// Parts of equal size by which means are shown.
const PARTS: usize = 10;

/// Numbers of one kind.
pub(crate) struct Kind<'a> {
    pub(crate) name: &'a str,
    pub(crate) colour: Colour,
    pub(crate) values: &'a [f64],
}

/// Shares of the numbers of each kind by bin; nothing where there is no number. `words`: name, title, what to look for.
pub(crate) fn histogram(
    [name, title, look]: [&str; 3],
    axis: &str,
    kinds: &[Kind<'_>],
) -> Result<Option<Figure>> {
    let all = || {
        kinds
            .iter()
            .flat_map(|kind| kind.values)
            .filter(|v| v.is_finite())
    };
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    let (low, high) = all().fold(ends, |(l, h), &v| (l.min(v), h.max(v)));
    if low > high {
        return Ok(None);
    }
    // Ends that cannot be told apart on an axis are one.
    let margin = match high - low > 1e-4 * low.abs().max(high.abs()) {
        true => 0.0,
        false => 0.5 * low.abs().max(1.0),
    };
    let (low, width) = (low - margin, (high - low + 2.0 * margin) / BINS as f64);
    let mut layers = Vec::new();
    for (k, kind) in kinds.iter().enumerate() {
        let finite: Vec<f64> = kind
            .values
            .iter()
            .copied()
            .filter(|v| v.is_finite())
            .collect();
        let mut counts = [0; BINS];
        for value in &finite {
            counts[(((value - low) / width) as usize).min(BINS - 1)] += 1;
        }
        let n = finite.len().max(1) as f64;
        let bar = |(b, &count): (usize, &usize)| [low + (b as f64 + 0.5) * width, count as f64 / n];
        let part = width / kinds.len() as f64;
        let shape = Shape::Bars(Bars {
            bars: counts.iter().enumerate().map(bar).collect(),
            sds: Vec::new(),
            width: part,
            shift: (k as f64 + 0.5) * part - 0.5 * width,
        });
        layers.push(Layer::new(kind.name, kind.colour, shape));
    }
    let panel = Panel::of_lines("", [axis, "share"], layers);
    Ok(Some(picture(name, title, look, &[panel])?))
}

/// Means of `y` with their standard errors against means of `x`, in parts of equal size by `x`.
pub(crate) fn by_tenths(pairs: &[(f64, f64)]) -> Vec<Point> {
    let mut pairs = pairs.to_vec();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let size = pairs.len().div_ceil(PARTS).max(1);
    let point = |part: &[(f64, f64)]| {
        let n = part.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| part.iter().map(of).sum::<f64>() / n;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let squares: f64 = part.iter().map(|p| (p.1 - y).powi(2)).sum();
        let sd = (part.len() > 1).then(|| (squares / (n - 1.0) / n).sqrt());
        Point { x, y, sd }
    };
    pairs.chunks(size).map(point).collect()
}

/// The places of the `n` largest numbers, largest first; of equals the first.
pub(crate) fn largest(values: &[f64], n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    order.truncate(n);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_report::colours;

    #[test]
    fn bins_hold_the_shares() {
        let kind = |values| Kind {
            name: "k",
            colour: colours::BLUE,
            values,
        };
        let words = ["h", "H", ""];
        let figure = histogram(words, "x", &[kind(&[0.0, 1.0, 24.0, f64::NAN])]);
        let figure = figure.unwrap().unwrap();
        let shares: Vec<f64> = figure
            .rows
            .iter()
            .map(|row| row[4].parse().unwrap())
            .collect();
        assert_eq!(shares.len(), BINS);
        // 24 bins from 0 to 24: the middle of the first is at a half.
        assert_eq!(figure.rows[0][3], "0.5");
        let third = 1.0 / 3.0;
        assert_eq!(
            (shares[0], shares[1], shares[BINS - 1]),
            (third, third, third)
        );
        assert!(
            histogram(words, "x", &[kind(&[f64::NAN])])
                .unwrap()
                .is_none()
        );
        // One number.
        assert!(
            histogram(words, "x", &[kind(&[7.0, 7.0])])
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn tenths_have_the_means_of_their_parts() {
        let pairs: Vec<(f64, f64)> = (0..20)
            .rev()
            .map(|i| (f64::from(i), f64::from(2 * i)))
            .collect();
        let points = by_tenths(&pairs);
        assert_eq!(points.len(), 10);
        // 0 and 2: mean 1, standard error of two that are 2 apart 1.
        assert_eq!(
            (points[0].x, points[0].y, points[0].sd),
            (0.5, 1.0, Some(1.0))
        );
        assert!(by_tenths(&[]).is_empty());
        assert_eq!(largest(&[1.0, 3.0, 2.0, 3.0], 3), [1, 3, 2]);
    }
}
