//! Laplace's approximation for probit regression with a standard normal prior (`docs/hbrec.md#laplace`).

use npb_infer::Xoshiro256PlusPlus;
use npb_linalg::faer::MatRef;
use npb_linalg::{Cholesky, NotPositiveDefinite, dot};
use npb_priors::special::{inverse_mills, ln_phi};
use rand_distr::{Distribution, StandardNormal};

/// Newton's method needs five or six steps; it is stopped at this decrement, or when no step improves any more.
const DECREMENT: f64 = 1e-11;
const MAX_STEPS: usize = 100;

/// The data of one user, each observation a row of regressors.
pub(crate) struct Observations<'a> {
    /// n x q, row by row.
    pub(crate) rows: &'a [f64],
    pub(crate) width: usize,
    /// Utility at `w = 0`.
    pub(crate) offsets: &'a [f64],
    pub(crate) positive: &'a [bool],
    /// How often each observation counts.
    pub(crate) weights: &'a [f64],
}

impl Observations<'_> {
    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }

    pub(crate) fn row(&self, i: usize) -> &[f64] {
        &self.rows[i * self.width..(i + 1) * self.width]
    }

    /// sum ln Phi(y t), with slope and curvature of each term.
    fn terms(&self, utilities: &[f64], slopes: &mut [f64], curvatures: &mut [f64]) -> f64 {
        let mut total = 0.0;
        for (i, &t) in utilities.iter().enumerate() {
            let c = self.weights[i];
            let sign = if self.positive[i] { 1.0 } else { -1.0 };
            let hazard = inverse_mills(-sign * t);
            slopes[i] = c * sign * hazard;
            curvatures[i] = c * curvature(hazard, sign * t);
            total += c * ln_phi(sign * t);
        }
        total
    }

    fn ln_likelihood(&self, utilities: &[f64]) -> f64 {
        let sign = |i: usize| if self.positive[i] { 1.0 } else { -1.0 };
        let terms = utilities.iter().enumerate();
        terms
            .map(|(i, &t)| self.weights[i] * ln_phi(sign(i) * t))
            .sum()
    }
}

/// `h (h + t)`, the curvature of `-ln Phi(t)`, between 0 and 1. Where h and t cancel the sum is taken by its series.
pub(crate) fn curvature(hazard: f64, t: f64) -> f64 {
    if t < -1e4 {
        return 1.0 - 1.0 / (t * t);
    }
    (hazard * (hazard + t)).clamp(0.0, 1.0)
}

/// A normal approximation of the posterior of `w`.
#[derive(Clone, Debug)]
pub(crate) struct Laplace {
    pub(crate) mode: Vec<f64>,
    pub(crate) spread: Spread,
    pub(crate) ln_evidence: f64,
}

/// The covariance of `w`, in the smaller of two forms.
#[derive(Clone, Debug)]
pub(crate) enum Spread {
    /// Factor of `P = I + A'WA`.
    Precision(Cholesky),
    /// `W^(1/2) A` (n x q) and the factor of `I + W^(1/2) A A' W^(1/2)`.
    Woodbury { rows: Vec<f64>, factor: Cholesky },
}

impl Spread {
    /// `x'Sx`; `scratch` is overwritten.
    pub(crate) fn variance(&self, x: &[f64], scratch: &mut Vec<f64>) -> f64 {
        scratch.clear();
        match self {
            Self::Precision(factor) => {
                scratch.extend_from_slice(x);
                factor.solve_l(scratch);
                dot(scratch, scratch)
            }
            Self::Woodbury { rows, factor } => {
                scratch.extend(rows.chunks_exact(x.len().max(1)).map(|row| dot(row, x)));
                factor.solve_l(scratch);
                (dot(x, x) - dot(scratch, scratch)).max(0.0)
            }
        }
    }

    /// A draw from N(0, S).
    pub(crate) fn draw(&self, width: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        let normals = |n: usize, rng: &mut Xoshiro256PlusPlus| -> Vec<f64> {
            (0..n).map(|_| StandardNormal.sample(rng)).collect()
        };
        let mut z = normals(width, rng);
        match self {
            Self::Precision(factor) => factor.solve_lt(&mut z),
            Self::Woodbury { rows, factor } => {
                // A draw from the prior, moved by what data drawn with it say: z - A'W^(1/2) B^-1 (W^(1/2) A z + e).
                let mut seen = normals(factor.dim(), rng);
                let by_row = || rows.chunks_exact(width.max(1));
                by_row()
                    .zip(&mut seen)
                    .for_each(|(row, e)| *e += dot(row, &z));
                factor.solve(&mut seen);
                for (row, e) in by_row().zip(&seen) {
                    z.iter_mut().zip(row).for_each(|(z, x)| *z -= e * x);
                }
            }
        }
        z
    }

