//! What depends on what: levels, power, information.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::testing::same_bits_on_threads;
use npb_infer::{SweepPlan, stream};
use npb_itf::kernels::{DiagonalNormal, DiagonalNormalData, Series, SeriesData};
use npb_itf::{
    ColumnDependence, DependenceConfig, Grouping, ItfConfig, ItfData, ItfError, ItfFit, Structure,
    fit, fit_data,
};
use rand::{Rng, RngExt};
use rand_distr::{Poisson, StandardNormal};

fn normal(rng: &mut impl Rng) -> f64 {
    rng.sample(StandardNormal)
}

/// Next to nothing: the verdicts do not look at the fit.
fn hardly_fitted(structure: Structure, burn_in: u64) -> ItfConfig {
    ItfConfig {
        structure,
        chains: 1,
        sweeps: SweepPlan {
            burn_in,
            keep: 2,
            thin: 1,
        },
        groups: Grouping::Off,
        ..ItfConfig::default()
    }
}

fn verdicts(data: &ItfData, config: &DependenceConfig) -> ColumnDependence {
    let model = fit_data(data, &hardly_fitted(Structure::TensorBlocks, 0)).unwrap();
    let rows = model.rows_of(data, true).unwrap();
    model.dependence(&rows, config).unwrap()
}

/// Autoregressive series of order 1 with unit innovations.
fn series(coefficients: &[f64], n_times: usize, rng: &mut impl Rng) -> (Series, SeriesData) {
    let row = |&coefficient: &f64| {
        let mut x = normal(rng) / (1.0 - coefficient * coefficient).sqrt();
        let mut values = Vec::new();
        for _ in 0..n_times {
            values.push(Some(x));
            x = coefficient * x + normal(rng);
        }
        values
    };
    let rows: Vec<_> = coefficients.iter().map(row).collect();
    let kernel = Series::new(1, n_times, 0.0, 1.5).unwrap();
    let cells = SeriesData::new(&kernel, &rows).unwrap();
    (kernel, cells)
}

fn vectors(
    means: &[f64],
    n_coordinates: usize,
    rng: &mut impl Rng,
) -> (DiagonalNormal, DiagonalNormalData) {
    let row = |&mean: &f64| {
        (0..n_coordinates)
            .map(|_| Some(mean + normal(rng)))
            .collect()
    };
    let rows: Vec<Vec<Option<f64>>> = means.iter().map(row).collect();
    let kernel = DiagonalNormal::new(&vec![(0.5, 1.1); n_coordinates]).unwrap();
    (kernel, DiagonalNormalData::new(&rows).unwrap())
}

/// Independent columns of six sorts, a tenth of the scalar cells missing: clustered reals, skewed reals with ties, counts, levels
/// of which some are rare, vectors and series in clusters.
fn independent(n: usize, seed: u64) -> ItfData {
    let rng = &mut stream(seed, [9; 4]);
    let mut data = ItfData::new();
    let clustered = |_| {
        let centre = if rng.random() { 4.0 } else { 0.0 };
        let x = centre + normal(rng);
        (rng.random::<f64>() > 0.1).then_some(x)
    };
    let clustered = MixedColumn::Real((0..n).map(clustered).collect());
    let skewed = |_| {
        let x = (2.0 * normal(rng).exp()).round();
        (rng.random::<f64>() > 0.1).then_some(x)
    };
    let skewed = MixedColumn::Real((0..n).map(skewed).collect());
    let count = |_| {
        let x = rng.sample(Poisson::new(3.0).unwrap()) as u64;
        (rng.random::<f64>() > 0.1).then_some(x)
    };
    let counts = MixedColumn::Count((0..n).map(count).collect());
    let code = |_| {
        let u: f64 = rng.random();
        let code = [0.6, 0.9, 0.97].iter().filter(|&&c| u > c).count();
        (rng.random::<f64>() > 0.1).then_some(code as u32)
    };
    let codes = MixedColumn::Categorical {
        levels: ["a", "b", "c", "d"].map(String::from).to_vec(),
        codes: (0..n).map(code).collect(),
    };
    for (name, column) in [
        ("clustered", clustered),
        ("skewed", skewed),
        ("counts", counts),
        ("levels", codes),
    ] {
        data.push_table_column(name, &column).unwrap();
    }
    let label = |_| f64::from(u8::from(rng.random::<bool>()));
    let means: Vec<f64> = (0..n).map(label).map(|z| 3.0 * z).collect();
    let (kernel, cells) = vectors(&means, 2, rng);
    data.push(
        "vectors",
        kernel.column(rng),
        npb_itf::kernels::Cells::DiagonalNormal(cells),
    )
    .unwrap();
    let coefficients: Vec<f64> = (0..n)
        .map(|_| if rng.random() { 0.9 } else { -0.4 })
        .collect();
    let (kernel, cells) = series(&coefficients, 8, rng);
    data.push(
        "series",
        kernel.column(rng),
        npb_itf::kernels::Cells::Series(cells),
    )
    .unwrap();
    data
}

