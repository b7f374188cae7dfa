//! What an experiment hands back, and the files it becomes.

use std::fs;
use std::path::Path;

use npb_catalogue::results::{ResultRow, rows_text};
use npb_catalogue::{Result, write_file};
use npb_report::{Figure, TextTable};

use crate::cache::Record;

/// What an experiment hands back.
#[derive(Default)]
pub struct Report {
    /// Rows of `results.csv`.
    pub results: Vec<ResultRow>,
    /// Tables for people.
    pub tables: Vec<TextTable>,
    /// Pictures.
    pub figures: Vec<Figure>,
    /// Sentences a reader of the numbers must know.
    pub notes: Vec<String>,
}

/// Summarises records in order of first appearance; `paper` knows what is printed for (dataset, setting, method, metric).
pub fn summarise(
    records: &[Record],
    paper: impl Fn(&str, &str, &str, &str) -> Option<f64>,
) -> Vec<ResultRow> {
    let mut groups: Vec<([String; 4], Vec<f64>)> = Vec::new();
    for record in records {
        let key = &record.key;
        for (name, value) in &record.outcome.metrics {
            let (method, metric) = match name.split_once('/') {
                Some((variant, metric)) => (format!("{}/{variant}", key.method), metric),
                None => (key.method.clone(), name.as_str()),
            };
            let group = [
                key.dataset.clone(),
                key.setting.clone(),
                method,
                metric.to_owned(),
            ];
            match groups.iter_mut().find(|(other, _)| *other == group) {
                Some((_, values)) => values.push(*value),
                None => groups.push((group, vec![*value])),
            }
        }
    }
    let row = |([dataset, setting, method, metric], values): ([String; 4], Vec<f64>)| {
        let (mean, sd) = mean_and_sd(&values);
        ResultRow {
            paper: paper(&dataset, &setting, &method, &metric),
            dataset,
            setting,
            method,
            metric,
            mean,
            sd,
            trials: values.len(),
        }
    };
    groups.into_iter().map(row).collect()
}

/// Mean and standard deviation (divisor n - 1; `None` below two values).
pub fn mean_and_sd(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (
        mean,
        (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()),
    )
}

impl Report {
    /// Writes `results.csv` and the figures of the experiment `id` into `folder`.
    pub(crate) fn write(&self, id: &str, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        write_file(&folder.join("results.csv"), &rows_text(id, &self.results))?;
        for figure in &self.figures {
            write_file(&folder.join(format!("{}.svg", figure.name)), &figure.svg)?;
            write_file(&folder.join(format!("{}.csv", figure.name)), &figure.csv())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use npb_catalogue::Scratch;

    use super::*;
    use crate::cache::{Outcome, TrialKey};

    fn record(method: &str, trial: u64, outcome: Outcome) -> Record {
        let key = TrialKey {
            experiment: "a/b".into(),
            dataset: "d".into(),
            setting: "missing=0.25;train=0.5".into(),
            method: method.into(),
            trial,
            seed: 1,
            config: String::new(),
        };
        Record { key, outcome }
    }

    fn rows() -> Vec<ResultRow> {
        let records = [
            record(
                "z",
                0,
                Outcome::metrics([("auc", 0.5), ("plug-in/auc", 0.25)]),
            ),
            record("a", 0, Outcome::metrics([("auc", 1.0)])),
            record(
                "z",
                1,
                Outcome::metrics([("auc", 1.0), ("plug-in/auc", 0.75)]),
            ),
        ];
        summarise(&records, |_, _, method, _| (method == "a").then_some(0.9))
    }

    #[test]
    fn trials_are_summarised_per_method_and_variant() {
        let rows = rows();
        let found: Vec<_> = rows
            .iter()
            .map(|r| (r.method.as_str(), r.mean, r.sd, r.trials, r.paper))
            .collect();
        let (sd, variant_sd) = (Some(0.125_f64.sqrt()), Some(0.125_f64.sqrt()));
        assert_eq!(
            found,
            [
                ("z", 0.75, sd, 2, None),
                ("z/plug-in", 0.5, variant_sd, 2, None),
                ("a", 1.0, None, 1, Some(0.9)),
            ]
        );
    }

    #[test]
    fn results_are_written_in_the_long_format() {
        let scratch = Scratch::new("report-write");
        let figure = Figure {
            name: "curve".into(),
            title: String::new(),
            caption: String::new(),
            svg: "<svg/>".into(),
            header: vec!["x".into(), "a,b".into()],
            rows: vec![vec!["1".into(), "say \"so\"".into()]],
        };
        let report = Report {
            results: rows(),
            figures: vec![figure],
            ..Default::default()
        };
        report.write("iqgme/fig", scratch.root()).unwrap();
        let text = fs::read_to_string(scratch.path("results.csv")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "experiment,dataset,setting,method,metric,mean,sd,trials,paper"
        );
        assert_eq!(
            lines[1],
            "iqgme/fig,d,missing=0.25;train=0.5,z,auc,0.75,0.3535533905932738,2,"
        );
        assert_eq!(
            lines[3],
            "iqgme/fig,d,missing=0.25;train=0.5,a,auc,1,,1,0.9"
        );
        let numbers = fs::read_to_string(scratch.path("curve.csv")).unwrap();
        assert_eq!(numbers, "x,\"a,b\"\n1,\"say \"\"so\"\"\"\n");
        assert!(scratch.path("curve.svg").exists());
    }
}
