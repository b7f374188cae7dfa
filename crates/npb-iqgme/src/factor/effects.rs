//! What a row says of its label whatever its cluster: an effect of its spread, and a step function or a linear effect of each of its features.
//!
//! All of it depends on what is observed of the row alone, so that rows, factors and loadings are updated as without it. Coordinates are the spread, where
//! it is in the model, and then the linear effects or the steps, feature by feature.

use std::iter;

use npb_priors::dist::Gamma;
use npb_priors::special::normal_quantile;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use super::cells::{Cells, SpreadUnits};
use super::config::RowEffects;
use crate::state::gamma;

/// So many labelled rows lie beyond a feature's first and last step at least, or a twentieth of them, if that is less.
const ROWS_BEYOND: usize = 5;
const PART_BEYOND: usize = 20;

/// The bin of a missing cell.
const MISSING: u8 = u8::MAX;

/// The steps of one feature: step k is `(1[x > knot_k] - share_k) / sd_k`, mean and standard deviation those of the labelled rows that have the feature, and 0
/// where the feature is missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Steps {
    /// Increasing.
    knots: Vec<f64>,
    /// Share of labelled rows above each knot.
    shares: Vec<f64>,
}

impl Steps {
    /// `values`: of the labelled rows that have the feature.
    ///
    /// Steps lie where values change, evenly spaced on the normal scale from the first to the last place with enough rows beyond it: features with most of their values in one
    /// have their steps among the others.
    fn new(mut values: Vec<f64>, most: usize) -> Self {
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let beyond = (n / PART_BEYOND).clamp(1, ROWS_BEYOND);
        // Numbers of rows below each change.
        let changes: Vec<usize> = (beyond..=n.saturating_sub(beyond))
            .filter(|&below| values[below - 1] < values[below])
            .collect();
        let score = |below: usize| normal_quantile(below as f64 / n as f64);
        let mut steps = Self {
            knots: Vec::new(),
            shares: Vec::new(),
        };
        let (Some(&first), Some(&last)) = (changes.first(), changes.last()) else {
            return steps;
        };
        let (first, last) = (score(first), score(last));
        for k in 0..most {
            // One step alone is in the middle.
            let part = match most {
                1 => 0.5,
                _ => k as f64 / (most - 1) as f64,
            };
            let below = nearest(&changes, first + (last - first) * part, score);
            let (under, over) = (values[below - 1], values[below]);
            let middle = 0.5 * under + 0.5 * over;
            // No number may lie between the two.
            let knot = if middle < over { middle } else { under };
            if steps.knots.last().is_none_or(|last| *last < knot) {
                steps.knots.push(knot);
                steps.shares.push((n - below) as f64 / n as f64);
            }
        }
        steps
    }

    fn len(&self) -> usize {
        self.knots.len()
    }

    /// Number of knots below a value.
    fn bin(&self, value: f64) -> u8 {
        self.knots.partition_point(|knot| *knot < value) as u8
    }

    /// Step `k` below its knot and above it.
    fn ends(&self, k: usize) -> [f64; 2] {
        let share = self.shares[k];
        let scale = (share * (1.0 - share)).sqrt();
        [-share / scale, (1.0 - share) / scale]
    }

    fn is_valid(&self) -> bool {
        let increasing = self.knots.windows(2).all(|w| w[0] < w[1]);
        self.knots.len() == self.shares.len()
            && self.knots.len() < MISSING.into()
            && self.knots.iter().all(|k| k.is_finite())
            && increasing
            && self.shares.iter().all(|s| *s > 0.0 && *s < 1.0)
    }
}

/// The change whose score, which rises along `changes`, is nearest; the first of two as near. There is one at least.
fn nearest(changes: &[usize], at: f64, score: impl Fn(usize) -> f64) -> usize {
    let after = changes.partition_point(|&below| score(below) < at);
    let (before, after) = (changes.get(after.wrapping_sub(1)), changes.get(after));
    match (before, after) {
        (Some(&before), Some(&after)) if at - score(before) > score(after) - at => after,
        (Some(&before), _) => before,
        (None, _) => changes[0],
    }
}

