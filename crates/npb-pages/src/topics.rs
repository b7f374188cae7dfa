//! Topics of documents.

use npb_regbayes::topics::{MedLdaConfig, MedLdaFit};

use crate::{Context, Page, Result, shared};

/// The page of a fit.
///
/// # Errors
/// A figure that cannot be drawn.
pub fn page(fit: &MedLdaFit, context: &Context<'_>) -> Result<Page> {
    let mut page = shared::begin(context);
    page.push(shared::settings(fit.config(), &MedLdaConfig::default())?);
    page.push(shared::bound(
        fit.trace(),
        fit.stop(),
        "limits.max_iterations",
    )?);
    Ok(page)
}
