//! New rows and columns: the same exact conditionals for both sides.

use npb_bsvd::npb_priors::special::normal_cdf;
use npb_bsvd::{BsvdConfig, BsvdFit, BsvdState, Cells, Features, Folded, Likelihood};
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;

use super::{Example, LIKELIHOODS, close, config, mean, sd};

/// Rows and columns whose noise and spread are those of all.
fn plain(likelihood: Likelihood, keep: u64) -> BsvdConfig {
    BsvdConfig {
        row_noise: false,
        column_noise: false,
        row_factor_precision: false,
        column_factor_precision: false,
        ..config(likelihood, 40, keep)
    }
}

/// What a new row (or column) has to do with a column (or row) in a draw: what of the cell it has no part in, and what its numbers are multiplied with.
fn meets(fit: &BsvdFit, draw: &BsvdState, row: bool, at: usize, own: &[f64]) -> (f64, Vec<f64>) {
    let (other, features) = match row {
        true => (&draw.columns, &fit.side().columns),
        false => (&draw.rows, &fit.side().rows),
    };
    let (rank, q) = (draw.rank(), own.len());
    let effects = &other.coefficients[at * q..(at + 1) * q];
    let effect: f64 = effects
        .iter()
        .zip(own)
        .map(|(g, x)| f64::from(*g) * x)
        .sum();
    let known = draw.offset + f64::from(other.intercepts[at]) + effect;
    let mut line: Vec<f64> = (0..rank)
        .map(|k| draw.scales[k] * f64::from(other.factors[at * rank + k]))
        .collect();
    line.push(1.0);
    let features = features.as_ref().unwrap();
    let mut theirs = vec![0.0f32; features.n_features()];
    features.write(at, &mut theirs);
    line.extend(theirs.iter().map(|x| f64::from(*x)));
    (known, line)
}

/// Prior means and variances of the numbers of a new row (or column) with these features.
fn prior(draw: &BsvdState, row: bool, own: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let side = if row { &draw.rows } else { &draw.columns };
    let linked = |k: usize| -> f64 {
        let links = &side.links[k * own.len()..(k + 1) * own.len()];
        links.iter().zip(own).map(|(b, x)| b * x).sum()
    };
    let mut means: Vec<f64> = (0..draw.rank())
        .map(|k| side.factor_mean[k] + linked(k))
        .collect();
    means.push(0.0);
    means.extend(&side.coefficient_mean);
    let mut variances = vec![1.0; draw.rank()];
    variances.push(1.0 / side.intercept_precision);
    variances.extend(side.coefficient_precision.iter().map(|p| 1.0 / p));
    (means, variances)
}

/// Mean and variance of the latent value at `at` given Gaussian entries, by the covariance of values.
fn exact(
    fit: &BsvdFit,
    draw: &BsvdState,
    row: bool,
    entries: &[(usize, f64)],
    own: &[f64],
    at: usize,
) -> (f64, f64) {
    let (means, variances) = prior(draw, row, own);
    let inner = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let covariance =
        |a: &[f64], b: &[f64]| -> f64 { (0..a.len()).map(|k| a[k] * variances[k] * b[k]).sum() };
    let lines: Vec<(f64, Vec<f64>)> = entries
        .iter()
        .map(|e| meets(fit, draw, row, e.0, own))
        .collect();
    let (known, target) = meets(fit, draw, row, at, own);
    let (centre, scale) = fit.units();
    let n = entries.len();
    let matrix = Mat::from_fn(n, n, |a, b| {
        let noise = if a == b {
            1.0 / draw.noise_precision
        } else {
            0.0
        };
        covariance(&lines[a].1, &lines[b].1) + noise
    });
    let mut g: Vec<f64> = lines
        .iter()
        .map(|line| covariance(&line.1, &target))
        .collect();
    let residual = |((_, y), (known, line)): (&(usize, f64), &(f64, Vec<f64>))| {
        (y - centre) / scale - known - inner(line, &means)
    };
    let mut r: Vec<f64> = entries.iter().zip(&lines).map(residual).collect();
    if n > 0 {
        let factor = Cholesky::new(matrix.as_ref()).unwrap();
        factor.solve_l(&mut g);
        factor.solve_l(&mut r);
    }
    let mean = known + inner(&target, &means) + inner(&g, &r);
    (mean, covariance(&target, &target) - inner(&g, &g))
}

