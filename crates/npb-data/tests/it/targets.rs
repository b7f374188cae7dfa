//! Several targets per row.

use npb_data::{DataError, Table, TargetKind, Targets};

const NAN: f64 = f64::NAN;

fn table(values: &[f64]) -> Table {
    Table::from_nan_coded(values.len() / 2, 2, values).unwrap()
}

#[test]
fn labels_are_signs_or_unknown() {
    let targets = Targets::signs(table(&[1.0, -1.0, NAN, 1.0, NAN, NAN])).unwrap();
    assert_eq!(
        (targets.n_rows(), targets.n_targets(), targets.kind()),
        (3, 2, TargetKind::Sign)
    );
    assert_eq!(
        targets.select_rows(&[1, 1]).known(1).collect::<Vec<_>>(),
        [(0, 1.0), (1, 1.0)]
    );
    for bad in [0.0, 2.0, -1.5, 1.0 + 1e-15] {
        let found = Targets::signs(table(&[1.0, -1.0, NAN, bad])).unwrap_err();
        assert_eq!(
            found,
            DataError::NotSign {
                row: 1,
                column: 1,
                value: bad
            }
        );
    }
    let real = Targets::real(table(&[0.5, NAN]));
    assert_eq!((real.get(0, 0), real.get(0, 1)), (Some(0.5), None));
}

#[test]
fn labels_come_from_decisions_and_from_tasks() {
    let bools = [Some(true), None, Some(false), Some(false)];
    let targets = Targets::from_bools(["a", "b"], &bools).unwrap();
    assert_eq!(
        targets.table(),
        &table(&[1.0, NAN, -1.0, -1.0])
            .with_column_names(["a", "b"])
            .unwrap()
    );
    assert!(matches!(
        Targets::from_bools(["a", "b"], &bools[..3]),
        Err(DataError::Length { .. })
    ));
    assert!(matches!(
        Targets::from_bools(["a", "a"], &bools),
        Err(DataError::DuplicateColumn { .. })
    ));

    let of =
        |kind, tasks: &[usize], values: &[f64]| Targets::of_tasks(kind, ["a", "b"], tasks, values);
    let targets = of(TargetKind::Real, &[1, 0, 1], &[2.0, 3.0, 4.0]).unwrap();
    assert_eq!(targets.known(1).collect::<Vec<_>>(), [(0, 2.0), (2, 4.0)]);
    assert_eq!(targets.get(0, 0), None);
    assert!(matches!(
        of(TargetKind::Real, &[2], &[1.0]),
        Err(DataError::Code {
            row: 0,
            code: 2,
            ..
        })
    ));
    assert!(matches!(
        of(TargetKind::Real, &[0], &[]),
        Err(DataError::Length { .. })
    ));
    assert!(matches!(
        of(TargetKind::Sign, &[0], &[3.0]),
        Err(DataError::NotSign { .. })
    ));
    assert!(matches!(
        of(TargetKind::Real, &[0], &[NAN]),
        Err(DataError::NotFinite { .. })
    ));
}
