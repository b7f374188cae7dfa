//! A user as a probit model with a Gaussian prior over items.

use npb_infer::Xoshiro256PlusPlus;
use npb_linalg::dot;
use npb_priors::special::{inverse_mills, ln_phi, normal_cdf};
use serde::{Deserialize, Serialize};

use crate::laplace::{self, Laplace, Observations};
use crate::{AtomRule, HbrecError, ItemPrior, Likes, UserModel};

/// Likes of items under a Gaussian prior, by Laplace's approximation (`docs/hbrec.md#items`).
///
/// ```
/// use npb_hbrec::{ItemPrior, Likes, ProbitItems, UserModel};
/// // Three items; the first two are liked by the same people.
/// let prior = ItemPrior::new(&[0.0; 3], &[1.0, 1.0, 0.0], &[0.0; 3], 0.0)?;
/// let model = ProbitItems::new(prior);
/// let alone = model.fit(&Likes::new(3, &[(0, true)])?)?;
/// assert!(model.predict_alone(&alone, &1) > 0.6);
/// assert_eq!(model.predict_alone(&alone, &2), 0.5);
/// assert!((model.ln_evidence(&alone) - 0.5_f64.ln()).abs() < 0.05);
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbitItems {
    prior: ItemPrior,
}

/// The posterior of one user's utilities.
#[derive(Clone, Debug)]
pub struct ProbitPosterior {
    laplace: Laplace,
    rated: Vec<Rated>,
}

/// What a user's rating of an item says about that user and item alone: a normal law of `sqrt(rho) d`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rated {
    pub(crate) item: u32,
    pub(crate) shift: f32,
    pub(crate) variance: f32,
}

/// A user as a point: coefficients, how sure they are, and its own items. 2 Q (Q + 5) + 12 n bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemAtom {
    pub(crate) coefficients: Vec<f64>,
    /// Covariance of the coefficients, lower triangle row by row, entries off the diagonal doubled; empty for the mode.
    pub(crate) covariance: Vec<f32>,
    pub(crate) rated: Vec<Rated>,
}

impl ItemAtom {
    /// Coefficients of the columns of the prior's loadings.
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    fn variance(&self, row: &[f64]) -> f64 {
        let mut at = 0;
        let mut sum = 0.0;
        if self.covariance.is_empty() {
            return 0.0;
        }
        for (i, x) in row.iter().enumerate() {
            let packed = &self.covariance[at..at + i + 1];
            let terms = packed.iter().zip(row);
            sum += x * terms.map(|(&s, y)| f64::from(s) * y).sum::<f64>();
            at += i + 1;
        }
        sum.max(0.0)
    }

    /// Checks what is relied on, after decoding.
    pub(crate) fn check(&self, prior: &ItemPrior) -> Result<(), HbrecError> {
        let q = prior.width();
        let sized = self.coefficients.len() == q
            && (self.covariance.is_empty() || self.covariance.len() == q * (q + 1) / 2);
        let finite = self.coefficients.iter().all(|w| w.is_finite())
            && self.covariance.iter().all(|s| s.is_finite());
        let rated = self.rated.iter().all(|r| {
            (r.item as usize) < prior.n_items()
                && r.shift.is_finite()
                && (0.0..=1.0).contains(&r.variance)
        });
        let ascending = self.rated.windows(2).all(|w| w[0].item < w[1].item);
        if sized && finite && rated && ascending {
            return Ok(());
        }
        Err(HbrecError::State {
            what: "atom: impossible size or value".to_owned(),
        })
    }
}

/// The `t` of `P(like) = Phi(t)` where mean and variance of `(m + phi'w)/s` are these.
pub(crate) fn ratio(mean: f64, variance: f64, rated: Option<&Rated>, identity: f64) -> f64 {
    match rated {
        None => mean / (1.0 + variance).sqrt(),
        Some(r) => {
            let left = 1.0 - identity + f64::from(r.variance) + variance;
            // At rho = 1 and in the far tail nothing is left open: the probability is then 0 or 1 to all digits anyway.
            (mean + f64::from(r.shift)) / left.max(1e-6).sqrt()
        }
    }
}

/// Shifts of chosen examples stay within these, in units of the noise.
const SHIFTS: f64 = 20.0;

/// The logarithm of the probability that just so many of independent events happen.
pub(crate) fn ln_of_number(probabilities: &[f64], number: usize) -> f64 {
    let mut law = vec![0.0; number + 1];
    law[0] = 1.0;
    for p in probabilities {
        for k in (1..=number).rev() {
            law[k] = law[k] * (1.0 - p) + law[k - 1] * p;
        }
        law[0] *= 1.0 - p;
    }
    law[number].max(f64::MIN_POSITIVE).ln()
}

