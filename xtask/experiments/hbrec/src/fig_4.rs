//! Figure 4 on public data, and its protocol on a survey drawn from a model.

use super::data::{Survey, SurveyModel};
use super::methods::{Method, Variant};
use super::protocol::{Ask, LENGTHS, Protocol, mean};
use super::runs;
use npb_kit::films::Size;
use npb_kit::tables::{distinct, overview};
use npb_kit::{
    Context, Figure, Layer, Panel, Point, Record, Report, Result, Scale, TextTable, lines,
    mean_and_sd, npb_report::by_name, summarise,
};

const METHODS: [Method; 11] = [
    Method::Ours(Variant::Learned),
    Method::Content,
    Method::Pearson,
    Method::PearsonNormalised,
    Method::ItemRate,
    Method::Popularity,
    Method::ItemKnn,
    Method::ItemKnnRate,
    Method::Ials,
    Method::Ours(Variant::Printed),
    Method::Bsvd,
];

const CURVE_GIVEN: [usize; 4] = [4, 10, 20, 50];
const COMMON: &str = ";users=common";
const MEASURES: &str = "auc precision_5 precision_10 ndcg_5 ndcg_10 calibration_error seconds top_5 top_10 top_20 top_50";

/// Figures handed down for ten liked and ten disliked films, AUC over held-out rated ones: method, movielens-100k, movielens-1m.
const RECORDED: [(&str, f64, f64); 6] = [
    ("content", 0.584, 0.577),
    ("pearson", 0.666, 0.690),
    ("item-rate", 0.712, 0.728),
    ("item-knn+rate", 0.719, 0.737),
    ("npb:bsvd", 0.719, 0.732),
    ("npb:hbrec", 0.728, 0.741),
];

fn recorded(dataset: &str, setting: &str, method: &str, metric: &str) -> Option<f64> {
    let (_, small, large) = RECORDED.iter().find(|r| r.0 == method)?;
    match (dataset, setting, metric) {
        ("movielens-100k", "given=20;protocol=rated", "auc") => Some(*small),
        ("movielens-1m", "given=20;protocol=rated", "auc") => Some(*large),
        _ => None,
    }
}

/// At smoke scale comparators and a short fit of ours.
fn methods(scale: Scale) -> Vec<Method> {
    match scale {
        Scale::Smoke => {
            let quick = METHODS
                .into_iter()
                .filter(|m| !matches!(m, Method::Ours(_) | Method::Bsvd));
            quick.chain([Method::Ours(Variant::Smoke)]).collect()
        }
        Scale::Quick | Scale::Paper => METHODS.to_vec(),
    }
}

pub(super) fn survey(context: &Context<'_>) -> Result<Report> {
    let all = usize::MAX;
    let (folds, active, draws) = context.scale.pick((1, 5, 1), (10, all, 2), (10, all, 5));
    let few = SurveyModel {
        users: 40,
        items: 120,
        ratings: 60,
        ..Default::default()
    };
    let model = context.scale.smoke_or(few, SurveyModel::default());
    let survey = Survey::simulated(&model, context.seed)?;
    let protocol = Protocol {
        asks: vec![balanced("", &[20])],
        folds: 10,
        active,
        draws,
    };
    let mut methods = methods(context.scale);
    methods.retain(|method| *method != Method::Bsvd);
    let records = runs::run(context, &survey, &protocol, &methods, folds)?;
    let results = summarise(&records, |_, _, _, _| None);
    let mut tables = vec![overview("simulated", &results, MEASURES)];
    tables.extend(
        ["npb:hbrec", "npb:hbrec/tau0", "npb:hbrec/printed"]
            .map(|ours| margins_at(&records, "simulated", 20, ours)),
    );
    Ok(Report {
        tables,
        figures: vec![curves(&records, "simulated", "given=20")?],
        results,
        notes: vec![
            format!(
                "Drawn from {model:?}: utility = quality + content + hidden tastes + noise of variance 1. Items are shown at random, so that known likes in a list are a fixed share of all likes in it."
            ),
            PROTOCOL.to_owned(),
        ],
    })
}

const PROTOCOL: &str = "Ten folds by user: those of a fold are active, all others are the database. Top-L: known likes among the L items that come first \
                        of all that were not given, over L. AUC, precision and NDCG: over the rated items that were not given. Ties count by expectation.";

pub(super) fn fig_4(context: &Context<'_>) -> Result<Report> {
    let mut report = Report::default();
    let mut all = Vec::new();
    for set in ["movielens-100k", "movielens-1m", "sushi"] {
        if context.scale == Scale::Smoke && set != "movielens-100k" {
            continue;
        }
        let survey = match set {
            "movielens-100k" => Survey::films(context, Size::HundredThousand)?,
            "movielens-1m" => Survey::films(context, Size::Million)?,
            _ => Survey::sushi(context)?,
        };
        let (given, records) = of_set(context, &survey)?;
        let results = summarise(&records, recorded);
        report.tables.push(overview(set, &results, MEASURES));
        report
            .tables
            .push(margins_at(&records, set, given, "npb:hbrec"));
        report
            .tables
            .push(margins_at(&records, set, given, "npb:hbrec/printed"));
        report
            .figures
            .push(curves(&records, set, &format!("given={given}"))?);
        if records.iter().any(|r| r.key.setting.ends_with(COMMON)) {
            report.figures.push(against_given(&records, set)?);
        }
        all.extend(records);
    }
    report.results = summarise(&all, recorded);
    report.notes = vec![
        PROTOCOL.to_owned(),
        "Users of MovieLens choose what they rate, so that popularity alone beats every model of likes in Top-L over all unseen items; lists of npb:hbrec are by the chance of a like times that of a rating, as the recommender makes them, those as printed by that of a like. The column of the paper holds AUC measured elsewhere by this protocol; the chapter prints curves of another data set.".to_owned(),
        "npb:bsvd is fitted again with the examples of the active users in its matrix; all others know a user by the examples alone.".to_owned(),
    ];
    Ok(report)
}

