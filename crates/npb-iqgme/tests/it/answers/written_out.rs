//! The formulas: densities, conditional laws and class probabilities of one row of a mixture of experts, by dense algebra on a few numbers.

use std::f64::consts::PI;

use npb_data::Table;
use npb_infer::ensemble::Calibration;
use npb_iqgme::{Component, Expert, Mixture};
use npb_linalg::faer::Mat;
use npb_priors::special::{ln_gamma, log_sum_exp, normal_cdf};

pub(super) type Square = Vec<Vec<f64>>;

pub(super) fn square(m: &Mat<f64>) -> Square {
    let row = |i: usize| (0..m.ncols()).map(|j| m[(i, j)]).collect();
    (0..m.nrows()).map(row).collect()
}

fn times(m: &Square, by: f64) -> Square {
    let row = |row: &Vec<f64>| row.iter().map(|x| x * by).collect();
    m.iter().map(row).collect()
}

fn part(m: &Square, rows: &[usize], columns: &[usize]) -> Square {
    let row = |&i: &usize| columns.iter().map(|&j| m[i][j]).collect();
    rows.iter().map(row).collect()
}

/// Inverse and logarithm of the determinant, by elimination.
pub(super) fn inverse(m: &Square) -> (Square, f64) {
    let n = m.len();
    let mut left = m.clone();
    let mut right: Square = (0..n)
        .map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect())
        .collect();
    let mut ln_det = 0.0;
    for k in 0..n {
        let pivot = left[k][k];
        ln_det += pivot.ln();
        for j in 0..n {
            left[k][j] /= pivot;
            right[k][j] /= pivot;
        }
        for i in (0..n).filter(|&i| i != k) {
            let by = left[i][k];
            for j in 0..n {
                left[i][j] -= by * left[k][j];
                right[i][j] -= by * right[k][j];
            }
        }
    }
    (right, ln_det)
}

pub(super) fn quadratic(m: &Square, a: &[f64], b: &[f64]) -> f64 {
    let row = |(row, a): (&Vec<f64>, &f64)| a * row.iter().zip(b).map(|(m, b)| m * b).sum::<f64>();
    m.iter().zip(a).map(row).sum()
}

/// A row in the units of a fit; none where a cell is missing.
pub(super) type Row = Vec<Option<f64>>;

/// The rows of a table in standard deviations from the means of another one.
pub(super) fn standardised(of: &Table, table: &Table) -> Vec<Row> {
    let units = of.column_stats();
    let cell = |i: usize, j: usize| table.get(i, j).map(|x| (x - units[j].mean) / units[j].sd);
    let row = |i: usize| (0..table.n_cols()).map(|j| cell(i, j)).collect();
    (0..table.n_rows()).map(row).collect()
}

/// One component: a Student-t law of the features, or a normal one, and its experts.
pub(super) struct Part {
    pub(super) weight: f64,
    pub(super) mean: Vec<f64>,
    /// Of a normal law the covariance.
    pub(super) scale: Square,
    /// Infinite for a normal law.
    pub(super) dof: f64,
    /// Means and, where these are not known, covariances.
    pub(super) experts: Vec<(Vec<f64>, Option<Square>)>,
}

/// The missing features of a row under a component.
pub(super) struct Given {
    pub(super) missing: Vec<usize>,
    pub(super) mean: Vec<f64>,
    pub(super) scale: Square,
    pub(super) dof: f64,
}

impl Given {
    /// Variance of the `k`-th.
    pub(super) fn variance(&self, k: usize) -> f64 {
        let more = match self.dof {
            f64::INFINITY => 1.0,
            dof => dof / (dof - 2.0),
        };
        more * self.scale[k][k]
    }
}

fn split(row: &Row) -> (Vec<usize>, Vec<usize>) {
    (0..row.len()).partition(|&j| row[j].is_some())
}

impl Part {
    fn deviations(&self, observed: &[usize], row: &Row) -> Vec<f64> {
        let each = observed.iter();
        each.map(|&j| row[j].unwrap() - self.mean[j]).collect()
    }

    /// Of what is observed.
    pub(super) fn ln_density(&self, row: &Row) -> f64 {
        let (observed, _) = split(row);
        let n = observed.len() as f64;
        let (precision, ln_det) = inverse(&part(&self.scale, &observed, &observed));
        let away = self.deviations(&observed, row);
        let distance = quadratic(&precision, &away, &away);
        match self.dof {
            f64::INFINITY => -0.5 * (n * (2.0 * PI).ln() + ln_det + distance),
            dof => {
                ln_gamma(0.5 * (dof + n))
                    - ln_gamma(0.5 * dof)
                    - 0.5 * (n * (dof * PI).ln() + ln_det)
                    - 0.5 * (dof + n) * (1.0 + distance / dof).ln()
            }
        }
    }

