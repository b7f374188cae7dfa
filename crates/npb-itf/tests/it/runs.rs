//! Whole runs: equal bits, files, bad input, recovery.

use std::ops::ControlFlow;

use npb_data::{MixedColumn, MixedTable};
use npb_infer::storage;
use npb_infer::testing::{attack_file, same_bits_on_threads, same_bits_when_resumed};
use npb_itf::{Checkpoint, ItfConfig, ItfData, ItfError, ItfFit, ItfRun, Structure, fit};
use rand::RngExt;
use rand_distr::StandardNormal;

fn levels(names: &[&str]) -> Vec<String> {
    names.iter().map(|&n| n.to_owned()).collect()
}

/// `groups` independent groups of three columns (real, real, three levels), three clusters each; a tenth missing.
fn grouped(n: usize, groups: usize, seed: u64) -> MixedTable {
    let rng = &mut npb_infer::stream(seed, [7; 4]);
    let (mut names, mut columns) = (Vec::new(), Vec::new());
    for g in 0..groups {
        let z: Vec<usize> = (0..n).map(|_| rng.random_range(0..3)).collect();
        for c in 0..2 {
            let cell = |&z: &usize| {
                let noise: f64 = rng.sample(StandardNormal);
                (rng.random::<f64>() > 0.1).then_some([-4.0, 0.0, 4.0][(z + c) % 3] + noise)
            };
            names.push(format!("g{g}x{c}"));
            columns.push(MixedColumn::Real(z.iter().map(cell).collect()));
        }
        let cell = |&z: &usize| {
            let code = if rng.random::<f64>() < 0.85 {
                z
            } else {
                rng.random_range(0..3)
            };
            (rng.random::<f64>() > 0.1).then_some(code as u32)
        };
        names.push(format!("g{g}c"));
        columns.push(MixedColumn::Categorical {
            levels: levels(&["a", "b", "c"]),
            codes: z.iter().map(cell).collect(),
        });
    }
    MixedTable::new(names, columns).unwrap()
}

fn short(structure: Structure) -> ItfConfig {
    ItfConfig {
        structure,
        chains: 2,
        burn_in: 5,
        keep: 3,
        thin: 2,
        ..ItfConfig::default()
    }
}

const ALL: [Structure; 4] = [
    Structure::Tensor,
    Structure::Joint,
    Structure::TensorBlocks,
    Structure::JointBlocks,
];

#[test]
fn the_number_of_threads_changes_no_bit() {
    let table = grouped(150, 2, 1);
    for structure in ALL {
        let run = || fit(&table, &short(structure)).unwrap().to_bytes().unwrap();
        same_bits_on_threads(&[1, 2, 4], run).unwrap();
    }
}

