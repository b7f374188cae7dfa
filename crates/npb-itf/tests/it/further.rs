//! Rows that a fit knows again, and chains that go on with further rows.

use std::collections::HashMap;
use std::ops::ControlFlow;

use npb_data::{Field, Measure, MixedColumn, MixedTable};
use npb_infer::checkpoint::Every;
use npb_infer::testing::same_bits_on_threads;
use npb_infer::{SweepPlan, Watch};
use npb_itf::{
    Grouping, ItfConfig, ItfData, ItfError, ItfFit, ItfMove, ItfSampler, Saved, Structure, fit,
    fit_data,
};
use npb_priors::GammaPrior;

use crate::exact::{ALPHA, BETA, canonical, tensor};
use crate::tables::{ALL, grouped, short};

/// Every column by itself.
fn fields(table: &MixedTable) -> Vec<Field> {
    let of = |(j, column): (usize, &MixedColumn)| {
        let measure = match column {
            MixedColumn::Real(_) => Measure::Real,
            MixedColumn::Count(_) => Measure::Count,
            MixedColumn::Binary { .. } => Measure::Binary,
            MixedColumn::Categorical { .. } => Measure::Categorical,
        };
        Field::new(table.column_names()[j].clone(), measure, vec![j])
    };
    table.columns().iter().enumerate().map(of).collect()
}

fn first_rows(table: &MixedTable, n: usize) -> MixedTable {
    table.select_rows(&(0..n).collect::<Vec<_>>())
}

fn go_on(fit: &ItfFit, table: &MixedTable, config: &ItfConfig) -> Result<ItfFit, ItfError> {
    fit.continue_with(table, &fields(table), config, &Watch::none())
}

/// A table with other cells in one column.
fn changed(table: &MixedTable, column: usize, cells: MixedColumn) -> MixedTable {
    let mut columns = table.columns().to_vec();
    columns[column] = cells;
    MixedTable::new(table.column_names().to_vec(), columns).unwrap()
}

#[test]
fn rows_of_the_fit_are_known_again() {
    let table = grouped(30, 1, 1);
    let fitted = fit(&table, &short(Structure::Tensor)).unwrap();
    let fitted = ItfFit::from_bytes(&fitted.to_bytes().unwrap()).unwrap();
    let asked = |table: &MixedTable| {
        let rows = fitted.field_rows(table, &fields(table), true).map(|_| ());
        let filled = fitted.impute_fields(table, &fields(table), 0.9, true);
        assert_eq!(rows.is_err(), filled.is_err());
        assert_eq!(rows.is_err(), fitted.impute_training(table, 0.9).is_err());
        rows
    };
    asked(&table).unwrap();
    // The same levels in another order, as another reader may have them.
    let MixedColumn::Categorical { levels, codes } = table.column(2) else {
        unreachable!()
    };
    let turned = MixedColumn::Categorical {
        levels: levels.iter().rev().cloned().collect(),
        codes: codes.iter().map(|code| code.map(|k| 2 - k)).collect(),
    };
    asked(&changed(&table, 2, turned)).unwrap();
    let place_of = |table: &MixedTable| match asked(table) {
        Err(ItfError::OtherRow { row }) => row,
        other => panic!("{other:?}"),
    };
    let mut order: Vec<usize> = (0..30).collect();
    order.swap(11, 17);
    assert_eq!(place_of(&table.select_rows(&order)), 11);
    let cells = |row: usize, cell: fn(Option<f64>) -> Option<f64>| {
        let mut cells: Vec<Option<f64>> = (0..30).map(|i| table.column(0).number(i)).collect();
        cells[row] = cell(cells[row]);
        changed(&table, 0, MixedColumn::Real(cells))
    };
    let known: Vec<usize> = (0..30).filter(|&i| table.is_observed(i, 0)).collect();
    for row in [known[0], known[9]] {
        // By the last bit, by the sign, and not at all any more.
        assert_eq!(place_of(&cells(row, |x| x.map(f64::next_up))), row);
        assert_eq!(place_of(&cells(row, |x| x.map(|x| -x))), row);
        assert_eq!(place_of(&cells(row, |_| None)), row);
    }
    // A cell of 0 is not one that is missing.
    let zero = |cell: Option<f64>| {
        let mut cells: Vec<Option<f64>> = (0..30).map(|i| table.column(0).number(i)).collect();
        cells[5] = cell;
        changed(&table, 0, MixedColumn::Real(cells))
    };
    let with_zero = fit(&zero(Some(0.0)), &short(Structure::Tensor)).unwrap();
    let rows_of = |table: &MixedTable| {
        with_zero
            .field_rows(table, &fields(table), true)
            .map(|_| ())
    };
    rows_of(&zero(Some(-0.0))).unwrap();
    assert!(matches!(
        rows_of(&zero(None)),
        Err(ItfError::OtherRow { row: 5 })
    ));
    let fewer = asked(&first_rows(&table, 29)).unwrap_err();
    assert!(matches!(
        fewer,
        ItfError::RowsOfFit {
            found: 29,
            expected: 30
        }
    ));
    // Data that were put together by hand are not known again.
    let data = ItfData::from_table(&table).unwrap();
    let data = data.with_cells(data.cells().to_vec()).unwrap();
    let unknown = fit_data(&data, &short(Structure::Tensor)).unwrap();
    assert!(unknown.impute_training(&table, 0.9).is_ok());
    let other = table.select_rows(&order);
    assert!(unknown.field_rows(&other, &fields(&other), true).is_ok());
}

