//! Inputs in the units of a fit, and their features before labels are looked at: what both models begin with.

use npb_data::Table;
use npb_infer::watch::Part;
use npb_linalg::faer::Mat;

use crate::alternate::{Alternation, Margins};
use crate::columns::Columns;
use crate::config::IlsvmConfig;
use crate::error::{RegBayesError, same_size};
use crate::factors::{Factors, Items};
use crate::inputs::InputMap;
use crate::state::FeatureState;

#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) columns: Columns,
    pub(crate) items: Items,
    pub(crate) state: FeatureState,
    /// D x N, in standard units, holes filled.
    pub(crate) inputs: Mat<f64>,
    /// What appended inputs are seen through.
    pub(crate) map: Option<InputMap>,
    /// What is appended to the features of each row, row-major.
    pub(crate) appended: Vec<f64>,
    /// Rows with a label or target.
    pub(crate) rows: Vec<usize>,
}

impl Prepared {
    /// Standardises by `rows`, makes the sweeps without labels, fills holes by `fill(state, precision, table)`.
    pub(crate) fn new(
        inputs: &Table,
        rows: Vec<usize>,
        config: &IlsvmConfig,
        items: impl Fn(&Table) -> Items,
        fill: impl Fn(&FeatureState, f64, &Table) -> Result<Mat<f64>, RegBayesError>,
        part: &mut Part<'_, '_>,
    ) -> Result<Self, RegBayesError> {
        let columns = Columns::learn(inputs, &rows)?;
        let table = columns.apply(inputs)?;
        let items = items(&table);
        let mut factors = Factors::start(&items, config.factors, config.seed)?;
        warm_up(&mut factors, config, part)?;
        let inputs = fill(&factors.state, factors.precision(), &table)?;
        let state = factors.state;
        let map = match config.map {
            Some(map) if config.raw_inputs > 0.0 => {
                let training = rows.iter().flat_map(|&n| inputs.col_as_slice(n));
                let training: Vec<f64> = training.copied().collect();
                Some(InputMap::fit(&training, inputs.nrows(), &map, config.seed)?)
            }
            _ => None,
        };
        Ok(Self {
            appended: appended(&inputs, map.as_ref(), config.raw_inputs)?,
            columns,
            items,
            state,
            inputs,
            map,
            rows,
        })
    }

    /// A run that begins with the features of the inputs alone.
    pub(crate) fn alternation<S: Margins>(
        &self,
        labels: S,
        config: &IlsvmConfig,
    ) -> Alternation<'_, S> {
        Alternation {
            factors: Factors::new(&self.items, config.factors, self.state.clone()),
            labels,
            update: config.label_update,
            label_weight: config.label_weight,
            inner_sweeps: config.inner_sweeps,
            machine: config.machine,
            iteration: 0,
        }
    }

    /// What is appended to the features of the rows with a label or target.
    pub(crate) fn appended_rows(&self) -> Vec<f64> {
        let width = self.appended.len() / self.inputs.ncols();
        let row = |&n: &usize| self.appended[n * width..][..width].iter().copied();
        self.rows.iter().flat_map(row).collect()
    }
}

/// Sweeps without labels, then as many features as the inputs alone ask for: the first part of the work, told to the watcher; `false` when it asked to stop.
fn warm_up(
    factors: &mut Factors<'_>,
    config: &IlsvmConfig,
    part: &mut Part<'_, '_>,
) -> Result<bool, RegBayesError> {
    for sweep in 1..=config.factors.warm_up {
        factors.sweep(0, None)?;
        if part
            .report(0, config.warm_up_share(sweep), &[], &[])
            .is_break()
        {
            return Ok(false);
        }
    }
    factors.keep_used()?;
    let whole = config.warm_up_share(config.factors.warm_up);
    while factors.grow()? {
        if part.report(0, whole, &[], &[]).is_break() {
            return Ok(false);
        }
    }
    Ok(true)
}

impl IlsvmConfig {
    /// Share of the work of a fit, in sweeps, that so many sweeps without labels are.
    fn warm_up_share(&self, sweeps: u64) -> f64 {
        let after = self.limits.max_iterations as f64 * self.inner_sweeps as f64;
        sweeps as f64 / (self.factors.warm_up as f64 + after).max(1.0)
    }
}

/// What is appended to the features of rows (columns of `inputs`): nothing, the inputs times `scale`, or what a map makes of them. A mapped row has length 1,
/// and gets about that of a row of standard inputs. Row-major.
pub(crate) fn appended(
    inputs: &Mat<f64>,
    map: Option<&InputMap>,
    scale: f64,
) -> Result<Vec<f64>, RegBayesError> {
    if scale == 0.0 {
        return Ok(Vec::new());
    }
    let rows = (0..inputs.ncols()).flat_map(|n| inputs.col_as_slice(n));
    let rows: Vec<f64> = rows.copied().collect();
    let (rows, scale) = match map {
        None => (rows, scale),
        Some(map) => (map.apply(&rows)?, scale * (inputs.nrows() as f64).sqrt()),
    };
    Ok(rows.into_iter().map(|x| scale * x).collect())
}

/// Checks what fits of both models hold in common, of a fit from a file; `n_columns` is how many columns the features are of. Weights of one score.
pub(crate) fn check_fit(
    config: &IlsvmConfig,
    columns: &Columns,
    (state, n_columns): (&FeatureState, usize),
    map: Option<&InputMap>,
) -> Result<usize, RegBayesError> {
    config.validate()?;
    columns.check()?;
    state.check()?;
    let d = columns.kept().len();
    same_size("columns of the features", n_columns, d)?;
    let appended = match map {
        _ if config.raw_inputs == 0.0 => 0,
        None => d,
        Some(map) => {
            map.check(d)?;
            map.n_features()
        }
    };
    Ok(state.n_features() + appended + usize::from(config.ones > 0.0))
}
