//! `q(s_i, z_i)` of every row.

use npb_data::{Pattern, PatternIndex};
use npb_infer::parallel;
use npb_linalg::faer::linalg::matmul::triangular::{self, BlockStructure};
use npb_linalg::faer::{Accum, Mat, Par};
use npb_linalg::{Cholesky, NotPositiveDefinite, dot};
use npb_priors::special::ln_normalize;

use super::data::RowLabels;
use super::forms::{Forms, add};
use super::state::{FactorState, submatrix};
use crate::Expert;
use crate::bound::{bilinear, trace_product};

/// Responsibilities below this are set to zero: the cluster is not active in the row.
const INACTIVE: f64 = 1e-20;

/// A cluster's experts, one for each utility, over the columns that it uses.
#[derive(Clone, Debug)]
pub(crate) struct ExpertMoments {
    /// `<w_s>`, by utility.
    pub(crate) slopes: Vec<Vec<f64>>,
    /// `<w_b>`, by utility.
    pub(crate) intercepts: Vec<f64>,
    /// `<w_s w_s'>`, summed over utilities, as are the others.
    pub(crate) slope_second: Mat<f64>,
    /// `<w_s w_b>`.
    pub(crate) slope_intercept: Vec<f64>,
    /// `<w_b^2>`.
    pub(crate) intercept_second: f64,
}

impl ExpertMoments {
    /// `second(k, i, j)`: `<w_i w_j>` of utility `k`.
    pub(crate) fn new(
        means: &[&[f64]],
        used: &[usize],
        second: impl Fn(usize, usize, usize) -> f64,
    ) -> Self {
        let b = means[0].len() - 1;
        let sum = |i: usize, j: usize| (0..means.len()).map(|k| second(k, i, j)).sum::<f64>();
        let slope = |mean: &&[f64]| used.iter().map(|&l| mean[l]).collect();
        Self {
            slopes: means.iter().map(slope).collect(),
            intercepts: means.iter().map(|mean| mean[b]).collect(),
            slope_second: Mat::from_fn(used.len(), used.len(), |i, j| sum(used[i], used[j])),
            slope_intercept: used.iter().map(|&l| sum(l, b)).collect(),
            intercept_second: sum(b, b),
        }
    }

    /// Of experts with posteriors.
    fn of_posteriors(experts: &[Expert], used: &[usize]) -> Self {
        let means: Vec<&[f64]> = experts.iter().map(|expert| &expert.mean[..]).collect();
        Self::new(&means, used, |k, i, j| {
            let expert = &experts[k];
            expert.covariance[(i, j)] + expert.mean[i] * expert.mean[j]
        })
    }

    /// `<w'[s; 1]>` of utility `k`.
    pub(crate) fn score(&self, k: usize, s: &[f64]) -> f64 {
        dot(&self.slopes[k], s) + self.intercepts[k]
    }
}

/// A cluster as the rows see it.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// Columns that it uses.
    pub(crate) used: Vec<usize>,
    /// Coordinate of its mean.
    pub(crate) mean: usize,
    /// `<kappa_h>`.
    pub(crate) noise: f64,
    /// `<ln kappa_h>`.
    pub(crate) ln_noise: f64,
    /// `<ln pi_h>`.
    pub(crate) ln_weight: f64,
    /// None without labels, and when no labelled row is in the cluster: it then takes none, its expert knows nothing of them.
    pub(crate) expert: Option<ExpertMoments>,
}

/// `N(., covariance)` of a row's factors given its cluster, without its mean.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    /// S, over the columns that the cluster uses.
    pub(crate) covariance: Mat<f64>,
    /// `ln|S|`.
    pub(crate) ln_det: f64,
}

/// A gram over the columns that a cluster uses, and its mean.
pub(crate) struct OwnGram {
    factors: Mat<f64>,
    /// Between these and the mean.
    cross: Vec<f64>,
    /// Of the mean.
    mean: f64,
}

