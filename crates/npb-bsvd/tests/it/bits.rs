//! Equal bits on any number of threads, and after a stop.

use npb_bsvd::npb_data::{Rating, Ratings};
use npb_bsvd::{
    BsvdConfig, BsvdData, BsvdMove, BsvdSampler, BsvdState, FactorUpdate, Likelihood,
    SideInformation, missingness,
};
use npb_infer::SweepPlan;
use npb_infer::storage::{from_bytes, to_bytes};
use npb_infer::testing::{same_bits_on_threads, same_bits_when_resumed};

use crate::simulated::low_rank;

fn levels() -> Ratings {
    let data = low_rank(5, (400, 90), 3, 0.4, 0.3);
    let level = |y: f64| (y + 3.0).round().clamp(1.0, 5.0);
    let entries: Vec<Rating> = data
        .observed
        .iter()
        .map(|e| Rating {
            value: level(e.value),
            ..e
        })
        .collect();
    Ratings::new(400, 90, &entries).unwrap()
}

fn config(likelihood: Likelihood, update: FactorUpdate) -> BsvdConfig {
    let mut config = BsvdConfig {
        likelihood,
        factor_update: update,
        candidates: 6,
        sweeps: SweepPlan {
            burn_in: 44,
            keep: 6,
            thin: 1,
        },
        ..BsvdConfig::default()
    };
    for scheduled in &mut config.moves {
        if scheduled.step == BsvdMove::Switches {
            scheduled.every = 3;
        }
    }
    config
}

fn data(ratings: &Ratings, config: &BsvdConfig) -> BsvdData {
    BsvdData::new(ratings, missingness(ratings, 2, 1), config).unwrap()
}

/// State, scalars and sweeps made.
fn bytes(sampler: &BsvdSampler<'_>) -> Vec<u8> {
    let mut scalars = vec![0.0; BsvdSampler::scalar_names().len()];
    sampler.scalars(&mut scalars);
    to_bytes("test", "0", &(sampler.state(), scalars, sampler.sweeps())).unwrap()
}

#[test]
fn same_on_1_2_and_4_threads() {
    let ratings = levels();
    for (likelihood, update) in [
        (Likelihood::Gaussian, FactorUpdate::Joint),
        (Likelihood::Gaussian, FactorUpdate::Auto),
        (Likelihood::Ordinal { levels: 5 }, FactorUpdate::Joint),
    ] {
        let config = config(likelihood, update);
        same_bits_on_threads(&[1, 2, 4], || {
            let data = data(&ratings, &config);
            let mut sampler = BsvdSampler::new(&data, config.clone()).unwrap();
            (0..config.sweeps.total()).for_each(|_| sampler.sweep().unwrap());
            bytes(&sampler)
        })
        .unwrap();
    }
}

#[test]
fn same_after_a_stop() {
    let ratings = levels();
    for (likelihood, update) in [
        (Likelihood::Gaussian, FactorUpdate::Auto),
        (Likelihood::Ordinal { levels: 5 }, FactorUpdate::Coordinate),
    ] {
        let config = config(likelihood, update);
        let data = data(&ratings, &config);
        same_bits_when_resumed(
            50,
            &[1, 15, 30, 49],
            || BsvdSampler::new(&data, config.clone()).unwrap(),
            |sampler, n| {
                (0..n).for_each(|_| sampler.sweep().unwrap());
            },
            bytes,
            |bytes| {
                let (state, _, sweeps): (BsvdState, Vec<f64>, u64) =
                    from_bytes("test", bytes).unwrap();
                BsvdSampler::resume(&data, config.clone(), state, sweeps).unwrap()
            },
        )
        .unwrap();
    }
}

#[test]
fn chains_and_seeds_differ() {
    let ratings = levels();
    let run = |seed: u64, chain: u64| {
        let config = BsvdConfig {
            seed,
            chain,
            ..config(Likelihood::Gaussian, FactorUpdate::Joint)
        };
        let data = BsvdData::new(&ratings, SideInformation::default(), &config).unwrap();
        let mut sampler = BsvdSampler::new(&data, config).unwrap();
        sampler.sweep().unwrap();
        sampler.state().noise_precision
    };
    assert_ne!(run(1, 0).to_bits(), run(1, 1).to_bits());
    assert_ne!(run(1, 0).to_bits(), run(2, 0).to_bits());
}
