//! Prediction: identities that hold whatever was fitted.

use npb_data::{Labels, Mask, Table};
use npb_infer::{VbLimits, stream};
use npb_iqgme::{Init, IqgmeConfig, IqgmeFit, Saved, fit, fit_unlabelled};
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::data::{by_quantiles, config, draws_agree, evaluate, three_gaussians};

fn fitted() -> (Table, Labels, IqgmeFit) {
    let (table, labels) = three_gaussians(21, 150, 1, 0.2, 0.0);
    let fitted = fit(&table, &labels, &config(21)).unwrap();
    (table, labels, fitted)
}

/// Of so few rows that chains tell of missing cells and of draws.
fn fitted_to_few() -> (Table, Labels, IqgmeFit) {
    let (table, labels) = three_gaussians(21, 50, 1, 0.2, 0.0);
    let fitted = fit(&table, &labels, &config(21)).unwrap();
    (table, labels, fitted)
}

/// Rows of 20 independent normal features, the first `seen` of them observed; the class by whether a sum of all of them is above a threshold.
fn cut_by_a_plane(seed: u64, n: usize, seen: usize, threshold: f64) -> (Table, Labels) {
    let mut rng = stream(seed, [0, 0, 12, 0]);
    let values: Vec<f64> = (0..20 * n).map(|_| rng.sample(StandardNormal)).collect();
    let class = |x: &[f64]| {
        let score: f64 = x.iter().enumerate().map(|(j, x)| x * (j % 4) as f64).sum();
        Some(if score > threshold { "above" } else { "below" })
    };
    let labels: Vec<Option<&str>> = values.chunks_exact(20).map(class).collect();
    let mask: Vec<bool> = (0..20 * n).map(|k| k % 20 < seen).collect();
    let table = Table::new(n, 20, values, &mask).unwrap();
    (table, Labels::from_strings(&labels))
}

/// In the same bits for complete rows; products of rows with missing features are rounded in an order that depends on their number.
#[test]
fn a_row_has_the_same_answers_alone() {
    let (table, _, fitted) = fitted();
    let answers = |table: &Table| {
        [
            fitted.predict_proba(table).unwrap(),
            fitted.predict_plug_in(table).unwrap(),
            fitted.ln_density(table).unwrap(),
        ]
    };
    let together = answers(&table);
    for row in 0..table.n_rows() {
        let complete = (0..table.n_cols()).all(|j| table.is_observed(row, j));
        let tolerance = if complete { 0.0 } else { 1e-13 };
        for (alone, together) in answers(&table.select_rows(&[row])).iter().zip(&together) {
            let difference = (alone[0] - together[row]).abs();
            assert!(difference <= tolerance, "row {row}: {difference}");
        }
    }
}

/// P(y | x_o) is the mean of P(y | x_o, x_m) over x_m | x_o: exact for the gate, near for the moment-matched expert. So it is before probabilities are calibrated.
#[test]
fn a_missing_feature_is_integrated_out() {
    let (table, labels, fitted) = fitted();
    let as_it_is = IqgmeConfig {
        folds: 0,
        ..fitted.config().clone()
    };
    let fitted = fit(&table, &labels, &as_it_is).unwrap();
    let direct = fitted.predict_proba(&table).unwrap();
    let cells = fitted.cells_by_row(&table).unwrap();
    let with_one = (0..table.n_rows()).filter(|&row| cells[row].len() == 1);
    let rows: Vec<usize> = with_one.take(30).collect();
    assert_eq!(rows.len(), 30);
    for row in rows {
        let filled = by_quantiles(&table.select_rows(&[row]), &cells[row][0], 400);
        let each = fitted.predict_proba(&filled).unwrap();
        let mean = each.iter().sum::<f64>() / 400.0;
        assert!(
            (direct[row] - mean).abs() < 0.04,
            "row {row}: {} {mean}",
            direct[row]
        );
    }
}

#[test]
fn imputation_agrees_with_its_draws() {
    let (table, _, fitted) = fitted_to_few();
    let table = table.select_rows(&(0..20).collect::<Vec<_>>());
    let draws = fitted.impute_draws(&table, 4000).unwrap();
    draws_agree(&table, &fitted.impute(&table).unwrap(), &draws).unwrap();
}

