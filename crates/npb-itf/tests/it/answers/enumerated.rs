//! A table of levels has so few rows that every question is a sum over all of them.

use npb_data::{Field, Measure, MixedColumn, MixedTable};
use npb_itf::ItfFit;

use super::{Row, close, config, ln_density, rows_of, without};
use crate::tables::{ALL, levels};

const SIZES: [usize; 3] = [3, 2, 3];
const NAMES: [&str; 3] = ["a", "b", "c"];

/// b goes with a, c with both; a few cells are missing.
fn table() -> MixedTable {
    let cells = (0..90_usize).map(|i| {
        let a = i * 7 % 3;
        let b = usize::from(a == 2) ^ usize::from(i % 9 == 0);
        [a, b, (a + b + i % 4 / 3) % 3]
    });
    let cells: Vec<[usize; 3]> = cells.collect();
    let column = |j: usize| {
        let code = |(i, row): (usize, &[usize; 3])| (i % 11 != 3 * j).then_some(row[j] as u32);
        MixedColumn::Categorical {
            levels: levels(&["0", "1", "2"][..SIZES[j]]),
            codes: cells.iter().enumerate().map(code).collect(),
        }
    };
    MixedTable::new(levels(&NAMES), (0..3).map(column).collect()).unwrap()
}

fn fields() -> Vec<Field> {
    let field = |(j, &name)| Field::new(name, Measure::Categorical, vec![j]);
    NAMES.iter().enumerate().map(field).collect()
}

/// All rows that agree with one where that is known.
fn agreeing(with: &Row) -> Vec<Row> {
    let all = (0..18).map(|k| [k / 6, k / 3 % 2, k % 3].map(|code| Some(f64::from(code))));
    let agrees = |row: &[Option<f64>; 3]| with.iter().zip(row).all(|(a, b)| a.is_none() || a == b);
    all.filter(agrees).map(|row| row.to_vec()).collect()
}

/// A table of some rows.
fn rows(cells: &[Row]) -> MixedTable {
    let column = |j: usize| MixedColumn::Categorical {
        levels: levels(&["0", "1", "2"][..SIZES[j]]),
        codes: cells
            .iter()
            .map(|row| row[j].map(|code| code as u32))
            .collect(),
    };
    MixedTable::new(levels(&NAMES), (0..3).map(column).collect()).unwrap()
}

/// The probability of a row: the sum of those of all rows that agree with it, each the mean over draws.
fn probability(fit: &ItfFit, row: &Row) -> f64 {
    let of = |row: &Row| -> f64 {
        let each = fit.draws().iter().map(|draw| ln_density(draw, row).exp());
        each.sum::<f64>() / fit.draws().len() as f64
    };
    agreeing(row).iter().map(of).sum()
}

/// Every row of which something is not known.
fn partial() -> Vec<Row> {
    let hidden = (0..7_usize).map(|bits| (0..3).filter(|j| bits >> j & 1 == 0).collect());
    let hidden: Vec<Vec<usize>> = hidden.collect();
    let all = agreeing(&vec![None; 3]);
    let mut partial: Vec<Row> = hidden
        .iter()
        .flat_map(|hidden| all.iter().map(|row| without(row, hidden)))
        .collect();
    partial.sort_by(|a, b| a.partial_cmp(b).unwrap());
    partial.dedup();
    partial
}

#[test]
fn conditional_answers_are_sums_over_all_rows() {
    for (seed, structure) in (51..).zip(ALL) {
        let fit = npb_itf::fit(&table(), &config(structure, seed)).unwrap();
        close(probability(&fit, &vec![None; 3]), 1.0, 1e-9);
        let partial = partial();
        assert_eq!(partial.len(), 4 * 3 * 4 - 18);
        let asked = rows(&partial);
        let densities = fit.ln_density(&fit.rows(&asked).unwrap()).unwrap();
        for (row, found) in partial.iter().zip(densities) {
            close(found.exp(), probability(&fit, row), 1e-8);
        }
        for targets in [&["a"][..], &["b"], &["c"], &["a", "c"]] {
            let found = fit.predict_columns(&asked, &fields(), targets, 0.9);
            for cell in found.unwrap() {
                let places: Vec<usize> = (0..3).filter(|&j| targets.contains(&NAMES[j])).collect();
                let given = without(&partial[cell.row], &places);
                for (code, found) in cell.expected.iter().enumerate() {
                    let mut with = given.clone();
                    with[cell.column] = Some(code as f64);
                    let wanted = probability(&fit, &with) / probability(&fit, &given);
                    close(*found, wanted, 1e-8);
                }
            }
        }
        let whole = agreeing(&vec![None; 3]);
        let read = fit.rows(&rows(&whole)).unwrap();
        for cell in fit.surprisals(&read).unwrap() {
            let row = &whole[cell.row];
            let given = probability(&fit, row) / probability(&fit, &without(row, &[cell.column]));
            close(cell.surprisal, -given.ln(), 1e-8);
        }
    }
}

/// Of 100,000 rows each is as often there as its probability says, with and without something given.
#[test]
fn a_hundred_thousand_rows_are_as_probable_as_enumerated() {
    let n = 100_000;
    for (seed, structure) in (61..).zip(ALL) {
        let fit = npb_itf::fit(&table(), &config(structure, seed)).unwrap();
        for given in [vec![None; 3], vec![None, Some(1.0), None]] {
            let one = rows(std::slice::from_ref(&given));
            let made = rows_of(&fit.simulate(&one, &fields(), 0..n).unwrap());
            let possible = agreeing(&given);
            let chi_squared: f64 = possible
                .iter()
                .map(|row| {
                    let times = made.iter().filter(|made| *made == row).count() as f64;
                    let wanted = n as f64 * probability(&fit, row) / probability(&fit, &given);
                    (times - wanted).powi(2) / wanted
                })
                .sum();
            assert!(made.iter().all(|row| possible.contains(row)));
            // One in 100,000: the mean of chi squared is its degrees of freedom, its variance twice that.
            let most = [37.4, 54.0][usize::from(possible.len() > 9)];
            assert!(chi_squared < most, "{structure:?} {given:?}: {chi_squared}");
        }
    }
}

/// What two columns say of each other is no more than what their clusters do.
#[test]
fn cells_share_no_more_information_than_their_clusters() {
    let entropy = |p: &[f64]| -> f64 { p.iter().map(|p| -p * p.ln()).sum() };
    for (seed, structure) in (71..).zip(ALL) {
        let fit = npb_itf::fit(&table(), &config(structure, seed)).unwrap();
        for draw in fit.draws() {
            for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                let law = |columns: &[usize]| -> Vec<f64> {
                    let hidden: Vec<usize> = (0..3).filter(|j| !columns.contains(j)).collect();
                    let mut ways: Vec<Row> = agreeing(&vec![None; 3])
                        .iter()
                        .map(|row| without(row, &hidden))
                        .collect();
                    ways.sort_by(|a, b| a.partial_cmp(b).unwrap());
                    ways.dedup();
                    let each = ways.iter().map(|row| ln_density(draw, row).exp());
                    each.collect()
                };
                let of_cells = entropy(&law(&[a])) + entropy(&law(&[b])) - entropy(&law(&[a, b]));
                let of_clusters = draw.mutual_information(a, b);
                assert!(of_cells > -1e-9, "{of_cells}");
                assert!(of_cells < of_clusters + 1e-9, "{of_cells} {of_clusters}");
            }
        }
    }
}
