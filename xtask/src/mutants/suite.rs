//! The tests of a crate, each a process of its own: how long it takes, which faults it meets, whether it sees one.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use npb_catalogue::Result;

/// A test may take this long, or ten times as long as without a fault.
const PATIENCE: Duration = Duration::from_secs(20);
/// No test takes longer without a fault.
const END: Duration = Duration::from_secs(900);

/// A test program as cargo built it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// The crate of which it is.
    pub(super) krate: String,
    /// What cargo calls it: the library, or a file of its tests.
    pub(super) target: String,
    /// The folder in which cargo runs it.
    pub(super) folder: PathBuf,
}

/// A test: of which program, by which name.
#[derive(Clone, Debug)]
pub(super) struct Test {
    program: usize,
    pub(super) name: String,
    /// Seconds without a fault.
    took: Duration,
    /// The faults behind the switch whose functions it calls.
    meets: BTreeSet<u32>,
}

/// How a test ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Passed,
    Failed,
    TimedOut,
}

/// All tests of some programs, timed; the quickest first.
pub(super) struct Suite {
    programs: Vec<Program>,
    tests: Vec<Test>,
    /// Where output and notes go.
    scratch: PathBuf,
}

impl Suite {
    /// Runs every test once as it is and notes which faults it meets. All must pass.
    pub(super) fn timed(programs: Vec<Program>, scratch: &Path) -> Result<Self> {
        let mut suite = Self {
            programs,
            tests: Vec::new(),
            scratch: scratch.to_owned(),
        };
        for program in 0..suite.programs.len() {
            for name in suite.names(program)? {
                let test = suite.timed_test(program, name)?;
                suite.tests.push(test);
            }
        }
        suite.tests.sort_by_key(|test| test.took);
        Ok(suite)
    }

    fn names(&self, program: usize) -> Result<Vec<String>> {
        let output = self
            .command(program)
            .args(["--list", "--format", "terse"])
            .output()?;
        Ok(names(&String::from_utf8_lossy(&output.stdout)))
    }

    fn timed_test(&self, program: usize, name: String) -> Result<Test> {
        let trace = self.scratch.join("trace.txt");
        fs::write(&trace, "")?;
        let start = Instant::now();
        let mut command = self.one(program, &name);
        command.env("NPB_FAULT_TRACE", &trace);
        let ended = run(command, &self.said(), END)?;
        if ended != Ended::Passed {
            let said = fs::read_to_string(self.said()).unwrap_or_default();
            return Err(format!("{name} does not pass as it is: {ended:?}\n{said}").into());
        }
        let met = fs::read_to_string(&trace)?;
        Ok(Test {
            program,
            name,
            took: start.elapsed(),
            meets: met.lines().filter_map(|id| id.parse().ok()).collect(),
        })
    }

    fn said(&self) -> PathBuf {
        self.scratch.join("said.txt")
    }

    fn command(&self, program: usize) -> Command {
        let Program { path, folder, .. } = &self.programs[program];
        let mut command = Command::new(path);
        command
            .current_dir(folder)
            .env("CARGO_MANIFEST_DIR", folder)
            .env_remove("NPB_FAULT")
            .stdin(Stdio::null());
        command
    }

    fn one(&self, program: usize, name: &str) -> Command {
        let mut command = self.command(program);
        command.args(["--exact", name, "--test-threads=1"]);
        command
    }

    pub(super) fn n_tests(&self) -> usize {
        self.tests.len()
    }

    /// The same tests in programs that were built anew, with a fault that stands in the text: any of them may meet it.
    pub(super) fn rebuilt(&self, built: Vec<Program>, id: u32) -> Self {
        let is_same = |a: &Program, b: &Program| (&a.krate, &a.target) == (&b.krate, &b.target);
        let mut tests = self.tests.clone();
        tests.retain_mut(|test| {
            let old = &self.programs[test.program];
            let new = built.iter().position(|program| is_same(program, old));
            test.program = new.unwrap_or(usize::MAX);
            test.meets = BTreeSet::from([id]);
            new.is_some()
        });
        Self {
            programs: built,
            tests,
            scratch: self.scratch.clone(),
        }
    }

