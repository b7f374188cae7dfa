//! Calibration of class probabilities: what is found from labels that a member was not told.

use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use npb_priors::special::ln_normalize;
use serde::{Deserialize, Serialize};

/// The prior of the inverse temperature: its logarithm is normal with mean 0 and this standard deviation.
const LN_TEMPERATURE_SD: f64 = 0.5;
/// The prior of an offset beside what keeps the odds of the labels as they are: normal with mean 0 and this standard deviation.
const OFFSET_SD: f64 = 1.0;
/// Newton steps to an offset, at most.
const OFFSET_STEPS: usize = 30;
/// The logarithm of the inverse temperature is found to 1 over this, up to [`LARGEST_LN_TEMPERATURE`] either way.
const TEMPERATURE_STEPS: i32 = 20;
const LARGEST_LN_TEMPERATURE: i32 = 3;
/// No probability is taken for nearer to 0 while the calibration is sought.
const NEAREST: f64 = 1e-12;
/// Beyond what labels can make of an offset.
const MOST_OFFSET: f64 = 1e3;

/// How the class probabilities of a member are calibrated: `ln p_c` becomes `class_offset_c + inverse_temperature ln p_c`, but for what makes them sum to one.
///
/// Two classes have no offsets. With more of them the first class, whose utility has no noise, is unlike the others, and their offsets correct for that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The power to which the odds of the classes are raised: more than 1 for a member that is not sure enough, less for one that is too sure.
    pub inverse_temperature: f64,
    /// By class, 0 for the first; none with two classes, or where nothing was held out.
    pub class_offset: Vec<f64>,
}

impl Default for Calibration {
    /// Probabilities stay as they are.
    fn default() -> Self {
        Self {
            inverse_temperature: 1.0,
            class_offset: Vec::new(),
        }
    }
}

/// Of a probability that is not nearer to 0 than this; what is not a number stays so.
fn ln(p: f64, nearest: f64) -> f64 {
    if p < nearest { nearest.ln() } else { p.ln() }
}

impl Calibration {
    /// The calibration at which what came true is most probable, times its prior. `held_out`: probabilities of the classes, label by label; `truth`: the classes.
    ///
    /// Under the prior of the offsets a member that is less sure is as sure of each class on average as labels are of it: less sure without an offset, a member
    /// that predicts a rare class would have it more frequent.
    ///
    /// # Panics
    /// Without labels.
    pub fn fit(held_out: &[f64], truth: &[usize]) -> Self {
        let n_classes = held_out.len() / truth.len();
        let of_label = |p: &[f64]| {
            p.iter()
                .map(|&q| ln(q, NEAREST) - ln(p[0], NEAREST))
                .collect()
        };
        let ln_odds: Vec<Vec<f64>> = held_out.chunks_exact(n_classes).map(of_label).collect();
        if n_classes == 2 {
            return most_probable(|power| {
                let each = ln_odds.iter().zip(truth);
                let ln_true = |(odds, &class): (&Vec<f64>, &usize)| {
                    let against = odds.iter().map(|l| (power * (l - odds[class])).exp());
                    -against.sum::<f64>().ln()
                };
                (each.map(ln_true).sum(), Vec::new())
            });
        }
        let usual = ln_odds_of_classes(truth, n_classes);
        let mut found = most_probable(|power| {
            let about = |odds: &Vec<f64>| -> Vec<f64> {
                let each = odds.iter().zip(&usual);
                each.map(|(l, usual)| usual + power * (l - usual)).collect()
            };
            best_offsets(&ln_odds.iter().map(about).collect::<Vec<_>>(), truth)
        });
        for (offset, usual) in found.class_offset.iter_mut().zip(&usual) {
            *offset += (1.0 - found.inverse_temperature) * usual;
        }
        found
    }

    /// What probabilities of the classes become.
    pub fn of(&self, probabilities: &[f64]) -> Vec<f64> {
        self.of_draw(probabilities, probabilities)
    }

