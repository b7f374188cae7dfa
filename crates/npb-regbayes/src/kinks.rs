//! The exact minimum of `L + loss` in one indicator: entropy plus a convex piecewise linear function.

use crate::dense::sigmoid;

/// A kink on the way: distance from the present place, and how much the slope changes there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kink {
    pub(crate) distance: f64,
    pub(crate) jump: f64,
}

/// Where `p ln p + (1 - p) ln (1 - p) - p ln_odds + h(p)` is smallest, `h` convex and piecewise linear.
///
/// `slopes`: those of h just below and just above the present `psi`. The minimum lies between `psi` and where the present slope would send it;
/// `kinks(sign, reach)` are those that close, nearest first, when one moves up (`sign = 1`) or down (-1).
pub(crate) fn minimise(
    ln_odds: f64,
    psi: f64,
    [below, above]: [f64; 2],
    kinks: impl FnOnce(f64, f64, &mut Vec<Kink>),
    scratch: &mut Vec<Kink>,
) -> f64 {
    let (up, down) = (sigmoid(ln_odds - above), sigmoid(ln_odds - below));
    let (sign, mut slope, mut target) = if up > psi {
        (1.0, above, up)
    } else if down < psi {
        (-1.0, below, down)
    } else {
        return psi;
    };
    scratch.clear();
    kinks(sign, (target - psi).abs(), scratch);
    for kink in scratch.iter() {
        if sign * (target - psi) <= kink.distance {
            return target;
        }
        slope += sign * kink.jump;
        target = sigmoid(ln_odds - slope);
        if sign * (target - psi) <= kink.distance {
            return psi + sign * kink.distance;
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    /// h(p) = 3 |p - 0.4| + 2 max(0, p - 0.7).
    fn h(p: f64) -> f64 {
        3.0 * (p - 0.4).abs() + 2.0 * (p - 0.7).max(0.0)
    }

    fn from(ln_odds: f64, psi: f64) -> f64 {
        let slope = |p: f64| (if p > 0.4 { 3.0 } else { -3.0 }) + if p > 0.7 { 2.0 } else { 0.0 };
        let kinks = |sign: f64, reach: f64, out: &mut Vec<Kink>| {
            for (place, jump) in [(0.4, 6.0), (0.7, 2.0)] {
                let distance = sign * (place - psi);
                if distance > 0.0 && distance < reach {
                    out.push(Kink { distance, jump });
                }
            }
            out.sort_by(|a, b| a.distance.total_cmp(&b.distance));
        };
        minimise(
            ln_odds,
            psi,
            [slope(psi - 1e-9), slope(psi + 1e-9)],
            kinks,
            &mut Vec::new(),
        )
    }

    #[test]
    fn the_minimum_is_that_of_a_fine_grid_from_wherever_one_starts() {
        for ln_odds in [-6.0, -3.0, -1.0, 0.0, 2.0, 3.2, 4.5, 5.2, 7.0] {
            let value = |p: f64| p * p.ln() + (1.0 - p) * (1.0 - p).ln() - p * ln_odds + h(p);
            let grid = (1..20_000).map(|g| f64::from(g) / 20_000.0);
            let best = grid.min_by(|&a, &b| value(a).total_cmp(&value(b))).unwrap();
            for psi in [0.05, 0.39, 0.55, 0.9] {
                let found = from(ln_odds, psi);
                assert!(
                    (found - best).abs() < 1e-4,
                    "{ln_odds} from {psi}: {found}, {best}"
                );
            }
        }
    }
}
