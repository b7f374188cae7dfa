//! What the experiments ask of npb-bsvd, and the features of Table 5.1.

use npb_bsvd::{
    BsvdConfig, BsvdFit, Cells, Features, SideInformation, fit, missingness, popularity,
};
use npb_data::{Rating, Ratings, metrics};
use npb_priors::special::normal_quantile;

use npb_kit::films::{Films, Traits};
use npb_kit::{Outcome, Result, Scale};

/// The default configuration, under the name that it has in `results.csv`.
pub(super) const OURS: &str = "npb:bsvd";
/// Singular vectors of the 0/1 matrix of training cells that serve as features (W 5.5.3).
const MISSINGNESS: usize = 10;
/// A star scale: predictions are clipped to it in `rmse_clipped` and rounded on it in `nmae_rounded`.
const STARS: (f64, f64) = (1.0, 5.0);
pub(super) const INTERVALS: [(f64, &str); 2] = [(0.5, "coverage_50"), (0.9, "coverage_90")];

/// The default configuration; at smoke scale with few sweeps and so many candidates that nothing is searched for, which takes minutes on a million ratings.
pub(super) fn config(scale: Scale, seed: u64) -> BsvdConfig {
    let mut config = BsvdConfig {
        seed,
        ..Default::default()
    };
    if scale == Scale::Smoke {
        config.candidates = 6;
        config.max_candidates = 6;
        config.sweeps = npb_kit::sweeps(4, 4);
    }
    config
}

/// One noise precision for all entries, as in the thesis.
pub(super) fn one_noise(config: BsvdConfig) -> BsvdConfig {
    BsvdConfig {
        row_noise: false,
        column_noise: false,
        ..config
    }
}

/// One precision of the factors of all rows, as in the thesis.
fn one_factor_precision(config: BsvdConfig) -> BsvdConfig {
    BsvdConfig {
        row_factor_precision: false,
        column_factor_precision: false,
        ..config
    }
}

/// The thesis's means, noise and factors: one global mean, one precision of each, features that factors know nothing of.
pub(super) fn global_mean(config: BsvdConfig) -> BsvdConfig {
    BsvdConfig {
        row_intercepts: false,
        column_intercepts: false,
        feature_links: false,
        ..one_factor_precision(one_noise(config))
    }
}

/// Features by the code of Table 5.2: film genres, film missingness, user traits, user missingness. A `p` instead of a 1 for missingness stands for the
/// number of ratings alone.
pub(super) fn side_information(
    films: &Films,
    train: &Ratings,
    code: &str,
    seed: u64,
) -> Result<SideInformation> {
    let [genres, film_pattern, traits, user_pattern] = *code.as_bytes() else {
        return Err(format!("code {code:?} does not have four digits").into());
    };
    let wants = |digit: u8| [film_pattern, user_pattern].contains(&digit);
    let vectors = match wants(b'1') {
        true => missingness(train, MISSINGNESS, seed),
        false => SideInformation::default(),
    };
    let counts = match wants(b'p') {
        true => popularity(train),
        false => SideInformation::default(),
    };
    let pattern = |digit: u8, vectors: Option<Features>, count: Option<Features>| match digit {
        b'1' => vectors,
        b'p' => count,
        _ => None,
    };
    let chosen = |known: Option<Features>, pattern: Option<Features>| match (known, pattern) {
        (Some(a), Some(b)) => Ok(Some(a.beside(&b)?)),
        (a, b) => Result::Ok(a.or(b)),
    };
    let dense = |wanted: bool, traits: &Traits| -> Result<Option<Features>> {
        let n = traits.values.len() / traits.n_cols;
        Ok(match wanted {
            true => Some(Features::dense(n, traits.n_cols, &traits.values)?),
            false => None,
        })
    };
    Ok(SideInformation {
        rows: chosen(
            dense(traits == b'1', &films.users)?,
            pattern(user_pattern, vectors.rows, counts.rows),
        )?,
        columns: chosen(
            dense(genres == b'1', &films.films)?,
            pattern(film_pattern, vectors.columns, counts.columns),
        )?,
    })
}

