//! The truncated variational factor of W, chapter 4.

use serde::{Deserialize, Serialize};

use crate::dp::{StickFactor, Sticks};
use crate::error::{Check, ParameterError};
use crate::measure::{ConcentrationFactor, GammaPrior};
use crate::special::ln_normalize;

const CHECK: Check = Check("hierarchical Dirichlet process");

/// Truncated variational hierarchical Dirichlet process, J groups, N sticks per group, S shared atoms.
///
/// q = ∏_j [∏_h Beta(V_jh) ∏_h Cat(c_jh; σ_jh)] ∏_s Beta(U_s) · Gamma(α) · Gamma(β): group j's item picks stick h
/// with π_jh(V_j), stick h points at atom s with η_s(U). Source: W, section 4.3, with the stick term of q(c)
/// as ⟨ln U_s⟩ + Σ_{l<s} ⟨ln(1 − U_l)⟩ (misprinted there).
///
/// ```
/// use npb_priors::{GammaPrior, hdp::HdpFactor};
///
/// let vague = GammaPrior { shape: 0.05, rate: 0.05 };
/// let mut factor = HdpFactor::new([2, 3, 4], vague, vague)?;
/// let ln_likelihood = [-9.0, -1.0, -7.0, -8.0];              // of its items under each atom
/// assert!(factor.update_indicators(0, 1, &ln_likelihood).is_finite());
/// factor.update_top_sticks();
/// factor.update_group_sticks(0, &[10.0, 5.0, 0.0]);           // expected number of items per stick
/// factor.update_concentrations();
/// let weights = factor.expected_atom_weights(0);
/// assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12 && factor.elbo() < 0.0);
/// # Ok::<(), npb_priors::ParameterError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "HdpWire")]
pub struct HdpFactor {
    top: StickFactor,
    groups: Vec<Sticks>,
    alpha: ConcentrationFactor,
    // σ, group by group, stick by stick, S entries each.
    indicators: Vec<f64>,
}

#[derive(Deserialize)]
struct HdpWire {
    top: StickFactor,
    groups: Vec<Sticks>,
    alpha: ConcentrationFactor,
    indicators: Vec<f64>,
}

impl TryFrom<HdpWire> for HdpFactor {
    type Error = ParameterError;

    fn try_from(wire: HdpWire) -> Result<Self, ParameterError> {
        let HdpWire {
            top,
            groups,
            alpha,
            indicators,
        } = wire;
        CHECK.require(!groups.is_empty(), "number of groups", 0.0, "at least 1")?;
        let n_sticks = groups[0].truncation();
        for group in &groups {
            CHECK.size("lower sticks", n_sticks, group.truncation())?;
        }
        let n_atoms = top.truncation();
        CHECK.size(
            "indicators",
            groups
                .len()
                .saturating_mul(n_sticks)
                .saturating_mul(n_atoms),
            indicators.len(),
        )?;
        for row in indicators.chunks_exact(n_atoms) {
            for &p in row {
                CHECK.require((0.0..=1.0).contains(&p), "indicator", p, "between 0 and 1")?;
            }
            let sum: f64 = row.iter().sum();
            CHECK.require(
                (sum - 1.0).abs() < 1e-6,
                "sum of an indicator's probabilities",
                sum,
                "1",
            )?;
        }
        Ok(Self {
            top,
            groups,
            alpha,
            indicators,
        })
    }
}

impl HdpFactor {
    /// Sticks at their prior under the prior means of α and β; indicators at ⟨η⟩.
    ///
    /// `sizes`: [number of groups J, lower truncation N, upper truncation S], all at least 1.
    ///
    /// # Errors
    /// A size of 0, or a shape or rate that is not finite and positive.
    pub fn new(
        sizes: [usize; 3],
        alpha_prior: GammaPrior,
        beta_prior: GammaPrior,
    ) -> Result<Self, ParameterError> {
        let [n_groups, n_sticks, n_atoms] = sizes;
        CHECK.require(
            n_groups >= 1,
            "number of groups",
            n_groups as f64,
            "at least 1",
        )?;
        let alpha = ConcentrationFactor::new(alpha_prior)?;
        let top = StickFactor::new(n_atoms, beta_prior)?;
        let groups = vec![Sticks::new(n_sticks, alpha.mean())?; n_groups];
        let indicators = top.expected_weights().repeat(n_groups * n_sticks);
        Ok(Self {
            top,
            groups,
            alpha,
            indicators,
        })
    }

    /// Number of groups J.
    pub fn n_groups(&self) -> usize {
        self.groups.len()
    }

    /// Lower truncation N.
    pub fn n_sticks(&self) -> usize {
        self.groups[0].truncation()
    }

    /// Upper truncation S.
    pub fn n_atoms(&self) -> usize {
        self.top.truncation()
    }

    /// q(U) and q(β).
    pub fn top(&self) -> &StickFactor {
        &self.top
    }

