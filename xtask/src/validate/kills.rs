//! `cargo xtask validate kills`: fits of the command that are killed at random moments, again and again, and end in the bytes of one that never was.
//!
//! A process that is killed cannot tidy up: what it leaves is a checkpoint that is whole or not there. Each round starts the same command with
//! `--checkpoint`, kills it (SIGKILL) after a random time, at most so often, and lets the last one end; by turns on one thread and on two.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use npb_catalogue::Result;

use super::work::{Random, wait_for, write_data};

/// Kills of one fit before it may end.
const MOST: usize = 8;

/// A fit that can go on: its name, its command, the end of its file.
struct Case {
    name: &'static str,
    arguments: String,
    end: &'static str,
}

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
    let cases = cases();
    let each = kills.div_ceil(cases.len());
    let mut random = Random(seed);
    let (mut all, mut sound) = (0, true);
    println!(
        "| fit | seconds | kills | gone on | fits | different | files left |\n|---|---|---|---|---|---|---|"
    );
    for case in &cases {
        let work = Work::new(npb, folder, case)?;
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
        let name = case.name;
        println!("| {name} | {seconds:.2} | {kills} | {gone_on} | {fits} | {different} | {left} |");
        all += kills;
        sound &= different == 0 && left == 0 && gone_on > 0;
    }
    println!("{all} kills");
    Ok(sound)
}

/// One fit of each kind that the command knows, each long enough to be killed.
fn cases() -> Vec<Case> {
    let case = |name, arguments: &str| Case {
        name,
        arguments: arguments.to_owned(),
        end: if arguments.starts_with("fit ") {
            "npb"
        } else {
            "tiff"
        },
    };
    let ratings =
        "fit ratings r.csv --row user --column film --value stars --set candidates=5 --chains 2";
    let image = "--set patch=[4,4] --set model.atoms=16 --set model.sweeps.burn_in=150 --set model.sweeps.keep=50";
    let limits = "limits.tolerance=0 --set";
    vec![
        case(
            "ratings, normal",
            &format!("{ratings} --set sweeps.burn_in=400"),
        ),
        case(
            "ratings, ordinal",
            &format!("{ratings} --likelihood ordinal --set sweeps.burn_in=200"),
        ),
        case(
            "table",
            "fit table p.csv --id id --set chains=2 --set sweeps.burn_in=600 --set sweeps.keep=100 --set sweeps.thin=1",
        ),
        case(
            "labels",
            &format!(
                "fit labels p.csv --labels y.csv --id id --set latent.{limits} latent.limits.max_iterations=300"
            ),
        ),
        case(
            "groups",
            &format!(
                "fit groups r.csv --group user --item film --value stars --liked 4 --set weights.{limits} weights.limits.max_iterations=1000 --set base.learned.{limits} base.learned.limits.max_iterations=100"
            ),
        ),
        case(
            "topics",
            &format!("fit topics d.txt --set topics=4 --set {limits} limits.max_iterations=300"),
        ),
        case(
            "classifier",
            "fit classifier p.csv --label ill --id id --set restarts=1 --set folds=2 --set limits.max_iterations=400 --set limits.tolerance=1e-300",
        ),
        case(
            "mixture",
            "fit mixture p.csv --id id --ignore ill --set restarts=2 --set limits.max_iterations=400 --set limits.tolerance=1e-300",
        ),
        case(
            "tasks",
            "fit tasks p.csv --task town --label ill --id id --set single.restarts=1 --set single.folds=2 --set single.limits.tolerance=1e-300",
        ),
        case("denoise", &format!("denoise in.tiff {image}")),
        case(
            "inpaint",
            &format!("inpaint in.tiff --mask mask.tiff {image}"),
        ),
    ]
}

/// A folder in which a case is fitted.
struct Work<'a> {
    npb: &'a Path,
    folder: PathBuf,
    case: &'a Case,
}

impl<'a> Work<'a> {
    fn new(npb: &'a Path, folder: &Path, case: &'a Case) -> Result<Self> {
        let folder = folder.join(case.name.replace(", ", "-"));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        write_data(&folder)?;
        Ok(Self { npb, folder, case })
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(self.npb);
        command
            .args(arguments.split_whitespace())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn must(&self, arguments: &str) -> Result<()> {
        let output = self.command(arguments).stderr(Stdio::piped()).output()?;
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
        if self.case.end == "npb" {
            self.must(&format!("export {name} -o fit.bin"))?;
            return Ok(fs::read(self.folder.join("fit.bin"))?);
        }
        Ok(fs::read(self.folder.join(name))?)
    }

    /// A fit that nobody disturbs, and its seconds.
    fn whole(&self) -> Result<(Vec<u8>, f64)> {
        let Case { arguments, end, .. } = self.case;
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
        let Case { arguments, end, .. } = self.case;
        let (parts, checkpoint) = (format!("parts.{end}"), self.folder.join("c"));
        for attempt in 0.. {
            let threads = 1 + seen.kills % 2;
            let line =
                format!("{arguments} --threads {threads} -o {parts} --checkpoint c --every 0.001s");
            if attempt == MOST {
                self.must(&line)?;
                break;
            }
            let mut child = self.command(&line).spawn()?;
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
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name == "c" || name.starts_with("c.") {
                seen.left += 1;
                fs::remove_file(self.folder.join(&name))?;
            }
        }
        fs::remove_file(self.folder.join(&parts))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_catalogue::Scratch;

    /// A stand-in for the command: it counts to ten in its checkpoint and writes what `tells` prints; `$first` is where it went on.
    fn stand_in(scratch: &Scratch, tells: &str) -> PathBuf {
        let path = scratch.path("npb");
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = export ]; then cp \"$2\" \"$4\"; exit; fi\n\
             for word in \"$@\"; do last=$out; out=$word; [ \"$last\" = -o ] && file=$word; done\n\
             n=$(cat c 2>/dev/null || echo 0); first=$n\n\
             while [ $n -lt 10 ]; do sleep 0.02; n=$((n+1)); echo $n > c.new; mv c.new c; done\n\
             {{ echo fit; {tells}; }} > \"$file\"; rm c\n"
        );
        fs::write(&path, text).unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn seen(tells: &str) -> Seen {
        let scratch = Scratch::new(&format!("kills-{}", tells.len()));
        let npb = stand_in(&scratch, tells);
        let case = &cases()[0];
        let work = Work::new(&npb, scratch.root(), case).unwrap();
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
