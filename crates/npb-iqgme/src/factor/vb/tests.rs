//! Every update is at its optimum.

use npb_infer::testing::check_stationary;
use npb_priors::dist::{Gamma, NormalGamma};

#[path = "../../../tests/it/factor/data.rs"]
pub(crate) mod simulated;

use self::simulated::{Simulation, config};
use super::super::forms::{Features, Forms};
use super::super::state::Derived;
use super::{FactorVb, FactorVbUpdate};
use crate::{FactorConfig, FactorData, FactorInit, FactorState};

impl FactorVb<'_> {
    /// The bound of another posterior of the parameters with this run's rows.
    fn bound_at(&self, state: &FactorState) -> f64 {
        let forms = Forms::new(&Features::expected(state), &self.data.cells);
        let mut state = state.clone();
        state.features.derived = Derived::new(&state.features.covariance).unwrap();
        self.bound_with(&state, &forms).unwrap().total()
    }
}

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
        vb.bound_at(&moved)
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

/// The bound is highest at the experts of every utility, and no more when rows have moved since.
#[test]
fn bound_is_stationary_in_every_utility() {
    // Two clusters, whose first two factors tell three classes.
    let simulation = Simulation {
        n: 60,
        p: 30,
        used: vec![vec![0, 1, 2], vec![3, 4]],
        apart: 1.5,
        noise: 1.0,
        missing: 0.2,
        unlabelled: 0.1,
        classes: 3,
    };
    let (table, labels, _) = simulation.draw(5);
    let config = config(5);
    let data = FactorData::new(&table, &labels, &config).unwrap();
    let mut vb = FactorVb::new(&data, config, FactorInit::Pooled(2), 0).unwrap();
    for _ in 0..3 {
        vb.step().unwrap();
    }
    let derivative = |vb: &FactorVb<'_>,
                      read: &dyn Fn(&FactorState) -> Vec<f64>,
                      set: &dyn Fn(&mut FactorState, &[f64])| {
        let bound = |x: &[f64]| {
            let mut state = vb.state().clone();
            set(&mut state, x);
            vb.bound_at(&state)
        };
        check_stationary(&read(vb.state()), 1e-5, bound)
    };
    for utility in 0..2 {
        // Of the first cluster: its intercept, which it always uses.
        let intercept = |state: &FactorState| vec![*state.experts[utility].mean.last().unwrap()];
        let set_intercept = |state: &mut FactorState, x: &[f64]| {
            *state.experts[utility].mean.last_mut().unwrap() = x[0];
        };
        vb.apply(FactorVbUpdate::Rows).unwrap();
        vb.apply(FactorVbUpdate::Utilities).unwrap();
        vb.apply(FactorVbUpdate::Experts).unwrap();
        derivative(&vb, &intercept, &set_intercept).unwrap();
        vb.apply(FactorVbUpdate::Utilities).unwrap();
        assert!(derivative(&vb, &intercept, &set_intercept).is_err());
    }
}
