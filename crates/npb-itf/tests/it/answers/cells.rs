//! Missing cells: expectations, intervals, and draws that belong together.

use npb_data::{Field, Measure, MixedColumn, MixedTable};
use npb_itf::{Draw, ItfData, ItfFit, fit_data};

use super::{
    Row, below, close, config, density_of, expected, fitted, given, mean, rows_of, table, top,
    weights, within,
};
use crate::tables::ALL;

/// The share of a missing cell's law at or below a number.
fn cdf(fit: &ItfFit, row: &Row, training: bool, j: usize, x: f64) -> f64 {
    mean(fit, row, training, |draw| {
        given(draw, row, j, |law, k| below(law, k, x))
    })
}

fn missing(row: &Row) -> Vec<usize> {
    (0..row.len()).filter(|&j| row[j].is_none()).collect()
}

#[test]
fn filled_cells_are_those_of_the_draws() {
    for structure in ALL {
        let (trained, fit) = fitted(structure, 11);
        let new = table(25, 12);
        for training in [false, true] {
            let asked = if training { &trained } else { &new };
            let rows = rows_of(asked);
            let (read, filled) = match training {
                false => (fit.rows(asked), fit.impute(asked, 0.8)),
                true => (fit.training_rows(asked), fit.impute_training(asked, 0.8)),
            };
            let (cells, filled) = (
                fit.impute_cells(&read.unwrap(), 0.8).unwrap(),
                filled.unwrap(),
            );
            assert_eq!(filled.cells, cells);
            let places = rows.iter().enumerate();
            let places = places.flat_map(|(i, row)| missing(row).into_iter().map(move |j| (i, j)));
            assert!(cells.iter().map(|c| (c.row, c.column)).eq(places));
            let completed = rows_of(&filled.completed);
            for cell in &cells {
                let (row, j) = (&rows[cell.row], cell.column);
                assert_eq!(cell.missing, [0]);
                let wanted = expected(&fit, row, training, j);
                let each = cell.expected.iter().zip(&wanted);
                each.for_each(|(found, wanted)| close(*found, *wanted, 1e-8));
                let best = match j {
                    1 => (0..3)
                        .max_by(|&a, &b| wanted[a].total_cmp(&wanted[b]))
                        .unwrap() as f64,
                    _ => wanted[0],
                };
                close(completed[cell.row][j].unwrap(), best, 1e-8);
                // Of 400 values, spread evenly over the draws: a share of a tenth has a standard error of .015.
                let at_most = |x: f64| cdf(&fit, row, training, j, x);
                let (lower, upper) = (cell.lower[0], cell.upper[0]);
                let [less, more] = match j {
                    1 => [at_most(lower - 1.0) < 0.17, at_most(lower) > 0.03],
                    _ => [at_most(lower) < 0.17, at_most(lower) > 0.03],
                };
                assert!(less && more, "{structure:?} {cell:?} {}", at_most(lower));
                let [less, more] = match j {
                    1 => [at_most(upper - 1.0) < 0.97, at_most(upper) > 0.83],
                    _ => [at_most(upper) < 0.97, at_most(upper) > 0.83],
                };
                assert!(less && more, "{structure:?} {cell:?} {}", at_most(upper));
                // A standard deviation of 400 values is off by a few per cent.
                if j == 1 {
                    let moment =
                        |p: i32| -> f64 { (0..3).map(|k| wanted[k] * (k as f64).powi(p)).sum() };
                    let variance = moment(2) - moment(1).powi(2);
                    let off = cell.sd[0] - variance.max(0.0).sqrt();
                    assert!(off.abs() < 0.12, "{structure:?} {cell:?} {variance}");
                } else if cell.row < 8 {
                    let (low, step) = (wanted[0] - 20.0, 0.02);
                    let (mut below, mut variance) = (at_most(low), 0.0);
                    for k in 1..=2000 {
                        let x = low + step * f64::from(k);
                        let above = at_most(x);
                        variance += (above - below) * (x - 0.5 * step - wanted[0]).powi(2);
                        below = above;
                    }
                    let ratio = cell.sd[0] / variance.sqrt();
                    assert!(
                        (0.7..1.4).contains(&ratio),
                        "{structure:?} {cell:?} {ratio}"
                    );
                }
            }
            for (row, completed) in rows.iter().zip(&completed) {
                let each = row.iter().zip(completed);
                assert!(
                    each.clone()
                        .all(|(x, y)| y.is_some() && (x.is_none() || x == y))
                );
            }
        }
    }
}

