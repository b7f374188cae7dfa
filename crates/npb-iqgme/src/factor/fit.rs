//! The result of a fit, and what can be asked of it.

use npb_data::{Labels, Table};
use npb_infer::{Interval, VbOutcome, VbRun, Watch, storage};
use npb_linalg::faer::Mat;
use serde::{Deserialize, Serialize};

use super::cells::Cells;
use super::config::FactorInit;
use super::data::FactorData;
use super::predict::Predictor;
use super::state::FactorState;
use super::vb::{FactorVb, FactorVbUpdate};
use crate::answers::{Imputation, MissingCell, add_density, most_probable_of, with_first_class};
use crate::data::Task;
use crate::ensemble::member::{self, DRAWS, Member, Part, check_members};
use crate::ensemble::members::{Ensemble, Plan, trained};
use crate::ensemble::questions::{Draws, Fit, OneTable, Stored, Variant};
use crate::ensemble::stacking::Without;
use crate::ensemble::train::{Model, Planned};
use crate::state::{expect, finite};
use crate::units::Units;
use crate::{Expert, FactorConfig, IqgmeError, Result};

/// Key of the random streams of intervals.
const INTERVAL: u64 = 2;

/// Fits the factor-analytic variant: prepares the data and makes every run that `config.starts` (or `unlabelled_starts`) and `config.restarts` ask for.
///
/// `table`: n x P, cells may be missing. `labels`: one for each row, two classes or more, rows may be unlabelled (all of them, too: then there is no
/// classifier). Cost: seconds of a core for tens of rows and hundreds of columns (20 with the default for 60 x 200); fewer `starts`, or `folds = 0`, take less. With labels every run is made `config.folds` times more, with at most 15 iterations each, to find its weight. Errors: see [`FactorData::new`]. Runs are made in parallel on the caller's rayon pool; the result does not depend on the number of threads.
///
/// ```
/// use npb_iqgme::npb_data::{Labels, Table};
/// use npb_iqgme::{FactorConfig, fit_factor};
///
/// // Twelve rows of six features that one factor moves, with a hole.
/// let value = |k: usize| match (k / 6, k % 6) {
///     (3, 2) => f64::NAN,
///     (i, j) => (i as f64 - 5.5) * [1.0, -0.8, 0.6, 1.2, -1.0, 0.9][j] + [0.3, -0.2, 0.1][(i + j) % 3],
/// };
/// let table = Table::from_nan_coded(12, 6, &(0..72).map(value).collect::<Vec<f64>>())?;
/// let names: Vec<Option<&str>> = (0..12).map(|i| Some(if i < 6 { "low" } else { "high" })).collect();
/// let fit = fit_factor(&table, &Labels::from_strings(&names), &FactorConfig::default())?;
/// assert_eq!(fit.predict(&table)?[11], "high");
/// assert!(fit.impute(&table)?.completed.get(3, 2).unwrap() < 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit_factor(table: &Table, labels: &Labels, config: &FactorConfig) -> Result<FactorFit> {
    fit_factor_watched(table, labels, config, &Watch::none())
}

/// As [`fit_factor`], watched: see [`fit_watched`](crate::fit_watched).
pub fn fit_factor_watched(
    table: &Table,
    labels: &Labels,
    config: &FactorConfig,
    watch: &Watch<'_>,
) -> Result<FactorFit> {
    let tables = [Task::only(table, labels)];
    let mut data = Factors::data(&tables, config, None)?;
    let settings = Plan {
        starts: match data[0].n_labelled {
            0 => &config.unlabelled_starts,
            _ => &config.starts,
        },
        restarts: config.restarts,
        folds: config.folds,
        seed: config.seed,
        elbo_temperature: config.elbo_temperature,
        elsewhere: None,
        limits: config.limits,
    };
    let members = trained::<Factors>(&tables, &data, config, &settings, watch)?;
    let FactorData { units, classes, .. } = data.swap_remove(0);
    let stored = Stored {
        config: config.clone(),
        units,
        classes,
        trained: members,
    };
    Fit::new(stored, ())
}

/// The factor-analytic model.
#[derive(Clone, Debug)]
pub struct Factors;

