//! Ranks, components, lists and similarities, against the draws themselves.

use npb_bsvd::{Acquisition, BsvdFit, BsvdState, Cells, DrawTable};
use npb_linalg::faer::Mat;

use crate::predicted::{config, fitted};
use crate::simulated::low_rank;

/// `U diag(s) V'` of a draw without its averages over rows and columns, units of the data.
fn components_of(fit: &BsvdFit, draw: &BsvdState) -> Mat<f64> {
    let (u, v, rank) = (&draw.rows.factors, &draw.columns.factors, draw.rank());
    let entry = |i: usize, j: usize| -> f64 {
        (0..rank)
            .map(|k| draw.scales[k] * f64::from(u[i * rank + k]) * f64::from(v[j * rank + k]))
            .sum()
    };
    let scale = fit.units().1;
    centred(&Mat::from_fn(fit.n_rows(), fit.n_cols(), |i, j| {
        scale * entry(i, j)
    }))
}

/// Without averages of rows and of columns.
fn centred(x: &Mat<f64>) -> Mat<f64> {
    let (n, m) = (x.nrows(), x.ncols());
    let row = |i: usize| (0..m).map(|j| x[(i, j)]).sum::<f64>() / m as f64;
    let column = |j: usize| (0..n).map(|i| x[(i, j)]).sum::<f64>() / n as f64;
    let rows: Vec<f64> = (0..n).map(row).collect();
    let columns: Vec<f64> = (0..m).map(column).collect();
    let whole = rows.iter().sum::<f64>() / n as f64;
    Mat::from_fn(n, m, |i, j| x[(i, j)] - rows[i] - columns[j] + whole)
}

fn mean(matrices: &[Mat<f64>]) -> Mat<f64> {
    let share = (matrices.len() as f64).recip();
    Mat::from_fn(matrices[0].nrows(), matrices[0].ncols(), |i, j| {
        share * matrices.iter().map(|m| m[(i, j)]).sum::<f64>()
    })
}

#[test]
fn components_are_those_of_the_mean_matrix() {
    let data = low_rank(21, (25, 18), 3, 0.7, 0.3);
    let fit = fitted(&data.observed, &config(60, 40));
    let draws: Vec<Mat<f64>> = fit.draws().iter().map(|d| components_of(&fit, d)).collect();
    let mean = mean(&draws);
    let svd = mean.thin_svd().unwrap();
    let found = fit.components(3).unwrap();
    assert_eq!(found.strengths.len(), 3);
    for k in 0..3 {
        let sigma = svd.S().column_vector()[k];
        // Centred factors are held in single precision.
        assert!((found.strengths[k].mean - sigma).abs() < 1e-6 * sigma);
        let (u, v) = (svd.U().col(k), svd.V().col(k));
        let largest = (0..18)
            .max_by(|&a, &b| v[a].abs().total_cmp(&v[b].abs()))
            .unwrap();
        let sign = v[largest].signum();
        assert_eq!(found.columns.largest(k, 1), [largest]);
        assert!(found.columns.of(largest)[k] > 0.0);
        for i in 0..25 {
            assert!((found.rows.of(i)[k] - sign * u[i]).abs() < 1e-5);
            // Spread over the draws of what row i has along v.
            let along = |m: &Mat<f64>| (0..18).map(|j| m[(i, j)] * v[j]).sum::<f64>() / sigma;
            let squares: f64 = draws.iter().map(|m| (along(m) - u[i]).powi(2)).sum();
            let sd = (squares / 39.0).sqrt();
            assert!((found.rows.sd[i * 3 + k] - sd).abs() < 1e-5, "{sd}");
        }
        for j in 0..18 {
            assert!((found.columns.of(j)[k] - sign * v[j]).abs() < 1e-5);
        }
    }
}