fn find(rated: &[Rated], item: usize) -> Option<&Rated> {
    let at = rated.binary_search_by_key(&item, |r| r.item as usize);
    at.ok().map(|at| &rated[at])
}

impl ProbitItems {
    /// With this prior.
    pub fn new(prior: ItemPrior) -> Self {
        Self { prior }
    }

    /// The base distribution.
    pub fn prior(&self) -> &ItemPrior {
        &self.prior
    }

    /// The base distribution, to add items or change the share of item identity. Atoms made before are then those of another model.
    pub fn into_prior(self) -> ItemPrior {
        self.prior
    }

    /// Mean and variance of the utility of an item in units of its noise, item identity left out.
    ///
    /// # Panics
    /// When there is no such item, or the posterior is one of a model with another number of columns; so does everything that predicts by it.
    pub fn utility(&self, posterior: &ProbitPosterior, item: usize) -> (f64, f64) {
        let row = self.prior.row(item);
        assert_eq!(row.len(), posterior.laplace.mode.len(), "columns");
        let mean = self.prior.offset(item) + dot(row, &posterior.laplace.mode);
        let variance = posterior.laplace.spread.variance(row, &mut Vec::new());
        (mean, variance)
    }

    /// The `t` of `P(like) = Phi(t)` under an atom.
    ///
    /// # Panics
    /// When there is no such item.
    pub fn atom_ratio(&self, atom: &ItemAtom, item: usize) -> f64 {
        let row = self.prior.row(item);
        let mean = self.prior.offset(item) + dot(row, &atom.coefficients);
        let rated = find(&atom.rated, item);
        ratio(mean, atom.variance(row), rated, self.prior.identity())
    }

    /// P(like) at these coefficients, for whom has this posterior: of rated items, too, whose identity is known in part.
    pub(crate) fn predict_at(&self, posterior: &ProbitPosterior, w: &[f64], item: usize) -> f64 {
        let mean = self.prior.offset(item) + dot(self.prior.row(item), w);
        let rated = find(&posterior.rated, item);
        normal_cdf(ratio(mean, 0.0, rated, self.prior.identity()))
    }

    /// With `shift` added to the utilities of all that is rated.
    fn fit_shifted(
        &self,
        data: &[(&Likes, f64)],
        shift: f64,
    ) -> Result<ProbitPosterior, HbrecError> {
        let n = data.iter().map(|(likes, _)| likes.len()).sum();
        let mut rows = Vec::with_capacity(n * self.prior.width());
        let mut offsets = Vec::with_capacity(n);
        let (mut positive, mut weights) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for &(likes, weight) in data {
            likes.check(self.prior.n_items())?;
            for (item, liked) in likes.iter() {
                rows.extend_from_slice(self.prior.row(item));
                offsets.push(self.prior.offset(item) + shift);
                positive.push(liked);
                weights.push(weight);
            }
        }
        let observations = Observations {
            rows: &rows,
            width: self.prior.width(),
            offsets: &offsets,
            positive: &positive,
            weights: &weights,
        };
        let laplace = laplace::fit(&observations).map_err(|source| HbrecError::Numerical {
            what: "Laplace approximation",
            iteration: 0,
            block: "user with ratings:",
            item: n,
            source,
        })?;
        let rated = self.rated(data, &laplace.mode, shift);
        Ok(ProbitPosterior { laplace, rated })
    }

