//! Simulated sets: mixtures of Gaussians, with and without labels, cells hidden completely at random.

use npb_data::{Labels, Table, splits};
use npb_infer::stream;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use rand::{Rng, RngExt};

use super::data::{Side, Sides};
use npb_kit::Result;

/// Keys of the random streams.
const TRAINING: u64 = 0;
const TEST: u64 = 1;
const CLUSTERS: u64 = 2;

/// A mixture of Gaussians: weight, mean and factor of the covariance of each.
struct Mixture {
    components: Vec<(f64, Vec<f64>, Cholesky)>,
}

impl Mixture {
    fn new(parts: Vec<(f64, Vec<f64>, Mat<f64>)>) -> Result<Self> {
        let component = |(weight, mean, covariance): (f64, Vec<f64>, Mat<f64>)| {
            Ok((weight, mean, Cholesky::new(covariance.as_ref())?))
        };
        let components = parts.into_iter().map(component).collect::<Result<_>>()?;
        Ok(Self { components })
    }

    /// The three Gaussians of W 3.5.1, with further columns of standard normal noise.
    fn three_gaussians(noise_columns: usize) -> Result<Self> {
        let part = |k: usize| {
            let [centre, c11, c21, c22] = [
                [-3.0, 0.52, -0.36, 0.73],
                [1.0, 0.47, 0.19, 0.7],
                [5.0, 0.52, -0.36, 0.73],
            ][k];
            let p = 2 + noise_columns;
            let mut mean = vec![0.0; p];
            mean[0] = centre;
            let mut covariance = Mat::identity(p, p);
            covariance[(0, 0)] = c11;
            covariance[(1, 0)] = c21;
            covariance[(0, 1)] = c21;
            covariance[(1, 1)] = c22;
            (1.0 / 3.0, mean, covariance)
        };
        Self::new((0..3).map(part).collect())
    }

    /// Two Gaussians in ten dimensions that differ more in covariance than in mean.
    fn two_covariances() -> Result<Self> {
        let p = 10;
        let sd = |i: usize| [0.6, 1.6][i % 2];
        let second = Mat::from_fn(p, p, |i, j| {
            sd(i) * sd(j) * 0.6_f64.powi(i.abs_diff(j) as i32)
        });
        Self::new(vec![
            (0.5, vec![0.0; p], Mat::identity(p, p)),
            (0.5, vec![0.4; p], second),
        ])
    }

    /// Four Gaussians of unequal weights in five dimensions, unit variances, means more than five apart.
    fn four_gaussians(distance: f64) -> Result<Self> {
        let part = |k: usize| {
            let signs = [
                [1.0, 1.0, 1.0, 1.0, 1.0],
                [1.0, -1.0, 1.0, -1.0, -1.0],
                [-1.0, 1.0, -1.0, 1.0, -1.0],
                [-1.0, -1.0, -1.0, -1.0, 1.0],
            ][k];
            let correlation: f64 = [0.5, -0.5, 0.0, 0.3][k];
            let covariance = Mat::from_fn(5, 5, |i, j| correlation.powi(i.abs_diff(j) as i32));
            (
                [0.4, 0.3, 0.2, 0.1][k],
                signs.map(|s| distance * s).to_vec(),
                covariance,
            )
        };
        Self::new((0..4).map(part).collect())
    }

    /// The component of a row, and the row.
    fn draw(&self, rng: &mut impl Rng) -> (usize, Vec<f64>) {
        let mut u: f64 = rng.random();
        let mut k = 0;
        while k + 1 < self.components.len() && u >= self.components[k].0 {
            u -= self.components[k].0;
            k += 1;
        }
        let (_, mean, factor) = &self.components[k];
        let mut row = mean.clone();
        factor.sample_moment(&mut row, rng);
        (k, row)
    }

    fn n_columns(&self) -> usize {
        self.components[0].1.len()
    }
}

/// Small sets with labels.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum SmallSet {
    /// Three Gaussians in the plane, each cut by a line of its own, and four columns of noise.
    ThreeGaussians,
    /// Two classes, a Gaussian each, of different covariances.
    TwoCovariances,
}

/// Share of the cells that are hidden in all simulated sets.
pub(super) const MISSING: f64 = 0.3;
const TEST_ROWS: usize = 2_000;

