//! Schemas: guesses, TOML, and later files read by the schema of the first.

use npb_data::read::{
    DelimitedOptions, Place, ReadingReport, ReadingRules, Separator, Unexpected, with_schema,
};
use npb_data::schema::{
    ColumnSchema, DateOrder, DateScale, Design, Kind, Role, Schema, SchemaData,
};
use npb_data::{Field, Measure, MixedColumn, RawColumn, RawTable};
use proptest::prelude::*;
use std::io::Write;

fn schema(columns: &str) -> Schema {
    Schema::from_toml(&format!("columns = [{columns}]")).expect("a schema")
}

fn read_by(
    text: &str,
    schema: &Schema,
    rules: &ReadingRules,
) -> Result<(SchemaData, ReadingReport), String> {
    with_schema("f.csv", text.as_bytes(), schema, rules).map_err(|e| e.to_string())
}

fn read(text: &str, schema: &Schema) -> SchemaData {
    read_by(text, schema, &ReadingRules::default())
        .expect("valid")
        .0
}

fn guess(text: &str) -> npb_data::schema::SchemaGuess {
    Schema::guess("f.csv", text.as_bytes(), &DelimitedOptions::default()).expect("valid")
}

/// The file of a fit: a label, an identifier, levels as text and as numbers.
const TRAINING: &str = "id,age,smokes,town,stage,ill\n\
    p1,31,yes,Oslo,1,no\np2,?,no,Bergen,2,no\np3,47,no,Oslo,3,yes\np4,52,yes,Hamar,2,?\n";

fn of_training() -> Schema {
    let mut schema = guess(TRAINING).schema;
    schema.set_role("ill", Role::Label).expect("a column");
    schema.set_role("id", Role::RowId).expect("a column");
    let stage = schema.position("stage").expect("a column");
    schema.columns[stage].kind = Kind::Ordinal;
    read(TRAINING, &schema).schema
}

#[test]
fn roles_sort_what_is_read() {
    let schema = of_training();
    let data = read(TRAINING, &schema);
    assert_eq!(
        data.features.column_names(),
        ["age", "smokes", "town", "stage"]
    );
    assert_eq!(data.labels.column_names(), ["ill"]);
    assert_eq!(
        data.labels.labels(0).expect("two levels").codes(),
        [Some(0), Some(0), Some(1), None]
    );
    let ids = data.row_ids.expect("named");
    assert_eq!(ids[3].as_deref(), Some("p4"));
    let measures: Vec<Measure> = data.fields.iter().map(|f| f.measure).collect();
    assert_eq!(
        measures,
        [
            Measure::Count,
            Measure::Binary,
            Measure::Categorical,
            Measure::Ordinal
        ]
    );
    assert_eq!(
        data.schema, schema,
        "a schema with levels is not changed by reading"
    );
}

#[test]
fn a_later_file_is_read_as_the_first_was() {
    let schema = of_training();
    let training = read(TRAINING, &schema);
    // Fewer levels, another order, a column more, no label and no id; numbers written in another way.
    let later = "town,note,stage,age,smokes\nOslo,x,2.0,33,yes\nOslo,y,1.0,?,yes\n";
    let (new, report) = read_by(later, &schema, &ReadingRules::default()).expect("valid");
    assert_eq!(
        new.features.column_names(),
        training.features.column_names()
    );
    for j in 0..4 {
        assert_eq!(
            new.features.column(j).kind(),
            training.features.column(j).kind()
        );
    }
    let MixedColumn::Categorical { levels, codes } = new.features.column(2) else {
        panic!("levels")
    };
    assert_eq!(
        (levels.len(), codes.as_slice()),
        (3, &[Some(2), Some(2)][..])
    );
    let MixedColumn::Categorical { codes, .. } = new.features.column(3) else {
        panic!("levels")
    };
    assert_eq!(codes, &[Some(1), Some(0)], "2.0 is level 2");
    assert_eq!(
        (report.skipped, report.unseen),
        (vec!["note".to_owned()], vec![])
    );
    assert!(new.row_ids.is_none() && new.labels.n_cols() == 0);
    // The rows of the first file, in any order of columns, are read to the same cells.
    let shuffled = "ill,stage,town,age,id,smokes\nno,1,Oslo,31,p1,yes\nno,2,Bergen,?,p2,no\nyes,3,Oslo,47,p3,no\n?,2,Hamar,52,p4,yes\n";
    assert_eq!(read(shuffled, &schema), training);
}