    /// As `fit`, for examples that were chosen by whether they are liked, ten of each kind, say: how many are liked says nothing then. With the examples'
    /// utilities shifted so that the base distribution expects just as many, what is left is which ones. The evidence is given their number.
    ///
    /// # Errors
    /// As [`UserModel::fit`].
    pub fn fit_chosen(&self, likes: &Likes) -> Result<ProbitPosterior, HbrecError> {
        likes.check(self.prior.n_items())?;
        let expected = |shift: f64| -> Vec<f64> {
            let p = |item: usize| {
                let row = self.prior.row(item);
                normal_cdf((self.prior.offset(item) + shift) / (1.0 + dot(row, row)).sqrt())
            };
            likes.iter().map(|(item, _)| p(item)).collect()
        };
        let n = likes.len() as f64;
        // Half an example more of each kind: a shift is finite when all are of one kind.
        let share = (likes.n_liked() as f64 + 0.5) / (n + 1.0);
        let (mut low, mut high) = (-SHIFTS, SHIFTS);
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if expected(middle).iter().sum::<f64>() < share * n {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut posterior = self.fit_shifted(&[(likes, 1.0)], low)?;
        posterior.laplace.ln_evidence -= ln_of_number(&expected(low), likes.n_liked());
        Ok(posterior)
    }

    /// What each rating says of its user and item alone. Ratings of one item by several users multiply: their messages have precision
    /// `k/(1 - rho k)`, `k = g (g + mu)`, and linear part `g/(1 - rho k)`; for one rating that is the exact law given w.
    fn rated(&self, data: &[(&Likes, f64)], mode: &[f64], shift: f64) -> Vec<Rated> {
        let rho = self.prior.identity();
        if rho == 0.0 {
            return Vec::new();
        }
        let mut messages: Vec<(usize, f64, f64)> = Vec::new();
        for (likes, weight) in data {
            for (item, liked) in likes.iter() {
                let mean = self.prior.offset(item) + shift + dot(self.prior.row(item), mode);
                let sign = if liked { 1.0 } else { -1.0 };
                let hazard = inverse_mills(-sign * mean);
                let k = laplace::curvature(hazard, sign * mean);
                let left = (1.0 - rho * k).max(1e-12);
                messages.push((item, weight * k / left, weight * sign * hazard / left));
            }
        }
        messages.sort_by_key(|message| message.0);
        let groups = messages.chunk_by(|a, b| a.0 == b.0);
        groups
            .map(|group| {
                let precision = rho.recip() + group.iter().map(|m| m.1).sum::<f64>();
                let linear: f64 = group.iter().map(|m| m.2).sum();
                Rated {
                    item: group[0].0 as u32,
                    shift: (linear / precision) as f32,
                    variance: precision.recip() as f32,
                }
            })
            .collect()
    }
}

impl UserModel for ProbitItems {
    type Data = Likes;
    type Query = usize;
    type Parameter = ItemAtom;
    type Posterior = ProbitPosterior;

    fn fit_weighted(&self, data: &[(&Likes, f64)]) -> Result<ProbitPosterior, HbrecError> {
        self.fit_shifted(data, 0.0)
    }

    fn ln_evidence(&self, posterior: &ProbitPosterior) -> f64 {
        posterior.laplace.ln_evidence
    }

    fn atom(&self, posterior: &ProbitPosterior, rule: AtomRule) -> ItemAtom {
        let q = self.prior.width();
        let covariance = match rule {
            AtomRule::Map => Vec::new(),
            AtomRule::Mean => {
                let full = posterior.laplace.spread.covariance(q);
                let packed = (0..q).flat_map(|i| (0..=i).map(move |j| (i, j)));
                let entry = |(i, j)| full[i * q + j] * if i == j { 1.0 } else { 2.0 };
                packed.map(|at| entry(at) as f32).collect()
            }
        };
        ItemAtom {
            coefficients: posterior.laplace.mode.clone(),
            covariance,
            rated: posterior.rated.clone(),
        }
    }

    /// # Panics
    /// When an item does not exist; so do predictions. Data that were fitted have none such.
    fn ln_likelihood(&self, atom: &ItemAtom, likes: &Likes) -> f64 {
        let terms = likes.iter().map(|(item, liked)| {
            let t = self.atom_ratio(atom, item);
            ln_phi(if liked { t } else { -t })
        });
        terms.sum()
    }

    fn predict(&self, atom: &ItemAtom, item: &usize) -> f64 {
        normal_cdf(self.atom_ratio(atom, *item))
    }

    fn predict_alone(&self, posterior: &ProbitPosterior, item: &usize) -> f64 {
        let (mean, variance) = self.utility(posterior, *item);
        let rated = find(&posterior.rated, *item);
        normal_cdf(ratio(mean, variance, rated, self.prior.identity()))
    }
}

impl ProbitPosterior {
    /// Mode of the coefficients of the columns of the prior's loadings.
    pub fn mode(&self) -> &[f64] {
        &self.laplace.mode
    }

    /// A draw of the coefficients.
    pub fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        let mut w = self.laplace.spread.draw(self.laplace.mode.len(), rng);
        w.iter_mut()
            .zip(&self.laplace.mode)
            .for_each(|(w, m)| *w += m);
        w
    }

    /// Covariance of the coefficients at the mode, Q x Q.
    pub fn covariance(&self) -> Vec<f64> {
        self.laplace.spread.covariance(self.laplace.mode.len())
    }
}
