//! Without labels: held-out density against one Gaussian and against imputation followed by a mixture, and the number of clusters found.

use npb_baselines::{ChainedConfig, ChainedImputer, GaussianConfig, GaussianImputer, MeanImputer};
use npb_data::Table;
use npb_iqgme::{IqgmeConfig, IqgmeFit, fit_unlabelled};
use npb_linalg::condition::{Gaussian, Scratch};

use super::OURS;
use super::data::{Data, IONOSPHERE, Sides, WDBC};
use super::simulate::{Clusters, MISSING};
use npb_kit::tables::{Target, difference, differences, find_in, overview, targets};
use npb_kit::{
    Context, Experiment, Outcome, Record, Report, Result, ResultRow, Scale, Trial, summarise,
};

pub(crate) const DENSITY: Experiment = Experiment {
    id: "iqgme/density",
    what: "without labels: held-out density on ionosphere and wdbc, number of clusters in simulated mixtures",
    paper: "no printed numbers",
    data: &["ionosphere", "wdbc"],
    run,
};

const TRAIN: f64 = 0.5;
const HIDDEN: f64 = 0.25;
/// A component is a cluster when its weight is larger.
const CLUSTER: f64 = 0.02;
/// Share of the runs in which the number of clusters must be found.
const FOUND: f64 = 0.9;

/// Ridges of the single Gaussian; the first is the method itself, the others are its variants.
const RIDGES: [(f64, &str); 3] = [(0.01, ""), (0.1, "ridge-0.1/"), (0.001, "ridge-0.001/")];
/// Comparators of the density, variants included.
const OTHERS: [&str; 5] = [
    "gaussian",
    "gaussian/ridge-0.1",
    "gaussian/ridge-0.001",
    "mixture+mean",
    "mixture+chained",
];

/// What a trial does.
#[derive(Clone, Copy)]
enum Task {
    /// The default mixture of the rows as they are.
    Ours(usize),
    /// One Gaussian by EM.
    Gaussian(usize),
    /// Mean imputation, then the mixture.
    Mean(usize),
    /// Conditional means by chained equations, then the mixture.
    Chained(usize),
    /// Clusters of a simulated mixture.
    Clusters(Clusters),
}

fn run(context: &Context<'_>) -> Result<Report> {
    let sets = [
        Data::load(context, &IONOSPHERE)?,
        Data::load(context, &WDBC)?,
    ];
    let records = context.run_trials(&design(context.scale, &sets), |trial, seed| {
        let sides = |set: usize| {
            let set: &Data = &sets[set];
            set.masked_sides(HIDDEN, TRAIN, trial.trial, context.seed)
        };
        match trial.work {
            Task::Clusters(case) => clusters(case, seed),
            Task::Gaussian(set) => gaussian(&sides(set)?),
            Task::Ours(set) => {
                let sides = sides(set)?;
                mixture(&sides.train.rows, &sides, seed)
            }
            Task::Mean(set) => {
                let sides = sides(set)?;
                let rows = &sides.train.rows;
                mixture(&MeanImputer::fit(rows)?.transform(rows)?, &sides, seed)
            }
            Task::Chained(set) => {
                let sides = sides(set)?;
                let rows = &sides.train.rows;
                let imputer = ChainedImputer::fit(rows, &ChainedConfig::default())?;
                mixture(&imputer.transform(rows)?, &sides, seed)
            }
        }
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![
            targets(&all_targets(&sets, &records, &results)),
            overview("Held-out density", &results, &["ln_density"]),
            differences(&records, OURS, &OTHERS, &["ln_density"]),
            overview("Clusters", &results, &["clusters", "found"]),
        ],
        notes: notes(&sets),
        results,
        ..Default::default()
    })
}

fn design(scale: Scale, sets: &[Data]) -> Vec<Trial<Task>> {
    let (n, n_clusters) = match scale {
        Scale::Smoke => (1, 2),
        Scale::Quick | Scale::Paper => (10, 20),
    };
    let ours = format!("{:?}", IqgmeConfig::default());
    let chained = format!("{:?}", ChainedConfig::default());
    let mut trials = Vec::new();
    for (set, data) in sets.iter().enumerate() {
        let gaussians = format!("{:?}", RIDGES.map(|(ridge, _)| gaussian_config(ridge)));
        for (name, task, config) in [
            (OURS, Task::Ours(set), ours.clone()),
            ("gaussian", Task::Gaussian(set), gaussians),
            ("mixture+mean", Task::Mean(set), ours.clone()),
            (
                "mixture+chained",
                Task::Chained(set),
                format!("{ours}\n{chained}"),
            ),
        ] {
            trials.extend((0..n).map(|trial| Trial {
                dataset: data.name.to_owned(),
                setting: density_setting(),
                method: name.to_owned(),
                trial,
                config: format!("{}\n{config}", data.checksums),
                work: task,
            }));
        }
    }
    for case in [Clusters::Three, Clusters::Four, Clusters::Apart] {
        trials.extend((0..n_clusters).map(|trial| Trial {
            dataset: "simulated".to_owned(),
            setting: clusters_setting(case),
            method: OURS.to_owned(),
            trial,
            config: ours.clone(),
            work: Task::Clusters(case),
        }));
    }
    trials
}

fn density_setting() -> String {
    format!("missing={HIDDEN};train={TRAIN}")
}

fn clusters_setting(case: Clusters) -> String {
    let rows = Clusters::ROWS;
    format!("case={};missing={MISSING};rows={rows}", case.name())
}

fn gaussian_config(ridge: f64) -> GaussianConfig {
    GaussianConfig {
        iterations: 200,
        ridge,
    }
}

