//! The bound: never falls, and every update is at its optimum.

use npb_infer::testing::{BoundMonitor, check_stationary};
use npb_iqgme::{FactorConfig, FactorData, FactorInit, FactorState, FactorVb, FactorVbUpdate};
use npb_priors::dist::{Gamma, NormalGamma};

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

/// Checks that the bound is highest at some parameters of the state after `update`.
fn check(
    (seed, start): (u64, FactorInit),
    update: FactorVbUpdate,
    parameters: impl Fn(&FactorState) -> Vec<f64>,
    set: impl Fn(&mut FactorState, &[f64]),
) {
    let (data, config) = converged(seed);
    let mut vb = FactorVb::new(&data, config, start, 0).unwrap();
    for _ in 0..3 {
        vb.step().unwrap();
    }
    vb.apply(FactorVbUpdate::Rows).unwrap();
    vb.apply(FactorVbUpdate::Utilities).unwrap();
    vb.apply(update).unwrap();
    let state = vb.state().clone();
    let at = parameters(&state);
    check_stationary(&at, 1e-5, |values| {
        let mut moved = state.clone();
        set(&mut moved, values);
        vb.bound_at(&moved).unwrap().total()
    })
    .unwrap_or_else(|error| panic!("seed {seed}, {start:?}, {update:?}: {error}"));
}

#[test]
fn updates_are_where_the_bound_is_highest() {
    // Seed 1: holes, all rows labelled. Seed 3: no holes, some rows without labels.
    for seed in [1, 3] {
        let clusters = (seed, FactorInit::Pooled(2));
        check(
            clusters,
            FactorVbUpdate::Features,
            |state| {
                let features = &state.features;
                let mut values = features.mean.col_as_slice(0).to_vec();
                values.extend(features.mean.col_as_slice(features.mean.ncols() - 1));
                values.extend(features.rate.iter().map(|rate| rate.ln()));
                values.extend(features.shape.iter().map(|shape| shape.ln()));
                values.extend((0..2).map(|k| features.covariance[0][(k, k)].ln()));
                values
            },
            |state, values| {
                let features = &mut state.features;
                let (p, last) = (features.rate.len(), features.mean.ncols() - 1);
                for j in 0..p {
                    features.mean[(j, 0)] = values[j];
                    features.mean[(j, last)] = values[p + j];
                    features.rate[j] = values[2 * p + j].exp();
                    features.shape[j] = values[3 * p + j].exp();
                }
                for k in 0..2 {
                    features.covariance[0][(k, k)] = values[4 * p + k].exp();
                }
            },
        );
        let logs = |gammas: &[Gamma]| -> Vec<f64> {
            gammas
                .iter()
                .flat_map(|g| [g.shape().ln(), g.rate().ln()])
                .collect()
        };
        let gammas = |values: &[f64]| -> Vec<Gamma> {
            let pairs = values.chunks_exact(2);
            pairs
                .map(|v| Gamma::new(v[0].exp(), v[1].exp()).unwrap())
                .collect()
        };
        check(
            clusters,
            FactorVbUpdate::Scales,
            |state| {
                let mut all = state.loading_precisions.clone();
                all.push(state.mean_precision);
                logs(&all)
            },
            |state, values| {
                let mut all = gammas(values);
                state.mean_precision = all.pop().unwrap();
                state.loading_precisions = all;
            },
        );
        check(
            clusters,
            FactorVbUpdate::ClusterNoise,
            |state| logs(&state.noise),
            |state, values| state.noise = gammas(values),
        );
        check(
            clusters,
            FactorVbUpdate::Experts,
            |state| {
                let means = state.experts.iter().enumerate().flat_map(|(h, expert)| {
                    let mut own = state.used(h);
                    own.push(state.n_factors());
                    own.into_iter().map(|l| expert.mean[l]).collect::<Vec<_>>()
                });
                means.collect()
            },
            |state, values| {
                let mut values = values.iter();
                for h in 0..state.n_clusters() {
                    let mut own = state.used(h);
                    own.push(state.n_factors());
                    for l in own {
                        state.experts[h].mean[l] = *values.next().unwrap();
                    }
                }
            },
        );
        check(
            clusters,
            FactorVbUpdate::ExpertPrior,
            |state| {
                let laws = state.expert_prior.iter();
                laws.flat_map(|law| [law.mean(), law.precision().rate().ln()])
                    .collect()
            },
            |state, values| {
                for (law, v) in state.expert_prior.iter_mut().zip(values.chunks_exact(2)) {
                    *law =
                        NormalGamma::new(v[0], law.strength(), law.precision().shape(), v[1].exp())
                            .unwrap();
                }
            },
        );
    }
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

#[test]
fn a_posterior_of_another_run_is_refused() {
    let (data, config) = converged(1);
    let run = |start| FactorVb::new(&data, config.clone(), start, 0).unwrap();
    let (one, other) = (run(FactorInit::Pooled(1)), run(FactorInit::PerClass(2)));
    let error = one.bound_at(other.state()).unwrap_err().to_string();
    assert!(error.contains("clusters or missing patterns"), "{error}");
}
