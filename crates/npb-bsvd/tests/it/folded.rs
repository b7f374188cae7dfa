//! New rows and columns: against the exact conditional, and against a fit that had them.

use npb_bsvd::npb_data::{Rating, Ratings};
use npb_bsvd::{BsvdConfig, BsvdFit, BsvdState, Cells, Features, Folded, SideInformation, fit};
use npb_infer::stream;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::predicted::{config, fitted};
use crate::simulated::low_rank;

/// Columns as the new row sees them in one draw: scaled factors, a one, features.
fn regressors(fit: &BsvdFit, state: &BsvdState, j: usize) -> Vec<f64> {
    let rank = state.rank();
    let factors = &state.columns.factors[j * rank..(j + 1) * rank];
    let mut line: Vec<f64> = factors
        .iter()
        .zip(&state.scales)
        .map(|(&v, s)| f64::from(v) * s)
        .collect();
    line.push(1.0);
    if let Some(features) = &fit.side().columns {
        let mut known = vec![0.0; features.n_features()];
        features.write(j, &mut known);
        line.extend(known.iter().map(|&x| f64::from(x)));
    }
    line
}

/// Of the noise-free value at column `j` in one draw, by the other formula: n x n, prior covariance.
struct Exact {
    mean: f64,
    variance: f64,
    /// ln density of the entries, up to a constant.
    ln_evidence: f64,
}

/// `weight`, `spread`: factor of the noise precision of the new row, precision of its factors about their means.
fn exact(
    fit: &BsvdFit,
    state: &BsvdState,
    (weight, spread): (f64, f64),
    entries: &[(usize, f64)],
    features: &[f64],
    j: usize,
) -> Exact {
    let rows = &state.rows;
    let mut prior_mean = rows.factor_mean.clone();
    for (mean, links) in prior_mean.iter_mut().zip(rows.links.chunks(features.len())) {
        *mean += links.iter().zip(features).map(|(b, x)| b * x).sum::<f64>();
    }
    prior_mean.push(0.0);
    prior_mean.extend(&rows.coefficient_mean);
    let mut prior_variance = vec![spread.recip(); state.rank()];
    prior_variance.push(rows.intercept_precision.recip());
    prior_variance.extend(rows.coefficient_precision.iter().map(|p| p.recip()));
    let known = |j: usize| -> f64 {
        let q = features.len();
        let own = &state.columns.coefficients[j * q..(j + 1) * q];
        let effect: f64 = own
            .iter()
            .zip(features)
            .map(|(&g, x)| f64::from(g) * x)
            .sum();
        state.offset + f64::from(state.columns.intercepts[j]) + effect
    };
    let inner = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let covariance = |a: &[f64], b: &[f64]| -> f64 {
        (0..a.len()).map(|k| a[k] * prior_variance[k] * b[k]).sum()
    };
    let lines: Vec<Vec<f64>> = entries
        .iter()
        .map(|e| regressors(fit, state, e.0))
        .collect();
    let target = regressors(fit, state, j);
    let (centre, scale) = fit.units();
    let n = entries.len();
    let matrix = Mat::from_fn(n, n, |a, b| {
        let noise = if a == b {
            let own = state.columns.noise_weights.get(entries[a].0);
            let column = own.map_or(1.0, |&w| f64::from(w));
            (state.noise_precision * weight * column).recip()
        } else {
            0.0
        };
        covariance(&lines[a], &lines[b]) + noise
    });
    let mut g: Vec<f64> = lines.iter().map(|line| covariance(line, &target)).collect();
    let mut r: Vec<f64> = entries
        .iter()
        .zip(&lines)
        .map(|(&(j, y), line)| (y - centre) / scale - known(j) - inner(line, &prior_mean))
        .collect();
    let mut ln_evidence = 0.0;
    if n > 0 {
        let factor = Cholesky::new(matrix.as_ref()).unwrap();
        factor.solve_l(&mut g);
        factor.solve_l(&mut r);
        ln_evidence = -0.5 * (factor.ln_det() + inner(&r, &r));
    }
    let mean = known(j) + inner(&target, &prior_mean) + inner(&g, &r);
    let variance = covariance(&target, &target) - inner(&g, &g);
    Exact {
        mean: centre + scale * mean,
        variance: scale * scale * variance,
        ln_evidence,
    }
}

