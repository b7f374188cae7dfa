//! Variational Bayes: the coordinate updates, the bound, and the loop over them (docs/bpfa.md#variational-bayes).

use npb_infer::ranges::{OutOfRange, at_least, gamma, not_negative, up_to};
use npb_infer::{Variational, VbLimits, VbReport, parallel, stream};
use npb_linalg::faer::{MatMut, MatRef};
use npb_linalg::{Cholesky, NotPositiveDefinite};
use npb_priors::dist::{Beta, Gamma};
use npb_priors::special::ln_gamma;
use npb_priors::{GammaPrior, ParameterError};
use serde::{Deserialize, Serialize};

use crate::config::{MOST_ATOMS, ScorePrior, SlabPrior, UsagePrior};
use crate::dependent::Dependence;
use crate::error::expect;
use crate::precision::channel_counts;
use crate::scan::place;
use crate::{BpfaError, BpfaRows, init};

/// How the posterior of the scores is factorised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Factorisation {
    /// Dense scores: each by itself. Spike-and-slab: switch and score each by itself.
    Factorised,
    /// Dense scores: all of a row together, a K x K covariance for each row. Spike-and-slab: switch and score together, so that a score that is off is 0.
    Joint,
}

/// Configuration of a variational fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BpfaVbConfig {
    /// K.
    pub atoms: usize,
    /// Dense or spike-and-slab; Laplace scores are for Gibbs.
    pub scores: ScorePrior,
    /// Factorisation.
    pub factorisation: Factorisation,
    /// Prior of the probabilities that atoms are used; not dependent on locations.
    pub usage: UsagePrior,
    /// Prior of the precisions of the scores.
    pub slab: SlabPrior,
    /// Prior of the noise precision.
    pub noise: GammaPrior,
    /// Each channel of the rows has a noise precision of its own.
    pub channel_noise: bool,
    /// When the run ends.
    pub limits: VbLimits,
    /// Seed of the start.
    pub seed: u64,
}

impl Default for BpfaVbConfig {
    fn default() -> Self {
        let vague = GammaPrior {
            shape: 1e-6,
            rate: 1e-6,
        };
        Self {
            atoms: 20,
            scores: ScorePrior::Dense,
            factorisation: Factorisation::Joint,
            usage: UsagePrior::Process { a: 1.0, b: 1.0 },
            slab: SlabPrior::Shared { prior: vague },
            noise: vague,
            channel_noise: false,
            limits: VbLimits {
                max_iterations: 500,
                tolerance: 1e-6,
            },
            seed: 0,
        }
    }
}

impl BpfaVbConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// The first that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        up_to("atoms", self.atoms, MOST_ATOMS)?;
        at_least("limits.max_iterations", self.limits.max_iterations, 1)?;
        not_negative("limits.tolerance", self.limits.tolerance)?;
        if let ScorePrior::Lasso { .. } = self.scores {
            return Err(OutOfRange::new("scores", "lasso", "dense or spike_slab"));
        }
        if self.usage.dependent().is_some() {
            let rule = "one that does not depend on locations";
            return Err(OutOfRange::new("usage", "dependent", rule));
        }
        gamma("noise", self.noise)?;
        self.slab.validate()?;
        self.usage.validate()
    }

    fn switches(&self) -> bool {
        self.scores == ScorePrior::SpikeSlab
    }

    fn joint(&self) -> bool {
        self.factorisation == Factorisation::Joint
    }

    /// Whether rows have covariances of their own.
    fn covariances(&self) -> bool {
        self.joint() && !self.switches()
    }
}

/// A variational posterior. Gamma and Beta factors are pairs of their parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BpfaPosterior {
    n_rows: usize,
    n_columns: usize,
    n_atoms: usize,
    /// Means of the loadings, at `p * K + k`.
    pub dictionary_mean: Vec<f64>,
    /// Their variances.
    pub dictionary_variance: Vec<f64>,
    /// Probabilities that atoms are on, at `i * K + k`; empty for dense scores.
    pub on: Vec<f64>,
    /// Means of the scores (given that they are on), at `i * K + k`.
    pub score_mean: Vec<f64>,
    /// Their variances, likewise; or a K x K covariance for each row.
    pub score_variance: Vec<f64>,
    /// Slab precisions: one, or one for each atom.
    pub slab: Vec<(f64, f64)>,
    /// tau; (1, 1) when there is one slab precision.
    pub slab_rate: (f64, f64),
    /// Noise precision of each channel, or one.
    pub noise: Vec<(f64, f64)>,
    /// Weights pi_k; empty for dense scores.
    pub weights: Vec<(f64, f64)>,
}

