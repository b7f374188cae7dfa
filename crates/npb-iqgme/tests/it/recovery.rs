//! Recovery of what generated the data.

use npb_data::Labels;
use npb_data::metrics::auc;
use npb_iqgme::{ComponentSummary, IqgmeConfig, IqgmeFit, fit, fit_unlabelled};

use crate::data::{corners, three_gaussians};

fn positives(labels: &Labels) -> Vec<bool> {
    labels.codes().iter().map(|c| *c == Some(1)).collect()
}

/// Four of five sets at least: of forty others, one ended with a fourth component.
#[test]
fn finds_three_experts_and_their_means() {
    for missing in [0.0, 0.2] {
        let mut found = 0;
        for seed in 11..16 {
            let (table, labels) = three_gaussians(seed, 400, 0, missing, 0.0);
            let fitted = fit(&table, &labels, &IqgmeConfig::default()).unwrap();
            let (test, truth) = three_gaussians(100, 1000, 0, 0.0, 0.0);
            let score = auc(&fitted.predict_proba(&test).unwrap(), &positives(&truth)).unwrap();
            let least = if missing == 0.0 { 0.98 } else { 0.97 };
            assert!(score > least, "missing {missing}, seed {seed}: {score}");
            let mut components = fitted.components();
            components.retain(|c| c.weight > 0.05);
            if components.len() != 3 {
                continue;
            }
            found += 1;
            for truth in [-3.0, 1.0, 5.0] {
                let near = |c: &ComponentSummary| (c.mean[0] - truth).hypot(c.mean[1]) < 0.3;
                assert!(components.iter().any(near), "{truth}, seed {seed}");
            }
        }
        assert!(found >= 4, "missing {missing}: {found} of 5");
    }
}

#[test]
fn finds_clusters_without_labels() {
    let (table, _) = three_gaussians(13, 300, 0, 0.3, 0.0);
    let fitted = fit_unlabelled(&table, &IqgmeConfig::default()).unwrap();
    assert_eq!(
        fitted
            .components()
            .iter()
            .filter(|c| c.weight > 0.05)
            .count(),
        3
    );
    assert!(fitted.predict_proba(&table).is_err());
    // Far away is less dense than at a centre.
    let points = npb_data::Table::complete(2, 2, vec![1.0, 0.0, 30.0, 30.0]).unwrap();
    let density = fitted.ln_density(&points).unwrap();
    assert!(density[0] > density[1] + 5.0);
}

/// Four clusters at the corners of a square, labels by the diagonal: the unlabelled rows show the clusters that few labels then name.
#[test]
fn rows_without_labels_help() {
    let (all, truth) = corners(14, 400);
    let few: Vec<usize> = (0..10).collect();
    let hidden: Vec<Option<&str>> = (0..400)
        .map(|row| if row < 10 { truth.name(row) } else { None })
        .collect();
    let config = IqgmeConfig::default();
    let with = fit(&all, &Labels::from_strings(&hidden), &config).unwrap();
    let without = fit(&all.select_rows(&few), &truth.select_rows(&few), &config).unwrap();
    let (test, test_labels) = corners(15, 1000);
    let score =
        |f: &IqgmeFit| auc(&f.predict_proba(&test).unwrap(), &positives(&test_labels)).unwrap();
    assert!(
        score(&with) > score(&without) + 0.02,
        "{} {}",
        score(&with),
        score(&without)
    );
}
