//! A component and its experts with their parameters integrated out: what the rows that are in it say of the next one.
//!
//! `mu, Lambda` are normal-Wishart given the rows, so a row is Student-t, and so are its missing features given the others. An expert's weights are normal
//! given the utilities, so a utility is normal. Both laws change by rank one when a row comes in.

use npb_linalg::elementary::vectorised;
use npb_linalg::faer::MatRef;
use npb_linalg::{Cholesky, NotPositiveDefinite};
use npb_priors::dist::{NormalWishart, Wishart, sample_probit};
use npb_priors::special::{ln_gamma, ln_phi};
use pulp::Arch;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Gamma, StandardNormal};

use super::state::{DrawnComponent, GibbsParameters};
use crate::state::{Component, dot};

/// Posterior of a component and its experts given the rows that were [added](Self::add).
#[derive(Clone)]
pub(super) struct Collapsed {
    n_features: usize,
    strength: f64,
    dof: f64,
    /// `-ln|B|`.
    ln_det: f64,
    /// Mean of the component; `B`, by column; for each utility the expert's mean and `S`, by row, whose square `S S'` is its covariance: a prior precision
    /// may be so small that nothing would be left of a covariance from which rows are subtracted.
    numbers: Vec<f64>,
}

/// Memory for questions about one row.
#[derive(Default)]
pub(super) struct Scratch {
    arch: Arch,
    deviation: Vec<f64>,
    product: Vec<f64>,
    noise: Vec<f64>,
    block: Vec<f64>,
    factor: Cholesky,
    /// Row with a one at its end.
    extended: Vec<f64>,
    /// Row in the coordinates of an expert's root.
    across: Vec<f64>,
    /// Mean and standard deviation of each utility.
    utilities: Vec<[f64; 2]>,
}

impl Collapsed {
    /// Without rows.
    pub(super) fn new(
        prior: &Component,
        parameters: &GibbsParameters,
    ) -> Result<Self, NotPositiveDefinite> {
        let p = prior.mean.len();
        let factor = Cholesky::new(prior.scale_inverse.as_ref())?;
        let mut numbers = prior.mean.clone();
        let scale = factor.inverse();
        numbers.extend((0..p).flat_map(|j| scale.col_as_slice(j).iter().copied()));
        let means = parameters.expert_means.chunks_exact(p + 1);
        for (mean, precision) in means.zip(parameters.expert_precisions.chunks_exact(p + 1)) {
            numbers.extend_from_slice(mean);
            let root = |(j, i): (usize, usize)| {
                if i == j {
                    1.0 / precision[j].sqrt()
                } else {
                    0.0
                }
            };
            let places = (0..=p).flat_map(|j| (0..=p).map(move |i| (j, i)));
            numbers.extend(places.map(root));
        }
        Ok(Self {
            n_features: p,
            strength: prior.strength,
            dof: prior.dof,
            ln_det: factor.ln_det(),
            numbers,
        })
    }

    fn mean(&self) -> &[f64] {
        &self.numbers[..self.n_features]
    }

    fn scale(&self) -> &[f64] {
        &self.numbers[self.n_features..][..self.n_features * self.n_features]
    }

    /// Mean of the expert of utility `k`, and the root of its covariance, by row.
    fn expert(&self, k: usize) -> (&[f64], &[f64]) {
        let (p, width) = (self.n_features, self.n_features + 1);
        let first = p * width + k * width * (width + 1);
        self.numbers[first..][..width * (width + 1)].split_at(width)
    }

    /// `ln p(x_o)`. With a generator the missing features are drawn given the others, too.
    pub(super) fn ln_features(
        &self,
        x: &mut [f64],
        missing: &[usize],
        draw: Option<&mut impl Rng>,
        scratch: &mut Scratch,
    ) -> Result<f64, NotPositiveDefinite> {
        let (p, m) = (self.n_features, missing.len());
        let seen = (p - m) as f64;
        scratch.deviation.clear();
        let deviations = x.iter().zip(self.mean()).map(|(x, mean)| x - mean);
        scratch.deviation.extend(deviations);
        missing.iter().for_each(|&j| scratch.deviation[j] = 0.0);
        multiply(
            scratch.arch,
            self.scale(),
            &scratch.deviation,
            &mut scratch.product,
        );
        let mut distance = dot(&scratch.deviation, &scratch.product);
        let mut ln_det = self.ln_det;
        scratch.noise.clear();
        if m > 0 {
            self.factor_missing(missing, &mut scratch.block, &mut scratch.factor)?;
            let product = &scratch.product;
            scratch.noise.extend(missing.iter().map(|&j| product[j]));
            scratch.factor.solve_l(&mut scratch.noise);
            distance -= dot(&scratch.noise, &scratch.noise);
            ln_det += scratch.factor.ln_det();
        }
        let (distance, df) = (distance.max(0.0), self.dof - p as f64 + 1.0);
        let spread = 1.0 + 1.0 / self.strength;
        if let (Some(rng), true) = (draw, m > 0) {
            let chi_square = 2.0 * draw_gamma(0.5 * (df + seen), rng);
            let width = ((spread + distance) / chi_square).sqrt();
            for z in &mut scratch.noise {
                *z = width * rng.sample::<f64, _>(StandardNormal) - *z;
            }
            scratch.factor.solve_lt(&mut scratch.noise);
            for (&j, noise) in missing.iter().zip(&scratch.noise) {
                x[j] = self.numbers[j] + noise;
            }
        }
        Ok(ln_gamma(0.5 * (df + seen))
            - ln_gamma(0.5 * df)
            - 0.5 * seen * (std::f64::consts::PI * spread).ln()
            - 0.5 * ln_det
            - 0.5 * (df + seen) * (distance / spread).ln_1p())
    }

