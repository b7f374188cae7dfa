//! Infinite tensor factorisation mixture: joint models of mixed data with their own, dependent clusterings.

mod config;
mod data;
mod error;
mod gibbs;
mod kernel;
pub mod kernels;
mod numeric;
mod state;
mod urn;

pub use config::{ItfConfig, ItfMove, LowerConcentration, Structure};
pub use data::{ColumnInfo, ItfData};
pub use error::ItfError;
pub use gibbs::ItfSampler;
pub use kernel::{Kernel, RowLabels};
pub use npb_data;
pub use state::{Block, ColumnState, ItfState};