/// Without new rows a chain makes the sweeps that its sampler would have made next, time after time.
#[test]
fn without_new_rows_chains_go_on_as_their_samplers_do() {
    let table = grouped(40, 2, 2);
    let data = ItfData::from_table(&table).unwrap();
    for structure in ALL {
        let config = short(structure);
        let first = fit(&table, &config).unwrap();
        let second = go_on(&first, &table, &config).unwrap();
        let third = go_on(&second, &table, &config).unwrap();
        let made = config.sweeps.total();
        for (fit, before, sweeps) in [(&second, &first, made), (&third, &second, 2 * made)] {
            for (chain, (at, from)) in fit.chains().iter().zip(before.chains()).enumerate() {
                let config = config.clone();
                let state = from.state.clone();
                let mut sampler =
                    ItfSampler::resume(&data, config, chain as u64, state, sweeps).unwrap();
                (0..made).for_each(|_| sampler.sweep());
                let bytes = |state| npb_infer::storage::to_bytes("state", "0", state).unwrap();
                assert_eq!(bytes(&at.state), bytes(sampler.state()));
                assert_eq!(at.trace.n_sweeps() as u64, made);
            }
        }
    }
}

/// Groups that share a law, with counts that are spread: the rows of the fit are spread as they were.
#[test]
fn groups_of_columns_stay() {
    let n = 50;
    let x = MixedColumn::Real((0..n).map(|i| Some(f64::from(i % 7) + 0.2)).collect());
    let counts = |by: u64| {
        MixedColumn::Count(
            (0..n as u64)
                .map(|i| (i % 9 != 4).then_some(i % 7 * by))
                .collect(),
        )
    };
    let names = ["x", "y", "z"].map(String::from).to_vec();
    let table = MixedTable::new(names.clone(), vec![x, counts(2), counts(3)]).unwrap();
    let config = ItfConfig {
        groups: Grouping::Given(vec![names]),
        ..short(Structure::TensorBlocks)
    };
    let first = fit(&first_rows(&table, 30), &config).unwrap();
    let same = go_on(&first, &first_rows(&table, 30), &config).unwrap();
    let data = ItfData::from_table(&first_rows(&table, 30)).unwrap();
    let data = data.grouped(&config).unwrap();
    let made = config.sweeps.total();
    let state = first.chains()[1].state.clone();
    let mut sampler = ItfSampler::resume(&data, config.clone(), 1, state, made).unwrap();
    (0..made).for_each(|_| sampler.sweep());
    assert_eq!(sampler.state().labels(0), same.chains()[1].state.labels(0));
    let more = go_on(&first, &table, &config).unwrap();
    assert_eq!((more.groups(), more.n_rows()), (first.groups(), 50));
    assert!(more.impute_training(&table, 0.9).is_ok());
    let whole = fit(&table, &config).unwrap();
    let ungrouped = |fit: &ItfFit| fit.impute_training(&table, 0.9).unwrap().cells.len();
    assert_eq!(ungrouped(&more), ungrouped(&whole));
}

