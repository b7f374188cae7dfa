//! A task as a probit classifier with a normal prior.

use npb_infer::Xoshiro256PlusPlus;
use npb_linalg::elementary::{ln, vectorised};
use npb_linalg::faer::Mat;
use npb_linalg::{NotPositiveDefinite, dot};
use npb_priors::dist::sample_probit;
use npb_priors::special::vector::normal_cdf_parts;
use npb_priors::special::{ln_phi, normal_cdf};
use pulp::Arch;

use super::linear::{draw_prior, factor_precision, prior_system};
use crate::ep::{self, Moments};
use crate::laplace::{self, Observations, add_outer};
use crate::task::GaussianPrior;
use crate::{AtomRule, GaussianTask, GibbsModel, HbrecError, Task, UserModel};

/// `P(y | x) = Phi(x'w)`, `w` normal; posterior and evidence by expectation propagation (modes, and rows of weights other than 1, by Laplace's approximation), draws by latent utilities (Albert and Chib 1993).
///
/// ```
/// use npb_hbrec::{GaussianPrior, ProbitTask, Task, UserModel};
/// let model = ProbitTask::new(GaussianPrior::isotropic(2, 4.0)?);
/// // Separable data: the mode is finite all the same.
/// let alone = model.fit(&Task::new(2, &[1.0, 2.0, 1.0, -2.0], &[true, false])?)?;
/// assert!(model.predict_alone(&alone, &[1.0, 1.0]) > 0.65);
/// # Ok::<(), npb_hbrec::HbrecError>(())
/// ```
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbitTask {
    prior: GaussianPrior,
}

/// The normal approximation of the posterior of the coefficients.
#[derive(Clone, Debug)]
pub struct TaskPosterior {
    mode: Vec<f64>,
    mean: Vec<f64>,
    /// q x q, in coordinates in which the prior is standard normal.
    covariance: Vec<f64>,
    ln_evidence: f64,
}

/// A task as a point: coefficients, and how sure they are.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskAtom {
    /// Coefficients.
    pub coefficients: Vec<f64>,
    /// Their covariance, q x q; empty for a point without spread.
    pub covariance: Vec<f64>,
}

impl TaskAtom {
    /// Mean and variance of `x'w`.
    pub(crate) fn utility(&self, x: &[f64]) -> (f64, f64) {
        assert_eq!(x.len(), self.coefficients.len(), "features of the query");
        let rows = self.covariance.chunks_exact(x.len()).zip(x);
        let variance: f64 = rows.map(|(row, xi)| xi * dot(row, x)).sum();
        (dot(x, &self.coefficients), variance.max(0.0))
    }

    fn ratio(&self, x: &[f64]) -> f64 {
        let (mean, variance) = self.utility(x);
        mean / (1.0 + variance).sqrt()
    }
}

/// Atoms side by side: two of the widest registers.
const LANES: usize = 16;
/// Rows whose probabilities are multiplied before a logarithm is taken.
const FACTORS: usize = 8;

/// A block of atoms: coefficients, then lower triangles of covariances row by row, entries off the diagonal twice.
struct Block {
    coefficients: Vec<[f64; LANES]>,
    covariance: Vec<[f64; LANES]>,
}

impl Block {
    fn new(atoms: &[&TaskAtom], q: usize) -> Self {
        let mut block = Self {
            coefficients: vec![[0.0; LANES]; q],
            covariance: vec![[0.0; LANES]; q * (q + 1) / 2],
        };
        for (lane, atom) in atoms.iter().enumerate() {
            let pairs = block.coefficients.iter_mut().zip(&atom.coefficients);
            pairs.for_each(|(to, w)| to[lane] = *w);
            if atom.covariance.is_empty() {
                continue;
            }
            let places = (0..q).flat_map(|i| (0..=i).map(move |j| (i, j)));
            for (to, (i, j)) in block.covariance.iter_mut().zip(places) {
                let twice = if i == j { 1.0 } else { 2.0 };
                to[lane] = twice * atom.covariance[i * q + j];
            }
        }
        block
    }

