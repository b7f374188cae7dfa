//! What is written when a fit is done: the model, and the record of the run.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use npb_infer::{Stop, SweepPlan};
use serde_json::{Value, json};

use crate::diagnostics::diagnostics;
use crate::failure::{Failure, Result};
use crate::job::Job;
use crate::model::ModelFile;
use crate::output;

/// So many scalars of chains are named at most.
const NAMED: usize = 3;

/// What has not settled of a bound, and the setting that helps.
pub(crate) fn of_bound(stop: Stop, setting: &str) -> Vec<String> {
    match stop {
        Stop::Completed | Stop::Converged { .. } => Vec::new(),
        Stop::MaxIterations | Stop::Cancelled => vec![format!(
            "the bound was still changing at the last iteration; allow more by --set {setting}=N"
        )],
    }
}

/// What has not settled of chains, and the settings that help.
pub(crate) fn of_chains(mut unmet: Vec<String>, sweeps: &SweepPlan) -> Vec<String> {
    if unmet.is_empty() {
        return unmet;
    }
    let more = unmet.len().saturating_sub(NAMED);
    unmet.truncate(NAMED);
    if more > 0 {
        unmet.push(format!("and {more} more, by npb diagnose"));
    }
    let (burn_in, thin) = (2 * sweeps.burn_in.max(1), 2 * sweeps.thin.max(1));
    unmet.push(format!(
        "longer chains help: --set sweeps.burn_in={burn_in} --set sweeps.thin={thin}"
    ));
    unmet
}

/// Writes the model and the record that is asked for, and says so, and what has not settled.
pub(crate) fn keep(job: &Job<'_>, model: &ModelFile, what: &str, unmet: &[String]) -> Result<()> {
    model.save(job.out())?;
    if let Some(path) = job.record() {
        let record = record(job, model, what, unmet)?;
        output::bytes(format!("{record:#}\n").as_bytes(), Some(path))?;
    }
    job.done(what, unmet, &beside(job.checkpoint()))
}

/// What was run and how it went.
fn record(job: &Job<'_>, model: &ModelFile, what: &str, unmet: &[String]) -> Result<Value> {
    let of_toml = |text: &str| toml::from_str::<Value>(text).map_err(Failure::failed);
    let settings = of_toml(&model.config)?;
    let seed = settings
        .get("seed")
        .or_else(|| settings.get("single")?.get("seed"))
        .or_else(|| settings.get("latent")?.get("seed"));
    let diagnostics = format!("[{}]", diagnostics(model)?.json());
    let diagnostics: Value = serde_json::from_str(&diagnostics).map_err(Failure::failed)?;
    let ended = SystemTime::now().duration_since(UNIX_EPOCH);
    let ended = ended.map_or(0.0, |time| time.as_secs_f64());
    Ok(json!({
        "npb": env!("CARGO_PKG_VERSION"),
        "machine": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        "command": std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        "kind": model.kind,
        "file": model.file,
        "model": job.out().display().to_string(),
        "what": what,
        "seed": seed,
        "threads": rayon::current_num_threads(),
        "ended_unix": ended,
        "seconds": job.spent(),
        "converged": unmet.is_empty(),
        "not_converged": unmet,
        "settings": settings,
        "schema": of_toml(&model.schema)?,
        "diagnostics": diagnostics,
    }))
}

/// Files whose names begin with that of the checkpoint: runs, chains and folds have one each.
pub(crate) fn beside(checkpoint: Option<&Path>) -> Vec<PathBuf> {
    let Some(path) = checkpoint else {
        return Vec::new();
    };
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let folder = path
        .parent()
        .filter(|f| !f.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let is_part = |rest: &str| {
        rest.is_empty()
            || rest.starts_with('.')
                && rest[1..]
                    .trim_start_matches("fold")
                    .bytes()
                    .all(|b| b.is_ascii_digit())
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .strip_prefix(&name)
                .is_some_and(is_part)
        })
        .map(|entry| entry.path())
        .collect()
}