/// Linear effects of the features' standardised values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Linear {
    /// Prior variance of their sum, the same part of it for each.
    variance: f64,
    /// By feature the least and the greatest value of the labelled rows, to which others are moved.
    ends: Vec<[f64; 2]>,
}

impl Linear {
    fn is_valid(&self, p: usize) -> bool {
        let is_range = |ends: &[f64; 2]| ends[0] <= ends[1] && ends.iter().all(|x| x.is_finite());
        self.ends.len() == p && self.ends.iter().all(is_range)
    }
}

/// The least and the greatest of these values; [0, 0] when there are none.
fn ends(values: &[f64]) -> [f64; 2] {
    let widen = |[least, greatest]: [f64; 2], x: &f64| [least.min(*x), greatest.max(*x)];
    let first = values.first().copied().unwrap_or(0.0);
    values.iter().fold([first; 2], widen)
}

/// `q(v_j) = N(mean, variance)` of what rows say of their labels whatever their clusters, and `q(tau_j)` of the steps among them: the effect of the spread first, where it
/// is in the model, then the steps or the linear effects, feature by feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowEffect {
    /// Prior variance of the sum of linear effects; none where features have steps.
    pub linear: Option<f64>,
    /// Means.
    pub mean: Vec<f64>,
    /// Variances.
    pub variance: Vec<f64>,
    /// Prior precisions of the steps.
    pub precisions: Vec<Gamma>,
}

/// What turns a row into the coordinates of its effects, and their prior.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EffectLaw {
    spread_units: SpreadUnits,
    /// Prior precision of the spread's effect; none when it is left out.
    spread_precision: Option<f64>,
    linear: Option<Linear>,
    /// By feature; empty when they are left out.
    steps: Vec<Steps>,
    /// Of a step's precision.
    step_prior: Gamma,
}

/// The laws of both kinds of effects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Effects {
    steps: EffectLaw,
    linear: EffectLaw,
}

/// The same rows in the coordinates of both.
#[derive(Clone, Debug)]
pub(crate) struct RowsOfBoth {
    steps: EffectRows,
    linear: EffectRows,
}

impl Effects {
    /// The laws that training rows define, of which those in `labelled` have labels.
    pub(crate) fn new(cells: &Cells, labelled: &[usize], config: &RowEffects) -> Self {
        Self {
            steps: EffectLaw::new(cells, labelled, config, None),
            linear: EffectLaw::new(cells, labelled, config, Some(1.0)),
        }
    }

    /// The law of steps, or of linear effects, whose sum then has the prior variance `linear`.
    pub(crate) fn law(&self, linear: Option<f64>) -> EffectLaw {
        let Some(variance) = linear else {
            return self.steps.clone();
        };
        let mut law = self.linear.clone();
        if let Some(linear) = &mut law.linear {
            linear.variance = variance;
        }
        law
    }

    /// Gives the steps the prior of another configuration.
    pub(crate) fn set_step_prior(&mut self, config: &RowEffects) {
        for law in [&mut self.steps, &mut self.linear] {
            law.step_prior = step_prior(&law.steps, config);
        }
    }

    /// Rows of which the members have effects.
    pub(crate) fn rows(&self, cells: &Cells, members: &[usize]) -> RowsOfBoth {
        RowsOfBoth {
            steps: self.steps.rows(cells, members),
            linear: self.linear.rows(cells, members),
        }
    }

    /// Rows to predict, in the units of training.
    pub(crate) fn of(&self, cells: &Cells) -> RowsOfBoth {
        self.rows(cells, &(0..cells.n_rows()).collect::<Vec<_>>())
    }

    /// Whether sizes and values are possible, for laws that come from a file: `p` features.
    pub(crate) fn is_valid(&self, p: usize) -> bool {
        self.steps.is_valid(p) && self.linear.is_valid(p)
    }
}

impl RowsOfBoth {
    /// The rows for [`Effects::law`].
    pub(crate) fn rows(&self, linear: Option<f64>) -> &EffectRows {
        match linear {
            None => &self.steps,
            Some(_) => &self.linear,
        }
    }
}

