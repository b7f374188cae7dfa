//! What intervals and completed tables of the variational fits hold, on simulated tables whose law is known.

use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_iqgme::npb_data::{Labels, Table};
use npb_iqgme::{IqgmeConfig, IqgmeFit, fit, fit_unlabelled};
use npb_kit::Result;
use npb_kit::validate::coverage::{LEVELS, Quantity, Share, findings};
use npb_kit::validate::{Findings, Plan};
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::special::{normal_cdf, student_t_two_sided};
use rand::RngExt;
use rand_distr::StandardNormal;

const METHOD: &str = "npb:iqgme";
/// Columns of every table.
const P: usize = 3;
/// Completed tables that are pooled.
const COMPLETED: usize = 20;

fn variance(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    squares / (n - 1.0).max(1.0)
}

fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    rng.sample(StandardNormal)
}

fn config(seed: u64) -> IqgmeConfig {
    IqgmeConfig {
        seed,
        ..IqgmeConfig::default()
    }
}

/// Two clusters of random Gaussians, each with a probit line.
struct Law {
    weights: [f64; 2],
    means: [[f64; P]; 2],
    covariances: [Mat<f64>; 2],
    /// The intercept last.
    lines: [[f64; P + 1]; 2],
}

impl Law {
    fn new(rng: &mut Xoshiro256PlusPlus) -> Self {
        let first = (0.5 + rng.random::<f64>()) / 2.0;
        let means: [[f64; P]; 2] =
            std::array::from_fn(|_| std::array::from_fn(|_| 1.5 * normal(rng)));
        let covariances = std::array::from_fn(|_| {
            let a = Mat::from_fn(P, P, |_, _| normal(rng));
            let product = &a * a.transpose();
            let own = |i, j| if i == j { 0.3 } else { 0.0 };
            Mat::from_fn(P, P, |i, j| 0.7 * product[(i, j)] / P as f64 + own(i, j))
        });
        let lines = means.map(|mean| {
            let mut line = [0.0; P + 1];
            (0..P).for_each(|j| line[j] = normal(rng));
            line[P] = 0.5 * normal(rng) - (0..P).map(|j| line[j] * mean[j]).sum::<f64>();
            line
        });
        Self {
            weights: [first, 1.0 - first],
            means,
            covariances,
            lines,
        }
    }

    /// Features and class of a row.
    fn row(&self, rng: &mut Xoshiro256PlusPlus) -> Result<([f64; P], usize)> {
        let h = usize::from(rng.random::<f64>() > self.weights[0]);
        let mut x: [f64; P] = std::array::from_fn(|_| normal(rng));
        Cholesky::new(self.covariances[h].as_ref())?.mul_l(&mut x);
        x.iter_mut().zip(self.means[h]).for_each(|(x, m)| *x += m);
        let line = &self.lines[h];
        let score = (0..P).map(|j| line[j] * x[j]).sum::<f64>() + line[P];
        Ok((x, usize::from(score + normal(rng) > 0.0)))
    }

    /// The probability of the second class given what is seen of a row.
    fn probability(&self, x: &[f64; P], seen: &[bool; P]) -> Result<f64> {
        let [known, missing] = [true, false].map(|which| {
            let own = |j: &usize| seen[*j] == which;
            (0..P).filter(own).collect::<Vec<usize>>()
        });
        let (mut total, mut sum) = (0.0, 0.0);
        for h in 0..2 {
            let (mean, s, line) = (&self.means[h], &self.covariances[h], &self.lines[h]);
            let block = Mat::from_fn(known.len(), known.len(), |i, j| s[(known[i], known[j])]);
            let factor = Cholesky::new(block.as_ref())?;
            let apart: Vec<f64> = known.iter().map(|&j| x[j] - mean[j]).collect();
            let mut solved = apart.clone();
            factor.solve(&mut solved);
            let distance: f64 = apart.iter().zip(&solved).map(|(a, b)| a * b).sum();
            let constant = known.len() as f64 * (2.0 * std::f64::consts::PI).ln();
            let ln = -0.5 * (distance + factor.ln_det() + constant);
            let weight = self.weights[h] * ln.exp();
            // What the missing features and the noise leave of the score.
            let (mut score, mut spread) = (line[P], 1.0);
            known.iter().for_each(|&j| score += line[j] * x[j]);
            let mut shared = vec![0.0; known.len()];
            for &m in &missing {
                let with = known.iter().zip(&solved).map(|(&j, b)| s[(m, j)] * b);
                score += line[m] * (mean[m] + with.sum::<f64>());
                let each = missing.iter().map(|&k| line[k] * s[(m, k)]);
                spread += line[m] * each.sum::<f64>();
                let each = shared.iter_mut().zip(&known);
                each.for_each(|(to, &j)| *to += line[m] * s[(m, j)]);
            }
            let mut explained = shared.clone();
            factor.solve(&mut explained);
            spread -= shared
                .iter()
                .zip(&explained)
                .map(|(a, b)| a * b)
                .sum::<f64>();
            total += weight;
            sum += weight * normal_cdf(score / spread.sqrt());
        }
        Ok(sum / total)
    }

