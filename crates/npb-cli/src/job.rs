//! A fit that runs: progress on a terminal, interruption, checkpoints.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use npb_infer::Watch;
use npb_infer::checkpoint::Every;
use npb_infer::watch::Progress;

use crate::args::{Run, Tell};
use crate::failure::{Failure, INTERRUPTED, NOT_CONVERGED, Result};
use crate::input::note;
use crate::output::{check_folder, is_no_file};

/// Somebody pressed Ctrl-C.
static INTERRUPT: AtomicBool = AtomicBool::new(false);

/// Milliseconds since the program began, plus one, at which the present step began, and how long the one before took.
static STEP_BEGAN: AtomicU64 = AtomicU64::new(0);
static LAST_STEP: AtomicU64 = AtomicU64::new(0);

/// How often a terminal hears of progress, and a file.
const PAUSE: Duration = Duration::from_millis(200);
const LONG_PAUSE: Duration = Duration::from_secs(10);
/// A fit that goes on for so long after Ctrl-C says when it will end.
const PATIENCE: Duration = Duration::from_secs(1);

/// One fit: what it is told to do beside the fit itself.
pub(crate) struct Job<'a> {
    run: &'a Run,
    every: Every,
    quiet: bool,
    shown: Shown,
}

/// A line of progress on standard error.
struct Shown {
    terminal: bool,
    begun: Instant,
    last: Mutex<Option<Instant>>,
}

impl Shown {
    fn new(quiet: bool) -> Self {
        Self {
            terminal: io::stderr().is_terminal() && !quiet,
            begun: Instant::now(),
            last: Mutex::new(None),
        }
    }

    /// A line that changes on a terminal, now and then a new one elsewhere.
    fn show(&self, what: impl Display, share: Option<f64>) {
        let Some(line) = self.line(what, share, Instant::now()) else {
            return;
        };
        let _ = match self.terminal {
            true => write!(io::stderr(), "\r{line}    \x1b[K"),
            false => writeln!(io::stderr(), "npb: {}", line.trim_start()),
        };
    }

    /// What is to be told of progress now, unless it is too soon.
    fn line(&self, what: impl Display, share: Option<f64>, now: Instant) -> Option<String> {
        let mut last = self.last.lock().ok()?;
        let (before, pause) = match self.terminal {
            true => (*last, PAUSE),
            false => (Some(last.unwrap_or(self.begun)), LONG_PAUSE),
        };
        let ends = self.terminal && share.is_some_and(|share| share >= 1.0);
        if before.is_some_and(|before| now - before < pause) && !ends {
            return None;
        }
        *last = Some(now);
        let Some(share) = share else {
            return Some(what.to_string());
        };
        let spent = now.duration_since(self.begun).as_secs_f64();
        let left = match share > 0.02 {
            true => format!(", {} left", seconds(spent * (1.0 - share) / share)),
            false => String::new(),
        };
        Some(format!("{:3.0} %  {what}{left}", 100.0 * share))
    }

    /// The line of progress is over.
    fn end(&self) {
        if self.terminal && self.last.lock().is_ok_and(|last| last.is_some()) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// A question about the rows of a file, some of which are asked about at a time: progress, and interruption.
pub(crate) struct Asking {
    quiet: bool,
    shown: Shown,
}

impl Asking {
    /// Ctrl-C ends it after the rows that are being asked about, and a second one at once.
    pub(crate) fn new(quiet: bool) -> Result<Self> {
        let handler = ctrlc::set_handler(|| {
            if INTERRUPT.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(INTERRUPTED));
            }
        });
        handler.map_err(Failure::failed)?;
        Ok(Self {
            quiet,
            shown: Shown::new(quiet),
        })
    }

    /// So many rows are answered, this share of the file; an error where it was interrupted.
    pub(crate) fn hear(&self, n_rows: usize, share: Option<f64>) -> Result<()> {
        if !self.quiet {
            self.shown.show(format_args!("{n_rows} rows"), share);
        }
        if !INTERRUPT.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.end();
        Err(Failure::new(INTERRUPTED, "interrupted, no file is written"))
    }

