//! The finite mixture by EM.

use npb_data::{Labels, Table};
use npb_infer::{Stop, VbLimits};
use npb_iqgme::{Init, IqgmeConfig, IqgmeData, IqgmeVb, Mixture, QgmeConfig, QgmeFit, fit_qgme};
use npb_priors::special::{log_sum_exp, normal_cdf};

use super::single::in_units;
use super::written_out::{
    Part, Row, Square, apart, classes, inverse, ln_density, moments, parts_of, square, standardised,
};
use crate::data::three_gaussians;

fn config(max_iterations: u64, tolerance: f64) -> QgmeConfig {
    QgmeConfig {
        components: 3,
        restarts: 2,
        covariance_rows: 0.8,
        expert_ridge: 0.35,
        limits: VbLimits {
            max_iterations,
            tolerance,
        },
        seed: 5,
    }
}

#[test]
fn answers_are_those_of_the_parameters() {
    let (table, labels) = three_gaussians(71, 90, 1, 0.2, 0.1);
    let (new, _) = three_gaussians(72, 16, 1, 0.35, 0.3);
    let (table, new) = (in_units(&table), in_units(&new));
    let fitted = fit_qgme(&table, &labels, &config(80, 1e-6)).unwrap();
    let (rows, units) = (standardised(&table, &new), table.column_stats());
    let parts = parts_of(fitted.mixture());
    let density = fitted.ln_density(&new).unwrap();
    let both = fitted.predict_classes(&new).unwrap();
    let second = fitted.predict_proba(&new).unwrap();
    let names = fitted.predict(&new).unwrap();
    let cells = fitted.cells_by_row(&new).unwrap();
    let imputed = fitted.impute(&new).unwrap();
    for (i, row) in rows.iter().enumerate() {
        let observed = (0..3).filter(|&j| row[j].is_some());
        let jacobian: f64 = observed.map(|j| units[j].sd.ln()).sum();
        let ln = ln_density(&parts, row) - jacobian;
        assert!((density[i] - ln).abs() < 1e-9, "{i}");
        let p = classes(&parts, row, false);
        assert!(apart(&both[i], &p) < 1e-9, "{i}: {:?} {p:?}", both[i]);
        assert_eq!(
            (second[i], names[i]),
            (both[i][1], &*fitted.classes()[usize::from(p[1] > p[0])])
        );
        let missing = (0..3).filter(|&j| row[j].is_none());
        for ((j, cell), [mean, second]) in missing.zip(&cells[i]).zip(moments(&parts, row)) {
            let sd = (second - mean * mean).sqrt() * units[j].sd;
            let mean = units[j].mean + units[j].sd * mean;
            assert!((cell.mean - mean).abs() < 1e-9 * units[j].sd, "{i} {j}");
            assert!((cell.sd / sd - 1.0).abs() < 1e-9, "{i} {j}");
            assert_eq!(imputed.completed.get(i, j), Some(cell.mean));
            assert_eq!(imputed.sd.get(i, j), Some(cell.sd));
            // Normal terms: the share below a value is a sum of normal distribution functions.
            let at = cell.mean + 0.7 * cell.sd;
            let below = cell
                .terms
                .iter()
                .map(|t| t.weight * normal_cdf((at - t.mean) / t.sd));
            assert!((cell.cdf(at) - below.sum::<f64>()).abs() < 1e-12);
        }
    }
}

/// The covariance of all rows, of which a Wishart prior with two more degrees of freedom than columns expects its scale to be.
fn covariance(table: &Table, labels: &Labels) -> Square {
    let config = IqgmeConfig {
        dof_excess: 2.0,
        dof_per_feature: 0.0,
        ..IqgmeConfig::default()
    };
    let data = IqgmeData::new(table, labels, &config).unwrap();
    let vb = IqgmeVb::new(&data, config, Init::KMeans(1), 0).unwrap();
    let found = square(&vb.prior_scale_inverse());
    let rows = standardised(table, table);
    let n = rows.len() as f64;
    let plain = rows.iter().map(|row| row[0].unwrap() * row[1].unwrap());
    // Drawn a little towards a diagonal one.
    assert!((found[0][1] - plain.sum::<f64>() / n).abs() < 0.1);
    assert!((0..2).all(|j| (found[j][j] - 1.0).abs() < 0.05));
    found
}

