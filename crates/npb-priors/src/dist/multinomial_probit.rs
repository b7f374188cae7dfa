//! Multinomial probit: which class utilities speak for.
//!
//! With L classes there are L - 1 utilities `t_k ~ N(mu_k, sd_k^2)`, independent, and the first class has utility 0 without noise. A row is of the class with
//! the largest utility; with two classes this is `y = sign(t)`. The probability of the first class is a product. That of another one is an integral
//! over its own utility u,
//!
//! ```text
//! P(k) = int_0^inf N(u; mu_k, sd_k^2) prod_{j != k} Phi((u - mu_j) / sd_j) du
//! ```
//!
//! by panels of Gauss-Legendre nodes. Training asks for one of these integrals and its derivatives, with all digits wherever the utilities are
//! ([`moments`]: panels from the mode of the log-concave integrand outwards, as wide as its curvature allows); prediction for all of them
//! ([`probabilities`]: one set of panels where the largest utility may be, as `N(u; mu_k, sd_k^2) / Phi_k = sd_k^-1 d ln Phi_k`). With two classes it is a
//! normal probability and nothing is integrated.

use std::sync::LazyLock;

use npb_linalg::elementary::{exp, vectorised};
use pulp::Arch;
use rand::Rng;

use super::sample_probit;
use crate::special::vector::{ln_normal_cdf_and_slope, soft_label};
use crate::special::{LN_SQRT_2PI, normal_cdf};

/// Nodes of a panel.
const NODES: usize = 16;
/// Width of a panel from a mode, in standard deviations of a normal density with the integrand's curvature where it is largest.
const PANEL: f64 = 4.5;
/// Width of a panel where all classes are integrated at once, in standard deviations of a utility and for ten of them.
const SHARED_PANEL: f64 = 3.0;
/// A panel's integrand falls at most by this factor's exponential at the slope of its left end.
const STEEP: f64 = 12.0;
/// Panels on one side, at most: a dozen for each class will do.
const MOST_PANELS: usize = 1_000;
/// Beyond so many standard deviations a normal distribution function is 1 and has no features to resolve; so many below its mean it is 1e-17.
const FLAT: f64 = 8.5;
/// From a limit on, so many standard deviations of a utility hold all of it but 1e-13, whatever its mean.
const REACH: f64 = 6.0;
/// What is this far below the mode on the logarithmic scale does not count.
const NEGLIGIBLE: f64 = 40.0;
/// So many standard deviations below its mean the logarithm of a normal distribution function has the curvature -1, to more digits than a difference leaves of it.
const DEEP: f64 = -1e4;

/// Utilities that are looked at side by side.
const LANES: usize = 8;
const FAR_ABOVE: f64 = 1e3;

/// A number for each node of a panel.
type AtNodes = [f64; NODES];

/// Nodes and weights of Gauss-Legendre quadrature on [0, 1].
static RULE: LazyLock<(AtNodes, AtNodes)> = LazyLock::new(gauss_legendre);

fn gauss_legendre() -> (AtNodes, AtNodes) {
    let n = NODES as f64;
    let (mut nodes, mut weights) = ([0.0; NODES], [0.0; NODES]);
    for i in 0..NODES {
        let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..100 {
            let (mut p, mut before) = (x, 1.0);
            for k in 2..=NODES {
                let k = k as f64;
                (p, before) = (((2.0 * k - 1.0) * x * p - (k - 1.0) * before) / k, p);
            }
            slope = n * (x * p - before) / (x * x - 1.0);
            let step = p / slope;
            x -= step;
            if step.abs() < 1e-16 {
                break;
            }
        }
        nodes[i] = 0.5 * (1.0 + x);
        weights[i] = 1.0 / ((1.0 - x * x) * slope * slope);
    }
    (nodes, weights)
}

/// At the points of a panel: adds `ln Phi((u - mean) / sd)` to `ln`, and has its slope (times sd) in `slopes`.
#[inline(always)]
fn add_utility(points: &AtNodes, mean: f64, sd: f64, ln: &mut AtNodes, slopes: &mut AtNodes) {
    for i in 0..NODES {
        let (own, slope) = ln_normal_cdf_and_slope((points[i] - mean) / sd);
        ln[i] += own;
        slopes[i] = slope;
    }
}