/// A matrix with features of rows and columns that tell something.
fn featured() -> (Ratings, SideInformation) {
    let (n, m) = (40, 30);
    let mut rng = stream(11, [0; 4]);
    let mut normals =
        |count: usize| -> Vec<f64> { (0..count).map(|_| rng.sample(StandardNormal)).collect() };
    let (rows, columns) = (normals(2 * n), normals(m));
    let (of_columns, of_rows) = (normals(2 * m), normals(n));
    let (u, v, noise) = (normals(n), normals(m), normals(n * m));
    let mut entries = Vec::new();
    for i in 0..n {
        for j in 0..m {
            if (3 * i + 5 * j) % 7 < 3 {
                continue;
            }
            let value = 3.0
                + rows[2 * i] * of_columns[2 * j]
                + rows[2 * i + 1] * of_columns[2 * j + 1]
                + columns[j] * of_rows[i]
                + u[i] * v[j]
                + 0.3 * noise[i * m + j];
            entries.push(Rating {
                row: i as u32,
                column: j as u32,
                value,
            });
        }
    }
    let side = SideInformation {
        rows: Some(Features::dense(n, 2, &rows).unwrap()),
        columns: Some(Features::dense(m, 1, &columns).unwrap()),
    };
    (Ratings::new(n, m, &entries).unwrap(), side)
}

/// A matrix of rank 1 whose rows' factors are what their features say, but for a little.
fn linked() -> (Ratings, SideInformation) {
    let (n, m) = (60, 40);
    let mut rng = stream(12, [0; 4]);
    let mut normals =
        |count: usize| -> Vec<f64> { (0..count).map(|_| rng.sample(StandardNormal)).collect() };
    let (rows, v, u, noise) = (normals(2 * n), normals(m), normals(n), normals(n * m));
    let entry = |at: usize| {
        let (i, j) = (at / m, at % m);
        let factor = 1.5 * rows[2 * i] - rows[2 * i + 1] + 0.5 * u[i];
        Rating {
            row: i as u32,
            column: j as u32,
            value: 3.0 + factor * v[j] + 0.5 * noise[at],
        }
    };
    let seen = (0..n * m).filter(|at| (3 * (at / m) + 5 * (at % m)) % 7 < 3);
    let entries: Vec<Rating> = seen.map(entry).collect();
    let side = SideInformation {
        rows: Some(Features::dense(n, 2, &rows).unwrap()),
        columns: None,
    };
    (Ratings::new(n, m, &entries).unwrap(), side)
}

#[test]
fn a_new_row_has_its_exact_conditional_in_every_draw() {
    let (ratings, side) = featured();
    let config = BsvdConfig {
        row_noise: false,
        row_factor_precision: false,
        ..config(80, 100)
    };
    let fit = fit(&ratings, side, &Cells::default(), &config).unwrap();
    assert_eq!(fit.draws()[0].columns.noise_weights.len(), 30);
    let features = [0.7, -1.2];
    for entries in [
        &[][..],
        &[(3, 4.0)],
        &[(0, 2.0), (9, 5.5), (4, 1.0), (20, 3.3)],
    ] {
        let folded = fit.fold_in_row(entries, &features).unwrap();
        for j in [4, 17] {
            let values = folded.cell(j).unwrap().values();
            let mut ratio = 0.0;
            for (draw, pair) in fit.draws().iter().zip(values.chunks_exact(2)) {
                let exact = exact(&fit, draw, (1.0, 1.0), entries, &features, j);
                // The pair lies on both sides of the exact mean, which it has to single precision.
                let middle = 0.5 * (pair[0] + pair[1]);
                assert!(
                    (middle - exact.mean).abs() < 1e-4,
                    "{middle} {}",
                    exact.mean
                );
                ratio += (pair[0] - middle).powi(2) / exact.variance / 100.0;
            }
            // A mean of 100 squared standard normals: 1, with standard deviation 0.14.
            assert!((ratio - 1.0).abs() < 0.6, "{ratio}");
        }
    }
}

