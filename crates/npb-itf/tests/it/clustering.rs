//! Which rows belong together, and what they have in common.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::testing::partitions;
use npb_infer::{SweepPlan, stream};
use npb_itf::{
    CellSummary, ClusteringLoss, Grouping, ItfConfig, ItfError, ItfFit, fit, point_clustering,
    summarise_clusters,
};
use rand::RngExt;

const LOSSES: [ClusteringLoss; 2] = [
    ClusteringLoss::Binder,
    ClusteringLoss::VariationOfInformation,
];

/// The losses by their definitions: pairs, and entropies.
fn loss(kind: ClusteringLoss, c: &[u32], d: &[u32]) -> f64 {
    let n = c.len();
    match kind {
        ClusteringLoss::Binder => {
            let pairs = (0..n).flat_map(|i| (0..i).map(move |j| (i, j)));
            let differ = pairs
                .clone()
                .filter(|&(i, j)| (c[i] == c[j]) != (d[i] == d[j]))
                .count();
            differ as f64 / pairs.count() as f64
        }
        ClusteringLoss::VariationOfInformation => {
            let entropy = |same: &dyn Fn(usize, usize) -> bool| -> f64 {
                let share = |i: usize| (0..n).filter(|&j| same(i, j)).count() as f64 / n as f64;
                (0..n).map(|i| -share(i).ln() / n as f64).sum()
            };
            let both = entropy(&|i, j| c[i] == c[j] && d[i] == d[j]);
            2.0 * both - entropy(&|i, j| c[i] == c[j]) - entropy(&|i, j| d[i] == d[j])
        }
    }
}

fn mean_loss(kind: ClusteringLoss, c: &[u32], draws: &[Vec<u32>]) -> f64 {
    draws.iter().map(|d| loss(kind, c, d)).sum::<f64>() / draws.len() as f64
}

/// Noisy copies of one clustering of 6 rows, with shuffled names.
fn noisy_draws(seed: u64) -> Vec<Vec<u32>> {
    let mut rng = stream(seed, [0; 4]);
    let truth: Vec<u32> = (0..6).map(|_| rng.random_range(0..3)).collect();
    let draw = |_| {
        let shift = rng.random_range(0..50);
        let noise = |l: &u32| {
            if rng.random::<f64>() < 0.3 {
                rng.random_range(0..4)
            } else {
                *l
            }
        };
        truth.iter().map(noise).map(|l| l + shift).collect()
    };
    (0..7).map(draw).collect()
}

/// Of all 203 clusterings of 6 rows, in nearly all of 100 cases for each loss the search finds one with the least expected loss.
#[test]
fn the_search_finds_the_minimum() {
    for kind in LOSSES {
        let mut found = 0;
        for seed in 0..100 {
            let draws = noisy_draws(seed);
            let views: Vec<&[u32]> = draws.iter().map(Vec::as_slice).collect();
            let point = point_clustering(&views, kind);
            let by_definition = mean_loss(kind, &point.labels, &draws);
            assert!((point.expected_loss - by_definition).abs() < 1e-12);
            let all = partitions(6).into_iter().map(|p| {
                let labels: Vec<u32> = p.iter().map(|&l| l as u32).collect();
                mean_loss(kind, &labels, &draws)
            });
            let least = all.fold(f64::INFINITY, f64::min);
            assert!(point.expected_loss > least - 1e-12);
            found += usize::from(point.expected_loss < least + 1e-12);
            // A search that stayed at the best draw would be worse somewhere; never worse than any draw.
            assert!(
                draws
                    .iter()
                    .all(|d| point.expected_loss <= mean_loss(kind, d, &draws) + 1e-12)
            );
        }
        assert!(found >= 97, "{kind:?}: {found} of 100");
    }
}

#[test]
fn the_best_draw_alone_would_not_do() {
    let worse = (0..100).filter(|&seed| {
        let draws = noisy_draws(seed);
        let views: Vec<&[u32]> = draws.iter().map(Vec::as_slice).collect();
        let best = draws
            .iter()
            .map(|d| mean_loss(LOSSES[0], d, &draws))
            .fold(f64::INFINITY, f64::min);
        point_clustering(&views, LOSSES[0]).expected_loss < best - 1e-9
    });
    assert!(worse.count() > 20);
}

#[test]
fn support_is_the_mean_of_co_clustering() {
    let draws = noisy_draws(3);
    let views: Vec<&[u32]> = draws.iter().map(Vec::as_slice).collect();
    let point = point_clustering(&views, LOSSES[0]);
    for (i, support) in point.support.iter().enumerate() {
        let others: Vec<usize> = (0..6)
            .filter(|&j| j != i && point.labels[j] == point.labels[i])
            .collect();
        let together =
            |j: usize| draws.iter().filter(|d| d[i] == d[j]).count() as f64 / draws.len() as f64;
        let exact = match others.len() {
            0 => 1.0,
            n => others.iter().map(|&j| together(j)).sum::<f64>() / n as f64,
        };
        assert!((support - exact).abs() < 1e-12);
    }
    assert!(point.sizes.windows(2).all(|s| s[0] >= s[1]));
    let one = point_clustering(&[&[9]], LOSSES[1]);
    assert_eq!(
        (one.labels, one.expected_loss, one.support),
        (vec![0], 0.0, vec![1.0])
    );
}

