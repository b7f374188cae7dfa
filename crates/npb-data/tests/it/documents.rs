//! Bags of words, tokens, vocabularies.

use npb_data::read::{Encoding, ReadProblem, bags_of_known_words, bags_of_words, tokens};
use npb_data::{DataError, Vocabulary};

#[test]
fn bags_keep_keys_and_counts() {
    let file = "3 101 7:1 2:4\r\n0 55\r\n1 56 0:2\r\n";
    let bags = bags_of_words("f", file.as_bytes(), Some(8)).unwrap();
    assert_eq!(bags.keys, [["3", "101"], ["0", "55"], ["1", "56"]]);
    assert_eq!((bags.counts.n_rows(), bags.counts.n_cols()), (3, 8));
    assert_eq!(bags.counts.row(0), (&[2, 7][..], &[4.0, 1.0][..]));
    assert!(bags.counts.row(1).0.is_empty());
    let open = bags_of_words("f", "0:1 4:2\n".as_bytes(), None).unwrap();
    assert_eq!((open.counts.n_cols(), open.keys[0].len()), (5, 0));
    let nothing = bags_of_words("f", "".as_bytes(), None).unwrap();
    assert_eq!((nothing.counts.n_rows(), nothing.counts.n_cols()), (0, 0));
}

#[test]
fn lengths_blank_lines_comments_and_unknown_words() {
    // The same three documents as LDA-C, with a class before or after the length, and as svmlight.
    let plain = bags_of_words("f", "0:2 3:1\n\n1:1\n".as_bytes(), Some(4)).unwrap();
    assert_eq!((plain.counts.n_rows(), plain.lengths), (3, false));
    assert!(plain.counts.row(1).0.is_empty());
    for (file, lengths, keys) in [
        ("2 0:2 3:1\n0\n1 1:1\n", true, [&[][..], &[], &[]]),
        ("a 2 0:2 3:1\n\nb 1 1:1\n", true, [&["a"][..], &[], &["b"]]),
        (
            "2 a 0:2 3:1\n0 c\n1 b 1:1\n",
            true,
            [&["a"][..], &["c"], &["b"]],
        ),
        (
            "1 0:2 3:1 # one\n2\n2 1:1 # two\n",
            false,
            [&["1"][..], &["2"], &["2"]],
        ),
    ] {
        let bags = bags_of_words("f", file.as_bytes(), Some(4)).unwrap();
        assert_eq!(bags.counts, plain.counts, "{file:?}");
        assert_eq!(bags.lengths, lengths, "{file:?}");
        assert!(
            bags.keys.iter().zip(keys).all(|(a, b)| a == b),
            "{file:?}: {:?}",
            bags.keys
        );
    }
    // What the vocabulary does not have is left out and counted; the length is that of the line.
    let few = bags_of_known_words("f", "2 0:2 3:1\n0\n1 1:1\n".as_bytes(), 3).unwrap();
    assert_eq!(
        (few.n_unknown, few.lengths, few.counts.n_cols()),
        (1, true, 3)
    );
    assert_eq!(few.counts.row(0), (&[0][..], &[2.0][..]));
}

#[test]
fn bad_bags_are_named_by_line_and_column() {
    // File, line, column, part of the message.
    let cases = [
        ("a 0:1\na 1:-2\n", Some(2), Some(2), "\"1:-2\""),
        ("a 0:0\n", Some(1), Some(2), "whole number"),
        ("a 0:1.5\n", Some(1), Some(2), "whole number"),
        ("a 0:nan\n", Some(1), Some(2), "whole number"),
        ("a 0:inf\n", Some(1), Some(2), "whole number"),
        ("a 0:1e300\n", Some(1), Some(2), "whole number"),
        ("a 9:1\n", Some(1), Some(2), "vocabulary"),
        ("a x:1\n", Some(1), Some(2), "number of a word"),
        ("a -1:1\n", Some(1), Some(2), "number of a word"),
        ("a 0:1 b\n", Some(1), Some(3), "word:count"),
        ("a 0:1\na b 0:1\n", Some(2), None, "2 fields, expected 1"),
        ("a 3:1 3:2\n", Some(1), None, "given before"),
    ];
    for (file, line, column, part) in cases {
        let error = bags_of_words("f", file.as_bytes(), Some(9)).unwrap_err();
        assert_eq!(
            (error.line, error.column),
            (line, column),
            "{file:?}: {error}"
        );
        assert!(error.to_string().contains(part), "{file:?}: {error}");
    }
    // Memory stays in proportion to the file.
    let error = bags_of_words("f", "4000000000:1\n".as_bytes(), None).unwrap_err();
    assert!(
        matches!(*error.problem, ReadProblem::Header { .. }),
        "{error}"
    );
}

#[test]
fn tokens_keep_empty_documents() {
    let documents = tokens("f", "good  film .\n\nbad\n".as_bytes(), Encoding::Utf8).unwrap();
    assert_eq!(documents, [vec!["good", "film", "."], vec![], vec!["bad"]]);
    let latin = tokens("f", &b"caf\xe9\n"[..], Encoding::Latin1).unwrap();
    assert_eq!(latin[0], ["caf\u{e9}"]);
    assert!(tokens("f", &b"caf\xe9\n"[..], Encoding::Utf8).is_err());
}

#[test]
fn a_vocabulary_is_cut_at_both_ends() {
    let documents = [
        vec!["a", "a", "b"],
        vec!["a", "c"],
        vec!["a", "c"],
        vec!["a"],
    ];
    let words = |min, share| {
        Vocabulary::of_documents(&documents, min, share)
            .words()
            .to_vec()
    };
    assert_eq!(words(1, 1.0), ["a", "b", "c"]);
    // Twice in one document is one document.
    assert_eq!(words(2, 1.0), ["a", "c"]);
    assert_eq!(words(1, 0.5), ["b", "c"]);
    let given = Vocabulary::new(vec!["c".into(), "b".into()]).unwrap();
    let counts = given.count(&documents).unwrap();
    assert_eq!(
        (counts.get(0, 1), counts.get(1, 0), counts.n_observed()),
        (Some(1.0), Some(1.0), 3)
    );
    assert!(counts.row(3).0.is_empty());
    let twice = Vocabulary::new(vec!["c".into(), "c".into()]);
    assert!(matches!(twice, Err(DataError::DuplicateClass { .. })));
}
