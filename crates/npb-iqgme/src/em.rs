//! The finite mixture of experts by expectation maximisation: the number of components is given, parameters are points.
//!
//! Two classes. The E-step is exact with missing features and labels: given a component, utility and features are jointly normal, which a label truncates, so the likelihood `sum_i ln sum_h pi_h N(x_o) Phi(y s / sqrt(1 + V))` never falls. What is maximised is this plus two penalties that keep it
//! finite: covariances see `covariance_rows` further rows with the covariance of all data, experts have a ridge. Source: W 3.2.1; X. Liao, H. Li and L. Carin,
//! "Quadratically gated mixture of experts for incomplete data classification", 2007. Equations in `docs/iqgme.md`.

use std::borrow::Cow;

use npb_data::{Labels, Table, clusters};
use npb_infer::ranges::{OutOfRange, moderate, up_to};
use npb_infer::{Stop, Variational, VbLimits, VbOutcome, VbReport, VbRun, Watch, stream};
use npb_linalg::condition::{Conditional, Gaussian, Scratch};
use npb_linalg::faer::Mat;
use npb_linalg::{Cholesky, NotPositiveDefinite};
use npb_priors::dist::probit_moments;
use npb_priors::special::{ln_phi, log_sum_exp};
use serde::{Deserialize, Serialize};

use crate::answers::with_first_class;
use crate::bound::trace_product;
use crate::config::{MOST_COMPONENTS, MOST_RUNS};
use crate::data::{IqgmeData, at_most_two, fingerprint};
use crate::ensemble::questions::{Describes, Fit, OneTable, Stored, Variant};
use crate::ensemble::train::{Model, Watched, planned};
use crate::gibbs::state::DrawnComponent;
use crate::mixture::Mixture;
use crate::predict::{Experts, Gate, Predictor};
use crate::state::{dot, expect};
use crate::units::Units;
use crate::{IqgmeConfig, IqgmeError, Result, start};

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
    pub restarts: usize,
    /// How many rows with the covariance of all data each component's covariance sees beside its own, for each feature.
    pub covariance_rows: f64,
    /// Ridge of the experts' coefficients, in standardised units.
    pub expert_ridge: f64,
    /// When a run ends.
    pub limits: VbLimits,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for QgmeConfig {
    fn default() -> Self {
        Self {
            components: 3,
            restarts: 4,
            covariance_rows: 0.25,
            expert_ridge: 0.1,
            limits: VbLimits {
                max_iterations: 300,
                tolerance: 1e-6,
            },
            seed: 0,
        }
    }
}

impl QgmeConfig {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        up_to("components", self.components, MOST_COMPONENTS)?;
        up_to("restarts", self.restarts, MOST_RUNS)?;
        moderate("covariance_rows", self.covariance_rows)?;
        moderate("expert_ridge", self.expert_ridge)?;
        self.limits.validate()
    }
}

/// The finite mixture of experts.
#[derive(Clone, Debug)]
pub struct Finite;

/// A fitted finite mixture of experts. Questions and answers are in the user's units, columns in the order of training.
pub type QgmeFit = Fit<Finite>;

/// What is stored of a fit, beside settings, units and classes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trained {
    stop: Stop,
    trace: Vec<VbReport>,
    mixture: Mixture,
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
pub fn fit_qgme(table: &Table, labels: &Labels, config: &QgmeConfig) -> Result<QgmeFit> {
    fit_qgme_watched(table, labels, config, &Watch::none())
}

