//! The Cholesky factor and everything that is done with it.

use faer::linalg::cholesky::llt;
use faer::prelude::{Reborrow as _, ReborrowMut as _};
use faer::{Mat, MatMut, MatRef, Par};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use crate::work::Work;

/// Sizes up to this one are factored by a plain loop; above it faer's blocked routine is faster (bench `linalg/factor`).
const PLAIN_FACTOR: usize = 10;

/// Sizes up to this one are inverted by a plain loop without extra memory; above it faer's blocked routine is faster.
const PLAIN_INVERSE: usize = 48;

/// A matrix that was to be factored, or a factor that was to be downdated, is not positive definite.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "matrix is not positive definite: pivot {pivot} is {value}; \
     check for NaN and duplicated columns, or add a jitter to the diagonal"
)]
#[non_exhaustive]
pub struct NotPositiveDefinite {
    /// Index of the first row whose pivot is not a positive finite number.
    pub pivot: usize,
    /// The pivot found there: zero, negative, infinite or NaN.
    pub value: f64,
}

/// How much may be added to the diagonal of a matrix that is not positive definite to working precision.
///
/// Both amounts are relative to the mean of the diagonal. The matrix is tried as it is first, then with `first`, then with ten
/// times as much at each further try, up to and including `max`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Jitter {
    /// First amount tried, relative to the mean of the diagonal.
    pub first: f64,
    /// Largest amount tried, relative to the mean of the diagonal.
    pub max: f64,
}

impl Default for Jitter {
    /// From 1e-12 to 1e-6: rounding errors of a covariance matrix, not modelling errors.
    fn default() -> Self {
        Self {
            first: 1e-12,
            max: 1e-6,
        }
    }
}

/// Lower Cholesky factor L of a symmetric positive definite matrix, A = L Lᵀ.
///
/// The memory is kept when another matrix is factored, so that a loop over matrices does not allocate.
/// Costs below are multiply-add pairs for an n x n matrix.
///
/// ```
/// use npb_linalg::{Cholesky, faer::mat};
///
/// let a = mat![[4.0, 2.0], [2.0, 5.0]];
/// let factor = Cholesky::new(a.as_ref())?;
/// let mut b = [8.0, 12.0];
/// factor.solve(&mut b);
/// assert_eq!(b, [1.0, 2.0]);
/// assert!((factor.ln_det() - 16f64.ln()).abs() < 1e-15);
/// # Ok::<(), npb_linalg::NotPositiveDefinite>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cholesky {
    dim: usize,
    /// `dim` x `dim`, column-major, zero above the diagonal.
    lower: Vec<f64>,
    work: Work,
}

impl Cholesky {
    /// Factors `a` (n x n; only its lower triangle is read). Cost: n³/6.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`] when a pivot is not a positive finite number; NaN or an infinity in `a` ends there too.
    ///
    /// # Panics
    /// If `a` is not square.
    pub fn new(a: MatRef<'_, f64>) -> Result<Self, NotPositiveDefinite> {
        let mut factor = Self::default();
        factor.factor(a)?;
        Ok(factor)
    }

    /// Factors `a`, of any size, into the memory of `self`; otherwise like [`Cholesky::new`].
    ///
    /// # Errors
    /// As [`Cholesky::new`]; the factor is then empty (dimension 0).
    pub fn factor(&mut self, a: MatRef<'_, f64>) -> Result<(), NotPositiveDefinite> {
        assert_eq!(
            a.nrows(),
            a.ncols(),
            "a Cholesky factor needs a square matrix"
        );
        self.factor_with(a.nrows(), |lower| copy_lower(a, 0.0, lower))
    }

    /// Factors `a`, adding the least amount of `jitter` to its diagonal that makes it positive definite, and returns the amount
    /// added to each diagonal element (0 when none was needed).
    ///
    /// # Errors
    /// [`NotPositiveDefinite`] of the last try when `jitter.max` was not enough or the mean of the diagonal is not a positive
    /// finite number; the factor is then empty.
    ///
    /// ```
    /// use npb_linalg::{Cholesky, Jitter, faer::mat};
    ///
    /// let singular = mat![[1.0, 1.0], [1.0, 1.0]];
    /// let mut factor = Cholesky::default();
    /// assert!(factor.factor(singular.as_ref()).is_err());
    /// let added = factor.factor_jittered(singular.as_ref(), &Jitter::default())?;
    /// assert_eq!(added, 1e-12);
    /// # Ok::<(), npb_linalg::NotPositiveDefinite>(())
    /// ```
    pub fn factor_jittered(
        &mut self,
        a: MatRef<'_, f64>,
        jitter: &Jitter,
    ) -> Result<f64, NotPositiveDefinite> {
        let mut failure = match self.factor(a) {
            Ok(()) => return Ok(0.0),
            Err(failure) => failure,
        };
        let n = a.nrows();
        let mean_diagonal = (0..n).map(|i| a[(i, i)] / n as f64).sum::<f64>();
        if !(mean_diagonal > 0.0 && mean_diagonal.is_finite()) {
            return Err(failure);
        }
        let mut relative = jitter.first;
        // The comparison leaves room for the rounding of repeated multiplication by ten, and is false for NaN.
        while relative > 0.0 && relative <= jitter.max * (1.0 + 1e-9) {
            let amount = relative * mean_diagonal;
            match self.factor_with(n, |lower| copy_lower(a, amount, lower)) {
                Ok(()) => return Ok(amount),
                Err(next) => failure = next,
            }
            relative *= 10.0;
        }
        Err(failure)
    }

