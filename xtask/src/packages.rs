//! The packages of experiments and how cargo builds a program just before it is called.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use npb_catalogue::{Entry, Listed, Result, root};
use serde::Deserialize;

/// Folders below `xtask/experiments`, in the order of the report.
const FOLDERS: [&str; 8] = [
    "iqgme-synthetic",
    "iqgme",
    "bsvd",
    "itf",
    "regbayes",
    "hbrec",
    "bpfa",
    "priors",
];

/// A package of experiments and checks of one model.
pub(crate) struct Package {
    /// Name of the package.
    pub(crate) name: String,
    pub(crate) listed: Listed,
    program: Option<PathBuf>,
}

impl Package {
    fn read(folder: &str) -> Result<Self> {
        let path = root().join("xtask/experiments").join(folder);
        let path = path.join("listed.toml");
        let named = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let text = fs::read_to_string(&path).map_err(|e| named(&e))?;
        Ok(Self {
            name: format!("npb-experiments-{folder}"),
            listed: Listed::parse(&text).map_err(|e| named(&e))?,
            program: None,
        })
    }

    pub(crate) fn has_experiment(&self, id: &str) -> bool {
        self.listed.experiments.iter().any(|e| e.id == id)
    }

    pub(crate) fn has_check(&self, id: &str) -> bool {
        self.listed.checks.iter().any(|c| c.id == id)
    }

    /// Builds the program of the package unless this call of xtask has done so; what cargo says is shown.
    pub(crate) fn build(&mut self) -> Result<()> {
        if self.program.is_none() {
            self.program = Some(build(&self.name)?);
        }
        Ok(())
    }

    /// Calls the program; whether it ended well.
    pub(crate) fn call(&mut self, arguments: &[OsString]) -> Result<bool> {
        self.build()?;
        let program = self.program.as_ref().ok_or("no program was built")?;
        Ok(Command::new(program).args(arguments).status()?.success())
    }
}

/// All packages, in the order of the report.
pub(crate) fn all() -> Result<Vec<Package>> {
    FOLDERS.iter().map(|folder| Package::read(folder)).collect()
}

/// Paths of the lists below the root, in the order of the report.
pub(crate) fn lists() -> impl Iterator<Item = String> {
    let list = |folder| format!("xtask/experiments/{folder}/listed.toml");
    FOLDERS.into_iter().map(list)
}

/// All experiments, in the order of the report.
pub(crate) fn experiments(packages: &[Package]) -> Vec<&Entry> {
    packages
        .iter()
        .flat_map(|p| &p.listed.experiments)
        .collect()
}

/// Builds a package and calls its program with these arguments.
pub(crate) fn run(package: &str, arguments: &[OsString]) -> Result<ExitCode> {
    let status = Command::new(build(package)?).args(arguments).status()?;
    Ok(ended(status.success()))
}

/// The exit code of what ended well or not.
pub(crate) fn ended(well: bool) -> ExitCode {
    ExitCode::from(u8::from(!well))
}

/// The program of a package, built by the profile by which xtask was.
pub(crate) fn build(package: &str) -> Result<PathBuf> {
    println!("building {package}");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Cargo.lock was brought up to date when xtask was built.
    command.args(["build", "--locked", "-p", package]);
    command.arg("--message-format=json-render-diagnostics");
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    command.current_dir(root()).stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{package} could not be built").into());
    }
    program(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| format!("{package} has no program").into())
}

/// The program among cargo's messages.
fn program(messages: &str) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
    }
    let executable = |line| serde_json::from_str::<Message>(line).ok()?.executable;
    messages.lines().filter_map(executable).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_one_that_cargo_names() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\nnoise\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"a/b\"}\n{\"reason\":\"build-finished\"}\n";
        assert_eq!(program(messages), Some("a/b".into()));
        assert_eq!(program("{\"reason\":\"build-finished\"}"), None);
    }

    #[test]
    fn every_package_is_listed_and_no_id_is_there_twice() {
        let mut folders: Vec<String> = fs::read_dir(root().join("xtask/experiments"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        folders.sort();
        let mut known = FOLDERS;
        known.sort_unstable();
        assert_eq!(folders, known);
        let packages = all().unwrap();
        let sets = npb_catalogue::data::all().unwrap();
        let mut ids: Vec<&str> = Vec::new();
        for entry in experiments(&packages) {
            assert!(!ids.contains(&entry.id.as_str()), "{}", entry.id);
            ids.push(&entry.id);
            for name in &entry.data {
                assert!(sets.iter().any(|set| set.name == *name), "{name}");
            }
        }
        let mut checks: Vec<&str> = Vec::new();
        for entry in packages.iter().flat_map(|p| &p.listed.checks) {
            assert!(!checks.contains(&entry.id.as_str()), "{}", entry.id);
            checks.push(&entry.id);
        }
    }
}