/// One coordinate update. None of them lowers the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BpfaVbUpdate {
    /// Scores, and switches, of all rows.
    Scores,
    /// All atoms, one after the other.
    Dictionary,
    /// Weights pi_k.
    Weights,
    /// Slab precisions.
    Slab,
    /// The rate of their prior.
    SlabRate,
    /// Noise precisions.
    Noise,
}

impl BpfaVbUpdate {
    /// Those of an iteration, in order.
    pub const ALL: [Self; 6] = [
        Self::Scores,
        Self::Dictionary,
        Self::Weights,
        Self::Slab,
        Self::SlabRate,
        Self::Noise,
    ];
}

/// One run of variational Bayes: borrows the rows, owns posterior and trace.
///
/// Cost of an iteration: K for each observed entry and pass, and K^2 for each with joint dense scores, which also take K^3 and K^2 numbers of memory for each
/// row.
///
/// ```
/// use npb_bpfa::{BpfaRows, BpfaVb, BpfaVbConfig};
///
/// let values = (0..200).map(|at| ((at / 5) as f32 * 0.7).sin() * [1.0, -1.0, 0.5, 0.0, 2.0][at % 5]).collect();
/// let rows = BpfaRows::complete(40, 5, values)?;
/// let mut run = BpfaVb::new(&rows, BpfaVbConfig { atoms: 3, ..BpfaVbConfig::default() })?;
/// let (first, last) = (run.step()?, (0..50).try_fold(0.0, |_, _| run.step())?);
/// assert!(last > first);
/// # Ok::<(), npb_bpfa::BpfaError>(())
/// ```
pub struct BpfaVb<'d> {
    rows: &'d BpfaRows,
    config: BpfaVbConfig,
    state: BpfaPosterior,
    /// Made so far.
    iterations: u64,
}

impl Variational for BpfaVb<'_> {
    type State = BpfaPosterior;
    type Error = BpfaError;

    fn step(&mut self) -> Result<f64, BpfaError> {
        BpfaVb::step(self)
    }

    fn state(&self) -> BpfaPosterior {
        self.state.clone()
    }
}

/// Means of a gamma factor and of its logarithm.
#[derive(Clone, Copy)]
struct Expected {
    mean: f64,
    ln: f64,
}

fn expected((shape, rate): (f64, f64)) -> Expected {
    let law = gamma_law((shape, rate));
    Expected {
        mean: law.mean(),
        ln: law.mean_ln(),
    }
}

fn gamma_law((shape, rate): (f64, f64)) -> Gamma {
    Gamma::new(shape, rate).expect("factors are checked where they are made")
}

fn beta_law((a, b): (f64, f64)) -> Beta {
    Beta::new(a, b).expect("factors are checked where they are made")
}

/// What updates of rows and columns need of the other factors.
struct Means {
    /// Of the slab precision of each atom.
    slab: Vec<Expected>,
    /// Of the noise precision of each column.
    noise: Vec<f64>,
    /// `<ln pi_k>` and `<ln(1 - pi_k)>`.
    weights: Vec<(f64, f64)>,
}

