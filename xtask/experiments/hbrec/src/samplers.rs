//! EM for point masses between the own model and the Gibbs samplers, on users in clusters.

use npb_hbrec::{
    BernoulliItems, DpGibbsConfig, DpMove, DpState, FiniteEm, FiniteSampler, LikelihoodTable,
    Likes, Mixture, UserModel, Weights, WeightsConfig, fit_gibbs,
};
use npb_infer::{Stop, Xoshiro256PlusPlus, stream};
use npb_priors::dist::Beta;
use rand::RngExt;
use rand::seq::index::sample;

use npb_kit::tables::overview;
use npb_kit::{Context, Outcome, Report, Result, Trial, summarise};

const ITEMS: usize = 100;
/// Both shapes of the items' beta laws: clusters have opinions.
const SHAPE: f64 = 0.5;
/// New users who are asked, with as many ratings as the others have.
const NEW: usize = 50;
const DATA: u64 = 81;
/// Rounds of EM before clusters are merged.
const ROUNDS: usize = 5;
const INFINITE: [&str; 4] = [
    "npb:hbrec/escobar",
    "npb:hbrec/indicators",
    "npb:hbrec/blocked",
    "npb:hbrec/collapsed",
];
const EM: &str = "npb:hbrec/em";
const ONE_STEP: &str = "npb:hbrec/one-step";
const RE_ESTIMATED: &str = "npb:hbrec/em-re-estimated";
const FINITE_EM: &str = "npb:hbrec/finite-em";
const OWN: &str = "own-model";
const METHODS: [&str; 10] = [
    OWN,
    EM,
    ONE_STEP,
    RE_ESTIMATED,
    FINITE_EM,
    "npb:hbrec/finite-gibbs",
    INFINITE[0],
    INFINITE[1],
    INFINITE[2],
    INFINITE[3],
];

#[derive(Clone, Copy)]
struct Work {
    clusters: usize,
    n: usize,
    users: usize,
    sweeps: u64,
}

pub(super) fn samplers(context: &Context<'_>) -> Result<Report> {
    let (users, sweeps, repeats) = context
        .scale
        .pick((40, 40, 1), (200, 400, 3), (200, 1500, 10));
    let config = format!("{users} users, {sweeps} sweeps, {ROUNDS} rounds");
    let mut trials = Vec::new();
    for clusters in [1, 5, 20, 50] {
        for n in [5, 20, 50] {
            let work = Work {
                clusters,
                n,
                users,
                sweeps,
            };
            for method in METHODS {
                let place = ["simulated", &format!("clusters={clusters};n={n}"), method];
                trials.extend(Trial::runs(repeats, place, &config, (method, work)));
            }
        }
    }
    let records = context.run_trials(&trials, |trial, seed| {
        run(trial.work.0, &trial.work.1, seed)
    })?;
    let notes = format!(
        "Rates of each cluster's {ITEMS} items are Beta({SHAPE}, {SHAPE}), the base distribution. {NEW} new users with as many ratings are asked about the rest. \
         Gibbs: one chain of {sweeps} sweeps (an eighth with parameters integrated out), half of them burnt; parameters at their means given the drawn clusters. The finite models have the users' own fits as their parameters."
    );
    let results = summarise(&records, |_, _, _, _| None);
    let metrics = "ln_likelihood clusters effective_draws_per_second seconds";
    Ok(Report {
        tables: vec![overview("Held-out ratings, nats each", &results, metrics)],
        results,
        notes: vec![notes],
        ..Default::default()
    })
}

/// Held-out items and whether they are liked.
type Rest = Vec<(usize, bool)>;

struct Made {
    users: Vec<Likes>,
    new: Vec<(Likes, Rest)>,
}

