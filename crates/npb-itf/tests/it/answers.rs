//! What a fit answers, against sums over its draws with everything written out; settings against what they name.

mod asked;
mod cells;
mod enumerated;
mod fits;
mod pairs;
mod rows;

use npb_data::{MixedColumn, MixedTable};
use npb_infer::SweepPlan;
use npb_itf::kernels::Column;
use npb_itf::{Draw, Grouping, ItfConfig, ItfFit, Structure, fit};
use npb_priors::special::{log_sum_exp, normal_cdf};
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::tables::levels;

/// Two numbers and a level in three clusters, a number apart; a sixth of the cells missing.
fn table(n: usize, seed: u64) -> MixedTable {
    let rng = &mut npb_infer::stream(seed, [3; 4]);
    let z: Vec<usize> = (0..n).map(|_| rng.random_range(0..3)).collect();
    let mut number = |centres: [f64; 3], scale: f64| {
        let cell = |&z: &usize| {
            let noise: f64 = rng.sample(StandardNormal);
            (rng.random::<f64>() > 1.0 / 6.0).then_some(100.0 + scale * (centres[z] + noise))
        };
        MixedColumn::Real(z.iter().map(cell).collect())
    };
    let (x, y, w) = (
        number([-2.0, 0.0, 2.5], 3.0),
        number([2.0, -1.0, 0.0], 0.1),
        number([0.0; 3], 1.0),
    );
    let code = |&z: &usize| {
        let code = if rng.random::<f64>() < 0.8 {
            z
        } else {
            rng.random_range(0..3)
        };
        (rng.random::<f64>() > 1.0 / 6.0).then_some(code as u32)
    };
    let c = MixedColumn::Categorical {
        levels: levels(&["low", "mid", "high"]),
        codes: z.iter().map(code).collect(),
    };
    let names = ["x", "c", "y", "w"].map(str::to_owned).to_vec();
    MixedTable::new(names, vec![x, c, y, w]).unwrap()
}

fn config(structure: Structure, seed: u64) -> ItfConfig {
    ItfConfig {
        structure,
        chains: 2,
        sweeps: SweepPlan {
            burn_in: 12,
            keep: 4,
            thin: 2,
        },
        groups: Grouping::Off,
        seed,
        ..ItfConfig::default()
    }
}

fn fitted(structure: Structure, seed: u64) -> (MixedTable, ItfFit) {
    let table = table(60, seed);
    let model = fit(&table, &config(structure, seed)).unwrap();
    (table, model)
}

/// A row: numbers, and levels by their number.
type Row = Vec<Option<f64>>;

fn rows_of(table: &MixedTable) -> Vec<Row> {
    let cell = |i: usize, j: usize| match table.column(j) {
        MixedColumn::Categorical { codes, .. } => codes[i].map(f64::from),
        column => column.number(i),
    };
    let row = |i: usize| (0..table.n_cols()).map(|j| cell(i, j)).collect();
    (0..table.n_rows()).map(row).collect()
}

/// Density, or probability, of a cell in a cluster.
fn density_of(law: &Column, cluster: usize, x: f64) -> f64 {
    match law {
        Column::Normal(fitted) => {
            let (mean, precision) = (
                fitted.params.mean(cluster),
                fitted.params.precision(cluster),
            );
            let tau = 2.0 * std::f64::consts::PI;
            (precision / tau).sqrt() * (-0.5 * precision * (x - mean).powi(2)).exp()
        }
        Column::Categorical(fitted) => fitted.params.probability(x as usize, cluster),
        law => panic!("{law:?}"),
    }
}

/// The share of a cell's law in a cluster at or below a number.
fn below(law: &Column, cluster: usize, x: f64) -> f64 {
    match law {
        Column::Normal(fitted) => {
            let (mean, precision) = (
                fitted.params.mean(cluster),
                fitted.params.precision(cluster),
            );
            normal_cdf((x - mean) * precision.sqrt())
        }
        Column::Categorical(fitted) => (0..3)
            .filter(|&code| f64::from(code) <= x)
            .map(|code| fitted.params.probability(code as usize, cluster))
            .sum(),
        law => panic!("{law:?}"),
    }
}

