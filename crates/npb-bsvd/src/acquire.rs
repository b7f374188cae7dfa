//! Which cells to ask for next.

use npb_data::Ratings;
use npb_infer::parallel;
use npb_infer::stream;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::BsvdError;
use crate::cells::Cells;
use crate::fitted::{BsvdFit, QUESTION};

/// Third words of the keys of random streams.
const CANDIDATES: u64 = 4;
const PAIRS: u64 = 5;

/// Pairs of cells from which it is judged how far correlations over the draws are to be believed.
const JUDGED: usize = 4096;

/// How the next cells are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acquisition {
    /// Those with the largest standard deviations of the noise-free value (W 5.4.2). Cells of one row are often uncertain for the same reason, and then
    /// one would do for all.
    LargestSd,
    /// One after the other: the most uncertain cell; then the one that would be the most uncertain once the first were known; and so on.
    #[default]
    Uncorrelated,
}

/// A cell to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Its row.
    pub row: u32,
    /// Its column.
    pub column: u32,
    /// Posterior standard deviation of its noise-free value.
    pub sd: f64,
    /// The same if all cells before it in the list were known: what makes it worth asking.
    pub remaining_sd: f64,
}

impl Cells {
    /// Cells without an entry, in order; when there are more than `most`, so many of them, drawn at random.
    ///
    /// Cost: a look at every cell when all are listed, and else some `most` draws.
    pub fn unobserved<V: Copy + Into<f64> + Send + Sync>(
        ratings: &Ratings<V>,
        most: usize,
        seed: u64,
    ) -> Self {
        let (n, m) = (ratings.n_rows(), ratings.n_cols());
        let all = n.saturating_mul(m);
        let missing = all - ratings.n_observed();
        let mut places: Vec<(u32, u32)> = Vec::with_capacity(missing.min(most));
        let unknown = |i: usize, j: usize| ratings.get(i, j).is_none();
        if missing <= most || missing < all / 4 {
            let row = |i: usize| (0..m).filter(move |&j| unknown(i, j)).map(move |j| (i, j));
            let cells = (0..n).flat_map(row);
            places.extend(cells.map(|(i, j)| (i as u32, j as u32)));
        }
        let mut rng = stream(seed, [0, QUESTION, CANDIDATES, 0]);
        if places.len() > most {
            // The first places of a random order.
            for k in 0..most {
                let other = rng.random_range(k..places.len());
                places.swap(k, other);
            }
            places.truncate(most);
        } else if places.is_empty() && missing > 0 {
            let mut seen = std::collections::HashSet::with_capacity(most);
            while seen.len() < most {
                let (i, j) = (rng.random_range(0..n), rng.random_range(0..m));
                if unknown(i, j) {
                    seen.insert((i as u32, j as u32));
                }
            }
            places.extend(seen);
        }
        places.sort_unstable();
        Self {
            rows: places.iter().map(|p| p.0).collect(),
            columns: places.iter().map(|p| p.1).collect(),
            values: Vec::new(),
        }
    }
}