/// The same data for every method: the seed belongs to the trial.
fn made(work: &Work, seed: u64) -> Result<Made> {
    let rng = &mut stream(seed, [0, 0, 0, DATA]);
    let beta = Beta::new(SHAPE, SHAPE)?;
    let of_cluster = |rng: &mut Xoshiro256PlusPlus| (0..ITEMS).map(|_| beta.sample(rng)).collect();
    let rates: Vec<Vec<f64>> = (0..work.clusters).map(|_| of_cluster(rng)).collect();
    let user = |rng: &mut Xoshiro256PlusPlus| -> Vec<(u32, bool)> {
        let rates = &rates[rng.random_range(0..work.clusters)];
        let order = sample(rng, ITEMS, ITEMS).into_vec();
        let like = |item: usize| (item as u32, rng.random::<f64>() < rates[item]);
        order.into_iter().map(like).collect()
    };
    let mut users = Vec::new();
    for _ in 0..work.users {
        users.push(Likes::new(ITEMS, &user(rng)[..work.n])?);
    }
    let mut new = Vec::new();
    for _ in 0..NEW {
        let all = user(rng);
        let rest = all[work.n..].iter();
        let rest = rest.map(|&(item, liked)| (item as usize, liked)).collect();
        new.push((Likes::new(ITEMS, &all[..work.n])?, rest));
    }
    Ok(Made { users, new })
}

fn run(method: &str, work: &Work, seed: u64) -> Result<Outcome> {
    let made = made(work, seed)?;
    let data: Vec<&Likes> = made.users.iter().collect();
    let model = BernoulliItems::new(vec![[SHAPE; 2]; ITEMS])?;
    if let Some(sampler) = INFINITE.iter().position(|name| *name == method) {
        return gibbs(sampler, &model, &data, &made.new, (work, seed));
    }
    if method == OWN {
        let mut each = Vec::new();
        for (likes, rest) in &made.new {
            let alone = model.fit(likes)?;
            each.push(mean_ln(rest, |item| model.predict_alone(&alone, &item)));
        }
        return Ok(Outcome::metrics([("ln_likelihood", mean(&each))]));
    }
    let clock = std::time::Instant::now();
    let mixture = mixture(method, model, &data, (work, seed))?;
    let seconds = clock.elapsed().as_secs_f64();
    let mut each = Vec::new();
    for (likes, rest) in &made.new {
        let user = mixture.user(likes)?;
        each.push(mean_ln(rest, |item| mixture.predict(&user, &item)));
    }
    Ok(Outcome::metrics([
        ("ln_likelihood", mean(&each)),
        ("seconds", seconds),
    ]))
}

fn mixture(
    method: &str,
    model: BernoulliItems,
    data: &[&Likes],
    (work, seed): (&Work, u64),
) -> Result<Mixture<BernoulliItems>> {
    let config = WeightsConfig {
        fitted: method != ONE_STEP,
        ..WeightsConfig::default()
    };
    match method {
        EM | ONE_STEP => Ok(Mixture::learn(model, data, &config)?),
        RE_ESTIMATED => {
            let mut mixture = Mixture::learn(model, data, &config)?;
            mixture.re_estimate(data, ROUNDS)?;
            Ok(mixture)
        }
        _ => finite(method, model, data, (work, seed)),
    }
}

/// T 4: the users' fits as the K given parameters, tau = 1, (9).
fn finite(
    method: &str,
    model: BernoulliItems,
    data: &[&Likes],
    (work, seed): (&Work, u64),
) -> Result<Mixture<BernoulliItems>> {
    let config = WeightsConfig::default();
    let mut atoms = Vec::new();
    for likes in data {
        atoms.push(model.atom(&model.fit(likes)?, config.atoms));
    }
    let table = LikelihoodTable::of_model(&model, &atoms, data, &vec![None; data.len()])?;
    let alpha = vec![1.0; atoms.len()];
    let mut g = vec![0.0; alpha.len()];
    if method == FINITE_EM {
        let mut em = FiniteEm::new(&table, 1.0, &alpha)?;
        for _ in 0..200 {
            em.step();
        }
        g.copy_from_slice(em.weights());
    } else {
        let mut sampler = FiniteSampler::new(&table, 1.0, &alpha)?;
        for sweep in 1..=work.sweeps {
            sampler.sweep(seed, 0, sweep);
            if sweep > work.sweeps / 2 {
                let drawn = sampler.weights();
                g.iter_mut().zip(drawn).for_each(|(sum, g)| *sum += g);
            }
        }
    }
    let weights = Weights {
        xi: g,
        tau: 0.0,
        fitted_to: Vec::new(),
        trace: Vec::new(),
        stop: Stop::Completed,
    };
    Ok(Mixture::from_parts(model, atoms, weights, config)?)
}

