//! Singular value decompositions: the leading triplets of a large sparse matrix that is never made dense, and all of a dense one.
//!
//! [`thin_svd`] is for dense matrices. In [`truncated_svd`] the matrix may be a 0/1 pattern (which entries of a table are missing, who rated what) or real. The method is a block Krylov
//! iteration with full reorthogonalisation and restarts from the best Ritz vectors: the bases U and V are orthonormal, A V = U B
//! with B small and each step adds to V the residuals Aᵀu - σv of the leading singular triplets (u, σ, v) of B. Blocks find
//! repeated singular values, which a single vector would miss. Source: Golub and Van Loan, Matrix Computations, 4th edition,
//! sections 10.3 and 10.4 (block Lanczos, bidiagonalisation); Stathopoulos and Wu, SIAM J. Sci. Comput. 23 (2002) (restarts).

use faer::{Mat, MatRef, Side};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use crate::cholesky::{add_scaled, dot};

/// Vectors iterated beyond the wanted ones: they speed up the last of those.
const OVERSAMPLING: usize = 8;

/// The bases grow to this many blocks before they are cut back to one.
const BLOCKS: usize = 4;

/// With a side up to this one, the dense product of the matrix with itself is cheap enough to start from (bench `svd`).
const DENSE_SIDE: usize = 512;

/// A vector that keeps less than this part of its length when projected is in the span already.
const DEPENDENT: f64 = 1e-10;

/// Why arrays are not a sparse matrix.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SparseError {
    /// `offsets` must start at 0, never fall, and end at the number of stored entries.
    #[error(
        "offsets[{index}] = {value}: offsets must start at 0, never fall and end at the number of entries ({entries})"
    )]
    Offsets {
        /// Position in `offsets`; 0 also stands for an empty array.
        index: usize,
        /// Value found there.
        value: usize,
        /// Number of stored entries.
        entries: usize,
    },
    /// A column index is too large.
    #[error("row {row}, entry {entry}: column {column} does not exist, there are {n_cols} columns")]
    Column {
        /// Row of the entry.
        row: usize,
        /// Position in `columns`.
        entry: usize,
        /// Column index found there.
        column: u32,
        /// Number of columns.
        n_cols: usize,
    },
    /// There must be one value per entry.
    #[error("{values} values for {entries} entries")]
    Length {
        /// Number of values.
        values: usize,
        /// Number of column indices.
        entries: usize,
    },
    /// A value is NaN or infinite.
    #[error("row {row}, entry {entry}: value {value} must be finite")]
    Value {
        /// Row of the entry.
        row: usize,
        /// Position in `values`.
        entry: usize,
        /// Value found there.
        value: f64,
    },
}

/// Offsets begin at 0, do not fall and end at the number of entries, each of which has a value if any has.
fn check_shape(
    offsets: &[usize],
    entries: usize,
    values: Option<&[f64]>,
) -> Result<(), SparseError> {
    let wrong = |index: usize| {
        Err(SparseError::Offsets {
            index,
            value: offsets.get(index).copied().unwrap_or(0),
            entries,
        })
    };
    if offsets.first() != Some(&0) {
        return wrong(0);
    }
    if let Some(index) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        return wrong(index + 1);
    }
    if offsets.last() != Some(&entries) {
        return wrong(offsets.len() - 1);
    }
    match values.map(<[f64]>::len) {
        Some(values) if values != entries => Err(SparseError::Length { values, entries }),
        _ => Ok(()),
    }
}

/// A sparse matrix by rows, borrowed: the entries of row i are those from `offsets[i]` to `offsets[i + 1]`.
///
/// Entries may stand in any order within a row; entries at the same place add up.
#[derive(Clone, Copy, Debug)]
pub struct SparseRows<'a> {
    n_cols: usize,
    offsets: &'a [usize],
    columns: &'a [u32],
    values: Option<&'a [f64]>,
    /// A power of two that brings the largest value near 1, so that squares neither overflow nor vanish.
    scale: f64,
}

impl<'a> SparseRows<'a> {
    /// A matrix of `offsets.len() - 1` rows and `n_cols` columns; without `values` every stored entry is 1.
    ///
    /// # Errors
    /// [`SparseError`] when the arrays do not fit together.
    pub fn new(
        n_cols: usize,
        offsets: &'a [usize],
        columns: &'a [u32],
        values: Option<&'a [f64]>,
    ) -> Result<Self, SparseError> {
        check_shape(offsets, columns.len(), values)?;
        let mut matrix = Self {
            n_cols,
            offsets,
            columns,
            values,
            scale: 1.0,
        };
        let largest = matrix.largest()?;
        if largest > 0.0 {
            matrix.scale = 2f64.powi(-(largest.log2().round().clamp(-1000.0, 1000.0) as i32));
        }
        Ok(matrix)
    }

