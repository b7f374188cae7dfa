//! Columns of mixed kinds.

use npb_infer::Trace;
use npb_itf::{ItfConfig, ItfFit};

use crate::{Context, Page, Result, Rows, shared};

/// The page of a fit, with rows to try it on if there are some.
///
/// # Errors
/// Rows that are not like those of the fit.
pub fn page(fit: &ItfFit, context: &Context<'_>, rows: Option<&Rows>) -> Result<Page> {
    let mut page = shared::begin(context);
    page.push(shared::settings(fit.config(), &ItfConfig::default())?);
    let traces: Vec<&Trace> = fit.chains().iter().map(|chain| &chain.trace).collect();
    page.push(shared::chains(&fit.diagnostics(), &traces, &fit.config().sweeps)?);
    if let Some(rows) = rows {
        page.push(shared::holes(rows)?);
    }
    Ok(page)
}
