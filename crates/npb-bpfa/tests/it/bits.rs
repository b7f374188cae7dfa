//! The same bits on any number of threads, when stopped and resumed, when saved and loaded.

use std::ops::ControlFlow;

use npb_bpfa::npb_infer::checkpoint::Every;
use npb_bpfa::npb_infer::testing::{same_bits_on_threads, same_bits_when_resumed};
use npb_bpfa::npb_infer::{Watch, storage};
use npb_bpfa::{
    BpfaConfig, BpfaRows, BpfaSampler, BpfaState, BpfaVb, BpfaVbConfig, DependentPrior,
    Factorisation, Saved, ScorePrior, SpikePrior, UsagePrior, fit, fit_watched,
};

use crate::simulated::{config, simulated};

/// More than one block of rows, of each kind.
fn cases() -> Vec<(BpfaRows, BpfaConfig)> {
    let holes = simulated(600, 7, 3, 0.2, 0.3, 1).rows();
    let complete = simulated(600, 7, 3, 0.2, 0.0, 1).rows();
    let places = (0..600).map(|i| i as f32 / 60.0).collect();
    let located = holes.clone().with_locations(1, places).unwrap();
    let plain = config(6, 4, 4);
    let lasso = ScorePrior::Lasso {
        per_entry: false,
        rate: npb_bpfa::npb_priors::GammaPrior {
            shape: 1.0,
            rate: 1.0,
        },
    };
    let with = |change: &dyn Fn(&mut BpfaConfig)| {
        let mut config = plain.clone();
        change(&mut config);
        config
    };
    vec![
        (holes.clone(), plain.clone()),
        (complete.clone(), with(&|c| c.prune = true)),
        (complete.clone(), with(&|c| c.scores = ScorePrior::Dense)),
        (holes.clone(), with(&|c| c.scores = ScorePrior::Dense)),
        (holes.clone(), with(&|c| c.scores = lasso)),
        (complete, with(&|c| c.spikes = Some(SpikePrior::default()))),
        (
            located,
            with(&|c| {
                c.usage = UsagePrior::Dependent {
                    prior: DependentPrior {
                        anchors: 4,
                        neighbours: 3,
                        ..DependentPrior::default()
                    },
                }
            }),
        ),
    ]
}

fn bytes(sampler: &BpfaSampler<'_>) -> Vec<u8> {
    storage::to_bytes(
        "test",
        "0",
        &(sampler.state(), sampler.scalars(), sampler.n_sweeps()),
    )
    .unwrap()
}

fn advance(sampler: &mut BpfaSampler<'_>, n: u64) {
    (0..n).for_each(|_| sampler.sweep().unwrap());
}

#[test]
fn of_the_sampler() {
    for (rows, config) in cases() {
        let start = || BpfaSampler::new(&rows, config.clone()).unwrap();
        same_bits_on_threads(&[1, 2, 4], || {
            let mut sampler = start();
            advance(&mut sampler, 5);
            bytes(&sampler)
        })
        .unwrap();
        let load = |bytes: &[u8]| {
            let (state, _, sweeps): (BpfaState, [f64; 5], u64) =
                storage::from_bytes("test", bytes).unwrap();
            BpfaSampler::resume(&rows, config.clone(), 0, state, sweeps).unwrap()
        };
        same_bits_when_resumed(6, &[1, 4], start, advance, bytes, load).unwrap();
    }
}

#[test]
fn of_variational_runs() {
    let rows = simulated(300, 6, 3, 0.2, 0.3, 1).rows();
    for factorisation in [Factorisation::Factorised, Factorisation::Joint] {
        for scores in [ScorePrior::Dense, ScorePrior::SpikeSlab] {
            same_bits_on_threads(&[1, 2, 4], || {
                let config = BpfaVbConfig {
                    atoms: 4,
                    scores,
                    factorisation,
                    ..BpfaVbConfig::default()
                };
                let mut run = BpfaVb::new(&rows, config).unwrap();
                (0..4).for_each(|_| {
                    run.step().unwrap();
                });
                storage::to_bytes("test", "0", run.state()).unwrap()
            })
            .unwrap();
        }
    }
}

#[test]
fn of_fits_that_were_stopped() {
    let table = simulated(80, 6, 2, 0.2, 0.3, 1).table();
    let config = BpfaConfig {
        chains: 2,
        ..config(4, 10, 20)
    };
    let whole = fit(&table, &config).unwrap();
    let path = std::env::temp_dir().join(format!("npb-bpfa-bits-{}", std::process::id()));
    let mut left = 17;
    let stop = Watch::new(|_| {
        left -= 1;
        match left {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    let stop = stop.with_checkpoint(&path, Every::sweeps(3));
    let partial = fit_watched(&table, &config, &stop).unwrap();
    assert_ne!(partial.stop(), whole.stop());
    drop(stop);
    let go_on = Watch::none().with_checkpoint(&path, Every::sweeps(100));
    let resumed = fit_watched(&table, &config, &go_on).unwrap();
    assert_eq!(resumed.to_bytes().unwrap(), whole.to_bytes().unwrap());
    let other = BpfaConfig { seed: 6, ..config };
    assert!(fit_watched(&table, &other, &go_on).is_err());
    std::fs::remove_file(path).unwrap();
}
