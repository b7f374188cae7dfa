//! Tables for people, and rows for files.

use crate::html;

/// A table for people.
#[derive(Clone, Debug, PartialEq)]
pub struct TextTable {
    /// Its heading.
    pub title: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// Cells, row by row.
    pub rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with these names of columns.
    pub fn new<H: AsRef<str>>(
        title: impl Into<String>,
        header: &[H],
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        Self {
            title: title.into(),
            header: header.iter().map(|h| h.as_ref().to_owned()).collect(),
            rows: rows.into_iter().collect(),
        }
    }

    /// The table under its heading, as a part of a page.
    pub fn html(&self) -> String {
        let title = html::escape(&self.title);
        format!("<h3>{title}</h3>{}", html::table(&self.header, &self.rows))
    }
}

/// The fields of one line of a file of comma-separated values, quoted where that is needed; without the end of the line.
pub fn csv_line(fields: &[String]) -> String {
    let quoted = |field: &String| {
        if field.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.clone()
        }
    };
    fields.iter().map(quoted).collect::<Vec<_>>().join(",")
}
