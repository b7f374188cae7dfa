//! Every reader survives 100,000 mutated inputs: an error with a place, or valid data in proportion to the input; never a panic.

use crate::rng;
use npb_data::read::{
    self, Column, DelimitedOptions, Encoding, MovieLens, ReadError, Repeats, Separator,
};
use npb_data::schema::Schema;
use npb_data::{MixedTable, Rating, Table};
use rand::{Rng, RngExt};
use rayon::prelude::*;

const INPUTS: u64 = 100_000;

/// Pieces that parsers are sensitive to.
const PIECES: [&[u8]; 24] = [
    b"\"",
    b"'",
    b"\\",
    b",",
    b"::",
    b"\t",
    b"\n",
    b"\r",
    b"{",
    b"}",
    b"%",
    b"@data\n",
    b"?",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\0",
    b"1e999",
    b"-inf",
    b"nan",
    b"18446744073709551616",
    b"-1",
    b"4294967295",
    b"0x1p3",
    b" ",
];

/// A sample after one to six random changes.
fn mutated(samples: &[&[u8]], rng: &mut impl Rng) -> Vec<u8> {
    let mut bytes = samples[rng.random_range(0..samples.len())].to_vec();
    for _ in 0..rng.random_range(1..=6) {
        let at = rng.random_range(0..=bytes.len());
        match rng.random_range(0..7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
            1 if at < bytes.len() => bytes[at] = rng.random(),
            2 => bytes.truncate(at),
            3 => drop(bytes.splice(
                at..at,
                PIECES[rng.random_range(0..PIECES.len())].iter().copied(),
            )),
            4 => {
                let end = rng.random_range(at..=bytes.len());
                bytes.drain(at..end.min(at + 12));
            }
            5 => {
                let other = samples[rng.random_range(0..samples.len())];
                let from = rng.random_range(0..=other.len());
                let to = rng.random_range(from..=other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            _ => {
                let end = rng.random_range(at..=bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
        }
        bytes.truncate(4096);
    }
    bytes
}

/// Feeds mutated samples to `read`, which returns how many cells it made; reports how many inputs were still valid.
fn survives(samples: &[&str], read: impl Fn(&[u8]) -> Result<usize, ReadError> + Sync) {
    let samples: Vec<&[u8]> = samples.iter().map(|s| s.as_bytes()).collect();
    for sample in &samples {
        read(sample).expect("an unchanged sample is valid");
    }
    let valid = (0..INPUTS).into_par_iter().map(|seed| {
        let bytes = mutated(&samples, &mut rng(seed));
        match read(&bytes) {
            Ok(cells) => {
                assert!(
                    cells <= (1 << 20) + 64 * bytes.len(),
                    "seed {seed}: {cells} cells from {} bytes",
                    bytes.len()
                );
                1
            }
            Err(error) => {
                assert!(
                    error.to_string().starts_with("hostile"),
                    "seed {seed}: {error}"
                );
                0
            }
        }
    });
    let valid: u64 = valid.sum();
    // Both outcomes must be common, or the harness would test little.
    assert!(
        valid > INPUTS / 100 && valid < INPUTS * 99 / 100,
        "{valid} of {INPUTS} valid"
    );
}

fn cells(table: &Table) -> usize {
    assert!(table.values().iter().all(|v| v.is_finite()));
    table.values().len() + table.n_cols()
}

fn mixed_cells(table: &MixedTable) -> usize {
    table.n_rows() * table.n_cols() + table.n_cols()
}

fn entries(entries: &[Rating]) -> usize {
    assert!(entries.iter().all(|e| e.value.is_finite()));
    entries.len()
}

const CSV: [&str; 2] = [
    "a,b,c\n1,2,3\n4,?,6\n",
    "\u{feff}id,\"x \"\"y\"\"\",z\r\n1,\"2\",-3e5\r\n\r\n7,NA,0.5\r\n",
];

#[test]
fn delimited_numbers() {
    let options = [
        DelimitedOptions::default(),
        DelimitedOptions {
            header: false,
            missing: vec![
                "a".into(),
                "b".into(),
                "c".into(),
                "x".into(),
                "z".into(),
                "id".into(),
            ],
            quote: None,
            ..DelimitedOptions::default()
        },
        DelimitedOptions {
            comment: Some('?'),
            trim: false,
            encoding: Encoding::Latin1,
            ..DelimitedOptions::default()
        },
    ];
    survives(&CSV, |bytes| {
        for other in &options[1..] {
            if let Ok(table) = read::table("hostile", bytes, other) {
                cells(&table);
            }
        }
        read::table("hostile", bytes, &options[0]).map(|table| cells(&table))
    });
}

#[test]
fn delimited_labels_and_strings() {
    survives(
        &["g,1,2\nb,3,?\n", "g,1,2\n\"b\nb\",3,4\n?,5,6\n"],
        |bytes| {
            let options = DelimitedOptions {
                header: false,
                ..DelimitedOptions::default()
            };
            if let Ok(strings) = read::delimited_strings("hostile", bytes, &options) {
                assert!(
                    strings
                        .rows
                        .iter()
                        .all(|row| row.len() == strings.column_names.len())
                );
            }
            let (table, labels) =
                read::labelled_table("hostile", bytes, &Column::from(0), &options)?;
            assert_eq!(labels.n_rows(), table.n_rows());
            Ok(cells(&table))
        },
    );
}

#[test]
fn blanks_and_text_separators() {
    survives(&["1 2 ? 4\n 5 6\t7 8 \n", "1 2\n3 4\n"], |bytes| {
        for separator in [Separator::Text("::".into()), Separator::Char('\t')] {
            let options = DelimitedOptions {
                separator,
                header: false,
                ..DelimitedOptions::default()
            };
            if let Ok(table) = read::table("hostile", bytes, &options) {
                cells(&table);
            }
        }
        let options = DelimitedOptions {
            separator: Separator::Blanks,
            header: false,
            ..DelimitedOptions::default()
        };
        read::table("hostile", bytes, &options).map(|table| cells(&table))
    });
}

#[test]
fn mixed_columns() {
    survives(
        &[
            "a,b,c\n1,x,0\n2,y,1\n?,x,0\n",
            "n,s\n1.5,\"p,q\"\n2,r\n-3,t\n",
        ],
        |bytes| {
            let options = DelimitedOptions::default();
            let guess = Schema::guess("hostile", bytes, &options)?;
            let again = Schema::from_toml(&guess.to_toml()).expect("what was written is read");
            assert_eq!(again, guess.schema);
            let rules = read::ReadingRules::default();
            let (data, report) = read::with_schema("hostile", bytes, &again, &rules)?;
            assert!(report.skipped.is_empty() && report.unseen.is_empty());
            Ok(mixed_cells(&data.features))
        },
    );
}

#[test]
fn files_read_by_a_schema_of_another() {
    let schema = Schema::from_toml(
        r#"columns = [
            { name = "n", kind = "count", role = "label" },
            { name = "s", kind = "categorical", levels = ["x", "1"] },
            { name = "d", kind = "date", date = { order = "dmy", unit = "hours" } },
            { name = "p", kind = "positive" },
            { name = "w", kind = "real", role = "weight" },
            { name = "i", kind = "identifier", role = "row_id" },
        ]"#,
    );
    let schema = schema.expect("valid");
    let rules = read::ReadingRules {
        layout: DelimitedOptions {
            decimal: ',',
            thousands: Some('.'),
            separator: Separator::Char(';'),
            ..DelimitedOptions::default()
        },
        missing_columns: read::Unexpected::Missing,
        ..read::ReadingRules::default()
    };
    survives(
        &[
            "n;s;d;p;w;i\n1;x;1.2.2024 13:15;1.234,5;1;a\n2;1;?;?;0;b\n",
            "p;z;w\n0,5;\"x\";2\n1;y;3\n",
        ],
        |bytes| {
            let (data, _) = read::with_schema("hostile", bytes, &schema, &rules)?;
            assert_eq!((data.features.n_cols(), data.fields.len()), (3, 3));
            Ok(mixed_cells(&data.features))
        },
    );
}

#[test]
fn arff() {
    let dense = "@relation r\n@attribute a real\n@attribute 'b c' {x,'y z'}\n@attribute s string\n@data\n1,x,'q'\n?,'y z',t\n";
    let sparse = "% c\n@relation 'r s'\n@attribute a numeric\n@attribute b {p,q,r}\n@data\n{0 1, 1 q}\n{}\n{1 r}\n";
    survives(&[dense, sparse], |bytes| {
        read::arff("hostile", bytes).map(|file| mixed_cells(&file.table))
    });
}

#[test]
fn movielens() {
    let samples = [
        ("1\t2\t3\t4\n5\t2\t1\t7\n", MovieLens::Tab),
        ("1::2::3::4\n5::2::1.5::7\n", MovieLens::DoubleColon),
        ("u,m,r\n1,2,3\n5,2,1\n", MovieLens::Csv),
    ];
    for (sample, layout) in samples {
        survives(&[sample], |bytes| {
            let file = read::movielens("hostile", bytes, layout)?;
            assert_eq!(
                file.ratings().expect("valid").n_observed(),
                file.entries.len()
            );
            Ok(entries(&file.entries))
        });
    }
}

#[test]
fn triplets() {
    survives(&["u,m,r\nann,tea,3\nbob,tea,1\nann,\"jam\",2\n"], |bytes| {
        let columns = [0, 1, 2].map(Column::from);
        let columns = [&columns[0], &columns[1], &columns[2]];
        let file = read::triplets(
            "hostile",
            bytes,
            columns,
            &DelimitedOptions::default(),
            Repeats::Mean,
        )?;
        Ok(entries(&file.entries) + file.ratings().expect("valid").n_rows())
    });
}

#[test]
fn given_masks_splits_and_rows() {
    survives(&["0.25 0 80f\n0.5 1 0080\n"], |bytes| {
        read::given_masks("hostile", bytes, 3, 4).map(|masks| 12 * masks.len())
    });
    survives(&["0.25 0.5 3 TE-T\n0.5 0.1 0 TTEE\n"], |bytes| {
        let splits = read::given_splits("hostile", bytes)?;
        Ok(splits
            .iter()
            .map(|s| s.split.train.len() + s.split.test.len())
            .sum())
    });
    survives(&["3\n5\n\n77\n"], |bytes| {
        read::row_numbers("hostile", bytes).map(|rows| rows.len())
    });
}

#[test]
fn documents() {
    survives(
        &["a 1 0:2 3:1\nb 2 1:1\na 3\n", "2:1\n0:1 1:4\n"],
        |bytes| {
            if let Ok(bags) = read::bags_of_words("hostile", bytes, Some(4)) {
                assert_eq!(
                    (bags.counts.n_rows(), bags.counts.n_cols()),
                    (bags.keys.len(), 4)
                );
            }
            let latin =
                read::tokens("hostile", bytes, Encoding::Latin1).expect("all bytes are Latin-1");
            assert!(latin.iter().flatten().all(|token| !token.is_empty()));
            let bags = read::bags_of_words("hostile", bytes, None)?;
            assert!(bags.counts.values().iter().all(|&v| v >= 1.0));
            Ok(bags.counts.n_observed() + bags.counts.n_rows() + bags.counts.n_cols())
        },
    );
}
