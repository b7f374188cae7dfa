//! Prior draws of the infinite tensor factorisation: dependent cluster labels for several columns (B, section 3).
//!
//! A row draws a top-level label c_0 ~ λ and then, for every column j, a label c_j ~ ψ⁽ʲ⁾ of row c_0, where
//! λ ~ Stick(α) and ψ⁽ʲ⁾_r ~ Stick(β_j) for every top cluster r. Labels are indices of sticks and count from 0: the
//! same lower label in two top clusters means the same atom, and low labels are likely.
//!
//! The conditionals of a sampler are those of [`dp`](crate::dp): α given top labels and each β_j given the lower labels
//! of all top clusters ([`draw_concentration_given_labels`](crate::dp::draw_concentration_given_labels), one group per top
//! cluster), the collapsed weights (15) ([`predictive_weights`](crate::dp::predictive_weights)), and the swaps, whose lower
//! level sums [`ln_neighbour_swap_ratio`](crate::dp::ln_neighbour_swap_ratio) over top clusters.
//!
//! One factorisation represents independent groups of columns only through products: G independent groups of c clusters
//! need c^G top clusters.

use rand::Rng;

use crate::dp::LazySticks;
use crate::error::{Check, ParameterError};

/// The prior of the labels: α of the top level and one β_j per column.
///
/// ```
/// use npb_priors::itf::ItfPrior;
/// use rand::SeedableRng;
///
/// let prior = ItfPrior::new(1.0, vec![0.5, 2.0])?;
/// let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
/// let draw = prior.sample(100, &mut rng);
/// assert_eq!((draw.top_labels.len(), draw.labels.len(), draw.labels[1].len()), (100, 2, 100));
/// // Two rows that agree in one column are more likely to agree in the other: the columns depend on each other.
/// assert!(prior.co_assignment(&[0, 1]) > prior.co_assignment(&[0]) * prior.co_assignment(&[1]));
/// # Ok::<(), npb_priors::ParameterError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ItfPrior {
    alpha: f64,
    betas: Vec<f64>,
}

/// One prior draw: labels, and the sticks as far as the labels asked for them.
#[derive(Clone, Debug, PartialEq)]
pub struct ItfDraw {
    /// c_i0 of every row.
    pub top_labels: Vec<usize>,
    /// c_ij, column by column.
    pub labels: Vec<Vec<usize>>,
    /// λ.
    pub top: LazySticks,
    /// ψ⁽ʲ⁾_r, column by column and, within, by top cluster r; unbroken for top clusters without a row.
    pub lower: Vec<Vec<LazySticks>>,
}

impl ItfPrior {
    /// `alpha`: top concentration; `betas`: one lower concentration per column, at least one.
    ///
    /// # Errors
    /// No column, or a concentration that is not positive or above [`LazySticks::MAX_ALPHA`].
    pub fn new(alpha: f64, betas: Vec<f64>) -> Result<Self, ParameterError> {
        let check = Check("infinite tensor factorisation");
        let rule = "positive and at most 1e9";
        let fits = |concentration| concentration > 0.0 && concentration <= LazySticks::MAX_ALPHA;
        check.require(fits(alpha), "alpha", alpha, rule)?;
        check.require(!betas.is_empty(), "number of columns", 0.0, "at least 1")?;
        check.every("beta", &betas, rule, fits)?;
        Ok(Self { alpha, betas })
    }

    /// Number of columns p.
    pub fn n_columns(&self) -> usize {
        self.betas.len()
    }

    /// The top concentration.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The lower concentrations.
    pub fn betas(&self) -> &[f64] {
        &self.betas
    }

    /// Draws sticks and the labels of `n_rows` rows, without truncation. Cost O(rows × columns) label draws.
    pub fn sample<R: Rng + ?Sized>(&self, n_rows: usize, rng: &mut R) -> ItfDraw {
        let unbroken = |concentration| {
            LazySticks::new(concentration).expect("checked when the prior was made")
        };
        let mut top = unbroken(self.alpha);
        let top_labels: Vec<usize> = (0..n_rows).map(|_| top.draw_label(rng)).collect();
        let n_top = top_labels.iter().max().map_or(0, |r| r + 1);
        let mut lower: Vec<_> = self
            .betas
            .iter()
            .map(|&beta| vec![unbroken(beta); n_top])
            .collect();
        let labels = lower
            .iter_mut()
            .map(|sticks| {
                top_labels
                    .iter()
                    .map(|&r| sticks[r].draw_label(rng))
                    .collect()
            })
            .collect();
        ItfDraw {
            top_labels,
            labels,
            top,
            lower,
        }
    }

    /// Probability that two rows have the same top label, 1 / (1 + α).
    pub fn top_co_assignment(&self) -> f64 {
        1.0 / (1.0 + self.alpha)
    }

    /// Probability that two rows have the same label in every one of `columns`.
    ///
    /// With the same top label each column agrees with probability 1/(1 + β_j); otherwise two independent sticks give
    /// the same index with probability Σ_h (E ψ_h)² = 1/(1 + 2β_j). Panics if a column does not exist.
    pub fn co_assignment(&self, columns: &[usize]) -> f64 {
        let product = |per_beta: fn(f64) -> f64| {
            columns
                .iter()
                .map(|&j| per_beta(self.betas[j]))
                .product::<f64>()
        };
        let same = self.top_co_assignment();
        same * product(|beta| 1.0 / (1.0 + beta))
            + (1.0 - same) * product(|beta| 1.0 / (1.0 + 2.0 * beta))
    }
}
