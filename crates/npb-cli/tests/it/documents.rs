//! Documents as people have them: LDA-C, svmlight, vocabularies, empty documents, missing classes, plain words.

use crate::{Folder, cells, said};

const TOPICS: &str = "--set topics=2";

/// 40 documents of 16 words: even ones of words 0 to 7, odd ones of 8 to 15.
fn counts() -> Vec<Vec<(usize, usize)>> {
    let document = |i: usize| {
        let first = if i.is_multiple_of(2) { 0 } else { 8 };
        (0..8)
            .map(|w| (first + w, (i * 7 + w * w * 5 + 3) % 4))
            .filter(|(_, n)| *n > 0)
            .collect()
    };
    (0..40).map(document).collect()
}

fn lines(before: impl Fn(usize, usize) -> String) -> String {
    let line = |(i, words): (usize, &Vec<(usize, usize)>)| {
        let pairs: Vec<String> = words.iter().map(|(w, n)| format!("{w}:{n}")).collect();
        format!("{} {}\n", before(i, words.len()), pairs.join(" "))
    };
    counts().iter().enumerate().map(line).collect()
}

fn class(i: usize) -> &'static str {
    ["even", "odd"][i % 2]
}

/// One corpus in three layouts: the same answers. Without the classes' file the lengths of LDA-C are no classes.
#[test]
fn layouts_of_bags_are_told_apart() {
    let folder = Folder::new("bags");
    folder.write("svm", lines(|i, _| class(i).to_owned()));
    folder.write("lda", lines(|_, n| n.to_string()));
    folder.write("both", lines(|i, n| format!("{} {n}", class(i))));
    folder.write(
        "classes",
        (0..40)
            .map(|i| format!("{}\n", class(i)))
            .collect::<String>(),
    );
    folder.npb(&format!("fit topics svm {TOPICS} -o svm.npb"));
    let expected = folder.npb("predict svm.npb svm");
    let found = cells(&expected);
    assert!((1..41).all(|i| found[i][1] == class(i - 1)), "{expected}");
    for fit in ["lda --classes classes", "both"] {
        let words = said(&folder, &format!("fit topics {fit} {TOPICS} -o m.npb"));
        assert!(words.contains("LDA-C"), "{words}");
        assert_eq!(folder.npb("predict m.npb lda"), expected, "{fit}");
    }
    let words = said(&folder, &format!("fit topics lda {TOPICS} -o t.npb"));
    assert!(words.contains("(LDA-C), no class"), "{words}");
    assert!(
        folder
            .npb("predict t.npb lda")
            .starts_with("row,topic1,topic2\n")
    );
    // Lines of a table are no empty documents.
    folder.write("table.csv", "a,b\n1,2\n3,4\n");
    let error = folder.fails("predict t.npb table.csv", 3);
    assert!(
        error.contains("table.csv: no line has a word and its count"),
        "{error}"
    );
    // One more topic for each class than there are would be needed to take numbers for classes.
    folder.write(
        "many",
        lines(|i, _| format!("{}.5", 100 + i % 40)) + &lines(|i, _| format!("{i}")),
    );
    let error = folder.fails(&format!("fit topics many {TOPICS} -o m.npb"), 3);
    assert!(
        error.contains("80 different numbers") && error.contains("--target"),
        "{error}"
    );
}

#[test]
fn words_are_lines_and_documents_keep_their_rows() {
    let folder = Folder::new("vocabulary");
    folder.write("docs", lines(|i, _| class(i).to_owned()));
    let word = |w: usize| match w {
        3 => "new york".to_owned(),
        5 => String::new(),
        w => format!("w{w}"),
    };
    folder.write("vocab", (0..17).map(|w| word(w) + "\n").collect::<String>());
    folder.npb(&format!("fit topics docs --words vocab {TOPICS} -o m.npb"));
    let shown = folder.npb("summary m.npb");
    assert!(shown.contains("new york"), "{shown}");
    // Words of one topic are those of the even documents, under their own names.
    let topics = cells(&shown);
    let even: Vec<&str> = ["w0", "w1", "w2", "new york", "w4", "5", "w6", "w7"].to_vec();
    let of_even = topics[1..]
        .iter()
        .find(|row| row[1].contains("w0"))
        .expect("a topic");
    assert!(even.iter().all(|word| of_even[1].contains(word)), "{shown}");
    assert!(
        !of_even[1].contains("w8") && !of_even[1].contains("w9"),
        "{shown}"
    );
    // Counts after the words are no part of them.
    folder.write(
        "counted",
        (0..17)
            .map(|w| [format!("w{w} 3 {w}\n"), "nan 3 7\n".to_owned()][usize::from(w == 9)].clone())
            .collect::<String>(),
    );
    folder.npb(&format!(
        "fit topics docs --words counted {TOPICS} -o c.npb"
    ));
    assert!(!folder.npb("summary c.npb").contains("w0 3"));
    // A word that is new, and an empty document.
    folder.write("new", "0:2 99:1\n\n9:3\n");
    folder.write("old", "0:2\n\n9:3\n");
    let words = said(&folder, "predict m.npb new");
    assert!(
        words.contains("1 of 3 pairs are not among the words of the fit"),
        "{words}"
    );
    assert_eq!(
        folder.npb("predict m.npb new"),
        folder.npb("predict m.npb old")
    );
    let found = cells(&folder.npb("predict m.npb new"));
    assert_eq!((found.len(), found[3][1].as_str()), (4, "odd"));
}

