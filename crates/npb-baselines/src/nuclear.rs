//! Matrix completion by minimising the nuclear norm.

use npb_data::Ratings;
use npb_linalg::faer::{Mat, MatRef, Scale};
use serde::{Deserialize, Serialize};

use crate::BaselineError;
use crate::error::{non_empty_ratings, positive};

/// Settings of [`NuclearNorm`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NuclearNormConfig {
    /// Penalty on the nuclear norm as a share of the largest singular value of the observed matrix with zeros in its holes (at
    /// 1 the solution is zero). At 0, the noise-free limit, the observed entries are met exactly.
    pub penalty: f64,
    /// With a penalty: number of larger penalties solved before, each of which starts the next.
    pub path: usize,
    /// Threshold of the noise-free limit, in the units of `penalty`. It sets the speed, not the solution.
    pub step: f64,
    /// The iteration stops when a step moves the matrix, and when the observed entries are missed (noise-free limit), by less than
    /// this share of their norm.
    pub tolerance: f64,
    /// Largest number of iterations, for each penalty of the path.
    pub max_iterations: usize,
}

impl Default for NuclearNormConfig {
    /// The noise-free limit to a relative 1e-6 in at most 2,000 iterations; with a penalty, a path of 20.
    fn default() -> Self {
        Self {
            penalty: 0.0,
            path: 20,
            step: 0.2,
            tolerance: 1e-6,
            max_iterations: 2_000,
        }
    }
}

impl NuclearNormConfig {
    fn validate(&self) -> Result<(), BaselineError> {
        // Written so that NaN fails.
        if !(self.penalty >= 0.0 && self.penalty.is_finite()) {
            return Err(BaselineError::Config {
                field: "penalty",
                value: self.penalty,
                rule: "finite and >= 0",
            });
        }
        positive("step", self.step)?;
        positive("tolerance", self.tolerance)
    }
}

/// The matrix of least nuclear norm that agrees with the observed entries, or nearly so.
///
/// With a penalty p it minimises `|P(Y - X)|^2 / 2 + p |X|_*` (P keeps observed entries) by soft-impute: fill the holes
/// with the current X, shrink the singular values by p, repeat; penalties fall geometrically to the wanted one and each solution
/// starts the next. Without a penalty it minimises `|X|_*` subject to `P(X) = P(Y)`; letting the penalty go to 0 would take ever
/// more iterations, so the residual of the observed entries is added back to them instead (Bregman iteration, which here is the
/// alternating direction method of multipliers with over-relaxation 1.6), and the limit itself is reached at a linear rate.
///
/// Dense: cost of one singular value decomposition of the whole matrix per iteration. No intercepts: centre before when wanted.
/// Sources: Candès and Recht, Found. Comput. Math. 9 (2009); Mazumder, Hastie and Tibshirani, JMLR 11 (2010), algorithm 1; Boyd
/// and others, Found. Trends Mach. Learn. 3 (2011), section 3.4.3.
///
/// ```
/// use npb_baselines::{NuclearNorm, NuclearNormConfig};
/// use npb_data::{Rating, Ratings};
///
/// // Rank one, (1, 2, 3)' (1, 2, 3), with two entries missing.
/// let cells = (0..3u32).flat_map(|i| (0..3u32).map(move |j| (i, j)));
/// let seen = cells.filter(|&cell| cell != (0, 2) && cell != (2, 1));
/// let entries: Vec<Rating> =
///     seen.map(|(row, column)| Rating { row, column, value: f64::from((row + 1) * (column + 1)) }).collect();
/// let found = NuclearNorm::fit(&Ratings::new(3, 3, &entries)?, &NuclearNormConfig::default())?;
/// assert!(found.converged && (found.get(2, 1) - 6.0).abs() < 1e-3);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NuclearNorm {
    completed: Mat<f64>,
    /// Number of singular values above 0.
    pub rank: usize,
    /// Iterations in all.
    pub iterations: usize,
    /// Whether the last penalty was solved to the tolerance.
    pub converged: bool,
}

/// Over-relaxation of the noise-free limit; any number between 0 and 2 gives the same solution.
const RELAXATION: f64 = 1.6;