/// The integrand of a winning utility `N(mu, 1)` among others, as a function of its distance from mu: differences of large utilities keep their digits.
struct Integrand<'a> {
    /// Where the winning utility is 0.
    least: f64,
    /// Means of the others less mu.
    others: &'a [f64],
    arch: Arch,
}

/// Logarithm of the integrand at a point, its slope and minus its curvature.
#[derive(Clone, Copy)]
struct Local {
    ln: f64,
    slope: f64,
    curvature: f64,
}

/// Integrals of the integrand over its value at the mode.
struct Sums {
    total: f64,
    /// Of the winning utility's distance from its mean.
    own: f64,
    /// Of the slopes of the others.
    slopes: Vec<f64>,
    /// Memory: slopes at the nodes, by utility.
    at_nodes: Vec<AtNodes>,
}

impl Integrand<'_> {
    /// Without the constant of the normal density.
    fn at(&self, u: f64) -> Local {
        let mut local = Local {
            ln: -0.5 * u * u,
            slope: -u,
            curvature: 1.0,
        };
        vectorised(
            self.arch,
            #[inline(always)]
            || {
                for others in self.others.chunks(LANES) {
                    // Lanes that no utility has are far above their mean, where nothing is added.
                    let mut z = [FAR_ABOVE; LANES];
                    for (z, mean) in z.iter_mut().zip(others) {
                        *z = u - mean;
                    }
                    let (mut ln, mut slope, mut curvature) =
                        ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
                    for i in 0..LANES {
                        (ln[i], slope[i]) = ln_normal_cdf_and_slope(z[i]);
                        let exact = slope[i] * (slope[i] + z[i]);
                        curvature[i] = if z[i] < DEEP { 1.0 } else { exact };
                    }
                    local.ln += ln.iter().sum::<f64>();
                    local.slope += slope.iter().sum::<f64>();
                    local.curvature += curvature.iter().sum::<f64>();
                }
            },
        );
        local
    }

    /// Where the integrand is largest: Newton's steps from its left, where they overshoot by rounding alone.
    fn mode(&self) -> (f64, Local) {
        let mut u = self.least.max(0.0);
        let mut local = self.at(u);
        for _ in 0..60 {
            // At the least of all utilities the slope may be negative.
            let step = (local.slope / local.curvature).max(self.least - u);
            // Not exact: it only has to be near.
            if step.abs() * local.curvature.sqrt() < 1e-3 {
                break;
            }
            u += step;
            local = self.at(u);
        }
        (u, local)
    }

    /// The first argument: [`mode`](Self::mode).
    fn integrate(&self, (mode, top): (f64, Local)) -> Sums {
        let n = self.others.len();
        let mut sums = Sums {
            total: 0.0,
            own: 0.0,
            slopes: vec![0.0; n],
            at_nodes: vec![[0.0; NODES]; n],
        };
        let (mut right, mut local) = (mode, top);
        for _ in 0..MOST_PANELS {
            // Numbers so large that they are none, or have no digits left for a panel's width, are as far as can be.
            if local.ln.is_nan() || local.ln <= top.ln - NEGLIGIBLE {
                break;
            }
            // At most as far as the slope lets the integrand live.
            let width = (PANEL / local.curvature.sqrt()).min(STEEP / local.slope.abs().max(1e-300));
            if right + width <= right {
                break;
            }
            self.panel(right, width, top.ln, &mut sums);
            right += width;
            local = self.at(right);
        }
        let (mut left, mut local) = (mode, top);
        for _ in 0..MOST_PANELS {
            if left <= self.least || local.ln.is_nan() || local.ln <= top.ln - NEGLIGIBLE {
                break;
            }
            // The curvature falls in u, so that of the left end counts: found for the width that the right end suggests.
            let end = (left - PANEL / local.curvature.sqrt()).max(self.least);
            let width = (PANEL / self.at(end).curvature.sqrt()).min(left - self.least);
            if left - width >= left {
                break;
            }
            self.panel(left - width, width, top.ln, &mut sums);
            left -= width;
            local = self.at(left);
        }
        sums
    }

    /// Adds the panel of a width to the right of `from`.
    fn panel(&self, from: f64, width: f64, top: f64, sums: &mut Sums) {
        let (nodes, rule) = &*RULE;
        vectorised(
            self.arch,
            #[inline(always)]
            || {
                let points: AtNodes = std::array::from_fn(|i| from + width * nodes[i]);
                let mut ln: AtNodes = std::array::from_fn(|i| -0.5 * points[i] * points[i] - top);
                for (mean, slopes) in self.others.iter().zip(&mut sums.at_nodes) {
                    add_utility(&points, *mean, 1.0, &mut ln, slopes);
                }
                let weights: AtNodes = std::array::from_fn(|i| width * rule[i] * exp(ln[i]));
                sums.total += weights.iter().sum::<f64>();
                sums.own += dot(&weights, &points);
                for (sum, slopes) in sums.slopes.iter_mut().zip(&sums.at_nodes) {
                    *sum += dot(&weights, slopes);
                }
            },
        );
    }
}

