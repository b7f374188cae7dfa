//! The variational posterior of everything but the rows' own factors.

use npb_infer::parallel;
use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite};
use npb_priors::dist::{Gamma, NormalGamma};
use npb_priors::dp::StickFactor;
use serde::{Deserialize, Serialize};

use crate::state::{expect, finite, positive};
use crate::{Expert, FactorConfig, Result};

/// `q(theta_p, psi_p)` of every feature, `theta_p = [a_p; mu_1p .. mu_Kp]` of length `D = L + K`:
/// `psi_p ~ Gamma(shape_p, rate_p)`, `theta_p | psi_p ~ N(mean_p, V_p / psi_p)`, with one `V` for all features that the same rows miss.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FeatureFactor {
    /// P x D: loadings, then the clusters' means.
    #[serde(with = "npb_linalg::saved")]
    pub mean: Mat<f64>,
    /// Length P.
    pub shape: Vec<f64>,
    /// Length P.
    pub rate: Vec<f64>,
    /// `V` of each missing pattern of features, D x D.
    #[serde(with = "npb_linalg::saved::vec")]
    pub covariance: Vec<Mat<f64>>,
    /// Missing pattern of each feature: of the rows that miss it.
    pub pattern: Vec<usize>,
    /// Kept with the rest, since to find it again from the covariances gives other last bits.
    pub(crate) derived: Derived,
}

impl FeatureFactor {
    /// Checks sizes and ranges: `p` features, `d` coordinates.
    fn check(&self, p: usize, d: usize) -> Result<()> {
        let means = self.mean.shape() == (p, d) && all_finite(&self.mean);
        expect(means, "loadings")?;
        for values in [&self.shape, &self.rate] {
            let possible = values.len() == p && values.iter().all(|v| positive(*v));
            expect(possible, "noise precision")?;
        }
        let patterns = self.covariance.len();
        let known = self.pattern.len() == p && self.pattern.iter().all(|&g| g < patterns);
        expect(known, "missing patterns of features")?;
        let definite = self.covariance.iter().all(|v| definite(v, d));
        expect(definite, "covariance of the loadings")?;
        let derived = self.derived.fits(patterns, d);
        expect(derived, "precision of the loadings")
    }
}

/// What follows from `V`, by missing pattern of features.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Derived {
    /// `ln|V|`.
    pub(crate) ln_det: Vec<f64>,
    /// Diagonal of `V^-1`.
    pub(crate) precision: Vec<Vec<f64>>,
}

impl Derived {
    pub(crate) fn new(covariance: &[Mat<f64>]) -> Result<Self, NotPositiveDefinite> {
        let each: Vec<(f64, Vec<f64>)> = parallel::try_map(covariance, |v| {
            let factor = Cholesky::new(v.as_ref())?;
            let inverse = factor.inverse();
            Ok((factor.ln_det(), diagonal(&inverse)))
        })?;
        let (ln_det, precision) = each.into_iter().unzip();
        Ok(Self { ln_det, precision })
    }

    /// Whether it may be of so many missing patterns of features in `d` coordinates.
    pub(crate) fn fits(&self, patterns: usize, d: usize) -> bool {
        let possible = |of: &Vec<f64>| of.len() == d && of.iter().all(|v| positive(*v));
        let lengths = [self.ln_det.len(), self.precision.len()];
        lengths == [patterns; 2] && finite(&self.ln_det) && self.precision.iter().all(possible)
    }
}