#[test]
fn what_the_schema_does_not_expect_is_reported_or_refused() {
    let schema = of_training();
    let unseen = "age,smokes,town,stage\n1,yes,Rome,1\n2,maybe,Rome,9\n";
    let (data, report) = read_by(unseen, &schema, &ReadingRules::default()).expect("valid");
    assert_eq!(data.features.n_missing(), 4);
    let lines: Vec<String> = report.to_string().lines().map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            "column \"smokes\": \"maybe\" is no level of the schema, read as missing (1 rows, first in line 3)",
            "column \"town\": \"Rome\" is no level of the schema, read as missing (2 rows, first in line 2)",
            "column \"stage\": \"9\" is no level of the schema, read as missing (1 rows, first in line 3)",
        ]
    );
    let strict = ReadingRules {
        unseen_levels: Unexpected::Error,
        ..ReadingRules::default()
    };
    let error = read_by(unseen, &schema, &strict).expect_err("a new town");
    assert!(
        error.starts_with("f.csv:2: column 3 (\"town\"): \"Rome\" is not one of the declared levels \"Bergen\", \"Hamar\", \"Oslo\"")
            && error.contains("unseen_levels"),
        "{error}"
    );
    let absent = "age,smokes,stage\n1,yes,1\n";
    let error = read_by(absent, &schema, &ReadingRules::default()).expect_err("no town");
    assert!(
        error.starts_with("f.csv: there is no column \"town\"")
            && error.contains("missing_columns"),
        "{error}"
    );
    let lenient = ReadingRules {
        missing_columns: Unexpected::Missing,
        ..ReadingRules::default()
    };
    let (data, report) = read_by(absent, &schema, &lenient).expect("valid");
    assert_eq!(
        (report.absent, data.features.column(2).n_missing()),
        (vec!["town".to_owned()], 1)
    );
}

#[test]
fn cells_that_do_not_fit_are_named() {
    let cases = [
        (
            "real",
            "",
            "1\ntall\n",
            "f.csv:3: column 2 (\"x\"): \"tall\" is not a number",
        ),
        (
            "real",
            "",
            "1,5\n",
            "\"1,5\" is not a number with a decimal point; for decimal commas set the option decimal to ','",
        ),
        ("real", "", "1e999\n", "\"1e999\" is not a finite number"),
        (
            "positive",
            "",
            "2\n0\n",
            "f.csv:3: column 2 (\"x\"): \"0\" is not above 0",
        ),
        ("count", "", "2.5\n", "\"2.5\" is not a count"),
        ("count", "", "-1\n", "\"-1\" is not a count"),
        (
            "date",
            ", date = { order = \"ymd\" }",
            "31.3.2024\n",
            "\"31.3.2024\" is not a date in the order",
        ),
        (
            "date",
            ", date = { order = \"dmy\" }",
            "31.2.2024\n",
            "\"31.2.2024\" is not a date",
        ),
        (
            "binary",
            "",
            "a\nb\nc\n",
            "f.csv:4: column 2 (\"x\"): a binary column needs two distinct values, found 3",
        ),
        (
            "binary",
            "",
            "a\na\n",
            "f.csv: column 2 (\"x\"): a binary column needs two distinct values, found 1",
        ),
        (
            "real",
            ", role = \"weight\"",
            "-1\n",
            "\"-1\" is not a weight",
        ),
        (
            "real",
            ", role = \"weight\"",
            "1\n?\n",
            "f.csv:3: column 2 (\"x\"): \"\" is not a weight, which every row needs",
        ),
    ];
    for (kind, more, cells, message) in cases {
        let schema = schema(&format!("{{ name = \"x\", kind = \"{kind}\"{more} }}"));
        let text: String = cells.lines().map(|cell| format!("0;{cell}\n")).collect();
        let rules = ReadingRules {
            layout: DelimitedOptions {
                separator: Separator::Char(';'),
                ..DelimitedOptions::default()
            },
            ..ReadingRules::default()
        };
        let error = read_by(&format!("y;x\n{text}"), &schema, &rules).expect_err(message);
        assert!(error.contains(message), "{error} | {message}");
    }
}