    pub(super) fn given(&self, row: &Row) -> Given {
        let (observed, missing) = split(row);
        let (precision, _) = inverse(&part(&self.scale, &observed, &observed));
        let away = self.deviations(&observed, row);
        let across = part(&self.scale, &missing, &observed);
        let mean = missing.iter().zip(&across);
        let mean = mean.map(|(&j, a)| self.mean[j] + quadratic(&precision, a, &away));
        let (more, dof) = match self.dof {
            f64::INFINITY => (1.0, f64::INFINITY),
            dof => {
                let n = observed.len() as f64;
                let distance = quadratic(&precision, &away, &away);
                ((dof + distance) / (dof + n), dof + n)
            }
        };
        let cell = |k: usize, l: usize| {
            let explained = quadratic(&precision, &across[k], &across[l]);
            more * (self.scale[missing[k]][missing[l]] - explained)
        };
        let n = missing.len();
        Given {
            mean: mean.collect(),
            scale: (0..n)
                .map(|k| (0..n).map(|l| cell(k, l)).collect())
                .collect(),
            dof,
            missing,
        }
    }

    /// Means and covariances of the utilities of a row, whose features are normal.
    pub(super) fn utilities(&self, row: &Row, uncertain: bool) -> (Vec<f64>, Square) {
        assert_eq!(self.dof, f64::INFINITY);
        let p = row.len();
        let given = self.given(row);
        let mut full: Vec<f64> = row.iter().map(|x| x.unwrap_or(0.0)).collect();
        let mut covariance = vec![vec![0.0; p + 1]; p + 1];
        for (k, &j) in given.missing.iter().enumerate() {
            full[j] = given.mean[k];
            for (l, &i) in given.missing.iter().enumerate() {
                covariance[j][i] = given.scale[k][l];
            }
        }
        full.push(1.0);
        let score = |(w, _): &(Vec<f64>, Option<Square>)| {
            w.iter().zip(&full).map(|(w, x)| w * x).sum::<f64>()
        };
        let n = self.experts.len();
        let mut spread = vec![vec![0.0; n]; n];
        for (k, (w, own)) in self.experts.iter().enumerate() {
            for (l, (other, _)) in self.experts.iter().enumerate() {
                spread[k][l] = quadratic(&covariance, w, other);
            }
            spread[k][k] += 1.0;
            if let (true, Some(own)) = (uncertain, own) {
                spread[k][k] += quadratic(own, &full, &full);
                for i in 0..=p {
                    spread[k][k] += (0..=p).map(|j| own[i][j] * covariance[j][i]).sum::<f64>();
                }
            }
        }
        (self.experts.iter().map(score).collect(), spread)
    }
}

/// Logarithms of weights times densities.
pub(super) fn ln_joint(parts: &[Part], row: &Row) -> Vec<f64> {
    let each = parts.iter();
    each.map(|part| part.weight.ln() + part.ln_density(row))
        .collect()
}

pub(super) fn ln_density(parts: &[Part], row: &Row) -> f64 {
    log_sum_exp(&ln_joint(parts, row))
}

pub(super) fn responsibilities(parts: &[Part], row: &Row) -> Vec<f64> {
    let ln = ln_joint(parts, row);
    let total = log_sum_exp(&ln);
    ln.iter().map(|ln| (ln - total).exp()).collect()
}

/// First and second moments of the missing features of a row: by feature.
pub(super) fn moments(parts: &[Part], row: &Row) -> Vec<[f64; 2]> {
    let mut sums = vec![[0.0; 2]; row.iter().filter(|x| x.is_none()).count()];
    for (part, weight) in parts.iter().zip(responsibilities(parts, row)) {
        let given = part.given(row);
        for (k, sum) in sums.iter_mut().enumerate() {
            sum[0] += weight * given.mean[k];
            sum[1] += weight * (given.variance(k) + given.mean[k] * given.mean[k]);
        }
    }
    sums
}

/// The share of its distribution that a missing feature has below each of some values, by summing the joint density along it.
pub(super) fn below(parts: &[Part], row: &Row, feature: usize, values: &[f64]) -> Vec<f64> {
    let step = 0.01;
    let grid = (-6000..6000).map(|k| step * (f64::from(k) + 0.5));
    let density = |x: f64| {
        let mut row = row.clone();
        row[feature] = Some(x);
        ln_density(parts, &row).exp()
    };
    let points: Vec<(f64, f64)> = grid.map(|x| (x, density(x))).collect();
    let total: f64 = points.iter().map(|(_, d)| d).sum();
    let share = |value: &f64| {
        // Of the cell of the grid in which the value lies a part.
        let part = |x: f64| ((value - x) / step + 0.5).clamp(0.0, 1.0);
        points.iter().map(|(x, d)| part(*x) * d).sum::<f64>() / total
    };
    values.iter().map(share).collect()
}

