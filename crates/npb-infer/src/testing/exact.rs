use std::{collections::HashMap, fmt, hash::Hash};

use npb_priors::special::log_sum_exp;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::student::TTest;
use crate::{parallel, stream};

/// Key of the streams, third word.
const CHAIN: u64 = 5;
/// Points are pooled until a chain should visit them this often: shares of rare points are too skew
/// for Student's t.
const LEAST_VISITS: f64 = 5.0;

/// A finite space with exact probabilities, to compare a sampler with.
///
/// ```
/// use npb_infer::testing::{Exact, ExactTest, partitions};
/// use rand::RngExt;
///
/// // Two customers of a Chinese restaurant with concentration 2: together with probability 1/3.
/// let exact = Exact::new(partitions(2), |tables| if tables[0] == tables[1] { 0.0 } else { 2_f64.ln() });
/// assert!((exact.probabilities()[0] - 1.0 / 3.0).abs() < 1e-15);
///
/// let test = ExactTest { seed: 3, chains: 32, length: 100, false_alarm: 0.001 };
/// let check = |alpha: f64| test.run(&exact, Vec::clone, |tables, rng| {
///     tables[1] = usize::from(rng.random::<f64>() < alpha / (1.0 + alpha));
/// }, Vec::clone);
/// assert!(check(2.0).passed());
/// assert!(!check(1.0).passed());
/// ```
#[derive(Clone, Debug)]
pub struct Exact<K> {
    points: Vec<K>,
    probabilities: Vec<f64>,
    index: HashMap<K, usize>,
}

impl<K: Clone + Eq + Hash> Exact<K> {
    /// The law with mass proportional to `exp(ln_weight)` on the distinct `points`.
    ///
    /// # Panics
    /// When no point has positive mass, or a point is listed twice.
    pub fn new(points: Vec<K>, ln_weight: impl Fn(&K) -> f64) -> Self {
        let ln_weights: Vec<f64> = points.iter().map(ln_weight).collect();
        let ln_total = log_sum_exp(&ln_weights);
        assert!(ln_total.is_finite(), "no point has positive, finite mass");
        let probabilities = ln_weights.iter().map(|w| (w - ln_total).exp()).collect();
        let index: HashMap<K, usize> = points.iter().cloned().zip(0..).collect();
        assert_eq!(index.len(), points.len(), "a point is listed twice");
        Self {
            points,
            probabilities,
            index,
        }
    }

    /// The points, in the order given.
    pub fn points(&self) -> &[K] {
        &self.points
    }

    /// Their probabilities.
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }

    /// Expectation of `f`.
    pub fn expectation(&self, f: impl Fn(&K) -> f64) -> f64 {
        self.points
            .iter()
            .zip(&self.probabilities)
            .map(|(point, p)| p * f(point))
            .sum()
    }

    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> &K {
        let mut left: f64 = rng.random();
        for (point, p) in self.points.iter().zip(&self.probabilities) {
            left -= p;
            if left < 0.0 {
                return point;
            }
        }
        // Rounding can leave a rest; the likeliest point is a fair place for it.
        let likeliest = (0..self.points.len())
            .max_by(|&a, &b| self.probabilities[a].total_cmp(&self.probabilities[b]));
        &self.points[likeliest.unwrap_or(0)]
    }
}

/// How to compare a sampler with an [`Exact`] law.
///
/// Each of `chains` independent chains starts at an exact draw, so that a correct sampler is at the
/// exact law at every one of its `length` sweeps; the shares of sweeps spent at each point, one
/// number per chain, are compared with its probability by Student's t over chains. Points that a
/// chain visits less than five times on average are pooled. With the bound of Bonferroni over all
/// comparisons the test fails for a share of at most `false_alarm` of all seeds when the sampler is
/// right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExactTest {
    /// Seed of everything.
    pub seed: u64,
    /// Independent chains, at least 8; 64 is a good choice.
    pub chains: usize,
    /// Sweeps per chain, at least 1.
    pub length: usize,
    /// Share of seeds at which a correct sampler may fail.
    pub false_alarm: f64,
}

/// One point, or several rare ones pooled.
#[derive(Clone, Debug, PartialEq)]
pub struct ExactCheck {
    /// Indices of the points.
    pub points: Vec<usize>,
    /// Their probability.
    pub probability: f64,
    /// Share of all sweeps that ended there.
    pub frequency: f64,
    /// p-value of this comparison alone.
    pub p: f64,
}

/// Result of an [`ExactTest`]; printing it lists the comparisons, worst first.
#[derive(Clone, Debug, PartialEq)]
pub struct ExactReport {
    /// All comparisons.
    pub checks: Vec<ExactCheck>,
    /// Sweeps that ended at no point of the space; any is a failure.
    pub outside: u64,
    /// Stated share of false alarms over all comparisons together.
    pub false_alarm: f64,
}

impl ExactReport {
    /// p-value of the whole test; 0 when the sampler left the space.
    pub fn p_value(&self) -> f64 {
        let smallest = self.checks.iter().map(|c| c.p).fold(1.0, f64::min);
        if self.outside > 0 {
            0.0
        } else {
            (smallest * self.checks.len() as f64).min(1.0)
        }
    }

    /// Whether no comparison gives an alarm and the sampler never left the space.
    pub fn passed(&self) -> bool {
        self.p_value() > self.false_alarm
    }
}

