//! Switches and scales, given the products of the components over the observed cells (`docs/bsvd.md#switches`).

use npb_priors::ParameterError;
use npb_priors::beta_bernoulli::Slab;
use npb_priors::dist::{Bernoulli, TruncatedNormal};
use rand::Rng;

/// What a scan of the switches looks at and changes. Components are numbered 0..K in any order.
pub(crate) struct Switchboard<'a> {
    /// `Q_kl = sum w W_k W_l` over the cells, `W_k = U_ik V_jk`: row k at `k * stride`, entries l <= k.
    pub(crate) products: &'a [f64],
    pub(crate) stride: usize,
    /// `g_k = sum w r W_k`, r the residual of the data given everything that is on. Kept up to date.
    pub(crate) gradient: &'a mut [f64],
    pub(crate) on: &'a mut [bool],
    /// `s_k` where on.
    pub(crate) scales: &'a mut [f64],
    pub(crate) noise_precision: f64,
    pub(crate) scale_precision: f64,
    pub(crate) ln_prior_odds: f64,
}

impl Switchboard<'_> {
    fn product(&self, k: usize, l: usize) -> f64 {
        self.products[k.max(l) * self.stride + k.min(l)]
    }

    /// Draws `z_k` with its weight and its scale integrated out, then the scale at once; for each k of `order`.
    ///
    /// The order must not depend on which switches are on.
    pub(crate) fn scan<R: Rng + ?Sized>(
        &mut self,
        order: &[usize],
        rng: &mut R,
    ) -> Result<(), ParameterError> {
        for &k in order {
            let old = if self.on[k] { self.scales[k] } else { 0.0 };
            let square = self.product(k, k).max(0.0);
            let linear = self.gradient[k] + old * square;
            let slab = Slab::half_normal(
                self.scale_precision,
                self.noise_precision * square,
                self.noise_precision * linear,
            );
            let switch = Bernoulli::from_ln_odds(self.ln_prior_odds + slab.ln_bayes_factor)?;
            self.on[k] = switch.sample(rng);
            let new = if self.on[k] {
                let sd = slab.precision.sqrt().recip();
                let law = TruncatedNormal::new(slab.mean, sd, 0.0, f64::INFINITY)?;
                law.sample(rng).max(f64::MIN_POSITIVE)
            } else {
                0.0
            };
            self.scales[k] = new;
            self.shift(k, new - old);
        }
        Ok(())
    }

    /// The residual after component k has grown by `delta`.
    fn shift(&mut self, k: usize, delta: f64) {
        if delta != 0.0 {
            for l in 0..self.gradient.len() {
                let product = self.product(k, l);
                self.gradient[l] -= delta * product;
            }
        }
    }
}