/// Two groups of rows, told apart by `x` and `c`; `z` is noise.
fn table() -> MixedTable {
    let mut rng = stream(5, [0; 4]);
    let n = 60;
    let group = |i: usize| i % 2;
    // Nearly normal within groups: one cluster each beyond doubt.
    let mut noise = || (0..4).map(|_| rng.random::<f64>()).sum::<f64>();
    let x = (0..n)
        .map(|i| Some(6.0 * group(i) as f64 + noise()))
        .collect();
    let codes = (0..n)
        .map(|i| (i != 4).then_some(group(i) as u32))
        .collect();
    let z = (0..n).map(|_| Some(rng.random::<f64>())).collect();
    let levels = vec!["a".into(), "b".into()];
    let columns = vec![
        MixedColumn::Real(x),
        MixedColumn::Categorical { levels, codes },
        MixedColumn::Real(z),
    ];
    MixedTable::new(["x", "c", "z"].map(str::to_owned).to_vec(), columns).expect("valid")
}

fn fitted(keep_labels: bool) -> ItfFit {
    let config = ItfConfig {
        chains: 2,
        sweeps: SweepPlan {
            burn_in: 60,
            keep: 30,
            thin: 2,
        },
        keep_labels,
        groups: Grouping::Off,
        ..ItfConfig::default()
    };
    fit(&table(), &config).expect("a fit")
}

#[test]
fn groups_of_rows_are_found() {
    let fit = fitted(true);
    let rows: Vec<usize> = (0..60).collect();
    let together = fit.row_similarity(&["x"], &rows).expect("labels");
    for a in 0..60 {
        for b in 0..60 {
            let draws = fit.draws().iter().filter_map(|d| d.labels(0));
            let exact = draws.filter(|l| l[a] == l[b]).count() as f64 / fit.draws().len() as f64;
            assert!((together.get(a, b) - exact).abs() < 1e-6);
        }
    }
    assert!(together.get(0, 2) > 0.9 && together.get(0, 1) < 0.1);
    let some = fit.row_similarity(&["x"], &[7, 3]).expect("labels");
    assert_eq!(
        (some.get(0, 1), some.rows()),
        (together.get(7, 3), &[7, 3][..])
    );
    for loss in LOSSES {
        let point = fit.point_clustering("x", loss).expect("labels");
        assert_eq!(point.sizes, [30, 30]);
        assert!((0..60).all(|i| point.labels[i] == point.labels[i % 2]));
        let summary = summarise_clusters(&table(), &point.labels).expect("fits");
        let of = |j: usize| summary[0].columns[j].divergence;
        assert!(of(0) > 0.5 && of(1) > 0.5 && of(2) < 0.1, "{summary:?}");
    }
    let by_x_and_c = fit.row_similarity(&["x", "c"], &rows).expect("labels");
    let of_c = fit.row_similarity(&["c"], &rows).expect("labels");
    let mean = 0.5 * (together.get(1, 3) + of_c.get(1, 3));
    assert!((by_x_and_c.get(1, 3) - mean).abs() < 1e-6);
    let all = fit.row_similarity(&[], &rows).expect("labels");
    assert!(all.get(0, 2) > all.get(0, 1));
}

#[test]
fn bad_questions_are_named() {
    let fit = fitted(true);
    assert!(fit.row_similarity(&["y"], &[0]).is_err());
    assert!(fit.row_similarity(&["y"], &[0]).is_err());
    let error = fit.row_similarity(&["x"], &[60]).expect_err("no such row");
    assert!(
        matches!(
            error,
            ItfError::Argument {
                argument: "rows",
                ..
            }
        ),
        "{error}"
    );
    let without = fitted(false);
    let error = without
        .point_clustering("x", LOSSES[0])
        .expect_err("no labels");
    assert!(error.to_string().contains("keep_labels"), "{error}");
    assert!(summarise_clusters(&table(), &[0; 3]).is_err());
}

#[test]
fn clusters_are_described() {
    let real = MixedColumn::Real(vec![
        Some(1.0),
        Some(3.0),
        Some(2.0),
        None,
        Some(10.0),
        Some(10.0),
    ]);
    let values = vec![Some(true), Some(false), Some(true), None, None, None];
    let binary = MixedColumn::Binary {
        levels: ["n", "y"].map(str::to_owned),
        values,
    };
    let count = MixedColumn::Count(vec![Some(5); 6]);
    let names = ["r", "b", "k"].map(str::to_owned).to_vec();
    let table = MixedTable::new(names, vec![real, binary, count]).expect("valid");
    let summary = summarise_clusters(&table, &[7, 7, 7, 2, 2, 2]).expect("fits");
    assert_eq!([summary[0].label, summary[1].label], [2, 7]);
    let CellSummary::Numbers {
        mean,
        sd,
        quartiles,
    } = summary[1].columns[0].cells
    else {
        panic!("numbers")
    };
    assert_eq!((mean, quartiles), (2.0, [1.5, 2.0, 2.5]));
    assert!((sd - (2.0_f64 / 3.0).sqrt()).abs() < 1e-15);
    let CellSummary::Levels { shares } = &summary[1].columns[1].cells else {
        panic!("levels")
    };
    assert!((shares[1] - 2.0 / 3.0).abs() < 1e-15);
    assert_eq!(summary[0].columns[1].cells, CellSummary::Nothing);
    assert_eq!(
        summary[0].columns[2].divergence, 0.0,
        "a constant column tells nothing"
    );
    assert!(summary[0].columns[0].divergence > 0.3 && summary[0].columns[0].divergence.is_finite());
    let huge = MixedColumn::Real(vec![Some(1e300), Some(-1e300), Some(1e-300)]);
    let table = MixedTable::new(vec!["h".into()], vec![huge]).expect("valid");
    for cluster in summarise_clusters(&table, &[0, 0, 1]).expect("fits") {
        assert!(cluster.columns[0].divergence.is_finite());
    }
}
