//! Data drawn from the model.

use npb_bpfa::BpfaRows;
use npb_bpfa::npb_data::Table;
use npb_bpfa::npb_infer::{SweepPlan, stream};
use npb_bpfa::{BpfaConfig, UsagePrior};
use rand::RngExt;
use rand_distr::StandardNormal;

/// A matrix from `rank` atoms, each in two fifths of the rows.
pub(crate) struct Simulated {
    pub(crate) n: usize,
    pub(crate) p: usize,
    /// Without noise.
    pub(crate) truth: Vec<f64>,
    /// With it.
    pub(crate) noisy: Vec<f64>,
    pub(crate) observed: Vec<bool>,
}

pub(crate) fn simulated(
    n: usize,
    p: usize,
    rank: usize,
    noise: f64,
    missing: f64,
    seed: u64,
) -> Simulated {
    let rng = &mut stream(seed, [n as u64, p as u64, rank as u64, 0]);
    let d: Vec<f64> = (0..p * rank).map(|_| rng.sample(StandardNormal)).collect();
    let mut truth = vec![0.0; n * p];
    for row in truth.chunks_exact_mut(p) {
        for k in 0..rank {
            let on = rng.random::<f64>() < 0.4;
            let s: f64 = rng.sample(StandardNormal);
            if on {
                (0..p).for_each(|j| row[j] += s * d[j * rank + k]);
            }
        }
    }
    let noisy = truth
        .iter()
        .map(|x| x + noise * rng.sample::<f64, _>(StandardNormal))
        .collect();
    let observed = truth
        .iter()
        .map(|_| rng.random::<f64>() >= missing)
        .collect();
    Simulated {
        n,
        p,
        truth,
        noisy,
        observed,
    }
}

impl Simulated {
    pub(crate) fn table(&self) -> Table {
        let cell = |(y, &seen): (&f64, &bool)| if seen { *y } else { f64::NAN };
        let cells: Vec<f64> = self.noisy.iter().zip(&self.observed).map(cell).collect();
        Table::from_nan_coded(self.n, self.p, &cells).unwrap()
    }

    pub(crate) fn rows(&self) -> BpfaRows {
        BpfaRows::from_table(&self.table()).unwrap()
    }
}

pub(crate) fn config(atoms: usize, burn_in: u64, keep: u64) -> BpfaConfig {
    BpfaConfig {
        atoms,
        usage: UsagePrior::Process { a: 1.0, b: 1.0 },
        sweeps: SweepPlan {
            burn_in,
            keep,
            thin: 1,
        },
        stored_draws: 10,
        seed: 5,
        ..BpfaConfig::default()
    }
}
