//! Leading singular values and vectors of a large sparse matrix that is never made dense.
//!
//! The matrix may be a 0/1 pattern (which entries of a table are missing, who rated what) or real. The method is a block Krylov
//! iteration with full reorthogonalisation and restarts from the best Ritz vectors: the bases U and V are orthonormal, A V = U B
//! with B small, and each step adds to V the residuals Aᵀu - σv of the leading singular triplets (u, σ, v) of B. Blocks find
//! repeated singular values, which a single vector would miss. Source: Golub and Van Loan, Matrix Computations, 4th edition,
//! sections 10.3 and 10.4 (block Lanczos, bidiagonalisation); Stathopoulos and Wu, SIAM J. Sci. Comput. 23 (2002) (restarts).

use faer::{Mat, MatRef};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use crate::cholesky::{add_scaled, dot};

/// Vectors iterated beyond the wanted ones: they speed up the last of those.
const OVERSAMPLING: usize = 8;

/// The bases grow to this many blocks before they are cut back to one.
const BLOCKS: usize = 4;

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

/// A sparse matrix by rows, borrowed: the entries of row i are those from `offsets[i]` to `offsets[i + 1]`.
///
/// Entries may stand in any order within a row; entries at the same place add up.
#[derive(Clone, Copy, Debug)]
pub struct SparseRows<'a> {
    n_cols: usize,
    offsets: &'a [usize],
    columns: &'a [u32],
    values: Option<&'a [f64]>,
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
        let entries = columns.len();
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
        if let Some(values) = values
            && values.len() != entries
        {
            return Err(SparseError::Length {
                values: values.len(),
                entries,
            });
        }
        let matrix = Self {
            n_cols,
            offsets,
            columns,
            values,
        };
        for row in 0..matrix.n_rows() {
            for entry in offsets[row]..offsets[row + 1] {
                let (column, value) = (columns[entry], matrix.value(entry));
                if column as usize >= n_cols {
                    return Err(SparseError::Column {
                        row,
                        entry,
                        column,
                        n_cols,
                    });
                }
                if !value.is_finite() {
                    return Err(SparseError::Value { row, entry, value });
                }
            }
        }
        Ok(matrix)
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of columns.
    pub fn n_cols(&self) -> usize {
        self.n_cols
    }

    #[inline]
    fn value(&self, entry: usize) -> f64 {
        self.values.map_or(1.0, |values| values[entry])
    }

    /// Calls `f(row, column, value)` for each stored entry, row by row.
    #[inline]
    fn for_each(&self, mut f: impl FnMut(usize, usize, f64)) {
        for row in 0..self.n_rows() {
            for entry in self.offsets[row]..self.offsets[row + 1] {
                f(row, self.columns[entry] as usize, self.value(entry));
            }
        }
    }

    /// out <- A x, each a block of `width` vectors stored row by row.
    fn apply(&self, x: &[f64], width: usize, out: &mut [f64]) {
        out.fill(0.0);
        self.for_each(|i, j, value| {
            add_scaled(
                &mut out[i * width..][..width],
                value,
                &x[j * width..][..width],
            )
        });
    }

    /// out <- Aᵀ x, each a block of `width` vectors stored row by row.
    fn apply_transposed(&self, x: &[f64], width: usize, out: &mut [f64]) {
        out.fill(0.0);
        self.for_each(|i, j, value| {
            add_scaled(
                &mut out[j * width..][..width],
                value,
                &x[i * width..][..width],
            )
        });
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
/// times 2.2e-16 count). `rng` draws the starting block; the same generator state gives the same bits. Running out of steps is
/// not an error: see [`TruncatedSvd::converged`].
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
    let mut krylov = Krylov::new(matrix, rank, smaller);
    let start = krylov.random_block(rng);
    krylov.extend(start);
    let mut steps = 1;
    loop {
        let ritz = Ritz::of(&krylov);
        let (residuals, converged) = krylov.residuals(&ritz, rank, limits.tolerance);
        if converged || steps >= limits.max_steps {
            return krylov.finish(&ritz, rank, converged, steps);
        }
        if krylov.right.len + residuals.count() > krylov.right.capacity {
            krylov.restart(&ritz);
        }
        steps += 1;
        // Nothing new: the bases span the whole row and column space.
        if !krylov.extend(residuals) {
            let ritz = Ritz::of(&krylov);
            return krylov.finish(&ritz, rank, true, steps);
        }
    }
}

/// Vectors of one length, stored row by row: element i of vector k is at `i * width + k`.
struct Block {
    width: usize,
    values: Vec<f64>,
}

impl Block {
    fn zeros(length: usize, width: usize) -> Self {
        Self {
            width,
            values: vec![0.0; length * width],
        }
    }

    fn count(&self) -> usize {
        self.width
    }

    fn copy_vector(&self, k: usize, out: &mut [f64]) {
        for (i, x) in out.iter_mut().enumerate() {
            *x = self.values[i * self.width + k];
        }
    }
}

