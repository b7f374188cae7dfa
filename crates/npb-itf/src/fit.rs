//! Fits: chains that are run, watched, checkpointed and gathered. The loop over sweeps is `npb_infer::sample`, which asks for one by `step` of [`ItfSampler`].

use std::borrow::Cow;

use npb_data::MixedTable;
use npb_infer::storage::fingerprint;
use npb_infer::{Watch, sample};

use crate::find::find_groups;
use crate::kernels::{Cells, Column};
use crate::{Draw, Grouping, ItfChain, ItfConfig, ItfData, ItfError, ItfFit, ItfSampler};

/// Name in checkpoint files.
const CHAINS: &str = "npb-itf/chains";
/// Share of the work of a fit that looking for groups is told as.
const SEARCH_SHARE: f64 = 0.25;

/// Fits the model to a table, every column with the kernel of its kind: all chains of the configuration, in parallel on the
/// caller's rayon pool.
///
/// Cost: `chains * (burn_in + keep * thin)` sweeps, each linear in rows and columns. The result does not depend on the number
/// of threads.
///
/// # Errors
/// A configuration out of range, no rows, no columns, a column that cannot be modelled as it is.
pub fn fit(table: &MixedTable, config: &ItfConfig) -> Result<ItfFit, ItfError> {
    fit_watched(table, config, &Watch::none())
}

/// As [`fit`], watched: the watcher hears of every sweep of every chain and may stop the fit, which then is what there is ([`ItfFit::stop`] says so; a
/// chain that was stopped before its first kept draw gives the one at which it was). With a checkpoint file, a fit that is called again with the same
/// arguments after it was stopped or killed goes on and ends in the same bits as if it had never stopped.
///
/// ```
/// use std::ops::ControlFlow;
/// use npb_itf::npb_data::{MixedColumn, MixedTable};
/// use npb_itf::npb_infer::{Stop, Watch};
/// use npb_itf::{ItfConfig, fit_watched};
///
/// let x = MixedColumn::Real((0..40).map(|i| Some(f64::from(i % 2) * 9.0 + f64::from(i % 5))).collect());
/// let table = MixedTable::new(vec!["x".into()], vec![x])?;
/// let watch = Watch::new(|progress| match progress.share < 0.1 {
///     true => ControlFlow::Continue(()),
///     false => ControlFlow::Break(()),
/// });
/// let fit = fit_watched(&table, &ItfConfig::default(), &watch)?;
/// assert_eq!(fit.stop(), Stop::Cancelled);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`fit`]; a checkpoint that cannot be written or read, or that is of other data or another configuration.
pub fn fit_watched(
    table: &MixedTable,
    config: &ItfConfig,
    watch: &Watch<'_>,
) -> Result<ItfFit, ItfError> {
    fit_data_watched(&ItfData::from_table(table)?, config, watch)
}

/// As [`fit`], for columns whose kernels and cells were put together by hand.
///
/// # Errors
/// As [`fit`].
pub fn fit_data(data: &ItfData, config: &ItfConfig) -> Result<ItfFit, ItfError> {
    fit_data_watched(data, config, &Watch::none())
}

/// As [`fit_data`], watched as in [`fit_watched`].
///
/// # Errors
/// As [`fit_watched`].
pub fn fit_data_watched(
    data: &ItfData,
    config: &ItfConfig,
    watch: &Watch<'_>,
) -> Result<ItfFit, ItfError> {
    config.validate()?;
    let data = &*grouped(data, config, watch)?;
    let share = match config.groups {
        Grouping::Found => 1.0 - SEARCH_SHARE,
        Grouping::Off | Grouping::Given(_) => 1.0,
    };
    let start = |chain| ItfSampler::new(data, config.clone(), chain);
    let key = key(data, config)?;
    let chains = run(data, config, (watch, share), (key, 0), start)?;
    ItfFit::new(data, config, chains)
}

/// Runs the chains, each from where the checkpoint left it, or else from its start, which so many sweeps have led to.
pub(crate) fn run<'d>(
    data: &'d ItfData,
    config: &ItfConfig,
    (watch, share): (&Watch<'_>, f64),
    (key, sweeps_before): (u64, u64),
    start: impl Fn(u64) -> Result<ItfSampler<'d>, ItfError> + Sync,
) -> Result<Vec<ItfChain>, ItfError> {
    let checkpoint = watch.checkpoint(CHAINS, env!("CARGO_PKG_VERSION"), key, config.chains)?;
    let plan = config.plan("chain");
    sample(&plan, (watch, share), &checkpoint, |chain, reached| {
        let Some(reached) = reached else {
            return start(chain);
        };
        let check = |draw: &Draw| draw.check(config, data.n_rows(), data.n_columns());
        (reached.draws.iter().try_for_each(check)).map_err(ItfError::state)?;
        let made = sweeps_before + reached.trace.n_sweeps() as u64;
        let chain = ItfSampler::resume(data, config.clone(), chain, reached.state.clone(), made)?;
        Ok(chain.settling())
    })
}

/// The data as a fit with this configuration has them.
fn grouped<'d>(
    data: &'d ItfData,
    config: &ItfConfig,
    watch: &Watch<'_>,
) -> Result<Cow<'d, ItfData>, ItfError> {
    Ok(match &config.groups {
        Grouping::Off => Cow::Borrowed(data),
        Grouping::Given(groups) => Cow::Owned(data.with_groups(groups)?),
        Grouping::Found => {
            let groups = find_groups(data, config, (watch, SEARCH_SHARE))?;
            match groups.is_empty() {
                // None is better, or there are some already.
                true => Cow::Borrowed(data),
                false => Cow::Owned(data.with_groups(&groups)?),
            }
        }
    })
}

impl ItfData {
    /// These data as a fit with this configuration has them: with the groups of columns that it gives, or that are found, or as they are. For chains that
    /// are driven by hand ([`crate::ItfSampler`]), which take data as they come.
    ///
    /// # Errors
    /// As [`with_groups`](Self::with_groups) and [`find_groups`](Self::find_groups).
    pub fn grouped(&self, config: &ItfConfig) -> Result<Cow<'_, Self>, ItfError> {
        grouped(self, config, &Watch::none())
    }
}

/// What a checkpoint must be of.
pub(crate) fn key(data: &ItfData, config: &ItfConfig) -> Result<u64, ItfError> {
    let column = |(law, cells): (&Column, &Cells)| {
        let rows = 0..law.n_rows(cells);
        let parts: Vec<Option<f64>> = rows.flat_map(|row| law.parts(cells, row)).collect();
        fingerprint(&(law, parts))
    };
    let columns = data.laws().iter().zip(data.cells()).map(column);
    let columns = columns.collect::<Result<Vec<u64>, _>>()?;
    Ok(fingerprint(&(config, columns, data.places()))?)
}
