//! The reader of delimited text, given masks and given splits.

use npb_data::read::{
    self, Column, DelimitedOptions, Encoding, ReadError, ReadProblem, Separator, delimited_strings,
    labelled_table,
};

fn options(header: bool) -> DelimitedOptions {
    DelimitedOptions {
        header,
        ..DelimitedOptions::default()
    }
}

fn table(text: &str, options: &DelimitedOptions) -> Result<npb_data::Table, ReadError> {
    read::table("f.csv", text.as_bytes(), options)
}

#[test]
fn header_quotes_blanks_and_missing_marks() {
    let text = "\u{feff}a, b ,\"c \"\"d\"\"\"\r\n1,NA,\"-2e3\"\r\n\r\n nan ,?, 4 \r\n";
    let table = table(text, &options(true)).expect("valid");
    assert_eq!(table.column_names(), ["a", "b", "c \"d\""]);
    assert_eq!(table.row(0), [1.0, 0.0, -2000.0]);
    assert_eq!(
        [table.get(1, 0), table.get(1, 1), table.get(1, 2)],
        [None, None, Some(4.0)]
    );
}

#[test]
fn label_column_by_index_or_name_and_skipped_columns() {
    let text = "id,class,x\n7,b,1\n8,a,2\n9,?,3\n";
    let skipping = DelimitedOptions {
        skip: vec!["id".into()],
        ..options(true)
    };
    for column in [Column::from(1), Column::from("class")] {
        let (table, labels) =
            labelled_table("f.csv", text.as_bytes(), &column, &skipping).expect("valid");
        assert_eq!(
            (table.column_names(), table.values()),
            (&["x".to_owned()][..], &[1.0, 2.0, 3.0][..])
        );
        assert_eq!(
            (labels.classes(), labels.codes()),
            (
                &["a".to_owned(), "b".to_owned()][..],
                &[Some(1), Some(0), None][..]
            )
        );
    }
    let missing = labelled_table("f.csv", text.as_bytes(), &Column::from("klass"), &skipping)
        .expect_err("no such column");
    assert!(missing.to_string().contains("klass"), "{missing}");
}

#[test]
fn columns_without_header_are_counted_over_the_table() {
    let (table, _) = labelled_table(
        "f.csv",
        "a,1,2\nb,3,4\n".as_bytes(),
        &Column::from(0),
        &options(false),
    )
    .expect("valid");
    assert_eq!(table.column_names(), ["x0", "x1"]);
}

#[test]
fn a_column_that_is_not_there_is_answered_by_those_that_are() {
    let wide: String = (0..13).map(|j| format!("c{j},")).collect();
    for (text, known) in [
        ("", "the file has none"),
        ("a,b\n1,2\n", "the file has \"a\", \"b\""),
        (wide.as_str(), "\"c9\" and 4 more"),
    ] {
        let label = Column::from("kind");
        let error = labelled_table("f.csv", text.as_bytes(), &label, &options(true));
        let error = error.unwrap_err().to_string();
        let wanted = "there is no column named \"kind\": ";
        assert!(error.contains(wanted) && error.ends_with(known), "{error}");
    }
}

#[test]
fn errors_name_file_line_and_column() {
    let cases = [
        (
            "a,b\n1,2\n3,oops\n",
            "f.csv:3: column 2 (\"b\"): \"oops\" is not a number",
        ),
        (
            "a,b\n\n\n1,inf\n",
            "f.csv:4: column 2 (\"b\"): \"inf\" is not a finite number",
        ),
        (
            "a,b\n1,1e999\n",
            "f.csv:2: column 2 (\"b\"): \"1e999\" is not a finite number",
        ),
        (
            "a,b\r\n\r\n1,2\r\n3\r\n",
            "f.csv:4: column 2: 1 fields, expected 2",
        ),
        ("a,b\n1,2,3\n", "f.csv:2: column 3: 3 fields, expected 2"),
        (
            "a,b\r1,2\rx,4\r",
            "f.csv:3: column 1 (\"a\"): \"x\" is not a number",
        ),
        (
            "a,a\n1,2\n",
            "f.csv:1: column 2: \"a\" is the name of two columns, at positions 0 and 1 (from 0)",
        ),
        (
            "a,b\n1,\"2\n3,4\n",
            "f.csv:2: a quote opened in this record is never closed",
        ),
        (
            "\"a\nb\",c\n1,x\n",
            "f.csv:3: column 2 (\"c\"): \"x\" is not a number",
        ),
    ];
    for (text, message) in cases {
        let error = table(text, &options(true)).expect_err(text).to_string();
        assert!(error.starts_with(message), "{text:?}: {error}");
    }
}

