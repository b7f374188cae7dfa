//! Features help where there are few entries or none; levels and rates come back.

use npb_bsvd::npb_data::{Rating, Ratings};
use npb_bsvd::{
    BsvdConfig, BsvdData, BsvdSampler, Cells, Features, Likelihood, SideInformation, Successes,
    fit, missingness, npb_priors::GammaPrior,
};
use npb_infer::{SweepPlan, stream};
use rand::RngExt;
use rand_distr::StandardNormal;

fn config(likelihood: Likelihood) -> BsvdConfig {
    BsvdConfig {
        likelihood,
        candidates: 6,
        sweeps: SweepPlan {
            burn_in: 150,
            keep: 150,
            thin: 1,
        },
        ..BsvdConfig::default()
    }
}

/// Latent values that features of the rows explain, n x m, in part; rows from `cold` on have no entries.
fn with_features(n: usize, m: usize, cold: usize) -> (Vec<f64>, Features, Vec<f64>) {
    let mut rng = stream(3, [0; 4]);
    let mut normals =
        |count: usize| -> Vec<f64> { (0..count).map(|_| rng.sample(StandardNormal)).collect() };
    let (r, g, e) = (normals(n * 2), normals(m * 2), normals(n * m));
    let x: Vec<f64> = (0..n * m)
        .map(|at| {
            let (i, j) = (at / m, at % m);
            r[2 * i] * (g[2 * j] + 1.0) + r[2 * i + 1] * g[2 * j + 1]
        })
        .collect();
    let y = x.iter().zip(&e).map(|(x, e)| x + 0.3 * e).collect();
    assert!(cold < n);
    (x, Features::dense(n, 2, &r).unwrap(), y)
}

#[test]
fn rows_never_seen_are_predicted_from_their_features() {
    let (n, m, cold) = (120, 20, 100);
    let (x, features, y) = with_features(n, m, cold);
    let place = |at: usize| ((at / m) as u32, (at % m) as u32);
    let entries: Vec<Rating> = (0..cold * m)
        .filter(|at| at % 3 != 0)
        .map(|at| {
            let (row, column) = place(at);
            Rating {
                row,
                column,
                value: y[at],
            }
        })
        .collect();
    let ratings = Ratings::new(n, m, &entries).unwrap();
    let unseen = cold * m..n * m;
    let cells = Cells {
        rows: unseen.clone().map(|at| place(at).0).collect(),
        columns: unseen.clone().map(|at| place(at).1).collect(),
        values: Vec::new(),
    };
    let error = |side: SideInformation| {
        let fit = fit(&ratings, side, &cells, &config(Likelihood::Gaussian)).unwrap();
        let squares: f64 = x[unseen.clone()]
            .iter()
            .zip(&fit.moments.mean)
            .map(|(x, mean)| (x - mean).powi(2))
            .sum();
        (squares / cells.len() as f64).sqrt()
    };
    let without = error(SideInformation::default());
    let with = error(SideInformation {
        rows: Some(features),
        columns: None,
    });
    assert!(
        with < 0.2 && without > 1.0,
        "with {with}, without {without}"
    );
}

/// Rows differ in level only, and 40 features have nothing to do with it: how far the predictions of rows never seen are from one another for nothing.
fn spurious(common: GammaPrior) -> f64 {
    let (n, m, cold, q) = (120, 12, 90, 40);
    let mut rng = stream(8, [0; 4]);
    let mut normals =
        |count: usize| -> Vec<f64> { (0..count).map(|_| rng.sample(StandardNormal)).collect() };
    let (levels, known, noise) = (normals(n), normals(n * q), normals(n * m));
    let entry = |at: usize| Rating {
        row: (at / m) as u32,
        column: (at % m) as u32,
        value: levels[at / m] + 0.3 * noise[at],
    };
    let entries: Vec<Rating> = (0..cold * m).map(entry).collect();
    let unseen = cold * m..n * m;
    let cells = Cells {
        rows: unseen.clone().map(|at| entry(at).row).collect(),
        columns: unseen.map(|at| entry(at).column).collect(),
        values: Vec::new(),
    };
    let side = SideInformation {
        rows: Some(Features::dense(n, q, &known).unwrap()),
        columns: None,
    };
    let config = BsvdConfig {
        common,
        ..config(Likelihood::Gaussian)
    };
    let ratings = Ratings::new(n, m, &entries).unwrap();
    let means = fit(&ratings, side, &cells, &config).unwrap().moments.mean;
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let squares: f64 = means.iter().map(|x| (x - mean).powi(2)).sum();
    (squares / means.len() as f64).sqrt()
}

#[test]
fn features_of_no_effect_say_little_of_rows_never_seen() {
    let known_to_be_one = GammaPrior {
        shape: 1e6,
        rate: 1e6,
    };
    let (fixed, learnt) = (
        spurious(known_to_be_one),
        spurious(BsvdConfig::default().common),
    );
    assert!(learnt < 0.7 * fixed, "learnt {learnt}, fixed {fixed}");
}

