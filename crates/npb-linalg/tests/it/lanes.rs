use npb_linalg::faer::Mat;
use npb_linalg::lanes::{LaneBank, LaneGaussian, LaneScratch};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::support::*;

/// One matrix per component, of scales that differ by component.
fn matrices(p: usize, components: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<Mat<f64>> {
    (0..components)
        .map(|h| {
            let a = spd(p, rng);
            Mat::from_fn(p, p, |i, j| a[(i, j)] * 10f64.powi(h as i32 % 5 - 2))
        })
        .collect()
}

fn gaussian(precisions: &[Mat<f64>], p: usize) -> LaneGaussian {
    let mut bank = LaneGaussian::new(p, precisions.len());
    for (h, precision) in precisions.iter().enumerate() {
        bank.set_precision(h, precision.as_ref()).unwrap();
    }
    bank
}

/// Component `h` of an array with the component innermost.
fn lane(values: &[f64], lanes: usize, h: usize) -> Vec<f64> {
    values.iter().skip(h).step_by(lanes).copied().collect()
}

fn lane_matrix(values: &[f64], n: usize, lanes: usize, h: usize) -> Mat<f64> {
    Mat::from_fn(n, n, |i, j| values[(i * n + j) * lanes + h])
}

fn inner(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

#[test]
fn a_block_agrees_with_dense_formulas() {
    let mut rng = generator(21);
    let mut scratch = LaneScratch::default();
    for (p, components) in [
        (0, 2),
        (1, 1),
        (2, 8),
        (5, 3),
        (9, 20),
        (34, 20),
        (12, 33),
        (6, 40),
        (3, 0),
    ] {
        let precisions = matrices(p, components, &mut rng);
        let mut bank = LaneBank::new(p, components);
        precisions
            .iter()
            .enumerate()
            .for_each(|(h, a)| bank.set(h, a.as_ref()));
        let lanes = bank.lanes();
        assert!(
            lanes >= components
                && lanes.is_multiple_of(8)
                && (bank.dim(), bank.components()) == (p, components)
        );
        for fraction in [0.0, 0.3, 0.7, 1.0] {
            let (mut block_indices, _) = pattern(p, fraction, &mut rng);
            block_indices.reverse();
            let n = block_indices.len();
            let r = normals(n * lanes, &mut rng);
            let mut factor = bank.factor(&block_indices, &mut scratch).unwrap();
            let mut x = r.clone();
            let mut quad = vec![f64::NAN; lanes];
            factor.solve(&mut x, &mut quad);
            for h in 0..components {
                let a = block(precisions[h].as_ref(), &block_indices, &block_indices);
                let expected = dense_solve(a.as_ref(), &lane(&r, lanes, h));
                assert!(rel_diff_vec(&lane(&x, lanes, h), &expected) < 1e-11);
                let expected_quad = inner(&lane(&r, lanes, h), &expected);
                assert!((quad[h] - expected_quad).abs() <= 1e-11 * expected_quad.abs());
                assert!(
                    (factor.ln_det()[h] - dense_ln_det(a.as_ref())).abs() < 1e-11 * (n + 1) as f64
                );
                let inverse = lane_matrix(factor.inverse(), n, lanes, h);
                assert!(rel_diff(inverse.as_ref(), dense_inverse(a.as_ref()).as_ref()) < 1e-11);
            }
        }
    }
}

fn check_conditional(
    bank: &LaneGaussian,
    precisions: &[Mat<f64>],
    observed: &[usize],
    missing: &[usize],
    seed: u64,
) {
    let mut rng = generator(seed);
    let lanes = bank.lanes();
    let (m, o) = (missing.len(), observed.len());
    let mut scratch = LaneScratch::default();
    let r = normals(m * lanes, &mut rng);
    let d = normals(o * lanes, &mut rng);
    let (mut before, mut after) = (r.clone(), r.clone());
    let mut quad = vec![f64::NAN; lanes];
    let mut shift = vec![f64::NAN; m * lanes];
    let mut marginal = vec![f64::NAN; lanes];

    let mut given = bank.condition(observed, missing, &mut scratch).unwrap();
    given.solve(&mut before, &mut quad);
    given.regress(&mut d.clone(), &mut shift, &mut marginal);
    let ln_det = given.ln_det().to_vec();
    let covariance = given.covariance().to_vec();
    let mut quad_after = vec![f64::NAN; lanes];
    given.solve(&mut after, &mut quad_after);
    // Both are kept in the same memory.
    let inverse = given.observed_inverse().map(<[f64]>::to_vec);
    assert_eq!(given.covariance(), covariance);
    assert_eq!(inverse.is_some(), 5 * o < 3 * m);

    for (h, precision) in precisions.iter().enumerate() {
        let l_mm = block(precision.as_ref(), missing, missing);
        let expected = dense_solve(l_mm.as_ref(), &lane(&r, lanes, h));
        let expected_quad = inner(&lane(&r, lanes, h), &expected);
        for (x, quad) in [(&before, &quad), (&after, &quad_after)] {
            assert!(rel_diff_vec(&lane(x, lanes, h), &expected) < 1e-9);
            assert!((quad[h] - expected_quad).abs() <= 1e-9 * expected_quad.abs());
        }
        assert!((ln_det[h] - dense_ln_det(l_mm.as_ref())).abs() < 1e-9);
        let expected = dense_inverse(l_mm.as_ref());
        assert!(
            rel_diff(
                lane_matrix(&covariance, m, lanes, h).as_ref(),
                expected.as_ref()
            ) < 1e-9
        );

        let s = dense_inverse(precision.as_ref());
        assert!(rel_diff(bank.covariance(h).as_ref(), s.as_ref()) < 1e-9);
        if let Some(inverse) = &inverse {
            let expected = dense_inverse(block(s.as_ref(), observed, observed).as_ref());
            let found = lane_matrix(inverse, o, lanes, h);
            assert!(rel_diff(found.as_ref(), expected.as_ref()) < 1e-9);
        }
        let weights = dense_solve(
            block(s.as_ref(), observed, observed).as_ref(),
            &lane(&d, lanes, h),
        );
        let expected = block(s.as_ref(), missing, observed) * column(&weights);
        assert!(rel_diff(column(&lane(&shift, lanes, h)).as_ref(), expected.as_ref()) < 1e-9);
        let expected = inner(&lane(&d, lanes, h), &weights);
        assert!((marginal[h] - expected).abs() <= 1e-9 * expected.abs());
    }
}

#[test]
fn both_sides_of_a_pattern_give_the_dense_answers() {
    let mut rng = generator(22);
    for (k, (p, components)) in [(0, 3), (1, 2), (2, 9), (7, 5), (20, 20), (34, 17)]
        .into_iter()
        .enumerate()
    {
        let precisions = matrices(p, components, &mut rng);
        let bank = gaussian(&precisions, p);
        for fraction in [0.0, 0.1, 0.3, 0.4, 0.6, 0.9, 1.0] {
            let (observed, missing) = pattern(p, fraction, &mut rng);
            check_conditional(&bank, &precisions, &observed, &missing, 400 + k as u64);
        }
    }
}

#[test]
fn the_side_does_not_show_in_the_order_of_the_pattern() {
    let precisions = matrices(6, 3, &mut generator(23));
    let bank = gaussian(&precisions, 6);
    check_conditional(&bank, &precisions, &[5, 0, 3, 1], &[4, 2], 501);
    check_conditional(&bank, &precisions, &[4, 2], &[5, 0, 3, 1], 502);
    check_conditional(&bank, &precisions, &[3], &[5, 0, 4, 2, 1], 503);
}

#[test]
fn extreme_scales_and_condition() {
    let mut rng = generator(24);
    let p = 12;
    let base = spd(p, &mut rng);
    let scales = [1e-150, 1.0, 1e150];
    let precisions: Vec<Mat<f64>> = scales
        .iter()
        .map(|s| Mat::from_fn(p, p, |i, j| s * base[(i, j)]))
        .collect();
    let bank = gaussian(&precisions, p);
    let mut scratch = LaneScratch::default();
    for missing in [vec![1, 4, 7], vec![0, 1, 2, 3, 4, 6, 7, 8, 9, 10]] {
        let observed: Vec<usize> = (0..p).filter(|i| !missing.contains(i)).collect();
        let (n, lanes) = (missing.len(), bank.lanes());
        let mut given = bank.condition(&observed, &missing, &mut scratch).unwrap();
        let ln_det = given.ln_det().to_vec();
        let covariance = given.covariance();
        let unit = dense_inverse(block(base.as_ref(), &missing, &missing).as_ref());
        for (h, scale) in scales.iter().enumerate() {
            let found = lane_matrix(covariance, n, lanes, h);
            let rescaled = Mat::from_fn(n, n, |i, j| found[(i, j)] * scale);
            assert!(rel_diff(rescaled.as_ref(), unit.as_ref()) < 1e-11);
            assert!((ln_det[h] - ln_det[1] - n as f64 * scale.ln()).abs() < 1e-9);
        }
    }

    let hard = spd_with_condition(p, 1e8, &mut rng);
    let bank = gaussian(std::slice::from_ref(&hard), p);
    for missing in [vec![0, 5, 6], (0..9).collect::<Vec<usize>>()] {
        let observed: Vec<usize> = (0..p).filter(|i| !missing.contains(i)).collect();
        let mut given = bank.condition(&observed, &missing, &mut scratch).unwrap();
        let expected = dense_inverse(block(hard.as_ref(), &missing, &missing).as_ref());
        let found = lane_matrix(given.covariance(), missing.len(), bank.lanes(), 0);
        assert!(rel_diff(found.as_ref(), expected.as_ref()) < 1e-5);
    }
}

#[test]
fn a_failure_names_component_and_pivot() {
    let mut rng = generator(25);
    let good = matrices(6, 20, &mut rng);
    let mut scratch = LaneScratch::default();
    for value in [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -1.0,
        f64::MIN_POSITIVE / 2.0,
    ] {
        for component in [0, 7, 19] {
            let mut bank = LaneBank::new(6, 20);
            good.iter()
                .enumerate()
                .for_each(|(h, a)| bank.set(h, a.as_ref()));
            let mut bad = Mat::<f64>::identity(6, 6);
            bad[(3, 3)] = value;
            bank.set(component, bad.as_ref());
            let failure = bank.factor(&[5, 3, 0], &mut scratch).unwrap_err();
            assert_eq!(
                (failure.component, failure.source.pivot),
                (component, 1),
                "value {value}"
            );
            assert!(failure.source.value == value || failure.source.value.is_nan());
            // A block without the bad row is fine, and so is the scratch.
            assert!(bank.factor(&[5, 2, 0], &mut scratch).is_ok());
        }
    }
    let mut bank = LaneGaussian::new(2, 2);
    assert!(
        bank.set_precision(1, Mat::<f64>::zeros(2, 2).as_ref())
            .is_err()
    );
    let mut given = bank.condition(&[], &[0, 1], &mut scratch).unwrap();
    assert_eq!(
        given.covariance()[1],
        1.0,
        "a refused matrix leaves the component as it was"
    );
}

#[test]
fn results_do_not_depend_on_what_the_scratch_held() {
    let mut rng = generator(26);
    let precisions = matrices(10, 11, &mut rng);
    let bank = gaussian(&precisions, 10);
    let mut used = LaneScratch::default();
    for fraction in [0.5, 0.1, 0.9, 0.3] {
        let (observed, missing) = pattern(10, fraction, &mut rng);
        let mut fresh = LaneScratch::default();
        let mut with_used = bank.condition(&observed, &missing, &mut used).unwrap();
        let mut with_fresh = bank.condition(&observed, &missing, &mut fresh).unwrap();
        assert_eq!(with_used.ln_det(), with_fresh.ln_det());
        assert_eq!(with_used.covariance(), with_fresh.covariance());
    }
}
