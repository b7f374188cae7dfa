//! The bound never falls, and updates are at its top.

use npb_bpfa::npb_infer::testing::{BoundMonitor, largest_z};
use npb_bpfa::npb_infer::{Xoshiro256PlusPlus, stream};
use npb_bpfa::npb_priors::GammaPrior;
use npb_bpfa::npb_priors::dist::{Beta, Gamma, Normal};
use npb_bpfa::{
    BpfaPosterior, BpfaRows, BpfaVb, BpfaVbConfig, BpfaVbUpdate, Factorisation, ScorePrior,
    SlabPrior, UsagePrior,
};
use rand::RngExt;

use crate::simulated::simulated;

const MILD: GammaPrior = GammaPrior {
    shape: 2.0,
    rate: 0.5,
};

fn configs() -> Vec<BpfaVbConfig> {
    let mut all = Vec::new();
    for scores in [ScorePrior::Dense, ScorePrior::SpikeSlab] {
        for factorisation in [Factorisation::Factorised, Factorisation::Joint] {
            for slab in [
                SlabPrior::Shared { prior: MILD },
                SlabPrior::PerAtom {
                    shape: 1.5,
                    rate: MILD,
                },
            ] {
                all.push(BpfaVbConfig {
                    scores,
                    factorisation,
                    slab,
                    noise: MILD,
                    channel_noise: true,
                    usage: UsagePrior::Process { a: 1.0, b: 2.0 },
                    ..BpfaVbConfig::default()
                });
            }
        }
    }
    all
}

#[test]
fn the_bound_never_falls() {
    for (n, config) in configs().into_iter().enumerate() {
        for (case, missing) in [0.0, 0.4, 0.8].into_iter().enumerate() {
            let seed = (3 * n + case) as u64;
            let data = simulated(15 + case, 4 + case, 3, 0.5, missing, seed);
            let channels = (0..data.p as u32).map(|p| p % 2).collect();
            let rows = data.rows().with_channels(channels).unwrap();
            let config = BpfaVbConfig {
                atoms: 1 + (n + case) % 5,
                seed,
                ..config.clone()
            };
            let mut run = BpfaVb::new(&rows, config.clone()).unwrap();
            let mut monitor = BoundMonitor::new();
            for round in 0..12 {
                // In another order each time.
                for at in 0..6 {
                    let update = BpfaVbUpdate::ALL[(at * (1 + 4 * (round % 2)) + round) % 6];
                    run.apply(update).unwrap();
                    let terms = run.bound_terms();
                    let checked = monitor.check(&format!("{update:?}"), &terms);
                    checked.unwrap_or_else(|fell| panic!("{config:?}, missing {missing}: {fell}"));
                }
            }
        }
    }
}

/// With one atom, one column and almost no data: d and s may change signs together, and the variational posterior finds one of the two modes, which has half
/// of the evidence. Of that half, by quadrature, the bound lacks little.
#[test]
fn the_bound_is_below_the_evidence() {
    let y = [0.7_f32, -1.1];
    let rows = BpfaRows::complete(2, 1, y.to_vec()).unwrap();
    // Precisions known: tight priors about 2 and 1.
    let tight = |mean: f64| GammaPrior {
        shape: 1e6 * mean,
        rate: 1e6,
    };
    let config = BpfaVbConfig {
        atoms: 1,
        scores: ScorePrior::Dense,
        factorisation: Factorisation::Joint,
        slab: SlabPrior::Shared { prior: tight(1.0) },
        noise: tight(2.0),
        ..BpfaVbConfig::default()
    };
    let mut run = BpfaVb::new(&rows, config).unwrap();
    let mut bound = 0.0;
    (0..200).for_each(|_| bound = run.step().unwrap());
    // ln of the integral over d ~ N(0, 1) of the product of N(y; 0, d^2 + 1/2).
    let mut evidence = 0.0;
    for step in -4000..4000 {
        let d = f64::from(step) * 2e-3;
        let variance = d * d + 0.5;
        let ln: f64 = y
            .iter()
            .map(|&y| {
                -0.5 * (std::f64::consts::TAU * variance).ln()
                    - 0.5 * f64::from(y).powi(2) / variance
            })
            .sum();
        evidence += 2e-3 * (ln - 0.5 * d * d).exp() / std::f64::consts::TAU.sqrt();
    }
    let half = (0.5 * evidence).ln();
    assert!(
        bound < evidence.ln() && (bound - half).abs() < 0.4,
        "{bound}, half of the evidence {half}"
    );
}

