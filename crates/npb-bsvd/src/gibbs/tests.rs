//! Joint-distribution tests: of every move alone and of whole sweeps, and of copies with a fault that must fail.

use std::cell::RefCell;

use npb_data::{Rating, Ratings};
use npb_infer::testing::{JointModel, JointReport, JointTest, StepTest};
use npb_infer::{SweepPlan, Xoshiro256PlusPlus};
use npb_priors::GammaPrior;
use npb_priors::beta_bernoulli::Slab;
use npb_priors::dist::{Bernoulli, Gamma, TruncatedNormal};
use rand::RngExt;
use rand_distr::StandardNormal;

use super::*;
use crate::config::{BsvdUnits, FactorUpdate, Scheduled};
use crate::features::SideInformation;
use crate::likelihood::Likelihood;
use crate::state::Tuning;
use crate::{latent_scale, links};
use npb_data::Features;

const ROWS_N: usize = 6;
const COLUMNS_N: usize = 5;

/// What is wrong with the sampler.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Scales are drawn before the switches, these by odds that have them integrated out.
    ScaleFirst,
    /// The residual is not brought up to date after a component has changed.
    StaleResidual,
    /// Gamma shape of the noise precision half too large.
    HalfShape,
    /// Gamma rate taken for a scale.
    RateAsScale,
    /// The prior of the offset is left out.
    NoOffsetPrior,
    /// The prior odds of the switches are left out.
    NoPriorOdds,
    /// Cells that are not observed count as zeros.
    MaskIgnored,
    /// Every entry counts as one trial.
    TrialsIgnored,
    /// All entries have the same noise, but the sampler has weights.
    AlikeNoise,
    /// Noise weights have another prior.
    OtherNoiseShapes,
    /// Spreads of factors have another prior.
    OtherFactorPrecisions,
    /// Gamma shape of the precision of links half too large.
    OtherLinks,
    /// Gamma shape of the precision of common means half too large.
    OtherCommonMeans,
    /// Thresholds of the sampler are not those of the entries.
    LevelsShifted,
    /// The unit of latent values is drawn without the Jacobian of offset and free thresholds.
    UnitWithoutJacobian,
    /// What noise weights have in common is drawn without the Jacobian of the weights.
    TradeWithoutJacobian,
}

struct Model {
    config: BsvdConfig,
    side: SideInformation,
    cells: Vec<(u32, u32)>,
    fault: Fault,
    /// How often all moves are made in one step.
    sweeps: usize,
}

const MILD: GammaPrior = GammaPrior {
    shape: 4.0,
    rate: 2.0,
};

fn model(moves: &[BsvdMove], fault: Fault) -> Model {
    model_of(Likelihood::Gaussian, moves, fault)
}

fn model_of(likelihood: Likelihood, moves: &[BsvdMove], fault: Fault) -> Model {
    let config = BsvdConfig {
        likelihood,
        threshold_precision: 1.0,
        units: BsvdUnits::Given {
            centre: 0.0,
            scale: 1.0,
        },
        candidates: 3,
        max_candidates: 3,
        noise: MILD,
        scale: MILD,
        intercept: MILD,
        coefficient: MILD,
        link: MILD,
        common: MILD,
        offset_precision: 1.0,
        // Numbers need a finite fourth moment for the test to be one; levels do not, and say less of noise.
        noise_shape_range: match likelihood {
            Likelihood::Gaussian => (8.0, 64.0),
            _ => (1.0, 4.0),
        },
        factor_precision_shape_range: (6.0, 24.0),
        moves: moves
            .iter()
            .map(|&step| Scheduled { step, every: 1 })
            .collect(),
        sweeps: SweepPlan {
            burn_in: 0,
            keep: 1,
            thin: 1,
        },
        ..BsvdConfig::default()
    };
    let cells = (0..ROWS_N as u32)
        .flat_map(|i| (0..COLUMNS_N as u32).map(move |j| (i, j)))
        // One row without any cell, one with all of them.
        .filter(|&(i, j)| i != 2 && (i == 0 || (2 * i + j) % 3 != 0));
    let numbers = |n: usize| -> Vec<f64> { (0..n).map(|k| (k as f64 * 1.7).sin()).collect() };
    Model {
        config,
        side: SideInformation {
            rows: Some(Features::dense(ROWS_N, 1, &numbers(ROWS_N)).unwrap()),
            columns: Some(Features::sparse(COLUMNS_N, 2, &[(0, 1, 1.0), (3, 0, -0.5)]).unwrap()),
        },
        cells: cells.collect(),
        fault,
        sweeps: 3,
    }
}