/// Fits and follows the held-out ratings.
pub(super) fn held_out(
    train: &Ratings,
    side: SideInformation,
    test: &[Rating],
    config: &BsvdConfig,
) -> Result<BsvdFit> {
    let cells = Cells {
        rows: test.iter().map(|e| e.row).collect(),
        columns: test.iter().map(|e| e.column).collect(),
        values: test.iter().map(|e| e.value).collect(),
    };
    Ok(fit(train, side, &cells, config)?)
}

/// Means of the traced scalars over the kept draws: rank, candidates, standard deviation of the noise.
pub(super) fn traced(fit: &BsvdFit, scalar: usize) -> f64 {
    let values = fit.trace.kept(&fit.config.sweeps, scalar);
    values.iter().sum::<f64>() / values.len() as f64
}

/// Everything that is measured of a fit on held-out ratings of 1 to 5 stars.
pub(super) fn star_scores(fit: &BsvdFit) -> Result<Outcome> {
    let truth = &fit.cells.values;
    let mut outcome = point_scores(&fit.moments.mean, truth)?;
    let n = truth.len();
    for (level, name) in INTERVALS {
        let z = normal_quantile(0.5 + 0.5 * level);
        let end = |sign: f64| -> Vec<f64> {
            (0..n)
                .map(|k| fit.moments.mean[k] + sign * z * fit.moments.predictive_sd(k))
                .collect()
        };
        let share = metrics::interval_coverage(&end(-1.0), &end(1.0), truth)?;
        outcome.metrics.insert(name.to_owned(), share);
    }
    let ln_density = (0..n).map(|k| fit.moments.ln_density(k)).sum::<f64>() / n as f64;
    for (name, value) in [
        ("ln_density", ln_density),
        ("rank", traced(fit, 0)),
        ("noise_sd", traced(fit, 2)),
    ] {
        outcome.metrics.insert(name.to_owned(), value);
    }
    Ok(outcome)
}

/// Errors of point predictions of 1 to 5 stars.
pub(super) fn point_scores(predicted: &[f64], truth: &[f64]) -> Result<Outcome> {
    let scale = metrics::random_rating_mae(5);
    let on_scale = |p: &f64| p.clamp(STARS.0, STARS.1);
    let clipped: Vec<f64> = predicted.iter().map(on_scale).collect();
    let rounded: Vec<f64> = clipped.iter().map(|p| p.round()).collect();
    Ok(Outcome::metrics([
        ("rmse", metrics::rmse(predicted, truth)?),
        ("rmse_clipped", metrics::rmse(&clipped, truth)?),
        ("nmae", metrics::nmae(predicted, truth, scale)?),
        ("nmae_rounded", metrics::nmae(&rounded, truth, scale)?),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_kit::films::{FILM_TRAITS, Size, USER_TRAITS};
    use npb_kit::testing::Scratch;
    use npb_kit::testing::with_context;

    #[test]
    fn a_code_says_which_features_there_are() {
        let scratch = Scratch::new("fits-code");
        npb_kit::testing::write_1m(scratch.root(), 30);
        with_context(&scratch, &npb_kit::testing::folder(&scratch), |context| {
            let films = Films::load(context, Size::Million).unwrap();
            let train = films
                .sides(&films.one_of_each(1, 0).unwrap())
                .unwrap()
                .train;
            let widths = |code: &str| {
                let side = side_information(&films, &train, code, 1).unwrap();
                [side.columns, side.rows].map(|f| f.map_or(0, |f| f.n_features()))
            };
            assert_eq!(widths("0000"), [0, 0]);
            assert_eq!(widths("1p10"), [FILM_TRAITS + 1, USER_TRAITS]);
            assert_eq!(widths("0p01"), [1, MISSINGNESS]);
            assert!(side_information(&films, &train, "101", 1).is_err());
        });
    }
}
