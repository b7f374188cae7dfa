//! Hot routines of npb-data, each with the direct way beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use npb_data::read::{DelimitedOptions, MovieLens, movielens, table};
use npb_data::{Rating, Ratings, Standardiser, Table, metrics};
use npb_infer::{Xoshiro256PlusPlus, stream};
use rand::RngExt;

fn generator(key: u64) -> Xoshiro256PlusPlus {
    stream(2, [key, 0, 0, 0])
}

/// A table with a quarter of the cells missing; rows draw their pattern from `n_patterns`.
fn incomplete(n_rows: usize, n_cols: usize, n_patterns: usize) -> Table {
    let mut rng = generator(0);
    let pattern = |_| -> Vec<bool> { (0..n_cols).map(|_| rng.random::<f64>() >= 0.25).collect() };
    let patterns: Vec<Vec<bool>> = (0..n_patterns).map(pattern).collect();
    let observed: Vec<bool> = (0..n_rows)
        .flat_map(|i| patterns[i % n_patterns].iter().copied())
        .collect();
    let values = (0..n_rows * n_cols).map(|_| rng.random()).collect();
    Table::new(n_rows, n_cols, values, &observed).expect("a valid table")
}

fn patterns(c: &mut Criterion) {
    let mut group = c.benchmark_group("patterns_10000_x_34");
    for n_patterns in [100, 10_000] {
        let table = incomplete(10_000, 34, n_patterns);
        group.bench_function(BenchmarkId::new("index", n_patterns), |b| {
            b.iter(|| black_box(&table).patterns());
        });
        group.bench_function(BenchmarkId::new("map_of_flags", n_patterns), |b| {
            b.iter(|| {
                let mut rows_of: BTreeMap<Vec<bool>, Vec<usize>> = BTreeMap::new();
                for i in 0..table.n_rows() {
                    let flags = (0..34).map(|j| table.is_observed(i, j)).collect();
                    rows_of.entry(flags).or_default().push(i);
                }
                rows_of
            });
        });
    }
    group.finish();

    let table = incomplete(10_000, 34, 10_000);
    let mut group = c.benchmark_group("standardise_10000_x_34");
    group.bench_function("fit_and_apply", |b| {
        b.iter(|| Standardiser::fit(&table).apply(&table));
    });
    group.finish();
}

fn csv_text(n_rows: usize, n_cols: usize) -> String {
    let mut rng = generator(1);
    let mut text = String::new();
    for _ in 0..n_rows {
        for j in 0..n_cols {
            let value = rng.random::<f64>();
            let separator = if j + 1 < n_cols { ',' } else { '\n' };
            write!(text, "{value:.6}{separator}").expect("strings take text");
        }
    }
    text
}

fn reading(c: &mut Criterion) {
    let text = csv_text(10_000, 34);
    // Quotes in the last row only: they choose the slower way for the whole file.
    let quoted = format!("{text}\"0.5\",{}", csv_text(1, 33));
    let options = DelimitedOptions {
        header: false,
        ..DelimitedOptions::default()
    };
    let mut group = c.benchmark_group("csv_10000_x_34");
    group.bench_function("table", |b| {
        b.iter(|| table("bench.csv", text.as_bytes(), &options).expect("numbers"));
    });
    group.bench_function("table_with_a_quoted_row", |b| {
        b.iter(|| table("bench.csv", quoted.as_bytes(), &options).expect("numbers"));
    });
    group.bench_function("split_and_parse", |b| {
        b.iter(|| {
            let fields = text.lines().flat_map(|line| line.split(','));
            fields
                .map(|field| field.parse().expect("a number"))
                .collect::<Vec<f64>>()
        });
    });
    group.finish();
}

/// As many entries as MovieLens 1M, in no order.
fn entries() -> Vec<Rating> {
    let mut rng = generator(2);
    let (n_rows, n_cols, density) = (6040_u32, 3706_u32, 0.0447);
    let mut entries: Vec<Rating> = Vec::new();
    for row in 0..n_rows {
        for column in 0..n_cols {
            if rng.random::<f64>() < density {
                let value = f64::from(rng.random_range(1..=5));
                entries.push(Rating { row, column, value });
            }
        }
    }
    for k in (1..entries.len()).rev() {
        entries.swap(k, rng.random_range(0..=k));
    }
    entries
}

fn ratings(c: &mut Criterion) {
    let entries = entries();
    let mut group = c.benchmark_group("ratings_1m");
    group.sample_size(10);
    group.bench_function("both_views", |b| {
        b.iter(|| Ratings::new(6040, 3706, &entries).expect("valid"));
    });
    group.bench_function("two_sorted_copies", |b| {
        b.iter_batched(
            || (entries.clone(), entries.clone()),
            |(mut by_row, mut by_column)| {
                by_row.sort_unstable_by_key(|e| (e.row, e.column));
                by_column.sort_unstable_by_key(|e| (e.column, e.row));
                (by_row, by_column)
            },
            BatchSize::LargeInput,
        );
    });
    let lines = entries[..100_000]
        .iter()
        .fold(String::new(), |mut text, e| {
            writeln!(text, "{}::{}::{}::978300760", e.row, e.column, e.value)
                .expect("strings take text");
            text
        });
    group.bench_function("read_100k_lines", |b| {
        b.iter(|| {
            movielens("ratings.dat", lines.as_bytes(), MovieLens::DoubleColon).expect("valid")
        });
    });
    group.bench_function("split_and_parse_100k_lines", |b| {
        b.iter(|| {
            let fields = |line: &str| -> Vec<f64> {
                line.split("::")
                    .map(|f| f.parse().expect("a number"))
                    .collect()
            };
            lines.lines().map(fields).collect::<Vec<_>>()
        });
    });
    group.finish();
}

fn auc(c: &mut Criterion) {
    let mut rng = generator(3);
    let scores: Vec<f64> = (0..100_000).map(|_| rng.random()).collect();
    let positive: Vec<bool> = scores.iter().map(|s| rng.random::<f64>() < *s).collect();
    let mut group = c.benchmark_group("auc");
    for n in [2000, 100_000] {
        group.bench_function(BenchmarkId::new("ours", n), |b| {
            b.iter(|| metrics::auc(&scores[..n], &positive[..n]).expect("two classes"));
        });
    }
    group.bench_function(BenchmarkId::new("all_pairs", 2000), |b| {
        b.iter(|| all_pairs(&scores[..2000], &positive[..2000]));
    });
    group.finish();
}

fn all_pairs(scores: &[f64], positive: &[bool]) -> f64 {
    let (mut won, mut pairs) = (0.0, 0.0);
    for (high, _) in scores.iter().zip(positive).filter(|(_, p)| **p) {
        for (low, _) in scores.iter().zip(positive).filter(|(_, p)| !**p) {
            pairs += 1.0;
            won += f64::from(u8::from(high > low)) + 0.5 * f64::from(u8::from(high == low));
        }
    }
    won / pairs
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(10);
    targets = patterns, reading, ratings, auc
}
criterion_main!(benches);