/// Probability, in one draw, that a missing level is this one and a missing number at most that, given the other cells.
fn together(draw: &Draw, row: &Row, (level, code): (usize, f64), (number, x): (usize, f64)) -> f64 {
    let apart = draw.columns[level].block != draw.columns[number].block;
    let of_level = |law: &npb_itf::kernels::Column, k: usize| density_of(law, k, code);
    let of_number = |law: &npb_itf::kernels::Column, k: usize| below(law, k, x);
    if apart {
        return given(draw, row, level, of_level) * given(draw, row, number, of_number);
    }
    let top = top(draw, draw.columns[level].block, row);
    let total: f64 = top.iter().sum();
    let each = top.iter().enumerate().filter(|(_, p)| **p > 0.0);
    each.map(|(r, p)| {
        // With one level the clusters of both columns are the same one.
        p / total * within(draw, level, r, of_level) * within(draw, number, r, of_number)
    })
    .sum()
}

/// Draws of a new row: each cell has its law, and two cells that are missing go together as in the joint law.
#[test]
fn drawn_cells_of_a_new_row_have_their_joint_law() {
    const N: usize = 4000;
    for structure in ALL {
        let (_, fit) = fitted(structure, 13);
        let hole: Row = vec![Some(94.0), None, None, Some(100.3)];
        let column = |j: usize| MixedColumn::Real(vec![hole[j]; 1]);
        let levels = MixedColumn::Categorical {
            levels: crate::tables::levels(&["low", "mid", "high"]),
            codes: vec![None],
        };
        let names = ["x", "c", "y", "w"].map(str::to_owned).to_vec();
        let new = MixedTable::new(names, vec![column(0), levels, column(2), column(3)]).unwrap();
        let tables = fit.impute_draws(&new, N, false).unwrap();
        let cells = fit.impute_cell_draws(&fit.rows(&new).unwrap(), N).unwrap();
        assert_eq!(
            cells.iter().map(|c| (c.row, c.column)).collect::<Vec<_>>(),
            [(0, 1), (0, 2)]
        );
        // The seed makes the random numbers, and nothing else.
        let other = fit.clone().with_seed(77);
        assert!(
            fit.clone()
                .with_seed(fit.config().seed)
                .impute_draws(&new, 5, false)
                .unwrap()
                == tables[..5]
        );
        assert!(other.impute_draws(&new, 5, false).unwrap() != tables[..5]);
        let predicted = |fit: &ItfFit| fit.predict(&fit.rows(&new).unwrap(), "x").unwrap();
        assert_eq!(predicted(&other), predicted(&fit));
        let drawn: Vec<Row> = tables.iter().map(|t| rows_of(t).remove(0)).collect();
        for (n, row) in drawn.iter().enumerate() {
            assert_eq!((row[0], row[3]), (hole[0], hole[3]));
            assert_eq!(row[1], Some(cells[0].draws[n][0]));
            assert_eq!(row[2], Some(cells[1].draws[n][0]));
        }
        let share =
            |f: &dyn Fn(&Row) -> bool| drawn.iter().filter(|r| f(r)).count() as f64 / N as f64;
        for code in [0.0, 1.0, 2.0] {
            for x in [99.9, 100.05, 100.2] {
                let wanted = mean(&fit, &hole, false, |draw| {
                    together(draw, &hole, (1, code), (2, x))
                });
                let found = share(&|r| r[1] == Some(code) && r[2] <= Some(x));
                assert!(
                    (found - wanted).abs() < 0.035,
                    "{structure:?} {code} {x}: {found} {wanted}"
                );
            }
        }
    }
}

