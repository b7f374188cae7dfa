//! The variational posterior of everything but the rows' own missing values.

use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite};
use npb_priors::ParameterError;
use npb_priors::dist::{Gamma, NormalGamma, NormalWishart, Wishart};
use npb_priors::dp::StickFactor;

use serde::{Deserialize, Serialize};

use crate::stats::SufficientStats;
use crate::{IqgmeError, Result};

/// `q(mu_h, Lambda_h)`: `mu | Lambda ~ N(mean, (strength Lambda)^-1)`, `Lambda ~ W(scale_inverse^-1, dof)`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Component {
    /// `m_h`, length P.
    pub mean: Vec<f64>,
    /// `u_h`.
    pub strength: f64,
    /// `nu_h`.
    pub dof: f64,
    /// `B_h^-1`, P x P.
    #[serde(with = "npb_linalg::saved")]
    pub scale_inverse: Mat<f64>,
}

/// `q(w_h) = N(mean, covariance)`; the intercept is the last entry.
///
/// An expert without labelled rows is at the prior that all experts share: `q(w_h | zeta, lambda) = p(w_h | zeta, lambda)`. Then `mean` and
/// `covariance` are location and scale of its marginal, a Student-t.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Expert {
    /// Whether it is at the shared prior.
    pub at_prior: bool,
    /// Length P + 1.
    pub mean: Vec<f64>,
    /// (P + 1) x (P + 1).
    #[serde(with = "npb_linalg::saved")]
    pub covariance: Mat<f64>,
}

/// `q(zeta_p, lambda_p)`: `zeta | lambda ~ N(mean_p, 1/(strength lambda))`, `lambda ~ Gamma(shape, rate_p)`, shared by the experts of all components.
///
/// With more than two classes each utility has its own: those of utility k at `k (P + 1)` and following.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExpertPrior {
    /// `phi_p`, length P + 1 for each utility.
    pub mean: Vec<f64>,
    /// `gamma`.
    pub strength: f64,
    /// `a_p`, the same for all p.
    pub shape: f64,
    /// `b_p`, length P + 1 for each utility.
    pub rate: Vec<f64>,
}

impl ExpertPrior {
    /// The law of `(zeta_p, lambda_p)`.
    pub(crate) fn law(&self, p: usize) -> NormalGamma {
        NormalGamma::new(self.mean[p], self.strength, self.shape, self.rate[p])
            .expect("sums of positive numbers, or checked when read from a file")
    }

    /// `q(zeta, lambda)` with this prior, given the free ones of some experts, as many for each component as there are utilities. Experts at the prior follow it and do not enter.
    pub(crate) fn given(&self, experts: &[Expert], n_utilities: usize) -> Self {
        let n_free = experts.iter().filter(|e| !e.at_prior).count() / n_utilities;
        let mut prior = self.clone();
        prior.strength += n_free as f64;
        prior.shape += 0.5 * n_free as f64;
        let width = prior.mean.len() / n_utilities;
        for i in 0..prior.mean.len() {
            let (k, p) = (i / width, i % width);
            let of_utility = experts.iter().skip(k).step_by(n_utilities);
            let free: Vec<&Expert> = of_utility.filter(|e| !e.at_prior).collect();
            let sum: f64 = free.iter().map(|e| e.mean[p]).sum();
            let square = |e: &&Expert| e.mean[p] * e.mean[p] + e.covariance[(p, p)];
            let squares: f64 = free.iter().map(square).sum();
            let mean = sum / prior.strength;
            prior.mean[i] = mean;
            prior.rate[i] += 0.5 * (squares - prior.strength * mean * mean);
        }
        prior
    }

    /// As [`given`](Self::given); the experts at the prior follow it. Itself where there are none.
    pub(crate) fn fitted(&self, experts: &mut [Expert], n_utilities: usize) -> Self {
        if experts.is_empty() {
            return self.clone();
        }
        let prior = self.given(experts, n_utilities);
        let at_prior = experts.iter_mut().enumerate().filter(|(_, e)| e.at_prior);
        at_prior.for_each(|(i, e)| *e = Expert::at_prior(&prior, i % n_utilities, n_utilities));
        prior
    }

    /// `<lambda_p>`.
    pub fn precision(&self, p: usize) -> f64 {
        self.shape / self.rate[p]
    }
}

