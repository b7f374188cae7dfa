//! The contract between the mixture and the laws of its columns.
//!
//! The model gives every row one cluster label per column; a [`Kernel`] says what a cell looks like given its label. It is
//! the only part of the crate that knows what a cell is: a number, a category, a vector with holes, a series, the links of
//! a node. The sampler knows labels, sticks and log likelihoods.
//!
//! Four types belong to a kernel. The kernel itself holds what is fixed (levels, orders, hyperpriors).
//! [`Kernel::Data`] holds the cells of one column, [`Kernel::Params`] the parameters of all its clusters, and
//! [`Kernel::Stats`] the sufficient statistics of one cluster.

use std::fmt::Debug;
use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The labels of all rows in the column at hand, for kernels whose rows depend on each other's labels.
///
/// When a row's own label is being drawn, its old label is still in `labels` and in `counts`: a kernel that looks at the
/// other rows must leave it out.
#[derive(Clone, Copy, Debug)]
pub struct RowLabels<'a> {
    /// Label of every row.
    pub labels: &'a [u32],
    /// Number of rows with each label; labels past its end have none.
    pub counts: &'a [usize],
}

impl RowLabels<'_> {
    /// No rows at all: for kernels whose rows are independent given their own labels.
    pub const NONE: RowLabels<'static> = RowLabels {
        labels: &[],
        counts: &[],
    };
}

/// What is known of a part of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CellPart {
    /// Its value, as it was given; levels as whole numbers.
    Observed(f64),
    /// It is missing.
    Missing,
    /// It is missing and one number with a missing part of an earlier row: the link of two rows of an undirected network.
    SameAs {
        /// The earlier row.
        row: usize,
        /// The part of its cell.
        part: usize,
    },
}

impl CellPart {
    /// The value of an observed part.
    pub fn value(self) -> Option<f64> {
        match self {
            CellPart::Observed(value) => Some(value),
            CellPart::Missing | CellPart::SameAs { .. } => None,
        }
    }
}

impl From<Option<f64>> for CellPart {
    fn from(value: Option<f64>) -> Self {
        value.map_or(CellPart::Missing, CellPart::Observed)
    }
}

/// Numbers of clusters 0, 1, ..., n−1 side by side.
pub trait PerCluster {
    /// n.
    fn n_clusters(&self) -> usize;

    /// One more cluster, whose numbers are still to be set.
    fn push_empty(&mut self);

    /// Drops the clusters from `n_clusters` on; does nothing when there are no more.
    fn truncate(&mut self, n_clusters: usize);

    /// Swaps the names of two clusters, both below [`n_clusters`](Self::n_clusters).
    fn swap(&mut self, a: usize, b: usize);
}

impl<T: Clone + Default> PerCluster for Vec<T> {
    fn n_clusters(&self) -> usize {
        self.len()
    }

    fn push_empty(&mut self) {
        self.push(T::default());
    }

    fn truncate(&mut self, n_clusters: usize) {
        self.truncate(n_clusters);
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.as_mut_slice().swap(a, b);
    }
}

/// The law of a cell given its cluster, for one column (one data type of the paper, B section 3.2).
///
/// # Cells, parts and missing values
/// A cell has one or more *parts* (one for a number or a category, one for each coordinate of a vector, each time of a
/// series, each other node of a network row). Any part may be missing at random; a cell without observed parts is missing
/// as a whole. All densities are of the observed parts, the missing ones integrated out, in the units of the user; that of
/// a missing cell is 1. A kernel that needs missing parts (or other latent variables) to draw parameters draws them inside
/// [`update`](Self::update) and forgets them again; nothing of them is stored between sweeps.
///
/// # Parameters
/// `Params` holds the hyperparameters that are learned (if any) and the parameters of clusters 0, 1, ..., n−1 side by side
/// (structure of arrays, with the constants that likelihoods need), clusters innermost, so that
/// [`ln_likelihoods`](Self::ln_likelihoods) runs over contiguous memory. It never depends on data except through draws.
/// Clusters without rows are independent prior draws given the hyperparameters, at all times.
///
/// # Defaults
/// What has a default is right for every kernel and may be replaced by a faster way, or is what nearly all kernels do. Everything else that a kernel must
/// decide is required, so that one that forgets it does not compile.
///
/// # Exactness
/// Every draw must leave the posterior as it is, and [`push_prior`](Self::push_prior), [`simulate`](Self::simulate) and
/// [`ln_likelihoods`](Self::ln_likelihoods) must agree on one law: the joint-distribution test of the suite takes a kernel
/// apart when they do not. Randomness comes from the generator given, which is keyed by chain, sweep and column.
///
/// # Collapsed kernels
/// A kernel whose parameters can be integrated out for the data at hand says so in [`is_collapsed`](Self::is_collapsed) and
/// implements the statistics; it then takes part in split-merge moves of its labels. For other data (a missing coordinate in
/// a vector) statistics are asked for by its own [`update`](Self::update) alone. A kernel that is never collapsed has statistics of a type
/// without values, so that there is nothing to be written about them.
///
/// # Speed
/// `ln_likelihoods` is called for every row in every sweep, with blocks of rows, and must not allocate. `n_clusters` is then a
/// multiple of 4. The other functions are called once per column and sweep, or for few rows.
pub trait Kernel: Clone + Debug + Send + Sync {
    /// The cells of one column.
    type Data: Clone + Debug + Send + Sync;
    /// Hyperparameters and the parameters of all clusters of one column.
    type Params: PerCluster + Clone + Debug + Send + Sync + Serialize + DeserializeOwned;
    /// Sufficient statistics of one cluster; a type without values for a kernel that is never collapsed.
    type Stats: Clone + Debug + Send + Sync;