impl NuclearNorm {
    /// Completes the matrix.
    ///
    /// # Errors
    /// [`BaselineError::Config`], [`BaselineError::NoRatings`], [`BaselineError::SingularValues`].
    pub fn fit(ratings: &Ratings, config: &NuclearNormConfig) -> Result<Self, BaselineError> {
        config.validate()?;
        non_empty_ratings(ratings)?;
        let mut solver = Solver::new(ratings, config);
        let top = solver.largest_singular_value()?;
        if top == 0.0 {
            return Ok(solver.finish(0, true));
        }
        if config.penalty == 0.0 {
            let (iterations, converged) = solver.interpolate(config.step * top)?;
            return Ok(solver.finish(iterations, converged));
        }
        let (mut iterations, mut converged) = (0, true);
        for k in 0..=config.path {
            let share = config
                .penalty
                .powf((k + 1) as f64 / (config.path + 1) as f64);
            let (more, done) = solver.impute(share * top)?;
            iterations += more;
            converged = done;
        }
        Ok(solver.finish(iterations, converged))
    }

    /// Entry of the completed matrix.
    ///
    /// # Panics
    /// When there is no such row or column.
    pub fn get(&self, row: usize, column: usize) -> f64 {
        self.completed[(row, column)]
    }

    /// The completed matrix.
    pub fn completed(&self) -> MatRef<'_, f64> {
        self.completed.as_ref()
    }
}

struct Solver<'a> {
    ratings: &'a Ratings,
    config: &'a NuclearNormConfig,
    /// Norm of the observed entries.
    norm: f64,
    x: Mat<f64>,
    rank: usize,
}

impl<'a> Solver<'a> {
    fn new(ratings: &'a Ratings, config: &'a NuclearNormConfig) -> Self {
        let squares: f64 = ratings.values().iter().map(|v| v * v).sum();
        Self {
            ratings,
            config,
            norm: squares.sqrt(),
            x: Mat::zeros(ratings.n_rows(), ratings.n_cols()),
            rank: 0,
        }
    }

    fn finish(self, iterations: usize, converged: bool) -> NuclearNorm {
        NuclearNorm {
            completed: self.x,
            rank: self.rank,
            iterations,
            converged,
        }
    }

    fn largest_singular_value(&self) -> Result<f64, BaselineError> {
        let filled = self.filled(&Mat::zeros(self.x.nrows(), self.x.ncols()));
        let values = filled
            .singular_values()
            .map_err(|_| BaselineError::SingularValues)?;
        Ok(values.first().copied().unwrap_or(0.0))
    }

    /// `rest` with the observed entries in their places.
    fn filled(&self, rest: &Mat<f64>) -> Mat<f64> {
        let mut filled = rest.clone();
        for e in self.ratings.iter() {
            filled[(e.row as usize, e.column as usize)] = e.value;
        }
        filled
    }

    /// Soft-impute at one penalty, from the current matrix.
    fn impute(&mut self, penalty: f64) -> Result<(usize, bool), BaselineError> {
        for iteration in 1..=self.config.max_iterations {
            let filled = self.filled(&self.x);
            let (next, rank) = shrunk(&filled, penalty)?;
            let moved = (&next - &self.x).norm_l2();
            (self.x, self.rank) = (next, rank);
            if moved <= self.config.tolerance * self.norm {
                return Ok((iteration, true));
            }
        }
        Ok((self.config.max_iterations, false))
    }

    /// The noise-free limit. `z` meets the observed entries, `x` has low rank, `residual` (on observed entries) draws them together.
    fn interpolate(&mut self, threshold: f64) -> Result<(usize, bool), BaselineError> {
        let (n_rows, n_cols) = (self.x.nrows(), self.x.ncols());
        let mut z = self.filled(&Mat::zeros(n_rows, n_cols));
        let mut residual = Mat::zeros(n_rows, n_cols);
        for iteration in 1..=self.config.max_iterations {
            let (x, rank) = shrunk(&(&z - &residual), threshold)?;
            let relaxed = Scale(RELAXATION) * &x + Scale(1.0 - RELAXATION) * &z;
            residual += &relaxed;
            let next = self.filled(&residual);
            residual -= &next;
            let moved = (&next - &z).norm_l2();
            let missed = (&x - &next).norm_l2();
            z = next;
            (self.x, self.rank) = (x, rank);
            if moved.max(missed) <= self.config.tolerance * self.norm {
                return Ok((iteration, true));
            }
        }
        Ok((self.config.max_iterations, false))
    }
}

