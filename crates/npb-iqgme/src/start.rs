//! Where a run starts: hard responsibilities from k-means on completed rows.

use std::ops::ControlFlow;

use npb_infer::stream;
use npb_linalg::condition::{Gaussian, Scratch};
use rand::{Rng, RngExt};

use crate::IqgmeError;
use crate::config::{Init, IqgmeConfig};
use crate::data::IqgmeData;
use crate::vb::IqgmeVb;

/// A start need not converge.
const MIXTURE_ITERATIONS: u64 = 100;

/// Key of the random stream of starts.
const START: u64 = 1;

impl<'d> IqgmeVb<'d> {
    /// Starts a run from responsibilities given by `start`; `restart` selects the random numbers.
    pub fn new(
        data: &'d IqgmeData,
        config: IqgmeConfig,
        start: Init,
        restart: u64,
    ) -> Result<Self, IqgmeError> {
        config.validate()?;
        let first = responsibilities(data, &config, start, restart)?;
        Self::from_responsibilities(data, config, first)
    }
}

/// Number of components and responsibilities (by sorted position): each row wholly in the component of its cluster, larger clusters first.
pub(crate) fn responsibilities(
    data: &IqgmeData,
    config: &IqgmeConfig,
    start: Init,
    restart: u64,
) -> Result<(usize, Vec<f64>), IqgmeError> {
    let points = completed(data)?;
    let mut rng = stream(config.seed, [restart, 0, START, 0]);
    let n = data.rows.len();
    let clusters = match start {
        Init::KMeans(clusters) => {
            let members: Vec<usize> = (0..n).collect();
            let centres = k_means(&points, &members, clusters.min(config.truncation), &mut rng);
            members
                .iter()
                .map(|&i| nearest(&points[i], &centres).0)
                .collect()
        }
        Init::Mixture(clusters) => return mixture(data, config, clusters, restart),
        Init::PerClass(clusters) => per_class(
            data,
            &points,
            clusters.min(config.truncation.div_ceil(data.rows.n_utilities + 1)),
            &mut rng,
        ),
    };
    let ranks: Vec<usize> = by_size(&clusters)
        .into_iter()
        .map(|rank| rank % config.truncation)
        .collect();
    let n_components = ranks.iter().max().map_or(1, |m| m + 1);
    let mut responsibilities = vec![0.0; n * n_components];
    for (i, rank) in ranks.into_iter().enumerate() {
        responsibilities[i * n_components + rank] = 1.0;
    }
    Ok((n_components, responsibilities))
}

/// Responsibilities of a mixture of the features alone.
fn mixture(
    data: &IqgmeData,
    config: &IqgmeConfig,
    clusters: usize,
    restart: u64,
) -> Result<(usize, Vec<f64>), IqgmeError> {
    let features = IqgmeData {
        rows: data.rows.without_labels(),
        n_labelled: 0,
        ..data.clone()
    };
    let config = IqgmeConfig {
        max_iterations: MIXTURE_ITERATIONS,
        tolerance: 1e-5,
        ..config.clone()
    };
    let mut vb = IqgmeVb::new(&features, config, Init::KMeans(clusters), restart)?;
    vb.run(|_, _| ControlFlow::Continue(()))?;
    Ok(vb.into_responsibilities())
}

fn per_class(
    data: &IqgmeData,
    points: &[Vec<f64>],
    clusters: usize,
    rng: &mut impl Rng,
) -> Vec<usize> {
    let n = data.rows.len();
    let mut assigned = vec![usize::MAX; n];
    let mut centres: Vec<Vec<f64>> = Vec::new();
    for class in (0..=data.rows.n_utilities).rev() {
        let members: Vec<usize> = (0..n)
            .filter(|&i| data.rows.classes[i] == Some(class))
            .collect();
        let found = k_means(points, &members, clusters, rng);
        for &i in &members {
            assigned[i] = centres.len() + nearest(&points[i], &found).0;
        }
        centres.extend(found);
    }
    if centres.is_empty() {
        let members: Vec<usize> = (0..n).collect();
        centres = k_means(points, &members, clusters, rng);
    }
    for i in 0..n {
        if assigned[i] == usize::MAX {
            assigned[i] = nearest(&points[i], &centres).0;
        }
    }
    assigned
}

