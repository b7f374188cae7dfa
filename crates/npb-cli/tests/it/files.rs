//! Command line, files and exit codes.

use std::io::Read;
use std::process::Stdio;

use crate::{Folder, errors};

const VERBS: [&str; 32] = [
    "schema",
    "config",
    "fit",
    "fit auto",
    "fit classifier",
    "fit mixture",
    "fit ratings",
    "fit table",
    "fit labels",
    "fit groups",
    "fit grouped",
    "fit tasks",
    "fit topics",
    "predict",
    "impute",
    "score",
    "simulate",
    "similar",
    "clusters",
    "recommend",
    "next",
    "dependence",
    "denoise",
    "inpaint",
    "summary",
    "diagnose",
    "report",
    "merge",
    "export",
    "import",
    "man",
    "completions",
];

#[test]
fn help_fits_on_a_screen() {
    let folder = Folder::new("help");
    let help = folder.npb("-h");
    assert!(help.lines().count() <= 40, "{}", help.lines().count());
    for code in [
        "0 done",
        "1 failed",
        "2 usage",
        "3 bad data",
        "4 not converged",
        "130 interrupted",
    ] {
        assert!(
            folder.npb("--help").contains(code) && help.contains(code),
            "{code}"
        );
    }
    for verb in VERBS {
        let help = folder.npb(&format!("{verb} -h"));
        assert!(
            help.lines().count() <= 50,
            "{verb}: {} lines",
            help.lines().count()
        );
        let widest = help
            .lines()
            .map(|line| line.chars().count())
            .max()
            .unwrap_or(0);
        assert!(widest <= 140, "{verb}: {widest} wide");
    }
    assert_eq!(
        folder.npb("--version").trim(),
        concat!("npb ", env!("CARGO_PKG_VERSION"))
    );
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            folder
                .npb(&format!("completions {shell}"))
                .contains("dependence")
        );
    }
}

#[test]
fn wrong_options_are_usage() {
    let folder = Folder::new("usage");
    folder.write("a.csv", "x,y\n1,2\n2,3\n");
    let cases = [
        ("", "Usage"),
        ("fly", "fly"),
        ("fit classifier a.csv -o m.npb", "--label"),
        ("fit classifier a.csv --label z -o m.npb", "no column \"z\""),
        ("fit mixture a.csv -o none/m.npb", "there is no folder none"),
        ("fit mixture a.csv -o .", "no ordinary file"),
        ("fit mixture a.csv --set restart=1 -o m.npb", "restart"),
        ("fit mixture a.csv --set restarts -o m.npb", "key=value"),
        (
            "fit mixture a.csv --set truncation=0 -o m.npb",
            "truncation",
        ),
        (
            "fit mixture a.csv --checkpoint c --every soon -o m.npb",
            "--every soon",
        ),
        ("fit table a.csv --set chains=0 -o m.npb", "chains"),
        (
            "fit ratings a.csv --row x --column y --value y --chains 0 -o m.npb",
            "chains",
        ),
        ("schema a.csv --separator :: --decimal ;", "decimal"),
    ];
    for (arguments, message) in cases {
        let output = folder.run(arguments);
        let code = output.status.code();
        assert!(
            code == Some(2) || (code == Some(3) && arguments.contains("decimal")),
            "{arguments}: {code:?}"
        );
        assert!(
            errors(&output).contains(message),
            "{arguments}: {}",
            errors(&output)
        );
    }
    assert_eq!(folder.files(), ["a.csv"], "nothing is written");
}

