//! Factor analysis of a matrix: dense by Gibbs and variational Bayes against the number of factors, and sparse without one.

use npb_bpfa::{
    BpfaConfig, BpfaRows, BpfaVb, BpfaVbConfig, Cells, Centring, Factorisation, ScorePrior,
    fit_ratings,
};
use npb_data::{Rating, Ratings, metrics};
use npb_infer::watch::Checkpoint;
use npb_infer::{SweepPlan, Watch, maximise, stream};
use rand::RngExt;
use rand_distr::StandardNormal;

use npb_kit::films::{Films, Size};
use npb_kit::tables::overview;
use npb_kit::{
    Context, Layer, Outcome, Panel, Point, Record, Report, Result, Run, Scale, Trial, against,
    lines, summarise,
};

pub(super) const FA_GIBBS: Run = |context| run(context, Question::Gibbs);

pub(super) const FA_GENERATED: Run = |context| run(context, Question::Generated);

pub(super) const FA_VB: Run = |context| run(context, Question::Variational);

pub(super) const ACTIVE_FACTORS: Run = |context| run(context, Question::Active);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Gibbs,
    Generated,
    Variational,
    Active,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Films,
    /// Rank 5, a fifth of the cells observed, noise as large as a factor.
    Generated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Dense,
    Sparse,
    Vb(Factorisation),
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Self::Sparse => "npb:bpfa",
            Self::Dense => "npb:bpfa/dense",
            Self::Vb(Factorisation::Joint) => "npb:bpfa/vb-joint",
            Self::Vb(Factorisation::Factorised) => "npb:bpfa/vb-factorised",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Work {
    source: Source,
    model: Model,
    k: usize,
}

/// Key of the random stream of the generated matrix.
const GENERATED: u64 = 1;
const RANK: usize = 5;

struct Sides {
    train: Ratings,
    test: Vec<Rating>,
}

fn run(context: &Context<'_>, question: Question) -> Result<Report> {
    let smoke = context.scale == Scale::Smoke;
    let (burn_in, keep) = context.scale.pick((4, 4), (150, 150), (1_000, 500));
    let plan = npb_kit::sweeps(burn_in, keep);
    let sizes: &[usize] = match (context.scale, question) {
        (Scale::Smoke, _) => &[5],
        (_, Question::Active) => &[10, 20, 40, 160],
        (Scale::Quick, _) => &[2, 5, 10, 20, 40],
        (Scale::Paper, _) => &[5, 10, 20, 40, 80, 160],
    };
    let models: &[Model] = match question {
        Question::Gibbs | Question::Active => &[Model::Dense],
        Question::Generated => &[Model::Dense, Model::Sparse],
        Question::Variational => &[
            Model::Vb(Factorisation::Joint),
            Model::Vb(Factorisation::Factorised),
        ],
    };
    let sources: &[Source] = match question {
        Question::Generated | Question::Variational => &[Source::Generated],
        Question::Gibbs | Question::Active => &[Source::Films],
    };
    let films = match sources.contains(&Source::Films) {
        true => Some(of_films(context)?),
        false => None,
    };
    let mut works = Vec::new();
    if question == Question::Active {
        let k = if smoke { 8 } else { 160 };
        works.push(Work {
            source: Source::Films,
            model: Model::Sparse,
            k,
        });
    }
    for &source in sources {
        for &model in models {
            works.extend(sizes.iter().map(|&k| Work { source, model, k }));
        }
    }
    let trial = |work: Work| {
        let dataset = match work.source {
            Source::Films => "movielens-100k",
            Source::Generated => "simulated",
        };
        let config = format!("{:?}\n{plan:?}\n{:?}", BpfaConfig::default(), context.scale);
        let place = [dataset, &format!("k={}", work.k), work.model.name()];
        Trial::new(place, 0, config, work)
    };
    let trials: Vec<Trial<Work>> = works.into_iter().map(trial).collect();
    let records = context.run_trials(&trials, |trial, seed| {
        let generated;
        let sides = match (trial.work.source, &films) {
            (Source::Films, Some(films)) => films,
            _ => {
                let size = if smoke { (40, 30) } else { (400, 200) };
                generated = generate(size, seed)?;
                &generated
            }
        };
        measure(&trial.work, sides, plan, seed)
    })?;
    report(question, &records)
}

