//! Hot routines of npb-linalg, each with the direct dense formula beside it.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use npb_linalg::Cholesky;
use npb_linalg::condition::{Gaussian, Scratch};
use npb_linalg::faer::linalg::solvers::DenseSolveCore;
use npb_linalg::faer::{Mat, MatRef, Side};
use npb_linalg::lanes::{LaneGaussian, LaneScratch};
use npb_linalg::svd::{SparseRows, SvdLimits, truncated_svd};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const P: usize = 34;
const COMPONENTS: usize = 20;

type Pattern = (Vec<usize>, Vec<usize>);

fn uniform(rng: &mut SmallRng) -> f64 {
    2.0 * rng.random::<f64>() - 1.0
}

fn spd(n: usize, rng: &mut SmallRng) -> Mat<f64> {
    let g = Mat::from_fn(n, n + 3, |_, _| uniform(rng));
    let mut a = &g * g.transpose();
    (0..n).for_each(|i| a[(i, i)] += 1.0);
    a
}

/// Each coordinate is missing with the given probability.
fn patterns(count: usize, missing: f64, rng: &mut SmallRng) -> Vec<Pattern> {
    (0..count)
        .map(|_| (0..P).partition(|_| rng.random::<f64>() >= missing))
        .collect()
}

fn rows(count: usize, rng: &mut SmallRng) -> Vec<Vec<f64>> {
    (0..count)
        .map(|_| (0..P).map(|_| uniform(rng)).collect())
        .collect()
}

fn block(a: MatRef<'_, f64>, rows: &[usize], cols: &[usize]) -> Mat<f64> {
    Mat::from_fn(rows.len(), cols.len(), |i, j| a[(rows[i], cols[j])])
}

/// The textbook formula: regression matrix and covariance from a dense inverse of S_oo.
fn direct_pattern(s: MatRef<'_, f64>, (observed, missing): &Pattern) -> (Mat<f64>, Mat<f64>) {
    let s_mo = block(s, missing, observed);
    let inverse = block(s, observed, observed)
        .llt(Side::Lower)
        .expect("positive definite")
        .inverse();
    let regression = &s_mo * inverse;
    let covariance = block(s, missing, missing) - &regression * s_mo.transpose();
    (regression, covariance)
}

fn direct_mean(
    mean: &[f64],
    regression: &Mat<f64>,
    (observed, missing): &Pattern,
    row: &[f64],
) -> Mat<f64> {
    let deviation = Mat::from_fn(observed.len(), 1, |i, _| {
        row[observed[i]] - mean[observed[i]]
    });
    let shift = regression * deviation;
    Mat::from_fn(missing.len(), 1, |i, _| mean[missing[i]] + shift[(i, 0)])
}

/// Mean and covariance of one row.
fn direct(
    mean: &[f64],
    s: MatRef<'_, f64>,
    pattern: &Pattern,
    row: &[f64],
) -> (Mat<f64>, Mat<f64>) {
    let (regression, covariance) = direct_pattern(s, pattern);
    (direct_mean(mean, &regression, pattern, row), covariance)
}

/// One Gaussian, 100 rows: all with one pattern, or each with its own. Mean and covariance of the missing coordinates.
fn conditioning(c: &mut Criterion) {
    let mut rng = SmallRng::seed_from_u64(1);
    let s = spd(P, &mut rng);
    let mean = vec![0.5; P];
    let gaussian = Gaussian::from_covariance(&mean, s.as_ref()).expect("positive definite");
    let rows = rows(100, &mut rng);
    let own = patterns(100, 0.25, &mut rng);
    let shared = own[0].clone();
    let mut scratch = Scratch::default();
    let mut row = vec![0.0; P];

    let mut group = c.benchmark_group("conditioning_100_rows");
    group.bench_function("shared_pattern", |b| {
        b.iter(|| {
            let mut given = gaussian
                .condition(&shared.0, &shared.1, &mut scratch)
                .expect("positive definite");
            black_box(given.covariance());
            for x in &rows {
                row.copy_from_slice(x);
                given.complete(&mut row);
                black_box(&row);
            }
        });
    });
    group.bench_function("shared_pattern_direct", |b| {
        b.iter(|| {
            rows.iter()
                .for_each(|x| drop(black_box(direct(&mean, s.as_ref(), &shared, x))))
        });
    });
    group.bench_function("shared_pattern_direct_once", |b| {
        b.iter(|| {
            let (regression, covariance) = direct_pattern(s.as_ref(), &shared);
            black_box(covariance);
            rows.iter()
                .for_each(|x| drop(black_box(direct_mean(&mean, &regression, &shared, x))));
        });
    });
    group.bench_function("own_patterns", |b| {
        b.iter(|| {
            for (x, (observed, missing)) in rows.iter().zip(&own) {
                let mut given = gaussian
                    .condition(observed, missing, &mut scratch)
                    .expect("positive definite");
                black_box(given.covariance());
                row.copy_from_slice(x);
                given.complete(&mut row);
                black_box(&row);
            }
        });
    });
    group.bench_function("own_patterns_direct", |b| {
        b.iter(|| {
            rows.iter()
                .zip(&own)
                .for_each(|(x, own)| drop(black_box(direct(&mean, s.as_ref(), own, x))))
        });
    });
    group.finish();
}

