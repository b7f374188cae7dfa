//! The posterior of rank, noise, singular values and components.

use npb_infer::diagnostics::{ChainDiagnostics, summarise, unmet};
use npb_infer::parallel;
use npb_infer::{Trace, stream};
use npb_linalg::faer::Mat;
use rand::RngExt;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::Likelihood;
use crate::config::MOST_CANDIDATES;
use crate::fitted::{BsvdFit, QUESTION};
use crate::side::Side;
use crate::spectrum::singular_values;
use crate::summary::{Summary, check_level};
use crate::view::View;

/// Third word of the keys of random streams.
const COMPONENTS: u64 = 6;

/// Places of scalars in the trace.
const RANK: usize = 0;
const NOISE_SD: usize = 2;

/// Directions beyond those asked for, by which the others converge sooner.
const BEYOND: usize = 8;
/// Rounds at most, and the relative change of singular values at which they end.
const ROUNDS: usize = 300;
const SETTLED: f64 = 1e-12;

/// Draws that are summed up in one go.
const DRAWS: usize = 8;

/// Components of a fit: directions in which rows and columns vary together, see [`BsvdFit::components`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Components {
    /// How strong each one is, in descending order of the means: a singular value, in units of the data (of latent values for probit models).
    pub strengths: Vec<Summary>,
    /// Loadings of the rows.
    pub rows: Loadings,
    /// Loadings of the columns.
    pub columns: Loadings,
}

/// Loadings of rows (or columns) on components.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loadings {
    /// Number of components.
    pub n_components: usize,
    /// Posterior means, those of one row together; those of one component have length 1.
    pub mean: Vec<f64>,
    /// Posterior standard deviations, in the same order.
    pub sd: Vec<f64>,
}

impl Loadings {
    /// Posterior means of the loadings of row `i` on all components.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn of(&self, i: usize) -> &[f64] {
        &self.mean[i * self.n_components..(i + 1) * self.n_components]
    }

    /// Rows of the largest absolute loadings on component `k`, largest first: what it is about.
    ///
    /// # Panics
    /// When there is no such component.
    pub fn largest(&self, k: usize, n: usize) -> Vec<usize> {
        assert!(
            k < self.n_components,
            "component {k} of {}",
            self.n_components
        );
        let size = |i: usize| self.mean[i * self.n_components + k].abs();
        let mut order: Vec<usize> = (0..self.mean.len() / self.n_components).collect();
        order.sort_by(|&a, &b| size(b).total_cmp(&size(a)));
        order.truncate(n);
        order
    }
}

impl BsvdFit {
    /// Posterior of the rank: entry `k` is the share of the kept draws with `k` active components. Cost: a look at the trace.
    ///
    /// # Errors
    /// No kept draw.
    pub fn rank_distribution(&self) -> Result<Vec<f64>, BsvdError> {
        let ranks = self.kept(RANK)?;
        let largest = ranks.iter().fold(0.0f64, |a, &b| a.max(b));
        if largest > MOST_CANDIDATES as f64 {
            return Err(BsvdError::State {
                what: format!("trace: a rank of {largest}"),
            });
        }
        let mut shares = vec![0.0; largest as usize + 1];
        for &rank in &ranks {
            shares[rank as usize] += 1.0 / ranks.len() as f64;
        }
        Ok(shares)
    }

    /// Posterior of the standard deviation of the noise, units of the data, by all kept draws. Cost: a look at the trace.
    ///
    /// # Errors
    /// No kept draw; a level that is not between 0 and 1.
    pub fn noise_sd(&self, level: f64) -> Result<Summary, BsvdError> {
        check_level(level)?;
        Ok(Summary::of(&self.kept(NOISE_SD)?, level))
    }

    /// Standard deviation of the noise of each row, units of the data, averaged over columns as their prior has them: of someone whose entries follow the
    /// pattern closely it is small. Root of the posterior mean of `1 / (alpha w_i)`; all the same when rows have no noise of their own. Cost: a look at each
    /// row in each stored draw.
    ///
    /// # Errors
    /// No stored draw; a likelihood without noise of its own.
    pub fn row_noise(&self) -> Result<Vec<f64>, BsvdError> {
        self.noise_of(Side::Rows)
    }

    /// The same of each column.
    ///
    /// # Errors
    /// As [`row_noise`](Self::row_noise).
    pub fn column_noise(&self) -> Result<Vec<f64>, BsvdError> {
        self.noise_of(Side::Columns)
    }