/// As [`fit_qgme`], watched: the watcher hears of every iteration of every start and may stop them, and a checkpoint lets a fit that was stopped or killed go on to
/// the same bits as if it had never stopped.
pub fn fit_qgme_watched(
    table: &Table,
    labels: &Labels,
    config: &QgmeConfig,
    watch: &Watch<'_>,
) -> Result<QgmeFit> {
    config.validate()?;
    let data = IqgmeData::new(table, labels, &IqgmeConfig::default())?;
    at_most_two(&data.classes)?;
    let plan = planned(&[()], config.restarts, 1);
    let watched =
        Watched::<Finite>::new(watch, config, fingerprint(&data)?, plan, 0, config.limits)?;
    let data = [data];
    let runs = watched.train(&data, &[], |_, outcome, em| Ok((outcome, em.mixture)))?;
    let height = |run: &Run| run.0.trace.last().map_or(f64::NEG_INFINITY, |r| r.elbo);
    // Of equal runs the first.
    let higher = |a: Run, b: Run| if height(&b) > height(&a) { b } else { a };
    let best = runs.into_iter().reduce(higher);
    let (VbOutcome { stop, trace }, mixture) = best.expect("at least one start, checked");
    let [data] = data;
    let stored = Stored {
        config: config.clone(),
        classes: data.classes,
        units: data.units,
        trained: Trained {
            stop,
            trace,
            mixture,
        },
    };
    Fit::new(stored, ())
}

/// How a run went, and where it ended.
type Run = (VbOutcome, Mixture);

impl OneTable for Finite {}

impl Variant for Finite {
    const MODEL: &'static str = "npb-iqgme/em/2";
    type Config = QgmeConfig;
    type Units = Units;
    type Trained = Trained;
    type Rows = ();
    type Derived = Predictor;

    fn check(stored: &Stored<Self>) -> Result<()> {
        stored.config.validate()?;
        expect(stored.classes.len() <= 2, "number of classes")?;
        let (p, n_utilities) = (stored.n_features(), stored.n_utilities());
        stored.trained.mixture.check(p, n_utilities)
    }

    fn derive(stored: &Stored<Self>) -> Result<Predictor> {
        stored.trained.mixture.predictor()
    }

    fn probabilities(fit: &QgmeFit, _: usize, table: &Table) -> Result<Vec<Vec<f64>>> {
        let rows = fit.units().rows(table)?;
        let others = fit.derived.probabilities(&rows, Experts::AtMeans)?;
        Ok(with_first_class(others))
    }
}

/// All at the parameters found, which are taken for the truth: too sure with few rows.
impl Describes for Finite {
    const GATE: Gate = Gate::AtMeans;

    fn mixtures(fit: &QgmeFit) -> Vec<(f64, Cow<'_, Predictor>)> {
        vec![(1.0, Cow::Borrowed(&fit.derived))]
    }

    fn draw_key(config: &QgmeConfig) -> (u64, u64) {
        (config.seed, IMPUTE)
    }
}

/// The objective stands in the place of the bound.
impl Model for Finite {
    type Data = IqgmeData;
    type Init = ();
    type State = Mixture;
    type Vb<'d> = Em<'d>;
    const FILE: &'static str = "npb-iqgme/em/run/3";
    const FOLD_ITERATIONS: u64 = 0;

    fn begin<'d>(
        data: &'d IqgmeData,
        config: QgmeConfig,
        ((), restart): ((), u64),
        reached: Option<VbRun<Mixture>>,
    ) -> Result<Em<'d>> {
        let Some(VbRun { state, trace }) = reached else {
            return Em::new(data, config, restart);
        };
        let rows = &data.rows;
        state.check(rows.n_features, rows.n_utilities)?;
        Ok(Em {
            data,
            config,
            mixture: state,
            iteration: trace.len() as u64,
        })
    }
}

/// One run.
pub struct Em<'d> {
    data: &'d IqgmeData,
    config: QgmeConfig,
    mixture: Mixture,
    iteration: u64,
}

/// Sums of one component over rows `z = [x; t; 1]`: `sum rho <z z'>` over labelled rows, and over the others, whose utilities are of no use; lower triangles.
struct Sums {
    labelled: Mat<f64>,
    unlabelled: Mat<f64>,
}

impl Sums {
    fn zeros(p: usize) -> Self {
        Self {
            labelled: Mat::zeros(p + 2, p + 2),
            unlabelled: Mat::zeros(p + 2, p + 2),
        }
    }

    /// `sum rho`.
    fn count(&self) -> f64 {
        let last = self.labelled.nrows() - 1;
        self.all(last, last)
    }