    /// The largest absolute value, where every entry stands in a column of the matrix and is finite.
    fn largest(&self) -> Result<f64, SparseError> {
        let mut largest = 0.0f64;
        for row in 0..self.n_rows() {
            for entry in self.offsets[row]..self.offsets[row + 1] {
                let (column, value) = (self.columns[entry], self.value(entry));
                if column as usize >= self.n_cols {
                    return Err(SparseError::Column {
                        row,
                        entry,
                        column,
                        n_cols: self.n_cols,
                    });
                }
                if !value.is_finite() {
                    return Err(SparseError::Value { row, entry, value });
                }
                largest = largest.max(value.abs());
            }
        }
        Ok(largest)
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of columns.
    pub fn n_cols(&self) -> usize {
        self.n_cols
    }

    /// Entry times `scale`.
    #[inline]
    fn value(&self, entry: usize) -> f64 {
        self.scale * self.values.map_or(1.0, |values| values[entry])
    }

    /// Calls `f(row, column, scaled value)` for each stored entry, row by row.
    #[inline]
    fn for_each(&self, mut f: impl FnMut(usize, usize, f64)) {
        for row in 0..self.n_rows() {
            for entry in self.offsets[row]..self.offsets[row + 1] {
                f(row, self.columns[entry] as usize, self.value(entry));
            }
        }
    }

    /// A x, scaled, for a block of vectors, n_cols x width.
    fn apply(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        // Vectors side by side: one index is read for the whole block.
        let rows = x.transpose().to_owned();
        let mut out = Mat::zeros(x.ncols(), self.n_rows());
        self.for_each(|i, j, value| {
            add_scaled(out.col_as_slice_mut(i), value, rows.col_as_slice(j))
        });
        out.transpose().to_owned()
    }

    /// Aᵀ x, scaled, for a block of vectors, n_rows x width.
    fn apply_transposed(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        let rows = x.transpose().to_owned();
        let mut out = Mat::zeros(x.ncols(), self.n_cols());
        self.for_each(|i, j, value| {
            add_scaled(out.col_as_slice_mut(j), value, rows.col_as_slice(i))
        });
        out.transpose().to_owned()
    }
}

/// When the iteration stops.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SvdLimits {
    /// A triplet has converged when |Aᵀu - σv| <= `tolerance` σ; the error of σ is then below `tolerance` σ, and usually far below.
    pub tolerance: f64,
    /// Largest number of steps; one step multiplies a block of `rank` + 8 vectors by A and by Aᵀ.
    pub max_steps: usize,
}

impl Default for SvdLimits {
    /// Tolerance 1e-10, at most 1000 steps.
    fn default() -> Self {
        Self {
            tolerance: 1e-10,
            max_steps: 1000,
        }
    }
}

/// Leading singular triplets, A ~ U diag(σ) Vᵀ.
///
/// The sign of each pair of vectors is fixed: the element of v that is largest in absolute value (the first of several) is positive.
#[derive(Clone, Debug)]
pub struct TruncatedSvd {
    /// Left singular vectors, n_rows x k.
    pub u: Mat<f64>,
    /// Singular values, falling; k of them.
    pub singular_values: Vec<f64>,
    /// Right singular vectors, n_cols x k.
    pub v: Mat<f64>,
    /// Whether all of the k triplets have converged.
    pub converged: bool,
    /// Number of steps taken.
    pub steps: usize,
}