/// A fitted factor-analytic model. Questions and answers are in the user's units, columns in the order of training.
///
/// Imputations and densities average over the runs by their bounds, class probabilities by their stacking weights, each calibrated ([`FactorMember::calibration`]), with factors and missing
/// features integrated out and experts by moment matching; clusters and loadings are those of the best run.
pub type FactorFit = Fit<Factors>;

impl OneTable for Factors {}

impl Variant for Factors {
    const MODEL: &'static str = "npb-iqgme/factor/2";
    type Config = FactorConfig;
    type Units = Units;
    /// The best first.
    type Trained = Vec<FactorMember>;
    type Rows = ();
    type Derived = ();

    fn check(stored: &Stored<Self>) -> Result<()> {
        stored.config.validate()?;
        let members = &stored.trained;
        check_members(members, stored.classes.len())?;
        expect(members[0].elbo_weight > 0.0, "best member")?;
        for member in members {
            let (state, clusters) = (&member.state, &member.derived);
            state.check(stored.n_features(), stored.n_utilities(), &stored.config)?;
            let (n, l) = (state.n_clusters(), state.n_factors());
            let probable = |p: &f64| (0.0..=1.0).contains(p);
            let possible = |of: &Vec<f64>| of.len() == l && of.iter().all(probable);
            let indicators = &clusters.inclusion_probabilities;
            let fit = indicators.len() == n && indicators.iter().all(possible);
            expect(fit, "indicators")?;
            let sizes = &clusters.sizes;
            expect(sizes.len() == n && finite(sizes), "sizes of clusters")?;
        }
        Ok(())
    }

    fn derive(_: &Stored<Self>) -> Result<()> {
        Ok(())
    }

    fn probabilities(fit: &FactorFit, _: usize, table: &Table) -> Result<Vec<Vec<f64>>> {
        let cells = fit.cells(table)?;
        Ok(member::class_probabilities(&fit.parts(&cells)?))
    }
}

impl Draws for Factors {
    fn intervals(
        fit: &FactorFit,
        _: usize,
        table: &Table,
        level: f64,
    ) -> Result<Vec<Vec<Interval>>> {
        let cells = fit.cells(table)?;
        let key = (fit.config().seed, 0, INTERVAL);
        member::intervals(&fit.parts(&cells)?, level, DRAWS, key)
    }
}

impl Model for Factors {
    type Data = FactorData;
    type Init = FactorInit;
    type State = FactorState;
    type Vb<'d> = FactorVb<'d>;
    const FILE: &'static str = "npb-iqgme/factor/run/3";
    const FOLD_ITERATIONS: u64 = 15;

    fn begin<'d>(
        data: &'d FactorData,
        config: FactorConfig,
        (start, restart): (FactorInit, u64),
        reached: Option<VbRun<FactorState>>,
    ) -> Result<FactorVb<'d>> {
        match reached {
            None => FactorVb::new(data, config, start, restart),
            Some(VbRun { state, trace }) => FactorVb::resume(data, config, state, &trace),
        }
    }
}

impl Ensemble for Factors {
    type More = ClusterRows;
    type LeftOut = Cells;
    const WITHOUT: Without = Without::Even;

    fn members(trained: &Vec<FactorMember>) -> &[FactorMember] {
        trained
    }

