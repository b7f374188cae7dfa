//! The commands of the guide, run as they stand there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Folder, errors};

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide")
}

/// Words of a command; what stands between single quotes is one.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(k, part)| match k % 2 {
        1 => vec![part.to_owned()],
        _ => part.split_whitespace().map(str::to_owned).collect(),
    });
    words.collect()
}

/// Runs the commands of a page in a folder with the data of the guide.
fn run(page: &str) -> Folder {
    let folder = Folder::new(&format!("guide-{page}"));
    for entry in fs::read_dir(guide().join("data")).expect("the data of the guide") {
        let entry = entry.expect("a file");
        let name = entry.file_name();
        fs::copy(entry.path(), folder.path(&name.to_string_lossy())).expect("copied");
    }
    let text = fs::read_to_string(guide().join(format!("{page}.md"))).expect("a page");
    let blocks = text.split("```console\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap_or_default().lines());
    let mut n_commands = 0;
    for line in lines {
        let line = line.strip_prefix("$ npb ").expect("a command");
        let (command, file) = match line.split_once(" > ") {
            Some((command, file)) => (command, Some(file.trim())),
            None => (line, None),
        };
        let output = folder.command("").args(words(command)).output();
        let output = output.expect("the program runs");
        assert!(output.status.success(), "{line}: {}", errors(&output));
        if let Some(file) = file {
            folder.write(file, &output.stdout);
        }
        n_commands += 1;
    }
    assert!(n_commands >= 2, "{page}");
    folder
}

#[test]
fn classify() {
    let folder = run("classify");
    let lines = folder.read("probabilities.csv");
    assert!(
        lines.starts_with("patient,class,P(no),lower(no),upper(no),P(yes)"),
        "{lines}"
    );
    assert_eq!(lines.lines().count(), 11);
}

#[test]
fn fill() {
    let folder = run("fill");
    let filled = folder.read("filled.csv");
    assert!(
        filled
            .lines()
            .skip(1)
            .all(|line| line.split(',').all(|cell| !cell.is_empty()))
    );
}

#[test]
fn ask() {
    let folder = run("ask");
    let predicted = folder.read("predicted.csv");
    assert!(predicted.contains("epistemic(income)"), "{predicted}");
    let rows = folder.read("survey.csv").lines().count();
    for (file, lines) in [
        ("predicted.csv", rows),
        ("clusters.csv", rows),
        ("bergen.csv", 1001),
    ] {
        assert_eq!(folder.read(file).lines().count(), lines, "{file}");
    }
}

#[test]
fn dependence() {
    let folder = run("dependence");
    let pairs = folder.read("dependence.csv");
    assert!(pairs.lines().count() == 1 + 6 * 5 / 2, "{pairs}");
    assert!(folder.read("dependence.svg").contains("</svg>"));
}

#[test]
fn recommend() {
    let folder = run("recommend");
    assert_eq!(folder.read("predicted.csv").lines().count(), 441);
}

#[test]
fn labels() {
    let folder = run("labels");
    assert!(
        folder
            .read("predicted.csv")
            .starts_with("doc,sport,P(sport),politics")
    );
}

#[test]
fn few_ratings() {
    run("few-ratings");
}

#[test]
fn images() {
    let folder = run("images");
    let pixels = |path: PathBuf| image::open(path).expect("an image").to_luma8();
    let (whole, truth) = (
        pixels(folder.path("whole.png")),
        pixels(folder.path("picture.png")),
    );
    let error = |(a, b): (&image::Luma<u8>, &image::Luma<u8>)| f64::from(a.0[0].abs_diff(b.0[0]));
    let mean = whole.pixels().zip(truth.pixels()).map(error).sum::<f64>() / f64::from(64 * 56);
    assert!(mean < 10.0, "{mean}");
}
