//! Rows (or columns) that are alike.

use npb_infer::parallel;
use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::fitted::BsvdFit;
use crate::names::Key;
use crate::side::{Line, Side};
use crate::view::View;

/// A row (or column) and how much it is like another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Similar {
    /// Its place.
    pub index: usize,
    /// Its name, when the fit has names.
    pub name: Option<String>,
    /// Posterior mean of the cosine, between -1 and 1.
    pub cosine: f64,
    /// Posterior standard deviation of the cosine.
    pub sd: f64,
}

impl BsvdFit {
    /// The `n` rows most like a row, most alike first.
    ///
    /// In each stored draw, two rows are compared by the cosine between their noise-free (latent) values in all columns, after the averages of rows and
    /// of columns are taken out: whether they depart from what is usual in the same places and directions. That depends neither on signs nor on how
    /// components are turned or ordered. Rows with few entries have cosines near 0, with large standard deviations.
    ///
    /// Cost for each draw: w^2 for each row and column, w = rank + features of both sides; in parallel.
    ///
    /// # Errors
    /// A row that does not exist; no stored draw.
    pub fn similar_rows<'k>(
        &self,
        row: impl Into<Key<'k>>,
        n: usize,
    ) -> Result<Vec<Similar>, BsvdError> {
        self.similar(Side::Rows, row.into(), n)
    }

    /// The `n` columns most like a column; otherwise as [`similar_rows`](Self::similar_rows).
    ///
    /// # Errors
    /// A column that does not exist; no stored draw.
    pub fn similar_columns<'k>(
        &self,
        column: impl Into<Key<'k>>,
        n: usize,
    ) -> Result<Vec<Similar>, BsvdError> {
        self.similar(Side::Columns, column.into(), n)
    }

    fn similar(&self, side: Side, key: Key<'_>, n: usize) -> Result<Vec<Similar>, BsvdError> {
        let chosen = self.place(side, key)?;
        let views = self.views(1)?;
        let mut moments = vec![(0.0, 0.0); self.size(side)];
        for (count, view) in (1..).zip(&views) {
            let cosines = cosines(
                view,
                side,
                [self.size(side), self.size(side.opposite())],
                chosen,
            );
            for ((mean, squares), cosine) in moments.iter_mut().zip(cosines) {
                let step = cosine - *mean;
                *mean += step / f64::from(count);
                *squares += step * (cosine - *mean);
            }
        }
        let spread = (views.len() - 1).max(1) as f64;
        let mut best: Vec<usize> = (0..moments.len()).filter(|&i| i != chosen).collect();
        best.sort_by(|&a, &b| moments[b].0.total_cmp(&moments[a].0));
        best.truncate(n);
        Ok(best
            .into_iter()
            .map(|index| Similar {
                index,
                name: self.names(side).get(index).cloned(),
                cosine: moments[index].0,
                sd: (moments[index].1 / spread).sqrt(),
            })
            .collect())
    }
}

/// Cosines of all rows with one, in one draw. `sizes`: of this side and of the other.
///
/// Values of row i are inner products of a vector of the row with vectors of the columns: those of the row in the metric of the columns' second moments
/// have the same inner products as the values themselves.
fn cosines(view: &View<'_>, side: Side, sizes: [usize; 2], chosen: usize) -> Vec<f64> {
    let own = vectors(view, side, sizes[0], false);
    let others = vectors(view, side.opposite(), sizes[1], true);
    let width = own.len() / sizes[0].max(1);
    let metric = second_moments(&others, width);
    // Inner products with the chosen one, and squared lengths.
    let part = |i: usize| &own[i * width..(i + 1) * width];
    let times_metric = |x: &[f64]| -> Vec<f64> {
        (0..width)
            .map(|k| inner(&metric[k * width..(k + 1) * width], x))
            .collect()
    };
    let target = times_metric(part(chosen));
    let length = inner(part(chosen), &target).max(0.0).sqrt();
    parallel::map(0..sizes[0], |i| {
        let own_length = inner(part(i), &times_metric(part(i))).max(0.0).sqrt();
        let lengths = own_length * length;
        if lengths > 0.0 {
            (inner(part(i), &target) / lengths).clamp(-1.0, 1.0)
        } else {
            0.0
        }
    })
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Everything of each row that meets something of the columns, centred over the rows: factors, coefficients and features; of the other side, to meet
/// them: scaled factors, features, coefficients.
fn vectors(view: &View<'_>, side: Side, n: usize, meeting: bool) -> Vec<f64> {
    let own = side.of(view.state);
    let rank = view.state.rank();
    let (q, q_own) = (own.coefficient_mean.len(), side.n_features(view.side));
    let width = rank + q + q_own;
    let mut table = vec![0.0; n * width];
    let mut features = vec![0.0; q_own];
    for (i, line) in table.chunks_exact_mut(width.max(1)).enumerate() {
        if let Some(known) = side.features(view.side) {
            known.write(i, &mut features);
        }
        let Line {
            factors,
            coefficients,
            features,
            ..
        } = Line::of(own, i, rank, &features);
        let scale = |k: usize| if meeting { view.state.scales[k] } else { 1.0 };
        let factors = factors
            .iter()
            .enumerate()
            .map(|(k, &u)| f64::from(u) * scale(k));
        // Coefficients of this side meet features of the other.
        let (first, second) = if meeting {
            (features, coefficients)
        } else {
            (coefficients, features)
        };
        let rest = first.iter().chain(second).map(|&x| f64::from(x));
        line.iter_mut()
            .zip(factors.chain(rest))
            .for_each(|(to, x)| *to = x);
    }
    centre(&mut table, width, n);
    table
}

fn centre(table: &mut [f64], width: usize, n: usize) {
    let mut means = vec![0.0; width];
    for line in table.chunks_exact(width.max(1)) {
        means.iter_mut().zip(line).for_each(|(m, x)| *m += x);
    }
    means.iter_mut().for_each(|m| *m /= n as f64);
    for line in table.chunks_exact_mut(width.max(1)) {
        line.iter_mut().zip(&means).for_each(|(x, m)| *x -= m);
    }
}

/// Sums of products over the lines of a table, width x width.
fn second_moments(table: &[f64], width: usize) -> Vec<f64> {
    let mut sums = vec![0.0; width * width];
    for line in table.chunks_exact(width.max(1)) {
        for (x, sums) in line.iter().zip(sums.chunks_exact_mut(width)) {
            sums.iter_mut().zip(line).for_each(|(s, y)| *s += x * y);
        }
    }
    sums
}