    /// Whether the likelihood of a row depends on the labels of other rows. The sampler then draws rows one after the other
    /// and passes [`RowLabels`]; otherwise rows are drawn in parallel and the argument is [`RowLabels::NONE`].
    const COUPLED: bool;

    // Cells.

    /// Number of rows.
    fn n_rows(&self, data: &Self::Data) -> usize;

    /// Whether any part of the cell is observed.
    fn is_observed(&self, data: &Self::Data, row: usize) -> bool;

    /// Number of parts of the cell, missing ones included.
    fn n_parts(&self, data: &Self::Data, row: usize) -> usize;

    /// What is known of a part of the cell, `part` below [`n_parts`](Self::n_parts). Missing parts are those that
    /// [`expected`](Self::expected) and [`complete`](Self::complete) fill in.
    fn part(&self, data: &Self::Data, row: usize, part: usize) -> CellPart;

    /// Number of levels of a part that is a level 0, 1, ... of a category (ordered or not), `None` of one that is a number.
    fn n_levels(&self, part: usize) -> Option<usize>;

    /// Whether point predictions of a part are geometric means: what is [`expected`](Self::expected) of it is then averaged over clusters and draws by
    /// its logarithm. For positive numbers whose predictive law has no mean.
    fn is_geometric(&self, _part: usize) -> bool {
        false
    }

    /// A number that tells cells of a column apart: two cells with the same one have the same likelihoods, whatever the parameters.
    /// `None` when a cell is too large for that, or when likelihoods depend on other rows. Columns of few different cells are
    /// looked up in tables.
    fn cell_key(&self, _data: &Self::Data, _row: usize) -> Option<u64> {
        None
    }

    // Parameters.

    /// Hyperparameters drawn from their priors, and no clusters yet.
    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> Self::Params;

    /// Adds one cluster, drawn from the prior given the hyperparameters: by default as a cluster without cells is.
    fn push_prior(&self, params: &mut Self::Params, rng: &mut Xoshiro256PlusPlus) {
        params.push_empty();
        self.draw(params, params.n_clusters() - 1, &self.no_stats(), rng);
    }

    /// One draw of all parameters and hyperparameters given all labels (step 5 of the paper): clusters without rows from
    /// the prior, the others from the posterior or by any move that leaves it invariant.
    ///
    /// `labels`: one per row, all below [`PerCluster::n_clusters`]. `pool`: statistics to reuse from sweep to sweep.
    fn update(
        &self,
        data: &Self::Data,
        labels: &[u32],
        params: &mut Self::Params,
        pool: &mut Vec<Self::Stats>,
        rng: &mut Xoshiro256PlusPlus,
    );

    /// Fills `pool` with the statistics of all clusters, for [`update`](Self::update).
    fn tally(
        &self,
        data: &Self::Data,
        labels: &[u32],
        params: &Self::Params,
        pool: &mut Vec<Self::Stats>,
    ) {
        let n_clusters = params.n_clusters();
        pool.iter_mut().for_each(|stats| self.clear(stats));
        if pool.len() < n_clusters {
            pool.resize(n_clusters, self.no_stats());
        }
        for (row, &label) in labels.iter().enumerate() {
            if self.is_observed(data, row) {
                self.add(&mut pool[label as usize], data, row);
            }
        }
    }

    // Likelihoods.

    /// Writes ln p(cell | cluster k) for `rows` and k = 0..`n_clusters`, into
    /// `out[(row - rows.start) * n_clusters + k]`: zeros for a missing cell. No allocation.
    fn ln_likelihoods(
        &self,
        data: &Self::Data,
        params: &Self::Params,
        rows: Range<usize>,
        n_clusters: usize,
        others: RowLabels<'_>,
        out: &mut [f64],
    );