    /// All on the scale of the configuration.
    fn data(
        tables: &[Task<'_>],
        config: &FactorConfig,
        _: Option<bool>,
    ) -> Result<Vec<FactorData>> {
        let Task { table, labels, .. } = tables[0];
        Ok(vec![FactorData::new(table, labels, config)?])
    }

    fn about(data: &FactorData) -> Result<(u64, usize, &[String])> {
        let cells = &data.cells;
        let patterns = cells.patterns.iter().map(|p| (&p.rows, &p.missing));
        let patterns: Vec<_> = patterns.collect();
        let columns = (0..cells.n_features()).map(|j| cells.x.col_as_slice(j));
        let values: Vec<&[f64]> = columns.collect();
        let print = storage::fingerprint(&(patterns, values, &data.labels.class))?;
        Ok((print, data.n_observed().max(1), &data.classes))
    }

    fn ended(
        (_, start): Planned<FactorInit>,
        outcome: VbOutcome,
        mut vb: FactorVb<'_>,
    ) -> Result<FactorMember> {
        // Whatever the run did last: what is told of the rows depends on its state alone.
        vb.apply(FactorVbUpdate::Rows)?;
        let derived = ClusterRows {
            sizes: vb.sizes(),
            inclusion_probabilities: vb.inclusion_probabilities()?,
        };
        let planned = (vb.scale(), start);
        Ok(Member::new(planned, outcome, vb.into_state(), derived))
    }

    fn left_out(data: &[FactorData], tables: &[Table]) -> Result<Cells> {
        Ok(Cells::new(&data[0].units.apply_left_out(&tables[0])?))
    }

    fn predict_left_out(
        _: Planned<FactorInit>,
        _: VbOutcome,
        vb: FactorVb<'_>,
        cells: &Cells,
    ) -> Result<Vec<f64>> {
        let others = Predictor::new(vb.state()).probabilities(cells)?;
        Ok(with_first_class(others).concat())
    }
}

/// A run of the factor-analytic variant.
pub type FactorMember = Member<FactorInit, FactorState, ClusterRows>;

/// What the rows of training say of the clusters of a posterior.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClusterRows {
    /// For each cluster of the state the expected number of training rows.
    pub sizes: Vec<f64>,
    /// For each cluster and column of the state the probability that the cluster uses the column, the other indicators as they are.
    pub inclusion_probabilities: Vec<Vec<f64>>,
}

/// A cluster; its mean is in the user's units.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorComponent {
    /// Posterior mean of its weight.
    pub weight: f64,
    /// Expected number of training rows.
    pub size: f64,
    /// Posterior mean of its mean, for the columns of [`FactorFit::model_columns`].
    pub mean: Vec<f64>,
    /// Columns of the loadings that it uses.
    pub factors: Vec<usize>,
    /// Probability of each dimension 0, 1, .. L: the number of columns that it uses, indicators taken one by one.
    pub dimension: Vec<f64>,
    /// Effects of its factors on the probit score, in the order of `factors`, and their standard deviations; none without labels or with more than two classes.
    pub effects: Option<Vec<(f64, f64)>>,
    /// With more than two classes: the same of the scores of all classes but the first, by utility. Empty with two classes.
    pub utilities: Vec<Vec<(f64, f64)>>,
}