impl<'d> BpfaVb<'d> {
    /// Starts with atoms at random rows, as the sampler does.
    ///
    /// # Errors
    /// A configuration out of range.
    pub fn new(rows: &'d BpfaRows, config: BpfaVbConfig) -> Result<Self, BpfaError> {
        config.validate()?;
        let (n, p, k) = (rows.n_rows(), rows.n_columns(), config.atoms);
        let atoms = init::random_rows(rows, k, &mut stream(config.seed, [0; 4]))?;
        let (slab, noise) = init::precisions(rows, k);
        let prior = config.usage.weight(k, n, 0, &Dependence::default())?;
        let switches = config.switches();
        let n_noise = if config.channel_noise {
            rows.n_channels()
        } else {
            1
        };
        let n_slabs = if matches!(config.slab, SlabPrior::Shared { .. }) {
            1
        } else {
            k
        };
        let tau = match config.slab {
            SlabPrior::Shared { .. } => (1.0, 1.0),
            SlabPrior::PerAtom { shape, .. } => (1.0, slab / shape),
        };
        let mut score_variance = vec![1.0 / slab; n * k];
        if config.covariances() {
            score_variance = vec![0.0; n * k * k];
            for own in score_variance.chunks_exact_mut(k * k) {
                own.iter_mut().step_by(k + 1).for_each(|x| *x = 1.0 / slab);
            }
        }
        let state = BpfaPosterior {
            n_rows: n,
            n_columns: p,
            n_atoms: k,
            dictionary_mean: atoms.values.iter().map(|&d| f64::from(d)).collect(),
            dictionary_variance: vec![0.1 / p as f64; p * k],
            on: vec![0.5; if switches { n * k } else { 0 }],
            score_mean: vec![0.0; n * k],
            score_variance,
            slab: vec![(1.0, 1.0 / slab); n_slabs],
            slab_rate: tau,
            noise: vec![(1.0, 1.0 / noise); n_noise],
            weights: vec![(prior.a(), prior.b()); if switches { k } else { 0 }],
        };
        Self::resume(rows, config, state, &[])
    }

    /// Goes on from a posterior and its trace, in the same bits as if the run had never stopped.
    ///
    /// # Errors
    /// A configuration out of range; a posterior that is not of these rows and this configuration.
    pub fn resume(
        rows: &'d BpfaRows,
        config: BpfaVbConfig,
        state: BpfaPosterior,
        trace: &[VbReport],
    ) -> Result<Self, BpfaError> {
        config.validate()?;
        let shape = (rows.n_rows(), rows.n_columns(), rows.n_channels());
        state.check(&config, shape)?;
        Ok(Self {
            rows,
            config,
            state,
            iterations: trace.len() as u64,
        })
    }

    /// The posterior.
    pub fn state(&self) -> &BpfaPosterior {
        &self.state
    }

    /// Makes one iteration; the bound after it.
    ///
    /// # Errors
    /// Numerical trouble.
    pub fn step(&mut self) -> Result<f64, BpfaError> {
        self.iterations += 1;
        for update in BpfaVbUpdate::ALL {
            self.apply(update)?;
        }
        let bound: f64 = self.bound_terms().iter().sum();
        if bound.is_finite() {
            return Ok(bound);
        }
        Err(BpfaError::NotFinite {
            sweep: self.iterations,
            what: "bound",
            value: bound,
        })
    }

    /// Makes one update.
    ///
    /// # Errors
    /// Numerical trouble.
    pub fn apply(&mut self, update: BpfaVbUpdate) -> Result<(), BpfaError> {
        match update {
            BpfaVbUpdate::Scores => self.update_scores()?,
            BpfaVbUpdate::Dictionary => self.update_dictionary(),
            BpfaVbUpdate::Weights => self.update_weights()?,
            BpfaVbUpdate::Slab => self.update_slab()?,
            BpfaVbUpdate::SlabRate => self.update_slab_rate()?,
            BpfaVbUpdate::Noise => self.update_noise()?,
        }
        Ok(())
    }

    fn means(&self) -> Means {
        let state = &self.state;
        let slab = |k: usize| expected(state.slab[if state.slab.len() == 1 { 0 } else { k }]);
        let noise: Vec<f64> = state.noise.iter().map(|&g| expected(g).mean).collect();
        let channel = |&c: &u32| noise[if noise.len() == 1 { 0 } else { c as usize }];
        let weight = |&w: &(f64, f64)| (beta_law(w).mean_ln(), beta_law(w).mean_ln_rest());
        Means {
            slab: (0..state.n_atoms).map(slab).collect(),
            noise: self.rows.channels().iter().map(channel).collect(),
            weights: state.weights.iter().map(weight).collect(),
        }
    }

