//! Checks of npb-bsvd: small matrices drawn from the model, with features and intercepts, under proper priors.

use npb_bsvd::npb_data::{DataError, Rating, Ratings};
use npb_bsvd::{
    BsvdConfig, BsvdData, BsvdError, BsvdSampler, BsvdState, BsvdUnits, Features, Likelihood,
    SideInformation, SideState,
};
use npb_infer::testing::JointModel;
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_priors::GammaPrior;
use npb_priors::dist::{Gamma, Normal};
use rand::{Rng, RngExt};

use npb_kit::Result;
use npb_kit::validate::{Check, Findings, Plan, alarms, calibration};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("bsvd/calibration", calibrate),
    ("bsvd/calibration-ordinal", calibrate_ordinal),
    ("bsvd/calibration-binary", calibrate_binary),
    ("bsvd/false-alarms", false_alarms),
];

const METHOD: &str = "npb:bsvd";
/// Key of the random stream that draws which cells are observed.
const MASK: u64 = 9;

/// Proper, so that the prior can be drawn from.
const MILD: GammaPrior = GammaPrior {
    shape: 4.0,
    rate: 2.0,
};

/// What is fixed: sizes, observed cells, features, hyperparameters.
struct Model {
    config: BsvdConfig,
    n_rows: usize,
    n_cols: usize,
    side: SideInformation,
    observed: Vec<(u32, u32)>,
    /// A state of the right kind, for what the prior does not draw.
    start: BsvdState,
    /// A cell that is never observed.
    hidden: (usize, usize),
    quantities: Vec<&'static str>,
}

