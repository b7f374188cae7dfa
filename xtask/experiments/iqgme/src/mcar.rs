//! Figures 3.5 and 3.6: AUC against training fraction when 25% and 50% of the cells are missing completely at random.

pub(super) mod data;
mod tables;

use npb_data::metrics;
use npb_iqgme::IqgmeConfig;

use super::comparators::{COMPARATORS, Comparator, NAMES};
use data::{Cell, Data, FRACTIONS, OURS, Sides, Source, setting};
use npb_kit::{Context, Experiment, Outcome, Report, Result, Scale, Trial, summarise};

pub(crate) const FIG_3_5: Experiment = Experiment {
    id: "iqgme/fig-3.5",
    what: "ionosphere: AUC against training fraction at 25% and 50% missing, iQGME, two-step comparators and others that take holes",
    paper: "a figure without printed numbers: iQGME best overall, kernel methods close on this set",
    data: &["ionosphere"],
    run: |context| reproduce(context, &IONOSPHERE),
};

pub(crate) const FIG_3_6: Experiment = Experiment {
    id: "iqgme/fig-3.6",
    what: "wdbc: AUC against training fraction at 25% and 50% missing, iQGME, two-step comparators and others that take holes",
    paper: "a figure without printed numbers: iQGME best overall, most clearly when training rows are scarce",
    data: &["wdbc"],
    run: |context| reproduce(context, &WDBC),
};

pub(super) const IONOSPHERE: Source = Source {
    name: "ionosphere",
    file: "ionosphere.data",
    label: 34,
    skip: &[],
    positive: "g",
    recorded: &[
        (
            "svm-rbf+chained",
            0.25,
            &[0.948, 0.974, 0.975, 0.979, 0.981],
        ),
        ("svm-rbf+chained", 0.5, &[0.901, 0.953, 0.963, 0.968, 0.974]),
    ],
    // Trees of other libraries; those of the forest take holes as they are.
    trees: &[
        ("boosted-trees", 0.25, 0.940),
        ("boosted-trees", 0.5, 0.900),
        ("forest+mean", 0.25, 0.964),
        ("forest+mean", 0.5, 0.940),
    ],
};

const WDBC: Source = Source {
    name: "wdbc",
    file: "wdbc.data",
    label: 1,
    skip: &[0],
    positive: "M",
    recorded: &[
        (
            "logistic+gaussian",
            0.25,
            &[0.988, 0.992, 0.994, 0.995, 0.988],
        ),
        (
            "logistic+gaussian",
            0.5,
            &[0.983, 0.987, 0.991, 0.992, 0.986],
        ),
    ],
    trees: &[
        ("boosted-trees", 0.25, 0.986),
        ("boosted-trees", 0.5, 0.981),
    ],
};

/// Components of the finite mixtures of quick scale: those with more take most of the time, and figure 3.7 has them all.
const QUICK_COMPONENTS: [usize; 2] = [1, 5];

/// Every method with its name in `results.csv`; ours is none of the comparators.
fn methods(scale: Scale) -> impl Iterator<Item = (&'static str, Option<Comparator>)> {
    let wanted = move |method: &Comparator| match method {
        Comparator::Finite(components) if scale == Scale::Quick => {
            QUICK_COMPONENTS.contains(components)
        }
        _ => true,
    };
    let comparators = COMPARATORS
        .into_iter()
        .filter(move |(_, method)| wanted(method));
    std::iter::once((OURS, None)).chain(comparators.map(|(name, method)| (name, Some(method))))
}

fn reproduce(context: &Context<'_>, source: &Source) -> Result<Report> {
    let data = Data::load(context, source)?;
    let trials = design(context.scale, source.name, &data);
    let records = context.run_trials(&trials, |trial, seed| {
        let (method, cell) = trial.work;
        run(&data, method, &cell, context.seed, seed)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![
            tables::best(&records, &results),
            tables::overview(&results),
            tables::differences(&records),
            tables::recorded(source, &results),
        ],
        figures: tables::figures(source, &results)?,
        notes: notes(&data, context.scale),
        results,
    })
}

/// All cells of the design at a scale.
fn design(scale: Scale, dataset: &str, data: &Data) -> Vec<Trial<(Option<Comparator>, Cell)>> {
    let (rates, fractions, n): (&[f64], &[f64], u64) = match scale {
        Scale::Smoke => (&[0.25], &[0.5], 2),
        Scale::Quick | Scale::Paper => (&[0.25, 0.5], &FRACTIONS, 10),
    };
    let mut trials = Vec::new();
    for &missing in rates {
        for &train in fractions {
            for (name, method) in methods(scale) {
                for trial in 0..n {
                    trials.push(Trial {
                        dataset: dataset.to_owned(),
                        setting: setting(missing, train),
                        method: name.to_owned(),
                        trial,
                        config: format!("{}\n{}", data.checksums, configuration(method)),
                        work: (
                            method,
                            Cell {
                                missing,
                                train,
                                trial,
                            },
                        ),
                    });
                }
            }
        }
    }
    trials
}

/// Everything that a method's outcome depends on besides data and seed.
fn configuration(method: Option<Comparator>) -> String {
    match method {
        Some(comparator) => comparator.configuration(),
        None => format!("{:?}", IqgmeConfig::default()),
    }
}

/// One trial. `run_seed` draws masks and splits where none are given; `seed` is the trial's own.
fn run(
    data: &Data,
    method: Option<Comparator>,
    cell: &Cell,
    run_seed: u64,
    seed: u64,
) -> Result<Outcome> {
    let sides = Sides::new(data, cell, run_seed)?;
    let auc = |scores: &[f64]| metrics::auc(scores, &sides.test_positive);
    if let Some(comparator) = method {
        let Sides { train, test, .. } = &sides;
        let found = comparator.scores(train, &sides.train_positive, test, seed)?;
        return Ok(Outcome::metrics([("auc", auc(&found.scores)?)]));
    }
    let config = IqgmeConfig {
        seed,
        ..Default::default()
    };
    let fit = npb_iqgme::fit(&sides.train, &sides.train_labels, &config)?;
    // Probabilities are those of the second class in alphabetical order.
    let of_second = fit
        .classes()
        .get(1)
        .is_some_and(|class| class == data.positive);
    let scores = |p: Vec<f64>| {
        p.into_iter()
            .map(|p| if of_second { p } else { -p })
            .collect::<Vec<f64>>()
    };
    Ok(Outcome::metrics([
        ("auc", auc(&scores(fit.predict_proba(&sides.test)?))?),
        (
            "plug-in/auc",
            auc(&scores(fit.predict_plug_in(&sides.test)?))?,
        ),
    ]))
}

fn notes(data: &Data, scale: Scale) -> Vec<String> {
    let origin = match data.given {
        Some(_) => "Masks and splits are the given ones, so that comparisons are paired.",
        None => {
            "No given masks and splits were found: they were drawn from the seed by the same protocol."
        }
    };
    let mut notes = vec![origin.to_owned(), NAMES.to_owned()];
    if scale == Scale::Quick {
        notes.push(format!(
            "Finite mixtures have {QUICK_COMPONENTS:?} components at this scale; paper scale has all."
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_comparator_learns_an_easy_problem() {
        let data = data::tests::example();
        for (name, method) in methods(Scale::Paper).filter(|(name, _)| *name != OURS) {
            let cell = Cell {
                missing: 0.1,
                train: 0.5,
                trial: 0,
            };
            let auc = run(&data, method, &cell, 1, 1).unwrap().metrics["auc"];
            assert!(auc > 0.8, "{name}: {auc}");
        }
    }
}