    /// A draw of the classes' probabilities, calibrated as their means are. Draws of a member that is not sure enough are sharpened, too, and spread more on the scale of log
    /// odds; those of one that is too sure are moved as far as their means are, and spread as before: no more is known by being less sure.
    pub fn of_draw(&self, drawn: &[f64], means: &[f64]) -> Vec<f64> {
        let power = self.inverse_temperature;
        if power == 1.0 && self.class_offset.iter().all(|offset| *offset == 0.0) {
            return drawn.to_vec();
        }
        let ln = |p: f64| ln(p, f64::MIN_POSITIVE);
        let each = drawn.iter().zip(means).enumerate();
        let ln = |(class, (drawn, mean)): (usize, (&f64, &f64))| {
            let offset = self.class_offset.get(class).copied().unwrap_or(0.0);
            let by = if power > 1.0 { drawn } else { mean };
            ln(*drawn) + offset + (power - 1.0) * ln(*by)
        };
        let mut moved: Vec<f64> = each.map(ln).collect();
        ln_normalize(&mut moved);
        moved
    }

    /// Whether labels can have made it, for one that comes from a file.
    ///
    /// # Errors
    /// What it holds, if they cannot.
    pub fn check(&self, n_classes: usize) -> Result<(), String> {
        let Self {
            inverse_temperature: power,
            class_offset: offsets,
        } = self;
        let proper = [0, n_classes].contains(&offsets.len())
            && offsets.iter().all(|offset| offset.abs() <= MOST_OFFSET)
            && offsets.first().is_none_or(|first| *first == 0.0);
        let reach = f64::from(LARGEST_LN_TEMPERATURE) + 1e-3;
        if *power > 0.0 && power.ln().abs() <= reach && proper {
            return Ok(());
        }
        Err(format!("calibration: {self:?}"))
    }
}

/// Log odds of the classes among labels, beside the first. A class without a label counts for half of one.
fn ln_odds_of_classes(truth: &[usize], n_classes: usize) -> Vec<f64> {
    let count = |class: usize| (truth.iter().filter(|t| **t == class).count() as f64).max(0.5);
    (0..n_classes).map(|c| (count(c) / count(0)).ln()).collect()
}

/// The inverse temperature, with its offsets, of the highest value, times its prior. `value`: the logarithm of a probability, and offsets.
fn most_probable(value: impl Fn(f64) -> (f64, Vec<f64>)) -> Calibration {
    let most = LARGEST_LN_TEMPERATURE * TEMPERATURE_STEPS;
    let mut best = f64::NEG_INFINITY;
    let mut found = Calibration::default();
    for step in -most..=most {
        let ln = f64::from(step) / f64::from(TEMPERATURE_STEPS);
        let (value, class_offset) = value(ln.exp());
        let value = value - 0.5 * (ln / LN_TEMPERATURE_SD).powi(2);
        if value > best {
            best = value;
            found = Calibration {
                inverse_temperature: ln.exp(),
                class_offset,
            };
        }
    }
    found
}

/// The offsets of log odds, that of the first class 0, at which what came true is most probable, times their prior; by Newton's method, whose steps are cut, on a
/// concave function. First, the logarithm of that product. `ln_odds`: label, class.
fn best_offsets(ln_odds: &[Vec<f64>], truth: &[usize]) -> (f64, Vec<f64>) {
    let n_classes = ln_odds[0].len();
    let precision = OFFSET_SD.powi(-2);
    let mut offsets = vec![0.0; n_classes];
    let mut p = vec![0.0; n_classes];
    for _ in 0..OFFSET_STEPS {
        let mut slope: Vec<f64> = offsets[1..].iter().map(|o| -precision * o).collect();
        let mut curvature = Mat::from_fn(n_classes - 1, n_classes - 1, |a, b| {
            if a == b { precision } else { 0.0 }
        });
        for (odds, &class) in ln_odds.iter().zip(truth) {
            with_offsets(odds, &offsets, &mut p);
            for a in 1..n_classes {
                slope[a - 1] += f64::from(u8::from(class == a)) - p[a];
                curvature[(a - 1, a - 1)] += p[a];
                for b in 1..n_classes {
                    curvature[(a - 1, b - 1)] -= p[a] * p[b];
                }
            }
        }
        let Ok(factor) = Cholesky::new(curvature.as_ref()) else {
            break;
        };
        factor.solve(&mut slope);
        let largest = slope
            .iter()
            .fold(0.0, |most: f64, step| most.max(step.abs()));
        for (offset, step) in offsets[1..].iter_mut().zip(&slope) {
            *offset += step / largest.max(1.0);
        }
        if largest < 1e-9 {
            break;
        }
    }
    let each = ln_odds.iter().zip(truth);
    let ln_true = each
        .map(|(odds, &class)| odds[class] + offsets[class] - with_offsets(odds, &offsets, &mut p));
    let value = ln_true.sum::<f64>();
    let prior = offsets
        .iter()
        .map(|offset| -0.5 * (offset / OFFSET_SD).powi(2));
    (value + prior.sum::<f64>(), offsets)
}