    fn factor_missing(
        &self,
        missing: &[usize],
        block: &mut Vec<f64>,
        factor: &mut Cholesky,
    ) -> Result<(), NotPositiveDefinite> {
        let (p, m, scale) = (self.n_features, missing.len(), self.scale());
        block.clear();
        for &j in missing {
            block.extend(missing.iter().map(|&i| scale[j * p + i]));
        }
        factor.factor(MatRef::from_column_major_slice(block, m, m))
    }

    /// `ln` of the weight of a row's class: its probability when it is drawn utility by utility, the winning one first. The utilities are `t`; with a
    /// generator they are drawn. Over these draws the mean of the weight is the probability of the class.
    pub(super) fn ln_class(
        &self,
        class: usize,
        x: &[f64],
        t: &mut [f64],
        mut draw: Option<&mut impl Rng>,
        scratch: &mut Scratch,
    ) -> f64 {
        self.utilities(x, t.len(), scratch);
        let own = class.checked_sub(1);
        let (mut ln, mut below) = (0.0, 0.0);
        if let Some(own) = own {
            let [mean, sd] = scratch.utilities[own];
            ln += ln_phi(mean / sd);
            if let Some(rng) = &mut draw {
                t[own] = sd * sample_probit(mean / sd, true, *rng);
            }
            below = t[own];
        }
        for (k, &[mean, sd]) in scratch.utilities.iter().enumerate() {
            if Some(k) == own {
                continue;
            }
            let apart = (mean - below) / sd;
            ln += ln_phi(-apart);
            if let Some(rng) = &mut draw {
                t[k] = below + sd * sample_probit(apart, false, *rng);
            }
        }
        ln
    }

    fn utilities(&self, x: &[f64], n_utilities: usize, scratch: &mut Scratch) {
        scratch.extended.clear();
        scratch.extended.extend_from_slice(x);
        scratch.extended.push(1.0);
        scratch.utilities.clear();
        for k in 0..n_utilities {
            let (mean, root) = self.expert(k);
            multiply(scratch.arch, root, &scratch.extended, &mut scratch.across);
            let variance = 1.0 + dot(&scratch.across, &scratch.across);
            let mean = dot(mean, &scratch.extended);
            scratch.utilities.push([mean, variance.sqrt()]);
        }
    }

    /// Takes a row in. `t`: its utilities; none without a label.
    pub(super) fn add(&mut self, x: &[f64], t: &[f64], scratch: &mut Scratch) {
        let p = self.n_features;
        let spread = 1.0 + 1.0 / self.strength;
        self.strength += 1.0;
        self.dof += 1.0;
        let (mean, rest) = self.numbers.split_at_mut(p);
        let (scale, experts) = rest.split_at_mut(p * p);
        scratch.deviation.clear();
        let deviations = x.iter().zip(mean.iter()).map(|(x, mean)| x - mean);
        scratch.deviation.extend(deviations);
        multiply(
            scratch.arch,
            scale,
            &scratch.deviation,
            &mut scratch.product,
        );
        let distance = dot(&scratch.deviation, &scratch.product);
        self.ln_det += (distance / spread).ln_1p();
        subtract_outer(
            scratch.arch,
            scale,
            &scratch.product,
            &scratch.product,
            1.0 / (spread + distance),
        );
        for (mean, deviation) in mean.iter_mut().zip(&scratch.deviation) {
            *mean += deviation / self.strength;
        }
        scratch.extended.clear();
        scratch.extended.extend_from_slice(x);
        scratch.extended.push(1.0);
        let size = (p + 1) * (p + 2);
        for (expert, t) in experts.chunks_exact_mut(size).zip(t) {
            let (mean, root) = expert.split_at_mut(p + 1);
            multiply(scratch.arch, root, &scratch.extended, &mut scratch.across);
            products(root, &scratch.across, &mut scratch.product);
            let variance = 1.0 + dot(&scratch.across, &scratch.across);
            let gain = (t - dot(mean, &scratch.extended)) / variance;
            // S (I - f f' / v)^(1/2), f = S'x.
            let factor = 1.0 / (variance + variance.sqrt());
            subtract_outer(
                scratch.arch,
                root,
                &scratch.across,
                &scratch.product,
                factor,
            );
            for (mean, product) in mean.iter_mut().zip(&scratch.product) {
                *mean += gain * product;
            }
        }
    }

