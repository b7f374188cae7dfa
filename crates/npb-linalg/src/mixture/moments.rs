//! Weighted moments.

use faer::Mat;
use serde::{Deserialize, Serialize};

/// Weighted moments of completed rows, one entry for each component.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Moments {
    /// `sum rho`.
    pub weight: Vec<f64>,
    /// `sum rho x^`, components as columns (P x N).
    #[serde(with = "crate::saved")]
    pub first: Mat<f64>,
    /// `sum rho (x^ x^' + Omega^)`, P x P each.
    #[serde(with = "crate::saved::vec")]
    pub second: Vec<Mat<f64>>,
}

impl Moments {
    /// Of no rows.
    pub fn zeros(n_features: usize, components: usize) -> Self {
        Self {
            weight: vec![0.0; components],
            first: Mat::zeros(n_features, components),
            second: vec![Mat::zeros(n_features, n_features); components],
        }
    }

    /// Adds `factor` times component `from` of other moments to component `to`.
    pub fn add(&mut self, to: usize, factor: f64, other: &Self, from: usize) {
        if other.weight[from] == 0.0 {
            return;
        }
        self.weight[to] += factor * other.weight[from];
        let add = |to: &mut [f64], from: &[f64]| {
            for (to, from) in to.iter_mut().zip(from) {
                *to += factor * from;
            }
        };
        add(
            self.first.col_as_slice_mut(to),
            other.first.col_as_slice(from),
        );
        for j in 0..self.first.nrows() {
            let column = self.second[to].col_as_slice_mut(j);
            add(column, other.second[from].col_as_slice(j));
        }
    }

    /// Keeps the components `order`, in that order.
    pub fn select(&self, order: &[usize]) -> Self {
        Self {
            weight: order.iter().map(|&h| self.weight[h]).collect(),
            first: Mat::from_fn(self.first.nrows(), order.len(), |i, k| {
                self.first[(i, order[k])]
            }),
            second: order.iter().map(|&h| self.second[h].clone()).collect(),
        }
    }
}
