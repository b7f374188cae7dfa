//! Predicted columns and simulated rows.

use npb_data::{Field, Measure, MixedColumn, MixedTable};
use npb_infer::SweepPlan;
use npb_itf::kernels::Column;
use npb_itf::{Draw, ItfConfig};
use rand::RngExt;
use rand_distr::StandardNormal;

use super::{
    Row, below, close, density_of, expected, fitted, given, rows_of, table, weights, without,
};
use crate::tables::ALL;

fn fields() -> Vec<Field> {
    let measures = [
        Measure::Real,
        Measure::Categorical,
        Measure::Real,
        Measure::Real,
    ];
    let all = ["x", "c", "y", "w"].into_iter().zip(measures).enumerate();
    all.map(|(j, (name, measure))| Field::new(name, measure, vec![j]))
        .collect()
}

/// Columns that are asked about are not looked at, several at once neither; the share of what is not known of the law, written out.
#[test]
fn predicted_columns_are_sums_over_the_draws() {
    let mut all_off = Vec::new();
    for structure in ALL {
        let (_, fit) = fitted(structure, 41);
        let new = table(7, 42);
        for targets in [&["x"][..], &["c", "y"]] {
            let found = fit.predict_columns(&new, &fields(), targets, 0.9).unwrap();
            assert_eq!(found.len(), 7 * targets.len());
            let places: Vec<usize> = targets
                .iter()
                .map(|name| fit.column_index(name).unwrap())
                .collect();
            for cell in &found {
                let less = without(&rows_of(&new)[cell.row], &places);
                let j = cell.column;
                assert!(places.contains(&j));
                let wanted = expected(&fit, &less, false, j);
                let each = cell.expected.iter().zip(&wanted);
                each.for_each(|(found, wanted)| close(*found, *wanted, 1e-8));
                let weights = weights(&fit, &less, false);
                let entropy = |p: &[f64]| -> f64 { p.iter().map(|p| -p * p.ln()).sum() };
                let draws = || fit.draws().iter().zip(&weights);
                let (part, tolerance) = match j {
                    1 => {
                        let levels = |draw: &Draw| -> Vec<f64> {
                            let of = |code| {
                                given(draw, &less, 1, |law, k| density_of(law, k, f64::from(code)))
                            };
                            (0..3).map(of).collect()
                        };
                        let within: f64 = draws().map(|(draw, w)| w * entropy(&levels(draw))).sum();
                        (1.0 - within / entropy(&wanted), 1e-8)
                    }
                    _ => {
                        let normal = |law: &Column, k: usize| match law {
                            Column::Normal(fitted) => {
                                (fitted.params.mean(k), 1.0 / fitted.params.precision(k))
                            }
                            law => panic!("{law:?}"),
                        };
                        let mean = |draw: &Draw| given(draw, &less, j, |law, k| normal(law, k).0);
                        let square = |draw: &Draw| {
                            given(draw, &less, j, |law, k| {
                                let (mean, variance) = normal(law, k);
                                variance + (mean - wanted[0]).powi(2)
                            })
                        };
                        let known: f64 = draws()
                            .map(|(draw, w)| w * (mean(draw) - wanted[0]).powi(2))
                            .sum();
                        let all: f64 = draws().map(|(draw, w)| w * square(draw)).sum();
                        // The rest of the variance is that of 400 simulated values, of clusters some of which are rare and wide.
                        (known / all, 0.12)
                    }
                };
                // Rows that one draw explains best do not say how far draws are apart.
                let alone = weights.iter().map(|w| w * w).sum::<f64>() > 0.5;
                assert_eq!(cell.epistemic[0].is_nan(), alone);
                if alone {
                    continue;
                }
                let off = cell.epistemic[0] - part;
                assert!(off.abs() < tolerance, "{} {part}", cell.epistemic[0]);
                all_off.push(off);
            }
        }
    }
    assert!(all_off.len() > 40, "{}", all_off.len());
    let off = all_off.iter().sum::<f64>() / all_off.len() as f64;
    assert!(off.abs() < 0.02, "{off} in the mean");
}

