//! Samplers and EM on users in clusters.

use npb_hbrec::{
    BernoulliItems, GibbsConfig, GibbsMove, Likes, Mixture, UserModel, WeightsConfig, fit_gibbs,
};
use npb_infer::SweepPlan;
use npb_priors::dist::Beta;
use rand::RngExt;
use rand::seq::index::sample;
use std::time::Instant;

use super::protocol::mean;
use crate::Result;
use crate::experiments::bsvd::tables::{digits, header};
use crate::reproduce::{
    Context, Experiment, Outcome, Panel, Point, Record, Report, Scale, Series, TextTable, Trial,
    lines, mean_and_sd, summarise,
};

pub(super) const SAMPLERS: Experiment = Experiment {
    id: "hbrec/samplers",
    what: "users in 1 to 50 clusters: log-likelihood of new users' held-out ratings by own model, EM for point masses and samplers of the infinite model; time",
    paper: "in words: EM is efficient and its solutions are plausible",
    data: &[],
    run: samplers,
};

const ITEMS: usize = 100;
const CLUSTERS: [usize; 4] = [1, 5, 20, 50];
const RATINGS: [usize; 3] = [10, 20, 50];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// Every user alone.
    Own,
    /// Point masses, weights by EM, tau inferred.
    Em,
    /// The same with all weights 1.
    OneStep,
    Escobar,
    Auxiliary,
    Blocked,
}

const METHODS: [Method; 6] = [
    Method::Own,
    Method::Em,
    Method::OneStep,
    Method::Escobar,
    Method::Auxiliary,
    Method::Blocked,
];

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Own => "npb:hbrec/own",
            Self::Em => "npb:hbrec/em",
            Self::OneStep => "npb:hbrec/one-step",
            Self::Escobar => "npb:hbrec/escobar",
            Self::Auxiliary => "npb:hbrec/algorithm-8",
            Self::Blocked => "npb:hbrec/blocked",
        }
    }

    fn schedule(self) -> Option<Vec<GibbsMove>> {
        let moves = match self {
            Self::Own | Self::Em | Self::OneStep => return None,
            Self::Escobar => vec![GibbsMove::Escobar],
            Self::Auxiliary => vec![GibbsMove::Auxiliary { components: 3 }],
            Self::Blocked => vec![GibbsMove::Blocked],
        };
        Some([moves, vec![GibbsMove::Parameters, GibbsMove::Concentration]].concat())
    }
}

/// One world: clusters, ratings of each user.
#[derive(Clone, Copy, Debug)]
struct Cell {
    clusters: usize,
    ratings: usize,
    users: usize,
    sweeps: u64,
    method: Method,
}

/// A user: given ratings and held-out ones.
type User = (Likes, Vec<(usize, bool)>);

impl Cell {
    /// Users drawn from clusters with probabilities of likes from Beta(0.5, 0.5).
    fn users(&self, n: usize, first: u64, seed: u64) -> Result<Vec<User>> {
        let beta = Beta::new(0.5, 0.5)?;
        let rng = &mut npb_infer::stream(seed, [0, 0, 0, WORLD]);
        let likes: Vec<Vec<f64>> = (0..self.clusters)
            .map(|_| (0..ITEMS).map(|_| beta.sample(rng)).collect())
            .collect();
        let user = |u: usize| {
            let rng =
                &mut npb_infer::stream(seed, [first + u as u64, self.ratings as u64, 1, WORLD]);
            let cluster = &likes[rng.random_range(0..self.clusters)];
            let order = sample(rng, ITEMS, ITEMS).into_vec();
            let mut pair = |i: usize| (i as u32, rng.random::<f64>() < cluster[i]);
            let pairs: Vec<(u32, bool)> = order.into_iter().map(&mut pair).collect();
            let (given, rest) = pairs.split_at(self.ratings);
            let held_out = rest
                .iter()
                .take(ITEMS / 2)
                .map(|&(i, liked)| (i as usize, liked))
                .collect();
            Ok((Likes::new(ITEMS, given)?, held_out))
        };
        (0..n).map(user).collect()
    }
}

/// Last word of the keys of worlds.
const WORLD: u64 = 75;
/// Numbers of new users begin here.
const NEW: u64 = 1 << 32;

fn samplers(context: &Context<'_>) -> Result<Report> {
    let (clusters, ratings, users, sweeps, repeats): (&[usize], &[usize], usize, u64, u64) =
        match context.scale {
            Scale::Smoke => (&[5], &[20], 20, 10, 1),
            Scale::Quick => (&CLUSTERS, &RATINGS, 200, 200, 2),
            Scale::Paper => (&CLUSTERS, &RATINGS, 200, 1_000, 10),
        };
    let mut trials = Vec::new();
    for &clusters in clusters {
        for &ratings in ratings {
            for method in METHODS {
                for trial in 0..repeats {
                    let cell = Cell {
                        clusters,
                        ratings,
                        users,
                        sweeps,
                        method,
                    };
                    trials.push(Trial {
                        dataset: "simulated".to_owned(),
                        setting: format!("clusters={clusters};n={ratings}"),
                        method: method.name().to_owned(),
                        trial,
                        config: format!("{cell:?}"),
                        work: cell,
                    });
                }
            }
        }
    }
    let records = context.run_trials(&trials, |trial, seed| run(&trial.work, seed))?;
    let panels: Vec<Panel> = clusters
        .iter()
        .map(|&c| panel(&records, c, ratings))
        .collect();
    let caption = "Mean log-likelihood of a held-out rating of new users with as many ratings given as those of the database have. Bars: standard deviations over worlds.";
    Ok(Report {
        tables: vec![gaps(&records, clusters, ratings)],
        figures: vec![lines(
            "ln-likelihood",
            "Held-out log-likelihood against ratings per user",
            caption,
            &panels,
        )?],
        results: summarise(&records, |_, _, _, _| None),
        notes: vec![format!(
            "{users} users in the database, 50 new ones, {ITEMS} items liked with probabilities from Beta(0.5, 0.5) in each cluster. seconds: learning alone; samplers one chain of {sweeps} + {sweeps} sweeps. \
             ess_per_second: bulk effective draws of the log-likelihood. Gap: (sampler - EM) / |sampler|, the sampler being algorithm 8."
        )],
    })
}

