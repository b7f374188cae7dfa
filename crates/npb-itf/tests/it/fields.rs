//! Data from fields of a table: every measure gets a kernel, a fit runs, new rows are read by the kernels of training.

use npb_data::{Field, Measure, MixedColumn, MixedTable};
use npb_itf::kernels::Column;
use npb_itf::{ItfConfig, ItfData, ItfError, fit_data};

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
        burn_in: 20,
        keep: 3,
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
    let again = data.read_like(&table, &fields).expect("fits");
    let part = data
        .read_like(&table.select_rows(&[4, 2]), &fields)
        .expect("fits");
    assert_eq!(
        format!("{:?}", data.cells()),
        format!("{:?}", again.cells())
    );
    assert_eq!(part.n_rows(), 2);
    let wrong = data.read_like(&table, &fields[..3]);
    assert!(matches!(wrong, Err(ItfError::Argument { .. })));
    let swapped: Vec<Field> = [&fields[1..2], &fields[..1], &fields[2..]].concat();
    assert!(
        data.read_like(&table, &swapped).is_err(),
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
