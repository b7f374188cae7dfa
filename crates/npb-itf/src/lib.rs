//! Infinite tensor factorisation mixture: joint models of mixed data with their own, dependent clusterings.

mod clustering;
mod config;
mod data;
mod draw;
mod error;
mod fit;
mod gibbs;
mod kernel;
pub mod kernels;
mod numeric;
mod predict;
mod state;
mod summary;
mod urn;

pub use clustering::{ClusteringLoss, PairTable, PointClustering, point_clustering};
pub use config::{ItfConfig, ItfMove, LowerConcentration, Structure};
pub use data::{ColumnInfo, ItfData};
pub use draw::{BlockDraw, ColumnDraw, Draw};
pub use error::ItfError;
pub use fit::{ChainSummary, Checkpoint, ItfFit, ItfRun, fit, fit_data};
pub use gibbs::ItfSampler;
pub use kernel::{Kernel, RowLabels};
pub use npb_data;
pub use predict::{Imputation, ImputedCell, ItfRows};
pub use state::{Block, ColumnState, ItfState};
pub use summary::{CellSummary, ClusterSummary, ColumnSummary, summarise_clusters};