/// A new row against the mixture over its noise weight and its spread, summed on a grid; the variance of its noise.
fn noise(fit: &BsvdFit, entries: &[(usize, f64)], features: &[f64]) -> f64 {
    let (mut mean, mut square, mut variance) = (0.0, 0.0, 0.0);
    for draw in fit.draws() {
        let terms = (0..40 * 16).map(|n| {
            let weight = 10f64.powf(0.12 * f64::from(n % 40) - 4.0);
            let spread = 10f64.powf(0.15 * f64::from(n / 40) - 1.5);
            let exact = exact(fit, draw, (weight, spread), entries, features, 4);
            // Of the logarithms, in which the grid is even.
            let ln_prior = |h: f64, w: f64| h * (w.ln() - w);
            let ln_prior =
                ln_prior(draw.rows.noise_shape, weight) + ln_prior(draw.rows.factor_shape, spread);
            let density = (ln_prior + exact.ln_evidence + 20.0).exp();
            let noise = (draw.noise_precision * weight).recip();
            (density, exact.mean, exact.variance, noise)
        });
        let terms: Vec<(f64, f64, f64, f64)> = terms.collect();
        let total = terms.iter().map(|t| t.0).sum::<f64>() * fit.draws().len() as f64;
        for (density, of_mean, of_variance, of_noise) in terms {
            mean += density * of_mean / total;
            square += density * (of_mean * of_mean + of_variance) / total;
            let column = f64::from(draw.columns.noise_weights[4]);
            variance += density * of_noise / column / total * fit.units().1.powi(2);
        }
    }
    let folded = fit.fold_in_row(entries, features).unwrap();
    let cell = folded.predict(4).unwrap();
    let found = cell.predictive_sd.powi(2) - cell.sd.powi(2);
    // Monte Carlo errors of 400 draws.
    assert!(
        (cell.mean - mean).abs() < 0.1 * cell.sd,
        "{} {mean}",
        cell.mean
    );
    assert!((found / variance - 1.0).abs() < 0.15, "{found} {variance}");
    let sd = (square - mean * mean).sqrt();
    assert!((cell.sd / sd - 1.0).abs() < 0.15, "{} {sd}", cell.sd);
    found
}

fn with_own_weights() -> BsvdConfig {
    BsvdConfig {
        stored_draws: 400,
        noise_shape_range: (2.0, 4.0),
        factor_precision_shape_range: (2.0, 4.0),
        ..config(100, 400)
    }
}

/// Entries that fit together and entries that do not.
#[test]
fn a_new_row_finds_out_how_noisy_it_is() {
    let (ratings, side) = featured();
    let fit = fit(&ratings, side, &Cells::default(), &with_own_weights()).unwrap();
    let row: Vec<(usize, f64)> = ratings
        .row(8)
        .0
        .iter()
        .map(|&j| j as usize)
        .zip(ratings.row(8).1.iter().copied())
        .collect();
    let shaken: Vec<(usize, f64)> = row
        .iter()
        .map(|&(j, y)| (j, y + if j % 2 == 0 { 4.0 } else { -4.0 }))
        .collect();
    let features = [0.7, -1.2];
    assert!(noise(&fit, &shaken, &features) > 2.0 * noise(&fit, &row, &features));
    // A row of which nothing is known is as noisy as its prior says.
    noise(&fit, &[], &features);
}

/// A row far out whose features say so, and whose entries agree with them: its factors are as near to their means as any.
#[test]
fn a_new_row_lies_about_what_its_features_say() {
    let (ratings, side) = linked();
    let fit = fit(&ratings, side, &Cells::default(), &with_own_weights()).unwrap();
    let features = [2.0, -2.0];
    let cold = fit.fold_in_row(&[], &features).unwrap();
    let entries = [0, 9].map(|j| (j, cold.predict(j).unwrap().mean));
    noise(&fit, &entries, &features);
}