#[test]
fn numbers_that_their_kind_cannot_be_may_be_missing() {
    let schema =
        schema("{ name = \"p\", kind = \"positive\" }, { name = \"c\", kind = \"count\" }");
    let text = "p,c\n0,1\n2,2.5\n-1,3\nnan,4\n";
    let error = read_by(text, &schema, &ReadingRules::default()).expect_err("0 is not above 0");
    assert!(error.contains("impossible_values"), "{error}");
    let rules = ReadingRules {
        impossible_values: Unexpected::Missing,
        ..ReadingRules::default()
    };
    let (data, report) = read_by(text, &schema, &rules).expect("valid");
    assert_eq!(
        data.features.columns(),
        [
            MixedColumn::Real(vec![None, Some(2.0), None, None]),
            MixedColumn::Count(vec![Some(1), None, Some(3), Some(4)]),
        ]
    );
    let found: Vec<_> = report
        .impossible
        .iter()
        .map(|u| (u.column.as_str(), u.level.as_str(), u.n_rows, u.place))
        .collect();
    assert_eq!(
        found,
        [
            ("p", "0", 2, Place::Line(2)),
            ("c", "2.5", 1, Place::Line(3))
        ]
    );
    // A text where a number should be is no number either.
    let (data, report) = read_by("p,c\n1,many\n", &schema, &rules).expect("valid");
    assert_eq!(data.features.columns()[1], MixedColumn::Count(vec![None]));
    assert_eq!(report.impossible[0].level, "many");
    let error = read_by("p,c\n1,many\n", &schema, &ReadingRules::default()).expect_err("a text");
    assert!(error.contains("\"many\" is not a number"), "{error}");
}

/// One text among numbers is a mark where it is one of those that people use for nothing, and a level where all are texts.
#[test]
fn stray_marks_among_numbers_are_missing() {
    for mark in [".", "-", "None", "n/a", "#N/A", "<NA>", "--", "*"] {
        let rows: String = (0..40)
            .map(|i| match i % 10 {
                0 => format!("{mark},{mark},x\n"),
                _ => format!("{}.5,2024-03-{:02},y\n", i, 1 + i % 28),
            })
            .collect();
        let found = guess(&format!("level,day,kind\n{rows}"));
        let column = &found.schema.columns[0];
        assert_eq!(
            (column.kind, column.missing.as_slice()),
            (Kind::Real, &[mark.to_owned()][..])
        );
        let why = &found.guesses[0].why;
        assert!(
            why.contains(&format!("but for {mark:?}, 4 cells: missing")),
            "{why}"
        );
        assert!(found.guesses[0].notable && !found.guesses[2].notable);
        assert_eq!(found.schema.columns[1].kind, Kind::Date);
        let text = format!("level,day,kind\n{rows}");
        let (data, _) = read_by(&text, &found.schema, &ReadingRules::default()).expect("valid");
        assert_eq!(data.features.n_missing(), 8);
    }
    let levels = guess("a\nNone\nsome\nNone\nall\n").schema.columns[0]
        .levels
        .clone();
    assert_eq!(levels.expect("levels"), ["None", "all", "some"]);
    // All marks: nothing is left of a column of numbers.
    let marks = guess("a,b\n.,1\n-,2\n.,3\n").schema.columns[0].clone();
    assert_eq!((marks.kind, marks.missing.len()), (Kind::Binary, 0));
}

#[test]
fn numbers_known_to_lie_below_one_are_refused_by_name() {
    let error = Schema::guess(
        "f.csv",
        "a,level\n1,0.7\n2,<0.5\n3,1.5\n4,2.5\n".as_bytes(),
        &DelimitedOptions::default(),
    );
    let error = error.expect_err("below a limit").to_string();
    assert!(error.contains("column 2 (\"level\"): \"<0.5\""), "{error}");
    assert!(error.contains("missing marks"), "{error}");
    // Bands of ages are levels.
    let bands = guess("age\n<30\n30-50\n>50\n<30\n");
    assert_eq!(bands.schema.columns[0].kind, Kind::Categorical);
}

