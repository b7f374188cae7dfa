//! Factors about their means, and what features say of these: `U_ik ~ N(m_k + R_i . B_k, 1 / g_i)`. Equations: `docs/bsvd.md#links`.

use npb_infer::parallel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_linalg::Cholesky;
use npb_linalg::aligned::Aligned;
use npb_linalg::elementary::{ln, vectorised};
use npb_linalg::faer::Mat;
use npb_priors::GammaPrior;
use npb_priors::dist::{Categorical, Gamma};
use npb_priors::special::ln_gamma;
use pulp::Arch;
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::BsvdError;
use crate::state::SideState;
use npb_data::Features;

/// Rows that are summed in one go.
const LINES: usize = 1024;

/// Logarithms that are taken side by side.
const LANES: usize = 8;

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

/// Factors less what is expected of them, times the roots of their precisions: `stride` numbers for each row, zeros after the rank.
pub(crate) fn deviations(
    own: &SideState,
    features: Option<&Features>,
    stride: usize,
    table: &mut Aligned<f32>,
) {
    let rank = own.factor_mean.len();
    table.zeros(own.factors.len() / rank * stride);
    let q = features.map_or(0, Features::n_features);
    let features = features.filter(|_| !own.links.is_empty());
    // A line is too little work to be handed out alone.
    let blocks = table.chunks_mut(LINES * stride);
    let blocks = blocks.zip(own.factors.chunks(LINES * rank)).enumerate();
    parallel::for_each(blocks, |(block, (table, factors))| {
        let (mut known, mut expected) = (vec![0.0f32; q], own.factor_mean.clone());
        let lines = table.chunks_exact_mut(stride);
        for (n, (line, factors)) in lines.zip(factors.chunks_exact(rank)).enumerate() {
            let i = block * LINES + n;
            if let Some(features) = features {
                features.write(i, &mut known);
                expected.copy_from_slice(&own.factor_mean);
                add_expected(&own.links, &known, &mut expected);
            }
            let root = own.factor_weight(i).sqrt();
            for ((to, &x), mean) in line.iter_mut().zip(factors).zip(&expected) {
                *to = (root * (f64::from(x) - mean)) as f32;
            }
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

/// Draws how far the factors of each row lie from their means, `g_i` given `|U_i - m - B R_i|^2`, then the shape of all `g`. `table`: scratch.
pub(crate) fn draw_factor_precisions(
    own: &mut SideState,
    features: Option<&Features>,
    grid: &[f64],
    table: &mut Aligned<f32>,
    rng: &mut Xoshiro256PlusPlus,
) -> Result<(), BsvdError> {
    let rank = own.factor_mean.len();
    if rank > 0 {
        deviations(own, features, rank, table);
    }
    let h = own.factor_shape;
    let seed = rng.random();
    let blocks = own.factor_weights.chunks_mut(LINES).enumerate();
    let draw = |(block, weights): (usize, &mut [f32])| {
        let mut rng = stream(seed, [block as u64, 0, 0, 0]);
        for (n, weight) in weights.iter_mut().enumerate() {
            let line = &table[(block * LINES + n) * rank..][..rank];
            let weighted: f64 = line.iter().map(|&x| f64::from(x).powi(2)).sum();
            let squares = weighted / f64::from(*weight);
            let law = Gamma::new(h + 0.5 * rank as f64, h + 0.5 * squares)?;
            *weight = (law.sample(&mut rng) as f32).max(f32::MIN_POSITIVE);
        }
        Ok::<_, BsvdError>(())
    };
    parallel::try_map(blocks, draw)?;
    own.factor_shape = draw_shape(&own.factor_weights, grid, rng)?;
    Ok(())
}

/// h of weights `w ~ Gamma(h, h)`: `n (h ln h - ln Gamma(h)) + (h - 1) sum ln w - h sum w` and a uniform prior on the grid.
pub(crate) fn draw_shape(
    weights: &[f32],
    grid: &[f64],
    rng: &mut Xoshiro256PlusPlus,
) -> Result<f64, BsvdError> {
    let n = weights.len() as f64;
    let (mut sums, mut ln_sums) = ([0.0; LANES], [0.0; LANES]);
    vectorised(
        Arch::new(),
        #[inline(always)]
        || {
            for weights in weights.chunks(LANES) {
                let mut lanes = [1.0; LANES];
                let own = lanes.iter_mut().zip(weights);
                own.for_each(|(to, &w)| *to = f64::from(w));
                for k in 0..LANES {
                    ln_sums[k] += ln(lanes[k]);
                }
                let own = sums.iter_mut().zip(weights);
                own.for_each(|(sum, &w)| *sum += f64::from(w));
            }
        },
    );
    let (sum, ln_sum): (f64, f64) = (sums.iter().sum(), ln_sums.iter().sum());
    let terms: Vec<f64> = grid
        .iter()
        .map(|&h| n * (h * h.ln() - ln_gamma(h)) + (h - 1.0) * ln_sum - h * sum)
        .collect();
    Ok(grid[Categorical::from_ln_weights(&terms)?.sample(rng)])
}

/// Products of the regressors of a row, a one (when `first` is 1) and its features, summed over rows with their precisions: with one another (row a, b <= a),
/// and with the factors of each component (`width` numbers for each).
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
            let i = number * LINES + n;
            if let Some(features) = features {
                features.write(i, &mut known[first..]);
            }
            let weight = own.factor_weight(i);
            for (a, &x) in known.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                let x = weight * f64::from(x);
                let products = matrix[a * width..].iter_mut().zip(&known[..=a]);
                products.for_each(|(sum, &y)| *sum += x * f64::from(y));
                let products = linear[a..].iter_mut().step_by(width).zip(factors);
                products.for_each(|(sum, &u)| *sum += x * f64::from(u));
            }
        }
        (matrix, linear)
    };
    let lines = own.factors.chunks(LINES * rank).enumerate();
    let parts: Vec<_> = parallel::map(lines, block);
    let mut total = (vec![0.0; width * width], vec![0.0; rank * width]);
    for (matrix, linear) in parts {
        total.0.iter_mut().zip(matrix).for_each(|(t, x)| *t += x);
        total.1.iter_mut().zip(linear).for_each(|(t, x)| *t += x);
    }
    total
}