#[inline(always)]
fn dot(a: &AtNodes, b: &AtNodes) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// For utilities `N(mu_k, 1)` cut to the region of `class` (0, or k + 1 for utility k): their means, and the logarithm of the region's probability, which is
/// returned.
pub fn moments(class: usize, locations: &[f64], means: &mut [f64]) -> f64 {
    if class == 0 || locations.len() == 1 {
        let sign = if class > 0 { 1.0 } else { -1.0 };
        let each = means.iter_mut().zip(locations);
        return each
            .map(|(mean, &location)| {
                let label = soft_label(sign * location);
                *mean = sign * label.mean;
                label.ln_mass
            })
            .sum();
    }
    let own = class - 1;
    let others = |j: &usize| *j != own;
    let apart: Vec<f64> = (0..locations.len())
        .filter(others)
        .map(|j| locations[j] - locations[own])
        .collect();
    let integrand = Integrand {
        least: -locations[own],
        others: &apart,
        arch: Arch::new(),
    };
    let (mode, top) = integrand.mode();
    let sums = integrand.integrate((mode, top));
    if !(sums.total > 0.0 && sums.total.is_finite() && top.ln.is_finite()) {
        return nearest(own, locations, means);
    }
    means[own] = locations[own] + sums.own / sums.total;
    for (j, slope) in (0..locations.len()).filter(others).zip(&sums.slopes) {
        means[j] = locations[j] - slope / sums.total;
    }
    top.ln + sums.total.ln() - LN_SQRT_2PI
}

/// Where utilities are so large that squares have no digits left: the winning one is raised to the largest, or to 0, and nothing else moves.
fn nearest(own: usize, locations: &[f64], means: &mut [f64]) -> f64 {
    means.copy_from_slice(locations);
    means[own] = locations.iter().copied().fold(0.0, f64::max);
    let by = means[own] - locations[own];
    -0.5 * by * by
}

/// Probabilities of all classes but the first, for utilities `N(mean_k, variance_k)`, within 1e-12 absolutely. Not numbers where a mean or a variance is none.
pub fn probabilities(means: &[f64], variances: &[f64], out: &mut [f64]) {
    if !means.iter().chain(variances).all(|x| x.is_finite()) {
        return out.fill(f64::NAN);
    }
    if means.len() == 1 {
        out[0] = normal_cdf(means[0] / variances[0].sqrt());
        return;
    }
    let sds: Vec<f64> = variances.iter().map(|v| v.sqrt()).collect();
    // Differences of large utilities keep their digits.
    let reference = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let apart: Vec<f64> = means.iter().map(|mean| mean - reference).collect();
    let largest = |at: f64| {
        let each = apart.iter().zip(&sds).map(|(mean, sd)| mean + at * sd);
        each.fold(f64::NEG_INFINITY, f64::max)
    };
    let least = largest(-FLAT).max(-reference);
    let reach = sds.iter().copied().fold(0.0, f64::max) * REACH;
    let most = largest(FLAT).max(least + reach);
    out.fill(0.0);
    let mut slopes = vec![[0.0; NODES]; means.len()];
    // The largest of many varies less than each.
    let panel = SHARED_PANEL * (10f64.ln() / (means.len() as f64).ln()).min(1.0);
    let (mut left, mut steep) = (least, STEEP);
    for _ in 0..MOST_PANELS {
        let each = apart.iter().zip(&sds);
        let resolved = each.clone().filter(|(mean, sd)| left - *mean < FLAT * *sd);
        let mut width = panel * resolved.map(|(_, sd)| *sd).fold(f64::INFINITY, f64::min);
        if width == f64::INFINITY {
            // All of them are in a tail, of which the first panel has nearly everything.
            width = each
                .map(|(mean, sd)| steep * sd * sd / (left - mean))
                .fold(f64::INFINITY, f64::min);
            steep *= 2.0;
        }
        let width = width.min(most - left);
        let right = left + width;
        if right <= left || right.is_nan() {
            break;
        }
        add_panel(left, width, (&apart, &sds), &mut slopes, out);
        left = right;
    }
}