impl Model {
    fn new(
        likelihood: Likelihood,
        (n_rows, n_cols): (usize, usize),
        extras: bool,
        quantities: &[&'static str],
    ) -> Result<Self> {
        let config = BsvdConfig {
            likelihood,
            threshold_precision: 1.0,
            units: BsvdUnits::Given {
                centre: 0.0,
                scale: 1.0,
            },
            candidates: 4,
            max_candidates: 4,
            // About one and a half of four components are on.
            rank_a: 1.8,
            noise: MILD,
            scale: MILD,
            intercept: MILD,
            coefficient: MILD,
            link: MILD,
            common: MILD,
            offset_precision: 1.0,
            row_intercepts: extras,
            column_intercepts: extras,
            row_noise: extras && likelihood != Likelihood::Binary,
            column_noise: extras && likelihood != Likelihood::Binary,
            // Entries with a fourth moment; levels need none, and say less of noise.
            noise_shape_range: match likelihood {
                Likelihood::Gaussian => (8.0, 64.0),
                _ => (1.0, 4.0),
            },
            row_factor_precision: extras,
            column_factor_precision: extras,
            factor_precision_shape_range: (6.0, 24.0),
            sweeps: npb_kit::sweeps(0, 1),
            ..BsvdConfig::default()
        };
        let rng = &mut stream(0, [0, 0, 0, MASK]);
        let mut observed = Vec::new();
        for i in 0..n_rows as u32 {
            for j in 0..n_cols as u32 {
                if (i, j) != (0, 0) && rng.random::<f64>() < 0.7 {
                    observed.push((i, j));
                }
            }
        }
        let numbers = |n: usize| -> Vec<f64> { (0..n).map(|k| (1.7 * k as f64).sin()).collect() };
        let side = match extras {
            true => SideInformation {
                rows: Some(Features::dense(n_rows, 1, &numbers(n_rows))?),
                columns: Some(Features::dense(n_cols, 2, &numbers(2 * n_cols))?),
            },
            false => SideInformation::default(),
        };
        // A value that every likelihood knows.
        let ones: Vec<f64> = observed.iter().map(|_| 1.0).collect();
        let ratings = ratings((n_rows, n_cols), &observed, &ones)?;
        let data = BsvdData::new(&ratings, side.clone(), &config)?;
        let start = BsvdSampler::new(&data, config.clone())?.state().clone();
        Ok(Self {
            config,
            n_rows,
            n_cols,
            side,
            observed,
            start,
            hidden: (0, 0),
            quantities: quantities.to_vec(),
        })
    }

    /// Free thresholds are normal, given that they ascend from 0.
    fn thresholds(&self, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        let n = self.start.thresholds.len();
        loop {
            let mut list = vec![0.0; n.min(1)];
            list.extend((1..n).map(|_| normal(self.config.threshold_precision, rng)));
            if list.windows(2).all(|w| w[0] < w[1]) {
                return list;
            }
        }
    }

    /// A side of the state from its prior; `q` is the number of features of the other side.
    fn side_state(
        &self,
        n: usize,
        rank: usize,
        q: usize,
        own_features: Option<&Features>,
        (intercepts, noise, spread): (bool, bool, bool),
        rng: &mut Xoshiro256PlusPlus,
    ) -> SideState {
        let config = &self.config;
        let (noise_shape, noise_weights) = weights(&config.noise_shapes(), n, noise, rng);
        let (factor_shape, factor_weights) =
            weights(&config.factor_precision_shapes(), n, spread, rng);
        let intercept_precision = gamma(config.intercept, rng);
        let coefficient_precision: Vec<f64> =
            (0..q).map(|_| gamma(config.coefficient, rng)).collect();
        let mean = |wanted: bool, precision: f64, rng: &mut Xoshiro256PlusPlus| {
            if wanted { normal(precision, rng) } else { 0.0 }
        };
        let common_precision = gamma(config.common, rng);
        let coefficient_mean: Vec<f64> = (0..q)
            .map(|_| mean(config.common_coefficients, common_precision, rng))
            .collect();
        let factor_mean: Vec<f64> = (0..rank)
            .map(|_| mean(config.factor_means, 1.0, rng))
            .collect();
        let linked = own_features.map_or(0, Features::n_features);
        let link_precision = gamma(config.link, rng);
        let links: Vec<f64> = (0..rank * linked)
            .map(|_| normal(link_precision, rng))
            .collect();
        // As many numbers for each of n rows as there are means, each with its precision.
        let mut around = |means: &[f64], precisions: &[f64]| -> Vec<f32> {
            let pairs = || means.iter().zip(precisions);
            let mut row = || -> Vec<f32> {
                pairs()
                    .map(|(mean, &precision)| (mean + normal(precision, rng)) as f32)
                    .collect()
            };
            (0..n).flat_map(|_| row()).collect()
        };
        let mut factors = around(&vec![0.0; rank], &vec![1.0; rank]);
        for (at, factor) in factors.iter_mut().enumerate() {
            let weight = factor_weights.get(at / rank).copied().unwrap_or(1.0);
            *factor = factor_mean[at % rank] as f32 + *factor / f32::sqrt(weight);
        }
        if let Some(features) = own_features {
            let mut known = vec![0.0; linked];
            for (at, factor) in factors.iter_mut().enumerate() {
                features.write(at / rank, &mut known);
                let own = &links[at % rank * linked..][..linked];
                let products = own.iter().zip(&known);
                *factor += products.map(|(b, &f)| b * f64::from(f)).sum::<f64>() as f32;
            }
        }
        SideState {
            factors,
            links,
            link_precision,
            factor_weights,
            factor_shape,
            coefficients: around(&coefficient_mean, &coefficient_precision),
            intercepts: if intercepts {
                around(&[0.0], &[intercept_precision])
            } else {
                Vec::new()
            },
            factor_mean,
            coefficient_mean,
            common_precision,
            intercept_precision,
            coefficient_precision,
            noise_weights,
            noise_shape,
        }
    }

    fn swept(
        &self,
        state: &BsvdState,
        values: &[f64],
        seed: u64,
    ) -> std::result::Result<BsvdState, BsvdError> {
        let ratings = ratings((self.n_rows, self.n_cols), &self.observed, values)?;
        let config = BsvdConfig {
            seed,
            ..self.config.clone()
        };
        let data = BsvdData::new(&ratings, self.side.clone(), &config)?;
        let mut sampler = BsvdSampler::resume(&data, config, state.clone(), 0)?;
        // As many sweeps as the rarest move needs to be due once.
        let period = self.config.moves.iter().map(|s| s.every).max().unwrap_or(1);
        for _ in 0..period {
            sampler.sweep()?;
        }
        Ok(sampler.into_state())
    }
}

fn ratings(
    (n_rows, n_cols): (usize, usize),
    cells: &[(u32, u32)],
    values: &[f64],
) -> std::result::Result<Ratings, DataError> {
    let entry = |(&(row, column), &value): (&(u32, u32), &f64)| Rating { row, column, value };
    let entries: Vec<Rating> = cells.iter().zip(values).map(entry).collect();
    Ratings::new(n_rows, n_cols, &entries)
}

/// Normal with mean zero.
fn normal(precision: f64, rng: &mut Xoshiro256PlusPlus) -> f64 {
    Normal::new(0.0, precision.recip()).map_or(f64::NAN, |n| n.sample(rng))
}

/// One of these shapes h, and n numbers of `Gamma(h, h)` where they are wanted.
fn weights(
    shapes: &[f64],
    n: usize,
    wanted: bool,
    rng: &mut Xoshiro256PlusPlus,
) -> (f64, Vec<f32>) {
    let shape = shapes[rng.random_range(0..shapes.len())];
    let law = GammaPrior { shape, rate: shape };
    let n = if wanted { n } else { 0 };
    (shape, (0..n).map(|_| gamma(law, rng) as f32).collect())
}

fn gamma(prior: GammaPrior, rng: &mut Xoshiro256PlusPlus) -> f64 {
    Gamma::new(prior.shape, prior.rate).map_or(f64::NAN, |g| g.sample(rng))
}

impl JointModel for Model {
    type State = BsvdState;
    type Data = Vec<f64>;