/// Rows in the coordinates of their effects.
#[derive(Clone, Debug)]
pub(crate) struct EffectRows {
    n_rows: usize,
    /// The rows that have effects: those with labels, when they are rows of training.
    members: Vec<usize>,
    /// By coordinate before the first step: what it is of the members.
    numbers: Vec<Vec<f64>>,
    /// By feature: bins of the members.
    bins: Vec<Vec<u8>>,
    /// By feature: number of members in each bin.
    counts: Vec<Vec<f64>>,
}

impl EffectLaw {
    /// The law that training rows define, of which those in `labelled` have labels: of steps, or of linear effects, whose sum then has the prior variance `linear`.
    pub(crate) fn new(
        cells: &Cells,
        labelled: &[usize],
        config: &RowEffects,
        linear: Option<f64>,
    ) -> Self {
        let spread = config.spread > 0.0 && !labelled.is_empty();
        let mut steps = Vec::new();
        if linear.is_none() && config.steps > 0 && !labelled.is_empty() {
            let of_feature = |values| Steps::new(values, config.steps);
            let observed = cells.observed(&cells.x, labelled);
            steps = observed.into_iter().map(of_feature).collect();
        }
        let linear = linear.filter(|_| !labelled.is_empty());
        Self {
            spread_units: SpreadUnits::of(&cells.ln_spreads),
            spread_precision: spread.then(|| 1.0 / config.spread),
            linear: linear.map(|variance| Linear {
                variance,
                ends: cells
                    .observed(&cells.plain, labelled)
                    .iter()
                    .map(|v| ends(v))
                    .collect(),
            }),
            step_prior: step_prior(&steps, config),
            steps,
        }
    }

    /// Rows of which the members have effects.
    fn rows(&self, cells: &Cells, members: &[usize]) -> EffectRows {
        let patterns = &cells.patterns;
        let bins_of = |(j, steps): (usize, &Steps)| -> Vec<u8> {
            let bin = |&i: &usize| steps.bin(cells.x[(i, j)]);
            members.iter().map(bin).collect()
        };
        let mut bins: Vec<Vec<u8>> = self.steps.iter().enumerate().map(bins_of).collect();
        for (k, &i) in members.iter().enumerate() {
            for &j in &patterns.patterns()[patterns.pattern_of_row(i)].missing {
                if let Some(bins) = bins.get_mut(j) {
                    bins[k] = MISSING;
                }
            }
        }
        let counts = bins.iter().zip(&self.steps).map(|(bins, steps)| {
            let mut counts = vec![0.0; steps.len() + 1];
            let seen = bins.iter().filter(|b| **b != MISSING);
            seen.for_each(|&b| counts[usize::from(b)] += 1.0);
            counts
        });
        EffectRows {
            n_rows: cells.n_rows(),
            members: members.to_vec(),
            numbers: self.numbers(cells, members),
            counts: counts.collect(),
            bins,
        }
    }

    /// The members in the coordinates before the first step; 0 where a feature is missing.
    fn numbers(&self, cells: &Cells, members: &[usize]) -> Vec<Vec<f64>> {
        let mut numbers: Vec<Vec<f64>> = Vec::new();
        if self.spread_precision.is_some() {
            let spreads = self.spread_units.apply(cells);
            numbers.push(members.iter().map(|&i| spreads[i]).collect());
        }
        let first = numbers.len();
        for (j, &[least, greatest]) in self.ends().iter().enumerate() {
            let value = |&i: &usize| cells.plain[(i, j)].clamp(least, greatest);
            numbers.push(members.iter().map(value).collect());
        }
        let patterns = &cells.patterns;
        for (k, &i) in members.iter().enumerate() {
            for &j in &patterns.patterns()[patterns.pattern_of_row(i)].missing {
                if let Some(values) = numbers.get_mut(first + j) {
                    values[k] = 0.0;
                }
            }
        }
        numbers
    }

    /// Prior variance of the sum of linear effects; none for steps.
    pub(crate) fn linear(&self) -> Option<f64> {
        self.linear.as_ref().map(|linear| linear.variance)
    }

    /// Ends of the features with linear effects.
    fn ends(&self) -> &[[f64; 2]] {
        self.linear.as_ref().map_or(&[], |linear| &linear.ends)
    }

    /// Number of coordinates.
    pub(crate) fn size(&self) -> usize {
        self.first_step() + self.steps.iter().map(Steps::len).sum::<usize>()
    }

