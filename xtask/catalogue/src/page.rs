//! `index.html`, and for experiments a page for each paper beside it; pictures are those in the folders of the experiments, nothing is loaded from
//! elsewhere. Several programs add to it one after the other.

use std::fs;
use std::path::Path;

use npb_report::html::{self, escape};
use serde::{Deserialize, Serialize};

use crate::results::{Claim, Claims, Finding, Paper, Store, Verdict, capital, finding, tally};
use crate::{Result, data, machine, root};

/// A report: what was run where, and what was found.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Page {
    title: String,
    facts: Vec<(String, String)>,
    sections: Vec<Section>,
    left_out: Vec<LeftOut>,
    /// Sections stand on a page for each paper, below what it claims.
    by_paper: bool,
}

/// One experiment or check on the page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// `crate/name`.
    pub id: String,
    /// What was run, as text.
    pub what: String,
    /// What was found, in short, as text; of experiments claims tell it.
    pub found: String,
    /// What stands below its heading, as HTML.
    pub body: String,
    /// It could not be run to its end.
    pub failed: bool,
    /// Its first picture: name of the file, and whether it is a drawing, whose colours may be turned for the dark.
    pub picture: Option<(String, bool)>,
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
            by_paper: false,
        }
    }

    /// The page of `reproduce`.
    pub fn reproduced(scale: &str, seed: u64, left_out: Vec<LeftOut>) -> Self {
        let facts = [("scale", scale.to_owned()), ("seed", seed.to_string())];
        let page = Self::new(
            "npb: what the papers claim, and what came out",
            &facts,
            left_out,
        );
        Self {
            by_paper: true,
            ..page
        }
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

    /// With the sections of an earlier run of the same scale and seed in `out`, if there is one.
    #[must_use]
    pub fn going_on(mut self, out: &Path) -> Self {
        let same = |other: &Self| {
            ["scale", "seed"]
                .iter()
                .all(|n| self.fact(n) == other.fact(n))
        };
        if let Some(before) = Self::load(out).ok().filter(same) {
            self.sections = before.sections;
        }
        self
    }

    fn fact(&self, name: &str) -> &str {
        let found = self.facts.iter().find(|(other, _)| other == name);
        found.map_or("", |(_, fact)| fact)
    }

    /// Adds a section, in place of an earlier one of the same id, and writes the page, so that it is complete after every experiment and a stopped run
    /// leaves one.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn add(&mut self, section: Section, out: &Path) -> Result<()> {
        self.sections.retain(|other| other.id != section.id);
        self.sections.push(section);
        self.write(out)
    }

    /// Writes the pages, and what [`load`](Self::load) reads.
    ///
    /// # Errors
    /// `out` cannot be written, or the list of claims is damaged.
    pub fn write(&self, out: &Path) -> Result<()> {
        fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
        write_file(&out.join(KEPT), &serde_json::to_string(self)?)?;
        if !self.by_paper {
            return write_file(&out.join("index.html"), &self.alone());
        }
        let mut store = Store::of_run(out)?;
        // An earlier run may have left folders there.
        let is_shown = |id: &String| self.sections.iter().any(|s| s.id == *id && !s.failed);
        store.experiments.retain(|id, _| is_shown(id));
        let view = View {
            page: self,
            claims: Claims::read(&root())?,
            store,
        };
        for paper in view.papers() {
            write_file(&out.join(file_of(paper)), &view.of_paper(paper))?;
        }
        write_file(&out.join("index.html"), &view.index())
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

    fn facts(&self) -> String {
        let cells = |(name, value): &(String, String)| vec![name.clone(), value.clone()];
        let facts: Vec<Vec<String>> = self.facts.iter().map(cells).collect();
        html::table::<&str>(&[], &facts)
    }

    /// All sections on one page.
    fn alone(&self) -> String {
        let row = |s: &Section| {
            let (id, what, found) = (escape(&s.id), escape(&s.what), escape(&s.found));
            format!("<tr><td><a href=\"#{id}\">{id}</a></td><td>{what}</td><td>{found}</td></tr>")
        };
        let rows: String = self.sections.iter().map(row).collect();
        let mut page = self.facts();
        page += &format!(
            "<h2>Summary</h2><div class=\"wide\"><table><tr><th>check</th><th>what</th><th>found</th></tr>{rows}</table></div>\n"
        );
        for Section { id, body, .. } in &self.sections {
            let id = escape(id);
            page += &format!("<h2 id=\"{id}\">{id}</h2>\n{body}");
        }
        html::page(&self.title, &page)
    }

    fn left_out(&self) -> String {
        let mut page = String::new();
        if !self.left_out.is_empty() {
            page += "<h2 id=\"left-out\">Left out</h2><p>These experiments need data that is not there:</p>";
            let cells = |l: &LeftOut| vec![l.id.clone(), l.missing.join(", ")];
            let rows: Vec<Vec<String>> = self.left_out.iter().map(cells).collect();
            page += &html::table(&["experiment", "data sets"], &rows);
        }
        if let Some(command) = self.get_command() {
            page += &format!("<p>To get it: <code>{}</code></p>", escape(&command));
        }
        page
    }
}

