//! What depends on what: posteriors of the mutual information of latent indices, and verdicts at a level (`docs/itf.md#dependence`).
//!
//! The posterior (B (21)) says how strongly the fitted clusterings go together. It is no test: labels of a joint fit are dependent by construction. The
//! verdict is a permutation test on scores that depend on **one column alone**: T is the sum of the squared cross-products of the centred scores over the
//! rows observed in both columns, and p = (1 + #{permuted T ≥ T}) / (1 + permutations), one column's rows permuted.
//!
//! **Why the level holds.** Let the two columns be independent and the observed cells of one of them, B, exchangeable in the rows given which
//! are observed. The score of B's row i is a function of B and of random numbers of its own, and renaming rows renames
//! scores: the start of the one-column chain takes the rows in random order, every row has its own random numbers, and no
//! move looks at a row's number. So B's scores are exchangeable given A's, T and its permuted copies are exchangeable, and
//! P(p ≤ level) ≤ level at any sample size, however well the mixture fits; ties count against dependence.
//! The one exception is a network, whose rows are drawn in turn: there it is enough that the other column is no network.

use npb_infer::diagnostics::quantile;
use npb_infer::parallel;
use npb_infer::ranges::OutOfRange;
use npb_infer::{SweepPlan, stream};
use npb_linalg::faer::{Mat, Side};
use npb_priors::special::normal_quantile;
use serde::{Deserialize, Serialize};

use crate::gibbs::shuffle_from;
use crate::groups::alone;
use crate::kernel::RowLabels;
use crate::kernels::{Cells, Column};
use crate::{Draw, ItfConfig, ItfData, ItfError, ItfFit, ItfMove, ItfRows, ItfSampler, Structure};

/// Keys of random streams.
const FIT: u64 = 1;
const PERMUTATION: u64 = 2;

/// Information, in nats, that is rounding.
const NOTHING: f64 = 1e-9;
/// Ways in which the clusters of columns that are given may be together.
const MOST_WAYS: f64 = 65_536.0;
/// Numbers in a score vector.
const WIDTH: usize = 8;
/// Those that hold functions of the value when a cell is one number, a vector or a curve.
const OF_VALUE: usize = 4;
/// Longer vectors are scored by their clusters alone.
const MAX_COORDINATES: usize = 256;

/// The moves of a mixture of one column: rows count alike in all of them.
const MOVES: [ItfMove; 5] = [
    ItfMove::Concentrations,
    ItfMove::Swaps,
    ItfMove::TopSplitMerge,
    ItfMove::Parameters,
    ItfMove::Rows,
];

/// Settings of [`ItfFit::dependence`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DependenceConfig {
    /// Probability that independent columns are called dependent, for each pair by itself.
    pub level: f64,
    /// Permutations behind a verdict; no p-value is below 1 / (permutations + 1).
    pub permutations: usize,
    /// Sweeps of the mixture of one column, and which draws of it are used.
    pub sweeps: SweepPlan,
    /// Which quantiles of the mutual information are reported.
    pub quantiles: Vec<f64>,
    /// Columns that are taken as known: information is that given them, of pairs of the other columns. The test is of dependence as such.
    pub given: Vec<String>,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for DependenceConfig {
    fn default() -> Self {
        Self {
            level: 0.01,
            permutations: 999,
            sweeps: SweepPlan {
                burn_in: 100,
                keep: 20,
                thin: 5,
            },
            quantiles: vec![0.05, 0.5, 0.95],
            given: Vec::new(),
            seed: 0,
        }
    }
}

impl DependenceConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// The first that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        let bad = |field, value: String, rule: &str| Err(OutOfRange::new(field, value, rule));
        let inside = |x: f64| x > 0.0 && x < 1.0;
        if !inside(self.level) {
            let rule = "above 0 and below 1";
            return bad("level", self.level.to_string(), rule);
        }
        let reachable = (self.permutations as f64 + 1.0) * self.level * (1.0 + 1e-9) >= 1.0;
        if !reachable || self.permutations > 1_000_000_000 {
            let rule =
                "at least 1 / level - 1 (or no verdict can be reached) and at most a billion";
            return bad("permutations", self.permutations.to_string(), rule);
        }
        let (keep, thin) = (self.sweeps.keep, self.sweeps.thin);
        if keep == 0 || keep > 1000 {
            return bad("sweeps.keep", keep.to_string(), "from 1 to 1000");
        }
        if thin == 0 {
            return bad("sweeps.thin", thin.to_string(), "at least 1");
        }
        match self.quantiles.iter().find(|&&q| !(0.0..=1.0).contains(&q)) {
            Some(q) => bad("quantiles", q.to_string(), "from 0 to 1"),
            None => Ok(()),
        }
    }
}

/// Posterior of a mutual information, in nats, over kept draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InformationSummary {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// The quantiles asked for.
    pub quantiles: Vec<f64>,
}

impl InformationSummary {
    fn new(mut values: Vec<f64>, quantiles: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        values.sort_by(f64::total_cmp);
        Self {
            mean,
            sd: variance.sqrt(),
            quantiles: quantiles.iter().map(|&q| quantile(&values, q)).collect(),
        }
    }
}

