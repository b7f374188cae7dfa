//! What a fit answers, against plain loops over its stored draws with everything written out; settings against the laws that they name.

mod draws;
mod folded;
mod settings;

use npb_bsvd::npb_data::{Rating, Ratings};
use npb_bsvd::npb_priors::GammaPrior;
use npb_bsvd::npb_priors::special::normal_cdf;
use npb_bsvd::{
    BsvdConfig, BsvdFit, BsvdState, Cells, Entries, Features, Likelihood, SideInformation,
    Successes, fit,
};
use npb_infer::{SweepPlan, stream};
use rand::RngExt;
use rand_distr::StandardNormal;

const ROWS: usize = 14;
const COLUMNS: usize = 11;

/// Trials of a cell: one to five.
fn trials_of(i: usize, j: usize) -> u32 {
    1 + (3 * i + 2 * j) as u32 % 5
}

/// Two features of rows and one of columns, and entries of half of the cells, by latent values of rank one with effects of the features.
struct Example {
    likelihood: Likelihood,
    entries: Ratings,
    trials: Ratings,
    side: SideInformation,
}

impl Example {
    fn new(likelihood: Likelihood, seed: u64) -> Self {
        let mut rng = stream(seed, [0; 4]);
        let mut normals =
            |n: usize| -> Vec<f64> { (0..n).map(|_| rng.sample(StandardNormal)).collect() };
        let (of_rows, of_columns) = (normals(2 * ROWS), normals(COLUMNS));
        let (u, v, noise) = (normals(ROWS), normals(COLUMNS), normals(ROWS * COLUMNS * 6));
        let (mut entries, mut trials) = (Vec::new(), Vec::new());
        for i in 0..ROWS {
            for j in 0..COLUMNS {
                // One row has no entry.
                if i == 3 || (3 * i + 5 * j) % 9 < 4 {
                    continue;
                }
                let x = u[i] * v[j] + 0.6 * of_rows[2 * i] - 0.5 * of_columns[j];
                let own = &noise[6 * (i * COLUMNS + j)..][..6];
                let n = trials_of(i, j);
                let value = match likelihood {
                    Likelihood::Gaussian => 40.0 + 7.0 * (x + 0.5 * own[0]),
                    Likelihood::Ordinal { .. } => {
                        let passed = [0.0, 0.7, 1.5].iter().filter(|t| x + own[0] > **t);
                        1.0 + passed.count() as f64
                    }
                    Likelihood::Binary => f64::from(u8::from(x + own[0] > 0.0)),
                    Likelihood::Binomial => {
                        own[..n as usize].iter().filter(|e| x + *e > 0.0).count() as f64
                    }
                };
                let (row, column) = (i as u32, j as u32);
                entries.push(Rating { row, column, value });
                trials.push(Rating {
                    row,
                    column,
                    value: f64::from(n),
                });
            }
        }
        let table = |entries: &[Rating]| Ratings::new(ROWS, COLUMNS, entries).unwrap();
        Self {
            likelihood,
            entries: table(&entries),
            trials: table(&trials),
            side: SideInformation {
                rows: Some(Features::dense(ROWS, 2, &of_rows).unwrap()),
                columns: Some(Features::dense(COLUMNS, 1, &of_columns).unwrap()),
            },
        }
    }

    fn fitted(&self, cells: &Cells, config: &BsvdConfig) -> BsvdFit {
        if self.likelihood != Likelihood::Binomial {
            return of(&self.entries, &self.side, cells, config);
        }
        let both = Successes {
            successes: &self.entries,
            trials: &self.trials,
        };
        of(&both, &self.side, cells, config)
    }
}

fn of(
    entries: &impl Entries,
    side: &SideInformation,
    cells: &Cells,
    config: &BsvdConfig,
) -> BsvdFit {
    fit(entries, side.clone(), cells, config).unwrap()
}

/// Priors that are proper, moves every sweep, and every kept draw stored.
fn config(likelihood: Likelihood, burn_in: u64, keep: u64) -> BsvdConfig {
    let gamma = |shape, rate| GammaPrior { shape, rate };
    BsvdConfig {
        likelihood,
        candidates: 4,
        max_candidates: 4,
        noise: gamma(2.0, 0.5),
        scale: gamma(2.0, 2.0),
        intercept: gamma(2.0, 1.0),
        coefficient: gamma(2.0, 1.5),
        noise_shape_range: (2.0, 8.0),
        factor_precision_shape_range: (2.0, 8.0),
        sweeps: SweepPlan {
            burn_in,
            keep,
            thin: 1,
        },
        stored_draws: keep,
        seed: 5,
        ..BsvdConfig::default()
    }
}

