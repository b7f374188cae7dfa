//! `cargo xtask validate kills`: fits of the command that are killed at random moments, again and again, and end in the bytes of one that never was.
//!
//! A process that is killed cannot tidy up: what it leaves is a checkpoint that is whole or not there. Each round starts the same command with
//! `--checkpoint`, kills it (SIGKILL) after a random time, at most so often, and lets the last one end; by turns on one thread and on two.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use npb_catalogue::Result;

use super::work::{Case, Random, Work, wait_for};

/// Kills of one fit before it may end.
const MOST: usize = 8;

/// What was seen of a case.
#[derive(Debug, Default)]
struct Seen {
    kills: usize,
    /// Kills after which the next command found a checkpoint.
    gone_on: usize,
    fits: usize,
    /// Fits with other bytes than the one that was never killed.
    different: usize,
    /// Files of checkpoints that are left when the fit has ended.
    left: usize,
}

/// Kills at least `kills` times over all cases; whether all bytes were the same.
pub(super) fn run(npb: &Path, folder: &Path, kills: usize, seed: u64) -> Result<bool> {
    let cases = Case::all()?;
    let each = kills.div_ceil(cases.len());
    let mut random = Random(seed);
    let (mut all, mut sound) = (0, true);
    println!(
        "| fit | seconds | kills | gone on | fits | different | files left |\n|---|---|---|---|---|---|---|"
    );
    for case in &cases {
        let work = Killed(Work::new(npb, folder, case)?);
        let (whole, seconds) = work.whole()?;
        let mut seen = Seen::default();
        while seen.kills < each {
            work.round(&whole, seconds, &mut random, &mut seen)?;
        }
        let Seen {
            kills,
            gone_on,
            fits,
            different,
            left,
        } = seen;
        let name = &case.name;
        println!("| {name} | {seconds:.2} | {kills} | {gone_on} | {fits} | {different} | {left} |");
        all += kills;
        sound &= different == 0 && left == 0 && gone_on > 0;
    }
    println!("{all} kills");
    Ok(sound)
}

/// A fit that is killed.
struct Killed<'a>(Work<'a>);

impl Killed<'_> {
    /// What the fit is called with.
    fn arguments(&self) -> String {
        format!("{} {}", self.0.case.fit, self.0.case.kills)
    }

    fn must(&self, arguments: &str) -> Result<()> {
        let output = self.0.command(arguments).stderr(Stdio::piped()).output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!(
                "npb {arguments}: {}",
                String::from_utf8_lossy(&output.stderr)
            )
            .into()),
        }
    }

    /// What the fit comes to: of a model the part that does not say when it was made.
    fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        if !self.0.case.is_image() {
            self.must(&format!("export {name} -o fit.bin"))?;
            return Ok(fs::read(self.0.path("fit.bin"))?);
        }
        Ok(fs::read(self.0.path(name))?)
    }

    /// A fit that nobody disturbs, and its seconds.
    fn whole(&self) -> Result<(Vec<u8>, f64)> {
        let (arguments, end) = (self.arguments(), self.0.case.ending());
        let start = Instant::now();
        self.must(&format!("{arguments} --threads 1 -o whole.{end}"))?;
        let seconds = start.elapsed().as_secs_f64();
        Ok((self.bytes(&format!("whole.{end}"))?, seconds))
    }

    /// A fit that is killed a few times.
    fn round(
        &self,
        whole: &[u8],
        seconds: f64,
        random: &mut Random,
        seen: &mut Seen,
    ) -> Result<()> {
        let (arguments, end) = (self.arguments(), self.0.case.ending());
        let (parts, checkpoint) = (format!("parts.{end}"), self.0.path("c"));
        for attempt in 0.. {
            let threads = 1 + seen.kills % 2;
            let line =
                format!("{arguments} --threads {threads} -o {parts} --checkpoint c --every 0.001s");
            if attempt == MOST {
                self.must(&line)?;
                break;
            }
            let mut child = self.0.command(&line).spawn()?;
            let wait = Duration::from_secs_f64(seconds * random.uniform());
            if let Some(status) = wait_for(&mut child, wait)? {
                if !status.success() {
                    return Err(format!("npb {line}: {status}").into());
                }
                break;
            }
            child.kill()?;
            child.wait()?;
            seen.kills += 1;
            seen.gone_on += usize::from(checkpoint.exists());
        }
        seen.fits += 1;
        seen.different += usize::from(self.bytes(&parts)? != whole);
        for entry in fs::read_dir(self.0.path("."))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name == "c" || name.starts_with("c.") {
                seen.left += 1;
                fs::remove_file(self.0.path(&name))?;
            }
        }
        fs::remove_file(self.0.path(&parts))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_catalogue::Scratch;
    use std::path::PathBuf;

    /// A stand-in for the command: it counts to ten in its checkpoint and writes what `tells` prints; `$first` is where it went on.
    fn stand_in(scratch: &Scratch, tells: &str) -> PathBuf {
        let path = scratch.path("npb");
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = export ]; then cp \"$2\" \"$4\"; exit; fi\n\
             for word in \"$@\"; do last=$out; out=$word; [ \"$last\" = -o ] && file=$word; done\n\
             n=$(cat c 2>/dev/null || echo 0); first=$n\n\
             while [ $n -lt 10 ]; do sleep 0.02; n=$((n+1)); echo $n > c.new; mv c.new c; done\n\
             {{ echo fit; {tells}; }} > \"$file\"; rm -f c\n"
        );
        fs::write(&path, text).unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn seen(tells: &str) -> Seen {
        let scratch = Scratch::new(&format!("kills-{}", tells.len()));
        let npb = stand_in(&scratch, tells);
        let case = &Case::all().unwrap()[0];
        let work = Killed(Work::new(&npb, scratch.root(), case).unwrap());
        let (whole, seconds) = work.whole().unwrap();
        let (mut seen, mut random) = (Seen::default(), Random(1));
        while seen.kills < 6 {
            work.round(&whole, seconds, &mut random, &mut seen).unwrap();
        }
        seen
    }

    #[test]
    fn a_fit_that_forgets_that_it_was_killed_passes_and_one_that_does_not_is_seen() {
        let same = seen("true");
        assert!(same.fits > 0 && same.different == 0, "{same:?}");
        let other = seen("echo $first");
        assert!(other.different > 0, "{other:?}");
    }
}
