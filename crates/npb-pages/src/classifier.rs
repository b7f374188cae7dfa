//! Classes of rows with holes.

use npb_data::Table;
use npb_iqgme::{IqgmeConfig, IqgmeFit};

use crate::classes::{Judged, Loss, draw_losses, known, ln_scores, without};
use crate::numbers::{self, Numbers};
use crate::page::Section;
use crate::sampling::some_rows;
use crate::{Context, Page, Result, Rows, shared};

/// Work for the columns that matter: rows times columns.
const MOST_LEFT_OUT: usize = 30_000;

/// The page of a fit, with rows to try it on if there are some; with labels, its probabilities are tried as well.
///
/// # Errors
/// Rows that are not like those of the fit.
pub fn page(fit: &IqgmeFit, context: &Context<'_>, rows: Option<&Rows>) -> Result<Page> {
    let columns = (fit.column_names(), &fit.ignored_columns()[..]);
    let settled = (fit.trace(), fit.stop());
    let mut page = numbers::begin(context, columns, settled, "limits.max_iterations")?;
    match rows {
        Some(rows) => {
            page.push(held_out(fit, context, rows)?);
            page.push(numbers::clusters(fit)?);
            page.push(numbers::imputation(fit, context, rows)?);
            page.push(shared::holes(rows)?);
        }
        None => {
            page.push(shared::ask_for_rows("with labels"));
            page.push(numbers::clusters(fit)?);
        }
    }
    page.push(shared::settings(fit.config(), &IqgmeConfig::default())?);
    Ok(page)
}

/// Probabilities of rows whose class is known.
fn held_out(fit: &IqgmeFit, context: &Context<'_>, rows: &Rows) -> Result<Section> {
    let mut section = Section::new("Do its probabilities hold?");
    let classes = fit.classes();
    let Some(labels) = rows.labels.as_ref().filter(|_| !classes.is_empty()) else {
        section.say(format!("{} has no labels: they would show it.", rows.file));
        return Ok(section);
    };
    let (labelled, other) = known(labels, classes);
    if other > 0 {
        section.warn(format!(
            "{other} rows are of a class that the fit has not seen, and are left out here."
        ));
    }
    if labelled.is_empty() {
        section.say(format!("No row of {} has a label of the fit.", rows.file));
        return Ok(section);
    }
    let numbers = Numbers::of(context, &rows.features);
    let of: Vec<usize> = labelled.iter().map(|&(row, _)| row).collect();
    let some = some_rows(&rows.select(&of), 4 * numbers.most_rows(), context.seed);
    let labels = some.labels.as_ref().unwrap_or(labels);
    let (_, truth): (Vec<usize>, Vec<usize>) = known(labels, classes).0.into_iter().unzip();
    section.say(rows.held_out());
    let judged = Judged {
        classes,
        truth,
        probabilities: fit.predict_classes(&numbers.table(&some.features)?)?,
    };
    judged.write(&mut section)?;
    columns_that_matter(
        &mut section,
        &numbers,
        &some,
        &judged,
        context.seed,
        |table, _| Ok(fit.predict_classes(table)?),
    )?;
    Ok(section)
}

/// What the log score loses where a feature is taken for missing. `ask`: probabilities of rows, with their places among `rows`.
pub(crate) fn columns_that_matter(
    section: &mut Section,
    numbers: &Numbers,
    rows: &Rows,
    judged: &Judged<'_>,
    seed: u64,
    ask: impl Fn(&Table, &[usize]) -> Result<Vec<Vec<f64>>>,
) -> Result<()> {
    let p = rows.features.n_cols();
    let most = (MOST_LEFT_OUT / p.max(1)).clamp(100, numbers.most_rows());
    let chosen = crate::sampling::some(rows.n_rows(), most, seed);
    let few = rows.select(&chosen);
    let truth: Vec<usize> = chosen.iter().map(|&row| judged.truth[row]).collect();
    let scores = judged.ln_scores();
    let with: Vec<f64> = chosen.iter().map(|&row| scores[row]).collect();
    let mut losses = Vec::with_capacity(p);
    for (k, name) in rows.features.column_names().iter().enumerate() {
        let asked = numbers.table(&without(&few.features, k)?)?;
        losses.push(Loss::of(
            name,
            &with,
            &ln_scores(&truth, &ask(&asked, &chosen)?),
        ));
    }
    if p > 0 {
        section.draw(draw_losses(losses, few.n_rows())?);
    }
    Ok(())
}