/// Half of the examples liked.
fn balanced(label: &'static str, given: &[usize]) -> Ask {
    Ask {
        label,
        given: given.to_vec(),
    }
}

/// All runs on one data set, and the number of examples of the main one.
fn of_set(context: &Context<'_>, survey: &Survey) -> Result<(usize, Vec<Record>)> {
    // Folds, active users of each, draws.
    let all = usize::MAX;
    let quick = match survey.name.as_str() {
        "movielens-100k" => (2, all, 1),
        _ => (1, 200, 1),
    };
    let (folds, active, draws) = context.scale.pick((1, 5, 1), quick, (10, all, 5));
    let given = if survey.name == "sushi" { 4 } else { 20 };
    let mut asks = vec![balanced("", &[given])];
    if context.scale > Scale::Smoke && survey.name != "sushi" {
        asks.push(balanced(COMMON, &CURVE_GIVEN));
    }
    let protocol = Protocol {
        asks,
        folds: 10,
        active,
        draws,
    };
    let mut methods = methods(context.scale);
    if survey.name == "movielens-1m" && context.scale == Scale::Quick {
        // A sampler of a million cells for each draw.
        methods.retain(|method| *method != Method::Bsvd);
    }
    let records = runs::run(context, survey, &protocol, &methods, folds)?;
    Ok((given, records))
}

fn margins_at(records: &[Record], dataset: &str, given: usize, ours: &str) -> TextTable {
    let (rated, all) = (
        format!("given={given};protocol=rated"),
        format!("given={given};protocol=all"),
    );
    let top: Vec<String> = LENGTHS.iter().map(|l| format!("top_{l}")).collect();
    let mut measures: Vec<(&str, &str)> = ["auc", "precision_5", "precision_10"]
        .map(|m| (rated.as_str(), m))
        .to_vec();
    measures.extend(top.iter().map(|t| (all.as_str(), t.as_str())));
    runs::margins(records, dataset, ours, &measures)
}

/// AUC against the number of examples, on users who have enough for the largest.
fn against_given(records: &[Record], dataset: &str) -> Result<Figure> {
    let panel = |metric: &str| {
        let points = CURVE_GIVEN.into_iter().flat_map(|given| {
            let setting = format!("given={given};protocol=rated{COMMON}");
            let users = runs::users(records, dataset, &setting, metric).into_iter();
            users.map(move |(name, users)| {
                let (y, sd) = mean_and_sd(&users);
                let sd = sd.map(|sd| sd / (users.len() as f64).sqrt());
                let x = given as f64;
                (name, Point { x, y, sd })
            })
        });
        Panel::of_lines(metric, ["examples given", metric], by_name(points))
    };
    let caption = "Half of the examples liked; the same users and the same held-out films at every number. Bars: standard errors over users.";
    lines(
        &format!("given-{dataset}"),
        &format!("{dataset}: AUC and precision against the number of examples"),
        caption,
        &["auc", "precision_10"].map(panel),
    )
}

/// Top-L and ROC of the methods, as figure 4 of the chapter.
fn curves(records: &[Record], dataset: &str, given: &str) -> Result<Figure> {
    let top = format!("{given};protocol=all");
    let rated = format!("{given};protocol=rated");
    let methods = distinct(records.iter().map(|r| r.key.method.as_str()));
    let top_l = |method: &&str| {
        let at = |l: &usize| {
            let users = runs::users(records, dataset, &top, &format!("top_{l}"));
            Some(Point::at(*l as f64, mean(users.get(*method)?)))
        };
        Layer::line(*method, LENGTHS.iter().filter_map(at))
    };
    let roc = |method: &&str| {
        let place = (dataset, &*rated, *method);
        let own = |r: &&Record| (&*r.key.dataset, &*r.key.setting, &*r.key.method) == place;
        let own = records.iter().filter(own);
        let found: Vec<&Vec<f64>> = own.filter_map(|r| r.outcome.series.get("roc")).collect();
        let n = found.first().map_or(0, |values| values.len());
        let at = |k: usize| {
            let of_folds: Vec<f64> = found.iter().map(|v| v[k]).collect();
            Point::at(k as f64 / (n - 1) as f64, mean(&of_folds))
        };
        Layer::line(*method, (0..n).map(at))
    };
    let panels = [
        Panel::of_lines(
            "Top-L over all unseen items",
            ["L", "known likes among the L first"],
            methods.iter().map(top_l),
        ),
        Panel::of_lines(
            "ROC over rated items",
            ["1 - specificity", "sensitivity"],
            methods.iter().map(roc),
        ),
    ];
    let caption = "Left: known likes in lists of L items, over L. Right: likes found against false alarms, mean over users.";
    lines(
        &format!("curves-{dataset}"),
        &format!("{dataset}, {given}"),
        caption,
        &panels,
    )
}
