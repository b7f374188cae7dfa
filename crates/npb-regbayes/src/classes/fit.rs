//! iLSVM fitted, in one call and driven by hand. Outer iterations, the loop, are `vb::run`, one of them `Alternation::iterate` (`docs/regbayes.md#the-loop`).

use npb_data::{Labels, Table};
use npb_infer::storage::fingerprint;
use npb_infer::watch::{Checkpoint, Part};
use npb_infer::{Saved, Stop, Variational, VbOutcome, VbReport, VbRun, Watch};
use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

use super::margins::{ClassMargins, ClassProblem};
use crate::alternate::Alternation;
use crate::columns::Columns;
use crate::config::{ClassCosts, IlsvmConfig};
use crate::dense::axpy;
use crate::error::{RegBayesError, same_size};
use crate::factors::Items;
use crate::factors::indicators::infer;
use crate::fit::{FeatureReport, reports, saved};
use crate::inputs::InputMap;
use crate::prepared::{Prepared, appended, check_fit};
use crate::state::FeatureState;
use crate::vb::{self, driven};

/// A fitted iLSVM: the posterior of the features of all rows of the fit, and the weights of every class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IlsvmFit {
    /// Settings of the fit.
    pub config: IlsvmConfig,
    /// Why it ended.
    pub stop: Stop,
    /// Every outer iteration; `elbo` is minus the objective.
    pub trace: Vec<VbReport>,
    pub(crate) columns: Columns,
    pub(crate) classes: Vec<String>,
    pub(crate) state: FeatureState,
    /// Class by class: features, inputs if they are appended, bias if there is a column of ones.
    pub(crate) weights: Vec<f64>,
    /// Scores of the rows of the fit, row-major.
    pub(crate) scores: Vec<f64>,
    /// What appended inputs are seen through.
    map: Option<InputMap>,
}

/// Scores of rows for all classes.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassScores {
    classes: Vec<String>,
    values: Vec<f64>,
}

