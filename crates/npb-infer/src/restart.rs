use std::fmt;
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

use crate::parallel;

/// The best of several restarts, see [`best_restart`].
#[derive(Clone, Debug)]
pub struct BestRestart<T, E> {
    /// What the best restart returned.
    pub value: T,
    /// Which restart it was.
    pub index: usize,
    /// Its objective.
    pub objective: f64,
    /// Objective of every restart by index; `None` where it failed.
    pub objectives: Vec<Option<f64>>,
    /// Restarts that failed and why, by ascending index.
    pub failures: Vec<(usize, E)>,
}

/// No restart gave a result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RestartError<E: fmt::Debug + fmt::Display> {
    /// Zero restarts were asked for.
    #[error("restarts = 0: ask for at least one restart")]
    NoRestarts,
    /// Every restart failed.
    #[error("all {} restarts failed; restart {}: {}", .failures.len(), .failures[0].0, .failures[0].1)]
    AllFailed {
        /// Each restart and its error, by ascending index; never empty.
        failures: Vec<(usize, E)>,
    },
    /// Some restarts ended, but each of these with an objective that is not a number.
    #[error("no restart ended with a number as its objective (restarts {indices:?} gave NaN)")]
    NotANumber {
        /// The restarts whose objective was NaN.
        indices: Vec<usize>,
    },
}

/// Runs `n` restarts in parallel and keeps the one with the highest objective (ties: the lowest
/// index).
///
/// `run(i)` makes restart `i` and returns its objective and result; it must take its randomness
/// from `i` (for example as the chain of [`crate::stream`]), and then the answer does not depend on
/// the number of threads. A restart that fails or ends with NaN never wins but is reported. Only
/// results that are still in the race are kept in memory.
///
/// # Errors
/// [`RestartError`] when there is nothing to return.
///
/// ```
/// let best = npb_infer::best_restart(4, |i| if i == 1 { Err("bad start") } else { Ok((-(i as f64 - 2.4).powi(2), i)) }).unwrap();
/// assert_eq!((best.index, best.failures), (2, vec![(1, "bad start")]));
/// ```
pub fn best_restart<T: Send, E: Send + fmt::Debug + fmt::Display>(
    n: usize,
    run: impl Fn(usize) -> Result<(f64, T), E> + Sync,
) -> Result<BestRestart<T, E>, RestartError<E>> {
    let best = Mutex::new(None);
    let outcomes = parallel::map(0..n, |i| {
        let (objective, value) = run(i)?;
        let mut best = best.lock().unwrap_or_else(PoisonError::into_inner);
        if wins(objective, i, best.as_ref()) {
            *best = Some((i, objective, value));
        }
        Ok(objective)
    });
    let mut tally = Tally {
        best: best.into_inner().unwrap_or_else(PoisonError::into_inner),
        objectives: Vec::with_capacity(n),
        failures: Vec::new(),
    };
    for (i, outcome) in outcomes.into_iter().enumerate() {
        tally.objectives.push(outcome.as_ref().ok().copied());
        tally.failures.extend(outcome.err().map(|error| (i, error)));
    }
    tally.finish(n)
}

/// Whether a restart takes the place of the best so far, in whatever order they end.
fn wins<T>(objective: f64, index: usize, best: Option<&(usize, f64, T)>) -> bool {
    let first =
        |&(i, best, _): &(usize, f64, T)| objective > best || (objective == best && index < i);
    !objective.is_nan() && best.is_none_or(first)
}

/// What came of all restarts.
struct Tally<T, E> {
    best: Option<(usize, f64, T)>,
    objectives: Vec<Option<f64>>,
    failures: Vec<(usize, E)>,
}

impl<T, E: fmt::Debug + fmt::Display> Tally<T, E> {
    fn finish(self, n: usize) -> Result<BestRestart<T, E>, RestartError<E>> {
        let Self {
            best,
            objectives,
            failures,
        } = self;
        match best {
            Some((index, objective, value)) => Ok(BestRestart {
                value,
                index,
                objective,
                objectives,
                failures,
            }),
            None if n == 0 => Err(RestartError::NoRestarts),
            None if failures.len() == n => Err(RestartError::AllFailed { failures }),
            None => Err(RestartError::NotANumber {
                indices: (0..n).filter(|&i| objectives[i].is_some()).collect(),
            }),
        }
    }
}
