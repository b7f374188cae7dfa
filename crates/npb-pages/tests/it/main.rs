//! Pages of each kind of model.

mod groups;
mod image;
mod labels;
mod numbers;
mod ratings;
mod shared;
mod table;

use npb_data::{Field, Labels, Measure, MixedColumn, MixedTable};
use npb_pages::{Page, Rows};

/// What a name can be: a script, quotes, a text from right to left, ten thousand characters.
pub(crate) const SCRIPT: &str = "<script>alert(1)</script>";
pub(crate) const QUOTES: &str = "\"it's\" & 'so'";
pub(crate) const HEBREW: &str = "\u{5e9}\u{5dc}\u{5d5}\u{5dd} \u{202e}abc";

pub(crate) fn long() -> String {
    "x".repeat(10_000)
}

/// A page is whole: no empty picture, no number that is none, no markup of a name, nothing to load, and not large.
pub(crate) fn assert_whole(page: &Page) -> String {
    let html = page.html();
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    assert!(!page.sections.is_empty());
    for figure in page.figures() {
        let drawn = ["<rect", "<path", "<circle", "<polyline", "<image"];
        let n: usize = drawn
            .iter()
            .map(|shape| figure.svg.matches(shape).count())
            .sum();
        assert!(n > 1, "{} is empty", figure.name);
        assert!(!figure.rows.is_empty(), "{} has no numbers", figure.name);
        assert!(figure.caption.len() > 20, "{} has no sentence", figure.name);
    }
    let words = html.split(|c: char| !(c.is_alphanumeric() || c == '-'));
    for word in words {
        let bad = ["NaN", "inf", "-inf", "Infinity"].contains(&word);
        assert!(!bad, "{word} in the page");
    }
    assert!(!html.contains("<script") && !html.contains("alert(1)</script"));
    assert!(!html.contains(&"x".repeat(1_000)), "a long name is cut");
    // What turns the words of a name around does not turn those after it.
    let alone = |part: &&str| part.starts_with("td") || part.starts_with("text");
    for paragraph in html.split('<').filter(|part| !alone(part)) {
        let mut inside = false;
        for c in paragraph.chars() {
            inside = (inside || c == '\u{2068}') && c != '\u{2069}';
            assert!(inside || c != '\u{202e}', "{paragraph}");
        }
    }
    let loads = html.replace("http://www.w3.org/2000/svg", "");
    for mark in ["http", "src=", "url(", "@import", "<link"] {
        assert!(!loads.contains(mark), "{mark} in the page");
    }
    html
}

/// 160 rows of two groups: a number that tells the class, one that does not and has holes, a level that goes with the first, a constant.
pub(crate) fn rows(n: usize) -> Rows {
    let high = |i: usize| (i * 7) % 10 < 4;
    let noise = |i: usize, k: usize| ((i * 37 + k * 11) % 101) as f64 / 101.0 - 0.5;
    let x = |i: usize| f64::from(u8::from(high(i))) * 4.0 + 2.0 * noise(i, 1);
    let columns = vec![
        MixedColumn::Real((0..n).map(|i| Some(x(i))).collect()),
        MixedColumn::Real((0..n).map(|i| (i % 9 != 2).then(|| noise(i, 2))).collect()),
        MixedColumn::Categorical {
            levels: vec![QUOTES.to_owned(), HEBREW.to_owned()],
            codes: (0..n)
                .map(|i| Some(u32::from(high(i) != (i % 13 == 0))))
                .collect(),
        },
        MixedColumn::Count(vec![Some(3); n]),
    ];
    let names = vec![
        SCRIPT.to_owned(),
        long(),
        QUOTES.to_owned(),
        "constant".to_owned(),
    ];
    let measures = [
        Measure::Real,
        Measure::Real,
        Measure::Categorical,
        Measure::Count,
    ];
    let field = |(k, measure): (usize, Measure)| Field::new(&names[k], measure, vec![k]);
    let fields = measures.into_iter().enumerate().map(field).collect();
    let class = |i: usize| {
        Some(if high(i) != i.is_multiple_of(17) {
            SCRIPT
        } else {
            HEBREW
        })
    };
    let labels: Vec<Option<&str>> = (0..n).map(class).collect();
    Rows {
        file: "<new>.csv".to_owned(),
        features: MixedTable::new(names, columns).expect("a table"),
        fields,
        labels: Some(Labels::from_strings(&labels)),
        ..Rows::default()
    }
}
