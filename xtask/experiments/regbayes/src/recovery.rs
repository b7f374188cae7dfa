//! Features and labels recovered from data drawn from the models themselves; holes too.

use npb_baselines::{LinearConfig, LinearSvm, MeanImputer, OneAgainstRest};
use npb_data::{Labels, Mask, Table, Targets, metrics, splits};
use npb_infer::{VbLimits, Xoshiro256PlusPlus, stream};
use npb_linalg::dot;
use npb_priors::dist::Normal;
use npb_regbayes::tasks::TaskData;
use npb_regbayes::{
    FeatureConfig, FeatureState, IlsvmConfig, LabelUpdate, MtIlsvmConfig, classes, tasks,
};
use rand::RngExt;

use super::labels::OURS;
use npb_kit::tables::{find, overview};
use npb_kit::{
    Context, Layer, Outcome, Panel, Report, Result, ResultRow, Scale, Trial, lines, summarise,
};

pub(super) const ILSVM: &str = "npb:ilsvm";

/// Which model the rows are drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    /// Columns have features, rows have loadings, several labels.
    Tasks,
    /// Rows have features, columns have loadings, three classes.
    Classes,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Classes => "classes",
        }
    }

    fn ours(self) -> &'static str {
        match self {
            Self::Tasks => OURS,
            Self::Classes => ILSVM,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    Ours {
        cost: f64,
        truncation: usize,
    },
    TwoStage {
        cost: f64,
        truncation: usize,
    },
    /// On the inputs, holes filled with column means.
    Linear,
    /// Told features and weights.
    Truth,
}

const TRUE_FEATURES: usize = 5;
const N_COLUMNS: usize = 30;
const N_TASKS: usize = 6;
const N_CLASSES: usize = 3;
const NOISE: f64 = 0.5;
const COSTS: [f64; 4] = [0.001, 0.01, 0.1, 1.0];
const MIDDLE: f64 = 0.1;
const TRUNCATIONS: [usize; 3] = [10, 20, 40];

/// One drawn problem.
struct Drawn {
    train: Table,
    test: Table,
    /// One entry per row and task, or the class of every row.
    train_labels: Vec<usize>,
    test_labels: Vec<usize>,
    /// What the true features and weights say of the test rows.
    truth: Vec<usize>,
    /// True features, feature by feature, of columns or of training rows.
    features: Vec<Vec<f64>>,
}

fn normals(n: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let normal = Normal::new(0.0, 1.0).expect("a variance of 1");
    (0..n).map(|_| normal.sample(rng)).collect()
}

