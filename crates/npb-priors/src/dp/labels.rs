//! Labels as indices of sticks: marginal probabilities, the exact draw of α, and swap moves.
//!
//! `counts[h]` is the number of items with label h; M_h = Σ_{l≥h} counts[l]. A stick is stored as
//! `ln_rest` = ln(1 − V_h) ≤ 0, which keeps all digits of V near 0 and of 1 − V near 0.

use std::sync::LazyLock;

use rand::{Rng, RngExt};

use crate::error::{Check, ParameterError};
use crate::measure::{GammaPrior, sample_concentration, sample_exp, sample_ln_beta};
use crate::special::{ln_gamma, ln_rising_factorial};

/// One more than the largest occupied label, 0 when there is none (the papers' k*).
pub fn occupied_labels(counts: &[usize]) -> usize {
    counts.iter().rposition(|&m| m > 0).map_or(0, |h| h + 1)
}

/// ln P(labels) with the sticks integrated out: Σ_h ln [α B(1 + m_h, α + M_{h+1})].
///
/// Cost O(largest label). Panics if `alpha` is not positive.
pub fn ln_label_probability(counts: &[usize], alpha: f64) -> f64 {
    assert!(alpha > 0.0, "a concentration is positive: {alpha}");
    // α B(1 + m_h, α + M_{h+1}) = α m_h! / (α + M_h) Γ(α + M_{h+1}) / Γ(α + M_h), of which the last factors are one in the product.
    let n_labels = occupied_labels(counts);
    let (mut at_or_after, mut ln_p, mut product) = (0, 0.0, 1.0);
    for &m in counts[..n_labels].iter().rev() {
        at_or_after += m;
        ln_p += ln_factorial(m);
        let factor = alpha / (alpha + at_or_after as f64);
        if product * factor < 1e-200 {
            ln_p += f64::ln(product);
            product = 1.0;
        }
        product *= factor;
    }
    ln_p + product.ln() - ln_rising_factorial(alpha, at_or_after as f64)
}

/// ln m!, exactly rounded or nearly so: Stirling's series where numbers are not stored, whose next term is below 1e-17 there.
fn ln_factorial(m: usize) -> f64 {
    const STORED: usize = 128;
    static LN: LazyLock<[f64; STORED]> =
        LazyLock::new(|| std::array::from_fn(|m| ln_gamma(1.0 + m as f64)));
    const HALF_LN_2PI: f64 = 0.918_938_533_204_672_7;
    LN.get(m).copied().unwrap_or_else(|| {
        let (x, r) = (m as f64, (m as f64).recip());
        let r2 = r * r;
        let series = r * (1.0 / 12.0 - r2 * (1.0 / 360.0 - r2 * (1.0 / 1260.0 - r2 / 1680.0)));
        (x + 0.5) * x.ln() - x + HALF_LN_2PI + series
    })
}

/// Writes the predictive probabilities of the labels 0..`out.len()` of one more item, sticks integrated out,
/// and returns the probability of all labels beyond.
///
/// (1 + m_h)/(1 + α + M_h) ∏_{l<h} (α + M_{l+1})/(1 + α + M_l); labels past `counts` have count 0.
/// For the label of an item already counted, take it out of `counts` first. Cost O(`counts` + `out`).
/// Source: B (15), corrected.
pub fn predictive_weights(counts: &[usize], alpha: f64, out: &mut [f64]) -> f64 {
    let mut at_or_after: usize = counts.iter().sum();
    let mut rest = 1.0;
    for (h, out) in out.iter_mut().enumerate() {
        let m = counts.get(h).copied().unwrap_or(0);
        let total = 1.0 + alpha + at_or_after as f64;
        at_or_after -= m;
        *out = rest * ((1.0 + m as f64) / total);
        rest *= (alpha + at_or_after as f64) / total;
    }
    rest
}

