//! Running chains, watched or not.

use std::ops::ControlFlow;

use npb_infer::storage::fingerprint;
use npb_infer::watch::{Checkpoint, CheckpointError, Part, Watch};
use npb_infer::{SweepReport, run_chains};

use crate::config::Units;
use crate::fit::{BsvdFit, Record, spacing};
use crate::gibbs::BsvdSampler;
use crate::pilot::{Start, start_rank};
use crate::{BsvdConfig, BsvdData, BsvdError, Cells, Entries, SideInformation};

/// Name in checkpoint files.
const MODEL: &str = "npb-bsvd/chains";

/// Fits the model: runs its chains and follows `cells`.
///
/// Chains run in parallel on the caller's rayon pool; the result does not depend on the number of threads. Cost: that of each chain; the data are held once,
/// states and stored draws by every chain.
///
/// # Errors
/// See [`BsvdData::new`]; a configuration out of range; cells that do not exist; numerical trouble.
///
/// ```
/// use npb_bsvd::npb_data::{Rating, Ratings};
/// use npb_bsvd::{BsvdConfig, Cells, SideInformation, fit};
///
/// // A table of products and a little more, a third of it missing.
/// let cells = (0..12u32).flat_map(|i| (0..9u32).map(move |j| (i, j)));
/// let value = |i: u32, j: u32| (f64::from(i) - 5.0) * (f64::from(j) - 3.0) + f64::from((i * 7 + j * 11) % 5);
/// let entries: Vec<Rating> = cells.filter(|(i, j)| (i + j) % 3 != 0)
///     .map(|(row, column)| Rating { row, column, value: value(row, column) }).collect();
/// let ratings = Ratings::new(12, 9, &entries)?;
/// let wanted = Cells { rows: vec![0], columns: vec![0], values: vec![15.0] };
/// let config = BsvdConfig { candidates: 6, chains: 4, ..BsvdConfig::default() };
/// let model = fit(&ratings, SideInformation::default(), &wanted, &config)?;
/// assert!((model.moments.mean[0] - 17.0).abs() < 3.0);
/// let (name, noise) = &model.diagnostics()[2];
/// assert_eq!(name, "noise_sd");
/// assert!(noise.rhat.ok_or("draws")? < 1.2 && noise.ess_bulk.ok_or("draws")? > 20.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit(
    entries: &impl Entries,
    side: SideInformation,
    cells: &Cells,
    config: &BsvdConfig,
) -> Result<BsvdFit, BsvdError> {
    fit_watched(entries, side, cells, config, &Watch::none())
}

/// As [`fit`], watched: the watcher hears of every sweep of every chain and may stop the fit, which then is what there is. With a checkpoint file, a fit that
/// is called again with the same arguments after it was stopped or killed goes on and ends in the same bits as if it had never stopped.
///
/// ```
/// use std::ops::ControlFlow;
/// use npb_bsvd::npb_data::{Rating, Ratings};
/// use npb_bsvd::npb_infer::{SweepPlan, Watch, checkpoint::Every};
/// use npb_bsvd::{BsvdConfig, Cells, SideInformation, fit, fit_watched};
///
/// let entry = |n: u32| Rating { row: n % 5, column: n % 4, value: f64::from(n % 5) };
/// let ratings = Ratings::new(5, 4, &(0..12).map(entry).collect::<Vec<_>>())?;
/// let config = BsvdConfig { candidates: 4, sweeps: SweepPlan { burn_in: 5, keep: 15, thin: 1 }, ..BsvdConfig::default() };
/// let file = std::env::temp_dir().join("npb-bsvd-checkpoint-example");
/// let run = |most: f64| {
///     let stop = move |share: f64| if share > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
///     let watch = Watch::new(|progress| stop(progress.share)).with_checkpoint(&file, Every::sweeps(4));
///     fit_watched(&ratings, SideInformation::default(), &Cells::default(), &config, &watch)
/// };
/// run(0.4)?;                  // stopped after nine sweeps,
/// let resumed = run(1.0)?;    // goes on from there
/// assert_eq!(resumed, fit(&ratings, SideInformation::default(), &Cells::default(), &config)?);
/// std::fs::remove_file(file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`fit`]; a checkpoint that cannot be written or read, or that is of other data, cells or another configuration.
pub fn fit_watched(
    entries: &impl Entries,
    side: SideInformation,
    cells: &Cells,
    config: &BsvdConfig,
    watch: &Watch<'_>,
) -> Result<BsvdFit, BsvdError> {
    config.validate()?;
    let data = entries.prepare(side, config)?;
    let key = fingerprint(&(data.content(), &data.side, cells, config))?;
    let checkpoint = watch.checkpoint(MODEL, env!("CARGO_PKG_VERSION"), key, config.chains)?;
    let mut config = config.clone();
    if config.finds_start() {
        let (centre, scale) = data.units();
        let units = Units::Given { centre, scale };
        let mut part = watch.part("start".to_owned(), 0.0);
        match start_rank(entries, (&data.side, units), &config, &mut part)? {
            Start::At(rank) => config.candidates = rank,
            Start::Stopped(fit) => return Ok(*fit),
        }
    }
    let weight = 1.0 / config.chains as f64;
    let fits = run_chains(config.chains, |number| {
        let config = BsvdConfig {
            chains: 1,
            chain: config.chain.wrapping_add(number),
            ..config.clone()
        };
        let part = watch.part(format!("chain {number}"), weight);
        run_chain(&data, cells, config, (number as usize, part), &checkpoint)
    })?;
    BsvdFit::pooled(fits)
}

/// Runs one chain from where its checkpoint left it.
fn run_chain(
    data: &BsvdData,
    cells: &Cells,
    config: BsvdConfig,
    (number, mut part): (usize, Part<'_, '_>),
    checkpoint: &Checkpoint<BsvdFit>,
) -> Result<BsvdFit, BsvdError> {
    let spacing = spacing(&config);
    let total = config.sweeps.total().max(1) as f64;
    let (mut sampler, mut record) = match checkpoint.reached(number) {
        None => (
            BsvdSampler::new(data, config.clone())?,
            Record::new(data, &config, cells.clone())?,
        ),
        Some(reached) => reached.resume(data, spacing)?,
    };
    let mut failed: Option<CheckpointError> = None;
    let outcome = sampler.run(|report, sampler| {
        record.watch(report, sampler);
        let state = || record.so_far(sampler, report.trace);
        if let Err(error) = checkpoint.offer(number, report.sweep, state) {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        tell(&mut part, report, total)
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let fit = record.finish(sampler, outcome.stop);
    checkpoint.write(number, || fit.clone())?;
    // A chain that had come to its end before says so.
    let (names, last) = (fit.trace.names(), fit.trace.n_sweeps());
    if last > 0 {
        let _ = part.report(
            last as u64,
            last as f64 / total,
            names,
            fit.trace.row(last - 1),
        );
    }
    Ok(fit)
}

fn tell(part: &mut Part<'_, '_>, report: &SweepReport<'_>, total: f64) -> ControlFlow<()> {
    let share = report.sweep as f64 / total;
    part.report(report.sweep, share, report.trace.names(), report.scalars())
}
