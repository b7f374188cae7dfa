//! An experiment, and how one is run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use npb_catalogue::data::{DataFolder, DataSet, sha256_of};
use npb_catalogue::results::head_text;
use npb_catalogue::{Entry, Result, Scale, Section, facts, root, today, write_file};

use crate::cache::TrialCache;
use crate::context::Context;
use crate::html::{Ran, section};
use crate::report::Report;

/// Runs one table or figure of the papers.
pub type Run = fn(&Context<'_>) -> Result<Report>;

/// How experiments are run.
pub(crate) struct Setting<'a> {
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
    pub(crate) resume: bool,
    pub(crate) folder: &'a DataFolder,
    pub(crate) sets: &'a [DataSet],
    pub(crate) out: &'a Path,
    /// What one sees there, for the reader of the page.
    pub(crate) shows: Option<&'a str>,
}

impl Setting<'_> {
    /// Runs an experiment, writes its files and returns its section of the page.
    pub(crate) fn run(&self, experiment: &Entry, run: Run) -> Result<Section> {
        let place = self.out.join(&experiment.id);
        fs::create_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
        let cache = TrialCache::open(&place.join("trials.jsonl"), self.resume)?;
        let context = Context::new(&experiment.id, self.scale, self.seed, self.folder, &cache);
        println!("{}: {}", experiment.id, experiment.what);
        let clock = Instant::now();
        let report = run(&context).map_err(|e| e.to_string());
        let seconds = clock.elapsed().as_secs_f64();
        let files = self.checksums(&context.files())?;
        match &report {
            Ok(report) => {
                report.write(&experiment.id, &place)?;
                let head = self.head(&experiment.id, &files, context.counts(), seconds);
                write_file(&place.join("run.txt"), &head_text(&head))?;
                println!("{}: done in {seconds:.1} s", experiment.id);
            }
            Err(reason) => eprintln!("{}: failed: {reason}", experiment.id),
        }
        let what = match self.shows {
            Some(shows) => format!("{shows}. {}", experiment.what),
            None => experiment.what.clone(),
        };
        Ok(section(&Ran {
            id: experiment.id.clone(),
            what,
            found: String::new(),
            report,
            files,
            trials: context.counts(),
            seconds,
        }))
    }

    /// Where the numbers of an experiment come from.
    fn head(
        &self,
        id: &str,
        files: &[(String, String, &str)],
        (cached, all): (usize, usize),
        seconds: f64,
    ) -> Vec<(String, String)> {
        let mut head = vec![
            ("experiment", id.to_owned()),
            ("date", today()),
            ("scale", self.scale.name().to_owned()),
            ("seed", self.seed.to_string()),
        ];
        head.extend(facts(&root()));
        head.push(("seconds", format!("{seconds:.1}")));
        head.push((
            "trials",
            format!("{all}, {cached} of them from an earlier run"),
        ));
        head.extend(
            files
                .iter()
                .map(|(name, sum, _)| ("data", format!("{name} {sum}"))),
        );
        let named = |(name, fact): (&str, String)| (name.to_owned(), fact);
        head.into_iter().map(named).collect()
    }

    /// Name, checksum and standing of each data file that was read.
    fn checksums(&self, files: &[PathBuf]) -> Result<Vec<(String, String, &'static str)>> {
        let mut rows = Vec::new();
        for path in files.iter().filter(|path| path.is_file()) {
            let sum = sha256_of(path)?;
            let known = self.sets.iter();
            let known = known.flat_map(|set| set.files.iter().map(move |file| (set, file)));
            let recorded = known
                .into_iter()
                .find(|(set, file)| self.folder.path(&set.name, &file.path) == *path);
            let standing = match recorded {
                Some((_, file)) if file.sha256 == sum => "as recorded",
                Some(_) => "differs from the recorded file",
                None => "no checksum recorded",
            };
            let name = path.strip_prefix(self.folder.root()).unwrap_or(path);
            rows.push((name.display().to_string(), sum, standing));
        }
        Ok(rows)
    }
}