/// How claims stand beside their picture, and where a list of contents folds.
const STYLE: &str = "<style>\
.claim{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;padding:.8rem 0;border-bottom:1px solid var(--line);align-items:flex-start}\
.claim .says{margin-top:.6rem}.claim .says:first-child{margin-top:0}\
@media(min-width:700px){.claim>div:first-child{margin-left:calc(220px + 1.2rem)}}\
.claim>div{flex:1 1 17rem;min-width:0;overflow-wrap:anywhere}.claim p{margin:.15rem 0;max-width:48rem}\
.claim img{width:220px;max-width:100%;max-height:170px;object-fit:contain;object-position:left top;background:#fff;border-radius:4px}\
.verdict{font-weight:bold}.verdict.holds{color:light-dark(#176b2c,#7ec98d)}.verdict.fails{color:var(--bad)}\
nav ul{padding-left:1.2rem;margin:.2rem 0}a{color:light-dark(#0550ae,#8ab4f8)}\
details{margin:.6rem 0}details summary{font-weight:600}\
@media(prefers-color-scheme:dark){img.drawn{filter:invert(.9) hue-rotate(180deg)}}</style>\n";

fn file_of(paper: &Paper) -> String {
    format!("paper-{}.html", paper.key)
}

/// A page with the claims that its run answers.
struct View<'a> {
    page: &'a Page,
    claims: Claims,
    store: Store,
}

