//! npb-hbrec on one thread: a database of 2,000 users and 1,000 items, a new user with twenty ratings.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use npb_data::{Rating, Ratings};
use npb_hbrec::{
    BaseConfig, BaseDistribution, BaseEm, HbrecConfig, LikeMatrix, Likes, Recommender,
    RecommenderConfig,
};
use npb_infer::VbLimits;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const USERS: usize = 2_000;
const ITEMS: usize = 1_000;
const PER_USER: usize = 100;
const RANK: usize = 4;

/// Likes that follow a matrix of rank 4.
fn ratings() -> Ratings {
    let mut rng = SmallRng::seed_from_u64(1);
    let mut uniform =
        |n: usize| -> Vec<f64> { (0..n).map(|_| rng.random::<f64>() - 0.5).collect() };
    let (u, v) = (uniform(USERS * RANK), uniform(ITEMS * RANK));
    let mut entries = Vec::with_capacity(USERS * PER_USER);
    for row in 0..USERS {
        let mut columns: Vec<usize> = (0..ITEMS).collect();
        for n in 0..PER_USER {
            columns.swap(n, rng.random_range(n..ITEMS));
            let x: f64 = (0..RANK)
                .map(|k| u[row * RANK + k] * v[columns[n] * RANK + k])
                .sum();
            let value = f64::from(u8::from(3.0 * x + rng.random::<f64>() > 0.5));
            entries.push(Rating {
                row: row as u32,
                column: columns[n] as u32,
                value,
            });
        }
    }
    Ratings::new(USERS, ITEMS, &entries).expect("distinct places")
}

fn base() -> BaseConfig {
    let limits = VbLimits {
        max_iterations: 5,
        tolerance: 0.0,
    };
    BaseConfig {
        limits,
        ..Default::default()
    }
}

fn likes(n: u32) -> Likes {
    let pairs: Vec<(u32, bool)> = (0..n).map(|i| (3 * i, i % 2 == 0)).collect();
    Likes::new(ITEMS, &pairs).expect("items in range")
}

fn iteration(c: &mut Criterion) {
    let likes = LikeMatrix::new(&ratings(), 1.0).unwrap();
    let mut em = BaseEm::new(&likes, None, &base(), 0).expect("sound data");
    let mut group = c.benchmark_group("hbrec");
    group
        .sample_size(10)
        .throughput(Throughput::Elements((USERS * PER_USER) as u64));
    group.bench_function("iteration of the base", |b| {
        b.iter(|| em.step().expect("sound data"))
    });
    group.finish();
}

fn recommendation(c: &mut Criterion) {
    let fit = HbrecConfig {
        base: BaseDistribution::Learned(base()),
        ..Default::default()
    };
    let config = RecommenderConfig {
        fit,
        ..Default::default()
    };
    let mut recommender = Recommender::fit(&ratings(), None, &config).expect("sound data");
    let mut group = c.benchmark_group("hbrec");
    group.sample_size(20);
    let twenty = likes(20);
    group.bench_function("list of ten for a new user", |b| {
        b.iter(|| {
            let profile = recommender.profile(&twenty).expect("known items");
            recommender
                .top(&profile, 10)
                .expect("a profile of this recommender")
        });
    });
    let two_hundred = likes(200);
    group.bench_function("add a user of 200 ratings", |b| {
        b.iter(|| {
            recommender
                .add_user(two_hundred.clone())
                .expect("known items")
        });
    });
    group.finish();
}

criterion_group!(benches, iteration, recommendation);
criterion_main!(benches);