/// The exact Gibbs draw of α given stick labels, sticks integrated out, for groups that share α.
///
/// `alpha`: its current value. `groups`: the label counts of each group (for the lower level of a tensor
/// factorisation, of each top-level cluster; groups of one item do contribute, empty ones do not).
/// x ~ Beta(α+1, n), e_h ~ Exp(α + M_h) for h = 1..k−1, α ~ Gamma(a + Σ(k−1), b − Σ ln x + ΣΣ e_h), k the
/// number of labels up to the largest occupied. Cost O(labels). Panics if `prior` or `alpha` is not positive.
pub fn draw_concentration_given_labels<'a, R: Rng + ?Sized>(
    alpha: f64,
    groups: impl IntoIterator<Item = &'a [usize]>,
    prior: GammaPrior,
    rng: &mut R,
) -> f64 {
    assert!(alpha > 0.0, "a concentration is positive: {alpha}");
    let GammaPrior {
        mut shape,
        mut rate,
    } = prior;
    for counts in groups {
        let k = occupied_labels(counts);
        let Some((first, later)) = counts[..k].split_first() else {
            continue;
        };
        let mut at_or_after: usize = later.iter().sum();
        shape += later.len() as f64;
        rate -= sample_ln_beta(alpha + 1.0, (first + at_or_after) as f64, rng);
        for m in later {
            rate += sample_exp(rng) / (alpha + at_or_after as f64);
            at_or_after -= m;
        }
    }
    sample_concentration(shape, rate, rng)
}

/// Draws ln(1 − V_h) for h = 0..`out.len()` given the labels: V_h ~ Beta(1 + m_h, α + M_{h+1}), prior beyond `counts`.
///
/// Panics if `alpha` is not positive.
pub fn draw_sticks_given_labels<R: Rng + ?Sized>(
    counts: &[usize],
    alpha: f64,
    out: &mut [f64],
    rng: &mut R,
) {
    assert!(alpha > 0.0, "a concentration is positive: {alpha}");
    let mut later: usize = counts.iter().sum();
    for (h, ln_rest) in out.iter_mut().enumerate() {
        let m = counts.get(h).copied().unwrap_or(0);
        later -= m;
        *ln_rest = sample_ln_beta(alpha + later as f64, 1.0 + m as f64, rng);
    }
}

/// Writes the weights of sticks given as ln(1 − V_h) and returns what is left of the stick.
///
/// Panics if the lengths differ.
pub fn weights_of_sticks(ln_rest: &[f64], out: &mut [f64]) -> f64 {
    assert_eq!(ln_rest.len(), out.len(), "one place per stick");
    let mut rest = 1.0;
    for (out, ln_rest) in out.iter_mut().zip(ln_rest) {
        *out = -rest * ln_rest.exp_m1();
        rest *= ln_rest.exp();
    }
    rest
}

/// ln acceptance ratio for swapping the labels of two clusters and leaving the weights in place: (π_1/π_2)^(m_2 − m_1).
///
/// The two are chosen uniformly among the occupied labels. With several groups, the sum over groups. Source: B 1(c)i, 3(c)i.
pub fn ln_weight_swap_ratio(counts: [usize; 2], ln_weights: [f64; 2]) -> f64 {
    (counts[1] as f64 - counts[0] as f64) * (ln_weights[0] - ln_weights[1])
}

/// ln likelihood ratio for swapping labels h and h+1 together with their sticks:
/// (1 − V_{h+1})^{m_h} / (1 − V_h)^{m_{h+1}}, given [m_h, m_{h+1}] and [ln(1 − V_h), ln(1 − V_{h+1})].
///
/// With several groups, the sum over groups. To it comes [`ln_occupied_ratio`] once. Source: B 1(c)ii and (17), where
/// the printed ratio is upside down.
pub fn ln_neighbour_swap_ratio(counts: [usize; 2], ln_rest: [f64; 2]) -> f64 {
    // No items, no factor: 0 times -inf would not be a number.
    let power = |m: usize, ln: f64| if m == 0 { 0.0 } else { m as f64 * ln };
    power(counts[0], ln_rest[1]) - power(counts[1], ln_rest[0])
}

