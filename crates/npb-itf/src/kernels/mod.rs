//! The kernels, and columns of any of them.
//!
//! | cell | kernel | collapsed |
//! |---|---|---|
//! | a real number | [`Normal`] | always |
//! | a real number that is the same, 0 as a rule, in many rows | [`SpikedNormal`] | always |
//! | a number above 0 | [`LogNormal`] | always |
//! | a count | [`NegativeBinomial`] | always |
//! | one of several levels | [`Categorical`], or [`Ordinal`] where they have an order | always |
//! | a direction | [`VonMises`] | always |
//! | a vector | [`DiagonalNormal`] | always |
//! | a vector whose coordinates depend on each other within a cluster, with levels beside it or not | [`FullNormal`] | without incomplete vectors |
//! | a series in time | [`Series`], autoregressive | without gaps; ends may be missing |
//! | a curve on a grid | [`Curve`], in a wavelet basis | without incomplete curves |
//! | links to the other rows | [`Network`], stochastic blocks | never |
//!
//! Concentrations that have no conjugate prior (the size of a negative binomial, κ of a direction, location and scale behind
//! ordered levels, the smoothness of a series) are on grids fine enough to lose nothing that data could tell, so that they can be
//! summed out. [`ItfData::from_fields`](crate::ItfData::from_fields) chooses kernels by what columns measure.
//!
//! To add a kernel: write `src/kernels/NAME.rs` with a type that implements [`Kernel`], and add one line to the
//! list at the end of this file. Tests of the suite then run over it (`tests/it`).

mod banded_cholesky;
mod categorical;
mod curve;
mod diagonal_normal;
mod full_normal;
mod log_normal;
mod negative_binomial;
mod network;
mod normal;
mod ordinal;
mod series;
mod spiked_normal;
mod support;
mod von_mises;

pub use categorical::{Categorical, CategoricalData, CategoricalParams};
pub use curve::{Curve, CurveData, CurveParams, CurveStats, Wavelet};
pub use diagonal_normal::{DiagonalNormal, DiagonalNormalData, DiagonalNormalParams};
pub(crate) use full_normal::Predictive;
pub use full_normal::{FullNormal, FullNormalData, FullNormalParams, FullNormalStats, Number};
pub use log_normal::{LogNormal, LogNormalData, LogNormalStats};
pub use negative_binomial::{
    NegativeBinomial, NegativeBinomialData, NegativeBinomialParams, NegativeBinomialStats,
};
pub use network::{Network, NetworkData, NetworkParams, NetworkStats};
pub use normal::{Normal, NormalData, NormalParams};
pub use ordinal::{Ordinal, OrdinalParams};
pub use series::{Series, SeriesData, SeriesParams, SeriesStats};
pub use spiked_normal::{SpikedNormal, SpikedNormalData, SpikedNormalParams, SpikedNormalStats};
pub use support::CellError;
use support::{check_lengths, check_values};
pub use von_mises::{VonMises, VonMisesData, VonMisesParams, VonMisesStats};

use std::ops::Range;

use npb_data::MixedColumn;
use npb_infer::Xoshiro256PlusPlus;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::columns::{levels, parts_of, prototype_stream};
use crate::kernel::{CellPart, Kernel, PerCluster, RowLabels};
use crate::numeric::centre_and_scale;

/// A kernel and the parameters of its clusters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fitted<K, P> {
    /// What is fixed.
    pub kernel: K,
    /// Hyperparameters and the parameters of all clusters.
    pub params: P,
}

/// What a column is in a file.
struct NumberedColumn;

impl<'de> Deserialize<'de> for Column {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple(2, NumberedColumn)
    }
}

/// Statistics of the clusters of one column, kept from sweep to sweep for their memory.
type Pool<K> = Vec<<K as Kernel>::Stats>;