impl ClassScores {
    /// Names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.values.len() / self.classes.len()
    }

    /// `f_y(x_n)` of all classes.
    ///
    /// # Panics
    /// When the row does not exist.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.classes.len()..(row + 1) * self.classes.len()]
    }

    /// The class with the highest score; the first of several.
    ///
    /// # Panics
    /// When the row does not exist.
    pub fn class(&self, row: usize) -> usize {
        let scores = self.row(row);
        (1..scores.len()).fold(0, |best, y| if scores[y] > scores[best] { y } else { best })
    }

    /// How far the highest score exceeds the next.
    ///
    /// # Panics
    /// When the row does not exist.
    pub fn margin(&self, row: usize) -> f64 {
        let (scores, best) = (self.row(row), self.class(row));
        let others = (0..scores.len()).filter(|&y| y != best);
        scores[best] - others.map(|y| scores[y]).fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Fits the model to labelled and unlabelled rows.
///
/// Cost of an outer iteration with N rows, D columns, K features, L classes: at most `inner_sweeps` times `N D K + N K^2 + K^3` and some passes of
/// the machine, `N K L` each.
///
/// # Errors
/// Settings out of range; labels of another number of rows, fewer than two classes among them; no input column that varies; numerical trouble,
/// named with iteration and block.
///
/// ```
/// use npb_regbayes::IlsvmConfig;
/// use npb_regbayes::classes::fit;
/// use npb_regbayes::npb_data::{Labels, Table};
/// // Rows of two kinds; the last ten have no label.
/// let value = |n: usize, d: usize| if n % 2 == d % 2 { 2.0 } else { 0.0 } + ((n * (d + 3)) % 5) as f64 / 5.0;
/// let inputs = Table::complete(50, 6, (0..300).map(|k| value(k / 6, k % 6)).collect())?;
/// let known = |n: usize| (n < 40).then(|| if n % 2 == 0 { "even" } else { "odd" });
/// let labels = Labels::from_strings(&(0..50).map(known).collect::<Vec<_>>());
/// let model = fit(&inputs, &labels, &IlsvmConfig::default())?;
/// let scores = model.scores();                          // joint inference
/// assert!((40..50).all(|n| scores.class(n) == n % 2));
/// assert!(model.predict(&inputs)?.class(41) == 1);      // new rows
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit(
    inputs: &Table,
    labels: &Labels,
    config: &IlsvmConfig,
) -> Result<IlsvmFit, RegBayesError> {
    fit_watched(inputs, labels, config, &Watch::none())
}

/// As [`fit`], watched: progress, cancellation and checkpoints by way of `watch`.
///
/// # Errors
/// As [`fit`]; a checkpoint that cannot be read or written, or is of another fit.
pub fn fit_watched(
    inputs: &Table,
    labels: &Labels,
    config: &IlsvmConfig,
    watch: &Watch<'_>,
) -> Result<IlsvmFit, RegBayesError> {
    let mut part = watch.part("fit", 1.0);
    let prepared = PreparedClasses::new_watched(inputs, labels, config, &mut part)?;
    let key = fingerprint(&(inputs, labels, config))?;
    let checkpoint = watch.checkpoint(CHECKPOINT, IlsvmFit::VERSION, key, 1)?;
    let mut run = prepared.run(labels, config);
    let outcome = vb::run(&mut run.alternation, None, config, (&mut part, &checkpoint))?;
    Ok(run.finish(outcome))
}

/// Name of the model in checkpoints.
const CHECKPOINT: &str = "npb-regbayes/ilsvm/checkpoint";

/// Inputs in the units of a fit, and their features before labels are looked at (IBP).
#[derive(Clone, Debug)]
pub struct PreparedClasses(pub(crate) Prepared);

impl PreparedClasses {
    /// Standardises the inputs and makes the sweeps without labels.
    ///
    /// # Errors
    /// As [`fit`].
    pub fn new(
        inputs: &Table,
        labels: &Labels,
        config: &IlsvmConfig,
    ) -> Result<Self, RegBayesError> {
        let watch = Watch::none();
        Self::new_watched(inputs, labels, config, &mut watch.part("prepare", 1.0))
    }

    pub(crate) fn new_watched(
        inputs: &Table,
        labels: &Labels,
        config: &IlsvmConfig,
        part: &mut Part<'_, '_>,
    ) -> Result<Self, RegBayesError> {
        config.validate()?;
        let rows = labelled_rows(inputs, labels)?;
        let fill = |state: &FeatureState, _, table: &Table| Ok(filled(state, table));
        let core = Prepared::new(inputs, rows, config, Items::from_rows, fill, part)?;
        Ok(Self(core))
    }

    fn run<'d>(&'d self, labels: &'d Labels, config: &'d IlsvmConfig) -> IlsvmVb<'d> {
        IlsvmVb {
            alternation: (self.0)
                .alternation(ClassMargins::new(problem_of(self, labels, config)), config),
            prepared: self,
            labels,
            config,
            trace: Vec::new(),
        }
    }
}

/// A run that is driven by hand: [`step`](Self::step) by step, or [`run`](Self::run) to its end.
///
/// ```
/// use npb_regbayes::IlsvmConfig;
/// use npb_regbayes::classes::{IlsvmVb, PreparedClasses};
/// use npb_regbayes::npb_data::{Labels, Table};
/// use npb_regbayes::npb_infer::Watch;
/// let value = |n: usize, d: usize| if n % 2 == d % 2 { 2.0 } else { 0.0 } + ((n * (d + 3)) % 5) as f64 / 5.0;
/// let inputs = Table::complete(30, 6, (0..180).map(|k| value(k / 6, k % 6)).collect())?;
/// let labels = Labels::from_strings(&(0..30).map(|n| Some(["even", "odd"][n % 2])).collect::<Vec<_>>());
/// let config = IlsvmConfig::default();
/// let prepared = PreparedClasses::new(&inputs, &labels, &config)?;
/// let mut run = IlsvmVb::new(&prepared, &labels, &config)?;
/// let first = run.step()?;
/// assert!(run.step()? >= first - 1e-9);                  // minus the objective
/// let model = run.run(&Watch::none())?;
/// assert_eq!(model.scores().class(3), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct IlsvmVb<'d> {
    prepared: &'d PreparedClasses,
    labels: &'d Labels,
    config: &'d IlsvmConfig,
    alternation: Alternation<'d, ClassMargins>,
    trace: Vec<VbReport>,
}

