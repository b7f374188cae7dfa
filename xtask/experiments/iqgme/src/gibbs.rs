//! Figure 3.10: variational Bayes and Gibbs sampling on ionosphere with 25% missing cells.

use std::time::Instant;

use npb_data::metrics;
use npb_iqgme::{GibbsConfig, GibbsFit, IqgmeConfig, IqgmeFit, fit_gibbs};

use super::data::{Data, IONOSPHERE, Side, Sides};
use super::data::{FRACTIONS, OURS};
use npb_kit::tables::overview;
use npb_kit::{
    Context, Outcome, Panel, Report, Result, ResultRow, Trial, against, lines, summarise,
};

const GIBBS: &str = "npb:iqgme/gibbs";
const MISSING: f64 = 0.25;
const METRICS: &str = "auc iterations seconds_per_iteration cells_apart cells_within rhat_ln_likelihood rhat_concentration";

pub(super) fn reproduce(context: &Context<'_>) -> Result<Report> {
    let data = Data::load(context, &IONOSPHERE)?;
    let (fractions, n): (&[f64], u64) =
        context
            .scale
            .pick((&[0.5], 1), (&FRACTIONS, 3), (&FRACTIONS, 10));
    let (burn_in, keep, chains) = context
        .scale
        .pick((20, 40, 1), (200, 200, 2), (1000, 500, 4));
    let gibbs = GibbsConfig {
        sweeps: npb_kit::sweeps(burn_in, keep),
        chains,
        ..GibbsConfig::default()
    };
    let config = format!(
        "{}\n{:?}\n{gibbs:?}",
        data.checksums,
        IqgmeConfig::default()
    );
    let mut trials = Vec::new();
    for &train in fractions {
        for method in [OURS, GIBBS] {
            let place = [data.name, &setting(train), method];
            trials.extend(Trial::runs(n, place, &config, train));
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let sides = data.masked(MISSING, trial.work, trial.trial, context.seed)?;
        let sides = Sides::whole(sides)?;
        match trial.method == GIBBS {
            true => sampled(&sides, &gibbs, seed),
            false => variational(&sides, seed),
        }
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    let panels = ["auc", "seconds_per_iteration", "iterations"];
    let caption = "Mean over trials; bars are one standard deviation over trials.";
    let title = "Variational Bayes and Gibbs sampling on ionosphere, 25% missing";
    Ok(Report {
        tables: vec![overview("Fits", &results, METRICS)],
        figures: vec![lines(
            "vb-and-gibbs",
            title,
            caption,
            &panels.map(|metric| panel(&results, metric)),
        )?],
        notes: vec![
            "Variational Bayes averages over several runs; its iterations are the mean over them. Masks and splits are those of figure 3.5. Times are of \
             trials that run side by side."
                .to_owned(),
            "Missing cells: those of the training rows. `cells_apart` is the mean over cells of the distance between the posterior means of the two in posterior \
             standard deviations of the sampler; `cells_within` the share of cells where it is less than one; given is the same information, the row's label \
             included for the sampler alone."
                .to_owned(),
        ],
        results,
    })
}

fn setting(train: f64) -> String {
    super::data::setting(MISSING, train)
}

fn panel(results: &[ResultRow], metric: &str) -> Panel {
    let label = metric.replace('_', " ");
    Panel::of_lines(
        &*label,
        ["fraction of rows in training", &label],
        against(results, metric, "train"),
    )
}

fn variational(Sides { train, test }: &Sides, seed: u64) -> Result<Outcome> {
    let clock = Instant::now();
    let fit = train.fit(seed)?;
    let seconds = clock.elapsed().as_secs_f64();
    let iterations: usize = fit.members().iter().map(|run| run.trace.len()).sum();
    let runs = fit.members().len() as f64;
    let auc = metrics::auc(&fit.predict_proba(&test.rows)?, &test.positive)?;
    Ok(Outcome::metrics([
        ("auc", auc),
        ("iterations", iterations as f64 / runs),
        ("seconds_per_iteration", seconds / iterations as f64),
    ]))
}

fn sampled(Sides { train, test }: &Sides, gibbs: &GibbsConfig, seed: u64) -> Result<Outcome> {
    let variational = train.fit(seed)?;
    let gibbs = GibbsConfig {
        model: IqgmeConfig {
            seed,
            ..IqgmeConfig::default()
        },
        ..gibbs.clone()
    };
    let clock = Instant::now();
    let fit = fit_gibbs(&train.rows, &train.labels, &gibbs)?;
    let seconds = clock.elapsed().as_secs_f64();
    let sweeps = gibbs.sweeps.total() as f64;
    let (apart, within) = cells(&variational, &fit, train)?;
    let worst = |name: &str| {
        let found = fit.diagnostics().into_iter().find(|(n, _)| n == name);
        found.and_then(|(_, d)| d.rhat).unwrap_or(1.0)
    };
    let auc = metrics::auc(&fit.predict_proba(&test.rows)?, &test.positive)?;
    let per_sweep = seconds / (sweeps * gibbs.chains as f64);
    Ok(Outcome::metrics([
        ("auc", auc),
        ("iterations", sweeps),
        ("seconds_per_iteration", per_sweep),
        ("cells_apart", apart),
        ("cells_within", within),
        ("rhat_ln_likelihood", worst("ln likelihood")),
        ("rhat_concentration", worst("concentration")),
    ]))
}

/// Distance of the posterior means of the missing training cells, in the sampler's standard deviations: its mean, and the share below 1.
fn cells(variational: &IqgmeFit, sampled: &GibbsFit, train: &Side) -> Result<(f64, f64)> {
    let by_row = variational.training_cells(&train.rows, &train.labels)?;
    let (mut sum, mut within, mut n) = (0.0, 0.0, 0.0);
    for cell in sampled.training_cells(&[])? {
        let row = by_row.get(cell.row).into_iter().flatten();
        let Some(other) = row.into_iter().find(|other| other.column == cell.column) else {
            continue;
        };
        let apart = (other.mean - cell.mean).abs() / cell.sd;
        sum += apart;
        within += if apart < 1.0 { 1.0 } else { 0.0 };
        n += 1.0;
    }
    Ok((sum / n, within / n))
}