/// Twenty components, 100 rows, each with its own pattern: what one variational sweep of a mixture does.
fn lanes(c: &mut Criterion) {
    let mut rng = SmallRng::seed_from_u64(2);
    let precisions: Vec<Mat<f64>> = (0..COMPONENTS).map(|_| spd(P, &mut rng)).collect();
    let mut bank = LaneGaussian::new(P, COMPONENTS);
    for (h, precision) in precisions.iter().enumerate() {
        bank.set_precision(h, precision.as_ref())
            .expect("positive definite");
    }
    let gaussians: Vec<Gaussian> = precisions
        .iter()
        .map(|precision| {
            Gaussian::from_precision(&[0.0; P], precision.as_ref()).expect("positive definite")
        })
        .collect();
    let lanes = bank.lanes();
    let linear: Vec<f64> = (0..P * lanes).map(|_| uniform(&mut rng)).collect();
    let mut r = linear.clone();
    let mut quad = vec![0.0; lanes];
    let mut scratch = LaneScratch::default();
    let mut single = Scratch::default();

    let mut group = c.benchmark_group("mixture_100_rows");
    for missing in [0.25, 0.5, 0.75] {
        let patterns = patterns(100, missing, &mut rng);
        for with_covariance in [true, false] {
            let name = if with_covariance {
                "lanes"
            } else {
                "lanes_means_only"
            };
            group.bench_function(BenchmarkId::new(name, missing), |b| {
                b.iter(|| {
                    for (observed, missing) in &patterns {
                        let r = &mut r[..missing.len() * lanes];
                        r.copy_from_slice(&linear[..r.len()]);
                        let mut given = bank
                            .condition(observed, missing, &mut scratch)
                            .expect("positive definite");
                        if with_covariance {
                            black_box(given.covariance());
                        }
                        given.solve(r, &mut quad);
                        black_box((given.ln_det(), &*r, &quad));
                    }
                });
            });
        }
        group.bench_function(BenchmarkId::new("one_by_one", missing), |b| {
            let row = vec![0.5; P];
            b.iter(|| {
                for (observed, missing) in &patterns {
                    for gaussian in &gaussians {
                        let mut given = gaussian
                            .condition(observed, missing, &mut single)
                            .expect("positive definite");
                        given.mean(&row, &mut r[..missing.len()]);
                        black_box((given.ln_det_precision(), given.covariance()[(0, 0)], &r));
                    }
                }
            });
        });
    }
    group.finish();
}

fn factor(c: &mut Criterion) {
    let mut rng = SmallRng::seed_from_u64(3);
    let mut group = c.benchmark_group("factor");
    for n in [2, 4, 6, 8, 10, 12, 16, 24, 34, 64, 128] {
        let a = spd(n, &mut rng);
        let mut factor = Cholesky::default();
        group.bench_function(BenchmarkId::new("reused", n), |b| {
            b.iter(|| black_box(factor.factor(black_box(a.as_ref()))).expect("positive definite"));
        });
        group.bench_function(BenchmarkId::new("faer", n), |b| {
            b.iter(|| {
                black_box(black_box(a.as_ref()).llt(Side::Lower)).expect("positive definite")
            });
        });
    }
    group.finish();
}