/// Zeros in front make texts of numbers; a zero alone, or before a point, does not.
#[test]
fn postal_codes_keep_their_zeros() {
    let rows: String = (0..60).map(|i| format!("0{}139,0,0.5\n", i % 5)).collect();
    let found = guess(&format!("zip,none,half\n{rows}"));
    let kinds: Vec<Kind> = found.schema.columns.iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [Kind::Categorical, Kind::Count, Kind::Real]);
    assert_eq!(
        found.schema.columns[0].levels.as_ref().expect("levels")[0],
        "00139"
    );
}

/// Names of rows as pandas and R write them are left out, whatever their order; other columns of those names are not.
#[test]
fn names_of_rows_are_left_out() {
    for name in ["", "Unnamed: 0", "X", "rownames", "index"] {
        // Neither consecutive nor sorted.
        let rows: String = (0..30)
            .map(|i| format!("{},{}.5\n", (i * 37) % 101, i % 7))
            .collect();
        let found = guess(&format!("{name},a\n{rows}"));
        assert_eq!(found.schema.columns[0].role, Role::Ignored, "{name}");
        assert!(
            found.guesses[0].why.contains("beside a table"),
            "{}",
            found.guesses[0].why
        );
        assert_eq!(found.schema.columns[1].role, Role::Feature);
    }
    let rows: String = (0..30)
        .map(|i| format!("{}.5,{}\n", i % 7, i % 9))
        .collect();
    // Coordinates; and a column of that name that is not the first.
    for header in ["X,a", "a,X", "a,index"] {
        let found = guess(&format!("{header}\n{rows}"));
        assert!(
            found.schema.columns.iter().all(|c| c.role == Role::Feature),
            "{header}"
        );
    }
    let raw = RawTable::new(
        vec!["a".into(), "__index_level_0__".into()],
        vec![
            RawColumn::Numbers(vec![Some(0.5), Some(1.5), Some(2.5)]),
            RawColumn::Whole(vec![Some(3), Some(9), Some(4)]),
        ],
    );
    let found = Schema::guess_raw("f.parquet", &raw.expect("a table"));
    assert_eq!(found.schema.columns[1].role, Role::Ignored);
}

/// What nearly is a column of numbers is said.
#[test]
fn a_text_among_many_numbers_is_said() {
    let rows: String = (0..40)
        .map(|i| {
            if i == 7 {
                "twelve\n".to_owned()
            } else {
                format!("{i}\n")
            }
        })
        .collect();
    let found = guess(&format!("a\n{rows}"));
    assert!(
        found.guesses[0]
            .why
            .contains("numbers but for \"twelve\" (1 cell)"),
        "{}",
        found.guesses[0].why
    );
    assert!(found.guesses[0].notable);
}