    /// As [`ln_likelihoods`](Self::ln_likelihoods), as numbers proportional to the likelihoods, each row divided by a factor of
    /// its own so that its largest number lies between 1e-200 and 1e200. Returns the sum over rows of the logarithms of the
    /// factors. Override it where a table of such numbers saves the exponentials.
    fn likelihoods(
        &self,
        data: &Self::Data,
        params: &Self::Params,
        rows: Range<usize>,
        n_clusters: usize,
        others: RowLabels<'_>,
        out: &mut [f64],
    ) -> f64 {
        self.ln_likelihoods(data, params, rows, n_clusters, others, out);
        crate::numeric::exp_rows(out, n_clusters)
    }

    // The parameters integrated out.

    /// Whether the parameters can be integrated out for these cells: then the functions of this section are called.
    fn is_collapsed(&self, data: &Self::Data) -> bool;

    /// The same cells with what is missing of incomplete ones in some clusters drawn given labels and parameters, for a kernel whose parameters
    /// can then be integrated out; `None` otherwise. Moves of labels that need this draw what is missing, make their step, and forget it.
    fn completed(
        &self,
        _data: &Self::Data,
        _labels: &[u32],
        _clusters: &[usize],
        _params: &Self::Params,
        _rng: &mut Xoshiro256PlusPlus,
    ) -> Option<Self::Data> {
        None
    }

    /// Statistics of no cells.
    fn no_stats(&self) -> Self::Stats;

    /// Back to no cells, keeping memory.
    fn clear(&self, stats: &mut Self::Stats) {
        *stats = self.no_stats();
    }

    /// Takes an observed cell in.
    fn add(&self, stats: &mut Self::Stats, data: &Self::Data, row: usize);

    /// Takes the cells of other statistics in.
    fn merge(&self, stats: &mut Self::Stats, other: &Self::Stats);

    /// ln p(cells) of one cluster given the hyperparameters, parameters integrated out, the cells in a given order.
    fn ln_evidence(&self, params: &Self::Params, stats: &Self::Stats) -> f64;

    /// ln p(cell | cells in `stats`) of an observed cell that is not in `stats`: by default the difference of
    /// [`ln_evidence`](Self::ln_evidence) with and without it. Override it where there is a shorter way: it is asked for every row and side
    /// of a split.
    fn ln_predictive(
        &self,
        params: &Self::Params,
        stats: &Self::Stats,
        data: &Self::Data,
        row: usize,
    ) -> f64 {
        let mut with = stats.clone();
        self.add(&mut with, data, row);
        self.ln_evidence(params, &with) - self.ln_evidence(params, stats)
    }

    /// Replaces the parameters of one cluster by a draw given the cells in `stats` (from the prior when there are none) and the
    /// hyperparameters. A collapsed kernel draws from the posterior itself, without looking at the old value.
    fn draw(
        &self,
        params: &mut Self::Params,
        cluster: usize,
        stats: &Self::Stats,
        rng: &mut Xoshiro256PlusPlus,
    );

    // Prediction.

    /// The expected parts of a cell given its cluster and its observed parts, one after the other: of a part with levels the
    /// probability of every level, of others one number. Observed
    /// parts count as missing when `ignore_observed`.
    #[allow(clippy::too_many_arguments)] // one question with one answer
    fn expected(
        &self,
        params: &Self::Params,
        cluster: usize,
        data: &Self::Data,
        row: usize,
        ignore_observed: bool,
        others: RowLabels<'_>,
        out: &mut Vec<f64>,
    );

    /// Draws all missing parts of a cell given its cluster and observed parts, and writes all parts, observed ones as they
    /// are; levels as whole numbers. All parts are drawn when `ignore_observed`.
    #[allow(clippy::too_many_arguments)] // as `expected`
    fn complete(
        &self,
        params: &Self::Params,
        cluster: usize,
        data: &Self::Data,
        row: usize,
        ignore_observed: bool,
        others: RowLabels<'_>,
        rng: &mut Xoshiro256PlusPlus,
        out: &mut Vec<f64>,
    );

    /// Draws the observed parts of all cells anew given labels and parameters; what is missing stays missing.
    fn simulate(
        &self,
        params: &Self::Params,
        labels: &[u32],
        data: &mut Self::Data,
        rng: &mut Xoshiro256PlusPlus,
    );

    // Files.

    /// Checks kernel and parameters that come from a file: sizes agree, values are in range.
    ///
    /// # Errors
    /// What is wrong, in words.
    fn check(&self, params: &Self::Params) -> Result<(), String>;
}
