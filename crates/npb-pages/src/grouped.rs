//! Two classes in many groups of few rows each.

use npb_hbrec::{GroupedConfig, GroupedFit};

use crate::{Context, Page, Result, shared};

/// The page of a fit.
///
/// # Errors
/// A figure that cannot be drawn.
pub fn page(fit: &GroupedFit, context: &Context<'_>) -> Result<Page> {
    let mut page = shared::begin(context);
    page.push(shared::settings(fit.config(), &GroupedConfig::default())?);
    page.push(shared::bound(fit.trace(), fit.stop(), "its limits")?);
    Ok(page)
}