    fn update_scores(&mut self) -> Result<(), BpfaError> {
        let means = self.means();
        let k = self.state.n_atoms;
        let mut state = std::mem::replace(&mut self.state, BpfaPosterior::empty());
        let (mut on, mut mean, mut variance) = (
            std::mem::take(&mut state.on),
            std::mem::take(&mut state.score_mean),
            std::mem::take(&mut state.score_variance),
        );
        let per_row = variance.len() / state.n_rows;
        let this = (&*self, &state, &means);
        let done: Vec<Result<(), BpfaError>> = if on.is_empty() {
            let rows = mean.chunks_mut(k).zip(variance.chunks_mut(per_row));
            parallel::map(rows.enumerate(), |(i, (mean, variance))| {
                this.0
                    .update_row(this.1, this.2, i, &mut [], mean, variance)
            })
        } else {
            let rows = mean.chunks_mut(k).zip(variance.chunks_mut(per_row));
            let rows = rows.zip(on.chunks_mut(k));
            parallel::map(rows.enumerate(), |(i, ((mean, variance), on))| {
                this.0.update_row(this.1, this.2, i, on, mean, variance)
            })
        };
        state.on = on;
        state.score_mean = mean;
        state.score_variance = variance;
        self.state = state;
        done.into_iter().collect()
    }

    /// Scores of row `i`; `state` lacks the scores.
    fn update_row(
        &self,
        state: &BpfaPosterior,
        means: &Means,
        i: usize,
        on: &mut [f64],
        mean: &mut [f64],
        variance: &mut [f64],
    ) -> Result<(), BpfaError> {
        if self.config.covariances() {
            let solved = self.update_row_jointly(state, means, i, mean, variance);
            return solved.map_err(|bad| BpfaError::Numerical {
                sweep: self.iterations,
                block: "scores, row",
                item: i,
                pivot: bad.pivot,
                value: bad.value,
            });
        }
        let k = state.n_atoms;
        let probability = |on: &[f64], k: usize| on.get(k).copied().unwrap_or(1.0);
        let columns = self.rows.columns(i);
        let mut residual: Vec<f64> = Vec::with_capacity(self.rows.values(i).len());
        for (e, &y) in self.rows.values(i).iter().enumerate() {
            let d = state.loadings(place(columns, e));
            let fitted: f64 = (0..k).map(|k| d[k] * probability(on, k) * mean[k]).sum();
            residual.push(f64::from(y) - fitted);
        }
        for atom in 0..k {
            let old = probability(on, atom) * mean[atom];
            let (mut linear, mut norm) = (0.0, 0.0);
            for (e, r) in residual.iter().enumerate() {
                let p = place(columns, e);
                let d = state.loadings(p)[atom];
                linear += means.noise[p] * d * (r + d * old);
                norm += means.noise[p] * (d * d + state.loading_variances(p)[atom]);
            }
            let slab = means.slab[atom];
            if on.is_empty() {
                variance[atom] = 1.0 / (slab.mean + norm);
                mean[atom] = variance[atom] * linear;
            } else if self.config.joint() {
                variance[atom] = 1.0 / (slab.mean + norm);
                mean[atom] = variance[atom] * linear;
                let (ln_on, ln_off) = means.weights[atom];
                let gain = slab.ln + variance[atom].ln() + linear * mean[atom];
                on[atom] = logistic(ln_on - ln_off + 0.5 * gain);
            } else {
                variance[atom] = 1.0 / (slab.mean + on[atom] * norm);
                mean[atom] = variance[atom] * on[atom] * linear;
                let (ln_on, ln_off) = means.weights[atom];
                let square = mean[atom].powi(2) + variance[atom];
                on[atom] = logistic(ln_on - ln_off + mean[atom] * linear - 0.5 * square * norm);
            }
            let change = probability(on, atom) * mean[atom] - old;
            for (e, r) in residual.iter_mut().enumerate() {
                *r -= change * state.loadings(place(columns, e))[atom];
            }
        }
        Ok(())
    }