    fn names(&self) -> Vec<String> {
        self.quantities
            .iter()
            .map(|&name| name.to_owned())
            .collect()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> BsvdState {
        let config = &self.config;
        let scale_precision = gamma(config.scale, rng);
        let k = config.candidates as f64;
        let odds = config.rank_a / (config.rank_b * (k - 1.0));
        let mut scales = Vec::new();
        for _ in 0..config.candidates {
            if rng.random::<f64>() < odds / (1.0 + odds) {
                scales.push(normal(scale_precision, rng).abs());
            }
        }
        let rank = scales.len();
        let features = |f: &Option<Features>| f.as_ref().map_or(0, Features::n_features);
        let (of_rows, of_columns) = (features(&self.side.rows), features(&self.side.columns));
        let rows = (
            config.row_intercepts,
            config.row_noise,
            config.row_factor_precision,
        );
        let columns = (
            config.column_intercepts,
            config.column_noise,
            config.column_factor_precision,
        );
        BsvdState {
            candidates: config.candidates,
            scale_precision,
            noise_precision: match config.likelihood {
                Likelihood::Gaussian => gamma(config.noise, rng),
                _ => 1.0,
            },
            thresholds: self.thresholds(rng),
            offset: normal(config.offset_precision, rng),
            rows: self.side_state(
                self.n_rows,
                rank,
                of_columns,
                self.side.rows.as_ref(),
                rows,
                rng,
            ),
            columns: self.side_state(
                self.n_cols,
                rank,
                of_rows,
                self.side.columns.as_ref(),
                columns,
                rng,
            ),
            scales,
            ..self.start.clone()
        }
    }

    fn simulate(&self, state: &BsvdState, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        let value = |&(i, j): &(u32, u32)| {
            let (i, j) = (i as usize, j as usize);
            let noisy =
                state.latent(i, j, &self.side) + normal(state.cell_noise_precision(i, j), rng);
            match self.config.likelihood {
                Likelihood::Gaussian => noisy,
                Likelihood::Ordinal { .. } => {
                    1.0 + state.thresholds.partition_point(|&t| t < noisy) as f64
                }
                Likelihood::Binary | Likelihood::Binomial => f64::from(u8::from(noisy > 0.0)),
            }
        };
        self.observed.iter().map(value).collect()
    }

    fn sweep(&self, state: &mut BsvdState, values: &Vec<f64>, rng: &mut Xoshiro256PlusPlus) {
        match self.swept(state, values, rng.next_u64()) {
            Ok(next) => *state = next,
            // Not a number is an alarm.
            Err(_) => state.noise_precision = f64::NAN,
        }
    }

    fn summary(&self, state: &BsvdState, values: &Vec<f64>) -> Vec<f64> {
        let largest = state.scales.iter().fold(0.0f64, |a, &b| a.max(b));
        let residuals = || -> f64 {
            let residual = |(&(i, j), y): (&(u32, u32), &f64)| {
                (y - state.latent(i as usize, j as usize, &self.side)).powi(2)
            };
            self.observed.iter().zip(values).map(residual).sum()
        };
        let value = |name: &&str| match *name {
            "rank" => state.rank() as f64,
            "noise precision" => state.noise_precision,
            "largest scale" => largest,
            "scale precision" => state.scale_precision,
            "offset" => state.offset,
            "unobserved cell" => state.latent(self.hidden.0, self.hidden.1, &self.side),
            // Of a column, for the first feature of the rows.
            "weight of a feature" => f64::from(state.columns.coefficients[0]),
            "intercept of a row" => f64::from(state.rows.intercepts[0]),
            "noise weight of a row" => f64::from(state.rows.noise_weights[1]),
            "spread of a row" => f64::from(state.rows.factor_weights[1]),
            "second threshold" => state.thresholds[1],
            "last threshold" => state.thresholds[state.thresholds.len() - 1],
            // Which ties data and state.
            "squared residuals" => residuals(),
            _ => f64::NAN,
        };
        self.quantities.iter().map(value).collect()
    }
}

fn calibrate(plan: &Plan) -> Result<Findings> {
    let quantities = [
        "rank",
        "noise precision",
        "unobserved cell",
        "weight of a feature",
        "intercept of a row",
        "noise weight of a row",
        "spread of a row",
    ];
    calibrate_likelihood(plan, Likelihood::Gaussian, &quantities)
}

fn calibrate_ordinal(plan: &Plan) -> Result<Findings> {
    let quantities = [
        "rank",
        "unobserved cell",
        "weight of a feature",
        "second threshold",
        "last threshold",
        "noise weight of a row",
    ];
    calibrate_likelihood(plan, Likelihood::Ordinal { levels: 4 }, &quantities)
}

fn calibrate_binary(plan: &Plan) -> Result<Findings> {
    let quantities = [
        "rank",
        "unobserved cell",
        "weight of a feature",
        "intercept of a row",
    ];
    calibrate_likelihood(plan, Likelihood::Binary, &quantities)
}

fn calibrate_likelihood(
    plan: &Plan,
    likelihood: Likelihood,
    quantities: &[&'static str],
) -> Result<Findings> {
    let model = Model::new(likelihood, (12, 10), true, quantities)?;
    let quick = match likelihood {
        Likelihood::Gaussian => (1_000, 99, 100, 5),
        // Behind a link the data say less and latent entries, drawn each sweep, make mixing slower and sweeps dearer.
        _ => (1_000, 49, 100, 10),
    };
    let test = calibration::design(plan, [(20, 9, 5, 1), quick, (2_000, 99, 300, 15)]);
    calibration::calibrate(&model, &test, "rows=12;columns=10;candidates=4", METHOD)
}

fn false_alarms(plan: &Plan) -> Result<Findings> {
    let plain = [
        "rank",
        "noise precision",
        "largest scale",
        "scale precision",
        "offset",
        "unobserved cell",
        "squared residuals",
    ];
    let extras = [
        &plain[..],
        &[
            "weight of a feature",
            "intercept of a row",
            "noise weight of a row",
        ],
    ]
    .concat();
    let length = plan.scale.pick(5, 40, 200);
    let models = [
        ("factors alone", false, &plain[..]),
        ("factors, intercepts and features", true, &extras),
    ];
    let models = models.map(|(name, with_extras, quantities)| {
        let model = Model::new(Likelihood::Gaussian, (6, 5), with_extras, quantities)?;
        Ok((name, model))
    });
    alarms::findings(plan, models, (64, length), METHOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoke_checks_run_and_write_numbers() {
        npb_kit::testing::smoke(CHECKS);
    }
}
