//! npb-regbayes on one thread: fits of few iterations with latent features of rows and of columns, against rows and features.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use npb_data::{Labels, Table, Targets};
use npb_infer::{VbLimits, Xoshiro256PlusPlus, stream};
use npb_regbayes::tasks::TaskData;
use npb_regbayes::{
    FeatureConfig, IlsvmConfig, Inputs, Machine, MachineLimits, MtIlsvmConfig, Problem, Slack,
    classes, tasks,
};
use rand::RngExt;
use rand_distr::StandardNormal;

const COLUMNS: usize = 64;
const TRUE_FEATURES: usize = 10;
const CLASSES: usize = 5;
const LABELS: usize = 6;

fn normals(n: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    (0..n).map(|_| rng.sample(StandardNormal)).collect()
}

/// Rows with binary features, and the number of the features that are on in each.
fn rows(n: usize) -> (Table, Vec<usize>) {
    let rng = &mut stream(1, [0; 4]);
    let loadings = normals(TRUE_FEATURES * COLUMNS, rng);
    let (mut values, mut counts) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let mut row = normals(COLUMNS, rng);
        let mut count = 0;
        for feature in loadings.chunks_exact(COLUMNS) {
            if rng.random::<f64>() < 0.3 {
                row.iter_mut().zip(feature).for_each(|(x, w)| *x += 2.0 * w);
                count += 1;
            }
        }
        values.extend(row);
        counts.push(count);
    }
    (
        Table::complete(n, COLUMNS, values).expect("finite values"),
        counts,
    )
}

fn factors(truncation: usize, factors: FeatureConfig) -> FeatureConfig {
    FeatureConfig {
        truncation,
        growth: 0,
        warm_up: 1,
        ..factors
    }
}

/// Outer iterations of a fit.
const LIMITS: VbLimits = VbLimits {
    max_iterations: 2,
    tolerance: 0.0,
};

fn of_rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("ilsvm_two_iterations");
    for (n, k) in [(500, 20), (1000, 20), (2000, 20), (500, 40), (500, 80)] {
        let (table, counts) = rows(n);
        let names = (0..CLASSES).map(|c| c.to_string()).collect();
        let codes = counts.iter().map(|count| Some(count % CLASSES)).collect();
        let labels = Labels::from_codes(names, codes).expect("codes in range");
        let default = IlsvmConfig::default();
        let config = IlsvmConfig {
            limits: LIMITS,
            factors: factors(k, default.factors),
            ..default
        };
        group.bench_function(BenchmarkId::from_parameter(format!("{n}x{k}")), |b| {
            b.iter(|| classes::fit(&table, &labels, &config).expect("a fit"))
        });
    }
    group.finish();
}

fn of_columns(c: &mut Criterion) {
    let mut group = c.benchmark_group("mt_ilsvm_two_iterations");
    for (n, k) in [(500, 20), (1000, 20), (2000, 20), (500, 40)] {
        let (table, counts) = rows(n);
        let names = (0..LABELS).map(|l| format!("label{l}"));
        let cells = counts
            .iter()
            .flat_map(|count| (0..LABELS).map(move |l| Some(*count > l)));
        let targets = Targets::from_bools(names, &cells.collect::<Vec<_>>()).expect("one per cell");
        let data = TaskData::from_targets(table, &targets).expect("as many rows");
        let default = MtIlsvmConfig::default();
        let config = MtIlsvmConfig {
            limits: LIMITS,
            factors: factors(k, default.factors),
            cost: 0.01,
            ..default
        };
        group.bench_function(BenchmarkId::from_parameter(format!("{n}x{k}")), |b| {
            b.iter(|| tasks::fit(&data, &config).expect("a fit"))
        });
    }
    group.finish();
}

fn machines(c: &mut Criterion) {
    let mut group = c.benchmark_group("machine");
    for n in [1000, 4000] {
        let (table, counts) = rows(n);
        let positive: Vec<bool> = counts.iter().map(|&count| count > 3).collect();
        let costs = vec![0.01; n];
        let inputs = Inputs::dense(table.values(), COLUMNS).expect("whole rows");
        let machine = Machine::new(inputs);
        let problem = Problem {
            targets: npb_regbayes::Targets::Binary {
                positive: &positive,
                slack: Slack::Linear,
            },
            costs: &costs,
        };
        let limits = MachineLimits::default();
        group.bench_function(BenchmarkId::from_parameter(n), |b| {
            b.iter(|| machine.solve(&problem, None, &limits).expect("a solution"))
        });
    }
    group.finish();
}

fn one_thread() -> Criterion {
    // The first pool of this process.
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()
        .expect("the first pool");
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
}

criterion_group! {
    name = benches;
    config = one_thread();
    targets = of_rows, of_columns, machines
}
criterion_main!(benches);
