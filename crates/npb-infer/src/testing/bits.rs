use thiserror::Error;

/// Two runs that should agree bit for bit do not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{run}: {found_len} bytes, first different from the {expected_len} bytes of {reference} at byte {position}"
)]
#[non_exhaustive]
pub struct BitsDiffer {
    /// The run that differs.
    pub run: String,
    /// The run it was compared with.
    pub reference: String,
    /// First byte that differs (the shorter length when one is the start of the other).
    pub position: usize,
    /// Number of bytes of the run.
    pub found_len: usize,
    /// Number of bytes of the reference.
    pub expected_len: usize,
}

/// Checks that `run` gives the same bytes in rayon pools of all these sizes. Make the bytes with
/// [`crate::storage::to_bytes`] or from `f64::to_bits`: printed numbers hide differences.
///
/// # Errors
/// The first number of threads whose bytes differ from those of `threads[0]`.
///
/// # Panics
/// When the system gives no threads for a pool.
///
/// ```
/// use npb_infer::testing::same_bits_on_threads;
/// use npb_infer::parallel;
/// let ordered = || parallel::map(0..1000, |i| f64::from(i).sqrt());
/// same_bits_on_threads(&[1, 2, 4], || ordered().iter().sum::<f64>().to_bits().to_le_bytes().to_vec()).unwrap();
/// ```
pub fn same_bits_on_threads(
    threads: &[usize],
    run: impl Fn() -> Vec<u8> + Sync,
) -> Result<(), BitsDiffer> {
    let on = |n: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(n)
            .build()
            .expect("threads for a pool");
        (format!("{n} threads"), pool.install(&run))
    };
    let mut runs = threads.iter().map(|&n| on(n));
    let Some(reference) = runs.next() else {
        return Ok(());
    };
    runs.try_for_each(|other| compare(other, &reference))
}

/// Checks that a run cut after each of `cuts` steps, saved, loaded and continued to `total` steps
/// ends in the same bytes as one that was never cut.
///
/// `start` makes the run at step 0, `advance(run, n)` makes n more steps, `save` and `load` go
/// through bytes and back (with the data and the configuration taken from outside, as after a
/// crash).
///
/// # Errors
/// The first cut after which the bytes differ.
///
/// # Panics
/// When a cut lies beyond `total`.
pub fn same_bits_when_resumed<M>(
    total: u64,
    cuts: &[u64],
    start: impl Fn() -> M,
    advance: impl Fn(&mut M, u64),
    save: impl Fn(&M) -> Vec<u8>,
    load: impl Fn(&[u8]) -> M,
) -> Result<(), BitsDiffer> {
    let mut whole = start();
    advance(&mut whole, total);
    let reference = ("the uncut run".to_owned(), save(&whole));
    for &cut in cuts {
        assert!(cut <= total, "cut {cut} of {total} steps");
        let mut first = start();
        advance(&mut first, cut);
        let mut second = load(&save(&first));
        drop(first);
        advance(&mut second, total - cut);
        compare(
            (format!("the run cut after {cut} steps"), save(&second)),
            &reference,
        )?;
    }
    Ok(())
}

fn compare(
    (run, found): (String, Vec<u8>),
    (reference, expected): &(String, Vec<u8>),
) -> Result<(), BitsDiffer> {
    if found == *expected {
        return Ok(());
    }
    Err(BitsDiffer {
        run,
        reference: reference.clone(),
        position: found
            .iter()
            .zip(expected)
            .take_while(|(a, b)| a == b)
            .count(),
        found_len: found.len(),
        expected_len: expected.len(),
    })
}
