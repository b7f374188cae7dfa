//! What the experiments of this workspace share: trials, reports, pictures, checks of samplers.
//!
//! Each `xtask/experiments/MODEL` is a package of its own, so that one of them can be built without the other models. It lists what it
//! has in a [`Model`] and hands that to [`main`]; `cargo xtask` builds and calls it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]

mod cache;
mod command;
mod context;
mod curves;
mod experiment;
pub mod films;
mod html;
mod report;
pub mod school;
mod source;
pub mod tables;
pub mod testing;
pub mod validate;

pub use cache::{Outcome, Record, TrialKey};
pub use command::{Model, main};
pub use context::{Context, Trial};
pub use curves::{against, lines};
pub use experiment::Run;
pub use npb_catalogue::{Failure, Result, Scale, data, root};
pub use npb_report;
pub use npb_report::{Figure, Layer, Panel, Point, TextTable, short};

use npb_infer::SweepPlan;

/// So many sweeps for burn-in, then draws of consecutive ones.
pub const fn sweeps(burn_in: u64, keep: u64) -> SweepPlan {
    SweepPlan {
        burn_in,
        keep,
        thin: 1,
    }
}

pub use npb_catalogue::results::ResultRow;
pub use report::{Report, mean_and_sd, summarise};
pub use source::{Source, open};
pub use tables::text_table;