/// Two rows, and then two more: every clustering of the four comes up as often as the posterior given all four says.
#[test]
fn clusterings_are_those_of_the_posterior_given_all_rows() {
    const CHAINS: usize = 200;
    let mean = |mean: f64| GammaPrior {
        shape: mean,
        rate: 1.0,
    };
    let config = ItfConfig {
        structure: Structure::Tensor,
        groups: Grouping::Off,
        // Concentrations start at their prior means, and stay there.
        top_concentration: mean(ALPHA),
        lower_concentration: mean(BETA),
        moves: ItfMove::ALL[1..].to_vec(),
        chains: CHAINS,
        sweeps: SweepPlan {
            burn_in: 60,
            keep: 100,
            thin: 2,
        },
        seed: 4,
        ..ItfConfig::default()
    };
    let table = crate::exact::table(4, 2);
    let first = fit(&first_rows(&table, 2), &config).unwrap();
    let all = go_on(&first, &table, &config).unwrap();
    let exact = tensor();
    for place in 0..3 {
        let mut wanted: HashMap<Vec<usize>, f64> = HashMap::new();
        for (point, p) in exact.points().iter().zip(exact.probabilities()) {
            *wanted.entry(point[place].clone()).or_default() += p;
        }
        // Shares by chain, which are independent.
        let mut shares: HashMap<Vec<usize>, Vec<f64>> = HashMap::new();
        for draw in all.draws() {
            let labels = match place {
                0 => &draw.blocks[0].labels[..],
                j => draw.labels(j - 1).unwrap(),
            };
            let of_chains = shares
                .entry(canonical(labels))
                .or_insert_with(|| vec![0.0; CHAINS]);
            of_chains[draw.chain as usize] += 1.0 / config.sweeps.keep as f64;
        }
        for (partition, p) in wanted {
            let none = vec![0.0; CHAINS];
            let found = shares.get(&partition).unwrap_or(&none);
            let n = CHAINS as f64;
            let mean = found.iter().sum::<f64>() / n;
            let variance = found.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let error = (variance / n).sqrt().max((p / (n * 100.0)).sqrt());
            assert!(
                (mean - p).abs() < 4.5 * error,
                "{place} {partition:?}: {mean} {p} {error}"
            );
        }
    }
}

