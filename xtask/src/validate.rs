//! `cargo xtask validate`: checks of samplers that take longer than a test suite may.
//!
//! Two kinds: simulation-based calibration (do posterior intervals cover at their nominal rate?) and the false alarms of the
//! joint-distribution test over 20 consecutive seeds (is a test that passes at one seed no lucky one?). One file per model crate; a
//! new check is a [`Check`] in its list, a new crate a line in [`all`].

mod alarms;
mod bpfa;
mod bsvd;
mod calibration;
mod hbrec;
mod iqgme;
mod itf;
mod regbayes;
mod stored;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;

use crate::Result;
use crate::reproduce::{self, Report, Scale, Section, fits};

/// One check of one model.
pub(crate) struct Check {
    /// `crate/name`.
    pub(crate) id: &'static str,
    /// What is checked.
    pub(crate) what: &'static str,
    pub(crate) run: fn(&Plan) -> Result<Findings>,
}

/// What a check is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
}

/// What a check found.
pub(crate) struct Findings {
    pub(crate) report: Report,
    /// No alarm at the stated rate.
    pub(crate) passed: bool,
}

/// All checks, in the order of the report.
fn all() -> impl Iterator<Item = &'static Check> {
    let models = [
        bpfa::CHECKS,
        bsvd::CHECKS,
        iqgme::CHECKS,
        itf::CHECKS,
        regbayes::CHECKS,
        hbrec::CHECKS,
    ];
    models.into_iter().flatten()
}

#[derive(Args)]
pub(crate) struct ValidateArgs {
    /// Checks by id, pattern (`bsvd/*`) or crate (`bsvd` or `npb-bsvd`); all by default.
    checks: Vec<String>,
    /// How much to run.
    #[arg(long, value_enum, default_value = "quick")]
    scale: Scale,
    /// Where the report goes [default: target/validate].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Seed of everything that is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Put what is found into docs/validation.md.
    #[arg(long)]
    store: bool,
}

/// Runs checks and writes the report; fails when one gives an alarm or cannot be run.
pub(crate) fn run(arguments: &ValidateArgs, project: &Path) -> Result<ExitCode> {
    let default = || project.join("target").join("validate");
    let out = arguments.out.clone().unwrap_or_else(default);
    let plan = Plan {
        scale: arguments.scale,
        seed: arguments.seed,
    };
    let facts = [
        ("scale", format!("{:?}", plan.scale).to_lowercase()),
        ("seed", plan.seed.to_string()),
    ];
    let revision = reproduce::revision(project);
    let (mut sections, mut failed) = (Vec::new(), false);
    for check in choose(&arguments.checks)? {
        println!("{}: {}", check.id, check.what);
        let clock = Instant::now();
        let found = (check.run)(&plan);
        let seconds = clock.elapsed().as_secs_f64();
        let verdict = match &found {
            Ok(findings) if findings.passed => "passed".to_owned(),
            Ok(_) => "ALARM".to_owned(),
            Err(reason) => format!("could not be run: {reason}"),
        };
        println!("{}: {verdict} ({seconds:.1} s)", check.id);
        failed |= verdict != "passed";
        let report = found.map(|f| f.report).map_err(|e| e.to_string());
        if arguments.store {
            let line = stored::Line {
                id: check.id,
                verdict: &verdict,
                report: report.as_ref().ok(),
                run: facts.each_ref().map(|(_, value)| value.clone()).join(", "),
                seconds,
                revision: &revision,
            };
            stored::store(project, &line)?;
        }
        if let Ok(report) = &report {
            let place = out.join(check.id);
            std::fs::create_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
            report.write(check.id, &place)?;
        }
        sections.push(Section {
            id: check.id.to_owned(),
            what: format!("{}: {verdict}", check.what),
            paper: String::new(),
            report,
            files: Vec::new(),
            trials: (0, 0),
            seconds,
        });
        reproduce::write_sections("npb: checks of samplers", project, &facts, &sections, &out)?;
    }
    println!("report: {}", out.join("index.html").display());
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Checks that match any of the names, in the order of the list.
fn choose(names: &[String]) -> Result<Vec<&'static Check>> {
    for name in names {
        if !all().any(|check| fits(name, check.id)) {
            let known: Vec<&str> = all().map(|check| check.id).collect();
            return Err(format!("no check {name:?}; there are {}", known.join(", ")).into());
        }
    }
    let wanted = |check: &&Check| names.is_empty() || names.iter().any(|n| fits(n, check.id));
    Ok(all().filter(wanted).collect())
}

/// Every check runs at the smallest scale, gives no alarm and writes numbers.
#[cfg(test)]
fn smoke(checks: &[Check]) {
    let plan = Plan {
        scale: Scale::Smoke,
        seed: 1,
    };
    for check in checks {
        let found = (check.run)(&plan).unwrap();
        assert!(found.passed, "{}", check.id);
        assert!(found.report.results.iter().all(|r| r.mean.is_finite()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_chosen_by_crate_id_or_pattern() {
        let ids = |names: &[&str]| -> Vec<&str> {
            let names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
            choose(&names).unwrap().iter().map(|c| c.id).collect()
        };
        let bsvd: Vec<&str> = bsvd::CHECKS.iter().map(|c| c.id).collect();
        assert!(!bsvd.is_empty());
        for names in [&["bsvd"], &["npb-bsvd"], &["bsvd/*"]] {
            assert_eq!(ids(names), bsvd);
        }
        assert_eq!(ids(&[bsvd[0]]), [bsvd[0]]);
        let error = choose(&["nonsense".to_owned()]).err().unwrap().to_string();
        assert!(error.contains(bsvd[0]), "{error}");
    }

    #[test]
    fn ids_are_unique() {
        let ids: Vec<&str> = all().map(|c| c.id).collect();
        assert!(ids.iter().enumerate().all(|(i, id)| !ids[..i].contains(id)));
    }
}
