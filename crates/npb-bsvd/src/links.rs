//! What features say of factors: `U_ik ~ N(m_k + R_i . B_k, 1)`.

use npb_infer::Xoshiro256PlusPlus;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::GammaPrior;
use npb_priors::dist::Gamma;
use rand::RngExt;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use crate::BsvdError;
use crate::features::Features;
use crate::state::SideState;

/// Rows that are summed in one go.
const LINES: usize = 1024;

/// Precisions are kept within these, so that links drawn from their prior are numbers.
const LEAST_PRECISION: f64 = 1e-6;
const MOST_PRECISION: f64 = 1e12;

/// Adds to the numbers of each component what the features of a row say of its factors.
pub(crate) fn add_expected(links: &[f64], features: &[f32], out: &mut [f64]) {
    if links.is_empty() {
        return;
    }
    for (x, own) in out.iter_mut().zip(links.chunks_exact(features.len())) {
        let products = own.iter().zip(features);
        *x += products.map(|(b, &f)| b * f64::from(f)).sum::<f64>();
    }
}

/// Factors less what is expected of them, `stride` numbers for each row, zeros after the rank.
pub(crate) fn deviations(
    own: &SideState,
    features: Option<&Features>,
    stride: usize,
    table: &mut Vec<f32>,
) {
    let rank = own.factor_mean.len();
    table.clear();
    table.resize(own.factors.len() / rank * stride, 0.0);
    let lines = table.par_chunks_exact_mut(stride).with_min_len(256);
    let work = || {
        let q = features.map_or(0, Features::n_features);
        (vec![0.0f32; q], vec![0.0; rank])
    };
    lines
        .zip(own.factors.par_chunks_exact(rank))
        .enumerate()
        .for_each_init(work, |(known, expected), (i, (line, factors))| {
            expected.copy_from_slice(&own.factor_mean);
            if let Some(features) = features.filter(|_| !own.links.is_empty()) {
                features.write(i, known);
                add_expected(&own.links, known, expected);
            }
            for ((to, &x), mean) in line.iter_mut().zip(factors).zip(&*expected) {
                *to = (f64::from(x) - mean) as f32;
            }
        });
}

/// Draws the means of the factors (when `means`) and their links to `features` (when there are any): for each component the coefficients of a regression of
/// its factors on a one and the features, whose matrix is the same for all components; then the precision of the links.
///
/// Cost: features squared + features times rank for each row, features cubed.
pub(crate) fn draw(
    own: &mut SideState,
    features: Option<&Features>,
    means: bool,
    prior: GammaPrior,
    sweep: u64,
    rng: &mut Xoshiro256PlusPlus,
) -> Result<(), BsvdError> {
    let rank = own.factor_mean.len();
    let first = usize::from(means);
    let width = first + features.map_or(0, Features::n_features);
    if rank > 0 && width > 0 {
        let (matrix, linear) = sums(own, features, first, rank, width);
        let prior = |k: usize| if k < first { 1.0 } else { own.link_precision };
        let matrix = Mat::from_fn(width, width, |a, b| {
            let product = matrix[a.max(b) * width + a.min(b)];
            product + if a == b { prior(a) } else { 0.0 }
        });
        let factor = Cholesky::new(matrix.as_ref()).map_err(|e| BsvdError::Numerical {
            sweep,
            block: "means and links of factors, feature",
            item: e.pivot,
            pivot: e.pivot,
            value: e.value,
        })?;
        own.links.clear();
        for (mean, line) in own.factor_mean.iter_mut().zip(linear.chunks_exact(width)) {
            let mut drawn = line.to_vec();
            factor.solve_l(&mut drawn);
            for x in &mut drawn {
                let z: f64 = rng.sample(StandardNormal);
                *x += z;
            }
            factor.solve_lt(&mut drawn);
            *mean = if means { drawn[0] } else { 0.0 };
            own.links.extend_from_slice(&drawn[first..]);
        }
    }
    if features.is_some() {
        let squares: f64 = own.links.iter().map(|b| b * b).sum();
        let shape = prior.shape + 0.5 * own.links.len() as f64;
        let law = Gamma::new(shape, prior.rate + 0.5 * squares)?;
        let drawn = law.sample_ln(rng).exp();
        own.link_precision = drawn.clamp(LEAST_PRECISION, MOST_PRECISION);
    }
    Ok(())
}

/// Products of the regressors of a row, a one (when `first` is 1) and its features, summed over rows: with one another (row a, b <= a), and with the factors
/// of each component (`width` numbers for each).
fn sums(
    own: &SideState,
    features: Option<&Features>,
    first: usize,
    rank: usize,
    width: usize,
) -> (Vec<f64>, Vec<f64>) {
    let block = |(number, lines): (usize, &[f32])| {
        let mut matrix = vec![0.0; width * width];
        let mut linear = vec![0.0; rank * width];
        let mut known = vec![1.0f32; width];
        for (n, factors) in lines.chunks_exact(rank).enumerate() {
            if let Some(features) = features {
                features.write(number * LINES + n, &mut known[first..]);
            }
            for (a, &x) in known.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                let x = f64::from(x);
                let products = matrix[a * width..].iter_mut().zip(&known[..=a]);
                products.for_each(|(sum, &y)| *sum += x * f64::from(y));
                let products = linear[a..].iter_mut().step_by(width).zip(factors);
                products.for_each(|(sum, &u)| *sum += x * f64::from(u));
            }
        }
        (matrix, linear)
    };
    let parts: Vec<_> = own
        .factors
        .par_chunks(LINES * rank)
        .enumerate()
        .map(block)
        .collect();
    let mut total = (vec![0.0; width * width], vec![0.0; rank * width]);
    for (matrix, linear) in parts {
        total.0.iter_mut().zip(matrix).for_each(|(t, x)| *t += x);
        total.1.iter_mut().zip(linear).for_each(|(t, x)| *t += x);
    }
    total
}