#[test]
fn schemas_that_cannot_be_are_named() {
    let cases = [
        (
            "{ name = \"a\", kind = \"colour\" }",
            "unknown variant `colour`",
        ),
        (
            "{ name = \"a\", kind = \"real\", sort = 1 }",
            "unknown field `sort`",
        ),
        (
            "{ name = \"a\", kind = \"real\" }, { name = \"a\", kind = \"real\" }",
            "column \"a\": name is used twice",
        ),
        (
            "{ name = \"a\", kind = \"binary\", levels = [\"x\"] }",
            "column \"a\": levels of a binary column must be two",
        ),
        (
            "{ name = \"a\", kind = \"ordinal\", levels = [\"x\", \"x\"] }",
            "column \"a\": levels must differ",
        ),
        (
            "{ name = \"a\", kind = \"ordinal\", levels = [\"x\", \"?\"] }",
            "levels must not contain a missing mark",
        ),
        (
            "{ name = \"a\", kind = \"ordinal\", levels = [\"x\", \"9\"], missing = [\"9\"] }",
            "levels must not contain a missing mark",
        ),
        (
            "{ name = \"a\", kind = \"real\", levels = [\"x\"] }",
            "levels are for categorical",
        ),
        ("{ name = \"a\", kind = \"angle\" }", "period must be there"),
        (
            "{ name = \"a\", kind = \"angle\", period = 0.0 }",
            "period must be there, finite and > 0",
        ),
        (
            "{ name = \"a\", kind = \"real\", period = 3.0 }",
            "period is for angles",
        ),
        ("{ name = \"a\", kind = \"date\" }", "date must be there"),
        (
            "{ name = \"a\", kind = \"date\", date = { order = \"dmy\", since = \"1.1.2000\" } }",
            "date.since must be a date, year first",
        ),
        (
            "{ name = \"a\", kind = \"real\", date = { order = \"dmy\" } }",
            "date is for dates",
        ),
        (
            "{ name = \"a\", kind = \"identifier\" }",
            "role of an identifier must be",
        ),
        (
            "{ name = \"a\", kind = \"categorical\", role = \"weight\" }",
            "role weight needs",
        ),
        (
            "{ name = \"a\", kind = \"real\", role = \"group\" }, { name = \"b\", kind = \"real\", role = \"group\" }",
            "column \"b\": role is that of another column already",
        ),
        (
            "{ name = \"a\", kind = \"real\" }]\nblocks = [{ name = \"b\", kind = \"vector\", columns = [\"c\"] }",
            "no column \"c\"; it has \"a\"",
        ),
        (
            "{ name = \"a\", kind = \"real\" }]\nblocks = [{ name = \"b\", kind = \"vector\", columns = [\"a\", \"a\"] }",
            "block \"b\": has a column that an earlier block has",
        ),
        (
            "{ name = \"a\", kind = \"real\" }]\nblocks = [{ name = \"b\", kind = \"network\", columns = [\"a\"] }",
            "block \"b\": needs binary columns",
        ),
        (
            "{ name = \"a\", kind = \"real\" }]\nblocks = [{ name = \"a\", kind = \"vector\", columns = [\"a\"] }",
            "column \"a\": name is used twice",
        ),
        (
            "{ name = \"a\", kind = \"real\" }]\nblocks = [{ name = \"b\", kind = \"series\", columns = [] }",
            "block \"b\": must list its columns",
        ),
    ];
    for (columns, message) in cases {
        let error = Schema::from_toml(&format!("columns = [{columns}]"))
            .expect_err(message)
            .to_string();
        assert!(error.contains(message), "{error} | {message}");
    }
    let mut good = of_training();
    assert!(
        good.set_role("none", Role::Label)
            .expect_err("no column")
            .to_string()
            .contains("\"none\"")
    );
    good.set_role("age", Role::RowId).expect("a column");
    let ids: Vec<&str> = good
        .with_role(Role::RowId)
        .map(|c| c.name.as_str())
        .collect();
    assert_eq!(ids, ["age"], "a role for one column moves");
}

#[test]
fn guesses_say_why_and_what_else() {
    let mut text = String::from("name,nr,when,us,grade,nothing,code,price\n");
    for i in 0..120 {
        let day = 1 + i % 12;
        text += &format!(
            "n{i},{},{}.3.2024,{day}/{}/2024,{},NA,{},{}.5\n",
            7 * i + 3,
            day + 12,
            day + 12,
            1 + i % 5,
            20 + 10 * (i % 4),
            i % 9
        );
    }
    let guess = guess(&text);
    let kind = |name: &str| {
        let at = guess.schema.position(name).expect("a column");
        (&guess.schema.columns[at], &guess.guesses[at])
    };
    let (name, why) = kind("name");
    assert_eq!((name.kind, name.role), (Kind::Identifier, Role::Ignored));
    assert!(
        why.why.contains("left out") && why.others[0].kind == Kind::Categorical,
        "{}",
        why.why
    );
    assert_eq!(
        kind("nr").0.kind,
        Kind::Identifier,
        "by its name and its values"
    );
    let order = |name: &str| kind(name).0.date.as_ref().expect("a date").order;
    assert_eq!(
        (order("when"), order("us")),
        (DateOrder::Dmy, DateOrder::Mdy)
    );
    assert!(kind("when").1.why.contains("2024-03-13") && kind("when").1.others.is_empty());
    let others: Vec<Kind> = kind("grade").1.others.iter().map(|c| c.kind).collect();
    assert_eq!(
        (kind("grade").0.kind, others),
        (
            Kind::Count,
            vec![Kind::Real, Kind::Ordinal, Kind::Categorical]
        )
    );
    assert_eq!(
        (kind("nothing").0.role, kind("nothing").1.n_observed),
        (Role::Ignored, 0)
    );
    assert_eq!(
        kind("code").0.levels.as_deref(),
        Some(&["20", "30", "40", "50"].map(str::to_owned)[..])
    );
    assert_eq!(
        (kind("price").0.kind, kind("price").1.n_distinct),
        (Kind::Real, 9)
    );
    let toml = guess.to_toml();
    assert!(
        toml.starts_with("# f.csv: 120 rows, 8 columns, 3 of them left out\n"),
        "{toml}"
    );
    assert!(
        toml.contains(
            "# 5 distinct whole numbers from 1 to 5; e.g. 1 | 2 | 3; or kind = \"real\"; or kind = \"ordinal\""
        ),
        "{toml}"
    );
}

