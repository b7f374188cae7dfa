//! Bad and borderline input: a named error or a finite result.

use npb_baselines::{
    BaselineError, ChainedConfig, ChainedImputer, GaussianConfig, GaussianImputer, LogisticConfig,
    LogisticRegression, MeanImputer, Svm, SvmConfig,
};
use npb_data::{DataError, Table};

const NAN: f64 = f64::NAN;

fn table(n_cols: usize, values: &[f64]) -> Table {
    Table::from_nan_coded(values.len() / n_cols.max(1), n_cols, values).unwrap()
}

/// Every imputer, fitted to `train` and applied to `test`.
fn impute(train: &Table, test: &Table) -> Vec<Result<Table, BaselineError>> {
    vec![
        MeanImputer::fit(train).and_then(|m| m.transform(test)),
        ChainedImputer::fit(train, &ChainedConfig::default()).and_then(|m| m.transform(test)),
        GaussianImputer::fit(train, &GaussianConfig::default()).and_then(|m| m.transform(test)),
    ]
}

#[test]
fn a_column_never_seen_in_training_becomes_zero() {
    let train = table(3, &[1.0, NAN, 2.0, 2.0, NAN, NAN, 4.0, NAN, 5.0]);
    let test = table(3, &[1.0, 7.0, NAN]);
    for filled in impute(&train, &test) {
        let filled = filled.unwrap();
        assert_eq!(filled.row(0)[1], 0.0);
        assert_eq!(filled.row(0)[0], 1.0);
    }
}

/// Complete training rows teach how columns depend on each other; the middle of the second column is 6.
#[test]
fn holes_of_new_rows_are_filled_conditionally_after_complete_training() {
    let train = table(2, &[1.0, 2.0, 2.0, 4.0, 3.0, 6.0, 4.0, 8.0, 5.0, 10.0]);
    let test = table(2, &[1.0, NAN]);
    let [mean, conditional @ ..] = &impute(&train, &test)[..] else {
        panic!("no imputers");
    };
    assert_eq!(mean.as_ref().unwrap().row(0)[1], 6.0);
    for filled in conditional {
        let guess = filled.as_ref().unwrap().row(0)[1];
        assert!((guess - 2.0).abs() < 0.3, "{guess}");
    }
}

#[test]
fn an_empty_row_gets_finite_values() {
    let train = table(2, &[1.0, 2.0, NAN, NAN, 3.0, 1.0, 2.0, NAN]);
    for filled in impute(&train, &train) {
        assert_eq!(filled.unwrap().n_missing(), 0);
    }
    let means = MeanImputer::fit(&train).unwrap().transform(&train).unwrap();
    assert_eq!(means.row(1), [2.0, 1.5]);
}

#[test]
fn hard_shapes_and_sizes_stay_finite() {
    let cases = [
        table(1, &[1.0, NAN, 3.0]),
        table(2, &[5.0, NAN]),
        table(2, &[1.0, 1.0, 1.0, NAN, 1.0, 1.0]),
        table(2, &[2.0, 4.0, 2.0, 4.0, 2.0, NAN]),
        table(5, &[1.0, 2.0, NAN, 4.0, 5.0, 2.0, NAN, 1.0, 0.0, 1.0]),
        table(2, &[1e-300, NAN, 2e-300, 3e-300, NAN, 1e-300]),
        table(3, &[NAN; 6]),
    ];
    for case in cases {
        for filled in impute(&case, &case) {
            assert_eq!(filled.unwrap().n_missing(), 0);
        }
    }
}