/// What test and fit together say of two columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Independence is rejected, and the columns share information in half of the draws or more.
    Dependent,
    /// Independence is rejected, but most draws share no information: [`PairDependence::information`] does not say how strong the dependence is. Chains that
    /// are longer, or a group of these columns, may.
    Unexplained,
    /// Independence is not rejected.
    NotShown,
}

impl Verdict {
    /// In a word: `yes`, `unexplained`, `no`.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Dependent => "yes",
            Verdict::Unexplained => "unexplained",
            Verdict::NotShown => "no",
        }
    }
}

/// Two columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairDependence {
    /// Position of the first.
    pub a: usize,
    /// Position of the second, above `a`.
    pub b: usize,
    /// Rows in which both are observed: the verdict is about these.
    pub n_rows: usize,
    /// Posterior of the mutual information of the latent indices (B (21)).
    pub information: InformationSummary,
    /// Share of the draws in which the columns are in one block; always 1 for structures without blocks.
    pub same_block: f64,
    /// Of the test of independence; of this pair alone.
    pub p_value: f64,
    /// The same, times the number of pairs, at most 1 (Bonferroni).
    pub adjusted_p_value: f64,
    /// The least p-value that so many permutations can give, 1 / (permutations + 1): a `p_value` equal to it is an upper bound.
    pub least_p_value: f64,
    /// Whether the test rejects independence: `p_value` is at most the level.
    pub dependent: bool,
    /// What the test and the draws behind `information` say together.
    pub verdict: Verdict,
}

impl PairDependence {
    /// The p-value in words, `p = 0.012` or, where no permutation was beyond the table, `p <= 0.001 (999 permutations)`.
    pub fn p_in_words(&self) -> String {
        match self.p_value > self.least_p_value {
            true => format!("p = {}", significant(self.p_value)),
            false => format!(
                "p <= {} ({:.0} permutations)",
                significant(self.p_value),
                1.0 / self.least_p_value - 1.0
            ),
        }
    }
}

