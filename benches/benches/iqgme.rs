//! Iterations, sweeps and predictions of npb-iqgme on one thread, all twenty components occupied: processor time, so that other work on the machine counts
//! little.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Throughput, criterion_group, criterion_main};
use npb_benches::{Processor, on_processor_time, one_thread};
use npb_data::{Labels, Table};
use npb_infer::VbLimits;
use npb_iqgme::{
    GibbsConfig, Init, IqgmeConfig, IqgmeData, IqgmeSampler, IqgmeState, IqgmeVb, MultiTaskData,
    MultiTaskVb, Task, TaskInit, TasksConfig, fit,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const COMPONENTS: usize = 20;

/// Rows that a start is found on, however many rows an iteration then has.
const START_ROWS: usize = 5_000;

/// A simulated mixture with as many clusters as the model has components.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    n_features: usize,
    /// Standard deviation of the centres, in those of the clusters.
    spread: f64,
    missing: f64,
}

/// A row belongs to one component or two.
const APART: Setting = Setting {
    name: "complete_16",
    n_features: 16,
    spread: 3.0,
    missing: 0.0,
};
/// Every component is active in most rows.
const OVERLAPPING: Setting = Setting {
    name: "overlapping_16",
    spread: 0.5,
    ..APART
};
const WIDE: Setting = Setting {
    name: "complete_34",
    n_features: 34,
    ..APART
};
/// Every row has its own pattern.
const HOLES: Setting = Setting {
    name: "quarter_missing_34",
    missing: 0.25,
    ..WIDE
};

/// As many features as a landmine task has.
const TASKS: Setting = Setting {
    name: "complete_9",
    n_features: 9,
    ..APART
};
const TASKS_WITH_HOLES: Setting = Setting {
    name: "most_missing_9",
    missing: 0.75,
    ..TASKS
};

/// Nearly normal: the sum of four uniform numbers, scaled to variance 1.
fn bell(rng: &mut SmallRng) -> f64 {
    let sum: f64 = (0..4).map(|_| rng.random::<f64>() - 0.5).sum();
    sum * 3f64.sqrt()
}

