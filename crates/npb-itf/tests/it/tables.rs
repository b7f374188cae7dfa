//! Tables and settings that several files of tests use.

use npb_data::{MixedColumn, MixedTable};
use npb_infer::SweepPlan;
use npb_itf::{Grouping, ItfConfig, Structure};
use rand::RngExt;
use rand_distr::StandardNormal;

pub(crate) fn levels(names: &[&str]) -> Vec<String> {
    names.iter().map(|&n| n.to_owned()).collect()
}

/// `groups` independent groups of three columns (real, real, three levels), three clusters each; a tenth missing.
pub(crate) fn grouped(n: usize, groups: usize, seed: u64) -> MixedTable {
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

pub(crate) fn short(structure: Structure) -> ItfConfig {
    ItfConfig {
        structure,
        chains: 2,
        sweeps: SweepPlan {
            burn_in: 5,
            keep: 3,
            thin: 2,
        },
        groups: Grouping::Off,
        ..ItfConfig::default()
    }
}

pub(crate) const ALL: [Structure; 3] =
    [Structure::Tensor, Structure::Joint, Structure::TensorBlocks];

pub(crate) fn one(name: &str, column: MixedColumn) -> MixedTable {
    MixedTable::new(vec![name.to_owned()], vec![column]).unwrap()
}