/// Two significant digits.
fn significant(p: f64) -> String {
    let digits = (1.0 - p.log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{p:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Dependence between all pairs of columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnDependence {
    names: Vec<String>,
    pairs: Vec<PairDependence>,
}

impl ColumnDependence {
    /// Names of the columns, in the order of training.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// All pairs: (0, 1), (0, 2), (1, 2), (0, 3), ...
    pub fn pairs(&self) -> &[PairDependence] {
        &self.pairs
    }

    /// The pair of two columns, in either order.
    ///
    /// # Errors
    /// An unknown name, twice the same, or a column that was taken as known.
    pub fn pair(&self, a: &str, b: &str) -> Result<&PairDependence, ItfError> {
        let position = |name: &str| {
            let found = self.names.iter().position(|known| known == name);
            found.ok_or_else(|| ItfError::Argument {
                argument: "column",
                value: name.to_owned(),
                rule: "the name of a column of training",
            })
        };
        let (a, b) = (position(a)?, position(b)?);
        if a == b {
            return Err(twice(&self.names[a]));
        }
        let wanted = (a.max(b), a.min(b));
        let found = self
            .pairs
            .binary_search_by_key(&wanted, |pair| (pair.b, pair.a));
        let known = |_| {
            bad_given(
                self.names[a].clone(),
                "other columns than those of the pair",
            )
        };
        found.map(|at| &self.pairs[at]).map_err(known)
    }

    /// One number per pair as a symmetric matrix, row by row (for a heat map), `diagonal` on its diagonal.
    pub fn matrix(&self, diagonal: f64, value: impl Fn(&PairDependence) -> f64) -> Vec<f64> {
        let p = self.names.len();
        let mut matrix = vec![diagonal; p * p];
        for pair in &self.pairs {
            let value = value(pair);
            matrix[pair.a * p + pair.b] = value;
            matrix[pair.b * p + pair.a] = value;
        }
        matrix
    }
}

fn bad_given(value: String, rule: &'static str) -> ItfError {
    ItfError::Argument {
        argument: "given",
        value,
        rule,
    }
}

fn twice(name: &str) -> ItfError {
    ItfError::Argument {
        argument: "columns",
        value: name.to_owned(),
        rule: "different columns",
    }
}

impl ItfFit {
    /// Dependence between all pairs of columns: the posterior of their mutual information in this fit, and a verdict whose level is
    /// exact for any number of rows, by permutation of scores that depend on one column alone. The level is that of one pair; with
    /// many, look at the adjusted p-values, with more permutations.
    ///
    /// `rows`: [`training_rows`](Self::training_rows), or others to test on. Rows missing in either column are left out.
    /// The verdict asks that cells of a column are missing for reasons that have nothing to do with the other column.
    ///
    /// Cost: for each column a one-column mixture, `burn_in + keep * thin` sweeps linear in rows; for each pair `permutations` times 64
    /// multiplications per row (one for two categories). Parallel over columns and pairs; the result does not depend on
    /// the number of threads.
    ///
    /// # Errors
    /// A configuration out of range, no rows, rows of another fit.
    pub fn dependence(
        &self,
        rows: &ItfRows,
        config: &DependenceConfig,
    ) -> Result<ColumnDependence, ItfError> {
        config.validate()?;
        let known = |j: usize| config.given.contains(&self.columns()[j].name);
        let p = self.columns().len();
        let pairs = (0..p).flat_map(|b| (0..b).map(move |a| (a, b)));
        let pairs: Vec<(usize, usize)> = pairs.filter(|&(a, b)| !known(a) && !known(b)).collect();
        if pairs.is_empty() && !config.given.is_empty() {
            return Err(bad_given(
                config.given.join(", "),
                "fewer columns, so that two are left",
            ));
        }
        let given = self.given(&config.given)?;
        let scores = self.scores(rows, config)?;
        let n_pairs = pairs.len() as f64;
        let within = self.within_groups(&given);
        let pair = |(a, b): (usize, usize)| {
            let (n_rows, p_value) = permutation_test(&scores[a], &scores[b], config, [a, b]);
            let (one, other) = (self.places()[a].column, self.places()[b].column);
            let of_draws = self.information_of(a, b, &given, &within);
            let in_one_block = |d: &&Draw| d.columns[one].block == d.columns[other].block;
            let together = self.draws().iter().filter(in_one_block).count();
            let dependent = p_value <= config.level;
            let shared = of_draws.iter().filter(|&&x| x > NOTHING).count();
            let verdict = match dependent {
                false => Verdict::NotShown,
                true if 2 * shared >= of_draws.len() => Verdict::Dependent,
                true => Verdict::Unexplained,
            };
            PairDependence {
                a,
                b,
                n_rows,
                information: InformationSummary::new(of_draws, &config.quantiles),
                same_block: together as f64 / self.draws().len() as f64,
                p_value,
                adjusted_p_value: (p_value * n_pairs).min(1.0),
                least_p_value: 1.0 / (config.permutations as f64 + 1.0),
                dependent,
                verdict,
            }
        };
        Ok(ColumnDependence {
            names: self.columns().iter().map(|c| c.name.clone()).collect(),
            pairs: parallel::map(pairs, pair),
        })
    }

    /// Posterior of the mutual information of the latent indices of two columns given those of others
    /// ([`Draw::conditional_mutual_information`]): what they share beyond these.
    ///
    /// # Errors
    /// An unknown column, the same twice, a quantile outside 0..1; columns that have too many clusters together.
    pub fn conditional_information(
        &self,
        a: &str,
        b: &str,
        given: &[&str],
        quantiles: &[f64],
    ) -> Result<InformationSummary, ItfError> {
        let names = [&[a, b], given].concat();
        if let Some(k) = (1..names.len()).find(|&k| names[..k].contains(&names[k])) {
            return Err(twice(names[k]));
        }
        let settings = DependenceConfig {
            quantiles: quantiles.to_vec(),
            ..DependenceConfig::default()
        };
        settings.validate()?;
        let (a, b) = (self.column_index(a)?, self.column_index(b)?);
        let given = self.given(&given.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let of_draws = self.information_of(a, b, &given, &self.within_groups(&given));
        Ok(InformationSummary::new(of_draws, quantiles))
    }

    /// Where columns that are given are among those of the draws.
    fn given(&self, names: &[String]) -> Result<Vec<usize>, ItfError> {
        let place = |name: &String| Ok(self.places()[self.column_index(name)?].column);
        let mut given: Vec<usize> = names.iter().map(place).collect::<Result<_, ItfError>>()?;
        given.sort_unstable();
        given.dedup();
        let ways = |draw: &Draw| -> f64 {
            given
                .iter()
                .map(|&j| draw.columns[j].n_clusters as f64)
                .product()
        };
        match self.draws().iter().any(|draw| ways(draw) > MOST_WAYS) {
            true => Err(bad_given(
                names.join(", "),
                "columns with fewer clusters together: give fewer of them",
            )),
            false => Ok(given),
        }
    }

    /// Mutual information of two columns in every draw, given others; `within`: that of the groups.
    fn information_of(
        &self,
        a: usize,
        b: usize,
        given: &[usize],
        within: &[Vec<Vec<f64>>],
    ) -> Vec<f64> {
        let (a, b) = (self.places()[a], self.places()[b]);
        match (a.part, b.part) {
            (Some(part), Some(with)) if a.column == b.column => {
                let n = self.members()[a.column].len();
                within
                    .iter()
                    .map(|d| d[a.column][part * n + with])
                    .collect()
            }
            _ if given.is_empty() => {
                parallel::map(self.draws(), |d| d.mutual_information(a.column, b.column))
            }
            _ => parallel::map(self.draws(), |d| {
                d.conditional_mutual_information(a.column, b.column, given)
            }),
        }
    }

    /// Scores of all columns, each from its own cells alone.
    fn scores(&self, rows: &ItfRows, config: &DependenceConfig) -> Result<Vec<Scores>, ItfError> {
        if rows.n_rows() == 0 {
            return Err(ItfError::NoRows);
        }
        self.check_columns_of(rows)?;
        parallel::try_map(0..self.places().len(), |j| {
            let place = self.places()[j];
            let (law, cells) = (self.law(j), &rows.cells()[place.column]);
            let name = &self.columns()[j].name;
            match place.part.and_then(|part| alone(law, cells, part)) {
                Some((law, cells)) => Scores::of(name, &law, &cells, config, j as u64),
                None => Scores::of(name, law, cells, config, j as u64),
            }
        })
    }

    /// For every draw and group the information between its columns given others, as a matrix; empty for columns that are no group.
    fn within_groups(&self, given: &[usize]) -> Vec<Vec<Vec<f64>>> {
        let of_column = |draw: &Draw, column: usize| match self.groups_at(column) {
            true if given.is_empty() => draw.information_within(column),
            true => draw.information_within_given(column, given),
            false => Vec::new(),
        };
        let of_draw = |draw: &Draw| {
            (0..draw.columns.len())
                .map(|c| of_column(draw, c))
                .collect()
        };
        parallel::map(self.draws(), of_draw)
    }
}

/// What a cell says, by its own column alone; `None` where it is missing.
enum Scores {
    /// A level.
    Levels(Vec<Option<u32>>),
    /// Numbers.
    Numbers(Vec<Option<[f64; WIDTH]>>),
}

impl Scores {
    fn of(
        name: &str,
        law: &Column,
        cells: &Cells,
        config: &DependenceConfig,
        key: u64,
    ) -> Result<Self, ItfError> {
        let n_rows = law.n_rows(cells);
        let values = values(law, cells, config.seed);
        if let (Some(values), Some(_)) = (&values, law.n_levels(0)) {
            let level = |value: &Option<f64>| value.map(|v| v as u32);
            return Ok(Self::Levels(values.iter().map(level).collect()));
        }
        let observed: Vec<usize> = (0..n_rows).filter(|&i| law.is_observed(cells, i)).collect();
        let mut scores = vec![None; n_rows];
        observed
            .iter()
            .for_each(|&i| scores[i] = Some([0.0; WIDTH]));
        let mut first = 0;
        if let Some(values) = &values {
            first = OF_VALUE;
            let functions = match law {
                Column::VonMises(fitted) => of_angles(values, fitted.kernel.period()),
                _ => of_ranks(values),
            };
            for (score, functions) in scores.iter_mut().zip(functions) {
                if let Some(score) = score {
                    score[..OF_VALUE].copy_from_slice(&functions);
                }
            }
        }
        if let Some(components) = of_vectors(cells, &observed) {
            first = OF_VALUE;
            for (&i, component) in observed.iter().zip(components) {
                scores[i].get_or_insert_default()[..OF_VALUE].copy_from_slice(&component);
            }
        }
        let draws = own_clusterings(name, law, cells, config, key)?;
        add_components(&mut scores, &observed, &draws, first);
        Ok(Self::Numbers(scores))
    }
}

/// The values of a column whose cells are one number or one level each, `None` for other columns.
fn values(law: &Column, cells: &Cells, seed: u64) -> Option<Vec<Option<f64>>> {
    let n_rows = law.n_rows(cells);
    if law.is_coupled() || (0..n_rows).any(|i| law.n_parts(cells, i) != 1) {
        return None;
    }
    // Observed parts are written as they are: cluster and random numbers play no part.
    let rng = &mut stream(seed, [0; 4]);
    let mut law = law.fresh(rng);
    law.grow(4, rng);
    let mut part = Vec::new();
    let mut value = |i: usize| {
        part.clear();
        law.complete(0, cells, i, false, RowLabels::NONE, rng, &mut part);
        part.first().copied()
    };
    let observed = |i: usize| law.is_observed(cells, i);
    let values = (0..n_rows).map(|i| if observed(i) { value(i) } else { None });
    Some(values.collect())
}

/// Falling weights: low orders come first, because most dependence shows there.
fn order_weight(order: usize) -> f64 {
    0.5_f64.powi(order as i32 - 1).sqrt()
}

/// Hermite polynomials of normal scores (ties share their middle rank), orthonormal under the normal law before they are weighted.
pub(crate) fn of_ranks(values: &[Option<f64>]) -> Vec<[f64; OF_VALUE]> {
    let mut sorted: Vec<f64> = values.iter().flatten().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let functions = |value: &Option<f64>| {
        let Some(x) = *value else {
            return [0.0; OF_VALUE];
        };
        let below = sorted.partition_point(|&v| v < x);
        let up_to = sorted.partition_point(|&v| v <= x);
        let z = normal_quantile(0.5 * (below + up_to) as f64 / n);
        let squared = z * z;
        let hermite = [
            z,
            (squared - 1.0) / 2.0_f64.sqrt(),
            z * (squared - 3.0) / 6.0_f64.sqrt(),
            (squared * (squared - 6.0) + 3.0) / 24.0_f64.sqrt(),
        ];
        std::array::from_fn(|k| order_weight(k + 1) * hermite[k])
    };
    values.iter().map(functions).collect()
}

/// Sines and cosines of angles and of twice the angles.
fn of_angles(values: &[Option<f64>], period: f64) -> Vec<[f64; OF_VALUE]> {
    let functions = |value: &Option<f64>| {
        let angle = value.map_or(0.0, |x| std::f64::consts::TAU * (x / period));
        std::array::from_fn(|k| {
            let order = k / 2 + 1;
            let (sine, cosine) = (order as f64 * angle).sin_cos();
            std::f64::consts::SQRT_2 * order_weight(order) * if k % 2 == 0 { sine } else { cosine }
        })
    };
    values.iter().map(functions).collect()
}

/// The leading principal components of the normal scores of coordinates, a missing one counting as 0, in units of the first's standard
/// deviation. `None` for cells that are no vectors or curves, or of more than [`MAX_COORDINATES`].
fn of_vectors(cells: &Cells, observed: &[usize]) -> Option<Vec<[f64; OF_VALUE]>> {
    let rows = observed.iter().map(|&i| cells.coordinates(i));
    let rows: Vec<Vec<f64>> = rows.collect::<Option<_>>()?;
    let d = rows.first()?.len();
    if d > MAX_COORDINATES {
        return None;
    }
    let mut scores = vec![Vec::with_capacity(d); rows.len()];
    for j in 0..d {
        let values = rows.iter().map(|row| Some(row[j]).filter(|x| !x.is_nan()));
        let functions = of_ranks(&values.collect::<Vec<_>>());
        for (score, [z, ..]) in scores.iter_mut().zip(functions) {
            score.push(z);
        }
    }
    let product = |a: usize, b: usize| scores.iter().map(|z| z[a] * z[b]).sum::<f64>();
    let eigen = Mat::from_fn(d, d, product)
        .self_adjoint_eigen(Side::Lower)
        .ok()?;
    // Eigenvalues rise.
    let component = |z: &Vec<f64>, k: usize| -> f64 {
        let direction = eigen.U().col(d - 1 - k);
        z.iter().enumerate().map(|(j, z)| z * direction[j]).sum()
    };
    let squares: f64 = scores.iter().map(|z| component(z, 0).powi(2)).sum();
    let scale = (rows.len() as f64 / squares.max(f64::MIN_POSITIVE)).sqrt();
    let leading =
        |z: &Vec<f64>| std::array::from_fn(|k| if k < d { scale * component(z, k) } else { 0.0 });
    Some(scores.iter().map(leading).collect())
}

/// Labels of all rows in draws of a mixture of this column alone.
fn own_clusterings(
    name: &str,
    law: &Column,
    cells: &Cells,
    config: &DependenceConfig,
    key: u64,
) -> Result<Vec<Vec<u32>>, ItfError> {
    let prototype = law.fresh(&mut stream(config.seed, [FIT, key, 0, 0]));
    let mut data = ItfData::new();
    data.push(name, prototype, cells.clone())?;
    let settings = ItfConfig {
        structure: Structure::Joint,
        moves: MOVES.to_vec(),
        seed: config.seed,
        ..ItfConfig::default()
    };
    // A chain of its own for every column: their random numbers must be independent.
    let mut sampler = ItfSampler::new(&data, settings, key)?;
    (0..config.sweeps.burn_in).for_each(|_| sampler.sweep());
    let draws = (0..config.sweeps.keep).map(|_| {
        (0..config.sweeps.thin).for_each(|_| sampler.sweep());
        sampler.state().labels(0).to_vec()
    });
    Ok(draws.collect())
}

/// Writes the leading principal components of the label indicators of all draws (those of the co-clustering matrix) into the
/// scores from `first` on, each with its standard deviation: a clustering that draws agree about weighs most, noise next to nothing.
fn add_components(
    scores: &mut [Option<[f64; WIDTH]>],
    observed: &[usize],
    draws: &[Vec<u32>],
    first: usize,
) {
    let n = observed.len() as f64;
    // Every label of every draw that has observed rows is a coordinate.
    let mut coordinates: Vec<Vec<usize>> = Vec::with_capacity(draws.len());
    let mut sizes: Vec<f64> = Vec::new();
    for labels in draws {
        let mut counts = vec![0usize; crate::collapsed::n_labels(labels)];
        observed
            .iter()
            .for_each(|&i| counts[labels[i] as usize] += 1);
        let coordinate = |&m: &usize| {
            sizes.extend((m > 0).then_some(m as f64));
            sizes.len().wrapping_sub(1)
        };
        coordinates.push(counts.iter().map(coordinate).collect());
    }
    let m = sizes.len();
    if m < 2 {
        return;
    }
    let of_row = |i: usize| {
        let coordinates = coordinates.iter().zip(draws);
        coordinates.map(move |(of_label, labels)| of_label[labels[i] as usize])
    };
    let mut counts = vec![0.0; m * m];
    let mut places = Vec::with_capacity(draws.len());
    for &i in observed {
        places.clear();
        places.extend(of_row(i));
        for &a in &places {
            places.iter().for_each(|&b| counts[a * m + b] += 1.0);
        }
    }
    let gram = Mat::from_fn(m, m, |a, b| {
        (counts[a * m + b] - sizes[a] * sizes[b] / n) / draws.len() as f64
    });
    // Without components the verdict is weaker, not wrong.
    let Ok(eigen) = gram.self_adjoint_eigen(Side::Lower) else {
        return;
    };
    let scale = (draws.len() as f64).sqrt().recip();
    for &i in observed {
        let Some(score) = &mut scores[i] else {
            continue;
        };
        // Eigenvalues rise.
        for (k, score) in score[first..].iter_mut().enumerate().take(m) {
            let direction = eigen.U().col(m - 1 - k);
            *score = scale * of_row(i).map(|c| direction[c]).sum::<f64>();
        }
    }
}

/// A column's scores in the rows of a pair.
enum PairScores {
    /// Levels, and how often each occurs.
    Levels { codes: Vec<u32>, counts: Vec<f64> },
    /// Centred numbers.
    Numbers(Vec<[f64; WIDTH]>),
}

impl PairScores {
    fn new(scores: &Scores, rows: &[usize]) -> Self {
        match scores {
            Scores::Levels(levels) => {
                let codes: Vec<u32> = rows.iter().filter_map(|&i| levels[i]).collect();
                let counts = crate::collapsed::counts(&codes);
                let counts = counts.into_iter().map(|m| m as f64).collect();
                Self::Levels { codes, counts }
            }
            Scores::Numbers(numbers) => {
                let mut own: Vec<_> = rows.iter().filter_map(|&i| numbers[i]).collect();
                let share = (own.len().max(1) as f64).recip();
                for k in 0..WIDTH {
                    let mean: f64 = own.iter().map(|score| score[k] * share).sum();
                    own.iter_mut().for_each(|score| score[k] -= mean);
                }
                Self::Numbers(own)
            }
        }
    }

    /// The commonest level, and how often it occurs.
    fn commonest(&self) -> (usize, usize) {
        let Self::Levels { counts, .. } = self else {
            return (0, 0);
        };
        let most = (0..counts.len()).max_by(|&k, &l| counts[k].total_cmp(&counts[l]));
        most.map_or((0, 0), |level| (level, counts[level] as usize))
    }

    /// All rows: as they come, or level by level, the commonest first.
    fn places(&self) -> Vec<u32> {
        let by_level = |codes: &[u32]| {
            let first = self.commonest().0 as u32;
            let mut rows: Vec<u32> = (0..codes.len() as u32).collect();
            let level = |row: u32| codes[row as usize];
            rows.sort_by_key(|&row| (level(row) != first, level(row), row));
            rows
        };
        match self {
            Self::Levels { codes, .. } => by_level(codes),
            Self::Numbers(numbers) => (0..numbers.len() as u32).collect(),
        }
    }
}

/// T, when these rows of the second column are beside the [places](PairScores::places) of the first, which are levels if one of them is.
///
/// Centred numbers stay centred in any order, and levels against levels are compared with the counts that independence expects,
/// so that only the cross-products depend on the order. Those of the commonest level are what the others leave: which rows are beside it is not looked at.
fn statistic(a: &PairScores, b: &PairScores, order: &[u32], table: &mut Vec<f64>) -> f64 {
    pulp::Arch::new().dispatch(Products { a, b, order, table })
}

/// The sums of products behind T.
struct Products<'a> {
    a: &'a PairScores,
    b: &'a PairScores,
    order: &'a [u32],
    table: &'a mut Vec<f64>,
}

impl pulp::NullaryFnOnce for Products<'_> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        use PairScores::{Levels, Numbers};
        let n = self.order.len() as f64;
        match (self.a, self.b) {
            (Numbers(of_a), Numbers(of_b)) => {
                let mut table = [[0.0; WIDTH]; WIDTH];
                for (x, &i) in of_a.iter().zip(self.order) {
                    let y = of_b[i as usize];
                    for k in 0..WIDTH {
                        table[k] = plus(table[k], x[k], y);
                    }
                }
                table.iter().flatten().map(|t| t * t).sum::<f64>() / n.max(1.0)
            }
            (Levels { counts, .. }, Levels { counts: of_b, .. }) => {
                chi_squared(self.by_level(counts, of_b), counts, of_b, n)
            }
            (Levels { counts, .. }, Numbers(_)) => {
                let lines = self.by_level(counts, &[0.0; WIDTH]).chunks_exact(WIDTH);
                let mut sum = 0.0;
                for (line, count) in lines.zip(counts) {
                    sum += line.iter().map(|t| t * t).sum::<f64>() / count.max(1.0);
                }
                sum
            }
            (Numbers(_), Levels { .. }) => unreachable!("levels come first"),
        }
    }
}

/// x + a y, by value: so it stays in registers.
#[inline(always)]
fn plus(mut x: [f64; WIDTH], a: f64, y: [f64; WIDTH]) -> [f64; WIDTH] {
    for k in 0..WIDTH {
        x[k] += a * y[k];
    }
    x
}

impl<'a> Products<'a> {
    /// What the second column has in all beside each level of the first; `all`: beside any of them.
    #[inline(always)]
    fn by_level(self, counts: &[f64], all: &[f64]) -> &'a [f64] {
        let (table, width) = (self.table, all.len());
        let (first, most) = self.a.commonest();
        table.clear();
        table.resize(counts.len() * width, 0.0);
        table[first * width..][..width].copy_from_slice(all);
        let mut rest = &self.order[most..];
        for level in (0..counts.len()).filter(|&level| level != first) {
            let (rows, after) = rest.split_at(counts[level] as usize);
            rest = after;
            let line = &mut table[level * width..][..width];
            match self.b {
                PairScores::Levels { codes, .. } => {
                    for &i in rows {
                        line[codes[i as usize] as usize] += 1.0;
                    }
                }
                PairScores::Numbers(numbers) => {
                    let mut sum = [0.0; WIDTH];
                    for &i in rows {
                        sum = plus(sum, 1.0, numbers[i as usize]);
                    }
                    line.copy_from_slice(&sum);
                }
            }
            (0..width).for_each(|k| table[first * width + k] -= table[level * width + k]);
        }
        table
    }
}