/// Orthonormal vectors of one length, stored row by row with room for `capacity` of them.
struct Basis {
    length: usize,
    capacity: usize,
    len: usize,
    values: Vec<f64>,
}

impl Basis {
    fn new(length: usize, capacity: usize) -> Self {
        Self {
            length,
            capacity,
            len: 0,
            values: vec![0.0; length * capacity],
        }
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.capacity..][..self.len]
    }

    /// Removes from `x` its part in the span and adds the coefficients of this part to `coefficients`. Two passes of classical
    /// Gram-Schmidt: orthogonal to working precision. Returns the length of what is left.
    fn project_out(&self, x: &mut [f64], coefficients: &mut [f64]) -> f64 {
        let mut pass = vec![0.0; self.len];
        for _ in 0..2 {
            pass.fill(0.0);
            for (i, x) in x.iter().enumerate() {
                add_scaled(&mut pass, *x, self.row(i));
            }
            for (i, x) in x.iter_mut().enumerate() {
                *x -= dot(self.row(i), &pass);
            }
            add_scaled(&mut coefficients[..self.len], 1.0, &pass);
        }
        dot(x, x).sqrt()
    }

    /// Appends x / `norm`, or a zero vector when `norm` is 0.
    fn push(&mut self, x: &[f64], norm: f64) {
        let scale = if norm > 0.0 { 1.0 / norm } else { 0.0 };
        for (i, x) in x.iter().enumerate() {
            self.values[i * self.capacity + self.len] = scale * x;
        }
        self.len += 1;
    }

    /// The first `count` columns of (this basis) x `rotation`.
    fn rotated(&self, rotation: MatRef<'_, f64>, count: usize) -> Block {
        let by_row = Block {
            width: count,
            values: (0..self.len)
                .flat_map(|k| (0..count).map(move |c| rotation[(k, c)]))
                .collect(),
        };
        let mut out = Block::zeros(self.length, count);
        if count == 0 {
            return out;
        }
        for (i, target) in out.values.chunks_exact_mut(count).enumerate() {
            for (x, row) in self.row(i).iter().zip(by_row.values.chunks_exact(count)) {
                add_scaled(target, *x, row);
            }
        }
        out
    }

    fn replace(&mut self, block: &Block) {
        self.len = block.width;
        for i in 0..self.length {
            self.values[i * self.capacity..][..block.width]
                .copy_from_slice(&block.values[i * block.width..][..block.width]);
        }
    }
}

/// A V = U B with orthonormal U and V, B upper triangular (or diagonal and upper triangular after a restart).
struct Krylov<'a> {
    matrix: &'a SparseRows<'a>,
    block: usize,
    left: Basis,
    right: Basis,
    /// B, capacity x capacity.
    b: Mat<f64>,
}

impl<'a> Krylov<'a> {
    fn new(matrix: &'a SparseRows<'a>, rank: usize, smaller: usize) -> Self {
        let block = if rank == 0 {
            0
        } else {
            (rank + OVERSAMPLING).min(smaller)
        };
        let capacity = BLOCKS * block;
        Self {
            matrix,
            block,
            left: Basis::new(matrix.n_rows(), capacity),
            right: Basis::new(matrix.n_cols(), capacity),
            b: Mat::zeros(capacity, capacity),
        }
    }

    /// Aᵀ times a block of standard normal vectors: random directions within the row space of A.
    fn random_block<R: Rng + ?Sized>(&self, rng: &mut R) -> Block {
        let mut normals = Block::zeros(self.matrix.n_rows(), self.block);
        normals
            .values
            .iter_mut()
            .for_each(|x| *x = StandardNormal.sample(rng));
        let mut out = Block::zeros(self.matrix.n_cols(), self.block);
        self.matrix
            .apply_transposed(&normals.values, self.block, &mut out.values);
        out
    }

    /// Adds the directions of `block` to V and their images to U and B; false if all of them were in the span already.
    fn extend(&mut self, block: Block) -> bool {
        let first = self.right.len;
        let mut x = vec![0.0; self.matrix.n_cols()];
        let mut unused = vec![0.0; self.right.capacity];
        for k in 0..block.width {
            block.copy_vector(k, &mut x);
            let before = dot(&x, &x).sqrt();
            let after = self.right.project_out(&mut x, &mut unused);
            if after > DEPENDENT * before {
                self.right.push(&x, after);
            }
        }
        let added = self.right.len - first;
        self.add_images(first, added);
        added > 0
    }

