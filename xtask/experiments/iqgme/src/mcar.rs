//! Figures 3.5 and 3.6: AUC against training fraction when 25% and 50% of the cells are missing completely at random.

use npb_data::metrics;
use npb_iqgme::IqgmeConfig;

use super::comparators::{COMPARATORS, Comparator, MEASURES, NAMES, Scores};
use super::data::{self, Data, FRACTIONS, OURS, Sides, setting};
use npb_kit::tables::{by_setting, differences};
use npb_kit::{
    Context, Figure, Outcome, Panel, Report, Result, ResultRow, Run, Scale, Trial, against, lines,
    summarise,
};

pub(crate) const FIG_3_5: Run = |context| reproduce(context, &data::IONOSPHERE);

pub(crate) const FIG_3_6: Run = |context| reproduce(context, &data::WDBC);

/// Shares of training rows of quick scale.
const QUICK_FRACTIONS: [f64; 3] = [0.1, 0.5, 0.9];

/// Components of the finite mixtures of quick scale: those with more take most of the time, and figure 3.7 has them all.
const QUICK_COMPONENTS: [usize; 2] = [1, 5];

/// Every method with its name in `results.csv`; ours is none of the comparators.
fn methods(scale: Scale) -> impl Iterator<Item = (&'static str, Option<Comparator>)> {
    let wanted = move |method: &Comparator| match method {
        Comparator::Finite(k) => scale != Scale::Quick || QUICK_COMPONENTS.contains(k),
        _ => true,
    };
    let comparators = COMPARATORS
        .into_iter()
        .filter(move |(_, method)| wanted(method));
    std::iter::once((OURS, None)).chain(comparators.map(|(name, method)| (name, Some(method))))
}

fn reproduce(context: &Context<'_>, source: &data::Source) -> Result<Report> {
    let data = Data::load(context, source)?;
    let (rates, fractions, n): (&[f64], &[f64], u64) = context.scale.pick(
        (&[0.25], &[0.5], 2),
        (&[0.25, 0.5], &QUICK_FRACTIONS, 5),
        (&[0.25, 0.5], &FRACTIONS, 10),
    );
    let mut trials = Vec::new();
    for &missing in rates {
        for &train in fractions {
            for (name, method) in methods(context.scale) {
                let place = [data.name, &setting(missing, train), name];
                let config = format!(
                    "{}\n{}\n{MEASURES:?}",
                    data.checksums,
                    configuration(method)
                );
                trials.extend(Trial::runs(n, place, &config, (method, missing, train)));
            }
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let (method, missing, train) = trial.work;
        let sides = data.masked(missing, train, trial.trial, context.seed)?;
        run(&Sides::whole(sides)?, method, seed)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    let mut notes = vec![data.origin().to_owned(), NAMES.to_owned()];
    if context.scale == Scale::Quick {
        notes.push(format!(
            "Finite mixtures have {QUICK_COMPONENTS:?} components at this scale; paper scale has all."
        ));
    }
    let table = |what: &str, metric: &str| {
        let title = format!("Mean {what} (standard deviation over trials)");
        by_setting(&title, &results, metric, |_| String::new())
    };
    let others = COMPARATORS.map(|(name, _)| name);
    Ok(Report {
        tables: vec![
            table("AUC", "auc"),
            table("log loss, of methods that give probabilities", "log_loss"),
            differences(&records, OURS, &others, "auc log_loss"),
        ],
        figures: figures(data.name, &results)?,
        notes,
        results,
    })
}

/// Two pictures, so that curves can be told apart: after conditional means or with holes as they are, and after unconditional means.
fn figures(data: &str, results: &[ResultRow]) -> Result<Vec<Figure>> {
    let unconditional = |method: &str| method.ends_with("+mean");
    // Chained equations are near the Gaussian's conditional means: the table has them all, the picture the best-known pair.
    let conditional = |method: &str| {
        !unconditional(method) && (!method.ends_with("+chained") || method == "svm-rbf+chained")
    };
    let title = format!("{data}, AUC: holes as they are, or conditional means");
    let first = picture("auc", &title, results, &conditional)?;
    let title = format!("{data}, AUC: unconditional means");
    let second = picture("auc-unconditional", &title, results, &|method| {
        method == OURS || unconditional(method)
    })?;
    Ok(vec![first, second])
}

/// One panel per missing fraction.
fn picture(
    name: &str,
    title: &str,
    results: &[ResultRow],
    shown: &dyn Fn(&str) -> bool,
) -> Result<Figure> {
    let panels = [0.25, 0.5].map(|missing| {
        let place = format!("missing={missing};");
        let here = |r: &&ResultRow| r.setting.starts_with(&place) && shown(&r.method);
        // Of ours alone, as in the thesis, so that bars can be read.
        let with_bar = |row: &ResultRow| ResultRow {
            sd: row.sd.filter(|_| row.method == OURS),
            ..row.clone()
        };
        let shown: Vec<ResultRow> = results.iter().filter(here).map(with_bar).collect();
        Panel::of_lines(
            format!("{:.0}% missing", 100.0 * missing),
            ["fraction of rows in training", "mean AUC"],
            against(&shown, "auc", "train"),
        )
    });
    let caption = "Mean over trials; bars are one standard deviation over trials, of our method.";
    lines(name, title, caption, &panels)
}

/// Everything that a method's outcome depends on besides data and seed.
pub(super) fn configuration(method: Option<Comparator>) -> String {
    match method {
        Some(comparator) => comparator.configuration(),
        None => format!("{:?}", IqgmeConfig::default()),
    }
}

fn run(Sides { train, test }: &Sides, method: Option<Comparator>, seed: u64) -> Result<Outcome> {
    if let Some(comparator) = method {
        let found = comparator.scores(&train.rows, &train.positive, &test.rows, seed)?;
        return found.outcome(&test.positive);
    }
    let fit = train.fit(seed)?;
    let found = Scores::probabilities(fit.predict_proba(&test.rows)?);
    let mut outcome = found.outcome(&test.positive)?;
    let plug_in = metrics::auc(&fit.predict_plug_in(&test.rows)?, &test.positive)?;
    outcome.metrics.insert("plug-in/auc".to_owned(), plug_in);
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_comparator_learns_an_easy_problem() {
        let data = data::tests::example();
        let sides = Sides::whole(data.masked(0.1, 0.5, 0, 1).unwrap()).unwrap();
        for (name, method) in methods(Scale::Paper).filter(|(name, _)| *name != OURS) {
            let auc = run(&sides, method, 1).unwrap().metrics["auc"];
            assert!(auc > 0.8, "{name}: {auc}");
        }
    }
}