/// The log likelihood of rows and labels, less the penalties: `covariance_rows` rows for each feature with the covariance of all, and a ridge.
fn objective(mixture: &Mixture, table: &Table, labels: &Labels, positive: &str) -> f64 {
    let (parts, p) = (parts_of(mixture), table.n_cols());
    let rows = standardised(table, table);
    let ln_row = |(i, row): (usize, &Row)| {
        let ln = |part: &Part| {
            let score = || {
                let (mean, spread) = part.utilities(row, false);
                mean[0] / spread[0][0].sqrt()
            };
            let label = labels.name(i).map_or(0.0, |name| {
                let sign = if name == positive { 1.0 } else { -1.0 };
                normal_cdf(sign * score()).ln()
            });
            part.weight.ln() + part.ln_density(row) + label
        };
        log_sum_exp(&parts.iter().map(ln).collect::<Vec<_>>())
    };
    let likelihood: f64 = rows.iter().enumerate().map(ln_row).sum();
    let covariance = covariance(table, labels);
    let cell = |i: usize, j: usize| covariance[i][j];
    let mut penalty = 0.0;
    for component in &mixture.components {
        let precision = square(&component.precision);
        let (_, ln_det) = inverse(&precision);
        let trace: f64 = (0..p)
            .map(|i| (0..p).map(|j| precision[i][j] * cell(i, j)).sum::<f64>())
            .sum();
        penalty += 0.5 * 0.8 * p as f64 * (ln_det - trace);
    }
    for w in &mixture.experts {
        penalty -= 0.5 * 0.35 * w.iter().map(|w| w * w).sum::<f64>();
    }
    likelihood + penalty
}

/// What is maximised, and that it is: at the parameters found every step aside lowers it.
#[test]
fn parameters_are_where_the_penalised_likelihood_is_highest() {
    let (table, labels) = three_gaussians(73, 120, 0, 0.0, 0.2);
    let fitted = fit_qgme(&table, &labels, &config(3000, 1e-13)).unwrap();
    let positive = &fitted.classes()[1];
    let best = objective(fitted.mixture(), &table, &labels, positive);
    let last = fitted.trace().last().unwrap().elbo;
    assert!((best - last).abs() < 1e-7 * last.abs(), "{best} {last}");
    let mut steps: Vec<Mixture> = Vec::new();
    for h in 0..3 {
        for by in [-0.02, 0.02] {
            for j in 0..2 {
                let mut moved = fitted.mixture().clone();
                moved.components[h].mean[j] += by;
                steps.push(moved);
                let mut wider = fitted.mixture().clone();
                wider.components[h].precision[(j, j)] *= 1.0 + 2.0 * by;
                steps.push(wider);
            }
            for p in 0..3 {
                let mut turned = fitted.mixture().clone();
                turned.experts[h][p] += 3.0 * by;
                steps.push(turned);
            }
            let mut heavier = fitted.mixture().clone();
            heavier.weights[h] *= 1.0 + by;
            let total: f64 = heavier.weights.iter().sum();
            heavier.weights.iter_mut().for_each(|w| *w /= total);
            steps.push(heavier);
        }
    }
    for (k, step) in steps.iter().enumerate() {
        let there = objective(step, &table, &labels, positive);
        assert!(there < best, "step {k}: {there} {best}");
    }
}

/// The start that ends highest is kept, runs end at the limit or where little changes, and no more components are made than were asked for.
#[test]
fn the_best_of_the_starts_is_kept_within_the_limits() {
    let (table, labels) = three_gaussians(74, 60, 0, 0.1, 0.2);
    let last = |fitted: &QgmeFit| fitted.trace().last().unwrap().elbo;
    let with = |restarts: usize, seed: u64| {
        let config = QgmeConfig {
            components: 5,
            restarts,
            seed,
            ..config(40, 1e-15)
        };
        fit_qgme(&table, &labels, &config).unwrap()
    };
    let heights =
        |restarts: usize| -> Vec<f64> { (0..8).map(|seed| last(&with(restarts, seed))).collect() };
    let (one, more) = (heights(1), heights(4));
    assert!(one.iter().zip(&more).all(|(one, more)| more >= one));
    assert!(
        one.iter().zip(&more).any(|(one, more)| more > one),
        "{one:?} {more:?}"
    );
    assert!(one.iter().any(|height| *height != one[0]));
    let fitted = with(1, 3);
    assert_eq!(
        (fitted.trace().len(), fitted.stop()),
        (40, Stop::MaxIterations)
    );
    assert_eq!(fitted.mixture().components.len(), 5);
    assert!((fitted.mixture().weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    let soon = fit_qgme(&table, &labels, &config(500, 1e-3)).unwrap();
    assert!(matches!(soon.stop(), Stop::Converged { rel_change } if rel_change < 1e-3));
    assert!(soon.trace().len() < 40);
}

/// Draws of a row whose cells are all missing: moments of the mixture, and cells that belong together.
#[test]
fn completed_rows_have_the_second_moments_of_the_mixture() {
    let (table, labels) = three_gaussians(75, 90, 0, 0.1, 0.2);
    let fitted = fit_qgme(&table, &labels, &config(60, 1e-6)).unwrap();
    let empty = Table::new(1, 2, vec![0.0; 2], &[false; 2]).unwrap();
    let draws = fitted.impute_draws(&empty, 8000).unwrap();
    let units = table.column_stats();
    let parts = parts_of(fitted.mixture());
    let (mut found, mut wanted) = (0.0, 0.0);
    for part in &parts {
        wanted += part.weight * (part.scale[0][1] + part.mean[0] * part.mean[1]);
    }
    for draw in &draws {
        let [a, b] = [0, 1].map(|j| (draw.get(0, j).unwrap() - units[j].mean) / units[j].sd);
        found += a * b / 8000.0;
    }
    assert!((found - wanted).abs() < 0.05, "{found} {wanted}");
}