impl FactorFit {
    /// What the runs say of rows.
    fn parts<'a>(&'a self, cells: &'a Cells) -> Result<Vec<Part<'a>>> {
        let part = |run: &'a FactorMember| {
            let state = &run.state;
            let others = Predictor::new(state).probabilities(cells)?;
            let how = (run.stacking_weight, &run.calibration);
            Ok(Part::new(how, others, move |rng| {
                let drawn =
                    Predictor::draw(state, rng).map_err(IqgmeError::at(0, "posterior draw"))?;
                drawn.probabilities(cells)
            }))
        };
        let weighed = self
            .members()
            .iter()
            .filter(|run| run.stacking_weight > 0.0);
        weighed.map(part).collect()
    }

    /// The runs that say something of the features.
    fn describing(&self) -> impl Iterator<Item = &FactorMember> {
        self.members().iter().filter(|run| run.elbo_weight > 0.0)
    }

    /// Number of clusters that have at least one training row, in expectation.
    pub fn n_clusters(&self) -> usize {
        let sizes = &self.best().derived.sizes;
        sizes.iter().filter(|size| **size >= 1.0).count()
    }

    /// The clusters of the best run, larger ones first.
    pub fn components(&self) -> Vec<FactorComponent> {
        let run = self.best();
        let state = &run.state;
        let weights = state.sticks.expected_weights();
        let cluster = |h: usize| {
            let factors = state.used(h);
            let of_expert = |expert: &Expert| -> Vec<(f64, f64)> {
                let effect = |&l: &usize| (expert.mean[l], expert.covariance[(l, l)].sqrt());
                factors.iter().map(effect).collect()
            };
            let mut utilities: Vec<_> = state.experts_of(h).iter().map(of_expert).collect();
            let two_classes = utilities.len() == 1;
            let mean = |(k, &j): (usize, &usize)| {
                self.to_units(j, state.features.mean[(k, state.n_factors() + h)])
            };
            FactorComponent {
                weight: weights[h],
                size: run.derived.sizes[h],
                mean: self.units().active.iter().enumerate().map(mean).collect(),
                dimension: sum_of_indicators(&run.derived.inclusion_probabilities[h]),
                effects: two_classes.then(|| utilities.remove(0)),
                utilities,
                factors,
            }
        };
        (0..state.n_clusters()).map(cluster).collect()
    }

    /// Posterior mean of the loadings, in standard deviations of the features on the scale of the model: a row for each of
    /// [`model_columns`](Self::model_columns), a column for each factor in use.
    pub fn loadings(&self) -> Mat<f64> {
        let state = self.state();
        Mat::from_fn(self.units().active.len(), state.n_factors(), |k, l| {
            state.features.mean[(k, l)]
        })
    }

    /// Probabilities of the clusters given the observed features, one vector for each row, in the order of [`components`](Self::components).
    pub fn responsibilities(&self, table: &Table) -> Result<Vec<Vec<f64>>> {
        Predictor::new(self.state()).responsibilities(&self.cells(table)?)
    }

    /// The most probable cluster of each row.
    pub fn clusters(&self, table: &Table) -> Result<Vec<usize>> {
        Ok(most_probable_of(self.responsibilities(table)?))
    }

    /// Log density of the observed features of each row at the posterior means of the parameters, in the user's units. Zero for a row without any.
    pub fn ln_density(&self, table: &Table) -> Result<Vec<f64>> {
        let cells = self.cells(table)?;
        let mut sums = vec![f64::NEG_INFINITY; table.n_rows()];
        for run in self.describing() {
            let own = Predictor::at_means(&run.state).ln_density(&cells)?;
            add_density(&mut sums, run.elbo_weight, own);
        }
        Ok(self.units().ln_density(table, sums))
    }

    /// Completes a table: posterior mean and standard deviation of every missing cell given the observed cells of its row. On the scale of normal
    /// scores the two are taken there: what is reported is the value at the mean, and half the range from one standard deviation below to one above. A
    /// constant column is completed by its constant; a column that had no observed value in training stays missing.
    pub fn impute(&self, table: &Table) -> Result<Imputation> {
        let cells = self.cells(table)?;
        // Mean and mean square over the runs.
        let none = |row| vec![[0.0; 2]; self.units().missing_columns(table, row).count()];
        let mut sums: Vec<Vec<[f64; 2]>> = (0..table.n_rows()).map(none).collect();
        for run in self.describing() {
            let found = Predictor::new(&run.state).missing_cells(&cells)?;
            let each = sums.iter_mut().flatten().zip(found.iter().flatten());
            for (sum, [mean, variance]) in each {
                sum[0] += run.elbo_weight * mean;
                sum[1] += run.elbo_weight * (variance + mean * mean);
            }
        }
        let of_row = |(row, sums): (usize, Vec<[f64; 2]>)| {
            let each = self.units().missing_columns(table, row).zip(sums);
            let cell = |(column, [mean, second]): (usize, [f64; 2])| {
                let own = (second - mean * mean).max(0.0).sqrt();
                let half = |score: f64| 0.5 * self.to_units(column, score);
                MissingCell {
                    column,
                    mean: self.to_units(column, mean),
                    sd: half(mean + own) - half(mean - own),
                    terms: Vec::new(),
                }
            };
            each.map(cell).collect()
        };
        let cells = sums.into_iter().enumerate().map(of_row).collect();
        self.units().impute(table, cells)
    }

    fn cells(&self, table: &Table) -> Result<Cells> {
        Ok(Cells::new(&self.units().apply(table)?))
    }

    fn to_units(&self, column: usize, value: f64) -> f64 {
        self.units().to_units(column, value)
    }
}

/// Distribution of a sum of independent indicators.
fn sum_of_indicators(probabilities: &[f64]) -> Vec<f64> {
    let mut distribution = vec![1.0];
    for &p in probabilities {
        let mut next = vec![0.0; distribution.len() + 1];
        for (k, mass) in distribution.iter().enumerate() {
            next[k] += (1.0 - p) * mass;
            next[k + 1] += p * mass;
        }
        distribution = next;
    }
    distribution
}