/// Probabilities of classes with these log odds and offsets; returns the logarithm of what makes them sum to one.
fn with_offsets(ln_odds: &[f64], offsets: &[f64], p: &mut [f64]) -> f64 {
    for (to, (odds, offset)) in p.iter_mut().zip(ln_odds.iter().zip(offsets)) {
        *to = odds + offset;
    }
    ln_normalize(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    fn temperature(inverse_temperature: f64) -> Calibration {
        Calibration {
            inverse_temperature,
            class_offset: Vec::new(),
        }
    }

    #[test]
    fn draws_move_with_their_mean() {
        let [as_it_is, twice, moved] =
            [(1.0, 0.0), (2.0, 0.0), (1.0, 1.5)].map(|(power, offset)| Calibration {
                inverse_temperature: power,
                class_offset: vec![0.0, offset],
            });
        assert!(near(twice.of(&[0.2, 0.8])[1], 16.0 / 17.0));
        let odds = moved.of(&[0.2, 0.8])[1] / moved.of(&[0.2, 0.8])[0];
        assert!(near(odds.ln(), 4.0_f64.ln() + 1.5));
        let drawn = |c: &Calibration| c.of_draw(&[0.7, 0.3], &[0.2, 0.8])[1];
        assert!(near(drawn(&as_it_is), 0.3));
        // Odds 3/7 of the draw, 4 of the mean: 9/49 and 3/14.
        assert!(near(drawn(&twice), 9.0 / 58.0));
        assert!(near(drawn(&temperature(0.5)), 3.0 / 17.0));
        assert!(near(drawn(&moved), moved.of(&[0.7, 0.3])[1]));
        let surely = temperature(20.0);
        for p in [0.0, 1.0] {
            assert!((surely.of(&[1.0 - p, p])[1] - p).abs() < 1e-6);
        }
        // What is drawn as it is predicted becomes what that becomes; a class that a draw rules out stays ruled out.
        let means = [0.5, 0.3, 0.2];
        let blunt = temperature(0.4);
        let same = blunt.of_draw(&means, &means);
        assert!(blunt.of(&means).iter().zip(same).all(|(a, b)| near(*a, b)));
        assert!(surely.of_draw(&[0.0, 0.6, 0.4], &means)[0] < 1e-6);
        // One that has nothing to do keeps even what is next to 0.
        let tiny = [1e-200, 1.0];
        assert_eq!(Calibration::default().of(&tiny), tiny);
        assert!(Calibration::default().of(&[f64::NAN, 0.5])[0].is_nan());
        assert!(temperature(2.0).of(&[f64::NAN, 0.5])[0].is_nan());
    }

    /// Probabilities of so many classes, the first at `p` and the others alike, and what comes true: the first in nine of ten cases.
    fn nine_of_ten(p: f64, n_classes: usize) -> (Vec<f64>, Vec<usize>) {
        let other = (1.0 - p) / (n_classes - 1) as f64;
        let of_label = |_| (0..n_classes).map(move |class| if class == 0 { p } else { other });
        let truth = |i: usize| match i % 10 {
            0 => 1 + i / 10 % (n_classes - 1),
            _ => 0,
        };
        (
            (0..400).flat_map(of_label).collect(),
            (0..400).map(truth).collect(),
        )
    }

    #[test]
    fn members_that_are_not_sure_enough_are_sharpened_and_those_too_sure_are_blunted() {
        for (said, wanted) in [(0.6, 5.42), (0.9, 1.0), (0.99, 0.478)] {
            let (held_out, truth) = nine_of_ten(said, 2);
            let found = Calibration::fit(&held_out, &truth);
            let ratio = found.inverse_temperature / wanted;
            assert!((ratio - 1.0).abs() < 0.05, "{said}: {found:?}");
            let p = found.of(&held_out[..2]);
            assert!((p[0] - 0.9).abs() < 0.01, "{said}: {p:?}");
            assert!(near(p.iter().sum(), 1.0) && found.class_offset.is_empty());
        }
        // With more classes, too, and offsets keep the mean.
        let (held_out, truth) = nine_of_ten(0.99, 3);
        let found = Calibration::fit(&held_out, &truth);
        assert!(
            (found.of(&held_out[..3])[0] - 0.9).abs() < 0.01,
            "{found:?}"
        );
        // Few labels say little, and labels predicted for certain do no harm.
        let few = Calibration::fit(&[0.6, 0.4, 0.6, 0.4], &[0, 0]);
        assert!(few.inverse_temperature < 1.2);
        let surely = Calibration::fit(&[1.0, 0.0, 0.0, 1.0, 1.0, 0.0], &[0, 0, 0]);
        assert!(surely.inverse_temperature.is_finite());
    }

    /// Three classes of which one in ten and one in five are rare: whatever is said beside their shares is blunted, and they keep these.
    #[test]
    fn rare_classes_keep_their_shares() {
        let shares = [0.7, 0.2, 0.1];
        let truth: Vec<usize> = (0..600)
            .map(|i| [0, 0, 0, 0, 0, 0, 0, 1, 1, 2][i / 9 % 10])
            .collect();
        let noise = |i: usize, class: usize| [-2.0, 0.0, 2.0][(i + i / 3 * class) % 3];
        let of_label = |i: usize| {
            let odds = (0..3).map(|c| shares[c] * f64::exp(noise(i, c)));
            let sum: f64 = odds.clone().sum();
            odds.map(move |o| o / sum).collect::<Vec<_>>()
        };
        let held_out: Vec<f64> = (0..600).flat_map(of_label).collect();
        let found = Calibration::fit(&held_out, &truth);
        assert!(found.inverse_temperature < 0.35, "{found:?}");
        let mut mean = [0.0; 3];
        for p in held_out.chunks_exact(3) {
            let p = found.of(p);
            (0..3).for_each(|c| mean[c] += p[c] / 600.0);
        }
        for (mean, share) in mean.iter().zip(shares) {
            assert!((mean - share).abs() < 0.03, "{mean:?} {share}");
        }
        // What came true is no more probable by other offsets.
        for class in [1, 2] {
            for by in [-0.2, 0.2] {
                let mut other = found.clone();
                other.class_offset[class] += by;
                let ln_true = |c: &Calibration| -> f64 {
                    let each = held_out.chunks_exact(3).zip(&truth);
                    each.map(|(p, &class)| c.of(p)[class].ln()).sum()
                };
                assert!(ln_true(&other) < ln_true(&found), "{class} {by}");
            }
        }
        let few = Calibration::fit(&[0.1, 0.8, 0.1, 0.8, 0.1, 0.1], &[1, 0]);
        assert!(few.inverse_temperature < 1.5, "{few:?}");
        assert!(
            few.class_offset.iter().all(|offset| offset.abs() < 0.7),
            "{few:?}"
        );
    }

    #[test]
    fn calibrations_that_no_labels_make_are_refused() {
        let check = |power: f64, offsets: &[f64]| {
            Calibration {
                inverse_temperature: power,
                class_offset: offsets.to_vec(),
            }
            .check(3)
        };
        for (power, offsets) in [
            (1.0, &[][..]),
            (3.0_f64.exp(), &[0.0, -20.0, 3.0]),
            ((-3.0_f64).exp(), &[0.0, 1.0, 2.0]),
        ] {
            check(power, offsets).unwrap();
        }
        for (power, offsets) in [
            (1e308, &[][..]),
            (0.0, &[]),
            (f64::NAN, &[]),
            (-1.0, &[]),
            (1.0, &[0.0, 1.0]),
            (1.0, &[0.5, 1.0, 0.0]),
            (1.0, &[0.0, f64::NAN, 0.0]),
            (1.0, &[0.0, 1e300, 0.0]),
        ] {
            let message = check(power, offsets).unwrap_err();
            assert!(message.contains("calibration"), "{message}");
        }
    }
}