    fn update_row_jointly(
        &self,
        state: &BpfaPosterior,
        means: &Means,
        i: usize,
        mean: &mut [f64],
        covariance: &mut [f64],
    ) -> Result<(), NotPositiveDefinite> {
        let k = state.n_atoms;
        covariance.fill(0.0);
        mean.fill(0.0);
        for (e, &y) in self.rows.values(i).iter().enumerate() {
            let p = place(self.rows.columns(i), e);
            let (d, v, g) = (
                state.loadings(p),
                state.loading_variances(p),
                means.noise[p],
            );
            for b in 0..k {
                let factor = g * d[b];
                mean[b] += factor * f64::from(y);
                let column = &mut covariance[b * k + b..(b + 1) * k];
                let rest = column.iter_mut().zip(&d[b..]);
                rest.for_each(|(sum, &x)| *sum += factor * x);
                covariance[b * (k + 1)] += g * v[b];
            }
        }
        (0..k).for_each(|k_| covariance[k_ * (k + 1)] += means.slab[k_].mean);
        let factor = Cholesky::new(MatRef::from_column_major_slice(covariance, k, k))?;
        factor.solve(mean);
        factor.inverse_into(MatMut::from_column_major_slice_mut(covariance, k, k));
        Ok(())
    }

    /// All atoms of each column, one after the other; slides 42 and 43, corrected.
    fn update_dictionary(&mut self) {
        let means = self.means();
        let k = self.state.n_atoms;
        let mut mean = std::mem::take(&mut self.state.dictionary_mean);
        let mut variance = std::mem::take(&mut self.state.dictionary_variance);
        let this = &*self;
        let columns = mean.chunks_mut(k).zip(variance.chunks_mut(k));
        parallel::for_each(columns.enumerate(), |(p, (mean, variance))| {
            this.update_column(means.noise[p], p, mean, variance)
        });
        self.state.dictionary_mean = mean;
        self.state.dictionary_variance = variance;
    }

    fn update_column(&self, noise: f64, p: usize, mean: &mut [f64], variance: &mut [f64]) {
        let state = &self.state;
        let k = state.n_atoms;
        let prior = state.n_columns as f64;
        let entries: Vec<(usize, f64)> = self
            .rows
            .column(p)
            .map(|(i, e)| (i, f64::from(self.rows.all_values()[e])))
            .collect();
        let fitted =
            |i: usize, mean: &[f64]| -> f64 { (0..k).map(|k| mean[k] * state.first(i, k)).sum() };
        let mut residual: Vec<f64> = entries.iter().map(|&(i, y)| y - fitted(i, mean)).collect();
        for atom in 0..k {
            let (mut linear, mut precision) = (0.0, 0.0);
            for (&(i, _), r) in entries.iter().zip(&residual) {
                let first = state.first(i, atom);
                linear += first * (r + mean[atom] * first);
                precision += state.second(i, atom);
                if self.config.covariances() {
                    let own = &state.score_variance[(i * k + atom) * k..][..k];
                    let all: f64 = own.iter().zip(&*mean).map(|(c, m)| c * m).sum();
                    linear -= all - own[atom] * mean[atom];
                }
            }
            let old = mean[atom];
            variance[atom] = 1.0 / (prior + noise * precision);
            mean[atom] = variance[atom] * noise * linear;
            let change = mean[atom] - old;
            for (&(i, _), r) in entries.iter().zip(&mut residual) {
                *r -= change * state.first(i, atom);
            }
        }
    }

    fn update_weights(&mut self) -> Result<(), ParameterError> {
        let state = &mut self.state;
        if state.on.is_empty() {
            return Ok(());
        }
        let (n, k) = (state.n_rows, state.n_atoms);
        let prior = self.config.usage.weight(k, n, 0, &Dependence::default())?;
        let sums = column_sums(&state.on, k);
        for (weight, on) in state.weights.iter_mut().zip(sums) {
            *weight = (prior.a() + on, prior.b() + (n as f64 - on).max(0.0));
        }
        Ok(())
    }

    /// Numbers of scores that count, and the sum of their squares, of each atom.
    fn slab_sums(&self) -> (Vec<f64>, Vec<f64>) {
        let state = &self.state;
        let (n, k) = (state.n_rows, state.n_atoms);
        let active_only = self.config.switches() && self.config.joint();
        let (mut counts, mut squares) = (vec![0.0; k], vec![0.0; k]);
        for i in 0..n {
            for atom in 0..k {
                let weight = if active_only {
                    state.on[i * k + atom]
                } else {
                    1.0
                };
                let square = state.score_mean[i * k + atom].powi(2) + state.variance(i, atom);
                counts[atom] += weight;
                squares[atom] += weight * square;
            }
        }
        (counts, squares)
    }