fn simulated(setting: Setting, n_rows: usize) -> (Table, Labels) {
    let mut rng = SmallRng::seed_from_u64(1);
    let p = setting.n_features;
    let mut vector = |scale: f64| -> Vec<f64> { (0..p).map(|_| scale * bell(&mut rng)).collect() };
    let centres: Vec<Vec<f64>> = (0..COMPONENTS).map(|_| vector(setting.spread)).collect();
    let slopes: Vec<Vec<f64>> = (0..COMPONENTS).map(|_| vector(1.0)).collect();
    let (mut values, mut seen, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..n_rows {
        let h = row % COMPONENTS;
        let mut score = bell(&mut rng);
        for (centre, slope) in centres[h].iter().zip(&slopes[h]) {
            let deviation = bell(&mut rng);
            values.push(centre + deviation);
            seen.push(rng.random::<f64>() >= setting.missing);
            score += slope * deviation;
        }
        labels.push(Some(if score > 0.0 { "yes" } else { "no" }));
    }
    let table = Table::new(n_rows, p, values, &seen).expect("finite values");
    (table, Labels::from_strings(&labels))
}

fn config() -> IqgmeConfig {
    IqgmeConfig {
        truncation: COMPONENTS,
        starts: vec![Init::KMeans(COMPONENTS)],
        limits: VbLimits {
            max_iterations: 10,
            ..IqgmeConfig::default().limits
        },
        ..IqgmeConfig::default()
    }
}

/// A posterior from some of the rows, to continue with on `n_rows`.
fn start(setting: Setting, n_rows: usize) -> IqgmeState {
    let (table, labels) = simulated(setting, START_ROWS);
    let data = IqgmeData::new(&table, &labels, &config()).expect("proper data");
    let mut vb = IqgmeVb::new(&data, config(), Init::KMeans(COMPONENTS), 0).expect("a start");
    for _ in 0..3 {
        vb.step().expect("an iteration");
    }
    let mut state = vb.into_state();
    state.utility_means = vec![0.0; n_rows];
    state
}

fn iterations(c: &mut Processor, setting: Setting, sizes: &[usize]) {
    let mut group = c.benchmark_group("iqgme_iteration");
    group.sample_size(10);
    for &n_rows in sizes {
        let id = BenchmarkId::new(setting.name, n_rows);
        group.throughput(Throughput::Elements(n_rows as u64));
        let (table, labels) = simulated(setting, n_rows);
        let data = IqgmeData::new(&table, &labels, &config()).expect("proper data");
        let mut state: Option<IqgmeState> = None;
        group.bench_function(id, |b| {
            let state = state.get_or_insert_with(|| start(setting, n_rows));
            // Always the second iteration from the start: after many, components would be empty.
            let first = || {
                let mut vb = IqgmeVb::resume(&data, config(), state.clone(), &[]).expect("its own");
                vb.step().expect("an iteration");
                assert_occupied(vb.state());
                vb
            };
            b.iter_batched_ref(
                first,
                |vb| black_box(vb.step().expect("an iteration")),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// Sweeps of the Gibbs sampler, to be set beside iterations on the same data.
fn sweeps(c: &mut Processor) {
    let mut group = c.benchmark_group("iqgme_sweep");
    group.sample_size(10);
    for setting in [APART, OVERLAPPING, HOLES] {
        let n_rows = 10_000;
        group.throughput(Throughput::Elements(n_rows as u64));
        let (table, labels) = simulated(setting, n_rows);
        let gibbs = GibbsConfig {
            model: config(),
            ..GibbsConfig::default()
        };
        let data = IqgmeData::new(&table, &labels, &gibbs.model).expect("proper data");
        let mut chain: Option<IqgmeSampler<'_>> = None;
        group.bench_function(BenchmarkId::new(setting.name, n_rows), |b| {
            let chain = chain.get_or_insert_with(|| {
                let mut chain = IqgmeSampler::new(&data, gibbs.clone(), 0).expect("a start");
                (0..3).for_each(|_| chain.sweep().expect("a sweep"));
                chain
            });
            b.iter(|| chain.sweep().expect("a sweep"));
            // Merges take away what the start has cut in two.
            assert!(chain.parameters().components.len() > COMPONENTS / 2);
        });
    }
    group.finish();
}

/// The figure means something only while no component is empty.
fn assert_occupied(state: &IqgmeState) {
    let least = state.components.iter().map(|c| c.strength);
    assert_eq!(state.components.len(), COMPONENTS);
    assert!(least.fold(f64::INFINITY, f64::min) > 1.0);
}

fn complete(c: &mut Processor) {
    iterations(c, APART, &[1_000, 10_000, 100_000]);
    iterations(c, OVERLAPPING, &[10_000, 100_000]);
    iterations(c, WIDE, &[10_000]);
}

fn holes(c: &mut Processor) {
    iterations(c, HOLES, &[10_000]);
}

fn predictions(c: &mut Processor) {
    let mut group = c.benchmark_group("iqgme_predict");
    group.sample_size(10);
    for (setting, n_rows) in [(APART, 100_000), (OVERLAPPING, 100_000), (HOLES, 10_000)] {
        let (training, labels) = simulated(setting, START_ROWS);
        let fitted = fit(&training, &labels, &config()).expect("proper data");
        let (table, _) = simulated(setting, n_rows);
        group.throughput(Throughput::Elements(n_rows as u64));
        group.bench_function(BenchmarkId::new(setting.name, n_rows), |b| {
            b.iter(|| black_box(fitted.predict_proba(&table).expect("the same columns")));
        });
    }
    group.finish();
}

/// A row is of the class whose feature is largest, of the first eight.
fn eight_classes(table: &Table) -> Labels {
    let class = |i: usize| {
        let features = &table.row(i)[..8];
        let largest = |best: usize, j: usize| {
            if features[j] > features[best] {
                j
            } else {
                best
            }
        };
        Some((0..8).fold(0, largest) as i64)
    };
    let classes: Vec<Option<i64>> = (0..table.n_rows()).map(class).collect();
    Labels::from_integers(&classes)
}

/// An iteration and predictions with eight classes.
fn several_classes(c: &mut Processor) {
    const ROWS: usize = 10_000;
    let mut group = c.benchmark_group("iqgme_classes");
    group.sample_size(10);
    group.throughput(Throughput::Elements(ROWS as u64));
    let (table, _) = simulated(APART, ROWS);
    let labels = eight_classes(&table);
    let data = IqgmeData::new(&table, &labels, &config()).expect("proper data");
    let start = Init::KMeans(COMPONENTS);
    let mut vb = IqgmeVb::new(&data, config(), start, 0).expect("a start");
    vb.step().expect("an iteration");
    let state = vb.into_state();
    group.bench_function(BenchmarkId::new("iteration", ROWS), |b| {
        let first = || IqgmeVb::resume(&data, config(), state.clone(), &[]).expect("its own");
        b.iter_batched_ref(
            first,
            |vb| black_box(vb.step().expect("an iteration")),
            BatchSize::PerIteration,
        );
    });
    let rows: Vec<usize> = (0..1_000).collect();
    let fitted = fit(
        &table.select_rows(&rows),
        &labels.select_rows(&rows),
        &config(),
    );
    let fitted = fitted.expect("proper data");
    group.bench_function(BenchmarkId::new("predict", ROWS), |b| {
        b.iter(|| black_box(fitted.predict_classes(&table).expect("the same columns")));
    });
    group.finish();
}

/// An iteration over 19 tasks of 300 rows each that share twenty clusters.
fn many_tasks(c: &mut Processor) {
    const ROWS: usize = 300;
    let mut group = c.benchmark_group("iqgme_tasks");
    group.sample_size(10);
    let names: Vec<String> = (0..19).map(|j| format!("task {j}")).collect();
    for setting in [TASKS, TASKS_WITH_HOLES] {
        let (table, labels) = simulated(setting, names.len() * ROWS);
        let parts: Vec<(Table, Labels)> = (0..names.len())
            .map(|j| {
                let rows: Vec<usize> = (j * ROWS..(j + 1) * ROWS).collect();
                (table.select_rows(&rows), labels.select_rows(&rows))
            })
            .collect();
        let each = names.iter().zip(&parts);
        let tasks: Vec<Task<'_>> = each
            .map(|(name, (table, labels))| Task {
                name,
                table,
                labels,
            })
            .collect();
        let config = TasksConfig::default();
        let data = MultiTaskData::new(&tasks, &config).expect("proper data");
        let start = TaskInit::Pooled(Init::KMeans(COMPONENTS));
        let vb = MultiTaskVb::new(&data, config.clone(), start, 0).expect("a start");
        let state = vb.into_state();
        let groups = state.tasks.iter().map(|task| task.indicators.len());
        assert!(groups.min() > Some(COMPONENTS - 5), "too few groups");
        group.throughput(Throughput::Elements((names.len() * ROWS) as u64));
        group.bench_function(BenchmarkId::new(setting.name, names.len()), |b| {
            let first =
                || MultiTaskVb::resume(&data, config.clone(), state.clone(), &[]).expect("its own");
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
    targets = one_thread, complete, holes, sweeps, predictions, several_classes, many_tasks
}
criterion_main!(benches);
