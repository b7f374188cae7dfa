//! Odd tables and bad input: a finite answer, or an error that says where.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::SweepPlan;
use npb_itf::kernels::{Cells, NegativeBinomialData, Network, NetworkData, Series, SeriesData};
use npb_itf::{ItfConfig, ItfData, ItfError, ItfFit, Structure, fit, fit_data};
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::tables::{ALL, grouped, levels, one, short};

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
            // Of a column without any value nothing is known.
            let unknown = table.n_missing() == n;
            assert_eq!(imputed.completed.n_missing(), if unknown { n } else { 0 });
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
            sweeps: SweepPlan {
                keep: 0,
                ..ItfConfig::default().sweeps
            },
            ..config.clone()
        }),
        &["sweeps.keep", "at least 1"],
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

/// What a sampler would stumble over is refused when data are made, by name, row and part.
#[test]
fn cells_and_columns_that_cannot_be_are_named() {
    let says = |error: &dyn std::fmt::Display, words: &[&str]| {
        let message = error.to_string();
        for word in words {
            assert!(message.contains(word), "{message:?} does not say {word:?}");
        }
    };
    let real = || MixedColumn::Real(vec![Some(1.0), None, Some(2.0)]);
    let mut data = ItfData::new();
    data.push_table_column("x", &real()).unwrap();
    let error = data.push_table_column("x", &real()).unwrap_err();
    says(&error, &["\"x\"", "twice"]);
    let error = data
        .push_table_column("y", &MixedColumn::Count(vec![Some(1)]))
        .unwrap_err();
    says(&error, &["\"y\"", "1 rows", "3"]);
    let names = || ["x", "x"].map(str::to_owned).to_vec();
    let error = MixedTable::new(names(), vec![real(), real()]).unwrap_err();
    says(&error, &["\"x\"", "differ"]);

    let too_many = Some(1 << 60);
    says(
        &NegativeBinomialData::new(&[Some(1), too_many]).unwrap_err(),
        &["row 1", "count"],
    );
    // A column of negative whole numbers is no column of counts, and a fit with counts does not read it as one.
    let counts = one(
        "k",
        MixedColumn::Count((0..12).map(|i| Some(i % 3)).collect()),
    );
    let fitted = fit(&counts, &short(Structure::Tensor)).unwrap();
    let negative = one("k", MixedColumn::Real(vec![Some(-1.0)]));
    let error = fitted.rows(&negative).map(|_| ()).unwrap_err();
    says(&error, &["\"k\"", "real", "count"]);

    says(&Series::new(1, 0, 0.0, 1.0).unwrap_err(), &["n_times", "0"]);
    let series = Series::new(1, 3, 0.0, 1.0).unwrap();
    let long = vec![Some(1.0); 4];
    let error = SeriesData::new(&series, &[vec![], long]).unwrap_err();
    says(&error, &["row 1", "4 parts", "3"]);
    let network = Network::new(3, false).unwrap();
    let error = NetworkData::new(&network, &[(0, 3)], &[]).unwrap_err();
    says(&error, &["row 0", "3 is not one of the nodes"]);
}

/// Squares of what a question holds must be numbers, as those of training must.
#[test]
fn a_value_far_away_is_refused_by_name() {
    let x = |value: f64| one("x", MixedColumn::Real(vec![Some(value), None]));
    let values = (0..12).map(|i| Some(f64::from(i)));
    let table = one("x", MixedColumn::Real(values.collect()));
    let fitted = fit(&table, &short(Structure::TensorBlocks)).unwrap();
    let density = fitted.ln_density(&fitted.rows(&x(1e90)).unwrap()).unwrap();
    assert!(density[0].is_finite() && density[0] < -1e150, "{density:?}");
    let error = fitted.rows(&x(1e200)).unwrap_err();
    let error = error.to_string();
    for part in ["\"x\"", "row 0", "1e200", "within 1e100 scales"] {
        assert!(error.contains(part), "{error}");
    }
}

/// Series of length 0 are missing cells; a column of nothing else is a column without cells.
#[test]
fn series_of_length_0_are_missing_cells() {
    let series = Series::new(1, 5, 0.0, 1.0).unwrap();
    let some = |i: usize| {
        (0..i % 4)
            .map(|t| Some(t as f64))
            .collect::<Vec<Option<f64>>>()
    };
    for rows in [(0..24).map(some).collect(), vec![Vec::new(); 24]] {
        let cells = Cells::Series(SeriesData::new(&series, &rows).unwrap());
        let mut data = ItfData::new();
        let x = MixedColumn::Real((0..24).map(|i| Some(f64::from(i % 4))).collect());
        data.push_table_column("x", &x).unwrap();
        let rng = &mut npb_infer::stream(1, [0; 4]);
        data.push("s", series.clone().column(rng), cells).unwrap();
        for structure in ALL {
            let fitted = fit_data(&data, &short(structure)).unwrap();
            let rows = fitted.rows_of(&data, true).unwrap();
            let finite = |x: &f64| x.is_finite();
            assert!(fitted.ln_density(&rows).unwrap().iter().all(finite));
            let imputed = fitted.impute_cells(&rows, 0.9).unwrap();
            assert!(
                imputed
                    .iter()
                    .flat_map(|cell| &cell.expected)
                    .all(|x| x.is_finite())
            );
        }
    }
}