    fn noise_of(&self, side: Side) -> Result<Vec<f64>, BsvdError> {
        let views = self.views(1)?;
        if matches!(
            self.config.likelihood,
            Likelihood::Binary | Likelihood::Binomial
        ) {
            return Err(BsvdError::Likelihood {
                question: "noise",
                likelihood: self.config.likelihood,
            });
        }
        let mut variances = vec![0.0; self.size(side)];
        for view in &views {
            let own = side.of(view.state);
            for (i, variance) in variances.iter_mut().enumerate() {
                *variance += (view.state.noise_precision * own.noise_weight(i)).recip();
            }
        }
        let draws = views.len() as f64;
        Ok(variances
            .into_iter()
            .map(|v| self.scale * (v / draws).sqrt())
            .collect())
    }

    /// Split R-hat and effective sample sizes of the scalars of [`scalars`](crate::BsvdSampler::scalars) over the kept draws of all chains, with their names. R-hat
    /// near 1 (below 1.01 to 1.05) means that chains, and the halves of each, cannot be told apart; that of a single chain sees its drift only.
    ///
    /// Of a scalar that is the same number in all draws of all chains R-hat is 1, the effective sample size that of the draws. Predictions are averages over
    /// cells that hardly depend on what mixes slowest: the rank and the smallest scales.
    pub fn diagnostics(&self) -> Vec<(String, ChainDiagnostics)> {
        let traces: Vec<&Trace> = self.traces().collect();
        let mut all = summarise(&traces, &self.config.sweeps);
        for (scalar, (_, found)) in all.iter_mut().enumerate() {
            let draws = traces.iter();
            let draws: Vec<f64> = draws
                .flat_map(|t| t.kept(&self.config.sweeps, scalar))
                .collect();
            let constant = draws.iter().all(|x| x.is_finite() && *x == draws[0]);
            if constant && !draws.is_empty() {
                let n = draws.len() as f64;
                found.mcse_mean = Some(0.0);
                found.rhat = Some(1.0);
                (found.ess_bulk, found.ess_tail) = (Some(n), Some(n));
            }
        }
        all
    }

    /// What has not settled, in words; empty where all has. The noise is judged: predictions are averages that hardly depend on what mixes slowest.
    pub fn unmet(&self) -> Vec<String> {
        let mut judged = self.diagnostics();
        judged.retain(|(name, _)| name.contains("noise"));
        unmet(&judged)
    }

    /// Whether a kept draw of some chain has all of [`max_candidates`](crate::BsvdConfig::max_candidates) active: the limit then has a say in the rank,
    /// and should be raised.
    pub fn is_at_limit(&self) -> bool {
        let ranks = self.traces().map(|t| t.kept(&self.config.sweeps, RANK));
        let most = self.config.max_candidates as f64;
        ranks.flatten().any(|rank| rank >= most)
    }

    /// A scalar of the trace in the kept draws.
    fn kept(&self, scalar: usize) -> Result<Vec<f64>, BsvdError> {
        let kept = self.traces().map(|t| t.kept(&self.config.sweeps, scalar));
        let values: Vec<f64> = kept.flatten().collect();
        let possible = values
            .iter()
            .all(|v| v.is_finite() && *v >= 0.0 && *v < 1e300);
        if values.is_empty() || !possible {
            return Err(BsvdError::TooFewDraws { found: 0, least: 1 });
        }
        Ok(values)
    }