/// Pearson's statistic of a table of counts with these margins.
fn chi_squared(table: &[f64], of_rows: &[f64], of_columns: &[f64], n: f64) -> f64 {
    let mut sum = 0.0;
    // Columns that are never observed together have no levels here.
    for (line, of_a) in table.chunks_exact(of_columns.len().max(1)).zip(of_rows) {
        for (&count, of_b) in line.iter().zip(of_columns) {
            let expected = of_a * of_b / n;
            if expected > 0.0 {
                sum += (count - expected).powi(2) / expected;
            }
        }
    }
    sum
}

/// Number of rows observed in both columns, and the p-value of the test that they are independent.
fn permutation_test(
    a: &Scores,
    b: &Scores,
    config: &DependenceConfig,
    pair: [usize; 2],
) -> (usize, f64) {
    let observed = |scores: &Scores, i: usize| match scores {
        Scores::Levels(levels) => levels[i].is_some(),
        Scores::Numbers(numbers) => numbers[i].is_some(),
    };
    let n_rows = match a {
        Scores::Levels(levels) => levels.len(),
        Scores::Numbers(numbers) => numbers.len(),
    };
    let rows: Vec<usize> = (0..n_rows)
        .filter(|&i| observed(a, i) && observed(b, i))
        .collect();
    if rows.is_empty() {
        return (0, 1.0);
    }
    let (a, b) = (PairScores::new(a, &rows), PairScores::new(b, &rows));
    // The more rows of one level the cheaper, and which of the two is permuted does not matter.
    let (a, b) = match a.commonest().1 < b.commonest().1 {
        true => (b, a),
        false => (a, b),
    };
    let identity = a.places();
    let own = statistic(&a, &b, &identity, &mut Vec::new());
    // Sums in another order differ in their last digits: equal ones must count as ties, and those of constants as 0.
    let threshold = own * (1.0 - 1e-9) - 1e-12;
    let [first, second] = pair.map(|j| j as u64);
    let exceeds = |(order, table): &mut (Vec<u32>, Vec<f64>), permutation: u64| {
        let key = [PERMUTATION, first, second, permutation];
        order.clone_from(&identity);
        shuffle_from(order, a.commonest().1, &mut stream(config.seed, key));
        statistic(&a, &b, order, table) >= threshold
    };
    let permutations = 0..config.permutations as u64;
    let found = parallel::map_with(permutations, || (Vec::new(), Vec::new()), exceeds);
    let exceeding = found.into_iter().filter(|&exceeds| exceeds).count();
    let p_value = (1 + exceeding) as f64 / (1 + config.permutations) as f64;
    (rows.len(), p_value)
}

