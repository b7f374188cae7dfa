use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, Jitter, sample_canonical, sample_moment};

use crate::support::*;

/// Below and above every switch between a plain loop and faer.
const SIZES: [usize; 14] = [0, 1, 2, 3, 5, 7, 8, 9, 16, 17, 34, 48, 49, 100];

#[test]
fn agrees_with_dense_formulas_at_every_size() {
    let mut rng = generator(1);
    let mut factor = Cholesky::default();
    for n in SIZES {
        let a = spd(n, &mut rng);
        factor.factor(a.as_ref()).unwrap();
        assert_eq!(factor.dim(), n);
        let l = factor.l();
        assert!(rel_diff((l * l.transpose()).as_ref(), a.as_ref()) < 1e-14);
        assert!(
            (0..n).all(|j| (0..j).all(|i| l[(i, j)] == 0.0)),
            "size {n}: L is not lower triangular"
        );
        assert!((factor.ln_det() - dense_ln_det(a.as_ref())).abs() < 1e-12 * (n as f64 + 1.0));

        let inverse = factor.inverse();
        assert!(rel_diff(inverse.as_ref(), dense_inverse(a.as_ref()).as_ref()) < 1e-13);
        assert!(
            (0..n).all(|j| (0..n).all(|i| inverse[(i, j)] == inverse[(j, i)])),
            "size {n}: not symmetric"
        );

        let b = normals(n, &mut rng);
        let mut x = b.clone();
        factor.solve(&mut x);
        assert!(rel_diff_vec(&x, &dense_solve(a.as_ref(), &b)) < 1e-12);
        let mut half = b.clone();
        factor.solve_l(&mut half);
        assert!(rel_diff((l * column(&half)).as_ref(), column(&b).as_ref()) < 1e-12);
        factor.mul_l(&mut half);
        assert!(rel_diff_vec(&half, &b) < 1e-12);
        let mut half = b.clone();
        factor.solve_lt(&mut half);
        assert!(
            rel_diff(
                (l.transpose() * column(&half)).as_ref(),
                column(&b).as_ref()
            ) < 1e-12
        );
        factor.mul_lt(&mut half);
        assert!(rel_diff_vec(&half, &b) < 1e-12);
    }
}

#[test]
fn only_the_lower_triangle_is_read_in_any_layout() {
    let mut rng = generator(2);
    for n in [3, 20] {
        let a = spd(n, &mut rng);
        let lower = Mat::from_fn(n, n, |i, j| if i >= j { a[(i, j)] } else { f64::NAN });
        let row_major = Mat::from_fn(n, n, |i, j| lower[(j, i)]);
        let expected = Cholesky::new(a.as_ref()).unwrap();
        assert_eq!(Cholesky::new(lower.as_ref()).unwrap().l(), expected.l());
        assert_eq!(
            Cholesky::new(row_major.transpose()).unwrap().l(),
            expected.l()
        );
        let mut out = Mat::zeros(n, n);
        expected.inverse_into(out.as_mut().transpose_mut());
        assert!(rel_diff(out.as_ref(), expected.inverse().as_ref()) < 1e-14);
    }
}

#[test]
fn failures_name_the_pivot() {
    let mut rng = generator(3);
    let mut factor = Cholesky::default();
    for n in [1, 4, 8, 9, 33, 80] {
        let good = spd(n, &mut rng);
        for (bad, expected_pivot) in [(0, 0), (n / 2, n / 2), (n - 1, n - 1)] {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0] {
                let mut a = good.clone();
                a[(bad, bad)] = value;
                let failure = factor.factor(a.as_ref()).unwrap_err();
                assert_eq!(failure.pivot, expected_pivot, "n = {n}, value {value}");
                assert!(
                    !(failure.value > 0.0 && failure.value.is_finite()),
                    "reported pivot {}",
                    failure.value
                );
                assert_eq!(factor.dim(), 0);
            }
        }
        for value in [f64::NAN, f64::INFINITY] {
            let mut a = good.clone();
            a[(n - 1, 0)] = value;
            assert_eq!(factor.factor(a.as_ref()).unwrap_err().pivot, n - 1);
        }
        // A failed factor is still usable memory.
        factor.factor(good.as_ref()).unwrap();
    }
}

#[test]
fn extreme_scales_and_condition() {
    let mut rng = generator(4);
    for n in [1, 6, 34, 60] {
        let a = spd(n, &mut rng);
        let unit = Cholesky::new(a.as_ref()).unwrap();
        for scale in [1e-150, 1e150] {
            let scaled = Mat::from_fn(n, n, |i, j| scale * a[(i, j)]);
            let factor = Cholesky::new(scaled.as_ref()).unwrap();
            assert!(
                (factor.ln_det() - unit.ln_det() - n as f64 * scale.ln()).abs() < 1e-10 * n as f64
            );
            let expected = Mat::from_fn(n, n, |i, j| unit.inverse()[(i, j)] / scale);
            assert!(rel_diff(factor.inverse().as_ref(), expected.as_ref()) < 1e-13);
        }
        let a = spd_with_condition(n, 1e8, &mut rng);
        let inverse = Cholesky::new(a.as_ref()).unwrap().inverse();
        assert!(
            rel_diff(
                (&a * &inverse).as_ref(),
                Mat::<f64>::identity(n, n).as_ref()
            ) < 1e-6
        );
    }
}