    /// The coordinate of the first step.
    pub(crate) fn first_step(&self) -> usize {
        usize::from(self.spread_precision.is_some()) + self.ends().len()
    }

    /// Prior precisions of the coordinates before the first step.
    fn known_precisions(&self) -> impl Iterator<Item = f64> {
        let linear = self.linear.iter();
        let linear =
            linear.flat_map(|l| iter::repeat_n(l.ends.len() as f64 / l.variance, l.ends.len()));
        self.spread_precision.into_iter().chain(linear)
    }

    /// Everything at its prior's scale, nothing said yet.
    pub(crate) fn first(&self) -> RowEffect {
        let steps = self.size() - self.first_step();
        let variance = self.step_prior.rate() / self.step_prior.shape();
        let known = self.known_precisions().map(|precision| 1.0 / precision);
        RowEffect {
            linear: self.linear.as_ref().map(|linear| linear.variance),
            mean: vec![0.0; self.size()],
            variance: known.chain(vec![variance; steps]).collect(),
            precisions: vec![self.step_prior; steps],
        }
    }

    /// A draw from the prior: coordinates, and precisions of the steps.
    pub(crate) fn draw_prior(&self, rng: &mut impl Rng) -> (Vec<f64>, Vec<f64>) {
        let steps = self.size() - self.first_step();
        let precisions: Vec<f64> = (0..steps).map(|_| self.step_prior.sample(rng)).collect();
        let all = self.known_precisions().chain(precisions.iter().copied());
        let mut draw =
            |precision: f64| rng.sample::<f64, _>(StandardNormal) / precision.sqrt().max(1e-150);
        (all.map(&mut draw).collect(), precisions)
    }

    /// Gives every coordinate in turn a new value, the others as they are: `choose` gets its coordinate, mean and variance. `left`: what the scores leave to these effects, by row;
    /// `precisions`: of the steps a priori.
    pub(crate) fn go_round(
        &self,
        rows: &EffectRows,
        left: &[f64],
        precisions: &[f64],
        values: &mut [f64],
        mut choose: impl FnMut(usize, f64, f64) -> f64,
    ) {
        let now = self.at(rows, values);
        let mut rest: Vec<f64> = rows.members.iter().map(|&i| left[i] - now[i]).collect();
        for (k, (precision, numbers)) in self.known_precisions().zip(&rows.numbers).enumerate() {
            let (mut square, mut linear) = (0.0, 0.0);
            for (x, rest) in numbers.iter().zip(&rest) {
                square += x * x;
                linear += x * rest;
            }
            let variance = 1.0 / (precision + square);
            let chosen = choose(k, variance * (linear + square * values[k]), variance);
            let by = chosen - values[k];
            values[k] = chosen;
            for (rest, x) in rest.iter_mut().zip(numbers) {
                *rest -= by * x;
            }
        }
        let mut coordinate = self.first_step();
        for (j, steps) in self.steps.iter().enumerate() {
            let (bins, counts) = (&rows.bins[j], &rows.counts[j]);
            if steps.len() == 0 {
                continue;
            }
            let mut sums = vec![0.0; steps.len() + 1];
            for (&bin, rest) in bins.iter().zip(&rest) {
                if bin != MISSING {
                    sums[usize::from(bin)] += rest;
                }
            }
            let square: f64 = counts.iter().sum();
            let mut moved = vec![0.0; steps.len() + 1];
            for k in 0..steps.len() {
                let [below, above] = steps.ends(k);
                let precision = precisions[coordinate - self.first_step()];
                let (under, over) = sums.split_at(k + 1);
                let linear = below * under.iter().sum::<f64>() + above * over.iter().sum::<f64>();
                let variance = 1.0 / (precision + square);
                let old = values[coordinate];
                let chosen = choose(coordinate, variance * (linear + square * old), variance);
                values[coordinate] = chosen;
                for b in 0..sums.len() {
                    let by = (chosen - old) * if b > k { above } else { below };
                    moved[b] += by;
                    sums[b] -= counts[b] * by;
                }
                coordinate += 1;
            }
            for (rest, &bin) in rest.iter_mut().zip(bins) {
                if bin != MISSING {
                    *rest -= moved[usize::from(bin)];
                }
            }
        }
    }