#[test]
fn a_field_after_a_field_of_two_lines_is_on_the_next_line() {
    let text = "a,b\n\"one\ntwo\",x\n";
    let error = labelled_table("f.csv", text.as_bytes(), &Column::from("a"), &options(true))
        .expect_err("x");
    assert_eq!((error.line, error.column), (Some(3), Some(2)));
}

#[test]
fn bytes_that_are_not_utf8_are_located() {
    let error =
        read::table("f.csv", &b"a,b\n1,2\n3,\xff\n"[..], &options(true)).expect_err("not UTF-8");
    assert!(matches!(*error.problem, ReadProblem::InvalidUtf8));
    assert_eq!((error.line, error.column), (Some(3), Some(3)));
    let latin = DelimitedOptions {
        encoding: Encoding::Latin1,
        ..options(true)
    };
    let strings = delimited_strings("f.csv", &b"a\ncaf\xe9\n"[..], &latin).expect("Latin-1");
    assert_eq!(strings.rows, [[Some("caf\u{e9}".to_owned())]]);
}

#[test]
fn failing_input_is_an_error() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("cable pulled"))
        }
    }
    let error = read::table("f.csv", Broken, &options(true)).expect_err("broken");
    assert!(matches!(*error.problem, ReadProblem::Io(_)));
}

#[test]
fn other_separators_comments_and_quotes() {
    let blanks = DelimitedOptions {
        separator: Separator::Blanks,
        comment: Some('%'),
        ..options(false)
    };
    let table_of_blanks = table("% made by hand\n 1  2\t? \n\n3 4 5\n", &blanks).expect("valid");
    assert_eq!(
        (table_of_blanks.n_rows(), table_of_blanks.n_missing()),
        (2, 1)
    );
    let error = table("% made by hand\n1 2\nx 4\n", &blanks)
        .expect_err("x")
        .to_string();
    assert!(error.starts_with("f.csv:3: column 1: "), "{error}");
    let double = DelimitedOptions {
        separator: Separator::Text("::".into()),
        ..options(false)
    };
    assert_eq!(
        table("1::2::3\n", &double).expect("valid").values(),
        [1.0, 2.0, 3.0]
    );
    let commented = DelimitedOptions {
        comment: Some('#'),
        separator: Separator::Char(';'),
        ..options(false)
    };
    let error = table("# one\n1;2\n# two\n\n3;y\n", &commented)
        .expect_err("y")
        .to_string();
    assert!(error.starts_with("f.csv:5: column 2: "), "{error}");
    let unquoted = DelimitedOptions {
        quote: None,
        ..options(false)
    };
    let strings = delimited_strings("f.csv", "\"a,b\"\n".as_bytes(), &unquoted).expect("valid");
    assert_eq!(
        strings.rows[0],
        [Some("\"a".to_owned()), Some("b\"".to_owned())]
    );
}

#[test]
fn quotes_somewhere_change_nothing_elsewhere() {
    let tabs = DelimitedOptions {
        separator: Separator::Char('\t'),
        ..options(true)
    };
    let plain = "a\tb\tc\n\n1\t2\t3\n\t\t\n  \n4\t\t 5\n";
    let quoted = plain.replace("1", "\"1\"");
    let expected = table(plain, &tabs).expect("valid");
    assert_eq!(
        (expected.n_rows(), expected.empty_rows(), expected.get(2, 2)),
        (3, vec![1], Some(5.0))
    );
    assert_eq!(table(&quoted, &tabs).expect("valid"), expected);
    let one_column = table("a\n1\n\"\"\n\n3\n", &options(true)).expect("valid");
    assert_eq!(
        (one_column.n_rows(), one_column.n_missing()),
        (3, 1),
        "a quoted empty field is a cell"
    );
}

