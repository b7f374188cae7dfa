//! Components, experts and their shared prior given the rows.

use npb_infer::parallel;
use npb_linalg::faer::{Accum, Mat, MatRef, Par, linalg::matmul::matmul};
use npb_linalg::mixture::Moments;
use npb_linalg::{Cholesky, NotPositiveDefinite};
use npb_priors::dist::NormalGamma;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use super::state::GibbsParameters;
use crate::Result;
use crate::prior::Prior;
use crate::rows::Rows;
use crate::stats::SufficientStats;

/// Rows that are multiplied in one product.
const CHUNK: usize = 256;

/// Sufficient statistics of rows wholly in one component each. `values`: row, feature, missing ones filled in; `utilities`: row, utility.
pub(super) fn stats(
    rows: &Rows,
    labels: &[u32],
    [values, utilities]: [&[f64]; 2],
    n_components: usize,
) -> SufficientStats {
    let none = || vec![Vec::new(); n_components];
    let mut members = [none(), none()];
    for (i, &h) in labels.iter().enumerate() {
        members[usize::from(rows.classes[i].is_none())][h as usize].push(i);
    }
    let (p, k) = (rows.n_features, rows.n_utilities);
    let products = |members: &[usize], n_utilities: usize| {
        products(members, p + n_utilities + 1, |i, to| {
            to[..p].copy_from_slice(&values[i * p..][..p]);
            to[p..][..n_utilities].copy_from_slice(&utilities[i * k..][..n_utilities]);
            to[p + n_utilities] = 1.0;
        })
    };
    let of_component = |h: usize| (products(&members[0][h], k), products(&members[1][h], 0));
    let found = parallel::map(0..n_components, of_component).into_iter();
    let (labelled, unlabelled): (Vec<Mat<f64>>, Vec<Mat<f64>>) = found.unzip();
    SufficientStats {
        soft: Mat::from_fn(p + 1, n_components * k, |i, column| {
            let i = if i < p { i } else { p + k };
            labelled[column / k][(p + column % k, i)]
        }),
        labelled: moments(&labelled, p),
        unlabelled: moments(&unlabelled, p),
        ..SufficientStats::zeros(0, 0, 0)
    }
}

/// Of the features, from products with a constant 1 at the end.
fn moments(products: &[Mat<f64>], p: usize) -> Moments {
    let last = |h: usize, i: usize| products[h][(products[h].nrows() - 1, i)];
    let weight = |h: usize| last(h, products[h].nrows() - 1);
    let second = |of: &Mat<f64>| Mat::from_fn(p, p, |i, j| of[(i, j)]);
    Moments {
        weight: (0..products.len()).map(weight).collect(),
        first: Mat::from_fn(p, products.len(), |i, h| last(h, i)),
        second: products.iter().map(second).collect(),
    }
}

/// `sum z z'` over rows that `load` writes.
fn products(members: &[usize], width: usize, load: impl Fn(usize, &mut [f64])) -> Mat<f64> {
    let mut sums = Mat::<f64>::zeros(width, width);
    let mut buffer = vec![0.0; width * CHUNK.min(members.len())];
    for chunk in members.chunks(CHUNK) {
        let n = chunk.len();
        for (row, &i) in buffer.chunks_exact_mut(width).zip(chunk) {
            load(i, row);
        }
        let columns = MatRef::from_column_major_slice(&buffer[..width * n], width, n);
        let (sums, turned) = (sums.as_mut(), columns.transpose());
        matmul(sums, Accum::Add, columns, turned, 1.0, Par::Seq);
    }
    sums
}

/// Draws an expert without rows, of coefficients with these means and precisions.
pub(super) fn draw_prior_expert(
    (means, precisions): (&[f64], &[f64]),
    rng: &mut impl Rng,
) -> Vec<f64> {
    let draw = |(mean, precision): (&f64, &f64)| {
        mean + rng.sample::<f64, _>(StandardNormal) / precision.sqrt()
    };
    means.iter().zip(precisions).map(draw).collect()
}

/// Draws the expert of utility `k` of component `h`. Equations: `docs/iqgme-updates.md#conjugate-moves`.
pub(super) fn draw_expert(
    stats: &SufficientStats,
    [h, k]: [usize; 2],
    parameters: &GibbsParameters,
    rng: &mut impl Rng,
) -> Result<Vec<f64>, NotPositiveDefinite> {
    let sums = &stats.labelled;
    let p = sums.first.nrows();
    let law = parameters.expert_law(k, p + 1);
    if sums.weight[h] == 0.0 {
        return Ok(draw_prior_expert(law, rng));
    }
    let (means, precisions) = law;
    let matrix = stats.labelled_second(h, |j| precisions[j]);
    let column = h * parameters.n_utilities() + k;
    let linear = (0..=p).map(|j| stats.soft[(j, column)] + precisions[j] * means[j]);
    let mut w: Vec<f64> = linear.collect();
    Cholesky::new(matrix.as_ref())?.sample_canonical(&mut w, rng);
    Ok(w)
}

/// Smallest and largest precision that an expert's prior may take: beyond them squares are not finite.
const PRECISIONS: [f64; 2] = [1e-150, 1e150];

/// Draws `(zeta, lambda)` given the experts that have labelled rows (`free`, by component), all coefficients of all utilities.
/// Equations: `docs/iqgme-updates.md#conjugate-moves`.
pub(super) fn draw_expert_prior(
    parameters: &mut GibbsParameters,
    free: &[bool],
    prior: &Prior,
    rng: &mut impl Rng,
) -> Result<()> {
    let n_utilities = parameters.n_utilities();
    let width = parameters.expert_means.len() / n_utilities;
    let prior = &prior.expert;
    let n_free = free.iter().filter(|free| **free).count() as f64;
    let strength = prior.strength + n_free;
    for i in 0..parameters.expert_means.len() {
        let (k, j) = (i / width, i % width);
        let of_utility = parameters.experts.iter().skip(k).step_by(n_utilities);
        let values = || {
            let each = of_utility.clone().zip(free).filter(|(_, free)| **free);
            each.map(|(w, _)| w[j])
        };
        let mean = values().sum::<f64>() / strength;
        let squares: f64 = values().map(|w| w * w).sum();
        let rate = prior.rate[i] + 0.5 * (squares - strength * mean * mean).max(0.0);
        let law = NormalGamma::new(mean, strength, prior.shape + 0.5 * n_free, rate)?;
        let precision = law.precision().sample(rng);
        let precision = precision.clamp(PRECISIONS[0], PRECISIONS[1]);
        parameters.expert_precisions[i] = precision;
        parameters.expert_means[i] =
            mean + rng.sample::<f64, _>(StandardNormal) / (strength * precision).sqrt();
    }
    Ok(())
}