    /// Adds ln P of each row under each atom; `squares`: products of each row's numbers with themselves.
    #[inline(always)]
    fn add_ln_likelihoods(&self, task: &Task<bool>, squares: &[f64], sums: &mut [f64; LANES]) {
        let by_row = squares.chunks_exact(self.covariance.len());
        let mut product = [1.0; LANES];
        for (n, ((x, &y), squares)) in task.iter().zip(by_row).enumerate() {
            // Written so that both stay in whole registers.
            let sum = |sum: [f64; LANES], (x, of): (&f64, &[f64; LANES])| {
                std::array::from_fn(|k| x.mul_add(of[k], sum[k]))
            };
            let mean = x.iter().zip(&self.coefficients).fold([0.0; LANES], sum);
            let variance = squares.iter().zip(&self.covariance);
            let variance = variance.fold([0.0; LANES], sum);
            let sign = if y { 1.0 } else { -1.0 };
            for k in 0..LANES {
                let v = if variance[k] > 0.0 { variance[k] } else { 0.0 };
                let [exponent, factor] = normal_cdf_parts(sign * mean[k] / (1.0 + v).sqrt());
                sums[k] += exponent;
                product[k] *= factor;
            }
            // So few factors do not underflow.
            if n % FACTORS == FACTORS - 1 {
                for k in 0..LANES {
                    sums[k] += ln(product[k]);
                    product[k] = 1.0;
                }
            }
        }
        (0..LANES).for_each(|k| sums[k] += ln(product[k]));
    }
}

impl ProbitTask {
    /// With this base distribution.
    pub fn new(prior: GaussianPrior) -> Self {
        Self { prior }
    }

    /// L'x, the regressors in coordinates in which the prior is standard normal.
    fn whitened(&self, x: &[f64]) -> Vec<f64> {
        let mut a = x.to_vec();
        self.prior.factor().mul_lt(&mut a);
        a
    }
}

impl ProbitTask {
    /// Their covariance from those coordinates.
    fn coloured_covariance(&self, white: &[f64]) -> Mat<f64> {
        let q = self.prior.width();
        let l = self.prior.factor().l();
        let half = Mat::from_fn(q, q, |i, j| {
            (0..=i).map(|k| l[(i, k)] * white[k * q + j]).sum::<f64>()
        });
        Mat::from_fn(q, q, |i, j| (0..=j).map(|k| half[(i, k)] * l[(j, k)]).sum())
    }

    /// Coefficients from coordinates in which the prior is standard normal.
    fn coloured(&self, mut w: Vec<f64>) -> Vec<f64> {
        self.prior.factor().mul_l(&mut w);
        w.iter_mut()
            .zip(self.prior.mean())
            .for_each(|(w, m)| *w += m);
        w
    }
}

/// Rows in coordinates in which the prior is standard normal, with their utility at its mean.
#[derive(Default)]
struct OwnRows {
    rows: Vec<f64>,
    offsets: Vec<f64>,
    positive: Vec<bool>,
    weights: Vec<f64>,
}

impl OwnRows {
    fn observations(&self, width: usize) -> Observations<'_> {
        Observations {
            rows: &self.rows,
            width,
            offsets: &self.offsets,
            positive: &self.positive,
            weights: &self.weights,
        }
    }

    fn numerical(&self) -> impl Fn(NotPositiveDefinite) -> HbrecError + Copy {
        let item = self.offsets.len();
        move |source| HbrecError::Numerical {
            what: "posterior",
            iteration: 0,
            block: "task with rows:",
            item,
            source,
        }
    }
}

impl ProbitTask {
    fn own_rows(&self, data: &[(&Task<bool>, f64)]) -> Result<OwnRows, HbrecError> {
        let (q, mut own) = (self.prior.width(), OwnRows::default());
        for (task, weight) in data {
            task.check_width(q)?;
            for (x, &y) in task.iter() {
                own.rows.extend_from_slice(x);
                let start = own.rows.len() - q;
                self.prior.factor().mul_lt(&mut own.rows[start..]);
                own.offsets.push(dot(x, self.prior.mean()));
                own.positive.push(y);
                own.weights.push(*weight);
            }
        }
        Ok(own)
    }

    /// A draw of the coefficients given utilities that are drawn given the coefficients of before. `(precision, linear)`: of the prior, the former with the
    /// products of all rows added to it.
    pub(crate) fn redraw_given(
        &self,
        atom: &mut TaskAtom,
        members: &[&Task<bool>],
        (precision, linear): (&[f64], &[f64]),
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), HbrecError> {
        let mut linear = linear.to_vec();
        for (x, &y) in members.iter().flat_map(|task| task.iter()) {
            let z = sample_probit(dot(x, &atom.coefficients), y, rng);
            linear.iter_mut().zip(x).for_each(|(sum, x)| *sum += z * x);
        }
        let factor = factor_precision(precision, self.prior.width())?;
        factor.sample_canonical(&mut linear, rng);
        atom.coefficients = linear;
        Ok(())
    }
}