#[test]
fn singular_values_and_ranks_are_those_of_the_draws() {
    let data = low_rank(21, (25, 18), 3, 0.7, 0.3);
    let fit = fitted(&data.observed, &config(60, 40));
    let values: Vec<f64> = fit
        .draws()
        .iter()
        .map(|draw| components_of(&fit, draw).singular_values().unwrap()[1])
        .collect();
    let found = fit.singular_values(0.9).unwrap()[1];
    let average = values.iter().sum::<f64>() / 40.0;
    assert!((found.mean - average).abs() < 1e-6 * average);
    assert!(found.interval.holds(average) && found.sd > 0.0);
    let ranks = fit.rank_distribution().unwrap();
    let threes = fit.draws().iter().filter(|d| d.rank() == 3).count() as f64 / 40.0;
    assert!((ranks[3] - threes).abs() < 1e-12 && (ranks.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    let noise = fit.noise_sd(0.95).unwrap();
    assert!(noise.interval.holds(0.3 * data.signal));
}

#[test]
fn the_best_columns_are_those_of_the_draws() {
    let data = low_rank(22, (25, 18), 3, 0.7, 0.3);
    let fit = fitted(&data.observed, &config(60, 40));
    let best = fit.top(6, 4, &[2, 11]).unwrap();
    let wanted: Vec<usize> = (0..18).filter(|j| ![2, 11].contains(j)).collect();
    let mut order = wanted.clone();
    let mean = |j: usize| fit.cell(6, j).unwrap().mean();
    order.sort_by(|&a, &b| mean(b).total_cmp(&mean(a)));
    let values: Vec<Vec<f64>> = wanted
        .iter()
        .map(|&j| fit.cell(6, j).unwrap().values())
        .collect();
    for (found, &j) in best.iter().zip(&order) {
        assert_eq!(found.index, j);
        assert!((found.mean - mean(j)).abs() < 1e-9);
        assert!((found.sd - fit.predict(6, j).unwrap().sd).abs() < 1e-9);
        let own = wanted.iter().position(|&w| w == j).unwrap();
        let in_top = |d: usize| values.iter().filter(|v| v[d] > values[own][d]).count() < 4;
        let share = (0..40).filter(|&d| in_top(d)).count() as f64 / 40.0;
        assert!((found.in_top - share).abs() < 1e-12);
    }
    assert_eq!(fit.top(6, 100, &[]).unwrap().len(), 18);
    assert!(fit.top(6, 0, &[]).unwrap().is_empty());
}

#[test]
fn similar_rows_are_those_of_the_double_centred_draws() {
    let data = low_rank(23, (25, 18), 3, 0.7, 0.3);
    let fit = fitted(&data.observed, &config(60, 30));
    let (n, m) = (25, 18);
    let mut expected = vec![0.0; n];
    for draw in fit.draws() {
        let x = Mat::from_fn(n, m, |i, j| draw.latent(i, j, fit.side()));
        let x = centred(&x);
        let product = |a: usize, b: usize| -> f64 { (0..m).map(|j| x[(a, j)] * x[(b, j)]).sum() };
        for (i, sum) in expected.iter_mut().enumerate() {
            *sum += product(3, i) / (product(3, 3) * product(i, i)).sqrt() / 30.0;
        }
    }
    let found = fit.similar_rows(3, 24).unwrap();
    assert_eq!(found.len(), 24);
    for similar in &found {
        assert!((similar.cosine - expected[similar.index]).abs() < 1e-5);
        assert!(similar.index != 3 && similar.sd > 0.0);
    }
    assert!(found.windows(2).all(|w| w[0].cosine >= w[1].cosine));
    assert_eq!(fit.similar_columns(17, 3).unwrap().len(), 3);
}

#[test]
fn draws_are_written_for_other_programs() {
    let data = low_rank(24, (6, 5), 1, 0.8, 0.3);
    let rows: Vec<String> = (0..6).map(|i| format!("row, \"{i}\"")).collect();
    let columns: Vec<usize> = (10..15).collect();
    let fit = fitted(&data.observed, &config(5, 4));
    let fit = fit.with_names(&rows, &columns).unwrap();
    let cells = Cells {
        rows: vec![0, 5],
        columns: vec![4, 1],
        values: Vec::new(),
    };
    let mut file = Vec::new();
    fit.write_cells_csv(&cells, &mut file).unwrap();
    let text = String::from_utf8(file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 4 * 2);
    let value = fit.cell_draws(&cells).unwrap()[3][1];
    assert_eq!(lines[8], format!("3,\"row, \"\"5\"\"\",11,{value}"));

    let mut file = Vec::new();
    fit.write_cells_npy(&cells, &mut file).unwrap();
    assert_eq!(file.len(), 128 + 4 * 4 * 2);
    assert_eq!(file[file.len() - 4..], value.to_le_bytes());

    let mut file = Vec::new();
    fit.write_draw_npy(2, DrawTable::RowFactors, &mut file)
        .unwrap();
    assert_eq!(file.len(), 128 + 4 * 6 * fit.draws()[2].rank());
    let mut file = Vec::new();
    fit.write_draw_csv(2, DrawTable::ColumnIntercepts, &mut file)
        .unwrap();
    let text = String::from_utf8(file).unwrap();
    assert!(text.starts_with(&format!("10,{}\n", fit.draws()[2].columns.intercepts[0])));
    assert!(
        fit.write_draw_csv(4, DrawTable::Scales, Vec::new())
            .is_err()
    );

    let mut file = Vec::new();
    fit.write_trace_csv(&mut file).unwrap();
    let text = String::from_utf8(file).unwrap();
    assert_eq!(text.lines().count(), 1 + 9);
    assert!(text.lines().nth(6).unwrap().starts_with("0,6,1,"));
}

#[test]
fn answers_do_not_depend_on_the_number_of_threads() {
    let data = low_rank(25, (25, 18), 3, 0.6, 0.3);
    let fit = fitted(&data.observed, &config(30, 30));
    let cells = Cells::of(&data.hidden);
    let answers = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| {
            (
                fit.predict_all(&cells, 0.8).unwrap(),
                fit.components(3).unwrap(),
                fit.top(2, 5, &[]).unwrap(),
                fit.similar_columns(2, 5).unwrap(),
                fit.next_cells(&cells, 9, Acquisition::Uncorrelated)
                    .unwrap(),
                fit.evaluate(&data.hidden).unwrap(),
            )
        })
    };
    let one = answers(1);
    assert_eq!(one, answers(2));
    assert_eq!(one, answers(4));
}
