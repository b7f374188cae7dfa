//! A small data set whose answers were computed with scikit-learn 1.9 (chained equations, support vector machines,
//! logistic regression) and with a direct numpy transcription of EM, all to more digits than are compared here.

use npb_baselines::{
    ChainedConfig, ChainedImputer, GaussianConfig, GaussianImputer, Kernel, LogisticConfig,
    LogisticRegression, MeanImputer, Svm, SvmConfig,
};
use npb_data::Table;

const P: usize = 4;

fn cell(i: usize, j: usize) -> f64 {
    let base = ((i * 7 + j * 13 + i * j * 5) % 23) as f64 / 10.0 - 1.0;
    base + 0.35 * (i % 5) as f64 * (j + 1) as f64 / 2.0
}

fn hidden(i: usize, j: usize) -> bool {
    (i * 3 + j * 5).is_multiple_of(7)
}

pub(crate) fn complete(rows: std::ops::Range<usize>) -> Table {
    let values = rows.clone().flat_map(|i| (0..P).map(move |j| cell(i, j)));
    Table::complete(rows.len(), P, values.collect()).unwrap()
}

fn incomplete(rows: std::ops::Range<usize>) -> Table {
    let value = |i, j| if hidden(i, j) { f64::NAN } else { cell(i, j) };
    let values: Vec<f64> = rows
        .clone()
        .flat_map(|i| (0..P).map(move |j| value(i, j)))
        .collect();
    Table::from_nan_coded(rows.len(), P, &values).unwrap()
}

pub(crate) fn labels() -> Vec<bool> {
    [0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0]
        .map(|l| l == 1)
        .to_vec()
}

/// The fills, row by row.
fn fills(table: &Table, filled: &Table) -> Vec<f64> {
    let cells = (0..table.n_rows()).flat_map(|i| (0..P).map(move |j| (i, j)));
    cells
        .filter(|&(i, j)| !table.is_observed(i, j))
        .map(|(i, j)| filled.row(i)[j])
        .collect()
}

#[track_caller]
pub(crate) fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (f, e) in found.iter().zip(expected) {
        assert!((f - e).abs() <= tolerance, "{found:?} is not {expected:?}");
    }
}

#[test]
fn chained_equations_agree_with_the_reference() {
    let (train, test) = (incomplete(0..12), incomplete(12..16));
    let imputer = ChainedImputer::fit(&train, &ChainedConfig::default()).unwrap();
    let expected = [
        -0.7970664269379423,
        1.6999805762978115,
        2.8562021736458436,
        0.9762540471738147,
        -0.27993870782476654,
        2.2520175079791165,
        -1.6445903650652456,
    ];
    let filled = imputer.transform(&train).unwrap();
    assert_close(&fills(&train, &filled), &expected, 1e-7);
    let filled = imputer.transform(&test).unwrap();
    assert_close(
        &fills(&test, &filled),
        &[2.5909355465636184, 2.2427947435222886],
        1e-7,
    );
}

#[test]
fn chained_rounds_are_counted_as_in_the_reference() {
    let (train, test) = (incomplete(0..12), incomplete(12..16));
    let expected = [
        (1, [1.1651203188434789, 0.9721011498296102]),
        (3, [2.8959140786553332, 2.0383758740739832]),
    ];
    for (rounds, fill) in expected {
        let config = ChainedConfig {
            rounds,
            ..Default::default()
        };
        let imputer = ChainedImputer::fit(&train, &config).unwrap();
        assert_close(
            &fills(&test, &imputer.transform(&test).unwrap()),
            &fill,
            1e-7,
        );
    }
}

#[test]
fn gaussian_em_agrees_with_the_reference() {
    let (train, test) = (incomplete(0..12), incomplete(12..16));
    let imputer = GaussianImputer::fit(&train, &GaussianConfig::default()).unwrap();
    let mean = [
        0.38344289583122154,
        0.5936725217000726,
        0.9470442618624905,
        1.270421286007557,
    ];
    assert_close(imputer.mean(), &mean, 1e-10);
    let covariance = imputer.covariance();
    let expected = [
        (0, 0, 0.6491536751411385),
        (1, 0, 0.41866782750021375),
        (0, 1, 0.41866782750021375),
        (3, 2, 0.5597266423595783),
        (3, 3, 1.2030946940048626),
    ];
    for (i, j, value) in expected {
        assert_close(&[covariance[(i, j)]], &[value], 1e-10);
    }
    let filled = imputer.transform(&test).unwrap();
    assert_close(
        &fills(&test, &filled),
        &[1.5616486128865867, 1.4589786345171574],
        1e-10,
    );
}