/// The same draws off the cells' means, nearer to them, or with an observed cell touched.
#[test]
fn draws_that_disagree_are_noticed() {
    let (table, _, fitted) = fitted_to_few();
    let table = table.select_rows(&(0..20).collect::<Vec<_>>());
    let imputed = fitted.impute(&table).unwrap();
    let draws = fitted.impute_draws(&table, 4000).unwrap();
    let broken = |change: &dyn Fn(usize, usize, f64) -> f64| {
        let change = |draw: &Table| draw.map(change).unwrap();
        let draws: Vec<Table> = draws.iter().map(change).collect();
        draws_agree(&table, &imputed, &draws).unwrap_err()
    };
    let missing = |i: usize, j: usize| !table.is_observed(i, j);
    let (mean, sd) = (
        |i, j| imputed.completed.get(i, j).unwrap(),
        |i, j| imputed.sd.get(i, j).unwrap(),
    );
    let off = broken(&|i, j, v| v + 0.15 * sd(i, j));
    assert!(off.contains("mean"), "{off}");
    let narrow = |i, j, v: f64| mean(i, j) + 0.7 * (v - mean(i, j));
    let narrow = broken(&|i, j, v| if missing(i, j) { narrow(i, j, v) } else { v });
    assert!(narrow.contains("spread"), "{narrow}");
    let touched = broken(&|i, j, v| if missing(i, j) { v } else { v + 1e-9 });
    assert!(touched.contains("observed"), "{touched}");
}

#[test]
fn imputation_is_of_the_terms_of_its_cells() {
    let (table, _, fitted) = fitted();
    let table = table.select_rows(&(0..20).collect::<Vec<_>>());
    let imputed = fitted.impute(&table).unwrap();
    let by_row = fitted.cells_by_row(&table).unwrap();
    for i in 0..20 {
        let cells = &by_row[i];
        let missing: Vec<usize> = (0..3).filter(|&j| !table.is_observed(i, j)).collect();
        assert!(cells.iter().map(|cell| cell.column).eq(missing));
        for cell in cells {
            let j = cell.column;
            let found = (imputed.completed.get(i, j), imputed.sd.get(i, j));
            let from_terms: f64 = cell.terms.iter().map(|t| t.weight * t.mean).sum();
            assert!((from_terms - cell.mean).abs() < 1e-9);
            assert_eq!(found, (Some(cell.mean), Some(cell.sd)));
        }
    }
}

#[test]
fn the_density_integrates_to_one() {
    let (table, _) = three_gaussians(22, 200, 0, 0.1, 0.0);
    let one = table.select_columns(&[0]).unwrap();
    let fitted = fit_unlabelled(&one, &config(22)).unwrap();
    let step = 0.02;
    let grid: Vec<f64> = (0..20_000).map(|i| -200.0 + step * f64::from(i)).collect();
    let points = Table::complete(grid.len(), 1, grid).unwrap();
    let mass: f64 = fitted
        .ln_density(&points)
        .unwrap()
        .iter()
        .map(|d| step * d.exp())
        .sum();
    assert!((mass - 1.0).abs() < 2e-3, "{mass}");
}

#[test]
fn a_row_without_features_gets_the_marginal_probability() {
    let (table, labels, fitted) = fitted();
    let empty = Table::new(2, 3, vec![0.0; 6], &[false; 6]).unwrap();
    let p = fitted.predict_proba(&empty).unwrap();
    assert_eq!(p[0], p[1]);
    let share = labels.counts()[1] as f64 / table.n_rows() as f64;
    assert!((p[0] - share).abs() < 0.1, "{} {share}", p[0]);
    assert!(fitted.ln_density(&empty).unwrap()[0].abs() < 1e-9);
}

