//! Many labels at once.

use npb_regbayes::{LabelsConfig, LabelsFit};

use crate::{Context, Page, Result, shared};

/// The page of a fit.
///
/// # Errors
/// A figure that cannot be drawn.
pub fn page(fit: &LabelsFit, context: &Context<'_>) -> Result<Page> {
    let mut page = shared::begin(context);
    page.push(shared::settings(&fit.config, &LabelsConfig::default())?);
    page.push(shared::bound(fit.trace(), fit.stop(), "its limits")?);
    Ok(page)
}
