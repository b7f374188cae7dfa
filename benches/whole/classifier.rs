//! A classifier of 90,000 rows of 16 columns at its defaults: six clusters with a probit classifier each, a tenth of the cells missing.

use npb_benches::timed;
use npb_data::{Labels, Table};
use npb_infer::stream;
use npb_iqgme::{IqgmeConfig, fit};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use crate::{Outcome, share, table_seed};

const N_TRAIN: usize = 90_000;
const N_TEST: usize = 20_000;
const WIDTH: usize = 16;
const N_CLUSTERS: usize = 6;
const MISSING: f64 = 0.1;

pub fn run() -> Outcome {
    let n = share(N_TRAIN);
    let (rows, is_second) = draw(n);
    let train = table(&rows[..n]);
    let test = table(&rows[n..]);
    let name = |second: &bool| Some(if *second { "b" } else { "a" });
    let labels = Labels::from_strings(&is_second[..n].iter().map(name).collect::<Vec<_>>());
    let config = IqgmeConfig::default();
    let (model, seconds) = timed(|| fit(&train, &labels, &config).expect("good input"));
    let last = model.predict_proba(&test).expect("the columns of the fit");
    let is_a = labels.classes()[0] == "a";
    let second: Vec<f64> = last
        .iter()
        .map(|p| if is_a { *p } else { 1.0 - p })
        .collect();
    let truth = &is_second[n..];
    let density = model.ln_density(&test).expect("the columns of the fit");
    Outcome {
        seconds,
        quality: vec![
            ("auc", auc(&second, truth)),
            ("log_loss", log_loss(&second, truth)),
            (
                "ln_density",
                density.iter().sum::<f64>() / density.len() as f64,
            ),
        ],
    }
}

/// A cluster: mean, square root of its covariance, direction of its classifier.
struct Cluster {
    mean: Vec<f64>,
    root: Vec<Vec<f64>>,
    direction: Vec<f64>,
    intercept: f64,
}

fn draw(n: usize) -> (Vec<Vec<f64>>, Vec<bool>) {
    let rng = &mut stream(table_seed(), [0; 4]);
    let clusters: Vec<Cluster> = (0..N_CLUSTERS).map(|_| cluster(rng)).collect();
    let mut rows = Vec::new();
    let mut labels = Vec::new();
    for _ in 0..n + N_TEST {
        let of = &clusters[rng.random_range(0..N_CLUSTERS)];
        let noise = normals(rng);
        let away: Vec<f64> = of.root.iter().map(|r| dot(r, &noise)).collect();
        let error: f64 = rng.sample(StandardNormal);
        labels.push(dot(&of.direction, &away) + of.intercept + error > 0.0);
        let row = away.iter().zip(&of.mean).map(|(a, m)| {
            let missing = rng.random::<f64>() < MISSING;
            if missing { f64::NAN } else { a + m }
        });
        rows.push(row.collect());
    }
    (rows, labels)
}

fn cluster(rng: &mut impl Rng) -> Cluster {
    let scale = 1.0 / (WIDTH as f64).sqrt();
    let mean = normals(rng).iter().map(|z| 1.4 * z).collect();
    let root = (0..WIDTH)
        .map(|_| normals(rng).iter().map(|z| scale * z).collect())
        .collect();
    let direction = normals(rng);
    let length = dot(&direction, &direction).sqrt();
    let intercept: f64 = rng.sample(StandardNormal);
    Cluster {
        mean,
        root,
        direction: direction.iter().map(|z| 3.0 * z / length).collect(),
        intercept: 0.5 * intercept,
    }
}

fn normals(rng: &mut impl Rng) -> Vec<f64> {
    (0..WIDTH).map(|_| rng.sample(StandardNormal)).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn table(rows: &[Vec<f64>]) -> Table {
    let cells = rows.concat();
    let observed: Vec<bool> = cells.iter().map(|x| !x.is_nan()).collect();
    let cells = cells
        .iter()
        .map(|x| if x.is_nan() { 0.0 } else { *x })
        .collect();
    Table::new(rows.len(), WIDTH, cells, &observed).expect("rows of one length")
}

/// Probability that a row of the second class has the higher score.
fn auc(score: &[f64], second: &[bool]) -> f64 {
    let mut order: Vec<usize> = (0..score.len()).collect();
    order.sort_by(|&a, &b| score[a].total_cmp(&score[b]));
    let n_second = second.iter().filter(|s| **s).count() as f64;
    let ranks: f64 = order
        .iter()
        .zip(1..)
        .filter(|(i, _)| second[**i])
        .map(|(_, rank)| f64::from(rank))
        .sum();
    (ranks - n_second * (n_second + 1.0) / 2.0) / n_second / (second.len() as f64 - n_second)
}

fn log_loss(second: &[f64], truth: &[bool]) -> f64 {
    let of_truth = second
        .iter()
        .zip(truth)
        .map(|(p, t)| if *t { *p } else { 1.0 - p });
    -of_truth.map(|p| p.max(1e-300).ln()).sum::<f64>() / truth.len() as f64
}