#[cfg(test)]
mod tests {
    use npb_data::MixedColumn;

    use super::*;

    /// Two columns with the same cells: labels that chance draws are drawn apart, or independent columns would go together.
    #[test]
    fn columns_do_not_share_random_numbers() {
        let values = (0..60).map(|i| Some(f64::from(i * 37 % 60) * 0.1));
        let (law, cells) = Column::for_table_column(&MixedColumn::Real(values.collect())).unwrap();
        let config = DependenceConfig {
            sweeps: SweepPlan {
                burn_in: 20,
                keep: 20,
                ..DependenceConfig::default().sweeps
            },
            ..DependenceConfig::default()
        };
        let labels = |key| own_clusterings("x", &law, &cells, &config, key).unwrap();
        assert_ne!(labels(1), labels(2));
        assert_eq!(labels(1), labels(1));
    }

    /// A third of a turn: sine and cosine of 120 and of 240 degrees, with squares that add up to 2 for the first order and to 1 for the second.
    #[test]
    fn scores_of_angles_are_sines_and_cosines() {
        let [of_third, of_none] = of_angles(&[Some(8.0), None], 24.0)[..] else {
            panic!("two values");
        };
        let (half, root) = (0.5, 0.75_f64.sqrt());
        let expected = [2_f64.sqrt() * root, -(2_f64.sqrt()) * half, -root, -half];
        for k in 0..OF_VALUE {
            assert!((of_third[k] - expected[k]).abs() < 1e-12, "{of_third:?}");
        }
        let flat = [0.0, 2_f64.sqrt(), 0.0, 1.0];
        assert!((0..OF_VALUE).all(|k| (of_none[k] - flat[k]).abs() < 1e-12));
    }

