//! The finite mixture of experts by expectation maximisation: the number of components is given, parameters are points.
//!
//! Two classes. The E-step is exact with missing features and labels: given a component, label, utility and missing features are jointly a truncated
//! normal, so the likelihood `sum_i ln sum_h pi_h N(x_o) Phi(y s / sqrt(1 + V))` never falls. What is maximised is this plus two penalties that keep it
//! finite: covariances see `covariance_rows` further rows with the covariance of all data, experts have a ridge. Source: W 3.2.1; X. Liao, H. Li and L. Carin,
//! "Quadratically gated mixture of experts for incomplete data classification", 2007. Equations in `docs/iqgme.md`.

use std::borrow::Cow;

use npb_data::clusters;
use npb_infer::ranges::{above, at_least, moderate, up_to};
use npb_infer::watch::{CheckpointError, Part};
use npb_infer::{Saved, Stop, Watch, storage, stream};
use npb_linalg::condition::{Conditional, Gaussian, Scratch};
use npb_linalg::faer::{Mat, MatRef};
use npb_linalg::mixture::Pattern;
use npb_linalg::{Cholesky, NotPositiveDefinite};
use npb_priors::dist::probit_moments;
use npb_priors::special::{ln_phi, log_sum_exp};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::answers::with_first_class;
use crate::bound::trace_product;
use crate::config::{MOST_COMPONENTS, MOST_RUNS};
use crate::data::{IqgmeData, at_most_two, fingerprint};
use crate::ensemble::questions::prelude::*;
use crate::gibbs::state::DrawnComponent;
use crate::mixture::Mixture;
use crate::predict::{Experts, Gate, Predictor};
use crate::rows::Rows;
use crate::state::dot;
use crate::{IqgmeConfig, start};

/// Keys of the random streams of starts and of cells drawn for the user.
const START: u64 = 50;
const IMPUTE: u64 = 51;

/// Responsibilities below this count as zero: so little moves no sum.
const INACTIVE: f64 = 1e-20;

/// A component with less than this of a row keeps its mean.
const LEAST_COUNT: f64 = 1e-8;

/// Configuration of a finite mixture of experts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QgmeConfig {
    /// `K`, the number of components.
    pub components: usize,
    /// Starts from k-means, each with its own random numbers; the one that ends highest counts.
    pub starts: usize,
    /// How many rows with the covariance of all data each component's covariance sees beside its own, for each feature.
    pub covariance_rows: f64,
    /// Ridge of the experts' coefficients, in standardised units.
    pub expert_ridge: f64,
    /// At most this many iterations from a start.
    pub max_iterations: u64,
    /// A run has converged when the objective's relative change falls below this.
    pub tolerance: f64,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for QgmeConfig {
    fn default() -> Self {
        Self {
            components: 3,
            starts: 4,
            covariance_rows: 0.25,
            expert_ridge: 0.1,
            max_iterations: 300,
            tolerance: 1e-6,
            seed: 0,
        }
    }
}

impl QgmeConfig {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), IqgmeError> {
        up_to("components", self.components, MOST_COMPONENTS)?;
        up_to("starts", self.starts, MOST_RUNS)?;
        moderate("covariance_rows", self.covariance_rows)?;
        moderate("expert_ridge", self.expert_ridge)?;
        at_least("max_iterations", self.max_iterations, 1)?;
        Ok(above("tolerance", self.tolerance, 0.0)?)
    }
}

/// What is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stored {
    config: QgmeConfig,
    units: Units,
    classes: Vec<String>,
    stop: Stop,
    trace: Vec<f64>,
    mixture: Mixture,
}

/// A fitted finite mixture of experts. Questions and answers are in the user's units, columns in the order of training.
#[derive(Clone, Debug)]
pub struct QgmeFit {
    stored: Stored,
    predictor: Predictor,
}

