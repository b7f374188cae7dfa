//! Schemas as text that a person reads and edits.

use super::Schema;
use super::column::{BlockSchema, ColumnSchema, Role};
use super::date::{DateScale, DateUnit};
use super::error::SchemaError;
use std::fmt::{self, Write as _};

/// A proposed schema, with reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaGuess {
    /// What is proposed.
    pub schema: Schema,
    /// Why, for each column of the schema.
    pub guesses: Vec<ColumnGuess>,
    /// Name of the file.
    pub file: String,
    /// Its number of rows.
    pub n_rows: usize,
}

/// Why a column was taken for what it was.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnGuess {
    /// What in its texts suggests it.
    pub why: String,
    /// What fits its texts as well, and only the owner of the data can tell.
    pub others: Vec<ColumnSchema>,
    /// Number of observed cells.
    pub n_observed: usize,
    /// Number of distinct values among them.
    pub n_distinct: usize,
    /// Number of cells that are missing by a mark that stands among numbers or dates; the reason counts them.
    pub n_marks: usize,
    /// The first different values, a few of them, as they are written.
    pub examples: Vec<String>,
    /// Something that a person should hear of: the column is left out, or some of its cells are.
    pub notable: bool,
}

/// What a person who edits the text needs to know.
const LEGEND: &str = "\
# kind: real, positive, count, categorical, ordinal, binary, angle, date, identifier; levels of ordinal columns from the lowest
# role: feature (unless said otherwise), label, row_id, group, weight, ignored
";

impl Schema {
    /// Reads a schema from TOML and validates it.
    ///
    /// # Errors
    /// [`SchemaError::Toml`] with line and column of a syntax error or unknown setting; as [`Schema::validate`].
    pub fn from_toml(text: &str) -> Result<Self, SchemaError> {
        let schema: Schema = toml::from_str(text).map_err(|e| SchemaError::Toml {
            message: e.to_string().trim_end().to_owned(),
        })?;
        schema.validate()?;
        Ok(schema)
    }

    /// The schema as TOML, one line for each column; [`Schema::from_toml`] reads it.
    pub fn to_toml(&self) -> String {
        self.written(|_| String::new())
    }

    fn written(&self, comment: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        let entries: Vec<String> = self.columns.iter().map(entry).collect();
        // Comments stand in one line below each other, unless entries are long.
        let width = entries
            .iter()
            .map(|e| e.chars().count())
            .filter(|&n| n <= 60);
        let width = width.max().unwrap_or(0);
        let _ = writeln!(text, "missing = {}\n\ncolumns = [", list(&self.missing));
        for (k, entry) in entries.iter().enumerate() {
            let comment = comment(k);
            let _ = match comment.is_empty() {
                true => writeln!(text, "  {entry},"),
                false => {
                    let gap = width.saturating_sub(entry.chars().count());
                    writeln!(text, "  {entry},{:gap$}  # {comment}", "")
                }
            };
        }
        text.push_str("]\n");
        if !self.blocks.is_empty() {
            text.push_str("\nblocks = [\n");
            for block in &self.blocks {
                let _ = writeln!(text, "  {},", block_entry(block));
            }
            text.push_str("]\n");
        }
        text
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_toml())
    }
}

impl SchemaGuess {
    /// The schema as TOML with the reasons as comments.
    pub fn to_toml(&self) -> String {
        let schema = &self.schema;
        let left_out = schema.with_role(Role::Ignored).count();
        let reasons = schema.written(|k| {
            self.guesses
                .get(k)
                .map_or(String::new(), |guess| guess.comment(self.n_rows))
        });
        format!(
            "# {}: {} rows, {} columns, {left_out} of them left out\n{LEGEND}\n{reasons}",
            one_line(&self.file),
            self.n_rows,
            schema.columns.len(),
        )
    }
}

impl ColumnGuess {
    fn comment(&self, n_rows: usize) -> String {
        let others: Vec<String> = self
            .others
            .iter()
            .map(|other| settings(other).join(", "))
            .collect();
        let or = if others.is_empty() { "" } else { "; or " };
        let more = if self.n_marks > 0 { " more" } else { "" };
        let missing = match n_rows.saturating_sub(self.n_observed + self.n_marks) {
            0 => String::new(),
            1 => format!("; 1{more} cell missing"),
            n => format!("; {n}{more} cells missing"),
        };
        let examples: Vec<String> = self.examples.iter().map(|text| shortened(text)).collect();
        let examples = match examples.is_empty() {
            true => String::new(),
            false => format!("; e.g. {}", examples.join(" | ")),
        };
        one_line(&format!(
            "{}{missing}{examples}{or}{}",
            self.why,
            others.join("; or ")
        ))
    }
}

/// A value of an example.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(20) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// Comments hold no line ends or other control characters.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|t| quoted(t)).collect();
    format!("[{}]", texts.join(", "))
}

fn entry(column: &ColumnSchema) -> String {
    let name = format!("name = {}", quoted(&column.name));
    let parts: Vec<String> = std::iter::once(name).chain(settings(column)).collect();
    format!("{{ {} }}", parts.join(", "))
}

/// Everything but the name, as far as it differs from the default.
fn settings(column: &ColumnSchema) -> Vec<String> {
    let mut parts = vec![format!("kind = \"{}\"", column.kind.name())];
    if column.role != Role::Feature {
        parts.push(format!("role = \"{}\"", column.role.name()));
    }
    parts.extend(
        column
            .levels
            .as_ref()
            .map(|levels| format!("levels = {}", list(levels))),
    );
    parts.extend(
        column
            .period
            .map(|period| format!("period = {}", toml::Value::Float(period))),
    );
    parts.extend(column.date.as_ref().map(date_entry));
    if !column.missing.is_empty() {
        parts.push(format!("missing = {}", list(&column.missing)));
    }
    parts
}

fn date_entry(scale: &DateScale) -> String {
    let usual = DateScale::days(scale.order);
    let mut text = format!("date = {{ order = \"{}\"", scale.order.name());
    if scale.unit != DateUnit::Days {
        let _ = write!(text, ", unit = \"{}\"", scale.unit.name());
    }
    if scale.since != usual.since {
        let _ = write!(text, ", since = {}", quoted(&scale.since));
    }
    text + " }"
}

fn block_entry(block: &BlockSchema) -> String {
    format!(
        "{{ name = {}, kind = \"{}\", columns = {} }}",
        quoted(&block.name),
        block.kind.name(),
        list(&block.columns)
    )
}
