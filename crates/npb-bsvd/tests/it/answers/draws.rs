//! Questions that the stored draws answer.

use npb_bsvd::npb_data::{Exposure, Rating, Ratings};
use npb_bsvd::npb_priors::special::normal_cdf;
use npb_bsvd::{
    Acquisition, BsvdConfig, BsvdFit, BsvdSampler, Cells, DrawTable, Evaluation, Key, Likelihood,
    SideInformation, Successes,
};
use npb_infer::diagnostics::ChainDiagnostics;
use npb_infer::stream;

use super::{
    COLUMNS, Example, LIKELIHOODS, ROWS, close, config, density, latent, levels, mean, moments,
    noise_sd, quantile, sd, trials_of, up_to,
};

fn fitted(likelihood: Likelihood, seed: u64) -> (Example, BsvdFit) {
    let example = Example::new(likelihood, seed);
    let fit = example.fitted(&Cells::default(), &config(likelihood, 25, 40));
    (example, fit)
}

/// `f` of every draw.
fn each(fit: &BsvdFit, f: impl Fn(&npb_bsvd::BsvdState) -> f64) -> Vec<f64> {
    fit.draws().iter().map(f).collect()
}

/// A cell of a row with entries, and one of a row without any.
const CELLS: [(usize, usize); 2] = [(4, 7), (3, 2)];

#[test]
fn cells_are_mixtures_over_the_draws() {
    for (likelihood, cell) in LIKELIHOODS.into_iter().flat_map(|l| CELLS.map(|c| (l, c))) {
        // Of few cells a chain may find no component at all.
        let has_components = |fit: &BsvdFit| fit.draws().iter().any(|draw| draw.rank() > 0);
        let mut fits = (11..).map(|seed| fitted(likelihood, seed).1);
        let fit = fits.find(has_components).expect("one of all seeds");
        let found = fit.cell(cell.0, cell.1).unwrap();
        let means = each(&fit, |draw| moments(&fit, draw, cell).0);
        let noise = mean(&each(&fit, |draw| moments(&fit, draw, cell).1));
        for (found, wanted) in found.values().iter().zip(&means) {
            close(*found, *wanted, 1e-6);
        }
        close(found.mean(), mean(&means), 1e-6);
        close(found.sd(), sd(&means), 1e-6);
        let predictive = (sd(&means).powi(2) + noise).sqrt();
        close(found.predictive_sd(), predictive, 1e-6);
        close(found.quantile(0.3).unwrap(), quantile(&means, 0.3), 1e-6);
        let ends = |level: f64| {
            let (below, above) = (0.5 - 0.5 * level, 0.5 + 0.5 * level);
            (quantile(&means, below), quantile(&means, above))
        };
        let interval = found.interval(0.6).unwrap();
        close(interval.lower, ends(0.6).0, 1e-6);
        close(interval.upper, ends(0.6).1, 1e-6);
        let at_most = |y: f64| mean(&each(&fit, |draw| up_to(&fit, draw, cell, y)));
        let own_levels = levels(likelihood);
        let points = match likelihood {
            Likelihood::Gaussian => vec![mean(&means) - 3.0, mean(&means) + 1.0],
            _ => [&own_levels[..], &[-0.5, 0.5, 1.5, 9.0]].concat(),
        };
        for &y in &points {
            close(found.cdf(y), at_most(y), 1e-6);
        }
        let held = match likelihood {
            Likelihood::Gaussian => &points,
            _ => &own_levels,
        };
        for &y in held {
            let wanted = mean(&each(&fit, |draw| density(&fit, draw, cell, y)));
            close(found.ln_density(y), wanted.ln(), 1e-5);
        }
        let probabilities = found.level_probabilities();
        assert_eq!(probabilities.len(), own_levels.len());
        for (p, level) in probabilities.iter().zip(&own_levels) {
            close(*p, at_most(*level) - at_most(level - 1.0), 1e-6);
        }
        for p in [0.07, 0.5, 0.88] {
            let y = found.predictive_quantile(p).unwrap();
            match likelihood {
                Likelihood::Gaussian => close(at_most(y), p, 1e-6),
                _ => assert!(at_most(y) >= p && at_most(y - 1.0) < p, "{p}: {y}"),
            }
        }
        let interval = found.predictive_interval(0.6).unwrap();
        assert_eq!(interval.lower, found.predictive_quantile(0.2).unwrap());
        assert_eq!(interval.upper, found.predictive_quantile(0.8).unwrap());
        let summary = found.summary(0.9).unwrap();
        let by_name = fit.predict(Key::Index(cell.0), cell.1).unwrap();
        assert_eq!(summary, by_name);
        assert_eq!(
            (summary.mean, summary.sd, summary.interval.level),
            (found.mean(), found.sd(), 0.9)
        );
        assert_eq!(summary.interval, found.interval(0.9).unwrap());
        assert_eq!(
            summary.predictive_interval,
            found.predictive_interval(0.9).unwrap()
        );
        close(summary.predictive_sd, predictive, 1e-6);
        // New entries, draw by draw in turn: shares below a value, and the variance.
        let n = 40 * 250;
        let sample = found.sample(n, &mut stream(3, [0; 4]));
        let variance = sd(&sample).powi(2) / (sd(&means).powi(2) * 39.0 / 40.0 + noise);
        assert!((variance - 1.0).abs() < 0.08, "{variance}");
        for &y in &points {
            let share = sample.iter().filter(|s| **s <= y).count() as f64 / n as f64;
            assert!((share - at_most(y)).abs() < 0.02, "{y}: {share}");
        }
    }
}