/// Adds a panel's part of the probabilities of all utilities.
fn add_panel(
    from: f64,
    width: f64,
    (means, sds): (&[f64], &[f64]),
    slopes: &mut [AtNodes],
    out: &mut [f64],
) {
    let (nodes, rule) = &*RULE;
    vectorised(
        Arch::new(),
        #[inline(always)]
        || {
            let points: AtNodes = std::array::from_fn(|i| from + width * nodes[i]);
            let mut ln = [0.0; NODES];
            for ((mean, sd), slopes) in means.iter().zip(sds).zip(&mut *slopes) {
                add_utility(&points, *mean, *sd, &mut ln, slopes);
            }
            let weights: AtNodes = std::array::from_fn(|i| width * rule[i] * exp(ln[i]));
            for ((out, sd), slopes) in out.iter_mut().zip(sds).zip(&*slopes) {
                *out += dot(&weights, slopes) / sd;
            }
        },
    );
}

/// Nodes and weights of Gauss-Hermite quadrature for a standard normal.
const HERMITE: [(f64, f64); 7] = [
    (0.0, 0.457_142_857_142_857_1),
    (1.154_405_394_739_968, 0.240_123_178_605_012_7),
    (-1.154_405_394_739_968, 0.240_123_178_605_012_7),
    (2.366_759_410_734_541, 0.030_757_123_967_586_5),
    (-2.366_759_410_734_541, 0.030_757_123_967_586_5),
    (3.750_439_717_725_742, 0.000_548_268_855_972_218_4),
    (-3.750_439_717_725_742, 0.000_548_268_855_972_218_4),
];

/// As [`probabilities`], for utilities with covariance `diag(variances) + shared` (row-major): what they share through a row's missing features.
///
/// The leading direction of `shared`, all of it when one feature is missing, is integrated by quadrature; of what is left the variances count and the
/// correlations do not. Exact for one utility.
pub fn probabilities_sharing(means: &[f64], variances: &[f64], shared: &[f64], out: &mut [f64]) {
    let n = means.len();
    let diagonal = |k: usize| shared[k * n + k];
    if n == 1 {
        return probabilities(means, &[variances[0] + diagonal(0)], out);
    }
    let lead = leading(shared, n);
    if lead.iter().all(|x| *x == 0.0) {
        return probabilities(means, variances, out);
    }
    let rest: Vec<f64> = (0..n)
        .map(|k| variances[k] + (diagonal(k) - lead[k] * lead[k]).max(0.0))
        .collect();
    out.fill(0.0);
    let (mut moved, mut part) = (vec![0.0; n], vec![0.0; n]);
    for (node, weight) in HERMITE {
        for k in 0..n {
            moved[k] = means[k] + node * lead[k];
        }
        probabilities(&moved, &rest, &mut part);
        for (sum, part) in out.iter_mut().zip(&part) {
            *sum += weight * part;
        }
    }
}

/// The leading eigenvector of a positive semidefinite matrix, with the root of its eigenvalue for length.
fn leading(matrix: &[f64], n: usize) -> Vec<f64> {
    let largest = (0..n).fold(0, |best, k| {
        if matrix[k * n + k] > matrix[best * n + best] {
            k
        } else {
            best
        }
    });
    let mut v = matrix[largest * n..][..n].to_vec();
    let length = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    let mut value = 0.0;
    for _ in 0..50 {
        let norm = length(&v);
        if norm <= 0.0 || !norm.is_finite() {
            return vec![0.0; n];
        }
        v.iter_mut().for_each(|x| *x /= norm);
        let row = |k: usize| -> f64 { (0..n).map(|l| matrix[k * n + l] * v[l]).sum() };
        let next: Vec<f64> = (0..n).map(row).collect();
        let reached = length(&next);
        if (reached - value).abs() < 1e-12 * reached {
            break;
        }
        value = reached;
        v = next;
    }
    let norm = length(&v);
    let scale = value.sqrt() / norm;
    v.iter().map(|x| x * scale).collect()
}

