//! Files as people have them: layouts that the first lines show, marks, names of rows, joins.

use crate::{Folder, said};

const QUICK: &str = "--set restarts=1 --set folds=0 --set normal_scores=false";

/// 60 rows of age, level and class, written with a separator and a decimal mark.
fn rows(separator: char, decimal: char, mark: &str) -> String {
    let row = |i: usize| {
        let level = format!("{}.{}", i % 9, 1 + i % 7).replace('.', &decimal.to_string());
        let level = if i % 10 == 3 { mark.to_owned() } else { level };
        let class = if i % 9 > 4 { "ill" } else { "well" };
        [(20 + i % 50).to_string(), level, class.to_owned()].join(&separator.to_string()) + "\n"
    };
    let header = ["age", "level", "y"].join(&separator.to_string());
    format!("{header}\n{}", (0..60).map(row).collect::<String>())
}

/// The same answers, however the file is written; and the file of the fit says how later ones are.
#[test]
fn layouts_are_seen_said_and_kept() {
    let folder = Folder::new("layouts");
    folder.write("plain.csv", rows(',', '.', ""));
    said(
        &folder,
        &format!("fit classifier plain.csv --label y {QUICK} -o plain.npb"),
    );
    let expected = folder.npb("-q predict plain.npb plain.csv");
    for (name, separator, decimal, mark) in [
        ("semicolons.csv", ';', ',', "."),
        ("tabs.csv", '\t', '.', "None"),
        ("bars.csv", '|', ',', "n/a"),
        ("marks.csv", ',', '.', "-"),
    ] {
        folder.write(name, rows(separator, decimal, mark));
        let words = said(
            &folder,
            &format!("fit classifier {name} --label y {QUICK} -o m.npb"),
        );
        assert_eq!(
            words.contains("fields are separated by"),
            separator != ',',
            "{words}"
        );
        assert!(
            words.contains(&format!("but for {mark:?}, 6 cells: missing")),
            "{words}"
        );
        assert_eq!(
            folder.npb(&format!("-q predict m.npb {name}")),
            expected,
            "{name}"
        );
        // A later file is read as its own lines say.
        assert_eq!(folder.npb("-q predict m.npb plain.csv"), expected, "{name}");
    }
    // A short file shows nothing by itself.
    folder.write("one.csv", "age;level\n30;1,5\n");
    said(
        &folder,
        &format!("fit classifier semicolons.csv --label y {QUICK} -o m.npb"),
    );
    folder.write("two.csv", "age,level\n30,1.5\n");
    assert_eq!(
        folder.npb("-q predict m.npb one.csv"),
        folder.npb("-q predict plain.npb two.csv")
    );
    // Options are stronger.
    let error = folder.fails(
        &format!("fit classifier semicolons.csv --label y --separator , {QUICK} -o m.npb"),
        3,
    );
    assert!(error.contains("2 fields, expected 1"), "{error}");
}

#[test]
fn headers_that_are_not_as_said_are_said() {
    let folder = Folder::new("headers");
    folder.write("with.csv", rows(',', '.', ""));
    let error = folder.fails("fit mixture with.csv --no-header -o m.npb", 2);
    assert!(error.contains("leave out --no-header"), "{error}");
    let without: String = (0..20)
        .map(|i| format!("{}.5,{}\n", i % 7, i % 5))
        .collect();
    folder.write("without.csv", &without);
    let words = said(
        &folder,
        &format!("fit mixture without.csv {QUICK} -o m.npb"),
    );
    assert!(
        words.contains("where it is data, say --no-header"),
        "{words}"
    );
    folder.write("twice.csv", format!("a,b\ncm,kg\n{without}"));
    let words = said(&folder, &format!("fit mixture twice.csv {QUICK} -o m.npb"));
    assert!(words.contains("second line of names"), "{words}");
    folder.write(
        "quoted.csv",
        "'a','b'\n'x','1'\n'y','2'\n'x','3'\n'z','4'\n",
    );
    let schema = folder.npb("schema quoted.csv");
    assert!(
        schema.contains("name = \"a\"") && schema.contains("kind = \"count\""),
        "{schema}"
    );
}

/// A guess refuses nothing: what its kind cannot be is missing, with a count; a schema that was given does refuse.
#[test]
fn a_guess_refuses_nothing() {
    let folder = Folder::new("guesses");
    let skewed: String = (0..60)
        .map(|i| format!("{},{}\n", 1.5_f64.powi(i % 13), i % 4))
        .collect();
    folder.write("f.csv", format!("dose,n\n{skewed}"));
    folder.write("new.csv", "dose,n\n0,1\n2.5,1.5\nhigh,2\n");
    said(&folder, &format!("fit mixture f.csv {QUICK} -o m.npb"));
    let words = said(&folder, "score m.npb new.csv -o s.csv");
    assert!(words.contains("read as missing (2 such rows"), "{words}");
    assert_eq!(folder.read("s.csv").lines().count(), 4);
    folder.npb("schema f.csv -o f.toml");
    said(
        &folder,
        &format!("fit mixture f.csv --schema f.toml {QUICK} -o d.npb"),
    );
    let error = folder.fails("score d.npb new.csv -o s.csv", 3);
    assert!(error.contains("impossible-values"), "{error}");
    said(
        &folder,
        "score d.npb new.csv --impossible-values missing -o s.csv",
    );
}