    /// Factors the n x n matrix whose lower triangle `fill` writes into a column-major slice, given to it with unspecified content.
    pub(crate) fn factor_with(
        &mut self,
        n: usize,
        fill: impl FnOnce(&mut [f64]),
    ) -> Result<(), NotPositiveDefinite> {
        self.dim = n;
        self.lower.resize(n * n, 0.0);
        fill(&mut self.lower);
        let outcome = if n <= PLAIN_FACTOR {
            factor_plain(&mut self.lower, n)
        } else {
            factor_blocked(&mut self.lower, n, &mut self.work)
        };
        if outcome.is_err() {
            self.dim = 0;
            self.lower.clear();
        }
        outcome
    }

    /// Number of rows of the factored matrix.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The lower factor L, with zeros above the diagonal.
    pub fn l(&self) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice(&self.lower, self.dim, self.dim)
    }

    /// ln det A.
    pub fn ln_det(&self) -> f64 {
        2.0 * (0..self.dim)
            .map(|j| self.lower[j * (self.dim + 1)].ln())
            .sum::<f64>()
    }

    /// b <- A⁻¹ b. Cost: n².
    ///
    /// # Panics
    /// If `b.len() != self.dim()`; so do the half-solves.
    pub fn solve(&self, b: &mut [f64]) {
        self.solve_l(b);
        self.solve_lt(b);
    }

    /// b <- L⁻¹ b. Cost: n²/2.
    pub fn solve_l(&self, b: &mut [f64]) {
        self.check_len(b);
        for (j, column) in self.columns().enumerate() {
            let bj = b[j] / column[0];
            b[j] = bj;
            add_scaled(&mut b[j + 1..], -bj, &column[1..]);
        }
    }

    /// b <- L⁻ᵀ b. Cost: n²/2.
    pub fn solve_lt(&self, b: &mut [f64]) {
        self.check_len(b);
        for (j, column) in self.columns().enumerate().rev() {
            b[j] = (b[j] - dot(&column[1..], &b[j + 1..])) / column[0];
        }
    }

    /// b <- L b. Cost: n²/2.
    pub fn mul_l(&self, b: &mut [f64]) {
        self.check_len(b);
        for (j, column) in self.columns().enumerate().rev() {
            let bj = b[j];
            b[j] = bj * column[0];
            add_scaled(&mut b[j + 1..], bj, &column[1..]);
        }
    }

    /// b <- Lᵀ b; the squared length of the result is bᵀ A b of the old b. Cost: n²/2.
    pub fn mul_lt(&self, b: &mut [f64]) {
        self.check_len(b);
        for (j, column) in self.columns().enumerate() {
            b[j] = dot(column, &b[j..]);
        }
    }

    /// out <- A⁻¹, both triangles. Cost: n³/3; allocates one n x n matrix beyond n = 48, see [`Cholesky::inverse_reusing`].
    ///
    /// # Panics
    /// If `out` is not n x n.
    pub fn inverse_into(&self, out: MatMut<'_, f64>) {
        self.inverse_with(out, &mut Work::default());
    }

    /// As [`Cholesky::inverse_into`], with memory that is kept for the next time, so that a loop does not allocate.
    pub fn inverse_reusing(&mut self, out: MatMut<'_, f64>) {
        let mut work = std::mem::take(&mut self.work);
        self.inverse_with(out, &mut work);
        self.work = work;
    }

    fn inverse_with(&self, mut out: MatMut<'_, f64>, work: &mut Work) {
        let n = self.dim;
        assert_eq!(
            (out.nrows(), out.ncols()),
            (n, n),
            "the inverse needs an n x n matrix"
        );
        if n <= PLAIN_INVERSE
            && let Some(columns) = out.rb_mut().try_as_col_major_mut()
        {
            self.inverse_plain(columns.as_dyn_stride_mut());
            return;
        }
        let stack = work.stack(llt::inverse::inverse_scratch::<f64>(n, Par::Seq));
        llt::inverse::inverse(out.rb_mut(), self.l(), Par::Seq, stack);
        mirror_lower(out);
    }

    /// A⁻¹ as a new matrix, both triangles; see [`Cholesky::inverse_into`].
    pub fn inverse(&self) -> Mat<f64> {
        let mut out = Mat::zeros(self.dim, self.dim);
        self.inverse_into(out.as_mut());
        out
    }

    /// Draws x ~ N(A⁻¹ b, A⁻¹) in place of `b`, A being the factored matrix (a precision). Cost: n² and n normal draws.
    ///
    /// Source: x = L⁻ᵀ (L⁻¹ b + z), z standard normal.
    ///
    /// # Panics
    /// If `b.len() != self.dim()`.
    pub fn sample_canonical<R: Rng + ?Sized>(&self, b: &mut [f64], rng: &mut R) {
        self.solve_l(b);
        for bi in b.iter_mut() {
            let z: f64 = StandardNormal.sample(rng);
            *bi += z;
        }
        self.solve_lt(b);
    }

    /// Draws x ~ N(m, A) in place of `m`, A being the factored matrix (a covariance). Cost: n²/2 and n normal draws.
    ///
    /// # Panics
    /// If `m.len() != self.dim()`.
    pub fn sample_moment<R: Rng + ?Sized>(&self, m: &mut [f64], rng: &mut R) {
        self.check_len(m);
        for (j, column) in self.columns().enumerate() {
            let z: f64 = StandardNormal.sample(rng);
            add_scaled(&mut m[j..], z, column);
        }
    }

    /// Columns of L from the diagonal down.
    fn columns(&self) -> impl DoubleEndedIterator<Item = &[f64]> + ExactSizeIterator {
        (0..self.dim).map(|j| &self.lower[j * (self.dim + 1)..(j + 1) * self.dim])
    }

    pub(crate) fn columns_mut(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = &mut [f64]> + ExactSizeIterator {
        let n = self.dim;
        // A chunk size of 0 is not allowed; there is nothing to split then.
        self.lower
            .chunks_exact_mut(n.max(1))
            .enumerate()
            .map(|(j, column)| &mut column[j..])
    }

    pub(crate) fn check_len(&self, b: &[f64]) {
        assert_eq!(
            b.len(),
            self.dim,
            "vector length differs from the dimension of the factor"
        );
    }

    /// Bordering from the last row up: with L = [l 0; u L₂] and S = (L₂ L₂ᵀ)⁻¹ known, v = u / l,
    /// A⁻¹ = [1/l² + vᵀ S v, -vᵀ S; -S v, S].
    fn inverse_plain(&self, mut out: MatMut<'_, f64>) {
        let n = self.dim;
        for (j, column) in self.columns().enumerate().rev() {
            let l = column[0];
            let (mut left, right) = out.rb_mut().split_at_col_mut(j + 1);
            let target = column_slice_mut(left.rb_mut(), j);
            target[j..].fill(0.0);
            for (k, u) in (j + 1..n).zip(&column[1..]) {
                let known = column_slice(right.rb(), k - j - 1);
                add_scaled(&mut target[j + 1..], -(u / l), &known[j + 1..]);
            }
            target[j] = (1.0 / l - dot(&column[1..], &target[j + 1..])) / l;
            for k in j + 1..n {
                out[(j, k)] = out[(k, j)];
            }
        }
    }
}