    /// Posteriors of the singular values of the components together, `U diag(s) V'` (averages and features apart, see
    /// [`components`](Self::components)), in units of the data: of the largest in each stored draw, of the second, and so on; 0 in draws of lower rank.
    ///
    /// Cost: rank squared for each row, column and draw; in parallel.
    ///
    /// # Errors
    /// No stored draw; a level that is not between 0 and 1.
    pub fn singular_values(&self, level: f64) -> Result<Vec<Summary>, BsvdError> {
        check_level(level)?;
        let views = self.views(1)?;
        let values = |view: &View<'_>| -> Vec<f64> {
            let [rows, columns] = self.apart(view);
            singular_values(&rows, &columns, &view.state.scales)
        };
        let draws: Vec<Vec<f64>> = parallel::map(&views, values);
        let most = draws.iter().map(Vec::len).max().unwrap_or(0);
        let kth = |k: usize| -> Vec<f64> {
            let value = |draw: &Vec<f64>| draw.get(k).map_or(0.0, |s| self.scale * s);
            draws.iter().map(value).collect()
        };
        Ok((0..most).map(|k| Summary::of(&kth(k), level)).collect())
    }

    /// The first `n` components, with loadings that can be read and compared.
    ///
    /// Draws agree on a component neither in sign nor in number, and those of equal strength may be turned among each other. So component k is *defined*
    /// by the posterior mean of `U diag(s) V'`, without its averages over columns where rows have intercepts and over rows where columns have them (these
    /// could as well be part of the intercepts), and without features: its k-th pair of singular vectors `u_k`, `v_k`, the sign such that the largest
    /// loading of a column is positive. A draw `M` then has strength `u_k' M v_k`, row loadings `M v_k / sigma_k` and column loadings `M' u_k / sigma_k`,
    /// `sigma_k` the singular value: nothing is matched, the means are `sigma_k`, `u_k`, `v_k` exactly, and the standard deviations say how
    /// far the draws agree. Fewer than `n` are given when the rank of the mean is lower. Intervals of the strengths hold 90%.
    ///
    /// Cost: rank times `n` + 8 for each row, column and draw, some ten to a hundred times over (until the vectors have settled); in parallel.
    ///
    /// # Errors
    /// No stored draw.
    pub fn components(&self, n: usize) -> Result<Components, BsvdError> {
        let views = self.views(1)?;
        let sizes = [self.n_rows(), self.n_cols()];
        let draws: Vec<Factors> = views
            .iter()
            .map(|view| {
                let [rows, columns] = self.apart(view);
                Factors::new(&rows, &columns, &view.state.scales, sizes)
            })
            .collect();
        let Directions { u, sigma, v } = directions(&draws, n, self);
        let n = sigma.len();
        let strengths = draws.iter().map(|draw| {
            let product = draw.times(&v);
            (0..n).map(|k| inner(&u, &product, k)).collect::<Vec<f64>>()
        });
        let strengths: Vec<Vec<f64>> = strengths.collect();
        Ok(Components {
            strengths: (0..n)
                .map(|k| {
                    let values: Vec<f64> = strengths.iter().map(|s| self.scale * s[k]).collect();
                    Summary::of(&values, 0.9)
                })
                .collect(),
            rows: loadings(&draws, &u, &sigma, |draw| draw.times(&v)),
            columns: loadings(&draws, &v, &sigma, |draw| draw.transposed_times(&u)),
        })
    }
}

impl BsvdFit {
    /// The factors of one draw, without what intercepts could take over: averages of the components over a side are intercepts of the other.
    fn apart(&self, view: &View<'_>) -> [Vec<f32>; 2] {
        let (state, rank) = (view.state, view.state.rank());
        [
            (&state.rows, self.config.column_intercepts),
            (&state.columns, self.config.row_intercepts),
        ]
        .map(|(side, centre)| {
            let mut factors = side.factors.clone();
            if centre {
                centre_columns(&mut factors, rank);
            }
            factors
        })
    }
}

fn centre_columns(table: &mut [f32], width: usize) {
    let n = table.len().checked_div(width).unwrap_or(0) as f64;
    let mut means = vec![0.0; width];
    for line in table.chunks_exact(width.max(1)) {
        let sums = means.iter_mut().zip(line);
        sums.for_each(|(mean, &x)| *mean += f64::from(x) / n);
    }
    for line in table.chunks_exact_mut(width.max(1)) {
        let numbers = line.iter_mut().zip(&means);
        numbers.for_each(|(x, mean)| *x = (f64::from(*x) - mean) as f32);
    }
}

/// Components of one draw, in double precision.
struct Factors {
    /// I x rank, scaled.
    rows: Mat<f64>,
    /// J x rank.
    columns: Mat<f64>,
}

impl Factors {
    fn new(rows: &[f32], columns: &[f32], scales: &[f64], sizes: [usize; 2]) -> Self {
        let rank = scales.len();
        let entry = |table: &[f32], i: usize, k: usize| f64::from(table[i * rank + k]);
        Self {
            rows: Mat::from_fn(sizes[0], rank, |i, k| scales[k] * entry(rows, i, k)),
            columns: Mat::from_fn(sizes[1], rank, |j, k| entry(columns, j, k)),
        }
    }

    fn times(&self, x: &Mat<f64>) -> Mat<f64> {
        &self.rows * (self.columns.transpose() * x)
    }

    fn transposed_times(&self, x: &Mat<f64>) -> Mat<f64> {
        &self.columns * (self.rows.transpose() * x)
    }
}

