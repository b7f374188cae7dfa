//! EM for the learned base: normal laws of users and items, truncated normal utilities integrated out (`docs/hbrec.md#base`).

use npb_infer::parallel;
use npb_infer::{Stop, Variational, VbReport, stream};
use npb_linalg::faer::linalg::matmul::matmul;
use npb_linalg::faer::{Accum, MatMut, MatRef, Par};
use npb_linalg::svd::{SparseRows, SvdLimits, truncated_svd};
use npb_linalg::{Cholesky, dot};
use npb_priors::special::{inverse_mills, ln_phi, normal_quantile};
use serde::{Deserialize, Serialize};

use super::learned::LearnedBase;
use crate::base::rotation::Rotation;
use crate::kernel::{Content, check_content};
use crate::laplace::add_outer;
use crate::{BaseConfig, HbrecError, ItemPrior, LikeMatrix};

/// Loadings with a smaller mean square than this, in units of the noise variance, say nothing of anybody.
const DROPPED: f64 = 1e-4;

/// Utilities and coefficients of one user (or item) take this many turns in an update: they cost little beside the matrices.
const TURNS: usize = 4;
/// Variances of loadings stay at their start for so long: loadings that have not found their direction yet would shrink away.
const PATIENCE: u64 = 10;
/// Variances stay within these.
const VARIANCES: [f64; 2] = [1e-6, 1e4];
/// Prior variance of coefficients of the regression on content.
const REGRESSION_VARIANCE: f64 = 1.0;
const START_LOADING: f64 = 0.4;
const START_TASTE: f64 = 0.1;

/// One update of the EM; none lowers the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseUpdate {
    /// The law of each user's coefficients.
    Users,
    /// Variances of users' own coefficients.
    TasteVariances,
    /// The law of each item's mean and loadings.
    Items,
    /// Coefficients of means and loadings on content.
    Regression,
    /// Variances about the regression.
    ItemVariances,
    /// Another basis of the loadings: users' coefficients get mean zero and covariance one, deviations of items from content become uncorrelated. Taken
    /// only when it raises the bound; the utilities stay what they are.
    Rotation,
}

impl BaseUpdate {
    /// In the order of a step: users last, whose update gives the bound with little more work.
    pub const ALL: [Self; 6] = [
        Self::Rotation,
        Self::Items,
        Self::Regression,
        Self::ItemVariances,
        Self::TasteVariances,
        Self::Users,
    ];
}

/// Normal laws of equal width, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Laws {
    width: usize,
    mean: Vec<f64>,
    covariance: Vec<f64>,
    ln_det: Vec<f64>,
}

impl Laws {
    fn new(n: usize, width: usize) -> Self {
        Self {
            width,
            mean: vec![0.0; n * width],
            covariance: vec![0.0; n * width * width],
            ln_det: vec![0.0; n],
        }
    }

    fn mean(&self, i: usize) -> &[f64] {
        &self.mean[i * self.width..(i + 1) * self.width]
    }

    fn covariance(&self, i: usize) -> &[f64] {
        let size = self.width * self.width;
        &self.covariance[i * size..(i + 1) * size]
    }

    /// Of one size, and finite.
    fn is_like(&self, other: &Self) -> bool {
        let finite = |values: &[f64]| values.iter().all(|v| v.is_finite());
        self.width == other.width
            && self.mean.len() == other.mean.len()
            && self.covariance.len() == other.covariance.len()
            && self.ln_det.len() == other.ln_det.len()
            && finite(&other.mean)
            && finite(&other.covariance)
    }

    fn parts_mut(&mut self, i: usize) -> (&mut [f64], &mut [f64], &mut f64) {
        let (q, size) = (self.width, self.width * self.width);
        (
            &mut self.mean[i * q..(i + 1) * q],
            &mut self.covariance[i * size..(i + 1) * size],
            &mut self.ln_det[i],
        )
    }

    fn set(&mut self, i: usize, law: &Law) {
        let (q, size) = (self.width, self.width * self.width);
        self.mean[i * q..(i + 1) * q].copy_from_slice(&law.mean);
        self.covariance[i * size..(i + 1) * size].copy_from_slice(&law.covariance);
        self.ln_det[i] = law.ln_det;
    }
}

struct Law {
    mean: Vec<f64>,
    covariance: Vec<f64>,
    ln_det: f64,
}