#[test]
fn many_numbers_before_a_text_are_levels_all_the_same() {
    let mut text: String = (0..3000).map(|i| format!("{}\n", i % 1500)).collect();
    text += "nothing\n";
    let guess = guess(&format!("x\n{text}"));
    assert_eq!(
        guess.schema.columns[0].levels.as_ref().map(Vec::len),
        Some(1501)
    );
    let all: String = (0..3000).map(|i| format!("{}\n", 2 * i)).collect();
    let column = ColumnSchema::new("x", Kind::Categorical);
    let open = Schema {
        columns: vec![column],
        ..Schema::default()
    };
    let data = read(&format!("x\n{all}"), &open);
    let levels = data.schema.columns[0].levels.as_ref().expect("listed");
    assert_eq!(
        (levels.len(), levels[2999].as_str()),
        (3000, "5998"),
        "sorted as numbers"
    );
}

#[test]
fn dates_and_times_come_back_from_their_numbers() {
    let scale = DateScale::days(DateOrder::Ymd);
    for text in [
        "1969-12-31 18:00:00",
        "1969-12-31",
        "1900-02-28 00:00:01",
        "0001-01-01 23:59:59",
        "1970-01-01",
        "2024-02-29 06:30:00",
    ] {
        let number = scale.number(text).unwrap();
        assert_eq!(scale.text(number).as_deref(), Some(text), "{number}");
    }
}

#[test]
fn dates_blocks_angles_and_marks_of_a_column() {
    let schema = Schema::from_toml(
        r#"
        missing = ["", "?"]
        columns = [
            { name = "east", kind = "real" },
            { name = "seen", kind = "date", date = { order = "mdy", unit = "hours", since = "2024-01-01" } },
            { name = "north", kind = "real", missing = ["-99"] },
            { name = "wind", kind = "angle", period = 360.0 },
        ]
        blocks = [{ name = "place", kind = "vector", columns = ["north", "east"] }]
        "#,
    )
    .expect("a schema");
    let data = read(
        "wind,north,east,seen\n350,-99,1.5,1/2/2024 06:00\n?,2.5,-99,\n",
        &schema,
    );
    assert_eq!(
        data.features.columns(),
        [
            MixedColumn::Real(vec![Some(1.5), Some(-99.0)]),
            MixedColumn::Real(vec![Some(30.0), None]),
            MixedColumn::Real(vec![None, Some(2.5)]),
            MixedColumn::Real(vec![Some(350.0), None]),
        ]
    );
    let fields = [
        Field::new("place", Measure::Vector, vec![2, 0]),
        Field::new("seen", Measure::Real, vec![1]),
        Field::new("wind", Measure::Angle { period: 360.0 }, vec![3]),
    ];
    let mut found = data.fields.clone();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(found, fields);
    Field::check_all(&data.fields, &data.features).expect("fields fit their table");
}

