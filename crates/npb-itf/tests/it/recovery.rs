//! What a fit finds in simulated tables.

use npb_data::{Field, Measure, MixedColumn, MixedTable};
use npb_infer::SweepPlan;
use npb_itf::{Grouping, ItfConfig, ItfData, fit, fit_data};

use crate::tables::grouped;

#[test]
fn independent_groups_of_columns_are_found_and_cells_filled_in() {
    let whole = grouped(300, 2, 6);
    let config = ItfConfig {
        chains: 2,
        sweeps: SweepPlan {
            burn_in: 150,
            keep: 25,
            thin: 2,
        },
        groups: Grouping::Off,
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

/// Few rows leave much weight to clusters that no row is in, whose laws are as wide as the prior: the arithmetic mean of positive
/// numbers does not exist then, and a mean of means is anything. The geometric mean stays among the data.
#[test]
fn predictions_of_positive_numbers_stay_among_the_data() {
    let values = [3.0, 4.5, 3.7, 5.2, 4.1, 3.3, 2.9, 4.8];
    let table = |values: Vec<Option<f64>>| {
        MixedTable::new(vec!["x".to_owned()], vec![MixedColumn::Real(values)]).unwrap()
    };
    let fields = [Field::new("x", Measure::Positive, vec![0])];
    let data = ItfData::from_fields(&table(values.map(Some).to_vec()), &fields).unwrap();
    let config = ItfConfig {
        chains: 1,
        sweeps: SweepPlan {
            burn_in: 50,
            keep: 400,
            thin: 1,
        },
        groups: Grouping::Off,
        ..ItfConfig::default()
    };
    let fitted = fit_data(&data, &config).unwrap();
    let new = fitted
        .field_rows(&table(vec![None]), &fields, false)
        .unwrap();
    let predicted = fitted.predict(&new, "x").unwrap()[0][0];
    assert!((2.9..5.2).contains(&predicted), "{predicted}");
}

/// Clusters that no row is in keep to the scale of the counts: the expected count of a new row is that of the rows, although a fourth of the
/// weight or so is on a new cluster.
#[test]
fn predictions_of_counts_stay_among_the_data() {
    let counts = [6, 5, 7, 6, 6, 5, 7, 6, 5, 6].map(Some).to_vec();
    let table =
        |counts| MixedTable::new(vec!["k".to_owned()], vec![MixedColumn::Count(counts)]).unwrap();
    let config = ItfConfig {
        chains: 1,
        sweeps: SweepPlan {
            burn_in: 100,
            keep: 1000,
            thin: 1,
        },
        groups: Grouping::Off,
        ..ItfConfig::default()
    };
    let fitted = fit(&table(counts), &config).unwrap();
    let predicted = fitted
        .predict(&fitted.rows(&table(vec![None])).unwrap(), "k")
        .unwrap()[0][0];
    assert!((5.0..7.5).contains(&predicted), "{predicted}");
}

/// A cell is predicted from the others of its row: what it is itself, if it is seen at all, changes nothing.
#[test]
fn a_prediction_does_not_look_at_its_own_cell() {
    let table = |x: Vec<Option<f64>>, y: Vec<Option<bool>>| {
        let y = MixedColumn::Binary {
            levels: ["low", "high"].map(str::to_owned),
            values: y,
        };
        let names = ["x", "y"].map(str::to_owned).to_vec();
        MixedTable::new(names, vec![MixedColumn::Real(x), y]).unwrap()
    };
    let high = |i: u32| i.is_multiple_of(2);
    let x = (0..40).map(|i| Some(f64::from(i % 5) + if high(i) { 20.0 } else { 0.0 }));
    let y = (0..40).map(|i| Some(high(i)));
    let config = ItfConfig {
        chains: 1,
        sweeps: SweepPlan {
            burn_in: 50,
            keep: 20,
            thin: 1,
        },
        groups: Grouping::Off,
        ..ItfConfig::default()
    };
    let fitted = fit(&table(x.collect(), y.collect()), &config).unwrap();
    let predicted = |x: Option<f64>| {
        let rows = fitted.rows(&table(vec![x], vec![Some(true)])).unwrap();
        fitted.predict(&rows, "x").unwrap()
    };
    let unseen = predicted(None);
    for x in [1.0, 23.0] {
        assert_eq!(predicted(Some(x)), unseen);
    }
}

/// Rain that falls on wet days only: draws of missing cells are 0 as often as it stays dry, and average to what is expected.
#[test]
fn a_spike_is_drawn_as_often_as_it_should() {
    const N: usize = 160;
    let wet = |i: usize| i % 2 == 1;
    let rain = |i: usize| {
        if wet(i) {
            20.0 + (i * 7 % 13) as f64
        } else {
            0.0
        }
    };
    let hidden = |i: usize| i < 20;
    let kind = MixedColumn::Binary {
        levels: ["dry", "wet"].map(str::to_owned),
        values: (0..N).map(|i| Some(wet(i))).collect(),
    };
    let rain = MixedColumn::Real((0..N).map(|i| (!hidden(i)).then(|| rain(i))).collect());
    let table = MixedTable::new(vec!["kind".into(), "rain".into()], vec![kind, rain]).unwrap();
    let config = ItfConfig {
        chains: 1,
        sweeps: SweepPlan {
            burn_in: 100,
            keep: 50,
            ..ItfConfig::default().sweeps
        },
        groups: Grouping::Off,
        ..ItfConfig::default()
    };
    let fitted = fit(&table, &config).unwrap();
    let imputed = fitted.impute_training(&table, 0.9).unwrap();
    const DRAWS: usize = 400;
    let rows = fitted.training_rows(&table).unwrap();
    let drawn = fitted.impute_cell_draws(&rows, DRAWS).unwrap();
    assert_eq!((imputed.cells.len(), drawn.len()), (20, 20));
    for (cell, drawn) in imputed.cells.iter().zip(&drawn) {
        let n = DRAWS as f64;
        let zeros = drawn.draws.iter().filter(|d| d[0] == 0.0).count() as f64 / n;
        assert!(
            if wet(cell.row) {
                zeros < 0.2
            } else {
                zeros > 0.8
            },
            "{zeros}"
        );
        let mean = drawn.draws.iter().map(|d| d[0]).sum::<f64>() / n;
        // By the deviation of the law: draws that are nearly all 0 say little of it.
        let error = cell.sd[0] / n.sqrt();
        assert!(
            (mean - cell.expected[0]).abs() < 4.5 * error,
            "{mean} {error} {cell:?}"
        );
    }
    let tables = fitted.impute_draws(&table, DRAWS, true).unwrap();
    for cell in &drawn {
        for (table, parts) in tables.iter().zip(&cell.draws) {
            assert_eq!(table.column(cell.column).number(cell.row), Some(parts[0]));
        }
    }
}