/// What the utilities of one user (or item) say, but for the utilities themselves: their regressors, and sums over second moments.
struct System {
    rows: Vec<f64>,
    width: usize,
    /// Known parts of the utilities.
    offsets: Vec<f64>,
    liked: Vec<bool>,
    /// sum E[a a'], column by column; only the lower triangle is used.
    gram: Vec<f64>,
    /// sum Cov(a, known part).
    cross: Vec<f64>,
    /// sum Var(known part).
    known_variance: f64,
}

impl System {
    fn new(n: usize, width: usize) -> Self {
        Self {
            rows: Vec::with_capacity(n * width),
            width,
            offsets: Vec::with_capacity(n),
            liked: Vec::with_capacity(n),
            gram: vec![0.0; width * width],
            cross: vec![0.0; width],
            known_variance: 0.0,
        }
    }

    fn push(&mut self, offset: f64, liked: bool) {
        self.offsets.push(offset);
        self.liked.push(liked);
    }

    /// Adds the products of the rows to the Gram matrix, all at once: many times as fast as one by one.
    fn add_products(mut self) -> Self {
        let (n, q) = (self.offsets.len(), self.width);
        if n == 0 {
            return self;
        }
        let a = MatRef::from_column_major_slice(&self.rows, q, n);
        let gram = MatMut::from_column_major_slice_mut(&mut self.gram, q, q);
        matmul(gram, Accum::Add, a, a.transpose(), 1.0, Par::Seq);
        self
    }

    fn utility(&self, i: usize, mean: &[f64]) -> f64 {
        let row = &self.rows[i * self.width..(i + 1) * self.width];
        self.offsets[i] + dot(row, mean)
    }

    /// The best law given the rest: `TURNS` of utilities and mean. `prior`: precision times mean, and precisions.
    fn solve(
        &self,
        prior: (&[f64], &[f64]),
        start: &[f64],
    ) -> Result<Law, npb_linalg::NotPositiveDefinite> {
        let q = self.width;
        let mut precision = self.gram.clone();
        (0..q).for_each(|k| precision[k * (q + 1)] += prior.1[k]);
        let factor = Cholesky::new(MatRef::from_column_major_slice(&precision, q, q))?;
        let mut mean = start.to_vec();
        for _ in 0..TURNS {
            let mut linear: Vec<f64> = (0..q).map(|k| prior.0[k] - self.cross[k]).collect();
            for i in 0..self.offsets.len() {
                let mu = self.utility(i, &mean);
                let sign = if self.liked[i] { 1.0 } else { -1.0 };
                let z = mu + sign * inverse_mills(-sign * mu) - self.offsets[i];
                let row = &self.rows[i * q..(i + 1) * q];
                linear
                    .iter_mut()
                    .zip(row)
                    .for_each(|(sum, a)| *sum += z * a);
            }
            factor.solve(&mut linear);
            mean = linear;
        }
        let inverse = factor.inverse();
        let covariance = (0..q * q).map(|at| inverse[(at % q, at / q)]).collect();
        Ok(Law {
            mean,
            covariance,
            ln_det: -factor.ln_det(),
        })
    }

    /// `sum [ln Phi(y mu) - Var(f)/2]` under a law of the coefficients.
    fn bound(&self, mean: &[f64], covariance: &[f64]) -> f64 {
        let q = self.width;
        let mut fitted = 0.0;
        let mut variance = self.known_variance + 2.0 * dot(&self.cross, mean);
        for i in 0..self.offsets.len() {
            let mu = self.utility(i, mean);
            fitted += ln_phi(if self.liked[i] { mu } else { -mu });
            // Second moments of the means are in the Gram matrix; take them out again.
            variance -= (mu - self.offsets[i]).powi(2);
        }
        for k in 0..q {
            for l in k..q {
                let moment = covariance[k * q + l] + mean[k] * mean[l];
                let times = if k == l { 1.0 } else { 2.0 };
                variance += times * self.gram[k * q + l] * moment;
            }
        }
        fitted - 0.5 * variance
    }
}

/// A user's part of the bound. `precisions`: of the prior.
fn user_bound(
    system: &System,
    mean: &[f64],
    covariance: &[f64],
    ln_det: f64,
    precisions: &[f64],
) -> f64 {
    system.bound(mean, covariance) - normal_kl(mean, covariance, ln_det, precisions)
}

