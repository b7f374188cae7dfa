//! What a prediction on the wrong side of its margin costs, and the conjugate of that cost.
//!
//! All models of this crate minimise `KL(q || p) + sum_n C_n loss(y_n, E[f(x_n)])`. A loss is convex and piecewise linear (or quadratic) in the
//! expected scores, and its conjugate says which duals `omega` are allowed and what they earn: R Lemmas 9 to 11.

use serde::{Deserialize, Serialize};

/// How the part of a margin that is missing counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slack {
    /// As it is (L1): duals lie in `[0, C]`.
    #[default]
    Linear,
    /// Squared (L2): duals have no upper end and are charged `omega^2 / (4 C)`.
    Squared,
}

impl Slack {
    /// Cost of a missing margin: 0 for `missing <= 0`.
    #[inline(always)]
    pub fn cost(self, missing: f64) -> f64 {
        let missing = missing.max(0.0);
        match self {
            Self::Linear => missing,
            Self::Squared => missing * missing,
        }
    }

    /// Largest dual of an example of cost `c`.
    #[inline(always)]
    pub(crate) fn most(self, c: f64) -> f64 {
        match self {
            Self::Linear => c,
            // An example that costs nothing takes no part, however its slack counts.
            Self::Squared if c == 0.0 => 0.0,
            Self::Squared => f64::INFINITY,
        }
    }

    /// `h` in the charge `h omega^2 / 2` of a dual: `1 / (2 C)` for squared slack, else 0.
    #[inline(always)]
    pub(crate) fn curvature(self, c: f64) -> f64 {
        match self {
            Self::Squared if c > 0.0 => 0.5 / c,
            _ => 0.0,
        }
    }
}

/// What the scores of the rows should be, and what they cost where they are not.
///
/// Scores are `f_n = w' x_n`, for classes one per class. The cost `C_n` of each row is given beside; a row of cost 0 takes no part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Targets<'a> {
    /// Hinge: `max(0, 1 - y f)` with `y = 1` where `positive`, else -1 (R 28).
    Binary {
        /// One per row.
        positive: &'a [bool],
        /// How the missing part counts.
        slack: Slack,
    },
    /// Crammer and Singer: `max_{y != y_n} (margin - f_{y_n} + f_y)`, at least 0 (R 12).
    Classes {
        /// Class of each row, from 0.
        classes: &'a [u32],
        /// How many classes there are.
        n_classes: usize,
        /// Margin that is asked for between the true and any other class, `l^Delta` of R; 1 unless there are reasons.
        margin: f64,
        /// How the missing part counts.
        slack: Slack,
    },
    /// Epsilon-insensitive: `max(0, |y - f| - epsilon)` (R Lemma 11).
    Real {
        /// One per row.
        values: &'a [f64],
        /// Half the width of the band in which an error costs nothing.
        epsilon: f64,
        /// How the missing part counts.
        slack: Slack,
    },
}

impl Targets<'_> {
    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        match self {
            Self::Binary { positive, .. } => positive.len(),
            Self::Classes { classes, .. } => classes.len(),
            Self::Real { values, .. } => values.len(),
        }
    }

    /// Scores (and duals) of one row: the number of classes, or 1.
    pub fn n_scores(&self) -> usize {
        match self {
            Self::Classes { n_classes, .. } => *n_classes,
            _ => 1,
        }
    }

    /// Loss of `row` at its scores, not yet multiplied by its cost.
    ///
    /// # Panics
    /// When the row does not exist or there are fewer scores than [`n_scores`](Self::n_scores).
    #[inline(always)]
    pub fn loss(&self, row: usize, scores: &[f64]) -> f64 {
        match *self {
            Self::Binary { positive, slack } => {
                slack.cost(1.0 - if positive[row] { scores[0] } else { -scores[0] })
            }
            Self::Classes {
                classes,
                margin,
                slack,
                ..
            } => {
                let own = classes[row] as usize;
                let best_other = best_other(scores, own);
                slack.cost(margin - scores[own] + best_other)
            }
            Self::Real {
                values,
                epsilon,
                slack,
            } => slack.cost((values[row] - scores[0]).abs() - epsilon),
        }
    }
}

/// Highest score among the other classes; minus infinity without any.
#[inline(always)]
fn best_other(scores: &[f64], own: usize) -> f64 {
    let others = scores.iter().enumerate().filter(|&(y, _)| y != own);
    others.fold(f64::NEG_INFINITY, |best, (_, &score)| best.max(score))
}
