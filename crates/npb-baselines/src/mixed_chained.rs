//! Chained equations for columns of different kinds.

use npb_data::{Mask, MixedTable};
use npb_linalg::Cholesky;
use npb_linalg::faer::{Mat, MatRef};
use serde::{Deserialize, Serialize};

use crate::BaselineError;
use crate::cells::{Cell, CellValue, Scale, Target, check_targets, rows_of};
use crate::chained::{BayesianRidge, RidgeConfig, Spectrum};
use crate::error::positive;

/// Settings of [`chained_cells`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MixedChainedConfig {
    /// Rounds over the columns; 5 as in mice.
    pub rounds: usize,
    /// Settings of the regressions of numbers.
    pub ridge: RidgeConfig,
    /// Precision of the normal prior on the weights of the multinomial regressions.
    pub penalty: f64,
    /// At most this many steps of a multinomial regression per round; the next round goes on from there.
    pub steps: usize,
}

impl Default for MixedChainedConfig {
    fn default() -> Self {
        Self {
            rounds: 5,
            ridge: RidgeConfig::default(),
            penalty: 1.0,
            steps: 60,
        }
    }
}

/// Predicts each held-out cell by chained equations over mixed columns: Bayesian ridge regression for numbers, multinomial
/// logistic regression for levels.
///
/// Columns enter each other's regressions standardised or as one indicator per level. Start: means and frequencies. A round
/// visits the columns in ascending order of their missing cells, fits the regression on the rows in which the column is
/// observed and refills its holes with the conditional mean, for levels with their probabilities; nothing is drawn. A
/// multinomial regression maximises its penalised likelihood by accelerated steps in the metric of an upper bound of the
/// curvature (Böhning, Annals of the Institute of Statistical Mathematics 44, 1992), from where the last round left it.
///
/// `targets`: true for cells to predict, which must be missing in `table`. Cells come column by column.
/// Cost: rounds x columns x (n D² + D³), D inputs after encoding, and steps x n D K for K levels.
///
/// Source: van Buuren, Groothuis-Oudshoorn, "mice", J. Statistical Software 45(3), 2011, without its random draws.
///
/// # Errors
/// [`BaselineError::Config`], [`BaselineError::Data`] for a mask of another shape, [`BaselineError::Observed`],
/// [`BaselineError::Regression`].
///
/// ```
/// use npb_baselines::{CellValue, MixedChainedConfig, chained_cells};
/// use npb_data::{Mask, MixedColumn, MixedTable};
/// let x = MixedColumn::Real((0..40).map(|i| Some(f64::from(i))).collect());
/// let high = (0..40).map(|i| (i != 35).then_some(i >= 20)).collect();
/// let high = MixedColumn::Binary { levels: ["no".into(), "yes".into()], values: high };
/// let table = MixedTable::new(vec!["x".into(), "high".into()], vec![x, high])?;
/// let targets = Mask::from_fn(40, 2, |i, j| (i, j) == (35, 1))?;
/// let cells = chained_cells(&table, &targets, &MixedChainedConfig::default())?;
/// assert!(matches!(&cells[0].value, CellValue::Levels(p) if p[1] > 0.9));
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
pub fn chained_cells(
    table: &MixedTable,
    targets: &Mask,
    config: &MixedChainedConfig,
) -> Result<Vec<Cell>, BaselineError> {
    config.validate()?;
    check_targets(table, targets)?;
    let mut chain = Chain::new(table);
    let mut order: Vec<usize> = (0..chain.columns.len()).collect();
    order.sort_by_key(|&j| chain.columns[j].holes.len());
    for _ in 0..config.rounds {
        for &j in &order {
            chain.refill(j, config)?;
        }
    }
    let mut cells = Vec::new();
    for column in 0..chain.columns.len() {
        let asked = rows_of(targets, column);
        cells.extend(asked.map(|row| Cell {
            row,
            column,
            value: chain.value(row, column),
        }));
    }
    Ok(cells)
}

impl MixedChainedConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// [`BaselineError::Config`] names the first field out of range.
    pub fn validate(&self) -> Result<(), BaselineError> {
        positive("penalty", self.penalty)?;
        self.ridge.validate()
    }
}

/// One column and its place among the encoded ones.
struct Encoded {
    target: Target,
    scale: Scale,
    /// First encoded column.
    from: usize,
    /// Past the last encoded column.
    to: usize,
    /// Rows in which it is observed, and in which it is not.
    seen: Vec<usize>,
    holes: Vec<usize>,
    /// Weights of its multinomial regression so far, inputs x levels.
    weights: Option<Mat<f64>>,
}