impl Cluster {
    /// Without an expert.
    pub(crate) fn new(
        state: &FactorState,
        h: usize,
        (noise, ln_noise): (f64, f64),
        ln_weight: f64,
    ) -> Self {
        Self {
            used: state.used(h),
            mean: state.n_factors() + h,
            noise,
            ln_noise,
            ln_weight,
            expert: None,
        }
    }

    /// As the state has it, one by one.
    pub(crate) fn all(state: &FactorState) -> Vec<Self> {
        let mut ln_weights = vec![0.0; state.sticks.truncation()];
        state.sticks.expected_ln_weights(&mut ln_weights);
        let cluster = |h: usize| {
            let own = Self::new(state, h, state.noise_moments(h), ln_weights[h]);
            let experts = state.experts_of(h);
            let free = experts.first().is_some_and(|expert| !expert.at_prior);
            Self {
                expert: free.then(|| ExpertMoments::of_posteriors(experts, &own.used)),
                ..own
            }
        };
        (0..state.n_clusters()).map(cluster).collect()
    }

    /// The part of a gram that the cluster sees.
    pub(crate) fn own_gram(&self, gram: &Mat<f64>) -> OwnGram {
        OwnGram {
            factors: submatrix(gram, &self.used),
            cross: self.used.iter().map(|&l| gram[(l, self.mean)]).collect(),
            mean: gram[(self.mean, self.mean)],
        }
    }

    /// Precision of the factors of rows with this gram.
    fn precision(&self, gram: &OwnGram, labelled: bool) -> Mat<f64> {
        let expert = self.expert.as_ref().filter(|_| labelled);
        let mut precision = Mat::zeros(self.used.len(), self.used.len());
        add(&mut precision, self.noise, &gram.factors);
        if let Some(expert) = expert {
            add(&mut precision, 1.0, &expert.slope_second);
        }
        for k in 0..self.used.len() {
            precision[(k, k)] += 1.0;
        }
        precision
    }

    pub(crate) fn spread(
        &self,
        gram: &OwnGram,
        labelled: bool,
    ) -> Result<Spread, NotPositiveDefinite> {
        let factor = Cholesky::new(self.precision(gram, labelled).as_ref())?;
        Ok(Spread {
            covariance: factor.inverse(),
            ln_det: -factor.ln_det(),
        })
    }

    /// `tr(G S)`, `tr(<ww'> S)` and `tr(S)`.
    fn traces(&self, gram: &OwnGram, spread: &Spread) -> [f64; 3] {
        let s = &spread.covariance;
        let expert = self.expert.as_ref();
        [
            trace_product(&gram.factors, s),
            expert.map_or(0.0, |e| trace_product(&e.slope_second, s)),
            (0..s.ncols()).map(|j| s[(j, j)]).sum(),
        ]
    }

    /// The linear part of the exponent of a row's factors; `label`: its `<t>`, by utility.
    fn pull(&self, gram: &OwnGram, linear: &[f64], label: Option<&[f64]>) -> Vec<f64> {
        let each = self.used.iter().zip(&gram.cross);
        let mut pull: Vec<f64> = each.map(|(&l, g)| self.noise * (linear[l] - g)).collect();
        if let (Some(t), Some(expert)) = (label, &self.expert) {
            for (k, pull) in pull.iter_mut().enumerate() {
                let each = t.iter().zip(&expert.slopes);
                let of_label: f64 = each.map(|(t, slope)| t * slope[k]).sum();
                *pull += of_label - expert.slope_intercept[k];
            }
        }
        pull
    }

    /// Mean of a row's factors.
    pub(crate) fn locate(
        &self,
        spread: &Spread,
        gram: &OwnGram,
        linear: &[f64],
        label: Option<&[f64]>,
    ) -> Vec<f64> {
        multiply(&spread.covariance, &self.pull(gram, linear, label))
    }

