//! Unordered levels.

use std::ops::Range;

use npb_infer::Xoshiro256PlusPlus;
use npb_priors::dist::{Dirichlet, Normal as NormalLaw};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::support::{CellError, ClusterTable, clusters_in, one_part, setting};
use crate::kernel::{CellPart, Kernel, PerCluster, RowLabels};
use crate::numeric::LnGammaSum;

/// Levels 0..L with probabilities θ_k ~ Dirichlet(a, ..., a) in cluster k; ln a ~ N(ln 1/2, 1), shared by the clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Categorical {
    n_levels: usize,
}

/// Cells of a categorical column.
#[derive(Clone, Debug, PartialEq)]
pub struct CategoricalData {
    n_levels: usize,
    /// Level of every row, `n_levels` where it is missing: then one table serves all rows.
    codes: Vec<u32>,
}

/// Probabilities of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CategoricalParams {
    /// a.
    concentration: f64,
    /// ln θ, level by level; one more level, all zeros, for missing cells.
    ln_theta: ClusterTable,
    /// Exponentials of `ln_theta`.
    theta: ClusterTable,
}

/// Location and scale of ln a.
const LN_CONCENTRATION: (f64, f64) = (-std::f64::consts::LN_2, 1.0);
/// Step of the random walk on ln a.
const STEP: f64 = 0.7;
/// More levels than this are a text or an identifier, not a category.
const MAX_LEVELS: usize = 100_000;

impl Categorical {
    /// `n_levels`: from 1 to 100,000.
    ///
    /// # Errors
    /// [`CellError::Setting`].
    pub fn new(n_levels: usize) -> Result<Self, CellError> {
        let fits = (1..=MAX_LEVELS).contains(&n_levels);
        setting("levels", n_levels as f64, fits, "from 1 to 100,000")?;
        Ok(Self { n_levels })
    }

    /// Number of levels.
    pub fn size(&self) -> usize {
        self.n_levels
    }

    /// A draw of a from its prior.
    pub(super) fn prior_concentration(rng: &mut Xoshiro256PlusPlus) -> f64 {
        let (location, scale) = LN_CONCENTRATION;
        normal(location, scale, rng).exp()
    }

    /// A draw of ln θ given a and the numbers of cells with each level.
    pub(super) fn draw_ln_theta(
        &self,
        a: f64,
        counts: impl Iterator<Item = f64>,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Vec<f64> {
        let law = Dirichlet::new(counts.map(|n| a + n).collect())
            .expect("positive and finite concentrations");
        let mut ln_theta = vec![0.0; self.n_levels];
        law.sample_ln(&mut ln_theta, rng);
        ln_theta
    }

    /// ln p(counts) given a: the concentration of every level is the same.
    pub(super) fn ln_evidence_at(&self, a: f64, counts: &[u64]) -> f64 {
        self.ln_evidence_of_all(a, [counts])
    }

    /// The same of several clusters.
    fn ln_evidence_of_all<'c>(&self, a: f64, pool: impl IntoIterator<Item = &'c [u64]>) -> f64 {
        let of_all = a * self.n_levels as f64;
        let (mut levels, mut clusters) = (LnGammaSum::default(), LnGammaSum::default());
        for counts in pool {
            let occupied = counts.iter().filter(|&&n| n > 0);
            occupied.for_each(|&n| levels.push(a + n as f64));
            let n: u64 = counts.iter().sum();
            if n > 0 {
                clusters.push(of_all + n as f64);
            }
        }
        levels.sum_less_each(a) - clusters.sum_less_each(of_all)
    }

    /// One random-walk step on ln a given the counts of all clusters, probabilities integrated out.
    pub(super) fn move_concentration(
        &self,
        concentration: &mut f64,
        pool: &[Vec<u64>],
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let standard: f64 = normal(0.0, 1.0, rng);
        let (old, new) = (*concentration, *concentration * (STEP * standard).exp());
        let prior = |a: f64| {
            let z = (a.ln() - LN_CONCENTRATION.0) / LN_CONCENTRATION.1;
            -0.5 * z * z
        };
        let evidence = |a: f64| self.ln_evidence_of_all(a, pool.iter().map(|counts| &counts[..]));
        let ln_ratio = prior(new) - prior(old) + evidence(new) - evidence(old);
        if rng.random::<f64>().ln() < ln_ratio {
            *concentration = new;
        }
    }
}