/// Rows with their missing features at the conditional mean under one Gaussian for all rows.
pub(crate) fn completed(data: &IqgmeData) -> Result<Vec<Vec<f64>>, IqgmeError> {
    let p = data.rows.n_features;
    let shared =
        Gaussian::from_covariance(&vec![0.0; p], data.covariance.as_ref()).map_err(|source| {
            IqgmeError::Numerical {
                iteration: 0,
                block: "shared covariance",
                component: 0,
                source,
            }
        })?;
    let mut scratch = Scratch::default();
    let mut points = Vec::with_capacity(data.rows.len());
    for group in &data.rows.groups {
        let pattern = &data.rows.patterns[group.pattern];
        let mut given = shared
            .condition(&pattern.observed, &pattern.missing, &mut scratch)
            .map_err(|source| IqgmeError::Numerical {
                iteration: 0,
                block: "shared covariance",
                component: 0,
                source,
            })?;
        for position in group.rows.clone() {
            let mut point = data.rows.row(position).to_vec();
            given.complete(&mut point);
            points.push(point);
        }
    }
    Ok(points)
}

/// Centres of at most `clusters` clusters: k-means++ start, then Lloyd's iterations until nothing moves (at most 100).
pub(crate) fn k_means(
    points: &[Vec<f64>],
    members: &[usize],
    clusters: usize,
    rng: &mut impl Rng,
) -> Vec<Vec<f64>> {
    let Some(mut centres) = spread_out(points, members, clusters, rng) else {
        return Vec::new();
    };
    let mut assigned = vec![usize::MAX; members.len()];
    for _ in 0..100 {
        let mut moved = false;
        for (slot, &i) in assigned.iter_mut().zip(members) {
            let cluster = nearest(&points[i], &centres).0;
            moved |= *slot != cluster;
            *slot = cluster;
        }
        if !moved {
            break;
        }
        for (cluster, centre) in centres.iter_mut().enumerate() {
            let own: Vec<usize> = members
                .iter()
                .zip(&assigned)
                .filter(|&(_, &a)| a == cluster)
                .map(|(&i, _)| i)
                .collect();
            if !own.is_empty() {
                for (j, value) in centre.iter_mut().enumerate() {
                    *value = own.iter().map(|&i| points[i][j]).sum::<f64>() / own.len() as f64;
                }
            }
        }
    }
    centres
}

/// k-means++: each further centre is a point drawn with probability proportional to its squared distance from the nearest centre so far.
fn spread_out(
    points: &[Vec<f64>],
    members: &[usize],
    clusters: usize,
    rng: &mut impl Rng,
) -> Option<Vec<Vec<f64>>> {
    if members.is_empty() {
        return None;
    }
    let first = members[rng.random_range(0..members.len())];
    let mut centres = vec![points[first].clone()];
    let mut distance: Vec<f64> = members
        .iter()
        .map(|&i| squared_distance(&points[i], &centres[0]))
        .collect();
    while centres.len() < clusters {
        let total: f64 = distance.iter().sum();
        if total <= 0.0 {
            break;
        }
        let mut left = rng.random::<f64>() * total;
        let chosen = distance
            .iter()
            .position(|d| {
                left -= d;
                left < 0.0
            })
            .unwrap_or(members.len() - 1);
        let centre = points[members[chosen]].clone();
        for (d, &i) in distance.iter_mut().zip(members) {
            *d = d.min(squared_distance(&points[i], &centre));
        }
        centres.push(centre);
    }
    Some(centres)
}

pub(crate) fn nearest(point: &[f64], centres: &[Vec<f64>]) -> (usize, f64) {
    let mut best = (0, f64::INFINITY);
    for (cluster, centre) in centres.iter().enumerate() {
        let distance = squared_distance(point, centre);
        if distance < best.1 {
            best = (cluster, distance);
        }
    }
    best
}

fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Relabels clusters by falling size: the stick-breaking prior expects larger components first.
pub(crate) fn by_size(clusters: &[usize]) -> Vec<usize> {
    let n_clusters = clusters.iter().max().map_or(0, |m| m + 1);
    let mut sizes = vec![0usize; n_clusters];
    for &c in clusters {
        sizes[c] += 1;
    }
    let mut order: Vec<usize> = (0..n_clusters).collect();
    order.sort_by_key(|&c| std::cmp::Reverse(sizes[c]));
    let mut rank = vec![0; n_clusters];
    for (r, &c) in order.iter().enumerate() {
        rank[c] = r;
    }
    clusters.iter().map(|&c| rank[c]).collect()
}