#[test]
fn missing_and_single_classes_are_said() {
    let folder = Folder::new("missing-classes");
    let some = |i: usize| if i < 30 { "?" } else { class(i) };
    folder.write("some", lines(|i, _| some(i).to_owned()));
    let text = lines(|i, _| some(i).to_owned());
    let known: String = text
        .lines()
        .skip(30)
        .map(|line| format!("{line}\n"))
        .collect();
    folder.write("known", known);
    folder.write(
        "words",
        (0..16).map(|w| format!("w{w}\n")).collect::<String>(),
    );
    let words = said(
        &folder,
        &format!("fit topics some --words words {TOPICS} -o s.npb"),
    );
    assert!(
        words.contains("30 of 40 documents have no class"),
        "{words}"
    );
    folder.npb(&format!("fit topics known --words words {TOPICS} -o k.npb"));
    assert_eq!(
        folder.npb("predict s.npb some"),
        folder.npb("predict k.npb some")
    );
    folder.write("one", lines(|_, _| "even".to_owned()));
    let words = said(&folder, &format!("fit topics one {TOPICS} -o o.npb"));
    assert!(
        words.contains("all documents are of class \"even\""),
        "{words}"
    );
    assert!(
        folder
            .npb("predict o.npb one")
            .starts_with("row,topic1,topic2\n")
    );
    folder.write("none", lines(|_, _| "?".to_owned()));
    let words = said(&folder, &format!("fit topics none {TOPICS} -o n.npb"));
    assert!(words.contains("no document has a class"), "{words}");
    // Numbers, one of them missing.
    folder.write(
        "stars",
        (0..40)
            .map(|i| format!("{}\n", if i == 7 { "?" } else { ["1.5", "4"][i % 2] }))
            .collect::<String>(),
    );
    let words = said(
        &folder,
        &format!("fit topics one --target stars {TOPICS} -o t.npb"),
    );
    assert!(
        words.contains("1 of 40 documents have no number"),
        "{words}"
    );
    folder.write("stars", "1\nx\n".to_owned() + &"2\n".repeat(38));
    let error = folder.fails(
        &format!("fit topics one --target stars {TOPICS} -o t.npb"),
        3,
    );
    assert!(error.contains("stars:2: \"x\" is not a number"), "{error}");
}

/// Texts are counted as the same words written as pairs are.
#[test]
fn plain_words_are_counted() {
    let folder = Folder::new("plain-words");
    let name = |w: usize| format!("word{}", (b'a' + w as u8) as char);
    let text = |words: &Vec<(usize, usize)>| {
        let all = words
            .iter()
            .flat_map(|&(w, n)| std::iter::repeat_n(name(w), n));
        // Capitals, marks and words that all have, or one alone.
        format!(
            "The {}!",
            all.collect::<Vec<_>>().join(", ").replace("wordc", "WordC")
        )
    };
    let texts: Vec<String> = counts().iter().map(text).collect();
    let rows = texts.iter().enumerate();
    let table: String = rows
        .map(|(i, text)| format!("{i},\"{text}\nonce{i}\",{}\n", class(i)))
        .collect();
    folder.write("posts.csv", format!("id,body,group\n{table}"));
    folder.write("posts.txt", texts.join("\n") + "\n");
    folder.write(
        "even.txt",
        "sport the ball is round\nlaw the vote is today\n",
    );
    folder.write(
        "classes",
        (0..40)
            .map(|i| format!("{}\n", class(i)))
            .collect::<String>(),
    );
    folder.write("docs", lines(|i, _| class(i).to_owned()));
    folder.write("vocab", (0..16).map(|w| name(w) + "\n").collect::<String>());
    folder.npb(&format!("fit topics docs --words vocab {TOPICS} -o d.npb"));
    let expected = folder.npb("predict d.npb docs");
    folder.npb(&format!(
        "fit topics posts.csv --text body --label group {TOPICS} -o t.npb"
    ));
    assert_eq!(folder.npb("-q predict t.npb posts.csv"), expected);
    folder.npb(&format!(
        "fit topics posts.txt --lines --classes classes {TOPICS} -o l.npb"
    ));
    assert_eq!(folder.npb("-q predict l.npb posts.txt"), expected);
    assert_eq!(folder.npb("summary t.npb"), folder.npb("summary d.npb"));
    // A later table may have other columns; a later file empty lines.
    folder.write("new.csv", "body\n\"WORDA wordb, unseen\"\n\"\"\n");
    folder.write("new.txt", "worda wordb\n\n");
    let words = said(&folder, "predict t.npb new.csv");
    assert!(
        words.contains("1 of 3 words are not among the words of the fit"),
        "{words}"
    );
    assert_eq!(
        folder.npb("-q predict t.npb new.csv"),
        folder.npb("predict l.npb new.txt")
    );
    // Stop words, minimum counts, and what to say.
    folder.npb(&format!(
        "fit topics posts.txt --lines --stop-words en --max-share 1 {TOPICS} -o s.npb"
    ));
    assert_eq!(folder.npb("-q summary s.npb").matches("the").count(), 0);
    folder.npb(&format!(
        "fit topics posts.txt --lines --max-share 1 {TOPICS} -o a.npb"
    ));
    assert!(folder.npb("-q summary a.npb").contains("the"));
    for (arguments, code, part) in [
        ("posts.txt", 3, "say --lines"),
        ("even.txt", 3, "say --lines"),
        ("posts.csv --text bod", 3, "there is no column \"bod\""),
        (
            "posts.txt --lines --min-documents 41",
            3,
            "no word stands in at least 41 documents",
        ),
        (
            "posts.txt --lines --stop-words klingon",
            2,
            "the code of a language",
        ),
        ("posts.txt --lines --max-share 2", 2, "at most 1"),
        ("docs --label x", 2, "--text"),
    ] {
        let error = folder.fails(&format!("fit topics {arguments} {TOPICS} -o x.npb"), code);
        assert!(error.contains(part), "{arguments}: {error}");
    }
}
