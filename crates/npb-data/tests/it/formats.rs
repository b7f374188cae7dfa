//! ARFF, MovieLens and triplets.

use npb_data::read::{
    self, Column, DelimitedOptions, MovieLens, RatingFile, ReadError, ReadProblem, Repeats,
    Separator, arff, movielens, triplets,
};
use npb_data::{ColumnKind, MixedColumn, Rating};

fn starts(error: ReadError, message: &str) {
    let text = error.to_string();
    assert!(text.starts_with(message), "{text}");
}

#[test]
fn arff_dense_with_quotes_escapes_and_comments() {
    let text = "% about\n@RELATION 'my data'\n\n@attribute size REAL\n@attribute 'sky colour' {light\\ blue, 'dark \\'blue\\'', grey}\n\
        @attribute ok {no, yes}\n@attribute name string\n@attribute n integer\n@DATA\n\
        1.5, grey, yes, \"a, b\", 3 % remark\n?, 'dark \\'blue\\'', ?, '?', 4\n";
    let text = text.replace("light\\ blue", "'light blue'");
    let file = arff("f.arff", text.as_bytes()).expect("valid");
    let table = file.table;
    assert_eq!(
        table.column_names(),
        ["size", "sky colour", "ok", "name", "n"]
    );
    assert_eq!(table.column(0), &MixedColumn::Real(vec![Some(1.5), None]));
    let levels = ["light blue", "dark 'blue'", "grey"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(
        table.column(1),
        &MixedColumn::Categorical {
            levels,
            codes: vec![Some(2), Some(1)]
        }
    );
    assert_eq!(
        table.column(2),
        &MixedColumn::Binary {
            levels: ["no".into(), "yes".into()],
            values: vec![Some(true), None]
        }
    );
    let levels = vec!["a, b".to_owned(), "?".to_owned()];
    assert_eq!(
        table.column(3),
        &MixedColumn::Categorical {
            levels,
            codes: vec![Some(0), Some(1)]
        },
        "quoted ? is text"
    );
    assert_eq!(table.column(4).kind(), ColumnKind::Real);
}

#[test]
fn arff_sparse_rows_have_zeros_and_first_levels() {
    let head = "@relation r\n@attribute a real\n@attribute b {x,y,z}\n@attribute c real\n@data\n";
    let file = arff(
        "f.arff",
        format!("{head}{{1 y, 2 5}}\n{{}}\n{{2 ?}} % none\n").as_bytes(),
    )
    .expect("valid");
    assert_eq!(file.table.column(0), &MixedColumn::Real(vec![Some(0.0); 3]));
    assert_eq!(
        file.table.labels(1).expect("levels").codes(),
        [Some(1), Some(0), Some(0)]
    );
    assert_eq!(
        file.table.column(2),
        &MixedColumn::Real(vec![Some(5.0), Some(0.0), None])
    );
    for bad in [
        "{2 1, 1 y}",
        "{1 y, 1 z}",
        "{3 1}",
        "{1}",
        "{1 y",
        "{1 y} 2",
        "{-1 y}",
        "{1 w}",
    ] {
        let error = arff("f.arff", format!("{head}{bad}\n").as_bytes()).expect_err(bad);
        assert_eq!(error.line, Some(6), "{bad}: {error}");
    }
}

#[test]
fn arff_errors_name_line_and_column() {
    let cases = [
        (
            "@attribute a real\n@data\n1\nx\n",
            "f.arff:4: column 1 (\"a\"): \"x\" is not a number",
        ),
        (
            "@attribute a real\n@attribute b real\n@data\n1,2,3\n",
            "f.arff:4: column 3: 3 fields, expected 2",
        ),
        (
            "@attribute a real\n@attribute b real\n@data\n1\n",
            "f.arff:4: column 2: 1 fields, expected 2",
        ),
        (
            "@attribute a {p,q}\n@data\nr\n",
            "f.arff:3: column 1 (\"a\"): \"r\" is not one of the declared levels",
        ),
        (
            "@attribute a date\n@data\n",
            "f.arff:1: \"date\": numeric, real",
        ),
        (
            "@attribute a {p,p}\n@data\n",
            "f.arff:1: \"p\": every level is listed once",
        ),
        (
            "@attribute a real\n@attribute a real\n@data\n",
            "f.arff:2: \"a\": every attribute",
        ),
        ("@attribute a {p\n@data\n", "f.arff:1: "),
        ("@relation r\n1,2\n", "f.arff:2: \"1,2\": @relation"),
        ("@attribute a real\n", "f.arff:1: \"\": @data is missing"),
        (
            "@attribute a real\n@data\n'1\n",
            "f.arff:3: column 1: a quote opened",
        ),
        ("@attribute a real\n@data\n1,{5}\n", "f.arff:3: column 2: "),
        (
            "@attribute a real\n@data\ninf\n",
            "f.arff:3: column 1 (\"a\"): \"inf\" is not a finite number",
        ),
    ];
    for (text, message) in cases {
        starts(arff("f.arff", text.as_bytes()).expect_err(text), message);
    }
}

#[test]
fn sparse_arff_cannot_fill_memory() {
    let mut text: String = (0..3000)
        .map(|j| format!("@attribute a{j} real\n"))
        .collect();
    text.push_str("@data\n");
    text.push_str(&"{}\n".repeat(3000));
    let error = arff("f.arff", text.as_bytes()).expect_err("9 million cells from 70 kB");
    assert!(
        matches!(*error.problem, ReadProblem::TooSparse { .. }),
        "{error}"
    );
}

fn check_small(file: &RatingFile) {
    assert_eq!(
        (&file.row_ids[..], &file.column_ids[..]),
        (
            &["2".to_owned(), "10".to_owned()][..],
            &["7".to_owned(), "1193".to_owned()][..]
        )
    );
    let e = |row, column, value| Rating { row, column, value };
    assert_eq!(file.entries, [e(1, 1, 5.0), e(0, 1, 4.0), e(1, 0, 3.5)]);
    let ratings = file.ratings().expect("valid");
    assert_eq!((ratings.get(1, 0), ratings.get(0, 0)), (Some(3.5), None));
    let part = file.select(&[2, 0]).expect("distinct");
    assert_eq!((part.n_rows(), part.n_cols(), part.n_observed()), (2, 2, 2));
    assert!(file.select(&[3]).is_err() && file.select(&[1, 1]).is_err());
}

#[test]
fn the_three_movielens_formats() {
    let tab = movielens(
        "u.data",
        "10\t1193\t5\t88\n2\t1193\t4\t89\n10\t7\t3.5\t90\n".as_bytes(),
        MovieLens::Tab,
    )
    .expect("valid");
    check_small(&tab);
    let colons = "10::1193::5\n2::1193::4\n10::7::3.5\n";
    let file = movielens("r.dat", colons.as_bytes(), MovieLens::DoubleColon).expect("valid");
    check_small(&file);
    let csv = "userId,movieId,rating,timestamp\n10,1193,5,88\n2,1193,4,89\n10,7,3.5,90\n";
    let file = movielens("r.csv", csv.as_bytes(), MovieLens::Csv).expect("valid");
    assert_eq!(file, tab);
}

#[test]
fn movielens_errors_name_line_and_column() {
    let cases = [
        (
            "1::2::x\n",
            "r.dat:1: column 3: \"x\" is not a number or a missing mark",
        ),
        (
            "1::2::3\n1::b::3\n",
            "r.dat:2: column 2: \"b\" is not a whole number",
        ),
        (
            "1::2::3::4\n1::3::3\n",
            "r.dat:2: column 4: 3 fields, expected 4",
        ),
        (
            "1::2::3::noon\n",
            "r.dat:1: column 4: \"noon\" is not a whole number",
        ),
        ("1::2\n", "r.dat:1: column 1: 2 fields, expected 4"),
        (
            "1::2::3\n\n2::2::3\n1::2::4\n",
            "r.dat:4: entry (1, 2) was given before, in line 1",
        ),
        ("1::2::inf\n", "r.dat:1: column 3: \"inf\""),
        ("::2::3\n", "r.dat:1: column 1: \"\""),
    ];
    for (text, message) in cases {
        starts(
            movielens("r.dat", text.as_bytes(), MovieLens::DoubleColon).expect_err(text),
            message,
        );
    }
    let error = movielens("u.data", "1\t2\t3\n".as_bytes(), MovieLens::Tab).expect_err("no time");
    starts(error, "u.data:1: column 1: 3 fields, expected 4");
}

#[test]
fn triplets_of_any_columns() {
    let text = "score;who;what;note\n1.5;ann;tea;x\n2;bob;tea;\n";
    let options = DelimitedOptions {
        separator: Separator::Char(';'),
        ..DelimitedOptions::default()
    };
    let [who, what, score] = ["who", "what", "score"].map(Column::from);
    let file = triplets(
        "t.csv",
        text.as_bytes(),
        [&who, &what, &score],
        &options,
        Repeats::Error,
    )
    .expect("valid");
    assert_eq!(file.row_ids, ["ann", "bob"]);
    assert_eq!(
        file.ratings().expect("valid").column(0),
        (&[0, 1][..], &[1.5, 2.0][..])
    );
    let error = triplets(
        "t.csv",
        "who;what;score\n;tea;1\n".as_bytes(),
        [&who, &what, &score],
        &options,
        Repeats::Error,
    )
    .expect_err("no id");
    starts(error, "t.csv:2: column 1 (\"who\"): ");
}

/// Numbers written by Rust read back in the same bits.
#[test]
fn numbers_survive_text() {
    let values = [
        0.1,
        -1.0 / 3.0,
        1e300,
        5e-324,
        -0.0,
        f64::MAX,
        123_456_789.123_456_79,
    ];
    let text: String = values.iter().map(|v| format!("{v:?}\n")).collect();
    let options = DelimitedOptions {
        header: false,
        ..DelimitedOptions::default()
    };
    let table = read::table("f.csv", text.as_bytes(), &options).expect("valid");
    let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(table.values()), bits(&values));
}
