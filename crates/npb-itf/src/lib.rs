//! Infinite tensor factorisation mixture: joint models of mixed data with their own, dependent clusterings.

mod kernel;
pub mod kernels;
mod numeric;

pub use kernel::{Kernel, RowLabels};
pub use npb_data;