#[test]
fn bad_files_are_named_and_leave_nothing_behind() {
    let folder = Folder::new("bad-files");
    folder.write("empty.csv", "");
    folder.write("header.csv", "x,y,label\n");
    folder.write("bytes.csv", b"x,y,label\n1,\xff\xfe,a\n");
    folder.write("uneven.csv", "x,y,label\n1,2,a\n1,2\n");
    folder.write(
        "infinite.csv",
        "x,y,label\n1,2,a\n3,1e999,b\n4,5,a\n6,7,b\n",
    );
    folder.write("quote.csv", "x,y,label\n1,2,\"a\n3,4,b\n");
    folder.write("not-a-model.npb", "hello");
    let cases = [
        ("fit classifier empty.csv --label label -o m.npb", "label"),
        (
            "fit classifier header.csv --label label -o m.npb",
            "header.csv",
        ),
        (
            "fit classifier bytes.csv --label label -o m.npb",
            "bytes.csv:2: byte 3: the bytes here are not UTF-8",
        ),
        (
            "fit classifier uneven.csv --label label -o m.npb",
            "uneven.csv:3: column 3: 2 fields, expected 3",
        ),
        (
            "fit classifier quote.csv --label label -o m.npb",
            "quote.csv:2",
        ),
        (
            "fit classifier absent.csv --label label -o m.npb",
            "absent.csv: cannot read",
        ),
        ("predict not-a-model.npb header.csv", "not-a-model.npb"),
        ("predict absent.npb header.csv", "absent.npb"),
        ("schema absent.csv", "absent.csv: cannot read"),
    ];
    let before = folder.files();
    for (arguments, message) in cases {
        let output = folder.run(arguments);
        assert!(
            matches!(output.status.code(), Some(2 | 3)),
            "{arguments}: {:?}",
            output.status.code()
        );
        assert!(
            output.stdout.is_empty() && errors(&output).contains(message),
            "{arguments}: {}",
            errors(&output)
        );
    }
    assert_eq!(folder.files(), before);
}

#[test]
fn the_disk_may_be_full() {
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let folder = Folder::new("full");
    folder.write("a.csv", "x,y\n1,2\n2,3\n");
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a device");
    let output = folder
        .command("schema a.csv")
        .stdout(full)
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(
        errors(&output).contains("standard output: cannot write"),
        "{}",
        errors(&output)
    );
}

#[test]
fn what_cannot_be_written_or_read_leaves_nothing_behind() {
    let folder = Folder::new("limits");
    folder.write("a.csv", "x,y\n1,2\n2,3\n3,5\n");
    folder.write("header.csv", "x,y\n");
    let huge = std::fs::File::create(folder.path("huge.csv")).expect("a file");
    huge.set_len(1 << 42).expect("a sparse file");
    let mut cases = vec![
        ("schema a.csv -o none/s.toml", 2, "there is no folder none"),
        (
            "fit mixture a.csv --record none/r.json -o m.npb",
            2,
            "there is no folder none",
        ),
        (
            "fit mixture header.csv -o m.npb",
            3,
            "header.csv: there is no row of data",
        ),
        (
            "fit table header.csv -o m.npb",
            3,
            "header.csv: there is no row of data",
        ),
    ];
    if std::path::Path::new("/dev/full").exists() {
        cases.push(("schema a.csv -o /dev/full", 1, "/dev/full: cannot write"));
    }
    if std::path::Path::new("/proc/meminfo").exists() {
        cases.push((
            "schema huge.csv",
            3,
            "huge.csv: has 4398.0 GB, more than half",
        ));
    }
    let before = folder.files();
    for (arguments, code, message) in cases {
        let error = folder.fails(arguments, code);
        assert!(error.contains(message), "{arguments}: {error}");
    }
    assert_eq!(folder.files(), before);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = Folder::new("pipe");
    let header: Vec<String> = (0..20_000).map(|j| format!("column{j}")).collect();
    let row = vec!["1.5"; header.len()].join(",");
    folder.write("wide.csv", format!("{}\n{row}\n{row}\n", header.join(",")));
    let mut child = folder
        .command("schema wide.csv")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut first = [0; 10];
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_exact(&mut first).expect("some output");
    drop(stdout);
    let output = child.wait_with_output().expect("a child");
    assert_eq!(
        (output.status.code(), errors(&output).as_str()),
        (Some(0), "")
    );
}

#[test]
fn standard_input_and_output() {
    let folder = Folder::new("stdio");
    folder.write("a.tsv", "x\ty\n1,5\t2\n2,5\t3\n");
    let file = std::fs::File::open(folder.path("a.tsv")).expect("a file");
    let output = folder
        .command("schema - --separator tab --decimal ,")
        .stdin(file)
        .output()
        .expect("the program runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("name = \"x\", kind = \"real\""), "{text}");
    folder.npb("schema a.tsv --decimal , -o s.toml");
    assert_eq!(
        folder.read("s.toml").lines().skip(1).collect::<Vec<_>>(),
        text.lines().skip(1).collect::<Vec<_>>()
    );
    for kind in [
        "classifier",
        "mixture",
        "ratings",
        "table",
        "labels",
        "groups",
        "topics",
        "image",
    ] {
        folder.npb(&format!("config {kind} -o {kind}.toml"));
        let again = folder.npb(&format!("config {kind} --config {kind}.toml"));
        assert_eq!(
            again,
            folder.read(&format!("{kind}.toml")),
            "settings read as they were written"
        );
    }
}
