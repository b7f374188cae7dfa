//! Choice of costs, and maps of inputs.

use std::ops::ControlFlow;

use npb_data::splits::k_fold;
use npb_infer::{Watch, stream};
use npb_linalg::dot;
use npb_regbayes::{InputMap, MapConfig, select_cost};
use rand::RngExt;

#[test]
fn costs_are_tried_from_small_to_large_each_from_the_one_before() {
    let folds = k_fold(12, 3, &mut stream(1, [0; 4])).unwrap();
    let costs = [0.1, 1.0, 10.0, 100.0];
    let run = |watch: &Watch<'_>| {
        select_cost(
            &costs,
            &folds,
            watch,
            |split, cost, before: Option<Vec<f64>>| {
                let mut seen = before.unwrap_or_default();
                seen.push(cost);
                assert_eq!(seen, costs[..seen.len()]);
                assert_eq!((split.train.len(), split.test.len()), (8, 4));
                // Best at 1 and 10, equally: the smaller one is taken.
                Ok((-(cost.log10() - 0.5).abs(), seen))
            },
        )
    };
    let mut heard = Vec::new();
    let found = run(&Watch::new(|progress| {
        heard.push(progress.share);
        ControlFlow::Continue(())
    }))
    .unwrap();
    assert_eq!((found.cost(), found.best), (1.0, 1));
    assert_eq!((found.scores.len(), found.scores[0].len()), (4, 3));
    assert!((found.means[1] + 0.5).abs() < 1e-12);
    assert_eq!((heard.len(), heard[11]), (12, 1.0));
    assert!(heard.is_sorted());
    assert!(run(&Watch::new(|_| ControlFlow::Break(()))).is_err());
}

#[test]
fn bad_choices_are_named() {
    let folds = k_fold(6, 2, &mut stream(1, [0; 4])).unwrap();
    let error = |costs: &[f64], folds: &[_], score: f64| {
        let found = select_cost(costs, folds, &Watch::none(), |_, _, _| Ok((score, ())));
        found.unwrap_err().to_string()
    };
    assert!(error(&[], &folds, 0.0).contains("costs"));
    assert!(error(&[1.0], &[], 0.0).contains("folds"));
    for costs in [[1.0, 1.0], [0.0, 1.0], [1.0, f64::NAN], [2.0, 1.0]] {
        assert!(error(&costs, &folds, 0.0).starts_with("costs to choose from, row"));
    }
    assert!(error(&[1.0], &folds, f64::NAN).starts_with("scores of costs"));
}

fn rows(n: usize, seed: u64) -> Vec<f64> {
    let mut rng = stream(seed, [5; 4]);
    (0..n * 3).map(|_| rng.random_range(-1.0..1.0)).collect()
}

#[test]
fn products_of_mapped_rows_are_the_kernel() {
    let (train, new) = (rows(400, 1), rows(50, 2));
    let features = 150;
    let config = MapConfig {
        features,
        gamma: 0.7,
    };
    let map = InputMap::fit(&train, 3, &config, 3).unwrap();
    assert_eq!(map.n_features(), features);
    let mapped = map.apply(&new).unwrap();
    for i in 0..50 {
        for j in 0..=i {
            let row = |n: usize| &mapped[n * features..][..features];
            let differences = (0..3).map(|k| (new[3 * i + k] - new[3 * j + k]).powi(2));
            let square: f64 = differences.sum();
            let (found, kernel) = (dot(row(i), row(j)), (-0.7 * square).exp());
            assert!((found - kernel).abs() < 0.01, "{found} {kernel}");
        }
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build();
    assert_eq!(pool.unwrap().install(|| map.apply(&new).unwrap()), mapped);
    map.check(3).unwrap();
    // The width that nobody gave: one over columns times variance.
    let map = InputMap::fit(
        &train,
        3,
        &MapConfig {
            features: 5,
            ..MapConfig::default()
        },
        0,
    )
    .unwrap();
    assert!((map.gamma() - 1.0).abs() < 0.1, "{}", map.gamma());
}

#[test]
fn bad_maps_are_named() {
    let train = rows(10, 1);
    let fit = |config: MapConfig| InputMap::fit(&train, 3, &config, 0);
    assert!(
        fit(MapConfig {
            features: 0,
            ..MapConfig::default()
        })
        .is_err()
    );
    assert!(
        fit(MapConfig {
            gamma: -1.0,
            ..MapConfig::default()
        })
        .is_err()
    );
    assert!(InputMap::fit(&[], 3, &MapConfig::default(), 0).is_err());
    assert!(InputMap::fit(&train[1..], 3, &MapConfig::default(), 0).is_err());
    // Rows that are all the same, more features than rows.
    let same = [1.0, 2.0, 3.0].repeat(5);
    let map = InputMap::fit(&same, 3, &MapConfig::default(), 0).unwrap();
    assert_eq!(map.n_features(), 5);
    let mapped = map.apply(&same[..3]).unwrap();
    assert!((dot(&mapped, &mapped) - 1.0).abs() < 1e-3);
    assert!(map.apply(&[f64::NAN, 0.0, 0.0]).is_err());
}