#[test]
fn impossible_options_are_errors() {
    let bad = [
        DelimitedOptions {
            separator: Separator::Char('\u{e9}'),
            ..options(true)
        },
        DelimitedOptions {
            separator: Separator::Char('\n'),
            ..options(true)
        },
        DelimitedOptions {
            separator: Separator::Char('"'),
            ..options(true)
        },
        DelimitedOptions {
            separator: Separator::Text(String::new()),
            ..options(true)
        },
        DelimitedOptions {
            quote: Some('\u{201c}'),
            ..options(true)
        },
        DelimitedOptions {
            comment: Some('\u{a7}'),
            ..options(true)
        },
    ];
    for options in bad {
        let error = table("a,b\n1,2\n", &options).expect_err("impossible");
        assert!(
            matches!(*error.problem, ReadProblem::Options { .. }),
            "{error}"
        );
    }
}

#[test]
fn empty_files_and_headers_alone() {
    let empty = table("", &options(true)).expect("valid");
    assert_eq!((empty.n_rows(), empty.n_cols()), (0, 0));
    let header = table("a,b\n", &options(true)).expect("valid");
    assert_eq!((header.n_rows(), header.n_cols()), (0, 2));
}

#[test]
fn given_masks_and_splits() {
    // 3 x 3 cells, padded to 3 digits: 100 000 001 000
    let masks = read::given_masks("m", "0.25 0 801\n".as_bytes(), 3, 3);
    assert!(masks.is_err(), "bits beyond the last cell");
    let masks =
        read::given_masks("m", "0.25 7 808\n\n0.5 1 0080\n".as_bytes(), 3, 3).expect("valid");
    assert_eq!(masks[0].key, [0.25, 7.0]);
    let missing = |k: usize| {
        (0..9)
            .filter(|&c| masks[k].missing.get(c / 3, c % 3))
            .collect::<Vec<_>>()
    };
    assert_eq!((missing(0), missing(1)), (vec![0, 8], vec![8]));
    let splits = read::given_splits("s", "0.25 0.5 3 TE-T\n".as_bytes()).expect("valid");
    assert_eq!(
        (&splits[0].split.train[..], &splits[0].split.test[..]),
        (&[0, 3][..], &[1][..])
    );
    assert_eq!(
        (&splits[0].key[..], splits[0].n_rows),
        (&[0.25, 0.5, 3.0][..], 4)
    );
    assert_eq!(
        read::row_numbers("r", "3\n5\n".as_bytes()).expect("valid"),
        [3, 5]
    );
    for (text, message) in [
        ("0.1 x TE\n", "s:1: column 2"),
        ("\n0.1 1 TXE\n", "s:2: column 3: \"X\""),
    ] {
        let error = read::given_splits("s", text.as_bytes())
            .expect_err(text)
            .to_string();
        assert!(error.starts_with(message), "{error}");
    }
    for (text, message) in [
        ("0.25 0 80\n", "m:1: column 3"),
        ("0.25 0 8g8\n", "m:1: column 3: \"g\""),
    ] {
        let error = read::given_masks("m", text.as_bytes(), 3, 3)
            .expect_err(text)
            .to_string();
        assert!(error.starts_with(message), "{error}");
    }
    assert!(
        read::row_numbers("r", "3\n-5\n".as_bytes())
            .expect_err("negative")
            .to_string()
            .starts_with("r:2")
    );
}

/// What spreadsheets call Unicode text: UTF-16 with a byte order mark.
#[test]
fn utf_16_is_read() {
    let text = "town\tsize\nÅs\t1.5\n東京\t2.5\n";
    let options = DelimitedOptions::default();
    for little in [true, false] {
        let unit = |u: u16| {
            if little {
                u.to_le_bytes()
            } else {
                u.to_be_bytes()
            }
        };
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        let bytes: Vec<u8> = units.flat_map(unit).collect();
        let found = options.sniffed(&bytes).options;
        assert_eq!(found.separator, Separator::Char('\t'));
        let read = delimited_strings("f.txt", bytes.as_slice(), &found).unwrap();
        let plain = delimited_strings("f.txt", text.as_bytes(), &found).unwrap();
        assert_eq!(read, plain);
    }
    let broken = [0xff, 0xfe, 0x00, 0xd8, 0x0a, 0x00];
    assert!(delimited_strings("f.txt", broken.as_slice(), &options).is_err());
}