impl Model {
    /// Configuration of the sampler, with its fault.
    fn faulty(&self, seed: u64) -> BsvdConfig {
        let mut config = self.config.clone();
        config.seed = seed;
        match self.fault {
            Fault::HalfShape => config.noise.shape += 0.5,
            Fault::RateAsScale => config.noise.rate = config.noise.rate.recip(),
            Fault::NoOffsetPrior => config.offset_precision = 1e-9,
            Fault::NoPriorOdds => config.rank_a = 2.0,
            Fault::OtherLinks => config.link.shape += 0.5,
            Fault::OtherCommonMeans => config.common.shape += 0.5,
            Fault::OtherFactorPrecisions => config.factor_precision_shape_range = (1.0, 2.0),
            Fault::OtherNoiseShapes => config.noise_shape_range = (4.0, 16.0),
            _ => {}
        }
        config
    }

    fn ratings(&self, values: &[f64]) -> Ratings {
        let mut entries: Vec<Rating> = self
            .cells
            .iter()
            .zip(values)
            .map(|(&(row, column), &value)| Rating { row, column, value })
            .collect();
        if self.fault == Fault::MaskIgnored {
            for (row, column) in
                (0..ROWS_N as u32).flat_map(|i| (0..COLUMNS_N as u32).map(move |j| (i, j)))
            {
                if !self.cells.contains(&(row, column)) {
                    entries.push(Rating {
                        row,
                        column,
                        value: 0.0,
                    });
                }
            }
        }
        Ratings::new(ROWS_N, COLUMNS_N, &entries).unwrap()
    }

    /// Trials of cell `n`: 1 to 3, but once so many that their sum is not drawn one by one.
    fn trials(n: usize) -> u64 {
        if n == 4 { 120 } else { 1 + n as u64 % 3 }
    }

    fn data(&self, values: &[f64], config: &BsvdConfig) -> BsvdData {
        let side = self.side.clone();
        if config.likelihood != Likelihood::Binomial {
            return BsvdData::new(&self.ratings(values), side, config).unwrap();
        }
        let mut trials: Vec<f64> = (0..values.len()).map(|n| Self::trials(n) as f64).collect();
        let mut successes = values.to_vec();
        if self.fault == Fault::TrialsIgnored {
            for (hit, n) in successes.iter_mut().zip(&mut trials) {
                *hit = (2.0 * *hit / *n).floor().min(1.0);
                *n = 1.0;
            }
        }
        BsvdData::binomial(
            &self.ratings(&successes),
            &self.ratings(&trials),
            side,
            config,
        )
        .unwrap()
    }

    fn latents(&self, state: &BsvdState) -> Vec<f64> {
        self.cells
            .iter()
            .map(|&(i, j)| state.latent(i as usize, j as usize, &self.side))
            .collect()
    }
}

fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    rng.sample(StandardNormal)
}

fn gamma(prior: GammaPrior, rng: &mut Xoshiro256PlusPlus) -> f64 {
    Gamma::new(prior.shape, prior.rate).unwrap().sample(rng)
}

impl JointModel for Model {
    type State = BsvdState;
    type Data = Vec<f64>;