/// One variational posterior, in the standardised units of the fit. Only clusters with rows and columns of the loadings that some cluster uses are
/// kept: all others are at their priors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FactorState {
    /// `q(V), q(alpha)`.
    pub sticks: StickFactor,
    /// `b_hl`: for each of the K clusters, which of the L columns it uses.
    pub indicators: Vec<Vec<bool>>,
    /// `q(theta, psi)`.
    pub features: FeatureFactor,
    /// `q(gamma_l)`, length L.
    pub loading_precisions: Vec<Gamma>,
    /// `q(u)`.
    pub mean_precision: Gamma,
    /// `q(kappa_h)`, length K; empty when all are fixed at 1.
    pub noise: Vec<Gamma>,
    /// `q(w)` over the L factors and, last, the intercept; coordinates of factors that the cluster does not use are zero, follow the shared prior and cost nothing. For each of the K clusters one for each utility (one with two classes, C - 1 with C of them); empty when no row has a label.
    pub experts: Vec<Expert>,
    /// `q(zeta_l, lambda_l)` of the L factors and, last, the intercept, for each utility in turn.
    pub expert_prior: Vec<NormalGamma>,
    /// Locations of `q(t_i)`, normals with variance 1 cut to the region of the row's class: by row, then utility; 0 for an unlabelled row.
    pub utility_means: Vec<f64>,
}

impl FactorState {
    /// K.
    pub fn n_clusters(&self) -> usize {
        self.indicators.len()
    }

    /// L.
    pub fn n_factors(&self) -> usize {
        self.loading_precisions.len()
    }

    /// Experts of each cluster.
    pub(crate) fn n_utilities(&self) -> usize {
        self.experts.len() / self.n_clusters().max(1)
    }

    /// The experts of cluster `h`.
    pub(crate) fn experts_of(&self, h: usize) -> &[Expert] {
        let n = self.n_utilities();
        &self.experts[h * n..][..n]
    }

    /// `q(zeta_l, lambda_l)` of utility `k`.
    pub(crate) fn expert_prior_of(&self, k: usize) -> &[NormalGamma] {
        let width = self.n_factors() + 1;
        &self.expert_prior[k * width..][..width]
    }

    /// Columns that cluster `h` uses.
    pub fn used(&self, h: usize) -> Vec<usize> {
        let all = 0..self.n_factors();
        all.filter(|&l| self.indicators[h][l]).collect()
    }

    /// `<kappa_h>` and `<ln kappa_h>`.
    pub(crate) fn noise_moments(&self, h: usize) -> (f64, f64) {
        let noise = self.noise.get(h);
        noise.map_or((1.0, 0.0), |g| (g.mean(), g.mean_ln()))
    }

    /// Prior precisions of `theta_p` in units of the noise: means, and means of the logarithms.
    pub(crate) fn prior_precisions(&self) -> (Vec<f64>, Vec<f64>) {
        let means = vec![&self.mean_precision; self.n_clusters()];
        let each = self.loading_precisions.iter().chain(means);
        each.map(|g| (g.mean(), g.mean_ln())).unzip()
    }

    /// Keeps the clusters and columns named, in that order. What is not kept returns to its prior.
    pub(crate) fn select(&mut self, clusters: &[usize], columns: &[usize]) {
        let n_factors = self.n_factors();
        let of_cluster = |&h: &usize| self.experts_of(h).to_vec();
        let experts: Vec<Expert> = clusters.iter().flat_map(of_cluster).collect();
        let means = clusters.iter().map(|h| n_factors + h);
        let kept: Vec<usize> = columns.iter().copied().chain(means).collect();
        let used = |&h: &usize| columns.iter().map(|&l| self.indicators[h][l]).collect();
        self.indicators = clusters.iter().map(used).collect();
        let features = &mut self.features;
        features.mean = Mat::from_fn(features.mean.nrows(), kept.len(), |p, k| {
            features.mean[(p, kept[k])]
        });
        for v in &mut features.covariance {
            *v = submatrix(v, &kept);
        }
        let precisions = columns.iter().map(|&l| self.loading_precisions[l]);
        self.loading_precisions = precisions.collect();
        if !self.noise.is_empty() {
            self.noise = clusters.iter().map(|&h| self.noise[h]).collect();
        }
        let with_intercept: Vec<usize> = columns.iter().copied().chain([n_factors]).collect();
        let n_utilities = self.expert_prior.len() / (n_factors + 1);
        let of_utility = |k: usize| with_intercept.iter().map(move |l| k * (n_factors + 1) + l);
        let places = (0..n_utilities).flat_map(of_utility);
        self.expert_prior = places.map(|place| self.expert_prior[place]).collect();
        let expert = |old: &Expert| Expert {
            at_prior: old.at_prior,
            mean: with_intercept.iter().map(|&l| old.mean[l]).collect(),
            covariance: submatrix(&old.covariance, &with_intercept),
        };
        self.experts = experts.iter().map(expert).collect();
    }