    /// Of all rows.
    fn all(&self, i: usize, j: usize) -> f64 {
        let at = (i.max(j), i.min(j));
        self.labelled[at] + self.unlabelled[at]
    }
}

/// What is known of a row's utility and missing features under a component.
struct Known<'a> {
    /// Places of the missing features and, last, the utility in a row.
    missing: &'a [usize],
    /// Their covariance without the label.
    covariance: Mat<f64>,
    /// Their regression on the utility.
    gain: Vec<f64>,
}

impl Known<'_> {
    /// Adds a row completed without its label (`sign`; 0 for none) to the sums.
    fn add(&self, rho: f64, mut z: Vec<f64>, sign: f64, sums: &mut Sums) {
        let missing = self.missing;
        // By how much the label changes the variance of the utility.
        let mut narrowed = 0.0;
        if let (true, &[.., t]) = (sign != 0.0, missing) {
            let variance = self.variance();
            let sd = variance.sqrt();
            let cut = probit_moments(z[t] / sd, sign > 0.0);
            narrowed = variance * ((cut.second - cut.mean * cut.mean).max(0.0) - 1.0);
            let moved = sd * cut.mean - z[t];
            let each = missing.iter().zip(&self.gain);
            each.for_each(|(&j, gain)| z[j] += gain * moved);
        }
        let second = match sign {
            0.0 => &mut sums.unlabelled,
            _ => &mut sums.labelled,
        };
        for (j, own) in z.iter().enumerate() {
            let column = &mut second.col_as_slice_mut(j)[j..];
            for (sum, other) in column.iter_mut().zip(&z[j..]) {
                *sum += rho * own * other;
            }
        }
        for (l, &j) in missing.iter().enumerate() {
            let column = second.col_as_slice_mut(j);
            for (k, &i) in missing.iter().enumerate().skip(l) {
                let of_label = narrowed * self.gain[k] * self.gain[l];
                column[i] += rho * (self.covariance[(k, l)] + of_label);
            }
        }
    }

    /// Of the utility without the label.
    fn variance(&self) -> f64 {
        let last = self.missing.len() - 1;
        self.covariance[(last, last)]
    }
}

/// A component given a missing pattern.
struct Given<'a> {
    ln_weight: f64,
    conditional: Conditional<'a>,
    known: Known<'a>,
}

impl<'a> Given<'a> {
    fn new(
        (law, ln_weight): &'a (Gaussian, f64),
        (observed, missing): &'a (Vec<usize>, Vec<usize>),
        scratch: &'a mut Scratch,
    ) -> Result<Self, NotPositiveDefinite> {
        let mut conditional = law.condition(observed, missing, scratch)?;
        let covariance = conditional.covariance().to_owned();
        let last = missing.len() - 1;
        let column = covariance.col_as_slice(last);
        Ok(Self {
            ln_weight: *ln_weight,
            known: Known {
                missing,
                gain: column.iter().map(|c| c / column[last]).collect(),
                covariance,
            },
            conditional,
        })
    }

    /// `ln pi_h p(x_o, y | h)` of a row, and it completed by means given its observed features.
    fn see(&mut self, row: &[f64], sign: f64) -> (f64, Vec<f64>) {
        let p = row.len();
        let mut z = [row, &[0.0, 1.0]].concat();
        let mut ln_joint = self.ln_weight + self.conditional.ln_density_observed(&z[..=p]);
        self.conditional.complete(&mut z[..=p]);
        if sign != 0.0 {
            ln_joint += ln_phi(sign * z[p] / self.known.variance().sqrt());
        }
        (ln_joint, z)
    }
}