macro_rules! columns {
    ($($(#[$doc:meta])* $number:literal $name:ident),+ $(,)?) => {
        /// The law of one column: a kernel with its parameters.
        #[derive(Clone, Debug)]
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
                        let ($k, $p) = (&fitted.kernel, &fitted.params);
                        // Not every expression needs all that is bound.
                        let _ = ($k, $p);
                        $body
                    })+
                }
            };
            (mut $column:expr, |$k:ident, $p:ident| $body:expr) => {
                match $column {
                    $(Column::$name(fitted) => {
                        let $k = &fitted.kernel;
                        let $p = &mut fitted.params;
                        // Not every expression needs all that is bound.
                        let _ = $k;
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
                        let ($k, $p) = (&fitted.kernel, &fitted.params);
                        // Not every expression needs all that is bound.
                        let _ = ($k, $p);
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

        /// As `for_cells!`, with statistics; parameters stay as they are.
        macro_rules! for_collapsed {
            ($column:expr, $cells:expr, $stats:expr, |$k:ident, $p:ident, $d:ident, $s:ident| $body:expr) => {
                match ($column, $cells, $stats) {
                    $((Column::$name(fitted), Cells::$name($d), Stats::$name($s)) => {
                        let ($k, $p) = (&fitted.kernel, &fitted.params);
                        // Not every expression needs all that is bound.
                        let _ = ($p, $d);
                        $body
                    })+
                    _ => unreachable!("cells of another kernel: checked when the data were made"),
                }
            };
        }

        impl Serialize for Column {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Column::$name(fitted) => {
                        let number: u32 = $number;
                        (number, fitted).serialize(serializer)
                    })+
                }
            }
        }

        impl<'de> Visitor<'de> for NumberedColumn {
            type Value = Column;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the number of a kernel, and its parameters")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Column, A::Error> {
                let number: Option<u32> = seq.next_element()?;
                let column = match number {
                    $(Some($number) => seq.next_element()?.map(Column::$name),)+
                    Some(_) => return Err(A::Error::custom("a column of a kernel that is gone")),
                    None => None,
                };
                column.ok_or_else(|| A::Error::custom("a column that ends early"))
            }
        }

        impl Column {
            /// The same kernel without clusters, hyperparameters drawn from their priors.
            pub(crate) fn fresh(&self, rng: &mut Xoshiro256PlusPlus) -> Self {
                match self {
                    $(Column::$name(fitted) => fitted.kernel.clone().column(rng),)+
                }
            }

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

// Every kernel keeps its number in files; 3 and 4 were kernels that are gone.
columns! {
    /// Unordered levels.
    0 Categorical,
    /// One real number, normal with unknown mean and variance.
    1 Normal,
    /// Counts that vary more than by chance.
    2 NegativeBinomial,
    /// Ordered levels.
    5 Ordinal,
    /// Directions.
    6 VonMises,
    /// Vectors of numbers that are independent within a cluster.
    7 DiagonalNormal,
    /// Series in time.
    8 Series,
    /// Links between rows.
    9 Network,
    /// Vectors of numbers that depend on each other within a cluster.
    10 FullNormal,
    /// Curves on a grid of points.
    11 Curve,
    /// One number above 0.
    12 LogNormal,
    /// One real number that is the same in many rows.
    13 SpikedNormal,
}

impl Column {
    /// The kernel that a column of a table gets when nothing else is said, and its cells.
    ///
    /// # Errors
    /// What is wrong with the column, in words.
    pub(crate) fn for_table_column(column: &MixedColumn) -> Result<(Self, Cells), String> {
        let rng = &mut prototype_stream();
        let law = match column {
            MixedColumn::Real(values) => real_column(values, rng)?,
            MixedColumn::Count(values) if is_amount(values) => {
                let values: Vec<Option<f64>> = values.iter().map(|v| v.map(|v| v as f64)).collect();
                real_column(&values, rng)?
            }
            MixedColumn::Count(_) => NegativeBinomial.column(rng),
            MixedColumn::Categorical { .. } | MixedColumn::Binary { .. } => {
                let kernel = Categorical::new(levels(column).len());
                kernel.map_err(|e| e.to_string())?.column(rng)
            }
        };
        let cells = law.read(&parts_of(&[column])).map_err(|e| e.to_string())?;
        Ok((law, cells))
    }

    /// Cells with these parts, row by row, levels as whole numbers. Those of a network are its nodes when there are as many, new rows otherwise.
    ///
    /// # Errors
    /// [`CellError`] naming the row.
    pub(crate) fn read(&self, rows: &[Vec<Option<f64>>]) -> Result<Cells, CellError> {
        let numbers = || {
            check_lengths(rows, 1)?;
            Ok(rows.iter().map(|row| row[0]).collect::<Vec<_>>())
        };
        let whole = || {
            let numbers = numbers()?;
            check_values(&numbers, |x| x >= 0.0 && x.fract() == 0.0, "a whole number")?;
            Ok(numbers)
        };
        let codes = || {
            let codes = whole()?.into_iter().map(|x| x.map(|x| x as u32));
            Ok(codes.collect::<Vec<_>>())
        };
        Ok(match self {
            Column::Normal(of) => {
                let numbers = numbers()?;
                of.kernel.check_values(&numbers)?;
                Cells::Normal(NormalData::new(&numbers)?)
            }
            Column::SpikedNormal(of) => {
                Cells::SpikedNormal(SpikedNormalData::new(&of.kernel, &numbers()?)?)
            }
            Column::LogNormal(_) => Cells::LogNormal(LogNormalData::new(&numbers()?)?),
            Column::Categorical(of) => {
                Cells::Categorical(CategoricalData::new(of.kernel.size(), &codes()?)?)
            }
            Column::Ordinal(of) => {
                Cells::Ordinal(CategoricalData::new(of.kernel.size(), &codes()?)?)
            }
            Column::NegativeBinomial(_) => {
                let counts = whole()?.into_iter().map(|x| x.map(|x| x as u64));
                Cells::NegativeBinomial(NegativeBinomialData::new(&counts.collect::<Vec<_>>())?)
            }
            Column::VonMises(of) => {
                Cells::VonMises(VonMisesData::new(of.kernel.period(), &numbers()?)?)
            }
            Column::DiagonalNormal(of) => {
                check_lengths(rows, of.kernel.n_coordinates())?;
                Cells::DiagonalNormal(DiagonalNormalData::new(rows)?)
            }
            Column::Series(of) => {
                check_lengths(rows, of.kernel.n_times())?;
                Cells::Series(SeriesData::new(&of.kernel, rows)?)
            }
            Column::FullNormal(of) => Cells::FullNormal(FullNormalData::new(&of.kernel, rows)?),
            Column::Curve(of) => Cells::Curve(CurveData::new(&of.kernel, rows)?),
            Column::Network(of) => Cells::Network(NetworkData::of_parts(&of.kernel, rows)?),
        })
    }

    /// Number of clusters with parameters.
    pub fn n_clusters(&self) -> usize {
        for_column!(self, |k, p| p.n_clusters())
    }

    /// Number of levels of a part, `None` of one that is a number.
    pub fn n_levels(&self, part: usize) -> Option<usize> {
        for_column!(self, |k, p| k.n_levels(part))
    }

    /// Where what is expected of a part stands in [`expected`](Self::expected).
    pub(crate) fn place_of_part(&self, part: usize) -> Range<usize> {
        let size = |part| self.n_levels(part).unwrap_or(1);
        let start = (0..part).map(size).sum();
        start..start + size(part)
    }

    /// Whether likelihoods depend on the labels of other rows.
    pub fn is_coupled(&self) -> bool {
        fn coupled<K: Kernel>(_: &K) -> bool {
            K::COUPLED
        }
        for_column!(self, |k, p| coupled(k))
    }

    /// Whether a cluster has so many numbers that cells are better asked about many at a time.
    pub(crate) fn is_costly(&self) -> bool {
        matches!(self, Column::FullNormal(_))
    }

    /// Lets clusters of vectors be unlike each other, for a start.
    pub(crate) fn loosen(&mut self) {
        if let Column::FullNormal(of) = self {
            of.params.loosen();
        }
    }

    /// Whether point predictions of a part are geometric means.
    pub fn is_geometric(&self, part: usize) -> bool {
        for_column!(self, |k, p| k.is_geometric(part))
    }

    /// Adds prior draws until there are `n_clusters`.
    pub(crate) fn grow(&mut self, n_clusters: usize, rng: &mut Xoshiro256PlusPlus) {
        for_column!(mut self, |k, p| while p.n_clusters() < n_clusters {
            k.push_prior(p, rng);
        })
    }

    pub(crate) fn truncate(&mut self, n_clusters: usize) {
        for_column!(mut self, |k, p| p.truncate(n_clusters))
    }

    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        for_column!(mut self, |k, p| p.swap(a, b))
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

    /// See [`Kernel::completed`].
    pub(crate) fn completed(
        &self,
        cells: &Cells,
        labels: &[u32],
        clusters: &[usize],
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<Cells> {
        match (self, cells) {
            (Column::FullNormal(law), Cells::FullNormal(data)) => law
                .kernel
                .completed(data, labels, clusters, &law.params, rng)
                .map(Cells::FullNormal),
            _ => None,
        }
    }

    /// Makes the statistics those of `n_clusters` clusters without cells.
    pub(crate) fn collapsed_reset(&self, cells: &Cells, stats: &mut Stats, n_clusters: usize) {
        for_collapsed!(self, cells, stats, |k, p, d, s| {
            s.iter_mut().for_each(|stats| k.clear(stats));
            s.resize(n_clusters, k.no_stats());
        })
    }

    /// Makes room for the statistics of more clusters, without cells.
    pub(crate) fn collapsed_reserve(&self, cells: &Cells, stats: &mut Stats, n_clusters: usize) {
        for_collapsed!(self, cells, stats, |k, p, d, s| {
            s.resize(n_clusters, k.no_stats())
        })
    }

    /// Takes a cell in, unless it is missing.
    pub(crate) fn collapsed_add(
        &self,
        cells: &Cells,
        stats: &mut Stats,
        cluster: usize,
        row: usize,
    ) {
        for_collapsed!(self, cells, stats, |k, p, d, s| if k.is_observed(d, row) {
            k.add(&mut s[cluster], d, row);
        })
    }

    /// ln p(cell | cells of a cluster), 0 when it is missing.
    pub(crate) fn collapsed_ln_predictive(
        &self,
        cells: &Cells,
        stats: &Stats,
        cluster: usize,
        row: usize,
    ) -> f64 {
        for_collapsed!(self, cells, stats, |k, p, d, s| if k.is_observed(d, row) {
            k.ln_predictive(p, &s[cluster], d, row)
        } else {
            0.0
        })
    }

    /// Makes place `sum` the statistics of the cells in `a` and `b`, and the place after it empty.
    pub(crate) fn collapsed_merge(
        &self,
        cells: &Cells,
        stats: &mut Stats,
        a: usize,
        b: usize,
        sum: usize,
    ) {
        for_collapsed!(self, cells, stats, |k, p, d, s| {
            s.resize(sum + 2, k.no_stats());
            let mut merged = k.no_stats();
            k.merge(&mut merged, &s[a]);
            k.merge(&mut merged, &s[b]);
            s[sum] = merged;
            s[sum + 1] = k.no_stats();
        })
    }

    /// ln p(cells of a cluster).
    pub(crate) fn collapsed_ln_evidence(
        &self,
        cells: &Cells,
        stats: &Stats,
        cluster: usize,
    ) -> f64 {
        for_collapsed!(self, cells, stats, |k, p, d, s| k
            .ln_evidence(p, &s[cluster]))
    }

    /// What makes [`collapsed_ln_predictive`](Self::collapsed_ln_predictive) of many cells cheap, where it is costly.
    pub(crate) fn predictive(&self, stats: &Stats, cluster: usize) -> Option<Predictive> {
        match (self, stats) {
            (Column::FullNormal(law), Stats::FullNormal(stats)) => {
                Some(Predictive::new(&law.kernel, &law.params, &stats[cluster]))
            }
            _ => None,
        }
    }

    /// Draws the parameters of a cluster given the statistics at `place`.
    pub(crate) fn collapsed_draw(
        &mut self,
        cells: &Cells,
        stats: &Stats,
        place: usize,
        cluster: usize,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        for_stats!(self, cells, stats, |k, p, d, s| {
            let _ = d;
            k.draw(p, cluster, &s[place], rng)
        })
    }

    /// Number of rows of the cells.
    pub(crate) fn n_rows(&self, cells: &Cells) -> usize {
        for_cells!(self, cells, |k, p, d| k.n_rows(d))
    }

    /// Whether any part of the cell is observed.
    pub(crate) fn is_observed(&self, cells: &Cells, row: usize) -> bool {
        for_cells!(self, cells, |k, p, d| k.is_observed(d, row))
    }

    /// See [`Kernel::cell_key`].
    pub(crate) fn cell_key(&self, cells: &Cells, row: usize) -> Option<u64> {
        for_cells!(self, cells, |k, p, d| k.cell_key(d, row))
    }

    /// See [`Kernel::part`].
    pub fn part(&self, cells: &Cells, row: usize, part: usize) -> CellPart {
        for_cells!(self, cells, |k, p, d| k.part(d, row, part))
    }

    /// All parts of the cell, as they were given.
    pub(crate) fn parts(&self, cells: &Cells, row: usize) -> Vec<Option<f64>> {
        let parts = 0..self.n_parts(cells, row);
        parts
            .map(|part| self.part(cells, row, part).value())
            .collect()
    }

    /// The missing parts of the cell.
    pub fn gaps(&self, cells: &Cells, row: usize) -> Vec<usize> {
        let is_missing =
            |&part: &usize| !matches!(self.part(cells, row, part), CellPart::Observed(_));
        (0..self.n_parts(cells, row)).filter(is_missing).collect()
    }

    /// Whether any part of the cell is missing.
    pub fn has_gap(&self, cells: &Cells, row: usize) -> bool {
        !self.gaps(cells, row).is_empty()
    }

    /// Number of parts of the cell.
    pub fn n_parts(&self, cells: &Cells, row: usize) -> usize {
        for_cells!(self, cells, |k, p, d| k.n_parts(d, row))
    }

    /// Mutual information between the parts of a vector with or without levels; see [`FullNormal::information`]. Empty for other kernels.
    pub(crate) fn information(&self, weights: &[f64]) -> Vec<f64> {
        match self {
            Column::FullNormal(law) => law.kernel.information(&law.params, weights),
            _ => Vec::new(),
        }
    }

    /// Checks a column that comes from a file.
    pub(crate) fn check(&self) -> Result<(), String> {
        for_column!(self, |k, p| k.check(p))
    }
}

impl Cells {
    /// The level of a row, `None` where it is missing and for cells that are no levels.
    pub(crate) fn level(&self, row: usize) -> Option<u32> {
        match self {
            Cells::Categorical(data) => data.code(row),
            Cells::Ordinal(data) => data.code(row),
            _ => None,
        }
    }

    /// The coordinates of a vector or the points of a curve, NaN where missing; `None` for other cells.
    pub(crate) fn coordinates(&self, row: usize) -> Option<Vec<f64>> {
        match self {
            Cells::FullNormal(data) => Some(data.row(row)),
            Cells::DiagonalNormal(data) => Some(data.row(row)),
            Cells::Curve(data) => Some(data.row(row).to_vec()),
            _ => None,
        }
    }
}

/// Whole numbers too large to have been counted one by one: they measure an amount.
fn is_amount(values: &[Option<u64>]) -> bool {
    let n = values.iter().flatten().count().max(1) as f64;
    let mean: f64 = values.iter().flatten().map(|&x| x as f64 / n).sum();
    mean > 100.0 || values.iter().flatten().any(|&x| x > 500)
}

/// A normal kernel for numbers, with a spike where one value stands out.
fn real_column(values: &[Option<f64>], rng: &mut Xoshiro256PlusPlus) -> Result<Column, String> {
    let Some(at) = SpikedNormal::spike_of(values) else {
        return Ok(normal_like(values.iter().copied())?.column(rng));
    };
    let others = values.iter().map(|v| v.filter(|&v| v != at));
    let kernel = SpikedNormal::new(at, normal_like(others)?);
    Ok(kernel.map_err(|e| e.to_string())?.column(rng))
}

/// A normal kernel with centre and scale from the observed values; a column without spread gets a scale of its size.
pub(crate) fn normal_like(
    values: impl Iterator<Item = Option<f64>> + Clone,
) -> Result<Normal, String> {
    let (mean, scale) = centre_and_scale(values.flatten());
    Normal::new(mean, scale).map_err(|_| {
        format!("mean {mean:e} and standard deviation {scale:e}: rescale it to a deviation between 1e-150 and 1e150")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_counts_are_amounts() {
        let all = |x: u64| [None, Some(x), Some(x)];
        assert!(is_amount(&all(101)) && !is_amount(&all(100)));
        assert!(is_amount(&[
            Some(501),
            Some(0),
            Some(0),
            Some(0),
            Some(0),
            Some(0)
        ]));
        assert!(!is_amount(&[None, None]));
    }
}
