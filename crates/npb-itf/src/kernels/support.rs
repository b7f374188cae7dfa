//! What several kernels share: tables with clusters innermost, draws that stay in range, bad cells.

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::Gamma;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use crate::kernel::{Kernel, PerCluster};

/// A number as people write it: large ones by their power of ten.
fn short(value: f64) -> String {
    match value.abs() < 1e16 {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

/// A cell or a setting that a kernel cannot take.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// A value out of range.
    #[error("row {row}, part {part}: {} is not {needed}", short(*value))]
    Value {
        /// 0-based row.
        row: usize,
        /// 0-based part of the cell.
        part: usize,
        /// What was found.
        value: f64,
        /// What fits.
        needed: &'static str,
    },
    /// A cell with too few or too many parts.
    #[error("row {row} has {found} parts, expected {expected}")]
    Parts {
        /// 0-based row.
        row: usize,
        /// Number of parts found.
        found: usize,
        /// Number of parts that fits.
        expected: usize,
    },
    /// A setting of the kernel out of range.
    #[error("{setting} = {value}: must be {rule}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// What was found.
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
    /// A link of an undirected network that is given from one side only, or differently from both.
    #[error("rows {row} and {other} of an undirected network disagree on their link")]
    OneSided {
        /// 0-based row.
        row: usize,
        /// The other row.
        other: usize,
    },
}

/// Refuses a setting with a reason.
pub(super) fn setting(
    setting: &'static str,
    value: f64,
    fits: bool,
    rule: &'static str,
) -> Result<(), CellError> {
    if fits {
        return Ok(());
    }
    Err(CellError::Setting {
        setting,
        value,
        rule,
    })
}

impl CellError {
    /// The same of another part.
    pub(super) fn in_part(self, part: usize) -> Self {
        match self {
            Self::Value {
                row, value, needed, ..
            } => Self::Value {
                row,
                part,
                value,
                needed,
            },
            other => other,
        }
    }
}

/// Names the first cell with too few or too many parts.
pub(super) fn check_lengths<T>(rows: &[Vec<T>], expected: usize) -> Result<(), CellError> {
    let wrong = rows.iter().position(|cell| cell.len() != expected);
    wrong.map_or(Ok(()), |row| {
        Err(CellError::Parts {
            row,
            found: rows[row].len(),
            expected,
        })
    })
}

/// Names the first number of a column that does not fit.
pub(super) fn check_values(
    values: &[Option<f64>],
    fits: impl Fn(f64) -> bool,
    needed: &'static str,
) -> Result<(), CellError> {
    let bad =
        (values.iter().enumerate()).find_map(|(row, x)| Some((row, x.filter(|&x| !fits(x))?)));
    bad.map_or(Ok(()), |(row, value)| {
        Err(CellError::Value {
            row,
            part: 0,
            value,
            needed,
        })
    })
}

/// One number per row of the table and cluster, clusters innermost, with room for more clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ClusterTable {
    n_rows: usize,
    n_clusters: usize,
    width: usize,
    values: Vec<f64>,
}

impl ClusterTable {
    pub(super) fn new(n_rows: usize) -> Self {
        Self {
            n_rows,
            n_clusters: 0,
            width: 0,
            values: Vec::new(),
        }
    }

    pub(super) fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// The numbers of a row for the clusters 0..`n_clusters`.
    #[inline(always)]
    pub(super) fn row(&self, row: usize, n_clusters: usize) -> &[f64] {
        &self.values[row * self.width..][..n_clusters]
    }

    pub(super) fn get(&self, row: usize, cluster: usize) -> f64 {
        self.values[row * self.width + cluster]
    }

    pub(super) fn set(&mut self, row: usize, cluster: usize, value: f64) {
        self.values[row * self.width + cluster] = value;
    }