impl fmt::Display for ExactReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.passed() { "passed" } else { "FAILED" };
        writeln!(
            f,
            "exact probabilities {verdict}: p = {:.3e}, false-alarm rate {}",
            self.p_value(),
            self.false_alarm
        )?;
        if self.outside > 0 {
            writeln!(
                f,
                "  {} sweeps ended outside the enumerated space",
                self.outside
            )?;
        }
        let mut order: Vec<&ExactCheck> = self.checks.iter().collect();
        order.sort_by(|a, b| a.p.total_cmp(&b.p));
        for ExactCheck {
            points,
            probability,
            frequency,
            p,
        } in order
        {
            writeln!(
                f,
                "  points {points:?}: probability {probability:.5}, frequency {frequency:.5}, p = {p:.3e}"
            )?;
        }
        Ok(())
    }
}

impl ExactTest {
    /// Runs the test: `start` makes a sampler's state at a point, `sweep` makes one sweep, `point`
    /// says where a state is.
    ///
    /// In parallel over chains on the caller's rayon pool; the result does not depend on the number
    /// of threads.
    ///
    /// # Panics
    /// With fewer than 8 chains or no sweep.
    pub fn run<K: Clone + Eq + Hash + Sync, S>(
        &self,
        exact: &Exact<K>,
        start: impl Fn(&K) -> S + Sync,
        sweep: impl Fn(&mut S, &mut Xoshiro256PlusPlus) + Sync,
        point: impl Fn(&S) -> K + Sync,
    ) -> ExactReport {
        assert!(
            self.chains >= 8 && self.length >= 1,
            "at least 8 chains and 1 sweep: {self:?}"
        );
        let seed = super::moved(self.seed);
        // One count per point and, last, one for everywhere else.
        let visits = |chain: u64| {
            let rng = &mut stream(seed, [chain, 0, CHAIN, 0]);
            let mut state = start(exact.draw(rng));
            let mut visits = vec![0_u64; exact.points.len() + 1];
            for _ in 0..self.length {
                sweep(&mut state, rng);
                visits[exact
                    .index
                    .get(&point(&state))
                    .copied()
                    .unwrap_or(exact.points.len())] += 1;
            }
            visits
        };
        let visits: Vec<Vec<u64>> = parallel::map(0..self.chains as u64, visits);
        ExactReport {
            checks: pooled(&exact.probabilities, LEAST_VISITS / self.length as f64)
                .into_iter()
                .map(|points| self.compare(exact, points, &visits))
                .collect(),
            outside: visits.iter().map(|v| v[exact.points.len()]).sum(),
            false_alarm: self.false_alarm,
        }
    }

    fn compare<K>(&self, exact: &Exact<K>, points: Vec<usize>, visits: &[Vec<u64>]) -> ExactCheck {
        let probability = points
            .iter()
            .map(|&i| exact.probabilities[i])
            .sum::<f64>()
            .min(1.0);
        let count = |v: &Vec<u64>| points.iter().map(|&i| v[i]).sum::<u64>();
        let share = |v: &Vec<u64>| count(v) as f64 / self.length as f64;
        let test = TTest::new(visits.iter().map(|v| share(v) - probability));
        let first = count(&visits[0]);
        let all_the_same = visits.iter().all(|v| count(v) == first);
        ExactCheck {
            probability,
            frequency: probability + test.mean,
            p: if all_the_same {
                bounded_mean_p(share(&visits[0]), probability, self.chains)
            } else {
                test.p
            },
            points,
        }
    }
}

/// Bound on the two-sided p-value of the mean `found` of `n` independent numbers in [0, 1] that
/// should average `expected` (Hoeffding 1963, theorem 1). Where chains do not differ Student's t
/// knows nothing of their spread: no chain of a slow sampler may have met a rare point, and none of
/// a broken one ever does.
fn bounded_mean_p(found: f64, expected: f64, n: usize) -> f64 {
    let part = |found: f64, expected: f64| {
        if found == 0.0 {
            0.0
        } else {
            found * (found / expected).ln()
        }
    };
    let divergence = part(found, expected) + part(1.0 - found, 1.0 - expected);
    (2.0 * (-(n as f64) * divergence).exp()).min(1.0)
}

/// Groups of points, rare ones pooled until a group has at least `least` probability.
fn pooled(probabilities: &[f64], least: f64) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut open_mass = f64::INFINITY;
    for point in order {
        if open_mass >= least {
            groups.push(Vec::new());
            open_mass = 0.0;
        }
        open_mass += probabilities[point];
        if let Some(group) = groups.last_mut() {
            group.push(point);
        }
    }
    groups
}

/// All vectors with entry i in `0..sizes[i]`, in lexicographic order. Their number is the product
/// of the sizes.
pub fn assignments(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &size in sizes {
        all = all
            .iter()
            .flat_map(|start: &Vec<usize>| (0..size).map(move |next| extended(start, next)))
            .collect();
    }
    all
}

/// All partitions of n items as labels in order of appearance (item 0 has label 0, a new block the
/// smallest label not yet used). Their number is the Bell number: 1, 2, 5, 15, 52, 203 for n = 1,
/// ..., 6.
pub fn partitions(n: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for _ in 0..n {
        let blocks = |labels: &Vec<usize>| labels.iter().max().map_or(0, |m| m + 1);
        all = all
            .iter()
            .flat_map(|start| (0..=blocks(start)).map(move |next| extended(start, next)))
            .collect();
    }
    all
}

fn extended(start: &[usize], next: usize) -> Vec<usize> {
    start.iter().copied().chain([next]).collect()
}
