//! A matrix most of whose entries are missing.

use npb_bsvd::{BsvdConfig, BsvdFit};
use npb_infer::Trace;

use crate::{Context, Page, Result, shared};

/// The page of a fit.
///
/// # Errors
/// A figure that cannot be drawn.
pub fn page(fit: &BsvdFit, context: &Context<'_>) -> Result<Page> {
    let mut page = shared::begin(context);
    page.push(shared::settings(&fit.config, &BsvdConfig::default())?);
    let traces: Vec<&Trace> = fit.traces().collect();
    page.push(shared::chains(
        &fit.diagnostics(),
        &traces,
        &fit.config.sweeps,
    )?);
    Ok(page)
}
