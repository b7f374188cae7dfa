//! A page that needs no other file: no script, no font, no network.

use crate::text::printable;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#222;--quiet:#666;--line:#ddd;--soft:#f4f4f4;--bad:#a00;--paper:#fff}\
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--quiet:#999;--line:#444;--soft:#2a2a2a;--bad:#f77;--paper:#181818}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:1320px;margin:2rem auto;padding:0 1rem;color:var(--ink);background:var(--paper)}\
h1,h2,h3{line-height:1.2}h2{margin-top:2.5rem;border-top:1px solid var(--line);padding-top:1rem}\
.wide{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0 1rem;font-size:13px}\
th,td{padding:.15rem .6rem;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}th{border-bottom:2px solid var(--quiet)}\
td.n{text-align:right;font-variant-numeric:tabular-nums}code{background:var(--soft);padding:0 .2rem;overflow-wrap:anywhere}\
figure{margin:1rem 0;overflow-x:auto}figure svg{max-width:max(100%,calc(.6*var(--w,0px)));height:auto;background:#fff;border-radius:4px}\
.failed{color:var(--bad);font-weight:bold}.quiet{color:var(--quiet)}\
td{overflow-wrap:break-word;max-width:30rem}figcaption{max-width:40rem}summary{cursor:pointer}\
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,480px),1fr));gap:0 1.5rem;align-items:start}.figures>div{min-width:0}.figures>.broad{grid-column:1/-1}\
.warning{border-left:4px solid var(--bad);background:var(--soft);padding:.4rem .8rem;margin:.6rem 0;max-width:60rem;overflow-wrap:anywhere}\
@media(prefers-color-scheme:dark){figure.drawn svg{filter:invert(.9) hue-rotate(180deg)}}\
@media print{body{max-width:none;margin:0;font-size:12px}figure,tr,.warning{break-inside:avoid}.wide{overflow:visible}details::details-content{content-visibility:visible;block-size:auto}}";

/// A whole page: `title` is text, `body` is HTML. Classes that the style knows: `wide` (scrolls sideways), `quiet`, `failed`, `warning`, `figures` (side by side where
/// there is room).
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n{body}</body></html>\n"
    )
}

/// A table of text; cells that are numbers stand to the right. Without a header there is no first line.
pub fn table<H: AsRef<str>>(header: &[H], rows: &[Vec<String>]) -> String {
    let mut page = "<div class=\"wide\"><table>".to_owned();
    if !header.is_empty() {
        let names = header.iter().map(|name| escape(name.as_ref()));
        let cells: String = names.map(|name| format!("<th>{name}</th>")).collect();
        page += &format!("<tr>{cells}</tr>");
    }
    for row in rows {
        page += "<tr>";
        for cell in row {
            let is_number = cell == "–" || cell.trim_end_matches('%').parse::<f64>().is_ok();
            let class = if is_number { " class=\"n\"" } else { "" };
            page += &format!("<td{class}>{}</td>", escape(cell));
        }
        page += "</tr>";
    }
    page + "</table></div>\n"
}

/// Text as HTML or XML, between tags or in a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c => escaped.push(printable(c)),
        }
    }
    escaped
}
