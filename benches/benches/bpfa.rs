//! Sweeps of npb-bpfa on one thread: patches of a simulated image, complete and with most pixels missing.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use npb_bpfa::npb_data::{Image, PatchGrid, PatchSums};
use npb_bpfa::npb_infer::stream;
use npb_bpfa::{BpfaConfig, BpfaMove, BpfaRows, BpfaSampler};
use rand::RngExt;
use rand_distr::StandardNormal;

const SIDE: usize = 96;

/// Waves of several directions with noise, centred, of order 1.
fn image() -> Image {
    let mut rng = stream(1, [0; 4]);
    let value = |i: usize| {
        let (r, c) = ((i / SIDE) as f32, (i % SIDE) as f32);
        let wave = (0.3 * r).sin() + (0.2 * c + 0.1 * r).cos() + (0.05 * r * c / 20.0).sin();
        0.15 * wave + 0.05 * rng.sample::<f32, _>(StandardNormal)
    };
    let values = (0..SIDE * SIDE).map(value).collect();
    Image::new(SIDE, SIDE, 1, values).expect("finite values")
}

fn rows(image: &Image, grid: &PatchGrid, observed: f64) -> BpfaRows {
    let mut rng = stream(2, [0; 4]);
    let seen: Vec<bool> = (0..SIDE * SIDE)
        .map(|_| rng.random::<f64>() < observed)
        .collect();
    let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for patch in 0..grid.n_patches() {
        for (column, entry) in grid.entries(patch).enumerate().filter(|(_, e)| seen[*e]) {
            columns.push(column as u32);
            values.push(image.values()[entry]);
        }
        starts.push(values.len());
    }
    BpfaRows::new(grid.patch_len(), &starts, columns, values).expect("columns ascend")
}

fn sweeps(criterion: &mut Criterion) {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .expect("a pool");
    let image = image();
    let grid = PatchGrid::new(image.size(), [8, 8, 1], [1, 1, 1]).expect("patches fit");
    let mut group = criterion.benchmark_group("bpfa");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(grid.n_patches() as u64));
    for observed in [1.0, 0.2] {
        let rows = rows(&image, &grid, observed);
        let mut sampler = BpfaSampler::new(&rows, BpfaConfig::images()).expect("a start");
        pool.install(|| (0..20).for_each(|_| sampler.sweep().expect("a sweep")));
        for step in [
            BpfaMove::Scores,
            BpfaMove::Dictionary,
            BpfaMove::CollapsedSwitches,
            BpfaMove::NoisePrecision,
        ] {
            let id = BenchmarkId::new(format!("{step:?}"), format!("observed {observed}"));
            group.bench_function(id, |b| {
                pool.install(|| b.iter(|| sampler.sweep_with(&[step]).expect("a move")));
            });
        }
        let mut sums = PatchSums::new(grid, true);
        group.bench_function(
            BenchmarkId::new("average", format!("observed {observed}")),
            |b| {
                pool.install(|| {
                    b.iter(|| sums.add(|patch, out| sampler.reconstruct(patch..patch + 1, out)))
                });
            },
        );
    }
    group.finish();
}

criterion_group!(benches, sweeps);
criterion_main!(benches);