    /// `q(v)` of every coordinate in turn.
    pub(crate) fn update(&self, rows: &EffectRows, left: &[f64], effect: &mut RowEffect) {
        let precisions: Vec<f64> = effect.precisions.iter().map(Gamma::mean).collect();
        let variances = &mut effect.variance;
        self.go_round(
            rows,
            left,
            &precisions,
            &mut effect.mean,
            |k, mean, variance| {
                variances[k] = variance;
                mean
            },
        );
    }

    /// `q(tau)` of every step.
    pub(crate) fn update_precisions(&self, effect: &mut RowEffect) {
        let first = self.first_step();
        for (k, precision) in effect.precisions.iter_mut().enumerate() {
            let mean = effect.mean[first + k];
            *precision = self.precision(mean * mean + effect.variance[first + k]);
        }
    }

    /// The law of a step's precision given the step's (expected) square.
    fn precision(&self, square: f64) -> Gamma {
        gamma(
            self.step_prior.shape() + 0.5,
            self.step_prior.rate() + 0.5 * square,
        )
    }

    /// Draws the precisions of the steps given these.
    pub(crate) fn draw_precisions(&self, values: &[f64], rng: &mut impl Rng) -> Vec<f64> {
        let steps = values[self.first_step()..].iter();
        steps.map(|u| self.precision(u * u).sample(rng)).collect()
    }

    /// Effects of each row at these coordinates; 0 for a row that is not a member.
    pub(crate) fn at(&self, rows: &EffectRows, values: &[f64]) -> Vec<f64> {
        self.sum(rows, values, |x| x)
    }

    /// Variances of the effects of each row.
    pub(crate) fn variances(&self, rows: &EffectRows, variances: &[f64]) -> Vec<f64> {
        self.sum(rows, variances, |x| x * x)
    }

    /// These variances, those of linear effects and steps set to 0.
    pub(crate) fn spread_alone(&self, variances: &[f64]) -> Vec<f64> {
        let kept = usize::from(self.spread_precision.is_some());
        let keep = |(k, v): (usize, &f64)| if k < kept { *v } else { 0.0 };
        variances.iter().enumerate().map(keep).collect()
    }

    /// By row: the sum over coordinates of `power` of the row's place times the coordinate's value.
    fn sum(&self, rows: &EffectRows, values: &[f64], power: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; rows.members.len()];
        for (numbers, value) in rows.numbers.iter().zip(values) {
            for (sum, x) in sums.iter_mut().zip(numbers) {
                *sum += power(*x) * value;
            }
        }
        let mut next = self.first_step();
        for (steps, bins) in self.steps.iter().zip(&rows.bins) {
            let own = &values[next..next + steps.len()];
            next += steps.len();
            let mut in_bins = vec![0.0_f64; steps.len() + 1];
            for (k, value) in own.iter().enumerate() {
                let [below, above] = steps.ends(k).map(|x| power(x) * value);
                let (under, over) = in_bins.split_at_mut(k + 1);
                under.iter_mut().for_each(|sum| *sum += below);
                over.iter_mut().for_each(|sum| *sum += above);
            }
            for (sum, &bin) in sums.iter_mut().zip(bins) {
                if bin != MISSING {
                    *sum += in_bins[usize::from(bin)];
                }
            }
        }
        let mut by_row = vec![0.0; rows.n_rows];
        for (&i, sum) in rows.members.iter().zip(sums) {
            by_row[i] = sum;
        }
        by_row
    }

    /// Divergence of `q(v)` and `q(tau)` from their priors.
    pub(crate) fn divergence(&self, effect: &RowEffect) -> f64 {
        let known: Vec<f64> = self.known_precisions().collect();
        let mut sum = 0.0;
        for (k, (mean, variance)) in effect.mean.iter().zip(&effect.variance).enumerate() {
            let (precision, ln_precision) = match k.checked_sub(known.len()) {
                None => (known[k], known[k].ln()),
                Some(step) => {
                    let law = &effect.precisions[step];
                    sum += law.kl(&self.step_prior);
                    (law.mean(), law.mean_ln())
                }
            };
            sum +=
                0.5 * (precision * (mean * mean + variance) - ln_precision - variance.ln() - 1.0);
        }
        sum
    }

    /// Whether sizes and values are possible, for a law that comes from a file: `p` features.
    fn is_valid(&self, p: usize) -> bool {
        let SpreadUnits { location, scale } = self.spread_units;
        location.is_finite()
            && scale.is_finite()
            && scale > 0.0
            && self.known_precisions().all(|s| s.is_finite() && s > 0.0)
            && (self.linear.as_ref()).is_none_or(|linear| linear.is_valid(p))
            && (self.steps.is_empty() || self.steps.len() == p)
            && self.steps.iter().all(Steps::is_valid)
    }

    /// Whether a posterior that comes from a file can be of this law.
    pub(crate) fn fits(&self, effect: &RowEffect) -> bool {
        let size = self.size();
        effect.linear == self.linear()
            && self.known_precisions().all(|s| s.is_finite() && s > 0.0)
            && effect.mean.len() == size
            && effect.variance.len() == size
            && effect.precisions.len() == size - self.first_step()
            && effect.mean.iter().all(|v| v.is_finite())
            && (effect.variance.iter()).all(|v| v.is_finite() && *v > 0.0)
    }
}

