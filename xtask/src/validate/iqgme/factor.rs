//! The factor-analytic variant: its prior and simulator, written here apart from the crate.

use npb_infer::Xoshiro256PlusPlus;
use npb_infer::stream;
use npb_infer::testing::JointModel;
use npb_iqgme::npb_data::{Labels, Mask, Table};
use npb_iqgme::{FactorConfig, FactorData, FactorDraw, FactorSampler, IqgmeError, RowEffects};
use npb_linalg::faer::Mat;
use npb_priors::GammaPrior;
use npb_priors::dist::{Gamma, NormalGamma};
use rand::{Rng, RngExt};

use super::{MASK, exponential, normal};

/// Features of a row.
pub(super) const P: usize = 4;
const CLUSTERS: usize = 3;
const FACTORS: usize = 2;

/// What is fixed: observed cells and labels, hyperparameters. Rows say nothing of their labels but by their factors: what steps are at depends on the data.
pub(super) struct FactorModel {
    config: FactorConfig,
    /// Row, feature.
    seen: Vec<bool>,
    labelled: Vec<bool>,
}

/// A simulated table.
pub(super) struct Data {
    x: Vec<f64>,
    positive: Vec<bool>,
}

/// A draw, and the missing cells that go with it; none for a draw from the prior, whose cells are those of the data.
pub(super) struct State {
    draw: FactorDraw,
    cells: Option<[f64; 2]>,
}

impl FactorModel {
    pub(super) fn new(n_rows: usize) -> Self {
        let rng = &mut stream(0, [1, 0, 0, MASK]);
        let vague = GammaPrior {
            shape: 3.0,
            rate: 3.0,
        };
        Self {
            config: FactorConfig {
                truncation: CLUSTERS,
                max_factors: FACTORS,
                concentration: vague,
                loading: vague,
                mean: vague,
                noise: vague,
                cluster_noise: 4.0,
                expert: vague,
                row_effects: RowEffects {
                    spread: 0.0,
                    steps: 0,
                    ..RowEffects::default()
                },
                ..FactorConfig::default()
            },
            // Row 0 lacks its first feature and has a label, row 1 its second and has none.
            seen: (0..n_rows * P)
                .map(|cell| {
                    cell != 0 && cell != P + 1 && (cell < 2 * P || rng.random::<f64>() < 0.7)
                })
                .collect(),
            labelled: (0..n_rows)
                .map(|row| row == 0 || (row > 1 && rng.random::<f64>() < 0.8))
                .collect(),
        }
    }

    fn n_rows(&self) -> usize {
        self.labelled.len()
    }

    fn data(&self, data: &Data) -> Result<FactorData, IqgmeError> {
        let mask = Mask::from_fn(self.n_rows(), P, |i, p| self.seen[i * P + p])?;
        let table = Table::from_parts(data.x.clone(), mask)?;
        let codes = data.positive.iter().zip(&self.labelled);
        let codes = codes.map(|(positive, labelled)| labelled.then_some(usize::from(*positive)));
        let classes = ["negative", "positive"];
        let labels = Labels::from_codes(classes.map(str::to_owned).to_vec(), codes.collect())?;
        FactorData::in_given_units(&table, &labels, &classes, &self.config)
    }

    fn swept(&self, state: &State, data: &Data, seed: u64) -> Result<State, IqgmeError> {
        let config = FactorConfig {
            seed,
            ..self.config.clone()
        };
        let prepared = self.data(data)?;
        // The first move of a sweep draws scores whatever they were, but they must be on the side of the label.
        let mut draw = state.draw.clone();
        for (t, positive) in draw.scores.iter_mut().zip(&data.positive) {
            *t = if *positive { t.abs() } else { -t.abs() };
        }
        let mut sampler = FactorSampler::resume(&prepared, config, draw, 0, 0)?;
        sampler.sweep()?;
        let draw = sampler.draw().clone();
        let rng = &mut stream(seed, [1, 0, 0, 0]);
        let cells = [(0, 0), (1, 1)].map(|(i, p)| value(&draw, i, p, rng));
        Ok(State {
            draw,
            cells: Some(cells),
        })
    }

    /// `P(y = positive)` of a new row with a hole, by the crate, at a draw.
    fn predicted(&self, draw: &FactorDraw, data: &Data) -> Result<f64, IqgmeError> {
        let new = Table::new(1, P, vec![0.6, -0.3, 0.0, 0.9], &[true, true, false, true])?;
        let prepared = self.data(data)?;
        let sampler = FactorSampler::resume(&prepared, self.config.clone(), draw.clone(), 0, 0)?;
        Ok(sampler.predict_proba(&new)?[0])
    }
}

/// A feature of a row given its cluster and factors.
fn value(draw: &FactorDraw, i: usize, p: usize, rng: &mut Xoshiro256PlusPlus) -> f64 {
    let h = draw.labels[i];
    let used = (0..FACTORS).filter(|&l| draw.switches[h][l]);
    let common: f64 = used
        .map(|l| draw.coefficients[(p, l)] * draw.factors[(l, i)])
        .sum();
    let precision = draw.noise[p] * draw.cluster_noise[h];
    common + draw.coefficients[(p, FACTORS + h)] + normal(rng) / precision.sqrt()
}

fn gamma(prior: GammaPrior, rng: &mut Xoshiro256PlusPlus) -> f64 {
    Gamma::new(prior.shape, prior.rate).map_or(f64::NAN, |law| law.sample(rng))
}