/// The `rank` largest singular values of `matrix` with their vectors.
///
/// Fewer are returned when the matrix has a lower numerical rank (singular values above the largest one times max(n_rows, n_cols)
/// times 2.2e-16 count). `rng` draws the starting block; the same generator state gives the same bits. A matrix with a side of at
/// most 512 needs no draws: it starts from the eigenvectors of its dense product with itself on that side (n² numbers, about
/// 10 n³), and so a flat spectrum costs no steps. Running out of steps is not an error: see [`TruncatedSvd::converged`].
///
/// Cost per step, with b = `rank` + 8: 2 b multiply-add pairs per stored entry and O(b²) per row and column.
/// Memory: 4 b numbers per row and column.
///
/// ```
/// use npb_linalg::svd::{SparseRows, SvdLimits, truncated_svd};
/// use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng};
///
/// // [1 1 0]
/// // [1 1 0]
/// // [0 0 1]
/// let matrix = SparseRows::new(3, &[0, 2, 4, 5], &[0, 1, 0, 1, 2], None)?;
/// let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
/// let svd = truncated_svd(&matrix, 1, &SvdLimits::default(), &mut rng);
/// assert!((svd.singular_values[0] - 2.0).abs() < 1e-12);
/// assert!((svd.v[(0, 0)] - 0.5f64.sqrt()).abs() < 1e-12);
/// # Ok::<(), npb_linalg::svd::SparseError>(())
/// ```
pub fn truncated_svd<R: Rng + ?Sized>(
    matrix: &SparseRows<'_>,
    rank: usize,
    limits: &SvdLimits,
    rng: &mut R,
) -> TruncatedSvd {
    let smaller = matrix.n_rows().min(matrix.n_cols());
    let rank = rank.min(smaller);
    let block = if rank == 0 {
        0
    } else {
        (rank + OVERSAMPLING).min(smaller)
    };
    let mut krylov = Krylov::new(matrix, block);
    krylov.extend(if block > 0 && smaller <= DENSE_SIDE {
        leading_directions(matrix, block)
    } else {
        // Aᵀ times random vectors: random directions within the row space of A.
        let normals = Mat::from_fn(matrix.n_rows(), block, |_, _| StandardNormal.sample(rng));
        matrix.apply_transposed(normals.as_ref())
    });
    let mut steps = 1;
    loop {
        let ritz = Ritz::of(&krylov);
        let open = ritz.residuals(matrix, limits.tolerance);
        let converged = open.triplets.iter().all(|&k| k >= rank);
        if converged || steps >= limits.max_steps {
            return ritz.finish(matrix, rank, converged, steps);
        }
        if krylov.v.ncols() + open.residuals.ncols() > BLOCKS * block {
            krylov.restart(&ritz);
        }
        steps += 1;
        if !krylov.extend(open.residuals) {
            // Nothing new: the bases span the whole row and column space.
            return Ritz::of(&krylov).finish(matrix, rank, true, steps);
        }
    }
}

/// All singular triplets of a dense matrix, A = U diag(σ) Vᵀ, the smaller side of them.
#[derive(Clone, Debug)]
pub struct ThinSvd {
    /// Left singular vectors, n_rows x min(n_rows, n_cols).
    pub u: Mat<f64>,
    /// Singular values, falling; those of a matrix without full rank end in zeros, to rounding.
    pub singular_values: Vec<f64>,
    /// Right singular vectors, n_cols x min(n_rows, n_cols).
    pub v: Mat<f64>,
}

/// A singular value decomposition that did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {n_rows} x {n_cols} matrix has no singular value decomposition: a value is not finite, or too large to be squared"
)]
pub struct NoSvd {
    /// Number of rows.
    pub n_rows: usize,
    /// Number of columns.
    pub n_cols: usize,
}

/// All singular values of a dense matrix with their vectors; signs as in [`TruncatedSvd`]. Sizes 0 are allowed.
///
/// Cost about 6 n m² for an n x m matrix, m <= n; sequential, so that bits do not depend on the number of threads.
///
/// # Errors
/// [`NoSvd`] when a value is not finite.
///
/// ```
/// use npb_linalg::{faer::mat, svd::thin_svd};
///
/// let svd = thin_svd(mat![[3.0, 0.0], [0.0, -2.0], [0.0, 0.0]].as_ref())?;
/// assert!((svd.singular_values[1] - 2.0).abs() < 1e-14);
/// assert!((svd.u[(1, 1)] + 1.0).abs() < 1e-14 && (svd.v[(1, 1)] - 1.0).abs() < 1e-14);
/// # Ok::<(), npb_linalg::svd::NoSvd>(())
/// ```
pub fn thin_svd(matrix: MatRef<'_, f64>) -> Result<ThinSvd, NoSvd> {
    let (n_rows, n_cols) = matrix.shape();
    let none = NoSvd { n_rows, n_cols };
    if !matrix.is_all_finite() {
        return Err(none);
    }
    let svd = matrix.thin_svd().map_err(|_| none)?;
    let singular_values: Vec<f64> = svd.S().column_vector().iter().copied().collect();
    if singular_values.iter().any(|value| !value.is_finite()) {
        return Err(none);
    }
    let (mut u, mut v) = (svd.U().to_owned(), svd.V().to_owned());
    for k in 0..singular_values.len() {
        if sign_of_largest(v.col_as_slice(k)) < 0.0 {
            let both = [u.col_as_slice_mut(k), v.col_as_slice_mut(k)];
            both.into_iter().flatten().for_each(|x| *x = -*x);
        }
    }
    Ok(ThinSvd {
        u,
        singular_values,
        v,
    })
}