/// Tables of training: as many as there are draws use each of them once, and their shares are averages over draws.
#[test]
fn drawn_tables_of_training_take_draws_in_turn() {
    let (trained, fit) = fitted(ALL[2], 15);
    let n = fit.draws().len() * 250;
    let tables = fit.impute_draws(&trained, n, true).unwrap();
    let rows = rows_of(&trained);
    let of_row = |i: usize| -> Vec<Row> {
        tables
            .iter()
            .map(|t| rows_of(&t.select_rows(&[i])).remove(0))
            .collect()
    };
    let with_holes: Vec<usize> = (0..60).filter(|&i| !missing(&rows[i]).is_empty()).collect();
    for &i in with_holes.iter().take(4) {
        let drawn = of_row(i);
        for j in missing(&rows[i]) {
            let wanted = expected(&fit, &rows[i], true, j);
            if j == 1 {
                for (code, wanted) in wanted.iter().enumerate() {
                    let found = drawn.iter().filter(|r| r[1] == Some(code as f64)).count();
                    let found = found as f64 / n as f64;
                    assert!((found - wanted).abs() < 0.05, "{i}: {found} {wanted}");
                }
                continue;
            }
            let (mut low, mut high) = (0.0, 200.0);
            for _ in 0..30 {
                let middle = 0.5 * (low + high);
                match cdf(&fit, &rows[i], true, j, middle) < 0.5 {
                    true => low = middle,
                    false => high = middle,
                }
            }
            let below = drawn.iter().filter(|r| r[j].unwrap() < low).count();
            let share = below as f64 / n as f64;
            assert!((share - 0.5).abs() < 0.05, "{i} {j}: {share}");
        }
    }
}

/// Fields of one column each, measured as a table has them, are that table: the same answers in the same bits.
#[test]
fn fields_of_one_column_are_the_columns() {
    let (trained, fit) = fitted(ALL[2], 17);
    let measures = [
        Measure::Real,
        Measure::Categorical,
        Measure::Real,
        Measure::Real,
    ];
    let names = trained.column_names().iter().zip(measures).enumerate();
    let fields: Vec<Field> = names
        .map(|(j, (name, measure))| Field::new(name, measure, vec![j]))
        .collect();
    let data = ItfData::from_fields(&trained, &fields).unwrap();
    let by_fields = fit_data(&data, &config(ALL[2], 17)).unwrap();
    let new = table(10, 18);
    let rows = by_fields.field_rows(&new, &fields, false).unwrap();
    assert_eq!(
        by_fields.ln_density(&rows).unwrap(),
        fit.ln_density(&fit.rows(&new).unwrap()).unwrap()
    );
    for training in [false, true] {
        let asked = if training { &trained } else { &new };
        let filled = by_fields
            .impute_fields(asked, &fields, 0.7, training)
            .unwrap();
        let wanted = match training {
            false => fit.impute(asked, 0.7),
            true => fit.impute_training(asked, 0.7),
        };
        assert_eq!(filled, wanted.unwrap());
        let drawn = by_fields
            .impute_field_draws(asked, &fields, 5, training)
            .unwrap();
        assert_eq!(drawn, fit.impute_draws(asked, 5, training).unwrap());
    }
    // A field of two columns: what is asked of it is what is asked of its rows, in the table's own columns.
    let pair = [
        Field::new("pair", Measure::Vector, vec![2, 0]),
        Field::new("c", Measure::Categorical, vec![1]),
    ];
    let data = ItfData::from_fields(&trained, &pair).unwrap();
    let fit = fit_data(&data, &config(ALL[2], 19)).unwrap();
    let rows = fit.field_rows(&new, &pair, false).unwrap();
    let (filled, cells) = (
        fit.impute_fields(&new, &pair, 0.7, false).unwrap(),
        fit.impute_cells(&rows, 0.7).unwrap(),
    );
    assert_eq!(filled.cells, cells);
    let drawn = fit.impute_field_draws(&new, &pair, 3, false).unwrap();
    let by_cell = fit.impute_cell_draws(&rows, 3).unwrap();
    for (cell, of_cell) in cells.iter().zip(&by_cell) {
        for &part in &cell.missing {
            let at = pair[cell.column].columns[part];
            let number = |table: &MixedTable| rows_of(table)[cell.row][at].unwrap();
            if at != 1 {
                assert_eq!(number(&filled.completed), cell.expected[part]);
            }
            for (table, draw) in drawn.iter().zip(&of_cell.draws) {
                assert_eq!(number(table), draw[part]);
            }
        }
    }
    assert_eq!(filled.completed.column(3), new.column(3));
    let one = weights(&by_fields, &rows_of(&new)[0], true);
    assert_eq!(one.len(), by_fields.draws().len());
}
