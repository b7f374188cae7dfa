//! Decision values turned into probabilities.

use npb_data::{Table, splits};
use npb_infer::stream;
use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::BaselineError;
use crate::error::{at_least_one, labelled};
use crate::svm::{Svm, SvmConfig};

/// P(positive) = 1 / (1 + exp(slope f + offset)) of a decision value f; the slope is not positive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platt {
    /// A.
    pub slope: f64,
    /// B.
    pub offset: f64,
}

impl Platt {
    /// By maximum likelihood with Platt's targets, (n+ + 1) / (n+ + 2) and 1 / (n- + 2). Newton's method with backtracking (Lin, Lin and Weng, Machine
    /// Learning 68, 2007). When higher decision values go with the negative class, the slope is 0: a curve that turned the order round would say that the classifier is
    /// worse than chance, which twenty cross-validated examples cannot.
    ///
    /// # Panics
    /// When the lengths differ.
    ///
    /// ```
    /// use npb_baselines::Platt;
    /// let platt = Platt::fit(&[-2.0, -1.0, 0.5, 1.0, 2.0], &[false, false, false, true, true]);
    /// assert!(platt.probability(2.0) > 0.6 && platt.probability(-2.0) < 0.3);
    /// ```
    pub fn fit(decisions: &[f64], positive: &[bool]) -> Self {
        assert_eq!(decisions.len(), positive.len());
        let n_positive = positive.iter().filter(|&&p| p).count() as f64;
        let n_negative = positive.len() as f64 - n_positive;
        let targets = [
            1.0 / (n_negative + 2.0),
            (n_positive + 1.0) / (n_positive + 2.0),
        ];
        let pairs: Vec<(f64, f64)> = decisions
            .iter()
            .zip(positive)
            .map(|(&f, &p)| (f, targets[usize::from(p)]))
            .collect();
        let start = Self {
            slope: 0.0,
            offset: ((n_negative + 1.0) / (n_positive + 1.0)).ln(),
        };
        let fitted = start.newton(&pairs);
        if fitted.slope <= 0.0 { fitted } else { start }
    }

    fn newton(mut self, pairs: &[(f64, f64)]) -> Self {
        for _ in 0..100 {
            let (mut g, mut h) = ([0.0; 2], [1e-12, 0.0, 1e-12]);
            for &(f, target) in pairs {
                let p = self.probability(f);
                let (d, w) = (target - p, p * (1.0 - p));
                g = [g[0] + f * d, g[1] + d];
                h = [h[0] + f * f * w, h[1] + f * w, h[2] + w];
            }
            if g[0].abs() < 1e-5 && g[1].abs() < 1e-5 {
                break;
            }
            let determinant = h[0] * h[2] - h[1] * h[1];
            let step = [
                -(h[2] * g[0] - h[1] * g[1]) / determinant,
                -(h[0] * g[1] - h[1] * g[0]) / determinant,
            ];
            let (slope, before) = (g[0] * step[0] + g[1] * step[1], self.loss(pairs));
            let moved = |size: f64| Self {
                slope: self.slope + size * step[0],
                offset: self.offset + size * step[1],
            };
            let mut size = 1.0;
            while size >= 1e-10 && moved(size).loss(pairs) >= before + 1e-4 * size * slope {
                size /= 2.0;
            }
            if size < 1e-10 {
                break;
            }
            self = moved(size);
        }
        self
    }

    /// Cross entropy.
    fn loss(self, pairs: &[(f64, f64)]) -> f64 {
        let term = |&(f, target): &(f64, f64)| {
            let x = self.slope * f + self.offset;
            // ln(1 + e^x) - (1 - target) x, without overflow.
            x.max(0.0) + (-x.abs()).exp().ln_1p() - (1.0 - target) * x
        };
        pairs.iter().map(term).sum()
    }

    /// Of a decision value.
    pub fn probability(self, decision: f64) -> f64 {
        let x = self.slope * decision + self.offset;
        if x > 0.0 {
            (-x).exp() / (1.0 + (-x).exp())
        } else {
            1.0 / (1.0 + x.exp())
        }
    }
}

/// A support vector machine whose decision values are scaled to probabilities on held-out folds.
///
/// ```
/// use npb_baselines::{PlattSvm, SvmConfig};
/// use npb_data::Table;
///
/// let x = Table::complete(8, 1, vec![-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0])?;
/// let labels: Vec<bool> = (0..8).map(|i| i > 3).collect();
/// let p = PlattSvm::fit(&x, &labels, &SvmConfig::default(), 4)?.probability(&x)?;
/// assert!(p[0] < 0.5 && p[7] > 0.5);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PlattSvm {
    svm: Svm,
    platt: Platt,
}

impl PlattSvm {
    /// Fits the machine to all rows, and the curve to the decision values of rows left out of one of `folds` fits. Fewer folds when there are fewer rows; a fold
    /// whose other rows have one class gives decision value 0.
    ///
    /// # Errors
    /// As [`Svm::fit`]; [`BaselineError::Config`] for fewer than two folds.
    pub fn fit(
        train: &Table,
        labels: &[bool],
        config: &SvmConfig,
        folds: usize,
    ) -> Result<Self, BaselineError> {
        at_least_one("folds - 1", folds.saturating_sub(1))?;
        let svm = Svm::fit(train, labels, config)?;
        labelled(train, labels)?;
        let mut decisions = vec![0.0; labels.len()];
        let rng = &mut stream(config.seed, [0, 0, FOLDS, 0]);
        let folds = splits::k_fold(labels.len(), folds.min(labels.len()), rng as &mut dyn Rng)
            .map_err(|e| BaselineError::Solver(e.to_string()))?;
        for fold in folds {
            let own: Vec<bool> = fold.train.iter().map(|&i| labels[i]).collect();
            if own.iter().all(|&l| l == own[0]) {
                continue;
            }
            let part = Svm::fit(&train.select_rows(&fold.train), &own, config)?;
            let held_out = part.decision(&train.select_rows(&fold.test))?;
            for (&i, decision) in fold.test.iter().zip(held_out) {
                decisions[i] = decision;
            }
        }
        Ok(Self {
            svm,
            platt: Platt::fit(&decisions, labels),
        })
    }

    /// Decision values of the machine fitted to all rows.
    ///
    /// # Errors
    /// As [`Svm::decision`].
    pub fn decision(&self, table: &Table) -> Result<Vec<f64>, BaselineError> {
        self.svm.decision(table)
    }

    /// Probability of `true` of every row of `table`.
    ///
    /// # Errors
    /// As [`Svm::decision`].
    pub fn probability(&self, table: &Table) -> Result<Vec<f64>, BaselineError> {
        let decisions = self.svm.decision(table)?;
        let probability = |f| self.platt.probability(f);
        Ok(decisions.into_iter().map(probability).collect())
    }

    /// The curve.
    pub fn platt(&self) -> Platt {
        self.platt
    }
}

/// Third word of the key of the folds.
const FOLDS: u64 = 62;
