//! Labels by features and inputs, as the command and the Python package fit them: table 2 at the defaults.

use npb_regbayes::labels::{Decisions, LabelsConfig, fit};

use super::data::{MultiLabel, label_metrics};
use npb_kit::{Context, Record, Result, Scale, Trial};

/// Its name in `results.csv`.
pub(super) const LABELS: &str = "npb:labels";

/// What decisions are for, and the setting in `results.csv`; the first is the default.
const DECISIONS: [(Decisions, &str); 4] = [
    (Decisions::Both, "select=both"),
    (Decisions::Accuracy, "select=accuracy"),
    (Decisions::F1Micro, "select=f1_micro"),
    (Decisions::F1Macro, "select=f1_macro"),
];

/// One record for each kind of decisions; nothing else differs from the defaults.
pub(super) fn run(context: &Context<'_>, set: &MultiLabel, runs: u64) -> Result<Vec<Record>> {
    let trials = DECISIONS.iter().flat_map(|&(decisions, setting)| {
        let mut of_labels = LabelsConfig {
            decisions,
            ..Default::default()
        };
        if context.scale == Scale::Smoke {
            of_labels.latent.factors.truncation = 8;
            of_labels.latent.factors.growth = 0;
            of_labels.latent.inner_sweeps = 2;
            of_labels.latent.limits.max_iterations = 2;
            of_labels.costs = vec![1.0];
            of_labels.folds = 2;
        }
        let described = format!("{}\n{of_labels:?}", set.checksums);
        Trial::runs(runs, [set.name, setting, LABELS], &described, of_labels)
    });
    let trials: Vec<_> = trials.collect();
    context.run_trials(&trials, |trial, seed| {
        let mut of_labels = trial.work.clone();
        of_labels.latent.seed = seed;
        let predicted = fit(&set.tasks()?, &of_labels)?.predict(&set.test)?;
        let columns: Vec<Vec<bool>> = (0..set.n_labels)
            .map(|label| predicted.labels(label).ok_or("a label has no decisions"))
            .collect::<std::result::Result<_, _>>()?;
        let rows = 0..set.test.n_rows();
        let found: Vec<bool> = rows
            .flat_map(|row| columns.iter().map(move |column| column[row]))
            .collect();
        label_metrics(&found, &set.test_labels, set.n_labels)
    })
}