/// Probabilities of all classes: with one utility as its normal law has it, with two by summing over one of them.
pub(super) fn classes(parts: &[Part], row: &Row, uncertain: bool) -> Vec<f64> {
    let n = parts[0].experts.len() + 1;
    let mut sums = vec![0.0; n];
    for (part, weight) in parts.iter().zip(responsibilities(parts, row)) {
        if weight < 1e-12 {
            continue;
        }
        let (means, spread) = part.utilities(row, uncertain);
        let own = match n {
            2 => {
                let second = normal_cdf(means[0] / spread[0][0].sqrt());
                vec![1.0 - second, second]
            }
            _ => largest_of_three(&means, &spread),
        };
        sums.iter_mut()
            .zip(own)
            .for_each(|(sum, p)| *sum += weight * p);
    }
    sums
}

/// Zero and two utilities: which is the largest. The second one is integrated out given the first, which is summed over.
fn largest_of_three(means: &[f64], spread: &Square) -> Vec<f64> {
    const STEPS: i32 = 4000;
    let (mut sums, mut total) = (vec![0.0; 3], 0.0);
    let slope = spread[0][1] / spread[0][0];
    let sd = (spread[1][1] - slope * spread[0][1]).sqrt();
    for k in 0..STEPS {
        let z = 16.0 * (f64::from(k) + 0.5) / f64::from(STEPS) - 8.0;
        let away = spread[0][0].sqrt() * z;
        let (first, second) = (means[0] + away, means[1] + slope * away);
        let density = (-0.5 * z * z).exp();
        let below = normal_cdf((first.max(0.0) - second) / sd);
        sums[usize::from(first > 0.0)] += density * below;
        sums[2] += density * (1.0 - below);
        total += density;
    }
    sums.iter().map(|sum| sum / total).collect()
}

/// Probabilities of classes as a member's calibration has them.
pub(super) fn calibrated(by: &Calibration, p: &[f64]) -> Vec<f64> {
    let offset = |k: usize| by.class_offset.get(k).copied().unwrap_or(0.0);
    let odds = |(k, p): (usize, &f64)| offset(k).exp() * p.powf(by.inverse_temperature);
    let all: Vec<f64> = p.iter().enumerate().map(odds).collect();
    let total: f64 = all.iter().sum();
    all.iter().map(|p| p / total).collect()
}

/// Weights that sticks with these parameters leave on average.
pub(super) fn weights_of_sticks(sticks: &[[f64; 2]]) -> Vec<f64> {
    let (mut rest, mut weights) = (1.0, Vec::new());
    for [a, b] in sticks {
        weights.push(rest * a / (a + b));
        rest *= b / (a + b);
    }
    weights.push(rest);
    weights
}

/// Components of a posterior as new rows see them: Student-t with the uncertainty of mean and covariance, or normal at the means of both.
pub(super) fn parts(
    components: &[Component],
    weights: &[f64],
    experts: &[Expert],
    student: bool,
) -> Vec<Part> {
    let n_experts = experts.len() / components.len();
    let part = |(h, component): (usize, &Component)| {
        let (u, nu, p) = (
            component.strength,
            component.dof,
            component.mean.len() as f64,
        );
        let (by, dof) = match student {
            true => ((u + 1.0) / (u * (nu - p + 1.0)), nu - p + 1.0),
            false => (1.0 / nu, f64::INFINITY),
        };
        let experts = experts[h * n_experts..][..n_experts].iter();
        Part {
            weight: weights[h],
            mean: component.mean.clone(),
            scale: times(&square(&component.scale_inverse), by),
            dof,
            experts: experts
                .map(|e| (e.mean.clone(), Some(square(&e.covariance))))
                .collect(),
        }
    };
    components.iter().enumerate().map(part).collect()
}

/// Components whose parameters are points.
pub(super) fn parts_of(mixture: &Mixture) -> Vec<Part> {
    let n = mixture.components.len();
    let n_experts = mixture.experts.len() / n;
    let part = |h: usize| {
        let experts = mixture.experts[h * n_experts..][..n_experts].iter();
        Part {
            weight: mixture.weights[h],
            mean: mixture.components[h].mean.clone(),
            scale: inverse(&square(&mixture.components[h].precision)).0,
            dof: f64::INFINITY,
            experts: experts.map(|w| (w.clone(), None)).collect(),
        }
    };
    (0..n).map(part).collect()
}

/// Largest difference of two lists of numbers, in units of the larger one where that is more than one.
pub(super) fn apart(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let each = a.iter().zip(b);
    each.map(|(a, b)| (a - b).abs() / a.abs().max(1.0))
        .fold(0.0, f64::max)
}