#[test]
fn jitter_is_the_least_that_works_and_is_reported() {
    let mut factor = Cholesky::default();
    let jitter = Jitter {
        first: 1e-10,
        max: 1e-4,
    };
    // The smallest eigenvalue is -6e-6 and the mean diagonal 2: of 2e-10, 2e-9, ... the first amount that helps is 2e-5.
    let a = Mat::from_fn(2, 2, |i, j| if i == j { 2.0 } else { 2.0 + 6e-6 });
    let added = factor.factor_jittered(a.as_ref(), &jitter).unwrap();
    assert!((added / 2e-5 - 1.0).abs() < 1e-12);
    let expected = Mat::from_fn(2, 2, |i, j| a[(i, j)] + if i == j { 2e-5 } else { 0.0 });
    assert!(
        rel_diff(
            (factor.l() * factor.l().transpose()).as_ref(),
            expected.as_ref()
        ) < 1e-14
    );

    assert_eq!(
        factor
            .factor_jittered(spd(12, &mut generator(5)).as_ref(), &jitter)
            .unwrap(),
        0.0
    );
    let indefinite = Mat::from_fn(2, 2, |i, j| if i == j { 1.0 } else { 2.0 });
    assert_eq!(
        factor
            .factor_jittered(indefinite.as_ref(), &jitter)
            .unwrap_err()
            .pivot,
        1
    );
    for hopeless in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let a = Mat::from_fn(3, 3, |_, _| hopeless);
        assert!(factor.factor_jittered(a.as_ref(), &jitter).is_err());
    }
    assert_eq!(
        factor
            .factor_jittered(Mat::<f64>::new().as_ref(), &jitter)
            .unwrap(),
        0.0
    );
    for empty in [
        Jitter {
            first: 0.0,
            max: 1.0,
        },
        Jitter {
            first: f64::NAN,
            max: 1.0,
        },
        Jitter {
            first: 1.0,
            max: f64::NAN,
        },
    ] {
        assert!(factor.factor_jittered(indefinite.as_ref(), &empty).is_err());
    }
}

/// Sample mean and covariance, each element's error in units of its standard error.
fn worst_z(draws: &[Vec<f64>], mean: &[f64], covariance: &Mat<f64>) -> f64 {
    let n = draws.len() as f64;
    let p = mean.len();
    let mut worst = 0.0f64;
    for i in 0..p {
        let average = draws.iter().map(|x| x[i]).sum::<f64>() / n;
        worst = worst.max((average - mean[i]).abs() / (covariance[(i, i)] / n).sqrt());
        for j in 0..=i {
            let product = draws
                .iter()
                .map(|x| (x[i] - mean[i]) * (x[j] - mean[j]))
                .sum::<f64>()
                / n;
            let c = covariance[(i, j)];
            let error = ((covariance[(i, i)] * covariance[(j, j)] + c * c) / n).sqrt();
            worst = worst.max((product - c).abs() / error);
        }
    }
    worst
}

#[test]
fn draws_have_the_right_moments_and_the_check_can_fail() {
    let mut rng = generator(6);
    let p = 5;
    let precision = spd_with_condition(p, 50.0, &mut rng);
    let covariance = dense_inverse(precision.as_ref());
    let linear = normals(p, &mut rng);
    let mean = dense_solve(precision.as_ref(), &linear);
    let mut scratch = Cholesky::default();
    let mut canonical = Vec::new();
    let mut moment = Vec::new();
    let mut broken = Vec::new();
    for _ in 0..20_000 {
        let mut x = linear.clone();
        sample_canonical(precision.as_ref(), &mut x, &mut scratch, &mut rng).unwrap();
        canonical.push(x);
        let mut x = mean.clone();
        sample_moment(covariance.as_ref(), &mut x, &mut scratch, &mut rng).unwrap();
        moment.push(x);
        // The classic fault: L⁻¹ z instead of L⁻ᵀ z.
        let mut x = normals(p, &mut rng);
        scratch.factor(precision.as_ref()).unwrap();
        scratch.solve_l(&mut x);
        broken.push(x.iter().zip(&mean).map(|(e, m)| m + e).collect());
    }
    assert!(worst_z(&canonical, &mean, &covariance) < 4.5);
    assert!(worst_z(&moment, &mean, &covariance) < 4.5);
    assert!(worst_z(&broken, &mean, &covariance) > 4.5);
}

#[test]
fn a_failed_draw_leaves_the_vector_alone() {
    let mut rng = generator(7);
    let bad = Mat::from_fn(2, 2, |_, _| -1.0);
    let mut b = [1.0, 2.0];
    assert!(sample_canonical(bad.as_ref(), &mut b, &mut Cholesky::default(), &mut rng).is_err());
    assert!(sample_moment(bad.as_ref(), &mut b, &mut Cholesky::default(), &mut rng).is_err());
    assert_eq!(b, [1.0, 2.0]);
}