    /// Checks sizes and ranges, for a state that comes from a file: `p` features, so many utilities (0: no classifier).
    pub(crate) fn check(&self, p: usize, n_utilities: usize, config: &FactorConfig) -> Result<()> {
        let (k, l) = (self.n_clusters(), self.n_factors());
        let clusters = k >= 1 && k <= config.truncation;
        let truncation = self.sticks.truncation() == config.truncation;
        expect(clusters && truncation, "number of clusters")?;
        expect(l <= config.max_factors, "number of factors")?;
        expect(self.indicators.iter().all(|b| b.len() == l), "indicators")?;
        self.features.check(p, k + l)?;
        let n_noise = if config.cluster_noise > 0.0 { k } else { 0 };
        expect(self.noise.len() == n_noise, "noise of the clusters")?;
        expect(self.experts.len() == k * n_utilities, "number of experts")?;
        let width = n_utilities.max(1) * (l + 1);
        expect(self.expert_prior.len() == width, "expert prior")?;
        for (
            i,
            Expert {
                mean, covariance, ..
            },
        ) in self.experts.iter().enumerate()
        {
            let own = self.expert_coordinates(i / n_utilities);
            expect(mean.len() == l + 1 && finite(mean), "expert mean")?;
            let fits = covariance.shape() == (l + 1, l + 1)
                && all_finite(covariance)
                && definite(&submatrix(covariance, &own), own.len());
            expect(fits, "expert covariance")?;
        }
        let mut of_cluster = self.experts.chunks(n_utilities.max(1));
        let alike = |experts: &[Expert]| experts.iter().all(|e| e.at_prior == experts[0].at_prior);
        expect(of_cluster.all(alike), "experts at the prior")?;
        expect(finite(&self.utility_means), "utility means")
    }

    /// Coordinates of cluster `h`'s expert: the columns that it uses, and the intercept.
    pub(crate) fn expert_coordinates(&self, h: usize) -> Vec<usize> {
        let mut own = self.used(h);
        own.push(self.n_factors());
        own
    }
}

/// The expert of coordinates `own`, at `prior`.
pub(crate) fn at_prior(prior: &[NormalGamma], own: &[usize]) -> Expert {
    let n = prior.len();
    let mut expert = Expert {
        at_prior: true,
        mean: vec![0.0; n],
        covariance: Mat::zeros(n, n),
    };
    for &l in own {
        let law = &prior[l];
        expert.mean[l] = law.mean();
        expert.covariance[(l, l)] = (1.0 + 1.0 / law.strength()) / law.precision().mean();
    }
    expert
}

pub(crate) fn all_finite(matrix: &Mat<f64>) -> bool {
    (0..matrix.ncols()).all(|j| finite(matrix.col_as_slice(j)))
}

fn definite(matrix: &Mat<f64>, n: usize) -> bool {
    matrix.shape() == (n, n) && all_finite(matrix) && Cholesky::new(matrix.as_ref()).is_ok()
}

/// The rows and columns named, in that order.
pub(crate) fn submatrix(matrix: &Mat<f64>, kept: &[usize]) -> Mat<f64> {
    let mut part = Mat::zeros(kept.len(), kept.len());
    for (j, &from) in kept.iter().enumerate() {
        let from = matrix.col_as_slice(from);
        for (to, &i) in part.col_as_slice_mut(j).iter_mut().zip(kept) {
            *to = from[i];
        }
    }
    part
}

fn diagonal(matrix: &Mat<f64>) -> Vec<f64> {
    (0..matrix.ncols()).map(|j| matrix[(j, j)]).collect()
}