/// Weight of cluster k of a column in top-level cluster r.
fn psi(draw: &Draw, j: usize, r: usize, k: usize) -> f64 {
    let column = &draw.columns[j];
    match column.weights.is_empty() {
        true => f64::from(u8::from(r == k)),
        false => column.weights[r * column.n_clusters + k],
    }
}

/// Sum of f over the clusters of a column in top-level cluster r.
fn within(draw: &Draw, j: usize, r: usize, f: impl Fn(&Column, usize) -> f64) -> f64 {
    let column = &draw.columns[j];
    let each = (0..column.n_clusters).map(|k| (k, psi(draw, j, r, k)));
    each.filter(|(_, psi)| *psi > 0.0)
        .map(|(k, psi)| psi * f(&column.law, k))
        .sum()
}

/// Probabilities of the top-level clusters of a column's block together with the observed cells of a row.
fn top(draw: &Draw, block: usize, row: &Row) -> Vec<f64> {
    let weights = draw.blocks[block].weights.iter().enumerate();
    let of = |(r, weight): (usize, &f64)| {
        let inside = (0..row.len()).filter(|&j| draw.columns[j].block == block);
        let each = inside.filter_map(|j| row[j].map(|x| (j, x)));
        let each = each.map(|(j, x)| within(draw, j, r, |law, k| density_of(law, k, x)));
        weight * each.product::<f64>()
    };
    weights.map(of).collect()
}

/// ln density of the observed cells of a row in one draw.
fn ln_density(draw: &Draw, row: &Row) -> f64 {
    let blocks = 0..draw.blocks.len();
    blocks
        .map(|b| top(draw, b, row).iter().sum::<f64>().ln())
        .sum()
}

/// The mean of f over a column's clusters given the observed cells of a row, in one draw.
fn given(draw: &Draw, row: &Row, j: usize, f: impl Fn(&Column, usize) -> f64) -> f64 {
    assert!(row[j].is_none());
    let top = top(draw, draw.columns[j].block, row);
    let total: f64 = top.iter().sum();
    let each = top.iter().enumerate().filter(|(_, p)| **p > 0.0);
    each.map(|(r, p)| p / total * within(draw, j, r, &f)).sum()
}

/// What draws weigh for a row: by its density for new ones, alike for those of training.
fn weights(fit: &ItfFit, row: &Row, training: bool) -> Vec<f64> {
    let n = fit.draws().len();
    if training {
        return vec![1.0 / n as f64; n];
    }
    let ln: Vec<f64> = fit.draws().iter().map(|d| ln_density(d, row)).collect();
    let total = log_sum_exp(&ln);
    ln.iter().map(|ln| (ln - total).exp()).collect()
}

/// The mean over draws, by weight.
fn mean(fit: &ItfFit, row: &Row, training: bool, f: impl Fn(&Draw) -> f64) -> f64 {
    let weights = weights(fit, row, training);
    let each = fit.draws().iter().zip(weights);
    each.map(|(draw, weight)| weight * f(draw)).sum()
}

/// What is expected of a missing cell: probabilities of levels, or the mean.
fn expected(fit: &ItfFit, row: &Row, training: bool, j: usize) -> Vec<f64> {
    let of =
        |f: &dyn Fn(&Column, usize) -> f64| mean(fit, row, training, |draw| given(draw, row, j, f));
    match j {
        1 => (0..3)
            .map(|code| of(&|law, k| density_of(law, k, f64::from(code))))
            .collect(),
        _ => vec![of(&|law, k| match law {
            Column::Normal(fitted) => fitted.params.mean(k),
            law => panic!("{law:?}"),
        })],
    }
}

fn without(row: &Row, columns: &[usize]) -> Row {
    let cell = |(j, x): (usize, &Option<f64>)| x.filter(|_| !columns.contains(&j));
    row.iter().enumerate().map(cell).collect()
}

fn close(found: f64, wanted: f64, tolerance: f64) {
    let apart = (found - wanted).abs();
    assert!(
        apart <= tolerance * wanted.abs().max(1.0),
        "{found} {wanted}"
    );
}
