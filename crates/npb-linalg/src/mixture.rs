//! What the components of a mixture of Gaussians make of rows with holes, and weighted sums over these rows: what E-steps and predictions consist of.
//!
//! Rows are sorted by missing pattern ([`SortedRows`]) and worked on a block at a time. Of complete rows ([`Columns`]) the rows lie side by side in vector
//! registers, of rows with holes ([`Deviations`]) the components do. [`Lanes`] and [`Stacked`] turn log weights into weights, for components and for rows
//! side by side; [`Sums`] add what the M-step needs. Tables are padded ([`padded`]) and start on a cache line ([`Memory`]).
//!
//! Around the component's mean, `d = x - m_h`. Complete rows need only `d'L_h d`. With `d0` (zeros at the missing features) one matrix product `L_h d0`
//! serves rows of any pattern, and one block is factorised for all components side by side: the missing one of `L_h`, or the observed one of `L_h^-1`.

mod columns;
mod complete_sums;
mod covariance;
mod deviations;
mod forms;
mod memory;
mod moments;
mod rows;
mod softmax;
mod sums;

pub use columns::{Columns, Form};
pub use complete_sums::CompleteRows;
pub use covariance::{complete, shrunk_covariance};
pub use deviations::{Deviations, Linear, Quadratics};
pub use forms::PackedExpert;
pub use memory::{Memory, REGISTER, padded};
pub use moments::Moments;
pub use rows::{Block, Group, Pattern, SortedRows};
pub use softmax::{Lanes, LnTotal, LnTotals, Stacked};
pub use sums::{LabelSpread, Sums, Weighted};

/// The instruction sets this machine has.
#[cfg(test)]
fn archs() -> Vec<pulp::Arch> {
    let mut archs = vec![pulp::Arch::Scalar];
    #[cfg(target_arch = "x86_64")]
    archs.extend(pulp::x86::V3::try_new().map(pulp::Arch::V3));
    archs.push(pulp::Arch::new());
    archs
}
