//! Images with noise or holes.

use npb_bpfa::Restored;

use crate::{Context, Page, Result, shared};

/// The page of a restored image.
///
/// # Errors
/// A figure that cannot be drawn.
pub fn page(_restored: &Restored, context: &Context<'_>) -> Result<Page> {
    Ok(shared::begin(context))
}
