//! Figures 5.6 and 5.7: errors and rank against the share of ratings used for training.

use super::{Held, Line, METRICS, Method, SCORES, run_lines};
use npb_kit::films::{Films, Size};
use npb_kit::tables::overview;
use npb_kit::{Context, Panel, Report, Result, ResultRow, Run, against, lines, summarise};

pub(crate) const FIG_5_6: Run = run;

fn run(context: &Context<'_>) -> Result<Report> {
    let films = Films::load(context, Size::Million)?;
    let (fractions, trials): (&[f64], u64) = context.scale.pick(
        (&[0.1], 1),
        (&[0.1, 0.5, 0.9], 1),
        (&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], 5),
    );
    let methods = [Method::Biases, Method::Bsvd("0000")];
    let rows: Vec<Line> = fractions
        .iter()
        .flat_map(|&train| methods.map(|method| Line::new(Held::AllBut(train), method, trials)))
        .collect();
    let records = run_lines(context, &films, &rows)?;
    let results = summarise(&records, |_, _, _, _| None);
    let notes = [
        SCORES,
        super::MEANS,
        "The thesis compares with GP-LVM figures of others, which are not printed.",
    ];
    Ok(Report {
        figures: vec![
            lines(
                "fig-5.6",
                "Errors against training size",
                "Bars: standard deviation over trials.",
                &[
                    panel(&results, "rmse", "RMSE"),
                    panel(&results, "nmae_rounded", "NMAE of whole stars"),
                ],
            )?,
            lines(
                "fig-5.7",
                "Inferred rank against training size",
                "Bars: standard deviation over trials.",
                &[panel(&results, "rank", "posterior mean of the rank")],
            )?,
        ],
        tables: vec![overview("Held-out ratings", &results, METRICS)],
        notes: notes.map(str::to_owned).to_vec(),
        results,
    })
}

/// A curve for each method.
fn panel(results: &[ResultRow], metric: &str, label: &str) -> Panel {
    let curves = against(results, metric, "train");
    Panel::of_lines(label, ["share of ratings used for training", label], curves)
}