/// The divergence of a normal law from one with mean zero and these precisions.
fn normal_kl(mean: &[f64], covariance: &[f64], ln_det: f64, precisions: &[f64]) -> f64 {
    let q = mean.len();
    let square = |k: usize| precisions[k] * (mean[k].powi(2) + covariance[k * (q + 1)]);
    let quadratic: f64 = (0..q).map(square).sum();
    let ln_prior: f64 = precisions.iter().map(|p| p.ln()).sum();
    0.5 * (quadratic - q as f64 - ln_prior - ln_det)
}

/// What a run has reached, for checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BaseState {
    users: Laws,
    items: Laws,
    regression: Vec<Vec<f64>>,
    item_variance: Vec<f64>,
    taste_variance: Vec<f64>,
    users_bound: f64,
    iteration: u64,
}

/// EM for the learned base, to be driven step by step.
pub struct BaseEm<'d> {
    likes: &'d LikeMatrix,
    /// Users with ratings; place of each user among them.
    active: Vec<usize>,
    place: Vec<usize>,
    rank: usize,
    /// (1, content) of each item, and how many of these have users' own coefficients.
    design: Vec<f64>,
    design_width: usize,
    tastes: usize,
    users: Laws,
    items: Laws,
    regression: Vec<Vec<f64>>,
    item_variance: Vec<f64>,
    taste_variance: Vec<f64>,
    iteration: u64,
    /// The users' part of the bound after their last update.
    users_bound: f64,
}

impl<'d> BaseEm<'d> {
    /// Starts from each item's rate and the leading singular vectors of what is left.
    ///
    /// # Errors
    /// As [`super::learn_base`].
    pub fn new(
        likes: &'d LikeMatrix,
        content: Option<&Content>,
        config: &BaseConfig,
        seed: u64,
    ) -> Result<Self, HbrecError> {
        config.validate()?;
        Self::start(likes, content, config, seed)
    }

    fn start(
        likes: &'d LikeMatrix,
        content: Option<&Content>,
        config: &BaseConfig,
        seed: u64,
    ) -> Result<Self, HbrecError> {
        check_content(likes.n_items(), content)?;
        let active: Vec<usize> = (0..likes.n_users())
            .filter(|&u| !likes.user(u).is_empty())
            .collect();
        if active.is_empty() {
            return Err(HbrecError::NoData);
        }
        let mut place = vec![usize::MAX; likes.n_users()];
        active
            .iter()
            .enumerate()
            .for_each(|(at, &user)| place[user] = at);
        let design_width = 1 + content.map_or(0, Content::width);
        let row = |item| content.map_or(&[][..], |content: &Content| content.row(item));
        let with_one = |item| std::iter::once(1.0).chain(row(item).iter().copied());
        let design = (0..likes.n_items()).flat_map(with_one).collect();
        let tastes = if config.content_tastes {
            design_width
        } else {
            1
        };
        let mut em = Self {
            likes,
            rank: 0,
            design,
            design_width,
            tastes,
            users: Laws::new(0, 0),
            items: Laws::new(0, 0),
            regression: Vec::new(),
            item_variance: Vec::new(),
            taste_variance: vec![START_TASTE; tastes],
            iteration: 0,
            users_bound: f64::NEG_INFINITY,
            active,
            place,
        };
        em.start_items(config.rank, seed);
        em.update_users()?;
        Ok(em)
    }

    fn start_items(&mut self, most: usize, seed: u64) {
        let n_items = self.likes.n_items();
        let rate = |item: usize| {
            let raters = self.likes.raters(item);
            let liked = raters.iter().filter(|r| r.1).count();
            (liked as f64 + 1.0) / (raters.len() as f64 + 2.0)
        };
        let rates: Vec<f64> = (0..n_items).map(rate).collect();
        let directions = self.directions(&rates, most, seed);
        self.rank = directions.len();
        let width = self.rank + 1;
        self.users = Laws::new(self.active.len(), self.rank + self.tastes);
        self.items = Laws::new(n_items, width);
        for item in 0..n_items {
            let mut mean = vec![normal_quantile(rates[item])];
            mean.extend(directions.iter().map(|d| d[item]));
            let law = Law {
                mean,
                covariance: vec![0.0; width * width],
                ln_det: 0.0,
            };
            self.items.set(item, &law);
        }
        self.regression = vec![vec![0.0; self.design_width]; width];
        self.item_variance = vec![START_LOADING * START_LOADING; width];
        self.item_variance[0] = 1.0;
        // Points have no entropy: give items the width of their prior until they are updated.
        for item in 0..n_items {
            let at = item * width * width;
            let diagonal = self.items.covariance[at..at + width * width]
                .iter_mut()
                .step_by(width + 1);
            diagonal
                .zip(&self.item_variance)
                .for_each(|(c, v)| *c = 0.1 * v);
            self.items.ln_det[item] = self.item_variance.iter().map(|v| (0.1 * v).ln()).sum();
        }
    }

