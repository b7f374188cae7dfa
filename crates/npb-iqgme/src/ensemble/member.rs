//! Members of an ensemble and the questions that they answer together.

use npb_infer::ensemble::{Calibration, check_weights};
use npb_infer::{Interval, Stop, VbOutcome, VbReport, Xoshiro256PlusPlus, parallel, stream};
use npb_linalg::NotPositiveDefinite;
use npb_priors::dist::pick;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::train::Planned;
use crate::answers::{class_intervals, with_first_class};
use crate::state::expect;
use crate::{Expert, FeatureScale, Init, IqgmeError, IqgmeState, Result};

/// One run: where it started, how it went, and the posterior it ended in. Of [`fit`](crate::fit()) unless its types say otherwise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Member<I = Init, S = IqgmeState, D = Vec<Expert>> {
    /// Its start.
    pub start: I,
    /// The scale of the features that it is trained on.
    pub scale: FeatureScale,
    /// Its weight by its bound, among those on the features' own scale: in densities and missing cells, where these average over members. Zero for one that was not
    /// kept, and for those on normal scores beside others.
    pub elbo_weight: f64,
    /// Its weight in class probabilities, by held-out prediction (`folds`) or, where there is none, by its bound.
    pub stacking_weight: f64,
    /// How its class probabilities are calibrated, found from held-out prediction.
    pub calibration: Calibration,
    /// Bound and relative change, iteration by iteration.
    pub trace: Vec<VbReport>,
    /// Why it ended.
    pub stop: Stop,
    /// The variational posterior, in standardised units of its scale.
    pub state: S,
    /// What follows from the posterior and the rows of training. Of [`fit`](crate::fit()): the state's experts with covariances that count the latent utilities as unknown,
    /// where the variational ones take them for data: for draws behind intervals, and for the standard deviations of effects.
    pub derived: D,
}

impl<I, S, D> Member<I, S, D> {
    /// One that has ended, not weighed yet.
    pub(crate) fn new(
        (scale, start): Planned<I>,
        outcome: VbOutcome,
        state: S,
        derived: D,
    ) -> Self {
        Self {
            start,
            scale,
            elbo_weight: 0.0,
            stacking_weight: 0.0,
            calibration: Calibration::default(),
            trace: outcome.trace,
            stop: outcome.stop,
            state,
            derived,
        }
    }

    /// Its last bound.
    pub fn elbo(&self) -> f64 {
        let last = self.trace.last();
        last.map_or(f64::NEG_INFINITY, |report| report.elbo)
    }

    /// What failed in a question to it.
    pub(crate) fn failed(
        &self,
    ) -> impl Fn((usize, NotPositiveDefinite)) -> IqgmeError + use<I, S, D> {
        IqgmeError::at(self.trace.len() as u64, "covariance")
    }
}

/// Checks members that come from a file, of a fit with so many classes: their number, weights and calibrations.
pub(crate) fn check_members<I, S, D>(members: &[Member<I, S, D>], n_classes: usize) -> Result<()> {
    expect(!members.is_empty(), "number of members")?;
    let each = || members.iter();
    check_weights("ELBO weights", each().map(|m| m.elbo_weight))
        .and_then(|()| check_weights("stacking weights", each().map(|m| m.stacking_weight)))
        .and_then(|()| each().try_for_each(|m| m.calibration.check(n_classes)))
        .map_err(IqgmeError::saved)
}

/// Draws behind an interval of a class probability.
pub(crate) const DRAWS: usize = 200;

/// What a member says of the rows of a table.
pub(crate) struct Part<'a> {
    weight: f64,
    calibration: &'a Calibration,
    /// Probabilities of all classes: row, class.
    probabilities: Vec<Vec<f64>>,
    draw: Draw<'a>,
}

/// Probabilities of all classes but the first under one draw of all parameters.
type Draw<'a> = Box<dyn Fn(&mut Xoshiro256PlusPlus) -> Result<Vec<Vec<f64>>> + Sync + 'a>;

impl<'a> Part<'a> {
    /// `others`: probabilities of all classes but the first; `draw`: the same under one draw of all parameters.
    pub(crate) fn new(
        (weight, calibration): (f64, &'a Calibration),
        others: Vec<Vec<f64>>,
        draw: impl Fn(&mut Xoshiro256PlusPlus) -> Result<Vec<Vec<f64>>> + Sync + 'a,
    ) -> Self {
        Self {
            weight,
            calibration,
            probabilities: with_first_class(others),
            draw: Box::new(draw),
        }
    }
}

/// The average of the members' probabilities of the classes, each calibrated: row, class.
pub(crate) fn class_probabilities(parts: &[Part<'_>]) -> Vec<Vec<f64>> {
    let mut mean: Vec<Vec<f64>> = Vec::new();
    for part in parts {
        let by_row = &part.probabilities;
        mean.resize_with(by_row.len(), || vec![0.0; by_row[0].len()]);
        for (mean, of_row) in mean.iter_mut().zip(by_row) {
            let each = mean.iter_mut().zip(part.calibration.of(of_row));
            each.for_each(|(sum, p)| *sum += part.weight * p);
        }
    }
    mean.iter_mut().flatten().for_each(|p| *p = p.min(1.0));
    mean
}

/// Probabilities of the classes with central intervals that hold `level` of the posterior, by so many draws of a member, by weight, and of all its parameters;
/// draws are calibrated as the probabilities of their member are. The last argument: seed, first and third word of the random streams.
pub(crate) fn intervals(
    parts: &[Part<'_>],
    level: f64,
    draws: usize,
    (seed, first, third): (u64, u64, u64),
) -> Result<Vec<Vec<Interval>>> {
    let drawn: Vec<Vec<Vec<f64>>> = parallel::try_map(0..draws as u64, |draw| {
        let rng = &mut stream(seed, [first, draw, third, 0]);
        let chosen = pick(parts.iter().map(|part| part.weight), rng.random()).unwrap_or(0);
        let part = &parts[chosen];
        let drawn = with_first_class((part.draw)(rng)?);
        let each = drawn.iter().zip(&part.probabilities);
        let each = each.map(|(drawn, mean)| part.calibration.of_draw(drawn, mean));
        Ok::<_, IqgmeError>(each.collect())
    })?;
    Ok(class_intervals(class_probabilities(parts), &drawn, level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_answer_by_weight_each_calibrated() {
        let twice = Calibration {
            inverse_temperature: 2.0,
            class_offset: Vec::new(),
        };
        let as_it_is = Calibration::default();
        // Says the same of both rows, and in draws another thing.
        let part = |weight, calibration, says: f64| {
            Part::new((weight, calibration), vec![vec![says]; 2], |rng| {
                Ok(vec![vec![rng.random()]; 2])
            })
        };
        let parts = [part(0.25, &twice, 0.8), part(0.75, &as_it_is, 0.3)];
        let mean = class_probabilities(&parts);
        let wanted = 0.25 * 16.0 / 17.0 + 0.75 * 0.3;
        assert!((mean[0][1] - wanted).abs() < 1e-12 && mean[0] == mean[1]);
        // Three quarters of the draws are uniform, the others are sharpened.
        let found = intervals(&parts, 0.9, 4000, (1, 0, 2)).unwrap();
        let ends = |q: f64| 0.75 * q + 0.25 * q.sqrt() / (q.sqrt() + (1.0 - q).sqrt());
        assert!((ends(found[0][1].lower) - 0.05).abs() < 0.02, "{found:?}");
        assert!((ends(found[0][1].upper) - 0.95).abs() < 0.02, "{found:?}");
    }
}
