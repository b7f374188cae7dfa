//! Sweeps over movielens-1m with a fixed number of components, and one precision of noise and of factors, as probabilistic matrix factorisation has them.

use std::fs::File;

use npb_benches::timed;
use npb_bsvd::{BsvdConfig, BsvdData, BsvdMove, BsvdSampler, SideInformation};
use npb_data::read::{MovieLens, movielens};
use npb_infer::SweepPlan;

use crate::Outcome;

const FILE: &str = "movielens-1m/ratings_no_timestamp.dat.gz";
/// Sweeps that are timed, after those in which memory settles.
const SWEEPS: u64 = 20;
const WARM: u64 = 3;

pub(crate) fn run_32() -> Outcome {
    sweeps(32)
}

pub(crate) fn run_16() -> Outcome {
    sweeps(16)
}

/// Seconds are those of all sweeps; the quality is the root mean squared residual of training after them, which says that work was done.
fn sweeps(rank: usize) -> Outcome {
    let folder = std::env::var("NPB_DATA_DIR").expect("NPB_DATA_DIR names the folder of data");
    let file = File::open(format!("{folder}/{FILE}")).expect("movielens-1m is there");
    let file = movielens(FILE, file, MovieLens::DoubleColon).expect("the format");
    let ratings = file.ratings().expect("distinct cells");
    let mut config = BsvdConfig {
        candidates: rank,
        max_candidates: rank,
        row_noise: false,
        column_noise: false,
        row_factor_precision: false,
        column_factor_precision: false,
        sweeps: SweepPlan {
            burn_in: 0,
            keep: WARM + SWEEPS,
            thin: 1,
        },
        ..BsvdConfig::default()
    };
    config.moves.retain(|s| s.step != BsvdMove::Switches);
    let data = BsvdData::new(&ratings, SideInformation::default(), &config).expect("good data");
    let mut sampler = BsvdSampler::new(&data, config).expect("good settings");
    let mut go = |n: u64| (0..n).for_each(|_| sampler.sweep().expect("a sweep"));
    go(WARM);
    let ((), seconds) = timed(|| go(SWEEPS));
    let mut scalars = vec![0.0; BsvdSampler::scalar_names().len()];
    sampler.scalars(&mut scalars);
    Outcome {
        seconds,
        quality: vec![("sweeps", SWEEPS as f64), ("noise_sd", scalars[2])],
    }
}
