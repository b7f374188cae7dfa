//! Fits in one call, watched or not.

use npb_infer::Watch;
use npb_infer::storage::fingerprint;

use crate::chains::run;
use crate::config::BsvdUnits;
use crate::fitted::BsvdFit;
use crate::gibbs::BsvdSampler;
use crate::pilot::{Start, start_rank};
use crate::{BsvdConfig, BsvdError, Cells, Entries, SideInformation};

/// Name in checkpoint files.
pub(crate) const MODEL: &str = "npb-bsvd/chains";

/// Fits the model: runs its chains and follows `cells`.
///
/// Chains run in parallel on the caller's rayon pool; the result does not depend on the number of threads. Cost: that of each chain; the data are held once,
/// states and stored draws by every chain.
///
/// # Errors
/// See [`BsvdData::new`](crate::BsvdData::new); a configuration out of range; cells that do not exist; numerical trouble.
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
    let key = key.wrapping_add(data.content_of_shards());
    let checkpoint = watch.checkpoint(MODEL, env!("CARGO_PKG_VERSION"), key, config.chains)?;
    let mut config = config.clone();
    if config.finds_start() {
        let (centre, scale) = data.units();
        let units = BsvdUnits::Given { centre, scale };
        match start_rank(entries, (&data.side, units), &config, watch)? {
            Start::At(rank) => config.candidates = rank,
            Start::Stopped(fit) => return Ok(*fit),
        }
    }
    let how = (watch, "chain", 1.0);
    let chains = run(&data, cells, &config, how, &checkpoint, |_, config| {
        BsvdSampler::new(&data, config)
    })?;
    Ok(BsvdFit::of_chains(&data, cells.clone(), config, chains))
}