/// Features of `n` items: each on with probability 0.3.
fn switches(n: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<f64>> {
    let one = |rng: &mut Xoshiro256PlusPlus| f64::from(u8::from(rng.random::<f64>() < 0.3));
    (0..TRUE_FEATURES)
        .map(|_| (0..n).map(|_| one(rng)).collect())
        .collect()
}

fn draw(source: Source, n: usize, missing: f64, seed: u64) -> Result<Drawn> {
    let rng = &mut stream(seed, [0, 0, 0, 1]);
    let (rows, d) = (2 * n, N_COLUMNS);
    let of_items = switches(if source == Source::Tasks { d } else { rows }, rng);
    let loadings: Vec<Vec<f64>> = (0..TRUE_FEATURES)
        .map(|_| normals(if source == Source::Tasks { rows } else { d }, rng))
        .collect();
    let noise = normals(rows * d, rng);
    let cell = |i: usize, j: usize| {
        let (item, other) = if source == Source::Tasks {
            (j, i)
        } else {
            (i, j)
        };
        let parts = of_items.iter().zip(&loadings);
        parts.map(|(z, w)| z[item] * w[other]).sum::<f64>() + NOISE * noise[i * d + j]
    };
    let values: Vec<f64> = (0..rows * d).map(|k| cell(k / d, k % d)).collect();
    // What machines see of a row: its features, or its inputs summed over the columns of each feature.
    let seen = |i: usize| -> Vec<f64> {
        match source {
            Source::Classes => of_items.iter().map(|z| z[i]).collect(),
            Source::Tasks => {
                let row = &values[i * d..(i + 1) * d];
                of_items
                    .iter()
                    .map(|z| dot(z, row) / (d as f64).sqrt())
                    .collect()
            }
        }
    };
    let outputs = if source == Source::Tasks {
        N_TASKS
    } else {
        N_CLASSES
    };
    let weights: Vec<Vec<f64>> = (0..outputs).map(|_| normals(TRUE_FEATURES, rng)).collect();
    let mut labels = Vec::new();
    let mut truth = Vec::new();
    for i in 0..rows {
        let features = seen(i);
        let clean: Vec<f64> = weights.iter().map(|w| 2.0 * dot(w, &features)).collect();
        let blurred: Vec<f64> = normals(outputs, rng)
            .iter()
            .zip(&clean)
            .map(|(e, f)| f + 0.5 * e)
            .collect();
        for (values, into) in [(&blurred, &mut labels), (&clean, &mut truth)] {
            match source {
                Source::Tasks => into.extend(values.iter().map(|f| usize::from(*f > 0.0))),
                Source::Classes => into.push(highest(values)),
            }
        }
    }
    let whole = Table::complete(rows, d, values)?;
    let table = if missing > 0.0 {
        let mask: Mask =
            splits::missing_at_random(&whole, missing, &mut stream(seed, [0, 0, 0, 2]))?;
        whole.hide(&mask)?
    } else {
        whole
    };
    let (first, second): (Vec<usize>, Vec<usize>) = (0..rows).partition(|&i| i < n);
    let per_row = labels.len() / rows;
    let test_labels = labels.split_off(n * per_row);
    let features = match source {
        Source::Tasks => of_items,
        Source::Classes => of_items.into_iter().map(|z| z[..n].to_vec()).collect(),
    };
    Ok(Drawn {
        train: table.select_rows(&first),
        test: table.select_rows(&second),
        train_labels: labels,
        test_labels,
        truth: truth.split_off(n * per_row),
        features,
    })
}

fn highest(values: &[f64]) -> usize {
    (1..values.len()).fold(0, |best, k| if values[k] > values[best] { k } else { best })
}

/// Mean over true features of the largest absolute correlation with a found one.
fn found_again(state: &FeatureState, features: &[Vec<f64>]) -> f64 {
    let n = features[0].len().min(state.n_items());
    let found: Vec<Vec<f64>> = (0..state.n_features())
        .map(|k| (0..n).map(|i| state.indicators[(k, i)]).collect())
        .collect();
    let best = |z: &Vec<f64>| {
        found
            .iter()
            .map(|f| correlation(&z[..n], f).abs())
            .fold(0.0, f64::max)
    };
    features.iter().map(best).sum::<f64>() / features.len() as f64
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let (ma, mb) = (mean(a), mean(b));
    let sum =
        |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(x, y)| f(x - ma, y - mb)).sum::<f64>();
    let scale = (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt();
    if scale > 0.0 {
        sum(&|x, y| x * y) / scale
    } else {
        0.0
    }
}

fn limits(scale: Scale, of_model: VbLimits) -> VbLimits {
    VbLimits {
        max_iterations: scale.smoke_or(3, of_model.max_iterations),
        ..of_model
    }
}

/// Labels of test rows, and the features that were found.
fn predict(
    source: Source,
    method: Method,
    drawn: &Drawn,
    scale: Scale,
    seed: u64,
) -> Result<(Vec<usize>, Option<FeatureState>)> {
    let (cost, truncation, label_update) = match method {
        Method::Truth => return Ok((drawn.truth.clone(), None)),
        Method::Linear => return Ok((linear(source, drawn)?, None)),
        Method::Ours { cost, truncation } => (cost, truncation, LabelUpdate::Profiled),
        Method::TwoStage { cost, truncation } => (cost, truncation, LabelUpdate::TwoStage),
    };
    let factors = |factors: FeatureConfig| FeatureConfig {
        truncation,
        ..factors
    };
    match source {
        Source::Tasks => {
            let default = MtIlsvmConfig::default();
            let config = MtIlsvmConfig {
                seed,
                cost,
                label_update,
                limits: limits(scale, default.limits),
                factors: factors(default.factors),
                ..default
            };
            let names = (0..N_TASKS).map(|m| format!("task{m}"));
            let known: Vec<Option<bool>> =
                drawn.train_labels.iter().map(|&y| Some(y == 1)).collect();
            let targets = Targets::from_bools(names, &known)?;
            let model = tasks::fit(
                &TaskData::from_targets(drawn.train.clone(), &targets)?,
                &config,
            )?;
            let scores = model.predict(&drawn.test)?;
            let cells = (0..drawn.test.n_rows()).flat_map(|i| (0..N_TASKS).map(move |m| (i, m)));
            let labels = cells
                .map(|(i, m)| usize::from(scores.score(i, m) > 0.0))
                .collect();
            Ok((labels, Some(model.state().clone())))
        }
        Source::Classes => {
            let default = IlsvmConfig::default();
            let config = IlsvmConfig {
                seed,
                cost,
                label_update,
                limits: limits(scale, default.limits),
                factors: factors(default.factors),
                ..default
            };
            let names = (0..N_CLASSES).map(|c| c.to_string()).collect();
            let labels =
                Labels::from_codes(names, drawn.train_labels.iter().map(|&y| Some(y)).collect())?;
            let model = classes::fit(&drawn.train, &labels, &config)?;
            let scores = model.predict(&drawn.test)?;
            let labels = (0..drawn.test.n_rows()).map(|i| scores.class(i)).collect();
            Ok((labels, Some(model.state().clone())))
        }
    }
}

fn linear(source: Source, drawn: &Drawn) -> Result<Vec<usize>> {
    let imputer = MeanImputer::fit(&drawn.train)?;
    let (train, test) = (
        imputer.transform(&drawn.train)?,
        imputer.transform(&drawn.test)?,
    );
    let config = LinearConfig {
        c: 0.1,
        ..Default::default()
    };
    if source == Source::Classes {
        return Ok(
            OneAgainstRest::fit(&train, &drawn.train_labels, N_CLASSES, &config)?.predict(&test)?,
        );
    }
    let mut labels = vec![0; drawn.test_labels.len()];
    for m in 0..N_TASKS {
        let own: Vec<bool> = drawn
            .train_labels
            .iter()
            .skip(m)
            .step_by(N_TASKS)
            .map(|&y| y == 1)
            .collect();
        for (i, score) in LinearSvm::fit(&train, &own, &config)?
            .decision(&test)?
            .into_iter()
            .enumerate()
        {
            labels[i * N_TASKS + m] = usize::from(score > 0.0);
        }
    }
    Ok(labels)
}

pub(super) fn run(context: &Context<'_>) -> Result<Report> {
    let (n, trials, missing): (usize, u64, &[f64]) = context.scale.pick(
        (60, 1, &[0.25]),
        (300, 5, &[0.0, 0.25]),
        (300, 20, &[0.0, 0.25, 0.5]),
    );
    let mut all = Vec::new();
    for source in [Source::Tasks, Source::Classes] {
        for &missing in missing {
            let mut cases = vec![
                ("missing", Method::Truth, "truth"),
                ("missing", Method::Linear, "linear-svm"),
            ];
            for cost in COSTS {
                let truncation = TRUNCATIONS[1];
                cases.push(("c", Method::Ours { cost, truncation }, source.ours()));
                cases.push(("c", Method::TwoStage { cost, truncation }, "ibp+svm"));
            }
            for truncation in TRUNCATIONS {
                let cost = MIDDLE;
                cases.push(("k", Method::Ours { cost, truncation }, source.ours()));
            }
            if context.scale == Scale::Smoke {
                cases.truncate(4);
            }
            for (key, method, label) in cases {
                let setting = match (key, method) {
                    ("c", Method::Ours { cost, .. } | Method::TwoStage { cost, .. }) => {
                        format!(";c={cost}")
                    }
                    ("k", Method::Ours { truncation, .. }) => format!(";k={truncation}"),
                    _ => String::new(),
                };
                let setting = format!("model={};missing={missing}{setting}", source.name());
                let (tasks, classes) = (MtIlsvmConfig::default(), IlsvmConfig::default());
                let config = format!("{n}\n{tasks:?}\n{classes:?}");
                let place = ["simulated", &setting, label];
                all.extend(Trial::runs(
                    trials,
                    place,
                    &config,
                    (source, method, missing),
                ));
            }
        }
    }
    let records = context.run_trials(&all, |trial, seed| {
        let (source, method, missing) = trial.work;
        let drawn = draw(source, n, missing, seed)?;
        let (labels, state) = predict(source, method, &drawn, context.scale, seed)?;
        let mut outcome =
            Outcome::metrics([("accuracy", metrics::accuracy(&labels, &drawn.test_labels)?)]);
        if let Some(state) = state {
            let found = found_again(&state, &drawn.features);
            outcome
                .metrics
                .insert("features".to_owned(), state.features_in_use() as f64);
            outcome.metrics.insert("features_found".to_owned(), found);
        }
        Ok(outcome)
    })?;
    let results = summarise(&records, |_, _, _, _| None);
    let figures = vec![figure(&results, missing)?];
    let notes = vec![format!(
        "{TRUE_FEATURES} true features, {N_COLUMNS} columns, {n} training and {n} test rows; noise {NOISE}. features_found: mean over the true features of the \
         largest absolute correlation with an inferred one. `truth` is told features, weights and all inputs."
    )];
    Ok(Report {
        tables: vec![overview(
            "Recovery",
            &results,
            "accuracy features features_found seconds",
        )],
        results,
        figures,
        notes,
    })
}

/// Accuracy against C, one panel for each model; one curve for each method and share of holes.
fn figure(results: &[ResultRow], missing: &[f64]) -> Result<npb_kit::Figure> {
    let panel = |source: Source| {
        let curve = |share: f64, method: &str, has_cost: bool| {
            let point = |&cost: &f64| {
                let c = if has_cost {
                    format!(";c={cost}")
                } else {
                    String::new()
                };
                let setting = format!("model={};missing={share}{c}", source.name());
                let row = find(results, &setting, method, "accuracy")?;
                Some(row.at(cost.log10()))
            };
            let name = format!("{method}, {:.0}% missing", 100.0 * share);
            Layer::line(name, COSTS.iter().filter_map(point))
        };
        let curves = missing.iter().flat_map(|&share| {
            [
                curve(share, source.ours(), true),
                curve(share, "ibp+svm", true),
                curve(share, "linear-svm", false),
                curve(share, "truth", false),
            ]
        });
        let title = format!("drawn from the model of {}", source.name());
        Panel::of_lines(title, ["log10 C", "test accuracy"], curves)
    };
    lines(
        "accuracy-against-c",
        "Labels recovered",
        "Means over trials; bars are standard deviations.",
        &[panel(Source::Tasks), panel(Source::Classes)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_has_labels_that_follow_from_it() {
        for source in [Source::Tasks, Source::Classes] {
            let drawn = draw(source, 200, 0.25, 3).unwrap();
            let right = metrics::accuracy(&drawn.truth, &drawn.test_labels).unwrap();
            // Labels are blurred, but not by much.
            assert!(right > 0.8 && right < 1.0, "{right}");
            assert!((drawn.train.n_missing() as f64 / 6000.0 - 0.25).abs() < 0.02);
            assert_eq!(drawn.features.len(), TRUE_FEATURES);
        }
    }

    #[test]
    fn correlations_are_of_centred_numbers() {
        assert!((correlation(&[0.0, 1.0, 0.0], &[5.0, 3.0, 5.0]) + 1.0).abs() < 1e-12);
        assert_eq!(correlation(&[1.0, 1.0], &[0.0, 1.0]), 0.0);
    }
}