/// So many successes among so many trials, by the binomial law of every draw.
#[test]
fn successes_are_binomial_in_every_draw() {
    for likelihood in [Likelihood::Binary, Likelihood::Binomial] {
        let (_, fit) = fitted(likelihood, 12);
        let found = fit.cell(5, 1).unwrap();
        let ways = [1.0, 5.0, 10.0, 10.0, 5.0, 1.0];
        let mut below = 0.0;
        for h in 0..=5u32 {
            let one = each(&fit, |draw| {
                let p = normal_cdf(latent(&fit, draw, 5, 1));
                ways[h as usize] * p.powi(h as i32) * (1.0 - p).powi(5 - h as i32)
            });
            below += mean(&one);
            close(found.ln_successes(h, 5).unwrap(), mean(&one).ln(), 1e-5);
            close(found.successes_cdf(h, 5).unwrap(), below, 1e-6);
        }
    }
}

#[test]
fn many_cells_are_those_one_by_one() {
    let (_, fit) = fitted(Likelihood::Ordinal { levels: 4 }, 13);
    let cells = Cells {
        rows: vec![3, 0, 13, 4],
        columns: vec![10, 0, 5, 4],
        values: Vec::new(),
    };
    let all = fit.predict_all(&cells, 0.7).unwrap();
    let draws = fit.cell_draws(&cells).unwrap();
    for n in 0..4 {
        let cell = (cells.rows[n] as usize, cells.columns[n] as usize);
        assert_eq!(
            all[n],
            fit.cell(cell.0, cell.1).unwrap().summary(0.7).unwrap()
        );
        for (draw, values) in fit.draws().iter().zip(&draws) {
            close(f64::from(values[n]), moments(&fit, draw, cell).0, 1e-5);
        }
    }
}

/// Entries of every other hidden cell.
fn held_out(likelihood: Likelihood, example: &Example) -> (Ratings, Ratings) {
    let other = Example::new(likelihood, 99);
    let hidden = |e: &Rating| {
        example
            .entries
            .get(e.row as usize, e.column as usize)
            .is_none()
    };
    let place = |(n, mut e): (usize, Rating)| {
        e.column = (e.column + 3) % COLUMNS as u32;
        (n % 2 == 0 && hidden(&e)).then_some(e)
    };
    let entries: Vec<Rating> = other.entries.iter().enumerate().filter_map(place).collect();
    let trials: Vec<Rating> = entries
        .iter()
        .map(|e| Rating {
            value: f64::from(trials_of(e.row as usize, e.column as usize).max(e.value as u32)),
            ..*e
        })
        .collect();
    let table = |entries: &[Rating]| Ratings::new(ROWS, COLUMNS, entries).unwrap();
    (table(&entries), table(&trials))
}

/// Errors, densities and positions of held-out entries, one by one.
#[test]
fn evaluations_are_those_of_the_cells() {
    for likelihood in LIKELIHOODS {
        let (example, fit) = fitted(likelihood, 14);
        let (entries, trials) = held_out(likelihood, &example);
        let n = entries.n_observed();
        assert!(n > 8);
        let found = match likelihood {
            Likelihood::Binomial => fit
                .evaluate_hits(&Successes {
                    successes: &entries,
                    trials: &trials,
                })
                .unwrap(),
            _ => fit.evaluate(&entries).unwrap(),
        };
        let (mut squares, mut absolute, mut ln) = (0.0, 0.0, 0.0);
        for (k, entry) in entries.iter().enumerate() {
            let at = (entry.row as usize, entry.column as usize);
            let cell = fit.cell(at.0, at.1).unwrap();
            let (error, [below, up_to, density]) = match likelihood {
                Likelihood::Binomial => {
                    let (h, m) = (entry.value as u32, trials.get(at.0, at.1).unwrap());
                    let cdf = |h: u32| cell.successes_cdf(h, m as u32).unwrap();
                    let below = if h == 0 { 0.0 } else { cdf(h - 1) };
                    let density = cell.ln_successes(h, m as u32).unwrap();
                    (cell.mean() - entry.value / m, [below, cdf(h), density])
                }
                _ => {
                    let below = match likelihood {
                        Likelihood::Gaussian => cell.cdf(entry.value),
                        _ => cell.cdf(entry.value - 1.0),
                    };
                    let density = cell.ln_density(entry.value);
                    (
                        cell.mean() - entry.value,
                        [below, cell.cdf(entry.value), density],
                    )
                }
            };
            (squares, absolute, ln) = (
                squares + error * error,
                absolute + error.abs(),
                ln + density,
            );
            close(found.below[k], below, 1e-9);
            close(found.up_to[k], up_to, 1e-9);
        }
        let n = n as f64;
        assert_eq!(found.entries as f64, n);
        close(found.rmse, (squares / n).sqrt(), 1e-9);
        close(found.mae, absolute / n, 1e-9);
        close(found.ln_density, ln / n, 1e-9);
    }
}