    /// S, q x q, both triangles.
    pub(crate) fn covariance(&self, width: usize) -> Vec<f64> {
        match self {
            Self::Precision(factor) => {
                let inverse = factor.inverse();
                let column = |j: usize| (0..width).map(move |i| (i, j));
                (0..width).flat_map(column).map(|at| inverse[at]).collect()
            }
            Self::Woodbury { rows, factor } => {
                let n = factor.dim();
                // Columns of L^-1 W^(1/2) A, one for each of the q directions.
                let mut half = vec![0.0; width * n];
                for (k, column) in half.chunks_exact_mut(n.max(1)).enumerate() {
                    (0..n).for_each(|i| column[i] = rows[i * width + k]);
                    factor.solve_l(column);
                }
                let mut covariance = vec![0.0; width * width];
                for j in 0..width {
                    for i in 0..=j {
                        let (x, y) = (&half[i * n..(i + 1) * n], &half[j * n..(j + 1) * n]);
                        let value = f64::from(i == j) - dot(x, y);
                        covariance[j * width + i] = value;
                        covariance[i * width + j] = value;
                    }
                }
                covariance
            }
        }
    }
}

/// The mode, the covariance there, and the evidence. Cost a step: `n q^2 / 2 + q^3 / 6`, or with fewer observations than
/// regressors `n^2 q / 2 + n^3 / 6`.
pub(crate) fn fit(data: &Observations<'_>) -> Result<Laplace, NotPositiveDefinite> {
    if data.len() < data.width {
        return fit_woodbury(data);
    }
    fit_precision(data)
}

fn fit_precision(data: &Observations<'_>) -> Result<Laplace, NotPositiveDefinite> {
    let (n, q) = (data.len(), data.width);
    let mut mode = vec![0.0; q];
    let mut utilities = data.offsets.to_vec();
    let (mut slopes, mut curvatures) = (vec![0.0; n], vec![0.0; n]);
    let mut precision = vec![0.0; q * q];
    let mut factor = Cholesky::default();
    for step_number in 0..=MAX_STEPS {
        let fitted = data.terms(&utilities, &mut slopes, &mut curvatures);
        let objective = fitted - 0.5 * dot(&mode, &mode);
        gram(data, &curvatures, &mut precision);
        factor.factor(MatRef::from_column_major_slice(&precision, q, q))?;
        let mut gradient: Vec<f64> = mode.iter().map(|w| -w).collect();
        for (i, &slope) in slopes.iter().enumerate() {
            let row = data.row(i);
            gradient
                .iter_mut()
                .zip(row)
                .for_each(|(g, a)| *g += slope * a);
        }
        let mut step = gradient.clone();
        factor.solve(&mut step);
        let decrement = dot(&step, &gradient);
        let moves = (0..n).map(|i| dot(data.row(i), &step)).collect::<Vec<_>>();
        let moved = (decrement > DECREMENT && step_number < MAX_STEPS)
            .then(|| {
                best_step(|share| {
                    let at = |x: &f64, d: &f64| x + share * d;
                    let w: Vec<f64> = mode.iter().zip(&step).map(|(x, d)| at(x, d)).collect();
                    let t: Vec<f64> = utilities
                        .iter()
                        .zip(&moves)
                        .map(|(x, d)| at(x, d))
                        .collect();
                    let gain = data.ln_likelihood(&t) - 0.5 * dot(&w, &w) - objective;
                    (gain > 0.0).then_some((w, t))
                })
            })
            .flatten();
        let Some((w, t)) = moved else {
            let ln_evidence = objective - 0.5 * factor.ln_det();
            return Ok(Laplace {
                mode,
                spread: Spread::Precision(factor),
                ln_evidence,
            });
        };
        (mode, utilities) = (w, t);
    }
    unreachable!("the last step never moves")
}

/// `I + A'WA`, lower triangle, column by column.
fn gram(data: &Observations<'_>, curvatures: &[f64], precision: &mut [f64]) {
    let q = data.width;
    precision.fill(0.0);
    for (i, &w) in curvatures.iter().enumerate() {
        add_outer(data.row(i), w, precision);
    }
    (0..q).for_each(|k| precision[k * (q + 1)] += 1.0);
}

/// Adds `weight x x'` to the lower triangle of a column-major square matrix.
pub(crate) fn add_outer(x: &[f64], weight: f64, into: &mut [f64]) {
    let q = x.len();
    for (k, column) in into.chunks_exact_mut(q).enumerate() {
        let scaled = weight * x[k];
        let below = column[k..].iter_mut().zip(&x[k..]);
        below.for_each(|(sum, value)| *sum += scaled * value);
    }
}

