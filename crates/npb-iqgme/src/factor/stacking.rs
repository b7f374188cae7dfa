//! What runs foretell of labels that they were not told; see [`crate::stacking`].

use std::ops::ControlFlow;

use npb_data::{Labels, Table};

use super::config::FactorStart;
use super::data::FactorData;
use super::predict::Predictor;
use super::vb::FactorVb;
use crate::checkpoints::FoldFiles;
use crate::runs::run_all;
use crate::stacking::{self, ITERATIONS, Side, Vote};
use crate::{FactorConfig, IqgmeError};

/// Votes of the runs, in the order in which they are made; none when there are too few labels, or folds are not wanted. `files`: where what they foretell is kept from fold to
/// fold, if it is.
pub(crate) fn votes(
    table: &Table,
    labels: &Labels,
    classes: &[String],
    config: &FactorConfig,
    files: Option<&FoldFiles<'_, FactorConfig>>,
) -> Result<Option<Vec<Vote>>, IqgmeError> {
    let n_runs = config.starts.len() * config.restarts;
    let foretold = |sides: &[Side]| {
        let fold = Fold::new(table, labels, config, &sides[0])?;
        run_all(&config.starts, config.restarts, |_, start, restart| {
            fold.foretold(config, start, restart)
        })
    };
    let (n_folds, seed) = (config.folds, config.seed);
    let by_run = stacking::by_run(&[labels], n_folds, [n_runs, 1], seed, files, foretold)?;
    let second = second(labels, classes, config);
    // The bound says little of the labels and less of so many features: even where labels are few.
    let even = vec![1.0 / n_runs as f64; n_runs];
    let weights = |by_run: &[Vec<f64>]| stacking::stack(by_run, &even);
    Ok(by_run.map(|by_run| stacking::votes(&by_run, &second, weights)))
}

/// Whether each row is of the second class, in the order in which rows are left out.
pub(super) fn second(labels: &Labels, classes: &[String], config: &FactorConfig) -> Vec<bool> {
    let sides = stacking::sides(&[labels], config.folds, config.seed).unwrap_or_default();
    let rows = sides.iter().flatten().flat_map(|side| &side.left_out);
    rows.map(|&i| labels.name(i) == classes.get(1).map(String::as_str))
        .collect()
}

/// Data without the rows of a fold, and these.
pub(super) struct Fold {
    pub(super) data: FactorData,
    left_out: Table,
    /// Whether a row that was left out is of the second class.
    second: Vec<bool>,
}

impl Fold {
    pub(super) fn new(
        table: &Table,
        labels: &Labels,
        config: &FactorConfig,
        Side { kept, left_out }: &Side,
    ) -> Result<Self, IqgmeError> {
        let data = FactorData::new(&table.select_rows(kept), &labels.select_rows(kept), config)?;
        let second = |&i: &usize| labels.name(i) == Some(data.classes[1].as_str());
        Ok(Self {
            second: left_out.iter().map(second).collect(),
            left_out: table.select_rows(left_out),
            data,
        })
    }

    /// Probability of the class that each row has, by a run that was told neither row nor class.
    pub(super) fn foretold(
        &self,
        config: &FactorConfig,
        start: FactorStart,
        restart: u64,
    ) -> Result<Vec<f64>, IqgmeError> {
        let limited = FactorConfig {
            max_iterations: config.max_iterations.min(ITERATIONS),
            ..config.clone()
        };
        let mut vb = FactorVb::new(&self.data, limited, start, restart)?;
        vb.run(|_, _| ControlFlow::Continue(()))?;
        let state = vb.into_state();
        let FactorData { units, effects, .. } = &self.data;
        let cells = units.cells_left_out(&self.left_out)?;
        let predictor = Predictor::new(&state);
        let probability = predictor.probability(&state, &cells, (effects, &effects.of(&cells)))?;
        let each = probability.into_iter().zip(&self.second);
        Ok(each
            .map(|(p, second)| if *second { p } else { 1.0 - p })
            .collect())
    }
}
