//! Classes in many tasks that share what they can.

use npb_iqgme::{MultiTaskFit, TasksConfig};

use crate::{Context, Page, Result, Rows, shared};

/// The page of a fit, with rows to try it on if there are some.
///
/// # Errors
/// Rows that are not like those of the fit.
pub fn page(fit: &MultiTaskFit, context: &Context<'_>, rows: Option<&Rows>) -> Result<Page> {
    let mut page = shared::begin(context);
    page.push(shared::settings(fit.config(), &TasksConfig::default())?);
    page.push(shared::bound(fit.trace(), fit.stop(), "single.limits.max_iterations")?);
    if let Some(rows) = rows {
        page.push(shared::holes(rows)?);
    }
    Ok(page)
}