    /// Checks a table that comes from a file: `n_rows` rows, and `fits(row, value)` for all its numbers.
    pub(super) fn check(
        &self,
        what: &str,
        n_rows: usize,
        fits: impl Fn(usize, f64) -> bool,
    ) -> Result<(), String> {
        let sizes = self.n_rows == n_rows
            && self.n_clusters <= self.width
            && n_rows.checked_mul(self.width) == Some(self.values.len());
        if !sizes {
            return Err(format!("{what}: sizes do not agree"));
        }
        for row in 0..n_rows {
            let values = self.row(row, self.n_clusters);
            if let Some(value) = values.iter().find(|&&v| !fits(row, v)) {
                return Err(format!("{what}: {value}"));
            }
        }
        Ok(())
    }
}

impl PerCluster for ClusterTable {
    fn n_clusters(&self) -> usize {
        self.n_clusters
    }

    /// Of zeros.
    fn push_empty(&mut self) {
        if self.n_clusters == self.width {
            let width = (2 * self.width).max(8);
            let mut wide = vec![0.0; self.n_rows * width];
            for row in 0..self.n_rows {
                wide[row * width..][..self.n_clusters]
                    .copy_from_slice(self.row(row, self.n_clusters));
            }
            self.values = wide;
            self.width = width;
        }
        self.n_clusters += 1;
        for row in 0..self.n_rows {
            self.set(row, self.n_clusters - 1, 0.0);
        }
    }

    fn truncate(&mut self, n_clusters: usize) {
        self.n_clusters = self.n_clusters.min(n_clusters);
    }

    fn swap(&mut self, a: usize, b: usize) {
        for row in 0..self.n_rows {
            self.values.swap(row * self.width + a, row * self.width + b);
        }
    }
}

/// Makes fields that hold numbers of clusters the clusters of their struct.
macro_rules! clusters_in {
    ($params:ty: $first:ident $(, $more:ident)*) => {
        impl $crate::kernel::PerCluster for $params {
            fn n_clusters(&self) -> usize {
                $crate::kernel::PerCluster::n_clusters(&self.$first)
            }

            fn push_empty(&mut self) {
                $crate::kernel::PerCluster::push_empty(&mut self.$first);
                $($crate::kernel::PerCluster::push_empty(&mut self.$more);)*
            }

            fn truncate(&mut self, n_clusters: usize) {
                $crate::kernel::PerCluster::truncate(&mut self.$first, n_clusters);
                $($crate::kernel::PerCluster::truncate(&mut self.$more, n_clusters);)*
            }

            fn swap(&mut self, a: usize, b: usize) {
                $crate::kernel::PerCluster::swap(&mut self.$first, a, b);
                $($crate::kernel::PerCluster::swap(&mut self.$more, a, b);)*
            }
        }
    };
}
pub(super) use clusters_in;

/// What is asked of a missing cell of a kernel whose cells are one number or one level each: what is expected of it, and a draw. Observed cells are as
/// they are.
macro_rules! one_part {
    (
        |$kernel:ident, $params:ident, $cluster:ident, $out:ident| $expected:expr,
        |$of:ident, $with:ident, $inside:ident, $rng:ident| $drawn:expr
    ) => {
        fn n_parts(&self, _: &Self::Data, _: usize) -> usize {
            1
        }

        fn expected(
            &self,
            $params: &Self::Params,
            $cluster: usize,
            data: &Self::Data,
            row: usize,
            ignore_observed: bool,
            _: RowLabels<'_>,
            $out: &mut Vec<f64>,
        ) {
            let $kernel = self;
            let observed = self.part(data, row, 0).value();
            $out.clear();
            match (observed.filter(|_| !ignore_observed), self.n_levels(0)) {
                (Some(level), Some(n_levels)) => {
                    $out.resize(n_levels, 0.0);
                    $out[level as usize] = 1.0;
                }
                (Some(value), None) => $out.push(value),
                (None, _) => $expected,
            }
        }

        fn complete(
            &self,
            $with: &Self::Params,
            $inside: usize,
            data: &Self::Data,
            row: usize,
            ignore_observed: bool,
            _: RowLabels<'_>,
            $rng: &mut Xoshiro256PlusPlus,
            out: &mut Vec<f64>,
        ) {
            let $of = self;
            let observed = self.part(data, row, 0).value();
            out.clear();
            out.push(
                observed
                    .filter(|_| !ignore_observed)
                    .unwrap_or_else(|| $drawn),
            );
        }
    };
}
pub(super) use one_part;