/// Draws x ~ N(P⁻¹ b, P⁻¹) in place of `b`.
///
/// `precision`: P, n x n, symmetric positive definite, lower triangle read. `b`: length n. `scratch` receives the factor of P
/// and is reused without allocation. Cost: n³/6 + n². To draw several times from one matrix, factor once and use
/// [`Cholesky::sample_canonical`].
///
/// # Errors
/// [`NotPositiveDefinite`]; `b` is then unchanged.
///
/// # Panics
/// If `b` has another length than P has rows.
pub fn sample_canonical<R: Rng + ?Sized>(
    precision: MatRef<'_, f64>,
    b: &mut [f64],
    scratch: &mut Cholesky,
    rng: &mut R,
) -> Result<(), NotPositiveDefinite> {
    scratch.factor(precision)?;
    scratch.sample_canonical(b, rng);
    Ok(())
}

/// Draws x ~ N(m, S) in place of `m`; otherwise like [`sample_canonical`].
///
/// # Errors
/// [`NotPositiveDefinite`]; `m` is then unchanged.
pub fn sample_moment<R: Rng + ?Sized>(
    covariance: MatRef<'_, f64>,
    m: &mut [f64],
    scratch: &mut Cholesky,
    rng: &mut R,
) -> Result<(), NotPositiveDefinite> {
    scratch.factor(covariance)?;
    scratch.sample_moment(m, rng);
    Ok(())
}

