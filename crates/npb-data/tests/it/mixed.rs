//! Typed columns: construction, inference from text, conversions.

use npb_data::read::{ReadError, ReadingRules, with_schema};
use npb_data::schema::{Kind, Role, Schema};
use npb_data::{ColumnKind, DataError, Mask, MixedColumn, MixedTable};

/// Reads a text as its schema is guessed, but for columns that are said to be of another kind.
fn read(text: &str, kinds: &[(&str, Kind)]) -> Result<MixedTable, ReadError> {
    let mut schema = Schema::guess("f.csv", text.as_bytes(), &Default::default())?.schema;
    schema
        .columns
        .iter_mut()
        .for_each(|c| c.role = Role::Feature);
    for (name, kind) in kinds {
        let at = schema.position(name).expect("a column");
        (schema.columns[at].kind, schema.columns[at].levels) = (*kind, None);
    }
    let read = with_schema("f.csv", text.as_bytes(), &schema, &ReadingRules::default())?;
    Ok(read.0.features)
}

const TEXT: &str = "area,rooms,city,sold,code,flag,empty,delta\n\
    71.5,3,Oslo,no,1,0,?,-1\n\
    40,?,Bergen,yes,2,1,?,2\n\
    ?,5,\"Mo, Rana\",no,10,0,?,3\n\
    55.25,4,Oslo,?,2,?,?,4\n";

#[test]
fn kinds_are_guessed() {
    use ColumnKind::{Binary, Categorical, Count, Real};
    let table = read(TEXT, &[]).expect("valid");
    let kinds = table.columns().iter().map(MixedColumn::kind);
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [Real, Count, Categorical, Binary, Count, Binary, Real, Real]
    );
    assert_eq!(
        table.column(0),
        &MixedColumn::Real(vec![Some(71.5), Some(40.0), None, Some(55.25)])
    );
    assert_eq!(
        table.column(1),
        &MixedColumn::Count(vec![Some(3), None, Some(5), Some(4)])
    );
    let levels = vec![
        "Bergen".to_owned(),
        "Mo, Rana".to_owned(),
        "Oslo".to_owned(),
    ];
    assert_eq!(
        table.column(2),
        &MixedColumn::Categorical {
            levels,
            codes: vec![Some(2), Some(0), Some(1), Some(2)]
        }
    );
    let levels = ["no".to_owned(), "yes".to_owned()];
    assert_eq!(
        table.column(3),
        &MixedColumn::Binary {
            levels,
            values: vec![Some(false), Some(true), Some(false), None]
        }
    );
    assert_eq!(table.n_missing(), 8);
}

