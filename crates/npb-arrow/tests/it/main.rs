//! Arrow and Parquet against text: the same data, the same bits.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringDictionaryBuilder};
use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use npb_arrow::{
    ArrowError, FileReader, Format, Options, Source, Writer, from_batches, read, to_batch, write,
};
use npb_data::read::{ReadingRules, raw_with_schema, with_schema};
use npb_data::schema::{Kind, Role, Schema, SchemaData};
use npb_data::{RawColumn, RawTable};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const FORMATS: [Format; 3] = [Format::Parquet, Format::Arrow, Format::Stream];

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Numbers, counts, truth values, levels, dates, times and names of rows, a tenth of them missing.
fn table(n_rows: usize) -> RawTable {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut draw = move || (rng.random::<f64>() > 0.1, rng.random::<f64>());
    fn cells<T>(
        n: usize,
        draw: &mut impl FnMut() -> (bool, f64),
        of: impl Fn(f64) -> T,
    ) -> Vec<Option<T>> {
        let cell = |(known, u): (bool, f64)| known.then(|| of(u));
        (0..n).map(|_| cell(draw())).collect()
    }
    let towns = ["Oslo", "Bergen", "Hamar", "", "M\u{f8}ss"];
    let town = cells(n_rows, &mut draw, |u| towns[(5.0 * u) as usize]);
    let grade = cells(n_rows, &mut draw, |u| {
        ["low", "mid", "high"][(3.0 * u) as usize]
    });
    let second = cells(n_rows, &mut draw, |u| (1e9 * u) as i64);
    let ids = (0..n_rows as i64).map(|i| Some((1 << 60) + i)).collect();
    RawTable::new(
        names(&[
            "id", "size", "visits", "well", "town", "grade", "born", "seen", "empty", "code",
        ]),
        vec![
            RawColumn::Whole(ids),
            RawColumn::Numbers(cells(n_rows, &mut draw, |u| (u - 0.5) * 1e3)),
            RawColumn::Whole(cells(n_rows, &mut draw, |u| (9.0 * u) as i64)),
            RawColumn::Booleans(cells(n_rows, &mut draw, |u| u < 0.5)),
            RawColumn::texts(town),
            RawColumn::texts(grade),
            RawColumn::Times(cells(n_rows, &mut draw, |u| {
                86_400.0 * (2e4 * (u - 0.3)).round()
            })),
            RawColumn::Times(
                second
                    .into_iter()
                    .map(|s| s.map(|s| RawColumn::time(s, 0)))
                    .collect(),
            ),
            RawColumn::Numbers(vec![None; n_rows]),
            RawColumn::Numbers(cells(
                n_rows,
                &mut draw,
                |u| if u < 0.5 { -99.0 } else { u },
            )),
        ],
    )
    .expect("a table")
}

/// The table as comma-separated text.
fn text(table: &RawTable) -> String {
    let mut text = table.names().join(",") + "\n";
    for row in 0..table.n_rows() {
        let cells = table
            .columns()
            .iter()
            .map(|c| c.text(row).unwrap_or_default());
        text += &(cells.collect::<Vec<_>>().join(",") + "\n");
    }
    text
}

fn schema() -> Schema {
    Schema::from_toml(
        r#"columns = [
        { name = "id", kind = "identifier", role = "row_id" },
        { name = "well", kind = "binary" },
        { name = "size", kind = "real" },
        { name = "visits", kind = "count" },
        { name = "town", kind = "categorical" },
        { name = "grade", kind = "ordinal", levels = ["low", "mid", "high"], role = "label" },
        { name = "born", kind = "date", date = { order = "ymd", unit = "years", since = "1980-05-01" } },
        { name = "seen", kind = "date", date = { order = "ymd", unit = "hours" } },
        { name = "empty", kind = "real" },
        { name = "code", kind = "real", missing = ["-99"] },
    ]"#,
    )
    .expect("a schema")
}

fn by_schema(table: RawTable, schema: &Schema) -> SchemaData {
    raw_with_schema("t", table, schema, &ReadingRules::default())
        .expect("read by the schema")
        .0
}