impl SmallSet {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ThreeGaussians => "three-gaussians",
            Self::TwoCovariances => "two-covariances",
        }
    }

    pub(super) fn training_rows(self) -> usize {
        match self {
            Self::ThreeGaussians => 60,
            Self::TwoCovariances => 40,
        }
    }

    fn mixture(self) -> Result<Mixture> {
        match self {
            Self::ThreeGaussians => Mixture::three_gaussians(4),
            Self::TwoCovariances => Mixture::two_covariances(),
        }
    }

    /// The class of a row; none of them is noisy.
    fn is_positive(self, component: usize, row: &[f64]) -> bool {
        match self {
            Self::ThreeGaussians => {
                let (slope, intercept) = [(0.75, 2.25), (-0.58, 0.58), (0.75, -3.75)][component];
                row[1] > slope * row[0] + intercept
            }
            Self::TwoCovariances => component == 1,
        }
    }

    /// Training rows and a large number of test rows, both with hidden cells.
    pub(super) fn sides(self, seed: u64) -> Result<Sides> {
        let mixture = self.mixture()?;
        let side = |rows: usize, purpose: u64| {
            let mut rng = stream(seed, [self as u64, purpose, 0, 0]);
            let (mut values, mut labels) = (Vec::new(), Vec::new());
            for _ in 0..rows {
                let (component, row) = mixture.draw(&mut rng);
                labels.push(Some(i64::from(self.is_positive(component, &row))));
                values.extend(row);
            }
            let table = Table::complete(rows, mixture.n_columns(), values)?;
            let mask = splits::missing_at_random(&table, MISSING, &mut rng)?;
            let all: Vec<usize> = (0..rows).collect();
            Side::new(&table, Some(&mask), &Labels::from_integers(&labels), &all)
        };
        Sides::standardised(
            side(self.training_rows(), TRAINING)?,
            side(TEST_ROWS, TEST)?,
        )
    }
}

/// Mixtures without labels.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Clusters {
    /// Three Gaussians in the plane.
    Three,
    /// Four Gaussians in five dimensions, with means at 1.5 standard deviations from zero in each.
    Four,
    /// The same, at two.
    Apart,
}

impl Clusters {
    pub(super) const ROWS: usize = 300;

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Three => "three-gaussians",
            Self::Four => "four-gaussians",
            Self::Apart => "four-gaussians-apart",
        }
    }

    pub(super) fn count(self) -> usize {
        match self {
            Self::Three => 3,
            Self::Four | Self::Apart => 4,
        }
    }

    /// Rows with hidden cells.
    pub(super) fn table(self, seed: u64) -> Result<Table> {
        let mixture = match self {
            Self::Three => Mixture::three_gaussians(0)?,
            Self::Four => Mixture::four_gaussians(1.5)?,
            Self::Apart => Mixture::four_gaussians(2.0)?,
        };
        let mut rng = stream(seed, [self as u64, CLUSTERS, 0, 0]);
        let rows = (0..Self::ROWS).flat_map(|_| mixture.draw(&mut rng).1);
        let table = Table::complete(Self::ROWS, mixture.n_columns(), rows.collect())?;
        let mask = splits::missing_at_random(&table, MISSING, &mut rng)?;
        Ok(table.hide(&mask)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share, mean and covariance of the rows of each component against the mixture's own.
    fn check(mixture: &Mixture) {
        let n = 20_000;
        let mut rng = stream(1, [0; 4]);
        let draws: Vec<(usize, Vec<f64>)> = (0..n).map(|_| mixture.draw(&mut rng)).collect();
        for (k, (weight, mean, factor)) in mixture.components.iter().enumerate() {
            let of_k: Vec<&Vec<f64>> = draws.iter().filter(|d| d.0 == k).map(|d| &d.1).collect();
            let rows = of_k.len() as f64;
            assert!((rows / n as f64 - weight).abs() < 0.015, "{k}: {rows}");
            let average = |f: &dyn Fn(&[f64]) -> f64| of_k.iter().map(|x| f(x)).sum::<f64>() / rows;
            let l = factor.l();
            for i in 0..mean.len() {
                assert!((average(&|x| x[i]) - mean[i]).abs() < 0.12, "{k}, {i}");
                for j in 0..=i {
                    let found = average(&|x| (x[i] - mean[i]) * (x[j] - mean[j]));
                    let exact: f64 = (0..=j).map(|c| l[(i, c)] * l[(j, c)]).sum();
                    assert!((found - exact).abs() < 0.15, "{k}: {found} {exact}");
                }
            }
        }
    }

    #[test]
    fn draws_have_the_moments_of_their_components() {
        check(&Mixture::three_gaussians(1).unwrap());
        check(&Mixture::two_covariances().unwrap());
        check(&Mixture::four_gaussians(1.5).unwrap());
    }

    #[test]
    fn small_sets_have_both_classes_and_hidden_cells() {
        for set in [SmallSet::ThreeGaussians, SmallSet::TwoCovariances] {
            let sides = set.sides(3).unwrap();
            let share =
                sides.test.positive.iter().filter(|p| **p).count() as f64 / TEST_ROWS as f64;
            assert!((share - 0.5).abs() < 0.05, "{}: {share}", set.name());
            assert_eq!(sides.train.rows.n_rows(), set.training_rows());
            let cells = sides.test.rows.n_rows() * sides.test.rows.n_cols();
            let hidden = sides.test.hidden().count() as f64 / cells as f64;
            assert!((hidden - MISSING).abs() < 1e-3, "{hidden}");
        }
    }
}
