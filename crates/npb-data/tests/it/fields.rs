//! What columns measure: guesses from values, declarations, lists, checks.

use npb_data::read::{Column, Declared, DelimitedOptions, FieldTable, Source, field_table};
use npb_data::{DataError, Field, FieldGuess, Measure, MixedColumn, MixedTable};

fn guess(column: MixedColumn) -> FieldGuess {
    let table = MixedTable::new(vec!["x".into()], vec![column]).expect("valid");
    Field::guess_all(&table).1.remove(0)
}

fn counts(values: impl IntoIterator<Item = u64>) -> MixedColumn {
    MixedColumn::Count(values.into_iter().map(Some).collect())
}

fn reals(values: impl IntoIterator<Item = f64>) -> MixedColumn {
    MixedColumn::Real(values.into_iter().map(Some).collect())
}

#[test]
fn whole_numbers_are_counts_codes_amounts_or_identifiers() {
    let few = guess(counts((0..100).map(|i| i % 7)));
    assert_eq!(few.measure, Measure::Count);
    assert_eq!(
        few.others,
        [Measure::Real, Measure::Ordinal, Measure::Categorical]
    );
    assert_eq!(
        (few.n_observed, few.n_distinct, few.identifier),
        (100, 7, false)
    );
    let codes = guess(counts((0..100).map(|i| 20 + 10 * (i % 5))));
    assert_eq!(codes.measure, Measure::Categorical, "{}", codes.why);
    let amounts = guess(counts((0..100).map(|i| 1000 + 37 * i)));
    assert_eq!(amounts.measure, Measure::Real, "{}", amounts.why);
    assert_eq!(amounts.others, [Measure::Positive, Measure::Count]);
    let skewed = guess(counts((0..100).map(|i| 100 + (1_u64 << (i % 20)))));
    assert_eq!(skewed.measure, Measure::Positive, "{}", skewed.why);
    let with_zero = guess(counts(
        (0..100).map(|i| if i % 2 == 0 { 0 } else { 1000 + 37 * i }),
    ));
    assert_eq!(
        (with_zero.measure, with_zero.others),
        (Measure::Real, vec![Measure::Count])
    );
    let numbering = guess(counts(1..=50));
    assert!(numbering.identifier && numbering.why.contains("consecutive"));
    assert!(!guess(counts(1..=10)).identifier, "ten rows say nothing");
}

/// Marks with standard deviation 1.4 are grades; a table of counts with Poisson's variance, gaps, many values or few rows stay counts.
#[test]
fn whole_numbers_that_vary_less_than_chance_are_grades() {
    // 5 + three differences of ±1 or 0: 2 to 8.
    let marks = |n: u64| (0..n).map(|i| 2 + i % 3 + i / 3 % 3 + i / 9 % 3);
    let grades = guess(counts(marks(81)));
    assert_eq!(grades.measure, Measure::Ordinal, "{}", grades.why);
    assert_eq!(
        grades.others,
        [Measure::Count, Measure::Real, Measure::Categorical]
    );
    // Mean 5, variance three times 2 / 3.
    for part in ["from 2 to 8", "variance 2.0", "mean, 5.0", "grades"] {
        assert!(grades.why.contains(part), "{}", grades.why);
    }
    // Shares of 1,000 of Poisson's law with mean 2.
    let shares = [135, 271, 271, 180, 90, 36, 12, 3, 1];
    let chance = shares.iter().zip(0..).flat_map(|(&n, k)| vec![k; n]);
    for other in [
        guess(counts(chance)),
        guess(counts(marks(81).map(|x| if x == 3 { 4 } else { x }))),
        guess(counts((0..400).map(|i| 30 + i % 13))),
        guess(counts(marks(15))),
        // Mean 1.5, variance 1.25: children.
        guess(counts((0..120).map(|i| i % 4))),
        guess(counts((0..40).map(|i| 5 + i % 2))),
    ] {
        assert_eq!(other.measure, Measure::Count, "{}", other.why);
    }
}