/// The leading right singular vectors, up to length, from the dense product of A with itself on its smaller side. Squaring costs
/// the small ones half their digits; the iteration, which starts here, gives them back.
fn leading_directions(matrix: &SparseRows<'_>, count: usize) -> Mat<f64> {
    let (n_rows, n_cols) = (matrix.n_rows(), matrix.n_cols());
    let by_rows = n_rows < n_cols;
    let identity = Mat::<f64>::identity(n_rows.min(n_cols), n_rows.min(n_cols));
    let gram = if by_rows {
        matrix.apply(matrix.apply_transposed(identity.as_ref()).as_ref())
    } else {
        matrix.apply_transposed(matrix.apply(identity.as_ref()).as_ref())
    };
    let eigen = gram
        .self_adjoint_eigen(Side::Lower)
        .expect("the eigenvalues of a finite matrix converge");
    // Eigenvalues rise.
    let leading = eigen.U().subcols(gram.ncols() - count, count);
    if by_rows {
        matrix.apply_transposed(leading)
    } else {
        leading.to_owned()
    }
}

/// Orthonormal U and V with A V = U B.
struct Krylov<'a> {
    matrix: &'a SparseRows<'a>,
    /// Number of triplets that are iterated.
    block: usize,
    u: Mat<f64>,
    v: Mat<f64>,
    b: Mat<f64>,
}

impl<'a> Krylov<'a> {
    fn new(matrix: &'a SparseRows<'a>, block: usize) -> Self {
        let (u, v) = (
            Mat::zeros(matrix.n_rows(), 0),
            Mat::zeros(matrix.n_cols(), 0),
        );
        Self {
            matrix,
            block,
            u,
            v,
            b: Mat::new(),
        }
    }

    /// Adds `directions` to V and their images to U and B; false if all of them were in the span already.
    fn extend(&mut self, directions: Mat<f64>) -> bool {
        let fresh = orthonormal_part(self.v.as_ref(), directions, DEPENDENT);
        let images = self.matrix.apply(fresh.as_ref());
        // Whatever is left of an image belongs to A V: only pure rounding noise may be dropped.
        let fresh_images = orthonormal_part(self.u.as_ref(), images.clone(), f64::EPSILON);
        let (old_rows, old_cols) = self.b.shape();
        self.v = beside(self.v.as_ref(), fresh.as_ref());
        self.u = beside(self.u.as_ref(), fresh_images.as_ref());
        let coefficients = self.u.transpose() * &images;
        self.b = Mat::from_fn(self.u.ncols(), self.v.ncols(), |i, j| {
            match (i < old_rows, j < old_cols) {
                (true, true) => self.b[(i, j)],
                (false, true) => 0.0,
                (_, false) => coefficients[(i, j - old_cols)],
            }
        });
        fresh.ncols() > 0
    }

    /// Cuts the bases back to the leading Ritz vectors.
    fn restart(&mut self, ritz: &Ritz) {
        let n = ritz.values.len();
        self.u = ritz.u.clone();
        self.v = ritz.v.clone();
        self.b = Mat::from_fn(n, n, |i, j| if i == j { ritz.values[i] } else { 0.0 });
    }
}

/// The leading approximate singular triplets within the bases: A v = σ u holds, Aᵀu = σ v only in the end.
struct Ritz {
    u: Mat<f64>,
    values: Vec<f64>,
    v: Mat<f64>,
}

/// Triplets that have not converged, and Aᵀu - σv of each.
struct Open {
    triplets: Vec<usize>,
    residuals: Mat<f64>,
}

impl Ritz {
    fn of(krylov: &Krylov<'_>) -> Self {
        let count = krylov.block.min(krylov.b.nrows()).min(krylov.b.ncols());
        if count == 0 {
            let (n_rows, n_cols) = (krylov.u.nrows(), krylov.v.nrows());
            return Self {
                u: Mat::zeros(n_rows, 0),
                values: Vec::new(),
                v: Mat::zeros(n_cols, 0),
            };
        }
        let svd = krylov
            .b
            .svd()
            .expect("the singular values of a finite matrix converge");
        Self {
            u: &krylov.u * svd.U().subcols(0, count),
            values: svd
                .S()
                .column_vector()
                .iter()
                .take(count)
                .copied()
                .collect(),
            v: &krylov.v * svd.V().subcols(0, count),
        }
    }

