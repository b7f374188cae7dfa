//! Iterations of the factor-analytic variant of npb-iqgme on one thread: processor time, so that other work on the machine counts little.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Throughput, criterion_group, criterion_main};
use npb_benches::{Processor, on_processor_time, one_thread};
use npb_data::{Labels, Table};
use npb_iqgme::{FactorConfig, FactorData, FactorInit, FactorState, FactorVb, FeatureScale};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Factors that the rows have; a run begins with 50.
const FACTORS: usize = 10;

/// Nearly normal: the sum of four uniform numbers, scaled to variance 1.
fn bell(rng: &mut SmallRng) -> f64 {
    let sum: f64 = (0..4).map(|_| rng.random::<f64>() - 0.5).sum();
    sum * 3f64.sqrt()
}

fn simulated(n_rows: usize, n_features: usize, missing: f64) -> (Table, Labels) {
    let mut rng = SmallRng::seed_from_u64(1);
    let loadings: Vec<f64> = (0..n_features * FACTORS)
        .map(|_| 0.4 * bell(&mut rng))
        .collect();
    let (mut values, mut seen, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..n_rows {
        let s: Vec<f64> = (0..FACTORS).map(|_| bell(&mut rng)).collect();
        for a in loadings.chunks_exact(FACTORS) {
            let common: f64 = a.iter().zip(&s).map(|(a, s)| a * s).sum();
            values.push(common + bell(&mut rng));
            seen.push(rng.random::<f64>() >= missing);
        }
        let score = s[0] + 0.3 * bell(&mut rng);
        labels.push(Some(if score > 0.0 { "yes" } else { "no" }));
    }
    let table = Table::new(n_rows, n_features, values, &seen).expect("finite values");
    (table, Labels::from_strings(&labels))
}

fn config() -> FactorConfig {
    FactorConfig {
        scale: FeatureScale::Standardised,
        ..FactorConfig::default()
    }
}

/// The first iteration of a run, with all columns in use or nearly so.
fn iterations(c: &mut Processor) {
    let mut group = c.benchmark_group("iqgme_factor_iteration");
    group.sample_size(10);
    for (n_rows, n_features, missing) in [
        (500, 2_500, 0.0),
        (500, 5_000, 0.0),
        (500, 10_000, 0.0),
        (1_000, 2_500, 0.0),
        (2_000, 2_500, 0.0),
        (121, 621, 0.2),
        (500, 2_500, 0.05),
    ] {
        let name = format!("{n_features}_features_{missing}_missing");
        let (table, labels) = simulated(n_rows, n_features, missing);
        let data = FactorData::new(&table, &labels, &config()).expect("proper data");
        group.throughput(Throughput::Elements((n_rows * n_features) as u64));
        let mut state: Option<FactorState> = None;
        group.bench_function(BenchmarkId::new(name, n_rows), |b| {
            let state = state.get_or_insert_with(|| {
                let vb = FactorVb::new(&data, config(), FactorInit::Pooled(2), 0);
                vb.expect("a start").into_state()
            });
            let first = || FactorVb::resume(&data, config(), state.clone(), &[]).expect("its own");
            b.iter_batched_ref(
                first,
                |vb| black_box(vb.step().expect("an iteration")),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = on_processor_time();
    targets = one_thread, iterations
}
criterion_main!(benches);
