//! Checks of npb-bpfa: tables drawn from sparse factors, with holes.

use npb_bpfa::npb_data::Table;
use npb_bpfa::{BpfaConfig, Centring, fit};
use npb_infer::{SweepPlan, stream};
use rand::RngExt;
use rand_distr::StandardNormal;

use super::{Check, Findings, Plan};
use crate::Result;
use crate::reproduce::{Report, ResultRow, Scale, TextTable, mean_and_sd, short};

pub(super) const CHECKS: &[Check] = &[Check {
    id: "bpfa/coverage",
    what: "share of the missing cells of simulated tables inside their 90% intervals, default configuration",
    run: coverage,
}];

/// Rows, columns, factors and the probability that a row uses one of them.
const SIZE: (usize, usize) = (150, 12);
const FACTORS: usize = 4;
const USED: f64 = 0.4;
const MISSING: f64 = 0.2;
const NOISE: f64 = 0.3;
const NOMINAL: f64 = 0.9;
/// Coverage further off than this, and than four standard errors, is an alarm: priors are not those of the simulation.
const SLACK: f64 = 0.04;

fn coverage(plan: &Plan) -> Result<Findings> {
    let (tables, sweeps) = match plan.scale {
        Scale::Smoke => (2, 20),
        Scale::Quick => (20, 300),
        Scale::Paper => (100, 600),
    };
    let shares = (0..tables)
        .map(|table| share_inside(plan.seed, table, sweeps))
        .collect::<Result<Vec<f64>>>()?;
    let (mean, sd) = mean_and_sd(&shares);
    let error = sd.unwrap_or(0.0) / (shares.len() as f64).sqrt();
    let passed = plan.scale == Scale::Smoke || (mean - NOMINAL).abs() <= SLACK.max(4.0 * error);
    let row = vec![
        short(NOMINAL),
        short(mean),
        short(error),
        tables.to_string(),
    ];
    let report = Report {
        results: vec![ResultRow {
            dataset: "simulated".to_owned(),
            setting: format!("missing={MISSING}"),
            method: "npb:bpfa".to_owned(),
            metric: "coverage_90".to_owned(),
            mean,
            sd,
            trials: shares.len(),
            paper: None,
        }],
        tables: vec![TextTable {
            title: "Missing cells inside their intervals".to_owned(),
            header: ["nominal", "found", "standard error over tables", "tables"]
                .map(str::to_owned)
                .to_vec(),
            rows: vec![row],
        }],
        ..Report::default()
    };
    Ok(Findings { report, passed })
}

/// One table: the noise-free values of its missing cells against intervals of mean and standard deviation.
fn share_inside(seed: u64, table: u64, sweeps: u64) -> Result<f64> {
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
        sweeps: SweepPlan {
            burn_in: sweeps,
            keep: sweeps,
            thin: 1,
        },
        stored_draws: 1,
        seed: seed.wrapping_add(table),
        ..BpfaConfig::default()
    };
    let found = fit(&Table::from_nan_coded(n, p, &cells)?, &config)?;
    let z = -npb_priors::special::normal_quantile(0.5 * (1.0 - NOMINAL));
    let (mut inside, mut all) = (0, 0);
    let places = found.cells.rows.iter().zip(&found.cells.columns);
    for ((&i, &j), prediction) in places.zip(found.followed()) {
        if let Some(found) = prediction {
            all += 1;
            let off = (found.mean - truth(i as usize, j as usize)).abs();
            inside += usize::from(off <= z * found.sd);
        }
    }
    Ok(inside as f64 / all.max(1) as f64)
}
