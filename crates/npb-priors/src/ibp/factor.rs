//! The truncated variational factor of the sticks, with the multivariate lower bound.

use serde::{Deserialize, Serialize};

use crate::dist::dirichlet_entropy;
use crate::error::{Check, ParameterError};
use crate::measure::{mean_ln, mean_ln_rest};
use crate::special::ln_add_exp;

const CHECK: Check = Check("Indian buffet process");

/// Truncated variational sticks of the Indian buffet process: q(ν_k) = Beta(γ_k1, γ_k2), k = 1..K, prior Beta(α, 1).
///
/// Column k of the feature matrix is on with probability μ_k = ∏_{j≤k} ν_j. The expectation of ln(1 − μ_k) has no
/// closed form; it is bounded from below through 1 − μ_k = Σ_{m≤k} (1 − ν_m) ∏_{n<m} ν_n by a multinomial q_k whose best
/// choice makes the bound a log-normaliser, L_k = ln Σ_{m≤k} exp(⟨ln(1 − ν_m)⟩ + Σ_{n<m} ⟨ln ν_n⟩): the terms
/// do not depend on k, so that all K bounds cost O(K). Source: R (24) (Doshi-Velez, 2009).
///
/// ```
/// use npb_priors::ibp::IbpFactor;
///
/// let mut factor = IbpFactor::new(4, 2.0)?;
/// let counts = [90.0, 40.0, 3.0, 0.1];              // expected number of ones per column, of 100 rows
/// for _ in 0..50 {
///     factor.update(&counts, 100.0);
/// }
/// let mut ln_odds = [0.0; 4];
/// factor.prior_ln_odds(&mut ln_odds);
/// assert!(ln_odds[0] > 1.0 && ln_odds[3] < -3.0);
/// assert!(factor.elbo() + factor.feature_elbo(&counts, 100.0) < 0.0);
/// # Ok::<(), npb_priors::ParameterError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "IbpWire")]
pub struct IbpFactor {
    alpha: f64,
    gamma: Vec<[f64; 2]>,
}

#[derive(Deserialize)]
struct IbpWire {
    alpha: f64,
    gamma: Vec<[f64; 2]>,
}

impl TryFrom<IbpWire> for IbpFactor {
    type Error = ParameterError;

    fn try_from(IbpWire { alpha, gamma }: IbpWire) -> Result<Self, ParameterError> {
        CHECK.positive("alpha", alpha)?;
        for &[a, b] in &gamma {
            CHECK.positive("gamma_k1", a)?;
            CHECK.positive("gamma_k2", b)?;
        }
        Ok(Self { alpha, gamma })
    }
}

impl IbpFactor {
    /// `truncation` sticks at their prior Beta(α, 1); 0 sticks (no columns) work.
    ///
    /// # Errors
    /// `alpha` not finite and positive.
    pub fn new(truncation: usize, alpha: f64) -> Result<Self, ParameterError> {
        CHECK.positive("alpha", alpha)?;
        Ok(Self {
            alpha,
            gamma: vec![[alpha, 1.0]; truncation],
        })
    }

    /// Number of columns K.
    pub fn truncation(&self) -> usize {
        self.gamma.len()
    }

    /// The concentration α.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The parameters (γ_k1, γ_k2).
    pub fn gamma(&self) -> &[[f64; 2]] {
        &self.gamma
    }

    /// Sets the concentration, for models that learn it; the sticks keep their γ until the next update. Under
    /// q(α) = Gamma with ⟨α⟩ as the value here, [`elbo`](Self::elbo) has ln ⟨α⟩ where the bound has ⟨ln α⟩: a model adds
    /// K (⟨ln α⟩ − ln ⟨α⟩), and the coordinate update of q(α) is Gamma(a + K, b − Σ_k ⟨ln ν_k⟩), the sum being the last of
    /// [`expected_ln_weights`](Self::expected_ln_weights).
    ///
    /// # Errors
    /// `alpha` not finite and positive; the factor is left as it was.
    pub fn set_alpha(&mut self, alpha: f64) -> Result<(), ParameterError> {
        CHECK.positive("alpha", alpha)?;
        self.alpha = alpha;
        Ok(())
    }

    /// Changes the number of columns: new sticks come last, at their prior Beta(α, 1); surplus ones are dropped from the end.
    ///
    /// Neither changes the prior log-odds of the columns that stay.
    pub fn resize(&mut self, truncation: usize) {
        self.gamma.resize(truncation, [self.alpha, 1.0]);
    }

    /// Column `k` becomes what column `order[k]` was; columns that `order` leaves out are dropped.
    ///
    /// Sticks carry their γ along, which leaves a valid factor but not an optimal one: weights are products over the columns
    /// before, so that an [`update`](Self::update) should follow. Columns in falling order of use have the highest bound.
    /// Panics if `order` repeats a column or names one that does not exist.
    pub fn reorder(&mut self, order: &[usize]) {
        let mut left: Vec<Option<[f64; 2]>> = self.gamma.iter().copied().map(Some).collect();
        let n = left.len();
        let stick = |&k: &usize| {
            let stick = left.get_mut(k).and_then(Option::take);
            stick.unwrap_or_else(|| panic!("column {k} is repeated or beyond the {n} there are"))
        };
        self.gamma = order.iter().map(stick).collect();
    }