#[test]
fn new_rows_and_columns_have_their_exact_conditionals() {
    let example = Example::new(Likelihood::Gaussian, 31);
    let fit = example.fitted(&Cells::default(), &plain(Likelihood::Gaussian, 80));
    let (centre, scale) = fit.units();
    for row in [true, false] {
        let own: &[f64] = if row { &[0.8, -1.3] } else { &[1.1] };
        for entries in [&[][..], &[(2, 45.0)], &[(0, 35.0), (9, 52.0), (4, 41.0)]] {
            let folded = match row {
                true => fit.fold_in_row(entries, own),
                false => fit.fold_in_column(entries, own),
            };
            let folded: Folded<'_> = folded.unwrap();
            for at in [4, 7] {
                let values = folded.cell(at).unwrap().values();
                let mut ratio = 0.0;
                for (draw, pair) in fit.draws().iter().zip(values.chunks_exact(2)) {
                    let (mean, variance) = exact(&fit, draw, row, entries, own, at);
                    let middle = 0.5 * (pair[0] + pair[1]);
                    close(middle, centre + scale * mean, 1e-5);
                    ratio += (pair[0] - middle).powi(2) / (scale * scale * variance) / 80.0;
                }
                // A mean of 80 squared standard normals has a standard deviation of .16.
                assert!((ratio - 1.0).abs() < 0.65, "{row} {at}: {ratio}");
                let predicted = folded.predict(at).unwrap();
                close(predicted.mean, mean(&values), 1e-9);
                close(predicted.sd, sd(&values), 1e-9);
                let noise = fit
                    .draws()
                    .iter()
                    .map(|d| scale * scale / d.noise_precision);
                let noise = mean(&noise.collect::<Vec<f64>>());
                close(
                    predicted.predictive_sd,
                    (sd(&values).powi(2) + noise).sqrt(),
                    1e-9,
                );
            }
            let listed = folded.top(3, &[1, 5]).unwrap();
            let n = if row { 11 } else { 14 };
            let at = |j: usize| folded.cell(j).unwrap().mean();
            let mut order: Vec<usize> = (0..n).filter(|j| ![1, 5].contains(j)).collect();
            order.sort_by(|&a, &b| at(b).total_cmp(&at(a)));
            for (found, &j) in listed.iter().zip(&order) {
                assert_eq!(found.index, j);
                close(found.mean, at(j), 1e-6);
                close(found.sd, folded.cell(j).unwrap().sd(), 1e-6);
            }
        }
    }
}

/// One entry of levels or successes: a cell's latent value is normal before, and weighed by what was seen after. Without entries it is the prior's.
#[test]
fn one_entry_of_levels_or_successes_moves_its_cell_as_it_should() {
    for likelihood in LIKELIHOODS.into_iter().skip(1) {
        let example = Example::new(likelihood, 32);
        let fit = example.fitted(&Cells::default(), &plain(likelihood, 1000));
        for row in [true, false] {
            let own: &[f64] = if row { &[0.8, -1.3] } else { &[1.1] };
            let at = 4;
            let folded = |seen: bool| -> Folded<'_> {
                let found = match (likelihood, row) {
                    (Likelihood::Binomial, true) => fit
                        .fold_in_row_successes(if seen { &[(4, 9, 10)][..] } else { &[][..] }, own),
                    (Likelihood::Binomial, false) => fit.fold_in_column_successes(
                        if seen { &[(4, 9, 10)][..] } else { &[][..] },
                        own,
                    ),
                    (_, true) => fit.fold_in_row(if seen { &[(4, 1.0)][..] } else { &[][..] }, own),
                    (_, false) => {
                        fit.fold_in_column(if seen { &[(4, 1.0)][..] } else { &[][..] }, own)
                    }
                };
                found.unwrap()
            };
            let (mut before, mut after) = (0.0, 0.0);
            for draw in fit.draws() {
                let (m, v) = exact(&fit, draw, row, &[], own, at);
                let level_mean = |x: f64| match likelihood {
                    Likelihood::Ordinal { .. } => {
                        1.0 + draw
                            .thresholds
                            .iter()
                            .map(|t| normal_cdf(x - t))
                            .sum::<f64>()
                    }
                    _ => normal_cdf(x),
                };
                let likelihood_at = |x: f64| match likelihood {
                    Likelihood::Ordinal { .. } => normal_cdf(-x),
                    Likelihood::Binary => normal_cdf(x),
                    _ => normal_cdf(x).powi(9) * normal_cdf(-x),
                };
                let (mut mass, mut first, mut weight, mut weighed) = (0.0, 0.0, 0.0, 0.0);
                for step in -300..=300 {
                    let z = f64::from(step) / 50.0;
                    let x = m + v.sqrt() * z;
                    let density = (-0.5 * z * z).exp();
                    (mass, first) = (mass + density, first + density * level_mean(x));
                    let density = density * likelihood_at(x);
                    (weight, weighed) = (weight + density, weighed + density * level_mean(x));
                }
                before += first / mass / 1000.0;
                after += weighed / weight / 1000.0;
            }
            let found = [false, true].map(|seen| folded(seen).cell(at).unwrap().mean());
            let unit = if matches!(likelihood, Likelihood::Ordinal { .. }) {
                3.0
            } else {
                1.0
            };
            // Pairs of draws on both sides of a mean, 1000 of them; given entries a chain.
            assert!(
                (found[0] - before).abs() < 0.03 * unit,
                "{likelihood:?} {row}: {found:?} {before}"
            );
            assert!(
                (found[1] - after).abs() < 0.04 * unit,
                "{likelihood:?} {row}: {found:?} {after}"
            );
            assert!(
                (after - before).abs() > 0.05,
                "{likelihood:?} {row}: {before} {after}"
            );
        }
    }
}

/// Features of a new row are of as many numbers as those of the fit.
#[test]
fn features_of_new_rows_are_those_of_their_side() {
    let example = Example::new(Likelihood::Gaussian, 33);
    let fit = example.fitted(&Cells::default(), &plain(Likelihood::Gaussian, 3));
    let n = |features: &Option<Features>| features.as_ref().unwrap().n_features();
    assert_eq!((n(&fit.side().rows), n(&fit.side().columns)), (2, 1));
    assert!(fit.fold_in_row(&[], &[1.0]).is_err() && fit.fold_in_column(&[], &[1.0, 2.0]).is_err());
}