fn run(cell: &Cell, seed: u64) -> Result<Outcome> {
    let model = BernoulliItems::new(vec![[0.5, 0.5]; ITEMS])?;
    let database = cell.users(cell.users, 0, seed)?;
    let new = cell.users(50.min(cell.users), NEW, seed)?;
    let data: Vec<&Likes> = database.iter().map(|user| &user.0).collect();
    let clock = Instant::now();
    let (mixtures, ess) = match cell.method.schedule() {
        Some(schedule) => {
            let sweeps = SweepPlan {
                burn_in: cell.sweeps,
                keep: cell.sweeps,
                thin: 1,
            };
            let config = GibbsConfig {
                schedule,
                chains: 1,
                sweeps,
                stored_draws: 50,
                seed,
                ..Default::default()
            };
            let fit = fit_gibbs(&model, &data, &config)?;
            let ess = fit
                .diagnostics()
                .into_iter()
                .find(|d| d.0 == "ln_likelihood")
                .and_then(|d| d.1.ess_bulk);
            (fit.mixtures(&model)?, ess)
        }
        None => {
            let fitted = cell.method == Method::Em;
            let config = WeightsConfig {
                fitted,
                ..Default::default()
            };
            (vec![Mixture::learn(model.clone(), &data, &config)?], None)
        }
    };
    let seconds = clock.elapsed().as_secs_f64();
    let mut terms = Vec::new();
    for (given, held_out) in &new {
        let mut probabilities = vec![0.0; held_out.len()];
        for mixture in &mixtures {
            let active = mixture.user(given)?;
            for (sum, (item, _)) in probabilities.iter_mut().zip(held_out) {
                let p = match cell.method {
                    Method::Own => model.predict_alone(&active.alone, item),
                    _ => mixture.predict(&active, item),
                };
                *sum += p / mixtures.len() as f64;
            }
        }
        let ln = |(p, (_, liked)): (&f64, &(usize, bool))| {
            (if *liked { *p } else { 1.0 - p }).max(1e-300).ln()
        };
        terms.extend(probabilities.iter().zip(held_out).map(ln));
    }
    let mut outcome = Outcome::metrics([("ln_likelihood", mean(&terms)), ("seconds", seconds)]);
    if let Some(ess) = ess {
        outcome
            .metrics
            .insert("ess_per_second".to_owned(), ess / seconds);
    }
    Ok(outcome)
}

fn values(records: &[Record], setting: &str, method: Method, metric: &str) -> Vec<f64> {
    let own = |r: &&Record| r.key.setting == setting && r.key.method == method.name();
    records
        .iter()
        .filter(own)
        .filter_map(|r| r.outcome.metrics.get(metric).copied())
        .collect()
}

fn panel(records: &[Record], clusters: usize, ratings: &[usize]) -> Panel {
    let series = |method: Method| {
        let point = |&n: &usize| {
            let found = values(
                records,
                &format!("clusters={clusters};n={n}"),
                method,
                "ln_likelihood",
            );
            let (y, sd) = mean_and_sd(&found);
            Point { x: n as f64, y, sd }
        };
        Series {
            name: method.name().to_owned(),
            points: ratings.iter().map(point).collect(),
        }
    };
    Panel {
        title: format!("{clusters} clusters"),
        x_label: "ratings of each user".to_owned(),
        y_label: "mean ln P of a held-out rating".to_owned(),
        series: METHODS.into_iter().map(series).collect(),
    }
}

fn gaps(records: &[Record], clusters: &[usize], ratings: &[usize]) -> TextTable {
    let mut rows = Vec::new();
    for c in clusters {
        for n in ratings {
            let setting = format!("clusters={c};n={n}");
            let of = |method, metric| mean(&values(records, &setting, method, metric));
            let (own, em, gibbs) = (
                of(Method::Own, "ln_likelihood"),
                of(Method::Em, "ln_likelihood"),
                of(Method::Auxiliary, "ln_likelihood"),
            );
            let gap = (gibbs - em) / gibbs.abs();
            let time = of(Method::Em, "seconds") / of(Method::Auxiliary, "seconds");
            rows.push(vec![
                c.to_string(),
                n.to_string(),
                digits(own),
                digits(em),
                digits(of(Method::OneStep, "ln_likelihood")),
                digits(gibbs),
                format!("{:.1}%", 100.0 * gap),
                if em >= own - 1e-3 && em <= gibbs + 1e-3 {
                    "yes"
                } else {
                    "no"
                }
                .to_owned(),
                format!("1/{:.0}", 1.0 / time),
            ]);
        }
    }
    TextTable {
        title: "EM between own model and sampler, and its share of the time".to_owned(),
        header: header(&[
            "clusters", "ratings", "own", "EM", "one step", "sampler", "gap", "between", "time",
        ]),
        rows,
    }
}
