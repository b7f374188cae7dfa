//! Tables from and to matrices of other libraries.

use npb_data::{DataError, Table};
use npb_linalg::faer::Mat;

#[test]
fn faer_matrices() {
    let values = Mat::from_fn(2, 3, |i, j| {
        if (i, j) == (1, 2) {
            f64::NAN
        } else {
            (10 * i + j) as f64
        }
    });
    let table = Table::from_mat_nan_coded(values.as_ref()).expect("valid");
    assert_eq!(table.values(), [0.0, 1.0, 2.0, 10.0, 11.0, 0.0]);
    assert_eq!(table.get(1, 2), None);
    let observed = [true, true, true, true, true, false];
    assert_eq!(
        Table::from_mat(values.as_ref(), &observed),
        Ok(table.clone())
    );
    assert!(matches!(
        Table::from_mat(values.as_ref(), &[true; 6]),
        Err(DataError::NotFinite {
            row: 1,
            column: 2,
            ..
        })
    ));
    assert!(matches!(
        Table::from_mat(values.as_ref(), &[true; 5]),
        Err(DataError::Length { .. })
    ));
    assert_eq!(
        Table::from_mat_nan_coded(values.transpose())
            .expect("valid")
            .get(2, 0),
        Some(2.0)
    );
    let single = Mat::from_fn(2, 3, |i, j| values[(i, j)] as f32);
    assert_eq!(
        Table::from_mat_nan_coded(single.as_ref()),
        Ok(table.clone())
    );
    let view = table.as_mat();
    assert_eq!(
        (view.nrows(), view.ncols(), view[(1, 1)], view[(1, 2)]),
        (2, 3, 11.0, 0.0)
    );
}

#[cfg(feature = "ndarray")]
#[test]
fn ndarray_arrays() {
    use ndarray::array;
    let values = array![[1.0, f64::NAN], [3.0, 4.0]];
    let observed = array![[true, false], [true, true]];
    let table = Table::from_array_nan_coded(values.view()).expect("valid");
    assert_eq!(
        Table::from_array(values.view(), observed.view()),
        Ok(table.clone())
    );
    assert_eq!(table.as_array(), array![[1.0, 0.0], [3.0, 4.0]]);
    assert_eq!(
        Table::from_array_nan_coded(values.t())
            .expect("valid")
            .get(1, 0),
        None
    );
    let single = values.mapv(|v| v as f32);
    assert_eq!(Table::from_array_nan_coded(single.view()), Ok(table));
    let wrong = Table::from_array(values.view(), array![[true]].view());
    assert!(matches!(wrong, Err(DataError::Shape { .. })));
}