/// Adds a row to the sums of the components; returns its log likelihood.
fn add_row(row: &[f64], sign: f64, given: &mut [Given<'_>], sums: &mut [Sums]) -> f64 {
    let seen: Vec<(f64, Vec<f64>)> = given.iter_mut().map(|given| given.see(row, sign)).collect();
    let ln: Vec<f64> = seen.iter().map(|(ln_joint, _)| *ln_joint).collect();
    let total = log_sum_exp(&ln);
    for (((ln_joint, z), given), sums) in seen.into_iter().zip(given).zip(sums) {
        let rho = (ln_joint - total).exp();
        if rho > INACTIVE {
            given.known.add(rho, z, sign, sums);
        }
    }
    total
}

impl Variational for Em<'_> {
    type State = Mixture;
    type Error = IqgmeError;

    /// E-step and M-step; returns the objective before them.
    fn step(&mut self) -> Result<f64> {
        self.iteration += 1;
        let rows = &self.data.rows;
        let laws = self.laws()?;
        let mut sums: Vec<Sums> = laws.iter().map(|_| Sums::zeros(rows.n_features)).collect();
        let mut scratch = vec![Scratch::default(); laws.len()];
        let mut objective = self.penalty()?;
        for group in &rows.groups {
            let pattern = &rows.patterns[group.pattern];
            let missing = [&pattern.missing[..], &[rows.n_features]].concat();
            let places = (pattern.observed.clone(), missing);
            let failed = IqgmeError::at(self.iteration, "missing features");
            let given = |(h, (law, scratch))| {
                let given = Given::new(law, &places, scratch);
                given.map_err(|source| failed((h, source)))
            };
            let each = laws.iter().zip(&mut scratch).enumerate();
            let mut given = each.map(given).collect::<Result<Vec<_>, _>>()?;
            for position in group.rows.clone() {
                let (row, sign) = (rows.row(position), rows.signs[position]);
                objective += add_row(row, sign, &mut given, &mut sums);
            }
        }
        self.maximise(&sums)?;
        IqgmeError::finite_bound(self.iteration, objective)
    }

    fn state(&self) -> Mixture {
        self.mixture.clone()
    }
}

