//! What an experiment is given: scale, seed, data, and a way to run trials.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use rand::Rng;

use crate::cache::{Outcome, Record, TrialCache, TrialKey};
use npb_catalogue::data::{DataFolder, sha256_of_bytes};
use npb_catalogue::{Result, Scale};

/// One piece of work whose outcome is kept.
#[derive(Clone, Debug)]
pub struct Trial<W> {
    /// Name of the data set's folder, or `simulated`.
    pub dataset: String,
    /// `key=value;key=value`.
    pub setting: String,
    /// Name of the method.
    pub method: String,
    /// Number of the trial, from 0.
    pub trial: u64,
    /// Everything else that the outcome depends on, as text: the method's settings, checksums of the data.
    pub config: String,
    /// What the runner works on.
    pub work: W,
}

impl<W> Trial<W> {
    /// One trial of a method: data set, setting and method are those of `results.csv`.
    pub fn new([dataset, setting, method]: [&str; 3], trial: u64, config: String, work: W) -> Self {
        Self {
            dataset: dataset.to_owned(),
            setting: setting.to_owned(),
            method: method.to_owned(),
            trial,
            config,
            work,
        }
    }

    /// Trials 0 to n - 1 of the same work.
    pub fn runs(n: u64, place: [&str; 3], config: &str, work: W) -> Vec<Self>
    where
        W: Clone,
    {
        let one = |trial| Self::new(place, trial, config.to_owned(), work.clone());
        (0..n).map(one).collect()
    }
}

/// What an experiment is given.
pub struct Context<'a> {
    /// Id of the experiment.
    pub experiment: &'a str,
    /// How much is run.
    pub scale: Scale,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Where data sets are.
    pub data: &'a DataFolder,
    cache: &'a TrialCache,
    /// Trials taken from an earlier run, and all trials.
    counts: (AtomicUsize, AtomicUsize),
    /// Data files that were read.
    files: Mutex<Vec<PathBuf>>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        experiment: &'a str,
        scale: Scale,
        seed: u64,
        data: &'a DataFolder,
        cache: &'a TrialCache,
    ) -> Self {
        Self {
            experiment,
            scale,
            seed,
            data,
            cache,
            counts: (AtomicUsize::new(0), AtomicUsize::new(0)),
            files: Mutex::new(Vec::new()),
        }
    }

    /// Runs trials in parallel and returns their records in the order asked for. A trial found in the cache is not run;
    /// one that is run gets its own seed, is timed (metric `seconds`) and kept. The first failure ends the run.
    pub fn run_trials<W: Sync>(
        &self,
        trials: &[Trial<W>],
        run: impl Fn(&Trial<W>, u64) -> Result<Outcome> + Sync,
    ) -> Result<Vec<Record>> {
        let bar = bar(trials.len(), self.experiment);
        let records = in_parallel(trials.len(), |index| {
            let record = self.run_trial(&trials[index], &run);
            bar.inc(1);
            record
        });
        bar.finish_and_clear();
        records
    }

    fn run_trial<W>(
        &self,
        trial: &Trial<W>,
        run: &(impl Fn(&Trial<W>, u64) -> Result<Outcome> + Sync),
    ) -> Result<Record> {
        let key = self.key(trial);
        self.counts.1.fetch_add(1, Ordering::Relaxed);
        if let Some(outcome) = self.cache.get(&key) {
            self.counts.0.fetch_add(1, Ordering::Relaxed);
            let outcome = outcome.clone();
            return Ok(Record { key, outcome });
        }
        let place = || {
            let Trial {
                dataset,
                setting,
                method,
                trial,
                ..
            } = trial;
            format!("{dataset}, {setting}, {method}, trial {trial}")
        };
        let clock = Instant::now();
        let mut outcome = run(trial, key.seed).map_err(|e| format!("{}: {e}", place()))?;
        let seconds = clock.elapsed().as_secs_f64();
        outcome
            .metrics
            .entry("seconds".to_owned())
            .or_insert(seconds);
        if let Some(name) = outcome.not_finite() {
            return Err(format!("{}: {name} is not finite", place()).into());
        }
        let record = Record { key, outcome };
        self.cache.append(&record)?;
        Ok(record)
    }

    fn key<W>(&self, trial: &Trial<W>) -> TrialKey {
        let version = env!("CARGO_PKG_VERSION");
        let config = format!("{version}\n{}", trial.config);
        TrialKey {
            experiment: self.experiment.to_owned(),
            dataset: trial.dataset.clone(),
            setting: trial.setting.clone(),
            method: trial.method.clone(),
            trial: trial.trial,
            seed: trial_seed(self.seed, trial.trial),
            config: sha256_of_bytes(config.as_bytes())[..16].to_owned(),
        }
    }

    /// Path of a file of a data set; the report lists its checksum.
    pub fn data_file(&self, set: &str, file: &str) -> PathBuf {
        let path = self.data.path(set, file);
        let mut files = lock(&self.files);
        if !files.contains(&path) {
            files.push(path.clone());
        }
        path
    }

    /// Data files that were asked for.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        lock(&self.files).clone()
    }

    /// How many trials came from an earlier run, and how many there were.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let (cached, all) = &self.counts;
        (cached.load(Ordering::Relaxed), all.load(Ordering::Relaxed))
    }
}