fn of_films(context: &Context<'_>) -> Result<Sides> {
    let films = Films::load(context, Size::HundredThousand)?;
    let split = films.official(context, "u1.test")?;
    let sides = films.sides(&split)?;
    Ok(Sides {
        train: sides.train,
        test: sides.test,
    })
}

/// A matrix of rank 5 with unit noise; a fifth of its cells are for training, a twentieth for testing.
fn generate((n, p): (usize, usize), seed: u64) -> Result<Sides> {
    let rng = &mut stream(seed, [0, 0, 0, GENERATED]);
    let mut normals =
        |n: usize| -> Vec<f64> { (0..n).map(|_| rng.sample(StandardNormal)).collect() };
    let (u, v, noise) = (normals(n * RANK), normals(p * RANK), normals(n * p));
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for i in 0..n {
        for j in 0..p {
            let x: f64 = (0..RANK).map(|k| u[i * RANK + k] * v[j * RANK + k]).sum();
            let entry = Rating {
                row: i as u32,
                column: j as u32,
                value: x + noise[i * p + j],
            };
            match rng.random::<f64>() {
                u if u < 0.2 => train.push(entry),
                u if u < 0.25 => test.push(entry),
                _ => {}
            }
        }
    }
    Ok(Sides {
        train: Ratings::new(n, p, &train)?,
        test,
    })
}

fn measure(work: &Work, sides: &Sides, plan: SweepPlan, seed: u64) -> Result<Outcome> {
    if let Model::Vb(factorisation) = work.model {
        return variational(work.k, factorisation, sides, seed);
    }
    let dense = work.model == Model::Dense;
    let config = BpfaConfig {
        atoms: work.k,
        scores: if dense {
            ScorePrior::Dense
        } else {
            ScorePrior::SpikeSlab
        },
        centring: Centring::RowsAndColumns,
        sweeps: plan,
        stored_draws: 1,
        seed,
        ..BpfaConfig::default()
    };
    let cells = Cells {
        rows: sides.test.iter().map(|e| e.row).collect(),
        columns: sides.test.iter().map(|e| e.column).collect(),
    };
    let clock = std::time::Instant::now();
    let fit = fit_ratings(&sides.train, &cells, &config, &Watch::none())?;
    let seconds = clock.elapsed().as_secs_f64();
    let overall =
        sides.train.iter().map(|e| e.value).sum::<f64>() / sides.train.n_observed() as f64;
    // A column without a training rating is not predicted: the mean of all ratings stands in, for all methods alike.
    let predictions = fit.followed();
    let predicted: Vec<f64> = predictions
        .iter()
        .map(|p| p.map_or(overall, |p| p.mean))
        .collect();
    let truth: Vec<f64> = sides.test.iter().map(|e| e.value).collect();
    let z = -npb_priors::special::normal_quantile(0.05);
    let inside = predictions
        .iter()
        .zip(&truth)
        .filter(|(p, t)| p.is_some_and(|p| (p.mean - **t).abs() <= z * p.predictive_sd));
    let covered = inside.count() as f64 / predictions.iter().flatten().count().max(1) as f64;
    let trace = &fit.traces[0];
    let used = trace.kept(&plan, 2);
    let mut outcome = Outcome::metrics([
        ("rmse", metrics::rmse(&predicted, &truth)?),
        ("coverage_90", covered),
        ("seconds_per_sweep", seconds / plan.total() as f64),
    ]);
    if !dense {
        let mean = used.iter().sum::<f64>() / used.len().max(1) as f64;
        outcome.metrics.insert("active".to_owned(), mean);
        outcome.series.insert(ACTIVE.to_owned(), used);
    }
    Ok(outcome)
}

const ACTIVE: &str = "active";

