//! Top-level labels one by one, lower sticks integrated out (step 2 of the paper, partially collapsed).

use npb_infer::Xoshiro256PlusPlus;
use rand::RngExt;

use super::sticks::Sticks;
use crate::state::ColumnState;
use crate::urn::{self, label_weight, label_weights};

/// Lower labels of one column in the top-level clusters, with the predictive weight of every label.
struct Counts {
    n_labels: usize,
    /// `counts[r * n_labels + k]`.
    counts: Vec<usize>,
    totals: Vec<usize>,
    /// Predictive weights, laid out like the counts.
    weights: Vec<f64>,
}

impl Counts {
    fn new(column: &ColumnState, top_labels: &[u32]) -> Self {
        let n_labels = urn::n_labels(&column.labels);
        let n_top = urn::n_labels(top_labels);
        let mut counts = vec![0; n_top * n_labels];
        let mut totals = vec![0; n_top];
        for (&r, &k) in top_labels.iter().zip(&column.labels) {
            counts[r as usize * n_labels + k as usize] += 1;
            totals[r as usize] += 1;
        }
        let mut counts = Self {
            n_labels,
            counts,
            totals,
            weights: vec![0.0; n_top * n_labels],
        };
        (0..n_top).for_each(|r| counts.weigh(column, r));
        counts
    }

    /// Computes the predictive weights of a top-level cluster.
    fn weigh(&mut self, column: &ColumnState, r: usize) {
        let range = r * self.n_labels..(r + 1) * self.n_labels;
        let counts = &self.counts[range.clone()];
        let beta = column.concentration(r);
        label_weights(counts, self.totals[r], beta, &mut self.weights[range]);
    }

    fn grow(&mut self, column: &ColumnState, n_top: usize) {
        for r in self.totals.len()..n_top {
            self.totals.push(0);
            self.counts.resize((r + 1) * self.n_labels, 0);
            self.weights.resize((r + 1) * self.n_labels, 0.0);
            self.weigh(column, r);
        }
    }

    /// The weight of a label in a cluster from which one row with it has been taken.
    fn weight_without(&self, column: &ColumnState, r: usize, label: usize) -> f64 {
        let counts = &self.counts[r * self.n_labels..][..self.n_labels];
        label_weight(counts, self.totals[r], column.concentration(r), label)
    }
}

/// Draws the top labels of one block in turn: P(c_0 = r) ∝ 1(u < λ_r) ∏_j w_rj(c_j), with w of (15) from the other rows.
///
/// `grow(column, n)` makes concentrations of top-level clusters up to n.
pub(super) fn draw_top_labels(
    alpha: f64,
    top_labels: &mut [u32],
    columns: &mut [&mut ColumnState],
    grow: &mut dyn FnMut(&mut ColumnState, usize, &mut Xoshiro256PlusPlus),
    rng: &mut Xoshiro256PlusPlus,
) {
    let mut sticks = Sticks::default();
    sticks.draw(&urn::counts(top_labels), alpha, rng);
    let mut tables: Vec<Counts> = columns.iter().map(|c| Counts::new(c, top_labels)).collect();
    let mut candidates: Vec<usize> = Vec::new();
    let mut weights: Vec<f64> = Vec::new();
    for row in 0..top_labels.len() {
        let old = top_labels[row] as usize;
        let u = rng.random::<f64>() * sticks.weights[old];
        while sticks.rest(sticks.len()) > u {
            sticks.extend_to(sticks.len() + 1, alpha, rng);
        }
        candidates.clear();
        candidates.extend((0..sticks.len()).filter(|&r| sticks.weights[r] > u || r == old));
        if let [_] = candidates[..] {
            continue;
        }
        if let Some(&last) = candidates.last()
            && last
                >= tables
                    .first()
                    .map_or(usize::MAX, |table| table.totals.len())
        {
            for (column, table) in columns.iter_mut().zip(&mut tables) {
                grow(column, last + 1, rng);
                table.grow(column, last + 1);
            }
        }
        weights.clear();
        weights.resize(candidates.len(), 1.0);
        for (j, (column, table)) in columns.iter().zip(&mut tables).enumerate() {
            let label = column.labels[row] as usize;
            table.counts[old * table.n_labels + label] -= 1;
            table.totals[old] -= 1;
            for (weight, &r) in weights.iter_mut().zip(&candidates) {
                *weight *= if r == old {
                    table.weight_without(column, r, label)
                } else {
                    table.weights[r * table.n_labels + label]
                };
            }
            // A product of eight weights stays far inside the range of f64.
            if j % 8 == 7 {
                let largest = weights.iter().fold(0.0, |a: f64, &b| a.max(b));
                weights.iter_mut().for_each(|w| *w /= largest);
            }
        }
        let total: f64 = weights.iter().sum();
        let mut left = rng.random::<f64>() * total;
        let mut new = old;
        for (&weight, &r) in weights.iter().zip(&candidates) {
            left -= weight;
            if left < 0.0 {
                new = r;
                break;
            }
        }
        top_labels[row] = new as u32;
        for (column, table) in columns.iter().zip(&mut tables) {
            let label = column.labels[row] as usize;
            table.counts[new * table.n_labels + label] += 1;
            table.totals[new] += 1;
            if new != old {
                table.weigh(column, old);
                table.weigh(column, new);
            }
        }
    }
}