#[test]
fn parquet_arrow_and_text_give_the_same_bits() {
    let table = table(2000);
    let text = text(&table);
    let (by_text, _) = with_schema(
        "t.csv",
        text.as_bytes(),
        &schema(),
        &ReadingRules::default(),
    )
    .expect("read as text");
    assert!(by_text.features.n_missing() > 2000);
    for format in FORMATS {
        let file = write(&table, format).expect("written");
        assert_eq!(Format::of(&file), Some(format));
        let back = read("t", file, &Options::default()).expect("read");
        let by_type = by_schema(back, &schema());
        assert_eq!(by_type, by_text, "{format:?}");
        // Later files have levels that are listed.
        let later = read(
            "t",
            write(&table, format).expect("written"),
            &Options::default(),
        );
        assert_eq!(by_schema(later.expect("read"), &by_text.schema), by_text);
    }
    assert!(
        by_text
            .row_ids
            .as_ref()
            .is_some_and(|ids| ids[1].as_deref() == Some("1152921504606846977"))
    );
}

#[test]
fn what_is_written_comes_back() {
    let table = table(300);
    for format in FORMATS {
        let back = read(
            "t",
            write(&table, format).expect("written"),
            &Options::default(),
        );
        assert_eq!(text(&back.expect("read")), text(&table), "{format:?}");
    }
    let nothing =
        RawTable::new(names(&["a"]), vec![RawColumn::Numbers(Vec::new())]).expect("a table");
    for format in FORMATS {
        let back = read(
            "t",
            write(&nothing, format).expect("written"),
            &Options::default(),
        );
        assert_eq!(back.expect("read"), nothing);
    }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).expect("a batch")
}

fn raw(batch: RecordBatch) -> Result<RawTable, ArrowError> {
    from_batches("t", batch.schema(), [Ok(batch)], &Options::default())
}

#[test]
fn every_type_says_what_its_text_would() {
    let towns = ["A", "B", "A"];
    let mut dictionary = StringDictionaryBuilder::<Int8Type>::new();
    towns.iter().for_each(|town| {
        dictionary.append(town).expect("a key");
    });
    let decimals = Decimal128Array::from(vec![1, 12_345, i128::from(i64::MAX) * 1000 + 7])
        .with_precision_and_scale(38, 3)
        .expect("decimals");
    let zoned = TimestampMillisecondArray::from(vec![1, -1, 86_400_000]).with_timezone("+02:00");
    let cases: Vec<(ArrayRef, [&str; 3])> = vec![
        (
            Arc::new(Float32Array::from(vec![0.1, 1.5, -3e-7])),
            ["0.1", "1.5", "-3e-7"],
        ),
        (
            Arc::new(Float64Array::from(vec![0.1, 1e300, -0.25])),
            ["0.1", "1e300", "-0.25"],
        ),
        (
            Arc::new(Int8Array::from(vec![-128, 0, 127])),
            ["-128", "0", "127"],
        ),
        (
            Arc::new(UInt16Array::from(vec![0, 1, 65_535])),
            ["0", "1", "65535"],
        ),
        (
            Arc::new(UInt64Array::from(vec![0, 1, (1 << 63) - 1])),
            ["0", "1", "9223372036854775807"],
        ),
        (
            Arc::new(Int64Array::from(vec![i64::MIN, 0, i64::MAX])),
            ["-9223372036854775808", "0", "9223372036854775807"],
        ),
        (
            Arc::new(decimals),
            ["0.001", "12.345", "9.223372036854775807e18"],
        ),
        (
            Arc::new(BooleanArray::from(vec![true, false, true])),
            ["true", "false", "true"],
        ),
        (Arc::new(StringArray::from(towns.to_vec())), towns),
        (Arc::new(LargeStringArray::from(towns.to_vec())), towns),
        (Arc::new(StringViewArray::from(towns.to_vec())), towns),
        (Arc::new(dictionary.finish()), towns),
        (
            Arc::new(Date32Array::from(vec![0, -1, 19_782])),
            ["1970-01-01", "1969-12-31", "2024-02-29"],
        ),
        (
            Arc::new(Date64Array::from(vec![0, 86_400_000, -86_400_000])),
            ["1970-01-01", "1970-01-02", "1969-12-31"],
        ),
        (
            Arc::new(TimestampSecondArray::from(vec![0, 61, -1])),
            ["1970-01-01", "1970-01-01 00:01:01", "1969-12-31 23:59:59"],
        ),
        (
            Arc::new(TimestampNanosecondArray::from(vec![
                0,
                1_000_000_000,
                3_600_000_000_000,
            ])),
            ["1970-01-01", "1970-01-01 00:00:01", "1970-01-01 01:00:00"],
        ),
        (Arc::new(zoned), ["1970-01-01", "1970-01-01", "1970-01-02"]),
    ];
    for (array, expected) in cases {
        let kind = array.data_type().clone();
        let table = raw(batch(vec![("c", array)])).unwrap_or_else(|e| panic!("{kind}: {e}"));
        let found: Vec<String> = (0..3).filter_map(|i| table.columns()[0].text(i)).collect();
        let number = |text: &str| text.parse::<f64>();
        let same = found
            .iter()
            .zip(expected)
            .all(|(a, b)| a == b || (number(a).is_ok() && number(a) == number(b)));
        assert!(
            same && found.len() == 3,
            "{kind}: {found:?}, expected {expected:?}"
        );
    }
    let null: ArrayRef = Arc::new(NullArray::new(2));
    let table = raw(batch(vec![("c", null)])).expect("nulls");
    assert_eq!(table.columns()[0], RawColumn::Numbers(vec![None, None]));
}

