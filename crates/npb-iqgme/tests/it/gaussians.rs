//! Gaussians in a row with holes; shared with the tests of the bound, which see more of a run.

use npb_data::{Labels, Table};
use npb_infer::{VbLimits, stream};
use npb_iqgme::{Init, IqgmeConfig};
use rand::RngExt;
use rand_distr::StandardNormal;

/// Three Gaussians in a row, each cut by its own line (W 3.5.1), with further columns of noise; `missing` of the cells removed, `unlabelled` of the labels.
pub(crate) fn three_gaussians(
    seed: u64,
    n: usize,
    noise_columns: usize,
    missing: f64,
    unlabelled: f64,
) -> (Table, Labels) {
    let mut rng = stream(seed, [0, 0, 7, 0]);
    let p = 2 + noise_columns;
    let (mut values, mut seen, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..n {
        let k = rng.random_range(0..3usize);
        let (centre, c11, c21, c22) = [
            (-3.0, 0.72, -0.5, 0.69),
            (1.0, 0.69, 0.28, 0.79),
            (5.0, 0.72, -0.5, 0.69),
        ][k];
        let (slope, intercept) = [(0.75, 2.25), (-0.58, 0.58), (0.75, -3.75)][k];
        let (a, b): (f64, f64) = (rng.sample(StandardNormal), rng.sample(StandardNormal));
        let x = centre + c11 * a;
        let y = c21 * a + c22 * b;
        values.extend([x, y]);
        values.extend((0..noise_columns).map(|_| rng.sample::<f64, _>(StandardNormal)));
        seen.extend((0..p).map(|_| rng.random::<f64>() >= missing));
        let label = if y > slope * x + intercept {
            "up"
        } else {
            "down"
        };
        labels.push((rng.random::<f64>() >= unlabelled).then_some(label));
    }
    (
        Table::new(n, p, values, &seen).unwrap(),
        Labels::from_strings(&labels),
    )
}

pub(crate) fn config(seed: u64) -> IqgmeConfig {
    IqgmeConfig {
        truncation: 8,
        starts: vec![Init::KMeans(4)],
        limits: VbLimits {
            max_iterations: 200,
            ..IqgmeConfig::default().limits
        },
        normal_scores: false,
        seed,
        ..IqgmeConfig::default()
    }
}

pub(crate) const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Two clusters, each cut into `classes` sectors by the angle from its centre.
pub(crate) fn sectors(
    seed: u64,
    n: usize,
    classes: usize,
    missing: f64,
    unlabelled: f64,
) -> (Table, Labels) {
    let mut rng = stream(seed, [0, 0, 9, 0]);
    let (mut values, mut seen, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..n {
        let (a, b): (f64, f64) = (rng.sample(StandardNormal), rng.sample(StandardNormal));
        let left = rng.random::<bool>();
        let side = if left { -4.0 } else { 4.0 };
        let turn = b.atan2(a) / (2.0 * std::f64::consts::PI) + 0.5;
        let sector = ((turn * classes as f64) as usize).min(classes - 1);
        let class = if left { sector } else { classes - 1 - sector };
        values.extend([side + a, b, rng.sample::<f64, _>(StandardNormal)]);
        seen.extend((0..3).map(|_| rng.random::<f64>() >= missing));
        labels.push((rng.random::<f64>() >= unlabelled).then_some(NAMES[class]));
    }
    let names = NAMES[..classes].iter().map(|n| (*n).to_owned()).collect();
    (
        Table::new(n, 3, values, &seen).unwrap(),
        Labels::with_classes(names, &labels).unwrap(),
    )
}