fn quick(permutations: usize) -> DependenceConfig {
    DependenceConfig {
        permutations,
        sweeps: SweepPlan {
            burn_in: 20,
            keep: 5,
            thin: 2,
        },
        ..DependenceConfig::default()
    }
}

/// Largest count that a binomial law exceeds by chance in about 1 of 1000 cases.
fn at_most(n: f64, p: f64) -> usize {
    (n * p + 3.1 * (n * p * (1.0 - p)).sqrt()).ceil() as usize
}

/// 200 tables of 6 independent columns: the share of false verdicts is the level's, at 1% and at 5%; and not far below.
#[test]
fn false_verdicts_come_at_their_level() {
    let config = quick(199);
    let mut p_values = Vec::new();
    for seed in 0..200 {
        let dependence = verdicts(&independent(80, seed), &config);
        p_values.extend(dependence.pairs().iter().map(|pair| pair.p_value));
    }
    let n = p_values.len() as f64;
    for level in [0.01, 0.05, 0.2] {
        let wrong = p_values.iter().filter(|&&p| p <= level).count();
        assert!(wrong <= at_most(n, level), "{wrong} of {n} at {level}");
        assert!(
            n as usize - wrong <= at_most(n, 1.0 - level),
            "{wrong} of {n} at {level}"
        );
    }
}

/// Permuting labels that were fitted together, the tempting test, is wrong.
#[test]
fn labels_of_a_joint_fit_are_no_null_distribution() {
    let information = |a: &[u32], b: &[u32]| {
        let mut counts = std::collections::BTreeMap::new();
        for (&k, &l) in a.iter().zip(b) {
            *counts.entry((k, l)).or_insert(0.0) += 1.0;
        }
        let margin = |of: &dyn Fn(&(u32, u32)) -> bool| -> f64 {
            counts
                .iter()
                .filter(|(pair, _)| of(pair))
                .map(|(_, m)| m)
                .sum()
        };
        let n = a.len() as f64;
        let term = |(&(k, l), &m): (&(u32, u32), &f64)| {
            m / n * (m * n / margin(&|p| p.0 == k) / margin(&|p| p.1 == l)).ln()
        };
        counts.iter().map(term).sum::<f64>()
    };
    let (mut wrong, mut all) = (0, 0);
    for seed in 0..10 {
        let data = independent(80, seed);
        let model = fit_data(&data, &hardly_fitted(Structure::Joint, 60)).unwrap();
        let draw = &model.draws()[1];
        for b in 0..6 {
            for a in 0..b {
                let (x, y) = (draw.labels(a).unwrap(), draw.labels(b).unwrap());
                let own = information(x, y);
                let rng = &mut stream(seed, [a as u64, b as u64, 0, 0]);
                let exceeds = |_: &i32| {
                    let mut y = y.to_vec();
                    for i in (1..y.len()).rev() {
                        y.swap(i, rng.random_range(0..=i));
                    }
                    information(x, &y) >= own - 1e-12
                };
                let exceeding = (0..99).filter(exceeds).count();
                wrong += usize::from(exceeding == 0);
                all += 1;
            }
        }
    }
    assert!(wrong * 2 > all, "{wrong} of {all}");
}

/// Scenario 2's series and vectors: label of the series in {0, 1, 2}, the vectors' equal to [label > 0] with probability 0.9.
fn dependent_objects(n: usize, seed: u64) -> ItfData {
    let rng = &mut stream(seed, [5; 4]);
    let labels: Vec<usize> = (0..n).map(|_| rng.random_range(0..3)).collect();
    let coefficients: Vec<f64> = labels.iter().map(|&z| [-0.4, 0.3, 0.9][z]).collect();
    let of_vector = |&z: &usize| f64::from(u8::from((z > 0) == (rng.random::<f64>() < 0.9)));
    let means: Vec<f64> = labels.iter().map(of_vector).collect();
    let mut data = ItfData::new();
    let (kernel, cells) = series(&coefficients, 50, rng);
    data.push(
        "T",
        kernel.column(rng),
        npb_itf::kernels::Cells::Series(cells),
    )
    .unwrap();
    let (kernel, cells) = vectors(&means, 4, rng);
    data.push(
        "R",
        kernel.column(rng),
        npb_itf::kernels::Cells::DiagonalNormal(cells),
    )
    .unwrap();
    data
}