#[test]
fn a_resumed_run_ends_in_the_same_bits() {
    let data = ItfData::from_table(&grouped(80, 2, 2)).unwrap();
    let config = short(Structure::TensorBlocks);
    let advance = |run: &mut ItfRun<'_>, n: u64| {
        if n == 0 {
            return;
        }
        let end = run.sampler().n_sweeps() + n;
        run.run(|report, _| match report.sweep == end {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
    };
    let save = |run: &ItfRun<'_>| storage::to_bytes("run", "0", &run.checkpoint()).unwrap();
    let load = |bytes: &[u8]| {
        let checkpoint: Checkpoint = storage::from_bytes("run", bytes).unwrap();
        ItfRun::resume(&data, config.clone(), checkpoint).unwrap()
    };
    let start = || ItfRun::new(&data, config.clone(), 1).unwrap();
    same_bits_when_resumed(11, &[0, 1, 4, 7, 10], start, advance, save, load).unwrap();
}

fn ask(fit: &ItfFit, table: &MixedTable) {
    let Ok(rows) = fit.rows(table) else { return };
    let _ = fit.ln_density(&rows);
    let _ = fit.predict(&rows, &fit.columns()[0].name.clone());
    let _ = fit.diagnostics();
    for draw in fit.draws() {
        let _ = draw.mutual_information(0, 1);
    }
}

#[test]
fn damaged_files_are_errors_or_valid_fits() {
    let table = grouped(3, 1, 3).select_columns(&[0, 2]).unwrap();
    for structure in [Structure::TensorBlocks, Structure::Joint] {
        let config = ItfConfig {
            chains: 1,
            burn_in: 2,
            keep: 1,
            thin: 1,
            ..short(structure)
        };
        let fitted = fit(&table, &config).unwrap();
        let bytes = fitted.to_bytes().unwrap();
        assert_eq!(
            ItfFit::from_bytes(&bytes).unwrap().to_bytes().unwrap(),
            bytes
        );
        attack_file(&bytes, 500, 1, ItfFit::from_bytes, |f| ask(f, &table)).unwrap();
    }
}

fn one(name: &str, column: MixedColumn) -> MixedTable {
    MixedTable::new(vec![name.to_owned()], vec![column]).unwrap()
}

#[test]
fn odd_columns_give_finite_answers() {
    let n = 12;
    let real = |f: fn(usize) -> Option<f64>| MixedColumn::Real((0..n).map(f).collect());
    let columns = [
        real(|_| Some(3.5)),
        real(|_| Some(0.0)),
        real(|_| None),
        real(|i| (i == 4).then_some(1e-120)),
        real(|i| Some(1e140 * i as f64)),
        real(|i| Some(if i % 2 == 0 { 1e-140 } else { 2e-140 })),
        MixedColumn::Categorical {
            levels: levels(&["only"]),
            codes: vec![Some(0); n],
        },
        MixedColumn::Binary {
            levels: ["a", "b"].map(String::from),
            values: vec![None; n],
        },
    ];
    for (k, column) in columns.into_iter().enumerate() {
        for structure in ALL {
            let table = one("x", column.clone());
            let fitted =
                fit(&table, &short(structure)).unwrap_or_else(|e| panic!("column {k}: {e}"));
            let rows = fitted.training_rows(&table).unwrap();
            let densities = fitted.ln_density(&rows).unwrap();
            assert!(
                densities.iter().all(|d| d.is_finite()),
                "column {k}: {densities:?}"
            );
            let imputed = fitted.impute_training(&table, 0.9).unwrap();
            assert_eq!(imputed.completed.n_missing(), 0);
            let finite = imputed
                .cells
                .iter()
                .all(|c| c.expected.iter().all(|x| x.is_finite()));
            assert!(finite, "column {k}");
        }
    }
    // One row.
    let table = grouped(1, 1, 4);
    assert!(fit(&table, &short(Structure::TensorBlocks)).is_ok());
}

#[test]
fn bad_input_is_an_error_that_says_where() {
    let config = short(Structure::TensorBlocks);
    let says = |result: Result<ItfFit, ItfError>, words: &[&str]| {
        let message = result.map(|_| ()).unwrap_err().to_string();
        for word in words {
            assert!(message.contains(word), "{message:?} does not say {word:?}");
        }
    };
    let real = |values: &[f64]| {
        one(
            "x",
            MixedColumn::Real(values.iter().map(|&v| Some(v)).collect()),
        )
    };
    says(fit(&real(&[]), &config), &["no rows"]);
    says(fit(&MixedTable::default(), &config), &["no columns"]);
    says(fit(&real(&[-1e300, 1e300]), &config), &["\"x\"", "rescale"]);
    let bad = |config: ItfConfig| fit(&real(&[1.0, 2.0]), &config);
    says(
        bad(ItfConfig {
            keep: 0,
            ..config.clone()
        }),
        &["keep", "at least 1"],
    );
    let mut prior = config.clone();
    prior.lower_concentration.rate = f64::NAN;
    says(bad(prior), &["lower_concentration", "positive"]);

    let table = grouped(30, 1, 5);
    let fitted = fit(&table, &config).unwrap();
    let error = fitted
        .rows(&table.select_columns(&[0, 1]).unwrap())
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, ItfError::Data(_)), "{error}");
    let unknown = |level: &str| {
        let mut columns = table.select_rows(&[0]).columns().to_vec();
        columns[2] = MixedColumn::Categorical {
            levels: levels(&["c", level]),
            codes: vec![Some(1)],
        };
        fitted.rows(&MixedTable::new(table.column_names().to_vec(), columns).unwrap())
    };
    assert!(unknown("a").is_ok());
    let message = unknown("zebra").map(|_| ()).unwrap_err().to_string();
    for word in ["row 0", "\"g0c\"", "\"zebra\""] {
        assert!(message.contains(word), "{message}");
    }
    assert!(
        fitted
            .predict(&fitted.rows(&table).unwrap(), "nobody")
            .is_err()
    );
    assert!(fitted.impute(&table, 1.0).is_err());
}

