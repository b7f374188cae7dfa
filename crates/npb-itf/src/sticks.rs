//! Sticks given labels, broken as far as the rows ask for.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dp::{draw_sticks_given_labels, occupied_labels};
use rand::RngExt;
use rand_distr::Exp1;

/// The first sticks of one stick-breaking process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sticks {
    pub(crate) weights: Vec<f64>,
    /// What is left after each stick.
    rests: Vec<f64>,
}

impl Sticks {
    /// Draws V_h ~ Beta(1 + m_h, α + M_{h+1}) for labels up to the largest occupied.
    pub(crate) fn draw(&mut self, counts: &[usize], alpha: f64, rng: &mut Xoshiro256PlusPlus) {
        let k = occupied_labels(counts);
        self.weights.clear();
        self.rests.clear();
        self.weights.resize(k, 0.0);
        draw_sticks_given_labels(&counts[..k], alpha, &mut self.weights, rng);
        let mut rest = 1.0;
        for weight in &mut self.weights {
            let ln_rest = *weight;
            *weight = -rest * ln_rest.exp_m1();
            rest *= ln_rest.exp();
            self.rests.push(rest);
        }
    }

    /// Number of sticks broken so far.
    pub(crate) fn len(&self) -> usize {
        self.weights.len()
    }

    /// What is left after the first `n` sticks, which must have been broken.
    pub(crate) fn rest(&self, n: usize) -> f64 {
        if n == 0 { 1.0 } else { self.rests[n - 1] }
    }

    /// Extends to `n` weights, from the prior.
    pub(crate) fn extend_to(&mut self, n: usize, alpha: f64, rng: &mut Xoshiro256PlusPlus) {
        while self.weights.len() < n {
            let rest = self.rest(self.len());
            let exponential: f64 = rng.sample(Exp1);
            let ln_rest = -exponential / alpha;
            self.weights.push(-rest * ln_rest.exp_m1());
            self.rests.push(rest * ln_rest.exp());
        }
    }
}