/// Fits a mixture of `config.components` experts by expectation maximisation.
///
/// `table`: n x P, cells may be missing. `labels`: one for each row, two classes or none at all, rows may be unlabelled; classes without a labelled row are left
/// out and do not count. Starts run in parallel; the result
/// does not depend on the number of threads. Cost of an iteration: `K P^2` for each row, `K min(|o|, |m|)^3` for each missing pattern. Errors: see
/// [`IqgmeData::new`]; more than two classes; a configuration out of range.
///
/// ```
/// use npb_iqgme::npb_data::{Labels, Table};
/// use npb_iqgme::{QgmeConfig, fit_qgme};
///
/// let gap = f64::NAN;
/// let table = Table::from_nan_coded(6, 2, &[-2.0, -1.9, -1.7, gap, -2.2, -2.1, 2.1, 1.8, gap, 2.2, 1.9, 2.0])?;
/// let labels = Labels::from_strings(&["low", "low", "low", "high", "high", "high"].map(Some));
/// let model = fit_qgme(&table, &labels, &QgmeConfig { components: 2, ..QgmeConfig::default() })?;
/// assert_eq!(model.predict(&table)?, ["low", "low", "low", "high", "high", "high"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit_qgme(
    table: &Table,
    labels: &Labels,
    config: &QgmeConfig,
) -> Result<QgmeFit, IqgmeError> {
    fit_qgme_watched(table, labels, config, &Watch::none())
}

/// As [`fit_qgme`], watched: the watcher hears of every iteration of every start and may stop them, and a checkpoint lets a fit that was stopped or killed go on to
/// the same bits as if it had never stopped.
pub fn fit_qgme_watched(
    table: &Table,
    labels: &Labels,
    config: &QgmeConfig,
    watch: &Watch<'_>,
) -> Result<QgmeFit, IqgmeError> {
    config.validate()?;
    let data = IqgmeData::new(table, labels, &IqgmeConfig::default())?;
    at_most_two(&data.classes)?;
    let key = storage::fingerprint(&(config, fingerprint(&data)?))?;
    let version = env!("CARGO_PKG_VERSION");
    let checkpoint = watch.checkpoint("npb-iqgme/em/run/2", version, key, config.starts)?;
    let one = |start: usize| {
        let part = watch.part(format!("start {start}"), 1.0 / config.starts as f64);
        let mut em = match checkpoint.reached(start) {
            None => Em::new(&data, config, start as u64)?,
            Some((mixture, trace)) => Em::resume(&data, config, mixture, trace)?,
        };
        let stop = em.run(part, |em| {
            let reached = || (em.mixture.clone(), em.trace.clone());
            checkpoint.offer(start, em.trace.len() as u64, reached)
        })?;
        checkpoint.write(start, || (em.mixture.clone(), em.trace.clone()))?;
        Ok((em, stop))
    };
    let runs = (0..config.starts).into_par_iter().map(one);
    let runs: Vec<(Em<'_>, Stop)> = runs.collect::<Result<_, IqgmeError>>()?;
    let height = |em: &Em<'_>| em.trace.last().copied().unwrap_or(f64::NEG_INFINITY);
    // Of equal runs the first.
    let best = runs.into_iter().reduce(|best, run| {
        if height(&run.0) > height(&best.0) {
            run
        } else {
            best
        }
    });
    let (em, stop) = best.expect("at least one start, checked");
    QgmeFit::from_stored(Stored {
        config: config.clone(),
        stop,
        trace: em.trace,
        mixture: em.mixture,
        classes: data.classes.clone(),
        units: data.units,
    })
}

/// One run.
struct Em<'d> {
    data: &'d IqgmeData,
    config: &'d QgmeConfig,
    mixture: Mixture,
    trace: Vec<f64>,
}

/// Sums of one component over rows, whose features have a constant one last.
struct Sums {
    /// `sum rho <x^b x^b'>` over labelled rows, and over the others; lower triangles.
    labelled: Mat<f64>,
    unlabelled: Mat<f64>,
    /// `sum rho <t x^b>` over labelled rows.
    target: Vec<f64>,
}

/// What a label says of a row's utility, given a component.
struct LabelledUtility<'a> {
    mean: f64,
    /// Covariance of the utility and the missing features without the label, and the share of it that the label leaves.
    gain: &'a [f64],
    kept: f64,
    /// What the label adds to the covariance of the missing features, as a multiple of that gain times itself.
    narrowed: f64,
}

impl Sums {
    fn zeros(p: usize) -> Self {
        Self {
            labelled: Mat::zeros(p + 1, p + 1),
            unlabelled: Mat::zeros(p + 1, p + 1),
            target: vec![0.0; p + 1],
        }
    }