impl UserModel for ProbitTask {
    type Data = Task<bool>;
    type Query = [f64];
    type Parameter = TaskAtom;
    type Posterior = TaskPosterior;

    fn fit_weighted(&self, data: &[(&Task<bool>, f64)]) -> Result<TaskPosterior, HbrecError> {
        let q = self.prior.width();
        let own = self.own_rows(data)?;
        let (observations, numerical) = (own.observations(q), own.numerical());
        let laplace = laplace::fit(&observations).map_err(numerical)?;
        // Moments by expectation propagation: a mode lies nearer to the prior's mean than the posterior's mean does, and a base distribution learned from modes is
        // too narrow. A share of a row's likelihood has no moments in closed form.
        let moments = match own.weights.iter().all(|&weight| weight == 1.0) {
            true => ep::fit(&observations, &mut Vec::new()).map_err(numerical)?,
            false => Moments {
                mean: laplace.mode.clone(),
                covariance: laplace.spread.covariance(q),
                ln_evidence: laplace.ln_evidence,
            },
        };
        Ok(TaskPosterior {
            mode: self.coloured(laplace.mode),
            mean: self.coloured(moments.mean),
            covariance: moments.covariance,
            ln_evidence: moments.ln_evidence,
        })
    }

    fn ln_evidence(&self, posterior: &TaskPosterior) -> f64 {
        posterior.ln_evidence
    }

    fn atom(&self, posterior: &TaskPosterior, rule: AtomRule) -> TaskAtom {
        match rule {
            AtomRule::Map => TaskAtom {
                coefficients: posterior.mode.clone(),
                covariance: Vec::new(),
            },
            AtomRule::Mean => {
                let (coefficients, covariance) = self.moments(posterior);
                let q = covariance.nrows();
                TaskAtom {
                    coefficients,
                    covariance: (0..q * q).map(|at| covariance[(at % q, at / q)]).collect(),
                }
            }
        }
    }

    fn ln_likelihood(&self, atom: &TaskAtom, task: &Task<bool>) -> f64 {
        let term = |(x, &y): (&[f64], &bool)| {
            let t = atom.ratio(x);
            ln_phi(if y { t } else { -t })
        };
        task.iter().map(term).sum()
    }

    fn ln_likelihoods(&self, atoms: &[&TaskAtom], tasks: &[&Task<bool>]) -> Vec<Vec<f64>> {
        let q = self.prior.width();
        let places: Vec<_> = (0..q).flat_map(|i| (0..=i).map(move |j| (i, j))).collect();
        let squares = |task: &&Task<bool>| -> Vec<f64> {
            let of_row = |x: &[f64]| places.iter().map(|&(i, j)| x[i] * x[j]).collect::<Vec<_>>();
            task.iter().flat_map(|(x, _)| of_row(x)).collect()
        };
        let squares: Vec<Vec<f64>> = tasks.iter().map(squares).collect();
        let mut all = vec![Vec::with_capacity(atoms.len()); tasks.len()];
        for atoms in atoms.chunks(LANES) {
            let block = Block::new(atoms, q);
            for ((task, squares), all) in tasks.iter().zip(&squares).zip(&mut all) {
                let mut sums = [0.0; LANES];
                vectorised(
                    Arch::new(),
                    #[inline(always)]
                    || block.add_ln_likelihoods(task, squares, &mut sums),
                );
                all.extend_from_slice(&sums[..atoms.len()]);
            }
        }
        all
    }

    fn predict(&self, atom: &TaskAtom, query: &[f64]) -> f64 {
        normal_cdf(atom.ratio(query))
    }

    fn predict_alone(&self, posterior: &TaskPosterior, query: &[f64]) -> f64 {
        assert_eq!(query.len(), posterior.mean.len(), "features of the query");
        let white = self.whitened(query);
        let rows = posterior.covariance.chunks_exact(white.len()).zip(&white);
        let variance: f64 = rows.map(|(row, a)| a * dot(row, &white)).sum();
        normal_cdf(dot(query, &posterior.mean) / (1.0 + variance.max(0.0)).sqrt())
    }
}

