//! Sufficient statistics of one E-step over the rows.

use npb_linalg::faer::Mat;
use npb_linalg::mixture::Moments;
use serde::{Deserialize, Serialize};

/// What the updates of the components, experts and sticks, and the bound, need from the rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SufficientStats {
    pub(crate) labelled: Moments,
    pub(crate) unlabelled: Moments,
    /// `sum rho <t> x^b` over labelled rows, the intercept last: P+1 rows, a column for each component and utility.
    #[serde(with = "npb_linalg::saved")]
    pub(crate) soft: Mat<f64>,
    pub(crate) rows: RowTerms,
}

/// What the bound needs of each row, summed.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RowTerms {
    /// `sum_i ln Phi(y mu) - <t> mu + mu^2/2`.
    pub(crate) soft_local: f64,
    /// Entropy of `q(z)`.
    pub(crate) label_entropy: f64,
    /// Entropy of `q(x^m | z)`, averaged over `q(z)`.
    pub(crate) missing_entropy: f64,
    /// Sum of the absolute values of the terms above, for tolerances.
    pub(crate) magnitude: f64,
}

impl RowTerms {
    /// Adds `factor` times other sums.
    pub(crate) fn add(&mut self, factor: f64, other: &Self) {
        self.soft_local += factor * other.soft_local;
        self.label_entropy += factor * other.label_entropy;
        self.missing_entropy += factor * other.missing_entropy;
        self.magnitude += factor * other.magnitude;
    }
}

impl SufficientStats {
    pub(crate) fn zeros(n_features: usize, components: usize, n_utilities: usize) -> Self {
        Self {
            labelled: Moments::zeros(n_features, components),
            unlabelled: Moments::zeros(n_features, components),
            soft: Mat::zeros(n_features + 1, components * n_utilities),
            rows: RowTerms::default(),
        }
    }

    /// Columns of `soft` for each component.
    pub(crate) fn n_utilities(&self) -> usize {
        self.soft.ncols() / self.labelled.weight.len().max(1)
    }

    /// Adds those of other rows, of the same components.
    pub(crate) fn merge(&mut self, other: &Self) {
        for h in 0..self.labelled.weight.len() {
            self.add(h, 1.0, other, h);
        }
        self.rows.add(1.0, &other.rows);
    }

    /// Keeps the components `order`, in that order; those left out have no rows.
    pub(crate) fn select(&self, order: &[usize]) -> Self {
        let k = self.n_utilities();
        Self {
            labelled: self.labelled.select(order),
            unlabelled: self.unlabelled.select(order),
            soft: Mat::from_fn(self.soft.nrows(), order.len() * k, |i, column| {
                self.soft[(i, order[column / k] * k + column % k)]
            }),
            ..*self
        }
    }

    /// Adds `factor` times what is known of component `from` of other statistics to component `to`; the sums over rows alone stay as they are.
    pub(crate) fn add(&mut self, to: usize, factor: f64, other: &Self, from: usize) {
        self.labelled.add(to, factor, &other.labelled, from);
        self.unlabelled.add(to, factor, &other.unlabelled, from);
        let k = self.n_utilities();
        for utility in 0..k {
            let soft = other.soft.col_as_slice(from * k + utility);
            let sums = self.soft.col_as_slice_mut(to * k + utility);
            for (to, from) in sums.iter_mut().zip(soft) {
                *to += factor * from;
            }
        }
    }

    /// `sum rho x^b x^b'` over the labelled rows of component `h`, with these numbers added to the diagonal.
    pub(crate) fn labelled_second(&self, h: usize, diagonal: impl Fn(usize) -> f64) -> Mat<f64> {
        let sums = &self.labelled;
        let p = sums.first.nrows();
        Mat::from_fn(p + 1, p + 1, |i, j| {
            let data = match (i < p, j < p) {
                (true, true) => sums.second[h][(i, j)],
                (true, false) => sums.first[(i, h)],
                (false, true) => sums.first[(j, h)],
                (false, false) => sums.weight[h],
            };
            data + if i == j { diagonal(i) } else { 0.0 }
        })
    }

    /// Appends a component without rows.
    pub(crate) fn push_vacant(&mut self) {
        let n = self.labelled.weight.len();
        let (p, k) = (self.labelled.first.nrows(), self.n_utilities());
        for moments in [&mut self.labelled, &mut self.unlabelled] {
            moments.weight.push(0.0);
            moments.first.resize_with(p, n + 1, |_, _| 0.0);
            moments.second.push(Mat::zeros(p, p));
        }
        self.soft.resize_with(p + 1, (n + 1) * k, |_, _| 0.0);
    }

    /// Labelled and unlabelled rows together.
    pub(crate) fn count(&self, h: usize) -> f64 {
        self.labelled.weight[h] + self.unlabelled.weight[h]
    }

    pub(crate) fn counts(&self) -> Vec<f64> {
        let all = 0..self.labelled.weight.len();
        all.map(|h| self.count(h)).collect()
    }

    pub(crate) fn first(&self, h: usize) -> Vec<f64> {
        let (a, b) = (&self.labelled.first, &self.unlabelled.first);
        (0..a.nrows()).map(|i| a[(i, h)] + b[(i, h)]).collect()
    }

    pub(crate) fn second(&self, h: usize) -> Mat<f64> {
        &self.labelled.second[h] + &self.unlabelled.second[h]
    }
}