    /// The part of the exponent of row `i` that does not depend on its factors.
    fn constant(&self, forms: &Forms, i: usize, gram: &OwnGram, label: Option<&[f64]>) -> f64 {
        let square = forms.squares[i] - 2.0 * forms.linear[(self.mean, i)] + gram.mean;
        let of_label = match (label, &self.expert) {
            (Some(t), Some(e)) => dot(t, &e.intercepts) - 0.5 * e.intercept_second,
            _ => 0.0,
        };
        self.ln_weight
            + 0.5 * (forms.ln_noise[i] + forms.counts[i] * self.ln_noise - self.noise * square)
            + of_label
    }

    /// Mean of the factors of row `i`, and `ln` of the exponential of all its terms, the factors integrated out.
    pub(crate) fn posterior(
        &self,
        forms: &Forms,
        i: usize,
        gram: &OwnGram,
        label: Option<&[f64]>,
        spread: &Spread,
    ) -> (Vec<f64>, f64) {
        let pull = self.pull(gram, forms.linear.col_as_slice(i), label);
        let location = multiply(&spread.covariance, &pull);
        let of_factors = 0.5 * (dot(&pull, &location) + spread.ln_det);
        let ln_evidence = self.constant(forms, i, gram, label) + of_factors;
        (location, ln_evidence)
    }

    /// `<squares - 2 linear'f + f'G f>` of row `i`, given `tr(G S)` over the columns that the cluster uses.
    pub(crate) fn expected_square(
        &self,
        forms: &Forms,
        i: usize,
        gram: &OwnGram,
        s: &[f64],
        trace: f64,
    ) -> f64 {
        let linear = forms.linear.col_as_slice(i);
        let each = self.used.iter().zip(&gram.cross).zip(s);
        let crossed: f64 = each.map(|((&l, g), s)| s * (g - linear[l])).sum();
        forms.squares[i] - 2.0 * linear[self.mean]
            + gram.mean
            + trace
            + quadratic(&gram.factors, s)
            + 2.0 * crossed
    }
}

/// What a row adds to the bound given its cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowTerms {
    /// `<sum psi (x - theta'f)^2>`.
    pub(crate) square: f64,
    /// `<(w'f)^2>`, summed over utilities.
    pub(crate) score_second: f64,
    /// `<ln p(s)>` and the entropy of `q(s)`.
    pub(crate) factors: f64,
}

/// `q(s_i, z_i)` of every row.
#[derive(Clone, Debug)]
pub(crate) struct RowFactors {
    pub(crate) n_clusters: usize,
    /// By row, then by cluster.
    pub(crate) responsibilities: Vec<f64>,
    /// By cluster: means of the factors that it uses, rows as columns.
    pub(crate) means: Vec<Mat<f64>>,
    /// By missing pattern, then unlabelled and labelled rows, then by cluster; none where no row is in the cluster.
    pub(crate) spreads: Vec<[Vec<Option<Spread>>; 2]>,
}

/// The rows of one missing pattern.
struct PatternRows {
    /// By row of the pattern, then by cluster.
    rows: Vec<Vec<(f64, Vec<f64>)>>,
    spreads: [Vec<Option<Spread>>; 2],
}

/// Rows with their labels.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) patterns: &'a [Pattern],
    pub(crate) forms: &'a Forms,
    pub(crate) labels: &'a RowLabels,
    /// `<t_i>`: row, utility.
    pub(crate) soft: &'a [f64],
}