    fn update_slab(&mut self) -> Result<(), BpfaError> {
        let (counts, squares) = self.slab_sums();
        let tau = expected(self.state.slab_rate).mean;
        match self.config.slab {
            SlabPrior::Shared { prior } => {
                let (n, square): (f64, f64) = (counts.iter().sum(), squares.iter().sum());
                self.state.slab[0] = (prior.shape + 0.5 * n, prior.rate + 0.5 * square);
            }
            SlabPrior::PerAtom { shape, .. } => {
                let both = counts.iter().zip(&squares);
                for (slab, (n, square)) in self.state.slab.iter_mut().zip(both) {
                    *slab = (shape + 0.5 * n, tau + 0.5 * square);
                }
            }
        }
        self.check_factors("slab precision", &self.state.slab)
    }

    fn update_slab_rate(&mut self) -> Result<(), BpfaError> {
        if let SlabPrior::PerAtom { shape, rate } = self.config.slab {
            let total: f64 = self.state.slab.iter().map(|&g| expected(g).mean).sum();
            let n = self.state.slab.len() as f64;
            self.state.slab_rate = (rate.shape + n * shape, rate.rate + total);
        }
        self.check_factors("rate of slab precisions", &[self.state.slab_rate])
    }

    fn update_noise(&mut self) -> Result<(), BpfaError> {
        let squares = self.expected_squares();
        let counts = channel_counts(self.rows);
        let prior = self.config.noise;
        let factor = |n: f64, square: f64| (prior.shape + 0.5 * n, prior.rate + 0.5 * square);
        if self.state.noise.len() == 1 {
            let n: u64 = counts.iter().sum();
            self.state.noise[0] = factor(n as f64, squares.iter().sum());
        } else {
            for (c, noise) in self.state.noise.iter_mut().enumerate() {
                *noise = factor(counts[c] as f64, squares[c]);
            }
        }
        self.check_factors("noise precision", &self.state.noise)
    }

    fn check_factors(&self, what: &'static str, factors: &[(f64, f64)]) -> Result<(), BpfaError> {
        for &(shape, rate) in factors {
            if Gamma::new(shape, rate).is_err() {
                return Err(BpfaError::NotFinite {
                    sweep: self.iterations,
                    what,
                    value: rate,
                });
            }
        }
        Ok(())
    }

    /// Expected squared residuals, summed by channel.
    fn expected_squares(&self) -> Vec<f64> {
        let state = &self.state;
        let rows: Vec<Vec<f64>> = parallel::map(0..state.n_rows, |i| {
            let mut squares = vec![0.0; self.rows.n_channels()];
            for (e, &y) in self.rows.values(i).iter().enumerate() {
                let p = place(self.rows.columns(i), e);
                let (fitted, variance) = state.moments(i, p);
                let square = (f64::from(y) - fitted).powi(2) + variance;
                squares[self.rows.channels()[p] as usize] += square;
            }
            squares
        });
        let mut total = vec![0.0; self.rows.n_channels()];
        for row in rows {
            total.iter_mut().zip(row).for_each(|(t, x)| *t += x);
        }
        total
    }

