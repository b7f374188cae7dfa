//! Data from fields of a table: every measure gets a kernel, a fit runs, new rows are read by the kernels of training.

use npb_data::{Field, Measure, MixedColumn, MixedTable};
use npb_infer::SweepPlan;
use npb_itf::kernels::Column;
use npb_itf::{Grouping, ItfConfig, ItfData, ItfError, fit_data};

const N: usize = 12;

fn reals(f: impl Fn(usize) -> Option<f64>) -> MixedColumn {
    MixedColumn::Real((0..N).map(f).collect())
}

/// One column or block of every measure, with holes.
fn table() -> (MixedTable, Vec<Field>) {
    let wave = |i: usize, k: usize| ((i * 3 + k * 5) % 7) as f64 - 2.5;
    let levels = ["low", "mid", "high"].map(str::to_owned).to_vec();
    let mut columns = vec![
        reals(|i| (i != 3).then(|| wave(i, 0))),
        reals(|i| (i != 4).then(|| wave(i, 1).exp())),
        MixedColumn::Count((0..N).map(|i| (i != 5).then_some(i as u64 % 4)).collect()),
        MixedColumn::Binary {
            levels: ["n", "y"].map(str::to_owned),
            values: (0..N).map(|i| (i != 6).then_some(i % 2 == 0)).collect(),
        },
        MixedColumn::Categorical {
            levels: levels.clone(),
            codes: (0..N).map(|i| Some(i as u32 % 3)).collect(),
        },
        MixedColumn::Categorical {
            levels,
            codes: (0..N).map(|i| (i != 7).then_some(i as u32 % 3)).collect(),
        },
        reals(|i| Some(30.0 * i as f64)),
    ];
    for k in 0..5 {
        columns.push(reals(|i| ((i + k) % 6 != 0).then(|| wave(i, k))));
    }
    for j in 0..N {
        let linked = |i: usize| (i + j != 9).then_some((i + j).is_multiple_of(3));
        columns.push(MixedColumn::Binary {
            levels: ["0", "1"].map(str::to_owned),
            values: (0..N).map(linked).collect(),
        });
    }
    let rain = |i: usize| if i < 7 { 0.0 } else { i as f64 };
    columns.push(reals(|i| (i != 8).then(|| rain(i))));
    let names = (0..columns.len()).map(|j| format!("c{j}")).collect();
    let measures = [
        ("real", Measure::Real, vec![0]),
        ("positive", Measure::Positive, vec![1]),
        ("count", Measure::Count, vec![2]),
        ("binary", Measure::Binary, vec![3]),
        ("category", Measure::Categorical, vec![4]),
        ("grade", Measure::Ordinal, vec![5]),
        ("wind", Measure::Angle { period: 360.0 }, vec![6]),
        ("rain", Measure::Real, vec![12 + N]),
        ("place", Measure::Vector, vec![7, 8]),
        ("load", Measure::Series, vec![9, 10, 11]),
        ("net", Measure::Network, (12..12 + N).collect()),
    ];
    let fields = measures
        .into_iter()
        .map(|(name, m, c)| Field::new(name, m, c));
    (
        MixedTable::new(names, columns).expect("valid"),
        fields.collect(),
    )
}

#[test]
fn every_measure_has_its_kernel() {
    let (table, fields) = table();
    let data = ItfData::from_fields(&table, &fields).expect("fits");
    let laws = data.laws();
    assert!(matches!(
        laws,
        [
            Column::Normal(_),
            Column::LogNormal(_),
            Column::NegativeBinomial(_),
            Column::Categorical(_),
            Column::Categorical(_),
            Column::Ordinal(_),
            Column::VonMises(_),
            Column::SpikedNormal(_),
            Column::FullNormal(_),
            Column::Series(_),
            Column::Network(_),
        ]
    ));
    assert_eq!(data.infos()[5].levels, ["low", "mid", "high"]);
    let config = ItfConfig {
        chains: 1,
        sweeps: SweepPlan {
            burn_in: 20,
            keep: 3,
            ..ItfConfig::default().sweeps
        },
        groups: Grouping::Off,
        ..ItfConfig::default()
    };
    let fit = fit_data(&data, &config).expect("a fit of all kernels at once");
    let rows = fit.rows_of(&data, true).expect("training rows");
    let densities = fit.ln_density(&rows).unwrap();
    assert!(densities.iter().all(|l| l.is_finite()));
    let drawn = fit
        .impute_cell_draws(&rows, 5)
        .expect("draws of every kernel");
    let missing = fit.impute_cells(&rows, 0.9).expect("missing cells");
    assert_eq!(drawn.len(), missing.len());
    for (cell, other) in drawn.iter().zip(&missing) {
        assert_eq!(
            (cell.row, cell.column, cell.draws.len()),
            (other.row, other.column, 5)
        );
        let whole = |parts: &Vec<f64>| {
            parts.len() == other.lower.len() && parts.iter().all(|x| x.is_finite())
        };
        assert!(cell.draws.iter().all(whole), "{cell:?}");
    }
}