impl BsvdFit {
    /// The `n` cells of `candidates` (values are not looked at) that are most worth asking for, in order; fewer when there are fewer candidates.
    ///
    /// [`Acquisition::Uncorrelated`] works on the covariance of the candidates over the stored draws: take the cell of largest variance, condition all
    /// others on an entry there (with its noise), repeat. Correlations are shrunk towards zero by as much as their mean square owes to the number of
    /// draws, so that more cells can be asked for than there are draws; but store more draws than cells if correlations are to count.
    /// Cost: rank and features for each candidate and draw, then `n` times draws + `n` for each candidate; 4 bytes for each candidate and draw (+ `n`). For
    /// large matrices take some thousand candidates by [`Cells::unobserved`].
    ///
    /// # Errors
    /// A cell that does not exist; fewer than two stored draws.
    ///
    /// ```
    /// # use npb_bsvd::npb_data::{Rating, Ratings};
    /// # use npb_bsvd::{BsvdConfig, SideInformation, fit};
    /// use npb_bsvd::{Acquisition, Cells};
    /// # let places = (0..12u32).flat_map(|i| (0..9u32).map(move |j| (i, j)));
    /// # let value = |i: u32, j: u32| (f64::from(i) - 5.0) * (f64::from(j) - 3.0);
    /// # let entries: Vec<Rating> = places.filter(|(i, j)| (i + j) % 3 != 0 && (*i != 7 || *j == 0))
    /// #     .map(|(row, column)| Rating { row, column, value: value(row, column) }).collect();
    /// # let ratings = Ratings::new(12, 9, &entries)?;
    /// # let config = BsvdConfig { candidates: 6, ..BsvdConfig::default() };
    /// // Row 7 has one entry only, all others have six.
    /// let model = fit(&ratings, SideInformation::default(), &Cells::default(), &config)?;
    /// let candidates = Cells::unobserved(&ratings, 1000, 1);
    /// let next = model.next_cells(&candidates, 5, Acquisition::LargestSd)?;
    /// assert!(next.iter().all(|cell| cell.row == 7));
    /// // Once one or two of them are known, the others are, too.
    /// let next = model.next_cells(&candidates, 5, Acquisition::Uncorrelated)?;
    /// assert!(next[0].row == 7 && next[4].remaining_sd < 0.5 * next[0].sd);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_cells(
        &self,
        candidates: &Cells,
        n: usize,
        how: Acquisition,
    ) -> Result<Vec<Wanted>, BsvdError> {
        self.views(2)?;
        let draws = self.cell_draws(candidates)?;
        let cells = Deviations::new(&draws, candidates.len());
        let chosen = match how {
            Acquisition::LargestSd => cells.largest(n),
            Acquisition::Uncorrelated => {
                let noise = self.for_cells(candidates, |_, cell| Ok(cell.noise_variance()))?;
                let seed = self.config.seed;
                cells.one_by_one(n, &noise, cells.trust(seed))
            }
        };
        Ok(chosen
            .into_iter()
            .map(|(cell, remaining)| Wanted {
                row: candidates.rows[cell],
                column: candidates.columns[cell],
                sd: cells.variances[cell].sqrt(),
                remaining_sd: remaining.max(0.0).sqrt(),
            })
            .collect())
    }
}

/// Deviations of cells from their means, in every draw.
struct Deviations {
    /// Those of a cell lie together, divided by the square root of the number of draws less one.
    table: Vec<f32>,
    draws: usize,
    variances: Vec<f64>,
}

impl Deviations {
    /// `draws`: at least two, of `n` cells.
    fn new(draws: &[Vec<f32>], n: usize) -> Self {
        let count = draws.len();
        let unit = ((count - 1) as f64).sqrt().recip();
        let mut table = vec![0.0; n * count];
        let lines = table.chunks_mut(count).enumerate();
        let variances = parallel::map(lines, |(cell, line)| {
            let mean = draws.iter().map(|d| f64::from(d[cell])).sum::<f64>() / count as f64;
            for (to, draw) in line.iter_mut().zip(draws) {
                *to = (unit * (f64::from(draw[cell]) - mean)) as f32;
            }
            product(line, line)
        });
        Self {
            table,
            draws: count,
            variances,
        }
    }

    fn line(&self, cell: usize) -> &[f32] {
        &self.table[cell * self.draws..(cell + 1) * self.draws]
    }

    /// Cells of largest variance, with their variances.
    fn largest(&self, n: usize) -> Vec<(usize, f64)> {
        let mut order: Vec<usize> = (0..self.variances.len()).collect();
        order.sort_by(|&a, &b| self.variances[b].total_cmp(&self.variances[a]));
        order.truncate(n);
        order.iter().map(|&c| (c, self.variances[c])).collect()
    }

    /// The part of covariances that is not due to the small number of draws: squared correlations of independent cells are 1 / (draws - 1) on average.
    fn trust(&self, seed: u64) -> f64 {
        let n = self.variances.len();
        if n < 2 {
            return 1.0;
        }
        let mut rng = stream(seed, [0, QUESTION, PAIRS, 0]);
        let mut total = 0.0;
        for _ in 0..JUDGED {
            let a = rng.random_range(0..n);
            let b = (a + rng.random_range(1..n)) % n;
            let scale = self.variances[a] * self.variances[b];
            if scale > 0.0 {
                total += product(self.line(a), self.line(b)).powi(2) / scale;
            }
        }
        let by_chance = ((self.draws - 1) as f64).recip();
        (1.0 - by_chance / (total / JUDGED as f64).max(by_chance)).max(0.0)
    }