    /// Rows with a fifth of the cells hidden, their classes, and the true probabilities.
    fn rows(&self, n: usize, rng: &mut Xoshiro256PlusPlus) -> Result<(Table, Labels, Vec<f64>)> {
        let (mut values, mut mask, mut codes, mut truth) = (vec![], vec![], vec![], vec![]);
        for _ in 0..n {
            let (x, class) = self.row(rng)?;
            let seen: [bool; P] = std::array::from_fn(|_| rng.random::<f64>() > 0.2);
            truth.push(self.probability(&x, &seen)?);
            codes.push(Some(class));
            values.extend((0..P).map(|j| if seen[j] { x[j] } else { 0.0 }));
            mask.extend(seen);
        }
        let classes = ["no", "yes"].map(str::to_owned).to_vec();
        let labels = Labels::from_codes(classes, codes)?;
        Ok((Table::new(n, P, values, &mask)?, labels, truth))
    }
}

/// The shares of 200 new rows whose true probability is in its interval.
fn held(n: usize, seed: u64) -> Result<[f64; 2]> {
    let rng = &mut stream(seed, [0, n as u64, 1, 0]);
    let law = Law::new(rng);
    let (table, labels, _) = law.rows(n, rng)?;
    let (new, _, truth) = law.rows(200, rng)?;
    let fitted = fit(&table, &labels, &config(seed))?;
    let mut shares = [0.0; 2];
    for (share, level) in shares.iter_mut().zip(LEVELS) {
        let intervals = fitted.predict_interval(&new, level)?;
        let both = intervals.iter().zip(&truth);
        let inside = both.filter(|(i, p)| i.lower <= **p && **p <= i.upper);
        *share = inside.count() as f64 / truth.len() as f64;
    }
    Ok(shares)
}

pub(super) fn class_intervals(plan: &Plan) -> Result<Findings> {
    let (tables, sizes): (u64, &[usize]) = plan.scale.pick(
        (2, &[60]),
        (40, &[100, 400, 2_000]),
        (1_000, &[100, 400, 2_000]),
    );
    let mut quantities = Vec::new();
    for &n in sizes {
        // Of large tables a fit takes a second.
        let tables = if n > 1_000 {
            tables.div_ceil(2)
        } else {
            tables
        };
        let by_table = (0..tables).map(|t| held(n, plan.seed * 1000 + t));
        let by_table = by_table.collect::<Result<Vec<_>>>()?;
        quantities.extend(Quantity::of_levels(&format!("{n} rows"), &by_table));
    }
    let notes = "Two clusters of random Gaussians with a probit line each, 3 columns, a fifth of the cells hidden: how often intervals of 200 new rows, with holes too, hold \
                 the true probability of the class given what is seen.";
    Ok(findings(plan, METHOD, &quantities, notes))
}