/// Entries within the middle part of their distributions: whole ones, none, and levels of which a part is within.
#[test]
fn coverage_counts_levels_by_the_part_within() {
    let (below, up_to): (Vec<f64>, Vec<f64>) = [
        (0.5, 0.5),   // continuous, within
        (0.05, 0.05), // continuous, below the lower end of .25
        (0.25, 0.25), // at the lower end
        (0.75, 0.75), // at the upper end, which is not within
        (0.25, 0.7),  // a level, wholly within
        (0.0, 0.375), // a third of it
        (0.5, 1.0),   // half of it
        (0.95, 1.0),  // none of it
    ]
    .into_iter()
    .unzip();
    let evaluation = Evaluation {
        entries: 8,
        rmse: 1.0,
        mae: 1.0,
        ln_density: 0.0,
        below,
        up_to,
    };
    let wanted = (1.0 + 1.0 + 1.0 + 1.0 / 3.0 + 0.5) / 8.0;
    close(evaluation.coverage(0.5).unwrap(), wanted, 1e-9);
    assert!(evaluation.coverage(1.0).is_err() && evaluation.coverage(0.0).is_err());
}

/// Cells that are followed, rows not averaged: moments, densities and positions of all kept draws, of chains that do not agree.
#[test]
fn followed_cells_have_the_moments_of_all_draws() {
    for likelihood in [Likelihood::Gaussian, Likelihood::Ordinal { levels: 4 }] {
        let example = Example::new(likelihood, 15);
        let (entries, _) = held_out(likelihood, &example);
        let cells = Cells::of(&entries);
        let mut config = config(likelihood, 0, 12);
        config.chains = 3;
        let rows = config.moves.pop().unwrap();
        config.moves.insert(2, rows);
        let fit = example.fitted(&cells, &config);
        assert_eq!((fit.moments.draws, fit.draws().len()), (36, 36));
        let found = fit.evaluate_followed().unwrap();
        let mut ln = 0.0;
        for (n, entry) in entries.iter().enumerate() {
            let at = (entry.row as usize, entry.column as usize);
            let means = each(&fit, |draw| moments(&fit, draw, at).0);
            let noise = mean(&each(&fit, |draw| moments(&fit, draw, at).1));
            close(fit.moments.mean[n], mean(&means), 1e-5);
            close(fit.moments.sd(n), sd(&means), 1e-5);
            let predictive = (sd(&means).powi(2) + noise).sqrt();
            close(fit.moments.predictive_sd(n), predictive, 1e-5);
            let one = mean(&each(&fit, |draw| density(&fit, draw, at, entry.value)));
            close(fit.moments.ln_density(n), one.ln(), 1e-4);
            ln += one.ln();
            let less = match likelihood {
                Likelihood::Gaussian => entry.value,
                _ => entry.value - 1.0,
            };
            close(
                found.below[n],
                mean(&each(&fit, |draw| up_to(&fit, draw, at, less))),
                1e-5,
            );
            close(
                found.up_to[n],
                mean(&each(&fit, |draw| up_to(&fit, draw, at, entry.value))),
                1e-5,
            );
        }
        close(found.ln_density, ln / cells.len() as f64, 1e-4);
        let errors = entries
            .iter()
            .zip(&fit.moments.mean)
            .map(|(e, m)| (m - e.value).powi(2));
        let rmse = mean(&errors.collect::<Vec<f64>>()).sqrt();
        close(found.rmse, rmse, 1e-9);
    }
}

