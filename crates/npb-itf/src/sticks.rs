//! Sticks given labels, broken as far as the rows ask for.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::Gamma;
use npb_priors::dp::occupied_labels;
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
        self.weights.clear();
        self.rests.clear();
        let counts = &counts[..occupied_labels(counts)];
        let (mut rest, mut later) = (1.0, counts.iter().sum::<usize>());
        for &m in counts {
            later -= m;
            let [broken, left] = [1.0 + m as f64, alpha + later as f64].map(|shape| {
                // Below this both are nothing.
                Gamma::new(shape, 1.0).map_or(1.0, |law| law.sample(rng).max(1e-200))
            });
            let unit = rest / (broken + left);
            self.weights.push(unit * broken);
            rest = unit * left;
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
            let ln_left = -exponential / alpha;
            // The smaller share of the two is that which keeps its digits.
            let (broken, left) = if ln_left > -std::f64::consts::LN_2 {
                let broken = -ln_left.exp_m1();
                (broken, 1.0 - broken)
            } else {
                let left = ln_left.exp();
                (1.0 - left, left)
            };
            self.weights.push(rest * broken);
            self.rests.push(rest * left);
        }
    }
}
