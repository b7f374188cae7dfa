//! Rows of the fit, known again, and fits that go on with more rows.

use std::path::Path;

use crate::fits::{RATINGS, TABLE, patients, stars};
use crate::{Folder, cells, errors};

/// Lines of a file after its first one, changed.
fn lines(text: &str, change: impl FnOnce(&mut Vec<String>)) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let head = lines.remove(0);
    change(&mut lines);
    lines.insert(0, head);
    lines.join("\n") + "\n"
}

const BY_ROW: [&str; 5] = [
    "similar m.npb FILE --row p3",
    "clusters m.npb FILE --rows",
    "impute m.npb FILE --training",
    "impute m.npb FILE --training --draws 2",
    "score m.npb FILE --cells --training",
];

#[test]
fn questions_about_the_rows_of_the_fit_know_them() {
    let folder = Folder::new("known-rows");
    folder.write("holes.csv", patients(0..40));
    folder.npb(&format!(
        "-q fit table holes.csv --id id {TABLE} -o holes.npb"
    ));
    folder.npb("-q impute holes.npb holes.csv -o p.csv");
    folder.npb(&format!("-q fit table p.csv --id id {TABLE} -o m.npb"));
    let text = folder.read("p.csv");
    folder.npb("-q impute m.npb p.csv -o p.parquet");
    folder.write("semicolons.csv", text.replace(',', ";"));
    folder.write("swapped.csv", lines(&text, |rows| rows.swap(4, 9)));
    let other_cell = |rows: &mut Vec<String>| {
        let mut cells: Vec<String> = rows[7].split(',').map(str::to_owned).collect();
        cells[2] = "1.2345".to_owned();
        rows[7] = cells.join(",");
    };
    folder.write("changed.csv", lines(&text, other_cell));
    let other_names = |rows: &mut Vec<String>| {
        let [first, second] = [rows[4].clone(), rows[9].clone()];
        let named =
            |name: &str, of: &str| format!("{}{}", name, &of[of.find(',').expect("cells")..]);
        rows[4] = named("p9", &first);
        rows[9] = named("p4", &second);
    };
    folder.write("names.csv", lines(&text, other_names));
    for question in BY_ROW {
        let ask = |file: &str| question.replace("FILE", file);
        let answer = folder.npb(&format!("-q {}", ask("p.csv")));
        for file in ["p.parquet", "semicolons.csv"] {
            let same = folder.npb(&format!("-q {}", ask(file)));
            assert_eq!(
                cells(&same).len(),
                cells(&answer).len(),
                "{question} {file}"
            );
        }
        for (file, row) in [("swapped.csv", 5), ("changed.csv", 8)] {
            let said = folder.fails(&ask(file), 3);
            let words = format!("{file}: row {row} is not that of the fit");
            assert!(said.contains(&words), "{question}: {said}");
        }
        if question.starts_with("similar") || question.starts_with("clusters") {
            let said = folder.fails(&ask("names.csv"), 3);
            assert!(
                said.contains("names.csv: row 5 is named \"p9\""),
                "{question}: {said}"
            );
        }
    }
    // Where rows may be new ones, others are taken for those.
    folder.npb("-q dependence m.npb swapped.csv --level 0.2 --permutations 19");
}

/// A model of before rows were known again answers about any file with as many rows.
#[test]
fn old_models_of_tables_answer_without_knowing_rows() {
    let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    let folder = Folder::new("old-rows");
    for name in ["table.npb", "p.csv"] {
        folder.write(name, std::fs::read(there.join(name)).expect("a file"));
    }
    let rows = folder.read("p.csv");
    folder.write("swapped.csv", lines(&rows, |rows| rows.swap(0, 3)));
    folder.write("fewer.csv", lines(&rows, |rows| rows.truncate(5)));
    let all = folder.npb("-q clusters table.npb p.csv --rows");
    assert_eq!(
        cells(&folder.npb("-q clusters table.npb swapped.csv --rows")).len(),
        cells(&all).len()
    );
    let said = folder.fails("clusters table.npb fewer.csv", 3);
    assert!(
        said.contains("has 5 rows, the table of the fit had"),
        "{said}"
    );
    // It goes on, and knows its rows from then on.
    folder.npb("-q fit table p.csv --continue table.npb --set sweeps.burn_in=2 --set sweeps.keep=2 -o on.npb");
    folder.npb("-q clusters on.npb p.csv");
    folder.fails("clusters on.npb swapped.csv", 3);
}