#[test]
fn names_of_rows_are_no_measurement() {
    let folder = Folder::new("row-names");
    let numbered = |name: &str| {
        let lines: Vec<String> = rows(',', '.', "").lines().map(str::to_owned).collect();
        let number = |i: usize| (i * 37 % 61).to_string();
        let body: String = lines[1..]
            .iter()
            .enumerate()
            .map(|(i, line)| format!("{},{line}\n", number(i)))
            .collect();
        format!("{name},{}\n{body}", lines[0])
    };
    folder.write("plain.csv", rows(',', '.', ""));
    said(
        &folder,
        &format!("fit classifier plain.csv --label y {QUICK} -o plain.npb"),
    );
    let expected = folder.npb("-q predict plain.npb plain.csv");
    for name in ["", "Unnamed: 0", "X", "rownames", "__index_level_0__"] {
        folder.write("f.csv", numbered(name));
        let words = said(
            &folder,
            &format!("fit classifier f.csv --label y {QUICK} -o m.npb"),
        );
        assert!(
            words.contains("names or numbers of the rows"),
            "{name}: {words}"
        );
        assert_eq!(folder.npb("-q predict m.npb f.csv"), expected, "{name}");
    }
}

#[test]
fn joins_say_what_they_miss() {
    let folder = Folder::new("joins");
    let features: String = (1..=40)
        .map(|i| format!("{i},{}.5,{}\n", i % 7, i % 5))
        .collect();
    folder.write("f.csv", format!("doc,a,b\n{features}"));
    let labels = |name: &dyn Fn(usize) -> String| {
        let rows: String = (1..=40)
            .map(|i| format!("{},{}\n", name(i), i % 2))
            .collect();
        format!("doc,l\n{rows}")
    };
    folder.write("ok.csv", labels(&|i| i.to_string()));
    folder.write("twice.csv", labels(&|i| (1 + i % 20).to_string()));
    folder.write(
        "half.csv",
        labels(&|i| {
            if i % 2 == 0 {
                i.to_string()
            } else {
                format!("{i}.0")
            }
        }),
    );
    folder.write("other.csv", labels(&|i| format!("{i}.0")));
    let fit = |file: &str| {
        format!(
            "fit labels f.csv --labels {file}.csv --id doc --set latent.limits.max_iterations=3 -o m.npb"
        )
    };
    let words = said(&folder, &fit("ok"));
    assert!(!words.contains("names"), "{words}");
    let words = said(&folder, &fit("half"));
    assert!(
        words.contains(
            "nothing about 20 of 40 names, such as \"1\"; \"1\" and \"1.0\" may be the same"
        ),
        "{words}"
    );
    let error = folder.fails(&fit("twice"), 3);
    assert!(
        error.contains("the name \"2\" stands in row 1 and in row 21"),
        "{error}"
    );
    let error = folder.fails(&fit("other"), 3);
    assert!(
        error.contains("none of its names") && error.contains("may be the same"),
        "{error}"
    );
}

#[test]
fn labels_that_are_measurements_are_refused() {
    let folder = Folder::new("prices");
    let prices: String = (0..60)
        .map(|i| format!("{},{}.25\n", i % 7, i * 37 % 61))
        .collect();
    folder.write("f.csv", format!("a,price\n{prices}"));
    let error = folder.fails("fit classifier f.csv --label price -o m.npb", 3);
    assert!(
        error.contains("60 different numbers") && error.contains("npb fit table"),
        "{error}"
    );
}

/// Known cells come back as the file has them: digits, zeros, zones, fractions of seconds; in Parquet whole numbers of any size.
#[test]
fn known_cells_come_back_as_they_were() {
    let folder = Folder::new("known");
    let row = |i: usize| {
        let level = if i % 9 == 4 {
            String::new()
        } else {
            format!("{}.50", i % 7)
        };
        format!(
            "{:02},2024-03-{:02} 00:30:00.25-05:00,{level},{}\n",
            i % 5,
            1 + i % 28,
            9_007_199_254_740_993_u64 + i as u64
        )
    };
    let text = format!(
        "code,seen,level,big\n{}",
        (0..60).map(row).collect::<String>()
    );
    folder.write("f.csv", &text);
    let sweeps = "--set sweeps.burn_in=20 --set sweeps.keep=10 --set chains=1";
    for fit in [
        format!("fit table f.csv --ignore big {sweeps}"),
        format!("fit mixture f.csv --ignore big {QUICK}"),
    ] {
        said(&folder, &format!("{fit} -o m.npb"));
        let filled = folder.npb("-q impute m.npb f.csv");
        for (before, after) in text.lines().zip(filled.lines()).skip(1) {
            let (before, after): (Vec<&str>, Vec<&str>) =
                (before.split(',').collect(), after.split(',').collect());
            assert_eq!(before[..2], after[1..3]);
            assert!(
                before[2] == after[3] || (before[2].is_empty() && after[3].parse::<f64>().is_ok()),
                "{after:?}"
            );
        }
    }
    // Decimal commas become points.
    folder.write("c.csv", rows(';', ',', ""));
    said(
        &folder,
        &format!("fit mixture c.csv --ignore y {QUICK} -o m.npb"),
    );
    let filled = folder.npb("-q impute m.npb c.csv");
    assert!(
        filled.lines().nth(1).is_some_and(|line| line == "1,20,0.1"),
        "{filled}"
    );
}
