//! `cargo xtask mutants`: faults planted in the crates, to see which of them the tests let through.
//!
//! The faults are those of `xtask/mutants/*.toml`, one file per crate ([`list`]), and mutants that a tool makes ([`made`]). Nothing is planted in the
//! project itself: [`Tree`] is a copy of it under `target/mutants`, with a target directory of its own, and is kept between runs. All faults that can
//! be are put behind one switch ([`switch`], [`plan`]), so that the copy is built once; of the tests ([`suite`]) those that meet a fault are run with it
//! switched on, the quickest first, until one fails.

mod list;
mod made;
mod plan;
mod suite;
mod switch;
mod tree;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;

use list::Fault;
use npb_catalogue::Result;
use plan::{Alone, Plan};
use suite::{Ended, Suite};
use tree::Tree;

#[derive(Args)]
pub(crate) struct MutantsArgs {
    /// Plant faults of these crates only [default: those of all crates].
    #[arg(value_name = "CRATE")]
    crates: Vec<String>,
    /// Plant the faults of these numbers only.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    only: Vec<u32>,
    /// Check that the text of every fault is where the list says, and plant nothing.
    #[arg(long)]
    check: bool,
    /// Draw so many mutants among those that cargo-mutants makes of all crates, and plant those of the crates that are asked for, too.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "300")]
    sample: Option<usize>,
    /// Seed of the sample.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What became of a fault.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// This test failed.
    Caught(String),
    /// This test took much longer than without the fault.
    TimedOut(String),
    /// So many tests met it and passed.
    Survived(usize),
    /// What the compiler said: an error of the list.
    DoesNotCompile(String),
    /// A mutant of the sample that cannot be behind the switch.
    LeftOut(&'static str),
}

impl Outcome {
    fn is_caught(&self) -> bool {
        matches!(self, Self::Caught(_) | Self::TimedOut(_))
    }

    /// For the table.
    fn text(&self) -> String {
        match self {
            Self::Caught(test) => format!("caught by {test}"),
            Self::TimedOut(test) => format!("caught: {test} timed out"),
            Self::Survived(0) => "SURVIVED: no test meets it".to_owned(),
            Self::Survived(n) => format!("SURVIVED {}", plural(*n, "test")),
            Self::DoesNotCompile(_) => "does not compile".to_owned(),
            Self::LeftOut(why) => format!("left out: {why}"),
        }
    }
}

/// Runs what the arguments ask for; fails when a fault survives or the list is wrong.
pub(crate) fn run(arguments: &MutantsArgs, project: &Path) -> Result<ExitCode> {
    let mut faults = list::read(project)?;
    let broken = list::check(&faults, project);
    if !broken.is_empty() {
        let mut text = format!("{} in xtask/mutants:", plural(broken.len(), "mistake"));
        broken
            .iter()
            .for_each(|line| text += &format!("\n  {line}"));
        return Err(text.into());
    }
    if arguments.check {
        let alone = Plan::new(&faults, project)?.alone;
        let n = plural(faults.len(), "fault");
        println!("mutants: {n}, each in its place");
        for (id, why) in &alone {
            println!("  {id} is planted with a build of its own: {why}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(n) = arguments.sample {
        faults.extend(made::sample(project, n, arguments.seed)?);
    }
    plant_all(&chosen(faults, arguments)?, project)
}

/// The faults that the arguments name.
fn chosen(mut faults: Vec<Fault>, arguments: &MutantsArgs) -> Result<Vec<Fault>> {
    let mut crates: Vec<String> = faults.iter().map(|fault| fault.krate.clone()).collect();
    faults.retain(|fault| {
        (arguments.crates.is_empty() || arguments.crates.contains(&fault.krate))
            && (arguments.only.is_empty() || arguments.only.contains(&fault.id))
    });
    if faults.is_empty() {
        crates.sort();
        crates.dedup();
        return Err(format!("no such fault; there are some of {}", crates.join(", ")).into());
    }
    Ok(faults)
}

/// A fault with what became of it.
struct Judged<'f> {
    fault: &'f Fault,
    outcome: Outcome,
    is_switched: bool,
}

fn plant_all(faults: &[Fault], project: &Path) -> Result<ExitCode> {
    let tree = Tree::copy(project)?;
    let mut plan = Plan::new(faults, project)?;
    let crates: BTreeSet<&str> = faults.iter().flat_map(crates).collect();
    let crates: Vec<&str> = crates.into_iter().collect();
    let mut clock = Clock(Instant::now());
    let programs = plan.build(&tree, &crates)?;
    println!("{:.1} minutes: the tests are built", clock.minutes());
    let suite = Suite::timed(programs, tree.scratch())?;
    let n_tests = plural(suite.n_tests(), "test");
    println!("{:.1} minutes: {n_tests} without a fault", clock.minutes());
    println!("{:>5}  {:<13} {:>7}  outcome", "id", "crate", "seconds");
    let mut judged = Vec::new();
    let (alone, switched): (Vec<&Fault>, Vec<&Fault>) = faults
        .iter()
        .partition(|fault| plan.alone.contains_key(&fault.id));
    for fault in switched {
        judged.push(timed(fault, true, || judge(&suite, fault))?);
    }
    println!("{:.1} minutes: faults behind the switch", clock.minutes());
    tree.restore()?;
    for fault in alone {
        let why = &plan.alone[&fault.id];
        judged.push(timed(fault, false, || {
            judge_alone(&tree, &suite, fault, why)
        })?);
    }
    println!("{:.1} minutes: faults one at a time", clock.minutes());
    Ok(report(&judged))
}

/// Minutes since the last time that it was asked.
struct Clock(Instant);

impl Clock {
    fn minutes(&mut self) -> f64 {
        let now = Instant::now();
        let seconds = (now - std::mem::replace(&mut self.0, now)).as_secs_f64();
        seconds / 60.0
    }
}

/// The crates whose tests may see a fault.
fn crates(fault: &Fault) -> impl Iterator<Item = &str> {
    let also = fault.also.iter().map(String::as_str);
    [&fault.krate[..]].into_iter().chain(also)
}

fn timed<'f>(
    fault: &'f Fault,
    is_switched: bool,
    judge: impl FnOnce() -> Result<Outcome>,
) -> Result<Judged<'f>> {
    let start = Instant::now();
    let outcome = judge()?;
    let seconds = start.elapsed().as_secs_f64();
    let (id, krate, text) = (fault.id, &fault.krate, outcome.text());
    println!("{id:>5}  {krate:<13} {seconds:>7.1}  {text}");
    Ok(Judged {
        fault,
        outcome,
        is_switched,
    })
}