/// Noise, rank and singular values of every draw.
#[test]
fn noise_ranks_and_singular_values_are_those_of_the_draws() {
    let (_, fit) = fitted(Likelihood::Gaussian, 16);
    let scale = fit.units().1;
    let noise = each(&fit, |draw| scale / draw.noise_precision.sqrt());
    let found = fit.noise_sd(0.5).unwrap();
    close(found.mean, mean(&noise), 1e-9);
    close(found.sd, sd(&noise), 1e-9);
    close(found.interval.lower, quantile(&noise, 0.25), 1e-9);
    close(found.interval.upper, quantile(&noise, 0.75), 1e-9);
    let weight = |weights: &[f32], at: usize| f64::from(weights[at]);
    let (rows, columns) = (fit.row_noise().unwrap(), fit.column_noise().unwrap());
    for (i, found) in rows.iter().enumerate() {
        let own = each(&fit, |d| {
            1.0 / (d.noise_precision * weight(&d.rows.noise_weights, i))
        });
        close(*found, scale * mean(&own).sqrt(), 1e-9);
    }
    for (j, found) in columns.iter().enumerate() {
        let own = each(&fit, |d| {
            1.0 / (d.noise_precision * weight(&d.columns.noise_weights, j))
        });
        close(*found, scale * mean(&own).sqrt(), 1e-9);
    }
    let ranks = fit.rank_distribution().unwrap();
    for (k, share) in ranks.iter().enumerate() {
        let own = fit.draws().iter().filter(|draw| draw.rank() == k).count();
        close(*share, own as f64 / 40.0, 1e-9);
    }
    close(ranks.iter().sum(), 1.0, 1e-9);
    assert_eq!(
        fit.is_at_limit(),
        fit.draws().iter().any(|draw| draw.rank() == 4)
    );
    // Squares of singular values have the trace of the product of the two sides' second moments; of one component the value itself is at hand.
    let found = fit.singular_values(0.5).unwrap();
    let most = fit
        .draws()
        .iter()
        .map(npb_bsvd::BsvdState::rank)
        .max()
        .unwrap();
    assert_eq!(found.len(), most);
    let centred = |factors: &[f32], rank: usize| -> Vec<Vec<f64>> {
        let n = factors.len() / rank.max(1);
        let column = |k: usize| -> Vec<f64> {
            let own: Vec<f64> = (0..n).map(|i| f64::from(factors[i * rank + k])).collect();
            own.iter().map(|x| x - mean(&own)).collect()
        };
        (0..rank).map(column).collect()
    };
    let inner = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let squares = each(&fit, |draw| {
        let rank = draw.rank();
        let (u, v) = (
            centred(&draw.rows.factors, rank),
            centred(&draw.columns.factors, rank),
        );
        let pairs = (0..rank).flat_map(|k| (0..rank).map(move |l| (k, l)));
        let pair = |(k, l): (usize, usize)| {
            draw.scales[k] * draw.scales[l] * inner(&u[k], &u[l]) * inner(&v[k], &v[l])
        };
        scale * scale * pairs.map(pair).sum::<f64>()
    });
    // Mean squares of each value: those of mean and standard deviation.
    let n = 40.0;
    let second: f64 = found
        .iter()
        .map(|s| s.mean * s.mean + s.sd * s.sd * (n - 1.0) / n)
        .sum();
    close(second, mean(&squares), 1e-5);
    assert!(found.iter().all(|s| s.interval.width() >= 0.0));
    for w in found.windows(2) {
        let [a, b] = [w[0].interval, w[1].interval];
        assert!(w[0].mean >= w[1].mean && a.lower >= b.lower && a.upper >= b.upper);
    }
}

/// Strengths of the first component are the values of the draws along the singular vectors of their mean; with its loadings it is that mean's best part.
#[test]
fn strengths_and_loadings_are_along_the_vectors_of_the_mean() {
    let (_, fit) = fitted(Likelihood::Gaussian, 17);
    let scale = fit.units().1;
    let found = fit.components(2).unwrap();
    let (u, v) = (&found.rows, &found.columns);
    let product = |draw: &npb_bsvd::BsvdState, i: usize, j: usize| -> f64 {
        let rank = draw.rank();
        let average = |factors: &[f32], n: usize, k: usize| {
            (0..n)
                .map(|i| f64::from(factors[i * rank + k]))
                .sum::<f64>()
                / n as f64
        };
        let one = |k: usize| {
            let a =
                f64::from(draw.rows.factors[i * rank + k]) - average(&draw.rows.factors, ROWS, k);
            let b = f64::from(draw.columns.factors[j * rank + k])
                - average(&draw.columns.factors, COLUMNS, k);
            draw.scales[k] * a * b
        };
        scale * (0..rank).map(one).sum::<f64>()
    };
    for (k, strength) in found.strengths.iter().enumerate() {
        let along = each(&fit, |draw| {
            let cells = (0..ROWS).flat_map(|i| (0..COLUMNS).map(move |j| (i, j)));
            cells
                .map(|(i, j)| u.of(i)[k] * product(draw, i, j) * v.of(j)[k])
                .sum()
        });
        close(strength.mean, mean(&along), 1e-4);
        close(strength.sd, sd(&along), 1e-4);
        close(strength.interval.lower, quantile(&along, 0.05), 1e-4);
        close(strength.interval.upper, quantile(&along, 0.95), 1e-4);
        for j in 0..COLUMNS {
            let own = each(&fit, |draw| {
                (0..ROWS)
                    .map(|i| u.of(i)[k] * product(draw, i, j))
                    .sum::<f64>()
                    / strength.mean
            });
            close(v.of(j)[k], mean(&own), 1e-4);
            close(v.sd[j * found.columns.n_components + k], sd(&own), 1e-4);
        }
        let length: f64 = (0..ROWS).map(|i| u.of(i)[k].powi(2)).sum();
        close(length, 1.0, 1e-6);
        let sizes = |n: usize| v.of(v.largest(k, n)[n - 1])[k].abs();
        assert!(sizes(1) >= sizes(2) && sizes(2) >= sizes(3));
    }
}

