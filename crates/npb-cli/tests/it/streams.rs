//! Files that are asked about some rows at a time: the answers are those of all rows at once.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use flate2::Compression;
use flate2::write::GzEncoder;
use npb_data::{RawColumn, RawTable};

use crate::{Folder, errors};

/// Rows at a time.
const SIZES: [usize; 4] = [1, 3, 10, 1000];
const N_ROWS: usize = 45;

/// A folder with the models of earlier versions.
fn with_models(name: &str) -> Folder {
    let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    let folder = Folder::new(name);
    for model in ["classifier.npb", "mixture.npb", "table.npb", "tasks.npb"] {
        folder.write(model, std::fs::read(there.join(model)).expect("a model"));
    }
    folder
}

/// Patients, some cells missing: id, age, smokes, dose, ill.
fn rows() -> Vec<[Option<String>; 5]> {
    let row = |i: usize| {
        let known = |every: usize, text: String| (i % every != 2).then_some(text);
        [
            Some(format!("p{i}")),
            known(5, format!("{}", 20 + i * 7 % 60)),
            known(7, ["no", "yes"][i * 3 % 4 / 2].to_owned()),
            known(3, format!("{:.2}", 1.0 + (i * 11 % 40) as f64 / 10.0)),
            known(4, ["no", "yes"][usize::from(i % 7 > 3)].to_owned()),
        ]
    };
    (0..N_ROWS).map(row).collect()
}

/// The same as comma-separated text.
fn text(id: impl Fn(usize) -> String, end: &str) -> String {
    let mut text = format!("id,age,smokes,dose,ill{end}");
    for (i, [_, cells @ ..]) in rows().into_iter().enumerate() {
        let cells = cells.map(Option::unwrap_or_default).join(",");
        text += &format!("{},{cells}{end}", id(i));
    }
    text
}

/// The same as a file of typed columns.
fn typed(format: npb_arrow::Format) -> Vec<u8> {
    let rows = rows();
    let texts = |j: usize| RawColumn::texts(rows.iter().map(|row| row[j].as_deref()));
    let cells = |j: usize| rows.iter().map(move |row| row[j].as_ref());
    let ages = cells(1).map(|cell| cell.and_then(|age| age.parse().ok()));
    let doses = cells(3).map(|cell| cell.and_then(|dose| dose.parse().ok()));
    let columns = vec![
        texts(0),
        RawColumn::Whole(ages.collect()),
        texts(2),
        RawColumn::Numbers(doses.collect()),
        texts(4),
    ];
    let names = ["id", "age", "smokes", "dose", "ill"].map(str::to_owned);
    let table = RawTable::new(names.to_vec(), columns).expect("a table");
    npb_arrow::write(&table, format).expect("written")
}

fn with_files(name: &str) -> Folder {
    let folder = with_models(name);
    let plain = text(|i| format!("p{i}"), "\n");
    folder.write("p.csv", &plain);
    // A mark of the order of bytes, lines that end as in Windows, names over two lines and with quotes.
    let quoted = text(|i| format!("\"p\u{f8}\"\"{i}\r\nand, more\""), "\r\n");
    folder.write("quoted.csv", format!("\u{feff}{quoted}"));
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(plain.as_bytes()).expect("packed");
    folder.write("p.csv.gz", packed.finish().expect("packed"));
    folder.write("p.parquet", typed(npb_arrow::Format::Parquet));
    folder.write("p.arrow", typed(npb_arrow::Format::Arrow));
    folder.write("p.arrows", typed(npb_arrow::Format::Stream));
    folder
}

const QUESTIONS: [&str; 8] = [
    "predict classifier.npb",
    "predict classifier.npb --interval 0.8",
    "score mixture.npb",
    "impute mixture.npb --sd --interval 0.5",
    "impute mixture.npb --draws 3",
    "impute table.npb",
    "impute table.npb --sd --interval 0.5",
    "impute table.npb --draws 2 --seed 4",
];

#[test]
fn answers_do_not_depend_on_how_many_rows_are_read_at_once() {
    let folder = with_files("streams");
    let bytes = |name: &str| std::fs::read(folder.path(name)).expect("a file");
    for question in QUESTIONS {
        let (words, options) = question.split_once(".npb").expect("a model");
        let ask = |file: &str, size: usize, format: &str| {
            let how = format!("-q --chunk-rows {size} --format {format}");
            folder.npb(&format!(
                "{words}.npb {file} {options} {how} -o answers.{format}"
            ));
            bytes(&format!("answers.{format}"))
        };
        let plain = ask("p.csv", 1000, "csv");
        assert_eq!(
            String::from_utf8_lossy(&plain)
                .lines()
                .next()
                .map(|l| l.contains("id,")),
            Some(true)
        );
        for file in [
            "p.csv",
            "quoted.csv",
            "p.csv.gz",
            "p.parquet",
            "p.arrow",
            "p.arrows",
        ] {
            let whole = ask(file, 1000, "csv");
            if file != "quoted.csv" && !words.contains("impute") {
                assert_eq!(whole, plain, "{question} of {file}");
            }
            for size in SIZES {
                assert!(
                    ask(file, size, "csv") == whole,
                    "{question} of {file}, {size}"
                );
            }
        }
        for format in ["json", "table", "parquet", "arrow"] {
            let whole = ask("p.parquet", 1000, format);
            for size in SIZES {
                let found = ask("p.parquet", size, format);
                assert!(found == whole, "{question} to {format}, {size}");
            }
        }
    }
    let parts = |name: &String| name.ends_with(".part");
    assert!(!folder.files().iter().any(parts));
}

