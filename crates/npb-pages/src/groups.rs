//! Likes of many users with few ratings each.

use npb_hbrec::Recommender;

use crate::{Context, Page, Result, shared};

/// The page of a fit.
///
/// # Errors
/// A figure that cannot be drawn.
pub fn page(fit: &Recommender, context: &Context<'_>) -> Result<Page> {
    let mut page = shared::begin(context);
    let fitted = fit.fitted();
    let base = fitted.base().map(|base| base.trace.as_slice());
    let trace = base.unwrap_or(&fitted.weights().trace);
    page.push(shared::bound(trace, fitted.stop(), "its limits")?);
    Ok(page)
}
