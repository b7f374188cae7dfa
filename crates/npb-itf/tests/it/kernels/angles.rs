//! Angles.

use super::support::*;
use npb_itf::kernels::{CellError, VonMises, VonMisesData};
use npb_itf::{Kernel, RowLabels};

const DEGREES: [Option<f64>; 8] = [
    Some(10.0),
    Some(-20.0),
    None,
    Some(200.0),
    Some(355.0),
    Some(90.0),
    Some(1.0),
    Some(720.0),
];

fn angles() -> (VonMises, VonMisesData) {
    (
        VonMises::new(360.0).expect("valid"),
        VonMisesData::new(360.0, &DEGREES).expect("valid"),
    )
}

#[test]
fn angle_identities() {
    let (kernel, data) = angles();
    evidence_is_a_chain_of_predictives(&kernel, &data);
    predictive_is_a_mean_over_draws(&kernel, &data, &[0, 1, 4], 6);
}

/// Densities are in the units of the user: they integrate to 1 over a period.
#[test]
fn angle_densities_integrate_to_one() {
    let kernel = VonMises::new(24.0).expect("valid");
    let hours: Vec<Option<f64>> = (0..4800).map(|i| Some(f64::from(i) / 200.0)).collect();
    let data = VonMisesData::new(24.0, &hours).expect("valid");
    let params = prior(&kernel, &mut rng(6));
    let mut stats = kernel.no_stats();
    [100, 300, 420]
        .iter()
        .for_each(|&row| kernel.add(&mut stats, &data, row));
    let predictive: f64 = (0..4800)
        .map(|row| kernel.ln_predictive(&params, &stats, &data, row).exp())
        .sum();
    assert!((predictive / 200.0 - 1.0).abs() < 1e-6, "{predictive}");
    for k in 0..CLUSTERS {
        let density = |row| ln_likelihoods(&kernel, &data, &params, row, RowLabels::NONE)[k].exp();
        let total: f64 = (0..4800).map(density).sum();
        assert!((total / 200.0 - 1.0).abs() < 1e-6, "{total}");
    }
}

#[test]
fn the_joint_law_of_angles() {
    let (kernel, data) = angles();
    let probe = VonMisesData::new(360.0, &[Some(0.0), Some(120.0)]).expect("valid");
    joint_distribution(kernel, data, probe);
}

#[test]
fn extreme_angles() {
    let (kernel, data) = angles();
    stays_finite(&kernel, &data);
    let wild =
        VonMisesData::new(1e-100, &[Some(1e300), Some(-1e300), Some(0.0), None]).expect("valid");
    stays_finite(&VonMises::new(1e-100).expect("valid"), &wild);
    let equal = VonMisesData::new(360.0, &[Some(5.0); 5000]).expect("valid");
    stays_finite(&kernel, &equal);
}

#[test]
fn angles_come_back_within_a_period() {
    let (kernel, data) = angles();
    let params = prior(&kernel, &mut rng(6));
    let mut out = Vec::new();
    let given: Vec<f64> = (0..8)
        .map(|row| {
            kernel.expected(&params, 0, &data, row, false, RowLabels::NONE, &mut out);
            out[0]
        })
        .collect();
    for (found, asked) in given.iter().zip(DEGREES) {
        assert!((0.0..360.0).contains(found));
        if let Some(asked) = asked {
            let apart = (found - asked).rem_euclid(360.0);
            assert!(!(1e-9..=360.0 - 1e-9).contains(&apart), "{found} {asked}");
        }
    }
}

#[test]
fn bad_angles_are_named() {
    let error = VonMisesData::new(360.0, &[Some(1.0), Some(f64::INFINITY)]).expect_err("infinite");
    assert!(matches!(error, CellError::Value { row: 1, .. }), "{error}");
    for period in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(VonMises::new(period).is_err() && VonMisesData::new(period, &[]).is_err());
    }
}