impl<'d> Em<'d> {
    fn new(data: &'d IqgmeData, config: QgmeConfig, restart: u64) -> Result<Self> {
        let points = start::completed(data)?;
        let mut rng = stream(config.seed, [restart, 0, START, 0]);
        let all: Vec<usize> = (0..points.len()).collect();
        let mut centres = clusters::k_means(&points, &all, config.components, &mut rng);
        // Its last iteration may have left a centre without points.
        let nearest = |x: &Vec<f64>, centres: &[Vec<f64>]| clusters::nearest(x, centres).0;
        let taken: Vec<usize> = points.iter().map(|x| nearest(x, &centres)).collect();
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
            iteration: 0,
        };
        let p = data.rows.n_features;
        let mut sums: Vec<Sums> = centres.iter().map(|_| Sums::zeros(p)).collect();
        let whole = Known {
            missing: &[],
            covariance: Mat::zeros(0, 0),
            gain: Vec::new(),
        };
        for (x, &sign) in points.iter().zip(&data.rows.signs) {
            let z = [&x[..], &[sign, 1.0]].concat();
            whole.add(1.0, z, sign, &mut sums[nearest(x, &centres)]);
        }
        em.maximise(&sums)?;
        Ok(em)
    }

    /// Of each component the law of `[x; t]`, with precision `[Lambda + w_x w_x', -w_x; -w_x', 1]`, and the logarithm of the weight. Without labels `t` is of no use.
    fn laws(&self) -> Result<Vec<(Gaussian, f64)>> {
        let none = vec![0.0; self.data.rows.n_features + 1];
        let law = |(h, component): (usize, &DrawnComponent)| {
            let (mean, precision) = (&component.mean, &component.precision);
            let (p, w) = (mean.len(), self.mixture.experts.get(h).unwrap_or(&none));
            let entry = |i: usize| dot(precision.col_as_slice(i), mean) - w[i] * w[p];
            let linear: Vec<f64> = (0..p).map(entry).chain([w[p]]).collect();
            let joint = Mat::from_fn(p + 1, p + 1, |i, j| match (i < p, j < p) {
                (true, true) => precision[(i, j)] + w[i] * w[j],
                (false, false) => 1.0,
                _ => -w[i.min(j)],
            });
            let law = Gaussian::from_precision(&linear, joint.as_ref());
            let law =
                law.map_err(|source| IqgmeError::at(self.iteration, "precision")((h, source)))?;
            Ok((law, self.mixture.weights[h].ln()))
        };
        let components = self.mixture.components.iter();
        components.enumerate().map(law).collect()
    }

    /// What the penalties add to the likelihood.
    fn penalty(&self) -> Result<f64> {
        let rows = self.config.covariance_rows * self.data.rows.n_features as f64;
        let mut sum = 0.0;
        for (h, component) in self.mixture.components.iter().enumerate() {
            let factor = Cholesky::new(component.precision.as_ref())
                .map_err(|source| IqgmeError::at(self.iteration, "precision")((h, source)))?;
            let trace = trace_product(&self.data.covariance, &component.precision);
            sum += 0.5 * rows * (factor.ln_det() - trace);
        }
        for w in &self.mixture.experts {
            sum -= 0.5 * self.config.expert_ridge * dot(w, w);
        }
        Ok(sum)
    }

    fn maximise(&mut self, sums: &[Sums]) -> Result<()> {
        let total: f64 = sums.iter().map(Sums::count).sum();
        let (mut components, mut experts) = (Vec::new(), Vec::new());
        for (h, sums) in sums.iter().enumerate() {
            self.mixture.weights[h] = sums.count() / total;
            let old = self.mixture.components.get(h);
            let component = self.component(sums, old);
            components.push(
                component
                    .map_err(|source| IqgmeError::at(self.iteration, "covariance")((h, source)))?,
            );
            if self.data.n_labelled > 0 {
                let expert = self.expert(&sums.labelled);
                experts.push(
                    expert
                        .map_err(|source| IqgmeError::at(self.iteration, "expert")((h, source)))?,
                );
            }
        }
        self.mixture.components = components;
        self.mixture.experts = experts;
        Ok(())
    }

    /// Ridge regression of the utility on the features and the constant, whose place in `sums` is behind it.
    fn expert(&self, sums: &Mat<f64>) -> Result<Vec<f64>, NotPositiveDefinite> {
        let p = sums.nrows() - 2;
        let at = |j: usize| if j < p { j } else { p + 1 };
        let entry = |i: usize, j: usize| sums[(i.max(j), i.min(j))];
        let ridge = self.config.expert_ridge;
        let design = Mat::from_fn(p + 1, p + 1, |i, j| {
            entry(at(i), at(j)) + if i == j { ridge } else { 0.0 }
        });
        let mut w: Vec<f64> = (0..=p).map(|j| entry(p, at(j))).collect();
        Cholesky::new(design.as_ref())?.solve(&mut w);
        Ok(w)
    }

    fn component(
        &self,
        sums: &Sums,
        old: Option<&DrawnComponent>,
    ) -> Result<DrawnComponent, NotPositiveDefinite> {
        let (p, count) = (self.data.rows.n_features, sums.count());
        let rows = self.config.covariance_rows * p as f64;
        let first = |j: usize| sums.all(p + 1, j);
        let mean = match old {
            Some(old) if count < LEAST_COUNT => old.mean.clone(),
            _ => (0..p).map(|j| first(j) / count).collect(),
        };
        let covariance = Mat::from_fn(p, p, |i, j| {
            // Around any mean, also one that is not the rows' own.
            let scatter = sums.all(i, j) - mean[i] * first(j) - first(i) * mean[j]
                + count * mean[i] * mean[j];
            (scatter + rows * self.data.covariance[(i, j)]) / (count + rows)
        });
        let precision = Cholesky::new(covariance.as_ref())?.inverse();
        Ok(DrawnComponent { mean, precision })
    }
}

impl QgmeFit {
    /// The penalised log-likelihood, iteration by iteration, of the start that ended highest.
    pub fn trace(&self) -> &[VbReport] {
        &self.stored.trained.trace
    }

    /// Why that start ended.
    pub fn stop(&self) -> Stop {
        self.stored.trained.stop
    }

    /// The parameters. There are fewer components than asked for when there are fewer different rows.
    pub fn mixture(&self) -> &Mixture {
        &self.stored.trained.mixture
    }
}
