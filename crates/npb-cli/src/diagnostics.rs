//! How chains and bounds of a model have gone.

use npb_bsvd::BsvdFit;
use npb_hbrec::{GroupedFit, Recommender};
use npb_infer::diagnostics::ChainDiagnostics;
use npb_iqgme::{IqgmeFit, MultiTaskFit};
use npb_itf::ItfFit;
use npb_regbayes::LabelsFit;
use npb_regbayes::topics::MedLdaFit;

use crate::failure::Result;
use crate::model::ModelFile;
use crate::sheet::{Cell, Sheet};

/// Scalars of chains, or the bound by iteration, of the kinds of models that keep them.
pub(crate) fn diagnostics(model: &ModelFile) -> Result<Sheet> {
    let trace = match model.kind.as_str() {
        "ratings" => return Ok(scalars(model.fit::<BsvdFit>()?.diagnostics())),
        "table" => return Ok(scalars(model.fit::<ItfFit>()?.diagnostics())),
        "groups" => {
            let fit = model.fit::<Recommender>()?;
            let fitted = fit.fitted();
            let base = fitted.base().map(|base| base.trace.clone());
            base.unwrap_or_else(|| fitted.weights().trace.clone())
        }
        "grouped" => model.fit::<GroupedFit>()?.trace().to_vec(),
        "labels" => model.fit::<LabelsFit>()?.trace().to_vec(),
        "tasks" => model.fit::<MultiTaskFit>()?.trace().to_vec(),
        "topics" => model.fit::<MedLdaFit>()?.trace().to_vec(),
        _ => model.fit::<IqgmeFit>()?.trace().to_vec(),
    };
    let mut sheet = Sheet::new(&["iteration", "elbo", "relative_change"]);
    for report in &trace {
        // Before the first iteration there is nothing to compare with.
        let change = Some(report.rel_change).filter(|change| change.is_finite());
        let numbers = [Some(report.iteration as f64), Some(report.elbo), change];
        sheet.push_row(numbers.map(Cell::from));
    }
    Ok(sheet)
}

fn scalars(found: Vec<(String, ChainDiagnostics)>) -> Sheet {
    let mut sheet = Sheet::new(&["scalar", "mean", "sd", "rhat", "ess_bulk", "ess_tail"]);
    for (name, d) in found {
        let numbers = [d.mean, d.sd, d.rhat, d.ess_bulk, d.ess_tail].map(Cell::from);
        sheet.push_row(std::iter::once(Cell::Text(name)).chain(numbers));
    }
    sheet
}
