//! Learning the scale of the steps; see [`RowEffects::learn_variance`].
//!
//! The bound cannot tell: it charges the variances of thousands of steps that it takes for independent, and is highest at scales far too small. What is foretold of
//! labels can.

use npb_data::{Labels, Table};

use super::config::FactorStart;
use super::data::FactorData;
use super::stacking::Fold;
use crate::files::FoldFiles;
use crate::stacking::{self, LabelsForetold, Side, shares_seen};
use crate::{FactorConfig, IqgmeError, RowEffects};

/// The variance may be multiplied with these powers of four.
const POWERS: [i32; 5] = [-2, -1, 0, 1, 2];
/// The prior: the logarithm of what the variance is multiplied with is normal with mean 0 and this standard deviation.
const LN_SD: f64 = 1.0;

/// The configuration with the variance of the steps at which a run without factors foretells labels best, put right as runs are and times the variance's prior, which the steps of `data` have
/// from now on; as it is when the variance is not to be learned, or there are too few labels. `files`: where what is foretold is kept from fold to fold, if it is.
pub(super) fn learned(
    data: &mut FactorData,
    table: &Table,
    labels: &Labels,
    config: &FactorConfig,
    files: Option<&FoldFiles<'_, FactorConfig>>,
) -> Result<FactorConfig, IqgmeError> {
    let given = config.row_effects;
    if given.steps == 0 || !given.learn_variance {
        return Ok(config.clone());
    }
    let candidates = POWERS.map(|power| RowEffects {
        variance: given.variance * 4.0_f64.powi(power),
        learn_variance: false,
        ..given
    });
    let foretold = |sides: &[Side]| {
        let mut fold = Fold::new(table, labels, config, &sides[0])?;
        let by_candidate = candidates.iter().map(|effects| {
            fold.data.effects.set_step_prior(effects);
            fold.foretold(config, FactorStart::NoFactors(1), 0)
        });
        by_candidate.collect()
    };
    let (n_folds, seed) = (config.folds, config.seed);
    let sizes = [n_folds, POWERS.len()];
    let (classes, shares) = (&data.classes, [shares_seen(table, &data.units.active)]);
    let foretold = stacking::foretell(&[labels], &shares, classes, sizes, seed, files, foretold)?;
    let row_effects = foretold.map_or(given, |foretold| candidates[best(&foretold)]);
    data.effects.set_step_prior(&row_effects);
    Ok(FactorConfig {
        row_effects,
        ..config.clone()
    })
}

/// The power, in place of a run, at which what came true is most probable, put right and times the power's prior.
fn best(LabelsForetold { by_run, labels, .. }: &LabelsForetold) -> usize {
    let value = |(power, foretold): (&i32, &Vec<f64>)| {
        let ln_factor = f64::from(*power) * 4.0_f64.ln();
        stacking::calibrated(foretold, labels).0 - 0.5 * (ln_factor / LN_SD).powi(2)
    };
    let values = POWERS.iter().zip(by_run).map(value).enumerate();
    let best = values.max_by(|a, b| a.1.total_cmp(&b.1));
    best.expect("there are powers").0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacking::LeftOut;

    /// What rows with these log odds of the second of two classes were foretold.
    fn foretold(ln_odds: &[f64]) -> Vec<f64> {
        let p = |l: f64| 1.0 / (1.0 + (-l).exp());
        ln_odds.iter().flat_map(|&l| [p(-l), p(l)]).collect()
    }

    #[test]
    fn the_scale_whose_run_tells_rows_apart_is_best_even_if_it_has_the_odds_of_a_rare_class_wrong()
    {
        // One row in ten is of the second class, and half of these score high, where one in nine of the others do.
        let truth: Vec<usize> = (0..400).map(|i| usize::from(i % 10 == 0)).collect();
        let high = |i: usize| matches!(i % 20, 0 | 1 | 11);
        let usual = (1.0_f64 / 9.0).ln();
        let share = foretold(&[usual; 400]);
        let scores: Vec<f64> = (0..400).map(|i| if high(i) { 1.5 } else { -0.6 }).collect();
        let tells = foretold(&scores);
        let of = |by_run| {
            best(&LabelsForetold {
                by_run,
                labels: LeftOut {
                    extents: vec![1.0; truth.len()],
                    truth: truth.clone(),
                },
                usual: 1.0,
            })
        };
        for power in 0..POWERS.len() {
            let mut by_power = vec![share.clone(); POWERS.len()];
            by_power[power] = tells.clone();
            assert_eq!(of(by_power), power);
        }
        // Where no run tells more, the scale is the prior's.
        assert_eq!(of(vec![share; POWERS.len()]), 2);
    }
}
