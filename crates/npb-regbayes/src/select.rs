//! Choosing the cost C by cross-validation: small to large, each fit from the one before, folds in parallel.

use npb_data::splits::Split;
use npb_infer::parallel;
use npb_infer::{Watch, ranges};

use crate::error::RegBayesError;

/// What cross-validation found.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The costs tried, ascending.
    pub costs: Vec<f64>,
    /// Score of each cost (first index) in each fold.
    pub scores: Vec<Vec<f64>>,
    /// Mean score of each cost.
    pub means: Vec<f64>,
    /// Place of the best; the smallest cost of equals.
    pub best: usize,
}

impl Selection {
    /// The cost with the highest mean score.
    pub fn cost(&self) -> f64 {
        self.costs[self.best]
    }
}

/// Scores each cost in each fold and finds the one with the highest mean.
///
/// `fit_and_score(split, cost, before)` fits the training rows of a split, from what it returned for the next smaller cost (`None` at the first), and scores
/// the test rows: higher is better. Folds run in parallel, costs of a fold one after the other; nothing depends on the number of threads. `watch` hears each fit
/// with its cost; when it stops, what was scored by then is not used.
///
/// ```
/// use npb_regbayes::npb_data::splits::k_fold;
/// use npb_regbayes::npb_infer::{Watch, stream};
/// use npb_regbayes::{Inputs, Machine, MachineLimits, Problem, Slack, Targets, select_cost};
/// // Rows of a fold's test part take no part in its fit: they cost nothing.
/// let x: Vec<f64> = (0..40).map(|n| (n as f64 - 20.0) / 10.0).collect();
/// let positive: Vec<bool> = x.iter().map(|x| *x > 0.4).collect();
/// let machine = Machine::new(Inputs::dense(&x, 1)?.with_ones(1.0)?);
/// let targets = Targets::Binary { positive: &positive, slack: Slack::Linear };
/// let folds = k_fold(40, 5, &mut stream(1, [0; 4]))?;
/// let selection = select_cost(&[0.01, 1.0, 100.0], &folds, &Watch::none(), |split, cost, before| {
///     let mut costs = vec![0.0; 40];
///     split.train.iter().for_each(|&n| costs[n] = cost);
///     let problem = Problem { targets, costs: &costs };
///     let solution = machine.solve(&problem, before.as_ref(), &MachineLimits::default())?;
///     let right = |n: &&usize| (machine.inputs().score(**n, &solution.weights) > 0.0) == positive[**n];
///     Ok((split.test.iter().filter(right).count() as f64 / split.test.len() as f64, solution))
/// })?;
/// assert!(selection.cost() > 0.01 && selection.means[selection.best] > 0.9);
/// # Ok::<(), npb_regbayes::RegBayesError>(())
/// ```
///
/// # Errors
/// No cost, or costs that do not ascend from above 0; no fold; a score that is not a number; the first error of a fit, by fold.
pub fn select_cost<W: Send>(
    costs: &[f64],
    folds: &[Split],
    watch: &Watch<'_>,
    fit_and_score: impl Fn(&Split, f64, Option<W>) -> Result<(f64, W), RegBayesError> + Sync,
) -> Result<Selection, RegBayesError> {
    let by_fold = over_folds(costs, folds, (watch, 1.0), |split, cost, before| {
        let (score, fitted) = fit_and_score(split, cost, before)?;
        match score.is_nan() {
            true => Err(RegBayesError::row("scores of costs", 0, score, "a number")),
            false => Ok((score, fitted)),
        }
    })?;
    let scores: Vec<Vec<f64>> = (0..costs.len())
        .map(|c| by_fold.iter().map(|fold| fold[c]).collect())
        .collect();
    let mean = |scores: &Vec<f64>| scores.iter().sum::<f64>() / scores.len() as f64;
    let means: Vec<f64> = scores.iter().map(mean).collect();
    let better = |best: usize, c| if means[c] > means[best] { c } else { best };
    Ok(Selection {
        best: (1..means.len()).fold(0, better),
        costs: costs.to_vec(),
        scores,
        means,
    })
}

/// What is found in each fold (first index) at each cost, as [`select_cost`] goes through them; `weight` is the share of this in all that `watch` hears of.
pub(crate) fn over_folds<T: Send, W: Send>(
    costs: &[f64],
    folds: &[Split],
    (watch, weight): (&Watch<'_>, f64),
    fit_and_score: impl Fn(&Split, f64, Option<W>) -> Result<(T, W), RegBayesError> + Sync,
) -> Result<Vec<Vec<T>>, RegBayesError> {
    ranges::at_least("costs", costs.len() as u64, 1)?;
    ranges::at_least("folds", folds.len() as u64, 1)?;
    let rises = |n: &usize| costs[*n].is_finite() && (*n == 0 || costs[*n] > costs[*n - 1]);
    if let Some(n) = (0..costs.len()).find(|n| !rises(n) || costs[*n] <= 0.0) {
        let rule = "finite, above 0 and above the one before";
        return Err(RegBayesError::row(
            "costs to choose from",
            n,
            costs[n],
            rule,
        ));
    }
    let names = ["cost".to_owned()];
    let one = |(fold, split): (usize, &Split)| {
        let mut part = watch.part(format!("fold {}", fold + 1), weight / folds.len() as f64);
        let mut before = None;
        let mut found = Vec::with_capacity(costs.len());
        for (step, &cost) in (1_u64..).zip(costs) {
            let (score, fitted) = fit_and_score(split, cost, before.take())?;
            before = Some(fitted);
            found.push(score);
            let share = step as f64 / costs.len() as f64;
            if part.report(step, share, &names, &[cost]).is_break() {
                return Err(stopped());
            }
        }
        Ok(found)
    };
    parallel::try_map(folds.iter().enumerate(), one)
}

/// What a selection that was stopped comes to.
pub(crate) fn stopped() -> RegBayesError {
    RegBayesError::Argument {
        argument: "watch",
        value: "stopped".to_owned(),
        rule: "going on to the last fold: a cost is chosen by all of them",
    }
}
