//! Settings of a fit of many tasks.

use npb_infer::ranges::{OutOfRange, gamma, up_to};
use npb_priors::GammaPrior;
use serde::{Deserialize, Serialize};

use super::state::Gaussians;
use crate::IqgmeConfig;
use crate::config::{Init, MOST_COMPONENTS, check_clusters, check_starts, gamma_prior};

/// Where a run over many tasks starts: responsibilities, and the atom that each local component points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskInit {
    /// All tasks share everything: the components that the single-task start makes of the rows of all tasks together.
    Pooled(Init),
    /// No task shares anything: k-means within each task, this many clusters at most for each, and an atom for each cluster (W section 4.4). With more
    /// tasks than atoms each task has one cluster, and tasks with means near each other share an atom.
    Separate(usize),
    /// As `Separate`, with k-means within each class of each task, this many clusters at most for each class.
    SeparatePerClass(usize),
    /// Tasks in clusters by their labels alone, this many at most: one Gaussian for all rows of all tasks ([`Gaussians::Shared`]), and one expert for all
    /// tasks of a cluster.
    SharedGaussian(usize),
}

impl TaskInit {
    /// What Gaussians the atoms of a run from here have.
    pub fn gaussians(self) -> Gaussians {
        match self {
            Self::SharedGaussian(_) => Gaussians::Shared,
            _ => Gaussians::Own,
        }
    }
}

/// Configuration of a fit of many tasks; the default holds the values of W section 4.4 unless a field says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TasksConfig {
    /// What a fit of one task has too: priors, limits, seed. Its `truncation` is the number of local components of each task, `N`; `concentration` is the prior of the tasks' common `alpha`; `normal_scores` is about runs from this configuration's `starts`. By its `folds` the runs for
    /// class probabilities are weighed and calibrated. Where there are none, by bounds and `elbo_temperature`, which is 1 by default here: runs that share less fit the
    /// features less well, not the labels. `starts` and `unlabelled_starts` are not used.
    pub single: IqgmeConfig,
    /// Largest number of atoms, `S` of the variational family.
    pub atoms: usize,
    /// Prior of the upper concentration `beta`.
    pub global_concentration: GammaPrior,
    /// Starts of the runs that predictions average over, each made `single.restarts` times.
    pub starts: Vec<TaskInit>,
}

impl Default for TasksConfig {
    fn default() -> Self {
        Self {
            single: IqgmeConfig {
                elbo_temperature: 1.0,
                ..IqgmeConfig::default()
            },
            atoms: 50,
            global_concentration: gamma_prior(0.05, 0.05),
            starts: vec![
                TaskInit::Separate(1),
                TaskInit::SeparatePerClass(1),
                TaskInit::Pooled(Init::Mixture(10)),
                TaskInit::SharedGaussian(6),
            ],
        }
    }
}

impl TasksConfig {
    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        self.single.validate().map_err(|e| e.inside("single"))?;
        up_to("atoms", self.atoms, MOST_COMPONENTS)?;
        gamma("global_concentration", self.global_concentration)?;
        check_starts("starts", &self.starts, |start| self.check_start(start))
    }

    /// What a start must be, if it is not.
    fn check_start(&self, start: TaskInit) -> Result<(), String> {
        let (clusters, components) = match start {
            TaskInit::Pooled(start) => (1, start.clusters()),
            TaskInit::Separate(components) | TaskInit::SeparatePerClass(components) => {
                (1, components)
            }
            TaskInit::SharedGaussian(clusters) => (clusters, 1),
        };
        if !(1..=self.atoms).contains(&clusters) {
            let atoms = self.atoms;
            return Err(format!(
                "of 1 to {atoms} clusters of tasks, as many as `atoms` at most (set `starts` along with it)"
            ));
        }
        check_clusters(components).map_err(|rule| format!("{rule} of rows"))
    }
}
