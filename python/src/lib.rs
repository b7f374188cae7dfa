//! `npb._native`: the fits of the model crates as Python classes, a thin layer between NumPy arrays and the crates' own types.
//!
//! Settings are dicts in the shape of the crates' configurations, read by their serde implementations: unknown or impossible fields are `ValueError`s that
//! name them. The estimators that users see are in Python, on top of this.

mod arrays;
mod ask;
mod bpfa;
mod bsvd;
mod columns;
mod hbrec;
mod iqgme;
mod itf;
mod ratings;
mod regbayes;
mod report;
mod run;
mod shards;

/// The module.
#[pyo3::pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::bpfa::{Factors, Picture};
    #[pymodule_export]
    use crate::bsvd::Bsvd;
    #[pymodule_export]
    use crate::columns::{Reader, Rows};
    #[pymodule_export]
    use crate::hbrec::{Grouped, Hbrec};
    #[pymodule_export]
    use crate::iqgme::{Iqgme, Tasks};
    #[pymodule_export]
    use crate::itf::Itf;
    #[pymodule_export]
    use crate::ratings::{ShardOfRatings, cuts_of_ratings, fit_ratings_in_shards};
    #[pymodule_export]
    use crate::regbayes::{ManyLabels, Topics};

    #[pymodule_export]
    use crate::report::report;
    #[pymodule_export]
    use crate::run::Elsewhere;
    #[pymodule_export]
    use crate::shards::{PreparedRows, ShardOfRows, answer_of_sample, fit_in_shards};

    /// Rows of a shard.
    #[pymodule_export]
    const SHARD_ROWS: usize = crate::shards::ROWS;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
