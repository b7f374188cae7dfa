//! What a run keeps of the rows of a task: they choose among the task's local components one by one, or an atom all together.

use npb_infer::parallel;

use super::state::{Gaussians, TaskState};
use crate::e_step::{Atom, EStepParameters, Update};
use crate::responsibilities::Responsibilities;
use crate::row_state::RowState;
use crate::rows::Rows;
use crate::stats::{RowTerms, SufficientStats};
use crate::{IqgmeData, IqgmeError, Result};

/// Iterations from one in which whole tasks are offered all atoms to the next.
const OFFERED_EVERY: u64 = 5;

/// The rows of one task.
pub(super) enum TaskRows {
    /// Each row is in one of the task's local components.
    Local(Box<RowState>),
    /// All rows are in the task's one local component: how they are if it points at an atom, for every atom. Empty for a task without rows.
    Whole {
        n_rows: usize,
        by_atom: Vec<RowState>,
    },
}

/// One task's part of a start.
pub(super) struct TaskBegin {
    pub(super) local: RowState,
    /// The atom of each local component.
    pub(super) atoms: Vec<usize>,
}

impl TaskBegin {
    /// From the atoms of local components, and responsibilities of these by sorted position.
    pub(super) fn new(task: &IqgmeData, atoms: Vec<usize>, responsibilities: &[f64]) -> Self {
        let n = atoms.len();
        let responsibilities = Responsibilities::from_positions(&task.rows, n, responsibilities);
        Self {
            local: RowState::begin(task, responsibilities, n),
            atoms,
        }
    }
}

/// What an E-step over the rows of all tasks needs of the atoms.
pub(super) struct EStepAtoms<'a> {
    each: Vec<Atom<'a>>,
    /// With one Gaussian for all: of each atom as the one local component of a task, whatever the task.
    whole: Vec<EStepParameters>,
}

impl<'a> EStepAtoms<'a> {
    /// `rows`: of all tasks.
    pub(super) fn new(
        each: Vec<Atom<'a>>,
        gaussians: Gaussians,
        rows: &Rows,
        iteration: u64,
    ) -> Result<Self> {
        let n = each.len() * usize::from(gaussians == Gaussians::Shared);
        // All rows are in the one local component, so its weight does not matter to them.
        let of_atom = |s: usize| parameters(&each, &[one_hot(s, n)], &[0.0], rows, iteration);
        Ok(Self {
            whole: parallel::try_map(0..n, of_atom)?,
            each,
        })
    }
}

impl TaskRows {
    /// All rows of a task in one local component.
    pub(super) fn whole(task: &IqgmeData, locations: &[Vec<f64>]) -> Self {
        let n = task.rows.len();
        if n == 0 {
            return Self::Whole {
                n_rows: 0,
                by_atom: Vec::new(),
            };
        }
        let one = Responsibilities::from_positions(&task.rows, 1, &vec![1.0; n]);
        let part = |of_atom: &Vec<f64>| RowState::new(task, of_atom.clone(), one.clone(), 1);
        Self::Whole {
            n_rows: n,
            by_atom: locations.iter().map(part).collect(),
        }
    }

    /// Rows of a task whose part of the posterior is known, but for responsibilities. None if it is of other rows.
    pub(super) fn of_state(
        task: &IqgmeData,
        part: &TaskState,
        gaussians: Gaussians,
    ) -> Option<Self> {
        let n = task.rows.len() * task.rows.n_utilities;
        let soft = &part.utility_means;
        match gaussians {
            Gaussians::Own => {
                let n_local = part.indicators.len();
                if soft.len() != n || (n_local == 0 && task.rows.len() > 0) {
                    return None;
                }
                let responsibilities = Responsibilities::zeros(task.rows.len(), n_local);
                let locations = task.utilities_by_position(soft);
                let local = RowState::new(task, locations, responsibilities, n_local);
                Some(Self::Local(Box::new(local)))
            }
            Gaussians::Shared => {
                let n_local = usize::from(task.rows.len() > 0);
                let n_atoms = part.indicators.first().map_or(0, Vec::len);
                if part.indicators.len() != n_local || soft.len() != n * n_atoms {
                    return None;
                }
                let of_atom = |s: usize| task.utilities_by_position(&soft[s * n..][..n]);
                let locations: Vec<Vec<f64>> = (0..n_atoms).map(of_atom).collect();
                Some(Self::whole(task, &locations))
            }
        }
    }