/// Cosines of all columns and rows with one, features included, averages taken out.
#[test]
fn similar_columns_and_rows_are_those_of_the_draws() {
    let (_, fit) = fitted(Likelihood::Gaussian, 18);
    let cosines = |chosen: usize, other: usize, by_row: bool| {
        each(&fit, |draw| {
            let x = |i: usize, j: usize| latent(&fit, draw, i, j);
            let cells: Vec<Vec<f64>> = (0..ROWS)
                .map(|i| (0..COLUMNS).map(|j| x(i, j)).collect())
                .collect();
            let row: Vec<f64> = cells.iter().map(|r| mean(r)).collect();
            let column: Vec<f64> = (0..COLUMNS)
                .map(|j| mean(&cells.iter().map(|r| r[j]).collect::<Vec<_>>()))
                .collect();
            let whole = mean(&row);
            let at = |i: usize, j: usize| cells[i][j] - row[i] - column[j] + whole;
            let line = |k: usize| -> Vec<f64> {
                match by_row {
                    true => (0..COLUMNS).map(|j| at(k, j)).collect(),
                    false => (0..ROWS).map(|i| at(i, k)).collect(),
                }
            };
            let inner = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
            let (a, b) = (line(chosen), line(other));
            inner(&a, &b) / (inner(&a, &a) * inner(&b, &b)).sqrt()
        })
    };
    let columns = fit.similar_columns(6, 100).unwrap();
    let rows = fit.similar_rows(3, 100).unwrap();
    assert_eq!((columns.len(), rows.len()), (COLUMNS - 1, ROWS - 1));
    for (found, chosen, by_row) in [(&columns, 6, false), (&rows, 3, true)] {
        for similar in found {
            assert_ne!(similar.index, chosen);
            let own = cosines(chosen, similar.index, by_row);
            close(similar.cosine, mean(&own), 1e-4);
            close(similar.sd, sd(&own), 1e-4);
        }
        assert!(found.windows(2).all(|w| w[0].cosine >= w[1].cosine));
    }
    assert_eq!(fit.similar_columns(6, 3).unwrap(), columns[..3]);
}

/// Lists by mean value, and by the chance that a column is rated at all and well.
#[test]
fn lists_are_those_of_the_draws() {
    for likelihood in LIKELIHOODS {
        let (example, fit) = fitted(likelihood, 19);
        let own = |j: usize| each(&fit, |draw| moments(&fit, draw, (4, j)).0);
        let found = fit.top(4, 4, &[2, 9]).unwrap();
        let wanted: Vec<usize> = (0..COLUMNS).filter(|j| ![2, 9].contains(j)).collect();
        let mut order = wanted.clone();
        order.sort_by(|&a, &b| mean(&own(b)).total_cmp(&mean(&own(a))));
        for (k, ranked) in found.iter().enumerate() {
            let j = ranked.index;
            assert_eq!((j, ranked.name.as_ref()), (order[k], None));
            close(ranked.mean, mean(&own(j)), 1e-6);
            close(ranked.sd, sd(&own(j)), 1e-6);
            let values: Vec<Vec<f64>> = wanted.iter().map(|&j| own(j)).collect();
            let place = wanted.iter().position(|&w| w == j).unwrap();
            let above = |d: usize| values.iter().filter(|v| v[d] > values[place][d]).count();
            let share = (0..40).filter(|&d| above(d) < 4).count() as f64 / 40.0;
            close(ranked.in_top, share, 1e-9);
        }
        // A level from which on an entry counts, one that it may have.
        let like_from = match likelihood {
            Likelihood::Gaussian => 41.0,
            Likelihood::Ordinal { .. } => 3.0,
            _ => 1.0,
        };
        let row = example.entries.row(4).0;
        let lists = || (0..example.entries.n_rows()).map(|i| example.entries.row(i).0);
        let exposure = Exposure::learn(COLUMNS, lists()).unwrap();
        let chances = exposure.chances(COLUMNS, lists(), row).unwrap();
        let score = |j: usize| {
            let less = match likelihood {
                Likelihood::Gaussian => like_from,
                _ => like_from - 1.0,
            };
            let liked = each(&fit, |draw| 1.0 - up_to(&fit, draw, (4, j), less));
            chances[j] * mean(&liked)
        };
        let mut order: Vec<usize> = (0..COLUMNS)
            .filter(|j| !row.contains(&(*j as u32)))
            .collect();
        order.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
        let found = fit.recommend(4, 3, Some(like_from), None).unwrap();
        assert_eq!(
            found.iter().map(|r| r.index).collect::<Vec<_>>(),
            order[..3]
        );
        for ranked in &found {
            close(ranked.mean, mean(&own(ranked.index)), 1e-6);
            close(ranked.sd, sd(&own(ranked.index)), 1e-6);
            close(ranked.exposure, chances[ranked.index], 1e-12);
            close(ranked.exposure * ranked.liked, score(ranked.index), 1e-9);
        }
    }
}

