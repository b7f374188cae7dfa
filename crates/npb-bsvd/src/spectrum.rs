//! Singular values of a product of two thin factors, without the matrix.

use npb_linalg::faer::Mat;

/// Singular values of `U diag(s) V'`, in descending order: of the product of two small factors, without the matrix.
pub(crate) fn singular_values(rows: &[f32], columns: &[f32], scales: &[f64]) -> Vec<f64> {
    let rank = scales.len();
    if rank == 0 {
        return Vec::new();
    }
    let gram = |table: &[f32]| {
        let mut gram = Mat::<f64>::zeros(rank, rank);
        for line in table.chunks_exact(rank) {
            for a in 0..rank {
                let x = f64::from(line[a]);
                for b in 0..=a {
                    gram[(a, b)] += x * f64::from(line[b]);
                }
            }
        }
        for a in 0..rank {
            for b in 0..a {
                gram[(b, a)] = gram[(a, b)];
            }
        }
        gram
    };
    let (left, right) = (gram(rows), gram(columns));
    // The nonzero eigenvalues of (S U'U S)(V'V) are the squares; symmetrised by the factor of the first.
    let scaled = Mat::from_fn(rank, rank, |a, b| scales[a] * left[(a, b)] * scales[b]);
    let Ok(eigen) = scaled.self_adjoint_eigen(npb_linalg::faer::Side::Lower) else {
        return vec![f64::NAN; rank];
    };
    let root = Mat::from_fn(rank, rank, |a, b| {
        eigen.U()[(a, b)] * eigen.S()[b].max(0.0).sqrt()
    });
    let product = root.transpose() * &right * &root;
    let mut values = product
        .self_adjoint_eigenvalues(npb_linalg::faer::Side::Lower)
        .unwrap_or_else(|_| vec![f64::NAN; rank])
        .into_iter()
        .map(|v| v.max(0.0).sqrt())
        .collect::<Vec<f64>>();
    values.sort_by(|a, b| b.total_cmp(a));
    values
}
