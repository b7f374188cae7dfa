//! `docs/results/claims.toml`: what papers claim, which stored numbers answer it and how agreement is judged; and what is put beside what people use.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::cells::Cell;
use crate::Result;

/// Where it stands, below the project's root.
pub const CLAIMS: &str = "docs/results/claims.toml";

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// When a number has moved.
    pub tolerance: Tolerance,
    /// Metrics in words, where their name is none.
    #[serde(default)]
    pub(crate) words: BTreeMap<String, String>,
    /// The papers, in the order of the page.
    #[serde(rename = "paper", default)]
    pub papers: Vec<Paper>,
    /// Their claims, in the order of the page.
    #[serde(rename = "claim", default)]
    pub claims: Vec<Claim>,
    /// Tables beside what people use.
    #[serde(rename = "job", default)]
    pub jobs: Vec<Job>,
}

/// Differences that are no differences.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// So many standard errors of a difference, of a run beside a stored one.
    pub errors: f64,
    /// At least so much of the number, for metrics without a line below.
    pub share: f64,
    /// Least difference by metric; that of single runs, of which no spread is known.
    pub least: BTreeMap<String, f64>,
    /// Metrics that tell of the machine; they are not compared.
    pub machine: Vec<String>,
}

impl Tolerance {
    /// The least difference of a metric about this value.
    pub fn least(&self, metric: &str, value: f64) -> f64 {
        let known = self.least.get(metric).copied();
        known.unwrap_or(self.share * value.abs())
    }
}

/// A paper, with the crates whose experiments are of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its letter.
    pub key: String,
    /// What it is about.
    pub title: String,
    /// Who wrote it, and which crate has its model, in a sentence.
    pub about: String,
    /// First parts of ids.
    pub models: Vec<String>,
}

/// A claim of a paper, or what an experiment that is ours asks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The experiment.
    pub id: String,
    /// Table or figure of the paper; empty where the question is ours.
    #[serde(default)]
    pub place: String,
    /// What the paper says, in a sentence.
    pub says: String,
    /// How agreement is judged.
    #[serde(default)]
    pub judge: Judge,
    /// A sentence about what was found, with numbers `{dataset setting method metric stat format}`; made by the judge where there is none.
    #[serde(default)]
    pub found: String,
    /// What is to be seen in its figure, for who has not read the paper.
    #[serde(default)]
    pub see: String,
    /// Why it is not met; said only then.
    #[serde(default)]
    pub why: String,
}

/// How agreement is judged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Judge {
    /// Not at all: numbers alone.
    #[default]
    Shown,
    /// Each printed number is met within two standard errors and `least`, or passed on the good side.
    Printed(Printed),
    /// Ours beats the best of the others, setting by setting.
    Better(Better),
    /// The mean goes up (or down) with a number of the setting.
    Grows(Grows),
    /// All means lie in a range.
    Between(Between),
}

/// A place: patterns of data set, setting, method and metric.
type Place = [String; 4];

/// About printed numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    pub(crate) at: Place,
    /// So much worse than print is still met.
    #[serde(default)]
    pub(crate) least: f64,
    /// Higher is better, lower is better; neither where there is no better.
    pub(crate) higher: Option<bool>,
}

/// About methods.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Better {
    /// Of ours.
    pub(crate) at: Place,
    pub(crate) others: Vec<String>,
    /// Keys of settings that others need not have, or whose best value counts.
    #[serde(default)]
    pub(crate) apart: Vec<String>,
    #[serde(default = "yes")]
    pub(crate) higher: bool,
    /// As good is good enough.
    #[serde(default)]
    pub(crate) level: bool,
}

/// About a trend.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grows {
    pub(crate) at: Place,
    /// Key of the setting.
    pub(crate) along: String,
    #[serde(default)]
    pub(crate) falls: bool,
}

/// About a range.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Between {
    pub(crate) at: Place,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// A table beside what people use.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its name in markers.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// The number in its cells.
    pub metric: String,
    /// The metric in words.
    pub unit: String,
    /// Higher is better.
    pub higher: bool,
    /// Decimals.
    #[serde(default = "three")]
    pub digits: usize,
    /// Ours, the default configuration first.
    pub ours: Vec<String>,
    /// What people use: the columns.
    pub peers: Vec<String>,
    /// Patterns of others that ours is beside, too; those that are best somewhere are named.
    #[serde(default)]
    pub(crate) others: Vec<String>,
    /// Names in words.
    #[serde(default)]
    pub about: String,
    /// Keys of settings that others need not have.
    #[serde(default)]
    pub(crate) apart: Vec<String>,
    /// Where its lines come from.
    pub rows: Vec<Rows>,
}