fn normal(mean: f64, sd: f64, rng: &mut Xoshiro256PlusPlus) -> f64 {
    NormalLaw::new(mean, sd * sd)
        .expect("a finite mean and a positive variance")
        .sample(rng)
}

impl CategoricalData {
    /// `codes`: one per row, below `n_levels`, `None` where missing.
    ///
    /// # Errors
    /// [`CellError::Value`] naming the row; [`CellError::Setting`] as in [`Categorical::new`].
    pub fn new(n_levels: usize, codes: &[Option<u32>]) -> Result<Self, CellError> {
        Categorical::new(n_levels)?;
        let unknown = |code: &Option<u32>| code.is_some_and(|code| code as usize >= n_levels);
        if let Some(row) = codes.iter().position(unknown) {
            return Err(CellError::Value {
                row,
                part: 0,
                value: codes[row].map_or(f64::NAN, f64::from),
                needed: "one of the levels, counted from 0",
            });
        }
        let codes = codes.iter().map(|code| code.unwrap_or(n_levels as u32));
        Ok(Self {
            n_levels,
            codes: codes.collect(),
        })
    }

    /// Number of levels.
    pub(super) fn n_levels(&self) -> usize {
        self.n_levels
    }

    /// Level of every row, [`n_levels`](Self::n_levels) where it is missing.
    pub(super) fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// Replaces the level of a row.
    pub(super) fn set(&mut self, row: usize, code: u32) {
        self.codes[row] = code;
    }

    /// The level of a row, `None` where it is missing.
    pub fn code(&self, row: usize) -> Option<u32> {
        Some(self.codes[row]).filter(|&code| (code as usize) < self.n_levels)
    }
}

impl CategoricalParams {
    /// Probability of a level in a cluster.
    pub fn probability(&self, level: usize, cluster: usize) -> f64 {
        self.theta.get(level, cluster)
    }

    /// ln probability of a level in the clusters 0..`n_clusters`.
    pub(super) fn ln_probabilities(&self, level: usize, n_clusters: usize) -> &[f64] {
        self.ln_theta.row(level, n_clusters)
    }
}

clusters_in!(CategoricalParams: theta, ln_theta);

impl Kernel for Categorical {
    type Data = CategoricalData;
    type Params = CategoricalParams;
    /// Number of cells of each level.
    type Stats = Vec<u64>;

    const COUPLED: bool = false;

    one_part!(
        |kernel, params, cluster, out| out
            .extend((0..kernel.n_levels).map(|level| params.probability(level, cluster))),
        |kernel, params, cluster, rng| f64::from(kernel.pick(params, cluster, rng))
    );

    fn n_rows(&self, data: &CategoricalData) -> usize {
        data.codes.len()
    }

    fn is_observed(&self, data: &CategoricalData, row: usize) -> bool {
        (data.codes[row] as usize) < self.n_levels
    }

    fn part(&self, data: &CategoricalData, row: usize, _: usize) -> CellPart {
        data.code(row).map(f64::from).into()
    }

    fn n_levels(&self, _: usize) -> Option<usize> {
        Some(self.n_levels)
    }

    fn cell_key(&self, data: &CategoricalData, row: usize) -> Option<u64> {
        Some(u64::from(data.codes[row]))
    }

    fn initial(&self, rng: &mut Xoshiro256PlusPlus) -> CategoricalParams {
        CategoricalParams {
            concentration: Self::prior_concentration(rng),
            ln_theta: ClusterTable::new(self.n_levels + 1),
            theta: ClusterTable::new(self.n_levels + 1),
        }
    }

    fn update(
        &self,
        data: &CategoricalData,
        labels: &[u32],
        params: &mut CategoricalParams,
        pool: &mut Vec<Vec<u64>>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        self.tally(data, labels, params, pool);
        self.move_concentration(&mut params.concentration, pool, rng);
        for cluster in 0..params.n_clusters() {
            self.draw(params, cluster, &pool[cluster], rng);
        }
    }

    fn ln_likelihoods(
        &self,
        data: &CategoricalData,
        params: &CategoricalParams,
        rows: Range<usize>,
        n_clusters: usize,
        _: RowLabels<'_>,
        out: &mut [f64],
    ) {
        look_up(&params.ln_theta, &data.codes[rows], n_clusters, out);
    }