#[test]
fn reals_are_positive_when_their_logarithm_is_less_skewed() {
    let skewed = guess(reals((1..200).map(|i| (f64::from(i) / 40.0).exp())));
    assert_eq!(
        (skewed.measure, &skewed.others[..]),
        (Measure::Positive, &[Measure::Real][..])
    );
    assert!(skewed.why.contains("skewness"));
    let even = guess(reals((1..200).map(f64::from)));
    assert_eq!(even.measure, Measure::Real);
    assert_eq!(
        even.others,
        [Measure::Positive, Measure::Angle { period: 360.0 }][..1]
    );
    let circle = guess(reals((0..200).map(|i| 1.8 * f64::from(i))));
    assert_eq!(
        circle.others,
        [Measure::Angle { period: 360.0 }],
        "0 is not above 0"
    );
    let none = guess(MixedColumn::Real(vec![None; 3]));
    assert_eq!(
        (none.measure, none.why.as_str()),
        (Measure::Real, "nothing observed")
    );
    for extreme in [1e300, 1e-300] {
        let guess = guess(reals([extreme, 2.0 * extreme, 1e3 * extreme, -extreme]));
        assert_eq!(guess.measure, Measure::Real);
    }
}

#[test]
fn text_is_categorical_and_may_name_rows() {
    let levels: Vec<String> = (0..30).map(|k| format!("n{k}")).collect();
    let codes = (0..30).map(Some).collect();
    let names = guess(MixedColumn::Categorical { levels, codes });
    assert!(names.identifier && names.measure == Measure::Categorical);
    let levels = ["no".to_owned(), "yes".to_owned()];
    let values = vec![Some(true), None];
    let pair = guess(MixedColumn::Binary { levels, values });
    assert_eq!((pair.measure, pair.n_distinct), (Measure::Binary, 1));
}

fn declare(name: &str, measure: Measure, columns: &[&str]) -> Declared {
    Declared {
        name: name.into(),
        measure,
        source: Source::Columns(columns.iter().map(|&c| Column::from(c)).collect()),
        levels: vec![],
    }
}

fn list(name: &str, measure: Measure, column: &str) -> Declared {
    let source = Source::List {
        column: column.into(),
        separator: ';',
    };
    Declared {
        source,
        ..declare(name, measure, &[])
    }
}

fn read(text: &str, declared: &[Declared]) -> Result<FieldTable, String> {
    field_table(
        "f.csv",
        text.as_bytes(),
        &DelimitedOptions::default(),
        declared,
    )
    .map_err(|e| e.to_string())
}

const TEXT: &str = "id,size,wind,grade,x,y,path,friends\n\
    a,3.5,10,low,1,2,0.5;1.5,1;2\n\
    b,2.5,350,high,?,4,0.5;?;2.5,;\n\
    c,9.5,180,mid,5,6,?,?\n";

#[test]
fn declared_fields_override_and_join() {
    let mut grade = declare("grade", Measure::Ordinal, &["grade"]);
    grade.levels = ["low", "mid", "high", "top"].map(str::to_owned).to_vec();
    let declared = [
        declare("place", Measure::Vector, &["x", "y"]),
        declare("wind", Measure::Angle { period: 360.0 }, &["wind"]),
        grade,
        list("path", Measure::Series, "path"),
        list("friends", Measure::Network, "friends"),
    ];
    let read = read(TEXT, &declared).expect("valid");
    let names: Vec<&str> = read.fields.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(
        names,
        ["id", "size", "wind", "grade", "place", "path", "friends"]
    );
    let columns: Vec<&[usize]> = read.fields.iter().map(|f| &f.columns[..]).collect();
    assert_eq!(columns[4..], [&[4, 5][..], &[6, 7, 8], &[9, 10, 11]]);
    assert_eq!(read.guesses.len(), 6, "one per column of single values");
    assert_eq!(
        read.guesses[2].measure,
        Measure::Real,
        "350 degrees look like an amount"
    );
    assert_eq!(
        read.table.column(3),
        &MixedColumn::Categorical {
            levels: ["low", "mid", "high", "top"].map(str::to_owned).to_vec(),
            codes: vec![Some(0), Some(2), Some(1)],
        }
    );
    assert_eq!(
        read.table.column(7),
        &MixedColumn::Real(vec![Some(1.5), None, None])
    );
    let linked = |j: usize| match read.table.column(9 + j) {
        MixedColumn::Binary { values, .. } => values.clone(),
        _ => panic!("binary"),
    };
    assert_eq!(linked(0), [Some(false), Some(false), None]);
    assert_eq!(linked(1), [Some(true), Some(false), None]);
    assert_eq!(read.table.column_names()[9], "friends[0]");
}