    /// Leading right singular vectors of the standardised residuals, the first with a root mean square of `START_LOADING`.
    fn directions(&self, rates: &[f64], most: usize, seed: u64) -> Vec<Vec<f64>> {
        let n_items = self.likes.n_items();
        let most = most.min(n_items).min(self.active.len());
        if most == 0 {
            return Vec::new();
        }
        let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for &user in &self.active {
            for (item, liked) in self.likes.user(user).iter() {
                let p = rates[item];
                columns.push(item as u32);
                values.push((f64::from(liked) - p) / (p * (1.0 - p)).sqrt());
            }
            offsets.push(columns.len());
        }
        let matrix = SparseRows::new(n_items, &offsets, &columns, Some(&values))
            .expect("rows of valid likes are a sparse matrix");
        let limits = SvdLimits {
            tolerance: 0.05,
            max_steps: 30,
        };
        let svd = truncated_svd(&matrix, most, &limits, &mut stream(seed, [0, 0, 0, 0]));
        let largest = svd.singular_values.first().copied().unwrap_or(1.0);
        let column = |k: usize| {
            let scale = START_LOADING * (n_items as f64).sqrt() * svd.singular_values[k] / largest;
            (0..n_items).map(|i| svd.v[(i, k)] * scale).collect()
        };
        (0..svd.singular_values.len()).map(column).collect()
    }

    fn design(&self, item: usize) -> &[f64] {
        &self.design[item * self.design_width..(item + 1) * self.design_width]
    }

    fn user_system(&self, user: usize) -> System {
        let (r, width) = (self.rank, self.rank + 1);
        let likes = self.likes.user(user);
        let mut system = System::new(likes.len(), r + self.tastes);
        for (item, liked) in likes.iter() {
            let (mean, covariance) = (self.items.mean(item), self.items.covariance(item));
            system.rows.extend_from_slice(&mean[1..]);
            system
                .rows
                .extend_from_slice(&self.design(item)[..self.tastes]);
            system.push(mean[0], liked);
            system.known_variance += covariance[0];
            for k in 0..r {
                system.cross[k] += covariance[k + 1];
                let from = (k + 1) * width + k + 1;
                let column = &mut system.gram[k * (r + self.tastes) + k..][..r - k];
                let added = &covariance[from..from + r - k];
                column.iter_mut().zip(added).for_each(|(sum, c)| *sum += c);
            }
        }
        system.add_products()
    }

    fn item_system(&self, item: usize) -> System {
        let (r, q) = (self.rank, self.rank + self.tastes);
        let raters = self.likes.raters(item);
        let design = &self.design(item)[..self.tastes];
        let mut system = System::new(raters.len(), r + 1);
        for &(user, liked) in raters {
            let user = self.place[user as usize];
            let (mean, covariance) = (self.users.mean(user), self.users.covariance(user));
            system.rows.push(1.0);
            system.rows.extend_from_slice(&mean[..r]);
            system.push(dot(&mean[r..], design), liked);
            for k in 0..r {
                system.cross[k + 1] += dot(&covariance[k * q + r..(k + 1) * q], design);
                let column = &mut system.gram[(k + 1) * (r + 2)..][..r - k];
                let added = &covariance[k * q + k..k * q + r];
                column.iter_mut().zip(added).for_each(|(sum, c)| *sum += c);
            }
        }
        system.add_products()
    }

    /// Prior precisions of the coefficients of users.
    fn taste_precisions(&self) -> Vec<f64> {
        let ones = std::iter::repeat_n(1.0, self.rank);
        ones.chain(self.taste_variance.iter().map(|v| v.recip()))
            .collect()
    }

    /// Makes one update.
    ///
    /// # Errors
    /// A precision matrix that is not positive definite.
    pub fn apply(&mut self, update: BaseUpdate) -> Result<(), HbrecError> {
        match update {
            BaseUpdate::Users => self.update_users()?,
            BaseUpdate::TasteVariances => self.update_taste_variances(),
            BaseUpdate::Items => self.update_items()?,
            BaseUpdate::Regression => self.update_regression()?,
            BaseUpdate::ItemVariances => self.update_item_variances(),
            BaseUpdate::Rotation => self.rotate(),
        }
        Ok(())
    }