#[test]
fn fractions_of_seconds_are_those_of_text() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let micros: Vec<i64> = (0..2000)
        .map(|_| rng.random_range(-3_000_000_000_000_000..4_000_000_000_000_000))
        .collect();
    let day = 86_400_000_000_i64;
    let line = |&m: &i64| {
        let date = RawColumn::Times(vec![Some((m.div_euclid(day) * 86_400) as f64)]);
        let (rest, clock) = (m.rem_euclid(day), m.rem_euclid(day) / 1_000_000);
        let (h, min, s) = (clock / 3600, clock / 60 % 60, clock % 60);
        let date = date.text(0).expect("a date");
        format!("{date}T{h:02}:{min:02}:{s:02}.{:06}\n", rest % 1_000_000)
    };
    let text = "t\n".to_owned() + &micros.iter().map(line).collect::<String>();
    let schema = Schema::from_toml(
        r#"columns = [{ name = "t", kind = "date", date = { order = "ymd", unit = "seconds" } }]"#,
    )
    .expect("a schema");
    let (by_text, _) =
        with_schema("t.csv", text.as_bytes(), &schema, &ReadingRules::default()).expect("text");
    let array: ArrayRef = Arc::new(TimestampMicrosecondArray::from(micros));
    assert_eq!(
        by_schema(raw(batch(vec![("t", array)])).expect("times"), &schema),
        by_text
    );
}

