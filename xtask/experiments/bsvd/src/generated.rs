//! Random matrices of low rank (W 5.5.2).

use npb_data::{Rating, Ratings, splits};
use npb_priors::dist::Normal;

use npb_kit::Result;

/// Rows and columns of the matrices of figures 5.2 to 5.5.
pub(super) const SIDE: usize = 50;

/// Keys of the random streams.
const FACTORS: u64 = 1;
const PLACES: u64 = 2;
const NOISE: u64 = 3;

/// A square matrix of low rank, row-major.
pub(super) struct LowRank {
    pub(super) values: Vec<f64>,
    seed: u64,
}

/// Degrees of freedom of a square matrix of a rank, d_r = r (2 I - r).
pub(super) fn degrees_of_freedom(rank: usize) -> usize {
    rank * (2 * SIDE - rank)
}

impl LowRank {
    /// The product of two matrices of independent standard normal numbers. The seed also fixes noise and observed cells, so that all
    /// methods see the same.
    pub(super) fn draw(rank: usize, seed: u64) -> Result<Self> {
        let rng = &mut npb_infer::stream(seed, [0, rank as u64, 0, FACTORS]);
        let normal = Normal::new(0.0, 1.0)?;
        let mut factor = || -> Vec<f64> { (0..SIDE * rank).map(|_| normal.sample(rng)).collect() };
        let (left, right) = (factor(), factor());
        let row = |m: &[f64], i: usize| m[i * rank..(i + 1) * rank].to_vec();
        let value = |cell: usize| {
            let (u, v) = (row(&left, cell / SIDE), row(&right, cell % SIDE));
            u.iter().zip(&v).map(|(a, b)| a * b).sum()
        };
        Ok(Self {
            values: (0..SIDE * SIDE).map(value).collect(),
            seed,
        })
    }

    /// The matrix plus independent normal noise, at a ratio of mean squares in decibels.
    pub(super) fn with_noise(&self, decibels: f64) -> Result<Vec<f64>> {
        let power = self.values.iter().map(|v| v * v).sum::<f64>() / self.values.len() as f64;
        let variance = power * 10f64.powf(-decibels / 10.0);
        let normal = Normal::new(0.0, variance)?;
        let rng = &mut npb_infer::stream(self.seed, [0, 0, 0, NOISE]);
        Ok(self.values.iter().map(|v| v + normal.sample(rng)).collect())
    }

    /// `n` cells drawn without replacement, ascending.
    pub(super) fn cells(&self, n: usize) -> Result<Vec<usize>> {
        let rng = &mut npb_infer::stream(self.seed, [0, n as u64, 0, PLACES]);
        Ok(splits::sample_rows(SIDE * SIDE, n, rng)?)
    }

    /// |found - truth| / |truth| over the whole matrix.
    pub(super) fn relative_error(&self, found: impl Fn(usize, usize) -> f64) -> f64 {
        let (mut error, mut size) = (0.0, 0.0);
        for (cell, truth) in self.values.iter().enumerate() {
            error += (found(cell / SIDE, cell % SIDE) - truth).powi(2);
            size += truth * truth;
        }
        (error / size).sqrt()
    }
}

/// These cells of row-major values.
pub(super) fn observe(values: &[f64], cells: &[usize]) -> Result<Ratings> {
    let entry = |&cell: &usize| Rating {
        row: (cell / SIDE) as u32,
        column: (cell % SIDE) as u32,
        value: values[cell],
    };
    let entries: Vec<Rating> = cells.iter().map(entry).collect();
    Ok(Ratings::new(SIDE, SIDE, &entries)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_linalg::faer::Mat;

    #[test]
    fn a_matrix_has_the_rank_asked_for_and_the_noise_its_size() {
        let matrix = LowRank::draw(4, 9).unwrap();
        let dense = Mat::from_fn(SIDE, SIDE, |i, j| matrix.values[i * SIDE + j]);
        let values = dense.singular_values().unwrap();
        assert!(values[3] > 1.0 && values[4] < 1e-10 * values[0]);
        assert_eq!(degrees_of_freedom(4), 384);
        let noisy = matrix.with_noise(20.0).unwrap();
        let found = matrix.relative_error(|i, j| noisy[i * SIDE + j]);
        assert!((found - 0.1).abs() < 0.01, "20 dB is a tenth: {found}");
    }

    #[test]
    fn observed_cells_keep_their_places() {
        let matrix = LowRank::draw(2, 1).unwrap();
        let cells = matrix.cells(600).unwrap();
        let seen = observe(&matrix.values, &cells).unwrap();
        assert_eq!(seen.n_observed(), 600);
        for e in seen.iter() {
            assert_eq!(
                e.value,
                matrix.values[e.row as usize * SIDE + e.column as usize]
            );
        }
        assert_eq!(matrix.cells(600).unwrap(), cells);
    }
}
