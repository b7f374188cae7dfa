//! The kernels, and columns of any of them.
//!
//! To add a kernel: write `src/kernels/NAME.rs` with a type that implements [`Kernel`](crate::Kernel), and add one line to the
//! list at the end of this file. Tests of the suite then run over it (`tests/it`).

mod categorical;
mod normal;

pub use categorical::{Categorical, CategoricalData, CategoricalParams};
pub use normal::{Normal, NormalData, NormalParams};

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::kernel::{Kernel, RowLabels};

/// A kernel and the parameters of its clusters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fitted<K, P> {
    /// What is fixed.
    pub kernel: K,
    /// Hyperparameters and the parameters of all clusters.
    pub params: P,
}

/// Statistics of the clusters of one column, kept from sweep to sweep for their memory.
type Pool<K> = Vec<<K as Kernel>::Stats>;

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// The law of one column: a kernel with its parameters.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub enum Column {
            $($(#[$doc])* $name(Fitted<$name, <$name as Kernel>::Params>),)+
        }

        /// The cells of one column.
        #[derive(Clone, Debug)]
        pub enum Cells {
            $($(#[$doc])* $name(<$name as Kernel>::Data),)+
        }

        /// Memory for the statistics of one column's clusters.
        #[derive(Clone, Debug)]
        pub(crate) enum Stats {
            $($name(Pool<$name>),)+
        }

        $(impl $name {
            /// A column of this kernel without clusters, hyperparameters drawn from their priors.
            pub fn column(self, rng: &mut Xoshiro256PlusPlus) -> Column {
                let params = self.initial(rng);
                Column::$name(Fitted { kernel: self, params })
            }
        })+

        /// Evaluates an expression for the kernel of a column: `kernel` and `params` are bound.
        macro_rules! for_column {
            ($column:expr, |$k:ident, $p:ident| $body:expr) => {
                match $column {
                    $(Column::$name(fitted) => {
                        #[allow(unused_variables)]
                        let $k = &fitted.kernel;
                        #[allow(unused_variables)]
                        let $p = &fitted.params;
                        $body
                    })+
                }
            };
            (mut $column:expr, |$k:ident, $p:ident| $body:expr) => {
                match $column {
                    $(Column::$name(fitted) => {
                        let $k = &fitted.kernel;
                        let $p = &mut fitted.params;
                        $body
                    })+
                }
            };
        }

        /// As `for_column!`, with the cells as well.
        macro_rules! for_cells {
            ($column:expr, $cells:expr, |$k:ident, $p:ident, $d:ident| $body:expr) => {
                match ($column, $cells) {
                    $((Column::$name(fitted), Cells::$name($d)) => {
                        #[allow(unused_variables)]
                        let $k = &fitted.kernel;
                        #[allow(unused_variables)]
                        let $p = &fitted.params;
                        $body
                    })+
                    _ => unreachable!("cells of another kernel: checked when the data were made"),
                }
            };
        }

        /// As `for_cells!`, with the parameters mutable and the memory for statistics.
        macro_rules! for_stats {
            ($column:expr, $cells:expr, $stats:expr, |$k:ident, $p:ident, $d:ident, $s:ident| $body:expr) => {
                match ($column, $cells, $stats) {
                    $((Column::$name(fitted), Cells::$name($d), Stats::$name($s)) => {
                        let $k = &fitted.kernel;
                        let $p = &mut fitted.params;
                        $body
                    })+
                    _ => unreachable!("cells of another kernel: checked when the data were made"),
                }
            };
        }

        impl Column {
            /// Memory for statistics, empty.
            pub(crate) fn pool(&self) -> Stats {
                match self {
                    $(Column::$name(_) => Stats::$name(Vec::new()),)+
                }
            }

            /// Whether these cells belong to this kernel.
            pub(crate) fn fits(&self, cells: &Cells) -> bool {
                match (self, cells) {
                    $((Column::$name(_), Cells::$name(_)) => true,)+
                    _ => false,
                }
            }
        }
    };
}

columns! {
    /// Unordered levels.
    Categorical,
    /// One real number, normal with unknown mean and variance.
    Normal,
}

pub(crate) use {for_cells, for_column, for_stats};

impl Column {
    /// Number of clusters with parameters.
    pub fn n_clusters(&self) -> usize {
        for_column!(self, |k, p| k.n_clusters(p))
    }

    /// Number of levels of a category, `None` for numbers.
    pub fn n_levels(&self) -> Option<usize> {
        for_column!(self, |k, p| k.n_levels())
    }

    /// Whether likelihoods depend on the labels of other rows.
    pub fn is_coupled(&self) -> bool {
        fn coupled<K: Kernel>(_: &K) -> bool {
            K::COUPLED
        }
        for_column!(self, |k, p| coupled(k))
    }

    /// Adds prior draws until there are `n_clusters`.
    pub(crate) fn grow(&mut self, n_clusters: usize, rng: &mut Xoshiro256PlusPlus) {
        for_column!(mut self, |k, p| while k.n_clusters(p) < n_clusters {
            k.push_prior(p, rng);
        })
    }

    pub(crate) fn truncate(&mut self, n_clusters: usize) {
        for_column!(mut self, |k, p| k.truncate(p, n_clusters))
    }

    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        for_column!(mut self, |k, p| k.swap(p, a, b))
    }

    /// See [`Kernel::ln_likelihoods`].
    pub fn ln_likelihoods(
        &self,
        cells: &Cells,
        rows: Range<usize>,
        n_clusters: usize,
        others: RowLabels<'_>,
        out: &mut [f64],
    ) {
        for_cells!(self, cells, |k, p, d| k
            .ln_likelihoods(d, p, rows, n_clusters, others, out))
    }

    /// See [`Kernel::likelihoods`].
    pub(crate) fn likelihoods(
        &self,
        cells: &Cells,
        rows: Range<usize>,
        n_clusters: usize,
        others: RowLabels<'_>,
        out: &mut [f64],
    ) -> f64 {
        for_cells!(self, cells, |k, p, d| k
            .likelihoods(d, p, rows, n_clusters, others, out))
    }

    /// See [`Kernel::update`].
    pub(crate) fn update(
        &mut self,
        cells: &Cells,
        labels: &[u32],
        stats: &mut Stats,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        for_stats!(self, cells, stats, |k, p, d, s| k
            .update(d, labels, p, s, rng))
    }

    /// See [`Kernel::simulate`].
    pub fn simulate(&self, labels: &[u32], cells: &mut Cells, rng: &mut Xoshiro256PlusPlus) {
        for_cells!(self, cells, |k, p, d| k.simulate(p, labels, d, rng))
    }

    /// See [`Kernel::expected`].
    pub fn expected(
        &self,
        cluster: usize,
        cells: &Cells,
        row: usize,
        ignore_observed: bool,
        others: RowLabels<'_>,
        out: &mut Vec<f64>,
    ) {
        for_cells!(self, cells, |k, p, d| k.expected(
            p,
            cluster,
            d,
            row,
            ignore_observed,
            others,
            out
        ))
    }

    /// See [`Kernel::complete`].
    #[allow(clippy::too_many_arguments)] // as `Kernel::complete`
    pub fn complete(
        &self,
        cluster: usize,
        cells: &Cells,
        row: usize,
        ignore_observed: bool,
        others: RowLabels<'_>,
        rng: &mut Xoshiro256PlusPlus,
        out: &mut Vec<f64>,
    ) {
        for_cells!(self, cells, |k, p, d| k.complete(
            p,
            cluster,
            d,
            row,
            ignore_observed,
            others,
            rng,
            out
        ))
    }

    /// Whether the parameters can be integrated out for these cells.
    pub(crate) fn is_collapsed(&self, cells: &Cells) -> bool {
        for_cells!(self, cells, |k, p, d| k.is_collapsed(d))
    }

    /// Number of rows of the cells.
    pub(crate) fn n_rows(&self, cells: &Cells) -> usize {
        for_cells!(self, cells, |k, p, d| k.n_rows(d))
    }

    /// Whether any part of the cell is observed.
    pub(crate) fn is_observed(&self, cells: &Cells, row: usize) -> bool {
        for_cells!(self, cells, |k, p, d| k.is_observed(d, row))
    }

    /// Number of parts of the cell.
    pub fn n_parts(&self, cells: &Cells, row: usize) -> usize {
        for_cells!(self, cells, |k, p, d| k.n_parts(d, row))
    }

    /// Checks a column that comes from a file.
    pub(crate) fn check(&self) -> Result<(), String> {
        for_column!(self, |k, p| k.check(p))
    }
}