#[test]
fn clusters_of_objects_that_depend_are_found() {
    let config = DependenceConfig {
        sweeps: SweepPlan {
            burn_in: 30,
            keep: 10,
            thin: 2,
        },
        ..DependenceConfig::default()
    };
    let dependent = |seed: &u64| {
        let data = dependent_objects(1000, *seed);
        verdicts(&data, &config).pairs()[0].dependent
    };
    let found = (0..10).filter(dependent).count();
    assert!(found >= 9, "{found} of 10");
}

/// Scalar columns in which different things depend: level, spread, category, direction of a cycle.
#[test]
fn dependence_of_single_numbers_is_found() {
    let rng = &mut stream(3, [1; 4]);
    let n = 400;
    let x: Vec<f64> = (0..n).map(|_| normal(rng)).collect();
    let mut real = |f: &mut dyn FnMut(f64, f64) -> f64| {
        MixedColumn::Real(x.iter().map(|&x| Some(f(x, normal(rng)))).collect())
    };
    let columns = vec![
        real(&mut |x, _| x),
        real(&mut |x, e| 0.4 * x + e),
        real(&mut |x, e| (0.8 * x).exp() * e),
        real(&mut |_, e| e),
    ];
    let names = ["x", "shifted", "spread", "noise"]
        .map(String::from)
        .to_vec();
    let table = MixedTable::new(names, columns).unwrap();
    let dependence = verdicts(
        &ItfData::from_table(&table).unwrap(),
        &DependenceConfig::default(),
    );
    assert!(dependence.pair("x", "shifted").unwrap().dependent);
    assert!(dependence.pair("spread", "x").unwrap().dependent);
    assert!(dependence.pair("noise", "x").unwrap().p_value > 0.001);
}

/// One real, one level, the third a copy of the level with errors; half of the rows have holes.
fn small_table() -> MixedTable {
    let rng = &mut stream(11, [2; 4]);
    let codes: Vec<u32> = (0..120).map(|_| rng.random_range(0..3)).collect();
    let real = codes
        .iter()
        .map(|&k| Some(5.0 * f64::from(k) + normal(rng)));
    let real = MixedColumn::Real(
        real.enumerate()
            .map(|(i, x)| x.filter(|_| i >= 40))
            .collect(),
    );
    let levels = ["a", "b", "c"].map(String::from).to_vec();
    let first = codes
        .iter()
        .enumerate()
        .map(|(i, &k)| (i < 100).then_some(k));
    let first = MixedColumn::Categorical {
        levels: levels.clone(),
        codes: first.collect(),
    };
    let copied = codes
        .iter()
        .map(|&k| Some(if rng.random::<f64>() < 0.7 { k } else { 0 }));
    let second = MixedColumn::Categorical {
        levels,
        codes: copied.collect(),
    };
    MixedTable::new(
        ["x", "u", "v"].map(String::from).to_vec(),
        vec![real, first, second],
    )
    .unwrap()
}

fn small_fit(structure: Structure) -> (MixedTable, ItfFit) {
    let table = small_table();
    let model = fit(&table, &hardly_fitted(structure, 40)).unwrap();
    (table, model)
}

#[test]
fn the_report_says_what_the_draws_say() {
    let (table, model) = small_fit(Structure::TensorBlocks);
    let config = DependenceConfig {
        quantiles: vec![0.0, 0.5, 1.0],
        ..quick(199)
    };
    let dependence = model
        .dependence(&model.training_rows(&table).unwrap(), &config)
        .unwrap();
    let pair = dependence.pair("u", "x").unwrap();
    assert_eq!((pair.a, pair.b, pair.n_rows), (0, 1, 60));
    assert!(pair.dependent);
    assert_eq!(pair.adjusted_p_value, 3.0 * pair.p_value);
    let values: Vec<f64> = model
        .draws()
        .iter()
        .map(|d| d.mutual_information(0, 1))
        .collect();
    let (low, high) = (values[0].min(values[1]), values[0].max(values[1]));
    let mean = 0.5 * (low + high);
    assert!((pair.information.mean - mean).abs() < 1e-12);
    assert!((pair.information.sd - 0.5 * (high - low)).abs() < 1e-12);
    assert!((pair.information.quantiles[1] - mean).abs() < 1e-12);
    assert_eq!(
        [pair.information.quantiles[0], pair.information.quantiles[2]],
        [low, high]
    );
    let matrix = dependence.matrix(-1.0, |pair| pair.p_value);
    assert_eq!(
        (matrix[1], matrix[3], matrix[4]),
        (pair.p_value, pair.p_value, -1.0)
    );
}

