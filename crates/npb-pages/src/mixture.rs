//! Density and clusters of rows with holes.

use npb_iqgme::{IqgmeConfig, IqgmeFit};

use crate::numbers;
use crate::{Context, Page, Result, Rows, shared};

/// The page of a fit, with rows to try it on if there are some.
///
/// # Errors
/// Rows that are not like those of the fit.
pub fn page(fit: &IqgmeFit, context: &Context<'_>, rows: Option<&Rows>) -> Result<Page> {
    let columns = (fit.column_names(), &fit.ignored_columns()[..]);
    let settled = (fit.trace(), fit.stop());
    let mut page = numbers::begin(context, columns, settled, "limits.max_iterations")?;
    page.push(numbers::clusters(fit)?);
    match rows {
        Some(rows) => {
            page.push(numbers::made_up(fit, context, rows)?);
            page.push(numbers::imputation(fit, context, rows)?);
            page.push(shared::holes(rows)?);
        }
        None => page.push(shared::ask_for_rows("")),
    }
    page.push(shared::settings(fit.config(), &IqgmeConfig::default())?);
    Ok(page)
}
