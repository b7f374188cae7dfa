//! Names are text and nothing else, wherever they stand.

use npb_report::{
    Layer, Panel, Picture, Point, Shape, TextTable, colours, html, images, lines, picture,
};

const SCRIPT: &str = "<script>alert(1)</script>";
const QUOTES: &str = "\"double\" 'single' & \" onload=\"alert(1)";
/// Hebrew, Arabic, and a mark that turns what follows round.
const RIGHT_TO_LEFT: &str = "שלום مرحبا \u{202e}txt";
const CONTROL: &str = "a\0b\u{1b}[31m\u{ffff}]]>";

fn names() -> [String; 6] {
    let long = "長".repeat(10_000);
    let fixed = [SCRIPT, QUOTES, RIGHT_TO_LEFT, CONTROL, ""];
    let [a, b, c, d, e] = fixed.map(str::to_owned);
    [a, b, c, d, e, long]
}

/// Every tag of well-formed markup, and all text outside of tags. Panics where an attribute is not closed or tags do not nest.
fn parsed(markup: &str) -> (Vec<String>, String) {
    let (mut tags, mut text, mut open) = (Vec::new(), String::new(), Vec::new());
    let mut rest = markup;
    while let Some(at) = rest.find('<') {
        text += &rest[..at];
        let mut quoted = false;
        let end = rest[at..].find(|c| {
            quoted ^= c == '"';
            c == '>' && !quoted
        });
        let tag = &rest[at + 1..at + end.expect("a tag that ends")];
        rest = &rest[at + tag.len() + 2..];
        let name: String = tag.chars().take_while(|c| !" />".contains(*c)).collect();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closed));
        } else {
            let empty = tag.ends_with('/') || tag.starts_with('!') || name == "meta";
            tags.push(name.clone());
            open.extend((!empty).then_some(name));
        }
    }
    text += rest;
    assert!(open.is_empty(), "{open:?}");
    (tags, text)
}

/// Nothing but what the library writes, and no character that XML forbids.
fn assert_harmless(markup: &str, name: &str) {
    let (tags, text) = parsed(markup);
    const OURS: [&str; 28] = [
        "svg",
        "rect",
        "text",
        "line",
        "polyline",
        "polygon",
        "circle",
        "image",
        "h1",
        "h2",
        "h3",
        "figure",
        "figcaption",
        "div",
        "table",
        "tr",
        "th",
        "td",
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "p",
        "details",
        "summary",
        "!DOCTYPE",
    ];
    for tag in tags {
        assert!(OURS.contains(&tag.as_str()), "<{tag}> from {name:.40}");
    }
    for entity in text.split('&').skip(1) {
        let known = ["lt;", "gt;", "amp;", "quot;", "apos;", "#39;"];
        assert!(known.iter().any(|k| entity.starts_with(k)), "&{entity:.40}");
    }
    let forbidden = |c: char| c.is_control() && !"\n\r\t".contains(c) || c == '\u{ffff}';
    assert!(!markup.contains(forbidden), "{name:.40}");
}

fn panel(name: &str) -> Panel {
    let dots = Layer::new(name, colours::BLUE, Shape::Dots(vec![[0.2, 0.3]]));
    let line = Layer::line(name, [Point::at(0.0, 0.0), Point::at(1.0, 1.0)]);
    Panel::new(name, [name, name], (0.0, 1.0), (0.0, 1.0), vec![dots, line])
}

#[test]
fn names_are_text_in_every_figure() {
    for name in &names() {
        for figure in [
            lines("f", name, name, &[panel(name)]).unwrap(),
            picture("f", name, name, &[panel(name)]).unwrap(),
        ] {
            assert_harmless(&figure.svg, name);
            assert_harmless(&html::page(name, &figure.html()), name);
            // Pictures stay small, numbers keep the whole name.
            assert!(figure.svg.len() < 20_000, "{}", figure.svg.len());
            assert!(
                figure
                    .rows
                    .iter()
                    .all(|row| row[0] == *name && row[1] == *name)
            );
        }
    }
}

#[test]
fn names_are_text_beside_images() {
    for name in &names() {
        let one = Picture {
            title: name.clone(),
            png: super::figures::png_head(1, 1),
            size: [1, 1, 1],
            number: None,
        };
        let figure = images("f", name, name, &[one]).unwrap();
        assert_harmless(&html::page(name, &figure.html()), name);
        assert_eq!(figure.rows, [[name, "1x1x1", ""]]);
    }
}

#[test]
fn names_are_text_in_tables() {
    for name in &names() {
        let table = TextTable::new(name, &[name], [vec![name.clone()]]);
        let page = html::page(name, &table.html());
        assert_harmless(&page, name);
    }
    let page = html::table(&[SCRIPT], &[vec![QUOTES.to_owned()]]);
    assert!(page.contains("<th>&lt;script&gt;alert(1)&lt;/script&gt;</th>"));
    assert!(page.contains(
        "<td>&quot;double&quot; &#39;single&#39; &amp; &quot; onload=&quot;alert(1)</td>"
    ));
}

#[test]
fn letters_of_all_scripts_are_kept() {
    let figure = lines("f", "", "", &[panel(RIGHT_TO_LEFT)]).unwrap();
    assert!(figure.svg.contains(RIGHT_TO_LEFT));
    // Each name ends its own element, which is where a mark that turns text round ends as well.
    let (_, text) = parsed(&html::table::<&str>(&[], &[vec![RIGHT_TO_LEFT.to_owned()]]));
    assert_eq!(text.trim(), RIGHT_TO_LEFT);
}

/// The test above would see a name that is not escaped.
#[test]
#[should_panic(expected = "<script>")]
fn a_name_that_is_not_escaped_is_seen() {
    assert_harmless(&format!("<p>{SCRIPT}</p>"), SCRIPT);
}