fn solve_and_invert(c: &mut Criterion) {
    let mut rng = SmallRng::seed_from_u64(4);
    let mut group = c.benchmark_group("after_factor");
    for n in [4, 8, 16, 34, 64, 128] {
        let a = spd(n, &mut rng);
        let factor = Cholesky::new(a.as_ref()).expect("positive definite");
        let dense = a.llt(Side::Lower).expect("positive definite");
        let inverse = dense.inverse();
        let mut b_vector = vec![1.0; n];
        let mut out = Mat::zeros(n, n);
        group.bench_function(BenchmarkId::new("solve", n), |b| {
            b.iter(|| {
                b_vector.fill(1.0);
                factor.solve(black_box(&mut b_vector));
            });
        });
        group.bench_function(BenchmarkId::new("multiply_by_inverse", n), |b| {
            let ones = Mat::<f64>::ones(n, 1);
            b.iter(|| black_box(&inverse * black_box(&ones)));
        });
        group.bench_function(BenchmarkId::new("inverse", n), |b| {
            b.iter(|| factor.inverse_into(black_box(out.as_mut())));
        });
        group.bench_function(BenchmarkId::new("inverse_faer", n), |b| {
            b.iter(|| black_box(dense.inverse()))
        });
        group.bench_function(BenchmarkId::new("ln_det", n), |b| {
            b.iter(|| black_box(&factor).ln_det())
        });
    }
    group.finish();
}

fn rank_one(c: &mut Criterion) {
    let mut rng = SmallRng::seed_from_u64(5);
    let mut group = c.benchmark_group("rank_one");
    for n in [8, 34, 128] {
        let a = spd(n, &mut rng);
        let x: Vec<f64> = (0..n).map(|_| uniform(&mut rng)).collect();
        let changed = Mat::from_fn(n, n, |i, j| a[(i, j)] + x[i] * x[j]);
        let mut factor = Cholesky::new(a.as_ref()).expect("positive definite");
        let mut work = x.clone();
        group.bench_function(BenchmarkId::new("update_and_downdate", n), |b| {
            b.iter(|| {
                work.copy_from_slice(&x);
                factor.update(&mut work).expect("finite");
                work.copy_from_slice(&x);
                factor.downdate(&mut work).expect("positive definite");
            });
        });
        group.bench_function(BenchmarkId::new("two_fresh_factors", n), |b| {
            b.iter(|| {
                factor
                    .factor(black_box(changed.as_ref()))
                    .expect("positive definite");
                factor
                    .factor(black_box(a.as_ref()))
                    .expect("positive definite");
            });
        });
    }
    group.finish();
}

/// Ten singular triplets of a 0/1 pattern with 5% ones.
fn sparse_svd(c: &mut Criterion) {
    let mut rng = SmallRng::seed_from_u64(6);
    let (n_rows, n_cols) = (1000, 400);
    let mut offsets = vec![0];
    let mut columns = Vec::new();
    for _ in 0..n_rows {
        columns.extend((0..n_cols as u32).filter(|_| rng.random::<f64>() < 0.05));
        offsets.push(columns.len());
    }
    let matrix = SparseRows::new(n_cols, &offsets, &columns, None).expect("arrays fit together");
    let mut dense = Mat::<f64>::zeros(n_rows, n_cols);
    for row in 0..n_rows {
        columns[offsets[row]..offsets[row + 1]]
            .iter()
            .for_each(|&column| dense[(row, column as usize)] = 1.0);
    }
    let mut group = c.benchmark_group("svd_1000_x_400");
    group.sample_size(10);
    group.bench_function("ten_triplets", |b| {
        b.iter(|| {
            truncated_svd(
                &matrix,
                10,
                &SvdLimits::default(),
                &mut SmallRng::seed_from_u64(7),
            )
        });
    });
    group.bench_function("dense", |b| b.iter(|| dense.thin_svd()));
    group.finish();
}

criterion_group!(
    benches,
    conditioning,
    lanes,
    factor,
    solve_and_invert,
    rank_one,
    sparse_svd
);
criterion_main!(benches);