/// The first of 1, 1/2, 1/4, ... at which `try_share` succeeds.
fn best_step<T>(try_share: impl Fn(f64) -> Option<T>) -> Option<T> {
    (0..30).find_map(|halvings| try_share(0.5_f64.powi(halvings)))
}

/// `A A'`, both triangles.
fn products_of_rows(data: &Observations<'_>) -> Vec<f64> {
    let n = data.len();
    let mut products = vec![0.0; n * n];
    for j in 0..n {
        for i in 0..=j {
            let value = dot(data.row(i), data.row(j));
            products[j * n + i] = value;
            products[i * n + j] = value;
        }
    }
    products
}

/// The approximation at `alpha`, given the roots of the curvatures and the factor of `I + W^(1/2) A A' W^(1/2)` there.
fn of_utilities(
    data: &Observations<'_>,
    (alpha, roots): (&[f64], &[f64]),
    objective: f64,
    factor: Cholesky,
) -> Laplace {
    let mut rows = data.rows.to_vec();
    let by_row = rows.chunks_exact_mut(data.width.max(1)).zip(roots);
    by_row.for_each(|(row, root)| row.iter_mut().for_each(|x| *x *= root));
    let mut mode = vec![0.0; data.width];
    for (i, a) in alpha.iter().enumerate() {
        let terms = mode.iter_mut().zip(data.row(i));
        terms.for_each(|(w, x)| *w += a * x);
    }
    Laplace {
        ln_evidence: objective - 0.5 * factor.ln_det(),
        mode,
        spread: Spread::Woodbury { rows, factor },
    }
}

/// The same in terms of utilities, `f = offset + K alpha`, `w = A' alpha` (Rasmussen and Williams 2006, algorithm 3.1).
fn fit_woodbury(data: &Observations<'_>) -> Result<Laplace, NotPositiveDefinite> {
    let n = data.len();
    let kernel = products_of_rows(data);
    let times_kernel = |x: &[f64]| -> Vec<f64> {
        let columns = kernel.chunks_exact(n.max(1));
        columns.map(|column| dot(column, x)).collect()
    };
    let at = |deviations: &[f64]| -> Vec<f64> {
        let pairs = deviations.iter().zip(data.offsets);
        pairs.map(|(d, offset)| d + offset).collect()
    };
    let mut alpha = vec![0.0; n];
    let mut deviations = vec![0.0; n];
    let (mut slopes, mut curvatures) = (vec![0.0; n], vec![0.0; n]);
    let mut factor = Cholesky::default();
    let mut matrix = vec![0.0; n * n];
    for step_number in 0..=MAX_STEPS {
        let fitted = data.terms(&at(&deviations), &mut slopes, &mut curvatures);
        let objective = fitted - 0.5 * dot(&alpha, &deviations);
        let roots: Vec<f64> = curvatures.iter().map(|w| w.sqrt()).collect();
        for j in 0..n {
            for i in j..n {
                matrix[j * n + i] = roots[i] * kernel[j * n + i] * roots[j] + f64::from(i == j);
            }
        }
        factor.factor(MatRef::from_column_major_slice(&matrix, n, n))?;
        // Newton's point is alpha* = b - W^(1/2) B^-1 W^(1/2) K b, b = W d + slope.
        let b: Vec<f64> = (0..n)
            .map(|i| curvatures[i] * deviations[i] + slopes[i])
            .collect();
        let mut inner: Vec<f64> = times_kernel(&b)
            .iter()
            .zip(&roots)
            .map(|(x, r)| x * r)
            .collect();
        factor.solve(&mut inner);
        let step: Vec<f64> = (0..n)
            .map(|i| b[i] - roots[i] * inner[i] - alpha[i])
            .collect();
        let moves = times_kernel(&step);
        let decrement: f64 = (0..n).map(|i| (slopes[i] - alpha[i]) * moves[i]).sum();
        let moved = (decrement > DECREMENT && step_number < MAX_STEPS)
            .then(|| {
                best_step(|share| {
                    let add = |x: &[f64], d: &[f64]| -> Vec<f64> {
                        x.iter().zip(d).map(|(x, d)| x + share * d).collect()
                    };
                    let (a, d) = (add(&alpha, &step), add(&deviations, &moves));
                    let gain = data.ln_likelihood(&at(&d)) - 0.5 * dot(&a, &d) - objective;
                    (gain > 0.0).then_some((a, d))
                })
            })
            .flatten();
        let Some((a, d)) = moved else {
            return Ok(of_utilities(data, (&alpha, &roots), objective, factor));
        };
        (alpha, deviations) = (a, d);
    }
    unreachable!("the last step never moves")
}

#[cfg(test)]
mod tests {
    use npb_infer::stream;
    use rand::RngExt;

    use super::*;

    struct Made {
        rows: Vec<f64>,
        offsets: Vec<f64>,
        positive: Vec<bool>,
        weights: Vec<f64>,
    }