    /// Adds a row with these means, a constant feature last; `missing` features, ascending, have this `covariance` without the label, if there is one.
    fn add(
        &mut self,
        rho: f64,
        x: &[f64],
        missing: &[usize],
        covariance: MatRef<'_, f64>,
        utility: Option<&LabelledUtility<'_>>,
    ) {
        let second = match utility {
            Some(_) => &mut self.labelled,
            None => &mut self.unlabelled,
        };
        for (j, own) in x.iter().enumerate() {
            let column = &mut second.col_as_slice_mut(j)[j..];
            for (sum, other) in column.iter_mut().zip(&x[j..]) {
                *sum += rho * own * other;
            }
        }
        for (l, &j) in missing.iter().enumerate() {
            let column = second.col_as_slice_mut(j);
            let covariance = covariance.col(l).iter().skip(l);
            for (&i, c) in missing[l..].iter().zip(covariance) {
                column[i] += rho * c;
            }
        }
        let Some(utility) = utility else { return };
        for (l, (&j, gain)) in missing.iter().zip(utility.gain).enumerate() {
            let column = second.col_as_slice_mut(j);
            let by = rho * utility.narrowed * gain;
            for (&i, gain) in missing[l..].iter().zip(&utility.gain[l..]) {
                column[i] += by * gain;
            }
            self.target[j] += rho * utility.kept * gain;
        }
        for (sum, x) in self.target.iter_mut().zip(x) {
            *sum += rho * utility.mean * x;
        }
    }

    /// Number of features.
    fn n_features(&self) -> usize {
        self.target.len() - 1
    }

    /// `sum rho`.
    fn count(&self) -> f64 {
        self.second(self.n_features(), self.n_features())
    }

    /// `sum rho <x_j>`.
    fn first(&self, j: usize) -> f64 {
        self.second(self.n_features(), j)
    }

    /// `sum rho <x_i x_j>`.
    fn second(&self, i: usize, j: usize) -> f64 {
        let at = (i.max(j), i.min(j));
        self.labelled[at] + self.unlabelled[at]
    }
}

/// A component as the rows see it.
struct Law {
    gaussian: Gaussian,
    ln_weight: f64,
    expert: Option<Vec<f64>>,
}

/// A component given a missing pattern.
struct Given<'a> {
    law: &'a Law,
    conditional: Conditional<'a>,
    missing: &'a [usize],
    /// Of the utility without a label: its covariance with the missing features, and its variance.
    gain: Vec<f64>,
    variance: f64,
}

/// What a component says of a row.
struct Seen {
    /// `ln pi_h p(x_o, y | h)`.
    ln_joint: f64,
    /// Completed by means given the observed features, a constant feature last.
    x: Vec<f64>,
    /// Mean of the utility without the label; of a labelled row.
    score: Option<f64>,
}

impl<'d> Em<'d> {
    fn new(data: &'d IqgmeData, config: &'d QgmeConfig, number: u64) -> Result<Self, IqgmeError> {
        let points = start::completed(data)?;
        let mut rng = stream(config.seed, [number, 0, START, 0]);
        let all: Vec<usize> = (0..points.len()).collect();
        let mut centres = clusters::k_means(&points, &all, config.components, &mut rng);
        // Its last iteration may have left a centre without points.
        let taken: Vec<usize> = points
            .iter()
            .map(|x| clusters::nearest(x, &centres).0)
            .collect();
        let mut of_centre = 0..centres.len();
        centres.retain(|_| of_centre.next().is_some_and(|h| taken.contains(&h)));
        let mut em = Self {
            data,
            config,
            mixture: Mixture {
                weights: vec![0.0; centres.len()],
                components: Vec::new(),
                experts: Vec::new(),
            },
            trace: Vec::new(),
        };
        let p = data.rows.n_features;
        let mut sums: Vec<Sums> = centres.iter().map(|_| Sums::zeros(p)).collect();
        for (i, mut x) in points.into_iter().enumerate() {
            let h = clusters::nearest(&x, &centres).0;
            x.push(1.0);
            let sign = data.rows.signs[i];
            let utility = LabelledUtility {
                mean: sign,
                gain: &[],
                kept: 1.0,
                narrowed: 0.0,
            };
            let utility = (sign != 0.0).then_some(&utility);
            sums[h].add(1.0, &x, &[], Mat::zeros(0, 0).as_ref(), utility);
        }
        em.maximise(&sums)?;
        Ok(em)
    }