    fn numerical(
        &self,
        block: &'static str,
        item: usize,
        source: npb_linalg::NotPositiveDefinite,
    ) -> HbrecError {
        HbrecError::Numerical {
            what: "learned base",
            iteration: self.iteration,
            block,
            item,
            source,
        }
    }

    fn update_users(&mut self) -> Result<(), HbrecError> {
        let precisions = self.taste_precisions();
        let zeros = vec![0.0; precisions.len()];
        let law = |(at, &user): (usize, &usize)| {
            let system = self.user_system(user);
            let law = system.solve((&zeros, &precisions), self.users.mean(at));
            let law = law.map_err(|source| self.numerical("user", user, source))?;
            let bound = user_bound(&system, &law.mean, &law.covariance, law.ln_det, &precisions);
            Ok::<_, HbrecError>((law, bound))
        };
        let laws: Result<Vec<(Law, f64)>, HbrecError> =
            parallel::try_map(self.active.iter().enumerate(), law);
        let laws = laws?;
        for (at, (law, _)) in laws.iter().enumerate() {
            self.users.set(at, law);
        }
        self.users_bound = laws.iter().map(|(_, bound)| bound).sum();
        Ok(())
    }

    fn update_taste_variances(&mut self) {
        let (r, q, n) = (self.rank, self.users.width, self.active.len());
        let square = |k: usize| {
            let each = (0..n).map(|u| {
                self.users.mean(u)[r + k].powi(2) + self.users.covariance(u)[(r + k) * (q + 1)]
            });
            each.sum::<f64>() / n as f64
        };
        let squares: Vec<f64> = (0..self.tastes).map(square).collect();
        let clamp = |v: f64| v.clamp(VARIANCES[0], VARIANCES[1]);
        self.taste_variance[0] = clamp(squares[0]);
        if self.tastes > 1 {
            let mean = squares[1..].iter().sum::<f64>() / (self.tastes - 1) as f64;
            self.taste_variance[1..].fill(clamp(mean));
        }
    }

    fn update_items(&mut self) -> Result<(), HbrecError> {
        let precisions: Vec<f64> = self.item_variance.iter().map(|v| v.recip()).collect();
        let law = |item: usize| {
            let expected = self.expected(item);
            let linear: Vec<f64> = expected
                .iter()
                .zip(&precisions)
                .map(|(m, p)| m * p)
                .collect();
            let solved = self
                .item_system(item)
                .solve((&linear, &precisions), self.items.mean(item));
            solved.map_err(|source| self.numerical("item", item, source))
        };
        let laws: Result<Vec<Law>, _> = parallel::try_map(0..self.likes.n_items(), law);
        for (item, law) in laws?.iter().enumerate() {
            self.items.set(item, law);
        }
        Ok(())
    }

    /// What content says of an item.
    fn expected(&self, item: usize) -> Vec<f64> {
        let design = self.design(item);
        self.regression.iter().map(|b| dot(b, design)).collect()
    }

    fn update_regression(&mut self) -> Result<(), HbrecError> {
        let p = self.design_width;
        let mut products = vec![0.0; p * p];
        let items = 0..self.likes.n_items();
        items
            .clone()
            .for_each(|item| add_outer(self.design(item), 1.0, &mut products));
        for r in 0..=self.rank {
            let precision = self.item_variance[r].recip();
            let mut matrix: Vec<f64> = products.iter().map(|x| x * precision).collect();
            (0..p).for_each(|k| matrix[k * (p + 1)] += REGRESSION_VARIANCE.recip());
            let mut linear = vec![0.0; p];
            for item in items.clone() {
                let h = self.items.mean(item)[r] * precision;
                let terms = linear.iter_mut().zip(self.design(item));
                terms.for_each(|(sum, x)| *sum += h * x);
            }
            let factor = Cholesky::new(MatRef::from_column_major_slice(&matrix, p, p))
                .map_err(|source| self.numerical("regression of loading", r, source))?;
            factor.solve(&mut linear);
            self.regression[r] = linear;
        }
        Ok(())
    }