/// Cells to ask for, one after the other: conditional variances given noisy entries of those before, covariances shrunk by what chance makes of them.
#[test]
fn next_cells_are_those_of_largest_conditional_variance() {
    let (example, fit) = fitted(Likelihood::Gaussian, 20);
    let candidates = Cells::unobserved(&example.entries, 1000, 1);
    let n = candidates.len();
    let place = |c: usize| (candidates.rows[c] as usize, candidates.columns[c] as usize);
    let values: Vec<Vec<f64>> = (0..n)
        .map(|c| each(&fit, |draw| moments(&fit, draw, place(c)).0))
        .collect();
    let noise: Vec<f64> = (0..n)
        .map(|c| mean(&each(&fit, |draw| moments(&fit, draw, place(c)).1)))
        .collect();
    let covariance = |a: usize, b: usize| {
        let (ma, mb) = (mean(&values[a]), mean(&values[b]));
        let each = values[a].iter().zip(&values[b]);
        each.map(|(x, y)| (x - ma) * (y - mb)).sum::<f64>() / 39.0
    };
    let largest = fit
        .next_cells(&candidates, 6, Acquisition::LargestSd)
        .unwrap();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| covariance(b, b).total_cmp(&covariance(a, a)));
    for (wanted, found) in order.iter().zip(&largest) {
        assert_eq!((found.row as usize, found.column as usize), place(*wanted));
        close(found.sd, covariance(*wanted, *wanted).sqrt(), 1e-4);
        assert_eq!(found.remaining_sd, found.sd);
    }
    // The mean square of all correlations, less what independent draws have.
    let mut total = 0.0;
    for a in 0..n {
        for b in (0..n).filter(|b| *b != a) {
            total += covariance(a, b).powi(2) / (covariance(a, a) * covariance(b, b));
        }
    }
    let trust = 1.0 - (1.0 / 39.0) / (total / (n * (n - 1)) as f64);
    assert!((0.2..0.98).contains(&trust), "{trust}");
    let found = fit
        .next_cells(&candidates, 4, Acquisition::Uncorrelated)
        .unwrap();
    let mut matrix: Vec<Vec<f64>> = (0..n)
        .map(|a| {
            (0..n)
                .map(|b| covariance(a, b) * if a == b { 1.0 } else { trust })
                .collect()
        })
        .collect();
    for wanted in &found {
        let c = (0..n)
            .find(|&c| place(c) == (wanted.row as usize, wanted.column as usize))
            .unwrap();
        close(wanted.sd, covariance(c, c).sqrt(), 1e-4);
        // The trust is judged by pairs drawn at random.
        let left = matrix[c][c].max(0.0).sqrt();
        assert!(
            (wanted.remaining_sd / left - 1.0).abs() < 0.08,
            "{wanted:?} {left}"
        );
        let most = (0..n).map(|a| matrix[a][a]).fold(0.0, f64::max);
        assert!(matrix[c][c] > 0.9 * most);
        let known = matrix[c].clone();
        let pivot = known[c] + noise[c];
        for a in 0..n {
            (0..n).for_each(|b| matrix[a][b] -= known[a] * known[b] / pivot);
        }
        matrix[c][c] = 0.0;
    }
    assert!(found[3].remaining_sd < found[3].sd);
}

/// Numbers of a CSV file, line by line, without the first fields.
fn numbers(file: &[u8], skip: usize) -> Vec<Vec<f64>> {
    let text = std::str::from_utf8(file).unwrap();
    let line = |line: &str| {
        line.split(',')
            .skip(skip)
            .map(|x| x.parse().unwrap())
            .collect()
    };
    text.lines().map(line).collect()
}

/// Shape and values of a .npy file of single precision.
fn array(file: &[u8]) -> (String, Vec<f64>) {
    assert_eq!(&file[..6], b"\x93NUMPY");
    let length = usize::from(u16::from_le_bytes([file[8], file[9]]));
    let header = std::str::from_utf8(&file[10..10 + length])
        .unwrap()
        .to_owned();
    let values = file[10 + length..].chunks_exact(4);
    let value = |b: &[u8]| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    (header, values.map(value).collect())
}

