//! Figure 3.7: the finite mixture of experts by EM with K components, and the infinite one without K, on ionosphere.

use npb_data::metrics;
use npb_iqgme::{IqgmeConfig, QgmeConfig, fit_qgme};

use super::data::{Data, IONOSPHERE, Sides};
use super::data::{OURS, setting};
use npb_kit::tables::{by_setting, find};
use npb_kit::{Context, Layer, Outcome, Panel, Report, Result, Trial, lines, summarise};

const EM: &str = "npb:qgme-em";
const COMPONENTS: [usize; 5] = [1, 3, 5, 10, 20];
const RATES: [f64; 2] = [0.25, 0.5];
const FRACTIONS: [f64; 3] = [0.1, 0.5, 0.9];

pub(super) fn reproduce(context: &Context<'_>) -> Result<Report> {
    let data = Data::load(context, &IONOSPHERE)?;
    let (rates, fractions, components, n): (&[f64], &[f64], &[usize], u64) = context.scale.pick(
        (&[0.25], &[0.5], &[1, 3], 1),
        (&RATES, &FRACTIONS, &COMPONENTS, 5),
        (&RATES, &FRACTIONS, &COMPONENTS, 10),
    );
    let (finite, infinite) = (QgmeConfig::default(), IqgmeConfig::default());
    let config = format!("{}\n{finite:?}\n{infinite:?}", data.checksums);
    let mut trials = Vec::new();
    for &missing in rates {
        for &train in fractions {
            // None is the infinite mixture.
            for k in components.iter().copied().map(Some).chain([None]) {
                let method = if k.is_some() { EM } else { OURS };
                let place = [data.name, &place(missing, train, k), method];
                trials.extend(Trial::runs(n, place, &config, (k, missing, train)));
            }
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let (k, missing, train) = trial.work;
        let sides = data.masked(missing, train, trial.trial, context.seed)?;
        run(&Sides::whole(sides)?, k, seed)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    let panels = RATES.iter().flat_map(|&missing| {
        let results = &results;
        FRACTIONS.map(|train| {
            let auc = |k: Option<usize>| {
                let method = if k.is_some() { EM } else { OURS };
                find(results, &place(missing, train, k), method, "auc")
            };
            let em = |&k: &usize| Some(auc(Some(k))?.at(k as f64));
            let ours = |k: usize| Some(auc(None)?.at(k as f64));
            Panel::of_lines(
                format!(
                    "{:.0}% missing, {:.0}% training",
                    100.0 * missing,
                    100.0 * train
                ),
                ["components K", "mean AUC"],
                [
                    Layer::line(EM, COMPONENTS.iter().filter_map(em)),
                    Layer::line(OURS, [1, 20].into_iter().filter_map(ours)),
                ],
            )
        })
    });
    let panels: Vec<Panel> = panels.collect();
    let caption = "Mean over trials; bars are one standard deviation over trials. The infinite mixture has no K: its line joins the same number twice.";
    Ok(Report {
        tables: vec![by_setting(
            "Mean AUC (standard deviation over trials)",
            &results,
            "auc",
            |_| String::new(),
        )],
        figures: vec![lines("auc", "AUC on ionosphere against K", caption, &panels)?],
        notes: vec![
            "EM maximises the likelihood with a penalty on covariances (as many further rows with the covariance of all data as a quarter of the features) and a \
             ridge on the experts; without these the larger mixtures have no maximum. Masks and splits are those of figure 3.5."
                .to_owned(),
        ],
        results,
    })
}

fn place(missing: f64, train: f64, k: Option<usize>) -> String {
    let k = k.map_or(String::new(), |k| format!(";k={k}"));
    setting(missing, train) + &k
}

fn run(Sides { train, test }: &Sides, k: Option<usize>, seed: u64) -> Result<Outcome> {
    let scores = match k {
        Some(components) => {
            let config = QgmeConfig {
                components,
                seed,
                ..QgmeConfig::default()
            };
            fit_qgme(&train.rows, &train.labels, &config)?.predict_proba(&test.rows)?
        }
        None => train.fit(seed)?.predict_proba(&test.rows)?,
    };
    let auc = metrics::auc(&scores, &test.positive)?;
    Ok(Outcome::metrics([("auc", auc)]))
}
