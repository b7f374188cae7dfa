//! Sweeps of the default structure of npb-itf on 10,000 rows of 20 mixed columns, a tenth missing, by a chain that has settled; and a fit of 2,000 rows
//! with as many chains as there are by default, for what a second thread saves.

use npb_benches::timed;
use npb_data::{MixedColumn, MixedTable};
use npb_infer::{SweepPlan, stream};
use npb_itf::{Grouping, ItfConfig, ItfData, ItfSampler, fit};
use rand::RngExt;
use rand_distr::{Distribution, Poisson, StandardNormal};

use crate::Outcome;

const N_ROWS: usize = 10_000;
const N_COLUMNS: usize = 20;
const SETTLING: usize = 200;
/// Sweeps that are timed: the time is of one hundred.
const SWEEPS: usize = 100;

/// A hundred sweeps.
pub(crate) fn sweep() -> Outcome {
    let data = ItfData::from_table(&table(N_ROWS, N_COLUMNS)).expect("a good table");
    let mut sampler = ItfSampler::new(&data, ItfConfig::default(), 0).expect("good input");
    (0..SETTLING).for_each(|_| sampler.sweep());
    let mut ln_likelihood = 0.0;
    let ((), seconds) = timed(|| {
        for _ in 0..SWEEPS {
            sampler.sweep();
            ln_likelihood += sampler.ln_likelihood();
        }
    });
    let cells = (SWEEPS * N_ROWS * N_COLUMNS) as f64;
    let blocks = sampler.state().blocks.len() as f64;
    Outcome {
        seconds,
        quality: vec![("ln_likelihood", ln_likelihood / cells), ("blocks", blocks)],
    }
}

/// A fit of four chains without the search for groups.
pub(crate) fn chains() -> Outcome {
    let table = table(2_000, N_COLUMNS);
    let (train, test): (Vec<usize>, Vec<usize>) = (0..2_000).partition(|row| row % 4 > 0);
    let config = ItfConfig {
        groups: Grouping::Off,
        sweeps: SweepPlan {
            burn_in: 100,
            keep: 20,
            thin: 5,
        },
        ..ItfConfig::default()
    };
    let known = table.select_rows(&train);
    let (model, seconds) = timed(|| fit(&known, &config).expect("good input"));
    let rows = model
        .rows(&table.select_rows(&test))
        .expect("columns of the fit");
    let density = model.ln_density(&rows).expect("rows of the fit");
    let mean = density.iter().sum::<f64>() / density.len() as f64;
    Outcome {
        seconds,
        quality: vec![("ln_density", mean)],
    }
}

/// Two independent groups of real, count and categorical columns in turn, with three clusters each.
fn table(n_rows: usize, n_columns: usize) -> MixedTable {
    let rng = &mut stream(crate::table_seed(), [0; 4]);
    let clusters: Vec<Vec<usize>> = (0..2)
        .map(|_| (0..n_rows).map(|_| rng.random_range(0..3)).collect())
        .collect();
    let column = |j: usize| {
        let turn = rng.random_range(0..3);
        let clusters = clusters[j * 2 / n_columns].iter().map(|z| (z + turn) % 3);
        match j % 3 {
            0 => {
                let cell = |z| {
                    let noise: f64 = rng.sample(StandardNormal);
                    (rng.random::<f64>() > 0.1).then_some(3.0 * z as f64 + noise)
                };
                MixedColumn::Real(clusters.map(cell).collect())
            }
            1 => {
                let cell = |z: usize| {
                    let law = Poisson::new([2.0, 8.0, 20.0][z]).expect("positive");
                    let count: f64 = law.sample(rng);
                    (rng.random::<f64>() > 0.1).then_some(count as u64)
                };
                MixedColumn::Count(clusters.map(cell).collect())
            }
            _ => {
                let cell = |z| {
                    let random = rng.random_range(0..3);
                    let code = if rng.random::<f64>() < 0.8 { z } else { random };
                    (rng.random::<f64>() > 0.1).then_some(code as u32)
                };
                MixedColumn::Categorical {
                    levels: ["a", "b", "c"].map(String::from).to_vec(),
                    codes: clusters.map(cell).collect(),
                }
            }
        }
    };
    let columns = (0..n_columns).map(column).collect();
    let names = (0..n_columns).map(|j| format!("c{j}")).collect();
    MixedTable::new(names, columns).expect("columns of one length")
}
