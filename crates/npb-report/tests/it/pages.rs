//! Pages and tables.

use npb_report::{Figure, TextTable, csv_line, html};

#[test]
fn a_page_needs_nothing_from_outside() {
    let table = TextTable::new(
        "what",
        &["name", "value"],
        [["a", "1.5"].map(str::to_owned).to_vec()],
    );
    let page = html::page("a title", &table.html());
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</body></html>\n"));
    for part in [
        "<title>a title</title>",
        "<h1>a title</h1>",
        "<h3>what</h3>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for outside in ["src=", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn numbers_stand_to_the_right() {
    let row = ["a", "1.5", "-2e3", "", "1.5x"].map(str::to_owned).to_vec();
    let expected = "<div class=\"wide\"><table><tr><td>a</td><td class=\"n\">1.5</td><td class=\"n\">-2e3</td><td></td><td>1.5x</td></tr></table></div>\n";
    assert_eq!(html::table::<&str>(&[], &[row]), expected);
}

#[test]
fn fields_are_quoted_where_that_is_needed() {
    let fields = ["plain", "a,b", "say \"so\"", "two\nlines", ""].map(str::to_owned);
    assert_eq!(
        csv_line(&fields),
        "plain,\"a,b\",\"say \"\"so\"\"\",\"two\nlines\","
    );
    let figure = Figure {
        name: "f".into(),
        title: "T".into(),
        caption: "C".into(),
        svg: "<svg/>".into(),
        header: vec!["x".into(), "a,b".into()],
        rows: vec![vec!["1".into(), "2".into()]],
    };
    assert_eq!(figure.csv(), "x,\"a,b\"\n1,2\n");
    let expected = "<h3>T</h3><figure class=\"drawn\" style=\"--w:0px\"><svg/><figcaption>C</figcaption></figure>\n";
    assert_eq!(figure.html(), expected);
}
