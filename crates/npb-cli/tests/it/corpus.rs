//! The files of `fuzz/corpus`: what a fuzzer begins with, and what it has found.

use std::fs;
use std::path::Path;

#[allow(unreachable_pub, reason = "the library of the package for fuzzing")]
#[path = "../../../../fuzz/bodies.rs"]
mod bodies;

/// Every reader takes each of its files, or refuses it by an error.
#[test]
fn files_of_the_corpus_are_read_or_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, body) in bodies::TARGETS {
        let files = fs::read_dir(corpus.join(name)).expect("a folder");
        let mut n = 0;
        for file in files {
            body(&fs::read(file.expect("a file").path()).expect("bytes"));
            n += 1;
        }
        assert!(n > 1, "{name}");
    }
}