#[test]
fn files_hold_the_numbers_of_the_draws() {
    let example = Example::new(Likelihood::Gaussian, 21);
    let mut settings = config(Likelihood::Gaussian, 3, 4);
    (settings.chains, settings.sweeps.thin) = (2, 2);
    let fit = example.fitted(&Cells::default(), &settings);
    let draw = &fit.draws()[5];
    let (rows, columns) = (&draw.rows, &draw.columns);
    let scales: Vec<f32> = draw.scales.iter().map(|s| *s as f32).collect();
    for (part, values, lines) in [
        (DrawTable::RowFactors, &rows.factors, ROWS),
        (DrawTable::ColumnFactors, &columns.factors, COLUMNS),
        (DrawTable::Scales, &scales, 1),
        (DrawTable::RowIntercepts, &rows.intercepts, ROWS),
        (DrawTable::ColumnIntercepts, &columns.intercepts, COLUMNS),
        (DrawTable::RowCoefficients, &rows.coefficients, ROWS),
        (
            DrawTable::ColumnCoefficients,
            &columns.coefficients,
            COLUMNS,
        ),
        (DrawTable::RowNoiseWeights, &rows.noise_weights, ROWS),
        (
            DrawTable::ColumnNoiseWeights,
            &columns.noise_weights,
            COLUMNS,
        ),
    ] {
        let wanted: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
        let (mut csv, mut npy) = (Vec::new(), Vec::new());
        fit.write_draw_csv(5, part, &mut csv).unwrap();
        fit.write_draw_npy(5, part, &mut npy).unwrap();
        let read: Vec<f64> = numbers(&csv, 1).concat();
        let single: Vec<f64> = read.iter().map(|x| f64::from(*x as f32)).collect();
        assert_eq!(single, wanted, "{part:?}");
        let (header, read) = array(&npy);
        assert_eq!(read, wanted, "{part:?}");
        let shape = format!("({lines}, {})", wanted.len() / lines);
        assert!(header.contains(&shape), "{part:?}: {header}");
    }
    let cells = Cells {
        rows: vec![2, 13],
        columns: vec![10, 0],
        values: Vec::new(),
    };
    let draws = fit.cell_draws(&cells).unwrap();
    let wanted: Vec<f64> = draws.concat().iter().map(|x| f64::from(*x)).collect();
    let (mut csv, mut npy) = (Vec::new(), Vec::new());
    fit.write_cells_csv(&cells, &mut csv).unwrap();
    fit.write_cells_npy(&cells, &mut npy).unwrap();
    let lines = std::str::from_utf8(&csv)
        .unwrap()
        .split_once('\n')
        .unwrap()
        .1;
    for (n, line) in numbers(lines.as_bytes(), 0).iter().enumerate() {
        let (row, column) = [(2.0, 10.0), (13.0, 0.0)][n % 2];
        assert_eq!(line[..3], [(n / 2) as f64, row, column]);
        assert_eq!(f64::from(line[3] as f32), wanted[n]);
    }
    let (header, read) = array(&npy);
    assert!(header.contains("(8, 2)") && read == wanted, "{header}");
    let mut csv = Vec::new();
    fit.write_trace_csv(&mut csv).unwrap();
    let text = std::str::from_utf8(&csv).unwrap().split_once('\n').unwrap();
    assert_eq!(
        text.0,
        format!("chain,sweep,kept,{}", BsvdSampler::scalar_names().join(","))
    );
    let lines = numbers(text.1.as_bytes(), 0);
    let traces: Vec<_> = fit.traces().collect();
    assert_eq!((traces.len(), lines.len()), (2, 2 * 11));
    for (n, line) in lines.iter().enumerate() {
        let (chain, sweep) = (n / 11, n % 11 + 1);
        // Every second sweep after the third.
        let kept = f64::from(u8::from(sweep > 3 && (sweep - 3) % 2 == 0));
        assert_eq!(line[..3], [chain as f64, sweep as f64, kept]);
        let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
        let row = traces[chain].row(sweep - 1);
        assert!(line.len() == 3 + row.len() && line[3..].iter().zip(row).all(same));
    }
}

/// Traces of chains that do not agree: what is told of them is of the kept sweeps of all; a scalar that never changes has no error.
#[test]
fn diagnostics_are_those_of_the_kept_sweeps() {
    let example = Example::new(Likelihood::Binary, 22);
    let mut settings = config(Likelihood::Binary, 2, 9);
    (settings.chains, settings.sweeps.thin) = (3, 2);
    let fit = example.fitted(&Cells::default(), &settings);
    let names = BsvdSampler::scalar_names();
    let mut constant = 0;
    for (scalar, (name, found)) in fit.diagnostics().into_iter().enumerate() {
        assert_eq!(name, names[scalar]);
        let kept = fit.traces().map(|trace| {
            let column: Vec<f64> = trace.column(scalar).collect();
            assert_eq!(column.len(), 20);
            (0..9).map(|k| column[2 + 2 * k + 1]).collect::<Vec<f64>>()
        });
        let kept: Vec<Vec<f64>> = kept.collect();
        let mut wanted = ChainDiagnostics::new(&kept);
        let first = kept[0][0];
        if kept.iter().flatten().all(|x| *x == first && x.is_finite()) {
            constant += 1;
            (wanted.rhat, wanted.mcse_mean) = (Some(1.0), Some(0.0));
            (wanted.ess_bulk, wanted.ess_tail) = (Some(27.0), Some(27.0));
        }
        assert_eq!(found, wanted, "{name}");
    }
    // The noise of a probit model, for one.
    assert!(constant > 0);
    // What has not settled: the noise alone is judged.
    let example = Example::new(Likelihood::Gaussian, 22);
    let mut settings = config(Likelihood::Gaussian, 2, 9);
    settings.chains = 3;
    let short = example.fitted(&Cells::default(), &settings);
    let noise = short.diagnostics().into_iter();
    let noise = noise.filter(|(name, _)| name.contains("noise"));
    let high: Vec<String> = noise
        .filter(|(_, of)| of.rhat.is_some_and(|rhat| rhat > 1.05))
        .map(|(name, of)| format!("R-hat of {name} is {:.2}", of.rhat.unwrap()))
        .collect();
    let said = short.unmet();
    assert_eq!(said.len(), high.len());
    assert!(
        high.iter()
            .all(|wanted| said.iter().any(|words| words.starts_with(wanted)))
    );
    // Ranks and noise of all chains.
    let kept = |trace: &npb_infer::Trace| {
        let column: Vec<f64> = trace.column(0).collect();
        (0..9).map(|k| column[2 + 2 * k + 1]).collect::<Vec<f64>>()
    };
    let ranks: Vec<f64> = fit.traces().flat_map(kept).collect();
    for (k, share) in fit.rank_distribution().unwrap().iter().enumerate() {
        let own = ranks.iter().filter(|r| **r == k as f64).count();
        close(*share, own as f64 / 27.0, 1e-9);
    }
    assert_eq!(fit.is_at_limit(), ranks.contains(&4.0));
}