/// Runs the tests that meet a fault until one fails.
fn judge(suite: &Suite, fault: &Fault) -> Result<Outcome> {
    let tests = suite.concerned(fault.id, &fault.krate, &fault.tests);
    for test in &tests {
        let name = || test.name.clone();
        match suite.with(fault.id, test)? {
            Ended::Passed => {}
            Ended::Failed => return Ok(Outcome::Caught(name())),
            Ended::TimedOut => return Ok(Outcome::TimedOut(name())),
        }
    }
    Ok(Outcome::Survived(tests.len()))
}

/// Plants a fault of the list that cannot be behind the switch.
fn judge_alone(tree: &Tree, suite: &Suite, fault: &Fault, why: &Alone) -> Result<Outcome> {
    if fault.id >= made::FIRST {
        return Ok(match why {
            Alone::Place(why) => Outcome::LeftOut(why),
            Alone::Refused(text) => Outcome::DoesNotCompile(text.clone()),
        });
    }
    tree.with(fault, || {
        let crates: Vec<&str> = crates(fault).collect();
        match tree.build(&crates)? {
            Ok(programs) => judge(&suite.rebuilt(programs, fault.id), fault),
            Err(complaints) => {
                let texts: Vec<String> = complaints.into_iter().map(|c| c.text).collect();
                Ok(Outcome::DoesNotCompile(texts.join("\n")))
            }
        }
    })
}

