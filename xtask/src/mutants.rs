//! `cargo xtask mutants`: faults planted in the crates one at a time, to see which of them the tests let through.
//!
//! The list is `xtask/mutants/*.toml`, one file per crate ([`list`]). Nothing is planted in the project itself: [`Tree`] is a copy of it under
//! `target/mutants`, with a target directory of its own, and is kept between runs.

mod list;
mod tree;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use list::Fault;
use npb_catalogue::Result;
use tree::{Suite, Tests, Tree};

#[derive(Args)]
pub(crate) struct MutantsArgs {
    /// Plant faults of this crate only [default: those of all crates].
    #[arg(value_name = "CRATE")]
    krate: Option<String>,
    /// Plant the faults of these numbers only.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    only: Vec<u32>,
    /// Check that the text of every fault is where the list says, and plant nothing.
    #[arg(long)]
    check: bool,
}

/// How long the tests of a crate may take once they are built.
const LIMIT: Duration = Duration::from_secs(120);

/// What became of a fault.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// This test failed.
    Caught(String),
    /// The tests took longer than the limit, though they take less than half of it without the fault.
    TimedOut,
    /// They did, but they take half of it without the fault: nothing is known.
    TooSlow,
    Survived,
    /// What the compiler said: an error of the list.
    DoesNotCompile(String),
}

impl Outcome {
    fn new(tests: Tests, without_fault: Duration) -> Self {
        match tests {
            Tests::Passed => Self::Survived,
            Tests::Failed(test) => Self::Caught(test),
            Tests::TimedOut if 2 * without_fault < LIMIT => Self::TimedOut,
            Tests::TimedOut => Self::TooSlow,
        }
    }

    fn is_caught(&self) -> bool {
        matches!(self, Self::Caught(_) | Self::TimedOut)
    }

    /// For the table.
    fn text(&self) -> String {
        match self {
            Self::Caught(test) => format!("caught by {test}"),
            Self::TimedOut => "caught: timed out".to_owned(),
            Self::TooSlow => "NOT JUDGED: the tests take half of the limit without it".to_owned(),
            Self::Survived => "SURVIVED".to_owned(),
            Self::DoesNotCompile(_) => "DOES NOT COMPILE".to_owned(),
        }
    }
}

/// Runs what the arguments ask for; fails when a fault survives or the list is wrong.
pub(crate) fn run(arguments: &MutantsArgs, project: &Path) -> Result<ExitCode> {
    let faults = list::read(project)?;
    let broken = list::check(&faults, project);
    if !broken.is_empty() {
        let mut text = format!("{} in xtask/mutants:", plural(broken.len(), "mistake"));
        broken
            .iter()
            .for_each(|line| text += &format!("\n  {line}"));
        return Err(text.into());
    }
    if arguments.check {
        println!(
            "mutants: {}, each in its place",
            plural(faults.len(), "fault")
        );
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = chosen(&faults, arguments)?;
    plant_all(&chosen, project)
}

/// The faults that the arguments name, crate by crate.
fn chosen<'f>(faults: &'f [Fault], arguments: &MutantsArgs) -> Result<Vec<&'f Fault>> {
    let wanted = |fault: &&Fault| {
        arguments
            .krate
            .as_ref()
            .is_none_or(|krate| *krate == fault.krate)
            && (arguments.only.is_empty() || arguments.only.contains(&fault.id))
    };
    let chosen: Vec<&Fault> = faults.iter().filter(wanted).collect();
    if chosen.is_empty() {
        let mut crates: Vec<&str> = faults.iter().map(|fault| &fault.krate[..]).collect();
        crates.dedup();
        return Err(format!("no such fault; there are some of {}", crates.join(", ")).into());
    }
    Ok(chosen)
}

fn plant_all(faults: &[&Fault], project: &Path) -> Result<ExitCode> {
    let tree = Tree::copy(project)?;
    println!("{:>5}  {:<13} {:>7}  outcome", "id", "crate", "seconds");
    let mut left = Vec::new();
    for faults in faults.chunk_by(|a, b| a.krate == b.krate) {
        let without = without_fault(&tree, &faults[0].krate)?;
        for &fault in faults {
            let start = Instant::now();
            let outcome = tree.with(fault, || judge(&tree, fault, without))?;
            let seconds = start.elapsed().as_secs_f64();
            let (id, krate) = (fault.id, &fault.krate);
            println!("{id:>5}  {krate:<13} {seconds:>7.1}  {}", outcome.text());
            if !outcome.is_caught() {
                left.push((fault, outcome));
            }
        }
    }
    report(faults.len(), &left);
    Ok(match left.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// How long the tests of a crate take as it is; they must pass.
fn without_fault(tree: &Tree, krate: &str) -> Result<Duration> {
    let suite = match tree.build(krate)? {
        Ok(suite) => suite,
        Err(messages) => {
            return Err(format!("{krate} does not compile as it is\n{messages}").into());
        }
    };
    let start = Instant::now();
    match tree.test(&suite, &[], 10 * LIMIT)? {
        Tests::Passed => Ok(start.elapsed()),
        Tests::Failed(test) => Err(format!("{krate}: {test} fails as it is").into()),
        Tests::TimedOut => Err(format!("{krate}: its tests do not end").into()),
    }
}

fn judge(tree: &Tree, fault: &Fault, without_fault: Duration) -> Result<Outcome> {
    let suite: Suite = match tree.build(&fault.krate)? {
        Ok(suite) => suite,
        Err(messages) => return Ok(Outcome::DoesNotCompile(messages)),
    };
    if !fault.tests.is_empty()
        && let Tests::Failed(test) = tree.test(&suite, &fault.tests, LIMIT)?
    {
        return Ok(Outcome::Caught(test));
    }
    Ok(Outcome::new(tree.test(&suite, &[], LIMIT)?, without_fault))
}

fn report(n: usize, left: &[(&Fault, Outcome)]) {
    println!("{} of {} caught", n - left.len(), plural(n, "fault"));
    for (fault, outcome) in left {
        println!("\n{} {}: {}", fault.id, fault.file, outcome.text());
        println!("  {}", fault.what);
        println!("  who ought to see it: {}", fault.seen_by);
        if let Outcome::DoesNotCompile(messages) = outcome {
            println!("{messages}");
        }
    }
}

fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_reached_says_something_of_quick_tests_only() {
        let outcome = |seconds| Outcome::new(Tests::TimedOut, Duration::from_secs(seconds));
        assert_eq!(outcome(59), Outcome::TimedOut);
        assert_eq!(outcome(60), Outcome::TooSlow);
        assert!(outcome(59).is_caught() && !outcome(60).is_caught());
    }

    #[test]
    fn faults_are_chosen_by_crate_and_number() {
        let fault = |id, krate: &str| Fault {
            id,
            krate: krate.to_owned(),
            ..Fault::default()
        };
        let faults = [fault(1, "npb-a"), fault(2, "npb-a"), fault(3, "npb-b")];
        let ids = |krate: Option<&str>, only: &[u32]| -> Vec<u32> {
            let arguments = MutantsArgs {
                krate: krate.map(str::to_owned),
                only: only.to_vec(),
                check: false,
            };
            let found = chosen(&faults, &arguments);
            found.map_or(Vec::new(), |found| found.iter().map(|f| f.id).collect())
        };
        assert_eq!(ids(None, &[]), [1, 2, 3]);
        assert_eq!(ids(Some("npb-a"), &[]), [1, 2]);
        assert_eq!(ids(None, &[3, 1]), [1, 3]);
        assert!(ids(Some("npb-a"), &[3]).is_empty());
    }
}
