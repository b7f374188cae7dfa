use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;

use crate::support::*;

fn rank_one(a: &Mat<f64>, sign: f64, x: &[f64]) -> Mat<f64> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] + sign * x[i] * x[j])
}

#[test]
fn update_and_downdate_agree_with_a_fresh_factor() {
    let mut rng = generator(31);
    for n in [0, 1, 2, 5, 12, 34, 70] {
        let a = spd(n, &mut rng);
        for scale in [1e-8, 1.0, 1e6] {
            let x: Vec<f64> = normals(n, &mut rng).iter().map(|z| scale * z).collect();
            let sum = rank_one(&a, 1.0, &x);
            let mut factor = Cholesky::new(a.as_ref()).unwrap();
            factor.update(&mut x.clone()).unwrap();
            let expected = Cholesky::new(sum.as_ref()).unwrap();
            assert!(rel_diff(factor.l(), expected.l()) < 1e-9);
            if scale <= 1.0 {
                factor.downdate(&mut x.clone()).unwrap();
                assert!(rel_diff(factor.l(), Cholesky::new(a.as_ref()).unwrap().l()) < 1e-11);
            }
        }
    }
}

#[test]
fn many_updates_and_downdates_do_not_drift() {
    let mut rng = generator(32);
    let n = 10;
    let a = spd(n, &mut rng);
    let mut factor = Cholesky::new(a.as_ref()).unwrap();
    let vectors: Vec<Vec<f64>> = (0..500).map(|_| normals(n, &mut rng)).collect();
    vectors
        .iter()
        .for_each(|x| factor.update(&mut x.clone()).unwrap());
    vectors
        .iter()
        .for_each(|x| factor.downdate(&mut x.clone()).unwrap());
    assert!(rel_diff((factor.l() * factor.l().transpose()).as_ref(), a.as_ref()) < 1e-10);
}

#[test]
fn extreme_scales() {
    let mut rng = generator(33);
    let a = spd(6, &mut rng);
    let x = normals(6, &mut rng);
    for scale in [1e-150f64, 1e150] {
        let scaled = Mat::from_fn(6, 6, |i, j| scale * a[(i, j)]);
        let y: Vec<f64> = x.iter().map(|x| x * scale.sqrt()).collect();
        let mut factor = Cholesky::new(scaled.as_ref()).unwrap();
        factor.update(&mut y.clone()).unwrap();
        assert!(
            rel_diff(
                factor.l(),
                Cholesky::new(rank_one(&scaled, 1.0, &y).as_ref())
                    .unwrap()
                    .l()
            ) < 1e-13
        );
        factor.downdate(&mut y.clone()).unwrap();
        assert!(rel_diff(factor.l(), Cholesky::new(scaled.as_ref()).unwrap().l()) < 1e-13);
    }
}

#[test]
fn a_failing_change_is_an_error_and_leaves_the_factor() {
    let mut rng = generator(34);
    let a = spd(5, &mut rng);
    let mut factor = Cholesky::new(a.as_ref()).unwrap();
    let before = factor.l().to_owned();
    // Exactly on the boundary and beyond it: x is a column of L, p its unit vector.
    for scale in [1.0, 1.5] {
        let mut x: Vec<f64> = (0..5).map(|i| scale * before[(i, 3)]).collect();
        let failure = factor.downdate(&mut x).unwrap_err();
        assert_eq!(failure.pivot, 3);
        assert!(failure.value <= 1e-12);
    }
    for value in [f64::NAN, f64::INFINITY] {
        let failure = factor
            .downdate(&mut [0.0, 0.0, value, 0.0, 0.0])
            .unwrap_err();
        assert_eq!(failure.pivot, 2);
        let failure = factor.update(&mut [0.0, 0.0, value, 0.0, 0.0]).unwrap_err();
        assert_eq!(failure.pivot, 2);
    }
    assert_eq!(factor.l(), before);
}
