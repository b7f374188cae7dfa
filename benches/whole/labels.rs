//! Nineteen rare labels of 320 rows of 260 inputs, as of songs of birds, at the defaults: fifteen factors make the inputs, and each label is an interplay of a few.

use npb_benches::timed;
use npb_data::Table;
use npb_infer::stream;
use npb_regbayes::labels::{LabelsConfig, fit};
use npb_regbayes::tasks::{Task, TaskData};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use crate::Outcome;

const N_TRAIN: usize = 320;
const N_TEST: usize = 3000;
const N_INPUTS: usize = 260;
const N_LABELS: usize = 19;
const N_FACTORS: usize = 15;
/// Factors that a label depends on.
const PARENTS: usize = 4;

pub(crate) fn run() -> Outcome {
    of_seed(1)
}

fn of_seed(seed: u64) -> Outcome {
    let rng = &mut stream(seed, [0; 4]);
    let loadings: Vec<Vec<f64>> = (0..N_FACTORS).map(|_| normals(N_INPUTS, rng)).collect();
    let labels: Vec<Vec<f64>> = (0..N_LABELS).map(|_| directions(rng)).collect();
    // Between one row in twenty and one in seven.
    let rates: Vec<f64> = (0..N_LABELS)
        .map(|_| rng.random_range(0.05..0.15))
        .collect();
    let mut inputs = Vec::new();
    let mut scores = vec![Vec::new(); N_LABELS];
    for _ in 0..N_TRAIN + N_TEST {
        let on: Vec<f64> = (0..N_FACTORS)
            .map(|_| f64::from(u8::from(rng.random::<f64>() < 0.3)) * rng.random_range(0.5..1.5))
            .collect();
        for j in 0..N_INPUTS {
            let mean: f64 = on.iter().zip(&loadings).map(|(z, w)| z * w[j]).sum();
            inputs.push(mean + 2.0 * rng.sample::<f64, _>(StandardNormal));
        }
        for (own, label) in scores.iter_mut().zip(&labels) {
            let score: f64 = on.iter().zip(label).map(|(z, w)| z * w).sum();
            own.push(score + 0.5 * rng.sample::<f64, _>(StandardNormal));
        }
    }
    let truth: Vec<Vec<bool>> = scores
        .iter()
        .zip(&rates)
        .map(|(s, r)| above(s, *r))
        .collect();
    score(&inputs, &truth)
}

fn score(inputs: &[f64], truth: &[Vec<bool>]) -> Outcome {
    let (train, test) = inputs.split_at(N_TRAIN * N_INPUTS);
    let table = |cells: &[f64]| {
        let rows = cells.len() / N_INPUTS;
        Table::complete(rows, N_INPUTS, cells.to_vec()).expect("finite cells")
    };
    let task = |(m, own): (usize, &Vec<bool>)| {
        let known: Vec<Option<bool>> = own[..N_TRAIN].iter().map(|y| Some(*y)).collect();
        Task::label(format!("label {m}"), &known)
    };
    let tasks = truth.iter().enumerate().map(task).collect();
    let data = TaskData::new(table(train), tasks).expect("labels of the rows");
    let (model, seconds) = timed(|| fit(&data, &LabelsConfig::default()).expect("good input"));
    let found = model.predict(&table(test)).expect("the same columns");
    let (mut right, mut loss, mut hits, mut called, mut real) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (m, own) in truth.iter().enumerate() {
        let answers = found.labels(m).expect("a label");
        let probable = found.probabilities(m).expect("log-odds");
        for (n, &yes) in own[N_TRAIN..].iter().enumerate() {
            right += f64::from(u8::from(answers[n] == yes));
            hits += f64::from(u8::from(answers[n] && yes));
            called += f64::from(u8::from(answers[n]));
            real += f64::from(u8::from(yes));
            let p = if yes { probable[n] } else { 1.0 - probable[n] };
            loss -= p.max(1e-300).ln();
        }
    }
    let n = (N_TEST * N_LABELS) as f64;
    Outcome {
        seconds,
        quality: vec![
            ("accuracy", right / n),
            ("f1_micro", 2.0 * hits / (called + real)),
            ("log_loss", loss / n),
        ],
    }
}

/// Weights of a few factors, 0 for the others.
fn directions(rng: &mut impl Rng) -> Vec<f64> {
    let mut own = vec![0.0; N_FACTORS];
    for _ in 0..PARENTS {
        own[rng.random_range(0..N_FACTORS)] = rng.random_range(1.0..2.0);
    }
    own
}

fn normals(n: usize, rng: &mut impl Rng) -> Vec<f64> {
    (0..n).map(|_| rng.sample(StandardNormal)).collect()
}

/// Which scores are among this share of the highest.
fn above(scores: &[f64], share: f64) -> Vec<bool> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    let limit = sorted[((1.0 - share) * scores.len() as f64) as usize];
    scores.iter().map(|s| *s >= limit).collect()
}
