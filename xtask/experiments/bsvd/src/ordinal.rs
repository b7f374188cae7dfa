//! Ordinal probit on MovieLens: thresholds, and errors beside the Gaussian likelihood.

use npb_bsvd::{BsvdConfig, BsvdFit, Likelihood, SideInformation};
use npb_priors::special::normal_cdf;

use super::fits::{self, OURS, held_out, point_scores, traced};
use npb_kit::films::{Films, NINETY_TEN_ROWS, Size};
use npb_kit::tables::overview;
use npb_kit::{
    Context, Outcome, Record, Report, Result, Scale, TextTable, Trial, mean_and_sd, summarise,
    text_table,
};

const STARS: u32 = 5;
const THRESHOLDS: &str = "thresholds";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Gaussian,
    Ordinal,
}

const KINDS: [(Kind, &str); 2] = [(Kind::Gaussian, OURS), (Kind::Ordinal, "npb:bsvd/ordinal")];

fn configured(kind: Kind, config: BsvdConfig) -> BsvdConfig {
    match kind {
        Kind::Gaussian => config,
        Kind::Ordinal => BsvdConfig {
            likelihood: Likelihood::Ordinal { levels: STARS },
            ..config
        },
    }
}

pub(super) fn run(context: &Context<'_>) -> Result<Report> {
    // A million ratings take an hour.
    let size = match context.scale {
        Scale::Paper => Size::Million,
        _ => Size::HundredThousand,
    };
    let films = Films::load(context, size)?;
    let split = match films.given(context, NINETY_TEN_ROWS)? {
        Some(split) => split,
        None => films.fraction(0.9, context.seed, 0)?,
    };
    let sides = films.sides(&split)?;
    let trials = KINDS.map(|(kind, name)| {
        let config = configured(kind, fits::config(context.scale, 0));
        let config = format!("{}\n{config:?}", films.checksums);
        Trial::new([films.size.folder(), "train=0.9", name], 0, config, kind)
    });
    let records = context.run_trials(&trials, |trial, seed| {
        let config = configured(trial.work, fits::config(context.scale, seed));
        let fit = held_out(
            &sides.train,
            SideInformation::default(),
            &sides.test,
            &config,
        )?;
        scores(trial.work, &fit)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    let metrics = "rmse rmse_clipped nmae nmae_rounded ln_probability rank seconds";
    let notes = [
        "Means: offset and intercepts of users and films (the default), no side information. The prediction of the ordinal model is the expected number of stars.",
        "ln_probability is the mean log probability of the held-out number of stars. The Gaussian model gives a number of stars the mass of its predictive \
         normal distribution between half stars, 1 and 5 with open ends: a density could not be compared with a probability.",
    ];
    Ok(Report {
        tables: vec![
            overview("Held-out ratings", &results, metrics),
            thresholds(&records),
        ],
        notes: notes.map(str::to_owned).to_vec(),
        results,
        ..Default::default()
    })
}

fn scores(kind: Kind, fit: &BsvdFit) -> Result<Outcome> {
    let truth = &fit.cells.values;
    let mut outcome = point_scores(&fit.moments.mean, truth)?;
    let ln_probability = |k: usize| match kind {
        Kind::Ordinal => fit.moments.ln_density(k),
        Kind::Gaussian => ln_share(truth[k], fit.moments.mean[k], fit.moments.predictive_sd(k)),
    };
    let total: f64 = (0..truth.len()).map(ln_probability).sum();
    outcome
        .metrics
        .insert("ln_probability".to_owned(), total / truth.len() as f64);
    outcome.metrics.insert("rank".to_owned(), traced(fit, 0));
    if kind == Kind::Ordinal {
        // Mean and standard deviation of each threshold over the stored draws.
        let mut summary = Vec::new();
        for l in 0..STARS as usize - 1 {
            let values: Vec<f64> = fit.draws().iter().map(|draw| draw.thresholds[l]).collect();
            let (mean, sd) = mean_and_sd(&values);
            summary.extend([mean, sd.unwrap_or(0.0)]);
        }
        outcome.series.insert(THRESHOLDS.to_owned(), summary);
    }
    Ok(outcome)
}

/// ln of the normal mass between the half stars around a number of stars.
fn ln_share(stars: f64, mean: f64, sd: f64) -> f64 {
    let below = |edge: f64| normal_cdf((edge - mean) / sd);
    let low = if stars <= 1.0 {
        0.0
    } else {
        below(stars - 0.5)
    };
    let high = if stars >= f64::from(STARS) {
        1.0
    } else {
        below(stars + 0.5)
    };
    (high - low).max(f64::MIN_POSITIVE).ln()
}

/// Thresholds as drawn, and on the scale of stars on which the first and the last are at half stars.
fn thresholds(records: &[Record]) -> TextTable {
    let found = records
        .iter()
        .find_map(|r| r.outcome.series.get(THRESHOLDS));
    let found: Vec<(f64, f64)> =
        found.map_or(Vec::new(), |v| v.chunks(2).map(|p| (p[0], p[1])).collect());
    let (first, last) = (
        found.first().map_or(0.0, |t| t.0),
        found.last().map_or(1.0, |t| t.0),
    );
    let line = |(l, &(mean, sd)): (usize, &(f64, f64))| {
        let stars = 1.5 + (mean - first) / (last - first) * f64::from(STARS - 2);
        let edge = 1.5 + l as f64;
        vec![
            format!("{} | {}", l + 1, l + 2),
            format!("{mean:.4}"),
            format!("{sd:.4}"),
            format!("{stars:.3}"),
            edge.to_string(),
        ]
    };
    text_table(
        "Thresholds (standard deviation of the noise 1), and stretched so that the outer ones are at half stars",
        "between stars | posterior mean | sd | in stars | half-star step",
        found.iter().enumerate().map(line),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_stars_add_up() {
        let total: f64 = (1..=5)
            .map(|s| ln_share(f64::from(s), 3.3, 0.9).exp())
            .sum();
        assert!((total - 1.0).abs() < 1e-12);
        assert!(ln_share(1.0, 1e6, 1.0).is_finite());
    }
}
