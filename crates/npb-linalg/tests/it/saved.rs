use npb_linalg::faer::{Mat, mat};
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct State {
    #[serde(with = "npb_linalg::saved")]
    one: Mat<f64>,
    #[serde(with = "npb_linalg::saved::vec")]
    many: Vec<Mat<f64>>,
}

fn round_trip(state: &State) -> State {
    serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap()
}

#[test]
fn round_trips_every_shape() {
    let values = mat![[1.0, -0.0, 1e-300], [f64::MAX, f64::MIN_POSITIVE, 0.1]];
    for shape in [(0, 0), (0, 3), (3, 0), (1, 1), (2, 3)] {
        let one = Mat::from_fn(shape.0, shape.1, |i, j| values[(i, j)]);
        let many = vec![one.clone(), Mat::new(), values.clone()];
        let state = State { one, many };
        let back = round_trip(&state);
        assert_eq!(back, state);
        assert_eq!(back.one.shape(), shape);
    }
}

#[test]
fn the_stored_form_is_by_column() {
    let state = State {
        one: mat![[1.0, 2.0], [3.0, 4.0]],
        many: vec![],
    };
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(
        text,
        r#"{"one":{"n_rows":2,"n_cols":2,"values":[1.0,3.0,2.0,4.0]},"many":[]}"#
    );
}

#[test]
fn lengths_that_disagree_are_errors() {
    let read = |rows: u64, cols: u64, values: &str| {
        let text = format!(
            r#"{{"one":{{"n_rows":{rows},"n_cols":{cols},"values":[{values}]}},"many":[]}}"#
        );
        serde_json::from_str::<State>(&text).map_err(|error| error.to_string())
    };
    assert!(read(2, 1, "1,2").is_ok());
    assert!(
        read(2, 2, "1,2,3")
            .unwrap_err()
            .contains("a 2 x 2 matrix cannot hold 3 values")
    );
    // The product wraps around to 0 and to 2 in 64 bits.
    assert!(read(1 << 32, 1 << 32, "").is_err());
    assert!(read((1 << 63) + 1, 2, "1,2").is_err());
    // No values, but dimensions that would overflow or loop for years.
    assert!(read(0, 1 << 60, "").is_err());
    assert!(read(u64::MAX, 0, "").is_err());
}