impl GibbsModel for ProbitTask {
    fn draw_prior(&self, rng: &mut Xoshiro256PlusPlus) -> TaskAtom {
        TaskAtom {
            coefficients: draw_prior(&self.prior, rng),
            covariance: Vec::new(),
        }
    }

    /// Utilities given the coefficients, then coefficients given the utilities.
    fn redraw(
        &self,
        atom: &mut TaskAtom,
        members: &[&Task<bool>],
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), HbrecError> {
        let (mut precision, linear) = prior_system(&self.prior);
        for task in members {
            task.check_width(self.prior.width())?;
            task.iter()
                .for_each(|(x, _)| add_outer(x, 1.0, &mut precision));
        }
        self.redraw_given(atom, members, (&precision, &linear), rng)
    }

    /// None: the evidence is an approximation.
    fn draw_exact(&self, _: &TaskPosterior, _: &mut Xoshiro256PlusPlus) -> Option<TaskAtom> {
        None
    }

    fn is_valid(&self, atom: &TaskAtom) -> bool {
        let q = self.prior.width();
        let sized = atom.coefficients.len() == q
            && (atom.covariance.is_empty() || atom.covariance.len() == q * q);
        sized
            && atom
                .coefficients
                .iter()
                .chain(&atom.covariance)
                .all(|w| w.is_finite())
    }
}

impl GaussianTask for ProbitTask {
    fn with_prior(&self, prior: GaussianPrior) -> Self {
        Self { prior }
    }

    fn prior(&self) -> &GaussianPrior {
        &self.prior
    }

    fn moments(&self, posterior: &TaskPosterior) -> (Vec<f64>, Mat<f64>) {
        (
            posterior.mean.clone(),
            self.coloured_covariance(&posterior.covariance),
        )
    }

    type Hint = Vec<ep::Site>;

    fn moments_from(
        &self,
        task: &Task<bool>,
        hint: &mut Vec<ep::Site>,
    ) -> Result<(Vec<f64>, Mat<f64>, f64), HbrecError> {
        let own = self.own_rows(&[(task, 1.0)])?;
        let found = ep::fit(&own.observations(self.prior.width()), hint);
        let found = found.map_err(own.numerical())?;
        let covariance = self.coloured_covariance(&found.covariance);
        Ok((self.coloured(found.mean), covariance, found.ln_evidence))
    }
}

#[cfg(test)]
mod tests {
    use npb_infer::stream;
    use rand::RngExt;

    use super::*;

    /// Twenty atoms, some without spread, beside each other as one by one; rows are more than are multiplied at once.
    #[test]
    fn many_atoms_are_as_one_by_one() {
        let mut rng = stream(7, [0; 4]);
        let mut uniform =
            |n: usize| -> Vec<f64> { (0..n).map(|_| rng.random::<f64>() * 6.0 - 3.0).collect() };
        let atom = |k: usize| {
            let (w, l) = (uniform(3), uniform(9));
            let square = |at: usize| (0..3).map(|m| l[at / 3 * 3 + m] * l[at % 3 * 3 + m]).sum();
            TaskAtom {
                coefficients: w,
                covariance: (0..if k < 5 { 0 } else { 9 }).map(square).collect(),
            }
        };
        let atoms: Vec<TaskAtom> = (0..20).map(atom).collect();
        let tasks = [0, 5, 40].map(|n| {
            let rows: Vec<f64> = (0..3 * n)
                .map(|at| (f64::from(at) * 1.7).sin() * 9.0)
                .collect();
            let y: Vec<bool> = (0..n).map(|i| i % 3 == 0).collect();
            Task::new(3, &rows, &y).unwrap()
        });
        let model = ProbitTask::new(GaussianPrior::isotropic(3, 1.0).unwrap());
        let tasks: Vec<&Task<bool>> = tasks.iter().collect();
        let found = model.ln_likelihoods(&atoms.iter().collect::<Vec<_>>(), &tasks);
        for (task, found) in tasks.iter().zip(&found) {
            for (atom, found) in atoms.iter().zip(found) {
                let wanted = model.ln_likelihood(atom, task);
                assert!(
                    (found - wanted).abs() < 1e-11 * (1.0 + wanted.abs()),
                    "{found} {wanted}"
                );
            }
        }
    }
}
