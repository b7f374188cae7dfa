//! Where numbers were made: revision, compiler, processor, operating system.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The date in Greenwich, as `2026-01-31`.
pub fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    date(now.map_or(0, |since| since.as_secs() / 86_400))
}

/// The date so many days after the first of January 1970.
fn date(days: u64) -> String {
    let by = |year: u64, n| u64::is_multiple_of(year, n);
    let leap = |year| (by(year, 4) && !by(year, 100)) || by(year, 400);
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, left + 1)
}

/// Facts about this run, as (name, value).
pub fn facts(project: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("revision", revision(project)),
        ("compiler", output(Command::new("rustc").arg("--version"))),
        ("processor", processor()),
        ("cores", cores()),
        ("system", system()),
    ]
}

/// The revision of the project at `project`, and whether it was changed.
pub fn revision(project: &Path) -> String {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        output(command.args(arguments).current_dir(project))
    };
    let head = git(&["rev-parse", "HEAD"]);
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    match (head.as_str(), changed.as_str()) {
        ("unknown", _) | (_, "unknown" | "") => head,
        _ => format!("{head} with uncommitted changes"),
    }
}

/// Standard output of a command in one line, or `unknown`.
fn output(command: &mut Command) -> String {
    match command.output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}

fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_owned())
    });
    model.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn cores() -> String {
    match std::thread::available_parallelism() {
        Ok(n) => n.to_string(),
        Err(_) => "unknown".to_owned(),
    }
}

fn system() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| {
        let value = line.strip_prefix("PRETTY_NAME=")?;
        Some(value.trim_matches('"').to_owned())
    });
    let kind = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    name.map_or(kind.clone(), |name| format!("{name} ({kind})"))
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_are_dates() {
        let days = [0, 58, 59, 789, 11_016, 20_786];
        let dates = [
            "1970-01-01",
            "1970-02-28",
            "1970-03-01",
            "1972-02-29",
            "2000-02-29",
            "2026-11-29",
        ];
        assert_eq!(days.map(date), dates);
    }
}