#[test]
fn intervals_hold_their_mean_and_shrink_with_data() {
    let (test, _) = three_gaussians(23, 50, 1, 0.2, 0.0);
    let width = |n: usize| {
        let (table, labels) = three_gaussians(24, n, 1, 0.0, 0.0);
        let fitted = fit(&table, &labels, &config(24)).unwrap();
        let intervals = fitted.predict_interval(&test, 0.9).unwrap();
        let means = fitted.predict_proba(&test).unwrap();
        let pairs = intervals.iter().zip(&means);
        let inside = pairs
            .filter(|(i, mean)| i.lower - 0.05 <= **mean && **mean <= i.upper + 0.05)
            .count();
        assert!(inside >= 45, "{inside} of 50");
        intervals.iter().map(|i| i.upper - i.lower).sum::<f64>() / 50.0
    };
    assert!(width(60) > 1.5 * width(2000));
}

#[test]
fn units_and_the_order_of_rows_do_not_matter() {
    let (table, labels) = three_gaussians(21, 150, 1, 0.2, 0.0);
    // A start that does not depend on the order of the rows, and no folds, which do.
    let config = IqgmeConfig {
        starts: vec![Init::PerClass(1)],
        folds: 0,
        ..config(21)
    };
    let fitted = fit(&table, &labels, &config).unwrap();
    let units = [3f64, -1e-3, 50.0];
    let scaled = table.map(|_, j, x| 1e3 + units[j] * x).unwrap();
    let order: Vec<usize> = (0..150).rev().collect();
    let again = fit(
        &scaled.select_rows(&order),
        &labels.select_rows(&order),
        &config,
    )
    .unwrap();
    let (a, b) = (
        fitted.predict_proba(&table).unwrap(),
        again.predict_proba(&scaled).unwrap(),
    );
    let (d, e) = (
        fitted.ln_density(&table).unwrap(),
        again.ln_density(&scaled).unwrap(),
    );
    for row in 0..150 {
        assert!(
            (a[row] - b[row]).abs() < 1e-6,
            "row {row}: {} {}",
            a[row],
            b[row]
        );
        let shift: f64 = (0..3)
            .filter(|&j| table.is_observed(row, j))
            .map(|j| units[j].abs().ln())
            .sum();
        assert!(
            (d[row] - shift - e[row]).abs() < 1e-6,
            "row {row}: {} {}",
            d[row] - shift,
            e[row]
        );
    }
}