/// In units of the generated matrix less its mean.
fn variational(
    k: usize,
    factorisation: Factorisation,
    sides: &Sides,
    seed: u64,
) -> Result<Outcome> {
    let n = sides.train.n_observed() as f64;
    let overall = sides.train.iter().map(|e| e.value).sum::<f64>() / n;
    let centred: Vec<Rating> = sides
        .train
        .iter()
        .map(|e| Rating {
            value: e.value - overall,
            ..e
        })
        .collect();
    let ratings = Ratings::new(sides.train.n_rows(), sides.train.n_cols(), &centred)?;
    let rows = BpfaRows::from_ratings(&ratings)?;
    let config = BpfaVbConfig {
        atoms: k,
        factorisation,
        seed,
        ..BpfaVbConfig::default()
    };
    let (limits, begin) = (config.limits, |_| BpfaVb::new(&rows, config));
    let (watch, memory) = (Watch::none(), Checkpoint::in_memory([None]));
    let mut part = watch.part("run", 1.0);
    let (vb, outcome) = maximise(&limits, "elbo", &mut part, (&memory, 0), begin)?;
    let state = vb.state();
    let predicted: Vec<f64> = sides
        .test
        .iter()
        .map(|e| overall + state.fitted(e.row as usize, e.column as usize))
        .collect();
    let truth: Vec<f64> = sides.test.iter().map(|e| e.value).collect();
    let bound = outcome.trace.last().map_or(f64::NAN, |r| r.elbo);
    Ok(Outcome::metrics([
        ("rmse", metrics::rmse(&predicted, &truth)?),
        ("elbo", bound),
        ("iterations", outcome.trace.len() as f64),
    ]))
}

fn report(question: Question, records: &[Record]) -> Result<Report> {
    let results = summarise(records, |_, _, _, _| None);
    let columns = "rmse coverage_90 elbo active iterations seconds_per_sweep seconds";
    let panel = Panel::of_lines(
        "held-out entries",
        ["K", "RMSE"],
        against(&results, "rmse", "k"),
    );
    let mut figures = vec![lines(
        "rmse",
        "Error against the number of factors",
        "",
        &[panel],
    )?];
    let used = records.iter().find_map(|r| r.outcome.series.get(ACTIVE));
    if let (Some(used), Question::Active) = (used, question) {
        figures.push(posterior(used)?);
    }
    let mut notes = vec![
        "movielens-100k: the given split u1 (80,000 / 20,000), means of users and films (shrunk as by five ratings) taken out; predictions are not clipped. Generated: rank 5, unit noise, a fifth of 400 x 200 cells.".to_owned(),
    ];
    if question != Question::Variational {
        notes.push("Predictions are means over kept sweeps; a film that training does not have gets the mean of all ratings.".to_owned());
    }
    Ok(Report {
        tables: vec![overview("Held-out entries", &results, columns)],
        results,
        figures,
        notes,
    })
}

/// Share of the kept sweeps with each number of active factors.
fn posterior(used: &[f64]) -> Result<npb_kit::Figure> {
    let low = used.iter().copied().fold(f64::INFINITY, f64::min) as usize;
    let high = used.iter().copied().fold(0.0, f64::max) as usize;
    let share = |k: usize| {
        let count = used.iter().filter(|&&u| u as usize == k).count();
        count as f64 / used.len() as f64
    };
    let places = low.saturating_sub(1)..=high + 1;
    let curve = Layer::line(
        Model::Sparse.name(),
        places.map(|k| Point::at(k as f64, share(k))),
    );
    let panel = Panel::of_lines(
        "K = 160",
        ["active factors", "posterior probability"],
        [curve],
    );
    lines(
        "active",
        "Number of factors that some row uses",
        "Kept sweeps.",
        &[panel],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_matrix_has_disjoint_sides() {
        let sides = generate((40, 30), 3).unwrap();
        let train: Vec<(u32, u32)> = sides.train.iter().map(|e| (e.row, e.column)).collect();
        assert!(train.len() > 180 && sides.test.len() > 30);
        assert!(
            sides
                .test
                .iter()
                .all(|e| !train.contains(&(e.row, e.column)))
        );
    }
}
