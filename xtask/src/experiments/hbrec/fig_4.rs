//! Figure 4 on public data, and its protocol on a survey drawn from a model.

use super::data::{Survey, SurveyModel};
use super::methods::Method;
use super::protocol::{Choice, LENGTHS, Protocol, mean};
use super::runs;
use crate::Result;
use crate::experiments::bsvd::tables::overview;
use crate::experiments::films::Size;
use crate::reproduce::{
    Context, Experiment, Figure, Panel, Point, Record, Report, Scale, Series, lines, summarise,
};

pub(super) const SURVEY: Experiment = Experiment {
    id: "hbrec/survey",
    what: "a survey of 190 users and 642 items shown at random, as the chapter's of paintings: Top-L and ROC with 10 liked and 10 disliked given",
    paper: "figure 4: both hybrids above collaborative and content-based filtering in Top-L and ROC",
    data: &[],
    run: survey,
};

pub(super) const FIG_4: Experiment = Experiment {
    id: "hbrec/fig-4",
    what: "MovieLens and sushi in the place of the paintings, which are not public: AUC, precision and NDCG over rated items, Top-L over all unseen ones",
    paper: "figure 4: both hybrids above collaborative and content-based filtering; there items were shown at random, here users chose them",
    data: &["movielens-100k", "movielens-1m", "sushi"],
    run: fig_4,
};

const METHODS: [Method; 8] = [
    Method::Content,
    Method::Pearson,
    Method::PearsonNormalised,
    Method::PearsonRate,
    Method::ItemRate,
    Method::Popularity,
    Method::ItemKnn,
    Method::Ials,
];

const RATED: [&str; 6] = [
    "auc",
    "precision_5",
    "precision_10",
    "ndcg_5",
    "ndcg_10",
    "seconds",
];
const ALL: [&str; 4] = ["top_5", "top_10", "top_20", "top_50"];

fn survey(context: &Context<'_>) -> Result<Report> {
    let (folds, active, draws) = match context.scale {
        Scale::Smoke => (1, 5, 1),
        Scale::Quick | Scale::Paper => (10, usize::MAX, 5),
    };
    let model = SurveyModel::default();
    let survey = Survey::simulated(&model, context.seed)?;
    let protocol = Protocol {
        given: vec![20],
        choice: Choice::Balanced,
        folds: 10,
        active,
        draws,
    };
    let records = runs::run(context, &survey, &protocol, &METHODS, folds)?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![overview(
            "simulated",
            &results,
            &[&RATED[..], &ALL].concat(),
        )],
        figures: vec![curves(&records, "simulated", "given=20")?],
        results,
        notes: vec![],
    })
}

fn fig_4(context: &Context<'_>) -> Result<Report> {
    let mut report = Report::default();
    let mut records = Vec::new();
    for size in [Size::HundredThousand, Size::Million] {
        let (folds, active, draws) = match (context.scale, size) {
            (Scale::Smoke, _) => (1, 5, 1),
            (Scale::Quick, Size::HundredThousand) => (10, usize::MAX, 1),
            (Scale::Quick, Size::Million) => (1, 300, 1),
            (Scale::Paper, _) => (10, usize::MAX, 5),
        };
        if context.scale == Scale::Smoke && size == Size::Million {
            continue;
        }
        let survey = Survey::films(context, size)?;
        let protocol = Protocol {
            given: vec![20],
            choice: Choice::Balanced,
            folds: 10,
            active,
            draws,
        };
        let found = runs::run(context, &survey, &protocol, &METHODS, folds)?;
        report
            .figures
            .push(curves(&found, &survey.name, "given=20")?);
        let results = summarise(&found, |_, _, _, _| None);
        report.tables.push(overview(
            &survey.name,
            &results,
            &[&RATED[..], &ALL].concat(),
        ));
        records.extend(found);
    }
    report.results = summarise(&records, |_, _, _, _| None);
    Ok(report)
}

/// Top-L and ROC of the methods, as figure 4 of the chapter.
fn curves(records: &[Record], dataset: &str, given: &str) -> Result<Figure> {
    let top = format!("{given};protocol=all");
    let rated = format!("{given};protocol=rated");
    let mut methods: Vec<&str> = Vec::new();
    for record in records {
        if !methods.contains(&record.key.method.as_str()) {
            methods.push(&record.key.method);
        }
    }
    let point = |x: f64, y: f64| Point { x, y, sd: None };
    let top_l = |method: &&str| {
        let at = |l: &usize| -> Option<Point> {
            let users = runs::users(records, dataset, &top, &format!("top_{l}"));
            Some(point(*l as f64, mean(users.get(*method)?)))
        };
        Series {
            name: (*method).to_owned(),
            points: LENGTHS.iter().filter_map(at).collect(),
        }
    };
    let roc = |method: &&str| {
        let of = |r: &&Record| {
            r.key.method == **method && r.key.setting == rated && r.key.dataset == dataset
        };
        let found: Vec<&Vec<f64>> = records
            .iter()
            .filter(of)
            .filter_map(|r| r.outcome.series.get("roc"))
            .collect();
        let n = found.first().map_or(0, |values| values.len());
        let at = |k: usize| {
            point(
                k as f64 / (n - 1) as f64,
                mean(&found.iter().map(|v| v[k]).collect::<Vec<_>>()),
            )
        };
        Series {
            name: (*method).to_owned(),
            points: (0..n).map(at).collect(),
        }
    };
    let panels = [
        Panel {
            title: "Top-L over all unseen items".to_owned(),
            x_label: "L".to_owned(),
            y_label: "known likes among the L first".to_owned(),
            series: methods.iter().map(top_l).collect(),
        },
        Panel {
            title: "ROC over rated items".to_owned(),
            x_label: "1 - specificity".to_owned(),
            y_label: "sensitivity".to_owned(),
            series: methods.iter().map(roc).collect(),
        },
    ];
    let caption = "Left: known likes in lists of L items, over L. Right: likes found against false alarms, mean over users.";
    lines(
        &format!("curves-{dataset}"),
        &format!("{dataset}, {given}"),
        caption,
        &panels,
    )
}
