//! The bound: never falls, and no indicator is better the other way.

use npb_infer::testing::BoundMonitor;
use npb_iqgme::{FactorConfig, FactorData, FactorInit, FactorVb, FactorVbUpdate};

use super::data::{Simulation, config};

const STARTS: [FactorInit; 4] = [
    FactorInit::Pooled(3),
    FactorInit::Own(2),
    FactorInit::PerClass(2),
    FactorInit::Pooled(1),
];

/// Every other eight of three classes.
fn simulation(seed: u64) -> Simulation {
    let k = seed as usize;
    Simulation {
        n: 20 + k,
        p: 4 + k % 9,
        missing: [0.0, 0.1, 0.5][k % 3],
        unlabelled: [0.0, 0.4, 1.0][(k / 3) % 3],
        classes: 2 + k / 8 % 2,
        ..Simulation::small()
    }
}

/// The first fall by more than rounding in 25 iterations of the bound with what `tamper` adds to it.
fn first_fall(
    seed: u64,
    mut tamper: impl FnMut(FactorVbUpdate, &mut FactorVb<'_>) -> f64,
) -> Option<String> {
    let config = FactorConfig {
        cluster_noise: if seed.is_multiple_of(4) { 0.0 } else { 1.0 },
        ..config(seed)
    };
    let start = STARTS[seed as usize % STARTS.len()];
    let (table, labels, _) = simulation(seed).draw(seed);
    let data = FactorData::new(&table, &labels, &config).unwrap();
    let mut vb = FactorVb::new(&data, config, start, 0).unwrap();
    let mut last: Option<(f64, f64)> = None;
    for iteration in 0..25 {
        for update in FactorVbUpdate::ALL {
            vb.apply(update).unwrap();
            let bound = vb.bound().unwrap();
            let total = bound.total() + tamper(update, &mut vb);
            if let Some((before, size)) = last {
                let tolerance = BoundMonitor::RELATIVE_TOLERANCE * bound.magnitude.max(size);
                if total.is_nan() || total < before - tolerance {
                    return Some(format!(
                        "seed {seed}, {start:?}, iteration {iteration}, {update:?}: {before} -> {total}"
                    ));
                }
            }
            last = Some((total, bound.magnitude));
        }
    }
    None
}

#[test]
fn never_falls() {
    for seed in 0..24 {
        assert_eq!(first_fall(seed, |_, _| 0.0), None);
    }
}

#[test]
fn a_bound_with_a_term_left_out_falls() {
    // Without the divergence of the loadings, or without the prior of the indicators.
    let without = |which: usize| {
        (0..24).any(|seed| first_fall(seed, |_, vb| -vb.bound().unwrap().terms()[which]).is_some())
    };
    assert!(without(6) && without(5));
}

fn converged(seed: u64) -> (FactorData, FactorConfig) {
    let config = config(seed);
    let (table, labels, _) = simulation(seed).draw(seed);
    (FactorData::new(&table, &labels, &config).unwrap(), config)
}

#[test]
fn switches_are_no_better_the_other_way() {
    // After the run every single flip, whatever it indicators found anew, would lower the bound.
    let (data, config) = converged(3);
    let mut vb = FactorVb::new(&data, config, FactorInit::Pooled(2), 0).unwrap();
    for _ in 0..60 {
        vb.step().unwrap();
    }
    vb.apply(FactorVbUpdate::Rows).unwrap();
    for (used, probabilities) in vb
        .state()
        .indicators
        .clone()
        .iter()
        .zip(vb.inclusion_probabilities().unwrap())
    {
        for (&on, p) in used.iter().zip(probabilities) {
            assert_eq!(on, p > 0.5, "{p}");
        }
    }
}
