//! What the dual needs of a family of distributions.

/// A family `q(M) ~ p(M) exp(phi' psi(M))` at its present `phi`.
pub(super) trait Exponential {
    fn n_features(&self) -> usize;
    /// `E_q[psi_t]`.
    fn expectation(&self, feature: usize) -> f64 {
        self.expectation_after(feature, 0.0)
    }
    /// `E_q[psi_t]` if `phi_t` were larger by `step`.
    fn expectation_after(&self, feature: usize, step: f64) -> f64;
    /// Smallest and largest value of a feature.
    fn range(&self, feature: usize) -> (f64, f64);
    /// Adds to `phi_t`.
    fn shift(&mut self, feature: usize, step: f64);
    /// `ln sum_M p(M) exp(phi' psi(M))`.
    fn ln_partition(&self) -> f64;
    /// Probabilities, or the mean.
    fn posterior(&self) -> Vec<f64>;
    /// Largest `KL(q || p)` of any distribution.
    fn largest_divergence(&self) -> f64;
    /// Largest value of a convex function of the expectations.
    fn largest(&self, features: &[usize], of: &dyn Fn(&[f64]) -> f64) -> f64;
}
