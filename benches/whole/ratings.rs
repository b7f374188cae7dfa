//! Half stars of 610 users for 9,700 items, 100,000 of them given, at the defaults: users and items are unlike in how many ratings they have.

use std::collections::HashSet;

use npb_benches::timed;
use npb_bsvd::{BsvdConfig, Cells, SideInformation, fit};
use npb_data::{Rating, Ratings};
use npb_infer::{Xoshiro256PlusPlus, stream};
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::{Outcome, share, table_seed};

const USERS: usize = 610;
const ITEMS: usize = 9_700;
const GIVEN: usize = 100_000;
const HELD_OUT: usize = 20_000;
const RANK: usize = 10;
/// Standard deviations: of the logarithms of what users and items have ratings by, of their intercepts, of the sum of all components, of the noise.
const POPULARITY: [f64; 2] = [1.2, 1.5];
const INTERCEPTS: [f64; 2] = [0.4, 0.4];
const COMPONENTS: f64 = 0.5;
const NOISE: f64 = 0.75;

fn normals(n: usize, sd: f64, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    (0..n)
        .map(|_| sd * rng.sample::<f64, _>(StandardNormal))
        .collect()
}

/// A draw from weights by their sums.
fn place(sums: &[f64], rng: &mut Xoshiro256PlusPlus) -> usize {
    let at = rng.random::<f64>() * sums[sums.len() - 1];
    sums.partition_point(|sum| *sum <= at).min(sums.len() - 1)
}

/// So many ratings of distinct cells, in random order.
fn draw(n: usize) -> Vec<Rating> {
    let rng = &mut stream(table_seed(), [0; 4]);
    let [popular_users, popular_items] = [(USERS, 0), (ITEMS, 1)].map(|(n, side)| {
        let mut sum = 0.0;
        let mut add = |z: &f64| {
            sum += z.exp();
            sum
        };
        let sums = normals(n, POPULARITY[side], rng);
        sums.iter().map(&mut add).collect::<Vec<f64>>()
    });
    let users = normals(USERS, INTERCEPTS[0], rng);
    let items = normals(ITEMS, INTERCEPTS[1], rng);
    // Components of falling size.
    let size = |k: usize| 0.8f64.powi(k as i32);
    let squares: f64 = (0..RANK).map(|k| size(k).powi(2)).sum();
    let scale = COMPONENTS / squares.sqrt();
    let (u, v) = (
        normals(USERS * RANK, 1.0, rng),
        normals(ITEMS * RANK, 1.0, rng),
    );
    let mut taken = HashSet::new();
    let mut ratings = Vec::with_capacity(n);
    while ratings.len() < n {
        let (i, j) = (place(&popular_users, rng), place(&popular_items, rng));
        if !taken.insert((i, j)) {
            continue;
        }
        let term = |k: usize| scale * size(k) * u[i * RANK + k] * v[j * RANK + k];
        let sum: f64 = (0..RANK).map(term).sum();
        let noise: f64 = rng.sample(StandardNormal);
        let x = 3.5 + users[i] + items[j] + sum + NOISE * noise;
        ratings.push(Rating {
            row: i as u32,
            column: j as u32,
            value: (2.0 * x).round().clamp(1.0, 10.0) / 2.0,
        });
    }
    ratings
}

pub(crate) fn run() -> Outcome {
    let given = share(GIVEN);
    let all = draw(given + HELD_OUT);
    let matrix = |part: &[Rating]| Ratings::new(USERS, ITEMS, part).expect("distinct cells");
    let (train, test) = (matrix(&all[..given]), matrix(&all[given..]));
    let config = BsvdConfig::default();
    let (fitted, seconds) = timed(|| {
        fit(
            &train,
            SideInformation::default(),
            &Cells::default(),
            &config,
        )
        .expect("good input")
    });
    let found = fitted.evaluate(&test).expect("cells of the matrix");
    Outcome {
        seconds,
        quality: vec![
            ("rmse", found.rmse),
            ("ln_density", found.ln_density),
            (
                "held_by_90%",
                found.coverage(0.9).expect("a level between 0 and 1"),
            ),
            ("start", fitted.config.candidates as f64),
        ],
    }
}
