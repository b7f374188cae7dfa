//! A Gaussian over the utilities that one user gives to items.

use serde::{Deserialize, Serialize};

use crate::HbrecError;

/// The law of a new user's utilities over the items: mean, low rank plus diagonal covariance (`docs/hbrec.md#items`).
///
/// `f = m + Phi w + delta`, `w ~ N(0, I)`, `delta_i ~ N(0, u_i)`; liked when `f_i` plus unit noise is positive. Memory: 8 J (Q + 2) bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemPrior {
    /// Q.
    width: usize,
    /// m_i / s_i.
    mean: Vec<f64>,
    /// phi_i / s_i, item by item.
    loadings: Vec<f64>,
    /// rho, the share of the noise that belongs to a user and an item for good.
    identity: f64,
}

impl ItemPrior {
    /// From m (length J), Phi (J x Q, item by item), the variances u (length J) and rho.
    ///
    /// # Errors
    /// Lengths that do not fit; numbers that are not finite; a negative variance; rho outside [0, 1].
    pub fn new(
        mean: &[f64],
        loadings: &[f64],
        variance: &[f64],
        identity: f64,
    ) -> Result<Self, HbrecError> {
        let n_items = mean.len();
        if n_items == 0 || !loadings.len().is_multiple_of(n_items) {
            return Err(HbrecError::Size {
                what: "loadings, a multiple of the items",
                found: loadings.len(),
                expected: n_items,
            });
        }
        if variance.len() != n_items {
            return Err(HbrecError::Size {
                what: "variances of items",
                found: variance.len(),
                expected: n_items,
            });
        }
        let width = loadings.len() / n_items;
        let mut prior = Self {
            width,
            mean: Vec::with_capacity(n_items),
            loadings: Vec::with_capacity(loadings.len()),
            identity,
        };
        for item in 0..n_items {
            let row = &loadings[item * width..(item + 1) * width];
            prior.push(mean[item], row, variance[item])?;
        }
        prior.check()?;
        Ok(prior)
    }

    /// Adds an item, with mean `m`, loadings and variance; its number.
    ///
    /// # Errors
    /// As [`ItemPrior::new`].
    pub fn push(
        &mut self,
        mean: f64,
        loadings: &[f64],
        variance: f64,
    ) -> Result<usize, HbrecError> {
        let item = self.mean.len();
        let bad = |column: usize, value: f64, rule| HbrecError::Value {
            what: "prior of items (mean, variance, loadings)",
            row: item,
            column,
            value,
            rule,
        };
        if loadings.len() != self.width {
            return Err(HbrecError::Size {
                what: "loadings of an item",
                found: loadings.len(),
                expected: self.width,
            });
        }
        if !(variance.is_finite() && variance >= 0.0) {
            return Err(bad(1, variance, "must be finite and not negative"));
        }
        let scale = (1.0 + variance).sqrt().recip();
        let start = self.loadings.len();
        self.mean.push(mean * scale);
        self.loadings.extend(loadings.iter().map(|l| l * scale));
        let found = std::iter::once(mean).chain(loadings.iter().copied());
        match found.enumerate().find(|(_, value)| !value.is_finite()) {
            None => Ok(item),
            Some((at, value)) => {
                self.mean.truncate(item);
                self.loadings.truncate(start);
                let column = if at == 0 { 0 } else { at + 1 };
                Err(bad(column, value, "must be finite"))
            }
        }
    }

    /// Checks what is relied on, after decoding.
    pub(crate) fn check(&self) -> Result<(), HbrecError> {
        let fits = self.mean.len().checked_mul(self.width) == Some(self.loadings.len());
        let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
        if !(fits && finite(&self.mean) && finite(&self.loadings)) || self.mean.is_empty() {
            return Err(HbrecError::State {
                what: "prior of items: impossible size or value".to_owned(),
            });
        }
        if !(0.0..=1.0).contains(&self.identity) {
            return Err(npb_infer::ranges::OutOfRange::new(
                "identity",
                self.identity,
                "from 0 to 1",
            )
            .into());
        }
        Ok(())
    }

    /// The same with another share rho of the noise for item identity: no user's own evidence changes.
    ///
    /// # Errors
    /// A share outside [0, 1].
    pub fn with_identity(mut self, identity: f64) -> Result<Self, HbrecError> {
        self.identity = identity;
        self.check()?;
        Ok(self)
    }

    /// J.
    pub fn n_items(&self) -> usize {
        self.mean.len()
    }

    /// Q, the rank of the covariance without its diagonal.
    pub fn width(&self) -> usize {
        self.width
    }

    /// rho.
    pub fn identity(&self) -> f64 {
        self.identity
    }

    /// m_i / s_i: utility in units of the noise.
    ///
    /// # Panics
    /// When there is no such item; so does [`row`](Self::row).
    pub fn offset(&self, item: usize) -> f64 {
        self.mean[item]
    }

    /// phi_i / s_i.
    pub fn row(&self, item: usize) -> &[f64] {
        &self.loadings[item * self.width..(item + 1) * self.width]
    }
}
