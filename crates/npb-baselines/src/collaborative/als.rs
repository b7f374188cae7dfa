//! Implicit feedback: alternating least squares with confidences.

use npb_data::Ratings;
use npb_infer::stream;
use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, dot};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::{Given, check_given};
use crate::BaselineError;
use crate::error::{at_least_one, non_empty_ratings, positive};

/// Settings of [`ImplicitAls`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImplicitAlsConfig {
    /// Number of factors.
    pub rank: usize,
    /// A like has confidence 1 + alpha, everything else confidence 1.
    pub alpha: f64,
    /// Penalty on squared factors.
    pub ridge: f64,
    /// Rounds of users and items.
    pub rounds: usize,
    /// Seed of the start.
    pub seed: u64,
}

impl Default for ImplicitAlsConfig {
    fn default() -> Self {
        Self {
            rank: 32,
            alpha: 10.0,
            ridge: 10.0,
            rounds: 10,
            seed: 1,
        }
    }
}

/// Matrix factorisation of implicit feedback (Hu, Koren and Volinsky, ICDM 2008): liked items are ones of high confidence, all others zeros of low
/// confidence. It predicts what a user will *choose*, not what they like among what they chose.
///
/// ```
/// use npb_baselines::{ImplicitAls, ImplicitAlsConfig};
/// use npb_data::{Rating, Ratings};
///
/// // Two groups of users with items of their own.
/// let likes: Vec<Rating> = (0..20).flat_map(|u| (0..3).map(move |k| Rating { row: u, column: 3 * (u % 2) + k, value: 1.0 })).collect();
/// let likes = Ratings::new(20, 6, &likes)?;
/// let config = ImplicitAlsConfig { rank: 2, ridge: 0.1, ..Default::default() };
/// let scores = ImplicitAls::fit(&likes, &config)?.scores(&[(3, 1.0)])?;
/// assert!(scores[4] > 0.5 && scores[1] < 0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImplicitAls {
    config: ImplicitAlsConfig,
    n_items: usize,
    /// Items x rank.
    items: Vec<f64>,
    /// Inner products of item factors, rank x rank.
    gram: Mat<f64>,
}

impl ImplicitAls {
    /// A value above 0 is a like. Cost of a round: likes times rank² and (users + items) times rank³ / 3.
    ///
    /// # Errors
    /// [`BaselineError::NoRatings`], [`BaselineError::Config`], [`BaselineError::NotPositiveDefinite`].
    pub fn fit(likes: &Ratings, config: &ImplicitAlsConfig) -> Result<Self, BaselineError> {
        non_empty_ratings(likes)?;
        at_least_one("rank", config.rank)?;
        at_least_one("rounds", config.rounds)?;
        positive("alpha", config.alpha)?;
        positive("ridge", config.ridge)?;
        let (n_users, n_items, rank) = (likes.n_rows(), likes.n_cols(), config.rank);
        let mut rng = stream(config.seed, [0, 0, ALS, 0]);
        let mut items: Vec<f64> = (0..n_items * rank)
            .map(|_| rng.random_range(-0.1..0.1))
            .collect();
        let mut users = vec![0.0; n_users * rank];
        let liked = |(others, values): (&[u32], &[f64])| -> Vec<u32> {
            let pairs = others.iter().zip(values);
            pairs.filter(|(_, v)| **v > 0.0).map(|(&o, _)| o).collect()
        };
        for round in 0..config.rounds {
            let solve = |into: &mut [f64], theirs: &[f64], side: &dyn Fn(usize) -> Vec<u32>| {
                let gram = gram(theirs, rank);
                let mut solver = Solver::new(config);
                for (i, own) in into.chunks_exact_mut(rank).enumerate() {
                    solver.solve(&gram, theirs, &side(i), own, round)?;
                }
                Ok::<(), BaselineError>(())
            };
            solve(&mut users, &items, &|i| liked(likes.row(i)))?;
            solve(&mut items, &users, &|j| liked(likes.column(j)))?;
        }
        Ok(Self {
            config: config.clone(),
            n_items,
            gram: gram(&items, rank),
            items,
        })
    }

    /// A score for every item; only given likes count. Cost: items times rank.
    ///
    /// # Errors
    /// [`BaselineError::Given`], [`BaselineError::NotPositiveDefinite`].
    pub fn scores(&self, given: &[Given]) -> Result<Vec<f64>, BaselineError> {
        check_given(given, self.n_items)?;
        let liked: Vec<u32> = given.iter().filter(|g| g.1 > 0.0).map(|g| g.0).collect();
        let mut own = vec![0.0; self.config.rank];
        let rounds = self.config.rounds;
        Solver::new(&self.config).solve(&self.gram, &self.items, &liked, &mut own, rounds)?;
        Ok(self
            .items
            .chunks_exact(self.config.rank)
            .map(|item| dot(item, &own))
            .collect())
    }
}

/// Third word of the key of the start.
const ALS: u64 = 61;

/// Sum of outer products of the rows.
fn gram(factors: &[f64], rank: usize) -> Mat<f64> {
    let mut gram = Mat::zeros(rank, rank);
    for row in factors.chunks_exact(rank) {
        add_outer(&mut gram, row, 1.0);
    }
    gram
}

/// Lower triangle.
fn add_outer(matrix: &mut Mat<f64>, row: &[f64], weight: f64) {
    for (j, &b) in row.iter().enumerate() {
        let scaled = weight * b;
        let column = matrix.col_as_slice_mut(j);
        for (cell, &a) in column[j..].iter_mut().zip(&row[j..]) {
            *cell += scaled * a;
        }
    }
}

/// Normal equations of one user or item.
struct Solver<'c> {
    config: &'c ImplicitAlsConfig,
    matrix: Mat<f64>,
}

impl<'c> Solver<'c> {
    fn new(config: &'c ImplicitAlsConfig) -> Self {
        Self {
            config,
            matrix: Mat::zeros(config.rank, config.rank),
        }
    }

    /// `own` = (G + alpha sum_liked y y' + ridge I)⁻¹ (1 + alpha) sum_liked y.
    fn solve(
        &mut self,
        gram: &Mat<f64>,
        theirs: &[f64],
        liked: &[u32],
        own: &mut [f64],
        iteration: usize,
    ) -> Result<(), BaselineError> {
        let rank = self.config.rank;
        self.matrix.copy_from(gram);
        own.fill(0.0);
        for &other in liked {
            let row = &theirs[other as usize * rank..][..rank];
            add_outer(&mut self.matrix, row, self.config.alpha);
            let weight = 1.0 + self.config.alpha;
            own.iter_mut().zip(row).for_each(|(o, r)| *o += weight * r);
        }
        for k in 0..rank {
            self.matrix[(k, k)] += self.config.ridge;
        }
        let factor = Cholesky::new(self.matrix.as_ref()).map_err(|e| {
            BaselineError::NotPositiveDefinite {
                what: "implicit ALS",
                iteration,
                pivot: e.pivot,
            }
        })?;
        factor.solve(own);
        Ok(())
    }
}
