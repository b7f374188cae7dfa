//! Figures 3.2 to 3.4: three Gaussians in the plane, each cut by a line of its own (W 3.5.1).
//!
//! A trial of the same number has the same rows and the same fit in all three figures.

mod beliefs;
mod components;
mod fitted;
mod maps;
mod truth;

use npb_iqgme::IqgmeConfig;

use fitted::{Fitted, OURS, ROWS, SHOWN};
use npb_kit::{Context, Outcome, Record, Report, Result, Run, Trial};

pub(crate) const FIG_3_2: Run = |context| reproduce(context, components::run, components::report);

pub(crate) const FIG_3_3: Run = |context| reproduce(context, beliefs::run, beliefs::report);

pub(crate) const FIG_3_4: Run = |context| reproduce(context, maps::run, maps::report);

fn reproduce(
    context: &Context<'_>,
    run: fn(&Fitted) -> Result<Outcome>,
    report: fn(&[Record]) -> Result<Report>,
) -> Result<Report> {
    let trials = context.scale.pick(2, 10, 20);
    let trial = |trial| Trial {
        dataset: "simulated".to_owned(),
        setting: format!("rows={ROWS}"),
        method: OURS.to_owned(),
        trial,
        config: format!("{:?}", IqgmeConfig::default()),
        work: (),
    };
    let trials: Vec<Trial<()>> = (0..trials).map(trial).collect();
    let records = context.run_trials(&trials, |trial, seed| {
        let mut outcome = run(&Fitted::new(seed)?)?;
        if trial.trial != SHOWN {
            outcome.series.clear();
        }
        Ok(outcome)
    })?;
    let mut report = report(&records)?;
    report.notes.push(format!(
        "{ROWS} rows per trial (the thesis does not say how many), labels without noise, the default configuration of \
         npb-iqgme. Figures show trial {SHOWN}, tables all trials."
    ));
    Ok(report)
}
