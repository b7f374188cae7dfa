//! Items nobody rated: the chapter's argument for content.

use npb_baselines::{ItemRates, Svm};
use npb_data::{Ratings, metrics};
use npb_hbrec::Recommender;

use super::data::Survey;
use super::methods::{Variant, svm};
use super::protocol::mean;
use super::runs::margins;
use npb_kit::films::{Films, Size};
use npb_kit::tables::overview;
use npb_kit::{Context, Outcome, Report, Result, Trial, summarise};

const SPLIT: &str = "splits/cold_items_test_rows.txt.gz";

#[derive(Clone, Copy, Debug)]
enum Method {
    Ours(Variant),
    /// The own model of the printed fit: content alone.
    ContentKernel,
    Content,
    ItemRate,
}

const METHODS: [Method; 5] = [
    Method::Ours(Variant::Learned),
    Method::Ours(Variant::Printed),
    Method::ContentKernel,
    Method::Content,
    Method::ItemRate,
];

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Ours(variant) => variant.name(),
            Self::ContentKernel => "npb:hbrec/content",
            Self::Content => "content",
            Self::ItemRate => "item-rate",
        }
    }
}

pub(super) fn cold_items(context: &Context<'_>) -> Result<Report> {
    let films = Films::load(context, Size::HundredThousand)?;
    let survey = Survey::films(context, Size::HundredThousand)?;
    let split = films
        .given(context, SPLIT)?
        .ok_or_else(|| format!("{SPLIT} is not there"))?;
    let sides = films.sides(&split)?;
    let users = context.scale.smoke_or(50, usize::MAX);
    let like = |e: npb_data::Rating| npb_data::Rating {
        value: if e.value >= 4.0 { 1.0 } else { -1.0 },
        ..e
    };
    let train: Vec<npb_data::Rating> = sides
        .train
        .iter()
        .map(like)
        .filter(|e| (e.row as usize) < users)
        .collect();
    let train = Ratings::new(survey.likes.n_rows(), survey.likes.n_cols(), &train)?;
    let mut held_out: Vec<Vec<(u32, bool)>> = vec![Vec::new(); train.n_rows()];
    for e in &sides.test {
        held_out[e.row as usize].push((e.column, e.value >= 4.0));
    }
    let both = |items: &[(u32, bool)]| items.iter().any(|i| i.1) && items.iter().any(|i| !i.1);
    let asked: Vec<usize> = (0..train.n_rows().min(users))
        .filter(|&u| both(&held_out[u]) && !train.row(u).0.is_empty())
        .collect();
    let few = [
        Method::Ours(Variant::Smoke),
        Method::Content,
        Method::ItemRate,
    ];
    let methods: &[Method] = context.scale.smoke_or(&few, &METHODS);
    let trial = |&method: &Method| {
        let settings = (svm(), Variant::Learned.config(0));
        let config = format!("{} {method:?} {settings:?}", survey.source);
        Trial::new(
            [&survey.name, "cold=items", method.name()],
            0,
            config,
            method,
        )
    };
    let trials: Vec<Trial<Method>> = methods.iter().map(trial).collect();
    let records = context.run_trials(&trials, |trial, seed| {
        let predict = learned(trial.work, &survey, &train, seed)?;
        let mut areas = Vec::new();
        for &user in &asked {
            let scores = predict(user)?;
            let own: Vec<f64> = held_out[user]
                .iter()
                .map(|h| scores[h.0 as usize])
                .collect();
            let liked: Vec<bool> = held_out[user].iter().map(|h| h.1).collect();
            areas.push(metrics::auc(&own, &liked)?);
        }
        let mut outcome = Outcome::metrics([("auc", mean(&areas))]);
        outcome.series.insert("auc".to_owned(), areas);
        Ok(outcome)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    Ok(Report {
        tables: vec![
            overview(&survey.name, &results, "auc seconds"),
            margins(
                &records,
                &survey.name,
                "npb:hbrec",
                &[("cold=items", "auc")],
            ),
        ],
        results,
        notes: vec![format!(
            "AUC within each of {} users who rated liked and disliked films among those held out. Every user is in the database.",
            asked.len()
        )],
        ..Default::default()
    })
}

type Predict<'a> = Box<dyn Fn(usize) -> Result<Vec<f64>> + 'a>;

/// Scores of all items for a user of the database.
fn learned<'a>(
    method: Method,
    survey: &'a Survey,
    train: &'a Ratings,
    seed: u64,
) -> Result<Predict<'a>> {
    Ok(match method {
        Method::Ours(_) | Method::ContentKernel => {
            let recommender: Recommender = match method {
                Method::Ours(variant) => variant.learn(survey, train, seed)?,
                _ => Variant::Printed
                    .learn(survey, train, seed)?
                    .with_tau(f64::INFINITY)?,
            };
            Box::new(move |user| {
                let profile = recommender.user_profile(user)?;
                Ok(recommender.probabilities(&profile)?)
            })
        }
        Method::Content => Box::new(move |user| {
            let (items, values) = train.row(user);
            let labels: Vec<bool> = values.iter().map(|&v| v > 0.0).collect();
            if labels.iter().all(|&l| l == labels[0]) {
                return Ok(vec![0.0; train.n_cols()]);
            }
            let rows: Vec<usize> = items.iter().map(|&i| i as usize).collect();
            let machine = Svm::fit(&survey.content_table.select_rows(&rows), &labels, &svm())?;
            Ok(machine.decision(&survey.content_table)?)
        }),
        Method::ItemRate => {
            let rates = ItemRates::fit(train, 5.0)?.like_rates().to_vec();
            Box::new(move |_| Ok(rates.clone()))
        }
    })
}
