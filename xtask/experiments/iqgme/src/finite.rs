//! Figure 3.7: the finite mixture of experts by EM with K components, and the infinite one without K, on ionosphere.

use npb_data::metrics;
use npb_iqgme::{IqgmeConfig, QgmeConfig, fit, fit_qgme};

use super::mcar::IONOSPHERE;
use super::mcar::data::{Cell, Data, Sides};
use npb_kit::{
    Context, Experiment, Figure, Outcome, Panel, Point, Report, Result, ResultRow, Scale, Series,
    TextTable, Trial, lines, short, summarise,
};

pub(crate) const FIG_3_7: Experiment = Experiment {
    id: "iqgme/fig-3.7",
    what: "ionosphere: AUC of the finite mixture of experts by EM against its number of components K, and of the infinite one without K",
    paper: "a figure without printed numbers: EM gets worse as K grows, the infinite mixture is as good as the best K or better",
    data: &["ionosphere"],
    run: reproduce,
};

const OURS: &str = "npb:iqgme";
const EM: &str = "npb:qgme-em";
const COMPONENTS: [usize; 5] = [1, 3, 5, 10, 20];
const RATES: [f64; 2] = [0.25, 0.5];
const FRACTIONS: [f64; 3] = [0.1, 0.5, 0.9];

/// The infinite mixture, or a finite one with so many components.
type Work = (Option<usize>, Cell);

fn reproduce(context: &Context<'_>) -> Result<Report> {
    let data = Data::load(context, &IONOSPHERE)?;
    let trials = design(context.scale, &data);
    let records = context.run_trials(&trials, |trial, seed| {
        run(&data, &trial.work, context.seed, seed)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![table(&results)],
        figures: vec![figure(&results)?],
        notes: vec![
            "EM maximises the likelihood with a penalty on covariances (as many further rows with the covariance of all data as a quarter of the features) and a \
             ridge on the experts; without these the larger mixtures have no maximum. Masks and splits are those of figure 3.5."
                .to_owned(),
        ],
        results,
    })
}

fn design(scale: Scale, data: &Data) -> Vec<Trial<Work>> {
    let (rates, fractions, components, n): (&[f64], &[f64], &[usize], u64) = match scale {
        Scale::Smoke => (&[0.25], &[0.5], &[1, 3], 1),
        Scale::Quick => (&RATES, &FRACTIONS, &COMPONENTS, 5),
        Scale::Paper => (&RATES, &FRACTIONS, &COMPONENTS, 10),
    };
    let mut trials = Vec::new();
    for &missing in rates {
        for &train in fractions {
            for k in components.iter().copied().map(Some).chain([None]) {
                for trial in 0..n {
                    let cell = Cell {
                        missing,
                        train,
                        trial,
                    };
                    trials.push(Trial {
                        dataset: IONOSPHERE.name.to_owned(),
                        setting: setting(missing, train, k),
                        method: if k.is_some() { EM } else { OURS }.to_owned(),
                        trial,
                        config: format!(
                            "{}\n{:?}\n{:?}",
                            data.checksums,
                            QgmeConfig::default(),
                            IqgmeConfig::default()
                        ),
                        work: (k, cell),
                    });
                }
            }
        }
    }
    trials
}

fn setting(missing: f64, train: f64, k: Option<usize>) -> String {
    match k {
        Some(k) => format!("missing={missing};train={train};k={k}"),
        None => format!("missing={missing};train={train}"),
    }
}

fn run(data: &Data, (k, cell): &Work, run_seed: u64, seed: u64) -> Result<Outcome> {
    let sides = Sides::new(data, cell, run_seed)?;
    let (classes, scores) = match *k {
        Some(components) => {
            let config = QgmeConfig {
                components,
                seed,
                ..QgmeConfig::default()
            };
            let fitted = fit_qgme(&sides.train, &sides.train_labels, &config)?;
            (
                fitted.classes().to_vec(),
                fitted.predict_proba(&sides.test)?,
            )
        }
        None => {
            let config = IqgmeConfig {
                seed,
                ..IqgmeConfig::default()
            };
            let fitted = fit(&sides.train, &sides.train_labels, &config)?;
            (
                fitted.classes().to_vec(),
                fitted.predict_proba(&sides.test)?,
            )
        }
    };
    let sign = if classes.get(1).is_some_and(|c| c == data.positive) {
        1.0
    } else {
        -1.0
    };
    let scores: Vec<f64> = scores.into_iter().map(|p| sign * p).collect();
    let auc = metrics::auc(&scores, &sides.test_positive)?;
    Ok(Outcome::metrics([("auc", auc)]))
}

fn auc(results: &[ResultRow], missing: f64, train: f64, k: Option<usize>) -> Option<&ResultRow> {
    let setting = setting(missing, train, k);
    results
        .iter()
        .find(|r| r.setting == setting && r.metric == "auc")
}

fn table(results: &[ResultRow]) -> TextTable {
    let mut rows = Vec::new();
    for missing in RATES {
        for train in FRACTIONS {
            let cell = |k| match auc(results, missing, train, k) {
                Some(row) => match row.sd {
                    Some(sd) => format!("{} ({})", short(row.mean), short(sd)),
                    None => short(row.mean),
                },
                None => String::new(),
            };
            if auc(results, missing, train, None).is_some() {
                let ks = COMPONENTS.iter().copied().map(Some).chain([None]);
                let place = vec![missing.to_string(), train.to_string()];
                rows.push([place, ks.map(cell).collect()].concat());
            }
        }
    }
    let ks = COMPONENTS.map(|k| format!("EM, K = {k}"));
    let header = ["missing", "training fraction"].map(str::to_owned);
    TextTable {
        title: "Mean AUC (standard deviation over trials)".to_owned(),
        header: [&header[..], &ks[..], &["infinite mixture".to_owned()]].concat(),
        rows,
    }
}

fn figure(results: &[ResultRow]) -> Result<Figure> {
    let mut panels = Vec::new();
    for missing in RATES {
        for train in FRACTIONS {
            let point = |k: usize, found: Option<&ResultRow>| {
                found.map(|row| Point {
                    x: k as f64,
                    y: row.mean,
                    sd: row.sd,
                })
            };
            let each = COMPONENTS.iter();
            let em = each.filter_map(|&k| point(k, auc(results, missing, train, Some(k))));
            let ends = [COMPONENTS[0], COMPONENTS[COMPONENTS.len() - 1]];
            let ours = ends
                .iter()
                .filter_map(|&k| point(k, auc(results, missing, train, None)));
            let series: Vec<Series> = [(EM, em.collect()), (OURS, ours.collect())]
                .into_iter()
                .map(|(name, points)| Series {
                    name: name.to_owned(),
                    points,
                })
                .collect();
            if series.iter().all(|s: &Series| !s.points.is_empty()) {
                panels.push(Panel {
                    title: format!(
                        "{:.0}% missing, {:.0}% training",
                        100.0 * missing,
                        100.0 * train
                    ),
                    x_label: "components K".to_owned(),
                    y_label: "mean AUC".to_owned(),
                    series,
                });
            }
        }
    }
    let caption = "Mean over trials; bars are one standard deviation over trials. The infinite mixture has no K: its line joins the same number twice.";
    lines("auc", "AUC on ionosphere against K", caption, &panels)
}
