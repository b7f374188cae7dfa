//! Top-level labels one by one, lower sticks integrated out (step 2 of the paper, partially collapsed, `docs/itf.md#updates`).

use npb_infer::Xoshiro256PlusPlus;
use rand::RngExt;

use crate::collapsed::{self, CodedTable, FACTORS, scale};
use crate::state::ColumnState;
use crate::sticks::Sticks;

/// Lower labels of the columns in the top-level clusters, with the predictive weight of every label.
struct Weights {
    coded: CodedTable,
    /// Rows with each label in each cluster.
    counts: Vec<f64>,
    /// Predictive weights of one more row.
    more: Vec<f64>,
    /// Those of one of the rows that are there, itself taken out.
    same: Vec<f64>,
    /// Rows of each cluster.
    sizes: Vec<f64>,
}

impl Weights {
    fn new(columns: &[&mut ColumnState], top_labels: &[u32]) -> Self {
        let labels: Vec<&[u32]> = columns.iter().map(|c| &c.labels[..]).collect();
        let coded = CodedTable::new(&labels);
        let mut weights = Self {
            counts: vec![0.0; coded.len()],
            more: vec![0.0; coded.len()],
            same: vec![0.0; coded.len()],
            sizes: Vec::new(),
            coded,
        };
        weights.grow(columns, collapsed::n_labels(top_labels));
        for (row, &r) in top_labels.iter().enumerate() {
            weights.count(row, r as usize, 1.0);
        }
        (0..weights.sizes.len()).for_each(|r| weights.weigh(columns, r));
        weights
    }

    /// Makes room for clusters up to `n`.
    fn grow(&mut self, columns: &[&mut ColumnState], n: usize) {
        let tables = [&mut self.counts, &mut self.more, &mut self.same];
        self.coded.widen(n, tables.map(|table| (table, 0.0)));
        for r in self.sizes.len()..n {
            self.sizes.push(0.0);
            self.weigh(columns, r);
        }
    }

    fn count(&mut self, row: usize, r: usize, by: f64) {
        let width = self.coded.width();
        for &code in self.coded.codes(row) {
            self.counts[code as usize * width + r] += by;
        }
        self.sizes[r] += by;
    }

    /// Computes the predictive weights of a top-level cluster (B (15), corrected).
    fn weigh(&mut self, columns: &[&mut ColumnState], r: usize) {
        let width = self.coded.width();
        for (j, column) in columns.iter().enumerate() {
            let beta = column.concentration(r);
            let mut from = self.sizes[r];
            let (mut rest, mut rest_without) = (1.0, 1.0);
            for code in self.coded.codes_of(j) {
                let (place, m) = (code * width + r, self.counts[code * width + r]);
                let (all, without) = ((1.0 + beta + from).recip(), (beta + from).recip());
                from -= m;
                self.more[place] = rest * (1.0 + m) * all;
                self.same[place] = rest_without * m * without;
                rest *= (beta + from) * all;
                // Used for labels from here on only if there are rows with them.
                rest_without *= (beta + from - 1.0) * without;
            }
        }
    }

    /// Multiplies `weights` by those of a row in the first clusters; it is now in cluster `old`.
    #[inline(always)]
    fn multiply(&self, row: usize, old: usize, weights: &mut [f64]) {
        let width = self.coded.width();
        for (part, codes) in self.coded.codes(row).chunks(FACTORS).enumerate() {
            if part > 0 {
                scale(weights);
            }
            let mut own = weights[old];
            for &code in codes {
                own *= self.same[code as usize * width + old];
            }
            // Four clusters by four, which stay in registers.
            for (at, weights) in weights.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                for &code in codes {
                    let line = &self.more[code as usize * width + 4 * at..][..4];
                    for lane in 0..4 {
                        weights[lane] *= line[lane];
                    }
                }
            }
            weights[old] = own;
        }
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
    sticks.draw(&collapsed::counts(top_labels), alpha, rng);
    let mut table = Weights::new(columns, top_labels);
    // Under the widest vector instructions there are.
    pulp::Arch::new().dispatch(|| {
        draw_each(
            alpha,
            top_labels,
            &mut sticks,
            &mut table,
            columns,
            grow,
            rng,
        );
    });
}

/// The rows in turn.
#[inline(always)]
fn draw_each(
    alpha: f64,
    top_labels: &mut [u32],
    sticks: &mut Sticks,
    table: &mut Weights,
    columns: &mut [&mut ColumnState],
    grow: &mut dyn FnMut(&mut ColumnState, usize, &mut Xoshiro256PlusPlus),
    rng: &mut Xoshiro256PlusPlus,
) {
    let mut weights: Vec<f64> = Vec::new();
    for row in 0..top_labels.len() {
        let old = top_labels[row] as usize;
        let u = rng.random::<f64>() * sticks.weights[old];
        while sticks.rest(sticks.len()) > u {
            sticks.extend_to(sticks.len() + 1, alpha, rng);
        }
        let n = sticks.len();
        if n > table.sizes.len() {
            columns.iter_mut().for_each(|column| grow(column, n, rng));
            table.grow(columns, n);
        }
        // Those that may be taken are few, and the first as a rule.
        let seen = sticks.weights.iter().rposition(|&stick| stick > u);
        let n_seen = (seen.unwrap_or(old).max(old) + 1).next_multiple_of(4);
        weights.clear();
        let sticks = sticks.weights.iter().take(n_seen);
        weights.extend(sticks.map(|&stick| f64::from(u8::from(stick > u))));
        weights.resize(n_seen, 0.0);
        weights[old] = 1.0;
        table.multiply(row, old, &mut weights);
        let mut total = 0.0;
        weights.iter_mut().for_each(|weight| {
            total += *weight;
            *weight = total;
        });
        let u = rng.random::<f64>() * total;
        let new = weights.iter().filter(|&&sum| sum <= u).count();
        if new != old && new < n_seen {
            top_labels[row] = new as u32;
            table.count(row, old, -1.0);
            table.count(row, new, 1.0);
            table.weigh(columns, old);
            table.weigh(columns, new);
        }
    }
}