#[test]
fn support_vector_machines_agree_with_the_reference() {
    let (train, test) = (complete(0..12), complete(12..16));
    let rbf = Kernel::Rbf { gamma: None };
    let expected = [
        (
            rbf,
            [
                -0.06479845062873738,
                1.3205540387544914,
                -0.08721009132248098,
                -0.35772264614399407,
            ],
        ),
        (
            Kernel::Linear,
            [
                -0.9999998932739587,
                4.0601093148587015,
                0.7240437355183751,
                -0.9999999193911038,
            ],
        ),
    ];
    for (kernel, decision) in expected {
        let config = SvmConfig {
            kernel,
            tolerance: 1e-9,
            ..Default::default()
        };
        let svm = Svm::fit(&train, &labels(), &config).unwrap();
        assert_close(&svm.decision(&test).unwrap(), &decision, 1e-6);
    }
}

#[test]
fn logistic_regression_agrees_with_the_reference() {
    let train = complete(0..12);
    let expected = [
        (
            1.0,
            [
                1.081947825341195,
                -0.7082209657055597,
                1.0120189363761245,
                -0.17008447718357309,
            ],
            -0.609072431363865,
        ),
        (
            25.0,
            [
                3.7501461851659887,
                -1.7885203999094375,
                4.071892653530368,
                -1.1558108777330267,
            ],
            -2.34240717613242,
        ),
    ];
    for (c, weights, intercept) in expected {
        let config = LogisticConfig {
            c,
            ..Default::default()
        };
        let model = LogisticRegression::fit(&train, &labels(), &config).unwrap();
        assert_close(model.weights(), &weights, 1e-5);
        assert_close(&[model.intercept()], &[intercept], 1e-5);
    }
}

#[test]
fn logistic_regression_is_at_its_minimum() {
    // The gradient, written down again.
    let (train, labels) = (complete(0..12), labels());
    let model = LogisticRegression::fit(&train, &labels, &LogisticConfig::default()).unwrap();
    let scores = model.decision(&train).unwrap();
    let mut gradient = [model.weights(), &[0.0]].concat();
    for i in 0..train.n_rows() {
        let error = 1.0 / (1.0 + (-scores[i]).exp()) - f64::from(labels[i]);
        for j in 0..P {
            gradient[j] += error * train.row(i)[j];
        }
        gradient[P] += error;
    }
    assert_close(&gradient, &[0.0; P + 1], 1e-9);
}

#[test]
fn imputers_leave_observed_cells_and_complete_tables_alone() {
    let train = incomplete(0..12);
    let whole = complete(0..12);
    let mean = MeanImputer::fit(&train).unwrap();
    let chained = ChainedImputer::fit(&train, &ChainedConfig::default()).unwrap();
    let gaussian = GaussianImputer::fit(&train, &GaussianConfig::default()).unwrap();
    let filled = [
        mean.transform(&train),
        chained.transform(&train),
        gaussian.transform(&train),
    ];
    for filled in filled {
        let filled = filled.unwrap();
        assert_eq!(filled.n_missing(), 0);
        assert_eq!(filled.column_names(), train.column_names());
        for i in 0..train.n_rows() {
            for (j, value) in train.observed_in_row(i) {
                assert_eq!(filled.row(i)[j], value);
            }
        }
    }
    assert_eq!(mean.transform(&whole).unwrap(), whole);
    assert_eq!(chained.transform(&whole).unwrap(), whole);
    assert_eq!(gaussian.transform(&whole).unwrap(), whole);
}

#[test]
fn the_support_vector_machine_reads_every_column_of_wide_tables() {
    // Fewer rows than columns, and only the last column tells the classes apart.
    let p = 12;
    let values = (0..4).flat_map(|i| (0..p).map(move |j| if j + 1 == p { i as f64 } else { 0.0 }));
    let wide = Table::complete(4, p, values.collect()).unwrap();
    let svm = Svm::fit(&wide, &[false, false, true, true], &SvmConfig::default()).unwrap();
    let scores = svm.decision(&wide).unwrap();
    assert!(
        scores[0] < 0.0 && scores[1] < 0.0 && scores[2] > 0.0 && scores[3] > 0.0,
        "{scores:?}"
    );
}
