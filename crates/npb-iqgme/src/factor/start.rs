//! Where a run starts: clusters by k-means on principal components, factors by principal components of the clusters' residuals.

use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_linalg::faer::{Accum, Mat, MatRef, Par, linalg::matmul::matmul};
use npb_linalg::svd::thin_svd;
use rand::RngExt;
use rand_distr::StandardNormal;

use super::config::FactorInit;
use super::data::FactorData;
use super::rows::{RowFactors, Spread};
use crate::start::within_classes;
use crate::{FactorConfig, Result};
use npb_data::clusters::{by_size, k_means, nearest};

/// Keys of the random streams of starts.
const START: u64 = 1;

/// Variance of the factors at the start.
const FIRST_VARIANCE: f64 = 0.1;

/// K-means runs for each start.
const K_MEANS_TRIES: usize = 10;

/// Power iterations for principal components: a start need not be exact.
const POWER_ITERATIONS: usize = 4;

/// Indicators and `q(s, z)` of the start.
pub(crate) struct Beginning {
    pub(crate) indicators: Vec<Vec<bool>>,
    pub(crate) factors: RowFactors,
}

pub(crate) fn beginning(
    data: &FactorData,
    config: &FactorConfig,
    start: FactorInit,
    restart: u64,
) -> Result<Beginning> {
    let mut rng = stream(config.seed, [restart, 0, START, 0]);
    let n = data.n_rows();
    let largest = config.max_factors.min(n.saturating_sub(1));
    let points = scores(&data.cells.x, largest, &mut rng);
    let clusters = clusters(data, config, start, &points, &mut rng);
    let n_clusters = clusters.iter().max().map_or(1, |m| m + 1);
    let residuals = residuals(data, &clusters, n_clusters);
    let mut indicators = vec![Vec::new(); n_clusters];
    // Standardised scores of every row, column by column.
    let mut columns: Vec<Vec<f64>> = Vec::new();
    let own = |h: usize| {
        let members: Vec<usize> = (0..n).filter(|&i| clusters[i] == h).collect();
        let share = (config.max_factors / n_clusters).max(1);
        let number = share.min(members.len().saturating_sub(1));
        (vec![h], members, number)
    };
    let parts: Vec<(Vec<usize>, Vec<usize>, usize)> = match start {
        FactorInit::Own(_) => (0..n_clusters).map(own).collect(),
        _ => vec![((0..n_clusters).collect(), (0..n).collect(), largest)],
    };
    for (users, members, number) in parts {
        let part = Mat::from_fn(members.len(), residuals.ncols(), |k, j| {
            residuals[(members[k], j)]
        });
        let scores = scores(&part, number, &mut rng);
        let found = scores.first().map_or(0, Vec::len);
        for l in 0..found.min(config.max_factors - columns.len().min(config.max_factors)) {
            let square: f64 = scores.iter().map(|s| s[l] * s[l]).sum();
            let scale = (members.len() as f64 / square.max(f64::MIN_POSITIVE)).sqrt();
            let mut column = vec![0.0; n];
            for (&i, s) in members.iter().zip(&scores) {
                column[i] = scale * s[l];
            }
            columns.push(column);
            for (h, indicators) in indicators.iter_mut().enumerate() {
                indicators.push(users.contains(&h));
            }
        }
    }
    let factors = first_factors(data, &clusters, &indicators, &columns);
    Ok(Beginning {
        indicators,
        factors,
    })
}

fn first_factors(
    data: &FactorData,
    clusters: &[usize],
    indicators: &[Vec<bool>],
    columns: &[Vec<f64>],
) -> RowFactors {
    let (n, n_clusters) = (clusters.len(), indicators.len());
    let mut responsibilities = vec![0.0; n * n_clusters];
    for (i, &h) in clusters.iter().enumerate() {
        responsibilities[i * n_clusters + h] = 1.0;
    }
    let used = |b: &Vec<bool>| (0..b.len()).filter(|&l| b[l]).collect();
    let used: Vec<Vec<usize>> = indicators.iter().map(used).collect();
    let spread = |used: &Vec<usize>| {
        let k = used.len();
        Some(Spread {
            covariance: Mat::from_fn(k, k, |i, j| if i == j { FIRST_VARIANCE } else { 0.0 }),
            ln_det: k as f64 * FIRST_VARIANCE.ln(),
        })
    };
    let spreads: Vec<Option<Spread>> = used.iter().map(spread).collect();
    let mean = |used: &Vec<usize>| Mat::from_fn(used.len(), n, |k, i| columns[used[k]][i]);
    RowFactors {
        n_clusters,
        responsibilities,
        means: used.iter().map(mean).collect(),
        spreads: vec![[spreads.clone(), spreads]; data.cells.patterns.len()],
    }
}

