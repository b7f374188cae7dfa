//! The bound: never falls, and every update is at its optimum.

use npb_infer::testing::{BoundMonitor, check_stationary};
use npb_iqgme::{FactorConfig, FactorData, FactorStart, FactorState, FactorUpdate, FactorVb};
use npb_priors::dist::{Gamma, NormalGamma};

use super::data::{Simulation, config};

const STARTS: [FactorStart; 4] = [
    FactorStart::Pooled(3),
    FactorStart::Own(2),
    FactorStart::PerClass(2),
    FactorStart::Pooled(1),
];

fn check_monotone(
    simulation: &Simulation,
    config: FactorConfig,
    start: FactorStart,
    iterations: usize,
) -> FactorState {
    let (table, labels, _) = simulation.draw(config.seed);
    let data = FactorData::new(&table, &labels, &config).unwrap();
    let seed = config.seed;
    let mut vb = FactorVb::new(&data, config, start, 0).unwrap();
    let mut last: Option<(f64, f64)> = None;
    for iteration in 0..iterations {
        for update in FactorUpdate::ALL {
            vb.apply(update).unwrap();
            let bound = vb.bound().unwrap();
            let total = bound.total();
            if let Some((before, size)) = last {
                let tolerance = BoundMonitor::RELATIVE_TOLERANCE * size.max(bound.magnitude);
                assert!(
                    total >= before - tolerance,
                    "seed {seed}, {start:?}, iteration {iteration}, {update:?}: {before} -> {total}, tolerance {tolerance:e}"
                );
            }
            last = Some((total, bound.magnitude));
        }
    }
    vb.into_state()
}

#[test]
fn never_falls() {
    for seed in 0..24 {
        let simulation = Simulation {
            n: 20 + seed as usize,
            p: 4 + seed as usize % 9,
            missing: [0.0, 0.1, 0.5][seed as usize % 3],
            unlabelled: [0.0, 0.4, 1.0][(seed as usize / 3) % 3],
            ..Simulation::small()
        };
        let config = FactorConfig {
            cluster_noise: if seed % 4 == 0 { 0.0 } else { 1.0 },
            ..config(seed)
        };
        check_monotone(&simulation, config, STARTS[seed as usize % 4], 25);
    }
}
