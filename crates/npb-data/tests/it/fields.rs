//! What columns measure: guesses from values, checks.

use npb_data::schema::{Kind, Schema};
use npb_data::{DataError, Field, Measure, MixedColumn, MixedTable, RawColumn, RawTable};

/// What a column is taken for.
struct Found {
    measure: Measure,
    others: Vec<Measure>,
    identifier: bool,
    why: String,
    n_observed: usize,
    n_distinct: usize,
}

fn guess(cells: RawColumn) -> Found {
    let table = RawTable::new(vec!["x".into()], vec![cells]).expect("valid");
    let mut all = Schema::guess_raw("t", &table);
    let (column, guess) = (&all.schema.columns[0], all.guesses.remove(0));
    let others = guess.others.iter().map(|other| other.measure());
    Found {
        measure: column.measure(),
        others: others.collect(),
        identifier: column.kind == Kind::Identifier,
        why: guess.why,
        n_observed: guess.n_observed,
        n_distinct: guess.n_distinct,
    }
}

fn counts(values: impl IntoIterator<Item = i64>) -> RawColumn {
    RawColumn::Whole(values.into_iter().map(Some).collect())
}

fn reals(values: impl IntoIterator<Item = f64>) -> RawColumn {
    RawColumn::Numbers(values.into_iter().map(Some).collect())
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
    let skewed = guess(counts((0..100).map(|i| 100 + (1_i64 << (i % 20)))));
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
    // Of 80 rows every fourth is taken out.
    let kept: Vec<i64> = (1..=80).filter(|i| i % 4 != 0).collect();
    let filtered = guess(counts(kept.iter().copied()));
    assert!(
        filtered.identifier && filtered.why.contains("rising"),
        "{}",
        filtered.why
    );
    // Shuffled, or with more gaps than numbers, they may be measurements.
    let shuffled = kept.iter().map(|i| i * 7 % 81);
    assert!(!guess(counts(shuffled)).identifier);
    assert!(!guess(counts((1..=50).map(|i| 3 * i))).identifier);
}

/// Marks with standard deviation 1.4 are grades; a table of counts with Poisson's variance, gaps, many values or few rows stay counts.
#[test]
fn whole_numbers_that_vary_less_than_chance_are_grades() {
    // 5 + three differences of ±1 or 0: 2 to 8.
    let marks = |n: i64| (0..n).map(|i| 2 + i % 3 + i / 3 % 3 + i / 9 % 3);
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
    let even = guess(reals((1..200).map(|i| f64::from(i) + 0.5)));
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
    let none = guess(RawColumn::Numbers(vec![None; 3]));
    assert_eq!(
        (none.measure, none.why.as_str()),
        (Measure::Real, "nothing observed: left out")
    );
    for extreme in [1e300, 1e-300] {
        let guess = guess(reals([-extreme, extreme, 2.0 * extreme, 1e3 * extreme]));
        assert_eq!(guess.measure, Measure::Real);
    }
}

#[test]
fn text_is_categorical_and_may_name_rows() {
    let names = guess(RawColumn::texts(
        (0..30).map(|k| Some(format!("n{k}"))).collect::<Vec<_>>(),
    ));
    assert!(names.identifier, "{}", names.why);
    let pair = guess(RawColumn::texts([Some("no"), None, Some("yes")]));
    assert_eq!((pair.measure, pair.n_distinct), (Measure::Binary, 2));
}

#[test]
fn fields_are_checked_against_their_table() {
    let columns = vec![
        MixedColumn::Real(vec![Some(1.0), Some(0.0)]),
        MixedColumn::Count(vec![Some(1), Some(2)]),
    ];
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
    let all = |fields: &[Field]| Field::check_all(fields, &table).map_err(|e| e.to_string());
    let place = Field::new("p", Measure::Vector, vec![0, 1]);
    for (fields, message) in [
        (
            vec![Field::new("p", Measure::Real, vec![0, 1])],
            "field \"p\" (real) has 2 columns, expected 1",
        ),
        (
            vec![Field::new("p", Measure::Vector, vec![])],
            "field \"p\" (vector) has 0 columns, expected 1",
        ),
        (
            vec![place.clone(), Field::new("q", Measure::Real, vec![1])],
            "column 1 belongs to the fields \"p\" and \"q\"",
        ),
        (
            vec![Field::new("p", Measure::Angle { period: 0.0 }, vec![0])],
            "field \"p\": period 0 must be",
        ),
    ] {
        let error = all(&fields).expect_err(message);
        assert!(error.starts_with(message), "{error} | {message}");
    }
    assert_eq!(all(&[place]), Ok(()));
}