impl<'d> IlsvmVb<'d> {
    /// Begins with the features of the inputs alone, and the machine on them (IBP + SVM).
    ///
    /// # Errors
    /// Settings out of range, or for other labels than those that were prepared.
    pub fn new(
        prepared: &'d PreparedClasses,
        labels: &'d Labels,
        config: &'d IlsvmConfig,
    ) -> Result<Self, RegBayesError> {
        config.validate()?;
        let codes = labels.codes().iter().enumerate();
        let known = codes.filter_map(|(n, code)| code.map(|_| n));
        if labels.n_rows() != prepared.0.items.n_items()
            || !known.eq(prepared.0.rows.iter().copied())
        {
            return Err(RegBayesError::state(
                "the labelled rows are not those that were prepared",
            ));
        }
        let mut run = prepared.run(labels, config);
        run.alternation.solve()?;
        Ok(run)
    }

    fn finish(self, outcome: VbOutcome) -> IlsvmFit {
        let solution = self.alternation.labels.solution;
        let weights = solution.map_or_else(Vec::new, |s| s.weights);
        let state = self.alternation.factors.state;
        let (n_classes, ones) = (self.labels.n_classes(), self.config.ones);
        let raw = &self.prepared.0.appended;
        IlsvmFit {
            config: self.config.clone(),
            stop: outcome.stop,
            trace: outcome.trace,
            columns: self.prepared.0.columns.clone(),
            classes: self.labels.classes().to_vec(),
            scores: scores(&weights, n_classes, &state.indicators, raw, ones),
            map: self.prepared.0.map.clone(),
            state,
            weights,
        }
    }
}

driven!(IlsvmVb, IlsvmFit);

fn labelled_rows(inputs: &Table, labels: &Labels) -> Result<Vec<usize>, RegBayesError> {
    same_size("labels", labels.n_rows(), inputs.n_rows())?;
    let present = labels.counts().iter().filter(|&&n| n > 0).count();
    if present < 2 {
        return Err(RegBayesError::state(format!(
            "{present} of {} classes has a labelled row: at least two are needed",
            labels.n_classes()
        )));
    }
    let codes = labels.codes().iter().enumerate();
    Ok(codes.filter_map(|(n, code)| code.map(|_| n)).collect())
}

/// The machine's problem for some labels of the labelled rows.
pub(crate) fn problem_of(
    prepared: &PreparedClasses,
    labels: &Labels,
    config: &IlsvmConfig,
) -> ClassProblem {
    let rows = &prepared.0.rows;
    let classes: Vec<u32> = rows
        .iter()
        .filter_map(|&n| labels.codes()[n].map(|c| c as u32))
        .collect();
    let counts = labels.counts();
    let present = counts.iter().filter(|&&n| n > 0).count() as f64;
    let cost = |&class: &u32| match config.class_costs {
        ClassCosts::Equal => config.cost,
        ClassCosts::Balanced => {
            config.cost * rows.len() as f64 / (present * counts[class as usize] as f64)
        }
    };
    ClassProblem {
        costs: classes.iter().map(cost).collect(),
        classes,
        n_classes: labels.n_classes(),
        raw: prepared.0.appended_rows(),
        rows: rows.to_vec(),
        slack: config.slack,
        ones: config.ones,
    }
}

/// Inputs in standard units, D x N, with what the features expect in the holes.
fn filled(state: &FeatureState, table: &Table) -> Mat<f64> {
    let (n_rows, d) = (table.n_rows(), table.n_cols());
    Mat::from_fn(d, n_rows, |j, n| match table.is_observed(n, j) {
        true => table.values()[n * d + j],
        false => npb_linalg::dot(
            state.indicators.col_as_slice(n),
            state.loadings.col_as_slice(j),
        ),
    })
}

/// Scores of all rows (columns of `indicators`, rows of `appended`), row-major.
fn scores(
    weights: &[f64],
    n_classes: usize,
    indicators: &Mat<f64>,
    appended: &[f64],
    ones: f64,
) -> Vec<f64> {
    let (n_rows, k) = (indicators.ncols(), indicators.nrows());
    let (width, r) = (weights.len() / n_classes, appended.len() / n_rows.max(1));
    let score = |(n, y): (usize, usize)| {
        let own = &weights[y * width..][..width];
        let bias = own.get(k + r).map_or(0.0, |b| b * ones);
        npb_linalg::dot(&own[..k], indicators.col_as_slice(n))
            + npb_linalg::dot(&own[k..k + r], &appended[n * r..][..r])
            + bias
    };
    (0..n_rows)
        .flat_map(|n| (0..n_classes).map(move |y| (n, y)))
        .map(score)
        .collect()
}