/// One variational posterior, in the standardised units of the fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IqgmeState {
    /// `q(V), q(alpha)`.
    pub sticks: StickFactor,
    /// `q(mu, Lambda)`: the components that have rows, larger ones first, and one vacant component (unless the truncation is reached). All
    /// further components are vacant too: their posterior is the prior.
    pub components: Vec<Component>,
    /// `q(w)`: for each entry of `components` one for each utility (one with two classes, L - 1 with L of them); empty when no row has a label.
    pub experts: Vec<Expert>,
    /// `q(zeta, lambda)`.
    pub expert_prior: ExpertPrior,
    /// Locations `mu_i` of `q(t_i)`, normals with variance 1 cut to the region of the row's class: by row of the training table, then utility; 0
    /// for an unlabelled row.
    pub utility_means: Vec<f64>,
}

impl IqgmeState {
    /// Experts of each component.
    pub(crate) fn n_utilities(&self) -> usize {
        self.experts.len() / self.components.len().max(1)
    }

    /// Checks sizes and ranges, for a state that comes from a file: `p` features, so many utilities (0: no classifier).
    pub(crate) fn check(&self, p: usize, n_utilities: usize) -> Result<()> {
        let n = self.components.len();
        let possible = 1..=self.sticks.truncation();
        expect(possible.contains(&n), "number of components")?;
        expect(self.experts.len() == n * n_utilities, "number of experts")?;
        let prior = &self.expert_prior;
        check_atoms(&self.components, &self.experts, prior, p, n_utilities)?;
        expect(finite(&self.utility_means), "utility means")
    }
}

/// Checks components, experts and their prior that come from a file: `p` features.
pub(crate) fn check_atoms(
    components: &[Component],
    experts: &[Expert],
    prior: &ExpertPrior,
    p: usize,
    n_utilities: usize,
) -> Result<()> {
    for component in components {
        let Component { mean, dof, .. } = component;
        expect(mean.len() == p && finite(mean), "component mean")?;
        expect(positive(component.strength), "component strength")?;
        let proper = dof.is_finite() && *dof > p as f64 + 1.0;
        expect(proper, "component dof")?;
        square(&component.scale_inverse, p, "component scale")?;
    }
    check_experts(experts, p)?;
    let mut of_component = experts.chunks(n_utilities.max(1));
    let alike = |experts: &[Expert]| experts.iter().all(|e| e.at_prior == experts[0].at_prior);
    expect(of_component.all(alike), "experts at the prior")?;
    let size = n_utilities.max(1) * (p + 1);
    let means = prior.mean.len() == size && finite(&prior.mean);
    expect(means, "expert prior mean")?;
    let rates = prior.rate.len() == size && prior.rate.iter().all(|&r| positive(r));
    expect(rates, "expert prior rate")?;
    expect(positive(prior.shape) && positive(prior.strength), "prior")
}

/// Checks experts that come from a file: `p` features.
pub(crate) fn check_experts(experts: &[Expert], p: usize) -> Result<()> {
    experts.iter().try_for_each(|expert| {
        let fits = expert.mean.len() == p + 1 && finite(&expert.mean);
        expect(fits, "expert mean")?;
        square(&expert.covariance, p + 1, "expert covariance")
    })
}

/// What is wrong with something that comes from a file, unless it holds.
pub(crate) fn expect(holds: bool, what: &str) -> Result<()> {
    let wrong = || IqgmeError::saved(format!("{what}: impossible value or size"));
    holds.then_some(()).ok_or_else(wrong)
}

pub(crate) fn positive(x: f64) -> bool {
    x.is_finite() && x > 0.0
}

pub(crate) fn finite(values: &[f64]) -> bool {
    values.iter().all(|v| v.is_finite())
}

pub(crate) fn square(matrix: &Mat<f64>, n: usize, what: &str) -> Result<()> {
    expect(
        matrix.shape() == (n, n) && Cholesky::new(matrix.as_ref()).is_ok(),
        what,
    )
}

/// What an iteration needs of a component, computed once after its update.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// `q(mu_h, Lambda_h)`.
    pub(crate) law: NormalWishart,
    /// `nu_h B_h`.
    pub(crate) precision: Mat<f64>,
    /// `ln|B_h|`.
    pub(crate) ln_det_scale: f64,
    /// `<ln|Lambda_h|>`.
    pub(crate) ln_det_precision: f64,
}

impl Component {
    /// The posterior of component `h` with this prior, whose mean is zero.
    pub(crate) fn given(&self, stats: &SufficientStats, h: usize) -> Self {
        let count = stats.count(h);
        let strength = self.strength + count;
        let mean: Vec<f64> = stats.first(h).iter().map(|x| x / strength).collect();
        let mut scale_inverse = stats.second(h);
        scale_inverse += &self.scale_inverse;
        for j in 0..mean.len() {
            for i in 0..mean.len() {
                scale_inverse[(i, j)] -= strength * mean[i] * mean[j];
            }
        }
        Self {
            dof: self.dof + count,
            strength,
            mean,
            scale_inverse,
        }
    }