/// The prior of each step's precision; `steps`: of all features.
fn step_prior(steps: &[Steps], config: &RowEffects) -> Gamma {
    let n_steps: usize = steps.iter().map(Steps::len).sum();
    let rate = config.shape * config.variance / n_steps.max(1) as f64;
    gamma(config.shape, rate)
}

impl EffectRows {
    pub(crate) fn n_rows(&self) -> usize {
        self.n_rows
    }
}

impl RowEffect {
    /// A draw of the coordinates.
    pub(crate) fn draw(&self, rng: &mut impl Rng) -> Vec<f64> {
        let each = self.mean.iter().zip(&self.variance);
        each.map(|(mean, variance)| mean + variance.sqrt() * rng.sample::<f64, _>(StandardNormal))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use npb_data::{Mask, Table};
    use npb_infer::stream;
    use npb_linalg::Cholesky;
    use npb_linalg::faer::Mat;

    use super::*;

    #[test]
    fn steps_lie_between_values_and_are_standardised() {
        let seen: Vec<f64> = (0..40).map(|k| f64::from((k * 17) % 40)).collect();
        let steps = Steps::new(seen.clone(), 9);
        assert_eq!(steps.len(), 9);
        for k in 0..9 {
            let at = |v: &f64| steps.ends(k)[usize::from(usize::from(steps.bin(*v)) > k)];
            let (mean, square) = seen
                .iter()
                .fold((0.0, 0.0), |(m, s), v| (m + at(v), s + at(v).powi(2)));
            assert!(mean.abs() < 1e-9 && (square - 40.0).abs() < 1e-9, "{k}");
        }
        assert!(steps.is_valid());
        assert!(steps.shares[0] == 38.0 / 40.0 && steps.shares[8] == 2.0 / 40.0);
        // Where most values are one, the steps are among the others, to five rows from the end.
        let mostly_zero = (0..100).map(|k| f64::from((k - 80).max(0))).collect();
        let steps = Steps::new(mostly_zero, 9);
        assert!(
            steps.len() >= 7 && steps.knots[0] == 0.5,
            "{:?}",
            steps.knots
        );
        assert_eq!(steps.shares.last(), Some(&0.05));
        // Two values have one step between them, one value has none.
        assert_eq!(Steps::new(vec![1.0, 3.0, 3.0], 9).knots, [2.0]);
        assert_eq!(Steps::new(vec![5.0; 7], 9).len(), 0);
        assert_eq!(Steps::new(vec![], 9).len(), 0);
        // No number lies between these two.
        let close = Steps::new(vec![1.0, 1.0, 1.0 + f64::EPSILON], 1);
        assert_eq!((close.bin(1.0), close.bin(1.0 + f64::EPSILON)), (0, 1));
    }

    #[test]
    fn going_round_ends_at_the_joint_posterior_mean() {
        let (n, p) = (30, 4);
        let mut rng = stream(3, [0; 4]);
        let mut normal = || -> f64 { rng.sample(StandardNormal) };
        let values: Vec<f64> = (0..n * p).map(|_| normal()).collect();
        let left: Vec<f64> = (0..n).map(|_| normal()).collect();
        let mask = Mask::from_fn(n, p, |i, j| (2 * i + 3 * j) % 7 > 0).unwrap();
        let table = Table::from_parts(values, mask).unwrap();
        let plain = table.map(|_, _, x| x.powi(3)).unwrap();
        let cells = Cells::new(&table, &plain);
        let labelled: Vec<usize> = (0..n).filter(|i| i % 5 > 0).collect();
        let effects = Effects::new(&cells, &labelled, &RowEffects::default());
        assert!(effects.is_valid(p));
        let rows = effects.rows(&cells, &labelled);
        let new = effects.of(&cells);
        for linear in [None, Some(8.0)] {
            let law = effects.law(linear);
            assert!(if linear.is_some() {
                law.size() == 1 + p
            } else {
                law.size() > 20
            });
            check_going_round(
                &law,
                [rows.rows(linear), new.rows(linear)],
                &left,
                &labelled,
            );
        }
    }

    /// `rows`: of training, and the same to predict.
    fn check_going_round(
        law: &EffectLaw,
        [rows, new]: [&EffectRows; 2],
        left: &[f64],
        labelled: &[usize],
    ) {
        let (n, size) = (left.len(), law.size());
        assert!(law.fits(&law.first()));
        let known: Vec<f64> = law.known_precisions().collect();
        let precisions: Vec<f64> = (known.len()..size).map(|k| 1.0 + (k % 3) as f64).collect();
        // The spread's precision, and that of four effects whose sum has variance 8.
        assert!(known[0] == 1.0 && known[1..].iter().all(|precision| *precision == 0.5));
        let mut found = vec![0.0; size];
        for _ in 0..5000 {
            law.go_round(rows, left, &precisions, &mut found, |_, mean, _| mean);
        }
        // The coordinates of the rows, one by one.
        let unit = |k: usize| {
            let one: Vec<f64> = (0..size).map(|l| f64::from(u8::from(l == k))).collect();
            law.at(rows, &one)
        };
        let coordinates: Vec<Vec<f64>> = (0..size).map(unit).collect();
        let precision = Mat::from_fn(size, size, |k, l| {
            let own = match (k == l, k.checked_sub(known.len())) {
                (false, _) => 0.0,
                (true, None) => known[k],
                (true, Some(step)) => precisions[step],
            };
            own + (0..n)
                .map(|i| coordinates[k][i] * coordinates[l][i])
                .sum::<f64>()
        });
        let mut wanted: Vec<f64> = coordinates
            .iter()
            .map(|c| c.iter().zip(left).map(|(c, t)| c * t).sum())
            .collect();
        Cholesky::new(precision.as_ref())
            .unwrap()
            .solve(&mut wanted);
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
        }
        // Rows to predict are as those of training; variances add up squares.
        let (of_new, of_old) = (law.at(new, &found), law.at(rows, &found));
        let variances = law.variances(rows, &vec![0.5; size]);
        for &i in labelled {
            assert_eq!(of_new[i], of_old[i]);
            let squares: f64 = coordinates.iter().map(|c| c[i] * c[i]).sum();
            assert!((variances[i] - 0.5 * squares).abs() < 1e-9);
        }
        assert!((0..n).step_by(5).all(|i| of_old[i] == 0.0));
    }

    #[test]
    fn values_beyond_the_labelled_rows_are_moved_to_their_range() {
        let table = |values: Vec<f64>| Table::from_nan_coded(values.len(), 1, &values).unwrap();
        let cells = |values: &[f64]| Cells::new(&table(values.to_vec()), &table(values.to_vec()));
        let training = cells(&[-1.0, 2.0, 0.5, 9.0]);
        let effects = Effects::new(&training, &[0, 1, 2], &RowEffects::default());
        let law = effects.law(Some(1.0));
        let rows = effects.of(&cells(&[-5.0, -1.0, 0.5, 2.0, 9.0, 1e100, f64::NAN]));
        let found = law.at(rows.rows(Some(1.0)), &[0.0, 3.0]);
        assert_eq!(found, [-3.0, -3.0, 1.5, 6.0, 6.0, 6.0, 0.0]);
    }
}