#[test]
fn a_fit_that_goes_on_is_stopped_and_resumed_on_any_number_of_threads() {
    let table = grouped(60, 2, 3);
    let config = short(Structure::TensorBlocks);
    let first = fit(&first_rows(&table, 40), &config).unwrap();
    let run = || go_on(&first, &table, &config).unwrap().to_bytes().unwrap();
    same_bits_on_threads(&[1, 2, 4], run).unwrap();
    let folder = std::env::temp_dir().join(format!("npb-itf-further-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("checkpoint");
    let stopped_at = |most: f64, first: &ItfFit| {
        let watch = Watch::new(move |progress| match progress.share < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        let watch = watch.with_checkpoint(&file, Every::sweeps(3));
        first.continue_with(&table, &fields(&table), &config, &watch)
    };
    stopped_at(0.4, &first).unwrap();
    // A checkpoint of chains that came from elsewhere.
    let seed = ItfConfig {
        seed: 9,
        ..config.clone()
    };
    let other = fit(&first_rows(&table, 40), &seed).unwrap();
    assert!(matches!(
        stopped_at(2.0, &other),
        Err(ItfError::Checkpoint(_))
    ));
    assert_eq!(stopped_at(2.0, &first).unwrap().to_bytes().unwrap(), run());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_go_on_is_refused() {
    let table = grouped(30, 1, 4);
    let config = short(Structure::TensorBlocks);
    let first = fit(&first_rows(&table, 20), &config).unwrap();
    let fewer = go_on(&first, &first_rows(&table, 19), &config).unwrap_err();
    assert!(matches!(
        fewer,
        ItfError::FewerRows {
            found: 19,
            least: 20
        }
    ));
    let mut order: Vec<usize> = (0..30).collect();
    order.swap(3, 25);
    let other = go_on(&first, &table.select_rows(&order), &config).unwrap_err();
    assert!(matches!(other, ItfError::OtherRow { row: 3 }), "{other}");
    let MixedColumn::Categorical { codes, .. } = table.column(2) else {
        unreachable!()
    };
    let mut codes = codes.clone();
    codes[24] = Some(3);
    let levels = ["a", "b", "c", "new"].map(String::from).to_vec();
    let unknown = changed(&table, 2, MixedColumn::Categorical { levels, codes });
    let unknown = go_on(&first, &unknown, &config).unwrap_err();
    assert!(
        matches!(unknown, ItfError::UnknownLevel { row: 24, .. }),
        "{unknown}"
    );
    let renamed: Vec<String> = ["g0x0", "g0x1", "other"].map(String::from).to_vec();
    let renamed = MixedTable::new(renamed, table.columns().to_vec()).unwrap();
    assert!(go_on(&first, &renamed, &config).is_err());
    for (field, changed) in [
        (
            "chains",
            ItfConfig {
                chains: 3,
                ..config.clone()
            },
        ),
        (
            "structure",
            ItfConfig {
                structure: Structure::Joint,
                ..config.clone()
            },
        ),
        (
            "groups",
            ItfConfig {
                groups: Grouping::Found,
                ..config.clone()
            },
        ),
    ] {
        let error = go_on(&first, &table, &changed).unwrap_err().to_string();
        assert!(
            error.contains(field) && error.contains("that of the fit"),
            "{error}"
        );
    }
}

/// A hundred rows and a hundred more tell as much of other rows as two hundred at once.
#[test]
fn rows_that_come_later_tell_as_much() {
    let config = ItfConfig {
        chains: 4,
        sweeps: SweepPlan {
            burn_in: 60,
            keep: 30,
            thin: 2,
        },
        ..short(Structure::TensorBlocks)
    };
    let (mut differences, mut gains) = (Vec::new(), Vec::new());
    for seed in 0..8 {
        let table = grouped(400, 1, 20 + seed);
        let config = ItfConfig {
            seed,
            ..config.clone()
        };
        let test = table.select_rows(&(200..400).collect::<Vec<_>>());
        let score = |fit: &ItfFit| {
            let densities = fit.ln_density(&fit.rows(&test).unwrap()).unwrap();
            densities.iter().sum::<f64>() / 200.0
        };
        let first = fit(&first_rows(&table, 100), &config).unwrap();
        let later = go_on(&first, &first_rows(&table, 200), &config).unwrap();
        let at_once = fit(&first_rows(&table, 200), &config).unwrap();
        gains.push(score(&later) - score(&first));
        differences.push(score(&later) - score(&at_once));
    }
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0);
    assert!(gains.iter().sum::<f64>() > 0.0, "{gains:?}");
    assert!(
        mean.abs() < 0.01 + 3.0 * (variance / n).sqrt(),
        "{differences:?}"
    );
}