fn inner(a: &Mat<f64>, b: &Mat<f64>, k: usize) -> f64 {
    let (a, b) = (a.col_as_slice(k), b.col_as_slice(k));
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Mean over the draws of a product, summed in blocks of fixed size and order.
fn mean(draws: &[Factors], product: impl Fn(&Factors) -> Mat<f64> + Sync) -> Option<Mat<f64>> {
    let blocks = parallel::map(draws.chunks(DRAWS), |block| {
        block.iter().map(&product).reduce(|a, b| a + b)
    });
    let total = blocks.into_iter().flatten().reduce(|a, b| a + b)?;
    let share = (draws.len() as f64).recip();
    Some(Mat::from_fn(total.nrows(), total.ncols(), |i, k| {
        share * total[(i, k)]
    }))
}

/// Leading singular triplets.
struct Directions {
    u: Mat<f64>,
    sigma: Vec<f64>,
    v: Mat<f64>,
}

impl Directions {
    fn none(n: usize, m: usize) -> Self {
        Self {
            u: Mat::zeros(n, 0),
            sigma: Vec::new(),
            v: Mat::zeros(m, 0),
        }
    }
}

/// Of the mean of the draws, without forming it: subspace iteration with Rayleigh and Ritz's step.
fn directions(draws: &[Factors], n: usize, fit: &BsvdFit) -> Directions {
    let (rows, columns) = (fit.n_rows(), fit.n_cols());
    let total: usize = draws.iter().map(|d| d.rows.ncols()).sum();
    let width = (n + BEYOND).min(total).min(rows).min(columns);
    if n == 0 || width == 0 {
        return Directions::none(rows, columns);
    }
    let mut rng = stream(fit.config.seed, [0, QUESTION, COMPONENTS, 0]);
    let mut v = Mat::from_fn(columns, width, |_, _| rng.sample(StandardNormal));
    let mut found = Directions::none(rows, columns);
    for _ in 0..ROUNDS {
        let Some(product) = mean(draws, |d| d.times(&v)) else {
            break;
        };
        let q = product.qr().compute_thin_Q();
        let Some(back) = mean(draws, |d| d.transposed_times(&q)) else {
            break;
        };
        // back = V S W', and so the mean is nearly (Q W) S V'.
        let Ok(svd) = back.thin_svd() else { break };
        let sigma: Vec<f64> = svd.S().column_vector().iter().copied().collect();
        let change = sigma
            .iter()
            .take(n)
            .zip(&found.sigma)
            .fold(0.0f64, |c, (a, b)| c.max((a - b).abs()));
        let settled = !found.sigma.is_empty() && change <= SETTLED * sigma[0];
        v = svd.U().to_owned();
        found = Directions {
            u: &q * svd.V(),
            sigma,
            v: v.clone(),
        };
        if settled {
            break;
        }
    }
    found.first(n)
}

impl Directions {
    /// The first `n` that are not zero, signs fixed.
    fn first(self, n: usize) -> Self {
        let least = self.sigma.first().map_or(0.0, |s| 1e-9 * s);
        let n = self.sigma.iter().take(n).filter(|s| **s > least).count();
        let signs: Vec<f64> = (0..n)
            .map(|k| {
                let largest = self.v.col_as_slice(k).iter().copied();
                let largest = largest.fold(0.0f64, |a, b| if b.abs() > a.abs() { b } else { a });
                largest.signum()
            })
            .collect();
        let signed = |m: &Mat<f64>| Mat::from_fn(m.nrows(), n, |i, k| signs[k] * m[(i, k)]);
        Self {
            u: signed(&self.u),
            v: signed(&self.v),
            sigma: self.sigma[..n].to_vec(),
        }
    }
}

/// Means (the directions themselves) and standard deviations over the draws.
fn loadings(
    draws: &[Factors],
    direction: &Mat<f64>,
    sigma: &[f64],
    product: impl Fn(&Factors) -> Mat<f64> + Sync,
) -> Loadings {
    let n = sigma.len();
    let squares = mean(draws, |draw| {
        let found = product(draw);
        Mat::from_fn(direction.nrows(), n, |i, k| {
            (found[(i, k)] / sigma[k] - direction[(i, k)]).powi(2)
        })
    });
    let count = draws.len() as f64;
    let unbiased = if count > 1.0 {
        count / (count - 1.0)
    } else {
        0.0
    };
    let entries = || (0..direction.nrows()).flat_map(|i| (0..n).map(move |k| (i, k)));
    Loadings {
        n_components: n,
        mean: entries().map(|at| direction[at]).collect(),
        sd: entries()
            .map(|at| squares.as_ref().map_or(0.0, |s| (unbiased * s[at]).sqrt()))
            .collect(),
    }
}