    fn add_images(&mut self, first: usize, added: usize) {
        let mut fresh = Block::zeros(self.matrix.n_cols(), added);
        for i in 0..self.matrix.n_cols() {
            fresh.values[i * added..][..added].copy_from_slice(&self.right.row(i)[first..]);
        }
        let mut images = Block::zeros(self.matrix.n_rows(), added);
        self.matrix.apply(&fresh.values, added, &mut images.values);
        let mut y = vec![0.0; self.matrix.n_rows()];
        let mut coefficients = vec![0.0; self.left.capacity];
        for k in 0..added {
            images.copy_vector(k, &mut y);
            coefficients.fill(0.0);
            let before = dot(&y, &y).sqrt();
            let after = self.left.project_out(&mut y, &mut coefficients);
            // What rounding leaves of a dependent image is noise, not a direction.
            let norm = if after > f64::EPSILON * before {
                after
            } else {
                0.0
            };
            coefficients[self.left.len] = norm;
            for (i, c) in coefficients.iter().enumerate() {
                self.b[(i, first + k)] = *c;
            }
            self.left.push(&y, norm);
        }
    }

    /// Aᵀu - σv for the leading Ritz triplets that have not converged, and whether the first `rank` of them have.
    fn residuals(&self, ritz: &Ritz, rank: usize, tolerance: f64) -> (Block, bool) {
        let count = self.block.min(self.right.len);
        let left = self.left.rotated(ritz.left.as_ref(), count);
        let right = self.right.rotated(ritz.right.as_ref(), count);
        let mut residuals = Block::zeros(self.matrix.n_cols(), count);
        self.matrix
            .apply_transposed(&left.values, count, &mut residuals.values);
        for (k, (r, v)) in residuals.values.iter_mut().zip(&right.values).enumerate() {
            *r -= ritz.values[k % count] * v;
        }
        let mut vector = vec![0.0; self.matrix.n_cols()];
        let floor = ritz.negligible(self.matrix);
        let open: Vec<usize> = (0..count)
            .filter(|&k| {
                residuals.copy_vector(k, &mut vector);
                // NaN is not small.
                let small = dot(&vector, &vector).sqrt() <= (tolerance * ritz.values[k]).max(floor);
                !small
            })
            .collect();
        let converged = open.iter().all(|&k| k >= rank);
        let mut kept = Block::zeros(self.matrix.n_cols(), open.len());
        for (target, source) in kept
            .values
            .chunks_exact_mut(open.len().max(1))
            .zip(residuals.values.chunks_exact(count.max(1)))
        {
            open.iter().zip(target).for_each(|(&k, x)| *x = source[k]);
        }
        (kept, converged)
    }

    /// Cuts the bases back to the leading Ritz vectors.
    fn restart(&mut self, ritz: &Ritz) {
        let count = self.block.min(self.right.len);
        let left = self.left.rotated(ritz.left.as_ref(), count);
        let right = self.right.rotated(ritz.right.as_ref(), count);
        self.left.replace(&left);
        self.right.replace(&right);
        self.b.fill(0.0);
        for k in 0..count {
            self.b[(k, k)] = ritz.values[k];
        }
    }

    fn finish(&self, ritz: &Ritz, rank: usize, converged: bool, steps: usize) -> TruncatedSvd {
        let floor = ritz.negligible(self.matrix);
        let count = ritz
            .values
            .iter()
            .take(rank)
            .filter(|&&s| s > floor)
            .count();
        let left = self.left.rotated(ritz.left.as_ref(), count);
        let right = self.right.rotated(ritz.right.as_ref(), count);
        let signs: Vec<f64> = (0..count).map(|k| sign_of_largest(&right, k)).collect();
        let signed = |block: &Block, length| {
            Mat::from_fn(length, count, |i, k| signs[k] * block.values[i * count + k])
        };
        TruncatedSvd {
            u: signed(&left, self.matrix.n_rows()),
            v: signed(&right, self.matrix.n_cols()),
            singular_values: ritz.values[..count].to_vec(),
            converged,
            steps,
        }
    }
}

/// Singular value decomposition of B, values falling.
struct Ritz {
    left: Mat<f64>,
    values: Vec<f64>,
    right: Mat<f64>,
}

impl Ritz {
    fn of(krylov: &Krylov<'_>) -> Self {
        let n = krylov.right.len;
        if n == 0 {
            return Self {
                left: Mat::new(),
                values: Vec::new(),
                right: Mat::new(),
            };
        }
        let b = krylov.b.get(..n, ..n);
        let svd = b
            .svd()
            .expect("the singular values of a finite matrix converge");
        Self {
            left: svd.U().to_owned(),
            values: svd.S().column_vector().iter().copied().collect(),
            right: svd.V().to_owned(),
        }
    }

    /// Singular values up to this one are rounding errors.
    fn negligible(&self, matrix: &SparseRows<'_>) -> f64 {
        let longer = matrix.n_rows().max(matrix.n_cols()) as f64;
        self.values
            .first()
            .map_or(0.0, |largest| largest * longer * f64::EPSILON)
    }
}

/// Sign of the element of vector k that is largest in absolute value.
fn sign_of_largest(block: &Block, k: usize) -> f64 {
    let column = block.values.iter().skip(k).step_by(block.width);
    let largest = column.fold(
        0.0f64,
        |best, x| if x.abs() > best.abs() { *x } else { best },
    );
    if largest < 0.0 { -1.0 } else { 1.0 }
}