/// All settings of an experiment that fit are lines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// The experiment.
    pub id: String,
    #[serde(default = "any")]
    pub(crate) dataset: String,
    #[serde(default = "any")]
    pub(crate) setting: String,
}

/// Text with a capital.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn any() -> String {
    "*".to_owned()
}

fn yes() -> bool {
    true
}

fn three() -> usize {
    3
}

impl Claims {
    /// Reads the file's text.
    ///
    /// # Errors
    /// Text that is none, a cell in a sentence that is none, or an id that no paper has.
    pub fn parse(text: &str) -> Result<Self> {
        let claims: Self = toml::from_str(text)?;
        for claim in &claims.claims {
            let of_paper = |paper: &Paper| paper.has(&claim.id);
            if !claims.papers.iter().any(of_paper) {
                return Err(format!("{}: its model belongs to no paper", claim.id).into());
            }
            claim.cells()?;
        }
        Ok(claims)
    }

    /// Reads the file of the project at `root`.
    ///
    /// # Errors
    /// It is not there or damaged.
    pub fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(CLAIMS)).map_err(|e| format!("{CLAIMS}: {e}"))?;
        Ok(Self::parse(&text).map_err(|e| format!("{CLAIMS}: {e}"))?)
    }

    /// A metric in words, as a sentence begins.
    pub(crate) fn metric(&self, name: &str) -> String {
        let known = self.words.get(name).cloned();
        known.unwrap_or_else(|| capital(&name.replace('_', " ")))
    }

    /// The claims that an experiment answers.
    pub fn of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Claim> {
        self.claims.iter().filter(move |claim| claim.id == id)
    }

    /// All rows that a claim or a table asks for.
    pub fn cells(&self) -> Vec<Cell> {
        let of_claim = |claim: &Claim| {
            let asked = claim.judge.asked();
            let asked = asked
                .into_iter()
                .map(|place| Cell::pattern(&claim.id, place));
            let said = claim.cells().unwrap_or_default();
            asked.chain(said).collect::<Vec<_>>()
        };
        let mut cells: Vec<Cell> = self.claims.iter().flat_map(of_claim).collect();
        for job in &self.jobs {
            for rows in &job.rows {
                for method in job.ours.iter().chain(&job.peers).chain(&job.others) {
                    for metric in [&*job.metric, "seconds"] {
                        let place = [&*rows.dataset, &rows.setting, method, metric];
                        cells.push(Cell::pattern(&rows.id, place));
                    }
                }
            }
        }
        cells
    }
}

impl Paper {
    /// Whether an experiment is of this paper.
    pub fn has(&self, id: &str) -> bool {
        self.models.iter().any(|m| id.split('/').next() == Some(m))
    }
}

impl Claim {
    /// The numbers in its sentence.
    pub(crate) fn cells(&self) -> Result<Vec<Cell>> {
        let inside = self.found.split('{').skip(1);
        let texts = inside.filter_map(|part| Some(part.split_once('}')?.0));
        texts.map(|text| self.cell(text)).collect()
    }

    pub(crate) fn cell(&self, text: &str) -> Result<Cell> {
        Ok(Cell::parse(&format!("{} {text}", self.id))?)
    }
}

impl Judge {
    /// Places of the rows that are asked for.
    pub(crate) fn asked(&self) -> Vec<[&str; 4]> {
        let (at, others) = match self {
            Self::Shown => return Vec::new(),
            Self::Printed(p) => (&p.at, &[][..]),
            Self::Grows(g) => (&g.at, &[][..]),
            Self::Between(b) => (&b.at, &[][..]),
            Self::Better(b) => (&b.at, &b.others[..]),
        };
        let [dataset, setting, method, metric] = at;
        let methods = std::iter::once(method).chain(others);
        methods
            .map(|method| [&**dataset, setting, method, metric])
            .collect()
    }
}