/// Draws utilities `N(mu_k, 1)` in the region of `class`: with more than one of them a Gibbs step from those in `t`, which must be in the region: first the
/// winning one given the others, then these given it.
pub fn draw<R: Rng + ?Sized>(class: usize, locations: &[f64], t: &mut [f64], rng: &mut R) {
    let below = match class {
        0 => 0.0,
        class => {
            let own = class - 1;
            let others = t.iter().enumerate().filter(|(j, _)| *j != own);
            let bound = others.fold(0.0, |top: f64, (_, t)| top.max(*t));
            t[own] = bound + sample_probit(locations[own] - bound, true, rng);
            t[own]
        }
    };
    for (j, (t, location)) in t.iter_mut().zip(locations).enumerate() {
        if j + 1 != class {
            *t = below + sample_probit(location - below, false, rng);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_distr::StandardNormal;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn generator(seed: u64, case: usize) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(1000 * seed + case as u64)
    }

    fn class_of(t: &[f64]) -> usize {
        let best = (0..t.len()).fold(0, |best, k| if t[k] > t[best] { k } else { best });
        if t[best] > 0.0 { best + 1 } else { 0 }
    }

    #[test]
    fn moments_are_those_of_draws() {
        let locations = [[0.3, -0.4, 1.1], [2.0, 1.5, -3.0], [-1.0, -0.5, -0.2]];
        for (case, locations) in locations.iter().enumerate() {
            let mut rng = generator(5, case);
            let mut counts = [0.0; 4];
            let mut sums = [[0.0; 3]; 4];
            let n = 400_000;
            for _ in 0..n {
                let t = locations.map(|m| m + rng.sample::<f64, _>(StandardNormal));
                let class = class_of(&t);
                counts[class] += 1.0;
                (0..3).for_each(|k| sums[class][k] += t[k]);
            }
            let mut total = 0.0;
            for class in 0..4 {
                let mut means = [0.0; 3];
                let mass = moments(class, locations, &mut means).exp();
                total += mass;
                let share = counts[class] / f64::from(n);
                let error = (mass * (1.0 - mass) / f64::from(n)).sqrt();
                assert!(
                    (share - mass).abs() < 4.5 * error,
                    "{class}: {share} {mass}"
                );
                for k in 0..3 {
                    let found = sums[class][k] / counts[class];
                    assert!(
                        (found - means[k]).abs() < 4.5 / counts[class].sqrt(),
                        "{class} {k}: {found} {}",
                        means[k]
                    );
                }
                let mut all = [0.0; 3];
                probabilities(locations, &[1.0; 3], &mut all);
                if class > 0 {
                    assert!((all[class - 1] / mass - 1.0).abs() < 1e-13);
                }
            }
            assert!((total - 1.0).abs() < 1e-13, "{total}");
        }
    }

    /// The regions fill the space: a sharp check of the quadrature wherever the utilities are.
    #[test]
    fn probabilities_sum_to_one() {
        let mut rng = generator(6, 0);
        for case in 0..2_000 {
            let spread = [0.0, 0.1, 1.0, 10.0, 1e3][case % 5];
            let n = if case % 50 == 7 { 100 } else { 2 + case % 9 };
            let wide = if case % 3 == 0 { 0.0 } else { 2.0 };
            let mut normal = || rng.sample::<f64, _>(StandardNormal);
            let means: Vec<f64> = (0..n).map(|_| spread * normal()).collect();
            let variances: Vec<f64> = (0..n)
                .map(|_| (wide * normal()).clamp(-6.0, 6.0).exp())
                .collect();
            let mut out = vec![0.0; n];
            probabilities(&means, &variances, &mut out);
            let first: f64 = means
                .iter()
                .zip(&variances)
                .map(|(m, v)| normal_cdf(-m / v.sqrt()))
                .product();
            let total = first + out.iter().sum::<f64>();
            assert!(
                (total - 1.0).abs() < 1e-12,
                "{means:?} {variances:?}: {total}"
            );
        }
    }

    /// Integrated one by one and all at once.
    #[test]
    fn both_integrals_agree() {
        let mut rng = generator(10, 0);
        for case in 0..2_000 {
            let spread = [0.1, 1.0, 3.0, 30.0][case % 4];
            let n = 2 + case % 9;
            let means: Vec<f64> = (0..n)
                .map(|_| spread * rng.sample::<f64, _>(StandardNormal) - [0.0, 12.0][case % 2])
                .collect();
            let mut all = vec![0.0; n];
            probabilities(&means, &vec![1.0; n], &mut all);
            for (k, found) in all.iter().enumerate() {
                let alone = moments(k + 1, &means, &mut vec![0.0; n]).exp();
                let error = (found - alone).abs();
                assert!(error < 1e-12, "{means:?} {k}: {found} {alone}");
            }
        }
    }

    /// Each class by itself, with noise of its own, by pieces of the whole range.
    #[test]
    fn probabilities_are_those_of_each_class_alone() {
        let mut rng = generator(12, 0);
        let (nodes, rule) = &*RULE;
        for case in 0..100 {
            let n = 2 + case % 5;
            let mut normal = || rng.sample::<f64, _>(StandardNormal);
            let means: Vec<f64> = (0..n).map(|_| 2.0 * normal() - 0.5).collect();
            let sds: Vec<f64> = (0..n).map(|_| normal().clamp(-1.5, 1.5).exp()).collect();
            let variances: Vec<f64> = sds.iter().map(|sd| sd * sd).collect();
            let mut all = vec![0.0; n];
            probabilities(&means, &variances, &mut all);
            let width = 0.5 * sds.iter().copied().fold(f64::INFINITY, f64::min);
            for (k, found) in all.iter().enumerate() {
                let mut alone = 0.0;
                for piece in 0..((means[k] + 9.0 * sds[k]).max(0.0) / width) as usize + 1 {
                    for (node, weight) in nodes.iter().zip(rule) {
                        let u = width * (piece as f64 + node);
                        let z = |j: usize| (u - means[j]) / sds[j];
                        let others = (0..n).filter(|&j| j != k);
                        let below: f64 = others.map(|j| normal_cdf(z(j))).product();
                        let density = (-0.5 * z(k) * z(k) - LN_SQRT_2PI).exp() / sds[k];
                        alone += width * weight * density * below;
                    }
                }
                let error = (found - alone).abs();
                assert!(error < 1e-12, "{means:?} {sds:?} {k}: {found} {alone}");
            }
        }
        let mut out = [0.0; 2];
        for (means, variances) in [
            ([f64::NAN, 0.0], [1.0, 1.0]),
            ([f64::INFINITY, 0.0], [1.0, 1.0]),
            ([0.0, 0.0], [1.0, f64::INFINITY]),
        ] {
            probabilities(&means, &variances, &mut out);
            assert!(out.iter().all(|p| p.is_nan()));
        }
    }

    /// Utilities so large that their squares have few digits, some of them next to each other: their differences still say who wins.
    #[test]
    fn probabilities_of_large_utilities_sum_to_one() {
        let mut rng = generator(9, 0);
        for case in 0..4_000 {
            let size = 10.0_f64.powi(4 + (case % 9));
            let n = 2 + case as usize % 3;
            let mut normal = || rng.sample::<f64, _>(StandardNormal);
            let common = size * normal();
            let near = case % 2 == 0;
            let means: Vec<f64> = (0..n)
                .map(|_| {
                    if near {
                        common + normal()
                    } else {
                        size * normal()
                    }
                })
                .collect();
            let variances: Vec<f64> = (0..n).map(|_| (2.0 * normal()).exp()).collect();
            let mut out = vec![0.0; n];
            probabilities(&means, &variances, &mut out);
            let each = means.iter().zip(&variances);
            let first: f64 = each.map(|(m, v)| normal_cdf(-m / v.sqrt())).product();
            let total = first + out.iter().sum::<f64>();
            assert!(
                (total - 1.0).abs() < 1e-9,
                "{means:?} {variances:?}: {out:?}, {first}"
            );
        }
        // One that was found by a chain, and the same far up.
        let mut out = [0.0; 2];
        probabilities(&[-976.7, 1_055_939.4], &[1.0; 2], &mut out);
        assert!(out[0] < 1e-300);
        assert!((out[1] - 1.0).abs() < 1e-12, "{out:?}");
        probabilities(&[1e9, 1e9 + 1.0], &[1.0; 2], &mut out);
        assert!(
            (out[1] - normal_cdf(0.5_f64.sqrt())).abs() < 1e-12,
            "{out:?}"
        );
    }

    #[test]
    fn utilities_that_share_a_feature() {
        let (means, variances, lead) = ([0.4, -0.2], [1.0, 1.3], [1.5, -0.7]);
        let shared: Vec<f64> = (0..4).map(|i| lead[i / 2] * lead[i % 2]).collect();
        let mut found = [0.0; 2];
        probabilities_sharing(&means, &variances, &shared, &mut found);
        let mut rng = generator(8, 0);
        let (mut counts, n) = ([0.0; 3], 400_000);
        for _ in 0..n {
            let [common, a, b] = [0; 3].map(|_| rng.sample::<f64, _>(StandardNormal));
            let noise = [a, b];
            let t: Vec<f64> = (0..2)
                .map(|k| means[k] + lead[k] * common + variances[k].sqrt() * noise[k])
                .collect();
            counts[class_of(&t)] += 1.0;
        }
        for k in 0..2 {
            let share = counts[k + 1] / f64::from(n);
            assert!(
                (share - found[k]).abs() < 0.004,
                "{k}: {share} {}",
                found[k]
            );
        }
        let mut alone = [0.0];
        probabilities_sharing(&[0.4], &[1.0], &[3.0], &mut alone);
        assert_eq!(alone[0], normal_cdf(0.2));
    }

    /// The means are the derivatives of the logarithm of the probability, so that updates by them cannot lower a bound.
    #[test]
    fn means_are_derivatives() {
        for locations in [[0.5, 0.2], [-30.0, 4.0], [-1e3, 2e3], [8.0, -9.0]] {
            for class in [1, 2] {
                let mut means = [0.0; 2];
                moments(class, &locations, &mut means);
                for k in 0..2 {
                    let step = 1e-4 * (1.0 + locations[k].abs());
                    let at = |by: f64| {
                        let mut moved = locations;
                        moved[k] += by;
                        let squares: f64 = moved.iter().map(|m| 0.5 * m * m).sum();
                        moments(class, &moved, &mut [0.0; 2]) + squares
                    };
                    let found = (at(step) - at(-step)) / (2.0 * step);
                    let tolerance = 1e-6 * (1.0 + locations[0].abs() + locations[1].abs());
                    assert!(
                        (found - means[k]).abs() < tolerance,
                        "{locations:?} {class} {k}: {found} {}",
                        means[k]
                    );
                }
            }
        }
    }

    #[test]
    fn far_utilities_stay_finite() {
        for locations in [[-1e8, 1e8], [1e8, 1e8], [-1e8, -1e8], [1e150, -1e150]] {
            for class in 0..3 {
                let mut means = [0.0; 2];
                let ln_mass = moments(class, &locations, &mut means);
                // So many digits have locations this large.
                let rounding = 1e-15 * locations[0].abs();
                assert!(ln_mass <= rounding, "{locations:?} {class}: {ln_mass}");
                assert!(means.iter().all(|m| m.is_finite()), "{locations:?} {class}");
            }
        }
    }

    #[test]
    fn draws_have_the_moments_and_stay_in_the_region() {
        let locations = [0.7, 0.1, -0.8];
        for class in 0..4 {
            let mut t = [-1.0; 3];
            if class > 0 {
                t[class - 1] = 1.0;
            }
            let mut rng = generator(7, class);
            let (mut sums, n) = ([0.0; 3], 200_000);
            for _ in 0..n {
                draw(class, &locations, &mut t, &mut rng);
                assert_eq!(class_of(&t), class);
                (0..3).for_each(|k| sums[k] += t[k]);
            }
            let mut means = [0.0; 3];
            moments(class, &locations, &mut means);
            for k in 0..3 {
                let found = sums[k] / f64::from(n);
                assert!((found - means[k]).abs() < 0.02, "{class} {k}: {found}");
            }
        }
    }
}