impl View<'_> {
    /// The papers of which something was run.
    fn papers(&self) -> impl Iterator<Item = &Paper> {
        let papers = self.claims.papers.iter();
        papers.filter(|paper| self.sections(paper).next().is_some())
    }

    /// What was run of a paper, in the order of its claims.
    fn sections<'a>(&'a self, paper: &'a Paper) -> impl Iterator<Item = &'a Section> {
        let sections = self.page.sections.iter();
        let mut sections: Vec<&Section> = sections.filter(|s| paper.has(&s.id)).collect();
        let place = |s: &&Section| self.claims.claims.iter().position(|c| c.id == s.id);
        sections.sort_by_key(|s| place(s).unwrap_or(usize::MAX));
        sections.into_iter()
    }

    /// What the papers claim, and what came out.
    fn index(&self) -> String {
        let mut page = STYLE.to_owned();
        page += &format!(
            "<p>{} Scale: {}, seed {}. A picture leads to its experiment with all numbers.</p>\n",
            tally(&self.claims, &self.store),
            escape(self.page.fact("scale")),
            escape(self.page.fact("seed"))
        );
        if self.page.fact("scale") == "smoke" {
            page += "<p class=\"warning\">Smoke scale shows that everything runs. Its numbers say nothing: too few rows, sweeps and trials.</p>\n";
        }
        page += "<nav><ul>";
        for paper in self.papers() {
            let (key, title) = (escape(&paper.key), escape(&paper.title));
            let n = self.sections(paper).count();
            let file = file_of(paper);
            page += &format!(
                "<li><a href=\"#{key}\">{title}</a>; <a href=\"{file}\">{n} experiments in full</a></li>"
            );
        }
        if !self.page.left_out.is_empty() {
            page += "<li><a href=\"#left-out\">Left out</a></li>";
        }
        page += "</ul></nav>\n";
        let facts = self.page.facts();
        page += &format!("<details><summary>Where and how it was run</summary>{facts}</details>\n");
        for paper in self.papers() {
            let (key, title) = (escape(&paper.key), escape(&paper.title));
            page += &format!("<h2 id=\"{key}\">{title}</h2>\n");
            for section in self.sections(paper) {
                page += &self.card(paper, section);
            }
        }
        html::page(&self.page.title, &(page + &self.page.left_out()))
    }

    /// An experiment in short: its claims, and its first picture.
    fn card(&self, paper: &Paper, section: &Section) -> String {
        let (id, file) = (escape(&section.id), file_of(paper));
        let link = format!("{file}#{id}");
        let picture = section.picture.as_ref().map(|(name, is_drawn)| {
            let class = if *is_drawn { " class=\"drawn\"" } else { "" };
            let name = escape(name);
            format!("<a href=\"{link}\"><img{class} loading=\"lazy\" src=\"{id}/{name}\" alt=\"{id}\"></a>")
        });
        let said = self.said(section);
        format!(
            "<div class=\"claim\">{}<div>{said}<p class=\"quiet\"><a href=\"{link}\">{id}</a></p></div></div>\n",
            picture.unwrap_or_default()
        )
    }

    /// What is claimed and what was found; what was run where nothing is claimed.
    fn said(&self, section: &Section) -> String {
        let mut said: String = match section.failed {
            true => format!("<p class=\"failed\">{}</p>", escape(&section.found)),
            false => String::new(),
        };
        let mut is_claimed = false;
        for claim in self.claims.of(&section.id) {
            is_claimed = true;
            said += &claimed(claim, &finding(&self.claims, claim, &self.store));
        }
        if !is_claimed {
            said += &format!("<p>{}.</p>", escape(&capital(&section.what)));
        }
        said
    }

    /// The experiments of a paper in full.
    fn of_paper(&self, paper: &Paper) -> String {
        let mut page = STYLE.to_owned();
        page += "<nav><p><a href=\"index.html\">All papers</a></p><ul>";
        for section in self.sections(paper) {
            let id = escape(&section.id);
            let what = escape(&section.what);
            page += &format!("<li><a href=\"#{id}\">{id}</a>: {what}</li>");
        }
        page += "</ul></nav>\n";
        for section in self.sections(paper) {
            let (id, what) = (escape(&section.id), escape(&capital(&section.what)));
            let said = self.said(section);
            page += &format!("<h2 id=\"{id}\">{id}</h2>\n{said}<p class=\"quiet\">{what}.</p>");
            for claim in self.claims.of(&section.id).filter(|c| !c.see.is_empty()) {
                page += &format!("<p>What to see: {}.</p>", escape(&claim.see));
            }
            page += &section.body;
        }
        html::page(&paper.title, &page)
    }
}

