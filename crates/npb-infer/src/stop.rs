use serde::{Deserialize, Serialize};

/// Why a run ended. Not having converged is a status of the fit, never an error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Stop {
    /// All planned sweeps were made.
    Completed,
    /// The relative change of the bound stayed below the tolerance.
    Converged {
        /// Relative change at the last iteration, as defined at [`crate::VbReport::rel_change`].
        rel_change: f64,
    },
    /// The largest allowed number of iterations was reached first.
    MaxIterations,
    /// The watcher asked to stop.
    Cancelled,
}

impl Stop {
    /// How a run of several chains ended: as the first that was not completed, if there is one.
    pub fn of_all(stops: impl IntoIterator<Item = Self>) -> Self {
        let mut stops = stops.into_iter();
        stops
            .find(|&stop| stop != Self::Completed)
            .unwrap_or(Self::Completed)
    }
}
