//! Cholesky factors of small and banded matrices in memory of the caller.

use rand::Rng;

use super::support::standard;

/// A positive definite matrix of which only entries (i, j) with i − `width` <= j <= i are kept, and then its factor.
///
/// One value serves many matrices: [`reset`](Self::reset) allocates only when a matrix is larger than all before it.
#[derive(Clone, Debug, Default)]
pub(super) struct BandedCholesky {
    n: usize,
    width: usize,
    entries: Vec<f64>,
}

impl BandedCholesky {
    /// An n x n matrix of zeros.
    pub(super) fn reset(&mut self, n: usize, width: usize) {
        self.n = n;
        self.width = width.min(n.saturating_sub(1));
        self.entries.clear();
        self.entries.resize(n * (self.width + 1), 0.0);
    }

    fn at(&self, i: usize, j: usize) -> usize {
        i * (self.width + 1) + self.width + j - i
    }

    fn first(&self, i: usize) -> usize {
        i.saturating_sub(self.width)
    }

    /// Adds to entry (i, j), j <= i, within the band.
    pub(super) fn add(&mut self, i: usize, j: usize, value: f64) {
        let at = self.at(i, j);
        self.entries[at] += value;
    }

    pub(super) fn get(&self, i: usize, j: usize) -> f64 {
        self.entries[self.at(i, j)]
    }

    /// Replaces the matrix by its lower factor. A pivot that rounding made 0 or negative becomes the smallest positive number
    /// that leaves the rest finite. Cost: n `width`² / 2.
    pub(super) fn factor(&mut self) {
        for i in 0..self.n {
            for j in self.first(i)..=i {
                let from = self.first(i).max(self.first(j));
                let [a, b] = [i, j].map(|i| &self.entries[self.at(i, from)..self.at(i, j)]);
                let sum = self.get(i, j) - dot(a, b);
                let at = self.at(i, j);
                self.entries[at] = match i == j {
                    true => sum.max(1e-200).sqrt(),
                    false => sum / self.get(j, j),
                };
            }
        }
    }

    /// Half of ln det of the factored matrix.
    pub(super) fn half_ln_det(&self) -> f64 {
        (0..self.n).map(|i| self.get(i, i).ln()).sum()
    }

    /// b <- L^-1 b.
    pub(super) fn solve_lower(&self, b: &mut [f64]) {
        for i in 0..self.n {
            let first = self.first(i);
            let before = dot(
                &self.entries[self.at(i, first)..self.at(i, i)],
                &b[first..i],
            );
            b[i] = (b[i] - before) / self.get(i, i);
        }
    }

    /// b <- L'^-1 b.
    pub(super) fn solve_upper(&self, b: &mut [f64]) {
        for i in (0..self.n).rev() {
            b[i] /= self.get(i, i);
            let x = b[i];
            for j in self.first(i)..i {
                b[j] -= self.get(i, j) * x;
            }
        }
    }

    /// From L^-1 b to A^-1 b, with a draw of N(0, A^-1) added when there is a generator.
    pub(super) fn finish<R: Rng + ?Sized>(&self, b: &mut [f64], rng: Option<&mut R>) {
        if let Some(rng) = rng {
            b.iter_mut().for_each(|x| *x += standard(rng));
        }
        self.solve_upper(b);
    }
}

/// Σ x y, in four sums that need not wait for each other.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<4>(), y.as_chunks::<4>());
    let mut sums = [0.0; 4];
    for (x, y) in x.iter().zip(y) {
        for lane in 0..4 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let rest = x_rest.iter().zip(y_rest).map(|(x, y)| x * y);
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_infer::Xoshiro256PlusPlus;

    #[test]
    fn solves_banded_systems() {
        let (n, width) = (7, 2);
        let a = |i: usize, j: usize| match i.abs_diff(j) {
            0 => 4.0 + i as f64,
            d if d <= width => 1.0 / (d + i.min(j)) as f64,
            _ => 0.0,
        };
        let mut band = BandedCholesky::default();
        band.reset(9, 1);
        band.reset(n, width);
        for i in 0..n {
            (i.saturating_sub(width)..=i).for_each(|j| band.add(i, j, a(i, j)));
        }
        band.factor();
        let x: Vec<f64> = (0..n).map(|i| i as f64 - 2.5).collect();
        let mut b: Vec<f64> = (0..n)
            .map(|i| (0..n).map(|j| a(i, j) * x[j]).sum())
            .collect();
        band.solve_lower(&mut b);
        band.finish(&mut b, None::<&mut Xoshiro256PlusPlus>);
        assert!(
            b.iter().zip(&x).all(|(b, x)| (b - x).abs() < 1e-12),
            "{b:?}"
        );
        band.reset(1, 5);
        band.add(0, 0, 9.0);
        band.factor();
        assert!((band.half_ln_det() - 3f64.ln()).abs() < 1e-15);
    }
}