/// Kernels whose hyperparameters are drawn given the parameters of the clusters.
pub(super) trait Hierarchical: Kernel {
    /// Draws hyperparameters given the parameters of the clusters with cells.
    fn move_hyperparameters(
        &self,
        params: &mut Self::Params,
        pool: &[Self::Stats],
        rng: &mut Xoshiro256PlusPlus,
    );

    /// Whether a cell has been taken in.
    fn has_cells(&self, stats: &Self::Stats) -> bool;

    /// Draws the parameters of all clusters given their statistics, then hyperparameters, and clusters without cells once more, as
    /// these follow the new hyperparameters.
    fn redraw(
        &self,
        params: &mut Self::Params,
        pool: &[Self::Stats],
        rng: &mut Xoshiro256PlusPlus,
    ) {
        draw_all(self, params, pool, rng);
        self.move_hyperparameters(params, pool, rng);
        for k in (0..params.n_clusters()).filter(|&k| !self.has_cells(&pool[k])) {
            self.draw(params, k, &pool[k], rng);
        }
    }
}

/// A number of which NaN says that it is missing.
pub(super) fn seen(x: f64) -> Option<f64> {
    Some(x).filter(|x| !x.is_nan())
}

/// Draws the parameters of all clusters given their statistics.
pub(super) fn draw_all<K: Kernel>(
    kernel: &K,
    params: &mut K::Params,
    pool: &[K::Stats],
    rng: &mut Xoshiro256PlusPlus,
) {
    (0..params.n_clusters()).for_each(|k| kernel.draw(params, k, &pool[k], rng));
}

pub(super) fn standard<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    rng.sample(StandardNormal)
}

/// A draw of Gamma(shape, 1) above a bound; shape at least 1.
///
/// Up to one standard deviation above the mean by rejection from the gamma law, beyond by rejection from the exponential law that touches its
/// log-concave density at the bound.
pub(super) fn gamma_above(shape: f64, least: f64, rng: &mut Xoshiro256PlusPlus) -> f64 {
    if least <= shape + shape.sqrt() {
        loop {
            let x = positive_gamma(shape, 1.0, rng);
            if x >= least {
                return x;
            }
        }
    }
    let slope = 1.0 - (shape - 1.0) / least;
    loop {
        let beyond = -(1.0 - rng.random::<f64>()).ln() / slope;
        let ratio = beyond / least;
        if (1.0 - rng.random::<f64>()).ln() <= (shape - 1.0) * (ratio.ln_1p() - ratio) {
            return least + beyond;
        }
    }
}

/// A gamma draw that neither underflows to 0 nor overflows.
pub(super) fn positive_gamma<R: Rng + ?Sized>(shape: f64, rate: f64, rng: &mut R) -> f64 {
    Gamma::new(shape, rate).map_or(1.0, |law| law.sample(rng).clamp(1e-100, 1e100))
}

/// Draws a position with probabilities that are given by `ln_weights` up to a factor, which are replaced by the probabilities.
/// Position 0 when no weight is usable.
pub(super) fn pick_ln<R: Rng + ?Sized>(ln_weights: &mut [f64], rng: &mut R) -> usize {
    npb_priors::special::ln_normalize(ln_weights);
    pick(ln_weights, rng)
}

/// Draws a position with these probabilities.
pub(super) fn pick<R: Rng + ?Sized>(probabilities: &[f64], rng: &mut R) -> usize {
    crate::numeric::pick(probabilities, rng.random())
}

/// A Poisson draw of any mean.
pub(super) fn poisson<R: Rng + ?Sized>(mean: f64, rng: &mut R) -> f64 {
    match rand_distr::Poisson::new(mean) {
        Ok(law) => rng.sample::<f64, _>(law).min(MAX_COUNT),
        // So small that it is 0, or so large that draw and mean agree to nine digits.
        Err(_) => mean.round().clamp(0.0, MAX_COUNT),
    }
}

/// The largest count, exact in f64.
pub(super) const MAX_COUNT: f64 = (1_u64 << 53) as f64;
