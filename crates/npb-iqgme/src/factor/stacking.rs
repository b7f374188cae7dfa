//! What runs foretell of labels that they were not told; see [`crate::stacking`].

use std::ops::ControlFlow;

use npb_data::{Labels, Table};

use super::config::FactorStart;
use super::data::FactorData;
use super::predict::Predictor;
use super::vb::FactorVb;
use crate::answers::with_first_class;
use crate::files::FoldFiles;
use crate::runs::run_all;
use crate::stacking::{self, ITERATIONS, LeftOut, Side, Votes, shares_seen};
use crate::{FactorConfig, IqgmeError};

/// Votes of the runs, in the order in which they are made, `data` being of the table; none when there are too few labels, or folds are not wanted. `files`: where what they foretell is kept from fold to
/// fold, if it is.
pub(crate) fn votes(
    table: &Table,
    labels: &Labels,
    data: &FactorData,
    config: &FactorConfig,
    files: Option<&FoldFiles<'_, FactorConfig>>,
) -> Result<Option<Votes>, IqgmeError> {
    let n_runs = config.starts.len() * config.restarts;
    let foretold = |sides: &[Side]| {
        let fold = Fold::new(table, labels, config, &sides[0])?;
        run_all(&config.starts, config.restarts, |_, start, restart| {
            fold.foretold(config, start, restart)
        })
    };
    let (n_folds, seed) = (config.folds, config.seed);
    let sizes = [n_folds, n_runs];
    let (classes, shares) = (&data.classes, [shares_seen(table, &data.units.active)]);
    let foretold = stacking::foretell(&[labels], &shares, classes, sizes, seed, files, foretold)?;
    let surety = |foretold: &[f64], labels: &LeftOut| stacking::calibrated(foretold, labels).1;
    // The bound says little of the labels and less of so many features: even where labels are few.
    let even = vec![1.0 / n_runs as f64; n_runs];
    let weights = |by_run: &[Vec<f64>]| stacking::stack(by_run, &even);
    Ok(foretold.map(|foretold| stacking::votes(&foretold, surety, weights)))
}

/// Data without the rows of a fold, and these.
pub(super) struct Fold {
    pub(super) data: FactorData,
    left_out: Table,
}

impl Fold {
    pub(super) fn new(
        table: &Table,
        labels: &Labels,
        config: &FactorConfig,
        Side { kept, left_out }: &Side,
    ) -> Result<Self, IqgmeError> {
        Ok(Self {
            data: FactorData::new(&table.select_rows(kept), &labels.select_rows(kept), config)?,
            left_out: table.select_rows(left_out),
        })
    }

    /// Probabilities of the classes, row by row, by a run that was told neither row nor class.
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
        let cells = self.data.units.cells_left_out(&self.left_out)?;
        let others = Predictor::new(&state).probabilities(&state, &cells)?;
        Ok(with_first_class(others).concat())
    }
}