/// All columns with their present fills, encoded.
struct Chain {
    columns: Vec<Encoded>,
    /// n x D: standardised numbers, indicators or probabilities of levels.
    filled: Mat<f64>,
}

impl Chain {
    fn new(table: &MixedTable) -> Self {
        let mut columns = Vec::with_capacity(table.n_cols());
        let mut from = 0;
        for column in table.columns() {
            let target = Target::of(column);
            let to = from + target.width();
            let (seen, holes) = (0..column.len()).partition(|&i| column.is_observed(i));
            let scale = match &target {
                Target::Numbers(values) => Scale::of(values),
                Target::Classes { .. } => Scale { mean: 0.0, sd: 1.0 },
            };
            columns.push(Encoded {
                target,
                scale,
                from,
                to,
                seen,
                holes,
                weights: None,
            });
            from = to;
        }
        let mut filled = Mat::zeros(table.n_rows(), from);
        for column in &columns {
            column.encode(&mut filled);
        }
        Self { columns, filled }
    }

    /// Fits the regression of column `j` on all others and refills its holes.
    fn refill(&mut self, j: usize, config: &MixedChainedConfig) -> Result<(), BaselineError> {
        let column = &self.columns[j];
        let (from, to) = (column.from, column.to);
        let n_inputs = self.filled.ncols() - (to - from);
        if column.holes.is_empty() || column.seen.is_empty() || n_inputs == 0 {
            return Ok(());
        }
        let input = |k: usize| if k < from { k } else { k + to - from };
        let rows_of = |rows: &[usize]| {
            // The last input is the intercept.
            Mat::from_fn(rows.len(), n_inputs + 1, |i, k| match k == n_inputs {
                true => 1.0,
                false => self.filled[(rows[i], input(k))],
            })
        };
        let (x, new) = (rows_of(&column.seen), rows_of(&column.holes));
        let found = match &column.target {
            Target::Numbers(_) => {
                let y: Vec<f64> = column
                    .seen
                    .iter()
                    .map(|&i| self.filled[(i, from)])
                    .collect();
                regress(x, &y, new.as_ref(), &config.ridge)
            }
            Target::Classes { .. } => {
                let y = Mat::from_fn(x.nrows(), to - from, |i, k| {
                    self.filled[(column.seen[i], from + k)]
                });
                let start = column.weights.clone();
                let weights = multinomial(x.as_ref(), y.as_ref(), start, config);
                weights.map(|weights| {
                    let mut p = new.as_ref() * weights.as_ref();
                    softmax_rows(&mut p);
                    self.columns[j].weights = Some(weights);
                    p
                })
            }
        };
        let finite =
            found.filter(|f| (0..f.ncols()).all(|k| f.col(k).iter().all(|v| v.is_finite())));
        let found = finite.ok_or(BaselineError::Regression {
            what: "regression in chained equations",
            column: j,
        })?;
        for (i, &row) in self.columns[j].holes.iter().enumerate() {
            for k in from..to {
                self.filled[(row, k)] = found[(i, k - from)];
            }
        }
        Ok(())
    }

    fn value(&self, row: usize, column: usize) -> CellValue {
        let column = &self.columns[column];
        let cells = (column.from..column.to).map(|k| self.filled[(row, k)]);
        match column.target {
            Target::Numbers(_) => {
                let standard: f64 = cells.sum();
                CellValue::Number(column.scale.mean + column.scale.sd * standard)
            }
            Target::Classes { .. } => CellValue::Levels(cells.collect()),
        }
    }
}

impl Encoded {
    /// Writes the observed cells, and mean or frequencies into the holes.
    fn encode(&self, filled: &mut Mat<f64>) {
        match (&self.target, self.target.marginal()) {
            (Target::Numbers(values), _) => {
                for (i, value) in values.iter().enumerate() {
                    let centred = value.map_or(0.0, |v| v - self.scale.mean);
                    filled[(i, self.from)] = centred / self.scale.sd;
                }
            }
            (Target::Classes { codes, .. }, CellValue::Levels(frequencies)) => {
                for (i, code) in codes.iter().enumerate() {
                    for (k, frequency) in frequencies.iter().enumerate() {
                        let indicator = |c: usize| f64::from(u8::from(c == k));
                        filled[(i, self.from + k)] = code.map_or(*frequency, indicator);
                    }
                }
            }
            (Target::Classes { .. }, CellValue::Number(_)) => {}
        }
    }
}