/// Means and standard deviations of cells (row `i` of the fit, or the folded row) over some columns.
fn profile(cell: impl Fn(usize) -> npb_bsvd::Prediction, columns: &[usize]) -> Vec<(f64, f64)> {
    columns
        .iter()
        .map(|&j| cell(j))
        .map(|p| (p.mean, p.sd))
        .collect()
}

/// Mean squared difference in standard deviations, and ratio of mean variances.
fn compare(found: &[(f64, f64)], expected: &[(f64, f64)]) -> (f64, f64) {
    let n = found.len() as f64;
    let pairs = || found.iter().zip(expected);
    let difference = pairs()
        .map(|(a, b)| ((a.0 - b.0) / b.1).powi(2))
        .sum::<f64>()
        / n;
    let variance = |list: &[(f64, f64)]| list.iter().map(|p| p.1 * p.1).sum::<f64>();
    (difference, variance(found) / variance(expected))
}

/// Everything but the last row (or the last column), and what is left over.
fn without_last(ratings: &Ratings, row: bool) -> (Ratings, Vec<(usize, f64)>) {
    let (n, m) = (ratings.n_rows(), ratings.n_cols());
    let is_last = |e: &Rating| match row {
        true => e.row as usize == n - 1,
        false => e.column as usize == m - 1,
    };
    let rest: Vec<Rating> = ratings.iter().filter(|e| !is_last(e)).collect();
    let own = ratings.iter().filter(is_last);
    let own = own.map(|e| (if row { e.column } else { e.row } as usize, e.value));
    let shape = if row { (n - 1, m) } else { (n, m - 1) };
    (
        Ratings::new(shape.0, shape.1, &rest).unwrap(),
        own.collect(),
    )
}

#[test]
fn folding_in_agrees_with_a_fit_that_had_the_row() {
    let data = low_rank(12, (80, 60), 3, 0.5, 0.3);
    let refit = fitted(&data.observed, &config(200, 400));
    let (before, own) = without_last(&data.observed, true);
    let fit = fitted(&before, &config(200, 400));
    let columns: Vec<usize> = (0..60).filter(|j| own.iter().all(|e| e.0 != *j)).collect();
    let expected = profile(|j| refit.predict(79, j).unwrap(), &columns);
    let folded = |own: &[(usize, f64)]| -> Vec<(f64, f64)> {
        let folded = fit.fold_in_row(own, &[]).unwrap();
        profile(|j| folded.predict(j).unwrap(), &columns)
    };
    let (difference, variances) = compare(&folded(&own), &expected);
    // Both are means over 400 correlated draws, and the refit has learned from the row about the columns.
    assert!(difference < 0.1, "{difference}");
    assert!((variances - 1.0).abs() < 0.25, "{variances}");
    // Entries in the wrong columns are noticed.
    let (places, values): (Vec<usize>, Vec<f64>) = own.iter().copied().unzip();
    let wrong: Vec<(usize, f64)> = places.into_iter().zip(values.into_iter().rev()).collect();
    assert!(compare(&folded(&wrong), &expected).0 > 1.0);
}

#[test]
fn folding_in_agrees_with_a_fit_that_had_the_column() {
    let data = low_rank(13, (60, 80), 3, 0.5, 0.3);
    let refit = fitted(&data.observed, &config(200, 400));
    let (before, own) = without_last(&data.observed, false);
    let fit = fitted(&before, &config(200, 400));
    let folded = fit.fold_in_column(&own, &[]).unwrap();
    let rows: Vec<usize> = (0..60).filter(|i| own.iter().all(|e| e.0 != *i)).collect();
    let expected = profile(|i| refit.predict(i, 79).unwrap(), &rows);
    let (difference, variances) =
        compare(&profile(|i| folded.predict(i).unwrap(), &rows), &expected);
    assert!(difference < 0.1, "{difference}");
    assert!((variances - 1.0).abs() < 0.25, "{variances}");
}