/// The matrix with its singular values shrunk by `threshold`, and how many stay above 0.
fn shrunk(matrix: &Mat<f64>, threshold: f64) -> Result<(Mat<f64>, usize), BaselineError> {
    let svd = matrix
        .thin_svd()
        .map_err(|_| BaselineError::SingularValues)?;
    let values: Vec<f64> = svd.S().column_vector().iter().copied().collect();
    let rank = values.partition_point(|&s| s > threshold);
    let left = Mat::from_fn(matrix.nrows(), rank, |i, k| {
        svd.U()[(i, k)] * (values[k] - threshold)
    });
    Ok((left * svd.V().subcols(0, rank).transpose(), rank))
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_data::Rating;

    /// Rank `rank`, 20 x 15, every (stride)th entry missing.
    fn example(rank: usize, stride: usize) -> (Mat<f64>, Ratings) {
        let wave = |i: usize, k: usize| ((i * (2 * k + 3) + 7 * k) as f64 * 0.37).sin();
        let truth = Mat::from_fn(20, 15, |i, j| {
            (0..rank).map(|k| wave(i, k) * wave(j + 31, k)).sum::<f64>()
        });
        let cells = (0..300).filter(|c| (c * 7 + c / 15) % stride != 0);
        let entries: Vec<Rating> = cells
            .map(|c| Rating {
                row: (c / 15) as u32,
                column: (c % 15) as u32,
                value: truth[(c / 15, c % 15)],
            })
            .collect();
        (truth, Ratings::new(20, 15, &entries).unwrap())
    }

    fn error(found: &NuclearNorm, truth: &Mat<f64>) -> f64 {
        (found.completed() - truth).norm_l2() / truth.norm_l2()
    }

    #[test]
    fn low_rank_is_recovered_whatever_the_step() {
        let (truth, ratings) = example(2, 4);
        for step in [0.05, 0.2, 0.4] {
            let config = NuclearNormConfig {
                step,
                ..Default::default()
            };
            let found = NuclearNorm::fit(&ratings, &config).unwrap();
            assert!(found.converged && found.rank == 2, "{}", found.rank);
            assert!(error(&found, &truth) < 1e-5, "{}", error(&found, &truth));
        }
    }

    #[test]
    fn a_small_penalty_is_near_the_limit_and_a_large_one_is_not() {
        let (truth, ratings) = example(2, 4);
        let at = |penalty| {
            let config = NuclearNormConfig {
                penalty,
                ..Default::default()
            };
            let found = NuclearNorm::fit(&ratings, &config).unwrap();
            assert!(found.converged);
            error(&found, &truth)
        };
        assert!(at(1e-4) < 1e-3 && at(0.5) > 0.1 && (at(1.0) - 1.0).abs() < 1e-9);
    }

    /// At the solution the gradient on the observed entries is a subgradient of the penalty: its norm is the penalty.
    #[test]
    fn the_penalised_solution_is_stationary() {
        let (_, ratings) = example(6, 3);
        let config = NuclearNormConfig {
            penalty: 0.1,
            tolerance: 1e-10,
            ..Default::default()
        };
        let found = NuclearNorm::fit(&ratings, &config).unwrap();
        let mut observed = Mat::<f64>::zeros(20, 15);
        let mut gradient = observed.clone();
        for e in ratings.iter() {
            let at = (e.row as usize, e.column as usize);
            observed[at] = e.value;
            gradient[at] = e.value - found.completed[at];
        }
        let norm = |m: &Mat<f64>| m.singular_values().unwrap()[0];
        let penalty = 0.1 * norm(&observed);
        assert!((norm(&gradient) / penalty - 1.0).abs() < 1e-6);
    }

    #[test]
    fn zeros_and_bad_settings() {
        let zero = [Rating {
            row: 0,
            column: 0,
            value: 0.0,
        }];
        let zeros = Ratings::new(2, 2, &zero).unwrap();
        let found = NuclearNorm::fit(&zeros, &NuclearNormConfig::default()).unwrap();
        assert_eq!((found.rank, found.get(1, 1)), (0, 0.0));
        let empty = Ratings::new(2, 2, &[]).unwrap();
        let refused = |ratings: &Ratings, config: NuclearNormConfig| {
            NuclearNorm::fit(ratings, &config).unwrap_err().to_string()
        };
        assert!(refused(&empty, NuclearNormConfig::default()).contains("nothing to learn"));
        let bad = NuclearNormConfig {
            penalty: f64::NAN,
            ..Default::default()
        };
        assert!(refused(&zeros, bad).contains("penalty"));
    }
}