#[test]
fn new_rows_are_read_by_the_kernels_of_training() {
    let (table, mut fields) = table();
    fields.truncate(10);
    let data = ItfData::from_fields(&table, &fields).expect("fits");
    let config = ItfConfig {
        chains: 1,
        sweeps: SweepPlan {
            burn_in: 2,
            keep: 1,
            thin: 1,
        },
        groups: Grouping::Off,
        ..ItfConfig::default()
    };
    let fit = fit_data(&data, &config).expect("a fit");
    let again = fit.field_rows(&table, &fields, true).expect("fits");
    let given = fit.rows_of(&data, true).expect("training rows");
    assert_eq!(format!("{given:?}"), format!("{again:?}"));
    let part = table.select_rows(&[4, 2]);
    let part = fit.field_rows(&part, &fields, false).expect("fits");
    assert_eq!(part.n_rows(), 2);
    let wrong = fit.field_rows(&table, &fields[..3], false);
    assert!(matches!(wrong, Err(ItfError::Argument { .. })));
    let mut swapped = [&fields[1..2], &fields[..1], &fields[2..]].concat();
    let names = fields[..2].iter().map(|field| field.name.clone());
    (swapped.iter_mut().zip(names)).for_each(|(field, name)| field.name = name);
    assert!(
        fit.field_rows(&table, &swapped, false).is_err(),
        "a real is no positive number"
    );
}

#[test]
fn what_does_not_fit_is_named() {
    let (table, mut fields) = table();
    assert!(matches!(
        ItfData::from_fields(&table, &[]),
        Err(ItfError::NoColumns)
    ));
    fields[0].measure = Measure::Positive;
    let error = ItfData::from_fields(&table, &fields).expect_err("a value of -2.5");
    assert!(error.to_string().contains("is not above 0"), "{error}");
    let none = table.select_rows(&[]);
    let only_real = [Field::new("real", Measure::Real, vec![0])];
    assert!(matches!(
        ItfData::from_fields(&none, &only_real),
        Err(ItfError::NoRows)
    ));
}

/// The table with counts in a vector, and a link that one side only tells.
fn with_counts() -> (MixedTable, Vec<Field>) {
    let (table, mut fields) = table();
    let mut columns = table.columns().to_vec();
    columns[7] = MixedColumn::Count(
        (0..N)
            .map(|i| (i % 6 != 0).then_some(i as u64 % 4))
            .collect(),
    );
    let MixedColumn::Binary { values, .. } = &mut columns[12 + 5] else {
        panic!("a network");
    };
    values[2] = None;
    // The first column is of no field.
    fields.remove(0);
    let names = table.column_names().to_vec();
    (MixedTable::new(names, columns).expect("valid"), fields)
}

/// Everything that was missing is filled in, in the user's own columns, and nothing else has changed.
fn is_completed(table: &MixedTable, completed: &MixedTable) {
    assert_eq!(completed.column_names(), table.column_names());
    assert_eq!(completed.column(0), table.column(0), "of no field");
    assert_eq!(completed.n_missing(), 1);
    for (j, (before, after)) in table.columns().iter().zip(completed.columns()).enumerate() {
        assert_eq!(before.kind(), after.kind());
        for i in 0..N {
            match (before, after) {
                (
                    MixedColumn::Categorical { codes: a, .. },
                    MixedColumn::Categorical { codes: b, .. },
                ) => assert!(a[i].is_none_or(|_| a[i] == b[i]), "{i} {j}"),
                _ => {
                    let before = before.number(i);
                    assert!(before.is_none_or(|x| after.number(i) == Some(x)), "{i} {j}");
                }
            }
        }
    }
    let link = |i: usize, j: usize| completed.column(12 + j).number(i);
    for (i, j) in (0..N).flat_map(|i| (0..N).map(move |j| (i, j))) {
        assert_eq!(link(i, j), link(j, i), "{i} {j}");
    }
    assert_eq!(link(2, 5), Some(0.0), "told from the other side");
}

