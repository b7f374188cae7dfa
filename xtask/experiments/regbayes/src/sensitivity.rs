//! Figures 8 and 9: sensitivity to alpha, C and the number of training rows, with time.

use npb_regbayes::{IbpConcentration, LabelUpdate, MtIlsvmConfig};

use super::data::{MultiLabel, label_metrics};
use super::labels::{self, OURS};
use super::school::{self, PROFILED};
use npb_kit::school::Pupils;
use npb_kit::tables::{find_in, overview};
use npb_kit::{
    Context, Figure, Layer, Outcome, Panel, Report, Result, ResultRow, Scale, Trial, against,
    lines, summarise,
};

const ALPHAS: [f64; 5] = [0.5, 1.0, 2.0, 5.0, 10.0];
const COSTS: [f64; 5] = [1e-4, 1e-3, 1e-2, 1e-1, 1.0];
const MIDDLE: f64 = 1e-2;
const SHARES: [f64; 6] = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// alpha (`None`: learned) and C.
type Case = (Option<f64>, f64);

fn cases(scale: Scale) -> Vec<(String, Case)> {
    let alphas = ALPHAS.map(|alpha| (format!("alpha={alpha}"), (Some(alpha), MIDDLE)));
    let costs = COSTS.map(|cost| (format!("c={cost}"), (None, cost)));
    let all = alphas.into_iter().chain(costs);
    all.step_by(scale.smoke_or(5, 1)).collect()
}

fn with_alpha(config: MtIlsvmConfig, alpha: Option<f64>) -> MtIlsvmConfig {
    let mut config = config;
    if let Some(alpha) = alpha {
        config.factors.concentration = IbpConcentration::Fixed(alpha);
    }
    config
}

pub(super) fn fig_8(context: &Context<'_>) -> Result<Report> {
    let scale = context.scale;
    let yeast = MultiLabel::load(context, "yeast")?;
    let all = school::load(context)?;
    let pupils = &all.pupils;
    let ours = labels::ours(LabelUpdate::Profiled, 0.0, false);
    let mut trials = Vec::new();
    for (setting, case) in cases(scale) {
        for (dataset, checksums) in [(yeast.name, &yeast.checksums), ("school", &all.checksums)] {
            let config = labels::config(scale, ours, labels::equal(0.0), 0);
            let config = format!("{checksums}\n{config:?}");
            let place = [dataset, &setting, OURS];
            trials.extend(Trial::runs(scale.pick(1, 2, 5), place, &config, case));
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let (alpha, cost) = trial.work;
        if trial.dataset == "school" {
            let config = with_alpha(school::config(scale, PROFILED, cost, seed), alpha);
            let split = &all.splits[trial.trial as usize % all.splits.len()];
            return of_school(pupils, &split.train, &split.test, &config);
        }
        let config = with_alpha(
            labels::config(scale, ours, labels::equal(cost), seed),
            alpha,
        );
        let scored = labels::score(
            ours,
            &config,
            &yeast.train,
            &yeast.train_labels,
            &yeast.test,
        )?;
        let found = labels::decisions(&scored.scores, &vec![0.0; yeast.n_labels]);
        label_metrics(&found, &yeast.test_labels, yeast.n_labels)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    let figures = vec![by_setting(&results)?];
    Ok(Report {
        tables: vec![overview(
            "Sensitivity",
            &results,
            "accuracy f1_micro explained_variance seconds",
        )],
        results,
        figures,
        notes: vec![format!(
            "Against alpha with C = {MIDDLE}; against C with alpha learned. Explained variance over all pupils, in percent."
        )],
    })
}

fn of_school(
    pupils: &Pupils,
    train: &[usize],
    test: &[usize],
    config: &MtIlsvmConfig,
) -> Result<Outcome> {
    let (train, test) = (pupils.select(train), pupils.select(test));
    let (predicted, _) = school::predict(PROFILED, config, &train, &test)?;
    let all = school::explained(&predicted, &test)?;
    Ok(Outcome::metrics([(
        "explained_variance",
        all.metrics["pooled"],
    )]))
}

fn by_setting(results: &[ResultRow]) -> Result<Figure> {
    let panel = |dataset: &str, key: &str, values: &[f64], metric: &str| {
        let point = |&value: &f64| {
            let row = find_in(results, dataset, &format!("{key}={value}"), OURS, metric)?;
            Some(row.at(if key == "c" { value.log10() } else { value }))
        };
        let x_label = if key == "c" { "log10 C" } else { "alpha" };
        let curve = Layer::line(OURS, values.iter().filter_map(point));
        Panel::of_lines(dataset, [x_label, &metric.replace('_', " ")], [curve])
    };
    lines(
        "sensitivity",
        "Sensitivity to alpha and C",
        "Means over runs; bars are standard deviations.",
        &[
            panel("yeast", "alpha", &ALPHAS, "accuracy"),
            panel("yeast", "c", &COSTS, "accuracy"),
            panel("school", "alpha", &ALPHAS, "explained_variance"),
            panel("school", "c", &COSTS, "explained_variance"),
        ],
    )
}

pub(super) fn fig_9(context: &Context<'_>) -> Result<Report> {
    let all = school::load(context)?;
    let pupils = &all.pupils;
    let (shares, splits): (&[f64], u64) =
        context
            .scale
            .pick((&SHARES[..1], 1), (&SHARES, 3), (&SHARES, 10));
    let mut trials = Vec::new();
    for &share in shares {
        let config = school::config(context.scale, PROFILED, MIDDLE, 0);
        let config = format!("{}\n{config:?}", all.checksums);
        let place = ["school", &format!("train={share}"), OURS];
        trials.extend(Trial::runs(splits, place, &config, share));
    }
    let records = context.run_trials(&trials, |trial, seed| {
        let split = &all.splits[trial.trial as usize];
        let config = school::config(context.scale, PROFILED, MIDDLE, seed);
        of_school(
            pupils,
            &first_of_each(pupils, &split.train, trial.work),
            &split.test,
            &config,
        )
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    let panel = |metric: &str| {
        Panel::of_lines(
            "school",
            ["share of the training pupils", &metric.replace('_', " ")],
            against(&results, metric, "train"),
        )
    };
    let figure = lines(
        "training-size",
        "Explained variance and seconds against training size",
        "Means over splits; bars are standard deviations.",
        &[panel("explained_variance"), panel("seconds")],
    )?;
    Ok(Report {
        tables: vec![overview(
            "Training size",
            &results,
            "explained_variance seconds",
        )],
        results,
        figures: vec![figure],
        notes: vec![
            "The first share of the training pupils of each school, in the order of the file."
                .to_owned(),
        ],
    })
}

/// The first `share` of each school's pupils, at least one.
fn first_of_each(pupils: &Pupils, train: &[usize], share: f64) -> Vec<usize> {
    let n_schools = pupils.n_schools();
    let mut sizes = vec![0_usize; n_schools];
    train.iter().for_each(|&i| sizes[pupils.schools[i]] += 1);
    let limit = |size: usize| (share * size as f64).ceil() as usize;
    let mut taken = vec![0_usize; n_schools];
    let first = |i: &usize| {
        let school = pupils.schools[*i];
        taken[school] += 1;
        taken[school] <= limit(sizes[school])
    };
    train
        .iter()
        .copied()
        .filter({
            let mut first = first;
            move |i| first(i)
        })
        .collect()
}