    fn likelihoods(
        &self,
        data: &CategoricalData,
        params: &CategoricalParams,
        rows: Range<usize>,
        n_clusters: usize,
        _: RowLabels<'_>,
        out: &mut [f64],
    ) -> f64 {
        look_up(&params.theta, &data.codes[rows], n_clusters, out);
        0.0
    }

    fn is_collapsed(&self, _: &CategoricalData) -> bool {
        true
    }

    fn no_stats(&self) -> Vec<u64> {
        vec![0; self.n_levels]
    }

    fn clear(&self, stats: &mut Vec<u64>) {
        stats.fill(0);
    }

    fn add(&self, stats: &mut Vec<u64>, data: &CategoricalData, row: usize) {
        stats[data.codes[row] as usize] += 1;
    }

    fn merge(&self, stats: &mut Vec<u64>, other: &Vec<u64>) {
        stats.iter_mut().zip(other).for_each(|(n, m)| *n += m);
    }

    fn ln_evidence(&self, params: &CategoricalParams, stats: &Vec<u64>) -> f64 {
        self.ln_evidence_at(params.concentration, stats)
    }

    fn ln_predictive(
        &self,
        params: &CategoricalParams,
        stats: &Vec<u64>,
        data: &CategoricalData,
        row: usize,
    ) -> f64 {
        let (a, n) = (params.concentration, stats.iter().sum::<u64>());
        let seen = stats[data.codes[row] as usize] as f64;
        ((a + seen) / (a * self.n_levels as f64 + n as f64)).ln()
    }

    fn draw(
        &self,
        params: &mut CategoricalParams,
        cluster: usize,
        stats: &Vec<u64>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let counts = stats.iter().map(|&n| n as f64);
        let ln_theta = self.draw_ln_theta(params.concentration, counts, rng);
        for (level, ln) in ln_theta.into_iter().enumerate() {
            params.ln_theta.set(level, cluster, ln);
            // Not 0: a row always has some cluster with a positive number.
            params.theta.set(level, cluster, ln.exp().max(1e-200));
        }
        params.theta.set(self.n_levels, cluster, 1.0);
    }

    fn simulate(
        &self,
        params: &CategoricalParams,
        labels: &[u32],
        data: &mut CategoricalData,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        for (row, &label) in labels.iter().enumerate() {
            if self.is_observed(data, row) {
                data.codes[row] = self.pick(params, label as usize, rng);
            }
        }
    }

    fn check(&self, params: &CategoricalParams) -> Result<(), String> {
        let CategoricalParams {
            concentration,
            ln_theta,
            theta,
        } = params;
        Self::new(self.n_levels).map_err(|e| format!("category: {e}"))?;
        if !(*concentration > 0.0 && concentration.is_finite()) {
            return Err(format!("category concentration {concentration}"));
        }
        let of_missing =
            |level: usize, x: f64, expected: f64| level < self.n_levels || x == expected;
        theta.check("category probabilities", self.n_levels + 1, |level, p| {
            (0.0..=1.0 + 1e-9).contains(&p) && of_missing(level, p, 1.0)
        })?;
        ln_theta.check("category probabilities", self.n_levels + 1, |level, ln| {
            (f64::MIN..=1e-9).contains(&ln) && of_missing(level, ln, 0.0)
        })?;
        match theta.n_clusters() == ln_theta.n_clusters() {
            true => Ok(()),
            false => Err("category probabilities: sizes do not agree".to_owned()),
        }
    }
}

impl Categorical {
    /// Draws a level.
    pub(super) fn pick(
        &self,
        params: &CategoricalParams,
        cluster: usize,
        rng: &mut Xoshiro256PlusPlus,
    ) -> u32 {
        let mut left: f64 = rng.random();
        let mut last = 0;
        for level in 0..self.n_levels {
            let p = params.probability(level, cluster);
            if p > 0.0 {
                last = level;
                left -= p;
                if left < 0.0 {
                    break;
                }
            }
        }
        last as u32
    }
}

/// Copies the row of a table that belongs to each code.
fn look_up(table: &ClusterTable, codes: &[u32], n_clusters: usize, out: &mut [f64]) {
    for (out, &code) in out.chunks_exact_mut(n_clusters).zip(codes) {
        out.copy_from_slice(table.row(code as usize, n_clusters));
    }
}
