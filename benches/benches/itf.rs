//! Sweeps and predictions of npb-itf on one thread: two independent groups of mixed columns with three clusters each.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use npb_data::{MixedColumn, MixedTable};
use npb_infer::{SweepPlan, stream};
use npb_itf::{ItfConfig, ItfData, ItfMove, ItfSampler, Structure, fit};
use rand::RngExt;
use rand_distr::{Distribution, Poisson, StandardNormal};

/// Real, count and categorical columns in turn, a tenth of the cells missing.
fn table(n_rows: usize, n_columns: usize) -> MixedTable {
    let rng = &mut stream(1, [0; 4]);
    let clusters: Vec<Vec<usize>> = (0..2)
        .map(|_| (0..n_rows).map(|_| rng.random_range(0..3)).collect())
        .collect();
    let column = |j: usize| {
        let turn = rng.random_range(0..3);
        let clusters = clusters[j * 2 / n_columns].iter().map(|z| (z + turn) % 3);
        match j % 3 {
            0 => MixedColumn::Real(
                clusters
                    .map(|z| {
                        let noise: f64 = rng.sample(StandardNormal);
                        (rng.random::<f64>() > 0.1).then_some(3.0 * z as f64 + noise)
                    })
                    .collect(),
            ),
            1 => MixedColumn::Count(
                clusters
                    .map(|z| {
                        let mean = [2.0, 8.0, 20.0][z];
                        let count: f64 = Poisson::new(mean).expect("positive").sample(rng);
                        (rng.random::<f64>() > 0.1).then_some(count as u64)
                    })
                    .collect(),
            ),
            _ => MixedColumn::Categorical {
                levels: ["a", "b", "c"].map(String::from).to_vec(),
                codes: clusters
                    .map(|z| {
                        let random = rng.random_range(0..3);
                        let code = if rng.random::<f64>() < 0.8 { z } else { random };
                        (rng.random::<f64>() > 0.1).then_some(code as u32)
                    })
                    .collect(),
            },
        }
    };
    let columns = (0..n_columns).map(column).collect();
    let names = (0..n_columns).map(|j| format!("c{j}")).collect();
    MixedTable::new(names, columns).expect("columns of one length")
}

fn config(structure: Structure) -> ItfConfig {
    ItfConfig {
        structure,
        ..ItfConfig::default()
    }
}

/// A chain that has settled.
fn settled(data: &ItfData, structure: Structure, sweeps: usize) -> ItfSampler<'_> {
    let mut sampler = ItfSampler::new(data, config(structure), 0).expect("good input");
    (0..sweeps).for_each(|_| sampler.sweep());
    sampler
}

const STRUCTURES: [(&str, Structure); 3] = [
    ("tensor", Structure::Tensor),
    ("joint", Structure::Joint),
    ("tensor_blocks", Structure::TensorBlocks),
];

fn sweeps(c: &mut Criterion) {
    let mut group = c.benchmark_group("itf_sweep_20_columns");
    group
        .sample_size(20)
        .measurement_time(Duration::from_secs(5));
    for n_rows in [1_000, 10_000] {
        let data = ItfData::from_table(&table(n_rows, 20)).expect("a good table");
        for (name, structure) in STRUCTURES {
            let mut sampler = settled(&data, structure, 200);
            group.bench_function(BenchmarkId::new(name, n_rows), |b| {
                b.iter(|| sampler.sweep())
            });
        }
    }
}

/// Each move of the default sweep by itself.
fn moves(c: &mut Criterion) {
    let mut group = c.benchmark_group("itf_move_1000_rows_20_columns");
    group
        .sample_size(20)
        .measurement_time(Duration::from_secs(2));
    let data = ItfData::from_table(&table(1_000, 20)).expect("a good table");
    let mut sampler = settled(&data, Structure::TensorBlocks, 200);
    let mut position = 0;
    for which in ItfMove::ALL {
        group.bench_function(format!("{which:?}"), |b| {
            b.iter(|| {
                position += 1;
                sampler.apply(which, position);
            });
        });
    }
}

/// Time against rows, and against columns.
fn scaling(c: &mut Criterion) {
    let mut group = c.benchmark_group("itf_scaling");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(5));
    let shapes = [
        (1_000, 20),
        (10_000, 20),
        (100_000, 20),
        (1_000_000, 20),
        (1_000, 40),
        (1_000, 80),
    ];
    for (n_rows, n_columns) in shapes {
        let data = ItfData::from_table(&table(n_rows, n_columns)).expect("a good table");
        let mut sampler = settled(
            &data,
            Structure::TensorBlocks,
            if n_rows > 10_000 { 5 } else { 200 },
        );
        let id = BenchmarkId::new("tensor_blocks", format!("{n_rows}x{n_columns}"));
        group.bench_function(id, |b| b.iter(|| sampler.sweep()));
    }
}

fn prediction(c: &mut Criterion) {
    let mut group = c.benchmark_group("itf_prediction");
    group.sample_size(10);
    let table = table(1_000, 20);
    let config = ItfConfig {
        chains: 1,
        sweeps: SweepPlan {
            burn_in: 100,
            keep: 50,
            thin: 1,
        },
        ..ItfConfig::default()
    };
    let model = fit(&table, &config).expect("a good table");
    let rows = model
        .rows(&table.select_rows(&(0..100).collect::<Vec<_>>()))
        .expect("its own rows");
    group.bench_function("ln_density_100_rows_50_draws", |b| {
        b.iter(|| black_box(model.ln_density(&rows)))
    });
    group.bench_function("impute_100_rows_50_draws", |b| {
        b.iter(|| black_box(model.impute_cells(&rows, 0.9)))
    });
}

fn on_one_thread(c: &mut Criterion) {
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()
        .expect("the pool has not been used yet");
    sweeps(c);
    moves(c);
    prediction(c);
    scaling(c);
}

criterion_group!(benches, on_one_thread);
criterion_main!(benches);
