use npb_linalg::condition::{Gaussian, Scratch};
use npb_linalg::faer::Mat;

use crate::support::*;

struct Dense {
    mean: Vec<f64>,
    covariance: Mat<f64>,
    ln_density: f64,
}

/// The textbook formulas in covariance form, by dense LU.
fn dense_condition(
    mean: &[f64],
    s: &Mat<f64>,
    observed: &[usize],
    missing: &[usize],
    row: &[f64],
) -> Dense {
    let s_oo = block(s.as_ref(), observed, observed);
    let s_mo = block(s.as_ref(), missing, observed);
    let deviation: Vec<f64> = observed.iter().map(|&o| row[o] - mean[o]).collect();
    let weighted = dense_solve(s_oo.as_ref(), &deviation);
    let shift = &s_mo * column(&weighted);
    let regression = &s_mo * dense_inverse(s_oo.as_ref());
    let square: f64 = deviation.iter().zip(&weighted).map(|(d, w)| d * w).sum();
    let ln_2pi = (2.0 * std::f64::consts::PI).ln();
    Dense {
        mean: missing
            .iter()
            .enumerate()
            .map(|(i, &m)| mean[m] + shift[(i, 0)])
            .collect(),
        covariance: block(s.as_ref(), missing, missing) - regression * s_mo.transpose(),
        ln_density: -0.5 * (observed.len() as f64 * ln_2pi + dense_ln_det(s_oo.as_ref()) + square),
    }
}

fn check(gaussian: &Gaussian, mean: &[f64], s: &Mat<f64>, seed: u64, tolerance: f64) {
    let mut rng = generator(seed);
    let p = mean.len();
    let mut scratch = Scratch::default();
    for fraction in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (observed, missing) = pattern(p, fraction, &mut rng);
        let mut given = gaussian
            .condition(&observed, &missing, &mut scratch)
            .unwrap();
        for _ in 0..3 {
            let sd: Vec<f64> = (0..p).map(|i| s[(i, i)].sqrt()).collect();
            let row: Vec<f64> = normals(p, &mut rng)
                .iter()
                .enumerate()
                .map(|(i, z)| mean[i] + sd[i] * z)
                .collect();
            let expected = dense_condition(mean, s, &observed, &missing, &row);
            let mut found = vec![0.0; missing.len()];
            given.mean(&row, &mut found);
            assert!(rel_diff_vec(&found, &expected.mean) < tolerance);
            let covariance = given.covariance();
            assert!(rel_diff(covariance, expected.covariance.as_ref()) < tolerance);
            assert!(
                (0..missing.len())
                    .all(|j| (0..j).all(|i| covariance[(i, j)] == covariance[(j, i)]))
            );
            let ln_det = -dense_ln_det(expected.covariance.as_ref());
            assert!((given.ln_det_precision() - ln_det).abs() < tolerance * (p + 1) as f64 * 10.0);
            let ln_density = given.ln_density_observed(&row);
            assert!(
                (ln_density - expected.ln_density).abs()
                    < tolerance * 10.0 * (1.0 + expected.ln_density.abs())
            );

            // Missing entries are never read, and only they are written.
            let mut holes = row.clone();
            missing.iter().for_each(|&m| holes[m] = f64::NAN);
            given.complete(&mut holes);
            assert!(observed.iter().all(|&o| holes[o] == row[o]));
            assert!(missing.iter().zip(&found).all(|(&m, x)| holes[m] == *x));
        }
        let row = vec![0.0; p];
        let once = gaussian
            .ln_marginal(&observed, &missing, &row, &mut Scratch::default())
            .unwrap();
        let mut given = gaussian
            .condition(&observed, &missing, &mut scratch)
            .unwrap();
        assert_eq!(once, given.ln_density_observed(&row));
    }
}

#[test]
fn agrees_with_dense_formulas() {
    let mut rng = generator(11);
    for (k, p) in [0, 1, 2, 3, 7, 12, 34, 60].into_iter().enumerate() {
        let s = spd(p, &mut rng);
        let mean = normals(p, &mut rng);
        let from_covariance = Gaussian::from_covariance(&mean, s.as_ref()).unwrap();
        check(&from_covariance, &mean, &s, 100 + k as u64, 1e-11);
        let precision = dense_inverse(s.as_ref());
        let linear = &precision * column(&mean);
        let linear: Vec<f64> = (0..p).map(|i| linear[(i, 0)]).collect();
        let from_precision = Gaussian::from_precision(&linear, precision.as_ref()).unwrap();
        assert!(rel_diff_vec(from_precision.mean(), &mean) < 1e-11);
        check(&from_precision, &mean, &s, 200 + k as u64, 1e-11);
    }
}

#[test]
fn ill_conditioned_and_badly_scaled() {
    let mut rng = generator(12);
    let s = spd_with_condition(20, 1e8, &mut rng);
    let mean = normals(20, &mut rng);
    check(
        &Gaussian::from_covariance(&mean, s.as_ref()).unwrap(),
        &mean,
        &s,
        301,
        1e-5,
    );
    for scale in [1e-150f64, 1e150] {
        let s = Mat::from_fn(12, 12, {
            let unit = spd(12, &mut rng);
            move |i, j| scale * unit[(i, j)]
        });
        let mean: Vec<f64> = normals(12, &mut rng)
            .iter()
            .map(|z| z * scale.sqrt())
            .collect();
        check(
            &Gaussian::from_covariance(&mean, s.as_ref()).unwrap(),
            &mean,
            &s,
            302,
            1e-10,
        );
    }
}

