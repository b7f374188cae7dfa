//! Checks of npb-bpfa: its Gibbs sampler, and tables drawn from sparse factors, with holes; images.

mod images;

use npb_bpfa::npb_data::Table;
use npb_bpfa::{
    BpfaConfig, BpfaRows, BpfaSampler, BpfaState, Centring, Dictionary, Scores, SlabPrior,
    SpikePrior, UsagePrior, fit,
};
use npb_infer::testing::JointModel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::dist::{Beta, Gamma};
use npb_priors::{GammaPrior, beta_bernoulli::WeightPrior};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use npb_kit::Result;
use npb_kit::validate::coverage::{LEVELS, Quantity, Share, findings};
use npb_kit::validate::{Check, Findings, Plan, calibration};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("bpfa/coverage", coverage),
    ("bpfa/calibration", calibrate),
    ("bpfa/pixels", images::pixels),
    ("bpfa/bands", images::bands),
];

/// Rows, columns, factors and the probability that a row uses one of them.
const SIZE: (usize, usize) = (150, 12);
const FACTORS: usize = 4;
const USED: f64 = 0.4;
const MISSING: f64 = 0.2;
const NOISE: f64 = 0.3;

fn coverage(plan: &Plan) -> Result<Findings> {
    let (tables, sweeps) = plan.scale.pick((2, 20), (20, 300), (1_000, 600));
    let shares = (0..tables).map(|table| share_inside(plan.seed, table, sweeps));
    let shares = shares.collect::<Result<Vec<Option<[f64; 2]>>>>()?;
    let by_table: Vec<[f64; 2]> = shares.into_iter().flatten().collect();
    let quantities = Quantity::of_levels("missing cells", &by_table);
    let notes = "150 rows, 12 columns, four factors that a row uses with probability .4, a fifth of the cells hidden: how often intervals of mean and standard deviation hold them without noise.";
    Ok(findings(plan, "npb:bpfa", &quantities, notes))
}

/// One table: the noise-free values of its missing cells against intervals of mean and standard deviation.
fn share_inside(seed: u64, table: u64, sweeps: u64) -> Result<Option<[f64; 2]>> {
    let rng = &mut stream(seed, [table, 0, 0, 0]);
    let (n, p) = SIZE;
    let mut normal = || -> f64 { rng.sample(StandardNormal) };
    let loadings: Vec<f64> = (0..FACTORS * p).map(|_| normal()).collect();
    let scores: Vec<f64> = (0..n * FACTORS).map(|_| normal()).collect();
    let noise: Vec<f64> = (0..n * p).map(|_| NOISE * normal()).collect();
    let scores: Vec<f64> = scores
        .iter()
        .map(|s| if rng.random::<f64>() < USED { *s } else { 0.0 })
        .collect();
    let truth = |i: usize, j: usize| -> f64 {
        let product = |k: usize| scores[i * FACTORS + k] * loadings[k * p + j];
        (0..FACTORS).map(product).sum()
    };
    let cells: Vec<f64> = (0..n * p)
        .map(|at| match rng.random::<f64>() < MISSING {
            true => f64::NAN,
            false => truth(at / p, at % p) + noise[at],
        })
        .collect();
    let config = BpfaConfig {
        atoms: 12,
        centring: Centring::Overall,
        sweeps: npb_kit::sweeps(sweeps, sweeps),
        stored_draws: 1,
        seed: seed.wrapping_add(table),
        ..BpfaConfig::default()
    };
    let found = fit(&Table::from_nan_coded(n, p, &cells)?, &config)?;
    let z = LEVELS.map(|level| -npb_priors::special::normal_quantile(0.5 * (1.0 - level)));
    let mut share = Share::default();
    let places = found.cells.rows.iter().zip(&found.cells.columns);
    for ((&i, &j), prediction) in places.zip(found.followed()) {
        if let Some(found) = prediction {
            let off = (found.mean - truth(i as usize, j as usize)).abs();
            share.add(z.map(|z| off <= z * found.sd));
        }
    }
    Ok(share.of_table())
}

const N: usize = 12;
const P: usize = 4;
const K: usize = 3;
/// Never observed.
const HIDDEN: (usize, usize) = (1, 2);
const MILD: GammaPrior = GammaPrior {
    shape: 4.0,
    rate: 2.0,
};
/// Of the Beta priors of weights and of shares of sites with spikes.
const USAGE: (f64, f64) = (2.0, 1.5);
const SPIKES: SpikePrior = SpikePrior {
    a: 1.0,
    b: 4.0,
    precision: GammaPrior {
        shape: 4.0,
        rate: 16.0,
    },
};

/// The sampler with a slab precision for each atom, and spikes.
struct Model {
    config: BpfaConfig,
}

impl Model {
    fn new() -> Self {
        let (a, b) = USAGE;
        Self {
            config: BpfaConfig {
                atoms: K,
                usage: UsagePrior::Process { a, b },
                slab: SlabPrior::PerAtom {
                    shape: MILD.shape,
                    rate: MILD,
                },
                noise: MILD,
                spikes: Some(SPIKES),
                collapsed_atoms: K,
                ..BpfaConfig::default()
            },
        }
    }