#[test]
fn tables_are_completed_in_their_own_columns() {
    let (table, fields) = with_counts();
    let data = ItfData::from_fields(&table, &fields).expect("fits");
    let config = ItfConfig {
        chains: 1,
        sweeps: SweepPlan {
            burn_in: 20,
            keep: 3,
            ..ItfConfig::default().sweeps
        },
        groups: Grouping::Off,
        ..ItfConfig::default()
    };
    let fit = fit_data(&data, &config).expect("a fit");
    let filled = fit
        .impute_fields(&table, &fields, 0.9, true)
        .expect("filled");
    is_completed(&table, &filled.completed);
    for cell in &filled.cells {
        let field = &fields[cell.column];
        for &part in &cell.missing {
            let at = field.columns[part];
            assert!(
                filled.completed.column(at).number(cell.row).is_some()
                    || field.measure == Measure::Ordinal
            );
            if field.measure == Measure::Series {
                let value = filled.completed.column(at).number(cell.row);
                assert_eq!(value, Some(cell.expected[part]));
            }
        }
    }
    let drawn = fit
        .impute_field_draws(&table, &fields, 4, true)
        .expect("drawn");
    assert_eq!(drawn.len(), 4);
    drawn
        .iter()
        .for_each(|completed| is_completed(&table, completed));
    assert!(drawn.windows(2).any(|pair| pair[0] != pair[1]));

    // New rows have no network; levels may come in another order.
    let refused = fit.impute_fields(&table, &fields, 0.9, false);
    assert!(matches!(refused, Err(ItfError::Column { .. })));
    let mut beyond = fields.clone();
    beyond.last_mut().expect("the network").columns[3] = 99;
    assert!(fit.field_rows(&table, &beyond, true).is_err());
    let without = &fields[..fields.len() - 1];
    let fit = fit_data(
        &ItfData::from_fields(&table, without).expect("fits"),
        &config,
    )
    .expect("fits");
    let part = table.select_rows(&[5, 0]);
    let filled = fit
        .impute_fields(&part, without, 0.9, false)
        .expect("filled");
    assert_eq!(
        filled.completed.n_missing(),
        part.columns()[12..24]
            .iter()
            .map(|c| (0..2).filter(|&i| c.number(i).is_none()).count())
            .sum::<usize>()
    );
    let swapped: Vec<Field> = [&without[1..2], &without[..1], &without[2..]].concat();
    let error = fit
        .impute_fields(&table, &swapped, 0.9, true)
        .expect_err("another order");
    assert!(error.to_string().contains("their order"), "{error}");
    let mut short = without.to_vec();
    short[8].columns.pop();
    assert_eq!(short[8].measure, Measure::Series);
    assert!(fit.impute_fields(&table, &short, 0.9, true).is_err());
}

/// A positive number counted in whole ones stays positive.
#[test]
fn positive_counts_are_at_least_one() {
    let values = (0..N).map(|i| (i > 2).then_some(1)).collect();
    let table = MixedTable::new(vec!["k".into()], vec![MixedColumn::Count(values)]).expect("valid");
    let fields = [Field::new("k", Measure::Positive, vec![0])];
    let config = ItfConfig {
        chains: 1,
        sweeps: SweepPlan {
            burn_in: 20,
            keep: 3,
            ..ItfConfig::default().sweeps
        },
        groups: Grouping::Off,
        ..ItfConfig::default()
    };
    let fit = fit_data(
        &ItfData::from_fields(&table, &fields).expect("fits"),
        &config,
    )
    .expect("a fit");
    for drawn in fit
        .impute_field_draws(&table, &fields, 50, true)
        .expect("drawn")
    {
        Field::check_all(&fields, &drawn).expect("positive");
    }
}