const LIKELIHOODS: [Likelihood; 4] = [
    Likelihood::Gaussian,
    Likelihood::Ordinal { levels: 4 },
    Likelihood::Binary,
    Likelihood::Binomial,
];

/// The latent value of a cell in a draw, term by term.
fn latent(fit: &BsvdFit, draw: &BsvdState, i: usize, j: usize) -> f64 {
    let known = |features: &Option<Features>, at: usize| -> Vec<f64> {
        let features = features.as_ref().unwrap();
        let mut own = vec![0.0f32; features.n_features()];
        features.write(at, &mut own);
        own.iter().map(|x| f64::from(*x)).collect()
    };
    let (rows, columns, rank) = (&draw.rows, &draw.columns, draw.rank());
    let mut x = draw.offset + f64::from(rows.intercepts[i]) + f64::from(columns.intercepts[j]);
    for k in 0..rank {
        let (u, v) = (rows.factors[i * rank + k], columns.factors[j * rank + k]);
        x += draw.scales[k] * f64::from(u) * f64::from(v);
    }
    for (q, feature) in known(&fit.side().columns, j).iter().enumerate() {
        x += feature * f64::from(rows.coefficients[i + q]);
    }
    for (q, feature) in known(&fit.side().rows, i).iter().enumerate() {
        x += feature * f64::from(columns.coefficients[2 * j + q]);
    }
    x
}

/// Standard deviation of the noise of a cell in a draw, units of the latent values.
fn noise_sd(draw: &BsvdState, i: usize, j: usize) -> f64 {
    let weight = |weights: &[f32], at: usize| weights.get(at).map_or(1.0, |w| f64::from(*w));
    let precision = weight(&draw.rows.noise_weights, i) * weight(&draw.columns.noise_weights, j);
    (draw.noise_precision * precision).sqrt().recip()
}

/// Levels of a likelihood, none of the Gaussian one.
fn levels(likelihood: Likelihood) -> Vec<f64> {
    match likelihood {
        Likelihood::Gaussian => Vec::new(),
        Likelihood::Ordinal { levels } => (1..=levels).map(f64::from).collect(),
        _ => vec![0.0, 1.0],
    }
}

/// Probability that an entry of a cell in a draw is at most `y`, units of the data.
fn up_to(fit: &BsvdFit, draw: &BsvdState, (i, j): (usize, usize), y: f64) -> f64 {
    let (x, sd) = (latent(fit, draw, i, j), noise_sd(draw, i, j));
    let (centre, scale) = fit.units();
    match fit.config.likelihood {
        Likelihood::Gaussian => normal_cdf(((y - centre) / scale - x) / sd),
        Likelihood::Ordinal { levels } => match y.floor() {
            l if l < 1.0 => 0.0,
            l if l >= f64::from(levels) => 1.0,
            l => normal_cdf((draw.thresholds[l as usize - 1] - x) / sd),
        },
        _ if y < 0.0 => 0.0,
        _ if y < 1.0 => normal_cdf(-x),
        _ => 1.0,
    }
}

/// Mean and variance of an entry of a cell in a draw.
fn moments(fit: &BsvdFit, draw: &BsvdState, cell: (usize, usize)) -> (f64, f64) {
    if fit.config.likelihood == Likelihood::Gaussian {
        let (centre, scale) = fit.units();
        let sd = scale * noise_sd(draw, cell.0, cell.1);
        return (centre + scale * latent(fit, draw, cell.0, cell.1), sd * sd);
    }
    let (mut mean, mut square) = (0.0, 0.0);
    for level in levels(fit.config.likelihood) {
        let p = up_to(fit, draw, cell, level) - up_to(fit, draw, cell, level - 1.0);
        mean += level * p;
        square += level * level * p;
    }
    (mean, square - mean * mean)
}

/// Density, or probability, of an entry of a cell in a draw.
fn density(fit: &BsvdFit, draw: &BsvdState, cell: (usize, usize), y: f64) -> f64 {
    if fit.config.likelihood != Likelihood::Gaussian {
        return up_to(fit, draw, cell, y) - up_to(fit, draw, cell, y - 1.0);
    }
    let (mean, variance) = moments(fit, draw, cell);
    (-0.5 * (y - mean).powi(2) / variance).exp() / (2.0 * std::f64::consts::PI * variance).sqrt()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn sd(values: &[f64]) -> f64 {
    let squares: f64 = values.iter().map(|v| (v - mean(values)).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

/// Quantile, linear between order statistics.
fn quantile(values: &[f64], level: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = level * (sorted.len() - 1) as f64;
    let below = at as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (at - below as f64) * (sorted[above] - sorted[below])
}

fn close(found: f64, wanted: f64, tolerance: f64) {
    let apart = (found - wanted).abs();
    assert!(
        apart <= tolerance * wanted.abs().max(1.0),
        "{found} {wanted}"
    );
}
