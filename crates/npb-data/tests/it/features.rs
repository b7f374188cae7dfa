//! Features of rows: dense and sparse ones are the same, and what cannot be is refused.

use npb_data::{DataError, Features};

#[test]
fn dense_and_sparse_agree() {
    let values = [0.0, 1.5, -2.0, 0.0, 0.0, 0.0];
    let dense = Features::dense(2, 3, &values).unwrap();
    let sparse = Features::sparse(2, 3, &[(0, 2, -2.0), (0, 1, 1.5)]).unwrap();
    let coefficients = [3.0, 2.0, 0.5];
    for i in 0..2 {
        let (mut a, mut b) = ([9.0; 3], [9.0; 3]);
        dense.write(i, &mut a);
        sparse.write(i, &mut b);
        assert_eq!(a, b);
        assert_eq!(dense.dot(i, &coefficients), sparse.dot(i, &coefficients));
    }
    assert_eq!(dense.dot(0, &coefficients), 2.0);
    let both = sparse.beside(&dense).unwrap();
    assert_eq!(both.n_features(), 6);
    assert_eq!(both.dot(0, &[0.0, 0.0, 1.0, 0.0, 4.0, 0.0]), 4.0);
}

#[test]
fn impossible_features_are_refused() {
    let nan = Features::dense(1, 2, &[0.0, f64::NAN]).unwrap_err();
    assert!(matches!(
        nan,
        DataError::Feature {
            row: 0,
            feature: 1,
            ..
        }
    ));
    // Finite, but not in single precision.
    assert!(Features::dense(1, 1, &[1e300]).is_err());
    assert!(Features::dense(1, 2, &[0.0]).is_err());
    let beyond = Features::sparse(2, 2, &[(0, 0, 1.0), (2, 0, 1.0)]).unwrap_err();
    assert!(
        beyond.to_string().starts_with("feature entry 1: row 2"),
        "{beyond}"
    );
    let twice = Features::sparse(2, 2, &[(1, 0, 1.0), (1, 0, 1.0)]).unwrap_err();
    assert_eq!(twice, DataError::FeatureTwice { row: 1, feature: 0 });
    let one = Features::dense(1, 1, &[1.0]).unwrap();
    assert!(
        one.beside(&Features::dense(2, 1, &[1.0, 2.0]).unwrap())
            .is_err()
    );
}

#[test]
fn stored_features_are_checked() {
    let sparse = Features::sparse(2, 3, &[(0, 2, -2.0), (0, 1, 1.5), (1, 0, 1.0)]).unwrap();
    let text = serde_json::to_string(&sparse).unwrap();
    assert_eq!(serde_json::from_str::<Features>(&text).unwrap(), sparse);
    for (sound, altered) in [
        ("\"q\":3", "\"q\":2"),
        ("\"n\":2", "\"n\":3"),
        ("\"starts\":[0,2,3]", "\"starts\":[0,4,3]"),
        ("\"indices\":[1,2,0]", "\"indices\":[2,2,0]"),
        ("\"starts\":[0,2,3]", "\"starts\":[]"),
    ] {
        assert!(text.contains(sound), "{text}");
        let broken = text.replace(sound, altered);
        assert!(
            serde_json::from_str::<Features>(&broken).is_err(),
            "{broken}"
        );
    }
}
