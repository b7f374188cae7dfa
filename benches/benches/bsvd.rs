//! Moves of npb-bsvd on one thread: a million simulated entries, the number of active components fixed.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use npb_bsvd::{
    BsvdConfig, BsvdData, BsvdMove, BsvdSampler, FactorUpdate, Features, Likelihood,
    SideInformation,
};
use npb_data::{Rating, Ratings};
use npb_infer::SweepPlan;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const ROWS: usize = 5_000;
const COLUMNS: usize = 1_000;
const PER_ROW: usize = 200;
const RANK: usize = 8;

/// Levels 1 to 5 that follow a matrix of rank 8, each row with as many entries at random places.
fn ratings() -> Ratings<f32> {
    let mut rng = SmallRng::seed_from_u64(1);
    let mut uniform =
        |n: usize| -> Vec<f64> { (0..n).map(|_| rng.random::<f64>() - 0.5).collect() };
    let (u, v) = (uniform(ROWS * RANK), uniform(COLUMNS * RANK));
    let mut entries = Vec::with_capacity(ROWS * PER_ROW);
    for row in 0..ROWS {
        let mut columns: Vec<usize> = (0..COLUMNS).collect();
        for n in 0..PER_ROW {
            columns.swap(n, rng.random_range(n..COLUMNS));
            let column = columns[n];
            let x: f64 = (0..RANK)
                .map(|k| u[row * RANK + k] * v[column * RANK + k])
                .sum();
            let level = (3.0 + 3.0 * x + 2.0 * (rng.random::<f64>() - 0.5)).round();
            entries.push(Rating {
                row: row as u32,
                column: column as u32,
                value: level.clamp(1.0, 5.0) as f32,
            });
        }
    }
    Ratings::new(ROWS, COLUMNS, &entries).expect("distinct places")
}

fn config(rank: usize) -> BsvdConfig {
    BsvdConfig {
        candidates: rank,
        max_candidates: rank,
        sweeps: SweepPlan {
            burn_in: 0,
            keep: 1_000_000,
            thin: 1,
        },
        ..BsvdConfig::default()
    }
}

fn without_switches(mut config: BsvdConfig) -> BsvdConfig {
    config.moves.retain(|s| s.step != BsvdMove::Switches);
    config
}

fn one_thread(f: impl FnOnce() + Send) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.expect("one thread").install(f);
}

fn sweeps(c: &mut Criterion) {
    let ratings = ratings();
    let mut group = c.benchmark_group("bsvd/sweep");
    group
        .sample_size(10)
        .throughput(Throughput::Elements((ROWS * PER_ROW) as u64));
    for update in [FactorUpdate::Joint, FactorUpdate::Coordinate] {
        for rank in [8, 16, 32, 64] {
            let config = BsvdConfig {
                factor_update: update,
                ..without_switches(config(rank))
            };
            let data =
                BsvdData::new(&ratings, SideInformation::default(), &config).expect("good data");
            let mut sampler = BsvdSampler::new(&data, config).expect("good settings");
            sampler.sweep().expect("a sweep");
            let id = BenchmarkId::new(format!("{update:?}"), rank);
            group.bench_function(id, |b| {
                one_thread(|| b.iter(|| sampler.sweep().expect("a sweep")))
            });
        }
    }
    group.finish();
}

fn variants(c: &mut Criterion) {
    let ratings = ratings();
    let mut group = c.benchmark_group("bsvd/variants_16");
    group
        .sample_size(10)
        .throughput(Throughput::Elements((ROWS * PER_ROW) as u64));
    let plain = without_switches(config(16));
    let ordinal = BsvdConfig {
        likelihood: Likelihood::Ordinal { levels: 5 },
        ..plain.clone()
    };
    let mut rng = SmallRng::seed_from_u64(2);
    let mut features = |n: usize| {
        let values: Vec<f64> = (0..n * 20).map(|_| rng.random::<f64>() - 0.5).collect();
        Features::dense(n, 20, &values).expect("good features")
    };
    let side = SideInformation {
        rows: Some(features(ROWS)),
        columns: Some(features(COLUMNS)),
    };
    for (name, config, side) in [
        ("ordinal", ordinal, SideInformation::default()),
        ("20_features_each", plain, side),
    ] {
        let data = BsvdData::new(&ratings, side, &config).expect("good data");
        let mut sampler = BsvdSampler::new(&data, config).expect("good settings");
        group.bench_function(name, |b| {
            one_thread(|| b.iter(|| sampler.sweep().expect("a sweep")))
        });
    }
    let config = config(32);
    let data = BsvdData::new(&ratings, SideInformation::default(), &config).expect("good data");
    let mut sampler = BsvdSampler::new(&data, config).expect("good settings");
    group.bench_function("switches_of_32", |b| {
        one_thread(|| b.iter(|| sampler.apply(BsvdMove::Switches).expect("a move")));
    });
    group.finish();
}

criterion_group!(benches, sweeps, variants);
criterion_main!(benches);
