//! Hot routines of npb-infer, each with the direct way beside it.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use npb_infer::diagnostics::ChainDiagnostics;
use npb_infer::{Xoshiro256PlusPlus, storage, stream};
use rand::{Rng, RngExt, SeedableRng};

fn streams(c: &mut Criterion) {
    let mut group = c.benchmark_group("stream");
    let mut item = 0;
    group.bench_function("keyed", |b| {
        b.iter(|| {
            item += 1;
            stream(7, black_box([0, 3, 1, item])).next_u64()
        });
    });
    group.bench_function("seeded", |b| {
        b.iter(|| {
            item += 1;
            Xoshiro256PlusPlus::seed_from_u64(black_box(item)).next_u64()
        });
    });
    group.bench_function("one_more_draw", |b| {
        let mut rng = stream(7, [0; 4]);
        b.iter(|| rng.next_u64());
    });
    group.finish();
}

/// A million numbers as one vector, and as the rows of a factor matrix.
fn saved_models(c: &mut Criterion) {
    let mut rng = stream(7, [1, 0, 0, 0]);
    let numbers: Vec<f64> = (0..1_000_000).map(|_| rng.random()).collect();
    let rows: Vec<Vec<f64>> = numbers.chunks(10).map(<[f64]>::to_vec).collect();
    let mut group = c.benchmark_group("storage_8_mb");
    group.bench_function("encode", |b| {
        b.iter(|| storage::to_bytes("bench", "0", &numbers).expect("encodes"));
    });
    group.bench_function("encode_raw", |b| {
        b.iter(|| {
            let bytes = black_box(&numbers).iter().flat_map(|x| x.to_le_bytes());
            bytes.collect::<Vec<u8>>()
        });
    });
    let bytes = storage::to_bytes("bench", "0", &numbers).expect("encodes");
    group.bench_function("decode", |b| {
        b.iter(|| storage::from_bytes::<Vec<f64>>("bench", &bytes).expect("decodes"));
    });
    group.bench_function("decode_raw", |b| {
        b.iter(|| {
            let words = black_box(&bytes).as_chunks::<8>().0.iter();
            words.map(|w| f64::from_le_bytes(*w)).collect::<Vec<f64>>()
        });
    });
    let bytes = storage::to_bytes("bench", "0", &rows).expect("encodes");
    group.bench_function("decode_rows_of_10", |b| {
        b.iter(|| storage::from_bytes::<Vec<Vec<f64>>>("bench", &bytes).expect("decodes"));
    });
    group.finish();
}

/// Four chains x_t = `memory` x_{t-1} + noise.
fn chains(length: usize, memory: f64) -> Vec<Vec<f64>> {
    (0..4)
        .map(|chain| {
            let rng = &mut stream(7, [2, chain, 0, 0]);
            let mut x = 0.0;
            let mut next = || {
                x = memory * x + rng.random::<f64>() - 0.5;
                x
            };
            (0..length).map(|_| next()).collect()
        })
        .collect()
}

fn diagnostics(c: &mut Criterion) {
    let mut group = c.benchmark_group("diagnostics_4_chains");
    for (length, memory) in [(1000, 0.0), (1000, 0.99), (20_000, 0.99)] {
        let chains = chains(length, memory);
        let id = format!("{length}_memory_{memory}");
        group.bench_function(BenchmarkId::new("all_six", &id), |b| {
            b.iter(|| ChainDiagnostics::new(black_box(&chains)));
        });
        if length <= 1000 {
            group.bench_function(BenchmarkId::new("autocovariances_at_all_lags", &id), |b| {
                b.iter(|| all_lags(black_box(&chains)));
            });
        }
    }
    group.finish();
}

/// What an effective sample size needs when every lag is computed; four of the six numbers need it.
fn all_lags(chains: &[Vec<f64>]) -> f64 {
    let of_chain = |x: &Vec<f64>| {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let at = |lag: usize| -> f64 {
            x[lag..]
                .iter()
                .zip(x)
                .map(|(a, b)| (a - mean) * (b - mean))
                .sum()
        };
        (0..x.len()).map(at).sum::<f64>()
    };
    chains.iter().map(of_chain).sum()
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(10);
    targets = streams, saved_models, diagnostics
}
criterion_main!(benches);
