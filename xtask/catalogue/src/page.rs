//! `index.html`: one file that shows everything, without any other file. Several programs add to it one after the other.

use std::fs;
use std::path::Path;

use npb_report::html::{self, escape};
use serde::{Deserialize, Serialize};

use crate::{Result, data, machine, root};

/// A report: what was run where, and what was found.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Page {
    title: String,
    facts: Vec<(String, String)>,
    sections: Vec<Section>,
    left_out: Vec<LeftOut>,
}

/// One experiment or check on the page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// `crate/name`.
    pub id: String,
    /// What the paper says, as text.
    pub paper: String,
    /// What was found, in short, as HTML.
    pub found: String,
    /// What stands below its heading, as HTML.
    pub body: String,
    /// It could not be run to its end.
    pub failed: bool,
}

/// An experiment that was not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// `crate/name`.
    pub id: String,
    /// Data sets that are not there.
    pub missing: Vec<String>,
}

/// What is kept beside `index.html` for the program that adds to it.
const KEPT: &str = "page.json";

impl Page {
    /// A page without sections; facts about the machine are added to those given.
    fn new(title: &str, facts: &[(&str, String)], left_out: Vec<LeftOut>) -> Self {
        let given = facts.iter().map(|(name, value)| (*name, value.clone()));
        let all = given.chain(machine::facts(&root()));
        Self {
            title: title.to_owned(),
            facts: all.map(|(name, value)| (name.to_owned(), value)).collect(),
            sections: Vec::new(),
            left_out,
        }
    }

    /// The page of `reproduce`.
    pub fn reproduced(scale: &str, seed: u64, left_out: Vec<LeftOut>) -> Self {
        let facts = [("scale", scale.to_owned()), ("seed", seed.to_string())];
        Self::new("npb: reproduced figures", &facts, left_out)
    }

    /// The page of `validate`.
    pub fn validated(scale: &str, seed: u64) -> Self {
        let facts = [("scale", scale.to_owned()), ("seed", seed.to_string())];
        Self::new("npb: checks of samplers", &facts, Vec::new())
    }

    /// The page that another program has written into `out`.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn load(out: &Path) -> Result<Self> {
        let path = out.join(KEPT);
        let named = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let text = fs::read_to_string(&path).map_err(|e| named(&e))?;
        Ok(serde_json::from_str(&text).map_err(|e| named(&e))?)
    }

    /// Adds a section and writes the page, so that it is complete after every experiment and a stopped run leaves one.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn add(&mut self, section: Section, out: &Path) -> Result<()> {
        self.sections.push(section);
        self.write(out)
    }

    /// Writes the page, and what [`load`](Self::load) reads.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write(&self, out: &Path) -> Result<()> {
        fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
        write_file(&out.join(KEPT), &serde_json::to_string(self)?)?;
        write_file(&out.join("index.html"), &self.html())
    }

    /// Says where the page is, what was left out, and how to get what that needs.
    pub fn say(&self, out: &Path) {
        println!("report: {}", out.join("index.html").display());
        for LeftOut { id, missing } in &self.left_out {
            println!("left out: {id} (needs {})", missing.join(", "));
        }
        if let Some(command) = self.get_command() {
            println!("to get the data: {command}");
        }
    }

    fn get_command(&self) -> Option<String> {
        data::get_command(self.left_out.iter().flat_map(|l| &l.missing))
    }

    fn html(&self) -> String {
        let cells = |(name, value): &(String, String)| vec![name.clone(), value.clone()];
        let facts: Vec<Vec<String>> = self.facts.iter().map(cells).collect();
        let mut page = html::table::<&str>(&[], &facts);
        page += &self.summary();
        if !self.left_out.is_empty() {
            page += "<h2>Left out</h2><p>These experiments need data that is not there:</p>";
            let cells = |l: &LeftOut| vec![l.id.clone(), l.missing.join(", ")];
            let rows: Vec<Vec<String>> = self.left_out.iter().map(cells).collect();
            page += &html::table(&["experiment", "data sets"], &rows);
        }
        if let Some(command) = self.get_command() {
            page += &format!("<p>To get it: <code>{}</code></p>", escape(&command));
        }
        for Section { id, body, .. } in &self.sections {
            let id = escape(id);
            page += &format!("<h2 id=\"{id}\">{id}</h2>\n{body}");
        }
        html::page(&self.title, &page)
    }

    /// What each paper says, what was found, and whether the two agree.
    fn summary(&self) -> String {
        let mut rows = String::new();
        for section in &self.sections {
            let (id, paper, found) = (escape(&section.id), escape(&section.paper), &section.found);
            rows += &format!(
                "<tr><td><a href=\"#{id}\">{id}</a></td><td>{paper}</td><td>{found}</td></tr>"
            );
        }
        format!(
            "<h2>Summary</h2><div class=\"wide\"><table><tr><th>experiment</th><th>the paper</th><th>here</th></tr>{rows}</table></div>\n"
        )
    }
}

/// Writes a file whole or not at all: to a neighbour first, then renamed.
///
/// # Errors
/// The file cannot be written.
pub fn write_file(path: &Path, text: &str) -> Result<()> {
    let mut neighbour = path.as_os_str().to_owned();
    neighbour.push(".new");
    fs::write(&neighbour, text)
        .and_then(|()| fs::rename(&neighbour, path))
        .map_err(|e| format!("{}: {e}", path.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    fn example() -> Page {
        let left_out = LeftOut {
            id: "bsvd/x".into(),
            missing: vec!["movielens-1m".into()],
        };
        Page::new("a title", &[("seed", "7".to_owned())], vec![left_out])
    }

    fn section(id: &str) -> Section {
        Section {
            id: id.into(),
            paper: "claim & more".into(),
            found: "<b>found</b>".into(),
            body: "<p>body</p>".into(),
            failed: false,
        }
    }

    #[test]
    fn the_page_says_what_was_run_where_and_what_was_not() {
        let scratch = Scratch::new("page-says");
        let out = scratch.path("out");
        example().add(section("iqgme/fig"), &out).unwrap();
        let page = fs::read_to_string(out.join("index.html")).unwrap();
        let parts = [
            "<h1>a title</h1>",
            "seed",
            "revision",
            "claim &amp; more",
            "<b>found</b>",
            "<h2 id=\"iqgme/fig\">iqgme/fig</h2>\n<p>body</p>",
            "bsvd/x",
            "cargo xtask data get movielens-1m",
        ];
        for part in parts {
            assert!(page.contains(part), "{part:?} is not on the page");
        }
        for outside in ["src=", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn another_program_goes_on_where_one_ended() {
        let scratch = Scratch::new("page-goes-on");
        let out = scratch.root();
        let mut alone = example();
        alone.add(section("iqgme/a"), out).unwrap();
        let mut second = Page::load(out).unwrap();
        assert_eq!(second, alone);
        second.add(section("bsvd/b"), out).unwrap();
        let page = fs::read_to_string(out.join("index.html")).unwrap();
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
        assert!(place("id=\"iqgme/a\"") < place("id=\"bsvd/b\""));
    }
}