/// Against entropies of the joint law of the three indices, summed by definition.
#[test]
fn conditional_information_by_entropies() {
    let (_, model) = small_fit(Structure::Tensor);
    for draw in model.draws() {
        let [a, b, c] = [0, 1, 2].map(|j| &draw.columns[j]);
        let entropy = |keep: [bool; 3]| {
            let mut law = std::collections::BTreeMap::new();
            for (r, &top) in draw.blocks[0].weights.iter().enumerate() {
                for k in 0..a.n_clusters {
                    for l in 0..b.n_clusters {
                        for m in 0..c.n_clusters {
                            let p = top
                                * a.weights[r * a.n_clusters + k]
                                * b.weights[r * b.n_clusters + l]
                                * c.weights[r * c.n_clusters + m];
                            let key = [k, l, m];
                            let key = [0, 1, 2].map(|j| if keep[j] { key[j] } else { 0 });
                            *law.entry(key).or_insert(0.0) += p;
                        }
                    }
                }
            }
            let terms = law.values().filter(|&&p| p > 0.0);
            terms.map(|p: &f64| -p * p.ln()).sum::<f64>()
        };
        let expected = entropy([true, false, true]) + entropy([false, true, true])
            - entropy([true; 3])
            - entropy([false, false, true]);
        let found = draw.conditional_mutual_information(0, 1, &[2]);
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    let summary = model
        .conditional_information("x", "u", &["v"], &[0.5])
        .unwrap();
    assert!(summary.mean > 0.0);
    // With one level the third index says everything.
    let (_, joint) = small_fit(Structure::Joint);
    assert_eq!(
        joint.draws()[0].conditional_mutual_information(0, 1, &[2]),
        0.0
    );
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let data = independent(60, 1);
    let run = || serde_json::to_vec(&verdicts(&data, &quick(99))).unwrap();
    same_bits_on_threads(&[1, 2, 4], run).unwrap();
}

#[test]
fn odd_questions() {
    let (table, model) = small_fit(Structure::TensorBlocks);
    let rows = model.training_rows(&table).unwrap();
    let default = DependenceConfig::default;
    for (field, config) in [
        (
            "level",
            DependenceConfig {
                level: 0.0,
                ..default()
            },
        ),
        (
            "level",
            DependenceConfig {
                level: f64::NAN,
                ..default()
            },
        ),
        (
            "permutations",
            DependenceConfig {
                permutations: 98,
                ..default()
            },
        ),
        (
            "sweeps.keep",
            DependenceConfig {
                sweeps: SweepPlan {
                    keep: 0,
                    ..DependenceConfig::default().sweeps
                },
                ..default()
            },
        ),
        (
            "sweeps.thin",
            DependenceConfig {
                sweeps: SweepPlan {
                    thin: 0,
                    ..DependenceConfig::default().sweeps
                },
                ..default()
            },
        ),
        (
            "quantiles",
            DependenceConfig {
                quantiles: vec![1.5],
                ..default()
            },
        ),
    ] {
        let error = model.dependence(&rows, &config).unwrap_err();
        assert!(
            matches!(&error, ItfError::Config(out) if out.field == field),
            "{error}"
        );
    }
    assert!(
        model
            .conditional_information("x", "u", &["x"], &[])
            .is_err()
    );
    assert!(
        model
            .conditional_information("x", "u", &["w"], &[])
            .is_err()
    );
    let dependence = model.dependence(&rows, &quick(99)).unwrap();
    assert!(dependence.pair("x", "x").is_err());
    assert!(dependence.pair("x", "w").is_err());
    // No row in both, one row, one value: nothing speaks against independence.
    let real = |cells: [Option<f64>; 4]| MixedColumn::Real(cells.to_vec());
    let columns = vec![
        real([Some(1.0), Some(2.0), None, None]),
        real([None, None, Some(1.0), Some(5.0)]),
        real([Some(1.0); 4]),
        real([None; 4]),
    ];
    let table = MixedTable::new(["a", "b", "c", "d"].map(String::from).to_vec(), columns).unwrap();
    let dependence = verdicts(&ItfData::from_table(&table).unwrap(), &quick(99));
    for pair in dependence.pairs() {
        assert_eq!(pair.p_value, 1.0, "{pair:?}");
    }
    assert_eq!(dependence.pairs()[0].n_rows, 0);
}

/// Nothing speaks against the independence of columns that no row has both of.
#[test]
fn columns_that_are_never_seen_together_are_not_called_dependent() {
    let column = |odd: u32| MixedColumn::Categorical {
        levels: ["a", "b", "c"].map(String::from).to_vec(),
        codes: (0..30).map(|i| (i % 2 == odd).then_some(i % 3)).collect(),
    };
    let names = ["x", "y"].map(String::from).to_vec();
    let table = MixedTable::new(names, vec![column(0), column(1)]).unwrap();
    let data = ItfData::from_table(&table).unwrap();
    let found = verdicts(&data, &DependenceConfig::default());
    let pair = &found.pairs()[0];
    assert_eq!((pair.n_rows, pair.dependent), (0, false));
    assert_eq!(pair.p_value, 1.0);
}