#[test]
fn what_is_observed_becomes_features() {
    // Two groups of rows that look at two groups of columns.
    let entries: Vec<Rating> = (0..20u32)
        .flat_map(|i| (0..10u32).map(move |j| (i, j)))
        .filter(|(i, j)| (i < &12) == (j < &5))
        .map(|(row, column)| Rating {
            row,
            column,
            value: 1.0,
        })
        .collect();
    let side = missingness(&Ratings::new(20, 10, &entries).unwrap(), 2, 1);
    let rows = side.rows.unwrap();
    let feature = |i: usize| {
        let mut out = [0.0; 2];
        rows.write(i, &mut out);
        out
    };
    assert_eq!((rows.n_rows(), rows.n_features()), (20, 2));
    let apart = |a: [f32; 2], b: [f32; 2]| (a[0] - b[0]).abs().max((a[1] - b[1]).abs());
    assert!(apart(feature(0), feature(11)) < 1e-3 && apart(feature(12), feature(19)) < 1e-3);
    assert!(apart(feature(0), feature(12)) > 1.0);
}

#[test]
fn thresholds_come_back() {
    let truth = [0.0, 0.7, 1.9];
    let (n, m) = (150, 60);
    let mut rng = stream(8, [0; 4]);
    let mut normal = || -> f64 { rng.sample(StandardNormal) };
    let u: Vec<f64> = (0..n).map(|_| normal()).collect();
    let v: Vec<f64> = (0..m).map(|_| normal()).collect();
    let mut entries = Vec::new();
    for i in 0..n {
        for j in 0..m {
            let latent = 0.8 + u[i] * v[j] + normal();
            let level = 1 + truth.iter().filter(|&&t| latent > t).count();
            if (i * 7 + j * 3) % 4 != 0 {
                entries.push(Rating {
                    row: i as u32,
                    column: j as u32,
                    value: level as f64,
                });
            }
        }
    }
    let ratings = Ratings::new(n, m, &entries).unwrap();
    let config = BsvdConfig {
        sweeps: SweepPlan {
            burn_in: 400,
            keep: 400,
            thin: 1,
        },
        ..config(Likelihood::Ordinal { levels: 4 })
    };
    let data = BsvdData::new(&ratings, SideInformation::default(), &config).unwrap();
    let mut sampler = BsvdSampler::new(&data, config).unwrap();
    let mut mean = [0.0; 3];
    for sweep in 1..=800 {
        sampler.sweep().unwrap();
        if sweep > 400 {
            for (mean, t) in mean.iter_mut().zip(&sampler.state().thresholds) {
                *mean += t / 400.0;
            }
        }
    }
    for (mean, t) in mean.iter().zip(truth) {
        assert!((mean - t).abs() < 0.15, "{mean} for {t}");
    }
}

#[test]
fn rates_of_hits_come_back() {
    let (n, m) = (40, 30);
    let mut rng = stream(9, [0; 4]);
    let ability: Vec<f64> = (0..n)
        .map(|_| 0.5 * rng.sample::<f64, _>(StandardNormal))
        .collect();
    let ease: Vec<f64> = (0..m)
        .map(|_| 0.5 * rng.sample::<f64, _>(StandardNormal))
        .collect();
    let (mut successes, mut trials) = (Vec::new(), Vec::new());
    let mut cells = Cells::default();
    let mut rates = Vec::new();
    for i in 0..n {
        for j in 0..m {
            let (row, column) = (i as u32, j as u32);
            let x = ability[i] + ease[j] - 0.4;
            if (i + 2 * j) % 3 == 0 {
                cells.rows.push(row);
                cells.columns.push(column);
                rates.push(npb_priors::special::normal_cdf(x));
                continue;
            }
            let count = if (i + j) % 5 == 0 {
                80
            } else {
                1 + (i * j) as u64 % 6
            };
            let found = (0..count)
                .filter(|_| x + rng.sample::<f64, _>(StandardNormal) > 0.0)
                .count();
            successes.push(Rating {
                row,
                column,
                value: found as f64,
            });
            trials.push(Rating {
                row,
                column,
                value: count as f64,
            });
        }
    }
    let table = |entries: &[Rating]| Ratings::new(n, m, entries).unwrap();
    let config = config(Likelihood::Binomial);
    let side = SideInformation::default();
    let counts = Successes {
        successes: &table(&successes),
        trials: &table(&trials),
    };
    let mean = fit(&counts, side, &cells, &config).unwrap().moments.mean;
    let squares: f64 = mean.iter().zip(&rates).map(|(m, r)| (m - r).powi(2)).sum();
    let error = (squares / rates.len() as f64).sqrt();
    assert!(error < 0.06, "{error}");
}
