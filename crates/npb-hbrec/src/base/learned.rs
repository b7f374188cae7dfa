//! What a learned base is, and what it says of items that come later.

use npb_infer::{Stop, VbReport};
use serde::{Deserialize, Serialize};

use crate::{HbrecError, ItemPrior};

/// What was learned of items from all users: the Gaussian law of a new user's utilities, and what to expect of new items.
///
/// ```
/// use npb_hbrec::npb_infer::VbLimits;
/// use npb_hbrec::{BaseConfig, LikeMatrix, Likes, ProbitItems, UserModel, learn_base};
/// // 40 users of two tastes rate 6 items.
/// let user = |u: usize| Likes::new(6, &(0..6).map(|i| (i, (u + i as usize) % 2 == 0)).collect::<Vec<_>>());
/// let users = (0..40).map(user).collect::<Result<Vec<_>, _>>()?;
/// // Tastes as plain as these are worth going on for.
/// let config = BaseConfig { limits: VbLimits { max_iterations: 60, tolerance: 1e-5 }, ..Default::default() };
/// let base = learn_base(&LikeMatrix::from_users(6, users)?, None, &config, 0)?;
/// let model = ProbitItems::new(base.prior);
/// let new = model.fit(&Likes::new(6, &[(0, true), (1, false)])?)?;
/// assert!(model.predict_alone(&new, &2) > 0.8 && model.predict_alone(&new, &3) < 0.2);
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedBase {
    /// The law of a new user's utilities.
    pub prior: ItemPrior,
    /// For each of (mean, loadings): coefficients of (1, content).
    pub(super) regression: Vec<Vec<f64>>,
    /// Variances of (mean, loadings) about the regression.
    pub(super) item_variance: Vec<f64>,
    /// Variances of users' own coefficients of (1, content), as far as they have some.
    pub(super) taste_variance: Vec<f64>,
    /// The bound after each iteration.
    pub trace: Vec<VbReport>,
    /// Why the iterations ended.
    pub stop: Stop,
}

impl LearnedBase {
    /// Number of loadings that the users asked for.
    pub fn rank(&self) -> usize {
        self.regression.len() - 1
    }

    /// Variances of the mean and of each loading, about what content says of them.
    pub fn item_variance(&self) -> &[f64] {
        &self.item_variance
    }

    /// Columns of content that the base was learned with.
    pub fn n_columns(&self) -> usize {
        self.regression[0].len() - 1
    }

    /// Adds an item that nobody rated, known by its columns of content or by nothing; its number.
    ///
    /// # Errors
    /// Another number of columns than the base was learned with.
    pub fn add_item(&mut self, columns: Option<&[f64]>) -> Result<usize, HbrecError> {
        let width = self.n_columns();
        let zeros = vec![0.0; width];
        let columns = columns.unwrap_or(&zeros);
        if columns.len() != width {
            return Err(HbrecError::Size {
                what: "columns of content of a new item",
                found: columns.len(),
                expected: width,
            });
        }
        let design: Vec<f64> = std::iter::once(1.0)
            .chain(columns.iter().copied())
            .collect();
        let expected = |b: &Vec<f64>| npb_linalg::dot(b, &design);
        let mean = expected(&self.regression[0]);
        let mut loadings: Vec<f64> = self.regression[1..].iter().map(expected).collect();
        let tastes = self.taste_variance.iter().zip(&design);
        loadings.extend(tastes.map(|(variance, x)| variance.sqrt() * x));
        let variance = self.item_variance.iter().sum();
        self.prior.push(mean, &loadings, variance)
    }

    /// Checks what is relied on, after decoding.
    pub(crate) fn check(&self) -> Result<(), HbrecError> {
        self.prior.check()?;
        let width = self.regression.first().map_or(0, Vec::len);
        let sized = width > 0
            && self.regression.iter().all(|b| b.len() == width)
            && self.item_variance.len() == self.regression.len()
            && self.taste_variance.len() <= width
            && self.prior.width() == self.regression.len() - 1 + self.taste_variance.len();
        let positive = |v: &f64| v.is_finite() && *v >= 0.0;
        let ranged = self
            .item_variance
            .iter()
            .chain(&self.taste_variance)
            .all(positive)
            && self.regression.iter().flatten().all(|b| b.is_finite());
        if sized && ranged {
            return Ok(());
        }
        Err(HbrecError::State {
            what: "learned base: impossible size or value".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new user's utility of a new item varies by what is not known of the item's mean, and of each loading, whose coefficients have variance one.
    #[test]
    fn a_new_item_is_as_uncertain_as_its_mean_and_loadings() {
        let mut base = LearnedBase {
            prior: ItemPrior::new(&[0.0], &[1.0, 0.0, 0.5, 0.0], &[0.0], 0.0).unwrap(),
            regression: vec![vec![0.3, 0.2], vec![0.1, -0.4], vec![0.0, 0.5]],
            item_variance: vec![1.5, 0.75, 0.75],
            taste_variance: vec![0.25, 4.0],
            trace: Vec::new(),
            stop: Stop::Completed,
        };
        let item = base.add_item(Some(&[2.0])).unwrap();
        // Of the utility 3, of the noise 1.
        let close = |found: f64, utility: f64| assert!((found - 0.5 * utility).abs() < 1e-12);
        close(base.prior.offset(item), 0.7);
        let expected = [-0.7, 1.0, 0.5, 4.0];
        for (found, utility) in base.prior.row(item).iter().zip(expected) {
            close(*found, utility);
        }
    }
}
