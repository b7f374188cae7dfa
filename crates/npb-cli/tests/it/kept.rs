//! Models that earlier versions have saved.

use std::path::Path;

use crate::Folder;

/// The lines of two files: texts are the same, numbers within what another order of sums may change.
fn assert_alike(found: &str, expected: &str, kind: &str) {
    let (found, expected): (Vec<&str>, Vec<&str>) =
        (found.lines().collect(), expected.lines().collect());
    assert_eq!(found.len(), expected.len(), "{kind}");
    for (a, b) in found.iter().zip(&expected) {
        let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
        let (a, b) = (cells(a), cells(b));
        assert_eq!(a.len(), b.len(), "{kind}");
        for (a, b) in a.iter().zip(&b) {
            match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(x), Ok(y)) => {
                    assert!((x - y).abs() <= 1e-9 * y.abs().max(1.0), "{kind}: {x} {y}")
                }
                _ => assert_eq!(a, b, "{kind}"),
            }
        }
    }
}

/// Each loads and answers as it did when it was saved, or is refused by what is wrong with it.
#[test]
fn models_of_earlier_versions_answer_as_they_did() {
    let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    let folder = Folder::new("kept");
    for entry in std::fs::read_dir(&there).expect("a folder") {
        let path = entry.expect("a file").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        folder.write(&name, std::fs::read(&path).expect("a file"));
    }
    let asked = [
        ("classifier", "predict classifier.npb p.csv"),
        ("mixture", "score mixture.npb p.csv"),
        ("table", "impute table.npb p.csv"),
        ("tasks", "predict tasks.npb t.csv"),
    ];
    for (kind, question) in asked {
        let found = folder.npb(&format!("-q {question}"));
        assert_alike(&found, &folder.read(&format!("{kind}.csv")), kind);
        assert!(folder.npb(&format!("summary {kind}.npb")).lines().count() > 1);
    }
    // The library now saves others of these.
    for question in [
        "predict labels.npb p.csv",
        "predict topics.npb d.txt",
        "predict ratings.npb r.csv",
        "recommend groups.npb --row u1 --exclude r.csv --top 3",
    ] {
        let error = folder.fails(question, 3);
        assert!(
            error.contains(".npb: ") && error.contains("fit again"),
            "{error}"
        );
    }
}
