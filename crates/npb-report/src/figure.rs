//! What is drawn, with its numbers.

use crate::html::escape;
use crate::table::csv_line;

/// A picture and its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of its files, without ending.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What is to be seen.
    pub caption: String,
    /// The picture: one `svg` element.
    pub svg: String,
    /// Names of the columns of its numbers.
    pub header: Vec<String>,
    /// Its numbers, row by row; empty where there is none.
    pub rows: Vec<Vec<String>>,
}

impl Figure {
    /// Its numbers as a file of comma-separated values.
    pub fn csv(&self) -> String {
        let lines = std::iter::once(&self.header).chain(&self.rows);
        lines.map(|fields| csv_line(fields) + "\n").collect()
    }

    /// How wide the picture is, in pixels; 0 where it does not say.
    pub fn width(&self) -> u32 {
        let after = self.svg.split_once("width=\"").map(|(_, after)| after);
        let number = after.and_then(|after| after.split_once('"'));
        number.and_then(|(n, _)| n.parse().ok()).unwrap_or(0)
    }

    /// The picture between its heading and its caption, as a part of a page.
    pub fn html(&self) -> String {
        let (title, caption) = (escape(&self.title), escape(&self.caption));
        let svg = &self.svg;
        // Colours of what is drawn can be turned for the dark, those of images not.
        let class = match svg.contains("<image") {
            true => "",
            false => " class=\"drawn\"",
        };
        let width = self.width();
        format!(
            "<h3>{title}</h3><figure{class} style=\"--w:{width}px\">{svg}<figcaption>{caption}</figcaption></figure>\n"
        )
    }
}