/// ln(k_old / k_new) for a swap of h and h+1 when h was chosen uniformly from 0..k, k = [`occupied_labels`].
///
/// `counts`: summed over groups. Panics if h ≥ k.
pub fn ln_occupied_ratio(counts: &[usize], h: usize) -> f64 {
    let k = occupied_labels(counts);
    assert!(h < k, "label {h} of {k} occupied ones");
    let swapped = match k - h {
        1 => k + 1,
        2 if counts[h] == 0 => k - 1,
        _ => k,
    };
    (k as f64 / swapped as f64).ln()
}

/// One Metropolis move on the labels of a Dirichlet process: swaps two neighbouring labels together with their sticks.
///
/// `ln_rest`: the sticks as ln(1 − V_h); sticks that it lacks are drawn from the prior. On acceptance swaps the two
/// entries of `counts` and of `ln_rest` and returns h: the caller renames its items (h ↔ h+1) and swaps the atoms.
/// Panics if `alpha` is not positive.
pub fn propose_neighbour_swap<R: Rng + ?Sized>(
    counts: &mut Vec<usize>,
    ln_rest: &mut Vec<f64>,
    alpha: f64,
    rng: &mut R,
) -> Option<usize> {
    assert!(alpha > 0.0, "a concentration is positive: {alpha}");
    let k = occupied_labels(counts);
    if k == 0 {
        return None;
    }
    let h = rng.random_range(0..k);
    if counts.len() < h + 2 {
        counts.resize(h + 2, 0);
    }
    while ln_rest.len() < h + 2 {
        ln_rest.push(-sample_exp(rng) / alpha);
    }
    let ln_ratio =
        ln_neighbour_swap_ratio([counts[h], counts[h + 1]], [ln_rest[h], ln_rest[h + 1]])
            + ln_occupied_ratio(counts, h);
    let accepted = -sample_exp(rng) < ln_ratio;
    if !accepted {
        return None;
    }
    counts.swap(h, h + 1);
    ln_rest.swap(h, h + 1);
    Some(h)
}

/// The sticks of one Dirichlet process draw, broken only as far as labels ask for: no truncation.
///
/// ```
/// use npb_priors::dp::LazySticks;
/// use rand::SeedableRng;
///
/// let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
/// let mut sticks = LazySticks::new(1.5)?;
/// let labels: Vec<usize> = (0..50).map(|_| sticks.draw_label(&mut rng)).collect();
/// assert!(labels.iter().all(|&label| label < sticks.weights().len()));
/// # Ok::<(), npb_priors::ParameterError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LazySticks {
    alpha: f64,
    weights: Vec<f64>,
    // What is left after each stick, decreasing; a product, so that it never stops above 0.
    rest: Vec<f64>,
}

impl LazySticks {
    /// The largest concentration: with more, even the first label would ask for billions of sticks.
    pub const MAX_ALPHA: f64 = 1e9;

    /// An unbroken stick.
    ///
    /// # Errors
    /// `alpha` not positive or above [`LazySticks::MAX_ALPHA`].
    pub fn new(alpha: f64) -> Result<Self, ParameterError> {
        Check("Dirichlet process").require(
            alpha > 0.0 && alpha <= Self::MAX_ALPHA,
            "alpha",
            alpha,
            "positive and at most 1e9",
        )?;
        Ok(Self {
            alpha,
            weights: Vec::new(),
            rest: Vec::new(),
        })
    }

    /// The weights broken off so far.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// What is left of the stick.
    pub fn rest(&self) -> f64 {
        self.rest.last().copied().unwrap_or(1.0)
    }

    /// Breaks off one more weight.
    pub fn extend<R: Rng + ?Sized>(&mut self, rng: &mut R) {
        let rest = self.rest();
        let ln_rest = -sample_exp(rng) / self.alpha;
        self.weights.push(-rest * ln_rest.exp_m1());
        self.rest.push(rest * ln_rest.exp());
    }

    /// Draws a label with these weights. Breaks about α ln(1/u) sticks at the most, u uniform.
    pub fn draw_label<R: Rng + ?Sized>(&mut self, rng: &mut R) -> usize {
        let u = 1.0 - rng.random::<f64>(); // in (0, 1]: label h when rest_h < u <= rest_{h-1}
        while self.rest() >= u {
            self.extend(rng);
        }
        self.rest.partition_point(|&rest| rest >= u)
    }
}
