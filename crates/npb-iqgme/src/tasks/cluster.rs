//! Clusters of tasks, to start from.
//!
//! All tasks have the same number of components; those of one cluster share them. A task's rows and labels are predicted by the components that the
//! other tasks of a cluster make: a task never speaks for itself, else it would stay where it is. Tasks are moved one at a time until none wants to.

use npb_infer::stream;
use npb_priors::dp::{ConcentrationFactor, Sticks};
use rand::RngExt;
use rayon::prelude::*;

use super::TasksConfig;
use super::data::MultiTaskData;
use super::groups::atoms;
use super::local::{Local, TaskBegin};
use crate::IqgmeError;
use crate::e_step::{RowFamily, Update};
use crate::prior::Prior;
use crate::state::{Component, Expected, Expert};
use crate::stats::SufficientStats;
use crate::vb::prior_failed;

/// Key of the random stream.
const CLUSTER: u64 = 9;

/// Random first clusterings; the one after whose moves the tasks are predicted best is kept.
const TRIES: u64 = 4;
/// Rounds over all tasks.
const ROUNDS: usize = 10;
/// Passes over a task's rows in which it settles in a cluster.
const PASSES: usize = 2;

/// A task as it is when it has settled in a cluster.
struct Settled {
    local: Local,
    /// Bound of its rows given the components that the other tasks make.
    bound: f64,
}

struct Clusters<'d> {
    data: &'d MultiTaskData,
    prior: Prior,
    alpha: ConcentrationFactor,
    truncation: usize,
    n_components: usize,
    cluster: Vec<usize>,
    tasks: Vec<Settled>,
    /// Of each cluster.
    stats: Vec<SufficientStats>,
}

/// Number of atoms, and the tasks' parts: `tasks` share `n_components` components, whose responsibilities are the first ones of every try.
pub(super) fn clustered(
    data: &MultiTaskData,
    config: &TasksConfig,
    clusters: usize,
    n_components: usize,
    tasks: Vec<TaskBegin>,
    restart: u64,
) -> Result<(usize, Vec<TaskBegin>), IqgmeError> {
    let locals: Vec<Local> = tasks.into_iter().map(|task| task.local).collect();
    let tries = (0..TRIES)
        .into_par_iter()
        .map(|k| {
            let mut rng = stream(config.single.seed, [restart, k, CLUSTER, 0]);
            let cluster = locals.iter().map(|_| rng.random_range(0..clusters));
            let mut found = Clusters::new(data, config, n_components, cluster.collect(), &locals)?;
            found.finalise()?;
            Ok(found)
        })
        .collect::<Result<Vec<_>, IqgmeError>>()?;
    let value = |found: &Clusters<'_>| found.tasks.iter().map(|task| task.bound).sum::<f64>();
    let best = tries
        .into_iter()
        .reduce(|best, other| {
            if value(&other) > value(&best) {
                other
            } else {
                best
            }
        })
        .expect("at least one try");
    Ok(best.into_start())
}

impl<'d> Clusters<'d> {
    fn new(
        data: &'d MultiTaskData,
        config: &TasksConfig,
        n_components: usize,
        cluster: Vec<usize>,
        locals: &[Local],
    ) -> Result<Self, IqgmeError> {
        let single = &config.single;
        let prior = Prior::new(single, &data.pooled.covariance, data.n_utilities())
            .map_err(prior_failed)?;
        let n_clusters = cluster.iter().max().map_or(0, |m| m + 1);
        let p = data.pooled.rows.n_features;
        let mut found = Self {
            data,
            prior,
            alpha: ConcentrationFactor::new(single.concentration).expect("validated"),
            truncation: n_components,
            n_components,
            cluster,
            tasks: Vec::with_capacity(locals.len()),
            stats: vec![SufficientStats::zeros(p, n_components, data.n_utilities()); n_clusters],
        };
        for (j, local) in locals.iter().enumerate() {
            let mut local = local.clone();
            found.first_stats(j, &mut local)?;
            found.count(found.cluster[j], &local.stats, 1.0);
            found.tasks.push(Settled {
                local,
                bound: f64::NEG_INFINITY,
            });
        }
        Ok(found)
    }

    /// Statistics of a task by its first responsibilities: every component is the prior's and has no expert.
    fn first_stats(&self, j: usize, local: &mut Local) -> Result<(), IqgmeError> {
        let components = vec![self.prior.component.clone(); self.n_components];
        let expected = vec![self.prior.expected.clone(); self.n_components];
        let held = Update {
            responsibilities: false,
            utility_means: false,
            family: RowFamily::Structured,
        };
        let sticks = Sticks::new(self.truncation, self.alpha.mean()).expect("validated");
        let atoms = atoms(&components, &expected, &[]);
        let indicators = self.one_to_one();
        local.pass(&self.data.tasks[j], &sticks, &indicators, &atoms, held, 0)
    }

