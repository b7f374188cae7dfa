//! `cargo xtask validate`: which checks of samplers there are, and which package runs them; [`kills`] of the command's
//! fits, and its damaged [`files`].

mod files;
mod kills;
mod work;

use std::ffi::OsString;
use std::process::ExitCode;

use npb_catalogue::{Page, Result, Scale, ValidateArgs, choose, root};

use crate::packages::{self, Package};

/// Checks of the command; they run only when they are named.
const OF_COMMAND: [&str; 2] = ["kills", "files"];

/// Runs checks and writes the report; fails when one gives an alarm or cannot be run.
pub(crate) fn run(mut arguments: ValidateArgs) -> Result<ExitCode> {
    let is_of_command = |name: &String| OF_COMMAND.contains(&&name[..]);
    let of_command: Vec<String> = arguments
        .checks
        .extract_if(.., |name| is_of_command(name))
        .collect();
    if !of_command.is_empty() {
        let sound = run_of_command(&of_command, &arguments)?;
        if arguments.checks.is_empty() || !sound {
            return Ok(packages::ended(sound));
        }
    }
    let mut packages = packages::all()?;
    let ids: Vec<String> = chosen(&arguments.checks, &packages)?;
    let out = match arguments.out {
        Some(out) => out,
        None => root().join("target").join("validate"),
    };
    Page::validated(arguments.scale.name(), arguments.seed).write(&out)?;
    let mut failed = false;
    for package in &mut packages {
        let of_package = |id: &&String| package.has_check(id);
        let ids: Vec<OsString> = ids.iter().filter(of_package).map(OsString::from).collect();
        if ids.is_empty() {
            continue;
        }
        let mut call: Vec<OsString> = vec!["validate".into()];
        call.extend(ids);
        call.extend(["--scale".into(), arguments.scale.name().into()]);
        call.extend(["--seed".into(), arguments.seed.to_string().into()]);
        call.extend(["--out".into(), out.clone().into(), "--join".into()]);
        if arguments.store {
            call.push("--store".into());
        }
        failed |= !package.call(&call)?;
    }
    println!("report: {}", out.join("index.html").display());
    Ok(packages::ended(!failed))
}

/// Builds the command, kills its fits and damages its files; whether they end as if nothing had happened, or by an error.
fn run_of_command(names: &[String], arguments: &ValidateArgs) -> Result<bool> {
    let npb = packages::build("npb-cli")?;
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => root().join("target").join("validate"),
    };
    let (kills, damages) = match arguments.scale {
        Scale::Smoke => (22, 30),
        Scale::Quick => (220, 1_000),
        Scale::Paper => (1_100, 10_000),
    };
    let mut sound = true;
    for name in names {
        let folder = out.join(name);
        sound &= match &name[..] {
            "kills" => kills::run(&npb, &folder, kills, arguments.seed)?,
            _ => files::run(&npb, &folder, damages, arguments.seed)?,
        };
    }
    Ok(sound)
}

/// Checks that match any of the names, in the order of the list.
fn chosen(names: &[String], packages: &[Package]) -> Result<Vec<String>> {
    let checks = packages.iter().flat_map(|p| &p.listed.checks);
    let ids: Vec<&str> = checks.map(|check| &*check.id).collect();
    let hint = format!("there are {}", ids.join(", "));
    let chosen = choose(names, &ids, "check", &hint)?;
    Ok(chosen.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_chosen_by_crate_and_unknown_ones_are_refused() {
        let packages = packages::all().unwrap();
        let ids = |name: &str| chosen(&[name.to_owned()], &packages).map_err(|e| e.to_string());
        let bsvd = ids("npb-bsvd").unwrap();
        assert!(!bsvd.is_empty() && bsvd.iter().all(|id| id.starts_with("bsvd/")));
        assert!(ids("nonsense").unwrap_err().contains(&bsvd[0]));
    }
}
