//! Members of an ensemble and the questions that they answer together.

use std::borrow::Cow;

use npb_infer::ensemble::check_weights;
use npb_infer::parallel;
use npb_infer::{Interval, Stop, VbOutcome, VbReport, Xoshiro256PlusPlus, stream};
use npb_linalg::NotPositiveDefinite;
use npb_priors::dist::pick;
use npb_priors::special::ln_add_exp;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::train::Planned;
use crate::answers::{check_draws, check_inside, class_intervals, with_first_class};
use crate::predict::{Experts, Gate, Predictor};
use crate::rows::Rows;
use crate::state::expect;
use crate::{Expert, FeatureScale, Init, IqgmeError, IqgmeState, Result};
use npb_infer::ensemble::Calibration;

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

/// One trained model, as questions see it: a mixture, or a factor-analytic one.
pub(crate) trait Predictive: Sync {
    /// Rows of a table on the scale of the member.
    type Rows: Sync;

    /// Probabilities of all classes: row, class.
    fn class_probabilities(&self, rows: &Self::Rows) -> Result<Vec<Vec<f64>>>;

    /// The same under one draw of all parameters.
    fn drawn_class_probabilities(
        &self,
        rows: &Self::Rows,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<Vec<Vec<f64>>>;

    /// Log density of what is observed of each row, in standardised units.
    fn ln_density(&self, rows: &Self::Rows) -> Result<Vec<f64>>;
}

/// A mixture as questions see it: components and experts at a posterior, and how all parameters are drawn from it.
pub(crate) struct MixtureView<'a, F> {
    pub(crate) predictor: Cow<'a, Predictor>,
    pub(crate) experts: Experts,
    pub(crate) draw: F,
}

impl<F> Predictive for MixtureView<'_, F>
where
    F: Fn(&mut Xoshiro256PlusPlus) -> Result<Predictor> + Sync,
{
    type Rows = Rows;

    fn class_probabilities(&self, rows: &Rows) -> Result<Vec<Vec<f64>>> {
        let others = self.predictor.probabilities(rows, self.experts)?;
        Ok(with_first_class(others))
    }

    fn drawn_class_probabilities(
        &self,
        rows: &Rows,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<Vec<Vec<f64>>> {
        let others = (self.draw)(rng)?.probabilities(rows, Experts::AtMeans)?;
        Ok(with_first_class(others))
    }

    fn ln_density(&self, rows: &Rows) -> Result<Vec<f64>> {
        self.predictor.ln_density(rows, Gate::Marginal)
    }
}

/// A member's part in an answer: what it weighs, and the rows on its scale.
pub(crate) struct Part<'a, M: Predictive> {
    pub(crate) weight: f64,
    pub(crate) calibration: &'a Calibration,
    pub(crate) member: M,
    pub(crate) rows: &'a M::Rows,
}

/// The average of the members' probabilities of the classes, each calibrated: row, class.
pub(crate) fn class_probabilities<M: Predictive>(parts: &[Part<'_, M>]) -> Result<Vec<Vec<f64>>> {
    Ok(average(parts, &by_member(parts)?))
}

fn by_member<M: Predictive>(parts: &[Part<'_, M>]) -> Result<Vec<Vec<Vec<f64>>>> {
    let of = |part: &Part<'_, M>| part.member.class_probabilities(part.rows);
    parts.iter().map(of).collect()
}

fn average<M: Predictive>(parts: &[Part<'_, M>], by_member: &[Vec<Vec<f64>>]) -> Vec<Vec<f64>> {
    let mut mean: Vec<Vec<f64>> = Vec::new();
    for (part, by_row) in parts.iter().zip(by_member) {
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
/// draws are calibrated as the probabilities of their member are. `stream_key`: seed, first and third word of the random streams.
pub(crate) fn intervals<M: Predictive>(
    parts: &[Part<'_, M>],
    level: f64,
    draws: usize,
    (seed, first, third): (u64, u64, u64),
) -> Result<Vec<Vec<Interval>>> {
    check_inside("level", level)?;
    check_draws(draws, 2)?;
    let by_member = by_member(parts)?;
    let drawn: Vec<Vec<Vec<f64>>> = parallel::try_map(0..draws as u64, |draw| {
        let rng = &mut stream(seed, [first, draw, third, 0]);
        let chosen = pick(parts.iter().map(|part| part.weight), rng.random()).unwrap_or(0);
        let part = &parts[chosen];
        let drawn = part.member.drawn_class_probabilities(part.rows, rng)?;
        let each = drawn.iter().zip(&by_member[chosen]);
        let each = each.map(|(drawn, mean)| part.calibration.of_draw(drawn, mean));
        Ok::<_, IqgmeError>(each.collect())
    })?;
    Ok(class_intervals(average(parts, &by_member), &drawn, level))
}

/// Log density of what is observed of each of `n_rows` rows, members averaged by weight, in standardised units.
pub(crate) fn ln_density<M: Predictive>(parts: &[Part<'_, M>], n_rows: usize) -> Result<Vec<f64>> {
    let mut sums = vec![f64::NEG_INFINITY; n_rows];
    for part in parts {
        let own = part.member.ln_density(part.rows)?;
        for (sum, own) in sums.iter_mut().zip(own) {
            *sum = ln_add_exp(*sum, part.weight.ln() + own);
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says the same of every row, and in draws another thing.
    struct Says([f64; 2]);

    impl Predictive for Says {
        type Rows = usize;

        fn class_probabilities(&self, rows: &usize) -> Result<Vec<Vec<f64>>> {
            Ok(vec![self.0.to_vec(); *rows])
        }

        fn drawn_class_probabilities(
            &self,
            rows: &usize,
            rng: &mut Xoshiro256PlusPlus,
        ) -> Result<Vec<Vec<f64>>> {
            let p: f64 = rng.random();
            Ok(vec![vec![1.0 - p, p]; *rows])
        }

        fn ln_density(&self, rows: &usize) -> Result<Vec<f64>> {
            Ok(vec![self.0[0].ln(); *rows])
        }
    }

    #[test]
    fn members_answer_by_weight_each_calibrated() {
        let twice = Calibration {
            inverse_temperature: 2.0,
            class_offset: Vec::new(),
        };
        let as_it_is = Calibration::default();
        let part = |weight, calibration, says| Part {
            weight,
            calibration,
            member: Says(says),
            rows: &2,
        };
        let parts = [
            part(0.25, &twice, [0.2, 0.8]),
            part(0.75, &as_it_is, [0.7, 0.3]),
        ];
        let mean = class_probabilities(&parts).unwrap();
        let wanted = 0.25 * 16.0 / 17.0 + 0.75 * 0.3;
        assert!((mean[0][1] - wanted).abs() < 1e-12 && mean[0] == mean[1]);
        let density = ln_density(&parts, 2).unwrap();
        assert!((density[1] - (0.25 * 0.2_f64 + 0.75 * 0.7).ln()).abs() < 1e-12);
        // Three quarters of the draws are uniform, the others are sharpened.
        let found = intervals(&parts, 0.9, 4000, (1, 0, 2)).unwrap();
        let ends = |q: f64| 0.75 * q + 0.25 * q.sqrt() / (q.sqrt() + (1.0 - q).sqrt());
        assert!((ends(found[0][1].lower) - 0.05).abs() < 0.02, "{found:?}");
        assert!((ends(found[0][1].upper) - 0.95).abs() < 0.02, "{found:?}");
    }
}