/// The seed of a trial: the same for all methods, so that they see the same draws.
fn trial_seed(seed: u64, trial: u64) -> u64 {
    npb_infer::stream(seed, [trial, 0, 0, 0]).next_u64()
}

/// Calls `run` for 0..n on as many threads as there are cores and returns the results in order, or the first failure met.
///
/// Each thread has a pool of its own: what a model does in parallel stays inside its trial. In one shared pool a waiting
/// trial would pick up pieces of others, and its seconds would be theirs.
fn in_parallel<T: Send>(n: usize, run: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let cores = rayon::current_num_threads();
    let workers = cores.min(n).max(1);
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<T>>> = Mutex::new((0..n).map(|_| None).collect());
    let work = || -> Result<()> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(cores / workers)
            .build()?;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= n {
                return Ok(());
            }
            // A failure leaves nothing for the others to begin.
            let result = pool
                .install(|| run(index))
                .inspect_err(|_| next.store(n, Ordering::Relaxed))?;
            lock(&results)[index] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads
            .into_iter()
            .map(join)
            .collect::<Vec<_>>()
            .into_iter()
            .collect::<Result<()>>()
    })?;
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(results.into_iter().flatten().collect())
}

/// The content, also after another thread panicked while it held the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bar(trials: usize, name: &str) -> ProgressBar {
    // Hidden by itself when standard error is not a terminal.
    let bar = ProgressBar::new(trials as u64).with_message(name.to_owned());
    match ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use npb_catalogue::Scratch;

    fn trials(n: u64) -> Vec<Trial<()>> {
        let trial = |trial| Trial {
            dataset: "simulated".into(),
            setting: "k=1".into(),
            method: "npb:test".into(),
            trial,
            config: "{}".into(),
            work: (),
        };
        (0..n).map(trial).collect()
    }

    /// Runs `n` trials against the cache at `path`; trial `fails` is an error.
    fn run(
        path: &Path,
        n: u64,
        fails: Option<u64>,
    ) -> (Result<Vec<Record>>, (usize, usize), usize) {
        let data = DataFolder::resolve(Some(path.to_owned()), path);
        let cache = TrialCache::open(path, true).unwrap();
        let context = Context::new("a/b", Scale::Smoke, 1, &data, &cache);
        let ran = AtomicUsize::new(0);
        let records = context.run_trials(&trials(n), |trial, seed| {
            ran.fetch_add(1, Ordering::Relaxed);
            if fails == Some(trial.trial) {
                return Err("broken".into());
            }
            Ok(Outcome::metrics([("value", (seed >> 12) as f64)]))
        });
        (records, context.counts(), ran.into_inner())
    }

    #[test]
    fn a_stopped_run_goes_on_and_ends_as_one_that_never_stopped() {
        let scratch = Scratch::new("context-resume");
        let (whole, ..) = run(&scratch.path("whole.jsonl"), 8, None);
        let stopped = scratch.path("stopped.jsonl");
        let (first, ..) = run(&stopped, 5, None);
        assert_eq!(first.unwrap().len(), 5);
        let (second, counts, ran) = run(&stopped, 8, None);
        assert_eq!((counts, ran), ((5, 8), 3));
        let values = |records: Result<Vec<Record>>| -> Vec<(u64, f64)> {
            let records = records.unwrap().into_iter();
            records
                .map(|r| (r.key.trial, r.outcome.metrics["value"]))
                .collect()
        };
        assert_eq!(values(second), values(whole));
    }

    #[test]
    fn a_failing_trial_is_named_and_the_others_are_kept() {
        let scratch = Scratch::new("context-fail");
        let path = scratch.path("trials.jsonl");
        let (records, ..) = run(&path, 1, Some(0));
        let error = records.unwrap_err().to_string();
        assert!(error.contains("npb:test, trial 0: broken"), "{error}");
        let (records, counts, _) = run(&path, 1, None);
        assert_eq!((records.unwrap().len(), counts), (1, (0, 1)));
    }

    #[test]
    fn results_come_in_order_and_a_failure_stops_the_rest() {
        let squares = in_parallel(100, |i| Ok(i * i)).unwrap();
        assert_eq!(squares, (0..100).map(|i| i * i).collect::<Vec<_>>());
        assert!(in_parallel(0, |_| Ok(())).unwrap().is_empty());
        let begun = AtomicUsize::new(0);
        let outcome = in_parallel(10_000, |i| -> Result<()> {
            begun.fetch_add(1, Ordering::Relaxed);
            if i == 3 {
                return Err("three".into());
            }
            // Long enough for the failure to be seen before all are done.
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        });
        assert_eq!(outcome.unwrap_err().to_string(), "three");
        assert!(begun.into_inner() < 10_000);
    }

    #[test]
    fn another_configuration_is_another_trial() {
        let scratch = Scratch::new("context-config");
        let path = scratch.path("trials.jsonl");
        let data = DataFolder::resolve(Some(path.clone()), &path);
        let cache = TrialCache::open(&path, false).unwrap();
        let context = Context::new("a/b", Scale::Smoke, 1, &data, &cache);
        let mut other = trials(1);
        other[0].config = "{\"changed\":1}".into();
        assert_ne!(context.key(&trials(1)[0]), context.key(&other[0]));
    }

    #[test]
    fn seeds_differ_by_trial_and_by_run() {
        assert_ne!(trial_seed(1, 0), trial_seed(1, 1));
        assert_ne!(trial_seed(1, 0), trial_seed(2, 0));
    }
}