#[test]
fn a_cold_row_is_known_by_its_features() {
    // The last row has features and no entry: in the refit it is there, empty.
    let (ratings, side) = featured();
    let (before, own) = without_last(&ratings, true);
    let entries: Vec<Rating> = before.iter().collect();
    let empty = Ratings::new(40, 30, &entries).unwrap();
    let config = config(200, 400);
    let refit = fit(&empty, side.clone(), &Cells::default(), &config).unwrap();
    let mut all = vec![0.0; 80];
    let features = side.rows.as_ref().unwrap();
    for (i, line) in all.chunks_exact_mut(2).enumerate() {
        let mut known = [0.0f32; 2];
        features.write(i, &mut known);
        line.copy_from_slice(&known.map(f64::from));
    }
    let shorter = SideInformation {
        rows: Some(Features::dense(39, 2, &all[..78]).unwrap()),
        ..side
    };
    let fit = fit(&before, shorter, &Cells::default(), &config).unwrap();
    let columns: Vec<usize> = (0..30).collect();
    let expected = profile(|j| refit.predict(39, j).unwrap(), &columns);
    let by = |features: &[f64]| -> Vec<(f64, f64)> {
        let cold = fit.fold_in_row(&[], features).unwrap();
        profile(|j| cold.predict(j).unwrap(), &columns)
    };
    let cold = by(&all[78..]);
    let (difference, variances) = compare(&cold, &expected);
    assert!(difference < 0.1, "{difference}");
    assert!((variances - 1.0).abs() < 0.4, "{variances}");
    // Features tell something of the entries: more than those of nobody.
    let error =
        |found: &[(f64, f64)]| -> f64 { own.iter().map(|&(j, y)| (y - found[j].0).powi(2)).sum() };
    assert!(error(&cold) < 0.8 * error(&by(&[0.0, 0.0])));
}

#[test]
fn the_best_columns_of_a_new_row_are_those_of_its_cells() {
    let data = low_rank(12, (40, 30), 3, 0.5, 0.3);
    let fit = fitted(&data.observed, &config(50, 50));
    let own: Vec<(usize, f64)> = vec![(0, 1.0), (5, -2.0), (9, 0.5)];
    let folded: Folded<'_> = fit.fold_in_row(&own, &[]).unwrap();
    let best = folded.top(3, &[0, 5, 9]).unwrap();
    let mut order: Vec<usize> = (0..30).filter(|j| ![0, 5, 9].contains(j)).collect();
    let mean = |j: usize| folded.cell(j).unwrap().mean();
    order.sort_by(|&a, &b| mean(b).total_cmp(&mean(a)));
    assert_eq!(best.iter().map(|r| r.index).collect::<Vec<_>>(), order[..3]);
    let cell = folded.predict(order[0]).unwrap();
    assert!((best[0].mean - cell.mean).abs() < 1e-9 && (best[0].sd - cell.sd).abs() < 1e-9);
}

#[test]
fn impossible_new_rows_are_errors() {
    let (ratings, side) = featured();
    let fit = fit(&ratings, side, &Cells::default(), &config(5, 5)).unwrap();
    let message = |entries: &[(usize, f64)], features: &[f64]| {
        fit.fold_in_row(entries, features).unwrap_err().to_string()
    };
    let features = [0.0, 0.0];
    assert!(message(&[(30, 1.0)], &features).contains("no column 30"));
    assert!(message(&[(3, 1.0), (3, 2.0)], &features).contains("column 3 is given twice"));
    assert!(message(&[(3, f64::NAN)], &features).contains("column 3: NaN"));
    assert!(message(&[], &[0.0]).contains("expected 2"));
    assert!(message(&[], &[0.0, f64::INFINITY]).contains("feature 1"));
    assert!(fit.fold_in_column(&[(40, 1.0)], &[0.0]).is_err());
}