    /// Largest conditional variance first, given what was taken before; `trust` multiplies covariances. This is Cholesky's factorisation of covariance +
    /// noise with pivots, a column for each cell taken.
    fn one_by_one(&self, n: usize, noise: &[f64], trust: f64) -> Vec<(usize, f64)> {
        let n = n.min(self.variances.len());
        let mut left = self.variances.clone();
        let mut free = vec![true; left.len()];
        // Column t of the factor, for every cell.
        let mut factor: Vec<Vec<f32>> = Vec::with_capacity(n);
        let mut chosen = Vec::with_capacity(n);
        for _ in 0..n {
            let best = (0..left.len())
                .filter(|&c| free[c])
                .fold(None, |best: Option<usize>, c| match best {
                    Some(b) if left[b] >= left[c] => Some(b),
                    _ => Some(c),
                });
            let Some(best) = best else { break };
            free[best] = false;
            chosen.push((best, left[best]));
            let pivot = left[best].max(0.0) + noise[best];
            if pivot <= 0.0 {
                continue;
            }
            let root = pivot.sqrt().recip();
            let column: Vec<f32> = parallel::map(0..left.len(), |c| {
                let covariance = trust * product(self.line(c), self.line(best));
                let known: f64 = factor
                    .iter()
                    .map(|g| f64::from(g[c]) * f64::from(g[best]))
                    .sum();
                (root * (covariance - known)) as f32
            });
            for (left, &g) in left.iter_mut().zip(&column) {
                *left -= f64::from(g) * f64::from(g);
            }
            factor.push(column);
        }
        chosen
    }
}

fn product(a: &[f32], b: &[f32]) -> f64 {
    npb_linalg::dot_f32(a, b)
}

#[cfg(test)]
mod tests {
    use npb_linalg::Cholesky;
    use npb_linalg::faer::Mat;
    use rand_distr::StandardNormal;

    use super::*;

    /// Draws of 12 cells that share three causes; cell 1 is the twin of cell 0, which varies most.
    fn draws(count: usize) -> Vec<Vec<f32>> {
        let mut rng = stream(3, [0; 4]);
        let mut normal = || -> f64 { rng.sample(StandardNormal) };
        let causes: Vec<[f64; 3]> = (0..12).map(|_| [normal(), normal(), normal()]).collect();
        (0..count)
            .map(|_| {
                let z = [normal(), normal(), normal()];
                let mut line: Vec<f32> = causes
                    .iter()
                    .map(|c| (c[0] * z[0] + c[1] * z[1] + c[2] * z[2] + 0.2 * normal()) as f32)
                    .collect();
                line[0] *= 3.0;
                line[1] = 0.99 * line[0];
                line
            })
            .collect()
    }

    /// Conditional variance of cell `c` given noisy entries of `known`, from the whole covariance.
    fn conditional(cells: &Deviations, trust: f64, noise: f64, known: &[usize], c: usize) -> f64 {
        let covariance = |a: usize, b: usize| {
            let shrunk = if a == b { 1.0 } else { trust };
            shrunk * product(cells.line(a), cells.line(b))
        };
        let k = known.len();
        let matrix = Mat::from_fn(k, k, |a, b| {
            covariance(known[a], known[b]) + if a == b { noise } else { 0.0 }
        });
        let mut g: Vec<f64> = known.iter().map(|&a| covariance(a, c)).collect();
        if k > 0 {
            Cholesky::new(matrix.as_ref()).unwrap().solve_l(&mut g);
        }
        covariance(c, c) - g.iter().map(|x| x * x).sum::<f64>()
    }

    #[test]
    fn each_choice_has_the_largest_conditional_variance() {
        let cells = Deviations::new(&draws(200), 12);
        let (noise, trust) = (0.05, 0.9);
        let chosen = cells.one_by_one(12, &[noise; 12], trust);
        let mut known = Vec::new();
        for &(c, left) in &chosen {
            let exact = conditional(&cells, trust, noise, &known, c);
            assert!(
                (left - exact).abs() < 1e-5 * cells.variances[c],
                "{left} {exact}"
            );
            for other in (0..12).filter(|o| !known.contains(o)) {
                let least = conditional(&cells, trust, noise, &known, other);
                assert!(least < exact + 1e-5);
            }
            known.push(c);
        }
        assert_eq!(chosen.len(), 12);
    }

    #[test]
    fn a_twin_is_not_asked_for() {
        let cells = Deviations::new(&draws(200), 12);
        let pair = |chosen: Vec<(usize, f64)>| [chosen[0].0, chosen[1].0];
        assert_eq!(pair(cells.largest(2)), [0, 1]);
        let [first, second] = pair(cells.one_by_one(2, &[0.05; 12], 1.0));
        assert!(first == 0 && second != 1);
    }

    #[test]
    fn correlations_of_few_draws_are_not_believed() {
        let mut rng = stream(4, [0; 4]);
        let mut independent = |count: usize| -> Vec<Vec<f32>> {
            (0..count)
                .map(|_| (0..300).map(|_| rng.sample(StandardNormal)).collect())
                .collect()
        };
        assert!(Deviations::new(&independent(10), 300).trust(1) < 0.1);
        assert!(Deviations::new(&draws(50), 12).trust(1) > 0.8);
    }
}