impl Rows<'_> {
    fn label(&self, i: usize) -> Option<&[f64]> {
        let labelled = self.labels.is_labelled(i);
        labelled.then(|| self.labels.of_row(self.soft, i))
    }

    /// The optimal factors; `fixed`: responsibilities that stay as they are, by row, then by cluster.
    ///
    /// On failure: the cluster whose precision is not positive definite.
    pub(crate) fn solve(
        &self,
        clusters: &[Cluster],
        fixed: Option<&[f64]>,
    ) -> Result<RowFactors, (usize, NotPositiveDefinite)> {
        let patterns = self.patterns.iter().zip(&self.forms.grams);
        let solved: Vec<PatternRows> = parallel::try_map(patterns, |(pattern, gram)| {
            self.solve_pattern(&pattern.rows, gram, clusters, fixed)
        })?;
        let (n, n_clusters) = (self.labels.class.len(), clusters.len());
        let means = clusters.iter().map(|c| Mat::zeros(c.used.len(), n));
        let mut factors = RowFactors {
            n_clusters,
            responsibilities: vec![0.0; n * n_clusters],
            means: means.collect(),
            spreads: Vec::with_capacity(solved.len()),
        };
        for (pattern, solved) in self.patterns.iter().zip(solved) {
            for (&i, row) in pattern.rows.iter().zip(solved.rows) {
                for (h, (responsibility, mean)) in row.into_iter().enumerate() {
                    factors.responsibilities[i * n_clusters + h] = responsibility;
                    if responsibility > 0.0 {
                        factors.means[h].col_as_slice_mut(i).copy_from_slice(&mean);
                    }
                }
            }
            factors.spreads.push(solved.spreads);
        }
        Ok(factors)
    }

    fn solve_pattern(
        &self,
        members: &[usize],
        gram: &Mat<f64>,
        clusters: &[Cluster],
        fixed: Option<&[f64]>,
    ) -> Result<PatternRows, (usize, NotPositiveDefinite)> {
        let n = clusters.len();
        let grams: Vec<OwnGram> = clusters.iter().map(|c| c.own_gram(gram)).collect();
        let active = |i: usize, h: usize| fixed.is_none_or(|rho| rho[i * n + h] > 0.0);
        let mut spreads = [vec![None; n], vec![None; n]];
        let of_kind = |kind: usize, i: &usize| self.labels.is_labelled(*i) == (kind == 1);
        for (kind, spreads) in spreads.iter_mut().enumerate() {
            for (h, cluster) in clusters.iter().enumerate() {
                let mut members = members.iter().filter(|i| of_kind(kind, i));
                if members.any(|&i| active(i, h)) {
                    let spread = cluster.spread(&grams[h], kind == 1);
                    spreads[h] = Some(spread.map_err(|source| (h, source))?);
                }
            }
        }
        let classifies = clusters.iter().any(|c| c.expert.is_some());
        let row = |&i: &usize| {
            let label = self.label(i);
            let spreads = &spreads[usize::from(label.is_some())];
            let mut logs = vec![f64::NEG_INFINITY; n];
            let mut means = vec![Vec::new(); n];
            for (h, cluster) in clusters.iter().enumerate() {
                let (Some(spread), true) = (&spreads[h], active(i, h)) else {
                    continue;
                };
                if label.is_some() && classifies && cluster.expert.is_none() && fixed.is_none() {
                    continue;
                }
                (means[h], logs[h]) = cluster.posterior(self.forms, i, &grams[h], label, spread);
            }
            let responsibilities = match fixed {
                Some(rho) => rho[i * n..][..n].to_vec(),
                None => normalised(logs),
            };
            responsibilities.into_iter().zip(means).collect()
        };
        let rows: Vec<Vec<(f64, Vec<f64>)>> = parallel::map(members, row);
        // Of clusters without rows nothing need be kept.
        for (kind, spreads) in spreads.iter_mut().enumerate() {
            for (h, spread) in spreads.iter_mut().enumerate() {
                let mut each = members.iter().zip(&rows).filter(|(i, _)| of_kind(kind, i));
                if !each.any(|(_, row)| row[h].0 > 0.0) {
                    *spread = None;
                }
            }
        }
        Ok(PatternRows { rows, spreads })
    }

    /// The terms of the bound of every row and cluster; zero where the cluster is not active.
    pub(crate) fn terms(&self, clusters: &[Cluster], factors: &RowFactors) -> Vec<RowTerms> {
        let n = clusters.len();
        let mut terms = vec![RowTerms::default(); self.labels.class.len() * n];
        let patterns = self.patterns.iter().enumerate();
        let by_pattern: Vec<Vec<RowTerms>> = parallel::map(patterns, |(k, pattern)| {
            self.pattern_terms(pattern, k, clusters, factors)
        });
        for (pattern, values) in self.patterns.iter().zip(by_pattern) {
            for (&i, row) in pattern.rows.iter().zip(values.chunks_exact(n)) {
                terms[i * n..][..n].copy_from_slice(row);
            }
        }
        terms
    }

    fn pattern_terms(
        &self,
        pattern: &Pattern,
        k: usize,
        clusters: &[Cluster],
        factors: &RowFactors,
    ) -> Vec<RowTerms> {
        let gram = &self.forms.grams[k];
        let grams: Vec<OwnGram> = clusters.iter().map(|c| c.own_gram(gram)).collect();
        let traces = |(h, spread): (usize, &Option<Spread>)| {
            let spread = spread.as_ref();
            spread.map_or([0.0; 3], |spread| clusters[h].traces(&grams[h], spread))
        };
        let of_kind = |spreads: &Vec<Option<Spread>>| -> Vec<[f64; 3]> {
            spreads.iter().enumerate().map(traces).collect()
        };
        let traces = factors.spreads[k].each_ref().map(of_kind);
        let term = |(i, h): (usize, usize)| {
            let kind = usize::from(self.labels.is_labelled(i));
            let Some(spread) = &factors.spreads[k][kind][h] else {
                return RowTerms::default();
            };
            if factors.responsibility(i, h) == 0.0 {
                return RowTerms::default();
            }
            let (cluster, s) = (&clusters[h], factors.means[h].col_as_slice(i));
            let [gram_trace, expert_trace, trace] = traces[kind][h];
            let mut score_second = 0.0;
            if let (1, Some(expert)) = (kind, &cluster.expert) {
                score_second = expert_trace
                    + quadratic(&expert.slope_second, s)
                    + 2.0 * dot(&expert.slope_intercept, s)
                    + expert.intercept_second;
            }
            RowTerms {
                square: cluster.expected_square(self.forms, i, &grams[h], s, gram_trace),
                score_second,
                factors: 0.5 * (s.len() as f64 + spread.ln_det - trace - dot(s, s)),
            }
        };
        let each = pattern.rows.iter();
        let each = each.flat_map(|&i| (0..clusters.len()).map(move |h| (i, h)));
        each.map(term).collect()
    }
}

