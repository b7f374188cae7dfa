//! Curves.

use super::support::*;
use npb_itf::kernels::{CellError, Curve, CurveData, Wavelet};
use npb_itf::{Kernel, RowLabels};

const M: Option<f64> = None;

/// Curves about three shapes; incomplete ones, or not.
fn curves(wavelet: Wavelet, partial: bool) -> (Curve, CurveData) {
    let kernel = Curve::new(wavelet, 8, 5.0, 2.0).expect("valid");
    let shape = |i: usize, t: usize| {
        5.0 + (i % 3) as f64 * (0.8 * t as f64).sin() + 0.1 * ((i * 7 + t * 3) % 5) as f64
    };
    let hidden = |i: usize, t: usize| i == 4 || (partial && (i + t).is_multiple_of(4));
    let row = |i| {
        (0..8)
            .map(|t| (!hidden(i, t)).then(|| shape(i, t)))
            .collect()
    };
    let rows: Vec<Vec<Option<f64>>> = (0..7).map(row).collect();
    let data = CurveData::new(&kernel, &rows).expect("valid");
    (kernel, data)
}

#[test]
fn curve_identities() {
    for wavelet in [Wavelet::Haar, Wavelet::Daubechies4] {
        let (kernel, data) = curves(wavelet, false);
        evidence_is_a_chain_of_predictives(&kernel, &data);
        predictive_is_a_mean_over_draws(&kernel, &data, &[0, 3], 6);
        let (kernel, data) = curves(wavelet, true);
        assert!(!kernel.is_collapsed(&data));
        expected_is_the_mean_of_draws(&kernel, &data, 1, false, RowLabels::NONE);
    }
}

/// Points are independent given the curve: a missing one takes its own factor away and no other.
#[test]
fn missing_points_drop_out() {
    let kernel = Curve::new(Wavelet::Haar, 3, 5.0, 2.0).expect("valid");
    let row = |a, b, c| vec![a, b, c];
    let rows = [
        row(Some(4.0), Some(6.0), Some(5.5)),
        row(Some(4.0), M, Some(5.5)),
        row(M, Some(6.0), M),
    ];
    let data = CurveData::new(&kernel, &rows).expect("valid");
    let params = prior(&kernel, &mut rng(6));
    let ln = |row| ln_likelihoods(&kernel, &data, &params, row, RowLabels::NONE);
    for k in 0..CLUSTERS {
        assert!((ln(0)[k] - ln(1)[k] - ln(2)[k]).abs() < 1e-10 * (1.0 + ln(0)[k].abs()));
        let d = 0.5 - params.curve(k)[1];
        let lambda = params.precision(k);
        let exact = 0.5 * (lambda / std::f64::consts::TAU).ln() - 0.5 * lambda * d * d - 2f64.ln();
        assert!((ln(2)[k] - exact).abs() < 1e-10 * (1.0 + exact.abs()));
    }
}

#[test]
fn the_joint_law_of_curves() {
    for (wavelet, partial) in [(Wavelet::Haar, false), (Wavelet::Daubechies4, true)] {
        let (kernel, data) = curves(wavelet, partial);
        let mut probe = vec![vec![Some(5.0); 8], vec![Some(6.0); 8]];
        probe[1][3] = M;
        let probe = CurveData::new(&kernel, &probe).expect("valid");
        joint_distribution(kernel, data, probe);
    }
}

#[test]
fn extreme_curves() {
    for wavelet in [Wavelet::Haar, Wavelet::Daubechies4] {
        let (kernel, data) = curves(wavelet, true);
        stays_finite(&kernel, &data);
        let kernel = Curve::new(wavelet, 8, 0.0, 1.0).expect("valid");
        let rows = [
            vec![Some(3.0); 8],
            vec![Some(1e50); 8],
            vec![Some(-1e-300); 8],
        ];
        stays_finite(&kernel, &CurveData::new(&kernel, &rows).expect("valid"));
    }
    let kernel = Curve::new(Wavelet::Haar, 1, 0.0, 1.0).expect("valid");
    stays_finite(
        &kernel,
        &CurveData::new(&kernel, &[vec![Some(1.0)], vec![M]]).expect("valid"),
    );
}

#[test]
fn bad_curves_are_named() {
    for n in [0, 2, 6, 12, 8192] {
        let error = Curve::new(Wavelet::Daubechies4, n, 0.0, 1.0).expect_err("no power of two");
        assert!(
            matches!(
                error,
                CellError::Setting {
                    setting: "n_points",
                    ..
                }
            ),
            "{error}"
        );
    }
    assert!(Curve::new(Wavelet::Haar, 0, 0.0, 1.0).is_err());
    let kernel = Curve::new(Wavelet::Haar, 2, 0.0, 1.0).expect("valid");
    let error = CurveData::new(&kernel, &[vec![M; 2], vec![M]]).expect_err("short");
    assert_eq!(
        error,
        CellError::Parts {
            row: 1,
            found: 1,
            expected: 2
        }
    );
    let error = CurveData::new(&kernel, &[vec![M, Some(f64::INFINITY)]]).expect_err("infinite");
    assert!(matches!(
        error,
        CellError::Value {
            row: 0,
            part: 1,
            ..
        }
    ));
}

#[test]
fn parts_of_curves() {
    let kernel = Curve::new(Wavelet::Haar, 3, 5.0, 2.1).expect("valid");
    let rows = [
        vec![Some(4.3), M, Some(5.5)],
        vec![M; 3],
        vec![Some(4.0), Some(6.1), Some(5.7)],
        vec![M, M, Some(0.1)],
    ];
    let make = |rows: &[Vec<Option<f64>>]| CurveData::new(&kernel, rows).expect("valid");
    parts_are_what_was_given(&kernel, &rows, make);
}