    /// Draws the parameters. Nothing when rounding has left a matrix that is none of a law.
    pub(super) fn draw(
        &self,
        n_utilities: usize,
        rng: &mut impl Rng,
    ) -> Option<(DrawnComponent, Vec<Vec<f64>>)> {
        let p = self.n_features;
        let scale = MatRef::from_column_major_slice(self.scale(), p, p);
        let wishart = Wishart::new(scale, self.dof).ok()?;
        let law = NormalWishart::new(self.mean().to_vec(), self.strength, wishart).ok()?;
        let (mean, precision) = law.sample(rng);
        let expert = |k| {
            let (mean, root) = self.expert(k);
            let z: Vec<f64> = (0..=p).map(|_| rng.sample(StandardNormal)).collect();
            let rows = root.chunks_exact(p + 1);
            mean.iter().zip(rows).map(|(m, s)| m + dot(s, &z)).collect()
        };
        let experts = (0..n_utilities).map(expert).collect();
        Some((DrawnComponent { mean, precision }, experts))
    }
}

fn draw_gamma(shape: f64, rng: &mut impl Rng) -> f64 {
    Gamma::new(shape, 1.0).map_or(f64::NAN, |law| law.sample(rng))
}

/// `product = A x` for a square matrix by column.
fn multiply(arch: Arch, a: &[f64], x: &[f64], product: &mut Vec<f64>) {
    product.clear();
    product.resize(x.len(), 0.0);
    vectorised(
        arch,
        #[inline(always)]
        || {
            for (column, x) in a.chunks_exact(x.len().max(1)).zip(x) {
                for (product, a) in product.iter_mut().zip(column) {
                    *product += a * x;
                }
            }
        },
    );
}

/// `product = A'x` for a matrix by column.
fn products(a: &[f64], x: &[f64], product: &mut Vec<f64>) {
    product.clear();
    let mut blocks = a.chunks_exact(4 * x.len());
    // Four sums at a time: one alone waits for each of its additions.
    for block in &mut blocks {
        let (first, second) = block.split_at(2 * x.len());
        let ((a, b), (c, d)) = (first.split_at(x.len()), second.split_at(x.len()));
        let mut sums = [0.0; 4];
        for ((((x, a), b), c), d) in x.iter().zip(a).zip(b).zip(c).zip(d) {
            for (sum, a) in sums.iter_mut().zip([a, b, c, d]) {
                *sum += a * x;
            }
        }
        product.extend(sums);
    }
    let rest = blocks.remainder().chunks_exact(x.len());
    product.extend(rest.map(|column| dot(column, x)));
}

/// `A -= factor u v'`.
fn subtract_outer(arch: Arch, a: &mut [f64], u: &[f64], v: &[f64], factor: f64) {
    vectorised(
        arch,
        #[inline(always)]
        || {
            for (column, v) in a.chunks_exact_mut(u.len().max(1)).zip(v) {
                let v = factor * v;
                for (a, u) in column.iter_mut().zip(u) {
                    *a -= v * u;
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use npb_linalg::faer::mat;

    use super::*;

    /// An expert whose prior says next to nothing is the least squares fit of its utilities; a covariance that is stored as it is loses all digits here.
    #[test]
    fn experts_with_vague_priors_are_least_squares_fits() {
        let prior = Component {
            mean: vec![0.0],
            strength: 1.0,
            dof: 3.0,
            scale_inverse: mat![[1.0]],
        };
        let parameters = GibbsParameters {
            expert_means: vec![0.0; 2],
            expert_precisions: vec![1e-24; 2],
            ..GibbsParameters::none()
        };
        let mut part = Collapsed::new(&prior, &parameters).expect("a positive scale");
        let scratch = &mut Scratch::default();
        for (x, t) in [(-1.0, -2.5), (0.0, 1.0), (1.0, 1.5), (2.0, 4.0)] {
            part.add(&[x], &[t], scratch);
        }
        part.utilities(&[3.0], 1, scratch);
        let [mean, sd] = scratch.utilities[0];
        // Line 0 + 2 x; the inverse of [[6, 2], [2, 4]] is [[4, -2], [-2, 6]] / 20.
        assert!((mean - 6.0).abs() < 1e-3, "{mean}");
        assert!((sd * sd - (1.0 + 1.5)).abs() < 1e-3, "{sd}");
    }
}