impl RowFactors {
    pub(crate) fn responsibility(&self, i: usize, h: usize) -> f64 {
        self.responsibilities[i * self.n_clusters + h]
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.responsibilities.len() / self.n_clusters
    }

    /// `N_h`.
    pub(crate) fn counts(&self) -> Vec<f64> {
        let mut counts = vec![0.0; self.n_clusters];
        for row in self.responsibilities.chunks_exact(self.n_clusters) {
            let each = counts.iter_mut().zip(row);
            each.for_each(|(sum, rho)| *sum += rho);
        }
        counts
    }

    /// `sum rho <[s; 1] [s; 1]'>` of one cluster over the rows named, lower triangle.
    pub(crate) fn second(
        &self,
        patterns: &PatternIndex,
        labels: &RowLabels,
        rows: &[usize],
        h: usize,
    ) -> Mat<f64> {
        let members = rows.iter().copied();
        let members: Vec<usize> = members
            .filter(|&i| self.responsibility(i, h) > 0.0)
            .collect();
        let k = self.means[h].nrows();
        let mut weighted = Mat::zeros(k + 1, members.len());
        let mut shared = vec![[0.0; 2]; patterns.len()];
        for (at, &i) in members.iter().enumerate() {
            let rho = self.responsibility(i, h);
            let root = rho.sqrt();
            let column = weighted.col_as_slice_mut(at);
            for (to, s) in column.iter_mut().zip(self.means[h].col_as_slice(i)) {
                *to = root * s;
            }
            column[k] = root;
            shared[patterns.pattern_of_row(i)][usize::from(labels.is_labelled(i))] += rho;
        }
        let mut sum = Mat::zeros(k + 1, k + 1);
        triangular::matmul(
            sum.as_mut(),
            BlockStructure::TriangularLower,
            Accum::Replace,
            weighted.as_ref(),
            BlockStructure::Rectangular,
            weighted.transpose(),
            BlockStructure::Rectangular,
            1.0,
            Par::Seq,
        );
        for (weights, spreads) in shared.iter().zip(&self.spreads) {
            for (&weight, spreads) in weights.iter().zip(spreads) {
                let (true, Some(spread)) = (weight > 0.0, &spreads[h]) else {
                    continue;
                };
                for j in 0..k {
                    let column = sum.col_as_slice_mut(j)[j..k].iter_mut();
                    for (to, from) in column.zip(&spread.covariance.col_as_slice(j)[j..]) {
                        *to += weight * from;
                    }
                }
            }
        }
        sum
    }

