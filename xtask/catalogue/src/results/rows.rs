//! Rows of results, and how they stand in a file: `results.csv` of a run, or the same under a head in `docs/results`.

use std::fmt::Write as _;

use npb_report::{Point, csv_line};

use crate::Result;

/// The first line of rows.
const NAMES: &str = "experiment,dataset,setting,method,metric,mean,sd,trials,paper";

/// Mean of one metric over the trials of one method in one setting.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultRow {
    /// Name of the data set's folder, or `simulated`.
    pub dataset: String,
    /// `key=value;key=value`.
    pub setting: String,
    /// Name of the method; our own begin with `npb:`.
    pub method: String,
    /// Name of the metric, in lower case.
    pub metric: String,
    /// Mean over trials.
    pub mean: f64,
    /// Standard deviation over trials (divisor n - 1); `None` for a single trial.
    pub sd: Option<f64>,
    /// How many trials.
    pub trials: usize,
    /// What the paper prints.
    pub paper: Option<f64>,
}

impl ResultRow {
    /// The mean as a point of a curve, with the standard deviation over trials as its error bar.
    pub fn at(&self, x: f64) -> Point {
        Point {
            x,
            y: self.mean,
            sd: self.sd,
        }
    }

    /// Standard error of the mean; 0 for a single trial.
    pub fn error(&self) -> f64 {
        self.sd.unwrap_or(0.0) / (self.trials.max(1) as f64).sqrt()
    }

    /// A number about what was simulated, over so many trials; the name's spaces make it a value of `key`.
    pub fn simulated(
        (key, name): (&str, &str),
        [method, metric]: [&str; 2],
        number: f64,
        trials: usize,
    ) -> Self {
        let setting = format!("{key}={}", name.replace([' ', ';', '='], "_"));
        Self {
            trials,
            ..Self::single(["simulated", &setting, method, metric], number)
        }
    }

    /// A number that is no mean: of this data set, setting, method and metric.
    pub fn single([dataset, setting, method, metric]: [&str; 4], number: f64) -> Self {
        Self {
            dataset: dataset.to_owned(),
            setting: setting.to_owned(),
            method: method.to_owned(),
            metric: metric.to_owned(),
            mean: number,
            sd: None,
            trials: 1,
            paper: None,
        }
    }

    /// Data set, setting, method and metric.
    pub fn place(&self) -> [&str; 4] {
        [&self.dataset, &self.setting, &self.method, &self.metric]
    }

    /// The row with numbers of six digits, as it is stored.
    pub(crate) fn rounded(&self) -> Self {
        let six = |v: f64| format!("{v:.5e}").parse().unwrap_or(v);
        Self {
            mean: six(self.mean),
            sd: self.sd.map(six),
            ..self.clone()
        }
    }
}

/// Results of one experiment, and where they came from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// Facts about the run by name; `data` comes once for each file.
    pub head: Vec<(String, String)>,
    /// Its numbers.
    pub rows: Vec<ResultRow>,
}

impl Stored {
    /// Reads lines `# name: fact` and the rows below them.
    ///
    /// # Errors
    /// A line that is neither; it is named.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self::with_ids(text)?.0)
    }

    /// The same, with the experiment of each row.
    pub(crate) fn with_ids(text: &str) -> Result<(Self, Vec<String>)> {
        let (mut stored, mut ids, mut named) = (Self::default(), Vec::new(), false);
        for (index, line) in text.lines().enumerate() {
            let damaged = |what: &str| format!("line {}: {what}", index + 1);
            if let Some(fact) = line.strip_prefix("# ") {
                let (name, fact) = fact.split_once(": ").ok_or_else(|| damaged("no fact"))?;
                stored.head.push((name.to_owned(), fact.to_owned()));
            } else if line == NAMES {
                named = true;
            } else {
                let row = named.then(|| row(line)).flatten();
                let (id, row) = row.ok_or_else(|| damaged("no row"))?;
                stored.rows.push(row);
                ids.push(id);
            }
        }
        Ok((stored, ids))
    }

    /// As it is read, with rows of the experiment `id`.
    pub fn text(&self, id: &str) -> String {
        head_text(&self.head) + &rows_text(id, &self.rows)
    }

    /// A fact about the run; empty where it is not known.
    pub fn fact(&self, name: &str) -> &str {
        let found = self.head.iter().find(|(other, _)| other == name);
        found.map_or("", |(_, fact)| fact)
    }

    /// The data files that were read, with their checksums.
    pub fn data(&self) -> Vec<&str> {
        let data = self.head.iter().filter(|(name, _)| name == "data");
        data.map(|(_, fact)| &**fact).collect()
    }
}

