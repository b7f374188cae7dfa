//! Densities and predictions of rows.

use npb_data::{Mask, MixedColumn, MixedTable};
use npb_itf::{Draw, ItfData, ItfFit};

use super::{close, expected, fitted, ln_density, mean, rows_of, table, weights, without};
use crate::tables::ALL;

fn ln_mean(fit: &ItfFit, f: impl Fn(&Draw) -> f64) -> f64 {
    let n = fit.draws().len() as f64;
    (fit.draws().iter().map(|d| f(d).exp()).sum::<f64>() / n).ln()
}

#[test]
fn densities_and_predictions_are_sums_over_the_draws() {
    for structure in ALL {
        let (trained, fit) = fitted(structure, 1);
        let new = table(9, 2);
        for training in [false, true] {
            let (rows, own) = match training {
                false => (rows_of(&new), fit.rows(&new).unwrap()),
                true => (rows_of(&trained), fit.training_rows(&trained).unwrap()),
            };
            assert_eq!(own.n_rows(), rows.len());
            let density = fit.ln_density(&own).unwrap();
            let of_one = fit.ln_conditional(&own, &["c"]).unwrap();
            let of_two = fit.ln_conditional(&own, &["y", "x"]).unwrap();
            let predicted = ["x", "c", "y", "w"].map(|name| fit.predict(&own, name).unwrap());
            for (i, row) in rows.iter().enumerate().take(20) {
                close(density[i], ln_mean(&fit, |d| ln_density(d, row)), 1e-8);
                for (found, columns) in [(of_one[i], &[1][..]), (of_two[i], &[0, 2])] {
                    let less = without(row, columns);
                    let given = mean(&fit, &less, training, |draw| {
                        (ln_density(draw, row) - ln_density(draw, &less)).exp()
                    });
                    close(found, given.ln(), 1e-8);
                }
                for (j, predicted) in predicted.iter().enumerate() {
                    let wanted = expected(&fit, &without(row, &[j]), training, j);
                    assert_eq!(predicted[i].len(), wanted.len());
                    let each = predicted[i].iter().zip(&wanted);
                    each.for_each(|(found, wanted)| close(*found, *wanted, 1e-8));
                }
            }
        }
    }
}

/// Every known cell given the rest of its row, and the mean of that over rows that the law written out would have.
#[test]
fn surprisals_are_sums_over_the_draws() {
    for structure in ALL {
        let (trained, fit) = fitted(structure, 7);
        let new = table(9, 8);
        for training in [false, true] {
            let (rows, own) = match training {
                false => (rows_of(&new), fit.rows(&new).unwrap()),
                true => (rows_of(&trained), fit.training_rows(&trained).unwrap()),
            };
            let (found, densities) = fit.surprisals_and_densities(&own).unwrap();
            let wanted = fit.ln_density(&own).unwrap();
            assert_eq!(densities.len(), wanted.len());
            let each = densities.iter().zip(&wanted);
            each.for_each(|(found, wanted)| close(*found, *wanted, 1e-8));
            let known = rows.iter().flatten().filter(|cell| cell.is_some()).count();
            assert_eq!(found.len(), known);
            for cell in found.iter().take(80) {
                let row = &rows[cell.row];
                let less = without(row, &[cell.column]);
                let density = mean(&fit, &less, training, |draw| {
                    (ln_density(draw, row) - ln_density(draw, &less)).exp()
                });
                close(cell.surprisal, -density.ln(), 1e-8);
            }
        }
    }
}

/// Of levels alone all rows can be gone through: the entropy of each column given the others.
#[test]
fn what_is_usual_is_an_entropy() {
    let code = |i: u32| Some((i * i + i / 7) % 3);
    let column = |of: &dyn Fn(u32) -> Option<u32>| MixedColumn::Categorical {
        levels: crate::tables::levels(&["low", "mid", "high"]),
        codes: (0..90).map(of).collect(),
    };
    let columns = vec![
        column(&code),
        column(&|i| code(i + i / 60)),
        column(&|i| Some(i % 3)),
    ];
    let names = ["a", "b", "c"].map(str::to_owned).to_vec();
    let table = MixedTable::new(names, columns).unwrap();
    let fit = npb_itf::fit(&table, &super::config(ALL[2], 9)).unwrap();
    let all = (0..27_usize).map(|k| [k / 9, k / 3 % 3, k % 3].map(|code| Some(code as f64)));
    let probability = |row: &[Option<f64>]| mean_density(&fit, &row.to_vec());
    let mut wanted = [0.0; 3];
    for row in all {
        let p = probability(&row);
        for (j, wanted) in wanted.iter_mut().enumerate() {
            let rest = probability(&without(&row.to_vec(), &[j]));
            *wanted -= p * (p / rest).ln();
        }
    }
    let found = fit.usual_surprisals(&fit.rows(&table).unwrap()).unwrap();
    for (found, wanted) in found.iter().zip(wanted) {
        // A mean of 400 surprisals between 0 and 4.
        close(*found, wanted, 0.15);
    }
    let none = MixedTable::new(
        table.column_names().to_vec(),
        table.select_rows(&[]).columns().to_vec(),
    );
    assert!(
        fit.usual_surprisals(&fit.rows(&none.unwrap()).unwrap())
            .is_err()
    );
}

