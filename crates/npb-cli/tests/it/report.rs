//! `npb report`.

use std::fs;
use std::path::Path;

use crate::{Folder, said};

/// A folder with the models that an earlier version has saved, and their files.
pub(crate) fn models(name: &str) -> Folder {
    let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    let folder = Folder::new(name);
    for entry in fs::read_dir(there).expect("a folder") {
        let path = entry.expect("a file").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        folder.write(&name, fs::read(&path).expect("a file"));
    }
    folder
}

/// A page that loads nothing, with these words.
pub(crate) fn assert_page(page: &str, words: &[&str]) {
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.len() < 2_000_000 && !page.contains("<script"));
    for word in words {
        assert!(page.contains(word), "{word} is not in the page");
    }
}

#[test]
fn models_of_each_kind_have_a_page_with_and_without_rows() {
    let folder = models("report");
    for (kind, file, of_rows) in [
        ("classifier", "p.csv", "Do the probabilities hold?"),
        ("mixture", "p.csv", "Hidden numbers"),
        ("table", "p.csv", "Mutual information"),
        ("tasks", "t.csv", "Task by task"),
    ] {
        folder.npb(&format!("-q report {kind}.npb -o alone.html"));
        let alone = folder.read("alone.html");
        assert_page(&alone, &["What went in", "All settings", "Does it hold?"]);
        folder.npb(&format!("-q report {kind}.npb {file} -o page.html"));
        let page = folder.read("page.html");
        assert_page(&page, &["What went in", "All settings", of_rows, file]);
        // Neither threads nor the clock say what is drawn.
        folder.npb(&format!(
            "-q --threads 3 report {kind}.npb {file} --seed 0 -o again.html"
        ));
        assert_eq!(folder.read("again.html"), page, "{kind}");
    }
}

#[test]
fn rows_of_the_fit_are_said_and_left_out_columns_have_their_reason() {
    let folder = Folder::new("report-reasons");
    let row = |i: usize| format!("p{i},{},{},always\n", i % 7, (i * 5) % 11);
    let lines: String = (0..60).map(row).collect();
    folder.write("f.csv", format!("name,x,y,constant\n{lines}"));
    said(&folder, "fit mixture f.csv -o m.npb");
    folder.npb("-q report m.npb f.csv -o m.html");
    let page = folder.read("m.html");
    assert_page(
        &page,
        &["may be what the model was fitted to", "<th>why</th>"],
    );
    assert!(page.contains("not used: constant") || page.contains("not in the model: constant"));
}

#[test]
fn what_has_no_page_is_named() {
    let folder = models("report-errors");
    let error = folder.fails("report classifier.npb -o no/such/page.html", 2);
    assert!(error.contains("there is no folder no/such"), "{error}");
    let error = folder.fails("report classifier.npb nothing.csv -o page.html", 3);
    assert!(error.contains("nothing.csv: cannot read"), "{error}");
    folder.write("other.csv", "length\n1\n");
    let error = folder.fails("report classifier.npb other.csv -o page.html", 3);
    assert!(
        error.contains("other.csv") && error.contains("age"),
        "{error}"
    );
    folder.write("empty.csv", "id,age,smokes,dose,ill\n");
    let error = folder.fails("report classifier.npb empty.csv -o page.html", 3);
    assert!(error.contains("there is no row of data"), "{error}");
    assert!(!folder.exists("page.html"));
}