/// Three columns that share a factor, and those of their cells that are seen.
fn factor_rows(
    n: usize,
    rng: &mut Xoshiro256PlusPlus,
    seen: impl Fn(usize, &mut Xoshiro256PlusPlus) -> bool,
) -> Result<(Table, Vec<f64>)> {
    let (mut values, mut mask) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let common = normal(rng);
        for j in 0..P {
            values.push(0.7 * common + 0.51_f64.sqrt() * normal(rng));
            mask.push(seen(j, rng));
        }
    }
    let shown = values.iter().zip(&mask);
    let shown = shown
        .map(|(x, seen)| if *seen { *x } else { 0.0 })
        .collect();
    Ok((Table::new(n, P, shown, &mask)?, values))
}

/// Whether the interval of a column's mean by Rubin's rule holds the truth, and the variance between completed tables.
fn pooled(fitted: &IqgmeFit, table: &Table) -> Result<[f64; 2]> {
    let (n, m) = (table.n_rows() as f64, COMPLETED as f64);
    let (mut means, mut within) = (Vec::new(), 0.0);
    for completed in fitted.impute_draws(table, COMPLETED)? {
        let column: Vec<f64> = completed.observed_in_column(P - 1).collect();
        means.push(column.iter().sum::<f64>() / n);
        within += variance(&column) / (n * m);
    }
    let between = (1.0 + 1.0 / m) * variance(&means);
    let total = within + between;
    let dof = (m - 1.0) * (total / between).powi(2);
    let mean = means.iter().sum::<f64>() / m;
    let outside = student_t_two_sided(mean / total.sqrt(), dof) < 0.05;
    Ok([f64::from(u8::from(!outside)), variance(&means)])
}

pub(super) fn imputation(plan: &Plan) -> Result<Findings> {
    let (tables, n) = plan.scale.pick((2, 40), (150, 200), (600, 200));
    let mut found = [Vec::new(), Vec::new()];
    for t in 0..tables {
        let seed = plan.seed * 1000 + t;
        let rng = &mut stream(seed, [0, 0, 2, 0]);
        let hidden =
            |j: usize, rng: &mut Xoshiro256PlusPlus| j + 1 < P || rng.random::<f64>() > 0.6;
        let (table, _) = factor_rows(n, rng, hidden)?;
        let of_table = pooled(&fit_unlabelled(&table, &config(seed))?, &table)?;
        let each = found.iter_mut().zip(of_table);
        each.for_each(|(to, value)| to.push(value));
    }
    let [covered, between] = found;
    // About sigma^2 (m + m^2 / k) / n^2, with m cells missing of n and k seen, and sigma^2 = .68.
    let quantities = [
        Quantity {
            name: "mean of a column".to_owned(),
            metric: "coverage_95".to_owned(),
            by_table: covered,
            range: [0.92, 0.97],
        },
        Quantity {
            name: "variance between draws".to_owned(),
            metric: "variance".to_owned(),
            by_table: between,
            range: [0.0040, 0.0055],
        },
    ];
    let notes = "Three columns that share a factor, 200 rows, 60% of one column hidden: how often the 95% interval of its mean by Rubin's rule, 20 completed tables, holds 0.";
    Ok(findings(plan, METHOD, &quantities, notes))
}

pub(super) fn few_rows(plan: &Plan) -> Result<Findings> {
    let tables = plan.scale.pick(2, 100, 1_000);
    let mut by_table = Vec::new();
    for t in 0..tables {
        let seed = plan.seed * 1000 + t;
        let rng = &mut stream(seed, [0, 0, 3, 0]);
        let (table, truth) = factor_rows(15, rng, |_, rng| rng.random::<f64>() > 0.2)?;
        let cells = fit_unlabelled(&table, &config(seed))?.cells_by_row(&table)?;
        let mut share = Share::default();
        for (row, cells) in cells.iter().enumerate() {
            for cell in cells {
                let off = (cell.cdf(truth[row * P + cell.column]) - 0.5).abs();
                share.add(LEVELS.map(|level| off < 0.5 * level));
            }
        }
        by_table.extend(share.of_table());
    }
    let quantities = Quantity::of_levels("missing cells, 15 rows", &by_table);
    let notes = "Three columns that share a factor, 15 rows, a fifth of the cells hidden: how often intervals of missing cells hold them.";
    Ok(findings(plan, METHOD, &quantities, notes))
}