    /// A run that was stopped.
    fn resume(
        data: &'d IqgmeData,
        config: &'d QgmeConfig,
        mixture: Mixture,
        trace: Vec<f64>,
    ) -> Result<Self, IqgmeError> {
        mixture
            .check(data.rows.n_features, data.rows.n_utilities)
            .map_err(|what| IqgmeError::Saved { what })?;
        Ok(Self {
            data,
            config,
            mixture,
            trace,
        })
    }

    /// Why the run is over, if it is.
    fn reached(&self) -> Option<Stop> {
        if let [.., before, now] = self.trace[..] {
            let rel_change = (now - before).abs() / now.abs().max(1.0);
            if rel_change < self.config.tolerance {
                return Some(Stop::Converged { rel_change });
            }
        }
        (self.trace.len() as u64 >= self.config.max_iterations).then_some(Stop::MaxIterations)
    }

    /// Makes the iterations that are left; `after` sees the run after each.
    fn run(
        &mut self,
        mut part: Part<'_, '_>,
        mut after: impl FnMut(&Self) -> Result<(), CheckpointError>,
    ) -> Result<Stop, IqgmeError> {
        let names = ["objective".to_owned()];
        loop {
            let (reached, step) = (self.reached(), self.trace.len() as u64);
            let share = match reached {
                Some(_) => 1.0,
                None => step as f64 / self.config.max_iterations as f64,
            };
            let last = self.trace.last().copied().unwrap_or(f64::NEG_INFINITY);
            let more = part.report(step, share, &names, &[last]);
            match reached {
                Some(stop) => return Ok(stop),
                None if more.is_break() => return Ok(Stop::Cancelled),
                None => self.step()?,
            }
            after(self)?;
        }
    }

    /// E-step and M-step; the trace gets the objective before them.
    fn step(&mut self) -> Result<(), IqgmeError> {
        let laws = self.laws()?;
        let rows: &Rows = &self.data.rows;
        let mut sums: Vec<Sums> = laws.iter().map(|_| Sums::zeros(rows.n_features)).collect();
        let mut scratch = vec![Scratch::default(); laws.len()];
        let mut objective = self.penalty()?;
        for group in &rows.groups {
            let mut given = self.given(&laws, &rows.patterns[group.pattern], &mut scratch)?;
            for position in group.rows.clone() {
                objective += add_row(
                    rows.row(position),
                    rows.signs[position],
                    &mut given,
                    &mut sums,
                );
            }
        }
        if !objective.is_finite() {
            return Err(IqgmeError::Bound {
                iteration: self.trace.len() as u64 + 1,
                value: objective,
            });
        }
        self.trace.push(objective);
        self.maximise(&sums)
    }

    fn failed(
        &self,
        block: &'static str,
        component: usize,
        source: NotPositiveDefinite,
    ) -> IqgmeError {
        IqgmeError::numerical(self.trace.len() as u64, block, component, source)
    }

    fn laws(&self) -> Result<Vec<Law>, IqgmeError> {
        let law = |(h, component): (usize, &DrawnComponent)| {
            let precision = &component.precision;
            let row = |i: usize| dot(precision.col_as_slice(i), &component.mean);
            let linear: Vec<f64> = (0..component.mean.len()).map(row).collect();
            Ok(Law {
                gaussian: Gaussian::from_precision(&linear, precision.as_ref())
                    .map_err(|source| self.failed("precision", h, source))?,
                ln_weight: self.mixture.weights[h].ln(),
                expert: self.mixture.experts.get(h).cloned(),
            })
        };
        self.mixture
            .components
            .iter()
            .enumerate()
            .map(law)
            .collect()
    }