#[test]
fn types_say_more_than_texts() {
    let well = RawColumn::Booleans(vec![Some(false); 30]);
    let grade = RawColumn::Texts {
        distinct: names(&["low", "mid", "high"]),
        codes: (0..30).map(|i| Some(i % 2)).collect(),
        ordered: true,
    };
    let times = RawColumn::Times((0..30).map(|i| Some(f64::from(i) * 3600.0)).collect());
    let ids = RawColumn::Whole((0..30).map(|i| Some(i64::from(i) + 100)).collect());
    let sizes = RawColumn::Numbers((0..30).map(|i| Some(f64::from(i % 4))).collect());
    let all = names(&["well", "grade", "time", "id", "size"]);
    let table = RawTable::new(all, vec![well, grade, times, ids, sizes]).expect("a table");
    for format in FORMATS {
        let back = read(
            "t",
            write(&table, format).expect("written"),
            &Options::default(),
        );
        let schema = Schema::guess_raw("t", &back.expect("read")).schema;
        let kinds: Vec<Kind> = schema.columns.iter().map(|c| c.kind).collect();
        // Parquet does not keep the order of texts, nor those that do not occur.
        let (grade, levels): (Kind, &[&str]) = match format {
            Format::Parquet => (Kind::Binary, &["low", "mid"]),
            _ => (Kind::Ordinal, &["low", "mid", "high"]),
        };
        let expected = [
            Kind::Binary,
            grade,
            Kind::Date,
            Kind::Identifier,
            Kind::Count,
        ];
        assert_eq!(kinds, expected, "{format:?}");
        let found = |j: usize| schema.columns[j].levels.clone().unwrap_or_default();
        assert_eq!(found(0), ["false", "true"]);
        assert_eq!(found(1), levels);
        assert_eq!(schema.columns[3].role, Role::Ignored);
    }
    // Numbers and texts are guessed as text is.
    let table = self::table(200);
    let text = text(&table);
    let by_text = Schema::guess("t", text.as_bytes(), &Default::default()).expect("guessed");
    let by_type = Schema::guess_raw("t", &table);
    assert_eq!(
        by_type.to_toml().lines().count(),
        by_text.to_toml().lines().count()
    );
    for (a, b) in by_type.schema.columns.iter().zip(&by_text.schema.columns) {
        assert_eq!(a, b);
    }
}

#[test]
fn dictionaries_may_differ_from_batch_to_batch() {
    let one = |towns: &[&str]| {
        let mut builder = StringDictionaryBuilder::<Int8Type>::new();
        towns.iter().for_each(|town| {
            builder.append(town).expect("a key");
        });
        let array: ArrayRef = Arc::new(builder.finish());
        batch(vec![("town", array)])
    };
    let (a, b) = (one(&["A", "B"]), one(&["C", "A"]));
    let schema = a.schema();
    let both =
        from_batches("t", schema.clone(), [Ok(a), Ok(b)], &Options::default()).expect("read");
    assert_eq!(
        both.columns()[0],
        RawColumn::texts(["A", "B", "C", "A"].map(Some))
    );
    let number: ArrayRef = Arc::new(Int8Array::from(vec![1]));
    let other = batch(vec![("town", number)]);
    let error = from_batches(
        "t",
        schema,
        [Ok(one(&["A"])), Ok(other)],
        &Options::default(),
    );
    assert!(matches!(error, Err(ArrowError::Batches { batch: 2, .. })));
}

#[test]
fn what_cannot_be_read_is_named() {
    let mut lists = ListBuilder::new(Int32Array::builder(1));
    lists.append_value([Some(1)]);
    let list: ArrayRef = Arc::new(lists.finish());
    let number: ArrayRef = Arc::new(Float64Array::from(vec![f64::INFINITY]));
    let file = batch(vec![("path", list), ("x", number)]);
    let error = raw(file.clone()).expect_err("a list").to_string();
    assert!(error.contains("column \"path\" is of type List"), "{error}");
    let only = Options {
        only: Some(HashSet::from(["x".to_owned(), "y".to_owned()])),
    };
    let table = from_batches("t", file.schema(), [Ok(file)], &only).expect("without it");
    let schema =
        Schema::from_toml(r#"columns = [{ name = "x", kind = "real" }]"#).expect("a schema");
    let error =
        raw_with_schema("t", table, &schema, &ReadingRules::default()).expect_err("infinite");
    assert!(
        error
            .to_string()
            .starts_with("t: row 1: column 1 (\"x\"): \"inf\" is not a finite number"),
        "{error}"
    );

    let large: ArrayRef = Arc::new(UInt64Array::from(vec![1, u64::MAX]));
    let error = raw(batch(vec![("n", large)]))
        .expect_err("too large")
        .to_string();
    assert!(
        error.contains("row 2: column \"n\": 18446744073709551615"),
        "{error}"
    );

    let fields = vec![
        Field::new("a", DataType::Int8, true),
        Field::new("a", DataType::Int8, true),
    ];
    let column: ArrayRef = Arc::new(Int8Array::from(vec![1]));
    let twice = RecordBatch::try_new(
        Arc::new(ArrowSchema::new(fields)),
        vec![column.clone(), column],
    );
    assert!(matches!(
        raw(twice.expect("a batch")),
        Err(ArrowError::Data { .. })
    ));

    for (bytes, message) in [
        (&b""[..], "does not begin"),
        (b"PAR1", ""),
        (b"ARROW1\0\0", ""),
        (b"\xff\xff\xff\xff", ""),
        (b"a,b\n1,2\n", "does not begin"),
    ] {
        let error = read("f", bytes.to_vec(), &Options::default())
            .expect_err("no file")
            .to_string();
        assert!(
            error.starts_with("f: cannot read") && error.contains(message),
            "{error}"
        );
    }
}

#[test]
fn broken_files_are_errors_or_tables() {
    let table = table(40);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    for format in FORMATS {
        let whole = write(&table, format).expect("written");
        for length in (0..whole.len()).step_by(37) {
            let _ = read("f", whole[..length].to_vec(), &Options::default());
        }
        for _ in 0..1500 {
            let mut bytes = whole.clone();
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..bytes.len());
                bytes[at] ^= 1 << rng.random_range(0..8);
            }
            // No panic, whatever comes of it.
            let _ = read("f", bytes, &Options::default());
        }
    }
}