#[test]
fn standard_input_is_read_some_rows_at_a_time() {
    let folder = with_files("streams-stdin");
    for file in ["p.csv", "p.csv.gz", "p.parquet"] {
        let expected = folder.npb(&format!("impute mixture.npb {file} -q"));
        for size in SIZES {
            let mut command =
                folder.command(&format!("impute mixture.npb - -q --chunk-rows {size}"));
            let input = std::fs::File::open(folder.path(file)).expect("a file");
            let output = command.stdin(Stdio::from(input)).output().expect("run");
            assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{file}");
        }
    }
}

#[test]
fn what_is_unlike_the_fit_is_counted_over_the_file() {
    let folder = with_models("streams-notes");
    let mut lines: Vec<String> = text(|i| format!("p{i}"), "\n")
        .lines()
        .map(str::to_owned)
        .collect();
    for at in [4, 17, 40] {
        lines[at] = format!("q{at},31,often,1.5,no");
    }
    lines[30] = "q30,31,never,high,no".to_owned();
    folder.write("odd.csv", lines.join("\n"));
    let said = |size: usize| {
        let how = "--impossible-values missing";
        let output = folder.run(&format!(
            "impute mixture.npb odd.csv {how} --chunk-rows {size}"
        ));
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        (output.stdout.clone(), errors(&output))
    };
    let whole = said(1000);
    for word in [
        "\"often\" is no level of the schema, read as missing (3 rows, first in line 5)",
        "\"never\" is no level of the schema, read as missing (1 rows, first in line 31)",
        "\"high\" is not what the schema says it holds, read as missing (1 such rows, first in line 31)",
    ] {
        assert!(whole.1.contains(word), "{}", whole.1);
    }
    for size in SIZES {
        assert_eq!(said(size), whole, "{size}");
    }
    // Of tasks that were not in training, too.
    folder.write(
        "t.csv",
        "place,a,b\nx,0.5,2\nnew,1,1\ny,0.7,0.9\nother,1,2\nnew,2,1\n",
    );
    let said =
        |size: usize| errors(&folder.run(&format!("predict tasks.npb t.csv --chunk-rows {size}")));
    let whole = said(1000);
    assert!(
        whole.contains("no answer for 3 rows, as \"new\" and 1 others"),
        "{whole}"
    );
    for size in SIZES {
        assert_eq!(said(size), whole, "{size}");
    }
}

#[test]
fn late_errors_name_their_place_and_leave_no_file() {
    let folder = with_files("streams-errors");
    let plain = folder.read("p.csv");
    let broken = |name: &str, line: usize, text: &str| {
        let mut lines: Vec<&str> = plain.lines().collect();
        lines[line - 1] = text;
        folder.write(name, lines.join("\n"));
    };
    broken("level.csv", 41, "p39,30,often,1,no");
    broken("fields.csv", 42, "p40,30,no,1");
    broken("quote.csv", 43, "p41,30,no,1,no\n\"p42,30");
    let mut cut = typed(npb_arrow::Format::Arrow);
    cut.truncate(cut.len() - 400);
    folder.write("cut.arrow", cut);
    let cases = [
        (
            "level.csv --unseen-levels error",
            "level.csv:41: column 3 (\"smokes\"): \"often\"",
        ),
        (
            "fields.csv",
            "fields.csv:42: column 5: 4 fields, expected 5",
        ),
        (
            "quote.csv",
            "quote.csv:44: a quote opened in this record is never closed",
        ),
        ("cut.arrow", "cut.arrow: cannot read"),
        ("nothing.csv", "nothing.csv: cannot read"),
    ];
    for (question, words) in cases {
        for size in SIZES {
            let how = format!("-q --chunk-rows {size} -o answers.csv");
            let error = folder.fails(&format!("impute mixture.npb {question} {how}"), 3);
            assert!(error.contains(words), "{question}: {error}");
            let there = folder.files();
            assert!(
                !there.iter().any(|name| name.contains("answers")),
                "{there:?}"
            );
        }
    }
    // A task that is missing is named by the row of the file.
    folder.write("t.csv", "place,a,b\nx,0.5,2\ny,0.7,0.9\nx,1,1\n,1,1\n");
    for size in SIZES {
        let error = folder.fails(
            &format!("predict tasks.npb t.csv -q --chunk-rows {size} -o a.csv"),
            3,
        );
        assert!(error.contains("row 4: the task is missing"), "{error}");
    }
    // What was there stays.
    folder.write("answers.csv", "old");
    folder.fails(
        "impute mixture.npb fields.csv -q --chunk-rows 2 -o answers.csv",
        3,
    );
    assert_eq!(folder.read("answers.csv"), "old");
}

#[test]
fn a_file_without_rows_has_the_columns_of_the_answers() {
    let folder = with_models("streams-empty");
    folder.write("e.csv", "id,age,smokes,dose,ill\n");
    let said = |question: &str| folder.npb(&format!("{question} e.csv -q"));
    assert_eq!(said("score mixture.npb"), "id,ln_density,cluster\n");
    assert_eq!(said("score mixture.npb --format json"), "[]\n");
    let columns = said("impute table.npb");
    assert!(
        columns.starts_with("id,age,smokes,dose,ill") && columns.lines().count() == 1,
        "{columns}"
    );
    folder.npb("score mixture.npb e.csv -q -o e.parquet");
    assert!(folder.exists("e.parquet"));
}
