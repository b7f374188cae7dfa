//! Chains that may be stopped, or killed, and go on: each has a checkpoint file of its own.

use std::ops::ControlFlow;
use std::path::Path;

use npb_data::{Labels, Table};
use npb_infer::checkpoint::{self, Checkpointer, Every};
use npb_infer::{SweepReport, Trace, run_chains};
use serde::{Deserialize, Serialize};

use super::IqgmeSampler;
use super::config::GibbsConfig;
use super::fit::{GibbsFit, Record, run};
use super::state::{GibbsState, n_missing};
use crate::IqgmeError;
use crate::data::{IqgmeData, fingerprint};

/// Name in checkpoint files.
const MODEL: &str = "npb-iqgme/gibbs/run/2";

/// What a checkpoint holds.
#[derive(Serialize, Deserialize)]
struct Checkpoint<C, T, R> {
    config: C,
    chain: u64,
    /// Fingerprint of the data.
    data: u64,
    trace: T,
    state: GibbsState,
    record: R,
}

/// As [`fit_gibbs`](crate::fit_gibbs), with checkpoints: called again with the same arguments after it was stopped or killed, it goes on from them and
/// returns the same bits as if it had never stopped.
///
/// Chain `c` writes to the file `path` with `.c` appended, when `every` says so and at its end. Delete the files when the fit is saved. `watch` sees the
/// report of every sweep, with the chain's number; when it breaks, that chain ends there.
///
/// Errors: as [`fit_gibbs`](crate::fit_gibbs); a checkpoint that cannot be written or read, or that is of other data or another configuration; no draw
/// stored by any chain.
pub fn fit_gibbs_with_checkpoints(
    table: &Table,
    labels: &Labels,
    config: &GibbsConfig,
    path: impl AsRef<Path>,
    every: Every,
    watch: impl Fn(u64, &SweepReport<'_>) -> ControlFlow<()> + Sync,
) -> Result<GibbsFit, IqgmeError> {
    config.validate()?;
    let data = IqgmeData::new(table, labels, &config.model)?;
    let fingerprint = fingerprint(&data);
    let path = path.as_ref();
    let chains = run_chains(config.chains, |chain| {
        let mut file = path.as_os_str().to_owned();
        file.push(format!(".{chain}"));
        let file = Path::new(&file);
        let (sampler, record) = begin(&data, config, chain, fingerprint, file)?;
        let mut writer = Checkpointer::new(file, MODEL, env!("CARGO_PKG_VERSION"), every);
        run(sampler, record, |report, sampler, record| {
            let content = || Checkpoint {
                config,
                chain,
                data: fingerprint,
                trace: report.trace,
                state: sampler.state(),
                record,
            };
            let more = watch(chain, report);
            if more.is_break() || report.sweep == config.sweeps.total() {
                writer.write(&content())?;
            } else {
                writer.offer(report.sweep, content)?;
            }
            Ok(more)
        })
    })?;
    GibbsFit::new(data, config.clone(), chains)
}

/// The chain where it was stopped, or at its start.
fn begin<'d>(
    data: &'d IqgmeData,
    config: &GibbsConfig,
    chain: u64,
    fingerprint: u64,
    file: &Path,
) -> Result<(IqgmeSampler<'d>, Record), IqgmeError> {
    type Saved = Checkpoint<GibbsConfig, Trace, Record>;
    let config = config.clone();
    let Some(saved) = checkpoint::resume::<Saved>(file, MODEL)? else {
        let sampler = IqgmeSampler::new(data, config, chain)?;
        return Ok((sampler, Record::default()));
    };
    if saved.chain != chain || saved.data != fingerprint || saved.config != config {
        let file = file.display();
        return Err(IqgmeError::Saved {
            what: format!(
                "checkpoint {file} is of other data, another configuration or another chain: delete it to start again"
            ),
        });
    }
    saved
        .record
        .check(data.rows.n_features, data.rows.n_utilities, n_missing(data))
        .map_err(|what| IqgmeError::Saved { what })?;
    let sampler = IqgmeSampler::resume(data, config, chain, saved.state, saved.trace)?;
    Ok((sampler, saved.record))
}