impl JointModel for FactorModel {
    type State = State;
    type Data = Data;

    fn names(&self) -> Vec<String> {
        [
            "concentration",
            "weight of a row's cluster",
            "missing cell of a labelled row",
            "another missing cell",
            "predicted probability",
            "switches that are on",
            "noise precision",
            "precision of a row's cluster",
            "precision of a column's loadings",
            "slope of a row's expert, squared",
            "intercept of a row's expert",
            "common intercept",
            "score",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> State {
        let config = &self.config;
        let concentration = gamma(config.concentration, rng);
        let (mut ln_weights, mut ln_rest) = (Vec::new(), 0.0);
        for _ in 1..CLUSTERS {
            let ln_not: f64 = -exponential(rng) / concentration;
            ln_weights.push(ln_rest + (-ln_not.exp_m1()).ln());
            ln_rest += ln_not;
        }
        ln_weights.push(ln_rest);
        // Odds `a / (b (L - 1))`.
        let on = config.switch_on / (config.switch_on + config.switch_off * (FACTORS - 1) as f64);
        let switches = (0..CLUSTERS)
            .map(|_| (0..FACTORS).map(|_| rng.random::<f64>() < on).collect())
            .collect();
        let noise: Vec<f64> = (0..P).map(|_| gamma(config.noise, rng)).collect();
        let loading_precisions: Vec<f64> =
            (0..FACTORS).map(|_| gamma(config.loading, rng)).collect();
        let mean_precision = gamma(config.mean, rng);
        let coefficients = Mat::from_fn(P, FACTORS + CLUSTERS, |p, d| {
            let precision = loading_precisions.get(d).unwrap_or(&mean_precision);
            normal(rng) / (noise[p] * precision).sqrt()
        });
        let kappa = GammaPrior {
            shape: config.cluster_noise,
            rate: config.cluster_noise,
        };
        let cluster_noise = (0..CLUSTERS).map(|_| gamma(kappa, rng)).collect();
        let shared = NormalGamma::new(
            0.0,
            config.expert_mean_strength,
            config.expert.shape,
            config.expert.rate,
        );
        let expert_prior: Vec<(f64, f64)> = (0..=FACTORS)
            .map(|_| {
                shared
                    .as_ref()
                    .map_or((f64::NAN, 1.0), |law| law.sample(rng))
            })
            .collect();
        let experts = (0..CLUSTERS)
            .map(|_| {
                let each = expert_prior.iter();
                each.map(|(zeta, lambda)| zeta + normal(rng) / lambda.sqrt())
                    .collect()
            })
            .collect();
        let n = self.n_rows();
        let labels = (0..n)
            .map(|_| {
                let mut u: f64 = rng.random();
                let passed = |ln: &&f64| {
                    u -= ln.exp();
                    u >= 0.0
                };
                ln_weights[..CLUSTERS - 1].iter().take_while(passed).count()
            })
            .collect();
        let factors = Mat::from_fn(FACTORS, n, |_, _| normal(rng));
        let mut draw = FactorDraw {
            concentration,
            ln_weights,
            ln_rest,
            switches,
            coefficients,
            noise,
            cluster_noise,
            loading_precisions,
            mean_precision,
            experts,
            expert_prior,
            linear: None,
            row_effects: vec![Vec::new()],
            effect_precisions: vec![Vec::new()],
            labels,
            factors,
            scores: Vec::new(),
        };
        draw.scores = (0..n)
            .map(|i| {
                let h = draw.labels[i];
                let used = (0..FACTORS).filter(|&l| draw.switches[h][l]);
                let of_factors: f64 = used
                    .map(|l| draw.experts[h][l] * draw.factors[(l, i)])
                    .sum();
                of_factors + draw.experts[h][FACTORS] + normal(rng)
            })
            .collect();
        State { draw, cells: None }
    }

    fn simulate(&self, state: &State, rng: &mut Xoshiro256PlusPlus) -> Data {
        let draw = &state.draw;
        Data {
            x: (0..self.n_rows() * P)
                .map(|cell| value(draw, cell / P, cell % P, rng))
                .collect(),
            positive: draw.scores.iter().map(|t| *t > 0.0).collect(),
        }
    }

    fn sweep(&self, state: &mut State, data: &Data, rng: &mut Xoshiro256PlusPlus) {
        match self.swept(state, data, rng.next_u64()) {
            Ok(next) => *state = next,
            // Not a number is an alarm.
            Err(_) => state.draw.concentration = f64::NAN,
        }
    }

    fn summary(&self, state: &State, data: &Data) -> Vec<f64> {
        let draw = &state.draw;
        let h = draw.labels[0];
        let cells = state.cells.unwrap_or([data.x[0], data.x[P + 1]]);
        let expert = &draw.experts[h];
        let on = draw.switches.iter().flatten().filter(|on| **on).count();
        vec![
            draw.concentration,
            draw.ln_weights[h],
            cells[0],
            cells[1],
            self.predicted(draw, data).unwrap_or(f64::NAN),
            on as f64,
            draw.noise[0],
            draw.cluster_noise[h],
            draw.loading_precisions[0],
            expert[0] * expert[0],
            expert[FACTORS],
            draw.expert_prior[FACTORS].0,
            draw.scores[0],
        ]
    }
}