/// Sizes, counts, units, names and draws come back as they were given or made.
#[test]
fn what_was_given_comes_back() {
    let example = Example::new(Likelihood::Gaussian, 23);
    let settings = config(Likelihood::Gaussian, 4, 6);
    let fit = example.fitted(&Cells::default(), &settings);
    assert_eq!((fit.n_rows(), fit.n_cols()), (ROWS, COLUMNS));
    for i in 0..ROWS {
        assert_eq!(fit.row_counts()[i] as usize, example.entries.row(i).0.len());
        assert_eq!(fit.observed().nth(i).unwrap(), example.entries.row(i).0);
    }
    for j in 0..COLUMNS {
        assert_eq!(
            fit.column_counts()[j] as usize,
            example.entries.column(j).0.len()
        );
    }
    assert_eq!(fit.row_counts()[3], 0);
    let values = example.entries.values();
    let squares: f64 = values.iter().map(|v| (v - mean(values)).powi(2)).sum();
    close(fit.units().0, mean(values), 1e-12);
    close(fit.units().1, (squares / values.len() as f64).sqrt(), 1e-12);
    assert_eq!((fit.side(), &fit.config), (&example.side, &settings));
    assert_eq!((fit.draws().len(), fit.last()), (6, &fit.draws()[5]));
    assert_eq!(fit.traces().count(), 1);
    assert!(fit.row_names().is_empty() && fit.column_names().is_empty());
    let ids: Vec<i64> = (0..ROWS as i64).map(|i| 7 - i).collect();
    let titles: Vec<String> = (0..COLUMNS).map(|j| format!("{j}, é \"{j}\"")).collect();
    let named = fit.clone().with_names(&ids, &titles).unwrap();
    assert_eq!(named.column_names(), titles);
    assert_eq!(named.row_names()[9], "-2");
    assert_eq!(named.row(Key::Id(-2)).unwrap(), 9);
    assert_eq!((named.row(9).unwrap(), named.row("-2").unwrap()), (9, 9));
    assert_eq!(named.column(&titles[4]).unwrap(), 4);
    assert!(named.row(Key::Id(9)).is_err() && named.column(COLUMNS).is_err());
    assert_eq!(
        named.top(2, 1, &[]).unwrap()[0].name.as_deref(),
        Some(&*titles[fit.top(2, 1, &[]).unwrap()[0].index])
    );
    let taken: [&str; 0] = [];
    assert!(
        named
            .with_names(&taken, &taken)
            .unwrap()
            .row_names()
            .is_empty()
    );
    let noise = each(&fit, |draw| noise_sd(draw, 0, 0));
    assert!(noise.iter().all(|s| *s > 0.0));
}

/// Without a burn-in each chain goes on from its last draw as a sampler does; entries, units and the seed are those that the fit says.
#[test]
fn chains_that_go_on_make_the_sweeps_of_their_samplers() {
    let example = Example::new(Likelihood::Gaussian, 24);
    let fewer: Vec<Rating> = example.entries.iter().filter(|e| e.row != 5).collect();
    let fewer = Ratings::new(ROWS, COLUMNS, &fewer).unwrap();
    let settings = BsvdConfig {
        chains: 2,
        ..config(Likelihood::Gaussian, 8, 6)
    };
    let none = Cells::default();
    let first = super::of(&fewer, &example.side, &none, &settings);
    let plan = npb_infer::SweepPlan {
        burn_in: 0,
        keep: 5,
        thin: 1,
    };
    let cells = Cells {
        rows: vec![3],
        columns: vec![1],
        values: vec![39.0],
    };
    let further = BsvdConfig {
        sweeps: plan,
        stored_draws: 5,
        ..first.config.clone()
    };
    let on = |watch: &npb_infer::Watch<'_>| {
        first.continue_with(
            &example.entries,
            example.side.clone(),
            &cells,
            &further,
            watch,
        )
    };
    let second = on(&npb_infer::Watch::none()).unwrap();
    assert_eq!(
        (second.units(), second.config.sweeps, second.config.chains),
        (first.units(), plan, 2)
    );
    let data =
        npb_bsvd::BsvdData::new(&example.entries, example.side.clone(), &second.config).unwrap();
    for (chain, (last, found)) in [
        (first.last(), second.last()),
        (&first.draws()[11], &second.draws()[9]),
    ]
    .into_iter()
    .enumerate()
    {
        let config = BsvdConfig {
            chain: chain as u64,
            ..second.config.clone()
        };
        let mut sampler = BsvdSampler::resume(&data, config, last.clone(), 0).unwrap();
        (0..5).for_each(|_| sampler.sweep().unwrap());
        assert_eq!(sampler.state(), found);
    }
    assert_eq!((second.moments.draws, first.row_counts()[5]), (10, 0));
    assert_ne!(second.config.seed, first.config.seed);
    // No features, no names: nothing is made up.
    let plain = super::of(
        &fewer,
        &SideInformation::default(),
        &Cells::default(),
        &config(Likelihood::Gaussian, 2, 2),
    );
    assert_eq!(plain.side(), &SideInformation::default());
}
