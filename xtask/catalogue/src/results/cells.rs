//! A number of the store, as a page names it: `bsvd/table-5.2 movielens-1m code=0000 npb:bsvd rmse mean .4`.

use super::rows::ResultRow;
use crate::names::matches;

/// Which number is meant, and how it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Id of the experiment.
    pub id: String,
    /// Data set, setting, method and metric; `*` stands for any characters.
    place: [String; 4],
    /// Another method, and whether its number is divided by or taken away.
    against: Option<(char, String)>,
    stat: Stat,
    format: Format,
}

/// What of the rows that are meant.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stat {
    Mean,
    Sd,
    Error,
    Trials,
    Paper,
    /// Of the means of several rows.
    Least,
    Most,
    Average,
    Rows,
}

const STATS: [(&str, Stat); 9] = [
    ("mean", Stat::Mean),
    ("sd", Stat::Sd),
    ("error", Stat::Error),
    ("trials", Stat::Trials),
    ("paper", Stat::Paper),
    ("least", Stat::Least),
    ("most", Stat::Most),
    ("average", Stat::Average),
    ("rows", Stat::Rows),
];

/// So many decimals; `0.3` keeps the 0 before the point that `.3` leaves out, `+` says the sign, `%` makes it percent.
#[derive(Clone, Debug, PartialEq)]
struct Format {
    plus: bool,
    zero: bool,
    decimals: usize,
    percent: bool,
}

impl Format {
    fn parse(text: &str) -> Option<Self> {
        let (plus, rest) = (text.starts_with('+'), text.trim_start_matches('+'));
        let (percent, rest) = (rest.ends_with('%'), rest.trim_end_matches('%'));
        let (zero, decimals) = rest.split_once('.')?;
        Some(Self {
            plus,
            zero: match zero {
                "" => false,
                "0" => true,
                _ => return None,
            },
            decimals: decimals.parse().ok().filter(|&n| n < 10)?,
            percent,
        })
    }

    fn write(&self, value: f64) -> String {
        let value = if self.percent { 100.0 * value } else { value };
        let text = format!("{:.*}", self.decimals, value.abs());
        let is_zero = text.chars().all(|c| "0.".contains(c));
        let text = match text.strip_prefix("0.") {
            Some(after) if !self.zero => format!(".{after}"),
            _ => text,
        };
        let sign = match (value < 0.0 && !is_zero, self.plus) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        format!("{sign}{text}{}", if self.percent { "%" } else { "" })
    }
}

/// A number with so many decimals, without a 0 before the point.
pub fn decimals(value: f64, decimals: usize) -> String {
    Format {
        plus: false,
        zero: false,
        decimals,
        percent: false,
    }
    .write(value)
}

impl Cell {
    /// Reads `id dataset setting method metric stat format`; `-` is the empty setting, a name with blanks stands in quotes. The method may be
    /// `a//b` (ratio of a to b) or `a~b` (a less b).
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts: [String; 7] = parts(text).try_into().map_err(|_| {
            format!("{text:?} is not: experiment dataset setting method metric stat format")
        })?;
        let [id, dataset, setting, method, metric, stat, format] = parts;
        let setting = if setting == "-" {
            String::new()
        } else {
            setting
        };
        let known = STATS.iter().find(|(name, _)| *name == stat);
        let known = known.ok_or_else(|| {
            let names = STATS.map(|(name, _)| name).join(", ");
            format!("{stat:?} is none of {names}")
        })?;
        let (method, against) = methods(&method);
        let format = Format::parse(&format)
            .ok_or_else(|| format!("{format:?} is no format, such as .3, 0.3, +.3 or .1%"))?;
        Ok(Self {
            id,
            place: [dataset, setting, method, metric],
            against,
            stat: known.1,
            format,
        })
    }

    /// All rows of an experiment that fit data set, setting, method and metric.
    pub(crate) fn pattern(id: &str, [dataset, setting, method, metric]: [&str; 4]) -> Self {
        let (method, against) = methods(method);
        Self {
            id: id.to_owned(),
            place: [dataset, setting, &method, metric].map(str::to_owned),
            against,
            stat: Stat::Rows,
            format: Format {
                plus: false,
                zero: false,
                decimals: 0,
                percent: false,
            },
        }
    }

    /// Whether a row of the experiment is meant, that of the other method included.
    pub fn means(&self, row: &ResultRow) -> bool {
        let fits = |method: &str| {
            let [dataset, setting, _, metric] = &self.place;
            let pattern = [dataset, setting, method, metric];
            let pairs = pattern.into_iter().zip(row.place());
            pairs.into_iter().all(|(p, text)| matches(p, text))
        };
        let other = self.against.as_ref();
        fits(&self.place[2]) || other.is_some_and(|(_, method)| fits(method))
    }

    /// Rows of the method alone; with another method, its rows over or less those.
    pub(crate) fn resolved(&self, rows: Vec<ResultRow>) -> Vec<ResultRow> {
        match &self.against {
            Some((sign, method)) => against(&rows, &self.place[2], *sign, method),
            None => rows,
        }
    }

    /// The number as it is written, of the rows that are meant.
    ///
    /// # Errors
    /// Nothing or too much is meant; in words.
    pub(crate) fn text(&self, rows: Vec<ResultRow>) -> Result<String, String> {
        let rows = self.resolved(rows);
        let place = self.place.join(" ");
        if rows.is_empty() {
            return Err(format!("{}: nothing stored is {place}", self.id));
        }
        let one = match &rows[..] {
            [row] => Ok(row),
            rows => Err(format!("{}: {} rows are {place}", self.id, rows.len())),
        };
        let lacks = |what: &str| format!("{}: {place} has no {what}", self.id);
        let means = || rows.iter().map(|row| row.mean);
        let value = match self.stat {
            Stat::Mean => one?.mean,
            Stat::Sd => one?.sd.ok_or_else(|| lacks("sd"))?,
            Stat::Error => match one? {
                row if row.sd.is_some() => row.error(),
                _ => return Err(lacks("error")),
            },
            Stat::Trials => one?.trials as f64,
            Stat::Paper => one?.paper.ok_or_else(|| lacks("printed number"))?,
            Stat::Least => means().fold(f64::INFINITY, f64::min),
            Stat::Most => means().fold(f64::NEG_INFINITY, f64::max),
            Stat::Average => means().sum::<f64>() / rows.len() as f64,
            Stat::Rows => rows.len() as f64,
        };
        Ok(self.format.write(value))
    }
}

