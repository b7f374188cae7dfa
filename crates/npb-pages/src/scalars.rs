//! Chains of which some scalars alone are judged.

use npb_infer::diagnostics::{ChainDiagnostics, summarise};
use npb_infer::{SweepPlan, Trace};
use npb_report::TextTable;

use crate::Result;
use crate::page::Section;
use crate::shared::{self, number};

/// Whether chains have met, by the scalars of these names; the others are told of without a warning: they mix slowly, and what is predicted hardly depends on them.
pub(crate) fn chains(traces: &[&Trace], plan: &SweepPlan, judged: &[&str]) -> Result<Section> {
    let all = summarise(traces, plan);
    let is_judged = |name: &String| judged.contains(&name.as_str());
    let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| is_judged(name));
    let picked: Vec<Trace> = traces.iter().map(|trace| of(trace, judged)).collect();
    let picked: Vec<&Trace> = picked.iter().collect();
    let mut section = shared::chains(&own.iter().map(settled).collect::<Vec<_>>(), &picked, plan)?;
    let rows = others.iter().map(|(name, d)| {
        let numbers = [d.mean, d.sd, d.rhat, d.ess_bulk];
        std::iter::once(name.clone())
            .chain(numbers.map(number))
            .collect()
    });
    let header = ["scalar", "mean", "sd", "R-hat", "effective draws"];
    section.fold(TextTable::new("Scalars that are not judged", &header, rows));
    Ok(section)
}

/// A scalar that never changes has met.
fn settled((name, d): &(String, ChainDiagnostics)) -> (String, ChainDiagnostics) {
    let mut d = *d;
    if d.sd == Some(0.0) {
        d.rhat = Some(1.0);
        (d.ess_bulk, d.ess_tail) = (None, None);
    }
    (name.clone(), d)
}

/// A trace of some of its scalars.
fn of(trace: &Trace, judged: &[&str]) -> Trace {
    let own = trace.names().iter().enumerate();
    let own: Vec<(usize, &String)> = own.filter(|(_, n)| judged.contains(&n.as_str())).collect();
    let mut picked = Trace::new(own.iter().map(|(_, name)| name.as_str()));
    for sweep in 0..trace.n_sweeps() {
        let row = trace.row(sweep);
        let values: Vec<f64> = own.iter().map(|(k, _)| row[*k]).collect();
        picked.push(&values);
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Page;

    #[test]
    fn only_the_scalars_that_are_named_are_judged() {
        let plan = SweepPlan {
            burn_in: 0,
            keep: 200,
            thin: 1,
        };
        let mut trace = Trace::new(["rank", "noise", "fixed"]);
        // The rank drifts; the noise is scattered.
        (0..200).for_each(|t| trace.push(&[f64::from(t), f64::from(t * 79 % 199), 2.0]));
        let warnings = |judged: &[&str]| {
            let mut page = Page::new("p");
            page.push(chains(&[&trace], &plan, judged).unwrap());
            assert!(page.html().contains("Scalars that are not judged"));
            page.warnings().len()
        };
        assert_eq!(warnings(&["noise"]), 0);
        assert_eq!(warnings(&["fixed"]), 0);
        assert!(warnings(&["rank"]) > 0);
    }
}