    /// All components given a missing pattern.
    fn given<'a>(
        &self,
        laws: &'a [Law],
        pattern: &'a Pattern,
        scratch: &'a mut [Scratch],
    ) -> Result<Vec<Given<'a>>, IqgmeError> {
        let given = |(h, (law, scratch)): (usize, (&'a Law, &'a mut Scratch))| {
            Given::new(law, pattern, scratch)
                .map_err(|source| self.failed("missing features", h, source))
        };
        laws.iter().zip(scratch).enumerate().map(given).collect()
    }

    /// What the penalties add to the likelihood.
    fn penalty(&self) -> Result<f64, IqgmeError> {
        let rows = self.config.covariance_rows * self.data.rows.n_features as f64;
        let mut sum = 0.0;
        for (h, component) in self.mixture.components.iter().enumerate() {
            let factor = Cholesky::new(component.precision.as_ref())
                .map_err(|source| self.failed("precision", h, source))?;
            let trace = trace_product(&self.data.covariance, &component.precision);
            sum += 0.5 * rows * (factor.ln_det() - trace);
        }
        for w in &self.mixture.experts {
            sum -= 0.5 * self.config.expert_ridge * dot(w, w);
        }
        Ok(sum)
    }

    fn maximise(&mut self, sums: &[Sums]) -> Result<(), IqgmeError> {
        let total: f64 = sums.iter().map(Sums::count).sum();
        let (mut components, mut experts) = (Vec::new(), Vec::new());
        for (h, sums) in sums.iter().enumerate() {
            self.mixture.weights[h] = sums.count() / total;
            let old = self.mixture.components.get(h);
            components.push(
                self.component(sums, old)
                    .map_err(|source| self.failed("covariance", h, source))?,
            );
            if self.data.n_labelled > 0 {
                let mut design = sums.labelled.clone();
                for j in 0..sums.target.len() {
                    design[(j, j)] += self.config.expert_ridge;
                }
                let mut w = sums.target.clone();
                Cholesky::new(design.as_ref())
                    .map_err(|source| self.failed("expert", h, source))?
                    .solve(&mut w);
                experts.push(w);
            }
        }
        self.mixture.components = components;
        self.mixture.experts = experts;
        Ok(())
    }

    fn component(
        &self,
        sums: &Sums,
        old: Option<&DrawnComponent>,
    ) -> Result<DrawnComponent, NotPositiveDefinite> {
        let (p, count) = (sums.n_features(), sums.count());
        let rows = self.config.covariance_rows * p as f64;
        let mean = match old {
            Some(old) if count < LEAST_COUNT => old.mean.clone(),
            _ => (0..p).map(|j| sums.first(j) / count).collect(),
        };
        let covariance = Mat::from_fn(p, p, |i, j| {
            // Around any mean, also one that is not the rows' own.
            let scatter = sums.second(i, j) - mean[i] * sums.first(j) - sums.first(i) * mean[j]
                + count * mean[i] * mean[j];
            (scatter + rows * self.data.covariance[(i, j)]) / (count + rows)
        });
        let precision = Cholesky::new(covariance.as_ref())?.inverse();
        Ok(DrawnComponent { mean, precision })
    }
}

