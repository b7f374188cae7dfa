//! Predictors of held-out cells of mixed tables.

use npb_baselines::{
    BaselineError, BoostedConfig, Cell, CellValue, MixedChainedConfig, boosted_cells,
    chained_cells, marginal_cells,
};
use npb_data::{Mask, MixedColumn, MixedTable};

/// A number from 0 to 1 that depends on `k` alone.
fn uniform(k: usize) -> f64 {
    let mut h = (k as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    h = (h ^ (h >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((h ^ (h >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

fn held_out(i: usize, j: usize) -> bool {
    uniform(1_000_003 * (j + 1) + i) < 0.1
}

/// 400 rows: x uniform, y = 3 x + small noise, a count near 10 x, a level by thirds of x (90% right), noise apart from them.
fn table(n: usize) -> (MixedTable, Mask, MixedTable) {
    let x = |i: usize| uniform(7 * i);
    let level = |i: usize| match uniform(7 * i + 1) < 0.9 {
        true => (3.0 * x(i)) as u32,
        false => (3.0 * uniform(7 * i + 2)) as u32,
    };
    let columns = vec![
        MixedColumn::Real((0..n).map(|i| Some(x(i))).collect()),
        MixedColumn::Real(
            (0..n)
                .map(|i| Some(3.0 * x(i) + 0.1 * uniform(7 * i + 3)))
                .collect(),
        ),
        MixedColumn::Count(
            (0..n)
                .map(|i| Some((10.0 * x(i) + uniform(7 * i + 4)) as u64))
                .collect(),
        ),
        MixedColumn::Categorical {
            levels: ["low", "mid", "high"].map(str::to_owned).to_vec(),
            codes: (0..n).map(|i| Some(level(i))).collect(),
        },
        MixedColumn::Binary {
            levels: ["n", "y"].map(str::to_owned),
            values: (0..n).map(|i| Some(x(i) > 0.5)).collect(),
        },
        MixedColumn::Real((0..n).map(|i| Some(uniform(7 * i + 5))).collect()),
    ];
    let names = (0..6).map(|j| format!("c{j}")).collect();
    let whole = MixedTable::new(names, columns).unwrap();
    let mask = Mask::from_fn(n, 6, held_out).unwrap();
    (whole.hide(&mask).unwrap(), mask, whole)
}

/// Root mean squared error of a column of numbers; mean probability of the right level of a column of levels.
fn score(cells: &[Cell], whole: &MixedTable, column: usize) -> f64 {
    let cells: Vec<&Cell> = cells.iter().filter(|c| c.column == column).collect();
    let one = |cell: &&Cell| match (&cell.value, whole.column(column)) {
        (CellValue::Number(m), MixedColumn::Real(v)) => (v[cell.row].unwrap() - m).powi(2),
        (CellValue::Number(m), MixedColumn::Count(v)) => (v[cell.row].unwrap() as f64 - m).powi(2),
        (CellValue::Levels(p), MixedColumn::Categorical { codes, .. }) => {
            p[codes[cell.row].unwrap() as usize]
        }
        (CellValue::Levels(p), MixedColumn::Binary { values, .. }) => {
            p[usize::from(values[cell.row].unwrap())]
        }
        _ => panic!("a value of another kind"),
    };
    let mean = cells.iter().map(one).sum::<f64>() / cells.len() as f64;
    match cells[0].value {
        CellValue::Number(_) => mean.sqrt(),
        CellValue::Levels(_) => mean,
    }
}

#[test]
fn dependent_cells_are_found_and_independent_ones_left_alone() {
    let (train, targets, whole) = table(400);
    let alone = marginal_cells(&train, &targets).unwrap();
    let chained = chained_cells(&train, &targets, &MixedChainedConfig::default()).unwrap();
    let boosted = boosted_cells(&train, &targets, &BoostedConfig::default()).unwrap();
    let n_asked = (0..6)
        .map(|j| (0..400).filter(|&i| targets.get(i, j)).count())
        .sum::<usize>();
    for cells in [&alone, &chained, &boosted] {
        assert_eq!(cells.len(), n_asked);
    }
    let scores = |cells: &[Cell]| (0..6).map(|j| score(cells, &whole, j)).collect::<Vec<_>>();
    let (alone, chained, boosted) = (scores(&alone), scores(&chained), scores(&boosted));
    for j in 0..3 {
        assert!(chained[j] < 0.25 * alone[j], "{j}: {chained:?} {alone:?}");
        assert!(boosted[j] < 0.35 * alone[j], "{j}: {boosted:?} {alone:?}");
    }
    for found in [&chained, &boosted] {
        assert!(found[3] > 0.6 && alone[3] < 0.4, "{found:?} {alone:?}");
        assert!(found[4] > 0.9 && alone[4] < 0.6, "{found:?} {alone:?}");
        assert!(found[5] < 1.15 * alone[5], "noise: {found:?} {alone:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let (train, targets, _) = table(150);
    let run = || boosted_cells(&train, &targets, &BoostedConfig::default()).unwrap();
    assert_eq!(run(), run());
}

/// The score equations of penalised multinomial regression hold at the fit: checked on one binary column without holes
/// elsewhere, where chained equations are one regression.
#[test]
fn one_multinomial_regression_is_at_its_optimum() {
    let n = 200;
    let x: Vec<f64> = (0..n).map(|i| 2.0 * uniform(3 * i) - 1.0).collect();
    let y: Vec<bool> = (0..n)
        .map(|i| uniform(3 * i + 1) < 1.0 / (1.0 + (-2.0 * x[i]).exp()))
        .collect();
    let mut xs: Vec<Option<f64>> = x.iter().map(|&v| Some(v)).collect();
    let mut ys: Vec<Option<bool>> = y.iter().map(|&v| Some(v)).collect();
    // The last two rows ask for two points of the fitted curve; those two x do not enter the scale much.
    (xs[n - 2], xs[n - 1], ys[n - 2], ys[n - 1]) = (Some(0.0), Some(1.0), None, None);
    let columns = vec![
        MixedColumn::Real(xs.clone()),
        MixedColumn::Binary {
            levels: ["n", "y"].map(str::to_owned),
            values: ys.clone(),
        },
    ];
    let table = MixedTable::new(vec!["x".into(), "y".into()], columns).unwrap();
    let targets = Mask::from_fn(n, 2, |i, j| j == 1 && i >= n - 2).unwrap();
    let config = MixedChainedConfig {
        rounds: 50,
        ..Default::default()
    };
    let cells = chained_cells(&table, &targets, &config).unwrap();
    let logit = |c: &Cell| match &c.value {
        CellValue::Levels(p) => (p[1] / p[0]).ln(),
        CellValue::Number(_) => f64::NAN,
    };
    let (intercept, slope) = (logit(&cells[0]), logit(&cells[1]) - logit(&cells[0]));
    // Two weight vectors of opposite sign share the penalty: the logit's weight w is penalised by w²/4.
    let seen: Vec<f64> = xs.iter().flatten().copied().collect();
    let mean = seen.iter().sum::<f64>() / n as f64;
    let sd = (seen.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
    let residual = |i: usize| {
        f64::from(u8::from(ys[i].unwrap())) - 1.0 / (1.0 + (-(intercept + slope * seen[i])).exp())
    };
    let gradient: f64 = (0..n - 2)
        .map(|i| residual(i) * (seen[i] - mean) / sd)
        .sum();
    let free: f64 = (0..n - 2).map(residual).sum();
    assert!(
        (gradient - 0.5 * slope * sd).abs() < 1e-3,
        "{gradient} {}",
        0.5 * slope * sd
    );
    assert!(free.abs() < 2e-3, "{free}");
}

#[test]
fn hard_tables_give_finite_cells() {
    let level = |codes: Vec<Option<u32>>| MixedColumn::Categorical {
        levels: ["a", "b", "c"].map(str::to_owned).to_vec(),
        codes,
    };
    let n = 40;
    let columns = [
        MixedColumn::Real(vec![None; n]),
        MixedColumn::Real((0..n).map(|i| (i != 3).then_some(5.0)).collect()),
        MixedColumn::Real(
            (0..n)
                .map(|i| (i != 3).then_some(1e300 * (i as f64 - 20.0) / 20.0))
                .collect(),
        ),
        MixedColumn::Real(
            (0..n)
                .map(|i| (i != 3).then_some(1e-300 * i as f64))
                .collect(),
        ),
        level(vec![None; n]),
        level((0..n).map(|i| (i != 3).then_some(0)).collect()),
        level(
            (0..n)
                .map(|i| (i != 3).then_some(u32::from(i == 5)))
                .collect(),
        ),
        MixedColumn::Count((0..n).map(|i| (i != 3).then_some(1 << (i % 50))).collect()),
    ];
    for width in 1..=columns.len() {
        let names = (0..width).map(|j| format!("c{j}")).collect();
        let table = MixedTable::new(names, columns[..width].to_vec()).unwrap();
        let targets = Mask::from_fn(n, width, |i, _| i == 3).unwrap();
        for found in [
            marginal_cells(&table, &targets),
            chained_cells(&table, &targets, &MixedChainedConfig::default()),
            boosted_cells(&table, &targets, &BoostedConfig::default()),
        ] {
            for cell in found.unwrap() {
                match cell.value {
                    CellValue::Number(v) => assert!(v.is_finite(), "{width} {}", cell.column),
                    CellValue::Levels(p) => {
                        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{p:?}");
                        assert!(p.iter().all(|&p| p >= 0.0));
                    }
                }
            }
        }
    }
}

#[test]
fn bad_requests_are_named() {
    let (train, _, whole) = table(30);
    let all = Mask::new(30, 6, true).unwrap();
    let expected = BaselineError::Observed { row: 0, column: 0 };
    assert_eq!(marginal_cells(&whole, &all).unwrap_err(), expected);
    let narrow = Mask::new(30, 5, true).unwrap();
    let error = chained_cells(&train, &narrow, &MixedChainedConfig::default()).unwrap_err();
    assert!(
        error.to_string().contains("30 x 5, expected 30 x 6"),
        "{error}"
    );
    let none = Mask::new(30, 6, false).unwrap();
    let config = BoostedConfig {
        budget: f32::NAN,
        ..Default::default()
    };
    assert!(matches!(
        boosted_cells(&train, &none, &config),
        Err(BaselineError::Config {
            field: "budget",
            ..
        })
    ));
    let config = MixedChainedConfig {
        penalty: 0.0,
        ..Default::default()
    };
    assert!(matches!(
        chained_cells(&train, &none, &config),
        Err(BaselineError::Config {
            field: "penalty",
            ..
        })
    ));
    assert_eq!(
        boosted_cells(&train, &none, &BoostedConfig::default()).unwrap(),
        []
    );
    let empty = MixedTable::default();
    let mask = Mask::new(0, 0, false).unwrap();
    assert!(matches!(
        marginal_cells(&empty, &mask),
        Err(BaselineError::Empty { .. })
    ));
}