    /// The terms of the bound: likelihood, dictionary, scores, switches, slab precisions, their rate, noise precisions, weights.
    pub fn bound_terms(&self) -> Vec<f64> {
        let state = &self.state;
        let k = state.n_atoms;
        let means = self.means();
        let squares = self.expected_squares();
        let counts = channel_counts(self.rows);
        let likelihood = squares
            .iter()
            .zip(&counts)
            .enumerate()
            .map(|(c, (square, &n))| {
                let g = expected(state.noise[if state.noise.len() == 1 { 0 } else { c }]);
                0.5 * n as f64 * (g.ln - std::f64::consts::TAU.ln()) - 0.5 * g.mean * square
            });
        let prior = state.n_columns as f64;
        let loadings = state.dictionary_mean.iter().zip(&state.dictionary_variance);
        let dictionary =
            loadings.map(|(m, v)| 0.5 * (1.0 + (v * prior).ln() - prior * (v + m * m)));
        let scores = (0..state.n_rows).map(|i| self.row_bound(i, &means));
        let switches = state.on.iter().enumerate().map(|(at, &on)| {
            let (ln_on, ln_off) = means.weights[at % k];
            entropy(on) + on * ln_on + (1.0 - on) * ln_off
        });
        let law = |prior: GammaPrior| gamma_law((prior.shape, prior.rate));
        let tau = expected(state.slab_rate);
        let slab: f64 = match self.config.slab {
            SlabPrior::Shared { prior } => -gamma_law(state.slab[0]).kl(&law(prior)),
            SlabPrior::PerAtom { shape, .. } => state
                .slab
                .iter()
                .map(|&g| {
                    let own = expected(g);
                    shape * tau.ln - ln_gamma(shape) + (shape - 1.0) * own.ln - tau.mean * own.mean
                        + gamma_law(g).entropy()
                })
                .sum(),
        };
        let slab_rate = match self.config.slab {
            SlabPrior::Shared { .. } => 0.0,
            SlabPrior::PerAtom { rate, .. } => -gamma_law(state.slab_rate).kl(&law(rate)),
        };
        let noise = state
            .noise
            .iter()
            .map(|&g| -gamma_law(g).kl(&law(self.config.noise)));
        let weights = self
            .config
            .usage
            .weight(k, state.n_rows, 0, &Dependence::default());
        let weights: f64 = weights.map_or(f64::NAN, |prior| {
            let prior = beta_law((prior.a(), prior.b()));
            state.weights.iter().map(|&w| -beta_law(w).kl(&prior)).sum()
        });
        vec![
            likelihood.sum(),
            dictionary.sum(),
            scores.sum(),
            switches.sum(),
            slab,
            slab_rate,
            noise.sum(),
            weights,
        ]
    }

    /// Scores of a row given their switches.
    fn row_bound(&self, i: usize, means: &Means) -> f64 {
        let state = &self.state;
        let k = state.n_atoms;
        let term = |atom: usize, ln_variance: f64| {
            let slab = means.slab[atom];
            let square = state.score_mean[i * k + atom].powi(2) + state.variance(i, atom);
            0.5 * (1.0 + ln_variance + slab.ln - slab.mean * square)
        };
        if self.config.covariances() {
            let own = &state.score_variance[i * k * k..(i + 1) * k * k];
            let ln_det = Cholesky::new(MatRef::from_column_major_slice(own, k, k))
                .map_or(f64::NAN, |factor| factor.ln_det());
            return 0.5 * ln_det + (0..k).map(|atom| term(atom, 0.0)).sum::<f64>();
        }
        let active_only = self.config.switches() && self.config.joint();
        let weight = |atom: usize| {
            if active_only {
                state.on[i * k + atom]
            } else {
                1.0
            }
        };
        (0..k)
            .map(|atom| weight(atom) * term(atom, state.variance(i, atom).ln()))
            .sum()
    }
}

impl BpfaPosterior {
    fn empty() -> Self {
        Self {
            n_rows: 0,
            n_columns: 0,
            n_atoms: 0,
            dictionary_mean: Vec::new(),
            dictionary_variance: Vec::new(),
            on: Vec::new(),
            score_mean: Vec::new(),
            score_variance: Vec::new(),
            slab: Vec::new(),
            slab_rate: (1.0, 1.0),
            noise: Vec::new(),
            weights: Vec::new(),
        }
    }

    /// Number of atoms, K.
    pub fn n_atoms(&self) -> usize {
        self.n_atoms
    }

    /// Posterior mean of the noise-free value at row i, column p; units of the model.
    ///
    /// # Panics
    /// When there is no such cell.
    pub fn fitted(&self, i: usize, p: usize) -> f64 {
        let d = self.loadings(p);
        (0..self.n_atoms).map(|k| d[k] * self.first(i, k)).sum()
    }

    /// Expected number of rows that use each atom; of dense scores all of them.
    pub fn usage(&self) -> Vec<f64> {
        if self.on.is_empty() {
            return vec![self.n_rows as f64; self.n_atoms];
        }
        column_sums(&self.on, self.n_atoms)
    }