    /// The posteriors of all components with this prior, and what an iteration needs of them. On failure: the component.
    pub(crate) fn all_given(
        &self,
        stats: &SufficientStats,
    ) -> Result<(Vec<Self>, Vec<Expected>), (usize, NotPositiveDefinite)> {
        let each = (0..stats.labelled.weight.len()).map(|h| self.given(stats, h));
        let components: Vec<Self> = each.collect();
        let expected = Self::all_expected(&components)?;
        Ok((components, expected))
    }

    /// What an iteration needs of components. On failure: the component.
    pub(crate) fn all_expected(
        components: &[Self],
    ) -> Result<Vec<Expected>, (usize, NotPositiveDefinite)> {
        let each = components.iter().enumerate();
        each.map(|(h, component)| component.expected().map_err(|source| (h, source)))
            .collect()
    }

    pub(crate) fn expected(&self) -> Result<Expected, NotPositiveDefinite> {
        let scale = Cholesky::new(self.scale_inverse.as_ref())?.inverse();
        let wishart = Wishart::new(scale.as_ref(), self.dof).map_err(pivot)?;
        Ok(Expected {
            precision: wishart.mean(),
            ln_det_scale: wishart.ln_det_scale(),
            ln_det_precision: wishart.mean_ln_det(),
            law: NormalWishart::new(self.mean.clone(), self.strength, wishart).map_err(pivot)?,
        })
    }
}

/// The pivot at which a law's matrix failed: its other parameters are sums of positive numbers, or were checked when read from a file.
fn pivot(error: ParameterError) -> NotPositiveDefinite {
    match error {
        ParameterError::NotPositiveDefinite { source, .. } => source,
        other => unreachable!("{other}"),
    }
}

impl Expert {
    /// The expert of utility `k` of `of`, at `prior`.
    pub(crate) fn at_prior(prior: &ExpertPrior, k: usize, of: usize) -> Self {
        let n = prior.mean.len() / of;
        let first = k * n;
        let scale = |p: usize| (1.0 + 1.0 / prior.strength) / prior.precision(first + p);
        let covariance = Mat::from_fn(n, n, |i, j| if i == j { scale(i) } else { 0.0 });
        Self {
            at_prior: true,
            mean: prior.mean[first..][..n].to_vec(),
            covariance,
        }
    }

    /// The experts of all utilities, at `prior`.
    pub(crate) fn all_at_prior(prior: &ExpertPrior, of: usize) -> impl Iterator<Item = Self> + '_ {
        (0..of).map(move |k| Self::at_prior(prior, k, of))
    }

    /// The expert of utility `k` of component `h` given the sums over its labelled rows.
    pub(crate) fn given(
        prior: &ExpertPrior,
        stats: &SufficientStats,
        h: usize,
        k: usize,
    ) -> Result<Self, NotPositiveDefinite> {
        let p = stats.labelled.first.nrows();
        let (first, column) = (k * (p + 1), h * stats.n_utilities() + k);
        let precision = stats.labelled_second(h, |j| prior.precision(first + j));
        let factor = Cholesky::new(precision.as_ref())?;
        let of_prior = |j: usize| prior.precision(first + j) * prior.mean[first + j];
        let linear = (0..=p).map(|j| stats.soft[(j, column)] + of_prior(j));
        let mut mean: Vec<f64> = linear.collect();
        factor.solve(&mut mean);
        Ok(Self {
            at_prior: false,
            mean,
            covariance: factor.inverse(),
        })
    }

    /// The experts of all components: free ones for those with labelled rows; the others are at the shared prior, which costs nothing in the bound. On failure: the component.
    pub(crate) fn all_given(
        prior: &ExpertPrior,
        stats: &SufficientStats,
    ) -> Result<Vec<Self>, (usize, NotPositiveDefinite)> {
        let n_utilities = stats.n_utilities();
        let each = (0..stats.labelled.weight.len() * n_utilities).map(|i| {
            let (h, k) = (i / n_utilities, i % n_utilities);
            if stats.labelled.weight[h] > 0.0 {
                Self::given(prior, stats, h, k).map_err(|source| (h, source))
            } else {
                Ok(Self::at_prior(prior, k, n_utilities))
            }
        });
        each.collect()
    }
}

/// Of the numbers that have a partner.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().min(b.len());
    npb_linalg::dot(&a[..n], &b[..n])
}

/// A Gamma whose parameters are sums of positive numbers.
pub(crate) fn gamma(shape: f64, rate: f64) -> Gamma {
    Gamma::new(shape, rate).expect("sums of positive numbers, or checked when read from a file")
}