fn moves(sampler: usize) -> Vec<DpMove> {
    let auxiliary = DpMove::Auxiliary { components: 3 };
    let mut moves = match sampler {
        0 => vec![DpMove::Escobar],
        1 => vec![auxiliary, DpMove::Parameters],
        2 => vec![DpMove::Blocked, DpMove::Parameters],
        _ => vec![DpMove::Collapsed],
    };
    moves.push(DpMove::Concentration);
    moves
}

/// The prior of a new user given a drawn partition: parameters at their posterior means given each cluster's users, which for these users is exact and less
/// noisy than the drawn ones.
fn given_partition(
    model: &BernoulliItems,
    data: &[&Likes],
    draw: &DpState<Vec<[f64; 2]>>,
) -> Result<Mixture<BernoulliItems>> {
    let config = WeightsConfig::default();
    let mut atoms = Vec::new();
    for members in draw.members() {
        let members: Vec<(&Likes, f64)> = members.iter().map(|&user| (data[user], 1.0)).collect();
        atoms.push(model.atom(&model.fit_weighted(&members)?, config.atoms));
    }
    let weights = Weights {
        xi: draw.counts().iter().map(|&n| n as f64).collect(),
        tau: draw.concentration,
        fitted_to: Vec::new(),
        trace: Vec::new(),
        stop: Stop::Completed,
    };
    Ok(Mixture::from_parts(model.clone(), atoms, weights, config)?)
}

/// Predictions of a new user average over the draws, each weighted by the evidence of the user's data under it.
fn gibbs(
    sampler: usize,
    model: &BernoulliItems,
    data: &[&Likes],
    new: &[(Likes, Rest)],
    (work, seed): (&Work, u64),
) -> Result<Outcome> {
    // A sweep with parameters integrated out is dear, and takes a chain far.
    let half = if sampler == 3 {
        work.sweeps / 16
    } else {
        work.sweeps / 2
    };
    let config = DpGibbsConfig {
        moves: moves(sampler),
        chains: 1,
        sweeps: npb_kit::sweeps(half, half),
        stored_draws: 50,
        seed,
        ..DpGibbsConfig::default()
    };
    let clock = std::time::Instant::now();
    let fit = fit_gibbs(model, data, &config)?;
    let seconds = clock.elapsed().as_secs_f64();
    let draws = fit.draws().into_iter();
    let mixtures: Vec<Mixture<BernoulliItems>> = draws
        .map(|draw| given_partition(model, data, draw))
        .collect::<Result<_>>()?;
    let mut each = Vec::new();
    for (likes, rest) in new {
        let mut users = Vec::new();
        for mixture in &mixtures {
            users.push(mixture.user(likes)?);
        }
        let mut weights: Vec<f64> = users.iter().map(|user| user.ln_evidence).collect();
        npb_priors::special::ln_normalize(&mut weights);
        each.push(mean_ln(rest, |item| {
            let draws = mixtures.iter().zip(&users).zip(&weights);
            draws.map(|((m, user), w)| w * m.predict(user, &item)).sum()
        }));
    }
    let diagnostics = fit.diagnostics();
    let of_likelihood = diagnostics.iter().find(|(name, _)| name == "ln_likelihood");
    let effective = of_likelihood.and_then(|(_, d)| d.ess_bulk).unwrap_or(0.0);
    Ok(Outcome::metrics([
        ("ln_likelihood", mean(&each)),
        ("clusters", fit.clusters().mean_number),
        ("effective_draws_per_second", effective / seconds),
        ("seconds", seconds),
    ]))
}

fn mean_ln(rest: &[(usize, bool)], p: impl Fn(usize) -> f64) -> f64 {
    let ln = |&(item, liked): &(usize, bool)| {
        let p = p(item);
        if liked { p.ln() } else { (1.0 - p).ln() }
    };
    mean(&rest.iter().map(ln).collect::<Vec<f64>>())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