    /// Updates the factors of the rows, and the statistics.
    pub(super) fn e_step(
        &mut self,
        task: &IqgmeData,
        part: &TaskState,
        atoms: &EStepAtoms<'_>,
        update: Update,
        iteration: u64,
    ) -> Result<()> {
        match self {
            Self::Local(local) => {
                let mut ln_weights = vec![0.0; part.sticks.truncation()];
                part.sticks.expected_ln_weights(&mut ln_weights);
                let (atoms, of) = (&atoms.each, &part.indicators);
                let parameters = parameters(atoms, of, &ln_weights, &task.rows, iteration)?;
                local.e_step(task, &parameters, update, iteration)
            }
            Self::Whole { by_atom, .. } => {
                let mut each = by_atom.iter_mut().zip(&atoms.whole).enumerate();
                each.try_for_each(|(s, (local, parameters))| {
                    let sigma = part.indicators[0][s];
                    let able = task.n_labelled == 0 || atoms.each[s].takes_labels();
                    let wanted =
                        sigma > 0.0 || (update.responsibilities && offers(sigma, iteration));
                    if !able || !wanted {
                        return Ok(());
                    }
                    local.e_step(task, parameters, update, iteration)
                })
            }
        }
    }

    /// Whether a local component may point at an atom in this iteration, of which it now has the probability `sigma`.
    pub(super) fn offers(&self, sigma: f64, iteration: u64) -> bool {
        match self {
            Self::Local(_) => true,
            Self::Whole { .. } => offers(sigma, iteration),
        }
    }

    /// Whether local component `h` has rows with labels.
    pub(super) fn has_labels(&self, task: &IqgmeData, h: usize) -> bool {
        match self {
            Self::Local(local) => local.stats.labelled.weight[h] > 0.0,
            // An atom that takes no labels has not seen the rows: its statistics say nothing.
            Self::Whole { .. } => task.n_labelled > 0,
        }
    }

    /// Rows in each local component.
    pub(super) fn counts(&self) -> Vec<f64> {
        match self {
            Self::Local(local) => local.stats.counts(),
            Self::Whole { n_rows: 0, .. } => Vec::new(),
            Self::Whole { n_rows, .. } => vec![*n_rows as f64],
        }
    }

    /// Statistics of local component `h` if it points at atom `s`: whose, and which entry of them; and what the bound holds of the rows besides.
    pub(super) fn under(&self, h: usize, s: usize) -> (&SufficientStats, usize, f64) {
        match self {
            Self::Local(local) => (&local.stats, h, 0.0),
            Self::Whole { by_atom, .. } => {
                let stats = &by_atom[s].stats;
                (stats, 0, stats.rows.missing_entropy + stats.rows.soft_local)
            }
        }
    }

    /// What the bound takes from the rows.
    pub(super) fn terms(&self, indicators: &[Vec<f64>]) -> RowTerms {
        match self {
            Self::Local(local) => local.stats.rows,
            Self::Whole { by_atom, .. } => {
                let mut terms = RowTerms::default();
                let each = by_atom.iter().zip(indicators.iter().flatten());
                for (local, &sigma) in each.filter(|(_, sigma)| **sigma > 0.0) {
                    terms.add(sigma, &local.stats.rows);
                }
                terms
            }
        }
    }

    /// Keeps the local components `order`, in that order.
    pub(super) fn select_local(&mut self, order: &[usize]) {
        if let Self::Local(local) = self {
            local.stats = local.stats.select(order);
            local.responsibilities.select(order);
        }
    }

    /// Keeps the atoms `order`, in that order.
    pub(super) fn select_atoms(&mut self, order: &[usize]) {
        if let Self::Whole { by_atom, .. } = self
            && !by_atom.is_empty()
        {
            *by_atom = order.iter().map(|&s| by_atom[s].clone()).collect();
        }
    }

    /// Locations of `q(t)`, as [`TaskState::utility_means`] has them.
    pub(super) fn utility_means(&self, task: &IqgmeData) -> Vec<f64> {
        match self {
            Self::Local(local) => task.utilities_by_row(&local.locations),
            Self::Whole { by_atom, .. } => {
                let of_atom = |local: &RowState| task.utilities_by_row(&local.locations);
                by_atom.iter().flat_map(of_atom).collect()
            }
        }
    }
}

/// What an E-step over `rows`, or some of them, needs of local components with these indicators.
fn parameters(
    atoms: &[Atom<'_>],
    indicators: &[Vec<f64>],
    ln_weights: &[f64],
    rows: &Rows,
    iteration: u64,
) -> Result<EStepParameters> {
    let made = EStepParameters::averaged(atoms, indicators, ln_weights, rows);
    made.map_err(IqgmeError::at(iteration, "precision of a local component"))
}

/// A whole task is offered all atoms in the first iteration and in some of the others only: it costs an E-step over its rows for each.
fn offers(sigma: f64, iteration: u64) -> bool {
    sigma > 0.0 || iteration == 0 || iteration % OFFERED_EVERY == 1
}

/// All on atom `s`.
pub(super) fn one_hot(s: usize, n_atoms: usize) -> Vec<f64> {
    let mut indicator = vec![0.0; n_atoms];
    indicator[s] = 1.0;
    indicator
}