    pub(crate) fn end(&self) {
        self.shown.end();
    }
}

impl<'a> Job<'a> {
    /// Checks the options before any work is done.
    pub(crate) fn new(run: &'a Run, quiet: bool) -> Result<Self> {
        check_folder(&run.out)?;
        if is_no_file(&run.out) {
            let message = format!(
                "{}: is no ordinary file; name another one by --out",
                run.out.display()
            );
            return Err(Failure::usage(message));
        }
        let every = Every::time(duration(&run.every)?);
        for path in run.checkpoint.iter().chain(&run.record) {
            check_folder(path)?;
        }
        Ok(Self {
            run,
            every,
            quiet,
            shown: Shown::new(quiet),
        })
    }

    pub(crate) fn checkpoint(&self) -> Option<&Path> {
        self.run.checkpoint.as_deref()
    }

    /// Ctrl-C stops the fit after its present step, and a second one the program, from now on. A long step is said.
    pub(crate) fn listen(&self) -> Result<()> {
        let (begun, quiet) = (self.shown.begun, self.quiet);
        STEP_BEGAN.store(milliseconds(begun) + 1, Ordering::Relaxed);
        ctrlc::set_handler(move || {
            if INTERRUPT.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(INTERRUPTED));
            }
            std::thread::spawn(move || {
                std::thread::sleep(PATIENCE);
                let of = |time: &AtomicU64| time.load(Ordering::Relaxed) as f64 / 1000.0;
                let spent = begun.elapsed().as_secs_f64() - of(&STEP_BEGAN);
                note(quiet, long_step(spent, of(&LAST_STEP)));
            });
        })
        .map_err(Failure::failed)
    }

    /// The watch of a fit.
    pub(crate) fn watch(&self) -> Watch<'_> {
        let watch = Watch::new(|progress: &Progress<'_>| self.hear(progress));
        match self.checkpoint() {
            Some(path) => watch.with_checkpoint(path, self.every),
            None => watch,
        }
    }

    /// Tells how far the fit is, and says whether it is to go on.
    fn hear(&self, progress: &Progress<'_>) -> ControlFlow<()> {
        let now = milliseconds(self.shown.begun) + 1;
        let began = STEP_BEGAN.swap(now, Ordering::Relaxed);
        LAST_STEP.store(now.saturating_sub(began), Ordering::Relaxed);
        match self.run.progress {
            Tell::Json => self.tell(progress),
            Tell::Auto if self.quiet => {}
            Tell::Auto => {
                let what = format_args!("{}, step {}", progress.part, progress.step);
                self.shown.show(what, Some(progress.share));
            }
        }
        match INTERRUPT.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// A line of JSON.
    fn tell(&self, progress: &Progress<'_>) {
        let scalars = progress.names.iter().zip(progress.values);
        let scalars: serde_json::Map<_, _> = scalars
            .map(|(name, &value)| (name.clone(), value.into()))
            .collect();
        let line = serde_json::json!({
            "part": progress.part,
            "step": progress.step,
            "share": progress.share,
            "seconds": self.spent(),
            "scalars": scalars,
        });
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// Seconds since the command began.
    pub(crate) fn spent(&self) -> f64 {
        self.shown.begun.elapsed().as_secs_f64()
    }

    pub(crate) fn record(&self) -> Option<&Path> {
        self.run.record.as_deref()
    }

    /// Whether the fit was interrupted: then there is nothing to write.
    pub(crate) fn finished(&self) -> Result<()> {
        self.shown.end();
        if !INTERRUPT.load(Ordering::Relaxed) {
            return Ok(());
        }
        let message = match self.checkpoint() {
            Some(path) if path.exists() => {
                format!(
                    "interrupted; the same command goes on from {}",
                    path.display()
                )
            }
            Some(_) => "interrupted before the first checkpoint, nothing is written".to_owned(),
            None => "interrupted, nothing is written; with --checkpoint FILE the same command would go on".to_owned(),
        };
        Err(Failure::new(INTERRUPTED, message))
    }

    /// The model is on file: says so, removes the checkpoints, and what has not converged.
    pub(crate) fn done(&self, what: &str, unmet: &[String], checkpoints: &[PathBuf]) -> Result<()> {
        let whole = |path: &Path| std::fs::canonicalize(path).ok();
        for path in checkpoints
            .iter()
            .filter(|path| whole(path) != whole(&self.run.out))
        {
            let _ = std::fs::remove_file(path);
        }
        let spent = seconds(self.spent());
        note(
            self.quiet,
            format_args!("{what}; {spent}; {} written", self.run.out.display()),
        );
        if unmet.is_empty() {
            return Ok(());
        }
        let trouble = format!("not converged: {}", unmet.join("; "));
        match self.run.require_converged {
            true => Err(Failure::new(
                NOT_CONVERGED,
                format!("{trouble}; the model is written all the same"),
            )),
            false => {
                note(self.quiet, &trouble);
                Ok(())
            }
        }
    }

    pub(crate) fn out(&self) -> &Path {
        &self.run.out
    }
}

fn milliseconds(begun: Instant) -> u64 {
    begun.elapsed().as_millis() as u64
}

/// When a fit that was told to end will: seconds of the present step, and of the one before, 0 where there was none.
fn long_step(spent: f64, last: f64) -> String {
    let last = match last {
        0.0 => String::new(),
        last => format!(", the one before took {}", seconds(last)),
    };
    format!(
        "ends after the present step (for {} so far{last}); Ctrl-C again ends at once",
        seconds(spent.max(0.0))
    )
}

/// A time as people say it.
fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// `30s`, `10m`, `2h`.
fn duration(text: &str) -> Result<Duration> {
    let wrong = || {
        Failure::usage(format_args!(
            "--every {text}: write a time such as 30s, 10m or 2h"
        ))
    };
    let unit = text.chars().last().ok_or_else(wrong)?;
    let factor = match unit {
        's' => 1.0,
        'm' => 60.0,
        'h' => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * factor).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines at these milliseconds after the start, each at half of the work and the last at its end.
    fn lines(terminal: bool, moments: &[u64]) -> Vec<Option<String>> {
        let shown = Shown {
            terminal,
            begun: Instant::now(),
            last: Mutex::new(None),
        };
        let line = |(k, moment): (usize, &u64)| {
            let share = if k + 1 == moments.len() { 1.0 } else { 0.5 };
            let now = shown.begun + Duration::from_millis(*moment);
            shown.line(format_args!("chain 2, step {k}"), Some(share), now)
        };
        moments.iter().enumerate().map(line).collect()
    }

    #[test]
    fn a_file_hears_of_progress_every_ten_seconds_and_a_terminal_at_once() {
        let found = lines(false, &[0, 9_999, 10_000, 19_999, 20_000, 20_001]);
        let at = |k: usize, left: &str| Some(format!(" 50 %  chain 2, step {k}, {left} left"));
        assert_eq!(
            found,
            [None, None, at(2, "10 s"), None, at(4, "20 s"), None]
        );
        let found = lines(true, &[0, 199, 200, 300]);
        let end = Some("100 %  chain 2, step 3, 0.0 s left".to_owned());
        assert_eq!(found, [at(0, "0.0 s"), None, at(2, "0.2 s"), end]);
    }

    #[test]
    fn a_long_step_is_said_with_the_one_before() {
        let after = "ends after the present step (for";
        let again = "Ctrl-C again ends at once";
        assert_eq!(
            long_step(1.26, 0.0),
            format!("{after} 1.3 s so far); {again}")
        );
        assert_eq!(
            long_step(-1.0, 150.0),
            format!("{after} 0.0 s so far, the one before took 2 min); {again}")
        );
    }

    #[test]
    fn times() {
        assert_eq!(duration("90s").expect("a time"), Duration::from_secs(90));
        assert_eq!(duration("1.5m").expect("a time"), Duration::from_secs(90));
        assert_eq!(duration("2h").expect("a time"), Duration::from_secs(7200));
        for wrong in ["", "s", "10", "-1s", "1d", "nans", "5\u{e9}"] {
            assert_eq!(
                duration(wrong).expect_err(wrong).code,
                crate::failure::USAGE
            );
        }
    }
}
