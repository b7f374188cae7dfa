//! Checks of npb-regbayes: the Gibbs sampler of the unsupervised factor model, against which the variational posterior is compared.

use npb_infer::Xoshiro256PlusPlus;
use npb_infer::testing::JointModel;
use npb_priors::GammaPrior;
use npb_priors::dist::Normal;
use npb_regbayes::npb_data::{Mask, Table};
use npb_regbayes::{IbpDraw, IbpGibbsConfig, IbpSampler, RegBayesError};
use rand::Rng;

use npb_kit::Result;
use npb_kit::validate::{Check, Findings, Plan, alarms, calibration};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("regbayes/calibration", calibrate),
    ("regbayes/false-alarms", false_alarms),
];

const METHOD: &str = "npb:ibp-gibbs";
const N_ROWS: usize = 8;
const N_COLUMNS: usize = 5;
const TRUNCATION: usize = 4;
/// Never observed.
const HIDDEN: (usize, usize) = (0, 0);

/// What is looked at: the mean value of an unobserved cell, the sum of squared residuals.
const NAMES: [&str; 7] = [
    "noise precision",
    "loading precision",
    "concentration",
    "ones",
    "squared loadings",
    "unobserved cell",
    "squared residuals",
];

struct Model {
    config: IbpGibbsConfig,
    observed: Mask,
}

impl Model {
    fn new(holes: bool) -> Result<Self> {
        let mild = GammaPrior {
            shape: 4.0,
            rate: 2.0,
        };
        let config = IbpGibbsConfig {
            truncation: TRUNCATION,
            noise: mild,
            loading: mild,
            concentration: mild,
            ..IbpGibbsConfig::default()
        };
        let seen = |i: usize, j: usize| (i, j) != HIDDEN && !(holes && (3 * i + 5 * j) % 4 == 1);
        Ok(Self {
            config,
            observed: Mask::from_fn(N_ROWS, N_COLUMNS, seen)?,
        })
    }

    fn swept(
        &self,
        draw: &IbpDraw,
        table: &Table,
        seed: u64,
    ) -> std::result::Result<IbpDraw, RegBayesError> {
        let config = IbpGibbsConfig {
            seed,
            ..self.config.clone()
        };
        let mut sampler = IbpSampler::at(table, &config, draw.clone())?;
        sampler.sweep()?;
        Ok(sampler.draw().clone())
    }
}

fn mean(draw: &IbpDraw, i: usize, j: usize) -> f64 {
    npb_linalg::dot(
        draw.indicators.col_as_slice(i),
        draw.loadings.col_as_slice(j),
    )
}

impl JointModel for Model {
    type State = IbpDraw;
    type Data = Table;

    fn names(&self) -> Vec<String> {
        NAMES.map(str::to_owned).to_vec()
    }

    fn prior(&self, rng: &mut Xoshiro256PlusPlus) -> IbpDraw {
        self.config.prior(N_ROWS, N_COLUMNS, rng)
    }

    fn simulate(&self, draw: &IbpDraw, rng: &mut Xoshiro256PlusPlus) -> Table {
        let noise = Normal::new(0.0, draw.noise_precision.recip()).expect("a positive precision");
        let cells = (0..N_ROWS * N_COLUMNS).map(|k| (k / N_COLUMNS, k % N_COLUMNS));
        let values = cells
            .map(|(i, j)| mean(draw, i, j) + noise.sample(rng))
            .collect();
        Table::from_parts(values, self.observed.clone()).expect("finite values")
    }

    fn sweep(&self, draw: &mut IbpDraw, table: &Table, rng: &mut Xoshiro256PlusPlus) {
        match self.swept(draw, table, rng.next_u64()) {
            Ok(next) => *draw = next,
            // Not a number is an alarm.
            Err(_) => draw.noise_precision = f64::NAN,
        }
    }

    fn summary(&self, draw: &IbpDraw, table: &Table) -> Vec<f64> {
        let sum = |of: &dyn Fn(usize, usize) -> f64, n: usize| -> f64 {
            (0..n)
                .map(|i| (0..TRUNCATION).map(|k| of(k, i)).sum::<f64>())
                .sum()
        };
        let residual = |i: usize, j: usize| (table.row(i)[j] - mean(draw, i, j)).powi(2);
        let residuals = (0..N_ROWS)
            .flat_map(|i| table.observed_in_row(i).map(move |(j, _)| (i, j)))
            .map(|(i, j)| residual(i, j));
        vec![
            draw.noise_precision,
            draw.loading_precision,
            draw.concentration,
            sum(&|k, i| draw.indicators[(k, i)], N_ROWS),
            sum(&|k, j| draw.loadings[(k, j)].powi(2), N_COLUMNS),
            mean(draw, HIDDEN.0, HIDDEN.1),
            residuals.sum(),
        ]
    }
}

fn calibrate(plan: &Plan) -> Result<Findings> {
    // Chains start from the prior: shorter burn-ins give alarms of their own.
    let test = calibration::design(
        plan,
        [(50, 9, 100, 10), (1_000, 99, 100, 10), (2_000, 99, 300, 20)],
    );
    let setting = format!("rows={N_ROWS};columns={N_COLUMNS};k={TRUNCATION}");
    calibration::calibrate(&Model::new(true)?, &test, &setting, METHOD)
}

fn false_alarms(plan: &Plan) -> Result<Findings> {
    let length = plan.scale.pick(5, 40, 200);
    let models = [("complete", false), ("with holes", true)];
    let models = models.map(|(name, holes)| Ok((name, Model::new(holes)?)));
    alarms::findings(plan, models, (64, length), METHOD)
}

#[cfg(test)]
mod tests {
    #[test]
    fn smoke_checks_run_and_write_numbers() {
        npb_kit::testing::smoke(super::CHECKS);
    }
}
