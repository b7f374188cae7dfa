//! ARFF, MovieLens, triplets and MatrixMarket.

use npb_data::read::{
    self, Column, DelimitedOptions, MatrixMarket, MovieLens, RatingFile, ReadError, ReadProblem,
    Repeats, Separator, arff, matrix_market, movielens, triplets,
};
use npb_data::{ColumnKind, MixedColumn, Rating, Table};

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
    assert_eq!(file.relation, "my data");
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
    assert_eq!(tab.timestamps, Some(vec![88, 89, 90]));
    let colons = "10::1193::5\n2::1193::4\n10::7::3.5\n";
    let file = movielens("r.dat", colons.as_bytes(), MovieLens::DoubleColon).expect("valid");
    check_small(&file);
    assert_eq!(file.timestamps, None);
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

type Coordinates = (usize, usize, Vec<(u32, u32, f64)>);

fn coordinate(text: &str) -> Result<Coordinates, ReadError> {
    match matrix_market("a.mtx", text.as_bytes())? {
        MatrixMarket::Coordinate {
            n_rows,
            n_cols,
            entries,
        } => Ok((
            n_rows,
            n_cols,
            entries.iter().map(|e| (e.row, e.column, e.value)).collect(),
        )),
        MatrixMarket::Array(_) => panic!("coordinate"),
    }
}

#[test]
fn matrix_market_coordinates() {
    let general =
        "%%MatrixMarket matrix coordinate real general\n% remark\n\n3 4 2\n1 4 2.5\n3 1 -1e2\n";
    assert_eq!(
        coordinate(general).expect("valid"),
        (3, 4, vec![(0, 3, 2.5), (2, 0, -100.0)])
    );
    let symmetric = "%%matrixmarket MATRIX Coordinate Integer Symmetric\n3 3 2\n2 2 7\n3 1 4\n";
    assert_eq!(
        coordinate(symmetric).expect("valid"),
        (3, 3, vec![(1, 1, 7.0), (2, 0, 4.0), (0, 2, 4.0)])
    );
    let pattern = "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n2 1\n";
    assert_eq!(
        coordinate(pattern).expect("valid"),
        (2, 2, vec![(1, 0, 1.0)])
    );
}

#[test]
fn matrix_market_arrays() {
    let array = |text: &str| match matrix_market("a.mtx", text.as_bytes()).expect("valid") {
        MatrixMarket::Array(table) => table,
        MatrixMarket::Coordinate { .. } => panic!("array"),
    };
    let general = array("%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\nnan\n5\n6\n");
    assert_eq!(
        general,
        Table::from_nan_coded(2, 3, &[1.0, 3.0, 5.0, 2.0, f64::NAN, 6.0]).expect("valid")
    );
    let symmetric =
        array("%%MatrixMarket matrix array integer symmetric\n3 3\n11\n21\n31\n22\n32\n33\n");
    assert_eq!(
        symmetric.values(),
        [11.0, 21.0, 31.0, 21.0, 22.0, 32.0, 31.0, 32.0, 33.0]
    );
}

#[test]
fn matrix_market_errors_name_line_and_column() {
    let real = "%%MatrixMarket matrix coordinate real general\n";
    let cases = [
        (
            format!("{real}2 2 1\n1 3 1\n"),
            "a.mtx:3: column 2: \"3\" is not an index",
        ),
        (
            format!("{real}2 2 1\n0 1 1\n"),
            "a.mtx:3: column 1: \"0\" is not an index",
        ),
        (
            format!("{real}2 2 1\n1 1 x\n"),
            "a.mtx:3: column 3: \"x\" is not a finite",
        ),
        (
            format!("{real}2 2 1\n1 1 nan\n"),
            "a.mtx:3: column 3: \"nan\" is not a finite",
        ),
        (
            format!("{real}2 2 1\n1 1\n"),
            "a.mtx:3: column 3: 2 fields, expected 3",
        ),
        (
            format!("{real}2 2 3\n1 1 1\n2 2 2\n"),
            "a.mtx:2: the header announces 3 entries, the file has 2",
        ),
        (
            format!("{real}2 2 1\n1 1 1\n2 2 2\n2 1 2\n"),
            "a.mtx:2: the header announces 1 entries, the file has 2",
        ),
        (
            format!("{real}2 2 2\n1 1 1\n1 1 2\n"),
            "a.mtx:4: entry (1, 1) was given before, in line 3",
        ),
        (format!("{real}2 2\n"), "a.mtx:2: 2 fields, expected 3"),
        (real.to_owned(), "a.mtx:1: \"\": a line with the size"),
        (
            format!("{real}4000000000 4000000000 0\n"),
            "a.mtx:2: column 1: \"4000000000\" is not a size in proportion",
        ),
        (
            format!("{real}1 1 18446744073709551615\n"),
            "a.mtx:2: the header announces 18446744073709551615",
        ),
        (
            "%%MatrixMarket matrix coordinate complex general\n1 1 0\n".to_owned(),
            "a.mtx:1: ",
        ),
        (
            "%%MatrixMarket matrix array pattern general\n1 1\n".to_owned(),
            "a.mtx:1: ",
        ),
        (
            real.replace("general", "symmetric") + "2 3 0\n",
            "a.mtx:2: \"2 3 0\": a symmetric matrix is square",
        ),
        (
            real.replace("general", "symmetric") + "2 2 1\n1 2 5\n",
            "a.mtx:3: column 2: \"2\" is not on or below",
        ),
        (
            real.replace("coordinate", "array") + "2 2\n1\n2\n3\n",
            "a.mtx:2: the header announces 4 entries, the file has 3",
        ),
        (
            real.replace("coordinate", "array") + "1 2\n1\ninf\n",
            "a.mtx:4: column 1: \"inf\"",
        ),
        (String::new(), "a.mtx:1: "),
    ];
    for (text, message) in cases {
        starts(
            matrix_market("a.mtx", text.as_bytes()).expect_err(&text),
            message,
        );
    }
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