    fn rows(&self, value: impl FnMut((usize, usize)) -> f64) -> Result<BpfaRows> {
        let seen = |&(i, j): &(usize, usize)| (i, j) != HIDDEN && (3 * i + 5 * j) % 4 != 1;
        let cells: Vec<(usize, usize)> =
            (0..N * P).map(|at| (at / P, at % P)).filter(seen).collect();
        let starts: Vec<usize> = (0..=N)
            .map(|row| cells.partition_point(|cell| cell.0 < row))
            .collect();
        let columns = cells.iter().map(|cell| cell.1 as u32).collect();
        let values = cells.into_iter().map(value).map(|v| v as f32).collect();
        Ok(BpfaRows::new(P, &starts, columns, values)?)
    }

    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> Result<BpfaState> {
        let rows = self.rows(|_| 0.0)?;
        let mut state = BpfaSampler::new(&rows, self.config.clone())?.into_state();
        let normal = |rng: &mut Xoshiro256PlusPlus| rng.sample::<f64, _>(StandardNormal);
        let gamma = |prior: GammaPrior, rng: &mut Xoshiro256PlusPlus| {
            Gamma::new(prior.shape, prior.rate).map(|law| law.sample(rng))
        };
        let atoms: Vec<f32> = (0..K * P)
            .map(|_| (normal(rng) / (P as f64).sqrt()) as f32)
            .collect();
        let shared = &mut state.shared;
        shared.dictionary = Dictionary::from_atoms(P, &atoms)?;
        shared.noise_precisions[0] = gamma(MILD, rng)?;
        shared.slab_rate = gamma(MILD, rng)?;
        let slab = GammaPrior {
            shape: MILD.shape,
            rate: shared.slab_rate,
        };
        let weight = WeightPrior::sparse(USAGE.0, USAGE.1, K)?;
        let weight = Beta::new(weight.a(), weight.b())?;
        for k in 0..K {
            shared.slab_precisions[k] = gamma(slab, rng)?;
            shared.ln_odds[k] = weight.sample_ln_odds(rng);
        }
        let score = |at: usize| {
            let (odds, sd) = (shared.ln_odds[at % K].exp(), shared.slab_precision(at % K));
            let u: f64 = rng.random();
            let on = u * (1.0 + odds) < odds;
            if on {
                (normal(rng) / sd.sqrt()) as f32
            } else {
                0.0
            }
        };
        state.scores = Scores::sparse(K, &(0..N * K).map(score).collect::<Vec<f32>>())?;
        state.spikes.precision = gamma(SPIKES.precision, rng)?;
        state.spikes.rates[0] = Beta::new(SPIKES.a, SPIKES.b)?.sample(rng);
        let rate = state.spikes.rates[0];
        let sites = (0..rows.n_entries() as u32).filter(|_| rng.random::<f64>() < rate);
        state.spikes.sites = sites.collect();
        Ok(state)
    }

    fn swept(&self, state: &BpfaState, rows: &BpfaRows, seed: u64) -> Result<BpfaState> {
        let config = BpfaConfig {
            seed,
            ..self.config.clone()
        };
        let mut sampler = BpfaSampler::resume(rows, config, 0, state.clone(), 0)?;
        sampler.sweep()?;
        Ok(sampler.into_state())
    }
}

fn fitted(state: &BpfaState, i: usize, j: usize) -> f64 {
    let loadings = state.shared.dictionary.column(j);
    let scores = state.scores.row(i);
    scores
        .iter()
        .map(|(k, s)| f64::from(loadings[k]) * f64::from(s))
        .sum()
}

impl JointModel for Model {
    type State = BpfaState;
    type Data = BpfaRows;

    fn names(&self) -> Vec<String> {
        let names = [
            "noise precision",
            "rate of slab precisions",
            "sum of slab precisions",
            "sum of ln odds",
            "scores in use",
            "squared loadings",
            "squared scores",
            "unobserved cell",
            "share of spikes",
            "precision of spikes",
            "spikes",
        ];
        names.map(str::to_owned).to_vec()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> BpfaState {
        self.draw(rng).expect("priors in range")
    }

    fn simulate(&self, state: &BpfaState, rng: &mut Xoshiro256PlusPlus) -> BpfaRows {
        let mut normal =
            |precision: f64| -> f64 { rng.sample::<f64, _>(StandardNormal) / precision.sqrt() };
        let mut entry = 0;
        let value = |(i, j): (usize, usize)| {
            let spike = state.spikes.sites.binary_search(&entry).is_ok();
            entry += 1;
            let noise = normal(state.shared.noise_precision(0));
            let off = if spike {
                normal(state.spikes.precision)
            } else {
                0.0
            };
            fitted(state, i, j) + noise + off
        };
        self.rows(value).expect("finite values")
    }

    fn sweep(&self, state: &mut BpfaState, rows: &BpfaRows, rng: &mut Xoshiro256PlusPlus) {
        match self.swept(state, rows, rng.next_u64()) {
            Ok(next) => *state = next,
            // Not a number is an alarm.
            Err(_) => state.shared.slab_rate = f64::NAN,
        }
    }

    fn summary(&self, state: &BpfaState, _: &BpfaRows) -> Vec<f64> {
        let shared = &state.shared;
        let scores = (0..N).flat_map(|i| state.scores.row(i).values);
        vec![
            shared.noise_precisions[0],
            shared.slab_rate,
            shared.slab_precisions.iter().sum(),
            shared.ln_odds.iter().sum(),
            state.scores.n_active() as f64,
            shared.dictionary.squares().iter().sum(),
            scores.map(|&s| f64::from(s).powi(2)).sum(),
            fitted(state, HIDDEN.0, HIDDEN.1),
            state.spikes.rates[0],
            state.spikes.precision,
            state.spikes.sites.len() as f64,
        ]
    }
}

fn calibrate(plan: &Plan) -> Result<Findings> {
    let test = calibration::design(
        plan,
        [(20, 9, 100, 10), (1_000, 99, 200, 10), (2_000, 99, 500, 20)],
    );
    let setting = format!("rows={N};columns={P};atoms={K}");
    calibration::calibrate(&Model::new(), &test, &setting, "npb:bpfa")
}

#[cfg(test)]
mod tests {
    #[test]
    fn smoke_checks_run_and_write_numbers() {
        npb_kit::testing::smoke(super::CHECKS);
    }
}