#[test]
fn a_network_may_stand_in_columns_without_any_link() {
    let text = "a,b,c\n0,0,1\n0,0,?\n0,1,0\n";
    let read = read(text, &[declare("net", Measure::Network, &["a", "b", "c"])]).expect("valid");
    assert_eq!(
        read.fields,
        [Field::new("net", Measure::Network, vec![0, 1, 2])]
    );
    assert!((0..3).all(|i| read.table.is_observed(i, 0)));
}

#[test]
fn what_does_not_fit_is_named() {
    let mut grade = declare("grade", Measure::Ordinal, &["grade"]);
    grade.levels = vec!["low".into(), "high".into()];
    let cases = [
        (
            vec![grade],
            "f.csv:4: column 4 (\"grade\"): \"mid\" is not one of the declared levels",
        ),
        (
            vec![list("p", Measure::Vector, "path")],
            "f.csv:3: column 7 (\"path\"): \"a list of 3\" is not as long",
        ),
        (
            vec![list("p", Measure::Network, "path")],
            "f.csv:2: column 7 (\"path\"): \"0.5\" is not the number of a row",
        ),
        (
            vec![list("p", Measure::Series, "id")],
            "f.csv:2: column 1 (\"id\"): \"a\" is not a number",
        ),
        (
            vec![declare("p", Measure::Real, &["x", "y"])],
            "f.csv: field \"p\" (real) has 2 columns, expected 1",
        ),
        (
            vec![declare("p", Measure::Vector, &[])],
            "f.csv: field \"p\" (vector) has 0 columns, expected 1",
        ),
        (
            vec![declare("p", Measure::Network, &["x"])],
            "f.csv:4: column 5 (\"x\"): \"5\" is not one of the declared levels",
        ),
        (
            vec![
                declare("p", Measure::Vector, &["x", "y"]),
                declare("q", Measure::Real, &["y"]),
            ],
            "f.csv: column 5 belongs to the fields \"p\" and \"q\"",
        ),
        (
            vec![declare("p", Measure::Angle { period: 0.0 }, &["x"])],
            "f.csv: field \"p\": period 0 must be",
        ),
        (
            vec![declare("id", Measure::Real, &["x"])],
            "f.csv: columns 0 and 4 have the same name \"id\"",
        ),
        (
            vec![declare("p", Measure::Real, &["z"])],
            "f.csv: there is no column named \"z\"",
        ),
    ];
    for (declared, message) in cases {
        let error = read(TEXT, &declared).expect_err(message);
        assert!(error.starts_with(message), "{error} | {message}");
    }
}

#[test]
fn fields_are_checked_against_their_table() {
    let columns = vec![reals([1.0, 0.0]), counts([1, 2])];
    let table = MixedTable::new(vec!["a".into(), "b".into()], columns).expect("valid");
    let check = |field: Field| Field::check_all(&[field], &table);
    assert_eq!(check(Field::new("f", Measure::Positive, vec![1])), Ok(()));
    assert!(matches!(
        check(Field::new("f", Measure::Positive, vec![0])),
        Err(DataError::NotPositive {
            row: 1,
            column: 0,
            ..
        })
    ));
    assert!(matches!(
        check(Field::new("f", Measure::Real, vec![2])),
        Err(DataError::ColumnRange {
            column: 2,
            n_cols: 2,
            ..
        })
    ));
    assert!(matches!(
        check(Field::new("f", Measure::Count, vec![0])),
        Err(DataError::WrongKind { column: 0, .. })
    ));
    assert!(matches!(
        check(Field::new("f", Measure::Network, vec![0])),
        Err(DataError::FieldColumns {
            found: 1,
            expected: 2,
            ..
        })
    ));
}