    fn residuals(&self, matrix: &SparseRows<'_>, tolerance: f64) -> Open {
        let mut residuals = matrix.apply_transposed(self.u.as_ref());
        let negligible = self.negligible(matrix);
        let mut triplets = Vec::new();
        for (k, value) in self.values.iter().enumerate() {
            add_scaled(
                residuals.col_as_slice_mut(k),
                -value,
                self.v.col_as_slice(k),
            );
            // NaN is not small.
            let small = length(residuals.col_as_slice(k)) <= (tolerance * value).max(negligible);
            if !small {
                triplets.push(k);
            }
        }
        let residuals = Mat::from_fn(matrix.n_cols(), triplets.len(), |i, k| {
            residuals[(i, triplets[k])]
        });
        Open {
            triplets,
            residuals,
        }
    }

    /// Singular values up to this one are rounding errors.
    fn negligible(&self, matrix: &SparseRows<'_>) -> f64 {
        let longer = matrix.n_rows().max(matrix.n_cols()) as f64;
        self.values
            .first()
            .map_or(0.0, |largest| largest * longer * f64::EPSILON)
    }

    fn finish(
        &self,
        matrix: &SparseRows<'_>,
        rank: usize,
        converged: bool,
        steps: usize,
    ) -> TruncatedSvd {
        let negligible = self.negligible(matrix);
        let count = self
            .values
            .iter()
            .take(rank)
            .filter(|&&s| s > negligible)
            .count();
        let signs: Vec<f64> = (0..count)
            .map(|k| sign_of_largest(self.v.col_as_slice(k)))
            .collect();
        let signed = |vectors: &Mat<f64>| {
            Mat::from_fn(vectors.nrows(), count, |i, k| signs[k] * vectors[(i, k)])
        };
        TruncatedSvd {
            u: signed(&self.u),
            v: signed(&self.v),
            singular_values: self.values[..count]
                .iter()
                .map(|value| value / matrix.scale)
                .collect(),
            converged,
            steps,
        }
    }
}

/// Orthonormal vectors that span what the columns of `x` add to the span of the orthonormal `basis`. A column that keeps no more
/// than `dependent` of its length adds nothing.
fn orthonormal_part(basis: MatRef<'_, f64>, mut x: Mat<f64>, dependent: f64) -> Mat<f64> {
    let lengths: Vec<f64> = (0..x.ncols()).map(|k| length(x.col_as_slice(k))).collect();
    project_out(basis, &mut x);
    project_out(basis, &mut x);
    let mut kept = orthonormalise(x, |k, left| left > dependent * lengths[k]);
    // A short remainder, blown up to length 1, has lost some of its orthogonality.
    project_out(basis, &mut kept);
    orthonormalise(kept, |_, left| left > 0.5)
}

/// x <- x - basis basisᵀ x.
fn project_out(basis: MatRef<'_, f64>, x: &mut Mat<f64>) {
    let coefficients = basis.transpose() * &*x;
    *x -= basis * coefficients;
}

/// Gram-Schmidt, twice for each column, of the columns that `keep` (given their index and what is left of their length).
fn orthonormalise(x: Mat<f64>, keep: impl Fn(usize, f64) -> bool) -> Mat<f64> {
    let mut out = Mat::zeros(x.nrows(), x.ncols());
    let mut count = 0;
    let mut column = vec![0.0; x.nrows()];
    for k in 0..x.ncols() {
        column.copy_from_slice(x.col_as_slice(k));
        for _ in 0..2 {
            for earlier in 0..count {
                let earlier = out.col_as_slice(earlier);
                let part = dot(earlier, &column);
                add_scaled(&mut column, -part, earlier);
            }
        }
        let left = length(&column);
        if keep(k, left) {
            out.col_as_slice_mut(count)
                .iter_mut()
                .zip(&column)
                .for_each(|(q, x)| *q = x / left);
            count += 1;
        }
    }
    out.truncate(x.nrows(), count);
    out
}

/// [a b]
fn beside(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), a.ncols() + b.ncols());
    out.subcols_mut(0, a.ncols()).copy_from(a);
    out.subcols_mut(a.ncols(), b.ncols()).copy_from(b);
    out
}

fn length(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

/// Sign of the element that is largest in absolute value.
fn sign_of_largest(x: &[f64]) -> f64 {
    let largest = x.iter().fold(
        0.0f64,
        |best, x| if x.abs() > best.abs() { *x } else { best },
    );
    if largest < 0.0 { -1.0 } else { 1.0 }
}