fn mean_density(fit: &ItfFit, row: &super::Row) -> f64 {
    let all = fit.draws().iter().map(|draw| ln_density(draw, row).exp());
    all.sum::<f64>() / fit.draws().len() as f64
}

/// Single cells given what is shown of their rows, several of a row among them.
#[test]
fn held_out_cells_have_their_conditional_densities() {
    for structure in ALL {
        let (trained, fit) = fitted(structure, 3);
        let new = table(60, 4);
        let hidden = Mask::from_fn(60, 4, |i, j| (i + j) % 3 == 0).unwrap();
        for training in [false, true] {
            let whole = if training { &trained } else { &new };
            let shown = whole.hide(&hidden).unwrap();
            let read = |table: &MixedTable| match training {
                false => fit.rows(table).unwrap(),
                true => fit.training_rows(table).unwrap(),
            };
            let cells = (0..60).flat_map(|i| (0..4).map(move |j| (i, j)));
            let wanted = |&(i, j): &(usize, usize)| (i + j) % 3 == 0 && whole.is_observed(i, j);
            let mut cells: Vec<(usize, usize)> = cells.filter(wanted).collect();
            // In no order of theirs.
            cells.reverse();
            let found = fit
                .ln_held_out(&read(&shown), &read(whole), &cells)
                .unwrap();
            let (shown, whole) = (rows_of(&shown), rows_of(whole));
            for (&(i, j), found) in cells.iter().zip(found) {
                let mut with = shown[i].clone();
                with[j] = whole[i][j];
                let wanted = mean(&fit, &shown[i], training, |draw| {
                    (ln_density(draw, &with) - ln_density(draw, &shown[i])).exp()
                });
                close(found, wanted.ln(), 1e-8);
            }
        }
    }
}

/// The same rows read in three ways; levels in another order, and rows by themselves.
#[test]
fn rows_are_the_same_however_they_are_read() {
    let (trained, fit) = fitted(ALL[2], 5);
    let new = table(12, 6);
    let density = |rows: &npb_itf::ItfRows| fit.ln_density(rows).unwrap();
    let own = density(&fit.rows(&new).unwrap());
    let data = ItfData::from_table(&new).unwrap();
    assert_eq!(own, density(&fit.rows_of(&data, false).unwrap()));
    // What is not given the other cells is the same for rows of training.
    assert_eq!(own, density(&fit.rows_of(&data, true).unwrap()));
    assert_eq!(own, density(&fit.training_rows(&new).unwrap()));
    let asked = |rows: &npb_itf::ItfRows| fit.predict(rows, "x").unwrap();
    let [as_new, as_own] =
        [false, true].map(|training| asked(&fit.rows_of(&data, training).unwrap()));
    assert_eq!(as_new, asked(&fit.rows(&new).unwrap()));
    assert_eq!(as_own, asked(&fit.training_rows(&new).unwrap()));
    assert_ne!(as_new, as_own);
    let MixedColumn::Categorical { codes, .. } = new.column(1) else {
        panic!("levels");
    };
    let mut columns = new.columns().to_vec();
    columns[1] = MixedColumn::Categorical {
        levels: crate::tables::levels(&["high", "low", "mid"]),
        codes: codes.iter().map(|c| c.map(|c| (c + 1) % 3)).collect(),
    };
    let renamed = MixedTable::new(new.column_names().to_vec(), columns).unwrap();
    assert_eq!(own, density(&fit.rows(&renamed).unwrap()));
    for (i, own) in own.iter().enumerate() {
        close(
            density(&fit.rows(&new.select_rows(&[i])).unwrap())[0],
            *own,
            1e-12,
        );
    }
    // Draws weigh by how well they explain a new row.
    let row = &rows_of(&new)[0];
    let weights = weights(&fit, row, false);
    close(weights.iter().sum(), 1.0, 1e-9);
    assert!(weights.iter().any(|w| (w - 1.0 / 8.0).abs() > 1e-3));
    assert_eq!(fit.n_rows(), trained.n_rows());
}