#[test]
fn the_guess_can_be_overridden() {
    let table = read(TEXT, &[("code", Kind::Categorical), ("rooms", Kind::Real)]).expect("fits");
    let MixedColumn::Categorical { levels, .. } = table.column(4) else {
        panic!("categorical")
    };
    assert_eq!(levels, &["1", "2", "10"], "sorted as numbers");
    assert_eq!(table.column(1).kind(), ColumnKind::Real);
    let cases = [
        (
            ("city", Kind::Real),
            "f.csv:2: column 3 (\"city\"): \"Oslo\" is not a number",
        ),
        (
            ("area", Kind::Count),
            "f.csv:2: column 1 (\"area\"): \"71.5\" is not a count",
        ),
        (
            ("delta", Kind::Count),
            "f.csv:2: column 8 (\"delta\"): \"-1\" is not a count",
        ),
        (
            ("city", Kind::Binary),
            "f.csv:4: column 3 (\"city\"): a binary column needs two distinct values, found 3",
        ),
    ];
    for (kind, message) in cases {
        let error = read(TEXT, &[kind]).expect_err(message).to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn one_number_written_in_two_ways_is_not_binary() {
    let table = read("a\n1\n1.0\n", &[]).expect("valid");
    assert_eq!(table.column(0), &MixedColumn::Count(vec![Some(1), Some(1)]));
    let table = read("a\n2.5\n3.5\n", &[]).expect("valid");
    assert_eq!(table.column(0).kind(), ColumnKind::Real);
    let counts = [("a", Kind::Count)];
    let table = read("a\n9007199254740993\n1\n2\n", &counts).expect("valid");
    assert_eq!(
        table.column(0),
        &MixedColumn::Count(vec![Some(1 << 53), Some(1), Some(2)]),
        "2^53 + 1 reads as 2^53"
    );
    let table = read("a\n1e300\n1\n2\n", &[]).expect("valid");
    assert_eq!(table.column(0).kind(), ColumnKind::Real);
}

#[test]
fn rows_columns_masks_and_conversions() {
    let table = read(TEXT, &[]).expect("valid");
    let picked = table
        .select_rows(&[3, 0, 3])
        .select_columns(&[5, 2])
        .expect("distinct");
    assert_eq!(
        (picked.n_rows(), picked.column_names()),
        (3, &["flag".to_owned(), "city".to_owned()][..])
    );
    assert_eq!(picked.is_observed(0, 0), table.is_observed(3, 5));
    let mask = Mask::from_fn(4, 8, |i, j| i == 0 && j < 4).expect("small");
    let hidden = table.hide(&mask).expect("same shape");
    assert_eq!(hidden.n_missing(), table.n_missing() + 4);
    assert!(matches!(
        table.hide(&Mask::new(4, 7, true).expect("small")),
        Err(DataError::Shape { .. })
    ));
    let numbers = table.numeric_table(&[3, 0]).expect("numbers");
    assert_eq!(numbers.column_names(), ["sold", "area"]);
    assert_eq!(
        [numbers.get(1, 0), numbers.get(3, 0), numbers.get(1, 1)],
        [Some(1.0), None, Some(40.0)]
    );
    assert!(matches!(
        table.numeric_table(&[2]),
        Err(DataError::WrongKind { column: 2, .. })
    ));
    assert_eq!(table.labels(2).expect("levels").name(1), Some("Bergen"));
    assert_eq!(
        table.labels(3).expect("levels").codes(),
        [Some(0), Some(1), Some(0), None]
    );
    assert_eq!(table.labels(4).expect("counts").classes(), ["1", "2", "10"]);
    assert!(matches!(table.labels(0), Err(DataError::WrongKind { .. })));
    assert_eq!(table.column_index("city"), Ok(2));
}

#[test]
fn bad_columns_are_named() {
    let names = |n: usize| (0..n).map(|j| format!("c{j}")).collect::<Vec<_>>();
    let uneven = MixedTable::new(
        names(2),
        vec![MixedColumn::Real(vec![None]), MixedColumn::Count(vec![])],
    );
    assert!(matches!(
        uneven,
        Err(DataError::Length {
            what: "column",
            found: 0,
            expected: 1
        })
    ));
    let infinite = MixedTable::new(
        names(1),
        vec![MixedColumn::Real(vec![None, Some(f64::NAN)])],
    );
    assert!(matches!(
        infinite,
        Err(DataError::NotFinite {
            row: 1,
            column: 0,
            ..
        })
    ));
    let huge = MixedTable::new(names(1), vec![MixedColumn::Count(vec![Some(u64::MAX)])]);
    assert!(matches!(
        huge,
        Err(DataError::NotCount {
            row: 0,
            column: 0,
            ..
        })
    ));
    let code = MixedColumn::Categorical {
        levels: vec!["a".into()],
        codes: vec![Some(1)],
    };
    assert!(matches!(
        MixedTable::new(names(1), vec![code]),
        Err(DataError::Code {
            row: 0,
            code: 1,
            n_classes: 1
        })
    ));
    let same = MixedColumn::Binary {
        levels: ["a".into(), "a".into()],
        values: vec![],
    };
    assert!(matches!(
        MixedTable::new(names(1), vec![same]),
        Err(DataError::DuplicateClass { .. })
    ));
    assert!(matches!(
        MixedTable::new(names(2), vec![]),
        Err(DataError::Length {
            what: "column names",
            ..
        })
    ));
}

#[test]
fn empty_mixed_files() {
    assert_eq!(read("", &[]).expect("valid"), MixedTable::default());
    let table = read("a,b\n", &[]).expect("valid");
    assert_eq!((table.n_rows(), table.n_cols()), (0, 2));
}