    /// Keeps the clusters `order`, in that order; the others have no rows.
    pub(crate) fn select(&mut self, order: &[usize]) {
        let n = self.n_clusters;
        let rows = self.responsibilities.chunks_exact(n);
        let kept = rows.flat_map(|row| order.iter().map(|&h| row[h]));
        self.responsibilities = kept.collect();
        self.means = order.iter().map(|&h| self.means[h].clone()).collect();
        for spreads in self.spreads.iter_mut().flatten() {
            *spreads = order.iter().map(|&h| spreads[h].clone()).collect();
        }
        self.n_clusters = order.len();
    }
}

/// Weights proportional to exponentials, those too small set to zero.
fn normalised(mut logs: Vec<f64>) -> Vec<f64> {
    ln_normalize(&mut logs);
    let small = logs.iter_mut().filter(|w| **w < INACTIVE);
    small.for_each(|w| *w = 0.0);
    logs
}

/// What the experts say of each labelled row, on average over clusters: row, utility; 0 for the other rows.
pub(crate) fn scores(labels: &RowLabels, clusters: &[Cluster], factors: &RowFactors) -> Vec<f64> {
    let n_utilities = labels.n_utilities;
    let mut scores = vec![0.0; labels.class.len() * n_utilities];
    for i in labels.labelled() {
        let of_row = &mut scores[i * n_utilities..][..n_utilities];
        for (h, cluster) in clusters.iter().enumerate() {
            let rho = factors.responsibility(i, h);
            if let (true, Some(expert)) = (rho > 0.0, &cluster.expert) {
                let s = factors.means[h].col_as_slice(i);
                for (k, score) in of_row.iter_mut().enumerate() {
                    *score += rho * expert.score(k, s);
                }
            }
        }
    }
    scores
}

/// Covariance of scores with these slopes by the spread of the factors, row-major.
pub(crate) fn shared(slopes: &[&[f64]], spread: &Mat<f64>) -> Vec<f64> {
    let carried = slopes.iter().map(|slope| multiply(spread, slope));
    let of_pair = |carried: Vec<f64>| -> Vec<f64> {
        slopes.iter().map(|slope| dot(slope, &carried)).collect()
    };
    carried.flat_map(of_pair).collect()
}

/// `M x` for a symmetric matrix.
pub(crate) fn multiply(m: &Mat<f64>, x: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; x.len()];
    for (j, x) in x.iter().enumerate() {
        for (sum, m) in product.iter_mut().zip(m.col_as_slice(j)) {
            *sum += m * x;
        }
    }
    product
}

/// `x' M x`.
pub(crate) fn quadratic(m: &Mat<f64>, x: &[f64]) -> f64 {
    bilinear(m, x, x)
}