/// Averaging over runs: weights of both kinds sum to one, the best run comes first, each is calibrated, and a temperature of zero means the best run alone.
#[test]
fn predictions_average_over_runs() {
    let (table, labels) = three_gaussians(25, 150, 1, 0.2, 0.0);
    let starts = vec![Init::KMeans(1), Init::PerClass(1), Init::Mixture(4)];
    let config = IqgmeConfig {
        starts: starts.clone(),
        ..config(25)
    };
    let all = fit(&table, &labels, &config).unwrap();
    let runs = all.members();
    assert!((runs.iter().map(|r| r.elbo_weight).sum::<f64>() - 1.0).abs() < 1e-12);
    assert!((runs.iter().map(|r| r.stacking_weight).sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(
        runs.windows(2)
            .all(|w| w[0].elbo() >= w[1].elbo() && w[0].elbo_weight >= w[1].elbo_weight)
    );
    let mut mean = vec![0.0; 150];
    for run in runs {
        let alone = fit(
            &table,
            &labels,
            &IqgmeConfig {
                starts: vec![run.start],
                ..config.clone()
            },
        )
        .unwrap();
        assert_eq!(
            alone.members()[0].calibration.inverse_temperature,
            run.calibration.inverse_temperature
        );
        for (m, p) in mean.iter_mut().zip(alone.predict_proba(&table).unwrap()) {
            *m += run.stacking_weight * p;
        }
    }
    for (p, m) in all.predict_proba(&table).unwrap().iter().zip(&mean) {
        assert!((p - m).abs() < 1e-12, "{p} {m}");
    }
    let best = fit(
        &table,
        &labels,
        &IqgmeConfig {
            elbo_temperature: 0.0,
            folds: 0,
            ..config
        },
    )
    .unwrap();
    assert_eq!(
        (
            best.members()[0].elbo_weight,
            best.members()[0].stacking_weight
        ),
        (1.0, 1.0)
    );
    assert_eq!(best.members()[0].start, runs[0].start);
}

/// Few rows of many features, whose classes a line nearly tells apart: experts are shrunk, and runs not sure enough.
#[test]
fn runs_are_as_sure_as_labels_allow() {
    let rows = |seed: u64, n: usize| cut_by_a_plane(seed, n, 20, 0.0);
    let (table, labels) = rows(1, 80);
    let (new, truth) = rows(2, 1000);
    let with_folds = |folds: usize| {
        let config = IqgmeConfig {
            starts: vec![Init::KMeans(1), Init::PerClass(1)],
            folds,
            ..config(27)
        };
        fit(&table, &labels, &config).unwrap()
    };
    let (sharpened, as_it_is) = (with_folds(5), with_folds(0));
    let sharpness = |fitted: &IqgmeFit| -> Vec<f64> {
        let runs = fitted.members().iter();
        runs.map(|run| run.calibration.inverse_temperature)
            .collect()
    };
    assert_eq!(sharpness(&as_it_is), [1.0; 2]);
    for run in sharpened.members() {
        match run.start {
            Init::KMeans(_) => assert!(
                run.calibration.inverse_temperature > 1.1,
                "{}",
                run.calibration.inverse_temperature
            ),
            // Its gate has explained labels, as it would have any.
            _ => assert!(
                run.calibration.inverse_temperature < 0.9,
                "{}",
                run.calibration.inverse_temperature
            ),
        }
    }
    assert!(
        sharpened
            .members()
            .iter()
            .all(|run| run.calibration.class_offset.is_empty())
    );
    let loss = |fitted: &IqgmeFit| {
        evaluate(
            fitted.classes(),
            &fitted.predict_classes(&new).unwrap(),
            &truth,
        )
        .log_loss
    };
    let losses = [loss(&sharpened), loss(&as_it_is)];
    assert!(losses[0] < losses[1] - 0.02, "{losses:?}");
    // Intervals are around what is predicted.
    let means = sharpened.predict_proba(&new).unwrap();
    let intervals = sharpened.predict_interval(&new, 0.9).unwrap();
    let pairs = intervals.iter().zip(&means);
    let inside = pairs
        .filter(|(interval, mean)| interval.holds(**mean))
        .count();
    assert!(inside > 900, "{inside}");
    // A file keeps it.
    let read = IqgmeFit::from_bytes(&sharpened.to_bytes().unwrap()).unwrap();
    assert_eq!(read.predict_proba(&new).unwrap(), means);
}

/// The plug-in is the same whatever held-out labels say; probabilities are not.
#[test]
fn the_plug_in_is_not_calibrated() {
    let rows = |seed: u64, n: usize| cut_by_a_plane(seed, n, 20, 5.0);
    let (table, labels) = rows(1, 150);
    let fit_with = |folds: usize| {
        let config = IqgmeConfig {
            starts: IqgmeConfig::default().starts[..1].to_vec(),
            folds,
            ..config(28)
        };
        fit(&table, &labels, &config).unwrap()
    };
    let (calibrated, as_it_is) = (fit_with(5), fit_with(0));
    assert!(calibrated.members()[0].calibration.inverse_temperature > 1.2);
    let (new, _) = rows(2, 2000);
    assert_eq!(
        calibrated.predict_plug_in(&new).unwrap(),
        as_it_is.predict_plug_in(&new).unwrap()
    );
    assert_ne!(
        calibrated.predict_proba(&new).unwrap(),
        as_it_is.predict_proba(&new).unwrap()
    );
}

#[test]
fn f32_and_summaries() {
    let (table, labels, fitted) = fitted();
    let single: Vec<f32> = table.values().iter().map(|&v| v as f32).collect();
    let seen: Vec<bool> = (0..150)
        .flat_map(|i| (0..3).map(move |j| (i, j)))
        .map(|(i, j)| table.is_observed(i, j))
        .collect();
    let from_f32 = Table::from_slice(150, 3, &single, &seen).unwrap();
    let again = fit(&from_f32, &labels, &config(21)).unwrap();
    assert!(
        (again.predict_proba(&from_f32).unwrap()[0] - fitted.predict_proba(&table).unwrap()[0])
            .abs()
            < 0.01
    );

    let components = fitted.components();
    let size: f64 = components.iter().map(|c| c.size).sum();
    assert!((size - 150.0).abs() < 1e-6);
    let classifier = components[0].classifier.as_ref().unwrap();
    // Score at a point from coefficients in the user's units.
    assert_eq!(classifier.coefficients.len(), 3);
    let dominant = fitted.dominant_components(0.005, 500).unwrap();
    assert!((dominant.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    let (shape, rate) = fitted.concentration();
    assert!(shape > 0.0 && rate > 0.0);
    assert_eq!(fitted.predict(&table).unwrap().len(), 150);
    assert_eq!(fitted.clusters(&table).unwrap().len(), 150);
}

/// The class is the sign of a product, the features are one Gaussian: to the bound one component is as good as any, but its expert knows nothing.
#[test]
fn class_probabilities_are_of_the_runs_that_foretell_labels() {
    let rows = |seed: u64, n: usize| {
        let mut rng = stream(seed, [0, 0, 9, 0]);
        let values: Vec<f64> = (0..2 * n).map(|_| rng.sample(StandardNormal)).collect();
        let class = |x: &[f64]| Some(if x[0] * x[1] > 0.0 { "same" } else { "other" });
        let labels: Vec<Option<&str>> = values.chunks_exact(2).map(class).collect();
        (
            Table::complete(n, 2, values).unwrap(),
            Labels::from_strings(&labels),
        )
    };
    let (table, labels) = rows(1, 150);
    let (new, truth) = rows(2, 1000);
    let loss = |folds: usize| {
        let config = IqgmeConfig {
            starts: vec![Init::KMeans(1), Init::PerClass(2)],
            folds,
            ..config(26)
        };
        let fitted = fit(&table, &labels, &config).unwrap();
        let runs = fitted.members();
        if folds == 0 {
            assert!(
                runs.iter()
                    .all(|run| run.stacking_weight == run.elbo_weight)
            );
        } else {
            let flat = runs.iter().find(|r| r.start == Init::KMeans(1)).unwrap();
            assert!(
                flat.stacking_weight < 0.1 && flat.elbo_weight > flat.stacking_weight,
                "{}",
                flat.stacking_weight
            );
        }
        evaluate(
            fitted.classes(),
            &fitted.predict_classes(&new).unwrap(),
            &truth,
        )
        .log_loss
    };
    let (by_labels, by_bounds) = (loss(5), loss(0));
    assert!(by_labels < by_bounds - 0.05, "{by_labels} {by_bounds}");
}

#[test]
fn training_rows_are_completed_and_drawn_by_their_own_cells() {
    let (table, labels, fitted) = fitted_to_few();
    let cells = fitted.training_cells(&table, &labels).unwrap();
    let imputed = fitted.impute_training(&table, &labels).unwrap();
    const DRAWS: usize = 600;
    let draws = fitted
        .impute_training_draws(&table, &labels, DRAWS)
        .unwrap();
    for (row, cells) in cells.iter().enumerate() {
        let missing: Vec<usize> = (0..3).filter(|&j| !table.is_observed(row, j)).collect();
        assert!(cells.iter().map(|cell| cell.column).eq(missing));
        for (j, value) in table.observed_in_row(row) {
            assert!(draws.iter().all(|draw| draw.get(row, j) == Some(value)));
        }
        for cell in cells {
            assert_eq!(imputed.completed.get(row, cell.column), Some(cell.mean));
            assert_eq!(imputed.sd.get(row, cell.column), Some(cell.sd));
            let values = draws.iter().map(|draw| draw.get(row, cell.column).unwrap());
            let mean = values.sum::<f64>() / DRAWS as f64;
            let error = cell.sd / (DRAWS as f64).sqrt();
            assert!(
                (mean - cell.mean).abs() < 5.0 * error,
                "row {row}, column {}: {mean} {}",
                cell.column,
                cell.mean
            );
        }
    }
    let few = table.select_rows(&[0, 1, 2]);
    let labels = labels.select_rows(&[0, 1, 2]);
    let error = fitted.training_cells(&few, &labels).unwrap_err();
    assert!(error.to_string().contains("3 rows"), "{error}");
}

/// Of new rows as of others, and silently before.
#[test]
fn answers_about_training_rows_are_of_no_others() {
    let (table, labels, fitted) = fitted();
    let backwards: Vec<usize> = (0..150).rev().collect();
    let moved = |row, j, x| if (row, j) == (70, 1) { x + 1e-9 } else { x };
    let hole = Mask::from_fn(150, 3, |row, j| (row, j) == (70, 1)).unwrap();
    let names: Vec<Option<&str>> = (0..150).map(|row| labels.name(row)).collect();
    let other = |name| match name {
        Some("up") => Some("down"),
        _ => Some("up"),
    };
    let one_other = names.iter().enumerate();
    let one_other: Vec<_> = one_other
        .map(|(row, name)| if row == 70 { other(*name) } else { *name })
        .collect();
    let others = [
        (table.select_rows(&backwards), labels.clone()),
        (table.map(moved).unwrap(), labels.clone()),
        (table.hide(&hole).unwrap(), labels.clone()),
        (table.clone(), Labels::from_strings(&one_other)),
        (table.clone(), Labels::from_strings(&[None::<&str>; 150])),
    ];
    assert!(table.is_observed(70, 1));
    let again = IqgmeFit::from_bytes(&fitted.to_bytes().unwrap()).unwrap();
    for fitted in [&fitted, &again] {
        assert!(fitted.impute_training(&table, &labels).is_ok());
        for (table, labels) in &others {
            for (error, instead) in [
                (fitted.training_cells(table, labels).err(), "cells_by_row"),
                (fitted.impute_training(table, labels).err(), "impute"),
                (
                    fitted.impute_training_draws(table, labels, 2).err(),
                    "impute_draws",
                ),
            ] {
                let said = error.unwrap().to_string();
                let ask = format!("ask {instead} for new rows");
                assert!(
                    said.contains("not the table and labels of training") && said.contains(&ask),
                    "{said}"
                );
            }
        }
    }
}

/// Components with next to no row keep their place, so that numbers of clusters are positions in the list.
#[test]
fn clusters_are_counted_and_components_keep_their_place() {
    let (table, _) = three_gaussians(26, 200, 1, 0.2, 0.0);
    let mut most_kept = 0;
    for truncation in [8, 20] {
        let config = IqgmeConfig {
            truncation,
            unlabelled_starts: vec![Init::KMeans(8)],
            limits: VbLimits {
                max_iterations: 4,
                ..IqgmeConfig::default().limits
            },
            ..config(26)
        };
        let fitted = fit_unlabelled(&table, &config).unwrap();
        let components = fitted.components();
        let with_rows = components.iter().filter(|c| c.size > 1.0 - 1e-6).count();
        assert_eq!(fitted.n_clusters(), with_rows);
        assert!(components.windows(2).all(|w| w[0].size >= w[1].size));
        most_kept = most_kept.max(components.len() - with_rows);
        let clusters = fitted.clusters(&table).unwrap();
        for h in 0..with_rows {
            let held = clusters.iter().filter(|cluster| **cluster == h).count() as f64;
            let size = components[h].size;
            assert!((held - size).abs() < 5.0 + 0.2 * size, "{h}: {held} {size}");
        }
    }
    assert!(most_kept > 0);
}

#[test]
fn quantiles_are_those_of_the_distribution_and_levels_are_checked() {
    let (table, _, fitted) = fitted();
    let cells = fitted.cells_by_row(&table).unwrap().concat();
    for level in [1e-6, 0.05, 0.5, 0.999] {
        let x = cells[0].quantile(level).unwrap();
        assert!((cells[0].cdf(x) - level).abs() < 1e-9, "{level}: {x}");
    }
    for level in [f64::NAN, 0.0, 1.0, -0.1, 1e300] {
        let said = cells[0].quantile(level).unwrap_err().to_string();
        assert!(said.contains(&format!("level = {level:?}")), "{said}");
    }
}