#[test]
fn the_order_of_a_pattern_is_the_order_of_the_answer() {
    let mut rng = generator(13);
    let s = spd(6, &mut rng);
    let mean = normals(6, &mut rng);
    let gaussian = Gaussian::from_covariance(&mean, s.as_ref()).unwrap();
    let row = normals(6, &mut rng);
    for (observed, missing) in [
        (vec![5, 0, 3, 1], vec![4, 2]),
        (vec![4, 2], vec![5, 0, 3, 1]),
    ] {
        let expected = dense_condition(&mean, &s, &observed, &missing, &row);
        let mut scratch = Scratch::default();
        let mut given = gaussian
            .condition(&observed, &missing, &mut scratch)
            .unwrap();
        let mut found = vec![0.0; missing.len()];
        given.mean(&row, &mut found);
        assert!(rel_diff_vec(&found, &expected.mean) < 1e-12);
        assert!(rel_diff(given.covariance(), expected.covariance.as_ref()) < 1e-12);
    }
}

/// Worst error of the sample mean and covariance of conditional draws, in standard errors.
fn worst_z_of_draws(
    gaussian: &Gaussian,
    observed: &[usize],
    missing: &[usize],
    law: &Dense,
    row: &[f64],
) -> f64 {
    let mut rng = generator(14);
    let mut scratch = Scratch::default();
    let mut given = gaussian.condition(observed, missing, &mut scratch).unwrap();
    let n = 20_000;
    let m = missing.len();
    let mut sum = vec![0.0; m];
    let mut products = Mat::<f64>::zeros(m, m);
    let mut draw = row.to_vec();
    for _ in 0..n {
        given.sample(&mut draw, &mut rng);
        let e: Vec<f64> = missing
            .iter()
            .zip(&law.mean)
            .map(|(&j, mean)| draw[j] - mean)
            .collect();
        for i in 0..m {
            sum[i] += e[i];
            (0..m).for_each(|j| products[(i, j)] += e[i] * e[j]);
        }
    }
    let c = &law.covariance;
    let mut worst = 0.0f64;
    for i in 0..m {
        worst = worst.max((sum[i] / n as f64).abs() / (c[(i, i)] / n as f64).sqrt());
        for j in 0..m {
            let error = ((c[(i, i)] * c[(j, j)] + c[(i, j)].powi(2)) / n as f64).sqrt();
            worst = worst.max((products[(i, j)] / n as f64 - c[(i, j)]).abs() / error);
        }
    }
    worst
}

#[test]
fn conditional_draws_have_the_right_moments_on_both_sides() {
    let mut rng = generator(15);
    let s = spd_with_condition(7, 30.0, &mut rng);
    let mean = normals(7, &mut rng);
    let row: Vec<f64> = normals(7, &mut rng).iter().map(|z| 3.0 * z).collect();
    let precision = dense_inverse(s.as_ref());
    let linear = dense_solve(s.as_ref(), &mean);
    let gaussians = [
        Gaussian::from_covariance(&mean, s.as_ref()).unwrap(),
        Gaussian::from_precision(&linear, precision.as_ref()).unwrap(),
    ];
    for (observed, missing) in [
        (vec![0, 2, 3, 5], vec![1, 4, 6]),
        (vec![1, 4], vec![0, 2, 3, 5, 6]),
    ] {
        let law = dense_condition(&mean, &s, &observed, &missing, &row);
        // The check fails for the law of another row.
        let other: Vec<f64> = row.iter().map(|x| x + 0.3).collect();
        let wrong = dense_condition(&mean, &s, &observed, &missing, &other);
        for gaussian in &gaussians {
            assert!(worst_z_of_draws(gaussian, &observed, &missing, &law, &row) < 4.5);
            assert!(worst_z_of_draws(gaussian, &observed, &missing, &wrong, &row) > 4.5);
        }
    }
}

#[test]
fn replacing_a_distribution_is_all_or_nothing() {
    let mut rng = generator(16);
    let (first, second) = (spd(5, &mut rng), spd(5, &mut rng));
    let vector = normals(5, &mut rng);
    let ones = Mat::from_fn(5, 5, |_, _| 1.0);
    let mut gaussian = Gaussian::standard(5);
    assert_eq!(gaussian.ln_det_precision(), 0.0);
    gaussian.set_covariance(&vector, first.as_ref()).unwrap();
    gaussian.set_precision(&vector, second.as_ref()).unwrap();
    assert!(gaussian.set_covariance(&[0.0; 5], ones.as_ref()).is_err());
    assert!(gaussian.set_precision(&[0.0; 5], ones.as_ref()).is_err());
    let fresh = Gaussian::from_precision(&vector, second.as_ref()).unwrap();
    assert_eq!(
        (gaussian.mean(), gaussian.covariance()),
        (fresh.mean(), fresh.covariance())
    );
    let row = normals(5, &mut rng);
    let density = |g: &Gaussian| {
        g.ln_marginal(&[0, 1, 2, 3], &[4], &row, &mut Scratch::default())
            .unwrap()
    };
    assert_eq!(density(&gaussian), density(&fresh));
}

#[test]
fn a_singular_matrix_is_an_error() {
    let ones = Mat::from_fn(3, 3, |_, _| 1.0);
    assert_eq!(
        Gaussian::from_covariance(&[0.0; 3], ones.as_ref())
            .unwrap_err()
            .pivot,
        1
    );
    assert_eq!(
        Gaussian::from_precision(&[0.0; 3], ones.as_ref())
            .unwrap_err()
            .pivot,
        1
    );
}
