//! Fits that can be stopped, or killed, and go on.

use std::ops::ControlFlow;
use std::path::Path;

use npb_infer::SweepReport;
use npb_infer::checkpoint::{self, Checkpointer, Every};
use npb_infer::storage::StorageError;
use serde::{Deserialize, Serialize};

use crate::fit::{BsvdFit, Record, spacing};
use crate::gibbs::BsvdSampler;
use crate::{BsvdConfig, BsvdData, BsvdError, Cells, Entries, SideInformation};

/// Name in checkpoint files.
const MODEL: &str = "npb-bsvd/run";

/// Layouts of checkpoints: the fit as far as it has come, of data with a fingerprint. `F` is the fit or a reference to it.
#[derive(Serialize, Deserialize)]
enum Checkpoint<F> {
    V1 { data: u64, fit: F },
}

/// As [`fit`](crate::fit()), with checkpoints: called again with the same arguments after it was stopped or killed, it goes on from the file at `path`
/// and returns the same bits as if it had never stopped.
///
/// The file is written when `every` says so and at the end, each time replacing what was there; delete it when the fit is saved. `watch` sees the report
/// of every sweep; when it breaks, the fit is what there is by then, and its `stop` says so.
///
/// ```
/// use std::ops::ControlFlow;
/// use npb_bsvd::npb_data::{Rating, Ratings};
/// use npb_bsvd::npb_infer::{SweepPlan, checkpoint::Every};
/// use npb_bsvd::{BsvdConfig, Cells, SideInformation, fit, fit_with_checkpoints};
///
/// let entry = |n: u32| Rating { row: n % 5, column: n % 4, value: f64::from(n % 5) };
/// let ratings = Ratings::new(5, 4, &(0..12).map(entry).collect::<Vec<_>>())?;
/// let config = BsvdConfig { candidates: 4, sweeps: SweepPlan { burn_in: 5, keep: 15, thin: 1 }, ..BsvdConfig::default() };
/// let file = std::env::temp_dir().join("npb-bsvd-checkpoint-example");
/// let run = |last: u64| {
///     let (side, cells) = (SideInformation::default(), Cells::default());
///     fit_with_checkpoints(&ratings, side, &cells, &config, &file, Every::sweeps(4), |report| {
///         if report.sweep == last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
///     })
/// };
/// run(9)?;                    // stopped after nine sweeps,
/// let resumed = run(100)?;    // goes on from there
/// assert_eq!(resumed, fit(&ratings, SideInformation::default(), &Cells::default(), &config)?);
/// std::fs::remove_file(file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`fit`](crate::fit()); a checkpoint that cannot be written or read, or that is of other data, cells or another configuration.
pub fn fit_with_checkpoints(
    entries: &impl Entries,
    side: SideInformation,
    cells: &Cells,
    config: &BsvdConfig,
    path: impl AsRef<Path>,
    every: Every,
    mut watch: impl FnMut(&SweepReport<'_>) -> ControlFlow<()>,
) -> Result<BsvdFit, BsvdError> {
    let path = path.as_ref();
    let data = entries.prepare(side, config)?;
    let key = fingerprint(&data);
    let (mut sampler, mut record) = match checkpoint::resume(path, MODEL)? {
        None => (
            BsvdSampler::new(&data, config.clone())?,
            Record::new(&data, config, cells.clone())?,
        ),
        Some(Checkpoint::V1 { data: found, fit }) => {
            let fit: BsvdFit = fit;
            let same = found == key && fit.config == *config && fit.cells == *cells;
            if !same || *fit.side() != data.side {
                return Err(BsvdError::State {
                    what: format!(
                        "checkpoint {} is of other entries, features, cells or another configuration: delete it to start again",
                        path.display()
                    ),
                });
            }
            fit.resume(&data, spacing(config))?
        }
    };
    let mut writer = Checkpointer::new(path, MODEL, env!("CARGO_PKG_VERSION"), every);
    let mut failed: Option<StorageError> = None;
    let outcome = sampler.run(|report, sampler| {
        record.watch(report, sampler);
        let content = || Checkpoint::V1 {
            data: key,
            fit: record.so_far(sampler, report.trace),
        };
        if let Err(error) = writer.offer(report.sweep, content) {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        watch(report)
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let fit = record.finish(sampler, outcome.stop);
    writer.write(&Checkpoint::V1 {
        data: key,
        fit: &fit,
    })?;
    Ok(fit)
}

/// A number that is, but for chance, another one for other entries.
fn fingerprint(data: &BsvdData) -> u64 {
    let entries = &data.rows;
    let sizes = [data.n_rows(), data.n_cols()].map(|n| n as u64);
    let words = sizes
        .into_iter()
        .chain(entries.starts.iter().map(|&n| n as u64))
        .chain(entries.others.iter().copied().map(u64::from))
        .chain(entries.values.iter().map(|y| u64::from(y.to_bits())))
        .chain(data.outcomes.iter().copied().map(u64::from))
        .chain(data.trials.iter().copied().map(u64::from))
        .chain([data.centre.to_bits(), data.scale.to_bits()]);
    // Multiplication by an odd number and rotation lose nothing.
    words.fold(0, |sum: u64, word| {
        (sum.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    })
}