/// A method, and another one that it is divided by or that is taken away.
fn methods(text: &str) -> (String, Option<(char, String)>) {
    let (split, sign) = match text.split_once("//") {
        None => (text.split_once('~'), '~'),
        split => (split, '/'),
    };
    match split {
        Some((a, b)) => (a.to_owned(), Some((sign, b.to_owned()))),
        None => (text.to_owned(), None),
    }
}

/// Rows of `method` over or less those of another in the same place; nothing is known of their spread.
fn against(rows: &[ResultRow], method: &str, sign: char, other: &str) -> Vec<ResultRow> {
    let of = |row: &&ResultRow| matches(method, &row.method);
    let pair = |row: &ResultRow| {
        let is_other = |o: &&ResultRow| {
            let same =
                (&o.dataset, &o.setting, &o.metric) == (&row.dataset, &row.setting, &row.metric);
            same && matches(other, &o.method)
        };
        let theirs = rows.iter().find(is_other)?.mean;
        let mean = match sign {
            '/' => row.mean / theirs,
            _ => row.mean - theirs,
        };
        let place = row.place();
        Some(ResultRow::single(place, mean))
    };
    rows.iter().filter(of).filter_map(pair).collect()
}

/// Words between blanks; quotes hold together.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut quoted, mut inside) = (Vec::<String>::new(), false, false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => inside = false,
            c => {
                if !inside {
                    parts.push(String::new());
                }
                inside = true;
                if let Some(part) = parts.last_mut() {
                    part.push(c);
                }
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Store, Stored};

    fn store() -> Store {
        let row = |setting: &str, method: &str, mean: f64| ResultRow {
            sd: Some(0.02),
            trials: 4,
            paper: Some(0.9),
            ..ResultRow::single(["d", setting, method, "auc"], mean)
        };
        let rows = vec![
            row("k=1", "npb:a", 0.962),
            row("k=2", "npb:a", -0.0004),
            row("k=1", "b (told)", 0.481),
            ResultRow::single(["d", "", "c", "auc"], 12.0),
        ];
        let stored = Stored {
            head: Vec::new(),
            rows,
        };
        let mut store = Store::default();
        store.experiments.insert("x/y".to_owned(), stored);
        store
    }

    #[test]
    fn numbers_are_found_and_written() {
        for (cell, text) in [
            ("d k=1 npb:a auc mean .3", ".962"),
            ("d k=1 npb:a auc mean 0.2", "0.96"),
            ("d k=1 npb:a auc mean .1%", "96.2%"),
            ("d k=1 npb:a auc sd .2", ".02"),
            ("d k=1 npb:a auc error .2", ".01"),
            ("d k=1 npb:a auc trials .0", "4"),
            ("d k=1 npb:a auc paper +.1", "+.9"),
            ("d k=2 npb:a auc mean .3", ".000"),
            ("d k=2 npb:a auc mean .4", "-.0004"),
            ("d - c auc mean .0", "12"),
            ("d k=1 \"npb:a//b (told)\" auc mean .1", "2.0"),
            ("d k=* \"npb:a~b (told)\" auc most .3", ".481"),
            ("* k=* npb:* auc least .1", ".0"),
            ("* k=* npb:* auc average .4", ".4808"),
            ("* * * auc rows .0", "4"),
        ] {
            let cell = Cell::parse(&format!("x/y {cell}")).unwrap();
            let found = store().number(&cell);
            assert_eq!(found.as_deref(), Ok(text), "{cell:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_said() {
        for (cell, words) in [
            ("x/z d k=1 npb:a auc mean .3", "no run of x/z is stored"),
            ("x/y d k=3 npb:a auc mean .3", "nothing stored is d k=3"),
            ("x/y d k=* npb:a auc mean .3", "2 rows are"),
            ("x/y d - c auc sd .3", "has no sd"),
        ] {
            let error = store().number(&Cell::parse(cell).unwrap()).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        for (cell, words) in [
            ("x/y d k=1 npb:a auc", "is not: experiment"),
            (
                "x/y d k=1 npb:a auc middle .3",
                "\"middle\" is none of mean",
            ),
            ("x/y d k=1 npb:a auc mean 3", "\"3\" is no format"),
        ] {
            let error = Cell::parse(cell).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