    /// Posterior mean and variance of the noise-free value at row i, column p; units of the model. Cost: K, or its square with covariances.
    ///
    /// # Panics
    /// When there is no such cell.
    pub fn moments(&self, i: usize, p: usize) -> (f64, f64) {
        let k = self.n_atoms;
        let covariances = self.score_variance.len() != self.score_mean.len();
        let (d, v) = (self.loadings(p), self.loading_variances(p));
        let (mut mean, mut variance) = (0.0, 0.0);
        for atom in 0..k {
            let (first, second) = (self.first(i, atom), self.second(i, atom));
            mean += d[atom] * first;
            variance += v[atom] * second + d[atom].powi(2) * (second - first * first);
            if covariances {
                let own = &self.score_variance[(i * k + atom) * k..][..atom];
                let cross: f64 = own.iter().zip(d).map(|(c, d)| c * d).sum();
                variance += 2.0 * d[atom] * cross;
            }
        }
        (mean, variance)
    }

    fn loadings(&self, p: usize) -> &[f64] {
        &self.dictionary_mean[p * self.n_atoms..(p + 1) * self.n_atoms]
    }

    fn loading_variances(&self, p: usize) -> &[f64] {
        &self.dictionary_variance[p * self.n_atoms..(p + 1) * self.n_atoms]
    }

    /// Mean of switch times score.
    fn first(&self, i: usize, k: usize) -> f64 {
        let at = i * self.n_atoms + k;
        self.on.get(at).map_or(1.0, |&on| on) * self.score_mean[at]
    }

    /// Mean of its square.
    fn second(&self, i: usize, k: usize) -> f64 {
        let at = i * self.n_atoms + k;
        let square = self.score_mean[at].powi(2) + self.variance(i, k);
        self.on.get(at).map_or(1.0, |&on| on) * square
    }

    /// Variance of a score that is on.
    fn variance(&self, i: usize, k: usize) -> f64 {
        let n = self.n_atoms;
        if self.score_variance.len() == self.score_mean.len() {
            self.score_variance[i * n + k]
        } else {
            self.score_variance[(i * n + k) * n + k]
        }
    }

    pub(crate) fn check(
        &self,
        config: &BpfaVbConfig,
        (n, p, channels): (usize, usize, usize),
    ) -> Result<(), BpfaError> {
        let k = config.atoms;
        let finite = |x: &f64| x.is_finite();
        let positive = |x: &f64| x.is_finite() && *x > 0.0;
        let pairs = |x: &(f64, f64)| positive(&x.0) && positive(&x.1);
        let size = |len: usize, factors: &[usize]| {
            let product = factors.iter().try_fold(1_usize, |n, &x| n.checked_mul(x));
            product == Some(len)
        };
        expect(
            (self.n_rows, self.n_columns, self.n_atoms) == (n, p, k),
            "sizes of the posterior",
        )?;
        expect(
            size(self.dictionary_mean.len(), &[p, k])
                && size(self.dictionary_variance.len(), &[p, k])
                && self.dictionary_mean.iter().all(finite)
                && self.dictionary_variance.iter().all(positive),
            "dictionary",
        )?;
        let variances = match config.covariances() {
            true => {
                size(self.score_variance.len(), &[n, k, k])
                    && self.score_variance.iter().all(finite)
            }
            false => {
                size(self.score_variance.len(), &[n, k]) && self.score_variance.iter().all(positive)
            }
        };
        let on = match config.switches() {
            true => size(self.on.len(), &[n, k]) && self.weights.len() == k,
            false => self.on.is_empty() && self.weights.is_empty(),
        };
        expect(
            variances
                && on
                && size(self.score_mean.len(), &[n, k])
                && self.score_mean.iter().all(finite)
                && self.on.iter().all(|x| (0.0..=1.0).contains(x))
                && self.weights.iter().all(pairs),
            "scores",
        )?;
        let slabs = if matches!(config.slab, SlabPrior::Shared { .. }) {
            1
        } else {
            k
        };
        let noise = if config.channel_noise { channels } else { 1 };
        expect(
            self.slab.len() == slabs
                && self.noise.len() == noise
                && self.slab.iter().chain(&self.noise).all(pairs)
                && pairs(&self.slab_rate),
            "precisions",
        )
    }
}

fn column_sums(values: &[f64], k: usize) -> Vec<f64> {
    let mut sums = vec![0.0; k];
    for row in values.chunks_exact(k) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
    }
    sums
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Entropy of a Bernoulli variable.
fn entropy(p: f64) -> f64 {
    let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    term(p) + term(1.0 - p)
}