/// Of one normal column the mean is not known by a variance over n, so that it is 1 / (n + 1) of that of a new value.
#[test]
fn the_epistemic_share_of_a_mean_is_that_of_one_value_more() {
    for n in [8_usize, 60] {
        let rng = &mut npb_infer::stream(5, [n as u64; 4]);
        let x = (0..n).map(|_| Some(3.0 + rng.sample::<f64, _>(StandardNormal)));
        let x = MixedColumn::Real(x.collect());
        let one = MixedTable::new(vec!["x".into()], vec![x]).unwrap();
        let settings = ItfConfig {
            chains: 2,
            sweeps: SweepPlan {
                burn_in: 200,
                keep: 300,
                thin: 2,
            },
            ..ItfConfig::default()
        };
        let fit = npb_itf::fit(&one, &settings).unwrap();
        let fields = [Field::new("x", Measure::Real, vec![0])];
        let cell = &fit
            .predict_columns(&one.select_rows(&[0]), &fields, &["x"], 0.9)
            .unwrap()[0];
        let share = cell.epistemic[0] * (n as f64 + 1.0);
        // Rows may also be in more than one cluster.
        assert!((0.5..2.5).contains(&share), "{n}: {share}");
        let mean = (0..n)
            .map(|i| one.column(0).number(i).unwrap())
            .sum::<f64>()
            / n as f64;
        assert!(
            (cell.expected[0] - mean).abs() < 1.5 / (n as f64).sqrt(),
            "{n}"
        );
    }
}

/// Known cells are kept, and the others are as likely as enumeration over the draws says.
#[test]
fn simulated_rows_are_of_the_law() {
    for (structure, code) in ALL.into_iter().zip([None, Some(2.0), Some(0.0)]) {
        let (_, fit) = fitted(structure, 43);
        let row: Row = vec![None, code, None, None];
        let columns = vec![
            MixedColumn::Real(vec![None]),
            MixedColumn::Categorical {
                levels: crate::tables::levels(&["low", "mid", "high"]),
                codes: vec![code.map(|code| code as u32)],
            },
            MixedColumn::Real(vec![None]),
            MixedColumn::Real(vec![None]),
        ];
        let names = ["x", "c", "y", "w"].map(str::to_owned).to_vec();
        let one = MixedTable::new(names, columns).unwrap();
        let n = 4000;
        let drawn = fit.simulate(&one, &fields(), 0..n).unwrap();
        assert_eq!((drawn.n_rows(), drawn.n_missing()), (n, 0));
        let rows = rows_of(&drawn);
        if code.is_some() {
            assert!(rows.iter().all(|row| row[1] == code));
        }
        for j in [0, 2, 3] {
            let values: Vec<f64> = rows.iter().map(|row| row[j].unwrap()).collect();
            let mean = values.iter().sum::<f64>() / n as f64;
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
            let wanted = expected(&fit, &row, false, j)[0];
            assert!(
                (mean - wanted).abs() < 4.0 * (variance / n as f64).sqrt(),
                "{mean} {wanted}"
            );
            // A third of the values lie below where the law says.
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let at = sorted[n / 3];
            let share = super::mean(&fit, &row, false, |draw| {
                given(draw, &row, j, |law, k| below(law, k, at))
            });
            assert!((share - 1.0 / 3.0).abs() < 0.03, "{share}");
        }
        if code.is_none() {
            for (level, wanted) in expected(&fit, &row, false, 1).into_iter().enumerate() {
                let share = rows
                    .iter()
                    .filter(|row| row[1] == Some(level as f64))
                    .count() as f64
                    / n as f64;
                assert!((share - wanted).abs() < 0.03, "{share} {wanted}");
            }
        }
    }
}

#[test]
fn questions_that_cannot_be_are_named() {
    let (_, fit) = fitted(ALL[0], 45);
    let new = table(2, 46);
    let refused = |columns: &[&str], level: f64| {
        let error = fit.predict_columns(&new, &fields(), columns, level);
        error.unwrap_err().to_string()
    };
    assert!(refused(&[], 0.9).contains("columns"));
    assert!(refused(&["x", "x"], 0.9).contains("\"x\" twice"));
    assert!(refused(&["z"], 0.9).contains("z"));
    assert!(refused(&["x"], 1.0).contains("level = 1"));
    let simulated = |table: &MixedTable| {
        fit.simulate(table, &fields(), 0..3)
            .unwrap_err()
            .to_string()
    };
    assert!(simulated(&new).contains("number of rows) = 2"));
    let complete = MixedTable::new(
        new.column_names().to_vec(),
        vec![
            MixedColumn::Real(vec![Some(100.0)]),
            MixedColumn::Categorical {
                levels: crate::tables::levels(&["low", "mid", "high"]),
                codes: vec![Some(1)],
            },
            MixedColumn::Real(vec![Some(100.0)]),
            MixedColumn::Real(vec![Some(100.0)]),
        ],
    );
    assert!(simulated(&complete.unwrap()).contains("leave a column out"));
}
