//! Every update against the bound of a stand-in model, and the printed one against the same.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::measure::{mean_ln, mean_ln_rest};

const PRIORS: [GammaPrior; 2] = [
    GammaPrior {
        shape: 0.05,
        rate: 0.05,
    },
    GammaPrior {
        shape: 2.0,
        rate: 0.5,
    },
];
const SIZES: [usize; 3] = [3, 4, 5];

/// A stand-in model: fixed log-likelihoods of each group's items under each atom.
struct Toy {
    factor: HdpFactor,
    // [group][item][atom] and the responsibilities [group][item][stick].
    ln_likelihood: Vec<Vec<Vec<f64>>>,
    rho: Vec<Vec<Vec<f64>>>,
}

impl Toy {
    fn new(rng: &mut Xoshiro256PlusPlus) -> Self {
        let [j, n, s] = SIZES;
        let items: Vec<usize> = (0..j).map(|_| rng.random_range(1..12)).collect();
        let mut table = |width: usize, f: &dyn Fn(f64) -> f64| -> Vec<Vec<Vec<f64>>> {
            items
                .iter()
                .map(|&m| {
                    (0..m)
                        .map(|_| (0..width).map(|_| f(rng.random())).collect())
                        .collect()
                })
                .collect()
        };
        let ln_likelihood = table(s, &|u| -30.0 * u);
        let mut rho = table(n, &|u| u);
        for r in rho.iter_mut().flatten() {
            let sum: f64 = r.iter().sum();
            r.iter_mut().for_each(|p| *p /= sum);
        }
        Self {
            factor: HdpFactor::new(SIZES, PRIORS[0], PRIORS[1]).unwrap(),
            ln_likelihood,
            rho,
        }
    }

    fn indicator_likelihood(&self, j: usize, h: usize) -> Vec<f64> {
        let mut sum = vec![0.0; SIZES[2]];
        for (ln_l, rho) in self.ln_likelihood[j].iter().zip(&self.rho[j]) {
            sum.iter_mut().zip(ln_l).for_each(|(s, l)| *s += rho[h] * l);
        }
        sum
    }

    fn step(&mut self, which: usize, rng: &mut Xoshiro256PlusPlus) {
        let j = rng.random_range(0..SIZES[0]);
        match which {
            0 => {
                let h = rng.random_range(0..SIZES[1]);
                let ln_l = self.indicator_likelihood(j, h);
                assert!(self.factor.update_indicators(j, h, &ln_l).is_finite());
            }
            1 => {
                let counts: Vec<f64> = (0..SIZES[1])
                    .map(|h| self.rho[j].iter().map(|r| r[h]).sum())
                    .collect();
                self.factor.update_group_sticks(j, &counts);
            }
            2 => self.factor.update_top_sticks(),
            3 => self.factor.update_concentrations(),
            _ => self.update_responsibilities(j),
        }
    }

    fn update_responsibilities(&mut self, j: usize) {
        let mut ln_pi = vec![0.0; SIZES[1]];
        self.factor.group(j).expected_ln_weights(&mut ln_pi);
        for (ln_l, rho) in self.ln_likelihood[j].iter().zip(&mut self.rho[j]) {
            for (h, r) in rho.iter_mut().enumerate() {
                let sigma = self.factor.indicator(j, h);
                *r = ln_pi[h] + sigma.iter().zip(ln_l).map(|(s, l)| s * l).sum::<f64>();
            }
            ln_normalize(rho);
        }
    }

    fn bound(&self) -> f64 {
        let mut total = self.factor.elbo();
        for j in 0..SIZES[0] {
            let mut ln_pi = vec![0.0; SIZES[1]];
            self.factor.group(j).expected_ln_weights(&mut ln_pi);
            for rho in &self.rho[j] {
                total += rho
                    .iter()
                    .zip(&ln_pi)
                    .map(|(&r, l)| if r > 0.0 { r * (l - r.ln()) } else { 0.0 })
                    .sum::<f64>();
            }
            for h in 0..SIZES[1] {
                let ln_l = self.indicator_likelihood(j, h);
                total += self
                    .factor
                    .indicator(j, h)
                    .iter()
                    .zip(&ln_l)
                    .map(|(s, l)| s * l)
                    .sum::<f64>();
            }
        }
        total
    }
}

#[test]
fn no_single_update_lowers_the_bound() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for trial in 0..30 {
        let mut toy = Toy::new(&mut rng);
        let mut last = toy.bound();
        for _ in 0..60 {
            let which = rng.random_range(0..5);
            toy.step(which, &mut rng);
            let now = toy.bound();
            assert!(
                now >= last - 1e-12 * last.abs(),
                "trial {trial}, update {which}: {last} to {now}"
            );
            last = now;
        }
    }
}