#[test]
fn features_become_numbers_and_come_back() {
    let schema = schema(
        r#"{ name = "n", kind = "count" }, { name = "p", kind = "positive" },
        { name = "c", kind = "categorical", levels = ["a", "b", "c"] }, { name = "w", kind = "angle", period = 24.0 },
        { name = "o", kind = "ordinal", levels = ["low", "mid", "high"] }, { name = "b", kind = "binary", levels = ["no", "yes"] },
        { name = "one", kind = "categorical", levels = ["only"] }"#,
    );
    let whole =
        "n,p,c,w,o,b,one\n3,0.25,a,6,high,yes,only\n0,20,c,23,low,no,only\n7,1,b,0,mid,yes,only\n";
    let data = read(whole, &schema);
    let design = Design::new(&data.schema);
    let numbers = design.table(&data.features).expect("its features");
    let names = ["n", "ln(p)", "c=b", "c=c", "sin(w)", "cos(w)", "o", "b"];
    assert_eq!(numbers.column_names(), names);
    assert_eq!(
        (numbers.get(1, 2), numbers.get(1, 3), numbers.get(0, 6)),
        (Some(0.0), Some(1.0), Some(2.0))
    );
    assert!(
        (numbers.get(0, 4).expect("observed") - 1.0).abs() < 1e-12,
        "six of twenty-four hours"
    );
    // Everything missing, completed by the numbers of the whole table, is the whole table up to rounding.
    let holes = read(
        "n,p,c,w,o,b,one\n?,?,?,?,?,?,?\n?,?,?,?,?,?,?\n7,?,?,?,?,?,?\n",
        &schema,
    );
    let filled = design
        .completed(&holes.features, &numbers)
        .expect("one shape");
    for (j, (found, expected)) in filled
        .columns()
        .iter()
        .zip(data.features.columns())
        .enumerate()
    {
        for i in 0..3 {
            match (found.number(i), expected.number(i)) {
                (Some(a), Some(b)) => assert!((a - b).abs() < 1e-9, "row {i}, column {j}: {a} {b}"),
                _ => assert!(j == 2 || j == 4 || j == 6, "levels"),
            }
        }
        if j != 6 && expected.number(0).is_none() {
            assert_eq!(found, expected, "levels");
        }
    }
    assert_eq!(filled.n_missing(), 0);
    let unknown = design.table(&holes.features).expect("its features");
    let same = design
        .completed(&holes.features, &unknown)
        .expect("one shape");
    assert_eq!(
        same.n_missing(),
        holes.features.n_missing() - 3,
        "nothing is known but the only level of a column"
    );
    assert!(
        design
            .completed(&data.features.select_rows(&[0]), &numbers)
            .is_err()
    );
    assert!(
        design
            .table(
                &data
                    .features
                    .select_columns(&[1, 0, 2, 3, 4, 5, 6])
                    .expect("distinct")
            )
            .is_err()
    );
}

#[test]
fn compressed_files_are_recognised() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(TRAINING.as_bytes()).expect("memory");
    let packed = packed.finish().expect("memory");
    let schema = of_training();
    let rules = ReadingRules::default();
    let (data, _) = with_schema("f.csv.gz", packed.as_slice(), &schema, &rules).expect("valid");
    assert_eq!(data, read(TRAINING, &schema));
    let error =
        with_schema("f.csv.gz", &packed[..packed.len() / 2], &schema, &rules).expect_err("cut");
    assert!(
        error
            .to_string()
            .starts_with("f.csv.gz: cannot read the input"),
        "{error}"
    );
}

#[test]
fn empty_files() {
    let nothing = guess("");
    assert_eq!((nothing.schema.columns.len(), nothing.n_rows), (0, 0));
    let header = guess("a,b\n");
    assert!(
        header
            .schema
            .columns
            .iter()
            .all(|c| c.role == Role::Ignored)
    );
    let only_header = read("age,smokes,town,stage\n", &of_training());
    assert_eq!((only_header.n_rows, only_header.features.n_cols()), (0, 4));
    let error = read_by("", &of_training(), &ReadingRules::default()).expect_err("no columns");
    assert!(
        error.starts_with("f.csv: there is no column \"age\""),
        "{error}"
    );
}