/// Facts about a run, a line each.
pub fn head_text(head: &[(String, String)]) -> String {
    let line = |(name, fact): &(String, String)| format!("# {name}: {}\n", fact.replace('\n', " "));
    head.iter().map(line).collect()
}

/// The file `results.csv` of an experiment.
pub fn rows_text(id: &str, rows: &[ResultRow]) -> String {
    let mut text = format!("{NAMES}\n");
    let number = |v: Option<f64>| v.map_or(String::new(), |v| v.to_string());
    for row in rows {
        let names = [id].into_iter().chain(row.place()).map(str::to_owned);
        let numbers = [
            row.mean.to_string(),
            number(row.sd),
            row.trials.to_string(),
            number(row.paper),
        ];
        let fields: Vec<String> = names.chain(numbers).collect();
        let _ = writeln!(text, "{}", csv_line(&fields));
    }
    text
}

/// The experiment of a row, and the row.
fn row(line: &str) -> Option<(String, ResultRow)> {
    let fields: [String; 9] = fields(line).try_into().ok()?;
    let [
        id,
        dataset,
        setting,
        method,
        metric,
        mean,
        sd,
        trials,
        paper,
    ] = fields;
    let number = |text: &str| match text {
        "" => Some(None),
        text => text.parse().ok().map(Some),
    };
    let row = ResultRow {
        dataset,
        setting,
        method,
        metric,
        mean: mean.parse().ok()?,
        sd: number(&sd)?,
        trials: trials.parse().ok()?,
        paper: number(&paper)?,
    };
    Some((id, row))
}

/// The fields of one line of comma-separated values.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        let doubled = quoted && c == '"' && characters.next_if_eq(&'"').is_some();
        match (c, fields.last_mut()) {
            (',', _) if !quoted => fields.push(String::new()),
            ('"', _) if !doubled => quoted = !quoted,
            (c, Some(field)) => field.push(c),
            (_, None) => {}
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let rows = vec![
            ResultRow {
                sd: Some(0.1 + 0.2),
                trials: 3,
                paper: Some(-0.5),
                ..ResultRow::single(["d", "a=1;b=x,\"y\"", "lr (told)", "auc"], 0.75)
            },
            ResultRow::single(["", "", "", "seconds"], 1e-9),
        ];
        let fact = |name: &str, fact: &str| (name.to_owned(), fact.to_owned());
        let head = vec![fact("scale", "quick"), fact("data", "a/b: 12")];
        let stored = Stored { head, rows };
        let again = Stored::parse(&stored.text("a/b")).unwrap();
        assert_eq!(again, stored);
        assert_eq!((again.fact("scale"), again.fact("x")), ("quick", ""));
        assert_eq!(again.data(), ["a/b: 12"]);
        let error = Stored::parse(&(stored.text("a/b") + "a,b\n")).unwrap_err();
        assert_eq!(error.to_string(), "line 6: no row");
    }

    #[test]
    fn stored_numbers_have_six_digits() {
        let row = ResultRow::single(["", "", "", ""], 1234.567891).rounded();
        assert_eq!((row.mean, row.error()), (1234.57, 0.0));
        let error = ResultRow {
            sd: Some(3.0),
            trials: 9,
            ..row
        }
        .error();
        assert_eq!(error, 1.0);
    }
}