    /// q(V_j).
    pub fn group(&self, group: usize) -> &Sticks {
        &self.groups[group]
    }

    /// q(α).
    pub fn alpha(&self) -> &ConcentrationFactor {
        &self.alpha
    }

    /// σ_jh: probabilities over the S atoms of what stick `stick` of group `group` points at.
    pub fn indicator(&self, group: usize, stick: usize) -> &[f64] {
        &self.indicators[self.indicator_range(group, stick)]
    }

    fn indicator_range(&self, group: usize, stick: usize) -> std::ops::Range<usize> {
        assert!(
            group < self.n_groups() && stick < self.n_sticks(),
            "stick {stick} of group {group}"
        );
        let start = (group * self.n_sticks() + stick) * self.n_atoms();
        start..start + self.n_atoms()
    }

    /// Exact coordinate update of q(c_jh): σ_jhs ∝ exp(⟨ln η_s⟩ + `ln_likelihood`_s). Cost O(S).
    ///
    /// `ln_likelihood`: Σ_i ρ_jih ⟨ln p(item i | atom s)⟩ for each of the S atoms, −∞ allowed. Returns the logarithm of
    /// the normaliser; when it is not finite (all entries −∞, one NaN or +∞) σ_jh is reset to ⟨η⟩, and the caller has
    /// numerical trouble to report. Panics if the length is not S.
    #[must_use = "a normaliser that is not finite means numerical trouble"]
    pub fn update_indicators(&mut self, group: usize, stick: usize, ln_likelihood: &[f64]) -> f64 {
        let range = self.indicator_range(group, stick);
        assert_eq!(
            ln_likelihood.len(),
            self.n_atoms(),
            "one log-likelihood per atom"
        );
        let sigma = &mut self.indicators[range];
        self.top.expected_ln_weights(sigma);
        sigma
            .iter_mut()
            .zip(ln_likelihood)
            .for_each(|(s, l)| *s += l);
        let ln_normaliser = ln_normalize(sigma);
        if !ln_normaliser.is_finite() {
            sigma.copy_from_slice(&self.top.expected_weights());
        }
        ln_normaliser
    }

    /// Exact coordinate update of q(V_j) from the expected number of items per stick, see [`Sticks::update`].
    pub fn update_group_sticks(&mut self, group: usize, counts: &[f64]) {
        self.groups[group].update(counts, self.alpha.mean());
    }

    /// Exact coordinate update of q(U): κ_s1 = 1 + Σ_jh σ_jhs, κ_s2 = ⟨β⟩ + Σ_{l>s} Σ_jh σ_jhl. Cost O(J N S).
    pub fn update_top_sticks(&mut self) {
        let mut counts = vec![0.0; self.n_atoms()];
        for sigma in self.indicators.chunks_exact(counts.len()) {
            counts.iter_mut().zip(sigma).for_each(|(c, s)| *c += s);
        }
        self.top.update_sticks(&counts);
    }

    /// Exact coordinate updates of q(α) (from all J (N−1) lower sticks) and q(β).
    pub fn update_concentrations(&mut self) {
        let sum_ln: f64 = self.groups.iter().map(Sticks::sum_ln_rest).sum();
        self.alpha
            .update(self.n_groups() * (self.n_sticks() - 1), sum_ln);
        self.top.update_alpha();
    }

    /// Weight of each atom in group `group`: Σ_h ⟨π_jh⟩ σ_jhs. Cost O(N S).
    pub fn expected_atom_weights(&self, group: usize) -> Vec<f64> {
        let mut weights = vec![0.0; self.n_atoms()];
        for (stick, pi) in self.groups[group]
            .expected_weights()
            .into_iter()
            .enumerate()
        {
            weights
                .iter_mut()
                .zip(self.indicator(group, stick))
                .for_each(|(w, sigma)| *w += pi * sigma);
        }
        weights
    }

    /// The exact part of the evidence lower bound of V, c, U, α and β: ⟨ln p⟩ − ⟨ln q⟩ of all of them, ≤ 0.
    ///
    /// A model adds Σ_ji ⟨ln π_j,z_ji⟩ − ⟨ln q(z)⟩ and its likelihood. Cost O(J N S).
    pub fn elbo(&self) -> f64 {
        let lower: f64 = self
            .groups
            .iter()
            .map(|sticks| sticks.elbo(&self.alpha))
            .sum();
        let mut ln_eta = vec![0.0; self.n_atoms()];
        self.top.expected_ln_weights(&mut ln_eta);
        let indicators: f64 = self
            .indicators
            .chunks_exact(ln_eta.len())
            .flat_map(|sigma| sigma.iter().zip(&ln_eta))
            // p ln p is 0 at p = 0.
            .map(|(&p, ln_eta)| if p > 0.0 { p * (ln_eta - p.ln()) } else { 0.0 })
            .sum();
        lower + self.alpha.elbo() + indicators + self.top.elbo()
    }
}

#[cfg(test)]
mod tests;