/// The printed stick term of q(c), ⟨ln U_s⟩ + Σ_{l<s} ⟨ln(1 − U_s)⟩, lowers the bound.
#[test]
fn the_printed_indicator_update_lowers_the_bound() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut falls = 0;
    for _ in 0..30 {
        let mut toy = Toy::new(&mut rng);
        for i in 0..60 {
            toy.step(i % 5, &mut rng);
        }
        for (j, h) in [(0, 0), (1, 1), (2, 2)] {
            toy.update_and_count(j, h, &mut falls);
        }
    }
    assert!(falls >= 5, "{falls} of 90");
}

impl Toy {
    fn update_and_count(&mut self, j: usize, h: usize, falls: &mut usize) {
        let ln_l = self.indicator_likelihood(j, h);
        assert!(self.factor.update_indicators(j, h, &ln_l).is_finite());
        let before = self.bound();
        let sticks = self
            .factor
            .top
            .sticks()
            .parameters()
            .iter()
            .map(|&s| (mean_ln(s), mean_ln_rest(s)));
        let mut printed: Vec<f64> = sticks
            .enumerate()
            .map(|(s, (ln_u, ln_rest))| ln_u + s as f64 * ln_rest + ln_l[s])
            .collect();
        printed.push(self.factor.top.sticks().sum_ln_rest() + ln_l[SIZES[2] - 1]);
        ln_normalize(&mut printed);
        let range = self.factor.indicator_range(j, h);
        self.factor.indicators[range].copy_from_slice(&printed);
        *falls += usize::from(self.bound() < before - 1e-6);
        assert!(self.factor.update_indicators(j, h, &ln_l).is_finite());
    }
}

#[test]
fn one_group_one_atom_and_one_stick_work() {
    for sizes in [[1, 1, 1], [1, 3, 1], [2, 1, 3]] {
        let mut factor = HdpFactor::new(sizes, PRIORS[0], PRIORS[1]).unwrap();
        factor.update_group_sticks(0, &vec![2.0; sizes[1]]);
        assert!(
            factor
                .update_indicators(0, 0, &vec![-1.0; sizes[2]])
                .is_finite()
        );
        factor.update_top_sticks();
        factor.update_concentrations();
        assert!(factor.elbo() <= 1e-12);
        assert!((factor.expected_atom_weights(0).iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}

#[test]
fn bad_sizes_are_named_and_decoded_factors_checked() {
    let err = HdpFactor::new([0, 2, 2], PRIORS[0], PRIORS[1]).unwrap_err();
    assert_eq!(
        err.to_string(),
        "hierarchical Dirichlet process: number of groups = 0: must be at least 1"
    );
    assert!(HdpFactor::new([2, 0, 2], PRIORS[0], PRIORS[1]).is_err());
    assert!(HdpFactor::new([2, 2, 0], PRIORS[0], PRIORS[1]).is_err());

    let factor = HdpFactor::new([2, 2, 2], PRIORS[0], PRIORS[1]).unwrap();
    let text = serde_json::to_string(&factor).unwrap();
    assert_eq!(serde_json::from_str::<HdpFactor>(&text).unwrap(), factor);
    let start = text.find("\"indicators\":[").unwrap() + 14;
    for forged in ["2.0,", "0.9,", ""] {
        let end = start + text[start..].find(',').unwrap() + 1;
        let damaged = [&text[..start], forged, &text[end..]].concat();
        assert!(
            serde_json::from_str::<HdpFactor>(&damaged).is_err(),
            "{forged}"
        );
    }
}

#[test]
fn a_likelihood_of_nothing_is_reported_and_leaves_probabilities() {
    let mut factor = HdpFactor::new([1, 2, 3], PRIORS[0], PRIORS[1]).unwrap();
    for bad in [
        [f64::NEG_INFINITY; 3],
        [0.0, f64::NAN, 0.0],
        [0.0, f64::INFINITY, 0.0],
    ] {
        assert!(!factor.update_indicators(0, 1, &bad).is_finite());
        assert_eq!(factor.indicator(0, 1), factor.top().expected_weights());
    }
    assert!(
        factor
            .update_indicators(0, 1, &[f64::NEG_INFINITY, 0.0, f64::NEG_INFINITY])
            .is_finite()
    );
    assert_eq!(factor.indicator(0, 1), [0.0, 1.0, 0.0]);
    assert!(factor.elbo().is_finite());
}