    fn update_item_variances(&mut self) {
        let n_items = self.likes.n_items();
        let mut squares = vec![0.0; self.rank + 1];
        for item in 0..n_items {
            let deviations = self.square_deviations(item);
            squares
                .iter_mut()
                .zip(&deviations)
                .for_each(|(sum, d)| *sum += d);
        }
        let updated = if self.iteration <= PATIENCE {
            1
        } else {
            self.rank + 1
        };
        for (variance, square) in self.item_variance.iter_mut().zip(squares).take(updated) {
            *variance = (square / n_items as f64).clamp(VARIANCES[0], VARIANCES[1]);
        }
    }

    /// Users' Kullback-Leibler divergences, items' and the prior of the regression: what a change of basis changes of the bound.
    fn basis_bound(&self) -> f64 {
        let precisions = self.taste_precisions();
        let user = |at: usize| {
            let (mean, covariance) = (self.users.mean(at), self.users.covariance(at));
            normal_kl(mean, covariance, self.users.ln_det[at], &precisions)
        };
        self.items_bound() - (0..self.active.len()).map(user).sum::<f64>()
    }

    fn rotate(&mut self) {
        if self.rank == 0 {
            return;
        }
        let Some(rotation) = self.best_rotation() else {
            return;
        };
        let before = self.basis_bound();
        let kept = (self.users.clone(), self.items.clone());
        let kept_regression = (self.regression.clone(), self.item_variance.clone());
        for user in 0..self.active.len() {
            let (mean, covariance, ln_det) = self.users.parts_mut(user);
            rotation.turn_user(mean, covariance);
            *ln_det -= 2.0 * rotation.ln_det();
        }
        for item in 0..self.likes.n_items() {
            let (mean, covariance, ln_det) = self.items.parts_mut(item);
            rotation.turn_item(mean, covariance);
            *ln_det += 2.0 * rotation.ln_det();
        }
        rotation.turn_regression(&mut self.regression);
        self.update_item_variances();
        if self.basis_bound() < before {
            (self.users, self.items) = kept;
            (self.regression, self.item_variance) = kept_regression;
        }
    }

    /// From the present moments; none when they are not positive definite.
    fn best_rotation(&self) -> Option<Rotation> {
        let (r, n) = (self.rank, self.active.len());
        let mut centre = vec![0.0; r];
        for user in 0..n {
            let mean = &self.users.mean(user)[..r];
            centre
                .iter_mut()
                .zip(mean)
                .for_each(|(c, m)| *c += m / n as f64);
        }
        let q = self.users.width;
        let mut users = vec![0.0; r * r];
        for user in 0..n {
            let (mean, covariance) = (self.users.mean(user), self.users.covariance(user));
            let deviation: Vec<f64> = mean.iter().zip(&centre).map(|(m, c)| m - c).collect();
            add_outer(&deviation, (n as f64).recip(), &mut users);
            for k in 0..r {
                let column = users[k * r..(k + 1) * r]
                    .iter_mut()
                    .zip(&covariance[k * q..]);
                column.skip(k).for_each(|(sum, c)| *sum += c / n as f64);
            }
        }
        let (n_items, width) = (self.likes.n_items(), r + 1);
        let mut items = vec![0.0; r * r];
        for item in 0..n_items {
            let (mean, covariance) = (self.items.mean(item), self.items.covariance(item));
            let expected = self.expected(item);
            let deviation: Vec<f64> = (1..width).map(|k| mean[k] - expected[k]).collect();
            add_outer(&deviation, (n_items as f64).recip(), &mut items);
            for k in 0..r {
                for l in k..r {
                    items[k * r + l] += covariance[(k + 1) * width + l + 1] / n_items as f64;
                }
            }
        }
        Rotation::new(centre, &users, &items)
    }

    /// `E (h - B'x)^2` for the mean and each loading.
    fn square_deviations(&self, item: usize) -> Vec<f64> {
        let width = self.rank + 1;
        let (mean, covariance) = (self.items.mean(item), self.items.covariance(item));
        let expected = self.expected(item);
        let each =
            (0..width).map(|r| (mean[r] - expected[r]).powi(2) + covariance[r * (width + 1)]);
        each.collect()
    }

    /// The bound. Cost: that of an update of the users.
    pub fn elbo(&self) -> f64 {
        let precisions = self.taste_precisions();
        let user = |(at, &user): (usize, &usize)| {
            let (mean, covariance) = (self.users.mean(at), self.users.covariance(at));
            let ln_det = self.users.ln_det[at];
            user_bound(
                &self.user_system(user),
                mean,
                covariance,
                ln_det,
                &precisions,
            )
        };
        let users: Vec<f64> = parallel::map(self.active.iter().enumerate(), user);
        users.iter().sum::<f64>() + self.items_bound()
    }

