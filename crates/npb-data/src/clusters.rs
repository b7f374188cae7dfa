//! Hard clusters of complete points, for starts: k-means.
//!
//! ```
//! use npb_data::clusters::{k_means, nearest};
//! use rand_xoshiro::rand_core::SeedableRng;
//!
//! let points: Vec<Vec<f64>> = [0.0, 0.1, 5.0, 5.2].iter().map(|&x| vec![x]).collect();
//! let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
//! let centres = k_means(&points, &[0, 1, 2, 3], 2, &mut rng);
//! assert_eq!(nearest(&[0.3], &centres).0, nearest(&[-1.0], &centres).0);
//! ```

use rand::{Rng, RngExt};

/// Centres of at most `clusters` clusters of the points with the indices `members`: k-means++ start, then Lloyd's iterations until nothing moves (at most 100).
pub fn k_means(
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

/// The nearest centre, and the square of its distance.
pub fn nearest(point: &[f64], centres: &[Vec<f64>]) -> (usize, f64) {
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
pub fn by_size(clusters: &[usize]) -> Vec<usize> {
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