impl IlsvmFit {
    /// The posterior of the features: items are the rows of the fit, observations its columns in use.
    pub fn state(&self) -> &FeatureState {
        &self.state
    }

    /// Which input columns are in use.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Scores of the rows of the fit, labelled or not: the paper's joint inference, in which the inputs of rows that are to be predicted take part in
    /// the features.
    pub fn scores(&self) -> ClassScores {
        ClassScores {
            classes: self.classes.clone(),
            values: self.scores.clone(),
        }
    }

    /// Features of new rows: `q(z_nk = 1)`, K x rows, from what is observed of them, loadings and sticks as they are.
    ///
    /// # Errors
    /// Other columns than those of the fit.
    pub fn features(&self, inputs: &Table) -> Result<Mat<f64>, RegBayesError> {
        self.infer(&self.columns.apply(inputs)?)
    }

    fn infer(&self, table: &Table) -> Result<Mat<f64>, RegBayesError> {
        let precision = self.config.factors.input_weight / self.state.noise_variance;
        Ok(infer(&self.state, &Items::from_rows(table), precision))
    }

    /// Scores of new rows: their features are inferred from what is observed of them. A row without any observed entry has prior features.
    ///
    /// # Errors
    /// Other columns than those of the fit.
    pub fn predict(&self, inputs: &Table) -> Result<ClassScores, RegBayesError> {
        let table = self.columns.apply(inputs)?;
        let indicators = self.infer(&table)?;
        let other = FeatureState {
            indicators,
            ..self.state.clone()
        };
        let inputs = filled(&other, &table);
        let raw = appended(&inputs, self.map.as_ref(), self.config.raw_inputs)?;
        Ok(ClassScores {
            values: scores(
                &self.weights,
                self.classes.len(),
                &other.indicators,
                &raw,
                self.config.ones,
            ),
            classes: self.classes.clone(),
        })
    }

    /// What the features are: what each one adds to the input columns, which classes it drives.
    pub fn feature_reports(&self) -> Vec<FeatureReport> {
        let width = self.weights.len() / self.classes.len();
        let weights = Mat::from_fn(self.classes.len(), self.state.n_features(), |y, k| {
            self.weights[y * width + k]
        });
        let columns = &self.state.loadings;
        reports(&self.state, &self.columns, columns, &self.classes, &weights)
    }

    /// Mean of each feature over the rows of each class (R, figure 4): one entry per class, `None` for a class without a row. `labels` are those of
    /// the rows of the fit, or some of them.
    ///
    /// # Errors
    /// Labels of another number of rows or classes.
    pub fn class_means(&self, labels: &Labels) -> Result<Vec<Option<Vec<f64>>>, RegBayesError> {
        same_size("labels", labels.n_rows(), self.state.n_items())?;
        same_size("classes", labels.n_classes(), self.classes.len())?;
        let counts = labels.counts();
        let mut means = vec![vec![0.0; self.state.n_features()]; counts.len()];
        for (n, code) in labels.codes().iter().enumerate() {
            if let &Some(class) = code {
                let psi = self.state.indicators.col_as_slice(n);
                axpy(&mut means[class], 1.0 / counts[class] as f64, psi);
            }
        }
        let known = means.into_iter().zip(&counts);
        Ok(known.map(|(mean, &n)| (n > 0).then_some(mean)).collect())
    }

    fn check(&self) -> Result<(), RegBayesError> {
        let wrong = |what: &str| Err(RegBayesError::state(what));
        let state = (&self.state, self.state.n_observations());
        let width = check_fit(&self.config, &self.columns, state, self.map.as_ref())?;
        let n_classes = self.classes.len();
        if n_classes < 2 || n_classes.checked_mul(width) != Some(self.weights.len()) {
            return wrong("the weights do not fit the features and classes");
        }
        if n_classes.checked_mul(self.state.n_items()) != Some(self.scores.len()) {
            return wrong("the scores do not fit the rows and classes");
        }
        let mut numbers = self.weights.iter().chain(&self.scores);
        if !numbers.all(|w| w.is_finite()) {
            return wrong("a weight or score is not finite");
        }
        Ok(())
    }
}

saved!(IlsvmFit, "npb-regbayes/ilsvm");
