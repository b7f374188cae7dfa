//! A fit whose parts are made in several processes ends in the bits of one.

use std::path::{Path, PathBuf};

use npb_infer::checkpoint::Every;
use npb_infer::watch::CheckpointError;
use npb_infer::{Watch, parallel, stream};
use rand::RngExt;

const FIRST: usize = 5;
const SECOND: usize = 3;

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("npb-shares-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Five parts, and three more that each need all of them; a draw each. Counts the parts that are made.
fn fit(watch: &Watch<'_>, key: u64) -> Result<(f64, usize), CheckpointError> {
    let checkpoint = watch.checkpoint::<f64>("demo/shares", "0.1.0", key, FIRST + SECOND)?;
    let made = std::sync::atomic::AtomicUsize::new(0);
    let part = |number: usize, sum: f64| {
        checkpoint.claim(number)?;
        if let Some(found) = checkpoint.reached(number) {
            return Ok(found);
        }
        made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let x = sum + stream(3, [number as u64, 0, 0, 0]).random::<f64>();
        checkpoint.write(number, || x)?;
        Ok::<_, CheckpointError>(x)
    };
    let first = parallel::try_map(0..FIRST, |number| part(number, 0.0))?;
    let sum: f64 = first.iter().sum();
    let second = parallel::try_map(FIRST..FIRST + SECOND, |number| part(number, sum))?;
    Ok((second.iter().sum(), made.into_inner()))
}

fn process(
    folder: &Path,
    own: usize,
    of: usize,
    found: &[PathBuf],
) -> Result<(f64, usize), CheckpointError> {
    let file = folder.join(format!("{own}-{}", found.len()));
    let watch = Watch::none()
        .with_checkpoint(file, Every::default())
        .with_share(own, of, found.to_vec());
    let outcome = fit(&watch, 1);
    assert_eq!(
        watch.is_short(),
        matches!(outcome, Err(CheckpointError::Elsewhere { .. }))
    );
    outcome
}

#[test]
fn rounds_of_processes_end_in_the_bits_of_one() {
    let (whole, all) = fit(&Watch::none(), 1).unwrap();
    assert_eq!(all, FIRST + SECOND);
    for of in [2, 3, 8] {
        let folder = folder(&format!("of-{of}"));
        let mut found: Vec<PathBuf> = Vec::new();
        let mut rounds = 0;
        let ended = loop {
            rounds += 1;
            for own in 0..of {
                match process(&folder, own, of, &found) {
                    Err(CheckpointError::Elsewhere { .. }) => {}
                    outcome => drop(outcome.unwrap()),
                }
            }
            let written = std::fs::read_dir(&folder)
                .unwrap()
                .map(|file| file.unwrap().path());
            found = written.collect();
            // One that makes nothing and puts together.
            let watch = Watch::none().with_share(of, of, found.clone());
            match fit(&watch, 1) {
                Err(CheckpointError::Elsewhere { .. }) => assert!(rounds < 4),
                outcome => break outcome.unwrap(),
            }
        };
        assert_eq!(ended, (whole, 0), "{of} processes");
        // The second parts need the first ones.
        assert_eq!(rounds, 2);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn each_process_makes_its_own_parts_and_says_which_is_missing() {
    let folder = folder("own");
    let error = process(&folder, 1, 3, &[]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("part 0 of the fit is made by another process"),
        "{error}"
    );
    let found = vec![folder.join("1-0")];
    let watch = Watch::none().with_share(3, 3, found.clone());
    let checkpoint = watch
        .checkpoint::<f64>("demo/shares", "0.1.0", 1, FIRST + SECOND)
        .unwrap();
    let here: Vec<usize> = (0..FIRST + SECOND)
        .filter(|&part| checkpoint.claim(part).is_ok())
        .collect();
    assert_eq!(here, [1, 4]);
    // One process has them all.
    assert_eq!(process(&folder, 0, 1, &[]).unwrap().1, FIRST + SECOND);
    // Checkpoints of another fit are refused.
    let other = Watch::none().with_share(0, 2, found);
    assert!(matches!(
        fit(&other, 2).unwrap_err(),
        CheckpointError::OtherFit { .. }
    ));
    std::fs::remove_dir_all(folder).unwrap();
}