    /// Functions of normal scores are orthogonal, each with half the square of the one before; ties share their middle rank.
    #[test]
    fn scores_of_numbers_are_orthogonal_functions_of_their_ranks() {
        let values: Vec<Option<f64>> = (0..5000).map(|i| Some(f64::from(i * 7 % 5000))).collect();
        let scores = of_ranks(&values);
        for k in 0..OF_VALUE {
            for l in 0..OF_VALUE {
                let product = scores.iter().map(|s| s[k] * s[l]).sum::<f64>() / 5000.0;
                let wanted = if k == l { 0.5_f64.powi(k as i32) } else { 0.0 };
                assert!((product - wanted).abs() < 0.02, "{k} {l}: {product}");
            }
        }
        let tied = of_ranks(&[Some(1.0), None, Some(3.0), Some(1.0), Some(2.0)]);
        let z = |share: f64| normal_quantile(share);
        let wanted = [z(0.25), 0.0, z(0.875), z(0.25), z(0.625)];
        for (found, wanted) in tied.iter().zip(wanted) {
            assert!((found[0] - wanted).abs() < 1e-12, "{found:?} {wanted}");
        }
    }

    /// Two of four rows beside the rarer levels: each of twelve pairs alike.
    #[test]
    fn rows_beside_rare_levels_are_drawn_from_all() {
        let (rng, mut counts) = (&mut stream(3, [0; 4]), [[0_u32; 4]; 4]);
        for _ in 0..24_000 {
            let mut rows = [0, 1, 2, 3];
            shuffle_from(&mut rows, 2, rng);
            counts[rows[2] as usize][rows[3] as usize] += 1;
        }
        for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
            // The standard deviation is 43.
            let wanted = if a == b { 0 } else { 2000 };
            assert!(counts[a][b].abs_diff(wanted) < 200, "{counts:?}");
        }
    }

    /// Sums of squared cross-products, by plain loops: numbers with numbers, levels with numbers from both sides.
    #[test]
    fn statistics_are_sums_of_squared_products() {
        let score = |i: usize, k: usize| ((5 * i + 3 * k + i * k) % 7) as f64;
        let numbers: Vec<Option<[f64; WIDTH]>> = (0..9)
            .map(|i| (i != 4).then(|| std::array::from_fn(|k| score(i, k))))
            .collect();
        let other: Vec<Option<[f64; WIDTH]>> = (0..9)
            .map(|i| Some(std::array::from_fn(|k| score(i + 2, 2 * k + 1))))
            .collect();
        let codes: Vec<Option<u32>> = (0..9).map(|i| Some(i % 3)).collect();
        // The rows that both have, in another order.
        let rows = [0, 1, 2, 3, 5, 6, 7, 8];
        let order = [3, 0, 7, 2, 1, 5, 4, 6];
        let centred = |of: &[Option<[f64; WIDTH]>], k: usize| -> Vec<f64> {
            let own: Vec<f64> = rows.iter().map(|&i| of[i].unwrap()[k]).collect();
            let mean = own.iter().sum::<f64>() / 8.0;
            own.iter().map(|x| x - mean).collect()
        };
        let pairs = (0..WIDTH).flat_map(|k| (0..WIDTH).map(move |l| (k, l)));
        let product = |(k, l): (usize, usize)| {
            let (x, y) = (centred(&numbers, k), centred(&other, l));
            (0..8).map(|i| x[i] * y[order[i]]).sum::<f64>().powi(2) / 8.0
        };
        let wanted: f64 = pairs.map(product).sum();
        let of = |scores: Scores| PairScores::new(&scores, &rows);
        let permuted = order.map(|i| i as u32);
        let found = |a: &PairScores, b: &PairScores| statistic(a, b, &permuted, &mut Vec::new());
        let (a, b) = (
            of(Scores::Numbers(numbers.clone())),
            of(Scores::Numbers(other)),
        );
        assert!((found(&a, &b) / wanted - 1.0).abs() < 1e-9);
        let levels = of(Scores::Levels(codes.clone()));
        // Row by row, levels 0 1 2 0 2 0 1 2; the last of the commonest is first.
        let places = [2, 4, 7, 0, 3, 5, 1, 6];
        assert_eq!(levels.places(), places);
        let of_level = |code: u32| -> f64 {
            let own: Vec<usize> = (0..8)
                .filter(|&at| codes[rows[places[at] as usize]] == Some(code))
                .collect();
            let sum = |k: usize| {
                own.iter()
                    .map(|&at| centred(&numbers, k)[order[at]])
                    .sum::<f64>()
            };
            (0..WIDTH).map(|k| sum(k).powi(2)).sum::<f64>() / own.len() as f64
        };
        let wanted: f64 = (0..3).map(of_level).sum();
        assert!((found(&levels, &a) / wanted - 1.0).abs() < 1e-9);
        // Rows 3, 0, 7, 2, 1, 5, 4, 6 have levels 0 0 2 2 1 0 2 1, and are beside 2 2 2 0 0 0 1 1.
        let counts = [[1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [2.0, 0.0, 1.0]];
        let margin = [3.0, 2.0, 3.0];
        let entries = (0..3).flat_map(|k| (0..3).map(move |l| (k, l)));
        let wanted: f64 = (entries)
            .map(|(k, l)| {
                let expected: f64 = margin[k] * margin[l] / 8.0;
                (counts[k][l] - expected).powi(2) / expected
            })
            .sum();
        assert!((found(&levels, &levels) / wanted - 1.0).abs() < 1e-9);
    }
}