#[test]
fn tables_go_on_with_more_rows() {
    let folder = Folder::new("table-goes-on");
    folder.write("few.csv", patients(0..40));
    folder.write("all.csv", patients(0..60));
    folder.npb(&format!("-q fit table few.csv --id id {TABLE} -o few.npb"));
    let on = "fit table all.csv --continue few.npb --set sweeps.burn_in=30";
    let said = crate::said(&folder, &format!("{on} -o m.npb"));
    assert!(said.contains("60 rows, 4 columns, 20 draws"), "{said}");
    assert_eq!(
        cells(&folder.npb("-q clusters m.npb all.csv --rows")).len(),
        61
    );
    folder.npb("-q similar m.npb all.csv --row p59");
    folder.npb(&format!("-q {on} --threads 1 -o again.npb"));
    let bytes = |name: &str| std::fs::read(folder.path(name)).expect("a file");
    assert_eq!(bytes("m.npb"), bytes("again.npb"));
    // In place, and once more.
    folder.npb("-q fit table all.csv --continue m.npb -o m.npb");
    assert_ne!(bytes("m.npb"), bytes("again.npb"));
    let all = patients(0..60);
    let bad = |name: &str, change: &dyn Fn(&mut Vec<String>)| {
        folder.write(name, lines(&all, |rows| change(rows)));
        let on = on.replace("all.csv", name);
        folder.fails(&format!("{on} -o bad.npb"), 3)
    };
    let level = bad("level.csv", &|rows| {
        rows[50] = rows[50]
            .replace("Hamar", "Bodo")
            .replace("Oslo", "Bodo")
            .replace("Bergen", "Bodo")
    });
    assert!(
        level.contains("level.csv:52") && level.contains("\"town\"") && level.contains("\"Bodo\""),
        "{level}"
    );
    assert!(!level.contains("--unseen-levels"), "{level}");
    let swapped = bad("swapped.csv", &|rows| rows.swap(2, 45));
    assert!(swapped.contains("row 3 is"), "{swapped}");
    let fewer = bad("fewer.csv", &|rows| rows.truncate(39));
    assert!(
        fewer.contains("has 39 rows, the table of the fit had 40"),
        "{fewer}"
    );
    folder.write("columns.csv", all.replacen("marker", "mark", 1));
    let columns = folder.fails(
        &format!("{} -o bad.npb", on.replace("all.csv", "columns.csv")),
        3,
    );
    assert!(columns.contains("marker"), "{columns}");
    for (options, words) in [
        ("--set chains=2", "chains"),
        ("--set structure=joint", "structure"),
    ] {
        let said = folder.fails(&format!("{on} {options} -o bad.npb"), 3);
        assert!(
            said.contains(words) && said.contains("that of the fit"),
            "{said}"
        );
    }
    for (fit, words) in [
        ("table all.csv --id id", "leave these options out"),
        ("classifier all.csv --label ill", "does not go on"),
        ("mixture all.csv", "is a model of kind table"),
        ("labels all.csv --labels all.csv", "does not go on"),
        (
            "ratings all.csv --row id --column town --value age",
            "is a model of kind table",
        ),
    ] {
        let said = folder.fails(&format!("fit {fit} --continue few.npb -o bad.npb"), 2);
        assert!(said.contains(words), "{fit}: {said}");
    }
    assert!(!folder.exists("bad.npb"));
}

#[test]
fn ratings_go_on_with_more_ratings() {
    let folder = Folder::new("ratings-go-on");
    folder.write("r.csv", stars());
    folder.npb(&format!(
        "-q {RATINGS} --likelihood ordinal --chains 2 -o r.npb"
    ));
    // One more of somebody known, somebody new, and a new film, in front of the others.
    let more = lines(&stars(), |rows| {
        for line in ["new,f1,5", "new,film,1", "u1,film,2"] {
            rows.insert(0, line.to_owned());
        }
    });
    folder.write("more.csv", &more);
    let on = RATINGS
        .replace("r.csv", "more.csv")
        .replace(" --set candidates=5", "")
        + " --continue r.npb";
    folder.npb(&format!("-q {on} -o on.npb"));
    folder.write("ask.csv", "user,film\nnew,film\nnew,f2\nu1,film\nu0,f0\n");
    let asked = cells(&folder.npb("-q predict on.npb ask.csv"));
    assert!(
        asked[1..].iter().all(|line| !line[2].is_empty()),
        "{asked:?}"
    );
    folder.npb(&format!("-q {on} --threads 1 -o again.npb"));
    let bytes = |name: &str| std::fs::read(folder.path(name)).expect("a file");
    assert_eq!(bytes("on.npb"), bytes("again.npb"));
    folder.npb(&format!(
        "-q {} -o again.npb",
        on.replace("r.npb", "on.npb")
    ));
    let fails = |name: &str, rows: &str, code: i32, options: &str| {
        folder.write(name, rows);
        folder.fails(
            &format!("{} {options} -o bad.npb", on.replace("more.csv", name)),
            code,
        )
    };
    let fewer = fails("fewer.csv", &lines(&more, |rows| drop(rows.pop())), 3, "");
    assert!(fewer.contains("where the fit had one"), "{fewer}");
    let level = fails(
        "six.csv",
        &lines(&more, |rows| rows[0] = rows[0].replace(",2", ",6")),
        3,
        "",
    );
    assert!(level.contains("is no level that the fit knows"), "{level}");
    assert!(fails("more2.csv", &more, 2, "--likelihood binary").contains("--likelihood"));
    assert!(fails("more3.csv", &more, 3, "--set rank_a=3").contains("that of the fit"));
    assert!(
        errors(&folder.run(&format!(
            "{} -o bad.npb",
            on.replace("--row user --column film", "--row film --column user")
        )))
        .contains("must name the columns")
    );
}

#[test]
fn mixtures_go_on_with_more_rows() {
    let folder = Folder::new("mixture-goes-on");
    folder.write("few.csv", patients(0..40));
    folder.write("all.csv", patients(0..60));
    folder.npb("-q fit mixture few.csv --id id --ignore ill --seed 2 -o few.npb");
    let on = "fit mixture all.csv --continue few.npb";
    let said = crate::said(&folder, &format!("{on} -o m.npb"));
    assert!(said.contains("60 rows"), "{said}");
    folder.npb("-q impute m.npb all.csv --training");
    assert_eq!(cells(&folder.npb("-q score m.npb all.csv")).len(), 61);
    let swapped = lines(&patients(0..60), |rows| rows.swap(2, 45));
    folder.write("swapped.csv", swapped);
    let said = folder.fails("fit mixture swapped.csv --continue few.npb -o bad.npb", 3);
    assert!(
        said.contains("swapped.csv: rows = others among the first 40"),
        "{said}"
    );
    let said = folder.fails(&format!("{on} --set truncation=3 -o bad.npb"), 3);
    assert!(said.contains("only limits may change"), "{said}");
}