/// Predictions, n x 1, of a Bayesian ridge regression; `None` when the decomposition does not converge.
fn regress(
    mut x: Mat<f64>,
    y: &[f64],
    new: MatRef<'_, f64>,
    config: &RidgeConfig,
) -> Option<Mat<f64>> {
    let n = y.len() as f64;
    let d = x.ncols() - 1;
    let mean = |j: usize| x.col(j).iter().sum::<f64>() / n;
    let x_mean: Vec<f64> = (0..d).map(mean).collect();
    let y_mean = y.iter().sum::<f64>() / n;
    for (j, mean) in x_mean.iter().enumerate() {
        x.col_mut(j).iter_mut().for_each(|v| *v -= mean);
    }
    let inputs = x.subcols(0, d);
    let gram = inputs.transpose() * inputs;
    let centred: Vec<f64> = y.iter().map(|y| y - y_mean).collect();
    let dot = |j: usize| {
        inputs
            .col(j)
            .iter()
            .zip(&centred)
            .map(|(x, y)| x * y)
            .sum::<f64>()
    };
    let xy: Vec<f64> = (0..d).map(dot).collect();
    let yy = centred.iter().map(|y| y * y).sum();
    let weights = Spectrum::of_gram(gram.as_ref(), &xy, yy)?.maximise_evidence(n, config);
    let ridge = BayesianRidge::new(weights, &x_mean, y_mean);
    let predict = |i: usize| ridge.predict((0..d).map(|j| new[(i, j)]));
    Some(Mat::from_fn(new.nrows(), 1, |i, _| predict(i)))
}

/// Weights, inputs x levels, that maximise sum_i ln p(y_i) - penalty |W|²/2 (the intercept, the last input, nearly free);
/// `y`: indicators. `None` when the bound of the curvature is not positive definite.
fn multinomial(
    x: MatRef<'_, f64>,
    y: MatRef<'_, f64>,
    start: Option<Mat<f64>>,
    config: &MixedChainedConfig,
) -> Option<Mat<f64>> {
    let (d, k) = (x.ncols(), y.ncols());
    let penalty = |j: usize| if j + 1 == d { 1e-3 } else { config.penalty };
    // The curvature of the log likelihood is at most I/2 over levels times X'X over inputs.
    let mut bound = x.transpose() * x;
    for j in 0..d {
        for i in 0..d {
            bound[(i, j)] *= 0.5;
        }
        bound[(j, j)] += penalty(j);
    }
    let factor = Cholesky::new(bound.as_ref()).ok()?;
    let mut weights = start.unwrap_or_else(|| Mat::zeros(d, k));
    let mut ahead = weights.clone();
    let mut momentum = 1.0_f64;
    for _ in 0..config.steps {
        let mut p = x * ahead.as_ref();
        softmax_rows(&mut p);
        let residual = y - p.as_ref();
        let mut gradient = x.transpose() * residual.as_ref();
        for c in 0..k {
            for j in 0..d {
                gradient[(j, c)] -= penalty(j) * ahead[(j, c)];
            }
        }
        let largest = (0..k)
            .flat_map(|c| gradient.col(c).iter())
            .fold(0.0_f64, |m, g| m.max(g.abs()));
        if largest < 1e-6 * x.nrows() as f64 {
            return Some(ahead);
        }
        let mut next = ahead.clone();
        let mut agrees = 0.0;
        for c in 0..k {
            let mut step: Vec<f64> = gradient.col(c).iter().copied().collect();
            factor.solve(&mut step);
            for j in 0..d {
                next[(j, c)] += step[j];
                agrees += gradient[(j, c)] * (next[(j, c)] - weights[(j, c)]);
            }
        }
        // Momentum that leads uphill no longer is dropped.
        let grown = if agrees < 0.0 {
            1.0
        } else {
            0.5 * (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt())
        };
        let push = if agrees < 0.0 {
            0.0
        } else {
            (momentum - 1.0) / grown
        };
        ahead = Mat::from_fn(d, k, |j, c| {
            next[(j, c)] + push * (next[(j, c)] - weights[(j, c)])
        });
        weights = next;
        momentum = grown;
    }
    Some(weights)
}

/// Rows of log-weights to probabilities.
fn softmax_rows(m: &mut Mat<f64>) {
    for i in 0..m.nrows() {
        let row = |m: &Mat<f64>| (0..m.ncols()).map(|k| m[(i, k)]).collect::<Vec<f64>>();
        let largest = row(m).into_iter().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = row(m).into_iter().map(|v| (v - largest).exp()).collect();
        let total: f64 = weights.iter().sum();
        for (k, w) in weights.iter().enumerate() {
            m[(i, k)] = w / total;
        }
    }
}
