//! A page of sections: sentences, warnings, figures, tables.

use npb_report::{Figure, TextTable, html};

/// Longer names and cells are cut.
const LONGEST: usize = 120;
/// Wider pictures, in pixels, stand alone in their line.
const BROAD: u32 = 800;
/// Tables have no more rows than this.
const MOST_ROWS: usize = 200;

/// What stands in a section.
#[derive(Clone, Debug)]
pub enum Part {
    /// A paragraph.
    Words(String),
    /// Something is wrong, or may be.
    Warning(String),
    /// Pictures side by side where there is room; the caption of each says what to look for.
    Figures(Vec<Figure>),
    /// A table.
    Table {
        /// Its cells.
        table: TextTable,
        /// It is opened by who wants it.
        folded: bool,
    },
}

/// A part of a page under a heading of its own.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// What stands in it, in order.
    pub parts: Vec<Part>,
}

/// A page about one fit.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its heading.
    pub title: String,
    /// Its sections, in order.
    pub sections: Vec<Section>,
}

impl Section {
    /// A section in which nothing stands yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            parts: Vec::new(),
        }
    }

    /// Adds a paragraph.
    pub fn say(&mut self, words: impl Into<String>) {
        self.parts.push(Part::Words(words.into()));
    }

    /// Adds a warning.
    pub fn warn(&mut self, words: impl Into<String>) {
        self.parts.push(Part::Warning(words.into()));
    }

    /// Adds a picture beside the one before, if that is the last part.
    pub fn draw(&mut self, figure: Figure) {
        match self.parts.last_mut() {
            Some(Part::Figures(figures)) => figures.push(figure),
            _ => self.parts.push(Part::Figures(vec![figure])),
        }
    }

    /// Adds a picture where there is one.
    pub fn draw_any(&mut self, figure: Option<Figure>) {
        if let Some(figure) = figure {
            self.draw(figure);
        }
    }

    /// Adds a table.
    pub fn tabulate(&mut self, table: TextTable) {
        let folded = false;
        self.parts.push(Part::Table { table, folded });
    }

    /// Adds a table that is opened by who wants it.
    pub fn fold(&mut self, table: TextTable) {
        let folded = true;
        self.parts.push(Part::Table { table, folded });
    }

    fn html(&self) -> String {
        let parts: String = self.parts.iter().map(Part::html).collect();
        format!("<h2>{}</h2>\n{parts}", escaped(&self.title))
    }
}

impl Part {
    fn html(&self) -> String {
        match self {
            Self::Words(words) => format!("<p>{}</p>\n", escaped(words)),
            Self::Warning(words) => format!(
                "<p class=\"warning\"><strong>Warning:</strong> {}</p>\n",
                escaped(words)
            ),
            Self::Figures(figures) => {
                let each = |figure: &Figure| {
                    let class = if figure.width() > BROAD {
                        " class=\"broad\""
                    } else {
                        ""
                    };
                    format!("<div{class}>{}</div>", short_words(figure).html())
                };
                let figures: String = figures.iter().map(each).collect();
                format!("<div class=\"figures\">{figures}</div>\n")
            }
            Self::Table { table, folded } => {
                let table = cut_table(table);
                let of_table = html::table(&table.header, &table.rows);
                let title = html::escape(&table.title);
                match folded {
                    true => {
                        format!("<details><summary>{title}</summary>{of_table}</details>\n")
                    }
                    false => table.html(),
                }
            }
        }
    }
}

impl Page {
    /// A page in which nothing stands yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            sections: Vec::new(),
        }
    }

    /// Adds a section unless it is empty.
    pub fn push(&mut self, section: Section) {
        if !section.parts.is_empty() {
            self.sections.push(section);
        }
    }

    /// All warnings of its sections.
    pub fn warnings(&self) -> Vec<&str> {
        let parts = self.sections.iter().flat_map(|section| &section.parts);
        let words = parts.filter_map(|part| match part {
            Part::Warning(words) => Some(words.as_str()),
            _ => None,
        });
        words.collect()
    }

    /// All its figures.
    pub fn figures(&self) -> Vec<&Figure> {
        let parts = self.sections.iter().flat_map(|section| &section.parts);
        let figures = parts.filter_map(|part| match part {
            Part::Figures(figures) => Some(figures),
            _ => None,
        });
        figures.flatten().collect()
    }

    /// The figure of this name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures().into_iter().find(|f| f.name == name)
    }

    /// The page as one HTML file that loads nothing.
    pub fn html(&self) -> String {
        let count = match self.warnings().len() {
            0 => "<p class=\"quiet\">No warnings.</p>\n".to_owned(),
            1 => "<p class=\"failed\">1 warning below.</p>\n".to_owned(),
            n => format!("<p class=\"failed\">{n} warnings below.</p>\n"),
        };
        let sections: String = self.sections.iter().map(Section::html).collect();
        html::page(&cut(&self.title), &(count + &sections))
    }
}

/// Text on a page: long words that are names are cut.
fn escaped(text: &str) -> String {
    html::escape(&cut_to(text, 8 * LONGEST))
}

fn cut(text: &str) -> String {
    cut_to(text, LONGEST)
}

/// A text that is cut where it is too long.
pub(crate) fn cut_to(text: &str, longest: usize) -> String {
    let mut characters = text.chars();
    let mut cut: String = characters.by_ref().take(longest).collect();
    if characters.next().is_some() {
        cut.pop();
        cut.push('…');
    }
    cut
}

fn short_words(figure: &Figure) -> Figure {
    Figure {
        title: cut(&figure.title),
        caption: cut_to(&figure.caption, 4 * LONGEST),
        ..figure.clone()
    }
}

fn cut_table(table: &TextTable) -> TextTable {
    let row = |cells: &Vec<String>| cells.iter().map(|cell| cut(cell)).collect();
    let mut cut = TextTable {
        title: cut(&table.title),
        header: row(&table.header),
        rows: table.rows.iter().take(MOST_ROWS).map(row).collect(),
    };
    if table.rows.len() > MOST_ROWS {
        let n = table.rows.len() - MOST_ROWS;
        cut.rows.push(vec![format!("and {n} more rows")]);
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_marks_are_escaped() {
        let mut section = Section::new("<b>".repeat(2_000));
        section.say("\"é\" & <script>");
        section.warn("x".repeat(10_000));
        let rows = (0..500).map(|i| vec![format!("{i}"), "y".repeat(10_000)]);
        section.tabulate(TextTable::new("T", &["row", "<i>"], rows));
        let mut page = Page::new("z".repeat(10_000));
        page.push(section);
        page.push(Section::new("nothing"));
        let html = page.html();
        assert!(html.len() < 60_000, "{} bytes", html.len());
        assert!(html.contains("&quot;é&quot; &amp; &lt;script&gt;") && !html.contains("<i>"));
        assert!(html.contains("and 300 more rows") && html.contains("1 warning below"));
        assert_eq!((page.sections.len(), page.warnings().len()), (1, 1));
    }
}