    fn made(n: usize, q: usize, scale: f64, seed: u64) -> Made {
        let mut rng = stream(seed, [0; 4]);
        let mut uniform =
            |n: usize| -> Vec<f64> { (0..n).map(|_| rng.random::<f64>() * 2.0 - 1.0).collect() };
        let rows = uniform(n * q).iter().map(|x| scale * x).collect();
        let offsets = uniform(n);
        let positive = uniform(n).iter().map(|&x| x > 0.3).collect();
        let weights = uniform(n).iter().map(|x| 1.0 + 0.5 * x).collect();
        Made {
            rows,
            offsets,
            positive,
            weights,
        }
    }

    impl Made {
        fn observations(&self, width: usize) -> Observations<'_> {
            Observations {
                rows: &self.rows,
                width,
                offsets: &self.offsets,
                positive: &self.positive,
                weights: &self.weights,
            }
        }
    }

    #[test]
    fn both_forms_are_the_same() {
        for (n, q) in [(1, 1), (3, 7), (7, 3), (20, 20), (0, 4)] {
            let made = made(n, q, 2.0, 1);
            let data = made.observations(q);
            let (a, b) = (fit_precision(&data).unwrap(), fit_woodbury(&data).unwrap());
            assert!((a.ln_evidence - b.ln_evidence).abs() < 1e-9, "{n} {q}");
            let far = a.mode.iter().zip(&b.mode).map(|(x, y)| (x - y).abs());
            assert!(far.fold(0.0, f64::max) < 1e-6);
            let x: Vec<f64> = (0..q).map(|k| (k as f64).cos()).collect();
            let mut scratch = Vec::new();
            let v = a.spread.variance(&x, &mut scratch);
            assert!((v - b.spread.variance(&x, &mut scratch)).abs() < 1e-7);
            for spread in [&a.spread, &b.spread] {
                let s = spread.covariance(q);
                let sum: f64 = (0..q * q).map(|at| s[at] * x[at / q] * x[at % q]).sum();
                assert!((sum - v).abs() < 1e-7, "{sum} {v}");
            }
        }
    }

    /// Draws have the covariance that is stated, in both forms.
    #[test]
    fn draws_have_the_covariance() {
        let made = made(2, 3, 2.0, 5);
        let data = made.observations(3);
        for fitted in [fit_precision(&data).unwrap(), fit_woodbury(&data).unwrap()] {
            let covariance = fitted.spread.covariance(3);
            let mut rng = stream(9, [0; 4]);
            let draws: Vec<Vec<f64>> = (0..20_000)
                .map(|_| fitted.spread.draw(3, &mut rng))
                .collect();
            let products = |x: &Vec<f64>| (0..9).map(|at| x[at / 3] * x[at % 3]).collect();
            let products: Vec<Vec<f64>> = draws.iter().map(products).collect();
            assert!(npb_infer::testing::largest_z(&products, &covariance) < 4.5);
        }
    }

    /// In one dimension the evidence can be had by quadrature; Laplace's is close to it, and at a mode.
    #[test]
    fn one_dimension_agrees_with_quadrature() {
        let made = made(12, 1, 1.0, 3);
        let data = made.observations(1);
        let fitted = fit(&data).unwrap();
        let ln_joint = |w: f64| {
            let t: Vec<f64> = (0..12)
                .map(|i| made.offsets[i] + made.rows[i] * w)
                .collect();
            data.ln_likelihood(&t) - 0.5 * w * w
        };
        let step = 0.001;
        let sum: f64 = (-8000..8000)
            .map(|i| ln_joint(f64::from(i) * step).exp())
            .sum();
        let exact = (sum * step / (2.0 * std::f64::consts::PI).sqrt()).ln();
        assert!(
            (fitted.ln_evidence - exact).abs() < 0.01,
            "{} {exact}",
            fitted.ln_evidence
        );
        let w = fitted.mode[0];
        assert!(ln_joint(w) >= ln_joint(w + 1e-4).max(ln_joint(w - 1e-4)));
    }

    /// A thousand observations of one kind, far in the tail: no underflow, a finite mode.
    #[test]
    fn extreme_data_stay_finite() {
        let n = 1000;
        let (rows, offsets) = (vec![30.0; n], vec![-40.0; n]);
        let (positive, weights) = (vec![true; n], vec![1.0; n]);
        let data = Observations {
            rows: &rows,
            width: 1,
            offsets: &offsets,
            positive: &positive,
            weights: &weights,
        };
        let fitted = fit(&data).unwrap();
        assert!(fitted.mode[0] > 1.3 && fitted.ln_evidence.is_finite());
        assert!(fitted.spread.variance(&[1.0], &mut Vec::new()) > 0.0);
    }
}