/// `ln p(everything) - ln q(unknowns)` at a draw from q, from the definition of the model and of the factors alone.
fn ln_ratio(
    config: &BpfaVbConfig,
    rows: &BpfaRows,
    q: &BpfaPosterior,
    rng: &mut Xoshiro256PlusPlus,
) -> f64 {
    let (n, p, k) = (rows.n_rows(), rows.n_columns(), q.n_atoms());
    let mut total = 0.0;
    let gamma = |(shape, rate): (f64, f64)| Gamma::new(shape, rate).unwrap();
    let normal = |mean: f64, variance: f64| Normal::new(mean, variance).unwrap();
    let rate = match config.slab {
        SlabPrior::Shared { .. } => 1.0,
        SlabPrior::PerAtom { rate, .. } => {
            let tau = gamma(q.slab_rate).sample(rng);
            total += gamma((rate.shape, rate.rate)).ln_density(tau);
            total -= gamma(q.slab_rate).ln_density(tau);
            tau
        }
    };
    let slab_prior = match config.slab {
        SlabPrior::Shared { prior } => (prior.shape, prior.rate),
        SlabPrior::PerAtom { shape, .. } => (shape, rate),
    };
    let mut precisions = |factors: &[(f64, f64)], prior: (f64, f64), total: &mut f64| {
        let draw = |&own: &(f64, f64)| {
            let g = gamma(own).sample(rng);
            *total += gamma(prior).ln_density(g) - gamma(own).ln_density(g);
            g
        };
        factors.iter().map(draw).collect::<Vec<f64>>()
    };
    let slab = precisions(&q.slab, slab_prior, &mut total);
    let noise = precisions(
        &q.noise,
        (config.noise.shape, config.noise.rate),
        &mut total,
    );
    let mut loadings = Vec::new();
    for (&m, &v) in q.dictionary_mean.iter().zip(&q.dictionary_variance) {
        let d = normal(m, v).sample(rng);
        total += normal(0.0, 1.0 / p as f64).ln_density(d) - normal(m, v).ln_density(d);
        loadings.push(d);
    }
    let UsagePrior::Process { a, b } = config.usage else {
        panic!("weights of a process");
    };
    let prior = Beta::new(a / k as f64, b * (k - 1) as f64 / k as f64).unwrap();
    let mut weights = Vec::new();
    for &(a, b) in &q.weights {
        let own = Beta::new(a, b).unwrap();
        let weight = own.sample(rng).clamp(1e-300, 1.0 - 1e-16);
        total += prior.ln_density(weight) - own.ln_density(weight);
        weights.push(weight);
    }
    let switches = config.scores == ScorePrior::SpikeSlab;
    let together = config.factorisation == Factorisation::Joint;
    let full = together && !switches;
    for i in 0..n {
        let z: Vec<f64> = (0..k).map(|_| normal(0.0, 1.0).sample(rng)).collect();
        let mut scores = vec![0.0; k];
        for atom in 0..k {
            let at = i * k + atom;
            let on = !switches || rng.random::<f64>() < q.on[at];
            if switches {
                let ln = |p: f64| if on { p.ln() } else { (-p).ln_1p() };
                total += ln(weights[atom]) - ln(q.on[at]);
            }
            // Mean and variance given the scores before it.
            let (mut mean, mut variance) = (q.score_mean[at], 0.0);
            if full {
                assert_eq!(k, 2, "written out for two");
                let own = &q.score_variance[i * 4..i * 4 + 4];
                variance = own[3 * atom];
                if atom == 1 {
                    mean += own[1] / own[0] * (scores[0] - q.score_mean[at - 1]);
                    variance -= own[1] * own[1] / own[0];
                }
            } else {
                variance += q.score_variance[at];
            }
            let score = mean + variance.sqrt() * z[atom];
            if on || !together {
                let g = slab[if slab.len() == 1 { 0 } else { atom }];
                total += normal(0.0, 1.0 / g).ln_density(score);
                total -= normal(mean, variance).ln_density(score);
            }
            scores[atom] = if full || on { score } else { 0.0 };
        }
        for (e, &y) in rows.values(i).iter().enumerate() {
            let j = rows.columns(i).map_or(e, |own| own[e] as usize);
            let fitted: f64 = (0..k).map(|at| loadings[j * k + at] * scores[at]).sum();
            let g = noise[rows.channels()[j] as usize];
            total += normal(fitted, 1.0 / g).ln_density(f64::from(y));
        }
    }
    total
}

/// The bound by which runs and numbers of atoms are compared is the mean of `ln p - ln q`, constants and all: half a nat for each loading that is forgotten
/// falls nowhere and rests at the same place.
#[test]
fn the_bound_is_the_mean_of_its_definition() {
    const DRAWS: u64 = 4000;
    for (case, config) in configs().into_iter().enumerate() {
        let data = simulated(6, 3, 2, 0.5, [0.0, 0.3][case % 2], case as u64);
        let rows = data.rows().with_channels(vec![0, 1, 0]).unwrap();
        let config = BpfaVbConfig {
            atoms: 2,
            seed: case as u64,
            ..config
        };
        let mut run = BpfaVb::new(&rows, config.clone()).unwrap();
        let bound = (0..4).map(|_| run.step().unwrap()).last().unwrap();
        let differences: Vec<Vec<f64>> = (0..DRAWS)
            .map(|draw| {
                let rng = &mut stream(case as u64, [draw, 0, 0, 0]);
                vec![ln_ratio(&config, &rows, run.state(), rng) - bound]
            })
            .collect();
        let z = largest_z(&differences, &[0.0]);
        assert!(z < 4.5, "{config:?}: {z} standard errors");
    }
}
