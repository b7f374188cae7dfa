//! Many tasks at once: a hierarchical Dirichlet process whose tasks share components and experts (W chapter 4).
//!
//! Every task has a mixture of its own, but the atoms that its local components point at, a Gaussian and an expert each, are shared by all tasks. Given the
//! indicators, a local component of a task is to its rows what a component is in the single-task model: see `e_step/atoms.rs`. The E-step over the rows is the same.
//!
//! Model: `docs/iqgme.md#other-fits`; updates and bound: `docs/iqgme-updates.md#many-tasks`.

mod bound;
mod config;
mod data;
mod fit;
mod new_task;
mod rows;
mod start;
mod state;
mod vb;

pub use config::{TaskInit, TasksConfig};
pub use data::MultiTaskData;
pub use fit::{AtomSummary, MultiTaskFit, TaskMember, fit_tasks, fit_tasks_watched};
pub use state::{Gaussians, MultiTaskState, TaskState};
pub use vb::{MultiTaskVb, TaskUpdate};