/// Prints the survivors and a table; what is wrong makes the run fail.
fn report(judged: &[Judged<'_>]) -> ExitCode {
    let is_made = |judged: &Judged<'_>| judged.fault.id >= made::FIRST;
    let is_wrong = |judged: &&Judged<'_>| match judged.outcome {
        Outcome::Survived(_) => true,
        Outcome::DoesNotCompile(_) => !is_made(judged),
        _ => false,
    };
    let wrong: Vec<&Judged<'_>> = judged.iter().filter(is_wrong).collect();
    for Judged { fault, outcome, .. } in &wrong {
        println!("\n{} {}: {}", fault.id, fault.file, outcome.text());
        println!("  {}", fault.what);
        if !fault.seen_by.is_empty() {
            println!("  who ought to see it: {}", fault.seen_by);
        }
        if let Outcome::DoesNotCompile(messages) = outcome {
            println!("{messages}");
        }
    }
    println!("\n{}", table(judged));
    match wrong.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Counts by crate, of the lists and of the sample.
fn table(judged: &[Judged<'_>]) -> String {
    let mut text = String::from(
        "| faults | planted | caught | survived | behind the switch | does not compile | left out |\n|---|---|---|---|---|---|---|\n",
    );
    for (source, is_of) in [("list", false), ("sample", true)] {
        let of_source: Vec<&Judged<'_>> = judged
            .iter()
            .filter(|judged| (judged.fault.id >= made::FIRST) == is_of)
            .collect();
        let crates: BTreeSet<&str> = of_source.iter().map(|j| &j.fault.krate[..]).collect();
        let all = (crates.len() > 1).then_some("all");
        for name in crates.into_iter().chain(all) {
            let mut of_crate = of_source.clone();
            of_crate.retain(|judged| name == "all" || judged.fault.krate == name);
            let count = |of: fn(&Judged<'_>) -> bool| of_crate.iter().filter(|j| of(j)).count();
            let counts = [
                of_crate.len(),
                count(|judged| judged.outcome.is_caught()),
                count(|judged| matches!(judged.outcome, Outcome::Survived(_))),
                count(|judged| judged.is_switched),
                count(|judged| matches!(judged.outcome, Outcome::DoesNotCompile(_))),
                count(|judged| matches!(judged.outcome, Outcome::LeftOut(_))),
            ];
            let counts = counts.map(|n| n.to_string()).join(" | ");
            text += &format!("| {name}, {source} | {counts} |\n");
        }
    }
    text
}

fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(id: u32, krate: &str) -> Fault {
        Fault {
            id,
            krate: krate.to_owned(),
            ..Fault::default()
        }
    }

    #[test]
    fn faults_are_chosen_by_crate_and_number() {
        let ids = |krate: Option<&str>, only: &[u32]| -> Vec<u32> {
            let arguments = MutantsArgs {
                crates: krate.iter().map(|&krate| krate.to_owned()).collect(),
                only: only.to_vec(),
                check: false,
                sample: None,
                seed: 1,
            };
            let faults = vec![fault(1, "npb-a"), fault(2, "npb-a"), fault(3, "npb-b")];
            let found = chosen(faults, &arguments);
            found.map_or(Vec::new(), |found| found.iter().map(|f| f.id).collect())
        };
        assert_eq!(ids(None, &[]), [1, 2, 3]);
        assert_eq!(ids(Some("npb-a"), &[]), [1, 2]);
        assert_eq!(ids(None, &[3, 1]), [1, 3]);
        assert!(ids(Some("npb-a"), &[3]).is_empty());
    }

    #[test]
    fn what_became_of_faults_is_counted_by_crate_and_source() {
        let faults = [
            fault(1, "npb-a"),
            fault(2, "npb-b"),
            fault(3, "npb-b"),
            fault(made::FIRST, "npb-b"),
        ];
        let outcomes = [
            (Outcome::Caught("t".to_owned()), true),
            (Outcome::TimedOut("t".to_owned()), true),
            (Outcome::Survived(2), false),
            (Outcome::LeftOut("a const fn"), false),
        ];
        let judged: Vec<Judged<'_>> = faults
            .iter()
            .zip(outcomes)
            .map(|(fault, (outcome, is_switched))| Judged {
                fault,
                outcome,
                is_switched,
            })
            .collect();
        let table = table(&judged);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        let wanted = [
            "| npb-a, list | 1 | 1 | 0 | 1 | 0 | 0 |",
            "| npb-b, list | 2 | 1 | 1 | 1 | 0 | 0 |",
            "| all, list | 3 | 2 | 1 | 2 | 0 | 0 |",
            "| npb-b, sample | 1 | 0 | 0 | 0 | 0 | 1 |",
        ];
        assert_eq!(rows, wanted);
        assert_eq!(report(&judged[..2]), ExitCode::SUCCESS);
        assert_eq!(report(&judged[..3]), ExitCode::FAILURE);
    }
}