    /// Writes ⟨ln μ_k⟩ = Σ_{j≤k} ⟨ln ν_j⟩. Panics if `out.len()` is not K.
    pub fn expected_ln_weights(&self, out: &mut [f64]) {
        assert_eq!(out.len(), self.truncation(), "one place per column");
        let mut sum = 0.0;
        for (out, &stick) in out.iter_mut().zip(&self.gamma) {
            sum += mean_ln(stick);
            *out = sum;
        }
    }

    /// Writes the bounds L_k ≤ ⟨ln(1 − μ_k)⟩, exact for k = 1. Cost O(K). Panics if `out.len()` is not K.
    pub fn ln_complement_bounds(&self, out: &mut [f64]) {
        assert_eq!(out.len(), self.truncation(), "one place per column");
        let mut bound = f64::NEG_INFINITY;
        for (out, term) in out.iter_mut().zip(self.terms()) {
            bound = ln_add_exp(bound, term);
            *out = bound;
        }
    }

    /// ⟨ln(1 − ν_m)⟩ + Σ_{n<m} ⟨ln ν_n⟩, m = 1..K.
    fn terms(&self) -> impl Iterator<Item = f64> + '_ {
        let mut before = 0.0;
        self.gamma.iter().map(move |&stick| {
            let term = before + mean_ln_rest(stick);
            before += mean_ln(stick);
            term
        })
    }

    /// The optimal multinomial q_k over m = 0..=k (R (24)), for column `k` counted from 0. Cost O(k).
    ///
    /// Panics if `k` is not below K.
    pub fn bound_weights(&self, k: usize) -> Vec<f64> {
        assert!(k < self.truncation(), "column {k} of {}", self.truncation());
        let mut q: Vec<f64> = self.terms().take(k + 1).collect();
        crate::special::ln_normalize(&mut q);
        q
    }

    /// Writes the prior log-odds of z_ik = 1 in a variational update of q(Z): ⟨ln μ_k⟩ − L_k. Cost O(K).
    ///
    /// Panics if `out.len()` is not K.
    pub fn prior_ln_odds(&self, out: &mut [f64]) {
        self.ln_complement_bounds(out);
        let mut sum = 0.0;
        for (out, &stick) in out.iter_mut().zip(&self.gamma) {
            sum += mean_ln(stick);
            *out = sum - *out;
        }
    }

    /// Coordinate update of all sticks at the q_k that are optimal for the present ones; never lowers the bound. Cost O(K).
    ///
    /// `counts`: expected number of ones per column, each within 0..=`n_rows`. γ_k1 = α + Σ_{m≥k} N_m + Σ_{i>k} c_i and
    /// γ_k2 = 1 + c_k, where c_i = Σ_{m≥i} (n − N_m) q_mi. Source: R (26), its double sums taken in one pass.
    /// Panics if `counts.len()` is not K.
    pub fn update(&mut self, counts: &[f64], n_rows: f64) {
        assert_eq!(counts.len(), self.truncation(), "one count per column");
        let terms: Vec<f64> = self.terms().collect();
        let mut bounds = vec![0.0; terms.len()];
        self.ln_complement_bounds(&mut bounds);
        let mut ones = 0.0; // Σ_{m≥k} N_m
        let mut later_zeros = 0.0; // Σ_{i>k} c_i
        let mut ln_share = f64::NEG_INFINITY; // ln Σ_{m≥k} (n − N_m) e^{−L_m}
        for k in (0..terms.len()).rev() {
            let zeros = (n_rows - counts[k]).max(0.0);
            ln_share = ln_add_exp(ln_share, zeros.ln() - bounds[k]);
            let here = (ln_share + terms[k]).exp();
            ones += counts[k];
            self.gamma[k] = [self.alpha + ones + later_zeros, 1.0 + here];
            later_zeros += here;
        }
    }

    /// ⟨ln p(ν)⟩ − ⟨ln q(ν)⟩ = −Σ KL(Beta(γ_k) ‖ Beta(α, 1)) ≤ 0, exact.
    pub fn elbo(&self) -> f64 {
        let each = |stick: &[f64; 2]| {
            self.alpha.ln() + (self.alpha - 1.0) * mean_ln(*stick) + dirichlet_entropy(stick)
        };
        self.gamma.iter().map(each).sum()
    }

    /// The lower bound of ⟨ln p(Z | ν)⟩: Σ_k N_k ⟨ln μ_k⟩ + (n − N_k) L_k. A model adds the entropy of q(Z).
    ///
    /// Panics if `counts.len()` is not K.
    pub fn feature_elbo(&self, counts: &[f64], n_rows: f64) -> f64 {
        assert_eq!(counts.len(), self.truncation(), "one count per column");
        let mut ln_on = vec![0.0; counts.len()];
        let mut ln_off = vec![0.0; counts.len()];
        self.expected_ln_weights(&mut ln_on);
        self.ln_complement_bounds(&mut ln_off);
        let both = ln_on.iter().zip(&ln_off);
        counts
            .iter()
            .zip(both)
            .map(|(n, (on, off))| n * on + (n_rows - n) * off)
            .sum()
    }
}
