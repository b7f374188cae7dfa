//! Scores of labels to decisions: thresholds by what they are chosen for.

use npb_data::metrics;

use crate::Result;

/// What cross-validation optimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Criterion {
    Accuracy,
    Micro,
    Macro,
}

/// Passes over the labels when thresholds are chosen together.
const PASSES: usize = 20;

impl Criterion {
    pub(super) const ALL: [Self; 3] = [Self::Accuracy, Self::Micro, Self::Macro];

    pub(super) fn metric(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Micro => "f1_micro",
            Self::Macro => "f1_macro",
        }
    }

    /// As in `results.csv`.
    pub(super) fn setting(self) -> String {
        let threshold = if self == Self::Accuracy { "0" } else { "cv" };
        format!("select={};threshold={threshold}", self.metric())
    }

    /// One threshold for each label: 0 for accuracy; that with the best F1 of the label on these scores; for the pooled F1, label by label given
    /// the others, until nothing changes. A label without a positive row is never given.
    pub(super) fn thresholds(self, scores: &[f64], truth: &[bool], n_labels: usize) -> Vec<f64> {
        if self == Self::Accuracy {
            return vec![0.0; n_labels];
        }
        let labels: Vec<Label> = (0..n_labels)
            .map(|l| Label::new(scores, truth, n_labels, l))
            .collect();
        let mut cuts: Vec<usize> = labels.iter().map(|label| label.best(0, 0)).collect();
        if self == Self::Micro {
            for _ in 0..PASSES {
                let before = cuts.clone();
                for l in 0..n_labels {
                    let others = (0..n_labels).filter(|&k| k != l);
                    let (hits, sizes) = others.fold((0, 0), |(hits, sizes), k| {
                        let (h, s) = labels[k].counts(cuts[k]);
                        (hits + h, sizes + s)
                    });
                    cuts[l] = labels[l].best(hits, sizes);
                }
                if cuts == before {
                    break;
                }
            }
        }
        labels
            .iter()
            .zip(cuts)
            .map(|(label, cut)| label.threshold(cut))
            .collect()
    }

    /// The criterion's value of scores cut at thresholds.
    pub(super) fn value(self, scores: &[f64], truth: &[bool], thresholds: &[f64]) -> Result<f64> {
        let found = decisions(scores, thresholds);
        Ok(match self {
            Self::Accuracy => metrics::accuracy(&found, truth)?,
            Self::Micro => metrics::f1(&found, truth, thresholds.len())?.micro,
            Self::Macro => metrics::f1(&found, truth, thresholds.len())?.macro_,
        })
    }
}

/// Whether each score (row-major) exceeds its label's threshold.
pub(super) fn decisions(scores: &[f64], thresholds: &[f64]) -> Vec<bool> {
    let rows = scores.chunks_exact(thresholds.len());
    rows.flat_map(|row| row.iter().zip(thresholds).map(|(s, t)| s > t))
        .collect()
}

/// One label's scores, falling, with how many of the first are positive.
struct Label {
    scores: Vec<f64>,
    hits: Vec<usize>,
}

impl Label {
    fn new(scores: &[f64], truth: &[bool], n_labels: usize, l: usize) -> Self {
        let column = (l..scores.len()).step_by(n_labels);
        let mut pairs: Vec<(f64, bool)> = column.map(|k| (scores[k], truth[k])).collect();
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut hits = vec![0];
        for (_, positive) in &pairs {
            hits.push(hits[hits.len() - 1] + usize::from(*positive));
        }
        Self {
            scores: pairs.into_iter().map(|(score, _)| score).collect(),
            hits,
        }
    }

    /// Hits, and positive decisions plus positive rows, when the first `cut` are called positive.
    fn counts(&self, cut: usize) -> (usize, usize) {
        (self.hits[cut], cut + self.hits[self.hits.len() - 1])
    }

    /// The number of rows to call positive for the best F1 together with others' counts; the fewest of equals.
    fn best(&self, hits: usize, sizes: usize) -> usize {
        let value = |cut: usize| {
            let (h, s) = self.counts(cut);
            if sizes + s == 0 {
                0.0
            } else {
                (hits + h) as f64 / (sizes + s) as f64
            }
        };
        // Rows of one score are on one side.
        let possible = |&cut: &usize| {
            cut == 0 || cut == self.scores.len() || self.scores[cut - 1] > self.scores[cut]
        };
        (0..=self.scores.len())
            .filter(possible)
            .fold(
                0,
                |best, cut| {
                    if value(cut) > value(best) { cut } else { best }
                },
            )
    }

    /// Between the last row that is called positive and the next.
    fn threshold(&self, cut: usize) -> f64 {
        match cut {
            0 => f64::INFINITY,
            cut if cut == self.scores.len() => f64::NEG_INFINITY,
            cut => 0.5 * (self.scores[cut - 1] + self.scores[cut]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two labels, five rows.
    const SCORES: [f64; 10] = [0.9, 0.1, 0.8, 0.2, 0.4, 0.3, 0.3, 0.4, 0.1, 0.5];
    const TRUTH: [bool; 10] = [
        true, false, false, false, true, false, false, true, false, false,
    ];

    /// The best value over all pairs of thresholds.
    fn best(criterion: Criterion) -> f64 {
        let cuts: Vec<f64> = (0..=10).map(|k| 0.1 * k as f64 + 0.05).collect();
        let pairs = cuts.iter().flat_map(|a| cuts.iter().map(move |b| [*a, *b]));
        let value = |pair: [f64; 2]| criterion.value(&SCORES, &TRUTH, &pair).unwrap();
        pairs.map(value).fold(0.0, f64::max)
    }

    #[test]
    fn thresholds_are_the_best_there_are() {
        for criterion in [Criterion::Micro, Criterion::Macro] {
            let thresholds = criterion.thresholds(&SCORES, &TRUTH, 2);
            let value = criterion.value(&SCORES, &TRUTH, &thresholds).unwrap();
            assert!(
                (value - best(criterion)).abs() < 1e-12,
                "{criterion:?} {thresholds:?}"
            );
        }
        assert_eq!(Criterion::Accuracy.thresholds(&SCORES, &TRUTH, 2), [0.0; 2]);
        let none = Criterion::Macro.thresholds(&SCORES, &[false; 10], 2);
        assert_eq!(none, [f64::INFINITY; 2]);
    }

    #[test]
    fn rows_of_one_score_stay_together() {
        let scores = [1.0, 1.0, 0.0];
        let thresholds = Criterion::Macro.thresholds(&scores, &[true, false, false], 1);
        assert_eq!(decisions(&scores, &thresholds), [true, true, false]);
    }
}