    fn items_bound(&self) -> f64 {
        let item = |item: usize| {
            let deviations = self.square_deviations(item);
            let scaled = deviations.iter().zip(&self.item_variance);
            let quadratic: f64 = scaled.map(|(d, v)| d / v + v.ln() - 1.0).sum();
            -0.5 * (quadratic - self.items.ln_det[item])
        };
        let items = (0..self.likes.n_items()).map(item).sum::<f64>();
        let squares: f64 = self.regression.iter().map(|b| dot(b, b)).sum();
        items - 0.5 * squares / REGRESSION_VARIANCE
    }

    /// All updates in turn; the bound after them.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn step(&mut self) -> Result<f64, HbrecError> {
        self.iteration += 1;
        for update in BaseUpdate::ALL {
            self.apply(update)?;
        }
        Ok(self.users_bound + self.items_bound())
    }

    /// Begins, or goes on from a state of the same data and configuration.
    ///
    /// # Errors
    /// As [`new`](Self::new); a state of other sizes, or with numbers that are not finite.
    pub(crate) fn begin(
        (likes, content): (&'d LikeMatrix, Option<&'d Content>),
        (config, seed): (&BaseConfig, u64),
        reached: Option<BaseState>,
    ) -> Result<Self, HbrecError> {
        let mut em = Self::start(likes, content, config, seed)?;
        if let Some(state) = reached {
            em.restore(state)?;
        }
        Ok(em)
    }

    fn restore(&mut self, state: BaseState) -> Result<(), HbrecError> {
        let sized = self.users.is_like(&state.users)
            && self.items.is_like(&state.items)
            && state.regression.len() == self.regression.len()
            && state
                .regression
                .iter()
                .all(|b| b.len() == self.design_width)
            && state.item_variance.len() == self.item_variance.len()
            && state.taste_variance.len() == self.taste_variance.len();
        let variances = || state.item_variance.iter().chain(&state.taste_variance);
        let finite = state.regression.iter().flatten().all(|b| b.is_finite())
            && variances().all(|v| v.is_finite() && *v > 0.0);
        if !(sized && finite) {
            return Err(HbrecError::State {
                what: "checkpoint of the learned base: impossible size or value".to_owned(),
            });
        }
        (self.users, self.items) = (state.users, state.items);
        (self.regression, self.item_variance) = (state.regression, state.item_variance);
        (self.taste_variance, self.users_bound) = (state.taste_variance, state.users_bound);
        self.iteration = state.iteration;
        Ok(())
    }

    /// What was learned, with this trace of the bound.
    ///
    /// # Errors
    /// None for a state that the updates have made.
    pub fn finish(&self, trace: Vec<VbReport>, stop: Stop) -> Result<LearnedBase, HbrecError> {
        let n_items = self.likes.n_items();
        let width = self.rank + 1;
        let square = |r: usize| {
            let each = (0..n_items).map(|i| self.items.mean(i)[r].powi(2));
            each.sum::<f64>() / n_items as f64
        };
        let kept: Vec<usize> = (1..width).filter(|&r| square(r) > DROPPED).collect();
        let (mut mean, mut loadings, mut variance) = (Vec::new(), Vec::new(), Vec::new());
        for item in 0..n_items {
            let (h, covariance) = (self.items.mean(item), self.items.covariance(item));
            mean.push(h[0]);
            loadings.extend(kept.iter().map(|&r| h[r]));
            let tastes = self.design(item).iter().zip(&self.taste_variance);
            loadings.extend(tastes.map(|(x, v)| x * v.sqrt()));
            // Loadings that are dropped leave their variance, and their squared mean, behind.
            let dropped = |r: usize| {
                if r > 0 && !kept.contains(&r) {
                    h[r].powi(2)
                } else {
                    0.0
                }
            };
            let each = (0..width).map(|r| covariance[r * (width + 1)] + dropped(r));
            variance.push(each.sum());
        }
        let of_kept = |all: &[f64]| -> Vec<f64> {
            let first = std::iter::once(all[0]);
            first.chain(kept.iter().map(|&r| all[r])).collect()
        };
        let regression = std::iter::once(0).chain(kept.iter().copied());
        Ok(LearnedBase {
            prior: ItemPrior::new(&mean, &loadings, &variance, 0.0)?,
            regression: regression.map(|r| self.regression[r].clone()).collect(),
            item_variance: of_kept(&self.item_variance),
            taste_variance: self.taste_variance.clone(),
            trace,
            stop,
        })
    }
}