/// A claim, whether it holds, and the numbers.
fn claimed(claim: &Claim, found: &Finding) -> String {
    let place = match claim.place.is_empty() {
        true => "Our question".to_owned(),
        false => format!("The paper, {}", escape(&claim.place)),
    };
    let class = match found.verdict {
        Verdict::Holds => "holds",
        Verdict::Fails => "fails",
        _ => "open",
    };
    let says = escape(&claim.says);
    let verdict = format!(
        "<span class=\"verdict {class}\">{}</span>",
        found.verdict.words()
    );
    let sentence = escape(&found.sentence);
    format!("<p class=\"says\">{place}: {says}</p><p>Here: {verdict}. {sentence}</p>")
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
    use crate::results::{ResultRow, rows_text};

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
            what: "rows & columns".into(),
            found: "passed".into(),
            body: "<p>body</p>".into(),
            failed: false,
            picture: Some(("curve.svg".into(), true)),
        }
    }

    #[test]
    fn the_page_says_what_was_run_where() {
        let scratch = Scratch::new("page-says");
        let out = scratch.path("out");
        example().add(section("iqgme/fig"), &out).unwrap();
        let page = fs::read_to_string(out.join("index.html")).unwrap();
        let parts = [
            "<h1>a title</h1>",
            "seed",
            "revision",
            "rows &amp; columns",
            "passed",
            "<h2 id=\"iqgme/fig\">iqgme/fig</h2>\n<p>body</p>",
        ];
        for part in parts {
            assert!(page.contains(part), "{part:?} is not on the page");
        }
        assert_eq!(from_outside(&page), [""; 0]);
    }

    /// What a page would load that is not in its folder.
    fn from_outside(page: &str) -> Vec<&str> {
        let sources = page.split("src=\"").skip(1);
        let sources = sources
            .filter(|s| s.starts_with('/') || s.split('"').next().unwrap_or(s).contains(':'));
        let loads = ["<script", "<link", "@import", "url("];
        loads
            .into_iter()
            .filter(|l| page.contains(l))
            .chain(sources)
            .collect()
    }

    #[test]
    fn claims_come_first_and_each_paper_has_a_page() {
        let scratch = Scratch::new("page-claims");
        let out = scratch.root();
        let folder = scratch.path("priors/coin");
        fs::create_dir_all(&folder).unwrap();
        let row = |setting: &str, metric: &str, mean: f64| ResultRow {
            paper: Some(10.0),
            ..ResultRow::single(["simulated", setting, "npb:conjugate", metric], mean)
        };
        let rows = [row("prior=2;heads=8;tails=2", "a", 10.0)];
        fs::write(folder.join("results.csv"), rows_text("priors/coin", &rows)).unwrap();
        let left_out = example().left_out;
        let mut page = Page::reproduced("smoke", 1, left_out);
        page.write(out).unwrap();
        let index = fs::read_to_string(out.join("index.html")).unwrap();
        assert!(
            index.contains("can be judged: 0;"),
            "what an earlier run left is not of this one"
        );
        page.add(section("priors/coin"), out).unwrap();
        page.add(section("iqgme/none"), out).unwrap();
        let index = fs::read_to_string(out.join("index.html")).unwrap();
        let place = |text: &str| index.find(text).unwrap_or_else(|| panic!("{text}"));
        let claim = place("class=\"verdict holds\"");
        assert!(claim < place("Left out</h2>") && place("<nav>") < claim);
        assert!(index.contains("cargo xtask data get movielens-1m"));
        assert!(index.contains("src=\"priors/coin/curve.svg\""));
        assert!(
            index.contains("<p>Rows &amp; columns.</p>"),
            "what nobody claims is told"
        );
        assert_eq!(from_outside(&index), [""; 0]);
        let paper = fs::read_to_string(out.join("paper-Z.html")).unwrap();
        assert!(paper.contains("<p>body</p>") && paper.contains("What to see"));
        assert!(!index.contains("<p>body</p>") && out.join("paper-W.html").exists());
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
        second.add(section("bsvd/b"), out).unwrap();
        assert_eq!(example().going_on(out).sections, second.sections);
        assert_eq!(second.sections.len(), 2);
        let other = Page::new("", &[("seed", "8".to_owned())], Vec::new());
        assert!(
            other.going_on(out).sections.is_empty(),
            "another seed is another run"
        );
        let page = fs::read_to_string(out.join("index.html")).unwrap();
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
        assert!(place("id=\"iqgme/a\"") < place("id=\"bsvd/b\""));
    }
}