    /// Group `h` points at component `h`.
    fn one_to_one(&self) -> Vec<Vec<f64>> {
        let one_hot = |h: usize| {
            let mut indicator = vec![0.0; self.n_components];
            indicator[h] = 1.0;
            indicator
        };
        (0..self.n_components).map(one_hot).collect()
    }

    /// Adds a task to a cluster, or takes it out.
    fn count(&mut self, cluster: usize, stats: &SufficientStats, factor: f64) {
        for h in 0..self.n_components {
            self.stats[cluster].add(h, factor, stats, h);
        }
    }

    /// Moves tasks until none wants to.
    fn finalise(&mut self) -> Result<(), IqgmeError> {
        for _ in 0..ROUNDS {
            let mut moved = false;
            for j in 0..self.tasks.len() {
                moved |= self.move_task(j)?;
            }
            if !moved {
                break;
            }
        }
        Ok(())
    }

    /// Takes a task out and puts it where the other tasks predict it best.
    fn move_task(&mut self, j: usize) -> Result<bool, IqgmeError> {
        let before = self.cluster[j];
        let stats = self.tasks[j].local.stats.clone();
        self.count(before, &stats, -1.0);
        let mut best: Option<(usize, Settled)> = None;
        for g in 0..self.stats.len() {
            let Some(settled) = self.try_task(j, g)? else {
                continue;
            };
            if best.as_ref().is_none_or(|(_, b)| settled.bound > b.bound) {
                best = Some((g, settled));
            }
        }
        let (g, settled) = match best {
            Some(best) => best,
            // Nowhere: it stays.
            None => {
                self.count(before, &stats, 1.0);
                return Ok(false);
            }
        };
        self.count(g, &settled.local.stats, 1.0);
        self.tasks[j] = settled;
        self.cluster[j] = g;
        Ok(g != before)
    }

    /// The task in cluster `g`, of which it is no part; none if the cluster can say nothing of its labels.
    fn try_task(&self, j: usize, g: usize) -> Result<Option<Settled>, IqgmeError> {
        let stats = &self.stats[g];
        let failed = |component, source| {
            IqgmeError::numerical(0, "component of a cluster of tasks", component, source)
        };
        let (mut components, mut expected): (Vec<Component>, Vec<Expected>) = Default::default();
        let mut experts = Vec::new();
        for h in 0..self.n_components {
            let component = self.prior.component.given(stats, h);
            expected.push(component.expected().map_err(|source| failed(h, source))?);
            components.push(component);
            for k in 0..self.data.n_utilities() {
                let expert = Expert::given(&self.prior.expert, stats, h, k);
                experts.push(expert.map_err(|source| failed(h, source))?);
            }
        }
        let atoms = atoms(&components, &expected, &experts);
        let task = &self.data.tasks[j];
        let n = task.rows.len() as f64;
        let mut local = self.tasks[j].local.clone();
        local.restart(task);
        let mut sticks = Sticks::new(self.truncation, self.alpha.mean()).expect("validated");
        // First as the cluster's tasks use the components.
        let counts = stats.counts();
        let total: f64 = counts.iter().sum::<f64>().max(1.0);
        let shares: Vec<f64> = counts.iter().map(|c| n * c.max(0.0) / total).collect();
        sticks.update(&shares, self.alpha.mean());
        let update = Update {
            responsibilities: true,
            utility_means: true,
            family: RowFamily::Structured,
        };
        let indicators = self.one_to_one();
        for _ in 0..PASSES {
            local.pass(task, &sticks, &indicators, &atoms, update, 0)?;
            sticks.update(&local.stats.counts(), self.alpha.mean());
        }
        let bound = local.bound(&sticks, &self.alpha, &components, &expected, &experts);
        Ok(bound.is_finite().then_some(Settled { local, bound }))
    }

    /// Clusters in order of their first task, those without tasks left out.
    fn into_start(self) -> (usize, Vec<TaskBegin>) {
        let mut seen: Vec<usize> = Vec::new();
        let mut tasks = Vec::with_capacity(self.tasks.len());
        for ((settled, cluster), data) in self
            .tasks
            .into_iter()
            .zip(self.cluster)
            .zip(&self.data.tasks)
        {
            let rank = match seen.iter().position(|&c| c == cluster) {
                Some(rank) => rank,
                None => {
                    seen.push(cluster);
                    seen.len() - 1
                }
            };
            let first = rank * self.n_components;
            let mut local = settled.local;
            local.restart(data);
            tasks.push(TaskBegin {
                local,
                atoms: (first..first + self.n_components).collect(),
            });
        }
        (seen.len() * self.n_components, tasks)
    }
}
