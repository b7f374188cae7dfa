//! Learning the scale of the steps; see [`RowEffects::learn_variance`].
//!
//! The bound cannot tell: it charges the variances of thousands of steps that it takes for independent, and is highest at scales far too small. What is foretold of
//! labels can.

use npb_data::{Labels, Table};

use super::config::FactorStart;
use super::data::FactorData;
use super::stacking::Fold;
use crate::checkpoints::FoldFiles;
use crate::stacking::{self, Side};
use crate::{FactorConfig, IqgmeError, RowEffects};

/// The variance may be multiplied with these powers of four.
const POWERS: [i32; 5] = [-2, -1, 0, 1, 2];
/// The prior: the logarithm of what the variance is multiplied with is normal with mean 0 and this standard deviation.
const LN_SD: f64 = 1.0;

/// The configuration with the variance of the steps at which a run without factors foretells labels best, sharpened and times the variance's prior, which the steps of `data` have from
/// now on; as it is when the variance is not to be learned, or there are too few labels. `files`: where what is foretold is kept from fold to fold, if it is.
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
    let foretold = stacking::by_run(&[labels], n_folds, POWERS.len(), seed, files, foretold)?;
    let row_effects = foretold.map_or(given, |foretold| candidates[best(&foretold)]);
    data.effects.set_step_prior(&row_effects);
    Ok(FactorConfig {
        row_effects,
        ..config.clone()
    })
}

/// The power at which what came true is most probable, sharpened and times the power's prior; `foretold`: by power, label.
fn best(foretold: &[Vec<f64>]) -> usize {
    let value = |(power, foretold): (&i32, &Vec<f64>)| {
        let ln_factor = f64::from(*power) * 4.0_f64.ln();
        stacking::sharpest(foretold).0 - 0.5 * (ln_factor / LN_SD).powi(2)
    };
    let values = POWERS.iter().zip(foretold).map(value).enumerate();
    let best = values.max_by(|a, b| a.1.total_cmp(&b.1));
    best.expect("there are powers").0
}