/// A cluster for every row, larger ones first.
fn clusters(
    data: &FactorData,
    config: &FactorConfig,
    start: FactorInit,
    points: &[Vec<f64>],
    rng: &mut Xoshiro256PlusPlus,
) -> Vec<usize> {
    let n_classes = match start {
        FactorInit::PerClass(_) if data.n_labelled > 0 => data.classes.len(),
        _ => 0,
    };
    let sizes = [start.clusters(), config.truncation];
    let classes = (&data.labels.class[..], n_classes);
    let mut assigned = within_classes(points, classes, sizes, |members, each| {
        best_k_means(points, members, each, rng)
    });
    let each = assigned.iter_mut();
    each.for_each(|cluster| *cluster %= config.truncation);
    // Numbers without a member leave no gap.
    let ranks = by_size(&assigned);
    let mut used: Vec<usize> = ranks.clone();
    used.sort_unstable();
    used.dedup();
    let place = |rank| used.binary_search(rank).expect("is among them");
    ranks.iter().map(place).collect()
}

/// The tightest of several k-means: which of its optima one ends in is chance.
fn best_k_means(
    points: &[Vec<f64>],
    members: &[usize],
    clusters: usize,
    rng: &mut Xoshiro256PlusPlus,
) -> Vec<Vec<f64>> {
    let mut best = (f64::INFINITY, Vec::new());
    for _ in 0..if clusters > 1 { K_MEANS_TRIES } else { 1 } {
        let centres = k_means(points, members, clusters, rng);
        let apart = |&i: &usize| nearest(&points[i], &centres).1;
        let spread: f64 = members.iter().map(apart).sum();
        if spread < best.0 {
            best = (spread, centres);
        }
    }
    best.1
}

/// Observed cells minus their cluster's mean.
fn residuals(data: &FactorData, clusters: &[usize], n_clusters: usize) -> Mat<f64> {
    let mut residuals = data.cells.x.clone();
    for (p, pattern) in (0..residuals.ncols()).map(|p| (p, data.columns.pattern_of_row(p))) {
        let observed = &data.columns.patterns()[pattern].observed;
        let column = residuals.col_as_slice_mut(p);
        let (mut sums, mut counts) = (vec![0.0; n_clusters], vec![0.0; n_clusters]);
        for &i in observed {
            sums[clusters[i]] += column[i];
            counts[clusters[i]] += 1.0;
        }
        for &i in observed {
            column[i] -= sums[clusters[i]] / counts[clusters[i]];
        }
    }
    residuals
}

/// Scores of at most `number` principal components, a vector for each row.
fn scores(x: &Mat<f64>, number: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<f64>> {
    let (n, p) = (x.nrows(), x.ncols());
    let number = number.min(n).min(p);
    if number == 0 {
        return vec![Vec::new(); n];
    }
    let size = (number + 10).min(n).min(p);
    let random = Mat::from_fn(p, size, |_, _| rng.sample::<f64, _>(StandardNormal));
    let mut basis = product(x.as_ref(), random.as_ref()).qr().compute_thin_Q();
    for _ in 0..POWER_ITERATIONS {
        let back = product(x.transpose(), basis.as_ref());
        basis = product(x.as_ref(), back.as_ref()).qr().compute_thin_Q();
    }
    let Ok(svd) = thin_svd(product(basis.transpose(), x.as_ref()).as_ref()) else {
        return vec![Vec::new(); n];
    };
    let (rotated, values) = (product(basis.as_ref(), svd.u.as_ref()), svd.singular_values);
    let large = |k: &usize| values[*k] > 1e-8 * values[0];
    let kept = (0..number).take_while(large).count();
    let of_row = |i: usize| (0..kept).map(|k| values[k] * rotated[(i, k)]).collect();
    (0..n).map(of_row).collect()
}

fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut product = Mat::zeros(a.nrows(), b.ncols());
    matmul(product.as_mut(), Accum::Replace, a, b, 1.0, Par::Seq);
    product
}