impl Variational for BaseEm<'_> {
    type State = BaseState;
    type Error = HbrecError;

    fn step(&mut self) -> Result<f64, HbrecError> {
        BaseEm::step(self)
    }

    fn state(&self) -> BaseState {
        BaseState {
            users: self.users.clone(),
            items: self.items.clone(),
            regression: self.regression.clone(),
            item_variance: self.item_variance.clone(),
            taste_variance: self.taste_variance.clone(),
            users_bound: self.users_bound,
            iteration: self.iteration,
        }
    }
}

#[cfg(test)]
mod tests {
    use npb_infer::testing::{BoundMonitor, check_stationary};
    use rand::RngExt;

    use super::*;
    use crate::{ContentKernel, Likes};

    fn random_likes(n_users: usize, n_items: usize, share: f64, seed: u64) -> LikeMatrix {
        let mut rng = stream(seed, [7, 0, 0, 0]);
        let users = (0..n_users).map(|u| {
            let mut pairs = Vec::new();
            for item in 0..n_items as u32 {
                if rng.random::<f64>() < share {
                    let p = if (u as u32 + item).is_multiple_of(3) {
                        0.8
                    } else {
                        0.3
                    };
                    pairs.push((item, rng.random::<f64>() < p));
                }
            }
            Likes::new(n_items, &pairs).unwrap()
        });
        LikeMatrix::from_users(n_items, users.collect()).unwrap()
    }

    fn content(n_items: usize, seed: u64) -> Content {
        let mut rng = stream(seed, [8, 0, 0, 0]);
        let rows: Vec<Option<Vec<f64>>> = (0..n_items)
            .map(|i| (i != 1).then(|| vec![rng.random(), rng.random()]))
            .collect();
        Content::new(&rows, ContentKernel::Linear).unwrap()
    }

    /// After every single update, over random data, ranks, with and without content, from starts far from the optimum.
    #[test]
    fn bound_never_falls() {
        for seed in 0..12 {
            let (n_users, n_items) = (15 + seed as usize, 10 + seed as usize);
            let likes = random_likes(n_users, n_items, 0.2 + 0.05 * seed as f64, seed);
            let content = (seed % 2 == 0).then(|| content(n_items, seed));
            let config = BaseConfig {
                rank: seed as usize % 4,
                content_tastes: seed % 3 != 0,
                ..BaseConfig::default()
            };
            let mut em = BaseEm::new(&likes, content.as_ref(), &config, seed).unwrap();
            let mut monitor = BoundMonitor::new();
            let mut check = |em: &BaseEm<'_>, name: String| {
                // The second moments in the users' part cancel: their sizes are what rounding goes by.
                let (users, items) = (em.elbo() - em.items_bound(), em.items_bound());
                monitor
                    .check(
                        &name,
                        &[users, items, 10.0 * users.abs(), -10.0 * users.abs()],
                    )
                    .unwrap()
            };
            check(&em, "start".to_owned());
            for step in 0..25 {
                em.iteration += 1;
                let mut last = 0.0;
                for update in BaseUpdate::ALL {
                    em.apply(update).unwrap();
                    last = check(&em, format!("{update:?} at step {step}"));
                }
                let by_step = em.users_bound + em.items_bound();
                assert!((by_step - last).abs() < 1e-9 * last.abs());
            }
            let by_step = em.step().unwrap();
            assert!((by_step - em.elbo()).abs() < 1e-9 * by_step.abs());
        }
    }

    /// The laws of items, updated alone until they rest, are where the bound is highest: with content a user's loadings and tastes are correlated, which a wrong
    /// update could leave out and never lower the bound.
    #[test]
    fn items_end_where_the_bound_is_highest() {
        let likes = random_likes(12, 5, 0.8, 3);
        let content = content(5, 3);
        let config = BaseConfig {
            rank: 2,
            content_tastes: true,
            ..BaseConfig::default()
        };
        let mut em = BaseEm::new(&likes, Some(&content), &config, 3).unwrap();
        for _ in 0..3 {
            em.step().unwrap();
        }
        for _ in 0..400 {
            em.apply(BaseUpdate::Items).unwrap();
        }
        let resting = em.items.mean.clone();
        check_stationary(&resting, 1e-6, |point| {
            em.items.mean.copy_from_slice(point);
            em.elbo()
        })
        .unwrap();
    }
}
