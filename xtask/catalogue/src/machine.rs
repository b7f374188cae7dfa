//! Where numbers were made: revision, compiler, processor, operating system.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Facts about this run, as (name, value).
pub(crate) fn facts(project: &Path) -> Vec<(&'static str, String)> {
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