/// Adds a row to the sums of the components; returns its log likelihood.
fn add_row(row: &[f64], sign: f64, given: &mut [Given<'_>], sums: &mut [Sums]) -> f64 {
    let seen: Vec<Seen> = given.iter_mut().map(|given| given.see(row, sign)).collect();
    let ln: Vec<f64> = seen.iter().map(|seen| seen.ln_joint).collect();
    let total = log_sum_exp(&ln);
    for ((seen, given), sums) in seen.into_iter().zip(given).zip(sums) {
        let rho = (seen.ln_joint - total).exp();
        if rho > INACTIVE {
            given.add(rho, seen, sign, sums);
        }
    }
    total
}

impl<'a> Given<'a> {
    fn new(
        law: &'a Law,
        pattern: &'a Pattern,
        scratch: &'a mut Scratch,
    ) -> Result<Self, NotPositiveDefinite> {
        let missing = &pattern.missing;
        let mut conditional = law
            .gaussian
            .condition(&pattern.observed, missing, scratch)?;
        let (mut gain, mut variance) = (Vec::new(), 1.0);
        if let Some(w) = &law.expert {
            let w: Vec<f64> = missing.iter().map(|&j| w[j]).collect();
            let covariance = conditional.covariance();
            let of_feature = |k: usize| covariance.col(k).iter().zip(&w).map(|(c, w)| c * w).sum();
            gain = (0..w.len()).map(of_feature).collect();
            variance += dot(&w, &gain);
        }
        Ok(Self {
            law,
            conditional,
            missing,
            gain,
            variance,
        })
    }

    fn see(&mut self, row: &[f64], sign: f64) -> Seen {
        let mut ln_joint = self.law.ln_weight + self.conditional.ln_density_observed(row);
        let mut x = [row, &[1.0]].concat();
        self.conditional.complete(&mut x[..row.len()]);
        let expert = self.law.expert.as_ref().filter(|_| sign != 0.0);
        let score = expert.map(|w| dot(w, &x));
        if let Some(score) = score {
            ln_joint += ln_phi(sign * score / self.variance.sqrt());
        }
        Seen { ln_joint, x, score }
    }

    /// Adds a row to the component's sums, its moments given the label, if there is one.
    fn add(&mut self, rho: f64, seen: Seen, sign: f64, sums: &mut Sums) {
        let Seen { mut x, score, .. } = seen;
        let utility = score.map(|score| {
            let sd = self.variance.sqrt();
            let cut = probit_moments(score / sd, sign > 0.0);
            let mean = sd * cut.mean;
            for (&j, gain) in self.missing.iter().zip(&self.gain) {
                x[j] += gain * (mean - score) / self.variance;
            }
            let kept = (cut.second - cut.mean * cut.mean).max(0.0);
            LabelledUtility {
                mean,
                gain: &self.gain,
                kept,
                narrowed: (kept - 1.0) / self.variance,
            }
        });
        let covariance = self.conditional.covariance();
        sums.add(rho, &x, self.missing, covariance, utility.as_ref());
    }
}

impl QgmeFit {
    fn from_stored(stored: Stored) -> Result<Self, IqgmeError> {
        let predictor = stored.mixture.predictor()?;
        Ok(Self { stored, predictor })
    }

    /// The penalised log-likelihood, iteration by iteration, of the start that ended highest.
    pub fn trace(&self) -> &[f64] {
        &self.stored.trace
    }

    /// Why that start ended.
    pub fn stop(&self) -> &Stop {
        &self.stored.stop
    }

    /// The parameters. There are fewer components than asked for when there are fewer different rows.
    pub fn mixture(&self) -> &Mixture {
        &self.stored.mixture
    }

    /// Probabilities of the components given the observed features, one vector for each row.
    pub fn responsibilities(&self, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
        let rows = self.stored.units.rows(table)?;
        self.predictor.responsibilities(&rows, Gate::AtMeans)
    }

    /// The most probable component of each row.
    pub fn clusters(&self, table: &Table) -> Result<Vec<usize>, IqgmeError> {
        let responsibilities = self.responsibilities(table)?;
        Ok(responsibilities.iter().map(|r| most_probable(r)).collect())
    }
}

impl Answers for QgmeFit {
    type Task<'a> = ();

    fn task(&self, (): ()) -> Result<usize, IqgmeError> {
        Ok(0)
    }

    fn units(&self) -> &Units {
        &self.stored.units
    }

    fn class_names(&self) -> &[String] {
        &self.stored.classes
    }

    fn probabilities(&self, _: usize, table: &Table) -> Result<Vec<Vec<f64>>, IqgmeError> {
        let rows = self.units().rows(table)?;
        let others = self.predictor.probabilities(&rows, Experts::AtMeans)?;
        Ok(with_first_class(others))
    }
}

/// All at the parameters found, which are taken for the truth: too sure with few rows.
impl Describes for QgmeFit {
    const GATE: Gate = Gate::AtMeans;

    fn mixtures(&self, _: usize) -> Result<Vec<(f64, Cow<'_, Predictor>)>, IqgmeError> {
        Ok(vec![(1.0, Cow::Borrowed(&self.predictor))])
    }

    fn chosen(&self, _: usize, _: usize) -> usize {
        0
    }

    fn draw_key(&self) -> (u64, u64) {
        (self.stored.config.seed, IMPUTE)
    }
}

described!(QgmeFit, QgmeConfig);
classifier!(QgmeFit);
features!(QgmeFit);

impl Saved for QgmeFit {
    const MODEL: &'static str = "npb-iqgme/em/2";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Stored;
    type Error = IqgmeError;

    fn content(&self) -> &Stored {
        &self.stored
    }

    fn from_content(stored: Stored) -> Result<Self, IqgmeError> {
        let saved = |what: String| IqgmeError::Saved { what };
        stored.config.validate()?;
        stored.units.check().map_err(saved)?;
        if !matches!(stored.classes.len(), 0 | 2) {
            return Err(saved("classes: impossible number".to_owned()));
        }
        let n_utilities = stored.classes.len().saturating_sub(1);
        stored
            .mixture
            .check(stored.units.active.len(), n_utilities)
            .map_err(saved)?;
        Self::from_stored(stored)
    }
}