#[test]
fn values_beyond_the_range_of_squares_are_an_error_or_finite() {
    let huge = table(2, &[1e300, NAN, -1e300, 1e300, 1e300, -1e300, NAN, 1.0]);
    for filled in impute(&huge, &huge) {
        match filled {
            Ok(filled) => assert!(filled.values().iter().all(|v| v.is_finite())),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn nothing_to_learn_from_is_named() {
    let none = Table::complete(0, 2, vec![]).unwrap();
    for filled in impute(&none, &none) {
        assert_eq!(
            filled.unwrap_err(),
            BaselineError::Empty {
                n_rows: 0,
                n_cols: 2
            }
        );
    }
    let svm = Svm::fit(&none, &[], &SvmConfig::default());
    assert_eq!(
        svm.unwrap_err(),
        BaselineError::Empty {
            n_rows: 0,
            n_cols: 2
        }
    );
}

#[test]
fn other_columns_at_prediction_are_named() {
    let train = table(2, &[1.0, NAN, 2.0, 3.0]);
    let other = table(3, &[1.0, 2.0, 3.0]);
    let expected = BaselineError::Data(DataError::ColumnCount {
        found: 3,
        expected: 2,
    });
    for filled in impute(&train, &other) {
        assert_eq!(filled.unwrap_err(), expected);
    }
    let train = table(2, &[1.0, 0.0, 2.0, 3.0]);
    let svm = Svm::fit(&train, &[true, false], &SvmConfig::default()).unwrap();
    assert_eq!(svm.decision(&other).unwrap_err(), expected);
    let model =
        LogisticRegression::fit(&train, &[true, false], &LogisticConfig::default()).unwrap();
    assert_eq!(model.decision(&other).unwrap_err(), expected);
}

/// Both classifiers on the same training set.
fn classify(train: &Table, labels: &[bool]) -> [BaselineError; 2] {
    [
        Svm::fit(train, labels, &SvmConfig::default()).unwrap_err(),
        LogisticRegression::fit(train, labels, &LogisticConfig::default()).unwrap_err(),
    ]
}

#[test]
fn classifiers_name_holes_labels_and_classes() {
    for error in classify(&table(2, &[1.0, 2.0, 3.0, NAN]), &[true, false]) {
        assert_eq!(error, BaselineError::Missing { row: 1, column: 1 });
    }
    let whole = table(2, &[1.0, 2.0, 3.0, 4.0]);
    for error in classify(&whole, &[true]) {
        assert_eq!(
            error,
            BaselineError::LabelCount {
                labels: 1,
                n_rows: 2
            }
        );
    }
    for error in classify(&whole, &[true, true]) {
        assert_eq!(
            error,
            BaselineError::OneClass {
                n_rows: 2,
                class: true
            }
        );
    }
}

#[test]
fn settings_out_of_range_are_named() {
    let whole = table(2, &[1.0, 2.0, 3.0, 4.0]);
    for bad in [0.0, -1.0, NAN, f64::INFINITY] {
        let svm = SvmConfig {
            c: bad,
            ..Default::default()
        };
        let error = Svm::fit(&whole, &[true, false], &svm).unwrap_err();
        assert!(
            matches!(error, BaselineError::Config { field: "c", .. }),
            "{error}"
        );
        let gaussian = GaussianConfig {
            ridge: bad,
            ..Default::default()
        };
        let error = GaussianImputer::fit(&whole, &gaussian).unwrap_err();
        assert!(
            matches!(error, BaselineError::Config { field: "ridge", .. }),
            "{error}"
        );
        let chained = ChainedConfig {
            tolerance: bad,
            ..Default::default()
        };
        let error = ChainedImputer::fit(&whole, &chained).unwrap_err();
        assert!(
            matches!(
                error,
                BaselineError::Config {
                    field: "tolerance",
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn classifiers_survive_constant_and_huge_columns() {
    let labels = [true, false, true];
    let constant = table(1, &[1.0, 1.0, 1.0]);
    let scores = Svm::fit(&constant, &labels, &SvmConfig::default())
        .unwrap()
        .decision(&constant)
        .unwrap();
    assert!(scores.iter().all(|s| s.is_finite()));
    let model = LogisticRegression::fit(&constant, &labels, &LogisticConfig::default()).unwrap();
    assert!(
        model
            .decision(&constant)
            .unwrap()
            .iter()
            .all(|s| s.is_finite())
    );
    let huge = table(1, &[1e300, -1e300, 1e300]);
    match Svm::fit(&huge, &labels, &SvmConfig::default()) {
        Ok(svm) => assert!(svm.decision(&huge).unwrap().iter().all(|s| s.is_finite())),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