/// A cell of any of the kinds that are guessed, or hardly anything.
fn cell(kind: usize, value: u32) -> String {
    match kind {
        0 => format!("{}.{}", value % 1000, value % 10),
        1 => (value % 7).to_string(),
        2 => ["low", "mid, or so", "\"high\"", "#", "a = [b]\u{e9}"][value as usize % 5].to_owned(),
        3 => ["yes", "no"][value as usize % 2].to_owned(),
        4 => format!(
            "{}.{}.{}",
            1 + value % 28,
            1 + value % 12,
            1990 + value % 40
        ),
        5 => format!("row {value}"),
        6 => value.to_string(),
        _ => char::from_u32(value % 0x250)
            .filter(|c| !c.is_control() && !c.is_whitespace())
            .unwrap_or('x')
            .to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// What is guessed survives being written and read, and a file reads by it to what the schema says, missing cells and all.
    #[test]
    fn a_guess_written_and_read_is_the_same(
        kinds in prop::collection::vec(0..8_usize, 1..6),
        rows in prop::collection::vec(prop::collection::vec(prop::option::weighted(0.8, any::<u32>()), 6), 0..40),
    ) {
        let header: Vec<String> = (0..kinds.len()).map(|k| format!("c \"{k}\" # é")).collect();
        let quoted = |cell: &str| format!("\"{}\"", cell.replace('"', "\"\""));
        let line = |cells: Vec<String>| cells.iter().map(|c| quoted(c)).collect::<Vec<_>>().join(",") + "\n";
        let row = |row: &Vec<Option<u32>>| line(kinds.iter().zip(row).map(|(&k, v)| v.map_or("?".to_owned(), |v| cell(k, v))).collect());
        let text: String = std::iter::once(line(header)).chain(rows.iter().map(row)).collect();
        let guess = guess(&text);
        let again = Schema::from_toml(&guess.to_toml()).expect("what was written is read");
        prop_assert_eq!(&again, &guess.schema);
        prop_assert_eq!(&Schema::from_toml(&again.to_toml()).expect("again"), &again);
        let (data, report) = read_by(&text, &again, &ReadingRules::default()).expect("reads by its own guess");
        prop_assert_eq!(report, ReadingReport::default());
        prop_assert_eq!(&data.schema, &again);
        prop_assert_eq!(data.n_rows, rows.len());
        for (name, column) in data.features.column_names().iter().zip(data.features.columns()) {
            let k = again.position(name).expect("a column");
            for (i, row) in rows.iter().enumerate() {
                let mark = row[k].is_none_or(|v| again.missing.contains(&cell(kinds[k], v)));
                prop_assert_eq!(column.is_observed(i), !mark);
            }
        }
    }
}

#[test]
fn long_numbers_are_names_and_values_are_shown() {
    let row = |i: u64| {
        format!(
            "{},{}.5,{}\n",
            3_266_119_658_877_827_603 + 7_919 * i,
            i % 7,
            10_u64.pow(15) + i % 3
        )
    };
    let text = "scholar,x,big\n".to_owned() + &(0..30).map(row).collect::<String>();
    let guess = Schema::guess("f.csv", text.as_bytes(), &DelimitedOptions::default()).unwrap();
    let kinds: Vec<Kind> = guess.schema.columns.iter().map(|c| c.kind).collect();
    assert_eq!(kinds[..2], [Kind::Identifier, Kind::Real]);
    assert_ne!(kinds[2], Kind::Identifier, "three numbers are no names");
    assert_eq!(guess.guesses[1].examples, ["0.5", "1.5", "2.5"]);
    assert!(
        guess.to_toml().contains("; e.g. 0.5 | 1.5 | 2.5"),
        "{}",
        guess.to_toml()
    );
    assert_eq!(Schema::from_toml(&guess.to_toml()).unwrap(), guess.schema);
}

/// Of six rows two cells have a dot and one is empty: each is counted once.
#[test]
fn marks_are_counted_once() {
    let text = "a,b\n1.5,1\n.,2\n.,3\n,4\n5.5,5\n6.5,6\n";
    let guess = Schema::guess("t.csv", text.as_bytes(), &Default::default()).expect("valid");
    let toml = guess.to_toml();
    assert!(
        toml.contains("but for \".\", 2 cells: missing; 1 more cell missing"),
        "{toml}"
    );
}