    fn names(&self) -> Vec<String> {
        [
            "rank",
            "noise",
            "scale precision",
            "scales",
            "offset",
            "row factors",
            "column factors",
            "row intercepts",
            "column intercepts",
            "row coefficients",
            "column coefficients",
            "row intercept precision",
            "column coefficient precision",
            "coefficient mean",
            "sum of factor means",
            "a cell",
            "y",
            "y squared",
            "y times x",
            "residuals",
            "an unseen row",
            "row links",
            "column link precision",
            "precision of row common means",
            "row factors times features",
            "row noise",
            "noise of an unseen row",
            "row spreads",
            "spread of an unseen row",
            "column spread shape",
            "column noise shape",
            "weighted residuals",
            "second threshold",
            "last threshold",
            "squares of thresholds",
            "row links and their precision",
            "column links and their precision",
            "row common means and their precision",
            "column common means and their precision",
            "row intercepts and their precision",
            "column intercepts and their precision",
            "row coefficients and their precision",
            "scales and their precision",
            "logarithms of scales",
            "row noise about its mean",
            "row spreads about their mean",
            "row factors by their spreads",
            "row spreads with factors",
            "row noise shape",
            "row spread shape",
            "squares of factor means",
            "factors alike",
            "offset and row intercepts",
            "offset and entries",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> BsvdState {
        let config = &self.config;
        let scale_precision = gamma(config.scale, rng);
        // Mean of the Beta law of the weights.
        let n = config.candidates as f64;
        let (a, b) = (config.rank_a / n, config.rank_b * (n - 1.0) / n);
        let mut scales = Vec::new();
        for _ in 0..config.candidates {
            if rng.random::<f64>() < a / (a + b) {
                scales.push(normal(rng).abs() / scale_precision.sqrt());
            }
        }
        let rank = scales.len();
        let shapes = config.noise_shapes();
        let spreads = config.factor_precision_shapes();
        let linked =
            |features: &'_ Option<Features>| features.clone().filter(|_| config.feature_links);
        let (of_rows, of_columns) = (linked(&self.side.rows), linked(&self.side.columns));
        let mut side = |n: usize,
                        q: usize,
                        own_features: Option<&Features>,
                        intercepts: bool,
                        noise: bool,
                        spread: bool| {
            let noise_shape = shapes[rng.random_range(0..shapes.len())];
            let own = GammaPrior {
                shape: noise_shape,
                rate: noise_shape,
            };
            let factor_shape = spreads[rng.random_range(0..spreads.len())];
            let of_factors = GammaPrior {
                shape: factor_shape,
                rate: factor_shape,
            };
            let factor_weights: Vec<f32> = (0..if spread { n } else { 0 })
                .map(|_| gamma(of_factors, rng) as f32)
                .collect();
            let intercept_precision = gamma(config.intercept, rng);
            let coefficient_precision: Vec<f64> =
                (0..q).map(|_| gamma(config.coefficient, rng)).collect();
            let common_precision = gamma(config.common, rng);
            let coefficient_mean: Vec<f64> = (0..q)
                .map(|_| {
                    if config.common_coefficients {
                        normal(rng) / common_precision.sqrt()
                    } else {
                        0.0
                    }
                })
                .collect();
            let factor_mean: Vec<f64> = (0..rank)
                .map(|_| {
                    if config.factor_means {
                        normal(rng)
                    } else {
                        0.0
                    }
                })
                .collect();
            let link_precision = gamma(config.link, rng);
            let q_own = own_features.map_or(0, Features::n_features);
            let links: Vec<f64> = (0..rank * q_own)
                .map(|_| normal(rng) / link_precision.sqrt())
                .collect();
            let mut factors = Vec::new();
            for i in 0..n {
                let mut known = vec![0.0; q_own];
                if let Some(features) = own_features {
                    features.write(i, &mut known);
                }
                let mut expected = factor_mean.clone();
                links::add_expected(&links, &known, &mut expected);
                let sd = factor_weights
                    .get(i)
                    .map_or(1.0, |&g| f64::from(g).sqrt().recip());
                factors.extend(expected.iter().map(|mean| (mean + sd * normal(rng)) as f32));
            }
            SideState {
                factors,
                links,
                link_precision,
                factor_mean,
                factor_weights,
                factor_shape,
                intercepts: (0..if intercepts { n } else { 0 })
                    .map(|_| (normal(rng) / intercept_precision.sqrt()) as f32)
                    .collect(),
                coefficients: (0..n * q)
                    .map(|c| {
                        (coefficient_mean[c % q]
                            + normal(rng) / coefficient_precision[c % q].sqrt())
                            as f32
                    })
                    .collect(),
                coefficient_mean,
                common_precision,
                intercept_precision,
                coefficient_precision,
                noise_weights: (0..if noise { n } else { 0 })
                    .map(|_| gamma(own, rng) as f32)
                    .collect(),
                noise_shape,
            }
        };
        let noise = config.own_noise();
        let rows = side(
            ROWS_N,
            2,
            of_rows.as_ref(),
            config.row_intercepts,
            noise.0,
            config.row_factor_precision,
        );
        let columns = side(
            COLUMNS_N,
            1,
            of_columns.as_ref(),
            config.column_intercepts,
            noise.1,
            config.column_factor_precision,
        );
        BsvdState {
            candidates: config.candidates,
            scales,
            scale_precision,
            noise_precision: if config.likelihood.is_probit() {
                1.0
            } else {
                gamma(config.noise, rng)
            },
            thresholds: self.thresholds(rng),
            threshold_step: 0.5,
            tuning: Tuning::default(),
            offset: normal(rng) / config.offset_precision.sqrt(),
            rows,
            columns,
        }
    }

    fn simulate(&self, state: &BsvdState, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        let sd = |n: usize| {
            let (i, j) = self.cells[n];
            if self.fault == Fault::AlikeNoise {
                return state.noise_precision.sqrt().recip();
            }
            state
                .cell_noise_precision(i as usize, j as usize)
                .sqrt()
                .recip()
        };
        let entry = |(n, x): (usize, f64)| match self.config.likelihood {
            Likelihood::Gaussian => x + sd(n) * normal(rng),
            Likelihood::Ordinal { .. } => {
                let latent = x + sd(n) * normal(rng);
                let shift = if self.fault == Fault::LevelsShifted {
                    0.3
                } else {
                    0.0
                };
                let passed = |&&t: &&f64| latent > t + if t > 0.0 { shift } else { 0.0 };
                1.0 + state.thresholds.iter().filter(passed).count() as f64
            }
            Likelihood::Binary => f64::from(u8::from(x + normal(rng) > 0.0)),
            Likelihood::Binomial => (0..Self::trials(n))
                .filter(|_| x + normal(rng) > 0.0)
                .count() as f64,
        };
        self.latents(state)
            .into_iter()
            .enumerate()
            .map(entry)
            .collect()
    }

    fn sweep(&self, state: &mut BsvdState, data: &Vec<f64>, rng: &mut Xoshiro256PlusPlus) {
        let config = self.faulty(rng.random());
        let data = self.data(data, &config);
        let mut sampler = BsvdSampler::resume(&data, config, state.clone(), 0).unwrap();
        match self.fault {
            Fault::ScaleFirst => {
                sampler.apply(BsvdMove::Latents).unwrap();
                sampler.switches(scale_first).unwrap();
            }
            Fault::StaleResidual => sampler.switches(stale).unwrap(),
            Fault::UnitWithoutJacobian => {
                // Twice the shape is taken off the power of t.
                let mut wrong = self.config.clone();
                wrong.scale.shape += 0.5 * self.config.likelihood.n_thresholds() as f64;
                for _ in 0..self.sweeps {
                    sampler.sweep().unwrap();
                    latent_scale::draw(&mut sampler.state, &wrong, rng);
                }
            }
            Fault::TradeWithoutJacobian => {
                // The shape of the prior is taken off the power of t.
                let mut wrong = self.config.noise;
                wrong.shape += ROWS_N as f64;
                for _ in 0..self.sweeps {
                    sampler.sweep().unwrap();
                    hyper::trade(&mut sampler.state, wrong, rng);
                }
            }
            _ => (0..self.sweeps).for_each(|_| sampler.sweep().unwrap()),
        }
        *state = sampler.into_state();
    }

    fn summary(&self, state: &BsvdState, data: &Vec<f64>) -> Vec<f64> {
        let squares = |values: &[f32]| values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
        let x = self.latents(state);
        let sum = |f: &dyn Fn(f64, f64) -> f64| data.iter().zip(&x).map(|(&y, &x)| f(y, x)).sum();
        let (rows, columns) = (&state.rows, &state.columns);
        let rank = state.rank();
        let linked = (0..ROWS_N * rows.links.len())
            .map(|at| {
                f64::from(rows.factors[at])
                    * ((at / rank) as f64 * 1.7).sin()
                    * rows.links[at % rank]
            })
            .sum();
        let residuals = data.iter().zip(&x).zip(&self.cells);
        let weighted = residuals
            .map(|((y, x), &(i, j))| {
                (y - x).powi(2) * state.cell_noise_precision(i as usize, j as usize)
            })
            .sum::<f64>();
        let long = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>();
        let about_mean = |weights: &[f32], shape: f64| {
            let of_one = |w: f64| w - w.ln() - 1.0;
            shape * weights.iter().map(|&w| of_one(f64::from(w))).sum::<f64>()
        };
        let q = rows.coefficient_mean.len();
        let coefficients = rows.coefficients.iter().enumerate().map(|(at, &c)| {
            let off = f64::from(c) - rows.coefficient_mean[at % q];
            rows.coefficient_precision[at % q] * off * off
        });
        // Squares of factors about what is expected of them, with a function of their precision.
        let features = self
            .side
            .rows
            .as_ref()
            .filter(|_| self.config.feature_links);
        let by_spreads = |f: &dyn Fn(f64) -> f64| {
            let of_row = |i: usize| {
                let mut known = vec![0.0; features.map_or(0, Features::n_features)];
                if let Some(features) = features {
                    features.write(i, &mut known);
                }
                let mut expected = rows.factor_mean.clone();
                links::add_expected(&rows.links, &known, &mut expected);
                let own = &rows.factors[i * rank..(i + 1) * rank];
                let apart = own.iter().zip(&expected);
                let squares: f64 = apart.map(|(&u, m)| (f64::from(u) - m).powi(2)).sum();
                f(rows.factor_weight(i)) * squares
            };
            (0..ROWS_N).map(of_row).sum::<f64>()
        };
        let pairs = rows.factors.iter().zip(&columns.factors);
        let alike = pairs.map(|(&u, &v)| f64::from(u * v)).sum();
        let intercept: f64 = rows.intercepts.iter().map(|&x| f64::from(x)).sum();
        vec![
            state.rank() as f64,
            state.noise_precision,
            state.scale_precision,
            state.scales.iter().sum(),
            state.offset,
            squares(&rows.factors),
            squares(&columns.factors),
            squares(&rows.intercepts),
            f64::from(columns.intercepts[0]),
            squares(&rows.coefficients),
            f64::from(columns.coefficients[1]),
            rows.intercept_precision,
            columns.coefficient_precision[0],
            rows.coefficient_mean[0],
            rows.factor_mean.iter().sum(),
            x[0],
            sum(&|y, _| y),
            sum(&|y, _| y * y),
            sum(&|y, x| y * x),
            sum(&|y, x| (y - x).powi(2)),
            state.latent(2, 1, &self.side),
            rows.links.iter().map(|b| b * b).sum(),
            columns.link_precision,
            rows.common_precision,
            linked,
            rows.noise_weights.iter().map(|&w| f64::from(w)).sum(),
            rows.noise_weight(2),
            rows.factor_weights.iter().map(|&g| f64::from(g)).sum(),
            rows.factor_weight(2),
            columns.factor_shape.ln(),
            columns.noise_shape.ln(),
            weighted,
            state.thresholds.get(1).copied().unwrap_or(0.0),
            state.thresholds.last().copied().unwrap_or(0.0),
            long(&state.thresholds),
            rows.link_precision * long(&rows.links),
            columns.link_precision * long(&columns.links),
            rows.common_precision * long(&rows.coefficient_mean),
            columns.common_precision * long(&columns.coefficient_mean),
            rows.intercept_precision * squares(&rows.intercepts),
            columns.intercept_precision * squares(&columns.intercepts),
            coefficients.sum(),
            state.scale_precision * long(&state.scales),
            state.scales.iter().map(|s| s.ln()).sum(),
            about_mean(&rows.noise_weights, rows.noise_shape),
            about_mean(&rows.factor_weights, rows.factor_shape),
            by_spreads(&|weight| weight),
            by_spreads(&|weight| weight.ln()),
            rows.noise_shape.ln(),
            rows.factor_shape.ln(),
            long(&rows.factor_mean),
            alike,
            state.offset * intercept,
            state.offset * sum(&|y, _| y),
        ]
    }
}

impl Model {
    /// Free thresholds are normal, given that they ascend from 0.
    fn thresholds(&self, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        let n = self.config.likelihood.n_thresholds();
        let sd = self.config.threshold_precision.sqrt().recip();
        loop {
            let mut list = vec![0.0; n.min(1)];
            list.extend((1..n).map(|_| sd * normal(rng)));
            if list.windows(2).all(|w| w[0] < w[1]) {
                return list;
            }
        }
    }
}

/// The order of the thesis, with collapsed odds: wrong.
fn scale_first(
    board: &mut Switchboard<'_>,
    order: &[usize],
    rng: &mut Xoshiro256PlusPlus,
) -> Result<(), ParameterError> {
    for &k in order {
        let old = if board.on[k] { board.scales[k] } else { 0.0 };
        let square = board.products[k * board.stride + k];
        let linear = board.gradient[k] + old * square;
        let alpha = board.noise_precision;
        let slab = Slab::half_normal(board.scale_precision, alpha * square, alpha * linear);
        let (mean, precision) = if board.on[k] {
            (slab.mean, slab.precision)
        } else {
            (0.0, board.scale_precision)
        };
        let law = TruncatedNormal::new(mean, precision.sqrt().recip(), 0.0, f64::INFINITY)?;
        let scale = law.sample(rng);
        board.on[k] =
            Bernoulli::from_ln_odds(board.ln_prior_odds + slab.ln_bayes_factor)?.sample(rng);
        let new = if board.on[k] { scale } else { 0.0 };
        board.scales[k] = new;
        for l in 0..board.gradient.len() {
            let product = board.products[k.max(l) * board.stride + k.min(l)];
            board.gradient[l] -= (new - old) * product;
        }
    }
    Ok(())
}

/// Without bringing the residual up to date: wrong.
fn stale(
    board: &mut Switchboard<'_>,
    order: &[usize],
    rng: &mut Xoshiro256PlusPlus,
) -> Result<(), ParameterError> {
    let before = board.gradient.to_vec();
    for k in order {
        board.gradient.copy_from_slice(&before);
        board.scan(&[*k], rng)?;
    }
    Ok(())
}

/// Whole sweeps, again and again.
fn long(model: &mut Model) -> JointReport {
    model.sweeps = 1;
    let test = JointTest {
        seed: 1,
        chains: 64,
        length: 60,
        false_alarm: 0.001,
    };
    test.run(model)
}

/// Some moves.
fn short(model: &Model) -> JointReport {
    let test = StepTest {
        seed: 1,
        replications: 3000,
        false_alarm: 0.001,
    };
    test.run(model)
}

/// Priors that say more than the entries: several components, spreads that differ, small offsets and thresholds, small links and common means, large
/// intercepts.
fn with_strong_priors(mut model: Model) -> Model {
    let mean = |mean: f64| GammaPrior {
        shape: 4.0,
        rate: 4.0 / mean,
    };
    let config = &mut model.config;
    config.rank_a = 6.0;
    config.factor_precision_shape_range = (2.0, 6.0);
    config.offset_precision = 8.0;
    config.threshold_precision = 4.0;
    (config.link, config.common, config.intercept) = (mean(20.0), mean(10.0), mean(0.4));
    model
}

const ALL: [BsvdMove; 12] = [
    BsvdMove::Thresholds,
    BsvdMove::Latents,
    BsvdMove::Rows,
    BsvdMove::Columns,
    BsvdMove::Noise,
    BsvdMove::Offset,
    BsvdMove::Location,
    BsvdMove::Scale,
    BsvdMove::Mixing,
    BsvdMove::Switches,
    BsvdMove::ScalePrecision,
    BsvdMove::Hyper,
];

#[test]
fn whole_sweeps_leave_the_joint_law_alone() {
    for likelihood in [Likelihood::Gaussian, Likelihood::Ordinal { levels: 4 }] {
        let report = long(&mut model_of(likelihood, &ALL, Fault::None));
        assert!(report.passed(), "{likelihood:?}: {report}");
    }
}

#[test]
fn draws_one_by_one_leave_the_joint_law_alone() {
    for (likelihood, moves) in [
        (Likelihood::Gaussian, &[BsvdMove::Rows][..]),
        (Likelihood::Gaussian, &[BsvdMove::Columns]),
        (Likelihood::Gaussian, &ALL),
        (Likelihood::Binomial, &ALL),
    ] {
        let mut model = model_of(likelihood, moves, Fault::None);
        model.config.factor_update = FactorUpdate::Coordinate;
        let report = short(&model);
        assert!(report.passed(), "{likelihood:?}, {moves:?}: {report}");
    }
}

/// Noise so small that cells are summed in double precision.
#[test]
fn small_noise_leaves_the_joint_law_alone() {
    let mut model = model(&ALL, Fault::None);
    model.config.noise = GammaPrior {
        shape: 8.0,
        rate: 1e-3,
    };
    let report = short(&model);
    assert!(report.passed(), "{report}");
}

#[test]
fn without_options_the_joint_law_is_left_alone() {
    let mut model = model(&ALL, Fault::None);
    model.config.factor_means = false;
    model.config.common_coefficients = false;
    model.config.row_intercepts = false;
    model.config.feature_links = false;
    model.config.row_noise = false;
    model.config.column_noise = false;
    model.config.row_factor_precision = false;
    model.config.column_factor_precision = false;
    let report = short(&model);
    assert!(report.passed(), "{report}");
}

/// Fails with what each of some models shows.
fn all_pass(models: impl IntoIterator<Item = Model>) {
    let failed: Vec<String> = models
        .into_iter()
        .filter_map(|model| {
            let report = short(&model);
            let moves = model.config.moves.iter().map(|scheduled| scheduled.step);
            let moves: Vec<BsvdMove> = moves.collect();
            let likelihood = model.config.likelihood;
            (!report.passed()).then(|| format!("{likelihood:?}, {moves:?}: {report}"))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_move_leaves_the_joint_law_alone() {
    let mild = ALL.map(|step| model(&[step], Fault::None));
    let strong = ALL.map(|step| with_strong_priors(model(&[step], Fault::None)));
    all_pass(mild.into_iter().chain(strong));
}

thread_local! {
    /// Orders in which switches were to be tried.
    static ORDERS: RefCell<Vec<Vec<usize>>> = const { RefCell::new(Vec::new()) };
}

/// Leaves the switches as they are.
fn record(
    _: &mut Switchboard<'_>,
    order: &[usize],
    _: &mut Xoshiro256PlusPlus,
) -> Result<(), ParameterError> {
    ORDERS.with_borrow_mut(|orders| orders.push(order.to_vec()));
    Ok(())
}

/// The order in which switches are tried must not depend on which are on: the state holds active components first, and trying them first leaves another law alone.
/// Several scans hide nearly all of that from a joint-distribution test.
#[test]
fn orders_of_switches_do_not_depend_on_the_state() {
    let model = model(&[BsvdMove::Switches], Fault::None);
    let rng = &mut stream(1, [0; 4]);
    let state = std::iter::repeat_with(|| model.prior(rng)).find(|state| state.rank() == 1);
    let state = state.unwrap();
    let data = model.data(&model.simulate(&state, rng), &model.config);
    let mut sampler = BsvdSampler::resume(&data, model.config.clone(), state, 0).unwrap();
    for _ in 0..400 {
        sampler.sweep += 1;
        sampler.switches(record).unwrap();
        assert_eq!(sampler.state.rank(), 1);
    }
    let orders = ORDERS.take();
    for place in 0..3 {
        let there = orders.iter().filter(|order| order[place] == 0).count() as f64;
        let n = orders.len() as f64;
        let z = (there - n / 3.0) / (n * 2.0 / 9.0).sqrt();
        assert!(
            z.abs() < 4.5,
            "the active one is at place {place} {there} times of {n}"
        );
    }
}

/// Sums of `w`, `w r` and `w r^2` over the entries, with noise weights of rows and columns, are those of a plain loop.
#[test]
fn residual_sums_are_those_of_a_plain_loop() {
    let model = model(&ALL, Fault::None);
    let rng = &mut stream(2, [0; 4]);
    for _ in 0..10 {
        let state = model.prior(rng);
        let values = model.simulate(&state, rng);
        let data = model.data(&values, &model.config);
        let mut sums = [0.0; 3];
        let mut sizes = 0.0;
        for (&(i, j), value) in model.cells.iter().zip(&values) {
            let (i, j) = (i as usize, j as usize);
            let w = state.rows.noise_weight(i) * state.columns.noise_weight(j);
            let r = value - state.latent(i, j, &model.side);
            for (sum, x) in sums.iter_mut().zip([w, w * r, w * r * r]) {
                *sum += x;
            }
            sizes += (w * r).abs();
        }
        let mut sampler = BsvdSampler::resume(&data, model.config.clone(), state, 0).unwrap();
        let found = sampler.residuals().unwrap();
        for (found, expected) in [found.weight, found.first, found.second].iter().zip(sums) {
            assert!(
                (found - expected).abs() < 1e-5 * (sizes + sums[2]),
                "{found} {expected}"
            );
        }
    }
}

/// A pass that draws has its sums from products of whole rows; they are those of a pass over the cells of the state that it leaves.
#[test]
fn residual_sums_of_drawn_rows_are_those_of_their_cells() {
    let model = model(&ALL, Fault::None);
    let rng = &mut stream(3, [0; 4]);
    for round in 0..10 {
        let state = model.prior(rng);
        let data = model.data(&model.simulate(&state, rng), &model.config);
        let mut sampler = BsvdSampler::resume(&data, model.config.clone(), state, 0).unwrap();
        let (side, code) = [(Side::Rows, ROWS), (Side::Columns, COLUMNS)][round % 2];
        let mut sums = |task| {
            sampler.side(side, task, code).unwrap();
            let sums = sampler.memory.residuals.take().unwrap();
            [sums.weight, sums.first, sums.second]
        };
        let (drawn, plain) = (sums(Task::DrawAndSum), sums(Task::Sum));
        let size = plain[0] + plain[2];
        for (drawn, plain) in drawn.iter().zip(plain) {
            assert!((drawn - plain).abs() < 1e-5 * size, "{drawn} {plain}");
        }
    }
}

const PROBITS: [Likelihood; 3] = [
    Likelihood::Ordinal { levels: 4 },
    Likelihood::Binary,
    Likelihood::Binomial,
];

#[test]
fn probit_sweeps_leave_the_joint_law_alone() {
    all_pass(PROBITS.map(|likelihood| model_of(likelihood, &ALL, Fault::None)));
}

#[test]
fn every_probit_move_leaves_the_joint_law_alone() {
    use BsvdMove::{Columns, Latents, Offset, Rows, Switches, Thresholds};
    let binomial = [Rows, Columns, Switches, Offset]
        .map(|step| model_of(Likelihood::Binomial, &[Latents, step], Fault::None));
    let levels = Likelihood::Ordinal { levels: 4 };
    let ordinal = [&[Thresholds, Latents][..], &[Latents, Rows]].map(|moves| {
        let model = || model_of(levels, moves, Fault::None);
        [model(), with_strong_priors(model())]
    });
    all_pass(binomial.into_iter().chain(ordinal.into_iter().flatten()));
}

#[test]
fn probit_faults_are_seen() {
    for (likelihood, fault) in [
        (Likelihood::Ordinal { levels: 4 }, Fault::LevelsShifted),
        (Likelihood::Ordinal { levels: 4 }, Fault::NoOffsetPrior),
        (Likelihood::Ordinal { levels: 4 }, Fault::AlikeNoise),
        (Likelihood::Ordinal { levels: 4 }, Fault::OtherNoiseShapes),
        (
            Likelihood::Ordinal { levels: 4 },
            Fault::UnitWithoutJacobian,
        ),
        (Likelihood::Binary, Fault::ScaleFirst),
        (Likelihood::Binary, Fault::NoOffsetPrior),
        (Likelihood::Binomial, Fault::TrialsIgnored),
    ] {
        let report = short(&model_of(likelihood, &ALL, fault));
        assert!(
            !report.passed(),
            "{likelihood:?}, {fault:?} was not seen: {report}"
        );
    }
}

#[test]
fn faults_are_seen() {
    use Fault::{
        AlikeNoise, HalfShape, MaskIgnored, NoOffsetPrior, NoPriorOdds, OtherCommonMeans,
        OtherFactorPrecisions, OtherLinks, OtherNoiseShapes, RateAsScale, ScaleFirst,
        StaleResidual, TradeWithoutJacobian,
    };
    for fault in [
        ScaleFirst,
        StaleResidual,
        TradeWithoutJacobian,
        HalfShape,
        RateAsScale,
        NoOffsetPrior,
        NoPriorOdds,
        MaskIgnored,
        AlikeNoise,
        OtherNoiseShapes,
        OtherFactorPrecisions,
        OtherLinks,
        OtherCommonMeans,
    ] {
        let report = short(&model(&ALL, fault));
        assert!(!report.passed(), "{fault:?} was not seen: {report}");
    }
}

/// Given everything else, the average over draws of the rows is what `given_columns` says, and no longer once something else has moved.
#[test]
fn rows_are_averaged_exactly() {
    let model = model(&[BsvdMove::Rows], Fault::None);
    let values: Vec<f64> = (0..model.cells.len()).map(|n| (n as f64).cos()).collect();
    let data = model.data(&values, &model.config);
    let mut config = model.config.clone();
    config.rank_a = 1e300;
    let mut sampler = BsvdSampler::new(&data, config).unwrap();
    for step in [BsvdMove::Columns, BsvdMove::Hyper, BsvdMove::Columns] {
        sampler.sweep += 1;
        sampler.apply(step).unwrap();
        assert!(sampler.given_columns().is_none());
    }
    let cells: Vec<(usize, usize)> = (0..ROWS_N)
        .flat_map(|i| (0..COLUMNS_N).map(move |j| (i, j)))
        .collect();
    let draws = 20_000;
    let mut sums = vec![(0.0, 0.0); cells.len()];
    for _ in 0..draws {
        sampler.sweep += 1;
        sampler.apply(BsvdMove::Rows).unwrap();
        for ((first, second), &(i, j)) in sums.iter_mut().zip(&cells) {
            // Its mean given the noise weight of the row, which moves.
            let exact = sampler.given_columns().unwrap().latent(i, j);
            let off = sampler.state.latent(i, j, &model.side) - exact;
            *first += off / f64::from(draws);
            *second += off * off / f64::from(draws);
        }
    }
    for ((mean, second), &(i, j)) in sums.into_iter().zip(&cells) {
        let distance = mean / ((second - mean * mean) / f64::from(draws)).sqrt();
        assert!(distance.abs() < 4.5, "{i}, {j}: {distance}");
    }
}