    /// The tests that may see a fault, in the order in which they are run: those that are known to see it, then the quickest of its crate, then others'.
    pub(super) fn concerned(&self, id: u32, krate: &str, known: &[String]) -> Vec<&Test> {
        let is_known = |test: &Test| known.iter().any(|part| test.name.contains(&part[..]));
        let is_foreign = |test: &Test| self.programs[test.program].krate != krate;
        let mut tests: Vec<&Test> = self.tests.iter().collect();
        tests.retain(|test| test.meets.contains(&id));
        tests.sort_by_key(|test| (!is_known(test), is_foreign(test)));
        tests
    }

    /// Runs a test with a fault switched on.
    pub(super) fn with(&self, id: u32, test: &Test) -> Result<Ended> {
        let mut command = self.one(test.program, &test.name);
        command.env("NPB_FAULT", id.to_string());
        run(command, &self.said(), PATIENCE.max(10 * test.took))
    }
}

/// The tests that a program lists.
fn names(listed: &str) -> Vec<String> {
    let name = |line: &str| line.strip_suffix(": test").map(str::to_owned);
    listed.lines().filter_map(name).collect()
}

/// Runs a program for so long at most, with what it says in the file `said`.
pub(super) fn run(mut command: Command, said: &Path, limit: Duration) -> Result<Ended> {
    let out = File::create(said)?;
    command
        .stdin(Stdio::null())
        .stderr(out.try_clone()?)
        .stdout(out);
    let start = Instant::now();
    let mut child = command.spawn()?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(match status.success() {
                true => Ended::Passed,
                false => Ended::Failed,
            });
        }
        if start.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(Ended::TimedOut);
        }
        // Most tests end at once.
        let pause = start.elapsed().as_millis() as u64 / 16;
        std::thread::sleep(Duration::from_millis(pause.clamp(1, 50)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_in_a_list() {
        assert_eq!(names("a::b: test\nc: test\nd: benchmark\n"), ["a::b", "c"]);
    }

    #[test]
    fn known_tests_come_first_and_quick_ones_next() {
        let program = |krate: &str| Program {
            path: PathBuf::new(),
            krate: krate.to_owned(),
            target: "it".to_owned(),
            folder: PathBuf::new(),
        };
        let test = |program, name: &str, millis, meets: &[u32]| Test {
            program,
            name: name.to_owned(),
            took: Duration::from_millis(millis),
            meets: meets.iter().copied().collect(),
        };
        let suite = Suite {
            programs: vec![program("npb-a"), program("npb-cli")],
            tests: vec![
                test(1, "foreign", 1, &[7]),
                test(0, "quick", 2, &[7, 8]),
                test(0, "blind", 3, &[8]),
                test(0, "slow", 4, &[7]),
                test(0, "it::known", 5, &[7]),
            ],
            scratch: PathBuf::new(),
        };
        let found = suite.concerned(7, "npb-a", &["known".to_owned()]);
        let names: Vec<&str> = found.iter().map(|test| &test.name[..]).collect();
        assert_eq!(names, ["it::known", "quick", "slow", "foreign"]);
        assert!(suite.concerned(9, "npb-a", &[]).is_empty());
    }

    #[test]
    fn a_program_ends_or_is_ended() {
        let scratch = npb_catalogue::Scratch::new("mutants-suite");
        let said = scratch.path("said.txt");
        let shell = |line: &str, seconds: f64| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            run(command, &said, Duration::from_secs_f64(seconds)).unwrap()
        };
        assert_eq!(shell("echo one", 60.0), Ended::Passed);
        assert_eq!(fs::read_to_string(&said).unwrap(), "one\n");
        assert_eq!(shell("exit 3", 60.0), Ended::Failed);
        assert_eq!(shell("exec sleep 60", 0.1), Ended::TimedOut);
    }
}