/// Copies the lower triangle of `a`, plus `amount` on the diagonal, into a column-major slice.
fn copy_lower(a: MatRef<'_, f64>, amount: f64, lower: &mut [f64]) {
    let n = a.nrows();
    for j in 0..n {
        let target = &mut lower[j * n + j..(j + 1) * n];
        match a.col(j).try_as_col_major() {
            Some(source) => target.copy_from_slice(&source.as_slice()[j..]),
            None => (j..n).zip(&mut *target).for_each(|(i, t)| *t = a[(i, j)]),
        }
        target[0] += amount;
    }
}

/// Left-looking Cholesky on a column-major slice.
fn factor_plain(a: &mut [f64], n: usize) -> Result<(), NotPositiveDefinite> {
    for j in 0..n {
        let (done, rest) = a.split_at_mut(j * n);
        let column = &mut rest[..n];
        for earlier in done.chunks_exact(n) {
            add_scaled(&mut column[j..], -earlier[j], &earlier[j..]);
        }
        let pivot = column[j];
        if !(pivot > 0.0 && pivot.is_finite()) {
            return Err(NotPositiveDefinite {
                pivot: j,
                value: pivot,
            });
        }
        let l = pivot.sqrt();
        column[..j].fill(0.0);
        column[j] = l;
        column[j + 1..].iter_mut().for_each(|x| *x /= l);
    }
    Ok(())
}

fn factor_blocked(a: &mut [f64], n: usize, work: &mut Work) -> Result<(), NotPositiveDefinite> {
    let need = llt::factor::cholesky_in_place_scratch::<f64>(n, Par::Seq, Default::default());
    let stack = work.stack(need);
    let mut view = MatMut::from_column_major_slice_mut(a, n, n);
    let outcome = llt::factor::cholesky_in_place(
        view.rb_mut(),
        Default::default(),
        Par::Seq,
        stack,
        Default::default(),
    );
    if let Err(llt::factor::LltError::NonPositivePivot { index }) = outcome {
        return Err(NotPositiveDefinite {
            pivot: index,
            value: view[(index, index)],
        });
    }
    for j in 1..n {
        a[j * n..j * n + j].fill(0.0);
    }
    Ok(())
}

fn mirror_lower(mut a: MatMut<'_, f64>) {
    for j in 0..a.ncols() {
        for i in j + 1..a.nrows() {
            a[(j, i)] = a[(i, j)];
        }
    }
}

fn column_slice<'a>(a: MatRef<'a, f64>, j: usize) -> &'a [f64] {
    a.col(j)
        .try_as_col_major()
        .expect("columns are contiguous")
        .as_slice()
}

fn column_slice_mut<'a>(a: MatMut<'a, f64>, j: usize) -> &'a mut [f64] {
    a.col_mut(j)
        .try_as_col_major_mut()
        .expect("columns are contiguous")
        .as_slice_mut()
}

/// y <- y + a x.
#[inline]
pub(crate) fn add_scaled(y: &mut [f64], a: f64, x: &[f64]) {
    debug_assert_eq!(y.len(), x.len());
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

/// xᵀ y for slices of one length, summed in four interleaved parts so that it vectorises; the order depends on the length only.
///
/// ```
/// assert_eq!(npb_linalg::dot(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 32.0);
/// ```
#[inline]
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    debug_assert_eq!(x.len(), y.len());
    let mut parts = [0.0; 4];
    let (x4, x_rest) = x.as_chunks::<4>();
    let (y4, y_rest) = y.as_chunks::<4>();
    for (x, y) in x4.iter().zip(y4) {
        for k in 0..4 {
            parts[k] += x[k] * y[k];
        }
    }
    let rest: f64 = x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum();
    (parts[0] + parts[1]) + (parts[2] + parts[3]) + rest
}

/// xᵀ y of single-precision slices of one length, products and sum in double precision; the order depends on the length only.
///
/// ```
/// assert_eq!(npb_linalg::dot_f32(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 32.0);
/// ```
#[inline]
pub fn dot_f32(x: &[f32], y: &[f32]) -> f64 {
    debug_assert_eq!(x.len(), y.len());
    let mut parts = [0.0; 4];
    let (x4, x_rest) = x.as_chunks::<4>();
    let (y4, y_rest) = y.as_chunks::<4>();
    for (x, y) in x4.iter().zip(y4) {
        for k in 0..4 {
            parts[k] += f64::from(x[k]) * f64::from(y[k]);
        }
    }
    for (&x, &y) in x_rest.iter().zip(y_rest) {
        parts[0] += f64::from(x) * f64::from(y);
    }
    parts.iter().sum()
}