#[test]
fn independent_groups_of_columns_are_found_and_cells_filled_in() {
    let whole = grouped(300, 2, 6);
    let config = ItfConfig {
        chains: 2,
        burn_in: 150,
        keep: 25,
        thin: 2,
        ..ItfConfig::default()
    };
    let fitted = fit(&whole, &config).unwrap();
    let mean = |a: usize, b: usize| {
        let draws = fitted.draws();
        draws
            .iter()
            .map(|d| d.mutual_information(a, b))
            .sum::<f64>()
            / draws.len() as f64
    };
    for a in 0..6 {
        for b in 0..a {
            let information = mean(a, b);
            assert_eq!(a / 3 == b / 3, information > 0.2, "{a} {b}: {information}");
        }
    }
    // From the other columns of its group a real cell is known to about its noise, not to its spread of 3.4.
    let rows = fitted.training_rows(&whole).unwrap();
    let predicted = fitted.predict(&rows, "g0x0").unwrap();
    let MixedColumn::Real(truth) = whole.column(0) else {
        unreachable!()
    };
    let errors = truth
        .iter()
        .zip(&predicted)
        .filter_map(|(t, p)| Some((t.as_ref()? - p[0]).powi(2)));
    let (sum, n) = errors.fold((0.0, 0.0), |(sum, n), e| (sum + e, n + 1.0));
    assert!((sum / n).sqrt() < 1.8, "{}", (sum / n).sqrt());
    // Conditioning: ln p(a, b) = ln p(a | b) + ln p(b).
    let second = fitted.rows(&whole.select_rows(&[1])).unwrap();
    let both = fitted.ln_density(&second).unwrap()[0];
    let rows = fitted.rows(&whole.select_rows(&[1])).unwrap();
    let conditional = fitted
        .ln_conditional(&rows, &["g0x0", "g0x1", "g0c"])
        .unwrap()[0];
    let others = fitted
        .ln_conditional(&rows, &["g1x0", "g1x1", "g1c"])
        .unwrap()[0];
    assert!(
        (both - conditional - others).abs() < 0.2,
        "{both} {conditional} {others}"
    );
}

/// A row between tight clusters: each is impossible in numbers in one of its columns, none in all together.
#[test]
fn rows_far_from_every_cluster_have_finite_densities() {
    let rng = &mut npb_infer::stream(3, [8; 4]);
    let columns: Vec<Vec<f64>> = (0..2)
        .map(|_| {
            let cell = |i: usize| {
                f64::from(i.is_multiple_of(2)) + 0.003 * rng.sample::<f64, _>(StandardNormal)
            };
            (0..200).map(cell).collect()
        })
        .collect();
    let names = || ["x", "y"].map(str::to_owned).to_vec();
    let of = |columns: Vec<Vec<f64>>| {
        let real = |values: Vec<f64>| MixedColumn::Real(values.into_iter().map(Some).collect());
        MixedTable::new(names(), columns.into_iter().map(real).collect()).unwrap()
    };
    let between = of(vec![vec![0.0, 0.5, 40.0], vec![1.0, 0.5, -40.0]]);
    for structure in ALL {
        let fitted = fit(&of(columns.clone()), &short(structure)).unwrap();
        let rows = fitted.rows(&between).unwrap();
        let both = fitted.ln_density(&rows).unwrap();
        let conditional = fitted.ln_conditional(&rows, &["x"]).unwrap();
        // The same from a table without x.
        let mut columns = between.columns().to_vec();
        columns[0] = MixedColumn::Real(vec![None; 3]);
        let shown = fitted.rows(&MixedTable::new(names(), columns).unwrap());
        let cells = [(1, 0), (0, 0), (2, 0)];
        let held_out = fitted.ln_held_out(&shown.unwrap(), &rows, &cells).unwrap();
        for ((row, _), found) in cells.into_iter().zip(held_out) {
            let expected = conditional[row];
            assert!(
                (found - expected).abs() < 1e-9 * expected.abs().max(1.0),
                "{found} {expected}"
            );
        }
        assert!(fitted.ln_held_out(&rows, &rows, &cells).is_err());
        for (both, conditional) in both.iter().zip(&conditional) {
            assert!(both.is_finite(), "{structure:?}: {both}");
            assert!(conditional.is_finite(), "{structure:?}: {conditional}");
        }
        for predicted in fitted.predict(&rows, "x").unwrap() {
            assert!(predicted.iter().all(|x| x.is_finite()), "{structure:?}");
        }
    }
}

/// Rows read by one fit are no rows of another with other columns: an error everywhere, no panic.
#[test]
fn rows_of_another_fit_are_errors() {
    let of = |columns: Vec<(&str, MixedColumn)>| {
        let (names, columns) = columns.into_iter().map(|(n, c)| (n.to_owned(), c)).unzip();
        MixedTable::new(names, columns).unwrap()
    };
    let real = || MixedColumn::Real((0..12).map(|i| Some(f64::from(i % 3))).collect());
    let count = || MixedColumn::Count((0..12).map(|i| Some(i % 4)).collect());
    let fitted = fit(&of(vec![("x", real()), ("y", real())]), &short(ALL[0])).unwrap();
    for columns in [vec![("x", real())], vec![("x", real()), ("y", count())]] {
        let table = of(columns);
        let other = fit(&table, &short(ALL[0])).unwrap();
        let rows = other.rows(&table).unwrap();
        assert!(fitted.ln_density(&rows).is_err());
        assert!(fitted.ln_conditional(&rows, &["x"]).is_err());
        assert!(fitted.ln_held_out(&rows, &rows, &[]).is_err());
        assert!(fitted.predict(&rows, "x").is_err());
        assert!(fitted.impute_cells(&rows, 0.9).is_err());
    }
}
