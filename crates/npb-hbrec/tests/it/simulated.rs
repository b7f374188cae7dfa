//! Simulated users.

use npb_hbrec::npb_infer::stream;
use npb_hbrec::npb_priors::special::normal_cdf;
use npb_hbrec::{Content, ContentKernel, LikeMatrix, Likes};
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

/// Users of a Gaussian population over items, each with so many ratings of random items.
pub(crate) struct Population {
    pub(crate) n_items: usize,
    pub(crate) mean: Vec<f64>,
    pub(crate) loadings: Vec<Vec<f64>>,
}

impl Population {
    pub(crate) fn new(n_items: usize, rank: usize, scale: f64, seed: u64) -> Self {
        let mut rng = stream(seed, [1, 0, 0, 0]);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        Self {
            n_items,
            mean: (0..n_items).map(|_| 0.6 * normal()).collect(),
            loadings: (0..n_items)
                .map(|_| (0..rank).map(|_| scale * normal()).collect())
                .collect(),
        }
    }

    /// P(like) of every item for one user.
    pub(crate) fn user(&self, seed: u64, user: u64) -> Vec<f64> {
        let mut rng = stream(seed, [2, user, 0, 0]);
        let rank = self.loadings[0].len();
        let eta: Vec<f64> = (0..rank).map(|_| StandardNormal.sample(&mut rng)).collect();
        let utility = |item: usize| {
            let taste: f64 = self.loadings[item]
                .iter()
                .zip(&eta)
                .map(|(l, e)| l * e)
                .sum();
            normal_cdf(self.mean[item] + taste)
        };
        (0..self.n_items).map(utility).collect()
    }

    pub(crate) fn likes(&self, probabilities: &[f64], n: usize, seed: u64, user: u64) -> Likes {
        let mut rng = stream(seed, [3, user, 0, 0]);
        let items = rand::seq::index::sample(&mut rng, self.n_items, n);
        let pairs: Vec<(u32, bool)> = items
            .iter()
            .map(|item| (item as u32, rng.random::<f64>() < probabilities[item]))
            .collect();
        Likes::new(self.n_items, &pairs).unwrap()
    }

    pub(crate) fn database(&self, n_users: u64, n: usize, seed: u64) -> LikeMatrix {
        let user = |u| self.likes(&self.user(seed, u), n, seed, u);
        LikeMatrix::from_users(self.n_items, (0..n_users).map(user).collect()).unwrap()
    }
}

/// Two features of each item, but for item 1, which has none.
pub(crate) fn content(n_items: usize, seed: u64) -> Content {
    let mut rng = stream(seed, [4, 0, 0, 0]);
    let rows: Vec<Option<Vec<f64>>> = (0..n_items)
        .map(|i| (i != 1).then(|| vec![rng.random(), rng.random()]))
        .collect();
    Content::new(&rows, ContentKernel::Linear).unwrap()
}
