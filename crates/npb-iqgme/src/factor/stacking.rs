//! Weights of runs by how well they foretell labels that they were not told: see [`crate::stacking`].

use std::ops::ControlFlow;

use npb_data::{Labels, Table};
use npb_infer::stream;

use super::data::FactorData;
use super::predict::Predictor;
use super::vb::FactorVb;
use crate::stacking::{deal, foretold_by_runs, stack};
use crate::{FactorConfig, IqgmeError};

/// Key of the random stream that deals rows to folds.
const FOLDS: u64 = 6;
/// Iterations of a run without a fold, at most: what it foretells is settled before its bound is.
const ITERATIONS: u64 = 15;

/// Weights of the runs, in the order in which they are made; none when there is one run, or too few labels, or folds are not wanted.
pub(crate) fn weights(
    table: &Table,
    labels: &Labels,
    config: &FactorConfig,
) -> Result<Option<Vec<f64>>, IqgmeError> {
    let counts = labels.counts();
    let least = counts.iter().copied().filter(|n| *n > 0).min().unwrap_or(0);
    let n_folds = config.folds.min(least);
    let n_runs = config.starts.len() * config.restarts;
    if n_runs < 2 || n_folds < 2 {
        return Ok(None);
    }
    let folds = deal(
        [labels],
        n_folds,
        &mut stream(config.seed, [0, 0, FOLDS, 0]),
    )
    .concat();
    let sides: Vec<Fold> = (0..n_folds)
        .map(|fold| Fold::new(table, labels, config, &folds, fold))
        .collect::<Result<_, _>>()?;
    let by_run = foretold_by_runs(n_folds, n_runs, |fold, run| {
        sides[fold].foretold(config, run)
    })?;
    Ok(Some(stack(&by_run)))
}

/// Data without the rows of a fold, and these.
struct Fold {
    data: FactorData,
    left_out: Table,
    /// Whether a row that was left out is of the second class.
    second: Vec<bool>,
}

impl Fold {
    fn new(
        table: &Table,
        labels: &Labels,
        config: &FactorConfig,
        folds: &[Option<usize>],
        fold: usize,
    ) -> Result<Self, IqgmeError> {
        let (out, kept): (Vec<usize>, Vec<usize>) =
            (0..folds.len()).partition(|&i| folds[i] == Some(fold));
        let data = FactorData::new(
            &table.select_rows(&kept),
            &labels.select_rows(&kept),
            config,
        )?;
        let second = |&i: &usize| labels.name(i) == Some(data.classes[1].as_str());
        Ok(Self {
            second: out.iter().map(second).collect(),
            left_out: table.select_rows(&out),
            data,
        })
    }

    /// Probability of the class that each row has, by a run that was told neither row nor class.
    fn foretold(&self, config: &FactorConfig, run: usize) -> Result<Vec<f64>, IqgmeError> {
        let start = config.starts[run / config.restarts];
        let limited = FactorConfig {
            max_iterations: config.max_iterations.min(ITERATIONS),
            ..config.clone()
        };
        let mut vb = FactorVb::new(&self.data, limited, start, (run % config.restarts) as u64)?;
        vb.run(|_, _| ControlFlow::Continue(()))?;
        let state = vb.into_state();
        let FactorData {
            margins,
            standardiser,
            active,
            spread_units,
            ..
        } = &self.data;
        let cells = FactorData::prepare(margins, standardiser, active, &self.left_out)?;
        let spread = spread_units.apply(&cells);
        let probability = Predictor::new(&state).probability(&state, &cells, &spread)?;
        let each = probability.into_iter().zip(&self.second);
        Ok(each
            .map(|(p, second)| if *second { p } else { 1.0 - p })
            .collect())
    }
}