fn unlabelled(rows: &Table, seed: u64) -> Result<IqgmeFit> {
    let config = IqgmeConfig {
        seed,
        ..Default::default()
    };
    Ok(fit_unlabelled(rows, &config)?)
}

/// Mean log density of the observed cells of the test rows under a mixture of `rows`.
fn mixture(rows: &Table, sides: &Sides, seed: u64) -> Result<Outcome> {
    let density = unlabelled(rows, seed)?.ln_density(&sides.test.rows)?;
    Ok(Outcome::metrics([("ln_density", mean(&density))]))
}

/// Mean log density of the observed cells of the test rows under one Gaussian, for each ridge.
fn gaussian(sides: &Sides) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for (ridge, variant) in RIDGES {
        let fitted = GaussianImputer::fit(&sides.train.rows, &gaussian_config(ridge))?;
        let law = Gaussian::from_covariance(fitted.mean(), fitted.covariance().as_ref())?;
        let density = mean(&ln_densities(&law, &sides.test.rows)?);
        outcome
            .metrics
            .insert(format!("{variant}ln_density"), density);
    }
    Ok(outcome)
}

fn ln_densities(law: &Gaussian, table: &Table) -> Result<Vec<f64>> {
    let mut scratch = Scratch::default();
    let mut densities = vec![0.0; table.n_rows()];
    for pattern in table.patterns().iter() {
        let mut given = law.condition(&pattern.observed, &pattern.missing, &mut scratch)?;
        for &row in &pattern.rows {
            densities[row] = given.ln_density_observed(table.row(row));
        }
    }
    Ok(densities)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// How many clusters are found in a simulated mixture, and whether this is their number.
fn clusters(case: Clusters, seed: u64) -> Result<Outcome> {
    let fit = unlabelled(&case.table(seed)?, seed)?;
    let components = fit.components();
    let count = components.iter().filter(|c| c.weight > CLUSTER).count();
    let found = f64::from(u8::from(count == case.count()));
    Ok(Outcome::metrics([
        ("clusters", count as f64),
        ("found", found),
    ]))
}

fn all_targets(sets: &[Data], records: &[Record], results: &[ResultRow]) -> Vec<Target> {
    let mut all = Vec::new();
    for data in sets {
        for other in OTHERS {
            let setting = density_setting();
            let of_set = records.iter().filter(|r| r.key.dataset == data.name);
            let found = difference(of_set, &setting, OURS, other, "ln_density");
            all.extend(found.map(|(mean, _)| Target {
                what: format!("{}: log density per row above that of {other}", data.name),
                found: Some(mean),
                low: 0.0,
                high: f64::INFINITY,
            }));
        }
    }
    for case in [Clusters::Three, Clusters::Four, Clusters::Apart] {
        let row = find_in(results, "simulated", &clusters_setting(case), OURS, "found");
        all.extend(row.map(|row| Target {
            what: format!(
                "{}: share of runs that find {} clusters",
                case.name(),
                case.count()
            ),
            found: Some(row.mean),
            low: FOUND,
            high: f64::INFINITY,
        }));
    }
    all
}

fn notes(sets: &[Data]) -> Vec<String> {
    let origin = if sets.iter().all(Data::has_given_splits) {
        "Masks and splits are the given ones."
    } else {
        "Where no masks and splits are given they were drawn from the seed by the same protocol."
    };
    let rest = [
        "`ln_density`: mean over the test rows of the log density (nats) of their observed cells, in units of the training standard deviation; columns \
         that are constant in training are left out. Labels are not used.",
        "`gaussian`: one Gaussian by EM, 0.01 added to every variance at each step; its variants add 0.1 and 0.001. `mixture+mean` and \
         `mixture+chained`: the same mixture fitted to training rows whose holes were filled before, as a library without missing values needs it.",
        "Clusters: components of weight above 0.02, in rows drawn anew for every run.",
    ];
    [origin]
        .into_iter()
        .chain(rest)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use npb_linalg::faer::mat;

    use super::*;
    use crate::quality::data::tests::example;

    #[test]
    fn densities_are_of_the_observed_cells() {
        let law = Gaussian::from_covariance(&[1.0, 2.0], mat![[4.0, 1.0], [1.0, 9.0]].as_ref());
        let nan = f64::NAN;
        let rows = Table::from_nan_coded(3, 2, &[nan, 5.0, 3.0, nan, nan, nan]).unwrap();
        let found = ln_densities(&law.unwrap(), &rows).unwrap();
        // One standard deviation from the mean of each margin.
        let normal = |sd: f64| -0.5 - sd.ln() - 0.5 * std::f64::consts::TAU.ln();
        for (found, exact) in found.iter().zip([normal(3.0), normal(2.0), 0.0]) {
            assert!((found - exact).abs() < 1e-12, "{found} {exact}");
        }
    }

    #[test]
    fn every_task_has_a_density_in_the_same_units() {
        let sides = example().masked_sides(0.25, 0.5, 0, 1).unwrap();
        let one = gaussian(&sides).unwrap();
        let ours = mixture(&sides.train.rows, &sides, 1).unwrap();
        let filled = MeanImputer::fit(&sides.train.rows).unwrap();
        let filled = filled.transform(&sides.train.rows).unwrap();
        let two_step = mixture(&filled, &sides, 1).unwrap();
        // Three standardised columns, a quarter of the cells hidden: a standard normal has about -3.2.
        for found in [one, ours, two_step] {
            let density = found.metrics["ln_density"];
            assert!((-4.5..-1.0).contains(&density), "{density}");
        }
    }

    #[test]
    fn clusters_are_counted() {
        let found = clusters(Clusters::Three, 1).unwrap().metrics;
        assert_eq!(found["found"] == 1.0, found["clusters"] == 3.0);
        assert!((2.0..=5.0).contains(&found["clusters"]), "{found:?}");
    }
}