/// The rows of a file, so many at a time, one below the other.
fn in_parts(source: Source, n: usize) -> Result<Vec<String>, ArrowError> {
    let mut reader = FileReader::open("t", source, &Options::default())?;
    let (mut lines, mut share) = (Vec::new(), 0.0);
    while let Some(part) = reader.next(n)? {
        assert!(part.n_rows() <= n && reader.share() >= share);
        share = reader.share();
        lines.extend(text(&part).lines().skip(1).map(str::to_owned));
    }
    assert!((share - 1.0).abs() < 0.5, "{share}");
    Ok(lines)
}

#[test]
fn files_are_read_and_written_in_parts() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let table = table(500);
    let expected: Vec<String> = text(&table).lines().skip(1).map(str::to_owned).collect();
    for format in FORMATS {
        // Batches of 130 rows, written as they come.
        let whole = write(&table, format).expect("written");
        let parts = FileReader::open("t", whole.into(), &Options::default());
        let mut parts = parts.expect("opened");
        let mut writer = Writer::new(Vec::new(), &table, format).expect("a writer");
        while let Some(part) = parts.next(130).expect("read") {
            writer.write(&part).expect("written");
        }
        let bytes = writer.finish().expect("written");
        let path = folder.join(format!("parts-{format:?}"));
        std::fs::write(&path, &bytes).expect("a file");
        for n in [1, 7, 130, 200, usize::MAX] {
            let file = std::fs::File::open(&path).expect("a file");
            let file = Source::file(file).expect("its length");
            assert_eq!(
                in_parts(file, n).expect("read"),
                expected,
                "{format:?}, {n}"
            );
            let found = in_parts(bytes.clone().into(), n);
            assert_eq!(found.expect("read"), expected, "{format:?}, {n}");
        }
    }
}

#[test]
fn a_value_that_cannot_be_read_is_named_by_its_row_of_the_file() {
    let large = |n: u64| -> ArrayRef { Arc::new(UInt64Array::from(vec![1, 2, n])) };
    let batches = [3, 4, 1 << 63].map(|n| batch(vec![("a", large(n))]));
    let mut bytes = Vec::new();
    let writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batches[0].schema());
    let mut writer = writer.expect("a writer");
    for batch in &batches {
        writer.write(batch).expect("written");
    }
    writer.finish().expect("written");
    for n in [1, 2, 4, 100] {
        let error = in_parts(bytes.clone().into(), n).expect_err("too large");
        assert!(
            error.to_string().starts_with("t: row 9: column \"a\""),
            "{error}"
        );
    }
}

#[test]
fn batches_in_memory_need_no_file() {
    let table = table(10);
    let batch = to_batch(&table).expect("a batch");
    let halves = [batch.slice(0, 4), batch.slice(4, 6)].map(Ok);
    let back = from_batches("m", batch.schema(), halves, &Options::default()).expect("read");
    assert_eq!(text(&back), text(&table));
}
