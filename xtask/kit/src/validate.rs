//! Checks of samplers that take longer than a test suite may.
//!
//! Three kinds: simulation-based calibration (do posterior intervals cover at their nominal rate?) and the false alarms of the
//! joint-distribution test over 20 consecutive seeds (is a test that passes at one seed no lucky one?), and coverage
//! of the intervals of a fit where truth is simulated by another law than the model's. A new check is a [`Check`] in
//! the list of its model.

pub mod alarms;
pub mod calibration;
pub mod coverage;
mod stored;

use std::path::Path;
use std::time::Instant;

use npb_catalogue::{Entry, Page, Result, Scale, root};

use crate::html::{Ran, section};
use crate::report::Report;

/// Runs one check of one model.
pub type Check = fn(&Plan) -> Result<Findings>;

/// What a check is given.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How much is run.
    pub scale: Scale,
    /// Seed of everything that is drawn.
    pub seed: u64,
}

/// What a check found.
pub struct Findings {
    /// The numbers.
    pub report: Report,
    /// No alarm at the stated rate.
    pub passed: bool,
}

/// Runs a check, adds it to the page in `out` and, when asked, to `docs/validation.md`; whether it passed.
pub(crate) fn run(
    entry: &Entry,
    check: Check,
    plan: &Plan,
    store: bool,
    page: &mut Page,
    out: &Path,
) -> Result<bool> {
    let Entry { id, what, .. } = entry;
    println!("{id}: {what}");
    let clock = Instant::now();
    let found = check(plan);
    let seconds = clock.elapsed().as_secs_f64();
    let verdict = match &found {
        Ok(findings) if findings.passed => "passed".to_owned(),
        Ok(_) => "ALARM".to_owned(),
        Err(reason) => format!("could not be run: {reason}"),
    };
    println!("{id}: {verdict} ({seconds:.1} s)");
    let report = found.map(|f| f.report).map_err(|e| e.to_string());
    if store {
        let line = stored::Line {
            id,
            verdict: &verdict,
            report: report.as_ref().ok(),
            run: format!("{}, {}", plan.scale.name(), plan.seed),
            seconds,
            revision: &npb_catalogue::revision(&root()),
        };
        stored::store(&root(), &line)?;
    }
    if let Ok(report) = &report {
        report.write(id, &out.join(id))?;
    }
    let run = Ran {
        id: id.clone(),
        what: what.clone(),
        found: verdict.clone(),
        report,
        files: Vec::new(),
        trials: (0, 0),
        seconds,
    };
    page.add(section(&run), out)?;
    Ok(verdict == "passed")
}
